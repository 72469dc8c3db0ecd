// SPDX-License-Identifier: GPL-2.0-or-later
/* Forwarding tables without a subnet manager; see routes.h. */
#include "routes.h"

#include <stdlib.h>
#include <string.h>

#include "ib/packet.h"

#define OPENSM_TIME	18u	/* HOQLife, LifeTimeValue: 1.07 s */
#define OPENSM_STALLS	7u
#define FAR_AWAY	UINT16_MAX

/**
 * struct route_maker - a fabric whose tables are made
 * @dist: [nodes] wires from a switch to the one at hand, FAR_AWAY: there is no way
 * @queue: [nodes] switches in the order of @dist
 * @used: [ports] LIDs that leave by that port
 */
struct route_maker {
	struct fab *f;
	uint16_t *dist;
	uint32_t *queue;
	uint32_t *used;
};

/* The switch at the other end of the link at port @p, or FAB_NONE. */
static uint32_t next_switch(const struct fab *f, uint32_t p)
{
	const uint32_t peer = f->port[p].peer;
	uint32_t node;

	if (peer == FAB_NO_PORT || f->port[p].pi.state == IB_PS_DOWN)
		return FAB_NONE;
	node = f->port[peer].node;
	return f->node[node].sw != FAB_NONE ? node : FAB_NONE;
}

/* Distances of all switches to @to. */
static void find_distances(struct route_maker *r, uint32_t to)
{
	const struct fab *f = r->f;
	uint32_t head = 0, tail = 1;

	for (uint32_t i = 0; i < f->nodes; i++)
		r->dist[i] = FAR_AWAY;
	r->dist[to] = 0;
	r->queue[0] = to;
	while (head < tail) {
		const uint32_t at = r->queue[head++];
		const struct fab_node *n = &f->node[at];

		for (unsigned int i = 1; i <= n->nports; i++) {
			const uint32_t next = next_switch(f, fab_port_of(n, i));

			if (next == FAB_NONE || r->dist[next] != FAR_AWAY)
				continue;
			r->dist[next] = (uint16_t)(r->dist[at] + 1);
			r->queue[tail++] = next;
		}
	}
}

/* The port of switch @n by which a LID leaves on a shortest way, or 0: there is none. */
static unsigned int least_used(const struct route_maker *r, const struct fab_node *n, uint16_t dist)
{
	unsigned int best = 0;

	for (unsigned int i = 1; i <= n->nports; i++) {
		const uint32_t p = fab_port_of(n, i), next = next_switch(r->f, p);

		if (next == FAB_NONE || r->dist[next] >= dist)
			continue;
		if (!best || r->used[p] < r->used[fab_port_of(n, best)])
			best = i;
	}
	return best;
}

/* All switches know the way to @lid, whose port is at port @leaf. */
static void route_lid(struct route_maker *r, uint16_t lid, uint32_t leaf)
{
	const struct fab *f = r->f;

	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];
		unsigned int num;

		if (n->sw == FAB_NONE || r->dist[i] == FAR_AWAY)
			continue;
		num = r->dist[i] ? least_used(r, n, r->dist[i]) : fab_port_num(f, leaf);
		if (!num)
			continue;
		r->used[fab_port_of(n, num)]++;
		f->sw[n->sw].lft[lid] = (uint8_t)num;
	}
}

/* Room for LIDs up to @top in all tables. */
static bool make_tables(struct fab *f, uint16_t top)
{
	const uint16_t blocks = (uint16_t)(top / IB_LFT_PER_BLOCK + 1);

	for (uint32_t i = 0; i < f->switches; i++) {
		struct fab_switch *sw = &f->sw[i];

		free(sw->lft);
		sw->lft = malloc((size_t)blocks * IB_LFT_PER_BLOCK);
		sw->lft_blocks = sw->lft ? blocks : 0;
		if (!sw->lft)
			return false;
		memset(sw->lft, IB_LFT_NO_PORT, (size_t)blocks * IB_LFT_PER_BLOCK);
		sw->si.linear_top = top;
		sw->si.life_time = OPENSM_TIME;
	}
	for (uint32_t p = 1; p < f->ports; p++) {
		f->port[p].pi.hoq_life = OPENSM_TIME;
		f->port[p].pi.vl_stall_count = OPENSM_STALLS;
	}
	return true;
}

static void make_ways(struct route_maker *r)
{
	uint32_t to = FAB_NONE;
	uint16_t lid = 0;

	for (uint32_t i = 0; i < r->f->nodes; i++) {
		const struct fab_node *n = &r->f->node[i];
		struct fab_port *p = &r->f->port[fab_port_of(n, 1)];
		uint32_t sw;

		if (n->type != IB_NODE_CHANNEL_ADAPTER)
			continue;
		p->pi.lid = ++lid;
		if (p->peer == FAB_NO_PORT)
			continue;
		sw = r->f->port[p->peer].node;
		if (r->f->node[sw].sw == FAB_NONE)
			continue;
		if (sw != to)
			find_distances(r, sw);
		to = sw;
		route_lid(r, lid, p->peer);
	}
}

bool fab_routes_make(struct fab *f)
{
	struct route_maker r = {
		.f = f,
		.dist = calloc(f->nodes, sizeof(*r.dist)),
		.queue = calloc(f->nodes, sizeof(*r.queue)),
		.used = calloc(f->ports, sizeof(*r.used)),
	};
	uint32_t hosts = 0;
	bool ok;

	for (uint32_t i = 0; i < f->nodes; i++)
		hosts += f->node[i].type == IB_NODE_CHANNEL_ADAPTER;
	ok = r.dist && r.queue && r.used && hosts < IB_LID_MCAST_MIN &&
	     make_tables(f, (uint16_t)hosts);
	if (ok)
		make_ways(&r);
	free(r.dist);
	free(r.queue);
	free(r.used);
	return ok;
}

void fab_routes_active(struct fab *f)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].pi.state == IB_PS_INIT)
			f->port[p].pi.state = IB_PS_ACTIVE;
}
