// SPDX-License-Identifier: GPL-2.0-or-later
/* A heap of timers; see timers.h. */
#include "timers.h"

#include <stddef.h>

/* Merge two heaps, either of which may be NULL. */
static struct fab_timer *meld(struct fab_timer *a, struct fab_timer *b)
{
	struct fab_timer *up = a, *down = b;

	if (!a || !b)
		return a ? a : b;
	if (b->due_ns < a->due_ns) {
		up = b;
		down = a;
	}
	down->prev = up;
	down->next = up->child;
	if (down->next)
		down->next->prev = down;
	up->child = down;
	return up;
}

/*
 * Merge the heaps from @t on, linked by @next: first in pairs, then the pairs, the last one first.
 */
static struct fab_timer *meld_all(struct fab_timer *t)
{
	struct fab_timer *pairs = NULL, *all = NULL;

	while (t) {
		struct fab_timer *a = t, *b = t->next;

		t = b ? b->next : NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct fab_timer *a = pairs;

		pairs = a->next;
		all = meld(all, a);
	}
	return all;
}

static void take(struct fab_timers *h, struct fab_timer *t)
{
	struct fab_timer *below = meld_all(t->child);

	t->child = NULL;
	if (h->first == t) {
		h->first = below;
		return;
	}
	if (t->prev->child == t)
		t->prev->child = t->next;
	else
		t->prev->next = t->next;
	if (t->next)
		t->next->prev = t->prev;
	h->first = meld(h->first, below);
}

void fab_timer_set(struct fab_timers *h, struct fab_timer *t, uint64_t due_ns)
{
	if (t->set && t->due_ns == due_ns)
		return;
	if (t->set)
		take(h, t);
	t->due_ns = due_ns;
	t->set = due_ns != UINT64_MAX;
	if (t->set)
		h->first = meld(h->first, t);
}
