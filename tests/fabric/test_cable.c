// SPDX-License-Identifier: GPL-2.0-or-later
/* Cables that are pulled, degraded, or flap. */
#include "faults.h"

#include "ib/rate.h"

/* A cable that is pulled: both ends are Down and report it; plugged in, they are Init. */
static void test_cable(void **st)
{
	const uint32_t p = inner(), q = f->port[p].peer;
	const struct ib_switch_info *si = &f->sw[f->node[f->port[q].node].sw].si;

	(void)st;
	assert_true(fab_fault_link(&m, p, false, now));
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	assert_int_equal(f->port[q].pi.state, IB_PS_DOWN);
	assert_int_equal(counters(p)->link_downed, 1);
	assert_int_equal(counters(q)->link_downed, 1);
	assert_int_equal(si->port_state_change, 1);
	assert_int_equal(send_many(3), 0);
	assert_int_equal(counters(p)->xmit_inactive_discards, 3);
	assert_false(fab_link_up(f, p));
	assert_true(fab_fault_link(&m, q, true, now));
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_int_equal(f->port[q].pi.state, IB_PS_INIT);
	assert_false(fab_fault_link(&m, fab_port_of(&f->node[f->port[p].node], 0), false, now));
}

/* The cable of a machine: its link goes down, and comes up when it is plugged in. */
static void test_cable_of_machine(void **st)
{
	const uint32_t p = port_of_host(7);
	struct ohca_link_phy phy = ep_phy();

	(void)st;
	assert_true(ohca_link_is_up(host[1].l));
	assert_true(fab_fault_link(&m, p, false, now));
	pump(NULL);
	assert_false(ohca_link_is_up(host[1].l));
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	/* it is not Active either when it is pulled at the machine's end */
	assert_true(fab_fault_link(&m, p, true, now));
	pump(NULL);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_true(fab_fault_link(&m, f->port[p].peer, false, now));
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	pump(NULL);
	assert_int_equal(counters(p)->link_downed, 3);	/* one by its attachment */
	/* neither end brings it up */
	ohca_link_train(host[1].l, &phy);
	pump(NULL);
	assert_false(ohca_link_is_up(host[1].l));
	assert_true(fab_fault_link(&m, p, true, now));
	pump(NULL);
	assert_true(ohca_link_is_up(host[1].l));
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	activate(7);
	assert_int_equal(send_many(3), 3);
}

/*
 * A link that a subnet manager has disabled stays disabled when its cable is pulled and plugged in.
 */
static void test_cable_disabled(void **st)
{
	const uint32_t p = port_of_host(7);
	struct way *w = calloc(f->nodes, sizeof(*w));

	(void)st;
	assert_non_null(w);
	ways(HOST, w);
	set_state(w[f->port[p].node].route, fab_port_num(f, p), IB_PS_NO_CHANGE, IB_PHYS_DISABLED);
	pump(NULL);
	assert_false(ohca_link_is_up(host[1].l));
	assert_true(fab_fault_link(&m, p, false, now));
	assert_true(fab_fault_link(&m, p, true, now));
	pump(NULL);
	assert_false(ohca_link_is_up(host[1].l));
	assert_int_equal(f->port[p].pi.phys_state, IB_PHYS_DISABLED);
	free(w);
}

/* Checks both ends of the wire in PortInfo: width, speed, extended speed. */
static void expect_rate(uint32_t p, uint8_t width, uint8_t speed, uint8_t ext)
{
	for (unsigned int end = 0; end < 2; end++, p = f->port[p].peer) {
		assert_int_equal(f->port[p].pi.width_active, width);
		assert_int_equal(f->port[p].pi.speed_active, speed);
		assert_int_equal(f->port[p].pi.speed_ext_active, ext);
	}
}

/* A cable with fewer lanes and a lower speed: both ends train again, and show the new values. */
static void test_degrade(void **st)
{
	const struct fab_limit all = { 0xff, 0xff, 0xff };
	const uint32_t p = inner(), q = f->port[p].peer;
	struct fab_limit at_most;

	(void)st;
	assert_true(fab_rate_limit(1, "DDR", &at_most));
	assert_true(fab_fault_degrade(&m, q, at_most, now));
	expect_rate(p, IB_WIDTH_1X, IB_SPEED_DDR, 0);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_int_equal(counters(p)->link_downed, 1);
	assert_int_equal(counters(q)->link_downed, 1);
	/* also after it was pulled */
	assert_true(fab_fault_link(&m, p, false, now));
	assert_true(fab_rate_limit(0, "FDR", &at_most));
	assert_true(fab_fault_degrade(&m, p, at_most, now));
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	assert_true(fab_fault_link(&m, p, true, now));
	expect_rate(p, IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_FDR);
	assert_true(fab_fault_degrade(&m, p, all, now));
	expect_rate(p, IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_EDR);
	assert_false(fab_rate_limit(3, NULL, &at_most));
	assert_false(fab_rate_limit(0, "WDR", &at_most));
	/* 2x, which no port supports: only 1x is in common; 8x to 12x is not */
	assert_true(fab_rate_limit(2, NULL, &at_most));
	assert_int_equal(at_most.width, IB_WIDTH_1X | IB_WIDTH_2X);
}

/* The cable of a machine: its end of the link trains to the same values. */
static void test_degrade_machine(void **st)
{
	const struct fab_limit all = { 0xff, 0xff, 0xff };
	const uint32_t p = port_of_host(7);
	struct ohca_link_state state;
	struct fab_limit at_most;

	(void)st;
	assert_true(fab_rate_limit(1, "QDR", &at_most));
	assert_true(fab_fault_degrade(&m, p, at_most, now));
	pump(NULL);
	assert_true(ohca_link_is_up(host[1].l));
	assert_int_equal(f->port[p].pi.width_active, IB_WIDTH_1X);
	assert_int_equal(f->port[p].pi.speed_active, IB_SPEED_QDR);
	assert_int_equal(f->port[p].pi.speed_ext_active, 0);
	ohca_link_get_state(host[1].l, &state);
	assert_int_equal(state.width, IB_WIDTH_1X);
	assert_int_equal(state.speed_ext, 0);
	activate(7);
	assert_int_equal(send_many(3), 3);
	assert_true(fab_fault_degrade(&m, p, all, now));
	pump(NULL);
	assert_int_equal(f->port[p].pi.speed_ext_active, IB_SPEED_EXT_EDR);
}

/* Return: a wire of the same switch to another one. */
static uint32_t other_inner(uint32_t p)
{
	const struct fab_node *n = &f->node[f->port[p].node];

	for (unsigned int i = 1; i <= n->nports; i++) {
		const uint32_t q = fab_port_of(n, i), peer = f->port[q].peer;

		if (q != p && peer != FAB_NO_PORT && f->node[f->port[peer].node].sw != FAB_NONE)
			return q;
	}
	fail();
	return p;
}

/* Down and up three times, each at its time however late the timer is. */
static void test_flap(void **st)
{
	const uint32_t p = inner(), q = f->port[p].peer;
	const uint64_t begin = now;

	(void)st;
	assert_true(fab_fault_flap(&m, q, 1000000, 5000000, 3, now));
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	assert_true(m.deadline_ns <= begin + 1000000);
	now = begin + 999999;
	fab_mgmt_timer(&m, now);
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	now = begin + 1000000;
	fab_mgmt_timer(&m, now);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_true(m.deadline_ns <= begin + 5000000);
	now = begin + 10500000;		/* up, down, up, down */
	fab_mgmt_timer(&m, now);
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	assert_int_equal(counters(p)->link_downed, 3);
	now = begin + 100000000;
	fab_mgmt_timer(&m, now);
	assert_int_equal(f->port[q].pi.state, IB_PS_INIT);
	assert_int_equal(counters(q)->link_downed, 3);
	/* plugging in, or a new flap, ends an old one */
	assert_true(fab_fault_flap(&m, p, 1000000, 5000000, 100, now));
	assert_true(fab_fault_flap(&m, q, 2000000, 5000000, 100, now));
	assert_true(fab_fault_link(&m, q, true, now));
	now += 1000000000;
	fab_mgmt_timer(&m, now);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_int_equal(counters(p)->link_downed, 4);
	assert_false(fab_fault_flap(&m, fab_port_of(&f->node[f->port[p].node], 0), 1, 2, 1, now));
}

/* Runs turns until all that is due at @now is done. Return: their number. */
static unsigned int flap_turns(uint32_t p)
{
	uint64_t downs = counters(p)->link_downed;
	unsigned int turns;

	for (turns = 0; m.deadline_ns <= now; turns++) {
		fab_mgmt_timer(&m, now);
		assert_in_range(counters(p)->link_downed, downs, downs + FAB_FLAP_TURN);
		downs = counters(p)->link_downed;
		assert_true(turns < 1000);
	}
	return turns;
}

/* If the fabric is a little late, flaps catch up in short turns, in their order. */
static void test_flap_late(void **st)
{
	const uint32_t p = inner(), q = other_inner(p);

	(void)st;
	assert_true(fab_fault_flap(&m, p, 1000000, 2000000, 1000, now));
	assert_true(fab_fault_flap(&m, q, 1000000, 2000000, 1000, now));
	/* the first change is due after 1 ms */
	now += FAB_FLAP_LATE_NS + 1000000 - 1;
	assert_true(flap_turns(p) >= 2 * 2 * 499 / FAB_FLAP_TURN);
	assert_int_equal(counters(p)->link_downed, 501);
	assert_int_equal(m.stats.flaps_skipped, 0);
	for (unsigned int i = 0; i < 10; i++) {
		now += 100000000;
		flap_turns(p);
	}
	assert_int_equal(counters(p)->link_downed, 1000);
	assert_int_equal(counters(q)->link_downed, 1000);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_int_equal(m.stats.flaps_skipped, 0);
}

/*
 * If it stood still for an hour, the flaps of that time are left out, and the others keep their
 * times.
 */
static void test_flap_stood(void **st)
{
	const uint32_t p = inner(), q = other_inner(p);
	const uint64_t begin = now, hour = 3600000000000;

	(void)st;
	assert_true(fab_fault_flap(&m, p, 1000000, 4000000, 1000000, now));
	assert_true(fab_fault_flap(&m, q, 1000000, 4000000, 1000, now));
	/* the cable is plugged in 1 ms after the begin of each period */
	now = begin + hour + 500000;
	assert_in_range(flap_turns(p), 1, 3);
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	assert_int_equal(counters(p)->link_downed, 2);
	assert_true(m.deadline_ns <= begin + hour + 1000000);
	now = begin + hour + 1000000;
	flap_turns(p);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	/*
	 * 900,000 periods have passed; the one in which it is still pulled and the present one are
	 * not skipped
	 */
	assert_int_equal(m.stats.flaps_skipped, 900000 - 1 + 999);
	/* the other flap has ended */
	assert_int_equal(f->port[q].pi.state, IB_PS_INIT);
	assert_int_equal(counters(q)->link_downed, 1);
	for (unsigned int i = 0; i < 1000; i++) {
		now += 400000000;
		flap_turns(p);
	}
	assert_int_equal(counters(p)->link_downed, 1000000 - (900000 - 1));
	assert_int_equal(counters(q)->link_downed, 1);
	assert_true(m.flap[0].port == FAB_NO_PORT && m.flap[1].port == FAB_NO_PORT);
}

/* Makes the links of both ends of the cable at port @p Active. */
static void make_active(uint32_t p)
{
	struct way *w = calloc(f->nodes, sizeof(*w));

	assert_non_null(w);
	ways(HOST, w);
	for (unsigned int end = 0; end < 2; end++, p = f->port[p].peer)
		for (uint8_t state = IB_PS_ARMED; state <= IB_PS_ACTIVE; state++)
			set_state(w[f->port[p].node].route, fab_port_num(f, p), state, IB_PHYS_NO_CHANGE);
	free(w);
}

/*
 * Leaves the nodes of both ends out of wires_are_conserved(), which assumes one cable for all
 * packets.
 */
static void counts_of_ends(uint32_t p, uint32_t q)
{
	counts_anew[f->port[p].node] = true;
	counts_anew[f->port[q].node] = true;
}

/*
 * Finds the cable that leads from host[0] to its spine, and one of another leaf to the other spine.
 */
static void two_cables(uint32_t *a, uint32_t *b)
{
	uint32_t end;

	*a = inner();
	for (*b = 1; *b < f->ports; ++*b) {
		end = f->port[*b].peer;
		if (end != FAB_NO_PORT && f->node[f->port[*b].node].sw != FAB_NONE &&
		    f->node[f->port[end].node].sw != FAB_NONE && f->port[*b].node != f->port[*a].node &&
		    f->port[end].node != f->port[f->port[*a].peer].node &&
		    f->port[end].node != f->port[*a].node && f->port[*b].node != f->port[f->port[*a].peer].node)
			break;
	}
	assert_true(*b < f->ports);
	counts_of_ends(*a, f->port[*a].peer);
	counts_of_ends(*b, f->port[*b].peer);
}

/* Two cables exchange their far ends: their links go down and come up, and packets follow them. */
static void test_swap(void **st)
{
	uint32_t a, b, far_a, far_b;
	uint64_t changes, rcv;

	(void)st;
	two_cables(&a, &b);
	far_a = f->port[a].peer;
	far_b = f->port[b].peer;
	assert_int_equal(send_many(3), 3);
	changes = m.log.count;
	assert_true(fab_fault_swap(&m, a, b, now));
	assert_int_equal(f->port[a].peer, far_b);
	assert_int_equal(f->port[far_b].peer, a);
	assert_int_equal(f->port[b].peer, far_a);
	assert_int_equal(f->port[far_a].peer, b);
	for (unsigned int i = 0; i < 4; i++) {
		const uint32_t p = (const uint32_t []){ a, b, far_a, far_b }[i];

		assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
		assert_int_equal(counters(p)->link_downed, 1);
		assert_int_equal(f->sw[f->node[f->port[p].node].sw].si.port_state_change, 1);
	}
	/* a client has to read all of it again */
	assert_true(m.log.count - changes > FAB_LOG);
	assert_int_equal(send_many(3), 0);
	make_active(a);
	rcv = counters(far_b)->rcv_pkts;
	assert_int_equal(send_many(5), 5);
	assert_true(counters(far_b)->rcv_pkts == rcv + 5);
	/* and back, by the names of the far ends */
	assert_true(fab_fault_swap(&m, far_b, far_a, now));
	assert_int_equal(f->port[a].peer, far_a);
	assert_int_equal(f->port[b].peer, far_b);
	make_active(a);
	assert_int_equal(send_many(5), 5);
	assert_true(counters(far_b)->rcv_pkts == rcv + 5);
	/* refused: the same cable, no cable, that of a machine */
	assert_false(fab_fault_swap(&m, a, a, now));
	assert_false(fab_fault_swap(&m, a, far_a, now));
	assert_false(fab_fault_swap(&m, a, fab_port_of(&f->node[f->port[a].node], 0), now));
	assert_false(fab_fault_swap(&m, a, port_of_host(7), now));
	assert_int_equal(f->port[a].peer, far_a);
}

/* Faults of a cable move with it, and a port that accepts nothing stays as it is. */
static void test_swap_faults(void **st)
{
	const struct fab_limit slow = { IB_WIDTH_1X, 0xff, 0xff };
	uint32_t a, b, far_a, far_b;

	(void)st;
	two_cables(&a, &b);
	far_a = f->port[a].peer;
	far_b = f->port[b].peer;
	assert_true(fab_fault_wire(&m, a, UINT32_MAX, 0, 5));
	assert_true(fab_fault_degrade(&m, a, slow, now));
	assert_true(fab_fault_port_stall(&m, far_a, now + 50000000));
	assert_true(fab_fault_swap(&m, a, b, now));
	/* it loses packets to @far_b now, and the other cable loses nothing */
	assert_true(fab_fault_loses(fab_extra_of(f, a)->fault, 64));
	assert_true(fab_fault_loses(fab_extra_of(f, far_b)->fault, 64));
	assert_false(fab_fault_loses(fab_extra_of(f, b)->fault, 64));
	assert_false(fab_fault_loses(fab_extra_of(f, far_a)->fault, 64));
	expect_rate(a, IB_WIDTH_1X, f->port[a].pi.speed_active, f->port[a].pi.speed_ext_active);
	expect_rate(b, IB_WIDTH_4X, f->port[b].pi.speed_active, f->port[b].pi.speed_ext_active);
	assert_false(fab_extra_of(f, a)->fault->stalls);
	assert_true(fab_extra_of(f, b)->fault->stalls);
	later(50000000);
	assert_false(fab_extra_of(f, b)->fault->stalls);
	/* a cable that is pulled stays pulled, and one that flaps continues at its new end */
	assert_true(fab_fault_link(&m, a, false, now));
	assert_true(fab_fault_flap(&m, b, 10000000, 20000000, 2, now));
	assert_int_equal(f->port[b].pi.state, IB_PS_DOWN);
	assert_true(fab_fault_swap(&m, a, b, now));
	assert_int_equal(f->port[a].pi.state, IB_PS_DOWN);
	assert_int_equal(f->port[b].pi.state, IB_PS_DOWN);
	later(10000000);
	assert_int_equal(f->port[a].pi.state, IB_PS_DOWN);
	assert_int_equal(f->port[b].pi.state, IB_PS_INIT);
	assert_int_equal(f->port[far_b].pi.state, IB_PS_INIT);
	later(10000000);
	assert_int_equal(f->port[b].pi.state, IB_PS_DOWN);
	later(10000000);
	assert_int_equal(f->port[b].pi.state, IB_PS_INIT);
	assert_true(fab_fault_link(&m, far_a, true, now));
	assert_int_equal(f->port[a].pi.state, IB_PS_INIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_hosts, teardown_hosts)
		T(test_cable), T(test_cable_of_machine), T(test_cable_disabled),
		T(test_degrade), T(test_degrade_machine), T(test_flap), T(test_flap_late),
		T(test_flap_stood), T(test_swap), T(test_swap_faults),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
