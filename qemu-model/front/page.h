/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page of an HCA that the fabric's process hosts: memory that it shares with the front, which
 * is the process with the PCI device (QEMU, or a test). It is a memfd of the daemon, sealed against
 * resizing, of OHCA_PAGE_BYTES(): this structure, a ring of mappings, the doorbells
 * (front/doorbell.h).
 *
 * Doorbells, reads of registers and of the clock, and interrupts need no message. All other
 * operations are messages (front/proto.h). Values are in host byte order. D: the daemon writes; F:
 * the front. Neither trusts what the other has written.
 *
 * A doorbell, and the sleep of the daemon, are each a store, a full barrier and a load:
 *
 *	front				daemon
 *	set bits, OR @pending		set @asleep of each page
 *	if (@asleep && exchange it)	read @pending of each page
 *		write the eventfd	none: sleep until the eventfd is written
 *
 * An interrupt: the daemon ORs @irq, and if @irq_any was 0, sets it to 1 and sends a byte by the
 * interrupt socket. The front sets @irq_any to 0 first and then reads and clears the bits.
 *
 * The daemon logs its writes to memory that has a log (front/dirty.h), and then sets @dirty.
 *
 * Translations of an IOMMU are in a ring: the front writes an entry, then @map_head. The daemon
 * reads the ring when an address has no translation, so translations that precede a doorbell are
 * valid for it, and at UNMAP (front/proto.h), by which a front empties a full ring.
 */
#ifndef OHCA_FRONT_PAGE_H
#define OHCA_FRONT_PAGE_H

#include "doorbell.h"

#define OHCA_PAGE_REGS		32u	/* 32-bit registers at the begin of BAR 0 */
#define OHCA_PAGE_VECTORS	2048u

/**
 * struct ohca_page - memory that a front and the daemon share, in addition to the doorbells
 * @reg: D: values of BAR 0, by offset / 4
 * @clock: D: the device's clock, and whether the machine runs: ohca_page_clock_word()
 * @clock_ok: D: the driver has acknowledged OHCA_FEATURE_CLOCK
 * @slow_reads: D: reads of BAR 0 are messages, since a test makes the device falsify them
 * @asleep: D sets 1, and 0 when it is awake; F exchanges 0: the daemon sleeps
 * @irq_any: D sets 1, F exchanges 0: a vector is raised
 * @dirty: D sets 1, F exchanges 0: a log has new entries
 * @irq: D ORs, F exchanges 0: a bit for each vector
 * @map_head: F: entries that have been written to the ring, modulo 2^32
 * @map_tail: D: entries that have been read
 */
struct ohca_page {
	_Atomic uint32_t reg[OHCA_PAGE_REGS];
	_Alignas(64) _Atomic uint64_t clock;
	_Atomic uint32_t clock_ok;
	_Atomic uint32_t slow_reads;
	_Alignas(64) _Atomic uint32_t asleep;
	_Alignas(64) _Atomic uint32_t irq_any;
	_Atomic uint32_t dirty;
	_Alignas(64) _Atomic uint64_t irq[OHCA_PAGE_VECTORS / 64];
	_Alignas(64) _Atomic uint32_t map_head;
	_Alignas(64) _Atomic uint32_t map_tail;
};

#define OHCA_PAGE_CLOCK_MASK	(UINT64_MAX >> 1)	/* of 292 years */

/**
 * ohca_page_clock_word() - the clock, and whether it runs, in one word, so that a reader sees both
 * @ns: with @running the difference from CLOCK_MONOTONIC; without it the clock itself, which
 *	stands; modulo 2^63
 */
static inline uint64_t ohca_page_clock_word(uint64_t ns, bool running)
{
	return ns << 1 | running;
}

/** ohca_page_running() - whether the machine is not paused */
static inline bool ohca_page_running(uint64_t word)
{
	return word & 1;
}

/** ohca_page_clock() - the clock when CLOCK_MONOTONIC is @host_ns */
static inline uint64_t ohca_page_clock(uint64_t word, uint64_t host_ns)
{
	return ((word >> 1) + (ohca_page_running(word) ? host_ns : 0)) & OHCA_PAGE_CLOCK_MASK;
}

/**
 * struct ohca_page_map - an entry of the ring: a struct ohca_front_range (front/proto.h)
 * @iova, @len, @off: as there
 * @block: the block, and the flags, from bit 32
 */
struct ohca_page_map {
	_Atomic uint64_t iova, len, off, block;
};

/** OHCA_PAGE_RING - offset of the ring of mappings, of OHCA_PAGE_MAPS entries */
#define OHCA_PAGE_RING		4096u
#define OHCA_PAGE_MAPS		256u

/** OHCA_PAGE_DOORBELLS - offset of the doorbells */
#define OHCA_PAGE_DOORBELLS	(OHCA_PAGE_RING + OHCA_PAGE_MAPS * sizeof(struct ohca_page_map))

_Static_assert(sizeof(struct ohca_page) <= OHCA_PAGE_RING, "the page overlaps the ring");
_Static_assert(OHCA_PAGE_DOORBELLS % 4096 == 0, "the doorbells do not begin in a page of memory");

/** OHCA_PAGE_BYTES() - size of the whole memfd, for doorbells of ohca_doorbells_bytes() */
#define OHCA_PAGE_BYTES(doorbells)	(OHCA_PAGE_DOORBELLS + (doorbells))

#endif /* OHCA_FRONT_PAGE_H */
