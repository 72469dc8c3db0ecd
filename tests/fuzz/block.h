/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory that outlives an input: its first contents can be restored. */
#ifndef FUZZ_BLOCK_H
#define FUZZ_BLOCK_H

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_PIECE	1024u

/** struct block - memory, and a copy of its first contents */
struct block {
	void *p, *as_new;
	size_t n;
};

/** block_of() - takes a copy of the contents of @p, which is NULL or of malloc() */
static inline struct block block_of(void *p)
{
	/* ASan's allocator returns the size that was asked for */
	struct block b = { .p = p, .n = p ? malloc_usable_size(p) : 0 };

	if (!b.n)
		return b;
	b.as_new = malloc(b.n);
	if (!b.as_new)
		abort();
	memcpy(b.as_new, p, b.n);
	return b;
}

/** block_put_back() - restores the first contents; pieces that have not changed are only read */
static inline void block_put_back(const struct block *b)
{
	for (size_t at = 0; at < b->n; at += BLOCK_PIECE) {
		size_t n = b->n - at < BLOCK_PIECE ? b->n - at : BLOCK_PIECE;
		uint8_t *p = (uint8_t *)b->p + at, *as_new = (uint8_t *)b->as_new + at;

		if (memcmp(p, as_new, n))
			memcpy(p, as_new, n);
	}
}

#endif /* FUZZ_BLOCK_H */
