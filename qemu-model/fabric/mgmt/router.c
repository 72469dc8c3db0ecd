// SPDX-License-Identifier: GPL-2.0-or-later
/* Outputs of routers; see router.h. */
#include "router.h"

#include <string.h>

#include "fabric/graph/names.h"
#include "fabric/graph/prefix_route.h"
#include "fabric/graph/subnet.h"

/* The GUID in @gid. */
static uint64_t gid_guid(const uint8_t gid[16])
{
	return ib_get_be64(gid + 8);
}

static uint64_t gid_prefix(const uint8_t gid[16])
{
	return ib_get_be64(gid);
}

/* Whether it is in FE80::/10, which no router forwards. */
static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* Whether @gid is one of a port of the router of port @at; a link-local GID counts for @at only. */
static bool is_own(const struct fab *f, uint32_t at, const uint8_t gid[16])
{
	const struct fab_node *n = &f->node[f->port[at].node];

	if (gid_guid(gid) == f->port[at].guid && is_link_local(gid))
		return true;
	for (unsigned int i = 1; i <= n->nports; i++) {
		const struct fab_port *p = &f->port[fab_port_of(n, i)];

		if (gid_guid(gid) == p->guid && gid_prefix(gid) == p->pi.gid_prefix)
			return true;
	}
	return false;
}

/* Whether port @p is in the subnet with @prefix, or in that of port @next. */
static bool leads_to(const struct fab *f, uint32_t p, uint64_t prefix, uint32_t next)
{
	return next == FAB_NO_PORT ? f->port[p].pi.gid_prefix == prefix :
				     fab_subnet_of(f, p) == fab_subnet_of(f, next);
}

/* The port of router @n that leads there, preferably one that is Active, or FAB_NO_PORT. */
static uint32_t find_output(const struct fab *f, const struct fab_node *n, uint64_t prefix,
			    uint32_t next)
{
	uint32_t first = FAB_NO_PORT;

	for (unsigned int i = 1; i <= n->nports; i++) {
		const uint32_t p = fab_port_of(n, i);

		if (!leads_to(f, p, prefix, next))
			continue;
		if (f->port[p].pi.state == IB_PS_ACTIVE)
			return p;
		if (first == FAB_NO_PORT)
			first = p;
	}
	return first;
}

/* The output for a packet to a subnet in which the router of port @at has no port. */
static enum fab_router_verdict by_route(const struct fab *f, uint32_t at, uint64_t prefix,
					struct fab_router_way *way)
{
	const uint32_t router = f->port[at].node;
	const struct fab_prefix_route *r = fab_prefix_route_find(f, router, prefix);

	if (!r)
		return FAB_ROUTER_NO_SUBNET;
	way->out = find_output(f, &f->node[router], 0, r->next);
	way->guid = f->port[r->next].guid;
	if (way->out == FAB_NO_PORT)
		return FAB_ROUTER_NO_SUBNET;
	return fab_subnet_of(f, way->out) == fab_subnet_of(f, at) ? FAB_ROUTER_BACK : FAB_ROUTER_ON;
}

enum fab_router_verdict fab_router_output(const struct fab *f, uint32_t at,
					  const struct ib_grh *grh, struct fab_router_way *way)
{
	const struct fab_port *port = &f->port[at];
	const uint64_t prefix = gid_prefix(grh->dgid);

	if (ib_grh_ipver(grh) != IB_GRH_IPVER || grh->nxthdr != IB_GRH_NXTHDR ||
	    ib_gid_is_mcast(grh->dgid))
		return FAB_ROUTER_MALFORMED;
	if (is_own(f, at, grh->dgid))
		return FAB_ROUTER_OWN;
	if (is_link_local(grh->dgid) || is_link_local(grh->sgid))
		return FAB_ROUTER_LINK_LOCAL;
	if (prefix == port->pi.gid_prefix)
		return FAB_ROUTER_BACK;
	if (grh->hoplimit <= 1)
		return FAB_ROUTER_HOP_LIMIT;
	way->out = find_output(f, &f->node[port->node], prefix, FAB_NO_PORT);
	way->guid = gid_guid(grh->dgid);
	return way->out != FAB_NO_PORT ? FAB_ROUTER_ON : by_route(f, at, prefix, way);
}

uint16_t fab_router_lid(const struct fab_mgmt *m, uint32_t out, uint64_t guid)
{
	uint32_t p = fab_port_with_guid(m->f, guid), at;

	/*
	 * a machine claims its GUID: a port of the graph has precedence, so it cannot receive the
	 * packets of one
	 */
	if (p == FAB_NO_PORT || fab_outside(m->f, p)) {
		at = m->wires ? m->wires->find(m->wires_ctx, guid) : FAB_NO_PORT;
		if (at == FAB_NO_PORT)
			return 0;
		p = m->f->port[at].peer;
	}
	return fab_subnet_of(m->f, p) == fab_subnet_of(m->f, out) ? fab_end_lid(m->f, p) : 0;
}

void fab_router_discard(struct ohca_port_counters *c, enum fab_router_verdict v)
{
	if (v == FAB_ROUTER_MALFORMED) {
		c->rcv_errors++;
		c->rcv_malformed++;
		return;
	}
	c->rcv_switch_relay_errors++;
	if (v == FAB_ROUTER_BACK)
		c->rcv_looping++;
	else if (v == FAB_ROUTER_NO_SUBNET || v == FAB_ROUTER_NO_GUID)
		c->rcv_dlid_mapping++;
}

enum fab_router_verdict fab_router_mad(struct fab_mgmt *m, uint32_t at, struct fab_mad *mad,
				       uint32_t *out)
{
	struct fab_router_way way;
	enum fab_router_verdict v = fab_router_output(m->f, at, &mad->grh, &way);
	struct fab_extra *x;

	if (v == FAB_ROUTER_OWN)
		return v;
	if (v == FAB_ROUTER_ON) {
		const uint16_t lid = fab_router_lid(m, way.out, way.guid);

		if (lid) {
			*out = way.out;
			mad->dlid = lid;
			mad->slid = m->f->port[*out].pi.lid;
			mad->grh.hoplimit--;
			return v;
		}
		v = FAB_ROUTER_NO_GUID;
	}
	x = fab_extra(m->f, at);
	if (x)
		fab_router_discard(&x->ctr, v);
	return v;
}
