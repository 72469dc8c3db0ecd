// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Wires with rates that connect machines by links: both directions, lanes, credits, faults beside
 * the rate, MADs between packets. Time advances to the next event.
 */
#include "faults.h"

#include "fabric/data/delay.h"
#include "ib/rate.h"

#define LEN	2046u		/* 2,048 bytes on the wire: 163,840 ns at EDR / 1000 */
#define PKT_NS	163840u

static int setup_rates(void **st)
{
	setup_hosts(st);
	d->cfg.rate_scale = 1000;
	m.epoch++;
	pump(NULL);
	return 0;
}

/* Both ends of the wire at @p become four times slower. */
static void slow(uint32_t p)
{
	f->port[p].pi.width_active = IB_WIDTH_1X;
	f->port[f->port[p].peer].pi.width_active = IB_WIDTH_1X;
	m.epoch++;
}

/*
 * For @ns host[from] always has packets for host[1 - from] on each of @lanes lanes, and the
 * receiver reads at once. @n: the packets received on each.
 */
static void stream(unsigned int from, unsigned int lanes, uint64_t ns, unsigned int *n)
{
	const uint64_t end = now + ns;

	memset(n, 0, lanes * sizeof(*n));
	for (;;) {
		uint64_t next;

		for (unsigned int vl = 0; vl < lanes; vl++)
			while (send_data(from, vl, LID(from ? 1 : 7), LEN + 2, 1))
				;
		pump(NULL);
		for (unsigned int vl = 0; vl < lanes; vl++)
			n[vl] += count_data(1 - from, vl);
		if (now >= end)
			return;
		next = fab_data_timer(d);
		now += next < end - now ? next : end - now;
	}
}

/*
 * All sent packets arrive or are discarded. Return: packets that host[i] received on lanes below 3.
 */
static unsigned int drain(unsigned int i)
{
	unsigned int n = 0;

	for (uint64_t next = 0; next != UINT64_MAX && (next || d->flying || d->blocked);) {
		pump(NULL);
		for (unsigned int vl = 0; vl < 3; vl++) {
			n += count_data(i, vl);
			count_data(1 - i, vl);
		}
		pump(NULL);
		next = d->flying || d->blocked || d->paced.first ? fab_data_timer(d) : UINT64_MAX;
		now += next == UINT64_MAX ? 0 : next;
	}
	assert_int_equal(d->flying, 0);
	assert_int_equal(d->blocked, 0);
	return n;
}

/* The flow has the rate of the slowest wire, whether its machine sends or receives. */
static void test_rates(void **st)
{
	const uint32_t p[2] = { port_of_host(1), port_of_host(7) };
	unsigned int n;

	(void)st;
	stream(0, 1, 200 * PKT_NS, &n);
	stream(0, 1, 1000 * PKT_NS, &n);
	assert_in_range(n, 997, 999);
	for (unsigned int i = 0; i < 2; i++) {
		slow(p[i]);
		for (unsigned int from = 0; from < 2; from++) {
			stream(from, 1, 1000 * PKT_NS, &n);
			stream(from, 1, 1000 * PKT_NS, &n);
			assert_in_range(n, 248, 251);
		}
	}
	drain(0);
	assert_int_equal(ended(), 0);
}

/* The lanes of a machine that sends alternate. */
static void test_lanes(void **st)
{
	unsigned int n[3];

	(void)st;
	stream(0, 3, 1000 * PKT_NS, n);
	stream(0, 3, 1000 * PKT_NS, n);
	for (unsigned int i = 0; i < 3; i++)
		assert_in_range(n[i], 329, 336);
	drain(0);
}

/* A machine that does not read has one packet of each lane in flight; others wait at the switch. */
static void test_late_reader(void **st)
{
	const uint32_t p = port_of_host(7);
	unsigned int sent = 0, n;
	uint64_t waited;

	(void)st;
	f->port[p].pi.hoq_life = 20;	/* never */
	stream(0, 1, 100 * PKT_NS, &n);
	waited = counters(p)->xmit_wait;
	for (unsigned int i = 0; i < 400; i++) {
		while (send_data(0, 0, LID(7), LEN + 2, 2))
			sent++;
		later(PKT_NS);
	}
	assert_false(d->by_port[p]->flight[true] && !fab_delay_empty(d->by_port[p], 0));
	assert_int_not_equal(d->by_port[p]->waiting, 0);
	assert_true(counters(p)->xmit_wait - waited > 250 * PKT_NS / 1000);
	/* it reads everything that was sent */
	assert_in_range(drain(1), sent, sent + 200);
	assert_int_equal(ended(), 0);
}

/* A lost packet has used the wire; packets in flight are lost with the link; both are counted. */
static void test_faults(void **st)
{
	const uint32_t p = inner();
	unsigned int n, lost;

	(void)st;
	stream(0, 1, 100 * PKT_NS, &n);
	assert_true(fab_fault_wire(&m, p, 1u << 31, 0, 7));
	stream(0, 1, 1000 * PKT_NS, &n);
	lost = (unsigned int)d->n.drop[FAB_DROP_LOSS];
	assert_in_range(n + lost, 995, 1003);
	assert_in_range(n, 400, 600);
	assert_true(fab_fault_wire(&m, p, 0, 0, 7));
	/* a delay adds to the time on the wire, and the rate stays the same */
	assert_true(fab_fault_delay(&m, p, 5000000));
	stream(0, 1, 1000 * PKT_NS, &n);
	stream(0, 1, 1000 * PKT_NS, &n);
	assert_in_range(n, 997, 1003);
	assert_true(d->by_port[f->port[p].peer]->lane[0].used > 5000000 / PKT_NS * 32);
	assert_true(fab_fault_link(&m, p, false, now));
	pump(NULL);
	assert_true(d->n.drop[FAB_DROP_LOSS] > lost + 20);
	assert_true(fab_wire_ready(fab_extra_of(f, p)->fault) <= now);
	drain(1);
}

/* A response of an agent waits for packets already on the wire, and for no others. */
static void test_answers(void **st)
{
	const uint32_t p = port_of_host(1);
	uint8_t pkt[IB_MAD_PKT_LEN];
	unsigned int n;
	uint64_t begin;

	(void)st;
	/* host[1] keeps the wire to host[0] busy */
	for (unsigned int i = 0; i < 40; i++) {
		while (send_data(1, 1, LID(1), LEN + 2, 1))
			;
		later(PKT_NS);
		count_data(0, 1);
	}
	send_gmp(LID(f->port[p].node));
	begin = now;
	for (n = 0; !ep_recv(&host[0], 0, pkt, sizeof(pkt)); n++) {
		assert_true(n < 100);
		later(PKT_NS / 8);
	}
	/* its own time: two wires with 292 bytes; plus one packet of the other lane */
	assert_in_range(now - begin, 2 * 23000, 2 * 24000 + PKT_NS + PKT_NS / 4);
	drain(0);
}

/* HOQLife and LifeTimeValue grow by the factor by which wires are slower. */
static void test_lifetimes(void **st)
{
	(void)st;
	assert_true(fab_limit_ns(d, 10) == 1000 * ib_time_ns(10));
	d->cfg.hoq_scale = 3;
	assert_true(fab_limit_ns(d, 10) == 3000 * ib_time_ns(10));
	d->cfg.hoq_scale = 1000000;
	d->cfg.rate_scale = 1000000;
	assert_true(fab_limit_ns(d, 19) == UINT64_MAX);
	d->cfg.hoq_scale = 0;
	assert_true(fab_limit_ns(d, 10) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_rates, teardown_hosts)
		T(test_rates), T(test_lanes), T(test_late_reader), T(test_faults), T(test_answers),
		T(test_lifetimes),
#undef T
	};

	return cmocka_run_group_tests_name("rates of links", tests, NULL, NULL);
}
