// SPDX-License-Identifier: GPL-2.0-or-later
/* Groups of ports for adaptive routing; see adaptive.h. */
#include "adaptive.h"

#include <stdlib.h>
#include <string.h>

#define NO_WAY		UINT16_MAX
#define UNKNOWN		(UINT16_MAX - 1u)
#define PORTS_AT_ONCE	2000000u	/* ports that a call reads, at least those for one LID */
#define FLOWS_LEAST	8u		/* of a group */

/**
 * struct ways - the paths to a LID by forwarding tables
 * @hops: [nodes] switches behind that one; NO_WAY: no path to the LID
 * @to: [nodes] ports by which packets for the LID leave that switch to another one
 * @stack: [switches] of the current path
 * @inner: the LID is a switch's own
 */
struct ways {
	struct fab *f;
	uint16_t *hops;
	uint64_t (*to)[4];
	uint32_t *stack;
	bool inner;
};

/* The switch at the other end of the cable at port @p, or FAB_NONE. */
static uint32_t cabled_switch(const struct fab *f, uint32_t p)
{
	const uint32_t peer = f->port[p].peer;
	const uint32_t node = f->port[peer].node;

	if (peer == FAB_NO_PORT || fab_outside(f, p) || f->node[node].sw == FAB_NONE)
		return FAB_NONE;
	return node;
}

/* The switch to which @at sends @lid. Return: FAB_NONE: to none, and w->hops of @at is set. */
static uint32_t next_of(struct ways *w, uint32_t at, uint16_t lid)
{
	const struct fab *f = w->f;
	const struct fab_node *n = &f->node[at];
	const unsigned int num = fab_route(f, n, lid);
	uint32_t next = FAB_NONE;

	w->inner |= !num;
	w->hops[at] = 0;
	if (num > n->nports || (num && f->port[fab_port_of(n, num)].peer == FAB_NO_PORT))
		w->hops[at] = NO_WAY;
	else if (num)
		next = cabled_switch(f, fab_port_of(n, num));
	if (next != FAB_NONE)
		w->to[at][num / 64] = 1ull << (num % 64);
	return next;
}

/* Set w->hops of @from and of all switches on its path to @lid. */
static void walk(struct ways *w, uint32_t from, uint16_t lid)
{
	uint32_t n = 0, at = from;
	uint16_t hops;

	/*
	 * a switch on the stack counts as without a path: if the walk reaches it again, the path is
	 * a loop
	 */
	while (w->hops[at] == UNKNOWN) {
		const uint32_t next = next_of(w, at, lid);

		if (next == FAB_NONE)
			break;
		w->hops[at] = NO_WAY;
		w->stack[n++] = at;
		at = next;
	}
	for (hops = w->hops[at]; n && hops != NO_WAY; n--)
		w->hops[w->stack[n - 1]] = ++hops;
}

static void find_ways(struct ways *w, uint16_t lid)
{
	w->inner = false;
	memset(w->to, 0, w->f->nodes * sizeof(*w->to));
	for (uint32_t i = 0; i < w->f->nodes; i++)
		w->hops[i] = UNKNOWN;
	for (uint32_t i = 0; i < w->f->nodes; i++)
		if (w->f->node[i].sw != FAB_NONE)
			walk(w, i, lid);
}

/*
 * The number of the group of switch @a with the ports of @g; 0: there is none, and no room for one.
 */
static unsigned int group_number(struct fab_adaptive *a, const struct fab_adaptive_group *g)
{
	struct fab_adaptive_group *more;

	for (unsigned int i = 0; i < a->groups; i++)
		if (!memcmp(a->group[i].port, g->port, sizeof(g->port)))
			return i + 1;
	if (a->groups == FAB_ADAPTIVE_GROUPS)
		return 0;
	more = realloc(a->group, (a->groups + 1u) * sizeof(*more));
	if (!more)
		return 0;
	a->group = more;
	a->group[a->groups++] = *g;
	return a->groups;
}

/* Find the group of @lid at switch @at, which has adaptive routing. */
static void find_group(const struct ways *w, uint32_t at, uint16_t lid)
{
	const struct fab_node *n = &w->f->node[at];
	struct fab_adaptive *a = w->f->sw[n->sw].adaptive;
	struct fab_adaptive_group g = { 0 };
	unsigned int ports = 0;

	if (lid >= a->room || w->hops[at] == NO_WAY || !w->hops[at])
		return;
	for (unsigned int num = 1; num <= n->nports; num++) {
		const uint32_t next = cabled_switch(w->f, fab_port_of(n, num));

		if (next == FAB_NONE || w->hops[next] == NO_WAY || w->hops[next] + 1 != w->hops[at])
			continue;
		g.port[num / 64] |= 1ull << (num % 64);
		ports++;
	}
	if (ports > 1)
		a->of[lid] = (uint8_t)group_number(a, &g);
	if (a->of[lid])
		memcpy(w->to[at], g.port, sizeof(g.port));
}

/*
 * ---- circles --------------------------------------------------------------------
 *
 * A turn leads from a port by which packets reach a switch to one by which they may leave it. If
 * turns form a circle, packets may wait for each other for ever (traffic/circle.h), unless virtual
 * lanes separate them, which this code ignores. fab.turns has, for each port by which packets
 * arrive from another switch, a bit for each port by which they may leave. Packets for switches
 * themselves are MADs: they do not fill buffers.
 */

/* Add the turns of packets on the current paths. */
static void add_turns(const struct ways *w)
{
	const struct fab *f = w->f;

	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];

		for (unsigned int num = 1; n->sw != FAB_NONE && num <= n->nports; num++) {
			const uint32_t in = f->port[fab_port_of(n, num)].peer;

			if (!(w->to[i][num / 64] >> (num % 64) & 1))
				continue;
			for (unsigned int k = 0; k < 4; k++)
				f->turns[in][k] |= w->to[f->port[in].node][k];
		}
	}
}

/* The port to which the first turn of @in from bit @*num on leads, or FAB_NO_PORT. */
static uint32_t next_turn(const struct fab *f, uint32_t in, uint16_t *num)
{
	const struct fab_node *n = &f->node[f->port[in].node];

	while (*num <= n->nports) {
		const unsigned int out = (*num)++;

		if (f->turns[in][out / 64] >> (out % 64) & 1)
			return f->port[fab_port_of(n, out)].peer;
	}
	return FAB_NO_PORT;
}

/* Depth-first search from @first, with @num, @stack [ports]. Return: whether there is a circle. */
static bool circle_from(const struct fab *f, uint32_t first, uint16_t *num, uint32_t *stack)
{
	uint32_t n = 1;

	stack[0] = first;
	num[first] = 1;
	while (n) {
		const uint32_t next = next_turn(f, stack[n - 1], &num[stack[n - 1]]);

		if (next == FAB_NO_PORT) {
			num[stack[--n]] = UINT16_MAX;
		} else if (!num[next]) {
			num[next] = 1;
			stack[n++] = next;
		} else if (num[next] != UINT16_MAX) {
			return true;
		}
	}
	return false;
}

/* Return: 0, NO_MEMORY or CIRCLE. */
static int find_circle(const struct fab *f)
{
	uint16_t *num = calloc(f->ports, sizeof(*num));
	uint32_t *stack = malloc(f->ports * sizeof(*stack));
	int r = num && stack ? 0 : FAB_ADAPTIVE_NO_MEMORY;

	for (uint32_t p = 1; !r && p < f->ports; p++)
		if (!num[p] && circle_from(f, p, num, stack))
			r = FAB_ADAPTIVE_CIRCLE;
	free(num);
	free(stack);
	return r;
}

/* ---- a switch ------------------------------------------------------------------ */

/* Give each group the same number of flows. */
static void share_flows(struct fab_adaptive *a)
{
	unsigned int n = FAB_ADAPTIVE_FLOWS;

	while (n * a->groups > FAB_ADAPTIVE_FLOWS && n > FLOWS_LEAST)
		n /= 2;
	for (unsigned int i = 0; i < a->groups; i++) {
		a->group[i].first = (uint16_t)(i * n);
		a->group[i].mask = (uint16_t)(n - 1);
	}
	memset(a->flow, 0, sizeof(a->flow));
	memset(a->any, 0, sizeof(a->any));
	a->lids = a->room;
}

/* Remove all groups, before they are made again. Return: false: out of memory. */
static bool begin_groups(const struct fab_switch *sw)
{
	struct fab_adaptive *a = sw->adaptive;
	uint32_t room = sw->lft_blocks * IB_LFT_PER_BLOCK;

	if (room > sw->si.linear_top + 1u)
		room = sw->si.linear_top + 1u;
	free(a->of);
	free(a->group);
	a->group = NULL;
	a->groups = 0;
	a->lids = 0;
	a->room = (uint16_t)room;
	a->of = calloc(room ? room : 1, sizeof(*a->of));
	if (!a->of)
		a->room = 0;
	return a->of;
}

static bool switch_on(struct fab *f, struct fab_switch *sw, const struct fab_adaptive_cfg *cfg)
{
	if (!sw->adaptive) {
		sw->adaptive = calloc(1, sizeof(*sw->adaptive));
		if (!sw->adaptive)
			return false;
		f->adaptive++;
	}
	sw->adaptive->cfg = *cfg;
	return true;
}

static void switch_off(struct fab *f, struct fab_switch *sw)
{
	f->adaptive -= sw->adaptive != NULL;
	fab_adaptive_free(sw);
}

bool fab_adaptive_on(struct fab_mgmt *m, uint32_t node, const struct fab_adaptive_cfg *cfg)
{
	struct fab *f = m->f;
	bool ok = true;

	if (node == FAB_NONE) {
		for (uint32_t i = 0; i < f->switches; i++)
			ok &= switch_on(f, &f->sw[i], cfg);
	} else {
		ok = switch_on(f, &f->sw[f->node[node].sw], cfg);
	}
	free(f->turns);
	f->turns = calloc(f->ports, sizeof(*f->turns));
	f->filled_to = 0;
	ok &= f->turns != NULL;
	for (uint32_t i = 0; i < f->switches; i++) {
		struct fab_switch *sw = &f->sw[i];

		sw->lft_sum = fab_lft_sum(sw);
		sw->lft_differs = false;
		if (sw->adaptive && !begin_groups(sw)) {
			switch_off(f, sw);
			ok = false;
		}
	}
	f->lfts_differ = 0;
	fab_adaptive_changed(f);
	m->epoch++;
	return ok;
}

void fab_adaptive_off(struct fab_mgmt *m, uint32_t node)
{
	struct fab *f = m->f;

	for (uint32_t i = 0; i < f->switches; i++)
		if (node == FAB_NONE || f->node[node].sw == i)
			switch_off(f, &f->sw[i]);
	if (!f->adaptive) {
		free(f->turns);
		f->turns = NULL;
	}
	fab_adaptive_changed(f);
	m->epoch++;
}

/* The highest LID that may have a group. */
static uint32_t last_lid(const struct fab *f)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < f->switches; i++)
		if (f->sw[i].adaptive && f->sw[i].adaptive->room > last + 1)
			last = f->sw[i].adaptive->room - 1u;
	return last;
}

static void fill(struct ways *w, uint32_t lid, uint32_t end)
{
	for (; lid < end; lid++) {
		find_ways(w, (uint16_t)lid);
		if (w->inner)
			continue;
		for (uint32_t i = 0; i < w->f->nodes; i++)
			if (w->f->node[i].sw != FAB_NONE && w->f->sw[w->f->node[i].sw].adaptive)
				find_group(w, i, (uint16_t)lid);
		add_turns(w);
	}
}

/* All groups are made: use them, or remove them. Return: as of fab_adaptive_fill(). */
static int filled(struct fab_mgmt *m)
{
	struct fab *f = m->f;
	const int r = find_circle(f);

	free(f->turns);
	f->turns = NULL;
	if (r) {
		fab_adaptive_off(m, FAB_NONE);
		return r;
	}
	for (uint32_t i = 0; i < f->switches; i++)
		if (f->sw[i].adaptive)
			share_flows(f->sw[i].adaptive);
	m->epoch++;
	return 0;
}

int fab_adaptive_fill(struct fab_mgmt *m, uint32_t lid)
{
	struct fab *f = m->f;
	const uint32_t all = last_lid(f) + 1, most = lid + 1 + PORTS_AT_ONCE / f->ports;
	const uint32_t end = most < all ? most : all;
	struct ways w = {
		.f = f,
		.hops = malloc(f->nodes * sizeof(*w.hops)),
		.to = malloc(f->nodes * sizeof(*w.to)),
		.stack = malloc((f->switches + 1) * sizeof(*w.stack)),
	};
	int r = (int)end;

	if (f->lfts_differ || !f->turns || lid != f->filled_to) {
		r = FAB_ADAPTIVE_CHANGED;
	} else if (!w.hops || !w.to || !w.stack) {
		fab_adaptive_off(m, FAB_NONE);
		r = FAB_ADAPTIVE_NO_MEMORY;
	} else {
		fill(&w, lid ? lid : 1, end);
		f->filled_to = end;
	}
	free(w.hops);
	free(w.to);
	free(w.stack);
	return r > 0 && end == all ? filled(m) : r;
}
