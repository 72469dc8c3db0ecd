/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB */
/*
 * OpenHCA: what the kernel driver and the rdma-core provider say to each other.
 *
 * All structures are multiples of 8 bytes, native-endian. A request may grow at
 * its end: a driver refuses a longer one (-EOPNOTSUPP) unless the excess is zero,
 * and treats what a shorter one leaves out as zero. A response may grow too;
 * comp_mask tells which optional fields are valid. OHCA_UVERBS_ABI_VERSION changes
 * only if that is not enough.
 */
#ifndef OHCA_ABI_USER_H
#define OHCA_ABI_USER_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

#define OHCA_UVERBS_ABI_VERSION	1

/** enum ohca_query_context_attrs - what is added to UVERBS_METHOD_QUERY_CONTEXT */
enum ohca_query_context_attrs {
	/* out: struct ohca_alloc_ucontext_resp */
	OHCA_ATTR_QUERY_CONTEXT_RESP = (1U << UVERBS_ID_NS_SHIFT),
};

/** enum ohca_alloc_dm_attrs - what is added to UVERBS_METHOD_DM_ALLOC */
enum ohca_alloc_dm_attrs {
	OHCA_ATTR_ALLOC_DM_RESP = (1U << UVERBS_ID_NS_SHIFT),	/* out: struct ohca_dm_resp */
};

/** enum ohca_dm_methods - what is added to UVERBS_OBJECT_DM */
enum ohca_dm_methods {
	OHCA_METHOD_DM_QUERY = (1U << UVERBS_ID_NS_SHIFT),
};

/** enum ohca_query_dm_attrs - of OHCA_METHOD_DM_QUERY */
enum ohca_query_dm_attrs {
	OHCA_ATTR_QUERY_DM_HANDLE = (1U << UVERBS_ID_NS_SHIFT),	/* the device memory */
	OHCA_ATTR_QUERY_DM_RESP,				/* out: struct ohca_dm_resp */
};

/** enum ohca_pd_methods - what is added to UVERBS_OBJECT_PD */
enum ohca_pd_methods {
	OHCA_METHOD_PD_QUERY = (1U << UVERBS_ID_NS_SHIFT),
};

/** enum ohca_query_pd_attrs - of OHCA_METHOD_PD_QUERY */
enum ohca_query_pd_attrs {
	OHCA_ATTR_QUERY_PD_HANDLE = (1U << UVERBS_ID_NS_SHIFT),	/* the protection domain */
	OHCA_ATTR_QUERY_PD_RESP,				/* out: struct ohca_alloc_pd_resp */
};

/**
 * struct ohca_alloc_ucontext_req
 * @comp_mask: zero
 * @hw_major: OHCA_MAJOR that the provider was built with; another than the
 *	device's is refused with -EPROTO
 *
 * A program of 32 bits is refused with -EOPNOTSUPP: it may split a doorbell into two stores.
 */
struct ohca_alloc_ucontext_req {
	__u32 comp_mask;
	__u32 hw_major;
};

/**
 * struct ohca_alloc_ucontext_resp
 * @comp_mask: zero
 * @hw_version: register OHCA_REG_VERSION
 * @features: FEATURES_ACK in force
 * @uar_mmap_key: offset to mmap, one page, PROT_READ | PROT_WRITE, MAP_SHARED
 * @uar_mmap_size: bytes to map
 * @max_inline: largest inline message in bytes
 * @log_max_sq_bbs: log2 of the largest SQ in basic blocks
 * @log_max_rq_wqes: log2 of the largest RQ
 * @log_max_srq_wqes: log2 of the largest SRQ
 * @log_max_cqe: log2 of the largest CQ
 * @max_sge: SGEs a WQE
 * @reserved: zero
 * @timestamp_khz: rate of completion timestamps
 */
struct ohca_alloc_ucontext_resp {
	__u32 comp_mask;
	__u32 hw_version;
	__aligned_u64 features;
	__aligned_u64 uar_mmap_key;
	__u32 uar_mmap_size;
	__u32 max_inline;
	__u8 log_max_sq_bbs;
	__u8 log_max_rq_wqes;
	__u8 log_max_srq_wqes;
	__u8 log_max_cqe;
	__u8 max_sge;
	__u8 reserved[3];
	__aligned_u64 timestamp_khz;
};

/** struct ohca_alloc_pd_resp - @pdn: number of the protection domain */
struct ohca_alloc_pd_resp {
	__u32 comp_mask;
	__u32 pdn;
};

/**
 * struct ohca_dm_resp - device memory
 * @mmap_key: offset to mmap, MAP_SHARED
 * @mmap_size: bytes to map; the memory begins with the first
 * @length: its bytes
 */
struct ohca_dm_resp {
	__aligned_u64 mmap_key;
	__aligned_u64 mmap_size;
	__aligned_u64 length;
};

/**
 * struct ohca_create_cq_req
 * @comp_mask: zero
 * @log_size: log2 of the CQEs in the buffer; must hold the cqe asked for
 * @buf_addr: page aligned address of the CQ buffer (ohca_layout.h)
 * @buf_size: its bytes, at least ohca_cq_buf_size()
 */
struct ohca_create_cq_req {
	__u32 comp_mask;
	__u32 log_size;
	__aligned_u64 buf_addr;
	__aligned_u64 buf_size;
};

struct ohca_create_cq_resp {
	__u32 comp_mask;
	__u32 cqn;
};

/** struct ohca_resize_cq_req - as struct ohca_create_cq_req; @ci: consumer index */
struct ohca_resize_cq_req {
	__u32 comp_mask;
	__u32 log_size;
	__aligned_u64 buf_addr;
	__aligned_u64 buf_size;
	__u32 ci;
	__u32 reserved;
};

/**
 * struct ohca_create_qp_req
 * @comp_mask: zero
 * @log_sq: log2 of the SQ in basic blocks
 * @log_rq: log2 of the RQ in WQEs (0 with an SRQ)
 * @log_rq_stride: log2 of the RQ stride in bytes
 * @reserved: zero
 * @buf_addr: page aligned address of the QP buffer (ohca_layout.h)
 * @buf_size: its bytes, at least ohca_qp_buf_size()
 */
struct ohca_create_qp_req {
	__u32 comp_mask;
	__u8 log_sq;
	__u8 log_rq;
	__u8 log_rq_stride;
	__u8 reserved;
	__aligned_u64 buf_addr;
	__aligned_u64 buf_size;
};

/** struct ohca_create_qp_resp - @handle: the number doorbells and CQEs use */
struct ohca_create_qp_resp {
	__u32 comp_mask;
	__u32 handle;
};

/**
 * struct ohca_modify_qp_req - only with IB_QP_CAP: what the queues of the QP become
 * @comp_mask: zero
 * @log_sq: log2 of the SQ in basic blocks; must hold @max_send_wr
 * @log_rq: log2 of the RQ in WQEs; must hold @max_recv_wr; 0 for a QP without one
 * @reserved: zero
 * @buf_addr: page aligned address of the QP buffer that they move to (ohca_layout.h)
 * @buf_size: its bytes, at least ohca_qp_buf_size() with the stride that the RQ has
 * @max_send_wr: as of struct ibv_qp_cap
 * @max_recv_wr: the same; ignored for a QP without an RQ
 *
 * Behind IB_USER_VERBS_EX_CMD_MODIFY_QP, which has no capabilities of its own; the older
 * command brings no driver's part. The device fills the buffer; -EINVAL if what is
 * outstanding does not fit. Nothing is posted meanwhile.
 */
struct ohca_modify_qp_req {
	__u32 comp_mask;
	__u8 log_sq;
	__u8 log_rq;
	__u16 reserved;
	__aligned_u64 buf_addr;
	__aligned_u64 buf_size;
	__u32 max_send_wr;
	__u32 max_recv_wr;
};

/**
 * struct ohca_create_srq_req
 * @comp_mask: zero
 * @log_size: log2 of the SRQ in WQEs
 * @log_stride: log2 of the WQE stride in bytes
 * @log_ops: log2 of the ring of list operations of an SRQ with tags; else zero
 * @reserved: zero
 * @buf_addr: page aligned address of the SRQ buffer (ohca_layout.h)
 * @buf_size: its bytes, at least ohca_srq_buf_size() and, with tags, ohca_tm_ring_size()
 */
struct ohca_create_srq_req {
	__u32 comp_mask;
	__u8 log_size;
	__u8 log_stride;
	__u8 log_ops;
	__u8 reserved;
	__aligned_u64 buf_addr;
	__aligned_u64 buf_size;
};

struct ohca_create_srq_resp {
	__u32 comp_mask;
	__u32 srqn;
};

/**
 * struct ohca_modify_srq_req - only with IB_SRQ_MAX_WR: the buffer that the SRQ moves to
 * @comp_mask: zero
 * @log_size: log2 of its WQEs; must hold the max_wr asked for
 * @buf_addr: page aligned address of the SRQ buffer (ohca_layout.h)
 * @buf_size: its bytes, as of struct ohca_create_srq_req
 *
 * The device fills the buffer; -EINVAL if what it has not taken does not fit. Nothing is
 * posted meanwhile.
 */
struct ohca_modify_srq_req {
	__u32 comp_mask;
	__u32 log_size;
	__aligned_u64 buf_addr;
	__aligned_u64 buf_size;
};

#endif /* OHCA_ABI_USER_H */
