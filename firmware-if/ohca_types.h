/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: the types and field macros that all other headers use.
 *
 * The kernel driver, the rdma-core provider and the device model use these headers
 * unchanged. Structures shared with the device are little-endian (__le16..__le64);
 * fields that InfiniBand itself defines stay big-endian (__be16..__be64).
 */
#ifndef OHCA_TYPES_H
#define OHCA_TYPES_H

#include <linux/types.h>

/**
 * OHCA_BIT - 32-bit value with one bit set
 * @n: bit number, 0 to 31
 */
#define OHCA_BIT(n)		(1u << (n))

/**
 * OHCA_GENMASK - 32-bit mask of a contiguous field
 * @h: highest bit, 0 to 31
 * @l: lowest bit, not above @h
 */
#define OHCA_GENMASK(h, l)	((~0u << (l)) & (~0u >> (31 - (h))))

/** OHCA_GENMASK64 - as OHCA_GENMASK, for 64-bit words, bits 0 to 63 */
#define OHCA_GENMASK64(h, l)	((~0ull << (l)) & (~0ull >> (63 - (h))))

/** OHCA_FIELD_GET - value of the field @mask in the CPU-order word @word */
#define OHCA_FIELD_GET(mask, word) \
	(((word) & (mask)) / ((mask) & (~(mask) + 1)))

/** OHCA_FIELD_PREP - @val shifted into the field @mask; excess bits are cut off */
#define OHCA_FIELD_PREP(mask, val) \
	(((val) * ((mask) & (~(mask) + 1))) & (mask))

/** OHCA_ASSERT_SIZE - compile-time check of the size of a contract structure */
#define OHCA_ASSERT_SIZE(type, size) \
	_Static_assert(sizeof(type) == (size), #type " must be " #size " bytes")

/** OHCA_ASSERT_OFFSET - compile-time check of the offset of a member */
#define OHCA_ASSERT_OFFSET(type, member, off) \
	_Static_assert(__builtin_offsetof(type, member) == (off), \
		       #type "." #member " must be at " #off)

/**
 * struct ohca_hw_pl - page list: the pages of a queue, an MR or an EQ
 * @root: bus address of the first page or of a table, see @levels
 * @npages: pages listed, each of (1 << @page_shift) bytes
 * @page_shift: log2 of the page size in bytes, 12 to 30
 * @levels: 0: @root is the address of the first page and all pages are contiguous;
 *	1: @root is a 4 KiB table of up to 512 __le64 page addresses;
 *	2: @root is a table of level 1 tables; 3: a table of level 2 tables.
 * @reserved: zero
 *
 * Every table is 4 KiB, aligned to 4 KiB. Page addresses are aligned to the page
 * size. The device copies the list while it executes the command or WQE that
 * names it. The driver may free the tables when that command or WQE has completed.
 */
struct ohca_hw_pl {
	__le64 root;
	__le32 npages;
	__u8 page_shift;
	__u8 levels;
	__le16 reserved;
};

OHCA_ASSERT_SIZE(struct ohca_hw_pl, 16);

#define OHCA_PL_TABLE_SIZE	4096u
#define OHCA_PL_TABLE_ENTRIES	512u
#define OHCA_PL_MAX_LEVELS	3u
#define OHCA_PL_MIN_SHIFT	12u
#define OHCA_PL_MAX_SHIFT	30u

/**
 * struct ohca_hw_av - address vector: the path of a UD WQE or of a QP
 * @dqpn: destination QP number, 24 bits (UD only)
 * @qkey: Q_Key to send (UD only). If its most significant bit is set, the device
 *	sends the QP's own Q_Key instead (IBTA vol 1, 10.2.5)
 * @dlid: destination LID
 * @sl: service level, 0 to 15
 * @src_path_bits: the device adds the low LMC bits to the port's base LID and ignores the
 *	others: programs put the low seven bits of a LID here, whatever the LMC is
 * @flags: OHCA_AV_GRH
 * @static_rate: enum ibv_rate value; 0 means the port's rate
 * @sgid_index: index in the port's GID table, used with OHCA_AV_GRH
 * @hop_limit: GRH hop limit
 * @flow_tclass: OHCA_AV_FLOW_LABEL and OHCA_AV_TCLASS
 * @dgid: destination GID, as on the wire
 * @pkey_index: P_Key table index; in a WQE the device uses it on QP1 only
 * @port: port number, from 1 (QP attributes only; a WQE uses the QP's port)
 * @reserved: zero
 *
 * IBTA vol 1, 11.2.2.1 (address handle) and 9.2, 8.3 for the wire fields.
 */
struct ohca_hw_av {
	__le32 dqpn;
	__le32 qkey;
	__le16 dlid;
	__u8 sl;
	__u8 src_path_bits;
	__u8 flags;
	__u8 static_rate;
	__u8 sgid_index;
	__u8 hop_limit;
	__le32 flow_tclass;
	__u8 dgid[16];
	__le16 pkey_index;
	__u8 port;
	__u8 reserved[9];
};

OHCA_ASSERT_SIZE(struct ohca_hw_av, 48);
OHCA_ASSERT_OFFSET(struct ohca_hw_av, dgid, 20);
OHCA_ASSERT_OFFSET(struct ohca_hw_av, pkey_index, 36);

#define OHCA_AV_GRH		OHCA_BIT(0)
#define OHCA_AV_FLOW_LABEL	OHCA_GENMASK(19, 0)
#define OHCA_AV_TCLASS		OHCA_GENMASK(27, 20)

#endif /* OHCA_TYPES_H */
