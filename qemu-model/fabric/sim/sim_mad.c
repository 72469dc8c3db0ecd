// SPDX-License-Identifier: GPL-2.0-or-later
/* MADs from and to clients, and answers that wait for room in a client's socket; see umad2sim.h. */
#include "sim_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "fabric/base/event.h"
#include "fabric/base/passed.h"
#include "ib/packet.h"
#include "ib/pma.h"

/*
 * Bytes of a MAD that the library passes to a program: its buffer for its own header and the MAD
 * has the size of the datagram, whose header is smaller. The last 32 bytes in the program's buffer
 * were never sent to it.
 */
#define GIVEN		224u

#define BATCH		8u
#define UNASKED		64u		/* answers to nothing that may wait for a client */
#define LEAST_ROOM	16u		/* for a client's answers, at least one batch */
#define TIMED_OUT	110u		/* status of a MAD without an answer */

/* A client with this many answers that wait is not read, until half of them have left. */
#define STOP_ONE	(FAB_SIM_ANSWERS / 2)
#define STOP_ALL	(FAB_SIM_ALL_ANSWERS / 2)

static uint32_t lid_to_wire(uint16_t lid)
{
	uint16_t v;

	ib_put_be16(&v, lid);
	return v;
}

static uint16_t lid_from_wire(uint32_t w)
{
	uint16_t v = (uint16_t)w;

	return ib_get_be16(&v);
}

/* ---- answers that wait --------------------------------------------------------- */

/* Set the epoll events of @c that are useful now. */
static void watch_client(struct fab_sim *s, struct sim_client *c)
{
	const bool many = s->waiting >= STOP_ALL;
	uint32_t events;

	/* only answers that wait lead to a further event, so without any the client is read */
	if (c->waiting && (many || c->waiting >= STOP_ONE))
		c->stopped = true;
	else if (!c->waiting || (!many && c->waiting <= STOP_ONE / 2))
		c->stopped = false;
	events = (c->stopped ? 0 : EPOLLIN) | (c->waiting ? EPOLLOUT : 0);
	if (events == c->events)
		return;
	if (!fab_event_watch(s->epfd, EPOLL_CTL_MOD, c->fd, events, FAB_EVENT_SIM,
			     (uint32_t)(c - s->client)))
		c->gone = s->any_gone = true;
	c->events = events;
}

/* Return: whether there is room for @more answers. */
static bool reserve_answers(struct sim_client *c, uint32_t more)
{
	uint32_t room = c->room ? c->room : LEAST_ROOM;
	struct sim_mad *answers;

	while (room < c->waiting + more)
		room *= 2;
	if (room == c->room)
		return true;
	if (room > FAB_SIM_ANSWERS)
		return false;
	answers = malloc(room * sizeof(*answers));
	if (!answers)
		return false;
	for (uint32_t i = 0; i < c->waiting; i++)
		answers[i] = c->answers[(c->first + i) % c->room];
	free(c->answers);
	c->answers = answers;
	c->room = room;
	c->first = 0;
	return true;
}

static bool keep_answer(struct fab_sim *s, struct sim_client *c, const struct sim_mad *r)
{
	if (s->waiting >= FAB_SIM_ALL_ANSWERS || !reserve_answers(c, 1))
		return false;
	c->answers[(c->first + c->waiting++) % c->room] = *r;
	s->waiting++;
	watch_client(s, c);
	return true;
}

/* Return: whether @r is in the client's socket. */
static bool send_mad(struct fab_sim *s, struct sim_client *c, const struct sim_mad *r)
{
	if (send(c->fd, r, sizeof(*r), 0) == sizeof(*r))
		return true;
	/* no room now; after any other error it will never have room */
	if (errno != EAGAIN && errno != EINTR)
		c->gone = s->any_gone = true;
	return false;
}

/* Send @r; an answer may wait for room. Return: false: it is lost. */
static bool put_mad(struct fab_sim *s, struct sim_client *c, const struct sim_mad *r,
		    bool is_answer)
{
	if (!c->waiting && send_mad(s, c, r))
		return true;
	return is_answer && !c->gone && keep_answer(s, c, r);
}

static void send_answers(struct fab_sim *s, struct sim_client *c)
{
	while (c->waiting && send_mad(s, c, &c->answers[c->first])) {
		c->first = (c->first + 1) % c->room;
		c->waiting--;
		s->waiting--;
	}
	if (!c->waiting && c->room > LEAST_ROOM) {
		free(c->answers);
		c->answers = NULL;
		c->room = 0;
	}
	watch_client(s, c);
}

/* ---- to a client --------------------------------------------------------------- */

static bool is_answer(const struct ib_mad_hdr *h)
{
	return (h->method & IB_METHOD_RESP) || h->method == IB_METHOD_TRAP_REPRESS;
}

/*
 * Choose the client at @port that receives a MAD. A response is for the client that sent the
 * request, by its transaction ID. A request for a subnet manager or the subnet administration is
 * for a client that is a subnet manager; other MADs, Reports among them, preferably for one that is
 * not.
 */
static struct sim_client *client_for(struct fab_sim *s, uint32_t port, const struct ib_mad_hdr *h)
{
	const bool report = h->method == IB_METHOD_REPORT;
	const bool for_sm = !report && (ib_mad_is_smp(h) || h->mgmt_class == IB_CLASS_SUBN_ADM);
	const uint64_t id = ib_be64(h->tid) >> SIM_TID_CLIENT;
	struct sim_client *any = NULL;

	if (is_answer(h)) {
		if (id < FAB_SIM_CLIENTS && s->client[id].fd >= 0 && s->client[id].port == port)
			return &s->client[id];
		return NULL;
	}
	for (uint32_t i = 0; i < s->clients; i++) {
		struct sim_client *c = &s->client[i];

		if (c->fd < 0 || c->port != port)
			continue;
		if (c->is_sm == for_sm)
			return c;
		any = c;
	}
	return for_sm ? NULL : any;
}

/*
 * Make a response consistent with the bytes that the program receives. The counters in the last
 * bytes are those that CapabilityMask2 announces for PortCountersExtended (16.1.4.11); PortCounters
 * has them, too, except for QP1Dropped. Records in a table of the subnet administration end before.
 */
static void fit_library(struct sim_mad *r)
{
	const struct ib_mad_hdr *h = &r->mad.hdr;
	uint8_t *cap_mask2 = (uint8_t *)&r->mad + IB_PMA_DATA_OFF + 4;

	if (h->mgmt_class == IB_CLASS_SUBN_ADM && h->method == IB_METHOD_GET_TABLE_RESP)
		r->length = ib_to_be64(GIVEN);
	if (h->mgmt_class == IB_CLASS_PERF && h->method == IB_METHOD_GET_RESP &&
	    ib_be16(h->attr_id) == IB_PMA_ATTR_CLASS_PORT_INFO)
		ib_put_be32(cap_mask2, ib_get_be32(cap_mask2) &
				       ~(IB_PMA_CAP2_ADD_PORT_CTRS_EXT << 5));
}

bool fab_sim_deliver(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	struct fab_sim *s = ctx;
	struct sim_client *c = client_for(s, port, &mad->mad.hdr);
	struct sim_mad r = {
		.dlid = lid_to_wire(mad->dlid),
		.slid = lid_to_wire(mad->slid),
		.dqp = ib_to_be32(mad->dqp),
		.sqp = ib_to_be32(mad->sqp),
		.length = ib_to_be64(IB_MAD_LEN),
	};
	bool asked = true;

	if (!c)
		return false;
	r.mad = mad->mad;
	fit_library(&r);
	if (!is_answer(&mad->mad.hdr)) {
		s->who = (uint32_t)(c - s->client);
		return put_mad(s, c, &r, false);
	}
	/* most answers arrive during fab_mgmt_send() of the request */
	if (s->asks == c && s->tid == r.mad.hdr.tid)
		s->asks = NULL;
	else
		asked = fab_sim_answered(s, c, r.mad.hdr.tid, false);
	/* anybody can send answers to nothing: few of them may use the room of others' answers */
	return put_mad(s, c, &r, asked || c->waiting < UNASKED);
}

/* ---- from a client ------------------------------------------------------------- */

/* Whether the sender of a MAD expects an answer. That to a trap is TrapRepress. */
static bool is_request(const struct ib_mad_hdr *h)
{
	return !is_answer(h) && h->method != IB_METHOD_SEND;
}

/* The library has no clock: report at once that there will be no answer. */
void fab_sim_time_out(struct fab_sim *s, struct sim_client *c, struct sim_mad *r)
{
	r->status = ib_to_be32(TIMED_OUT);
	put_mad(s, c, r, true);
}

/* An answer of a client was not delivered: report that to the requester, if it is a client. */
static void answer_lost(struct fab_sim *s, __be64 tid)
{
	const uint64_t id = ib_be64(tid) >> SIM_TID_CLIENT;

	if (id < s->clients && s->client[id].fd >= 0)
		fab_sim_answered(s, &s->client[id], tid, true);
}

static void from_client(struct fab_sim *s, uint32_t id, struct sim_mad *r)
{
	struct sim_client *c = &s->client[id];
	const struct fab_port *p = &s->m->f->port[c->port];
	struct fab_mad mad = {
		.dlid = lid_from_wire(r->dlid),
		.dqp = ib_be32(r->dqp),
		.sqp = ib_be32(r->sqp),
	};
	bool lost;

	mad.mad = r->mad;
	mad.slid = p->pi.lid;
	if (ib_smp_is_dr(&mad.smp) && !ib_smp_begins_by_lid(&mad.smp) &&
	    !ib_smp_ends_by_lid(&mad.smp))
		mad.slid = mad.dlid = IB_LID_PERMISSIVE;
	if (is_request(&mad.mad.hdr)) {
		uint64_t tid = ib_be64(mad.mad.hdr.tid) & ((1ull << SIM_TID_CLIENT) - 1);

		mad.mad.hdr.tid = ib_to_be64(tid | (uint64_t)id << SIM_TID_CLIENT);
	}
	r->mad = mad.mad;
	s->asks = is_request(&r->mad.hdr) ? c : NULL;
	s->tid = r->mad.hdr.tid;
	s->who = SIM_NO_CLIENT;
	lost = fab_mgmt_send(s->m, c->port, &mad, s->now_ns) == FAB_LOST;
	if (lost && is_request(&r->mad.hdr))
		fab_sim_time_out(s, c, r);
	else if (lost)
		answer_lost(s, r->mad.hdr.tid);
	else if (s->asks)
		fab_sim_await(s, c, r, s->who);
	s->asks = NULL;
}

/* Read up to BATCH datagrams of a client: one system call and one wait for all. */
static void read_mads(struct fab_sim *s, uint32_t id)
{
	union fab_passed room[BATCH];
	struct mmsghdr msg[BATCH];
	struct iovec iov[BATCH];
	struct sim_mad r[BATCH];
	int n;

	for (unsigned int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ &r[i], sizeof(r[i]) };
		msg[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i], .msg_iovlen = 1 } };
		fab_passed_expect(&msg[i].msg_hdr, &room[i]);
	}
	n = recvmmsg(s->client[id].fd, msg, BATCH, MSG_CMSG_CLOEXEC, NULL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		s->client[id].gone = s->any_gone = true;
	s->client[id].heard_ns = s->now_ns;
	for (int i = 0; i < n; i++) {
		fab_passed_close(s->closer, &msg[i].msg_hdr);
		if (msg[i].msg_len == sizeof(r[i]) && !(msg[i].msg_hdr.msg_flags & MSG_TRUNC))
			from_client(s, id, &r[i]);
	}
}

void fab_sim_serve(struct fab_sim *s, uint32_t i)
{
	struct sim_client *c = &s->client[i];

	if (c->waiting)
		send_answers(s, c);
	/* if reserve_answers() fails, answers that do not fit into the socket are lost */
	if (!c->gone && !c->stopped && (reserve_answers(c, BATCH) || !c->waiting))
		read_mads(s, i);
}
