/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Input that is nearly valid: every truncation of it, and every single bit of it flipped. */
#ifndef BAD_H
#define BAD_H

#include "cases.h"

#define NO_BIT	SIZE_MAX

/**
 * struct bad - one variant of the input
 * @p: [@len] the input, in memory of exactly its size, so that ASan detects reads past it
 * @bit: the bit that is flipped; NO_BIT: none, the input is truncated
 * @ctx: the caller's
 */
struct bad {
	uint8_t *p;
	size_t len;
	size_t bit;
	void *ctx;
};

/* Calls @try with all truncations of @good, the empty one first, but not with @good itself. */
static inline void each_truncation(const void *good, size_t len, void (*try)(struct bad *b),
				   void *ctx)
{
	for (size_t n = 0; n < len; n++) {
		struct bad b = { .p = malloc(n ? n : 1), .len = n, .bit = NO_BIT, .ctx = ctx };

		assert_non_null(b.p);
		memcpy(b.p, good, n);
		try(&b);
		free(b.p);
	}
}

/* Calls @try with @good and one bit flipped, for each bit from byte @from to byte @to. */
static inline void each_flip(const void *good, size_t len, size_t from, size_t to,
			     void (*try)(struct bad *b), void *ctx)
{
	struct bad b = { .p = malloc(len), .len = len, .ctx = ctx };

	assert_non_null(b.p);
	for (b.bit = 8 * from; b.bit < 8 * to; b.bit++) {
		memcpy(b.p, good, len);
		b.p[b.bit / 8] ^= (uint8_t)(1u << b.bit % 8);
		try(&b);
	}
	free(b.p);
}

#endif
