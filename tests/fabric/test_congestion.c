// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Congestion control: the effect of BECNs on a sender, and eight hosts that send to one while
 * another host, whose packets share a cable with some of theirs, sends to a free one.
 */
#include "cases.h"

#include <math.h>

#include "fabric/traffic/traffic_priv.h"
#include "ib/cc_agent.h"

/* ---- the sender ---------------------------------------------------------------- */

static void test_ccti(void **st)
{
	struct ib_cc_ca ca = {
		.sl[3] = { .ccti_timer = 10, .ccti_increase = 4, .ccti_min = 2 },
		.ccti_limit = 20,
	};
	struct ib_cc_flow fl = { 0 };

	(void)st;
	/* a BECN is CCTI_Increase, up to the CCTI_Limit */
	assert_int_equal(ib_cc_ccti(&ca, &fl, 3, 0, 1), 2);
	assert_int_equal(ib_cc_becn(&ca, &fl, 3, 0, 1), 6);
	for (unsigned int i = 0; i < 5; i++)
		ib_cc_becn(&ca, &fl, 3, 0, 1);
	assert_int_equal(ib_cc_ccti(&ca, &fl, 3, 0, 1), 20);
	/* one less each time that the timer of 10.24 us expires, whenever it is read */
	assert_int_equal(ib_cc_ccti(&ca, &fl, 3, 10239, 1), 20);
	assert_int_equal(ib_cc_ccti(&ca, &fl, 3, 10240, 1), 19);
	assert_int_equal(ib_cc_ccti(&ca, &fl, 3, 15000, 1), 19);
	assert_int_equal(ib_cc_ccti(&ca, &fl, 3, 20480, 1), 18);
	assert_int_equal(ib_cc_ccti(&ca, &fl, 3, 10 * 10240, 1), 10);
	/* with a thousandth of the rate it lasts a thousand times as long */
	assert_int_equal(ib_cc_ccti(&ca, &fl, 3, 9 * 10240000ull, 1000), 2);
	/* without a timer it stays, and without an increase a BECN has no effect */
	ca.sl[3] = (struct ib_cc_sl){ .ccti_increase = 9 };
	assert_int_equal(ib_cc_becn(&ca, &fl, 3, 1ull << 60, 1), 11);
	assert_int_equal(ib_cc_ccti(&ca, &fl, 3, 1ull << 61, 1), 11);
	ca.sl[3].ccti_increase = 0;
	assert_int_equal(ib_cc_becn(&ca, &fl, 3, 1ull << 61, 1), 11);
	/* a limit past the table counts as its end */
	ca.ccti_limit = UINT16_MAX;
	ca.sl[3].ccti_increase = 255;
	assert_int_equal(ib_cc_becn(&ca, &fl, 3, 1ull << 61, 1), IB_CCT_ENTRIES - 1);
}

/* The time of a packet, times the multiplier, divided by two to the power of the shift. */
static void test_delay(void **st)
{
	struct ib_cc_ca ca = { .cct[1] = IB_CCT_ENTRY(0, 3), .cct[2] = IB_CCT_ENTRY(2, 3),
			       .cct[IB_CCT_ENTRIES - 1] = IB_CCT_ENTRY(3, 0x3fff) };

	(void)st;
	assert_int_equal(ib_cc_delay_ns(&ca, 0, 330), 0);
	assert_int_equal(ib_cc_delay_ns(&ca, 1, 330), 990);
	assert_int_equal(ib_cc_delay_ns(&ca, 2, 400), 300);
	assert_int_equal(ib_cc_delay_ns(&ca, UINT16_MAX, 8), 0x3fff);
}

/* ---- an incast and a victim ---------------------------------------------------- */

#define LEAVES	4u

/* Two hosts at each of four leaves send to one at the core; so does a free one there. */
static struct fab *tree(void)
{
	static const char edr[] = "w=2 s=4 e=2", ndr[] = "w=2 s=4 e=8";
	struct errors e;
	struct fab *f;
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	fprintf(out, "Switch 8 \"core\"\n[1] \"hot\"[1] %s\n[2] \"free\"[1] %s\n", edr, edr);
	for (unsigned int i = 1; i <= LEAVES; i++)
		fprintf(out, "[%u] \"leaf%u\"[4] %s\n", 2 + i, i, ndr);
	for (unsigned int i = 1; i <= LEAVES; i++) {
		fprintf(out, "\nSwitch 4 \"leaf%u\"\n[4] \"core\"[%u] %s\n", i, 2 + i, ndr);
		for (unsigned int k = 1; k <= 2; k++)
			fprintf(out, "[%u] \"host%u%u\"[1] %s\n", k, i, k, edr);
		if (i == 1)
			fprintf(out, "[3] \"victim\"[1] %s\n", edr);
	}
	fprintf(out, "\nHca 1 \"hot\"\n[1] \"core\"[1] %s\n\nHca 1 \"free\"\n[1] \"core\"[2] %s\n", edr, edr);
	for (unsigned int i = 1; i <= LEAVES; i++)
		for (unsigned int k = 1; k <= 2; k++)
			fprintf(out, "\nHca 1 \"host%u%u\"\n[1] \"leaf%u\"[%u] %s\n", i, k, i, k, edr);
	fprintf(out, "\nHca 1 \"victim\"\n[1] \"leaf1\"[3] %s\n", edr);
	assert_int_equal(fclose(out), 0);
	f = from_text(text, len, &e);
	if (!f)
		fail_msg("%u: %s", e.line[0], e.text[0]);
	free(text);
	return f;
}

static struct fab_traffic_result watched(struct fab *f, enum fab_pattern pattern, uint32_t messages,
					 const struct fab_congestion_cfg *cc,
					 const struct fab_traffic_watcher *watcher)
{
	const struct fab_traffic_cfg cfg = {
		.pattern = pattern, .size = 65536, .messages = messages, .load = 100,
		.rate_scale = 1, .hoq_scale = 1, .seed = 1, .cc = cc, .watcher = watcher,
	};
	struct fab_traffic_result r;
	char why[128];

	if (!fab_traffic_run(f, &cfg, &r, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(r.lost, 0);
	fab_circle_end(&r.circle);
	fab_free(f);
	return r;
}

static struct fab_traffic_result result_of(struct fab *f, uint32_t messages,
					   const struct fab_congestion_cfg *cc)
{
	return watched(f, FAB_PATTERN_INCAST_VICTIM, messages, cc, NULL);
}

/* @r is of the data path, @without is not, and both are the same. */
static void expect_same(const struct fab_traffic_result *r, const struct fab_traffic_result *without)
{
	struct fab_traffic_result same = *without;

	assert_true(r->whole);
	assert_false(without->whole);
	same.whole = true;
	assert_memory_equal(r, &same, sizeof(same));
}

/* Return: the part of the rate of an EDR link with packets of 4,096 bytes. */
static double part(const struct fab_traffic_flow *flow)
{
	return (double)flow->bytes * 8 / (double)flow->ns / (100.0 * 4096 / 4122);
}

static struct fab_congestion_cfg usual(void)
{
	struct fab_congestion_cfg cc;

	fab_congestion_usual(&cc);
	return cc;
}

/* A flow that shares a cable with packets that wait gets no more than they do. */
static void test_without(void **st)
{
	const struct fab_traffic_result r = result_of(tree(), 64, NULL);

	(void)st;
	assert_true(part(&r.victim) < 0.35);
	assert_true(part(&r.hot) > 0.99);
	assert_int_equal(r.fecns, 0);
	assert_int_equal(r.becns, 0);
	assert_int_equal(r.ccti_max, 0);
}

static void test_with(void **st)
{
	const struct fab_congestion_cfg cc = usual();
	const struct fab_traffic_result r = result_of(tree(), 256, &cc), again = result_of(tree(), 256, &cc);

	(void)st;
	assert_true(part(&r.victim) >= 0.8);
	assert_true(part(&r.hot) > 0.9);
	assert_true(r.fecns > 0 && r.becns > 0 && r.becns <= r.fecns);
	assert_in_range(r.ccti_max, 1, IB_CCT_ENTRIES - 1);
	assert_int_equal(r.packets, 10 * 256 * 16);
	assert_memory_equal(&r, &again, sizeof(r));
}

/* The same in a tree of 18 hosts, 16 of which send to one. */
static void test_fat_tree(void **st)
{
	const struct fab_congestion_cfg cc = usual();
	const struct fab_traffic_result without = result_of(from_spec("fat-tree:6"), 32, NULL);
	const struct fab_traffic_result with = result_of(from_spec("fat-tree:6"), 256, &cc);

	(void)st;
	assert_true(part(&without.victim) < 0.35);
	assert_true(part(&with.victim) >= 0.8);
	assert_true(part(&with.hot) > 0.9);
}

/* OpenSM's defaults are all 0: nothing is marked. Nor are packets that are too short. */
static void test_nothing_set(void **st)
{
	const struct fab_congestion_cfg zero = { 0 };
	struct fab_congestion_cfg cc = usual();
	const struct fab_traffic_result without = result_of(tree(), 16, NULL);
	struct fab_traffic_result r = result_of(tree(), 16, &zero);

	(void)st;
	expect_same(&r, &without);
	/* 65 credits, of 64 bytes each, are 4,160 bytes */
	cc.sw.packet_size = 65;
	r = result_of(tree(), 16, &cc);
	expect_same(&r, &without);
	cc.sw.packet_size = 64;
	assert_true(result_of(tree(), 16, &cc).fecns > 0);
	/* marks without an effect */
	for (unsigned int i = 0; i < IB_CC_SLS; i++)
		cc.ca.sl[i].ccti_increase = 0;
	r = result_of(tree(), 16, &cc);
	assert_true(r.becns > 0);
	assert_int_equal(r.ccti_max, 0);
	assert_true(part(&r.victim) < 0.35);
}

/* Ports of the core that lead to hosts are roots; those of leaves wait for credits of the core. */
static void test_marks(void **st)
{
	struct fab_congestion_cfg cc = usual();
	uint64_t all, few, victims;

	(void)st;
	/* no sender slows down, so the same packets may be marked */
	for (unsigned int i = 0; i < IB_CC_SLS; i++)
		cc.ca.sl[i].ccti_increase = 0;
	all = result_of(tree(), 16, &cc).fecns;
	cc.sw.marking_rate = 9;
	few = result_of(tree(), 16, &cc).fecns;
	assert_in_range(few, all / 10 - all / 30, all / 10 + all / 30);
	cc.sw.marking_rate = 0;
	cc.sw.threshold = 1;
	assert_true(result_of(tree(), 16, &cc).fecns < all);
	cc.sw.threshold = usual().sw.threshold;
	/* leaves reach the core by port 4 */
	cc.sw.victim_mask[IB_CC_PORT_MASK - 1] = 1u << 4;
	victims = result_of(tree(), 16, &cc).fecns;
	assert_true(victims > all + all / 2);
}

/* ---- senders in a row ----------------------------------------------------------- */

#define ROW	4u	/* switches with a sender each; the last one has the target host */

static struct fab *row_of_switches(void)
{
	static const char edr[] = "w=2 s=4 e=2";
	struct errors e;
	struct fab *f;
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	for (unsigned int i = 1; i <= ROW; i++) {
		fprintf(out, "Switch 4 \"switch%u\"\n[3] \"sender%u\"[1] %s\n", i, i, edr);
		if (i < ROW)
			fprintf(out, "[2] \"switch%u\"[1] %s\n", i + 1, edr);
		if (i > 1)
			fprintf(out, "[1] \"switch%u\"[2] %s\n", i - 1, edr);
		if (i == ROW)
			fprintf(out, "[4] \"hot\"[1] %s\n", edr);
		fputc('\n', out);
	}
	fprintf(out, "Hca 1 \"hot\"\n[1] \"switch%u\"[4] %s\n", ROW, edr);
	for (unsigned int i = 1; i <= ROW; i++)
		fprintf(out, "\nHca 1 \"sender%u\"\n[1] \"switch%u\"[3] %s\n", i, i, edr);
	assert_int_equal(fclose(out), 0);
	f = from_text(text, len, &e);
	if (!f)
		fail_msg("%u: %s", e.line[0], e.text[0]);
	free(text);
	return f;
}

/* Results that a watcher got: of the senders, by their distance, and of intervals. */
struct told {
	double part[ROW];
	unsigned int rows;
	uint64_t bytes, at_ns;
};

static void tell_flows(void *arg, const struct fab_traffic_sender *s, uint32_t n, uint64_t ns)
{
	struct told *told = arg;

	assert_int_equal(n, ROW + 1);
	assert_int_equal(s[0].bytes, 0);
	for (unsigned int i = 0; i < ROW; i++) {
		const struct fab_traffic_flow flow = { s[1 + i].bytes, ns };

		told->part[i] = part(&flow);
	}
}

static void tell_series(void *arg, const struct fab_traffic_sender *s, uint32_t n, uint64_t at_ns)
{
	struct told *told = arg;

	assert_int_equal(n, ROW + 1);
	for (uint32_t i = 0; i < n; i++)
		told->bytes += s[i].bytes;
	told->at_ns = at_ns;
	told->rows++;
}

static struct told told_of(uint32_t messages, const struct fab_congestion_cfg *cc, uint64_t interval_ns)
{
	struct told told = { 0 };
	const struct fab_traffic_watcher watcher = {
		.interval_ns = interval_ns, .series = tell_series, .flows = tell_flows, .arg = &told,
	};
	const struct fab_traffic_result r = watched(row_of_switches(), FAB_PATTERN_INCAST, messages, cc,
						    &watcher);

	assert_int_equal(told.bytes, interval_ns ? r.bytes : 0);
	if (interval_ns)
		assert_in_range(told.at_ns, r.ns - 1, r.ns + interval_ns);
	assert_int_equal(told.rows, interval_ns ? told.at_ns / interval_ns : 0);
	return told;
}

/*
 * Each switch gives each of its inputs half of the wire, so a sender gets half of what the next one
 * gets. With congestion control each gets the same, within 15 percent.
 */
static void test_row(void **st)
{
	struct fab_congestion_cfg cc = usual();
	struct told told = told_of(64, NULL, 0);

	(void)st;
	for (unsigned int i = 0; i < ROW; i++)
		assert_true(fabs(told.part[i] * (1u << (i ? ROW - i : ROW - 1)) - 1) < 0.01);
	cc.sw.marking_rate = 1;
	for (unsigned int i = 0; i < IB_CC_SLS; i++)
		cc.ca.sl[i].ccti_timer = 3;
	told = told_of(256, &cc, 0);
	for (unsigned int i = 0; i < ROW; i++)
		assert_true(fabs(told.part[i] * ROW - 1) < 0.15);
}

/* The intervals contain all bytes, and the last one is cut. */
static void test_series(void **st)
{
	(void)st;
	assert_true(told_of(8, NULL, 1000).rows > 100);
	assert_int_equal(told_of(8, NULL, 1000000000).rows, 1);
}

/* A receiver whose messages end with a marked packet sends every notification. */
static void test_notified(void **st)
{
	struct fab_congestion_cfg cc = usual();
	struct fab_traffic_result r;

	(void)st;
	for (unsigned int i = 0; i < IB_CC_SLS; i++)
		cc.ca.sl[i].ccti_increase = 0;
	r = result_of(tree(), 64, &cc);
	/* for packets that are marked; one may cover two */
	assert_in_range(r.becns, r.fecns / 2, r.fecns);
}

/* ---- by MADs ------------------------------------------------------------------- */

static bool no_manager(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

/* Sends a MAD to the core. Return: the status of its answer. */
static uint16_t status_of(struct fab *f, struct ib_mad *mad)
{
	static struct fab_mgmt m;

	fab_mgmt_init(&m, f, no_manager, NULL);
	assert_true(fab_answer_cc(&m, fab_port_of(&f->node[0], 3), mad));
	return ib_be16(mad->hdr.status);
}

/* Sends one MAD to the core. Return: its data. */
static uint8_t *to_core(struct fab *f, struct ib_mad *mad, uint8_t method, uint16_t attr)
{
	mad->hdr = (struct ib_mad_hdr){
		.base_version = 1, .mgmt_class = IB_CLASS_CC, .class_version = IB_CC_CLASS_VERSION,
		.method = method, .attr_id = ib_to_be16(attr),
	};
	assert_int_equal(status_of(f, mad), IB_MAD_OK);
	return (uint8_t *)mad;
}

/*
 * Checks counters of the port to the hot host, in microseconds; they are 0 unless it is @congested.
 */
static void expect_counters(struct fab *f, uint16_t attr, bool congested, uint64_t ns)
{
	static struct fab_mgmt m;
	struct ib_mad mad = { .hdr = {
		.base_version = 1, .mgmt_class = IB_CLASS_PERF, .class_version = 1, .method = IB_METHOD_GET,
		.attr_id = ib_to_be16(attr),
	} };
	const uint8_t *d = (const uint8_t *)&mad + IB_PMA_DATA_OFF;

	fab_mgmt_init(&m, f, no_manager, NULL);
	((uint8_t *)&mad)[IB_PMA_DATA_OFF + 1] = 1;
	assert_true(fab_pma(&m, 0, &mad));
	if (attr != IB_PMA_ATTR_SW_VL_CONGESTION && attr != IB_PMA_ATTR_XMIT_CON_CTRL &&
	    attr != IB_PMA_ATTR_VL_XMIT_TIME_CONG) {
		assert_int_equal(ib_be16(mad.hdr.status), IB_MAD_BAD_METHOD_ATTR);
		return;
	}
	assert_int_equal(ib_be16(mad.hdr.status), IB_MAD_OK);
	if (!congested)
		assert_int_equal(ib_get_be32(d + 4), 0);
	else if (attr == IB_PMA_ATTR_SW_VL_CONGESTION)
		assert_in_range(ib_get_be16(d + 4), 1, 1000);
	else
		assert_in_range(ib_get_be32(d + 4), ns / 2000, ns / 1000);
	/* of VL 1 */
	if (attr != IB_PMA_ATTR_XMIT_CON_CTRL)
		assert_int_equal(ib_get_be32(d + (attr == IB_PMA_ATTR_SW_VL_CONGESTION ? 6 : 8)), 0);
	/* a host has none of them */
	mad.hdr.method = IB_METHOD_GET;
	assert_true(fab_pma(&m, f->nodes - 1, &mad));
	assert_int_equal(ib_be16(mad.hdr.status), IB_MAD_BAD_METHOD_ATTR);
}

/* A manager's settings of a switch take effect even if its hosts have no congestion control. */
static void test_set_by_mad(void **st)
{
	uint8_t *b;

	(void)st;
	/* of the switch alone; ports without a threshold; the port of the hot host alone */
	for (unsigned int own = 0; own < 3; own++) {
		const bool marks = own != 1;
		struct ib_mad mad = { 0 };
		struct fab *f = tree();
		uint8_t *d = (uint8_t *)&mad + IB_CC_DATA_OFF;
		struct fab_traffic_cfg cfg = {
			.pattern = FAB_PATTERN_INCAST_VICTIM, .size = 65536, .messages = 16, .load = 100,
			.rate_scale = 1, .hoq_scale = 1, .seed = 1,
		};
		struct fab_traffic_result r;
		char why[128];

		ib_put_be32(d, IB_CC_SW_THRESHOLD);
		d[68] = 12 << 4;
		if (own < 2)
			to_core(f, &mad, IB_METHOD_SET, IB_CC_ATTR_SWITCH_SETTING);
		memset(d, 0, IB_CC_DATA_LEN);
		/* ports of the hot host and the free one: valid, with a threshold or without */
		d[4] = own == 2 ? 0x80 | 12 : 0x80;
		d[8] = 0x80;
		if (own)
			to_core(f, &mad, IB_METHOD_SET, IB_CC_ATTR_SWITCH_PORT_SETTING);
		assert_true(fab_traffic_run(f, &cfg, &r, why, sizeof(why)));
		assert_int_equal(r.lost, 0);
		assert_int_equal(r.fecns > 0, marks);
		assert_int_equal(r.ccti_max, 0);
		b = to_core(f, &mad, IB_METHOD_GET, IB_CC_ATTR_LOG) + IB_CC_LOG_OFF;
		assert_int_equal(ib_get_be16(b + 2) > 0, marks);
		assert_int_equal(b[8 + 31] >> 1 & 1, marks);
		/* to one of them, whose LIDs are the first */
		assert_in_range(ib_get_be16(b + 40 + 2), marks, marks ? 2 : 0);
		/* the hot port is congested most of the time */
		for (uint16_t attr = IB_PMA_ATTR_SW_VL_CONGESTION; attr <= IB_PMA_ATTR_VL_XMIT_TIME_CONG;
		     attr++)
			expect_counters(f, attr, marks, r.ns);
		/* a switch that was off has lost them */
		assert_true(fab_reset_node(f, 0));
		b = to_core(f, &mad, IB_METHOD_GET, IB_CC_ATTR_SWITCH_SETTING) + IB_CC_DATA_OFF;
		assert_int_equal(b[68], 0);
		fab_circle_end(&r.circle);
		fab_free(f);
	}
}

/* An invalid Set, and a Get, need no memory; nor do the agents of other nodes after a valid one. */
static void test_memory(void **st)
{
	struct ib_mad mad = { 0 };
	struct fab *f = tree();
	size_t one;

	(void)st;
	to_core(f, &mad, IB_METHOD_GET, IB_CC_ATTR_SWITCH_PORT_SETTING);
	mad.hdr.method = IB_METHOD_SET;
	mad.hdr.attr_mod = ib_to_be32(1);
	assert_int_equal(fab_cc_bytes(f), 0);
	assert_int_equal(status_of(f, &mad), IB_MAD_BAD_FIELD);
	assert_int_equal(fab_cc_bytes(f), 0);
	to_core(f, &mad, IB_METHOD_SET, IB_CC_ATTR_SWITCH_PORT_SETTING);
	one = fab_cc_bytes(f);
	assert_in_range(one, sizeof(struct ib_cc), f->ports * sizeof(void *) + 2 * sizeof(struct ib_cc));
	to_core(f, &mad, IB_METHOD_SET, IB_CC_ATTR_SWITCH_SETTING);
	assert_int_equal(fab_cc_bytes(f), one);
	fab_free(f);
}

/* ---- settings ------------------------------------------------------------------ */

static void test_parse(void **st)
{
	struct fab_congestion_cfg cc = usual();
	char why[200];

	(void)st;
	assert_true(fab_congestion_parse(&cc, "", why, sizeof(why)));
	assert_true(fab_congestion_parse(&cc, "threshold=0xf,packet_size=3,marking_rate=7,ccti_timer=150,"
					 "ccti_increase=2,ccti_min=1,ccti_limit=99,cct_shift=1", why,
					 sizeof(why)));
	assert_int_equal(cc.sw.threshold, 15);
	assert_int_equal(cc.sw.packet_size, 3);
	assert_int_equal(cc.sw.marking_rate, 7);
	assert_int_equal(cc.ca.sl[15].ccti_timer, 150);
	assert_int_equal(cc.ca.sl[0].ccti_increase, 2);
	assert_int_equal(cc.ca.sl[0].ccti_min, 1);
	assert_int_equal(cc.ca.ccti_limit, 99);
	assert_int_equal(cc.ca.cct[5], IB_CCT_ENTRY(1, 5));
	assert_false(fab_congestion_parse(&cc, "thresh=1", why, sizeof(why)));
	assert_non_null(strstr(why, "'thresh' is none of threshold, packet_size"));
	for (const char *const *bad = (const char *const []){ "threshold=16", "threshold=", "threshold",
			"threshold=-1", "threshold=3x", "threshold=99999999999999999999", NULL }; *bad; bad++) {
		assert_false(fab_congestion_parse(&cc, *bad, why, sizeof(why)));
		assert_string_equal(why, "threshold is a number from 0 to 15");
	}
	assert_int_equal(cc.sw.threshold, 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ccti), cmocka_unit_test(test_delay), cmocka_unit_test(test_without),
		cmocka_unit_test(test_with), cmocka_unit_test(test_fat_tree),
		cmocka_unit_test(test_nothing_set), cmocka_unit_test(test_marks), cmocka_unit_test(test_row),
		cmocka_unit_test(test_series), cmocka_unit_test(test_notified),
		cmocka_unit_test(test_set_by_mad), cmocka_unit_test(test_memory), cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests_name("congestion control", tests, NULL, NULL);
}
