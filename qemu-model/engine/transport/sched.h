/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The scheduler: which QP sends next, and what waits for what. */
#ifndef OHCA_TRANSPORT_SCHED_H
#define OHCA_TRANSPORT_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/limits.h"
#include "engine/base/heap.h"
#include "engine/base/list.h"
#include "engine/base/state.h"
#include "engine/engine.h"
#include "engine/object/rwqe.h"
#include "engine/transport/ack.h"
#include "engine/transport/burst.h"
#include "engine/transport/congestion.h"
#include "engine/transport/madq.h"
#include "engine/transport/persist.h"
#include "engine/transport/sq.h"
#include "engine/transport/turn.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"

struct ohca_ahead;
struct ohca_rdring;
struct ohca_xport;

#define OHCA_QUANTUM		16u	/* packets of one QP before the next has its turn */

/* A QP with a static rate may be ahead of it by so many ns: a thread that sleeps meanwhile cannot
 * be more exact. */
#define OHCA_PACE_NS		200000u

#define OHCA_LOOP_SLOTS		64u	/* power of two */
#define OHCA_SLOT_SIZE		4352u	/* at least IB_MAX_PKT_LEN */

_Static_assert(OHCA_SLOT_SIZE >= IB_MAX_PKT_LEN, "a slot holds any packet");
_Static_assert(OHCA_LOOP_SLOTS == 64, "one bit of loop_kept for each");

/*
 * Life of a turn of the engine.
 *
 * Goals: every QP that can do something does it after a number of turns that depends on how many
 * others can, and not on what these do; an idle or waiting QP costs nothing; ohca_poll() ends after
 * a bounded amount of work (base/work.h).
 *
 * 1. Doorbells activate QPs, and list operations of SRQs are executed. Timers that are due, and QPs
 *    whose static rate allows a packet again, activate QPs as well.
 * 2. An active QP is on the list of the lane that it sent on last, or, after as many steps without
 *    a packet as a turn may have, on the list of work without packets. The ports and that list
 *    alternate, OHCA_QUANTUM packets or steps at a time; in a port, the VL arbiter chooses the
 *    lane, packet by packet if several are busy.
 * 3. The QP at the head of the list has its turn: responses and requests alternate. A requester that
 *    waits for a doorbell (@armed), or a responder without answers, is not asked. A packet for a
 *    lane that has not the turn moves the QP to that lane's list.
 * 4. A QP that can go on is put at the end of its list. One that finds no credits, no room in the
 *    loop, no slot for a page fault, or is ahead of its static rate waits; what it waits for wakes
 *    one QP at a time, where one is all that can go on. A QP that waits for such a slot with its
 *    requester or its responder alone goes on with the other one.
 * 5. Looped packets, and multicast packets for more members than one step serves, have at most half
 *    of a poll's budget and allowance. A frame is taken from the wire when none of these waits.
 * 6. The poll ends with its budget, with its allowance of work, or when no QP is active.
 *
 * Limits: fairness is between QPs, in packets. A program with many QPs has as many turns. The
 * allowance is checked between two packets or steps, so that the largest single one may exceed it.
 */

/**
 * struct ohca_sched - scheduler
 * @active: QPs that may have something to do, in turn, by the lane they sent on last, or in the
 *	list of work without packets
 * @busy: bit n: active[n] is not empty
 * @port: whose lanes are served, OHCA_MAX_PORTS: work without packets; @port_left: packets, or
 *	steps of work, until it is the next one's turn
 * @paced: QPs that are ahead of their static rate, or of what congestion control allows, by the
 *	time when the next packet may leave
 * @congestion: what the ports make of congestion; @release: so many of @paced are looked at again,
 *	since what they wait for has changed
 * @wait: QPs without credits, by port and VL; @wait_loop: without a free loop slot;
 *	@moved: those that waited for credits when their port changed; @waiting: one of these
 *	two may have some. First those that could not
 *	send anything in their last turn, then those that could
 * @refused: bit n: lane n has packets and no credits, since @refused_ns[n] as far as it is
 *	counted in PortVLXmitWait
 * @idle_ns: of a port with such lanes: when it sent last, as far as it is counted in
 *	PortXmitWait
 * @wait_fault: QPs that found too many page faults unanswered; @fault_next: the one of them that
 *	tries again; @fault_gen: counts the times that a slot became free;
 *	@fault_room: slots that became free and were not taken since, as far as is known
 * @ready: bit n: lane n had credits when it was looked at last, and QPs may wait for them
 * @heap: timers, a heap (timer.c); @num_xp: QPs, as many fit the heap
 * @now: time of this run
 * @gen: counts changes of the port; paths are resolved again
 * @mads_due: @madq or @late may have something that is not blocked
 * @win_free: windows to reuse, by log2 of their size; @rwqe_free: receive WQEs;
 *	@rd_free: rings of responses; @ahead_free: for packets before their turn; in each at most
 *	OHCA_POOL_KEEP
 * @ahead_used: QPs that have packets before their turn
 * @burst: packets of this turn that have not left yet
 * @loop, @loop_len, @loop_port: looped packets, FIFO of slots; @loop_from: members of the multicast
 *	group before this one have it; @loop_kept: bit n: slot n came from the wire
 * @mcast_left: the member of its group that a packet is delivered to next; 0: it is delivered
 */
struct ohca_sched {
	struct ohca_persist persist[OHCA_PERSISTS];
	uint64_t persist_tag;
	struct ohca_list active[OHCA_LISTS];
	uint64_t busy;
	unsigned int port, port_left;
	struct ohca_list wait[OHCA_MAX_PORTS][16][2];
	struct ohca_list wait_loop[2], moved[2], wait_fault[2];
	bool waiting;
	struct ohca_heap paced;
	struct ohca_congestion congestion[OHCA_MAX_PORTS];
	uint32_t release;
	struct ohca_xport *fault_next;
	uint32_t fault_gen, fault_room;
	uint32_t ready;
	uint32_t refused;
	uint64_t refused_ns[OHCA_LANES];
	uint64_t idle_ns[OHCA_MAX_PORTS];
	struct ohca_timer {
		uint64_t key;
		struct ohca_xport *xp;
	} *heap;
	uint32_t heap_num, heap_cap, num_xp;
	uint64_t now;
	uint32_t gen[OHCA_MAX_PORTS];
	struct ohca_sqwin *win_free[OHCA_MAX_LOG_WIN + 1];
	struct ohca_rwqe_slot {
		struct ohca_rwqe r;
		struct ohca_rwqe_slot *next;
	} *rwqe_free;
	struct ohca_rdring *rd_free;
	struct ohca_ahead *ahead_free;
	uint32_t win_num[OHCA_MAX_LOG_WIN + 1], rwqe_num, rd_num, ahead_num, ahead_used;
	struct ohca_madq madq[OHCA_MAX_PORTS][2];
	struct ohca_lateq late[OHCA_MAX_PORTS];
	bool mads_due;
	uint32_t loop_head, loop_tail;
	uint32_t loop_len[OHCA_LOOP_SLOTS];
	uint8_t loop_port[OHCA_LOOP_SLOTS];
	uint16_t loop_from[OHCA_LOOP_SLOTS];
	uint64_t loop_kept;
	uint16_t mcast_left;
	struct ohca_burst burst;
	uint8_t *loop;
	uint8_t discard[OHCA_SLOT_SIZE];
};

/* @xp is on no list of the scheduler any more. */
static inline void ohca_sched_off(struct ohca_sched *s, struct ohca_xport *xp)
{
	if (xp->sched.on != OHCA_XP_OFF)
		ohca_list_del(&xp->sched.link);
	if (xp->sched.on == OHCA_XP_WAIT && xp->sched.due.at)
		ohca_heap_del(&s->paced, &xp->sched.due);
	if (s->fault_next == xp)
		s->fault_next = NULL;
	if (xp->sched.on == OHCA_XP_ACTIVE && ohca_list_empty(&s->active[xp->sched.lane]))
		s->busy &= ~(1ull << xp->sched.lane);
	xp->sched.on = OHCA_XP_OFF;
}

/*
 * There may be something to do for @xp. A slot for a page fault is what its requester or its
 * responder waits for, and the other one may go on.
 */
static inline void ohca_sched_activate(ohca_engine *e, struct ohca_xport *xp)
{
	if (xp->sched.on == OHCA_XP_WAIT_FAULT)
		ohca_sched_off(e->sched, xp);
	if (xp->sched.on != OHCA_XP_OFF)
		return;
	xp->sched.on = OHCA_XP_ACTIVE;
	ohca_list_add_tail(&e->sched->active[xp->sched.lane], &xp->sched.link);
	e->sched->busy |= 1ull << xp->sched.lane;
}

/* The QP's own path (RC, UC). */
static inline const struct ohca_path *ohca_qp_path(ohca_engine *e, struct ohca_qp *qp)
{
	const struct ohca_xp_sched *s = &qp->xp->sched;

	return s->path_ok && s->path_gen == e->sched->gen[qp->port] ? &s->path :
	       ohca_qp_path_again(e, qp);
}

/*
 * The list of a QP of @port that has sent nothing yet: the lane of its @sl. An SL without a lane
 * (7.6.6) has its packets discarded, which is work without packets.
 */
static inline uint8_t ohca_sched_lane(const ohca_engine *e, unsigned int port, uint8_t sl)
{
	uint8_t vl = e->port[port].sl2vl[sl & 15];

	return (uint8_t)(vl < e->port[port].op_vls ? ohca_lane(port, vl) : OHCA_LANE_NONE);
}

int ohca_sched_init(ohca_engine *e);		/* ohca_new: 0 or -1 (memory) */
void ohca_sched_free(ohca_engine *e);		/* after ohca_sched_empty() */
void ohca_sched_reset(ohca_engine *e);		/* forget queued MADs and looped packets */
/* No QP is left: free what they have shared, a step of it. Return: it is done */
bool ohca_sched_empty(ohca_engine *e);
/* The scheduler of @e is new, and goes on with what that of @was has of ports and host. */
void ohca_sched_continue(ohca_engine *e, const ohca_engine *was);
/* Move packets; @budget as of ohca_poll(). True if there is more to do at once. */
bool ohca_sched_run(ohca_engine *e, unsigned int budget);
uint64_t ohca_sched_deadline(const ohca_engine *e);	/* or OHCA_NO_DEADLINE */
/* As ohca_tx_ready(), in a burst of DMA. */
void ohca_xp_tx_ready(ohca_engine *e, unsigned int port, uint16_t lanes);
/* a port left Armed/Active or its LID, P_Keys, VLs changed: nothing is sent on a port
 * that is not Active except SMPs */
void ohca_xp_port(ohca_engine *e, unsigned int port);

#endif /* OHCA_TRANSPORT_SCHED_H */
