/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QPs that wait for pages.
 *
 * A requester stops at the WQE that needs the page, to send from it or to write a response to it.
 * In the second case it repeats the request. A responder handles a request that needs a page as if
 * no receive WQE were posted: with an RNR NAK for RC. It executes the repeated request. So it keeps
 * no state, and later requests do not overtake this one. READ responses stop at the packet.
 */
#include "engine/object/fault.h"
#include "engine/object/to_transport.h"
#include "engine/object/wc.h"
#include "engine/transport/responder.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/suspend.h"
#include "engine/transport/turn.h"
#include "ohca_hw.h"

bool ohca_suspend(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side, uint32_t wqe_idx,
		  const struct ohca_missing *m)
{
	struct ohca_xport *xp = qp->xp;

	if (!xp->fault[side])
		xp->fault[side] = ohca_fault_tell(e, qp, side, wqe_idx, m);
	return xp->fault[side] != 0;
}

enum ohca_sent ohca_suspend_tx(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t,
			       enum ohca_fault_side side, uint32_t wqe_idx,
			       const struct ohca_missing *m)
{
	if (ohca_suspend(e, qp, side, wqe_idx, m))
		return OHCA_SENT_NONE;
	t->wait = OHCA_WAIT_FAULT;
	return OHCA_SENT_BLOCKED;
}

void ohca_suspend_forget(ohca_engine *e, struct ohca_xport *xp, enum ohca_fault_side side)
{
	if (xp->fault[side])
		ohca_fault_forget(e, xp->fault[side]);
	xp->fault[side] = 0;
}

void ohca_suspend_forget_all(ohca_engine *e, struct ohca_xport *xp)
{
	for (unsigned int side = 0; side < OHCA_FAULT_SIDES; side++)
		ohca_suspend_forget(e, xp, (enum ohca_fault_side)side);
}

/* Fail the send WQE whose page cannot be faulted in, unless a late response has completed it. */
static void wqe_failed(struct ohca_xport *xp, uint32_t idx)
{
	struct ohca_swqe *w;

	if (idx - xp->req.tail >= xp->req.head - xp->req.tail)
		return;
	w = ohca_swqe_at(xp, idx);
	if (w->state == OHCA_SW_DONE)
		return;
	w->status = OHCA_WC_LOC_PROT;
	w->ve = OHCA_VE_PAGE_FAULT;
}

void ohca_xp_resume(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
		    uint32_t wqe_idx, bool ok)
{
	struct ohca_xport *xp = qp->xp;

	xp->fault[side] = 0;
	ohca_sched_activate(e, xp);
	if (side == OHCA_FAULT_REQ) {
		/* it was stopped while the requester waited, unless it is that of an RNR NAK */
		if (!xp->req.rnr_wait)
			xp->sched.rto_restart = true;
		if (!ok)
			wqe_failed(xp, wqe_idx);
	} else if (!ok) {
		ohca_resp_no_page(e, qp, side);
	}
}
