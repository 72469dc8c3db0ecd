/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Progress of the command in execution: what it has done in earlier steps (work.h). */
#ifndef OHCA_BASE_JOB_H
#define OHCA_BASE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/guestmem.h"
#include "engine/base/list.h"
#include "engine/engine.h"

/**
 * struct ohca_job - progress of the command in execution; all zero: not begun
 * @walk: its page list; @buf: the list, once @loaded
 * @list: of a walk along a list that only commands change: where it is
 * @ending: executed, with result @rc and @syndrome; what it leaves is freed before the answer
 * @begun: @at and @blank are valid: the next index to copy, of each ring, and the next slot
 *	to make invalid
 */
struct ohca_job {
	struct ohca_walk walk;
	struct ohca_pages buf;
	bool loaded, begun, ending;
	int rc;
	uint16_t syndrome;
	struct ohca_hw_acqe rsp;
	uint32_t at[2], blank;
	struct ohca_list *list;
};

/* Reset the job, and free what it has. */
void ohca_job_end(ohca_engine *e);
/* The same, a step of it. Return: it is done */
bool ohca_job_end_some(ohca_engine *e);

#endif /* OHCA_BASE_JOB_H */
