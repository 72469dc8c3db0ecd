/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages for an SRQ with tags, and rendezvous (firmware-if/ohca_tm.h).
 *
 * When a message that matches a tag begins, the responder takes the tag and writes the data like
 * that of any SEND (responder.c). A rendezvous keeps its tag on the QP's list until there is room
 * in the send window. Then an ordinary READ reads the data, and a SEND (FIN), for which the READ
 * reserves a slot, answers.
 */
#include <string.h>

#include "engine/base/le.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/eq.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/object/tm.h"
#include "engine/object/to_transport.h"
#include "engine/object/wc.h"
#include "engine/transport/pool.h"
#include "engine/transport/responder.h"
#include "engine/transport/rx.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/tagged.h"
#include "ib/packet.h"
#include "ohca_hw.h"

#define LOG_WINDOW	OHCA_MIN_LOG_WIN
_Static_assert(OHCA_TMH_LEN + OHCA_RVH_LEN <= OHCA_BB_SIZE, "a FIN is one block");
_Static_assert(OHCA_TM_RNDV_MAX <= 256, "a rendezvous is one packet");

int ohca_tagged_create(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_rndv *rndv = ohca_mem_get(e, sizeof(*rndv));

	if (!rndv)
		return -1;
	ohca_list_init(&rndv->list);
	qp->xp->rndv = rndv;
	return 0;
}

/* ---- messages ------------------------------------------------------------------------ */

static uint64_t be64_at(const uint8_t *p)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

static uint32_t be32_at(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t read_len(const struct ohca_tag *t)
{
	return be32_at(t->hdr + OHCA_TMH_LEN + 12);
}

/* The operation in the TMH of a message's first packet; @hdr: a copy of its start. */
static uint8_t message_op(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_rxpkt *p,
			  const uint8_t *hdr)
{
	uint32_t n = p->i.payload_len;

	if (n >= OHCA_TMH_LEN) {
		switch (hdr[0]) {
		case OHCA_TMH_NO_TAG:
		case OHCA_TMH_FIN:
		case OHCA_TMH_EAGER:
			return hdr[0];
		case OHCA_TMH_RNDV:
			if (n >= OHCA_TMH_LEN + OHCA_RVH_LEN && n <= OHCA_TM_RNDV_MAX &&
			    p->i.op->flags & IB_OPF_END)
				return hdr[0];
			break;
		default:
			break;
		}
	} else if (n == 0 || hdr[0] == OHCA_TMH_NO_TAG) {
		return OHCA_TMH_NO_TAG;
	}
	/* an invalid TMH is no transport error: deliver the message unchanged to the consumer */
	ohca_count_qp(e, qp, OHCA_CNT_RX_BAD_TMH);
	return OHCA_TMH_NO_TAG;
}

int ohca_tagged_take(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
		     struct ohca_rwqe *r)
{
	uint8_t hdr[OHCA_TMH_LEN + OHCA_RVH_LEN] = { 0 };
	struct ohca_srq *srq = qp->srq;
	struct ohca_tag *t;
	bool tagged;
	uint8_t op;
	int rc;

	if (!(p->i.op->flags & IB_OPF_SEND))
		return ohca_rwqe_take(e, qp, r);
	memcpy(hdr, p->payload, p->i.payload_len < sizeof(hdr) ? p->i.payload_len : sizeof(hdr));
	op = message_op(e, qp, p, hdr);
	tagged = op == OHCA_TMH_EAGER || op == OHCA_TMH_RNDV;
	t = tagged ? ohca_tm_take(e, srq, be64_at(hdr + 8)) : NULL;
	if (!t) {
		rc = ohca_rwqe_take(e, qp, r);
		if (rc <= 0)
			return rc;
		r->use = tagged ? OHCA_USE_UNEXPECTED : OHCA_USE_NO_TAG;
		if (tagged)
			ohca_tm_unexpected(srq->tm);
		return rc;
	}
	memcpy(t->hdr, hdr, sizeof(hdr));
	r->wr_id = t->wr_id;
	r->wqe_idx = 0;
	r->num_sge = t->num_sge;
	r->sge[0] = t->sge;
	r->total = t->num_sge ? t->sge.length : 0;
	r->from_srq = true;
	r->told = false;
	r->tag = (uint16_t)(t - srq->tm->tag);
	r->use = op == OHCA_TMH_EAGER ? OHCA_USE_EAGER :
		 read_len(t) > r->total ? OHCA_USE_NO_ROOM : OHCA_USE_RNDV;
	return 1;
}

void ohca_tagged_cqe(struct ohca_qp *qp, struct ohca_rwqe *r, uint8_t status,
		     struct ohca_hw_cqe *c)
{
	struct ohca_srq *srq = qp->srq;
	struct ohca_tag *t = r->use >= OHCA_USE_EAGER ? &srq->tm->tag[r->tag] : NULL;
	uint32_t flags = ohca_le32(c->wc_flags);

	/* only the CQE with TM_MATCH contains the tag */
	ohca_tm_cqe(srq, t && !r->told ? t : NULL, c);
	switch (r->use) {
	case OHCA_USE_PLAIN:
		return;
	case OHCA_USE_NO_TAG:
		c->opcode = ohca_to_le32(OHCA_WCO_TM_NO_TAG);
		return;
	case OHCA_USE_UNEXPECTED:
		if (status)
			ohca_tm_not_unexpected(srq->tm);
		else if (ohca_tm_far_behind(srq->tm))
			flags |= OHCA_WCF_TM_SYNC_REQ;
		break;
	default:
		if (!status)
			flags |= OHCA_WCF_TM_DATA_VALID;
		if (!r->told)
			flags |= OHCA_WCF_TM_MATCH;
		ohca_tm_done(srq, t, c);
	}
	c->opcode = ohca_to_le32(OHCA_WCO_TM_RECV);
	c->wc_flags = ohca_to_le32(flags);
}

/* Write a CQE of the message that uses @t. @last: free @t. 0, or -1: the CQ has no room. */
static int tell(ohca_engine *e, struct ohca_qp *qp, struct ohca_tag *t, uint8_t status,
		uint16_t ve, uint32_t flags, bool last)
{
	struct ohca_hw_cqe c;

	memset(&c, 0, sizeof(c));
	c.wr_id = ohca_to_le64(t->wr_id);
	c.status = ohca_to_le32(status);
	c.opcode = ohca_to_le32(OHCA_WCO_TM_RECV);
	c.vendor_err = ohca_to_le32(ve);
	c.qp_num = ohca_to_le32(qp->handle);
	c.wc_flags = ohca_to_le32(flags);
	if (flags & OHCA_WCF_TM_DATA_VALID)
		c.byte_len = ohca_to_le32(read_len(t));
	ohca_tm_cqe(qp->srq, flags & OHCA_WCF_TM_MATCH ? t : NULL, &c);
	if (last)
		ohca_tm_done(qp->srq, t, &c);
	return ohca_cq_push(e, qp->rcq, &c, status != OHCA_WC_SUCCESS);
}

int ohca_tagged_match(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r)
{
	if (r->told)
		return 0;
	r->told = true;
	return tell(e, qp, &qp->srq->tm->tag[r->tag], OHCA_WC_SUCCESS, 0, OHCA_WCF_TM_MATCH,
		    false);
}

/* ---- rendezvous ---------------------------------------------------------------------- */

int ohca_tagged_read(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r)
{
	struct ohca_tag *t = &qp->srq->tm->tag[r->tag];
	struct ohca_rndv *rndv = qp->xp->rndv;

	ohca_list_add_tail(&rndv->list, &t->link);
	if (!rndv->next)
		rndv->next = t;
	ohca_sched_activate(e, qp->xp);
	return ohca_tagged_match(e, qp, r);
}

/* Add a WQE of one BB at the head of the window. */
static struct ohca_swqe *tag_place(struct ohca_xport *xp, uint8_t op)
{
	struct ohca_swqe *w = ohca_swqe_at(xp, xp->req.head);

	memset(w, 0, sizeof(*w));
	w->idx = xp->req.head;
	w->op = op;
	w->nbb = 1;
	xp->req.head++;
	xp->req.got = xp->req.pi = xp->req.head;
	return w;
}

struct ohca_swqe *ohca_tagged_next(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_rndv *rndv = xp->rndv;
	struct ohca_tag *t = rndv->next;
	struct ohca_swqe *w;

	if (!t)
		return NULL;
	if (!xp->req.win)
		xp->req.win = ohca_win_get(e, LOG_WINDOW);
	/* each READ also needs a slot for its FIN */
	if (!xp->req.win || xp->req.head - xp->req.tail + rndv->reads + 2 > xp->req.win->mask + 1)
		return NULL;
	rndv->next = t->link.next == &rndv->list ? NULL :
		     ohca_container_of(t->link.next, struct ohca_tag, link);
	rndv->reads++;
	w = tag_place(xp, OHCA_OP_RDMA_READ);
	w->raddr = be64_at(t->hdr + OHCA_TMH_LEN);
	w->rkey = be32_at(t->hdr + OHCA_TMH_LEN + 8);
	w->length = read_len(t);
	w->num_sge = t->num_sge;
	memcpy(ohca_swqe_raw(xp, w->idx), &t->sge, sizeof(t->sge));
	if (!qp->max_rd_atomic) {
		w->status = OHCA_WC_LOC_QP_OP;
		w->ve = OHCA_VE_WQE_OPCODE;
	}
	return w;
}

void ohca_tagged_sent(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		      uint8_t status, uint16_t ve)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_rndv *rndv = xp->rndv;
	struct ohca_swqe *fin;
	struct ohca_tag *t;
	uint8_t *raw;

	if (w->op != OHCA_OP_RDMA_READ) {
		/* no CQE reports a FIN that does not reach the peer, so raise an event */
		if (status && status != OHCA_WC_WR_FLUSH)
			ohca_async_event(e, OHCA_EVENT_QP_FATAL, &qp->async);
		return;
	}
	t = ohca_container_of(rndv->list.next, struct ohca_tag, link);
	ohca_list_del(&t->link);
	rndv->reads--;
	if (!status) {
		fin = tag_place(xp, OHCA_OP_SEND);
		fin->flags = OHCA_WQE_INLINE;
		fin->length = sizeof(t->hdr);
		raw = ohca_swqe_raw(xp, fin->idx);
		memcpy(raw, t->hdr, sizeof(t->hdr));
		raw[0] = OHCA_TMH_FIN;
	}
	if (tell(e, qp, t, status, ve, status ? 0 : OHCA_WCF_TM_DATA_VALID, true))
		ohca_qp_error(e, qp, OHCA_EVENT_QP_FATAL, 0);
}

static bool tags_flush(ohca_engine *e, struct ohca_xport *xp, bool all)
{
	struct ohca_rndv *rndv = xp->rndv;

	while (!ohca_list_empty(&rndv->list)) {
		struct ohca_tag *t = ohca_container_of(rndv->list.next, struct ohca_tag, link);

		if (!all && !ohca_work_left(e))
			return false;
		ohca_work(e, OHCA_WORK_WQE);
		ohca_list_del(&t->link);
		if (!ohca_running(e))
			t->state = OHCA_TAG_FREE;
		else
			tell(e, xp->qp, t, OHCA_WC_WR_FLUSH, OHCA_VE_FLUSH, 0, true);
	}
	rndv->next = NULL;
	rndv->reads = 0;
	return true;
}

bool ohca_xp_tags_flush(ohca_engine *e, struct ohca_qp *qp)
{
	if (!qp->xp->rndv)
		return true;
	/* also the tag of the message in progress */
	ohca_resp_reset(e, qp->xp, false);
	return tags_flush(e, qp->xp, false);
}

void ohca_tagged_reset(ohca_engine *e, struct ohca_xport *xp)
{
	tags_flush(e, xp, true);
}
