// SPDX-License-Identifier: GPL-2.0-or-later
/* Blocks of memory that are kept; see kept.h. */
#include "kept.h"

#include <sanitizer/allocator_interface.h>
#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LARGE	2048u
#define MOST	(512u << 10)
#define SIZES	48u
#define BLOCKS	64u	/* of a size */

static size_t size_of[SIZES];	/* 0 at the end */

/* Blocks of each size, the oldest first. */
static struct kept {
	unsigned int first, num;
	void *block[BLOCKS];
} kept[SIZES];

/* Return: NULL: no block of this size is kept; with @add: none can be. */
static struct kept *kept_of(size_t n, bool add)
{
	unsigned int i = 0;

	if (!n || n > MOST)
		return NULL;
	while (size_of[i] && size_of[i] != n)
		if (++i == SIZES)
			return NULL;
	if (add)
		size_of[i] = n;
	return size_of[i] ? &kept[i] : NULL;
}

static void *take(size_t n)
{
	struct kept *k = kept_of(n, false);
	void *p;

	if (!k || k->num <= (n < LARGE ? KEPT_SMALL : 1))
		return NULL;
	p = k->block[k->first++ % BLOCKS];
	k->num--;
	ASAN_UNPOISON_MEMORY_REGION(p, n);
	return p;
}

void *__wrap_malloc(size_t n)
{
	void *p = take(n);

	return p ? p : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	void *p = size && n > MOST / size ? NULL : take(n * size);

	return p ? memset(p, 0, n * size) : __real_calloc(n, size);
}

void __wrap_free(void *p)
{
	const size_t n = p ? __sanitizer_get_allocated_size(p) : 0;
	struct kept *k = kept_of(n, true);

	if (!k || k->num == (n < LARGE ? BLOCKS : BLOCKS / 8)) {
		__real_free(p);
		return;
	}
	/* freed twice */
	if (__asan_address_is_poisoned(p))
		abort();
	ASAN_POISON_MEMORY_REGION(p, n);
	k->block[(k->first + k->num++) % BLOCKS] = p;
}

/*
 * A large block becomes smaller in place, as with the C library: the sanitizer would copy it each
 * time, and the engine frees large arrays in small steps.
 */
void *__wrap_realloc(void *p, size_t n)
{
	const size_t size = p ? __sanitizer_get_allocated_size(p) : 0;

	if (!n || n > size || size <= MOST)
		return __real_realloc(p, n);
	ASAN_UNPOISON_MEMORY_REGION(p, n);
	ASAN_POISON_MEMORY_REGION((char *)p + n, size - n);
	return p;
}
