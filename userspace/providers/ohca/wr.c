// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ibv_post_send(), ibv_post_recv(), ibv_post_srq_recv(). */

#include "wr.h"

/* Operations whose header is a remote address, and those that have none but an AV. */
#define OHCA_RADDR_OPS                                                         \
	(OHCA_BIT(OHCA_OP_RDMA_WRITE) | OHCA_BIT(OHCA_OP_RDMA_WRITE_IMM) |     \
	 OHCA_BIT(OHCA_OP_RDMA_READ) | OHCA_BIT(OHCA_OP_ATOMIC_WRITE))
#define OHCA_SEND_OPS (OHCA_BIT(OHCA_OP_SEND) | OHCA_BIT(OHCA_OP_SEND_IMM))

/* Bytes of all SGEs; more than any limit if one of them alone is. */
static inline uint32_t ohca_sg_len(const struct ibv_sge *sge, uint32_t num,
				   uint32_t limit)
{
	uint32_t len = 0;

	if (likely(num == 1))
		return sge->length;
	for (; num; num--, sge++) {
		if (sge->length > limit)
			return UINT32_MAX;
		len += sge->length;
	}
	return len;
}

/* Segments of a WQE before its data. */
static uint32_t ohca_hdr_segs(const struct ohca_sq *sq, uint32_t op)
{
	switch (op) {
	case OHCA_OP_RDMA_WRITE:
	case OHCA_OP_RDMA_WRITE_IMM:
	case OHCA_OP_RDMA_READ:
	case OHCA_OP_ATOMIC_WRITE:
		return 2 + sq->xrc;
	case OHCA_OP_CMP_SWAP:
	case OHCA_OP_FETCH_ADD:
		return 3 + sq->xrc;
	case OHCA_OP_BIND_MW:
		return 4;
	case OHCA_OP_LOCAL_INV:
		return 1;
	default:
		return sq->dgram ? 4 : 1 + sq->xrc;
	}
}

/*
 * Writes the segments between control segment and data. Returns their end; NULL if they name an
 * object that does not fit the QP.
 */
OHCA_INLINE uint8_t *ohca_put_header(const struct ohca_sq *sq, uint8_t *seg,
				     const struct ibv_send_wr *wr, uint32_t op,
				     bool xrc)
{
	if (unlikely(xrc) && !(OHCA_NO_DATA_OPS & 1u << op)) {
		ohca_put_xrc(seg, wr->qp_type.xrc.remote_srqn);
		seg += OHCA_SEG_SIZE;
	}
	if (OHCA_RADDR_OPS >> op & 1) {
		ohca_put_raddr(seg, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		return seg + OHCA_SEG_SIZE;
	}
	switch (op) {
	case OHCA_OP_SEND:
	case OHCA_OP_SEND_IMM:
		if (!sq->dgram)
			return seg;
		if (!ohca_ah_ok(sq, to_oah(wr->wr.ud.ah)))
			return NULL;
		ohca_put_av(seg, to_oah(wr->wr.ud.ah), wr->wr.ud.remote_qpn,
			    wr->wr.ud.remote_qkey);
		return seg + 3 * OHCA_SEG_SIZE;
	case OHCA_OP_CMP_SWAP:
		ohca_put_atomic(seg, wr->wr.atomic.remote_addr,
				wr->wr.atomic.rkey, wr->wr.atomic.swap,
				wr->wr.atomic.compare_add);
		return seg + 2 * OHCA_SEG_SIZE;
	case OHCA_OP_FETCH_ADD:
		ohca_put_atomic(seg, wr->wr.atomic.remote_addr,
				wr->wr.atomic.rkey, wr->wr.atomic.compare_add,
				0);
		return seg + 2 * OHCA_SEG_SIZE;
	case OHCA_OP_BIND_MW:
		if (!ohca_mw_ok(wr->bind_mw.mw, wr->bind_mw.rkey))
			return NULL;
		ohca_put_bind(seg, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		return seg + 3 * OHCA_SEG_SIZE;
	default: /* LOCAL_INV, SEND_INV */
		return seg;
	}
}

/* Whether a WR is one of @ops, in the QP's state, and has no more SGEs than agreed. */
OHCA_INLINE bool ohca_wr_ok(const struct ohca_sq *sq, uint32_t ops,
			    const struct ibv_send_wr *wr)
{
	return (uint32_t)wr->opcode <= OHCA_OP_ATOMIC_WRITE &&
	       ops >> wr->opcode & 1 &&
	       (uint32_t)wr->num_sge < sq->sge_limit;
}

/*
 * Write a WQE but for its data at index @pi, where there is room for it: @wr is ohca_wr_ok().
 * @inl: its data goes into the WQE; @data is then its length, else its SGEs. @xrc: that of @sq.
 * @bbs: becomes the number of its basic blocks. Returns where the data goes; NULL if
 * ohca_put_header() refuses.
 */
OHCA_INLINE uint8_t *ohca_put_head(const struct ohca_sq *sq, uint32_t pi,
				   const struct ibv_send_wr *wr, bool inl,
				   uint32_t data, bool xrc, uint32_t *bbs)
{
	uint32_t op = wr->opcode;
	uint32_t flags = wr->send_flags & OHCA_USER_FLAGS;
	uint32_t imm = wr->invalidate_rkey;
	uint8_t *wqe = ohca_sq_bb(sq, pi);
	uint32_t nseg = data;
	uint8_t *seg;

	seg = ohca_put_header(sq, wqe + sizeof(struct ohca_hw_wqe_ctrl), wr,
			      op, xrc);
	if (!seg)
		return NULL;
	if (inl) {
		flags |= OHCA_WQE_INLINE |
			 OHCA_FIELD_PREP(OHCA_WQE_INLINE_LEN, data);
		nseg = ohca_inline_segs(data);
	}
	nseg += (uint32_t)(seg - wqe) / OHCA_SEG_SIZE;
	if (__BYTE_ORDER != __LITTLE_ENDIAN && OHCA_KEY_OPS & 1u << op)
		imm = (__force uint32_t)htole32(imm);
	ohca_put_ctrl(wqe, op | nseg << 8, flags, imm, wr->wr_id);
	*bbs = ohca_segs_to_bbs(nseg);
	return seg;
}

/* The same with its data. Returns its blocks or -EINVAL. */
OHCA_INLINE int ohca_put_wqe(const struct ohca_sq *sq, uint32_t pi,
			     const struct ibv_send_wr *wr, bool inl,
			     uint32_t data, bool xrc)
{
	uint32_t bbs;
	uint8_t *seg;

	seg = ohca_put_head(sq, pi, wr, inl, data, xrc, &bbs);
	if (!seg)
		return -EINVAL;
	if (inl)
		ohca_put_inline_sges(sq, seg, wr->sg_list, wr->num_sge);
	else
		ohca_put_sges(sq, seg, wr->sg_list, data);
	return bbs;
}

/* Check a WR of any kind and write it; returns its blocks, -EINVAL or -ENOMEM. */
static __attribute__((noinline)) int
ohca_put_any(struct ohca_qp *qp, uint32_t pi, const struct ibv_send_wr *wr)
{
	struct ohca_sq *sq = &qp->sq;
	uint32_t op = wr->opcode;
	uint32_t data = wr->num_sge;
	uint32_t nseg = data;
	bool inl = false;

	if (unlikely(!ohca_wr_ok(sq, sq->post_ops, wr) ||
		     wr->send_flags & sq->no_flags))
		return -EINVAL;
	if (unlikely(OHCA_NO_DATA_OPS & 1u << op)) {
		data = 0;
		nseg = 0;
	} else if (wr->send_flags & IBV_SEND_INLINE) {
		inl = true;
		data = ohca_sg_len(wr->sg_list, data, sq->max_inline);
		if (unlikely(data > sq->max_inline ||
			     !(OHCA_INLINE_OPS & 1u << op)))
			return -EINVAL;
		nseg = ohca_inline_segs(data);
	}
	if (ohca_sq_full(qp, pi,
			 ohca_segs_to_bbs(ohca_hdr_segs(sq, op) + nseg)))
		return -ENOMEM;
	return ohca_put_wqe(sq, pi, wr, inl, data, sq->xrc);
}

/*
 * The most frequent WR: one SGE, which lies in the block of the header or, of a datagram, begins
 * the next one. Returns its blocks, a constant in each branch, so that the compiler folds the
 * rest; 0 if @wr is another kind, or invalid.
 */
OHCA_INLINE uint32_t ohca_put_single(const struct ohca_sq *sq, uint32_t pi,
				     const struct ibv_send_wr *wr)
{
	uint32_t op = wr->opcode, flags = wr->send_flags;
	uint8_t *wqe;

	if (flags & sq->slow_flags ||
	    unlikely(pi - sq->ci > sq->room || op > OHCA_OP_ATOMIC_WRITE ||
		     !(sq->fast_ops >> op & 1)) ||
	    wr->num_sge != 1)
		return 0;
	wqe = ohca_sq_bb(sq, pi);
	if (OHCA_RADDR_OPS >> op & 1) {
		ohca_put_ctrl(wqe, op | 3 << 8, flags, wr->invalidate_rkey,
			      wr->wr_id);
		ohca_put_raddr(wqe + OHCA_SEG_SIZE, wr->wr.rdma.remote_addr,
			       wr->wr.rdma.rkey);
		ohca_put_sge(wqe + 2 * OHCA_SEG_SIZE, wr->sg_list);
		return 1;
	}
	if (!(OHCA_SEND_OPS >> op & 1))
		return 0;
	if (!sq->dgram) {
		ohca_put_ctrl(wqe, op | 2 << 8, flags, wr->invalidate_rkey,
			      wr->wr_id);
		ohca_put_sge(wqe + OHCA_SEG_SIZE, wr->sg_list);
		return 1;
	}
	if (!ohca_ah_ok(sq, to_oah(wr->wr.ud.ah)))
		return 0;
	ohca_put_ctrl(wqe, op | 5 << 8, flags, wr->invalidate_rkey, wr->wr_id);
	ohca_put_av(wqe + OHCA_SEG_SIZE, to_oah(wr->wr.ud.ah),
		    wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	ohca_put_sge(ohca_sq_bb(sq, pi + 1), wr->sg_list);
	return 2;
}

/*
 * Check any WR and write it; without a call if it has data, no XRC segment and certainly room.
 * Returns its blocks, -EINVAL or -ENOMEM.
 */
OHCA_INLINE int ohca_put_one(struct ohca_qp *qp, uint32_t pi,
			     const struct ibv_send_wr *wr)
{
	struct ohca_sq *sq = &qp->sq;
	int bbs = ohca_put_single(sq, pi, wr);
	uint32_t data;

	if (likely(bbs))
		return bbs;
	if (unlikely(pi - sq->ci > sq->room || wr->send_flags & sq->no_flags ||
		     !ohca_wr_ok(sq, sq->fast_ops, wr)))
		return ohca_put_any(qp, pi, wr);
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return ohca_put_wqe(sq, pi, wr, false, wr->num_sge, false);
	data = ohca_sg_len(wr->sg_list, wr->num_sge, sq->max_inline);
	if (unlikely(data > sq->max_inline ||
		     !(OHCA_INLINE_OPS & 1u << wr->opcode)))
		return -EINVAL;
	return ohca_put_wqe(sq, pi, wr, true, data, false);
}

/* Posts pay nothing for the refusal that none of them meets. */
static OHCA_COLD int ohca_post_refused(int err)
{
	return ohca_errno(err);
}

/* Publish the blocks up to @pi and unlock. */
OHCA_INLINE void ohca_post_end(struct ohca_qp *qp, uint32_t old_pi, uint32_t pi)
{
	qp->sq.pi = pi;
	ohca_ring(&qp->db->sq_pi, &qp->db->sq_event, old_pi, pi,
		  qp->uar + OHCA_UAR_SQ, qp->handle);
	ohca_unlock(&qp->sq.lock);
}

/* The same; there may be none. */
OHCA_INLINE void ohca_post_some(struct ohca_qp *qp, uint32_t old_pi,
				uint32_t pi)
{
	if (likely(pi != old_pi))
		ohca_post_end(qp, old_pi, pi);
	else
		ohca_unlock(&qp->sq.lock);
}

/* Post any list, with the lock held, which it releases. */
static __attribute__((noinline)) int
ohca_post_send_list(struct ohca_qp *qp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad_wr)
{
	uint32_t old_pi = qp->sq.pi, pi = old_pi;
	int bbs;

	for (; wr; wr = wr->next, pi += bbs) {
		bbs = ohca_put_one(qp, pi, wr);
		if (unlikely(bbs < 0)) {
			*bad_wr = wr;
			ohca_post_some(qp, old_pi, pi);
			return ohca_post_refused(-bbs);
		}
	}
	ohca_post_some(qp, old_pi, pi);
	return 0;
}

/*
 * Post one WR with one SGE, its data inline, with the lock held, which it releases. It calls
 * nothing if it has no XRC segment and certainly room.
 */
static __attribute__((noinline)) int
ohca_post_send_inline(struct ohca_qp *qp, struct ibv_send_wr *wr,
		      struct ibv_send_wr **bad_wr)
{
	struct ohca_sq *sq = &qp->sq;
	uint32_t op = wr->opcode, pi = sq->pi, bbs;
	uint32_t len = wr->sg_list->length;
	uint8_t *dst;

	if (unlikely((wr->send_flags ^ IBV_SEND_INLINE) & sq->slow_flags ||
		     pi - sq->ci > sq->room || op > OHCA_OP_ATOMIC_WRITE ||
		     !((sq->fast_ops & OHCA_INLINE_OPS) >> op & 1) ||
		     len > sq->max_inline))
		return ohca_post_send_list(qp, wr, bad_wr);
	dst = ohca_put_head(sq, pi, wr, true, len, false, &bbs);
	if (unlikely(!dst))
		return ohca_post_send_list(qp, wr, bad_wr);
	ohca_put_inline(sq, dst, (void *)(uintptr_t)wr->sg_list->addr, len);
	ohca_post_end(qp, pi, pi + bbs);
	return 0;
}

static OHCA_COLD int ohca_post_send_contended(struct ohca_qp *qp,
					      struct ibv_send_wr *wr,
					      struct ibv_send_wr **bad_wr)
{
	ohca_lock_contended(&qp->sq.lock);
	return ohca_post_send_list(qp, wr, bad_wr);
}

/**
 * ohca_post_send - ibv_post_send()
 * @ibqp: QP
 * @wr: list of work requests
 * @bad_wr: the one that failed, if one did; those before it are posted
 *
 * Return: 0; EINVAL if the operation or a flag is none of the QP's type or state, or of the
 * device's, for too many SGEs or inline bytes, an AH of another protection domain, or a key of
 * another window than is to be bound; ENOMEM if the SQ is full.
 */
int ohca_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr)
{
	struct ohca_qp *qp = to_oqp(ibqp);
	struct ohca_sq *sq = &qp->sq;
	uint32_t pi;

	if (!ohca_trylock(&sq->lock))
		return ohca_post_send_contended(qp, wr, bad_wr);
	if (!wr || wr->next)
		return ohca_post_send_list(qp, wr, bad_wr);
	pi = sq->pi;
	switch (ohca_put_single(sq, pi, wr)) {
	case 1:
		ohca_post_end(qp, pi, pi + 1);
		return 0;
	case 2:
		ohca_post_end(qp, pi, pi + 2);
		return 0;
	default:
		if (wr->send_flags & IBV_SEND_INLINE && wr->num_sge == 1)
			return ohca_post_send_inline(qp, wr, bad_wr);
		return ohca_post_send_list(qp, wr, bad_wr);
	}
}

/* Publish the WQEs up to @pi, if there are any. */
OHCA_INLINE void ohca_publish_rq(struct ohca_rq *rq, uint32_t pi)
{
	uint32_t old_pi = rq->pi;

	if (unlikely(pi == old_pi))
		return;
	rq->pi = pi;
	ohca_ring(&rq->db->rq_pi, &rq->db->rq_event, old_pi, pi, rq->doorbell,
		  rq->number);
}

/* Publish those before @pi and unlock: @wr had too many SGEs, or there was no room for it. */
static OHCA_COLD int ohca_post_rq_refused(struct ohca_rq *rq, uint32_t pi,
					  struct ibv_recv_wr *wr,
					  struct ibv_recv_wr **bad_wr)
{
	uint32_t num = wr->num_sge;
	int err = num >= rq->sge_limit ? EINVAL : ENOMEM;

	*bad_wr = wr;
	ohca_publish_rq(rq, pi);
	ohca_unlock(&rq->lock);
	return ohca_errno(err);
}

/* Post to an RQ or SRQ, with the lock held, which it releases. */
OHCA_INLINE int ohca_post_rq_locked(struct ohca_rq *rq, struct ibv_recv_wr *wr,
				    struct ibv_recv_wr **bad_wr)
{
	uint32_t pi = rq->pi, num, i;
	uint8_t *wqe;

	for (; wr; wr = wr->next, pi++) {
		num = wr->num_sge;
		if (unlikely(num >= rq->sge_limit))
			return ohca_post_rq_refused(rq, pi, wr, bad_wr);
		if (unlikely(pi - rq->ci >= rq->size)) {
			rq->ci = ohca_load_le32(&rq->db->rq_ci);
			if (pi - rq->ci >= rq->size)
				return ohca_post_rq_refused(rq, pi, wr, bad_wr);
		}
		wqe = rq->ring + (pi << rq->log_stride & rq->offset_mask);
		ohca_put_le64(wqe, wr->wr_id);
		ohca_put_le64(wqe + offsetof(struct ohca_hw_rwqe_ctrl, num_sge),
			      num);
		wqe += sizeof(struct ohca_hw_rwqe_ctrl);
		if (likely(num == 1))
			ohca_put_sge(wqe, wr->sg_list);
		else
			for (i = 0; i < num; i++)
				ohca_put_sge(wqe + i * OHCA_SEG_SIZE,
					     &wr->sg_list[i]);
	}
	ohca_publish_rq(rq, pi);
	ohca_unlock(&rq->lock);
	return 0;
}

static OHCA_COLD int ohca_post_rq_contended(struct ohca_rq *rq,
					    struct ibv_recv_wr *wr,
					    struct ibv_recv_wr **bad_wr)
{
	ohca_lock_contended(&rq->lock);
	return ohca_post_rq_locked(rq, wr, bad_wr);
}

OHCA_INLINE int ohca_post_rq(struct ohca_rq *rq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr)
{
	if (!ohca_trylock(&rq->lock))
		return ohca_post_rq_contended(rq, wr, bad_wr);
	return ohca_post_rq_locked(rq, wr, bad_wr);
}

/**
 * ohca_post_recv - ibv_post_recv()
 *
 * Return: 0; EINVAL in RESET, with an SRQ or with too many SGEs; ENOMEM if the RQ
 * is full.
 */
int ohca_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad_wr)
{
	return ohca_post_rq(&to_oqp(ibqp)->rq, wr, bad_wr);
}

/** ohca_post_srq_recv - ibv_post_srq_recv(); fails as ohca_post_recv() */
int ohca_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr)
{
	return ohca_post_rq(&to_osrq(ibsrq)->rq, wr, bad_wr);
}
