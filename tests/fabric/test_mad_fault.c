// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests of one class and attribute that are lost or late: those of agents, of a program at a
 * host of the graph, and of two machines, whose MADs are packets of a lane.
 */
#include <jansson.h>

#include "fabric/control/control.h"
#include "faults.h"

#define MS	1000000u

static const struct fab_attribute node_info = { IB_CLASS_SUBN_LID, IB_SMP_ATTR_NODE_INFO };
static const struct fab_attribute port_counters = { IB_CLASS_PERF, IB_PMA_ATTR_PORT_COUNTERS };
static const struct fab_attribute perf = { IB_CLASS_PERF, FAB_ANY_ATTRIBUTE };
static const struct fab_attribute path_record = { IB_CLASS_SUBN_ADM, 0x35 };
static const struct fab_attribute connect_request = { IB_CLASS_CM, 0x10 };

/* Names of attributes, and words that are none. */
static void test_names(void **st)
{
	static const struct {
		const char *text, *name;
		uint8_t mgmt_class;
		uint32_t id;
	} good[] = {
		{ "NodeInfo", "Subn:NodeInfo", IB_CLASS_SUBN_LID, 0x11 },
		{ "Subn:17", "Subn:NodeInfo", IB_CLASS_SUBN_LID, 0x11 },
		{ "PathRecord", "SubnAdm:PathRecord", IB_CLASS_SUBN_ADM, 0x35 },
		{ "SubnAdm:0x35", "SubnAdm:PathRecord", IB_CLASS_SUBN_ADM, 0x35 },
		{ "SubnAdm:010", "SubnAdm:0x000a", IB_CLASS_SUBN_ADM, 10 },
		{ "SubnAdm:053", "SubnAdm:PathRecord", IB_CLASS_SUBN_ADM, 0x35 },
		{ "SubnAdm", "SubnAdm", IB_CLASS_SUBN_ADM, FAB_ANY_ATTRIBUTE },
		{ "SubnAdm:Notice", "SubnAdm:Notice", IB_CLASS_SUBN_ADM, 2 },
		{ "Perf:ClassPortInfo", "Perf:ClassPortInfo", IB_CLASS_PERF, 1 },
		{ "PortCountersExtended", "Perf:PortCountersExtended", IB_CLASS_PERF, 0x1d },
		{ "ConnectRequest", "ComMgt:ConnectRequest", IB_CLASS_CM, 0x10 },
		{ "ComMgt:0x1234", "ComMgt:0x1234", IB_CLASS_CM, 0x1234 },
		{ "CC:0xffff", "CC:0xffff", IB_CLASS_CC, 0xffff },
	};
	static const char *const bad[] = {
		"", ":", "0x11", "17", "Nodeinfo", "ClassPortInfo", "Notice", "Perf:", "Perf:PathRecord",
		"perf", "Sa:1", "Perf:0x10000", "Perf:-1", "Perf: 1", "Perf:1x", "Perf:0x", "Perf:0x 1", "Perf:1f", "Perf:99999999999999999999999",
	};
	struct fab_attribute a;
	char name[FAB_ATTRIBUTE_LEN];

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(good); i++) {
		assert_true(fab_attribute_find(good[i].text, &a));
		assert_int_equal(a.mgmt_class, good[i].mgmt_class);
		assert_int_equal(a.id, good[i].id);
		fab_attribute_name(&a, name);
		assert_string_equal(name, good[i].name);
	}
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(bad); i++)
		if (fab_attribute_find(bad[i], &a))
			fail_msg("'%s' is taken", bad[i]);
}

static enum fab_fate ask_node_info(const char *route)
{
	return ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, route, NULL);
}

/* Every third NodeInfo of one switch is lost, and nothing else. */
static void test_smps(void **st)
{
	const uint32_t node = f->port[port_of_host(0)].node;
	unsigned int lost = 0;

	(void)st;
	assert_true(fab_fault_drop(&m, node, &node_info, 3));
	for (unsigned int i = 0; i < 9; i++) {
		lost += ask_node_info("1") == FAB_LOST;
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 0, "1", NULL), FAB_DELIVERED);
		assert_int_equal(ask_node_info(""), FAB_DELIVERED);
	}
	assert_int_equal(lost, 3);
	assert_int_equal(m.mad_fault[0].dropped, 3);
	assert_true(fab_fault_drop(&m, node, &node_info, 0));
	assert_int_equal(m.mad_faults, 0);
	for (unsigned int i = 0; i < 9; i++)
		assert_int_equal(ask_node_info("1"), FAB_DELIVERED);
}

/* The number of faults is limited; a fault without effect is removed, and the others stay. */
static void test_room(void **st)
{
	struct fab_attribute a = { IB_CLASS_SUBN_LID, 0 };

	(void)st;
	for (a.id = 0x100; a.id < 0x100 + FAB_MAD_FAULTS; a.id++)
		assert_true(fab_fault_drop(&m, 0, &a, 1));
	assert_false(fab_fault_drop(&m, 0, &a, 1));
	assert_false(fab_fault_late(&m, 0, &a, 1));
	assert_true(fab_fault_drop(&m, 0, &a, 0));
	assert_true(fab_fault_late(&m, 0, &a, 0));
	/* one in the middle ends */
	a.id = 0x105;
	assert_true(fab_fault_late(&m, 0, &a, MS));
	assert_true(fab_fault_drop(&m, 0, &a, 0));
	assert_int_equal(m.mad_faults, FAB_MAD_FAULTS);
	assert_true(fab_fault_late(&m, 0, &a, 0));
	assert_int_equal(m.mad_faults, FAB_MAD_FAULTS - 1);
	a.id = 0x200;
	assert_true(fab_fault_drop(&m, 0, &a, 1));
	a.id = 0x10f;
	assert_true(fab_fault_drop(&m, 0, &a, 2));
	a.id = 0x105;
	assert_false(fab_fault_drop(&m, 0, &a, 1));
	for (unsigned int i = 0; i < FAB_MAD_FAULTS; i++)
		assert_int_equal(m.mad_fault[i].nth, m.mad_fault[i].attr.id == 0x10f ? 2 : 1);
}

/* SMPs that only pass a node are not for it: they are neither lost nor counted. */
static void test_smps_in_transit(void **st)
{
	const uint32_t leaf = f->port[port_of_host(0)].node;

	(void)st;
	assert_true(fab_fault_drop(&m, leaf, &node_info, 2));
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(ask_node_info("13"), FAB_DELIVERED);
	assert_int_equal(m.mad_fault[0].seen, 0);
	assert_int_equal(ask_node_info("1"), FAB_DELIVERED);
	assert_int_equal(ask_node_info("1"), FAB_LOST);
	assert_int_equal(m.mad_fault[0].dropped, 1);
	/* nor those to the host behind it */
	assert_int_equal(ask_node_info("12"), FAB_DELIVERED);
}

/*
 * SMPs to an agent are late, and others overtake them. Those of a node that is switched off are
 * lost.
 */
static void test_late_smps(void **st)
{
	const uint32_t node = f->port[port_of_host(0)].node, spine = f->port[f->port[inner()].peer].node;
	const char way[] = { '1', (char)('0' + fab_port_num(f, inner())), 0 };

	(void)st;
	assert_true(fab_fault_late(&m, node, &node_info, 5 * MS));
	got_n = 0;
	assert_int_equal(ask_node_info("1"), FAB_UNDER_WAY);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 0, "1", NULL), FAB_DELIVERED);
	assert_int_equal(ask_node_info(""), FAB_DELIVERED);
	later(5 * MS - 1);
	assert_int_equal(got_n, 2);
	later(1);
	assert_int_equal(got_n, 3);
	assert_int_equal(ib_be16(got.smp.hdr.attr_id), IB_SMP_ATTR_NODE_INFO);
	assert_int_equal(status(), 0);
	assert_int_equal(m.mad_fault[0].delayed, 1);
	/* lost or late: a fault of the class covers all, and the longer delay counts */
	assert_true(fab_fault_late(&m, spine, &(struct fab_attribute){ IB_CLASS_SUBN_LID, FAB_ANY_ATTRIBUTE }, MS));
	assert_true(fab_fault_late(&m, spine, &node_info, 3 * MS));
	assert_true(fab_fault_drop(&m, spine, &node_info, 2));
	assert_int_equal(ask_node_info(way), FAB_UNDER_WAY);
	assert_int_equal(ask_node_info(way), FAB_LOST);
	later(MS);
	assert_int_equal(got_n, 3);
	later(2 * MS);
	assert_int_equal(got_n, 4);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_DESC, 0, way, NULL), FAB_UNDER_WAY);
	assert_true(fab_fault_node(&m, spine, false, now));
	later(MS);
	assert_int_equal(got_n, 4);
	assert_int_equal(m.flights, 0);
	counts_anew[spine] = true;
}

/* Requests of managers to the performance agents of a switch. */
static void test_perf(void **st)
{
	const uint32_t leaf = f->port[port_of_host(1)].node;
	const uint16_t lid = LID(leaf);

	(void)st;
	assert_true(fab_fault_drop(&m, leaf, &port_counters, 2));
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(get_lid(IB_CLASS_PERF, IB_PMA_ATTR_PORT_COUNTERS, 0, lid),
				 i % 2 ? FAB_LOST : FAB_DELIVERED);
		assert_int_equal(get_lid(IB_CLASS_PERF, IB_ATTR_CLASS_PORT_INFO, 0, lid), FAB_DELIVERED);
	}
	assert_true(fab_fault_late(&m, leaf, &perf, MS));
	got_n = 0;
	assert_int_equal(get_lid(IB_CLASS_PERF, IB_ATTR_CLASS_PORT_INFO, 0, lid), FAB_UNDER_WAY);
	assert_int_equal(get_lid(IB_CLASS_PERF, IB_PMA_ATTR_PORT_COUNTERS, 0, lid), FAB_UNDER_WAY);
	assert_int_equal(get_lid(IB_CLASS_PERF, IB_PMA_ATTR_PORT_COUNTERS, 0, lid), FAB_LOST);
	later(MS);
	assert_int_equal(got_n, 2);
	assert_int_equal(m.mad_fault[1].delayed, 2);
}

/* Sends a MAD from host[@i] to @lid, by a data lane. @rmpp: RMPPType, with Active; 0: neither. */
static void send_rmpp(unsigned int i, uint16_t lid, uint8_t class, uint8_t method, uint16_t attr,
		      uint8_t rmpp)
{
	struct fab_mad mad = new_mad(class, method, attr, 0);
	uint8_t pkt[IB_MAD_PKT_LEN];

	mad.mad.data[IB_RMPP_TYPE] = rmpp;
	mad.mad.data[IB_RMPP_FLAGS] = rmpp ? 0xf8 | IB_RMPP_ACTIVE : 0xf8;
	mad.dlid = lid;
	mad.slid = host[i].lid;
	mad.dqp = mad.sqp = 1;
	assert_true(ep_send_raw(&host[i], 0, pkt, fab_mad_packet(pkt, &mad, 0)));
	pump(NULL);
}

static void send_mad(unsigned int i, uint16_t lid, uint8_t class, uint8_t method, uint16_t attr)
{
	send_rmpp(i, lid, class, method, attr, 0);
}

/*
 * Reads the attributes of MADs that host[@i] has received since the last call. Return: their
 * number.
 */
static unsigned int mads_at(unsigned int i, uint16_t attr[8])
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	unsigned int n = 0;
	size_t len;

	while ((len = ep_recv(&host[i], 0, pkt, sizeof(pkt)))) {
		assert_int_equal(len, IB_MAD_PKT_LEN);
		assert_true(n < 8);
		attr[n++] = ib_get_be16(pkt + IB_MAD_PKT_HDR + 16);
	}
	return n;
}

/* Requests between the manager's program and machines; either end may have the fault. */
static void test_program_and_machine(void **st)
{
	const uint32_t nodes[] = { HOST, 1 };
	uint16_t attr[8];

	(void)st;
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(fab_fault_drop(&m, nodes[i], &path_record, 2));
		assert_true(fab_fault_late(&m, nodes[i], &path_record, MS));
		got_n = 0;
		for (unsigned int k = 0; k < 4; k++) {
			send_mad(0, LID(HOST), IB_CLASS_SUBN_ADM, IB_METHOD_GET, 0x35);
			assert_int_equal(got_n, 0);
		}
		/* an answer is no request, and other attributes are not late */
		send_mad(0, LID(HOST), IB_CLASS_SUBN_ADM, IB_METHOD_GET_RESP, 0x35);
		send_mad(0, LID(HOST), IB_CLASS_SUBN_ADM, IB_METHOD_GET, 0x38);
		assert_int_equal(got_n, 2);
		later(MS);
		assert_int_equal(got_n, 4);
		assert_int_equal(got.slid, LID(1));
		assert_int_equal(ib_be16(got.mad.hdr.attr_id), 0x35);
		/* the other direction */
		assert_int_equal(get_lid(IB_CLASS_SUBN_ADM, 0x35, 0, LID(1)), FAB_UNDER_WAY);
		assert_int_equal(get_lid(IB_CLASS_SUBN_ADM, 0x35, 0, LID(1)), FAB_LOST);
		assert_int_equal(get_lid(IB_CLASS_SUBN_ADM, 0x38, 0, LID(1)), FAB_DELIVERED);
		pump(NULL);
		assert_int_equal(mads_at(0, attr), 1);
		assert_int_equal(attr[0], 0x38);
		later(MS);
		assert_int_equal(mads_at(0, attr), 1);
		assert_int_equal(attr[0], 0x35);
		assert_int_equal(m.mad_fault[0].seen, 6);
		assert_int_equal(m.mad_fault[0].dropped, 3);
		assert_int_equal(m.mad_fault[0].delayed, 3);
		assert_true(fab_fault_drop(&m, nodes[i], &path_record, 0));
		assert_true(fab_fault_late(&m, nodes[i], &path_record, 0));
	}
}

/* Messages of communication management between machines; either end may have the fault. */
static void test_machines(void **st)
{
	const uint32_t nodes[] = { 1, 7 };
	const uint64_t lost = m.stats.lost;
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	uint16_t attr[8];

	(void)st;
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(fab_fault_drop(&m, nodes[i], &connect_request, 3));
		for (unsigned int k = 0; k < 6; k++) {
			send_mad(0, LID(7), IB_CLASS_CM, IB_METHOD_SEND, 0x10);
			send_mad(0, LID(7), IB_CLASS_CM, IB_METHOD_SEND, 0x14);
			assert_int_equal(mads_at(1, attr), k % 3 == 2 ? 1 : 2);
		}
		send_mad(1, LID(1), IB_CLASS_CM, IB_METHOD_SEND, 0x10);
		assert_int_equal(mads_at(0, attr), 1);
		assert_int_equal(m.mad_fault[0].seen, 7);
		assert_int_equal(m.mad_fault[0].dropped, 2);
		assert_true(fab_fault_drop(&m, nodes[i], &connect_request, 0));
		assert_true(fab_fault_late(&m, nodes[i], &connect_request, 20 * MS));
		send_mad(0, LID(7), IB_CLASS_CM, IB_METHOD_SEND, 0x10);
		send_mad(0, LID(7), IB_CLASS_CM, IB_METHOD_SEND, 0x14);
		assert_true(send_data(0, 0, LID(7), 64, 1));
		pump(NULL);
		assert_int_equal(ep_recv(&host[1], 0, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
		assert_int_equal(ib_get_be16(pkt + IB_MAD_PKT_HDR + 16), 0x14);
		expect_data(1, 0, 64, 1);
		later(20 * MS - 1);
		assert_int_equal(mads_at(1, attr), 0);
		later(1);
		assert_int_equal(mads_at(1, attr), 1);
		assert_int_equal(attr[0], 0x10);
		assert_true(fab_fault_late(&m, nodes[i], &connect_request, 0));
	}
	assert_int_equal(m.stats.lost, lost + 4);
}

/* A machine sends requests to the agent of its switch, and an agent of the graph to the machine. */
static void test_machine_and_agent(void **st)
{
	const uint32_t leaf = f->port[port_of_host(1)].node;
	uint16_t attr[8];

	(void)st;
	assert_true(fab_fault_drop(&m, 1, &port_counters, 2));
	for (unsigned int k = 0; k < 4; k++)
		send_mad(0, LID(leaf), IB_CLASS_PERF, IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS);
	assert_int_equal(mads_at(0, attr), 2);
	/* an SMP to a machine */
	assert_true(fab_fault_drop(&m, 1, &node_info, 1));
	assert_int_equal(ask_node_info("12"), FAB_LOST);
	assert_int_equal(ask_node_info("1"), FAB_DELIVERED);
	assert_true(fab_fault_drop(&m, 1, &node_info, 0));
	assert_true(fab_fault_late(&m, 1, &node_info, MS));
	assert_int_equal(ask_node_info("12"), FAB_UNDER_WAY);
	assert_false(ep_recv(&host[0], OHCA_LINK_VL15, (uint8_t[OHCA_LINK_MAX_FRAME]){ 0 }, OHCA_LINK_MAX_FRAME));
	later(MS);
	assert_true(ep_recv(&host[0], OHCA_LINK_VL15, (uint8_t[OHCA_LINK_MAX_FRAME]){ 0 }, OHCA_LINK_MAX_FRAME));
}

/*
 * The answer has the status of the fault: from an agent, and for a program and a machine, which get
 * no request.
 */
static void test_refused(void **st)
{
	const uint32_t leaf = f->port[port_of_host(1)].node;
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	uint16_t attr[8];

	(void)st;
	assert_true(fab_fault_refuse(&m, leaf, &port_counters, IB_MAD_BAD_METHOD_ATTR));
	assert_int_equal(get_lid(IB_CLASS_PERF, IB_PMA_ATTR_PORT_COUNTERS, 0, LID(leaf)), FAB_DELIVERED);
	assert_int_equal(status(), IB_MAD_BAD_METHOD_ATTR);
	assert_int_equal(got.mad.hdr.method, IB_METHOD_GET_RESP);
	assert_int_equal(get_lid(IB_CLASS_PERF, IB_ATTR_CLASS_PORT_INFO, 0, LID(leaf)), FAB_DELIVERED);
	assert_int_equal(status(), 0);
	/* late, too */
	assert_true(fab_fault_late(&m, leaf, &port_counters, MS));
	assert_int_equal(get_lid(IB_CLASS_PERF, IB_PMA_ATTR_PORT_COUNTERS, 0, LID(leaf)), FAB_UNDER_WAY);
	later(MS);
	assert_int_equal(status(), IB_MAD_BAD_METHOD_ATTR);
	assert_int_equal(m.mad_fault[0].refused, 2);
	assert_true(fab_fault_late(&m, leaf, &port_counters, 0));
	assert_true(fab_fault_refuse(&m, leaf, &port_counters, 0));
	assert_int_equal(m.mad_faults, 0);
	/* a machine, with requests of a program and of another machine */
	assert_true(fab_fault_refuse(&m, 1, &perf, IB_MAD_BAD_FIELD));
	got_n = 0;
	get_lid(IB_CLASS_PERF, IB_PMA_ATTR_PORT_COUNTERS, 0, LID(1));
	pump(NULL);
	assert_int_equal(got_n, 1);
	assert_int_equal(status(), IB_MAD_BAD_FIELD);
	assert_int_equal(got.slid, LID(1));
	send_mad(1, LID(1), IB_CLASS_PERF, IB_METHOD_SET, IB_PMA_ATTR_PORT_COUNTERS);
	assert_int_equal(mads_at(0, attr), 0);
	assert_int_equal(ep_recv(&host[1], 0, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
	assert_int_equal(pkt[IB_MAD_PKT_HDR + 3], IB_METHOD_GET_RESP);
	assert_int_equal(ib_get_be16(pkt + IB_MAD_PKT_HDR + 4), IB_MAD_BAD_FIELD);
	assert_int_equal(ib_get_be16(pkt + 6), LID(1));
	/* a program: GetTable of a subnet administration */
	assert_true(fab_fault_refuse(&m, HOST, &path_record, IB_MAD_BUSY));
	got_n = 0;
	send_mad(1, LID(HOST), IB_CLASS_SUBN_ADM, IB_METHOD_GET_TABLE, 0x35);
	assert_int_equal(got_n, 0);
	assert_int_equal(ep_recv(&host[1], 0, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
	assert_int_equal(pkt[IB_MAD_PKT_HDR + 3], IB_METHOD_GET_TABLE_RESP);
	assert_int_equal(ib_get_be16(pkt + IB_MAD_PKT_HDR + 4), IB_MAD_BUSY);
}

/*
 * Methods without an answer are not refused; others are answered with the method of their answer.
 */
static void test_refused_methods(void **st)
{
	static const struct {
		uint8_t method, answer;
	} cases[] = {
		{ IB_METHOD_GET, IB_METHOD_GET_RESP }, { IB_METHOD_SET, IB_METHOD_GET_RESP },
		{ IB_METHOD_REPORT, IB_METHOD_REPORT_RESP },
		{ IB_METHOD_GET_TABLE, IB_METHOD_GET_TABLE_RESP },
		{ IB_METHOD_GET_TRACE_TABLE, 0x93 }, { IB_METHOD_GET_MULTI, 0x94 },
		{ IB_METHOD_DELETE, 0x95 },
		{ IB_METHOD_SEND, 0 }, { IB_METHOD_TRAP, 0 }, { IB_METHOD_TRAP_REPRESS, 0 },
	};
	uint8_t pkt[OHCA_LINK_MAX_FRAME];

	(void)st;
	assert_true(fab_fault_refuse(&m, HOST, &path_record, IB_MAD_BUSY));
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(cases); i++) {
		got_n = 0;
		send_mad(1, LID(HOST), IB_CLASS_SUBN_ADM, cases[i].method, 0x35);
		if (cases[i].answer) {
			assert_int_equal(got_n, 0);
			assert_int_equal(ep_recv(&host[1], 0, pkt, sizeof(pkt)), IB_MAD_PKT_LEN);
			assert_int_equal(pkt[IB_MAD_PKT_HDR + 3], cases[i].answer);
		} else {
			assert_int_equal(got_n, 1);
			assert_int_equal(got.mad.hdr.method, cases[i].method);
			assert_int_equal(status(), 0);
			assert_int_equal(ep_recv(&host[1], 0, pkt, sizeof(pkt)), 0);
		}
	}
}

/* ACK, STOP and ABORT of RMPP are no requests: they are not counted, lost or refused. */
static void test_rmpp(void **st)
{
	static const uint8_t none[] = { IB_RMPP_ACK, IB_RMPP_STOP, IB_RMPP_ABORT };
	const struct fab_attribute diag = { IB_CLASS_PERF, 0x35 };

	(void)st;
	for (unsigned int refuse = 0; refuse < 2; refuse++) {
		assert_true(refuse ? fab_fault_refuse(&m, HOST, &path_record, IB_MAD_BUSY) :
				     fab_fault_drop(&m, HOST, &path_record, 1));
		got_n = 0;
		for (unsigned int i = 0; i < sizeof(none); i++) {
			send_rmpp(1, LID(HOST), IB_CLASS_SUBN_ADM, IB_METHOD_GET_TABLE, 0x35, none[i]);
			assert_int_equal(got_n, i + 1);
			assert_int_equal(got.mad.hdr.method, IB_METHOD_GET_TABLE);
		}
		assert_int_equal(m.mad_fault[0].seen, 0);
		send_rmpp(1, LID(HOST), IB_CLASS_SUBN_ADM, IB_METHOD_GET_MULTI, 0x35, IB_RMPP_DATA);
		send_mad(1, LID(HOST), IB_CLASS_SUBN_ADM, IB_METHOD_GET_TABLE, 0x35);
		assert_int_equal(got_n, sizeof(none));
		assert_true(refuse ? fab_fault_refuse(&m, HOST, &path_record, 0) :
				     fab_fault_drop(&m, HOST, &path_record, 0));
	}
	/* in other classes these bytes have another meaning */
	assert_true(fab_fault_drop(&m, HOST, &diag, 1));
	send_rmpp(1, LID(HOST), IB_CLASS_PERF, IB_METHOD_GET, 0x35, IB_RMPP_ACK);
	assert_int_equal(m.mad_fault[0].dropped, 1);
}

/* The number of late MADs is limited. */
static void test_full(void **st)
{
	(void)st;
	assert_true(fab_fault_late(&m, HOST, &path_record, MS));
	for (unsigned int i = 0; i < FAB_MAD_FLIGHTS; i++)
		assert_int_equal(get_lid(IB_CLASS_SUBN_ADM, 0x35, 0, LID(2)), FAB_UNDER_WAY);
	assert_int_equal(get_lid(IB_CLASS_SUBN_ADM, 0x35, 0, LID(2)), FAB_LOST);
	assert_int_equal(m.mad_fault[0].delayed, FAB_MAD_FLIGHTS);
	assert_int_equal(m.mad_fault[0].dropped, 1);
	later(MS);
	later(MS);
	assert_int_equal(m.flights, 0);
}

/* The command status shows the faults. */
static void test_told(void **st)
{
	static const char *const asks[] = {
		"{\"command\": \"drop\", \"node\": \"host2\", \"attribute\": \"PathRecord\", \"nth\": 2}",
		"{\"command\": \"delay\", \"node\": \"host2\", \"attribute\": \"PathRecord\", \"time_ns\": 7}",
		"{\"command\": \"status\"}",
	};
	json_t *v = NULL, *x;

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(asks); i++) {
		char *text = fab_control_answer(&m, d, asks[i], strlen(asks[i]), NULL);

		assert_non_null(text);
		json_decref(v);
		v = json_loads(text, 0, NULL);
		free(text);
		assert_null(json_object_get(v, "error"));
		send_mad(0, LID(HOST), IB_CLASS_SUBN_ADM, IB_METHOD_GET, 0x35);
		send_mad(0, LID(HOST), IB_CLASS_SUBN_ADM, IB_METHOD_GET, 0x35);
	}
	assert_int_equal(json_array_size(json_object_get(v, "mad_faults")), 1);
	x = json_array_get(json_object_get(v, "mad_faults"), 0);
	assert_string_equal(json_string_value(json_object_get(x, "attribute")), "SubnAdm:PathRecord");
	assert_int_equal(json_integer_value(json_object_get(x, "nth")), 2);
	assert_int_equal(json_integer_value(json_object_get(x, "delay_ns")), 7);
	assert_int_equal(json_integer_value(json_object_get(x, "seen")), 4);
	assert_int_equal(json_integer_value(json_object_get(x, "dropped")), 2);
	assert_int_equal(json_integer_value(json_object_get(x, "delayed")), 1);
	json_decref(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_hosts, teardown_hosts)
		T(test_smps), T(test_room), T(test_smps_in_transit), T(test_late_smps), T(test_perf),
		T(test_program_and_machine), T(test_machines), T(test_machine_and_agent), T(test_full),
		T(test_told), T(test_refused), T(test_refused_methods), T(test_rmpp),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
