/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A subnet without a manager: LIDs, forwarding tables, and links that are Active. */
#ifndef OHCA_FABRIC_TRAFFIC_ROUTES_H
#define OHCA_FABRIC_TRAFFIC_ROUTES_H

#include "fabric/graph/graph.h"

/** enum fab_routing - which ways, as the routing engines of OpenSM with these names have them */
enum fab_routing {
	FAB_ROUTING_MINHOP,	/* shortest ways; in circles of switches they may wait for each other */
	FAB_ROUTING_UPDN,	/* first towards roots, then away from them: none waits in a circle */
	FAB_ROUTING_LOADED,	/* tables, LIDs and states are there, as a subnet manager has written them */
	FAB_ROUTINGS
};

/** fab_routing_find() - the routing with that name, of those that can be made. Return: FAB_ROUTINGS: there is none. */
enum fab_routing fab_routing_find(const char *name);

/** fab_routing_name() - of fab_routing_find() */
const char *fab_routing_name(enum fab_routing routing);

/**
 * fab_routes_make() - all that a subnet manager does before data can be sent, but for multicast
 * @routing: one that can be made
 *
 * Channel adapters have LIDs from 1 on, in their order. Each switch sends to a LID by a port on a
 * shortest way of those that @routing has, of several the one that fewest LIDs have. The roots of
 * FAB_ROUTING_UPDN are the switches that are farthest from all hosts, as the spines of a tree, or one of
 * these if not every switch with hosts is reached so. HOQLife, VLStallCount and
 * LifeTimeValue are OpenSM's.
 *
 * Return: false: out of memory, or there are more channel adapters than LIDs.
 */
bool fab_routes_make(struct fab *f, enum fab_routing routing);

/** fab_routes_active() - links that are Init are Active */
void fab_routes_active(struct fab *f);

#endif
