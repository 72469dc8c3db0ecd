/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Subnet management packets: formats, attributes, directed routes
 * (IBTA volume 1, 14.2).
 *
 * Each attribute has a structure with natural types in host order and a pair of pack and unpack
 * functions. Packing writes the whole attribute, with reserved bits zero. Unpacking accepts any
 * bytes; the agent checks the values (portinfo.h).
 */
#ifndef OHCA_IB_SMP_H
#define OHCA_IB_SMP_H

#include "mad.h"
#include "vl.h"

#define IB_SMP_CLASS_VERSION	1u
#define IB_SMP_MAX_HOPS		64u	/* entries of a path; index 0 is not used */
#define IB_SMP_DATA_LEN		64u
#define IB_SMP_DATA_OFF		64u

/** struct ib_smp - an SMP of either class; a LID routed one has no DR fields. */
struct ib_smp {
	struct ib_mad_hdr hdr;
	__be64	mkey;
	__be16	dr_slid;
	__be16	dr_dlid;
	uint8_t	rsvd[28];
	uint8_t	data[IB_SMP_DATA_LEN];
	uint8_t	init_path[IB_SMP_MAX_HOPS];
	uint8_t	ret_path[IB_SMP_MAX_HOPS];
} IB_PACKED;
static_assert(sizeof(struct ib_smp) == IB_MAD_LEN, "SMP");
static_assert(offsetof(struct ib_smp, data) == IB_SMP_DATA_OFF, "SMP data");
static_assert(offsetof(struct ib_smp, init_path) == 128, "SMP initial path");

enum ib_smp_attr {
	IB_SMP_ATTR_NOTICE		= 0x0002,
	IB_SMP_ATTR_NODE_DESC		= 0x0010,
	IB_SMP_ATTR_NODE_INFO		= 0x0011,
	IB_SMP_ATTR_SWITCH_INFO		= 0x0012,
	IB_SMP_ATTR_GUID_INFO		= 0x0014,
	IB_SMP_ATTR_PORT_INFO		= 0x0015,
	IB_SMP_ATTR_PKEY_TABLE		= 0x0016,
	IB_SMP_ATTR_SL2VL		= 0x0017,
	IB_SMP_ATTR_VLARB		= 0x0018,
	IB_SMP_ATTR_LFT			= 0x0019,
	IB_SMP_ATTR_RFT			= 0x001A,
	IB_SMP_ATTR_MFT			= 0x001B,
	IB_SMP_ATTR_SM_INFO		= 0x0020,
	IB_SMP_ATTR_VENDOR_DIAG		= 0x0030,
	IB_SMP_ATTR_LED_INFO		= 0x0031,
	IB_SMP_ATTR_CABLE_INFO		= 0x0032,
	IB_SMP_ATTR_PORT_INFO_EXT	= 0x0033,
	IB_SMP_ATTR_MLNX_EXT_PORT_INFO	= 0xFF90,	/* see mlnx.h */
};

enum ib_node_type {
	IB_NODE_CHANNEL_ADAPTER	= 1,
	IB_NODE_SWITCH_DEVICE	= 2,
	IB_NODE_ROUTER_DEVICE	= 3,
};

/* ---- DR SMP accessors ---- */

static inline uint8_t ib_smp_hop_ptr(const struct ib_smp *s)
{
	return (uint8_t)(ib_be16(s->hdr.class_specific) >> 8);
}
static inline uint8_t ib_smp_hop_cnt(const struct ib_smp *s)
{
	return (uint8_t)ib_be16(s->hdr.class_specific);
}
static inline void ib_smp_set_hops(struct ib_smp *s, uint8_t ptr, uint8_t cnt)
{
	s->hdr.class_specific = ib_to_be16((uint16_t)(ptr << 8 | cnt));
}
static inline bool ib_smp_returning(const struct ib_smp *s)
{
	return ib_be16(s->hdr.status) & IB_SMP_DIRECTION;
}

/** ib_smp_is_dr() - whether the MAD is a directed route SMP. */
static inline bool ib_smp_is_dr(const struct ib_smp *s)
{
	return s->hdr.mgmt_class == IB_CLASS_SUBN_DR;
}

/*
 * Whether it is a request whose route begins with a LID routed part (14.2.2). Its packet has LIDs,
 * and its sender does not change the hop pointer. The directed part begins at the switch with the
 * DLID.
 */
static inline bool ib_smp_begins_by_lid(const struct ib_smp *s)
{
	return ib_smp_is_dr(s) && !ib_smp_returning(s) && !ib_smp_hop_ptr(s) &&
	       ib_be16(s->dr_slid) != 0xffff;
}

/*
 * Whether the route ends with a LID routed part and the SMP is in it: a request after its directed
 * part, or the response before that part. The packet has LIDs; a response is sent to the SLID of
 * the request.
 */
static inline bool ib_smp_ends_by_lid(const struct ib_smp *s)
{
	return ib_smp_is_dr(s) && ib_smp_hop_ptr(s) == ib_smp_hop_cnt(s) + 1 &&
	       ib_be16(s->dr_dlid) != 0xffff;
}

/* Results of ib_dr_recv() and ib_dr_send() */
enum ib_dr_verdict {
	IB_DR_DISCARD,		/* the route is malformed or does not fit this node */
	IB_DR_LOCAL,		/* for this node's agent (outgoing) or manager (returning) */
	IB_DR_FORWARD,		/* send the updated SMP from port *@out_port */
};

/**
 * ib_dr_recv() - apply the hop rules to a directed route SMP from the wire (14.2.2)
 * @s: the SMP, updated in place (return path, hop pointer)
 * @is_switch: node type; only a switch forwards
 * @in_port: the port that received it
 * @nports: external ports of the node
 * @out_port: result, with IB_DR_FORWARD: the port to send it from
 *
 * The caller has checked the packet's DLID: it is the node's, or permissive, and not permissive if
 * ib_smp_begins_by_lid().
 *
 * For an outgoing SMP to this node the result is IB_DR_LOCAL, and the hop pointer is already
 * advanced past its end, as ib_dr_send() needs it for the answer. For an outgoing SMP whose
 * directed part is followed by a LID routed part (DrDLID not permissive) the result is
 * IB_DR_FORWARD with *@out_port = 0xFF: route it by its DrDLID; a returning one by its DrSLID. A
 * returning SMP for which ib_smp_ends_by_lid() is true continues with its directed part at the
 * switch where that of the request ended.
 */
enum ib_dr_verdict ib_dr_recv(struct ib_smp *s, bool is_switch, uint8_t in_port, uint8_t nports,
			      uint8_t *out_port);
#define IB_DR_PORT_BY_LID 0xFFu

/**
 * ib_dr_send() - apply the hop rules to a directed route SMP that the node itself sends
 * @s: the SMP, updated in place (hop pointer)
 * @is_switch, @nports: as of ib_dr_recv()
 * @out_port: result, with IB_DR_FORWARD: the port to send it from
 *
 * For a new request of a manager (hop pointer 0) and for an answer of an agent (returning).
 * IB_DR_LOCAL: it is not sent, because the route has no hops or the return route has ended.
 * IB_DR_FORWARD with *@out_port = 0xFF: route it by LIDs; an answer, if ib_smp_ends_by_lid(), to
 * the SLID of its request's packet.
 */
enum ib_dr_verdict ib_dr_send(struct ib_smp *s, bool is_switch, uint8_t nports,
			      uint8_t *out_port);

/**
 * ib_smp_make_resp() - turn a request, in place, into its response
 * @status: enum ib_mad_status; D is set in a directed route SMP
 *
 * Clears the M_Key, which responses never contain (14.2.4).
 */
void ib_smp_make_resp(struct ib_smp *s, uint16_t status);

/* ---- attributes ---- */

/** struct ib_node_info - NodeInfo (14.2.5.3), 40 bytes, read only. */
struct ib_node_info {
	uint8_t base_version;
	uint8_t class_version;
	uint8_t node_type;
	uint8_t num_ports;
	uint64_t sys_guid;
	uint64_t node_guid;
	uint64_t port_guid;
	uint16_t partition_cap;
	uint16_t device_id;
	uint32_t revision;
	uint8_t local_port;
	uint32_t vendor_id;
};
void ib_node_info_pack(const struct ib_node_info *v, uint8_t d[IB_SMP_DATA_LEN]);
void ib_node_info_unpack(const uint8_t d[IB_SMP_DATA_LEN], struct ib_node_info *v);

/** struct ib_switch_info - SwitchInfo (14.2.5.4), 20 bytes. */
struct ib_switch_info {
	uint16_t linear_cap;
	uint16_t random_cap;
	uint16_t mcast_cap;
	uint16_t linear_top;
	uint8_t def_port;
	uint8_t def_mcast_primary;
	uint8_t def_mcast_not_primary;
	uint8_t life_time;
	uint8_t port_state_change;	/* Set: 1 clears */
	uint8_t opt_sl2vl;		/* OptimizedSLtoVLMappingProgramming: 1: supported */
	uint16_t lids_per_port;
	uint16_t part_enforce_cap;
	uint8_t inb_enforce_cap;
	uint8_t outb_enforce_cap;
	uint8_t filter_raw_in_cap;
	uint8_t filter_raw_out_cap;
	uint8_t enhanced_port0;
	uint16_t mcast_top;
};
void ib_switch_info_pack(const struct ib_switch_info *v, uint8_t d[IB_SMP_DATA_LEN]);
void ib_switch_info_unpack(const uint8_t d[IB_SMP_DATA_LEN], struct ib_switch_info *v);
/**
 * ib_switch_info_init() - set SwitchInfo of a switch after power-on
 * @linear_cap: LinearFDBCap, LIDs
 * @mcast_cap: MulticastFDBCap, MLIDs
 * @pkeys: PartitionEnforcementCap, P_Keys of a port
 * @enhanced_port0: EnhancedPort0
 *
 * The switch can filter raw packets and enforce P_Keys in both directions, and supports
 * OptimizedSLtoVLMappingProgramming.
 */
void ib_switch_info_init(struct ib_switch_info *v, uint16_t linear_cap, uint16_t mcast_cap,
			 uint16_t pkeys, bool enhanced_port0);

/** struct ib_port_info - PortInfo (14.2.5.6), 64 bytes; the structure has no gaps. */
struct ib_port_info {
	uint64_t mkey;
	uint64_t gid_prefix;
	uint16_t lid;
	uint16_t sm_lid;
	uint32_t cap_mask;
	uint16_t diag_code;
	uint16_t mkey_lease;		/* seconds; 0: never expires */
	uint8_t local_port;
	uint8_t width_enabled;
	uint8_t width_supported;
	uint8_t width_active;
	uint8_t speed_supported;
	uint8_t state;			/* enum ib_port_state */
	uint8_t phys_state;		/* enum ib_phys_state */
	uint8_t down_default;		/* 1 sleep, 2 polling */
	uint8_t mkey_prot;
	uint8_t lmc;
	uint8_t speed_active;
	uint8_t speed_enabled;
	uint8_t mtu;			/* NeighborMTU */
	uint8_t sm_sl;
	uint8_t vl_cap;
	uint8_t init_type;
	uint8_t vl_high_limit;
	uint8_t vlarb_high_cap;
	uint8_t vlarb_low_cap;
	uint8_t init_type_reply;
	uint8_t mtu_cap;
	uint8_t vl_stall_count;
	uint8_t hoq_life;
	uint8_t op_vls;
	uint8_t part_enf_in;
	uint8_t part_enf_out;
	uint8_t filter_raw_in;
	uint8_t filter_raw_out;
	uint16_t mkey_violations;
	uint16_t pkey_violations;
	uint16_t qkey_violations;
	uint8_t guid_cap;		/* entries of GUIDInfo */
	uint8_t client_reregister;
	uint8_t mcast_pkey_trap_sup;
	uint8_t subnet_timeout;
	uint8_t resp_time;
	uint8_t local_phy_errors;
	uint8_t overrun_errors;
	uint8_t speed_ext_active;
	uint8_t speed_ext_supported;
	uint8_t speed_ext_enabled;
	uint16_t max_credit_hint;
	uint16_t cap_mask2;
	uint32_t round_trip;
};
static_assert(sizeof(struct ib_port_info) == 80, "PortInfo without gaps");
void ib_port_info_pack(const struct ib_port_info *v, uint8_t d[IB_SMP_DATA_LEN]);
void ib_port_info_unpack(const uint8_t d[IB_SMP_DATA_LEN], struct ib_port_info *v);

enum ib_port_state {
	IB_PS_NO_CHANGE	= 0,	/* Set only */
	IB_PS_DOWN	= 1,
	IB_PS_INIT	= 2,
	IB_PS_ARMED	= 3,
	IB_PS_ACTIVE	= 4,
};

enum ib_phys_state {
	IB_PHYS_NO_CHANGE	= 0,	/* Set only */
	IB_PHYS_SLEEP		= 1,
	IB_PHYS_POLLING		= 2,
	IB_PHYS_DISABLED	= 3,
	IB_PHYS_TRAINING	= 4,
	IB_PHYS_LINK_UP		= 5,
	IB_PHYS_RECOVERY	= 6,
	IB_PHYS_TEST		= 7,
};

/* PortInfo.CapabilityMask */
#define IB_CAP_SM			(1u << 1)
#define IB_CAP_NOTICE			(1u << 2)
#define IB_CAP_TRAP			(1u << 3)
#define IB_CAP_OPT_IPD			(1u << 4)
#define IB_CAP_AUTO_MIGR		(1u << 5)
#define IB_CAP_SL_MAP			(1u << 6)
#define IB_CAP_MKEY_NVRAM		(1u << 7)
#define IB_CAP_PKEY_NVRAM		(1u << 8)
#define IB_CAP_LED_INFO			(1u << 9)
#define IB_CAP_SM_DISABLED		(1u << 10)
#define IB_CAP_SYS_IMAGE_GUID		(1u << 11)
#define IB_CAP_PKEY_SW_EXT_PORT_TRAP	(1u << 12)
#define IB_CAP_EXT_SPEEDS		(1u << 14)
#define IB_CAP_CAP_MASK2		(1u << 15)
#define IB_CAP_CM			(1u << 16)
#define IB_CAP_SNMP			(1u << 17)
#define IB_CAP_REINIT			(1u << 18)
#define IB_CAP_DEVICE_MGMT		(1u << 19)
#define IB_CAP_VENDOR_CLASS		(1u << 20)
#define IB_CAP_DR_NOTICE		(1u << 21)
#define IB_CAP_CAP_MASK_NOTICE		(1u << 22)
#define IB_CAP_BOOT_MGMT		(1u << 23)
#define IB_CAP_LINK_LATENCY		(1u << 24)
#define IB_CAP_CLIENT_REREG		(1u << 25)
#define IB_CAP_OTHER_LOCAL_CHANGES	(1u << 26)
#define IB_CAP_LINK_SPEED_WIDTH_TABLE	(1u << 27)
#define IB_CAP_VENDOR_MADS_TABLE	(1u << 28)
#define IB_CAP_MCAST_PKEY_TRAP_SUP	(1u << 29)
#define IB_CAP_MCAST_FDB_TOP		(1u << 30)
#define IB_CAP_HIERARCHY_INFO		(1u << 31)
/* CapabilityMask of port 0 of a switch */
#define IB_CAPS_SWITCH	(IB_CAP_NOTICE | IB_CAP_TRAP | IB_CAP_SL_MAP | IB_CAP_SYS_IMAGE_GUID | \
			 IB_CAP_MCAST_FDB_TOP | IB_CAP_PKEY_SW_EXT_PORT_TRAP)

/* PortInfo.CapabilityMask2 */
#define IB_CAP2_SET_NODE_DESC		(1u << 0)
#define IB_CAP2_PORT_INFO_EXT		(1u << 1)
#define IB_CAP2_VIRT			(1u << 2)
#define IB_CAP2_SWITCH_PORT_STATE_TABLE	(1u << 3)
#define IB_CAP2_WIDTH_2X		(1u << 4)
#define IB_CAP2_SPEED_HDR		(1u << 5)
#define IB_CAP2_SPEED_NDR		(1u << 10)
#define IB_CAP2_EXT_SPEEDS2		(1u << 11)
#define IB_CAP2_SPEED_XDR		(1u << 12)

/** struct ib_sm_info - SMInfo (14.2.5.13), 21 bytes. */
struct ib_sm_info {
	uint64_t guid;
	uint64_t sm_key;
	uint32_t act_count;
	uint8_t priority;
	uint8_t state;			/* 0 not active, 1 discovering, 2 standby, 3 master */
};
void ib_sm_info_pack(const struct ib_sm_info *v, uint8_t d[IB_SMP_DATA_LEN]);
void ib_sm_info_unpack(const uint8_t d[IB_SMP_DATA_LEN], struct ib_sm_info *v);

/* GUIDInfo: 8 GUIDs in a block; AttributeModifier = block. */
#define IB_GUIDS_PER_BLOCK	8u
static inline uint64_t ib_guid_block_get(const uint8_t d[IB_SMP_DATA_LEN], unsigned int i)
{
	return ib_get_be64(d + 8 * i);
}
static inline void ib_guid_block_put(uint8_t d[IB_SMP_DATA_LEN], unsigned int i, uint64_t g)
{
	ib_put_be64(d + 8 * i, g);
}

/* P_KeyTable: 32 P_Keys in a block; AttributeModifier = switch port << 16 | block. */
#define IB_PKEYS_PER_BLOCK	32u
static inline uint16_t ib_pkey_block_get(const uint8_t d[IB_SMP_DATA_LEN], unsigned int i)
{
	return ib_get_be16(d + 2 * i);
}
static inline void ib_pkey_block_put(uint8_t d[IB_SMP_DATA_LEN], unsigned int i, uint16_t k)
{
	ib_put_be16(d + 2 * i, k);
}

/*
 * SLtoVLMappingTable: AttributeModifier = switch input port << 8 | output port; in a Set bit 17
 * means all input ports, bit 16 all output ports.
 */
void ib_sl2vl_pack(const struct ib_sl2vl *t, uint8_t d[IB_SMP_DATA_LEN]);
void ib_sl2vl_unpack(const uint8_t d[IB_SMP_DATA_LEN], struct ib_sl2vl *t);

/* VLArbitrationTable: AttributeModifier = block (1..4) << 16 | switch port. */
void ib_vlarb_block_pack(const struct ib_vlarb_entry e[IB_VLARB_BLOCK],
			 uint8_t d[IB_SMP_DATA_LEN]);
void ib_vlarb_block_unpack(const uint8_t d[IB_SMP_DATA_LEN],
			   struct ib_vlarb_entry e[IB_VLARB_BLOCK]);

/* LinearForwardingTable: 64 ports of one byte in a block; AttributeModifier = block. */
#define IB_LFT_PER_BLOCK	64u
#define IB_LFT_NO_PORT		0xFFu

/* MulticastForwardingTable: 32 masks of 16 ports; AttributeModifier = position << 28 | block. */
#define IB_MFT_PER_BLOCK	32u
#define IB_MFT_PORTS_PER_MASK	16u
static inline uint16_t ib_mft_block_get(const uint8_t d[IB_SMP_DATA_LEN], unsigned int i)
{
	return ib_get_be16(d + 2 * i);
}
static inline void ib_mft_block_put(uint8_t d[IB_SMP_DATA_LEN], unsigned int i, uint16_t m)
{
	ib_put_be16(d + 2 * i, m);
}

/* ---- notices ---- */

enum ib_notice_type {
	IB_NOTICE_FATAL		= 0,
	IB_NOTICE_URGENT	= 1,
	IB_NOTICE_SECURITY	= 2,
	IB_NOTICE_SM		= 3,
	IB_NOTICE_INFO		= 4,
	IB_NOTICE_EMPTY		= 0x7f,
};

enum ib_trap_num {
	IB_TRAP_LINK_STATE_CHANGE	= 128,	/* switch */
	IB_TRAP_LOCAL_LINK_INTEGRITY	= 129,
	IB_TRAP_BUFFER_OVERRUN		= 130,
	IB_TRAP_FC_UPDATE_WATCHDOG	= 131,
	IB_TRAP_CAP_MASK_CHANGE		= 144,
	IB_TRAP_SYS_IMAGE_GUID_CHANGE	= 145,
	IB_TRAP_BAD_MKEY		= 256,
	IB_TRAP_BAD_PKEY		= 257,
	IB_TRAP_BAD_QKEY		= 258,
	IB_TRAP_BAD_PKEY_SWITCH		= 259,
};

/** struct ib_notice - Notice (13.4.8.2); @details: written by an ib_trap*() function below. */
struct ib_notice {
	uint8_t generic;
	uint8_t type;
	uint32_t producer;		/* enum ib_node_type */
	uint16_t trap;
	uint16_t issuer_lid;
	uint8_t toggle;
	uint16_t count;
	uint8_t details[54];
};
void ib_notice_pack(const struct ib_notice *v, uint8_t d[IB_SMP_DATA_LEN]);
void ib_notice_unpack(const uint8_t d[IB_SMP_DATA_LEN], struct ib_notice *v);

/** ib_trap128() - details of trap 128; @lid: LID of the switch whose port changed state. */
void ib_trap128(uint8_t details[54], uint16_t lid);

/** ib_trap129_131() - details of traps 129 to 131; @lid, @port: LID and port of a failing link. */
void ib_trap129_131(uint8_t details[54], uint16_t lid, uint8_t port);

/* ib_trap144() @changes, with OtherLocalChanges set */
#define IB_TRAP144_NODE_DESC	0x0001u
#define IB_TRAP144_WIDTH	0x0002u
#define IB_TRAP144_SPEED	0x0004u
#define IB_TRAP144_SM_PRIORITY	0x0008u
/** ib_trap144() - details of trap 144; @changes: other local changes, 0 if none. */
void ib_trap144(uint8_t details[54], uint16_t lid, uint32_t cap_mask, uint16_t changes,
		uint16_t cap_mask2);

/** ib_trap256() - details of trap 256: bad M_Key in @s, whose packet had the SLID @slid. */
void ib_trap256(uint8_t details[54], uint16_t slid, const struct ib_smp *s);

/** struct ib_key_violation - contents of traps 257, 258 and 259. */
struct ib_key_violation {
	uint16_t lid1;			/* source */
	uint16_t lid2;			/* destination */
	uint32_t key;			/* Q_Key, or P_Key */
	uint8_t sl;
	uint32_t qp1;
	uint32_t qp2;
	uint8_t gid1[16];		/* zero if the packet has no GRH */
	uint8_t gid2[16];
	uint16_t sw_lid;		/* 259 only */
	uint8_t port;			/* 259 only */
	uint16_t data_valid;		/* 259 only */
};
/** ib_trap257_258() - details of a P_Key (257) or Q_Key (258) violation at a channel adapter. */
void ib_trap257_258(uint8_t details[54], const struct ib_key_violation *v);
/** ib_trap259() - details of a P_Key violation at a switch port. */
void ib_trap259(uint8_t details[54], const struct ib_key_violation *v);

/**
 * ib_trap_build() - build a LID routed Trap SMP to the subnet manager
 * @s: result, written completely
 * @tid: transaction ID; each new trap has another one, repeats have the same
 * @mkey: PortInfo.M_Key of the sender
 * @n: the Notice
 */
void ib_trap_build(struct ib_smp *s, uint64_t tid, uint64_t mkey, const struct ib_notice *n);

#endif
