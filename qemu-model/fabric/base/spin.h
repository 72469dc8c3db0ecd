/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether a thread that has nothing to do sleeps at once, or waits awake for a while: the window.
 *
 * A wake-up takes microseconds, so it pays to wait awake for work that comes within
 * FAB_SPIN_MAX_NS, as long as nobody else wants the processor. The window grows each time that work
 * has come between its end and that time, and is halved each time that it came later. So a thread
 * without work sleeps at once.
 *
 * The kernel says whether others want the processor: for how long this thread was ready to run and
 * did not. A wake-up takes some of that on an idle machine, too, so FAB_SPIN_WAKE_NS of each do not
 * count. If more than FAB_SPIN_BUSY percent of the time between two looks is left, the
 * processors are busy, and the window is 0. They count as free again when fab_spin.patience looks in a
 * row have found them so. What a thread that sleeps at once has found may not hold for one that waits
 * awake: when they are found busy once more the patience doubles, until they were free for as long.
 *
 * This has no clock and calls nothing.
 */
#ifndef OHCA_FABRIC_SPIN_H
#define OHCA_FABRIC_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define FAB_SPIN_AUTO		UINT32_MAX	/* as fab_spin_init()'s @us: by what is measured */
#define FAB_SPIN_MAX_NS		50000u		/* the widest window */
#define FAB_SPIN_MIN_NS		6250u		/* the narrowest but 0 */
#define FAB_SPIN_LOOK_NS	100000000u	/* between two looks */
#define FAB_SPIN_WAKE_NS	5000u
#define FAB_SPIN_BUSY		1u
#define FAB_SPIN_PATIENCE	32u		/* the least */
#define FAB_SPIN_PATIENCE_MAX	8192u

/**
 * struct fab_spin_look - what the kernel has counted for the thread since it began
 * @delay_ns: ready to run, and not running
 * @sleeps: times that it gave up the processor (ru_nvcsw)
 */
struct fab_spin_look {
	uint64_t delay_ns;
	uint64_t sleeps;
};

/**
 * struct fab_spin - when a thread sleeps
 * @automatic: by what is measured; else @window_ns stays
 * @busy: others want the processors, as far as is known
 * @window_ns: how long to wait awake
 * @delay: in tenths of a percent of the time: what the last look has left of it
 * @patience: looks
 * @calm: looks in a row that have found the processors free, up to @patience
 * @looked_ns: time of the last look; 0: there was none
 * @last: what that has found
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
 * fab_spin_init() - no work has come yet
 * @us: the window for good, or FAB_SPIN_AUTO
 */
void fab_spin_init(struct fab_spin *s, uint32_t us);

/** fab_spin_idled() - work has come, @ns after there was none */
void fab_spin_idled(struct fab_spin *s, uint64_t ns);

/** fab_spin_due() - whether it is time for fab_spin_look(); @now_ns: of any clock, not 0 */
bool fab_spin_due(const struct fab_spin *s, uint64_t now_ns);

/**
 * fab_spin_look() - the kernel was asked
 * @now_ns: as above
 * @look: its answer
 *
 * Return: whether @s->busy has changed.
 */
bool fab_spin_look(struct fab_spin *s, uint64_t now_ns, const struct fab_spin_look *look);

#endif
