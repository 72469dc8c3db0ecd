// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The changes of management that the data path's ports adopt: the ports that have changed, and no
 * others, have the state as if all had been checked. And the memory that the data path reports.
 */
#include "hosts.h"

#include <fcntl.h>

#include "fabric/data/buffer.h"
#include "fabric/fault/fault.h"
#include "fabric/watch/spool.h"

#define MS	1000000ull
#define STEPS	3000u

static struct way *way_to;	/* from the manager to each node */
static uint64_t rng;
static unsigned int sets[IB_SMP_ATTR_LFT + 1];	/* Sets that were answered, by attribute */

/* Two machines; every other port has seen data, too. */
static int setup_changes(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4"));
	way_to = calloc(f->nodes, sizeof(*way_to));
	assert_non_null(way_to);
	ways(HOST, way_to);
	place(0, 1);
	place(1, 7);
	for (uint32_t p = 1; p < f->ports; p++)
		assert_non_null(fab_dport(d, p));
	pump(NULL);
	return 0;
}

static int teardown_changes(void **st)
{
	free(way_to);
	return teardown_hosts(st);
}

static uint32_t below(uint32_t n)
{
	return fab_random(&rng) % n;
}

/* Sends a Set to @node; its result does not matter. */
static void set_at(uint32_t node, uint16_t attr, uint32_t mod, const uint8_t *data)
{
	if (ask(IB_METHOD_SET, attr, mod, way_to[node].route, data) == FAB_DELIVERED && !status())
		sets[attr]++;
}

static void random_port_info(uint32_t p)
{
	struct ib_port_info pi = f->port[p].pi;
	uint8_t data[IB_SMP_DATA_LEN];

	pi.state = (uint8_t)below(5);
	pi.phys_state = below(8) ? IB_PHYS_NO_CHANGE : IB_PHYS_POLLING;
	pi.mtu = (uint8_t)(1 + below(5));
	pi.op_vls = (uint8_t)(1 + below(4));
	pi.vl_high_limit = (uint8_t)below(256);
	ib_port_info_pack(&pi, data);
	set_at(f->port[p].node, IB_SMP_ATTR_PORT_INFO, fab_port_num(f, p), data);
}

static void random_table(uint32_t p, uint16_t attr)
{
	static const uint16_t values[] = { 0xffff, 0x8001, 0x8002, 0 };
	const uint32_t num = fab_port_num(f, p);
	const bool is_switch = f->node[f->port[p].node].sw != FAB_NONE;
	uint8_t data[IB_SMP_DATA_LEN] = { 0 };

	for (unsigned int i = 0; i < 3; i++)
		if (attr == IB_SMP_ATTR_PKEY_TABLE)
			ib_pkey_block_put(data, i, i ? values[below(4)] : 0xffff);
		else if (attr == IB_SMP_ATTR_VLARB)
			ib_put_be16(data + 2 * i, (uint16_t)(below(8) << 8 | below(256)));
		else
			data[i] = (uint8_t)below(4);
	set_at(f->port[p].node, attr, attr == IB_SMP_ATTR_PKEY_TABLE ? (is_switch ? num << 16 : 0) :
	       attr == IB_SMP_ATTR_VLARB ? (1 + 2 * below(2)) << 16 | num : 0, data);
}

static void random_switch_info(uint32_t node)
{
	uint8_t data[IB_SMP_DATA_LEN];
	struct ib_switch_info si;

	if (f->node[node].sw == FAB_NONE)
		return;
	si = f->sw[f->node[node].sw].si;
	si.life_time = (uint8_t)below(32);
	ib_switch_info_pack(&si, data);
	set_at(node, IB_SMP_ATTR_SWITCH_INFO, 0, data);
}

static void random_change(void)
{
	const uint32_t p = 1 + below(f->ports - 1), node = f->port[p].node;

	if (f->port[p].peer == FAB_NO_PORT)
		return;
	switch (below(10)) {
	case 0:
	case 1:
	case 2:
		random_port_info(p);
		break;
	case 3:
		random_table(p, below(2) ? IB_SMP_ATTR_VLARB : IB_SMP_ATTR_PKEY_TABLE);
		break;
	case 4:
		random_switch_info(node);
		break;
	case 5:
		if (f->node[node].sw != FAB_NONE)
			random_table(p, IB_SMP_ATTR_LFT);
		break;
	case 6:
		fab_fault_wire(&m, p, below(2) << 20, 0, 1);
		break;
	case 7:
		fab_fault_delay(&m, p, below(2) * MS);
		break;
	case 8:
		fab_fault_link(&m, p, below(4), now);
		break;
	case 9:
		if (node == HOST || below(4))
			break;
		counts_anew[node] = true;
		fab_fault_node(&m, node, below(4), now);
		break;
	}
}

/* Checks that each port has the state as if it was checked now. */
static void all_are_fresh(unsigned int step)
{
	for (uint32_t i = 0; i < d->count; i++) {
		struct fab_dport *dp = d->all[i];
		const struct fab_dport was = *dp;

		fab_dport_refresh(d, dp);
		if (was.fault != dp->fault || was.rx_fault != dp->rx_fault ||
		    was.buffers != dp->buffers || was.up != dp->up ||
		    was.receives != dp->receives || was.active != dp->active ||
		    was.nvls != dp->nvls || was.max_len != dp->max_len ||
		    was.pkeys != dp->pkeys || was.arb_index != dp->arb_index ||
		    was.arb_vls != dp->arb_vls || was.life_ns != dp->life_ns ||
		    was.arb.high_limit != dp->arb.high_limit ||
		    memcmp(was.arb.t, dp->arb.t, sizeof(was.arb.t)))
			fail_msg("step %u: port %u of node %u is not as management has it", step,
				 dp->num, f->port[dp->p].node);
	}
}

/* Changes of all kinds, a few at a time. */
static void test_random(void **st)
{
	unsigned int some = 0;

	(void)st;
	rng = fab_random_state(1);
	memset(sets, 0, sizeof(sets));
	for (unsigned int step = 0; step < STEPS; step++) {
		const uint64_t before = d->refreshes;
		uint64_t looked;

		for (uint32_t n = below(4); n; n--)
			random_change();
		now += MS / 4;
		pump_once();
		/* MADs with a delay have arrived after its round */
		fab_data_round(d);
		looked = d->refreshes - before;
		some += looked && looked < d->count;
		all_are_fresh(step);
	}
	for (unsigned int attr = IB_SMP_ATTR_SWITCH_INFO; attr <= IB_SMP_ATTR_LFT; attr++)
		if (attr != IB_SMP_ATTR_GUID_INFO && attr != IB_SMP_ATTR_SL2VL && attr != 0x13)
			assert_in_range(sets[attr], 10, STEPS);
	/* most changes affect few ports */
	assert_in_range(some, STEPS / 4, STEPS);
}

/* If there are more changes than are recorded, all ports are checked. */
static void test_many(void **st)
{
	uint64_t before = d->refreshes;

	(void)st;
	for (unsigned int i = 0; i < 2; i++)
		for (uint32_t p = 1; p < f->ports; p++)
			if (f->port[p].peer != FAB_NO_PORT)
				fab_fault_delay(&m, p, MS);
	assert_int_equal(m.changes.n, FAB_CHANGES + 1);
	fab_data_round(d);
	assert_int_equal(d->refreshes - before, d->count);
	all_are_fresh(0);
	/* and afterwards only the changed port, and the other end of its cable */
	before = d->refreshes;
	fab_fault_delay(&m, port_of_host(3), 0);
	fab_data_round(d);
	assert_int_equal(d->refreshes - before, 2);
	all_are_fresh(1);
}

/*
 * A machine whose link goes down and up is checked; its state for the other ports does not change.
 */
static void test_flapping_machine(void **st)
{
	struct ohca_link_phy off = { 0 }, on = ep_phy();
	const uint64_t before = d->refreshes;
	uint32_t was;

	(void)st;
	was = counters(port_of_host(7))->link_downed;
	for (unsigned int i = 0; i < 100; i++) {
		ohca_link_train(host[1].l, &off);
		pump(NULL);
		ohca_link_train(host[1].l, &on);
		pump(NULL);
	}
	assert_int_equal(counters(port_of_host(7))->link_downed, was + 100);
	assert_in_range(d->refreshes - before, 100, 100 * 8);
	all_are_fresh(0);
}

/* All memory is counted, and freed. */
static void test_bytes(void **st)
{
	const struct fab_spool_cfg cfg = { .port = { port_of_host(7) }, .n = 1 };
	const size_t ring = 2u * OHCA_LINK_BLOCKS * 64;
	struct fab_spool *s;
	size_t before;

	(void)st;
	assert_in_range(fab_data_link_bytes(d), 2 * ohca_link_vls(host[0].l) * ring,
			3 * ohca_link_vls(host[0].l) * ring);
	before = fab_data_bytes(d);
	assert_true(before > fab_data_link_bytes(d) + d->count * sizeof(struct fab_dport));
	s = fab_spool_new(d, &cfg, open("/dev/null", O_WRONLY | O_CLOEXEC));
	assert_non_null(s);
	assert_true(fab_data_counts(d)->capture_bytes > FAB_SPOOL_BYTES);
	assert_int_equal(fab_data_bytes(d), before + fab_data_counts(d)->capture_bytes);
	close(s->fd);
	fab_spool_free(s);
	assert_int_equal(fab_data_bytes(d), before);
	/* a packet on its way */
	assert_true(fab_fault_delay(&m, f->port[port_of_host(7)].peer, MS));
	assert_true(fab_fault_delay(&m, port_of_host(7), MS));
	assert_true(send_data(0, 0, LID(7), 1000, 1));
	pump(NULL);
	assert_int_equal(d->flying, 1);
	assert_true(d->flight_bytes > 0);
	assert_int_equal(fab_data_bytes(d), before + d->flight_bytes + d->n.buffer_bytes +
			 sizeof(struct fab_buffer));
}

/* Sets counters of all ports of @node. */
static void reset(uint32_t node, uint16_t attr, uint16_t select)
{
	struct fab_mad mad = new_mad(IB_CLASS_PERF, IB_METHOD_SET, attr, 0);
	uint8_t *d = (uint8_t *)&mad.mad + IB_PMA_DATA_OFF;

	d[1] = IB_PMA_ALL_PORTS;
	ib_put_be16(d + 2, select);
	assert_int_equal(ask_lid(&mad, LID(node)), FAB_DELIVERED);
	assert_int_equal(status(), 0);
}

/*
 * Checks PortXmitPkts of port @p in its node's answer, PortCounters[Extended]; counted since @base.
 */
static void expect_pkts(uint32_t p, bool ext, uint64_t base)
{
	struct fab_mad mad = new_mad(IB_CLASS_PERF, IB_METHOD_GET, ext ?
				     IB_PMA_ATTR_PORT_COUNTERS_EXT : IB_PMA_ATTR_PORT_COUNTERS, 0);
	const uint64_t want = f->port[p].xmit_mads - base;
	const uint8_t *d = (const uint8_t *)&got.mad + IB_PMA_DATA_OFF;
	struct ib_pma_port_counters_ext pce;
	struct ib_pma_port_counters pc;

	((uint8_t *)&mad.mad)[IB_PMA_DATA_OFF + 1] = (uint8_t)fab_port_num(f, p);
	assert_int_equal(ask_lid(&mad, LID(f->port[p].node)), FAB_DELIVERED);
	assert_int_equal(f->port[p].xmit_mads - base, want + 1);
	ib_pma_pce_unpack(d, &pce);
	ib_pma_pc_unpack(d, &pc);
	assert_int_equal(ext ? pce.xmit_pkts : pc.xmit_pkts, want);
}

/* Counters that are 0 need no memory for a reset; those of MADs need little for each port. */
static void test_resets(void **st)
{
	static const uint16_t attrs[] = {
		IB_PMA_ATTR_PORT_COUNTERS, IB_PMA_ATTR_PORT_COUNTERS_EXT,
		IB_PMA_ATTR_XMIT_DATA_SL, IB_PMA_ATTR_RCV_DATA_SL,
		IB_PMA_ATTR_XMIT_DATA_SL_EXT, IB_PMA_ATTR_RCV_DATA_SL_EXT,
	};
	uint32_t extras;
	size_t before;

	(void)st;
	subnet_up();
	extras = f->extras;
	before = fab_bytes(f);
	for (uint32_t i = 1; i < f->nodes; i++)
		reset(i, IB_PMA_ATTR_PORT_COUNTERS, 0x0fff);
	assert_int_equal(f->extras, extras);
	assert_int_equal(fab_bytes(f), before);
	for (uint32_t i = 1; i < f->nodes; i++)
		for (unsigned int a = 0; a < IB_ARRAY_SIZE(attrs); a++)
			reset(i, attrs[a], 0xffff);
	assert_int_equal(f->extras, extras);
	assert_in_range(fab_bytes(f), before + f->ports, before + f->ports * 128);
}

/* Each attribute's counters have their own base, with or without the rare part of a port. */
static void test_bases(void **st)
{
	const struct fab_node *n = &f->node[12];
	struct ib_pma_port_counters pc;
	uint64_t base, ext;
	uint32_t p;

	(void)st;
	subnet_up();
	p = fab_port_of(n, fab_route(f, n, f->port[PORT].pi.lid));
	base = f->port[p].xmit_mads;
	assert_true(base > 0);
	reset(12, IB_PMA_ATTR_PORT_COUNTERS, 0xffff);
	ib_pma_pc_unpack((uint8_t *)&got.mad + IB_PMA_DATA_OFF, &pc);
	assert_int_equal(pc.rcv_pkts, 0);
	assert_int_equal(pc.xmit_data, 0);
	for (unsigned int i = 0; i < 3; i++) {
		expect_pkts(p, false, base);
		expect_pkts(p, true, 0);
	}
	/* one counter alone */
	ext = f->port[p].xmit_mads;
	reset(12, IB_PMA_ATTR_PORT_COUNTERS_EXT, 1 << 2);
	expect_pkts(p, true, ext);
	expect_pkts(p, false, base);
	assert_null(fab_extra_of(f, p));
	/* a new rare part has the existing values */
	assert_non_null(fab_extra(f, p));
	assert_int_equal(fab_extra_of(f, p)->pma.ext_base.rcv_pkts, 0);
	expect_pkts(p, true, ext);
	expect_pkts(p, false, base);
}

/* Counters of a node that was off begin at 0, with and without a rare part. */
static void test_bases_reset(void **st)
{
	const uint32_t sw = 12, p = fab_port_of(&f->node[sw], 1);
	struct ib_pma_port pma;

	(void)st;
	subnet_up();
	reset(sw, IB_PMA_ATTR_PORT_COUNTERS, 0xffff);
	fab_bases(f, p, &pma);
	assert_true(pma.base.rcv_pkts > 0);
	assert_true(fab_reset_node(f, sw));
	fab_bases(f, p, &pma);
	assert_int_equal(pma.base.rcv_pkts, 0);
	assert_int_equal(f->port[p].rcv_mads, 0);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup_changes, teardown_changes)
	const struct CMUnitTest tests[] = {
		CASE(test_random),
		CASE(test_many),
		CASE(test_flapping_machine),
		CASE(test_bytes),
		cmocka_unit_test_setup_teardown(test_resets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bases, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bases_reset, setup, teardown),
	};

	return cmocka_run_group_tests_name("changes", tests, NULL, NULL);
}
