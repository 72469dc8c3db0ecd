/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The completer: responses to an RC requester, and timeouts (IBTA vol 1, 9.7.5,
 * 9.7.6).
 *
 * xp->req.una advances as PSNs are acknowledged: a SEND or WRITE by any response with its PSN or a
 * later one, a READ or atomic only by its own responses.
 */
#include "engine/base/features.h"
#include "engine/base/le.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/apm.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/fault.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/object/wc.h"
#include "engine/transport/completer.h"
#include "engine/transport/requester.h"
#include "engine/transport/rx.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/suspend.h"
#include "engine/transport/timer.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ib/rate.h"
#include "ohca_hw.h"

/* Index of the first WQE that is not acknowledged yet. */
static uint32_t retired(const struct ohca_xport *xp)
{
	uint32_t i = xp->req.tail;

	while (i != xp->req.head) {
		const struct ohca_swqe *w = ohca_swqe_at(xp, i);

		if (w->state == OHCA_SW_NEW ||
		    (w->state != OHCA_SW_DONE && ib_psn_diff(xp->req.una, w->last) <= 0))
			break;
		i += w->nbb;
	}
	return i;
}

void ohca_sq_retire(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	const uint32_t end = retired(xp);

	if (qp->state == OHCA_QPS_ERR)
		return;
	/* one timestamp for all; a consumer that sees the first CQE finds the room of all WQEs */
	if (end - xp->req.tail > 1) {
		e->stamp = qp->scq->flags & OHCA_CQ_TIMESTAMP ? ohca_now(e) : 0;
		if (ohca_cq_holds(e, qp->scq, end - xp->req.tail))
			ohca_sq_ci_to(e, qp, end);
	}
	while (xp->req.tail != end && qp->state != OHCA_QPS_ERR) {
		struct ohca_swqe *w = ohca_swqe_at(xp, xp->req.tail);

		if (w->state != OHCA_SW_DONE && ohca_op_is_read(w->op))
			xp->req.rd_out--;
		ohca_sq_complete(e, qp, w, OHCA_WC_SUCCESS, 0);
	}
	e->stamp = 0;
}

void ohca_req_restart(struct ohca_xport *xp)
{
	xp->sched.armed = false;
	xp->req.cur = xp->req.tail;
	xp->req.nxt = xp->req.una;
	xp->req.since_ackreq = OHCA_ACK_EVERY;
	xp->req.asking = xp->req.credits;
}

static void progress(struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;

	if (ib_psn_diff(xp->req.una, xp->req.nxt) > 0)
		xp->req.nxt = xp->req.una;
	xp->req.retry_left = qp->retry_cnt;
	xp->req.rnr_left = qp->rnr_retry;
	xp->req.restarted = false;
	if (!xp->req.rnr_wait)
		xp->sched.rto_restart = true;
}

/*
 * A response acknowledges every request before @psn. Return: false if the response to a READ or
 * atomic before it is missing (9.7.5.1.3, implied NAK). Afterwards the QP may be in ERR because the
 * CQ had no room.
 */
static bool acked(ohca_engine *e, struct ohca_qp *qp, uint32_t psn)
{
	struct ohca_xport *xp = qp->xp;
	uint32_t una = xp->req.una;
	bool ok = true;

	/* without READs and atomics @psn acknowledges every WQE before it */
	if (!xp->req.rd_out && ib_psn_diff(psn, una) > 0 && ib_psn_diff(psn, xp->req.max) <= 0)
		xp->req.una = psn;
	for (uint32_t i = xp->req.tail; i != xp->req.head && ib_psn_diff(psn, xp->req.una) > 0;) {
		const struct ohca_swqe *w = ohca_swqe_at(xp, i);

		if (w->state == OHCA_SW_NEW)
			break;
		i += w->nbb;
		if (w->state == OHCA_SW_DONE || ib_psn_diff(xp->req.una, w->last) > 0)
			continue;
		if (ohca_op_is_read(w->op)) {
			ok = false;
			break;
		}
		xp->req.una = ib_psn_diff(psn, w->last) > 0 ? ib_psn_add(w->last, 1) : psn;
	}
	if (xp->req.una != una) {
		progress(qp);
		ohca_sq_retire(e, qp);
	}
	return ok;
}

/* The oldest WQE that waits for a response: that at the tail, after ohca_sq_retire(). */
static struct ohca_swqe *waiting(struct ohca_xport *xp)
{
	struct ohca_swqe *w;

	if (xp->req.tail == xp->req.head)
		return NULL;
	w = ohca_swqe_at(xp, xp->req.tail);
	return w->state == OHCA_SW_BEGUN || w->state == OHCA_SW_SENT ? w : NULL;
}

/* A packet was lost: go back; if the retries are exhausted, migrate or fail the WQE. */
static void retry(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_swqe *w = waiting(xp);

	/* after the RNR timer the requester sends everything again in any case */
	if (!w || xp->req.rnr_wait)
		return;
	if (xp->req.retry_left) {
		xp->req.retry_left--;
	} else if (!ohca_mig_go(e, qp)) {
		ohca_count_qp(e, qp, OHCA_CNT_RETRY_EXCEEDED);
		ohca_sq_fail(e, qp, w, OHCA_WC_RETRY_EXC, OHCA_VE_TIMEOUT);
		return;
	}
	xp->req.restarted = true;
	xp->sched.rto_restart = true;
	ohca_req_restart(xp);
}

/*
 * A response is missing: go back. Ignored after the requester has gone back already, and while it
 * waits for a page for an earlier response.
 */
static void implied_nak(ohca_engine *e, struct ohca_qp *qp)
{
	if (!qp->xp->req.restarted && !qp->xp->fault[OHCA_FAULT_REQ] && qp->state != OHCA_QPS_ERR)
		retry(e, qp);
}

static void nak_received(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, uint8_t code)
{
	static const struct {
		uint8_t status, ve;
	} err[] = {
		[IB_NAK_INV_REQ] = { OHCA_WC_REM_INV_REQ, OHCA_VE_NAK_INV_REQ },
		[IB_NAK_REM_ACCESS] = { OHCA_WC_REM_ACCESS, OHCA_VE_NAK_ACCESS },
		[IB_NAK_REM_OP] = { OHCA_WC_REM_OP, OHCA_VE_NAK_OP },
	};

	if (code == IB_NAK_PSN_SEQ) {
		ohca_count_qp(e, qp, OHCA_CNT_SEQ_NAK_RX);
		retry(e, qp);
	} else if (code <= IB_NAK_REM_OP) {
		ohca_sq_fail(e, qp, w, err[code].status, err[code].ve);
	}
	/* other codes are reserved for RC and ignored */
}

static void rnr_nak(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, uint8_t timer)
{
	struct ohca_xport *xp = qp->xp;

	ohca_count_qp(e, qp, OHCA_CNT_RNR_NAK_RX);
	if (!xp->req.rnr_left) {
		ohca_count_qp(e, qp, OHCA_CNT_RNR_RETRY_EXCEEDED);
		ohca_sq_fail(e, qp, w, OHCA_WC_RNR_RETRY_EXC, OHCA_VE_RNR);
		return;
	}
	if (qp->rnr_retry != 7)
		xp->req.rnr_left--;
	ohca_req_restart(xp);
	xp->req.rnr_wait = true;
	xp->sched.rto_restart = false;
	ohca_timer_set(e, xp, ohca_now(e) + ib_rnr_timer_ns(timer));
}

/*
 * Update the limit: the AETH contains the number of receive WQEs after the messages that its MSN
 * counts (9.7.7.2). The limit never decreases: a grant stays valid, and requests that need no
 * credit have advanced the limit since then. A responder that does not grant credits, as with an
 * SRQ, never does.
 */
static void credits(struct ohca_xport *xp, const struct ohca_rxpkt *p)
{
	const struct ib_aeth *aeth = ib_pkt_aeth(p->hdr, &p->i);
	uint8_t code;
	uint32_t lsn;

	if (!xp->req.credits || !aeth || IB_AETH_KIND(ib_aeth_syndrome(aeth)) != IB_AETH_ACK)
		return;
	code = IB_AETH_VALUE(ib_aeth_syndrome(aeth));
	if (code == IB_AETH_CREDIT_INVALID) {
		xp->req.credits = false;
		return;
	}
	lsn = ib_psn_add(ib_aeth_msn(aeth), ib_credit_count(code));
	if (ib_psn_diff(lsn, xp->req.lsn) > 0)
		xp->req.lsn = lsn;
}

/*
 * The WQE that a NAK or a response with @psn answers, after all earlier PSNs are acknowledged.
 * NULL: none.
 */
static struct ohca_swqe *answered(ohca_engine *e, struct ohca_qp *qp, uint32_t psn)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_swqe *w;

	if (!acked(e, qp, psn)) {
		implied_nak(e, qp);
		return NULL;
	}
	w = waiting(xp);
	return w && qp->state != OHCA_QPS_ERR && xp->req.una == psn ? w : NULL;
}

static void ack(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	uint8_t syn = ib_aeth_syndrome(ib_pkt_aeth(p->hdr, &p->i));
	struct ohca_swqe *w;

	if (IB_AETH_KIND(syn) == IB_AETH_ACK) {
		if (!acked(e, qp, ib_psn_add(p->i.psn, 1)))
			implied_nak(e, qp);
		return;
	}
	w = answered(e, qp, p->i.psn);
	if (!w)
		return;
	if (IB_AETH_KIND(syn) == IB_AETH_RNR_NAK) {
		if (!xp->req.rnr_wait)
			rnr_nak(e, qp, w, IB_AETH_VALUE(syn));
	} else if (IB_AETH_KIND(syn) == IB_AETH_NAK) {
		nak_received(e, qp, w, IB_AETH_VALUE(syn));
	}
}

static void bad_resp(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w)
{
	ohca_sq_fail(e, qp, w, OHCA_WC_BAD_RESP, OHCA_VE_BAD_RESP);
}

/* A page for a response is missing: repeat the request when the page is present. */
static void no_page(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		    const struct ohca_missing *m)
{
	struct ohca_xport *xp = qp->xp;

	ohca_req_restart(xp);
	/* more responses to the first request may arrive after the page */
	xp->req.restarted = true;
	xp->sched.rto_restart = false;
	if (ohca_suspend(e, qp, OHCA_FAULT_REQ, w->idx, m)) {
		ohca_timer_set(e, xp, OHCA_NO_DEADLINE);
		return;
	}
	xp->req.rnr_wait = true;
	ohca_timer_set(e, xp, ohca_now(e) + OHCA_FAULT_RETRY_NS);
}

/* The PD of the memory for READ responses: that of the SRQ for a rendezvous. */
static const struct ohca_pd *local_pd(const struct ohca_qp *qp)
{
	return qp->xp->rndv ? ohca_recv_pd(qp) : qp->pd;
}

static void read_resp(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
		      const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	uint32_t mtu = ohca_qp_mtu(qp);
	uint32_t off = (uint32_t)ib_psn_diff(p->i.psn, w->first) * mtu;
	/* the response to FLUSH and ATOMIC_WRITE is a READ response without data (annex A19.4) */
	uint32_t len = w->op == OHCA_OP_RDMA_READ ? w->length : 0;
	uint32_t n = len - off < mtu ? len - off : mtu;
	bool last = p->i.psn == w->last;
	struct ohca_missing m;
	int ve = 0;

	if ((w->op != OHCA_OP_RDMA_READ && w->op != OHCA_OP_FLUSH &&
	     w->op != OHCA_OP_ATOMIC_WRITE) || (last && !(p->i.op->flags & IB_OPF_END))) {
		bad_resp(e, qp, w);
		return;
	}
	if (p->i.payload_len != n) {
		ohca_sq_fail(e, qp, w, OHCA_WC_LOC_LEN, OHCA_VE_BAD_RESP);
		return;
	}
	if (p->view)
		ve = ohca_sgl_scatter_view(e, qp, local_pd(qp), ohca_swqe_sge(xp, w), w->num_sge,
					   off, p->view, &m);
	else if (n)
		ve = ohca_sgl_scatter(e, qp, local_pd(qp), ohca_swqe_sge(xp, w), w->num_sge, off,
				      p->payload, n, &m);
	if (ve == OHCA_MR_FAULT) {
		no_page(e, qp, w, &m);
		return;
	}
	if (ve) {
		ohca_sq_fail(e, qp, w, OHCA_WC_LOC_PROT, (uint16_t)ve);
		return;
	}
	xp->req.una = ib_psn_add(p->i.psn, 1);
	progress(qp);
	if (last)
		ohca_sq_retire(e, qp);
}

bool ohca_comp_series(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	const struct ohca_swqe *w = waiting(xp);
	const uint32_t end = ib_psn_add(p->i.psn, p->view->packets);
	const struct ohca_attempt a = ohca_attempt(e);
	struct ohca_missing m;

	if (!ohca_qp_reliable(qp) || qp->state == OHCA_QPS_RTR || p->i.psn != xp->req.una ||
	    ib_psn_diff(end, xp->req.max) > 0 || xp->fault[OHCA_FAULT_REQ] || xp->req.rnr_wait ||
	    !w || w->op != OHCA_OP_RDMA_READ || ib_psn_diff(p->i.psn, w->first) <= 0 ||
	    ib_psn_diff(end, w->last) > 0 || p->i.payload_len != ohca_qp_mtu(qp))
		return false;
	if (ohca_sgl_scatter_view(e, qp, local_pd(qp), ohca_swqe_sge(xp, w), w->num_sge,
				  (uint32_t)ib_psn_diff(p->i.psn, w->first) * p->i.payload_len,
				  p->view, &m)) {
		ohca_attempt_failed(e, &a);
		return false;
	}
	ohca_sched_activate(e, xp);
	xp->req.una = end;
	progress(qp);
	ohca_sq_ci(e, qp);
	return true;
}

static void atomic_resp(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
			const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	uint64_t orig = ib_be64(ib_pkt_atomic_ack(p->hdr, &p->i)->orig);
	uint64_t bytes = ohca_host64(e, orig);
	struct ohca_missing m;
	int ve;

	if (!ohca_op_is_atomic(w->op)) {
		bad_resp(e, qp, w);
		return;
	}
	ve = ohca_sgl_scatter(e, qp, qp->pd, ohca_swqe_sge(xp, w), w->num_sge, 0, &bytes,
			      sizeof(bytes), &m);
	if (ve == OHCA_MR_FAULT) {
		no_page(e, qp, w, &m);
		return;
	}
	if (ve) {
		ohca_sq_fail(e, qp, w, OHCA_WC_LOC_PROT, (uint16_t)ve);
		return;
	}
	xp->req.una = ib_psn_add(p->i.psn, 1);
	progress(qp);
	ohca_sq_retire(e, qp);
}

/*
 * If all posted WQEs are acknowledged, do at once what the requester's next turn would do. Return:
 * false if the requester needs a turn.
 */
static bool rests(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;

	if (!xp->sched.armed || xp->req.una != xp->req.max || qp->state != OHCA_QPS_RTS)
		return false;
	xp->sched.rto_restart = false;
	ohca_timer_set(e, xp, OHCA_NO_DEADLINE);
	ohca_sq_empty(e, xp);
	return true;
}

void ohca_comp_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_swqe *w;

	if (!ohca_qp_reliable(qp)) {
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QP);
		return;
	}
	/* drop duplicates and responses to PSNs that were not sent */
	if (ib_psn_diff(p->i.psn, xp->req.una) < 0 || ib_psn_diff(p->i.psn, xp->req.max) >= 0)
		return;
	credits(xp, p);
	if ((p->i.opcode & ~IB_TRANS_MASK) == IB_OPN_ACK) {
		ack(e, qp, p);
		ohca_sq_ci(e, qp);
		if (!rests(e, qp))
			ohca_sched_activate(e, xp);
		return;
	}
	ohca_sched_activate(e, xp);
	w = answered(e, qp, p->i.psn);
	if (!w)
		return;
	if (ib_psn_diff(p->i.psn, w->first) < 0)
		return;
	if (p->i.op->flags & IB_OPF_READ)
		read_resp(e, qp, w, p);
	else
		atomic_resp(e, qp, w, p);
	ohca_sq_ci(e, qp);
}

void ohca_comp_timer(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;

	if (!ohca_qp_reliable(qp) || qp->state < OHCA_QPS_RTS || qp->state == OHCA_QPS_ERR ||
	    qp->going)
		return;
	ohca_sched_activate(e, xp);
	if (xp->req.rnr_wait) {
		xp->req.rnr_wait = false;
		xp->sched.rto_restart = true;
		return;
	}
	/*
	 * while the requester waits for a page it expects no response; the page restarts the timer
	 */
	if (xp->fault[OHCA_FAULT_REQ])
		return;
	/* an acknowledgement requires a restart of the timer, or all is acknowledged */
	if (xp->sched.rto_restart || xp->req.una == xp->req.max)
		return;
	if (!waiting(xp))
		return;
	ohca_count_qp(e, qp, OHCA_CNT_ACK_TIMEOUT);
	ohca_trace(e, OHCA_TR_TIMEOUT, qp->handle, xp->req.una, xp->req.retry_left, 0);
	retry(e, qp);
}
