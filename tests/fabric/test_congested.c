// SPDX-License-Identifier: GPL-2.0-or-later
/* PortXmitTimeCong: when the congestion of a lane of a switch's output begins and ends. */
#include "paced.h"

#include "ib/cc_agent.h"

#define SWITCH	5u	/* of star:5, whose first host is the manager */
#define US	1000u
#define MS	1000000u
#define LEN	4120u	/* needs 330 ns */

/* Sets the threshold of the switch, and whether @victims are marked, at all ports. */
static void set_threshold(uint8_t threshold, bool victims)
{
	struct ib_mad mad = { .hdr = {
		.base_version = 1, .mgmt_class = IB_CLASS_CC, .class_version = IB_CC_CLASS_VERSION,
		.method = IB_METHOD_SET, .attr_id = ib_to_be16(IB_CC_ATTR_SWITCH_SETTING),
	} };
	uint8_t *data = (uint8_t *)&mad + IB_CC_DATA_OFF;

	ib_put_be32(data, IB_CC_SW_THRESHOLD | IB_CC_SW_VICTIM_MASK);
	memset(data + 4, victims ? 0xff : 0, IB_CC_PORT_MASK);
	data[68] = (uint8_t)(threshold << 4);
	assert_true(fab_answer_cc(&m, fab_port_of(&f->node[SWITCH], 0), &mad));
	assert_int_equal(ib_be16(mad.hdr.status), IB_MAD_OK);
}

/* Three hosts send @packets each to the first one. Return: the port that leads to it. */
static uint32_t incast(uint8_t threshold, uint32_t packets)
{
	begin_paced("star:5", 1);
	set_threshold(threshold, true);
	for (unsigned int i = 0; i < 4; i++) {
		sim_place(i, i + 1);
		if (i)
			add_flow(i, 1, 0, LEN, packets);
	}
	return port_of_host(1);
}

/* Checks that PortXmitTimeCong and that of the lane are in this range of ticks. */
static void expect_ticks(uint32_t out, uint64_t least, uint64_t most)
{
	assert_in_range(counters_of(out)->xmit_time_cong, least, most);
	assert_in_range(counters_of(out)->xmit_time_cong_vl[0], least, most);
	assert_int_equal(counters_of(out)->xmit_time_cong_vl[1], 0);
}

/* It is congested as long as all send, except at the begin and at the end. */
static void test_sent(void **st)
{
	const uint32_t out = incast(12, 400);

	(void)st;
	run_until(now + 10 * MS);
	assert_int_equal(sim[0].packets, 1200);
	/* 396 us in all, of which the end is 7 buffers of 4 KiB */
	expect_ticks(out, 385, 396);
	assert_in_range(counters_of(out)->vl_congestion[0], 1, 3);
	end_paced();
}

/* Times of less than a tick add up. */
static void test_short(void **st)
{
	const uint32_t out = incast(15, 0);

	(void)st;
	/* the first of six packets is marked, and after the fourth one less than two wait */
	for (unsigned int i = 0; i < 1000; i++) {
		for (unsigned int k = 1; k < 4; k++)
			sim[k].flow[0].left = 2;
		run_until(now + 10 * US);
	}
	assert_int_equal(sim[0].packets, 6000);
	assert_int_equal(counters_of(out)->vl_congestion[0], 1000);
	expect_ticks(out, 4 * 329, 4 * 331);
	end_paced();
}

/* Packets that wait are discarded after HOQLife, without another packet or request. */
static void test_hoq(void **st)
{
	const uint32_t out = incast(12, 100);

	(void)st;
	/* 131 us; the switch checks such packets now and then */
	f->port[out].pi.hoq_life = 5;
	fab_changed(&m, out);
	run_until(now + 50 * US);
	sim[0].stalled = true;
	run_until(now + 1000 * MS);
	assert_in_range(sim[0].packets, 100, 200);
	expect_ticks(out, 40, 100 * MS / US);
	/* one has arrived at the host, and waits there */
	assert_int_equal(counters_of(out)->xmit_discards + sim[0].packets, 299);
	end_paced();
}

/* The link goes down, and its packets are discarded. */
static void test_link_down(void **st)
{
	const uint32_t out = incast(12, 200);

	(void)st;
	run_until(now + 100 * US);
	fab_hport_train(sim[0].h, false);
	run_until(now + 100 * MS);
	assert_in_range(sim[0].packets, 1, 599);
	expect_ticks(out, 90, 101);
	end_paced();
}

/* A manager clears the threshold: nothing is congested, though the hosts send as before. */
static void test_threshold_0(void **st)
{
	const uint32_t out = incast(12, UINT32_MAX);

	(void)st;
	run_until(now + 100 * US);
	set_threshold(0, true);
	run_until(now + 1 * MS);
	expect_ticks(out, 90, 101);
	/* and sets it again */
	set_threshold(12, true);
	run_until(now + 100 * US);
	expect_ticks(out, 190, 201);
	end_paced();
}

/*
 * A switch that was off has counters of 0, and no threshold; with a new one it counts from then on.
 */
static void test_killed(void **st)
{
	const uint32_t out = incast(12, 200);

	(void)st;
	run_until(now + 100 * US);
	assert_true(fab_fault_node(&m, SWITCH, false, now));
	assert_true(fab_fault_node(&m, SWITCH, true, now));
	expect_ticks(out, 0, 0);
	run_until(now + 100 * MS);
	expect_ticks(out, 0, 0);
	set_threshold(12, true);
	run_until(now + 100 * MS);
	expect_ticks(out, 0, 0);
	end_paced();
}

/* A wait for credits while nothing was marked does not make a packet a victim later. */
static void test_starved_before(void **st)
{
	(void)st;
	incast(12, UINT32_MAX);
	set_threshold(0, false);
	sim[0].stalled = true;
	run_until(now + 20 * US);
	set_threshold(12, false);
	sim[0].stalled = false;
	run_until(now + 1 * MS);
	assert_in_range(d->n.fecns, 1000, 3000);
	end_paced();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sent), cmocka_unit_test(test_short), cmocka_unit_test(test_hoq),
		cmocka_unit_test(test_link_down), cmocka_unit_test(test_threshold_0),
		cmocka_unit_test(test_killed), cmocka_unit_test(test_starved_before),
	};

	return cmocka_run_group_tests_name("congested lanes", tests, NULL, NULL);
}
