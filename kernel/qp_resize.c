// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Resize of the queues of a QP, IBTA vol 1, 11.2.5.2. A process passes new memory, to which the
 * device copies the outstanding WQEs. Consumers may post to and poll a kernel QP meanwhile.
 */
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <kunit/visibility.h>
#include <rdma/ib_verbs.h>
#include <rdma/ohca-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "buf.h"
#include "cq.h"
#include "dev.h"
#include "qp.h"
#include "ring.h"
#include "wr.h"

/**
 * ohca_qp_narrow - limit outstanding WQEs to those that both old and new rings can hold
 * @qp: kernel QP
 * @sq: BBs of the new SQ
 * @rq: WQEs of the new RQ; ignored without an RQ
 *
 * The limit is in force until ohca_qp_move(). Process context, under the QP's mutex.
 * Return: 0, or -EINVAL if more WQEs are outstanding.
 */
VISIBLE_IF_KUNIT int ohca_qp_narrow(struct ohca_qp *qp, u32 sq, u32 rq)
{
	int ret;

	spin_lock_irq(&qp->sq.lock);
	spin_lock(&qp->rq.lock);
	/* polling may advance the tails meanwhile, which only makes room */
	ret = ohca_ring_narrow(&qp->sq.room, qp->sq.head - READ_ONCE(qp->sq.tail), sq);
	if (!ret && qp->has_rq)
		ret = ohca_ring_narrow(&qp->rq.room, qp->rq.head - READ_ONCE(qp->rq.tail), rq);
	if (ret)	/* the limit is set for both queues or for none */
		qp->sq.room = 1u << qp->sq.log;
	spin_unlock(&qp->rq.lock);
	spin_unlock_irq(&qp->sq.lock);
	return ret;
}

/* Takes the locks that exclude posting and polling. */
static void ohca_qp_lock(struct ohca_cq *first, struct ohca_cq *second, struct ohca_qp *qp)
	__acquires(&first->lock) __acquires(&second->lock)
	__acquires(&qp->sq.lock) __acquires(&qp->rq.lock)
{
	spin_lock_irq(&first->lock);
	if (first != second)
		spin_lock_nested(&second->lock, SINGLE_DEPTH_NESTING);
	else
		__acquire(&second->lock);
	spin_lock(&qp->sq.lock);
	spin_lock(&qp->rq.lock);
}

static void ohca_qp_unlock(struct ohca_cq *first, struct ohca_cq *second, struct ohca_qp *qp)
	__releases(&qp->rq.lock) __releases(&qp->sq.lock)
	__releases(&second->lock) __releases(&first->lock)
{
	spin_unlock(&qp->rq.lock);
	spin_unlock(&qp->sq.lock);
	if (first != second)
		spin_unlock(&second->lock);
	else
		__release(&second->lock);
	spin_unlock_irq(&first->lock);
}

/*
 * Copies the WQEs that were posted after the device had copied, and the shadow entries of all
 * outstanding WQEs. Returns whether a doorbell is needed.
 */
static bool ohca_sq_move(struct ohca_qp *qp, struct ohca_qp_mem *mem, u32 pi)
{
	struct ohca_sq *sq = &qp->sq;
	struct ohca_ring dst = {
		&mem->buf, ohca_sq_offset(qp->has_rq, mem->log_rq, qp->rq.log_stride),
		mem->log_sq, OHCA_BB_SHIFT,
	};
	struct ohca_ring src = { &qp->buf, sq->off, sq->log, OHCA_BB_SHIFT };
	u32 i;

	for (i = sq->tail; i != sq->head; i++)
		mem->sq[i & ((1u << mem->log_sq) - 1)] = sq->shadow[i & ((1u << sq->log) - 1)];
	return ohca_ring_move(&dst, &src, sq->head, pi, sq->head - sq->tail);
}

static bool ohca_rq_move(struct ohca_qp *qp, struct ohca_qp_mem *mem, u32 pi)
{
	struct ohca_rq *rq = &qp->rq;
	struct ohca_ring dst = { &mem->buf, OHCA_RQ_RING_OFFSET, mem->log_rq, rq->log_stride };
	struct ohca_ring src = { &qp->buf, OHCA_RQ_RING_OFFSET, rq->log, rq->log_stride };
	u32 i;

	if (!qp->has_rq)
		return false;
	for (i = rq->tail; i != rq->head; i++)
		mem->rq[i & ((1u << mem->log_rq) - 1)] = rq->shadow[i & ((1u << rq->log) - 1)];
	return ohca_ring_move(&dst, &src, rq->head, pi, rq->head - rq->tail);
}

/**
 * ohca_qp_move - move a QP to its new rings
 * @qp: kernel QP, after ohca_qp_narrow()
 * @mem: the memory that the device uses now; set to the old memory. NULL: the device has refused
 *	the resize, and the QP keeps its memory
 * @at: producer indices up to which the device reports that it has copied WQEs
 *
 * Copies the WQEs that were posted after these indices. Process context, under the QP's mutex.
 */
VISIBLE_IF_KUNIT void ohca_qp_move(struct ohca_qp *qp, struct ohca_qp_mem *mem,
				   const struct ohca_resp_resize_qp *at)
{
	struct ohca_dev *dev = to_ohca_dev(qp->ibqp.device);
	struct ohca_cq *first = to_ohca_cq(qp->ibqp.send_cq);
	struct ohca_cq *second = to_ohca_cq(qp->ibqp.recv_cq);
	bool sq = false, rq = false;

	if (first > second)
		swap(first, second);
	ohca_qp_lock(first, second, qp);
	if (mem) {
		sq = ohca_sq_move(qp, mem, le32_to_cpu(at->sq_pi));
		rq = ohca_rq_move(qp, mem, le32_to_cpu(at->rq_pi));
		ohca_qp_swap_mem(qp, mem);
		dma_wmb();
		WRITE_ONCE(qp->db->sq_pi, cpu_to_le32(qp->sq.head));
		WRITE_ONCE(qp->db->rq_pi, cpu_to_le32(qp->rq.head));
		/* the event indices of the old doorbell record are not valid for the new one */
		if (sq)
			ohca_uar_write(dev, OHCA_UAR_SQ, qp->handle | (u64)qp->sq.head << 32);
		if (rq)
			ohca_uar_write(dev, OHCA_UAR_RQ, qp->handle | (u64)qp->rq.head << 32);
	} else {
		qp->sq.room = 1u << qp->sq.log;
		qp->rq.room = 1u << qp->rq.log;
	}
	ohca_qp_unlock(first, second, qp);
}

/* The QP has these capabilities now; copies all of them to @attr. Under the QP's mutex. */
static void ohca_qp_resized(struct ohca_qp *qp, const struct ib_qp_cap *cap,
			    struct ib_qp_attr *attr)
{
	/* only these two change; restrack reads them without the lock */
	WRITE_ONCE(qp->cap.max_send_wr, cap->max_send_wr);
	WRITE_ONCE(qp->cap.max_recv_wr, cap->max_recv_wr);
	attr->cap = qp->cap;
}

/* Under the QP's mutex. */
static int ohca_qp_kernel_resize(struct ohca_dev *dev, struct ohca_qp *qp,
				 const struct ib_qp_cap *cap)
{
	struct ohca_cmd_resize_qp in = { .handle = cpu_to_le32(qp->handle) };
	struct ohca_resp_resize_qp at;
	struct ohca_qp_mem mem;
	struct ohca_pl pl;
	int ret;

	ret = ohca_qp_alloc_mem(dev, qp, cap, &mem);
	if (ret)
		return ret;
	ret = ohca_pl_from_buf(dev, &pl, &mem.buf);
	if (ret)
		goto out;
	in.pl = pl.hw;
	in.log_sq = mem.log_sq;
	in.log_rq = mem.log_rq;
	ret = ohca_qp_narrow(qp, 1u << mem.log_sq, 1u << mem.log_rq);
	if (!ret) {
		ret = ohca_cmd_resize_qp(dev, &in, &at);
		ohca_qp_move(qp, ret ? NULL : &mem, &at);
	}
	ohca_pl_free(dev, &pl);
out:
	/* the old memory, or the new memory if the device refused it */
	ohca_qp_free_mem(dev, &mem);
	return ret;
}

/*
 * The same for a user QP, not under the mutex. Pinning memory of the process may wait without a
 * time limit, and processes that list all QPs wait for the mutex (ohca_query_qp()). So this
 * function takes the mutex after the memory is pinned.
 */
static int ohca_qp_user_resize(struct ohca_dev *dev, struct ohca_qp *qp, struct ib_qp_attr *attr,
			       struct ib_udata *udata)
{
	struct ohca_cmd_resize_qp in = { .handle = cpu_to_le32(qp->handle) };
	struct ohca_resp_resize_qp at;
	struct ohca_modify_qp_req req;
	struct ib_qp_cap cap = {};
	struct ib_umem *umem;
	struct ohca_pl pl;
	int ret;

	ret = ohca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (req.comp_mask || req.reserved)
		return -EOPNOTSUPP;
	cap.max_send_wr = req.max_send_wr;
	if (qp->has_rq)
		cap.max_recv_wr = req.max_recv_wr;
	else if (req.log_rq)
		return -EINVAL;
	if (cap.max_send_wr > ohca_max_qp_wr(&dev->attr) ||
	    cap.max_recv_wr > ohca_max_qp_wr(&dev->attr))
		return -EINVAL;
	ret = ohca_qp_user_sizes(dev, qp, &cap, req.log_sq, req.log_rq);
	if (ret)
		return ret;
	ret = ohca_queue_umem(dev, &pl, &umem, req.buf_addr, req.buf_size,
			      ohca_qp_buf_size(qp->has_rq, req.log_rq, qp->rq.log_stride,
					       req.log_sq));
	if (ret)
		return ret;
	in.pl = pl.hw;
	in.log_sq = req.log_sq;
	in.log_rq = req.log_rq;
	/* the driver must replace memory in the order in which the device executes commands */
	mutex_lock(&qp->mutex);
	ret = ohca_cmd_resize_qp(dev, &in, &at);
	if (!ret) {
		swap(qp->umem, umem);
		ohca_qp_resized(qp, &cap, attr);
	}
	mutex_unlock(&qp->mutex);
	ohca_pl_free(dev, &pl);
	/* the old memory, or the new memory if the device refused it */
	ohca_umem_release(dev, umem);
	return ret;
}

/**
 * ohca_resize_qp - ib_device_ops.modify_qp with IB_QP_CAP
 * @ibqp: QP in any state
 * @attr: cap: the requested capabilities, ignored with @udata; set to those in force on success
 * @mask: IB_QP_CAP and nothing else
 * @udata: struct ohca_modify_qp_req, which has the capabilities of a user QP; else NULL
 *
 * max_send_wr and max_recv_wr may change; max_recv_wr is ignored if the QP has no receive queue
 * of its own. Process context.
 * Return: 0, or a negative errno, and nothing has changed: -EOPNOTSUPP without
 * OHCA_FEATURE_QP_RESIZE; -EINVAL for other attributes or capabilities, if the outstanding WQEs do
 * not fit, and for XRC targets and QPs of an SRQ with tags, which have no queues.
 */
int ohca_resize_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);
	struct ohca_qp *qp = to_ohca_qp(ibqp);
	struct ib_qp_cap cap;
	int ret;

	if (!ohca_has(dev, OHCA_FEATURE_QP_RESIZE))
		return -EOPNOTSUPP;
	if (mask != IB_QP_CAP || ibqp->qp_type == IB_QPT_XRC_TGT ||
	    (ibqp->srq && ibqp->srq->srq_type == IB_SRQT_TM))
		return -EINVAL;
	if (udata)
		return ohca_qp_user_resize(dev, qp, attr, udata);
	mutex_lock(&qp->mutex);
	cap = qp->cap;
	cap.max_send_wr = attr->cap.max_send_wr;
	if (qp->has_rq)
		cap.max_recv_wr = attr->cap.max_recv_wr;
	if (cap.max_send_sge != attr->cap.max_send_sge ||
	    (qp->has_rq && cap.max_recv_sge != attr->cap.max_recv_sge) ||
	    cap.max_inline_data != attr->cap.max_inline_data ||
	    cap.max_send_wr > ohca_max_qp_wr(&dev->attr) ||
	    cap.max_recv_wr > ohca_max_qp_wr(&dev->attr))
		ret = -EINVAL;
	else
		ret = ohca_qp_kernel_resize(dev, qp, &cap);
	if (!ret)
		ohca_qp_resized(qp, &cap, attr);
	mutex_unlock(&qp->mutex);
	return ret;
}
