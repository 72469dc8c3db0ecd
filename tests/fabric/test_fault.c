// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults on purpose: each does what it says, counts it, and harms nothing else. */
#include <jansson.h>

#include "fabric/control/control.h"
#include "fabric/fault/fault.h"
#include "fabric/watch/trace.h"
#include "hosts.h"

#include "ib/crc.h"
#include "ib/rate.h"

static int setup_hosts(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4"));
	place(0, 1);
	place(1, 7);
	return 0;
}

/* The first wire between switches from host[0] to host[1]. */
static uint32_t inner(void)
{
	uint32_t out[8];

	assert_true(path(1, LID(7), out, 8) >= 3);
	return out[0];
}

/* Another wire of the same switch, to another one. */
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

/* Sends @n packets. Return: how many arrived. */
static unsigned int send_many(unsigned int n)
{
	unsigned int got = 0;

	for (unsigned int i = 0; i < n; i++) {
		assert_true(send_data(0, 0, LID(7), 64, (uint8_t)i));
		pump_once();
		got += count_data(1, 0);
	}
	pump(NULL);
	return got + count_data(1, 0);
}

/* A wire that loses one of 16: what is missing is what it says, and the other end counts it. */
static void test_loss(void **st)
{
	const uint32_t p = inner(), q = f->port[p].peer;
	const struct fab_fault *x;
	unsigned int got;

	(void)st;
	assert_true(fab_fault_wire(&m, p, 1u << 28, 0, 5));
	got = send_many(2000);
	x = fab_extra_of(f, p)->fault;
	assert_in_range(x->lost, 90, 160);
	assert_int_equal(got + x->lost, 2000);
	assert_int_equal(d->n.drop[FAB_DROP_LOSS], x->lost);
	assert_int_equal(counters(q)->symbol_error, x->lost);
	assert_int_equal(counters(q)->rcv_errors, x->lost);
	assert_int_equal(counters(p)->symbol_error, 0);
	/* the same seed loses the same packets; without the fault nothing is lost */
	assert_true(fab_fault_wire(&m, p, 1u << 28, 0, 5));
	assert_int_equal(send_many(2000), got);
	assert_true(fab_fault_wire(&m, p, 0, 0, 5));
	assert_int_equal(send_many(500), 500);
}

/* The trap 129 that waits at the end port of port @p, or NULL. */
static const struct ib_notice *integrity_trap(uint32_t p)
{
	const struct fab_extra *x = fab_extra_of(f, fab_end_port(f, p));

	for (unsigned int i = 0; x && i < FAB_TRAPS; i++)
		if (x->trap[i].used && x->trap[i].n.trap == IB_TRAP_LOCAL_LINK_INTEGRITY)
			return &x->trap[i].n;
	return NULL;
}

/*
 * More errors than LocalPhyErrors without good packets between them are an error of the link's
 * integrity, at the end that receives them, which the subnet manager is told.
 */
static void test_integrity(void **st)
{
	const uint32_t p = inner(), q = f->port[p].peer;
	const struct ib_notice *n;
	uint64_t before;

	(void)st;
	assert_int_equal(f->port[q].pi.local_phy_errors, 8);
	/* one of four: the good ones make up for it */
	assert_true(fab_fault_wire(&m, p, 1u << 30, 0, 5));
	send_many(2000);
	assert_true(counters(q)->symbol_error > 400);
	assert_int_equal(counters(q)->local_link_integrity_errors, 0);
	assert_null(integrity_trap(q));
	/* all: the ninth */
	assert_true(fab_fault_wire(&m, p, UINT32_MAX, 0, 5));
	assert_int_equal(send_many(8), 0);
	assert_int_equal(counters(q)->local_link_integrity_errors, 0);
	before = m.stats.traps;
	assert_int_equal(send_many(1), 0);
	assert_int_equal(counters(q)->local_link_integrity_errors, 1);
	assert_int_equal(counters(p)->local_link_integrity_errors, 0);
	assert_true(m.stats.traps > before);
	n = integrity_trap(q);
	assert_non_null(n);
	assert_int_equal(n->type, IB_NOTICE_URGENT);
	assert_int_equal(ib_get_be16(n->details + 2), LID(f->port[q].node));
	assert_int_equal(n->details[4], fab_port_num(f, q));
	assert_null(integrity_trap(p));
	/* as often again, but a flood is no flood of traps */
	before = m.stats.traps;
	assert_int_equal(send_many(900), 0);
	assert_int_equal(counters(q)->local_link_integrity_errors, 101);
	assert_int_equal(m.stats.traps, before);
	/* another threshold; what a machine sends is an error of the switch's port */
	assert_true(fab_fault_wire(&m, p, 0, 0, 5));
	f->port[port_of_host(1)].pi.local_phy_errors = 3;
	assert_true(fab_fault_wire(&m, port_of_host(1), UINT32_MAX, 0, 5));
	assert_int_equal(send_many(3), 0);
	assert_int_equal(counters(port_of_host(1))->local_link_integrity_errors, 0);
	assert_int_equal(send_many(1), 0);
	assert_int_equal(counters(port_of_host(1))->local_link_integrity_errors, 1);
}

/* MADs are lost as well. */
static void test_loss_of_mads(void **st)
{
	const uint32_t p = inner();
	unsigned int lost = 0;

	(void)st;
	assert_true(fab_fault_wire(&m, p, 1u << 31, 0, 7));
	for (unsigned int i = 0; i < 100; i++)
		lost += get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0,
				LID(f->port[f->port[p].peer].node)) == FAB_LOST;
	assert_in_range(lost, 50, 95);
}

/* The cable of a machine: what it gets has a VCRC that is wrong, what it sends is not received. */
static void test_loss_at_machine(void **st)
{
	const uint32_t p = port_of_host(7);
	struct ohca_link_frame fr;
	unsigned int good = 0, bad = 0;

	(void)st;
	assert_true(fab_fault_wire(&m, p, 1u << 31, 0, 9));
	for (unsigned int i = 0; i < 100; i++) {
		assert_true(send_data(0, 0, LID(7), 64, (uint8_t)i));
		pump(NULL);
		assert_int_equal(ohca_link_rx_peek(host[1].l, 0, &fr), 1);
		if (!(fr.flags & OHCA_FRAME_VCRC))
			good++;
		else if (ib_vcrc(fr.data, fr.len) != fr.vcrc)
			bad++;
		ohca_link_rx_release(host[1].l, 0);
	}
	assert_int_equal(good + bad, 100);
	assert_int_equal(bad, d->n.drop[FAB_DROP_LOSS]);
	assert_in_range(bad, 30, 70);
	good = (unsigned int)d->n.delivered;
	for (unsigned int i = 0; i < 100; i++)
		assert_true(send_data(1, 0, LID(1), 64, (uint8_t)i));
	pump(NULL);
	assert_int_equal(counters(p)->symbol_error, d->n.drop[FAB_DROP_LOSS] - bad);
	assert_int_equal(d->n.delivered - good + counters(p)->symbol_error, 100);
	assert_in_range(counters(p)->symbol_error, 30, 70);
}

/* The same for MADs of agents, by VL15 and by a data lane. */
static void test_mads_at_machine(void **st)
{
	const uint32_t p = port_of_host(7);
	const uint8_t path[] = { 1 };
	unsigned int good = 0, bad = 0, came;
	struct ohca_link_frame fr;
	struct ib_smp smp;

	(void)st;
	pump(NULL);
	while (ohca_link_rx_peek(host[1].l, OHCA_LINK_VL15, &fr) > 0)
		ohca_link_rx_release(host[1].l, OHCA_LINK_VL15);
	assert_true(fab_fault_wire(&m, p, 1u << 31, 0, 9));
	for (unsigned int i = 0; i < 200; i++) {
		struct fab_mad mad = new_mad(i & 1 ? IB_CLASS_PERF : IB_CLASS_SUBN_LID,
					     IB_METHOD_GET, IB_ATTR_CLASS_PORT_INFO, 0);
		const unsigned int vl = i & 1 ? 0 : OHCA_LINK_VL15;

		mad.dqp = mad.sqp = i & 1;
		mad.dlid = LID(7);
		mad.slid = LID(8);
		fab_forward(&m, p, &mad);
		pump(NULL);
		assert_int_equal(ohca_link_rx_peek(host[1].l, vl, &fr), 1);
		if (!(fr.flags & OHCA_FRAME_VCRC))
			good++;
		else if (ib_vcrc(fr.data, fr.len) != fr.vcrc)
			bad++;
		ohca_link_rx_release(host[1].l, vl);
	}
	assert_int_equal(good + bad, 200);
	assert_in_range(bad, 60, 140);
	assert_int_equal(fab_extra_of(f, p)->fault->lost, bad);
	/* what the machine sends, and does not come: to the switch itself */
	came = (unsigned int)d->n.mads_in;
	for (unsigned int i = 0; i < 100; i++) {
		ep_smp_init(&host[1], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
		assert_true(ep_send_smp(&host[1], &smp, 0));
		pump(NULL);
	}
	came = (unsigned int)d->n.mads_in - came;
	assert_in_range(came, 30, 70);
	assert_int_equal(counters(p)->symbol_error, 100 - came);
}

/* The least significant byte comes first. */
static uint32_t icrc_of(const uint8_t *b)
{
	return (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

/* Damage that only the ICRC tells, on a wire in the middle; what waits on its way has it, too. */
static void test_corrupt(void **st)
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	struct ohca_link_frame fr;
	unsigned int bad = 0;

	(void)st;
	assert_true(fab_fault_wire(&m, inner(), 0, 1u << 30, 11));
	for (unsigned int i = 0; i < 50; i++)
		assert_true(send_data(0, 0, LID(7), 2048, 0x11));
	pump(NULL);
	for (unsigned int i = 0; i < 50; i++) {
		uint32_t icrc = 0;

		assert_int_equal(ohca_link_rx_peek(host[1].l, 0, &fr), 1);
		memcpy(pkt, fr.data, fr.len);
		ohca_link_rx_release(host[1].l, 0);
		ohca_link_kick(host[1].l);
		pump(NULL);
		if (!(fr.flags & OHCA_FRAME_ICRC)) {
			assert_int_equal(pkt[2043], 0x11);
			continue;
		}
		bad++;
		assert_int_equal(pkt[2043], 0x10);
		assert_int_equal(ib_icrc(pkt, 2044, &icrc), 0);
		assert_int_not_equal(icrc, icrc_of(pkt + 2044));
		pkt[2043] ^= 1;
		assert_int_equal(ib_icrc(pkt, 2044, &icrc), 0);
		assert_int_equal(icrc, icrc_of(pkt + 2044));
	}
	assert_int_equal(bad, fab_extra_of(f, inner())->fault->corrupted);
	assert_in_range(bad, 4, 25);
}

/* A cable that is pulled: both ends are Down and say so; plugged, they are Init. */
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

/* The cable of a machine: its link goes down, and comes up when it is plugged. */
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
	/* nor is it Active any longer when it is pulled at the machine's end */
	assert_true(fab_fault_link(&m, p, true, now));
	pump(NULL);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_true(fab_fault_link(&m, f->port[p].peer, false, now));
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	pump(NULL);
	assert_int_equal(counters(p)->link_downed, 3);	/* with its attachment */
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

/* A link that a subnet manager has disabled stays so when its cable is pulled and plugged. */
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

/* Whether a packet is lost is decided once, however often tables change while it waits. */
static void test_loss_once(void **st)
{
	unsigned int sent = 0;

	(void)st;
	for (unsigned int i = 0; i < 100; i++) {
		while (send_data(0, 0, LID(7), 4096, 1))
			sent++;
		pump(NULL);
	}
	assert_true(fab_fault_wire(&m, port_of_host(1), 1u << 28, 0, 3));
	for (unsigned int i = 0; i < 1000; i++) {
		m.epoch++;
		pump_once();
	}
	assert_in_range(d->n.drop[FAB_DROP_LOSS], 0, 8);
	assert_true(sent > 31);
}

/* A small rate loses nothing at first, whatever the seed. */
static void test_seeds(void **st)
{
	struct fab_fault *x;

	(void)st;
	for (uint64_t seed = 0; seed < 50; seed++) {
		assert_true(fab_fault_wire(&m, inner(), 4295, 0, seed));
		x = fab_extra_of(f, inner())->fault;
		assert_false(fab_fault_hits(x, x->loss));
	}
}

/* Ends of the wire as PortInfo shows it: width, speed, extended speed. */
static void expect_rate(uint32_t p, uint8_t width, uint8_t speed, uint8_t ext)
{
	for (unsigned int end = 0; end < 2; end++, p = f->port[p].peer) {
		assert_int_equal(f->port[p].pi.width_active, width);
		assert_int_equal(f->port[p].pi.speed_active, speed);
		assert_int_equal(f->port[p].pi.speed_ext_active, ext);
	}
}

/* A cable with fewer lanes and a lower speed: both ends train anew, and say what they have. */
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
	/* and still so after it was pulled */
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
	/* 2x, which no port has: nothing but 1x is in common; 8x to 12x is not */
	assert_true(fab_rate_limit(2, NULL, &at_most));
	assert_int_equal(at_most.width, IB_WIDTH_1X | IB_WIDTH_2X);
}

/* The cable of a machine: its end of the link trains to the same. */
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

/* Down and up again, three times, each at its time however late the timer is. */
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
	/* one that is up, or is a flap anew, does not flap any more */
	assert_true(fab_fault_flap(&m, p, 1000000, 5000000, 100, now));
	assert_true(fab_fault_flap(&m, q, 2000000, 5000000, 100, now));
	assert_true(fab_fault_link(&m, q, true, now));
	now += 1000000000;
	fab_mgmt_timer(&m, now);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_int_equal(counters(p)->link_downed, 4);
	assert_false(fab_fault_flap(&m, fab_port_of(&f->node[f->port[p].node], 0), 1, 2, 1, now));
}

/* Turns until all that is due at @now is done. */
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

/* After the fabric was a little late cables that flap catch up in short turns, in their order. */
static void test_flap_late(void **st)
{
	const uint32_t p = inner(), q = other_inner(p);

	(void)st;
	assert_true(fab_fault_flap(&m, p, 1000000, 2000000, 1000, now));
	assert_true(fab_fault_flap(&m, q, 1000000, 2000000, 1000, now));
	/* the first change is due 1 ms after the begin */
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

/* After it stood still for an hour what has passed is left out, and the flaps go on in their time. */
static void test_flap_stood(void **st)
{
	const uint32_t p = inner(), q = other_inner(p);
	const uint64_t begin = now, hour = 3600000000000;

	(void)st;
	assert_true(fab_fault_flap(&m, p, 1000000, 4000000, 1000000, now));
	assert_true(fab_fault_flap(&m, q, 1000000, 4000000, 1000, now));
	/* it was plugged 1 ms after the begin, and is so again, in each period */
	now = begin + hour + 500000;
	assert_in_range(flap_turns(p), 1, 3);
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	assert_int_equal(counters(p)->link_downed, 2);
	assert_true(m.deadline_ns <= begin + hour + 1000000);
	now = begin + hour + 1000000;
	flap_turns(p);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	/* 900,000 periods have passed; the one that is pulled still and the present one are none */
	assert_int_equal(m.stats.flaps_skipped, 900000 - 1 + 999);
	/* the other one has ended */
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

static void later(uint64_t ns)
{
	now += ns;
	pump(NULL);
}

/* Buffers that a minute did not need are given back, those in use are not. */
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

/* A request that was damaged on its way, and has waited there, is not answered either. */
static void test_corrupt_mad(void **st)
{
	const uint32_t p = inner(), far = f->port[f->port[p].peer].node;
	struct ib_mad mad = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF,
				       .class_version = 1, .method = IB_METHOD_GET } };
	uint8_t pkt[512];

	(void)st;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	assert_true(fab_fault_delay(&m, p, 5000000));
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(fab_fault_wire(&m, p, 0, i ? UINT32_MAX : 0, 11));
		ep_build(pkt, 0, 0, LID(far), host[0].lid, IB_QP1, IB_QKEY_GSI, IB_DEFAULT_PKEY,
			 &mad);
		assert_true(ep_send_raw(&host[0], 0, pkt, IB_MAD_PKT_LEN));
		later(1000);
		assert_int_equal(d->flying, 1);
		later(5000000);
		assert_int_equal(d->flying, 0);
		later(5000000);
		assert_int_equal(ep_recv(&host[0], 0, pkt, sizeof(pkt)), i ? 0 : IB_MAD_PKT_LEN);
		assert_int_equal(d->n.drop[FAB_DROP_DAMAGED], i);
	}
}

/* One direction of a wire takes 5 ms more: what is on its way is not there, then is in order. */
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
	/* nothing overtakes what is on its way when the delay is taken back */
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
	/* another lane has its own */
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

/* What is on its way when the link goes down is lost, even if it comes up at once. */
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

/* What a machine gets and sends is delayed as well, bounded, with its loss. */
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
	/* the other direction, while packets are in the ring for which there is no credit */
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
	/* without it packets come by the ring again */
	assert_true(fab_fault_delay(&m, q, 0));
	assert_true(fab_fault_wire(&m, q, 0, 0, 4));
	pump(NULL);
	assert_false(d->by_port[p]->buffers);
	assert_true(send_data(1, 0, LID(1), 64, 9));
	pump(NULL);
	expect_data(0, 0, 64, 9);
}

/* What a ring was before a delay, or before its link went down, says nothing of it after that. */
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

/* A switch that is off; on again it has forgotten everything. */
static void test_node(void **st)
{
	const uint32_t q = f->port[inner()].peer, node = f->port[q].node;
	const struct fab_node *n = &f->node[node];
	struct way *w = calloc(f->nodes, sizeof(*w));

	struct fab_extra *x = fab_extra(f, fab_port_of(n, 0));
	const uint32_t keys = f->port[fab_port_of(n, 0)].pkeys, held = f->sw_pkeys.ref[keys];

	(void)st;
	assert_non_null(w);
	assert_non_null(x);
	x->guid[1] = 5;
	assert_true(fab_fault_node(&m, node, false, now));
	for (unsigned int i = 1; i <= n->nports; i++)
		assert_int_equal(f->port[f->port[fab_port_of(n, i)].peer].pi.state, IB_PS_DOWN);
	assert_int_equal(send_many(3), 0);
	assert_true(fab_fault_node(&m, node, true, now));
	for (unsigned int i = 1; i <= n->nports; i++)
		assert_int_equal(f->port[f->port[fab_port_of(n, i)].peer].pi.state, IB_PS_INIT);
	assert_int_equal(f->port[fab_port_of(n, 0)].pi.lid, 0);
	assert_int_equal(f->sw[n->sw].lft_blocks, 0);
	assert_true(x->guid[0] == n->guid);
	assert_int_equal(x->guid[1], 0);
	/* a table that nobody has can go */
	assert_int_equal(f->sw_pkeys.ref[keys], held);
	ways(HOST, w);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, w[node].route, NULL),
			 FAB_DELIVERED);
	free(w);
	counts_anew[node] = true;
}

/* Every third NodeInfo of one switch is lost, and nothing else. */
static void test_smps(void **st)
{
	const uint32_t node = f->port[port_of_host(0)].node;
	unsigned int lost = 0;

	(void)st;
	assert_true(fab_fault_smp(&m, node, IB_SMP_ATTR_NODE_INFO, 3));
	for (unsigned int i = 0; i < 9; i++) {
		lost += ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "1", NULL) == FAB_LOST;
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 0, "1", NULL),
				 FAB_DELIVERED);
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "", NULL),
				 FAB_DELIVERED);
	}
	assert_int_equal(lost, 3);
	assert_int_equal(m.smp_fault[0].dropped, 3);
	assert_true(fab_fault_smp(&m, node, IB_SMP_ATTR_NODE_INFO, 0));
	for (unsigned int i = 0; i < 9; i++)
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "1", NULL),
				 FAB_DELIVERED);
	for (uint16_t a = 0; a < FAB_SMP_FAULTS; a++)
		assert_true(fab_fault_smp(&m, node, (uint16_t)(0x100 + a), 1));
	assert_false(fab_fault_smp(&m, node, 0x200, 1));
	/* one in the midst ends, and the others go on */
	assert_true(fab_fault_smp(&m, node, 0x105, 0));
	assert_true(fab_fault_smp(&m, node, 0x105, 0));
	assert_true(fab_fault_smp(&m, node, 0x200, 1));
	assert_true(fab_fault_smp(&m, node, 0x10f, 2));
	assert_false(fab_fault_smp(&m, node, 0x105, 1));
	for (unsigned int i = 0; i < FAB_SMP_FAULTS; i++)
		assert_int_equal(m.smp_fault[i].nth, m.smp_fault[i].attr == 0x10f ? 2 : 1);
}

/* SMPs that only pass a node on their way are not for it: they are not lost, nor counted. */
static void test_smps_in_transit(void **st)
{
	const uint32_t leaf = f->port[port_of_host(0)].node;

	(void)st;
	assert_true(fab_fault_smp(&m, leaf, IB_SMP_ATTR_NODE_INFO, 2));
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "13", NULL),
				 FAB_DELIVERED);
	assert_int_equal(m.smp_fault[0].seen, 0);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "1", NULL), FAB_DELIVERED);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "1", NULL), FAB_LOST);
	assert_int_equal(m.smp_fault[0].dropped, 1);
	/* nor one to the host behind it */
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "12", NULL), FAB_DELIVERED);
}

/* A Set or Get of an attribute of the performance agent at port @num of @lid. */
static void perf(uint8_t method, uint16_t attr, unsigned int num, uint16_t lid, uint8_t *d)
{
	struct fab_mad mad = new_mad(IB_CLASS_PERF, method, attr, 0);
	uint8_t *to = (uint8_t *)&mad.mad + IB_PMA_DATA_OFF;

	if (d)
		memcpy(to, d, IB_PMA_DATA_LEN);
	to[1] = (uint8_t)num;
	if (attr != IB_PMA_ATTR_SAMPLES_CONTROL)
		memset(to + 2, 0xff, attr == IB_PMA_ATTR_PORT_COUNTERS_EXT ? 6 : 2);
	assert_int_equal(ask_lid(&mad, lid), FAB_DELIVERED);
	assert_int_equal(status(), 0);
}

static const uint8_t *got_perf(void)
{
	return (const uint8_t *)&got.mad + IB_PMA_DATA_OFF;
}

/* A counter is what it is preset to, for performance managers, too, whatever they have reset. */
static void test_preset(void **st)
{
	const uint32_t p = inner();
	const unsigned int num = fab_port_num(f, p);
	const uint16_t lid = LID(f->port[p].node);
	struct ib_pma_samples_control ctl = {
		.port_select = (uint8_t)num,
		.sample_interval = 1000000,
		.counter_select[0] = IB_PMA_SAMPLE_XMIT_WAIT,
	};
	uint8_t sample[IB_PMA_DATA_LEN] = { 0 };

	(void)st;
	assert_true(fab_fault_preset(f, p, "SymbolErrorCounter", 77));
	assert_int_equal(counters(p)->symbol_error, 77);
	assert_false(fab_fault_preset(f, p, "NoSuchCounter", 77));
	/* below what they have reset */
	assert_true(fab_fault_preset(f, p, "SymbolErrorCounter", 1000));
	perf(IB_METHOD_SET, IB_PMA_ATTR_PORT_COUNTERS, num, lid, NULL);
	perf(IB_METHOD_SET, IB_PMA_ATTR_PORT_COUNTERS_EXT, num, lid, NULL);
	perf(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, num, lid, NULL);
	assert_int_equal(ib_get_be16(got_perf() + 4), 0);
	assert_true(fab_fault_preset(f, p, "SymbolErrorCounter", 5));
	perf(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, num, lid, NULL);
	assert_int_equal(ib_get_be16(got_perf() + 4), 5);
	perf(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS_EXT, num, lid, NULL);
	assert_int_equal(ib_get_be64(got_perf() + 72), 5);
	/* while it is sampled: a change by preset is nothing that happened */
	assert_true(fab_fault_preset(f, p, "PortXmitWait", 1000));
	ib_pma_psc_pack(&ctl, sample);
	perf(IB_METHOD_SET, IB_PMA_ATTR_SAMPLES_CONTROL, num, lid, sample);
	assert_true(fab_fault_preset(f, p, "PortXmitWait", 7));
	fab_extra(f, p)->ctr.xmit_wait += 3;
	now += 1000000000;
	fab_mgmt_timer(&m, now);
	perf(IB_METHOD_GET, IB_PMA_ATTR_SAMPLES_RESULT, num, lid, NULL);
	assert_int_equal(ib_get_be16(got_perf() + 2), 0);	/* done */
	assert_int_equal(ib_get_be32(got_perf() + 4), 3);
}

/* A switch that is off sends no traps. On again it has counted nothing. */
static void test_dead_switch(void **st)
{
	const uint32_t q = f->port[inner()].peer, node = f->port[q].node;
	const struct fab_node *n = &f->node[node];
	const uint8_t details[54] = { 0 };
	struct ohca_port_counters c;
	uint64_t lost, traps;

	(void)st;
	send_many(10);
	perf(IB_METHOD_SET, IB_PMA_ATTR_PORT_COUNTERS, fab_port_num(f, q), LID(node), NULL);
	/* one waits to be repeated, and its neighbours send theirs */
	fab_raise_trap(&m, q, IB_NOTICE_URGENT, IB_TRAP_LOCAL_LINK_INTEGRITY, details);
	fab_mgmt_timer(&m, now);
	assert_true(fab_fault_node(&m, node, false, now));
	for (unsigned int i = 0; i < 100; i++) {
		now += 5000000000;
		fab_mgmt_timer(&m, now);
		pump(NULL);
		if (i == 80) {
			traps = m.stats.traps;
			lost = m.stats.lost;
		}
	}
	assert_int_equal(m.stats.traps, traps);
	assert_int_equal(m.stats.lost, lost);
	for (unsigned int i = 1; i <= n->nports; i++)
		assert_int_equal(counters(fab_port_of(n, i))->xmit_discards, 0);
	fab_raise_trap(&m, q, IB_NOTICE_URGENT, IB_TRAP_LOCAL_LINK_INTEGRITY, details);
	assert_null(integrity_trap(q));
	assert_true(fab_fault_node(&m, node, true, now));
	fab_counters(&m, q, &c);
	assert_int_equal(c.rcv_pkts + c.xmit_pkts + c.link_downed, 0);
	assert_true(fab_extra_of(f, q)->pma.base.rcv_pkts == 0);
	counts_anew[node] = true;
}

/* A GMP from host[0] to the agent of @lid. */
static void send_gmp(uint16_t lid)
{
	struct fab_mad mad = new_mad(IB_CLASS_PERF, IB_METHOD_GET, IB_ATTR_CLASS_PORT_INFO, 0);
	uint8_t pkt[IB_MAD_PKT_LEN];

	mad.dlid = lid;
	mad.slid = LID(1);
	mad.dqp = mad.sqp = 1;
	assert_true(ep_send_raw(&host[0], 0, pkt, fab_mad_packet(pkt, &mad, 0)));
}

/* A machine's packets for the LID of port 0 arrive there, whatever the forwarding table has. */
static void test_port0_without_route(void **st)
{
	const uint32_t leaf = f->port[port_of_host(1)].node;
	const uint16_t lid = LID(leaf);
	const uint64_t before = m.stats.other;
	struct fab_way *w = calloc(1, sizeof(*w));

	(void)st;
	assert_non_null(w);
	f->sw[f->node[leaf].sw].lft[lid] = IB_LFT_NO_PORT;
	m.epoch++;
	fab_trace(f, fab_port_of(&f->node[1], 1), lid, w);
	assert_int_equal(w->end, FAB_WAY_ARRIVES);
	free(w);
	send_gmp(lid);
	pump(NULL);
	assert_int_equal(m.stats.other, before + 1);
	assert_int_equal(d->n.drop[FAB_DROP_ROUTE], 0);
}

/* A machine's own cable damages what it sends, and what it gets, with and without a delay. */
static void test_corrupt_at_machine(void **st)
{
	struct ohca_link_frame fr;
	unsigned int sent = 0;

	(void)st;
	assert_true(fab_fault_wire(&m, port_of_host(1), 0, UINT32_MAX, 11));
	for (unsigned int later_ns = 0; later_ns <= 2000000; later_ns += 1000000) {
		for (unsigned int back = 0; back < 2; back++) {
			struct ep *to = &host[1 - back];

			assert_true(fab_fault_delay(&m, f->port[port_of_host(1)].peer, later_ns));
			assert_true(fab_fault_delay(&m, port_of_host(1), later_ns));
			/* the first is decided on twice: it is damaged once */
			assert_true(send_data(back, 0, LID(back ? 1 : 7), 256, 0x11));
			pump_once();
			m.epoch++;
			pump(NULL);
			now += later_ns;
			pump(NULL);
			sent++;
			assert_int_equal(ohca_link_rx_peek(to->l, 0, &fr), 1);
			assert_int_equal(fr.flags & OHCA_FRAME_ICRC, OHCA_FRAME_ICRC);
			assert_int_equal(fr.data[251], 0x10);
			ohca_link_rx_release(to->l, 0);
			ohca_link_kick(to->l);
			pump(NULL);
		}
	}
	assert_int_equal(fab_extra_of(f, port_of_host(1))->fault->corrupted +
			 fab_extra_of(f, f->port[port_of_host(1)].peer)->fault->corrupted, sent);
}

/* An answer that comes over a delayed wire is with the machine as soon as it is due. */
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
	fab_data_awake(d);
}

/* On a machine's cable SMPs, MADs of agents and data packets are late alike, in their order. */
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
	/* what agents send is no data */
	assert_int_equal(d->n.delivered, delivered + 2 + 1);
	/* the other direction; what is on its way is lost with the link */
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

static json_t *asked(const char *ask)
{
	char *text = fab_control_answer(&m, d, ask, strlen(ask), NULL);
	json_t *v;

	assert_non_null(text);
	v = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(v);
	return v;
}

/* status has what became of data packets, and all memory. */
static void test_status(void **st)
{
	json_t *v, *data, *drops;
	char *text = NULL;
	size_t len = 0;
	FILE *out;

	(void)st;
	assert_int_equal(send_many(5), 5);
	assert_true(send_data(0, 0, 0xbfff, 64, 1));
	assert_true(fab_fault_link(&m, port_of_host(7), false, now));
	assert_int_equal(send_many(3), 0);
	v = asked("{\"command\": \"status\"}");
	data = json_object_get(v, "data");
	drops = json_object_get(data, "dropped");
	assert_int_equal(json_integer_value(json_object_get(data, "delivered")), 5);
	assert_int_equal(json_integer_value(json_object_get(drops, "no route")), 1);
	assert_int_equal(json_integer_value(json_object_get(drops, "the output is not Active")), 3);
	assert_int_equal(json_object_size(drops), 2);
	assert_true(json_integer_value(json_object_get(v, "memory_bytes")) >=
		    (json_int_t)(fab_bytes(f) + d->n.buffer_bytes + 2 * sizeof(struct fab_dport)));
	assert_true(json_integer_value(json_object_get(data, "link_bytes")) > 0);
	assert_int_equal(json_integer_value(json_object_get(data, "capture_bytes")), 0);
	assert_true(json_integer_value(json_object_get(v, "memory_bytes")) >=
		    (json_int_t)fab_bytes(f) + json_integer_value(json_object_get(data, "link_bytes")));
	json_decref(v);
	out = open_memstream(&text, &len);
	assert_non_null(out);
	fab_data_print(d, out);
	fclose(out);
	assert_non_null(strstr(text, "delivered 5,"));
	assert_non_null(strstr(text, "dropped: no route: 1\n"));
	free(text);
}

/* The port of a machine is shown as the switch has it: state, rate, LIDs. */
static void test_machine_shown(void **st)
{
	const uint32_t p = port_of_host(7), end = f->port[p].peer;
	uint8_t lft[IB_LFT_PER_BLOCK];
	struct way *w = calloc(f->nodes, sizeof(*w));
	json_t *v, *port;

	(void)st;
	assert_non_null(w);
	assert_int_equal(f->port[end].pi.state, IB_PS_DOWN);
	v = asked("{\"command\": \"topology\", \"node\": \"host8\"}");
	port = json_array_get(json_object_get(json_array_get(json_object_get(v, "nodes"), 0),
					      "ports"), 0);
	assert_string_equal(json_string_value(json_object_get(port, "state")), "Active");
	assert_string_equal(json_string_value(json_object_get(port, "rate")), "4xEDR");
	assert_int_equal(json_integer_value(json_object_get(port, "lid")), LID(7));
	assert_int_equal(json_integer_value(json_object_get(port, "lmc")), 0);
	json_decref(v);
	/* four LIDs, as a subnet manager writes them */
	assert_int_equal(fab_end_lid(f, end), LID(7));
	ways(HOST, w);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_LFT, 0, w[f->port[p].node].route, NULL),
			 FAB_DELIVERED);
	memcpy(lft, got.smp.data, sizeof(lft));
	lft[LID(7)] = IB_LFT_NO_PORT;
	memset(lft + 20, (int)fab_port_num(f, p), 4);
	assert_int_equal(ask(IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, w[f->port[p].node].route, lft),
			 FAB_DELIVERED);
	if (f->sw[f->node[f->port[p].node].sw].si.linear_top < 23)
		f->sw[f->node[f->port[p].node].sw].si.linear_top = 23;
	assert_int_equal(fab_end_lid(f, end), 20);
	assert_int_equal(fab_end_lmc(f, end), 2);
	assert_true(fab_fault_node(&m, f->port[p].node, false, now));
	assert_true(fab_fault_node(&m, f->port[p].node, true, now));
	assert_int_equal(fab_end_lid(f, end), 0);
	counts_anew[f->port[p].node] = true;
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_hosts, teardown_hosts)
		T(test_loss), T(test_integrity), T(test_loss_of_mads), T(test_loss_at_machine),
		T(test_mads_at_machine),
		T(test_corrupt), T(test_corrupt_mad), T(test_trim),
		T(test_cable), T(test_cable_of_machine), T(test_cable_disabled), T(test_loss_once),
		T(test_degrade), T(test_degrade_machine), T(test_flap), T(test_flap_late),
		T(test_flap_stood), T(test_delay),
		T(test_delay_credits), T(test_delay_down), T(test_delay_machine), T(test_delay_forgets),
		T(test_seeds), T(test_node), T(test_smps), T(test_preset),
		T(test_smps_in_transit), T(test_dead_switch), T(test_port0_without_route),
		T(test_corrupt_at_machine), T(test_delayed_answer), T(test_status),
		T(test_machine_shown), T(test_delay_mads_at_machine),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
