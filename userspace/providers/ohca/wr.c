// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ibv_post_send(), ibv_post_recv(), ibv_post_srq_recv(). */

#include "wr.h"

#define OHCA_USER_FLAGS                                                        \
	(OHCA_WQE_FENCE | OHCA_WQE_SIGNALED | OHCA_WQE_SOLICITED |             \
	 OHCA_WQE_IP_CSUM)

/* Bytes of all SGEs; more than any limit if one of them alone is. */
static inline uint32_t ohca_sg_len(const struct ibv_sge *sge, uint32_t num,
				   uint32_t limit)
{
	uint32_t len = 0;

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

/* Write what stands between control segment and data, return where the data goes. */
OHCA_INLINE uint8_t *ohca_put_header(const struct ohca_sq *sq, uint8_t *seg,
				     const struct ibv_send_wr *wr, uint32_t op,
				     bool xrc)
{
	if (unlikely(xrc) && !(OHCA_NO_DATA_OPS & 1u << op)) {
		ohca_put_xrc(seg, wr->qp_type.xrc.remote_srqn);
		seg += OHCA_SEG_SIZE;
	}
	switch (op) {
	case OHCA_OP_RDMA_WRITE:
	case OHCA_OP_RDMA_WRITE_IMM:
	case OHCA_OP_RDMA_READ:
	case OHCA_OP_ATOMIC_WRITE:
		ohca_put_raddr(seg, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		return seg + OHCA_SEG_SIZE;
	case OHCA_OP_SEND:
	case OHCA_OP_SEND_IMM:
		if (!sq->dgram)
			return seg;
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
	       ops & 1u << wr->opcode &&
	       (uint32_t)wr->num_sge < sq->sge_limit;
}

/*
 * Write one WQE at index @pi, where there is room for it: @wr is ohca_wr_ok().
 * @inl: its data goes into the WQE; @data is then its length, else its SGEs. @xrc: of @sq
 * Returns its basic blocks.
 */
OHCA_INLINE uint32_t ohca_put_wqe(const struct ohca_sq *sq, uint32_t pi,
				  const struct ibv_send_wr *wr, bool inl,
				  uint32_t data, bool xrc)
{
	uint32_t op = wr->opcode;
	uint32_t flags = wr->send_flags & OHCA_USER_FLAGS;
	uint32_t imm = wr->invalidate_rkey;
	uint8_t *wqe = ohca_sq_bb(sq, pi);
	uint32_t nseg = data;
	uint8_t *seg;

	seg = ohca_put_header(sq, wqe + sizeof(struct ohca_hw_wqe_ctrl), wr,
			      op, xrc);
	if (inl) {
		flags |= OHCA_WQE_INLINE |
			 OHCA_FIELD_PREP(OHCA_WQE_INLINE_LEN, data);
		nseg = (data + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE;
	}
	nseg += (uint32_t)(seg - wqe) / OHCA_SEG_SIZE;
	if (__BYTE_ORDER != __LITTLE_ENDIAN && OHCA_KEY_OPS & 1u << op)
		imm = htole32(imm);
	ohca_put_ctrl(wqe, op | nseg << 8, flags, imm, wr->wr_id);

	if (inl)
		ohca_put_inline_sges(sq, seg, wr->sg_list, wr->num_sge);
	else
		ohca_put_sges(sq, seg, wr->sg_list, data);
	return ohca_segs_to_bbs(nseg);
}

/* Check a WR of any kind and write it; 0 and its blocks, EINVAL or ENOMEM. */
static __attribute__((noinline)) int
ohca_put_any(struct ohca_qp *qp, uint32_t pi, const struct ibv_send_wr *wr,
	     uint32_t *bbs)
{
	struct ohca_sq *sq = &qp->sq;
	uint32_t op = wr->opcode;
	uint32_t data = wr->num_sge;
	uint32_t nseg = data;
	bool inl = false;

	if (unlikely(!ohca_wr_ok(sq, sq->post_ops, wr)))
		return EINVAL;
	if (unlikely(OHCA_NO_DATA_OPS & 1u << op)) {
		data = 0;
		nseg = 0;
	} else if (wr->send_flags & IBV_SEND_INLINE) {
		inl = true;
		data = ohca_sg_len(wr->sg_list, data, sq->max_inline);
		if (unlikely(data > sq->max_inline ||
			     !(OHCA_INLINE_OPS & 1u << op)))
			return EINVAL;
		nseg = (data + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE;
	}
	if (ohca_sq_full(qp, pi,
			 ohca_segs_to_bbs(ohca_hdr_segs(sq, op) + nseg)))
		return ENOMEM;
	*bbs = ohca_put_wqe(sq, pi, wr, inl, data, sq->xrc);
	return 0;
}

/* The same, without a call for what is posted most. */
OHCA_INLINE int ohca_put_one(struct ohca_qp *qp, uint32_t pi,
			     const struct ibv_send_wr *wr, uint32_t *bbs)
{
	struct ohca_sq *sq = &qp->sq;
	uint32_t data;

	if (unlikely(pi - sq->ci > sq->room ||
		     !ohca_wr_ok(sq, sq->fast_ops, wr)))
		return ohca_put_any(qp, pi, wr, bbs);
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		*bbs = ohca_put_wqe(sq, pi, wr, false, wr->num_sge, false);
		return 0;
	}
	data = ohca_sg_len(wr->sg_list, wr->num_sge, sq->max_inline);
	if (unlikely(data > sq->max_inline ||
		     !(OHCA_INLINE_OPS & 1u << wr->opcode)))
		return EINVAL;
	*bbs = ohca_put_wqe(sq, pi, wr, true, data, false);
	return 0;
}

/* Publish the blocks up to @pi and unlock. */
OHCA_INLINE void ohca_post_end(struct ohca_qp *qp, uint32_t old_pi, uint32_t pi)
{
	qp->sq.pi = pi;
	ohca_ring(&qp->db->sq_pi, &qp->db->sq_event, old_pi, pi,
		  qp->uar + OHCA_UAR_SQ, qp->handle);
	ohca_unlock(&qp->sq.lock);
}

/* Post anything, with the lock held, which it drops. */
static __attribute__((noinline)) int
ohca_post_send_list(struct ohca_qp *qp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad_wr)
{
	uint32_t old_pi = qp->sq.pi, pi = old_pi, bbs;
	int err = 0;

	for (; wr; wr = wr->next, pi += bbs) {
		err = ohca_put_one(qp, pi, wr, &bbs);
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}
	}
	if (likely(pi != old_pi))
		ohca_post_end(qp, old_pi, pi);
	else
		ohca_unlock(&qp->sq.lock);
	return err;
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
 * Return: 0; EINVAL if the operation is not for the QP's type or state, has too
 * many SGEs or inline bytes; ENOMEM if the SQ is full.
 */
int ohca_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr)
{
	struct ohca_qp *qp = to_oqp(ibqp);
	struct ohca_sq *sq = &qp->sq;
	uint32_t pi;

	if (!ohca_trylock(&sq->lock))
		return ohca_post_send_contended(qp, wr, bad_wr);

	/* One good WR that surely fits, the common case, is done without a frame. */
	pi = sq->pi;
	if (!wr || wr->next || wr->send_flags & IBV_SEND_INLINE ||
	    unlikely(pi - sq->ci > sq->room ||
		     !ohca_wr_ok(sq, sq->fast_ops, wr)))
		return ohca_post_send_list(qp, wr, bad_wr);
	ohca_post_end(qp, pi,
		      pi + ohca_put_wqe(sq, pi, wr, false, wr->num_sge, false));
	return 0;
}

/*
 * Post to an RQ or SRQ, with the lock held; @doorbell is where its UAR page takes
 * the producer index.
 */
OHCA_INLINE int ohca_post_rq(struct ohca_rq *rq, struct ohca_hw_db *db,
			     uint8_t *doorbell, uint32_t handle,
			     struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr)
{
	uint32_t old_pi = rq->pi, pi = old_pi, num, i;
	uint8_t *wqe;
	int err = 0;

	for (; wr; wr = wr->next, pi++) {
		num = wr->num_sge;
		if (unlikely(num >= rq->sge_limit)) {
			err = EINVAL;
			*bad_wr = wr;
			break;
		}
		if (unlikely(pi - rq->ci >= rq->size)) {
			rq->ci = ohca_load_le32(&db->rq_ci);
			if (pi - rq->ci >= rq->size) {
				err = ENOMEM;
				*bad_wr = wr;
				break;
			}
		}
		wqe = rq->ring + (pi << rq->log_stride & rq->offset_mask);
		ohca_put_le64(wqe, wr->wr_id);
		ohca_put_le64(wqe + offsetof(struct ohca_hw_rwqe_ctrl, num_sge),
			      num);
		wqe += sizeof(struct ohca_hw_rwqe_ctrl);
		for (i = 0; i < num; i++)
			ohca_put_sge(wqe + i * OHCA_SEG_SIZE, &wr->sg_list[i]);
	}
	if (likely(pi != old_pi)) {
		rq->pi = pi;
		ohca_ring(&db->rq_pi, &db->rq_event, old_pi, pi, doorbell,
			  handle);
	}
	ohca_unlock(&rq->lock);
	return err;
}

/* @db: where the record's address is, which may change before the lock is ours. */
static OHCA_COLD int ohca_post_rq_contended(struct ohca_rq *rq,
					    struct ohca_hw_db *const *db,
					    uint8_t *doorbell, uint32_t handle,
					    struct ibv_recv_wr *wr,
					    struct ibv_recv_wr **bad_wr)
{
	ohca_lock_contended(&rq->lock);
	return ohca_post_rq(rq, *db, doorbell, handle, wr, bad_wr);
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
	struct ohca_qp *qp = to_oqp(ibqp);

	if (!ohca_trylock(&qp->rq.lock))
		return ohca_post_rq_contended(&qp->rq, &qp->db,
					      qp->uar + OHCA_UAR_RQ, qp->handle,
					      wr, bad_wr);
	return ohca_post_rq(&qp->rq, qp->db, qp->uar + OHCA_UAR_RQ, qp->handle,
			    wr, bad_wr);
}

/** ohca_post_srq_recv - ibv_post_srq_recv(); fails as ohca_post_recv() */
int ohca_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr)
{
	struct ohca_srq *srq = to_osrq(ibsrq);

	if (!ohca_trylock(&srq->rq.lock))
		return ohca_post_rq_contended(&srq->rq, &srq->db,
					      srq->uar + OHCA_UAR_SRQ,
					      srq->srqn, wr, bad_wr);
	return ohca_post_rq(&srq->rq, srq->db, srq->uar + OHCA_UAR_SRQ,
			    srq->srqn, wr, bad_wr);
}
