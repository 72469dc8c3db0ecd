/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The responder of RC, UC and XRC (IBTA vol 1, 9.7.4, 9.7.5, 9.8.3, 9.9.3).
 *
 * The responder executes requests when they arrive. Responses leave later, in order: READ and
 * atomic responses from a ring, then a NAK, or one ACK for all requests received until then.
 */
#include <string.h>

#include "engine/base/features.h"
#include "engine/base/le.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/fault.h"
#include "engine/object/mr.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/object/tm.h"
#include "engine/object/to_transport.h"
#include "engine/object/wc.h"
#include "engine/object/xrc.h"
#include "engine/transport/ahead.h"
#include "engine/transport/persist.h"
#include "engine/transport/pool.h"
#include "engine/transport/responder.h"
#include "engine/transport/responder_priv.h"
#include "engine/transport/sched.h"
#include "engine/transport/suspend.h"
#include "engine/transport/tagged.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

/* ---- receive completions -------------------------------------------------------------- */

/* Write the CQE of @r. 0, or -1: the CQ has no room, and the caller moves the QP to ERR. */
static int recv_push(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r,
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
	if (qp->type == OHCA_QPT_XRC_TGT) {
		c->wqe_idx = ohca_to_le32(qp->srq->srqn);
		c->flags |= OHCA_CQE_XRC;
	}
	if (qp->xp->rndv)
		ohca_tagged_cqe(qp, r, status, c);
	if (status && status != OHCA_WC_WR_FLUSH && status != OHCA_WC_REM_ABORT &&
	    status != OHCA_WC_TM_RNDV_INCOMPLETE) {
		ohca_count_qp(e, qp, OHCA_CNT_LOCAL_ERR);
		ohca_trace(e, OHCA_TR_WQE_ERR, qp->handle, status, ve, OHCA_WCO_RECV);
	}
	return ohca_cq_push(e, qp->rcq, c, solicited || status);
}

void ohca_recv_complete(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r,
			uint8_t status, uint16_t ve, struct ohca_hw_cqe *c, bool solicited)
{
	if (recv_push(e, qp, r, status, ve, c, solicited))
		ohca_qp_error(e, qp, OHCA_EVENT_QP_FATAL, 0);
}

/* Complete the current receive WQE in error. */
static void recv_fail(ohca_engine *e, struct ohca_qp *qp, uint8_t status, uint16_t ve)
{
	struct ohca_rwqe *r = qp->xp->resp.rwqe;
	struct ohca_hw_cqe c;

	/* clear it first: if the CQ has no room, the QP moves to ERR, which flushes the WQE */
	qp->xp->resp.rwqe = NULL;
	memset(&c, 0, sizeof(c));
	ohca_recv_complete(e, qp, r, status, ve, &c, false);
	ohca_rwqe_put(e, r);
}

void ohca_resp_reset(ohca_engine *e, struct ohca_xport *xp, bool keep_closing)
{
	if (!keep_closing) {
		xp->resp.closing = xp->qp->state == OHCA_QPS_ERR &&
				   (xp->resp.ack_due || xp->resp.nak_due);
		ohca_rd_clear(e, xp);
	}
	if (!xp->resp.closing)
		xp->resp.ack_due = xp->resp.nak_due = false;
	xp->resp.rx_op = OHCA_RX_NONE;
	ohca_ahead_reset(e, xp);
	ohca_persist_forget(e, xp);
	if (!xp->resp.rwqe)
		return;
	/* a tag belongs to the SRQ, so it must complete when its QP is reset */
	if (xp->qp->state == OHCA_QPS_ERR || (xp->rndv && ohca_running(e))) {
		recv_fail(e, xp->qp, OHCA_WC_WR_FLUSH, OHCA_VE_FLUSH);
	} else {
		ohca_rwqe_put(e, xp->resp.rwqe);
		xp->resp.rwqe = NULL;
	}
}

void ohca_xp_srq_gone(ohca_engine *e, struct ohca_qp *qp)
{
	if (qp->xp->resp.rwqe)
		ohca_rwqe_put(e, qp->xp->resp.rwqe);
	qp->xp->resp.rwqe = NULL;
}

bool ohca_rq_flush(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum)
{
	struct ohca_xport *xp = qp->xp;

	/* WQEs of an SRQ belong to all its QPs and are not flushed */
	if (qp->srq || qp->flags & OHCA_QP_NO_RQ)
		return false;
	while (*quantum) {
		struct ohca_rwqe *r = ohca_rwqe_get(e);
		int rc;

		if (!r)
			return false;
		rc = ohca_rwqe_take(e, qp, r);
		if (rc == 0 || rc == OHCA_RWQE_NO_RQ) {
			ohca_rwqe_put(e, r);
			return false;
		}
		xp->resp.rwqe = r;
		recv_fail(e, qp, OHCA_WC_WR_FLUSH, OHCA_VE_FLUSH);
		--*quantum;
	}
	return true;
}

/*
 * Take the receive WQE for the message that @p begins, to xp->resp.rwqe. A malformed WQE completes
 * in error. @p: may be NULL if the QP has no tags
 */
static struct ohca_outcome recv_take(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	int rc;

	if (xp->resp.rwqe)
		return ohca_vd(OHCA_VD_OK);	/* kept from a message that was not received */
	xp->resp.rwqe = ohca_rwqe_get(e);
	if (!xp->resp.rwqe)
		return ohca_vd(OHCA_VD_RNR);
	rc = xp->rndv ? ohca_tagged_take(e, qp, p, xp->resp.rwqe) :
			ohca_rwqe_take(e, qp, xp->resp.rwqe);
	if (rc > 0)
		return ohca_vd(OHCA_VD_OK);
	if (rc < 0 && rc != OHCA_RWQE_NO_RQ) {
		recv_fail(e, qp, OHCA_WC_LOC_QP_OP, (uint16_t)-rc);
		return ohca_vd_nak(IB_NAK_REM_OP, 0, (uint16_t)-rc, 0);
	}
	ohca_rwqe_put(e, xp->resp.rwqe);
	xp->resp.rwqe = NULL;
	return rc ? ohca_vd_nak(IB_NAK_REM_OP, 0, OHCA_VE_WQE_SIZE, OHCA_EVENT_QP_FATAL) :
		    ohca_vd(OHCA_VD_RNR);
}

/*
 * Complete the current receive WQE, whose message is complete. @c: has the fields of the message's
 * last packet; @se: SE of its BTH. 0, or -1: the CQ has no room.
 */
static int recv_finish(ohca_engine *e, struct ohca_qp *qp, struct ohca_hw_cqe *c, uint32_t len,
		       bool se)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_rwqe *r = xp->resp.rwqe;
	int rc;

	c->byte_len = ohca_to_le32(len);
	c->src_qp = ohca_to_le32(qp->dest_qpn);
	xp->resp.rwqe = NULL;
	if (r->use == OHCA_USE_RNDV)
		rc = ohca_tagged_read(e, qp, r);
	else
		rc = recv_push(e, qp, r, r->use == OHCA_USE_NO_ROOM ? OHCA_WC_TM_RNDV_INCOMPLETE :
							OHCA_WC_SUCCESS, 0, c, se);
	ohca_rwqe_put(e, r);
	return rc;
}

/* Complete the current receive WQE; @p: last packet of the message. As recv_finish() */
static int recv_done(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
		     uint32_t len)
{
	const struct ib_immdt *imm = ib_pkt_immdt(p->hdr, &p->i);
	const struct ib_ieth *ieth = ib_pkt_ieth(p->hdr, &p->i);
	struct ohca_hw_cqe c;

	memset(&c, 0, sizeof(c));
	c.opcode = ohca_to_le32(p->i.op->flags & IB_OPF_WRITE ? OHCA_WCO_RECV_IMM : OHCA_WCO_RECV);
	if (imm) {
		c.wc_flags = ohca_to_le32(OHCA_WCF_WITH_IMM);
		memcpy(&c.imm, &imm->imm, 4);
	} else if (ieth) {
		c.wc_flags = ohca_to_le32(OHCA_WCF_WITH_INV);
		c.inv_key = ohca_to_le32(ib_be32(ieth->rkey));
	}
	return recv_finish(e, qp, &c, len, p->i.se);
}

/* ---- one packet of a SEND or WRITE ------------------------------------------------------ */

/* Set the SRQ of a request in sequence; all packets of a message must name the same one. */
static struct ohca_outcome xrc_request(ohca_engine *e, struct ohca_qp *qp,
				       const struct ohca_rxpkt *p)
{
	struct ohca_srq *srq;
	int ve = ohca_xrc_srq(e, qp, xrc_srqn(p), &srq);

	if (ve == OHCA_VE_PD)
		return ohca_vd_nak(IB_NAK_REM_ACCESS, 0, OHCA_VE_PD, OHCA_EVENT_QP_ACCESS_ERR);
	/* also if a WQE of the previous SRQ is kept for a repeated packet */
	if (ve || ((qp->xp->resp.rx_op != OHCA_RX_NONE || qp->xp->resp.rwqe) && srq != qp->srq))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_XRC_SRQ, OHCA_EVENT_QP_REQ_ERR);
	qp->srq = srq;
	qp->rcq = srq->cq;
	qp->pd = srq->pd;
	qp->uar = srq->uar;
	return ohca_vd(OHCA_VD_OK);
}

/* Whether the payload has the right size for its position in the message (9.7.4.1.6). */
static bool size_ok(const struct ohca_qp *qp, const struct ib_pkt_info *i)
{
	uint32_t mtu = ohca_qp_mtu(qp);

	if (i->op->flags & (IB_OPF_FIRST | IB_OPF_MIDDLE))
		return i->payload_len == mtu;
	if (i->op->flags & IB_OPF_LAST)
		return i->payload_len >= 1 && i->payload_len <= mtu;
	return i->payload_len <= mtu;
}

/* Whether the packet continues the message in progress, or begins one while there is none. */
static bool in_sequence(const struct ohca_xport *xp, const struct ib_opcode_info *op)
{
	if (op->flags & IB_OPF_START)
		return xp->resp.rx_op == OHCA_RX_NONE;
	if (op->flags & IB_OPF_SEND)
		return xp->resp.rx_op == OHCA_RX_SEND;
	return xp->resp.rx_op == OHCA_RX_WRITE;
}

/* The part of a packet that is written to the buffer of a matched tag: *@n bytes at *@data. */
static void tagged_part(const struct ohca_xport *xp, const struct ohca_rxpkt *p,
			const uint8_t **data, uint32_t *n)
{
	const struct ohca_rwqe *r = xp->resp.rwqe;

	if (r->use == OHCA_USE_EAGER && p->i.op->flags & IB_OPF_START) {
		/* shorter than a header only if the requester repeats a packet with other data */
		*data += OHCA_TMH_LEN;
		*n = *n > OHCA_TMH_LEN ? *n - OHCA_TMH_LEN : 0;
	} else if (r->use == OHCA_USE_RNDV) {
		*n = 0;
	} else if (r->use == OHCA_USE_NO_ROOM && *n > r->total - xp->resp.rx_off) {
		*n = r->total - xp->resp.rx_off;
	}
}

static struct ohca_outcome do_send(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
				   struct ohca_missing *m)
{
	struct ohca_xport *xp = qp->xp;
	const uint8_t *data = p->payload;
	uint32_t n = p->i.payload_len;
	int rc;

	if (p->i.op->flags & IB_OPF_START) {
		struct ohca_outcome v = recv_take(e, qp, p);

		if (v.verdict != OHCA_VD_OK)
			return v;
		xp->resp.rx_op = OHCA_RX_SEND;
		xp->resp.rx_off = 0;
	}
	if (xp->resp.rwqe->use >= OHCA_USE_EAGER)
		tagged_part(xp, p, &data, &n);
	if (n > xp->resp.rwqe->total - xp->resp.rx_off)
		return ohca_vd_nak(IB_NAK_INV_REQ, OHCA_WC_LOC_LEN, OHCA_VE_LENGTH, 0);
	if (n) {
		rc = p->view ? ohca_sgl_scatter_view(e, qp, ohca_recv_pd(qp), xp->resp.rwqe->sge,
						     xp->resp.rwqe->num_sge, xp->resp.rx_off,
						     p->view, m) :
			       ohca_sgl_scatter(e, qp, ohca_recv_pd(qp), xp->resp.rwqe->sge,
						xp->resp.rwqe->num_sge, xp->resp.rx_off, data, n,
						m);
		if (rc == OHCA_MR_FAULT) {
			/* keep the WQE for the repeated packet */
			if (p->i.op->flags & IB_OPF_START)
				xp->resp.rx_op = OHCA_RX_NONE;
			return ohca_vd(OHCA_VD_FAULT);
		}
		if (rc)
			return ohca_vd_nak(IB_NAK_REM_OP, OHCA_WC_LOC_PROT, (uint16_t)rc, 0);
	}
	xp->resp.rx_off += n;
	if (!(p->i.op->flags & IB_OPF_END)) {
		if (xp->resp.rwqe->use == OHCA_USE_EAGER && ohca_tagged_match(e, qp, xp->resp.rwqe))
			return ohca_vd_nak(IB_NAK_REM_OP, 0, 0, OHCA_EVENT_QP_FATAL);
		return ohca_vd(OHCA_VD_OK);
	}
	if (p->i.op->flags & IB_OPF_INV) {
		rc = ohca_mr_invalidate(e, qp, ib_be32(ib_pkt_ieth(p->hdr, &p->i)->rkey), true);
		/*
		 * Class J: the message is in memory, so it is acknowledged. The error is reported
		 * only to the local consumer, with the same status as in Linux's rxe.
		 */
		if (rc)
			return ohca_vd_local(OHCA_WC_REM_INV_REQ, (uint16_t)rc);
	}
	xp->resp.rx_op = OHCA_RX_NONE;
	if (recv_done(e, qp, p, xp->resp.rx_off))
		return ohca_vd_nak(IB_NAK_REM_OP, 0, 0, OHCA_EVENT_QP_FATAL);
	return ohca_vd(OHCA_VD_OK);
}

/* Check access and size of the first packet of a WRITE. @r: all memory of the WRITE, if any */
static struct ohca_outcome begin_write(ohca_engine *e, struct ohca_qp *qp,
				       const struct ohca_rxpkt *p, struct ohca_mr_range *r)
{
	const struct ib_reth *reth = ib_pkt_reth(p->hdr, &p->i);
	struct ohca_xport *xp = qp->xp;
	int ve;

	if (!(qp->access & OHCA_ACCESS_REMOTE_WRITE))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	xp->resp.wr_va = ib_be64(reth->va);
	xp->resp.wr_rkey = ib_be32(reth->rkey);
	xp->resp.wr_len = ib_be32(reth->dmalen);
	xp->resp.rx_off = 0;
	if (xp->resp.wr_len > OHCA_MAX_MSG)
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (xp->resp.wr_len) {
		ve = ohca_rkey_check(e, qp, qp->pd, xp->resp.wr_rkey, xp->resp.wr_va,
				     xp->resp.wr_len, OHCA_ACCESS_REMOTE_WRITE, r);
		if (ve)
			return ohca_vd_nak(IB_NAK_REM_ACCESS, 0, (uint16_t)ve,
					   OHCA_EVENT_QP_ACCESS_ERR);
	}
	return ohca_vd(OHCA_VD_OK);
}

/*
 * The access of a WRITE with immediate data is refused. Its receive WQE completes with Local Access
 * Error (11.6.2), before the flushed WQEs. Only a packet with immediate data takes a WQE; a longer
 * message is refused at its first packet, without a WQE. A UC message is dropped.
 */
static void imm_refused(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
			struct ohca_outcome *v)
{
	if (ohca_qp_reliable(qp) && recv_take(e, qp, p).verdict == OHCA_VD_OK)
		v->status = OHCA_WC_LOC_ACCESS;
}

static struct ohca_outcome do_write(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
				    struct ohca_missing *m)
{
	struct ohca_xport *xp = qp->xp;
	uint32_t n = p->i.payload_len, left;
	struct ohca_mr_range r;
	struct ohca_outcome v;
	int rc;

	if (p->i.op->flags & IB_OPF_START) {
		v = begin_write(e, qp, p, &r);
		if (v.nak == IB_NAK_REM_ACCESS && p->i.op->flags & IB_OPF_IMM)
			imm_refused(e, qp, p, &v);
		if (v.verdict != OHCA_VD_OK)
			return v;
	}
	left = xp->resp.wr_len - xp->resp.rx_off;
	if (p->i.op->flags & IB_OPF_END ? n != left : n >= left)
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (p->i.op->flags & IB_OPF_IMM) {
		v = recv_take(e, qp, p);
		if (v.verdict != OHCA_VD_OK)
			return v;
	}
	if (n && !(p->i.op->flags & IB_OPF_START)) {
		/* the region may be deregistered since the first packet */
		rc = ohca_rkey_check(e, qp, qp->pd, xp->resp.wr_rkey,
				     xp->resp.wr_va + xp->resp.rx_off, n,
				     OHCA_ACCESS_REMOTE_WRITE, &r);
		if (rc)
			return ohca_vd_nak(IB_NAK_REM_ACCESS, OHCA_WC_LOC_ACCESS, (uint16_t)rc,
					   OHCA_EVENT_QP_ACCESS_ERR);
	}
	if (n) {
		if (xp->ahead)
			ohca_ahead_overwrite(e, xp, p->i.psn, &r, n);
		rc = p->view ? ohca_mr_write_view(e, &r, p->view, m) :
			       ohca_mr_write(e, &r, 0, p->payload, n, m);
		if (rc == OHCA_MR_FAULT) {
			m->len += left - n;
			return ohca_vd(OHCA_VD_FAULT);
		}
		if (rc)
			return ohca_vd_nak(IB_NAK_REM_OP, OHCA_WC_LOC_ACCESS, OHCA_VE_DMA,
					   OHCA_EVENT_QP_FATAL);
	}
	xp->resp.rx_off += n;
	xp->resp.rx_op = OHCA_RX_WRITE;
	if (p->i.op->flags & IB_OPF_END) {
		xp->resp.rx_op = OHCA_RX_NONE;
		if (p->i.op->flags & IB_OPF_IMM && recv_done(e, qp, p, xp->resp.wr_len))
			return ohca_vd_nak(IB_NAK_REM_OP, 0, 0, OHCA_EVENT_QP_FATAL);
	}
	return ohca_vd(OHCA_VD_OK);
}

/* ---- RC: requests ------------------------------------------------------------------------ */

static void nak_queue(struct ohca_xport *xp, uint8_t syndrome)
{
	xp->resp.nak_due = true;
	xp->resp.nak_sent = true;
	xp->resp.nak_syn = syndrome;
	xp->resp.nak_psn = xp->resp.epsn;
}

/*
 * Complete the WQE of the request in error, or raise the event, and move to ERR. Responses still
 * leave.
 */
static void stop(ohca_engine *e, struct ohca_qp *qp, const struct ohca_outcome *v)
{
	struct ohca_xport *xp = qp->xp;
	enum ohca_event ev = v->ev;

	xp->resp.closing = true;
	if (xp->resp.rwqe && v->status) {
		recv_fail(e, qp, v->status, v->ve);
		ev = 0;
	}
	ohca_qp_error(e, qp, ev, v->ve);
}

/* Refuse a request: queue a NAK, and stop. */
static void refuse(ohca_engine *e, struct ohca_qp *qp, const struct ohca_outcome *v)
{
	nak_queue(qp->xp, IB_AETH_NAK | v->nak);
	stop(e, qp, v);
}

void ohca_resp_read_refuse(ohca_engine *e, struct ohca_qp *qp, const struct ohca_outcome *v)
{
	uint32_t psn = rd_at(qp->xp, 0)->next;

	ohca_rd_clear(e, qp->xp);
	refuse(e, qp, v);
	qp->xp->resp.nak_psn = psn;
}

/* Report the page that the request needs. The requester repeats the request in any case. */
static void wait_page(ohca_engine *e, struct ohca_qp *qp, const struct ib_opcode_info *op,
		      const struct ohca_missing *m)
{
	if (!qp->xp->fault[OHCA_FAULT_RECV])
		qp->xp->resp.fault_rkey = !(op->flags & IB_OPF_SEND);
	ohca_suspend(e, qp, OHCA_FAULT_RECV, 0, m);
}

void ohca_resp_no_page(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side)
{
	/* an R_Key is an error of the requester, an L_Key of the responder (9.7.5) */
	struct ohca_outcome v = side == OHCA_FAULT_READ || qp->xp->resp.fault_rkey ?
		ohca_vd_nak(IB_NAK_REM_ACCESS, OHCA_WC_LOC_ACCESS, OHCA_VE_PAGE_FAULT,
			    OHCA_EVENT_QP_ACCESS_ERR) :
		ohca_vd_nak(IB_NAK_REM_OP, OHCA_WC_LOC_PROT, OHCA_VE_PAGE_FAULT,
			    OHCA_EVENT_QP_ACCESS_ERR);

	if (side == OHCA_FAULT_READ) {
		v.status = 0;
		ohca_resp_read_refuse(e, qp, &v);
	} else if (ohca_qp_reliable(qp)) {
		refuse(e, qp, &v);
	} else {
		/* UC has no NAK, so report it only to the local consumer */
		if (qp->xp->resp.rwqe) {
			recv_fail(e, qp, v.status, v.ve);
			v.ev = 0;
		}
		ohca_qp_error(e, qp, v.ev, v.ve);
	}
}

/* Execute the request with the expected PSN. @next: result of a READ: PSN after its responses */
static struct ohca_outcome resp_execute(ohca_engine *e, struct ohca_qp *qp,
					const struct ohca_rxpkt *p, uint32_t *next,
					struct ohca_missing *m)
{
	const struct ib_opcode_info *op = p->i.op;

	if (qp->xrcd) {
		struct ohca_outcome v = xrc_request(e, qp, p);

		if (v.verdict != OHCA_VD_OK)
			return v;
	}
	if (!in_sequence(qp->xp, op) || !size_ok(qp, &p->i))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (op->flags & IB_OPF_SEND)
		return do_send(e, qp, p, m);
	if (op->flags & IB_OPF_WRITE)
		return do_write(e, qp, p, m);
	if (op->flags & IB_OPF_READ)
		return ohca_resp_read(e, qp, p, next);
	if (op->flags & IB_OPF_ATOMIC)
		return ohca_resp_atomic(e, qp, p, m);
	if (op->flags & IB_OPF_FLUSH && ohca_feature(e, OHCA_FEATURE_MPE))
		return ohca_resp_flush(e, qp, p);
	if (op->flags & IB_OPF_ATOMIC_WRITE && ohca_feature(e, OHCA_FEATURE_MPE))
		return ohca_resp_atomic_write(e, qp, p, m);
	return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_OPCODE, OHCA_EVENT_QP_REQ_ERR);
}

/* Requests are lost, or count as lost: queue a NAK, unless one was sent. */
static void lost(ohca_engine *e, struct ohca_qp *qp)
{
	ohca_count_qp(e, qp, OHCA_CNT_RX_OUT_OF_SEQ);
	if (!qp->xp->resp.nak_sent)
		nak_queue(qp->xp, IB_AETH_NAK | IB_NAK_PSN_SEQ);
}

/* Receive a request whose PSN is @diff after the expected one. */
static void resp_early(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
		       uint32_t diff)
{
	if (!ohca_ahead_take(e, qp, p, diff) || diff >= OHCA_AHEAD_LOST)
		lost(e, qp);
}

/* No receive WQE, a missing page, or not complete: the requester must repeat the request. */
static void not_now(ohca_engine *e, struct ohca_qp *qp, uint8_t timer)
{
	ohca_count_qp(e, qp, OHCA_CNT_RNR_NAK_TX);
	nak_queue(qp->xp, IB_AETH_RNR_NAK | timer);
}

/* Finish an early packet whose PSN is now the expected one: the rest of do_write(). */
static struct ohca_outcome finish_early(ohca_engine *e, struct ohca_qp *qp,
					const struct ohca_early *p)
{
	struct ohca_outcome v;
	struct ohca_hw_cqe c;

	if (qp->xp->resp.rx_op != OHCA_RX_NONE)
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (!p->has_imm)
		return ohca_vd(OHCA_VD_OK);
	v = recv_take(e, qp, NULL);
	if (v.verdict != OHCA_VD_OK)
		return v;
	memset(&c, 0, sizeof(c));
	c.opcode = ohca_to_le32(OHCA_WCO_RECV_IMM);
	c.wc_flags = ohca_to_le32(OHCA_WCF_WITH_IMM);
	memcpy(&c.imm, &p->imm, sizeof(p->imm));
	if (recv_finish(e, qp, &c, p->len, p->se))
		return ohca_vd_nak(IB_NAK_REM_OP, 0, 0, OHCA_EVENT_QP_FATAL);
	return ohca_vd(OHCA_VD_OK);
}

/* Finish early packets, after the expected PSN has advanced. */
static void resp_go_on(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_early p;

	while (ohca_ahead_next(xp, &p)) {
		const struct ohca_outcome v = finish_early(e, qp, &p);

		ohca_work(e, p.has_imm ? OHCA_WORK_WQE : OHCA_WORK_LOOK);
		/* a receive WQE may be posted until the packet is repeated */
		if (v.verdict == OHCA_VD_RNR) {
			not_now(e, qp, qp->min_rnr_timer);
			break;
		}
		if (v.verdict != OHCA_VD_OK) {
			refuse(e, qp, &v);
			return;
		}
		xp->resp.epsn = ib_psn_add(xp->resp.epsn, 1);
		xp->resp.msn = ib_psn_add(xp->resp.msn, 1);
		xp->resp.ack_due |= p.ackreq;
	}
	if (ohca_ahead_again(xp))
		lost(e, qp);
	ohca_ahead_end(e, xp);
}

void ohca_resp_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	const struct ib_opcode_info *op = p->i.op;
	int32_t diff = ib_psn_diff(p->i.psn, xp->resp.epsn);
	uint32_t next = ib_psn_add(p->i.psn, 1);
	struct ohca_missing m;
	struct ohca_outcome v;

	ohca_sched_activate(e, xp);
	xp->sched.answers = true;
	if (diff > 0) {
		resp_early(e, qp, p, (uint32_t)diff);
		return;
	}
	if (diff < 0) {
		ohca_resp_duplicate(e, qp, p);
		return;
	}
	xp->resp.nak_due = xp->resp.nak_sent = false;
	v = resp_execute(e, qp, p, &next, &m);
	switch (v.verdict) {
	case OHCA_VD_RNR:
		not_now(e, qp, qp->min_rnr_timer);
		return;
	case OHCA_VD_FAULT:
		wait_page(e, qp, op, &m);
		/* fallthrough */
	case OHCA_VD_BUSY:
		not_now(e, qp, OHCA_FAULT_RNR_TIMER);
		return;
	case OHCA_VD_NAK:
		refuse(e, qp, &v);
		return;
	case OHCA_VD_LOCAL:
	case OHCA_VD_OK:
		break;
	}
	if (xp->fault[OHCA_FAULT_RECV])
		ohca_suspend_forget(e, xp, OHCA_FAULT_RECV);
	if (xp->ahead && op->flags & IB_OPF_READ)
		ohca_ahead_skip(e, xp, next);
	xp->resp.epsn = next;
	if (op->flags & IB_OPF_END)
		xp->resp.msn = ib_psn_add(xp->resp.msn, 1);
	if (p->i.ackreq && !(op->flags & RESPONDED))
		xp->resp.ack_due = true;
	if (v.verdict == OHCA_VD_LOCAL)
		stop(e, qp, &v);
	else if (xp->ahead)
		resp_go_on(e, qp);
}

/* ---- UC ------------------------------------------------------------------------------------ */

/*
 * Drop the rest of the message in progress; @taken: this packet took a WQE for it. The QP keeps a
 * WQE of its own RQ for the next message (9.8.3). A WQE of an SRQ completes as aborted, so that it
 * does not stay unused (11.6.2).
 */
static void uc_abandon(ohca_engine *e, struct ohca_qp *qp, bool taken)
{
	struct ohca_xport *xp = qp->xp;
	bool told = (taken || xp->resp.rx_op == OHCA_RX_SEND) && xp->resp.rwqe &&
		    xp->resp.rwqe->from_srq;

	xp->resp.rx_op = OHCA_RX_NONE;
	if (told)
		recv_fail(e, qp, OHCA_WC_REM_ABORT, OHCA_VE_ABORTED);
}

/*
 * A UC message is received completely or dropped (9.8.3). After a gap all packets are dropped up to
 * the next first packet.
 */
void ohca_uc_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	const struct ib_opcode_info *op = p->i.op;
	struct ohca_missing m;
	struct ohca_outcome v;

	ohca_sched_activate(e, xp);
	if (p->i.psn != xp->resp.epsn) {
		ohca_count_qp(e, qp, OHCA_CNT_RX_OUT_OF_SEQ);
		xp->resp.uc_skip = true;
	}
	xp->resp.epsn = ib_psn_add(p->i.psn, 1);
	if (xp->resp.uc_skip || op->flags & IB_OPF_START)
		uc_abandon(e, qp, false);
	if (op->flags & IB_OPF_START)
		xp->resp.uc_skip = false;
	/* the CQ had no room for the aborted WQE */
	if (xp->resp.uc_skip || qp->state == OHCA_QPS_ERR)
		return;
	if (!in_sequence(xp, op) || !size_ok(qp, &p->i))
		v = ohca_vd_nak(IB_NAK_INV_REQ, 0, 0, 0);
	else if (op->flags & IB_OPF_SEND)
		v = do_send(e, qp, p, &m);
	else
		v = do_write(e, qp, p, &m);
	if (v.verdict == OHCA_VD_OK) {
		if (xp->fault[OHCA_FAULT_RECV])
			ohca_suspend_forget(e, xp, OHCA_FAULT_RECV);
		return;
	}
	xp->resp.uc_skip = true;
	if (v.nak == IB_NAK_REM_OP) {
		/* a local error stops the QP; an error of the message does not */
		xp->resp.rx_op = OHCA_RX_NONE;
		if (xp->resp.rwqe && v.status)
			recv_fail(e, qp, v.status, v.ve);
		ohca_qp_error(e, qp, v.ev, v.ve);
	} else if (v.verdict == OHCA_VD_FAULT) {
		xp->resp.rx_op = OHCA_RX_NONE;
		wait_page(e, qp, op, &m);
	} else {
		if (v.verdict == OHCA_VD_RNR)
			ohca_count_qp(e, qp, OHCA_CNT_RX_NO_WQE);
		uc_abandon(e, qp, v.status && op->flags & IB_OPF_IMM);
	}
}
