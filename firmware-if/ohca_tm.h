/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: tag matching (OHCA_FEATURE_TM).
 *
 * An SRQ of type OHCA_SRQT_TM has a list of tagged buffers beside its WQEs. The first
 * bytes of every SEND to one of its QPs are a TMH as libibverbs defines it: opcode,
 * 3 bytes reserved, 4 bytes for the application, an 8-byte tag in network order. The
 * device handles a message by the opcode:
 *
 *   EAGER	If it matches a tag, the device writes it to the tag's buffer, without the TMH.
 *   RNDV	An RVH (address, R_Key, length; network order) follows the TMH. If the message
 *		matches a tag, the device READs the bytes that the RVH names into the tag's
 *		buffer and then sends the two headers back, with opcode FIN.
 *   other	The device receives the whole message into a WQE of the SRQ. It does the same
 *		with messages that match no tag.
 *
 * An EAGER or RNDV message that matches no tag is unexpected. Device and consumer count
 * unexpected messages modulo 2^16. The consumer passes its number with list operations. While
 * it differs from the device's number, tags that the consumer adds match nothing, because a
 * message that the consumer has not handled yet may be for them. When the numbers agree, these
 * tags can match, in the order in which they were added.
 *
 * The consumer posts list operations to a ring behind the SRQ's WQEs, with the SQ fields of the
 * SRQ's doorbell record and OHCA_UAR_SRQ. The device executes them in order.
 *
 * The QPs of such an SRQ are RC, complete to the SRQ's CQ, and have no send queue for the
 * consumer: the device uses their send queues for READs and FINs.
 */
#ifndef OHCA_TM_H
#define OHCA_TM_H

#include "ohca_types.h"
#include "ohca_wqe.h"

#define OHCA_TM_WQE_SHIFT	6u
#define OHCA_TM_RNDV_MAX	64u	/* bytes of an RNDV message, TMH and RVH included */

/** enum ohca_tm_op - list operations; values of enum ibv_ops_wr_opcode */
enum ohca_tm_op {
	OHCA_TM_ADD	= 0,
	OHCA_TM_DEL	= 1,
	OHCA_TM_SYNC	= 2,
};

/* Flags of struct ohca_hw_tm_wqe, as enum ibv_ops_flags. */
#define OHCA_TM_SIGNALED	OHCA_BIT(0)
#define OHCA_TM_COUNT		OHCA_BIT(1)	/* @unexpected is the consumer's number */

/** enum ohca_tm_result - result of a list operation */
enum ohca_tm_result {
	OHCA_TM_PENDING	= 0,
	OHCA_TM_DONE	= 1,
	OHCA_TM_FAILED	= 2,
};

/**
 * struct ohca_hw_tm_wqe - a list operation
 * @wr_id: returned in the CQE of the operation
 * @opcode: enum ohca_tm_op
 * @flags: OHCA_TM_SIGNALED, OHCA_TM_COUNT
 * @num_sge: ADD: 0 or 1; else 0
 * @reserved: zero
 * @handle: ADD: number of a free tag; DEL: number of the tag; else 0
 * @unexpected: with OHCA_TM_COUNT: unexpected messages that the consumer has handled; the
 *	low 16 bits count
 * @result: zero; the device writes enum ohca_tm_result here before it advances sq_ci
 * @recv_wr_id: ADD: returned in the CQEs of the message
 * @tag: ADD: value that TMH.tag & @mask must have
 * @mask: ADD: bits of the tag that are compared
 * @sge: ADD: the buffer
 *
 * An operation has a CQE if it has OHCA_TM_SIGNALED, if it is malformed, or if it is an ADD that
 * fails. The status of a failed operation is TM_ERR. A DEL fails if a message already uses the
 * tag. A tag is free after a DEL with result DONE, after an ADD with result FAILED, and after a
 * CQE with OHCA_CQE_TAG_FREE.
 */
struct ohca_hw_tm_wqe {
	__le64 wr_id;
	__u8 opcode;
	__u8 flags;
	__u8 num_sge;
	__u8 reserved;
	__le32 handle;
	__le32 unexpected;
	__le32 result;
	__le64 recv_wr_id;
	__le64 tag;
	__le64 mask;
	struct ohca_hw_sge sge;
};

OHCA_ASSERT_SIZE(struct ohca_hw_tm_wqe, 64);
OHCA_ASSERT_OFFSET(struct ohca_hw_tm_wqe, result, 20);

#endif /* OHCA_TM_H */
