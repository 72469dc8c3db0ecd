// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Clients of libumad2sim, local ones and by UDP, that send any control messages and MADs, name
 * other clients, claim other identities, exit, and start again. A control message has one answer,
 * any other message has none. A client that is attached stays attached and gets its MADs, and no
 * other client gets them. A port has IsSM while a client that is attached there is a subnet
 * manager. However late a client reads, each of its requests has an answer or an error.
 */
#include "mads.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "dgram.h"

#include "fabric/base/event.h"
#include "fabric/graph/generate.h"
#include "fabric/sim/sim_wire.h"
#include "fabric/sim/umad2sim.h"

#define HOSTS		4u
#define LOCAL		5u		/* the first ones are programs of this host */
#define PROGRAMS	10u
#define CROWD		140u		/* clients by UDP that exit at once, too many */
#define CROWD_ID	5000u
#define UDP_AT		0x0a000063u	/* the server's address, and port */
#define UDP_PORT	7000u
#define BURST_TID	0xb575u		/* of requests that are sent without reading answers */
#define BURST		100u		/* at most; a socket stores much fewer */
#define STRAY_TID	0x57a9u		/* of a MAD for no client */
#define MAX_BYTES	400u
#define KNOWN		(FAB_SIM_REMOTE + 32u)	/* no client has a higher number */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * A program
 * @in, @ctl: its sockets, -1: it does not run; @num: the number of its client, as it was told
 * @joined: the client from which alone it gets MADs, UINT32_MAX: any; @last: the last MAD that it
 *   received
 * @burst: answers to a burst, and errors
 */
struct program {
	int in, ctl;
	uint32_t num;
	uint32_t joined;
	struct fab_mad last;
	unsigned int burst;
};

/*
 * What the test knows about a client of the server
 * @used: it is attached; @sure: its program runs and has done nothing for which it could be dropped
 * @remote: source of its control messages, sin_port 0: it is local; @heard_ns: time of the last one
 */
struct known {
	bool used, sure;
	uint32_t id;
	uint32_t port;
	bool is_sm;
	struct sockaddr_in remote;
	uint64_t heard_ns;
};

static struct fab *f;
static struct fab_mgmt m;
static struct fab_sim *sim;
static bool has_udp, crowded;
static uint64_t now;
static struct program program[PROGRAMS];
static struct known known[KNOWN];

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "umad2sim: %s\n", what);
	abort();
}

/* ---- addresses ----------------------------------------------------------------- */

struct place {
	socklen_t len;
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_un un;
	};
};

static struct place local(const char *what, uint32_t num)
{
	struct place p;
	int n;

	memset(&p, 0, sizeof(p));
	p.un.sun_family = AF_UNIX;
	n = snprintf(p.un.sun_path + 1, sizeof(p.un.sun_path) - 1,
		     num == UINT32_MAX ? "%s%s" : "%s%s%u", "fuzz:", what, num);
	p.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 2 + (size_t)n);
	return p;
}

static struct place udp(uint32_t addr, uint32_t port)
{
	struct place p;

	memset(&p, 0, sizeof(p));
	p.in.sin_family = AF_INET;
	p.in.sin_addr.s_addr = htonl(addr);
	p.in.sin_port = htons((uint16_t)port);
	p.len = sizeof(p.in);
	return p;
}

static bool is_remote(const struct program *p)
{
	return p >= program + LOCAL;
}

/* Programs of two hosts; the identity is a process number, or a port for MADs. */
static uint32_t id_of(const struct program *p)
{
	return 4000 + (uint32_t)(p - program);
}

static struct place place_of(const struct program *p, bool in)
{
	if (!is_remote(p))
		return local(in ? "in" : "ctl", id_of(p));
	return udp(0x0a000001 + (id_of(p) & 1), in ? id_of(p) : id_of(p) + 1000);
}

/* The address for MADs of client @num, or for control messages with UINT32_MAX. */
static struct place server(const struct program *p, uint32_t num)
{
	if (is_remote(p))
		return udp(UDP_AT, num == UINT32_MAX ? UDP_PORT : UDP_PORT + 1 + num % 60000);
	return num == UINT32_MAX ? local("ctl", num) : local("out", num);
}

/* ---- programs ------------------------------------------------------------------ */

/* Handles all events, which may cause further events. */
static void settle(void)
{
	union fab_event e;

	for (unsigned int i = 0; dgram_event(&e.u64); i++) {
		must(i < 4096, "the server is never done");
		must(e.type == FAB_EVENT_SIM, "an event is another part's");
		fab_sim_event(sim, e.index, now);
	}
}

static int open_at(const struct place *p)
{
	int fd = dgram_socket(p->sa.sa_family, SOCK_DGRAM, 0);

	must(fd >= 0 && !dgram_bind(fd, &p->sa, p->len), "an address is in use");
	return fd;
}

static void start(struct program *p)
{
	const struct place in = place_of(p, true), ctl = place_of(p, false);

	if (p->in >= 0)
		return;
	p->in = open_at(&in);
	p->ctl = open_at(&ctl);
	p->joined = UINT32_MAX;
}

/* Whether @k is a client of @p. */
static bool is_of(const struct known *k, const struct program *p)
{
	if (!k->used || k->id != id_of(p) || !k->remote.sin_port == is_remote(p))
		return false;
	return !is_remote(p) || k->remote.sin_addr.s_addr == place_of(p, false).in.sin_addr.s_addr;
}

static void doubt(const struct program *p)
{
	for (uint32_t i = 0; i < KNOWN; i++)
		if (is_of(&known[i], p))
			known[i].sure = false;
}

static void die(struct program *p)
{
	if (p->in < 0)
		return;
	dgram_close(p->in);
	dgram_close(p->ctl);
	p->in = p->ctl = -1;
	doubt(p);
}

/* Connects to the socket of its client, as the library does, or to that of another client. */
static void join(struct program *p, uint32_t num)
{
	const struct place to = server(p, num);

	if (dgram_connect(p->in, &to.sa, to.len))
		return;
	p->joined = num;
	if (num >= KNOWN || !is_of(&known[num], p))
		doubt(p);
}

/* Reads MADs, and checks that they are for this program. */
static void hear(struct program *p)
{
	struct sim_mad r;
	ssize_t n;

	while ((n = dgram_recv(p->in, &r, sizeof(r), MSG_TRUNC)) >= 0) {
		const uint64_t tid = ib_be64(r.mad.hdr.tid);
		const uint32_t num = (uint32_t)(tid >> 48);

		must(n == sizeof(r) &&
		     (ib_be64(r.length) == IB_MAD_LEN || ib_be64(r.length) == 224),
		     "a datagram of another size");
		must((uint32_t)tid != STRAY_TID, "a MAD that came before the client did");
		p->burst += (uint32_t)tid == BURST_TID;
		p->last = (struct fab_mad){
			.dlid = ib_get_be16(&r.dlid), .slid = ib_get_be16(&r.slid),
			.dqp = ib_be32(r.dqp), .sqp = ib_be32(r.sqp),
		};
		p->last.mad = r.mad;
		if (r.mad.hdr.method & IB_METHOD_RESP)
			must(num < KNOWN && (is_of(&known[num], p) || !known[num].sure),
			     "another client's answer");
	}
}

/* ---- control ------------------------------------------------------------------- */

static bool same(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* Whether an attachment from @from as @id ends the client @k. */
static bool ends(const struct known *k, uint32_t id, const struct place *from)
{
	if (!k->used || !k->remote.sin_port != (from->sa.sa_family == AF_UNIX))
		return false;
	if (!k->remote.sin_port)
		return k->id == id;
	return k->remote.sin_addr.s_addr == from->in.sin_addr.s_addr &&
	       (k->id == id || k->remote.sin_port == from->in.sin_port);
}

static void check_connect(const struct sim_connect *asked, const struct sim_connect *got,
			  const struct place *from, bool ok)
{
	const bool remote = from->sa.sa_family == AF_INET;
	const uint32_t first = remote || !has_udp ? 0 : FAB_SIM_REMOTE;
	const uint32_t most = remote ? FAB_SIM_REMOTE : KNOWN;
	uint32_t port;

	for (uint32_t i = 0; i < KNOWN; i++)
		if (ends(&known[i], asked->id, from))
			known[i].used = false;
	if (!ok)
		return;
	must(got->id >= first && got->id < most, "a number that no client has");
	must(!known[got->id].used || !known[got->id].sure ||
	     (remote && now - known[got->id].heard_ns >= FAB_SIM_SILENT_NS),
	     "the number is another client's");
	must(got->nodeid[SIM_NODEID_LEN - 1] == 0, "a name without an end");
	port = fab_sim_find_host(f, asked->nodeid);
	must(port != FAB_NO_PORT && port == fab_sim_find_host(f, got->nodeid), "another host");
	known[got->id] = (struct known){
		.used = true, .sure = true, .id = asked->id, .port = port, .is_sm = asked->issm,
		.heard_ns = now,
	};
	if (remote)
		known[got->id].remote = from->in;
}

static void check_answer(const struct sim_ctl *asked, const struct sim_ctl *got,
			 const struct place *from)
{
	const bool ok = got->type != SIM_ERROR, remote = from->sa.sa_family == AF_INET;
	struct sim_connect a, b;
	struct known *k;
	uint32_t on;

	must(got->magic == SIM_MAGIC && got->client == asked->client, "not an answer");
	must(!ok || (got->type == asked->type && got->type <= SIM_GET_PKEYS), "another answer");
	if (asked->type == SIM_CONNECT) {
		memcpy(&a, asked->data, sizeof(a));
		memcpy(&b, got->data, sizeof(b));
		a.nodeid[SIM_NODEID_LEN - 1] = 0;
		check_connect(&a, &b, from, ok);
		return;
	}
	k = asked->client < KNOWN ? &known[asked->client] : NULL;
	if (!k || !k->used || !k->remote.sin_port == remote ||
	    (remote && !same(&k->remote, &from->in))) {
		must(!ok, "an answer about somebody else");
		return;
	}
	must(ok || !k->sure || asked->type > SIM_GET_PKEYS,
	     "who is attached is not");
	if (!ok)
		return;
	memcpy(&on, asked->data, sizeof(on));
	k->heard_ns = now;
	if (got->type == SIM_DISCONNECT)
		k->used = false;
	else if (got->type == SIM_SET_ISSM)
		k->is_sm = on;
	else if (got->type == SIM_GET_GUID)
		must(ib_get_be64(got->data) == f->node[f->port[k->port].node].guid, "another GUID");
}

/* Return: the type of the answer, UINT32_MAX if there is none. */
static uint32_t tell(int fd, const struct place *from, const struct place *to, const void *p,
		     size_t len, struct sim_ctl *got)
{
	struct sim_ctl asked;
	uint8_t rest[8];

	settle();
	for (struct program *q = program; q < program + PROGRAMS; q++)
		if (q->in >= 0)
			hear(q);
	while (dgram_recv(fd, rest, sizeof(rest), 0) >= 0)
		;
	memset(&asked, 0, sizeof(asked));
	memcpy(&asked, p, len < sizeof(asked) ? len : sizeof(asked));
	if (dgram_sendto(fd, p, len, 0, &to->sa, to->len) < 0)
		return UINT32_MAX;
	settle();
	if (dgram_recv(fd, got, sizeof(*got), MSG_TRUNC) < 0)
		return UINT32_MAX;
	must(len == sizeof(asked) && asked.magic == SIM_MAGIC && asked.type != SIM_ERROR,
	     "an answer to no message");
	check_answer(&asked, got, from);
	must(dgram_recv(fd, rest, sizeof(rest), 0) < 0, "two answers");
	return got->type;
}

static struct sim_ctl message(uint32_t client, uint32_t type)
{
	return (struct sim_ctl){ .magic = SIM_MAGIC, .client = client, .type = type };
}

static struct sim_ctl hello(uint32_t id, uint8_t how)
{
	static const char *const name[] = {
		"", "host1", "host2", "host3", "host4", "H-5254010000000300", "host", "H-",
	};
	struct sim_connect cc = { .id = id, .issm = how >> 3 & 1 };
	struct sim_ctl c = message(0, SIM_CONNECT);

	snprintf(cc.nodeid, sizeof(cc.nodeid), "%s", name[how & 7]);
	memcpy(c.data, &cc, sizeof(cc));
	return c;
}

/* Whether @p can attach: a number of its kind is free, or that of a silent client of the crowd. */
static bool has_place(const struct program *p)
{
	const uint32_t first = is_remote(p) || !has_udp ? 0 : FAB_SIM_REMOTE;
	const uint32_t most = is_remote(p) ? FAB_SIM_REMOTE : KNOWN;

	if (is_remote(p) && !has_udp)
		return false;
	for (uint32_t i = first; i < most; i++)
		if (!known[i].used || is_of(&known[i], p) ||
		    (known[i].id == CROWD_ID && now - known[i].heard_ns >= FAB_SIM_SILENT_NS))
			return true;
	return false;
}

/*
 * @p has attached as client @num. The server cannot send to a program whose socket for MADs is
 * connected to that of another client.
 */
static void attached(const struct program *p, uint32_t num)
{
	if (p->joined != UINT32_MAX && p->joined != num)
		doubt(p);
}

static void attach(struct program *p, uint8_t how)
{
	const struct place from = place_of(p, false), to = server(p, UINT32_MAX);
	const struct sim_ctl c = hello(id_of(p), how);
	const bool place = has_place(p);
	struct sim_connect cc;
	struct sim_ctl got;

	if (tell(p->ctl, &from, &to, &c, sizeof(c), &got) != SIM_CONNECT) {
		must(!place || (how & 7) > 5 || !is_remote(p), "a remote client is refused");
		return;
	}
	memcpy(&cc, got.data, sizeof(cc));
	p->num = cc.id;
	if (how & 16)
		join(p, p->num);
	attached(p, p->num);
}

/* Sends a message by UDP from a socket that is closed at once. */
static void stranger(const struct place *from, const void *p, size_t len)
{
	const struct place to = udp(UDP_AT, UDP_PORT);
	struct sim_connect cc;
	struct sim_ctl got;
	int fd = open_at(from);

	if (tell(fd, from, &to, p, len, &got) == SIM_CONNECT) {
		memcpy(&cc, got.data, sizeof(cc));
		known[cc.id].sure = false;
	}
	dgram_close(fd);
}

/* Attaches clients by UDP that send nothing more. */
static void crowd(uint8_t how)
{
	const struct sim_ctl c = hello(CROWD_ID, how);

	for (uint32_t i = 0; i < CROWD; i++) {
		const struct place from = udp(0x0a000100 + i, 6000);

		stranger(&from, &c, sizeof(c));
	}
}

/* Sends a control message that is valid, or has bytes of the input, or is cut, or is longer. */
static void control(struct program *p, uint8_t op)
{
	const struct place from = place_of(p, false), to = server(p, UINT32_MAX);
	const struct place other = udp(0x0a000009, 9);
	struct sim_ctl c = message(p->num, get8() % 12), got;
	uint8_t buf[MAX_BYTES] = { 0 };
	size_t len = sizeof(c);
	struct sim_connect cc;

	if (op & 1)
		c.client = get8();
	if (c.type == SIM_CONNECT)
		c = hello(id_of(p), get8());
	for (unsigned int n = op & 2 ? get8() % 16 : 0; n; n--) {
		unsigned int where = get8();

		((uint8_t *)&c)[where % sizeof(c)] = get8();
	}
	if (op & 4)
		len = get8();
	memcpy(buf, &c, sizeof(c));
	if (op & 8) {
		stranger(&other, buf, len);
	} else if (tell(p->ctl, &from, &to, buf, len, &got) == SIM_CONNECT) {
		memcpy(&cc, got.data, sizeof(cc));
		attached(p, cc.id);
	}
}

/* ---- MADs ---------------------------------------------------------------------- */

static void put_mad(struct program *p, const struct fab_mad *mad, uint8_t op)
{
	struct sim_mad r = { .length = ib_to_be64(IB_MAD_LEN) };
	uint32_t num = op & 1 ? get8() : p->num;
	uint8_t buf[MAX_BYTES] = { 0 };
	const struct place other = udp(0x0a000009, 9);
	struct place to;
	size_t len = sizeof(r);

	ib_put_be16(&r.dlid, mad->dlid);
	r.dqp = ib_to_be32(mad->dqp);
	r.sqp = ib_to_be32(mad->sqp);
	r.mad = mad->mad;
	if (op & 2)
		len = get8() | (size_t)(get8() & 1) << 8;
	len = len < MAX_BYTES ? len : MAX_BYTES;
	memcpy(buf, &r, sizeof(r));
	to = server(p, num);
	if (op & 4 && is_remote(p))
		dgram_spoof(&other.sa, &to.sa, to.len, buf, len);
	else
		dgram_sendto(p->in, buf, len, 0, &to.sa, to.len);
}

/* Sends requests of a client that reads nothing until all of them are sent. */
static void burst(struct program *p, unsigned int n)
{
	const struct place to = server(p, p->num);
	struct sim_mad r = { .length = ib_to_be64(IB_MAD_LEN) };
	unsigned int sent = 0;

	if (is_remote(p) || p->num >= KNOWN || !is_of(&known[p->num], p) || !known[p->num].sure ||
	    p->joined != p->num)
		return;
	settle();
	hear(p);
	settle();
	r.mad.hdr.base_version = IB_MAD_BASE_VERSION;
	r.mad.hdr.class_version = IB_SMP_CLASS_VERSION;
	r.mad.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	r.mad.hdr.method = IB_METHOD_GET;
	r.mad.hdr.attr_id = ib_to_be16(IB_SMP_ATTR_NODE_DESC);
	r.mad.hdr.tid = ib_to_be64(BURST_TID);
	memset((uint8_t *)&r.mad + 32, 0xff, 4);	/* DrSLID, DrDLID */
	p->burst = 0;
	for (unsigned int i = 0; i < 2 * n && sent < n; i++) {
		if (dgram_sendto(p->in, &r, sizeof(r), 0, &to.sa, to.len) >= 0)
			sent++;
		else
			settle();
	}
	must(sent == n, "a client that does not read is not read");
	for (unsigned int i = 0; i < n && p->burst < n; i++) {
		settle();
		hear(p);
	}
	must(p->burst == n, "a request has neither an answer nor an error");
}

/* ---- invariants ---------------------------------------------------------------- */

static void check_issm(void)
{
	bool may[HOSTS] = { false }, has[HOSTS] = { false };

	for (uint32_t i = 0; i < KNOWN; i++) {
		const uint32_t node = f->port[known[i].port].node;

		if (!known[i].used || !known[i].is_sm)
			continue;
		may[node] = true;
		has[node] |= known[i].sure;
	}
	for (uint32_t i = 0; i < HOSTS; i++) {
		const bool is = f->port[fab_port_of(&f->node[i], 1)].pi.cap_mask & IB_CAP_SM;

		must(is ? may[i] : !has[i], "IsSM");
	}
}

static void step(uint8_t op)
{
	struct program *p = &program[get8() % PROGRAMS];
	struct fab_mad mad;

	if (op % 16 == 0 && p->in < 0)
		return;
	start(p);
	switch (op % 16) {
	case 0:
		die(p);
		break;
	case 1:
	case 2:
	case 3:
		attach(p, get8());
		break;
	case 4:
	case 5:
	case 6:
		control(p, op / 16);
		break;
	case 7:
		join(p, op & 16 ? get8() : p->num);
		break;
	case 8:
		now += 1ull << get8() % 40;
		fab_mgmt_timer(&m, now);
		for (unsigned int i = 0; !fab_sim_timer(sim, now); i++)
			must(i < 1000, "notices without an end");
		break;
	case 9:
		/* limited to one an input, because it is slow */
		if (op & 32)
			burst(p, 1 + get8() % BURST);
		else if (has_udp && op & 128 && !crowded)
			crowd(get8());
		crowded = !(op & 32) || crowded;
		break;
	case 10:
		hear(p);
		break;
	case 11:
		mad = any_answer(&p->last, op / 16);
		put_mad(p, &mad, op / 16 & 6);
		break;
	default:
		mad = any_mad(get8());
		put_mad(p, &mad, op / 16);
	}
	/* the server does not run yet if more events are to come together */
	if (op & 64)
		return;
	settle();
	check_issm();
}

/* Any text is an address, or the server refuses it. */
static void listen_anywhere(void)
{
	struct fab_sim *s = fab_sim_new(&m, "other", -1, NULL);
	char text[40] = "";

	must(s, "no socket");
	for (unsigned int n = get8() % sizeof(text), i = 0; i < n; i++)
		text[i] = (char)get8();
	fab_sim_listen(s, text);
	fab_sim_free(s);
}

static bool nobody(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

static void begin(uint8_t how)
{
	struct sim_mad stray = { .length = ib_to_be64(IB_MAD_LEN) };
	char why[256];

	f = fab_new();
	if (!f || !fab_generate(f, "star:4", why, sizeof(why)) || !fab_seal(f))
		abort();
	set_up(f);
	fab_mgmt_init(&m, f, nobody, NULL);
	if (how & 1)
		listen_anywhere();
	sim = fab_sim_new(&m, "fuzz", -1, NULL);
	must(sim, "no socket");
	has_udp = how & 2;
	crowded = false;
	must(!has_udp || fab_sim_listen(sim, "10.0.0.99:7000"), "no UDP");
	stray.mad.hdr.base_version = IB_MAD_BASE_VERSION;
	stray.mad.hdr.class_version = IB_SMP_CLASS_VERSION;
	stray.mad.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	stray.mad.hdr.method = IB_METHOD_GET;
	stray.mad.hdr.attr_id = ib_to_be16(IB_SMP_ATTR_NODE_INFO);
	stray.mad.hdr.tid = ib_to_be64(STRAY_TID);
	if (how & 4)
		dgram_at_bind(&stray, sizeof(stray));
	memset(program, 0, sizeof(program));
	memset(known, 0, sizeof(known));
	for (unsigned int i = 0; i < PROGRAMS; i++)
		program[i].in = program[i].ctl = -1;
	now = 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	at = data;
	end = data + size;
	begin(get8());
	for (int ops = 0; ops < 100 && at < end; ops++)
		step(get8());
	settle();
	check_issm();
	for (unsigned int i = 0; i < PROGRAMS; i++)
		die(&program[i]);
	fab_sim_free(sim);
	fab_free(f);
	dgram_end();
	return 0;
}
