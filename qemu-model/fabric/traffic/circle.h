/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Channels of a subnet that may wait for each other for ever. */
#ifndef OHCA_FABRIC_TRAFFIC_CIRCLE_H
#define OHCA_FABRIC_TRAFFIC_CIRCLE_H

#include "fabric/graph/graph.h"
#include "paths.h"

/**
 * struct fab_circle - channels, each of which may wait for the next one, and the last for the first
 * @n: number of channels; 0: there is no circle
 * @port: [@n] ports of switches, by which packets leave
 * @vl: [@n] VLs there
 */
struct fab_circle {
	uint32_t n;
	uint32_t *port;
	uint8_t *vl;
};

/**
 * fab_circle_find() - find a circle of a subnet, if there is one
 * @f: with LIDs, forwarding tables and links that are up
 * @sls: service levels that packets may have, a bit for each
 * @paths: paths whose packets have only one, known SL; NULL: there are none
 * @c: the circle, for fab_circle_end()
 *
 * A channel is a VL of a port by which packets leave a switch. A packet that waits in a buffer
 * occupies the channel by which it arrived, and needs the channel of its next hop. Without a circle
 * of channels that wait for each other no subnet deadlocks (Dally and Seitz, "Deadlock-free message
 * routing in multiprocessor interconnection networks", 1987); with a circle it may. All routes from
 * each port of a channel adapter to each LID of another one are followed, by LinearForwardingTables
 * and SLtoVLMappingTables.
 *
 * Return: false: out of memory.
 */
bool fab_circle_find(const struct fab *f, uint16_t sls, const struct fab_paths *paths,
		     struct fab_circle *c);

/** fab_circle_end() - free the arrays of a circle */
void fab_circle_end(struct fab_circle *c);

#endif
