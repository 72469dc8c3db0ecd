/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A log of the writes of a daemon: memory of a front, which both have mapped. QEMU only knows what
 * it writes itself, and must know of the other writes: an emulated processor has translated code
 * from the memory, and a migration has sent it.
 *
 * There is a byte for each page of memory, one for each OHCA_DIRTY_FAN of those, and one for each
 * OHCA_DIRTY_FAN of these again. A writer of memory sets the lowest byte first, the front clears
 * the highest first, so at worst the front finds a page twice or a group without one. Bytes, not
 * bits: a store that follows the data needs neither an atomic operation nor a barrier. A test of a
 * bit before it is set would need a barrier: without it the test may precede the visibility of the
 * data, and the front may clear the bit in between.
 *
 * All contents may be any bytes at any time: each side trusts only its own sizes.
 */
#ifndef OHCA_FRONT_DIRTY_H
#define OHCA_FRONT_DIRTY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define OHCA_DIRTY_PAGE	4096u
#define OHCA_DIRTY_FAN	64u
#define OHCA_DIRTY_RUNS	4096u	/* runs that are reported exactly */

#define OHCA_DIRTY_UP(n, unit)	(((n) + (unit) - 1) / (unit))

/* Of @bytes of memory: pages, groups of them, groups of these. */
#define OHCA_DIRTY_PAGES(bytes)	OHCA_DIRTY_UP((uint64_t)(bytes), OHCA_DIRTY_PAGE)
#define OHCA_DIRTY_SUMS(bytes)	OHCA_DIRTY_UP(OHCA_DIRTY_PAGES(bytes), OHCA_DIRTY_FAN)
#define OHCA_DIRTY_TOPS(bytes)	OHCA_DIRTY_UP(OHCA_DIRTY_SUMS(bytes), OHCA_DIRTY_FAN)

/** OHCA_DIRTY_BYTES() - size of the log of @bytes of memory, which are at most 2^62 */
#define OHCA_DIRTY_BYTES(bytes)	(OHCA_DIRTY_UP(OHCA_DIRTY_TOPS(bytes) + OHCA_DIRTY_SUMS(bytes) + \
					       OHCA_DIRTY_PAGES(bytes), 4096u) * 4096u)

/**
 * struct ohca_dirty - a log; all 0: there is none
 * @top, @sum, @page: bytes, from the highest to the lowest
 * @pages: of the memory
 */
struct ohca_dirty {
	_Atomic uint8_t *top, *sum, *page;
	uint64_t pages;
};

/** ohca_dirty_place() - set @d to the log of @bytes of memory at @mem, of OHCA_DIRTY_BYTES() */
static inline void ohca_dirty_place(struct ohca_dirty *d, uint64_t bytes, void *mem)
{
	d->top = mem;
	d->sum = d->top + OHCA_DIRTY_TOPS(bytes);
	d->page = d->sum + OHCA_DIRTY_SUMS(bytes);
	d->pages = OHCA_DIRTY_PAGES(bytes);
}

/* Set the bytes of @page in all levels, from the lowest to the highest. */
static inline void ohca_dirty_mark(const struct ohca_dirty *d, uint64_t page)
{
	const uint64_t fan = OHCA_DIRTY_FAN;

	atomic_store_explicit(&d->page[page], 1, memory_order_release);
	atomic_store_explicit(&d->sum[page / fan], 1, memory_order_release);
	atomic_store_explicit(&d->top[page / fan / fan], 1, memory_order_release);
}

/**
 * ohca_dirty_set() - log a write of @n bytes of the memory, at least 1, at @off
 *
 * For one thread, after the write and before it reports the write to any other.
 */
static inline void ohca_dirty_set(const struct ohca_dirty *d, uint64_t off, size_t n)
{
	const uint64_t end = off + n;

	ohca_dirty_mark(d, off / OHCA_DIRTY_PAGE);
	/* usually there is one page */
	while (off % OHCA_DIRTY_PAGE + n > OHCA_DIRTY_PAGE) {
		off = (off / OHCA_DIRTY_PAGE + 1) * OHCA_DIRTY_PAGE;
		n = (size_t)(end - off);
		ohca_dirty_mark(d, off / OHCA_DIRTY_PAGE);
	}
}

/**
 * ohca_dirty_take() - read and clear all pages of a log, in runs
 * @run: called for each: @len bytes from @off, both multiples of OHCA_DIRTY_PAGE, inside the memory
 *	except for the end of its last page
 *
 * Its time depends on the size of the memory, not on the writer: after OHCA_DIRTY_RUNS runs it
 * reports all pages of a group if one is set. One thread at a time.
 */
void ohca_dirty_take(const struct ohca_dirty *d,
		     void (*run)(void *arg, uint64_t off, uint64_t len), void *arg);

#endif /* OHCA_FRONT_DIRTY_H */
