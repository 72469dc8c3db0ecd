// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ways that may wait for each other: which forwarding tables have a circle, and its effect on
 * traffic.
 */
#include "cases.h"

#include "fabric/traffic/traffic.h"
#include "ib/vl.h"

/*
 * Return: the number of switches between host @from's switch and @lid, -1 if packets do not arrive.
 */
static int way(const struct fab *f, uint32_t from, uint16_t lid)
{
	uint32_t at = f->port[fab_port_of(&f->node[from], 1)].peer;

	for (int n = 0; n < 64; n++) {
		const struct fab_node *sw = &f->node[f->port[at].node];
		const unsigned int num = f->sw[sw->sw].lft[lid];

		if (!num || num > sw->nports)
			return -1;
		at = f->port[fab_port_of(sw, num)].peer;
		if (at == FAB_NO_PORT)
			return -1;
		if (f->node[f->port[at].node].sw == FAB_NONE)
			return f->port[at].pi.lid == lid ? n : -1;
	}
	return -1;
}

static void all_arrive(const struct fab *f)
{
	for (uint32_t a = 0; a < f->nodes; a++)
		for (uint32_t b = 0; b < f->nodes; b++)
			if (a != b && f->node[a].sw == FAB_NONE && f->node[b].sw == FAB_NONE)
				assert_true(way(f, a, f->port[fab_port_of(&f->node[b], 1)].pi.lid) >= 0);
}

/* Return: the number of channels of the circle; each must lead to the switch of the next one. */
static uint32_t circle_of(const struct fab *f, uint8_t sl)
{
	struct fab_circle c;
	uint32_t n;

	assert_true(fab_circle_find(f, (uint16_t)(1u << sl), NULL, &c));
	for (uint32_t i = 0; i < c.n; i++) {
		const struct fab_port *p = &f->port[c.port[i]];

		assert_int_equal(f->port[p->peer].node, f->port[c.port[(i + 1) % c.n]].node);
		assert_true(f->node[p->node].sw != FAB_NONE);
		assert_true(c.vl[i] < 8);
		/* each is there once */
		for (uint32_t k = 0; k < i; k++)
			assert_true(c.port[k] != c.port[i] || c.vl[k] != c.vl[i]);
	}
	n = c.n;
	fab_circle_end(&c);
	assert_null(c.port);
	return n;
}

static struct fab *routed(const char *spec, enum fab_routing routing)
{
	struct fab *f = from_spec(spec);

	assert_true(fab_routes_make(f, routing));
	fab_routes_active(f);
	all_arrive(f);
	return f;
}

static uint32_t circle_in(const char *spec, enum fab_routing routing)
{
	struct fab *f = routed(spec, routing);
	const uint32_t n = circle_of(f, 0);

	/* the VLs of two SLs differ, the ways do not */
	assert_int_equal(circle_of(f, 5), n);
	fab_free(f);
	return n;
}

static void test_shortest(void **st)
{
	static const char *const trees[] = { "star:5", "fat-tree:4", "fat-tree:4,3", "fat-tree:6,3" };
	static const char *const rings[] = { "ring:5", "ring:6,2", "torus:4x4", "torus:5x5",
					     "torus:3x5x3", "dragonfly:4,2,2" };

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(trees); i++)
		assert_int_equal(circle_in(trees[i], FAB_ROUTING_MINHOP), 0);
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(rings); i++)
		assert_true(circle_in(rings[i], FAB_ROUTING_MINHOP) >= 3);
	/* no way has two wires between switches */
	assert_int_equal(circle_in("ring:3,2", FAB_ROUTING_MINHOP), 0);
	assert_int_equal(circle_in("ring:5", FAB_ROUTING_MINHOP), 5);
}

static void test_up_and_down(void **st)
{
	static const char *const zoo[] = {
		"star:5", "ring:3", "ring:6,2", "ring:9", "torus:4x4", "torus:5x5", "torus:3x5x3",
		"fat-tree:4", "fat-tree:4,3", "fat-tree:6,3", "dragonfly:4,2,2", "dragonfly+:3,2,2,2",
		"rails:1,4,4,2", "random:1,12", "random:7,20,3,2", "random:11,30,5",
	};

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(zoo); i++)
		assert_int_equal(circle_in(zoo[i], FAB_ROUTING_UPDN), 0);
}

/* In a tree the ways are the shortest ones, and balanced. */
static void test_trees(void **st)
{
	static const char *const trees[] = { "fat-tree:4", "fat-tree:4,3", "fat-tree:6,3" };

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(trees); i++) {
		struct fab *one = routed(trees[i], FAB_ROUTING_MINHOP);
		struct fab *two = routed(trees[i], FAB_ROUTING_UPDN);

		assert_int_equal(one->switches, two->switches);
		for (uint32_t k = 0; k < one->switches; k++)
			assert_memory_equal(one->sw[k].lft, two->sw[k].lft,
					    one->sw[k].lft_blocks * (size_t)IB_LFT_PER_BLOCK);
		fab_free(one);
		fab_free(two);
	}
}

/* Return: the port of ring switch @i to the next one. */
static uint8_t clockwise_port(const struct fab *f, uint32_t i)
{
	const struct fab_node *n = &f->node[i];
	uint32_t next = i;

	do
		next = (next + 1) % f->nodes;
	while (f->node[next].sw == FAB_NONE);
	for (uint8_t num = 1; num <= n->nports; num++) {
		const uint32_t peer = f->port[fab_port_of(n, num)].peer;

		if (peer != FAB_NO_PORT && f->port[peer].node == next)
			return num;
	}
	fail_msg("no ring");
	return 0;
}

/* All packets go round the ring to their switch, which no routing engine of ours does. */
static struct fab *clockwise(const char *spec)
{
	struct fab *f = routed(spec, FAB_ROUTING_MINHOP);

	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];

		for (uint16_t lid = 1; n->sw != FAB_NONE && lid < 64; lid++) {
			uint8_t *num = &f->sw[n->sw].lft[lid];
			const uint32_t peer = *num <= n->nports ?
					      f->port[fab_port_of(n, *num)].peer : FAB_NO_PORT;

			if (peer == FAB_NO_PORT || f->node[f->port[peer].node].sw != FAB_NONE)
				*num = clockwise_port(f, i);
		}
	}
	return f;
}

static void test_by_hand(void **st)
{
	struct fab *f = clockwise("ring:3");
	const struct fab_node *n;
	struct ib_sl2vl none;
	uint32_t i = 0, bad, *t;
	uint8_t cw;

	(void)st;
	assert_int_equal(circle_of(f, 0), 3);
	/* a switch discards packets with SL 3 from the one before */
	while (f->node[i].sw == FAB_NONE)
		i++;
	n = &f->node[i];
	cw = clockwise_port(f, i);
	none = *fab_sl2vl(f, n, 0, cw);
	none.vl[3] = IB_SL2VL_DROP;
	bad = fab_pool_get(&f->sl2vl, &none);
	t = malloc((n->nports + 1u) * (n->nports + 1u) * sizeof(*t));
	for (unsigned int in = 0; in <= n->nports; in++)
		for (unsigned int out = 0; out <= n->nports; out++) {
			const uint32_t peer = f->port[fab_port_of(n, in)].peer;
			const bool ring = in && f->node[f->port[peer].node].sw != FAB_NONE;

			t[in * (n->nports + 1u) + out] =
				ring ? bad : f->port[fab_port_of(n, out)].sl2vl;
		}
	f->sw[n->sw].sl2vl = t;
	assert_int_equal(circle_of(f, 0), 3);
	assert_int_equal(circle_of(f, 3), 0);
	/* a link that is down */
	f->port[fab_port_of(n, cw)].pi.state = IB_PS_DOWN;
	assert_int_equal(circle_of(f, 0), 0);
	fab_free(f);
}

/* The longest time of a flow that the watcher got. */
static uint64_t flow_ns;

static void tell_flows(void *arg, const struct fab_traffic_sender *s, uint32_t n, uint64_t ns)
{
	(void)arg;
	for (uint32_t i = 0; i < n; i++)
		if (s[i].bytes && ns > flow_ns)
			flow_ns = ns;
}

static const struct fab_traffic_watcher watcher = { .flows = tell_flows };

static struct fab_traffic_result result(const char *spec, const struct fab_traffic_cfg *cfg)
{
	struct fab *f = from_spec(spec);
	struct fab_traffic_result r;
	char why[128];

	if (!fab_traffic_run(f, cfg, &r, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(r.messages, r.hosts * cfg->messages);
	assert_int_equal(r.circle.n != 0, cfg->routing == FAB_ROUTING_MINHOP);
	fab_circle_end(&r.circle);
	fab_free(f);
	return r;
}

static struct fab_traffic_cfg many(enum fab_routing routing)
{
	return (struct fab_traffic_cfg){
		.pattern = FAB_PATTERN_UNIFORM, .routing = routing, .size = 1 << 20, .load = 100,
		.messages = 16, .rate_scale = 1, .hoq_scale = 1, .seed = 1,
	};
}

/* A deadlock, which HOQLife ends; with other ways there is none. */
static void test_deadlock(void **st)
{
	struct fab_traffic_cfg cfg = many(FAB_ROUTING_MINHOP);

	(void)st;
	assert_true(result("ring:6,2", &cfg).lost > 0);
	cfg = many(FAB_ROUTING_UPDN);
	assert_int_equal(result("ring:6,2", &cfg).lost, 0);
}

/*
 * A deadlock that nothing ends: the traffic run ends nevertheless, even where no packet is to be
 * sent, and a flow lasts until then.
 */
static void test_for_ever(void **st)
{
	struct fab_traffic_cfg cfg = many(FAB_ROUTING_MINHOP);
	struct fab_traffic_result r, without;

	(void)st;
	cfg.hoq_scale = 0;
	/* some host has sent half of it before, and none has sent all */
	cfg.size = 4096;
	cfg.messages = 200;
	without = result("ring:6,2", &cfg);
	assert_false(without.whole);
	cfg.watcher = &watcher;
	r = result("ring:6,2", &cfg);
	assert_true(r.whole && r.lost > 0);
	assert_in_range(flow_ns, 1, r.ns);
	/* except the field for the data path, and the circle, which is freed */
	without.whole = true;
	without.circle = r.circle;
	assert_memory_equal(&r, &without, sizeof(r));
}

static void test_names(void **st)
{
	(void)st;
	for (unsigned int i = 0; i < FAB_ROUTING_LOADED; i++)
		assert_int_equal(fab_routing_find(fab_routing_name(i)), i);
	assert_int_equal(fab_routing_find("dor"), FAB_ROUTINGS);
	assert_int_equal(fab_routing_find("loaded"), FAB_ROUTINGS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shortest), cmocka_unit_test(test_up_and_down),
		cmocka_unit_test(test_trees), cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_deadlock), cmocka_unit_test(test_for_ever),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("circles of channels", tests, NULL, NULL);
}
