/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rounds of programs that run for a while: the sizes of rounds, and the progress that tests read
 * meanwhile.
 */
#ifndef ROUNDS_H
#define ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#define ROUND_MOST	(64u << 20)	/* bytes of a round, at most */
#define ROUND_SIZES	14u
#define ROUND_LATE_MS	90000		/* a longer round is an error */

/** round_sizes - bytes, from 1 to %ROUND_MOST, for a program that uses each size */
extern const uint32_t round_sizes[ROUND_SIZES];

/**
 * round_size - bytes of a round with a time limit, 2 MiB at most; all magnitudes are equally likely
 */
uint32_t round_size(uint64_t *dice);

/**
 * rounds_tell - writes the progress of a program to /tmp/NAME.NUMBER
 * @rounds: verified rounds
 * @lost: connections on a rail that failed, @healed: that were connected again
 */
void rounds_tell(const char *name, int number, uint32_t rounds, uint64_t lost, uint64_t healed);

/** rounds_go_on - whether @end (ms_now()) has not passed, and /tmp/NAME.stop does not exist */
bool rounds_go_on(const char *name, int64_t end);

#endif
