/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA hardware contract: PCI identity, BARs, control registers, handshake
 * and the doorbell page.
 *
 * BAR 0 holds the control registers, BAR 2 the doorbell (UAR) pages, BAR 4 the
 * MSI-X table, BAR 5 the device memory. Control registers are little-endian, 32 or
 * 64 bits wide as named; a 64-bit register may also be accessed as two 32-bit halves,
 * low half first.
 */
#ifndef OHCA_REGS_H
#define OHCA_REGS_H

#include "ohca_types.h"

/*
 * The subsystem IDs of a PF are equal to its vendor and device ID. A device can be configured with
 * another vendor ID, for software that selects devices by the vendor ID. A driver then recognizes
 * it by its device ID and subsystem IDs.
 */
#define OHCA_PCI_VENDOR_ID	0x1234
#define OHCA_PCI_DEVICE_ID_PF	0x0ca0
#define OHCA_PCI_DEVICE_ID_VF	0x0ca1
#define OHCA_PCI_CLASS		0x0207	/* network, InfiniBand */

#define OHCA_BAR_CTRL		0
#define OHCA_BAR_UAR		2
#define OHCA_BAR_MSIX		4
#define OHCA_BAR_DM		5	/* with OHCA_FEATURE_DM */

#define OHCA_CTRL_BAR_SIZE	0x1000u

/*
 * Handshake, in this order:
 *  1. read MAGIC and VERSION; the driver must support the major version
 *  2. write OHCA_CTRL_RESET to CTRL, wait for OHCA_STATUS_READY
 *     (at most OHCA_TIMEOUTS_RESET); function-level reset does the same
 *  3. write PAGE_SHIFT, read FEATURES, write the accepted subset to FEATURES_ACK
 *  4. write AQ_BASE, ACQ_BASE, AQ_LOG_SIZE; zero both rings first
 *  5. write OHCA_CTRL_ENABLE, wait for OHCA_STATUS_ENABLED: the AQ runs and the
 *     ports start to train. If the device does not accept a value, it sets
 *     OHCA_STATUS_FATAL instead, with OHCA_FATAL_BAD_ENABLE in FATAL_REASON.
 */
enum ohca_reg {
	OHCA_REG_MAGIC		= 0x000,	/* RO 32: OHCA_MAGIC */
	OHCA_REG_VERSION	= 0x004,	/* RO 32: OHCA_VERSION_MAJOR/MINOR */
	OHCA_REG_FEATURES	= 0x008,	/* RO 64: enum ohca_feature bits */
	OHCA_REG_FEATURES_ACK	= 0x010,	/* RW 64: subset of FEATURES in use */
	OHCA_REG_CTRL		= 0x018,	/* WO 32: OHCA_CTRL_* */
	OHCA_REG_STATUS		= 0x01c,	/* RO 32: OHCA_STATUS_* */
	OHCA_REG_PAGE_SHIFT	= 0x020,	/* RW 32: log2 of the UAR page stride, 12-16 */
	OHCA_REG_TIMEOUTS	= 0x024,	/* RO 32: OHCA_TIMEOUTS_* */
	OHCA_REG_FATAL_REASON	= 0x028,	/* RO 32: enum ohca_fatal */
	OHCA_REG_LIMITS		= 0x02c,	/* RO 32: OHCA_LIMITS_* */
	OHCA_REG_AQ_BASE	= 0x030,	/* RW 64: bus address of the AQ, 4 KiB aligned */
	OHCA_REG_ACQ_BASE	= 0x038,	/* RW 64: bus address of the ACQ, 4 KiB aligned */
	OHCA_REG_AQ_LOG_SIZE	= 0x040,	/* RW 32: log2 entries of each, 2 to 8 */
	OHCA_REG_AQ_DB		= 0x044,	/* WO 32: AQ producer index, free running */
	OHCA_REG_AQ_INTR	= 0x048,	/* RW 32: bit 0: ACQ entries raise vector 0 */
};

#define OHCA_MAGIC		0x4143484fu	/* "OHCA" in memory order */
#define OHCA_VERSION_MAJOR	OHCA_GENMASK(31, 16)
#define OHCA_VERSION_MINOR	OHCA_GENMASK(15, 0)
/* Without the suffix u, because version strings contain these numbers. */
#define OHCA_MAJOR		1
#define OHCA_MINOR		0

#define OHCA_CTRL_RESET		OHCA_BIT(0)
#define OHCA_CTRL_ENABLE	OHCA_BIT(1)

#define OHCA_STATUS_READY	OHCA_BIT(0)
#define OHCA_STATUS_ENABLED	OHCA_BIT(1)
#define OHCA_STATUS_FATAL	OHCA_BIT(2)
/*
 * The only bit set when the PCI function exists without the process that runs its HCA. MAGIC and
 * VERSION then read as usual, all other registers read as 0, and the device ignores writes. When
 * the bit is clear again, the device is as after power-on.
 */
#define OHCA_STATUS_AWAY	OHCA_BIT(3)

#define OHCA_TIMEOUTS_RESET	OHCA_GENMASK(15, 0)	/* milliseconds */
#define OHCA_TIMEOUTS_CMD	OHCA_GENMASK(31, 16)	/* milliseconds, each command */

#define OHCA_LIMITS_UARS	OHCA_GENMASK(15, 0)	/* UAR pages in BAR 2 */
#define OHCA_LIMITS_VECTORS	OHCA_GENMASK(31, 16)	/* MSI-X vectors */

/** enum ohca_feature - bits of FEATURES; a driver acknowledges those that it uses */
enum ohca_feature {
	OHCA_FEATURE_EVENT_IDX	= 0,	/* doorbell suppression; always present */
	OHCA_FEATURE_SRQ	= 1,
	OHCA_FEATURE_MCAST	= 2,
	OHCA_FEATURE_FRMR	= 3,	/* REG_MR, LOCAL_INV, SEND_WITH_INV */
	OHCA_FEATURE_MW		= 4,
	OHCA_FEATURE_CQ_RESIZE	= 5,
	OHCA_FEATURE_TIMESTAMP	= 6,	/* OHCA_CQ_TIMESTAMP */
	OHCA_FEATURE_REREG	= 7,
	OHCA_FEATURE_XRC	= 8,
	OHCA_FEATURE_ODP	= 9,
	OHCA_FEATURE_DM		= 10,	/* ALLOC_DM, OHCA_MR_DM, BAR 5 */
	OHCA_FEATURE_SRQ_RESIZE	= 11,	/* RESIZE_SRQ */
	OHCA_FEATURE_APM	= 12,	/* automatic path migration */
	OHCA_FEATURE_EXT_ATOMIC	= 13,	/* MASKED_CMP_SWAP, MASKED_FETCH_ADD */
	OHCA_FEATURE_MPE	= 14,	/* FLUSH, ATOMIC_WRITE and the rights for them */
	OHCA_FEATURE_UD_CSUM	= 15,	/* checksums of IP datagrams on UD */
	OHCA_FEATURE_TSO	= 16,	/* TSO on UD */
	OHCA_FEATURE_TM		= 17,	/* tag matching (ohca_tm.h) */
	OHCA_FEATURE_QP_COUNTERS = 18,	/* counter sets, to which QPs can be bound */
	OHCA_FEATURE_QUERY_CONTEXT = 19,	/* QUERY_CONTEXT */
	OHCA_FEATURE_CLOCK	= 20,	/* UAR pages show the clock of the timestamps */
	OHCA_FEATURE_QP_RESIZE	= 21,	/* RESIZE_QP; wqe_idx of CQEs is free running */
	OHCA_FEATURE_MW_TYPE_2A	= 22,	/* OHCA_MR_MW2 is type 2A; without it type 2B */
	OHCA_FEATURE_BIG_ENDIAN	= 23,	/* atomics: numbers in memory are big-endian */
};

/** enum ohca_fatal - why the device set OHCA_STATUS_FATAL */
enum ohca_fatal {
	OHCA_FATAL_NONE		= 0,
	OHCA_FATAL_BAD_ENABLE	= 1,	/* a register of the handshake holds a bad value */
	OHCA_FATAL_AQ_DMA	= 2,	/* the AQ or ACQ is not readable or writable memory */
	OHCA_FATAL_AQ_OVERFLOW	= 3,	/* the AQ producer index ran more than a ring ahead */
	OHCA_FATAL_EQ_DMA	= 4,	/* an EQ is not writable memory */
	OHCA_FATAL_EQ_OVERFLOW	= 5,	/* the asynchronous EQ overflowed */
	OHCA_FATAL_INTERNAL	= 6,
};

/*
 * UAR page: one per user context, at BAR 2 + (uar << PAGE_SHIFT). Page 0 belongs
 * to the kernel. Writes are 64 bits wide and aligned. The device ignores and counts
 * other writes, and doorbells for an object that belongs to another UAR page. The
 * index in a doorbell is a hint: the device reads the real one from the doorbell
 * record.
 * With OHCA_FEATURE_CLOCK, a read of 64 bits returns CLOCK, and a read of 32 bits
 * one of its halves. All else reads as 0.
 */
enum ohca_uar_off {
	OHCA_UAR_SQ	= 0x00,	/* QP handle | SQ producer index << 32 */
	OHCA_UAR_RQ	= 0x08,	/* QP handle | RQ producer index << 32 */
	OHCA_UAR_SRQ	= 0x10,	/* SRQ number | producer index << 32 */
	OHCA_UAR_CQ_ARM	= 0x18,	/* OHCA_CQ_ARM_* */
	OHCA_UAR_EQ	= 0x20,	/* OHCA_EQ_DB_*; UAR page 0 only */
	OHCA_UAR_CLOCK	= 0x28,	/* read only: the device's clock in ns, little-endian */
};

#define OHCA_DB_HANDLE		OHCA_GENMASK64(23, 0)
#define OHCA_DB_INDEX		OHCA_GENMASK64(63, 32)

/*
 * CQ arm: request one completion event.
 * SN is the number of events, modulo 4, that the consumer has received from this CQ.
 * The device ignores a request with an old SN, because its event is still under way.
 * CI is the consumer index, modulo 2^24. If the CQ holds entries past CI that were
 * written after its last event, the event fires at once (with OHCA_CQ_ARM_SOLICITED:
 * if one of these is solicited or an error). So a consumer misses nothing between
 * polling and arming. A consumer that arms first and then polls the entries of the
 * last event gets no second event for them.
 */
#define OHCA_CQ_ARM_CQN		OHCA_GENMASK64(23, 0)
#define OHCA_CQ_ARM_SOLICITED	OHCA_GENMASK64(24, 24)
#define OHCA_CQ_ARM_SN		OHCA_GENMASK64(26, 25)
#define OHCA_CQ_ARM_CI		OHCA_GENMASK64(55, 32)

/*
 * EQ doorbell: returns the entries before CI to the device and, with ARM, requests
 * one interrupt as soon as the EQ holds an entry at or past CI.
 */
#define OHCA_EQ_DB_EQN		OHCA_GENMASK64(15, 0)
#define OHCA_EQ_DB_ARM		OHCA_GENMASK64(16, 16)
#define OHCA_EQ_DB_CI		OHCA_GENMASK64(63, 32)

/**
 * struct ohca_hw_db - doorbell record of a QP, an SRQ or a CQ
 * @sq_pi: SQ producer index in 64-byte basic blocks, free running (QP). In an SRQ with
 *	tags, @sq_pi, @sq_event and @sq_ci count list operations, and the doorbell is
 *	OHCA_UAR_SRQ
 * @sq_event: ring OHCA_UAR_SQ when @sq_pi passes this index (QP)
 * @cq_ci: consumer index in CQEs, free running (CQ)
 * @rsvd0: zero
 * @rq_pi: RQ or SRQ producer index in WQEs, free running (QP, SRQ)
 * @rq_event: ring OHCA_UAR_RQ or _SRQ when @rq_pi passes this index (QP, SRQ)
 * @rsvd1: zero
 * @sq_ci: basic blocks of the SQ that the device has finished, free running (QP)
 * @rq_ci: RQ or SRQ WQEs that the device has copied, free running (QP, SRQ)
 * @rsvd2: zero
 *
 * The driver writes the producer indices and @cq_ci, the device writes the others. A send
 * writes and reads one cache line, and a receive another one. The device writes the event index
 * in these lines only when it has no work left for the queue. It writes the consumer indices all
 * the time, and a driver reads them when a queue seems full; so they are in a third line.
 *
 * After the driver has advanced a producer index, it executes a full barrier, reads the event
 * index and rings the doorbell if ohca_db_needed() returns nonzero. The record of a new queue is
 * zero, so the first post rings.
 */
struct ohca_hw_db {
	__le32 sq_pi;
	__le32 sq_event;
	__le32 cq_ci;
	__le32 rsvd0[13];
	__le32 rq_pi;
	__le32 rq_event;
	__le32 rsvd1[14];
	__le32 sq_ci;
	__le32 rq_ci;
	__le32 rsvd2[14];
};

OHCA_ASSERT_SIZE(struct ohca_hw_db, 192);
OHCA_ASSERT_OFFSET(struct ohca_hw_db, rq_pi, 64);
OHCA_ASSERT_OFFSET(struct ohca_hw_db, sq_ci, 128);

/**
 * ohca_db_needed - whether a doorbell must be rung
 * @event: the device's event index, CPU order
 * @new_pi: producer index now
 * @old_pi: producer index at the last check
 *
 * Return: nonzero if the producer index passed @event, that is if @event lies in
 * [@old_pi, @new_pi). Indices are free running modulo 2^32.
 */
static inline int ohca_db_needed(__u32 event, __u32 new_pi, __u32 old_pi)
{
	return (__u32)(new_pi - event - 1) < (__u32)(new_pi - old_pi);
}

#endif /* OHCA_REGS_H */
