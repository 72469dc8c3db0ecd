/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: work queue entries, completion queue entries,
 * event queue entries.
 *
 * An SQ is a ring of 2^n basic blocks (BB) of 64 bytes. A send WQE is 1 to 9
 * consecutive BBs; it may wrap to the start of the ring between two BBs. It is a
 * sequence of 16-byte segments:
 *
 *   control | [AV, 3 segments: UD, SMI, GSI] | [XRC]
 *   | [remote address: RDMA, atomic]
 *   | [atomic operands, or flush] | [masks of the operands]
 *   | [registration, 3 segments] | [TSO and its headers]
 *   | SGEs or inline data
 *
 * An RQ or SRQ WQE has a fixed stride of 64 << n bytes: one control segment and
 * SGEs. The device checks all of a WQE (IBTA vol 1, 10.8.1 lists the checks) and
 * completes a malformed one with LOC_QP_OP_ERR.
 */
#ifndef OHCA_WQE_H
#define OHCA_WQE_H

#include "ohca_types.h"

#define OHCA_BB_SIZE		64u
#define OHCA_BB_SHIFT		6u
#define OHCA_SEG_SIZE		16u
#define OHCA_MAX_WQE_BBS	9u
#define OHCA_MAX_SGE		30u
#define OHCA_MAX_INLINE		512u

/**
 * enum ohca_wqe_op - operations of a send WQE
 *
 * Those below 0x20 have the values of enum ibv_wr_opcode, so that drivers need not
 * translate them. FLUSH and ATOMIC_WRITE need OHCA_FEATURE_MPE.
 */
enum ohca_wqe_op {
	OHCA_OP_RDMA_WRITE		= 0,
	OHCA_OP_RDMA_WRITE_IMM		= 1,
	OHCA_OP_SEND			= 2,
	OHCA_OP_SEND_IMM		= 3,
	OHCA_OP_RDMA_READ		= 4,
	OHCA_OP_CMP_SWAP		= 5,
	OHCA_OP_FETCH_ADD		= 6,
	OHCA_OP_LOCAL_INV		= 7,
	OHCA_OP_BIND_MW			= 8,
	OHCA_OP_SEND_INV		= 9,
	OHCA_OP_TSO			= 10,	/* with OHCA_FEATURE_TSO */
	OHCA_OP_FLUSH			= 14,
	OHCA_OP_ATOMIC_WRITE		= 15,
	OHCA_OP_REG_MR			= 0x20,
	OHCA_OP_MASKED_CMP_SWAP		= 0x21,	/* with OHCA_FEATURE_EXT_ATOMIC */
	OHCA_OP_MASKED_FETCH_ADD	= 0x22,	/* the same */
	OHCA_OP_NOP			= 0x3f,
};

/*
 * Flags of struct ohca_hw_wqe_ctrl; the first five have the bit positions of
 * enum ibv_send_flags.
 */
#define OHCA_WQE_FENCE		OHCA_BIT(0)
#define OHCA_WQE_SIGNALED	OHCA_BIT(1)
#define OHCA_WQE_SOLICITED	OHCA_BIT(2)
#define OHCA_WQE_INLINE		OHCA_BIT(3)
#define OHCA_WQE_IP_CSUM	OHCA_BIT(4)	/* UD, with OHCA_FEATURE_UD_CSUM */
#define OHCA_WQE_INLINE_LEN	OHCA_GENMASK(15, 6)	/* bytes, with OHCA_WQE_INLINE */

/**
 * struct ohca_hw_wqe_ctrl - first segment of a send WQE
 * @opcode: enum ohca_wqe_op
 * @nseg: 16-byte segments of the whole WQE, this one included; inline data
 *	counts as its length rounded up to segments
 * @flags: OHCA_WQE_*
 * @imm: immediate data as the consumer passes it (big-endian)
 * @inv_key: SEND_INV and LOCAL_INV: the key to invalidate
 * @wr_id: returned unchanged in the CQE
 */
struct ohca_hw_wqe_ctrl {
	__u8 opcode;
	__u8 nseg;
	__le16 flags;
	union {
		__be32 imm;
		__le32 inv_key;
	};
	__le64 wr_id;
};

OHCA_ASSERT_SIZE(struct ohca_hw_wqe_ctrl, 16);

/**
 * struct ohca_hw_wqe_xrc - XRC segment, in every WQE of an XRC_INI QP that sends a packet
 * @srqn: remote XRC SRQ, 24 bits
 * @reserved: zero
 */
struct ohca_hw_wqe_xrc {
	__le32 srqn;
	__le32 reserved[3];
};

OHCA_ASSERT_SIZE(struct ohca_hw_wqe_xrc, 16);

/** struct ohca_hw_wqe_raddr - remote address segment; @raddr in bytes */
struct ohca_hw_wqe_raddr {
	__le64 raddr;
	__le32 rkey;
	__le32 reserved;
};

OHCA_ASSERT_SIZE(struct ohca_hw_wqe_raddr, 16);

/** struct ohca_hw_wqe_atomic - operands; @swap_add is the addend of FETCH_ADD */
struct ohca_hw_wqe_atomic {
	__le64 swap_add;
	__le64 compare;
};

OHCA_ASSERT_SIZE(struct ohca_hw_wqe_atomic, 16);

/**
 * struct ohca_hw_wqe_atomic_masks - masks of MASKED_CMP_SWAP and MASKED_FETCH_ADD
 * @swap: MASKED_CMP_SWAP: bits that are replaced; MASKED_FETCH_ADD: zero
 * @compare: MASKED_CMP_SWAP: bits that are compared; MASKED_FETCH_ADD: bit n keeps
 *	the carry out of bit n from bit n + 1, so that the bits at and below it, down
 *	to the next one set, are a number of their own
 *
 * Follows struct ohca_hw_wqe_atomic. IBTA does not define these operations; they are the
 * kernel's IB_WR_MASKED_ATOMIC_*.
 */
struct ohca_hw_wqe_atomic_masks {
	__le64 swap;
	__le64 compare;
};

OHCA_ASSERT_SIZE(struct ohca_hw_wqe_atomic_masks, 16);

/**
 * struct ohca_hw_wqe_flush - the data that FLUSH makes visible or persistent
 * @length: bytes from the remote address on, with OHCA_FLUSH_RANGE
 * @placement: OHCA_FLUSH_GLOBAL, OHCA_FLUSH_PERSISTENT or both
 * @level: OHCA_FLUSH_RANGE or OHCA_FLUSH_MR
 * @reserved: zero
 *
 * IBTA vol 1, annex A19.4.1.
 */
struct ohca_hw_wqe_flush {
	__le32 length;
	__u8 placement;
	__u8 level;
	__u8 reserved[10];
};

OHCA_ASSERT_SIZE(struct ohca_hw_wqe_flush, 16);

/* Placement types and selectivity levels, as in the FETH of the packet. */
#define OHCA_FLUSH_GLOBAL	OHCA_BIT(0)
#define OHCA_FLUSH_PERSISTENT	OHCA_BIT(1)
#define OHCA_FLUSH_RANGE	0u	/* length bytes from the remote address on */
#define OHCA_FLUSH_MR		1u	/* all of the region */

/**
 * struct ohca_hw_wqe_tso - TSO segment, between the AV and the SGEs
 * @mss: bytes of data in each packet; the last packet has the rest
 * @hlen: bytes of the headers, at most OHCA_MAX_TSO_HDR: IPoIB (RFC 4391), IPv4 and TCP.
 *	The headers follow this segment, padded to 16 bytes
 * @reserved: zero
 *
 * The SGEs name the data. Every packet carries the headers. The device sets length,
 * identification, sequence number, flags and checksums in each packet.
 */
struct ohca_hw_wqe_tso {
	__le16 mss;
	__le16 hlen;
	__u8 reserved[12];
};

OHCA_ASSERT_SIZE(struct ohca_hw_wqe_tso, 16);

#define OHCA_MAX_TSO_HDR	128u

/**
 * struct ohca_hw_wqe_reg - registration segment of REG_MR and BIND_MW
 * @key: REG_MR: the new key: index of an MR of type OHCA_MR_FRMR, any tag;
 *	BIND_MW: the new R_Key of the window
 * @access: OHCA_ACCESS_*
 * @iova: address of the first byte
 * @length: bytes
 * @pl: pages (REG_MR only)
 * @mr_key: L_Key of the MR that the window is bound to (BIND_MW only)
 * @pl_offset: offset of the first byte in the first page (REG_MR only)
 */
struct ohca_hw_wqe_reg {
	__le32 key;
	__le32 access;
	__le64 iova;
	__le64 length;
	struct ohca_hw_pl pl;
	__le32 mr_key;
	__le32 pl_offset;
};

OHCA_ASSERT_SIZE(struct ohca_hw_wqe_reg, 48);

/** struct ohca_hw_sge - scatter/gather entry; @length in bytes; an entry of length 0 is empty */
struct ohca_hw_sge {
	__le64 addr;
	__le32 length;
	__le32 lkey;
};

OHCA_ASSERT_SIZE(struct ohca_hw_sge, 16);

/**
 * struct ohca_hw_rwqe_ctrl - first segment of a receive WQE
 * @wr_id: returned unchanged in the CQE
 * @num_sge: SGEs that follow
 * @reserved: zero
 */
struct ohca_hw_rwqe_ctrl {
	__le64 wr_id;
	__u8 num_sge;
	__u8 reserved[7];
};

OHCA_ASSERT_SIZE(struct ohca_hw_rwqe_ctrl, 16);

/**
 * struct ohca_hw_cqe - completion queue entry
 *
 * Bytes 0 to 47 have the layout and enumerations of struct ibv_wc (little-endian).
 * @wr_id: wr_id of the WQE
 * @status: enum ibv_wc_status
 * @opcode: enum ibv_wc_opcode; valid with every status
 * @vendor_err: enum ohca_vendor_err, 0 for a good completion
 * @byte_len: bytes received, read, or returned by an atomic
 * @imm: immediate data (big-endian, as on the wire)
 * @inv_key: invalidated R_Key
 * @qp_num: QP handle (struct ohca_cmd_create_qp); for a WQE of an XRC SRQ that of the XRC_TGT QP
 * @src_qp: source QP of a datagram; with TM_MATCH: app_ctx of the message's TMH
 * @wc_flags: enum ibv_wc_flags: GRH 1, WITH_IMM 2, IP_CSUM_OK 4, WITH_INV 8, TM_SYNC_REQ 16,
 *	TM_MATCH 32, TM_DATA_VALID 64
 * @pkey_index: P_Key table index the datagram matched (QP1)
 * @slid: source LID of a datagram
 * @sl: service level of a datagram
 * @dlid_path_bits: low LMC bits of the datagram's DLID
 * @reserved0: zero
 * @tag: with OHCA_CQE_TM, in place of the five fields before: with TM_MATCH the tag of the
 *	message, else zero
 * @timestamp: nanoseconds of the device's clock; 0: the CQ does not have OHCA_CQ_TIMESTAMP
 * @wqe_idx: SQ: index of the WQE's first BB; RQ: of the WQE; both free running, but modulo
 *	ring size without OHCA_FEATURE_QP_RESIZE. SRQ: zero; with OHCA_CQE_TM or
 *	OHCA_CQE_XRC: number of the SRQ
 * @flags: OHCA_CQE_SRQ, OHCA_CQE_SEND, OHCA_CQE_TM, OHCA_CQE_TAG_FREE, OHCA_CQE_XRC
 * @handle: with OHCA_CQE_TAG_FREE: number of the tag, low byte first; else zero
 * @owner: OHCA_CQE_OWNER toggles each time the ring wraps: entry i (free running)
 *	is valid when the bit differs from bit log_size of i. Written last.
 */
struct ohca_hw_cqe {
	__le64 wr_id;
	__le32 status;
	__le32 opcode;
	__le32 vendor_err;
	__le32 byte_len;
	union {
		__be32 imm;
		__le32 inv_key;
	};
	__le32 qp_num;
	__le32 src_qp;
	__le32 wc_flags;
	union {
		struct {
			__le16 pkey_index;
			__le16 slid;
			__u8 sl;
			__u8 dlid_path_bits;
			__u8 reserved0[2];
		};
		__le64 tag;
	};
	__le64 timestamp;
	__le32 wqe_idx;
	__u8 flags;
	__u8 handle[2];
	__u8 owner;
};

OHCA_ASSERT_SIZE(struct ohca_hw_cqe, 64);
OHCA_ASSERT_OFFSET(struct ohca_hw_cqe, imm, 24);
OHCA_ASSERT_OFFSET(struct ohca_hw_cqe, pkey_index, 40);
OHCA_ASSERT_OFFSET(struct ohca_hw_cqe, timestamp, 48);
OHCA_ASSERT_OFFSET(struct ohca_hw_cqe, owner, 63);

#define OHCA_CQE_OWNER		0x01u	/* in owner */
/* in flags: */
#define OHCA_CQE_SRQ		0x01u	/* the WQE belongs to an SRQ */
#define OHCA_CQE_SEND		0x02u	/* the WQE belongs to a send queue */
#define OHCA_CQE_TM		0x04u	/* completion of an SRQ with tags (ohca_tm.h) */
#define OHCA_CQE_TAG_FREE	0x08u	/* the tag is free and can be added again */
#define OHCA_CQE_XRC		0x10u	/* completion of an XRC SRQ */

/**
 * ohca_cqe_valid - whether the device has written an entry
 * @owner: byte 63 of the entry
 * @ci: free running consumer index
 * @log_size: log2 of the entries of the ring
 *
 * The driver zeroes the ring before it creates the CQ. It needs a read barrier between this
 * function and reads of the rest of the entry.
 *
 * Return: nonzero if the entry is valid.
 */
static inline int ohca_cqe_valid(__u8 owner, __u32 ci, __u32 log_size)
{
	/* both bits in the place of the index's: compilers make one test of it */
	return (((__u32)owner << log_size) ^ ci) >> log_size & OHCA_CQE_OWNER;
}

/** enum ohca_vendor_err - the exact cause of a failed completion */
enum ohca_vendor_err {
	OHCA_VE_NONE		= 0,
	OHCA_VE_WQE_OPCODE	= 0x01,	/* opcode unknown or not for this QP type */
	OHCA_VE_WQE_SIZE	= 0x02,	/* nseg, inline length or SGE count is bad */
	OHCA_VE_WQE_FLAGS	= 0x03,	/* flags not for this opcode */
	OHCA_VE_WQE_DMA		= 0x04,	/* the WQE itself is not readable memory */
	OHCA_VE_LKEY		= 0x10,	/* no such key, or freed */
	OHCA_VE_PD		= 0x11,	/* key of another PD, or SRQ of another XRC domain */
	OHCA_VE_ACCESS		= 0x12,	/* right not granted */
	OHCA_VE_BOUNDS		= 0x13,	/* outside the region */
	OHCA_VE_DMA		= 0x14,	/* memory behind the key is not accessible */
	OHCA_VE_LENGTH		= 0x15,	/* message longer than allowed or posted */
	OHCA_VE_ALIGN		= 0x16,	/* atomic address not a multiple of 8 */
	OHCA_VE_PAGE_FAULT	= 0x17,	/* a page fault was answered with OHCA_FAULT_FAILED */
	OHCA_VE_AV		= 0x20,	/* SL, GID or P_Key index is bad */
	OHCA_VE_XRC_SRQ		= 0x21,	/* no such XRC SRQ, or it changed within a message */
	OHCA_VE_TAG		= 0x22,	/* ADD of a tag in use, or DEL of one not in the list */
	OHCA_VE_TIMEOUT		= 0x30,	/* transport retries exhausted */
	OHCA_VE_RNR		= 0x31,	/* RNR retries exhausted */
	OHCA_VE_NAK_INV_REQ	= 0x32,	/* NAK "invalid request" */
	OHCA_VE_NAK_ACCESS	= 0x33,	/* NAK "remote access error" */
	OHCA_VE_NAK_OP		= 0x34,	/* NAK "remote operational error" */
	OHCA_VE_BAD_RESP	= 0x35,	/* response of the wrong kind or length */
	OHCA_VE_ABORTED		= 0x36,	/* UC, UD: a message that used a WQE of an SRQ is lost */
	OHCA_VE_FLUSH		= 0x40,	/* QP in the error state */
	OHCA_VE_MR_STATE	= 0x41,	/* registration, bind or invalidate refused */
};

/**
 * struct ohca_hw_eqe - event queue entry
 * @type: enum ohca_event
 * @port: port number for port events, else 0
 * @reserved0: zero
 * @handle: CQ, QP or SRQ number; 0 for device and port events
 * @count: events of the object so far, modulo 2^32 (diagnosis only)
 * @reserved1: zero
 * @phase: bit 0 is 1 in the first pass and toggles each time the ring wraps. Written last.
 */
struct ohca_hw_eqe {
	__u8 type;
	__u8 port;
	__le16 reserved0;
	__le32 handle;
	__le32 count;
	__u8 reserved1[19];
	__u8 phase;
};

OHCA_ASSERT_SIZE(struct ohca_hw_eqe, 32);

/**
 * enum ohca_event - types of an EQE
 *
 * An asynchronous event is OHCA_EVENT_ASYNC plus its value in enum ib_event_type
 * (the kernel's and libibverbs' numbering agree).
 */
enum ohca_event {
	OHCA_EVENT_COMP			= 0x01,
	OHCA_EVENT_PAGE_FAULT		= 0x02,	/* struct ohca_hw_fault_eqe */
	OHCA_EVENT_ASYNC		= 0x10,
	OHCA_EVENT_CQ_ERR		= 0x10,
	OHCA_EVENT_QP_FATAL		= 0x11,
	OHCA_EVENT_QP_REQ_ERR		= 0x12,
	OHCA_EVENT_QP_ACCESS_ERR	= 0x13,
	OHCA_EVENT_COMM_EST		= 0x14,
	OHCA_EVENT_SQ_DRAINED		= 0x15,
	OHCA_EVENT_PATH_MIG		= 0x16,
	OHCA_EVENT_PATH_MIG_ERR		= 0x17,
	OHCA_EVENT_DEVICE_FATAL		= 0x18,
	OHCA_EVENT_PORT_ACTIVE		= 0x19,
	OHCA_EVENT_PORT_ERR		= 0x1a,
	OHCA_EVENT_LID_CHANGE		= 0x1b,
	OHCA_EVENT_PKEY_CHANGE		= 0x1c,
	OHCA_EVENT_SM_CHANGE		= 0x1d,
	OHCA_EVENT_SRQ_ERR		= 0x1e,
	OHCA_EVENT_SRQ_LIMIT		= 0x1f,
	OHCA_EVENT_LAST_WQE		= 0x20,
	OHCA_EVENT_CLIENT_REREGISTER	= 0x21,
	OHCA_EVENT_GID_CHANGE		= 0x22,
};

/*
 * Memory rights, with the bit positions of enum ibv_access_flags.
 */
#define OHCA_ACCESS_LOCAL_WRITE		OHCA_BIT(0)
#define OHCA_ACCESS_REMOTE_WRITE	OHCA_BIT(1)
#define OHCA_ACCESS_REMOTE_READ		OHCA_BIT(2)
#define OHCA_ACCESS_REMOTE_ATOMIC	OHCA_BIT(3)
#define OHCA_ACCESS_MW_BIND		OHCA_BIT(4)
#define OHCA_ACCESS_ZERO_BASED		OHCA_BIT(5)
#define OHCA_ACCESS_FLUSH_GLOBAL	OHCA_BIT(8)	/* with OHCA_FEATURE_MPE */
#define OHCA_ACCESS_FLUSH_PERSISTENT	OHCA_BIT(9)	/* the same; for persistent memory only */

#endif /* OHCA_WQE_H */
