/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traffic of hosts without machines, in virtual time: the data path of a fabric with rates
 * (data/pace.c), whose hosts send messages to each other. Time advances from one event to the next,
 * as fast as the processor allows, so the results depend on the configuration alone, to the ns.
 *
 * There is no subnet manager and no other time: forwarding tables are made (routes.h), or are those
 * of another fabric, and all links are Active before the first message begins. A message consists
 * of packets of the MTU; it is complete when its last packet has arrived, and with ACKs when its
 * sender has received the ACK. Nothing is sent again.
 *
 *	traffic.c	the simulation, and its results
 *	host.c		hosts that send and receive
 *	ack.c		ACKs of messages
 *	net.c		a fast model of the wires, for traffic without discards
 *	net_run.c	its events
 *	pattern.c	destinations of messages
 *	congestion.c	hosts with congestion control
 *	reduce.c	the steps of an all-reduce
 *	flows.c		bytes of each host over time
 *	faults.c	a script of faults in virtual time
 *	routes.c	forwarding tables
 *	paths.c		service levels of paths
 *	circle.c	circles of channels, which may deadlock
 */
#ifndef OHCA_FABRIC_TRAFFIC_H
#define OHCA_FABRIC_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "circle.h"
#include "fabric/fault/script.h"
#include "fabric/graph/adaptive.h"
#include "ib/cc.h"
#include "ib/vl.h"
#include "routes.h"

#define FAB_TRAFFIC_MESSAGES	(1u << 24)	/* of all hosts */
#define FAB_TRAFFIC_SIZE	(1u << 30)	/* bytes of one */

/** enum fab_pattern - destinations of the messages; no host sends to itself */
enum fab_pattern {
	FAB_PATTERN_UNIFORM,		/* each message to any host */
	FAB_PATTERN_PERMUTATION,	/* each host to one, and each host receives from one */
	FAB_PATTERN_INCAST,		/* all to the first host */
	FAB_PATTERN_INCAST_VICTIM,	/* the same, but the last one to another one */
	FAB_PATTERN_HOT_SPOT,		/* every fourth message to the first host, others to any */
	FAB_PATTERN_ALL_TO_ALL,		/* each to all, beginning with the next one */
	FAB_PATTERN_ALL_REDUCE_RING,	/* each to the next one, a piece in each step */
	FAB_PATTERN_ALL_REDUCE_HALVING,	/* each with one at half the previous distance, and back */
	FAB_PATTERNS
};

/** fab_pattern_find() - the pattern with that name. Return: FAB_PATTERNS: there is none. */
enum fab_pattern fab_pattern_find(const char *name);

/** fab_pattern_name() - name of a pattern */
const char *fab_pattern_name(enum fab_pattern pattern);

/**
 * struct fab_congestion_cfg - congestion control
 * @sw: of all switches
 * @ca: of all hosts, which have a CCTI for each service level
 */
struct fab_congestion_cfg {
	struct ib_cc_switch sw;
	struct ib_cc_ca ca;
};

/** fab_congestion_usual() - default settings, with which flows beside an incast keep their rate */
void fab_congestion_usual(struct fab_congestion_cfg *cc);

/**
 * fab_congestion_parse() - change @cc by @text, NAME=VALUE,...
 * @why: [@len] the error, for the user
 *
 * Return: false: @why has the error.
 */
bool fab_congestion_parse(struct fab_congestion_cfg *cc, const char *text, char *why, size_t len);

/**
 * struct fab_traffic_sender - a host, and the received bytes of its messages
 * @node: of struct fab
 * @bytes: received bytes
 */
struct fab_traffic_sender {
	uint32_t node;
	uint64_t bytes;
};

/**
 * struct fab_traffic_watcher - functions that get the received bytes of each host
 * @interval_ns: @series is called after each interval from the begin, with the bytes received in
 *	it, of [@n] hosts; @at_ns: from the begin to its end; the last one may be shorter. 0: never.
 *	At most 100,000 times
 * @flows: NULL, or called at the end with the bytes of [@n] hosts received while all sent: in the
 *	@ns from when the first one had sent half of its messages to when one had sent all, or if
 *	none ever has to the last packet
 * @arg: first argument of both
 */
struct fab_traffic_watcher {
	uint64_t interval_ns;
	void (*series)(void *arg, const struct fab_traffic_sender *s, uint32_t n, uint64_t at_ns);
	void (*flows)(void *arg, const struct fab_traffic_sender *s, uint32_t n, uint64_t ns);
	void *arg;
};

/**
 * struct fab_traffic_script - faults during the traffic
 * @text: [@len] of a script (fault/script.h), which starts with the traffic
 * @played: called at the end with the result of each line that was executed
 * @arg: its first argument
 */
struct fab_traffic_script {
	const char *text;
	size_t len;
	void (*played)(void *arg, const struct fab_script_entry *e);
	void *arg;
};

/**
 * enum fab_transport - transport of messages
 * @FAB_TRANSPORT_UC: packets of the MTU, without acknowledgment
 * @FAB_TRANSPORT_UD: datagrams, with a DETH: a message is no longer than the MTU
 * @FAB_TRANSPORT_RC: as UC, with an ACK for each message. Nothing is sent again
 */
enum fab_transport {
	FAB_TRANSPORT_UC,
	FAB_TRANSPORT_UD,
	FAB_TRANSPORT_RC,
	FAB_TRANSPORTS,
};

/**
 * struct fab_traffic_cfg - configuration of traffic
 * @pattern: destinations
 * @routing: routes
 * @transport: transport
 * @size: bytes of a message, 1 to FAB_TRAFFIC_SIZE; for an all-reduce bytes of each host's vector,
 *	at least one for each host
 * @messages: of each host; 0: one to each other host for all to all, else 16. For an all-reduce,
 *	number of all-reduces one after another; 0: one
 * @load: percent of the rate of a host's link at which messages begin, at random times, 1 to 100;
 *	100: each begins when the previous one has left, and in an all-reduce the data for the step
 *	has arrived
 * @sl: [@sls] service levels that hosts use in turn, 0 to 15; with @sls 0 all use @sl[0]
 * @paths: paths with known SLs; NULL: there are none
 * @rate_scale, @hoq_scale: as of struct fab_data_cfg; @rate_scale is not 0
 * @seed: of random choices
 * @whole: use the data path (data.h), which counts at ports, also for traffic that net.h supports
 * @cc: congestion control, or NULL: there is none
 * @adaptive: adaptive routing of all switches, or NULL: there is none
 * @watcher: or NULL
 * @script: or NULL. Links that come up again are Active at once, and no table changes
 */
struct fab_traffic_cfg {
	enum fab_pattern pattern;
	enum fab_routing routing;
	enum fab_transport transport;
	uint32_t size;
	uint32_t messages;
	unsigned int load;
	uint8_t sl[IB_NUM_SLS];
	unsigned int sls;
	const struct fab_paths *paths;
	unsigned int rate_scale, hoq_scale;
	uint64_t seed;
	bool whole;
	const struct fab_congestion_cfg *cc;
	const struct fab_adaptive_cfg *adaptive;
	const struct fab_traffic_watcher *watcher;
	const struct fab_traffic_script *script;
};

/**
 * struct fab_traffic_flow - the second half of the bytes that a host receives, when congestion
 *	control has found its rate
 * @bytes: their number
 * @ns: from the first packet to the last
 */
struct fab_traffic_flow {
	uint64_t bytes;
	uint64_t ns;
};

/**
 * struct fab_traffic_result - results
 * @hosts: hosts that send and receive
 * @messages: messages that were to be sent; @lost: of these, messages of which a packet or the ACK
 *	has not arrived
 * @packets: packets of messages that have arrived; @bytes: of messages in them. This includes
 *	packets of lost messages
 * @hops: wires between switches that packets, and ACKs, have crossed
 * @ns: from the begin, when hosts with a load of 100 percent send, to the last packet, or ACK
 * @bus_bytes: bytes that a host has to send and to receive for its all-reduces: 2 (n - 1) / n of
 *	its own
 * @hot: for an incast, the flow to the first host; @victim: the flow of the last one beside it
 * @share: [SL] bytes that had arrived by that service level when the first host had sent all, at
 *	@share_ns from the begin
 * @fecns: marks of switches; @becns: notifications that have arrived at the senders
 * @ccti_max: the highest CCTI of a host
 * @adaptive: times that a packet left a switch by another port than that of its
 *	LinearForwardingTable; @reordered: packets that have arrived behind a later one of the same
 *	message
 * @failed: lines of the script that failed, or whose expectations were not met
 * @whole: the data path was used, see struct fab_traffic_cfg
 * @circle: circle of channels that may wait for each other for ever; for fab_circle_end()
 * @p50_ns, @p90_ns, @p99_ns, @max_ns: percentiles of the times of messages, from their planned
 *	begin to their arrival, or that of their ACKs
 */
struct fab_traffic_result {
	uint32_t hosts;
	uint64_t messages, lost;
	uint64_t packets, hops;
	uint64_t bytes;
	uint64_t bus_bytes;
	uint64_t ns;
	uint64_t p50_ns, p90_ns, p99_ns, max_ns;
	struct fab_traffic_flow hot, victim;
	uint64_t share[IB_NUM_SLS];
	uint64_t share_ns;
	uint64_t fecns, becns;
	uint64_t ccti_max;
	uint64_t adaptive, reordered;
	uint64_t failed;
	bool whole;
	struct fab_circle circle;
};

/**
 * fab_traffic_run() - simulate until all messages have arrived or are lost, and the script has
 *	ended
 * @f: sealed, without a data path; its tables and states change, unless its tables are loaded
 * @why: [@len] the error, for the user
 *
 * Return: false: @why has the error.
 */
bool fab_traffic_run(struct fab *f, const struct fab_traffic_cfg *cfg,
		     struct fab_traffic_result *r, char *why, size_t len);

#endif
