/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The transport's part of a QP: creation, destruction, states, and functions for commands. */
#include <string.h>

#include "engine/base/le.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/work.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/object/to_transport.h"
#include "engine/transport/pool.h"
#include "engine/transport/responder.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/suspend.h"
#include "engine/transport/tagged.h"
#include "engine/transport/timer.h"
#include "engine/transport/turn.h"
#include "engine/transport/tx.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

/* Bytes reserved from the budget for each QP that has left RESET: its memory while it is busy. */
#define LAZY_BYTES	(ohca_win_bytes(OHCA_MIN_LOG_WIN) + sizeof(struct ohca_rwqe_slot))

size_t ohca_xp_bytes(void)
{
	return sizeof(struct ohca_xport);
}

int ohca_xp_create(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_sched *s = e->sched;
	struct ohca_xport *xp = ohca_xp_of(qp);

	if (ohca_timers_grow(e) || ohca_heap_room(e, &s->paced, s->num_xp + 1))
		return -1;
	ohca_list_init(&xp->sched.link);
	xp->qp = qp;
	xp->sched.timer = OHCA_NO_DEADLINE;
	qp->xp = xp;
	if (qp->srq && qp->srq->tm && ohca_tagged_create(e, qp)) {
		qp->xp = NULL;
		return -1;
	}
	s->num_xp++;
	return 0;
}

int ohca_xp_reserve(ohca_engine *e, struct ohca_qp *qp)
{
	if (qp->xp->reserved)
		return 0;
	qp->xp->reserved = ohca_mem_reserve(e, LAZY_BYTES);
	return qp->xp->reserved ? 0 : -1;
}

/* Reset the transport state. */
static void reset(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_rndv *rndv = xp->rndv;
	const bool reserved = xp->reserved;

	/* first, because flushed tags may find no room in the CQ and move the QP to ERR */
	ohca_resp_reset(e, xp, false);
	if (rndv)
		ohca_tagged_reset(e, xp);
	ohca_sched_off(e->sched, xp);
	ohca_xp_wait_update(e);
	ohca_suspend_forget_all(e, xp);
	ohca_timer_forget(e->sched, xp);
	if (xp->req.win)
		ohca_win_put(e, xp->req.win);
	ohca_resp_free(e, xp);
	memset(xp, 0, sizeof(*xp));
	xp->rndv = rndv;
	xp->reserved = reserved;
	ohca_list_init(&xp->sched.link);
	xp->qp = qp;
	xp->sched.timer = OHCA_NO_DEADLINE;
}

void ohca_xp_destroy(ohca_engine *e, struct ohca_qp *qp)
{
	if (!qp->xp)
		return;
	reset(e, qp);
	if (qp->xp->reserved)
		ohca_mem_release(e, LAZY_BYTES);
	ohca_mem_put(e, qp->xp->rndv, sizeof(*qp->xp->rndv));
	qp->xp = NULL;
	e->sched->num_xp--;
}

/* Read the receive queue before the first acknowledgement, which grants credits. */
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
	xp->req.rnr_wait = false;
	xp->sched.rto_restart = false;
	xp->flush_sqe = false;
	ohca_resp_reset(e, xp, xp->resp.closing);
	/* a QP that waits for credits must become active, since a flush needs no credits */
	ohca_sched_off(e->sched, xp);
	ohca_xp_wait_update(e);
	if (!xp->resp.closing)
		xp->sched.lane = OHCA_LANE_NONE;
	ohca_sched_activate(e, xp);
}

/* The path of the QP has changed: it no longer waits for credits of the old one. */
static void path_changed(ohca_engine *e, struct ohca_xport *xp)
{
	xp->sched.path_ok = false;
	if (xp->sched.on == OHCA_XP_OFF)
		return;
	ohca_sched_off(e->sched, xp);
	ohca_xp_wait_update(e);
	ohca_sched_activate(e, xp);
}

/* The timeout of the QP has changed: it also applies to packets under way. */
static void timeout_changed(struct ohca_xport *xp)
{
	/* not if the timer is that of an RNR NAK, or is stopped while the QP waits for a page */
	if (!xp->req.rnr_wait && !xp->fault[OHCA_FAULT_REQ])
		xp->sched.rto_restart = true;
}

/* Update the state that the transport derives from changed attributes. */
static void attr_changed(ohca_engine *e, struct ohca_qp *qp, uint32_t mask)
{
	struct ohca_xport *xp = qp->xp;

	if (mask & (OHCA_ATTR_AV | OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT))
		path_changed(e, xp);
	if (mask & OHCA_ATTR_TIMEOUT)
		timeout_changed(xp);
	if (mask & OHCA_ATTR_RETRY_CNT)
		xp->req.retry_left = qp->retry_cnt;
	if (mask & OHCA_ATTR_RNR_RETRY)
		xp->req.rnr_left = qp->rnr_retry;
}

int ohca_xp_state(ohca_engine *e, struct ohca_qp *qp, uint8_t old, uint32_t mask)
{
	struct ohca_xport *xp = qp->xp;

	xp->sched.armed = false;
	xp->sched.answers = true;
	attr_changed(e, qp, mask);
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
		xp->resp.epsn = qp->rq_psn;
		xp->sched.path_ok = false;
		look_at_rq(e, qp);
		xp->sched.home = ohca_sched_lane(e, qp->port, qp->av.sl);
		if (xp->sched.on == OHCA_XP_OFF)
			xp->sched.lane = xp->sched.home;
		return 0;
	case OHCA_QPS_RTS:
		if (old == OHCA_QPS_RTR) {
			xp->req.una = xp->req.nxt = xp->req.max = qp->sq_psn & IB_PSN_MASK;
			xp->req.credits = qp->type == OHCA_QPT_RC;
		} else if (old == OHCA_QPS_SQE) {
			/* flush WQEs that were posted in SQE, even if the QP had no turn in SQE */
			ohca_sq_flush_posted(e, qp);
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
	path_changed(e, qp->xp);
	timeout_changed(qp->xp);
	qp->xp->req.retry_left = qp->retry_cnt;
	qp->xp->req.rnr_left = qp->rnr_retry;
	ohca_sched_activate(e, qp->xp);
}

void ohca_xp_soon(const struct ohca_qp *qp)
{
	const struct ohca_xport *xp = ohca_xp_of(qp);

	__builtin_prefetch(qp, 1);
	__builtin_prefetch(&qp->buf);
	__builtin_prefetch(&qp->rcq);
	__builtin_prefetch(xp, 1);
	__builtin_prefetch(&xp->sched.timer, 1);
	__builtin_prefetch(&xp->req, 1);
}

/* Prefetch the QP's record and next WQE, and the state of the receiver. */
static void work_soon(ohca_engine *e, const struct ohca_qp *qp)
{
	const struct ohca_xport *xp = qp->xp;
	const uint64_t wqe = qp->sq_off +
			     ((uint64_t)(xp->req.got & ((1u << qp->log_sq) - 1)) << OHCA_BB_SHIFT);
	uint64_t iova;
	size_t n = 1;
	const uint8_t *p;

	ohca_work(e, OHCA_WORK_STEP);
	p = ohca_pages_map(e, &qp->buf, 0, &n, OHCA_DMA_READ, &iova);
	if (p)
		__builtin_prefetch(p);
	if (wqe >= n) {
		n = 1;
		p = ohca_pages_map(e, &qp->buf, wqe, &n, OHCA_DMA_READ, &iova);
	} else if (p) {
		p += wqe;
	}
	if (p)
		__builtin_prefetch(p);
	if (e->ops.tx_soon && xp->sched.path_ok && xp->sched.path.kind == OHCA_TX_WIRE)
		e->ops.tx_soon(e->h, qp->port, xp->sched.path.hdr, xp->sched.path.pkey,
			       qp->dest_qpn);
}

void ohca_xp_kick_sq(ohca_engine *e, struct ohca_qp *qp, bool several)
{
	qp->xp->sched.armed = false;
	/* a flush needs no credits, so the QP does not wait for them */
	if (qp->state == OHCA_QPS_ERR)
		ohca_sched_off(e->sched, qp->xp);
	if (qp->xp->sched.on == OHCA_XP_WAIT_FAULT && qp->xp->sched.req_fault)
		return;
	if (qp->state < OHCA_QPS_RTS)
		return;
	ohca_sched_activate(e, qp->xp);
	if (several && qp->state == OHCA_QPS_RTS)
		work_soon(e, qp);
}

void ohca_xp_kick_rq(ohca_engine *e, struct ohca_qp *qp)
{
	if (qp->state != OHCA_QPS_ERR)
		return;
	ohca_sched_off(e->sched, qp->xp);
	ohca_sched_activate(e, qp->xp);
}

void ohca_xp_query(ohca_engine *e, const struct ohca_qp *qp, uint32_t *sq_psn, uint32_t *rq_psn,
		   bool *draining)
{
	const struct ohca_xport *xp = qp->xp;

	(void)e;
	*sq_psn = qp->state >= OHCA_QPS_RTS ? xp->req.max : qp->sq_psn;
	*rq_psn = qp->state >= OHCA_QPS_RTR ? xp->resp.epsn : qp->rq_psn;
	*draining = qp->state == OHCA_QPS_SQD && qp->sqd_draining;
}

void ohca_xp_context(const struct ohca_qp *qp, struct ohca_hw_qp_context *x)
{
	const struct ohca_xport *xp = qp->xp;

	x->sq_pi = ohca_to_le32(xp->req.pi);
	x->sq_cur = ohca_to_le32(xp->req.cur);
	x->sq_ci = ohca_to_le32(xp->req.tail);
	x->una_psn = ohca_to_le32(xp->req.una & IB_PSN_MASK);
	x->next_psn = ohca_to_le32(xp->req.nxt & IB_PSN_MASK);
	x->max_psn = ohca_to_le32(xp->req.max & IB_PSN_MASK);
	x->expected_psn = ohca_to_le32(xp->resp.epsn & IB_PSN_MASK);
	x->msn = ohca_to_le32(xp->resp.msn & IB_PSN_MASK);
	x->retry_left = xp->req.retry_left;
	x->rnr_left = xp->req.rnr_left;
	x->reads_out = ohca_to_le16(xp->req.rd_out);
	x->wait = (xp->req.rnr_wait ? OHCA_QPC_RNR_WAIT : 0) |
		  (xp->resp.nak_sent ? OHCA_QPC_NAK_SENT : 0);
}
