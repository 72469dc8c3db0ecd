// SPDX-License-Identifier: GPL-2.0-or-later
/* MADs by LID in a configured subnet, traps, leases, samples, links that go down. */
#include "subnet.h"

#include "fabric/fault/fault.h"

static int setup_up(void **st)
{
	setup(st);
	subnet_up();
	m.stats = (struct fab_mgmt_stats){ 0 };
	return 0;
}

/* Runs timers until @ns, each at its time. */
static void run_until(uint64_t ns)
{
	while (m.deadline_ns <= ns) {
		if (now < m.deadline_ns)
			now = m.deadline_ns;
		fab_mgmt_timer(&m, now);
	}
	now = ns;
	fab_mgmt_timer(&m, now);
}

static void lids(void **st)
{
	struct ib_node_info ni;

	(void)st;
	for (uint32_t i = 0; i < f->nodes; i++) {
		got_n = 0;
		assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, LID(i)),
				 FAB_DELIVERED);
		assert_int_equal(got_n, 1);
		assert_int_equal(got_port, PORT);
		assert_int_equal(status(), 0);
		ib_node_info_unpack(got.smp.data, &ni);
		assert_true(ni.node_guid == f->node[i].guid);
		assert_int_equal(got.slid, LID(i));
		assert_int_equal(got.dlid, LID(HOST));
		assert_int_equal(got.dqp, 0);
	}
	/* a LID of no node; a LID without a route; a multicast LID */
	assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, LID(f->nodes)),
			 FAB_LOST);
	assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, 40000), FAB_LOST);
	assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, 0xc001), FAB_LOST);
	assert_int_equal(m.stats.lost, 3);
}

/* Two switches that route a LID to each other. */
static void loop(void **st)
{
	const struct fab_node *leaf = &f->node[8], *spine = &f->node[12];

	(void)st;
	assert_int_equal(f->port[f->port[fab_port_of(leaf, 3)].peer].node, 12);
	f->sw[leaf->sw].lft[30] = 3;
	f->sw[spine->sw].lft[30] = (uint8_t)fab_port_num(f, f->port[fab_port_of(leaf, 3)].peer);
	f->sw[leaf->sw].si.linear_top = f->sw[spine->sw].si.linear_top = 30;
	/* a switch does not send a packet back by the port at which it arrived */
	assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, 30), FAB_LOST);
	assert_int_equal(m.stats.hops, 2);
	/* a loop of four switches */
	f->sw[spine->sw].lft[30] = 2;
	f->sw[f->node[9].sw].lft[30] = 4;
	f->sw[f->node[13].sw].lft[30] = 1;
	f->sw[f->node[9].sw].si.linear_top = f->sw[f->node[13].sw].si.linear_top = 30;
	assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, 30), FAB_LOST);
	assert_in_range(m.stats.hops, 100, 300);
}

/* ---- performance --------------------------------------------------------------- */

#define PMA_DATA	((uint8_t *)&got + IB_PMA_DATA_OFF)

static enum fab_fate pma(uint8_t method, uint16_t attr, uint8_t port, uint16_t select, uint16_t lid)
{
	struct fab_mad mad = new_mad(IB_CLASS_PERF, method, attr, 0);
	uint8_t *d = (uint8_t *)&mad + IB_PMA_DATA_OFF;

	d[1] = port;
	ib_put_be16(d + 2, select);
	return ask_lid(&mad, lid);
}

static uint32_t rcv_pkts(uint8_t port, uint16_t lid)
{
	assert_int_equal(pma(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, port, 0, lid),
			 FAB_DELIVERED);
	assert_int_equal(status(), 0);
	return ib_get_be32(PMA_DATA + 36);
}

static void counters(void **st)
{
	const uint32_t leaf = 8;
	uint32_t host, n;

	(void)st;
	n = rcv_pkts(1, LID(leaf));
	assert_int_equal(n, f->port[fab_port_of(&f->node[leaf], 1)].rcv_mads);
	/*
	 * the next request adds one; the request to a host does not pass port 2, but the response
	 * does
	 */
	assert_int_equal(rcv_pkts(1, LID(leaf)), n + 1);
	host = rcv_pkts(1, LID(1));
	assert_int_equal(host, f->port[fab_port_of(&f->node[1], 1)].rcv_mads);
	n = rcv_pkts(2, LID(leaf));
	rcv_pkts(1, LID(1));
	assert_int_equal(rcv_pkts(2, LID(leaf)), n + 1);
	assert_int_equal(got.dqp, 1);
	/* reading needs no memory; a reset does, and the other ports keep their counts */
	assert_int_equal(f->extras, 1);
	assert_int_equal(pma(IB_METHOD_SET, IB_PMA_ATTR_PORT_COUNTERS, 1, 0xffff, LID(leaf)),
			 FAB_DELIVERED);
	assert_int_equal(rcv_pkts(1, LID(leaf)), 1);
	host = rcv_pkts(2, LID(leaf));
	assert_true(host > 2);
	assert_true(rcv_pkts(IB_PMA_ALL_PORTS, LID(leaf)) > host + 2);
	/* an invalid port, an invalid attribute */
	assert_int_equal(pma(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, 5, 0, LID(leaf)),
			 FAB_DELIVERED);
	assert_int_equal(status(), IB_MAD_BAD_FIELD);
	assert_int_equal(get_lid(IB_CLASS_PERF, 0x7f, 0, LID(1)), FAB_DELIVERED);
	assert_int_equal(status(), IB_MAD_BAD_METHOD_ATTR);
	/* a class without an agent */
	assert_int_equal(get_lid(0x32, 1, 0, LID(1)), FAB_DELIVERED);
	assert_true(status() != 0);
}

/* An interval of one second begins with the Set and ends by itself. */
static void samples(void **st)
{
	struct ib_pma_samples_control psc = {
		.port_select = 1, .sample_interval = 1000000000 / IB_PMA_TICK_NS, .tag = 7,
		.counter_select = { IB_PMA_SAMPLE_RCV_PKTS },
	};
	struct fab_mad mad = new_mad(IB_CLASS_PERF, IB_METHOD_SET, IB_PMA_ATTR_SAMPLES_CONTROL, 0);

	(void)st;
	assert_true(m.deadline_ns == UINT64_MAX);
	ib_pma_psc_pack(&psc, (uint8_t *)&mad + IB_PMA_DATA_OFF);
	assert_int_equal(ask_lid(&mad, LID(8)), FAB_DELIVERED);
	assert_int_equal(status(), 0);
	assert_true(m.deadline_ns == now + 1000000000);
	assert_non_null(m.samples.first);
	for (unsigned int i = 0; i < 4; i++)
		rcv_pkts(1, LID(8));
	run_until(now + 1000000000);
	assert_null(m.samples.first);
	assert_true(m.deadline_ns == UINT64_MAX);
	assert_int_equal(get_lid(IB_CLASS_PERF, IB_PMA_ATTR_SAMPLES_RESULT, 0, LID(8)),
			 FAB_DELIVERED);
	assert_int_equal(ib_get_be16(PMA_DATA), 7);
	assert_int_equal(ib_get_be16(PMA_DATA + 2), IB_PMA_SAMPLE_DONE);
	assert_int_equal(ib_get_be32(PMA_DATA + 4), 4);
}

/* A link that is not Active transports only SMPs. */
static void not_active(void **st)
{
	(void)st;
	set_state("13", 3, IB_PS_DOWN, IB_PHYS_POLLING);
	/* from the spine's port 3 to leaf 10, on the route of its hosts' LIDs */
	assert_int_equal(f->port[fab_port_of(&f->node[12], 3)].pi.state, IB_PS_INIT);
	assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, LID(10)),
			 FAB_DELIVERED);
	assert_int_equal(get_lid(IB_CLASS_PERF, IB_PMA_ATTR_PORT_COUNTERS, 0, LID(10)), FAB_LOST);
	set_state("13", 3, IB_PS_ARMED, IB_PHYS_NO_CHANGE);
	set_state("133", 3, IB_PS_ARMED, IB_PHYS_NO_CHANGE);
	set_state("13", 3, IB_PS_ACTIVE, IB_PHYS_NO_CHANGE);
	/* a data packet makes the other end Active */
	assert_int_equal(pma(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, 0, 0, LID(10)),
			 FAB_DELIVERED);
	assert_int_equal(f->port[fab_port_of(&f->node[10], 3)].pi.state, IB_PS_ACTIVE);
}

/* ---- wires with a delay -------------------------------------------------------- */

#define DELAY	50000u

/* The wire from leaf 8 to spine 12, with its way back. */
static uint32_t there(void)
{
	return fab_port_of(&f->node[8], 3);
}

static enum fab_fate get_node_info(const char *route)
{
	return ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, route, NULL);
}

/* An SMP is delayed by the wires of its route and of the way back, and by no others. */
static void delayed(void **st)
{
	(void)st;
	assert_true(fab_fault_delay(&m, there(), DELAY));
	got_n = 0;
	assert_int_equal(get_node_info("14"), FAB_DELIVERED);
	assert_int_equal(get_node_info("13"), FAB_UNDER_WAY);
	assert_int_equal(got_n, 1);
	run_until(now + DELAY - 1);
	assert_int_equal(got_n, 1);
	run_until(now + 1);
	assert_int_equal(got_n, 2);
	assert_int_equal(status(), 0);
	assert_true(fab_fault_delay(&m, f->port[there()].peer, 2 * DELAY));
	assert_int_equal(get_lid(IB_CLASS_PERF, IB_PMA_ATTR_PORT_COUNTERS, 0, LID(12)),
			 FAB_UNDER_WAY);
	run_until(now + 3 * DELAY - 1);
	assert_int_equal(got_n, 2);
	run_until(now + 1);
	assert_int_equal(got_n, 3);
	assert_true(m.deadline_ns == UINT64_MAX);
}

/* A MAD sent after the delay was removed does not overtake earlier ones. */
static void delay_order(void **st)
{
	(void)st;
	assert_true(fab_fault_delay(&m, there(), DELAY));
	assert_int_equal(get_node_info("13"), FAB_UNDER_WAY);
	assert_true(fab_fault_delay(&m, there(), 0));
	assert_int_equal(get_node_info("131"), FAB_UNDER_WAY);
	got_n = 0;
	run_until(now + DELAY);
	assert_int_equal(got_n, 2);
	/* the MAD over three hops is the last */
	assert_int_equal(got.smp.hdr.class_specific, ib_to_be16(3));
	assert_int_equal(get_node_info("13"), FAB_DELIVERED);
}

/* A MAD in a routing loop is dropped after a while. */
static void delayed_loop(void **st)
{
	const uint8_t to_spine = 3, to_leaf = 2;	/* 8 - 12 - 9 - 13 - 8 */

	(void)st;
	for (uint32_t i = 8; i < 14; i++)
		f->sw[f->node[i].sw].si.linear_top = 30;
	f->sw[f->node[8].sw].lft[30] = to_spine;
	f->sw[f->node[12].sw].lft[30] = to_leaf;
	f->sw[f->node[9].sw].lft[30] = 4;
	f->sw[f->node[13].sw].lft[30] = 1;
	assert_true(fab_fault_delay(&m, there(), DELAY));
	assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, 30),
			 FAB_UNDER_WAY);
	run_until(now + 256 / 4 * DELAY);
	assert_int_equal(m.flights, 0);
	assert_in_range(m.stats.hops, 100, 300);
	assert_int_equal(m.stats.lost, 1);
}

/* MADs in flight are lost with the link; their number is limited. */
static void delay_bounds(void **st)
{
	struct fab_fault *x;

	(void)st;
	assert_true(fab_fault_delay(&m, there(), DELAY));
	x = fab_extra_of(f, there())->fault;
	got_n = 0;
	for (unsigned int i = 0; i < FAB_MAD_FLIGHTS; i++)
		assert_int_equal(get_node_info("13"), FAB_UNDER_WAY);
	assert_int_equal(get_node_info("13"), FAB_LOST);
	assert_true(x->lost == 1);
	assert_true(fab_fault_link(&m, there(), false, now));
	assert_true(fab_fault_link(&m, there(), true, now));
	run_until(now + DELAY);
	assert_true(x->lost == FAB_MAD_FLIGHTS + 1);
	assert_int_equal(m.flights, 0);
	assert_int_equal(get_node_info("13"), FAB_UNDER_WAY);
	fab_mad_forget(&m);
	assert_int_equal(m.flights, 0);
}

/* ---- traps and leases ---------------------------------------------------------- */

static void repress(void)
{
	struct fab_mad mad = got;

	mad.mad.hdr.method = IB_METHOD_TRAP_REPRESS;
	assert_int_equal(ask_lid(&mad, got.slid), FAB_CONSUMED);
}

/* The switch at the other end sends a trap, and repeats it until it is repressed. */
static void link_trap(void **st)
{
	struct ib_notice n;

	(void)st;
	got_n = 0;
	set_state("14", 2, IB_PS_DOWN, IB_PHYS_DISABLED);	/* spine 13 to leaf 9 */
	assert_int_equal(got_n, 2);
	assert_true(m.deadline_ns <= now);
	run_until(now);
	assert_int_equal(got_n, 3);
	assert_int_equal(got.mad.hdr.method, IB_METHOD_TRAP);
	assert_int_equal(got.slid, LID(9));
	ib_notice_unpack(got.smp.data, &n);
	assert_int_equal(n.trap, IB_TRAP_LINK_STATE_CHANGE);
	assert_int_equal(n.producer, IB_NODE_SWITCH_DEVICE);
	assert_int_equal(ib_get_be16(n.details), LID(9));
	run_until(now + 3500000000);
	assert_int_equal(got_n, 6);
	assert_non_null(m.ends.first);
	repress();
	run_until(now + 10000000000);
	assert_int_equal(got_n, 6);
	assert_int_equal(m.stats.traps, 4);
	/* no trap waits, so no timer runs */
	assert_null(m.ends.first);
	assert_true(m.deadline_ns == UINT64_MAX);
}

/* Two switches report two links; each has its own timer. */
static void two_traps(void **st)
{
	(void)st;
	set_state("14", 2, IB_PS_DOWN, IB_PHYS_DISABLED);
	run_until(now + 400000000);
	set_state("14", 3, IB_PS_DOWN, IB_PHYS_DISABLED);
	got_n = 0;
	run_until(now + 100);
	assert_int_equal(got_n, 1);
	assert_int_equal(got.slid, LID(10));
	run_until(now + 700000000);
	assert_int_equal(got_n, 2);
	assert_int_equal(got.slid, LID(9));
	run_until(now + 400000000);
	assert_int_equal(got_n, 3);
	assert_int_equal(got.slid, LID(10));
}

static void is_sm(void **st)
{
	struct ib_notice n;

	(void)st;
	got_n = 0;
	fab_mgmt_set_issm(&m, fab_port_of(&f->node[5], 1), true, now);
	fab_mgmt_set_issm(&m, fab_port_of(&f->node[5], 1), true, now);
	run_until(now + 100);
	assert_int_equal(got_n, 1);
	ib_notice_unpack(got.smp.data, &n);
	assert_int_equal(n.trap, IB_TRAP_CAP_MASK_CHANGE);
	assert_true(ib_get_be32(n.details + 6) & IB_CAP_SM);
	/* a link that goes down ends the host's trap, and no switch reports it */
	set_state("13", 3, IB_PS_NO_CHANGE, IB_PHYS_NO_CHANGE);
	set_state("133", 2, IB_PS_DOWN, IB_PHYS_DISABLED);
	got_n = 0;
	run_until(now + 5000000000);
	assert_int_equal(got_n, 0);
	assert_null(m.ends.first);
}

/* The SM's own host reports without a packet, and accepts the TrapRepress. */
static void own_trap(void **st)
{
	const uint64_t xmit = f->port[PORT].xmit_mads;
	struct ohca_port_counters c;
	struct ib_notice n;

	(void)st;
	assert_int_equal(f->port[PORT].pi.sm_lid, f->port[PORT].pi.lid);
	got_n = 0;
	fab_mgmt_set_issm(&m, PORT, true, now);
	run_until(now + 100);
	assert_int_equal(got_n, 1);
	assert_int_equal(got_port, PORT);
	assert_int_equal(got.slid, f->port[PORT].pi.lid);
	ib_notice_unpack(got.smp.data, &n);
	assert_int_equal(n.trap, IB_TRAP_CAP_MASK_CHANGE);
	repress();
	run_until(now + 10000000000);
	assert_int_equal(got_n, 1);
	assert_null(m.ends.first);
	assert_true(f->port[PORT].xmit_mads == xmit);
	fab_counters(&m, f->port[PORT].peer, &c);
	assert_true(c.rcv_switch_relay_errors == 0);
}

/* A wrong M_Key gets no response, is counted, causes a trap, and starts the lease. */
static void mkey(void **st)
{
	const uint32_t p = fab_port_of(&f->node[1], 1);
	struct ib_port_info pi = get_port("12", 0);
	struct ib_notice n;

	(void)st;
	for (unsigned int i = 0; i < 2; i++) {
		pi = get_port("12", 0);
		pi.mkey = 0x1234;
		pi.mkey_prot = 2;
		pi.mkey_lease = 10;
		set_port("12", 0, &pi);
		got_n = 0;
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 0, "12", NULL), FAB_LOST);
		assert_int_equal(f->port[p].pi.mkey_violations, i + 1);
		/* the second time the port has a rare part already */
		assert_true(m.deadline_ns <= now);
		run_until(now);
		assert_int_equal(got_n, 1);
		ib_notice_unpack(got.smp.data, &n);
		assert_int_equal(n.trap, IB_TRAP_BAD_MKEY);
		assert_int_equal(n.producer, IB_NODE_CHANNEL_ADAPTER);
		/* a TrapRepress with the key would end the lease, so the test sends none */
		run_until(now + 9000000000);
		assert_int_equal(f->port[p].pi.mkey_prot, 2);
		run_until(now + 1000000000);
		assert_int_equal(f->port[p].pi.mkey_prot, 0);
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 0, "12", NULL),
				 FAB_DELIVERED);
		f->port[p].pi.mkey = 0;
		run_until(now + 100000000000);
	}
}

/* ---- other nodes --------------------------------------------------------------- */

static void router(void **st)
{
	static const char text[] =
		"Ca 1 \"H-2\"\n[1] \"S-1\"[1]\n\n"
		"Switch 4 \"S-1\"\n[1] \"H-2\"[1]\n[2] \"R-3\"[1]\n\n"
		"Rt 2 \"R-3\"\n[1] \"S-1\"[2]\n";
	struct ib_node_info ni;
	struct errors e;

	(void)st;
	begin(from_text(text, strlen(text), &e));
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "12", NULL), FAB_DELIVERED);
	ib_node_info_unpack(got.smp.data, &ni);
	assert_int_equal(ni.node_type, IB_NODE_ROUTER_DEVICE);
	assert_int_equal(ni.num_ports, 2);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_SWITCH_INFO, 0, "12", NULL), FAB_DELIVERED);
	assert_int_equal(status(), IB_MAD_BAD_METHOD_ATTR);
	fab_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lids, setup_up, teardown),
		cmocka_unit_test_setup_teardown(loop, setup_up, teardown),
		cmocka_unit_test_setup_teardown(counters, setup_up, teardown),
		cmocka_unit_test_setup_teardown(samples, setup_up, teardown),
		cmocka_unit_test_setup_teardown(not_active, setup_up, teardown),
		cmocka_unit_test_setup_teardown(delayed, setup_up, teardown),
		cmocka_unit_test_setup_teardown(delay_order, setup_up, teardown),
		cmocka_unit_test_setup_teardown(delayed_loop, setup_up, teardown),
		cmocka_unit_test_setup_teardown(delay_bounds, setup_up, teardown),
		cmocka_unit_test_setup_teardown(link_trap, setup_up, teardown),
		cmocka_unit_test_setup_teardown(two_traps, setup_up, teardown),
		cmocka_unit_test_setup_teardown(is_sm, setup_up, teardown),
		cmocka_unit_test_setup_teardown(own_trap, setup_up, teardown),
		cmocka_unit_test_setup_teardown(mkey, setup_up, teardown),
		cmocka_unit_test(router),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
