/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * HCAs in the fabric's process: engines (engine/engine.h) at places of the graph, each with the
 * memory of the machine that it belongs to. One thread has all of them and the fabric, so a message
 * goes from the sender's WQE over all switches into the receiver's memory without a wake-up, a lock
 * or a system call.
 *
 * A turn of an HCA is one ohca_poll(): FAB_HCA_BURST packets, or a step of a command. HCAs with
 * something to do have their turns in the order in which they got it: a doorbell, a packet,
 * credit, a deadline, or a rest of their last turn. fab_hcas_turn() gives as many turns as HCAs
 * had something to do when it began, and one more, so that who has got a packet by the first may
 * answer it. In between the fabric has a round.
 *
 * To free what a driver has made may take long, so nobody waits for it: an HCA that is reset does
 * it in its own turns, and of those that have gone one has a step, some 50 us, in a call of
 * fab_hcas_turn(). All wait for it only where ohca_reset() says so: a second reset, or the end, while
 * what the first has left is not freed, and this process can have no memory.
 *
 * An HCA may have a front, in another process: then doorbells, registers, clock and interrupts are in
 * a page that both have (front/page.h).
 *
 *	hca.c		HCAs that come, have their turns, and go
 *	machine.c	registers, reset, pause, and another process
 *	mem.c		the memory of an HCA's machine
 *	iotlb.h		what an IOMMU translates, in another file
 *	page.c		the page
 *	wire.c		what an engine wants of its wires
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
#define FAB_HCA_SMPS	32u	/* that a port takes between two turns: its agent answers as many */
#define FAB_HCA_RANGES	1024u	/* of memory */
#define FAB_HCA_MAPS	1024u	/* translations that are taken in a turn */
#define FAB_HCA_FLUSH	1024u	/* translations that are looked up for a FLUSH */
#define FAB_HCA_PAGE	4096u	/* what their addresses and lengths are multiples of */
#define FAB_HCA_GONE	64u	/* that are not freed yet: there is no new one meanwhile */

struct fab_hcas;
struct fab_hca;

/**
 * struct fab_hca_log - where it is noted what HCAs write of some memory
 * @mem: where the memory begins in this process
 * @dirty: of the memory; all 0: it is not noted
 * @some: becomes 1 after each write that is noted
 */
struct fab_hca_log {
	const void *mem;
	struct ohca_dirty dirty;
	_Atomic uint32_t *some;
};

/**
 * struct fab_hca_range - memory that an HCA reaches
 * @iova: bus address
 * @len: bytes
 * @mem: where it is in this process
 * @read_only: the HCA does not write there
 * @log: of memory that the range is a part of, or NULL
 */
struct fab_hca_range {
	uint64_t iova;
	uint64_t len;
	void *mem;
	bool read_only;
	const struct fab_hca_log *log;
};

/**
 * struct fab_hca_reach - all memory that an HCA reaches; all 0: none
 * @range: [@ranges] in the order of addresses; @hit: where it last was
 * @iotlb: what an IOMMU translates, beside @range
 */
struct fab_hca_reach {
	struct fab_hca_range *range;
	unsigned int ranges, hit;
	struct fab_iotlb iotlb;
};

/**
 * struct fab_hca_cfg - an HCA
 * @engine: the card; hash_seed 0: a random one; without doorbells if there is a @page
 * @place: [@engine.num_ports] the switch's port, in the graph, that each of its ports is at
 * @page: OHCA_PAGE_BYTES() for @engine, all 0, until fab_hca_free(); or NULL: there is no front
 * @irq: MSI-X vector @vec is raised. With @page: vectors are in it, and the front is to be told; @vec
 *	says nothing. Does not block, and calls nothing of the fabric; may be NULL
 * @attn: OHCA_PEND_ATTN was set in @page: a message waits. The same holds for it
 * @maps: an address has no translation: put those of the front that it has not told of into
 *	fab_hca_reach(); as many, at most, as fit in its ring. Returns how many it has looked at. In a
 *	turn; may be NULL
 * @persist: a FLUSH for persistence of @n stretches of its memory, up to FAB_HCA_FLUSH, which are gone
 *	after the call; 0: of all its memory. In a turn. Returns whether fab_hca_persisted() comes;
 *	false: none of it is on a disk. May be NULL: none ever is
 * @dm_log: of @engine.dm, or NULL
 * @arg: first argument of all
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
	void *arg;
};

/**
 * fab_hcas_new() - the HCAs of a fabric: none yet
 * @d: its data path
 *
 * Return: NULL if out of memory.
 */
struct fab_hcas *fab_hcas_new(struct fab_data *d);

/** fab_hca_events() - the events of HCAs whose names match @pattern, as bits; 0: there is none */
uint32_t fab_hca_events(const char *pattern);

/** fab_hcas_trace() - these events of all HCAs are in the log of the fabric from now on. Between turns. */
void fab_hcas_trace(struct fab_hcas *s, uint32_t events);

/** fab_hcas_free() - free all of them, before the data path; NULL is none */
void fab_hcas_free(struct fab_hcas *s);

/**
 * fab_hca_new() - one more, in the state after reset, without memory
 *
 * Nobody is at its places, see fab_data_peer(), and the cable of each leads to a host.
 *
 * Return: NULL if out of memory, or the engine cannot be as @cfg says; errno EBUSY: FAB_HCA_GONE
 * have gone.
 */
struct fab_hca *fab_hca_new(struct fab_hcas *s, const struct fab_hca_cfg *cfg);

/**
 * fab_hca_free() - its links go down; nothing of it is used after the return, and what its engine
 *	has is freed by and by
 */
void fab_hca_free(struct fab_hca *h);

/** fab_hca_engine() - for counters (any thread), and without a page for doorbells (any thread) */
ohca_engine *fab_hca_engine(const struct fab_hca *h);

/**
 * fab_hca_write_reg() - the machine writes BAR 0, as ohca_mmio_write(). Between turns: the page has
 * all that it changes before the return.
 */
void fab_hca_write_reg(struct fab_hca *h, uint32_t off, uint64_t val, unsigned int size);

/** fab_hca_read_reg() - what the machine reads, as ohca_mmio_read(), with the lies of the device */
uint64_t fab_hca_read_reg(struct fab_hca *h, uint32_t off, unsigned int size);

/**
 * fab_hca_reset() - as ohca_reset(): no DMA and no interrupt after the return. Between turns. What
 *	its driver has made is freed in its turns, and while its machine is paused not at all.
 */
void fab_hca_reset(struct fab_hca *h);

/**
 * fab_hca_run() - the machine is paused, or goes on; it runs after fab_hca_new()
 *
 * While it is paused the HCA has no turn, accesses no memory and raises no interrupt, its clock
 * stands, and its ports take no packet: data waits at the switch, SMPs are dropped. What its links do
 * meanwhile it gets to know when the machine goes on. What was raised before is in the page. Between
 * turns.
 */
void fab_hca_run(struct fab_hca *h, bool running);

/** fab_hca_is_running() - whether its machine is not paused */
bool fab_hca_is_running(const struct fab_hca *h);

/**
 * fab_hca_memory() - the HCA reaches these @n ranges from now on, and no other
 *
 * Between turns: nothing of what it reached before is used after the return.
 *
 * Return: false: errno is EINVAL: they are too many, not in the order of addresses, overlap, wrap
 * around, or are not multiples of FAB_HCA_PAGE; or ENOMEM. The HCA has what it had.
 */
bool fab_hca_memory(struct fab_hca *h, const struct fab_hca_range *range, unsigned int n);

/** fab_hca_reach() - what it reaches; changes between turns, and the IOMMU's part in @maps, too */
struct fab_hca_reach *fab_hca_reach(struct fab_hca *h);

/** fab_hca_reach_set() - as fab_hca_memory(), of what an HCA may reach later */
bool fab_hca_reach_set(struct fab_hca_reach *reach, const struct fab_hca_range *range,
		       unsigned int n);

/** fab_hca_reach_free() - it is all 0 again; before the memory goes */
void fab_hca_reach_free(struct fab_hca_reach *reach);

/**
 * fab_hca_page_copy() - @page, all 0, has registers, clock and raised vectors of @h
 *
 * The machine is paused, and stays so until fab_hca_move() with this page, by which it has the doorbells,
 * too. Its ring of mappings is its own. The front is told of the vectors after the move.
 */
void fab_hca_page_copy(const struct fab_hca *h, struct ohca_page *page);

/**
 * fab_hca_move() - the machine is in another process from now on
 * @to: the page, of fab_hca_page_copy(), @dm_log, @arg, and dm of the engine; nothing else is looked at
 * @reach: what the HCA reaches from now on; filled in with what it has reached until now
 *
 * Between turns; the machine is paused. Nothing of what it had before is used after the return.
 */
void fab_hca_move(struct fab_hca *h, const struct fab_hca_cfg *to, struct fab_hca_reach *reach);

/** fab_hca_persisted() - the FLUSH of @tag is done, as ohca_persisted(). Between turns. */
void fab_hca_persisted(struct fab_hca *h, uint64_t tag);

/** fab_hcas_attn() - tell the fronts that have a message that one waits */
void fab_hcas_attn(struct fab_hcas *s);

/**
 * fab_hcas_turn() - each HCA that has something to do has a turn, and the next one has one, too;
 *	and some of what has gone is freed
 * Return: whether any had; fab_data_round() is due then, and the next fab_hcas_turn().
 */
bool fab_hcas_turn(struct fab_hcas *s);

/**
 * fab_hcas_due() - ns until fab_hcas_turn() is due; UINT64_MAX: not before a front or a packet
 */
uint64_t fab_hcas_due(const struct fab_hcas *s);

/**
 * fab_hcas_sleep() - the owner is about to sleep, no longer than fab_hcas_due()
 * Return: false: an HCA has something to do. Else a front that rings writes its eventfd.
 */
bool fab_hcas_sleep(struct fab_hcas *s);

/** fab_hcas_awake() - the sleep is over */
void fab_hcas_awake(struct fab_hcas *s);

#endif
