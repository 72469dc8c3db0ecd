// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues: creation, destruction and events. Polling is in poll.c.
 */
#include <linux/workqueue.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ohca-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "buf.h"
#include "compat.h"
#include "cq.h"
#include "dev.h"
#include "eq.h"
#include "obj.h"
#include "uctx.h"

/**
 * ohca_cq_wants_events - whether the driver may call the completion handler of a CQ
 * @cq: any CQ
 *
 * Any context. The core's handler of an IB_POLL_DIRECT CQ only warns; no consumer arms such a
 * CQ. A user CQ always has a handler.
 * Return: true if it may.
 */
bool ohca_cq_wants_events(const struct ohca_cq *cq)
{
	return cq->ibcq.comp_handler && cq->ibcq.poll_ctx != IB_POLL_DIRECT;
}

/**
 * ohca_cq_comp_event - handle a completion event
 * @cq: CQ with a reference
 *
 * Interrupt context. Drops an event of a kernel CQ that is not armed: the core's handler expects
 * none before the core has armed the CQ. A process arms its CQ by a doorbell, so the driver cannot
 * check this for a user CQ.
 * Return: false if the event was dropped.
 */
bool ohca_cq_comp_event(struct ohca_cq *cq)
{
	if (!ohca_cq_wants_events(cq))
		return false;
	if (!cq->umem && !xchg(&cq->armed, 0))
		return false;
	smp_store_release(&cq->arm_sn, cq->arm_sn + 1);	/* pairs with ohca_req_notify_cq() */
	cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	return true;
}

/*
 * Sets the memory and the page list of a user CQ. The core's attributes name the memory, or else
 * the request of the provider.
 */
static int ohca_cq_user_buf(struct ohca_dev *dev, struct ohca_cq *cq, struct ohca_pl *pl,
			    unsigned int cqe, struct uverbs_attr_bundle *attrs)
{
	struct ohca_create_cq_req req;
	struct ib_umem *umem;
	size_t need;
	int ret;

	ret = ohca_udata_in(&attrs->driver_udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (req.comp_mask || ohca_cq_has_umem(&cq->ibcq))
		return -EOPNOTSUPP;
	if (req.log_size > dev->attr.log_max_cqe || 1u << req.log_size < cqe)
		return -EINVAL;
	need = ohca_cq_buf_size(req.log_size);
	if (req.buf_size < need)
		return -EINVAL;
	cq->log_size = req.log_size;
	umem = ib_umem_get_cq_buf_or_va(&dev->ibdev, attrs, req.buf_addr, need,
					IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	/* a dma-buf may be memory of another device, which the device cannot access */
	ret = umem->is_dmabuf ? -EOPNOTSUPP : ohca_queue_pages(dev, pl, umem, need);
	if (ret)
		ib_umem_release(umem);
	else
		cq->umem = umem;
	return ret;
}

/* Sets the memory and the page list of a kernel CQ. */
static int ohca_cq_kernel_buf(struct ohca_dev *dev, struct ohca_cq *cq, struct ohca_pl *pl,
			      unsigned int cqe)
{
	int ret;

	cq->log_size = ohca_log2_up(cqe);
	ret = ohca_buf_alloc(dev, &cq->buf, ohca_cq_buf_size(cq->log_size));
	if (ret)
		return ret;
	return ohca_pl_from_buf(dev, pl, &cq->buf);
}

static void ohca_cq_free_buf(struct ohca_dev *dev, struct ohca_cq *cq)
{
	xa_destroy(&cq->qps);
	ohca_umem_release(dev, cq->umem);
	ohca_buf_free(dev, &cq->buf);
}

/*
 * Removes the CQ from the array, destroys it in the device, and waits for the last reference. After
 * this no handler of the CQ runs. Pollers may still poll the CQ, but do not arm it.
 */
static void ohca_cq_hw_destroy(struct ohca_dev *dev, struct ohca_cq *cq)
{
	xa_erase(&dev->cqs, cq->cqn);
	spin_lock_irq(&cq->lock);
	cq->gone = true;
	spin_unlock_irq(&cq->lock);
	ohca_cmd_destroy(dev, OHCA_CMD_DESTROY_CQ, cq->cqn);
	ohca_sync_events(dev, true);
	ohca_obj_release(&cq->obj);
}

/* @attrs: NULL for a kernel consumer. */
static int ohca_cq_create(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			  struct uverbs_attr_bundle *attrs)
{
	struct ib_udata *udata = attrs ? &attrs->driver_udata : NULL;
	struct ohca_ucontext *ctx =
		rdma_udata_to_drv_context(udata, struct ohca_ucontext, ibucontext);
	struct ohca_dev *dev = to_ohca_dev(ibcq->device);
	struct ohca_cq *cq = to_ohca_cq(ibcq);
	struct ohca_create_cq_resp resp = {};
	struct ohca_cmd_create_cq in = {};
	struct ohca_pl pl = {};
	int ret;

	if (attr->flags & ~(ohca_has(dev, OHCA_FEATURE_TIMESTAMP) ?
			    IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION : 0))
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > 1u << dev->attr.log_max_cqe ||
	    attr->comp_vector >= dev->num_comp_eqs)
		return -EINVAL;

	spin_lock_init(&cq->lock);
	mutex_init(&cq->resize_lock);
	xa_init(&cq->qps);
	INIT_LIST_HEAD(&cq->send_qps);
	INIT_LIST_HEAD(&cq->recv_qps);
	ohca_obj_init(&cq->obj);
	cq->eq = &dev->comp_eqs[attr->comp_vector];

	if (udata)
		ret = ohca_cq_user_buf(dev, cq, &pl, attr->cqe, attrs);
	else
		ret = ohca_cq_kernel_buf(dev, cq, &pl, attr->cqe);
	if (ret)
		goto err;

	in.pl = pl.hw;
	in.uar = cpu_to_le32(ctx ? ctx->uar : 0);
	in.eqn = cpu_to_le32(cq->eq->eqn);
	in.log_size = cq->log_size;
	if (attr->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		in.flags = OHCA_CQ_TIMESTAMP;
	ret = ohca_cmd_create_cq(dev, &in, &cq->cqn);
	ohca_pl_free(dev, &pl);
	if (ret)
		goto err;
	ibcq->cqe = 1 << cq->log_size;

	ret = xa_insert(&dev->cqs, cq->cqn, &cq->obj, GFP_KERNEL);
	if (ret) {
		ohca_cmd_undo(dev, OHCA_CMD_DESTROY_CQ, cq->cqn, ret);
		goto err;
	}
	if (udata) {
		resp.cqn = cq->cqn;
		ret = ohca_udata_out(udata, &resp, sizeof(resp));
		if (ret) {
			ohca_cq_hw_destroy(dev, cq);
			goto err;
		}
	}
	return 0;

err:
	ohca_cq_free_buf(dev, cq);
	return ret;
}

/** ohca_create_cq - ib_device_ops.create_cq: for a kernel consumer; @attrs is NULL */
int ohca_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs)
{
	return ohca_cq_create(ibcq, attr, NULL);
}

/** ohca_create_user_cq - ib_device_ops.create_user_cq: for a process */
int ohca_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs)
{
	return ohca_cq_create(ibcq, attr, attrs);
}

/**
 * ohca_pre_destroy_cq - ib_device_ops.pre_destroy_cq: destroy a CQ in the device
 * @ibcq: the CQ; its memory stays allocated, because the core stops its pollers later
 *
 * Process context. Return: 0.
 */
int ohca_pre_destroy_cq(struct ib_cq *ibcq)
{
	ohca_cq_hw_destroy(to_ohca_dev(ibcq->device), to_ohca_cq(ibcq));
	return 0;
}

/** ohca_post_destroy_cq - ib_device_ops.post_destroy_cq: free the memory of a CQ */
void ohca_post_destroy_cq(struct ib_cq *ibcq)
{
	ohca_cq_free_buf(to_ohca_dev(ibcq->device), to_ohca_cq(ibcq));
}

/**
 * ohca_destroy_cq - ib_device_ops.destroy_cq
 * @ibcq: CQ to which no queue completes
 * @udata: not used
 *
 * Process context. Return: 0.
 */
int ohca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	ohca_pre_destroy_cq(ibcq);
	ohca_post_destroy_cq(ibcq);
	return 0;
}

/** ohca_modify_cq - ib_device_ops.modify_cq: moderation; @period in us */
int ohca_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	return ohca_cmd_modify_cq(to_ohca_dev(ibcq->device), to_ohca_cq(ibcq)->cqn, count, period);
}

/**
 * ohca_resize_user_cq - ib_device_ops.resize_user_cq: move a user CQ to another buffer
 * @ibcq: CQ of a process; the core lets several threads resize it at once
 * @cqe: smallest number of entries
 * @udata: struct ohca_resize_cq_req
 *
 * Return: 0, or a negative errno; then the CQ is unchanged.
 */
int ohca_resize_user_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibcq->device);
	struct ohca_cq *cq = to_ohca_cq(ibcq);
	struct ohca_cmd_resize_cq in = {};
	struct ohca_resize_cq_req req;
	struct ib_umem *umem;
	struct ohca_pl pl;
	int ret;

	ret = ohca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (req.comp_mask || req.reserved || !ohca_has(dev, OHCA_FEATURE_CQ_RESIZE))
		return -EOPNOTSUPP;
	if (!cqe || req.log_size > dev->attr.log_max_cqe || 1u << req.log_size < cqe)
		return -EINVAL;
	ret = ohca_queue_umem(dev, &pl, &umem, req.buf_addr, req.buf_size,
			      ohca_cq_buf_size(req.log_size));
	if (ret)
		return ret;

	in.pl = pl.hw;
	in.cqn = cpu_to_le32(cq->cqn);
	in.ci = cpu_to_le32(req.ci);
	in.log_size = req.log_size;
	/* the driver must replace memory in the order in which the device executes commands */
	mutex_lock(&cq->resize_lock);
	ret = ohca_cmd_resize_cq(dev, &in);
	if (!ret) {
		swap(cq->umem, umem);
		WRITE_ONCE(cq->log_size, req.log_size);
		ibcq->cqe = 1 << req.log_size;
	}
	mutex_unlock(&cq->resize_lock);
	ohca_pl_free(dev, &pl);
	/* the old memory, or the new memory if the device refused it */
	ohca_umem_release(dev, umem);
	return ret;
}
