/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traps of one port: a bounded queue that repeats each trap until the subnet
 * manager represses it (IBTA volume 1, 13.4.9 and 14.2.2). PortInfo.SubnetTimeOut is the
 * least time between any two traps of the port (14.2.5.6): whoever causes the events, a new
 * one or one whose trap was repressed, the manager has no more than that. Time is passed in.
 */
#ifndef OHCA_ENGINE_TRAP_H
#define OHCA_ENGINE_TRAP_H

#include "ib/smp.h"

#define OHCA_TRAP_SLOTS		8u
/* Of these, at most so many for violations, which anybody on the subnet can cause: the others
 * are for what the node has to tell of itself. */
#define OHCA_TRAP_SECURITY	6u
/* A trap that nobody represses is given up after this many repeats. */
#define OHCA_TRAP_MAX_REPEATS	60u
/* A trap is not repeated sooner, however short SubnetTimeOut is. */
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
 * @quiet_ns: until then no trap is sent
 */
struct ohca_trap_queue {
	struct ohca_trap t[OHCA_TRAP_SLOTS];
	uint64_t next_tid;
	uint64_t quiet_ns;
	uint64_t dropped;
	uint64_t repressed;
};

void ohca_trap_init(struct ohca_trap_queue *q, uint64_t tid);

/** ohca_trap_clear() - forget all, as the port went down; the rate stays bounded */
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
 * @timeout_ns: PortInfo.SubnetTimeOut: no other trap follows sooner. The trap itself is
 *	repeated after it, but not before OHCA_TRAP_MIN_PERIOD_NS
 * Return: the trap that has been due longest (already rescheduled), or NULL if there is none
 * or it is too early. Call until NULL.
 */
const struct ohca_trap *ohca_trap_due(struct ohca_trap_queue *q, uint64_t now_ns,
				      uint64_t timeout_ns);

/** ohca_trap_deadline() - when ohca_trap_due() has something, UINT64_MAX if never */
uint64_t ohca_trap_deadline(const struct ohca_trap_queue *q);

#endif
