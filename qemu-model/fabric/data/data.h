/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data packets in a fabric (IBTA volume 1, 18.2.4): forwarding tables, partitions, SL to VL,
 * arbitration, credits and lifetime, at every switch that a packet goes through.
 *
 * A wire joins two ports of the graph, or leaves the process as a link (link/link.h): a virtual
 * machine then replaces the host at the other end. A packet enters by the ring of a link and
 * crosses switch after switch as function calls, as long as nothing makes it wait. If it leaves by
 * another link, its bytes are copied once, from ring to ring. A packet that must wait for credit or
 * for its turn is copied into the input buffer of the port that it has reached, and the previous
 * port gets its credit back. Lanes never wait for each other.
 *
 * An HCA of this process can replace a host, too (hport.h). A packet that it sends crosses the
 * fabric at once, outside of rounds, as long as nothing makes it wait. A packet for it is delivered
 * by a call.
 *
 * Only a port that has carried data has a struct fab_dport. Owner thread only.
 *
 * A round (fab_data_round()). Its goals: a packet that does not have to wait crosses the fabric
 * without a copy but the last; every packet that waits gets its turn; every loop has a bound; idle
 * ports cost nothing. Its steps:
 *
 * 1. fab_hport_round(): VL15 packets of the HCAs of this process
 * 2. late_ctrl(): links with events left over, or that an end has trained, go down and up. An HCA
 *    that takes its own link down has sent its answer in step 1
 * 3. management(): VL15 packets of the links that are awake, up to 32 of each. Only management
 *    takes links down, so the rest of the round may rely on them
 * 4. refresh(): the ports that management has changed (fab_changed()) read the new settings; all
 *    ports do if management does not say which. Heads that were decided on before are decided on
 *    again, unless copies of them have left
 * 5. fab_delay_round(): packets that are due on wires with a delay or a rate arrive, up to 64 of
 *    each lane
 * 6. collect(): decides on the head of each lane with packets (fab_decide()). The head is
 *    discarded, delivered to an agent, or requests its output; up to 64 heads of a lane
 * 7. out_serve(): each output sends from the lanes that request it, in the order of its VL arbiter,
 *    and within a lane from its inputs in turn; up to 64 packets, since the next head of a lane
 *    that was served follows at once (follow()). Requests that are left at an output whose wire
 *    has a rate are parked: steps 6 and 7 skip them until fab_wake(). With rates, buffers regain
 *    the room that step 7 makes only after the step
 * 8. fab_reply_flush(): answers of agents that wait for credit
 * 9. fab_settle(): begins and ends waits of outputs: PortXmitWait
 * 10. kicks: publishes credits and wakes peers that sleep
 *
 * A packet that fab_out_send() sends over a wire of the graph arrives at once. If nothing waits in
 * its lane, lane_arrive() makes it the head, head_go_on() decides on it, and head_pass() forwards
 * it if its output has no rate and no other packet waits for that output; head_spread() does the
 * same for each copy of a multicast packet. These functions call each other, for up to FAB_WALK
 * wires for one packet and its copies. Where the packet must wait it is stored in the input buffer
 * of that port, and the previous port gets its credit back.
 *
 * The states of a port in the data path:
 *
 *	no struct fab_dport --fab_dport(): first packet, link or capture--> wire of the graph
 *	wire of the graph --fab_data_attach()--> link, awake <--fab_data_sleep()--> link, idle
 *	link, awake --its peer closes, or is wrong--> no wire --fab_data_attach()--> link, awake
 *	wire of the graph, no wire --fab_hport_attach()--> HCA --fab_hport_detach()--> no wire
 *	heads of a link are in its ring; in the input buffer while its wire has a delay
 *
 *	data.c		the data path: its beginning, its end, and its rounds
 *	port.c		the ports, and the settings that they copy from management
 *	links.c		links and HCAs: attach, train, detach
 *	hport.c		ports of HCAs in this process
 *	flow.c		the paths of packets between these HCAs
 *	adaptive.c	adaptive routing: chooses a port of a group
 *	decide.c	decides on the packet at the head of a lane
 *	route.c		routers: packets to another subnet
 *	forward.c	heads, requests, arbitration
 *	hop.c		from an output to the next head
 *	congestion.c	outputs that are congested: FECN
 *	wait.c		waits for credit: HOQLife, LifeTimeValue, stalls, PortXmitWait
 *	buffer.c	input buffers of ports at wires of the graph
 *	delay.c		packets on wires with a delay, or a rate
 *	pace.c		rates of wires
 *	park.c		requests that wait for a wire with a rate
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

/** enum fab_drop - why a data packet ended before it reached an end port */
enum fab_drop {
	FAB_DROP_NONE,
	FAB_DROP_DAMAGED,	/* EBP or a wrong VCRC */
	FAB_DROP_LOSS,		/* lost by a fault of the wire, see wire.h */
	FAB_DROP_MALFORMED,
	FAB_DROP_NOT_ARMED,	/* received at a port that is neither Armed nor Active */
	FAB_DROP_FILTER,	/* P_Key enforcement or raw filter */
	FAB_DROP_ROUTE,		/* no route, or the output is the port by which it arrived */
	FAB_DROP_VL,		/* SLtoVLMapping says so */
	FAB_DROP_INACTIVE,	/* out of a port that is not Active */
	FAB_DROP_MTU,
	FAB_DROP_HOQ,		/* HOQLife, or the lane is stalled */
	FAB_DROP_LIFETIME,	/* LifeTimeValue of the switch */
	FAB_DROP_HOPS,		/* FAB_MAX_HOPS */
	FAB_DROP_MEMORY,	/* no memory for a buffer */
	FAB_DROP_PHANTOM,	/* it arrived at a host of the graph, which consumes no packets */
	FAB_DROP_NO_MEMBER,	/* multicast without a port to leave by */
	FAB_DROP_NO_LINK,	/* copy of a multicast packet for an output whose link is down */
	FAB_DROP_HOP_LIMIT,	/* at a router: HopLmt is 0 or 1 */
	FAB_DROP_NO_SUBNET,	/* at a router: none of its ports has the prefix of the DGID */
	FAB_DROP_NO_GUID,	/* at a router: no port of that subnet has the GUID of the DGID */
	FAB_DROP_LINK_LOCAL,	/* at a router: a GID that is valid only in its own subnet */
	FAB_DROPS
};

/**
 * struct fab_data_cfg - configuration of the data path
 * @shift: credit_shift that we propose for links
 * @hoq_scale: HOQLife and LifeTimeValue are multiplied by this factor, for hosts on which virtual
 *	machines stand still for longer than a subnet manager allows for; 0: neither discards
 *	packets
 * @rate_scale: a wire needs this many times the transmission time of a wire of its width and speed,
 *	and HOQLife and LifeTimeValue are multiplied by it, too; 0: transmission takes no time
 * @log: logs links that are attached and detached, or NULL
 * @clock: returns monotonic time in ns, never 0; NULL: CLOCK_MONOTONIC. A caller with a clock of
 *	its own stops it at the times that fab_data_timer() returns: then no wire is late
 * @arg: first argument of both
 * @spin: spin state of the owner thread, for fab_data_spin(); or NULL
 * @headers: packets that wait, or that are on a wire with a delay or a rate, keep only their
 *	headers, and the bytes behind these are undefined. For HCAs that read no payload, without
 *	captures. Wires do not damage packets then
 * @closer: closes the descriptors that links do not need any more, in another thread; NULL: the
 *	owner thread closes them
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
 * fab_data_new() - create the data path of a sealed fabric
 * @m: its management, which sends MADs by links through the data path from now on
 * @cfg: copied
 *
 * Return: NULL if out of memory.
 */
struct fab_data *fab_data_new(struct fab_mgmt *m, const struct fab_data_cfg *cfg);

/** fab_data_spin() - @spin of its configuration */
const struct fab_spin *fab_data_spin(const struct fab_data *d);

/** fab_data_closer() - @closer of its configuration */
const struct ohca_link_closer *fab_data_closer(const struct fab_data *d);

/** fab_data_free() - close all links and free @d; NULL does nothing. The graph stays. */
void fab_data_free(struct fab_data *d);

/**
 * fab_data_round() - move packets, a bounded number, and wake peers
 *
 * Return: whether a packet moved. If not, none can move before an event of a link or a timer.
 */
bool fab_data_round(struct fab_data *d);

/**
 * fab_data_timer() - process expired times and wake peers; the caller runs fab_mgmt_timer() first
 * Return: ns until fab_data_round() must run again, or UINT64_MAX.
 */
uint64_t fab_data_timer(struct fab_data *d);

/** fab_data_sleep() - announce a sleep on all links. Return: false: there is work, do not sleep. */
bool fab_data_sleep(struct fab_data *d);

/**
 * fab_data_attach() - make link @l the wire of switch port @p, in place of the wire of the graph
 *
 * Removes the host at the other end from the graph, and starts training.
 *
 * Return: false if out of memory; the caller then still owns @l.
 */
bool fab_data_attach(struct fab_data *d, uint32_t p, struct ohca_link *l);

/** fab_data_link_cfg() - fill in @cfg, our end of a link at switch port @p */
void fab_data_link_cfg(const struct fab_data *d, uint32_t p, struct ohca_link_cfg *cfg);

/**
 * fab_data_ctrl() - process the events of the link of port @p; does nothing without a link, or for
 *	an HCA
 *
 * Processes one burst; the next round processes the rest.
 *
 * Return: false: the link has ended and was freed, or there was none.
 */
bool fab_data_ctrl(struct fab_data *d, uint32_t p);

/** fab_data_woke() - the peer of port @p's link, if it has one, has ended a sleep */
void fab_data_woke(struct fab_data *d, uint32_t p);

/** fab_data_mgmt() - the management of the fabric, with its graph */
struct fab_mgmt *fab_data_mgmt(const struct fab_data *d);

/**
 * fab_data_peer() - the HELLO of the peer at the link or the HCA of port @p; NULL: there is none
 */
const struct ohca_link_cfg *fab_data_peer(const struct fab_data *d, uint32_t p);

/** fab_data_last_guid() - PortGUID of the current or last peer of port @p; 0: it had none */
uint64_t fab_data_last_guid(const struct fab_data *d, uint32_t p);

/**
 * fab_data_find_guid() - the port whose link leads to PortGUID @guid, or FAB_NO_PORT
 *
 * Wires to other fabrics do not count: a PortGUID that their peers claim cannot exclude a machine.
 */
uint32_t fab_data_find_guid(const struct fab_data *d, uint64_t guid);

/** fab_data_accept_stopped() - count that peers have to wait for a descriptor or for memory */
void fab_data_accept_stopped(struct fab_data *d);

/**
 * struct fab_front_stats - machines whose HCAs the process hosts
 * @machines: their number
 * @memory_bytes: memory of the machines that is mapped, and logs of it
 * @memory_refused: times that a mapping would have exceeded the limit
 * @object_bytes: memory of the objects that their drivers have created
 * @objects_refused: times that there was no room for another object
 */
struct fab_front_stats {
	uint64_t machines;
	uint64_t memory_bytes, memory_refused;
	uint64_t object_bytes, objects_refused;
};

/** fab_data_set_fronts() - set the function by which fab_data_fronts() reads; NULL: none */
void fab_data_set_fronts(struct fab_data *d, void (*read)(const void *arg, struct fab_front_stats *st),
			 const void *arg);

/** fab_data_fronts() - fill in @st. Return: false: the process hosts no HCAs of machines. */
bool fab_data_fronts(const struct fab_data *d, struct fab_front_stats *st);

/** fab_data_host_ns() - read the clock of the configuration, in ns */
uint64_t fab_data_host_ns(const struct fab_data *d);

/**
 * struct fab_data_counts - counters of the data path, and its memory
 * @drop: packets that were dropped, by enum fab_drop
 * @delivered: packets that left by a link, or that an agent or an HCA of this process received
 * @hops: wires of the graph that packets crossed
 * @forks: outputs of multicast packets at a switch, without the first of each packet. Packets
 *	received plus @forks equals packets delivered, dropped and still waiting
 * @copies: packets that waited in an input buffer
 * @mads_in, @mads_out: MADs that agents received from machines, and sent to them
 * @buffer_bytes: memory of all packet buffers, also of the spare ones
 * @capture_bytes: memory of captures and of their queues
 * @stood_ns: time in which packets waited and the daemon had no processor
 * @fecns: FECN marks of switches; a packet counts once for each switch that marks it
 * @adaptive: times that a switch chose another port for a packet than its LinearForwardingTable
 *	does
 * @failovers: of these, times that the port of the table was not Active
 * @late_ns: time in which wires were idle while a packet waited, because the daemon was late,
 *	without the time that they made up for; the sum of all wires
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

/**
 * fab_limit_ns() - HOQLife or LifeTimeValue @n in ns: 4.096 us * 2^n; no limit above 19 (18.2.5.4)
 */
uint64_t fab_limit_ns(const struct fab_data *d, uint8_t n);

/**
 * fab_pace_byte_fs() - time in fs to send one byte of data packets by the wire of port @p; 0: none
 */
uint64_t fab_pace_byte_fs(const struct fab_data *d, uint32_t p);

/** fab_port_max_len() - longest data packet of a port in bytes, LRH to ICRC, by its MTU */
uint32_t fab_port_max_len(const struct ib_port_info *pi);

/** fab_data_rate_scale() - @rate_scale of its configuration */
unsigned int fab_data_rate_scale(const struct fab_data *d);

/** fab_data_any_order() - service levels, a bit for each, whose packets may come in any order */
uint16_t fab_data_any_order(const struct fab_data *d);

/** fab_data_counts() - the counters */
const struct fab_data_counts *fab_data_counts(const struct fab_data *d);

/** fab_data_link_bytes() - bytes of memory that is shared with machines */
size_t fab_data_link_bytes(const struct fab_data *d);

/**
 * fab_data_bytes() - bytes of memory in use: ports, packets that wait or are on their way, the
 *	links' rings, and captures with their queues
 */
size_t fab_data_bytes(const struct fab_data *d);

/** fab_drop_name() - name of a cause in logs and captures; not of FAB_DROP_NONE */
const char *fab_drop_name(enum fab_drop why);

/** fab_data_print() - counts of MADs, of packets and of all links, one line each */
void fab_data_print(const struct fab_data *d, FILE *to);

/**
 * fab_data_log() - log one line about a link, if there is a log
 *
 * Allows about 200 lines at once, then ten a second. The next line states how many were suppressed.
 */
__attribute__((format(printf, 2, 3))) void fab_data_log(struct fab_data *d, const char *fmt, ...);

/**
 * fab_data_trace() - log a line of a trace that a user has requested: fab_data_log() without a
 *	limit
 */
__attribute__((format(printf, 2, 3))) void fab_data_trace(struct fab_data *d, const char *fmt, ...);

/**
 * fab_mcast_ports() - ports of switch @n by which a multicast packet leaves, as bits
 * @in: number of the port by which it arrived; 0: the switch itself has sent it
 * @mlid: its destination. A packet whose MLID has no entry leaves by DefaultMulticastPrimaryPort,
 *	or, if it arrived by that port, by DefaultMulticastNotPrimaryPort (14.2.5.4)
 * @mc: written; may include @in
 */
void fab_mcast_ports(const struct fab *f, const struct fab_node *n, unsigned int in, uint16_t mlid,
		     uint64_t mc[4]);

#endif
