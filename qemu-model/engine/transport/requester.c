/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The requester of RC, UC and XRC: segmentation of messages into packets (IBTA vol 1, 9.7.3,
 * 9.8.2).
 *
 * xp->req.nxt is the PSN of the next packet. It advances through the PSNs of the WQE at
 * xp->req.cur. To go back, the requester sets both back (ohca_req_restart()).
 */
#include <string.h>

#include "engine/base/guestmem.h"
#include "engine/base/le.h"
#include "engine/base/state.h"
#include "engine/object/fault.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/object/wc.h"
#include "engine/transport/ahead.h"
#include "engine/transport/burst.h"
#include "engine/transport/completer.h"
#include "engine/transport/path.h"
#include "engine/transport/requester.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/suspend.h"
#include "engine/transport/timer.h"
#include "engine/transport/turn.h"
#include "engine/transport/tx.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

/* Operation of a packet: SEND or WRITE, position in the message, with ImmDt or IETH. */
static uint8_t packet_op(const struct ohca_swqe *w, bool first, bool last)
{
	bool write = w->op == OHCA_OP_RDMA_WRITE || w->op == OHCA_OP_RDMA_WRITE_IMM;
	uint8_t base = write ? IB_OPN_WRITE_FIRST : IB_OPN_SEND_FIRST;
	bool imm = w->op == OHCA_OP_RDMA_WRITE_IMM || w->op == OHCA_OP_SEND_IMM;

	if (!last)
		return base + (w->apart ? 4 : first ? 0 : 1);
	if (w->op == OHCA_OP_SEND_INV)
		return first ? IB_OPN_SEND_ONLY_INV : IB_OPN_SEND_LAST_INV;
	return base + (first || w->apart ? 4 : 2) + (imm ? 1 : 0);
}

/* The WQE cannot continue. It fails after the WQEs before it have completed. */
static enum ohca_sent fail_in_turn(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w)
{
	if (w->idx != qp->xp->req.tail)
		return OHCA_SENT_NONE;
	ohca_sq_fail(e, qp, w, w->status, w->ve);
	return OHCA_SENT;
}

/* The packets before PSN @nxt have left: advance, and start the timer. */
static void sent(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, uint32_t nxt)
{
	struct ohca_xport *xp = qp->xp;

	xp->req.nxt = nxt;
	if (ib_psn_diff(nxt, xp->req.max) > 0)
		xp->req.max = nxt;
	if (ib_psn_diff(nxt, w->last) > 0) {
		if (w->state == OHCA_SW_BEGUN)
			w->state = OHCA_SW_SENT;
		xp->req.cur += w->nbb;
	}
	if (qp->type == OHCA_QPT_UC) {
		xp->req.una = nxt;
		if (w->state == OHCA_SW_SENT)
			ohca_sq_complete(e, qp, w, OHCA_WC_SUCCESS, 0);
	} else if (xp->sched.timer == OHCA_NO_DEADLINE && qp->timeout) {
		ohca_timer_set(e, xp, e->sched->now + ohca_rto_ns(qp));
	}
}

/*
 * Number of packets, from the next one on, whose headers differ only in the PSN: in the middle of a
 * message, up to the one with AckReq.
 */
static unsigned int alike(const struct ohca_qp *qp, const struct ohca_swqe *w)
{
	const struct ohca_xport *xp = qp->xp;
	const uint32_t window = OHCA_REQ_WINDOW - (uint32_t)ib_psn_diff(xp->req.nxt, xp->req.una);
	uint32_t n = (uint32_t)ib_psn_diff(w->last, xp->req.nxt);

	if (xp->req.nxt == w->first || xp->req.nxt == w->last || xp->req.asking || w->apart)
		return 1;
	if (n > window)
		n = window;
	if (qp->type != OHCA_QPT_UC && n > OHCA_ACK_EVERY - xp->req.since_ackreq)
		n = OHCA_ACK_EVERY - xp->req.since_ackreq;
	return n;
}

/*
 * Set @v to a view of the payload of the next packet, from @off of the message on, and of packets
 * that may leave with it. Return: number of packets; 0: the payload must be copied.
 */
static unsigned int view_data(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
			      struct ohca_tx *tx, uint32_t off, uint32_t n, struct ib_view *v)
{
	const uint64_t work = e->work;
	unsigned int packets;

	if (n < OHCA_VIEW_MIN || !ohca_tx_views(e, tx))
		return 0;
	packets = ohca_tx_series(e, tx, alike(qp, w), n);
	if (packets > 1 && ohca_swqe_view(e, qp, w, off, v, packets, packets * n))
		return packets;
	e->work = work;
	/* the last word of a message must be stored at once, so it must lie in one piece */
	if (ohca_swqe_view(e, qp, w, off, v, 1, n) &&
	    ((qp->xp->req.nxt != w->last && !w->apart) || ib_view_ends_whole(v)))
		return 1;
	e->work = work;
	return 0;
}

/* The payload of the next packet cannot be gathered because of @ve; *@m: the missing pages. */
static enum ohca_sent no_payload(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
				 struct ohca_turn *t, int ve, const struct ohca_missing *m)
{
	if (ve == OHCA_MR_FAULT)
		return ohca_suspend_tx(e, qp, t, OHCA_FAULT_REQ, w->idx, m);
	w->status = OHCA_WC_LOC_PROT;
	w->ve = (uint16_t)ve;
	return fail_in_turn(e, qp, w);
}

/* Send a WRITE of one packet that continues the burst. */
static enum ohca_sent send_in_burst(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
				    struct ohca_turn *t)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_missing m;
	const int ve = ohca_burst_add(e, qp, w, &m);

	if (ve)
		return no_payload(e, qp, w, t, ve, &m);
	xp->req.since_ackreq = 0;
	sent(e, qp, w, ib_psn_add(xp->req.nxt, 1));
	return OHCA_SENT;
}

/* Send one packet of a SEND or WRITE, or several packets in the middle of it. */
static enum ohca_sent send_data(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
				struct ohca_turn *t)
{
	struct ohca_xport *xp = qp->xp;
	const struct ohca_path *path = ohca_qp_path(e, qp);
	uint32_t mtu = ohca_qp_mtu(qp);
	uint32_t off = (uint32_t)ib_psn_diff(xp->req.nxt, w->first) * mtu;
	uint32_t n = w->length - off < mtu ? w->length - off : mtu;
	bool first = off == 0, last = xp->req.nxt == w->last, ackreq = false;
	uint8_t op = packet_op(w, first, last) | ohca_qp_trans(qp);
	const struct ib_opcode_info *info = &ib_opcodes[op];
	struct ib_view view;
	struct ohca_missing m;
	struct ohca_tx tx;
	uint32_t pad = ib_pad(n), len;
	unsigned int packets;
	uint8_t *h;
	int ve = 0;

	len = path->hdr_len + info->hdr_len + n + pad + IB_ICRC_LEN;
	if (!ohca_tx_open(e, t, path, len, &tx))
		return OHCA_SENT_BLOCKED;
	h = ib_build_bth(tx.buf + path->hdr_len, op,
			 ohca_qp_migreq(qp) |
			 (last && w->flags & OHCA_WQE_SOLICITED ? IB_BTH_SE : 0),
			 (uint8_t)pad, path->pkey, qp->dest_qpn, false, xp->req.nxt);
	if (info->hdrs & IB_HDR_XRCETH)
		h = ib_build_xrceth(h, w->srqn);
	if (info->hdrs & IB_HDR_RETH)
		h = ib_build_reth(h, w->raddr + off, w->rkey, w->apart ? n : w->length);
	if (info->hdrs & IB_HDR_IMMDT) {
		memcpy(h, &w->imm, IB_IMMDT_LEN);
		h += IB_IMMDT_LEN;
	}
	if (info->hdrs & IB_HDR_IETH)
		h = ib_build_ieth(h, w->imm);
	packets = view_data(e, qp, w, &tx, off, n, &view);
	if (packets) {
		ohca_tx_view(&tx, &view, h);
		t->packets = packets;
	} else {
		packets = 1;
		ve = ohca_swqe_gather(e, qp, w, off, h, n, &m);
		if (pad)
			memset(h + n, 0, pad);
	}
	if (ve)
		return no_payload(e, qp, w, t, ve, &m);
	/* only the last packet of a series may have AckReq */
	if (qp->type != OHCA_QPT_UC)
		ackreq = last || xp->req.since_ackreq + packets >= OHCA_ACK_EVERY;
	if (ackreq)
		ib_set_ackreq(tx.buf + path->hdr_len);
	if (!first || !last || !ohca_burst_begin(e, qp, w, &tx, h - IB_RETH_LEN))
		ohca_tx_close_qp(e, qp, &tx);
	/* not before: a packet that a page fault has stopped was not sent */
	xp->req.since_ackreq = ackreq ? 0 : (uint16_t)(xp->req.since_ackreq + packets);
	sent(e, qp, w, ib_psn_add(xp->req.nxt, packets));
	return OHCA_SENT;
}

/*
 * Open a packet with AckReq and @n bytes of payload, a multiple of 4. Return: where the headers
 * after BTH and XRCETH begin; NULL: there is no room for the packet.
 */
static uint8_t *open_request(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
			     struct ohca_turn *t, uint8_t op, uint32_t n, struct ohca_tx *tx)
{
	const struct ib_opcode_info *info = &ib_opcodes[op];
	const struct ohca_path *path = ohca_qp_path(e, qp);
	uint8_t *h;

	if (!ohca_tx_open(e, t, path, path->hdr_len + info->hdr_len + n + IB_ICRC_LEN, tx))
		return NULL;
	h = ib_build_bth(tx->buf + path->hdr_len, op, ohca_qp_migreq(qp), 0, path->pkey,
			 qp->dest_qpn, true, qp->xp->req.nxt);
	if (info->hdrs & IB_HDR_XRCETH)
		h = ib_build_xrceth(h, w->srqn);
	return h;
}

/*
 * Send a READ request for the rest of the message, or of the chunk that contains the PSN. A
 * repeated READ has the same chunk boundaries: a responder that has executed the request for a
 * chunk has executed all of it.
 */
static enum ohca_sent send_read(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
				struct ohca_turn *t)
{
	struct ohca_xport *xp = qp->xp;
	uint32_t mtu = ohca_qp_mtu(qp);
	uint32_t off = (uint32_t)ib_psn_diff(xp->req.nxt, w->first) * mtu;
	uint32_t rest = w->length - off, pkts = ohca_npkts(qp, rest);
	uint32_t chunk = OHCA_READ_CHUNK - (off / mtu) % OHCA_READ_CHUNK;
	uint8_t op = IB_OPN_READ_REQUEST | ohca_qp_trans(qp);
	struct ohca_tx tx;
	uint8_t *h;

	/* the next chunk is requested after the previous one has arrived */
	if (off && pkts > 0 && xp->req.nxt == xp->req.max && xp->req.una != xp->req.nxt)
		return OHCA_SENT_NONE;
	if (pkts > chunk) {
		pkts = chunk;
		rest = pkts * mtu;
	}
	if ((uint32_t)ib_psn_diff(xp->req.nxt, xp->req.una) + pkts > OHCA_MAX_PSNS)
		return OHCA_SENT_NONE;
	h = open_request(e, qp, w, t, op, 0, &tx);
	if (!h)
		return OHCA_SENT_BLOCKED;
	ib_build_reth(h, w->raddr + off, w->rkey, rest);
	ohca_tx_close_qp(e, qp, &tx);
	sent(e, qp, w, ib_psn_add(xp->req.nxt, pkts));
	return OHCA_SENT;
}

static enum ohca_sent send_atomic(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
				  struct ohca_turn *t)
{
	struct ohca_xport *xp = qp->xp;
	bool xrc = qp->type == OHCA_QPT_XRC_INI;
	const uint8_t *raw = ohca_swqe_raw(xp, w->idx) + (2 + xrc) * OHCA_SEG_SIZE;
	struct ohca_hw_wqe_atomic_masks m;
	struct ohca_hw_wqe_atomic a;
	struct ohca_tx tx;
	uint8_t *h, op;

	switch (w->op) {
	case OHCA_OP_CMP_SWAP:
		op = IB_OPN_CMP_SWAP | ohca_qp_trans(qp);
		break;
	case OHCA_OP_FETCH_ADD:
		op = IB_OPN_FETCH_ADD | ohca_qp_trans(qp);
		break;
	case OHCA_OP_MASKED_CMP_SWAP:
		op = IB_OP_OHCA_MASKED_CMP_SWAP;
		break;
	default:
		op = IB_OP_OHCA_MASKED_FETCH_ADD;
	}
	h = open_request(e, qp, w, t, op, 0, &tx);
	if (!h)
		return OHCA_SENT_BLOCKED;
	memcpy(&a, raw, sizeof(a));
	memcpy(&m, raw + sizeof(a), sizeof(m));
	if (ohca_op_is_masked(w->op))
		ib_build_masked_atomic(h, w->raddr, w->rkey, ohca_le64(a.swap_add),
				       ohca_le64(a.compare), ohca_le64(m.swap),
				       ohca_le64(m.compare));
	else
		ib_build_atomic(h, w->raddr, w->rkey, ohca_le64(a.swap_add),
				ohca_le64(a.compare));
	ohca_tx_close_qp(e, qp, &tx);
	sent(e, qp, w, ib_psn_add(xp->req.nxt, 1));
	return OHCA_SENT;
}

static enum ohca_sent send_flush(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
				 struct ohca_turn *t)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_hw_wqe_flush f;
	struct ohca_tx tx;
	uint8_t *h;

	h = open_request(e, qp, w, t, IB_OP_RC_FLUSH, 0, &tx);
	if (!h)
		return OHCA_SENT_BLOCKED;
	memcpy(&f, ohca_swqe_raw(xp, w->idx) + 2 * OHCA_SEG_SIZE, sizeof(f));
	h = ib_build_feth(h, f.placement, f.level);
	ib_build_reth(h, w->raddr, w->rkey, ohca_le32(f.length));
	ohca_tx_close_qp(e, qp, &tx);
	sent(e, qp, w, ib_psn_add(xp->req.nxt, 1));
	return OHCA_SENT;
}

static enum ohca_sent send_atomic_write(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
					struct ohca_turn *t)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_missing m;
	struct ohca_tx tx;
	uint8_t *h;
	int ve;

	h = open_request(e, qp, w, t, IB_OP_RC_ATOMIC_WRITE, w->length, &tx);
	if (!h)
		return OHCA_SENT_BLOCKED;
	h = ib_build_reth(h, w->raddr, w->rkey, w->length);
	ve = ohca_swqe_gather(e, qp, w, 0, h, w->length, &m);
	if (ve)
		return no_payload(e, qp, w, t, ve, &m);
	ohca_tx_close_qp(e, qp, &tx);
	sent(e, qp, w, ib_psn_add(xp->req.nxt, 1));
	return OHCA_SENT;
}

/* ---- end-to-end flow control (9.7.7.2) ------------------------------------------------- */

/*
 * Assign the SSN of a request that begins. A request without a receive WQE needs no credit, so it
 * advances the limit.
 */
static void number(const struct ohca_qp *qp, struct ohca_swqe *w)
{
	struct ohca_xport *xp = qp->xp;
	uint32_t n = 1;

	/* each chunk of a READ is a request, and each packet of a WRITE without order */
	if (w->op == OHCA_OP_RDMA_READ)
		n = (uint32_t)ib_psn_diff(w->last, w->first) / OHCA_READ_CHUNK + 1;
	else if (w->apart)
		n = (uint32_t)ib_psn_diff(w->last, w->first) + 1;
	xp->req.ssn = ib_psn_add(xp->req.ssn, n);
	w->ssn = xp->req.ssn;
	if (!ohca_op_takes_wqe(w->op))
		xp->req.lsn = ib_psn_add(xp->req.lsn, n);
	xp->req.asking = ib_psn_diff(xp->req.ssn, xp->req.lsn) > 0;
}

/*
 * Whether the next packet may be sent. A request beyond the limit is one for which, or for an
 * earlier one, the responder has not granted a receive WQE. The first such request is sent up to
 * the packet that takes the WQE: the first of a SEND, the last of a WRITE with immediate data.
 * Later packets wait until that is acknowledged, so a responder without a WQE drops only one
 * packet. The oldest request may always be sent. Only new and repeated requests are checked
 * (xp->req.asking).
 */
static bool may_ask(struct ohca_xport *xp, const struct ohca_swqe *w)
{
	if (!xp->req.credits || ib_psn_diff(w->ssn, xp->req.lsn) <= 0)
		return true;
	if (xp->req.nxt != w->first)
		return w->op == OHCA_OP_RDMA_WRITE_IMM || ib_psn_diff(xp->req.una, w->first) > 0;
	if (xp->req.una != xp->req.nxt &&
	    (ib_psn_diff(w->ssn, xp->req.lsn) > 1 || !ohca_op_takes_wqe(w->op)))
		return false;
	/* set AckReq in the packet */
	xp->req.since_ackreq = OHCA_ACK_EVERY;
	return true;
}

/*
 * Decide whether the packets of @w, which is about to begin, may arrive in any order. False: @w
 * must not begin yet. Requests with and without order are never under way together, because one
 * could overtake the other.
 */
static bool begin_apart(const ohca_engine *e, const struct ohca_qp *qp, struct ohca_swqe *w)
{
	struct ohca_xport *xp = qp->xp;

	w->apart = ohca_ahead_allowed(e, qp, qp->av.sl) &&
		   (w->op == OHCA_OP_RDMA_WRITE ||
		    (w->op == OHCA_OP_RDMA_WRITE_IMM && w->length <= ohca_qp_mtu(qp)));
	if (xp->req.apart != w->apart && xp->req.una != xp->req.nxt)
		return false;
	xp->req.apart = w->apart;
	return true;
}

/* Begin a WQE. False: it cannot begin now, or it sends no packet; *@ret: result of the turn. */
static bool begin(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, enum ohca_sent *ret)
{
	struct ohca_xport *xp = qp->xp;

	*ret = OHCA_SENT_NONE;
	if (qp->state == OHCA_QPS_SQD)
		return false;
	if (w->status) {
		*ret = fail_in_turn(e, qp, w);
		return false;
	}
	if (w->flags & OHCA_WQE_FENCE && xp->req.rd_out)
		return false;
	if (ohca_op_is_local(w->op)) {
		/* a repeated earlier WQE may need the key, so wait until all have completed */
		if (w->op == OHCA_OP_LOCAL_INV && w->idx != xp->req.tail)
			return false;
		/* the operation may change keys that the burst has checked */
		ohca_burst_end(e, qp);
		ohca_sq_local(e, qp, w);
		*ret = OHCA_SENT;
		if (w->status) {
			*ret = fail_in_turn(e, qp, w);
			return false;
		}
		xp->req.cur += w->nbb;
		ohca_sq_retire(e, qp);
		return false;
	}
	if (__builtin_expect(e->any_order || xp->req.apart, 0) && !begin_apart(e, qp, w))
		return false;
	if (ohca_op_is_read(w->op)) {
		/* max_rd_atomic was changed to 0 after the WQE was parsed */
		if (!qp->max_rd_atomic) {
			w->status = OHCA_WC_LOC_QP_OP;
			w->ve = OHCA_VE_WQE_OPCODE;
			*ret = fail_in_turn(e, qp, w);
			return false;
		}
		if (xp->req.rd_out >= qp->max_rd_atomic)
			return false;
		xp->req.rd_out++;
	}
	w->state = OHCA_SW_BEGUN;
	w->first = xp->req.nxt;
	w->last = ib_psn_add(xp->req.nxt, ohca_npkts(qp, w->length) - 1);
	if (xp->req.credits)
		number(qp, w);
	return true;
}

/* Most PSNs under way. */
static uint32_t window_of(const struct ohca_swqe *w)
{
	return w->apart ? OHCA_AHEAD : ohca_op_is_read(w->op) ? OHCA_MAX_PSNS : OHCA_REQ_WINDOW;
}

enum ohca_sent ohca_req_send(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t)
{
	struct ohca_xport *xp = qp->xp;
	enum ohca_sent ret;
	struct ohca_swqe *w;
	int32_t under_way;

	if (xp->req.rnr_wait)
		return OHCA_SENT_NONE;
	if (ohca_sq_flushes(qp)) {
		if (ohca_sq_flush_one(e, qp))
			return OHCA_SENT;
		if (qp->state != OHCA_QPS_RTS)
			return OHCA_SENT_NONE;
	}
	if (xp->fault[OHCA_FAULT_REQ])
		return OHCA_SENT_NONE;
	w = ohca_sq_next(e, qp);
	/* after going back: skip local operations and WQEs that are complete */
	while (w && w->state == OHCA_SW_DONE) {
		xp->req.cur += w->nbb;
		w = ohca_sq_next(e, qp);
	}
	if (!w)
		return OHCA_SENT_NONE;
	if (w->state == OHCA_SW_NEW && !begin(e, qp, w, &ret))
		return ret;
	if (w->status)
		return fail_in_turn(e, qp, w);
	under_way = ib_psn_diff(xp->req.nxt, xp->req.una);
	/* OHCA_AHEAD is the smallest window */
	if (under_way >= (int32_t)OHCA_AHEAD && under_way >= (int32_t)window_of(w))
		return OHCA_SENT_NONE;
	if (xp->req.asking && !may_ask(xp, w))
		return OHCA_SENT_NONE;
	if (ohca_burst_takes(e, w))
		return send_in_burst(e, qp, w, t);
	/* the burst must leave before another packet */
	ohca_burst_end(e, qp);
	switch (w->op) {
	case OHCA_OP_RDMA_READ:
		return send_read(e, qp, w, t);
	case OHCA_OP_CMP_SWAP:
	case OHCA_OP_FETCH_ADD:
	case OHCA_OP_MASKED_CMP_SWAP:
	case OHCA_OP_MASKED_FETCH_ADD:
		return send_atomic(e, qp, w, t);
	case OHCA_OP_FLUSH:
		return send_flush(e, qp, w, t);
	case OHCA_OP_ATOMIC_WRITE:
		return send_atomic_write(e, qp, w, t);
	default:
		return send_data(e, qp, w, t);
	}
}
