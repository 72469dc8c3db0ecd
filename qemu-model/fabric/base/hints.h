/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hints for the compiler and the processor. */
#ifndef OHCA_FABRIC_HINTS_H
#define OHCA_FABRIC_HINTS_H

#include <stddef.h>

#define fab_likely(x)		__builtin_expect(!!(x), 1)
#define fab_unlikely(x)		__builtin_expect(!!(x), 0)

#define FAB_CACHE_LINE	64u

/** fab_prefetch() - prefetch @n bytes at @p into the cache; @p may be NULL */
static inline void fab_prefetch(const void *p, size_t n)
{
	for (size_t at = 0; at < n; at += FAB_CACHE_LINE)
		__builtin_prefetch((const char *)p + at);
}

#endif
