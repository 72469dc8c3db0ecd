// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues. The wr_id of a WQE of a kernel SRQ is an index into ohca_srq.shadow, which
 * only grows. The driver never posts more WQEs than the ring holds; during a resize, no more than
 * the smaller ring holds.
 */
#include <linux/slab.h>
#include <linux/xarray.h>
#include <kunit/visibility.h>
#include <rdma/ohca-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "buf.h"
#include "cq.h"
#include "dev.h"
#include "eq.h"
#include "obj.h"
#include "ring.h"
#include "srq.h"
#include "verbs.h"
#include "wr.h"

static int ohca_srq_user_buf(struct ohca_dev *dev, struct ohca_srq *srq, struct ohca_pl *pl,
			     const struct ib_srq_attr *attr, struct ib_udata *udata,
			     struct ohca_cmd_create_srq *in)
{
	struct ohca_create_srq_req req;
	u64 size;
	int ret;

	ret = ohca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (req.comp_mask || req.reserved || (req.log_ops && in->type != OHCA_SRQT_TM))
		return -EOPNOTSUPP;
	if (req.log_size > dev->attr.log_max_srq_wqes || 1u << req.log_size < attr->max_wr ||
	    req.log_stride < OHCA_MIN_LOG_RQ_STRIDE || req.log_stride > OHCA_MAX_LOG_RQ_STRIDE ||
	    ohca_rq_stride_sges(req.log_stride) < attr->max_sge ||
	    req.log_ops > dev->attr.log_max_tm_ops)
		return -EINVAL;
	srq->log = req.log_size;
	srq->log_stride = req.log_stride;
	size = ohca_srq_buf_size(req.log_size, req.log_stride);
	if (in->type == OHCA_SRQT_TM) {
		in->log_ops = req.log_ops;
		srq->ops_size = ohca_tm_ring_size(req.log_ops);
		size += srq->ops_size;
	}
	return ohca_queue_umem(dev, pl, &srq->umem, req.buf_addr, req.buf_size, size);
}

/**
 * ohca_srq_grow - grow the shadow of an SRQ
 * @srq: kernel SRQ
 * @num: number of entries needed
 *
 * Process context, under @srq->resize_lock unless the SRQ is not published yet.
 * Return: 0 or -ENOMEM.
 */
VISIBLE_IF_KUNIT int ohca_srq_grow(struct ohca_srq *srq, u32 num)
{
	struct ohca_rq_shadow *shadow;
	u32 *next;
	u32 i;

	if (num <= srq->num)
		return 0;
	shadow = kvcalloc(num, sizeof(*shadow), GFP_KERNEL);
	next = kvcalloc(num, sizeof(*next), GFP_KERNEL);
	if (!shadow || !next) {
		kvfree(shadow);
		kvfree(next);
		return -ENOMEM;
	}
	/* the free list ends with the index after the last entry: the first new entry */
	for (i = srq->num; i < num; i++)
		next[i] = i + 1;
	spin_lock_irq(&srq->lock);
	if (srq->num) {
		memcpy(shadow, srq->shadow, srq->num * sizeof(*shadow));
		memcpy(next, srq->next, srq->num * sizeof(*next));
	}
	swap(srq->shadow, shadow);
	swap(srq->next, next);
	srq->num = num;
	spin_unlock_irq(&srq->lock);
	kvfree(shadow);
	kvfree(next);
	return 0;
}

static int ohca_srq_kernel_buf(struct ohca_dev *dev, struct ohca_srq *srq, struct ohca_pl *pl,
			       const struct ib_srq_attr *attr)
{
	int ret;

	srq->log = ohca_log2_up(attr->max_wr);
	srq->log_stride = ohca_rq_log_stride(attr->max_sge);
	srq->room = 1u << srq->log;
	ret = ohca_srq_grow(srq, srq->room);
	if (ret)
		return ret;
	ret = ohca_buf_alloc(dev, &srq->buf, ohca_srq_buf_size(srq->log, srq->log_stride));
	if (ret)
		return ret;
	srq->db = ohca_buf_at(&srq->buf, OHCA_DB_OFFSET);
	return ohca_pl_from_buf(dev, pl, &srq->buf);
}

static void ohca_srq_free_buf(struct ohca_dev *dev, struct ohca_srq *srq)
{
	ohca_umem_release(dev, srq->umem);
	ohca_buf_free(dev, &srq->buf);
	kvfree(srq->shadow);
	kvfree(srq->next);
}

/* Removes the object from its array, destroys it in the device, waits for the last reference. */
static void ohca_srq_hw_destroy(struct ohca_dev *dev, struct ohca_srq *srq)
{
	xa_erase(&dev->srqs, srq->srqn);
	ohca_cmd_destroy(dev, OHCA_CMD_DESTROY_SRQ, srq->srqn);
	ohca_sync_events(dev, false);
	ohca_obj_release(&srq->obj);
}

/* Sets the type of the SRQ and the fields of that type. */
static int ohca_srq_type(struct ohca_dev *dev, const struct ib_srq_init_attr *init, bool user,
			 struct ohca_cmd_create_srq *in)
{
	u32 tags;

	switch (init->srq_type) {
	case IB_SRQT_BASIC:
		return 0;
	case IB_SRQT_XRC:
		/* ohca_poll_cq() does not find XRC target QPs */
		if (!user || !ohca_has_xrc(dev))
			return -EOPNOTSUPP;
		in->type = OHCA_SRQT_XRC;
		in->xrcdn = cpu_to_le32(to_ohca_xrcd(init->ext.xrc.xrcd)->xrcdn);
		in->cqn = cpu_to_le32(to_ohca_cq(init->ext.cq)->cqn);
		return 0;
	case IB_SRQT_TM:
		tags = init->ext.tag_matching.max_num_tags;
		/* kernel consumers cannot post list operations */
		if (!user || !ohca_has(dev, OHCA_FEATURE_TM))
			return -EOPNOTSUPP;
		if (!tags || tags > le16_to_cpu(dev->attr.max_tags))
			return -EINVAL;
		in->type = OHCA_SRQT_TM;
		in->num_tags = cpu_to_le16(tags);
		in->cqn = cpu_to_le32(to_ohca_cq(init->ext.cq)->cqn);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/**
 * ohca_create_srq - ib_device_ops.create_srq
 * @ibsrq: the core's part
 * @init: type and sizes; the sizes are set to those of the SRQ. srq_limit is ignored: a new SRQ has
 *	no limit, and programs need not set the field (ibv_create_srq(3))
 * @udata: struct ohca_create_srq_req; NULL for a kernel consumer
 *
 * Process context. Return: 0 or a negative errno.
 */
int ohca_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibsrq->device);
	struct ohca_pd *pd = to_ohca_pd(ibsrq->pd);
	struct ohca_srq *srq = to_ohca_srq(ibsrq);
	struct ib_srq_attr *attr = &init->attr;
	struct ohca_create_srq_resp resp = {};
	struct ohca_cmd_create_srq in = {};
	struct ohca_pl pl = {};
	int ret;

	if (!ohca_has(dev, OHCA_FEATURE_SRQ))
		return -EOPNOTSUPP;
	ret = ohca_srq_type(dev, init, udata, &in);
	if (ret)
		return ret;
	if (!attr->max_wr || attr->max_wr > 1u << dev->attr.log_max_srq_wqes ||
	    attr->max_sge > dev->attr.max_sge)
		return -EINVAL;
	spin_lock_init(&srq->lock);
	ohca_obj_init(&srq->obj);
	mutex_init(&srq->resize_lock);

	if (udata)
		ret = ohca_srq_user_buf(dev, srq, &pl, attr, udata, &in);
	else
		ret = ohca_srq_kernel_buf(dev, srq, &pl, attr);
	if (ret)
		goto err_buf;

	in.pl = pl.hw;
	in.pdn = cpu_to_le32(pd->pdn);
	in.uar = cpu_to_le32(pd->uar);
	in.log_size = srq->log;
	in.log_stride = srq->log_stride;
	ret = ohca_cmd_create_srq(dev, &in, &srq->srqn);
	ohca_pl_free(dev, &pl);
	if (ret)
		goto err_buf;
	if (init->srq_type == IB_SRQT_XRC)
		ibsrq->ext.xrc.srq_num = srq->srqn;
	srq->max_sge = ohca_rq_stride_sges(srq->log_stride);
	attr->max_wr = 1u << srq->log;
	attr->max_sge = srq->max_sge;

	ret = xa_insert(&dev->srqs, srq->srqn, &srq->obj, GFP_KERNEL);
	if (ret) {
		ohca_cmd_undo(dev, OHCA_CMD_DESTROY_SRQ, srq->srqn, ret);
		goto err_buf;
	}
	if (udata) {
		resp.srqn = srq->srqn;
		ret = ohca_udata_out(udata, &resp, sizeof(resp));
		if (ret) {
			ohca_srq_hw_destroy(dev, srq);
			goto err_buf;
		}
	}
	return 0;

err_buf:
	ohca_srq_free_buf(dev, srq);
	return ret;
}

static int ohca_srq_user_resize(struct ohca_dev *dev, struct ohca_srq *srq, u32 max_wr,
				struct ib_udata *udata, struct ohca_cmd_resize_srq *in)
{
	struct ohca_modify_srq_req req;
	struct ib_umem *umem;
	struct ohca_pl pl;
	u32 pi;
	int ret;

	ret = ohca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (req.comp_mask)
		return -EOPNOTSUPP;
	if (req.log_size > dev->attr.log_max_srq_wqes || 1u << req.log_size < max_wr)
		return -EINVAL;
	ret = ohca_queue_umem(dev, &pl, &umem, req.buf_addr, req.buf_size,
			      ohca_srq_buf_size(req.log_size, srq->log_stride) + srq->ops_size);
	if (ret)
		return ret;
	in->pl = pl.hw;
	in->log_size = req.log_size;
	/* the driver must replace memory in the order in which the device executes commands */
	mutex_lock(&srq->resize_lock);
	ret = ohca_cmd_resize_srq(dev, in, &pi);
	if (!ret) {
		swap(srq->umem, umem);
		WRITE_ONCE(srq->log, req.log_size);
	}
	mutex_unlock(&srq->resize_lock);
	ohca_pl_free(dev, &pl);
	/* the old memory, or the new memory if the device refused it */
	ohca_umem_release(dev, umem);
	return ret;
}

/**
 * ohca_srq_narrow - limit outstanding WQEs to those that both rings can hold
 * @srq: kernel SRQ
 * @num: WQEs of the new ring
 *
 * The limit is in force until ohca_srq_move(). Process context, under @srq->resize_lock.
 * Return: 0, or -EINVAL if more WQEs are outstanding.
 */
VISIBLE_IF_KUNIT int ohca_srq_narrow(struct ohca_srq *srq, u32 num)
{
	int ret;

	spin_lock_irq(&srq->lock);
	ret = ohca_ring_narrow(&srq->room, srq->used, num);
	spin_unlock_irq(&srq->lock);
	return ret;
}

/**
 * ohca_srq_move - move an SRQ to its new ring
 * @srq: kernel SRQ, after ohca_srq_narrow()
 * @buf: the ring that the device uses now; set to the old ring. NULL: the device has refused
 *	the resize, and the SRQ keeps its ring
 * @log: log2 of its WQEs
 * @pi: producer index up to which the device reports that it has copied WQEs
 *
 * Copies the WQEs that were posted after that index. Process context, under @srq->resize_lock.
 */
VISIBLE_IF_KUNIT void ohca_srq_move(struct ohca_srq *srq, struct ohca_buf *buf, u32 log, u32 pi)
{
	struct ohca_ring dst = { buf, OHCA_RQ_RING_OFFSET, log, srq->log_stride };
	struct ohca_ring src = { &srq->buf, OHCA_RQ_RING_OFFSET, srq->log, srq->log_stride };
	u32 late;

	spin_lock_irq(&srq->lock);
	if (buf) {
		late = ohca_ring_move(&dst, &src, srq->head, pi, srq->room);
		swap(srq->buf, *buf);
		srq->db = ohca_buf_at(&srq->buf, OHCA_DB_OFFSET);
		WRITE_ONCE(srq->log, log);
		dma_wmb();
		WRITE_ONCE(srq->db->rq_pi, cpu_to_le32(srq->head));
		if (late)
			ohca_uar_write(to_ohca_dev(srq->ibsrq.device), OHCA_UAR_SRQ,
				       srq->srqn | (u64)srq->head << 32);
	}
	srq->room = 1u << srq->log;
	spin_unlock_irq(&srq->lock);
}

/* Consumers may post and poll meanwhile. */
static int ohca_srq_kernel_resize(struct ohca_dev *dev, struct ohca_srq *srq, u32 max_wr,
				  struct ohca_cmd_resize_srq *in)
{
	u32 pi = 0, log = ohca_log2_up(max_wr);
	struct ohca_buf buf;
	struct ohca_pl pl;
	int ret;

	ret = ohca_buf_alloc(dev, &buf, ohca_srq_buf_size(log, srq->log_stride));
	if (ret)
		return ret;
	ret = ohca_pl_from_buf(dev, &pl, &buf);
	if (ret)
		goto out;
	in->pl = pl.hw;
	in->log_size = log;
	mutex_lock(&srq->resize_lock);
	ret = ohca_srq_grow(srq, 1u << log);
	if (!ret)
		ret = ohca_srq_narrow(srq, 1u << log);
	if (!ret) {
		ret = ohca_cmd_resize_srq(dev, in, &pi);
		ohca_srq_move(srq, ret ? NULL : &buf, log, pi);
	}
	mutex_unlock(&srq->resize_lock);
	ohca_pl_free(dev, &pl);
out:
	/* the old memory, or the new memory if the device refused it */
	ohca_buf_free(dev, &buf);
	return ret;
}

/* Changes the size; with @limit, also the limit. */
static int ohca_resize_srq(struct ib_srq *ibsrq, const struct ib_srq_attr *attr, bool limit,
			   struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibsrq->device);
	struct ohca_srq *srq = to_ohca_srq(ibsrq);
	struct ohca_cmd_resize_srq in = { .srqn = cpu_to_le32(srq->srqn) };

	if (!ohca_has(dev, OHCA_FEATURE_SRQ_RESIZE))
		return -EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > 1u << dev->attr.log_max_srq_wqes ||
	    (limit && attr->srq_limit > attr->max_wr))
		return -EINVAL;
	if (limit) {
		in.flags = OHCA_RESIZE_SRQ_LIMIT;
		in.limit = cpu_to_le32(attr->srq_limit);
	}
	if (udata)
		return ohca_srq_user_resize(dev, srq, attr->max_wr, udata, &in);
	return ohca_srq_kernel_resize(dev, srq, attr->max_wr, &in);
}

/**
 * ohca_modify_srq - ib_device_ops.modify_srq: arm the limit event, change the size
 * @ibsrq: SRQ; the core lets several threads modify it at once
 * @attr: max_wr and srq_limit
 * @mask: IB_SRQ_MAX_WR, which needs OHCA_FEATURE_SRQ_RESIZE, and IB_SRQ_LIMIT
 * @udata: with IB_SRQ_MAX_WR: struct ohca_modify_srq_req
 *
 * Process context. Return: 0, or a negative errno, and nothing has changed: -EINVAL if the new size
 * does not hold the outstanding WQEs or the limit.
 */
int ohca_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		    struct ib_udata *udata)
{
	struct ohca_srq *srq = to_ohca_srq(ibsrq);
	int ret;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EOPNOTSUPP;
	if (mask & IB_SRQ_MAX_WR)
		return ohca_resize_srq(ibsrq, attr, mask & IB_SRQ_LIMIT, udata);
	ret = ohca_udata_none(udata);
	if (ret || !(mask & IB_SRQ_LIMIT))
		return ret;
	if (attr->srq_limit > 1u << srq->log)
		return -EINVAL;
	return ohca_cmd_modify_srq(to_ohca_dev(ibsrq->device), srq->srqn, attr->srq_limit);
}

/** ohca_query_srq - ib_device_ops.query_srq */
int ohca_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct ohca_srq *srq = to_ohca_srq(ibsrq);

	attr->max_wr = 1u << srq->log;
	attr->max_sge = srq->max_sge;
	return ohca_cmd_query_srq(to_ohca_dev(ibsrq->device), srq->srqn, &attr->srq_limit);
}

/** ohca_destroy_srq - ib_device_ops.destroy_srq */
int ohca_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibsrq->device);
	struct ohca_srq *srq = to_ohca_srq(ibsrq);

	ohca_srq_hw_destroy(dev, srq);
	ohca_srq_free_buf(dev, srq);
	return 0;
}

/**
 * ohca_post_srq_recv - ib_device_ops.post_srq_recv; any context
 * @ibsrq: kernel SRQ
 * @wr: list of requests
 * @bad_wr: set on failure
 *
 * Return: 0; or -EINVAL or -ENOMEM, and *@bad_wr is the first request that was not posted.
 */
int ohca_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr)
{
	struct ohca_dev *dev = to_ohca_dev(ibsrq->device);
	struct ohca_srq *srq = to_ohca_srq(ibsrq);
	u32 idx, old, mask;
	struct ohca_rq_shadow *s;
	unsigned long flags;
	size_t off;
	int ret = 0;

	spin_lock_irqsave(&srq->lock, flags);
	mask = (1u << srq->log) - 1;
	old = srq->head;
	for (; wr; wr = wr->next) {
		if (wr->num_sge < 0 || wr->num_sge > srq->max_sge)
			ret = -EINVAL;
		else if (srq->used >= srq->room)
			ret = -ENOMEM;
		if (ret) {
			*bad_wr = wr;
			break;
		}
		idx = srq->free;
		srq->free = srq->next[idx];
		s = &srq->shadow[idx];
		off = OHCA_RQ_RING_OFFSET + ((size_t)(srq->head & mask) << srq->log_stride);
		s->wr_id = wr->wr_id;
		s->length = ohca_build_recv_wqe(wr, idx, ohca_buf_at(&srq->buf, off));
		s->used = true;
		srq->used++;
		srq->head++;
	}
	if (srq->head != old) {
		dma_wmb();
		WRITE_ONCE(srq->db->rq_pi, cpu_to_le32(srq->head));
		mb();	/* the producer index must be visible before the event index is read */
		if (ohca_db_needed(le32_to_cpu(READ_ONCE(srq->db->rq_event)), srq->head, old))
			ohca_uar_write(dev, OHCA_UAR_SRQ, srq->srqn | (u64)srq->head << 32);
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return ret;
}
