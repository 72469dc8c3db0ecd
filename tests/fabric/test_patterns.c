// SPDX-License-Identifier: GPL-2.0-or-later
/* Traffic of hosts without machines: senders and receivers, routes, and durations. */
#include "cases.h"

#include "fabric/graph/names.h"
#include "fabric/mgmt/mgmt.h"
#include "fabric/traffic/routes.h"
#include "fabric/traffic/traffic_priv.h"

/* ---- routes -------------------------------------------------------------------- */

/* Number of switches from host @from to @lid by the tables; 0: the route does not end there. */
static unsigned int way(const struct fab *f, uint32_t from, uint16_t lid)
{
	uint32_t at = f->port[fab_port_of(&f->node[from], 1)].peer;

	for (unsigned int n = 1; n < 16; n++) {
		const struct fab_node *sw = &f->node[f->port[at].node];
		const unsigned int num = fab_route(f, sw, lid);

		if (!num || num > sw->nports)
			return 0;
		at = f->port[fab_port_of(sw, num)].peer;
		if (f->node[f->port[at].node].sw == FAB_NONE)
			return f->port[at].pi.lid == lid ? n : 0;
	}
	return 0;
}

/*
 * Each host reaches each other by a shortest route; a leaf's uplinks carry equal numbers of LIDs.
 */
static void test_routes(void **st)
{
	struct fab *f = from_spec("fat-tree:4,3");
	unsigned int by_length[8] = { 0 }, leaves = 0;

	(void)st;
	assert_true(fab_routes_make(f, FAB_ROUTING_MINHOP));
	fab_routes_active(f);
	for (uint32_t a = 0; a < f->nodes; a++) {
		for (uint16_t lid = 1; f->node[a].sw == FAB_NONE && lid <= 16; lid++) {
			if (f->port[fab_port_of(&f->node[a], 1)].pi.lid != lid)
				by_length[way(f, a, lid) % 8]++;
		}
	}
	/* hosts at the same leaf, in the same pod, and elsewhere */
	assert_int_equal(by_length[1], 16);
	assert_int_equal(by_length[3], 16 * 2);
	assert_int_equal(by_length[5], 16 * 12);
	for (uint32_t i = 0; i < f->nodes; i++) {
		unsigned int up[2] = { 0 };

		if (f->node[i].sw == FAB_NONE || strstr(f->desc[i].text, "leaf") == NULL)
			continue;
		for (uint16_t lid = 1; lid <= 16; lid++)
			if (fab_route(f, &f->node[i], lid) > 2)
				up[fab_route(f, &f->node[i], lid) - 3]++;
		assert_int_equal(up[0], 7);
		assert_int_equal(up[1], 7);
		leaves++;
	}
	assert_int_equal(leaves, 8);
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].peer != FAB_NO_PORT)
			assert_int_equal(f->port[p].pi.state, IB_PS_ACTIVE);
	fab_free(f);
}

/* ---- patterns ------------------------------------------------------------------ */

#define MANY	7u

static void test_targets(void **st)
{
	struct traffic_host host[MANY];
	struct fab_traffic t = { .host = host, .hosts = MANY, .rng = 1 };
	unsigned int hot = 0;

	(void)st;
	for (unsigned int i = 0; i < MANY; i++)
		host[i].rng = fab_random_state(i);
	for (unsigned int p = 0; p < FAB_PATTERNS; p++) {
		assert_int_equal(fab_pattern_find(fab_pattern_name(p)), p);
		/* only for powers of two */
		if (p == FAB_PATTERN_ALL_REDUCE_HALVING)
			continue;
		t.cfg.pattern = p;
		assert_true(traffic_choose_fixed(&t));
		for (uint32_t i = 0; i < 700; i++) {
			const uint32_t from = i % MANY, to = traffic_target(&t, from, i);

			assert_true(to < MANY);
			assert_true(to != from || (traffic_is_incast(&t) && !from));
			if (p == FAB_PATTERN_INCAST)
				assert_int_equal(to, 0);
			if (p == FAB_PATTERN_HOT_SPOT && from)
				hot += !to;
		}
	}
	/* a quarter, and a sixth of the rest */
	assert_in_range(hot, 600 * 3 / 8 - 50, 600 * 3 / 8 + 50);
	assert_int_equal(fab_pattern_find("ring"), FAB_PATTERNS);
	/* each host receives from one, and in the end from all */
	t.cfg.pattern = FAB_PATTERN_PERMUTATION;
	for (unsigned int k = 0; k < 2; k++) {
		uint32_t from_all[MANY] = { 0 };

		for (uint32_t from = 0; from < MANY; from++)
			for (uint32_t i = 0; i < (k ? MANY - 1 : 1); i++)
				from_all[traffic_target(&t, from, i)] |= 1u << from;
		for (uint32_t i = 0; i < MANY; i++)
			assert_int_equal(__builtin_popcount(from_all[i]), k ? MANY - 1 : 1);
		t.cfg.pattern = FAB_PATTERN_ALL_TO_ALL;
	}
}

/* ---- results ------------------------------------------------------------------- */

static const struct fab_traffic_cfg usual = {
	.pattern = FAB_PATTERN_PERMUTATION, .size = 65536, .load = 100, .rate_scale = 1,
	.hoq_scale = 1, .seed = 1,
};

static struct fab_traffic_result result(const char *spec, const struct fab_traffic_cfg *cfg)
{
	struct fab *f = from_spec(spec);
	struct fab_traffic_result r;
	char why[128];

	if (!fab_traffic_run(f, cfg, &r, why, sizeof(why)))
		fail_msg("%s", why);
	fab_circle_end(&r.circle);
	fab_free(f);
	return r;
}

/* EDR: 4,096 bytes and 26 of headers and CRCs take 329.76 ns on each of two wires. */
static void test_time(void **st)
{
	struct fab_traffic_cfg cfg = usual;
	struct fab_traffic_result r;

	(void)st;
	cfg.size = 4096;
	cfg.messages = 1;
	r = result("star:4", &cfg);
	assert_int_equal(r.hosts, 4);
	assert_int_equal(r.messages, 4);
	assert_int_equal(r.packets, 4);
	assert_int_equal(r.bytes, 4 * 4096);
	assert_int_equal(r.p50_ns, 2 * 330);
	assert_int_equal(r.max_ns, 2 * 330);
	assert_int_equal(r.ns, 2 * 330);
	/* one byte and three bytes of padding */
	cfg.size = 4097;
	r = result("star:4", &cfg);
	assert_int_equal(r.packets, 8);
	assert_int_equal(r.bytes, 4 * 4097);
	assert_int_equal(r.lost, 0);
	/* a thousand times slower */
	cfg.size = 4096;
	cfg.rate_scale = 1000;
	assert_int_equal(result("star:4", &cfg).max_ns, 2 * 329760);
}

/* The duration depends on whether all messages share one wire. */
static void test_rates_of_patterns(void **st)
{
	struct fab_traffic_cfg cfg = usual;
	struct fab_traffic_result r = result("star:8", &cfg);
	const uint64_t message_ns = 16 * 32976 / 100;

	(void)st;
	assert_int_equal(r.messages, 8 * 16);
	assert_int_equal(r.lost, 0);
	assert_in_range(r.ns, 16 * message_ns, 16 * message_ns + 400);
	cfg.pattern = FAB_PATTERN_INCAST;
	r = result("star:8", &cfg);
	assert_int_equal(r.messages, 7 * 16);
	assert_int_equal(r.lost, 0);
	assert_in_range(r.ns, 7 * 16 * message_ns, 7 * 16 * message_ns + 800);
	cfg.pattern = FAB_PATTERN_ALL_TO_ALL;
	r = result("star:8", &cfg);
	assert_int_equal(r.messages, 8 * 7);
	assert_in_range(r.ns, 7 * message_ns, 7 * message_ns * 105 / 100);
	/* half the load takes twice as long, and a message is faster than in an incast */
	cfg.pattern = FAB_PATTERN_PERMUTATION;
	cfg.load = 50;
	cfg.messages = 400;
	r = result("star:8", &cfg);
	assert_in_range(r.ns, 790 * message_ns, 900 * message_ns);
	assert_true(r.p50_ns < 2 * message_ns);
}

/* The time of @packets packets of 4,096 bytes over two wires of EDR, in ns. */
static double two_wires(double packets)
{
	return (packets + 1) * 329.76;
}

/* The steps follow one another; each takes some ns more, because each wire takes whole ns. */
static void expect_reduce(const struct fab_traffic_result *r, uint64_t steps, double ns)
{
	assert_int_equal(r->lost, 0);
	assert_in_range(r->ns, (uint64_t)ns, (uint64_t)ns + 4 * steps);
}

/* One switch blocks nothing: the time of an all-reduce is the sum of its steps. */
static void test_all_reduce(void **st)
{
	struct fab_traffic_cfg cfg = usual;
	struct fab_traffic_result r;
	double ns = 0;

	(void)st;
	cfg.pattern = FAB_PATTERN_ALL_REDUCE_RING;
	for (unsigned int n = 5; n <= 8; n += 3) {
		cfg.size = n * 10 * 4096;
		r = result(n == 5 ? "star:5" : "star:8", &cfg);
		assert_int_equal(r.messages, n * 2 * (n - 1));
		assert_int_equal(r.bytes, 2 * (n - 1) * cfg.size);
		assert_int_equal(r.bus_bytes, 2 * (n - 1) * cfg.size / n);
		expect_reduce(&r, 2 * (n - 1), 2 * (n - 1) * two_wires(10));
	}
	/* three all-reduces */
	cfg.messages = 3;
	r = result("star:8", &cfg);
	assert_int_equal(r.bus_bytes, 3 * 14 * 10 * 4096);
	expect_reduce(&r, 3 * 14, 3 * 14 * two_wires(10));
	/* a half, a quarter and an eighth of 80 packets, in both directions */
	cfg.pattern = FAB_PATTERN_ALL_REDUCE_HALVING;
	cfg.messages = 0;
	r = result("star:8", &cfg);
	assert_int_equal(r.messages, 8 * 6);
	assert_int_equal(r.bytes, 14 * cfg.size);
	for (unsigned int packets = 40; packets >= 10; packets /= 2)
		ns += 2 * two_wires(packets);
	expect_reduce(&r, 6, ns);
	/* pieces of different sizes add up to the whole */
	cfg.size = 100003;
	for (unsigned int k = 0; k < 2; k++) {
		r = result("star:8", &cfg);
		assert_int_equal(r.lost, 0);
		assert_int_equal(r.bytes, 14 * cfg.size);
		cfg.pattern = FAB_PATTERN_ALL_REDUCE_RING;
	}
}

/* The same seed gives the same result. */
static void test_same(void **st)
{
	struct fab_traffic_cfg cfg = usual;
	struct fab_traffic_result a, b, other;

	(void)st;
	cfg.pattern = FAB_PATTERN_UNIFORM;
	cfg.load = 70;
	a = result("fat-tree:4,3", &cfg);
	b = result("fat-tree:4,3", &cfg);
	cfg.seed = 2;
	other = result("fat-tree:4,3", &cfg);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_not_equal(&a, &other, sizeof(a));
	assert_int_equal(other.lost, 0);
}

/* An ACK takes time on the way back and occupies the wire; a datagram is 8 bytes longer. */
static void test_transports(void **st)
{
	struct fab_traffic_result uc, other;
	struct fab_traffic_cfg cfg = usual;

	(void)st;
	cfg.size = 4096;
	cfg.messages = 1;
	uc = result("star:2", &cfg);
	cfg.transport = FAB_TRANSPORT_RC;
	other = result("star:2", &cfg);
	/* 30 bytes over two wires of 96.97 Gb/s */
	assert_in_range(other.max_ns - uc.max_ns, 4, 6);
	assert_int_equal(other.packets, 2);
	assert_int_equal(other.ns, other.max_ns);
	cfg.transport = FAB_TRANSPORT_UD;
	other = result("star:2", &cfg);
	assert_in_range(other.max_ns - uc.max_ns, 1, 2);
	cfg.messages = 1000;
	cfg.transport = FAB_TRANSPORT_UC;
	uc = result("star:2", &cfg);
	cfg.transport = FAB_TRANSPORT_RC;
	other = result("star:2", &cfg);
	/* each packet of 4,126 bytes shares the wire with an ACK of 30 bytes */
	assert_in_range(10000 * other.ns / uc.ns, 10000 + 300000 / 4126 - 5, 10000 + 300000 / 4126 + 5);
	assert_int_equal(other.lost, 0);
	assert_int_equal(other.bytes, uc.bytes);
	assert_int_equal(other.packets, uc.packets);
}

/*
 * What a star of two hosts lacks: the route to the second host, a lane, or a lane's arbitration
 * entry.
 */
enum lack { LACKS_WAY, LACKS_LANE, LACKS_TURNS };

/* Two hosts send by RC, the second one by SL 1; @pattern: both, or only the second one. */
static struct fab_traffic_result acked(enum fab_pattern pattern, enum lack lack)
{
	static const struct ib_vlarb_entry vl1[IB_VLARB_BLOCK] = { { 1, 1 } };
	struct fab *f = from_spec("star:2");
	const struct fab_node *host = &f->node[fab_find_node(f, "host1")];
	struct fab_port *to = &f->port[fab_port_of(&f->node[fab_find_node(f, "switch1")], 2)];
	struct fab_traffic_cfg cfg = usual;
	struct fab_traffic_result r;
	struct ib_sl2vl map;
	struct ib_vlarb arb;
	char why[128];

	assert_true(fab_routes_make(f, FAB_ROUTING_MINHOP));
	memcpy(&map, fab_pool_at(&f->sl2vl, f->port[fab_port_of(host, 1)].sl2vl), sizeof(map));
	memcpy(&arb, fab_pool_at(&f->vlarb, to->vlarb), sizeof(arb));
	map.vl[1] = IB_SL2VL_DROP;
	assert_int_equal(ib_vlarb_set_block(&arb, 1, vl1), 0);
	if (lack == LACKS_WAY)
		f->sw[0].lft[f->port[to->peer].pi.lid] = IB_LFT_NO_PORT;
	else if (lack == LACKS_LANE)
		f->port[fab_port_of(host, 1)].sl2vl = fab_pool_get(&f->sl2vl, &map);
	else
		to->vlarb = fab_pool_get(&f->vlarb, &arb);
	cfg.pattern = pattern;
	cfg.routing = FAB_ROUTING_LOADED;
	cfg.transport = FAB_TRANSPORT_RC;
	cfg.sl[1] = 1;
	cfg.sls = 2;
	/* nothing is discarded for its age */
	cfg.hoq_scale = 0;
	if (!fab_traffic_run(f, &cfg, &r, why, sizeof(why)))
		fail_msg("%s", why);
	fab_circle_end(&r.circle);
	fab_free(f);
	return r;
}

/* A message without an ACK is lost. An ACK uses the lane of its message, before other packets. */
static void test_acks(void **st)
{
	struct fab_traffic_result r = acked(FAB_PATTERN_INCAST, LACKS_WAY);

	(void)st;
	/* everything arrives at the first host */
	assert_int_equal(r.messages, 16);
	assert_int_equal(r.bytes, 16 * usual.size);
	assert_int_equal(r.lost, 16);
	assert_int_equal(r.max_ns, 0);
	/* the first host has no lane for SL 1 */
	r = acked(FAB_PATTERN_INCAST, LACKS_LANE);
	assert_int_equal(r.bytes, 16 * usual.size);
	assert_int_equal(r.lost, 16);
	/*
	 * its messages on VL 0 wait at the switch for ever, and it holds one of them: ACKs still
	 * leave
	 */
	r = acked(FAB_PATTERN_PERMUTATION, LACKS_TURNS);
	assert_int_equal(r.messages, 32);
	assert_int_equal(r.lost, 16);
}

static void expect_refused(const char *spec, const struct fab_traffic_cfg *cfg, const char *want)
{
	struct fab *f = from_spec(spec);
	struct fab_traffic_result r;
	char why[256];

	assert_false(fab_traffic_run(f, cfg, &r, why, sizeof(why)));
	assert_string_equal(why, want);
	fab_free(f);
}

static void test_refused(void **st)
{
	static const char many[] = "more than 16,777,216 messages";
	static const char late[] = "it may take more than 292 years by its clock: use a smaller --rate-scale or "
				   "--hoq-scale, or fewer bytes";
	struct fab_traffic_cfg cfg = usual;

	(void)st;
	cfg.rate_scale = 1000000;
	cfg.hoq_scale = 1000000;
	expect_refused("star:8", &cfg, late);
	cfg.hoq_scale = 1;
	cfg.size = 1 << 30;
	cfg.messages = 20000;
	expect_refused("star:8", &cfg, late);
	cfg = usual;
	cfg.transport = FAB_TRANSPORT_UD;
	expect_refused("star:8", &cfg, "a datagram must not be longer than the MTU: use a smaller --size");
	cfg = usual;
	expect_refused("star:1", &cfg, "there are no two hosts with LIDs at switches");
	cfg.messages = FAB_TRAFFIC_MESSAGES / 8 + 1;
	expect_refused("star:8", &cfg, many);
	cfg.pattern = FAB_PATTERN_ALL_REDUCE_HALVING;
	expect_refused("star:6", &cfg, "halving needs 2, 4, 8, ... hosts");
	cfg.pattern = FAB_PATTERN_ALL_REDUCE_RING;
	expect_refused("star:6", &cfg, many);
	cfg.messages = FAB_TRAFFIC_MESSAGES / 60 + 1;
	expect_refused("star:6", &cfg, many);
	cfg.size = 5;
	expect_refused("star:6", &cfg, "an all-reduce needs a byte or more for each host");
	cfg.load = 99;
	expect_refused("star:6", &cfg, "an all-reduce does not support --load");
}

/* The results of the lines of a script, in their order. */
struct played {
	unsigned int n;
	struct fab_script_entry entry[8];
};

static void take_played(void *arg, const struct fab_script_entry *e)
{
	struct played *p = arg;

	assert_true(p->n < IB_ARRAY_SIZE(p->entry));
	p->entry[p->n++] = *e;
}

/* @hoq_scale 0: nothing is discarded for its age */
static struct fab_traffic_result faulted(const char *text, unsigned int hoq_scale, struct played *p)
{
	const struct fab_traffic_script script = {
		.text = text, .len = strlen(text), .played = take_played, .arg = p,
	};
	struct fab_traffic_cfg cfg = usual;

	cfg.pattern = FAB_PATTERN_UNIFORM;
	cfg.messages = 50;
	cfg.script = &script;
	cfg.hoq_scale = hoq_scale;
	*p = (struct played){ 0 };
	return result("fat-tree:4", &cfg);
}

/* Faults use the same clock. Messages are lost while a cable is pulled, and none afterwards. */
static void test_faults(void **st)
{
	static const char cut[] = "at 50us link down leaf1:3\nat 90us expect leaf1:3 Down\n"
				  "when leaf1:3 Down for 1ms do link up leaf1:3\nat 95us expect leaf1:3 Active";
	static const char waits[] = "at 10ms expect links_active is 0\nwhen traps above 9 for 1ms do node kill spine1";
	struct played p, again;
	struct fab_traffic_result r, same;

	(void)st;
	r = faulted("at 0 expect links_active is 16", 1, &p);
	assert_int_equal(r.lost, 0);
	assert_int_equal(r.failed, 0);
	r = faulted(cut, 1, &p);
	assert_int_equal(p.n, 4);
	assert_int_equal(p.entry[0].ns, 50000);
	/* conditions are checked every 10 us */
	assert_int_equal(p.entry[1].ns, 50000);
	assert_int_equal(p.entry[1].line, 3);
	assert_in_range(r.lost, 1, r.messages / 2);
	/* the condition was true before the line expected it */
	assert_int_equal(r.failed, 1);
	assert_string_equal(p.entry[2].why, "it is Active, which was not expected");
	same = faulted(cut, 1, &again);
	assert_memory_equal(&r, &same, sizeof(r));
	assert_memory_equal(&p, &again, sizeof(p));
	/* the script continues after the traffic has ended */
	r = faulted(waits, 1, &p);
	assert_true(r.ns < 10000000);
	assert_int_equal(p.n, 2);
	assert_true(p.entry[0].skipped);
	assert_int_equal(p.entry[1].ns, 10000000);
	assert_int_equal(r.failed, 1);
	/* packets that wait for the end of a fault are not lost, however long it lasts */
	r = faulted("at 10us stall leaf1:3 30s", 0, &p);
	assert_int_equal(r.lost, 0);
	assert_in_range(r.ns, 30000000000, 30001000000);
	r = faulted("at 10us stall leaf1:3", 0, &p);
	assert_in_range(r.lost, 1, r.messages - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_routes), cmocka_unit_test(test_targets),
		cmocka_unit_test(test_time), cmocka_unit_test(test_rates_of_patterns),
		cmocka_unit_test(test_all_reduce), cmocka_unit_test(test_same), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_faults), cmocka_unit_test(test_transports), cmocka_unit_test(test_acks),
	};

	return cmocka_run_group_tests_name("patterns of traffic", tests, NULL, NULL);
}
