// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults of nodes and counters, and what others can detect of them. */
#include <jansson.h>

#include "fabric/control/control.h"
#include "fabric/graph/names.h"
#include "fabric/watch/trace.h"
#include "faults.h"

/* A switch that was off has lost all of its state when it is on again. */
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
	/* a table without users can be freed */
	assert_int_equal(f->sw_pkeys.ref[keys], held);
	ways(HOST, w);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, w[node].route, NULL),
			 FAB_DELIVERED);
	free(w);
	counts_anew[node] = true;
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

/* Return: whether the request is refused with an error that contains @says. */
static bool asks_in_vain(const char *ask, const char *says)
{
	json_t *v = asked(ask);
	const char *error = json_string_value(json_object_get(v, "error"));
	const bool ok = error && strstr(error, says);

	json_decref(v);
	return ok;
}

/* A machine that accepts nothing: packets and MADs for it wait until it does, SMPs do not. */
static void test_stall(void **st)
{
	const uint32_t end = f->port[port_of_host(7)].peer;
	struct ohca_link_frame fr;
	struct fab_mad mad;

	(void)st;
	assert_int_equal(send_many(3), 3);
	assert_true(fab_fault_port_stall(&m, end, now + 50000000));
	assert_int_equal(send_many(5), 0);
	mad = new_mad(IB_CLASS_PERF, IB_METHOD_GET, IB_ATTR_CLASS_PORT_INFO, 0);
	mad.dqp = mad.sqp = 1;
	mad.dlid = LID(7);
	mad.slid = LID(8);
	fab_forward(&m, port_of_host(7), &mad);
	pump(NULL);
	assert_false(ohca_link_rx_peek(host[1].l, 0, &fr));
	mad = new_mad(IB_CLASS_SUBN_LID, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);
	mad.dlid = LID(7);
	mad.slid = LID(8);
	while (ohca_link_rx_peek(host[1].l, OHCA_LINK_VL15, &fr))
		ohca_link_rx_release(host[1].l, OHCA_LINK_VL15);
	fab_forward(&m, port_of_host(7), &mad);
	pump(NULL);
	assert_true(ohca_link_rx_peek(host[1].l, OHCA_LINK_VL15, &fr));
	ohca_link_rx_release(host[1].l, OHCA_LINK_VL15);
	/* and its own packets pass */
	assert_true(send_data(1, 0, LID(1), 64, 9));
	pump(NULL);
	assert_int_equal(count_data(0, 0), 1);
	assert_true(counters(port_of_host(7))->xmit_discards == 0);
	now += 50000000;
	pump(NULL);
	assert_int_equal(count_data(1, 0), 6);
	/* 50 ms in us, as the MADs waited */
	assert_in_range(counters(port_of_host(7))->xmit_wait, 49999, 50001);
	/* a switch's end of a machine's cable cannot stall */
	assert_true(asks_in_vain("{\"command\": \"stall\", \"node\": \"leaf1\", \"port\": 2}",
				 "the \"port\" of a host"));
}

/* Sends a Set or Get of an attribute to the performance agent, for port @num of @lid. */
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

/* A counter has its preset value for performance managers, too, whatever they have reset. */
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
	/* below the value at the reset */
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
	/* while it is sampled: a preset does not count as an event */
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

/*
 * A counter that is stuck is all ones for performance managers, whatever they reset; the fabric
 * knows its value.
 */
static void test_stuck(void **st)
{
	const uint32_t p = inner();
	const unsigned int num = fab_port_num(f, p);
	const uint16_t lid = LID(f->port[p].node);

	(void)st;
	assert_false(fab_fault_stick(f, p, "NoSuchCounter"));
	assert_true(fab_fault_preset(f, p, "SymbolErrorCounter", 77));
	assert_true(fab_fault_stick(f, p, "SymbolErrorCounter"));
	for (unsigned int i = 0; i < 2; i++) {
		perf(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, num, lid, NULL);
		assert_int_equal(ib_get_be16(got_perf() + 4), 0xffff);
		assert_int_equal(got_perf()[6], 0);
		perf(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS_EXT, num, lid, NULL);
		assert_true(ib_get_be64(got_perf() + 72) == UINT64_MAX);
		perf(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, IB_PMA_ALL_PORTS, lid, NULL);
		assert_int_equal(ib_get_be16(got_perf() + 4), 0xffff);
		/* also in the answers to a reset */
		perf(IB_METHOD_SET, IB_PMA_ATTR_PORT_COUNTERS, num, lid, NULL);
		assert_int_equal(ib_get_be16(got_perf() + 4), 0xffff);
		assert_int_equal(got_perf()[6], 0);
		perf(IB_METHOD_SET, IB_PMA_ATTR_PORT_COUNTERS_EXT, num, lid, NULL);
		assert_true(ib_get_be64(got_perf() + 72) == UINT64_MAX);
	}
	assert_int_equal(counters(p)->symbol_error, 77);
	/* until it is preset */
	assert_true(fab_fault_preset(f, p, "SymbolErrorCounter", 5));
	perf(IB_METHOD_GET, IB_PMA_ATTR_PORT_COUNTERS, num, lid, NULL);
	assert_int_equal(ib_get_be16(got_perf() + 4), 5);
}

/*
 * A host and a switch show the GUIDs of another node, or none, also after they were off; commands
 * use their own.
 */
static void test_guids(void **st)
{
	const uint32_t leaf = f->port[port_of_host(0)].node;
	struct ib_node_info ni;
	struct way *w = calloc(f->nodes, sizeof(*w));
	static const struct {
		uint32_t node, other;
	} cases[] = { { 2, 3 }, { 2, FAB_NONE }, { 2, 2 }, { 8, 9 }, { 8, 2 }, { 2, 8 }, { 8, FAB_NONE }, { 8, 8 } };

	(void)st;
	assert_non_null(w);
	assert_int_equal(leaf, 8);
	ways(HOST, w);
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(cases); i++) {
		const uint32_t node = cases[i].node, other = cases[i].other;
		const struct fab_node *o = other != FAB_NONE ? &f->node[other] : NULL;

		fab_fault_guid(f, node, other);
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, w[node].route, NULL), FAB_DELIVERED);
		ib_node_info_unpack(got.smp.data, &ni);
		assert_true(ni.node_guid == (o ? o->guid : 0));
		assert_true(ni.port_guid == (o ? f->port[fab_port_of(o, o->sw != FAB_NONE ? 0 : 1)].guid : 0));
		assert_true(ni.sys_guid == f->node[node].sys_guid);
		assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_GUID_INFO, 0, w[node].route, NULL), FAB_DELIVERED);
		assert_true(ib_get_be64(got.smp.data) == ni.port_guid);
		assert_int_equal(fab_find_node(f, f->desc[node].text), node);
		if (node == 2) {
			assert_true(fab_fault_node(&m, node, false, now));
			assert_true(fab_fault_node(&m, node, true, now));
			counts_anew[node] = true;
			assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_GUID_INFO, 0, w[node].route, NULL),
					 FAB_DELIVERED);
			assert_true(ib_get_be64(got.smp.data) == ni.port_guid);
		}
	}
	free(w);
}

/* A switch that is off sends no traps. When it is on again its counters are 0. */
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
	/* one trap waits to be repeated, and its neighbours send theirs */
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

/*
 * A machine's packets for the LID of port 0 arrive there, whatever the forwarding table contains.
 */
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

/*
 * A rate is a share of 2^32 packets. A rate above 0 is a fault, however small; 0 is none. Neither
 * kind of fault changes the other one.
 */
static void test_rates(void **st)
{
	static const struct {
		const char *rate;
		uint32_t of;
	} rates[] = {
		{ "0", 0 }, { "1e-300", 1 }, { "1e-10", 1 }, { "2.4e-10", 1 }, { "0", 0 },
		{ "5e-10", 2 }, { "0.5", 1u << 31 }, { "1", UINT32_MAX }, { "0.0", 0 },
	};
	const uint32_t p = inner();
	uint32_t want[2] = { 0, 0 };

	(void)st;
	for (unsigned int i = 0; i < 2 * IB_ARRAY_SIZE(rates); i++) {
		const struct fab_extra *e;
		char text[160];
		json_t *v;

		snprintf(text, sizeof(text), "{\"command\": \"%s\", \"node\": \"%s\", "
			 "\"port\": %u, \"rate\": %s}", i & 1 ? "corrupt" : "loss",
			 f->desc[f->port[p].node].text, fab_port_num(f, p), rates[i / 2].rate);
		v = asked(text);
		if (!json_is_true(json_object_get(v, "done")))
			fail_msg("%s: %s", text, json_string_value(json_object_get(v, "error")));
		json_decref(v);
		want[i & 1] = rates[i / 2].of;
		e = fab_extra_of(f, p);
		assert_int_equal(e && e->fault ? e->fault->loss : 0, want[0]);
		assert_int_equal(e && e->fault ? e->fault->corrupt : 0, want[1]);
	}
}

/* The command status shows the fates of data packets, and all memory. */
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

/* The port of a machine is shown with the switch's values: state, rate, LIDs. */
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
	/* four LIDs, set by a subnet manager */
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

/* Credits are lost on a link that is up; a link that trains gets all of them back. */
static void test_credits_down(void **st)
{
	const uint32_t p = inner();
	char ask[192];

	(void)st;
	for (unsigned int up = 0; up < 2; up++) {
		assert_true(fab_fault_link(&m, p, up, now));
		for (unsigned int blocks = 0; blocks < 2; blocks++) {
			json_t *v;

			snprintf(ask, sizeof(ask), "{\"command\": \"credits\", \"node\": \"%s\", "
				 "\"port\": %u, \"vl\": 0, \"blocks\": %u}",
				 f->desc[f->port[p].node].text, fab_port_num(f, p), blocks);
			if (!up && blocks) {
				assert_true(asks_in_vain(ask, "the link is down"));
				continue;
			}
			v = asked(ask);
			assert_true(json_is_true(json_object_get(v, "done")));
			json_decref(v);
		}
	}
	assert_int_equal(fab_extra_of(f, p)->fault->gone[0], 1);
}

/* A gap that exceeds 64 bits is the largest one, and does not wrap to a small one. */
static void test_gap(void **st)
{
	unsigned int large = 0;

	(void)st;
	for (unsigned int seed = 1; seed <= 1000; seed++) {
		uint64_t one = fab_random_state(seed), two = one;
		const uint64_t small = fab_random_gap(&one, 1ull << 32), gap = fab_random_gap(&two, 1ull << 63);

		assert_true(gap == (small >> 33 ? UINT64_MAX : small << 31));
		large += small >> 33 != 0;
	}
	/* 1000 / e^2 */
	assert_in_range(large, 100, 170);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_hosts, teardown_hosts)
		T(test_node), T(test_stall), T(test_preset), T(test_stuck), T(test_guids), T(test_dead_switch),
		T(test_port0_without_route),
		T(test_status), T(test_machine_shown), T(test_rates),
		T(test_credits_down), T(test_gap),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
