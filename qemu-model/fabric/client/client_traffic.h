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
	"  -c, --control PATH        the fabric, with the tables that it has now, is the one that runs\n" \
	"                            there, instead of --topology and --generate\n" \
	"      --routing NAME        minhop or updn (minhop)\n" \
	"      --size BYTES          of a message, or what all reduce, or with K or M (64K)\n" \
	"      --messages N          of each host (16, or of all-to-all one to each other host), or\n" \
	"                            all-reduces (1)\n" \
	"      --load PERCENT        of the rate of their links (100)\n" \
	"      --sl N[,N...]         service levels, 0 to 15, which hosts have in turn (0)\n" \
	"      --path-sl FILE        SLs of paths, in lines of SLID, DLID and SL\n" \
	"      --congestion-control[=NAME=VALUE,...]  switches mark packets of ports that are\n" \
	"                            congested, and hosts send more slowly then: threshold,\n" \
	"                            packet_size, marking_rate, ccti_timer, ccti_increase,\n" \
	"                            ccti_min, ccti_limit, cct_shift\n" \
	"      --adaptive[=any|kept] switches send by that of equal ways for which least waits,\n" \
	"                            each packet (any, which --adaptive alone is), or, to keep the\n" \
	"                            order, after a pause; adaptive on alone is kept\n" \
	"      --transport NAME      uc; rc: an ACK comes back for each message;\n" \
	"                            ud: a message is no longer than the MTU\n" \
	"      --flows               print the rate of each host while all send\n" \
	"      --series FILE         write the rate of each host in each interval, as CSV\n" \
	"      --interval TIME       of --series (10us)\n" \
	"      --script FILE         faults at their times, as of the verb script, from the begin on;\n" \
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
