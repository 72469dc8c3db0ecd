/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fast model of the data path for packets of hosts without machines, while none is discarded and
 * none is captured: the same arbiters, credits and times, exact to parts of a ns, with as little
 * memory as possible. A packet has 32 bytes, a wire one cache line, and no packet has bytes of
 * headers.
 *
 * An event is the end of a packet on a wire, which has then arrived at the other end, while the
 * wire becomes ready; or it is the begin of a message. All events of the same time are processed
 * together, in rounds like those of the data path (data.h): first hosts begin to send, then packets
 * that have arrived request their outputs, then each output that is ready chooses. Room that a
 * round makes, and heads behind those that have left, are used only in the next round, so nothing
 * depends on the order within a round.
 *
 * This model does not support congestion control, adaptive routing, P_Keys, faults, routers, and
 * discards. If one of these is used or a packet would be discarded, the data path does all of the
 * traffic, from the begin.
 *
 *	net.c		the wires of a fabric, and the routes over them
 *	net_run.c	the events
 */
#ifndef OHCA_FABRIC_TRAFFIC_NET_H
#define OHCA_FABRIC_TRAFFIC_NET_H

#include "fabric/base/calendar.h"
#include "fabric/graph/wire.h"
#include "traffic_priv.h"

#define NET_NONE	0xffffffffu

/**
 * struct net_packet - a packet
 * @came_ns: time at which it arrived at the switch
 * @next: the packet behind it in its lane, or the next spare one
 * @number: of its message; @psn: in that message
 * @to: destination host
 * @bytes: of the message; @len: LRH to ICRC
 * @vl: its lane on the wire
 * @hops: switches that it has crossed
 * @ack: it is the ACK of that message
 */
struct net_packet {
	uint64_t came_ns;
	uint32_t next;
	uint32_t number;
	uint32_t psn;
	uint16_t to;
	uint16_t bytes;
	uint16_t len;
	uint8_t sl;
	uint8_t vl;
	uint8_t hops;
	bool ack;
};
static_assert(sizeof(struct net_packet) == 32, "two are in a cache line");

/**
 * struct net_wire - the wire by which packets leave a port
 * @entry: of traffic_net.calendar: time at which it has sent @packet
 * @sent: time at which it has sent its last packet
 * @byte_fs: time in fs of a byte; 0: no packet may leave by it
 * @packet: on its way, or NET_NONE
 * @peer: the port at the other end
 * @first: the first port of the switch at this end; for a host its number
 * @sw: the switch at the other end; for a host there its number
 * @max_len: longest packet, LRH to ICRC
 * @want: lanes that are requested; @weights: lanes with weights in its arbiter
 * @starved: there was no room for the packet of a lane
 * @owed: a packet has waited since it began to send, so the next one begins at @sent
 * @listed: it is in the list of turns of this round or of the next one
 * @from_host, @to_host: a host is at this end, at the other end
 * @num: number of the port at the other end
 */
struct net_wire {
	struct fab_entry entry;
	struct fab_moment sent;
	uint64_t byte_fs;
	uint32_t packet;
	uint32_t peer;
	uint32_t first;
	uint16_t sw;
	uint16_t max_len;
	uint16_t want;
	uint16_t weights;
	uint8_t num;
	uint8_t starved : 1;
	uint8_t owed : 1;
	uint8_t listed : 1;
	uint8_t from_host : 1;
	uint8_t to_host : 1;
};
static_assert(sizeof(struct net_wire) == 64, "it is a cache line");

/**
 * struct net_out - a lane of a wire
 * @turn: the input lane that was served last
 * @used: blocks of the buffer at the other end
 * @want: [traffic_net.words] input lanes that request it, a bit for each: lane v of port n is
 *	n * lanes + v
 */
struct net_out {
	uint32_t turn;
	uint32_t used;
	uint64_t want[];
};

/**
 * struct net_lane - a lane of an input buffer
 * @first, @last: packets that wait there, or NET_NONE
 * @from: the port at the other end
 */
struct net_lane {
	uint32_t first, last;
	uint32_t from;
	uint32_t pad;
};

/** struct net_room - blocks of lane @vl that a round has freed behind wire @wire */
struct net_room {
	uint32_t wire;
	uint16_t blocks;
	uint8_t vl;
};

/** struct net_arrival - a packet that has arrived by a wire */
struct net_arrival {
	const struct net_wire *wire;
	uint32_t packet;
};

/**
 * struct traffic_net - state of the model
 * @t: the traffic
 * @lanes: lanes of each port, a power of two; @lane_bits: its logarithm
 * @words: of struct net_out's @want; @out_size: bytes of one struct net_out
 * @wire: [ports of the graph]
 * @begin: [hosts] begin of the current message, if that is not now
 * @out: [ports * @lanes], each of @out_size bytes
 * @lane: [ports * @lanes]
 * @arb: [ports], or NULL: there is one lane
 * @way: [switches * hosts] number of the port that leads to a host; 0: there is none
 * @packet: [@packets]; @spare: the first free one
 * @calendar: of wires and of @begin
 * @patience_ns: packets that wait no longer than this are not discarded; UINT64_MAX: none ever is
 * @arrivals: [@narrivals] of this round
 * @turns: [@nturns] wires whose turn is in the next round
 * @senders: [@nsenders] hosts that may send in the next round
 * @heads: [@nheads] input lanes that have another head in the next round
 * @rooms: [@nrooms] blocks that are free in the next round
 * @now: [ports] those of @turns or @senders whose turn is in this round
 * @wrong: the model does not support what has happened
 */
struct traffic_net {
	struct fab_traffic *t;
	unsigned int lanes, lane_bits;
	unsigned int words;
	size_t out_size;
	struct net_wire *wire;
	struct fab_entry *begin;
	char *out;
	struct net_lane *lane;
	struct ib_vlarb *arb;
	uint8_t *way;
	struct net_packet *packet;
	uint32_t packets, spare;
	struct fab_calendar calendar;
	uint64_t patience_ns;
	struct net_arrival *arrivals;
	uint32_t *turns, *senders, *heads, *now;
	struct net_room *rooms;
	uint32_t narrivals, nturns, nsenders, nheads, nrooms;
	bool wrong;
};

/** net_out_of() - lane @vl of wire @p */
static inline struct net_out *net_out_of(const struct traffic_net *n, uint32_t p, unsigned int vl)
{
	return (struct net_out *)(void *)(n->out + (((size_t)p << n->lane_bits) + vl) * n->out_size);
}

/** net_lane_of() - lane @vl of the input buffer of port @p */
static inline struct net_lane *net_lane_of(const struct traffic_net *n, uint32_t p, unsigned int vl)
{
	return &n->lane[((size_t)p << n->lane_bits) + vl];
}

/**
 * traffic_net_new() - make the model of @t, whose links are Active
 * Return: NULL: the data path must do it.
 */
struct traffic_net *traffic_net_new(struct fab_traffic *t);

/** traffic_net_free() - free it; NULL does nothing */
void traffic_net_free(struct traffic_net *n);

#endif
