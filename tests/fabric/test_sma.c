// SPDX-License-Identifier: GPL-2.0-or-later
/* Responses of a switch's agent: each attribute, its rules, M_Keys. */
#include "query.h"

#include "ib/rate.h"

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
	/* the peer of a link gets it, too */
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

/* A block of multicast forwarding has 16 ports, and no block is without a port. */
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

/* An SM's Set of a port takes effect at the sender. */
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

/* Every request gets a response. */
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

/* Rules that an adapter's port has as well. */
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
	/* attributes without a modifier accept only 0 */
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_INFO, 1, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_NODE_DESC, 1, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_SWITCH_INFO, 1, d), IB_MAD_BAD_FIELD);
	/* reserved bits of a modifier are ignored */
	assert_int_equal(get(t, IB_SMP_ATTR_PORT_INFO, 0x100, d), 0);
	/* VL15 is invalid in arbitration tables */
	ib_vlarb_block_pack(e, d);
	assert_int_equal(set(t, IB_SMP_ATTR_VLARB, 1 << 16 | 1, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(t, IB_SMP_ATTR_VLARB, 1 << 16 | 1, d), 0);
	assert_int_not_equal(d[0] & 15, IB_MGMT_VL);
	/* a route without hops ends here, and the response returns by the same port */
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 0, path);
	ib_smp_set_hops(&smp, 0, 0);
	assert_int_equal(ep_query(&t->ep[0], &smp), 0);

	/* Set(Notice) removes the trap that Get(Notice) shows */
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
	/* A MAD that is not a request gets no response. */
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

/* The VL of SL 1 from each of 5 ports to each of them. */
static void expect_sl2vl(struct net *t, const char *vls)
{
	struct ib_sl2vl map;
	uint8_t d[64];

	for (unsigned int i = 0; i < 25; i++) {
		assert_int_equal(get(t, IB_SMP_ATTR_SL2VL, i / 5 << 8 | i % 5, d), 0);
		ib_sl2vl_unpack(d, &map);
		assert_int_equal(map.vl[1], vls[i + i / 5] - '0');
		assert_int_equal(map.vl[1], fab_sl2vl(t->f, net_node(t), i / 5, i % 5)->vl[1]);
	}
}

static void set_sl2vl(struct net *t, uint32_t mod, uint8_t vl)
{
	struct ib_sl2vl map;
	uint8_t d[64];

	memset(&map, vl, sizeof(map));
	ib_sl2vl_pack(&map, d);
	assert_int_equal(set(t, IB_SMP_ATTR_SL2VL, mod, d), 0);
	ib_sl2vl_unpack(d, &map);
	assert_int_equal(map.vl[1], vl);
}

/*
 * One Set changes all input ports, all output ports, or both, before and after a Set for two ports.
 */
static void test_all_sl2vl(void **state)
{
	struct net *t = net_new(4, 1, 8, 0);
	struct ib_switch_info si;
	uint8_t d[64];

	(void)state;
	assert_int_equal(get(t, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	assert_int_equal(si.opt_sl2vl, 1);
	expect_sl2vl(t, "11111 11111 11111 11111 11111");
	set_sl2vl(t, 0x30000, 2);
	expect_sl2vl(t, "22222 22222 22222 22222 22222");
	set_sl2vl(t, 0x20003, 3);
	expect_sl2vl(t, "22232 22232 22232 22232 22232");
	assert_null(net_switch(t)->sl2vl);
	set_sl2vl(t, 1 << 8 | 4, 4);
	expect_sl2vl(t, "22232 22234 22232 22232 22232");
	set_sl2vl(t, 0x10000 | 2 << 8, 5);
	expect_sl2vl(t, "22232 22234 55555 22232 22232");
	set_sl2vl(t, 0x20000, 6);
	expect_sl2vl(t, "62232 62234 65555 62232 62232");
	assert_non_null(net_switch(t)->sl2vl);
	set_sl2vl(t, 0x30000, 7);
	expect_sl2vl(t, "77777 77777 77777 77777 77777");
	assert_null(net_switch(t)->sl2vl);
	/* a link that trains again keeps the table */
	fab_fold_sl2vl(&t->m, net_index(t, 2), 4);
	expect_sl2vl(t, "77777 77777 77777 77777 77777");
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
	/* Get(Notice) works, and traps are sent */
	assert_true(pi.cap_mask & IB_CAP_NOTICE && pi.cap_mask & IB_CAP_TRAP);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.local_port, 1);
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_int_equal(pi.phys_state, IB_PHYS_LINK_UP);
	assert_int_equal(pi.width_active, 2);
	assert_int_equal(pi.speed_ext_active, 2);
	assert_int_equal(pi.mtu, 5);
	assert_int_equal(pi.op_vls, 3);			/* 4 VLs, as the switch has */
	get_pi(t, 3, &pi);
	assert_int_equal(pi.state, IB_PS_DOWN);
	assert_int_equal(pi.phys_state, IB_PHYS_POLLING);
	pi.state = IB_PS_ARMED;
	pi.phys_state = 0;
	assert_int_equal(set_pi(t, 3, &pi), IB_MAD_BAD_FIELD);

	/* Init to Active is no valid transition; Init to Armed is, and Armed to Active. */
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

	/* Only an SM that supports extended speeds changes them. */
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
	assert_int_equal(pi.speed_ext_active, 2);	/* until the link trains again */

	/* Down resets the link, which comes up in Init, and slower. */
	pi.state = IB_PS_DOWN;
	pi.phys_state = 0;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_int_equal(pi.speed_ext_active, 1);

	/* A disabled port stays down even if the peer trains. */
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

/* Both ends negotiate MTU and VLs; otherwise the SM would reset the link. */
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
	/* A Get is allowed, and does not show the key. */
	get_pi(t, 0, &pi);
	assert_int_equal(pi.mkey, 0);
	assert_int_equal(pi.mkey_prot, 1);
	/* A Set is not: no response, a count, a running lease, trap 256. */
	memset(d, 0xff, sizeof(d));
	assert_int_equal(set(t, IB_SMP_ATTR_LFT, 0, d), -1);
	assert_int_equal(net_switch(t)->lft[1], 0);
	assert_int_equal(net_pi(t, 0)->mkey_violations, 1);
	assert_true(net_end(t)->lease_ns != UINT64_MAX);
	assert_non_null(waiting(t, IB_TRAP_BAD_MKEY));
	/* A response to a request without the key does not change the lease. */
	ep_smp_init(&t->ep[0], &smp, 0x12, IB_SMP_ATTR_NODE_INFO, 0, NULL, 1, path);
	assert_int_equal(ep_query(&t->ep[0], &smp), IB_MAD_BAD_METHOD);
	assert_true(net_end(t)->lease_ns != UINT64_MAX);
	/* A request with the key succeeds and stops the lease. */
	memcpy(d, &net_switch(t)->lft[0], 64);
	ep_smp_init(&t->ep[0], &smp, IB_METHOD_SET, IB_SMP_ATTR_LFT, 0, d, 1, path);
	smp.mkey = ib_to_be64(0xabcdef);
	assert_int_equal(ep_query(&t->ep[0], &smp), 0);
	assert_int_equal(ib_be64(smp.mkey), 0);
	assert_true(net_end(t)->lease_ns == UINT64_MAX);
	/* An expired lease ends the protection. */
	assert_int_equal(set(t, IB_SMP_ATTR_LFT, 0, d), -1);
	net_end(t)->lease_ns = 1;
	fab_wait(&t->m, fab_extra_of(t->f, net_index(t, 0)));
	net_timers(t);
	assert_int_equal(net_pi(t, 0)->mkey_prot, 0);
	get_pi(t, 0, &pi);
	assert_int_equal(pi.mkey, 0xabcdef);
	while (ep_recv_smp(&t->ep[0], &trap))
		;
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
		cmocka_unit_test(test_all_sl2vl),
		cmocka_unit_test(test_port_info),
		cmocka_unit_test(test_negotiation),
		cmocka_unit_test(test_mkey),
		cmocka_unit_test(test_mft_positions),
		cmocka_unit_test(test_high_limit),
	};

	return cmocka_run_group_tests_name("switch attributes", tests, NULL, NULL);
}
