// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ibv_post_send(), ibv_post_recv(), ibv_post_srq_recv(). */

#include "wr.h"

/* The operation takes no data: its SGEs are not looked at. */
#define OHCA_HDR_NO_DATA 0x80

/* Segments before the data. A datagram has an address vector, whatever it does. */
static const uint8_t ohca_hdr_segs[] = {
	[OHCA_OP_RDMA_WRITE] = 2,
	[OHCA_OP_RDMA_WRITE_IMM] = 2,
	[OHCA_OP_SEND] = 1,
	[OHCA_OP_SEND_IMM] = 1,
	[OHCA_OP_RDMA_READ] = 2,
	[OHCA_OP_CMP_SWAP] = 3,
	[OHCA_OP_FETCH_ADD] = 3,
	[OHCA_OP_LOCAL_INV] = 1 | OHCA_HDR_NO_DATA,
	[OHCA_OP_BIND_MW] = 4 | OHCA_HDR_NO_DATA,
	[OHCA_OP_SEND_INV] = 1,
};

/* Bytes of all SGEs; more than any limit if one of them alone is. */
static uint32_t ohca_sg_len(const struct ibv_sge *sge, uint32_t num,
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

static void ohca_put_inline_sges(const struct ohca_sq *sq, uint8_t *dst,
				 const struct ibv_sge *sge, uint32_t num)
{
	if (dst == sq->end)
		dst = sq->ring;
	for (; num; num--, sge++)
		dst = ohca_put_inline(sq, dst, (void *)(uintptr_t)sge->addr,
				      sge->length);
}

/*
 * Write one WQE at index @pi. Returns its basic blocks, 0 if it is not one that
 * may be posted (@err EINVAL) or finds no room (@err ENOMEM).
 */
static inline uint32_t ohca_put_wqe(struct ohca_qp *qp, uint32_t pi,
				    const struct ibv_send_wr *wr, int *err)
{
	struct ohca_sq *sq = &qp->sq;
	uint32_t op = wr->opcode;
	uint32_t num = wr->num_sge;
	struct ohca_hw_wqe_ctrl *ctrl;
	uint32_t flags, imm, hdr, nseg, bbs;
	uint8_t *seg;

	if (unlikely(op > OHCA_OP_SEND_INV || !(sq->ops >> op & 1) ||
		     num >= sq->sge_limit)) {
		*err = EINVAL;
		return 0;
	}

	flags = wr->send_flags & (OHCA_WQE_FENCE | OHCA_WQE_SIGNALED |
				  OHCA_WQE_SOLICITED | OHCA_WQE_INLINE |
				  OHCA_WQE_IP_CSUM);
	hdr = sq->dgram ? 4 : ohca_hdr_segs[op];
	if (unlikely(hdr & OHCA_HDR_NO_DATA)) {
		hdr &= ~OHCA_HDR_NO_DATA;
		flags &= ~OHCA_WQE_INLINE;
		num = 0;
	}
	nseg = hdr + num;
	if (flags & OHCA_WQE_INLINE) {
		uint32_t len = ohca_sg_len(wr->sg_list, num, sq->max_inline);

		if (unlikely(len > sq->max_inline ||
			     !(OHCA_INLINE_OPS >> op & 1))) {
			*err = EINVAL;
			return 0;
		}
		flags |= OHCA_FIELD_PREP(OHCA_WQE_INLINE_LEN, len);
		nseg = hdr + (len + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE;
	}
	bbs = ohca_segs_to_bbs(nseg);
	if (unlikely(ohca_sq_full(qp, pi, bbs))) {
		*err = ENOMEM;
		return 0;
	}

	ctrl = ohca_sq_bb(sq, pi);
	seg = (uint8_t *)(ctrl + 1);
	imm = wr->invalidate_rkey;
	switch (op) {
	case OHCA_OP_RDMA_WRITE:
	case OHCA_OP_RDMA_WRITE_IMM:
	case OHCA_OP_RDMA_READ:
		ohca_put_raddr(seg, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		break;
	case OHCA_OP_SEND:
	case OHCA_OP_SEND_IMM:
		if (sq->dgram)
			ohca_put_av(seg, to_oah(wr->wr.ud.ah),
				    wr->wr.ud.remote_qpn,
				    wr->wr.ud.remote_qkey);
		break;
	case OHCA_OP_CMP_SWAP:
		ohca_put_atomic(seg, wr->wr.atomic.remote_addr,
				wr->wr.atomic.rkey, wr->wr.atomic.swap,
				wr->wr.atomic.compare_add);
		break;
	case OHCA_OP_FETCH_ADD:
		ohca_put_atomic(seg, wr->wr.atomic.remote_addr,
				wr->wr.atomic.rkey, wr->wr.atomic.compare_add,
				0);
		break;
	case OHCA_OP_BIND_MW:
		ohca_put_bind(seg, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	default: /* LOCAL_INV, SEND_INV */
		imm = htole32(imm);
		break;
	}
	ohca_put_ctrl(ctrl, op, nseg, flags, imm, wr->wr_id);

	seg = (uint8_t *)ctrl + hdr * OHCA_SEG_SIZE;
	if (flags & OHCA_WQE_INLINE)
		ohca_put_inline_sges(sq, seg, wr->sg_list, num);
	else
		ohca_put_sges(sq, seg, wr->sg_list, num);
	return bbs;
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
	uint32_t old_pi, pi, bbs;
	int err = 0;

	ohca_lock(&sq->lock);
	old_pi = sq->pi;
	pi = old_pi;
	for (; wr; wr = wr->next) {
		bbs = ohca_put_wqe(qp, pi, wr, &err);
		if (unlikely(!bbs)) {
			*bad_wr = wr;
			break;
		}
		pi += bbs;
	}
	if (likely(pi != old_pi)) {
		sq->pi = pi;
		ohca_ring(&qp->db->sq_pi, &qp->db->sq_event, old_pi, pi,
			  qp->uar + OHCA_UAR_SQ, qp->handle);
	}
	ohca_unlock(&sq->lock);
	return err;
}

/* Post to an RQ or SRQ; @doorbell is where its UAR page takes the producer index. */
static inline int ohca_post_rq(struct ohca_rq *rq, struct ohca_hw_db *db,
			       uint8_t *doorbell, uint32_t handle,
			       struct ibv_recv_wr *wr,
			       struct ibv_recv_wr **bad_wr)
{
	uint32_t old_pi, pi, num;
	int err = 0;

	ohca_lock(&rq->lock);
	old_pi = rq->pi;
	for (pi = old_pi; wr; wr = wr->next, pi++) {
		uint8_t *seg;
		uint32_t i;

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
		seg = rq->ring +
		      ((size_t)(pi & (rq->size - 1)) << rq->log_stride);
		ohca_put_le64(seg, wr->wr_id);
		ohca_put_le64(seg + offsetof(struct ohca_hw_rwqe_ctrl, num_sge),
			      num);
		seg += sizeof(struct ohca_hw_rwqe_ctrl);
		for (i = 0; i < num; i++)
			ohca_put_sge(seg + i * OHCA_SEG_SIZE, &wr->sg_list[i]);
	}
	if (likely(pi != old_pi)) {
		rq->pi = pi;
		ohca_ring(&db->rq_pi, &db->rq_event, old_pi, pi, doorbell,
			  handle);
	}
	ohca_unlock(&rq->lock);
	return err;
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

	return ohca_post_rq(&qp->rq, qp->db, qp->uar + OHCA_UAR_RQ, qp->handle,
			    wr, bad_wr);
}

/** ohca_post_srq_recv - ibv_post_srq_recv(); fails as ohca_post_recv() */
int ohca_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr)
{
	struct ohca_srq *srq = to_osrq(ibsrq);

	return ohca_post_rq(&srq->rq, srq->db, srq->uar + OHCA_UAR_SRQ,
			    srq->srqn, wr, bad_wr);
}
