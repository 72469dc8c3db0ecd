/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Routers (IBTA volume 1, 19): a packet with a GRH that arrives at a LID of a router's port leaves
 * by another port of the router, in the subnet whose GIDPrefix the DGID has.
 *
 * A router has no tables that a manager writes. It finds its output by the GIDPrefix that the
 * subnet manager there has given to its port, or by a route to another router
 * (graph/prefix_route.h), and the LID by the PortGUID in the DGID. A real router asks the subnet
 * administration of that subnet; this one reads the ports of the fabric, which have the LIDs
 * that the subnet manager gave them.
 *
 * Owner thread only.
 */
#ifndef OHCA_FABRIC_ROUTER_H
#define OHCA_FABRIC_ROUTER_H

#include "mgmt.h"

/** enum fab_router_verdict - decision on a packet with a GRH at a router's port */
enum fab_router_verdict {
	FAB_ROUTER_ON,		/* it leaves by another port */
	FAB_ROUTER_OWN,		/* it is for a port of the router: it ends here */
	FAB_ROUTER_MALFORMED,	/* no GRH */
	FAB_ROUTER_LINK_LOCAL,	/* one of its GIDs is valid only in its own subnet (4.1.1) */
	FAB_ROUTER_BACK,	/* its DGID is of the subnet from which it arrived */
	FAB_ROUTER_HOP_LIMIT,	/* HopLmt is 0 or 1 (8.3.6) */
	FAB_ROUTER_NO_SUBNET,	/* no port has the DGID's prefix, and no route leads there */
	FAB_ROUTER_NO_GUID,	/* no port of that subnet with a LID has the DGID's GUID */
};

/** fab_is_router() - whether port @p is a router's */
static inline bool fab_is_router(const struct fab *f, uint32_t p)
{
	return f->node[f->port[p].node].type == IB_NODE_ROUTER_DEVICE;
}

/**
 * struct fab_router_way - next hop of a packet
 * @out: output port: the first Active one in that subnet
 * @guid: PortGUID of its destination in that subnet: that of the DGID, or of another router
 */
struct fab_router_way {
	uint32_t out;
	uint64_t guid;
};

/**
 * fab_router_output() - find the next hop of a packet that arrived at a router
 * @at: port of the router where it arrived; its DLID is one of that port
 * @grh: of the packet; everything in it may be wrong
 * @way: written with FAB_ROUTER_ON
 *
 * Return: the decision; never FAB_ROUTER_NO_GUID, which fab_router_lid() finds out.
 */
enum fab_router_verdict fab_router_output(const struct fab *f, uint32_t at,
					  const struct ib_grh *grh, struct fab_router_way *way);

/**
 * fab_router_lid() - LID of the port with PortGUID @guid in the subnet of router port @out
 * Return: 0: there is none, or it has no LID.
 */
uint16_t fab_router_lid(const struct fab_mgmt *m, uint32_t out, uint64_t guid);

/**
 * fab_router_mad() - find the next hop of MAD @mad, which has arrived at router port @at
 * @mad: has a GRH; with FAB_ROUTER_ON it gets the LIDs and HopLmt for its next subnet
 * @out: written with FAB_ROUTER_ON
 *
 * A MAD that ends here is counted at @at.
 */
enum fab_router_verdict fab_router_mad(struct fab_mgmt *m, uint32_t at, struct fab_mad *mad,
				       uint32_t *out);

/** fab_router_discard() - count in @c, the counters of a router port, a packet that ends by @v */
void fab_router_discard(struct ohca_port_counters *c, enum fab_router_verdict v);

#endif
