/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The budget of the memory that the device allocates for guest objects; see mem.h. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "ohca_hw.h"

static void told(ohca_engine *e)
{
	atomic_store_explicit(&e->cnt[OHCA_CNT_MEMORY], e->mem_used, memory_order_relaxed);
}

bool ohca_mem_reserve(ohca_engine *e, size_t n)
{
	if (n > e->mem_max - e->mem_used) {
		ohca_count(e, OHCA_CNT_NO_MEMORY);
		return false;
	}
	e->mem_used += n;
	told(e);
	return true;
}

void ohca_mem_release(ohca_engine *e, size_t n)
{
	e->mem_used -= n;
	told(e);
}

void *ohca_mem_get(ohca_engine *e, size_t n)
{
	void *p;

	if (!ohca_mem_reserve(e, n))
		return NULL;
	p = calloc(1, n);
	if (!p)
		ohca_mem_release(e, n);
	return p;
}

void *ohca_mem_get_lines(ohca_engine *e, size_t n)
{
	void *p;

	if (!ohca_mem_reserve(e, n))
		return NULL;
	p = aligned_alloc(64, n);
	if (p)
		memset(p, 0, n);
	else
		ohca_mem_release(e, n);
	return p;
}

void *ohca_mem_resize(ohca_engine *e, void *p, size_t old, size_t new)
{
	void *q;

	if (new > old && !ohca_mem_reserve(e, new - old))
		return NULL;
	q = realloc(p, new);
	if (q ? new < old : new > old)
		ohca_mem_release(e, q ? old - new : new - old);
	return q;
}

void ohca_mem_put(ohca_engine *e, void *p, size_t n)
{
	if (!p)
		return;
	free(p);
	ohca_mem_release(e, n);
}
