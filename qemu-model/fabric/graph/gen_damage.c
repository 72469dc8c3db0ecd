// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Damage of a generated fabric: cables that are missing, slow or swapped; see generate.h.
 *
 * A random spanning tree of cables between switches is chosen. All other cables between switches
 * may be missing or swapped at once: the tree connects the switches without a path through an
 * adapter, which forwards nothing. Cables of hosts are never missing. Cables of two adapters of one
 * machine may be swapped: each of the two stays at a switch.
 */
#include "gen.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "topo_rate.h"
#include "wire.h"

/*
 * struct wreck - damage while it is chosen
 * @order: [g->cables] random order of the cables
 * @used: [g->cables] it has damage already
 * @tree: [g->cables] it is in the tree
 * @root: [nodes] a chain that ends at itself; switches with the same end are connected by the tree
 */
struct wreck {
	struct gen *g;
	struct fab_damages *to;
	uint64_t rng;
	uint32_t *order, *root;
	bool *used, *tree;
};

static uint32_t below(struct wreck *w, uint32_t n)
{
	return (uint32_t)((uint64_t)fab_random(&w->rng) * n >> 32);
}

static uint32_t root_of(struct wreck *w, uint32_t n)
{
	while (w->root[n] != n) {
		w->root[n] = w->root[w->root[n]];
		n = w->root[n];
	}
	return n;
}

static uint32_t node_at(const struct wreck *w, uint32_t port)
{
	return w->g->f->port[port].node;
}

static bool is_switch(const struct wreck *w, uint32_t port)
{
	return w->g->f->node[node_at(w, port)].type == IB_NODE_SWITCH_DEVICE;
}

/* Choose a random order, and the tree of the first cables between switches. */
static void choose_tree(struct wreck *w)
{
	const struct gen *g = w->g;

	for (uint32_t i = 0; i < g->f->nodes; i++)
		w->root[i] = i;
	for (uint32_t i = 0; i < g->cables; i++) {
		const uint32_t j = below(w, i + 1);

		w->order[i] = w->order[j];
		w->order[j] = i;
	}
	for (uint32_t i = 0; i < g->cables; i++) {
		const struct gen_cable *c = &g->cable[w->order[i]];
		uint32_t a, b;

		if (!is_switch(w, c->a) || !is_switch(w, c->b))
			continue;
		a = root_of(w, node_at(w, c->a));
		b = root_of(w, node_at(w, c->b));
		w->root[a] = b;
		w->tree[w->order[i]] = a != b;
	}
}

static struct fab_damage *note(struct wreck *w, enum fab_damage_kind kind, uint32_t i)
{
	struct fab_damage *d = &w->to->list[w->to->n++];
	const struct gen_cable *c = &w->g->cable[i];

	*d = (struct fab_damage){ .kind = kind, .port = { c->a, c->b } };
	w->used[i] = true;
	return d;
}

/* Whether cable @i is between switches, and not in the tree. */
static bool is_spare(const struct wreck *w, uint32_t i)
{
	const struct gen_cable *c = &w->g->cable[i];

	return !w->used[i] && !w->tree[i] && is_switch(w, c->a) && is_switch(w, c->b);
}

static bool remove_cables(struct wreck *w, uint32_t n)
{
	for (uint32_t i = 0; i < w->g->cables && n; i++) {
		if (!is_spare(w, w->order[i]))
			continue;
		note(w, FAB_DAMAGE_MISSING, w->order[i]);
		n--;
	}
	return !n || gen_fail(w->g, "%u of the missing cables are too many: hosts keep their cables, and "
			      "switches stay connected", n);
}

/* Whether both cables connect hosts of one machine to switches; hosts have the lower indices. */
static bool same_machine(const struct wreck *w, const struct gen_cable *a, const struct gen_cable *b)
{
	const uint32_t each = w->g->adapters;

	return each && node_at(w, a->a) / each == node_at(w, b->a) / each;
}

/* Whether cables @i and @j may exchange their second ends. */
static bool swaps(const struct wreck *w, uint32_t i, uint32_t j)
{
	const struct gen_cable *a = &w->g->cable[i], *b = &w->g->cable[j];

	if (i == j || w->used[j] || a->level != b->level || b->inner ||
	    node_at(w, a->a) == node_at(w, b->a) || node_at(w, a->b) == node_at(w, b->b) ||
	    node_at(w, a->a) == node_at(w, b->b) || node_at(w, a->b) == node_at(w, b->a))
		return false;
	return a->level ? is_spare(w, j) : same_machine(w, a, b);
}

static bool swap_cables(struct wreck *w, uint32_t n)
{
	for (uint32_t k = 0; k < w->g->cables && n; k++) {
		const uint32_t i = w->order[k];
		struct gen_cable *a = &w->g->cable[i];
		uint32_t m = k + 1, b;
		struct fab_damage *d;

		if (w->used[i] || a->inner || (a->level && !is_spare(w, i)))
			continue;
		while (m < w->g->cables && !swaps(w, i, w->order[m]))
			m++;
		if (m == w->g->cables)
			continue;
		b = w->g->cable[w->order[m]].b;
		w->g->cable[w->order[m]].b = a->b;
		a->b = b;
		d = note(w, FAB_DAMAGE_SWAPPED, i);
		d->port[2] = w->g->cable[w->order[m]].a;
		d->port[3] = w->g->cable[w->order[m]].b;
		w->used[w->order[m]] = true;
		n--;
	}
	return !n || gen_fail(w->g, "%u of the swapped pairs are too many: a pair is two cables of one level "
			      "between four switches, or of two adapters of a machine", n);
}

/* One lane, or the next lower speed. Return: 0: there is none. */
static uint8_t slower(struct wreck *w, uint8_t rate)
{
	static const char * const lower[][2] = {
		{ "DDR", "SDR" }, { "QDR", "DDR" }, { "FDR10", "QDR" }, { "FDR", "QDR" },
		{ "EDR", "FDR" }, { "HDR", "EDR" }, { "NDR", "HDR" }, { "XDR", "NDR" },
	};
	char text[16];

	if ((fab_random(&w->rng) & 1) && strcmp(topo_rate_lanes(rate), "1")) {
		snprintf(text, sizeof(text), "1x%s", topo_rate_speed(rate));
		return topo_rate(text, strlen(text));
	}
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(lower); i++) {
		if (strcmp(topo_rate_speed(rate), lower[i][0]))
			continue;
		snprintf(text, sizeof(text), "%sx%s", topo_rate_lanes(rate), lower[i][1]);
		return topo_rate(text, strlen(text));
	}
	return 0;
}

static bool slow_cables(struct wreck *w, uint32_t n)
{
	for (uint32_t k = 0; k < w->g->cables && n; k++) {
		const uint32_t i = w->order[k];
		struct gen_cable *c = &w->g->cable[i];
		struct fab_damage *d;
		uint8_t rate;

		if (w->used[i] || c->inner)
			continue;
		rate = slower(w, c->rate);
		if (!rate)
			continue;
		d = note(w, FAB_DAMAGE_SLOW, i);
		topo_rate_name(c->rate, d->was);
		topo_rate_name(rate, d->is);
		c->rate = rate;
		n--;
	}
	return !n || gen_fail(w->g, "%u of the slow cables are too many", n);
}

/* Remove missing cables. */
static void forget_missing(struct wreck *w)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < w->to->n; k++)
		for (uint32_t i = 0; w->to->list[k].kind == FAB_DAMAGE_MISSING && i < w->g->cables; i++)
			if (w->g->cable[i].a == w->to->list[k].port[0])
				w->g->cable[i].a = FAB_NO_PORT;
	for (uint32_t i = 0; i < w->g->cables; i++)
		if (w->g->cable[i].a != FAB_NO_PORT)
			w->g->cable[n++] = w->g->cable[i];
	w->g->cables = n;
}

bool gen_damage(struct gen *g, struct fab_damages *damages)
{
	const struct fab_plan *plan = g->plan;
	const uint32_t n = plan->missing + plan->slow + plan->swapped;
	struct wreck w = { .g = g, .to = damages };

	if (!n)
		return true;
	w.rng = fab_random_state(plan->seed);
	w.order = calloc(g->cables, sizeof(*w.order));
	w.used = calloc(g->cables, sizeof(*w.used));
	w.tree = calloc(g->cables, sizeof(*w.tree));
	w.root = calloc(g->f->nodes, sizeof(*w.root));
	damages->list = calloc(n, sizeof(*damages->list));
	if (!w.order || !w.used || !w.tree || !w.root || !damages->list) {
		gen_fail(g, "out of memory");
	} else {
		choose_tree(&w);
		if (swap_cables(&w, plan->swapped) && remove_cables(&w, plan->missing) &&
		    slow_cables(&w, plan->slow))
			forget_missing(&w);
	}
	free(w.order);
	free(w.used);
	free(w.tree);
	free(w.root);
	if (g->failed) {
		free(damages->list);
		*damages = (struct fab_damages){ 0 };
	}
	return !g->failed;
}

/* Write a port as commands accept it: S- or H-, the NodeGUID and the number. */
static void put_end(const struct fab *f, uint32_t p, FILE *out)
{
	const struct fab_node *n = &f->node[f->port[p].node];

	fprintf(out, " %c-%016" PRIx64 ":%u", n->type == IB_NODE_SWITCH_DEVICE ? 'S' : 'H', n->guid,
		fab_port_num(f, p));
}

void fab_damage_write(const struct fab *f, const struct fab_damage *d, FILE *out)
{
	static const char * const names[] = { "missing", "slow", "swapped" };
	const unsigned int ends = d->kind == FAB_DAMAGE_SWAPPED ? 4 : 2;

	fprintf(out, "# damage: %s", names[d->kind]);
	for (unsigned int i = 0; i < ends; i++)
		put_end(f, d->port[i], out);
	if (d->kind == FAB_DAMAGE_SLOW)
		fprintf(out, " %s not %s", d->is, d->was);
	for (unsigned int i = 0; i < ends; i++)
		fprintf(out, " \"%.*s\"", (int)FAB_DESC_LEN, f->desc[f->port[d->port[i]].node].text);
	putc('\n', out);
}
