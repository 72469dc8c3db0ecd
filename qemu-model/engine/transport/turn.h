/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One turn of a QP: the lanes on which it may send, and the result. */
#ifndef OHCA_TRANSPORT_TURN_H
#define OHCA_TRANSPORT_TURN_H

#include <stdint.h>

#include "engine/base/limits.h"

struct ib_vlarb;
struct ohca_xport;

#define OHCA_LANES		(OHCA_MAX_PORTS * 16u)	/* see ohca_lane() */
#define OHCA_LANE_NONE		OHCA_LANES	/* the list of work without packets */
#define OHCA_LISTS		(OHCA_LANES + 1u)
#define OHCA_LANE_ANY		OHCA_LISTS

/* Number of a lane: its index in ohca_sched.active. */
static inline unsigned int ohca_lane(unsigned int port, unsigned int vl)
{
	return port * 16 + vl;
}

/** enum ohca_sent - the result of a sender */
enum ohca_sent {
	OHCA_SENT_NONE,		/* nothing to send now */
	OHCA_SENT,		/* sent packets, or did the work of one */
	OHCA_SENT_BLOCKED,	/* no room: ohca_turn.wait is the reason */
};

/** enum ohca_wait - the reason why a sender waits */
enum ohca_wait {
	OHCA_WAIT_NONE,
	OHCA_WAIT_CREDITS,	/* credits of ohca_turn.lane */
	OHCA_WAIT_LOOP,		/* a free loop slot */
	OHCA_WAIT_FAULT,	/* a slot for a page fault */
	OHCA_WAIT_TURN,		/* a turn of ohca_turn.lane */
	OHCA_WAIT_PACE,		/* its static rate, or congestion control */
};

/**
 * struct ohca_turn - a turn; on the stack of the scheduler, which passes it to the senders
 * @xp: the QP; NULL: none
 * @arb: arbiter that chose the lane; NULL: only one lane is busy
 * @grant: lane on which packets may leave, or OHCA_LANE_ANY, or OHCA_LANE_NONE: on none
 * @most: most packets that may leave at once now, as one view (ohca_tx_series())
 * @packets: result: number of packets that left at once
 * @wait, @lane: result: why the last packet had no room, and its lane
 * @sent: result: the last lane that was sent on, plus one; 0: none
 * @charge: result: bytes that were sent, on a lane or into the loop
 */
struct ohca_turn {
	struct ohca_xport *xp;
	struct ib_vlarb *arb;
	unsigned int grant;
	unsigned int most, packets;
	enum ohca_wait wait;
	unsigned int lane;
	unsigned int sent;
	uint32_t charge;
};

/* A turn on any lane. */
static inline struct ohca_turn ohca_turn_of(struct ohca_xport *xp)
{
	return (struct ohca_turn){ .xp = xp, .grant = OHCA_LANE_ANY };
}

#endif /* OHCA_TRANSPORT_TURN_H */
