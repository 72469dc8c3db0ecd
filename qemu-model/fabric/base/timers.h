/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Times at which something is due, of which any number may wait: a pairing heap, whose nodes are
 * part of what waits. A change needs no memory, and takes a few steps on the average (log n),
 * however many wait. What is due at the same time comes in any order, but always in the same one.
 *
 * This has no clock and calls nothing. Nobody else may write to it.
 */
#ifndef OHCA_FABRIC_TIMERS_H
#define OHCA_FABRIC_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct fab_timer - a part of what waits; all 0: it does not
 * @due_ns: until when
 * @child: the first of those that are below it, and due no earlier; they are linked by @next
 * @next: of one that is below another: the next one there, or NULL
 * @prev: of the same: the one before, or of the first that below which it is
 * @set: it waits
 */
struct fab_timer {
	uint64_t due_ns;
	struct fab_timer *child, *next, *prev;
	bool set;
};

/** struct fab_timers - all that wait; @first: the one that is due first, or NULL */
struct fab_timers {
	struct fab_timer *first;
};

/** fab_timer_set() - @t, which may wait already, waits until @due_ns; UINT64_MAX: it does not */
void fab_timer_set(struct fab_timers *h, struct fab_timer *t, uint64_t due_ns);

/** fab_timers_due() - when the first one is due; UINT64_MAX: none waits */
static inline uint64_t fab_timers_due(const struct fab_timers *h)
{
	return h->first ? h->first->due_ns : UINT64_MAX;
}

#endif
