// SPDX-License-Identifier: GPL-2.0-or-later
/* Maximum flows between hosts; see cut.h. */
#include "cut.h"

#include <stdlib.h>
#include <string.h>

#include "ib/rate.h"

#define NOWHERE	UINT32_MAX

/**
 * struct arc - one direction of a cable; the other one is the next or previous arc
 * @from, @to: its switches
 * @next: the next arc that leaves @from
 * @kbps: its rate
 * @left: residual capacity
 */
struct arc {
	uint32_t from, to;
	uint32_t next;
	uint64_t kbps, left;
};

/**
 * struct net - switches and cables between them
 * @hosts: number of hosts
 * @count: [switches] its hosts
 * @rate: [switches] sum of the rates of their links
 * @arc: [@arcs]
 * @first: [switches] the first arc that leaves it
 * @supply, @demand: [switches] what its hosts can still send, and receive
 * @level: [switches] number of arcs from a switch with a supply
 * @at: [switches] the next arc to try
 * @queue: [switches] in the order of @level
 * @path: [switches] arcs from a supply to the current switch of the search
 */
struct net {
	const struct fab *f;
	uint32_t hosts, arcs;
	uint32_t *count;
	uint64_t *rate;
	struct arc *arc;
	uint32_t *first;
	uint64_t *supply, *demand;
	uint32_t *level, *at, *queue, *path;
};

static uint64_t kbps_of(const struct ib_port_info *pi)
{
	return ib_link_data_kbps(pi->width_active, pi->speed_active, pi->speed_ext_active);
}

/* The switch of host @n, or FAB_NONE: it is not a host. */
static uint32_t leaf_of(const struct fab *f, const struct fab_node *n)
{
	const uint32_t at = n->type == IB_NODE_CHANNEL_ADAPTER ? fab_next_switch(f, fab_port_of(n, 1)) :
								FAB_NONE;

	return at == FAB_NONE ? FAB_NONE : f->node[at].sw;
}

static void add_arc(struct net *t, uint32_t from, uint32_t to, uint64_t kbps)
{
	t->arc[t->arcs] = (struct arc){ .from = from, .to = to, .next = t->first[from], .kbps = kbps };
	t->first[from] = t->arcs++;
}

static void fill(struct net *t)
{
	const struct fab *f = t->f;

	memset(t->first, 0xff, f->switches * sizeof(*t->first));
	for (uint32_t i = 0; i < f->nodes; i++) {
		const uint32_t leaf = leaf_of(f, &f->node[i]);

		if (leaf == FAB_NONE)
			continue;
		t->hosts++;
		t->count[leaf]++;
		t->rate[leaf] += kbps_of(&f->port[fab_port_of(&f->node[i], 1)].pi);
	}
	for (uint32_t p = 1; p < f->ports; p++) {
		const uint32_t a = f->node[f->port[p].node].sw, next = fab_next_switch(f, p);

		if (a == FAB_NONE || next == FAB_NONE || f->port[p].peer < p)
			continue;
		add_arc(t, a, f->node[next].sw, kbps_of(&f->port[p].pi));
		add_arc(t, f->node[next].sw, a, kbps_of(&f->port[p].pi));
	}
}

/* Compute the levels from all supplies. Return: whether they reach a demand. */
static bool find_levels(struct net *t)
{
	uint32_t n = 0;
	bool reached = false;

	for (uint32_t s = 0; s < t->f->switches; s++) {
		t->level[s] = t->supply[s] ? 0 : NOWHERE;
		t->at[s] = t->first[s];
		if (t->supply[s])
			t->queue[n++] = s;
	}
	for (uint32_t head = 0; head < n; head++) {
		const uint32_t s = t->queue[head];

		reached |= t->demand[s] != 0;
		for (uint32_t a = t->first[s]; a != NOWHERE; a = t->arc[a].next) {
			const uint32_t to = t->arc[a].to;

			if (!t->arc[a].left || t->level[to] != NOWHERE)
				continue;
			t->level[to] = t->level[s] + 1;
			t->queue[n++] = to;
		}
	}
	return reached;
}

/* Send as much as possible by @path, of @n arcs, from switch @from to @to. Return: the flow. */
static uint64_t send_by(struct net *t, uint32_t from, uint32_t to, uint32_t n)
{
	uint64_t kbps = t->supply[from] < t->demand[to] ? t->supply[from] : t->demand[to];

	for (uint32_t i = 0; i < n; i++)
		kbps = t->arc[t->path[i]].left < kbps ? t->arc[t->path[i]].left : kbps;
	t->supply[from] -= kbps;
	t->demand[to] -= kbps;
	for (uint32_t i = 0; i < n; i++) {
		t->arc[t->path[i]].left -= kbps;
		t->arc[t->path[i] ^ 1].left += kbps;
	}
	return kbps;
}

/* Send the supply of switch @from as far as the levels allow. Return: the flow. */
static uint64_t push(struct net *t, uint32_t from)
{
	uint64_t sum = 0;
	uint32_t n = 0, s = from;

	while (t->supply[from]) {
		const uint32_t a = t->at[s];

		if (t->demand[s]) {
			sum += send_by(t, from, s, n);
			n = 0;
			s = from;
		} else if (a == NOWHERE) {
			if (!n)
				break;
			/* no more can leave this switch: skip the arc that led here */
			s = t->arc[t->path[--n]].from;
			t->at[s] = t->arc[t->at[s]].next;
		} else if (t->arc[a].left && t->level[t->arc[a].to] == t->level[s] + 1) {
			t->path[n++] = a;
			s = t->arc[a].to;
		} else {
			t->at[s] = t->arc[a].next;
		}
	}
	return sum;
}

/* Compute the flow from supplies to demands, which are used up. */
static uint64_t max_flow(struct net *t)
{
	uint64_t sum = 0;

	for (uint32_t a = 0; a < t->arcs; a++)
		t->arc[a].left = t->arc[a].kbps;
	while (find_levels(t))
		for (uint32_t s = 0; s < t->f->switches; s++)
			if (t->supply[s])
				sum += push(t, s);
	return sum;
}

static struct fab_cut half_cut(struct net *t)
{
	const struct fab *f = t->f;
	struct fab_cut c = { 0 };
	uint32_t seen = 0;

	memset(t->supply, 0, f->switches * sizeof(*t->supply));
	memset(t->demand, 0, f->switches * sizeof(*t->demand));
	for (uint32_t i = 0; i < f->nodes; i++) {
		const uint32_t leaf = leaf_of(f, &f->node[i]);
		uint64_t kbps;

		if (leaf == FAB_NONE)
			continue;
		kbps = kbps_of(&f->port[fab_port_of(&f->node[i], 1)].pi);
		if (seen++ < t->hosts / 2) {
			t->supply[leaf] += kbps;
			c.sent_kbps += kbps;
			c.hosts++;
		} else {
			t->demand[leaf] += kbps;
			c.others++;
		}
	}
	c.kbps = max_flow(t);
	return c;
}

static struct fab_cut leaf_cut(struct net *t, uint32_t leaf)
{
	struct fab_cut c = {
		.hosts = t->count[leaf], .others = t->hosts - t->count[leaf], .sent_kbps = t->rate[leaf],
	};

	memset(t->supply, 0, t->f->switches * sizeof(*t->supply));
	memcpy(t->demand, t->rate, t->f->switches * sizeof(*t->demand));
	t->supply[leaf] = t->rate[leaf];
	t->demand[leaf] = 0;
	c.kbps = max_flow(t);
	return c;
}

/* Limit @each to what the cut allows each host to send to each other one. */
static uint64_t bound(uint64_t each, const struct fab_cut *c)
{
	const double n = c->hosts + c->others;
	const double most = (double)c->kbps * (n - 1) / ((double)c->hosts * c->others);

	return most < (double)each ? (uint64_t)most : each;
}

static double ratio(const struct fab_cut *c)
{
	return c->sent_kbps ? (double)c->kbps / (double)c->sent_kbps : 1;
}

static void find(struct net *t, struct fab_cuts *c)
{
	const struct fab *f = t->f;

	c->node = FAB_NONE;
	c->half = half_cut(t);
	c->each_kbps = bound(c->each_kbps, &c->half);
	for (uint32_t i = 0; i < f->nodes; i++) {
		const uint32_t leaf = f->node[i].sw;
		struct fab_cut cut;

		if (leaf == FAB_NONE || !t->count[leaf] || t->count[leaf] == t->hosts)
			continue;
		cut = leaf_cut(t, leaf);
		c->each_kbps = bound(c->each_kbps, &cut);
		if (c->node != FAB_NONE && ratio(&cut) >= ratio(&c->leaf))
			continue;
		c->node = i;
		c->leaf = cut;
	}
}

bool fab_cuts_find(const struct fab *f, struct fab_cuts *c)
{
	const uint32_t n = f->switches ? f->switches : 1;
	struct net t = {
		.f = f,
		.count = calloc(n, sizeof(*t.count)),
		.rate = calloc(n, sizeof(*t.rate)),
		.arc = malloc(f->ports * sizeof(*t.arc)),
		.first = malloc(n * sizeof(*t.first)),
		.supply = malloc(n * sizeof(*t.supply)),
		.demand = malloc(n * sizeof(*t.demand)),
		.level = malloc(n * sizeof(*t.level)),
		.at = malloc(n * sizeof(*t.at)),
		.queue = malloc(n * sizeof(*t.queue)),
		.path = malloc(n * sizeof(*t.path)),
	};
	bool ok = t.count && t.rate && t.arc && t.first && t.supply && t.demand && t.level && t.at &&
		  t.queue && t.path;

	if (ok) {
		fill(&t);
		ok = t.hosts >= 2;
	}
	if (ok) {
		*c = (struct fab_cuts){ .each_kbps = UINT64_MAX };
		/* a host sends no faster than its own link */
		for (uint32_t i = 0; i < f->nodes; i++)
			if (leaf_of(f, &f->node[i]) != FAB_NONE) {
				const uint64_t own = kbps_of(&f->port[fab_port_of(&f->node[i], 1)].pi);

				c->each_kbps = own < c->each_kbps ? own : c->each_kbps;
			}
		find(&t, c);
	}
	free(t.count);
	free(t.rate);
	free(t.arc);
	free(t.first);
	free(t.supply);
	free(t.demand);
	free(t.level);
	free(t.at);
	free(t.queue);
	free(t.path);
	return ok;
}
