/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: the work queues of kernel QPs, and posting to them; wr.c. */
#ifndef OHCA_WR_H
#define OHCA_WR_H

#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

struct ohca_qp;

/**
 * struct ohca_sq_shadow - the driver's record of a send WQE
 * @wr_id: the consumer's
 * @byte_len: of a READ or atomic
 * @opcode: enum ib_wc_opcode
 * @bbs: basic blocks, 0: no WQE starts here
 * @signaled: whether it completes with a CQE of its own
 */
struct ohca_sq_shadow {
	u64 wr_id;
	u32 byte_len;
	u8 opcode;
	u8 bbs;
	bool signaled;
};

/** struct ohca_rq_shadow - of a receive WQE; @length: bytes posted */
struct ohca_rq_shadow {
	u64 wr_id;
	u32 length;
	bool used;
};

/**
 * struct ohca_sq - send queue of a kernel QP
 * @lock: protects posting
 * @log: log2 of its BBs
 * @head: BB that the next WQE takes, free running
 * @tail: first BB not yet completed, free running; moved by polling
 * @room: limit of BBs posted and not completed: the ring's size, or less during a resize
 * @max_sge: SGEs a WQE
 * @max_inline: inline bytes a WQE
 * @off: where it lies in the QP's buffer
 * @shadow: by BB
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

/** struct ohca_rq - RQ of a kernel QP, of a user QP its stride; fields as in struct ohca_sq */
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
