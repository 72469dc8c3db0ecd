/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reception of several packets in the middle of a SEND or WRITE, or of several WRITEs of one
 * packet, at once. The bytes are written first. If that succeeds for all, single reception of each
 * packet would have the same result.
 */
#include "engine/base/guestmem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/transport/responder.h"
#include "engine/transport/responder_priv.h"
#include "engine/transport/sched.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

static bool place_send(ohca_engine *e, const struct ohca_qp *qp, const struct ib_view *v)
{
	const struct ohca_xport *xp = qp->xp;
	const struct ohca_rwqe *r = xp->resp.rwqe;
	struct ohca_missing m;

	return xp->resp.rx_op == OHCA_RX_SEND && r && r->use < OHCA_USE_EAGER &&
	       v->len <= r->total - xp->resp.rx_off &&
	       !ohca_sgl_scatter_view(e, qp, ohca_recv_pd(qp), r->sge, r->num_sge, xp->resp.rx_off,
				      v, &m);
}

static bool place_write(ohca_engine *e, const struct ohca_qp *qp, const struct ib_view *v)
{
	const struct ohca_xport *xp = qp->xp;
	struct ohca_mr_range r;
	struct ohca_missing m;

	return xp->resp.rx_op == OHCA_RX_WRITE && v->len < xp->resp.wr_len - xp->resp.rx_off &&
	       !ohca_rkey_check(e, qp, qp->pd, xp->resp.wr_rkey, xp->resp.wr_va + xp->resp.rx_off,
				v->len, OHCA_ACCESS_REMOTE_WRITE, &r) &&
	       !ohca_mr_write_view(e, &r, v, &m);
}

bool ohca_resp_series(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	const struct ohca_attempt a = ohca_attempt(e);
	const bool reliable = ohca_qp_reliable(qp);

	if (qp->xrcd || p->i.psn != xp->resp.epsn || p->i.payload_len != ohca_qp_mtu(qp) ||
	    xp->fault[OHCA_FAULT_RECV] || xp->ahead)
		return false;
	if (!(p->i.op->flags & IB_OPF_SEND ? place_send(e, qp, p->view) :
					      place_write(e, qp, p->view))) {
		ohca_attempt_failed(e, &a);
		return false;
	}
	ohca_sched_activate(e, xp);
	xp->sched.answers = true;
	xp->resp.rx_off += p->view->len;
	xp->resp.epsn = ib_psn_add(p->i.psn, p->view->packets);
	if (!reliable)
		return true;
	xp->resp.nak_due = xp->resp.nak_sent = false;
	if (p->i.ackreq)
		xp->resp.ack_due = true;
	return true;
}

/* ---- bursts -------------------------------------------------------------------------- */

/*
 * Write the bytes at @from to the memory in @reth. @s: memory of the previous packet. Return: false
 * if the packet must be received alone.
 */
static bool place_one(ohca_engine *e, const struct ohca_qp *qp, const struct ib_reth *reth,
		      struct ohca_stretch *s, const uint8_t *from, uint32_t len)
{
	const uint32_t key = ib_be32(reth->rkey);
	const uint64_t va = ib_be64(reth->va);
	uint8_t *p = ohca_stretch_at(s, key, va, len);
	struct ohca_attempt a;
	struct ohca_mr_range r;
	struct ohca_missing m;

	if (ib_be32(reth->dmalen) != len)
		return false;
	if (!p) {
		if (ohca_rkey_check(e, qp, qp->pd, key, va, len, OHCA_ACCESS_REMOTE_WRITE, &r))
			return false;
		if (ohca_stretch_find(e, key, va, OHCA_DMA_WRITE, s))
			p = ohca_stretch_at(s, key, va, len);
	}
	if (p) {
		ohca_work(e, len);
		ohca_place(p, from, len);
		e->ops.dma_dirty(e->h, s->iova + (va - s->addr), len);
		return true;
	}
	a = ohca_attempt(e);
	if (!ohca_mr_write(e, &r, 0, from, len, &m))
		return true;
	ohca_attempt_failed(e, &a);
	return false;
}

uint32_t ohca_resp_burst(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	const struct ib_reth *reth = (const struct ib_reth *)(const void *)p->view->ext;
	struct ohca_xport *xp = qp->xp;
	const uint32_t len = p->i.payload_len;
	struct ohca_stretch s = { .p = NULL };
	uint32_t n = 0;

	if (p->i.psn != xp->resp.epsn || len > ohca_qp_mtu(qp) || !len || p->view->num != 1 ||
	    xp->fault[OHCA_FAULT_RECV] || xp->ahead || xp->resp.rx_op != OHCA_RX_NONE ||
	    !(qp->access & OHCA_ACCESS_REMOTE_WRITE))
		return 0;
	while (n < p->view->packets &&
	       place_one(e, qp, &reth[n], &s, p->view->piece[0].p + (size_t)n * len, len))
		n++;
	if (!n)
		return 0;
	ohca_sched_activate(e, xp);
	xp->sched.answers = true;
	xp->resp.wr_va = ib_be64(reth[n - 1].va);
	xp->resp.wr_rkey = ib_be32(reth[n - 1].rkey);
	xp->resp.wr_len = xp->resp.rx_off = len;
	xp->resp.epsn = ib_psn_add(p->i.psn, n);
	xp->resp.msn = ib_psn_add(xp->resp.msn, n);
	xp->resp.nak_due = xp->resp.nak_sent = false;
	if (p->i.ackreq)
		xp->resp.ack_due = true;
	return n;
}
