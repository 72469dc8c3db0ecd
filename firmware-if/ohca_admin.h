/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: the admin queue (AQ).
 *
 * The driver writes 64-byte entries into the AQ ring and its producer index into
 * OHCA_REG_AQ_DB. The device executes entries in order and writes one 64-byte entry
 * for each into the ACQ ring. Bit 0 of its last byte is a phase: 1 in the first pass,
 * toggled each time the ring wraps. The ACQ has as many entries as the AQ. The driver
 * never has more commands outstanding than entries.
 *
 * The completion of a command is a fence. After a DESTROY, DEALLOC, DEREG or
 * DETACH has completed, the device does no DMA for that object and writes no CQE
 * and no EQE that names it.
 *
 * Fields called reserved are zero. The device refuses a command with a reserved field
 * that is not zero (OHCA_ADMIN_BAD_PARAM).
 */
#ifndef OHCA_ADMIN_H
#define OHCA_ADMIN_H

#include "ohca_types.h"
#include "ohca_context.h"
#include "ohca_odp.h"

#define OHCA_AQ_ENTRY_SIZE	64u
#define OHCA_AQ_MIN_LOG_SIZE	2u
#define OHCA_AQ_MAX_LOG_SIZE	8u
#define OHCA_MAILBOX_SIZE	4096u	/* mailboxes are 4 KiB, aligned to 4 KiB */

/** enum ohca_admin_op - commands of the AQ */
enum ohca_admin_op {
	OHCA_CMD_NOP		= 0x00,
	OHCA_CMD_QUERY_DEVICE	= 0x01,	/* struct ohca_cmd_mbox -> struct ohca_hw_device_attr */
	OHCA_CMD_MODIFY_DEVICE	= 0x02,	/* struct ohca_cmd_mbox: 64 bytes of NodeDescription */
	OHCA_CMD_MODIFY_PORT	= 0x03,	/* struct ohca_cmd_modify_port */
	OHCA_CMD_MAD_IFC	= 0x04,	/* struct ohca_cmd_mad_ifc */
	OHCA_CMD_QUERY_COUNTERS	= 0x05,	/* struct ohca_cmd_mbox -> __le64[OHCA_CNT_NUM] */
	OHCA_CMD_QUERY_CONTEXT	= 0x06,	/* struct ohca_cmd_query_context */

	OHCA_CMD_CREATE_EQ	= 0x10,	/* struct ohca_cmd_create_eq -> handle */
	OHCA_CMD_DESTROY_EQ	= 0x11,	/* struct ohca_cmd_handle */

	OHCA_CMD_ALLOC_PD	= 0x18,	/* struct ohca_cmd_alloc_pd -> handle */
	OHCA_CMD_DEALLOC_PD	= 0x19,	/* struct ohca_cmd_handle */

	OHCA_CMD_CREATE_CQ	= 0x20,	/* struct ohca_cmd_create_cq -> handle */
	OHCA_CMD_DESTROY_CQ	= 0x21,	/* struct ohca_cmd_handle */
	OHCA_CMD_MODIFY_CQ	= 0x22,	/* struct ohca_cmd_modify_cq */
	OHCA_CMD_RESIZE_CQ	= 0x23,	/* struct ohca_cmd_resize_cq -> next index */

	OHCA_CMD_CREATE_SRQ	= 0x28,	/* struct ohca_cmd_create_srq -> handle */
	OHCA_CMD_DESTROY_SRQ	= 0x29,	/* struct ohca_cmd_handle */
	OHCA_CMD_MODIFY_SRQ	= 0x2a,	/* struct ohca_cmd_modify_srq */
	OHCA_CMD_QUERY_SRQ	= 0x2b,	/* struct ohca_cmd_handle -> limit */
	OHCA_CMD_RESIZE_SRQ	= 0x2c,	/* struct ohca_cmd_resize_srq -> next index */

	OHCA_CMD_CREATE_QP	= 0x30,	/* struct ohca_cmd_create_qp -> handle */
	OHCA_CMD_DESTROY_QP	= 0x31,	/* struct ohca_cmd_handle */
	OHCA_CMD_MODIFY_QP	= 0x32,	/* struct ohca_cmd_modify_qp */
	OHCA_CMD_QUERY_QP	= 0x33,	/* struct ohca_cmd_handle -> struct ohca_hw_qp_attr */
	OHCA_CMD_RESIZE_QP	= 0x34,	/* ohca_cmd_resize_qp -> ohca_resp_resize_qp */

	OHCA_CMD_REG_MR		= 0x38,	/* struct ohca_cmd_reg_mr -> key */
	OHCA_CMD_DEREG_MR	= 0x39,	/* struct ohca_cmd_handle; handle is the key */
	OHCA_CMD_REREG_MR	= 0x3a,	/* struct ohca_cmd_reg_mr -> key */

	OHCA_CMD_ATTACH_MCAST	= 0x40,	/* struct ohca_cmd_mcast */
	OHCA_CMD_DETACH_MCAST	= 0x41,	/* struct ohca_cmd_mcast */

	OHCA_CMD_ALLOC_XRCD	= 0x48,	/* nothing -> handle */
	OHCA_CMD_DEALLOC_XRCD	= 0x49,	/* struct ohca_cmd_handle */
	OHCA_CMD_ALLOC_DM	= 0x50,	/* struct ohca_cmd_alloc_dm -> struct ohca_resp_alloc_dm */
	OHCA_CMD_FREE_DM	= 0x51,	/* struct ohca_cmd_handle */

	OHCA_CMD_UPDATE_MR_PAGES = 0x58, /* struct ohca_cmd_update_mr */
	OHCA_CMD_PAGE_FAULT_RESUME = 0x59, /* struct ohca_cmd_fault_resume */
	OHCA_CMD_ALLOC_COUNTERS	= 0x60,	/* -> handle, the number of a counter set */
	OHCA_CMD_FREE_COUNTERS	= 0x61,	/* struct ohca_cmd_handle */
	/* struct ohca_cmd_query_counter_set -> __le64[OHCA_CNT_NUM] */
	OHCA_CMD_QUERY_COUNTER_SET = 0x62,
	OHCA_CMD_BIND_COUNTERS	= 0x63,	/* struct ohca_cmd_bind_counters */
};

/** enum ohca_admin_status - status of a command */
enum ohca_admin_status {
	OHCA_ADMIN_OK		= 0,
	OHCA_ADMIN_BAD_OPCODE	= 1,	/* no such command, or feature not acknowledged */
	OHCA_ADMIN_BAD_PARAM	= 2,	/* a field is out of range; syndrome: its byte offset */
	OHCA_ADMIN_BAD_HANDLE	= 3,	/* no such object */
	OHCA_ADMIN_BAD_STATE	= 4,	/* QP transition or attribute not allowed */
	OHCA_ADMIN_NO_RESOURCE	= 5,	/* a limit of ohca_hw_device_attr is reached, or memory */
	OHCA_ADMIN_BUSY		= 6,	/* other objects refer to this one */
	OHCA_ADMIN_DMA		= 7,	/* an address in the command is not accessible memory */
	OHCA_ADMIN_INTERNAL	= 8,
};

/**
 * struct ohca_cmd_hdr - head of every command
 * @opcode: enum ohca_admin_op
 * @reserved: zero
 * @function: zero
 * @cookie: returned in the completion; the driver puts slot and generation here
 */
struct ohca_cmd_hdr {
	__u8 opcode;
	__u8 reserved;
	__le16 function;
	__le32 cookie;
};

OHCA_ASSERT_SIZE(struct ohca_cmd_hdr, 8);

/**
 * struct ohca_cmd_mbox - command with one mailbox
 * @addr: bus address of the mailbox, 4 KiB aligned; the device reads or writes the
 *	size of the structure that the opcode names
 */
struct ohca_cmd_mbox {
	__le64 addr;
};

/** struct ohca_cmd_handle - command on one object; @addr: mailbox of QUERY_QP, else zero */
struct ohca_cmd_handle {
	__le32 handle;
	__le32 reserved;
	__le64 addr;
};

/**
 * struct ohca_cmd_query_counter_set
 * @set: counter set; set 0 has the counts that belong to no other set
 * @port: with set 0: from 1: only the counts of this port; 0: those of the device. Else zero
 * @reserved: zero
 * @addr: mailbox that the device writes __le64[OHCA_CNT_NUM] to
 */
struct ohca_cmd_query_counter_set {
	__le32 set;
	__u8 port;
	__u8 reserved[3];
	__le64 addr;
};

/**
 * struct ohca_cmd_modify_port
 * @port: from 1
 * @flags: OHCA_MODIFY_PORT_*
 * @reserved: zero
 * @set_caps: CapabilityMask bits to set (IsSM, IsCommunicationManagementSupported,
 *	IsDeviceManagementSupported, IsSNMPTunnelingSupported, IsVendorClassSupported)
 * @clr_caps: bits to clear
 */
struct ohca_cmd_modify_port {
	__u8 port;
	__u8 flags;
	__le16 reserved;
	__le32 set_caps;
	__le32 clr_caps;
};

#define OHCA_MODIFY_PORT_RESET_QKEY_CNTR	OHCA_BIT(0)

/**
 * struct ohca_cmd_mad_ifc - process one MAD in the device's SMA or PMA
 * @in_addr: mailbox with the 256-byte request, followed at byte 256 by
 *	struct ohca_hw_mad_in_wc if OHCA_MAD_IFC_HAS_WC is set
 * @out_addr: mailbox for the 256-byte response
 * @port: from 1
 * @flags: OHCA_MAD_IFC_*
 * @reserved: zero
 *
 * Completion: struct ohca_resp_mad_ifc.
 */
struct ohca_cmd_mad_ifc {
	__le64 in_addr;
	__le64 out_addr;
	__u8 port;
	__u8 flags;
	__le16 reserved;
};

#define OHCA_MAD_IFC_HAS_WC		OHCA_BIT(0)
#define OHCA_MAD_IFC_IGNORE_MKEY	OHCA_BIT(1)	/* Get only; no M_Key in the response */

/** struct ohca_hw_mad_in_wc - fields of the work completion of a received MAD */
struct ohca_hw_mad_in_wc {
	__le32 src_qp;
	__le16 slid;
	__le16 pkey_index;
	__u8 sl;
	__u8 dlid_path_bits;
	__u8 grh_valid;
	__u8 reserved[5];
	__u8 grh[40];
};

OHCA_ASSERT_SIZE(struct ohca_hw_mad_in_wc, 56);

/** enum ohca_mad_verdict - result of MAD_IFC */
enum ohca_mad_verdict {
	OHCA_MAD_UNHANDLED	= 0,	/* not for the SMA or PMA: deliver it to software */
	OHCA_MAD_CONSUMED	= 1,	/* handled, there is no response */
	OHCA_MAD_REPLY		= 2,	/* handled, the response is in out_addr */
};

/**
 * struct ohca_cmd_create_eq
 * @pl: ring of 32-byte entries, zeroed
 * @log_size: log2 of its entries, 5 to 20
 * @kind: enum ohca_eq_kind; an EQ for faults has at least 1 << log_max_faults entries
 * @vector: MSI-X vector
 */
struct ohca_cmd_create_eq {
	struct ohca_hw_pl pl;
	__u8 log_size;
	__u8 kind;
	__le16 vector;
};

/** struct ohca_cmd_alloc_pd - @uar: UAR page of the owner; 0 for the kernel */
struct ohca_cmd_alloc_pd {
	__le32 uar;
};

/**
 * struct ohca_cmd_create_cq
 * @pl: buffer: struct ohca_hw_db at byte 0, entries at OHCA_CQ_RING_OFFSET
 * @uar: UAR page of the doorbells that may arm it
 * @eqn: EQ for its completion events
 * @log_size: log2 of its entries, 0 to log_max_cqe
 * @flags: OHCA_CQ_*
 * @reserved: zero
 */
struct ohca_cmd_create_cq {
	struct ohca_hw_pl pl;
	__le32 uar;
	__le32 eqn;
	__u8 log_size;
	__u8 flags;
	__u8 reserved[2];
};

#define OHCA_CQ_TIMESTAMP	0x01u	/* CQEs have timestamps; needs OHCA_FEATURE_TIMESTAMP */

/** struct ohca_cmd_modify_cq - moderation: an event after @count CQEs or @period_us */
struct ohca_cmd_modify_cq {
	__le32 cqn;
	__le16 count;
	__le16 period_us;
};

/**
 * struct ohca_cmd_resize_cq - move a CQ to a new buffer
 * @pl: new buffer, as in CREATE_CQ; zeroed, except for cq_ci of the doorbell record, which is @ci
 * @cqn: CQ number
 * @ci: consumer index, free running
 * @log_size: log2 of the entries of the new ring
 * @reserved: zero
 *
 * The device copies the entries from @ci on to the same free running indices of
 * the new ring, sets their owner bits for that ring, and writes later entries there.
 * Completion: struct ohca_resp_handle with the producer index. The device refuses the command
 * with BAD_PARAM if the entries do not fit or @ci is out of range, and with BAD_STATE if the CQ
 * is in error.
 */
struct ohca_cmd_resize_cq {
	struct ohca_hw_pl pl;
	__le32 cqn;
	__le32 ci;
	__u8 log_size;
	__u8 reserved[3];
};

/** enum ohca_srq_type - values of enum ibv_srq_type */
enum ohca_srq_type {
	OHCA_SRQT_BASIC		= 0,
	OHCA_SRQT_XRC		= 1,	/* OHCA_FEATURE_XRC */
	OHCA_SRQT_TM		= 2,	/* OHCA_FEATURE_TM; see ohca_tm.h */
};

/**
 * struct ohca_cmd_create_srq
 * @pl: buffer: struct ohca_hw_db at byte 0, WQEs at OHCA_RQ_RING_OFFSET, list operations
 *	of OHCA_SRQT_TM at ohca_tm_ring_offset()
 * @pdn: protection domain
 * @uar: UAR page of its doorbells
 * @limit: initial limit; 0 for none
 * @log_size: log2 of its WQEs
 * @log_stride: log2 of the WQE stride in bytes, 6 to 9
 * @type: enum ohca_srq_type
 * @log_ops: OHCA_SRQT_TM: log2 of the ring of list operations; else zero
 * @xrcdn: OHCA_SRQT_XRC: its XRC domain; else zero
 * @cqn: OHCA_SRQT_XRC and _TM: CQ of its receives, with the same UAR page; else zero
 * @num_tags: OHCA_SRQT_TM: number of tags, 1 to max_tags; else zero
 * @reserved: zero
 *
 * Completion: struct ohca_resp_handle with the SRQ number. For OHCA_SRQT_XRC this is also
 * the number on the wire (XRCETH).
 */
struct ohca_cmd_create_srq {
	struct ohca_hw_pl pl;
	__le32 pdn;
	__le32 uar;
	__le32 limit;
	__u8 log_size;
	__u8 log_stride;
	__u8 type;
	__u8 log_ops;
	__le32 xrcdn;
	__le32 cqn;
	__le16 num_tags;
	__le16 reserved;
};

/** struct ohca_cmd_modify_srq - arm the limit event; @limit in WQEs */
struct ohca_cmd_modify_srq {
	__le32 srqn;
	__le32 limit;
};

/**
 * struct ohca_cmd_resize_srq - move an SRQ to a new buffer
 * @pl: new buffer, as in CREATE_SRQ; its content does not matter
 * @srqn: SRQ of any type
 * @limit: with OHCA_RESIZE_SRQ_LIMIT: as in MODIFY_SRQ; else zero, and the limit stays
 * @log_size: log2 of its WQEs; stride, tags and list operations stay as they are
 * @flags: OHCA_RESIZE_SRQ_LIMIT
 * @reserved: zero
 *
 * The device copies the WQEs that it has not used to the same free running indices of the
 * new ring, copies list operations unchanged, and writes the whole doorbell record there.
 * Completion: struct ohca_resp_handle with the producer index up to which it has copied.
 * The driver may post WQEs to the old buffer while the command runs. It copies these to the
 * new buffer behind that index and posts them with the new record. It must not post list
 * operations meanwhile.
 *
 * The device refuses the command, and changes nothing, with BAD_PARAM if the WQEs do not fit
 * or the limit (@limit, or the armed one) is larger than the ring, and with BAD_STATE if the
 * SRQ is in error or its record is inconsistent.
 */
struct ohca_cmd_resize_srq {
	struct ohca_hw_pl pl;
	__le32 srqn;
	__le32 limit;
	__u8 log_size;
	__u8 flags;
	__le16 reserved;
};

#define OHCA_RESIZE_SRQ_LIMIT	OHCA_BIT(0)

/** enum ohca_qp_type - transport service of a QP; values of enum ibv_qp_type */
enum ohca_qp_type {
	OHCA_QPT_SMI		= 0,
	OHCA_QPT_GSI		= 1,
	OHCA_QPT_RC		= 2,
	OHCA_QPT_UC		= 3,
	OHCA_QPT_UD		= 4,
	OHCA_QPT_XRC_INI	= 9,	/* requester only; OHCA_FEATURE_XRC */
	OHCA_QPT_XRC_TGT	= 10,	/* responder only; OHCA_FEATURE_XRC */
};

/**
 * struct ohca_cmd_create_qp
 * @pl: buffer: struct ohca_hw_db at byte 0, RQ at OHCA_RQ_RING_OFFSET (unless the
 *	QP uses an SRQ), SQ at ohca_sq_offset(); see ohca_layout.h
 * @pdn: protection domain
 * @uar: UAR page of its doorbells
 * @send_cqn: CQ of the send queue
 * @recv_cqn: CQ of the receive queue
 * @srqn: SRQ, with OHCA_QP_SRQ; of an XRC_TGT QP its XRC domain
 * @type: enum ohca_qp_type
 * @port: port, from 1, of an SMI or GSI QP; else 0
 * @flags: OHCA_QP_*
 * @log_sq: log2 of the SQ in BBs
 * @log_rq: log2 of the RQ in WQEs
 * @log_rq_stride: log2 of the RQ stride in bytes, 6 to 9
 * @reserved: zero
 *
 * Completion: struct ohca_resp_handle with the QP handle, the number in doorbells,
 * commands and CQEs. Except for SMI and GSI QPs it is also the QP number on the wire. The
 * SMI QP of a port has handle 2 * (port - 1) and number 0 on the wire, the GSI QP has
 * handle 2 * (port - 1) + 1 and number 1. If the port has that QP already, the command
 * fails with BUSY.
 *
 * A QP with an SRQ of type OHCA_SRQT_TM is RC and completes its receives to the SRQ's CQ,
 * whatever @recv_cqn is. @log_sq is zero, and the one block of the SQ is not used.
 *
 * An XRC_INI QP has OHCA_QP_NO_RQ, and @recv_cqn is zero. An XRC_TGT QP has
 * OHCA_QP_NO_RQ and no queue at all: @pl, @pdn, @uar, the CQs and the sizes are zero. It
 * uses the XRC SRQ that a request names, and the PD and the CQ of that SRQ.
 */
struct ohca_cmd_create_qp {
	struct ohca_hw_pl pl;
	__le32 pdn;
	__le32 uar;
	__le32 send_cqn;
	__le32 recv_cqn;
	__le32 srqn;
	__u8 type;
	__u8 port;
	__u8 flags;
	__u8 log_sq;
	__u8 log_rq;
	__u8 log_rq_stride;
	__le16 reserved;
};

#define OHCA_QP_SIGNAL_ALL	OHCA_BIT(0)
#define OHCA_QP_SRQ		OHCA_BIT(1)
/* for kernel QPs: may use the reserved L_Key, controlled Q_Keys, REG_MR and LOCAL_INV */
#define OHCA_QP_PRIVILEGED	OHCA_BIT(2)
#define OHCA_QP_BLOCK_LOOPBACK	OHCA_BIT(3)	/* does not receive its own multicast */
#define OHCA_QP_NO_RQ		OHCA_BIT(4)

/**
 * struct ohca_cmd_resize_qp - move the queues of a QP to a new buffer
 * @pl: new buffer, as in CREATE_QP; its content does not matter
 * @handle: QP with a send queue of its own, in any state
 * @log_sq: log2 of the SQ in BBs
 * @log_rq: log2 of the RQ in WQEs; zero for a QP without one. The stride stays as it is
 * @reserved: zero
 *
 * The device copies the send WQEs that it has not completed and the receive WQEs that it has
 * not used to the same free running indices of the new rings, and writes the whole doorbell
 * record there. Completion: struct ohca_resp_resize_qp with the producer indices up to which
 * it has copied. The driver may post WQEs to the old buffer while the command runs. It copies
 * these to the new buffer behind those indices, posts them with the new record, and rings. In
 * RESET the device copies nothing, and the record is all zero.
 *
 * The device refuses the command, and changes nothing, with BAD_PARAM if the WQEs do not fit.
 * It refuses with BAD_STATE if the record is unreadable or inconsistent, now or at any time
 * since RESET, and for an XRC_TGT QP and a QP with an SRQ with tags, which have no queue of
 * their own.
 */
struct ohca_cmd_resize_qp {
	struct ohca_hw_pl pl;
	__le32 handle;
	__u8 log_sq;
	__u8 log_rq;
	__le16 reserved;
};

/** enum ohca_qp_state - values of enum ibv_qp_state */
enum ohca_qp_state {
	OHCA_QPS_RESET	= 0,
	OHCA_QPS_INIT	= 1,
	OHCA_QPS_RTR	= 2,
	OHCA_QPS_RTS	= 3,
	OHCA_QPS_SQD	= 4,
	OHCA_QPS_SQE	= 5,
	OHCA_QPS_ERR	= 6,
};

/*
 * Attribute mask of MODIFY_QP, with the bit positions of enum ibv_qp_attr_mask.
 */
#define OHCA_ATTR_STATE			OHCA_BIT(0)
#define OHCA_ATTR_CUR_STATE		OHCA_BIT(1)
#define OHCA_ATTR_EN_SQD_NOTIFY		OHCA_BIT(2)
#define OHCA_ATTR_ACCESS		OHCA_BIT(3)
#define OHCA_ATTR_PKEY_INDEX		OHCA_BIT(4)
#define OHCA_ATTR_PORT			OHCA_BIT(5)
#define OHCA_ATTR_QKEY			OHCA_BIT(6)
#define OHCA_ATTR_AV			OHCA_BIT(7)
#define OHCA_ATTR_PATH_MTU		OHCA_BIT(8)
#define OHCA_ATTR_TIMEOUT		OHCA_BIT(9)
#define OHCA_ATTR_RETRY_CNT		OHCA_BIT(10)
#define OHCA_ATTR_RNR_RETRY		OHCA_BIT(11)
#define OHCA_ATTR_RQ_PSN		OHCA_BIT(12)
#define OHCA_ATTR_MAX_RD_ATOMIC		OHCA_BIT(13)
#define OHCA_ATTR_ALT_PATH		OHCA_BIT(14)
#define OHCA_ATTR_MIN_RNR_TIMER		OHCA_BIT(15)
#define OHCA_ATTR_SQ_PSN		OHCA_BIT(16)
#define OHCA_ATTR_MAX_DEST_RD_ATOMIC	OHCA_BIT(17)
#define OHCA_ATTR_PATH_MIG_STATE	OHCA_BIT(18)
#define OHCA_ATTR_CAP			OHCA_BIT(19)
#define OHCA_ATTR_DEST_QPN		OHCA_BIT(20)

/**
 * enum ohca_mig_state - state of path migration; values of enum ibv_mig_state
 *
 * MODIFY_QP accepts REARM and MIGRATED. REARM needs an alternate path, loaded before or by the
 * same command. MIGRATED makes the alternate path of an ARMED QP its primary path.
 *
 * The device changes from REARM to ARMED after the first packet of the peer with MigReq clear.
 * It changes from ARMED to MIGRATED when the primary path fails or the peer has migrated. After
 * each migration, also one by MODIFY_QP, the attributes of the primary path are those that the
 * alternate path had, the attributes of the alternate path are all zero, and the device raises
 * OHCA_EVENT_PATH_MIG.
 *
 * MODIFY_QP fails with BAD_STATE for another alternate path of an ARMED QP without REARM, and
 * for MIGRATED from REARM. IBTA vol 1, 17.2.8.
 */
enum ohca_mig_state {
	OHCA_MIG_MIGRATED	= 0,
	OHCA_MIG_REARM		= 1,
	OHCA_MIG_ARMED		= 2,
};

/**
 * struct ohca_hw_qp_attr - attributes of a QP, in for MODIFY, out for QUERY
 * @state: enum ohca_qp_state, the new state (MODIFY) or the present one (QUERY)
 * @cur_state: with OHCA_ATTR_CUR_STATE: the state that the consumer assumes
 * @path_mtu: 1 to 5: 256 to 4096 bytes
 * @path_mig_state: enum ohca_mig_state; nonzero with OHCA_FEATURE_APM only
 * @qkey: Q_Key (UD)
 * @rq_psn: next expected PSN, 24 bits
 * @sq_psn: next PSN to send, 24 bits
 * @dest_qpn: remote QP, 24 bits
 * @access: OHCA_ACCESS_* rights of the remote side
 * @pkey_index: in the port's P_Key table
 * @alt_pkey_index: P_Key index of the alternate path
 * @en_sqd_notify: raise OHCA_EVENT_SQ_DRAINED in SQD; 0 after a transition to SQD without it
 * @sq_draining: QUERY: the QP is draining in SQD
 * @max_rd_atomic: outstanding READs and atomics as requester
 * @max_dest_rd_atomic: outstanding READs and atomics as responder
 * @min_rnr_timer: 5-bit code of IBTA vol 1 table 45
 * @port: port, from 1
 * @timeout: local ACK timeout, 4.096 us << code, at most 31; 0 is infinite
 * @retry_cnt: 0 to 7
 * @rnr_retry: 0 to 7; 7 is infinite
 * @alt_timeout: timeout of the alternate path, as @timeout
 * @reserved: zero
 * @av: primary path (RC, UC)
 * @alt_av: alternate path, with its port; OHCA_FEATURE_APM
 *
 * IBTA vol 1, 11.2.5.2 (modify QP) gives the legal transitions and attributes.
 */
struct ohca_hw_qp_attr {
	__u8 state;
	__u8 cur_state;
	__u8 path_mtu;
	__u8 path_mig_state;
	__le32 qkey;
	__le32 rq_psn;
	__le32 sq_psn;
	__le32 dest_qpn;
	__le32 access;
	__le16 pkey_index;
	__le16 alt_pkey_index;
	__u8 en_sqd_notify;
	__u8 sq_draining;
	__u8 max_rd_atomic;
	__u8 max_dest_rd_atomic;
	__u8 min_rnr_timer;
	__u8 port;
	__u8 timeout;
	__u8 retry_cnt;
	__u8 rnr_retry;
	__u8 alt_timeout;
	__u8 reserved[26];
	struct ohca_hw_av av;
	struct ohca_hw_av alt_av;
};

OHCA_ASSERT_SIZE(struct ohca_hw_qp_attr, 160);
OHCA_ASSERT_OFFSET(struct ohca_hw_qp_attr, av, 64);

/** struct ohca_cmd_modify_qp - @addr: mailbox with struct ohca_hw_qp_attr */
struct ohca_cmd_modify_qp {
	__le32 handle;
	__le32 attr_mask;
	__le64 addr;
};

/** enum ohca_mr_type */
enum ohca_mr_type {
	OHCA_MR_USER	= 0,	/* the pages of the page list */
	OHCA_MR_DMA	= 1,	/* all bus addresses; iova is the bus address */
	OHCA_MR_FRMR	= 2,	/* empty; REG_MR WQEs set at most length pages */
	OHCA_MR_MW1	= 3,	/* memory window, type 1 */
	OHCA_MR_MW2	= 4,	/* memory window, type 2 */
	OHCA_MR_DM	= 5,	/* a part of device memory from ALLOC_DM */
	OHCA_MR_ODP	= 6,	/* no pages at first; UPDATE_MR_PAGES adds them (ohca_odp.h) */
};

/* Fields that REREG_MR changes; bits of enum ibv_rereg_mr_flags. */
#define OHCA_REREG_TRANS	OHCA_BIT(0)
#define OHCA_REREG_PD		OHCA_BIT(1)
#define OHCA_REREG_ACCESS	OHCA_BIT(2)

/**
 * struct ohca_cmd_reg_mr
 * @pl: OHCA_MR_USER: pages; OHCA_MR_ODP: only page_shift is used
 * @iova: virtual address of the first byte; 0 with OHCA_ACCESS_ZERO_BASED
 * @length: bytes; OHCA_MR_FRMR: largest number of pages of a REG_MR WQE
 * @pdn: protection domain
 * @key: REREG_MR: the MR to change; REG_MR: 0
 * @pl_offset: offset of the first byte in the first page; OHCA_MR_DM: in the device memory
 * @access: OHCA_ACCESS_*; OHCA_MR_DM: must include OHCA_ACCESS_ZERO_BASED
 * @type: enum ohca_mr_type
 * @rereg: REREG_MR: OHCA_REREG_*
 * @dm: OHCA_MR_DM: handle of the device memory; else 0
 * @reserved: zero
 *
 * Completion: struct ohca_resp_handle with the key: index << 8 | tag. L_Key and
 * R_Key are the same number; @access decides what an R_Key allows.
 */
struct ohca_cmd_reg_mr {
	struct ohca_hw_pl pl;
	__le64 iova;
	__le64 length;
	__le32 pdn;
	__le32 key;
	__le32 pl_offset;
	__le16 access;
	__u8 type;
	__u8 rereg;
	__le32 dm;
	__le32 reserved;
};

/**
 * struct ohca_cmd_mcast - attach a QP to a multicast group, or detach it
 * @qp: QP handle
 * @mlid: ignored: the MGID alone identifies the group
 * @reserved: zero
 * @mgid: as on the wire
 *
 * A QP that was attached several times to a group must be detached as often, whatever @mlid is.
 */
struct ohca_cmd_mcast {
	__le32 qp;
	__le16 mlid;
	__le16 reserved;
	__u8 mgid[16];
};

/**
 * struct ohca_cmd_bind_counters - bind a QP to a counter set
 * @qp: QP handle
 * @set: counter set; 0 for none
 *
 * The QP may be in any state. It is bound to one set at a time. FREE_COUNTERS fails with BUSY
 * while QPs are bound to the set.
 */
struct ohca_cmd_bind_counters {
	__le32 qp;
	__le32 set;
};

/**
 * struct ohca_cmd_alloc_dm - allocate device memory
 * @length: requested bytes, at least 1
 * @log_align: the memory begins at a multiple of 1 << @log_align bytes in BAR 5
 * @reserved: zero
 *
 * The device allocates whole pages of the stride that PAGE_SHIFT sets, so that a driver can
 * map them for one process and no other, and zeroes them. The command fails with NO_RESOURCE
 * if no gap is large enough. FREE_DM fails with BUSY while a region uses the memory.
 */
struct ohca_cmd_alloc_dm {
	__le64 length;
	__u8 log_align;
	__u8 reserved[7];
};

/** struct ohca_hw_aqe - one AQ entry */
struct ohca_hw_aqe {
	struct ohca_cmd_hdr hdr;
	union {
		__u8 body[56];
		struct ohca_cmd_mbox mbox;
		struct ohca_cmd_handle handle;
		struct ohca_cmd_modify_port modify_port;
		struct ohca_cmd_mad_ifc mad_ifc;
		struct ohca_cmd_create_eq create_eq;
		struct ohca_cmd_alloc_pd alloc_pd;
		struct ohca_cmd_create_cq create_cq;
		struct ohca_cmd_modify_cq modify_cq;
		struct ohca_cmd_resize_cq resize_cq;
		struct ohca_cmd_create_srq create_srq;
		struct ohca_cmd_modify_srq modify_srq;
		struct ohca_cmd_resize_srq resize_srq;
		struct ohca_cmd_create_qp create_qp;
		struct ohca_cmd_modify_qp modify_qp;
		struct ohca_cmd_resize_qp resize_qp;
		struct ohca_cmd_reg_mr reg_mr;
		struct ohca_cmd_mcast mcast;
		struct ohca_cmd_alloc_dm alloc_dm;
		struct ohca_cmd_update_mr update_mr;
		struct ohca_cmd_fault_resume fault_resume;
		struct ohca_cmd_bind_counters bind_counters;
		struct ohca_cmd_query_context query_context;
		struct ohca_cmd_query_counter_set query_counter_set;
	};
};

OHCA_ASSERT_SIZE(struct ohca_hw_aqe, 64);
OHCA_ASSERT_OFFSET(struct ohca_hw_aqe, body, 8);

/** struct ohca_resp_handle - a result of one number: handle, key or index */
struct ohca_resp_handle {
	__le32 handle;
};

/** struct ohca_resp_mad_ifc - @verdict: enum ohca_mad_verdict */
struct ohca_resp_mad_ifc {
	__u8 verdict;
};

/**
 * struct ohca_resp_alloc_dm - result of ALLOC_DM
 * @handle: number of the memory for REG_MR and FREE_DM
 * @reserved: zero
 * @offset: bytes from the start of BAR 5, a multiple of the page stride
 */
struct ohca_resp_alloc_dm {
	__le32 handle;
	__le32 reserved;
	__le64 offset;
};

/**
 * struct ohca_resp_resize_qp - result of RESIZE_QP
 * @sq_pi: BB after the last send WQE in the new buffer, free running
 * @rq_pi: index after the last receive WQE there, free running; 0 without an RQ
 */
struct ohca_resp_resize_qp {
	__le32 sq_pi;
	__le32 rq_pi;
};

/** struct ohca_resp_query_srq - @limit: armed limit, 0 if none */
struct ohca_resp_query_srq {
	__le32 limit;
};

/**
 * struct ohca_hw_acqe - one ACQ entry
 * @cookie: cookie of the command
 * @status: enum ohca_admin_status
 * @opcode: opcode of the command
 * @syndrome: with BAD_PARAM: byte offset of the refused field in the AQ entry, or 64
 *	plus its offset in the mailbox
 * @body: result
 * @handle: result of create and register commands
 * @mad_ifc: result of MAD_IFC
 * @query_srq: result of QUERY_SRQ
 * @resize_qp: result of RESIZE_QP
 * @alloc_dm: result of ALLOC_DM
 * @reserved: zero
 * @phase: bit 0, see above. Written last.
 */
struct ohca_hw_acqe {
	__le32 cookie;
	__u8 status;
	__u8 opcode;
	__le16 syndrome;
	union {
		__u8 body[48];
		struct ohca_resp_handle handle;
		struct ohca_resp_mad_ifc mad_ifc;
		struct ohca_resp_query_srq query_srq;
		struct ohca_resp_resize_qp resize_qp;
		struct ohca_resp_alloc_dm alloc_dm;
	};
	__u8 reserved[7];
	__u8 phase;
};

OHCA_ASSERT_SIZE(struct ohca_hw_acqe, 64);
OHCA_ASSERT_OFFSET(struct ohca_hw_acqe, body, 8);
OHCA_ASSERT_OFFSET(struct ohca_hw_acqe, phase, 63);

/**
 * struct ohca_hw_device_attr - result of QUERY_DEVICE
 * @features: FEATURES_ACK in force
 * @node_guid: big-endian, as on the wire
 * @sys_image_guid: big-endian
 * @fw_ver: major << 32 | minor << 16 | sub-minor
 * @max_mr_size: bytes
 * @page_size_cap: bit n: pages of 1 << n bytes are accepted in a page list
 * @timestamp_khz: rate of the CQE timestamp
 * @max_qp: QPs, without those of type SMI and GSI
 * @max_cq: CQs
 * @max_mr: MRs, windows included
 * @max_pd: PDs
 * @max_srq: SRQs
 * @max_eq: EQs
 * @max_ah: address handles; 2^31 - 1, because the device has no object for them
 * @max_mcast_grp: multicast groups
 * @max_mcast_qp_attach: QPs of one group
 * @max_total_mcast_qp_attach: attachments in all
 * @max_frmr_pages: pages of one REG_MR
 * @local_dma_lkey: L_Key for bus addresses, for OHCA_QP_PRIVILEGED QPs only
 * @log_max_sq_bbs: log2 of the largest SQ in BBs
 * @log_max_rq_wqes: log2 of the largest RQ
 * @log_max_srq_wqes: log2 of the largest SRQ
 * @log_max_cqe: log2 of the largest CQ
 * @max_sge: SGEs of a WQE
 * @max_sge_rd: SGEs of an RDMA READ WQE
 * @max_rd_atomic: outstanding READs and atomics of a QP as responder
 * @max_init_rd_atomic: outstanding READs and atomics of a QP as requester
 * @max_inline: bytes of inline data in a WQE
 * @max_pkeys: P_Key table entries of a port
 * @num_ports: 1 or 2
 * @log_max_gids: log2 of the GID table entries of a port
 * @local_ca_ack_delay: 4.096 us << code
 * @vendor_id: IEEE OUI of the NodeInfo
 * @vendor_part_id: DeviceID of the NodeInfo
 * @hw_ver: revision of the NodeInfo
 * @num_counters: counters that QUERY_COUNTERS writes
 * @max_odp_size: bytes of a region of type OHCA_MR_ODP
 * @odp_rc: OHCA_ODP_CAP_* of RC
 * @odp_uc: OHCA_ODP_CAP_* of UC
 * @odp_ud: OHCA_ODP_CAP_* of UD
 * @odp_xrc: OHCA_ODP_CAP_* of XRC
 * @log_max_faults: log2 of the page faults that may be unanswered at a time
 * @log_max_tm_ops: log2 of the largest ring of list operations
 * @max_tags: tags of one SRQ
 * @reserved0: zero
 * @dm_size: bytes of device memory, all in BAR 5; 0 without OHCA_FEATURE_DM
 * @reserved: zero
 */
struct ohca_hw_device_attr {
	__le64 features;
	__be64 node_guid;
	__be64 sys_image_guid;
	__le64 fw_ver;
	__le64 max_mr_size;
	__le64 page_size_cap;
	__le64 timestamp_khz;
	__le32 max_qp;
	__le32 max_cq;
	__le32 max_mr;
	__le32 max_pd;
	__le32 max_srq;
	__le32 max_eq;
	__le32 max_ah;
	__le32 max_mcast_grp;
	__le32 max_mcast_qp_attach;
	__le32 max_total_mcast_qp_attach;
	__le32 max_frmr_pages;
	__le32 local_dma_lkey;
	__u8 log_max_sq_bbs;
	__u8 log_max_rq_wqes;
	__u8 log_max_srq_wqes;
	__u8 log_max_cqe;
	__u8 max_sge;
	__u8 max_sge_rd;
	__u8 max_rd_atomic;
	__u8 max_init_rd_atomic;
	__le16 max_inline;
	__le16 max_pkeys;
	__u8 num_ports;
	__u8 log_max_gids;
	__u8 local_ca_ack_delay;
	__u8 reserved0;
	__le32 vendor_id;
	__le32 vendor_part_id;
	__le32 hw_ver;
	__le32 num_counters;
	__le64 max_odp_size;
	__u8 odp_rc;
	__u8 odp_uc;
	__u8 odp_ud;
	__u8 odp_xrc;
	__u8 log_max_faults;
	__u8 log_max_tm_ops;
	__le16 max_tags;
	__le64 dm_size;
	__u8 reserved[96];
};

OHCA_ASSERT_SIZE(struct ohca_hw_device_attr, 256);
OHCA_ASSERT_OFFSET(struct ohca_hw_device_attr, max_qp, 56);
OHCA_ASSERT_OFFSET(struct ohca_hw_device_attr, log_max_sq_bbs, 104);

/**
 * enum ohca_counter - device counters, in the order in which QUERY_COUNTERS writes them
 *
 * New counters are added before OHCA_CNT_NUM only. QUERY_COUNTERS writes those of the whole
 * device. QUERY_COUNTER_SET writes those of one set: the device counts there for a QP as long as
 * it is bound to the set. Counters that do not belong to a QP are 0 there. Set 0 always exists:
 * it counts what no other set counts. With a port, QUERY_COUNTER_SET writes the part of set 0
 * that belongs to this port.
 */
enum ohca_counter {
	OHCA_CNT_DB_BAD_SIZE		= 0,	/* doorbell not 64 bits or not aligned */
	OHCA_CNT_DB_BAD_HANDLE		= 1,	/* doorbell for no object */
	OHCA_CNT_DB_BAD_UAR		= 2,	/* doorbell in the UAR page of another object */
	OHCA_CNT_DB_BAD_INDEX		= 3,	/* producer index more than a ring ahead */
	OHCA_CNT_CMDS			= 4,	/* commands executed */
	OHCA_CNT_CMDS_BAD		= 5,	/* of these, refused */
	OHCA_CNT_DMA_ERR		= 6,	/* accesses to addresses without memory */
	OHCA_CNT_RX_PKTS		= 7,
	OHCA_CNT_TX_PKTS		= 8,
	OHCA_CNT_RX_BAD_PKT		= 9,	/* malformed */
	OHCA_CNT_RX_BAD_QP		= 10,	/* no such QP, wrong type or state */
	OHCA_CNT_RX_BAD_PKEY		= 11,
	OHCA_CNT_RX_BAD_QKEY		= 12,
	OHCA_CNT_RX_NO_WQE		= 13,	/* datagram without a receive WQE that holds it */
	OHCA_CNT_RX_DUP			= 14,	/* duplicate requests */
	OHCA_CNT_RX_OUT_OF_SEQ		= 15,	/* PSN sequence errors as responder */
	OHCA_CNT_RNR_NAK_TX		= 16,
	OHCA_CNT_RNR_NAK_RX		= 17,
	OHCA_CNT_SEQ_NAK_RX		= 18,
	OHCA_CNT_ACK_TIMEOUT		= 19,
	OHCA_CNT_RETRY_EXCEEDED		= 20,
	OHCA_CNT_RNR_RETRY_EXCEEDED	= 21,
	OHCA_CNT_LOCAL_ERR		= 22,	/* WQEs completed with a local error */
	OHCA_CNT_REMOTE_ERR		= 23,	/* WQEs completed with a remote error */
	OHCA_CNT_CQ_OVERFLOW		= 24,
	OHCA_CNT_EQE			= 25,
	OHCA_CNT_EQE_DEFERRED		= 26,
	OHCA_CNT_MADS_RX		= 27,	/* MADs that the SMA and PMA handled */
	OHCA_CNT_MCAST_DROP		= 28,	/* multicast without an attached QP */
	OHCA_CNT_PAGE_FAULT		= 29,	/* page faults reported in the EQ */
	OHCA_CNT_PAGE_FAULT_FAIL	= 30,	/* of these, answered with OHCA_FAULT_FAILED */
	OHCA_CNT_RX_BAD_TMH		= 31,	/* messages for an SRQ with tags, bad header */
	OHCA_CNT_NO_MEMORY		= 32,	/* allocations that the memory budget refused */
	OHCA_CNT_MEMORY			= 33,	/* a gauge: bytes of the budget in use now */
	/* bytes of RX_PKTS, from LRH to ICRC; PortRcvData counts words of 4 bytes */
	OHCA_CNT_RX_BYTES		= 34,
	OHCA_CNT_TX_BYTES		= 35,	/* bytes of TX_PKTS */
	OHCA_CNT_NUM			= 36,
};

#endif /* OHCA_ADMIN_H */
