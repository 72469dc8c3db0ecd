// SPDX-License-Identifier: GPL-2.0-or-later
/* Routes of packets by the loaded tables: where they end, and why. Names of nodes. */
#include "subnet.h"

#include <jansson.h>

#include "fabric/control/control.h"
#include "fabric/watch/trace.h"

/* 8 hosts, leaves 8 to 11, spines 12 and 13 */
static int setup_subnet(void **st)
{
	setup(st);
	subnet_up();
	return 0;
}

static uint32_t port(const char *name)
{
	const uint32_t p = fab_trace_port(f, name);

	if (p == FAB_NO_PORT)
		fail_msg("%s", name);
	return p;
}

/* The route from @from to LID @lid ends at @node, after @n hops, with @end. */
static struct fab_way way(const char *from, uint16_t lid, enum fab_way_end end, unsigned int n,
			  uint32_t node)
{
	struct fab_way w;

	fab_trace(f, port(from), lid, &w);
	assert_int_equal(w.end, end);
	assert_int_equal(w.n, n);
	assert_int_equal(w.hop[n - 1].node, node);
	assert_int_equal(w.hop[0].in, FAB_NO_PORT);
	for (unsigned int i = 1; i < n; i++)
		assert_int_equal(w.hop[i].in, f->port[w.hop[i - 1].out].peer);
	return w;
}

static struct fab_switch *switch_of(uint32_t node)
{
	return &f->sw[f->node[node].sw];
}

static void test_names(void **st)
{
	static const char * const wrong[] = { "", "0", "49152", "60", "0x0", "host9", "host1:2",
					      "leaf1:5", "0x12345678", ":", "host1:" };

	(void)st;
	assert_int_equal(port("host3"), fab_port_of(&f->node[2], 1));
	assert_int_equal(port("host3:1"), fab_port_of(&f->node[2], 1));
	assert_int_equal(port("3"), fab_port_of(&f->node[2], 1));
	assert_int_equal(port("0x3"), fab_port_of(&f->node[2], 1));
	assert_int_equal(port("0x5254010000000300"), fab_port_of(&f->node[2], 1));
	assert_int_equal(port("0x5254010000000301"), fab_port_of(&f->node[2], 1));
	assert_int_equal(port("leaf1"), fab_port_of(&f->node[8], 0));
	assert_int_equal(port("leaf1:3"), fab_port_of(&f->node[8], 0));
	assert_int_equal(port("9"), fab_port_of(&f->node[8], 0));
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(wrong); i++)
		assert_int_equal(fab_trace_port(f, wrong[i]), FAB_NO_PORT);
}

static void test_arrives(void **st)
{
	(void)st;
	way("host1", LID(0), FAB_WAY_ARRIVES, 1, 0);
	way("host1", LID(1), FAB_WAY_ARRIVES, 3, 1);
	way("host1", LID(7), FAB_WAY_ARRIVES, 5, 7);
	way("host1", LID(8), FAB_WAY_ARRIVES, 2, 8);
	way("spine1", LID(7), FAB_WAY_ARRIVES, 3, 7);
	way("leaf1", LID(8), FAB_WAY_ARRIVES, 1, 8);
}

static void test_ends(void **st)
{
	const struct fab_way w = way("host1", LID(7), FAB_WAY_ARRIVES, 5, 7);
	const uint32_t up = w.hop[1].out, spine = w.hop[2].node;
	const uint32_t other = f->port[fab_port_of(&f->node[spine], 2)].peer;
	uint8_t *lft = switch_of(spine)->lft;
	const uint8_t was = lft[LID(7)];

	(void)st;
	way("host1", 60, FAB_WAY_NO_ROUTE, 2, 8);
	way("host1", 0xbfff, FAB_WAY_NO_ROUTE, 2, 8);
	lft[LID(7)] = IB_LFT_NO_PORT;
	way("host1", LID(7), FAB_WAY_NO_ROUTE, 3, spine);
	lft[LID(7)] = (uint8_t)fab_port_num(f, w.hop[2].in);
	way("host1", LID(7), FAB_WAY_BACK, 3, spine);
	lft[LID(7)] = 0;
	way("host1", LID(7), FAB_WAY_OTHER_LID, 3, spine);
	/* to another leaf, which sends the packet back up */
	lft[LID(7)] = 2;
	assert_int_equal(f->port[other].node, 9);
	switch_of(9)->lft[LID(7)] = (uint8_t)fab_port_num(f, other);
	way("host1", LID(7), FAB_WAY_BACK, 4, 9);
	switch_of(9)->lft[LID(7)] ^= 7;		/* 3 and 4 lead to the spines */
	way("host1", LID(7), FAB_WAY_ARRIVES, 7, 7);
	switch_of(w.hop[2].node == 12 ? 13 : 12)->lft[LID(7)] = 1;
	way("host1", LID(7), FAB_WAY_CIRCLE, 6, 8);
	lft[LID(7)] = was;
	f->port[up].pi.state = IB_PS_ARMED;
	way("host1", LID(7), FAB_WAY_LINK, 2, 8);
	f->port[up].pi.state = IB_PS_ACTIVE;
	f->port[f->port[up].peer].pi.state = IB_PS_INIT;
	way("host1", LID(7), FAB_WAY_LINK, 2, 8);
	f->port[f->port[up].peer].pi.state = IB_PS_ARMED;
	way("host1", LID(7), FAB_WAY_ARRIVES, 5, 7);
	f->port[fab_port_of(&f->node[7], 1)].pi.lid = 40;
	way("host1", LID(7), FAB_WAY_OTHER_LID, 5, 7);
}

/* A multicast group of hosts 1 and 8, through the first spine. */
static void test_mcast(void **st)
{
	const struct fab_way ucast = way("host1", LID(7), FAB_WAY_ARRIVES, 5, 7);
	struct fab_way w;

	(void)st;
	assert_true(fab_trace_mcast(f, port("host1"), 0xc001, port("host8"), &w));
	assert_int_equal(w.end, FAB_WAY_NO_ROUTE);
	assert_int_equal(w.n, 1);
	for (unsigned int i = 1; i < 4; i++) {
		struct fab_switch *sw = switch_of(ucast.hop[i].node);

		sw->mft = calloc(FAB_MFT_CAP / IB_MFT_PER_BLOCK, sizeof(*sw->mft));
		sw->mft[0] = calloc(IB_MFT_PER_BLOCK * sw->mft_positions, sizeof(**sw->mft));
		sw->mft[0][sw->mft_positions] =
			(uint16_t)(1u << fab_port_num(f, ucast.hop[i].in) |
				   1u << fab_port_num(f, ucast.hop[i].out));
	}
	assert_true(fab_trace_mcast(f, port("host1"), 0xc001, port("host8"), &w));
	assert_int_equal(w.end, FAB_WAY_ARRIVES);
	assert_int_equal(w.n, 5);
	assert_int_equal(w.hop[0].out, port("host1"));
	assert_int_equal(w.hop[4].in, port("host8"));
	for (unsigned int i = 1; i < 5; i++)
		assert_int_equal(w.hop[i].in, f->port[w.hop[i - 1].out].peer);
	assert_true(fab_trace_mcast(f, port("host8"), 0xc001, port("host1"), &w));
	assert_int_equal(w.n, 5);
	assert_true(fab_trace_mcast(f, port("host2"), 0xc001, port("host1"), &w));
	assert_int_equal(w.n, 3);
	assert_true(fab_trace_mcast(f, port("host1"), 0xc001, port("host2"), &w));
	assert_int_equal(w.end, FAB_WAY_NO_ROUTE);
	assert_true(fab_trace_mcast(f, port("leaf1"), 0xc001, port("host8"), &w));
	assert_int_equal(w.n, 4);
}

static json_t *answer(const char *ask)
{
	char *text = fab_control_answer(&m, NULL, ask, strlen(ask), NULL);
	json_t *v = json_loads(text, 0, NULL);

	assert_non_null(v);
	free(text);
	return v;
}

static void test_control(void **st)
{
	static const char * const wrong[] = {
		"{\"command\": \"trace\"}",
		"{\"command\": \"trace\", \"from\": \"host1\"}",
		"{\"command\": \"trace\", \"from\": \"host1\", \"to\": \"host9\"}",
		"{\"command\": \"trace\", \"from\": \"host9\", \"to\": \"host1\"}",
		"{\"command\": \"trace\", \"from\": \"host1\", \"to\": \"host2\", \"multicast\": 7}",
	};
	json_t *v = answer("{\"command\": \"trace\", \"from\": \"host1\", \"to\": \"host8\"}"), *hop;

	(void)st;
	assert_int_equal(json_integer_value(json_object_get(v, "lid")), LID(7));
	assert_true(json_is_true(json_object_get(v, "arrives")));
	assert_int_equal(json_array_size(json_object_get(v, "hops")), 5);
	hop = json_array_get(json_object_get(v, "hops"), 1);
	assert_string_equal(json_string_value(json_object_get(hop, "description")), "leaf1");
	assert_int_equal(json_integer_value(json_object_get(hop, "in")), 1);
	assert_string_equal(json_string_value(json_object_get(hop, "state")), "Active");
	json_decref(v);
	v = answer("{\"command\": \"trace\", \"from\": \"1\", \"to\": \"60\"}");
	assert_true(json_is_false(json_object_get(v, "arrives")));
	assert_non_null(strstr(json_string_value(json_object_get(v, "end")), "no route"));
	json_decref(v);
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(wrong); i++) {
		v = answer(wrong[i]);
		assert_non_null(strstr(json_string_value(json_object_get(v, "error")), "give"));
		json_decref(v);
	}
	f->port[fab_port_of(&f->node[7], 1)].pi.lid = 0;
	v = answer("{\"command\": \"trace\", \"from\": \"host1\", \"to\": \"host8\"}");
	assert_non_null(strstr(json_string_value(json_object_get(v, "error")), "has no LID"));
	json_decref(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_subnet, teardown)
		T(test_names), T(test_arrives), T(test_ends), T(test_mcast), T(test_control),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
