// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory of memfds; see pages.h. */
#include "pages.h"

#include <fcntl.h>
#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POOL	16u
#define PAGE	4096u
/* For more bytes the kernel takes less time than a write to all of them, or to their shadow. */
#define LARGE	(64u << 10)

/*
 * @room: bytes; 0: this is none; @size: that were not truncated
 * @own: a mapping for the functions here; @views: mappings that nobody uses, those @large last
 */
struct pages {
	int fd;
	size_t room, size;
	bool used;
	uint8_t *own;
	struct view *views[2];
};

/*
 * A mapping of all of @pages; @len: the bytes that are in use, more than LARGE if @large
 * @covered: other memory is in place of some
 */
struct view {
	struct view *next;
	struct pages *pages;
	void *owner;
	uint8_t *at;
	size_t len;
	bool covered, large;
};

static struct pages pool[POOL];
static struct view *mapped;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "pages: %s\n", what);
	abort();
}

static size_t whole_pages(size_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

static void map_at(const struct pages *p, uint8_t *at)
{
	must(mmap(at, p->room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd, 0) == at,
	     "memory cannot be mapped");
}

/* Return: a new mapping, with a hole behind it. */
static uint8_t *map_anywhere(const struct pages *p)
{
	uint8_t *at = mmap(NULL, p->room + PAGE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must(at != MAP_FAILED, "no addresses are left");
	map_at(p, at);
	return at;
}

/* ---- memory ---------------------------------------------------------------------- */

static void pages_free(struct pages *p)
{
	for (unsigned int i = 0; i < 2; i++)
		for (struct view *v = p->views[i], *next; v; v = next) {
			next = v->next;
			ASAN_UNPOISON_MEMORY_REGION(v->at, p->room);
			munmap(v->at, p->room + PAGE);
			free(v);
		}
	munmap(p->own, p->room + PAGE);
	close(p->fd);
	p->room = 0;
}

static void pages_new(struct pages *p, size_t room)
{
	*p = (struct pages){ .room = room, .fd = memfd_create("pages", MFD_CLOEXEC) };
	must(p->fd >= 0, "no descriptor is left");
	pages_resize(p, room);
	p->own = map_anywhere(p);
}

struct pages *pages_get(size_t n)
{
	static unsigned int oldest;
	const size_t room = whole_pages(n);
	struct pages *p = NULL;

	for (unsigned int i = 0; i < POOL; i++)
		if (!pool[i].used && pool[i].room == room)
			p = &pool[i];
	for (unsigned int i = 0; !p; i++, oldest++) {
		must(i < POOL, "too much is in use");
		if (!pool[oldest % POOL].used)
			p = &pool[oldest % POOL];
	}
	if (p->room && p->room != room)
		pages_free(p);
	if (!p->room)
		pages_new(p, room);
	p->used = true;
	return p;
}

void pages_put(struct pages *p)
{
	if (p->size != p->room) {
		pages_resize(p, 0);
		pages_resize(p, p->room);
	} else if (p->room > LARGE) {
		must(!fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				(off_t)p->room), "memory cannot be cleared");
	} else {
		memset(p->own, 0, p->room);
	}
	p->used = false;
}

size_t pages_room(const struct pages *p)
{
	return p->room;
}

void pages_resize(struct pages *p, size_t n)
{
	must(!ftruncate(p->fd, (off_t)n), "memory cannot be resized");
	p->size = n;
}

void pages_write(struct pages *p, size_t at, const void *buf, size_t n)
{
	memcpy(p->own + at, buf, n);
}

/* ---- mappings -------------------------------------------------------------------- */

/* Nobody may access the first @n bytes. */
static void forbid(const struct view *v, size_t n)
{
	if (v->large)
		must(!mprotect(v->at, n, PROT_NONE), "a mapping cannot be protected");
	else
		ASAN_POISON_MEMORY_REGION(v->at, n);
}

static void allow(const struct view *v)
{
	if (v->large)
		must(!mprotect(v->at, v->len, PROT_READ | PROT_WRITE), "a mapping stays protected");
	else
		ASAN_UNPOISON_MEMORY_REGION(v->at, v->len);
}

static struct view *view_new(struct pages *p, bool large)
{
	struct view *v = malloc(sizeof(*v));

	must(v, "out of memory");
	*v = (struct view){ .pages = p, .at = map_anywhere(p), .large = large };
	forbid(v, p->room);
	return v;
}

void *pages_map(struct pages *p, size_t n, void *owner)
{
	const size_t len = whole_pages(n);
	const bool large = len > LARGE;
	struct view *v = p->views[large];

	must(len <= p->room, "a mapping is larger than its memory");
	if (v)
		p->views[large] = v->next;
	else
		v = view_new(p, large);
	v->len = len;
	v->owner = owner;
	allow(v);
	v->next = mapped;
	mapped = v;
	return v->at;
}

void *pages_cover(void *addr, size_t n, int prot, int flags)
{
	struct view *v = mapped;
	const uint8_t *at = addr;

	while (v && (size_t)(at - v->at) >= v->len)
		v = v->next;
	must(v && (size_t)(at - v->at) + n <= v->len, "a mapping covers what is not mapped");
	v->covered = true;
	return mmap(addr, n, prot, flags, -1, 0);
}

void *pages_unmap(void *addr, size_t n)
{
	struct view **at = &mapped, *v;

	while (*at && (*at)->at != addr)
		at = &(*at)->next;
	v = *at;
	must(v && v->len == whole_pages(n), "what is unmapped is not a whole mapping");
	*at = v->next;
	/* ASan allows access to what is mapped anew */
	if (v->covered)
		map_at(v->pages, v->at);
	forbid(v, v->covered ? v->pages->room : v->len);
	v->covered = false;
	v->next = v->pages->views[v->large];
	v->pages->views[v->large] = v;
	return v->owner;
}

bool pages_mapped(void)
{
	return mapped;
}
