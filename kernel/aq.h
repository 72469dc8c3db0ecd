/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: the admin queue, aq.c, and its commands, cmd.c. */
#ifndef OHCA_AQ_H
#define OHCA_AQ_H

#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/semaphore.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

#include "ohca_hw.h"

struct ohca_dev;

#define OHCA_AQ_LOG_SIZE	5
#define OHCA_AQ_SLOTS		BIT(OHCA_AQ_LOG_SIZE)
#define OHCA_AQ_CONSUMER_SLOTS	24	/* slots that commands of consumers can use at a time */
#define OHCA_MAX_HANDLE		0xffffffu	/* doorbells carry 24 bits */

/**
 * enum ohca_op_class - class of a command, which decides about its slot
 * @OHCA_OP_CONSUMER: creates, changes or reads an object for a consumer
 * @OHCA_OP_DRIVER: the driver needs it, or code that cannot fail depends on it
 * @OHCA_OP_TEARDOWN: destroys an object; it succeeds if the device is dead
 *
 * Any number of threads of any process may wait for commands of the first class. These commands
 * share a part of the slots, and a thread that waits for such a slot can be killed. The other slots
 * are for commands that the driver and the kernel depend on: reclaim waits for UPDATE_MR_PAGES,
 * other processes wait for PAGE_FAULT_RESUME, a teardown cannot fail, MODIFY_PORT must withdraw
 * IsSM of a subnet manager that was killed, and the driver reads the counters of a set before it
 * frees the set. ohca_cmd.must selects these slots for a single command: another node waits for
 * the answer to its MAD, which MAD_IFC processes, but a process may read attributes and counters of
 * a port from any number of threads.
 */
enum ohca_op_class {
	OHCA_OP_CONSUMER,
	OHCA_OP_DRIVER,
	OHCA_OP_TEARDOWN,
};

/** enum ohca_slot_state - state of a command slot */
enum ohca_slot_state {
	OHCA_SLOT_FREE,
	OHCA_SLOT_BUSY,		/* the driver fills it or reads the result */
	OHCA_SLOT_PENDING,	/* the device has the command */
};

/**
 * struct ohca_slot - driver-owned state of one command
 * @state: enum ohca_slot_state, under ohca_aq.lock
 * @opcode: opcode of the command submitted last, under ohca_aq.lock
 * @gen: generation, 24 bits; part of the cookie
 * @ahead: commands that the device had when this one was submitted
 * @error: negative errno if the command was abandoned
 * @resp: copy of the completion
 * @done: completed when @resp or @error is valid
 * @in: mailbox that the device reads
 * @out: mailbox that the device writes
 * @in_dma: bus address of @in
 * @out_dma: bus address of @out
 */
struct ohca_slot {
	enum ohca_slot_state state;
	u8 opcode;
	u32 gen;
	u32 ahead;
	int error;
	struct ohca_hw_acqe resp;
	struct completion done;
	void *in;
	void *out;
	dma_addr_t in_dma;
	dma_addr_t out_dma;
};

/**
 * struct ohca_aq - the admin queue
 * @lock: protects all fields except those of a slot that its owner uses
 * @sem: counts free slots
 * @consumers: counts the slots that commands of consumers can still use
 * @sq: AQ entries
 * @cq: ACQ entries
 * @sq_dma: bus address of @sq
 * @cq_dma: bus address of @cq
 * @pi: producer index of the AQ
 * @ci: consumer index of the ACQ
 * @db: register AQ_DB, to which @pi is written
 * @polled: completions raise no interrupt
 * @dead: no command is accepted
 * @stray: completions without a pending command
 * @completed: completions of pending commands
 * @pending: commands that the device has
 * @slots: the slots
 */
struct ohca_aq {
	spinlock_t lock;	/* see above */
	struct semaphore sem;
	struct semaphore consumers;
	struct ohca_hw_aqe *sq;
	struct ohca_hw_acqe *cq;
	dma_addr_t sq_dma;
	dma_addr_t cq_dma;
	u32 pi;
	u32 ci;
	void __iomem *db;
	bool polled;
	bool dead;
	u32 stray;
	u32 completed;
	u32 pending;
	struct ohca_slot slots[OHCA_AQ_SLOTS];
};

/**
 * struct ohca_cmd - argument of ohca_cmd_exec()
 * @aqe: entry; the caller sets the opcode and the body
 * @resp: completion
 * @in: data for the input mailbox, or NULL
 * @in_len: its bytes, at most OHCA_MAILBOX_SIZE
 * @in_addr: field of @aqe for the address of the input mailbox
 * @out: where to copy the output mailbox, or NULL
 * @out_len: its bytes, at most OHCA_MAILBOX_SIZE
 * @out_addr: field of @aqe for the address of the output mailbox
 * @must: the caller cannot fail; the command uses a slot as commands of OHCA_OP_DRIVER do
 */
struct ohca_cmd {
	struct ohca_hw_aqe aqe;
	struct ohca_hw_acqe resp;
	const void *in;
	size_t in_len;
	__le64 *in_addr;
	void *out;
	size_t out_len;
	__le64 *out_addr;
	bool must;
};

/* op.c */
const char *ohca_op_name(u8 op);
enum ohca_op_class ohca_op_class(u8 op);

/* aq.c */
int ohca_aq_init(struct ohca_dev *dev);
void ohca_aq_free(struct ohca_dev *dev);
void ohca_aq_set_polled(struct ohca_dev *dev, bool polled);
void ohca_aq_fail(struct ohca_dev *dev);
u32 ohca_aq_poll(struct ohca_aq *aq);
int ohca_cmd_exec(struct ohca_dev *dev, struct ohca_cmd *cmd);
#if IS_ENABLED(CONFIG_KUNIT)
void ohca_aq_reset(struct ohca_aq *aq);
int ohca_aq_errno(u8 status);
bool ohca_aq_expected(u8 op, u8 status);
#endif

/* cmd.c */
int ohca_cmd_query_device(struct ohca_dev *dev, struct ohca_hw_device_attr *attr);
int ohca_cmd_modify_device(struct ohca_dev *dev, const char *node_desc);
int ohca_cmd_modify_port(struct ohca_dev *dev, u8 port, u8 flags, u32 set, u32 clr);
int ohca_cmd_mad_ifc(struct ohca_dev *dev, u8 port, u8 flags, const void *in,
		     const struct ohca_hw_mad_in_wc *wc, void *out, bool must, u8 *verdict);
int ohca_cmd_query_counters(struct ohca_dev *dev, __le64 *values, u32 num);
int ohca_cmd_query_context(struct ohca_dev *dev, enum ohca_context_kind kind, u32 handle,
			   void *ctx, size_t size);
int ohca_cmd_alloc_counters(struct ohca_dev *dev, u32 *set);
int ohca_cmd_bind_counters(struct ohca_dev *dev, u32 handle, u32 set);
int ohca_cmd_query_counter_set(struct ohca_dev *dev, u32 set, u8 port, __le64 *values, u32 num);
int ohca_cmd_create_eq(struct ohca_dev *dev, const struct ohca_cmd_create_eq *in, u32 *eqn);
int ohca_cmd_alloc_pd(struct ohca_dev *dev, u32 uar, u32 *pdn);
int ohca_cmd_alloc_xrcd(struct ohca_dev *dev, u32 *xrcdn);
int ohca_cmd_create_cq(struct ohca_dev *dev, const struct ohca_cmd_create_cq *in, u32 *cqn);
int ohca_cmd_modify_cq(struct ohca_dev *dev, u32 cqn, u16 count, u16 period);
int ohca_cmd_resize_cq(struct ohca_dev *dev, const struct ohca_cmd_resize_cq *in);
int ohca_cmd_create_srq(struct ohca_dev *dev, const struct ohca_cmd_create_srq *in, u32 *srqn);
int ohca_cmd_modify_srq(struct ohca_dev *dev, u32 srqn, u32 limit);
int ohca_cmd_query_srq(struct ohca_dev *dev, u32 srqn, u32 *limit);
int ohca_cmd_resize_srq(struct ohca_dev *dev, const struct ohca_cmd_resize_srq *in, u32 *pi);
int ohca_cmd_create_qp(struct ohca_dev *dev, const struct ohca_cmd_create_qp *in, u32 *handle);
int ohca_cmd_modify_qp(struct ohca_dev *dev, u32 handle, u32 mask,
		       const struct ohca_hw_qp_attr *attr, bool must);
int ohca_cmd_query_qp(struct ohca_dev *dev, u32 handle, struct ohca_hw_qp_attr *attr);
int ohca_cmd_resize_qp(struct ohca_dev *dev, const struct ohca_cmd_resize_qp *in,
		       struct ohca_resp_resize_qp *out);
int ohca_cmd_reg_mr(struct ohca_dev *dev, u8 op, const struct ohca_cmd_reg_mr *in, u32 *key);
int ohca_cmd_update_mr(struct ohca_dev *dev, u32 key, u64 first, u64 n, const __le64 *pages);
int ohca_cmd_fault_resume(struct ohca_dev *dev, u32 id, bool failed);
int ohca_cmd_alloc_dm(struct ohca_dev *dev, u64 length, u8 log_align, u32 *handle, u64 *offset);
int ohca_cmd_mcast(struct ohca_dev *dev, u8 op, u32 handle, const union ib_gid *mgid, u16 mlid);
int ohca_cmd_handle(struct ohca_dev *dev, u8 op, u32 handle);
void ohca_cmd_destroy(struct ohca_dev *dev, u8 op, u32 handle);
void ohca_cmd_undo(struct ohca_dev *dev, u8 op, u32 handle, int err);

#endif /* OHCA_AQ_H */
