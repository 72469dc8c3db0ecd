// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests for the path of a packet (trace.h), and their replies (Documentation/control.rst). */
#include "requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/watch/trace.h"
#include "ib/packet.h"
#include "fabric/graph/names.h"
#include "fabric/graph/subnet.h"

static const char * const ends[] = {
	[FAB_WAY_ARRIVES] = "it arrives",
	[FAB_WAY_NO_ROUTE] = "no route: the forwarding tables lead nowhere with this LID",
	[FAB_WAY_BACK] = "no route: the forwarding table leads back to where it came from",
	[FAB_WAY_CIRCLE] = "in a circle: the packet has been at this switch before",
	[FAB_WAY_LONG] = "discarded after 255 switches",
	[FAB_WAY_NO_CABLE] = "the port has no cable",
	[FAB_WAY_LINK] = "the link is not Active",
	[FAB_WAY_OTHER_LID] = "this port has another LID",
};

bool fab_is_trace_member(const char *key)
{
	return !strcmp(key, "from") || !strcmp(key, "to") || !strcmp(key, "multicast");
}

/* Find the end port that the member @key names, or FAB_NO_PORT: r->why says what to do. */
static uint32_t end_port(struct fab_request *r, const char *key)
{
	const char *name = json_string_value(json_object_get(r->in, key));
	const uint32_t p = name ? fab_trace_port(r->m->f, name) : FAB_NO_PORT;

	if (p == FAB_NO_PORT)
		fab_request_unknown(r, "port", name ? name : "", "give a LID, a GUID as 0x..., a "
				    "NodeDescription or NODE:PORT, as topology shows them");
	return p;
}

static json_t *hop_json(const struct fab *f, const struct fab_hop *h)
{
	const struct fab_node *n = &f->node[h->node];
	const uint32_t end = n->sw != FAB_NONE ? fab_port_of(n, 0) :
			     h->in != FAB_NO_PORT ? h->in : h->out;
	json_t *v = json_pack("{s:o, s:o, s:s}", "guid", fab_guid_json(n->guid), "description",
			      fab_desc_json(&f->desc[h->node]), "type", fab_type_name(n));

	if (end != FAB_NO_PORT)
		json_object_set_new(v, "lid", json_integer(fab_end_lid(f, end)));
	if (h->in != FAB_NO_PORT)
		json_object_set_new(v, "in", json_integer(fab_port_num(f, h->in)));
	if (h->out != FAB_NO_PORT) {
		/* the switch has the state of a machine's link */
		const bool outside = n->sw == FAB_NONE && fab_outside(f, h->out);
		const uint32_t p = outside ? f->port[h->out].peer : h->out;

		json_object_set_new(v, "out", json_integer(fab_port_num(f, h->out)));
		json_object_set_new(v, "state", json_string(fab_state_name(f->port[p].pi.state)));
	}
	return v;
}

static json_t *way_json(const struct fab *f, uint16_t lid, const struct fab_way *w)
{
	json_t *hops = json_array();

	for (unsigned int i = 0; i < w->n; i++)
		json_array_append_new(hops, hop_json(f, &w->hop[i]));
	return json_pack("{s:i, s:o, s:b, s:s}", "lid", lid, "hops", hops, "arrives",
			 w->end == FAB_WAY_ARRIVES, "end", ends[w->end]);
}

/* The unicast LID that @name states, or 0: it is a GUID or another name. */
static uint16_t lid_of(const struct fab *f, const char *name)
{
	char *end;
	const unsigned long v = strtoul(name, &end, 0);

	return *name >= '0' && *name <= '9' && !*end && v < IB_LID_MCAST_MIN &&
	       fab_find_node(f, name) == FAB_NONE ? (uint16_t)v : 0;
}

/* Find the path to the requested end port or LID. Return: 0: r->why says what to do. */
static uint16_t trace_ucast(struct fab_request *r, uint32_t from, struct fab_way *w)
{
	const char *name = json_string_value(json_object_get(r->in, "to"));
	uint16_t lid = name ? lid_of(r->m->f, name) : 0;
	uint32_t to;

	/* a LID need not exist; for a port with several the given one is used */
	if (!lid) {
		to = end_port(r, "to");
		if (to == FAB_NO_PORT)
			return 0;
		if (fab_subnet_of(r->m->f, from) != fab_subnet_of(r->m->f, to)) {
			snprintf(r->why, sizeof(r->why), "'%.80s' is in another subnet: trace to a "
				 "router's port, as ROUTER:1, and on from its port there", name);
			return 0;
		}
		lid = fab_end_lid(r->m->f, to);
	}
	if (lid)
		fab_trace(r->m->f, from, lid, w);
	else
		snprintf(r->why, sizeof(r->why), "'%.80s' has no LID: start a subnet manager",
			 name);
	return lid;
}

static uint16_t trace_mcast(struct fab_request *r, uint32_t from, json_int_t mlid,
			    struct fab_way *w)
{
	const uint32_t to = end_port(r, "to");

	if (to == FAB_NO_PORT)
		return 0;
	if (mlid < IB_LID_MCAST_MIN || mlid >= IB_LID_PERMISSIVE) {
		snprintf(r->why, sizeof(r->why), "give \"multicast\", a number from 49152 (0xc000) "
			 "to 65534");
		return 0;
	}
	return fab_trace_mcast(r->m->f, from, (uint16_t)mlid, to, w) ? (uint16_t)mlid : 0;
}

json_t *fab_request_trace(struct fab_request *r)
{
	const json_t *mlid = json_object_get(r->in, "multicast");
	const uint32_t from = end_port(r, "from");
	struct fab_way *w;
	uint16_t lid = 0;
	json_t *v = NULL;

	if (from == FAB_NO_PORT)
		return NULL;
	w = malloc(sizeof(*w));
	if (w)
		lid = mlid ? trace_mcast(r, from, json_integer_value(mlid), w) :
			     trace_ucast(r, from, w);
	if (lid)
		v = way_json(r->m->f, lid, w);
	free(w);
	return v;
}
