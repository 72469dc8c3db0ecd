/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attacks on the work of a poll. host_attack() prints the longest poll of each. */
#ifndef ATTACK_H
#define ATTACK_H

#include "engine/base/work.h"
#include "rig.h"

#define BUDGET		64u

/* The longest poll is measured from here on. */
static inline void begin(struct host *h)
{
	memset(&h->most, 0, sizeof(h->most));
}

/* Polls until nothing is left. Return: the number of polls. */
static inline unsigned int work_off(struct host *h)
{
	unsigned int n = 0;

	while (host_poll(h, BUDGET))
		assert_true(++n < 1000000);
	return n;
}

/* An attack in which all polls must have work to do. */
static inline void note(struct host *h, const char *name)
{
	host_attack(h, name, OHCA_POLL_WORK(BUDGET));
}

#endif
