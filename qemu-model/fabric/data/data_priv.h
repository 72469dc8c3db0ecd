/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Private part of the data path: packets, lanes, ports, and the functions that its files share.
 * Captures (watch/) use it, too; all other code includes data.h.
 */
#ifndef OHCA_FABRIC_DATA_PRIV_H
#define OHCA_FABRIC_DATA_PRIV_H

#include <stddef.h>

#include "hport.h"
#include "ib/mad_packet.h"
#include "ib/view.h"

#define FAB_DATA_LANES		FAB_WIRE_LANES
#define FAB_LANE_BLOCKS		FAB_WIRE_BLOCKS	/* input buffer of a lane at a local wire */
#define FAB_BUFFER_SIZES	7u	/* sizes of buffers for packets that wait */
#define FAB_HEADERS		64u	/* bytes that are kept of a packet whose payload is not read
*/
#define FAB_MAX_HOPS		255u	/* a packet that crosses more switches is in a loop */
#define FAB_WALK		1024u	/* wires that a packet and its copies cross at once */
#define FAB_BURST		64u	/* packets that a lane or an output moves in a round */
#define FAB_REPLIES		1024u	/* MADs of agents that wait for credit, ... */
#define FAB_PORT_REPLIES	64u	/* ... of one port */
#define FAB_LOOK_NS		10000000u	/* between checks of packets that wait for credit */
#define FAB_GUID_LIDS		256u	/* cached LIDs of PortGUIDs, for routers */

#define fab_likely(x)		__builtin_expect(!!(x), 1)
#define fab_unlikely(x)		__builtin_expect(!!(x), 0)

/**
 * struct fab_frame - a packet at one hop
 * @data: from the LRH to the ICRC, or with @view only to the end of the headers. The copies below
 *	of the LRH and of a checked P_Key are valid, not those in @data: a peer may write to a ring
 *	at any time
 * @view: the payload, if that is not in @data; invalid as soon as the packet has left the HCA
 * @len: bytes
 * @vcrc: the VCRC, with OHCA_FRAME_VCRC
 * @flags: OHCA_FRAME_*
 * @vl: its lane
 * @patch: offset of a checked BTH.P_Key, 0 if none was checked
 * @hops: switches and routers that it has crossed
 * @corrupt: copies of it get one wrong bit
 * @fecn: copies of it get FECN
 * @agent: it is a MAD that an agent sends to a machine
 * @owned: @data is that of a struct fab_buffer, which the next wire may use instead of a copy
 * @hop_limit: HopLmt of copies of it; 0: as in @data
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
	FAB_HEAD_NONE,		/* no packet, or no decision yet */
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
 * @next: next one of its lane, or of the spare ones
 * @due_ns: time at which it arrives
 * @came_ns: time at which it arrived at the switch
 * @len: bytes
 * @flags: OHCA_FRAME_*
 * @vcrc: the VCRC, with OHCA_FRAME_VCRC
 * @size: index of its size, below FAB_BUFFER_SIZES
 * @lost: the link loses it
 * @moved: it was the head of a lane, and is on its way over the next wire
 * @agent: as in struct fab_frame
 * @hops: as in struct fab_frame
 * @out, @ovl: the lane of an output for which it is counted as queued, see congestion.c; NULL: none
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

#define FAB_NONE_LANE	0xffffffffu
#define FAB_PKEYS_UNKNOWN	0xffffu	/* num_pkeys: not counted yet */

/** struct fab_hport_mad - a packet of VL15, of @len bytes */
struct fab_hport_mad {
	uint16_t len;
	uint8_t pkt[FAB_HPORT_MAD_LEN];
};

/**
 * struct fab_hport - a port of an HCA in this process, see hport.h
 * @d: the data path
 * @dp: the switch's port at the other end
 * @ops, @ctx: arguments of fab_hport_attach()
 * @cfg: the HCA's description of its port
 * @near, @far: settings of the switch's end, and of the HCA's
 * @vls: lanes that both ends have
 * @up: the state of the link, as both ends know it
 * @due: an end has trained the link; fab_hport_settle() follows
 * @refused: lanes without room when the HCA wanted to send
 * @dropped: packets of VL15 for which the HCA had no room
 * @flow: [FAB_FLOWS] flows of the packets that it sends
 * @series: flow of the packets of the next fab_hport_commit(), if they are a series
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

#define FAB_OUTLETS	16u	/* outlets that a port caches; a power of two */

/**
 * struct fab_outlet - cached output of unicast packets that arrive by a port; valid while @version
 *	equals the data path's
 * @out, @ovl: the output, which is up and Active, and the lane there. Neither the output nor the
 *	input filters by P_Key or raw packets
 * @dlid, @sl: DLID and SL of the packets
 */
struct fab_outlet {
	struct fab_dport *out;
	uint32_t version;
	uint16_t dlid;
	uint8_t sl;
	uint8_t ovl;
};

/**
 * struct fab_dport - a port that has carried data; members that each packet needs come first
 * @p: index in the graph
 * @id: index in fab_data.all
 * @num: number in its node
 * @is_switch: of a switch; @is_router: of a router; a port of any other node consumes what arrives
 * @buffers: heads are in the input buffer; else in the link's rings
 * @up, @active, @receives, @nvls, @max_len, @arb_vls, @num_pkeys, @pkeys, @arb_index, @life_ns:
 *	copied from the graph at fab_data.epoch; @life_ns is the switch's LifeTimeValue, UINT64_MAX
 *	for a router
 * @link: the wire leaves the process; NULL: local
 * @hport: it leads to an HCA in this process, or NULL
 * @peer: other end of a local wire, or NULL
 * @tap: captures of it, or NULL
 * @fault: fault of the wire for packets that leave, or NULL
 * @rx_fault: fault for packets that arrive by the link or from the HCA, or NULL
 * @congestion: of a switch that marks packets, or NULL
 * @flight: packets on a wire with a delay or a rate: those that arrive, and those that leave by the
 *	link; NULL: there were none yet
 * @leaks: lanes have lost credits
 * @want: output lanes that are requested in this round, or have parked requests
 * @starved: output lanes of parked requests that wait for credit of the next buffer
 * @sent, @refused: output lanes that have sent, and that had to wait, in this round
 * @waiting: output lanes that wait since an earlier round
 * @stalled: output lanes in the state VLStalled
 * @buffered: lanes with packets in the input buffer
 * @parked: lanes with packets in the input buffer whose heads an output has parked (park.c)
 * @queued, @out_listed, @touched, @woken: in fab_data.queue, .outs, .touch, .woken
 * @parks: this output keeps requests of earlier rounds, and rounds do not serve it
 * @freed: lanes with a nonzero @freed; the port is in fab_data.freed
 * @ucast: unicast requests of this round, or parked
 * @wait_ns: time up to which PortXmitWait is counted for the lanes in @waiting
 * @hoq_drops: packets that HOQLife has discarded since a packet last left
 * @full: lanes of the rings whose packets have to wait until those on their way have arrived
 * @out: its lanes as an output
 * @lane: its lanes as an input
 * @outlet: outputs of packets that arrive by it, by the DLID
 * @pending: lanes with packets, in this round
 * @ctrl_due: events of the link are left for the next round
 * @vl15_seen: last read value of the peer's count of dropped VL15 packets
 * @replies: entries of fab_data.reply that wait for this port
 * @peer_guid: PortGUID of the last peer, for which the port is reserved
 * @idle: the link sleeps, and is not in fab_data.awake; a message by its socket ends the sleep
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

#define FAB_DPORT_HOT	offsetof(struct fab_dport, full)	/* bytes that each packet needs */
#define FAB_CACHE_LINE	64u

/** fab_prefetch() - prefetch @n bytes at @p into the cache; @p may be NULL */
static inline void fab_prefetch(const void *p, size_t n)
{
	for (size_t at = 0; at < n; at += FAB_CACHE_LINE)
		__builtin_prefetch((const char *)p + at);
}

/** fab_prefetch_wire() - prefetch the data for sending a packet by lane @vl of @out */
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

/**
 * fab_leads_out() - whether the wire of @dp leads to a machine or an HCA, not to a port of the
 *	graph
 */
static inline bool fab_leads_out(const struct fab_dport *dp)
{
	return dp->link || dp->hport;
}

/** fab_dport() - get or create the data side of port @p. Return: NULL if out of memory. */
struct fab_dport *fab_dport(struct fab_data *d, uint32_t p);

/** fab_dport_free() - free @dp and the packets that wait there; close its link */
void fab_dport_free(struct fab_data *d, struct fab_dport *dp);

/** fab_link_set_phy() - set the settings of its port for the next training of the link of @dp */
void fab_link_set_phy(struct fab_data *d, const struct fab_dport *dp);

/** fab_link_wake() - rounds check the link of @dp again, whose sleep is over */
void fab_link_wake(struct fab_data *d, struct fab_dport *dp);

/** fab_link_use() - a packet leaves by the idle link of @dp. Credits that arrive end its sleep. */
void fab_link_use(struct fab_data *d, struct fab_dport *dp);

/** fab_links_used() - kick the links in fab_data.used */
void fab_links_used(struct fab_data *d);

/**
 * fab_hport_takes() - whether @n packets of @len bytes may be sent to the HCA by lane @vl now
 *
 * Counts a VL15 packet that finds the link up and no room: the caller drops it.
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
 * fab_tx_begin() - reserve room for a packet of @len bytes that leaves @out by its link or to its
 *	HCA
 *
 * Return: the buffer for the packet, or NULL: there is no credit.
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
 * fab_port_attach() - attach link @l or HCA @h to switch port @p
 * Return: false if out of memory; nothing has changed then.
 */
bool fab_port_attach(struct fab_data *d, uint32_t p, struct ohca_link *l, struct fab_hport *h);

/** fab_port_detach() - detach and free the link or HCA of @dp, and log @why */
void fab_port_detach(struct fab_data *d, struct fab_dport *dp, const char *why);

/**
 * fab_port_up() - set the port up: the wire of @dp has trained to @st with @peer
 * @st: its width and speeds, or sets of bits
 * @vls: lanes that both have
 *
 * Return: false: they have nothing in common.
 */
bool fab_port_up(struct fab_data *d, struct fab_dport *dp, const struct ohca_link_cfg *peer,
		 const struct ohca_link_state *st, unsigned int vls);

/** fab_port_down() - set the port down */
void fab_port_down(struct fab_data *d, struct fab_dport *dp);

/**
 * fab_hport_due() - an end has trained the link of @h: request fab_hport_settle() in the next round
 */
static inline void fab_hport_due(struct fab_hport *h)
{
	h->due = true;
	h->dp->ctrl_due = true;
	h->d->ctrl_due = true;
}

/** fab_hport_settle() - take the link down and up as the ends have trained it */
void fab_hport_settle(struct fab_hport *h);

/** fab_hport_round() - pass MADs of HCAs to management. Return: whether there were any. */
bool fab_hport_round(struct fab_data *d);

/** fab_hport_forget() - discard the MADs of @h that wait */
void fab_hport_forget(struct fab_hport *h);

/** fab_hport_free() - free @h; NULL does nothing */
void fab_hport_free(struct fab_hport *h);

/** fab_link_train() - train of struct fab_wires; @ctx: the data path */
void fab_link_train(void *ctx, uint32_t port, bool enable);

/** fab_ports_meet() - meet of struct fab_wires; @ctx: the data path */
bool fab_ports_meet(void *ctx, uint32_t a, uint32_t b);

/** fab_link_count() - count of struct fab_wires; @ctx: the data path */
void fab_link_count(void *ctx, uint32_t port);

/** fab_link_ctrl() - fab_data_ctrl() for port @dp */
bool fab_link_ctrl(struct fab_data *d, struct fab_dport *dp);

/** fab_clock_read() - read the clock, once a round. Return: as fab_data_now(). */
uint64_t fab_clock_read(struct fab_data *d);

/** fab_data_now() - time of this round in ns, without the times in which the daemon stood still */
static inline uint64_t fab_data_now(struct fab_data *d)
{
	return fab_likely(d->now_ns) ? d->now_ns : fab_clock_read(d);
}

/** fab_data_clock() - the same plus these times, for what is measured and not limited */
static inline uint64_t fab_data_clock(struct fab_data *d)
{
	const uint64_t now = fab_data_now(d);	/* may increase stood_ns */

	return now + d->n.stood_ns;
}

/** fab_dport_refresh() - copy what management has changed at @dp */
void fab_dport_refresh(struct fab_data *d, struct fab_dport *dp);

/** fab_touch() - request that fab_settle() processes @dp when this round ends */
void fab_touch(struct fab_data *d, struct fab_dport *dp);

/** fab_decide() - decide on the packet in @l->f; once for each packet, since it counts errors */
enum fab_kind fab_decide(struct fab_data *d, struct fab_dport *in, struct fab_lane *l);

/**
 * fab_route_find() - find the output of the head @l, which has arrived at router port @in
 * @out: written for FAB_HEAD_UCAST; the head is @routed then
 *
 * Return: FAB_HEAD_UCAST: it leaves by *@out; FAB_HEAD_LOCAL: it is for the port itself;
 * FAB_HEAD_DROP: it is dropped, and was counted.
 */
enum fab_kind fab_route_find(struct fab_data *d, struct fab_dport *in, struct fab_lane *l,
			     uint32_t *out);

/**
 * fab_route_frame() - fill in @f: the head @l, which is @routed, with the headers for its next
 *	subnet
 */
void fab_route_frame(const struct fab_lane *l, struct fab_frame *f);

/** fab_damaged() - whether a packet is damaged as its OHCA_FRAME_* @flags say. Counts it. */
bool fab_damaged(struct fab_data *d, struct fab_dport *in, const uint8_t *data, uint32_t len,
		 uint16_t flags, uint16_t vcrc);

/** fab_pkey_in_table() - whether the node at port @dp may send @pkey (@inbound), or receive it */
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

/** fab_mcast_vl() - lane at @out of a multicast head of @in, or -1 if it may not leave there */
int fab_mcast_vl(const struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		 const struct fab_dport *out);

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

/**
 * fab_drop_head() - count the drop of head @l: one packet, or each multicast copy that has not left
 *
 * Packets received plus forks stay equal to packets delivered, dropped and still waiting.
 */
void fab_drop_head(struct fab_data *d, const struct fab_lane *l, enum fab_drop why);

/** fab_forward_round() - let the heads of all lanes request outputs, and serve these */
bool fab_forward_round(struct fab_data *d);

/** fab_forget_heads() - the link of @dp is down: forget the packets in its rings */
void fab_forget_heads(struct fab_data *d, struct fab_dport *dp);

/** fab_blocked_lanes() - bits of the input lanes of @dp whose heads wait */
uint32_t fab_blocked_lanes(const struct fab_data *d, const struct fab_dport *dp);

/** fab_block() - the head of lane @vl of @in begins to wait */
void fab_block(struct fab_data *d, struct fab_dport *in, unsigned int vl);

/** fab_came() - lane @vl of @in, which has a mark, has a new head: find out when that arrived */
void fab_came(struct fab_dport *in, unsigned int vl);

/** fab_unblock() - the wait of the head ends */
void fab_unblock(struct fab_data *d, struct fab_lane *l);

/**
 * fab_too_old() - whether a packet that waits for @out since @since_ns (0: does not) exceeds
 *	HOQLife
 */
bool fab_too_old(struct fab_data *d, const struct fab_dport *out, uint64_t since_ns);

/** fab_outlived() - whether a packet at the switch of @dp since @since_ns exceeds LifeTimeValue */
bool fab_outlived(struct fab_data *d, const struct fab_dport *dp, uint64_t since_ns);

/**
 * fab_expire() - discard the head @l of @in if it is too old to leave by lane @vl of @out
 *
 * Counts the packet as discarded by HOQLife or LifeTimeValue (18.2.5.4).
 *
 * Return: whether it was discarded.
 */
bool fab_expire(struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		struct fab_dport *out, unsigned int vl);

/**
 * fab_expiry() - time after which fab_expire() discards @l if nothing changes; UINT64_MAX: never
 */
uint64_t fab_expiry(const struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		    const struct fab_dport *out);

/**
 * fab_hoq_discard() - count a packet that HOQLife or VLStalled discards at lane @vl of @out
 *
 * After VLStallCount discards in sequence the lane is stalled: for 8 * HOQLife all its packets are
 * discarded at once (18.2.5.4).
 */
void fab_hoq_discard(struct fab_data *d, struct fab_dport *out, unsigned int vl);

/** fab_end_stalls() - end stalls that have expired */
void fab_end_stalls(struct fab_data *d);

/** fab_unstall_all() - end all stalls of @dp */
void fab_unstall_all(struct fab_data *d, struct fab_dport *dp);

/** fab_count_wait() - bring PortXmitWait and PortVLXmitWait of @dp up to date (16.1.3.5) */
void fab_count_wait(struct fab_data *d, struct fab_dport *dp);

/** fab_settle() - at the end of a round: begin and end waits of output lanes */
void fab_settle(struct fab_data *d);

/**
 * fab_store() - copy a packet into the input buffer of @in
 * @front: it is the head of its lane, and was decided on
 *
 * Return: false if out of memory.
 */
bool fab_store(struct fab_data *d, struct fab_dport *in, unsigned int vl,
	       const struct fab_frame *f, bool front);

/**
 * fab_store_own() - leave the head of lane @vl of @in in its buffer @b, and put that into the input
 *	buffer
 */
void fab_store_own(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b);

/**
 * fab_free_room() - at the end of a round with rates: free the room of packets that fab_release()
 *	ended
 */
void fab_free_room(struct fab_data *d);

/** fab_fits() - whether the input buffer of lane @vl of @in has room for @len bytes */
bool fab_fits(const struct fab_dport *in, unsigned int vl, uint32_t len);

/** fab_peek() - make the first packet of lane @vl of @in its head. Return: false: there is none. */
bool fab_peek(struct fab_dport *in, unsigned int vl);

/**
 * fab_release() - remove the head @b from the input buffer
 * @next: the packet behind it
 */
void fab_release(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b,
		 struct fab_buffer *next);

/** fab_append() - append @b to lane @vl of the input buffer of @in */
void fab_append(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b);

/** fab_buffer_frame() - fill in @f, the packet in @b as the head of lane @vl */
void fab_buffer_frame(const struct fab_buffer *b, unsigned int vl, struct fab_frame *f);

/** fab_buffer_get() - a buffer for @len bytes. Return: NULL: out of memory. */
struct fab_buffer *fab_buffer_get(struct fab_data *d, uint32_t len);

/** fab_buffer_put() - return @b, which is not used any more */
void fab_buffer_put(struct fab_data *d, struct fab_buffer *b);

/**
 * fab_buffers_trim() - free spare buffers that were not needed in the last minute, a bounded number
 * Return: ns until it must run again; UINT64_MAX: there is nothing that it could free.
 */
uint64_t fab_buffers_trim(struct fab_data *d);

/** fab_buffers_free() - free the packets that wait at @dp; NULL: the spare buffers */
void fab_buffers_free(struct fab_data *d, struct fab_dport *dp);

/** fab_copy_head() - write to @b the headers of @f, with lane @vl, that may differ from @f->data */
void fab_copy_head(uint8_t *b, const struct fab_frame *f, unsigned int vl);

/** fab_kept() - bytes that a buffer keeps of a packet of @len bytes */
static inline uint32_t fab_kept(const struct fab_data *d, uint32_t len)
{
	return fab_unlikely(d->cfg.headers) && len > FAB_HEADERS ? FAB_HEADERS : len;
}

/** fab_copy() - write @f with lane @vl to @b, fab_kept() bytes of it */
void fab_copy(const struct fab_data *d, uint8_t *b, const struct fab_frame *f, unsigned int vl);

/**
 * fab_damage() - flip a bit of packet @b, which has a BTH: the ICRC is wrong then, the VCRC is not
 */
void fab_damage(uint8_t *b, uint32_t len);

/**
 * fab_icrc_flag() - OHCA_FRAME_ICRC if the copy that fab_copy() makes of @f has an ICRC, right or
 *	wrong
 */
static inline uint16_t fab_icrc_flag(const struct fab_frame *f)
{
	return f->corrupt ? OHCA_FRAME_ICRC : f->flags & OHCA_FRAME_ICRC;
}

/**
 * fab_commit() - send the packet at @b, for which fab_tx_begin() had room, by @out
 * @view: its payload, if that is not at @b: only to an HCA, and not @lost
 * @flags: OHCA_FRAME_ICRC or 0
 * @lost: it is damaged on its way
 * @agent: it is a MAD that an agent has sent
 */
void fab_commit(struct fab_data *d, const struct fab_dport *out, unsigned int vl, const uint8_t *b,
		const struct ib_view *view, uint32_t len, uint16_t flags, bool lost, bool agent);

/** fab_keep_heads() - move the heads in the rings of @dp's link to its input buffer */
void fab_keep_heads(struct fab_data *d, struct fab_dport *dp);

/** fab_arrived() - @b has arrived at @in over a wire; consumes @b */
void fab_arrived(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b);

/**
 * fab_is_delayed() - whether a packet that leaves now arrives later
 * @dp, @out: as in struct fab_flight: the port where it arrives, or by whose link it leaves
 * @x: fault of that wire
 */
bool fab_is_delayed(const struct fab_dport *dp, bool out, unsigned int vl,
		    const struct fab_fault *x);

/** fab_delay_fits() - whether another packet of @len bytes may be on its way by the link of @dp */
bool fab_delay_fits(const struct fab_dport *dp, unsigned int vl, uint32_t len);

/** fab_delay_lands() - whether a packet is on its way by that lane of @dp and is not overdue */
bool fab_delay_lands(struct fab_data *d, const struct fab_dport *dp, unsigned int vl);

/** fab_delay_empty() - whether no packet of that lane is on its way by the link of @dp */
bool fab_delay_empty(const struct fab_dport *dp, unsigned int vl);

/**
 * fab_delay() - put @f on its way, or drop it; arguments as of fab_is_delayed()
 * @lost: it is damaged on its way
 * @left_ns: when it has left, from fab_pace_take()
 */
void fab_delay(struct fab_data *d, struct fab_dport *dp, bool out, unsigned int vl,
	       const struct fab_frame *f, struct fab_fault *x, bool lost, uint64_t left_ns);

/**
 * fab_delay_take() - put packets that the link of @in received on their way. Return: whether any
 *	was.
 */
bool fab_delay_take(struct fab_data *d, struct fab_dport *in);

/** fab_delay_round() - let packets that are due arrive. Return: whether any did. */
bool fab_delay_round(struct fab_data *d);

/** fab_delay_due() - ns until a packet is due; UINT64_MAX: none is on its way */
uint64_t fab_delay_due(struct fab_data *d);

/** fab_delay_forget() - lose packets on their way at @dp: those of links that are down, or @all */
void fab_delay_forget(struct fab_data *d, struct fab_dport *dp, bool all);

/**
 * fab_park() - park the requests that are left at @out after its turn
 * @may: they may be parked: only fab_wake() can let @out send
 * @starved: lanes of these that wait for credit of the next buffer
 */
void fab_park(struct fab_data *d, struct fab_dport *out, bool may, uint16_t starved);

/** fab_park_begin() - at the begin of a round: unpark all if anything has changed or is too old */
void fab_park_begin(struct fab_data *d);

/**
 * fab_park_joins() - park the head of @in's lane @vl at @out, if that has parked. Return: whether
 *	it did.
 */
bool fab_park_joins(struct fab_data *d, struct fab_dport *in, unsigned int vl,
		    struct fab_dport *out);

/** fab_park_join() - add the outputs in fab_data.woken to those of this round */
void fab_park_join(struct fab_data *d);

/** fab_unpark() - let the next round process lane @vl of @in */
void fab_unpark(struct fab_data *d, struct fab_dport *in, unsigned int vl);

/** fab_wake() - @out may be able to send its parked requests */
void fab_wake(struct fab_data *d, struct fab_dport *out);

/** fab_credit() - the input buffer of @in has more room: wake an output that waits for it */
static inline void fab_credit(struct fab_data *d, const struct fab_dport *in)
{
	if (in->peer && fab_unlikely(in->peer->starved))
		fab_wake(d, in->peer);
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

/** fab_is_paced() - whether the wire of output @out has a rate */
static inline bool fab_is_paced(const struct fab_dport *out)
{
	return fab_unlikely(out->fault) && out->fault->byte_fs;
}

/**
 * fab_pace_set() - give the wire of @dp the rate of its link; in both directions if it leaves the
 *	graph
 */
void fab_pace_set(struct fab_data *d, const struct fab_dport *dp);

/**
 * fab_pace_busy() - whether the wire sends a packet now; if so, a round follows when it is ready
 */
bool fab_pace_busy(struct fab_data *d, struct fab_fault *x);

/**
 * fab_pace_take() - let the wire send a packet of @len bytes of lane @vl, now or when it is ready
 * Return: the time at which it has left.
 */
uint64_t fab_pace_take(struct fab_data *d, struct fab_fault *x, unsigned int vl, uint32_t len);

/** fab_pace_round() - serve the outputs whose wires have become ready. Return: whether any is. */
bool fab_pace_round(struct fab_data *d);

/** fab_pace_due() - ns until a wire is ready for which packets wait; UINT64_MAX: there is none */
uint64_t fab_pace_due(struct fab_data *d);

/** fab_pace_free() - end all waits for wires */
void fab_pace_free(struct fab_data *d);

/** fab_delay_free() - free all packets on their way */
void fab_delay_free(struct fab_data *d);

/**
 * fab_vl15_rx() - receive a VL15 packet by the link of @in; @data is copied, then checked
 * @flags: OHCA_FRAME_*
 */
void fab_vl15_rx(struct fab_data *d, struct fab_dport *in, const uint8_t *data, size_t len,
		 uint16_t flags);

/**
 * fab_gsi_rx() - receive a packet for an agent of the node of @in, or one that fab_gsi_held() has
 *	chosen
 * @tap: captures of @in that record it, or NULL
 */
void fab_gsi_rx(struct fab_data *d, struct fab_dport *in, const struct fab_frame *f,
		const struct fab_tap *tap);

/**
 * fab_gmp_faulty() - whether a fault of the machine at @dp applies to MADs in packets of data lanes
 */
static inline bool fab_gmp_faulty(const struct fab_data *d, const struct fab_dport *dp)
{
	return fab_unlikely(d->m->mad_faults) && fab_leads_out(dp) &&
	       fab_mad_faulty(d->m, d->f->port[d->f->port[dp->p].peer].node);
}

/**
 * fab_gsi_held() - whether a fault of a machine at @in or @out applies to the MAD in @f, on its way
 *	from @in to @out
 */
bool fab_gsi_held(struct fab_data *d, const struct fab_dport *in, const struct fab_dport *out,
		  const struct fab_frame *f);

/**
 * fab_mad_packet() - write a packet with @mad, LRH to ICRC
 * @pkt: buffer of IB_MAD_PKT_MAX bytes
 * @vl: its lane
 *
 * Return: its length in bytes.
 */
size_t fab_mad_packet(uint8_t *pkt, const struct fab_mad *mad, uint8_t vl);

/** fab_gsi_send() - send MAD @mad by the link of switch port @port. Return: false: it is lost. */
bool fab_gsi_send(void *ctx, uint32_t port, const struct fab_mad *mad);

/**
 * fab_gsi_land() - SMP @mad has arrived over the link at port @port, after the delay of its wire
 * @ctx: the data path
 * @port: the port by which it left: a switch's, or a machine's
 */
void fab_gsi_land(void *ctx, uint32_t port, const struct fab_mad *mad);

/** fab_reply_flush() - send MADs of agents that wait. Return: whether any left. */
bool fab_reply_flush(struct fab_data *d);

#endif
