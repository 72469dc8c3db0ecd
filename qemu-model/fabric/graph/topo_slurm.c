// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * topology.conf of Slurm's plugin topology/tree. Slurm requires a tree: each switch has one parent.
 * In a fat tree it has many, so switches of one level that have children in common are merged:
 *
 *	level 0: switches with hosts; a host is at the first of them that leads to it
 *	level n: switches that are n links away from them; those that have children in common
 *		are one switch of the file, with the name of the first one
 *
 * A switch without a parent and with one child is left out: no path between hosts needs it.
 * Remaining switches without a parent get one, so that jobs may use all. Links within a level are
 * not in the file.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "topo_file.h"

#define NAME_LEN	(FAB_DESC_LEN + 24)
#define NO_LEVEL	(FAB_NONE - 1)	/* all hosts of the switch are at others already */
#define TOP		"fabric"	/* parent of parts that have no switch in common */

/*
 * struct tree - the switches of the file
 * @level: [nodes] of a switch; FAB_NONE: it is not in the file
 * @group: [nodes] the switch with which a switch is merged, as a chain that ends at itself
 * @parent: [nodes] a switch above a switch that ends its chain, or FAB_NONE
 * @host_at: [nodes] the switch of a host, or FAB_NONE
 * @queue: [nodes] switches in the order in which they are found; then counts of children
 * @doubled: [nodes] an earlier switch has the same name
 */
struct tree {
	const struct fab *f;
	uint32_t *level, *group, *parent, *host_at, *queue, *doubled;
};

static uint32_t top_of(struct tree *t, uint32_t i)
{
	while (t->group[i] != i) {
		t->group[i] = t->group[t->group[i]];
		i = t->group[i];
	}
	return i;
}

/* Merge two switches; the earlier one gives the name. */
static void join(struct tree *t, uint32_t a, uint32_t b)
{
	a = top_of(t, a);
	b = top_of(t, b);
	if (a < b)
		t->group[b] = a;
	else
		t->group[a] = b;
}

static char slurm_char(char ch)
{
	return isalnum((unsigned char)ch) || (ch && strchr("-_.", ch)) ? ch : '-';
}

/* The name of the machine: the first word of a description, unless that is a default one. */
static size_t host_name(const struct fab *f, uint32_t i, char name[NAME_LEN])
{
	const char *d = f->desc[i].text;
	size_t n = 0;

	/* default descriptions of adapters and aggregation nodes, before a driver sets them */
	if (memmem(d, FAB_DESC_LEN, "Mellanox Technologies", 21))
		return 0;
	for (; n < FAB_DESC_LEN && d[n] && d[n] != ' '; n++)
		name[n] = slurm_char(d[n]);
	name[n] = 0;
	return n;
}

static bool same_host(const struct fab *f, uint32_t a, uint32_t b)
{
	char na[NAME_LEN], nb[NAME_LEN];

	return host_name(f, a, na) == host_name(f, b, nb) && !strcmp(na, nb);
}

static bool host_is(const void *ctx, uint32_t index, const void *key)
{
	return same_host(ctx, index, *(const uint32_t *)key);
}

/* The node at the other end of the next cable of @i behind port *@num. FAB_NONE: no more. */
static uint32_t neighbour(const struct fab *f, uint32_t i, unsigned int *num)
{
	const struct fab_node *n = &f->node[i];

	while (++*num <= n->nports) {
		const uint32_t p = fab_port_of(n, *num);

		if (topo_is_up(f, p))
			return f->port[f->port[p].peer].node;
	}
	return FAB_NONE;
}

/* Find level 0. Return: false if out of memory. */
static bool find_hosts(struct tree *t, uint32_t *queued)
{
	const struct fab *f = t->f;
	struct fab_hash seen = { 0 };
	char name[NAME_LEN];
	bool ok = true;

	for (uint32_t i = 0; i < f->nodes && ok; i++) {
		uint32_t sw = FAB_NONE;
		unsigned int num = 0;
		size_t len;

		if (f->node[i].type != IB_NODE_CHANNEL_ADAPTER)
			continue;
		len = host_name(f, i, name);
		if (len)
			sw = neighbour(f, i, &num);
		if (sw == FAB_NONE || f->node[sw].sw == FAB_NONE)
			continue;
		/*
		 * a machine with several adapters is at the switch of the first: Slurm lists it
		 * once
		 */
		if (fab_hash_find(&seen, fab_hash_bytes(name, len), host_is, f, &i) != FAB_NONE) {
			if (t->level[sw] == FAB_NONE)
				t->level[sw] = NO_LEVEL;
			continue;
		}
		ok = fab_hash_add(&seen, fab_hash_bytes(name, len), i);
		t->host_at[i] = sw;
		if (t->level[sw])
			t->queue[(*queued)++] = sw;
		t->level[sw] = 0;
	}
	fab_hash_free(&seen);
	return ok;
}

/* Find the levels of all other switches, nearest first. */
static void find_levels(struct tree *t, uint32_t queued)
{
	for (uint32_t i = 0; i < queued; i++) {
		const uint32_t sw = t->queue[i];
		unsigned int num = 0;
		uint32_t up;

		while ((up = neighbour(t->f, sw, &num)) != FAB_NONE) {
			if (t->f->node[up].sw == FAB_NONE)
				continue;
			if (t->level[up] == FAB_NONE) {
				t->level[up] = t->level[sw] + 1;
				t->queue[queued++] = up;
			}
		}
	}
	for (uint32_t i = 0; i < t->f->nodes; i++)
		if (t->level[i] == NO_LEVEL)
			t->level[i] = FAB_NONE;
	/* in the order of the levels: children are merged before their parents */
	for (uint32_t i = 0; i < queued; i++) {
		const uint32_t sw = t->queue[i];
		unsigned int num = 0;
		uint32_t down;

		while ((down = neighbour(t->f, sw, &num)) != FAB_NONE) {
			if (t->f->node[down].sw == FAB_NONE || t->level[down] == FAB_NONE ||
			    t->level[down] + 1 != t->level[sw])
				continue;
			down = top_of(t, down);
			if (t->parent[down] == FAB_NONE)
				t->parent[down] = sw;
			else
				join(t, t->parent[down], sw);
		}
	}
}

/* Leave out each switch at the top that has one child. Return: whether there was one. */
static bool drop_tops(struct tree *t)
{
	uint32_t *children = t->queue;
	bool any = false;

	memset(children, 0, t->f->nodes * sizeof(*children));
	for (uint32_t i = 0; i < t->f->nodes; i++)
		if (t->level[i] != FAB_NONE && t->group[i] == i && t->parent[i] != FAB_NONE)
			children[top_of(t, t->parent[i])]++;
	for (uint32_t i = 0; i < t->f->nodes; i++) {
		uint32_t top;

		if (t->level[i] == FAB_NONE || t->group[i] != i || t->parent[i] == FAB_NONE)
			continue;
		top = top_of(t, t->parent[i]);
		if (children[top] != 1 || t->parent[top] != FAB_NONE)
			continue;
		t->parent[i] = FAB_NONE;
		t->level[top] = FAB_NONE;
		any = true;
	}
	return any;
}

/* The part between ; and : of a managed switch's description, else all of it. */
static size_t switch_name(const struct fab *f, uint32_t i, char name[NAME_LEN])
{
	const char *d = f->desc[i].text, *begin = memchr(d, ';', FAB_DESC_LEN);
	size_t n = 0;

	begin = begin ? begin + 1 : d;
	for (; begin + n < d + FAB_DESC_LEN && begin[n] && (begin == d || begin[n] != ':'); n++)
		name[n] = slurm_char(begin[n]);
	name[n] = 0;
	return n;
}

static bool switch_is(const void *ctx, uint32_t index, const void *key)
{
	const struct tree *t = ctx;
	char a[NAME_LEN], b[NAME_LEN];

	switch_name(t->f, index, a);
	switch_name(t->f, *(const uint32_t *)key, b);
	return !strcmp(a, b);
}

/* Find names that an earlier switch has: these get the GUID appended. Return: false: no memory. */
static bool find_doubles(struct tree *t)
{
	struct fab_hash seen = { 0 };
	char name[NAME_LEN];
	bool ok = true;

	for (uint32_t i = 0; i < t->f->nodes && ok; i++) {
		uint32_t hash;

		if (t->f->node[i].sw == FAB_NONE)
			continue;
		hash = fab_hash_bytes(name, switch_name(t->f, i, name));
		t->doubled[i] = fab_hash_find(&seen, hash, switch_is, t, &i) != FAB_NONE;
		if (!t->doubled[i])
			ok = fab_hash_add(&seen, hash, i);
	}
	fab_hash_free(&seen);
	return ok;
}

static void put_switch(const struct tree *t, uint32_t i, FILE *out)
{
	char name[NAME_LEN];

	if (switch_name(t->f, i, name) && !t->doubled[i])
		fputs(name, out);
	else
		fprintf(out, "%s%sS-%016" PRIx64, name, *name ? "-" : "", t->f->node[i].guid);
}

/* Write " WORD=" before the first of a list, "," before the others */
static void put_next(bool *any, const char *word, FILE *out)
{
	fputs(*any ? "," : word, out);
	*any = true;
}

static void put_one(struct tree *t, uint32_t i, FILE *out)
{
	const struct fab *f = t->f;
	char name[NAME_LEN];
	bool any = false;

	fputs("SwitchName=", out);
	put_switch(t, i, out);
	if (!t->level[i]) {
		unsigned int num = 0;
		uint32_t host;

		while ((host = neighbour(f, i, &num)) != FAB_NONE) {
			if (t->host_at[host] != i)
				continue;
			t->host_at[host] = FAB_NONE;	/* once, even with two ports here */
			host_name(f, host, name);
			put_next(&any, " Nodes=", out);
			fputs(name, out);
		}
	} else {
		for (uint32_t k = 0; k < f->nodes; k++) {
			if (t->level[k] == FAB_NONE || top_of(t, k) != k ||
			    t->parent[k] == FAB_NONE || top_of(t, t->parent[k]) != i)
				continue;
			put_next(&any, " Switches=", out);
			put_switch(t, k, out);
		}
	}
	putc('\n', out);
}

static void put_tree(struct tree *t, FILE *out)
{
	const struct fab *f = t->f;
	uint32_t tops = 0;
	bool any = false;

	fputs("# topology.conf of Slurm, for TopologyPlugin=topology/tree\n", out);
	for (uint32_t i = 0; i < f->nodes; i++) {
		if (t->level[i] == FAB_NONE || top_of(t, i) != i)
			continue;
		put_one(t, i, out);
		tops += t->parent[i] == FAB_NONE;
	}
	if (tops < 2)
		return;
	fputs("SwitchName=" TOP, out);
	for (uint32_t i = 0; i < f->nodes; i++) {
		if (t->level[i] == FAB_NONE || top_of(t, i) != i || t->parent[i] != FAB_NONE)
			continue;
		put_next(&any, " Switches=", out);
		put_switch(t, i, out);
	}
	putc('\n', out);
}

bool topo_write_slurm(const struct fab *f, FILE *out)
{
	uint32_t *all = malloc(6 * (f->nodes + 1) * sizeof(*all)), queued = 0;
	struct tree t = { .f = f };
	bool ok;

	if (!all)
		return false;
	t.level = all;
	t.group = all + f->nodes;
	t.parent = all + 2 * f->nodes;
	t.host_at = all + 3 * f->nodes;
	t.queue = all + 4 * f->nodes;
	t.doubled = all + 5 * f->nodes;
	for (uint32_t i = 0; i < f->nodes; i++) {
		t.level[i] = FAB_NONE;
		t.group[i] = i;
		t.parent[i] = FAB_NONE;
		t.host_at[i] = FAB_NONE;
	}
	ok = find_doubles(&t) && find_hosts(&t, &queued);
	if (ok) {
		find_levels(&t, queued);
		/* bounded by the number of levels */
		while (drop_tops(&t))
			;
		put_tree(&t, out);
	}
	free(all);
	return ok;
}
