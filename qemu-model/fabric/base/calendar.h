/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue of events by time, for users with an event every few ns: a wheel for each six bits of the
 * time. An event is in the wheel of the highest bits in which its time differs from now, and moves
 * to a lower one when these bits have passed: a few steps, however many events wait. Events of the
 * same time are returned together, in any order, but always in the same one.
 *
 * Unlike a struct fab_timer, an event cannot be cancelled. This reads no clock and calls nothing.
 */
#ifndef OHCA_FABRIC_CALENDAR_H
#define OHCA_FABRIC_CALENDAR_H

#include <stddef.h>
#include <stdint.h>

#define FAB_CALENDAR_BITS	6u
#define FAB_CALENDAR_SLOTS	(1u << FAB_CALENDAR_BITS)
#define FAB_CALENDAR_WHEELS	11u	/* for 64 bits */

/**
 * struct fab_entry - an event, as a member of the user's structure
 * @due_ns: its time
 * @next: next event of the same time, or NULL
 */
struct fab_entry {
	uint64_t due_ns;
	struct fab_entry *next;
};

/**
 * struct fab_calendar - all events; all 0: there are none, and the time is 0
 * @now_ns: time of the last events that were returned
 * @wheels: a bit for each wheel with events; @slots: a bit for each such slot of a wheel
 */
struct fab_calendar {
	uint64_t now_ns;
	uint32_t wheels;
	uint64_t slots[FAB_CALENDAR_WHEELS];
	struct fab_entry *slot[FAB_CALENDAR_WHEELS][FAB_CALENDAR_SLOTS];
};

/** fab_calendar_add() - add @e, which is not in the queue, and whose time is not before now */
static inline void fab_calendar_add(struct fab_calendar *c, struct fab_entry *e)
{
	const uint64_t differs = (e->due_ns ^ c->now_ns) | 1;
	const unsigned int wheel = (63u - (unsigned int)__builtin_clzll(differs)) / FAB_CALENDAR_BITS;
	const unsigned int slot = e->due_ns >> (wheel * FAB_CALENDAR_BITS) & (FAB_CALENDAR_SLOTS - 1);

	/* without its bit the slot has a stale pointer */
	e->next = c->slots[wheel] >> slot & 1 ? c->slot[wheel][slot] : NULL;
	c->slot[wheel][slot] = e;
	c->slots[wheel] |= 1ull << slot;
	c->wheels |= 1u << wheel;
}

/**
 * fab_calendar_next() - remove the next events, which all have the same time; it becomes @now_ns
 * Return: the first of them, or NULL: there are none.
 */
static inline struct fab_entry *fab_calendar_next(struct fab_calendar *c)
{
	while (c->wheels) {
		const unsigned int wheel = (unsigned int)__builtin_ctz(c->wheels);
		const unsigned int slot = (unsigned int)__builtin_ctzll(c->slots[wheel]);
		const unsigned int shift = wheel * FAB_CALENDAR_BITS;
		struct fab_entry *e = c->slot[wheel][slot];

		c->slots[wheel] &= c->slots[wheel] - 1;
		if (!c->slots[wheel])
			c->wheels &= ~(1u << wheel);
		c->now_ns = (c->now_ns >> shift & ~(uint64_t)(FAB_CALENDAR_SLOTS - 1)) << shift |
			    (uint64_t)slot << shift;
		if (!wheel)
			return e;
		while (e) {
			struct fab_entry *next = e->next;

			fab_calendar_add(c, e);
			e = next;
		}
	}
	return NULL;
}

#endif
