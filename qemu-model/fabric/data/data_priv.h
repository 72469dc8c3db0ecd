/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The data path's own: packets, lanes, ports, and what its files call of each other. Captures
 * (watch/) look into it, too; everybody else takes data.h.
 */
#ifndef OHCA_FABRIC_DATA_PRIV_H
#define OHCA_FABRIC_DATA_PRIV_H

#include <stddef.h>

#include "hport.h"
#include "ib/mad_packet.h"
#include "ib/view.h"

#define FAB_DATA_LANES		FAB_WIRE_LANES
#define FAB_LANE_BLOCKS		FAB_WIRE_BLOCKS	/* input buffer of a lane at a local wire */
#define FAB_BUFFER_SIZES	7u	/* of buffers of packets that wait */
#define FAB_HEADERS		64u	/* bytes that are kept of a packet whose payload nobody looks at */
#define FAB_MAX_HOPS		255u	/* after so many switches a packet is in a circle */
#define FAB_WALK		1024u	/* wires that a packet and its copies go over at once */
#define FAB_BURST		64u	/* packets that a lane or an output moves in a round */
#define FAB_REPLIES		1024u	/* MADs of agents that wait for credit, ... */
#define FAB_PORT_REPLIES	64u	/* ... of one port */
#define FAB_LOOK_NS		10000000u	/* between looks at what waits for credit */
#define FAB_GUID_LIDS		256u	/* LIDs that routers have looked up last */

#define fab_likely(x)		__builtin_expect(!!(x), 1)
#define fab_unlikely(x)		__builtin_expect(!!(x), 0)

/**
 * struct fab_frame - a packet at one hop
 * @data: from the LRH to the ICRC, or with @view only to the end of the headers. Of the LRH and of
 *	a P_Key that was checked, the copies below count: a peer may write to a ring at any time
 * @view: where the payload is, if that is not in @data; gone when what an HCA sends has left it
 * @len: bytes
 * @vcrc: with OHCA_FRAME_VCRC
 * @flags: OHCA_FRAME_*
 * @vl: its lane
 * @patch: offset of a checked BTH.P_Key, 0 if none was
 * @hops: switches, and routers, it has been at
 * @corrupt: a bit of it is another one as soon as it is copied
 * @fecn: its FECN is set as soon as it is copied
 * @agent: it is a MAD that an agent sends to a machine
 * @owned: @data is that of a struct fab_buffer, which the next wire may have instead of a copy
 * @hop_limit: its HopLmt as soon as it is copied; 0: as in @data
 * @lrh: copy of the LRH
 * @pkey: copy of the P_Key, in wire order
 */
struct fab_frame {
	const uint8_t *data;
	const struct ib_view *view;
	uint32_t len;
	uint16_t vcrc;
	uint8_t flags;
	uint8_t vl;
	uint8_t patch;
	uint8_t hops;
	uint8_t hop_limit;
	uint8_t corrupt : 1;
	uint8_t fecn : 1;
	uint8_t agent : 1;
	uint8_t owned : 1;
	uint8_t lrh[IB_LRH_LEN];
	uint8_t pkey[2];
};
static_assert(sizeof(struct fab_frame) == 40, "it is copied at each hop");

/** enum fab_kind - decision on the packet at the head of a lane */
enum fab_kind {
	FAB_HEAD_NONE,		/* no packet, or it was not looked at yet */
	FAB_HEAD_DROP,
	FAB_HEAD_LOCAL,		/* for an agent of the node */
	FAB_HEAD_UCAST,
	FAB_HEAD_MCAST,
};

struct fab_congestion;
struct fab_dport;
struct fab_flight;
struct fab_tap;

/**
 * struct fab_buffer - a packet that waits in an input buffer, or is on its way over a wire
 * @next: in its lane, or in the spare ones
 * @due_ns: it is on its way until then
 * @came_ns: when it came to the switch
 * @len: bytes
 * @flags: OHCA_FRAME_*
 * @vcrc: with OHCA_FRAME_VCRC
 * @size: of the buffer, below FAB_BUFFER_SIZES
 * @lost: the link over which it goes loses it
 * @moved: it was the head of a lane, and is on its way over the next wire
 * @agent: as struct fab_frame's
 * @hops: as struct fab_frame's
 * @out, @ovl: it is counted as what waits for this lane of an output, see congestion.c; NULL: it is not
 */
struct fab_buffer {
	struct fab_buffer *next;
	uint64_t due_ns;
	uint64_t came_ns;
	uint32_t len;
	uint16_t flags;
	uint16_t vcrc;
	uint8_t size;
	bool lost;
	bool moved;
	bool agent;
	uint8_t hops;
	uint8_t ovl;
	struct fab_dport *out;
	uint8_t data[];
};

/**
 * struct fab_lane - one lane of an input port, and its head
 * @kind: enum fab_kind, valid while @version is the data path's
 * @ovl: lane at the output; of FAB_HEAD_MCAST at the output that is served now
 * @started: some outputs of FAB_HEAD_MCAST have had their copy, or it was discarded there
 * @seen: the head was looked at before; what the link did to it is known, and a capture has it
 * @lost: the link that it came by has lost it
 * @forks: what the decision has added to fab_data.n.forks
 * @listed: in fab_data.mcast
 * @next: lane that requests the same output lane after this one, or FAB_NONE_LANE
 * @version: of the decision
 * @out: output of FAB_HEAD_UCAST
 * @blocked_ns: since when it waits, 0: it does not
 * @came_ns: when the head came to the switch, if that was before it became the head, or 0
 * @mark_ns: what came by the link up to @mark was there then; 0: there is no mark
 * @mc: outputs of FAB_HEAD_MCAST that lack their copy
 * @f: the head
 * @first, @last: what waits, of a local wire; the first is the head unless @passing
 * @used: blocks of the input buffer in use, with those that are @gone, and that are @freed at the end of
 *	the round
 * @gone: of the wire that leads here, see struct fab_fault
 * @mark: position in the link's ring, see @mark_ns
 * @passing: @f is on its way through, and is not in the buffer
 * @routed: FAB_HEAD_UCAST leaves a router, with the LIDs @slid and @dlid and a HopLmt one smaller
 * @counted: blocks that it is counted with in the @heads of its output; 0: it is not
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

#define FAB_NONE_LANE	0xffffffffu
#define FAB_PKEYS_UNKNOWN	0xffffu	/* num_pkeys: the first packet that needs it counts them */

/** struct fab_hport_mad - a packet of VL15, of @len bytes */
struct fab_hport_mad {
	uint16_t len;
	uint8_t pkt[FAB_HPORT_MAD_LEN];
};

/**
 * struct fab_hport - a port of an HCA in this process, see hport.h
 * @d: the data path
 * @dp: the switch's port that it is at
 * @ops, @ctx: as of fab_hport_attach()
 * @cfg: what it is
 * @near, @far: settings of the switch's end, and of the HCA's
 * @vls: lanes that both ends have
 * @up: the link is, as both ends know
 * @due: an end has trained it since
 * @refused: lanes without room for what the HCA had
 * @dropped: packets of VL15 for which the HCA had no room
 * @flow: [FAB_FLOWS] of what it sends
 * @series: of the packets that the next fab_hport_commit() is about
 * @next: of fab_data.mad_ports, if @listed
 * @mad: [FAB_HPORT_MADS] packets of VL15, @mads in use from @first_mad; NULL: it sends none
 */
struct fab_hport {
	struct fab_data *d;
	struct fab_dport *dp;
	const struct fab_hport_ops *ops;
	void *ctx;
	struct ohca_link_cfg cfg;
	struct ohca_link_phy near, far;
	uint8_t vls;
	bool up, due, listed;
	uint16_t refused;
	uint64_t dropped;
	struct fab_flow *flow;
	const struct fab_flow *series;
	struct fab_hport *next;
	unsigned int mads, first_mad;
	struct fab_hport_mad *mad;
};

/**
 * struct fab_out_lane - a lane of an output
 * @head, @tail: of the input lanes that request it in this round, or are parked, if it is in @want
 * @turn: of the input lane that was served last: its port, then its VL
 * @heads: of a switch with adaptive routing, blocks of the unicast heads that wait for it
 * @stall_end_ns: until then it is stalled, if it is
 * @wait_vl_ns: PortVLXmitWait is counted up to there, if it waits
 */
struct fab_out_lane {
	uint32_t head, tail, turn;
	uint32_t heads;
	uint64_t stall_end_ns;
	uint64_t wait_vl_ns;
};

#define FAB_OUTLETS	16u	/* that a port knows; a power of two */

/**
 * struct fab_outlet - where unicast packets leave that come by a port; it holds while @version is the
 *	data path's
 * @out, @ovl: the output, which is up and Active, and the lane there; neither it nor the input looks at
 *	P_Keys, or at raw packets
 * @dlid, @sl: of the packets
 */
struct fab_outlet {
	struct fab_dport *out;
	uint32_t version;
	uint16_t dlid;
	uint8_t sl;
	uint8_t ovl;
};

/**
 * struct fab_dport - a port that has seen data; what each packet needs is at its begin
 * @p: index in the graph
 * @id: index in fab_data.all
 * @num: number in its node
 * @is_switch: of a switch; @is_router: of a router; any other node takes what arrives
 * @buffers: heads are in the input buffer; else in the link's rings
 * @up, @active, @receives, @nvls, @max_len, @arb_vls, @num_pkeys, @pkeys, @arb_index, @life_ns: of
 *	the graph, as of fab_data.epoch; @life_ns is the switch's LifeTimeValue, UINT64_MAX of a router
 * @link: the wire leads out of the process; NULL: local
 * @hport: it leads to an HCA in this process, or NULL
 * @peer: other end of a local wire, or NULL
 * @tap: captures of it, or NULL
 * @fault: of packets that leave, or NULL
 * @rx_fault: of packets that come by the link or from the HCA, or NULL
 * @congestion: of a switch that marks packets, or NULL
 * @flight: packets on their way over a wire with a delay, or a rate, that arrive, and that leave by
 *	the link; NULL: there were none yet
 * @leaks: lanes have lost credits
 * @want: output lanes that are requested in this round, or parked
 * @starved: output lanes of parked requests that wait for credit of the next buffer
 * @sent, @refused: output lanes that sent, and that had to wait, in this round
 * @waiting: output lanes that wait since an earlier round
 * @stalled: output lanes in the state VLStalled
 * @buffered: lanes with packets in the input buffer
 * @parked: lanes with packets in the input buffer whose heads an output has parked (park.c)
 * @queued, @out_listed, @touched, @woken: in fab_data.queue, .outs, .touch, .woken
 * @parks: requests of earlier rounds are parked at this output, and it is not asked for them
 * @freed: in fab_data.freed, with lanes that have @freed
 * @ucast: unicast requests of this round, or parked
 * @wait_ns: of those in @waiting: PortXmitWait is counted up to there
 * @hoq_drops: discards by HOQLife since a packet last left
 * @full: lanes of the rings whose packets have to wait until those on their way have arrived
 * @out: its lanes as an output
 * @lane: its lanes as an input
 * @outlet: of what comes by it, by the DLID
 * @pending: lanes with packets, as of this round
 * @ctrl_due: events of the link are left for the next round
 * @vl15_seen: of the peer's count of VL15 packets that it dropped
 * @replies: of fab_data.reply, that wait for it
 * @peer_guid: PortGUID that was attached last, which has its place again
 * @idle: the link sleeps, and is not in fab_data.awake: what comes by its socket ends that
 * @used: in fab_data.used
 * @stall_listed: in fab_data.stall
 */
struct fab_dport {
	uint32_t p;
	uint32_t id;
	uint8_t num, nvls;
	bool is_switch, is_router, buffers, leaks, up, active, receives, idle;
	struct ohca_link *link;
	struct fab_hport *hport;
	struct fab_dport *peer;
	struct fab_tap *tap;
	struct fab_fault *fault, *rx_fault;
	struct fab_congestion *congestion;
	struct fab_flight *flight[2];
	struct ohca_port_counters *ctr;
	uint32_t max_len;
	uint16_t arb_vls;
	uint16_t want, starved;
	uint16_t sent, refused, waiting, stalled;
	uint16_t buffered, parked;
	bool queued, out_listed, touched, woken, parks;
	uint8_t hoq_drops[FAB_DATA_LANES];
	uint16_t freed;
	uint32_t ucast;
	uint64_t wait_ns;
	uint64_t life_ns;
	uint16_t full;
	uint16_t num_pkeys;
	uint32_t pending;
	struct fab_out_lane out[FAB_DATA_LANES];
	struct fab_lane lane[FAB_DATA_LANES];
	struct ib_vlarb arb;
	struct fab_outlet outlet[FAB_OUTLETS];
	const uint16_t *pkeys;
	uint32_t arb_index;
	uint32_t vl15_seen;
	uint32_t replies;
	uint64_t peer_guid;
	bool ctrl_due, used, stall_listed;
};

/**
 * struct fab_guid_lid - a LID that a router has looked up, see route.c
 * @guid: PortGUID in the subnet of router port @out
 * @version: of the data path
 * @lid: its LID, or 0
 */
struct fab_guid_lid {
	uint64_t guid;
	uint32_t out;
	uint32_t version;
	uint16_t lid;
};

#define FAB_DPORT_HOT	offsetof(struct fab_dport, full)	/* bytes that each packet needs */
#define FAB_CACHE_LINE	64u

/** fab_prefetch() - @n bytes at @p are on their way to the cache; NULL: there are none */
static inline void fab_prefetch(const void *p, size_t n)
{
	for (size_t at = 0; at < n; at += FAB_CACHE_LINE)
		__builtin_prefetch((const char *)p + at);
}

/** fab_prefetch_wire() - so is what it takes to send a packet by lane @vl of @out */
static inline void fab_prefetch_wire(const struct fab_dport *out, unsigned int vl)
{
	__builtin_prefetch(out->fault);
	__builtin_prefetch(out->ctr);
	if (out->peer)
		__builtin_prefetch(&out->peer->lane[vl]);
}

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
 * @by_port: [ports of the graph] its struct fab_dport or NULL
 * @all: [@count] all of them
 * @linked: [@links] those with a link or an HCA
 * @by_guid: of these, their places in @all by the PortGUIDs of their peers
 * @awake: [@nawake] those whose links a round looks at: all but the idle ones
 * @used: [@nused] idle ones by whose links something leaves
 * @stall: [@nstall] those with stalled lanes, the first of which ends at @stall_due_ns
 * @queue: [@queues] those with something in the input buffer that is not parked
 * @outs: [@nouts] requested in this round
 * @woken: [@nwoken] those whose parked requests have their turn again in the next one
 * @freed: [@nfreed] those with more room in the input buffer when this round ends
 * @touch: [@touches] sent or waiting in this round
 * @mcast: [@nmcast] lanes with multicast heads of this round
 * @cap: room in each of these arrays, of @mcast for each lane
 * @epoch: of the management whose tables are in the ports
 * @parks: ports with @parks, since @park_version; one that waits there is too old after @park_ns
 * @refreshes: times that a port took over what management has changed
 * @version: of the ports; heads that were decided on in another one are decided on again
 * @walk: wires that are left to the packet at hand before it waits
 * @first: rotates the port that comes first
 * @blocked: lanes that wait
 * @stalls: output lanes that are stalled
 * @now_ns: of this round; 0: not read yet
 * @seen_ns: the clock when it was read last
 * @flights: packets on wires with a delay, or a rate, @flying in all; @flight_bytes without these
 *	packets
 * @congestion_bytes: of what ports have for congestion control
 * @landings: timers of those of @flights that wait for a time, @starved those that wait for credit
 * @landing: number of the last fab_delay_round()
 * @paced: timers of the wires that something waits for
 * @spare: buffers that are free, by their size
 * @made, @in_use, @peak: buffers by size: all, those that are not spare, and most of these since
 *	the last look at them; the next is at @trim_due_ns
 * @reply_order: @reply_count in use, then the free ones
 * @link_captures: captures with link packets
 * @mad_ports: HCAs' ports whose MADs wait
 * @scratch: a packet as an HCA builds it, and one as an HCA gets it
 * @guid_lid: by the hash of the GUID
 * @why: the packet that ended last did so
 * @n: what it has counted
 * @fronts, @fronts_arg: as of fab_data_set_fronts()
 * @accept_stops: times that peers had to wait for a descriptor, or memory
 * @log_left: lines that may be logged now, which grew at @log_ns last
 * @log_lost: lines that were left out since the last one
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

/** fab_leads_out() - the wire of @dp is not one of the graph: it leads to a machine or an HCA */
static inline bool fab_leads_out(const struct fab_dport *dp)
{
	return dp->link || dp->hport;
}

/** fab_dport() - the data side of port @p, made if there is none. Return: NULL if out of memory. */
struct fab_dport *fab_dport(struct fab_data *d, uint32_t p);

/** fab_dport_free() - free it and what waits there; close its link */
void fab_dport_free(struct fab_data *d, struct fab_dport *dp);

/** fab_link_set_phy() - the link of @dp trains next with the settings of its port */
void fab_link_set_phy(struct fab_data *d, const struct fab_dport *dp);

/** fab_link_wake() - a round looks at the link of @dp from now on, whose sleep is over */
void fab_link_wake(struct fab_data *d, struct fab_dport *dp);

/** fab_link_use() - something leaves by the idle link of @dp. Credits that come end its sleep. */
void fab_link_use(struct fab_data *d, struct fab_dport *dp);

/** fab_links_used() - kick what is in fab_data.used */
void fab_links_used(struct fab_data *d);

/**
 * fab_hport_takes() - whether @n packets of @len bytes may go to the HCA by lane @vl now
 *
 * One of VL15 that finds the link up and no room is dropped, and counted.
 */
static inline bool fab_hport_takes(struct fab_hport *h, unsigned int vl, unsigned int n,
				   uint32_t len)
{
	if (fab_unlikely(!h->up || h->due || (vl >= h->vls && vl != IB_MGMT_VL)))
		return false;
	if (fab_likely(h->ops->room(h->ctx, vl, n, len)))
		return true;
	h->dropped += vl == IB_MGMT_VL;
	return false;
}

/**
 * fab_tx_begin() - room for a packet of @len bytes that leaves @out by its link, or for its HCA
 *
 * Return: where to write it, or NULL: there is no credit.
 */
static inline uint8_t *fab_tx_begin(struct fab_data *d, struct fab_dport *out, unsigned int vl,
				    uint32_t len)
{
	uint8_t *b;

	if (out->hport)
		return fab_hport_takes(out->hport, vl, 1, len) ? d->scratch[1] : NULL;
	b = ohca_link_tx_begin(out->link, vl, len);
	if (fab_unlikely(out->idle && b))
		fab_link_use(d, out);
	return b;
}

/**
 * fab_port_attach() - link @l or HCA @h is at switch port @p from now on
 * Return: false if out of memory; nothing has changed.
 */
bool fab_port_attach(struct fab_data *d, uint32_t p, struct ohca_link *l, struct fab_hport *h);

/** fab_port_detach() - what is at @dp goes, because of @why, and is freed */
void fab_port_detach(struct fab_data *d, struct fab_dport *dp, const char *why);

/**
 * fab_port_up() - the wire out of @dp has trained to @st with @peer
 * @st: its width and speeds, or sets of bits
 * @vls: lanes that both have
 *
 * Return: false: they have nothing in common.
 */
bool fab_port_up(struct fab_data *d, struct fab_dport *dp, const struct ohca_link_cfg *peer,
		 const struct ohca_link_state *st, unsigned int vls);

/** fab_port_down() - it went down */
void fab_port_down(struct fab_data *d, struct fab_dport *dp);

/** fab_hport_due() - an end of the link of @h has trained it: fab_hport_settle() follows */
static inline void fab_hport_due(struct fab_hport *h)
{
	h->due = true;
	h->dp->ctrl_due = true;
	h->d->ctrl_due = true;
}

/** fab_hport_settle() - the link goes down and up as the ends have trained it */
void fab_hport_settle(struct fab_hport *h);

/** fab_hport_round() - MADs of HCAs go to management. Return: whether there were any. */
bool fab_hport_round(struct fab_data *d);

/** fab_hport_forget() - those of @h are lost */
void fab_hport_forget(struct fab_hport *h);

/** fab_hport_free() - free it; NULL is none */
void fab_hport_free(struct fab_hport *h);

/** fab_link_train() - train of struct fab_wires; @ctx: the data path */
void fab_link_train(void *ctx, uint32_t port, bool enable);

/** fab_ports_meet() - meet of struct fab_wires; @ctx: the data path */
bool fab_ports_meet(void *ctx, uint32_t a, uint32_t b);

/** fab_link_count() - count of struct fab_wires; @ctx: the data path */
void fab_link_count(void *ctx, uint32_t port);

/** fab_link_ctrl() - as fab_data_ctrl(), of port @dp */
bool fab_link_ctrl(struct fab_data *d, struct fab_dport *dp);

/** fab_clock_read() - begin the time of this round. Return: it, as fab_data_now(). */
uint64_t fab_clock_read(struct fab_data *d);

/** fab_data_now() - time of this round in ns, without the times in which the daemon stood still */
static inline uint64_t fab_data_now(struct fab_data *d)
{
	return fab_likely(d->now_ns) ? d->now_ns : fab_clock_read(d);
}

/** fab_data_clock() - the same with them: for what is measured, not limited */
static inline uint64_t fab_data_clock(struct fab_data *d)
{
	const uint64_t now = fab_data_now(d);	/* which may add to stood_ns */

	return now + d->n.stood_ns;
}

/** fab_dport_refresh() - take over what management has changed at @dp */
void fab_dport_refresh(struct fab_data *d, struct fab_dport *dp);

/** fab_touch() - @dp is looked at when this round ends */
void fab_touch(struct fab_data *d, struct fab_dport *dp);

/** fab_decide() - decide on the packet in @l->f; once for each packet, since it counts errors */
enum fab_kind fab_decide(struct fab_data *d, struct fab_dport *in, struct fab_lane *l);

/**
 * fab_route_find() - where the head @l, which has come to router port @in, goes on
 * @out: written if it does; the head is @routed then
 *
 * Return: FAB_HEAD_UCAST: it leaves by *@out; FAB_HEAD_LOCAL: it is for the port itself; FAB_HEAD_DROP: it
 * was counted.
 */
enum fab_kind fab_route_find(struct fab_data *d, struct fab_dport *in, struct fab_lane *l,
			     uint32_t *out);

/** fab_route_frame() - @f becomes the head @l, which is @routed, with the headers of its next subnet */
void fab_route_frame(const struct fab_lane *l, struct fab_frame *f);

/** fab_damaged() - whether a packet is damaged as its OHCA_FRAME_* @flags say. Counts it. */
bool fab_damaged(struct fab_data *d, struct fab_dport *in, const uint8_t *data, uint32_t len,
		 uint16_t flags, uint16_t vcrc);

/** fab_pkey_in_table() - whether who is at port @dp may send @pkey, if @inbound, or takes it */
bool fab_pkey_in_table(struct fab_dport *dp, uint16_t pkey, bool inbound);

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

/** fab_has_output() - it has output @num */
static inline bool fab_has_output(const struct fab_lane *l, unsigned int num)
{
	return l->mc[num / 64] >> (num % 64) & 1;
}

/** fab_clear_output() - it does not any more */
static inline void fab_clear_output(struct fab_lane *l, unsigned int num)
{
	l->mc[num / 64] &= ~(1ull << (num % 64));
}

/** fab_mcast_vl() - lane at @out of a multicast head of @in, or -1 */
int fab_mcast_vl(const struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		 const struct fab_dport *out);

/** fab_dropped() - one packet ended. Return: FAB_HEAD_DROP. */
static inline enum fab_kind fab_dropped(struct fab_data *d, enum fab_drop why)
{
	d->why = why;
	d->n.drop[why]++;
	return FAB_HEAD_DROP;
}

/** fab_discard() - one packet ended at its output @out; @detail: of PortXmitDiscardDetails */
static inline enum fab_kind fab_discard(struct fab_data *d, struct fab_dport *out,
					uint64_t *detail, enum fab_drop why)
{
	out->ctr->xmit_discards++;
	++*detail;
	return fab_dropped(d, why);
}

/**
 * fab_drop_head() - the head @l ends: one packet, or each copy of multicast that has not left
 *
 * So what came, and forks, stay what was delivered, dropped, or still waits.
 */
void fab_drop_head(struct fab_data *d, const struct fab_lane *l, enum fab_drop why);

/** fab_forward_round() - the heads of all lanes request outputs, which serve them */
bool fab_forward_round(struct fab_data *d);

/** fab_forget_heads() - the link of @dp is down: the packets in its rings are gone */
void fab_forget_heads(struct fab_data *d, struct fab_dport *dp);

/** fab_blocked_lanes() - input lanes of @dp whose heads wait */
uint32_t fab_blocked_lanes(const struct fab_data *d, const struct fab_dport *dp);

/** fab_block() - the head of lane @vl of @in waits from now on */
void fab_block(struct fab_data *d, struct fab_dport *in, unsigned int vl);

/** fab_came() - the head of lane @vl of @in, which has a mark, is another one: when did it come? */
void fab_came(struct fab_dport *in, unsigned int vl);

/** fab_unblock() - it does not any more */
void fab_unblock(struct fab_data *d, struct fab_lane *l);

/** fab_too_old() - what waits for @out since @since_ns, 0: does not, has outlived HOQLife */
bool fab_too_old(struct fab_data *d, const struct fab_dport *out, uint64_t since_ns);

/** fab_outlived() - what is at the switch of @dp since @since_ns has outlived its LifeTimeValue */
bool fab_outlived(struct fab_data *d, const struct fab_dport *dp, uint64_t since_ns);

/**
 * fab_expire() - discard the head @l of @in if it is too old to leave by lane @vl of @out
 *
 * The packet is counted as what HOQLife or LifeTimeValue discards (18.2.5.4).
 *
 * Return: whether it was.
 */
bool fab_expire(struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		struct fab_dport *out, unsigned int vl);

/** fab_expiry() - fab_expire() is true after that time, if nothing changes; UINT64_MAX: never */
uint64_t fab_expiry(const struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		    const struct fab_dport *out);

/**
 * fab_hoq_discard() - count what HOQLife or VLStalled discards of lane @vl of @out
 *
 * After VLStallCount of them in sequence the lane is stalled: for 8 * HOQLife all that is for it
 * is discarded at once (18.2.5.4).
 */
void fab_hoq_discard(struct fab_data *d, struct fab_dport *out, unsigned int vl);

/** fab_end_stalls() - end those that have expired */
void fab_end_stalls(struct fab_data *d);

/** fab_unstall_all() - end those of @dp */
void fab_unstall_all(struct fab_data *d, struct fab_dport *dp);

/** fab_count_wait() - bring PortXmitWait and PortVLXmitWait of @dp up to date (16.1.3.5) */
void fab_count_wait(struct fab_data *d, struct fab_dport *dp);

/** fab_settle() - a round ends: begins and ends waits of output lanes */
void fab_settle(struct fab_data *d);

/**
 * fab_store() - copy a packet into the input buffer of @in
 * @front: it is the head of its lane, and was decided on
 *
 * Return: false if out of memory.
 */
bool fab_store(struct fab_data *d, struct fab_dport *in, unsigned int vl,
	       const struct fab_frame *f, bool front);

/** fab_store_own() - @b, in which the head of lane @vl of @in is, is in the input buffer there */
void fab_store_own(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b);

/** fab_free_room() - a round with rates ends: fab_release() has made room, which is there from now on */
void fab_free_room(struct fab_data *d);

/** fab_fits() - the input buffer of lane @vl of @in has room for @len bytes */
bool fab_fits(const struct fab_dport *in, unsigned int vl, uint32_t len);

/** fab_peek() - what waits in lane @vl of @in is its head. Return: false: nothing does. */
bool fab_peek(struct fab_dport *in, unsigned int vl);

/**
 * fab_release() - the head of the input buffer is done
 * @next: what is behind it
 */
void fab_release(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b,
		 struct fab_buffer *next);

/** fab_append() - @b is the last packet in the input buffer of @in from now on */
void fab_append(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b);

/** fab_buffer_frame() - @b as the packet at the head of lane @vl */
void fab_buffer_frame(const struct fab_buffer *b, unsigned int vl, struct fab_frame *f);

/** fab_buffer_get() - a buffer for @len bytes. Return: NULL: out of memory. */
struct fab_buffer *fab_buffer_get(struct fab_data *d, uint32_t len);

/** fab_buffer_put() - @b is not used any more */
void fab_buffer_put(struct fab_data *d, struct fab_buffer *b);

/**
 * fab_buffers_trim() - free spare buffers that the last minute did not need, some at once
 * Return: ns until it is to run again; UINT64_MAX: there is nothing that it could free.
 */
uint64_t fab_buffers_trim(struct fab_data *d);

/** fab_buffers_free() - free what waits at @dp, NULL: the spare ones */
void fab_buffers_free(struct fab_data *d, struct fab_dport *dp);

/** fab_copy_head() - write to @b what of @f with lane @vl may differ from @f->data */
void fab_copy_head(uint8_t *b, const struct fab_frame *f, unsigned int vl);

/** fab_kept() - bytes of a packet of @len that a buffer keeps */
static inline uint32_t fab_kept(const struct fab_data *d, uint32_t len)
{
	return fab_unlikely(d->cfg.headers) && len > FAB_HEADERS ? FAB_HEADERS : len;
}

/** fab_copy() - write @f with lane @vl to @b, as much as fab_kept() says */
void fab_copy(const struct fab_data *d, uint8_t *b, const struct fab_frame *f, unsigned int vl);

/** fab_damage() - another bit in the packet @b, which has a BTH: its ICRC tells, no VCRC does */
void fab_damage(uint8_t *b, uint32_t len);

/** fab_icrc_flag() - OHCA_FRAME_ICRC if fab_copy() of @f has an ICRC, right or wrong */
static inline uint16_t fab_icrc_flag(const struct fab_frame *f)
{
	return f->corrupt ? OHCA_FRAME_ICRC : f->flags & OHCA_FRAME_ICRC;
}

/**
 * fab_commit() - a frame at @b, for which fab_tx_begin() had room, leaves @out
 * @view: where its payload is, if that is not at @b: only to an HCA, and not @lost
 * @flags: OHCA_FRAME_ICRC or 0
 * @lost: on its way it is damaged
 * @agent: it is a MAD that an agent has sent
 */
void fab_commit(struct fab_data *d, const struct fab_dport *out, unsigned int vl, const uint8_t *b,
		const struct ib_view *view, uint32_t len, uint16_t flags, bool lost, bool agent);

/** fab_keep_heads() - heads in the rings of @dp's link are in its input buffer from now on */
void fab_keep_heads(struct fab_data *d, struct fab_dport *dp);

/** fab_arrived() - @b has come over a wire to @in; takes it */
void fab_arrived(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b);

/**
 * fab_is_delayed() - a packet that leaves now takes its time
 * @dp, @out: of struct fab_flight: where it arrives, or by whose link it leaves
 * @x: fault of that wire
 */
bool fab_is_delayed(const struct fab_dport *dp, bool out, unsigned int vl,
		    const struct fab_fault *x);

/** fab_delay_fits() - one of @len bytes may be on its way by the link of @dp */
bool fab_delay_fits(const struct fab_dport *dp, unsigned int vl, uint32_t len);

/** fab_delay_lands() - what has left last by that lane of @dp arrives now: the next one follows then */
bool fab_delay_lands(struct fab_data *d, const struct fab_dport *dp, unsigned int vl);

/** fab_delay_empty() - no packet of that lane is on its way by the link of @dp */
bool fab_delay_empty(const struct fab_dport *dp, unsigned int vl);

/**
 * fab_delay() - it is, or was dropped; @lost: it is damaged there
 * @left_ns: when it has left, of fab_pace_take()
 */
void fab_delay(struct fab_data *d, struct fab_dport *dp, bool out, unsigned int vl,
	       const struct fab_frame *f, struct fab_fault *x, bool lost, uint64_t left_ns);

/** fab_delay_take() - so is what has come by the link of @in. Return: whether anything was. */
bool fab_delay_take(struct fab_data *d, struct fab_dport *in);

/** fab_delay_round() - what is due arrives. Return: whether anything did. */
bool fab_delay_round(struct fab_data *d);

/** fab_delay_due() - ns until something is due; UINT64_MAX: nothing is on its way */
uint64_t fab_delay_due(struct fab_data *d);

/** fab_delay_forget() - packets at @dp are lost, of links that went down or @all */
void fab_delay_forget(struct fab_data *d, struct fab_dport *dp, bool all);

/**
 * fab_park() - @out has had its turn, and has requests left
 * @may: nothing but fab_wake() lets it send any
 * @starved: lanes of these that wait for credit of the next buffer
 */
void fab_park(struct fab_data *d, struct fab_dport *out, bool may, uint16_t starved);

/** fab_park_begin() - a round begins: all are asked again if anything has changed, or is too old */
void fab_park_begin(struct fab_data *d);

/** fab_park_joins() - the head of @in's lane @vl is parked at @out at once. Return: if it is. */
bool fab_park_joins(struct fab_data *d, struct fab_dport *in, unsigned int vl,
		    struct fab_dport *out);

/** fab_park_join() - those of fab_data.woken have their turns in this round, too */
void fab_park_join(struct fab_data *d);

/** fab_unpark() - lane @vl of @in is looked at in the next round */
void fab_unpark(struct fab_data *d, struct fab_dport *in, unsigned int vl);

/** fab_wake() - @out may be able to send what is parked there */
void fab_wake(struct fab_data *d, struct fab_dport *out);

/** fab_credit() - the input buffer of @in has more room */
static inline void fab_credit(struct fab_data *d, const struct fab_dport *in)
{
	if (in->peer && fab_unlikely(in->peer->starved))
		fab_wake(d, in->peer);
}

/** fab_lane_at() - the lane with that number */
static inline struct fab_lane *fab_lane_at(const struct fab_data *d, uint32_t id)
{
	return &d->all[id / FAB_DATA_LANES]->lane[id % FAB_DATA_LANES];
}

/** fab_lane_id() - the number of lane @vl of @in */
static inline uint32_t fab_lane_id(const struct fab_dport *in, unsigned int vl)
{
	return in->id * FAB_DATA_LANES + vl;
}

/** fab_enqueue() - lane @id requests its lane @ovl of @out */
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

/** fab_is_paced() - the wire of output @out has a rate */
static inline bool fab_is_paced(const struct fab_dport *out)
{
	return fab_unlikely(out->fault) && out->fault->byte_fs;
}

/** fab_pace_set() - the wire of @dp has the rate of its link, in both directions if it leads out */
void fab_pace_set(struct fab_data *d, const struct fab_dport *dp);

/** fab_pace_busy() - the wire sends until later; then there is a round, and it is asked again */
bool fab_pace_busy(struct fab_data *d, struct fab_fault *x);

/**
 * fab_pace_take() - the wire sends a packet of @len bytes of lane @vl, now or when it is ready
 * Return: when it has left.
 */
uint64_t fab_pace_take(struct fab_data *d, struct fab_fault *x, unsigned int vl, uint32_t len);

/** fab_pace_round() - who waits for wires that are ready by now may ask. Return: whether any is. */
bool fab_pace_round(struct fab_data *d);

/** fab_pace_due() - ns until a wire is ready that something waits for; UINT64_MAX: there is none */
uint64_t fab_pace_due(struct fab_data *d);

/** fab_pace_free() - nobody waits any more */
void fab_pace_free(struct fab_data *d);

/** fab_delay_free() - free what is on its way */
void fab_delay_free(struct fab_data *d);

/**
 * fab_vl15_rx() - a VL15 packet came in by the link of @in; @data is copied, then checked
 * @flags: OHCA_FRAME_*
 */
void fab_vl15_rx(struct fab_data *d, struct fab_dport *in, const uint8_t *data, size_t len,
		 uint16_t flags);

/**
 * fab_gsi_rx() - a data packet for an agent of the node of @in, or one that fab_gsi_held() has chosen
 * @tap: captures of @in that are to have it, or NULL
 */
void fab_gsi_rx(struct fab_data *d, struct fab_dport *in, const struct fab_frame *f,
		const struct fab_tap *tap);

/** fab_gmp_faulty() - a fault of the machine at @dp is about MADs in packets of data lanes */
static inline bool fab_gmp_faulty(const struct fab_data *d, const struct fab_dport *dp)
{
	return fab_unlikely(d->m->mad_faults) && fab_leads_out(dp) &&
	       fab_mad_faulty(d->m, d->f->port[d->f->port[dp->p].peer].node);
}

/** fab_gsi_held() - a fault of a machine at @in or @out is about the MAD in @f, which is to go on from @in to @out */
bool fab_gsi_held(struct fab_data *d, const struct fab_dport *in, const struct fab_dport *out,
		  const struct fab_frame *f);

/**
 * fab_mad_packet() - write a packet with @mad, LRH to ICRC
 * @pkt: has room for IB_MAD_PKT_MAX bytes
 * @vl: its lane
 *
 * Return: its length.
 */
size_t fab_mad_packet(uint8_t *pkt, const struct fab_mad *mad, uint8_t vl);

/** fab_gsi_send() - MAD @mad leaves by the link of switch port @port. Return: false: it is lost. */
bool fab_gsi_send(void *ctx, uint32_t port, const struct fab_mad *mad);

/**
 * fab_gsi_land() - SMP @mad has come over the link at port @port, whose wire has delayed it
 * @ctx: the data path
 * @port: by which it has left: a switch's, or a machine's
 */
void fab_gsi_land(void *ctx, uint32_t port, const struct fab_mad *mad);

/** fab_reply_flush() - send MADs of agents that wait. Return: whether any left. */
bool fab_reply_flush(struct fab_data *d);

#endif
