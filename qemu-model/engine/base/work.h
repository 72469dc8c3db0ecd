/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The currency of work, and the bounds of a call in it.
 *
 * While the engine runs, its host's other threads wait, perhaps with a lock that stops a whole
 * virtual machine. So each call of an owner function ends after a bounded amount of work, whatever
 * guests and peers do. All work counts in one unit, the time that a byte takes to be moved from or
 * to guest memory, some 0.4 ns: what is copied costs its bytes, everything else a number of units
 * below. Work whose size somebody else chooses (a list, a queue, a group) is done in steps: it ends
 * with the allowance of its call, and what is left is marked to be continued.
 *
 * ohca_poll() gives each of its parts an allowance of its own, so that none of them can use up
 * another's: OHCA_WORK_DOORBELLS to doorbells, OHCA_WORK_PKT for each unit of its budget to
 * packets, WQEs and timers, OHCA_CMD_WORK to commands, OHCA_WORK_EVENTS to moderated events of CQs,
 * OHCA_SWEEP_WORK to the objects that a reset has ended.
 * Looped packets may use half of what packets have, and each kind of doorbells has its share. A
 * part may exceed its allowance by the last thing that it does, at most OHCA_WORK_ONE.
 */
#ifndef OHCA_BASE_WORK_H
#define OHCA_BASE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/state.h"
#include "engine/engine.h"

/* What a step costs beside the bytes that it copies. */
#define OHCA_WORK_LOOK		32u	/* of a word that another process writes */
#define OHCA_WORK_STEP		64u	/* of a walk, or a doorbell */
#define OHCA_WORK_WQE		512u	/* a packet, a WQE, a list operation, with its CQE */
#define OHCA_WORK_CMD		2048u	/* a command */
#define OHCA_WORK_OBJECT	512u	/* an object is freed, beside what it has */
#define OHCA_WORK_FREED		16u	/* so many bytes are freed in one of it */

/* Allowances. */
#define OHCA_WORK_DOORBELLS	(64u << 10)	/* doorbells and list operations in a poll */
#define OHCA_WORK_EQS		(32u << 10)	/* the part of it that EQs may use */
#define OHCA_WORK_EVENTS	(32u << 10)	/* moderated events in a poll */
#define OHCA_WORK_PKT		8192u	/* for a unit of ohca_poll()'s budget: the largest packet */
#define OHCA_CMD_WORK		(256u << 10)	/* commands in a poll, some 100 us */
#define OHCA_SWEEP_WORK		(128u << 10)	/* of what a life has left in a poll, some 50 us */
#define OHCA_FENCE_WORK		(512u << 10)	/* the end of a life, whatever it has */
#define OHCA_RX_WORK		(512u << 10)	/* frames between two polls */
#define OHCA_WORK_ONE		(128u << 10)	/* the largest thing that is not done in steps */

/** OHCA_POLL_WORK() - what ohca_poll() costs at most with @budget */
#define OHCA_POLL_WORK(budget)							\
	(OHCA_WORK_DOORBELLS + (uint64_t)(budget) * OHCA_WORK_PKT + OHCA_CMD_WORK +	\
	 OHCA_WORK_EVENTS + OHCA_SWEEP_WORK + 5u * OHCA_WORK_ONE)

/**
 * ohca_work_begin() - a part of a call begins; owner
 * @allowance: what it may cost
 */
static inline void ohca_work_begin(ohca_engine *e, uint64_t allowance)
{
	e->work_end = e->work + allowance;
}

/** ohca_work_left() - whether the part may go on; owner */
static inline bool ohca_work_left(const ohca_engine *e)
{
	return e->work < e->work_end;
}

/**
 * ohca_work() - work is done; owner
 * @n: its units
 *
 * Copying guest memory (guestmem.h) counts itself.
 */
static inline void ohca_work(ohca_engine *e, uint64_t n)
{
	e->work += n;
}

/** ohca_work_free() - memory of @n bytes is freed; owner */
static inline void ohca_work_free(ohca_engine *e, uint64_t n)
{
	e->work += OHCA_WORK_STEP + n / OHCA_WORK_FREED;
}

/** struct ohca_attempt - what is counted before something that may have to be done another way */
struct ohca_attempt {
	uint64_t work, dma_errors;
};

/** ohca_attempt() - something is tried; owner */
static inline struct ohca_attempt ohca_attempt(const ohca_engine *e)
{
	return (struct ohca_attempt){ e->work, e->cnt[OHCA_CNT_DMA_ERR] };
}

/** ohca_attempt_failed() - it counts only when it is done the other way; owner */
static inline void ohca_attempt_failed(ohca_engine *e, const struct ohca_attempt *a)
{
	e->work = a->work;
	e->cnt[OHCA_CNT_DMA_ERR] = a->dma_errors;
}

#endif /* OHCA_BASE_WORK_H */
