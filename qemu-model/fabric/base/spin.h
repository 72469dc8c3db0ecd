/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides for how long a thread without work waits awake before it sleeps: the window.
 *
 * A wake-up takes microseconds, so it pays to wait awake for work that arrives within
 * FAB_SPIN_MAX_NS, as long as no other thread wants the processor. The window grows each time that
 * work arrives between its end and that time, and is halved each time that work arrives later. It
 * is never less than FAB_SPIN_LEAST_NS, on busy processors either: a guest often writes several
 * doorbells one after the other, and each that finds the thread asleep costs a wake-up.
 *
 * The processors are busy if more threads are runnable than there are processors, in FAB_SPIN_BUSY
 * of the last 8 looks. A single look may find threads that run for a moment. The thread's own
 * delays do not say this: a thread of a high priority has none, and delays others. The processors
 * are free again when fab_spin.patience looks in a row find them free. A thread that sleeps soon
 * may find them free and then make them busy by waiting awake: each time that they become busy
 * again the patience doubles, until they were free for as long.
 *
 * This reads no clock and calls nothing.
 */
#ifndef OHCA_FABRIC_SPIN_H
#define OHCA_FABRIC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define FAB_SPIN_AUTO		UINT32_MAX	/* @us of fab_spin_init(): measure */
#define FAB_SPIN_MAX_NS		50000u		/* the widest window */
#define FAB_SPIN_MIN_NS		6250u		/* the narrowest that has grown */
#define FAB_SPIN_LEAST_NS	1000u		/* the narrowest */
#define FAB_SPIN_LOOK_NS	10000000u	/* between two looks */
#define FAB_SPIN_BUSY		3u		/* of the last 8 looks */
#define FAB_SPIN_PATIENCE	256u		/* the smallest */
#define FAB_SPIN_PATIENCE_MAX	65536u

/**
 * struct fab_spin - state of the decision
 * @automatic: @window_ns is measured; else it is constant
 * @busy: others want the processors, as far as is known
 * @found: what the last 8 looks have found, a bit each, the last one in bit 0; 1: more threads than
 *	processors
 * @window_ns: how long to wait awake
 * @processors: how many there are
 * @runnable: threads of the last look
 * @patience: looks that must find the processors free
 * @calm: looks in a row that have found the processors free, up to @patience
 * @looked_ns: time of the last look; 0: there was none
 */
struct fab_spin {
	bool automatic, busy;
	uint8_t found;
	uint32_t window_ns;
	uint32_t processors, runnable;
	uint32_t patience, calm;
	uint64_t looked_ns;
};

/**
 * fab_spin_init() - initialise @s; no work has arrived yet
 * @us: constant window in microseconds, or FAB_SPIN_AUTO
 * @processors: how many the thread may use
 */
void fab_spin_init(struct fab_spin *s, uint32_t us, uint32_t processors);

/** fab_spin_idled() - work has arrived, after @ns without work */
void fab_spin_idled(struct fab_spin *s, uint64_t ns);

/** fab_spin_due() - whether it is time for fab_spin_look(); @now_ns: of any clock, not 0 */
bool fab_spin_due(const struct fab_spin *s, uint64_t now_ns);

/**
 * fab_spin_look() - process the kernel's count
 * @now_ns: as above
 * @runnable: threads that want a processor, with the caller
 *
 * Return: whether @s->busy has changed.
 */
bool fab_spin_look(struct fab_spin *s, uint64_t now_ns, uint32_t runnable);

#endif
