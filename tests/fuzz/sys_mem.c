/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared memory and its mappings, which stay: the one that asks for the same in the next input
 * gets the same addresses without a system call. See sys.h.
 */
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys_priv.h"

#define MEMS		64u
#define MAPS		80u
#define PAGE		4096u
#define POISON		65536u	/* bytes of an unmapped mapping that must not be touched */
#define ZERO_PAGES	3u	/* without a frame: none follows */

/**
 * struct map - addresses, and what is there; a mapping of two halves
 * @used: mapped as far as the input knows
 */
struct map {
	uint8_t *p;
	size_t size;
	bool used;
	bool there[2];
	int prot[2];
	off_t off[2];
};

/**
 * struct sys_mem - a memfd that stays
 * @all: all of it, for us
 * @taken: in use by the input
 * @next: maps asked for in this input
 */
struct sys_mem {
	size_t size;
	int fd;
	uint8_t *all;
	bool taken;
	unsigned int next;
	struct map map[MAPS];
};

static struct sys_mem mem[MEMS];
static struct sys_mem *current;
static unsigned int num_mapped;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "sys: %s\n", what);
	abort();
}

__attribute__((no_sanitize("address", "undefined", "coverage"), noinline))
static bool zero_page(const uint8_t *p)
{
	const uint64_t *v = (const uint64_t *)(const void *)p;
	uint64_t any = 0;

	for (unsigned int i = 0; i < PAGE / sizeof(*v); i++)
		any |= v[i];
	return !any;
}

/* Zeros from @off on, to the end or to where nobody has written. */
static void wipe(struct sys_mem *m, size_t off, size_t n, unsigned int zero_pages)
{
	unsigned int zeros = 0;

	for (; n && zeros < zero_pages; off += PAGE, n -= PAGE) {
		if (zero_page(m->all + off)) {
			zeros++;
			continue;
		}
		memset(m->all + off, 0, PAGE);
		zeros = 0;
	}
}

/*
 * Control words and descriptors are written anywhere; frames one behind the other, from the begin
 * of a lane.
 */
static void renew(struct sys_mem *m)
{
	bool head = false;

	for (unsigned int i = 0; i < m->next; i++) {
		const struct map *a = &m->map[i];

		if (a->there[1] && a->prot[0] & PROT_WRITE)
			wipe(m, (size_t)a->off[0], a->size / 2, ZERO_PAGES);
		if (a->there[1] || head)
			continue;
		wipe(m, (size_t)a->off[0], a->size, UINT32_MAX);
		head = true;
	}
}

struct sys_mem *sys_mem_get(size_t size)
{
	struct sys_mem *m = mem;

	while (m->fd && (m->taken || m->size != size))
		must(++m < mem + MEMS, "too much shared memory");
	if (!m->fd) {
		m->size = size;
		m->fd = memfd_create("fuzz", MFD_CLOEXEC);
		must(m->fd > 0 && !ftruncate(m->fd, (off_t)size), "memfd");
		m->all = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
		must(m->all != MAP_FAILED, "mmap");
	}
	m->taken = true;
	m->next = 0;
	return m;
}

void sys_mem_put(struct sys_mem *m)
{
	(void)m;	/* taken until the end of the input, for it may be mapped */
}

void sys_mem_next(struct sys_mem *m)
{
	current = m;
}

void sys_mem_end(void)
{
	must(!num_mapped, "memory is mapped at the end");
	for (struct sys_mem *m = mem; m < mem + MEMS && m->fd; m++) {
		if (m->taken)
			renew(m);
		m->taken = false;
	}
}

static size_t poisoned(const struct map *a)
{
	return a->size < POISON ? a->size : POISON;
}

/* The next mapping of the current memory, at addresses for @len bytes. */
static struct map *map_new(size_t len)
{
	struct map *a;

	must(current && current->taken && current->next < MAPS, "mmap of what nobody looked at");
	a = &current->map[current->next++];
	if (a->p && a->size != len) {
		ASAN_UNPOISON_MEMORY_REGION(a->p, poisoned(a));
		must(!munmap(a->p, a->size), "munmap");
		a->p = NULL;
	}
	if (!a->p) {
		*a = (struct map){ .size = len };
		a->p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		must(a->p != MAP_FAILED, "mmap");
	}
	ASAN_UNPOISON_MEMORY_REGION(a->p, poisoned(a));
	a->used = true;
	num_mapped++;
	return a;
}

static struct map *map_at(const uint8_t *p)
{
	for (struct sys_mem *m = mem; m < mem + MEMS && m->fd; m++)
		for (unsigned int i = 0; m->taken && i < m->next; i++)
			if (p >= m->map[i].p && p < m->map[i].p + m->map[i].size)
				return &m->map[i];
	must(false, "nothing is mapped there");
	return NULL;
}

void *sys_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	struct map *a = flags & MAP_FIXED ? map_at(addr) : map_new(len);
	unsigned int half = flags & MAP_FIXED && addr != a->p;
	struct sys_mem *m;
	void *p;

	if (flags & MAP_ANONYMOUS)
		return a->p;
	m = sys_object(fd)->mem;
	must(a->used && m == current && (size_t)off + len <= m->size, "mmap");
	/* a whole, where two halves were */
	if (!(flags & MAP_FIXED) && a->there[1]) {
		a->there[0] = false;
		a->there[1] = false;
	}
	if (!a->there[half] || a->prot[half] != prot || a->off[half] != off) {
		p = mmap(a->p + half * len, len, prot, MAP_SHARED | MAP_FIXED, m->fd, off);
		must(p != MAP_FAILED, "mmap");
		a->there[half] = true;
		a->prot[half] = prot;
		a->off[half] = off;
	}
	return a->p + half * len;
}

int sys_munmap(void *addr, size_t len)
{
	struct map *a = map_at(addr);

	must(a->used && addr == a->p && len == a->size, "munmap");
	a->used = false;
	num_mapped--;
	ASAN_POISON_MEMORY_REGION(a->p, poisoned(a));
	return 0;
}
