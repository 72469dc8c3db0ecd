// SPDX-License-Identifier: GPL-2.0-or-later
/* Trees with irregular cables: the check finds all of these, and no others. */
#include "cases.h"

#include <time.h>

#include "fabric/graph/wire.h"
#include "fabric/graph/topo_rate.h"
#include "fabric/graph/tree.h"

#define MOST	256u
#define LEAVES	3000u	/* of the worst fabric, which has as many spines */
#define UPLINKS	60u

struct findings {
	struct fab_finding x[MOST];
	bool used[MOST];
	uint32_t n;
};

static void keep(void *ctx, const struct fab_finding *x)
{
	struct findings *to = ctx;

	assert_true(to->n < MOST);
	to->x[to->n++] = *x;
}

static void ignore(void *ctx, const struct fab_finding *x)
{
	(void)ctx;
	(void)x;
}

static struct fab_tree check(const struct fab *f, struct findings *to)
{
	struct fab_tree tree;

	memset(to, 0, sizeof(*to));
	assert_true(fab_tree_check(f, keep, to, &tree));
	assert_int_equal(tree.findings, to->n);
	return tree;
}

static struct fab *made(const struct fab_plan *plan, struct fab_damages *damages)
{
	struct fab *f = fab_new();
	char why[128];

	assert_non_null(f);
	assert_true(fab_generate_plan(f, plan, damages, why, sizeof(why)));
	assert_true(fab_seal(f));
	return f;
}

/* One finding equals @want; a field with FAB_NONE is ignored. */
static void one(struct findings *got, const struct fab *f, struct fab_finding want)
{
	for (uint32_t i = 0; i < got->n; i++) {
		const struct fab_finding *x = &got->x[i];

		if (got->used[i] || x->kind != want.kind ||
		    (want.port != FAB_NONE && x->port != want.port) ||
		    (want.to != FAB_NONE && x->to != want.to) || x->node != want.node)
			continue;
		got->used[i] = true;
		return;
	}
	for (uint32_t i = 0; i < got->n; i++)
		fab_finding_write(f, &got->x[i], stderr);
	fab_finding_write(f, &want, stderr);
	fail_msg("not found: the last of these");
}

static uint32_t node_of(const struct fab *f, uint32_t p)
{
	return f->port[p].node;
}

/* The check finds each piece of damage, a pair of swapped cables twice, and nothing else. */
static void all_found(const struct fab_plan *plan)
{
	struct fab_damages damages = { 0 };
	struct fab *f = made(plan, &damages);
	struct findings *got = test_malloc(sizeof(*got));
	uint32_t n = 0;

	check(f, got);
	for (uint32_t i = 0; i < damages.n; i++) {
		const struct fab_damage *d = &damages.list[i];
		const uint32_t *p = d->port;
		bool hosts = f->node[node_of(f, p[0])].type != IB_NODE_SWITCH_DEVICE;
		struct fab_finding want = { .kind = FAB_FINDING_SLOW, .port = FAB_NONE,
					    .to = FAB_NONE, .node = FAB_NONE };

		n += d->kind == FAB_DAMAGE_SWAPPED ? 2 : 1;
		if (d->kind == FAB_DAMAGE_SLOW) {
			/* reported at the lower switch, or at the one with the host */
			want.port = hosts ? p[1] : p[0];
			one(got, f, want);
		} else if (d->kind == FAB_DAMAGE_MISSING) {
			want.kind = FAB_FINDING_MISSING;
			want.port = fab_port_of(&f->node[node_of(f, p[0])], 1);
			want.node = node_of(f, p[1]);
			one(got, f, want);
		} else {
			for (unsigned int k = 0; k < 4; k += 2) {
				want.kind = hosts ? FAB_FINDING_RAIL : FAB_FINDING_MISWIRED;
				want.port = p[k];
				want.to = p[k + 1];
				want.node = hosts ? FAB_NONE : node_of(f, p[3 - k]);
				one(got, f, want);
			}
		}
	}
	if (got->n != n)
		for (uint32_t i = 0; i < got->n; i++)
			fab_finding_write(f, &got->x[i], stderr);
	assert_int_equal(got->n, n);
	test_free(got);
	free(damages.list);
	fab_free(f);
}

static void test_whole(void **unused)
{
	static const struct {
		const char *spec;
		uint32_t ranks, switches[3], cables[3];
	} whole[] = {
		{ "star:5", 1, { 1 }, { 5 } },
		{ "fat-tree:4", 2, { 4, 2 }, { 8, 8 } },
		{ "fat-tree:36", 2, { 36, 18 }, { 648, 648 } },
		{ "fat-tree:6,3", 3, { 18, 18, 9 }, { 54, 54, 54 } },
		{ "rails:2,8,4", 2, { 8, 4 }, { 64, 64 } },
	};
	struct findings *got = test_malloc(sizeof(*got));

	(void)unused;
	for (unsigned int nvidia = 0; nvidia < 2; nvidia++) {
		for (unsigned int i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
			struct fab_plan plan = { .spec = whole[i].spec };
			struct fab_damages none = { 0 };
			struct fab_tree tree;
			struct fab *f;

			if (nvidia && i != 2)
				continue;
			plan.nvidia = nvidia;
			plan.aggregation = nvidia;
			plan.speed = nvidia ? "4xHDR" : NULL;
			f = made(&plan, &none);
			tree = check(f, got);
			assert_int_equal(tree.ranks, whole[i].ranks);
			for (unsigned int r = 0; r < tree.ranks; r++) {
				assert_int_equal(tree.switches[r], whole[i].switches[r]);
				assert_int_equal(tree.cables[r], whole[i].cables[r]);
			}
			assert_int_equal(got->n, 0);
			fab_free(f);
		}
	}
	test_free(got);
}

static void test_damage(void **unused)
{
	static const char * const specs[] = { "fat-tree:12", "fat-tree:36", "fat-tree:12,3", "rails:2,32,8" };

	(void)unused;
	for (unsigned int i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		for (uint32_t seed = 1; seed <= 20; seed++) {
			all_found(&(struct fab_plan){ .spec = specs[i], .seed = seed, .missing = 1 });
			all_found(&(struct fab_plan){ .spec = specs[i], .seed = seed, .slow = 3 });
			all_found(&(struct fab_plan){ .spec = specs[i], .seed = seed, .missing = 3,
						      .slow = 2 });
			all_found(&(struct fab_plan){ .spec = specs[i], .seed = seed, .swapped = 1,
						      .slow = 2 });
		}
	}
}

/* In a torus, where all switches have hosts, each cable between switches is reported as extra. */
static void test_no_tree(void **unused)
{
	struct fab *f = made(&(struct fab_plan){ .spec = "torus:3x3" }, NULL);
	struct findings *got = test_malloc(sizeof(*got));

	(void)unused;
	assert_int_equal(check(f, got).ranks, 1);
	assert_int_equal(got->n, 18);
	for (uint32_t i = 0; i < got->n; i++)
		assert_int_equal(got->x[i].kind, FAB_FINDING_EXTRA);
	fab_free(f);
	f = fab_new();
	assert_non_null(f);
	assert_true(fab_seal(f));
	assert_int_equal(check(f, got).ranks, 0);
	fab_free(f);
	test_free(got);
}

/* The text of all findings in a fabric of @spec after @change. It is changed before fab_seal(). */
static void says(const char *spec, void (*change)(struct fab *f), const char *want)
{
	struct findings *got = test_malloc(sizeof(*got));
	struct fab *f = fab_new();
	char why[128], *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(f);
	assert_non_null(out);
	assert_true(fab_generate(f, spec, why, sizeof(why)));
	change(f);
	assert_true(fab_seal(f));
	check(f, got);
	for (uint32_t i = 0; i < got->n; i++)
		fab_finding_write(f, &got->x[i], out);
	fclose(out);
	assert_string_equal(text, want);
	free(text);
	fab_free(f);
	test_free(got);
}

static uint32_t port_of(const struct fab *f, const char *name, unsigned int num)
{
	for (uint32_t n = 0; n < f->nodes; n++)
		if (!strncmp(f->desc[n].text, name, FAB_DESC_LEN))
			return fab_port_of(&f->node[n], num);
	fail_msg("no %s", name);
	return 0;
}

static void unplug(struct fab *f, uint32_t p)
{
	f->port[f->port[p].peer].peer = FAB_NO_PORT;
	f->port[p].peer = FAB_NO_PORT;
}

/* leaf1 and leaf2 lose their last uplinks, and get a cable between them. */
static void join_leaves(struct fab *f)
{
	unplug(f, port_of(f, "leaf1", 8));
	unplug(f, port_of(f, "leaf2", 8));
	fab_cable(f, port_of(f, "leaf1", 8), port_of(f, "leaf2", 8));
}

/* Hosts of leaf1 are removed; their ports get a second cable to spine1, and one to leaf2. */
static void too_many(struct fab *f)
{
	unplug(f, port_of(f, "leaf1", 1));
	unplug(f, port_of(f, "leaf1", 2));
	unplug(f, port_of(f, "leaf2", 1));
	unplug(f, port_of(f, "leaf8", 5));
	fab_cable(f, port_of(f, "leaf1", 1), port_of(f, "spine1", 8));
	fab_cable(f, port_of(f, "leaf1", 2), port_of(f, "leaf2", 1));
}

static void nothing(struct fab *f)
{
	(void)f;
}

/* Each pair of switches of a unit has two cables; one cable of a pair is missing. */
static void uneven(struct fab *f)
{
	unplug(f, port_of(f, "unit1 leaf1", 8));
}

/* leaf8 has only its hosts. */
static void cut_off(struct fab *f)
{
	for (unsigned int i = 5; i <= 8; i++)
		unplug(f, port_of(f, "leaf8", i));
}

/* Renames the host at a port of @leaf. */
static void name_host(struct fab *f, const char *leaf, unsigned int num, const char *name)
{
	char *desc = f->desc[f->port[f->port[port_of(f, leaf, num)].peer].node].text;

	memset(desc, 0, FAB_DESC_LEN);
	memcpy(desc, name, strlen(name));
}

/* Both adapters of a, and the first ones of two other machines, are at leaf1: no finding. */
static void several_rails(struct fab *f)
{
	static const char * const names[] = { "a ohca_0", "a ohca_1", "b ohca_0", "c ohca_0" };

	for (unsigned int i = 0; i < 4; i++)
		name_host(f, "leaf1", i + 1, names[i]);
}

/* d has one adapter, and another machine's second one has d's name: no adapter can be elsewhere. */
static void other_name(struct fab *f)
{
	several_rails(f);
	name_host(f, "leaf1", 2, "d ohca_1");
	name_host(f, "leaf2", 1, "d2 ohca_0");
	name_host(f, "leaf2", 2, "d ohca_2");
}

/* The second adapter of d is at the leaf of the first ones, and its first adapter elsewhere. */
static void other_rail(struct fab *f)
{
	several_rails(f);
	name_host(f, "leaf1", 2, "d ohca_1");
	name_host(f, "leaf2", 1, "d ohca_0");
}

/*
 * leaf32 is for management: it has one host where others have 16, and cables to two of 16 spines.
 */
static void small_leaf(struct fab *f)
{
	for (unsigned int i = 2; i <= 32; i++)
		if (i <= 16 || i > 18)
			unplug(f, port_of(f, "leaf32", i));
}

/* leaf32 has no hosts. */
static void empty_leaf(struct fab *f)
{
	small_leaf(f);
	unplug(f, port_of(f, "leaf32", 1));
}

/* Two servers are at spine1 in place of its cables to leaf31 and leaf32. */
static void servers_at_spine(struct fab *f)
{
	for (unsigned int i = 31; i <= 32; i++) {
		const uint32_t at = port_of(f, "leaf1", i - 30), host = f->port[at].peer, to = port_of(f, "spine1", i);

		unplug(f, at);
		unplug(f, to);
		fab_cable(f, host, to);
	}
}

static void set_cable(struct fab *f, uint32_t p, const char *rate)
{
	topo_rate_set(topo_rate(rate, strlen(rate)), &f->port[p].pi);
	topo_rate_set(topo_rate(rate, strlen(rate)), &f->port[f->port[p].peer].pi);
}

/* 18 of 32 cables have 200 Gb/s, in two forms; one has less, and 13 have twice as much. */
static void mixed_rates(struct fab *f)
{
	for (unsigned int i = 0; i < 32; i++) {
		char name[16];

		snprintf(name, sizeof(name), "leaf%u", 1 + i / 4);
		set_cable(f, port_of(f, name, 5 + i % 4),
			  i < 8 ? "2xNDR" : i < 18 ? "4xHDR" : i < 19 ? "1xNDR" : "4xNDR");
	}
}

static void test_text(void **unused)
{
	(void)unused;
	says("fat-tree:8", nothing, "");
	says("fat-tree:8", join_leaves,
	     "miswired: 'leaf1' port 8 leads to 'leaf2' port 8, and should lead to 'spine4'\n"
	     "miswired: 'leaf2' port 8 leads to 'leaf1' port 8, and should lead to 'spine4'\n");
	says("fat-tree:8", too_many,
	     "extra: 'leaf1' port 1 leads to 'spine1' port 8, and should lead to no switch\n"
	     "extra: 'leaf1' port 2 leads to 'leaf2' port 1, and should lead to no switch\n"
	     "missing: 'leaf8' has 0 cables to 'spine1', others have 1\n");
	says("fat-tree:8", cut_off, "missing: 'leaf8' has no cable to the rank above\n");
	says("fat-tree:8", several_rails, "");
	says("fat-tree:8", other_rail, "miswired: 'd ohca_1' port 1 is at 'leaf1' port 2, where others have "
	     "rail 0, not 1\n");
	says("fat-tree:8", other_name, "");
	says("fat-tree:32", small_leaf, "");
	says("fat-tree:32", empty_leaf, "no tree: 'leaf32' is at no rank: it has too few cables to one, or most "
	     "switches there have none to its like\n");
	says("fat-tree:32", servers_at_spine,
	     "missing: 'leaf31' has 0 cables to 'spine1', others have 1\n"
	     "missing: 'leaf32' has 0 cables to 'spine1', others have 1\n");
	says("fat-tree:8", mixed_rates, "slow: 'leaf5' port 7 and 'spine3' port 5 have 1xNDR, others have 4xHDR\n");
	says("rails:1,4,4", uneven,
	     "uneven: 'unit1 leaf1' has 1 cable to 'spine2', others have 2\n");
}

/*
 * Random cables, so that each leaf is a block: the time is proportional to the cables times the
 * ports of a switch.
 */
static void test_hostile(void **unused)
{
	struct fab *f = fab_new();
	uint8_t used[LEAVES] = { 0 };
	uint64_t rng = fab_random_state(1);
	struct fab_tree tree;
	clock_t begin;

	(void)unused;
	assert_non_null(f);
	for (uint32_t i = 0; i < 3 * LEAVES; i++)
		assert_int_equal(fab_add_node(f, i < 2 * LEAVES ? IB_NODE_SWITCH_DEVICE : IB_NODE_CHANNEL_ADAPTER,
					      i < 2 * LEAVES ? UPLINKS + 1 : 1, 1 + i, "any", 3), i);
	for (uint32_t i = 0; i < LEAVES; i++)
		fab_cable(f, fab_port_of(&f->node[i], UPLINKS + 1), fab_port_of(&f->node[2 * LEAVES + i], 1));
	for (uint32_t i = 0; i < LEAVES * UPLINKS; i++) {
		const uint32_t up = fab_random(&rng) % LEAVES;

		/* a full spine gets no more cables */
		if (used[up] < UPLINKS)
			fab_cable(f, fab_port_of(&f->node[i % LEAVES], 1 + i / LEAVES),
				  fab_port_of(&f->node[LEAVES + up], ++used[up]));
	}
	assert_true(fab_seal(f));
	begin = clock();
	assert_true(fab_tree_check(f, ignore, NULL, &tree));
	assert_int_equal(tree.switches[0], LEAVES);
	assert_int_equal(tree.switches[1], LEAVES);
	/*
	 * about 2 s of processor time with sanitizers; 30 s if each switch were compared with each
	 * block
	 */
	assert_true(clock() - begin < 10 * CLOCKS_PER_SEC);
	fab_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_no_tree),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
