/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB */
/*
 * OpenHCA: requests of the rdma-core provider and responses of the kernel driver.
 *
 * The size of each structure is a multiple of 8 bytes; fields are native-endian. A
 * request may grow at its end: a driver refuses a longer request (-EOPNOTSUPP) unless
 * the excess is zero, and treats fields that a shorter request does not have as zero.
 * A response may grow, too; comp_mask says which optional fields are valid.
 * OHCA_UVERBS_ABI_VERSION changes only if that is not enough.
 */
#ifndef OHCA_ABI_USER_H
#define OHCA_ABI_USER_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

#define OHCA_UVERBS_ABI_VERSION	1

/** enum ohca_query_context_attrs - attributes added to UVERBS_METHOD_QUERY_CONTEXT */
enum ohca_query_context_attrs {
	/* out: struct ohca_alloc_ucontext_resp */
	OHCA_ATTR_QUERY_CONTEXT_RESP = (1U << UVERBS_ID_NS_SHIFT),
};

/** enum ohca_alloc_dm_attrs - attributes added to UVERBS_METHOD_DM_ALLOC */
enum ohca_alloc_dm_attrs {
	OHCA_ATTR_ALLOC_DM_RESP = (1U << UVERBS_ID_NS_SHIFT),	/* out: struct ohca_dm_resp */
};

/** enum ohca_dm_methods - methods added to UVERBS_OBJECT_DM */
enum ohca_dm_methods {
	OHCA_METHOD_DM_QUERY = (1U << UVERBS_ID_NS_SHIFT),
};

/** enum ohca_query_dm_attrs - attributes of OHCA_METHOD_DM_QUERY */
enum ohca_query_dm_attrs {
	OHCA_ATTR_QUERY_DM_HANDLE = (1U << UVERBS_ID_NS_SHIFT),	/* the device memory */
	OHCA_ATTR_QUERY_DM_RESP,				/* out: struct ohca_dm_resp */
};

/** enum ohca_pd_methods - methods added to UVERBS_OBJECT_PD */
enum ohca_pd_methods {
	OHCA_METHOD_PD_QUERY = (1U << UVERBS_ID_NS_SHIFT),
};

/** enum ohca_query_pd_attrs - attributes of OHCA_METHOD_PD_QUERY */
enum ohca_query_pd_attrs {
	OHCA_ATTR_QUERY_PD_HANDLE = (1U << UVERBS_ID_NS_SHIFT),	/* the protection domain */
	OHCA_ATTR_QUERY_PD_RESP,				/* out: struct ohca_alloc_pd_resp */
};

/**
 * struct ohca_alloc_ucontext_req
 * @comp_mask: zero
 * @hw_major: OHCA_MAJOR that the provider was built with
 *
 * The driver returns -EPROTO if @hw_major differs from the device's major version. It
 * returns -EOPNOTSUPP to a 32-bit program, which may split a doorbell into two stores.
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
 * @uar_mmap_key: offset for mmap() of the doorbell page, PROT_READ | PROT_WRITE, MAP_SHARED
 * @uar_mmap_size: bytes to map
 * @max_inline: largest inline message in bytes
 * @log_max_sq_bbs: log2 of the largest SQ in basic blocks
 * @log_max_rq_wqes: log2 of the largest RQ
 * @log_max_srq_wqes: log2 of the largest SRQ
 * @log_max_cqe: log2 of the largest CQ
 * @max_sge: SGEs of a WQE
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
 * @mmap_key: offset for mmap(), MAP_SHARED
 * @mmap_size: bytes to map; the device memory begins at the first byte of the mapping
 * @length: bytes of the device memory
 */
struct ohca_dm_resp {
	__aligned_u64 mmap_key;
	__aligned_u64 mmap_size;
	__aligned_u64 length;
};

/**
 * struct ohca_create_cq_req
 * @comp_mask: zero
 * @log_size: log2 of the CQEs in the buffer; not less than the requested cqe
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

/** struct ohca_create_qp_resp - @handle: number of the QP in doorbells and CQEs */
struct ohca_create_qp_resp {
	__u32 comp_mask;
	__u32 handle;
};

/**
 * struct ohca_modify_qp_req - with IB_QP_CAP only: the new sizes and buffer of the QP's queues
 * @comp_mask: zero
 * @log_sq: log2 of the SQ in basic blocks; the SQ must hold @max_send_wr WQEs
 * @log_rq: log2 of the RQ in WQEs; the RQ must hold @max_recv_wr WQEs; 0 for a QP without an RQ
 * @reserved: zero
 * @buf_addr: page aligned address of the new QP buffer (ohca_layout.h)
 * @buf_size: its bytes, at least ohca_qp_buf_size() with the present stride of the RQ
 * @max_send_wr: as in struct ibv_qp_cap
 * @max_recv_wr: the same; ignored for a QP without an RQ
 *
 * Driver data of IB_USER_VERBS_EX_CMD_MODIFY_QP, which has no field for capabilities;
 * IB_USER_VERBS_CMD_MODIFY_QP has no driver data. The device copies outstanding WQEs to
 * the buffer. The driver returns -EINVAL if they do not fit. The process must not post
 * meanwhile.
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
 * struct ohca_modify_srq_req - with IB_SRQ_MAX_WR only: the new buffer of the SRQ
 * @comp_mask: zero
 * @log_size: log2 of its WQEs; it must hold the requested max_wr
 * @buf_addr: page aligned address of the SRQ buffer (ohca_layout.h)
 * @buf_size: its bytes, as in struct ohca_create_srq_req
 *
 * The device copies the WQEs that it has not used to the buffer. The driver returns -EINVAL
 * if they do not fit. The process must not post meanwhile.
 */
struct ohca_modify_srq_req {
	__u32 comp_mask;
	__u32 log_size;
	__aligned_u64 buf_addr;
	__aligned_u64 buf_size;
};

#endif /* OHCA_ABI_USER_H */
