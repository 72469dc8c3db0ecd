/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ohca-liar: processes that lie to uverbs. Each calls verbs at random; what libibverbs hands to
 * the kernel is changed on its way, handed over again, and joined by calls of its own making.
 */
#ifndef LIAR_H
#define LIAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct shared - what the processes of one run count together
 * @calls: of uverbs: ioctl, write, mmap
 * @writes: of these, by write()
 * @lies: calls that were changed, or not libibverbs' own
 * @taken: lies that the kernel did not refuse
 * @crashed: processes that a lie has ended, since libibverbs or the provider believed it
 */
struct shared {
	_Atomic uint64_t calls, writes, lies, taken, crashed;
};

extern struct shared *shared;

/** liar_begin - before the first call: the numbers that follow depend on @seed alone */
void liar_begin(uint64_t seed);

/** rnd - next random number below @n, which is not 0 */
uint64_t rnd(uint64_t n);

/** odd_value - a number that is an edge of something, an address or a handle more often than not */
uint64_t odd_value(void);

/** lie_again - hands one of the last calls over again, changed; or makes one up */
void lie_again(void);

/** lie_about - one of @n calls of libibverbs is changed; 0: none */
void lie_about(unsigned int n);

/** verbs_run - @steps random verbs, then returns with whatever there is of objects */
void verbs_run(unsigned int steps);

#endif
