/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Progress of the command in execution, and its limit of work in this step. */
#ifndef OHCA_BASE_JOB_H
#define OHCA_BASE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/guestmem.h"
#include "engine/engine.h"

/**
 * ohca_work() - @bytes were moved for a command. Return: whether it may go on in this step
 *
 * Doorbells, frames and the host's other threads wait while the engine runs, so a run of
 * the admin queue moves at most OHCA_CMD_WORK and the current unit: some 100 us.
 * Commands whose work depends on a size that the guest chooses can stop here. Two lists
 * are freed in one step: the page list that REREG_MR replaces, and a list that was refused.
 */
#define ohca_work(e, bytes)	((e)->work -= (e)->work < (bytes) ? (e)->work : (uint32_t)(bytes))
#define OHCA_CMD_WORK	(256u << 10)

/**
 * struct ohca_job - progress of the command in execution; all zero: not begun
 * @walk: its page list; @buf: the list, once @loaded
 * @begun: @at and @blank are valid: the next index to copy, of each ring, and the next slot
 *	to make invalid
 */
struct ohca_job {
	struct ohca_walk walk;
	struct ohca_pages buf;
	bool loaded, begun;
	uint32_t at[2], blank;
};

/* Reset the job, and free what it has. */
void ohca_job_end(ohca_engine *e);

#endif /* OHCA_BASE_JOB_H */
