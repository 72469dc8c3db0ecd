// SPDX-License-Identifier: GPL-2.0-or-later
/* Maximum flows of known fabrics, and of random ones, compared with all cuts of their switches. */
#include "cases.h"

#include "fabric/graph/cut.h"
#include "ib/rate.h"

#define EDR	100000000ull	/* kb/s of a link of four lanes */
#define SEEDS	300u

static struct fab_cuts cuts_of(const char *spec)
{
	struct fab *f = from_spec(spec);
	struct fab_cuts c;

	assert_true(fab_cuts_find(f, &c));
	fab_free(f);
	return c;
}

static void test_known(void **st)
{
	static const struct {
		const char *spec;
		uint32_t hosts;
		uint64_t half, leaf;
	} known[] = {
		{ "fat-tree:4", 8, 4 * EDR, 2 * EDR },
		{ "fat-tree:8,3", 128, 64 * EDR, 4 * EDR },
		/* leaves of four hosts with two cables */
		{ "dragonfly+:1,8,2,4", 32, 8 * EDR, 2 * EDR },
		{ "ring:6,2", 12, 2 * EDR, 2 * EDR },
		{ "torus:4x4,2", 32, 8 * EDR, 2 * EDR },
	};

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(known); i++) {
		const struct fab_cuts c = cuts_of(known[i].spec);

		assert_int_equal(c.half.hosts + c.half.others, known[i].hosts);
		assert_int_equal(c.half.hosts, known[i].hosts / 2);
		assert_int_equal(c.half.sent_kbps, known[i].hosts / 2 * EDR);
		assert_int_equal(c.half.kbps, known[i].half);
		assert_true(c.node != FAB_NONE);
		assert_int_equal(c.leaf.kbps, known[i].leaf);
	}
	/* three of the eleven others are at the same leaf */
	assert_int_equal(cuts_of("dragonfly+:1,3,2,4").each_kbps, 2 * EDR * 11 / (4 * 8));
	/* no cut is between hosts of one switch */
	assert_int_equal(cuts_of("star:5").node, FAB_NONE);
	assert_int_equal(cuts_of("star:5").each_kbps, EDR);
}

static void test_none(void **st)
{
	struct fab *f = from_spec("star:1");
	struct fab_cuts c;

	(void)st;
	assert_false(fab_cuts_find(f, &c));
	fab_free(f);
}

/* Return: kb/s of the link at port @p. */
static uint64_t rate(const struct fab *f, uint32_t p)
{
	const struct ib_port_info *pi = &f->port[p].pi;

	return ib_link_data_kbps(pi->width_active, pi->speed_active, pi->speed_ext_active);
}

/*
 * Return: kb/s that leave the side @mine of the switches, with hosts of the first half that are at
 * the other side and of the second half that are at this one.
 */
static uint64_t cut_of(const struct fab *f, uint32_t mine, uint32_t half)
{
	uint64_t sum = 0;
	uint32_t host = 0;

	for (uint32_t p = 1; p < f->ports; p++) {
		const struct fab_node *n = &f->node[f->port[p].node];
		const uint32_t next = fab_next_switch(f, p);
		bool here;

		if (next == FAB_NONE || !fab_port_num(f, p))
			continue;
		here = mine >> f->node[next].sw & 1;
		if (n->sw != FAB_NONE)
			sum += (mine >> n->sw & 1) && !here ? rate(f, p) : 0;
		else if (host++ < half)
			sum += here ? 0 : rate(f, p);
		else
			sum += here ? rate(f, p) : 0;
	}
	return sum;
}

/* The least cut is the maximum flow. */
static void test_random(void **st)
{
	static const char *const speeds[] = { "EDR", "HDR,EDR", "EDR,1xSDR", "SDR,QDR" };
	uint32_t different = 0;

	(void)st;
	for (unsigned int seed = 1; seed <= SEEDS; seed++) {
		char spec[32], why[256];
		struct fab_plan plan = { .spec = spec, .speed = speeds[seed % 4], .slow = seed % 5, .seed = seed };
		struct fab_damages damages = { 0 };
		struct fab *f = fab_new();
		uint64_t least = UINT64_MAX;
		struct fab_cuts c;

		snprintf(spec, sizeof(spec), "random:%u,%u,%u,%u", seed, 5 + seed % 6, 2 + seed % 3,
			 1 + seed % 4);
		assert_true(fab_generate_plan(f, &plan, &damages, why, sizeof(why)) && fab_seal(f));
		assert_true(fab_cuts_find(f, &c));
		for (uint32_t mine = 0; mine < 1u << f->switches; mine++) {
			const uint64_t cut = cut_of(f, mine, c.half.hosts);

			least = cut < least ? cut : least;
		}
		assert_int_equal(c.half.kbps, least);
		different += c.half.kbps != c.half.sent_kbps;
		free(damages.list);
		fab_free(f);
	}
	/* in most of them cables are the bottleneck */
	assert_true(different > SEEDS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known), cmocka_unit_test(test_none), cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("maximum flows", tests, NULL, NULL);
}
