/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lanes of ports, as inputs and as outputs, and the heads of input lanes. */
#ifndef OHCA_FABRIC_DATA_LANE_H
#define OHCA_FABRIC_DATA_LANE_H

#include "data.h"
#include "frame.h"

#define FAB_DATA_LANES		FAB_WIRE_LANES
#define FAB_LANE_BLOCKS		FAB_WIRE_BLOCKS	/* input buffer of a lane at a local wire */
#define FAB_NONE_LANE	0xffffffffu

struct fab_buffer;
struct fab_dport;

/** enum fab_kind - decision on the packet at the head of a lane */
enum fab_kind {
	FAB_HEAD_NONE,		/* no packet, or no decision yet */
	FAB_HEAD_DROP,
	FAB_HEAD_LOCAL,		/* for an agent of the node */
	FAB_HEAD_UCAST,
	FAB_HEAD_MCAST,
};

/**
 * struct fab_lane - one lane of an input port, and its head
 * @kind: enum fab_kind, valid while @version equals the data path's
 * @ovl: lane at the output; for FAB_HEAD_MCAST at the output that is being served
 * @started: for FAB_HEAD_MCAST: at some outputs the copy has left or was discarded
 * @seen: the head was processed before: the effect of the link on it is known, and captures have it
 * @lost: the link by which it arrived has lost it
 * @forks: number that the decision has added to fab_data.n.forks
 * @listed: in fab_data.mcast
 * @next: lane that requests the same output lane after this one, or FAB_NONE_LANE
 * @version: of the decision
 * @out: output of FAB_HEAD_UCAST
 * @blocked_ns: time since which it waits, 0: it does not
 * @came_ns: time at which the head arrived at the switch, if it arrived before it became the head,
 *	or 0
 * @mark_ns: time at which the packets of the link's ring before @mark had arrived; 0: there is no
 *	mark
 * @mc: outputs of FAB_HEAD_MCAST that still need their copy
 * @f: the head
 * @first, @last: packets that wait, of a local wire; the first is the head unless @passing
 * @used: blocks of the input buffer in use, including @gone and @freed
 * @freed: blocks that become free at the end of the round
 * @gone: blocks lost by the wire that leads here, see struct fab_fault
 * @mark: position in the link's ring, see @mark_ns
 * @passing: @f is being forwarded, and is not in the buffer
 * @routed: FAB_HEAD_UCAST leaves a router, with the LIDs @slid and @dlid and a HopLmt one smaller
 * @counted: blocks by which it counts in @heads of its output; 0: it does not count
 */
struct fab_lane {
	uint8_t kind;
	uint8_t ovl;
	uint8_t forks;
	bool started;
	bool listed;
	bool seen;
	bool lost;
	bool passing;
	bool routed;
	uint16_t slid, dlid;
	uint16_t counted;
	uint16_t used;
	uint16_t freed;
	uint16_t gone;
	uint16_t mark;
	uint32_t next;
	uint32_t version;
	struct fab_dport *out;
	uint64_t blocked_ns;
	uint64_t came_ns;
	uint64_t mark_ns;
	uint64_t mc[4];
	struct fab_frame f;
	struct fab_buffer *first, *last;
};

/**
 * struct fab_out_lane - a lane of an output
 * @head, @tail: list of the input lanes that request it or are parked, valid if it is in @want
 * @turn: port number, then VL, of the input lane that was served last
 * @heads: at a switch with adaptive routing, blocks of the unicast heads that wait for it
 * @stall_end_ns: end of its stall, if it is stalled
 * @wait_vl_ns: time up to which PortVLXmitWait is counted, if it waits
 */
struct fab_out_lane {
	uint32_t head, tail, turn;
	uint32_t heads;
	uint64_t stall_end_ns;
	uint64_t wait_vl_ns;
};

/** fab_next_output() - the output of the multicast head of @l after @num, or -1; begin with -1 */
static inline int fab_next_output(const struct fab_lane *l, int num)
{
	for (unsigned int from = (unsigned int)(num + 1); from < 256; from = (from / 64 + 1) * 64) {
		uint64_t m = l->mc[from / 64] >> (from % 64);

		if (m)
			return (int)from + __builtin_ctzll(m);
	}
	return -1;
}

/** fab_has_output() - whether @num is an output of the head */
static inline bool fab_has_output(const struct fab_lane *l, unsigned int num)
{
	return l->mc[num / 64] >> (num % 64) & 1;
}

/** fab_clear_output() - remove output @num */
static inline void fab_clear_output(struct fab_lane *l, unsigned int num)
{
	l->mc[num / 64] &= ~(1ull << (num % 64));
}

#endif
