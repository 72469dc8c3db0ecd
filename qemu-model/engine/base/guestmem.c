/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest memory: copies, page lists, words of doorbell records.
 *
 * Guest memory is untrusted and may change between two reads, so the engine copies it once and
 * checks the copy. A mapped pointer is used at once. A view (ib/view.h) is used only until the call
 * returns that it was passed to.
 */
#include <string.h>

#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/job.h"
#include "engine/base/le.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "ohca_hw.h"

void ohca_dma_enter(ohca_engine *e)
{
	e->dma_depth++;
}

void ohca_dma_exit(ohca_engine *e)
{
	e->dma_depth--;
}

/* No access outside a burst, before ENABLE or after FATAL. */
static bool dma_allowed(const ohca_engine *e, uint64_t iova, size_t n)
{
	return e->dma_depth && ohca_running(e) && n && iova + (n - 1) >= iova;
}

static int dma_error(ohca_engine *e)
{
	ohca_count(e, OHCA_CNT_DMA_ERR);
	return -1;
}

/* Inlined, also into the copies of pages, because each packet uses it. */
static inline int dma_in(ohca_engine *e, uint64_t iova, void *buf, size_t n)
{
	uint8_t *d = buf;

	if (n == 0)
		return 0;
	if (!dma_allowed(e, iova, n))
		return dma_error(e);
	ohca_work(e, n);
	while (n) {
		size_t len = n;
		void *p = e->ops.dma_map(e->h, iova, &len, OHCA_DMA_READ);

		if (!p || !len)
			return dma_error(e);
		if (len > n)
			len = n;
		memcpy(d, p, len);
		d += len;
		iova += len;
		n -= len;
	}
	return 0;
}

#define PLACE_BYTES	4096u	/* bytes that may be stored in any order: the largest packet */

void ohca_place(void *dst, const void *src, size_t n)
{
	const uint8_t *s = src;
	uint8_t *d = dst;
	size_t tail;
	uint64_t v8;
	uint32_t v4;
	uint16_t v2;

	if (!n)
		return;
	/* memmove() may store bytes in any order */
	for (; n > PLACE_BYTES; n -= PLACE_BYTES) {
		memmove(d, s, PLACE_BYTES);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		d += PLACE_BYTES;
		s += PLACE_BYTES;
	}
	tail = ((uintptr_t)(d + n - 1) & 7) + 1;
	if (tail < n) {
		memmove(d, s, n - tail);
		d += n - tail;
		s += n - tail;
		n = tail;
	}
	while (n) {
		size_t len = 1;

		if (n == 8) {
			memcpy(&v8, s, len = 8);
			__atomic_store_n((uint64_t *)(void *)d, v8, __ATOMIC_RELEASE);
		} else if (n >= 4 && !((uintptr_t)d & 3)) {
			memcpy(&v4, s, len = 4);
			__atomic_store_n((uint32_t *)(void *)d, v4, __ATOMIC_RELEASE);
		} else if (n >= 2 && !((uintptr_t)d & 1)) {
			memcpy(&v2, s, len = 2);
			__atomic_store_n((uint16_t *)(void *)d, v2, __ATOMIC_RELEASE);
		} else {
			__atomic_store_n(d, *s, __ATOMIC_RELEASE);
		}
		d += len;
		s += len;
		n -= len;
	}
}

static inline int dma_out(ohca_engine *e, uint64_t iova, const void *buf, size_t n)
{
	const uint8_t *s = buf;

	if (n == 0)
		return 0;
	if (!dma_allowed(e, iova, n))
		return dma_error(e);
	ohca_work(e, n);
	while (n) {
		size_t len = n;
		void *p = e->ops.dma_map(e->h, iova, &len, OHCA_DMA_WRITE);

		if (!p || !len)
			return dma_error(e);
		if (len > n)
			len = n;
		ohca_place(p, s, len);
		e->ops.dma_dirty(e->h, iova, len);
		s += len;
		iova += len;
		n -= len;
	}
	return 0;
}

bool ohca_dma_view(ohca_engine *e, uint64_t iova, struct ib_view *v, size_t n)
{
	if (!dma_allowed(e, iova, n))
		return false;
	ohca_work(e, n);
	while (n) {
		size_t len = n;
		const void *p = e->ops.dma_map(e->h, iova, &len, OHCA_DMA_READ);

		if (!p || !len)
			return false;
		if (len > n)
			len = n;
		if (!ib_view_add(v, p, (uint32_t)len))
			return false;
		iova += len;
		n -= len;
	}
	return true;
}

int ohca_dma_read(ohca_engine *e, uint64_t iova, void *buf, size_t n)
{
	return dma_in(e, iova, buf, n);
}

int ohca_dma_write(ohca_engine *e, uint64_t iova, const void *buf, size_t n)
{
	return dma_out(e, iova, buf, n);
}

int ohca_dma_publish(ohca_engine *e, uint64_t iova, const void *buf, size_t n)
{
	const uint8_t *s = buf;
	size_t len = n;
	uint64_t last;
	uint8_t *p;

	memcpy(&last, s + n - 8, 8);
	if (!dma_allowed(e, iova, n) || (iova & 7))
		return dma_error(e);
	p = e->ops.dma_map(e->h, iova, &len, OHCA_DMA_WRITE);
	if (p && len >= n && !((uintptr_t)p & 7)) {
		ohca_work(e, n);
		for (size_t i = 0; i < n - 8; i += 8)
			memcpy(p + i, s + i, 8);
		__atomic_store_n((uint64_t *)(void *)(p + n - 8), last, __ATOMIC_RELEASE);
		e->ops.dma_dirty(e->h, iova, n);
		return 0;
	}
	/* the range is not contiguous in the host */
	if (n == 8)
		return dma_error(e);
	if (ohca_dma_write(e, iova, s, n - 8))
		return -1;
	return ohca_dma_publish(e, iova + n - 8, &last, 8);
}

/* The new value after an atomic operation on @was. */
static uint64_t atomic_result(const struct ohca_atomic *a, uint64_t was)
{
	uint64_t m = a->compare_mask;

	switch (a->op) {
	case OHCA_OP_CMP_SWAP:
		return was == a->compare ? a->swap_add : was;
	case OHCA_OP_MASKED_CMP_SWAP:
		if ((was ^ a->compare) & m)
			return was;
		return (was & ~a->swap_mask) | (a->swap_add & a->swap_mask);
	default:
		/* without the topmost bit of each field no carry leaves the field */
		return ((was & ~m) + (a->swap_add & ~m)) ^ ((was ^ a->swap_add) & m);
	}
}

uint64_t ohca_atomic_do(ohca_engine *e, uint64_t *p, const struct ohca_atomic *a)
{
	uint64_t was;

	/* the loop ends, because an exchange fails only if another thread has changed the value */
	was = __atomic_load_n(p, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(p, &was,
					    ohca_host64(e, atomic_result(a, ohca_host64(e, was))),
					    true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	return ohca_host64(e, was);
}

int ohca_dma_atomic(ohca_engine *e, uint64_t iova, const struct ohca_atomic *a, uint64_t *old)
{
	size_t len = 8;
	uint64_t *p;

	if (!dma_allowed(e, iova, 8) || (iova & 7))
		return dma_error(e);
	p = e->ops.dma_map(e->h, iova, &len, OHCA_DMA_READ | OHCA_DMA_WRITE);
	if (!p || len < 8 || ((uintptr_t)p & 7))
		return dma_error(e);
	*old = ohca_atomic_do(e, p, a);
	e->ops.dma_dirty(e->h, iova, 8);
	return 0;
}

bool ohca_dma_persist(ohca_engine *e, const struct ohca_run *run, unsigned int n, uint64_t tag)
{
	if (!e->ops.dma_persist)
		return true;
	for (unsigned int i = 0; i < n; i++)
		if (!dma_allowed(e, run[i].iova, run[i].len))
			return true;
	return e->ops.dma_persist(e->h, run, n, tag);
}

/* ---- page lists ------------------------------------------------------------------ */

static int walk_grow(ohca_engine *e, struct ohca_walk *w, uint32_t need)
{
	uint32_t cap = w->cap ? w->cap : 16;
	uint64_t *page;

	while (cap < need)
		cap *= 2;
	if (cap > w->p.npages)
		cap = w->p.npages;
	page = ohca_mem_resize(e, w->p.page, w->cap * sizeof(*page), cap * sizeof(*page));
	if (!page)
		return OHCA_ADMIN_NO_RESOURCE;
	e->page_entries += cap - w->cap;
	w->p.page = page;
	w->cap = cap;
	return OHCA_ADMIN_OK;
}

/* Add the next page address. Contiguous pages need no array. */
static int walk_add(ohca_engine *e, struct ohca_walk *w, uint64_t addr)
{
	struct ohca_pages *p = &w->p;
	uint64_t size = 1ull << p->shift;
	int rc;

	if ((addr & (size - 1)) || addr + (size - 1) < addr)
		return OHCA_ADMIN_BAD_PARAM;
	if (w->done == 0) {
		p->base = addr;
		p->contig = true;
	} else if (p->contig && addr != p->base + ((uint64_t)w->done << p->shift)) {
		/* walk_some() stores the earlier ones */
		w->fill = w->done;
		p->contig = false;
	}
	if (!p->contig) {
		if (w->done >= w->cap) {
			rc = walk_grow(e, w, w->done + 1);
			if (rc)
				return rc;
		}
		p->page[w->done] = addr;
	}
	w->done++;
	return OHCA_ADMIN_OK;
}

/*
 * Load the table with the next addresses. It is looked up from the root each time, so only a number
 * is stored between two steps.
 */
static int walk_table(ohca_engine *e, struct ohca_walk *w, const struct ohca_hw_pl *pl)
{
	__le64 table[OHCA_PL_TABLE_ENTRIES];
	uint64_t addr = ohca_le64(pl->root);
	uint32_t left = w->p.npages - w->done;
	uint32_t n = left < OHCA_PL_TABLE_ENTRIES ? left : OHCA_PL_TABLE_ENTRIES;
	int rc = OHCA_ADMIN_OK;

	for (unsigned int level = pl->levels; level > 1; level--) {
		uint64_t i = (w->done >> (9 * (level - 1))) & (OHCA_PL_TABLE_ENTRIES - 1);

		if (addr & (OHCA_PL_TABLE_SIZE - 1))
			return OHCA_ADMIN_BAD_PARAM;
		if (ohca_dma_read(e, addr + i * sizeof(table[0]), table, sizeof(table[0])))
			return OHCA_ADMIN_DMA;
		addr = ohca_le64(table[0]);
	}
	if (addr & (OHCA_PL_TABLE_SIZE - 1))
		return OHCA_ADMIN_BAD_PARAM;
	if (ohca_dma_read(e, addr, table, n * sizeof(table[0])))
		return OHCA_ADMIN_DMA;
	for (uint32_t i = 0; i < n && !rc; i++)
		rc = walk_add(e, w, ohca_le64(table[i]));
	return rc;
}

/* Load tables, as far as the allowance of work covers. */
static int walk_some(ohca_engine *e, struct ohca_walk *w, const struct ohca_hw_pl *pl)
{
	struct ohca_pages *p = &w->p;
	int rc = OHCA_ADMIN_OK;

	do {
		if (w->filled < w->fill) {
			uint32_t end = w->fill - w->filled < OHCA_PL_TABLE_ENTRIES ?
				       w->fill : w->filled + OHCA_PL_TABLE_ENTRIES;

			for (; w->filled < end; w->filled++)
				p->page[w->filled] = p->base + ((uint64_t)w->filled << p->shift);
		} else if (w->done < p->npages) {
			rc = walk_table(e, w, pl);
			if (rc)
				return rc;
		} else {
			return OHCA_ADMIN_OK;
		}
		ohca_work(e, OHCA_PL_TABLE_SIZE);
	} while (ohca_work_left(e));
	return w->filled < w->fill || w->done < p->npages ? OHCA_CMD_MORE : OHCA_ADMIN_OK;
}

bool ohca_walk_end_some(ohca_engine *e, struct ohca_walk *w)
{
	bool done;

	/* free all that is allocated, not only what is loaded */
	w->p.npages = w->cap;
	done = ohca_pages_free_some(e, &w->p);
	w->cap = w->p.npages;
	return done;
}

void ohca_walk_end(ohca_engine *e, struct ohca_walk *w)
{
	e->page_entries -= w->cap;
	ohca_mem_put(e, w->p.page, w->cap * sizeof(uint64_t));
	memset(w, 0, sizeof(*w));
}

int ohca_pages_load_some(ohca_engine *e, struct ohca_walk *w, struct ohca_pages *p,
			 const struct ohca_hw_pl *pl, uint64_t bytes, uint32_t max_pages)
{
	uint64_t root = ohca_le64(pl->root);
	int rc;

	memset(p, 0, sizeof(*p));
	if (pl->reserved || pl->page_shift < OHCA_PL_MIN_SHIFT ||
	    pl->page_shift > OHCA_PL_MAX_SHIFT || pl->levels > OHCA_PL_MAX_LEVELS)
		return OHCA_ADMIN_BAD_PARAM;
	p->shift = pl->page_shift;
	p->npages = ohca_le32(pl->npages);
	if (p->npages == 0 || p->npages > max_pages || ohca_pages_bytes(p) < bytes)
		return OHCA_ADMIN_BAD_PARAM;
	if (pl->levels == 0) {
		if ((root & ((1ull << p->shift) - 1)) ||
		    root + (ohca_pages_bytes(p) - 1) < root)
			return OHCA_ADMIN_BAD_PARAM;
		p->base = root;
		p->contig = true;
		return OHCA_ADMIN_OK;
	}
	if ((uint64_t)p->npages > 1ull << (9 * pl->levels))
		return OHCA_ADMIN_BAD_PARAM;
	if (!w->done)
		w->p = *p;
	rc = walk_some(e, w, pl);
	if (rc == OHCA_ADMIN_OK) {
		*p = w->p;
		memset(w, 0, sizeof(*w));
		return rc;
	}
	memset(p, 0, sizeof(*p));
	return rc;
}

int ohca_pages_load(ohca_engine *e, struct ohca_pages *p, const struct ohca_hw_pl *pl,
		    uint64_t bytes, uint32_t max_pages)
{
	struct ohca_walk w = { 0 };
	int rc;

	do {
		rc = ohca_pages_load_some(e, &w, p, pl, bytes, max_pages);
	} while (rc == OHCA_CMD_MORE);
	ohca_walk_end(e, &w);
	return rc;
}

/* The array has exactly npages entries: walk_grow() allocates no more, and walk_add() sets all. */
void ohca_pages_free(ohca_engine *e, struct ohca_pages *p)
{
	if (p->page) {
		e->page_entries -= p->npages;
		ohca_work_free(e, p->npages * sizeof(uint64_t));
		ohca_mem_put(e, p->page, p->npages * sizeof(uint64_t));
	}
	memset(p, 0, sizeof(*p));
}

bool ohca_pages_free_some(ohca_engine *e, struct ohca_pages *p)
{
	const uint32_t step = OHCA_PL_TABLE_ENTRIES * 16;
	uint64_t *page;

	/* to free much memory at once takes as long as to copy it */
	while (p->page && p->npages > step) {
		page = ohca_mem_resize(e, p->page, p->npages * sizeof(*page),
				       (p->npages - step) * sizeof(*page));
		if (!page)
			break;
		p->page = page;
		p->npages -= step;
		e->page_entries -= step;
		ohca_work(e, step * sizeof(*page));
		if (!ohca_work_left(e))
			return false;
	}
	ohca_pages_free(e, p);
	return true;
}

/* Whether [off, off + n) lies inside @p. */
static bool pages_inside(const struct ohca_pages *p, uint64_t off, uint64_t n)
{
	uint64_t bytes = ohca_pages_bytes(p);

	return off <= bytes && n <= bytes - off;
}

/*
 * Copy between @buf and the pages of @p from @off on. With OHCA_DMA_WRITE in @prot @buf is only
 * read. Inlined into its two callers, so that the direction is a constant.
 */
static inline int pages_copy(ohca_engine *e, const struct ohca_pages *p, uint64_t off,
			     uint8_t *buf, size_t n, int prot)
{
	if (!pages_inside(p, off, n))
		return dma_error(e);
	while (n) {
		uint64_t run, addr = ohca_pages_addr(p, off, &run);
		size_t len = run < n ? (size_t)run : n;

		if (prot & OHCA_DMA_WRITE ? dma_out(e, addr, buf, len) : dma_in(e, addr, buf, len))
			return -1;
		buf += len;
		off += len;
		n -= len;
	}
	return 0;
}

int ohca_pages_read(ohca_engine *e, const struct ohca_pages *p, uint64_t off, void *buf, size_t n)
{
	return pages_copy(e, p, off, buf, n, OHCA_DMA_READ);
}

int ohca_pages_write(ohca_engine *e, const struct ohca_pages *p, uint64_t off, const void *buf,
		     size_t n)
{
	return pages_copy(e, p, off, (uint8_t *)(uintptr_t)buf, n, OHCA_DMA_WRITE);
}

bool ohca_pages_view(ohca_engine *e, const struct ohca_pages *p, uint64_t off, struct ib_view *v,
		     size_t n)
{
	if (!pages_inside(p, off, n))
		return false;
	while (n) {
		uint64_t run, addr = ohca_pages_addr(p, off, &run);
		size_t len = run < n ? (size_t)run : n;

		if (!ohca_dma_view(e, addr, v, len))
			return false;
		off += len;
		n -= len;
	}
	return true;
}

void *ohca_pages_map(ohca_engine *e, const struct ohca_pages *p, uint64_t off, size_t *n, int prot,
		     uint64_t *iova)
{
	uint64_t run;

	if (!pages_inside(p, off, *n))
		return NULL;
	*iova = ohca_pages_addr(p, off, &run);
	if (*n > run)
		*n = (size_t)run;
	return dma_allowed(e, *iova, *n) ? e->ops.dma_map(e->h, *iova, n, prot) : NULL;
}

int ohca_pages_copy(ohca_engine *e, const struct ohca_pages *dst, uint64_t to,
		    const struct ohca_pages *src, uint64_t from, uint64_t n)
{
	uint8_t part[1024];

	for (uint64_t at = 0, len; at < n; at += len) {
		len = n - at < sizeof(part) ? n - at : sizeof(part);
		if (ohca_pages_read(e, src, from + at, part, len) ||
		    ohca_pages_write(e, dst, to + at, part, len))
			return -1;
	}
	return 0;
}

int ohca_ring_copy(ohca_engine *e, const struct ohca_ring *dst, const struct ohca_ring *src,
		   uint32_t *at, uint32_t to)
{
	const uint32_t size = 1u << dst->log_size, old_size = 1u << src->log_size;
	const uint32_t some = 4096u >> dst->log_stride;

	for (uint32_t n; *at != to; *at += n) {
		uint32_t new = *at & (size - 1), old = *at & (old_size - 1);

		if (!ohca_work_left(e))
			return 0;
		n = to - *at < some ? to - *at : some;
		if (n > size - new)
			n = size - new;
		if (n > old_size - old)
			n = old_size - old;
		if (ohca_pages_copy(e, dst->buf, dst->off + ((uint64_t)new << dst->log_stride),
				    src->buf, src->off + ((uint64_t)old << src->log_stride),
				    (uint64_t)n << src->log_stride))
			return -1;
	}
	return 0;
}

int ohca_pages_publish(ohca_engine *e, const struct ohca_pages *p, uint64_t off, const void *buf,
		       size_t n)
{
	uint64_t run, addr;

	if (!pages_inside(p, off, n))
		return dma_error(e);
	addr = ohca_pages_addr(p, off, &run);
	if (run < n)
		return dma_error(e);
	return ohca_dma_publish(e, addr, buf, n);
}

int ohca_pages_load32(ohca_engine *e, const struct ohca_pages *p, uint64_t off, uint32_t *val)
{
	uint64_t run, addr;
	size_t len = 4;
	void *m;

	if ((off & 3) || !pages_inside(p, off, 4))
		return dma_error(e);
	addr = ohca_pages_addr(p, off, &run);
	if (!dma_allowed(e, addr, 4))
		return dma_error(e);
	m = e->ops.dma_map(e->h, addr, &len, OHCA_DMA_READ);
	if (!m || len < 4 || ((uintptr_t)m & 3))
		return dma_error(e);
	*val = ohca_le32(__atomic_load_n((__le32 *)m, __ATOMIC_ACQUIRE));
	return 0;
}

int ohca_pages_store32(ohca_engine *e, const struct ohca_pages *p, uint64_t off, uint32_t val)
{
	uint64_t run, addr;
	size_t len = 4;
	void *m;

	if ((off & 3) || !pages_inside(p, off, 4))
		return dma_error(e);
	addr = ohca_pages_addr(p, off, &run);
	if (!dma_allowed(e, addr, 4))
		return dma_error(e);
	m = e->ops.dma_map(e->h, addr, &len, OHCA_DMA_WRITE);
	if (!m || len < 4 || ((uintptr_t)m & 3))
		return dma_error(e);
	__atomic_store_n((__le32 *)m, ohca_to_le32(val), __ATOMIC_RELEASE);
	e->ops.dma_dirty(e->h, addr, 4);
	return 0;
}
