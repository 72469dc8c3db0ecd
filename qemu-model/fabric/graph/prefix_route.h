/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Routes of routers to subnets in which they have no port: from the prefix of the subnet to a port
 * of another router. They are not checked; HopLmt ends a packet in a loop.
 */
#ifndef OHCA_FABRIC_PREFIX_ROUTE_H
#define OHCA_FABRIC_PREFIX_ROUTE_H

#include "graph.h"

/**
 * fab_prefix_route_add() - add a route of a router
 * @f: sealed
 * @text: ROUTER=PREFIX,GUID: a router as of fab_find_node(), 64 bits of a prefix in hexadecimal
 *	digits or "*" for any, and a PortGUID of another router
 * @why: [@size] filled in with the error
 *
 * Return: false: it is not valid, its prefix is link-local or that of another route of the router,
 * or there are FAB_PREFIX_ROUTES already.
 */
bool fab_prefix_route_add(struct fab *f, const char *text, char *why, size_t size);

/** fab_prefix_route_find() - route of node @router to the subnet with @prefix, or NULL */
const struct fab_prefix_route *fab_prefix_route_find(const struct fab *f, uint32_t router,
						     uint64_t prefix);

#endif
