/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A subnet without a manager: LIDs, forwarding tables, and links that are Active. */
#ifndef OHCA_FABRIC_TRAFFIC_ROUTES_H
#define OHCA_FABRIC_TRAFFIC_ROUTES_H

#include "fabric/graph/graph.h"

/**
 * fab_routes_make() - all that a subnet manager does before data can be sent, but for multicast
 *
 * Channel adapters have LIDs from 1 on, in their order. Each switch sends to a LID by a port on a
 * shortest way, of several the one that fewest LIDs have, as OpenSM's minhop does; in circles of switches
 * such ways may wait for each other. HOQLife, VLStallCount and LifeTimeValue are OpenSM's.
 *
 * Return: false: out of memory, or there are more channel adapters than LIDs.
 */
bool fab_routes_make(struct fab *f);

/** fab_routes_active() - links that are Init are Active */
void fab_routes_active(struct fab *f);

#endif
