/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Builds one packet of any opcode, with known field values. */
#ifndef TESTS_IB_BUILD_OP_H
#define TESTS_IB_BUILD_OP_H

#include "ib/crc.h"
#include "ib/packet.h"

#define T_DLID	0x1234
#define T_SLID	0x0102
#define T_SL	3
#define T_VL	1
#define T_PKEY	0x8123
#define T_DQPN	0x00abcd
#define T_PSN	0x654321
#define T_QKEY	0x11223344u
#define T_SQPN	0x00beef
#define T_VA	0x0123456789abcdefull
#define T_RKEY	0x55667788u
#define T_DLEN	0x00010203u
#define T_IMM	0xcafe0001u
#define T_INV	0xdead0002u
#define T_ORIG	0x1111222233334444ull
#define T_SWAP	0xaaaabbbbccccddddull
#define T_CMP	0x9999888877776666ull
#define T_SYN	0x1f
#define T_MSN	0x00777
#define T_SRQN	0x000321
#define T_EEC	0x000654
#define T_PLACEMENT	3
#define T_SWAP_MASK	0x00ff00ff00ff00ffull
#define T_CMP_MASK	0xff00ff00ff00ff00ull
#define T_LEVEL	1

static const uint8_t t_sgid[16] = { 0xfe, 0x80, [8] = 1, [15] = 7 };
static const uint8_t t_dgid[16] = { 0xfe, 0xc0, [8] = 2, [15] = 9 };

/*
 * Builds a packet from LRH to VCRC with a GRH if @grh, and @payload bytes 0, 1, 2, ... (none if the
 * opcode allows none). Return: its length.
 */
static inline size_t build_op(uint8_t *buf, uint8_t opcode, bool grh, uint32_t payload)
{
	const struct ib_opcode_info *op = &ib_opcodes[opcode];
	uint32_t hdr = IB_LRH_LEN + (grh ? IB_GRH_LEN : 0) + op->hdr_len;
	uint8_t *p = buf;
	uint16_t words;
	uint32_t icrc;
	size_t len;

	if (!(op->flags & IB_OPF_PAYLOAD))
		payload = 0;
	words = ib_pkt_words(hdr, payload);
	len = 4u * words;
	p = ib_build_lrh(p, T_VL, T_SL, grh ? IB_LNH_IBA_GLOBAL : IB_LNH_IBA_LOCAL, T_DLID, words,
			 T_SLID);
	if (grh)
		p = ib_build_grh(p, 0x5a, 0x12345, (uint16_t)(len - IB_LRH_LEN - IB_GRH_LEN), 64,
				 t_sgid, t_dgid);
	p = ib_build_bth(p, opcode, IB_BTH_SE | IB_BTH_MIGREQ, ib_pad(payload), T_PKEY, T_DQPN,
			 true, T_PSN);
	if (op->hdrs & IB_HDR_RDETH)
		p = ib_build_rdeth(p, T_EEC);
	if (op->hdrs & IB_HDR_DETH)
		p = ib_build_deth(p, T_QKEY, T_SQPN);
	if (op->hdrs & IB_HDR_XRCETH)
		p = ib_build_xrceth(p, T_SRQN);
	if (op->hdrs & IB_HDR_FETH)
		p = ib_build_feth(p, T_PLACEMENT, T_LEVEL);
	if (op->hdrs & IB_HDR_RETH)
		p = ib_build_reth(p, T_VA, T_RKEY, T_DLEN);
	if (op->hdrs & IB_HDR_ATOMIC_ETH)
		p = ib_build_atomic(p, T_VA, T_RKEY, T_SWAP, T_CMP);
	if (op->hdrs & IB_HDR_MASKED_ATOMIC_ETH)
		p = ib_build_masked_atomic(p, T_VA, T_RKEY, T_SWAP, T_CMP, T_SWAP_MASK, T_CMP_MASK);
	if (op->hdrs & IB_HDR_AETH)
		p = ib_build_aeth(p, T_SYN, T_MSN);
	if (op->hdrs & IB_HDR_ATOMIC_ACK_ETH)
		p = ib_build_atomic_ack(p, T_ORIG);
	if (op->hdrs & IB_HDR_IMMDT)
		p = ib_build_immdt(p, ib_to_be32(T_IMM));
	if (op->hdrs & IB_HDR_IETH)
		p = ib_build_ieth(p, T_INV);
	for (uint32_t i = 0; i < payload; i++)
		*p++ = (uint8_t)i;
	for (uint32_t i = 0; i < ib_pad(payload); i++)
		*p++ = 0;
	if (ib_icrc(buf, len - IB_ICRC_LEN, &icrc) < 0)
		return 0;
	ib_icrc_put(p, icrc);
	ib_vcrc_put(buf + len, ib_vcrc(buf, len));
	return len + IB_VCRC_LEN;
}

#endif
