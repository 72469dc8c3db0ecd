/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Progress of a command that is executed in several steps (work.h). */
#ifndef OHCA_BASE_JOB_H
#define OHCA_BASE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/guestmem.h"
#include "engine/base/list.h"
#include "engine/engine.h"

/**
 * struct ohca_job - progress of the command in execution; all zero: not begun
 * @walk: the page list that is being loaded
 * @buf: a page list that ohca_job_end() frees; for OHCA_CMD_BUF() the new buffer, once @loaded
 * @begun: @at and @blank are valid
 * @ending: the command was executed, with result @rc, @syndrome and @rsp; what it has left in the
 *	job is freed before the answer
 * @at: next index to copy, of each ring
 * @blank: next slot to make invalid; RESIZE_SRQ: next list operation whose result is to be copied
 * @list: position in a walk along a list that only commands change
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

/* Free what the job has allocated, and clear it. */
void ohca_job_end(ohca_engine *e);
/* The same, as far as the allowance of work covers. Return: true if it is done */
bool ohca_job_end_some(ohca_engine *e);

#endif /* OHCA_BASE_JOB_H */
