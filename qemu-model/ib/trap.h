/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traps of one end port, which is a port of an HCA or port 0 of a switch: a bounded queue that
 * repeats each trap until the subnet manager represses it (IBTA volume 1, 13.4.9 and 14.2.2).
 * PortInfo.SubnetTimeOut is the minimum time between any two traps of the port (14.2.5.6). So it
 * bounds the rate of traps that the manager receives, whatever causes the events. The caller passes
 * the time and provides the slots. Owner only.
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
 * @used: the slot is in use
 * @sent: how often it was sent with @tid
 * @tid: transaction ID; repeats have the same
 * @next_ns: when to send it (again), ns
 * @n: the Notice
 */
struct ib_trap {
	bool used;
	uint32_t sent;
	uint64_t tid;
	uint64_t next_ns;
	struct ib_notice n;
};

/**
 * struct ib_trap_room - how many traps can wait
 * @slots: traps of all kinds
 * @security: most traps about violations, which any node of the subnet can cause; the other slots
 *	are for events of the node itself
 * @each: most traps about violations with the same trap number, so that one kind of violation
 *	leaves room for another
 */
struct ib_trap_room {
	uint8_t slots;
	uint8_t security;
	uint8_t each;
};

/**
 * struct ib_trap_queue - the traps of one port
 * @t: [@room.slots], the caller's memory
 * @room: limits
 * @next_tid: transaction ID of the next trap
 * @next_ns: the earliest @next_ns of all used slots, ns; UINT64_MAX: none is used
 * @quiet_ns: no trap is sent before this time, ns
 * @dropped: traps that had no free slot, or reached IB_TRAP_MAX_REPEATS
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
 * ib_trap_init() - initialize a queue without traps
 * @slots: @room->slots slots, which must stay valid as long as the queue
 * @room: limits; copied
 * @tid: first transaction ID; 0 means 1
 */
void ib_trap_init(struct ib_trap_queue *q, struct ib_trap *slots, const struct ib_trap_room *room,
		  uint64_t tid);

/** ib_trap_clear() - remove all traps, because the port went down; the rate stays bounded */
void ib_trap_clear(struct ib_trap_queue *q);

/**
 * ib_trap_post() - queue a trap to be sent at @now_ns
 * @n: the Notice; copied
 *
 * If a trap with the same number and details waits, its count is incremented instead. Only one trap
 * 128 waits at a time: its details are the LID of the switch, and the current LID replaces an old
 * one. If the waiting trap was sent already and is no violation, the event is new for the manager:
 * the trap is due again, with a new transaction ID. A trap without a free slot is dropped and
 * counted.
 *
 * Return: true if ib_trap_due() has more to send than before.
 */
bool ib_trap_post(struct ib_trap_queue *q, const struct ib_notice *n, uint64_t now_ns);

/**
 * ib_trap_repress() - a TrapRepress or a Set(Notice) arrived
 * @tid: transaction ID of the TrapRepress, which is that of the trap (13.4.9); 0: a Set(Notice),
 *	which identifies the trap by its details (14.2.5.1)
 * @n: its Notice
 *
 * If the manager uses an older transaction ID of the trap, it has not received the later event, and
 * the trap stays.
 *
 * Return: true if a trap matched (same number, and same @tid or details) and was removed.
 */
bool ib_trap_repress(struct ib_trap_queue *q, uint64_t tid, const struct ib_notice *n);

/** ib_trap_first() - the oldest waiting trap, or NULL */
const struct ib_trap *ib_trap_first(const struct ib_trap_queue *q);

/**
 * ib_trap_due() - get the next trap to send now
 * @timeout_ns: PortInfo.SubnetTimeOut, ns: minimum time until another trap. The trap itself is
 *	repeated after this time, but not before IB_TRAP_MIN_PERIOD_NS
 *
 * Return: the trap that has been due longest (already rescheduled), or NULL if no trap is due or it
 * is too early. Call until NULL.
 */
const struct ib_trap *ib_trap_due(struct ib_trap_queue *q, uint64_t now_ns, uint64_t timeout_ns);

/** ib_trap_deadline() - when ib_trap_due() returns a trap, ns; UINT64_MAX: never */
static inline uint64_t ib_trap_deadline(const struct ib_trap_queue *q)
{
	return q->next_ns < q->quiet_ns ? q->quiet_ns : q->next_ns;
}

#endif
