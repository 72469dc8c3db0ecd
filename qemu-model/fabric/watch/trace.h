/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The way of a packet by the forwarding tables and links as they are now, without sending one: what
 * the data path (data.h) would do with it, but for filters, MTU, SL and credit. Owner thread only.
 */
#ifndef OHCA_FABRIC_TRACE_H
#define OHCA_FABRIC_TRACE_H

#include "fabric/mgmt/mgmt.h"

#define FAB_WAY_HOPS	257u	/* a sender, FAB_MAX_HOPS switches, and who gets it */

/** enum fab_way_end - where a way ends, and why */
enum fab_way_end {
	FAB_WAY_ARRIVES,
	FAB_WAY_NO_ROUTE,	/* the switch has no port for the LID */
	FAB_WAY_BACK,		/* its port for the LID is the one that the packet came by */
	FAB_WAY_CIRCLE,		/* the switch has had the packet before */
	FAB_WAY_LONG,		/* FAB_WAY_HOPS */
	FAB_WAY_NO_CABLE,	/* out of a port without a cable */
	FAB_WAY_LINK,		/* out of a port that is not Active, or whose peer is not Armed */
	FAB_WAY_OTHER_LID,	/* at an end port that has another LID */
};

/**
 * struct fab_hop - a node on the way
 * @node: the node
 * @in: port by which the packet comes, FAB_NO_PORT: it begins here
 * @out: port by which it leaves, FAB_NO_PORT: it ends here
 */
struct fab_hop {
	uint32_t node;
	uint32_t in;
	uint32_t out;
};

/** struct fab_way - @hop: [@n], at least one; @end: of the last one */
struct fab_way {
	enum fab_way_end end;
	unsigned int n;
	struct fab_hop hop[FAB_WAY_HOPS];
};

/**
 * fab_trace() - the way of a unicast packet
 * @from: port of the sender, a switch's port 0 for one
 * @dlid: its destination
 */
void fab_trace(const struct fab *f, uint32_t from, uint16_t dlid, struct fab_way *w);

/**
 * fab_trace_mcast() - the way of the copy of a multicast packet that end port @to gets first
 * @from: as above
 * @mlid: its destination
 *
 * Without such a copy the way has the sender alone, and no route.
 *
 * Return: false: out of memory.
 */
bool fab_trace_mcast(const struct fab *f, uint32_t from, uint16_t mlid, uint32_t to,
		     struct fab_way *w);

/**
 * fab_trace_port() - the end port that is called @name: a LID, a NodeGUID or PortGUID (0x...), a
 *	NodeDescription, or NODE:PORT
 *
 * Return: port 0 of a switch; a host's first port with a LID or else the first; FAB_NO_PORT.
 */
uint32_t fab_trace_port(const struct fab *f, const char *name);

#endif
