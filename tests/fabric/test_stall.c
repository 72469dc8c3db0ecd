// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ports that stop accepting packets, and lost credits: which packets wait, where, and for how long.
 */
#include "paced.h"

#include <math.h>

#define MS	1000000u
#define LEN	4092u		/* 64 blocks */
#define BYTE_NS	80		/* EDR 4x, 1000 times slower */

static uint32_t way[4];		/* output ports from host 1 to host 7 */

static void expect_near(double got_value, double want, double per_mille)
{
	if (fabs(got_value - want) > want * per_mille / 1000)
		fail_msg("%g is not %g", got_value, want);
}

/* Host 1 sends to host 7 through leaf, spine and leaf; no packet is discarded for its age. */
static int begin_way(void **st)
{
	uint32_t at;

	(void)st;
	begin_paced("fat-tree:4", 1000);
	sim_place(0, 1);
	sim_place(1, 7);
	at = port_of_host(1);
	for (unsigned int n = 0; n < 3; n++) {
		const struct fab_node *sw = &f->node[f->port[at].node];

		way[n] = fab_port_of(sw, fab_route(f, sw, LID(7)));
		at = f->port[way[n]].peer;
		f->port[way[n]].pi.hoq_life = 20;
		f->sw[sw->sw].si.life_time = 20;
	}
	m.epoch++;
	assert_int_equal(f->port[at].node, 7);
	add_flow(0, 7, 0, LEN, UINT32_MAX);
	run_until(now + 100 * MS);
	return 0;
}

static int end_way(void **st)
{
	(void)st;
	end_paced();
	return 0;
}

/* Time in us for which output @n of the route has waited since the last call. */
static uint64_t waited(unsigned int n)
{
	static uint64_t before[3];
	const uint64_t all = counters_of(way[n])->xmit_wait, since = all - before[n];

	before[n] = all;
	return since;
}

static void all_waited(uint64_t *us)
{
	for (unsigned int n = 0; n < 3; n++)
		us[n] = waited(n);
}

/* The buffers before a host that accepts nothing fill one after another; then nobody sends. */
static void test_spreads(void **st)
{
	const uint32_t end = fab_port_of(&f->node[7], 1);
	/* time in which a wire fills a buffer of 32 such packets */
	const uint64_t fills = 32 * (uint64_t)(LEN + 2) * BYTE_NS;
	uint64_t us[3], ns;

	(void)st;
	all_waited(us);
	assert_true(fab_fault_port_stall(&m, end, now + 100 * MS));
	ns = now + 100 * MS;
	count_anew();
	run_until(now + fills * 9 / 10);
	/* packets in flight arrive */
	assert_in_range(sim[1].packets, 0, 1);
	all_waited(us);
	assert_in_range(us[2], fills * 8 / 10 / 1000, fills * 9 / 10 / 1000);
	assert_int_equal(us[1] + us[0], 0);
	run_until(now + fills);
	all_waited(us);
	assert_in_range(us[2], fills / 1000 - 1, fills / 1000 + 1);
	assert_in_range(us[1], fills * 8 / 10 / 1000, fills * 95 / 100 / 1000);
	assert_int_equal(us[0], 0);
	run_until(now + 3 * fills);
	all_waited(us);
	assert_in_range(us[0], 28 * fills / 10 / 1000, 3 * fills / 1000);
	/* the sending host has no credits either */
	assert_null(fab_hport_begin(sim[0].h, 0, LEN));
	assert_in_range(sim[1].packets, 0, 1);
	/* the stall ends exact to the ns; no packet is lost */
	run_until(ns);
	all_waited(us);
	count_anew();
	run_until(ns + 100 * MS);
	assert_in_range(sim[1].packets, 304, 305);
	assert_int_equal(waited(2), 0);
	for (unsigned int i = 0; i < FAB_DROPS; i++)
		assert_true(d->n.drop[i] == 0);
}

/* A stall ends by resume, at its latest end time, or when the host is switched off. */
static void test_resume(void **st)
{
	const uint32_t end = fab_port_of(&f->node[7], 1);

	(void)st;
	assert_true(fab_fault_port_stall(&m, end, UINT64_MAX));
	run_until(now + 10 * MS);
	count_anew();
	run_until(now + 1000 * (uint64_t)MS);
	assert_int_equal(sim[1].packets, 0);
	fab_fault_port_resume(&m, end);
	/* at once */
	assert_true(fab_data_timer(d) == 0);
	run_until(now + 10 * MS);
	assert_in_range(sim[1].packets, 28, 31);
	assert_true(fab_fault_port_stall(&m, end, now + 5 * MS));
	assert_true(fab_fault_port_stall(&m, end, now + 50 * MS));
	run_until(now + 10 * MS);
	count_anew();
	run_until(now + 39 * MS);
	assert_int_equal(sim[1].packets, 0);
	run_until(now + 11 * MS);
	assert_in_range(sim[1].packets, 28, 31);
	/* a stall of a switch's port; no packet in flight is lost */
	assert_true(fab_fault_port_stall(&m, f->port[way[1]].peer, now + 500 * MS));
	run_until(now + 400 * MS);
	count_anew();
	run_until(now + 90 * MS);
	assert_int_equal(sim[1].packets, 0);
	run_until(now + 100 * MS);
	assert_in_range(sim[1].packets, 270, 310);
	assert_true(d->n.drop[FAB_DROP_LOSS] == 0);
	assert_true(fab_fault_port_stall(&m, end, UINT64_MAX));
	assert_true(fab_extra_of(f, way[2])->fault->stalls);
	assert_true(fab_fault_node(&m, 7, false, now));
	assert_false(fab_extra_of(f, way[2])->fault->stalls);
}

/* HOQLife discards packets for the stalled port, and others continue. */
static void test_discards(void **st)
{
	const uint32_t end = fab_port_of(&f->node[7], 1);

	(void)st;
	/* 4 ms, 1000 times longer */
	f->port[way[2]].pi.hoq_life = 0;
	f->port[way[2]].pi.vl_stall_count = 3;
	fab_changed(&m, way[2]);
	assert_true(fab_fault_port_stall(&m, end, UINT64_MAX));
	run_until(now + 200 * MS);
	assert_true(counters_of(way[2])->xmit_hoq_discards > 20);
	assert_true(counters_of(way[2])->xmit_discards == d->n.drop[FAB_DROP_HOQ]);
	assert_int_equal(counters_of(way[1])->xmit_discards, 0);
	fab_fault_port_resume(&m, end);
	run_until(now + 100 * MS);
	count_anew();
	run_until(now + 100 * MS);
	assert_in_range(sim[1].packets, 300, 306);
}

/*
 * A lane with few credits over a long cable. The credits limit the packets in flight, so the rate
 * is that number of packets in the time of a packet plus that of the cable.
 */
static void test_credits(void **st)
{
	static const uint16_t gone[] = { 0, 1024, 1600, 1984, 2047 - 64, 2048 - 65 };
	const double packet = (LEN + 2) * (double)BYTE_NS, delay = 4 * MS;
	const uint64_t ns = 4000 * (uint64_t)MS;

	(void)st;
	assert_true(fab_fault_delay(&m, way[0], (uint64_t)delay));
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(gone); i++) {
		const unsigned int packets = (2048u - gone[i]) / 64;
		const double most = ns / packet, may = packets * ns / (packet + delay);

		assert_true(fab_fault_credits(&m, way[0], 0, gone[i]));
		run_until(now + 200 * MS);
		count_anew();
		waited(0);
		run_until(now + ns);
		expect_near((double)sim[1].packets, may < most ? may : most, 10);
		/* while the lane has no credits the port waits */
		if (may < most)
			expect_near((double)waited(0), (1 - may / most) * ns / 1000, 10);
		else
			assert_int_equal(waited(0), 0);
	}
	/* another lane has its own credits */
	assert_true(fab_fault_credits(&m, way[0], 0, 0));
	assert_true(fab_fault_credits(&m, way[0], 3, 2048));
	run_until(now + 200 * MS);
	count_anew();
	run_until(now + ns);
	expect_near((double)sim[1].packets, ns / packet, 10);
	assert_int_equal(fab_dport(d, f->port[way[0]].peer)->lane[3].used, 2048);
}

/* A lane without credits stands still until HOQLife; training the link restores the credits. */
static void test_no_credits(void **st)
{
	struct way *w;

	(void)st;
	assert_true(fab_fault_credits(&m, way[0], 0, 2048));
	run_until(now + 20 * MS);
	count_anew();
	waited(0);
	run_until(now + 1000 * (uint64_t)MS);
	assert_int_equal(sim[1].packets, 0);
	assert_in_range(waited(0), 999999, 1000001);
	f->port[way[0]].pi.hoq_life = 0;
	fab_changed(&m, way[0]);
	run_until(now + 100 * MS);
	assert_true(counters_of(way[0])->xmit_hoq_discards > 10);
	assert_int_equal(sim[1].packets, 0);
	assert_true(fab_fault_link(&m, way[0], false, now));
	run_until(now + 10 * MS);
	assert_true(fab_fault_link(&m, way[0], true, now));
	w = calloc(f->nodes, sizeof(*w));
	assert_non_null(w);
	ways(HOST, w);
	for (uint8_t state = IB_PS_ARMED; state <= IB_PS_ACTIVE; state++) {
		const uint32_t q = f->port[way[0]].peer;

		set_state(w[f->port[way[0]].node].route, fab_port_num(f, way[0]), state, IB_PHYS_NO_CHANGE);
		set_state(w[f->port[q].node].route, fab_port_num(f, q), state, IB_PHYS_NO_CHANGE);
	}
	free(w);
	run_until(now + 100 * MS);
	count_anew();
	run_until(now + 100 * MS);
	assert_in_range(sim[1].packets, 300, 306);
	assert_int_equal(counters_of(way[0])->link_downed, 1);
	assert_false(fab_extra_of(f, way[0])->fault->leaks);
	assert_true(fab_fault_credits(&m, way[0], 3, 1));
	run_until(now + 1);
	assert_int_equal(fab_dport(d, f->port[way[0]].peer)->lane[3].gone, 1);
	assert_int_equal(fab_dport(d, f->port[way[0]].peer)->lane[0].gone, 0);
}

/* The same with wires without rates, where the data path forwards whole flows at once. */
static void test_flows(void **st)
{
	uint8_t *b;

	(void)st;
	begin_paced("star:4", 0);
	sim_place(0, 1);
	sim_place(1, 2);
	add_flow(0, 2, 0, 64, 1);
	run_until(now);
	assert_int_equal(sim[1].packets, 1);
	b = fab_hport_begin(sim[0].h, 0, 64);
	assert_non_null(b);
	assert_true(fab_hport_series(sim[0].h, 0, 64, 1));
	assert_true(fab_fault_port_stall(&m, fab_port_of(&f->node[2], 1), UINT64_MAX));
	fab_data_refresh(d);
	assert_false(fab_hport_series(sim[0].h, 0, 64, 1));
	sim[0].flow[0].left = 3;
	run_until(now + 1);
	assert_int_equal(sim[1].packets, 1);
	fab_fault_port_resume(&m, fab_port_of(&f->node[2], 1));
	run_until(now + 1);
	assert_int_equal(sim[1].packets, 4);
	assert_non_null(fab_hport_begin(sim[0].h, 0, 64));
	assert_true(fab_hport_series(sim[0].h, 0, 64, 1));
	assert_true(fab_fault_errors(&m, port_of_host(2), 1000, 1));
	fab_data_refresh(d);
	assert_false(fab_hport_series(sim[0].h, 0, 64, 1));
	end_paced();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, begin_way, end_way)
		T(test_spreads), T(test_resume), T(test_discards), T(test_credits), T(test_no_credits),
#undef T
		cmocka_unit_test(test_flows),
	};

	return cmocka_run_group_tests_name("stalls", tests, NULL, NULL);
}
