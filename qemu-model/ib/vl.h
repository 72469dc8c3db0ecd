/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Virtual lanes: SL to VL mapping (IBTA volume 1, 7.6.6) and the VL arbiter (7.6.9). The functions
 * use only state of their caller. The link implements credits (7.9, link/ring.c).
 */
#ifndef OHCA_IB_VL_H
#define OHCA_IB_VL_H

#include "types.h"

#define IB_NUM_VLS		16u
#define IB_NUM_SLS		16u
#define IB_MGMT_VL		15u
#define IB_SL2VL_DROP		15u	/* SLtoVL result that means "discard" */

/* ---- SL to VL ---- */

/** struct ib_sl2vl - one SLtoVLMappingTable; entries are 0..15. */
struct ib_sl2vl {
	uint8_t vl[IB_NUM_SLS];
};

/** ib_sl2vl_init() - map each SL to VL SL modulo @nvls; @nvls: data VLs, 1..15. */
void ib_sl2vl_init(struct ib_sl2vl *t, unsigned int nvls);

/**
 * ib_sl2vl_lookup() - VL of an SL, or -1 if the packet must be discarded
 * @nvls: operational data VLs; an entry of @nvls or more discards, as 15 does
 */
static inline int ib_sl2vl_lookup(const struct ib_sl2vl *t, uint8_t sl, unsigned int nvls)
{
	uint8_t vl = t->vl[sl & 15];

	return vl < nvls && vl != IB_SL2VL_DROP ? vl : -1;
}

/** ib_opvls_count() - data VLs of an OperationalVLs or VLCap code 1..5, 0 if invalid. */
static inline unsigned int ib_opvls_count(uint8_t code)
{
	static const uint8_t n[] = { 0, 1, 2, 4, 8, 15 };

	return code < sizeof(n) ? n[code] : 0;
}

/* ---- arbiter ---- */

#define IB_VLARB_MAX		64u
#define IB_VLARB_BLOCK		32u
#define IB_VLARB_UNLIMITED	255u
#define IB_VLARB_UNIT		64u	/* unit of a weight, bytes */
#define IB_VLARB_LOW		0u
#define IB_VLARB_HIGH		1u

/** struct ib_vlarb_entry - a VL (0..14) and its weight in units of 64 bytes; 0 = skip. */
struct ib_vlarb_entry {
	uint8_t vl;
	uint8_t weight;
};

/** struct ib_vlarb_table - one priority's round robin. */
struct ib_vlarb_table {
	uint8_t n;		/* size of the table, PortInfo.VLArbitration*Cap */
	uint8_t cur;		/* entry that is being served */
	uint8_t end;		/* one past the last entry with a weight */
	uint16_t vls;		/* VLs with a weight, one bit each */
	int32_t left;		/* weight that entry @cur has left, bytes */
	uint64_t of_vl[15];	/* for each VL: its entries with a weight, one bit each */
	struct ib_vlarb_entry e[IB_VLARB_MAX];
};

/**
 * struct ib_vlarb - the arbiter of one output port
 * @high_limit: PortInfo.VLHighLimit, units of 4096 bytes; 0: one packet, 255: no limit
 * @last_table: table of the last pick
 * @high_sent: bytes of high priority sent since the last opportunity of low priority
 * @t: tables, IB_VLARB_LOW and IB_VLARB_HIGH
 */
struct ib_vlarb {
	uint8_t high_limit;
	uint8_t last_table;
	uint32_t high_sent;
	struct ib_vlarb_table t[2];
};

/**
 * ib_vlarb_init() - initialize the tables: low: the same weight for each VL; high: empty
 * @caps: entries of each table
 * @nvls: data VLs
 */
void ib_vlarb_init(struct ib_vlarb *a, unsigned int caps, unsigned int nvls);

/**
 * ib_vlarb_set_block() - set a block of VLArbitrationTable
 * @block: 1 low 0..31, 2 low 32..63, 3 high 0..31, 4 high 32..63 (14.2.5.9)
 * Return: 0, or -1 if the table has no such block.
 */
int ib_vlarb_set_block(struct ib_vlarb *a, unsigned int block,
		       const struct ib_vlarb_entry e[IB_VLARB_BLOCK]);

/** ib_vlarb_get_block() - get a block, as ib_vlarb_set_block(); entries beyond the table are 0. */
int ib_vlarb_get_block(const struct ib_vlarb *a, unsigned int block,
		       struct ib_vlarb_entry e[IB_VLARB_BLOCK]);

/**
 * ib_vlarb_pick() - choose the VL that sends the next packet
 * @ready: bit v: VL v has a packet, and the credits for it
 *
 * VL15 has precedence over all others. The caller calls ib_vlarb_sent() for the packet.
 *
 * Return: VL, or -1 when no ready VL is in the tables.
 */
int ib_vlarb_pick(struct ib_vlarb *a, uint16_t ready);

/** ib_vlarb_sent() - charge the @bytes of a packet on @vl, the VL of the last pick. */
void ib_vlarb_sent(struct ib_vlarb *a, uint8_t vl, uint32_t bytes);

#endif
