/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Capacity of the cables of a fabric from some hosts to others, whatever the forwarding tables are:
 * maximum flows, by E. A. Dinic's algorithm. Tables and traffic use less of it.
 *
 * A host is a channel adapter whose first port is at a switch. Each cable has the data rate of its
 * link in each direction.
 */
#ifndef OHCA_FABRIC_GRAPH_CUT_H
#define OHCA_FABRIC_GRAPH_CUT_H

#include "graph.h"

/**
 * struct fab_cut - a cut: from some hosts to all others
 * @hosts, @others: numbers of hosts on both sides
 * @kbps: the maximum flow from @hosts to @others
 * @sent_kbps: sum of the rates of the links of @hosts
 */
struct fab_cut {
	uint32_t hosts, others;
	uint64_t kbps, sent_kbps;
};

/**
 * struct fab_cuts - the cuts that characterise a fabric
 * @half: from the first half of the hosts, in their order
 * @leaf: from the hosts of one switch to all others, the one with the least flow in relation to
 *	what the hosts can send
 * @node: that switch, or FAB_NONE: all hosts are at one
 * @each_kbps: rate at which each host can send and receive if each sends equally to all others
 */
struct fab_cuts {
	struct fab_cut half, leaf;
	uint32_t node;
	uint64_t each_kbps;
};

/**
 * fab_cuts_find() - find the cuts of a sealed fabric with at least two hosts
 *
 * @each_kbps is an upper bound, since all packets from one side of a cut to the other are part of
 * its flow. Other cuts might give a lower bound; they are not checked.
 *
 * Return: false: out of memory, or there are less than two hosts.
 */
bool fab_cuts_find(const struct fab *f, struct fab_cuts *c);

#endif
