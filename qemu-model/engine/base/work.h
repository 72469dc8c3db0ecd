/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Units of work, and limits of the work in a call.
 *
 * While the engine runs, other threads of its host wait, perhaps with a lock that stops a whole
 * virtual machine. So each call of an owner function ends after a bounded amount of work, whatever
 * guests and peers do. The unit of work is the time to copy one byte from or to guest memory, about
 * 0.4 ns. A copy costs its bytes, other work costs the units below. Work whose size a guest or a
 * peer chooses (a list, a queue, a group) is done in steps. A step ends when the allowance of its
 * call is used up, and a later call continues.
 *
 * ohca_poll() gives each of its parts its own allowance, so no part can use that of another:
 * OHCA_WORK_DOORBELLS to doorbells, OHCA_WORK_PKT for each unit of its budget to packets, WQEs and
 * timers, OHCA_CMD_WORK to commands, OHCA_WORK_EVENTS to moderated events of CQs, OHCA_SWEEP_WORK
 * to objects of ended lives. Looped packets may use half of the allowance of packets, and each kind
 * of doorbell has its share. A part may exceed its allowance by its last action, by at most
 * OHCA_WORK_ONE.
 */
#ifndef OHCA_BASE_WORK_H
#define OHCA_BASE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/state.h"
#include "engine/engine.h"

/* Costs of actions, beside the bytes that they copy. */
#define OHCA_WORK_LOOK		32u	/* to read a word that another process writes */
#define OHCA_WORK_STEP		64u	/* one entry of a walk, or a doorbell */
#define OHCA_WORK_WQE		512u	/* a packet, a WQE, a list operation, with its CQE */
#define OHCA_WORK_CMD		2048u	/* a command */
#define OHCA_WORK_OBJECT	512u	/* to free an object, without its memory */
#define OHCA_WORK_FREED		16u	/* bytes of memory freed in one unit of work */

/* Allowances. */
#define OHCA_WORK_DOORBELLS	(64u << 10)	/* doorbells and list operations in a poll */
#define OHCA_WORK_EQS		(32u << 10)	/* the part of OHCA_WORK_DOORBELLS for EQs */
#define OHCA_WORK_EVENTS	(32u << 10)	/* moderated events in a poll */
#define OHCA_WORK_PKT		8192u	/* for a unit of ohca_poll()'s budget: the largest packet */
#define OHCA_CMD_WORK		(256u << 10)	/* commands in a poll, about 100 us */
#define OHCA_SWEEP_WORK		(128u << 10)	/* the sweep in a poll, about 50 us */
#define OHCA_FENCE_WORK		(512u << 10)	/* a reset, whatever the driver has created */
#define OHCA_RX_WORK		(512u << 10)	/* frames between two polls */
#define OHCA_WORK_ONE		(128u << 10)	/* the largest action that is not done in steps */

/** OHCA_POLL_WORK() - what ohca_poll() costs at most with @budget */
#define OHCA_POLL_WORK(budget)							\
	(OHCA_WORK_DOORBELLS + (uint64_t)(budget) * OHCA_WORK_PKT + OHCA_CMD_WORK +	\
	 OHCA_WORK_EVENTS + OHCA_SWEEP_WORK + 5u * OHCA_WORK_ONE)

/**
 * ohca_work_begin() - begin a part of a call; owner
 * @allowance: units of work that the part may cost
 */
static inline void ohca_work_begin(ohca_engine *e, uint64_t allowance)
{
	e->work_end = e->work + allowance;
}

/** ohca_work_left() - whether the part may continue; owner */
static inline bool ohca_work_left(const ohca_engine *e)
{
	return e->work < e->work_end;
}

/**
 * ohca_work() - count work; owner
 * @n: units
 *
 * The functions of guestmem.h count what they copy themselves.
 */
static inline void ohca_work(ohca_engine *e, uint64_t n)
{
	e->work += n;
}

/** ohca_work_free() - count the work to free @n bytes; owner */
static inline void ohca_work_free(ohca_engine *e, uint64_t n)
{
	e->work += OHCA_WORK_STEP + n / OHCA_WORK_FREED;
}

/** struct ohca_attempt - counts before an attempt that may be replaced by another way */
struct ohca_attempt {
	uint64_t work, dma_errors;
};

/** ohca_attempt() - note the counts before an attempt; owner */
static inline struct ohca_attempt ohca_attempt(const ohca_engine *e)
{
	return (struct ohca_attempt){ e->work, e->cnt[OHCA_CNT_DMA_ERR] };
}

/** ohca_attempt_failed() - restore the counts, since the other way counts again; owner */
static inline void ohca_attempt_failed(ohca_engine *e, const struct ohca_attempt *a)
{
	e->work = a->work;
	e->cnt[OHCA_CNT_DMA_ERR] = a->dma_errors;
}

#endif /* OHCA_BASE_WORK_H */
