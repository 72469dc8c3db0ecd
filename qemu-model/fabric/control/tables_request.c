// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests for the tables that determine when packets leave, and on which lanes, as agents return
 * them (Documentation/control.rst). Forwarding tables are command lft.
 */
#include <stdio.h>
#include <string.h>

#include "ib/rate.h"
#include "requests.h"

#define PAGE_MAPS	8192u	/* SLtoVLMappingTables of a reply, except in the last node */
#define ENTRY		8u	/* characters of "14:255," and a terminator */

/* VL:WEIGHT,... of the entries that have a weight, as in OpenSM's options */
static json_t *vlarb_json(const struct ib_vlarb_table *t)
{
	char text[IB_VLARB_MAX * ENTRY] = "";
	size_t n = 0;

	for (unsigned int i = 0; i < t->end; i++)
		if (t->e[i].weight && t->e[i].vl < IB_MGMT_VL)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u:%u", n ? "," : "",
					      t->e[i].vl, t->e[i].weight);
	return json_string(text);
}

/* A hexadecimal digit for each SL. */
static json_t *map_json(const struct ib_sl2vl *map)
{
	char text[IB_NUM_SLS + 1] = "";

	for (unsigned int sl = 0; sl < IB_NUM_SLS; sl++)
		text[sl] = "0123456789abcdef"[map->vl[sl] & 15];
	return json_string(text);
}

/* The table for packets to port @out, or if they differ the tables of all input ports. */
static json_t *maps_json(const struct fab *f, const struct fab_node *n, unsigned int out)
{
	const struct ib_sl2vl *first = fab_sl2vl(f, n, 0, out);
	const unsigned int dim = n->sw != FAB_NONE ? n->nports + 1u : 1;
	bool same = true;
	json_t *list;

	for (unsigned int in = 1; in < dim && same; in++)
		same = !memcmp(fab_sl2vl(f, n, in, out), first, sizeof(*first));
	if (same)
		return map_json(first);
	list = json_array();
	for (unsigned int in = 0; in < dim; in++)
		json_array_append_new(list, map_json(fab_sl2vl(f, n, in, out)));
	return list;
}

static json_t *port_tables(const struct fab *f, const struct fab_node *n, unsigned int num)
{
	const uint32_t p = fab_port_of(n, num), at = fab_machine_at(f, p);
	const struct fab_port *port = &f->port[p];
	/*
	 * in the graph a machine's port is always Down: the switch's end has the state of its link
	 */
	const struct ib_port_info *pi = &f->port[at != FAB_NO_PORT ? at : p].pi;
	const struct ib_vlarb *arb = fab_pool_at(&f->vlarb, port->vlarb);

	return json_pack("{s:i, s:b, s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "port", num,
			 "active", pi->state == IB_PS_ACTIVE, "vls", ib_opvls_count(pi->op_vls),
			 "hoq_life", pi->hoq_life, "vl_stall_count", pi->vl_stall_count,
			 "high_limit", pi->vl_high_limit,
			 "vlarb_high", vlarb_json(&arb->t[IB_VLARB_HIGH]),
			 "vlarb_low", vlarb_json(&arb->t[IB_VLARB_LOW]),
			 "sl2vl", maps_json(f, n, num));
}

static json_t *node_tables(const struct fab *f, const struct fab_node *n)
{
	json_t *ports = json_array(), *v;

	for (unsigned int num = 1; num <= n->nports; num++)
		if (f->port[fab_port_of(n, num)].peer != FAB_NO_PORT)
			json_array_append_new(ports, port_tables(f, n, num));
	v = json_pack("{s:o, s:o}", "guid", fab_guid_json(n->guid), "ports", ports);
	if (n->sw != FAB_NONE)
		json_object_set_new(v, "life_time", json_integer(f->sw[n->sw].si.life_time));
	return v;
}

json_t *fab_request_tables(struct fab_request *r)
{
	const struct fab *f = r->m->f;
	uint32_t i, end, ports = 0, maps = 0;
	json_t *list, *v;

	if (!fab_request_page(r, &end))
		return NULL;
	list = json_array();
	for (i = r->first; i < end && ports < FAB_PAGE_PORTS && maps < PAGE_MAPS; i++) {
		const struct fab_node *n = &f->node[i];

		ports += n->nports;
		maps += n->sw != FAB_NONE && f->sw[n->sw].sl2vl ? n->nports * (n->nports + 1u) : n->nports;
		json_array_append_new(list, node_tables(f, n));
	}
	v = json_pack("{s:i, s:i, s:o}", "vls", f->vls, "mtu", (int)ib_mtu_bytes(f->mtu), "nodes", list);
	if (i < end)
		json_object_set_new(v, "next", json_integer(i));
	return v;
}
