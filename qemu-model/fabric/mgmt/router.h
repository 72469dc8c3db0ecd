/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Routers (IBTA volume 1, 19): a packet with a GRH that comes to a LID of a router's port leaves by
 * another port of the router, in the subnet whose GIDPrefix the DGID has.
 *
 * A router has no tables that a manager writes. It finds its output by the GIDPrefix that the
 * subnet manager there has given to its port, or by a way to another router
 * (graph/prefix_route.h), and the LID by the PortGUID in the DGID. A real router asks the subnet
 * administration of that subnet; this one looks at the ports of the fabric, which have the LIDs
 * that the subnet manager gave them.
 *
 * Owner thread only.
 */
#ifndef OHCA_FABRIC_ROUTER_H
#define OHCA_FABRIC_ROUTER_H

#include "mgmt.h"

/** enum fab_router_verdict - what becomes of a packet with a GRH at a router's port */
enum fab_router_verdict {
	FAB_ROUTER_ON,		/* it leaves by another port */
	FAB_ROUTER_OWN,		/* it is for a port of the router: it ends here */
	FAB_ROUTER_MALFORMED,	/* no GRH */
	FAB_ROUTER_LINK_LOCAL,	/* one of its GIDs is good in its own subnet only (4.1.1) */
	FAB_ROUTER_BACK,	/* its DGID is of the subnet that it comes from */
	FAB_ROUTER_HOP_LIMIT,	/* HopLmt is 0 or 1 (8.3.6) */
	FAB_ROUTER_NO_SUBNET,	/* no port has the DGID's prefix, and no way leads there */
	FAB_ROUTER_NO_GUID,	/* no port of that subnet with a LID has the DGID's GUID */
};

/** fab_is_router() - port @p is a router's */
static inline bool fab_is_router(const struct fab *f, uint32_t p)
{
	return f->node[f->port[p].node].type == IB_NODE_ROUTER_DEVICE;
}

/**
 * struct fab_router_way - how a packet goes on
 * @out: the port that it leaves by: of several ones in that subnet the first that is Active
 * @guid: PortGUID in that subnet that it goes to: that of the DGID, or of another router
 */
struct fab_router_way {
	uint32_t out;
	uint64_t guid;
};

/**
 * fab_router_output() - how a packet that came to a router goes on
 * @at: port of the router that it came by; its DLID is one of that port
 * @grh: of the packet; everything in it may be wrong
 * @way: written with FAB_ROUTER_ON
 *
 * Return: FAB_ROUTER_NO_GUID is not found out here.
 */
enum fab_router_verdict fab_router_output(const struct fab *f, uint32_t at,
					  const struct ib_grh *grh, struct fab_router_way *way);

/**
 * fab_router_lid() - LID of the port with PortGUID @guid in the subnet of router port @out
 * Return: 0: there is none, or it has no LID.
 */
uint16_t fab_router_lid(const struct fab_mgmt *m, uint32_t out, uint64_t guid);

/**
 * fab_router_mad() - where MAD @mad, which has come to router port @at, goes on
 * @mad: has a GRH; its LIDs and HopLmt are those of its next subnet with FAB_ROUTER_ON
 * @out: written with FAB_ROUTER_ON
 *
 * What ends here is counted at @at.
 */
enum fab_router_verdict fab_router_mad(struct fab_mgmt *m, uint32_t at, struct fab_mad *mad,
				       uint32_t *out);

/** fab_router_discard() - count at router port @at, whose counters are @c, what ends by @v */
void fab_router_discard(struct ohca_port_counters *c, enum fab_router_verdict v);

#endif
