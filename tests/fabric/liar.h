/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A process that lies to a fabric; see test_liar.c. */
#ifndef LIAR_H
#define LIAR_H

#include <stdint.h>

/**
 * liar_run() - lies to the fabric at @path for some time, by @seed
 * @count: number of lies, which this adds to; shared with other processes
 */
void liar_run(const char *path, uint64_t seed, uint64_t *count);

#endif
