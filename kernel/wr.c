// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Posting of work requests by kernel consumers. A pure function builds a send WQE in a scratch
 * buffer; ohca_sq_push() copies it to the ring BB by BB, because the WQE may wrap.
 */
#include <kunit/visibility.h>

#include "buf.h"
#include "compat.h"
#include "dev.h"
#include "fatal.h"
#include "mr.h"
#include "qp.h"
#include "verbs.h"
#include "wr.h"

/* Returns the enum ib_wc_opcode of an enum ib_wr_opcode, or -1: the device lacks the operation. */
static int ohca_wc_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_SEND_WITH_INV:
		return IB_WC_SEND;
	case IB_WR_LSO:
		return IB_WC_LSO;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return IB_WC_RDMA_WRITE;
	case IB_WR_RDMA_READ:
		return IB_WC_RDMA_READ;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return IB_WC_COMP_SWAP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return IB_WC_FETCH_ADD;
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
		return IB_WC_MASKED_COMP_SWAP;
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		return IB_WC_MASKED_FETCH_ADD;
	case IB_WR_ATOMIC_WRITE:
		return IB_WC_ATOMIC_WRITE;
	case IB_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case IB_WR_REG_MR:
		return IB_WC_REG_MR;
	default:
		return -1;
	}
}

static bool ohca_is_masked(enum ib_wr_opcode opcode)
{
	return opcode == IB_WR_MASKED_ATOMIC_CMP_AND_SWP ||
	       opcode == IB_WR_MASKED_ATOMIC_FETCH_AND_ADD;
}

/* Whether the QP type supports the operation (IBTA vol 1, table 88, and 10.8.2). */
static bool ohca_op_allowed(const struct ohca_qp *qp, enum ib_wr_opcode opcode)
{
	if (opcode == IB_WR_LSO)
		return qp->create_flags & IB_QP_CREATE_IPOIB_UD_LSO;
	if (ohca_is_masked(opcode) && !ohca_qp_has(qp, OHCA_FEATURE_EXT_ATOMIC))
		return false;
	if (opcode == IB_WR_ATOMIC_WRITE && !ohca_qp_has(qp, OHCA_FEATURE_MPE))
		return false;
	switch (qp->ibqp.qp_type) {
	case IB_QPT_RC:
		return true;
	case IB_QPT_UC:
		return opcode != IB_WR_RDMA_READ && opcode != IB_WR_SEND_WITH_INV &&
		       opcode != IB_WR_ATOMIC_CMP_AND_SWP &&
		       opcode != IB_WR_ATOMIC_FETCH_AND_ADD && opcode != IB_WR_ATOMIC_WRITE &&
		       !ohca_is_masked(opcode);
	default:
		return opcode == IB_WR_SEND || opcode == IB_WR_SEND_WITH_IMM;
	}
}

/*
 * Returns the end of the segment, or NULL if the AH is of another PD (IBTA vol 1, C10-10). The
 * device cannot check this, because a WQE has only the address vector.
 */
static void *ohca_put_av(void *seg, const struct ohca_qp *qp, const struct ib_ud_wr *wr)
{
	struct ohca_hw_av *av = seg;

	if (wr->ah->pd != qp->ibqp.pd)
		return NULL;
	*av = to_ohca_ah(wr->ah)->av;
	av->dqpn = cpu_to_le32(wr->remote_qpn);
	av->qkey = cpu_to_le32(wr->remote_qkey);
	av->port = 0;
	if (qp->ibqp.qp_type == IB_QPT_GSI)
		av->pkey_index = cpu_to_le16(wr->pkey_index);
	return av + 1;
}

/* Returns the end of the headers, or NULL if hlen or mss is out of range. */
static void *ohca_put_tso(void *seg, const struct ib_ud_wr *wr, int *room)
{
	struct ohca_hw_wqe_tso *tso = seg;
	int padded = ALIGN(wr->hlen, OHCA_SEG_SIZE);

	if (wr->hlen <= 0 || wr->hlen > OHCA_MAX_TSO_HDR || wr->mss <= 0 || wr->mss > U16_MAX)
		return NULL;
	*room -= 1 + padded / OHCA_SEG_SIZE;
	memset(tso, 0, sizeof(*tso));
	tso->mss = cpu_to_le16(wr->mss);
	tso->hlen = cpu_to_le16(wr->hlen);
	memcpy(tso + 1, wr->header, wr->hlen);
	memset((void *)(tso + 1) + wr->hlen, 0, padded - wr->hlen);
	return (void *)(tso + 1) + padded;
}

static void *ohca_put_raddr(void *seg, u64 addr, u32 rkey)
{
	struct ohca_hw_wqe_raddr *raddr = seg;

	raddr->raddr = cpu_to_le64(addr);
	raddr->rkey = cpu_to_le32(rkey);
	raddr->reserved = 0;
	return raddr + 1;
}

static void *ohca_put_atomic(void *seg, const struct ib_atomic_wr *wr)
{
	struct ohca_hw_wqe_atomic *atomic = seg;

	if (wr->wr.opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	    wr->wr.opcode == IB_WR_MASKED_ATOMIC_CMP_AND_SWP) {
		atomic->swap_add = cpu_to_le64(wr->swap);
		atomic->compare = cpu_to_le64(wr->compare_add);
	} else {
		atomic->swap_add = cpu_to_le64(wr->compare_add);
		atomic->compare = 0;
	}
	return atomic + 1;
}

static void *ohca_put_atomic_masks(void *seg, const struct ib_atomic_wr *wr)
{
	struct ohca_hw_wqe_atomic_masks *masks = seg;
	bool cmp_swap = wr->wr.opcode == IB_WR_MASKED_ATOMIC_CMP_AND_SWP;

	masks->swap = cmp_swap ? cpu_to_le64(wr->swap_mask) : 0;
	masks->compare = cpu_to_le64(wr->compare_add_mask);
	return masks + 1;
}

static void *ohca_put_reg(void *seg, const struct ib_reg_wr *wr)
{
	const struct ohca_mr *mr = to_ohca_mr(wr->mr);
	struct ohca_hw_wqe_reg *reg = seg;

	memset(reg, 0, sizeof(*reg));
	reg->key = cpu_to_le32(wr->key);
	reg->access = cpu_to_le32(wr->access & (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
						IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC));
	reg->iova = cpu_to_le64(wr->mr->iova);
	reg->length = cpu_to_le64(wr->mr->length);
	reg->pl = mr->pl.hw;
	reg->pl_offset = cpu_to_le32(wr->mr->iova & (wr->mr->page_size - 1));
	return reg + 1;
}

static void *ohca_put_sges(void *seg, const struct ib_sge *sges, int num, u32 *bytes)
{
	struct ohca_hw_sge *sge = seg;
	int i;

	for (i = 0; i < num; i++, sge++) {
		sge->addr = cpu_to_le64(sges[i].addr);
		sge->length = cpu_to_le32(sges[i].length);
		sge->lkey = cpu_to_le32(sges[i].lkey);
		*bytes += sges[i].length;
	}
	return sge;
}

/* Copies inline data from CPU addresses. Returns the end of the padded data; NULL: too long. */
static void *ohca_put_inline(void *seg, const struct ib_sge *sges, int num, u32 max, u32 *bytes)
{
	int i;

	for (i = 0; i < num; i++) {
		if (sges[i].length > max - *bytes)
			return NULL;
		memcpy(seg + *bytes, (void *)(uintptr_t)sges[i].addr, sges[i].length);
		*bytes += sges[i].length;
	}
	if (*bytes % OHCA_SEG_SIZE)
		memset(seg + *bytes, 0, OHCA_SEG_SIZE - *bytes % OHCA_SEG_SIZE);
	return seg + ALIGN(*bytes, OHCA_SEG_SIZE);
}

/*
 * Writes the segments before the data. Returns the address of the data segments, or NULL if the
 * request is invalid.
 */
static void *ohca_put_op(void *seg, struct ohca_hw_wqe_ctrl *ctrl, const struct ib_send_wr *wr)
{
	int room = OHCA_MAX_WQE_BBS * OHCA_BB_SIZE / OHCA_SEG_SIZE - ohca_wqe_hdr_segs(true);

	switch (wr->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
	case IB_WR_ATOMIC_WRITE:
		return ohca_put_raddr(seg, rdma_wr(wr)->remote_addr, rdma_wr(wr)->rkey);
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		seg = ohca_put_raddr(seg, atomic_wr(wr)->remote_addr, atomic_wr(wr)->rkey);
		return ohca_put_atomic(seg, atomic_wr(wr));
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		ctrl->opcode = wr->opcode == IB_WR_MASKED_ATOMIC_CMP_AND_SWP ?
			       OHCA_OP_MASKED_CMP_SWAP : OHCA_OP_MASKED_FETCH_ADD;
		seg = ohca_put_raddr(seg, atomic_wr(wr)->remote_addr, atomic_wr(wr)->rkey);
		seg = ohca_put_atomic(seg, atomic_wr(wr));
		return ohca_put_atomic_masks(seg, atomic_wr(wr));
	case IB_WR_LSO:
		seg = ohca_put_tso(seg, ud_wr(wr), &room);
		if (!seg || wr->num_sge > room || wr->send_flags & IB_SEND_INLINE)
			return NULL;
		return seg;
	case IB_WR_REG_MR:
		return ohca_put_reg(seg, reg_wr(wr));
	default:
		return seg;
	}
}

/**
 * ohca_build_send_wqe - build the WQE of a send work request
 * @qp: kernel QP
 * @wr: the request
 * @wqe: OHCA_MAX_WQE_BBS basic blocks of scratch space
 * @shadow: set to the record for the completion of the WQE
 *
 * Any context.
 * Return: 0, or -EINVAL if the request is invalid for this QP.
 */
VISIBLE_IF_KUNIT int ohca_build_send_wqe(const struct ohca_qp *qp, const struct ib_send_wr *wr,
					 void *wqe, struct ohca_sq_shadow *shadow)
{
	int wc_opcode = ohca_wc_opcode(wr->opcode);
	enum ib_qp_type type = qp->ibqp.qp_type;
	struct ohca_hw_wqe_ctrl *ctrl = wqe;
	void *seg = ctrl + 1;
	u32 bytes = 0;
	u16 flags;

	BUILD_BUG_ON(IB_WR_RDMA_WRITE != (int)OHCA_OP_RDMA_WRITE);
	BUILD_BUG_ON(IB_WR_SEND_WITH_IMM != (int)OHCA_OP_SEND_IMM);
	BUILD_BUG_ON(IB_WR_ATOMIC_FETCH_AND_ADD != (int)OHCA_OP_FETCH_ADD);
	BUILD_BUG_ON(IB_WR_LOCAL_INV != (int)OHCA_OP_LOCAL_INV);
	BUILD_BUG_ON(IB_WR_SEND_WITH_INV != (int)OHCA_OP_SEND_INV);
	BUILD_BUG_ON(IB_WR_REG_MR != (int)OHCA_OP_REG_MR);
	if (wc_opcode < 0 || !ohca_op_allowed(qp, wr->opcode) || wr->num_sge < 0 ||
	    wr->num_sge > qp->sq.max_sge)
		return -EINVAL;

	flags = wr->send_flags & (IB_SEND_FENCE | IB_SEND_SIGNALED | IB_SEND_SOLICITED);
	if (type == IB_QPT_UD && ohca_qp_has(qp, OHCA_FEATURE_UD_CSUM))
		flags |= wr->send_flags & IB_SEND_IP_CSUM;
	ctrl->opcode = wr->opcode;
	ctrl->imm = 0;
	if (wr->opcode == IB_WR_SEND_WITH_IMM || wr->opcode == IB_WR_RDMA_WRITE_WITH_IMM)
		ctrl->imm = wr->ex.imm_data;
	else if (wr->opcode == IB_WR_SEND_WITH_INV || wr->opcode == IB_WR_LOCAL_INV)
		ctrl->inv_key = cpu_to_le32(wr->ex.invalidate_rkey);
	ctrl->wr_id = 0;

	if (type != IB_QPT_RC && type != IB_QPT_UC) {
		seg = ohca_put_av(seg, qp, ud_wr(wr));
		if (!seg)
			return -EINVAL;
	}

	seg = ohca_put_op(seg, ctrl, wr);
	if (!seg)
		return -EINVAL;

	if (wr->opcode != IB_WR_REG_MR && wr->opcode != IB_WR_LOCAL_INV) {
		if (wr->send_flags & IB_SEND_INLINE) {
			if (wc_opcode != IB_WC_SEND && wc_opcode != IB_WC_RDMA_WRITE &&
			    wc_opcode != IB_WC_ATOMIC_WRITE)
				return -EINVAL;
			seg = ohca_put_inline(seg, wr->sg_list, wr->num_sge, qp->sq.max_inline,
					      &bytes);
			if (!seg)
				return -EINVAL;
			flags |= OHCA_WQE_INLINE | OHCA_FIELD_PREP(OHCA_WQE_INLINE_LEN, bytes);
		} else {
			seg = ohca_put_sges(seg, wr->sg_list, wr->num_sge, &bytes);
		}
	}

	ctrl->flags = cpu_to_le16(flags);
	ctrl->nseg = (seg - wqe) / OHCA_SEG_SIZE;
	shadow->wr_id = wr->wr_id;
	shadow->opcode = wc_opcode;
	shadow->byte_len = bytes;
	shadow->signaled = qp->signal_all || wr->send_flags & IB_SEND_SIGNALED;
	shadow->bbs = DIV_ROUND_UP(ctrl->nseg, OHCA_BB_SIZE / OHCA_SEG_SIZE);
	/* ohca_sq_push() copies whole BBs */
	memset(seg, 0, wqe + shadow->bbs * OHCA_BB_SIZE - seg);
	return 0;
}

/**
 * ohca_build_recv_wqe - build a receive WQE
 * @wr: the request; the caller has checked the number of SGEs
 * @wr_id: wr_id of the completion
 * @wqe: the WQE in the ring
 *
 * Any context. Return: bytes of the SGEs.
 */
u32 ohca_build_recv_wqe(const struct ib_recv_wr *wr, u64 wr_id, void *wqe)
{
	struct ohca_hw_rwqe_ctrl *ctrl = wqe;
	u32 bytes = 0;

	memset(ctrl, 0, sizeof(*ctrl));
	ctrl->wr_id = cpu_to_le64(wr_id);
	ctrl->num_sge = wr->num_sge;
	ohca_put_sges(ctrl + 1, wr->sg_list, wr->num_sge, &bytes);
	return bytes;
}

/* Copies a WQE to the ring at @head and sets its shadow entry. Under the SQ's lock. */
static void ohca_sq_push(struct ohca_qp *qp, u32 head, const void *wqe,
			 const struct ohca_sq_shadow *shadow)
{
	struct ohca_sq *sq = &qp->sq;
	u32 mask = (1u << sq->log) - 1;
	u32 i;

	for (i = 0; i < shadow->bbs; i++) {
		u32 bb = (head + i) & mask;

		memcpy(ohca_buf_at(&qp->buf, sq->off + ((size_t)bb << OHCA_BB_SHIFT)),
		       wqe + (i << OHCA_BB_SHIFT), OHCA_BB_SIZE);
		sq->shadow[bb].bbs = 0;
	}
	sq->shadow[head & mask] = *shadow;
}

/**
 * ohca_post_send - ib_device_ops.post_send; any context
 * @ibqp: kernel QP
 * @wr: list of requests
 * @bad_wr: set on failure
 *
 * Return: 0; or -EINVAL or -ENOMEM, and *@bad_wr is the first request that was not posted.
 */
int ohca_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);
	u8 wqe[OHCA_MAX_WQE_BBS * OHCA_BB_SIZE] __aligned(8);
	struct ohca_qp *qp = to_ohca_qp(ibqp);
	struct ohca_sq *sq = &qp->sq;
	struct ohca_sq_shadow shadow;
	unsigned long flags;
	u32 old, head;
	int ret = 0;

	if (READ_ONCE(qp->state) == IB_QPS_RESET && !ohca_is_dead(dev)) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&sq->lock, flags);
	old = sq->head;
	for (head = old; wr; wr = wr->next) {
		ret = ohca_build_send_wqe(qp, wr, wqe, &shadow);
		/* acquire: pairs with ohca_sq_complete(), which has read the shadow */
		if (!ret && head - smp_load_acquire(&sq->tail) + shadow.bbs > sq->room)
			ret = -ENOMEM;
		if (ret) {
			*bad_wr = wr;
			break;
		}
		ohca_sq_push(qp, head, wqe, &shadow);
		head += shadow.bbs;
	}
	if (head != old) {
		/* pairs with ohca_sq_complete(): the shadows are written */
		smp_store_release(&sq->head, head);
		dma_wmb();
		WRITE_ONCE(qp->db->sq_pi, cpu_to_le32(head));
		mb();	/* the producer index must be visible before the event index is read */
		if (ohca_db_needed(le32_to_cpu(READ_ONCE(qp->db->sq_event)), head, old))
			ohca_uar_write(dev, OHCA_UAR_SQ, qp->handle | (u64)head << 32);
		if (unlikely(ohca_is_dead(dev)))
			ohca_flush_kick(dev);
	}
	spin_unlock_irqrestore(&sq->lock, flags);
	return ret;
}

/**
 * ohca_post_recv - ib_device_ops.post_recv; any context
 * @ibqp: kernel QP
 * @wr: list of requests
 * @bad_wr: set on failure
 *
 * Return: 0; or -EINVAL or -ENOMEM, and *@bad_wr is the first request that was not posted.
 */
int ohca_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);
	struct ohca_qp *qp = to_ohca_qp(ibqp);
	struct ohca_rq *rq = &qp->rq;
	unsigned long flags;
	u32 old, head, mask;
	int ret = 0;

	if (!qp->has_rq || (READ_ONCE(qp->state) == IB_QPS_RESET && !ohca_is_dead(dev))) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&rq->lock, flags);
	mask = (1u << rq->log) - 1;
	old = rq->head;
	for (head = old; wr; wr = wr->next) {
		struct ohca_rq_shadow *s = &rq->shadow[head & mask];
		size_t off = (size_t)(head & mask) << rq->log_stride;

		if (wr->num_sge < 0 || wr->num_sge > rq->max_sge)
			ret = -EINVAL;
		/* pairs with ohca_rq_complete(), which has read the shadow */
		else if (head - smp_load_acquire(&rq->tail) >= rq->room)
			ret = -ENOMEM;
		if (ret) {
			*bad_wr = wr;
			break;
		}
		s->wr_id = wr->wr_id;
		s->length = ohca_build_recv_wqe(wr, wr->wr_id,
						ohca_buf_at(&qp->buf, OHCA_RQ_RING_OFFSET + off));
		head++;
	}
	if (head != old) {
		/* pairs with ohca_rq_complete(): the shadows are written */
		smp_store_release(&rq->head, head);
		dma_wmb();
		WRITE_ONCE(qp->db->rq_pi, cpu_to_le32(head));
		mb();	/* the producer index must be visible before the event index is read */
		if (ohca_db_needed(le32_to_cpu(READ_ONCE(qp->db->rq_event)), head, old))
			ohca_uar_write(dev, OHCA_UAR_RQ, qp->handle | (u64)head << 32);
		if (unlikely(ohca_is_dead(dev)))
			ohca_flush_kick(dev);
	}
	spin_unlock_irqrestore(&rq->lock, flags);
	return ret;
}
