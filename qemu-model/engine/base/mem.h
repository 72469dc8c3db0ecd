/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The budget of memory that a guest can make the device take. */
#ifndef OHCA_BASE_MEM_H
#define OHCA_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"

/*
 * One budget, struct ohca_cfg.mem_max, for all that a guest can make the device allocate:
 * objects, page lists, windows, responses under way. A command that finds it used up fails with
 * NO_RESOURCE and OHCA_CNT_NO_MEMORY counts it. What work requests and packets cannot do without
 * was reserved when the object was made; a larger window is taken if the budget has it
 * (transport/pool.h), and its refusal is counted as well. OHCA_CNT_MEMORY says what is taken.
 */

/* Reserve, or give back, @n bytes of it. False: there are not so many left. */
bool ohca_mem_reserve(ohca_engine *e, size_t n);
void ohca_mem_release(ohca_engine *e, size_t n);
/* @n zeroed bytes out of the budget, or NULL. */
void *ohca_mem_get(ohca_engine *e, size_t n);
/* As realloc(), of what has @old bytes. To NULL, which leaves @p: no memory, or none left */
void *ohca_mem_resize(ohca_engine *e, void *p, size_t old, size_t new);
/* Give back; @p may be NULL. */
void ohca_mem_put(ohca_engine *e, void *p, size_t n);

#endif /* OHCA_BASE_MEM_H */
