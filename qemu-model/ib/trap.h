/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traps of one port with a LID, an HCA's port or a switch's port 0: a bounded queue that
 * repeats each trap until the subnet manager represses it (IBTA volume 1, 13.4.9 and 14.2.2).
 * PortInfo.SubnetTimeOut is the least time between any two traps of the port (14.2.5.6):
 * it bounds the traps that the manager receives, whatever causes the events, new ones and
 * ones whose trap was repressed. Time is passed in; the slots are the caller's. Owner only.
 */
#ifndef OHCA_IB_TRAP_H
#define OHCA_IB_TRAP_H

#include "smp.h"

/* A trap that is not repressed is dropped after this many repeats. */
#define IB_TRAP_MAX_REPEATS	60u
/* A trap is not repeated sooner, however short SubnetTimeOut is. */
#define IB_TRAP_MIN_PERIOD_NS	1000000000ull

/**
 * struct ib_trap - one trap that waits for TrapRepress
 * @used: the slot has one
 * @sent: times it was sent under @tid
 * @tid: transaction ID, which repeats keep
 * @next_ns: when to send it (again)
 * @n: what it says
 */
struct ib_trap {
	bool used;
	uint32_t sent;
	uint64_t tid;
	uint64_t next_ns;
	struct ib_notice n;
};

/**
 * struct ib_trap_room - how many traps may wait
 * @slots: of all kinds
 * @security: of these, at most so many for violations, which anybody on the subnet can cause:
 *	the others are for what the node has to tell of itself
 * @each: of these, at most so many with one trap number, so that one kind of violation leaves
 *	room for another
 */
struct ib_trap_room {
	uint8_t slots;
	uint8_t security;
	uint8_t each;
};

/**
 * struct ib_trap_queue - the traps of one port
 * @t: [@room.slots], the caller's
 * @next_tid: transaction ID of the next trap
 * @next_ns: the earliest @next_ns of the slots that are used; UINT64_MAX: none is
 * @quiet_ns: until then no trap is sent
 * @dropped: traps lost because no slot was free for them, or given up
 * @repressed: traps that the subnet manager has repressed
 */
struct ib_trap_queue {
	struct ib_trap *t;
	struct ib_trap_room room;
	uint64_t next_tid;
	uint64_t next_ns;
	uint64_t quiet_ns;
	uint64_t dropped;
	uint64_t repressed;
};

/**
 * ib_trap_init() - a queue without traps
 * @slots: @room->slots of them; they have to live as long as the queue
 * @tid: first transaction ID; 0: 1
 */
void ib_trap_init(struct ib_trap_queue *q, struct ib_trap *slots, const struct ib_trap_room *room,
		  uint64_t tid);

/** ib_trap_clear() - forget all, as the port went down; the rate stays bounded */
void ib_trap_clear(struct ib_trap_queue *q);

/**
 * ib_trap_post() - queue a trap to be sent at @now_ns
 * @n: what happened; a copy is kept
 *
 * If one with the same number and details waits already, its count goes up instead; of trap 128,
 * whose details are the LID of a switch, one waits at a time, with the LID that is true. If that
 * one was sent already and is no violation, what happened is news to the manager: the trap is due
 * again, with a transaction ID of its own. Without a free slot it is dropped and counted.
 *
 * Return: true if ib_trap_due() has more to send than before.
 */
bool ib_trap_post(struct ib_trap_queue *q, const struct ib_notice *n, uint64_t now_ns);

/**
 * ib_trap_repress() - a TrapRepress or a Set(Notice) arrived
 * @tid: the transaction ID of the TrapRepress, which is that of the trap (13.4.9); 0: of
 *	Set(Notice), which names the trap by its details (14.2.5.1)
 * @n: its Notice
 *
 * The manager that represses a trap by an older transaction ID than it has now does not know
 * yet of what came after, and it stays.
 *
 * Return: true if a trap matched (same number, and same @tid or details) and is gone.
 */
bool ib_trap_repress(struct ib_trap_queue *q, uint64_t tid, const struct ib_notice *n);

/** ib_trap_first() - the oldest waiting trap, or NULL */
const struct ib_trap *ib_trap_first(const struct ib_trap_queue *q);

/**
 * ib_trap_due() - the next trap to send now
 * @timeout_ns: PortInfo.SubnetTimeOut: no other trap follows sooner. The trap itself is
 *	repeated after it, but not before IB_TRAP_MIN_PERIOD_NS
 *
 * Return: the trap that has been due longest (already rescheduled), or NULL if there is none
 * or it is too early. Call until NULL.
 */
const struct ib_trap *ib_trap_due(struct ib_trap_queue *q, uint64_t now_ns, uint64_t timeout_ns);

/** ib_trap_deadline() - when ib_trap_due() has something, UINT64_MAX if never */
static inline uint64_t ib_trap_deadline(const struct ib_trap_queue *q)
{
	return q->next_ns < q->quiet_ns ? q->quiet_ns : q->next_ns;
}

#endif
