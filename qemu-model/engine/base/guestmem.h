/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guest memory: page lists, and copying by them or by bus address. The owner calls. */
#ifndef OHCA_BASE_GUESTMEM_H
#define OHCA_BASE_GUESTMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "ib/view.h"
#include "ohca_hw.h"

/**
 * struct ohca_pages - a page list, copied from the guest
 * @page: bus address of each page; NULL if @contig
 * @base: address of the first page if @contig
 * @npages: pages; @shift: log2 of the page size
 * @contig: all pages follow each other from @base
 */
struct ohca_pages {
	uint64_t *page;
	uint64_t base;
	uint32_t npages;
	uint8_t shift;
	bool contig;
};

/*
 * Load and check a page list. 0, or enum ohca_admin_status. @bytes: needed at least.
 */
int ohca_pages_load(ohca_engine *e, struct ohca_pages *p, const struct ohca_hw_pl *pl,
		    uint64_t bytes, uint32_t max_pages);

/**
 * struct ohca_walk - a page list that is loaded in steps; all zero: none
 * @p: as far as it is
 * @done: addresses taken; @cap: size of p.page
 * @fill: of them followed each other before one did not; @filled: written down of those
 */
struct ohca_walk {
	struct ohca_pages p;
	uint32_t done, cap, fill, filled;
};

/* No enum ohca_admin_status: a step is done, and the command is to be run again for the next. */
#define OHCA_CMD_MORE	(-1)

/* The same, a step of it: OHCA_CMD_MORE: call again with the same arguments. */
int ohca_pages_load_some(ohca_engine *e, struct ohca_walk *w, struct ohca_pages *p,
			 const struct ohca_hw_pl *pl, uint64_t bytes, uint32_t max_pages);
/* Free what is loaded so far. An error leaves that to the caller. */
void ohca_walk_end(ohca_engine *e, struct ohca_walk *w);
/* The same, a step of it. Return: it is done */
bool ohca_walk_end_some(ohca_engine *e, struct ohca_walk *w);
void ohca_pages_free(ohca_engine *e, struct ohca_pages *p);
/* The same, a step of it. Return: it is done */
bool ohca_pages_free_some(ohca_engine *e, struct ohca_pages *p);

/*
 * A burst of DMA: every owner function that may access guest memory runs inside one;
 * bursts nest. No access happens outside of a burst, nor while the device is not
 * enabled.
 */
void ohca_dma_enter(ohca_engine *e);
void ohca_dma_exit(ohca_engine *e);

static inline uint64_t ohca_pages_bytes(const struct ohca_pages *p)
{
	return (uint64_t)p->npages << p->shift;
}

/* bus address of byte @off, which must lie inside; *@run: bytes to the page's end
 * (or to the end of all if contiguous) */
static inline uint64_t ohca_pages_addr(const struct ohca_pages *p, uint64_t off, uint64_t *run)
{
	uint64_t mask = (1ull << p->shift) - 1;

	if (p->contig) {
		*run = ohca_pages_bytes(p) - off;
		return p->base + off;
	}
	*run = mask + 1 - (off & mask);
	return p->page[off >> p->shift] + (off & mask);
}

/**
 * ohca_place() - copy to memory that somebody polls
 * @dst: memory of the guest or of the device; if @src is the same memory in part, perhaps by
 *	another address, the bytes are undefined
 *
 * The copy stores the bytes of the last aligned 8 bytes after all others, so a reader that sees the
 * last byte sees all of them. An aligned word of up to 8 bytes at the end appears at once.
 * Applications poll the last byte of an RDMA WRITE. The specification does not promise anything
 * (vol 1, 9.5), but adapters write in order of address, and a PCIe write does not pass another.
 */
void ohca_place(void *dst, const void *src, size_t n);
/*
 * Copy; 0 or -1 (counts OHCA_CNT_DMA_ERR). Writes are made in order of address, stretch by stretch
 * of contiguous memory, each as by ohca_place().
 */
int ohca_dma_read(ohca_engine *e, uint64_t iova, void *buf, size_t n);
int ohca_dma_write(ohca_engine *e, uint64_t iova, const void *buf, size_t n);
/*
 * Add memory that is to be read to @v instead of copying it. It counts as work all the same, since
 * somebody copies it. false: it cannot be, and *@v is useless: who copies it finds out why.
 */
bool ohca_dma_view(ohca_engine *e, uint64_t iova, struct ib_view *v, size_t n);
bool ohca_pages_view(ohca_engine *e, const struct ohca_pages *p, uint64_t off, struct ib_view *v,
		     size_t n);
/*
 * Host address of @off of @p until the end of the burst of DMA, and of as much behind it as lies
 * there in one stretch, at most *@n bytes, which becomes how much. *@iova: its bus address. NULL:
 * it cannot be reached. Counts nothing.
 */
void *ohca_pages_map(ohca_engine *e, const struct ohca_pages *p, uint64_t off, size_t *n, int prot,
		     uint64_t *iova);
int ohca_pages_read(ohca_engine *e, const struct ohca_pages *p, uint64_t off, void *buf, size_t n);
int ohca_pages_write(ohca_engine *e, const struct ohca_pages *p, uint64_t off, const void *buf,
		     size_t n);
/* @n bytes at @from of @src to @to of @dst */
int ohca_pages_copy(ohca_engine *e, const struct ohca_pages *dst, uint64_t to,
		    const struct ohca_pages *src, uint64_t from, uint64_t n);

/** struct ohca_ring - a ring of WQEs or blocks; @off: of the first in @buf */
struct ohca_ring {
	const struct ohca_pages *buf;
	uint64_t off;
	uint8_t log_size, log_stride;
};

/* Copy the entries with the free running indices from *@at up to @to from @src to @dst, which
 * has the same stride, as far as this step goes: *@at becomes its end. 0 or -1. */
int ohca_ring_copy(ohca_engine *e, const struct ohca_ring *dst, const struct ohca_ring *src,
		   uint32_t *at, uint32_t to);
/* aligned __le32 in queue memory: atomic load with acquire / store with release; -1 on error */
int ohca_pages_load32(ohca_engine *e, const struct ohca_pages *p, uint64_t off, uint32_t *val);
int ohca_pages_store32(ohca_engine *e, const struct ohca_pages *p, uint64_t off, uint32_t val);

/*
 * Write @n bytes (a multiple of 8) so that a reader who sees the last 8 sees the others;
 * the address is a multiple of 8. For entries with an owner or phase bit at their end.
 */
int ohca_dma_publish(ohca_engine *e, uint64_t iova, const void *buf, size_t n);
int ohca_pages_publish(ohca_engine *e, const struct ohca_pages *p, uint64_t off, const void *buf,
		       size_t n);

/**
 * struct ohca_atomic - an atomic operation on 8 bytes
 * @op: OHCA_OP_CMP_SWAP, _FETCH_ADD, _MASKED_CMP_SWAP or _MASKED_FETCH_ADD
 * @swap_add, @compare: operands; @swap_mask, @compare_mask: of the masked ones
 */
struct ohca_atomic {
	uint8_t op;
	uint64_t swap_add, compare;
	uint64_t swap_mask, compare_mask;
};

/* Execute it on the 8 bytes at @p, a multiple of 8 (ohca_host64()). Return: the previous value */
uint64_t ohca_atomic_do(ohca_engine *e, uint64_t *p, const struct ohca_atomic *a);
/* Atomic operation on 8 bytes of guest memory at a multiple of 8 (ohca_host64()).
 * *@old: before. 0 or -1 (no memory, or none that can be mapped). */
int ohca_dma_atomic(ohca_engine *e, uint64_t iova, const struct ohca_atomic *a, uint64_t *old);

/* Have the host flush memory to persistence, if it has any; false: the flush is under way. */
bool ohca_dma_persist(ohca_engine *e, const struct ohca_run *run, unsigned int n, uint64_t tag);

#endif /* OHCA_BASE_GUESTMEM_H */
