/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ohca-liar: processes that make invalid calls of uverbs. Each process calls verbs at random. The
 * calls of libibverbs to the kernel are changed, and repeated; random calls are added.
 */
#ifndef LIAR_H
#define LIAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct shared - counters that the processes of one run share
 * @calls: of uverbs: ioctl, write, mmap
 * @writes: of these, by write()
 * @lies: calls that were changed, or not from libibverbs
 * @taken: lies that the kernel did not refuse
 * @crashed: processes that ended by a lie, because libibverbs or the provider trusted its result
 */
struct shared {
	_Atomic uint64_t calls, writes, lies, taken, crashed;
};

extern struct shared *shared;

/** liar_begin - to be called first: the random numbers depend only on @seed */
void liar_begin(uint64_t seed);

/** rnd - next random number below @n, which is not 0 */
uint64_t rnd(uint64_t n);

/** odd_value - mostly a boundary value, an address or a handle */
uint64_t odd_value(void);

/** lie_again - repeats one of the last calls with changes, or makes a random call */
void lie_again(void);

/** lie_about - from now on, one of @n calls of libibverbs is changed; 0: none */
void lie_about(unsigned int n);

/** verbs_run - calls @steps random verbs, and returns without destroying the objects */
void verbs_run(unsigned int steps);

#endif
