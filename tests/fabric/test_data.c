// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Data packets through a fat tree of 4-port switches: hosts 0 to 7, of which 0 is the manager's;
 * leaves 8 to 15, spines 16 to 19, as far as the generator makes them. Places of virtual machines.
 */
#include "fabric/fault/fault.h"
#include "hosts.h"

#include "ib/rate.h"

#define MTU_PKT	4116u		/* LRH, BTH, 4092 bytes and the ICRC */

static int setup_hosts(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4"));
	return 0;
}

/* Attaches host[0] and host[1] at two sides of the tree. Return: outputs on the way, in @out. */
static unsigned int across(uint32_t out[8])
{
	place(0, 1);
	place(1, 7);
	return path(1, LID(7), out, 8);
}

/* A packet passes all hops unchanged, and is copied once. */
static void test_through(void **st)
{
	uint32_t out[8];
	unsigned int n;

	(void)st;
	n = across(out);
	assert_true(n >= 3);
	assert_true(send_data(0, 2, LID(7), MTU_PKT, 0x5a));
	pump(NULL);
	expect_data(1, 2, MTU_PKT, 0x5a);
	assert_int_equal(count_data(1, 2), 0);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(counters(out[i])->xmit_data_sl[2], MTU_PKT / 4);
	assert_int_equal(d->n.copies, 0);
	assert_int_equal(d->n.hops, n - 1);
	assert_int_equal(d->n.delivered, 1);
}

/*
 * A receiver that does not read: packets wait in the input buffers on their way, each hop has its
 * own credits, nothing is lost or overtaken, and each port on the way counts its wait.
 */
static void test_credits(void **st)
{
	unsigned int sent = 0, got = 0;
	uint64_t waited[2];
	uint32_t out[8];
	unsigned int n;

	(void)st;
	n = across(out);
	for (int i = 0; i < 100; i++) {
		while (send_data(0, 1, LID(7), MTU_PKT, (uint8_t)sent))
			sent++;
		pump(NULL);
	}
	/* 31 packets fit a lane of 2048 blocks: two rings and the buffers between the switches */
	assert_int_equal(sent, 31 * (n + 1));
	for (unsigned int i = 0; i + 1 < n; i++)
		assert_true(d->by_port[f->port[out[i]].peer]->lane[1].used > 2000);
	waited[0] = counters(out[n - 1])->xmit_wait;
	now += 5000000;
	pump(NULL);
	waited[1] = counters(out[n - 1])->xmit_wait;
	assert_in_range(waited[1] - waited[0], 4999, 5001);
	while (got < sent) {
		expect_data(1, 1, MTU_PKT, (uint8_t)got);
		got++;
		pump(NULL);
	}
	assert_int_equal(count_data(1, 1), 0);
	for (unsigned int i = 0; i + 1 < n; i++)
		assert_int_equal(d->by_port[f->port[out[i]].peer]->lane[1].used, 0);
	assert_int_equal(d->blocked, 0);
	waited[0] = counters(out[n - 1])->xmit_wait;
	now += 5000000;
	assert_int_equal(counters(out[n - 1])->xmit_wait, waited[0]);
}

/* A full lane holds as much as its credits allow, whatever the length of its packets. */
static void test_buffer_memory(void **st)
{
	static const size_t lens[] = { 24, 64, 132, 136, 288, 324, 392, 644, 1160, 2184, MTU_PKT };
	const struct fab_lane *l;
	uint32_t out[8];
	unsigned int n;

	(void)st;
	n = across(out);
	for (unsigned int k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
		const uint64_t before = d->n.buffer_bytes;

		for (int i = 0; i < 2000; i++) {
			while (send_data(0, 1, LID(7), lens[k], 1))
				;
			pump(NULL);
			if (!d->n.hops)
				break;
			d->n.hops = 0;
		}
		l = &d->by_port[f->port[out[n - 2]].peer]->lane[1];
		assert_true(l->used > FAB_LANE_BLOCKS - 66);
		/* lanes of n - 1 switches, each of FAB_LANE_BLOCKS blocks of 64 bytes */
		assert_in_range(d->n.buffer_bytes - before, 0, 2 * 64 * FAB_LANE_BLOCKS * (n - 1));
		while (count_data(1, 1))
			pump(NULL);
		assert_int_equal(l->used, 0);
	}
}

/* A lane without credit does not delay the others. */
static void test_lanes(void **st)
{
	(void)st;
	place(0, 1);
	place(1, 7);
	for (int i = 0; i < 300; i++) {
		send_data(0, 1, LID(7), MTU_PKT, 1);
		if (i % 10 == 0)
			pump(NULL);
	}
	assert_true(send_data(0, 3, LID(7), 64, 3));
	pump(NULL);
	expect_data(1, 3, 64, 3);
	assert_true(count_data(1, 1) > 0);
}

/* A packet that waits longer than HOQLife is discarded, and counted at the output. */
static void test_hoq(void **st)
{
	uint64_t sent = 0, before;
	uint32_t out[8];
	unsigned int n;

	(void)st;
	n = across(out);
	f->port[out[n - 1]].pi.hoq_life = 10;		/* 4.2 ms */
	f->port[out[n - 1]].pi.vl_stall_count = 0;
	for (unsigned int i = 0; i < n - 1; i++)
		f->port[out[i]].pi.hoq_life = 19;
	for (int i = 0; i < 20; i++) {
		while (send_data(0, 1, LID(7), MTU_PKT, 1))
			sent++;
		pump(NULL);
	}
	before = counters(out[n - 1])->xmit_hoq_discards;
	for (int i = 0; i < 400; i++) {
		now += 5000000;
		pump(NULL);
	}
	assert_true(counters(out[n - 1])->xmit_hoq_discards > before + 30);
	assert_int_equal(counters(out[n - 1])->xmit_hoq_discards, d->n.drop[FAB_DROP_HOQ]);
	assert_int_equal(count_data(1, 1) + d->n.drop[FAB_DROP_HOQ], sent);
}

/* Each member gets one copy, wherever it is; the sender gets none. */
static void test_multicast(void **st)
{
	const uint16_t mlid = IB_LID_MCAST_MIN + 5;
	uint32_t out[8];

	(void)st;
	place(0, 1);
	place(1, 2);
	place(2, 7);
	/* the tree: the ways from host 1 to the others, and up to it from the first leaf */
	for (unsigned int i = 0; i < HOSTS - 1; i++) {
		for (unsigned int k = 0; k < HOSTS - 1; k++) {
			unsigned int n = i == k ? 0 : path(node_of[i], host[k].lid, out, 8);

			if (node_of[i] != 1)
				continue;
			for (unsigned int h = 0; h < n; h++)
				add_member(f->port[out[h]].node, 5, fab_port_num(f, out[h]));
		}
	}
	assert_true(send_data(0, 0, mlid, 256, 0x77));
	pump(NULL);
	expect_data(1, 0, 256, 0x77);
	expect_data(2, 0, 256, 0x77);
	for (unsigned int i = 0; i < HOSTS - 1; i++)
		assert_int_equal(count_data(i, 0), 0);
	assert_int_equal(d->n.delivered, 2);
	/* there is no such group: no host gets it */
	assert_true(send_data(0, 0, mlid + 1, 256, 0x77));
	pump(NULL);
	assert_int_equal(d->n.drop[FAB_DROP_NO_MEMBER], 1);
}

/*
 * A forwarding table with a circle: the packet is discarded in the end, and the daemon can sleep.
 */
static void test_circle(void **st)
{
	uint32_t out[8], a, b;
	const uint16_t lid = LID(7);

	(void)st;
	place(0, 1);
	place(1, 7);
	assert_true(path(1, lid, out, 8) >= 3);
	/*
	 * a switch sends no packet back by the same wire, so the second one sends it to a third one
	 */
	a = f->port[out[0]].node;
	b = f->port[f->port[out[0]].peer].node;
	for (unsigned int i = 1; i <= f->node[b].nports; i++) {
		const uint32_t p = fab_port_of(&f->node[b], i), q = f->port[p].peer;
		const uint32_t c = q == FAB_NO_PORT ? a : f->port[q].node;

		if (c == a || f->node[c].sw == FAB_NONE)
			continue;
		/* c has another way up, to another switch that reaches a */
		for (unsigned int k = 1; k <= f->node[c].nports; k++) {
			const uint32_t up = fab_port_of(&f->node[c], k);
			const uint32_t e = f->port[f->port[up].peer].node;

			if (f->port[up].peer == FAB_NO_PORT || e == b ||
			    f->node[e].sw == FAB_NONE)
				continue;
			for (unsigned int h = 1; h <= f->node[e].nports; h++) {
				const uint32_t down = fab_port_of(&f->node[e], h);

				if (f->port[down].peer == FAB_NO_PORT ||
				    f->port[f->port[down].peer].node != a)
					continue;
				f->sw[f->node[b].sw].lft[lid] = (uint8_t)i;
				f->sw[f->node[c].sw].lft[lid] = (uint8_t)k;
				f->sw[f->node[e].sw].lft[lid] = (uint8_t)h;
				m.epoch++;
				assert_true(send_data(0, 0, lid, 64, 9));
				pump(NULL);
				assert_int_equal(d->n.drop[FAB_DROP_HOPS], 1);
				assert_int_equal(count_data(1, 0), 0);
				return;
			}
		}
	}
	fail_msg("no circle in this fabric");
}

/*
 * A chain of switches with two cables between neighbours; multicast is forwarded by both
 * everywhere.
 */
static int setup_chain(void **st)
{
	enum { N = 16 };
	struct fab *chain = fab_new();
	uint32_t sw[N], h[2];

	(void)st;
	assert_non_null(chain);
	for (unsigned int i = 0; i < 2; i++)
		h[i] = fab_add_node(chain, IB_NODE_CHANNEL_ADAPTER, 1, 0x100 * (i + 1), "h", 1);
	for (unsigned int i = 0; i < N; i++)
		sw[i] = fab_add_node(chain, IB_NODE_SWITCH_DEVICE, 6, 0x10000 * (i + 1), "s", 1);
	for (unsigned int i = 0; i < N; i++) {
		const struct fab_node *n = &chain->node[sw[i]], *next = n + 1;

		for (unsigned int k = 0; i + 1 < N && k < 2; k++)
			fab_cable(chain, fab_port_of(n, 3 + k), fab_port_of(next, 1 + k));
	}
	for (unsigned int i = 0; i < 2; i++)
		fab_cable(chain, fab_port_of(&chain->node[h[i]], 1),
			  fab_port_of(&chain->node[sw[0]], 5 + i));
	assert_true(fab_seal(chain));
	begin_hosts(chain);
	return 0;
}

/* One packet has 2^15 copies at the end of the chain; a round moves only a part of them. */
static void test_flood(void **st)
{
	const uint16_t mlid = IB_LID_MCAST_MIN;
	uint64_t before;
	unsigned int i;

	(void)st;
	place(0, 1);
	for (i = 0; i < f->switches; i++) {
		struct fab_switch *s = &f->sw[i];

		s->mft = calloc(FAB_MFT_CAP / IB_MFT_PER_BLOCK, sizeof(*s->mft));
		assert_non_null(s->mft);
		s->mft[0] = calloc(IB_MFT_PER_BLOCK * s->mft_positions, sizeof(**s->mft));
		assert_non_null(s->mft[0]);
		s->mft[0][0] = 1u << 3 | 1u << 4;
	}
	assert_true(send_data(0, 0, mlid, 64, 1));
	pump_once();
	assert_in_range(d->n.hops, FAB_WALK / 2, FAB_WALK + 64);
	for (i = 0; i < 100; i++) {
		before = d->n.hops;
		pump_once();
		i = d->n.hops == before ? i : 0;
	}
	assert_true(d->n.hops > 10000);
}

/* Arbitration tables that change twice before a packet arrives: the last ones count. */
static void test_arbitration_changes(void **st)
{
	const uint32_t p = port_of_host(7);
	struct way *w = calloc(f->nodes, sizeof(*w));
	struct ib_vlarb_entry e[IB_VLARB_BLOCK] = { { 0, 0 } };

	(void)st;
	assert_non_null(w);
	place(0, 7);
	ways(HOST, w);
	for (uint8_t weight = 100; weight < 106; weight++) {
		e[0].weight = weight;
		assert_int_equal(ask(IB_METHOD_SET, IB_SMP_ATTR_VLARB,
				     1u << 16 | fab_port_num(f, p), w[f->port[p].node].route, e),
				 FAB_DELIVERED);
		assert_int_equal(status(), 0);
		if (weight % 2)
			pump(NULL);
	}
	assert_int_equal(d->by_port[p]->arb.t[IB_VLARB_LOW].e[0].weight, 105);
	free(w);
}

/* A link trains to what a subnet manager enables, whichever end starts the training. */
static void test_width(void **st)
{
	const uint32_t p = port_of_host(7);
	struct way *w = calloc(f->nodes, sizeof(*w));
	struct ohca_link_phy phy = ep_phy();
	struct ib_port_info pi;

	(void)st;
	assert_non_null(w);
	place(0, 7);
	ways(HOST, w);
	pi = get_port(w[f->port[p].node].route, fab_port_num(f, p));
	pi.width_enabled = IB_WIDTH_1X;
	set_port(w[f->port[p].node].route, fab_port_num(f, p), &pi);
	pump(NULL);
	ohca_link_train(host[0].l, &phy);
	pump(NULL);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_int_equal(f->port[p].pi.width_active, IB_WIDTH_1X);
	free(w);
}

/* A P_Key that is not in the table of an inner port: counted there, and reported by trap 259. */
static void test_partition(void **st)
{
	uint16_t keys[FAB_SW_PKEYS] = { 0x8001 };
	uint32_t out[8], in;
	uint64_t traps;

	(void)st;
	place(0, 1);
	place(1, 7);
	traps = m.stats.traps;
	assert_true(path(1, LID(7), out, 8) >= 3);
	in = f->port[out[0]].peer;
	f->port[in].pkeys = fab_pool_get(&f->sw_pkeys, keys);
	f->port[in].pi.part_enf_in = 1;
	m.epoch++;
	assert_true(send_data(0, 0, LID(7), 64, 9));
	pump(NULL);
	assert_int_equal(count_data(1, 0), 0);
	assert_int_equal(counters(in)->rcv_constraint_errors, 1);
	assert_int_equal(d->n.drop[FAB_DROP_FILTER], 1);
	assert_int_equal(m.stats.traps, traps + 1);
	keys[1] = 0xffff;
	f->port[in].pkeys = fab_pool_get(&f->sw_pkeys, keys);
	m.epoch++;
	assert_true(send_data(0, 0, LID(7), 64, 9));
	pump(NULL);
	expect_data(1, 0, 64, 9);
}

/* No route, a route back, a port that is not Active, and a host without a machine. */
static void test_drops(void **st)
{
	uint32_t out[8];

	(void)st;
	place(0, 1);
	place(1, 7);
	path(1, LID(7), out, 8);
	assert_true(send_data(0, 0, 0x4000, 64, 9));
	pump(NULL);
	assert_int_equal(d->n.drop[FAB_DROP_ROUTE], 1);
	assert_int_equal(counters(port_of_host(1))->rcv_dlid_mapping, 1);
	assert_true(send_data(0, 0, LID(1), 64, 9));
	pump(NULL);
	assert_int_equal(d->n.drop[FAB_DROP_ROUTE], 2);
	assert_int_equal(counters(port_of_host(1))->rcv_looping, 1);
	assert_true(send_data(0, 0, LID(3), 64, 9));
	pump(NULL);
	assert_int_equal(d->n.drop[FAB_DROP_PHANTOM], 1);
	f->port[out[1]].pi.state = IB_PS_ARMED;
	m.epoch++;
	assert_true(send_data(0, 0, LID(7), 64, 9));
	pump(NULL);
	assert_int_equal(d->n.drop[FAB_DROP_INACTIVE], 1);
	assert_int_equal(counters(out[1])->xmit_inactive_discards, 1);
	assert_int_equal(count_data(1, 0), 0);
}

/* Sends a MAD of a machine to @lid, and reads the answer from a data lane. */
static void ask_pma(unsigned int i, uint16_t lid)
{
	struct ib_mad mad = { 0 };
	uint8_t pkt[512];
	size_t len;

	mad.hdr.base_version = IB_MAD_BASE_VERSION;
	mad.hdr.class_version = IB_PMA_CLASS_VERSION;
	mad.hdr.mgmt_class = IB_CLASS_PERF;
	mad.hdr.method = IB_METHOD_GET;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	len = ep_build(pkt, 0, 0, lid, host[i].lid, IB_QP1, IB_QKEY_GSI, IB_DEFAULT_PKEY, &mad);
	assert_true(ep_send_raw(&host[i], 0, pkt, len));
	pump(NULL);
	assert_int_equal(ep_recv(&host[i], 0, pkt, sizeof(pkt)), EP_SMP_PKT);
	memcpy(&mad, pkt + EP_SMP_HDR, sizeof(mad));
	assert_int_equal(ib_get_be16(pkt + 2), host[i].lid);
	assert_int_equal(ib_get_be16(pkt + 6), lid);
	assert_int_equal(mad.hdr.method, IB_METHOD_GET_RESP);
	assert_int_equal(ib_be16(mad.hdr.status), 0);
}

/*
 * A machine sends requests to the agents of a host in the graph, of its own switch, and of a remote
 * one.
 */
static void test_agents(void **st)
{
	struct ib_smp smp;
	uint8_t route[3];
	uint32_t out[8];
	unsigned int n;

	(void)st;
	place(0, 1);
	n = path(1, LID(7), out, 8);
	ask_pma(0, LID(7));
	ask_pma(0, LID(f->port[out[0]].node));
	ask_pma(0, LID(f->port[out[1]].node));
	for (unsigned int i = 0; i < 3; i++)
		route[i] = i ? (uint8_t)fab_port_num(f, out[i - 1]) : 1;
	ep_smp_init(&host[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 3, route);
	assert_true(n >= 3);
	assert_int_equal(ep_query(&host[0], &smp), 0);
	assert_int_equal(ib_get_be64(smp.data + 12), f->node[f->port[out[2]].node].guid);
}

/* An SMP for a machine arrives by VL15, and its answer arrives at the requester. */
static void test_smp_to_machine(void **st)
{
	struct way *w = calloc(f->nodes, sizeof(*w));
	struct ib_smp smp;
	uint8_t out;

	(void)st;
	assert_non_null(w);
	place(0, 7);
	ways(HOST, w);
	assert_int_equal(ask(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, w[7].route, NULL),
			 FAB_DELIVERED);
	free(w);
	pump(NULL);
	assert_true(ep_recv_smp(&host[0], &smp));
	assert_int_equal(smp.hdr.method, IB_METHOD_GET);
	assert_int_equal(ib_dr_recv(&smp, NULL, 1, 1, &out), IB_DR_LOCAL);
	ib_smp_make_resp(&smp, 0);
	assert_int_equal(ib_dr_send(&smp, NULL, 1, &out), IB_DR_FORWARD);
	got_n = 0;
	assert_true(ep_send_smp(&host[0], &smp, IB_LID_PERMISSIVE));
	pump(NULL);
	assert_int_equal(got_n, 1);
	assert_int_equal(got.smp.hdr.method, IB_METHOD_GET_RESP);
}

/* The place of a machine: by GUID, by name, and if another machine has it. */
static void test_places(void **st)
{
	const uint32_t p = port_of_host(3);
	struct ohca_link_err err;
	struct ohca_link_cfg cfg;
	struct ep other;

	(void)st;
	/* by its PortGUID */
	place(0, 3);
	assert_ptr_equal(d->by_port[p]->link ? d->by_port[p] : NULL, d->linked[0]);
	ohca_link_cfg_init(&cfg);
	cfg.port_guid = f->port[fab_port_of(&f->node[3], 1)].guid;
	assert_false(connect_host(&other, &cfg, &err));
	assert_non_null(strstr(err.text, "attached to switch port"));
	/* by its name, which is that of a place in use */
	cfg.port_guid = 0x99;
	memcpy(cfg.desc, f->desc[3].text, sizeof(cfg.desc));
	assert_false(connect_host(&other, &cfg, &err));
	assert_non_null(strstr(err.text, "taken by 'machine 0'"));
	memcpy(cfg.desc, f->desc[5].text, sizeof(cfg.desc));
	assert_true(connect_host(&host[1], &cfg, &err));
	assert_non_null(d->by_port[port_of_host(5)]->link);
	/* the first place that no machine had; the same one again after the machine has left */
	cfg.port_guid = 0x9a;
	strcpy(cfg.desc, "new");
	assert_true(connect_host(&host[2], &cfg, &err));
	assert_non_null(d->by_port[port_of_host(0)]->link);
	ohca_link_free(host[2].l);
	host[2].l = NULL;
	pump(NULL);
	assert_null(d->by_port[port_of_host(0)]->link);
	assert_int_equal(f->port[port_of_host(0)].pi.state, IB_PS_DOWN);
	cfg.port_guid = 0x9b;
	assert_true(connect_host(&host[3], &cfg, &err));
	assert_null(d->by_port[port_of_host(0)]->link);
	cfg.port_guid = 0x9a;
	assert_true(connect_host(&host[2], &cfg, &err));
	assert_non_null(d->by_port[port_of_host(0)]->link);
}

static enum fab_occupant at_host_0(void *ctx, uint32_t port)
{
	(void)ctx;
	return port == fab_port_of(&f->node[0], 1) ? FAB_SUBNET_MANAGER : FAB_NOBODY;
}

/* A machine that asks for no place gets that of a host with programs last. */
static void test_occupied(void **st)
{
	struct ohca_link_err err;
	struct ohca_link_cfg cfg;

	(void)st;
	m.occupied = at_host_0;
	ohca_link_cfg_init(&cfg);
	cfg.port_guid = 0x9a;
	strcpy(cfg.desc, "new");
	assert_true(connect_host(&host[0], &cfg, &err));
	assert_non_null(d->by_port[port_of_host(1)]->link);
	ohca_link_free(host[0].l);
	host[0].l = NULL;
	pump(NULL);
	/* even a place that another machine has had comes first */
	for (uint32_t i = 2; i < f->nodes; i++)
		if (f->node[i].type == IB_NODE_CHANNEL_ADAPTER)
			fab_dport(d, port_of_host(i))->peer_guid = 0x99;
	cfg.port_guid = 0x9b;
	assert_true(connect_host(&host[0], &cfg, &err));
	assert_true(!d->by_port[port_of_host(0)] || !d->by_port[port_of_host(0)]->link);
	assert_null(strstr(said, "libumad2sim"));
	/* a machine with its name asks for it */
	cfg.port_guid = 0x9c;
	memcpy(cfg.desc, f->desc[0].text, sizeof(cfg.desc));
	assert_true(connect_host(&host[1], &cfg, &err));
	assert_non_null(d->by_port[port_of_host(0)]->link);
	assert_non_null(strstr(said, "replaces 'host1': its programs"));
}

/*
 * The peer of a wire to another fabric chooses its own GUID: a machine with the same one is
 * accepted.
 */
static void test_remote_guid(void **st)
{
	struct ohca_link_err err;
	struct ohca_link_cfg cfg;

	(void)st;
	ohca_link_cfg_init(&cfg);
	cfg.port_guid = 0x9a;
	assert_true(connect_host(&host[0], &cfg, &err));
	assert_non_null(d->by_port[port_of_host(0)]->link);
	fab_extra(f, port_of_host(0))->remote = true;
	assert_true(connect_host(&host[1], &cfg, &err));
	assert_non_null(d->by_port[port_of_host(1)]->link);
	assert_false(connect_host(&host[2], &cfg, &err));
	assert_non_null(strstr(err.text, "is attached to switch port"));
}

/* A host that is switched off has no link until a machine gets its place. */
static void test_off(void **st)
{
	(void)st;
	fab_switch_off(f, 5);
	m.epoch++;
	assert_int_equal(f->port[port_of_host(5)].pi.state, IB_PS_DOWN);
	assert_false(fab_link_up(f, port_of_host(5)));
	place(0, 1);
	assert_true(send_data(0, 0, LID(5), 64, 9));
	pump(NULL);
	assert_int_equal(d->n.drop[FAB_DROP_INACTIVE], 1);
	place(1, 5);
	assert_true(send_data(0, 0, LID(5), 64, 9));
	pump(NULL);
	expect_data(1, 0, 64, 9);
}

/*
 * A host with two ports that is switched off: a machine at the first port is not at the second one,
 * whatever a manager or a user does to the link of that. A node that was killed stays off when a
 * machine connects.
 */
static void test_off_port(void **st)
{
	static const char text[] = "Ca 1 \"A\"\n[1] \"S\"[1]\n"
				   "Ca 2 \"B\"\n[1] \"S\"[2]\n[2] \"S\"[3]\n"
				   "Switch 3 \"S\"\n[1] \"A\"[1]\n[2] \"B\"[1]\n[3] \"B\"[2]\n";
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	struct errors e;
	uint32_t p, q;

	teardown_hosts(st);
	begin_hosts(from_text(text, sizeof(text) - 1, &e));
	p = port_of_host(1);
	q = f->port[fab_port_of(&f->node[1], 2)].peer;
	fab_switch_off(f, 1);
	m.epoch++;
	assert_true(fab_fault_node(&m, 1, false, now));
	ohca_link_cfg_init(&cfg);
	cfg.port_guid = f->port[f->port[p].peer].guid;
	assert_true(connect_host(&host[0], &cfg, &err));
	assert_int_equal(f->port[p].pi.state, IB_PS_DOWN);
	assert_true(fab_fault_node(&m, 1, true, now));
	pump(NULL);
	assert_int_equal(f->port[p].pi.state, IB_PS_INIT);
	assert_int_equal(f->port[q].pi.state, IB_PS_DOWN);
	set_state("1", fab_port_num(f, q), IB_PS_NO_CHANGE, IB_PHYS_POLLING);
	assert_int_equal(f->port[q].pi.state, IB_PS_DOWN);
	assert_true(fab_fault_link(&m, q, false, now));
	assert_true(fab_fault_link(&m, q, true, now));
	assert_int_equal(f->port[q].pi.state, IB_PS_DOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_hosts, teardown_hosts)
		T(test_through), T(test_credits), T(test_buffer_memory), T(test_lanes), T(test_hoq),
		T(test_multicast), T(test_circle), T(test_partition),
		T(test_drops), T(test_agents),
		T(test_smp_to_machine), T(test_places), T(test_occupied), T(test_remote_guid),
		T(test_off), T(test_off_port),
		T(test_arbitration_changes), T(test_width),
#undef T
		cmocka_unit_test_setup_teardown(test_flood, setup_chain, teardown_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
