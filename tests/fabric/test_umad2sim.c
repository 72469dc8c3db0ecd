// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The datagrams of libumad2sim: responses to clients, clients that are killed, and invalid
 * datagrams.
 */
#include "pass.h"
#include "sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>

#include "fabric/fault/fault.h"
#include "ib/pma.h"

/* ---- a client ------------------------------------------------------------------ */

/* @in: for MADs; @ctl: for control messages */
struct client {
	int in, ctl;
	uint32_t num;
};

/* A control message and its reply. Return: type of the reply. */
static uint32_t control(const struct client *c, uint32_t type, void *data, size_t len)
{
	struct sim_ctl ctl = { .magic = SIM_MAGIC, .client = c->num, .type = type };

	memcpy(ctl.data, data, len);
	assert_int_equal(send(c->ctl, &ctl, sizeof(ctl), 0), sizeof(ctl));
	turn();
	assert_int_equal(recv(c->ctl, &ctl, sizeof(ctl), 0), sizeof(ctl));
	assert_int_equal(ctl.magic, SIM_MAGIC);
	memcpy(data, ctl.data, len);
	return ctl.type;
}

static struct client attach(unsigned int id, const char *host, bool is_sm)
{
	struct client c = { .in = bound("in", id), .ctl = bound("ctl", id) };
	struct sim_connect cc = { .id = id, .issm = is_sm };

	join(c.ctl, "ctl", UINT32_MAX);
	snprintf(cc.nodeid, sizeof(cc.nodeid), "%s", host);
	assert_int_equal(control(&c, SIM_CONNECT, &cc, sizeof(cc)), SIM_CONNECT);
	assert_memory_equal(cc.nodeid, "H-52540100000", 13);
	c.num = cc.id;
	join(c.in, "out", c.num);
	return c;
}

/* Closes the sockets, as if the process was killed. */
static void die(struct client *c)
{
	close(c->in);
	close(c->ctl);
}

static void leave(struct client *c)
{
	uint8_t none[64] = { 0 };

	assert_int_equal(control(c, SIM_DISCONNECT, none, sizeof(none)), SIM_DISCONNECT);
	die(c);
}

static void tell(const struct client *c, const struct sim_mad *r)
{
	assert_int_equal(send(c->in, r, sizeof(*r), 0), sizeof(*r));
}

static bool hears(const struct client *c, struct sim_mad *r)
{
	return recv(c->in, r, sizeof(*r), 0) == sizeof(*r);
}

static enum fab_occupant occupied_by(unsigned int host)
{
	return fab_occupied(&m, fab_port_of(&f->node[host], 1));
}

/* ---- cases --------------------------------------------------------------------- */

static void asks(void **st)
{
	struct client a = attach(11, "", false), b = attach(12, "host3", false);
	uint8_t d[64] = { 0 };
	struct sim_mad r;

	(void)st;
	assert_int_equal(a.num, 0);
	assert_int_equal(b.num, 1);
	assert_int_equal(control(&b, SIM_GET_GUID, d, 64), SIM_GET_GUID);
	assert_true(ib_get_be64(d) == 0x5254010000000300);
	memset(d, 0, sizeof(d));
	assert_int_equal(control(&b, SIM_GET_NODEINFO, d, 64), SIM_GET_NODEINFO);
	assert_true(ib_get_be64(d + 20) == 0x5254010000000301);
	/* many requests at once: each response is sent to its requester */
	for (unsigned int i = 0; i < 40; i++) {
		r = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 2);
		tell(i % 2 ? &a : &b, &r);
	}
	turn();
	for (unsigned int i = 0; i < 40; i++) {
		const struct client *c = i % 2 ? &a : &b;

		assert_true(hears(c, &r));
		assert_int_equal(r.status, 0);
		assert_true(ib_be64(r.mad.hdr.tid) == ((uint64_t)c->num << 48 | 0x1234));
		assert_memory_equal((uint8_t *)&r.mad + IB_SMP_DATA_OFF, "host2", 5);
	}
	assert_false(hears(&a, &r));
	/* without a response the client gets an error */
	r = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 9);
	tell(&a, &r);
	turn();
	assert_true(hears(&a, &r));
	assert_int_equal(ib_be32(r.status), ETIMEDOUT);
	assert_int_equal(r.mad.hdr.method, IB_METHOD_GET);
	leave(&a);
	leave(&b);
}

/* A name of no host, an unknown client. */
static void refused(void **st)
{
	struct client c = attach(21, "host1", false);
	struct sim_connect cc = { .id = 21 };
	uint8_t d[64] = { 0 };

	(void)st;
	strcpy(cc.nodeid, "host");
	assert_int_equal(control(&c, SIM_CONNECT, &cc, sizeof(cc)), SIM_ERROR);
	cc = (struct sim_connect){ .id = 4711 };
	assert_int_equal(control(&c, SIM_CONNECT, &cc, sizeof(cc)), SIM_ERROR);
	assert_int_equal(control(&c, 99, d, 64), SIM_ERROR);
	c.num = FAB_SIM_CLIENTS;
	assert_int_equal(control(&c, SIM_GET_GUID, d, 64), SIM_ERROR);
	c.num = 5;
	assert_int_equal(control(&c, SIM_DISCONNECT, d, 64), SIM_ERROR);
	die(&c);
}

/* A path that is too long is an error: clients would look for the whole path. */
static void long_name(void **st)
{
	char text[65];
	struct fab_sim *s;

	(void)st;
	memset(text, 'x', sizeof(text));
	text[64] = 0;
	assert_null(fab_sim_new(&m, text, epfd, NULL));
	assert_int_equal(errno, ENAMETOOLONG);
	snprintf(text, sizeof(text), "%0*d", 63, (int)getpid());
	s = fab_sim_new(&m, text, epfd, NULL);
	assert_non_null(s);
	assert_null(fab_sim_new(&m, text, epfd, NULL));
	assert_int_equal(errno, EADDRINUSE);
	fab_sim_free(s);
}

/* A host is also found by its name cut to the protocol's length; a switch is not. */
static void cut_name(void **st)
{
	const uint32_t two = fab_find_node(f, "host2"), sw = f->port[f->port[
		fab_port_of(&f->node[two], 1)].peer].node;
	char whole[FAB_DESC_LEN] = "", cut[SIM_NODEID_LEN] = "";

	(void)st;
	assert_true(two != FAB_NONE);
	memset(whole, 'n', SIM_NODEID_LEN + 9);
	memcpy(cut, whole, SIM_NODEID_LEN - 1);
	strcpy(f->desc[sw].text, whole);
	assert_int_equal(fab_sim_find_host(f, cut), FAB_NO_PORT);
	strcpy(f->desc[two].text, whole);
	assert_int_equal(fab_sim_find_host(f, cut), fab_port_of(&f->node[two], 1));
	/* a shorter prefix does not suffice */
	cut[SIM_NODEID_LEN - 2] = 0;
	assert_int_equal(fab_sim_find_host(f, cut), FAB_NO_PORT);
	strcpy(f->desc[two].text, cut);
	f->desc[two].text[SIM_NODEID_LEN - 3] = 0;
	assert_int_equal(fab_sim_find_host(f, cut), FAB_NO_PORT);
}

static void nonsense(void **st)
{
	struct client c = attach(31, "host2", false);
	struct sim_ctl asks = { .magic = SIM_MAGIC, .client = c.num, .type = SIM_DISCONNECT };
	uint8_t junk[512], d[64] = { 0 };
	struct sim_mad r;

	(void)st;
	memset(junk, 0xa5, sizeof(junk));
	for (unsigned int len = 0; len <= sizeof(junk); len += len < 80 ? 1 : 8) {
		assert_int_equal(send(c.ctl, junk, len, 0), len);
		assert_int_equal(send(c.in, junk, len, 0), len);
		turn();
	}
	/* a reply gets no reply */
	asks.type = SIM_ERROR;
	assert_int_equal(send(c.ctl, &asks, sizeof(asks), 0), sizeof(asks));
	turn();
	assert_int_equal(recv(c.ctl, junk, sizeof(junk), 0), -1);
	asks.type = SIM_DISCONNECT;
	/* a message with extra bytes is invalid */
	memcpy(junk, &asks, sizeof(asks));
	assert_int_equal(send(c.ctl, junk, sizeof(asks) + 1, 0), sizeof(asks) + 1);
	turn();
	assert_int_equal(recv(c.ctl, junk, sizeof(junk), 0), -1);
	/* a MAD of another class with random bits is refused or lost, a short one ignored */
	while (hears(&c, &r))
		assert_int_equal(ib_be32(r.status) & ~(uint32_t)ETIMEDOUT, 0);
	for (unsigned int i = 0; i < 256; i++) {
		r = smp((uint8_t)i, IB_SMP_ATTR_NODE_INFO, 1);
		r.mad.hdr.class_specific = ib_to_be16((uint16_t)(i << 8 | (i * 7 & 255)));
		tell(&c, &r);
		turn();
		hears(&c, &r);
	}
	assert_int_equal(control(&c, SIM_GET_GUID, d, 64), SIM_GET_GUID);
	assert_true(ib_get_be64(d) == 0x5254010000000200);
	leave(&c);
}

/* A killed client is removed when the next one connects, and IsSM ends. */
static void killed(void **st)
{
	struct client sm = attach(41, "host1", true), other = attach(42, "host1", false), c;

	(void)st;
	assert_true(is_sm(0));
	die(&sm);
	assert_true(is_sm(0));
	c = attach(43, "host4", false);
	assert_int_equal(c.num, sm.num);
	assert_false(is_sm(0));
	leave(&c);
	/* a process ID that was used before */
	die(&other);
	other = attach(42, "host2", true);
	assert_true(is_sm(1));
	assert_int_equal(other.num, sm.num);
	/* two at a port: IsSM stays until both have left */
	c = attach(44, "host2", true);
	leave(&c);
	assert_true(is_sm(1));
	leave(&other);
	assert_false(is_sm(1));
}

/* Receivers of MADs that are not responses. */
static void unasked(void **st)
{
	struct client sm = attach(51, "host1", true), user = attach(52, "host1", false);
	struct client from = attach(53, "host2", true);
	struct sim_mad r = smp(IB_METHOD_GET, IB_SMP_ATTR_SM_INFO, 1);

	(void)st;
	tell(&from, &r);
	turn();
	assert_true(hears(&sm, &r));
	assert_int_equal(r.mad.hdr.method, IB_METHOD_GET);
	assert_false(hears(&user, &r));
	/* the response */
	r.mad.hdr.method = IB_METHOD_GET_RESP;
	r.mad.hdr.status = ib_to_be16(IB_SMP_DIRECTION);
	tell(&sm, &r);
	turn();
	assert_true(hears(&from, &r));
	assert_int_equal(r.mad.hdr.method, IB_METHOD_GET_RESP);
	/* a report of the subnet administration, from the port to itself */
	f->port[1].pi.lid = 1;
	r = smp(IB_METHOD_REPORT, 2, 0);
	r.mad.hdr.mgmt_class = IB_CLASS_SUBN_ADM;
	ib_put_be16(&r.dlid, 1);
	r.dqp = r.sqp = ib_to_be32(1);
	tell(&sm, &r);
	turn();
	assert_false(hears(&sm, &r));
	assert_true(hears(&user, &r));
	leave(&user);
	leave(&from);
	leave(&sm);
}

/* The server stops reading from a client whose ring of responses is filled up to here. */
#define STOPPED		(FAB_SIM_ANSWERS / 2)

/* Sends requests of @c with TIDs from @first on, as many as the server accepts, at most @most. */
static uint32_t tell_many(const struct client *c, uint32_t first, uint32_t most)
{
	struct sim_mad r = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 2);
	uint32_t n;

	for (n = 0; n < most; n++) {
		r.mad.hdr.tid = ib_to_be64(first + n);
		if (send(c->in, &r, sizeof(r), 0) == sizeof(r))
			continue;
		assert_int_equal(errno, EAGAIN);
		turn();
		if (send(c->in, &r, sizeof(r), 0) != sizeof(r))
			break;
	}
	turn();
	return n;
}

/* Responses with TIDs from @first on arrive in order. */
static void hear_many(const struct client *c, uint32_t first, uint32_t count)
{
	struct sim_mad r;

	for (uint32_t n = 0; n < count; n++) {
		if (!hears(c, &r)) {
			turn();
			assert_true(hears(c, &r));
		}
		assert_int_equal(r.status, 0);
		assert_int_equal((uint32_t)ib_be64(r.mad.hdr.tid), first + n);
	}
	turn();
	assert_false(hears(c, &r));
}

/* A client that does not read gets its responses later; requests of others to it are lost. */
static void full_socket(void **st)
{
	struct client sm = attach(76, "host1", true), other = attach(77, "host2", false);
	struct sim_mad ask = smp(IB_METHOD_GET, IB_SMP_ATTR_SM_INFO, 1), r;

	(void)st;
	assert_int_equal(tell_many(&sm, 1, 2000), 2000);
	tell(&other, &ask);
	turn();
	assert_true(hears(&other, &r));
	assert_int_equal(ib_be32(r.status), ETIMEDOUT);
	/* an error waits as a response does */
	ask = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 9);
	tell(&sm, &ask);
	turn();
	for (uint32_t i = 0; i < 2000; i++) {
		if (!hears(&sm, &r)) {
			turn();
			assert_true(hears(&sm, &r));
		}
		assert_int_equal((uint32_t)ib_be64(r.mad.hdr.tid), 1 + i);
	}
	turn();
	assert_true(hears(&sm, &r));
	assert_int_equal(ib_be32(r.status), ETIMEDOUT);
	assert_false(hears(&sm, &r));
	/* and it receives requests of others again */
	ask = smp(IB_METHOD_GET, IB_SMP_ATTR_SM_INFO, 1);
	tell(&other, &ask);
	turn();
	assert_true(hears(&sm, &r));
	/* a client that is killed before it reads */
	assert_int_equal(tell_many(&sm, 1, 500), 500);
	die(&sm);
	turn();
	assert_false(is_sm(0));
	sm = attach(76, "host1", false);
	assert_int_equal(sm.num, 0);
	assert_false(hears(&sm, &r));
	/* a client that leaves */
	assert_int_equal(tell_many(&other, 1, 500), 500);
	leave(&other);
	leave(&sm);
}

/* Delivers a request to another program, and nothing else. */
static void deliver(const struct client *from, const struct client *to, struct sim_mad *r)
{
	struct sim_mad ask = smp(IB_METHOD_GET, IB_SMP_ATTR_SM_INFO, 1);

	tell(from, &ask);
	turn();
	assert_true(hears(to, r));
	assert_false(hears(from, &ask));
}

/* The client gets back its request, at least the header, with an error. */
static void told(const struct client *c, __be64 tid)
{
	struct sim_mad r;

	assert_true(hears(c, &r));
	assert_int_equal(ib_be32(r.status), ETIMEDOUT);
	assert_int_equal(r.mad.hdr.method, IB_METHOD_GET);
	assert_true(r.mad.hdr.tid == tid);
	assert_false(hears(c, &r));
}

/* Changes request @r to its response, which returns by the same route. */
static void answer(struct sim_mad *r)
{
	struct ib_smp *s = (struct ib_smp *)&r->mad;

	s->hdr.method = IB_METHOD_GET_RESP;
	s->hdr.status |= ib_to_be16(IB_SMP_DIRECTION);
}

/* A program does not respond to a request, or is killed, or its response is lost. */
static void unanswered(void **st)
{
	struct client sm = attach(90, "host1", true), other = attach(91, "host2", false);
	struct sim_mad r, none;

	(void)st;
	/* the time limit */
	deliver(&other, &sm, &r);
	assert_in_range(fab_sim_timer(sim, now), 1, FAB_SIM_PATIENCE_NS);
	now += FAB_SIM_PATIENCE_NS - 1;
	assert_int_equal(fab_sim_timer(sim, now), 1);
	assert_false(hears(&other, &none));
	now++;
	assert_true(fab_sim_timer(sim, now) == UINT64_MAX);
	told(&other, r.mad.hdr.tid);
	/* a response in time ends the wait */
	deliver(&other, &sm, &r);
	answer(&r);
	tell(&sm, &r);
	turn();
	assert_true(hears(&other, &none));
	assert_int_equal(none.status, 0);
	assert_true(fab_sim_timer(sim, now) == UINT64_MAX);
	/* the response is lost */
	deliver(&other, &sm, &r);
	answer(&r);
	assert_true(fab_fault_link(&m, fab_port_of(&f->node[1], 1), false, now));
	tell(&sm, &r);
	turn();
	told(&other, r.mad.hdr.tid);
	assert_true(fab_fault_link(&m, fab_port_of(&f->node[1], 1), true, now));
	fab_mgmt_timer(&m, now);
	/* many requests, of which only the last gets a response; then the program is killed */
	for (unsigned int i = 0; i < 40; i++)
		deliver(&other, &sm, &r);
	answer(&r);
	tell(&sm, &r);
	turn();
	assert_true(hears(&other, &none));
	die(&sm);
	sm = attach(90, "host1", true);
	assert_false(hears(&other, &none));
	assert_true(fab_sim_timer(sim, now) == UINT64_MAX);
	for (unsigned int i = 0; i < 39; i++) {
		assert_true(hears(&other, &none));
		assert_int_equal(ib_be32(none.status), ETIMEDOUT);
	}
	assert_false(hears(&other, &none));
	/* the requester leaves first */
	deliver(&other, &sm, &r);
	leave(&other);
	assert_true(fab_sim_timer(sim, now) == UINT64_MAX);
	answer(&r);
	tell(&sm, &r);
	turn();
	leave(&sm);
}

/* A call of the timer notifies of a few requests, if a program leaves or does not respond. */
static void many_unanswered(void **st)
{
	struct client sm = attach(92, "host1", true), other = attach(93, "host2", false);
	struct sim_mad r;

	(void)st;
	for (unsigned int k = 0; k < 2; k++) {
		unsigned int calls = 1, told_of = 0;

		for (unsigned int i = 0; i < 300; i++)
			deliver(&other, &sm, &r);
		if (k)
			now += FAB_SIM_PATIENCE_NS;
		else
			leave(&sm);
		assert_false(hears(&other, &r));
		for (; !fab_sim_timer(sim, now); calls++)
			while (hears(&other, &r))
				told_of++;
		while (hears(&other, &r))
			told_of++;
		assert_int_equal(told_of, 300);
		assert_int_equal(calls, 300 / 64 + 1);
		if (!k)
			sm = attach(92, "host1", true);
	}
	leave(&other);
	leave(&sm);
}

/*
 * Killed programs that wait for each other: to notify one of them detects that it is gone, too, and
 * no event follows.
 */
static void killed_together(void **st)
{
	struct client sm = attach(94, "host1", true), other = attach(95, "host2", true);
	struct client from = attach(96, "host3", false);
	struct sim_mad r;

	(void)st;
	deliver(&other, &sm, &r);
	deliver(&from, &sm, &r);
	die(&from);
	die(&other);
	leave(&sm);
	while (!fab_sim_timer(sim, now))
		;
	assert_int_equal(occupied_by(1), FAB_NOBODY);
	assert_int_equal(occupied_by(2), FAB_NOBODY);
	assert_false(is_sm(1));
}

/* Answers to nothing have little room, so other clients get all of theirs. */
static void unwanted(void **st)
{
	struct client from = attach(97, "host1", false), to[5], c;
	struct sim_mad r = smp(IB_METHOD_GET_TABLE_RESP, 0x11, 0), none;

	(void)st;
	f->port[1].pi.lid = 1;
	for (unsigned int i = 0; i < 5; i++)
		to[i] = attach(100 + i, "host1", false);
	r.mad.hdr.mgmt_class = IB_CLASS_SUBN_ADM;
	ib_put_be16(&r.dlid, 1);
	r.dqp = r.sqp = ib_to_be32(1);
	for (unsigned int i = 0; i < 5 * 80000; i++) {
		r.mad.hdr.tid = ib_to_be64((uint64_t)to[i % 5].num << 48 | 7);
		if (send(from.in, &r, sizeof(r), 0) < 0) {
			turn();
			tell(&from, &r);
		}
	}
	turn();
	c = attach(98, "host2", false);
	assert_int_equal(tell_many(&c, 1, 2000), 2000);
	hear_many(&c, 1, 2000);
	for (unsigned int i = 0; i < 5; i++) {
		unsigned int n = 0;

		for (unsigned int k = 0; k < 2; k++, turn())
			while (hears(&to[i], &none))
				n++;
		assert_in_range(n, 64, 2000);
		leave(&to[i]);
	}
	leave(&from);
	leave(&c);
}

/* The closer closes all descriptors that come, also in the socket of a client that leaves. */
static void passed(void **st)
{
	const uint64_t before = sim_closer.in_place;
	struct client c = attach(110, "host1", false);
	const struct sim_mad ask = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 2);
	struct pollfd p = { .events = POLLOUT };
	unsigned int n = 0;

	(void)st;
	for (unsigned int k = 0; k < 4; k++) {
		p.fd = pass_pipe(k & 1 ? c.ctl : c.in);
		turn();
		assert_int_equal(sim_closer.in_place - before, ++n);
		assert_int_equal(poll(&p, 1, 0), 1);
		assert_true(p.revents & POLLERR);
		close(p.fd);
	}
	/*
	 * It is in the socket when the client is detached, and the socket has an error, too: the
	 * client has disconnected without the answer that it has received.
	 */
	tell(&c, &ask);
	turn();
	p.fd = pass_pipe(c.in);
	join(c.in, "ctl", UINT32_MAX);
	fab_sim_free(sim);
	sim = fab_sim_new(&m, name, epfd, &sim_closer);
	assert_non_null(sim);
	assert_int_equal(sim_closer.in_place - before, n + 1);
	close(p.fd);
	die(&c);
}

/* Somebody else has the address of the next client. */
static void squatted(void **st)
{
	struct client c = attach(111, "host1", false), d;
	int other = bound("out", 1);

	(void)st;
	assert_int_equal(c.num, 0);
	d = attach(112, "host2", false);
	assert_int_equal(d.num, 2);
	close(other);
	leave(&c);
	leave(&d);
}

/*
 * The number of waiting responses is limited; then requests wait, too. Other clients are not
 * delayed.
 */
static void stopped_client(void **st)
{
	struct client c = attach(78, "host1", false), other = attach(79, "host1", false);
	const uint32_t sent = tell_many(&c, 1, FAB_SIM_ANSWERS);

	(void)st;
	assert_in_range(sent, STOPPED, STOPPED + 2000);
	assert_int_equal(tell_many(&other, 1, 1000), 1000);
	hear_many(&other, 1, 1000);
	hear_many(&c, 1, sent);
	assert_int_equal(tell_many(&c, 1, 1000), 1000);
	hear_many(&c, 1, 1000);
	leave(&c);
	leave(&other);
}

/* A client that has shut down receiving can never get its responses. */
static void deaf(void **st)
{
	struct client c = attach(81, "host1", true), next;
	struct sim_mad r = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 2);

	(void)st;
	assert_int_equal(shutdown(c.in, SHUT_RD), 0);
	tell(&c, &r);
	turn();
	assert_false(is_sm(0));
	die(&c);
	next = attach(81, "host1", false);
	assert_int_equal(next.num, c.num);
	leave(&next);
}

/* The library passes 224 bytes of a MAD to a program: no capability beyond these is reported. */
static void last_bytes(void **st)
{
	struct client c = attach(80, "host1", true);
	struct ib_pma_class_port_info cpi;
	struct sim_mad r = smp(IB_METHOD_GET, IB_PMA_ATTR_CLASS_PORT_INFO, 0);

	(void)st;
	f->port[1].pi.lid = 1;
	r.mad.hdr.mgmt_class = IB_CLASS_PERF;
	ib_put_be16(&r.dlid, 1);
	r.dqp = r.sqp = ib_to_be32(1);
	tell(&c, &r);
	turn();
	assert_true(hears(&c, &r));
	assert_int_equal(r.mad.hdr.method, IB_METHOD_GET_RESP);
	ib_pma_cpi_unpack((uint8_t *)&r.mad + IB_PMA_DATA_OFF, &cpi);
	assert_true(cpi.cap_mask & IB_PMA_CAP_EXT_WIDTH);
	assert_int_not_equal(cpi.resp_time, 0);
	assert_int_equal(cpi.cap_mask2 & IB_PMA_CAP2_ADD_PORT_CTRS_EXT, 0);
	/* a table of records, from the program to itself */
	r = smp(IB_METHOD_GET_TABLE_RESP, 0x11, 0);
	r.mad.hdr.mgmt_class = IB_CLASS_SUBN_ADM;
	r.mad.hdr.tid = ib_to_be64((uint64_t)c.num << 48 | 7);
	ib_put_be16(&r.dlid, 1);
	r.dqp = r.sqp = ib_to_be32(1);
	tell(&c, &r);
	turn();
	assert_true(hears(&c, &r));
	assert_true(ib_be64(r.length) == 224);
	leave(&c);
}

/* A program cannot connect at a host that a machine replaces or that is off. */
static void hosts_without_link(void **st)
{
	struct client c = { .in = bound("in", 71), .ctl = bound("ctl", 71) }, first;
	struct sim_connect cc = { .id = 71 };

	(void)st;
	join(c.ctl, "ctl", UINT32_MAX);
	fab_extra(f, fab_port_of(&f->node[0], 1))->outside = true;
	fab_switch_off(f, 1);
	assert_true(fab_fault_node(&m, 2, false, 0));
	for (unsigned int i = 1; i <= 3; i++) {
		snprintf(cc.nodeid, sizeof(cc.nodeid), "host%u", i);
		assert_int_equal(control(&c, SIM_CONNECT, &cc, sizeof(cc)), SIM_ERROR);
		snprintf(cc.nodeid, sizeof(cc.nodeid), "H-5254010000000%u00", i);
		assert_int_equal(control(&c, SIM_CONNECT, &cc, sizeof(cc)), SIM_ERROR);
	}
	die(&c);
	first = attach(72, "", false);
	assert_int_equal(occupied_by(3), FAB_PROGRAM);
	leave(&first);
	/* it can at a host whose cable is pulled */
	assert_true(fab_fault_link(&m, fab_port_of(&f->node[3], 1), false, 0));
	first = attach(72, "host4", false);
	leave(&first);
	cc = (struct sim_connect){ .id = 73 };
	c = (struct client){ .in = bound("in", 73), .ctl = bound("ctl", 73) };
	join(c.ctl, "ctl", UINT32_MAX);
	assert_int_equal(control(&c, SIM_CONNECT, &cc, sizeof(cc)), SIM_ERROR);
	die(&c);
}

/* A host that was switched off and on still has its subnet manager. */
static void revived(void **st)
{
	struct client sm = attach(74, "host1", true), other = attach(75, "host2", false);

	(void)st;
	assert_int_equal(occupied_by(0), FAB_SUBNET_MANAGER);
	assert_int_equal(occupied_by(1), FAB_PROGRAM);
	assert_int_equal(occupied_by(2), FAB_NOBODY);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(fab_fault_node(&m, i, false, 0));
		assert_true(fab_fault_node(&m, i, true, 0));
	}
	assert_true(is_sm(0));
	assert_false(is_sm(1));
	leave(&sm);
	assert_false(is_sm(0));
	leave(&other);
}

/* ---- by UDP -------------------------------------------------------------------- */

/* A socket at @port; 0: at any port. */
static int udp_at(unsigned int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

static int udp(uint16_t *port)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);
	int fd = udp_at(0);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	*port = ntohs(in.sin_port);
	return fd;
}

static void join_udp(int fd, unsigned int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)port) };

	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
}

/* A port below the range that the kernel assigns itself. */
static unsigned int listen_udp(void)
{
	char at[32];

	for (unsigned int port = 10000 + (unsigned int)getpid() % 20000;; port += 251) {
		snprintf(at, sizeof(at), "127.0.0.1:%u", port);
		if (fab_sim_listen(sim, at))
			return port;
		assert_int_equal(errno, EADDRINUSE);
	}
}

static struct client attach_udp(unsigned int at, const char *host, uint32_t want)
{
	struct sim_connect cc = { .issm = false };
	uint16_t port, unused;
	struct client c = { .in = udp(&port), .ctl = udp(&unused) };

	cc.id = port;
	join_udp(c.ctl, at);
	strcpy(cc.nodeid, host);
	assert_int_equal(control(&c, SIM_CONNECT, &cc, sizeof(cc)), want);
	c.num = cc.id;
	if (want == SIM_CONNECT)
		join_udp(c.in, at + 1 + c.num);
	return c;
}

static void remote(void **st)
{
	const unsigned int at = listen_udp();
	struct client a = attach_udp(at, "host1", SIM_CONNECT);
	struct client b = attach(61, "host2", false), c, d;
	static struct client many[FAB_SIM_REMOTE];
	struct sim_connect cc = { .id = 0 };
	struct sim_ctl error = { .type = SIM_ERROR };
	uint8_t none[64] = { 0 };
	uint16_t port;
	struct sim_mad r;

	(void)st;
	/* several requests at once */
	for (unsigned int i = 0; i < 20; i++) {
		r = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, i & 1);
		tell(&a, &r);
	}
	turn();
	for (unsigned int i = 0; i < 20; i++) {
		assert_true(hears(&a, &r));
		assert_int_equal(r.status, 0);
	}
	assert_false(hears(&a, &r));
	assert_int_equal(control(&a, SIM_GET_GUID, none, sizeof(none)), SIM_GET_GUID);
	/* another socket: its MADs are dropped, its control messages in a client's name refused */
	c = (struct client){ .in = udp(&port), .ctl = udp(&port), .num = a.num };
	join_udp(c.in, at + 1 + a.num);
	join_udp(c.ctl, at);
	r = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 0);
	assert_int_equal(m.stats.get[IB_SMP_ATTR_NODE_DESC], 20);
	send(c.in, &r, sizeof(r), 0);
	turn();
	assert_false(hears(&c, &r));
	assert_false(hears(&a, &r));
	assert_int_equal(m.stats.get[IB_SMP_ATTR_NODE_DESC], 20);
	assert_int_equal(control(&c, SIM_DISCONNECT, none, sizeof(none)), SIM_ERROR);
	c.num = b.num;
	assert_int_equal(control(&c, SIM_DISCONNECT, none, sizeof(none)), SIM_ERROR);
	assert_int_equal(control(&c, SIM_GET_GUID, none, sizeof(none)), SIM_ERROR);
	c.num = a.num;
	d = b;
	d.num = a.num;
	assert_int_equal(control(&d, SIM_DISCONNECT, none, sizeof(none)), SIM_ERROR);
	error.magic = SIM_MAGIC;
	assert_int_equal(send(c.ctl, &error, sizeof(error), 0), sizeof(error));
	turn();
	assert_int_equal(recv(c.ctl, &error, sizeof(error), 0), -1);
	/* invalid ports */
	assert_int_equal(control(&c, SIM_CONNECT, &cc, sizeof(cc)), SIM_ERROR);
	cc.id = 65536;
	assert_int_equal(control(&c, SIM_CONNECT, &cc, sizeof(cc)), SIM_ERROR);
	die(&c);
	/* the maximum number of clients; a local one can still connect */
	for (unsigned int i = 1; i < FAB_SIM_REMOTE; i++)
		many[i] = attach_udp(at, "host3", SIM_CONNECT);
	c = attach_udp(at, "host3", SIM_ERROR);
	die(&c);
	c = attach(62, "host3", false);
	leave(&c);
	leave(&a);
	c = attach_udp(at, "host4", SIM_CONNECT);
	leave(&c);
	leave(&b);
	/* a killed client is noticed when a datagram is sent to it */
	r = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 0);
	tell(&many[1], &r);
	for (unsigned int i = 1; i < FAB_SIM_REMOTE; i++)
		die(&many[i]);
	turn();
	turn();
	c = attach_udp(at, "host4", SIM_CONNECT);
	assert_int_equal(c.num, a.num);
	d = attach_udp(at, "host4", SIM_CONNECT);
	assert_int_equal(d.num, many[1].num);
	leave(&c);
	leave(&d);
}

/* Killed programs give way to new ones after a time; active ones stay. */
static void silent(void **st)
{
	const unsigned int at = listen_udp();
	static struct client many[FAB_SIM_REMOTE];
	const struct sim_mad ask = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 0);
	uint8_t none[64] = { 0 };
	struct sim_connect cc = { .id = 65536 };
	struct client c, d;
	struct sim_mad r;
	uint16_t unused;
	int other;

	(void)st;
	now = 1000;
	for (unsigned int i = 0; i < FAB_SIM_REMOTE; i++) {
		many[i] = attach_udp(at, "host1", SIM_CONNECT);
		assert_int_equal(many[i].num, i);
		now++;
	}
	now = 1000 + FAB_SIM_SILENT_NS - 1;
	c = attach_udp(at, "host2", SIM_ERROR);
	die(&c);
	/* the first two send something, by either of their sockets */
	tell(&many[0], &ask);
	assert_int_equal(control(&many[1], SIM_GET_GUID, none, sizeof(none)), SIM_GET_GUID);
	now += 3;
	die(&many[2]);
	c = attach_udp(at, "host2", SIM_CONNECT);
	assert_int_equal(c.num, 2);
	tell(&c, &ask);
	tell(&many[0], &ask);
	turn();
	assert_true(hears(&c, &r));
	assert_true(hears(&many[0], &r) && hears(&many[0], &r));
	/* 128 clients again, and the next of them was not silent for long enough */
	d = attach_udp(at, "host2", SIM_ERROR);
	die(&d);
	d = (struct client){ .in = udp(&unused), .ctl = udp(&unused) };
	join_udp(d.ctl, at);
	/* a connect with an invalid port removes no client */
	now++;
	assert_int_equal(control(&d, SIM_CONNECT, &cc, sizeof(cc)), SIM_ERROR);
	assert_int_equal(control(&many[3], SIM_GET_GUID, none, sizeof(none)), SIM_GET_GUID);
	die(&d);
	die(&many[4]);
	now++;
	/* another program uses the free port: a silent client is removed */
	leave(&many[5]);
	other = udp_at(at + 1 + 5);
	d = attach_udp(at, "host3", SIM_CONNECT);
	assert_int_equal(d.num, 4);
	close(other);
	die(&d);
	die(&c);
	for (unsigned int i = 0; i < FAB_SIM_REMOTE; i++)
		if (i != 2 && i != 4 && i != 5)
			die(&many[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(asks, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(refused, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(long_name, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(cut_name, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(nonsense, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(killed, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(unasked, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(full_socket, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(unanswered, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(many_unanswered, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(killed_together, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(unwanted, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(passed, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(squatted, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(stopped_client, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(deaf, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(last_bytes, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(hosts_without_link, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(revived, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(remote, begin_sim, end_sim),
		cmocka_unit_test_setup_teardown(silent, begin_sim, end_sim),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
