// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Each allocation fails once: those that load a topology, give a machine its place, move its first
 * packets, answer a request or a MAD. The failure is reported or counted, nothing leaks, and the
 * fabric continues.
 */
#include "hosts.h"

#include "bad_state.h"
#include "starve.h"

#include <endian.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "fabric/control/control.h"
#include "fabric/fault/fault.h"
#include "front/proto.h"

/* ---- graphs -------------------------------------------------------------------- */

static const char small[] =
	"Switch 2 \"left\"\n"	"[1] \"a\"[1]\n"	"[2] \"right\"[2]\n"
	"Switch 2 \"right\"\n"	"[1] \"b\"[1]\n"	"[2] \"left\"[2]\n"
	"Ca 1 \"a\"\n"		"[1] \"left\"[1]\n"
	"Ca 1 \"b\"\n"		"[1] \"right\"[1]\n";

enum source { PARSED, GENERATED, DAMAGED, SOURCES };

/* Return: a sealed fabric, or NULL with the error that there is no memory. */
static struct fab *load(enum source source, char *why, size_t size)
{
	const struct fab_plan plan = { .spec = "fat-tree:4", .nvidia = true, .aggregation = true,
				       .missing = 1, .slow = 1 };
	struct errors e = { 0 };
	const struct fab_report r = { .say = keep_error, .ctx = &e };
	struct fab_damages damages = { 0 };
	struct fab *g = fab_new();
	bool ok;

	why[0] = 0;
	if (!g)
		return NULL;
	ok = source == GENERATED ? fab_generate(g, "fat-tree:4", why, size) :
	     source == DAMAGED ? fab_generate_plan(g, &plan, &damages, why, size) :
				 fab_topology_parse(g, small, sizeof(small) - 1, &r);
	free(damages.list);
	if (e.n)
		snprintf(why, size, "%s", e.text[0]);
	if (ok == !!why[0])
		fail_msg("%d: %s", ok, why);
	if (ok && fab_seal(g))
		return g;
	fab_free(g);
	return NULL;
}

static void graphs(void **st)
{
	(void)st;
	for (enum source k = 0; k < SOURCES; k++) {
		const long before = live;
		unsigned int n = 0;
		struct fab *g;
		char why[512];

		do {
			starve(++n);
			g = load(k, why, sizeof(why));
			fed();
			assert_int_equal(g != NULL, !failed);
			if (why[0] && !strstr(why, "memory"))
				fail_msg("%s", why);
			fab_free(g);
			assert_int_equal(live, before);
		} while (failed);
		assert_true(n > 10);
	}
}

/* ---- machines ------------------------------------------------------------------ */

static struct ohca_link_cfg machine(uint32_t node)
{
	struct ohca_link_cfg cfg;

	ohca_link_cfg_init(&cfg);
	cfg.port_guid = f->port[fab_port_of(&f->node[node], 1)].guid;
	return cfg;
}

/* A machine connects while allocation @n of the fabric fails. Return: whether its link is up. */
static bool comes(unsigned int n)
{
	const struct ohca_link_cfg cfg = machine(1);
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_err err;
	int fd = ohca_link_connect_start(sock, &cfg, 0, &err), r = 0;

	assert_true(fd >= 0);
	starve(n);
	for (int i = 0; !r && i < 100; i++) {
		unsigned int kept;

		pump(NULL);
		/* the machine's own allocations do not fail */
		kept = left;
		left = 0;
		r = ohca_link_connect_finish(fd, &cfg, &host[0].l, &err);
		left = kept;
	}
	assert_int_not_equal(r, 0);
	if (r > 0) {
		ohca_link_train(host[0].l, &phy);
		pump(NULL);
		pump(NULL);
	}
	fed();
	return r > 0 && f->port[port_of_host(1)].pi.state == IB_PS_INIT;
}

static void places(void **st)
{
	unsigned int n = 0, refused = 0;
	bool hungry;

	do {
		begin_hosts(from_spec("fat-tree:4"));
		hungry = !comes(++n);
		assert_true(failed || !hungry);
		refused += hungry;
		hungry = failed;
		ohca_link_free(host[0].l);
		host[0].l = NULL;
		pump(NULL);
		/* the next machine gets the place */
		assert_true(comes(0));
		teardown_hosts(st);
	} while (hungry);
	assert_true(refused > 5);
}

/* ---- fronts -------------------------------------------------------------------- */

static struct fab_hcas *hcas;
static struct fab_fronts *fronts;

/* Runs all that the daemon has to do now. */
static void pump_front(void)
{
	struct epoll_event ev[16];
	int n;

	while ((n = epoll_wait(epfd, ev, 16, 0)) > 0) {
		bool more = false;

		fab_fronts_pass(fronts);
		fab_attach_timer(door, now);
		for (int i = 0; i < n; i++) {
			const union fab_event e = fab_event_of(&ev[i]);

			if (e.type == FAB_EVENT_ATTACH)
				fab_attach_event(door, e.index);
			if (e.type == FAB_EVENT_FRONT)
				fab_fronts_event(fronts, e.index);
			more |= e.type != FAB_EVENT_HCA;
		}
		if (!more)
			break;
	}
	for (int i = 0; fab_hcas_turn(hcas) | fab_data_round(d) | fab_fronts_settle(fronts); i++)
		assert_true(i < 10000);
}

static void front_put(int fd, struct ohca_front_hdr *msg, enum ohca_front_type type, size_t len,
		      int with)
{
	struct {
		struct cmsghdr hdr;
		int fd;
	} c = { .hdr = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS }, .fd = with };
	struct iovec iov = { .iov_base = msg, .iov_len = len };
	const struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = with >= 0 ? &c : NULL,
		.msg_controllen = with >= 0 ? CMSG_SPACE(sizeof(int)) : 0,
	};

	*msg = (struct ohca_front_hdr){
		.magic = htole32(OHCA_FRONT_MAGIC),
		.version = htole16(OHCA_FRONT_VERSION),
		.type = htole16((uint16_t)type),
		.len = htole32((uint32_t)len),
	};
	assert_int_equal(sendmsg(fd, &m, 0), len);
	pump_front();
}

/* Return: the answer of @type, if it is one; its descriptors are closed. */
static bool front_got(int fd, enum ohca_front_type type, enum ohca_front_status status)
{
	union {
		struct ohca_front_done done;
		struct ohca_front_error error;
		uint8_t b[512];
	} in;
	union {
		char buf[CMSG_SPACE(OHCA_FRONT_FDS * sizeof(int))];
		struct cmsghdr align;
	} c;
	struct iovec iov = { .iov_base = &in, .iov_len = sizeof(in) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
			    .msg_controllen = sizeof(c.buf) };
	const struct cmsghdr *cm;

	if (recvmsg(fd, &m, MSG_DONTWAIT) < (ssize_t)sizeof(in.done.hdr))
		return false;
	cm = CMSG_FIRSTHDR(&m);
	for (unsigned int i = 0; cm && i < OHCA_FRONT_FDS; i++) {
		int passed;

		memcpy(&passed, CMSG_DATA(cm) + i * sizeof(int), sizeof(int));
		close(passed);
	}
	/* it must have a reason */
	if (le16toh(in.done.hdr.type) == OHCA_FRONT_ERROR)
		assert_null(strstr((const char *)in.error.text, "Success"));
	return le16toh(in.done.hdr.type) == type &&
	       (type != OHCA_FRONT_DONE || le32toh(in.done.status) == status);
}

/* A front connects, and shares memory, which the HCA uses then. Return: whether it can. */
static bool front_comes(int fd, int mem)
{
	static struct {
		struct ohca_front_mem mem;
		struct ohca_front_range range[2];
	} m = { .mem = { .n = 2 }, .range = { { .len = 4096 }, { .iova = 8192, .len = 4096 } } };
	struct ohca_front_block b = { .size = 65536 };
	struct ohca_front_hello h = {
		.node_guid = 0x7000, .dm_size = 65536, .vectors = 2, .uars = 2, .ports = 2,
		.vl_cap = 1, .mtu_cap = 5, .width_sup = 1, .speed_sup = 1, .log_max_qp = 3,
		.log_max_cq = 1, .log_max_srq = 1, .log_max_mr = 2,
	};
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	h.clock_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	front_put(fd, &h.hdr, OHCA_FRONT_HELLO, sizeof(h), mem);
	if (!front_got(fd, OHCA_FRONT_WELCOME, 0))
		return false;
	front_put(fd, &b.hdr, OHCA_FRONT_BLOCK, sizeof(b), mem);
	if (!front_got(fd, OHCA_FRONT_DONE, OHCA_FRONT_OK))
		return false;
	front_put(fd, &m.mem.hdr, OHCA_FRONT_MEM, sizeof(m), -1);
	return front_got(fd, OHCA_FRONT_DONE, OHCA_FRONT_OK);
}

static int front_connect(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sa.sun_path, sock);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	pump_front();
	return fd;
}

static void front_life(void **st)
{
	const int mem = memfd_create("memory", MFD_CLOEXEC);
	unsigned int n = 0, refused = 0;
	bool hungry, ok;
	int fd;

	assert_int_equal(ftruncate(mem, 65536), 0);
	do {
		begin_hosts(from_spec("fat-tree:4"));
		hcas = fab_hcas_new(d);
		fronts = fab_fronts_new(&(struct fab_fronts_cfg){
			.hcas = hcas, .d = d, .epfd = epfd, .place = fab_attach_front_place });
		assert_non_null(fronts);
		fab_attach_fronts(door, fronts);
		fd = front_connect();
		starve(++n);
		ok = front_comes(fd, mem);
		hungry = fed();
		assert_true(ok || hungry);
		refused += !ok;
		close(fd);
		pump_front();
		/* the next front gets the place */
		fd = front_connect();
		assert_true(front_comes(fd, mem));
		close(fd);
		pump_front();
		fab_fronts_free(fronts);
		fab_hcas_free(hcas);
		teardown_hosts(st);
	} while (hungry);
	assert_true(refused > 10);
	close(mem);
}

/* ---- packets ------------------------------------------------------------------- */

/* Sends packets until there is no credit, or one packet. Return: their number. */
static unsigned int send_some(bool many)
{
	unsigned int n = 0;

	while (n < (many ? 500 : 1) && send_data(0, 0, LID(7), 4000, 1)) {
		n++;
		pump(NULL);
	}
	return n;
}

static void packets(bool many, void **st)
{
	unsigned int n = 0, dropped = 0;
	bool hungry;

	do {
		unsigned int sent, came = 0;

		begin_hosts(from_spec("fat-tree:4"));
		place(0, 1);
		place(1, 7);
		starve(++n);
		sent = send_some(many);
		hungry = fed();
		assert_true(sent >= (many ? 100 : 1));
		for (unsigned int i = 0; i < 100; i++) {
			came += count_data(1, 0);
			pump(NULL);
		}
		assert_int_equal(came + d->n.drop[FAB_DROP_MEMORY], sent);
		dropped += d->n.drop[FAB_DROP_MEMORY] > 0;
		/* the next one finds the memory that it needs */
		assert_true(send_data(0, 0, LID(7), 400, 2));
		pump(NULL);
		expect_data(1, 0, 400, 2);
		teardown_hosts(st);
	} while (hungry);
	assert_true(n > 5 && dropped > 2);
}

static void first_packet(void **st)
{
	packets(false, st);
}

static void packets_that_wait(void **st)
{
	packets(true, st);
}

/*
 * A multicast head that waits for two members gets no buffer when its wire gets a delay: both
 * copies end. A packet that enters such a wire ends once, even if the wire would have lost it.
 */
static void copies(void **st)
{
	const uint16_t mlid = IB_LID_MCAST_MIN + 5;
	unsigned int sent = 0;
	uint64_t before;
	uint32_t sw, in;

	begin_hosts(from_spec("fat-tree:8"));
	sw = f->port[port_of_host(1)].node;
	for (uint32_t node = 1, n = 0; n < 3; node++) {
		if (f->node[node].sw != FAB_NONE || f->port[port_of_host(node)].node != sw)
			continue;
		place(n, node);
		if (n++)
			add_member(sw, 5, fab_port_num(f, port_of_host(node)));
	}
	in = port_of_host(node_of[0]);
	while (sent < 500 && send_data(0, 0, mlid, 4000, 1)) {
		sent++;
		pump(NULL);
	}
	assert_in_range(sent, 40, 499);
	assert_true(d->blocked);
	assert_true(fab_fault_delay(&m, f->port[in].peer, 1000000));
	starve(1);
	pump_once();
	assert_true(fed());
	assert_int_equal(d->n.drop[FAB_DROP_MEMORY], 2);
	for (unsigned int i = 0; i < 1000; i++) {
		now += 1000000;
		count_data(1, 0);
		count_data(2, 0);
		pump(NULL);
	}
	assert_int_equal(sent + d->n.forks, d->n.delivered + ended());

	/* out by a wire with a delay that loses everything */
	before = ended();
	assert_true(fab_fault_delay(&m, in, 1000000));
	assert_true(fab_fault_wire(&m, in, UINT32_MAX, 0, 1));
	sent = (unsigned int)d->n.delivered;
	host[0].lid = LID(node_of[0]);
	assert_true(send_data(1, 0, host[0].lid, 4000, 1));
	starve(1);
	pump(NULL);
	assert_true(fed());
	assert_int_equal(ended() - before, 1);
	assert_int_equal(d->n.delivered, sent);
	teardown_hosts(st);
}

/*
 * Packets that a machine's wire delays, and for which there is no buffer, have arrived and end
 * there: they are counted as others are, and their room in the ring is free again.
 */
static void delayed(void **st)
{
	const struct ohca_port_counters *c;
	struct ohca_port_counters was;
	unsigned int n = 0;
	uint64_t data;
	uint32_t in;

	begin_hosts(from_spec("fat-tree:4"));
	place(0, 1);
	place(1, 7);
	in = port_of_host(1);
	c = counters(in);
	assert_true(fab_fault_delay(&m, f->port[in].peer, 1000000));
	/* the wire already has the memory for packets on their way */
	assert_true(send_data(0, 0, LID(7), 64, 1));
	pump(NULL);
	assert_int_equal(d->flying, 1);
	now += 1000000;
	pump(NULL);
	expect_data(1, 0, 64, 1);
	was = *c;
	/* more than the ring can hold */
	for (; n < 500; n++) {
		assert_true(send_data(0, 0, n & 1 ? IB_LID_MCAST_MIN + 5 : LID(7), 4000, 1));
		starve(1);
		pump_once();
		assert_true(fed());
	}
	assert_int_equal(d->flying, 0);
	assert_int_equal(d->n.drop[FAB_DROP_MEMORY], n);
	assert_int_equal(c->rcv_pkts - was.rcv_pkts, n);
	assert_int_equal(c->ucast_rcv_pkts - was.ucast_rcv_pkts, n / 2);
	assert_int_equal(c->mcast_rcv_pkts - was.mcast_rcv_pkts, n / 2);
	/* n times as much as for one that finds a buffer */
	data = c->rcv_data - was.rcv_data;
	was = *c;
	assert_true(send_data(0, 0, LID(7), 4000, 2));
	pump(NULL);
	assert_int_equal(d->flying, 1);
	now += 1000000;
	pump(NULL);
	expect_data(1, 0, 4000, 2);
	assert_int_equal(data, n * (c->rcv_data - was.rcv_data));
	teardown_hosts(st);
}

/* ---- requests and MADs --------------------------------------------------------- */

static const char *const requests[] = {
	"{\"command\": \"topology\"}",
	"{\"command\": \"counters\"}",
	"{\"command\": \"lft\", \"node\": \"switch1\"}",
	"{\"command\": \"link\", \"state\": \"down\", \"node\": \"switch1\", \"port\": 2}",
	"{\"command\": \"node\", \"state\": \"kill\", \"node\": \"host2\"}",
	"{\"command\": \"loss\", \"node\": \"switch2\", \"port\": 1, \"rate\": 0.25, \"seed\": 7}",
	"{\"command\": \"preset\", \"node\": \"switch1\", \"port\": 1, "
		"\"counter\": \"SymbolErrorCounter\", \"value\": 90}",
	"{\"command\": \"adaptive\", \"state\": \"on\"}",
	"{\"command\": \"nothing\"}",
};

/* A reply is the same as with memory, or an error that changed nothing, or there is none. */
static void request(const char *text)
{
	char *whole = NULL;
	unsigned int n = 0;

	do {
		struct port_state *was;
		char *reply;

		begin(from_spec("ring:4"));
		was = state_of(f);
		if (!whole) {
			whole = fab_control_answer(&m, NULL, text, strlen(text), NULL);
			fab_free(f);
			begin(from_spec("ring:4"));
		}
		starve(++n);
		reply = fab_control_answer(&m, NULL, text, strlen(text), NULL);
		fed();
		assert_true(reply || failed);
		if (reply && strcmp(reply, whole)) {
			assert_true(failed);
			assert_memory_equal(reply, "{\"error\": ", 10);
			assert_int_equal(first_change(f, was), FAB_NO_PORT);
			assert_int_equal(f->adaptive, 0);
		}
		free(reply);
		free(was);
		fab_free(f);
	} while (failed);
	free(whole);
	assert_true(n > 5);
}

static void control(void **st)
{
	const long before = live;

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(requests); i++)
		request(requests[i]);
	assert_int_equal(live, before);
}

/* Replaces malloc() of ASan in all libraries: open_memstream() and stdio call it, too. */
void *__interceptor_malloc(size_t n);

static unsigned int all_left;	/* allocations of the process until one fails; 0: none */
static bool all_failed;		/* one has failed */

void *malloc(size_t n)
{
	if (all_left && !--all_left) {
		all_failed = true;
		errno = ENOMEM;
		return NULL;
	}
	return __interceptor_malloc(n);
}

/*
 * A part of a topology file is a text that grows in the C library. When it cannot grow, or once
 * could not, there is no reply.
 */
static void text_grows(void **st)
{
	static const char text[] = "{\"command\": \"topology\", \"file\": true}";
	unsigned int n = 0, starved = 0;
	char *whole;

	(void)st;
	begin(from_spec("fat-tree:12"));
	whole = fab_control_answer(&m, NULL, text, sizeof(text) - 1, NULL);
	/* the first buffer has BUFSIZ bytes */
	assert_true(strlen(whole) > 2 * BUFSIZ);
	do {
		char *reply;

		all_failed = false;
		all_left = ++n;
		reply = fab_control_answer(&m, NULL, text, sizeof(text) - 1, NULL);
		all_left = 0;
		assert_int_equal(reply != NULL, !all_failed);
		if (reply)
			assert_string_equal(reply, whole);
		starved += !reply;
		free(reply);
	} while (all_failed);
	assert_true(starved > 5);
	free(whole);
	fab_free(f);
}

static const struct {
	uint16_t attr;
	uint32_t mod;
} sets[] = {
	{ IB_SMP_ATTR_LFT, 3 },
	{ IB_SMP_ATTR_MFT, 1 },
	{ IB_SMP_ATTR_PKEY_TABLE, 1 << 16 },
	{ IB_SMP_ATTR_SL2VL, 1 << 8 | 2 },
	{ IB_SMP_ATTR_VLARB, 1 << 16 | 1 },
	{ IB_SMP_ATTR_GUID_INFO, 0 },
};

/* Fills the pool, so that the next new table needs memory. */
static void fill(struct fab_pool *p)
{
	uint8_t *v = calloc(1, p->size);

	assert_non_null(v);
	while (p->top < p->cap) {
		v[0]++;
		fab_pool_get(p, v);
	}
	free(v);
}

/* A Set with an answer has taken effect; one without memory is lost, and may be repeated. */
static void smps(void **st)
{
	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(sets); i++) {
		unsigned int n = 0, lost = 0;
		uint8_t want[IB_SMP_DATA_LEN];
		enum fab_fate fate;
		bool hungry;

		memset(want, 1, sizeof(want));
		do {
			begin(from_spec("ring:4"));
			fill(&f->sw_pkeys);
			fill(&f->sl2vl);
			fill(&f->vlarb);
			starve(++n);
			fate = ask(IB_METHOD_SET, sets[i].attr, sets[i].mod, "1", want);
			hungry = fed();
			lost += fate == FAB_LOST;
			if (fate == FAB_LOST) {
				assert_true(hungry);
				assert_int_equal(ask(IB_METHOD_SET, sets[i].attr, sets[i].mod, "1",
						     want), FAB_DELIVERED);
			}
			assert_int_equal(status(), 0);
			memcpy(want, got.smp.data, sizeof(want));
			assert_int_equal(ask(IB_METHOD_GET, sets[i].attr, sets[i].mod, "1", NULL),
					 FAB_DELIVERED);
			assert_memory_equal(got.smp.data, want, sizeof(want));
			fab_free(f);
		} while (hungry);
		if (!lost)
			fail_msg("attribute 0x%x needs no memory", sets[i].attr);
	}
}

/* The same for a Set of the performance class: a reset of counters, an interval of samples. */
static void gmps(void **st)
{
	static const uint16_t attrs[] = { IB_PMA_ATTR_PORT_COUNTERS, IB_PMA_ATTR_SAMPLES_CONTROL };

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(attrs); i++) {
		struct fab_mad set = new_mad(IB_CLASS_PERF, IB_METHOD_SET, attrs[i], 0), mad;
		uint8_t *data = (uint8_t *)&set.mad + IB_PMA_DATA_OFF;
		unsigned int n = 0;
		enum fab_fate fate;

		/* all counters of port 1 */
		data[1] = 1;
		data[2] = 0xff;
		data[3] = 0xff;
		do {
			begin(from_spec("ring:4"));
			subnet_up();
			mad = set;
			starve(++n);
			fate = ask_lid(&mad, LID(HOST));
			assert_int_equal(fed(), fate == FAB_LOST);
			mad = set;
			if (fate == FAB_LOST)
				assert_int_equal(ask_lid(&mad, LID(HOST)), FAB_DELIVERED);
			assert_int_equal(status(), 0);
			fab_free(f);
		} while (fate == FAB_LOST);
		assert_int_equal(n, 2);
	}
}

/* The SLs of a link that comes up are folded, or the caller gets an error. */
static void fold(void **st)
{
	uint32_t p, was;
	unsigned int n = 0;
	bool ok;

	(void)st;
	do {
		begin(from_spec("ring:4"));
		p = fab_port_of(&f->node[f->port[f->port[PORT].peer].node], 1);
		was = f->port[p].sl2vl;
		fill(&f->sl2vl);
		starve(++n);
		ok = fab_fold_sl2vl(&m, p, 2);
		assert_int_equal(fed(), !ok);
		assert_int_equal(f->port[p].sl2vl == was, !ok);
		assert_true(fab_fold_sl2vl(&m, p, 2));
		fab_free(f);
	} while (!ok);
	assert_true(n > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(graphs),
		cmocka_unit_test(places),
		cmocka_unit_test(front_life),
		cmocka_unit_test(first_packet),
		cmocka_unit_test(packets_that_wait),
		cmocka_unit_test(copies),
		cmocka_unit_test(delayed),
		cmocka_unit_test(control),
		cmocka_unit_test(text_grows),
		cmocka_unit_test(smps),
		cmocka_unit_test(gmps),
		cmocka_unit_test(fold),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
