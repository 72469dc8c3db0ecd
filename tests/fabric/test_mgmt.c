// SPDX-License-Identifier: GPL-2.0-or-later
/* SMPs on directed routes, and the state of agents of nodes without a machine. */
#include "subnet.h"

static void directed_routes(void **st)
{
	static const struct {
		const char *route;
		uint32_t node;
		uint8_t local_port;
	} way[] = {
		/* 8 hosts, 4 leaves, 2 spines */
		{ "", 0, 1 }, { "1", 8, 1 }, { "12", 1, 1 }, { "13", 12, 1 }, { "132", 9, 3 },
		{ "1321", 2, 1 }, { "14", 13, 1 },
	};
	struct ib_node_info ni;

	(void)st;
	for (unsigned int i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
		got_n = 0;
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, way[i].route, NULL),
				 FAB_DELIVERED);
		assert_int_equal(got_n, 1);
		assert_int_equal(got_port, 1);
		assert_int_equal(got.mad.hdr.method, IB_METHOD_GET_RESP);
		ib_node_info_unpack(got.smp.data, &ni);
		assert_true(ni.node_guid == f->node[way[i].node].guid);
		assert_int_equal(ni.local_port, way[i].local_port);
	}
	/* through a host, and out of a port without a cable or without that number */
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "121", NULL), FAB_LOST);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "19", NULL), FAB_LOST);
	assert_int_equal(m.stats.lost, 2);
	/* an unknown attribute is answered */
	assert_int_equal(ask(IB_METHOD_GET, 0xff90, 0, "13", NULL), FAB_DELIVERED);
	assert_int_equal(status(), IB_MAD_BAD_METHOD_ATTR);
}

/* A route by LIDs to a switch, directed from there on. */
static enum fab_fate ask_mixed(uint16_t dlid, uint16_t dr_slid, const char *route)
{
	struct fab_mad mad = new_mad(IB_CLASS_SUBN_DR, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);

	mad.smp.dr_slid = ib_to_be16(dr_slid);
	mad.smp.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	for (unsigned int i = 0; route[i]; i++)
		mad.smp.init_path[i + 1] = (uint8_t)(route[i] - '0');
	ib_smp_set_hops(&mad.smp, 0, (uint8_t)strlen(route));
	return ask_lid(&mad, dlid);
}

static void combined_routes(void **st)
{
	static const struct {
		uint32_t to;
		const char *route;
		uint32_t node;
	} way[] = {
		/*
		 * its own leaf and the hosts and spines there, from a spine, from another leaf, and
		 * back
		 */
		{ 8, "2", 1 }, { 8, "3", 12 }, { 8, "32", 9 }, { 12, "2", 9 }, { 12, "21", 2 },
		{ 9, "3", 12 }, { 9, "31", 8 }, { 8, "1", 0 },
	};
	struct ib_node_info ni;

	(void)st;
	subnet_up();
	for (unsigned int i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
		assert_int_equal(ask_mixed(LID(way[i].to), LID(HOST), way[i].route), FAB_DELIVERED);
		assert_int_equal(got.mad.hdr.method, IB_METHOD_GET_RESP);
		assert_int_equal(got.dlid, LID(HOST));
		ib_node_info_unpack(got.smp.data, &ni);
		assert_true(ni.node_guid == f->node[way[i].node].guid);
	}
	/*
	 * to a host, which forwards nothing; to no node; to the permissive LID; without a part by
	 * LIDs
	 */
	assert_int_equal(ask_mixed(LID(1), LID(HOST), "1"), FAB_LOST);
	assert_int_equal(ask_mixed(LID(HOST), LID(HOST), "1"), FAB_LOST);
	assert_int_equal(ask_mixed(999, LID(HOST), "1"), FAB_LOST);
	assert_int_equal(ask_mixed(IB_LID_PERMISSIVE, LID(HOST), "2"), FAB_LOST);
	assert_int_equal(ask_mixed(LID(8), LID(HOST), "9"), FAB_LOST);
}

/* A directed route that ends with a part by LIDs: the answer returns by both. */
static void ends_by_lid(void **st)
{
	static const struct {
		const char *route;
		uint32_t to;
	} way[] = {
		/* from its own leaf and from a spine to hosts and switches */
		{ "1", 1 }, { "1", 3 }, { "1", 9 }, { "13", 2 }, { "13", 8 },
		/* a host forwards nothing */
		{ "12", 3 },
	};
	struct ib_node_info ni;

	(void)st;
	subnet_up();
	for (unsigned int i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
		struct fab_mad mad = new_mad(IB_CLASS_SUBN_DR, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO,
					     0);

		mad.smp.dr_slid = ib_to_be16(IB_LID_PERMISSIVE);
		mad.smp.dr_dlid = ib_to_be16(LID(way[i].to));
		for (unsigned int k = 0; way[i].route[k]; k++)
			mad.smp.init_path[k + 1] = (uint8_t)(way[i].route[k] - '0');
		ib_smp_set_hops(&mad.smp, 0, (uint8_t)strlen(way[i].route));
		if (i == IB_ARRAY_SIZE(way) - 1) {
			assert_int_equal(ask_lid(&mad, IB_LID_PERMISSIVE), FAB_LOST);
			break;
		}
		assert_int_equal(ask_lid(&mad, IB_LID_PERMISSIVE), FAB_DELIVERED);
		assert_int_equal(got.mad.hdr.method, IB_METHOD_GET_RESP);
		assert_int_equal(got.dlid, IB_LID_PERMISSIVE);
		assert_int_equal(ib_smp_hop_ptr(&got.smp), 0);
		ib_node_info_unpack(got.smp.data, &ni);
		assert_true(ni.node_guid == f->node[way[i].to].guid);
	}
}

/* The permissive DLID is for SMPs: agents of the general services do not answer it. */
static void permissive_gmp(void **st)
{
	(void)st;
	subnet_up();
	assert_int_equal(get_lid(IB_CLASS_PERF, 1, 0, LID(8)), FAB_DELIVERED);
	assert_int_equal(get_lid(IB_CLASS_PERF, 1, 0, IB_LID_PERMISSIVE), FAB_LOST);
	assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, IB_LID_PERMISSIVE),
			 FAB_DELIVERED);
}

/* A port that is not Armed accepts only SMPs; a GMP makes an Armed port Active (11.2.7). */
static void before_active(void **st)
{
	struct ib_port_info *pi;

	(void)st;
	subnet_up();
	pi = &f->port[f->port[PORT].peer].pi;
	for (uint8_t state = IB_PS_INIT; state <= IB_PS_ACTIVE; state++) {
		const uint64_t lost = m.stats.lost;

		pi->state = state;
		assert_int_equal(get_lid(IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO, 0, LID(8)),
				 FAB_DELIVERED);
		assert_int_equal(pi->state, state);
		assert_int_equal(get_lid(IB_CLASS_PERF, 1, 0, LID(8)),
				 state == IB_PS_INIT ? FAB_LOST : FAB_DELIVERED);
		assert_int_equal(m.stats.lost, lost + (state == IB_PS_INIT));
		assert_int_equal(pi->state, state == IB_PS_INIT ? IB_PS_INIT : IB_PS_ACTIVE);
	}
}

/* A directed route that leaves by another port than the manager's. */
static void own_port(void **st)
{
	(void)st;
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "1", NULL), FAB_DELIVERED);
	f->node[HOST].nports = 2;	/* the port after it belongs to another node */
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "2", NULL), FAB_LOST);
	assert_int_equal(m.stats.hops, 2);
	f->node[HOST].nports = 1;
}

/* A Set changes the table of one port, although the port shares it with all others. */
static void copies(void **st)
{
	uint8_t d[IB_SMP_DATA_LEN] = { 0xff, 0xff, 0x80, 0x01 };
	uint32_t leaf = 8, p = fab_port_of(&f->node[leaf], 2);

	(void)st;
	assert_int_equal(ask(IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, 2 << 16, "1", d), FAB_DELIVERED);
	assert_int_equal(status(), 0);
	ask(IB_METHOD_GET, IB_SMP_ATTR_PKEY_TABLE, 2 << 16, "1", NULL);
	assert_memory_equal(got.smp.data, d, sizeof(d));
	ask(IB_METHOD_GET, IB_SMP_ATTR_PKEY_TABLE, 1 << 16, "1", NULL);
	assert_int_equal(ib_pkey_block_get(got.smp.data, 1), 0);
	/* the same change at another port gives the same table */
	ask(IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, 3 << 16, "1", d);
	assert_int_equal(f->port[p + 1].pkeys, f->port[p].pkeys);
	assert_true(f->port[p - 1].pkeys != f->port[p].pkeys);
	memset(d, 0x11, 8);
	ask(IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 2 << 8 | 3, "1", d);
	ask(IB_METHOD_GET, IB_SMP_ATTR_SL2VL, 2 << 8 | 3, "1", NULL);
	assert_int_equal(got.smp.data[0], 0x11);
	ask(IB_METHOD_GET, IB_SMP_ATTR_SL2VL, 3 << 8 | 3, "1", NULL);
	assert_int_equal(got.smp.data[0], 0x01);
	memset(d, 0, sizeof(d));
	d[0] = 3;
	d[1] = 77;
	ask(IB_METHOD_SET, IB_SMP_ATTR_VLARB, 1 << 16 | 4, "1", d);
	ask(IB_METHOD_GET, IB_SMP_ATTR_VLARB, 1 << 16 | 4, "1", NULL);
	assert_int_equal(got.smp.data[1], 77);
	ask(IB_METHOD_GET, IB_SMP_ATTR_VLARB, 1 << 16 | 3, "1", NULL);
	assert_true(got.smp.data[1] != 77);
}

/* P_KeyTables of agents have as many entries as the fabric sets, and no more. */
static void fewer_pkeys(void **st)
{
	uint8_t d[IB_SMP_DATA_LEN] = { 0xff, 0xff, 0x80, 0x01 };
	struct ib_node_info ni;

	(void)st;
	for (unsigned int host = 0; host < 2; host++) {
		const char *route = host ? "12" : "1";
		const unsigned int blocks = host ? 2 : 3, port = host ? 0 : 2 << 16;

		f->ca_num_pkeys = 64;
		f->sw_num_pkeys = 96;
		ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, route, NULL);
		ib_node_info_unpack(got.smp.data, &ni);
		assert_int_equal(ni.partition_cap, blocks * IB_PKEYS_PER_BLOCK);
		ask(IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, port | (blocks - 1), route, d);
		assert_int_equal(status(), 0);
		ask(IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, port | blocks, route, d);
		assert_int_equal(status(), IB_MAD_BAD_FIELD);
		/* fields that are not shown are 0 */
		f->ca_num_pkeys = FAB_CA_PKEYS;
		f->sw_num_pkeys = FAB_SW_PKEYS;
		ask(IB_METHOD_GET, IB_SMP_ATTR_PKEY_TABLE, port | (blocks - 1), route, NULL);
		assert_memory_equal(got.smp.data, d, sizeof(d));
		ask(IB_METHOD_GET, IB_SMP_ATTR_PKEY_TABLE, port | blocks, route, NULL);
		assert_int_equal(status(), 0);
		assert_int_equal(ib_pkey_block_get(got.smp.data, 0), 0);
	}
	/* SwitchInfo is set when the switch is made */
	f->sw_num_pkeys = 96;
	assert_true(fab_reset_node(f, 8));
	assert_int_equal(f->sw[0].si.part_enforce_cap, 96);
}

static void forwarding_tables(void **st)
{
	uint8_t d[IB_SMP_DATA_LEN];

	(void)st;
	ask(IB_METHOD_GET, IB_SMP_ATTR_LFT, 3, "13", NULL);
	assert_int_equal(got.smp.data[0], IB_LFT_NO_PORT);
	assert_null(f->sw[4].lft);
	memset(d, 2, sizeof(d));
	ask(IB_METHOD_SET, IB_SMP_ATTR_LFT, 3, "13", d);
	ask(IB_METHOD_GET, IB_SMP_ATTR_LFT, 3, "13", NULL);
	assert_int_equal(got.smp.data[63], 2);
	ask(IB_METHOD_GET, IB_SMP_ATTR_LFT, 2, "13", NULL);
	assert_int_equal(got.smp.data[63], IB_LFT_NO_PORT);
	assert_int_equal(f->sw[4].lft_blocks, 4);
	ask(IB_METHOD_SET, IB_SMP_ATTR_MFT, 5, "13", d);
	ask(IB_METHOD_GET, IB_SMP_ATTR_MFT, 5, "13", NULL);
	assert_memory_equal(got.smp.data, d, sizeof(d));
	ask(IB_METHOD_GET, IB_SMP_ATTR_MFT, 4, "13", NULL);
	assert_int_equal(got.smp.data[0], 0);
}

/* A port that is disabled takes its link down after the answer; the other end counts it. */
static void links(void **st)
{
	uint32_t p = fab_port_of(&f->node[8], 3), peer = f->port[p].peer;

	(void)st;
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	set_state("1", 3, IB_PS_DOWN, IB_PHYS_DISABLED);
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	assert_int_equal(f->port[p].pi.phys_state, IB_PHYS_DISABLED);
	assert_int_equal(f->port[peer].pi.state, IB_PS_DOWN);
	assert_int_equal(fab_extra_of(f, peer)->ctr.link_downed, 1);
	assert_int_equal(f->sw[4].si.port_state_change, 1);
	assert_int_equal(f->sw[0].si.port_state_change, 0);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "13", NULL), FAB_LOST);
	assert_int_equal(fab_extra_of(f, p)->ctr.xmit_discards, 1);
	set_state("1", 3, IB_PS_DOWN, IB_PHYS_POLLING);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_int_equal(f->port[peer].pi.state, IB_PS_INIT);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, "13", NULL), FAB_DELIVERED);
}

/* Sets LinkDownDefaultState and the states of port @num. */
static void set_default(const char *route, unsigned int num, uint8_t down, uint8_t state,
			uint8_t phys)
{
	struct ib_port_info pi = get_port(route, num);

	pi.down_default = down;
	pi.state = state;
	pi.phys_state = phys;
	set_port(route, num, &pi);
}

/* A link that goes down is in LinkDownDefaultState; two ends in Sleep do not train. */
static void down_default(void **st)
{
	const uint32_t p = fab_port_of(&f->node[8], 3), peer = f->port[p].peer;
	struct ib_port_info *a = &f->port[p].pi, *b = &f->port[peer].pi;

	(void)st;
	assert_int_equal(get_port("1", 3).down_default, IB_PHYS_POLLING);
	/* the other end polls: the link comes up at once */
	set_default("1", 3, IB_PHYS_SLEEP, IB_PS_DOWN, IB_PHYS_NO_CHANGE);
	assert_int_equal(a->state, IB_PS_INIT);
	set_default("13", fab_port_num(f, peer), IB_PHYS_SLEEP, IB_PS_NO_CHANGE, IB_PHYS_NO_CHANGE);
	set_default("1", 3, IB_PHYS_SLEEP, IB_PS_DOWN, IB_PHYS_NO_CHANGE);
	assert_int_equal(a->state, IB_PS_DOWN);
	assert_int_equal(a->phys_state, IB_PHYS_SLEEP);
	assert_int_equal(b->phys_state, IB_PHYS_SLEEP);
	/* a Set of Polling has precedence over the default */
	set_default("1", 3, IB_PHYS_NO_CHANGE, IB_PS_NO_CHANGE, IB_PHYS_POLLING);
	assert_int_equal(a->state, IB_PS_INIT);
	assert_int_equal(b->state, IB_PS_INIT);
	/* without a Set, as with a cable that is pulled */
	fab_wire_down(&m, p);
	assert_int_equal(a->phys_state, IB_PHYS_SLEEP);
	/* a Set of Sleep: the answer shows it */
	a->phys_state = IB_PHYS_POLLING;
	fab_link_up(f, p);
	set_default("1", 3, IB_PHYS_POLLING, IB_PS_NO_CHANGE, IB_PHYS_SLEEP);
	ib_port_info_unpack(got.smp.data, a);
	assert_int_equal(a->phys_state, IB_PHYS_SLEEP);
}

/* A trap that an agent sends while it executes a Set does not affect the rest of the Set. */
static void job(void **st)
{
	const uint32_t node = 8;
	struct fab_mad trap = new_mad(IB_CLASS_SUBN_LID, IB_METHOD_TRAP, IB_SMP_ATTR_NOTICE, 0);
	const struct ib_sma *s;
	struct ib_sma_port port;
	struct fab_job was;

	(void)st;
	subnet_up();
	m.now_ns = now;
	s = fab_agent_begin(&m, node, true);
	/* a port without a rare part: the agent uses a spare one, and copies it */
	s->ops->port(s->ctx, 0, &port);
	assert_ptr_equal(port.end, &m.job.spare.end);
	s->ops->sl2vl(s->ctx, 1, 2);
	memset(m.job.pkeys, 0x42, sizeof(m.job.pkeys));
	m.job.starved = true;
	m.job.link_due = IB_PI_EFF_LINK_DOWN;
	was = m.job;
	got_n = 0;
	f->port[fab_port_of(&f->node[node], 0)].pi.sm_lid = LID(HOST);
	f->port[fab_port_of(&f->node[node], 0)].pi.sm_sl = 5;
	s->ops->send_trap(s->ctx, 0, &trap.smp);
	assert_int_equal(got_n, 1);
	assert_int_equal(got.smp.hdr.method, IB_METHOD_TRAP);
	assert_int_equal(got.sl, 5);
	assert_memory_equal(&m.job, &was, sizeof(was));
	m.job.link_due = 0;
	fab_agent_end(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(directed_routes, setup, teardown),
		cmocka_unit_test_setup_teardown(combined_routes, setup, teardown),
		cmocka_unit_test_setup_teardown(ends_by_lid, setup, teardown),
		cmocka_unit_test_setup_teardown(permissive_gmp, setup, teardown),
		cmocka_unit_test_setup_teardown(before_active, setup, teardown),
		cmocka_unit_test_setup_teardown(own_port, setup, teardown),
		cmocka_unit_test_setup_teardown(copies, setup, teardown),
		cmocka_unit_test_setup_teardown(fewer_pkeys, setup, teardown),
		cmocka_unit_test_setup_teardown(forwarding_tables, setup, teardown),
		cmocka_unit_test_setup_teardown(links, setup, teardown),
		cmocka_unit_test_setup_teardown(down_default, setup, teardown),
		cmocka_unit_test_setup_teardown(job, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
