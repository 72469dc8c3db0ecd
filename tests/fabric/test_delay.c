// SPDX-License-Identifier: GPL-2.0-or-later
/* Wires with a delay: packets and MADs in order, at their time, with their credits. */
#include "faults.h"

#include "fabric/data/wait.h"

/* Buffers that were not needed for a minute are freed, those in use are not. */
static void test_trim(void **st)
{
	(void)st;
	assert_true(fab_fault_delay(&m, inner(), 5000000));
	for (unsigned int i = 0; i < 20; i++)
		assert_true(send_data(0, 0, LID(7), 1024, (uint8_t)i));
	later(1000);
	assert_int_equal(d->made[3], 20);
	later(5000000);
	assert_int_equal(count_data(1, 0), 20);
	/* the minute in which they were needed, and one without */
	later(60000000000ull);
	assert_int_equal(d->made[3], 20);
	assert_int_equal(fab_data_timer(d), 60000000000ull);
	assert_true(send_data(0, 0, LID(7), 1024, 1));
	later(1000);
	later(60000000000ull);
	assert_int_equal(d->made[3], 1);
	later(60000000000ull);
	assert_int_equal(d->made[3], 0);
	assert_int_equal(d->n.buffer_bytes, 0);
	count_data(1, 0);
}

/* One direction of a wire has a delay of 5 ms: packets arrive after it, and in order. */
static void test_delay(void **st)
{
	const uint32_t p = inner(), q = f->port[p].peer;
	const uint64_t before = counters(q)->rcv_pkts;

	(void)st;
	assert_true(fab_fault_delay(&m, p, 5000000));
	for (unsigned int i = 0; i < 10; i++) {
		assert_true(send_data(0, 0, LID(7), 64 + 4 * i, (uint8_t)i));
		later(100000);
	}
	assert_int_equal(count_data(1, 0), 0);
	assert_int_equal(counters(q)->rcv_pkts, before);
	assert_int_equal(d->flying, 10);
	/* the first left 0.9 ms ago */
	assert_int_equal(fab_data_timer(d), 4100000);
	/* the way back is not delayed */
	assert_true(send_data(1, 0, LID(1), 64, 7));
	pump(NULL);
	expect_data(0, 0, 64, 7);
	later(4100000);
	expect_data(1, 0, 64, 0);
	assert_int_equal(count_data(1, 0), 0);
	later(400000);
	for (unsigned int i = 1; i < 5; i++)
		expect_data(1, 0, 64 + 4 * i, (uint8_t)i);
	/* nothing overtakes earlier packets when the delay is removed */
	assert_true(fab_fault_delay(&m, p, 0));
	assert_true(send_data(0, 0, LID(7), 64, 99));
	pump(NULL);
	assert_int_equal(count_data(1, 0), 0);
	later(500000);
	for (unsigned int i = 5; i < 10; i++)
		expect_data(1, 0, 64 + 4 * i, (uint8_t)i);
	expect_data(1, 0, 64, 99);
	assert_int_equal(d->flying, 0);
	assert_int_equal(send_many(3), 3);
	assert_int_equal(counters(q)->rcv_pkts, before + 14);
}

/* At most one lane's credits are on their way; the rest waits, and is not lost. */
static void test_delay_credits(void **st)
{
	const uint32_t p = inner();
	unsigned int sent = 0, arrived = 0;

	(void)st;
	assert_true(fab_fault_delay(&m, p, 10000000));
	for (unsigned int i = 0; i < 200; i++) {
		while (send_data(0, 0, LID(7), 4096, 1))
			sent++;
		pump(NULL);
	}
	assert_int_equal(d->flying, FAB_LANE_BLOCKS / 65);
	assert_true(sent > d->flying);
	/* another lane has credits of its own */
	assert_true(send_data(0, 1, LID(7), 4096, 1));
	pump(NULL);
	assert_int_equal(d->flying, FAB_LANE_BLOCKS / 65 + 1);
	for (unsigned int i = 0; i < 20; i++) {
		later(10000000);
		arrived += count_data(1, 0);
	}
	assert_int_equal(arrived, sent);
	assert_int_equal(count_data(1, 1), 1);
}

/*
 * Packets that are due after the fabric stood still arrive in bursts: no round delivers all of
 * them.
 */
static void test_delay_burst(void **st)
{
	const unsigned int n = 2 * FAB_BURST + 1;

	(void)st;
	assert_true(fab_fault_delay(&m, inner(), 5000000));
	assert_int_equal(send_many(n), 0);
	assert_int_equal(d->flying, n);
	now += 5000000;
	for (unsigned int left = n - FAB_BURST; left; left -= left < FAB_BURST ? left : FAB_BURST) {
		assert_true(fab_data_round(d));
		assert_int_equal(d->flying, left);
		assert_int_equal(fab_data_timer(d), 0);
	}
	pump(NULL);
	assert_int_equal(d->flying, 0);
	assert_int_equal(count_data(1, 0), n);
}

/* Packets that are on their way when the link goes down are lost, even if it comes up at once. */
static void test_delay_down(void **st)
{
	const struct fab_limit all = { 0xff, 0xff, 0xff };
	const uint32_t p = inner();

	(void)st;
	assert_true(fab_fault_delay(&m, p, 5000000));
	assert_int_equal(send_many(7), 0);
	assert_true(fab_fault_degrade(&m, p, all, now));
	pump(NULL);
	assert_int_equal(d->flying, 0);
	assert_int_equal(d->n.drop[FAB_DROP_LOSS], 7);
	assert_int_equal(fab_extra_of(f, p)->fault->lost, 7);
	later(10000000);
	assert_int_equal(count_data(1, 0), 0);
}

/*
 * Packets to and from a machine are delayed, too; their number is bounded, and their losses are
 * counted.
 */
static void test_delay_machine(void **st)
{
	const uint32_t p = port_of_host(7), q = f->port[p].peer;
	unsigned int sent = 0;

	(void)st;
	assert_true(fab_fault_delay(&m, p, 5000000));
	assert_int_equal(send_many(10), 0);
	later(4999999);
	assert_int_equal(count_data(1, 0), 0);
	later(1);
	assert_int_equal(count_data(1, 0), 10);
	assert_true(fab_fault_delay(&m, p, 0));
	assert_int_equal(send_many(10), 10);
	/* the other direction, while the ring contains packets without credit */
	while (send_data(1, 0, LID(1), 4096, (uint8_t)sent) || (pump(NULL), false) ||
	       send_data(1, 0, LID(1), 4096, (uint8_t)sent))
		sent++;
	assert_true(fab_fault_delay(&m, q, 5000000));
	assert_true(fab_fault_wire(&m, q, 1u << 29, 0, 4));
	for (unsigned int i = 0; i < 100; i++) {
		for (; send_data(1, 0, LID(1), 4096, (uint8_t)sent); sent++)
			;
		pump(NULL);
	}
	for (unsigned int i = 0, got = 0; i < 40; i++) {
		got += count_data(0, 0);
		later(5000000);
		if (i == 39)
			assert_int_equal(got + d->n.drop[FAB_DROP_LOSS], sent);
	}
	assert_true(d->n.drop[FAB_DROP_LOSS] > 0);
	assert_int_equal(counters(p)->symbol_error, d->n.drop[FAB_DROP_LOSS]);
	assert_int_equal(counters(p)->rcv_pkts, sent);
	/* without the delay packets use the ring again */
	assert_true(fab_fault_delay(&m, q, 0));
	assert_true(fab_fault_wire(&m, q, 0, 0, 4));
	pump(NULL);
	assert_false(d->by_port[p]->buffers);
	assert_true(send_data(1, 0, LID(1), 64, 9));
	pump(NULL);
	expect_data(0, 0, 64, 9);
}

/* The state of a ring before a delay, or before its link went down, does not count afterwards. */
static void test_delay_forgets(void **st)
{
	const uint32_t p = port_of_host(7), q = f->port[p].peer;
	struct fab_dport *in = d->by_port[p];

	(void)st;
	in->lane[0].mark_ns = 1;
	assert_true(fab_fault_delay(&m, q, 5000000));
	pump(NULL);
	assert_true(in->buffers);
	assert_int_equal(in->lane[0].mark_ns, 0);
	for (unsigned int i = 0; i < 300; i++) {
		send_data(1, 0, LID(1), 4096, 1);
		pump_once();
	}
	assert_int_equal(in->full, 1);
	assert_true(fab_fault_link(&m, p, false, now));
	pump(NULL);
	assert_int_equal(in->full, 0);
	assert_int_equal(fab_blocked_lanes(d, in), 0);
}

/* An answer that arrives by a delayed wire reaches the machine as soon as it is due. */
static void test_delayed_answer(void **st)
{
	uint8_t pkt[IB_MAD_PKT_LEN];
	uint32_t out[8];

	(void)st;
	assert_true(path(1, LID(7), out, 8) >= 3);
	assert_true(fab_fault_delay(&m, f->port[out[0]].peer, 5000000));
	send_gmp(LID(f->port[f->port[out[0]].peer].node));
	pump(NULL);
	assert_int_equal(ep_recv(&host[0], 0, pkt, sizeof(pkt)), 0);
	assert_int_equal(m.flights, 1);
	/* the loop has had its last round: it runs the timers and sleeps */
	assert_false(fab_data_round(d));
	assert_true(fab_data_sleep(d));
	now += 5000000;
	fab_mgmt_timer(&m, now);
	assert_true(fab_data_timer(d) == UINT64_MAX);
	assert_int_equal(ep_recv(&host[0], 0, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
}

/*
 * On a machine's cable SMPs, MADs of agents and data packets have the same delay, and stay in
 * order.
 */
static void test_delay_mads_at_machine(void **st)
{
	const uint32_t p = port_of_host(1), q = f->port[p].peer;
	const uint8_t route[] = { 1 };
	const uint64_t delivered = d->n.delivered, lost = m.stats.lost;
	uint8_t pkt[IB_MAD_PKT_LEN];
	struct ib_smp smp;

	(void)st;
	while (ep_recv_smp(&host[0], &smp))
		;
	assert_true(fab_fault_delay(&m, p, 5000000));
	assert_true(send_data(1, 0, LID(1), 64, 1));
	pump(NULL);
	send_gmp(LID(f->port[p].node));
	ep_smp_init(&host[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, route);
	assert_true(ep_send_smp(&host[0], &smp, 0));
	pump(NULL);
	later(1000000);
	assert_true(send_data(1, 0, LID(1), 64, 2));
	pump(NULL);
	later(3999999);
	assert_false(ep_recv_smp(&host[0], &smp));
	assert_int_equal(count_data(0, 0), 0);
	later(1);
	assert_true(ep_recv_smp(&host[0], &smp));
	assert_int_equal(smp.hdr.method, IB_METHOD_GET_RESP);
	expect_data(0, 0, 64, 1);
	assert_int_equal(ep_recv(&host[0], 0, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
	assert_int_equal(count_data(0, 0), 0);
	later(1000000);
	expect_data(0, 0, 64, 2);
	/* MADs of agents are no data */
	assert_int_equal(d->n.delivered, delivered + 2 + 1);
	/* the other direction; a packet on its way is lost with the link */
	assert_true(fab_fault_delay(&m, p, 0));
	assert_true(fab_fault_delay(&m, q, 5000000));
	ep_smp_init(&host[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, route);
	assert_true(ep_send_smp(&host[0], &smp, 0));
	pump(NULL);
	later(4999999);
	assert_false(ep_recv_smp(&host[0], &smp));
	later(1);
	assert_true(ep_recv_smp(&host[0], &smp));
	assert_int_equal(m.stats.lost, lost);
	ep_smp_init(&host[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, route);
	assert_true(ep_send_smp(&host[0], &smp, 0));
	later(1000);
	assert_true(fab_fault_link(&m, p, false, now));
	pump(NULL);
	assert_true(fab_fault_link(&m, p, true, now));
	later(6000000);
	assert_false(ep_recv_smp(&host[0], &smp));
	assert_int_equal(fab_extra_of(f, q)->fault->lost, 1);
}

/* MADs on different wires arrive in the order of their times, not of their departure. */
static void test_delay_order(void **st)
{
	static const struct {
		uint32_t host;
		uint64_t ns;
	} wire[] = { { 2, 1000000 }, { 3, 3000000 }, { 4, 2000000 }, { 5, 2000000 } };
	static const uint32_t order[] = { 2, 4, 5, 3 };
	uint8_t pkt[IB_MAD_PKT_LEN];

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(wire); i++) {
		const uint32_t p = fab_port_of(&f->node[wire[i].host], 1);

		assert_true(fab_fault_delay(&m, p, wire[i].ns));
		send_gmp(LID(wire[i].host));
		pump(NULL);
	}
	assert_int_equal(m.flights, IB_ARRAY_SIZE(wire));
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(order); i++) {
		if (i != 2)
			later(1000000);
		assert_int_equal(ep_recv(&host[0], 0, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
		assert_int_equal(ib_get_be16(pkt + 6), LID(order[i]));
		if (i != 1)
			assert_int_equal(ep_recv(&host[0], 0, pkt, sizeof(pkt)), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_hosts, teardown_hosts)
		T(test_trim), T(test_delay), T(test_delay_credits), T(test_delay_burst),
		T(test_delay_down), T(test_delay_machine), T(test_delay_forgets),
		T(test_delayed_answer), T(test_delay_mads_at_machine), T(test_delay_order),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
