/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: offsets and sizes of the parts of a queue's buffer. The
 * kernel driver, the provider and the device share these functions, so that all
 * compute the same numbers.
 *
 * Every queue has one buffer, described by one page list:
 *   QP:  doorbell record | RQ at 512 | SQ after the RQ
 *   SRQ: doorbell record | WQEs at 512 | list operations, if it has tags
 *   CQ:  doorbell record | CQEs at 192
 * All functions are pure and may be called in any context.
 */
#ifndef OHCA_LAYOUT_H
#define OHCA_LAYOUT_H

#include "ohca_regs.h"
#include "ohca_tm.h"
#include "ohca_wqe.h"

#define OHCA_DB_OFFSET		0u
#define OHCA_CQ_RING_OFFSET	192u
#define OHCA_RQ_RING_OFFSET	512u
#define OHCA_MIN_LOG_RQ_STRIDE	6u
#define OHCA_MAX_LOG_RQ_STRIDE	9u

/** ohca_log2_up - smallest n with (1 << n) >= @v; 0 for @v of 0 and 1; @v <= 2^31 */
static inline __u32 ohca_log2_up(__u32 v)
{
	__u32 n = 0;

	while (n < 31 && (1u << n) < v)
		n++;
	return n;
}

/**
 * ohca_sq_offset - byte offset of the SQ in a QP's buffer
 * @has_rq: the buffer holds an RQ
 * @log_rq: log2 of the RQ in WQEs, at most 20
 * @log_stride: log2 of the RQ stride in bytes
 */
static inline __u64 ohca_sq_offset(int has_rq, __u32 log_rq, __u32 log_stride)
{
	return OHCA_RQ_RING_OFFSET + (has_rq ? 1ull << (log_rq + log_stride) : 0);
}

/** ohca_qp_buf_size - bytes of a QP's buffer; @log_sq: log2 of the SQ in BBs */
static inline __u64 ohca_qp_buf_size(int has_rq, __u32 log_rq, __u32 log_stride, __u32 log_sq)
{
	return ohca_sq_offset(has_rq, log_rq, log_stride) + (1ull << (log_sq + OHCA_BB_SHIFT));
}

/** ohca_srq_buf_size - bytes of an SRQ's buffer, without the ring of list operations */
static inline __u64 ohca_srq_buf_size(__u32 log_size, __u32 log_stride)
{
	return OHCA_RQ_RING_OFFSET + (1ull << (log_size + log_stride));
}

/** ohca_tm_ring_offset - byte offset of the ring of list operations in an SRQ's buffer */
static inline __u64 ohca_tm_ring_offset(__u32 log_size, __u32 log_stride)
{
	return ohca_srq_buf_size(log_size, log_stride);
}

/** ohca_tm_ring_size - bytes of that ring; @log_ops: log2 of its entries */
static inline __u64 ohca_tm_ring_size(__u32 log_ops)
{
	return 1ull << (log_ops + OHCA_TM_WQE_SHIFT);
}

/** ohca_cq_buf_size - bytes of a CQ's buffer */
static inline __u64 ohca_cq_buf_size(__u32 log_size)
{
	return OHCA_CQ_RING_OFFSET + ((__u64)sizeof(struct ohca_hw_cqe) << log_size);
}

/**
 * ohca_rq_log_stride - log2 of the stride for receive WQEs of @max_sge SGEs
 * @max_sge: 0 to OHCA_MAX_SGE
 */
static inline __u32 ohca_rq_log_stride(__u32 max_sge)
{
	__u32 log = ohca_log2_up(OHCA_SEG_SIZE * (1 + max_sge));

	return log < OHCA_MIN_LOG_RQ_STRIDE ? OHCA_MIN_LOG_RQ_STRIDE : log;
}

/** ohca_rq_stride_sges - SGEs that fit a stride of 1 << @log_stride bytes */
static inline __u32 ohca_rq_stride_sges(__u32 log_stride)
{
	__u32 n = (1u << log_stride) / OHCA_SEG_SIZE - 1;

	return n > OHCA_MAX_SGE ? OHCA_MAX_SGE : n;
}

/**
 * ohca_wqe_hdr_segs - segments before the SGEs or inline data, for the largest
 *	WQE of a QP type
 * @long_hdr: type UD, SMI or GSI, whose WQEs have an AV, or XRC_INI, whose WQEs have an XRC
 *	segment
 */
static inline __u32 ohca_wqe_hdr_segs(int long_hdr)
{
	return long_hdr ? 4 : 3;
}

/**
 * ohca_sq_wqe_bbs - BBs of the largest send WQE
 * @long_hdr: as in ohca_wqe_hdr_segs()
 * @max_sge: SGEs the consumer may post
 * @max_inline: inline bytes the consumer may post
 *
 * Registration WQEs have 4 segments, that is 1 BB, and always fit.
 */
static inline __u32 ohca_sq_wqe_bbs(int long_hdr, __u32 max_sge, __u32 max_inline)
{
	__u32 inl = (max_inline + OHCA_SEG_SIZE - 1) / OHCA_SEG_SIZE;
	__u32 segs = ohca_wqe_hdr_segs(long_hdr) + (max_sge > inl ? max_sge : inl);

	return (segs * OHCA_SEG_SIZE + OHCA_BB_SIZE - 1) / OHCA_BB_SIZE;
}

#endif /* OHCA_LAYOUT_H */
