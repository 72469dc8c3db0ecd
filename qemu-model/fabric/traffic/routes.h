/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Routes of a subnet without a manager: LIDs, forwarding tables, and Active links. */
#ifndef OHCA_FABRIC_TRAFFIC_ROUTES_H
#define OHCA_FABRIC_TRAFFIC_ROUTES_H

#include "fabric/graph/graph.h"

/** enum fab_routing - routing algorithm, as OpenSM's routing engines with these names */
enum fab_routing {
	FAB_ROUTING_MINHOP,	/* shortest paths; packets may wait in circles of switches */
	FAB_ROUTING_UPDN,	/* first towards roots, then away from them: there are no circles */
	FAB_ROUTING_LOADED,	/* tables, LIDs and states that a subnet manager has written */
	FAB_ROUTINGS
};

/**
 * fab_routing_find() - the routing with that name, without FAB_ROUTING_LOADED. Return:
 *	FAB_ROUTINGS: none.
 */
enum fab_routing fab_routing_find(const char *name);

/** fab_routing_name() - name of a routing */
const char *fab_routing_name(enum fab_routing routing);

/**
 * fab_routes_make() - do all that a subnet manager does before data can be sent, except for
 *	multicast
 * @routing: not FAB_ROUTING_LOADED
 *
 * Channel adapters get LIDs from 1 on, in their order. Each switch sends to a LID by a port on a
 * shortest path of @routing; among several by the port with the fewest LIDs. The roots of
 * FAB_ROUTING_UPDN are the switches that are farthest from all hosts, as the spines of a tree, or
 * one of these if otherwise not every switch with hosts can be reached. HOQLife, VLStallCount and
 * LifeTimeValue are OpenSM's.
 *
 * Return: false: out of memory, or there are more channel adapters than LIDs.
 */
bool fab_routes_make(struct fab *f, enum fab_routing routing);

/** fab_routes_active() - set links in the state Init to Active */
void fab_routes_active(struct fab *f);

#endif
