/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Bursts of small RDMA WRITEs; see burst.h. */
#include <string.h>

#include "engine/base/guestmem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/transport/burst.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/turn.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

_Static_assert(OHCA_BURST >= OHCA_QUANTUM, "what one turn sends is one burst");

bool ohca_burst_begin(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		      const struct ohca_tx *tx, const uint8_t *h)
{
	struct ohca_burst *b = &e->sched->burst;
	const unsigned int most = tx->turn->most;

	/* with an arbiter a turn has one packet; without credits each packet is counted alone */
	if (qp->type != OHCA_QPT_RC || w->op != OHCA_OP_RDMA_WRITE || !w->length ||
	    w->length > OHCA_BURST_LEN || ib_pad(w->length) || w->idx + w->nbb == qp->xp->req.pi ||
	    most < 2 || ohca_tx_paced(e, tx) || e->sched->refused || !ohca_tx_views(e, tx) ||
	    !e->ops.tx_series || !e->ops.tx_series(e->h, tx->port, tx->vl, tx->len, most))
		return false;
	b->n = 1;
	b->most = most;
	b->len = w->length;
	b->flags = w->flags;
	b->tx = *tx;
	b->from.p = NULL;
	b->view.hdr_len = (uint32_t)(h - tx->buf) + IB_RETH_LEN;
	memcpy(b->ext, h, IB_RETH_LEN);
	memcpy(b->payload, h + IB_RETH_LEN, b->len);
	return true;
}

bool ohca_burst_takes(ohca_engine *e, const struct ohca_swqe *w)
{
	const struct ohca_burst *b = &e->sched->burst;

	return b->n && b->n < b->most && w->op == OHCA_OP_RDMA_WRITE && w->length == b->len &&
	       !((w->flags ^ b->flags) & OHCA_WQE_SOLICITED);
}

/* As ohca_swqe_gather(), but faster if the payload is next to the previous one. */
static int gather(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w, uint8_t *to,
		  struct ohca_missing *m)
{
	const struct ohca_sge *sge = ohca_swqe_sge(qp->xp, w);
	struct ohca_stretch *s = &e->sched->burst.from;
	struct ohca_mr_range r;
	const uint8_t *p;

	if (w->flags & OHCA_WQE_INLINE || w->num_sge != 1)
		return ohca_swqe_gather(e, qp, w, 0, to, w->length, m);
	p = ohca_stretch_at(s, sge->lkey, sge->addr, w->length);
	if (!p && !ohca_lkey_check(e, qp, qp->pd, sge->lkey, sge->addr, w->length, false, &r) &&
	    ohca_stretch_find(e, sge->lkey, sge->addr, OHCA_DMA_READ, s))
		p = ohca_stretch_at(s, sge->lkey, sge->addr, w->length);
	if (!p)
		return ohca_swqe_gather(e, qp, w, 0, to, w->length, m);
	ohca_work(e, w->length);
	if (w->length == 8)
		memcpy(to, p, 8);
	else
		memcpy(to, p, w->length);
	return 0;
}

int ohca_burst_add(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		   struct ohca_missing *m)
{
	struct ohca_burst *b = &e->sched->burst;
	const int ve = gather(e, qp, w, b->payload + (size_t)b->n * b->len, m);

	if (ve)
		return ve;
	ib_build_reth(b->ext + b->n * IB_RETH_LEN, w->raddr, w->rkey, w->length);
	b->n++;
	return 0;
}

void ohca_burst_end(ohca_engine *e, const struct ohca_qp *qp)
{
	struct ohca_burst *b = &e->sched->burst;

	if (!b->n)
		return;
	if (b->n > 1) {
		ib_view_begin(&b->view, b->n);
		ib_view_add(&b->view, b->payload, b->n * b->len);
		b->view.ext_len = IB_RETH_LEN;
		b->view.ext = b->ext;
		b->tx.view = &b->view;
	}
	b->n = 0;
	ohca_tx_close_qp(e, qp, &b->tx);
}
