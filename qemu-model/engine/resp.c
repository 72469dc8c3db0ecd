/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The responder of RC, UC and XRC (IBTA vol 1, 9.7.4, 9.7.5, 9.8.3, 9.9.3).
 *
 * Requests are executed as they come; responses leave later, in order: READ and atomic
 * responses from a ring, then a NAK, or one ACK for all that was received by then.
 */
#include <stdlib.h>

#include "transport.h"

/* ---- resources --------------------------------------------------------------------- */

int ohca_resp_alloc(struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	uint8_t cap = qp->max_dest_rd_atomic;
	struct ohca_atomic_res *at;

	if (cap <= xp->at_cap)
		return 0;
	at = calloc(cap, sizeof(*at));
	if (!at)
		return -1;
	if (xp->at_cap)
		memcpy(at, xp->at, xp->at_cap * sizeof(*at));
	free(xp->at);
	xp->at = at;
	xp->at_cap = cap;
	return 0;
}

static struct ohca_rd *rd_at(const struct ohca_xport *xp, uint8_t i)
{
	return &xp->rd->rd[(xp->rd_head + i) & (OHCA_RD_RING - 1)];
}

static void rd_clear(ohca_engine *e, struct ohca_xport *xp)
{
	ohca_suspend_forget(e, xp, OHCA_FAULT_READ);
	if (xp->rd)
		ohca_rdring_put(e, xp->rd);
	xp->rd = NULL;
	xp->rd_num = 0;
	xp->rd_head = 0;
}

/* The first response has been sent. */
static void rd_pop(ohca_engine *e, struct ohca_xport *xp)
{
	xp->rd_head = (uint8_t)((xp->rd_head + 1) & (OHCA_RD_RING - 1));
	if (--xp->rd_num == 0)
		rd_clear(e, xp);
}

/*
 * Whether there are resources for one more response; @dup: to a duplicate. A requester that
 * asks for more has got the oldest response it asked for twice: that one gives way.
 */
static bool rd_room(ohca_engine *e, const struct ohca_qp *qp, bool dup)
{
	struct ohca_xport *xp = qp->xp;
	uint8_t i;

	if (xp->rd_num < qp->max_dest_rd_atomic && xp->rd_num < OHCA_RD_RING)
		return true;
	if (dup)
		return false;
	for (i = 0; i < xp->rd_num && !rd_at(xp, i)->dup; i++)
		;
	if (i == xp->rd_num)
		return false;
	/* the first may wait for a page, which is not wanted any more */
	if (i == 0)
		ohca_suspend_forget(e, xp, OHCA_FAULT_READ);
	for (; i + 1 < xp->rd_num; i++)
		*rd_at(xp, i) = *rd_at(xp, i + 1);
	xp->rd_num--;
	return true;
}

/* ---- receive completions -------------------------------------------------------------- */

/* -1: the CQ has no room; the QP is still to be moved to ERR. */
static int recv_push(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rwqe *r,
		     uint8_t status, uint16_t ve, struct ohca_hw_cqe *c, bool solicited)
{
	c->wr_id = ohca_to_le64(r->wr_id);
	c->status = ohca_to_le32(status);
	if (!c->opcode)
		c->opcode = ohca_to_le32(OHCA_WCO_RECV);
	c->vendor_err = ohca_to_le32(ve);
	c->qp_num = ohca_to_le32(qp->handle);
	c->wqe_idx = ohca_to_le32(r->from_srq ? 0 : r->wqe_idx);
	c->flags = r->from_srq ? OHCA_CQE_SRQ : 0;
	if (status && status != OHCA_WC_WR_FLUSH) {
		ohca_count_qp(e, qp, OHCA_CNT_LOCAL_ERR);
		ohca_trace(e, OHCA_TR_WQE_ERR, qp->handle, status, ve, OHCA_WCO_RECV);
	}
	return ohca_cq_push(e, qp->rcq, c, solicited || status);
}

void ohca_recv_complete(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rwqe *r,
			uint8_t status, uint16_t ve, struct ohca_hw_cqe *c, bool solicited)
{
	if (recv_push(e, qp, r, status, ve, c, solicited))
		ohca_qp_error(e, qp, OHCA_EVENT_QP_FATAL, 0);
}

/* The current receive WQE has failed. */
static void recv_fail(ohca_engine *e, struct ohca_qp *qp, uint8_t status, uint16_t ve)
{
	struct ohca_rwqe *r = qp->xp->rwqe;
	struct ohca_hw_cqe c;

	/* without room in the CQ the QP goes to ERR, which would complete it once more */
	qp->xp->rwqe = NULL;
	memset(&c, 0, sizeof(c));
	ohca_recv_complete(e, qp, r, status, ve, &c, false);
	ohca_rwqe_put(e, r);
}

void ohca_resp_reset(ohca_engine *e, struct ohca_xport *xp, bool keep_closing)
{
	if (!keep_closing) {
		xp->closing = xp->qp->state == OHCA_QPS_ERR && (xp->ack_due || xp->nak_due);
		rd_clear(e, xp);
	}
	if (!xp->closing)
		xp->ack_due = xp->nak_due = false;
	xp->rx_op = OHCA_RX_NONE;
	if (!xp->rwqe)
		return;
	if (xp->qp->state == OHCA_QPS_ERR) {
		recv_fail(e, xp->qp, OHCA_WC_WR_FLUSH, OHCA_VE_FLUSH);
	} else {
		ohca_rwqe_put(e, xp->rwqe);
		xp->rwqe = NULL;
	}
}

void ohca_xp_srq_gone(ohca_engine *e, struct ohca_qp *qp)
{
	if (qp->xp->rwqe)
		ohca_rwqe_put(e, qp->xp->rwqe);
	qp->xp->rwqe = NULL;
}

bool ohca_rq_flush(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum)
{
	struct ohca_xport *xp = qp->xp;

	/* what is in an SRQ belongs to all its QPs */
	if (qp->srq || qp->flags & OHCA_QP_NO_RQ)
		return false;
	while (*quantum) {
		struct ohca_rwqe *r = ohca_rwqe_get(e);

		if (!r)
			return false;
		if (ohca_rwqe_take(e, qp, r) == 0) {
			ohca_rwqe_put(e, r);
			return false;
		}
		xp->rwqe = r;
		recv_fail(e, qp, OHCA_WC_WR_FLUSH, OHCA_VE_FLUSH);
		--*quantum;
	}
	return true;
}

/* Take the receive WQE of a message. 1: xp->rwqe is set; 0: none is posted; <0: malformed,
 * completed with an error. */
static int recv_take(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	int rc;

	if (xp->rwqe)
		return 1;	/* UC: of a message that was lost half way */
	xp->rwqe = ohca_rwqe_get(e);
	if (!xp->rwqe)
		return 0;
	rc = ohca_rwqe_take(e, qp, xp->rwqe);
	if (rc == 0) {
		ohca_rwqe_put(e, xp->rwqe);
		xp->rwqe = NULL;
	} else if (rc < 0) {
		recv_fail(e, qp, OHCA_WC_LOC_QP_OP, (uint16_t)-rc);
	}
	return rc;
}

/* The message has come whole. -1: nobody can be told. */
static int recv_done(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
		     uint32_t len)
{
	struct ohca_xport *xp = qp->xp;
	const struct ib_immdt *imm = ib_pkt_immdt(p->hdr, &p->i);
	const struct ib_ieth *ieth = ib_pkt_ieth(p->hdr, &p->i);
	struct ohca_rwqe *r = xp->rwqe;
	struct ohca_hw_cqe c;
	int rc;

	memset(&c, 0, sizeof(c));
	c.opcode = ohca_to_le32(p->i.op->flags & IB_OPF_WRITE ? OHCA_WCO_RECV_IMM : OHCA_WCO_RECV);
	c.byte_len = ohca_to_le32(len);
	c.src_qp = ohca_to_le32(qp->dest_qpn);
	if (imm) {
		c.wc_flags = ohca_to_le32(OHCA_WCF_WITH_IMM);
		memcpy(&c.imm, &imm->imm, 4);
	} else if (ieth) {
		c.wc_flags = ohca_to_le32(OHCA_WCF_WITH_INV);
		c.inv_key = ohca_to_le32(ib_be32(ieth->rkey));
	}
	xp->rwqe = NULL;
	rc = recv_push(e, qp, r, OHCA_WC_SUCCESS, 0, &c, p->i.se);
	ohca_rwqe_put(e, r);
	return rc;
}

/* ---- XRC: the SRQ that a request names (annex A14) ------------------------------------- */

/* Its number; 0 if there is none. */
static uint32_t xrc_srqn(const struct ohca_rxpkt *p)
{
	const struct ib_xrceth *x = ib_pkt_xrceth(p->hdr, &p->i);

	return x ? ib_be32(x->srqn) & IB_QPN_MASK : 0;
}

/*
 * Check keys of a target with the PD of SRQ @srqn from now on; *@old: the PD to go back to.
 * What is being received is left alone. 0 or vendor error.
 */
static int xrc_pd_set(ohca_engine *e, struct ohca_qp *qp, uint32_t srqn, struct ohca_pd **old)
{
	struct ohca_srq *srq;
	int ve;

	*old = qp->pd;
	if (!qp->xrcd)
		return OHCA_VE_NONE;
	ve = ohca_xrc_srq(e, qp, srqn, &srq);
	if (!ve)
		qp->pd = srq->pd;
	return ve;
}

/* ---- one packet of a SEND or WRITE ------------------------------------------------------ */

/**
 * struct verdict - what became of a packet
 * @nak: NAK code, or one of the values below
 * @status: for the receive WQE, if there is one
 * @ev: asynchronous event, if there is no WQE to tell by
 */
struct verdict {
	uint8_t nak;
	uint8_t status;
	uint16_t ve;
	enum ohca_event ev;
};
#define V_OK	0xff
#define V_RNR	0xfe
#define V_FAULT	0xfd	/* a page is missing: e->missing */

static struct verdict fail(uint8_t nak, uint8_t status, uint16_t ve, enum ohca_event ev)
{
	return (struct verdict){ .nak = nak, .status = status, .ve = ve, .ev = ev };
}

static struct verdict ok(void)
{
	return (struct verdict){ .nak = V_OK };
}

/* A request in sequence is executed for the SRQ that it names, every packet for the same. */
static struct verdict xrc_request(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_srq *srq;
	int ve = ohca_xrc_srq(e, qp, xrc_srqn(p), &srq);

	if (ve == OHCA_VE_PD)
		return fail(IB_NAK_REM_ACCESS, 0, OHCA_VE_PD, OHCA_EVENT_QP_ACCESS_ERR);
	/* a WQE that waits for its packet to come again is of the SRQ before, too */
	if (ve || ((qp->xp->rx_op != OHCA_RX_NONE || qp->xp->rwqe) && srq != qp->srq))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_XRC_SRQ, OHCA_EVENT_QP_REQ_ERR);
	qp->srq = srq;
	qp->rcq = srq->cq;
	qp->pd = srq->pd;
	return ok();
}

/* Sizes that every request must have, for its place in the message (9.7.4.1.6). */
static bool size_ok(const struct ohca_qp *qp, const struct ib_pkt_info *i)
{
	uint32_t mtu = ohca_qp_mtu(qp);

	if (i->op->flags & (IB_OPF_FIRST | IB_OPF_MIDDLE))
		return i->payload_len == mtu;
	if (i->op->flags & IB_OPF_LAST)
		return i->payload_len >= 1 && i->payload_len <= mtu;
	return i->payload_len <= mtu;
}

/* Does the packet continue what is in progress, or begin when nothing is? */
static bool in_sequence(const struct ohca_xport *xp, const struct ib_opcode_info *op)
{
	if (op->flags & IB_OPF_START)
		return xp->rx_op == OHCA_RX_NONE;
	if (op->flags & IB_OPF_SEND)
		return xp->rx_op == OHCA_RX_SEND;
	return xp->rx_op == OHCA_RX_WRITE;
}

static struct verdict do_send(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	uint32_t n = p->i.payload_len;
	int rc;

	if (p->i.op->flags & IB_OPF_START) {
		rc = recv_take(e, qp);
		if (rc == 0)
			return fail(V_RNR, 0, 0, 0);
		if (rc < 0)
			return fail(IB_NAK_REM_OP, 0, (uint16_t)-rc, 0);
		xp->rx_op = OHCA_RX_SEND;
		xp->rx_off = 0;
	}
	if (n > xp->rwqe->total - xp->rx_off)
		return fail(IB_NAK_INV_REQ, OHCA_WC_LOC_LEN, OHCA_VE_LENGTH, 0);
	if (n) {
		rc = ohca_sgl_scatter(e, qp, xp->rwqe->sge, xp->rwqe->num_sge, xp->rx_off,
				      p->payload, n);
		if (rc == OHCA_MR_FAULT) {
			/* the packet comes again; the WQE is kept for it */
			if (p->i.op->flags & IB_OPF_START)
				xp->rx_op = OHCA_RX_NONE;
			return fail(V_FAULT, 0, 0, 0);
		}
		if (rc)
			return fail(IB_NAK_REM_OP, OHCA_WC_LOC_PROT, (uint16_t)rc, 0);
	}
	xp->rx_off += n;
	if (!(p->i.op->flags & IB_OPF_END))
		return ok();
	if (p->i.op->flags & IB_OPF_INV) {
		rc = ohca_mr_invalidate(e, qp, ib_be32(ib_pkt_ieth(p->hdr, &p->i)->rkey), true);
		if (rc)
			return fail(IB_NAK_REM_ACCESS, OHCA_WC_LOC_ACCESS, (uint16_t)rc, 0);
	}
	xp->rx_op = OHCA_RX_NONE;
	if (recv_done(e, qp, p, xp->rx_off))
		return fail(IB_NAK_REM_OP, 0, 0, OHCA_EVENT_QP_FATAL);
	return ok();
}

/* RETH of the first packet of a WRITE: what it may write to, and is the size right? */
static struct verdict begin_write(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	const struct ib_reth *reth = ib_pkt_reth(p->hdr, &p->i);
	struct ohca_xport *xp = qp->xp;
	struct ohca_mr_range r;
	int ve;

	if (!(qp->access & OHCA_ACCESS_REMOTE_WRITE))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	xp->wr_va = ib_be64(reth->va);
	xp->wr_rkey = ib_be32(reth->rkey);
	xp->wr_len = ib_be32(reth->dmalen);
	xp->rx_off = 0;
	if (xp->wr_len > OHCA_MAX_MSG)
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (xp->wr_len) {
		ve = ohca_rkey_check(e, qp, xp->wr_rkey, xp->wr_va, xp->wr_len,
				     OHCA_ACCESS_REMOTE_WRITE, &r);
		if (ve)
			return fail(IB_NAK_REM_ACCESS, 0, (uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);
	}
	return ok();
}

static struct verdict do_write(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	uint32_t n = p->i.payload_len, left;
	struct ohca_mr_range r;
	struct verdict v;
	int rc;

	if (p->i.op->flags & IB_OPF_START) {
		v = begin_write(e, qp, p);
		if (v.nak != V_OK)
			return v;
	}
	left = xp->wr_len - xp->rx_off;
	if (p->i.op->flags & IB_OPF_END ? n != left : n >= left)
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (p->i.op->flags & IB_OPF_IMM) {
		rc = recv_take(e, qp);
		if (rc == 0)
			return fail(V_RNR, 0, 0, 0);
		if (rc < 0)
			return fail(IB_NAK_REM_OP, 0, (uint16_t)-rc, 0);
	}
	if (n) {
		/* the region may have gone since the first packet */
		rc = ohca_rkey_check(e, qp, xp->wr_rkey, xp->wr_va + xp->rx_off, n,
				     OHCA_ACCESS_REMOTE_WRITE, &r);
		if (rc)
			return fail(IB_NAK_REM_ACCESS, OHCA_WC_LOC_ACCESS, (uint16_t)rc,
				    OHCA_EVENT_QP_ACCESS_ERR);
		rc = ohca_mr_write(e, &r, 0, p->payload, n);
		if (rc == OHCA_MR_FAULT) {
			e->missing.len += left - n;
			return fail(V_FAULT, 0, 0, 0);
		}
		if (rc)
			return fail(IB_NAK_REM_OP, OHCA_WC_LOC_ACCESS, OHCA_VE_DMA,
				    OHCA_EVENT_QP_FATAL);
	}
	xp->rx_off += n;
	xp->rx_op = OHCA_RX_WRITE;
	if (p->i.op->flags & IB_OPF_END) {
		xp->rx_op = OHCA_RX_NONE;
		if (p->i.op->flags & IB_OPF_IMM && recv_done(e, qp, p, xp->wr_len))
			return fail(IB_NAK_REM_OP, 0, 0, OHCA_EVENT_QP_FATAL);
	}
	return ok();
}

/* ---- READ and atomics ---------------------------------------------------------------- */

/* Put a response into the ring, by PSN. False: the ring is full. */
static bool rd_insert(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rd *r)
{
	struct ohca_xport *xp = qp->xp;
	uint8_t i;

	if (!rd_room(e, qp, r->dup))
		return false;
	if (!xp->rd)
		xp->rd = ohca_rdring_get(e);
	if (!xp->rd)
		return false;
	for (i = xp->rd_num; i && ib_psn_diff(rd_at(xp, i - 1)->first, r->first) > 0; i--)
		*rd_at(xp, i) = *rd_at(xp, i - 1);
	if (i == 0)
		ohca_suspend_forget(e, xp, OHCA_FAULT_READ);
	*rd_at(xp, i) = *r;
	xp->rd_num++;
	return true;
}

/* Fill in a READ of @psn; what it asks for is checked. */
static struct verdict read_request(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
				   struct ohca_rd *rd)
{
	const struct ib_reth *reth = ib_pkt_reth(p->hdr, &p->i);
	struct ohca_mr_range r;
	int ve;

	memset(rd, 0, sizeof(*rd));
	rd->va = ib_be64(reth->va);
	rd->rkey = ib_be32(reth->rkey);
	rd->length = ib_be32(reth->dmalen);
	rd->srqn = xrc_srqn(p);
	if (!(qp->access & OHCA_ACCESS_REMOTE_READ))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	if (rd->length > OHCA_MAX_MSG)
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (rd->length) {
		ve = ohca_rkey_check(e, qp, rd->rkey, rd->va, rd->length,
				     OHCA_ACCESS_REMOTE_READ, &r);
		if (ve)
			return fail(IB_NAK_REM_ACCESS, 0, (uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);
	}
	rd->first = rd->next = p->i.psn;
	rd->last = ib_psn_add(p->i.psn, ohca_npkts(qp, rd->length) - 1);
	rd->msn = ib_psn_add(qp->xp->msn, 1);
	return ok();
}

static struct verdict do_read(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
			      uint32_t *next)
{
	struct ohca_rd rd;
	struct verdict v = read_request(e, qp, p, &rd);

	if (v.nak != V_OK)
		return v;
	if (!rd_insert(e, qp, &rd))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_SIZE, OHCA_EVENT_QP_REQ_ERR);
	*next = ib_psn_add(rd.last, 1);
	return ok();
}

/* What an atomic request asks for. */
static struct ohca_atomic atomic_operands(const struct ohca_rxpkt *p)
{
	const struct ib_atomic_eth *eth = ib_pkt_atomic(p->hdr, &p->i);
	struct ohca_atomic a = {
		.swap_add = ib_be64(eth->swap_add), .compare = ib_be64(eth->compare),
	};

	switch (p->i.opcode) {
	case IB_OP_OHCA_MASKED_CMP_SWAP:
		a.op = OHCA_OP_MASKED_CMP_SWAP;
		break;
	case IB_OP_OHCA_MASKED_FETCH_ADD:
		a.op = OHCA_OP_MASKED_FETCH_ADD;
		break;
	case IB_OP_RC_CMP_SWAP:
	case IB_TRANS_XRC | IB_OPN_CMP_SWAP:
		a.op = OHCA_OP_CMP_SWAP;
		break;
	default:
		a.op = OHCA_OP_FETCH_ADD;
	}
	if (p->i.op->flags & IB_OPF_MASKED) {
		const struct ib_masked_atomic_eth *m = ib_pkt_masked_atomic(p->hdr, &p->i);

		a.swap_mask = ib_be64(m->swap_mask);
		a.compare_mask = ib_be64(m->compare_mask);
	}
	return a;
}

static struct verdict do_atomic(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	const struct ib_atomic_eth *eth = ib_pkt_atomic(p->hdr, &p->i);
	const struct ohca_atomic a = atomic_operands(p);
	struct ohca_xport *xp = qp->xp;
	struct ohca_mr_range r;
	struct ohca_rd rd;
	uint64_t va = ib_be64(eth->va);
	int ve;

	if (p->i.op->flags & IB_OPF_MASKED && !ohca_feature(e, OHCA_FEATURE_EXT_ATOMIC))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_OPCODE, OHCA_EVENT_QP_REQ_ERR);
	if (!(qp->access & OHCA_ACCESS_REMOTE_ATOMIC))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	if (!rd_room(e, qp, false))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_SIZE, OHCA_EVENT_QP_REQ_ERR);
	if (va & 7)
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_ALIGN, OHCA_EVENT_QP_REQ_ERR);
	ve = ohca_rkey_check(e, qp, ib_be32(eth->rkey), va, 8, OHCA_ACCESS_REMOTE_ATOMIC, &r);
	if (ve)
		return fail(IB_NAK_REM_ACCESS, 0, (uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);
	memset(&rd, 0, sizeof(rd));
	ve = ohca_mr_atomic(e, &r, &a, &rd.orig);
	if (ve == OHCA_MR_FAULT)
		return fail(V_FAULT, 0, 0, 0);
	if (ve)
		return fail(IB_NAK_REM_OP, 0, OHCA_VE_DMA, OHCA_EVENT_QP_FATAL);
	rd.atomic = true;
	rd.first = rd.next = rd.last = p->i.psn;
	rd.msn = ib_psn_add(xp->msn, 1);
	rd_insert(e, qp, &rd);
	xp->at_pos = (uint8_t)((xp->at_pos + 1) % xp->at_cap);
	xp->at[xp->at_pos] = (struct ohca_atomic_res){
		.orig = rd.orig, .psn = rd.first, .valid = true,
	};
	return ok();
}

/* ---- memory placement (annex A19) ------------------------------------------------------ */

/* The response to a FLUSH or ATOMIC WRITE: a READ response without data. */
static struct ohca_rd empty_resp(const struct ohca_rxpkt *p, uint32_t msn)
{
	return (struct ohca_rd){ .first = p->i.psn, .next = p->i.psn, .last = p->i.psn,
				 .msn = msn };
}

/*
 * Whatever came before is in memory already: writes are done as they arrive, in order. So
 * a FLUSH for visibility is a fence, and one for persistence a matter of the host.
 */
static struct verdict do_flush(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	const struct ib_feth *feth = ib_pkt_feth(p->hdr, &p->i);
	const struct ib_reth *reth = ib_pkt_reth(p->hdr, &p->i);
	uint8_t type = ib_feth_placement(feth), level = ib_feth_level(feth);
	uint32_t len = ib_be32(reth->dmalen), rkey = ib_be32(reth->rkey), access = 0;
	struct ohca_mr_range r = { 0 };
	struct ohca_rd rd;
	int ve = 0;

	if (type & OHCA_FLUSH_GLOBAL)
		access |= OHCA_ACCESS_FLUSH_GLOBAL;
	if (type & OHCA_FLUSH_PERSISTENT)
		access |= OHCA_ACCESS_FLUSH_PERSISTENT;
	if (!access || type & ~(OHCA_FLUSH_GLOBAL | OHCA_FLUSH_PERSISTENT) ||
	    level > OHCA_FLUSH_MR || (qp->access & access) != access)
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	if (level == OHCA_FLUSH_MR)
		ve = ohca_rkey_whole(e, qp, rkey, access, &r);
	else if (len)
		ve = ohca_rkey_check(e, qp, rkey, ib_be64(reth->va), len, access, &r);
	if (ve)
		return fail(IB_NAK_REM_ACCESS, 0, (uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);
	rd = empty_resp(p, ib_psn_add(qp->xp->msn, 1));
	if (!rd_insert(e, qp, &rd))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_SIZE, OHCA_EVENT_QP_REQ_ERR);
	atomic_thread_fence(memory_order_seq_cst);
	if (type & OHCA_FLUSH_PERSISTENT && r.mr)
		ohca_mr_persist(e, &r);
	return ok();
}

static struct verdict do_atomic_write(ohca_engine *e, struct ohca_qp *qp,
				      const struct ohca_rxpkt *p)
{
	const struct ib_reth *reth = ib_pkt_reth(p->hdr, &p->i);
	struct ohca_mr_range r;
	struct ohca_rd rd;
	uint64_t va = ib_be64(reth->va), val;
	int ve;

	if (!(qp->access & OHCA_ACCESS_REMOTE_WRITE))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	if (p->i.payload_len != sizeof(val) || ib_be32(reth->dmalen) != sizeof(val))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (va & 7)
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_ALIGN, OHCA_EVENT_QP_REQ_ERR);
	if (!rd_room(e, qp, false))
		return fail(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_SIZE, OHCA_EVENT_QP_REQ_ERR);
	ve = ohca_rkey_check(e, qp, ib_be32(reth->rkey), va, sizeof(val),
			     OHCA_ACCESS_REMOTE_WRITE, &r);
	if (ve)
		return fail(IB_NAK_REM_ACCESS, 0, (uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);
	memcpy(&val, p->payload, sizeof(val));
	ve = ohca_mr_write8(e, &r, &val);
	if (ve == OHCA_MR_FAULT)
		return fail(V_FAULT, 0, 0, 0);
	if (ve)
		return fail(IB_NAK_REM_OP, 0, OHCA_VE_DMA, OHCA_EVENT_QP_FATAL);
	rd = empty_resp(p, ib_psn_add(qp->xp->msn, 1));
	rd_insert(e, qp, &rd);
	return ok();
}

/* ---- RC: duplicates -------------------------------------------------------------------- */

/* A READ asked for again: answer again, from the PSN it names (9.7.4.2). */
static void dup_read(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_pd *pd;
	struct ohca_rd rd;
	struct verdict v;

	if (xrc_pd_set(e, qp, xrc_srqn(p), &pd))
		return;
	v = read_request(e, qp, p, &rd);
	qp->pd = pd;
	/* it must not reach into what has not been asked for */
	if (v.nak != V_OK || ib_psn_diff(rd.last, xp->epsn) >= 0)
		return;
	rd.msn = xp->msn;
	for (uint8_t i = 0; i < xp->rd_num; i++) {
		struct ohca_rd *o = rd_at(xp, i);

		if (ib_psn_diff(rd.first, o->first) >= 0 && ib_psn_diff(rd.first, o->last) <= 0) {
			/* still under way: begin again */
			if (!o->atomic) {
				rd.dup = o->dup;
				*o = rd;
			}
			return;
		}
	}
	rd.dup = true;
	rd_insert(e, qp, &rd);
}

static void dup_atomic(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_rd rd = { .atomic = true, .dup = true, .first = p->i.psn, .next = p->i.psn,
			      .last = p->i.psn, .msn = xp->msn };

	for (uint8_t i = 0; i < xp->rd_num; i++)
		if (rd_at(xp, i)->first == p->i.psn)
			return;
	/* from the last back: PSNs come again, and some results are older than that */
	for (uint8_t i = 0; i < xp->at_cap; i++) {
		const struct ohca_atomic_res *at =
			&xp->at[(xp->at_pos + xp->at_cap - i) % xp->at_cap];

		if (at->valid && at->psn == p->i.psn) {
			rd.orig = at->orig;
			rd_insert(e, qp, &rd);
			return;
		}
	}
}

/* What was flushed or written stays so; a later write must not be undone (annex A19.4). */
static void dup_placement(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_rd rd = empty_resp(p, xp->msn);

	for (uint8_t i = 0; i < xp->rd_num; i++)
		if (rd_at(xp, i)->first == p->i.psn)
			return;
	rd.dup = true;
	rd_insert(e, qp, &rd);
}

static void duplicate(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;

	ohca_count_qp(e, qp, OHCA_CNT_RX_DUP);
	if (p->i.op->flags & IB_OPF_READ)
		dup_read(e, qp, p);
	else if (p->i.op->flags & IB_OPF_ATOMIC)
		dup_atomic(e, qp, p);
	else if (p->i.op->flags & (IB_OPF_FLUSH | IB_OPF_ATOMIC_WRITE))
		dup_placement(e, qp, p);
	else if (p->i.op->flags & IB_OPF_END || p->i.ackreq)
		xp->ack_due = true;
}

/* Requests that are acknowledged by a response of their own. */
#define RESPONDED (IB_OPF_READ | IB_OPF_ATOMIC | IB_OPF_FLUSH | IB_OPF_ATOMIC_WRITE)

/* ---- RC: requests ------------------------------------------------------------------------ */

static void nak(struct ohca_xport *xp, uint8_t syndrome)
{
	xp->nak_due = true;
	xp->nak_sent = true;
	xp->nak_syn = syndrome;
	xp->nak_psn = xp->epsn;
}

/* A request cannot be executed: NAK, complete, move to ERR. */
static void refuse(ohca_engine *e, struct ohca_qp *qp, const struct verdict *v)
{
	struct ohca_xport *xp = qp->xp;
	enum ohca_event ev = v->ev;

	nak(xp, IB_AETH_NAK | v->nak);
	xp->closing = true;
	if (xp->rwqe && v->status) {
		recv_fail(e, qp, v->status, v->ve);
		ev = 0;
	}
	ohca_qp_error(e, qp, ev, v->ve);
}

/* The READ response that is next cannot go on. */
static void read_refuse(ohca_engine *e, struct ohca_qp *qp, const struct verdict *v)
{
	uint32_t psn = rd_at(qp->xp, 0)->next;

	rd_clear(e, qp->xp);
	refuse(e, qp, v);
	qp->xp->nak_psn = psn;
}

void ohca_resp_no_page(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side)
{
	struct verdict v = fail(IB_NAK_REM_OP, OHCA_WC_LOC_PROT, OHCA_VE_PAGE_FAULT,
				OHCA_EVENT_QP_ACCESS_ERR);

	if (side == OHCA_FAULT_READ) {
		v.status = 0;
		read_refuse(e, qp, &v);
	} else if (ohca_qp_reliable(qp)) {
		refuse(e, qp, &v);
	} else {
		/* there is nobody to be told but our own consumer */
		if (qp->xp->rwqe) {
			recv_fail(e, qp, v.status, v.ve);
			v.ev = 0;
		}
		ohca_qp_error(e, qp, v.ev, v.ve);
	}
}

void ohca_resp_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	const struct ib_opcode_info *op = p->i.op;
	int32_t diff = ib_psn_diff(p->i.psn, xp->epsn);
	uint32_t next = ib_psn_add(p->i.psn, 1);
	struct verdict v;

	ohca_sched_activate(e, xp);
	if (diff > 0) {
		ohca_count_qp(e, qp, OHCA_CNT_RX_OUT_OF_SEQ);
		if (!xp->nak_sent)
			nak(xp, IB_AETH_NAK | IB_NAK_PSN_SEQ);
		return;
	}
	if (diff < 0) {
		duplicate(e, qp, p);
		return;
	}
	xp->nak_due = xp->nak_sent = false;
	v = qp->xrcd ? xrc_request(e, qp, p) : ok();
	if (v.nak != V_OK)
		;
	else if (!in_sequence(xp, op) || !size_ok(qp, &p->i))
		v = fail(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	else if (op->flags & IB_OPF_SEND)
		v = do_send(e, qp, p);
	else if (op->flags & IB_OPF_WRITE)
		v = do_write(e, qp, p);
	else if (op->flags & IB_OPF_READ)
		v = do_read(e, qp, p, &next);
	else if (op->flags & IB_OPF_ATOMIC)
		v = do_atomic(e, qp, p);
	else if (op->flags & IB_OPF_FLUSH && ohca_feature(e, OHCA_FEATURE_MPE))
		v = do_flush(e, qp, p);
	else if (op->flags & IB_OPF_ATOMIC_WRITE && ohca_feature(e, OHCA_FEATURE_MPE))
		v = do_atomic_write(e, qp, p);
	else
		v = fail(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_OPCODE, OHCA_EVENT_QP_REQ_ERR);
	if (v.nak == V_RNR) {
		ohca_count_qp(e, qp, OHCA_CNT_RNR_NAK_TX);
		nak(xp, IB_AETH_RNR_NAK | qp->min_rnr_timer);
		return;
	}
	if (v.nak == V_FAULT) {
		/* told of or not, the packet comes again */
		ohca_suspend(e, qp, OHCA_FAULT_RECV, 0);
		ohca_count_qp(e, qp, OHCA_CNT_RNR_NAK_TX);
		nak(xp, IB_AETH_RNR_NAK | OHCA_FAULT_RNR_TIMER);
		return;
	}
	if (v.nak != V_OK) {
		refuse(e, qp, &v);
		return;
	}
	if (xp->fault[OHCA_FAULT_RECV])
		ohca_suspend_forget(e, xp, OHCA_FAULT_RECV);
	xp->epsn = next;
	if (op->flags & IB_OPF_END)
		xp->msn = ib_psn_add(xp->msn, 1);
	if (p->i.ackreq && !(op->flags & RESPONDED))
		xp->ack_due = true;
}

/* ---- RC: responses ---------------------------------------------------------------------- */

/* The NAK that is due, or else an ACK of everything received. */
static struct ohca_ack ack_due(ohca_engine *e, struct ohca_qp *qp)
{
	const struct ohca_xport *xp = qp->xp;
	struct ohca_ack a = {
		.path = *ohca_qp_path(e, qp),
		.dqpn = qp->dest_qpn,
		.migreq = ohca_qp_migreq(qp),
		.msn = xp->msn,
		.opcode = IB_OPN_ACK | ohca_qp_trans(qp),
		.psn = xp->nak_due ? xp->nak_psn : ib_psn_add(xp->epsn, IB_PSN_MASK),
		.syndrome = xp->nak_due ? xp->nak_syn : IB_AETH_ACK | IB_AETH_CREDIT_INVALID,
	};

	return a;
}

void ohca_xp_last_words(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_ack a;

	if (!xp->ack_due && !xp->nak_due)
		return;
	a = ack_due(e, qp);
	if (!ohca_ack_out(e, &a))
		ohca_ack_later(e, &a);
	xp->ack_due = xp->nak_due = false;
}

static enum ohca_sent send_atomic_ack(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rd *r)
{
	const struct ohca_path *path = ohca_qp_path(e, qp);
	struct ohca_tx tx;
	uint8_t *h;

	if (!ohca_tx_open(e, path, path->hdr_len + IB_BTH_LEN + IB_AETH_LEN +
			  IB_ATOMIC_ACK_ETH_LEN + IB_ICRC_LEN, &tx))
		return OHCA_SENT_BLOCKED;
	h = ib_build_bth(tx.buf + path->hdr_len, IB_OPN_ATOMIC_ACK | ohca_qp_trans(qp),
			 ohca_qp_migreq(qp), 0, path->pkey, qp->dest_qpn, false, r->first);
	h = ib_build_aeth(h, IB_AETH_ACK | IB_AETH_CREDIT_INVALID, r->msn);
	ib_build_atomic_ack(h, r->orig);
	ohca_tx_close_qp(e, qp, &tx);
	return OHCA_SENT;
}

/* One packet of a READ response. */
static enum ohca_sent send_read_resp(ohca_engine *e, struct ohca_qp *qp, struct ohca_rd *r)
{
	const struct ohca_path *path = ohca_qp_path(e, qp);
	uint32_t mtu = ohca_qp_mtu(qp);
	uint32_t off = (uint32_t)ib_psn_diff(r->next, r->first) * mtu;
	uint32_t n = r->length - off < mtu ? r->length - off : mtu, pad = ib_pad(n);
	bool first = r->next == r->first, last = r->next == r->last;
	uint8_t op = ohca_qp_trans(qp) |
		     (first ? (last ? IB_OPN_READ_RESP_ONLY : IB_OPN_READ_RESP_FIRST) :
			      (last ? IB_OPN_READ_RESP_LAST : IB_OPN_READ_RESP_MIDDLE));
	struct ohca_mr_range range;
	struct ohca_pd *pd;
	struct ohca_tx tx;
	int ve = 0, rc;
	uint8_t *h;

	if (!ohca_tx_open(e, path, path->hdr_len + ib_opcodes[op].hdr_len + n + pad + IB_ICRC_LEN,
			  &tx))
		return OHCA_SENT_BLOCKED;
	h = ib_build_bth(tx.buf + path->hdr_len, op, ohca_qp_migreq(qp), (uint8_t)pad, path->pkey,
			 qp->dest_qpn, false, r->next);
	if (first || last)
		h = ib_build_aeth(h, IB_AETH_ACK | IB_AETH_CREDIT_INVALID, r->msn);
	/* the region may have gone since the request, or the XRC SRQ */
	ve = xrc_pd_set(e, qp, r->srqn, &pd);
	if (n && !ve)
		ve = ohca_rkey_check(e, qp, r->rkey, r->va + off, n, OHCA_ACCESS_REMOTE_READ,
				     &range);
	qp->pd = pd;
	rc = !ve && n ? ohca_mr_read(e, &range, 0, h, n) : 0;
	if (rc == OHCA_MR_FAULT && qp->state != OHCA_QPS_ERR) {
		e->missing.len += r->length - off - n;
		return ohca_suspend_tx(e, qp, OHCA_FAULT_READ, 0);
	}
	if (rc)
		ve = OHCA_VE_DMA;
	if (ve) {
		struct verdict v = fail(ve == OHCA_VE_DMA ? IB_NAK_REM_OP : IB_NAK_REM_ACCESS, 0,
					(uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);

		read_refuse(e, qp, &v);
		return OHCA_SENT;
	}
	memset(h + n, 0, pad);
	ohca_tx_close_qp(e, qp, &tx);
	r->next = ib_psn_add(r->next, 1);
	return OHCA_SENT;
}

enum ohca_sent ohca_resp_send(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	enum ohca_sent ret;

	if (xp->rd_num) {
		struct ohca_rd *r = rd_at(xp, 0);
		uint32_t last = r->last;

		if (xp->fault[OHCA_FAULT_READ])
			return OHCA_SENT_NONE;
		ret = r->atomic ? send_atomic_ack(e, qp, r) : send_read_resp(e, qp, r);
		if (ret != OHCA_SENT || !xp->rd_num)
			return ret;
		if (r->atomic || ib_psn_diff(r->next, last) > 0) {
			rd_pop(e, xp);
			/* it acknowledges what came before it */
			if (!xp->rd_num && ib_psn_add(last, 1) == xp->epsn)
				xp->ack_due = false;
		}
		return OHCA_SENT;
	}
	if (xp->nak_due || xp->ack_due) {
		struct ohca_ack a = ack_due(e, qp);

		if (!ohca_ack_out(e, &a))
			return OHCA_SENT_BLOCKED;
		if (a.path.kind != OHCA_TX_DISCARD)
			ohca_count_set(e, qp, OHCA_CNT_TX_PKTS);
		xp->nak_due = xp->ack_due = false;
		return OHCA_SENT;
	}
	return OHCA_SENT_NONE;
}

/* ---- UC ------------------------------------------------------------------------------------ */

/*
 * Messages are received whole or not at all (9.8.3). After a gap everything is dropped up
 * to the next first packet; a receive WQE that was taken serves the next message.
 */
void ohca_uc_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	const struct ib_opcode_info *op = p->i.op;
	struct verdict v;

	ohca_sched_activate(e, xp);
	if (p->i.psn != xp->epsn) {
		ohca_count_qp(e, qp, OHCA_CNT_RX_OUT_OF_SEQ);
		xp->rx_op = OHCA_RX_NONE;
		xp->uc_skip = true;
	}
	xp->epsn = ib_psn_add(p->i.psn, 1);
	if (op->flags & IB_OPF_START) {
		xp->uc_skip = false;
		xp->rx_op = OHCA_RX_NONE;
	}
	if (xp->uc_skip)
		return;
	if (!in_sequence(xp, op) || !size_ok(qp, &p->i))
		v = fail(IB_NAK_INV_REQ, 0, 0, 0);
	else if (op->flags & IB_OPF_SEND)
		v = do_send(e, qp, p);
	else
		v = do_write(e, qp, p);
	if (v.nak == V_OK) {
		if (xp->fault[OHCA_FAULT_RECV])
			ohca_suspend_forget(e, xp, OHCA_FAULT_RECV);
		return;
	}
	xp->rx_op = OHCA_RX_NONE;
	xp->uc_skip = true;
	if (v.nak == V_RNR)
		ohca_count_qp(e, qp, OHCA_CNT_RX_NO_WQE);
	else if (v.nak == V_FAULT)
		ohca_suspend(e, qp, OHCA_FAULT_RECV, 0);
	/* what is wrong here and not with the message stops the QP */
	if (v.nak != IB_NAK_REM_OP)
		return;
	if (xp->rwqe && v.status)
		recv_fail(e, qp, v.status, v.ve);
	ohca_qp_error(e, qp, v.ev, v.ve);
}
