/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The data path, as its own files know it. Captures (watch/) use it, too; all other code includes
 * data.h.
 */
#ifndef OHCA_FABRIC_DATA_PRIV_H
#define OHCA_FABRIC_DATA_PRIV_H

#include "ib/mad_packet.h"
#include "port.h"

#define FAB_BUFFER_SIZES	7u	/* sizes of buffers for packets that wait */
#define FAB_MAX_HOPS		255u	/* a packet that crosses more switches is in a loop */
#define FAB_WALK		1024u	/* wires that a packet and its copies cross at once */
#define FAB_BURST		64u	/* packets that a lane or an output moves in a round */
#define FAB_REPLIES		1024u	/* MADs of agents that wait for credit, ... */
#define FAB_PORT_REPLIES	64u	/* ... of one port */
#define FAB_LOOK_NS		10000000u	/* between checks of packets that wait for credit */
#define FAB_GUID_LIDS		256u	/* cached LIDs of PortGUIDs, for routers */

/**
 * struct fab_guid_lid - a LID that a router has looked up, see route.c
 * @guid: PortGUID in the subnet of router port @out
 * @out: port of the router
 * @version: of the data path
 * @lid: its LID, or 0
 */
struct fab_guid_lid {
	uint64_t guid;
	uint32_t out;
	uint32_t version;
	uint16_t lid;
};

/** struct fab_reply - a MAD of an agent that waits since @since_ns to leave by a link */
struct fab_reply {
	uint64_t since_ns;
	struct fab_dport *out;
	uint8_t vl;
	uint16_t len;
	uint8_t pkt[IB_MAD_PKT_MAX];
};

/**
 * struct fab_data - the data path of a fabric
 * @by_port: [ports of the graph] the struct fab_dport of the port, or NULL
 * @all: [@count] all struct fab_dport
 * @linked: [@links] those with a link or an HCA
 * @by_guid: indices in @all of the ports in @linked, by the PortGUIDs of their peers
 * @awake: [@nawake] those whose links a round checks: all but the idle ones
 * @used: [@nused] ports of idle links by which packets leave
 * @stall: [@nstall] those with stalled lanes; the first stall ends at @stall_due_ns
 * @queue: [@queues] those with packets in the input buffer that are not parked
 * @outs: [@nouts] outputs that are requested in this round
 * @woken: [@nwoken] outputs whose parked requests are served again in the next round
 * @freed: [@nfreed] those whose input buffers get more room when this round ends
 * @touch: [@touches] outputs that have sent or wait in this round
 * @mcast: [@nmcast] lanes with multicast heads of this round
 * @cap: capacity of each of these arrays; @mcast has FAB_DATA_LANES times that
 * @epoch: of the management whose tables are in the ports
 * @parks: ports with @parks, since @park_version; the first request there is too old after @park_ns
 * @refreshes: times that a port has read what management has changed
 * @version: of the ports; a head with a decision of another version is decided on again
 * @walk: wires that the current packet may still cross before it waits
 * @first: rotates the port that is served first
 * @blocked: lanes that wait
 * @stalls: output lanes that are stalled
 * @now_ns: time of this round; 0: not read yet
 * @seen_ns: the clock when it was read last
 * @flights: packets on wires with a delay, or a rate
 * @flying: their number
 * @flight_bytes: memory of @flights without these packets
 * @congestion_bytes: memory of the ports' congestion control
 * @landings: timers of those of @flights that wait for a time
 * @starved: those of @flights that wait for credit
 * @landing: number of the last fab_delay_round()
 * @paced: timers of the wires for which packets wait
 * @spare: free buffers, by size
 * @made, @in_use, @peak: by size: all buffers, those that are not spare, and the maximum of @in_use
 *	since the last check; the next check is at @trim_due_ns
 * @reply_order: indices of @reply: @reply_count in use, then the free ones
 * @link_captures: captures with link packets
 * @mad_ports: HCAs' ports whose MADs wait
 * @scratch: a packet while an HCA builds it, and one while an HCA receives it
 * @guid_lid: cached LIDs, by the hash of the GUID
 * @why: why the last packet that was dropped was dropped
 * @n: the counters
 * @fronts, @fronts_arg: arguments of fab_data_set_fronts()
 * @accept_stops: times that peers had to wait for a descriptor, or memory
 * @log_left: lines that may be logged now; increased at @log_ns last
 * @log_lost: lines that were suppressed since the last one
 */
struct fab_data {
	struct fab_data_cfg cfg;
	struct fab_mgmt *m;
	struct fab *f;
	struct fab_dport **by_port;
	struct fab_hash by_guid;
	struct fab_dport **all, **linked, **awake, **used, **stall, **queue, **outs, **touch, **woken, **freed;
	uint32_t *mcast;
	uint32_t nawake, nused, nstall;
	uint64_t stall_due_ns;
	uint32_t count, links, queues, nouts, touches, nmcast, nwoken, nfreed, cap;
	uint32_t epoch;
	uint32_t parks, park_version;
	uint64_t park_ns;
	uint64_t refreshes;
	uint32_t version;
	uint32_t walk;
	uint32_t first;
	bool ctrl_due;
	unsigned int blocked;
	unsigned int stalls;
	uint64_t now_ns, seen_ns;
	struct fab_buffer *spare[FAB_BUFFER_SIZES];
	uint32_t made[FAB_BUFFER_SIZES], in_use[FAB_BUFFER_SIZES], peak[FAB_BUFFER_SIZES];
	uint64_t trim_due_ns;
	struct fab_flight *flights, *starved;
	struct fab_timers landings, paced;
	uint32_t landing;
	uint32_t flying;
	size_t flight_bytes, congestion_bytes;
	struct fab_reply reply[FAB_REPLIES];
	uint16_t reply_order[FAB_REPLIES];
	unsigned int reply_count;
	struct fab_capture *link_captures;
	struct fab_hport *mad_ports;
	struct fab_guid_lid guid_lid[FAB_GUID_LIDS];
	enum fab_drop why;
	struct fab_data_counts n;
	void (*fronts)(const void *arg, struct fab_front_stats *st);
	const void *fronts_arg;
	uint64_t accept_stops;
	unsigned int log_left;
	uint64_t log_ns;
	uint64_t log_lost;
	uint8_t scratch[2][OHCA_LINK_MAX_FRAME];
};

/** fab_dropped() - count a dropped packet. Return: FAB_HEAD_DROP. */
static inline enum fab_kind fab_dropped(struct fab_data *d, enum fab_drop why)
{
	d->why = why;
	d->n.drop[why]++;
	return FAB_HEAD_DROP;
}

/**
 * fab_discard() - count a packet that output @out drops; @detail: counter of PortXmitDiscardDetails
 */
static inline enum fab_kind fab_discard(struct fab_data *d, struct fab_dport *out,
					uint64_t *detail, enum fab_drop why)
{
	out->ctr->xmit_discards++;
	++*detail;
	return fab_dropped(d, why);
}

/** fab_lane_at() - the lane with number @id */
static inline struct fab_lane *fab_lane_at(const struct fab_data *d, uint32_t id)
{
	return &d->all[id / FAB_DATA_LANES]->lane[id % FAB_DATA_LANES];
}

/** fab_lane_id() - the number of lane @vl of @in */
static inline uint32_t fab_lane_id(const struct fab_dport *in, unsigned int vl)
{
	return in->id * FAB_DATA_LANES + vl;
}

/** fab_enqueue() - lane @id requests lane @ovl of @out */
static inline void fab_enqueue(struct fab_data *d, struct fab_dport *out, uint32_t id)
{
	struct fab_lane *l = fab_lane_at(d, id);

	l->next = FAB_NONE_LANE;
	if (out->want & (1u << l->ovl)) {
		fab_lane_at(d, out->out[l->ovl].tail)->next = id;
	} else {
		out->want |= (uint16_t)(1u << l->ovl);
		out->out[l->ovl].head = id;
	}
	out->out[l->ovl].tail = id;
}

#endif
