// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes forwarding tables without a subnet manager; see routes.h. */
#include "routes.h"

#include <stdlib.h>
#include <string.h>

#include "ib/packet.h"

#define OPENSM_TIME	18u	/* HOQLife, LifeTimeValue: 1.07 s */
#define OPENSM_STALLS	7u
#define FAR_AWAY	UINT16_MAX

static const char *const names[FAB_ROUTINGS] = { "minhop", "updn", "loaded" };

/**
 * struct route_maker - a fabric whose tables are made
 * @dist: [nodes] wires from a switch to the current destination, FAR_AWAY: there is no path
 * @queue: [nodes] switches in the order of @dist
 * @used: [ports] number of LIDs that leave by that port
 * @by_height: [nodes] switches from the roots on, NULL: there are no heights
 * @place: [nodes] position of a switch in @by_height
 * @part: [nodes] the first of the switches to which a switch has a path
 * @top: [nodes] for such a first one, distance of its roots from hosts, FAR_AWAY: it has none yet
 * @down: [nodes] the path to the current destination leads down only
 */
struct route_maker {
	struct fab *f;
	uint16_t *dist;
	uint32_t *queue;
	uint32_t *used;
	uint32_t *by_height;
	uint32_t *place;
	uint32_t *part;
	uint16_t *top;
	bool *down;
};

/*
 * Compute distances from the first @tail switches of r->queue, whose distances are set, to all
 * others; with @up only by wires that lead up. Return: number of switches in r->queue.
 */
static uint32_t spread(struct route_maker *r, uint32_t tail, bool up)
{
	const struct fab *f = r->f;

	for (uint32_t head = 0; head < tail; head++) {
		const uint32_t at = r->queue[head];
		const struct fab_node *n = &f->node[at];

		for (unsigned int i = 1; i <= n->nports; i++) {
			const uint32_t next = fab_next_switch(f, fab_port_of(n, i));

			if (next == FAB_NONE || r->dist[next] != FAR_AWAY ||
			    (up && r->place[next] > r->place[at]))
				continue;
			r->dist[next] = (uint16_t)(r->dist[at] + 1);
			r->queue[tail++] = next;
		}
	}
	return tail;
}

static void forget_distances(struct route_maker *r)
{
	for (uint32_t i = 0; i < r->f->nodes; i++)
		r->dist[i] = FAR_AWAY;
}

/* Compute the distances of switches whose paths lead up first: by the nearest switch above. */
static void climb(struct route_maker *r, uint32_t switches)
{
	const struct fab *f = r->f;

	/* in the order of heights: distances of the switches above are known */
	for (uint32_t k = 0; k < switches; k++) {
		const uint32_t at = r->by_height[k];
		const struct fab_node *n = &f->node[at];

		for (unsigned int i = 1; i <= n->nports && !r->down[at]; i++) {
			const uint32_t next = fab_next_switch(f, fab_port_of(n, i));

			if (next != FAB_NONE && r->place[next] < k &&
			    r->dist[next] < r->dist[at] - 1)
				r->dist[at] = (uint16_t)(r->dist[next] + 1);
		}
	}
}

/* Compute the distances of all switches to @to. */
static void find_distances(struct route_maker *r, uint32_t to, uint32_t switches)
{
	forget_distances(r);
	r->dist[to] = 0;
	r->queue[0] = to;
	spread(r, 1, r->by_height != NULL);
	if (!r->by_height)
		return;
	for (uint32_t i = 0; i < r->f->nodes; i++)
		r->down[i] = r->dist[i] != FAR_AWAY;
	climb(r, switches);
}

/* Whether packets may go from switch @at to @next, which is nearer. */
static bool may_go(const struct route_maker *r, uint32_t at, uint32_t next)
{
	if (!r->by_height)
		return true;
	return r->down[at] ? r->down[next] && r->place[next] > r->place[at] :
			     r->place[next] < r->place[at];
}

/* The port of switch @at on a shortest path that the fewest LIDs use, or 0: there is none. */
static unsigned int least_used(const struct route_maker *r, uint32_t at)
{
	const struct fab_node *n = &r->f->node[at];
	unsigned int best = 0;

	for (unsigned int i = 1; i <= n->nports; i++) {
		const uint32_t p = fab_port_of(n, i), next = fab_next_switch(r->f, p);

		if (next == FAB_NONE || r->dist[next] + 1 != r->dist[at] || !may_go(r, at, next))
			continue;
		if (!best || r->used[p] < r->used[fab_port_of(n, best)])
			best = i;
	}
	return best;
}

/* Add the route to @lid, whose port is at port @leaf, to the tables of all switches. */
static void route_lid(struct route_maker *r, uint16_t lid, uint32_t leaf)
{
	const struct fab *f = r->f;

	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];
		unsigned int num;

		if (n->sw == FAB_NONE || r->dist[i] == FAR_AWAY)
			continue;
		num = r->dist[i] ? least_used(r, i) : fab_port_num(f, leaf);
		if (!num)
			continue;
		r->used[fab_port_of(n, num)]++;
		f->sw[n->sw].lft[lid] = (uint8_t)num;
	}
}

/* Allocate entries for LIDs up to @top in all tables. */
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

/* The switch of channel adapter @n, or FAB_NONE. */
static uint32_t switch_of(const struct fab *f, const struct fab_node *n)
{
	return n->type == IB_NODE_CHANNEL_ADAPTER ? fab_next_switch(f, fab_port_of(n, 1)) : FAB_NONE;
}

/* Whether each switch with hosts has a path to @to, if it is connected to it. */
static bool all_reach(const struct route_maker *r, uint32_t to)
{
	for (uint32_t i = 0; i < r->f->nodes; i++) {
		const uint32_t sw = switch_of(r->f, &r->f->node[i]);

		if (sw != FAB_NONE && r->dist[sw] == FAR_AWAY && r->part[sw] == r->part[to])
			return false;
	}
	return true;
}

/*
 * Return: false: a switch with hosts has no path to another one, though there is one without
 * heights.
 */
static bool make_ways(struct route_maker *r, uint32_t switches)
{
	const struct fab *f = r->f;
	uint32_t to = FAB_NONE;
	uint16_t lid = 0;

	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];
		const uint32_t sw = switch_of(f, n);

		if (n->type != IB_NODE_CHANNEL_ADAPTER)
			continue;
		r->f->port[fab_port_of(n, 1)].pi.lid = ++lid;
		if (sw == FAB_NONE)
			continue;
		if (sw != to)
			find_distances(r, sw, switches);
		if (sw != to && r->by_height && !all_reach(r, sw))
			return false;
		to = sw;
		route_lid(r, lid, f->port[fab_port_of(n, 1)].peer);
	}
	return true;
}

/* Find which switches have paths to each other. */
static void find_parts(struct route_maker *r)
{
	const struct fab *f = r->f;
	uint32_t n = 0;

	forget_distances(r);
	for (uint32_t i = 0; i < f->nodes; i++) {
		const uint32_t first = n;

		if (f->node[i].sw == FAB_NONE || r->dist[i] != FAR_AWAY)
			continue;
		r->dist[i] = 0;
		r->queue[n++] = i;
		n = spread(r, n, false);
		for (uint32_t k = first; k < n; k++)
			r->part[r->queue[k]] = i;
	}
}

/*
 * Put the roots into r->by_height: of each part the switches farthest from its hosts, or with @one
 * one of them. Return: their number.
 */
static uint32_t find_roots(struct route_maker *r, bool one)
{
	const struct fab *f = r->f;
	uint32_t n = 0, roots = 0;

	forget_distances(r);
	for (uint32_t i = 0; i < f->nodes; i++) {
		const uint32_t sw = switch_of(f, &f->node[i]);

		r->top[i] = FAR_AWAY;
		if (sw != FAB_NONE && r->dist[sw] == FAR_AWAY) {
			r->dist[sw] = 0;
			r->queue[n++] = sw;
		}
	}
	/* the farthest are the last */
	for (n = spread(r, n, false); n; n--) {
		const uint32_t sw = r->queue[n - 1];
		uint16_t *top = &r->top[r->part[sw]];

		if (*top != FAR_AWAY && (one || r->dist[sw] != *top))
			continue;
		*top = r->dist[sw];
		r->by_height[roots++] = sw;
	}
	return roots;
}

/* Sort switches by height. Return: how many have one. */
static uint32_t find_heights(struct route_maker *r, bool one)
{
	const uint32_t roots = find_roots(r, one);
	uint32_t n;

	forget_distances(r);
	for (uint32_t i = 0; i < roots; i++) {
		r->queue[i] = r->by_height[i];
		r->dist[r->queue[i]] = 0;
	}
	n = spread(r, roots, false);
	for (uint32_t i = 0; i < n; i++) {
		r->by_height[i] = r->queue[i];
		r->place[r->queue[i]] = i;
	}
	return n;
}

/* Make the tables of @routing. Return: false: out of memory. */
static bool make_all(struct route_maker *r, enum fab_routing routing, uint16_t top)
{
	struct fab *f = r->f;

	if (!make_tables(f, top))
		return false;
	if (routing == FAB_ROUTING_MINHOP)
		return make_ways(r, 0);
	r->by_height = calloc(f->nodes, sizeof(*r->by_height));
	r->place = calloc(f->nodes, sizeof(*r->place));
	r->part = calloc(f->nodes, sizeof(*r->part));
	r->top = calloc(f->nodes, sizeof(*r->top));
	r->down = calloc(f->nodes, sizeof(*r->down));
	if (!r->by_height || !r->place || !r->part || !r->top || !r->down)
		return false;
	find_parts(r);
	if (make_ways(r, find_heights(r, false)))
		return true;
	memset(r->used, 0, f->ports * sizeof(*r->used));
	/* with one root there is a path down from it to each switch */
	return make_tables(f, top) && make_ways(r, find_heights(r, true));
}

enum fab_routing fab_routing_find(const char *name)
{
	unsigned int i = 0;

	while (i < FAB_ROUTING_LOADED && strcmp(name, names[i]))
		i++;
	return i < FAB_ROUTING_LOADED ? (enum fab_routing)i : FAB_ROUTINGS;
}

const char *fab_routing_name(enum fab_routing routing)
{
	return names[routing];
}

bool fab_routes_make(struct fab *f, enum fab_routing routing)
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
	     make_all(&r, routing, (uint16_t)hosts);
	free(r.dist);
	free(r.queue);
	free(r.used);
	free(r.by_height);
	free(r.place);
	free(r.part);
	free(r.top);
	free(r.down);
	return ok;
}

void fab_routes_active(struct fab *f)
{
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].pi.state == IB_PS_INIT)
			f->port[p].pi.state = IB_PS_ACTIVE;
}
