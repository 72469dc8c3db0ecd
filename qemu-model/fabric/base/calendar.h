/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Times at which something is due, for who has an event every few ns: a wheel for each six bits of
 * the time. What waits is in the wheel of the highest bits in which its time differs from now, and
 * comes into a lower one when these bits have passed: a few steps, however many wait. What is due
 * at the same time comes at once, in any order, but always in the same one.
 *
 * Unlike a struct fab_timer, what waits cannot be taken back. This has no clock and calls nothing.
 */
#ifndef OHCA_FABRIC_CALENDAR_H
#define OHCA_FABRIC_CALENDAR_H

#include <stddef.h>
#include <stdint.h>

#define FAB_CALENDAR_BITS	6u
#define FAB_CALENDAR_SLOTS	(1u << FAB_CALENDAR_BITS)
#define FAB_CALENDAR_WHEELS	11u	/* for 64 bits */

/**
 * struct fab_entry - a part of what waits
 * @due_ns: until when
 * @next: of what comes at the same time, or NULL
 */
struct fab_entry {
	uint64_t due_ns;
	struct fab_entry *next;
};

/**
 * struct fab_calendar - all that wait; all 0: nothing does, and it is 0
 * @now_ns: the time of what has come last
 * @wheels: a bit for each with something in it, and @slots of it
 */
struct fab_calendar {
	uint64_t now_ns;
	uint32_t wheels;
	uint64_t slots[FAB_CALENDAR_WHEELS];
	struct fab_entry *slot[FAB_CALENDAR_WHEELS][FAB_CALENDAR_SLOTS];
};

/** fab_calendar_add() - @e, whose time is not before now and which does not wait yet, does */
static inline void fab_calendar_add(struct fab_calendar *c, struct fab_entry *e)
{
	const uint64_t differs = (e->due_ns ^ c->now_ns) | 1;
	const unsigned int wheel = (63u - (unsigned int)__builtin_clzll(differs)) / FAB_CALENDAR_BITS;
	const unsigned int slot = e->due_ns >> (wheel * FAB_CALENDAR_BITS) & (FAB_CALENDAR_SLOTS - 1);

	/* what was there last time is stale unless its bit is set */
	e->next = c->slots[wheel] >> slot & 1 ? c->slot[wheel][slot] : NULL;
	c->slot[wheel][slot] = e;
	c->slots[wheel] |= 1ull << slot;
	c->wheels |= 1u << wheel;
}

/**
 * fab_calendar_next() - what is due first does not wait any more, and it is that time
 * Return: the first of it, or NULL: nothing waits.
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
