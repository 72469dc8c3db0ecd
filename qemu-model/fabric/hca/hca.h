/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * HCAs in the fabric's process: engines (engine/engine.h) that replace hosts of the graph, each
 * with the memory of its machine. One thread runs all of them and the fabric, so a message gets
 * from the sender's WQE over all switches into the receiver's memory without a wake-up, a lock or a
 * system call.
 *
 * A turn of an HCA is one ohca_poll(): FAB_HCA_BURST packets, or a step of a command. HCAs with
 * work get their turns in the order in which the work arrived: a doorbell, a packet, credit, a
 * deadline, or what is left of their last turn. fab_hcas_turn() gives as many turns as HCAs had
 * work when it began, and one more, so that an HCA that received a packet in the first turn may
 * answer it. The fabric has a round between two calls.
 *
 * Freeing the objects of a driver may take long, so no other HCA waits for it. An HCA that is reset
 * frees them in its own turns. Of the HCAs that are gone, one frees a part, about 50 us, in each
 * call of fab_hcas_turn(). All wait only in the cases that ohca_reset() describes: a second reset,
 * or the end, while objects of the first are not freed and this process can get no memory.
 *
 * An HCA may have a front, in another process: then doorbells, registers, clock and interrupts are
 * in a page that both processes map (front/page.h).
 *
 *	hca.c		HCAs: create, turns, free
 *	machine.c	registers, reset, pause, and move to another process
 *	mem.c		the memory of an HCA's machine
 *	iotlb.h		translations of an IOMMU; in iotlb.c
 *	page.c		the page
 *	wire.c		the operations of an engine on its ports
 *	front.h		its front, in other files
 *
 * Owner thread only, but where it says "any thread".
 */
#ifndef OHCA_FABRIC_HCA_H
#define OHCA_FABRIC_HCA_H

#include <sys/uio.h>

#include "engine/engine.h"
#include "fabric/data/hport.h"
#include "fabric/hca/iotlb.h"
#include "front/dirty.h"
#include "front/page.h"

#define FAB_HCA_BURST	64u	/* ohca_poll()'s budget */
#define FAB_HCA_PORTS	2u
#define FAB_HCA_SMPS	32u	/* that a port accepts and answers between two turns */
#define FAB_HCA_RANGES	1024u	/* of memory */
#define FAB_HCA_MAPS	512u	/* translations that are read in a turn, or between two */
#define FAB_HCA_FLUSH	1024u	/* translations that are looked up for a FLUSH */
#define FAB_HCA_PAGE	4096u	/* addresses and lengths of ranges are multiples of it */
#define FAB_HCA_GONE	64u	/* HCAs that wait to be freed; with so many no new one is made */

struct fab_hcas;
struct fab_hca;

/**
 * struct fab_hca_log - log of the writes of HCAs to some memory
 * @mem: begin of the memory in this process
 * @dirty: the log; all 0: writes are not logged
 * @some: set to 1 after each write that is logged
 */
struct fab_hca_log {
	const void *mem;
	struct ohca_dirty dirty;
	_Atomic uint32_t *some;
};

/**
 * struct fab_hca_range - a range of memory that an HCA can access
 * @iova: bus address
 * @len: bytes
 * @mem: its address in this process
 * @read_only: the HCA does not write there
 * @log: log of the memory that contains the range, or NULL
 */
struct fab_hca_range {
	uint64_t iova;
	uint64_t len;
	void *mem;
	bool read_only;
	const struct fab_hca_log *log;
};

/**
 * struct fab_hca_reach - all memory that an HCA can access; all 0: none
 * @range: [@ranges] in the order of addresses; @hit: the range that was used last, or NULL
 * @iotlb: translations of an IOMMU, in addition to @range
 */
struct fab_hca_reach {
	struct fab_hca_range *range;
	const struct fab_hca_range *hit;
	unsigned int ranges;
	struct fab_iotlb iotlb;
};

/**
 * struct fab_hca_cfg - configuration of an HCA
 * @engine: the card; hash_seed 0: a random one; without doorbells if there is a @page
 * @place: [@engine.num_ports] for each of its ports, the switch's port in the graph to attach it to
 * @page: OHCA_PAGE_BYTES() for @engine, all 0, valid until fab_hca_free(); NULL: there is no front
 * @irq: raises MSI-X vector @vec. With @page: vectors are in the page, @irq only notifies the
 *	front, and @vec is unused. Must not block or call the fabric; may be NULL
 * @attn: called when OHCA_PEND_ATTN is set in @page: a message waits. Same restrictions as @irq
 * @maps: called in a turn, or for a frame, when an address has no translation: add translations
 *	that the front has written to its ring to fab_hca_reach(), at most a full ring. Returns how
 *	many it has read; may be NULL
 * @persist: called in a turn: FLUSH for persistence of @n stretches of its memory, up to
 *	FAB_HCA_FLUSH, which are invalid after the call; 0: of all its memory. Returns whether
 *	fab_hca_persisted() follows; false: none of it is on a disk. May be NULL: no memory is ever
 *	on a disk
 * @dm_log: log of @engine.dm, or NULL
 * @vanished: an access to the memory has found none: the HCA maps no memory from then on, and
 *	continues with what it has mapped in this turn; valid until fab_hca_free(). May be NULL
 * @arg: first argument of all of them
 */
struct fab_hca_cfg {
	struct ohca_cfg engine;
	uint32_t place[FAB_HCA_PORTS];
	struct ohca_page *page;
	void (*irq)(void *arg, unsigned int vec);
	void (*attn)(void *arg);
	unsigned int (*maps)(void *arg);
	bool (*persist)(void *arg, const struct iovec *mem, unsigned int n, uint64_t tag);
	const struct fab_hca_log *dm_log;
	const bool *vanished;
	void *arg;
};

/**
 * fab_hcas_new() - create the set of a fabric's HCAs, which is empty
 * @d: its data path
 *
 * Return: NULL if out of memory.
 */
struct fab_hcas *fab_hcas_new(struct fab_data *d);

/**
 * fab_hca_events() - the trace events of HCAs whose names match @pattern, as bits; 0: none matches
 */
uint32_t fab_hca_events(const char *pattern);

/**
 * fab_hcas_trace() - log these events of all HCAs in the log of the fabric from now on. Between
 *	turns.
 */
void fab_hcas_trace(struct fab_hcas *s, uint32_t events);

/** fab_hcas_free() - free all of them, before the data path; NULL does nothing */
void fab_hcas_free(struct fab_hcas *s);

/**
 * fab_hca_new() - create an HCA, in the state after reset, without memory
 *
 * No peer may be attached at its places, see fab_data_peer(), and the cable of each leads to a
 * host.
 *
 * Return: NULL if out of memory, or if the engine rejects @cfg; errno EBUSY: FAB_HCA_GONE HCAs are
 * gone and not freed yet.
 */
struct fab_hca *fab_hca_new(struct fab_hcas *s, const struct fab_hca_cfg *cfg);

/**
 * fab_hca_free() - detach and free @h; what @cfg of fab_hca_new() refers to is not used any more
 *	after the return. The objects of its engine are freed in later calls of fab_hcas_turn()
 */
void fab_hca_free(struct fab_hca *h);

/**
 * fab_hca_engine() - its engine: for counters, and without a page for doorbells (both any thread)
 */
ohca_engine *fab_hca_engine(const struct fab_hca *h);

/**
 * fab_hca_write_reg() - the machine writes BAR 0, as ohca_mmio_write(). Between turns: before the
 *	return all changes are in the page.
 */
void fab_hca_write_reg(struct fab_hca *h, uint32_t off, uint64_t val, unsigned int size);

/**
 * fab_hca_read_reg() - what the machine reads from BAR 0, as ohca_mmio_read(), with faults of the
 *	device
 */
uint64_t fab_hca_read_reg(struct fab_hca *h, uint32_t off, unsigned int size);

/**
 * fab_hca_reset() - as ohca_reset(): no DMA and no interrupt after the return. Between turns. The
 *	objects of its driver are freed in its turns, and not while its machine is paused.
 */
void fab_hca_reset(struct fab_hca *h);

/**
 * fab_hca_run() - pause the machine, or let it run; it runs after fab_hca_new()
 *
 * While it is paused the HCA has no turn, accesses no memory and raises no interrupt, its clock
 * stops, and its ports accept no packet: data waits at the switch, SMPs are dropped. The engine is
 * notified of events of its links when the machine runs again. Vectors that were raised before are
 * in the page. Between turns.
 */
void fab_hca_run(struct fab_hca *h, bool running);

/** fab_hca_is_running() - whether its machine is not paused */
bool fab_hca_is_running(const struct fab_hca *h);

/**
 * fab_hca_memory() - let the HCA access these @n ranges, and no others
 *
 * Between turns: the memory that it accessed before is not used any more after the return.
 *
 * Return: false: errno is EINVAL: there are too many ranges, or they are not in the order of
 * addresses, overlap, wrap around, or are not multiples of FAB_HCA_PAGE; or ENOMEM. The HCA then
 * keeps the ranges that it had.
 */
bool fab_hca_memory(struct fab_hca *h, const struct fab_hca_range *range, unsigned int n);

/** fab_hca_reach() - its memory; change it between turns only, the IOMMU's part also in @maps */
struct fab_hca_reach *fab_hca_reach(struct fab_hca *h);

/** fab_hca_reach_set() - as fab_hca_memory(), for memory that an HCA may use later */
bool fab_hca_reach_set(struct fab_hca_reach *reach, const struct fab_hca_range *range,
		       unsigned int n);

/**
 * fab_hca_reach_free() - free all ranges: it is all 0 again. Call it before the memory is unmapped
 */
void fab_hca_reach_free(struct fab_hca_reach *reach);

/**
 * fab_hca_page_copy() - copy registers, clock and raised vectors of @h to @page, which is all 0
 *
 * The machine is paused, and stays so until fab_hca_move() with this page, which copies the
 * doorbells, too. The ring of mappings is not copied. fab_hca_move() causes the notification of the
 * raised vectors.
 */
void fab_hca_page_copy(const struct fab_hca *h, struct ohca_page *page);

/**
 * fab_hca_move() - the machine is in another process from now on
 * @to: @page, of fab_hca_page_copy(), @dm_log, @vanished, @arg, and @engine.dm are used, nothing
 *	else
 * @reach: the memory that the HCA accesses from now on; returns that of before
 *
 * Between turns; the machine is paused. Memory and page of before are not used any more after the
 * return.
 */
void fab_hca_move(struct fab_hca *h, const struct fab_hca_cfg *to, struct fab_hca_reach *reach);

/** fab_hca_persisted() - the FLUSH with @tag is done, as ohca_persisted(). Between turns. */
void fab_hca_persisted(struct fab_hca *h, uint64_t tag);

/** fab_hcas_attn() - call @attn of the HCAs whose fronts have a message that waits */
void fab_hcas_attn(struct fab_hcas *s);

/**
 * fab_hcas_turn() - give each HCA with work a turn, and one more turn; and free some objects of
 *	HCAs that are gone
 * Return: whether any had a turn; fab_data_round() and the next fab_hcas_turn() are due then.
 */
bool fab_hcas_turn(struct fab_hcas *s);

/**
 * fab_hcas_due() - ns until fab_hcas_turn() is due; UINT64_MAX: not before an event of a front or a
 *	packet
 */
uint64_t fab_hcas_due(const struct fab_hcas *s);

/**
 * fab_hcas_sleep() - announce a sleep of the owner, no longer than fab_hcas_due()
 * Return: false: an HCA has work. True: a front that rings a doorbell writes its eventfd.
 */
bool fab_hcas_sleep(struct fab_hcas *s);

/** fab_hcas_awake() - the sleep is over */
void fab_hcas_awake(struct fab_hcas *s);

#endif
