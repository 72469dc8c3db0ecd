/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data packets in a fabric (IBTA volume 1, 18.2.4): forwarding tables, partitions, SL to VL,
 * arbitration, credits and lifetime, at every switch that a packet goes through.
 *
 * A wire joins two ports of the graph, or leads out of the process as a link (link/link.h): then
 * a virtual machine has the place of the host at its other end. A packet comes in by a link's
 * ring and goes as far as nothing is in its way, from switch to switch as function calls; if it
 * gets to another link its bytes are copied once, ring to ring. Where it must wait, for credit or
 * for its turn, it is copied into the input buffer of the port that it has come to, and the port
 * before has its credit back. Lanes never wait for each other.
 *
 * An HCA of this process has the place of a host, too (hport.h): what it sends goes as far as
 * nothing is in its way at once, outside of rounds, and what is for it is given to it by a call.
 *
 * Only a port that has seen data has a struct fab_dport. Owner thread only.
 *
 * The life of a round (fab_data_round()). Its goals: a packet that nothing keeps waiting
 * crosses the fabric without a copy but the last; who waits has its turn; every loop has a
 * bound; what is idle costs nothing. Its steps:
 *
 * 1. fab_hport_round(): VL15 of the HCAs of this process
 * 2. late_ctrl(): links of which events were left, or that an end has trained, go down and come
 *    up; an HCA that takes its own link down has answered by it in step 1
 * 3. management(): VL15 of the links that are awake, up to 32 packets of each. Only management
 *    takes links down, so the rest of the round may rely on them
 * 4. refresh(): the ports that management has changed (fab_changed()) take that over, or all do
 *    when it does not say which; heads that were decided on before
 *    are decided on again, unless copies of them have left
 * 5. fab_delay_round(): what is due on wires with a delay, or a rate, arrives, up to 64 packets of
 *    each lane
 * 6. collect(): of each lane with packets the head is decided on (fab_decide()), ended, given
 *    to an agent, or it requests its output; up to 64 heads of a lane
 * 7. out_serve(): each output sends, of the lanes that request it, in the order of its VL
 *    arbiter, and within a lane of its inputs in turn; up to 64 packets, since the next head
 *    of a lane that was served follows at once (follow())
 *    What is left at one whose wire has a rate is parked: it is not part of these two steps until
 *    fab_wake(). With rates the room that step 7 makes in buffers is there when it is over
 * 8. fab_reply_flush(): answers of agents that wait for credit
 * 9. fab_settle(): begins and ends waits of outputs: PortXmitWait
 * 10. kicks: credits are published, peers that sleep are woken
 *
 * A packet that fab_out_send() sends over a wire of the graph arrives at once: lane_arrive() puts
 * it at the head of its lane if nothing waits there, and head_go_on() decides on it and lets
 * head_pass() send it on if its output has no rate, and no other that waits; head_spread() does so for each
 * copy of multicast. These call each other, up to FAB_WALK wires for one packet and its
 * copies. Where it cannot go on it is stored in the input buffer of that port, and the port
 * before has its credit back.
 *
 * A port, as the data path has it:
 *
 *	no struct fab_dport --fab_dport(): first packet, link or capture--> wire of the graph
 *	wire of the graph --fab_data_attach()--> link, awake <--fab_data_sleep()--> link, idle
 *	link, awake --its peer closes, or is wrong--> no wire --fab_data_attach()--> link, awake
 *	wire of the graph, no wire --fab_hport_attach()--> HCA --fab_hport_detach()--> no wire
 *	heads of a link are in its ring; in the input buffer while its wire has a delay
 *
 *	data.c		the data path: its beginning, its end, and its rounds
 *	port.c		the ports, and what they take over from management
 *	links.c		links and HCAs that come, train, and go
 *	hport.c		ports of HCAs in this process
 *	flow.c		the ways of packets between them
 *	adaptive.c	ports that lead to the same: which of them
 *	decide.c	what becomes of the packet at the head of a lane
 *	route.c		packets that go on in another subnet
 *	forward.c	heads, requests, arbitration
 *	hop.c		from an output to the next head
 *	congestion.c	outputs that are congested: FECN
 *	wait.c		credit that does not come: HOQLife, LifeTimeValue, stalls, PortXmitWait
 *	buffer.c	packets that wait at a wire of the graph
 *	delay.c		packets on wires with a delay, or a rate
 *	pace.c		rates of wires: who waits until one is free
 *	park.c		what waits for them is not looked at in between
 *	gsi.c		MADs between the lanes and the agents of nodes
 *	clock.c		time, without the times in which the daemon stood still
 *	report.c	the log, and counts of links
 */
#ifndef OHCA_FABRIC_DATA_H
#define OHCA_FABRIC_DATA_H

#include <stdarg.h>
#include <stdio.h>

#include "fabric/mgmt/mgmt.h"
#include "link/link.h"

struct fab_data;

/** enum fab_drop - why a data packet ended before an end port had it */
enum fab_drop {
	FAB_DROP_NONE,
	FAB_DROP_DAMAGED,	/* EBP or a wrong VCRC */
	FAB_DROP_LOSS,		/* a wire's fault, see wire.h */
	FAB_DROP_MALFORMED,
	FAB_DROP_NOT_ARMED,	/* it came in at a port that is neither Armed nor Active */
	FAB_DROP_FILTER,	/* P_Key enforcement or raw filter */
	FAB_DROP_ROUTE,		/* no route, or back to where it came from */
	FAB_DROP_VL,		/* SLtoVLMapping says so */
	FAB_DROP_INACTIVE,	/* out of a port that is not Active */
	FAB_DROP_MTU,
	FAB_DROP_HOQ,		/* HOQLife, or the lane is stalled */
	FAB_DROP_LIFETIME,	/* LifeTimeValue of the switch */
	FAB_DROP_HOPS,		/* FAB_MAX_HOPS */
	FAB_DROP_MEMORY,	/* no memory for a buffer */
	FAB_DROP_PHANTOM,	/* it arrived at a host that has no memory */
	FAB_DROP_NO_MEMBER,	/* multicast without a port to leave by */
	FAB_DROP_NO_LINK,	/* a copy of multicast, out of a port whose link is down */
	FAB_DROP_HOP_LIMIT,	/* at a router: HopLmt is 0 or 1 */
	FAB_DROP_NO_SUBNET,	/* at a router: none of its ports has the prefix of the DGID */
	FAB_DROP_NO_GUID,	/* at a router: no port of that subnet has the GUID of the DGID */
	FAB_DROP_LINK_LOCAL,	/* at a router: a GID that is good in its own subnet only */
	FAB_DROPS
};

/**
 * struct fab_data_cfg - how packets are moved
 * @shift: wished credit_shift of the links
 * @hoq_scale: HOQLife and LifeTimeValue are stretched by this factor, for hosts on which virtual
 *	machines stand still for longer than a subnet manager allows for; 0: nothing is discarded
 * @rate_scale: a wire takes so many times as long for a data packet as one of its width and speed
 *	does, and HOQLife and LifeTimeValue are as many times as long; 0: it takes no time
 * @log: for links that come and go, or NULL
 * @clock: monotonic time in ns, never 0, or NULL: CLOCK_MONOTONIC. Whoever has one of his own stops
 *	it at the times that fab_data_timer() says: then no wire is late
 * @arg: first argument of both
 * @spin: when the owner thread sleeps, for fab_data_spin(); or NULL
 * @headers: of a packet that waits, or is on its way over a wire with a delay or a rate, only the
 *	headers are kept, and the payload is whatever lies behind them: for HCAs that look at none, where
 *	nobody captures. Then no wire damages a packet
 * @closer: closes what links do not need any more; NULL: the owner thread does, and waits for it
 */
struct fab_data_cfg {
	uint8_t shift;
	unsigned int hoq_scale;
	unsigned int rate_scale;
	void (*log)(void *arg, const char *fmt, va_list ap);
	uint64_t (*clock)(void *arg);
	void *arg;
	const struct fab_spin *spin;
	bool headers;
	const struct ohca_link_closer *closer;
};

/**
 * fab_data_new() - the data path of a sealed fabric
 * @m: its management, which sends by links through this from now on
 *
 * Return: NULL if out of memory.
 */
struct fab_data *fab_data_new(struct fab_mgmt *m, const struct fab_data_cfg *cfg);

/** fab_data_spin() - as of its configuration */
const struct fab_spin *fab_data_spin(const struct fab_data *d);

/** fab_data_closer() - as of its configuration */
const struct ohca_link_closer *fab_data_closer(const struct fab_data *d);

/** fab_data_free() - close all links and free; NULL is none. The graph stays. */
void fab_data_free(struct fab_data *d);

/**
 * fab_data_round() - move packets, bounded, and wake peers
 *
 * Return: whether anything moved. If not, nothing can before an event of a link or a timer.
 */
bool fab_data_round(struct fab_data *d);

/**
 * fab_data_timer() - time has passed, and fab_mgmt_timer() has run; wakes peers
 * Return: ns until fab_data_round() is to run again, or UINT64_MAX.
 */
uint64_t fab_data_timer(struct fab_data *d);

/** fab_data_sleep() - announce a sleep on all links. Return: false: there is something to do. */
bool fab_data_sleep(struct fab_data *d);

/**
 * fab_data_attach() - @l becomes the wire of switch port @p instead of the one in the graph
 *
 * The host at its other end is out of the graph from now on. Starts training.
 *
 * Return: false if out of memory; @l is then still the caller's.
 */
bool fab_data_attach(struct fab_data *d, uint32_t p, struct ohca_link *l);

/** fab_data_link_cfg() - our end of a link at switch port @p */
void fab_data_link_cfg(const struct fab_data *d, uint32_t p, struct ohca_link_cfg *cfg);

/**
 * fab_data_ctrl() - the link of port @p has something to say; nothing is done without a link,
 *	or for an HCA
 *
 * A burst at a time; the rest is left for the next round.
 *
 * Return: false: the link is gone, and was freed, or there was none.
 */
bool fab_data_ctrl(struct fab_data *d, uint32_t p);

/** fab_data_woke() - the peer of port @p's link, if there is one, has ended a sleep */
void fab_data_woke(struct fab_data *d, uint32_t p);

/** fab_data_mgmt() - the management of the fabric, with its graph */
struct fab_mgmt *fab_data_mgmt(const struct fab_data *d);

/** fab_data_peer() - who is at the link of port @p: its HELLO, or NULL: there is no link */
const struct ohca_link_cfg *fab_data_peer(const struct fab_data *d, uint32_t p);

/** fab_data_last_guid() - PortGUID of the peer that port @p had last, or has; 0: it had none */
uint64_t fab_data_last_guid(const struct fab_data *d, uint32_t p);

/**
 * fab_data_find_guid() - the port whose link leads to PortGUID @guid, or FAB_NO_PORT
 *
 * Wires to other fabrics do not count: what their peers say of themselves keeps no machine out.
 */
uint32_t fab_data_find_guid(const struct fab_data *d, uint64_t guid);

/** fab_data_accept_stopped() - count a time that peers have to wait for a descriptor, or memory */
void fab_data_accept_stopped(struct fab_data *d);

/**
 * struct fab_front_stats - machines whose HCAs the process hosts
 * @machines: that are there
 * @memory_bytes: of their memory that is mapped, and of logs of it; @memory_refused: how often it was
 *	more than it may be
 * @object_bytes: what their drivers have made takes; @objects_refused: how often there was no room
 *	for more
 */
struct fab_front_stats {
	uint64_t machines;
	uint64_t memory_bytes, memory_refused;
	uint64_t object_bytes, objects_refused;
};

/** fab_data_set_fronts() - @read is how fab_data_fronts() gets to know it; NULL: not any more */
void fab_data_set_fronts(struct fab_data *d, void (*read)(const void *arg, struct fab_front_stats *st),
			 const void *arg);

/** fab_data_fronts() - fill in @st. Return: false: no machine comes with its HCA. */
bool fab_data_fronts(const struct fab_data *d, struct fab_front_stats *st);

/** fab_data_host_ns() - the clock of the configuration, read now */
uint64_t fab_data_host_ns(const struct fab_data *d);

/**
 * struct fab_data_counts - what the data path has counted, and what it takes
 * @drop: packets that ended, by enum fab_drop
 * @delivered: packets that left by a link, or that an agent has
 * @hops: wires of the graph that packets went over
 * @forks: outputs of multicast packets at a switch but the first of each: what came, and these, is
 *	what was delivered, dropped, or still waits
 * @copies: packets that waited in an input buffer before their turn came
 * @mads_in, @mads_out: MADs that agents got from machines, and sent to them
 * @buffer_bytes: memory of all buffers for packets, which is kept for others
 * @capture_bytes: memory of captures, and of what they wait in
 * @stood_ns: during which the daemon had no processor while something waited
 * @fecns: marks by FECN that switches have made; a packet has one of each that marks it
 * @adaptive: times that a packet was to leave a switch by another port than its
 *	LinearForwardingTable has; @failovers: and that it was because that one was not Active
 * @late_ns: during which a wire was free while something waited, since the daemon was late, but for
 *	what it has made up for; the sum of all wires
 */
struct fab_data_counts {
	uint64_t drop[FAB_DROPS];
	uint64_t delivered;
	uint64_t hops;
	uint64_t forks;
	uint64_t copies;
	uint64_t mads_in, mads_out;
	uint64_t buffer_bytes;
	uint64_t capture_bytes;
	uint64_t stood_ns;
	uint64_t fecns;
	uint64_t adaptive, failovers;
	uint64_t late_ns;
};

/** fab_limit_ns() - HOQLife or LifeTimeValue @n in ns: 4.096 us * 2^n, above 19 never (18.2.5.4) */
uint64_t fab_limit_ns(const struct fab_data *d, uint8_t n);

/** fab_pace_byte_fs() - time in fs that the wire of port @p takes to send a byte of data packets; 0: none */
uint64_t fab_pace_byte_fs(const struct fab_data *d, uint32_t p);

/** fab_port_max_len() - bytes of data packets that a port takes, LRH to ICRC, by its MTU */
uint32_t fab_port_max_len(const struct ib_port_info *pi);

/** fab_data_rate_scale() - as of its configuration */
unsigned int fab_data_rate_scale(const struct fab_data *d);

/** fab_data_any_order() - service levels, a bit for each, whose packets may come in any order */
uint16_t fab_data_any_order(const struct fab_data *d);

/** fab_data_counts() - up to now */
const struct fab_data_counts *fab_data_counts(const struct fab_data *d);

/** fab_data_link_bytes() - memory that is shared with machines */
size_t fab_data_link_bytes(const struct fab_data *d);

/**
 * fab_data_bytes() - memory that it takes now: ports, packets that wait or are on their way, the
 *	links' rings, and captures with what they wait in
 */
size_t fab_data_bytes(const struct fab_data *d);

/** fab_drop_name() - why packets ended, for people and in captures; not of FAB_DROP_NONE */
const char *fab_drop_name(enum fab_drop why);

/** fab_data_print() - counts of MADs, of packets and of all links, one line each */
void fab_data_print(const struct fab_data *d, FILE *to);

/**
 * fab_data_log() - one line about a link, if there is a log
 *
 * Some 200 lines at once, then ten a second: the next line then has the number of lines left out.
 */
__attribute__((format(printf, 2, 3))) void fab_data_log(struct fab_data *d, const char *fmt, ...);

/** fab_data_trace() - a line that somebody has asked for: as fab_data_log(), as many as there are */
__attribute__((format(printf, 2, 3))) void fab_data_trace(struct fab_data *d, const char *fmt, ...);

/**
 * fab_mcast_ports() - ports of switch @n that a multicast packet leaves by, as bits
 * @in: number of the port that it comes by; 0: it is the switch's own
 * @mlid: its destination; one without an entry leaves by DefaultMulticastPrimaryPort, or if it has
 *	come by that, by DefaultMulticastNotPrimaryPort (14.2.5.4)
 * @mc: written; may have @in
 */
void fab_mcast_ports(const struct fab *f, const struct fab_node *n, unsigned int in, uint16_t mlid,
		     uint64_t mc[4]);

#endif
