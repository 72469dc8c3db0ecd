// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues. The WQE of a kernel SRQ carries as wr_id an index into the
 * driver's own array; there are as many of these as WQEs in the ring, so the ring
 * cannot overflow while an index is free.
 */
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/ohca-abi.h>

#include "ohca.h"

/**
 * ohca_srq_get - look an SRQ up by number
 * @dev: the device
 * @srqn: as the device gave it
 *
 * Thread of vector 0; destroy waits for it.
 * Return: the SRQ with a reference, or NULL.
 */
struct ohca_srq *ohca_srq_get(struct ohca_dev *dev, u32 srqn)
{
	struct ohca_srq *srq = xa_load(&dev->srqs, srqn);

	return srq && refcount_inc_not_zero(&srq->ref) ? srq : NULL;
}

/**
 * ohca_srq_next - walk over all SRQs
 * @dev: the device
 * @index: where to look on; becomes the number of the SRQ returned
 *
 * Process context; the caller increments *@index before it goes on.
 * Return: the next SRQ with a reference, or NULL.
 */
struct ohca_srq *ohca_srq_next(struct ohca_dev *dev, unsigned long *index)
{
	struct ohca_srq *srq;

	/* who finds it under the lock finds it before destroy drops its reference */
	xa_lock(&dev->srqs);
	do {
		srq = xa_find(&dev->srqs, index, ULONG_MAX, XA_PRESENT);
		if (srq && refcount_inc_not_zero(&srq->ref))
			break;
		(*index)++;
	} while (srq);
	xa_unlock(&dev->srqs);
	return srq;
}

/** ohca_srq_put - give a reference back; any context */
void ohca_srq_put(struct ohca_srq *srq)
{
	if (refcount_dec_and_test(&srq->ref))
		complete(&srq->released);
}

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
		size += ohca_tm_ring_size(req.log_ops);
	}
	return ohca_queue_umem(dev, pl, &srq->umem, req.buf_addr, req.buf_size, size);
}

static int ohca_srq_kernel_buf(struct ohca_dev *dev, struct ohca_srq *srq, struct ohca_pl *pl,
			       const struct ib_srq_attr *attr)
{
	u32 i, num;
	int ret;

	srq->log = ohca_log2_up(attr->max_wr);
	srq->log_stride = ohca_rq_log_stride(attr->max_sge);
	num = 1u << srq->log;
	srq->shadow = kvcalloc(num, sizeof(*srq->shadow), GFP_KERNEL);
	srq->next = kvcalloc(num, sizeof(*srq->next), GFP_KERNEL);
	if (!srq->shadow || !srq->next)
		return -ENOMEM;
	for (i = 0; i < num; i++)
		srq->next[i] = i + 1;
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

/* Unpublish, destroy in the device, wait for whoever still holds it. */
static int ohca_srq_unmake(struct ohca_dev *dev, struct ohca_srq *srq, bool must)
{
	int ret;

	xa_erase(&dev->srqs, srq->srqn);
	ret = ohca_cmd_destroy(dev, OHCA_CMD_DESTROY_SRQ, srq->srqn, must);
	if (ret) {
		xa_store(&dev->srqs, srq->srqn, srq, GFP_KERNEL);
		return ret;
	}
	ohca_sync_events(dev, false);
	ohca_srq_put(srq);
	wait_for_completion(&srq->released);
	return 0;
}

/** ohca_create_srq - ib_device_ops.create_srq */
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

	if (init->srq_type == IB_SRQT_XRC) {
		/* the driver's own poll knows no target QPs */
		if (!udata || !ohca_has_xrc(dev))
			return -EOPNOTSUPP;
		in.type = OHCA_SRQT_XRC;
		in.xrcdn = cpu_to_le32(to_ohca_xrcd(init->ext.xrc.xrcd)->xrcdn);
		in.cqn = cpu_to_le32(to_ohca_cq(init->ext.cq)->cqn);
	} else if (init->srq_type == IB_SRQT_TM) {
		u32 tags = init->ext.tag_matching.max_num_tags;

		/* nor is there a way for the kernel to post list operations */
		if (!udata || !ohca_has(dev, OHCA_FEATURE_TM))
			return -EOPNOTSUPP;
		if (!tags || tags > le16_to_cpu(dev->attr.max_tags))
			return -EINVAL;
		in.type = OHCA_SRQT_TM;
		in.num_tags = cpu_to_le16(tags);
		in.cqn = cpu_to_le32(to_ohca_cq(init->ext.cq)->cqn);
	} else if (init->srq_type != IB_SRQT_BASIC) {
		return -EOPNOTSUPP;
	}
	if (!attr->max_wr || attr->max_wr > 1u << dev->attr.log_max_srq_wqes ||
	    attr->max_sge > dev->attr.max_sge || attr->srq_limit > attr->max_wr)
		return -EINVAL;
	spin_lock_init(&srq->lock);
	refcount_set(&srq->ref, 1);
	init_completion(&srq->released);

	if (udata)
		ret = ohca_srq_user_buf(dev, srq, &pl, attr, udata, &in);
	else
		ret = ohca_srq_kernel_buf(dev, srq, &pl, attr);
	if (ret)
		goto err_buf;

	in.pl = pl.hw;
	in.pdn = cpu_to_le32(pd->pdn);
	in.uar = cpu_to_le32(pd->uar);
	in.limit = cpu_to_le32(attr->srq_limit);
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

	ret = xa_insert(&dev->srqs, srq->srqn, srq, GFP_KERNEL);
	if (ret) {
		ohca_cmd_undo(dev, OHCA_CMD_DESTROY_SRQ, srq->srqn, ret);
		goto err_buf;
	}
	if (udata) {
		resp.srqn = srq->srqn;
		ret = ohca_udata_out(udata, &resp, sizeof(resp));
		if (ret) {
			ohca_srq_unmake(dev, srq, true);
			goto err_buf;
		}
	}
	return 0;

err_buf:
	ohca_srq_free_buf(dev, srq);
	return ret;
}

/** ohca_modify_srq - ib_device_ops.modify_srq: arms the limit event */
int ohca_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		    struct ib_udata *udata)
{
	struct ohca_srq *srq = to_ohca_srq(ibsrq);
	int ret = ohca_udata_none(udata);

	if (ret)
		return ret;
	if (mask & ~IB_SRQ_LIMIT)
		return -EOPNOTSUPP;
	if (!(mask & IB_SRQ_LIMIT))
		return 0;
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
	int ret;

	ret = ohca_srq_unmake(dev, srq, false);
	if (ret)
		return ret;
	ohca_srq_free_buf(dev, srq);
	return 0;
}

/**
 * ohca_post_srq_recv - ib_device_ops.post_srq_recv; any context
 * @ibsrq: kernel SRQ
 * @wr: list of requests
 * @bad_wr: set on failure
 *
 * Return: 0, -EINVAL or -ENOMEM with *@bad_wr the first request that was not taken.
 */
int ohca_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr)
{
	struct ohca_dev *dev = to_ohca_dev(ibsrq->device);
	struct ohca_srq *srq = to_ohca_srq(ibsrq);
	u32 idx, old, mask = (1u << srq->log) - 1;
	struct ohca_rq_shadow *s;
	unsigned long flags;
	size_t off;
	int ret = 0;

	spin_lock_irqsave(&srq->lock, flags);
	old = srq->head;
	for (; wr; wr = wr->next) {
		if (wr->num_sge < 0 || wr->num_sge > srq->max_sge)
			ret = -EINVAL;
		else if (srq->free > mask)
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
		srq->head++;
	}
	if (srq->head != old) {
		dma_wmb();
		WRITE_ONCE(srq->db->rq_pi, cpu_to_le32(srq->head));
		mb();	/* the index must be there before the event index is looked at */
		if (ohca_db_needed(le32_to_cpu(READ_ONCE(srq->db->rq_event)), srq->head, old))
			ohca_uar_write(dev, OHCA_UAR_SRQ, srq->srqn | (u64)srq->head << 32);
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return ret;
}
