/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: tag matching (OHCA_FEATURE_TM).
 *
 * An SRQ of type OHCA_SRQT_TM has, beside its WQEs, a list of tagged buffers. The first
 * bytes of every SEND to one of its QPs are a TMH as libibverbs defines it: opcode,
 * 3 bytes reserved, 4 of the application's, an 8-byte tag in network order. A message
 *
 *   EAGER	that matches a tag goes to the tag's buffer, without its TMH
 *   RNDV	that matches has an RVH (address, R_Key, length; network order) behind the
 *		TMH: the device READs what that names into the tag's buffer and then sends the
 *		two headers back, with opcode FIN
 *   other	and what matches nothing, is received whole into a WQE of the SRQ
 *
 * An EAGER or RNDV message that matched nothing is unexpected. Device and consumer count
 * those. While the consumer's number, which he gives along with list operations, is not the
 * device's, tags that he adds match nothing: one of the messages that he has not seen yet may
 * be for them. When the numbers agree they all take part, in the order in which they were
 * added. Both numbers are modulo 2^16.
 *
 * List operations are posted to a ring behind the SRQ's WQEs, with the SQ fields of the
 * SRQ's doorbell record and OHCA_UAR_SRQ. They are executed in order.
 *
 * The QPs of such an SRQ are RC, complete to the SRQ's CQ, and have no send queue of
 * their own: it is the device's, for rendezvous.
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

/** enum ohca_tm_result - what became of a list operation */
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
 * @handle: ADD: number of a tag that is free; DEL: of the tag; else 0
 * @unexpected: with OHCA_TM_COUNT: unexpected messages that the consumer has handled; the
 *	low 16 bits count
 * @result: zero; the device writes enum ohca_tm_result, before sq_ci passes the entry
 * @recv_wr_id: ADD: returned in the CQEs of the message
 * @tag: ADD: what TMH.tag & @mask must be
 * @mask: ADD
 * @sge: ADD: the buffer
 *
 * A completion is written with OHCA_TM_SIGNALED, and for every malformed operation; the
 * status of what failed is TM_ERR. DEL fails if a message has taken the tag. The tag of a DEL
 * that is DONE is free; a tag that was taken is when a CQE with OHCA_CQE_TAG_FREE says so.
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
