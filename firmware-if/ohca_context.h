/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: the device's state of an object, as OHCA_CMD_QUERY_CONTEXT
 * returns it. It is for the diagnosis of faults: a driver does not need it to run the
 * device. Reserved bytes are zero; later versions may use them.
 */
#ifndef OHCA_CONTEXT_H
#define OHCA_CONTEXT_H

#include "ohca_types.h"

/** enum ohca_context_kind - the kind of object whose context QUERY_CONTEXT returns */
enum ohca_context_kind {
	OHCA_CONTEXT_EQ		= 0,	/* struct ohca_hw_eq_context */
	OHCA_CONTEXT_CQ		= 1,	/* struct ohca_hw_cq_context */
	OHCA_CONTEXT_SRQ	= 2,	/* struct ohca_hw_srq_context */
	OHCA_CONTEXT_QP		= 3,	/* struct ohca_hw_qp_context */
	OHCA_CONTEXT_MR		= 4,	/* struct ohca_hw_mr_context; MR or window */
};

/**
 * struct ohca_cmd_query_context - read the device's state of an object
 * @handle: number of the object; the key of an MR or window. The device ignores the key's tag
 *	for an FRMR or a window
 * @kind: enum ohca_context_kind
 * @reserved: zero
 * @addr: mailbox that the device writes the context to
 */
struct ohca_cmd_query_context {
	__le32 handle;
	__u8 kind;
	__u8 reserved[3];
	__le64 addr;
};

/**
 * struct ohca_hw_eq_context
 * @eqn: number
 * @pi: entries written, free running
 * @ci: entries that the driver has returned, free running
 * @refs: CQs attached
 * @vector: MSI-X vector
 * @log_size: log2 of its entries
 * @flags: OHCA_EQC_*
 * @kind: enum ohca_eq_kind
 * @reserved: zero
 */
struct ohca_hw_eq_context {
	__le32 eqn;
	__le32 pi;
	__le32 ci;
	__le32 refs;
	__le16 vector;
	__u8 log_size;
	__u8 flags;
	__u8 kind;
	__u8 reserved[43];
};

OHCA_ASSERT_SIZE(struct ohca_hw_eq_context, 64);
#define OHCA_EQC_ARMED		OHCA_BIT(0)	/* the next entry interrupts */
#define OHCA_EQC_BACKLOG	OHCA_BIT(1)	/* events wait for room in the EQ */

/**
 * struct ohca_hw_cq_context
 * @cqn: number
 * @uar: UAR page that may arm it
 * @eqn: EQ of its events
 * @refs: queues that complete here
 * @pi: entries written, free running
 * @ci: consumer index last read from the record
 * @solicited_pi: @pi after the last solicited or failed entry
 * @told_pi: @pi when the last event was written
 * @events: events written
 * @mod_count: moderation, CQEs
 * @mod_period_us: moderation, microseconds
 * @log_size: log2 of its entries
 * @arm_sn: events delivered, modulo 4
 * @flags: OHCA_CQC_*
 * @reserved: zero
 */
struct ohca_hw_cq_context {
	__le32 cqn;
	__le32 uar;
	__le32 eqn;
	__le32 refs;
	__le32 pi;
	__le32 ci;
	__le32 solicited_pi;
	__le32 told_pi;
	__le32 events;
	__le16 mod_count;
	__le16 mod_period_us;
	__u8 log_size;
	__u8 arm_sn;
	__u8 flags;
	__u8 reserved[21];
};

OHCA_ASSERT_SIZE(struct ohca_hw_cq_context, 64);
#define OHCA_CQC_ARMED		OHCA_BIT(0)
#define OHCA_CQC_SOLICITED	OHCA_BIT(1)	/* armed for solicited entries only */
#define OHCA_CQC_ERROR		OHCA_BIT(2)	/* overflowed, or its buffer is no memory */
#define OHCA_CQC_EQE_OUT	OHCA_BIT(3)	/* the driver has not returned its last EQE */
#define OHCA_CQC_EQE_DUE	OHCA_BIT(4)	/* another event waits for that */

/**
 * struct ohca_hw_srq_context
 * @srqn: number
 * @uar: UAR page that may ring it
 * @pdn: protection domain
 * @refs: QPs that use it
 * @ci: WQEs that the device has copied, free running
 * @limit: armed limit, 0 if none
 * @log_size: log2 of its WQEs
 * @log_stride: log2 of the WQE stride
 * @flags: OHCA_SRQC_*
 * @reserved: zero
 */
struct ohca_hw_srq_context {
	__le32 srqn;
	__le32 uar;
	__le32 pdn;
	__le32 refs;
	__le32 ci;
	__le32 limit;
	__u8 log_size;
	__u8 log_stride;
	__u8 flags;
	__u8 reserved[37];
};

OHCA_ASSERT_SIZE(struct ohca_hw_srq_context, 64);
#define OHCA_SRQC_ERROR		OHCA_BIT(0)

/**
 * struct ohca_hw_qp_context
 * @handle: number in doorbells and commands
 * @wire_qpn: number on the wire
 * @uar: UAR page that may ring it
 * @pdn: protection domain
 * @send_cqn: CQ of the send queue
 * @recv_cqn: CQ of the receive queue
 * @srqn: SRQ, with OHCA_QP_SRQ; of an XRC_TGT QP its XRC domain
 * @counters: counter set, 0 if none
 * @sq_pi: SQ producer index that the device last read, in basic blocks, free running
 * @sq_cur: first block of the WQE whose packets are sent next
 * @sq_ci: blocks completed
 * @rq_ci: WQEs of its own receive queue that the device has copied, free running
 * @una_psn: oldest PSN that is not acknowledged
 * @next_psn: PSN of the next packet
 * @max_psn: one past the highest PSN sent
 * @expected_psn: PSN that the responder expects
 * @msn: messages completed as responder, 24 bits
 * @dest_qpn: remote QP
 * @mcast_refs: groups attached
 * @type: enum ohca_qp_type
 * @state: enum ohca_qp_state
 * @flags: OHCA_QP_*
 * @port: from 1; 0 in RESET
 * @log_sq: log2 of the SQ in BBs
 * @log_rq: log2 of the RQ in WQEs
 * @retry_left: retries left of retry_cnt
 * @rnr_left: retries left of rnr_retry
 * @wait: OHCA_QPC_*
 * @reserved0: zero
 * @reads_out: READs and atomics sent and not completed
 * @reserved: zero
 */
struct ohca_hw_qp_context {
	__le32 handle;
	__le32 wire_qpn;
	__le32 uar;
	__le32 pdn;
	__le32 send_cqn;
	__le32 recv_cqn;
	__le32 srqn;
	__le32 counters;
	__le32 sq_pi;
	__le32 sq_cur;
	__le32 sq_ci;
	__le32 rq_ci;
	__le32 una_psn;
	__le32 next_psn;
	__le32 max_psn;
	__le32 expected_psn;
	__le32 msn;
	__le32 dest_qpn;
	__le32 mcast_refs;
	__u8 type;
	__u8 state;
	__u8 flags;
	__u8 port;
	__u8 log_sq;
	__u8 log_rq;
	__u8 retry_left;
	__u8 rnr_left;
	__u8 wait;
	__u8 reserved0;
	__le16 reads_out;
	__u8 reserved[40];
};

OHCA_ASSERT_SIZE(struct ohca_hw_qp_context, 128);
#define OHCA_QPC_RNR_WAIT	OHCA_BIT(0)	/* the requester waits for the RNR timer */
#define OHCA_QPC_NAK_SENT	OHCA_BIT(1)	/* the responder waits for the repeated request */

/**
 * struct ohca_hw_mr_context
 * @key: index << 8 | tag
 * @pdn: protection domain
 * @iova: address of the first byte
 * @length: bytes
 * @pl_offset: offset of the first byte in the pages
 * @access: OHCA_ACCESS_*
 * @npages: pages of its page list
 * @max_pages: OHCA_MR_FRMR: largest number of pages
 * @refs: windows bound to it
 * @bound: window: key of the region that it is bound to, 0 if none
 * @type: enum ohca_mr_type
 * @page_shift: log2 of the page size
 * @flags: OHCA_MRC_*
 * @reserved: zero
 */
struct ohca_hw_mr_context {
	__le32 key;
	__le32 pdn;
	__le64 iova;
	__le64 length;
	__le64 pl_offset;
	__le32 access;
	__le32 npages;
	__le32 max_pages;
	__le32 refs;
	__le32 bound;
	__u8 type;
	__u8 page_shift;
	__u8 flags;
	__u8 reserved[9];
};

OHCA_ASSERT_SIZE(struct ohca_hw_mr_context, 64);
#define OHCA_MRC_VALID		OHCA_BIT(0)	/* FRMR: registered; window: bound */

#endif /* OHCA_CONTEXT_H */
