/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traps of one port: a bounded queue that repeats each trap until the subnet
 * manager represses it (IBTA volume 1, 13.4.9 and 14.2.2). Time is passed in.
 */
#ifndef OHCA_ENGINE_TRAP_H
#define OHCA_ENGINE_TRAP_H

#include "../ib/smp.h"

#define OHCA_TRAP_SLOTS		8u
/* A trap that nobody represses is given up after this many repeats. */
#define OHCA_TRAP_MAX_REPEATS	60u
#define OHCA_TRAP_MIN_PERIOD_NS	1000000000ull

/** struct ohca_trap - one trap that waits for TrapRepress */
struct ohca_trap {
	bool used;
	uint32_t sent;		/* times it was sent */
	uint64_t tid;
	uint64_t next_ns;	/* when to send it (again) */
	struct ib_notice n;
};

/**
 * struct ohca_trap_queue - the traps of one port
 * @dropped: traps lost because all slots were taken
 */
struct ohca_trap_queue {
	struct ohca_trap t[OHCA_TRAP_SLOTS];
	uint64_t next_tid;
	uint64_t dropped;
	uint64_t repressed;
};

void ohca_trap_init(struct ohca_trap_queue *q, uint64_t tid);

/** ohca_trap_clear() - forget all, as the port went down */
void ohca_trap_clear(struct ohca_trap_queue *q);

/**
 * ohca_trap_post() - queue a trap to be sent at @now_ns
 *
 * If one with the same number and details waits already, its count goes up
 * instead. Without a free slot it is dropped and counted.
 */
void ohca_trap_post(struct ohca_trap_queue *q, const struct ib_notice *n, uint64_t now_ns);

/**
 * ohca_trap_repress() - a TrapRepress arrived
 * @tid: its transaction ID; @n: its Notice
 * Return: true if a trap matched (same number, and same @tid or details) and is gone.
 */
bool ohca_trap_repress(struct ohca_trap_queue *q, uint64_t tid, const struct ib_notice *n);

/** ohca_trap_first() - the oldest waiting trap, or NULL */
const struct ohca_trap *ohca_trap_first(const struct ohca_trap_queue *q);

/**
 * ohca_trap_due() - the next trap to send now
 * @period_ns: time between repeats; at least OHCA_TRAP_MIN_PERIOD_NS is used
 * Return: a trap (already rescheduled), or NULL when none is due. Call until NULL.
 */
const struct ohca_trap *ohca_trap_due(struct ohca_trap_queue *q, uint64_t now_ns,
				      uint64_t period_ns);

/** ohca_trap_deadline() - when ohca_trap_due() has something, UINT64_MAX if never */
uint64_t ohca_trap_deadline(const struct ohca_trap_queue *q);

#endif
