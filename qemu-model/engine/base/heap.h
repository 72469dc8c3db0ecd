/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Binary heap of things that are due at a time; the first is the earliest. The owner calls. */
#ifndef OHCA_BASE_HEAP_H
#define OHCA_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

/** struct ohca_due - member of what is in a heap; @at: position + 1; 0: in none */
struct ohca_due {
	uint64_t key;
	uint32_t at;
};

/** struct ohca_heap - @num of at most @cap; all zero: empty */
struct ohca_heap {
	struct ohca_due **due;
	uint32_t num, cap;
};

/* Room for @n in all. 0 or -1 (memory) */
int ohca_heap_room(ohca_engine *e, struct ohca_heap *h, uint32_t n);
void ohca_heap_free(ohca_engine *e, struct ohca_heap *h);
/* @d, which is in no heap, is due at @key; there is room. */
void ohca_heap_add(struct ohca_heap *h, struct ohca_due *d, uint64_t key);
/* @d is in the heap no more, if it was. */
void ohca_heap_del(struct ohca_heap *h, struct ohca_due *d);

/* The earliest, or OHCA_NO_DEADLINE. */
static inline uint64_t ohca_heap_next(const struct ohca_heap *h)
{
	return h->num ? h->due[0]->key : OHCA_NO_DEADLINE;
}

#endif /* OHCA_BASE_HEAP_H */
