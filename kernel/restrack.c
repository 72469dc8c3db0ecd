// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Details for `rdma resource show`. Every user may read those of -dd: they are state of the driver,
 * contain no address, and need no command. Only the administrator may read the raw contexts of the
 * device (-r).
 */
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "aq.h"
#include "cq.h"
#include "dev.h"
#include "mr.h"
#include "qp.h"
#include "restrack.h"
#include "ring.h"
#include "srq.h"

/* Ends the nested details of an object. Removes all of them if the message had no room. */
static int ohca_end_details(struct sk_buff *msg, struct nlattr *nest, int err)
{
	if (err) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}

static int ohca_put_raw(struct sk_buff *msg, struct ohca_dev *dev, enum ohca_context_kind kind,
			u32 handle, void *ctx, size_t size)
{
	int ret = ohca_cmd_query_context(dev, kind, handle, ctx, size);

	return ret ?: nla_put(msg, RDMA_NLDEV_ATTR_RES_RAW, size, ctx);
}

/** ohca_fill_res_qp_entry - ib_device_ops.fill_res_qp_entry; also of a dead device */
int ohca_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct ohca_qp *qp = to_ohca_qp(ibqp);
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	int err;

	if (!nest)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_u32(msg, "handle", qp->handle) ?:
	      rdma_nl_put_driver_u32(msg, "max_send_wr", READ_ONCE(qp->cap.max_send_wr)) ?:
	      rdma_nl_put_driver_u32(msg, "max_recv_wr", READ_ONCE(qp->cap.max_recv_wr));
	if (!qp->user && !err)
		err = rdma_nl_put_driver_u32(msg, "sq_head", READ_ONCE(qp->sq.head)) ?:
		      rdma_nl_put_driver_u32(msg, "sq_tail", READ_ONCE(qp->sq.tail)) ?:
		      rdma_nl_put_driver_u32(msg, "rq_head", READ_ONCE(qp->rq.head)) ?:
		      rdma_nl_put_driver_u32(msg, "rq_tail", READ_ONCE(qp->rq.tail));
	return ohca_end_details(msg, nest, err);
}

/** ohca_fill_res_qp_entry_raw - ib_device_ops.fill_res_qp_entry_raw */
int ohca_fill_res_qp_entry_raw(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct ohca_hw_qp_context ctx;

	return ohca_put_raw(msg, to_ohca_dev(ibqp->device), OHCA_CONTEXT_QP,
			    to_ohca_qp(ibqp)->handle, &ctx, sizeof(ctx));
}

/** ohca_fill_res_cq_entry - ib_device_ops.fill_res_cq_entry; also of a dead device */
int ohca_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct ohca_cq *cq = to_ohca_cq(ibcq);
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	int err;

	if (!nest)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_u32(msg, "cqn_hw", cq->cqn) ?:
	      rdma_nl_put_driver_u32(msg, "eqn", cq->eq->eqn) ?:
	      rdma_nl_put_driver_u32(msg, "vector", cq->eq->vector);
	if (!cq->umem && !err)
		err = rdma_nl_put_driver_u32(msg, "ci", READ_ONCE(cq->ci));
	return ohca_end_details(msg, nest, err);
}

/** ohca_fill_res_cq_entry_raw - ib_device_ops.fill_res_cq_entry_raw */
int ohca_fill_res_cq_entry_raw(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct ohca_hw_cq_context ctx;

	return ohca_put_raw(msg, to_ohca_dev(ibcq->device), OHCA_CONTEXT_CQ,
			    to_ohca_cq(ibcq)->cqn, &ctx, sizeof(ctx));
}

/** ohca_fill_res_srq_entry - ib_device_ops.fill_res_srq_entry; also of a dead device */
int ohca_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct ohca_srq *srq = to_ohca_srq(ibsrq);
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	int err;

	if (!nest)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_u32(msg, "srqn_hw", srq->srqn) ?:
	      rdma_nl_put_driver_u32(msg, "wqes", ohca_entries(READ_ONCE(srq->log)));
	if (!srq->umem && !err)
		err = rdma_nl_put_driver_u32(msg, "head", READ_ONCE(srq->head));
	return ohca_end_details(msg, nest, err);
}

/** ohca_fill_res_srq_entry_raw - ib_device_ops.fill_res_srq_entry_raw */
int ohca_fill_res_srq_entry_raw(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct ohca_hw_srq_context ctx;

	return ohca_put_raw(msg, to_ohca_dev(ibsrq->device), OHCA_CONTEXT_SRQ,
			    to_ohca_srq(ibsrq)->srqn, &ctx, sizeof(ctx));
}

/** ohca_fill_res_mr_entry - ib_device_ops.fill_res_mr_entry; also of a dead device */
int ohca_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct nlattr *nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	int err;

	if (!nest)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_u32_hex(msg, "access", to_ohca_mr(ibmr)->access);
	return ohca_end_details(msg, nest, err);
}

/** ohca_fill_res_mr_entry_raw - ib_device_ops.fill_res_mr_entry_raw */
int ohca_fill_res_mr_entry_raw(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct ohca_hw_mr_context ctx;

	return ohca_put_raw(msg, to_ohca_dev(ibmr->device), OHCA_CONTEXT_MR, ibmr->lkey, &ctx,
			    sizeof(ctx));
}
