/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sending of the responses of an RC or XRC QP: READ and atomic data, ACKs, NAKs. */
#include <string.h>

#include "engine/base/guestmem.h"
#include "engine/base/state.h"
#include "engine/object/counters.h"
#include "engine/object/fault.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/object/to_transport.h"
#include "engine/transport/ack.h"
#include "engine/transport/path.h"
#include "engine/transport/responder.h"
#include "engine/transport/responder_priv.h"
#include "engine/transport/sched.h"
#include "engine/transport/suspend.h"
#include "engine/transport/turn.h"
#include "engine/transport/tx.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

/*
 * Syndrome of an acknowledgement. Its credits are the receive WQEs that were posted when the last
 * one was taken, and the one of the message in progress, which the MSN does not count yet. More may
 * be posted by now, but a check would cost an access to guest memory for every ACK. It is not
 * needed, because a requester without credits still sends one packet, for which a WQE is taken. An
 * SRQ grants no credits.
 */
static uint8_t ack_syndrome(const struct ohca_qp *qp)
{
	if (qp->type != OHCA_QPT_RC || qp->srq)
		return IB_AETH_ACK | IB_AETH_CREDIT_INVALID;
	return IB_AETH_ACK | ib_credit_code(qp->rq_pi - qp->rq_ci + (qp->xp->resp.rwqe != NULL));
}

/* The NAK that is due, else an ACK of all received requests. */
static struct ohca_ack ack_due(const struct ohca_qp *qp)
{
	const struct ohca_xport *xp = qp->xp;
	struct ohca_ack a = {
		.dqpn = qp->dest_qpn,
		.migreq = ohca_qp_migreq(qp),
		.msn = xp->resp.msn,
		.opcode = IB_OPN_ACK | ohca_qp_trans(qp),
		.psn = xp->resp.nak_due ? xp->resp.nak_psn : ib_psn_add(xp->resp.epsn, IB_PSN_MASK),
		.syndrome = xp->resp.nak_due ? xp->resp.nak_syn : ack_syndrome(qp),
	};

	return a;
}

void ohca_xp_last_words(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_turn t = ohca_turn_of(NULL);
	struct ohca_xport *xp = qp->xp;
	const struct ohca_path *path;
	struct ohca_ack a;

	if (!xp->resp.ack_due && !xp->resp.nak_due)
		return;
	path = ohca_qp_path(e, qp);
	a = ack_due(qp);
	if (!ohca_ack_out(e, &t, path, &a))
		ohca_ack_later(e, path, &a);
	xp->resp.ack_due = xp->resp.nak_due = false;
}

static enum ohca_sent send_atomic_ack(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rd *r,
				      struct ohca_turn *t)
{
	const struct ohca_path *path = ohca_qp_path(e, qp);
	struct ohca_tx tx;
	uint8_t *h;

	if (!ohca_tx_open(e, t, path, path->hdr_len + IB_BTH_LEN + IB_AETH_LEN +
			  IB_ATOMIC_ACK_ETH_LEN + IB_ICRC_LEN, &tx))
		return OHCA_SENT_BLOCKED;
	h = ib_build_bth(tx.buf + path->hdr_len, IB_OPN_ATOMIC_ACK | ohca_qp_trans(qp),
			 ohca_qp_migreq(qp), 0, path->pkey, qp->dest_qpn, false, r->first);
	h = ib_build_aeth(h, ack_syndrome(qp), r->msn);
	ib_build_atomic_ack(h, r->orig);
	ohca_tx_close_qp(e, qp, &tx);
	return OHCA_SENT;
}

/*
 * Set @v to a view of the payload of the next packet of response @r, @n bytes of @range at @va, and
 * of packets that may leave with it. Return: number of packets; 0: the payload must be copied.
 */
static unsigned int view_response(ohca_engine *e, const struct ohca_qp *qp,
				  const struct ohca_rd *r, const struct ohca_pd *pd,
				  const struct ohca_mr_range *range, struct ohca_tx *tx,
				  uint64_t va, uint32_t n, struct ib_view *v)
{
	const bool middle = r->next != r->first && r->next != r->last;
	const uint64_t work = e->work;
	struct ohca_mr_range all;
	unsigned int packets = 1;

	if (n < OHCA_VIEW_MIN || !ohca_tx_views(e, tx))
		return 0;
	if (middle)
		packets = ohca_tx_series(e, tx, (uint32_t)ib_psn_diff(r->last, r->next), n);
	ib_view_begin(v, packets);
	if (packets > 1 && !ohca_rkey_check(e, qp, pd, r->rkey, va, packets * n,
					    OHCA_ACCESS_REMOTE_READ, &all) &&
	    ohca_mr_view(e, &all, v, packets * n))
		return packets;
	e->work = work;
	ib_view_begin(v, 1);
	/* the last word of a message must be stored at once, so it must lie in one piece */
	if (ohca_mr_view(e, range, v, n) && (r->next != r->last || ib_view_ends_whole(v)))
		return 1;
	e->work = work;
	return 0;
}

/* Send one packet of a READ response, or several packets in the middle of it. */
static enum ohca_sent send_read_resp(ohca_engine *e, struct ohca_qp *qp, struct ohca_rd *r,
				     struct ohca_turn *t)
{
	const struct ohca_path *path = ohca_qp_path(e, qp);
	uint32_t mtu = ohca_qp_mtu(qp);
	uint32_t off = (uint32_t)ib_psn_diff(r->next, r->first) * mtu;
	uint32_t n = r->length - off < mtu ? r->length - off : mtu, pad = ib_pad(n);
	bool first = r->next == r->first, last = r->next == r->last;
	uint8_t op = ohca_qp_trans(qp) |
		     (first ? (last ? IB_OPN_READ_RESP_ONLY : IB_OPN_READ_RESP_FIRST) :
			      (last ? IB_OPN_READ_RESP_LAST : IB_OPN_READ_RESP_MIDDLE));
	struct ib_view view;
	const struct ohca_pd *pd;
	struct ohca_mr_range range;
	struct ohca_missing m;
	struct ohca_tx tx;
	unsigned int packets = 0;
	int ve = 0, rc = 0;
	uint8_t *h;

	if (!ohca_tx_open(e, t, path, path->hdr_len + ib_opcodes[op].hdr_len + n + pad +
			  IB_ICRC_LEN, &tx))
		return OHCA_SENT_BLOCKED;
	h = ib_build_bth(tx.buf + path->hdr_len, op, ohca_qp_migreq(qp), (uint8_t)pad, path->pkey,
			 qp->dest_qpn, false, r->next);
	if (first || last)
		h = ib_build_aeth(h, ack_syndrome(qp), r->msn);
	/* the region or the XRC SRQ may have been destroyed since the request */
	ve = ohca_resp_pd(e, qp, r->srqn, &pd);
	if (n && !ve)
		ve = ohca_rkey_check(e, qp, pd, r->rkey, r->va + off, n, OHCA_ACCESS_REMOTE_READ,
				     &range);
	if (!ve && n)
		packets = view_response(e, qp, r, pd, &range, &tx, r->va + off, n, &view);
	if (packets) {
		ohca_tx_view(&tx, &view, h);
		t->packets = packets;
	} else if (!ve && n) {
		rc = ohca_mr_read(e, &range, 0, h, n, &m);
		memset(h + n, 0, pad);
	}
	if (rc == OHCA_MR_FAULT && qp->state != OHCA_QPS_ERR) {
		m.len += r->length - off - n;
		return ohca_suspend_tx(e, qp, t, OHCA_FAULT_READ, 0, &m);
	}
	if (rc)
		ve = OHCA_VE_DMA;
	if (ve) {
		struct ohca_outcome v = ohca_vd_nak(ve == OHCA_VE_DMA ? IB_NAK_REM_OP :
									IB_NAK_REM_ACCESS,
						    0, (uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);

		ohca_resp_read_refuse(e, qp, &v);
		return OHCA_SENT;
	}
	ohca_tx_close_qp(e, qp, &tx);
	r->next = ib_psn_add(r->next, packets ? packets : 1);
	return OHCA_SENT;
}

enum ohca_sent ohca_resp_send(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t)
{
	struct ohca_xport *xp = qp->xp;
	enum ohca_sent ret;

	if (xp->resp.rd_num) {
		struct ohca_rd *r = rd_at(xp, 0);
		uint32_t last = r->last;

		if (xp->fault[OHCA_FAULT_READ])
			return OHCA_SENT_NONE;
		ret = r->atomic ? send_atomic_ack(e, qp, r, t) : send_read_resp(e, qp, r, t);
		if (ret != OHCA_SENT || !xp->resp.rd_num)
			return ret;
		if (r->atomic || ib_psn_diff(r->next, last) > 0) {
			ohca_rd_pop(e, xp);
			/* the response also acknowledges all earlier requests */
			if (!xp->resp.rd_num && ib_psn_add(last, 1) == xp->resp.epsn)
				xp->resp.ack_due = false;
		}
		return OHCA_SENT;
	}
	if (xp->resp.nak_due || xp->resp.ack_due) {
		const struct ohca_path *path = ohca_qp_path(e, qp);
		const struct ohca_ack a = ack_due(qp);

		if (!ohca_ack_out(e, t, path, &a))
			return OHCA_SENT_BLOCKED;
		if (path->kind != OHCA_TX_DISCARD)
			ohca_count_tx(e, qp, 1, ohca_ack_len(path));
		xp->resp.nak_due = xp->resp.ack_due = false;
		return OHCA_SENT;
	}
	return OHCA_SENT_NONE;
}
