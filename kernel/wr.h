/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: work queues of kernel QPs, and posting to them; wr.c. */
#ifndef OHCA_WR_H
#define OHCA_WR_H

#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

struct ohca_qp;

/**
 * struct ohca_sq_shadow - the driver's record of a send WQE
 * @wr_id: wr_id of the consumer
 * @byte_len: bytes of the data
 * @opcode: enum ib_wc_opcode
 * @bbs: basic blocks of the WQE that starts here, 0 if none does
 * @signaled: whether it generates a CQE
 */
struct ohca_sq_shadow {
	u64 wr_id;
	u32 byte_len;
	u8 opcode;
	u8 bbs;
	bool signaled;
};

/**
 * struct ohca_rq_shadow - the driver's record of a receive WQE
 * @wr_id: wr_id of the consumer
 * @length: bytes of its SGEs
 * @used: SRQ: the WQE is posted and not completed
 */
struct ohca_rq_shadow {
	u64 wr_id;
	u32 length;
	bool used;
};

/**
 * struct ohca_sq - send queue of a kernel QP
 * @lock: protects posting
 * @log: log2 of its BBs
 * @head: first BB of the next WQE, free running
 * @tail: first BB that is not completed, free running; polling advances it
 * @room: limit of BBs posted and not completed: the ring's size, or less during a resize
 * @max_sge: SGEs of a WQE
 * @max_inline: inline bytes of a WQE
 * @off: offset in the QP's buffer
 * @shadow: records of WQEs, by BB
 */
struct ohca_sq {
	spinlock_t lock;	/* see above */
	u32 log;
	u32 head;
	u32 tail;
	u32 room;
	u32 max_sge;
	u32 max_inline;
	size_t off;
	struct ohca_sq_shadow *shadow;
};

/**
 * struct ohca_rq - receive queue of a kernel QP; for a user QP only @log_stride is set
 * @lock: protects posting
 * @log: log2 of its WQEs
 * @log_stride: log2 of the stride in bytes
 * @head: next WQE, free running
 * @tail: first WQE that is not completed, free running; polling advances it
 * @room: limit of WQEs posted and not completed: the ring's size, or less during a resize
 * @max_sge: SGEs of a WQE
 * @shadow: records of WQEs
 */
struct ohca_rq {
	spinlock_t lock;	/* see above */
	u32 log;
	u32 log_stride;
	u32 head;
	u32 tail;
	u32 room;
	u32 max_sge;
	struct ohca_rq_shadow *shadow;
};

int ohca_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr);
int ohca_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr);
u32 ohca_build_recv_wqe(const struct ib_recv_wr *wr, u64 wr_id, void *wqe);
#if IS_ENABLED(CONFIG_KUNIT)
int ohca_build_send_wqe(const struct ohca_qp *qp, const struct ib_send_wr *wr, void *wqe,
			struct ohca_sq_shadow *shadow);
#endif

#endif /* OHCA_WR_H */
