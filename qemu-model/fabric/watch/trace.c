// SPDX-License-Identifier: GPL-2.0-or-later
/* Paths of packets; see trace.h. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/data/data.h"
#include "ib/packet.h"
#include "fabric/graph/names.h"

static const struct fab_node *node_of(const struct fab *f, uint32_t p)
{
	return &f->node[f->port[p].node];
}

static bool is_switch(const struct fab *f, uint32_t p)
{
	return node_of(f, p)->sw != FAB_NONE;
}

/* ---- end ports ----------------------------------------------------------------- */

static uint32_t port_of_lid(const struct fab *f, uint16_t lid)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].guid && fab_machine_at(f, p) == FAB_NO_PORT &&
		    fab_own_lid(&f->port[p], lid))
			return p;
	/* a machine's LID: its switch has the route */
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];
		const unsigned int num = n->sw != FAB_NONE ? fab_route(f, n, lid) : 0;

		if (num && num <= n->nports && fab_outside(f, fab_port_of(n, num)))
			return f->port[fab_port_of(n, num)].peer;
	}
	return FAB_NO_PORT;
}

static uint32_t port_of_node(const struct fab *f, uint32_t i)
{
	const struct fab_node *n = &f->node[i];

	if (n->sw != FAB_NONE)
		return fab_port_of(n, 0);
	for (unsigned int k = 1; k <= n->nports; k++)
		if (fab_end_lid(f, fab_port_of(n, k)))
			return fab_port_of(n, k);
	return fab_port_of(n, 1);
}

uint32_t fab_trace_port(const struct fab *f, const char *name)
{
	const uint32_t i = fab_find_node(f, name);
	unsigned long v;
	uint32_t p;
	char *end;

	if (i != FAB_NONE) {
		/* a PortGUID names one of its ports, a NodeGUID the node */
		p = f->node[i].sw == FAB_NONE ? fab_find_port_guid(f, name) : FAB_NO_PORT;
		return p != FAB_NO_PORT ? p : port_of_node(f, i);
	}
	v = strtoul(name, &end, 0);
	if (*name >= '0' && *name <= '9' && !*end)
		return v && v < IB_LID_MCAST_MIN ? port_of_lid(f, (uint16_t)v) : FAB_NO_PORT;
	p = fab_find_port(f, name);
	return p == FAB_NO_PORT ? p : fab_end_port(f, p);
}

/* ---- hops ---------------------------------------------------------------------- */

/* Whether a packet from port @out reaches the other end; else the reason */
static enum fab_way_end crosses(const struct fab *f, uint32_t out)
{
	const struct fab_port *a = &f->port[out], *b = &f->port[a->peer];

	if (a->peer == FAB_NO_PORT)
		return FAB_WAY_NO_CABLE;
	if (fab_outside(f, out))
		return (is_switch(f, out) ? a : b)->pi.state == IB_PS_ACTIVE ? FAB_WAY_ARRIVES :
									   FAB_WAY_LINK;
	return a->pi.state == IB_PS_ACTIVE && b->pi.state >= IB_PS_ARMED ? FAB_WAY_ARRIVES :
									   FAB_WAY_LINK;
}

static bool had_before(const struct fab *f, const struct fab_way *w, uint32_t at)
{
	for (unsigned int i = 0; i < w->n; i++)
		if (w->hop[i].node == f->port[at].node)
			return true;
	return false;
}

/*
 * Find the port by which a packet for @dlid at port @at of a switch leaves. Return: the reason if
 * none.
 */
static enum fab_way_end next(const struct fab *f, uint32_t at, uint16_t dlid, uint32_t *out)
{
	const struct fab_node *n = node_of(f, at);
	const unsigned int num = fab_route(f, n, dlid);

	if (num > n->nports)
		return FAB_WAY_NO_ROUTE;
	if (!num)
		return fab_own_lid(&f->port[fab_port_of(n, 0)], dlid) ? FAB_WAY_ARRIVES :
									FAB_WAY_OTHER_LID;
	*out = fab_port_of(n, num);
	return *out == at ? FAB_WAY_BACK : crosses(f, *out);
}

void fab_trace(const struct fab *f, uint32_t from, uint16_t dlid, struct fab_way *w)
{
	uint32_t at = from;

	w->n = 0;
	for (;;) {
		struct fab_hop *h = &w->hop[w->n];
		const bool circle = had_before(f, w, at);

		*h = (struct fab_hop){ f->port[at].node, w->n ? at : FAB_NO_PORT, FAB_NO_PORT };
		w->n++;
		if (circle || w->n == FAB_WAY_HOPS) {
			w->end = circle ? FAB_WAY_CIRCLE : FAB_WAY_LONG;
			return;
		}
		if (is_switch(f, at)) {
			w->end = next(f, at, dlid, &h->out);
		} else if (w->n > 1 || fab_end_lid(f, at) == dlid) {
			w->end = fab_machine_at(f, at) != FAB_NO_PORT ||
				 fab_own_lid(&f->port[at], dlid) ? FAB_WAY_ARRIVES :
								   FAB_WAY_OTHER_LID;
		} else {
			h->out = at;
			w->end = crosses(f, at);
		}
		if (w->end != FAB_WAY_ARRIVES || h->out == FAB_NO_PORT)
			return;
		at = f->port[h->out].peer;
	}
}

/* ---- multicast ----------------------------------------------------------------- */

/* State of a search: the ports by which nodes were reached first. */
struct search {
	const struct fab *f;
	uint32_t *by;		/* [nodes] port by which it was reached, FAB_NO_PORT: it was not */
	uint32_t *before;	/* [nodes] port by which the path leaves the previous node */
	uint32_t *queue;
	uint32_t head, tail;
};

static void reach(struct search *s, uint32_t out)
{
	const uint32_t at = s->f->port[out].peer;
	const uint32_t node = s->f->port[at].node;

	if (s->by[node] != FAB_NO_PORT)
		return;
	s->by[node] = at;
	s->before[node] = out;
	s->queue[s->tail++] = node;
}

static void way_spread(struct search *s, uint32_t node, uint32_t in, uint16_t mlid)
{
	const struct fab_node *n = &s->f->node[node];
	uint64_t mc[4];

	fab_mcast_ports(s->f, n, in != FAB_NO_PORT ? fab_port_num(s->f, in) : 0, mlid, mc);
	for (unsigned int num = 1; num <= n->nports; num++)
		if (mc[num / 64] >> (num % 64) & 1 && fab_port_of(n, num) != in &&
		    crosses(s->f, fab_port_of(n, num)) == FAB_WAY_ARRIVES)
			reach(s, fab_port_of(n, num));
}

/* Fill in the hops from @from to @node, which was reached. */
static void take_way(const struct search *s, uint32_t from, uint32_t node, struct fab_way *w)
{
	const uint32_t start = s->f->port[from].node;
	uint32_t out = FAB_NO_PORT;
	unsigned int n = 1;

	for (uint32_t i = node; i != start; i = s->f->port[s->before[i]].node)
		n++;
	w->n = n < FAB_WAY_HOPS ? n : FAB_WAY_HOPS;
	w->end = n < FAB_WAY_HOPS ? FAB_WAY_ARRIVES : FAB_WAY_LONG;
	while (n--) {
		if (n < FAB_WAY_HOPS)
			w->hop[n] = (struct fab_hop){ node, n ? s->by[node] : FAB_NO_PORT, out };
		if (!n)
			break;
		out = s->before[node];
		node = s->f->port[out].node;
	}
}

bool fab_trace_mcast(const struct fab *f, uint32_t from, uint16_t mlid, uint32_t to,
		     struct fab_way *w)
{
	const uint32_t start = f->port[from].node, target = f->port[to].node;
	uint32_t *room = calloc(3 * (size_t)f->nodes, sizeof(*room));
	struct search s = { .f = f, .by = room };

	if (!room)
		return false;
	s.before = room + f->nodes;
	s.queue = s.before + f->nodes;
	s.by[start] = from;
	w->n = 1;
	w->hop[0] = (struct fab_hop){ start, FAB_NO_PORT, FAB_NO_PORT };
	w->end = FAB_WAY_NO_ROUTE;
	if (is_switch(f, from)) {
		way_spread(&s, start, FAB_NO_PORT, mlid);
	} else {
		w->hop[0].out = from;
		if (crosses(f, from) == FAB_WAY_ARRIVES)
			reach(&s, from);
		else
			w->end = crosses(f, from);
	}
	while (s.head < s.tail) {
		const uint32_t node = s.queue[s.head++];

		if (f->node[node].sw != FAB_NONE)
			way_spread(&s, node, s.by[node], mlid);
		if (node == target && start != target) {
			take_way(&s, from, node, w);
			break;
		}
	}
	free(room);
	return true;
}
