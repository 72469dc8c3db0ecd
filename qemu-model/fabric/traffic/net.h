/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the data path does with packets of hosts without machines while it discards none, and nobody
 * looks at it: the same arbiters, credits and times, to the part of a ns, with as little memory as
 * that takes. A packet has 32 bytes, a wire one cache line, and no packet has bytes of headers.
 *
 * An event is the end of a packet on a wire, which has come to the other end then, while the wire
 * is ready for another one; or it is the begin of a message. All events of a time come together, in
 * rounds as those of the data path (data.h): first hosts begin to send, then what has come waits
 * for the outputs, then each of these that is ready chooses. Room that a round makes, and heads
 * behind those that have left, are there in the next one, so nothing depends on the order within a
 * round.
 *
 * What this does not know - congestion control, adaptive routing, P_Keys, faults, routers - or what
 * would have to be discarded is the data path's own: then all of it is done there, from the begin
 * on.
 *
 *	net.c		the wires of a fabric, and the ways over them
 *	net_run.c	what happens there
 */
#ifndef OHCA_FABRIC_TRAFFIC_NET_H
#define OHCA_FABRIC_TRAFFIC_NET_H

#include "fabric/base/calendar.h"
#include "fabric/graph/wire.h"
#include "traffic_priv.h"

#define NET_NONE	0xffffffffu

/**
 * struct net_packet - a packet
 * @came_ns: when it has come to the switch
 * @next: behind it in its lane, or of the spare ones
 * @number: of its message; @psn: in that
 * @to: the host that gets it
 * @bytes: of the message; @len: LRH to ICRC
 * @vl: its lane on the wire
 * @hops: switches it has been at
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
 * struct net_wire - what leaves by a port
 * @entry: of traffic_net.calendar: when it has sent @packet
 * @sent: when it has sent its last packet
 * @byte_fs: time in fs of a byte; 0: nothing may leave by it
 * @packet: on its way, or NET_NONE
 * @peer: the port at the other end
 * @first: the first port of the switch that it leaves; of a host its number
 * @sw: of the switch at the other end; of a host there its number
 * @max_len: of packets, LRH to ICRC
 * @want: lanes that are requested; @weights: lanes that its arbiter knows
 * @starved: there was no room for the packet of a lane
 * @owed: something has waited for it since it began to send, so it begins at @sent
 * @listed: it has its turn in this round or in the next one
 * @from_host, @to_host: what is at its ends
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
 * @want: [traffic_net.words] input lanes that request it, a bit for each: that of port n's lane v
 *	is n * lanes + v
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

/** struct net_arrival - a packet that has come by a wire */
struct net_arrival {
	const struct net_wire *wire;
	uint32_t packet;
};

/**
 * struct traffic_net - all of it
 * @t: whose it is
 * @lanes: of each port, a power of two; @lane_bits: its logarithm
 * @words: of struct net_out's @want; @out_size: bytes of one
 * @wire: [ports of the graph]
 * @begin: [hosts] when the message at hand begins, if that is not now
 * @out: [ports * @lanes], each of @out_size bytes
 * @lane: [ports * @lanes]
 * @arb: [ports], or NULL: there is one lane
 * @way: [switches * hosts] number of the port that leads to a host; 0: there is none
 * @packet: [@packets]; @spare: the first that is free
 * @calendar: of wires and of @begin
 * @patience_ns: what waits no longer than that is not discarded; UINT64_MAX: nothing ever is
 * @arrivals: [@narrivals] of this round
 * @turns: [@nturns] wires that have their turn in the next round
 * @senders: [@nsenders] hosts that may send then
 * @heads: [@nheads] input lanes with another head then
 * @rooms: [@nrooms] that are free then
 * @now: [ports] those of @turns or @senders that have it now
 * @wrong: something has happened that this does not know
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
 * traffic_net_new() - the net of @t, whose links are Active
 * Return: NULL: the data path has to do it.
 */
struct traffic_net *traffic_net_new(struct fab_traffic *t);

/** traffic_net_free() - free it; NULL is none */
void traffic_net_free(struct traffic_net *n);

#endif
