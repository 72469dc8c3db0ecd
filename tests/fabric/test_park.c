// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The data path does not examine packets that wait for a wire with a rate until something changes
 * for them (park.c).
 */
#include "paced.h"

#define LEN	4120u
#define PACKETS	300u

/*
 * The output port at switch number @hop after that of host 1, on the route to host 7 of fat-tree:4.
 */
static uint32_t way_out(unsigned int hop)
{
	uint32_t at = fab_port_of(&f->node[1], 1);

	for (unsigned int i = 0; i <= hop; i++) {
		const struct fab_node *sw = &f->node[f->port[f->port[at].peer].node];

		at = fab_port_of(sw, fab_route(f, sw, LID(7)));
	}
	return at;
}

/* The head that began to wait for @out first. */
static const struct fab_lane *first_head(const struct fab_dport *out)
{
	assert_true(out->want & 1);
	return fab_lane_at(d, out->out[0].head);
}

/* Three hosts send to one: the data path does not examine the heads that wait for its wire. */
static void test_busy(void **st)
{
	uint32_t out;

	(void)st;
	begin_paced("star:8", 1);
	for (unsigned int i = 0; i < 4; i++) {
		sim_place(i, i + 1);
		if (i < 3)
			add_flow(i, 4, 0, LEN - 4 * i, UINT32_MAX);
	}
	out = port_of_host(4);
	for (unsigned int i = 0; i < 100; i++) {
		run_until(now + 997);
		assert_true(i < 2 || d->by_port[out]->parks);
		assert_int_equal(d->queues, 0);
	}
	run_until(now + 1000000);
	for (unsigned int i = 0; i < 3; i++) {
		sim[i].flows = 0;
		assert_int_equal(d->by_port[port_of_host(i + 1)]->parked, 1);
	}
	assert_int_equal(d->parks, 1);
	/* all waiting packets leave */
	run_until(now + 1000000);
	assert_int_equal(d->parks, 0);
	assert_int_equal(d->blocked, 0);
	assert_int_equal(d->by_port[out]->waiting, 0);
	end_paced();
}

/* Host 7 accepts nothing: the spine's packets for its leaf wait for credits. */
static struct fab_dport *starve(void)
{
	struct fab_dport *out;

	begin_paced("fat-tree:4", 1);
	sim_place(0, 1);
	sim_place(1, 7);
	f->port[way_out(2)].pi.hoq_life = 20;
	f->port[way_out(1)].pi.hoq_life = 8;	/* 1,048,576 ns */
	f->port[way_out(0)].pi.hoq_life = 20;
	sim[1].stalled = true;
	add_flow(0, 7, 0, LEN, PACKETS);
	run_until(now + 100000);
	out = d->by_port[way_out(1)];
	assert_true(out->parks);
	assert_int_equal(out->starved, 1);
	return out;
}

/* A parked packet becomes too old at the same time as one that is not parked. */
static void test_too_old(void **st)
{
	const struct fab_dport *out = starve();
	const uint64_t since_ns = first_head(out)->blocked_ns;

	(void)st;
	for (unsigned int i = 1; i <= 3; i++) {
		run_until(since_ns + i * (1048576 + 1) - 1);
		assert_int_equal(out->ctr->xmit_hoq_discards, i - 1);
		assert_true(out->parks);
		run_until(now + 1);
		assert_int_equal(out->ctr->xmit_hoq_discards, i);
	}
	/* with credits the others leave */
	sim[1].stalled = false;
	run_until(now + 20000000);
	assert_int_equal(sim[1].packets, PACKETS - 3);
	assert_int_equal(d->parks, 0);
	assert_int_equal(d->blocked, 0);
	end_paced();
}

/* A change by management affects parked packets. */
static void test_changed(void **st)
{
	const struct fab_dport *out = starve();

	(void)st;
	f->port[out->p].pi.state = IB_PS_ARMED;
	fab_changed(&m, out->p);
	run_until(now);
	assert_false(out->parks);
	assert_int_equal(out->want, 0);
	assert_int_equal(out->waiting, 0);
	assert_true(out->ctr->xmit_inactive_discards > 0);
	sim[0].flows = 0;
	sim[1].stalled = false;
	run_until(now + 20000000);
	assert_int_equal(d->parks, 0);
	assert_int_equal(d->blocked, 0);
	end_paced();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_busy), cmocka_unit_test(test_too_old),
		cmocka_unit_test(test_changed),
	};

	return cmocka_run_group_tests_name("what waits for wires", tests, NULL, NULL);
}
