/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ohca-fabric traffic: its options, and its output. */
#ifndef OHCA_FABRIC_CLIENT_TRAFFIC_H
#define OHCA_FABRIC_CLIENT_TRAFFIC_H

#include "fabric/traffic/traffic.h"

/** enum fab_traffic_code - codes of its options for getopt_long() */
enum fab_traffic_code {
	FAB_TRAFFIC_PATTERN = 512,
	FAB_TRAFFIC_ROUTING,
	FAB_TRAFFIC_SIZE_OPTION,
	FAB_TRAFFIC_MESSAGES_OPTION,
	FAB_TRAFFIC_LOAD,
	FAB_TRAFFIC_SL,
	FAB_TRAFFIC_PATH_SL,
	FAB_TRAFFIC_CONGESTION,
	FAB_TRAFFIC_ADAPTIVE,
	FAB_TRAFFIC_TRANSPORT,
	FAB_TRAFFIC_FLOWS,
	FAB_TRAFFIC_SERIES,
	FAB_TRAFFIC_INTERVAL,
	FAB_TRAFFIC_SCRIPT
};

#define FAB_TRAFFIC_OPTIONS \
	{ "pattern", required_argument, NULL, FAB_TRAFFIC_PATTERN }, \
	{ "routing", required_argument, NULL, FAB_TRAFFIC_ROUTING }, \
	{ "size", required_argument, NULL, FAB_TRAFFIC_SIZE_OPTION }, \
	{ "messages", required_argument, NULL, FAB_TRAFFIC_MESSAGES_OPTION }, \
	{ "load", required_argument, NULL, FAB_TRAFFIC_LOAD }, \
	{ "sl", required_argument, NULL, FAB_TRAFFIC_SL }, \
	{ "path-sl", required_argument, NULL, FAB_TRAFFIC_PATH_SL }, \
	{ "congestion-control", optional_argument, NULL, FAB_TRAFFIC_CONGESTION }, \
	{ "adaptive", optional_argument, NULL, FAB_TRAFFIC_ADAPTIVE }, \
	{ "transport", required_argument, NULL, FAB_TRAFFIC_TRANSPORT }, \
	{ "flows", no_argument, NULL, FAB_TRAFFIC_FLOWS }, \
	{ "series", required_argument, NULL, FAB_TRAFFIC_SERIES }, \
	{ "interval", required_argument, NULL, FAB_TRAFFIC_INTERVAL }, \
	{ "script", required_argument, NULL, FAB_TRAFFIC_SCRIPT }

#define FAB_TRAFFIC_HELP \
	"      --pattern NAME        uniform, permutation, incast, incast-victim, hot-spot,\n" \
	"                            all-to-all, all-reduce-ring or all-reduce-halving (uniform)\n" \
	"  -c, --control PATH        use the running fabric with this control socket, and its present\n" \
	"                            tables, instead of --topology and --generate\n" \
	"      --routing NAME        minhop or updn (minhop)\n" \
	"      --size BYTES          size of a message, or of the data of an all-reduce: bytes, or with K\n" \
	"                            or M (64K)\n" \
	"      --messages N          messages of each host (16; all-to-all: 1 to each other host), or\n" \
	"                            number of all-reduces (1)\n" \
	"      --load PERCENT        rate of each host, in percent of the rate of its link (100)\n" \
	"      --sl N[,N...]         service levels, 0 to 15, assigned to hosts in turn (0)\n" \
	"      --path-sl FILE        SLs of paths; each line has SLID, DLID and SL\n" \
	"      --congestion-control[=NAME=VALUE,...]  switches mark packets of congested ports,\n" \
	"                            and hosts then reduce their rates; names: threshold,\n" \
	"                            packet_size, marking_rate, ccti_timer, ccti_increase,\n" \
	"                            ccti_min, ccti_limit, cct_shift\n" \
	"      --adaptive[=any|kept] adaptive routing: of equal ports, a switch chooses the one\n" \
	"                            with the shortest queue, for each packet (any, the default), or\n" \
	"                            only after a pause, which keeps the order (kept; the verb\n" \
	"                            adaptive on has this default)\n" \
	"      --transport NAME      uc; rc: the receiver sends an ACK for each message;\n" \
	"                            ud: a message is no longer than the MTU\n" \
	"      --flows               print the rate of each host while all send\n" \
	"      --series FILE         write the rate of each host in each interval, as CSV\n" \
	"      --interval TIME       of --series (10us)\n" \
	"      --script FILE         faults and their times, as in the verb script; time 0 is the begin;\n" \
	"                            the status is 1 if a line fails\n\n"

/**
 * struct fab_traffic_options - options of the command line
 * @cfg: configuration, with pointers to @congestion, @adaptive and @paths if these are given
 * @series: file of --series, or NULL
 * @flows: --flows was given
 * @interval_ns: of @series
 * @script: file of --script, or NULL
 * @any: an option of traffic was given
 */
struct fab_traffic_options {
	struct fab_traffic_cfg cfg;
	struct fab_congestion_cfg congestion;
	struct fab_adaptive_cfg adaptive;
	struct fab_paths paths;
	const char *series;
	uint64_t interval_ns;
	bool flows;
	const char *script;
	bool any;
};

/**
 * fab_traffic_option() - process option @code with @arg. Return: false: not valid; the error was
 *	printed.
 */
bool fab_traffic_option(struct fab_traffic_options *o, int code, const char *arg);

/**
 * fab_traffic_client() - simulate the traffic on @f, and print the results. Return: exit status.
 */
int fab_traffic_client(struct fab *f, const struct fab_traffic_options *o);

#endif
