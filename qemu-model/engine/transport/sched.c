/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The scheduler: which QP sends next.
 *
 * A QP is on one list: active (it may have something to do), one of the wait lists (it
 * has, but no credits or no room in the loop, or is ahead of its static rate), or none.
 * Active QPs take turns of OHCA_QUANTUM packets. If those of several lanes of a port have
 * something to send, the port's VL arbiter says which lane sends each packet. Timers are a
 * heap with lazy keys: moving a timer to later costs nothing, the heap finds out when the old
 * time comes.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/object/to_transport.h"
#include "engine/transport/completer.h"
#include "engine/transport/madq.h"
#include "engine/transport/pool.h"
#include "engine/transport/requester.h"
#include "engine/transport/responder.h"
#include "engine/transport/rx.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/suspend.h"
#include "engine/transport/tagged.h"
#include "engine/transport/timer.h"
#include "engine/transport/to_agents.h"
#include "engine/transport/tx.h"
#include "engine/transport/ud.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ib/vl.h"
#include "ohca_hw.h"

/* ---- pools ------------------------------------------------------------------------- */

static size_t win_bbs(unsigned int log)
{
	return ((1u << log) + OHCA_MAX_WQE_BBS - 1) << OHCA_BB_SHIFT;
}

size_t ohca_win_bytes(unsigned int log)
{
	size_t n = sizeof(struct ohca_sqwin) + win_bbs(log) + sizeof(struct ohca_swqe) * (1u << log);

	return (n + 127) & ~(size_t)63;
}

/* What a window takes of the budget beyond what is reserved for each QP. */
static size_t win_extra(unsigned int log)
{
	return ohca_win_bytes(log) - ohca_win_bytes(OHCA_MIN_LOG_WIN);
}

struct ohca_sqwin *ohca_win_get(ohca_engine *e, unsigned int log_sq)
{
	unsigned int log = log_sq < OHCA_MIN_LOG_WIN ? OHCA_MIN_LOG_WIN :
			   log_sq > OHCA_MAX_LOG_WIN ? OHCA_MAX_LOG_WIN : log_sq;
	struct ohca_sqwin *w;

	if (log > OHCA_MIN_LOG_WIN && !ohca_mem_reserve(e, win_extra(log)))
		log = OHCA_MIN_LOG_WIN;
	w = e->sched->win_free[log];
	if (w) {
		e->sched->win_free[log] = w->next;
		e->sched->win_num[log]--;
		return w;
	}
	/* only until as many exist as QPs are busy at once */
	w = aligned_alloc(64, ohca_win_bytes(log));
	if (!w) {
		ohca_mem_release(e, win_extra(log));
		return NULL;
	}
	w->log = (uint8_t)log;
	w->mask = (1u << log) - 1;
	w->bb = (uint8_t *)w + ((sizeof(*w) + 63) & ~(size_t)63);
	w->wqe = (struct ohca_swqe *)(void *)(w->bb + win_bbs(log));
	return w;
}

void ohca_win_put(ohca_engine *e, struct ohca_sqwin *w)
{
	ohca_mem_release(e, win_extra(w->log));
	if (e->sched->win_num[w->log] == OHCA_POOL_KEEP) {
		free(w);
		return;
	}
	e->sched->win_num[w->log]++;
	w->next = e->sched->win_free[w->log];
	e->sched->win_free[w->log] = w;
}

struct ohca_rwqe *ohca_rwqe_get(ohca_engine *e)
{
	struct ohca_rwqe_slot *s = e->sched->rwqe_free;

	if (s) {
		e->sched->rwqe_free = s->next;
		e->sched->rwqe_num--;
	} else {
		s = malloc(sizeof(*s));
	}
	return s ? &s->r : NULL;
}

void ohca_rwqe_put(ohca_engine *e, struct ohca_rwqe *r)
{
	struct ohca_rwqe_slot *s = ohca_container_of(r, struct ohca_rwqe_slot, r);

	if (e->sched->rwqe_num == OHCA_POOL_KEEP) {
		free(s);
		return;
	}
	e->sched->rwqe_num++;
	s->next = e->sched->rwqe_free;
	e->sched->rwqe_free = s;
}

struct ohca_rdring *ohca_rdring_get(ohca_engine *e)
{
	struct ohca_rdring *r = e->sched->rd_free;

	if (r) {
		e->sched->rd_free = r->next;
		e->sched->rd_num--;
	} else {
		r = malloc(sizeof(*r));
	}
	return r;
}

void ohca_rdring_put(ohca_engine *e, struct ohca_rdring *r)
{
	if (e->sched->rd_num == OHCA_POOL_KEEP) {
		free(r);
		return;
	}
	e->sched->rd_num++;
	r->next = e->sched->rd_free;
	e->sched->rd_free = r;
}

static void pools_free(struct ohca_sched *s)
{
	for (unsigned int i = 0; i <= OHCA_MAX_LOG_WIN; i++)
		while (s->win_free[i]) {
			struct ohca_sqwin *w = s->win_free[i];

			s->win_free[i] = w->next;
			free(w);
		}
	while (s->rwqe_free) {
		struct ohca_rwqe_slot *r = s->rwqe_free;

		s->rwqe_free = r->next;
		free(r);
	}
	while (s->rd_free) {
		struct ohca_rdring *r = s->rd_free;

		s->rd_free = r->next;
		free(r);
	}
	memset(s->win_num, 0, sizeof(s->win_num));
	s->rwqe_num = s->rd_num = 0;
}

/* ---- timers ------------------------------------------------------------------------ */

static void heap_put(struct ohca_sched *s, uint32_t i, struct ohca_xport *xp)
{
	s->heap[i] = xp;
	xp->heap = i + 1;
}

static void heap_up(struct ohca_sched *s, uint32_t i, struct ohca_xport *xp)
{
	while (i) {
		uint32_t parent = (i - 1) / 2;

		if (s->heap[parent]->heap_key <= xp->heap_key)
			break;
		heap_put(s, i, s->heap[parent]);
		i = parent;
	}
	heap_put(s, i, xp);
}

static void heap_down(struct ohca_sched *s, uint32_t i, struct ohca_xport *xp)
{
	for (;;) {
		uint32_t kid = 2 * i + 1;

		if (kid >= s->heap_num)
			break;
		if (kid + 1 < s->heap_num &&
		    s->heap[kid + 1]->heap_key < s->heap[kid]->heap_key)
			kid++;
		if (s->heap[kid]->heap_key >= xp->heap_key)
			break;
		heap_put(s, i, s->heap[kid]);
		i = kid;
	}
	heap_put(s, i, xp);
}

static void heap_remove(struct ohca_sched *s, struct ohca_xport *xp)
{
	uint32_t i = xp->heap - 1;
	struct ohca_xport *last;

	if (!xp->heap)
		return;
	xp->heap = 0;
	last = s->heap[--s->heap_num];
	if (last == xp)
		return;
	if (i && s->heap[(i - 1) / 2]->heap_key > last->heap_key)
		heap_up(s, i, last);
	else
		heap_down(s, i, last);
}

void ohca_timer_set(ohca_engine *e, struct ohca_xport *xp, uint64_t t)
{
	struct ohca_sched *s = e->sched;

	xp->timer = t;
	if (xp->heap ? t >= xp->heap_key : t == OHCA_NO_DEADLINE)
		return;
	xp->heap_key = t;
	if (xp->heap)
		heap_up(s, xp->heap - 1, xp);
	else
		heap_up(s, s->heap_num++, xp);
}

static void timers_run(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;
	/* a timer that rings may set itself again, but not to the past for ever */
	uint32_t bound = s->heap_num;

	while (bound-- && s->heap_num && s->heap[0]->heap_key <= s->now) {
		struct ohca_xport *xp = s->heap[0];

		if (xp->timer > s->now) {
			if (xp->timer == OHCA_NO_DEADLINE) {
				heap_remove(s, xp);
			} else {
				xp->heap_key = xp->timer;
				heap_down(s, 0, xp);
			}
			continue;
		}
		heap_remove(s, xp);
		xp->timer = OHCA_NO_DEADLINE;
		ohca_comp_timer(e, xp->qp);
	}
}

uint64_t ohca_sched_deadline(const ohca_engine *e)
{
	const struct ohca_sched *s = e->sched;

	uint64_t t = s->heap_num ? s->heap[0]->heap_key : OHCA_NO_DEADLINE;

	return t < s->paced_ns ? t : s->paced_ns;
}

/* ---- lists ------------------------------------------------------------------------- */

static void off(struct ohca_sched *s, struct ohca_xport *xp)
{
	if (xp->on != OHCA_XP_OFF)
		ohca_list_del(&xp->link);
	if (xp->on == OHCA_XP_ACTIVE && ohca_list_empty(&s->active[xp->lane]))
		s->busy &= ~(1u << xp->lane);
	xp->on = OHCA_XP_OFF;
}

void ohca_sched_activate(ohca_engine *e, struct ohca_xport *xp)
{
	if (xp->on != OHCA_XP_OFF)
		return;
	xp->on = OHCA_XP_ACTIVE;
	ohca_list_add_tail(&e->sched->active[xp->lane], &xp->link);
	e->sched->busy |= 1u << xp->lane;
}

/* The first who waits becomes active; false: nobody does. Who had nothing of the last
 * credits comes first. */
static bool wake_one(ohca_engine *e, struct ohca_list pair[2])
{
	struct ohca_list *l = ohca_list_empty(&pair[0]) ? &pair[1] : &pair[0];
	struct ohca_xport *xp;

	if (ohca_list_empty(l))
		return false;
	xp = ohca_container_of(l->next, struct ohca_xport, link);
	off(e->sched, xp);
	ohca_sched_activate(e, xp);
	return true;
}

static void wake(ohca_engine *e, struct ohca_list pair[2])
{
	while (wake_one(e, pair))
		;
}

/*
 * Credits come for a few packets, and hundreds of QPs may wait for them. So one is woken,
 * and who could send wakes the next (see run_one()); this begins such a chain for each lane,
 * and begins it again where one ended with a QP that had nothing to send any more.
 */
static void wake_ready(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;

	for (unsigned int p = 0; p < e->cfg.num_ports; p++)
		for (uint16_t m = s->ready[p]; m; m &= (uint16_t)(m - 1)) {
			unsigned int vl = (unsigned int)__builtin_ctz(m);

			if (!wake_one(e, s->wait[p][vl]))
				s->ready[p] &= (uint16_t)~(1u << vl);
		}
}

static bool any_ready(const struct ohca_sched *s)
{
	for (unsigned int p = 0; p < OHCA_MAX_PORTS; p++)
		if (s->ready[p])
			return true;
	return false;
}

/* Who waited for its static rate, and where the others are due. */
static void paced_run(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;
	struct ohca_list *l = s->paced.next, *next;

	s->paced_ns = OHCA_NO_DEADLINE;
	for (; l != &s->paced; l = next) {
		struct ohca_xport *xp = ohca_container_of(l, struct ohca_xport, link);
		uint64_t due = xp->paced + OHCA_PACE_NS / 2;

		next = l->next;
		if (due <= s->now) {
			off(s, xp);
			ohca_sched_activate(e, xp);
		} else if (due < s->paced_ns) {
			s->paced_ns = due;
		}
	}
}

void ohca_xp_tx_ready(ohca_engine *e, unsigned int port, uint16_t lanes)
{
	e->sched->ready[port] |= lanes;
	e->sched->madq[port][0].blocked = false;
	e->sched->madq[port][1].blocked = false;
	e->sched->late[port].blocked = false;
}

void ohca_xp_fault_room(ohca_engine *e)
{
	wake(e, e->sched->wait_fault);
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
	/* who waits may have no lane any more */
	for (unsigned int vl = 0; vl < 16; vl++)
		wake(e, e->sched->wait[port][vl]);
	ohca_xp_tx_ready(e, port, 0);
}

/* ---- running ----------------------------------------------------------------------- */

enum turn { TURN_MORE, TURN_IDLE, TURN_BLOCKED };

static bool rq_in_err(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum)
{
	if (ohca_rq_flush(e, qp, quantum))
		return true;
	/* nothing is there: ask for doorbells and look once more */
	return !qp->srq && !(qp->flags & OHCA_QP_NO_RQ) && ohca_rq_notify(e, qp, true);
}

static enum turn turn_err(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum)
{
	struct ohca_xport *xp = qp->xp;
	bool more, blocked = false;

	while (xp->closing && *quantum) {
		enum ohca_sent r = ohca_resp_send(e, qp);

		blocked = r == OHCA_SENT_BLOCKED;
		if (blocked)
			break;
		if (r == OHCA_SENT_NONE)
			xp->closing = false;
		else
			--*quantum;
	}
	more = ohca_sq_flush(e, qp, quantum);
	more |= rq_in_err(e, qp, quantum);
	if (more || (xp->closing && !blocked) || !ohca_sq_idle(e, qp))
		return TURN_MORE;
	/* flushing does not wait for credits, what is left to say does */
	return blocked ? TURN_BLOCKED : TURN_IDLE;
}

static enum turn turn(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum)
{
	struct ohca_xport *xp = qp->xp;
	bool connected = !ohca_qp_datagram(qp);
	/* turns may be of one packet: requests and responses alternate over them */
	bool skip = xp->resp_last;
	bool resp = true, req;

	if (qp->state == OHCA_QPS_ERR)
		return turn_err(e, qp, quantum);
	if (qp->state < OHCA_QPS_RTR)
		return TURN_IDLE;
	req = qp->state != OHCA_QPS_RTR && !qp->xrcd;
	if (xp->rto_restart) {
		xp->rto_restart = false;
		ohca_timer_set(e, xp, xp->una == xp->max || !qp->timeout ?
			       OHCA_NO_DEADLINE : e->sched->now + ohca_rto_ns(qp));
	}
	while (*quantum && (resp || req)) {
		enum ohca_sent r;

		if (resp && !skip) {
			r = ohca_resp_pending(xp) ? ohca_resp_send(e, qp) : OHCA_SENT_NONE;
			if (r == OHCA_SENT_BLOCKED)
				return TURN_BLOCKED;
			resp = r == OHCA_SENT;
			*quantum -= resp;
			xp->resp_last = resp;
		}
		skip = false;
		if (req && *quantum) {
			r = connected ? ohca_req_send(e, qp) : ohca_ud_send(e, qp);
			if (r == OHCA_SENT_BLOCKED)
				return TURN_BLOCKED;
			req = r == OHCA_SENT;
			*quantum -= req;
			xp->resp_last = false;
		}
		if (qp->state == OHCA_QPS_ERR)
			return TURN_MORE;
	}
	if (resp || req)
		return TURN_MORE;
	ohca_sq_ci(e, qp);
	if (qp->state == OHCA_QPS_RTR)
		return TURN_IDLE;
	if (qp->state == OHCA_QPS_SQD)
		ohca_sq_drained(e, qp);
	return ohca_sq_idle(e, qp) ? TURN_IDLE : TURN_MORE;
}

/* After a turn: a lane that refused has no credits left; one that did not may have more. */
static void chain(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;
	unsigned int lane;

	if (s->blocked >= s->wait[0][0] && s->blocked <= s->wait[OHCA_MAX_PORTS - 1][15]) {
		lane = (unsigned int)(s->blocked - s->wait[0][0]) / 2;
		s->ready[lane / 16] &= (uint16_t)~(1u << lane % 16);
	}
	if (!s->sent)
		return;
	lane = s->sent - 1;
	if (s->ready[lane / 16] >> lane % 16 & 1 && !wake_one(e, s->wait[lane / 16][lane % 16]))
		s->ready[lane / 16] &= (uint16_t)~(1u << lane % 16);
}

/* The lanes of one port that QPs are active on. */
static uint32_t port_lanes(const struct ohca_sched *s, unsigned int port)
{
	return s->busy >> 16 * port & 0xffff;
}

/*
 * Several lanes are busy. Ports have wires of their own and take turns; the lanes of a port
 * share one, packet by packet, as its VLArbitrationTables say (7.6.9). Lanes that these do
 * not mention have what the others leave. Return: the lane.
 */
static unsigned int arbitrate(ohca_engine *e, unsigned int *quantum)
{
	struct ohca_sched *s = e->sched;
	uint32_t lanes;
	int vl;

	if (!s->port_left || !port_lanes(s, s->port)) {
		do {
			s->port = (s->port + 1) % OHCA_MAX_PORTS;
		} while (!port_lanes(s, s->port));
		s->port_left = OHCA_QUANTUM;
	}
	lanes = port_lanes(s, s->port);
	vl = __builtin_ctz(lanes);
	if (lanes & (lanes - 1)) {
		s->arb = ohca_mad_vlarb(e, s->port);
		vl = ib_vlarb_pick(s->arb, (uint16_t)lanes);
		if (vl < 0)
			vl = __builtin_ctz(lanes);
		s->grant = ohca_lane(s->port, (unsigned int)vl);
		*quantum = 1;
	}
	return ohca_lane(s->port, (unsigned int)vl);
}

/* After a turn that the arbiter gave. */
static void charge_turn(struct ohca_sched *s, unsigned int lane, enum turn t)
{
	/* what takes no room on the wire, but again and again, must not keep the others */
	uint32_t bytes = s->charge || t != TURN_MORE ? s->charge : IB_VLARB_UNIT;

	if (bytes)
		ib_vlarb_sent(s->arb, (uint8_t)(lane % 16), bytes);
	s->arb = NULL;
	s->grant = OHCA_LANE_ANY;
}

/* It had no room for its next packet. */
static void park(ohca_engine *e, struct ohca_xport *xp, bool sent)
{
	struct ohca_sched *s = e->sched;

	if (s->blocked == s->wait_turn) {
		xp->lane = (uint8_t)s->want;
		ohca_sched_activate(e, xp);
		return;
	}
	xp->on = OHCA_XP_WAIT;
	if (s->blocked == s->wait_pace) {
		uint64_t due = xp->paced + OHCA_PACE_NS / 2;

		ohca_list_add_tail(&s->paced, &xp->link);
		if (due < s->paced_ns)
			s->paced_ns = due;
		return;
	}
	ohca_list_add_tail(&s->blocked[sent], &xp->link);
}

static void run_one(ohca_engine *e, unsigned int *budget)
{
	struct ohca_sched *s = e->sched;
	unsigned int quantum = *budget < OHCA_QUANTUM ? *budget : OHCA_QUANTUM, left, cost;
	bool several = s->busy & (s->busy - 1);
	unsigned int lane = several ? arbitrate(e, &quantum) : (unsigned int)__builtin_ctz(s->busy);
	struct ohca_xport *xp = ohca_container_of(s->active[lane].next, struct ohca_xport, link);
	enum turn t;

	off(s, xp);
	s->blocked = NULL;
	s->sent = 0;
	s->charge = 0;
	s->turn = xp;
	left = quantum;
	t = turn(e, xp->qp, &left);
	s->turn = NULL;
	if (s->sent && xp->on == OHCA_XP_OFF)
		xp->lane = (uint8_t)(s->sent - 1);
	if (t == TURN_BLOCKED)
		ohca_sq_ci(e, xp->qp);
	if (t == TURN_MORE)
		ohca_sched_activate(e, xp);
	else if (t == TURN_BLOCKED && xp->on == OHCA_XP_OFF)
		park(e, xp, left < quantum);
	if (s->arb)
		charge_turn(s, lane, t);
	chain(e);
	/* a turn that found nothing costs one, so that the loop ends */
	cost = left < quantum ? quantum - left : 1;
	*budget -= cost;
	if (several)
		s->port_left -= cost < s->port_left ? cost : s->port_left;
}

/* Deliver looped packets; those that arrive meanwhile wait for the next round. */
static void loop_run(ohca_engine *e, unsigned int *budget)
{
	struct ohca_sched *s = e->sched;
	uint32_t end = s->loop_head;

	while (s->loop_tail != end && *budget) {
		uint32_t i = s->loop_tail & (OHCA_LOOP_SLOTS - 1);

		ohca_rx_packet(e, s->loop_port[i], s->loop + (size_t)i * OHCA_SLOT_SIZE,
			       s->loop_len[i], false, true);
		s->loop_tail++;
		--*budget;
	}
	wake(e, s->wait_loop);
}

static bool madq_ready(const struct ohca_sched *s)
{
	for (unsigned int p = 0; p < OHCA_MAX_PORTS; p++) {
		if (s->late[p].head != s->late[p].tail && !s->late[p].blocked)
			return true;
		for (unsigned int q = 0; q < 2; q++)
			if (s->madq[p][q].head != s->madq[p][q].tail && !s->madq[p][q].blocked)
				return true;
	}
	return false;
}

bool ohca_sched_run(ohca_engine *e, unsigned int budget)
{
	struct ohca_sched *s = e->sched;

	s->now = ohca_now(e);
	if (s->heap_num && s->heap[0]->heap_key <= s->now)
		timers_run(e);
	if (s->paced_ns <= s->now)
		paced_run(e);
	if (!budget)
		budget = 1;
	wake_ready(e);
	while (budget && ohca_running(e)) {
		if (s->loop_head != s->loop_tail)
			loop_run(e, &budget);
		if (madq_ready(s)) {
			ohca_madq_run(e);
			budget -= budget != 0;
		}
		if (!budget)
			break;
		if (s->busy)
			run_one(e, &budget);
		else if (any_ready(s))
			wake_ready(e);
		else if (s->loop_head == s->loop_tail && !madq_ready(s))
			break;
	}
	return ohca_running(e) && (s->busy || any_ready(s) ||
				   s->loop_head != s->loop_tail || madq_ready(s));
}

/* ---- life of the scheduler and of a QP's part --------------------------------------- */

void ohca_sched_reset(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;

	if (!s)
		return;
	pools_free(s);
	s->loop_tail = s->loop_head;
	for (unsigned int p = 0; p < OHCA_MAX_PORTS; p++) {
		s->ready[p] = 0;
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
	for (unsigned int i = 0; i < OHCA_LANES; i++)
		ohca_list_init(&s->active[i]);
	ohca_list_init(&s->paced);
	s->paced_ns = OHCA_NO_DEADLINE;
	s->grant = OHCA_LANE_ANY;
	for (unsigned int i = 0; i < 2; i++) {
		ohca_list_init(&s->wait_loop[i]);
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
	pools_free(s);
	free(s->heap);
	free(s->loop);
	free(s);
	e->sched = NULL;
}

/* Reserved for each QP: what it has only while it is busy. */
#define LAZY_BYTES	(ohca_win_bytes(OHCA_MIN_LOG_WIN) + sizeof(struct ohca_rwqe_slot))

int ohca_xp_create(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_sched *s = e->sched;
	struct ohca_xport *xp;

	if (s->num_xp == s->heap_cap) {
		uint32_t cap = s->heap_cap ? 2 * s->heap_cap : 64;
		struct ohca_xport **h = ohca_mem_resize(e, s->heap, s->heap_cap * sizeof(*h),
							cap * sizeof(*h));

		if (!h)
			return -1;
		s->heap = h;
		s->heap_cap = cap;
	}
	xp = ohca_mem_get(e, sizeof(*xp));
	if (!xp || !ohca_mem_reserve(e, LAZY_BYTES)) {
		ohca_mem_put(e, xp, sizeof(*xp));
		return -1;
	}
	ohca_list_init(&xp->link);
	xp->qp = qp;
	xp->timer = OHCA_NO_DEADLINE;
	qp->xp = xp;
	if (qp->srq && qp->srq->tm && ohca_tagged_create(e, qp)) {
		ohca_mem_release(e, LAZY_BYTES);
		ohca_mem_put(e, xp, sizeof(*xp));
		qp->xp = NULL;
		return -1;
	}
	s->num_xp++;
	return 0;
}

/* Forget everything but that the QP exists. */
static void reset(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_rndv *rndv = xp->rndv;

	/* tags that are given back may find no room in the CQ, which is an error of the QP */
	ohca_resp_reset(e, xp, false);
	if (rndv)
		ohca_tagged_reset(e, xp);
	off(e->sched, xp);
	ohca_xp_wait_update(e);
	ohca_suspend_forget_all(e, xp);
	heap_remove(e->sched, xp);
	xp->timer = OHCA_NO_DEADLINE;
	if (xp->win)
		ohca_win_put(e, xp->win);
	ohca_resp_free(e, xp);
	memset(xp, 0, sizeof(*xp));
	xp->rndv = rndv;
	ohca_list_init(&xp->link);
	xp->qp = qp;
	xp->timer = OHCA_NO_DEADLINE;
}

void ohca_xp_destroy(ohca_engine *e, struct ohca_qp *qp)
{
	if (!qp->xp)
		return;
	reset(e, qp);
	ohca_mem_put(e, qp->xp->rndv, sizeof(*qp->xp->rndv));
	ohca_mem_put(e, qp->xp, sizeof(*qp->xp));
	ohca_mem_release(e, LAZY_BYTES);
	qp->xp = NULL;
	e->sched->num_xp--;
}

/* What was posted before the QP can receive is known from the first acknowledgement on. */
static void look_at_rq(ohca_engine *e, struct ohca_qp *qp)
{
	int64_t posted;

	if (qp->type != OHCA_QPT_RC || qp->srq || qp->flags & OHCA_QP_NO_RQ)
		return;
	posted = ohca_rq_posted(e, qp);
	if (posted > 0)
		qp->rq_pi = qp->rq_ci + (uint32_t)posted;
}

static void to_err(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;

	ohca_timer_set(e, xp, OHCA_NO_DEADLINE);
	ohca_suspend_forget_all(e, xp);
	xp->rnr_wait = false;
	xp->rto_restart = false;
	ohca_resp_reset(e, xp, xp->closing);
	/* what waits for credits in vain has flushing to do, for which it needs no lane's turn */
	off(e->sched, xp);
	ohca_xp_wait_update(e);
	xp->lane = (uint8_t)ohca_lane(qp->port, IB_VL_MANAGEMENT);
	ohca_sched_activate(e, xp);
}

int ohca_xp_state(ohca_engine *e, struct ohca_qp *qp, uint8_t old, uint32_t mask)
{
	struct ohca_xport *xp = qp->xp;

	if (mask & (OHCA_ATTR_AV | OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT))
		xp->path_ok = false;
	if (mask & OHCA_ATTR_MAX_DEST_RD_ATOMIC && ohca_qp_reliable(qp) &&
	    qp->state != OHCA_QPS_RESET && ohca_resp_alloc(e, qp))
		return -1;
	switch (qp->state) {
	case OHCA_QPS_RESET:
		reset(e, qp);
		return 0;
	case OHCA_QPS_RTR:
		if (old != OHCA_QPS_INIT)
			break;
		xp->epsn = qp->rq_psn;
		xp->path_ok = false;
		look_at_rq(e, qp);
		if (xp->on == OHCA_XP_OFF)
			xp->lane = (uint8_t)ohca_lane(qp->port,
						      e->port[qp->port].sl2vl[qp->av.sl & 15]);
		return 0;
	case OHCA_QPS_RTS:
		if (old == OHCA_QPS_RTR) {
			xp->una = xp->nxt = xp->max = qp->sq_psn & IB_PSN_MASK;
			xp->credits = qp->type == OHCA_QPT_RC;
			xp->retry_left = qp->retry_cnt;
			xp->rnr_left = qp->rnr_retry;
		} else if (old == OHCA_QPS_SQE) {
			/* what was posted in SQE is flushed, even if its turn did not come */
			unsigned int all = 1u << qp->log_sq;

			ohca_sq_flush(e, qp, &all);
			ohca_sq_ci(e, qp);
		}
		xp->drain_told = false;
		qp->sqd_draining = false;
		break;
	case OHCA_QPS_SQD:
		if (old != OHCA_QPS_SQD) {
			xp->drain_told = false;
			qp->sqd_draining = true;
		}
		break;
	case OHCA_QPS_ERR:
		if (old != OHCA_QPS_ERR)
			to_err(e, qp);
		return 0;
	default:
		break;
	}
	ohca_sched_activate(e, xp);
	return 0;
}

void ohca_xp_migrated(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;

	xp->path_ok = false;
	xp->retry_left = qp->retry_cnt;
	off(e->sched, xp);
	ohca_xp_wait_update(e);
	ohca_sched_activate(e, xp);
}

void ohca_xp_kick_sq(ohca_engine *e, struct ohca_qp *qp)
{
	/* flushing needs no credits */
	if (qp->state == OHCA_QPS_ERR)
		off(e->sched, qp->xp);
	if (qp->state >= OHCA_QPS_RTS)
		ohca_sched_activate(e, qp->xp);
}

void ohca_xp_kick_rq(ohca_engine *e, struct ohca_qp *qp)
{
	if (qp->state != OHCA_QPS_ERR)
		return;
	off(e->sched, qp->xp);
	ohca_sched_activate(e, qp->xp);
}

void ohca_xp_query(ohca_engine *e, const struct ohca_qp *qp, uint32_t *sq_psn, uint32_t *rq_psn,
		   bool *draining)
{
	const struct ohca_xport *xp = qp->xp;

	(void)e;
	*sq_psn = qp->state >= OHCA_QPS_RTS ? xp->max : qp->sq_psn;
	*rq_psn = qp->state >= OHCA_QPS_RTR ? xp->epsn : qp->rq_psn;
	*draining = qp->state == OHCA_QPS_SQD && qp->sqd_draining;
}

void ohca_xp_context(const struct ohca_qp *qp, struct ohca_hw_qp_context *x)
{
	const struct ohca_xport *xp = qp->xp;

	x->sq_pi = ohca_to_le32(xp->pi);
	x->sq_cur = ohca_to_le32(xp->cur);
	x->sq_ci = ohca_to_le32(xp->tail);
	x->una_psn = ohca_to_le32(xp->una & IB_PSN_MASK);
	x->next_psn = ohca_to_le32(xp->nxt & IB_PSN_MASK);
	x->max_psn = ohca_to_le32(xp->max & IB_PSN_MASK);
	x->expected_psn = ohca_to_le32(xp->epsn & IB_PSN_MASK);
	x->msn = ohca_to_le32(xp->msn & IB_PSN_MASK);
	x->retry_left = xp->retry_left;
	x->rnr_left = xp->rnr_left;
	x->reads_out = ohca_to_le16(xp->rd_out);
	x->wait = (xp->rnr_wait ? OHCA_QPC_RNR_WAIT : 0) |
		  (xp->nak_sent ? OHCA_QPC_NAK_SENT : 0);
}
