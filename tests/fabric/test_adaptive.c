// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Adaptive routing: the ports of a group, the ports by which packets leave, the order of arrival,
 * and a port that goes down.
 */
#include "paced.h"

#include <jansson.h>

#include "fabric/control/control.h"
#include "fabric/data/adaptive.h"
#include "fabric/fault/journal.h"
#include "fabric/mgmt/adaptive.h"
#include "fabric/traffic/routes.h"
#include "fabric/traffic/traffic.h"

#define US	1000u
#define MS	1000000u
#define LEN	4120u	/* needs 330 ns */

/*
 * Of fat-tree:6: hosts 0 to 17, three at each of the leaves 18 to 23, and three spines from 24 on.
 */
#define LEAF	18u
#define SPINE	24u
#define UP	4u	/* the first of three ports of a leaf that lead to spines */

static const struct fab_adaptive_cfg kept = { .sls = UINT16_MAX, .gap_ns = 20 * US };
static const struct fab_adaptive_cfg any = { .sls = UINT16_MAX,
					     .gap_ns = 20 * US,
					     .any_order = true };

static int fill_all(void)
{
	int lid = 0;

	do
		lid = fab_adaptive_fill(&m, (uint32_t)lid);
	while (lid > 0);
	return lid;
}

static void switch_on(uint32_t node, const struct fab_adaptive_cfg *cfg)
{
	assert_true(fab_adaptive_on(&m, node, cfg));
	assert_int_equal(fill_all(), 0);
}

static const struct fab_adaptive_group *group_at(uint32_t node, uint16_t lid)
{
	const struct fab_node *n = &f->node[node];

	return fab_adaptive_group(f, &f->sw[n->sw], lid, fab_route(f, n, lid));
}

static uint64_t sent_by(uint32_t node, unsigned int num)
{
	return counters_of(fab_port_of(&f->node[node], num))->xmit_pkts;
}

/* Return: the number of the first leaf's ports to spines by which packets have left. */
static unsigned int ups_in_use(void)
{
	unsigned int n = 0;

	for (unsigned int i = UP; i < UP + 3; i++)
		n += sent_by(LEAF, i) > 0;
	return n;
}

/* sim[i] is host i + 1, so the first two are at the first leaf. */
static void begin_tree(void)
{
	begin_paced("fat-tree:6", 1);
	for (unsigned int i = 0; i < 6; i++)
		sim_place(i, i + 1);
	/* the manager's tables use one spine for all, so everything leaves a leaf by one port */
	for (uint32_t i = 3; i < LEAF; i++)
		assert_int_equal(fab_route(f, &f->node[LEAF], LID(i)), UP);
}

/* ---- groups -------------------------------------------------------------------- */

static void test_groups(void **st)
{
	begin_tree();
	(void)st;
	assert_null(group_at(LEAF, LID(4)));
	switch_on(FAB_NONE, &kept);
	assert_int_equal(f->adaptive, 9);
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_adaptive_group *g = group_at(LEAF, LID(i));

		/* hosts of other leaves; packets for switches are MADs */
		assert_int_equal(g != NULL, i >= 3 && i < LEAF);
		if (g)
			assert_int_equal(g->port[0], 7u << UP);
		assert_null(group_at(SPINE, LID(i)));
	}
	assert_int_equal(f->sw[f->node[LEAF].sw].adaptive->groups, 1);
	fab_adaptive_off(&m, LEAF);
	assert_null(group_at(LEAF, LID(4)));
	assert_non_null(group_at(LEAF + 1, LID(7)));
	fab_adaptive_off(&m, FAB_NONE);
	assert_null(group_at(LEAF + 1, LID(7)));
	assert_int_equal(f->adaptive, 0);
	end_paced();
}

/* While a table differs there are no groups; they return when the table does. */
static void test_changed(void **st)
{
	struct fab_switch *sw;
	uint8_t was;

	(void)st;
	begin_tree();
	switch_on(LEAF, &kept);
	sw = &f->sw[f->node[SPINE].sw];
	was = sw->lft[LID(9)];
	fab_lft_changed(f, sw);
	assert_non_null(group_at(LEAF, LID(4)));
	sw->lft[LID(9)] = 1;
	fab_lft_changed(f, sw);
	assert_null(group_at(LEAF, LID(4)));
	assert_int_equal(fab_adaptive_fill(&m, 1), FAB_ADAPTIVE_CHANGED);
	sw->lft[LID(9)] = was;
	fab_lft_changed(f, sw);
	assert_non_null(group_at(LEAF, LID(4)));
	/*
	 * a switch that was off has none when it is on again, and the other switches do not use it
	 */
	assert_true(fab_reset_node(f, LEAF));
	assert_int_equal(f->adaptive, 0);
	assert_int_equal(f->lfts_differ, 0);
	end_paced();
}

/* If ways of the same length form a circle, there are no groups. */
static void test_circle(void **st)
{
	static const char *const specs[] = { "ring:4", "torus:4x4" };

	(void)st;
	for (unsigned int i = 0; i < 2; i++) {
		begin_paced(specs[i], 1);
		assert_true(fab_adaptive_on(&m, FAB_NONE, &kept));
		assert_int_equal(fill_all(), FAB_ADAPTIVE_CIRCLE);
		assert_int_equal(f->adaptive, 0);
		end_paced();
	}
}

/* ---- ports --------------------------------------------------------------------- */

/* Two flows from one leaf to another. Return: bytes that both receivers got. */
static uint64_t two_flows(const struct fab_adaptive_cfg *cfg)
{
	uint64_t bytes;

	begin_tree();
	if (cfg)
		switch_on(FAB_NONE, cfg);
	add_flow(0, 4, 0, LEN, UINT32_MAX);
	add_flow(1, 5, 0, LEN, UINT32_MAX);
	run_until(now + 1000 * US);
	bytes = all_bytes(&sim[3]) + all_bytes(&sim[4]);
	return bytes;
}

/* One wire for both, or one for each. */
static void test_least(void **st)
{
	const uint64_t wire = 12390000;		/* bytes in 1 ms */
	uint64_t one;

	(void)st;
	one = two_flows(NULL);
	assert_in_range(one, wire * 98 / 100, wire * 102 / 100);
	assert_int_equal(ups_in_use(), 1);
	assert_int_equal(d->n.adaptive, 0);
	end_paced();
	assert_in_range(two_flows(&any), wire * 196 / 100, wire * 204 / 100);
	assert_int_equal(ups_in_use(), 3);
	assert_true(d->n.adaptive > 0);
	end_paced();
	/* and so are those RC packets that an HCA sends for any order */
	sim_op = IB_OP_RC_WRITE_ONLY;
	assert_in_range(two_flows(&any), wire * 196 / 100, wire * 204 / 100);
	assert_int_equal(ups_in_use(), 3);
	end_paced();
	/* all others must stay in order */
	sim_op = IB_OP_RC_WRITE_MIDDLE;
	two_flows(&any);
	assert_int_equal(ups_in_use(), 2);
	end_paced();
	sim_op = IB_OP_UD_SEND_ONLY;
	two_flows(&any);
	assert_int_equal(ups_in_use(), 2);
	end_paced();
	sim_op = IB_OP_UC_SEND_ONLY;
	/* the first packets choose a port, and the others of a flow follow */
	assert_in_range(two_flows(&kept), wire * 196 / 100, wire * 204 / 100);
	assert_int_equal(ups_in_use(), 2);
	end_paced();
}

/* Other service levels, or none. */
static void test_sls(void **st)
{
	const struct fab_adaptive_cfg other = { .sls = (uint16_t)~1u, .any_order = true };

	(void)st;
	two_flows(&other);
	assert_int_equal(ups_in_use(), 1);
	assert_int_equal(d->n.adaptive, 0);
	end_paced();
}

/* sim[0] sends @n packets, one every 5 us. */
static void trickle(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		sim[0].flow[0].left = 1;
		run_until(now + 5 * US);
	}
}

/* A flow that must stay in order changes its port after a pause, and not before. */
static void test_pause(void **st)
{
	(void)st;
	begin_tree();
	switch_on(FAB_NONE, &kept);
	add_flow(0, 4, 0, LEN, 0);
	trickle(10);
	/* this one begins on an idle wire, and never pauses */
	add_flow(1, 5, 0, LEN, UINT32_MAX);
	run_until(now + 2 * US);
	trickle(20);
	assert_int_equal(ups_in_use(), 1);
	run_until(now + 30 * US);
	trickle(20);
	assert_int_equal(ups_in_use(), 2);
	assert_int_equal(sent_by(LEAF, UP + 1) + sent_by(LEAF, UP + 2), 20);
	run_until(now + 10 * US);
	assert_int_equal(sim[3].packets, 50);
	end_paced();
}

/* Checks that no head waits for any port. */
static void expect_none(void)
{
	for (uint32_t i = 0; i < d->count; i++)
		for (unsigned int vl = 0; vl < FAB_DATA_LANES; vl++)
			assert_int_equal(d->all[i]->out[vl].heads, 0);
}

/* ---- a port that goes down ----------------------------------------------------- */

/* Return: packets that were lost. */
static uint64_t cable_down(const struct fab_adaptive_cfg *cfg)
{
	const uint32_t up = fab_port_of(&f->node[LEAF], UP);
	uint64_t sent;

	if (cfg)
		switch_on(LEAF, cfg);
	add_flow(0, 4, 0, LEN, 1000);
	add_flow(0, 5, 0, LEN, 1000);
	run_until(now + 100 * US);
	sent = sim[3].packets + sim[4].packets;
	assert_in_range(sent, 100, 1000);
	m.now_ns = now;
	assert_true(fab_fault_link(&m, up, false, now));
	run_until(now + 2 * MS);
	assert_int_equal(f->port[up].pi.state, IB_PS_DOWN);
	return 2000 - sim[3].packets - sim[4].packets;
}

static void test_failover(void **st)
{
	const struct fab_adaptive_cfg none = { .sls = 0 };
	uint64_t failovers;

	(void)st;
	/* without a manager all later packets are lost */
	begin_tree();
	assert_in_range(cable_down(NULL), 1500, 2000);
	assert_int_equal(d->n.failovers, 0);
	end_paced();
	/*
	 * nothing is lost except the packets on that cable, even for service levels that are not
	 * spread
	 */
	begin_tree();
	assert_in_range(cable_down(&none), 0, 3);
	failovers = d->n.failovers;
	assert_in_range(failovers, 1500, 2000);
	expect_none();
	assert_true(ups_in_use() > 1);
	/* packets return to the port when the cable is plugged in */
	assert_true(fab_fault_link(&m, fab_port_of(&f->node[LEAF], UP), true, now));
	run_until(now + 10 * MS);
	for (unsigned int i = 0; i < 2; i++) {
		const uint32_t end[2] = { fab_port_of(&f->node[LEAF], UP),
					  f->port[fab_port_of(&f->node[LEAF], UP)].peer };

		assert_int_equal(f->port[end[i]].pi.state, IB_PS_INIT);
		f->port[end[i]].pi.state = IB_PS_ACTIVE;
		fab_changed(&m, end[i]);
	}
	sim[0].flow[0].left = 100;
	run_until(now + 1 * MS);
	assert_int_equal(d->n.failovers, failovers);
	end_paced();
	begin_tree();
	assert_in_range(cable_down(&kept), 0, 3);
	expect_none();
	end_paced();
}

/* ---- requests ------------------------------------------------------------------ */

/* The reply to the request with these members must contain @want. */
static void expect_reply(const char *members, const char *want)
{
	char text[256], *reply;

	snprintf(text, sizeof(text), "{\"command\": \"adaptive\"%s}", members);
	m.now_ns = now;
	reply = fab_control_answer(&m, d, text, strlen(text), NULL);
	assert_non_null(reply);
	if (!strstr(reply, want))
		fail_msg("%s: %s", text, reply);
	free(reply);
}

static void test_requests(void **st)
{
	static const char *const wrong[][2] = {
		{ "", ", on or off" },
		{ ", \"state\": \"in\"", ", on or off" },
		{ ", \"state\": \"on\", \"order\": \"some\"", ", kept or any, " },
		{ ", \"state\": \"on\", \"sls\": 65536", ", kept or any, " },
		{ ", \"state\": \"on\", \"gap_ns\": -1", ", kept or any, " },
		{ ", \"state\": \"on\", \"node\": \"host1\"", "is not a switch" },
		{ ", \"state\": \"on\", \"node\": \"nobody\"", "no node 'nobody'" },
		{ ", \"state\": \"on\", \"first\": 1", "a forwarding table has changed" },
	};
	const struct fab_adaptive *a;
	char *reply;

	(void)st;
	begin_tree();
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(wrong); i++) {
		expect_reply(wrong[i][0], wrong[i][1]);
		assert_int_equal(f->adaptive, 0);
	}
	expect_reply(", \"state\": \"on\", \"node\": \"leaf1\", \"order\": \"any\", "
		     "\"sls\": 6, \"gap_ns\": 9", "\"done\": true");
	a = f->sw[f->node[LEAF].sw].adaptive;
	assert_non_null(a);
	assert_int_equal(f->adaptive, 1);
	assert_true(a->cfg.any_order);
	assert_int_equal(a->cfg.sls, 6);
	assert_int_equal(a->cfg.gap_ns, 9);
	reply = fab_control_answer(&m, d, "{\"command\": \"status\"}", 21, NULL);
	assert_non_null(
		strstr(reply, "\"adaptive\": {\"switches\": 1, \"groups\": 1, \"lids\": 15, "));
	free(reply);
	expect_reply(", \"state\": \"on\"", "\"done\": true");
	assert_int_equal(f->adaptive, 9);
	assert_int_equal(f->sw[f->node[LEAF].sw].adaptive->cfg.sls, UINT16_MAX);
	expect_reply(", \"state\": \"off\"", "\"done\": true");
	assert_int_equal(f->adaptive, 0);
	end_paced();
}

/* Return: the LID at which the next request continues, or 0. */
static json_int_t next_of_reply(const char *members)
{
	char text[256], *reply;
	json_int_t next;
	json_t *v;

	snprintf(text, sizeof(text), "{\"command\": \"adaptive\", \"state\": \"on\"%s}", members);
	reply = fab_control_answer(&m, NULL, text, strlen(text), NULL);
	v = json_loads(reply, 0, NULL);
	next = json_integer_value(json_object_get(v, "next"));
	json_decref(v);
	free(reply);
	return next;
}

/*
 * All LIDs are checked for circles, however clients ask. An operation in parts is one command of
 * the log.
 */
static void test_parts(void **st)
{
	static struct fab_journal journal;
	char members[64];
	json_int_t first;

	(void)st;
	begin(from_spec("ring:120,20"));
	d = NULL;
	m.journal = &journal;
	assert_true(fab_routes_make(f, FAB_ROUTING_MINHOP));
	fab_routes_active(f);
	first = next_of_reply("");
	assert_in_range(first, 2, 2519);
	/* the last LIDs alone have no circle */
	snprintf(members, sizeof(members), ", \"state\": \"on\", \"first\": %u", 2519);
	expect_reply(members, "another client has begun");
	/* a second client begins, and overtakes the first */
	assert_int_equal(next_of_reply(""), first);
	for (json_int_t lid = first; lid;) {
		snprintf(members, sizeof(members), ", \"first\": %u", (unsigned int)lid);
		lid = next_of_reply(members);
		/* the first one continues */
		snprintf(members, sizeof(members), ", \"state\": \"on\", \"first\": %u", (unsigned int)first);
		expect_reply(members, "another client has begun");
	}
	/* there is a circle */
	assert_int_equal(f->adaptive, 0);
	/* it is switched off meanwhile */
	assert_int_equal(next_of_reply(""), first);
	expect_reply(", \"state\": \"off\"", "\"done\": true");
	expect_reply(members, "another client has begun");
	assert_int_equal(f->adaptive, 0);
	assert_int_equal(journal.count, 4);
	m.journal = NULL;
	fab_free(f);
}

/* ---- many ---------------------------------------------------------------------- */

static struct fab_traffic_result permutation(const struct fab_adaptive_cfg *cfg)
{
	const struct fab_traffic_cfg traffic = {
		.pattern = FAB_PATTERN_PERMUTATION,
		.size = 65536,
		.load = 100,
		.rate_scale = 1,
		.hoq_scale = 1,
		.seed = 1,
		.adaptive = cfg,
	};
	struct fab *tree = from_spec("fat-tree:8,3");
	struct fab_traffic_result r;
	char why[128];

	if (!fab_traffic_run(tree, &traffic, &r, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(r.lost, 0);
	fab_circle_end(&r.circle);
	fab_free(tree);
	return r;
}

/* 128 hosts at a tree of three levels. */
static void test_permutation(void **st)
{
	const struct fab_traffic_result one = permutation(NULL), two = permutation(&any),
					three = permutation(&any), order = permutation(&kept);

	(void)st;
	assert_int_equal(one.adaptive, 0);
	assert_int_equal(one.reordered, 0);
	assert_true(one.ns >= two.ns * 14 / 10);
	assert_true(two.p99_ns <= one.p99_ns / 2);
	assert_true(two.reordered > 1000);
	/* the same seed, the same */
	assert_memory_equal(&two, &three, sizeof(two));
	assert_int_equal(order.reordered, 0);
	assert_true(order.adaptive > 1000);
	assert_true(one.ns > order.ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_circle),
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_sls),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_failover),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_permutation),
	};

	return cmocka_run_group_tests_name("adaptive routing", tests, NULL, NULL);
}
