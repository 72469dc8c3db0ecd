/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Decides whether a thread without work sleeps at once, or waits awake for a while: the window.
 *
 * A wake-up takes microseconds, so it pays to wait awake for work that arrives within
 * FAB_SPIN_MAX_NS, as long as no other thread wants the processor. The window grows each time that
 * work arrives between its end and that time, and is halved each time that work arrives later. So a
 * thread without work sleeps at once.
 *
 * The kernel counts how long this thread was ready to run and did not run: then others want the
 * processor. A wake-up costs some of that on an idle machine, too, so FAB_SPIN_WAKE_NS of each do
 * not count. If the rest is more than FAB_SPIN_BUSY percent of the time between two looks, the
 * processors are busy, and the window is 0. They are free again when fab_spin.patience looks in a
 * row find them free. A thread that sleeps at once may find them free and then make them busy by
 * waiting awake: each time that they become busy again the patience doubles, until they were free
 * for as long.
 *
 * This reads no clock and calls nothing.
 */
#ifndef OHCA_FABRIC_SPIN_H
#define OHCA_FABRIC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define FAB_SPIN_AUTO		UINT32_MAX	/* @us of fab_spin_init(): measure */
#define FAB_SPIN_MAX_NS		50000u		/* the widest window */
#define FAB_SPIN_MIN_NS		6250u		/* the narrowest but 0 */
#define FAB_SPIN_LOOK_NS	100000000u	/* between two looks */
#define FAB_SPIN_WAKE_NS	5000u
#define FAB_SPIN_BUSY		1u
#define FAB_SPIN_PATIENCE	32u		/* the smallest */
#define FAB_SPIN_PATIENCE_MAX	8192u

/**
 * struct fab_spin_look - the kernel's counts for the thread since it began
 * @delay_ns: time that it was ready to run, and not running
 * @sleeps: times that it gave up the processor (ru_nvcsw)
 */
struct fab_spin_look {
	uint64_t delay_ns;
	uint64_t sleeps;
};

/**
 * struct fab_spin - state of the decision
 * @automatic: @window_ns is measured; else it is constant
 * @busy: others want the processors, as far as is known
 * @window_ns: how long to wait awake
 * @delay: delay of the last look that sleeps do not explain, in tenths of a percent of the time
 * @patience: looks that must find the processors free
 * @calm: looks in a row that have found the processors free, up to @patience
 * @looked_ns: time of the last look; 0: there was none
 * @last: counts of the last look
 */
struct fab_spin {
	bool automatic, busy;
	uint32_t window_ns;
	uint32_t delay;
	uint32_t patience, calm;
	uint64_t looked_ns;
	struct fab_spin_look last;
};

/**
 * fab_spin_init() - initialise @s; no work has arrived yet
 * @us: constant window in microseconds, or FAB_SPIN_AUTO
 */
void fab_spin_init(struct fab_spin *s, uint32_t us);

/** fab_spin_idled() - work has arrived, after @ns without work */
void fab_spin_idled(struct fab_spin *s, uint64_t ns);

/** fab_spin_due() - whether it is time for fab_spin_look(); @now_ns: of any clock, not 0 */
bool fab_spin_due(const struct fab_spin *s, uint64_t now_ns);

/**
 * fab_spin_look() - process the kernel's counts
 * @now_ns: as above
 * @look: the counts
 *
 * Return: whether @s->busy has changed.
 */
bool fab_spin_look(struct fab_spin *s, uint64_t now_ns, const struct fab_spin_look *look);

#endif
