/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The path of a packet by the current forwarding tables and links, without sending one: what the
 * data path (data.h) would do with it, without filters, MTU, SL and credit. Owner thread only.
 */
#ifndef OHCA_FABRIC_TRACE_H
#define OHCA_FABRIC_TRACE_H

#include "fabric/mgmt/mgmt.h"

#define FAB_WAY_HOPS	257u	/* a sender, FAB_MAX_HOPS switches, and a receiver */

/** enum fab_way_end - where a path ends, and why */
enum fab_way_end {
	FAB_WAY_ARRIVES,
	FAB_WAY_NO_ROUTE,	/* the switch has no port for the LID */
	FAB_WAY_BACK,		/* its port for the LID is the one by which the packet arrived */
	FAB_WAY_CIRCLE,		/* the path has crossed the switch before */
	FAB_WAY_LONG,		/* longer than FAB_WAY_HOPS */
	FAB_WAY_NO_CABLE,	/* out of a port without a cable */
	FAB_WAY_LINK,		/* out of a port that is not Active, or whose peer is not Armed */
	FAB_WAY_OTHER_LID,	/* at an end port that has another LID */
};

/**
 * struct fab_hop - a node on the path
 * @node: the node
 * @in: port by which the packet arrives, FAB_NO_PORT: the path begins here
 * @out: port by which it leaves, FAB_NO_PORT: the path ends here
 */
struct fab_hop {
	uint32_t node;
	uint32_t in;
	uint32_t out;
};

/** struct fab_way - a path: @hop: [@n] nodes, at least one; @end: why it ends at the last one */
struct fab_way {
	enum fab_way_end end;
	unsigned int n;
	struct fab_hop hop[FAB_WAY_HOPS];
};

/**
 * fab_trace() - find the path of a unicast packet
 * @from: port of the sender; port 0 of a switch
 * @dlid: its destination
 */
void fab_trace(const struct fab *f, uint32_t from, uint16_t dlid, struct fab_way *w);

/**
 * fab_trace_mcast() - find the path of the copy of a multicast packet that end port @to receives
 *	first
 * @from: as above
 * @mlid: its destination
 *
 * Without such a copy the path has only the sender, and FAB_WAY_NO_ROUTE.
 *
 * Return: false: out of memory.
 */
bool fab_trace_mcast(const struct fab *f, uint32_t from, uint16_t mlid, uint32_t to,
		     struct fab_way *w);

/**
 * fab_trace_port() - find the end port @name: a LID, a NodeGUID or PortGUID (0x...), a
 *	NodeDescription, or NODE:PORT
 *
 * Return: port 0 of a switch; a host's first port with a LID or else the first; FAB_NO_PORT.
 */
uint32_t fab_trace_port(const struct fab *f, const char *name);

#endif
