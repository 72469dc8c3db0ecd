/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The scheduler: which QP sends next.
 *
 * A QP is on one list or on none: it is active (it may have work), or it waits (for credits, room
 * in the loop, a fault slot or its static rate). Active QPs have turns of OHCA_QUANTUM packets. If
 * QPs of several lanes of a port are active, the port's VL arbiter chooses the lane of each packet.
 * QPs that send nothing (they flush, their packets are discarded, or their WQEs are local) are on a
 * separate list, whose turns alternate with those of the ports.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/fault.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/object/to_transport.h"
#include "engine/transport/burst.h"
#include "engine/transport/madq.h"
#include "engine/transport/pool.h"
#include "engine/transport/requester.h"
#include "engine/transport/responder.h"
#include "engine/transport/rx.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/timer.h"
#include "engine/transport/to_agents.h"
#include "engine/transport/turn.h"
#include "engine/transport/tx.h"
#include "engine/transport/ud.h"
#include "engine/transport/xport.h"
#include "ib/smp.h"
#include "ib/vl.h"
#include "ohca_hw.h"

/* ---- lists ------------------------------------------------------------------------- */

/*
 * Activate the first QP that waits. False: none waits. QPs that could send nothing in their last
 * turn are first.
 */
static bool wake_one(ohca_engine *e, struct ohca_list pair[2])
{
	struct ohca_list *l = ohca_list_empty(&pair[0]) ? &pair[1] : &pair[0];
	struct ohca_xport *xp;

	if (ohca_list_empty(l))
		return false;
	xp = ohca_container_of(l->next, struct ohca_xport, sched.link);
	ohca_sched_off(e->sched, xp);
	ohca_sched_activate(e, xp);
	return true;
}

/* Activate at most @n QPs that wait. */
static void wake(ohca_engine *e, struct ohca_list pair[2], uint32_t n)
{
	while (n-- && wake_one(e, pair))
		ohca_work(e, OHCA_WORK_STEP);
}

static bool anybody(const struct ohca_list pair[2])
{
	return !ohca_list_empty(&pair[0]) || !ohca_list_empty(&pair[1]);
}

/* Number of free slots in the loop for QPs. */
static uint32_t loop_room(const struct ohca_sched *s)
{
	uint32_t used = s->loop_head - s->loop_tail;

	return used < OHCA_LOOP_SLOTS - 1 ? OHCA_LOOP_SLOTS - 1 - used : 0;
}

/* Whether waiting QPs can continue: the loop has room for them, or their port has changed. */
static bool waiters(const struct ohca_sched *s)
{
	return anybody(s->moved) || (anybody(s->wait_loop) && loop_room(s));
}

/* Activate some of these, at most as many as can send in this run. */
static void waiters_wake(ohca_engine *e, uint32_t n)
{
	struct ohca_sched *s = e->sched;

	wake(e, s->moved, n);
	wake(e, s->wait_loop, loop_room(s));
	s->waiting = anybody(s->moved) || anybody(s->wait_loop);
}

/*
 * Credits arrive for a few packets, and hundreds of QPs may wait for them. So only one is
 * activated, and a QP that could send activates the next one (see chain()). This function begins
 * such a chain for each lane, and begins it again if it ended with a QP that had nothing left to
 * send.
 */
static void wake_ready(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;

	for (uint32_t m = s->ready; m; m &= m - 1) {
		unsigned int lane = (unsigned int)__builtin_ctz(m);

		if (!wake_one(e, s->wait[lane / 16][lane % 16]))
			s->ready &= ~(1u << lane);
	}
}

/*
 * Activate QPs whose delay is over, or whose settings have changed, at most as many as can send in
 * this run.
 */
static void paced_run(ohca_engine *e, unsigned int n)
{
	struct ohca_sched *s = e->sched;

	if (s->release > s->paced.num)
		s->release = s->paced.num;
	while ((s->release || ohca_heap_next(&s->paced) <= s->now) && n--) {
		struct ohca_xport *xp = ohca_container_of(s->paced.due[0], struct ohca_xport,
							  sched.due);

		s->release -= s->release > 0;
		ohca_work(e, OHCA_WORK_STEP);
		ohca_sched_off(s, xp);
		ohca_sched_activate(e, xp);
	}
}

/* The first QP of a list, if it has not tried to get a slot since the last one became free. */
static struct ohca_xport *fault_first(const struct ohca_sched *s, unsigned int i)
{
	const struct ohca_list *l = &s->wait_fault[i];
	struct ohca_xport *xp = ohca_container_of(l->next, struct ohca_xport, sched.link);

	return ohca_list_empty(l) || xp->sched.fault_gen == s->fault_gen ? NULL : xp;
}

static inline bool fault_ready(const struct ohca_sched *s)
{
	return s->fault_room && !s->fault_next && (fault_first(s, 0) || fault_first(s, 1));
}

/*
 * A slot for a page fault became free, and many QPs may wait for one. They try one at a time, each
 * after the turn of the previous one, until one has used the slot or all have tried. So no slot
 * stays free while a QP waits that may use it, and one slot does not cost a turn of each QP. A QP
 * whose doorbell page may use no more slots is skipped.
 */
static void fault_wake(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;

	while (fault_ready(s) && ohca_work_left(e)) {
		struct ohca_xport *xp = fault_first(s, 0);
		struct ohca_list *l = &s->wait_fault[!xp];

		xp = xp ? xp : fault_first(s, 1);
		if (ohca_fault_may(e, xp->qp->uar)) {
			ohca_sched_activate(e, xp);
			s->fault_next = xp;
			continue;
		}
		ohca_work(e, OHCA_WORK_STEP);
		xp->sched.fault_gen = s->fault_gen;
		ohca_list_del(&xp->sched.link);
		ohca_list_add_tail(l, &xp->sched.link);
	}
}

void ohca_xp_tx_ready(ohca_engine *e, unsigned int port, uint16_t lanes)
{
	struct ohca_sched *s = e->sched;

	s->ready |= (uint32_t)lanes << 16 * port;
	s->mads_due |= s->madq[port][0].blocked || s->madq[port][1].blocked ||
		       s->late[port].blocked;
	s->madq[port][0].blocked = false;
	s->madq[port][1].blocked = false;
	s->late[port].blocked = false;
}

void ohca_xp_mcast_left(ohca_engine *e, const uint8_t mgid[16], uint32_t index)
{
	struct ohca_sched *s = e->sched;

	for (uint32_t at = s->loop_tail; at != s->loop_head; at++) {
		uint32_t i = at & (OHCA_LOOP_SLOTS - 1);
		const uint8_t *frame = s->loop + (size_t)i * OHCA_SLOT_SIZE;

		if (s->loop_from[i] > index && memcmp(frame + IB_LRH_LEN + 24, mgid, 16) == 0)
			s->loop_from[i]--;
	}
}

void ohca_xp_fault_room(ohca_engine *e, uint32_t n)
{
	if (!n)
		return;
	e->sched->fault_gen++;
	e->sched->fault_room += n < OHCA_MAX_FAULTS ? n : OHCA_MAX_FAULTS;
	if (e->sched->fault_room > OHCA_MAX_FAULTS)
		e->sched->fault_room = OHCA_MAX_FAULTS;
	fault_wake(e);
}

void ohca_xp_port(ohca_engine *e, unsigned int port)
{
	if (!e->sched)
		return;
	e->sched->gen[port]++;
	e->sched->late[port].tail = e->sched->late[port].head;
	ohca_xp_wait_update(e);
	/* a port that is down has no credits to wait for */
	e->sched->refused &= ~(0xffffu << 16 * port);
	/* the lanes of waiting QPs may have changed */
	for (unsigned int vl = 0; vl < 16; vl++)
		for (unsigned int i = 0; i < 2; i++)
			ohca_list_splice_tail(&e->sched->moved[i], &e->sched->wait[port][vl][i]);
	e->sched->waiting = true;
	/* a port that is not Active discards packets, so none has to be delayed */
	if (e->port[port].state != IB_PS_ACTIVE)
		e->sched->release = e->sched->paced.num;
	ohca_xp_tx_ready(e, port, 0);
}

/* ---- running ----------------------------------------------------------------------- */

enum turn { TURN_MORE, TURN_IDLE, TURN_BLOCKED };

static bool rq_in_err(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum)
{
	if (ohca_rq_flush(e, qp, quantum))
		return true;
	/* no WQE is posted: request doorbells and check once more */
	return !qp->srq && !(qp->flags & OHCA_QP_NO_RQ) && ohca_rq_notify(e, qp, true);
}

/* Flush both queues. The first one alternates over turns, so neither can block the other. */
static bool flush(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum)
{
	struct ohca_xport *xp = qp->xp;
	bool more;

	xp->rq_first = !xp->rq_first;
	if (xp->rq_first) {
		more = rq_in_err(e, qp, quantum);
		return ohca_sq_flush(e, qp, quantum) || more;
	}
	more = ohca_sq_flush(e, qp, quantum);
	return rq_in_err(e, qp, quantum) || more;
}

/* A turn in ERR: responses that still leave, then the flush, which needs no lane and no credits. */
static enum turn turn_err(ohca_engine *e, struct ohca_turn *t, unsigned int *quantum)
{
	struct ohca_xport *xp = t->xp;
	struct ohca_qp *qp = xp->qp;
	bool more, blocked = false;

	while (xp->resp.closing && *quantum) {
		enum ohca_sent r = ohca_resp_send(e, qp, t);

		blocked = r == OHCA_SENT_BLOCKED;
		/*
		 * wait for the lane, since a response must leave before a flush, which may be long
		 */
		if (blocked && t->wait == OHCA_WAIT_TURN)
			return TURN_BLOCKED;
		if (blocked)
			break;
		if (r == OHCA_SENT_NONE)
			xp->resp.closing = false;
		else
			--*quantum;
	}
	more = flush(e, qp, quantum);
	if (more || (xp->resp.closing && !blocked) || !ohca_sq_idle(e, qp))
		return TURN_MORE;
	/* only pending responses wait for credits */
	return blocked ? TURN_BLOCKED : TURN_IDLE;
}

/* Whether all WQEs known by now are sent, so that only ohca_sq_idle() can find more. */
static bool all_sent(const struct ohca_qp *qp)
{
	const struct ohca_xport *xp = qp->xp;

	return xp->req.cur == xp->req.pi && !xp->rndv && !ohca_sq_flushes(qp);
}

static enum turn qp_turn(ohca_engine *e, struct ohca_turn *t, unsigned int *quantum)
{
	struct ohca_xport *xp = t->xp;
	struct ohca_qp *qp = xp->qp;
	bool connected = !ohca_qp_datagram(qp);
	/* a turn may have one packet, so requests and responses alternate across turns */
	bool skip = xp->sched.resp_last;
	bool resp = xp->sched.answers, req;
	bool resp_fault = false, req_fault = false;	/* no slot for its page fault */

	if (qp->going)
		return TURN_IDLE;
	if (qp->state == OHCA_QPS_ERR)
		return turn_err(e, t, quantum);
	if (qp->state < OHCA_QPS_RTR)
		return TURN_IDLE;
	req = qp->state != OHCA_QPS_RTR && !qp->xrcd && !xp->sched.armed;
	if (xp->sched.rto_restart) {
		xp->sched.rto_restart = false;
		ohca_timer_set(e, xp, xp->req.una == xp->req.max || !qp->timeout ?
			       OHCA_NO_DEADLINE : e->sched->now + ohca_rto_ns(qp));
	}
	while (*quantum && (resp || req) && ohca_work_left(e)) {
		enum ohca_sent r;

		if (resp && !skip) {
			/* several at once only if there are no requests to send between them */
			t->most = req ? 1 : *quantum;
			t->packets = 1;
			r = ohca_resp_pending(xp) ? ohca_resp_send(e, qp, t) : OHCA_SENT_NONE;
			if (r == OHCA_SENT_BLOCKED) {
				if (t->wait != OHCA_WAIT_FAULT)
					return TURN_BLOCKED;
				resp_fault = true;
			}
			resp = r == OHCA_SENT;
			if (r == OHCA_SENT_NONE)
				xp->sched.answers = ohca_resp_pending(xp);
			*quantum -= resp ? t->packets : 0;
			xp->sched.resp_last = resp;
		}
		skip = false;
		if (req && *quantum) {
			t->most = resp ? 1 : *quantum;
			t->packets = 1;
			r = connected ? ohca_req_send(e, qp, t) : ohca_ud_send(e, qp, t);
			if (r == OHCA_SENT_BLOCKED) {
				if (t->wait != OHCA_WAIT_FAULT)
					return TURN_BLOCKED;
				req_fault = true;
			}
			*quantum -= r == OHCA_SENT ? t->packets : 0;
			req = r == OHCA_SENT && !all_sent(qp);
			xp->sched.resp_last = false;
		}
		if (qp->state == OHCA_QPS_ERR)
			return TURN_MORE;
	}
	if (resp || req)
		return TURN_MORE;
	t->wait = OHCA_WAIT_FAULT;	/* the only reason to wait from here on */
	xp->sched.req_fault = req_fault;
	if (req_fault)
		return TURN_BLOCKED;
	ohca_sq_ci(e, qp);
	if (qp->state == OHCA_QPS_SQD)
		ohca_sq_drained(e, qp);
	if (qp->state != OHCA_QPS_RTR && !ohca_sq_idle(e, qp))
		return TURN_MORE;
	return resp_fault ? TURN_BLOCKED : TURN_IDLE;
}

/* After a turn: a lane without credits is not ready; a lane that sent may have more credits. */
static void chain(ohca_engine *e, const struct ohca_turn *t)
{
	struct ohca_sched *s = e->sched;
	unsigned int lane;

	if (t->wait == OHCA_WAIT_CREDITS)
		s->ready &= ~(1u << t->lane);
	if (!t->sent)
		return;
	lane = t->sent - 1;
	if (s->ready >> lane & 1 && !wake_one(e, s->wait[lane / 16][lane % 16]))
		s->ready &= ~(1u << lane);
}

/* The lanes of @port with active QPs; OHCA_MAX_PORTS: whether there is work without packets. */
static uint32_t port_lanes(const struct ohca_sched *s, unsigned int port)
{
	return s->busy >> 16 * port & 0xffff;
}

/*
 * Choose one of several busy lists. Ports have separate links and alternate with each other and
 * with work without packets, which needs no link. The lanes of a port share its link, packet by
 * packet, by its VLArbitrationTables (7.6.9). Lanes that are not in these tables send when no other
 * lane can. Sets the lane in @t and, if the arbiter chooses it, *@quantum. Return: the list.
 */
static unsigned int arbitrate(ohca_engine *e, struct ohca_turn *t, unsigned int *quantum)
{
	struct ohca_sched *s = e->sched;
	uint32_t lanes;
	int vl;

	if (!s->port_left || !port_lanes(s, s->port)) {
		do {
			s->port = (s->port + 1) % (OHCA_MAX_PORTS + 1);
		} while (!port_lanes(s, s->port));
		s->port_left = OHCA_QUANTUM;
	}
	if (s->port == OHCA_MAX_PORTS) {
		t->grant = OHCA_LANE_NONE;
		return OHCA_LANE_NONE;
	}
	lanes = port_lanes(s, s->port);
	vl = __builtin_ctz(lanes);
	if (lanes & (lanes - 1)) {
		t->arb = ohca_mad_vlarb(e, s->port);
		vl = ib_vlarb_pick(t->arb, (uint16_t)lanes);
		if (vl < 0)
			vl = __builtin_ctz(lanes);
		t->grant = ohca_lane(s->port, (unsigned int)vl);
		*quantum = 1;
	}
	return ohca_lane(s->port, (unsigned int)vl);
}

/* After a turn whose lane the arbiter chose: charge the bytes to the lane. */
static void charge_turn(const struct ohca_turn *t, unsigned int lane, enum turn end)
{
	/* charge a turn without bytes, too: repeated ones must not starve other lanes */
	uint32_t bytes = t->charge || end != TURN_MORE ? t->charge : IB_VLARB_UNIT;

	if (bytes)
		ib_vlarb_sent(t->arb, (uint8_t)(lane % 16), bytes);
}

/*
 * After a turn of @cost steps: choose the list for the QP's next turn. It is that of the lane that
 * the QP has sent on last. If the QP has more work, but has sent no packet for OHCA_QUANTUM steps
 * or has only its queues to flush, it is the list of work without packets. So a few local WQEs
 * before a packet do not move a QP from the list of its lane, and an idle QP returns to it.
 */
static void next_list(const struct ohca_turn *t, enum turn end, unsigned int cost)
{
	struct ohca_xport *xp = t->xp;
	bool err = xp->qp->state == OHCA_QPS_ERR;

	if (t->sent)
		xp->sched.lane = xp->sched.home = (uint8_t)(t->sent - 1);
	if (t->charge || end == TURN_IDLE)
		xp->sched.empty = 0;
	else if (end == TURN_MORE && xp->sched.empty < OHCA_QUANTUM)
		xp->sched.empty = (uint8_t)(xp->sched.empty + cost);
	if (end == TURN_MORE && (err ? !xp->resp.closing : xp->sched.empty >= OHCA_QUANTUM))
		xp->sched.lane = OHCA_LANE_NONE;
	else if (end == TURN_IDLE && !err)
		xp->sched.lane = xp->sched.home;
}

/* The QP had no room for its next packet: put it on the list of QPs that wait for this room. */
static void park(ohca_engine *e, const struct ohca_turn *t, bool sent)
{
	struct ohca_sched *s = e->sched;
	struct ohca_xport *xp = t->xp;

	if (t->wait == OHCA_WAIT_TURN) {
		xp->sched.lane = (uint8_t)t->lane;
		ohca_sched_activate(e, xp);
		return;
	}
	xp->sched.on = OHCA_XP_WAIT;
	switch (t->wait) {
	case OHCA_WAIT_PACE:
		ohca_heap_add(&s->paced, &xp->sched.due, xp->sched.paced + OHCA_PACE_NS / 2);
		break;
	case OHCA_WAIT_LOOP:
		ohca_list_add_tail(&s->wait_loop[sent], &xp->sched.link);
		s->waiting = true;
		break;
	case OHCA_WAIT_FAULT:
		xp->sched.on = OHCA_XP_WAIT_FAULT;
		xp->sched.fault_gen = s->fault_gen;
		ohca_list_add_tail(&s->wait_fault[sent], &xp->sched.link);
		break;
	case OHCA_WAIT_CREDITS:
		ohca_list_add_tail(&s->wait[t->lane / 16][t->lane % 16][sent], &xp->sched.link);
		break;
	case OHCA_WAIT_NONE:	/* not blocked */
	case OHCA_WAIT_TURN:
		break;
	}
}

static void qp_run(ohca_engine *e, unsigned int *budget)
{
	struct ohca_sched *s = e->sched;
	struct ohca_turn t = ohca_turn_of(NULL);
	unsigned int quantum = *budget < OHCA_QUANTUM ? *budget : OHCA_QUANTUM, left, cost;
	bool several = s->busy & (s->busy - 1);
	unsigned int lane = several ? arbitrate(e, &t, &quantum) :
				      (unsigned int)__builtin_ctzll(s->busy);
	struct ohca_list *head = s->active[lane].next;
	struct ohca_xport *xp = ohca_container_of(head, struct ohca_xport, sched.link);
	uint32_t slots;
	enum turn end;

	slots = s->fault_next == xp ? e->num_faults : OHCA_MAX_FAULTS;
	ohca_sched_off(s, xp);
	t.xp = xp;
	left = quantum;
	end = qp_turn(e, &t, &left);
	ohca_burst_end(e, xp->qp);
	/* a turn without a packet costs as much as one packet, so that the run ends */
	cost = left < quantum ? quantum - left : 1;
	if (xp->sched.on == OHCA_XP_OFF)
		next_list(&t, end, cost);
	/* for datagrams and UC without signaled WQEs only this frees room in the queue */
	if (end != TURN_IDLE)
		ohca_sq_ci(e, xp->qp);
	if (end == TURN_MORE)
		ohca_sched_activate(e, xp);
	else if (end == TURN_BLOCKED && xp->sched.on == OHCA_XP_OFF)
		park(e, &t, left < quantum);
	if (t.arb)
		charge_turn(&t, lane, end);
	chain(e, &t);
	if (e->num_faults > slots)
		s->fault_room--;
	if (s->fault_room)
		fault_wake(e);
	ohca_work(e, cost * OHCA_WORK_WQE);
	*budget -= cost;
	if (several)
		s->port_left -= cost < s->port_left ? cost : s->port_left;
}

/**
 * struct loop_share - the rest of a run's budget that looped packets may use
 * @budget: packets; @work: units of work
 */
struct loop_share {
	unsigned int budget;
	uint64_t work;
};

static bool loop_ready(const struct ohca_sched *s, const struct loop_share *share)
{
	return s->loop_head != s->loop_tail && share->budget && share->work;
}

/*
 * Deliver looped packets; packets that are added during this wait for the next call. One packet may
 * be for thousands of members of a group, so looped packets have only a share of the run. The rest
 * is for QPs that send, whose acknowledgements peers wait for.
 */
static void loop_run(ohca_engine *e, unsigned int *budget, struct loop_share *share)
{
	struct ohca_sched *s = e->sched;
	uint64_t begin = e->work, work_end = e->work_end, used;
	uint32_t first = s->loop_tail, end = s->loop_head;

	ohca_work_begin(e, share->work);
	while (s->loop_tail != end && share->budget && ohca_work_left(e)) {
		uint32_t i = s->loop_tail & (OHCA_LOOP_SLOTS - 1);

		ohca_rx_loop(e, s->loop_port[i], s->loop + (size_t)i * OHCA_SLOT_SIZE,
			     s->loop_len[i], !(s->loop_kept >> i & 1), s->loop_from[i]);
		share->budget--;
		/* the last unit is reserved for QPs */
		*budget -= *budget > 1;
		s->loop_from[i] = s->mcast_left;
		s->mcast_left = 0;
		if (s->loop_from[i])
			continue;
		s->loop_kept &= ~(1ull << i);
		s->loop_tail++;
	}
	used = e->work - begin;
	/* work beyond the share must not reduce the allowance of the QPs */
	e->work_end = work_end + (used > share->work ? used - share->work : 0);
	share->work -= used < share->work ? used : share->work;
	/* one QP for each slot that became free */
	wake(e, s->wait_loop, s->loop_tail - first);
}

bool ohca_sched_run(ohca_engine *e, unsigned int budget)
{
	struct ohca_sched *s = e->sched;
	struct ohca_xport *fault_next = s->fault_next;
	struct loop_share share;
	bool loop;

	if (!budget)
		budget = 1;
	share.budget = (budget + 1) / 2;
	share.work = (uint64_t)budget * OHCA_WORK_PKT / 2;
	ohca_work_begin(e, (uint64_t)budget * OHCA_WORK_PKT);
	s->now = ohca_turn_now(e);
	if (s->heap_num && s->heap[0].key <= s->now)
		ohca_timers_run(e);
	if (s->release || ohca_heap_next(&s->paced) <= s->now)
		paced_run(e, budget);
	if (s->ready)
		wake_ready(e);
	if (s->waiting)
		waiters_wake(e, budget);
	if (s->fault_room)
		fault_wake(e);
	while (budget && ohca_work_left(e) && ohca_running(e)) {
		loop = loop_ready(s, &share);
		if (loop)
			loop_run(e, &budget, &share);
		if (s->mads_due) {
			ohca_madq_run(e);
			budget--;
		}
		/* a turn without budget would only move the QP in its list */
		if (!budget || !ohca_work_left(e))
			break;
		if (s->busy)
			qp_run(e, &budget);
		else if (s->ready)
			wake_ready(e);
		else if (s->waiting && waiters(s))
			waiters_wake(e, budget);
		else if (!loop && !s->mads_due)
			break;
	}
	/* if it had no turn, because its lane was not chosen, do not wait for it any longer */
	if (fault_next && s->fault_next == fault_next)
		s->fault_next = NULL;
	return ohca_running(e) && (s->busy || s->ready || s->mads_due || s->release ||
				   (s->waiting && waiters(s)) ||
				   fault_ready(s) || s->loop_head != s->loop_tail);
}

uint64_t ohca_sched_deadline(const ohca_engine *e)
{
	const struct ohca_sched *s = e->sched;
	uint64_t t = s->heap_num ? s->heap[0].key : OHCA_NO_DEADLINE;
	uint64_t p = ohca_heap_next(&s->paced);

	return t < p ? t : p;
}

/* ---- creation and reset ----------------------------------------------------------- */

bool ohca_sched_empty(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;

	if (!ohca_pools_free_some(e))
		return false;
	ohca_work_free(e, s->heap_cap * sizeof(*s->heap));
	ohca_mem_put(e, s->heap, s->heap_cap * sizeof(*s->heap));
	ohca_heap_free(e, &s->paced);
	s->heap = NULL;
	s->heap_cap = 0;
	return true;
}

void ohca_sched_continue(ohca_engine *e, const ohca_engine *was)
{
	struct ohca_sched *s = e->sched, *old = was->sched;

	s->port = old->port;
	s->port_left = old->port_left;
	memcpy(s->gen, old->gen, sizeof(s->gen));
	memcpy(s->refused_ns, old->refused_ns, sizeof(s->refused_ns));
	memcpy(s->idle_ns, old->idle_ns, sizeof(s->idle_ns));
	s->refused = old->refused;
	old->refused = 0;
	/* the host continues these flushes, so their slots stay in use */
	for (unsigned int i = 0; i < OHCA_PERSISTS; i++)
		s->persist[i] = (struct ohca_persist){ .tag = old->persist[i].tag };
	s->persist_tag = old->persist_tag;
}

void ohca_sched_reset(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;

	s->loop_tail = s->loop_head;
	s->loop_kept = 0;
	s->ready = 0;
	s->mads_due = false;
	for (unsigned int p = 0; p < OHCA_MAX_PORTS; p++) {
		s->late[p].tail = s->late[p].head;
		s->late[p].blocked = false;
		for (unsigned int q = 0; q < 2; q++) {
			s->madq[p][q].tail = s->madq[p][q].head;
			s->madq[p][q].blocked = false;
		}
	}
}

int ohca_sched_init(ohca_engine *e)
{
	struct ohca_sched *s = calloc(1, sizeof(*s));

	if (!s)
		return -1;
	s->loop = malloc((size_t)OHCA_LOOP_SLOTS * OHCA_SLOT_SIZE);
	if (!s->loop) {
		free(s);
		return -1;
	}
	for (unsigned int i = 0; i < OHCA_LISTS; i++)
		ohca_list_init(&s->active[i]);
	for (unsigned int i = 0; i < 2; i++) {
		ohca_list_init(&s->wait_loop[i]);
		ohca_list_init(&s->moved[i]);
		ohca_list_init(&s->wait_fault[i]);
		for (unsigned int p = 0; p < OHCA_MAX_PORTS; p++)
			for (unsigned int v = 0; v < 16; v++)
				ohca_list_init(&s->wait[p][v][i]);
	}
	e->sched = s;
	return 0;
}

void ohca_sched_free(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;

	if (!s)
		return;
	free(s->loop);
	free(s);
	e->sched = NULL;
}
