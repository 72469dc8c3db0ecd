/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The scheduler: which QP sends next, and which QPs wait for which event. */
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

#define OHCA_QUANTUM		16u	/* packets in a turn of one QP */

/*
 * A QP may be ahead of its static rate by so many ns, because the host's thread sleeps between two
 * packets and cannot be more exact.
 */
#define OHCA_PACE_NS		200000u

#define OHCA_LOOP_SLOTS		64u	/* power of two */
#define OHCA_SLOT_SIZE		4352u	/* at least IB_MAX_PKT_LEN */

_Static_assert(OHCA_SLOT_SIZE >= IB_MAX_PKT_LEN, "a slot holds any packet");
_Static_assert(OHCA_LOOP_SLOTS == 64, "one bit of loop_kept for each");

/*
 * How the engine schedules packets in ohca_poll().
 *
 * Goals: a QP with work gets a turn after a number of turns that depends only on the number of
 * other QPs with work. An idle or waiting QP costs nothing. ohca_poll() ends after a bounded amount
 * of work (base/work.h).
 *
 * 1. Doorbells activate QPs and execute list operations of SRQs. Timers that expire also activate
 *    QPs, and so does the time when the static rate of a QP permits a packet again.
 * 2. An active QP is on the list of the lane that it has sent on last. After OHCA_QUANTUM steps
 *    without a packet it is on the list of work without packets. The ports and this list alternate,
 *    OHCA_QUANTUM packets or steps at a time. If several lanes of a port are busy, its VL arbiter
 *    chooses the lane of each packet.
 * 3. The QP at the head of the list has its turn, in which responses and requests alternate. A
 *    requester that waits for a doorbell (@armed) is skipped, and so is a responder without
 *    responses. If a packet needs another lane than that of the turn, the QP moves to the list of
 *    that lane.
 * 4. A QP that can continue is put at the end of its list. A QP waits if it has no credits, no room
 *    in the loop, no slot for a page fault, or is ahead of its static rate. An event that only one
 *    QP can use wakes one QP. If only the requester or only the responder of a QP waits for a slot,
 *    the other one continues.
 * 5. Looped packets, and multicast packets for more members than one step serves, use at most half
 *    of the budget and allowance of a poll. The host may pass a frame only if no multicast packet
 *    from the wire waits.
 * 6. The poll ends with its budget, with its allowance of work, or when no QP is active.
 *
 * Limits: fairness is between QPs, in packets. A program with many QPs has as many turns. The
 * allowance is checked between two packets or steps, so the last one may exceed it.
 */

/**
 * struct ohca_sched - scheduler
 * @persist: FLUSHes for persistence; @persist_tag: tag of the last one
 * @active: QPs that may have work, in order of their turns, by the lane they have sent on last, or
 *	in the list of work without packets
 * @busy: bit n: active[n] is not empty
 * @port: port whose lanes are served; OHCA_MAX_PORTS: work without packets; @port_left: packets, or
 *	steps of work, until the next port is served
 * @wait: QPs without credits, by port and VL. These and the next three are pairs of lists: QPs that
 *	could not send anything in their last turn, and QPs that could
 * @wait_loop: QPs without a free slot in the loop
 * @moved: QPs that waited for credits when their port changed
 * @wait_fault: QPs without a slot for a page fault
 * @waiting: @wait_loop or @moved may not be empty
 * @paced: QPs that are ahead of their static rate, or that congestion control delays, by the time
 *	when their next packet may leave
 * @congestion: congestion control of each port
 * @release: number of QPs in @paced to activate, because the settings that delay them have changed
 * @fault_next: the QP of @wait_fault that tries again
 * @fault_gen: counts the times that a slot became free
 * @fault_room: slots that became free and, as far as is known, were not used since
 * @ready: bit n: lane n had credits when last checked, and QPs may wait for them
 * @refused: bit n: lane n has packets and no credits
 * @refused_ns: for such lanes: start of the wait that PortVLXmitWait does not include yet, ns
 * @idle_ns: for ports with such lanes: start of the time without packets that PortXmitWait does not
 *	include yet, ns
 * @heap: heap of timers (timer.c) with room for @num_xp, the number of QPs
 * @now: time of this run, ns
 * @gen: counts changes of each port, after which paths are resolved again
 * @win_free: free windows, by log2 of their size; @rwqe_free: free receive WQEs; @rd_free: free
 *	rings of responses; @ahead_free: free notes of early packets; each at most OHCA_POOL_KEEP
 * @ahead_used: QPs that have early packets
 * @mads_due: @madq or @late may have entries that are not blocked
 * @loop, @loop_len, @loop_port: looped packets, a FIFO of slots
 * @loop_from: index of the first member of the multicast group that has not received the packet
 * @loop_kept: bit n: the packet in slot n is from the wire
 * @mcast_left: index of the next member to deliver the current packet to; 0: it is delivered
 * @burst: packets of this turn that have not left yet
 * @discard: buffer for packets that are not sent
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

/* Remove @xp from all lists of the scheduler. */
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
 * Activate @xp, which may have work. A QP that waits for a slot for a page fault becomes active,
 * too, since either its requester or its responder may continue.
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

/* The path of a connected QP (RC, UC, XRC). */
static inline const struct ohca_path *ohca_qp_path(ohca_engine *e, struct ohca_qp *qp)
{
	const struct ohca_xp_sched *s = &qp->xp->sched;

	return s->path_ok && s->path_gen == e->sched->gen[qp->port] ? &s->path :
	       ohca_qp_path_again(e, qp);
}

/*
 * The list of a QP of @port that has sent nothing yet: the lane of its @sl. Packets on an SL
 * without a lane (7.6.6) are discarded, which is work without packets.
 */
static inline uint8_t ohca_sched_lane(const ohca_engine *e, unsigned int port, uint8_t sl)
{
	uint8_t vl = e->port[port].sl2vl[sl & 15];

	return (uint8_t)(vl < e->port[port].op_vls ? ohca_lane(port, vl) : OHCA_LANE_NONE);
}

int ohca_sched_init(ohca_engine *e);		/* for ohca_new(): 0 or -1 (memory) */
void ohca_sched_free(ohca_engine *e);		/* after ohca_sched_empty() */
void ohca_sched_reset(ohca_engine *e);		/* drop queued MADs and looped packets */
/*
 * Free what the QPs, of which none is left, have shared, as far as the allowance of work covers.
 * Return: true if it is done
 */
bool ohca_sched_empty(ohca_engine *e);
/* Initialize the new scheduler of @e with the state of ports and host of that of @was. */
void ohca_sched_continue(ohca_engine *e, const ohca_engine *was);
/*
 * Send and deliver packets; @budget: as of ohca_poll(). Return: true if there is more to do at
 * once.
 */
bool ohca_sched_run(ohca_engine *e, unsigned int budget);
uint64_t ohca_sched_deadline(const ohca_engine *e);	/* ns, or OHCA_NO_DEADLINE */
/* As ohca_tx_ready(), in a burst of DMA. */
void ohca_xp_tx_ready(ohca_engine *e, unsigned int port, uint16_t lanes);
/*
 * The state, LID, P_Keys or VLs of a port have changed. A port that is not Active sends only SMPs.
 */
void ohca_xp_port(ohca_engine *e, unsigned int port);

#endif /* OHCA_TRANSPORT_SCHED_H */
