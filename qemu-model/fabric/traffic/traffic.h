/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traffic of hosts without machines, in virtual time: the data path of a fabric with rates
 * (data/pace.c), whose hosts send messages to each other. Time jumps from one event to the next, as
 * fast as the processor allows, so what happens depends on the configuration alone, to the ns.
 *
 * There is no subnet manager and no other time: forwarding tables are made (routes.h), or are those
 * of another fabric, and all links are Active before the first message begins. A message is packets
 * of the MTU; it has come when its last packet has, and an ACK of it, if there are any, when its
 * sender has that. Nothing is sent again.
 *
 *	traffic.c	all that happens, and what became of it
 *	host.c		hosts that send and receive
 *	ack.c		ACKs of messages
 *	net.c		wires for what the data path does while it discards nothing
 *	net_run.c	what happens there
 *	pattern.c	who sends to whom
 *	congestion.c	hosts that send more slowly when a switch says so
 *	reduce.c	the steps of an all-reduce
 *	flows.c		how much of each host's messages comes, and when
 *	faults.c	a script of faults by the same clock
 *	routes.c	forwarding tables
 *	paths.c		service levels of paths
 *	circle.c	whether packets by these may wait for each other for ever
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

/** enum fab_pattern - who sends to whom; to itself nobody does */
enum fab_pattern {
	FAB_PATTERN_UNIFORM,		/* each message to any host */
	FAB_PATTERN_PERMUTATION,	/* each host to one, each of which has one that sends to it */
	FAB_PATTERN_INCAST,		/* all to the first host */
	FAB_PATTERN_INCAST_VICTIM,	/* the same, but the last one, beside these, to another one */
	FAB_PATTERN_HOT_SPOT,		/* every fourth message to the first host, the others to any */
	FAB_PATTERN_ALL_TO_ALL,		/* each to all, from the next one on */
	FAB_PATTERN_ALL_REDUCE_RING,	/* each to the next one, a piece of what all have in a step */
	FAB_PATTERN_ALL_REDUCE_HALVING,	/* each with one at half of the distance before, and back */
	FAB_PATTERNS
};

/** fab_pattern_find() - the pattern with that name. Return: FAB_PATTERNS: there is none. */
enum fab_pattern fab_pattern_find(const char *name);

/** fab_pattern_name() - of fab_pattern_find() */
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

/** fab_congestion_usual() - one that keeps flows beside an incast going */
void fab_congestion_usual(struct fab_congestion_cfg *cc);

/**
 * fab_congestion_parse() - change @cc by @text, NAME=VALUE,...
 * @why: what is wrong, for people; [@len]
 *
 * Return: false: @why says why not.
 */
bool fab_congestion_parse(struct fab_congestion_cfg *cc, const char *text, char *why, size_t len);

/**
 * struct fab_traffic_sender - a host, and what has come of its messages
 * @node: of struct fab
 * @bytes: that have come
 */
struct fab_traffic_sender {
	uint32_t node;
	uint64_t bytes;
};

/**
 * struct fab_traffic_watcher - who is told how much of each host's messages comes
 * @interval_ns: from the begin on @series is called after each, with what has come in it, of [@n]
 *	hosts; @at_ns: from the begin to its end; the last one may be cut. 0: never. At most 100,000
 *	times
 * @flows: NULL, or called at the end with what has come of [@n] hosts while all sent: in the @ns
 *	from when the first one had sent half of its messages to when one had sent all, or if none
 *	ever has to the last packet
 * @arg: of both
 */
struct fab_traffic_watcher {
	uint64_t interval_ns;
	void (*series)(void *arg, const struct fab_traffic_sender *s, uint32_t n, uint64_t at_ns);
	void (*flows)(void *arg, const struct fab_traffic_sender *s, uint32_t n, uint64_t ns);
	void *arg;
};

/**
 * struct fab_traffic_script - faults while traffic runs
 * @text: [@len] of a script (fault/script.h), which begins with the traffic
 * @played: is told at the end what became of each line that was played
 * @arg: of it
 */
struct fab_traffic_script {
	const char *text;
	size_t len;
	void (*played)(void *arg, const struct fab_script_entry *e);
	void *arg;
};

/**
 * enum fab_transport - how
 * @FAB_TRANSPORT_UC: packets of the MTU; nothing comes back
 * @FAB_TRANSPORT_UD: datagrams, with a DETH: a message is no longer than the MTU
 * @FAB_TRANSPORT_RC: as UC, and for each message an ACK comes back. Nothing is sent again
 */
enum fab_transport {
	FAB_TRANSPORT_UC,
	FAB_TRANSPORT_UD,
	FAB_TRANSPORT_RC,
	FAB_TRANSPORTS,
};

/**
 * struct fab_traffic_cfg - what is sent
 * @pattern: who sends to whom
 * @routing: by which ways
 * @transport: how
 * @size: bytes of a message, 1 to FAB_TRAFFIC_SIZE; of an all-reduce that which each host has, at
 *	least one for each host
 * @messages: of each host; 0: one to each other host for all to all, else 16. Of an all-reduce, so
 *	many of them one after another; 0: one
 * @load: percent of the rate of a host's link at which messages begin, at times that vary by
 *	chance, 1 to 100; 100: each begins when the one before has left, and of an all-reduce what
 *	the step needs has come
 * @sl: [@sls] service levels that hosts have in turn, 0 to 15; without any it is @sl[0]
 * @paths: those of which the SL is known have that; NULL: there are none
 * @rate_scale, @hoq_scale: as of struct fab_data_cfg; @rate_scale is not 0
 * @seed: of what happens by chance
 * @whole: all of it happens in the data path (data.h), which counts at ports, also what net.h could
 *	do
 * @cc: congestion control, or NULL: there is none
 * @adaptive: adaptive routing of all switches, or NULL: there is none
 * @watcher: or NULL: nobody watches
 * @script: or NULL. Links that come back are Active at once, and no table changes
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
 * struct fab_traffic_flow - the second half of what a host gets, when congestion control has found
 * its rate
 * @bytes: of it
 * @ns: from its first packet to its last
 */
struct fab_traffic_flow {
	uint64_t bytes;
	uint64_t ns;
};

/**
 * struct fab_traffic_result - what became of it
 * @hosts: that send and receive
 * @messages: that were to be sent; @lost: of which some packet, or the ACK, has not come
 * @packets: of messages, that have come; @bytes: of messages in them. A part of lost ones may have
 * @hops: wires between switches that packets, and ACKs, have crossed
 * @ns: from the begin, when hosts with a load of 100 percent send, to the last packet, or ACK
 * @bus_bytes: that a host has to send and to get for its all-reduces: 2 (n - 1) / n of its own
 * @hot: of an incast, what the first host gets; @victim: what a host gets from the last one beside
 *	that
 * @share: [SL] bytes that had come by that service level when the first host had sent all, at
 *	@share_ns from the begin
 * @fecns: marks that switches have made; @becns: notifications that have come to the senders
 * @ccti_max: the highest CCTI that a host had
 * @adaptive: times that a packet left a switch by another port than its LinearForwardingTable has;
 *	@reordered: packets that have come behind a later one of the same message
 * @failed: lines of the script that could not be done, or were not as expected
 * @whole: it happened in the data path, see struct fab_traffic_cfg
 * @circle: of channels that may wait for each other for ever; for fab_circle_end()
 * @p50_ns, @p90_ns, @p99_ns, @max_ns: so many percent of the messages have taken no longer, from
 *	when they were to begin to when they had come, or their ACKs had
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
 * fab_traffic_run() - until all messages have come or are lost, and the script has ended
 * @f: sealed, without a data path; its tables and states change, unless its tables are loaded
 * @why: what is wrong, for people; [@len]
 *
 * Return: false: @why says why not.
 */
bool fab_traffic_run(struct fab *f, const struct fab_traffic_cfg *cfg,
		     struct fab_traffic_result *r, char *why, size_t len);

#endif
