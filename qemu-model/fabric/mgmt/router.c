// SPDX-License-Identifier: GPL-2.0-or-later
/* Where packets leave a router; see router.h. */
#include "router.h"

#include <string.h>

#include "fabric/graph/names.h"
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

/* Of FE80::/10, which no router forwards. */
static bool is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

enum fab_router_verdict fab_router_output(const struct fab *f, uint32_t at,
					  const struct ib_grh *grh, uint32_t *out)
{
	const struct fab_port *port = &f->port[at];
	const struct fab_node *n = &f->node[port->node];
	const uint64_t prefix = gid_prefix(grh->dgid);

	if (ib_grh_ipver(grh) != IB_GRH_IPVER || grh->nxthdr != IB_GRH_NXTHDR ||
	    ib_gid_is_mcast(grh->dgid))
		return FAB_ROUTER_MALFORMED;
	if (gid_guid(grh->dgid) == port->guid &&
	    (prefix == port->pi.gid_prefix || is_link_local(grh->dgid)))
		return FAB_ROUTER_OWN;
	if (is_link_local(grh->dgid) || is_link_local(grh->sgid))
		return FAB_ROUTER_LINK_LOCAL;
	if (prefix == port->pi.gid_prefix)
		return FAB_ROUTER_BACK;
	if (grh->hoplimit <= 1)
		return FAB_ROUTER_HOP_LIMIT;
	*out = FAB_NO_PORT;
	for (unsigned int i = 1; i <= n->nports; i++) {
		const uint32_t p = fab_port_of(n, i);

		if (f->port[p].pi.gid_prefix != prefix)
			continue;
		if (*out == FAB_NO_PORT)
			*out = p;
		if (f->port[p].pi.state != IB_PS_ACTIVE)
			continue;
		*out = p;
		break;
	}
	return *out == FAB_NO_PORT ? FAB_ROUTER_NO_SUBNET : FAB_ROUTER_ON;
}

uint16_t fab_router_lid(const struct fab_mgmt *m, uint32_t out, uint64_t guid)
{
	const uint32_t machine = m->wires ? m->wires->find(m->wires_ctx, guid) : FAB_NO_PORT;
	uint32_t p;

	if (machine != FAB_NO_PORT) {
		p = m->f->port[machine].peer;
	} else {
		p = fab_port_with_guid(m->f, guid);
		/* a machine with another GUID may have its place */
		if (p == FAB_NO_PORT || fab_outside(m->f, p))
			return 0;
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
	enum fab_router_verdict v = fab_router_output(m->f, at, &mad->grh, out);
	struct fab_extra *x;

	if (v == FAB_ROUTER_OWN)
		return v;
	if (v == FAB_ROUTER_ON) {
		const uint16_t lid = fab_router_lid(m, *out, gid_guid(mad->grh.dgid));

		if (lid) {
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
