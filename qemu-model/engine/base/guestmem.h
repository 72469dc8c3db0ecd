/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guest memory: page lists, and copies by page list or by bus address. The owner calls. */
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
 * @base: bus address of the first page, if @contig
 * @npages: number of pages; @shift: log2 of the page size
 * @contig: the pages are contiguous from @base on
 */
struct ohca_pages {
	uint64_t *page;
	uint64_t base;
	uint32_t npages;
	uint8_t shift;
	bool contig;
};

/*
 * Load and check a page list of at least @bytes and at most @max_pages. enum ohca_admin_status
 */
int ohca_pages_load(ohca_engine *e, struct ohca_pages *p, const struct ohca_hw_pl *pl,
		    uint64_t bytes, uint32_t max_pages);

/**
 * struct ohca_walk - a page list that is loaded in steps; all zero: none
 * @p: the part that is loaded
 * @done: number of addresses loaded; @cap: size of p.page
 * @fill: number of contiguous pages before the first one that is not contiguous; @filled: how many
 *	of these are stored in p.page
 */
struct ohca_walk {
	struct ohca_pages p;
	uint32_t done, cap, fill, filled;
};

/*
 * Not in enum ohca_admin_status: a step is done, and the command must be run again for the next
 * one.
 */
#define OHCA_CMD_MORE	(-1)

/*
 * The same, as far as the allowance of work covers. OHCA_CMD_MORE: call again with the same
 * arguments.
 */
int ohca_pages_load_some(ohca_engine *e, struct ohca_walk *w, struct ohca_pages *p,
			 const struct ohca_hw_pl *pl, uint64_t bytes, uint32_t max_pages);
/* Free what is loaded so far. After an error the caller must do this. */
void ohca_walk_end(ohca_engine *e, struct ohca_walk *w);
/* The same, as far as the allowance of work covers. Return: true if it is done */
bool ohca_walk_end_some(ohca_engine *e, struct ohca_walk *w);
/* Free a page list, and clear @p. */
void ohca_pages_free(ohca_engine *e, struct ohca_pages *p);
/* The same, as far as the allowance of work covers. Return: true if it is done */
bool ohca_pages_free_some(ohca_engine *e, struct ohca_pages *p);

/*
 * A burst of DMA: every owner function that may access guest memory does that inside a burst.
 * Bursts nest. There is no access outside of a burst, or while the device is not enabled.
 */
void ohca_dma_enter(ohca_engine *e);
void ohca_dma_exit(ohca_engine *e);

static inline uint64_t ohca_pages_bytes(const struct ohca_pages *p)
{
	return (uint64_t)p->npages << p->shift;
}

/*
 * Bus address of byte @off, which must be inside. *@run: bytes to the end of the page, or of all
 * pages if contiguous
 */
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
 * ohca_place() - copy to memory that an application may poll
 * @dst: memory of the guest or of the device; if it overlaps @src, perhaps at another address, the
 *	bytes are undefined
 * @src: source
 * @n: bytes
 *
 * The copy stores the bytes in the last aligned 8 bytes after all others, so a reader that sees the
 * last byte sees all of them. An aligned word of up to 8 bytes at the end is stored at once.
 * Applications poll the last byte of an RDMA WRITE. The specification does not promise anything
 * (vol 1, 9.5), but adapters write in order of address, and a PCIe write does not pass another.
 */
void ohca_place(void *dst, const void *src, size_t n);
/*
 * Copy @n bytes. 0 or -1 (counts OHCA_CNT_DMA_ERR). Writes are in order of address: one stretch of
 * contiguous memory after the other, each as by ohca_place().
 */
int ohca_dma_read(ohca_engine *e, uint64_t iova, void *buf, size_t n);
int ohca_dma_write(ohca_engine *e, uint64_t iova, const void *buf, size_t n);
/*
 * Add @n bytes of memory to @v instead of copying them. They count as work, too, because they are
 * copied later. False: this is not possible, and *@v is invalid. A copy instead reports the reason.
 */
bool ohca_dma_view(ohca_engine *e, uint64_t iova, struct ib_view *v, size_t n);
bool ohca_pages_view(ohca_engine *e, const struct ohca_pages *p, uint64_t off, struct ib_view *v,
		     size_t n);
/*
 * Host address of byte @off of @p, valid until the end of the burst of DMA. *@n: in: bytes
 * requested; out: bytes that are contiguous from there, at most those. *@iova: bus address. NULL:
 * the memory cannot be reached. Counts nothing.
 */
void *ohca_pages_map(ohca_engine *e, const struct ohca_pages *p, uint64_t off, size_t *n, int prot,
		     uint64_t *iova);
int ohca_pages_read(ohca_engine *e, const struct ohca_pages *p, uint64_t off, void *buf, size_t n);
int ohca_pages_write(ohca_engine *e, const struct ohca_pages *p, uint64_t off, const void *buf,
		     size_t n);
/* Copy @n bytes at @from of @src to @to of @dst. 0 or -1 */
int ohca_pages_copy(ohca_engine *e, const struct ohca_pages *dst, uint64_t to,
		    const struct ohca_pages *src, uint64_t from, uint64_t n);

/** struct ohca_ring - a ring of WQEs or BBs; @off: offset of the first one in @buf */
struct ohca_ring {
	const struct ohca_pages *buf;
	uint64_t off;
	uint8_t log_size, log_stride;
};

/*
 * Copy the entries with free running indices from *@at up to @to from @src to @dst, which has the
 * same stride, as far as the allowance of work covers. *@at: the next index to copy. 0 or -1
 */
int ohca_ring_copy(ohca_engine *e, const struct ohca_ring *dst, const struct ohca_ring *src,
		   uint32_t *at, uint32_t to);
/*
 * Load, or store, an aligned __le32 in queue memory atomically, with acquire or release order.
 * @val: CPU order. 0 or -1
 */
int ohca_pages_load32(ohca_engine *e, const struct ohca_pages *p, uint64_t off, uint32_t *val);
int ohca_pages_store32(ohca_engine *e, const struct ohca_pages *p, uint64_t off, uint32_t val);

/*
 * Write @n bytes, a multiple of 8, so that a reader that sees the last 8 bytes sees the others. The
 * address must be a multiple of 8. For entries with an owner or phase bit at their end. 0 or -1
 */
int ohca_dma_publish(ohca_engine *e, uint64_t iova, const void *buf, size_t n);
int ohca_pages_publish(ohca_engine *e, const struct ohca_pages *p, uint64_t off, const void *buf,
		       size_t n);

/**
 * struct ohca_atomic - an atomic operation on 8 bytes
 * @op: OHCA_OP_CMP_SWAP, _FETCH_ADD, _MASKED_CMP_SWAP or _MASKED_FETCH_ADD
 * @swap_add, @compare: operands, CPU order
 * @swap_mask, @compare_mask: masks of the masked operations; of MASKED_FETCH_ADD @compare_mask has
 *	the topmost bit of each field
 */
struct ohca_atomic {
	uint8_t op;
	uint64_t swap_add, compare;
	uint64_t swap_mask, compare_mask;
};

/*
 * Execute @a on the 8 bytes at @p, a multiple of 8, in the byte order of ohca_host64(). Return: the
 * previous value, CPU order
 */
uint64_t ohca_atomic_do(ohca_engine *e, uint64_t *p, const struct ohca_atomic *a);
/*
 * Execute @a on 8 bytes of guest memory at a multiple of 8. *@old: as returned by ohca_atomic_do().
 * 0, or -1: the memory cannot be mapped
 */
int ohca_dma_atomic(ohca_engine *e, uint64_t iova, const struct ohca_atomic *a, uint64_t *old);

/* Let the host flush memory to persistence. True: nothing to do; false: the flush is under way. */
bool ohca_dma_persist(ohca_engine *e, const struct ohca_run *run, unsigned int n, uint64_t tag);

#endif /* OHCA_BASE_GUESTMEM_H */
