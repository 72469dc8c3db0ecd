/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of memfds (calls.h). It is the kernel's, so access to what was truncated is a bus error.
 * Memory and mappings are kept for the next memfd of the same size, so most inputs create and map
 * none. Nothing may access a mapping that has ended, or a byte behind one: ASan reports it, or it
 * is a segmentation fault.
 */
#ifndef FUZZ_PAGES_H
#define FUZZ_PAGES_H

#include <stdbool.h>
#include <stddef.h>

struct pages;

/** pages_get() - Return: zeros, @n bytes or, since these are whole pages, a few more */
struct pages *pages_get(size_t n);

/** pages_put() - end the use of @p, which is not mapped */
void pages_put(struct pages *p);

/** pages_room() - how many bytes @p has at most */
size_t pages_room(const struct pages *p);

/** pages_resize() - truncate to @n bytes, or add zeros up to them */
void pages_resize(struct pages *p, size_t n);

/** pages_write() - write [@n] @buf from offset @at on; there are so many bytes */
void pages_write(struct pages *p, size_t at, const void *buf, size_t n);

/** pages_map() - map the first @n bytes of @p; @owner: for pages_unmap() */
void *pages_map(struct pages *p, size_t n, void *owner);

/** pages_cover() - mmap() of other memory in place of a part of a mapping; in any signal handler */
void *pages_cover(void *addr, size_t n, int prot, int flags);

/** pages_unmap() - end the mapping of @n bytes at @addr. Return: its owner */
void *pages_unmap(void *addr, size_t n);

/** pages_mapped() - whether there are mappings */
bool pages_mapped(void);

#endif /* FUZZ_PAGES_H */
