/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The budget of memory that the device allocates for a guest. The owner calls. */
#ifndef OHCA_BASE_MEM_H
#define OHCA_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"

/*
 * The budget, struct ohca_cfg.mem_max, limits all memory that the device allocates for a guest:
 * objects, page lists, windows, responses under way. A command that exceeds it fails with
 * NO_RESOURCE, and OHCA_CNT_NO_MEMORY counts it. The command that creates an object, or that moves
 * a QP from RESET, reserves the minimum that work requests and packets need. The device allocates
 * larger windows if the budget allows (transport/pool.h), and counts refusals of these, too.
 * OHCA_CNT_MEMORY is the memory in use, bytes.
 */

/* Reserve, or release, @n bytes of the budget. False: less is left. */
bool ohca_mem_reserve(ohca_engine *e, size_t n);
void ohca_mem_release(ohca_engine *e, size_t n);
/* Allocate @n zeroed bytes. NULL: no memory or no budget */
void *ohca_mem_get(ohca_engine *e, size_t n);
/* The same, aligned to a cache line; @n is a multiple of 64. */
void *ohca_mem_get_lines(ohca_engine *e, size_t n);
/* As realloc(), from @old to @new bytes. NULL: no memory or no budget; @p stays valid */
void *ohca_mem_resize(ohca_engine *e, void *p, size_t old, size_t new);
/* Free the @n bytes at @p; @p may be NULL. */
void ohca_mem_put(ohca_engine *e, void *p, size_t n);

#endif /* OHCA_BASE_MEM_H */
