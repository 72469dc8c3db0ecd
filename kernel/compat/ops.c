// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Members of struct ib_device_ops that differ between kernels. The driver's functions have the form
 * of the newest kernel; wrappers adapt them to older kernels.
 */
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>
#include <rdma/uverbs_ioctl.h>

#include "counters.h"
#include "cq.h"
#include "mr.h"
#include "ops.h"
#include "paged.h"
#include "port.h"
#include "restrack.h"

/* ---- CQs ---- */

#ifndef OHCA_HAVE_CREATE_USER_CQ
#ifdef OHCA_HAVE_CREATE_CQ_ATTRS
static int compat_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			    struct uverbs_attr_bundle *attrs)
{
	return attrs ? ohca_create_user_cq(ibcq, attr, attrs) : ohca_create_cq(ibcq, attr, NULL);
}
#else
static int compat_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			    struct ib_udata *udata)
{
	if (!udata)
		return ohca_create_cq(ibcq, attr, NULL);
	return ohca_create_user_cq(ibcq, attr, rdma_udata_to_uverbs_attr_bundle(udata));
}
#endif
#endif

#ifndef OHCA_HAVE_RESIZE_USER_CQ
static int compat_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata)
{
	if (!udata)
		return -EOPNOTSUPP;
	return cqe > 0 ? ohca_resize_user_cq(ibcq, cqe, udata) : -EINVAL;
}
#endif

#ifndef OHCA_HAVE_PRE_DESTROY_CQ
/*
 * The core stops its poller before it calls this function, but an event in between can start the
 * poller again; so this function stops it once more. If comp_wq is set, the core polls in a work
 * item. Polling in a softirq cannot start again, because the core has disabled it.
 */
static int compat_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	ohca_pre_destroy_cq(ibcq);
	if (ibcq->comp_wq)
		cancel_work_sync(&ibcq->work);
	ohca_post_destroy_cq(ibcq);
	return 0;
}
#endif

/* ---- regions ---- */

#ifndef OHCA_HAVE_DMAH
static struct ib_mr *compat_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt,
					int access, struct ib_udata *udata)
{
	return ohca_reg_user_mr(ibpd, start, length, virt, access, NULL, udata);
}

#ifdef OHCA_HAVE_DMABUF_ATTRS
static struct ib_mr *compat_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 virt,
					       int fd, int access, struct uverbs_attr_bundle *attrs)
{
	return ohca_reg_user_mr_dmabuf(ibpd, offset, length, virt, fd, access, NULL, attrs);
}
#else
static struct ib_mr *compat_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 virt,
					       int fd, int access, struct ib_udata *udata)
{
	return ohca_reg_user_mr_dmabuf(ibpd, offset, length, virt, fd, access, NULL,
				       rdma_udata_to_uverbs_attr_bundle(udata));
}
#endif
#endif

/* ---- counters ---- */

#ifdef OHCA_HAVE_COUNTER_INIT
/* The core calls this operation without checking that it exists. */
static void counter_init(struct rdma_counter *counter)
{
}
#endif

#ifndef OHCA_HAVE_COUNTER_PORT
/* The driver does not use the port. */
static int compat_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp)
{
	return ohca_counter_bind_qp(counter, ibqp, 0);
}

static int compat_counter_unbind_qp(struct ib_qp *ibqp)
{
	return ohca_counter_unbind_qp(ibqp, 0);
}
#endif

/* ---- ports ---- */

#ifdef OHCA_HAVE_QUERY_PORT_SPEED
/* @speed: in units of 100 Mb/s; from the attributes also if the port is not ACTIVE. */
static int query_port_speed(struct ib_device *ibdev, u32 port, u64 *speed)
{
	struct ib_port_speed_info info;
	struct ib_port_attr attr = {};
	int ret;

	ret = ohca_query_port(ibdev, port, &attr);
	if (!ret)
		ret = ib_port_attr_to_speed_info(&attr, &info);
	if (!ret)
		*speed = info.rate;
	return ret;
}
#endif

const struct ib_device_ops ohca_compat_ops = {
#ifdef OHCA_HAVE_CREATE_USER_CQ
	.create_cq = ohca_create_cq,
	.create_user_cq = ohca_create_user_cq,
#else
	.create_cq = compat_create_cq,
#endif
#ifdef OHCA_HAVE_RESIZE_USER_CQ
	.resize_user_cq = ohca_resize_user_cq,
#else
	.resize_cq = compat_resize_cq,
#endif
#ifdef OHCA_HAVE_PRE_DESTROY_CQ
	.destroy_cq = ohca_destroy_cq,
	.post_destroy_cq = ohca_post_destroy_cq,
	.pre_destroy_cq = ohca_pre_destroy_cq,
#else
	.destroy_cq = compat_destroy_cq,
#endif
#ifdef OHCA_HAVE_DMAH
	.reg_user_mr = ohca_reg_user_mr,
	.reg_user_mr_dmabuf = ohca_reg_user_mr_dmabuf,
#else
	.reg_user_mr = compat_reg_user_mr,
	.reg_user_mr_dmabuf = compat_reg_user_mr_dmabuf,
#endif
#ifdef OHCA_HAVE_COUNTER_PORT
	.counter_bind_qp = ohca_counter_bind_qp,
	.counter_unbind_qp = ohca_counter_unbind_qp,
#else
	.counter_bind_qp = compat_counter_bind_qp,
	.counter_unbind_qp = compat_counter_unbind_qp,
#endif
#ifdef OHCA_HAVE_COUNTER_INIT
	.counter_init = counter_init,
	.size_rdma_counter = sizeof(struct rdma_counter),
#endif
#ifdef OHCA_HAVE_QUERY_PORT_SPEED	/* else consumers compute it from the attributes */
	.query_port_speed = query_port_speed,
#endif
#ifdef OHCA_HAVE_FILL_RES_SRQ	/* else `rdma resource show srq` shows no details of the driver */
	.fill_res_srq_entry = ohca_fill_res_srq_entry,
	.fill_res_srq_entry_raw = ohca_fill_res_srq_entry_raw,
#endif
};
