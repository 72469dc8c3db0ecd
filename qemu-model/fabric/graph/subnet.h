/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Subnets of a graph. Ports are in one subnet if switches alone connect them; channel adapters and
 * routers have ports in several of them, each with its own subnet manager. In each subnet a LID
 * belongs to one port. Two ports that have a cable without a switch between them are a subnet, too.
 *
 * Cables determine subnets, whether their links are up or not. Owner thread only.
 */
#ifndef OHCA_FABRIC_SUBNET_H
#define OHCA_FABRIC_SUBNET_H

#include "graph.h"

/** fab_subnets_find() - number the subnets of all switches. Return: false: out of memory. */
bool fab_subnets_find(struct fab *f);

/** fab_subnet_of() - number of the subnet that port @p is in, after fab_subnets_find() */
static inline uint32_t fab_subnet_of(const struct fab *f, uint32_t p)
{
	const struct fab_port *port = &f->port[p];
	const struct fab_node *n = &f->node[port->node];

	if (n->sw == FAB_NONE && port->peer != FAB_NO_PORT)
		n = &f->node[f->port[port->peer].node];
	if (n->sw != FAB_NONE)
		return f->sw[n->sw].subnet;
	/* switches use the numbers below these */
	return f->switches + (port->peer != FAB_NO_PORT && port->peer < p ? port->peer : p);
}

#endif
