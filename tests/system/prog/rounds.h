/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rounds of programs that tests run for a while: how much each of them moves, and what tests read
 * of them meanwhile.
 */
#ifndef ROUNDS_H
#define ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#define ROUND_MOST	(64u << 20)	/* bytes of a round, at most */
#define ROUND_SIZES	14u
#define ROUND_LATE_MS	90000		/* a round that takes longer hangs */

/** round_sizes - bytes, from 1 to %ROUND_MOST, for a program that takes each size */
extern const uint32_t round_sizes[ROUND_SIZES];

/** round_size - bytes of a round while time runs, 2 MiB at most; short ones are as many as long */
uint32_t round_size(uint64_t *dice);

/**
 * rounds_tell - what tests read in the file /tmp/NAME.NUMBER while a program runs
 * @rounds: that were verified
 * @lost: connections on a rail that failed, @healed: that came back
 */
void rounds_tell(const char *name, int number, uint32_t rounds, uint64_t lost, uint64_t healed);

/** rounds_go_on - whether @end has not come (ms_now()), and nobody made /tmp/NAME.stop */
bool rounds_go_on(const char *name, int64_t end);

#endif
