/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: completion queues; cq.c, and their polling, poll.c. */
#ifndef OHCA_CQ_H
#define OHCA_CQ_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "buf.h"
#include "obj.h"
#include "ohca_hw.h"

struct ohca_dev;
struct ohca_eq;
struct ohca_qp;

/**
 * struct ohca_cq - a completion queue
 * @ibcq: the core's part
 * @cqn: number
 * @log_size: log2 of its entries
 * @eq: its EQ
 * @obj: references of the driver, until destroy, and of event handlers
 * @resize_lock: user CQ: serializes resize; protects @umem and @log_size
 * @umem: memory of a user CQ
 * @buf: memory of a kernel CQ
 * @lock: kernel CQ: protects all fields that follow
 * @ci: consumer index
 * @arm_sn: events received
 * @armed: the device may send an event; not under @lock
 * @gone: the CQ is destroyed or about to be destroyed; it must not be armed again
 * @qps: kernel QPs that complete here, by handle; a CQE must name one of them
 * @send_qps: kernel QPs that complete sends here
 * @recv_qps: kernel QPs that complete receives here
 */
struct ohca_cq {
	struct ib_cq ibcq;
	u32 cqn;
	u32 log_size;
	struct ohca_eq *eq;
	struct ohca_obj obj;
	struct mutex resize_lock;	/* see above */
	struct ib_umem *umem;
	struct ohca_buf buf;
	spinlock_t lock;	/* see above */
	u32 ci;
	u32 arm_sn;
	int armed;
	bool gone;
	struct xarray qps;
	struct list_head send_qps;
	struct list_head recv_qps;
};

static inline struct ohca_cq *to_ohca_cq(struct ib_cq *ib)
{
	return container_of(ib, struct ohca_cq, ibcq);
}

/* cq.c */
int ohca_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs);
int ohca_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs);
int ohca_pre_destroy_cq(struct ib_cq *ibcq);
void ohca_post_destroy_cq(struct ib_cq *ibcq);
int ohca_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int ohca_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int ohca_resize_user_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata);
bool ohca_cq_wants_events(const struct ohca_cq *cq);
bool ohca_cq_comp_event(struct ohca_cq *cq);

/* poll.c */
int ohca_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int ohca_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
bool ohca_cq_has_work(struct ohca_cq *cq);
void ohca_cq_clean(struct ohca_cq *cq, struct ohca_qp *qp);
#if IS_ENABLED(CONFIG_KUNIT)
int ohca_wc_flags(u32 hw_flags);
void ohca_cqe_to_wc(const struct ohca_hw_cqe *cqe, struct ib_wc *wc);
#endif

#endif /* OHCA_CQ_H */
