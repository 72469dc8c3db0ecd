/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much the cables of a fabric can carry from some hosts to others, whatever the forwarding tables are:
 * maximum flows, by E. A. Dinic's algorithm. What tables and traffic make of it is less.
 *
 * A host is a channel adapter whose first port is at a switch; each cable has the data rate of its link in either
 * direction.
 */
#ifndef OHCA_FABRIC_GRAPH_CUT_H
#define OHCA_FABRIC_GRAPH_CUT_H

#include "graph.h"

/**
 * struct fab_cut - from some hosts to all others
 * @hosts, @others: how many these are
 * @kbps: the maximum flow from @hosts to @others
 * @sent_kbps: rates of the links of @hosts together
 */
struct fab_cut {
	uint32_t hosts, others;
	uint64_t kbps, sent_kbps;
};

/**
 * struct fab_cuts - those that tell most of a fabric
 * @half: from the first half of the hosts, in their order
 * @leaf: of the hosts of one switch to all others, that with the least flow for what the hosts can send
 * @node: that switch, or FAB_NONE: all hosts are at one
 * @each_kbps: what each host can send, and get, if each sends as much to each other one
 */
struct fab_cuts {
	struct fab_cut half, leaf;
	uint32_t node;
	uint64_t each_kbps;
};

/**
 * fab_cuts_find() - the cuts of a sealed fabric with two hosts at least
 *
 * No host can have more than @each_kbps, since all packets from one side of a cut to the other one are part of its flow.
 * Whether there is a cut with less is not looked at.
 *
 * Return: false: out of memory, or there are no two hosts.
 */
bool fab_cuts_find(const struct fab *f, struct fab_cuts *c);

#endif
