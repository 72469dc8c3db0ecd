// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checks a tree, see tree.h.
 *
 * A switch belongs to the block of an earlier one if at least half of the switches above either of
 * them are above both. Above a block are the switches to which more than half of it have cables;
 * each pair should have the number of cables that most pairs of the block have. If a switch has too
 * many cables to another one, those are wrong whose port number leads elsewhere at most switches of
 * the block.
 */
#include "tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "topo_rate.h"

#define NO_RANK		UINT8_MAX
#define RATES		256u
#define FULLER		2u	/* times the hosts of a switch that may be above it */
#define BELOW_PART	4u	/* this part of a switch's cables leads to the rank below it */

/* struct rail - port number @number of the machine with the name @name[@len] */
struct rail {
	const char *name;
	size_t len;
	uint32_t number;
};

/*
 * struct check - state of a check
 * @rank: [nodes] of switches, from 0, else NO_RANK
 * @hosts: [nodes] of switches: cables to hosts
 * @above: [nodes] of switches that are in a block: number of switches above them
 * @block: [nodes] of switches: the first one of its block, FAB_NONE: in none yet
 * @next: [nodes] the next one of its block, FAB_NONE: it is the last
 * @last: [nodes] for the first one of a block, the last one
 * @count: [nodes] cables to a switch, all 0 between two uses
 * @seen: [nodes] indices at which @count is not 0, @seens of them
 * @stamp: [nodes] for a switch the last number, of @stamps, under which it was counted
 * @rail: [@rails] ports of all hosts whose names contain the rail, sorted
 */
struct check {
	const struct fab *f;
	void (*found)(void *ctx, const struct fab_finding *finding);
	void *ctx;
	struct fab_tree *tree;
	uint8_t *rank;
	uint32_t *hosts, *above, *block, *next, *last, *count, *seen, *stamp;
	uint32_t seens, stamps;
	struct rail *rail;
	uint32_t rails;
};

static void report(struct check *c, const struct fab_finding *finding)
{
	c->tree->findings++;
	c->found(c->ctx, finding);
}

static bool is_switch(const struct check *c, uint32_t n)
{
	return c->f->node[n].type == IB_NODE_SWITCH_DEVICE;
}

/* The node at the other end of port @p, or FAB_NONE. */
static uint32_t far_of(const struct check *c, uint32_t p)
{
	return c->f->port[p].peer == FAB_NO_PORT ? FAB_NONE : c->f->port[c->f->port[p].peer].node;
}

/*
 * Whether @n is a channel adapter, and not a part of a switch, as an aggregation node of SHARP is.
 */
static bool is_host(const struct check *c, uint32_t n)
{
	static const char inner[] = "Aggregation Node";
	const char *text = c->f->desc[n].text;

	return c->f->node[n].type == IB_NODE_CHANNEL_ADAPTER &&
	       !memmem(text, strnlen(text, FAB_DESC_LEN), inner, sizeof(inner) - 1);
}

/* ---- ranks --------------------------------------------------------------------- */

static uint32_t hosts_of(const struct check *c, uint32_t n)
{
	const struct fab_node *node = &c->f->node[n];
	uint32_t hosts = 0;

	for (unsigned int i = 1; i <= node->nports; i++) {
		const uint32_t far = far_of(c, fab_port_of(node, i));

		hosts += far != FAB_NONE && is_host(c, far);
	}
	return hosts;
}

/* Whether enough cables of switch @n lead to switches of @rank. */
static bool is_above(const struct check *c, uint32_t n, uint8_t rank)
{
	const struct fab_node *node = &c->f->node[n];
	uint32_t all = 0, down = 0;

	for (unsigned int i = 1; i <= node->nports; i++) {
		const uint32_t far = far_of(c, fab_port_of(node, i));

		if (far == FAB_NONE || !is_switch(c, far))
			continue;
		all++;
		down += c->rank[far] == rank;
	}
	return down && down * BELOW_PART >= all;
}

/* Whether port @p leads one rank up. */
static bool leads_up(const struct check *c, uint32_t p)
{
	const uint32_t far = far_of(c, p);

	return far != FAB_NONE && is_switch(c, far) && c->rank[far] != NO_RANK &&
	       c->rank[far] == c->rank[c->f->port[p].node] + 1;
}

/*
 * Whether it is a leaf: a switch with hosts. If enough of its cables lead to several switches that
 * have many more hosts, it is above other leaves, and not a leaf: so a server at a spine does not
 * make it a leaf.
 */
static bool is_leaf(const struct check *c, uint32_t n)
{
	const struct fab_node *node = &c->f->node[n];
	uint32_t all = 0, fuller = 0, one = FAB_NONE;
	bool several = false;

	if (!is_switch(c, n) || !c->hosts[n])
		return false;
	for (unsigned int i = 1; i <= node->nports; i++) {
		const uint32_t far = far_of(c, fab_port_of(node, i));

		if (far == FAB_NONE || !is_switch(c, far))
			continue;
		all++;
		if (c->hosts[far] < FULLER * c->hosts[n])
			continue;
		fuller++;
		several |= one != FAB_NONE && one != far;
		one = far;
	}
	return !several || fuller * BELOW_PART < all;
}

static bool has_above(const struct check *c, uint32_t n)
{
	const struct fab_node *node = &c->f->node[n];

	for (unsigned int i = 1; i <= node->nports; i++)
		if (leads_up(c, fab_port_of(node, i)))
			return true;
	return false;
}

/*
 * Find the switches above @rank; there are none if most have no cable to them, as to a leaf without
 * hosts.
 */
static void find_above(struct check *c, uint8_t rank)
{
	uint32_t below = 0;

	for (uint32_t n = 0; n < c->f->nodes; n++) {
		if (!is_switch(c, n) || c->rank[n] != NO_RANK || !is_above(c, n, rank))
			continue;
		c->rank[n] = rank + 1;
		c->tree->switches[rank + 1]++;
	}
	for (uint32_t n = 0; n < c->f->nodes; n++)
		below += c->rank[n] == rank && has_above(c, n);
	if (!rank || below * 2 >= c->tree->switches[rank])
		return;
	for (uint32_t n = 0; n < c->f->nodes; n++)
		if (c->rank[n] == rank + 1)
			c->rank[n] = NO_RANK;
	c->tree->switches[rank + 1] = 0;
}

static void find_ranks(struct check *c)
{
	memset(c->rank, NO_RANK, c->f->nodes);
	for (uint32_t n = 0; n < c->f->nodes; n++)
		if (is_switch(c, n))
			c->hosts[n] = hosts_of(c, n);
	for (uint32_t n = 0; n < c->f->nodes; n++) {
		if (!is_leaf(c, n))
			continue;
		c->rank[n] = 0;
		c->tree->switches[0]++;
	}
	while (c->tree->ranks < FAB_TREE_RANKS && c->tree->switches[c->tree->ranks])
		if (++c->tree->ranks < FAB_TREE_RANKS)
			find_above(c, (uint8_t)(c->tree->ranks - 1));
	for (uint32_t n = 0; n < c->f->nodes; n++)
		if (is_switch(c, n) && c->rank[n] == NO_RANK)
			report(c, &(struct fab_finding){ .kind = FAB_FINDING_NO_TREE, .node = n });
}

/* ---- counts -------------------------------------------------------------------- */

static void count(struct check *c, uint32_t n)
{
	if (!c->count[n]++)
		c->seen[c->seens++] = n;
}

static void forget(struct check *c)
{
	while (c->seens)
		c->count[c->seen[--c->seens]] = 0;
}

/* ---- blocks -------------------------------------------------------------------- */

/*
 * Count, for the switch @up above one of @rank, the first switches of blocks below it, each once.
 */
static void count_blocks(struct check *c, uint32_t up, uint8_t rank)
{
	const struct fab_node *node = &c->f->node[up];
	const uint32_t stamp = ++c->stamps;

	for (unsigned int i = 1; i <= node->nports; i++) {
		const uint32_t far = far_of(c, fab_port_of(node, i));

		if (far == FAB_NONE || c->block[far] != far || c->rank[far] != rank || c->stamp[far] == stamp)
			continue;
		c->stamp[far] = stamp;
		count(c, far);
	}
}

/* The block that has most switches above it in common with @n, or @n itself. */
static uint32_t block_for(struct check *c, uint32_t n)
{
	const struct fab_node *node = &c->f->node[n];
	const uint32_t stamp = ++c->stamps;
	uint32_t best = n, most = 0;

	for (unsigned int i = 1; i <= node->nports; i++) {
		const uint32_t p = fab_port_of(node, i), up = far_of(c, p);

		if (!leads_up(c, p) || c->stamp[up] == stamp)
			continue;
		c->stamp[up] = stamp;
		c->above[n]++;
		count_blocks(c, up, c->rank[n]);
	}
	for (uint32_t i = 0; i < c->seens; i++) {
		const uint32_t block = c->seen[i], both = c->count[block];

		if (both > most && both * 2 >= c->above[n] && both * 2 >= c->above[block]) {
			most = both;
			best = block;
		}
	}
	forget(c);
	return best;
}

static void find_blocks(struct check *c)
{
	for (uint32_t n = 0; n < c->f->nodes; n++)
		c->block[n] = c->next[n] = FAB_NONE;
	for (uint32_t n = 0; n < c->f->nodes; n++) {
		uint32_t block;

		if (c->rank[n] == NO_RANK || c->rank[n] + 1u >= c->tree->ranks)
			continue;
		block = block_for(c, n);
		if (block == n)
			c->last[n] = n;
		else
			c->next[c->last[block]] = n;
		c->last[block] = n;
		c->block[n] = block;
	}
}

/* ---- cables of a block --------------------------------------------------------- */

/*
 * struct wanted - the cables that a switch of a block should have
 * @above: [@n] the switches above it
 * @cables: number of cables to each
 * @at: [ports + 1] the switch to which the port leads at most switches of the block, or FAB_NONE
 */
struct wanted {
	uint32_t above[FAB_MAX_NODE_PORTS];
	uint32_t n, cables;
	uint32_t at[FAB_MAX_NODE_PORTS + 1];
};

/*
 * By the algorithm of Boyer and Moore: the switch to which port @i of more than half of the block
 * leads, if any.
 */
static uint32_t most_at(const struct check *c, uint32_t block, unsigned int i)
{
	uint32_t is = FAB_NONE, votes = 0;

	for (uint32_t n = block; n != FAB_NONE; n = c->next[n]) {
		const struct fab_node *node = &c->f->node[n];
		const uint32_t p = fab_port_of(node, i);
		const uint32_t far = i <= node->nports && leads_up(c, p) ? far_of(c, p) : FAB_NONE;

		if (!votes)
			is = far;
		votes += !votes || far == is ? 1 : -1;
	}
	return is;
}

static void want(struct check *c, uint32_t block, struct wanted *w)
{
	uint32_t members = 0, pairs[FAB_MAX_NODE_PORTS + 1] = { 0 }, most = 0;

	for (uint32_t n = block; n != FAB_NONE; n = c->next[n])
		members++;
	/* number of switches of the block that have each switch above them */
	for (uint32_t n = block; n != FAB_NONE; n = c->next[n]) {
		const struct fab_node *node = &c->f->node[n];

		c->stamps++;
		for (unsigned int i = 1; i <= node->nports; i++) {
			const uint32_t p = fab_port_of(node, i);

			if (!leads_up(c, p) || c->stamp[far_of(c, p)] == c->stamps)
				continue;
			c->stamp[far_of(c, p)] = c->stamps;
			count(c, far_of(c, p));
		}
	}
	w->n = 0;
	for (uint32_t i = 0; i < c->seens && w->n < FAB_MAX_NODE_PORTS; i++)
		if (c->count[c->seen[i]] * 2 > members)
			w->above[w->n++] = c->seen[i];
	forget(c);
	for (uint32_t n = block; n != FAB_NONE; n = c->next[n]) {
		const struct fab_node *node = &c->f->node[n];

		for (unsigned int i = 1; i <= node->nports; i++)
			if (leads_up(c, fab_port_of(node, i)))
				count(c, far_of(c, fab_port_of(node, i)));
		for (uint32_t i = 0; i < w->n; i++)
			pairs[c->count[w->above[i]]]++;
		forget(c);
	}
	w->cables = 1;
	for (uint32_t i = 1; i <= FAB_MAX_NODE_PORTS; i++) {
		if (pairs[i] > most) {
			most = pairs[i];
			w->cables = i;
		}
	}
	for (unsigned int i = 1; i <= FAB_MAX_NODE_PORTS; i++)
		w->at[i] = most_at(c, block, i);
}

/*
 * A switch above @n to which it has less cables than @w, preferably the one of port @i; or
 * FAB_NONE.
 */
static uint32_t lacks(const struct check *c, const struct wanted *w, unsigned int i)
{
	uint32_t found = FAB_NONE;

	for (uint32_t k = 0; k < w->n; k++) {
		if (c->count[w->above[k]] >= w->cables)
			continue;
		if (w->above[k] == w->at[i])
			return w->above[k];
		if (found == FAB_NONE)
			found = w->above[k];
	}
	return found;
}

/* Whether the cable of port @p, of a switch with too many cables to @far, is a wrong one. */
static bool is_wrong(const struct check *c, const struct wanted *w, uint32_t p, bool elsewhere)
{
	const uint32_t far = far_of(c, p);

	for (uint32_t k = 0; k < w->n; k++)
		if (w->above[k] == far)
			return c->count[far] > w->cables &&
			       (!elsewhere || w->at[fab_port_num(c->f, p)] != far);
	return true;
}

/* Whether port @p of a switch leads to a switch that is not below it. */
static bool is_cable(const struct check *c, uint32_t p)
{
	const uint32_t far = far_of(c, p), n = c->f->port[p].node;

	return far != FAB_NONE && is_switch(c, far) && c->rank[far] != NO_RANK &&
	       (c->rank[far] > c->rank[n] || (c->rank[far] == c->rank[n] && far != n));
}

static void check_switch(struct check *c, uint32_t n, const struct wanted *w)
{
	const struct fab_node *node = &c->f->node[n];

	for (unsigned int i = 1; i <= node->nports; i++)
		if (is_cable(c, fab_port_of(node, i)))
			count(c, far_of(c, fab_port_of(node, i)));
	/* in the first pass only cables that are certainly wrong */
	for (unsigned int pass = 0; pass < 2; pass++) {
		for (unsigned int i = 1; i <= node->nports; i++) {
			const uint32_t p = fab_port_of(node, i), far = far_of(c, p);
			uint32_t right;

			if (!is_cable(c, p) || !c->count[far] || !is_wrong(c, w, p, !pass))
				continue;
			right = lacks(c, w, i);
			/*
			 * report a cable within a rank once, unless one of its switches lacks
			 * another
			 */
			if (right == FAB_NONE && c->rank[far] == c->rank[n] && p > c->f->port[p].peer)
				continue;
			c->count[far]--;
			report(c, &(struct fab_finding){
				.kind = right == FAB_NONE ? FAB_FINDING_EXTRA : FAB_FINDING_MISWIRED,
				.port = p, .to = c->f->port[p].peer, .node = right });
			if (right != FAB_NONE)
				count(c, right);
		}
	}
	if (!w->n && c->rank[n] + 1u < c->tree->ranks)
		report(c, &(struct fab_finding){ .kind = FAB_FINDING_MISSING,
						 .port = fab_port_of(node, 1), .node = FAB_NONE });
	for (uint32_t k = 0; k < w->n; k++)
		if (c->count[w->above[k]] < w->cables)
			report(c, &(struct fab_finding){
				.kind = FAB_FINDING_MISSING, .port = fab_port_of(node, 1),
				.node = w->above[k], .is = c->count[w->above[k]], .want = w->cables });
	forget(c);
}

/* ---- rates and rails ----------------------------------------------------------- */

/* The level of the cable of port @p: 0 of hosts, r + 1 above rank r, else FAB_TREE_RANKS. */
static unsigned int level_of(const struct check *c, uint32_t p)
{
	const uint32_t n = c->f->port[p].node, far = far_of(c, p);

	if (far == FAB_NONE || c->rank[n] == NO_RANK)
		return FAB_TREE_RANKS;
	if (is_host(c, far))
		return 0;
	return leads_up(c, p) ? c->rank[n] + 1u : FAB_TREE_RANKS;
}

static bool is_up(const struct check *c, uint32_t p)
{
	return c->f->port[p].pi.state >= IB_PS_INIT;
}

/*
 * The most frequent rate in Gb/s, the faster of two equal ones, and of that the usual one. 0: there
 * are none.
 */
static uint8_t most_of(const uint32_t rates[RATES])
{
	uint32_t most = 0, most_mbps = 0;
	uint8_t best = 0;

	for (unsigned int a = 1; a < RATES; a++) {
		const uint32_t mbps = rates[a] ? topo_rate_mbps((uint8_t)a) : 0;
		uint32_t same = 0;

		for (unsigned int b = 1; rates[a] && b < RATES; b++)
			same += rates[b] && topo_rate_mbps((uint8_t)b) == mbps ? rates[b] : 0;
		if (same < most || !same || (same == most && mbps < most_mbps) ||
		    (same == most && mbps == most_mbps && rates[a] <= rates[best]))
			continue;
		most = same;
		most_mbps = mbps;
		best = (uint8_t)a;
	}
	return best;
}

static void check_rates(struct check *c, uint32_t (*rates)[RATES])
{
	uint8_t most[FAB_TREE_RANKS];

	for (unsigned int pass = 0; pass < 2; pass++) {
		for (uint32_t p = 1; p < c->f->ports; p++) {
			const unsigned int level = level_of(c, p);
			uint8_t rate;

			if (level >= FAB_TREE_RANKS)
				continue;
			c->tree->cables[level] += !pass;
			if (!is_up(c, p))
				continue;
			rate = topo_rate_of(&c->f->port[p].pi);
			if (!pass)
				rates[level][rate]++;
			else if (topo_rate_mbps(rate) < topo_rate_mbps(most[level]))
				report(c, &(struct fab_finding){
					.kind = FAB_FINDING_SLOW, .port = p, .to = c->f->port[p].peer,
					.node = FAB_NONE, .is = rate, .want = most[level] });
		}
		for (unsigned int level = 0; !pass && level < FAB_TREE_RANKS; level++)
			most[level] = most_of(rates[level]);
	}
}

/*
 * The number of a host's port among those of its machine, by a name such as "node1 mlx5_3": the
 * ports of an adapter have consecutive numbers. Return: false: the name contains none.
 */
static bool rail_of(const struct check *c, uint32_t p, uint32_t *rail)
{
	const uint32_t n = c->f->port[p].node;
	const char *text = c->f->desc[n].text;
	size_t len = strnlen(text, FAB_DESC_LEN), at = len;
	uint32_t number = 0;

	if (!memchr(text, ' ', len))
		return false;
	while (at && text[at - 1] >= '0' && text[at - 1] <= '9')
		at--;
	if (at == len || len - at > 4 || !at || text[at - 1] != '_')
		return false;
	while (at < len)
		number = number * 10 + (uint32_t)(text[at++] - '0');
	*rail = number * c->f->node[n].nports + fab_port_num(c->f, p) - 1;
	return true;
}

static struct rail rail_name(const struct check *c, uint32_t p, uint32_t number)
{
	const char *name = c->f->desc[c->f->port[p].node].text;

	return (struct rail){ name, (size_t)((const char *)memchr(name, ' ', FAB_DESC_LEN) - name), number };
}

static int compare_rails(const void *a, const void *b)
{
	const struct rail *x = a, *y = b;
	const int order = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	if (order || x->len != y->len)
		return order ? order : x->len < y->len ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Return: false: out of memory. */
static bool find_rails(struct check *c)
{
	uint32_t number;

	c->rail = calloc(c->f->ports, sizeof(*c->rail));
	if (!c->rail)
		return false;
	for (uint32_t p = 1; p < c->f->ports; p++)
		if (c->f->port[p].peer != FAB_NO_PORT && is_host(c, c->f->port[p].node) && rail_of(c, p, &number))
			c->rail[c->rails++] = rail_name(c, p, number);
	qsort(c->rail, c->rails, sizeof(*c->rail), compare_rails);
	return true;
}

/* Whether the machine of port @p has the rail @number anywhere. */
static bool is_rail(const struct check *c, uint32_t p, uint32_t number)
{
	const struct rail key = rail_name(c, p, number);

	return bsearch(&key, c->rail, c->rails, sizeof(key), compare_rails);
}

/*
 * Whether the machine of port @p also has its @rail at @leaf: then that is a leaf of several rails.
 */
static bool has_rail(const struct check *c, uint32_t leaf, uint32_t p, uint32_t rail)
{
	const struct fab_node *node = &c->f->node[leaf];
	const char *name = c->f->desc[c->f->port[p].node].text;
	const size_t len = (size_t)((const char *)memchr(name, ' ', FAB_DESC_LEN) - name) + 1;

	for (unsigned int i = 1; i <= node->nports; i++) {
		const uint32_t q = c->f->port[fab_port_of(node, i)].peer;
		uint32_t is;

		if (q != FAB_NO_PORT && is_host(c, c->f->port[q].node) && rail_of(c, q, &is) && is == rail &&
		    !memcmp(c->f->desc[c->f->port[q].node].text, name, len))
			return true;
	}
	return false;
}

static void check_rails(struct check *c, uint32_t leaf)
{
	const struct fab_node *node = &c->f->node[leaf];
	uint32_t is = 0, votes = 0, with = 0, all = 0, rail;

	for (unsigned int i = 1; i <= node->nports; i++) {
		const uint32_t p = c->f->port[fab_port_of(node, i)].peer;

		if (p == FAB_NO_PORT || !is_host(c, c->f->port[p].node) || !rail_of(c, p, &rail))
			continue;
		if (!votes)
			is = rail;
		votes += !votes || rail == is ? 1 : -1;
	}
	for (unsigned int pass = 0; pass < 2; pass++) {
		for (unsigned int i = 1; i <= node->nports; i++) {
			const uint32_t to = fab_port_of(node, i), p = c->f->port[to].peer;

			if (p == FAB_NO_PORT || !is_host(c, c->f->port[p].node) || !rail_of(c, p, &rail))
				continue;
			if (!pass) {
				all++;
				with += rail == is;
			} else if (with * 2 > all && rail != is && is_rail(c, p, is) &&
				   !has_rail(c, leaf, p, is)) {
				report(c, &(struct fab_finding){ .kind = FAB_FINDING_RAIL, .port = p,
					.to = to, .node = FAB_NONE, .is = rail, .want = is });
			}
		}
	}
}

bool fab_tree_check(const struct fab *f, void (*found)(void *ctx, const struct fab_finding *finding),
		    void *ctx, struct fab_tree *tree)
{
	struct check c = { .f = f, .found = found, .ctx = ctx, .tree = tree };
	struct wanted *w = malloc(sizeof(*w));
	uint32_t (*rates)[RATES] = calloc(FAB_TREE_RANKS, sizeof(*rates));
	bool ok;

	*tree = (struct fab_tree){ 0 };
	c.rank = malloc(f->nodes + 1);
	c.block = calloc(f->nodes + 1, sizeof(*c.block));
	c.next = calloc(f->nodes + 1, sizeof(*c.next));
	c.last = calloc(f->nodes + 1, sizeof(*c.last));
	c.count = calloc(f->nodes + 1, sizeof(*c.count));
	c.seen = calloc(f->nodes + 1, sizeof(*c.seen));
	c.hosts = calloc(f->nodes + 1, sizeof(*c.hosts));
	c.above = calloc(f->nodes + 1, sizeof(*c.above));
	c.stamp = calloc(f->nodes + 1, sizeof(*c.stamp));
	ok = w && rates && c.rank && c.block && c.next && c.last && c.count && c.seen &&
	     c.hosts && c.above && c.stamp && find_rails(&c);
	if (ok) {
		find_ranks(&c);
		find_blocks(&c);
		for (uint32_t n = 0; n < f->nodes; n++) {
			if (c.block[n] != n)
				continue;
			want(&c, n, w);
			for (uint32_t m = n; m != FAB_NONE; m = c.next[m])
				check_switch(&c, m, w);
		}
		/* above the last rank there is nothing */
		w->n = 0;
		for (uint32_t n = 0; n < f->nodes; n++)
			if (c.rank[n] != NO_RANK && c.rank[n] + 1u == tree->ranks)
				check_switch(&c, n, w);
		check_rates(&c, rates);
		for (uint32_t n = 0; n < f->nodes; n++)
			if (!c.rank[n])
				check_rails(&c, n);
	}
	free(w);
	free(rates);
	free(c.rank);
	free(c.block);
	free(c.next);
	free(c.last);
	free(c.count);
	free(c.seen);
	free(c.hosts);
	free(c.above);
	free(c.stamp);
	free(c.rail);
	return ok;
}

static void put_name(const struct fab *f, uint32_t n, FILE *out)
{
	fprintf(out, "'%.*s'", (int)FAB_DESC_LEN, f->desc[n].text);
}

static void put_port(const struct fab *f, uint32_t p, FILE *out)
{
	put_name(f, f->port[p].node, out);
	fprintf(out, " port %u", fab_port_num(f, p));
}

void fab_finding_write(const struct fab *f, const struct fab_finding *x, FILE *out)
{
	char is[16], wanted[16];

	switch (x->kind) {
	case FAB_FINDING_MISWIRED:
	case FAB_FINDING_EXTRA:
		fputs(x->kind == FAB_FINDING_MISWIRED ? "miswired: " : "extra: ", out);
		put_port(f, x->port, out);
		fputs(" leads to ", out);
		put_port(f, x->to, out);
		if (x->kind == FAB_FINDING_EXTRA) {
			fputs(", and should lead to no switch", out);
			break;
		}
		fputs(", and should lead to ", out);
		put_name(f, x->node, out);
		break;
	case FAB_FINDING_MISSING:
		fputs(x->is ? "uneven: " : "missing: ", out);
		put_name(f, f->port[x->port].node, out);
		if (x->node == FAB_NONE) {
			fputs(" has no cable to the rank above", out);
			break;
		}
		fprintf(out, " has %" PRIu32 " cable%s to ", x->is, x->is == 1 ? "" : "s");
		put_name(f, x->node, out);
		fprintf(out, ", others have %" PRIu32, x->want);
		break;
	case FAB_FINDING_SLOW:
		fputs("slow: ", out);
		put_port(f, x->port, out);
		fputs(" and ", out);
		put_port(f, x->to, out);
		fprintf(out, " have %s, others have %s", topo_rate_name((uint8_t)x->is, is),
			topo_rate_name((uint8_t)x->want, wanted));
		break;
	case FAB_FINDING_RAIL:
		fputs("miswired: ", out);
		put_port(f, x->port, out);
		fputs(" is at ", out);
		put_port(f, x->to, out);
		fprintf(out, ", where others have rail %" PRIu32 ", not %" PRIu32, x->want, x->is);
		break;
	case FAB_FINDING_NO_TREE:
		fputs("no tree: ", out);
		put_name(f, x->node, out);
		fputs(" is at no rank: it has too few cables to one, or most switches there have none to its like", out);
		break;
	}
	putc('\n', out);
}
