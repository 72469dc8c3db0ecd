/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A process that lies to a fabric; see test_liar.c. */
#ifndef LIAR_H
#define LIAR_H

#include <stdint.h>

/**
 * liar_run() - lie to the fabric at @path for some time, as @seed says
 * @count: lies, added to; shared with other processes
 */
void liar_run(const char *path, uint64_t seed, uint64_t *count);

#endif
