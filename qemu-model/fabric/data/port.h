/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A port that has carried data; see port.c. */
#ifndef OHCA_FABRIC_DATA_PORT_H
#define OHCA_FABRIC_DATA_PORT_H

#include "fabric/base/hints.h"
#include "hport.h"
#include "lane.h"

#define FAB_PKEYS_UNKNOWN	0xffffu	/* num_pkeys: not counted yet */
#define FAB_OUTLETS	16u	/* outlets that a port caches; a power of two */

struct fab_congestion;
struct fab_fault;
struct fab_flight;
struct fab_tap;

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

#define FAB_DPORT_HOT	offsetof(struct fab_dport, full)	/* bytes that each packet needs */

/** fab_prefetch_wire() - prefetch the data for sending a packet by lane @vl of @out */
static inline void fab_prefetch_wire(const struct fab_dport *out, unsigned int vl)
{
	__builtin_prefetch(out->fault);
	__builtin_prefetch(out->ctr);
	if (out->peer)
		__builtin_prefetch(&out->peer->lane[vl]);
}

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

/** fab_hport_forget() - discard the MADs of @h that wait */
void fab_hport_forget(struct fab_hport *h);

/** fab_hport_free() - free @h; NULL does nothing */
void fab_hport_free(struct fab_hport *h);

/** fab_ports_meet() - meet of struct fab_wires; @ctx: the data path */
bool fab_ports_meet(void *ctx, uint32_t a, uint32_t b);

/** fab_dport_refresh() - copy what management has changed at @dp */
void fab_dport_refresh(struct fab_data *d, struct fab_dport *dp);

#endif
