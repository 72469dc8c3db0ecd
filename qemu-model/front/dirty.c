// SPDX-License-Identifier: GPL-2.0-or-later
/* The front's side of a log of writes; see dirty.h. */
#include "front/dirty.h"

#include <stdbool.h>

/**
 * struct taking - the current run: pages from @begin to before @end; @runs: number of earlier runs
 */
struct taking {
	void (*run)(void *arg, uint64_t off, uint64_t len);
	void *arg;
	uint64_t begin, end;
	unsigned int runs;
};

static void dirty_tell(struct taking *t)
{
	if (t->begin == t->end)
		return;
	t->run(t->arg, t->begin * OHCA_DIRTY_PAGE, (t->end - t->begin) * OHCA_DIRTY_PAGE);
	t->runs++;
}

static void dirty_add(struct taking *t, uint64_t page, uint64_t end)
{
	if (page != t->end) {
		dirty_tell(t);
		t->begin = page;
	}
	t->end = end;
}

/* A load first: most bytes are 0, and an exchange takes longer. */
static bool take(_Atomic uint8_t *b)
{
	return atomic_load_explicit(b, memory_order_relaxed) && atomic_exchange(b, 0);
}

/* The end of the group of @fan that begins at @at, of @all. */
static uint64_t group_end(uint64_t at, uint64_t fan, uint64_t all)
{
	return all - at < fan ? all : at + fan;
}

static void take_pages(const struct ohca_dirty *d, uint64_t page, struct taking *t)
{
	const uint64_t end = group_end(page, OHCA_DIRTY_FAN, d->pages);

	if (t->runs >= OHCA_DIRTY_RUNS) {
		/* the bytes of the pages stay set: a later call may report them once more */
		dirty_add(t, page, end);
		return;
	}
	for (; page < end; page++)
		if (take(&d->page[page]))
			dirty_add(t, page, page + 1);
}

void ohca_dirty_take(const struct ohca_dirty *d,
		     void (*run)(void *arg, uint64_t off, uint64_t len), void *arg)
{
	const uint64_t sums = OHCA_DIRTY_UP(d->pages, OHCA_DIRTY_FAN);
	const uint64_t tops = OHCA_DIRTY_UP(sums, OHCA_DIRTY_FAN);
	struct taking t = { .run = run, .arg = arg };

	for (uint64_t top = 0; top < tops; top++) {
		const uint64_t first = top * OHCA_DIRTY_FAN;
		const uint64_t end = group_end(first, OHCA_DIRTY_FAN, sums);

		if (!take(&d->top[top]))
			continue;
		for (uint64_t sum = first; sum < end; sum++)
			if (take(&d->sum[sum]))
				take_pages(d, sum * OHCA_DIRTY_FAN, &t);
	}
	dirty_tell(&t);
}
