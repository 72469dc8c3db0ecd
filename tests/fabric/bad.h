/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Input that is nearly right: every truncation of it, and every single bit of it flipped. */
#ifndef BAD_H
#define BAD_H

#include "cases.h"

#define NO_BIT	SIZE_MAX

/**
 * struct bad - input that is to be tried
 * @p: [@len] it, in memory of its own, so that no byte beyond it is read unnoticed
 * @bit: that was flipped, NO_BIT: none, it is truncated
 * @ctx: the caller's
 */
struct bad {
	uint8_t *p;
	size_t len;
	size_t bit;
	void *ctx;
};

/* @try gets all truncations of @good, the empty one first, but not @good itself. */
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

/* @try gets @good with each of the bits from byte @from to byte @to flipped. */
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
