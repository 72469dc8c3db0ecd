/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: shared receive queues; srq.c. */
#ifndef OHCA_SRQ_H
#define OHCA_SRQ_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "buf.h"
#include "obj.h"
#include "ohca_hw.h"
#include "wr.h"

struct ohca_dev;

/**
 * struct ohca_srq - a shared receive queue
 * @ibsrq: the core's part
 * @srqn: number
 * @log: log2 of its WQEs
 * @log_stride: log2 of the stride
 * @max_sge: SGEs of a WQE
 * @obj: references of the driver, until destroy, and of event handlers
 * @ops_size: bytes of list operations behind the WQEs, 0 without tags
 * @resize_lock: serializes resize; protects @umem and @log
 * @umem: memory of a user SRQ
 * @lock: kernel SRQ: protects all fields that follow, and @log
 * @buf: memory
 * @db: doorbell record
 * @head: producer index, free running
 * @used: WQEs posted and not completed
 * @room: limit of @used: the ring's size, or less during a resize
 * @num: entries of @shadow, at least the WQEs of the ring
 * @free: first free entry of @shadow, or one past the last
 * @shadow: records of WQEs; the wr_id of a WQE is the index
 * @next: free list: the entry after each free entry of @shadow
 */
struct ohca_srq {
	struct ib_srq ibsrq;
	u32 srqn;
	u32 log;
	u32 log_stride;
	u32 max_sge;
	struct ohca_obj obj;
	u64 ops_size;
	struct mutex resize_lock;	/* see above */
	struct ib_umem *umem;
	spinlock_t lock;	/* see above */
	struct ohca_buf buf;
	struct ohca_hw_db *db;
	u32 head;
	u32 used;
	u32 room;
	u32 num;
	u32 free;
	struct ohca_rq_shadow *shadow;
	u32 *next;
};

static inline struct ohca_srq *to_ohca_srq(struct ib_srq *ib)
{
	return container_of(ib, struct ohca_srq, ibsrq);
}

int ohca_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int ohca_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		    struct ib_udata *udata);
int ohca_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int ohca_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int ohca_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);
#if IS_ENABLED(CONFIG_KUNIT)
int ohca_srq_grow(struct ohca_srq *srq, u32 num);
int ohca_srq_narrow(struct ohca_srq *srq, u32 num);
void ohca_srq_move(struct ohca_srq *srq, struct ohca_buf *buf, u32 log, u32 pi);
#endif

#endif /* OHCA_SRQ_H */
