/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How far the command in execution is, and how much it may still move in this step. */
#ifndef OHCA_BASE_JOB_H
#define OHCA_BASE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/guestmem.h"
#include "engine/engine.h"

/**
 * ohca_work() - @bytes were moved for a command. Return: whether it may go on in this step
 *
 * Who holds the engine keeps doorbells, frames and the machine's own threads waiting, so a run
 * of the admin queue moves no more than OHCA_CMD_WORK and what it is in the middle of: some
 * 100 us. Whatever the guest gives a size is moved by commands that can stop here. Two things are
 * not: the list of pages that REREG_MR replaces, and one that was refused, go back in one step.
 */
#define ohca_work(e, bytes)	((e)->work -= (e)->work < (bytes) ? (e)->work : (uint32_t)(bytes))
#define OHCA_CMD_WORK	(256u << 10)

/**
 * struct ohca_job - how far the command that is being executed is; all zero: not begun
 * @walk: its page list; @buf: the list, once @loaded
 * @begun: @at and @blank say where it goes on: the next index to copy, of each ring, and the
 *	next slot to make invalid
 */
struct ohca_job {
	struct ohca_walk walk;
	struct ohca_pages buf;
	bool loaded, begun;
	uint32_t at[2], blank;
};

/* Forget the job, and give back what it has. */
void ohca_job_end(ohca_engine *e);

#endif /* OHCA_BASE_JOB_H */
