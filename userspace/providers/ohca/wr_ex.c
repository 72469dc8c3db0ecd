// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The builder interface, ibv_wr_start() to ibv_wr_complete().
 *
 * A builder writes the control segment and the header; a setter adds data and
 * corrects the segment count. The next builder or ibv_wr_complete() closes the WQE.
 * Nothing is published before ibv_wr_complete(); an error makes it publish nothing.
 */

#include "wr.h"

/* With the lock held. */
OHCA_INLINE void ohca_wr_begin(struct ohca_sq *sq)
{
	sq->wqe = NULL;
	sq->wqe_pi = sq->pi;
	sq->wqe_bbs = 0;
	sq->err = 0;
}

static OHCA_COLD void ohca_wr_start_contended(struct ohca_sq *sq)
{
	ohca_lock_contended(&sq->lock);
	ohca_wr_begin(sq);
}

static void ohca_wr_start(struct ibv_qp_ex *ibqp)
{
	struct ohca_sq *sq = &to_oqp_ex(ibqp)->sq;

	if (ohca_trylock(&sq->lock))
		ohca_wr_begin(sq);
	else
		ohca_wr_start_contended(sq);
}

/* Publish nothing and unlock: a builder has failed. */
static OHCA_COLD int ohca_wr_refused(struct ohca_sq *sq)
{
	int err = sq->err;

	ohca_unlock(&sq->lock);
	return ohca_errno(err);
}

static int ohca_wr_complete(struct ibv_qp_ex *ibqp)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);
	struct ohca_sq *sq = &qp->sq;
	uint32_t old_pi = sq->pi;
	uint32_t pi = sq->wqe_pi + sq->wqe_bbs;

	if (unlikely(sq->err))
		return ohca_wr_refused(sq);
	if (likely(pi != old_pi)) {
		sq->pi = pi;
		ohca_ring(&qp->db->sq_pi, &qp->db->sq_event, old_pi, pi,
			  qp->uar + OHCA_UAR_SQ, qp->handle);
	}
	ohca_unlock(&sq->lock);
	return 0;
}

static void ohca_wr_abort(struct ibv_qp_ex *ibqp)
{
	ohca_unlock(&to_oqp_ex(ibqp)->sq.lock);
}

/* Records an error; setters then find no WQE. */
static OHCA_COLD void ohca_wr_fail(struct ohca_sq *sq, int err)
{
	if (!sq->err)
		sq->err = err;
	sq->wqe = NULL;
}

/*
 * Close the WQE before and open one of @hdr segments, at most a basic block.
 * Returns where the segments after the control segment go, NULL after an error.
 */
static inline void *ohca_wr_open(struct ohca_qp *qp, uint32_t op, uint32_t hdr,
				 uint32_t imm)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;
	struct ohca_sq *sq = &qp->sq;
	uint8_t *wqe;

	sq->wqe_pi += sq->wqe_bbs;
	if (unlikely(sq->err || !(sq->ops >> op & 1) ||
		     ex->wr_flags & sq->no_flags)) {
		ohca_wr_fail(sq, EINVAL);
		return NULL;
	}
	if (unlikely(ohca_sq_full(qp, sq->wqe_pi, 1))) {
		ohca_wr_fail(sq, ENOMEM);
		return NULL;
	}
	wqe = ohca_sq_bb(sq, sq->wqe_pi);
	sq->wqe = (struct ohca_hw_wqe_ctrl *)wqe;
	sq->wqe_bbs = 1;
	sq->wqe_hdr = hdr;
	ohca_put_ctrl(wqe, op | hdr << 8, ex->wr_flags & OHCA_USER_FLAGS, imm,
		      ex->wr_id);
	return wqe + sizeof(struct ohca_hw_wqe_ctrl);
}

/*
 * Makes room for @nseg data segments in the open WQE. Returns their address, NULL
 * after an error.
 */
static inline uint8_t *ohca_wr_data(struct ohca_qp *qp, uint32_t nseg)
{
	struct ohca_sq *sq = &qp->sq;
	struct ohca_hw_wqe_ctrl *wqe = sq->wqe;
	uint32_t bbs = ohca_segs_to_bbs(sq->wqe_hdr + nseg);
	uint8_t *seg;

	if (unlikely(!wqe))
		return NULL;
	if (unlikely(ohca_sq_full(qp, sq->wqe_pi, bbs))) {
		ohca_wr_fail(sq, ENOMEM);
		return NULL;
	}
	sq->wqe_bbs = bbs;
	wqe->nseg = sq->wqe_hdr + nseg;
	seg = (uint8_t *)wqe + sq->wqe_hdr * OHCA_SEG_SIZE;
	return unlikely(seg >= sq->end) ? sq->ring + (seg - sq->end) : seg;
}

/*
 * The same for an operation that sends a packet: an initiator's has an XRC segment
 * behind the control segment, zero until its setter is called. @hdr: without it, so
 * at most three segments then.
 */
static inline void *ohca_wr_open_send(struct ohca_qp *qp, uint32_t op,
				      uint32_t hdr, uint32_t imm)
{
	uint8_t *seg;

	if (likely(!qp->sq.xrc))
		return ohca_wr_open(qp, op, hdr, imm);
	seg = ohca_wr_open(qp, op, hdr + 1, imm);
	if (unlikely(!seg))
		return NULL;
	ohca_put_xrc(seg, 0);
	return seg + OHCA_SEG_SIZE;
}

static inline void ohca_wr_rdma(struct ibv_qp_ex *ibqp, uint32_t op,
				uint32_t rkey, uint64_t raddr, __be32 imm)
{
	void *seg = ohca_wr_open_send(to_oqp_ex(ibqp), op, 2,
				      (__force uint32_t)imm);

	if (likely(seg))
		ohca_put_raddr(seg, raddr, rkey);
}

static void ohca_wr_rdma_write(struct ibv_qp_ex *ibqp, uint32_t rkey,
			       uint64_t raddr)
{
	ohca_wr_rdma(ibqp, OHCA_OP_RDMA_WRITE, rkey, raddr, 0);
}

static void ohca_wr_rdma_write_imm(struct ibv_qp_ex *ibqp, uint32_t rkey,
				   uint64_t raddr, __be32 imm)
{
	ohca_wr_rdma(ibqp, OHCA_OP_RDMA_WRITE_IMM, rkey, raddr, imm);
}

static void ohca_wr_rdma_read(struct ibv_qp_ex *ibqp, uint32_t rkey,
			      uint64_t raddr)
{
	ohca_wr_rdma(ibqp, OHCA_OP_RDMA_READ, rkey, raddr, 0);
}

static void ohca_wr_atomic_cmp_swp(struct ibv_qp_ex *ibqp, uint32_t rkey,
				   uint64_t raddr, uint64_t compare,
				   uint64_t swap)
{
	void *seg = ohca_wr_open_send(to_oqp_ex(ibqp), OHCA_OP_CMP_SWAP, 3, 0);

	if (likely(seg))
		ohca_put_atomic(seg, raddr, rkey, swap, compare);
}

static void ohca_wr_atomic_fetch_add(struct ibv_qp_ex *ibqp, uint32_t rkey,
				     uint64_t raddr, uint64_t add)
{
	void *seg =
		ohca_wr_open_send(to_oqp_ex(ibqp), OHCA_OP_FETCH_ADD, 3, 0);

	if (likely(seg))
		ohca_put_atomic(seg, raddr, rkey, add, 0);
}

/* Eight bytes of the consumer's, in the WQE itself. */
static void ohca_wr_atomic_write(struct ibv_qp_ex *ibqp, uint32_t rkey,
				 uint64_t raddr, const void *atomic_wr)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);
	uint8_t *seg = ohca_wr_open(qp, OHCA_OP_ATOMIC_WRITE, 3, 0);

	if (unlikely(!seg))
		return;
	ohca_put_raddr(seg, raddr, rkey);
	seg += sizeof(struct ohca_hw_wqe_raddr);
	memcpy(seg, atomic_wr, sizeof(uint64_t));
	memset(seg + sizeof(uint64_t), 0, OHCA_SEG_SIZE - sizeof(uint64_t));
	qp->sq.wqe->flags |= htole16(
		OHCA_WQE_INLINE |
		OHCA_FIELD_PREP(OHCA_WQE_INLINE_LEN, (uint32_t)sizeof(uint64_t)));
}

static void ohca_wr_flush(struct ibv_qp_ex *ibqp, uint32_t rkey, uint64_t raddr,
			  size_t len, uint8_t type, uint8_t level)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);
	void *seg = ohca_wr_open(qp, OHCA_OP_FLUSH, 3, 0);

	if (unlikely(!seg))
		return;
	if (unlikely(len > UINT32_MAX))
		ohca_wr_fail(&qp->sq, EINVAL);
	else
		ohca_put_flush(seg, raddr, rkey, len, type, level);
}

/* A datagram's address vector lies at a fixed place, to be set by its setter. */
static inline void ohca_wr_any_send(struct ibv_qp_ex *ibqp, uint32_t op,
				    uint32_t imm)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);

	ohca_wr_open_send(qp, op, qp->sq.dgram ? 4 : 1, imm);
}

static void ohca_wr_send(struct ibv_qp_ex *ibqp)
{
	ohca_wr_any_send(ibqp, OHCA_OP_SEND, 0);
}

static void ohca_wr_send_imm(struct ibv_qp_ex *ibqp, __be32 imm)
{
	ohca_wr_any_send(ibqp, OHCA_OP_SEND_IMM, (__force uint32_t)imm);
}

static void ohca_wr_send_inv(struct ibv_qp_ex *ibqp, uint32_t rkey)
{
	ohca_wr_any_send(ibqp, OHCA_OP_SEND_INV, (__force uint32_t)htole32(rkey));
}

/* The headers lie between address vector and data; ohca_qp_plan() has reserved their room. */
static void ohca_wr_send_tso(struct ibv_qp_ex *ibqp, void *hdr, uint16_t hdr_sz,
			     uint16_t mss)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);
	struct ohca_sq *sq = &qp->sq;
	struct ohca_hw_wqe_tso *tso;
	uint32_t bbs, nseg;
	uint8_t *dst;

	if (unlikely(!ohca_wr_open(qp, OHCA_OP_TSO, OHCA_SEGS_PER_BB, 0)))
		return;
	if (unlikely(!hdr_sz || hdr_sz > sq->max_tso_header || !mss)) {
		ohca_wr_fail(sq, EINVAL);
		return;
	}
	nseg = OHCA_SEGS_PER_BB + ohca_tso_segs(hdr_sz);
	bbs = ohca_segs_to_bbs(nseg);
	if (unlikely(ohca_sq_full(qp, sq->wqe_pi, bbs))) {
		ohca_wr_fail(sq, ENOMEM);
		return;
	}
	tso = ohca_sq_bb(sq, sq->wqe_pi + 1);
	memset(tso, 0, sizeof(*tso));
	tso->mss = htole16(mss);
	tso->hlen = htole16(hdr_sz);
	dst = ohca_put_inline(sq, (uint8_t *)(tso + 1), hdr, hdr_sz);
	memset(dst, 0, -hdr_sz & (OHCA_SEG_SIZE - 1));
	sq->wqe_bbs = bbs;
	sq->wqe_hdr = nseg;
	sq->wqe->nseg = nseg;
}

static void ohca_wr_local_inv(struct ibv_qp_ex *ibqp, uint32_t rkey)
{
	ohca_wr_open(to_oqp_ex(ibqp), OHCA_OP_LOCAL_INV, 1, (__force uint32_t)htole32(rkey));
}

static void ohca_wr_bind_mw(struct ibv_qp_ex *ibqp, struct ibv_mw *mw,
			    uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);
	void *seg = ohca_wr_open(qp, OHCA_OP_BIND_MW, 4, 0);

	if (unlikely(!seg))
		return;
	if (ohca_mw_ok(mw, rkey))
		ohca_put_bind(seg, rkey, info);
	else
		ohca_wr_fail(&qp->sq, EINVAL);
}

static void ohca_wr_set_ud_addr(struct ibv_qp_ex *ibqp, struct ibv_ah *ah,
				uint32_t qpn, uint32_t qkey)
{
	struct ohca_sq *sq = &to_oqp_ex(ibqp)->sq;

	if (unlikely(!sq->wqe))
		return;
	if (ohca_ah_ok(sq, to_oah(ah)))
		ohca_put_av(sq->wqe + 1, to_oah(ah), qpn, qkey);
	else
		ohca_wr_fail(sq, EINVAL);
}

static void ohca_wr_set_xrc_srqn(struct ibv_qp_ex *ibqp, uint32_t remote_srqn)
{
	struct ohca_sq *sq = &to_oqp_ex(ibqp)->sq;

	if (likely(sq->wqe && sq->xrc))
		ohca_put_xrc(sq->wqe + 1, remote_srqn);
}

static void ohca_wr_set_sge(struct ibv_qp_ex *ibqp, uint32_t lkey,
			    uint64_t addr, uint32_t length)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);
	struct ohca_sq *sq = &qp->sq;
	struct ohca_hw_wqe_ctrl *wqe = sq->wqe;
	uint32_t hdr = sq->wqe_hdr;
	uint8_t *seg;

	if (likely(wqe && hdr < OHCA_SEGS_PER_BB)) {
		/* in the block that is there already */
		sq->wqe_bbs = 1;
		wqe->nseg = hdr + 1;
		seg = (uint8_t *)wqe + hdr * OHCA_SEG_SIZE;
	} else {
		seg = ohca_wr_data(qp, 1);
		if (unlikely(!seg))
			return;
	}
	ohca_put_le64(seg, addr);
	ohca_put_le64(seg + offsetof(struct ohca_hw_sge, length),
		      (uint64_t)lkey << 32 | length);
}

static void ohca_wr_set_sge_list(struct ibv_qp_ex *ibqp, size_t num,
				 const struct ibv_sge *sge)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);
	uint8_t *seg;

	if (unlikely(num >= qp->sq.sge_limit)) {
		ohca_wr_fail(&qp->sq, EINVAL);
		return;
	}
	seg = ohca_wr_data(qp, num);
	if (likely(seg))
		ohca_put_sges(&qp->sq, seg, sge, num);
}

/* Turn the open WQE into one with @len inline bytes; NULL after an error. */
static inline uint8_t *ohca_wr_inline(struct ohca_qp *qp, size_t len)
{
	struct ohca_hw_wqe_ctrl *wqe = qp->sq.wqe;
	uint8_t *dst;

	if (unlikely(!wqe))
		return NULL;
	if (unlikely(len > qp->sq.max_inline ||
		     !(OHCA_INLINE_OPS >> wqe->opcode & 1))) {
		ohca_wr_fail(&qp->sq, EINVAL);
		return NULL;
	}
	dst = ohca_wr_data(qp, (len + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE);
	if (likely(dst))
		wqe->flags |=
			htole16(OHCA_WQE_INLINE |
				OHCA_FIELD_PREP(OHCA_WQE_INLINE_LEN,
						(uint32_t)len));
	return dst;
}

static void ohca_wr_set_inline_data(struct ibv_qp_ex *ibqp, void *addr,
				    size_t len)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);
	uint8_t *dst = ohca_wr_inline(qp, len);

	if (likely(dst))
		ohca_put_inline(&qp->sq, dst, addr, len);
}

static void ohca_wr_set_inline_data_list(struct ibv_qp_ex *ibqp, size_t num,
					 const struct ibv_data_buf *bufs)
{
	struct ohca_qp *qp = to_oqp_ex(ibqp);
	size_t len = 0;
	uint8_t *dst;
	size_t i;

	for (i = 0; i < num && len <= OHCA_MAX_INLINE; i++)
		len = bufs[i].length > OHCA_MAX_INLINE ? SIZE_MAX :
							 len + bufs[i].length;
	dst = ohca_wr_inline(qp, len);
	if (unlikely(!dst))
		return;
	for (i = 0; i < num; i++)
		dst = ohca_put_inline(&qp->sq, dst, bufs[i].addr,
				      bufs[i].length);
}

static_assert(IBV_QP_EX_WITH_TSO == 1 << OHCA_OP_TSO &&
	      IBV_QP_EX_WITH_FLUSH == 1 << (OHCA_OP_FLUSH - 3) &&
	      IBV_QP_EX_WITH_ATOMIC_WRITE == 1 << (OHCA_OP_ATOMIC_WRITE - 3),
	      "bits of the builders' operations");

/*
 * enum ibv_qp_create_send_ops_flags of bits of enum ohca_wqe_op: the same numbers,
 * but for the last two.
 */
static uint32_t ohca_ex_ops(uint32_t ops)
{
	return (ops & (2 * IBV_QP_EX_WITH_TSO - 1)) |
	       (ops >> 3 & (IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE));
}

/**
 * ohca_qp_fill_wr_ops - set the builders that the consumer asked for
 * @qp: QP, its type and all_ops set
 * @send_ops_flags: enum ibv_qp_create_send_ops_flags
 *
 * Return: 0, or EOPNOTSUPP for an operation that the QP does not have.
 */
int ohca_qp_fill_wr_ops(struct ohca_qp *qp, uint64_t send_ops_flags)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;

	if (send_ops_flags & ~(uint64_t)ohca_ex_ops(qp->all_ops))
		return EOPNOTSUPP;

	if (send_ops_flags & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = ohca_wr_rdma_write;
	if (send_ops_flags & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = ohca_wr_rdma_write_imm;
	if (send_ops_flags & IBV_QP_EX_WITH_SEND)
		ex->wr_send = ohca_wr_send;
	if (send_ops_flags & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = ohca_wr_send_imm;
	if (send_ops_flags & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = ohca_wr_rdma_read;
	if (send_ops_flags & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = ohca_wr_atomic_cmp_swp;
	if (send_ops_flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = ohca_wr_atomic_fetch_add;
	if (send_ops_flags & IBV_QP_EX_WITH_LOCAL_INV)
		ex->wr_local_inv = ohca_wr_local_inv;
	if (send_ops_flags & IBV_QP_EX_WITH_BIND_MW)
		ex->wr_bind_mw = ohca_wr_bind_mw;
	if (send_ops_flags & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = ohca_wr_send_inv;
	if (send_ops_flags & IBV_QP_EX_WITH_TSO)
		ex->wr_send_tso = ohca_wr_send_tso;
	if (send_ops_flags & IBV_QP_EX_WITH_FLUSH)
		ohca_set_wr_flush(ex, ohca_wr_flush);
	if (send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = ohca_wr_atomic_write;

	ex->wr_set_ud_addr = ohca_wr_set_ud_addr;
	ex->wr_set_xrc_srqn = ohca_wr_set_xrc_srqn;
	ex->wr_set_sge = ohca_wr_set_sge;
	ex->wr_set_sge_list = ohca_wr_set_sge_list;
	ex->wr_set_inline_data = ohca_wr_set_inline_data;
	ex->wr_set_inline_data_list = ohca_wr_set_inline_data_list;
	ex->wr_start = ohca_wr_start;
	ex->wr_complete = ohca_wr_complete;
	ex->wr_abort = ohca_wr_abort;
	return 0;
}
