/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The send queue. The device copies WQEs from the guest's ring to the window, and checks and uses
 * only the copies.
 */
#include <string.h>

#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/le.h"
#include "engine/base/state.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/eq.h"
#include "engine/object/mr.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/object/to_transport.h"
#include "engine/object/wc.h"
#include "engine/transport/pool.h"
#include "engine/transport/sq.h"
#include "engine/transport/tagged.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

#define DB_OFF(member) (OHCA_DB_OFFSET + offsetof(struct ohca_hw_db, member))

static const uint8_t wc_opcode[] = {
	[OHCA_OP_RDMA_WRITE] = OHCA_WCO_RDMA_WRITE,
	[OHCA_OP_RDMA_WRITE_IMM] = OHCA_WCO_RDMA_WRITE,
	[OHCA_OP_SEND] = OHCA_WCO_SEND,
	[OHCA_OP_SEND_IMM] = OHCA_WCO_SEND,
	[OHCA_OP_RDMA_READ] = OHCA_WCO_RDMA_READ,
	[OHCA_OP_CMP_SWAP] = OHCA_WCO_CMP_SWAP,
	[OHCA_OP_FETCH_ADD] = OHCA_WCO_FETCH_ADD,
	[OHCA_OP_LOCAL_INV] = OHCA_WCO_LOCAL_INV,
	[OHCA_OP_BIND_MW] = OHCA_WCO_BIND_MW,
	[OHCA_OP_SEND_INV] = OHCA_WCO_SEND,
	[OHCA_OP_TSO] = OHCA_WCO_TSO,
	[OHCA_OP_FLUSH] = OHCA_WCO_FLUSH,
	[OHCA_OP_ATOMIC_WRITE] = OHCA_WCO_ATOMIC_WRITE,
	[OHCA_OP_REG_MR] = OHCA_WCO_REG_MR,
	[OHCA_OP_MASKED_CMP_SWAP] = OHCA_WCO_MASKED_CMP_SWAP,
	[OHCA_OP_MASKED_FETCH_ADD] = OHCA_WCO_MASKED_FETCH_ADD,
	[OHCA_OP_NOP] = OHCA_WCO_SEND,
};

/* ---- fetch ------------------------------------------------------------------------- */

static void sq_broken(ohca_engine *e, struct ohca_qp *qp, uint32_t ve)
{
	qp->xp->req.bad_pi = true;
	ohca_qp_error(e, qp, OHCA_EVENT_QP_FATAL, ve);
}

/* Whether a producer index is valid; an invalid one is counted. */
static bool pi_ok(ohca_engine *e, const struct ohca_qp *qp, uint32_t pi)
{
	const struct ohca_xport *xp = qp->xp;

	if (pi - xp->req.tail <= 1u << qp->log_sq && (int32_t)(pi - xp->req.pi) >= 0)
		return true;
	ohca_count(e, OHCA_CNT_DB_BAD_INDEX);
	return false;
}

/*
 * Read the producer index. False: the QP has none, or it is unreadable or invalid and the QP is in
 * ERR.
 */
static bool load_pi(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	uint32_t pi;

	/* an XRC target and a QP with rendezvous have none */
	if (xp->req.bad_pi || qp->xrcd || xp->rndv)
		return false;
	if (ohca_pages_load32(e, &qp->buf, DB_OFF(sq_pi), &pi)) {
		sq_broken(e, qp, OHCA_VE_WQE_DMA);
		return false;
	}
	if (!pi_ok(e, qp, pi)) {
		sq_broken(e, qp, OHCA_VE_WQE_SIZE);
		return false;
	}
	xp->req.pi = pi;
	xp->sched.armed = false;
	return true;
}

int ohca_xp_sq_posted(ohca_engine *e, const struct ohca_qp *qp, uint32_t *ci, uint32_t *pi)
{
	const struct ohca_xport *xp = qp->xp;

	if (xp->req.bad_pi || ohca_pages_load32(e, &qp->buf, DB_OFF(sq_pi), pi) ||
	    !pi_ok(e, qp, *pi))
		return -1;
	*ci = xp->req.tail;
	return 0;
}

/* Copy BBs up to the producer index, as many as fit into the window and are contiguous. */
static bool fetch(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_sqwin *win = xp->req.win;
	uint32_t size = 1u << qp->log_sq;
	uint32_t src = xp->req.got & (size - 1), dst = xp->req.got & win->mask;
	uint32_t n = xp->req.pi - xp->req.got;
	uint32_t room = win->mask + 1 - (xp->req.got - xp->req.tail);
	uint8_t *bb = win->bb + ((size_t)dst << OHCA_BB_SHIFT);

	if (n > room)
		n = room;
	if (n > size - src)
		n = size - src;
	if (n > win->mask + 1 - dst)
		n = win->mask + 1 - dst;
	if (!n)
		return false;
	if (ohca_pages_read(e, &qp->buf, qp->sq_off + ((uint64_t)src << OHCA_BB_SHIFT), bb,
			    (size_t)n << OHCA_BB_SHIFT)) {
		sq_broken(e, qp, OHCA_VE_WQE_DMA);
		return false;
	}
	xp->req.got += n;
	return true;
}

/* Make a WQE of @nbb BBs from index @i on, which may wrap, contiguous. */
static void join(struct ohca_sqwin *win, uint32_t i, unsigned int nbb)
{
	const uint32_t size = win->mask + 1, end = (i & win->mask) + nbb;

	if (end > size)
		memcpy(win->bb + ((size_t)size << OHCA_BB_SHIFT), win->bb,
		       (size_t)(end - size) << OHCA_BB_SHIFT);
}

void ohca_xp_sq_moved(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_sqwin *old = xp->req.win, *win;

	if (!old)
		return;
	/* else a queue that is never empty would keep the smaller window */
	win = ohca_win_get(e, qp->log_sq);
	if (!win)
		return;
	if (win->mask <= old->mask) {
		ohca_win_put(e, win);
		return;
	}
	for (uint32_t i = xp->req.tail; i != xp->req.head; i += ohca_swqe_at(xp, i)->nbb) {
		const struct ohca_swqe *w = ohca_swqe_at(xp, i);

		/* a parsed WQE is used only as a whole, so it needs no second copy */
		win->wqe[i & win->mask] = *w;
		memcpy(win->bb + ((size_t)(i & win->mask) << OHCA_BB_SHIFT), ohca_swqe_raw(xp, i),
		       (size_t)w->nbb << OHCA_BB_SHIFT);
	}
	for (uint32_t i = xp->req.head; i != xp->req.got; i++)
		memcpy(win->bb + ((size_t)(i & win->mask) << OHCA_BB_SHIFT), ohca_swqe_raw(xp, i),
		       OHCA_BB_SIZE);
	xp->req.win = win;
	ohca_win_put(e, old);
}

/* ---- parse ------------------------------------------------------------------------- */

/* Whether this QP may post @op. */
static bool op_allowed(const ohca_engine *e, const struct ohca_qp *qp, uint8_t op)
{
	switch (op) {
	case OHCA_OP_SEND:
	case OHCA_OP_SEND_IMM:
	case OHCA_OP_NOP:
		return true;
	case OHCA_OP_RDMA_WRITE:
	case OHCA_OP_RDMA_WRITE_IMM:
		return !ohca_qp_datagram(qp);
	case OHCA_OP_BIND_MW:
		return !ohca_qp_datagram(qp);
	case OHCA_OP_LOCAL_INV:
	case OHCA_OP_REG_MR:
		/* userspace may invalidate its own windows; mr.c checks the key */
		return !ohca_qp_datagram(qp) &&
		       (op == OHCA_OP_LOCAL_INV || qp->flags & OHCA_QP_PRIVILEGED);
	case OHCA_OP_RDMA_READ:
	case OHCA_OP_CMP_SWAP:
	case OHCA_OP_FETCH_ADD:
		return ohca_qp_reliable(qp) && qp->max_rd_atomic;
	case OHCA_OP_MASKED_CMP_SWAP:
	case OHCA_OP_MASKED_FETCH_ADD:
		return qp->type == OHCA_QPT_RC && qp->max_rd_atomic &&
		       ohca_feature(e, OHCA_FEATURE_EXT_ATOMIC);
	case OHCA_OP_FLUSH:
	case OHCA_OP_ATOMIC_WRITE:
		return qp->type == OHCA_QPT_RC && qp->max_rd_atomic &&
		       ohca_feature(e, OHCA_FEATURE_MPE);
	case OHCA_OP_SEND_INV:
		return ohca_qp_reliable(qp);
	case OHCA_OP_TSO:
		return qp->type == OHCA_QPT_UD && ohca_feature(e, OHCA_FEATURE_TSO);
	default:
		return false;
	}
}

/* Number of XRC segments after the control segment. */
static unsigned int xrc_segs(const struct ohca_qp *qp, uint8_t op)
{
	return qp->type == OHCA_QPT_XRC_INI && !ohca_op_is_local(op);
}

/* Number of segments before the data, without the XRC segment. */
static unsigned int hdr_segs(const struct ohca_qp *qp, uint8_t op)
{
	switch (op) {
	case OHCA_OP_RDMA_WRITE:
	case OHCA_OP_RDMA_WRITE_IMM:
	case OHCA_OP_RDMA_READ:
	case OHCA_OP_ATOMIC_WRITE:
		return 2;
	case OHCA_OP_CMP_SWAP:
	case OHCA_OP_FETCH_ADD:
	case OHCA_OP_FLUSH:
		return 3;
	case OHCA_OP_BIND_MW:
	case OHCA_OP_REG_MR:
	case OHCA_OP_MASKED_CMP_SWAP:
	case OHCA_OP_MASKED_FETCH_ADD:
		return 4;
	case OHCA_OP_LOCAL_INV:
	case OHCA_OP_NOP:
		return 1;
	default:
		return ohca_qp_datagram(qp) ? 4 : 1;
	}
}

static uint8_t wqe_bad(struct ohca_swqe *w, uint8_t status, uint16_t ve)
{
	w->status = status;
	w->ve = ve;
	return status;
}

/* Convert the SGEs to CPU order, and add their lengths. */
static uint8_t parse_sges(struct ohca_swqe *w, uint8_t *raw, unsigned int n)
{
	uint64_t total = 0;

	if (n > OHCA_MAX_SGE)
		return wqe_bad(w, OHCA_WC_LOC_QP_OP, OHCA_VE_WQE_SIZE);
	w->num_sge = (uint8_t)n;
	for (unsigned int i = 0; i < n; i++) {
		struct ohca_hw_sge in;
		struct ohca_sge out;

		memcpy(&in, raw + i * sizeof(in), sizeof(in));
		out.addr = ohca_le64(in.addr);
		out.length = ohca_le32(in.length);
		out.lkey = ohca_le32(in.lkey);
		memcpy(raw + i * sizeof(out), &out, sizeof(out));
		total += out.length;
	}
	if (total > OHCA_MAX_MSG)
		return wqe_bad(w, OHCA_WC_LOC_LEN, OHCA_VE_LENGTH);
	w->length = (uint32_t)total;
	return OHCA_WC_SUCCESS;
}
_Static_assert(sizeof(struct ohca_hw_sge) == sizeof(struct ohca_sge), "SGEs convert in place");

static uint8_t parse_data(struct ohca_swqe *w, uint8_t *raw, unsigned int nseg, unsigned int hdr)
{
	w->data = (uint8_t)(hdr * OHCA_SEG_SIZE);
	if (w->flags & OHCA_WQE_INLINE) {
		uint32_t len = OHCA_FIELD_GET(OHCA_WQE_INLINE_LEN, w->flags);

		if (ohca_op_is_read(w->op) && w->op != OHCA_OP_ATOMIC_WRITE)
			return wqe_bad(w, OHCA_WC_LOC_QP_OP, OHCA_VE_WQE_FLAGS);
		if (len > OHCA_MAX_INLINE ||
		    (len + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE != nseg - hdr)
			return wqe_bad(w, OHCA_WC_LOC_QP_OP, OHCA_VE_WQE_SIZE);
		w->length = len;
		return OHCA_WC_SUCCESS;
	}
	return parse_sges(w, raw + w->data, nseg - hdr);
}

/* Number of segments before the data of a TSO WQE; 0: it is malformed. */
static unsigned int tso_segs(struct ohca_swqe *w, const uint8_t *raw, unsigned int nseg,
			     unsigned int hdr)
{
	struct ohca_hw_wqe_tso t;
	unsigned int hlen, n;

	if (nseg <= hdr)
		return 0;
	memcpy(&t, raw + hdr * OHCA_SEG_SIZE, sizeof(t));
	hlen = ohca_le16(t.hlen);
	n = hdr + 1 + (hlen + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE;
	if (!t.mss || !hlen || hlen > OHCA_MAX_TSO_HDR || n > nseg || w->flags & OHCA_WQE_INLINE)
		return 0;
	return n;
}

/*
 * Parse the segments after the control segment of a complete WQE; sets its status in case of an
 * error.
 * @nseg: number of segments, including the control segment.
 */
static uint8_t parse(const ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
		     unsigned int nseg)
{
	struct ohca_xport *xp = qp->xp;
	uint8_t *raw = ohca_swqe_raw(xp, w->idx);
	unsigned int xrc = xrc_segs(qp, w->op), hdr = hdr_segs(qp, w->op) + xrc;

	if (!op_allowed(e, qp, w->op))
		return wqe_bad(w, OHCA_WC_LOC_QP_OP, OHCA_VE_WQE_OPCODE);
	if (nseg < hdr ||
	    ((ohca_op_is_local(w->op) || w->op == OHCA_OP_FLUSH) && nseg != hdr))
		return wqe_bad(w, OHCA_WC_LOC_QP_OP, OHCA_VE_WQE_SIZE);
	if (w->flags & OHCA_WQE_IP_CSUM &&
	    (qp->type != OHCA_QPT_UD || !ohca_feature(e, OHCA_FEATURE_UD_CSUM)))
		return wqe_bad(w, OHCA_WC_LOC_QP_OP, OHCA_VE_WQE_FLAGS);
	if (ohca_op_is_local(w->op))
		return OHCA_WC_SUCCESS;
	if (xrc) {
		struct ohca_hw_wqe_xrc x;

		memcpy(&x, raw + OHCA_SEG_SIZE, sizeof(x));
		w->srqn = ohca_le32(x.srqn);
		if (w->srqn & ~IB_QPN_MASK || x.reserved[0] || x.reserved[1] || x.reserved[2])
			return wqe_bad(w, OHCA_WC_LOC_QP_OP, OHCA_VE_XRC_SRQ);
	}
	if (!ohca_qp_datagram(qp) && hdr - xrc >= 2) {
		struct ohca_hw_wqe_raddr r;

		memcpy(&r, raw + (1 + xrc) * OHCA_SEG_SIZE, sizeof(r));
		w->raddr = ohca_le64(r.raddr);
		w->rkey = ohca_le32(r.rkey);
	}
	if (w->op == OHCA_OP_TSO) {
		hdr = tso_segs(w, raw, nseg, hdr);
		if (!hdr)
			return wqe_bad(w, OHCA_WC_LOC_QP_OP, OHCA_VE_WQE_SIZE);
	}
	if (parse_data(w, raw, nseg, hdr))
		return w->status;
	if ((ohca_op_is_atomic(w->op) || w->op == OHCA_OP_ATOMIC_WRITE) && w->length != 8)
		return wqe_bad(w, OHCA_WC_LOC_LEN, OHCA_VE_LENGTH);
	return OHCA_WC_SUCCESS;
}

/* Parse the WQE at xp->req.head. NULL: it is not in the window completely, which is full. */
static struct ohca_swqe *next_wqe(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_hw_wqe_ctrl c;
	struct ohca_swqe *w;
	unsigned int nseg, nbb;

	if (xp->req.head == xp->req.got && !fetch(e, qp))
		return NULL;
	memcpy(&c, ohca_swqe_raw(xp, xp->req.head), sizeof(c));
	nseg = c.nseg;
	nbb = (nseg * OHCA_SEG_SIZE + OHCA_BB_SIZE - 1) >> OHCA_BB_SHIFT;
	if (nbb >= 1 && nbb <= OHCA_MAX_WQE_BBS && nbb <= xp->req.pi - xp->req.head) {
		while (xp->req.got - xp->req.head < nbb)
			if (!fetch(e, qp))
				return NULL;
		join(xp->req.win, xp->req.head, nbb);
	} else {
		nbb = 0;
	}
	w = ohca_swqe_at(xp, xp->req.head);
	memset(w, 0, sizeof(*w));
	w->idx = xp->req.head;
	w->op = c.opcode;
	w->nbb = (uint8_t)(nbb ? nbb : 1);
	w->flags = ohca_le16(c.flags);
	w->wr_id = ohca_le64(c.wr_id);
	if (w->op == OHCA_OP_SEND_INV || w->op == OHCA_OP_LOCAL_INV)
		w->imm = ohca_le32(c.inv_key);
	else
		memcpy(&w->imm, &c.imm, 4);
	xp->req.head += w->nbb;
	if (!nbb)
		wqe_bad(w, OHCA_WC_LOC_QP_OP, OHCA_VE_WQE_SIZE);
	else
		parse(e, qp, w, nseg);
	return w;
}

struct ohca_swqe *ohca_sq_next(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;

	if (xp->req.cur != xp->req.head)
		return ohca_swqe_at(xp, xp->req.cur);
	if (xp->rndv)
		return ohca_tagged_next(e, qp);
	if (xp->req.head == xp->req.pi && (!load_pi(e, qp) || xp->req.head == xp->req.pi))
		return NULL;
	if (!xp->req.win) {
		xp->req.win = ohca_win_get(e, qp->log_sq);
		if (!xp->req.win) {
			sq_broken(e, qp, OHCA_VE_WQE_DMA);
			return NULL;
		}
	}
	return next_wqe(e, qp);
}

int ohca_swqe_gather(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w, uint32_t off,
		     void *dst, uint32_t len, struct ohca_missing *m)
{
	if (!len)
		return 0;
	if (off > w->length || len > w->length - off)
		return OHCA_VE_LENGTH;
	if (w->flags & OHCA_WQE_INLINE) {
		memcpy(dst, ohca_swqe_raw(qp->xp, w->idx) + w->data + off, len);
		return 0;
	}
	return ohca_sgl_gather(e, qp, ohca_swqe_sge(qp->xp, w), w->num_sge, off, dst, len,
			       m);
}

bool ohca_swqe_view(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w, uint32_t off,
		    struct ib_view *v, uint32_t packets, uint32_t len)
{
	ib_view_begin(v, packets);
	return !(w->flags & OHCA_WQE_INLINE) && off <= w->length && len <= w->length - off &&
	       ohca_sgl_view(e, qp, ohca_swqe_sge(qp->xp, w), w->num_sge, off, v, len);
}

/* ---- complete ---------------------------------------------------------------------- */

void ohca_sq_ci_to(ohca_engine *e, struct ohca_qp *qp, uint32_t ci)
{
	struct ohca_xport *xp = qp->xp;

	if ((int32_t)(ci - xp->sq_ci) <= 0 || xp->rndv)
		return;
	xp->sq_ci = ci;
	ohca_pages_store32(e, &qp->buf, DB_OFF(sq_ci), ci);
}

void ohca_sq_ci(ohca_engine *e, struct ohca_qp *qp)
{
	ohca_sq_ci_to(e, qp, qp->xp->req.tail);
}

static void push(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w, uint8_t status,
		 uint16_t ve)
{
	struct ohca_hw_cqe c;

	memset(&c, 0, sizeof(c));
	c.wr_id = ohca_to_le64(w->wr_id);
	c.status = ohca_to_le32(status);
	c.opcode = ohca_to_le32(w->op < sizeof(wc_opcode) ? wc_opcode[w->op] : OHCA_WCO_SEND);
	c.vendor_err = ohca_to_le32(ve);
	c.byte_len = ohca_to_le32(w->length);
	c.qp_num = ohca_to_le32(qp->handle);
	c.wqe_idx = ohca_to_le32(ohca_wqe_idx(e, w->idx, qp->log_sq));
	c.flags = OHCA_CQE_SEND;
	if (ohca_cq_push(e, qp->scq, &c, status != OHCA_WC_SUCCESS))
		ohca_qp_error(e, qp, OHCA_EVENT_QP_FATAL, 0);
}

void ohca_sq_complete(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, uint8_t status,
		      uint16_t ve)
{
	struct ohca_xport *xp = qp->xp;

	xp->req.tail = w->idx + w->nbb;
	if ((int32_t)(xp->req.cur - xp->req.tail) < 0)
		xp->req.cur = xp->req.tail;
	if (status && status != OHCA_WC_WR_FLUSH)
		ohca_trace(e, OHCA_TR_WQE_ERR, qp->handle, status, ve, w->op);
	if (xp->rndv) {
		ohca_tagged_sent(e, qp, w, status, ve);
		return;
	}
	if (!status && !(w->flags & OHCA_WQE_SIGNALED) && !(qp->flags & OHCA_QP_SIGNAL_ALL))
		return;
	/* a consumer that sees the CQE must find the room of the WQE */
	ohca_sq_ci(e, qp);
	push(e, qp, w, status, ve);
}

void ohca_sq_fail(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, uint8_t status,
		  uint16_t ve)
{
	bool remote = status == OHCA_WC_REM_INV_REQ || status == OHCA_WC_REM_ACCESS ||
		      status == OHCA_WC_REM_OP || status == OHCA_WC_RETRY_EXC ||
		      status == OHCA_WC_RNR_RETRY_EXC || status == OHCA_WC_BAD_RESP;

	ohca_count_qp(e, qp, remote ? OHCA_CNT_REMOTE_ERR : OHCA_CNT_LOCAL_ERR);
	ohca_sq_complete(e, qp, w, status, ve);
	if (qp->state == OHCA_QPS_ERR)
		return;
	if (ohca_qp_reliable(qp) || qp->state != OHCA_QPS_RTS)
		ohca_qp_error(e, qp, 0, ve);
	else
		ohca_qp_sqe(e, qp, ve);
}

void ohca_sq_local(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w)
{
	struct ohca_hw_wqe_reg reg;
	int ve = 0;

	switch (w->op) {
	case OHCA_OP_LOCAL_INV:
		ve = ohca_mr_invalidate(e, qp, w->imm, false);
		break;
	case OHCA_OP_REG_MR:
	case OHCA_OP_BIND_MW:
		memcpy(&reg, ohca_swqe_raw(qp->xp, w->idx) + OHCA_SEG_SIZE, sizeof(reg));
		ve = w->op == OHCA_OP_REG_MR ? ohca_mr_fast_reg(e, qp, &reg) :
					       ohca_mw_bind(e, qp, &reg);
		break;
	default:
		break;
	}
	if (ve)
		wqe_bad(w, OHCA_WC_MW_BIND, (uint16_t)ve);
	else
		w->state = OHCA_SW_DONE;
}

bool ohca_sq_flush(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum)
{
	struct ohca_xport *xp = qp->xp;

	xp->req.cur = xp->req.tail;
	while (*quantum) {
		struct ohca_swqe *w = ohca_sq_next(e, qp);

		if (!w)
			return false;
		ohca_sq_complete(e, qp, w, OHCA_WC_WR_FLUSH, OHCA_VE_FLUSH);
		--*quantum;
	}
	return true;
}

void ohca_sq_flush_posted(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;

	if (!load_pi(e, qp))
		return;
	xp->flush_end = xp->req.pi;
	xp->flush_sqe = true;
}

bool ohca_sq_flush_one(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	unsigned int one = 1;

	if (qp->state == OHCA_QPS_SQE)
		return ohca_sq_flush(e, qp, &one);
	xp->flush_sqe = (int32_t)(xp->flush_end - xp->req.tail) > 0 && ohca_sq_flush(e, qp, &one);
	return xp->flush_sqe;
}

void ohca_sq_drained(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;

	/* WQEs that have not begun wait for RTS */
	if (xp->drain_told || (xp->req.tail != xp->req.head &&
			       ohca_swqe_at(xp, xp->req.tail)->state != OHCA_SW_NEW))
		return;
	xp->drain_told = true;
	qp->sqd_draining = false;
	if (qp->en_sqd_notify)
		ohca_async_event(e, OHCA_EVENT_SQ_DRAINED, &qp->async);
}

void ohca_sq_empty(ohca_engine *e, struct ohca_xport *xp)
{
	if (!xp->req.win || xp->req.tail != xp->req.head)
		return;
	ohca_win_put(e, xp->req.win);
	xp->req.win = NULL;
}

bool ohca_sq_idle(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;

	/* an acknowledgement, a timer or a command will activate the QP */
	if (xp->req.bad_pi || xp->req.cur != xp->req.pi || qp->xrcd)
		return true;
	ohca_sq_empty(e, xp);
	if (xp->rndv || xp->sched.armed)
		return true;
	if (xp->event != xp->req.pi) {
		xp->event = xp->req.pi;
		ohca_pages_store32(e, &qp->buf, DB_OFF(sq_event), xp->req.pi);
	}
	atomic_thread_fence(memory_order_seq_cst);
	if (!load_pi(e, qp))
		return qp->state != OHCA_QPS_ERR || xp->req.bad_pi;
	xp->sched.armed = xp->req.pi == xp->req.head;
	return xp->sched.armed;
}
