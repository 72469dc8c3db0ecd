/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Allocations of a target that creates and destroys an HCA for each input. What is freed is kept
 * for the next allocation of its size. ASan's allocator maps each block of 128 KiB and more for
 * itself, which takes the kernel longer than an input takes, and gives other blocks out again when
 * they have left the processor's caches. The linker replaces the functions (--wrap).
 *
 * ASan reports accesses to a block that waits. A small block waits for KEPT_SMALL others of its
 * size, a large one for one. A block of a size for which there is no room, and a block that is
 * larger, is one of ASan's allocator, as each block is at first.
 */
#ifndef FUZZ_KEPT_H
#define FUZZ_KEPT_H

#include <stddef.h>

#define KEPT_SMALL	32u

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

#endif /* FUZZ_KEPT_H */
