// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Packets through routers between hosts of subnets that use the same LIDs. The tests write the
 * tables into the graph. Everything happens in calls, so each test is exact.
 */
#include "cases.h"

#include "fabric/control/control.h"
#include "fabric/data/data_priv.h"
#include "fabric/graph/names.h"
#include "fabric/graph/prefix_route.h"
#include "fabric/mgmt/router.h"
#include "fabric/watch/capture.h"
#include "fabric/watch/pcapng.h"
#include "ib/crc.h"
#include "ib/rate.h"

#define PREFIX(s)	(0xfec0000000000001ull + (s))
#define LINK_LOCAL	0xfe80000000000000ull
#define HOSTS		5u	/* two in each of the first subnets, one in the last */
#define SUBNETS		3u
#define PAYLOAD		64u
#define LEN		(IB_LRH_LEN + IB_GRH_LEN + IB_BTH_LEN + PAYLOAD + IB_ICRC_LEN)

/*
 * Each subnet has a switch with two hosts at its ports 1 and 2. A router is at ports 8 of the first
 * two, another at ports 7 of all three.
 */
static const char topology[] =
	"Switch 8 \"S-00000000000000a0\" # \"switch1\"\n"
	"[1] \"H-00000000000000a1\"\n[2] \"H-00000000000000a2\"\n[8] \"R-00000000000000e0\"[1]\n"
	"[7] \"R-00000000000000f0\"[3]\n"
	"Ca 1 \"H-00000000000000a1\" # \"host1\"\n[1] \"S-00000000000000a0\"[1]\n"
	"Ca 1 \"H-00000000000000a2\" # \"host2\"\n[1] \"S-00000000000000a0\"[2]\n"
	"Switch 8 \"S-00000000000000b0\" # \"switch2\"\n"
	"[1] \"H-00000000000000b1\"\n[2] \"H-00000000000000b2\"\n[7] \"R-00000000000000f0\"[1]\n"
	"[8] \"R-00000000000000e0\"[2]\n"
	"Ca 1 \"H-00000000000000b1\" # \"host3\"\n[1] \"S-00000000000000b0\"[1]\n"
	"Ca 1 \"H-00000000000000b2\" # \"host4\"\n[1] \"S-00000000000000b0\"[2]\n"
	"Switch 8 \"S-00000000000000c0\" # \"switch3\"\n"
	"[1] \"H-00000000000000c1\"\n[7] \"R-00000000000000f0\"[2]\n"
	"Ca 1 \"H-00000000000000c1\" # \"host5\"\n[1] \"S-00000000000000c0\"[1]\n"
	"Rt 2 \"R-00000000000000e0\" # \"router1\"\n"
	"[1] \"S-00000000000000a0\"[8]\n[2] \"S-00000000000000b0\"[8]\n"
	"Rt 3 \"R-00000000000000f0\" # \"router2\"\n"
	"[1] \"S-00000000000000b0\"[7]\n[2] \"S-00000000000000c0\"[7]\n"
	"[3] \"S-00000000000000a0\"[7]\n";

/**
 * struct end - an HCA in place of a host, with PortGUID @guid
 * @pkt: the last packet received, of @len bytes; @got: how many in all
 * @stalled: it accepts no packet
 */
struct end {
	struct fab_hport *h;
	uint64_t guid;
	uint16_t lid;
	bool stalled;
	unsigned int got;
	uint32_t len;
	uint8_t pkt[512];
};

static struct fab *f;
static struct fab_mgmt m;
static struct fab_data *d;
static uint64_t now;
static struct end end[HOSTS];

static bool nobody(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

static uint64_t clock_now(void *arg)
{
	(void)arg;
	return now;
}

static bool room(void *ctx, unsigned int vl, unsigned int n, uint32_t len)
{
	const struct end *e = ctx;

	(void)vl;
	(void)n;
	(void)len;
	return !e->stalled;
}

static void rx(void *ctx, const struct ohca_link_frame *fr, const struct ib_view *view)
{
	struct end *e = ctx;

	assert_null(view);
	assert_true(fr->len <= sizeof(e->pkt));
	memcpy(e->pkt, fr->data, fr->len);
	e->len = fr->len;
	e->got++;
}

static void link_is(void *ctx, const struct fab_hport_rate *rate)
{
	(void)ctx;
	(void)rate;
}

static const struct fab_hport_ops ops = { .room = room, .rx = rx, .link = link_is };

static struct fab_port *port_named(const char *name)
{
	const uint32_t p = fab_find_port(f, name);

	assert_int_not_equal(p, FAB_NO_PORT);
	return &f->port[p];
}

static struct ohca_port_counters *counters(const char *name)
{
	return &fab_extra(f, fab_find_port(f, name))->ctr;
}

/* Tables and LIDs as a subnet manager sets them: LID 1 is the switch's, 1 + n that of port n. */
static void manage(void)
{
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];
		struct fab_switch *sw = n->sw != FAB_NONE ? &f->sw[n->sw] : NULL;

		if (!sw)
			continue;
		if (!sw->lft)
			sw->lft = malloc(IB_LFT_PER_BLOCK);
		assert_non_null(sw->lft);
		memset(sw->lft, IB_LFT_NO_PORT, IB_LFT_PER_BLOCK);
		sw->lft_blocks = 1;
		sw->si.linear_top = 20;
		sw->si.life_time = 31;		/* infinite, as HOQLife */
		f->port[fab_port_of(n, 0)].pi.lid = 1;
		for (unsigned int num = 1; num <= n->nports; num++) {
			struct fab_port *p = &f->port[fab_port_of(n, num)], *q = &f->port[p->peer];

			if (p->peer == FAB_NO_PORT)
				continue;
			sw->lft[1 + num] = (uint8_t)num;
			p->pi.hoq_life = 31;
			p->pi.state = q->pi.state = IB_PS_ACTIVE;
			p->pi.mtu = q->pi.mtu = IB_MTU_CODE_4096;
			p->pi.op_vls = q->pi.op_vls = p->pi.vl_cap;
			q->pi.lid = (uint16_t)(1 + num);
			q->pi.gid_prefix = PREFIX(sw->subnet);
		}
		fab_lft_changed(f, sw);
	}
	m.epoch++;
	fab_data_refresh(d);
}

/* @guid: its PortGUID; 0: the host's, or a different one for odd @i */
static void place_as(unsigned int i, uint64_t guid)
{
	char name[16];
	struct ohca_link_cfg cfg;
	struct fab_port *host;

	snprintf(name, sizeof(name), "host%u:1", i + 1);
	host = port_named(name);
	end[i] = (struct end){ .guid = host->guid, .lid = host->pi.lid };
	ohca_link_cfg_init(&cfg);
	/* some machines have other PortGUIDs than the host */
	if (guid)
		end[i].guid = guid;
	else if (i % 2)
		end[i].guid += 0x7000;
	cfg.port_guid = end[i].guid;
	cfg.vl_cap = FAB_DATA_VLS;
	end[i].h = fab_hport_attach(d, host->peer, &cfg, &ops, &end[i]);
	assert_non_null(end[i].h);
	fab_hport_train(end[i].h, true);
}

static void place(unsigned int i)
{
	place_as(i, 0);
}

static int begin_routers(void **st)
{
	const struct fab_data_cfg cfg = { .hoq_scale = 1, .clock = clock_now };
	struct errors e;

	(void)st;
	f = from_text(topology, strlen(topology), &e);
	assert_non_null(f);
	now = 1000000000;
	fab_mgmt_init(&m, f, nobody, NULL);
	d = fab_data_new(&m, &cfg);
	assert_non_null(d);
	manage();
	for (unsigned int i = 0; i < HOSTS; i++)
		place(i);
	fab_data_round(d);
	/* their links have trained */
	manage();
	return 0;
}

static int end_routers(void **st)
{
	(void)st;
	fab_data_free(d);
	fab_free(f);
	return 0;
}

static void put_gid(uint8_t gid[16], uint64_t prefix, uint64_t guid)
{
	ib_put_be64(gid, prefix);
	ib_put_be64(gid + 8, guid);
}

/* Writes an RC packet with a GRH and an ICRC to @b. Return: its length. */
static uint32_t build(uint8_t *b, const struct end *from, uint64_t from_prefix, uint16_t dlid,
		      uint64_t prefix, uint64_t guid, uint8_t hop_limit, uint8_t sl)
{
	uint8_t sgid[16], dgid[16], *p;
	uint32_t icrc;

	put_gid(sgid, from_prefix, from->guid);
	put_gid(dgid, prefix, guid);
	p = ib_build_lrh(b, sl, sl, IB_LNH_IBA_GLOBAL, dlid, LEN / 4, from->lid);
	p = ib_build_grh(p, 0x5a, 0x12345, LEN - IB_LRH_LEN - IB_GRH_LEN, hop_limit, sgid, dgid);
	p = ib_build_bth(p, IB_OP_RC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 0x77, true, 0xabcdef);
	memset(p, 0x3c, PAYLOAD);
	assert_int_equal(ib_icrc(b, LEN - IB_ICRC_LEN, &icrc), 0);
	ib_icrc_put(p + PAYLOAD, icrc);
	return LEN;
}

/* end[@i] sends a packet to the router of the first subnets. */
static void send_gid(unsigned int i, uint64_t prefix, uint64_t guid, uint8_t hop_limit)
{
	uint8_t *b;

	fab_data_refresh(d);
	b = fab_hport_begin(end[i].h, 0, LEN);
	assert_non_null(b);
	build(b, &end[i], PREFIX(i / 2), 9, prefix, guid, hop_limit, 0);
	fab_hport_commit(end[i].h, 0, LEN, NULL);
	for (unsigned int k = 0; k < 4; k++)
		fab_data_round(d);
}

static unsigned int all_got(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < HOSTS; i++)
		n += end[i].got;
	return n;
}

/* From each host of the first subnet to each of the second one, and back. */
static void test_crosses(void **st)
{
	uint8_t want[LEN];

	(void)st;
	for (unsigned int i = 0; i < 4; i++) {
		for (unsigned int k = i < 2 ? 2 : 0; k < (i < 2 ? 4 : 2); k++) {
			const unsigned int got = end[k].got, all = all_got();
			struct end from = end[i];

			send_gid(i, PREFIX(k / 2), end[k].guid, 64);
			assert_int_equal(end[k].got, got + 1);
			assert_int_equal(all_got(), all + 1);
			/*
			 * the LIDs are those of the second subnet, and HopLmt is one less; nothing
			 * else changes
			 */
			from.lid = 9;
			build(want, &from, PREFIX(i / 2), end[k].lid, PREFIX(k / 2), end[k].guid,
			      63, 0);
			assert_int_equal(end[k].len, LEN);
			assert_memory_equal(end[k].pkt, want, LEN);
			assert_true(ib_icrc_ok(end[k].pkt, LEN));
		}
	}
	assert_int_equal(d->n.delivered, 8);
	assert_int_equal(counters("router1:1")->rcv_pkts, 4);
	assert_int_equal(counters("router1:2")->xmit_pkts, 4);
	assert_int_equal(counters("router1:2")->rcv_pkts, 4);
	assert_int_equal(counters("router1:1")->xmit_pkts, 4);
	assert_int_equal(counters("router1:1")->xmit_data, 4 * LEN / 4);
}

/* The router drops the packet and counts it as @why. */
static void ends(unsigned int from, uint64_t prefix, uint64_t guid, uint8_t hop_limit,
		 enum fab_drop why)
{
	const uint64_t drops = d->n.drop[why];
	const unsigned int all = all_got();

	send_gid(from, prefix, guid, hop_limit);
	assert_int_equal(all_got(), all);
	assert_int_equal(d->n.drop[why], drops + 1);
}

static void test_ends(void **st)
{
	const struct ohca_port_counters *c = counters("router1:1");

	(void)st;
	ends(0, PREFIX(1), end[2].guid, 0, FAB_DROP_HOP_LIMIT);
	ends(0, PREFIX(1), end[2].guid, 1, FAB_DROP_HOP_LIMIT);
	assert_int_equal(c->rcv_switch_relay_errors, 2);
	ends(0, PREFIX(2), end[2].guid, 64, FAB_DROP_NO_SUBNET);
	ends(0, PREFIX(7), end[2].guid, 64, FAB_DROP_NO_SUBNET);
	assert_int_equal(c->rcv_dlid_mapping, 2);
	/*
	 * an unknown GUID; one of the own subnet; and a host that a machine with another GUID
	 * replaces
	 */
	ends(0, PREFIX(1), 0x4711, 64, FAB_DROP_NO_GUID);
	ends(0, PREFIX(1), end[1].guid, 64, FAB_DROP_NO_GUID);
	ends(0, PREFIX(1), end[3].guid - 0x7000, 64, FAB_DROP_NO_GUID);
	assert_int_equal(c->rcv_dlid_mapping, 5);
	/* to the own subnet */
	ends(0, PREFIX(0), end[1].guid, 64, FAB_DROP_ROUTE);
	assert_int_equal(c->rcv_looping, 1);
	ends(0, LINK_LOCAL, end[2].guid, 64, FAB_DROP_LINK_LOCAL);
	assert_int_equal(c->rcv_switch_relay_errors, 9);
	/* the smallest HopLmt that still suffices */
	send_gid(0, PREFIX(1), end[2].guid, 2);
	assert_int_equal(end[2].got, 1);
	assert_int_equal(end[2].pkt[IB_LRH_LEN + 7], 1);
}

/* Sends one packet of LEN bytes from end[0]. */
static void send_raw(const uint8_t *pkt)
{
	uint8_t *b = fab_hport_begin(end[0].h, 0, LEN);

	assert_non_null(b);
	memcpy(b, pkt, LEN);
	fab_hport_commit(end[0].h, 0, LEN, NULL);
	fab_data_round(d);
}

/*
 * Packets that a router does not forward: without a GRH or with an unknown one, multicast, or to
 * the router itself.
 */
static void test_other(void **st)
{
	uint8_t pkt[LEN];

	(void)st;
	build(pkt, &end[0], PREFIX(0), 9, PREFIX(1), end[2].guid, 64, 0);
	pkt[1] = IB_LNH_IBA_LOCAL;
	send_raw(pkt);
	assert_int_equal(d->n.drop[FAB_DROP_PHANTOM], 1);
	build(pkt, &end[0], PREFIX(0), 9, PREFIX(1), end[2].guid, 64, 0);
	pkt[8] = 0x40;
	send_raw(pkt);
	build(pkt, &end[0], PREFIX(0), 9, PREFIX(1), end[2].guid, 64, 0);
	pkt[14] = 0x11;
	send_raw(pkt);
	build(pkt, &end[0], PREFIX(0), 9, 0xff12401b00000000ull, 1, 64, 0);
	send_raw(pkt);
	assert_int_equal(d->n.drop[FAB_DROP_MALFORMED], 3);
	assert_int_equal(counters("router1:1")->rcv_malformed, 3);
	build(pkt, &end[0], LINK_LOCAL, 9, PREFIX(1), end[2].guid, 64, 0);
	send_raw(pkt);
	assert_int_equal(d->n.drop[FAB_DROP_LINK_LOCAL], 1);
	build(pkt, &end[0], PREFIX(0), 9, PREFIX(0), port_named("router1:1")->guid, 64, 0);
	send_raw(pkt);
	assert_int_equal(d->n.drop[FAB_DROP_PHANTOM], 2);
	/* a LID that is not one of the router */
	f->sw[f->node[fab_find_node(f, "switch1")].sw].lft[11] = 8;
	m.epoch++;
	fab_data_refresh(d);
	build(pkt, &end[0], PREFIX(0), 11, PREFIX(1), end[2].guid, 64, 0);
	send_raw(pkt);
	assert_int_equal(d->n.drop[FAB_DROP_PHANTOM], 3);
	assert_int_equal(all_got(), 0);
}

/* A multicast packet that a switch sends to a router does not reach another subnet. */
static void test_multicast(void **st)
{
	const struct fab_node *n = &f->node[fab_find_node(f, "switch1")];
	uint8_t pkt[LEN];
	uint64_t mc[4];

	(void)st;
	f->sw[n->sw].si.mcast_top = 0xbfff + 1;
	f->sw[n->sw].si.def_mcast_primary = 8;
	m.epoch++;
	fab_data_refresh(d);
	build(pkt, &end[0], PREFIX(0), 0xc001, 0xff12401b00000000ull, 1, 64, 0);
	fab_mcast_ports(f, n, 1, 0xc001, mc);
	assert_int_equal(mc[0], 1 << 8);
	send_raw(pkt);
	assert_int_equal(d->n.drop[FAB_DROP_PHANTOM], 1);
	assert_int_equal(counters("router1:1")->mcast_rcv_pkts, 1);
	assert_int_equal(counters("router1:2")->xmit_pkts, 0);
}

/* Changes of LIDs by a subnet manager, and hosts that attach and detach, take effect at once. */
static void test_changes(void **st)
{
	struct fab_switch *sw = &f->sw[f->node[fab_find_node(f, "switch2")].sw];

	(void)st;
	send_gid(0, PREFIX(1), end[2].guid, 64);
	assert_int_equal(end[2].got, 1);
	sw->lft[2] = IB_LFT_NO_PORT;
	sw->lft[12] = 1;
	fab_lft_changed(f, sw);
	m.epoch++;
	send_gid(0, PREFIX(1), end[2].guid, 64);
	assert_int_equal(end[2].got, 2);
	assert_int_equal(ib_get_be16(end[2].pkt + 2), 12);
	port_named("router1:2")->pi.gid_prefix = PREFIX(9);
	m.epoch++;
	ends(0, PREFIX(1), end[2].guid, 64, FAB_DROP_NO_SUBNET);
	send_gid(0, PREFIX(9), end[2].guid, 64);
	assert_int_equal(end[2].got, 3);
	fab_hport_detach(end[2].h);
	ends(0, PREFIX(9), end[2].guid, 64, FAB_DROP_NO_GUID);
	assert_int_equal(fab_data_find_guid(d, end[2].guid), FAB_NO_PORT);
	for (unsigned int i = 0; i < HOSTS; i++)
		if (i != 2)
			assert_int_equal(fab_data_find_guid(d, end[i].guid), fab_hport_place(end[i].h));
	port_named("router1:2")->pi.state = IB_PS_INIT;
	m.epoch++;
	ends(0, PREFIX(9), end[3].guid, 64, FAB_DROP_INACTIVE);
	assert_int_equal(counters("router1:2")->xmit_inactive_discards, 1);
}

/*
 * A switch keeps an array of the LIDs of machines from the first attachment on. It is recomputed
 * once for each change of the forwarding table.
 */
static void test_lids(void **st)
{
	struct fab_switch *sw = &f->sw[f->node[fab_find_node(f, "switch2")].sw];
	const struct fab_lids *const lids = sw->lids;
	const uint32_t host = fab_find_port(f, "host3:1");

	(void)st;
	assert_non_null(lids);
	assert_int_equal(fab_end_lid(f, host), end[2].lid);
	sw->lft[2] = IB_LFT_NO_PORT;
	/* fab_lft_changed() was not called */
	assert_int_equal(fab_end_lid(f, host), end[2].lid);
	sw->lft[13] = 1;
	fab_lft_changed(f, sw);
	assert_ptr_equal(sw->lids, lids);
	assert_int_equal(fab_end_lid(f, host), 13);
	/* also after the switch was off */
	assert_true(fab_reset_node(f, fab_find_node(f, "switch2")));
	assert_ptr_equal(sw->lids, lids);
	assert_int_equal(fab_end_lid(f, host), 0);
}

/* A packet that cannot leave the router waits there unchanged, and is routed anew. */
static void test_waits(void **st)
{
	unsigned int sent = 0;
	uint8_t *b;

	(void)st;
	end[2].stalled = true;
	while (sent < 4 * FAB_LANE_BLOCKS && (b = fab_hport_begin(end[0].h, 0, LEN))) {
		build(b, &end[0], PREFIX(0), 9, PREFIX(1), end[2].guid, 64, 0);
		fab_hport_commit(end[0].h, 0, LEN, NULL);
		sent++;
		fab_data_round(d);
	}
	/* the buffers of three wires: from the router, to it, and from the host */
	assert_int_equal(sent, 3 * (FAB_LANE_BLOCKS / fab_blocks(LEN)));
	assert_int_equal(all_got(), 0);
	/* a router discards no packet for its age */
	for (unsigned int ms = 0; ms < 1000; ms++) {
		now += 1000000;
		fab_data_round(d);
		fab_data_timer(d);
	}
	m.epoch++;
	fab_data_round(d);
	port_named("router1:1")->pi.lmc = 1;
	port_named("router1:1")->pi.lid = 8;
	m.epoch++;
	fab_data_round(d);
	end[2].stalled = false;
	for (unsigned int k = 0; k < 200; k++)
		fab_data_round(d);
	assert_int_equal(end[2].got, sent);
	assert_int_equal(end[2].pkt[IB_LRH_LEN + 7], 63);
	assert_int_equal(ib_get_be16(end[2].pkt + 2), end[2].lid);
	assert_true(ib_icrc_ok(end[2].pkt, LEN));
	for (unsigned int i = 1; i < FAB_DROPS; i++)
		assert_int_equal(d->n.drop[i], 0);
}

/* A router chooses the lane by its SLtoVLMappingTable; the SL stays the same. */
static void test_lanes(void **st)
{
	uint8_t *b = fab_hport_begin(end[0].h, 3, LEN);
	struct ib_sl2vl t = { { 0 } };

	(void)st;
	assert_non_null(b);
	memset(&t, 5, sizeof(t));
	port_named("router1:2")->sl2vl = fab_pool_get(&f->sl2vl, &t);
	m.epoch++;
	build(b, &end[0], PREFIX(0), 9, PREFIX(1), end[2].guid, 64, 3);
	fab_hport_commit(end[0].h, 3, LEN, NULL);
	fab_data_round(d);
	assert_int_equal(end[2].got, 1);
	assert_int_equal(end[2].pkt[1] >> 4, 3);
	assert_true(ib_icrc_ok(end[2].pkt, LEN));
}

/*
 * Agents of the other subnet respond. So do the router's own agents, by the GID of any of its
 * ports; the response leaves by the port at which the request arrived.
 */
static void test_mads(void **st)
{
	static const struct { uint64_t prefix; const char *port; uint8_t hop_limit; } to[] = {
		{ PREFIX(1), "switch2:0", 64 }, { PREFIX(0), "router1:1", 1 },
		{ PREFIX(1), "router1:2", 64 }, { PREFIX(1), "router1:2", 1 },
	};
	const struct ib_mad mad = { .hdr = {
		.base_version = 1, .mgmt_class = IB_CLASS_PERF, .class_version = 1,
		.method = IB_METHOD_GET, .attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO),
	} };

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(to); i++) {
		struct ib_mad_path path = { .slid = end[0].lid, .dlid = 9, .dqpn = 1, .sqpn = 1,
					    .pkey = IB_DEFAULT_PKEY, .qkey = IB_QKEY_GSI,
					    .global = true, .hop_limit = to[i].hop_limit };
		uint8_t pkt[IB_MAD_PKT_MAX], *b;
		size_t len;

		put_gid(path.sgid, PREFIX(0), end[0].guid);
		put_gid(path.dgid, to[i].prefix, port_named(to[i].port)->guid);
		len = ib_build_mad(pkt, &path, &mad);
		b = fab_hport_begin(end[0].h, 0, (uint32_t)len);
		assert_non_null(b);
		memcpy(b, pkt, len);
		fab_hport_commit(end[0].h, 0, (uint32_t)len, NULL);
		fab_data_round(d);
		assert_int_equal(end[0].got, i + 1);
		assert_int_equal(end[0].len, len);
		assert_int_equal(ib_get_be16(end[0].pkt + 6), 9);
		assert_int_equal(ib_get_be16(end[0].pkt + 2), end[0].lid);
		/* the response of the other subnet has passed one router */
		assert_int_equal(end[0].pkt[IB_LRH_LEN + 7], i ? 255 : 254);
		assert_memory_equal(end[0].pkt + 16, path.dgid, 16);
		assert_memory_equal(end[0].pkt + 32, path.sgid, 16);
		assert_int_equal(end[0].pkt[len - IB_ICRC_LEN - IB_MAD_LEN + 3], IB_METHOD_GET_RESP);
	}
	assert_int_equal(counters("switch2:8")->rcv_looping, 0);
	assert_int_equal(m.stats.lost, 0);
}

/**
 * struct caught - packets of a capture
 * @pkt: the last one, from LRH to VCRC, of @len bytes; @n: how many
 * @comment: that of the last one
 */
struct caught {
	uint8_t pkt[512];
	size_t len;
	unsigned int n;
	char comment[64];
};

/* Reads the blocks of a capture; each call gets a whole one. */
static bool catch(void *ctx, const void *buf, size_t len)
{
	const uint8_t *b = buf, *erf = b + 28;
	struct caught *c = ctx;
	uint32_t word;
	size_t end;

	memcpy(&word, b, sizeof(word));
	if (word != PCAPNG_PACKET)
		return true;
	memcpy(&word, b + 20, sizeof(word));
	c->len = word - 16;
	assert_true(c->len <= sizeof(c->pkt));
	memcpy(c->pkt, erf + 16, c->len);
	c->n++;
	end = 28 + (word + 3) / 4 * 4;
	memset(c->comment, 0, sizeof(c->comment));
	if (len > end + 12)
		memcpy(c->comment, b + end + 4, len - end - 12 < 63 ? len - end - 12 : 63);
	assert_int_equal(ib_vcrc(c->pkt, c->len - IB_VCRC_LEN),
			 ib_vcrc_get(c->pkt + c->len - IB_VCRC_LEN));
	assert_true(ib_icrc_ok(c->pkt, c->len - IB_VCRC_LEN));
	return true;
}

/* Captures contain each packet with the headers and the CRCs of the captured wire. */
static void test_captured(void **st)
{
	struct caught in = { .n = 0 }, out = { .n = 0 };
	const uint32_t port[2] = { fab_find_port(f, "router1:1"), fab_find_port(f, "router1:2") };
	struct fab_capture *c[2];

	(void)st;
	c[0] = fab_capture_start(d, &port[0], 1, 0, false, catch, &in);
	c[1] = fab_capture_start(d, &port[1], 1, 0, false, catch, &out);
	assert_true(c[0] && c[1]);
	send_gid(0, PREFIX(1), end[2].guid, 64);
	assert_int_equal(in.n, 1);
	assert_int_equal(out.n, 1);
	assert_int_equal(in.len, LEN + IB_VCRC_LEN);
	assert_int_equal(in.pkt[IB_LRH_LEN + 7], 64);
	assert_int_equal(ib_get_be16(in.pkt + 2), 9);
	assert_int_equal(out.pkt[IB_LRH_LEN + 7], 63);
	assert_int_equal(ib_get_be16(out.pkt + 2), end[2].lid);
	assert_memory_equal(in.pkt + LEN - IB_ICRC_LEN, out.pkt + LEN - IB_ICRC_LEN, IB_ICRC_LEN);
	assert_memory_not_equal(in.pkt + LEN, out.pkt + LEN, IB_VCRC_LEN);
	assert_string_equal(out.comment, "");
	send_gid(0, PREFIX(1), end[2].guid, 1);
	assert_int_equal(in.n, 2);
	assert_int_equal(out.n, 1);
	assert_string_equal(in.comment, "dropped: HopLmt");
	fab_capture_stop(c[0]);
	fab_capture_stop(c[1]);
}

static void add_route(const char *text)
{
	char why[128] = "";

	if (!fab_prefix_route_add(f, text, why, sizeof(why)))
		fail_msg("%s", why);
}

/* Through a second router to a subnet in which the first one has no port, and back. */
static void test_two_routers(void **st)
{
	(void)st;
	add_route("router1=0xfec0000000000003,0xf1");
	add_route("router2=*,0xe2");
	/* a machine with the second router's PortGUID gets no packets for the router */
	fab_hport_detach(end[3].h);
	place_as(3, 0xf1);
	fab_data_round(d);
	manage();
	port_named("router2:3")->pi.gid_prefix = PREFIX(8);
	ends(0, PREFIX(5), end[4].guid, 64, FAB_DROP_NO_SUBNET);
	send_gid(0, PREFIX(2), end[4].guid, 64);
	assert_int_equal(end[4].got, 1);
	assert_int_equal(end[4].pkt[IB_LRH_LEN + 7], 62);
	assert_int_equal(ib_get_be16(end[4].pkt + 2), end[4].lid);
	assert_int_equal(ib_get_be16(end[4].pkt + 6), 8);
	assert_true(ib_icrc_ok(end[4].pkt, LEN));
	assert_int_equal(counters("router2:1")->rcv_pkts, 1);
	ends(0, PREFIX(2), end[4].guid, 2, FAB_DROP_HOP_LIMIT);
	assert_int_equal(counters("router2:1")->rcv_switch_relay_errors, 1);
	/* in the third subnet, too, the router has LID 9 */
	f->sw[f->node[fab_find_node(f, "switch3")].sw].lft[9] = 7;
	port_named("router2:2")->pi.lid = 9;
	m.epoch++;
	send_gid(4, PREFIX(0), end[1].guid, 64);
	assert_int_equal(end[1].got, 1);
	assert_int_equal(end[1].pkt[IB_LRH_LEN + 7], 62);
	assert_int_equal(ib_get_be16(end[1].pkt + 6), 9);
}

/* Two routers that send packets to each other: only HopLmt ends that. */
static void test_circle(void **st)
{
	static const uint8_t limits[] = { 2, 3, 64, 255 };
	const struct ohca_port_counters *one = counters("router1:1"), *two = counters("router2:1");

	(void)st;
	add_route("router1=0x1234,0xf1");
	add_route("router2=0x1234,0xe1");
	for (unsigned int i = 0; i < sizeof(limits); i++) {
		const uint64_t before = one->rcv_pkts + two->rcv_pkts;

		ends(0, 0x1234, end[2].guid, limits[i], FAB_DROP_HOP_LIMIT);
		assert_int_equal(one->rcv_pkts + two->rcv_pkts - before, limits[i]);
	}
	assert_int_equal(two->rcv_switch_relay_errors, 2);
	assert_int_equal(one->rcv_switch_relay_errors, 2);
	/* a router does not send a packet back by the port at which it arrived */
	add_route("router1=0x1235,0xf3");
	ends(0, 0x1235, end[2].guid, 64, FAB_DROP_ROUTE);
}

static void test_bad_routes(void **st)
{
	static const char *const bad[] = {
		"", "router1", "router1=", "router1=1", "router1=1,", "router1=,0xf1", "=1,0xf1",
		"router1=0,0xf1", "router1=-1,0xf1", "router1=1x,0xf1", "router1=1,0xf1x",
		"router1=11112222333344445,0xf1", "router1=1,0", "router1=1,0xf2", "router1=1,0xe2",
		"router1=1,0xa2", "router1=1,0x99", "switch1=1,0xf1", "nobody=1,0xf1",
		"router1=**,0xf1", "router1=0xfe80000000000000,0xf1", "router1=0xfebfffffffffffff,0xf1",
	};
	char why[128], text[64];

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(bad); i++) {
		why[0] = 0;
		if (fab_prefix_route_add(f, bad[i], why, sizeof(why)))
			fail_msg("'%s' is taken", bad[i]);
		assert_true(why[0]);
	}
	assert_int_equal(f->routes, 0);
	for (unsigned int i = 0; i < FAB_PREFIX_ROUTES; i++) {
		snprintf(text, sizeof(text), i ? "router1=0xfec00000000000%02x,0xf1" : "router1=*,0xf1", i);
		add_route(text);
		/* a second route for that prefix */
		assert_false(fab_prefix_route_add(f, text, why, sizeof(why)));
		assert_non_null(strstr(why, "has a route to that PREFIX already"));
	}
	assert_false(fab_prefix_route_add(f, "router1=0xfec0000000000099,0xf1", why, sizeof(why)));
	assert_non_null(strstr(why, "no more than 64"));
}

/* The reply to a trace from a port to another one contains @said. */
static void traces(const char *from, const char *to, const char *said)
{
	char ask[128], *text;
	int len = snprintf(ask, sizeof(ask), "{\"command\":\"trace\",\"from\":\"%s\",\"to\":\"%s\"}",
			   from, to);

	text = fab_control_answer(&m, NULL, ask, (size_t)len, NULL);
	if (!strstr(text, said))
		fail_msg("from %s to %s: %s", from, to, text);
	free(text);
}

/* LIDs are those of a subnet; a second port with the same LID in it is an error. */
static void test_subnets(void **st)
{
	static const char twice[] =
		"Switch 2 \"S-1\" # \"a\" enhanced port 0 lid 3 lmc 0\n[1] \"R-1\"[1]\n"
		"Switch 2 \"S-2\" # \"b\" enhanced port 0 lid 3 lmc 0\n[1] \"R-1\"[2]\n"
		"Rt 2 \"R-1\"\n[1] \"S-1\"[1] # lid %u lmc 0\n[2] \"S-2\"[1] # lid 4 lmc 0\n";
	char text[sizeof(twice) + 8];
	struct errors e;
	struct fab *g;

	(void)st;
	traces("host1", "router1:1", "\"arrives\": true");
	traces("router1:2", "host3", "\"arrives\": true");
	traces("host1", "host3", "'host3' is in another subnet");
	assert_int_equal(fab_is_router(f, fab_find_port(f, "router1:1")), true);
	assert_int_equal(fab_is_router(f, fab_find_port(f, "host1:1")), false);
	g = from_text(text, (size_t)snprintf(text, sizeof(text), twice, 4), &e);
	assert_non_null(g);
	fab_free(g);
	assert_null(from_text(text, (size_t)snprintf(text, sizeof(text), twice, 3), &e));
	assert_non_null(strstr(e.text[0], "LID 3 is that of"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin_routers, end_routers)
	const struct CMUnitTest tests[] = {
		T(test_crosses), T(test_ends), T(test_other), T(test_multicast), T(test_changes),
		T(test_lids), T(test_waits), T(test_lanes), T(test_mads), T(test_subnets), T(test_captured),
		T(test_two_routers), T(test_circle), T(test_bad_routes),
	};

	return cmocka_run_group_tests_name("routers", tests, NULL, NULL);
}
