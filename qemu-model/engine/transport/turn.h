/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One turn of a QP: the lanes on which it may send, and the result. */
#ifndef OHCA_TRANSPORT_TURN_H
#define OHCA_TRANSPORT_TURN_H

#include <stdint.h>

#include "engine/base/limits.h"

struct ib_vlarb;
struct ohca_xport;

#define OHCA_LANES		(OHCA_MAX_PORTS * 16u)	/* see ohca_lane() */
#define OHCA_LANE_NONE		OHCA_LANES	/* the list of work that sends no packet */
#define OHCA_LISTS		(OHCA_LANES + 1u)
#define OHCA_LANE_ANY		OHCA_LISTS

/* Number of a lane: its place in ohca_sched.active. */
static inline unsigned int ohca_lane(unsigned int port, unsigned int vl)
{
	return port * 16 + vl;
}

/** enum ohca_sent - the result of a sender */
enum ohca_sent {
	OHCA_SENT_NONE,		/* nothing to send now */
	OHCA_SENT,		/* one packet, or work like it */
	OHCA_SENT_BLOCKED,	/* no room: ohca_turn.wait is the reason */
};

/** enum ohca_wait - the reason why a sender waits */
enum ohca_wait {
	OHCA_WAIT_NONE,
	OHCA_WAIT_CREDITS,	/* of ohca_turn.lane */
	OHCA_WAIT_LOOP,		/* a free loop slot */
	OHCA_WAIT_FAULT,	/* fewer page faults that are unanswered */
	OHCA_WAIT_TURN,		/* the turn of ohca_turn.lane */
	OHCA_WAIT_PACE,		/* its static rate, or congestion control */
};

/**
 * struct ohca_turn - a turn; on the scheduler's stack, passed to the senders
 * @xp: the QP; NULL: none
 * @arb: arbiter that granted it; NULL: only one lane is busy
 * @grant: lane on which packets may leave, or OHCA_LANE_ANY, or OHCA_LANE_NONE: on none
 * @most: packets of a message that may leave at once now, as one view (ohca_tx_series())
 * @packets: result: how many the last one was
 * @wait, @lane: result of the last packet that found no room
 * @sent: result: lane sent on last, plus one; 0: on none
 * @charge: result: bytes that left, by a lane or into the loop
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
