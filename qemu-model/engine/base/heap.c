/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Binary heap of entries that are due at a time. See heap.h. */
#include "engine/base/heap.h"
#include "engine/base/mem.h"

static void due_put(struct ohca_heap *h, uint32_t i, struct ohca_due *d)
{
	h->due[i] = d;
	d->at = i + 1;
}

static void due_up(struct ohca_heap *h, uint32_t i, struct ohca_due *d)
{
	while (i && h->due[(i - 1) / 2]->key > d->key) {
		due_put(h, i, h->due[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	due_put(h, i, d);
}

static void due_down(struct ohca_heap *h, uint32_t i, struct ohca_due *d)
{
	for (uint32_t kid = 2 * i + 1; kid < h->num; kid = 2 * i + 1) {
		if (kid + 1 < h->num && h->due[kid + 1]->key < h->due[kid]->key)
			kid++;
		if (h->due[kid]->key >= d->key)
			break;
		due_put(h, i, h->due[kid]);
		i = kid;
	}
	due_put(h, i, d);
}

int ohca_heap_room(ohca_engine *e, struct ohca_heap *h, uint32_t n)
{
	uint32_t cap = h->cap ? h->cap : 64;
	struct ohca_due **due;

	if (n <= h->cap)
		return 0;
	while (cap < n)
		cap *= 2;
	due = ohca_mem_resize(e, h->due, h->cap * sizeof(*due), cap * sizeof(*due));
	if (!due)
		return -1;
	h->due = due;
	h->cap = cap;
	return 0;
}

void ohca_heap_free(ohca_engine *e, struct ohca_heap *h)
{
	ohca_mem_put(e, h->due, h->cap * sizeof(*h->due));
	*h = (struct ohca_heap){ 0 };
}

void ohca_heap_add(struct ohca_heap *h, struct ohca_due *d, uint64_t key)
{
	d->key = key;
	due_up(h, h->num++, d);
}

void ohca_heap_del(struct ohca_heap *h, struct ohca_due *d)
{
	uint32_t i = d->at - 1;
	struct ohca_due *last;

	if (!d->at)
		return;
	d->at = 0;
	last = h->due[--h->num];
	if (last == d)
		return;
	if (i && h->due[(i - 1) / 2]->key > last->key)
		due_up(h, i, last);
	else
		due_down(h, i, last);
}
