// SPDX-License-Identifier: GPL-2.0-or-later
/* The kinds of generated fabrics, and the SPECs that name them; see gen.h. */
#include "gen.h"

#include <stdlib.h>
#include <string.h>

/* Nodes with several ports come first; the number of a host is that of its first port. */
static void star(struct gen *g)
{
	const uint32_t n = (uint32_t)g->arg[0], nodes = g->args > 1 ? (uint32_t)g->arg[1] : 0;
	const uint32_t ports = g->args > 2 ? (uint32_t)g->arg[2] : 1;
	const uint64_t taken = (uint64_t)nodes * ports;
	uint32_t sw;

	if (!gen_fits(g, n, 1, n))
		return;
	if (!ports || taken > n || (nodes && g->plan->nvidia)) {
		gen_fail(g, "%u nodes of %u ports: they need a port or more each, at most %u together, and "
			 "have names of their own", nodes, ports, n);
		return;
	}
	g->first = g->args > 3 ? (uint32_t)g->arg[3] : 1;
	g->role = "node";
	gen_hosts(g, nodes, 0, ports);
	g->first = (uint32_t)taken + 1;
	g->role = "host";
	gen_hosts(g, n - (uint32_t)taken, 0, 1);
	sw = g->f->nodes;
	gen_switch(g, n, (struct gen_place){ .role = "switch", .num = 1 });
	for (uint32_t i = 0; i < sw; i++)
		for (unsigned int p = 0; p < g->f->node[i].nports; p++)
			gen_cable(g, 0, i, sw);
}

/* The leaf of channel adapter @h of a fat tree with @half adapters below each leaf. */
static uint32_t leaf_of(uint32_t h, uint32_t half, uint32_t rails)
{
	return h / (half * rails) * rails + h % rails;
}

/* Leaves with half of their ports down, spines with all ports down. */
static void fat_tree2(struct gen *g, uint32_t k, uint32_t rails)
{
	const uint32_t half = k / 2, hosts = k * half;
	uint32_t leaf, spine;

	if (!gen_fits(g, (uint64_t)k * half, k + half, k))
		return;
	gen_hosts(g, hosts, g->plan->rails, 1);
	leaf = g->f->nodes;
	for (uint32_t i = 1; i <= k; i++)
		gen_switch(g, k, (struct gen_place){ .role = "leaf", .num = i });
	spine = g->f->nodes;
	for (uint32_t i = 1; i <= half; i++)
		gen_switch(g, k, (struct gen_place){ .level = 1, .role = "spine", .num = i });
	for (uint32_t h = 0; h < hosts; h++)
		gen_cable(g, 0, h, leaf + leaf_of(h, half, rails));
	for (uint32_t l = 0; l < k; l++)
		for (uint32_t s = 0; s < half; s++)
			gen_cable(g, 1, leaf + l, spine + s);
}

/* K pods of K/2 leaves and K/2 spines, (K/2)^2 cores above them. */
static void fat_tree3(struct gen *g, uint32_t k, uint32_t rails)
{
	const uint32_t half = k / 2, hosts = k * half * half;
	uint32_t leaf, spine, core;

	if (!gen_fits(g, (uint64_t)k * half * half, (uint64_t)k * k + half * half, k))
		return;
	gen_hosts(g, hosts, g->plan->rails, 1);
	leaf = g->f->nodes;
	for (uint32_t i = 0; i < k * half; i++)
		gen_switch(g, k, (struct gen_place){ 0, "pod", i / half + 1, "leaf", i % half + 1 });
	spine = g->f->nodes;
	for (uint32_t i = 0; i < k * half; i++)
		gen_switch(g, k, (struct gen_place){ 1, "pod", i / half + 1, "spine", i % half + 1 });
	core = g->f->nodes;
	for (uint32_t i = 0; i < half * half; i++)
		gen_switch(g, k, (struct gen_place){ .level = 2, .role = "core", .num = i + 1 });
	for (uint32_t h = 0; h < hosts; h++)
		gen_cable(g, 0, h, leaf + leaf_of(h, half, rails));
	for (uint32_t l = 0; l < k * half; l++)
		for (uint32_t s = 0; s < half; s++)
			gen_cable(g, 1, leaf + l, spine + l / half * half + s);
	for (uint32_t s = 0; s < k * half; s++)
		for (uint32_t c = 0; c < half; c++)
			gen_cable(g, 2, spine + s, core + s % half * half + c);
}

static void fat_tree(struct gen *g)
{
	const uint64_t k = g->arg[0], levels = g->args > 1 ? g->arg[1] : 2;
	const uint32_t rails = g->plan->rails ? g->plan->rails : 1;

	if (k < 2 || k % 2 || k > FAB_MAX_NODE_PORTS)
		gen_fail(g, "a fat tree needs switches with an even number of ports, 2 to %u",
			 FAB_MAX_NODE_PORTS);
	else if (levels != 2 && levels != 3)
		gen_fail(g, "a fat tree has 2 or 3 levels (one level is star:N)");
	else if ((levels == 2 ? k : k / 2) % rails)
		gen_fail(g, "%u rails: the %llu leaves%s are no multiple of them", rails,
			 (unsigned long long)(levels == 2 ? k : k / 2), levels == 2 ? "" : " of a pod");
	else if (levels == 2)
		fat_tree2(g, (uint32_t)k, rails);
	else
		fat_tree3(g, (uint32_t)k, rails);
}

/* Switch number i, from 0, gets the hosts i * @each and following. */
static void hosts_to_switches(struct gen *g, uint32_t first, uint32_t switches, uint32_t each)
{
	for (uint32_t i = 0; i < switches * each; i++)
		gen_cable(g, 0, i, first + i / each);
}

static void grid(struct gen *g, const uint64_t dim[3], uint64_t each)
{
	uint64_t n = dim[0] * dim[1] * dim[2];
	uint32_t first, step = 1;
	uint64_t ports = each;

	for (unsigned int d = 0; d < 3; d++)
		ports += dim[d] > 2 ? 2 : dim[d] - 1;
	if (!gen_fits(g, n * each, n, ports))
		return;
	gen_hosts(g, (uint32_t)(n * each), 0, 1);
	first = g->f->nodes;
	for (uint32_t i = 1; i <= n; i++)
		gen_switch(g, (unsigned int)ports, (struct gen_place){ .role = "switch", .num = i });
	hosts_to_switches(g, first, (uint32_t)n, (uint32_t)each);
	for (unsigned int d = 0; d < 3; d++) {
		uint32_t size = (uint32_t)dim[d];

		for (uint32_t i = 0; i < n; i++) {
			uint32_t at = i / step % size;

			/* a ring of two switches has one cable, not two */
			if (at + 1 < size || size > 2)
				gen_cable(g, 1, first + i,
					  first + i - at * step + (at + 1) % size * step);
		}
		step *= size;
	}
}

static void ring(struct gen *g)
{
	grid(g, (uint64_t[]){ g->arg[0], 1, 1 }, g->args > 1 ? g->arg[1] : 1);
}

/* The sizes are in the first three arguments, the hosts in the fourth. */
static void torus(struct gen *g)
{
	grid(g, g->arg, g->arg[3]);
}

/*
 * Global link j of a group goes to the j-th of the groups that follow it, so each pair of groups
 * has one: link j of group x is link A*H-1-j of the group at its other end.
 */
static void dragonfly(struct gen *g)
{
	const uint64_t a = g->arg[0], p = g->arg[1], h = g->arg[2], groups = a * h + 1;
	uint32_t first;

	if (!gen_fits(g, groups * a * p, groups * a, p + a - 1 + h))
		return;
	gen_hosts(g, (uint32_t)(groups * a * p), 0, 1);
	first = g->f->nodes;
	for (uint32_t i = 0; i < groups * a; i++)
		gen_switch(g, (unsigned int)(p + a - 1 + h),
			   (struct gen_place){ 0, "group", i / (uint32_t)a + 1, "switch",
					       i % (uint32_t)a + 1 });
	hosts_to_switches(g, first, (uint32_t)(groups * a), (uint32_t)p);
	for (uint32_t x = 0; x < groups; x++)
		for (uint32_t i = 0; i < a; i++)
			for (uint32_t j = i + 1; j < a; j++)
				gen_cable(g, 1, first + x * (uint32_t)a + i,
					  first + x * (uint32_t)a + j);
	for (uint32_t x = 0; x < groups; x++) {
		for (uint32_t j = 0; j < groups - 1; j++) {
			uint32_t y = (x + j + 1) % (uint32_t)groups;
			uint32_t back = (uint32_t)groups - 2 - j;

			if (x < y)
				gen_cable(g, 2, first + x * (uint32_t)a + j / (uint32_t)h,
					  first + y * (uint32_t)a + back / (uint32_t)h);
		}
	}
}

/* Spine number s of each group has a link to spine number s of every other. */
static void dragonfly_plus(struct gen *g)
{
	const uint32_t groups = (uint32_t)g->arg[0], l = (uint32_t)g->arg[1];
	const uint32_t s = (uint32_t)g->arg[2], p = (uint32_t)g->arg[3];
	const uint64_t down = (uint64_t)l + groups - 1;
	uint32_t leaf, spine;

	if (!l || !s) {
		gen_fail(g, "a group needs a leaf and a spine");
		return;
	}
	if (!gen_fits(g, (uint64_t)groups * l * p, (uint64_t)groups * (l + s),
		  down > s + p ? down : s + p))
		return;
	gen_hosts(g, groups * l * p, 0, 1);
	leaf = g->f->nodes;
	for (uint32_t i = 0; i < groups * l; i++)
		gen_switch(g, s + p, (struct gen_place){ 0, "group", i / l + 1, "leaf", i % l + 1 });
	spine = g->f->nodes;
	for (uint32_t i = 0; i < groups * s; i++)
		gen_switch(g, (unsigned int)down,
			   (struct gen_place){ 1, "group", i / s + 1, "spine", i % s + 1 });
	hosts_to_switches(g, leaf, groups * l, p);
	for (uint32_t i = 0; i < groups * l; i++)
		for (uint32_t j = 0; j < s; j++)
			gen_cable(g, 1, leaf + i, spine + i / l * s + j);
	for (uint32_t x = 0; x < groups; x++)
		for (uint32_t y = x + 1; y < groups; y++)
			for (uint32_t j = 0; j < s; j++)
				gen_cable(g, 2, spine + x * s + j, spine + y * s + j);
}

/*
 * Rail r of every machine of a unit is at leaf r of the unit, so that traffic within a rail needs
 * no spine. Adapter a has the rails from a * ports on, one for each port. A leaf has as many links
 * up as down; spines are as large as leaves.
 */
static void rails(struct gen *g)
{
	const uint64_t units = g->arg[0], nodes = g->args > 1 ? g->arg[1] : 32;
	const uint64_t n_rails = g->args > 2 ? g->arg[2] : 8, leaves = units * n_rails;
	const uint64_t ports = g->args > 3 ? g->arg[3] : 1, spines = (leaves + 1) / 2;
	uint32_t leaf, spine;

	if (!gen_fits(g, units * nodes * n_rails, leaves + spines, 2 * nodes))
		return;
	if (!ports || ports > FAB_MAX_NODE_PORTS || n_rails % ports) {
		gen_fail(g, "%llu rails cannot be spread evenly to adapters of %llu ports",
			 (unsigned long long)n_rails, (unsigned long long)ports);
		return;
	}
	if (nodes % spines) {
		gen_fail(g, "%llu units of %llu rails have %llu spines, to which the %llu links up of a "
		     "leaf cannot be spread evenly", (unsigned long long)units,
		     (unsigned long long)n_rails, (unsigned long long)spines,
		     (unsigned long long)nodes);
		return;
	}
	gen_hosts(g, (uint32_t)(units * nodes * n_rails / ports), (uint32_t)(n_rails / ports),
		  (unsigned int)ports);
	leaf = g->f->nodes;
	for (uint32_t i = 0; i < leaves; i++)
		gen_switch(g, (unsigned int)(2 * nodes),
			   (struct gen_place){ 0, "unit", i / (uint32_t)n_rails + 1, "leaf",
					       i % (uint32_t)n_rails + 1 });
	spine = g->f->nodes;
	for (uint32_t i = 1; i <= spines; i++)
		gen_switch(g, (unsigned int)(2 * nodes),
			   (struct gen_place){ .level = 1, .role = "spine", .num = i });
	for (uint32_t i = 0; i < units * nodes * n_rails; i++)
		gen_cable(g, 0, i / (uint32_t)ports,
			  leaf + leaf_of(i, (uint32_t)nodes, (uint32_t)n_rails));
	for (uint32_t i = 0; i < leaves; i++)
		for (uint32_t j = 0; j < nodes; j++)
			gen_cable(g, 1, leaf + i, spine + j % (uint32_t)spines);
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/*
 * A tree, so that all switches are connected; then links between random switches with a free port.
 */
static void random_graph(struct gen *g)
{
	uint64_t state = g->arg[0];
	const uint64_t n = g->arg[1], degree = g->args > 2 ? g->arg[2] : 4;
	const uint64_t each = g->args > 3 ? g->arg[3] : 1;
	uint32_t first, a = 0;

	if (degree < 2) {
		gen_fail(g, "switches with fewer than 2 links make no fabric");
		return;
	}
	if (!gen_fits(g, n * each, n, degree + each))
		return;
	gen_hosts(g, (uint32_t)(n * each), 0, 1);
	first = g->f->nodes;
	for (uint32_t i = 1; i <= n; i++)
		gen_switch(g, (unsigned int)(degree + each),
			   (struct gen_place){ .role = "switch", .num = i });
	hosts_to_switches(g, first, (uint32_t)n, (uint32_t)each);
	for (uint32_t i = 1; i < n && !g->failed; i++) {
		/* ends: a tree has fewer links than ports, so an earlier switch has a free port */
		do {
			a = first + (uint32_t)(next_random(&state) % i);
		} while (g->next_port[a] > degree + each);
		gen_cable(g, 1, a, first + i);
	}
	for (uint64_t tries = 0; tries < n * degree && !g->failed; tries++) {
		uint32_t b = first + (uint32_t)(next_random(&state) % n);

		a = first + (uint32_t)(next_random(&state) % n);
		if (a != b && g->next_port[a] <= degree + each && g->next_port[b] <= degree + each)
			gen_cable(g, 1, a, b);
	}
}

/* ---- SPECs --------------------------------------------------------------------- */

static const struct {
	char name[12];
	unsigned int least, most;	/* arguments */
	void (*make)(struct gen *g);
} kinds[] = {
	{ "star", 1, 4, star },
	{ "fat-tree", 1, 2, fat_tree },
	{ "ring", 1, 2, ring },
	{ "torus", 4, 4, torus },
	{ "dragonfly", 3, 3, dragonfly },
	{ "dragonfly+", 4, 4, dragonfly_plus },
	{ "rails", 1, 4, rails },
	{ "random", 2, 4, random_graph },
};

/*
 * Parse the numbers behind the colon. A torus has its sizes first, 1 for those that are not given.
 */
static bool parse_args(struct gen *g, const char *p, bool is_torus)
{
	char sep = is_torus ? 'x' : ',';

	for (;;) {
		char *end;

		if (g->args == GEN_MAX_ARGS || *p < '0' || *p > '9')
			return false;
		g->arg[g->args++] = strtoull(p, &end, 10);
		p = end;
		if (is_torus && sep == 'x' && (*p == ',' || !*p)) {
			while (g->args < 3)
				g->arg[g->args++] = 1;
			sep = ',';
		}
		if (!*p)
			break;
		if (*p++ != sep || (sep == 'x' && g->args == 3))
			return false;
	}
	if (is_torus && g->args == 3)
		g->arg[g->args++] = 1;
	return true;
}

/* Check that no number is so large that products overflow; a seed may be anything. */
static bool small(const struct gen *g, bool is_random)
{
	for (unsigned int i = is_random; i < g->args; i++)
		if (g->arg[i] > FAB_MAX_NODES || (!g->arg[i] && i == is_random))
			return false;
	return true;
}

bool gen_make(struct gen *g)
{
	const char *spec = g->plan->spec, *colon = strchr(spec, ':');
	size_t len = colon ? (size_t)(colon - spec) : strlen(spec);

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(kinds); i++) {
		const bool is_torus = kinds[i].make == torus;
		const bool is_random = kinds[i].make == random_graph;

		if (strlen(kinds[i].name) != len || memcmp(kinds[i].name, spec, len))
			continue;
		if (!colon || !parse_args(g, colon + 1, is_torus) || g->args < kinds[i].least ||
		    g->args > kinds[i].most || !small(g, is_random))
			return gen_fail(g, "'%s' is not valid; write one of:\n%s", spec,
					FAB_GENERATE_HELP);
		if ((g->plan->rails || g->plan->chassis) && kinds[i].make != fat_tree)
			return gen_fail(g, "--rails and --chassis need fat-tree; rails:U always has "
					"rails");
		kinds[i].make(g);
		return !g->failed;
	}
	return gen_fail(g, "'%s' is not a kind of fabric; write one of:\n%s", spec, FAB_GENERATE_HELP);
}
