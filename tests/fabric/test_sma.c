// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Management of the switch: directed routes, LID routes, attributes, keys, traps,
 * performance counters, ports that come and go.
 */
#include "net.h"

#include "ib/crc.h"
#include "ib/pma.h"
#include "ib/rate.h"
#include "link/link_priv.h"

#define MAX_MAD_PKT	512u	/* any packet that carries one MAD */

/* Get of any attribute of the switch. */
static int get(struct net *t, uint16_t attr, uint32_t mod, uint8_t d[64])
{
	memset(d, 0, 64);
	return ep_switch(&t->ep[0], IB_METHOD_GET, attr, mod, d);
}

static int set(struct net *t, uint16_t attr, uint32_t mod, uint8_t d[64])
{
	return ep_switch(&t->ep[0], IB_METHOD_SET, attr, mod, d);
}

static void get_pi(struct net *t, unsigned int n, struct ib_port_info *pi)
{
	uint8_t d[64];

	assert_int_equal(get(t, IB_SMP_ATTR_PORT_INFO, n, d), 0);
	ib_port_info_unpack(d, pi);
}

/* Set of a PortInfo as an SM does: no change of states unless it says so. */
static int set_pi(struct net *t, uint32_t mod, const struct ib_port_info *pi)
{
	uint8_t d[64];

	ib_port_info_pack(pi, d);
	return set(t, IB_SMP_ATTR_PORT_INFO, mod, d);
}

/* ---- attributes ---------------------------------------------------------------- */

static void test_node_info(void **state)
{
	struct net *t = net_new(8, 2, 4, 0);
	const struct ohca_link_cfg *peer;
	struct ib_node_info ni;
	uint8_t d[64];

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		memset(d, 0, sizeof(d));
		assert_int_equal(ep_switch(&t->ep[i], IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0,
					   d), 0);
		ib_node_info_unpack(d, &ni);
		assert_int_equal(ni.node_type, 2);
		assert_int_equal(ni.num_ports, 8);
		assert_int_equal(ni.node_guid, 0x1234);
		assert_int_equal(ni.port_guid, 0x1234);
		assert_int_equal(ni.sys_guid, 0x1235);
		assert_int_equal(ni.local_port, i + 1);
		assert_int_equal(ni.partition_cap, FAB_SW_PKEYS);
		assert_int_equal(ni.device_id, 0x0ca8);
		assert_int_equal(ni.revision, 1);
		assert_int_equal(ni.vendor_id, 0x525400);
	}
	assert_int_equal(set(t, IB_SMP_ATTR_NODE_INFO, 0, d), IB_MAD_BAD_METHOD_ATTR);
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_DESC, 0, d), 0);
	assert_string_equal((char *)d, "the switch");
	assert_int_equal(set(t, IB_SMP_ATTR_NODE_DESC, 0, d), IB_MAD_BAD_METHOD_ATTR);
	/* on the link, too */
	peer = ohca_link_peer(t->ep[1].l);
	assert_string_equal(peer->desc, "the switch");
	assert_int_equal(peer->node_guid, 0x1234);
	assert_int_equal(peer->port_guid, 0x1234);
	assert_int_equal(peer->node_type, IB_NODE_SWITCH_DEVICE);
	assert_int_equal(peer->port_num, 2);
	assert_int_equal(peer->vl_cap, 4);
	assert_int_equal(peer->mtu_cap, IB_MTU_CODE_4096);
	assert_int_equal(peer->shift_pref, 0);
	assert_int_equal(peer->width_sup, IB_WIDTH_1X | IB_WIDTH_4X);
	assert_int_equal(peer->speed_sup, IB_SPEED_SDR | IB_SPEED_DDR | IB_SPEED_QDR);
	assert_int_equal(peer->speed_ext_sup, IB_SPEED_EXT_FDR | IB_SPEED_EXT_EDR);
	net_free(t);
}

/* A block of multicast forwarding is of 16 ports, and there is none without a port. */
static void test_mft_positions(void **state)
{
	static const struct {
		unsigned int nports, positions;
	} t[] = { { 15, 1 }, { 16, 2 }, { 31, 2 }, { 32, 3 } };
	uint8_t d[64];

	(void)state;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(t); i++) {
		struct net *n = net_new(t[i].nports, 1, 4, 0);

		for (uint32_t pos = 0; pos < 4; pos++)
			assert_int_equal(get(n, IB_SMP_ATTR_MFT, pos << 28, d),
					 pos < t[i].positions ? 0 : IB_MAD_BAD_FIELD);
		net_free(n);
	}
}

/* What an SM sets of a port reaches what sends there. */
static void test_high_limit(void **state)
{
	struct net *t = net_new(2, 1, 4, 0);
	struct ib_port_info pi;

	(void)state;
	get_pi(t, 1, &pi);
	pi.state = IB_PS_NO_CHANGE;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	pi.vl_high_limit = 77;
	assert_int_equal(set_pi(t, 1, &pi), 0);
	assert_int_equal(net_port(t, 1)->arb.high_limit, 77);
	net_free(t);
}

/* Whatever is asked is answered. */
static void test_every_attribute(void **state)
{
	struct net *t = net_new(8, 1, 4, 0);
	uint8_t d[64];

	(void)state;
	for (unsigned int attr = 0; attr < 0x200; attr++) {
		bool known = attr == 2 || attr == 0x10 || attr == 0x11 || attr == 0x12 ||
			     (attr >= 0x14 && attr <= 0x19) || attr == 0x1b;
		uint32_t mod = attr == IB_SMP_ATTR_VLARB ? 0x10001 : 0;

		assert_int_equal(get(t, (uint16_t)attr, mod, d),
				 known ? 0 : IB_MAD_BAD_METHOD_ATTR);
		if (!known)
			assert_int_equal(set(t, (uint16_t)attr, 0, d), IB_MAD_BAD_METHOD_ATTR);
	}
	assert_int_equal(get(t, 0xff90, 0, d), IB_MAD_BAD_METHOD_ATTR);
	assert_int_equal(ep_switch(&t->ep[0], 0x15, IB_SMP_ATTR_NODE_INFO, 0, d),
			 IB_MAD_BAD_METHOD);
	/* A Send needs no response. */
	assert_int_equal(ep_switch(&t->ep[0], IB_METHOD_SEND, IB_SMP_ATTR_NODE_INFO, 0, d), -1);
	assert_int_equal(get(t, IB_SMP_ATTR_PORT_INFO, 9, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_PKEY_TABLE, 9 << 16, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_PKEY_TABLE, 5, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_SL2VL, 9, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_SL2VL, 9 << 8, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_VLARB, 0x10009, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_VLARB, 0x50001, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_LFT, 768, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_LFT, 0xffffffff, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_MFT, 128, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_MFT, 1u << 28, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_GUID_INFO, 1, d), IB_MAD_BAD_FIELD);
	net_free(t);
}

/* The rules that an adapter's port has as well. */
static void test_same_rules(void **state)
{
	static const uint8_t path[] = { 1 };
	struct net *t = net_new(8, 1, 4, 0);
	struct ib_vlarb_entry e[IB_VLARB_BLOCK] = { { IB_MGMT_VL, 1 } };
	struct ib_port_info pi;
	struct ib_notice n;
	struct ib_smp smp;
	uint8_t d[64];

	(void)state;
	/* attributes without a modifier have none */
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_INFO, 1, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_DESC, 1, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_SWITCH_INFO, 1, d), IB_MAD_BAD_FIELD);
	/* reserved bits of one do not count */
	assert_int_equal(get(t, IB_SMP_ATTR_PORT_INFO, 0x100, d), 0);
	/* VL15 has no place in arbitration */
	ib_vlarb_block_pack(e, d);
	assert_int_equal(set(t, IB_SMP_ATTR_VLARB, 1 << 16 | 1, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_VLARB, 1 << 16 | 1, d), 0);
	assert_int_not_equal(d[0] & 15, IB_MGMT_VL);
	/* a route without hops ends here, and the answer goes back by its port */
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 0, path);
	ib_smp_set_hops(&smp, 0, 0);
	assert_int_equal(ep_query(&t->ep[0], &smp), 0);

	/* Set(Notice) takes back the trap that Get(Notice) shows */
	get_pi(t, 0, &pi);
	pi.state = 0;
	pi.phys_state = 0;
	pi.lid = 1;
	pi.sm_lid = 2;
	assert_int_equal(set_pi(t, 0, &pi), 0);
	net_state_change(t);
	assert_int_equal(get(t, IB_SMP_ATTR_NOTICE, 0, d), 0);
	ib_notice_unpack(d, &n);
	assert_true(n.trap == IB_TRAP_LINK_STATE_CHANGE && n.issuer_lid == 1);
	assert_int_equal(set(t, IB_SMP_ATTR_NOTICE, 0, d), 0);
	assert_int_equal(get(t, IB_SMP_ATTR_NOTICE, 0, d), 0);
	ib_notice_unpack(d, &n);
	assert_int_equal(n.type, IB_NOTICE_EMPTY);
	net_free(t);
}

static void test_versions(void **state)
{
	static const uint8_t path[] = { 1 };
	struct net *t = net_new(8, 1, 4, 0);
	struct ib_smp smp;
	uint64_t dropped;

	(void)state;
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	smp.hdr.class_version = 7;
	assert_int_equal(ep_query(&t->ep[0], &smp), IB_MAD_BAD_VERSION);
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	smp.hdr.base_version = 2;
	assert_int_equal(ep_query(&t->ep[0], &smp), IB_MAD_BAD_VERSION);
	/* What is no request gets no answer. */
	dropped = t->m.stats.lost;
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET_RESP, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1,
		    path);
	assert_int_equal(ep_query(&t->ep[0], &smp), -1);
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_TRAP, IB_SMP_ATTR_NOTICE, 0, NULL, 1, path);
	assert_int_equal(ep_query(&t->ep[0], &smp), -1);
	assert_int_equal(t->m.stats.lost, dropped + 2);
	net_free(t);
}

static void test_tables(void **state)
{
	struct net *t = net_new(20, 1, 8, 0);
	struct ib_vlarb_entry e[IB_VLARB_BLOCK] = { { 3, 9 }, { 1, 200 } };
	struct ib_switch_info si;
	struct ib_sl2vl map;
	uint8_t d[64], w[64];

	(void)state;
	for (unsigned int i = 0; i < 64; i++)
		w[i] = (uint8_t)(i * 3);
	memcpy(d, w, 64);
	assert_int_equal(set(t, IB_SMP_ATTR_LFT, 767, d), 0);
	assert_int_equal(get(t, IB_SMP_ATTR_LFT, 767, d), 0);
	assert_memory_equal(d, w, 64);
	assert_int_equal(get(t, IB_SMP_ATTR_LFT, 0, d), 0);
	assert_int_equal(d[0], 0xff);
	memcpy(d, w, 64);
	assert_int_equal(set(t, IB_SMP_ATTR_MFT, 1u << 28 | 127, d), 0);
	assert_int_equal(get(t, IB_SMP_ATTR_MFT, 1u << 28 | 127, d), 0);
	assert_memory_equal(d, w, 64);
	assert_int_equal(get(t, IB_SMP_ATTR_MFT, 127, d), 0);
	assert_int_equal(d[5], 0);
	memcpy(d, w, 64);
	assert_int_equal(set(t, IB_SMP_ATTR_PKEY_TABLE, 20 << 16, d), 0);
	assert_int_equal(get(t, IB_SMP_ATTR_PKEY_TABLE, 20 << 16, d), 0);
	assert_memory_equal(d, w, 64);
	assert_int_equal(get(t, IB_SMP_ATTR_PKEY_TABLE, 19 << 16, d), 0);
	assert_int_equal(ib_pkey_block_get(d, 0), 0xffff);
	assert_int_equal(ib_pkey_block_get(d, 1), 0);
	for (uint8_t i = 0; i < 16; i++)
		map.vl[i] = i ^ 3;
	ib_sl2vl_pack(&map, d);
	assert_int_equal(set(t, IB_SMP_ATTR_SL2VL, 5 << 8 | 7, d), 0);
	assert_int_equal(get(t, IB_SMP_ATTR_SL2VL, 5 << 8 | 7, d), 0);
	memset(&map, 0, sizeof(map));
	ib_sl2vl_unpack(d, &map);
	assert_int_equal(map.vl[6], 5);
	assert_int_equal(get(t, IB_SMP_ATTR_SL2VL, 7 << 8 | 5, d), 0);
	ib_sl2vl_unpack(d, &map);
	assert_int_equal(map.vl[6], 6);
	ib_vlarb_block_pack(e, d);
	assert_int_equal(set(t, IB_SMP_ATTR_VLARB, 3 << 16 | 2, d), 0);
	assert_int_equal(get(t, IB_SMP_ATTR_VLARB, 3 << 16 | 2, d), 0);
	memset(e, 0, sizeof(e));
	ib_vlarb_block_unpack(d, e);
	assert_int_equal(e[1].vl, 1);
	assert_int_equal(e[1].weight, 200);
	assert_int_equal(get(t, IB_SMP_ATTR_GUID_INFO, 0, d), 0);
	assert_int_equal(ib_guid_block_get(d, 0), 0x1234);
	ib_guid_block_put(d, 0, 99);
	ib_guid_block_put(d, 1, 98);
	assert_int_equal(set(t, IB_SMP_ATTR_GUID_INFO, 0, d), 0);
	assert_int_equal(get(t, IB_SMP_ATTR_GUID_INFO, 0, d), 0);
	assert_int_equal(ib_guid_block_get(d, 0), 0x1234);
	assert_int_equal(ib_guid_block_get(d, 1), 98);

	assert_int_equal(get(t, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	assert_int_equal(si.linear_cap, FAB_LFT_CAP);
	assert_int_equal(si.mcast_cap, FAB_MFT_CAP);
	assert_int_equal(si.part_enforce_cap, FAB_SW_PKEYS);
	assert_int_equal(si.enhanced_port0, 1);
	assert_int_equal(si.port_state_change, 1);	/* a link came up */
	si.linear_top = 0xc000;
	si.port_state_change = 0;
	si.life_time = 5;
	ib_switch_info_pack(&si, d);
	assert_int_equal(set(t, IB_SMP_ATTR_SWITCH_INFO, 0, d), IB_MAD_BAD_FIELD);
	ib_switch_info_unpack(d, &si);
	assert_int_equal(si.linear_top, 0);
	assert_int_equal(si.life_time, 5);
	assert_int_equal(si.port_state_change, 1);
	si.port_state_change = 1;
	ib_switch_info_pack(&si, d);
	assert_int_equal(set(t, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	assert_int_equal(si.port_state_change, 0);
	net_free(t);
}

static void test_port_info(void **state)
{
	struct net *t = net_new(8, 2, 4, 0);
	struct ib_port_info pi;

	(void)state;
	get_pi(t, 0, &pi);
	assert_int_equal(pi.state, IB_PS_ACTIVE);
	assert_int_equal(pi.phys_state, IB_PHYS_LINK_UP);
	assert_true(pi.cap_mask & IB_CAP_EXT_SPEEDS);
	/* Get(Notice) is answered, and traps are sent */
	assert_true(pi.cap_mask & IB_CAP_NOTICE && pi.cap_mask & IB_CAP_TRAP);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.local_port, 1);
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_int_equal(pi.phys_state, IB_PHYS_LINK_UP);
	assert_int_equal(pi.width_active, 2);
	assert_int_equal(pi.speed_ext_active, 2);
	assert_int_equal(pi.mtu, 5);
	assert_int_equal(pi.op_vls, 3);			/* 4 VLs: what the switch has */
	get_pi(t, 3, &pi);
	assert_int_equal(pi.state, IB_PS_DOWN);
	assert_int_equal(pi.phys_state, IB_PHYS_POLLING);
	pi.state = IB_PS_ARMED;
	pi.phys_state = 0;
	assert_int_equal(set_pi(t, 3, &pi), IB_MAD_BAD_FIELD);

	/* Init to Active is no transition; Armed is, and to Active from there. */
	get_pi(t, 2, &pi);
	pi.state = IB_PS_ACTIVE;
	pi.phys_state = 0;
	assert_int_equal(set_pi(t, 2, &pi), IB_MAD_BAD_FIELD);
	pi.state = IB_PS_ARMED;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	pi.state = IB_PS_ACTIVE;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_ACTIVE);
	assert_true(net_port(t, 2)->active);

	/* Extended speeds are touched only by an SM that knows them. */
	pi.state = 0;
	pi.phys_state = 0;
	pi.speed_ext_enabled = 1;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.speed_ext_enabled, 3);
	pi.state = 0;
	pi.phys_state = 0;
	pi.speed_ext_enabled = 1;
	assert_int_equal(set_pi(t, 1u << 31 | 2, &pi), 0);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.speed_ext_enabled, 1);
	assert_int_equal(pi.speed_ext_active, 2);	/* until it trains again */

	/* Down bounces the link; it comes back in Init, and slower. */
	pi.state = IB_PS_DOWN;
	pi.phys_state = 0;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_int_equal(pi.speed_ext_active, 1);

	/* Disabled stays down, also for a peer that retrains. */
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_DISABLED;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_DOWN);
	assert_int_equal(pi.phys_state, IB_PHYS_DISABLED);
	assert_false(ohca_link_is_up(t->ep[1].l));
	ohca_link_train(t->ep[1].l, &(struct ohca_link_phy){ true, 255, 255, 255 });
	net_pump(t);
	assert_false(ohca_link_is_up(t->ep[1].l));
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_POLLING;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_true(ohca_link_is_up(t->ep[1].l));
	net_free(t);
}

/* Both ends' MTU and VLs meet in the middle, or the SM would bounce the link. */
static void test_negotiation(void **state)
{
	struct net *t = net_new(8, 1, 8, 0);
	struct ohca_link_err err;
	struct ohca_link_cfg c;
	struct ib_port_info pi;

	(void)state;
	ohca_link_cfg_init(&c);
	c.mtu_cap = 4;
	c.vl_cap = 2;
	c.width_sup = 1;
	c.speed_ext_sup = 0;
	c.speed_sup = 1;
	assert_int_equal(net_attach(t, &t->ep[1], 0x555, 5, &c, &err), 0);
	t->n = 2;
	get_pi(t, 5, &pi);
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_int_equal(pi.mtu, 4);
	assert_int_equal(pi.op_vls, 2);
	assert_int_equal(pi.width_active, 1);
	assert_int_equal(pi.speed_active, 1);
	assert_int_equal(pi.speed_ext_active, 0);
	net_free(t);
}

/* ---- routes -------------------------------------------------------------------- */

static void test_dr_forward(void **state)
{
	static const uint8_t path[] = { 1, 2 };
	struct net *t = net_new(8, 2, 4, 0);
	struct ib_smp smp, in;
	uint8_t out;

	(void)state;
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 2, path);
	assert_true(ep_send_smp(&t->ep[0], &smp, 0));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[1], &in));
	assert_int_equal(ib_smp_hop_ptr(&in), 2);
	assert_int_equal(in.ret_path[1], 1);
	/* The adapter answers. */
	assert_int_equal(ib_dr_recv(&in, false, 1, 1, &out), IB_DR_LOCAL);
	ib_smp_make_resp(&in, 0);
	in.data[0] = 77;
	assert_int_equal(ib_dr_send(&in, false, 1, &out), IB_DR_FORWARD);
	assert_int_equal(out, 1);
	assert_true(ep_send_smp(&t->ep[1], &in, 0));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[0], &in));
	assert_int_equal(in.data[0], 77);
	assert_int_equal(ib_dr_recv(&in, false, 1, 1, &out), IB_DR_LOCAL);
	assert_int_equal(in.hdr.tid, smp.hdr.tid);
	net_free(t);
}

static void test_dr_bad(void **state)
{
	static const struct {
		uint8_t path[3], hops, ptr, cnt;
	} bad[] = {
		{ { 1, 3 }, 2, 1, 2 },		/* port 3 is down */
		{ { 1, 0 }, 2, 1, 2 },		/* port 0 has no wire */
		{ { 1, 9 }, 2, 1, 2 },		/* no such port */
		{ { 1, 255 }, 2, 1, 2 },
		{ { 1, 2 }, 2, 1, 64 },		/* more hops than a path has */
		{ { 1, 2 }, 2, 255, 255 },
		{ { 1, 2 }, 2, 4, 2 },		/* beyond its end */
		{ { 1, 2 }, 2, 0, 2 },		/* as if from our own manager */
		{ { 1, 2 }, 2, 62, 63 },		/* on to port 0 */
	};
	struct net *t = net_new(8, 2, 4, 0);
	struct ib_smp smp, in;
	uint8_t d[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL,
			    bad[i].hops, bad[i].path);
		ib_smp_set_hops(&smp, bad[i].ptr, bad[i].cnt);
		assert_int_equal(ep_query(&t->ep[0], &smp), -1);
		assert_false(ep_recv_smp(&t->ep[1], &in));
	}
	/* Answers that nobody asked for, forged return paths. */
	for (unsigned int ptr = 0; ptr < 5; ptr++) {
		ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET_RESP, IB_SMP_ATTR_NODE_INFO, 0, NULL,
			    2, bad[0].path);
		smp.hdr.status = ib_to_be16(IB_SMP_DIRECTION);
		memset(smp.ret_path, 200, sizeof(smp.ret_path));
		ib_smp_set_hops(&smp, (uint8_t)ptr, 2);
		assert_int_equal(ep_query(&t->ep[0], &smp), -1);
	}
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	net_free(t);
}

static void test_vl15_garbage(void **state)
{
	struct net *t = net_new(8, 2, 4, 0);
	uint8_t pkt[512] = { 0 }, mad[256] = { 0 }, d[64];
	unsigned int r = 1;

	(void)state;
	for (unsigned int i = 0; i < 3000; i++) {
		size_t len = ep_build(pkt, 15, 0, 0xffff, 0xffff, 0, 0, 0xffff, mad);

		mad[i % 24] = (uint8_t)rand_r(&r);
		if (i % 3 == 0)
			len = 12 + 4 * ((unsigned int)rand_r(&r) % 100);
		for (unsigned int k = 0; k < 1 + i % 4; k++)
			pkt[(unsigned int)rand_r(&r) % len] = (uint8_t)rand_r(&r);
		ep_send_raw(&t->ep[0], 15, pkt, len);
		net_pump(t);
		while (ep_recv(&t->ep[0], 15, pkt, sizeof(pkt)) ||
		       ep_recv(&t->ep[1], 15, pkt, sizeof(pkt)))
			;
	}
	assert_true(net_ctr(t, 1)->rcv_errors > 500);
	/* Perhaps some random Set changed a port; the agent itself still answers. */
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	net_free(t);
}

/* VL15 packets that the wire damaged, for a port that is down, and more than fit. */
static void test_vl15_counters(void **state)
{
	static const uint8_t path[] = { 1, 3 };
	struct net *t = net_new(8, 2, 4, 0);
	struct ohca_port_counters *c = net_ctr(t, 1);
	unsigned int fits = 0, lost, asked;
	uint64_t sent, dropped;
	uint8_t pkt[EP_SMP_PKT], *b;
	struct ib_smp smp, in;

	(void)state;
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	ep_build(pkt, IB_MGMT_VL, 0, IB_LID_PERMISSIVE, IB_LID_PERMISSIVE, 0, 0, IB_DEFAULT_PKEY,
		 &smp);
	for (unsigned int bad = 0; bad < 3; bad++) {
		uint64_t pkts = c->rcv_pkts;

		b = ohca_link_tx_begin(t->ep[0].l, IB_MGMT_VL, sizeof(pkt));
		memcpy(b, pkt, sizeof(pkt));
		if (bad == 1)
			ohca_link_tx_commit(t->ep[0].l, IB_MGMT_VL, sizeof(pkt), OHCA_FRAME_EBP);
		else
			ohca_link_tx_commit_vcrc(t->ep[0].l, IB_MGMT_VL, sizeof(pkt),
						 OHCA_FRAME_VCRC,
						 ib_vcrc(pkt, sizeof(pkt)) ^ (bad == 2));
		net_pump(t);
		assert_int_equal(ep_recv_smp(&t->ep[0], &in), !bad);
		assert_int_equal(c->rcv_pkts, pkts + 1);
	}
	assert_int_equal(c->rcv_remote_phys_errors, 1);
	assert_int_equal(c->rcv_local_phys_errors, 1);
	assert_int_equal(c->rcv_errors, 1);
	ep_build(pkt, IB_MGMT_VL, 3, IB_LID_PERMISSIVE, IB_LID_PERMISSIVE, 0, 0, IB_DEFAULT_PKEY,
		 &smp);
	for (unsigned int bad = 0; bad < 2; bad++) {
		b = ohca_link_tx_begin(t->ep[0].l, IB_MGMT_VL, sizeof(pkt));
		memcpy(b, pkt, sizeof(pkt));
		ohca_link_tx_commit(t->ep[0].l, IB_MGMT_VL, sizeof(pkt), bad ? OHCA_FRAME_EBP : 0);
		net_pump(t);
		assert_int_equal(c->rcv_data_sl[3], (bad + 1) * sizeof(pkt) / 4);
		assert_int_equal(ep_recv_smp(&t->ep[0], &in), !bad);
	}

	/* Longer than any that carries a MAD. */
	sent = c->rcv_errors;
	b = ohca_link_tx_begin(t->ep[0].l, IB_MGMT_VL, MAX_MAD_PKT + 4);
	memset(b, 0, MAX_MAD_PKT + 4);
	ohca_link_tx_commit(t->ep[0].l, IB_MGMT_VL, MAX_MAD_PKT + 4, 0);
	net_pump(t);
	assert_int_equal(c->rcv_errors, sent + 1);
	assert_int_equal(c->rcv_malformed, 1);

	/* An answer that the peer has no room for was sent; the peer counts it as dropped. */
	sent = c->xmit_pkts;
	dropped = t->m.stats.lost;
	for (asked = 0; t->m.stats.lost == dropped && asked < 1000; asked++) {
		assert_true(ep_send_smp(&t->ep[0], &smp, 0));
		net_pump(t);
	}
	assert_int_equal(t->m.stats.lost, dropped + 1);
	assert_int_equal(c->xmit_pkts, sent + asked);
	while (ep_recv_smp(&t->ep[0], &in))
		;

	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 2, path);
	assert_true(ep_send_smp(&t->ep[0], &smp, 0));
	net_pump(t);
	assert_int_equal(net_ctr(t, 3)->xmit_discards, 1);
	assert_int_equal(net_ctr(t, 3)->xmit_inactive_discards, 1);

	/* What found no room counts, also if the link goes before anybody asks. */
	while (ep_send_smp(&t->ep[1], &smp, 0))
		fits++;
	assert_true(fits > 0);
	for (lost = 1; lost < 5; lost++)
		assert_false(ep_send_smp(&t->ep[1], &smp, 0));
	t->m.wires->count(t->m.wires_ctx, net_index(t, 2));
	t->m.wires->count(t->m.wires_ctx, net_index(t, 2));
	assert_int_equal(net_ctr(t, 2)->vl15_dropped, lost);
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_int_equal(net_ctr(t, 2)->vl15_dropped, lost);
	net_free(t);
}

static void test_lid_route(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_smp smp, in;
	uint8_t pkt[EP_SMP_PKT];

	(void)state;
	/* To the switch by its LID. */
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 0, NULL);
	smp.hdr.mgmt_class = IB_CLASS_SUBN_LID;
	smp.hdr.class_specific = 0;
	assert_true(ep_send_smp(&t->ep[1], &smp, 1));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[1], &in));
	assert_int_equal(in.hdr.method, IB_METHOD_GET_RESP);
	assert_int_equal(ib_be16(in.hdr.status), 0);
	assert_int_equal(in.data[2], 2);
	/* Between end ports, untouched. */
	assert_true(ep_send_smp(&t->ep[1], &smp, 2));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[0], &in));
	assert_memory_equal(&in, &smp, sizeof(in));
	/* Of any SL, though VL15 has none of its own. */
	ep_build(pkt, IB_MGMT_VL, 3, 2, t->ep[1].lid, 0, 0, IB_DEFAULT_PKEY, &smp);
	assert_true(ep_send_raw(&t->ep[1], IB_MGMT_VL, pkt, sizeof(pkt)));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[0], &in));
	assert_int_equal(net_ctr(t, 1)->xmit_data_sl[3], sizeof(pkt) / 4);
	assert_int_equal(net_ctr(t, 2)->rcv_data_sl[3], sizeof(pkt) / 4);
	/* From a LID that no table has: the answer leaves by the port of the question. */
	t->ep[1].lid = 100;
	assert_true(ep_send_smp(&t->ep[1], &smp, 1));
	net_pump(t);
	assert_true(ep_recv_smp(&t->ep[1], &in));
	assert_int_equal(in.hdr.method, IB_METHOD_GET_RESP);
	/* Nowhere, and back where it came from. */
	assert_true(ep_send_smp(&t->ep[1], &smp, 50));
	assert_true(ep_send_smp(&t->ep[1], &smp, 3));
	net_pump(t);
	assert_false(ep_recv_smp(&t->ep[0], &in));
	assert_false(ep_recv_smp(&t->ep[1], &in));
	assert_int_equal(net_ctr(t, 2)->rcv_switch_relay_errors, 2);
	assert_int_equal(net_ctr(t, 2)->rcv_looping, 1);
	net_free(t);
}

/* A directed route that goes on LID routed where its hops end. */
static void test_mixed_route(void **state)
{
	static const uint8_t path[] = { 1 };
	struct net *t = net_up(2, 4, 0);
	uint8_t got[512];
	struct ib_smp smp;

	(void)state;
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	smp.dr_dlid = ib_to_be16(3);
	assert_true(ep_send_smp(&t->ep[0], &smp, 0));
	net_pump(t);
	assert_int_equal(ep_recv(&t->ep[1], 15, got, sizeof(got)), EP_SMP_PKT);
	assert_int_equal(ib_lrh_dlid(ib_pkt_lrh(got)), 3);
	assert_int_equal(ib_lrh_slid(ib_pkt_lrh(got)), 1);
	memcpy(&smp, got + EP_SMP_HDR, sizeof(smp));
	assert_int_equal(ib_smp_hop_ptr(&smp), 2);
	/* To nowhere: dropped. */
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	smp.dr_dlid = ib_to_be16(60);
	assert_int_equal(ep_query(&t->ep[0], &smp), -1);
	net_free(t);
}

/* The trap with this number that waits for its repress, or NULL. */
static const struct ib_trap *waiting(const struct net *t, uint16_t num)
{
	for (unsigned int i = 0; i < FAB_TRAPS; i++)
		if (fab_extra(t->f, net_index(t, 0))->trap[i].used && fab_extra(t->f, net_index(t, 0))->trap[i].n.trap == num)
			return &fab_extra(t->f, net_index(t, 0))->trap[i];
	return NULL;
}

/* ---- M_Key --------------------------------------------------------------------- */

static void test_mkey(void **state)
{
	static const uint8_t path[] = { 1 };
	struct net *t = net_up(1, 4, 0);
	struct ib_port_info pi;
	struct ib_smp smp, trap;
	uint8_t d[64];

	(void)state;
	get_pi(t, 0, &pi);
	pi.mkey = 0xabcdef;
	pi.mkey_prot = 1;
	pi.mkey_lease = 60;
	pi.state = 0;
	pi.phys_state = 0;
	assert_int_equal(set_pi(t, 0, &pi), 0);
	/* Reading is allowed, the key is not shown. */
	get_pi(t, 0, &pi);
	assert_int_equal(pi.mkey, 0);
	assert_int_equal(pi.mkey_prot, 1);
	/* Writing is not: no answer, a count, a running lease, trap 256. */
	memset(d, 0xff, sizeof(d));
	assert_int_equal(set(t, IB_SMP_ATTR_LFT, 0, d), -1);
	assert_int_equal(net_switch(t)->lft[1], 0);
	assert_int_equal(net_pi(t, 0)->mkey_violations, 1);
	assert_true(net_end(t)->lease_ns != UINT64_MAX);
	assert_non_null(waiting(t, IB_TRAP_BAD_MKEY));
	/* What is answered without the key leaves the lease alone. */
	ep_smp_init(&t->ep[0], &smp, 0x12, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	assert_int_equal(ep_query(&t->ep[0], &smp), IB_MAD_BAD_METHOD);
	assert_true(net_end(t)->lease_ns != UINT64_MAX);
	/* With the key all is well, and the lease stops. */
	memcpy(d, &net_switch(t)->lft[0], 64);
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, d, 1, path);
	smp.mkey = ib_to_be64(0xabcdef);
	assert_int_equal(ep_query(&t->ep[0], &smp), 0);
	assert_int_equal(ib_be64(smp.mkey), 0);
	assert_true(net_end(t)->lease_ns == UINT64_MAX);
	/* An expired lease opens the protection. */
	assert_int_equal(set(t, IB_SMP_ATTR_LFT, 0, d), -1);
	net_end(t)->lease_ns = 1;
	t->m.deadline_ns = 1;
	net_timers(t);
	assert_int_equal(net_pi(t, 0)->mkey_prot, 0);
	get_pi(t, 0, &pi);
	assert_int_equal(pi.mkey, 0xabcdef);
	while (ep_recv_smp(&t->ep[0], &trap))
		;
	net_free(t);
}

/* ---- traps and ports that die -------------------------------------------------- */

static bool next_trap(struct ep *e, struct ib_smp *smp, struct ib_notice *n)
{
	while (ep_recv_smp(e, smp)) {
		if (smp->hdr.method != IB_METHOD_TRAP)
			continue;
		ib_notice_unpack(smp->data, n);
		return true;
	}
	return false;
}

static void test_port_death(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_switch_info si;
	struct ib_port_info pi;
	struct ib_smp smp, again, rep;
	struct ib_notice n;
	const uint64_t timeout = ib_time_ns(19);
	uint8_t d[64];

	(void)state;
	/* not that of the other ports */
	net_pi(t, 0)->subnet_timeout = 19;
	net_stop_clock(t);
	assert_true(net_send(&t->ep[1], 0, 0, 2, 0xffff, 100, 1));
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_null(net_port(t, 2)->link);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_DOWN);
	assert_int_equal(get(t, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	assert_int_equal(si.port_state_change, 1);
	assert_int_equal(net_ctr(t, 2)->link_downed, 1);
	assert_non_null(strstr(t->log, "port 2: 'node 257' detached: the peer closed"));

	/* Trap 128 went to the SM. Many changes in the time after it are one more. */
	assert_int_equal(waiting(t, IB_TRAP_LINK_STATE_CHANGE)->sent, 1);
	t->now_ns += timeout / 2;
	for (int i = 0; i < 100; i++)
		net_state_change(t);
	net_pump(t);
	assert_false(next_trap(&t->ep[0], &smp, &n));
	assert_int_equal(net_timers(t), timeout - timeout / 2);
	t->now_ns += timeout;
	net_timers(t);
	net_pump(t);
	assert_true(next_trap(&t->ep[0], &smp, &n));
	assert_int_equal(smp.hdr.mgmt_class, IB_CLASS_SUBN_LID);
	assert_int_equal(n.trap, 128);
	assert_int_equal(n.generic, 1);
	assert_int_equal(n.producer, 2);
	assert_int_equal(n.issuer_lid, 1);
	assert_int_equal(ib_get_be16(n.details), 1);
	/* It is repeated with the same TID until it is repressed. */
	t->now_ns += timeout - 1;
	assert_int_equal(net_timers(t), 1);
	net_pump(t);
	assert_false(next_trap(&t->ep[0], &again, &n));
	t->now_ns += 1;
	net_timers(t);
	net_pump(t);
	assert_true(next_trap(&t->ep[0], &again, &n));
	assert_int_equal(again.hdr.tid, smp.hdr.tid);
	assert_int_equal(get(t, IB_SMP_ATTR_NOTICE, 0, d), 0);
	ib_notice_unpack(d, &n);
	assert_int_equal(n.trap, 128);

	rep = smp;
	rep.hdr.method = IB_METHOD_TRAP_REPRESS;
	assert_true(ep_send_smp(&t->ep[0], &rep, 1));
	net_pump(t);
	assert_null(waiting(t, IB_TRAP_LINK_STATE_CHANGE));
	assert_int_equal(net_timers(t), UINT64_MAX);
	assert_false(ep_recv_smp(&t->ep[0], &again));
	assert_int_equal(get(t, IB_SMP_ATTR_NOTICE, 0, d), 0);
	ib_notice_unpack(d, &n);
	assert_int_equal(n.type, IB_NOTICE_EMPTY);

	/* Nobody represses: it ends by itself. */
	net_state_change(t);
	for (int i = 0; i < 100; i++) {
		t->now_ns += timeout;
		net_timers(t);
		net_pump(t);
		while (ep_recv_smp(&t->ep[0], &smp))
			;
	}
	assert_null(waiting(t, IB_TRAP_LINK_STATE_CHANGE));
	net_free(t);
}

/* A trap that is due while the fabric sleeps wakes the machine that it is for. */
static void test_trap_wakes(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct pollfd pf = { .fd = ohca_link_event_fd(t->ep[0].l), .events = POLLIN };
	struct ib_notice n;
	struct ib_smp smp;

	(void)state;
	net_stop_clock(t);
	net_state_change(t);
	t->now_ns += 10 * ib_time_ns(net_pi(t, 0)->subnet_timeout);
	net_pump(t);
	while (next_trap(&t->ep[0], &smp, &n))
		;
	net_pump(t);
	assert_true(ohca_link_prepare_sleep(t->ep[0].l));
	assert_int_equal(poll(&pf, 1, 0), 0);
	t->now_ns += ib_time_ns(net_pi(t, 0)->subnet_timeout);
	net_timers(t);
	assert_int_equal(poll(&pf, 1, 0), 1);
	ohca_link_awake(t->ep[0].l, true);
	assert_true(next_trap(&t->ep[0], &smp, &n));
	net_free(t);
}

/*
 * Whoever sends bad P_Keys all the time, with an SM that represses every trap at once, has
 * one trap for each SubnetTimeOut, and what else happens still gets through.
 */
static void test_trap_rate(void **state)
{
	struct net *t = net_up(2, 4, 0);
	const uint64_t timeout = ib_time_ns(net_pi(t, 0)->subnet_timeout);
	unsigned int traps = 0, changes = 0;
	uint64_t begin, last = 0;
	struct ib_port_info pi;
	struct ib_notice n;
	struct ib_smp smp;

	(void)state;
	net_stop_clock(t);
	begin = t->now_ns;
	get_pi(t, 2, &pi);
	pi.state = 0;
	pi.phys_state = 0;
	pi.part_enf_in = 1;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	while (t->now_ns - begin < 10 * timeout) {
		for (int i = 0; i < 10; i++)
			assert_true(net_send(&t->ep[1], 0, 0, 2, (uint16_t)(0x8001 + i), 100, 1));
		net_pump(t);
		if (t->now_ns - begin > 5 * timeout && !changes++)
			net_state_change(t);
		net_timers(t);
		net_pump(t);
		while (next_trap(&t->ep[0], &smp, &n)) {
			assert_true(!last || t->now_ns - last >= timeout);
			last = t->now_ns;
			traps++;
			changes += n.trap == IB_TRAP_LINK_STATE_CHANGE ? 1000 : 0;
			smp.hdr.method = IB_METHOD_TRAP_REPRESS;
			assert_true(ep_send_smp(&t->ep[0], &smp, 1));
			net_pump(t);
		}
		t->now_ns += timeout / 64;
	}
	assert_in_range(traps, 9, 10);
	assert_in_range(changes, 1001, 1999);
	assert_true(net_ctr(t, 2)->rcv_constraint_errors > 6000);
	net_free(t);
}

/* What the SM does to a port it need not be told, nor is it an error of the link. */
static void test_down_by_sm(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_port_info pi;
	struct ib_switch_info si;
	struct ib_notice n;
	struct ib_smp smp;
	uint8_t d[64];

	(void)state;
	while (ep_recv_smp(&t->ep[0], &smp))
		;
	ib_trap_clear(&net_end(t)->traps);
	/* Disabled: nothing comes back up, so that nothing else can be the reason. */
	get_pi(t, 2, &pi);
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_DISABLED;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_DOWN);
	assert_int_equal(net_ctr(t, 2)->link_downed, 0);
	assert_int_equal(get(t, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	assert_int_equal(si.port_state_change, 0);
	assert_null(waiting(t, IB_TRAP_LINK_STATE_CHANGE));
	assert_false(next_trap(&t->ep[0], &smp, &n));
	/* That it trains again is the link's own doing: Down to Init is reported. */
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_POLLING;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_true(net_switch(t)->si.port_state_change);
	assert_non_null(waiting(t, IB_TRAP_LINK_STATE_CHANGE));
	assert_int_equal(net_ctr(t, 2)->link_downed, 0);
	/* So is a peer that goes away. */
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_int_equal(net_ctr(t, 2)->link_downed, 1);
	net_free(t);
}

/* The last word of a peer takes its own port down: the link goes with the SMP in hand. */
static void test_last_word(void **state)
{
	static const uint8_t path[] = { 1 };
	struct net *t = net_up(2, 4, 0);
	struct ib_port_info pi;
	struct ib_smp smp;
	uint8_t d[64];

	(void)state;
	get_pi(t, 2, &pi);
	pi.state = IB_PS_DOWN;
	pi.phys_state = 0;
	ib_port_info_pack(&pi, d);
	for (int i = 0; i < 3; i++) {
		ep_smp_init(&t->ep[1], &smp, IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, 2, d, 1, path);
		assert_true(ep_send_smp(&t->ep[1], &smp, 0));
	}
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	fab_data_round(t->d);
	fab_data_round(t->d);
	assert_null(net_port(t, 2)->link);
	assert_false(net_port(t, 2)->up);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_DOWN);
	net_free(t);
}

/*
 * A peer that flaps faster than the switch looks: what is left of its events needs no other
 * message to be seen.
 */
static void test_flapping_peer(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ohca_wire_state m = { .enabled = 1, .width_en = 2, .speed_en = 4 };
	struct ohca_link *l = t->ep[1].l;
	struct ib_port_info pi;
	struct pollfd pf = { .fd = ohca_link_ctrl_fd(net_port(t, 2)->link), .events = POLLIN };

	(void)state;
	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
	for (unsigned int vl = 0; vl < 16; vl++)
		m.fctbs[vl] = (uint16_t)l->tx[vl].fctbs;
	for (unsigned int n = 1; n < 30; n++) {
		ohca_link_train(l, &(struct ohca_link_phy){ .enabled = false });
		net_pump(t);
		assert_false(net_port(t, 2)->up);
		m.ack = net_port(t, 2)->link->seq;
		for (unsigned int i = 0; i < n; i++) {
			m.seq = l->seq + 100 + i;
			assert_int_equal(link_send(l->sock, &m, sizeof(m)), 0);
		}
		while (poll(&pf, 1, 0) == 1)	/* as the loop does */
			assert_true(fab_data_ctrl(t->d, net_port(t, 2)));
		fab_data_round(t->d);
		fab_data_round(t->d);
		assert_true(net_port(t, 2)->up);
		while (recv(l->sock, &pi, sizeof(pi), MSG_DONTWAIT) > 0)
			;
		l->seq += 100 + n;
		l->sent_seq = 0;
	}
	net_free(t);
}

/* Whoever makes events without end does not fill the log; that some are missing is said. */
static void test_log_limit(void **state)
{
	struct net *t = net_new(8, 1, 4, 0);

	(void)state;
	net_stop_clock(t);
	t->now_ns += 3600000000000;
	for (int i = 0; i < 10000; i++)
		fab_data_log(t->d, "event");
	assert_null(strstr(t->log, "not reported"));
	assert_int_equal(t->d->log_lost, 9800);
	t->now_ns += 100000000;
	memset(t->log, 0, sizeof(t->log));
	fab_data_log(t->d, "event");
	fab_data_log(t->d, "event");
	assert_string_equal(t->log, "9800 events were not reported\nevent\n");
	t->now_ns += 3600000000000;
	memset(t->log, 0, sizeof(t->log));
	for (int i = 0; i < 200; i++)
		fab_data_log(t->d, "x");
	assert_string_equal(t->log + strlen(t->log) - 4, "x\nx\n");
	assert_int_equal(t->d->log_lost, 0);
	net_free(t);
}

static void test_attach_rules(void **state)
{
	struct net *t = net_new(3, 2, 4, 0);
	struct ohca_link_err err;
	struct ep e;

	(void)state;
	assert_int_equal(t->ep[0].port, 1);
	assert_int_equal(t->ep[1].port, 2);
	/* The same port GUID twice would confuse every SM. */
	assert_int_equal(net_attach(t, &e, 0x101, 0, NULL, &err), -1);
	assert_non_null(strstr(err.text, "is attached to switch port 2 already"));
	assert_int_equal(net_attach(t, &e, 0x777, 2, NULL, &err), -1);
	assert_non_null(strstr(err.text, "the place of 'host 2' is taken by 'node 257'"));
	assert_int_equal(net_attach(t, &e, 0x777, 4, NULL, &err), -1);
	assert_non_null(strstr(err.text, "no host is at port 4 of the first switch"));
	/* A node that restarts gets its port again, though others are free, even if */
	/* its old link was not seen dying yet. */
	ohca_link_free(t->ep[0].l);
	t->ep[0].l = NULL;
	assert_int_equal(net_attach(t, &e, 0x888, 0, NULL, &err), 0);
	assert_int_equal(e.port, 3);
	ohca_link_free(e.l);
	assert_int_equal(net_attach(t, &t->ep[0], 0x100, 0, NULL, &err), 0);
	assert_int_equal(t->ep[0].port, 1);
	/* nor of one that another node wants */
	ohca_link_free(t->ep[1].l);
	assert_int_equal(net_attach(t, &t->ep[1], 0x777, 2, NULL, &err), 0);
	assert_int_equal(t->ep[1].port, 2);
	assert_int_equal(net_attach(t, &t->ep[2], 0x999, 0, NULL, &err), 0);
	t->n = 3;
	assert_int_equal(net_attach(t, &e, 0xaaa, 0, NULL, &err), -1);
	assert_non_null(strstr(err.text, "all 3 hosts of the fabric are taken"));
	net_free(t);
}

/* ---- performance --------------------------------------------------------------- */

static int gsi(struct net *t, struct ep *e, struct ib_mad *mad)
{
	uint8_t pkt[512];
	uint64_t tid = ++e->tid;
	size_t len;

	mad->hdr.base_version = 1;
	mad->hdr.class_version = 1;
	mad->hdr.tid = ib_to_be64(tid);
	len = ep_build(pkt, 0, 0, 1, e->lid, 1, IB_QKEY_GSI, 0xffff, mad);
	assert_true(ep_send_raw(e, 0, pkt, len));
	net_pump(t);
	len = ep_recv(e, 0, pkt, sizeof(pkt));
	if (!len)
		return -1;
	assert_int_equal(len, EP_SMP_PKT);
	assert_int_equal(ib_lrh_slid(ib_pkt_lrh(pkt)), 1);
	assert_int_equal(ib_get_be32(pkt + len - IB_ICRC_LEN), 0);	/* nobody computes it */
	assert_int_equal(ib_get_be32(pkt + IB_LRH_LEN + IB_BTH_LEN), IB_QKEY_GSI);
	assert_int_equal(ib_get_be32(pkt + IB_LRH_LEN + IB_BTH_LEN + 4), IB_QP1);
	memcpy(mad, pkt + EP_SMP_HDR, sizeof(*mad));
	assert_int_equal(ib_be64(mad->hdr.tid), tid);
	assert_int_equal(mad->hdr.method, IB_METHOD_GET_RESP);
	return ib_be16(mad->hdr.status);
}

static void test_pma(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_pma_port_counters pc;
	struct ib_mad mad = { .hdr.mgmt_class = IB_CLASS_PERF, .hdr.method = IB_METHOD_GET };

	(void)state;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	assert_int_equal(gsi(t, &t->ep[0], &mad), 0);
	assert_int_equal(((uint8_t *)&mad)[IB_PMA_DATA_OFF + 7] & 31, 8);	/* RespTimeValue */

	for (int i = 0; i < 5; i++)
		assert_true(net_send(&t->ep[1], 0, 0, 2, 0xffff, 400, 1));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[0], 0, 400, 1), 5);
	memset(&mad, 0, sizeof(mad));
	memset(&pc, 0, sizeof(pc));
	mad.hdr.mgmt_class = IB_CLASS_PERF;
	mad.hdr.method = IB_METHOD_GET;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_PORT_COUNTERS);
	pc.port_select = 2;
	ib_pma_pc_pack(&pc, (uint8_t *)&mad + IB_PMA_DATA_OFF);
	assert_int_equal(gsi(t, &t->ep[0], &mad), 0);
	ib_pma_pc_unpack((uint8_t *)&mad + IB_PMA_DATA_OFF, &pc);
	assert_int_equal(pc.rcv_pkts, 5);
	assert_int_equal(pc.rcv_data, 500);
	assert_int_equal(pc.xmit_pkts, 0);

	/* Other classes are refused, not ignored; answers to us are ignored. */
	memset(&mad, 0, sizeof(mad));
	mad.hdr.mgmt_class = IB_CLASS_CC;
	mad.hdr.method = IB_METHOD_SET;
	assert_int_equal(gsi(t, &t->ep[0], &mad), IB_MAD_BAD_METHOD_ATTR);
	memset(&mad, 0, sizeof(mad));
	mad.hdr.mgmt_class = 0x32;
	mad.hdr.method = IB_METHOD_GET;
	assert_int_equal(gsi(t, &t->ep[0], &mad), IB_MAD_BAD_METHOD_ATTR);
	memset(&mad, 0, sizeof(mad));
	mad.hdr.mgmt_class = IB_CLASS_PERF;
	mad.hdr.method = IB_METHOD_GET_RESP;
	assert_int_equal(gsi(t, &t->ep[0], &mad), -1);
	net_free(t);
}

static uint64_t counter(struct net *t, unsigned int port, bool vl)
{
	struct ib_mad mad = { .hdr = { .mgmt_class = IB_CLASS_PERF, .method = IB_METHOD_GET } };
	struct ib_pma_port_counters_ext pc = { .port_select = (uint8_t)port };
	uint8_t *d = (uint8_t *)&mad + IB_PMA_DATA_OFF;

	mad.hdr.attr_id = ib_to_be16(vl ? IB_PMA_ATTR_VL_XMIT_WAIT : IB_PMA_ATTR_PORT_COUNTERS_EXT);
	ib_pma_pce_pack(&pc, d);
	assert_int_equal(gsi(t, &t->ep[0], &mad), 0);
	if (vl)
		return ib_get_be16(d + 4 + 2);
	ib_pma_pce_unpack(d, &pc);
	return pc.xmit_wait;
}

/* PortXmitWait of @port, and that of its VL 1 as far as 16 bits tell. */
#define expect_wait(t, port, us) do {							\
	assert_int_equal(counter(t, port, false), us);					\
	assert_int_equal(counter(t, port, true), (us) < 65535 ? (us) : 65535);		\
} while (0)

static void set_hoq(struct net *t, unsigned int n, uint8_t life)
{
	struct ib_port_info pi;

	get_pi(t, n, &pi);
	pi.state = 0;
	pi.phys_state = 0;
	pi.hoq_life = life;
	pi.vl_stall_count = 0;
	assert_int_equal(set_pi(t, n, &pi), 0);
}

/*
 * Ticks in which a port had something to send and sent nothing: while it still waits, for
 * three inputs as for one, also for what HOQLife discards, and for multicast.
 */
static void test_xmit_wait(void **state)
{
	struct net *t = net_up(4, 2, 0);
	uint8_t d[64] = { 0 };

	(void)state;
	net_stop_clock(t);
	set_hoq(t, 4, 31);		/* never */
	while (net_send(&t->ep[0], 1, 1, 5, 0xffff, 4000, 1))
		net_pump(t);
	for (unsigned int i = 1; i < 3; i++)
		assert_true(net_send(&t->ep[i], 1, 1, 5, 0xffff, 4000, 1));
	net_pump(t);
	expect_wait(t, 4, 0);
	t->now_ns += 51000000;
	expect_wait(t, 4, 51000);
	expect_wait(t, 4, 51000);
	for (int i = 0; i < 1000; i++) {	/* by fractions of a tick, too */
		t->now_ns += 150100;
		net_pump(t);
	}
	expect_wait(t, 4, 201100);
	expect_wait(t, 1, 0);
	/* The port sends on another lane: no tick is lost but that one, and the lane waits on. */
	assert_true(net_send(&t->ep[1], 0, 0, 5, 0xffff, 100, 2));
	net_pump(t);
	assert_int_equal(net_got(&t->ep[3], 0, 100, 2), 1);
	t->now_ns += 1000000;
	expect_wait(t, 4, 202100);
	/* All goes: nothing waits any more. */
	for (int i = 0; i < 200; i++) {
		net_got(&t->ep[3], 1, 4000, 1);
		net_pump(t);
	}
	t->now_ns += 5000000;
	net_pump(t);
	expect_wait(t, 4, 202100);
	assert_int_equal(net_ctr(t, 4)->xmit_discards, 0);

	/* What is too old in the end has waited all the same. */
	set_hoq(t, 4, 8);		/* 1 ms */
	while (net_send(&t->ep[0], 1, 1, 5, 0xffff, 4000, 1))
		net_pump(t);
	for (int i = 0; i < 20; i++) {
		t->now_ns += 500000;
		net_pump(t);
	}
	assert_in_range(net_ctr(t, 4)->xmit_hoq_discards, 5, 10);
	expect_wait(t, 4, 212100);
	for (int i = 0; i < 200; i++) {
		t->now_ns += 2000000;
		net_pump(t);
	}
	assert_int_equal(t->d->blocked, 0);
	assert_true(counter(t, 4, false) > 220000);
	for (int i = 0; i < 200; i++)
		net_got(&t->ep[3], 1, 4000, 1);
	net_pump(t);

	/* A member of a multicast group that does not read; the other does. */
	set_hoq(t, 4, 31);
	ib_mft_block_put(d, 0, 1 << 3 | 1 << 4);
	assert_int_equal(set(t, IB_SMP_ATTR_MFT, 0, d), 0);
	for (int i = 0; i < 100; i++) {
		net_send(&t->ep[0], 1, 1, 0xc000, 0xffff, 4000, 1);
		net_pump(t);
		net_got(&t->ep[2], 1, 4000, 1);
	}
	assert_int_not_equal(t->d->blocked, 0);
	net_ctr(t, 4)->xmit_wait = 0;
	net_ctr(t, 4)->xmit_wait_vl[1] = 0;
	t->now_ns += 20000000;
	expect_wait(t, 4, 20000);
	expect_wait(t, 3, 0);
	net_free(t);
}

/* An answer for a node that gives no credits does not keep the others waiting. */
static void test_reply_waits_alone(void **state)
{
	struct net *t = net_up(3, 1, 0);
	struct ib_mad mad = { .hdr.mgmt_class = IB_CLASS_PERF, .hdr.method = IB_METHOD_GET };
	uint64_t before;
	unsigned int n;

	(void)state;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	/* Fill the buffer of end port 1 to the last block. */
	for (size_t len = 4000; len >= 24; len = len > 400 ? len - 400 : len - 4)
		for (n = 0; n < 100; n++) {
			if (ohca_link_tx_credits(net_port(t, 2)->link, 0) < (len + 2 + 63) / 64)
				break;
			assert_true(net_send(&t->ep[2], 0, 0, 3, 0xffff, len, 1));
			net_pump(t);
		}
	assert_int_equal(ohca_link_tx_credits(net_port(t, 2)->link, 0), 0);
	for (n = 0; n < 5; n++) {
		uint8_t pkt[512];
		struct ib_mad m = mad;
		size_t len;

		m.hdr.base_version = 1;
		m.hdr.class_version = 1;
		len = ep_build(pkt, 0, 0, 1, t->ep[1].lid, 1, IB_QKEY_GSI, 0xffff, &m);
		assert_true(ep_send_raw(&t->ep[1], 0, pkt, len));
		net_pump(t);
		assert_int_equal(t->d->reply_count, n + 1);
	}
	/* nor does one that comes with others, and is itself the last */
	for (n = 0; n < 2; n++) {
		uint8_t pkt[512];
		struct ib_mad m = mad;

		m.hdr.base_version = 1;
		m.hdr.class_version = 1;
		ep_build(pkt, 0, 0, 1, t->ep[n].lid, 1, IB_QKEY_GSI, 0xffff, &m);
		assert_true(ep_send_raw(&t->ep[n], 0, pkt, EP_SMP_PKT));
	}
	net_pump(t);
	assert_int_equal(t->d->reply_count, 6);
	assert_int_equal(net_got(&t->ep[0], 0, EP_SMP_PKT, -1), 1);
	for (n = 0; n < 200; n++) {
		struct ib_mad m = mad;

		assert_int_equal(gsi(t, &t->ep[n & 2], &m), 0);
		assert_int_equal(t->d->reply_count, 6);
	}
	/* They do not wait for ever, and the timer says when to look. */
	assert_true(net_timers(t) <= 10000000);
	before = net_ctr(t, 2)->xmit_hoq_discards;
	net_pi(t, 2)->hoq_life = 0;
	for (n = 0; n < 5000 && t->d->reply_count; n++)
		net_pump(t);
	assert_int_equal(t->d->reply_count, 0);
	assert_int_equal(net_ctr(t, 2)->xmit_hoq_discards, before + 6);
	net_free(t);
}

static void test_gsi_checks(void **state)
{
	struct net *t = net_up(1, 4, 0);
	struct ib_mad mad = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF, .class_version = 1,
			 .method = IB_METHOD_GET },
	};
	static const struct {
		uint32_t qpn, qkey;
		uint16_t pkey;
		bool ok;
	} c[] = {
		{ 1, IB_QKEY_GSI, 0xffff, true },
		{ 1, IB_QKEY_GSI, 0x7fff, true },
		{ 1, IB_QKEY_GSI, 0x8001, false },
		{ 1, 1, 0xffff, false },
		{ 0, IB_QKEY_GSI, 0xffff, false },
		{ 2, IB_QKEY_GSI, 0xffff, false },
	};
	uint8_t pkt[512];

	(void)state;
	mad.hdr.attr_id = ib_to_be16(IB_PMA_ATTR_CLASS_PORT_INFO);
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		size_t len = ep_build(pkt, 0, 0, 1, 2, c[i].qpn, c[i].qkey, c[i].pkey, &mad);

		assert_true(ep_send_raw(&t->ep[0], 0, pkt, len));
		net_pump(t);
		assert_int_equal(ep_recv(&t->ep[0], 0, pkt, sizeof(pkt)) != 0, c[i].ok);
	}
	assert_int_equal(net_pi(t, 0)->pkey_violations, 1);
	assert_int_equal(net_pi(t, 0)->qkey_violations, 1);
	assert_int_equal(t->m.stats.lost, 4);

	/* The answer has the SL of the question, and the VL of that. */
	ep_build(pkt, 2, 2, 1, 2, IB_QP1, IB_QKEY_GSI, 0xffff, &mad);
	assert_true(ep_send_raw(&t->ep[0], 2, pkt, EP_SMP_PKT));
	net_pump(t);
	assert_int_equal(ep_recv(&t->ep[0], 2, pkt, sizeof(pkt)), EP_SMP_PKT);
	assert_int_equal(pkt[0], 2 << 4);
	assert_int_equal(pkt[1] >> 4, 2);
	net_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_node_info),
		cmocka_unit_test(test_every_attribute),
		cmocka_unit_test(test_same_rules),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_port_info),
		cmocka_unit_test(test_negotiation),
		cmocka_unit_test(test_dr_forward),
		cmocka_unit_test(test_dr_bad),
		cmocka_unit_test(test_vl15_garbage),
		cmocka_unit_test(test_vl15_counters),
		cmocka_unit_test(test_lid_route),
		cmocka_unit_test(test_mixed_route),
		cmocka_unit_test(test_mkey),
		cmocka_unit_test(test_port_death),
		cmocka_unit_test(test_mft_positions),
		cmocka_unit_test(test_high_limit),
		cmocka_unit_test(test_trap_rate),
		cmocka_unit_test(test_trap_wakes),
		cmocka_unit_test(test_down_by_sm),
		cmocka_unit_test(test_last_word),
		cmocka_unit_test(test_flapping_peer),
		cmocka_unit_test(test_log_limit),
		cmocka_unit_test(test_attach_rules),
		cmocka_unit_test(test_pma),
		cmocka_unit_test(test_gsi_checks),
		cmocka_unit_test(test_xmit_wait),
		cmocka_unit_test(test_reply_waits_alone),
	};

	return cmocka_run_group_tests_name("switch management", tests, NULL, NULL);
}
