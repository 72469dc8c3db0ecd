/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Binary heap of entries that are due at a time; the first is the earliest. The owner calls. */
#ifndef OHCA_BASE_HEAP_H
#define OHCA_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

/** struct ohca_due - entry of a heap; @key: when it is due, ns; @at: position + 1; 0: in no heap */
struct ohca_due {
	uint64_t key;
	uint32_t at;
};

/** struct ohca_heap - a heap of @num entries, with room for @cap; all zero: empty */
struct ohca_heap {
	struct ohca_due **due;
	uint32_t num, cap;
};

/* Make room for @n entries in all. 0 or -1 (memory) */
int ohca_heap_room(ohca_engine *e, struct ohca_heap *h, uint32_t n);
void ohca_heap_free(ohca_engine *e, struct ohca_heap *h);
/* Add @d, which is in no heap, due at @key, ns. There must be room. */
void ohca_heap_add(struct ohca_heap *h, struct ohca_due *d, uint64_t key);
/* Remove @d, if it is in the heap. */
void ohca_heap_del(struct ohca_heap *h, struct ohca_due *d);

/* When the earliest entry is due, ns; OHCA_NO_DEADLINE: the heap is empty */
static inline uint64_t ohca_heap_next(const struct ohca_heap *h)
{
	return h->num ? h->due[0]->key : OHCA_NO_DEADLINE;
}

#endif /* OHCA_BASE_HEAP_H */
