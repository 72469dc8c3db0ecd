/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The budget of the memory that a guest can make the device allocate. */
#ifndef OHCA_BASE_MEM_H
#define OHCA_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"

/*
 * One budget, struct ohca_cfg.mem_max, for all that a guest can make the device allocate:
 * objects, page lists, windows, responses under way. A command that exceeds it fails with
 * NO_RESOURCE, and OHCA_CNT_NO_MEMORY counts it. The memory that work requests and packets need
 * at least is reserved by the command that creates the object, or that takes a QP out of RESET; a
 * larger window is allocated if the budget allows (transport/pool.h), and a refusal is counted as
 * well. OHCA_CNT_MEMORY is the use.
 */

/* Reserve, or return, @n bytes of the budget. False: it has less left. */
bool ohca_mem_reserve(ohca_engine *e, size_t n);
void ohca_mem_release(ohca_engine *e, size_t n);
/* @n zeroed bytes out of the budget, or NULL. */
void *ohca_mem_get(ohca_engine *e, size_t n);
/* The same on cache lines of its own; @n is a multiple of 64. */
void *ohca_mem_get_lines(ohca_engine *e, size_t n);
/* As realloc(), of @old bytes. NULL: no memory or no budget; @p stays valid */
void *ohca_mem_resize(ohca_engine *e, void *p, size_t old, size_t new);
/* Free; @p may be NULL. */
void ohca_mem_put(ohca_engine *e, void *p, size_t n);

#endif /* OHCA_BASE_MEM_H */
