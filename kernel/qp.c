// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Queue pairs: creation, destruction and attributes (IBTA vol 1, 11.2.5). Posting is in wr.c.
 */
#include <linux/lockdep.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <kunit/visibility.h>
#include <rdma/ohca-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "buf.h"
#include "cq.h"
#include "dev.h"
#include "eq.h"
#include "fatal.h"
#include "obj.h"
#include "qp.h"
#include "srq.h"
#include "verbs.h"

/**
 * ohca_qp_last_wqe - raise the event LAST_WQE_REACHED of a QP of a dead device
 * @qp: the QP
 *
 * Process context, not under the QP's mutex. A consumer that drains the QP waits for this event.
 * It is raised once until the consumer resets the QP.
 */
void ohca_qp_last_wqe(struct ohca_qp *qp)
{
	struct ib_event event = {
		.device = qp->ibqp.device,
		.event = IB_EVENT_QP_LAST_WQE_REACHED,
		.element.qp = &qp->ibqp,
	};

	if (!qp->ibqp.srq || xchg(&qp->last_wqe, 1))
		return;
	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

/* Whether a QP has neither a receive queue nor an SRQ: XRC initiator and target. */
static bool ohca_is_xrc(enum ib_qp_type type)
{
	return type == IB_QPT_XRC_INI || type == IB_QPT_XRC_TGT;
}

static int ohca_qp_check(struct ohca_dev *dev, const struct ib_qp_init_attr *init, bool user)
{
	const struct ohca_hw_device_attr *a = &dev->attr;
	const struct ib_qp_cap *cap = &init->cap;

	switch (init->qp_type) {
	case IB_QPT_SMI:
	case IB_QPT_GSI:
		if (user || !init->port_num || init->port_num > a->num_ports || init->srq)
			return -EINVAL;
		break;
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
		break;
	case IB_QPT_XRC_INI:
		/* kernel work requests have no field for the remote SRQ */
		if (!user || !ohca_has_xrc(dev))
			return -EOPNOTSUPP;
		break;
	case IB_QPT_XRC_TGT:
		if (!ohca_has_xrc(dev))
			return -EOPNOTSUPP;
		return init->xrcd && !init->create_flags ? 0 : -EINVAL;
	default:
		return -EOPNOTSUPP;
	}
	if (init->create_flags &
	    ~(IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK | IB_QP_CREATE_IPOIB_UD_LSO))
		return -EOPNOTSUPP;
	if (init->create_flags & IB_QP_CREATE_IPOIB_UD_LSO &&
	    (user || !ohca_has(dev, OHCA_FEATURE_TSO)))
		return -EOPNOTSUPP;
	if (init->create_flags && init->qp_type != IB_QPT_UD)
		return -EINVAL;
	if (!init->send_cq || (!init->recv_cq && !ohca_is_xrc(init->qp_type)) ||
	    (init->srq && ohca_is_xrc(init->qp_type)) || init->rwq_ind_tbl)
		return -EINVAL;
	/* the device uses the send queue of a QP whose SRQ has tags */
	if (init->srq && init->srq->srq_type == IB_SRQT_TM &&
	    (init->qp_type != IB_QPT_RC || cap->max_send_wr))
		return -EINVAL;
	if (cap->max_send_wr > ohca_max_qp_wr(a) || cap->max_recv_wr > ohca_max_qp_wr(a) ||
	    cap->max_send_sge > a->max_sge || cap->max_recv_sge > a->max_sge ||
	    cap->max_inline_data > le16_to_cpu(a->max_inline))
		return -EINVAL;
	return 0;
}

/**
 * ohca_qp_user_sizes - check the sizes of a process's queues
 * @dev: the device
 * @qp: user QP
 * @cap: capabilities that the queues must have
 * @log_sq: log2 of the SQ in BBs
 * @log_rq: log2 of the RQ in WQEs; ignored without an RQ
 *
 * Return: 0 or -EINVAL.
 */
int ohca_qp_user_sizes(struct ohca_dev *dev, const struct ohca_qp *qp, const struct ib_qp_cap *cap,
		       u8 log_sq, u8 log_rq)
{
	const struct ohca_hw_device_attr *a = &dev->attr;

	if (log_sq > a->log_max_sq_bbs || 1u << log_sq < cap->max_send_wr)
		return -EINVAL;
	if (qp->has_rq && (log_rq > a->log_max_rq_wqes || 1u << log_rq < cap->max_recv_wr))
		return -EINVAL;
	return 0;
}

/* Sets the sizes and the memory of a user QP. */
static int ohca_qp_user_buf(struct ohca_dev *dev, struct ohca_qp *qp, struct ohca_pl *pl,
			    struct ohca_cmd_create_qp *in, const struct ib_qp_cap *cap,
			    struct ib_udata *udata)
{
	struct ohca_create_qp_req req;
	int ret;

	ret = ohca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (req.comp_mask || req.reserved)
		return -EOPNOTSUPP;
	ret = ohca_qp_user_sizes(dev, qp, cap, req.log_sq, req.log_rq);
	if (ret)
		return ret;
	if (qp->has_rq &&
	    (req.log_rq_stride < OHCA_MIN_LOG_RQ_STRIDE ||
	     req.log_rq_stride > OHCA_MAX_LOG_RQ_STRIDE ||
	     ohca_rq_stride_sges(req.log_rq_stride) < cap->max_recv_sge))
		return -EINVAL;

	in->log_sq = req.log_sq;
	if (qp->has_rq) {
		in->log_rq = req.log_rq;
		in->log_rq_stride = req.log_rq_stride;
		qp->rq.log_stride = req.log_rq_stride;
	}
	return ohca_queue_umem(dev, pl, &qp->umem, req.buf_addr, req.buf_size,
			       ohca_qp_buf_size(qp->has_rq, in->log_rq, in->log_rq_stride,
						in->log_sq));
}

/* Returns log2 of the SQ in BBs for @cap, or -EINVAL. */
static int ohca_sq_log(struct ohca_dev *dev, const struct ohca_qp *qp, const struct ib_qp_cap *cap)
{
	u64 bbs;

	bbs = ohca_sq_wqe_bbs(ohca_is_datagram(qp->ibqp.qp_type), cap->max_send_sge,
			      cap->max_inline_data);
	/* a masked atomic with its SGE is one segment longer than a BB */
	if (qp->ibqp.qp_type == IB_QPT_RC && ohca_qp_has(qp, OHCA_FEATURE_EXT_ATOMIC))
		bbs = max(bbs, 2ull);
	if (qp->create_flags & IB_QP_CREATE_IPOIB_UD_LSO)
		bbs = min_t(u64, OHCA_MAX_WQE_BBS,
			    DIV_ROUND_UP((ohca_wqe_hdr_segs(true) + 1 + cap->max_send_sge) *
					 OHCA_SEG_SIZE + OHCA_MAX_TSO_HDR, OHCA_BB_SIZE));
	bbs *= max(cap->max_send_wr, 1u);
	if (bbs > 1u << dev->attr.log_max_sq_bbs)
		return -EINVAL;
	/* even a ring for one WQE holds the largest WQE */
	return ohca_log2_up(bbs);
}

/** ohca_qp_free_mem - free the memory that ohca_qp_alloc_mem() allocated */
void ohca_qp_free_mem(struct ohca_dev *dev, struct ohca_qp_mem *mem)
{
	ohca_buf_free(dev, &mem->buf);
	kvfree(mem->sq);
	kvfree(mem->rq);
}

/**
 * ohca_qp_alloc_mem - allocate memory for the queues of a kernel QP
 * @dev: the device
 * @qp: the QP; the stride of its RQ is known
 * @cap: capabilities that the queues must have
 * @mem: set on success
 *
 * Process context. Return: 0, -EINVAL if the device does not support the sizes, or -ENOMEM.
 */
int ohca_qp_alloc_mem(struct ohca_dev *dev, struct ohca_qp *qp, const struct ib_qp_cap *cap,
		      struct ohca_qp_mem *mem)
{
	int ret = ohca_sq_log(dev, qp, cap);

	memset(mem, 0, sizeof(*mem));
	if (ret < 0)
		return ret;
	mem->log_sq = ret;
	mem->sq = kvcalloc(1u << mem->log_sq, sizeof(*mem->sq), GFP_KERNEL);
	if (qp->has_rq) {
		mem->log_rq = ohca_log2_up(cap->max_recv_wr);
		mem->rq = kvcalloc(1u << mem->log_rq, sizeof(*mem->rq), GFP_KERNEL);
	}
	ret = -ENOMEM;
	if (mem->sq && (mem->rq || !qp->has_rq))
		ret = ohca_buf_alloc(dev, &mem->buf,
				     ohca_qp_buf_size(qp->has_rq, mem->log_rq, qp->rq.log_stride,
						      mem->log_sq));
	if (ret)
		ohca_qp_free_mem(dev, mem);
	return ret;
}

/**
 * ohca_qp_swap_mem - exchange the memory of a kernel QP's queues
 * @qp: the QP
 * @mem: the new memory; set to the old memory
 *
 * The QP is not published yet, or the caller holds the locks that exclude posting and polling.
 */
void ohca_qp_swap_mem(struct ohca_qp *qp, struct ohca_qp_mem *mem)
{
	swap(qp->buf, mem->buf);
	swap(qp->sq.log, mem->log_sq);
	swap(qp->rq.log, mem->log_rq);
	swap(qp->sq.shadow, mem->sq);
	swap(qp->rq.shadow, mem->rq);
	qp->sq.off = ohca_sq_offset(qp->has_rq, qp->rq.log, qp->rq.log_stride);
	qp->sq.room = 1u << qp->sq.log;
	qp->rq.room = 1u << qp->rq.log;
	qp->db = ohca_buf_at(&qp->buf, OHCA_DB_OFFSET);
}

/* Sets the sizes and the memory of a kernel QP. */
static int ohca_qp_kernel_buf(struct ohca_dev *dev, struct ohca_qp *qp, struct ohca_pl *pl,
			      struct ohca_cmd_create_qp *in, const struct ib_qp_cap *cap)
{
	struct ohca_qp_mem mem;
	int ret;

	spin_lock_init(&qp->sq.lock);
	spin_lock_init(&qp->rq.lock);
	qp->sq.max_sge = cap->max_send_sge;
	qp->sq.max_inline = cap->max_inline_data;
	if (qp->has_rq) {
		qp->rq.log_stride = ohca_rq_log_stride(cap->max_recv_sge);
		qp->rq.max_sge = cap->max_recv_sge;
	}
	ret = ohca_qp_alloc_mem(dev, qp, cap, &mem);
	if (ret)
		return ret;
	ohca_qp_swap_mem(qp, &mem);
	in->log_sq = qp->sq.log;
	in->log_rq = qp->rq.log;
	in->log_rq_stride = qp->rq.log_stride;
	return ohca_pl_from_buf(dev, pl, &qp->buf);
}

static void ohca_qp_free_buf(struct ohca_dev *dev, struct ohca_qp *qp)
{
	ohca_umem_release(dev, qp->umem);
	ohca_buf_free(dev, &qp->buf);
	kvfree(qp->sq.shadow);
	kvfree(qp->rq.shadow);
}

/* Adds the QP to its CQs, so that polling finds it. */
static int ohca_qp_link(struct ohca_qp *qp)
{
	struct ohca_cq *scq = to_ohca_cq(qp->ibqp.send_cq);
	struct ohca_cq *rcq = to_ohca_cq(qp->ibqp.recv_cq);
	int ret;

	ret = xa_insert(&scq->qps, qp->handle, qp, GFP_KERNEL);
	if (ret)
		return ret;
	if (rcq != scq) {
		ret = xa_insert(&rcq->qps, qp->handle, qp, GFP_KERNEL);
		if (ret) {
			xa_erase(&scq->qps, qp->handle);
			return ret;
		}
	}
	spin_lock_irq(&scq->lock);
	list_add_tail(&qp->send_link, &scq->send_qps);
	spin_unlock_irq(&scq->lock);
	spin_lock_irq(&rcq->lock);
	list_add_tail(&qp->recv_link, &rcq->recv_qps);
	spin_unlock_irq(&rcq->lock);
	return 0;
}

/* Removes the QP and its CQEs from its CQs. No poller uses the QP after this. */
static void ohca_qp_unlink(struct ohca_qp *qp)
{
	struct ohca_cq *scq = to_ohca_cq(qp->ibqp.send_cq);
	struct ohca_cq *rcq = to_ohca_cq(qp->ibqp.recv_cq);

	xa_erase(&scq->qps, qp->handle);
	if (rcq != scq)
		xa_erase(&rcq->qps, qp->handle);
	spin_lock_irq(&scq->lock);
	list_del(&qp->send_link);
	spin_unlock_irq(&scq->lock);
	spin_lock_irq(&rcq->lock);
	list_del(&qp->recv_link);
	spin_unlock_irq(&rcq->lock);
	ohca_cq_clean(scq, qp);
	if (rcq != scq)
		ohca_cq_clean(rcq, qp);
}

/*
 * Has the device complete the WQE of an SRQ that a message to a kernel QP is using. The device does
 * so when the QP moves to ERR. A reset or destroy of the QP would lose the WQE.
 */
static void ohca_qp_complete_srq_wqe(struct ohca_dev *dev, struct ohca_qp *qp)
{
	const struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ohca_hw_qp_attr hw;

	if (qp->user || !qp->ibqp.srq || qp->state == IB_QPS_RESET)
		return;
	ohca_qp_attr_pack(&hw, &attr, IB_QP_STATE);
	/* a QP that cannot move to ERR is in ERR already, or the device is dead */
	ohca_cmd_modify_qp(dev, qp->handle, IB_QP_STATE, &hw, true);
}

/* Removes the object from its array, destroys it in the device, waits for the last reference. */
static void ohca_qp_hw_destroy(struct ohca_dev *dev, struct ohca_qp *qp)
{
	if (!qp->user)
		mutex_lock(&dev->kqp_lock);
	xa_erase(&dev->qps, qp->handle);
	ohca_qp_complete_srq_wqe(dev, qp);
	ohca_cmd_destroy(dev, OHCA_CMD_DESTROY_QP, qp->handle);
	if (!qp->user) {
		ohca_qp_unlink(qp);
		mutex_unlock(&dev->kqp_lock);
	}
	ohca_sync_events(dev, false);
	ohca_obj_release(&qp->obj);
}

/* Creates the QP in the device and adds it to the array. */
static int ohca_qp_hw_create(struct ohca_dev *dev, struct ohca_qp *qp,
			     const struct ohca_cmd_create_qp *in)
{
	enum ib_qp_type type = qp->ibqp.qp_type;
	int ret;

	if (!qp->user)
		mutex_lock(&dev->kqp_lock);
	ret = ohca_cmd_create_qp(dev, in, &qp->handle);
	if (ret)
		goto out;
	qp->ibqp.qp_num = qp->handle;
	if (ohca_is_special(type)) {
		qp->ibqp.qp_num = type == IB_QPT_GSI;
		if (qp->handle != 2 * (qp->port - 1) + qp->ibqp.qp_num)
			ret = -EBUSY;	/* the handle is in use */
	}
	if (!ret && !qp->user)
		ret = ohca_qp_link(qp);
	if (!ret) {
		/* last, because event handlers and debugfs take references from here on */
		ret = xa_insert(&dev->qps, qp->handle, &qp->obj, GFP_KERNEL);
		if (ret && !qp->user)
			ohca_qp_unlink(qp);
	}
	if (ret)
		ohca_cmd_undo(dev, OHCA_CMD_DESTROY_QP, qp->handle, ret);
out:
	if (!qp->user)
		mutex_unlock(&dev->kqp_lock);
	return ret;
}

/* Sets the PD, CQs, SRQ and XRC domain of the QP. */
static void ohca_qp_refs(struct ib_qp *ibqp, const struct ib_qp_init_attr *init,
			 struct ohca_cmd_create_qp *in)
{
	const struct ohca_pd *pd;

	if (init->qp_type == IB_QPT_XRC_TGT) {
		in->srqn = cpu_to_le32(to_ohca_xrcd(init->xrcd)->xrcdn);
		return;
	}
	pd = to_ohca_pd(ibqp->pd);
	in->pdn = cpu_to_le32(pd->pdn);
	in->uar = cpu_to_le32(pd->uar);
	in->send_cqn = cpu_to_le32(to_ohca_cq(init->send_cq)->cqn);
	if (!ohca_is_xrc(init->qp_type))
		in->recv_cqn = cpu_to_le32(to_ohca_cq(init->recv_cq)->cqn);
	if (init->srq)
		in->srqn = cpu_to_le32(to_ohca_srq(init->srq)->srqn);
}

/** ohca_create_qp - ib_device_ops.create_qp; no PD and no @udata for an XRC target */
int ohca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);
	struct ohca_qp *qp = to_ohca_qp(ibqp);
	struct ohca_create_qp_resp resp = {};
	struct ohca_cmd_create_qp in = {};
	struct ohca_pl pl = {};
	int ret;

	ret = ohca_qp_check(dev, init, udata);
	if (ret)
		return ret;
	/* the core passes no udata for an XRC target, which belongs to no process */
	qp->user = udata || init->qp_type == IB_QPT_XRC_TGT;
	/* a user QP without an SRQ always has an RQ, also with max_recv_wr 0 */
	qp->has_rq = !init->srq && (udata || init->cap.max_recv_wr) &&
		     !ohca_is_xrc(init->qp_type);
	qp->signal_all = init->sq_sig_type == IB_SIGNAL_ALL_WR &&
			 init->qp_type != IB_QPT_XRC_TGT;
	qp->features = dev->features;
	qp->create_flags = init->create_flags;
	qp->state = IB_QPS_RESET;
	qp->port = ohca_is_special(init->qp_type) ? init->port_num : 0;
	mutex_init(&qp->mutex);
	ohca_obj_init(&qp->obj);

	if (init->qp_type == IB_QPT_XRC_TGT)
		memset(&init->cap, 0, sizeof(init->cap));
	else if (udata)
		ret = ohca_qp_user_buf(dev, qp, &pl, &in, &init->cap, udata);
	else
		ret = ohca_qp_kernel_buf(dev, qp, &pl, &in, &init->cap);
	if (ret)
		goto err_buf;
	if (!qp->has_rq) {
		init->cap.max_recv_wr = 0;
		init->cap.max_recv_sge = 0;
	}
	qp->cap = init->cap;

	in.pl = pl.hw;
	ohca_qp_refs(ibqp, init, &in);
	in.type = init->qp_type;
	in.port = qp->port;
	if (qp->signal_all)
		in.flags |= OHCA_QP_SIGNAL_ALL;
	if (init->srq)
		in.flags |= OHCA_QP_SRQ;
	else if (!qp->has_rq)
		in.flags |= OHCA_QP_NO_RQ;
	if (!qp->user)
		in.flags |= OHCA_QP_PRIVILEGED;
	if (init->create_flags & IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK)
		in.flags |= OHCA_QP_BLOCK_LOOPBACK;
	ret = ohca_qp_hw_create(dev, qp, &in);
	ohca_pl_free(dev, &pl);
	if (ret)
		goto err_buf;

	if (udata) {
		resp.handle = qp->handle;
		ret = ohca_udata_out(udata, &resp, sizeof(resp));
		if (ret) {
			ohca_qp_hw_destroy(dev, qp);
			goto err_buf;
		}
	}
	return 0;

err_buf:
	ohca_qp_free_buf(dev, qp);
	return ret;
}

/** ohca_destroy_qp - ib_device_ops.destroy_qp; process context. Return: 0 */
int ohca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);
	struct ohca_qp *qp = to_ohca_qp(ibqp);

	ohca_qp_hw_destroy(dev, qp);
	ohca_qp_free_buf(dev, qp);
	return 0;
}

/*
 * ohca_sq_rewind - set the SQ's indices to 0 after the device has reset the QP
 *
 * Under the SQ's lock, so that it does not overwrite the record of a concurrent post.
 */
VISIBLE_IF_KUNIT void ohca_sq_rewind(struct ohca_qp *qp)
{
	lockdep_assert_held(&qp->sq.lock);
	qp->sq.head = 0;
	qp->sq.tail = 0;
	qp->db->sq_pi = 0;
	qp->db->sq_event = 0;
	qp->db->sq_ci = 0;
}

/* ohca_rq_rewind - the same for the RQ, under its lock */
VISIBLE_IF_KUNIT void ohca_rq_rewind(struct ohca_qp *qp)
{
	lockdep_assert_held(&qp->rq.lock);
	qp->rq.head = 0;
	qp->rq.tail = 0;
	qp->db->rq_pi = 0;
	qp->db->rq_event = 0;
	qp->db->rq_ci = 0;
}

/* After the device has reset the QP. Polling advances a tail under the CQ's lock. */
static void ohca_qp_rewind(struct ohca_qp *qp)
{
	struct ohca_cq *scq = to_ohca_cq(qp->ibqp.send_cq);
	struct ohca_cq *rcq = to_ohca_cq(qp->ibqp.recv_cq);

	ohca_cq_clean(scq, qp);
	if (rcq != scq)
		ohca_cq_clean(rcq, qp);
	spin_lock_irq(&scq->lock);
	spin_lock(&qp->sq.lock);
	ohca_sq_rewind(qp);
	spin_unlock(&qp->sq.lock);
	spin_unlock_irq(&scq->lock);
	spin_lock_irq(&rcq->lock);
	spin_lock(&qp->rq.lock);
	ohca_rq_rewind(qp);
	spin_unlock(&qp->rq.lock);
	spin_unlock_irq(&rcq->lock);
}

/** ohca_modify_qp - ib_device_ops.modify_qp; ohca_resize_qp() executes it with IB_QP_CAP */
int ohca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);
	struct ohca_qp *qp = to_ohca_qp(ibqp);
	enum ib_qp_state cur, new;
	struct ohca_hw_qp_attr hw;
	bool dead = false, stop;
	int ret;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if (mask & IB_QP_CAP)
		return ohca_resize_qp(ibqp, attr, mask, udata);
	ret = ohca_udata_none(udata);
	if (ret)
		return ret;
	if (mask & IB_QP_ALT_PATH && !ohca_has(dev, OHCA_FEATURE_APM))
		return -EOPNOTSUPP;

	mutex_lock(&qp->mutex);
	cur = mask & IB_QP_CUR_STATE ? attr->cur_qp_state : qp->state;
	new = mask & IB_QP_STATE ? attr->qp_state : cur;
	ret = -EINVAL;
	if (!ib_modify_qp_is_ok(cur, new, ibqp->qp_type, mask))
		goto out;
	if (mask & IB_QP_PORT && (!attr->port_num || attr->port_num > dev->attr.num_ports))
		goto out;

	if (new == IB_QPS_RESET)
		ohca_qp_complete_srq_wqe(dev, qp);
	ohca_qp_attr_pack(&hw, attr, mask);
	stop = new == IB_QPS_ERR || new == IB_QPS_RESET;
	ret = ohca_cmd_modify_qp(dev, qp->handle, mask, &hw, stop && !qp->user);
	/* consumers stop a QP before they free its buffers, and rely on that */
	if (ret && !qp->user && stop)
		ohca_fatal(dev, "the device did not stop a QP");
	if (ret) {
		/* treat a QP of a dead device as stopped, so that a consumer can drain it */
		if (!ohca_is_quiet(dev) || !stop)
			goto out;
		ret = 0;
		dead = true;
	}
	WRITE_ONCE(qp->state, new);
	if (new == IB_QPS_RESET)
		WRITE_ONCE(qp->last_wqe, 0);
	if (new == IB_QPS_RESET && cur != IB_QPS_RESET && !qp->user)
		ohca_qp_rewind(qp);
out:
	mutex_unlock(&qp->mutex);
	/* a device that is not dead raises the event itself */
	if (dead && new == IB_QPS_ERR)
		ohca_qp_last_wqe(qp);
	return ret;
}

/** ohca_query_qp - ib_device_ops.query_qp */
int ohca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init)
{
	struct ohca_dev *dev = to_ohca_dev(ibqp->device);
	struct ohca_qp *qp = to_ohca_qp(ibqp);
	struct ohca_hw_qp_attr hw;
	int ret;

	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	mutex_lock(&qp->mutex);
	ret = ohca_cmd_query_qp(dev, qp->handle, &hw);
	if (!ret)
		ret = ohca_qp_attr_unpack(&dev->ibdev, attr, &hw);
	if (!ret)
		WRITE_ONCE(qp->state, attr->qp_state);
	attr->cap = qp->cap;
	mutex_unlock(&qp->mutex);
	if (ret)
		return ret;

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = attr->cap;
	init->sq_sig_type = qp->signal_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->qp_type = ibqp->qp_type;
	init->create_flags = qp->create_flags;
	init->port_num = qp->port;
	return 0;
}
