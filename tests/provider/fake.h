/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Surroundings of the provider, for tests without kernel and device: the functions of libibverbs
 * that a provider calls, a kernel that accepts everything, and the device's side of the queues.
 */
#ifndef FAKE_H
#define FAKE_H

#include "compat.h"
#include "ohca.h"
#include "ohca_abi.h"

/**
 * struct fake_kernel - what the commands have received and what they answer
 * @fail: errno that one command returns; @skip: commands before it that succeed
 * @hw_version: answer to get_context, as the limits after it
 * @opens: contexts that are open
 * @dm_length: length of all device memory, as the kernel reports it
 * @dms: pieces of device memory allocated and not freed
 * @logs: messages of the library
 * @bufs: queue buffers allocated and not freed
 * @next_handle: number of the next QP, CQ, SRQ
 * @cq_req: request of the last create_cq; the other requests likewise
 * @srq_mask: attribute mask of the last modify_srq
 * @srq_attrs: comp_mask of the last create_srq
 * @cmd_cqe: cqe of the last create_cq or resize_cq
 * @cmd_wc_flags: wc_flags of the last create_cq
 */
struct fake_kernel {
	atomic_int fail, skip;
	uint32_t hw_version;
	uint64_t features;
	uint32_t max_inline;
	uint8_t max_sge;
	uint8_t ports;
	int opens;
	int logs;
	uint64_t dm_length;
	int dms;
	int bufs;
	uint32_t next_handle;
	struct ohca_alloc_ucontext_req context_req;
	struct ohca_create_cq_req cq_req;
	struct ohca_resize_cq_req resize_req;
	struct ohca_create_qp_req qp_req;
	struct ohca_modify_qp_req modify_qp_req;
	struct ohca_create_srq_req srq_req;
	struct ohca_modify_srq_req modify_srq_req;
	int srq_mask;
	uint32_t srq_attrs;
	uint32_t cmd_cqe;
	uint64_t cmd_wc_flags;
	int cmd_vector;
	/* runs inside resize_cq, when the device moves the CQEs */
	void (*on_resize)(const struct ohca_resize_cq_req *req);
	/*
	 * runs inside modify_srq with a size, when the device moves the WQEs; returns 0 or an errno
	 */
	int (*on_modify_srq)(const struct ohca_modify_srq_req *req);
	/* runs inside modify_qp with capabilities, the same for both queues */
	int (*on_modify_qp)(const struct ohca_modify_qp_req *req);
	/* runs inside commands that destroy QPs and SRQs, after the kernel's part */
	void (*on_destroy)(void);
};

extern struct fake_kernel fake;
extern struct verbs_context_ops ops;

#define FAKE_PAGE	4096
#define FAKE_DM_SIZE	8192	/* bytes mapped for device memory */
#define FAKE_PDN(handle) ((uint32_t)(handle) ^ 0x5a0000u)	/* number of a PD */

struct ibv_context *fake_open(void);
struct ibv_context *fake_import(void);
void fake_close(struct ibv_context *ibctx);

/* What reads of the device's clock return. */
void fake_clock(uint64_t ns);
/* The doorbell page as the device has it; fake_doorbell() consumes a value. */
uint64_t fake_doorbell(struct ibv_context *ibctx, unsigned int offset);

struct ohca_hw_cqe *fake_cqe(struct ohca_cq *cq, uint32_t pi);
void fake_complete_as(struct ohca_cq *cq, uint32_t pi, const struct ohca_hw_cqe *cqe);
void fake_complete(struct ohca_cq *cq, uint32_t pi, uint64_t wr_id, uint32_t qpn);
void fake_complete_xrc(struct ohca_cq *cq, uint32_t pi, uint64_t wr_id, uint32_t srqn,
		       uint32_t qpn);

#define FAKE_NO_DOORBELL 0xffffffffffffffffull

#endif /* FAKE_H */
