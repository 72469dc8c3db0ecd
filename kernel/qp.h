/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA driver: queue pairs; qp.c, the sizes of their queues, qp_resize.c, and their attributes,
 * qp_attr.c. Posting is in wr.h.
 */
#ifndef OHCA_QP_H
#define OHCA_QP_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <rdma/ib_verbs.h>

#include "buf.h"
#include "obj.h"
#include "ohca_hw.h"
#include "wr.h"

struct ohca_dev;

/**
 * struct ohca_qp_mem - memory of the queues of a kernel QP, and their sizes
 * @buf: rings and doorbell record
 * @log_sq: log2 of the SQ in BBs
 * @log_rq: log2 of the RQ in WQEs
 * @sq: shadow of the SQ
 * @rq: shadow of the RQ; NULL if there is none
 */
struct ohca_qp_mem {
	struct ohca_buf buf;
	u32 log_sq;
	u32 log_rq;
	struct ohca_sq_shadow *sq;
	struct ohca_rq_shadow *rq;
};

/**
 * struct ohca_qp - a queue pair
 * @ibqp: the core's part
 * @handle: number in doorbells, commands and CQEs
 * @port: SMI and GSI: port, from 1
 * @mutex: serializes modify; protects @cap and @umem
 * @state: as last set or queried; posting reads it without a lock
 * @last_wqe: the device is dead and LAST_WQE_REACHED was raised
 * @obj: references of the driver, until destroy, and of event handlers
 * @user: a QP of a process, or an XRC target
 * @has_rq: has a receive queue of its own
 * @signal_all: every send WQE generates a CQE
 * @features: features of the device, copied for posting
 * @create_flags: enum ib_qp_create_flags as requested
 * @cap: capabilities in force
 * @umem: memory of a user QP
 * @buf: memory of a kernel QP
 * @db: kernel QP: doorbell record
 * @sq: kernel QP: send queue
 * @rq: kernel QP: receive queue
 * @send_link: in ohca_cq.send_qps
 * @recv_link: in ohca_cq.recv_qps
 */
struct ohca_qp {
	struct ib_qp ibqp;
	u32 handle;
	u32 port;
	struct mutex mutex;	/* see above */
	enum ib_qp_state state;
	int last_wqe;
	struct ohca_obj obj;
	bool user;
	bool has_rq;
	bool signal_all;
	u64 features;
	u32 create_flags;
	struct ib_qp_cap cap;
	struct ib_umem *umem;
	struct ohca_buf buf;
	struct ohca_hw_db *db;
	struct ohca_sq sq;
	struct ohca_rq rq;
	struct list_head send_link;
	struct list_head recv_link;
};

static inline struct ohca_qp *to_ohca_qp(struct ib_qp *ib)
{
	return container_of(ib, struct ohca_qp, ibqp);
}

/** ohca_is_special - whether a type is that of QP 0 or QP 1; any context */
static inline bool ohca_is_special(enum ib_qp_type type)
{
	return type == IB_QPT_SMI || type == IB_QPT_GSI;
}

/** ohca_is_datagram - whether a type sends unreliable datagrams, never a WRITE; any context */
static inline bool ohca_is_datagram(enum ib_qp_type type)
{
	return ohca_is_special(type) || type == IB_QPT_UD;
}

/** ohca_qp_has - whether a feature of the device, enum ohca_feature, is in force */
static inline bool ohca_qp_has(const struct ohca_qp *qp, enum ohca_feature feature)
{
	return qp->features & BIT_ULL(feature);
}

/* qp.c */
int ohca_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int ohca_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int ohca_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);
int ohca_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init);
void ohca_qp_last_wqe(struct ohca_qp *qp);

int ohca_qp_alloc_mem(struct ohca_dev *dev, struct ohca_qp *qp, const struct ib_qp_cap *cap,
		      struct ohca_qp_mem *mem);
void ohca_qp_swap_mem(struct ohca_qp *qp, struct ohca_qp_mem *mem);
void ohca_qp_free_mem(struct ohca_dev *dev, struct ohca_qp_mem *mem);
int ohca_qp_user_sizes(struct ohca_dev *dev, const struct ohca_qp *qp, const struct ib_qp_cap *cap,
		       u8 log_sq, u8 log_rq);
#if IS_ENABLED(CONFIG_KUNIT)
void ohca_sq_rewind(struct ohca_qp *qp);
void ohca_rq_rewind(struct ohca_qp *qp);
#endif

/* qp_resize.c */
int ohca_resize_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
#if IS_ENABLED(CONFIG_KUNIT)
int ohca_qp_narrow(struct ohca_qp *qp, u32 sq, u32 rq);
void ohca_qp_move(struct ohca_qp *qp, struct ohca_qp_mem *mem,
		  const struct ohca_resp_resize_qp *at);
#endif

/* qp_attr.c */
void ohca_av_pack(struct ohca_hw_av *av, const struct rdma_ah_attr *attr);
void ohca_av_unpack(struct ib_device *ibdev, struct rdma_ah_attr *attr,
		    const struct ohca_hw_av *av);
void ohca_qp_attr_pack(struct ohca_hw_qp_attr *hw, const struct ib_qp_attr *attr, int mask);
int ohca_qp_attr_unpack(struct ib_device *ibdev, struct ib_qp_attr *attr,
			const struct ohca_hw_qp_attr *hw);

#endif /* OHCA_QP_H */
