/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Timers, any number of them: a pairing heap, whose nodes are members of the users' structures. A
 * change needs no memory, and takes a few steps on the average (log n), however many wait. Timers
 * of the same time are returned in any order, but always in the same one.
 *
 * This reads no clock and calls nothing. Users do not write to it.
 */
#ifndef OHCA_FABRIC_TIMERS_H
#define OHCA_FABRIC_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct fab_timer - a timer, as a member of the user's structure; all 0: it is not set
 * @due_ns: its time
 * @child: the first of those below it, which are due no earlier; they are linked by @next
 * @next: of a timer below another: the next one there, or NULL
 * @prev: of the same: the previous one, or for the first the one above
 * @set: it is set
 */
struct fab_timer {
	uint64_t due_ns;
	struct fab_timer *child, *next, *prev;
	bool set;
};

/** struct fab_timers - all timers that are set; @first: the one that is due first, or NULL */
struct fab_timers {
	struct fab_timer *first;
};

/** fab_timer_set() - set @t, which may be set already, to @due_ns; UINT64_MAX: cancel it */
void fab_timer_set(struct fab_timers *h, struct fab_timer *t, uint64_t due_ns);

/** fab_timers_due() - time of the first one; UINT64_MAX: none is set */
static inline uint64_t fab_timers_due(const struct fab_timers *h)
{
	return h->first ? h->first->due_ns : UINT64_MAX;
}

#endif
