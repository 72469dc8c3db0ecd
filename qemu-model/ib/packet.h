/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * InfiniBand packet headers, opcodes, a bounded decoder and builders.
 *
 * IBTA volume 1: 7.7 (LRH), 8.3 (GRH), 9.2 (BTH and opcodes), 9.3 (extended
 * transport headers). Multi-byte fields are big-endian. All structures are packed (alignment 1) and
 * have the layout of the packet.
 *
 * No function allocates, blocks or keeps state, so any thread may call.
 */
#ifndef OHCA_IB_PACKET_H
#define OHCA_IB_PACKET_H

#include "types.h"

/* LRH.LNH: what follows the LRH (7.7.5). */
enum ib_lnh {
	IB_LNH_RAW	= 0,	/* raw, Ethertype */
	IB_LNH_IPV6	= 1,	/* raw, IPv6 */
	IB_LNH_IBA_LOCAL = 2,	/* BTH */
	IB_LNH_IBA_GLOBAL = 3,	/* GRH, BTH */
};

/* LIDs (4.1.3, 7.7.8). */
#define IB_LID_RESERVED		0x0000u
#define IB_LID_UCAST_MIN	0x0001u
#define IB_LID_UCAST_MAX	0xBFFFu
#define IB_LID_MCAST_MIN	0xC000u
#define IB_LID_MCAST_MAX	0xFFFEu
#define IB_LID_PERMISSIVE	0xFFFFu

#define IB_VL_MANAGEMENT	15u
#define IB_QP0			0u
#define IB_QP1			1u
#define IB_QP_MULTICAST		0xFFFFFFu
#define IB_QKEY_GSI		0x80010000u
#define IB_DEFAULT_PKEY		0xFFFFu
#define IB_PKEY_BASE_MASK	0x7FFFu
#define IB_PKEY_FULL_MEMBER	0x8000u
#define IB_PSN_MASK		0xFFFFFFu
#define IB_QPN_MASK		0xFFFFFFu
#define IB_MSN_MASK		0xFFFFFFu
#define IB_GRH_NXTHDR		0x1Bu
#define IB_GRH_IPVER		6u

#define IB_ICRC_LEN		4u
#define IB_VCRC_LEN		2u
#define IB_LRH_LEN		8u
#define IB_GRH_LEN		40u
#define IB_BTH_LEN		12u
#define IB_DETH_LEN		8u
#define IB_RETH_LEN		16u
#define IB_AETH_LEN		4u
#define IB_ATOMIC_ETH_LEN	28u
#define IB_ATOMIC_ACK_ETH_LEN	8u
#define IB_IMMDT_LEN		4u
#define IB_IETH_LEN		4u
#define IB_RDETH_LEN		4u
#define IB_XRCETH_LEN		4u
#define IB_FETH_LEN		4u
#define IB_MASKED_ATOMIC_ETH_LEN 44u
/* LRH, GRH, BTH and the largest set of extended headers (the masked AtomicETH). */
#define IB_MAX_HDR_LEN		(8u + 40u + 12u + 44u)
#define IB_MAX_PAYLOAD		4096u
/* Largest packet, LRH to ICRC. */
#define IB_MAX_PKT_LEN		(IB_MAX_HDR_LEN + IB_MAX_PAYLOAD + IB_ICRC_LEN)

/** struct ib_lrh - local route header (7.7), 8 bytes. */
struct ib_lrh {
	uint8_t	vl_lver;	/* VL 7:4, LVer 3:0 */
	uint8_t	sl_lnh;		/* SL 7:4, reserved 3:2, LNH 1:0 */
	__be16	dlid;
	__be16	pktlen;		/* reserved 15:11, PktLen 10:0 in 4-byte words, LRH..ICRC */
	__be16	slid;
} IB_PACKED;
static_assert(sizeof(struct ib_lrh) == IB_LRH_LEN, "LRH");

/** struct ib_grh - global route header (8.3), 40 bytes. */
struct ib_grh {
	__be32	ver_tc_flow;	/* IPVer 31:28, TClass 27:20, FlowLabel 19:0 */
	__be16	paylen;		/* bytes after the GRH up to and including the ICRC */
	uint8_t	nxthdr;
	uint8_t	hoplimit;
	uint8_t	sgid[16];
	uint8_t	dgid[16];
} IB_PACKED;
static_assert(sizeof(struct ib_grh) == IB_GRH_LEN, "GRH");

/** struct ib_bth - base transport header (9.2), 12 bytes. */
struct ib_bth {
	uint8_t	opcode;
	uint8_t	flags;		/* SE 7, MigReq 6, PadCnt 5:4, TVer 3:0 */
	__be16	pkey;
	__be32	dqpn;		/* FECN 31, BECN 30, reserved 29:24, DestQP 23:0 */
	__be32	apsn;		/* AckReq 31, reserved 30:24, PSN 23:0 */
} IB_PACKED;
static_assert(sizeof(struct ib_bth) == IB_BTH_LEN, "BTH");

/** struct ib_deth - datagram extended header (9.3.3), 8 bytes. */
struct ib_deth {
	__be32	qkey;
	__be32	sqpn;		/* reserved 31:24, SrcQP 23:0 */
} IB_PACKED;
static_assert(sizeof(struct ib_deth) == IB_DETH_LEN, "DETH");

/** struct ib_reth - RDMA extended header (9.3.4), 16 bytes. */
struct ib_reth {
	__be64	va;
	__be32	rkey;
	__be32	dmalen;
} IB_PACKED;
static_assert(sizeof(struct ib_reth) == IB_RETH_LEN, "RETH");

/** struct ib_aeth - ACK extended header (9.3.6), 4 bytes. */
struct ib_aeth {
	__be32	syn_msn;	/* Syndrome 31:24, MSN 23:0 */
} IB_PACKED;
static_assert(sizeof(struct ib_aeth) == IB_AETH_LEN, "AETH");

/** struct ib_atomic_eth - atomic extended header (9.3.5), 28 bytes. */
struct ib_atomic_eth {
	__be64	va;
	__be32	rkey;
	__be64	swap_add;
	__be64	compare;
} IB_PACKED;
static_assert(sizeof(struct ib_atomic_eth) == IB_ATOMIC_ETH_LEN, "AtomicETH");

/** struct ib_atomic_ack_eth - atomic ACK extended header (9.3.7), 8 bytes. */
struct ib_atomic_ack_eth {
	__be64	orig;		/* value of the target before the operation */
} IB_PACKED;
static_assert(sizeof(struct ib_atomic_ack_eth) == IB_ATOMIC_ACK_ETH_LEN, "AtomicAckETH");

/** struct ib_immdt - immediate data (9.3.8), 4 bytes, passed through unswapped. */
struct ib_immdt {
	__be32	imm;
} IB_PACKED;
static_assert(sizeof(struct ib_immdt) == IB_IMMDT_LEN, "ImmDt");

/** struct ib_ieth - invalidate extended header (9.3.9), 4 bytes. */
struct ib_ieth {
	__be32	rkey;
} IB_PACKED;
static_assert(sizeof(struct ib_ieth) == IB_IETH_LEN, "IETH");

/** struct ib_rdeth - reliable datagram extended header (9.3.1), 4 bytes. */
struct ib_rdeth {
	__be32	eecn;		/* reserved 31:24, EE context 23:0 */
} IB_PACKED;
static_assert(sizeof(struct ib_rdeth) == IB_RDETH_LEN, "RDETH");

/** struct ib_xrceth - XRC extended header (annex A14), 4 bytes. */
struct ib_xrceth {
	__be32	srqn;		/* reserved 31:24, XRC SRQ 23:0 */
} IB_PACKED;
static_assert(sizeof(struct ib_xrceth) == IB_XRCETH_LEN, "XRCETH");

/** struct ib_feth - FLUSH extended header (annex A19.4.1), 4 bytes. */
struct ib_feth {
	__be32	bits;		/* reserved 31:6, selectivity level 5:4, placement type 3:0 */
} IB_PACKED;
static_assert(sizeof(struct ib_feth) == IB_FETH_LEN, "FETH");

/**
 * struct ib_masked_atomic_eth - extended header of a masked atomic, 44 bytes
 *
 * An AtomicETH and two masks. OpenHCA defines this header and the opcodes that use it: the
 * specification reserves opcodes 0xC0 to 0xFF for manufacturers and defines no masked atomics.
 */
struct ib_masked_atomic_eth {
	struct ib_atomic_eth eth;
	__be64	swap_mask;
	__be64	compare_mask;
} IB_PACKED;
static_assert(sizeof(struct ib_masked_atomic_eth) == IB_MASKED_ATOMIC_ETH_LEN, "masked AtomicETH");

/* BTH.OpCode 7:5, the transport service (9.2.1). */
enum ib_transport {
	IB_TRANS_RC	= 0x00,
	IB_TRANS_UC	= 0x20,
	IB_TRANS_RD	= 0x40,
	IB_TRANS_UD	= 0x60,
	IB_TRANS_CNP	= 0x80,
	IB_TRANS_XRC	= 0xA0,
	IB_TRANS_VENDOR	= 0xC0,	/* manufacturer's opcodes; used for RC */
	IB_TRANS_MASK	= 0xE0,
};

/* BTH.OpCode 4:0, the operation (table 38). */
enum ib_operation {
	IB_OPN_SEND_FIRST		= 0x00,
	IB_OPN_SEND_MIDDLE		= 0x01,
	IB_OPN_SEND_LAST		= 0x02,
	IB_OPN_SEND_LAST_IMM		= 0x03,
	IB_OPN_SEND_ONLY		= 0x04,
	IB_OPN_SEND_ONLY_IMM		= 0x05,
	IB_OPN_WRITE_FIRST		= 0x06,
	IB_OPN_WRITE_MIDDLE		= 0x07,
	IB_OPN_WRITE_LAST		= 0x08,
	IB_OPN_WRITE_LAST_IMM		= 0x09,
	IB_OPN_WRITE_ONLY		= 0x0A,
	IB_OPN_WRITE_ONLY_IMM		= 0x0B,
	IB_OPN_READ_REQUEST		= 0x0C,
	IB_OPN_READ_RESP_FIRST		= 0x0D,
	IB_OPN_READ_RESP_MIDDLE		= 0x0E,
	IB_OPN_READ_RESP_LAST		= 0x0F,
	IB_OPN_READ_RESP_ONLY		= 0x10,
	IB_OPN_ACK			= 0x11,
	IB_OPN_ATOMIC_ACK		= 0x12,
	IB_OPN_CMP_SWAP			= 0x13,
	IB_OPN_FETCH_ADD		= 0x14,
	IB_OPN_RESYNC			= 0x15,	/* RD only */
	IB_OPN_SEND_LAST_INV		= 0x16,
	IB_OPN_SEND_ONLY_INV		= 0x17,
	IB_OPN_FLUSH			= 0x1C,	/* annex A19 */
	IB_OPN_ATOMIC_WRITE		= 0x1D,	/* annex A19 */
	IB_OPN_MASK			= 0x1F,
};

/* Complete opcodes: transport | operation. */
#define IB_OP(trans, opn) ((uint8_t)(IB_TRANS_##trans | IB_OPN_##opn))

enum ib_opcode {
	IB_OP_RC_SEND_FIRST		= 0x00,
	IB_OP_RC_SEND_MIDDLE		= 0x01,
	IB_OP_RC_SEND_LAST		= 0x02,
	IB_OP_RC_SEND_LAST_IMM		= 0x03,
	IB_OP_RC_SEND_ONLY		= 0x04,
	IB_OP_RC_SEND_ONLY_IMM		= 0x05,
	IB_OP_RC_WRITE_FIRST		= 0x06,
	IB_OP_RC_WRITE_MIDDLE		= 0x07,
	IB_OP_RC_WRITE_LAST		= 0x08,
	IB_OP_RC_WRITE_LAST_IMM		= 0x09,
	IB_OP_RC_WRITE_ONLY		= 0x0A,
	IB_OP_RC_WRITE_ONLY_IMM		= 0x0B,
	IB_OP_RC_READ_REQUEST		= 0x0C,
	IB_OP_RC_READ_RESP_FIRST	= 0x0D,
	IB_OP_RC_READ_RESP_MIDDLE	= 0x0E,
	IB_OP_RC_READ_RESP_LAST		= 0x0F,
	IB_OP_RC_READ_RESP_ONLY		= 0x10,
	IB_OP_RC_ACK			= 0x11,
	IB_OP_RC_ATOMIC_ACK		= 0x12,
	IB_OP_RC_CMP_SWAP		= 0x13,
	IB_OP_RC_FETCH_ADD		= 0x14,
	IB_OP_RC_SEND_LAST_INV		= 0x16,
	IB_OP_RC_SEND_ONLY_INV		= 0x17,
	IB_OP_RC_FLUSH			= 0x1C,
	IB_OP_RC_ATOMIC_WRITE		= 0x1D,
	IB_OP_UC_SEND_FIRST		= 0x20,
	IB_OP_UC_SEND_MIDDLE		= 0x21,
	IB_OP_UC_SEND_LAST		= 0x22,
	IB_OP_UC_SEND_LAST_IMM		= 0x23,
	IB_OP_UC_SEND_ONLY		= 0x24,
	IB_OP_UC_SEND_ONLY_IMM		= 0x25,
	IB_OP_UC_WRITE_FIRST		= 0x26,
	IB_OP_UC_WRITE_MIDDLE		= 0x27,
	IB_OP_UC_WRITE_LAST		= 0x28,
	IB_OP_UC_WRITE_LAST_IMM		= 0x29,
	IB_OP_UC_WRITE_ONLY		= 0x2A,
	IB_OP_UC_WRITE_ONLY_IMM		= 0x2B,
	IB_OP_UD_SEND_ONLY		= 0x64,
	IB_OP_UD_SEND_ONLY_IMM		= 0x65,
	IB_OP_CNP			= 0x80,
	IB_OP_OHCA_MASKED_CMP_SWAP	= 0xC0,
	IB_OP_OHCA_MASKED_FETCH_ADD	= 0xC1,
};

/* struct ib_opcode_info.hdrs: extended headers, in wire order after the BTH. */
enum ib_hdr_bits {
	IB_HDR_RDETH		= 1 << 0,
	IB_HDR_DETH		= 1 << 1,
	IB_HDR_XRCETH		= 1 << 2,
	IB_HDR_FETH		= 1 << 3,
	IB_HDR_RETH		= 1 << 4,
	IB_HDR_ATOMIC_ETH	= 1 << 5,
	IB_HDR_AETH		= 1 << 6,
	IB_HDR_ATOMIC_ACK_ETH	= 1 << 7,
	IB_HDR_IMMDT		= 1 << 8,
	IB_HDR_IETH		= 1 << 9,
	IB_HDR_MASKED_ATOMIC_ETH = 1 << 10,
};

/* struct ib_opcode_info.flags */
enum ib_opcode_flags {
	IB_OPF_VALID		= 1 << 0,	/* assigned by the specification */
	IB_OPF_FIRST		= 1 << 1,	/* starts a message of several packets */
	IB_OPF_MIDDLE		= 1 << 2,
	IB_OPF_LAST		= 1 << 3,
	IB_OPF_ONLY		= 1 << 4,	/* a message of one packet */
	IB_OPF_PAYLOAD		= 1 << 5,	/* may carry payload */
	IB_OPF_REQUEST		= 1 << 6,	/* for the responder */
	IB_OPF_RESPONSE		= 1 << 7,	/* for the requester */
	IB_OPF_SEND		= 1 << 8,
	IB_OPF_WRITE		= 1 << 9,
	IB_OPF_READ		= 1 << 10,
	IB_OPF_ATOMIC		= 1 << 11,
	IB_OPF_IMM		= 1 << 12,	/* has ImmDt */
	IB_OPF_INV		= 1 << 13,	/* has IETH */
	IB_OPF_ACK		= 1 << 14,	/* acknowledge or atomic acknowledge */
	IB_OPF_RECV_WQE		= 1 << 15,	/* its end consumes a receive WQE */
	IB_OPF_FLUSH		= 1 << 16,
	IB_OPF_ATOMIC_WRITE	= 1 << 17,
	IB_OPF_MASKED		= 1 << 18,	/* atomic with masks */
	IB_OPF_START		= IB_OPF_FIRST | IB_OPF_ONLY,
	IB_OPF_END		= IB_OPF_LAST | IB_OPF_ONLY,
};

/**
 * struct ib_opcode_info - what a BTH opcode means
 * @name: the specification's name, NULL when the opcode is not assigned
 * @flags: enum ib_opcode_flags
 * @hdrs: enum ib_hdr_bits that follow the BTH
 * @hdr_len: bytes of BTH and extended headers together
 * @rdeth, @deth, @xrceth, @feth, @reth, @atomic, @aeth, @atomic_ack, @imm, @ieth: offset of an
 *	extended header from the BTH; 0: it has none; @atomic is that of the masked AtomicETH, too
 */
struct ib_opcode_info {
	const char *name;
	uint32_t flags;
	uint16_t hdrs;
	uint8_t hdr_len;
	uint8_t rdeth, deth, xrceth, feth, reth, atomic, aeth, atomic_ack, imm, ieth;
};

/** ib_opcodes - the opcode table, indexed by BTH.OpCode. */
extern const struct ib_opcode_info ib_opcodes[256];

/** ib_opcode_name() - printable name of any opcode, never NULL. */
const char *ib_opcode_name(uint8_t opcode);

/* ---- accessors, by field ---- */

static inline uint8_t ib_lrh_vl(const struct ib_lrh *h) { return h->vl_lver >> 4; }
static inline uint8_t ib_lrh_lver(const struct ib_lrh *h) { return h->vl_lver & 0xf; }
static inline uint8_t ib_lrh_sl(const struct ib_lrh *h) { return h->sl_lnh >> 4; }
static inline uint8_t ib_lrh_lnh(const struct ib_lrh *h) { return h->sl_lnh & 3; }
static inline uint16_t ib_lrh_dlid(const struct ib_lrh *h) { return ib_be16(h->dlid); }
static inline uint16_t ib_lrh_slid(const struct ib_lrh *h) { return ib_be16(h->slid); }
/** ib_lrh_words() - PktLen: 4-byte words from LRH to ICRC; what data counters add. */
static inline uint16_t ib_lrh_words(const struct ib_lrh *h) { return ib_be16(h->pktlen) & 0x7ff; }

static inline uint8_t ib_grh_ipver(const struct ib_grh *h)
{
	return (uint8_t)(ib_be32(h->ver_tc_flow) >> 28);
}
static inline uint8_t ib_grh_tclass(const struct ib_grh *h)
{
	return (uint8_t)(ib_be32(h->ver_tc_flow) >> 20);
}
static inline uint32_t ib_grh_flow(const struct ib_grh *h)
{
	return ib_be32(h->ver_tc_flow) & 0xfffff;
}

static inline bool ib_bth_se(const struct ib_bth *h) { return h->flags & 0x80; }
static inline bool ib_bth_migreq(const struct ib_bth *h) { return h->flags & 0x40; }
static inline uint8_t ib_bth_pad(const struct ib_bth *h) { return h->flags >> 4 & 3; }
static inline uint8_t ib_bth_tver(const struct ib_bth *h) { return h->flags & 0xf; }
static inline uint16_t ib_bth_pkey(const struct ib_bth *h) { return ib_be16(h->pkey); }
static inline uint32_t ib_bth_dqpn(const struct ib_bth *h)
{
	return ib_be32(h->dqpn) & IB_QPN_MASK;
}
static inline bool ib_bth_fecn(const struct ib_bth *h) { return ib_be32(h->dqpn) >> 31; }
static inline bool ib_bth_becn(const struct ib_bth *h) { return ib_be32(h->dqpn) >> 30 & 1; }
static inline bool ib_bth_ackreq(const struct ib_bth *h) { return ib_be32(h->apsn) >> 31; }
static inline uint32_t ib_bth_psn(const struct ib_bth *h)
{
	return ib_be32(h->apsn) & IB_PSN_MASK;
}

static inline uint32_t ib_deth_sqpn(const struct ib_deth *h)
{
	return ib_be32(h->sqpn) & IB_QPN_MASK;
}
static inline uint8_t ib_feth_placement(const struct ib_feth *h)
{
	return ib_be32(h->bits) & 0xf;
}
static inline uint8_t ib_feth_level(const struct ib_feth *h)
{
	return ib_be32(h->bits) >> 4 & 3;
}
static inline uint8_t ib_aeth_syndrome(const struct ib_aeth *h)
{
	return (uint8_t)(ib_be32(h->syn_msn) >> 24);
}
static inline uint32_t ib_aeth_msn(const struct ib_aeth *h)
{
	return ib_be32(h->syn_msn) & IB_MSN_MASK;
}

/* AETH.Syndrome (9.7.5.1.1): kind 6:5, value 4:0. */
#define IB_AETH_KIND(syn)	((syn) & 0x60)
#define IB_AETH_ACK		0x00	/* value: credit count code, 31 = none */
#define IB_AETH_RNR_NAK		0x20	/* value: RNR timer code */
#define IB_AETH_NAK		0x60	/* value: NAK code */
#define IB_AETH_VALUE(syn)	((syn) & 0x1f)
#define IB_AETH_CREDIT_INVALID	0x1f

/**
 * ib_credit_code() - credit count code of an ACK (9.7.7.2): the largest whose count is at most @n
 *
 * The counts of the codes are 0, 1, 2, 3, 4, 6, 8, 12 and so on up to 32,768, which is code 30.
 */
static inline uint8_t ib_credit_code(uint32_t n)
{
	unsigned int log;

	if (n < 2)
		return (uint8_t)n;
	if (n >= 32768)
		return 30;
	log = 31u - (unsigned int)__builtin_clz(n);
	return (uint8_t)(2 * log + (n >> (log - 1) & 1));
}

/** ib_credit_count() - count of a credit count code other than IB_AETH_CREDIT_INVALID */
static inline uint32_t ib_credit_count(uint8_t code)
{
	return code < 2 ? code : (2u | (code & 1u)) << (code / 2 - 1);
}
enum ib_nak_code {
	IB_NAK_PSN_SEQ		= 0,
	IB_NAK_INV_REQ		= 1,
	IB_NAK_REM_ACCESS	= 2,
	IB_NAK_REM_OP		= 3,
	IB_NAK_INV_RD_REQ	= 4,
};

/** ib_psn_add() - PSN arithmetic modulo 2^24. */
static inline uint32_t ib_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & IB_PSN_MASK;
}

/** ib_psn_diff() - signed distance a - b modulo 2^24, in -2^23 .. 2^23-1. */
static inline int32_t ib_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/** ib_lid_is_ucast() - @lid is in the unicast range 0x0001..0xBFFF. */
static inline bool ib_lid_is_ucast(uint16_t lid)
{
	return lid >= IB_LID_UCAST_MIN && lid <= IB_LID_UCAST_MAX;
}

/** ib_lid_is_mcast() - @lid is in the multicast range 0xC000..0xFFFE. */
static inline bool ib_lid_is_mcast(uint16_t lid)
{
	return lid >= IB_LID_MCAST_MIN && lid <= IB_LID_MCAST_MAX;
}

/** ib_gid_is_mcast() - the GID's first byte is 0xFF. */
static inline bool ib_gid_is_mcast(const uint8_t gid[16])
{
	return gid[0] == 0xff;
}

/**
 * ib_gid_is() - whether GID @got of a packet addresses the port GID @want
 *
 * True also if @got has the default prefix FE80::/64 instead of the subnet's: a port accepts it
 * with any prefix that the SM has set (4.1.1).
 */
static inline bool ib_gid_is(const uint8_t got[16], const uint8_t want[16])
{
	static const uint8_t prefix[8] = { 0xfe, 0x80 };

	return memcmp(got + 8, want + 8, 8) == 0 &&
	       (memcmp(got, want, 8) == 0 || memcmp(got, prefix, 8) == 0);
}

/**
 * ib_pkey_match() - whether two P_Keys match (10.9.3)
 *
 * Their low 15 bits are equal and not zero, and at least one of them is a full member. 0x0000 and
 * 0x8000 are invalid and match nothing.
 */
static inline bool ib_pkey_match(uint16_t a, uint16_t b)
{
	return ((a ^ b) & IB_PKEY_BASE_MASK) == 0 && (a & IB_PKEY_BASE_MASK) != 0 &&
	       ((a | b) & IB_PKEY_FULL_MEMBER);
}

/**
 * ib_pkey_sends() - whether a port with P_KeyTable entry @entry may send packets with P_Key @pkey
 *
 * A full member may send as a limited one, but a limited member may not send as a full one. A
 * switch uses this check for PartitionEnforcementInbound. ib_pkey_match() would be wrong there: the
 * P_Key of a limited member does not match its own entry (10.9.3).
 */
static inline bool ib_pkey_sends(uint16_t entry, uint16_t pkey)
{
	return ((entry ^ pkey) & IB_PKEY_BASE_MASK) == 0 && (pkey & IB_PKEY_BASE_MASK) != 0 &&
	       (entry & IB_PKEY_FULL_MEMBER) >= (pkey & IB_PKEY_FULL_MEMBER);
}

/* ---- decoder ---- */

/* ib_pkt_parse() results; 0 is success, the others are negative. */
enum ib_pkt_err {
	IB_PKT_OK		= 0,
	IB_PKT_ERR_SHORT	= -1,	/* buffer ends inside a header */
	IB_PKT_ERR_LVER		= -2,	/* LRH.LVer is not 0 */
	IB_PKT_ERR_LEN		= -3,	/* PktLen is not the packet's length, or too small */
	IB_PKT_ERR_RAW		= -4,	/* raw packet: no BTH (LRH fields are valid) */
	IB_PKT_ERR_GRH		= -5,	/* IPVer, NxtHdr or PayLen wrong */
	IB_PKT_ERR_TVER		= -6,	/* BTH.TVer is not 0 */
	IB_PKT_ERR_OPCODE	= -7,	/* opcode not assigned */
	IB_PKT_ERR_PAYLOAD	= -8,	/* the opcode allows no payload, or PadCnt > payload */
	IB_PKT_ERR_VL15		= -9,	/* VL15 but not a UD packet to QP0, or QP0 on another VL */
	IB_PKT_ERR_DLID		= -10,	/* DLID 0, or multicast without GRH, or on VL15 */
	IB_PKT_ERR_SLID		= -11,	/* SLID multicast or 0 */
};

/**
 * struct ib_pkt_info - a decoded packet
 *
 * @op: of an opcode that is not assigned, or a packet too short for its headers: a row of zeros
 * @len: bytes LRH..ICRC, from PktLen
 * @hdr_len: bytes of all headers = offset of the payload
 * @payload_len: bytes of payload without pad
 * @bth_off: offset of the BTH from the LRH; 0: there is none
 *
 * The fields are host order. On an error, the fields decoded so far are valid.
 */
struct ib_pkt_info {
	const struct ib_opcode_info *op;
	uint32_t len;
	uint16_t hdr_len;
	uint16_t payload_len;
	uint16_t dlid;
	uint16_t slid;
	uint32_t dqpn;
	uint32_t psn;
	uint16_t pkey;
	uint8_t vl;
	uint8_t sl;
	uint8_t opcode;
	uint8_t pad;
	uint8_t bth_off;
	bool has_grh;
	bool se;
	bool migreq;
	bool fecn;
	bool becn;
	bool ackreq;
};

/* ib_hdr_parse() flags */
#define IB_PARSE_NO_LEN		1u	/* do not compare PktLen (coalesced packets) */
#define IB_PARSE_LOCAL		2u	/* loopback: DLID/SLID/VL rules are not checked */

/**
 * ib_hdr_parse() - decode the headers of a packet whose payload is elsewhere
 * @buf: the headers, starting at the LRH; read only
 * @hdr_bytes: bytes readable at @buf
 * @pkt_len: bytes of the whole packet, LRH up to and including the ICRC
 * @flags: IB_PARSE_*
 * @out: result, always fully written
 *
 * Reads no byte at or beyond @hdr_bytes; no loop depends on the packet. payload_len is computed
 * from @pkt_len; with IB_PARSE_NO_LEN it is not meaningful if it does not fit 16 bits.
 *
 * Return: IB_PKT_OK or a negative enum ib_pkt_err.
 */
int ib_hdr_parse(const uint8_t *buf, size_t hdr_bytes, size_t pkt_len, unsigned int flags,
		 struct ib_pkt_info *out);

/**
 * ib_pkt_parse() - decode a contiguous packet
 * @buf: packet from LRH
 * @len: 4 * PktLen, or 2 more if the buffer includes the VCRC; any other length is an error
 * @out: result, always fully written
 *
 * Does not check CRCs, see crc.h.
 *
 * Return: IB_PKT_OK or a negative enum ib_pkt_err.
 */
int ib_pkt_parse(const uint8_t *buf, size_t len, struct ib_pkt_info *out);

/* Headers of a parsed packet; NULL: it does not have the header. */
static inline const struct ib_lrh *ib_pkt_lrh(const uint8_t *buf)
{
	return (const struct ib_lrh *)(const void *)buf;
}
static inline const struct ib_grh *ib_pkt_grh(const uint8_t *buf, const struct ib_pkt_info *pi)
{
	return pi->has_grh ? (const struct ib_grh *)(const void *)(buf + IB_LRH_LEN) : NULL;
}
static inline const struct ib_bth *ib_pkt_bth(const uint8_t *buf, const struct ib_pkt_info *pi)
{
	return pi->bth_off ? (const struct ib_bth *)(const void *)(buf + pi->bth_off) : NULL;
}
#define IB_PKT_HDR(fn, type, member)							\
static inline const struct type *fn(const uint8_t *buf, const struct ib_pkt_info *pi)	\
{											\
	return pi->op->member ?								\
	       (const struct type *)(const void *)(buf + pi->bth_off + pi->op->member) : NULL; \
}
IB_PKT_HDR(ib_pkt_rdeth, ib_rdeth, rdeth)
IB_PKT_HDR(ib_pkt_deth, ib_deth, deth)
IB_PKT_HDR(ib_pkt_xrceth, ib_xrceth, xrceth)
IB_PKT_HDR(ib_pkt_feth, ib_feth, feth)
IB_PKT_HDR(ib_pkt_reth, ib_reth, reth)
IB_PKT_HDR(ib_pkt_atomic, ib_atomic_eth, atomic)
IB_PKT_HDR(ib_pkt_masked_atomic, ib_masked_atomic_eth, atomic)
IB_PKT_HDR(ib_pkt_aeth, ib_aeth, aeth)
IB_PKT_HDR(ib_pkt_atomic_ack, ib_atomic_ack_eth, atomic_ack)
IB_PKT_HDR(ib_pkt_immdt, ib_immdt, imm)
IB_PKT_HDR(ib_pkt_ieth, ib_ieth, ieth)
#undef IB_PKT_HDR

/* ---- builders ----
 *
 * Each writes one header at @p and returns the address after it. Values are truncated to the width
 * of their field.
 */

/** ib_build_lrh() - @words: PktLen, see ib_pkt_words(). */
static inline uint8_t *ib_build_lrh(uint8_t *p, uint8_t vl, uint8_t sl, uint8_t lnh,
				    uint16_t dlid, uint16_t words, uint16_t slid)
{
	p[0] = (uint8_t)(vl << 4);
	p[1] = (uint8_t)(sl << 4 | (lnh & 3));
	ib_put_be16(p + 2, dlid);
	ib_put_be16(p + 4, words & 0x7ff);
	ib_put_be16(p + 6, slid);
	return p + IB_LRH_LEN;
}

/** ib_build_grh() - @paylen: bytes after the GRH up to and including the ICRC. */
static inline uint8_t *ib_build_grh(uint8_t *p, uint8_t tclass, uint32_t flow, uint16_t paylen,
				    uint8_t hoplimit, const uint8_t sgid[16],
				    const uint8_t dgid[16])
{
	ib_put_be32(p, IB_GRH_IPVER << 28 | (uint32_t)tclass << 20 | (flow & 0xfffff));
	ib_put_be16(p + 4, paylen);
	p[6] = IB_GRH_NXTHDR;
	p[7] = hoplimit;
	memcpy(p + 8, sgid, 16);
	memcpy(p + 24, dgid, 16);
	return p + IB_GRH_LEN;
}

/* ib_build_bth() @bits */
#define IB_BTH_SE	0x80u
#define IB_BTH_MIGREQ	0x40u

/** ib_build_bth() - @bits: IB_BTH_*; @pad: 0..3; @ackreq: BTH.A. */
static inline uint8_t *ib_build_bth(uint8_t *p, uint8_t opcode, uint8_t bits, uint8_t pad,
				    uint16_t pkey, uint32_t dqpn, bool ackreq, uint32_t psn)
{
	p[0] = opcode;
	p[1] = (uint8_t)((bits & 0xc0) | (pad & 3) << 4);
	ib_put_be16(p + 2, pkey);
	ib_put_be32(p + 4, dqpn & IB_QPN_MASK);
	ib_put_be32(p + 8, (ackreq ? 1u << 31 : 0) | (psn & IB_PSN_MASK));
	return p + IB_BTH_LEN;
}

/** ib_set_fecn() - set FECN in the BTH at @bth; the ICRC does not cover it */
static inline void ib_set_fecn(uint8_t *bth)
{
	bth[4] |= 0x80;
}

/** ib_set_becn() - set BECN in the BTH at @bth; the ICRC does not cover it */
static inline void ib_set_becn(uint8_t *bth)
{
	bth[4] |= 0x40;
}

/** ib_set_ackreq() - set AckReq in the BTH at @bth */
static inline void ib_set_ackreq(uint8_t *bth)
{
	bth[8] |= 0x80;
}

/** ib_set_psn() - set PSN and AckReq in the BTH at @bth */
static inline void ib_set_psn(uint8_t *bth, bool ackreq, uint32_t psn)
{
	ib_put_be32(bth + 8, (ackreq ? 1u << 31 : 0) | (psn & IB_PSN_MASK));
}

static inline uint8_t *ib_build_deth(uint8_t *p, uint32_t qkey, uint32_t sqpn)
{
	ib_put_be32(p, qkey);
	ib_put_be32(p + 4, sqpn & IB_QPN_MASK);
	return p + IB_DETH_LEN;
}

static inline uint8_t *ib_build_reth(uint8_t *p, uint64_t va, uint32_t rkey, uint32_t dmalen)
{
	ib_put_be64(p, va);
	ib_put_be32(p + 8, rkey);
	ib_put_be32(p + 12, dmalen);
	return p + IB_RETH_LEN;
}

static inline uint8_t *ib_build_aeth(uint8_t *p, uint8_t syndrome, uint32_t msn)
{
	ib_put_be32(p, (uint32_t)syndrome << 24 | (msn & IB_MSN_MASK));
	return p + IB_AETH_LEN;
}

static inline uint8_t *ib_build_atomic(uint8_t *p, uint64_t va, uint32_t rkey,
				       uint64_t swap_add, uint64_t compare)
{
	ib_put_be64(p, va);
	ib_put_be32(p + 8, rkey);
	ib_put_be64(p + 12, swap_add);
	ib_put_be64(p + 20, compare);
	return p + IB_ATOMIC_ETH_LEN;
}

static inline uint8_t *ib_build_masked_atomic(uint8_t *p, uint64_t va, uint32_t rkey,
					      uint64_t swap_add, uint64_t compare,
					      uint64_t swap_mask, uint64_t compare_mask)
{
	p = ib_build_atomic(p, va, rkey, swap_add, compare);
	ib_put_be64(p, swap_mask);
	ib_put_be64(p + 8, compare_mask);
	return p + 16;
}

static inline uint8_t *ib_build_atomic_ack(uint8_t *p, uint64_t orig)
{
	ib_put_be64(p, orig);
	return p + IB_ATOMIC_ACK_ETH_LEN;
}

/** ib_build_immdt() - @imm stays in wire order. */
static inline uint8_t *ib_build_immdt(uint8_t *p, __be32 imm)
{
	memcpy(p, &imm, IB_IMMDT_LEN);
	return p + IB_IMMDT_LEN;
}

static inline uint8_t *ib_build_ieth(uint8_t *p, uint32_t rkey)
{
	ib_put_be32(p, rkey);
	return p + IB_IETH_LEN;
}

static inline uint8_t *ib_build_rdeth(uint8_t *p, uint32_t eecn)
{
	ib_put_be32(p, eecn & IB_QPN_MASK);
	return p + IB_RDETH_LEN;
}

static inline uint8_t *ib_build_xrceth(uint8_t *p, uint32_t srqn)
{
	ib_put_be32(p, srqn & IB_QPN_MASK);
	return p + IB_XRCETH_LEN;
}

/** ib_build_feth() - @placement: type, 4 bits; @level: selectivity level, 2 bits. */
static inline uint8_t *ib_build_feth(uint8_t *p, uint8_t placement, uint8_t level)
{
	ib_put_be32(p, (placement & 0xfu) | (level & 3u) << 4);
	return p + IB_FETH_LEN;
}

/** ib_pad() - BTH.PadCnt for @payload bytes. */
static inline uint8_t ib_pad(uint32_t payload)
{
	return (uint8_t)(-payload & 3);
}

/** ib_pkt_words() - LRH.PktLen of @hdr_len bytes of headers and @payload bytes. */
static inline uint16_t ib_pkt_words(uint32_t hdr_len, uint32_t payload)
{
	return (uint16_t)((hdr_len + payload + ib_pad(payload) + IB_ICRC_LEN) / 4);
}

#endif
