// SPDX-License-Identifier: GPL-2.0-or-later
/* The subnet management agent: each attribute of an HCA and of a switch. */
#include "node.h"

#include "ib/mlnx.h"

static void identity(void **st)
{
	struct ib_node_info ni;
	uint8_t d[64];

	(void)st;
	for (uint8_t type = IB_NODE_CHANNEL_ADAPTER; type <= IB_NODE_ROUTER_DEVICE; type++) {
		const bool sw = type == IB_NODE_SWITCH_DEVICE;
		struct node n;

		node_init(&n, sw);
		n.sma.type = type;
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
		ib_node_info_unpack(d, &ni);
		assert_int_equal(ni.base_version, 1);
		assert_int_equal(ni.class_version, 1);
		assert_int_equal(ni.node_type, type);
		assert_int_equal(ni.num_ports, sw ? 3 : 2);
		assert_int_equal(ni.sys_guid, 11);
		assert_int_equal(ni.node_guid, 12);
		assert_int_equal(ni.port_guid, sw ? 100 : 102);
		assert_int_equal(ni.partition_cap, 64);
		assert_int_equal(ni.device_id, 15);
		assert_int_equal(ni.revision, 14);
		assert_int_equal(ni.local_port, 2);
		assert_int_equal(ni.vendor_id, 13);
		assert_int_equal(get(&n, 1, IB_SMP_ATTR_NODE_INFO, 1, d), IB_MAD_BAD_FIELD);
		assert_int_equal(set(&n, 1, IB_SMP_ATTR_NODE_INFO, 0, d), IB_MAD_BAD_METHOD_ATTR);

		assert_int_equal(get(&n, 1, IB_SMP_ATTR_NODE_DESC, 0, d), 0);
		assert_memory_equal(d, n.desc, 64);
		assert_int_equal(get(&n, 1, IB_SMP_ATTR_NODE_DESC, 1, d), IB_MAD_BAD_FIELD);
		assert_int_equal(set(&n, 1, IB_SMP_ATTR_NODE_DESC, 0, d), IB_MAD_BAD_METHOD_ATTR);
		assert_string_equal(n.desc, "what it is");
	}
}

/* Only the driver can set NodeDescription, and only that of an HCA. */
static void naming(void **st)
{
	const struct ib_sma_in in = { .port = 1, .now_ns = 4711 };
	uint8_t d[64] = "new name", out;

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		struct ib_smp smp;
		struct node n;

		node_init(&n, sw);
		smp_init(&smp, IB_METHOD_SET, IB_SMP_ATTR_NODE_DESC, 0, d);
		assert_int_equal(ib_sma_process(&n.sma, &in, &smp, &out), IB_SMA_REPLY);
		assert_int_equal(ib_be16(smp.hdr.status), sw ? IB_MAD_BAD_METHOD_ATTR : 0);
		assert_string_equal(n.desc, sw ? "what it is" : "new name");
		assert_int_equal(n.named_ns, sw ? 0 : 4711);
		if (!sw)
			assert_memory_equal(smp.data, d, 64);
	}
}

static uint16_t set_si(struct node *n, struct ib_switch_info *si)
{
	uint16_t status;
	uint8_t d[64];

	ib_switch_info_pack(si, d);
	status = set(n, 1, IB_SMP_ATTR_SWITCH_INFO, 0, d);
	expect_changed(n, 0, IB_SMA_CH_SWITCH);
	ib_switch_info_unpack(d, si);
	return status;
}

static void switch_info(void **st)
{
	static const struct {
		uint16_t top;
		bool ok;
	} mcast[] = {
		{ 0xbffe, false }, { 0xbfff, true }, { 0xc000, true },
		{ 0xc000 + 63, true }, { 0xc000 + 64, false }, { 0, true }, { 1, false },
	};
	struct ib_switch_info si;
	uint16_t last = 0;
	struct node n;
	uint8_t d[64];

	(void)st;
	node_init(&n, false);
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_SWITCH_INFO, 0, d), IB_MAD_BAD_METHOD_ATTR);
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_LFT, 0, d), IB_MAD_BAD_METHOD_ATTR);
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_MFT, 0, d), IB_MAD_BAD_METHOD_ATTR);
	node_init(&n, true);
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_SWITCH_INFO, 1, d), IB_MAD_BAD_FIELD);
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	assert_memory_equal(&si, &n.si, sizeof(si));
	si = (struct ib_switch_info){
		.linear_cap = 1, .mcast_cap = 2, .linear_top = 127, .def_port = 3,
		.def_mcast_primary = 4, .def_mcast_not_primary = 5, .life_time = 6,
	};
	assert_int_equal(set_si(&n, &si), 0);
	assert_memory_equal(&si, &n.si, sizeof(si));
	assert_int_equal(si.linear_cap, 128);		/* read only */
	assert_int_equal(si.mcast_cap, 64);
	assert_int_equal(si.linear_top, 127);
	assert_int_equal(si.def_port, 3);
	assert_int_equal(si.def_mcast_primary, 4);
	assert_int_equal(si.def_mcast_not_primary, 5);
	assert_int_equal(si.life_time, 6);
	assert_int_equal(si.port_state_change, 1);
	si.port_state_change = 1;			/* a Set with 1 clears it */
	si.linear_top = 128;
	assert_int_equal(set_si(&n, &si), IB_MAD_BAD_FIELD);
	assert_int_equal(si.linear_top, 127);
	assert_int_equal(si.port_state_change, 0);
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(mcast); i++) {
		si.mcast_top = mcast[i].top;
		assert_int_equal(set_si(&n, &si), mcast[i].ok ? 0 : IB_MAD_BAD_FIELD);
		last = mcast[i].ok ? mcast[i].top : last;
		assert_int_equal(si.mcast_top, last);
	}
}

static void guids(void **st)
{
	uint8_t d[64], e[64];

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		unsigned int num = sw ? 0 : 2;
		struct node n;

		node_init(&n, sw);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_GUID_INFO, 2, d), IB_MAD_BAD_FIELD);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_GUID_INFO, UINT32_MAX, d),
				 IB_MAD_BAD_FIELD);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_GUID_INFO, 0, d), 0);
		assert_int_equal(set(&n, 2, IB_SMP_ATTR_GUID_INFO, 0, d), 0);
		assert_int_equal(n.changes, 0);		/* the table did not change */
		for (unsigned int block = 0; block < 2; block++) {
			for (unsigned int i = 0; i < 8; i++)
				ib_guid_block_put(d, i, 1000 + block * 8 + i);
			assert_int_equal(set(&n, 2, IB_SMP_ATTR_GUID_INFO, block, d), 0);
			expect_changed(&n, num, IB_SMA_CH_GUIDS);
			assert_int_equal(get(&n, 2, IB_SMP_ATTR_GUID_INFO, block, e), 0);
			assert_memory_equal(d, e, 64);
		}
		/* GUID 0 is the hardware's and cannot be set */
		assert_int_equal(n.port[num].guid[0], 100 + num);
		for (unsigned int i = 1; i < 16; i++)
			assert_int_equal(n.port[num].guid[i], 1000 + i);
	}
}

static void pkeys(void **st)
{
	uint8_t d[64], e[64];

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		/* an HCA has one table a port, and the port that receives the SMP selects it */
		unsigned int num = sw ? 3 : 2;
		struct node n;

		node_init(&n, sw);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_PKEY_TABLE, 3 << 16 | 2, d),
				 IB_MAD_BAD_FIELD);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_PKEY_TABLE, 4 << 16, d),
				 sw ? IB_MAD_BAD_FIELD : 0);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_PKEY_TABLE, 3 << 16, d), 0);
		assert_int_equal(set(&n, 2, IB_SMP_ATTR_PKEY_TABLE, 3 << 16, d), 0);
		assert_int_equal(n.changes, 0);
		for (unsigned int block = 0; block < 2; block++) {
			for (unsigned int i = 0; i < 32; i++)
				ib_pkey_block_put(d, i, (uint16_t)(1000 + block * 32 + i));
			assert_int_equal(set(&n, 2, IB_SMP_ATTR_PKEY_TABLE, 3 << 16 | block, d), 0);
			expect_changed(&n, num, IB_SMA_CH_PKEYS);
			assert_int_equal(get(&n, 2, IB_SMP_ATTR_PKEY_TABLE, 3 << 16 | block, e), 0);
			assert_memory_equal(d, e, 64);
		}
		for (unsigned int i = 0; i < 64; i++)
			assert_int_equal(n.port[num].pkey[i], 1000 + i);
	}
}

/* A switch that announces it accepts one table for all input ports, all output ports, or both. */
static void all_lanes(void **st)
{
	static const struct {
		uint32_t mod;
		unsigned int in, out, changed;
	} c[] = {
		{ 0x30000, PORTS, PORTS, 0 },
		{ 0x3ffff, PORTS, PORTS, 0 },
		{ 0x20002, PORTS, 2, 2 },
		{ 0x2ff03, PORTS, 3, 3 },
		{ 0x10100, 1, PORTS, 0 },
		{ 0x100ff, 0, PORTS, 0 },
	};
	static const uint32_t bad[] = { 0x20004, 0x10400, 0x40000, 0x80101, 0x80030000 };
	struct ib_sl2vl map;
	struct node n;
	uint8_t d[64];

	(void)st;
	node_init(&n, true);
	n.si.opt_sl2vl = 1;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(c); i++) {
		memset(&map, (int)i + 1, sizeof(map));
		ib_sl2vl_pack(&map, d);
		assert_int_equal(set(&n, 1, IB_SMP_ATTR_SL2VL, c[i].mod, d), 0);
		expect_changed(&n, c[i].changed, IB_SMA_CH_SL2VL);
		assert_memory_equal(&n.sl2vl[c[i].in][c[i].out], &map, sizeof(map));
		assert_int_equal(get(&n, 1, IB_SMP_ATTR_SL2VL, c[i].mod, d), IB_MAD_BAD_FIELD);
	}
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(bad); i++)
		assert_int_equal(set(&n, 1, IB_SMP_ATTR_SL2VL, bad[i], d), IB_MAD_BAD_FIELD);
}

static void lanes(void **st)
{
	struct ib_vlarb_entry e[IB_VLARB_BLOCK];
	struct ib_sl2vl map;
	uint8_t d[64];

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		unsigned int in = sw ? 3 : 2, out = sw ? 1 : 2;
		struct node n;

		node_init(&n, sw);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_SL2VL, 4 << 8 | 1, d),
				 sw ? IB_MAD_BAD_FIELD : 0);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_SL2VL, 3 << 8 | 4, d),
				 sw ? IB_MAD_BAD_FIELD : 0);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_SL2VL, 1 << 16 | 3 << 8 | 1, d),
				 sw ? IB_MAD_BAD_FIELD : 0);
		for (uint8_t i = 0; i < 16; i++)
			map.vl[i] = i ^ 5;
		ib_sl2vl_pack(&map, d);
		assert_int_equal(set(&n, 2, IB_SMP_ATTR_SL2VL, 3 << 8 | 1, d), 0);
		expect_changed(&n, out, IB_SMA_CH_SL2VL);
		assert_memory_equal(&n.sl2vl[in][out], &map, sizeof(map));
		memset(&map, 0, sizeof(map));
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_SL2VL, 3 << 8 | 1, d), 0);
		ib_sl2vl_unpack(d, &map);
		assert_memory_equal(&n.sl2vl[in][out], &map, sizeof(map));
		/*
		 * an HCA ignores the bits for all ports; a switch that does not support them
		 * refuses them
		 */
		for (uint32_t all = 1; all < 8; all++)
			assert_int_equal(set(&n, 2, IB_SMP_ATTR_SL2VL, all << 16 | 1, d),
					 sw ? IB_MAD_BAD_FIELD : 0);

		for (uint32_t block = 0; block < 6; block++)
			assert_int_equal(get(&n, 2, IB_SMP_ATTR_VLARB, block << 16 | 3, d),
					 block >= 1 && block <= 4 ? 0 : IB_MAD_BAD_FIELD);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_VLARB, 1 << 16 | 4, d),
				 sw ? IB_MAD_BAD_FIELD : 0);
		for (uint32_t block = 1; block <= 4; block++) {
			for (uint8_t i = 0; i < IB_VLARB_BLOCK; i++)
				e[i] = (struct ib_vlarb_entry){ i % 15, (uint8_t)(i + block) };
			e[7] = (struct ib_vlarb_entry){ IB_MGMT_VL, 0 };
			ib_vlarb_block_pack(e, d);
			assert_int_equal(set(&n, 2, IB_SMP_ATTR_VLARB, block << 16 | 3, d), 0);
			expect_changed(&n, in, IB_SMA_CH_VLARB);
		}
		for (uint32_t block = 1; block <= 4; block++) {
			memset(e, 0, sizeof(e));
			assert_int_equal(get(&n, 2, IB_SMP_ATTR_VLARB, block << 16 | 3, d), 0);
			ib_vlarb_block_unpack(d, e);
			assert_true(e[31].vl == 1 && e[31].weight == 31 + block);
			assert_true(e[0].vl == 0 && e[0].weight == block);
		}
		e[31] = (struct ib_vlarb_entry){ IB_MGMT_VL, 1 };
		ib_vlarb_block_pack(e, d);
		assert_int_equal(set(&n, 2, IB_SMP_ATTR_VLARB, 1 << 16 | 3, d), IB_MAD_BAD_FIELD);
		assert_int_equal(n.changes, 0);
		assert_int_equal(ib_vlarb_get_block(&n.port[in].arb, 1, e), 0);
		assert_int_equal(e[31].vl, 1);
	}
}

static void forwarding(void **st)
{
	uint8_t d[64], e[64];
	struct node n;

	(void)st;
	node_init(&n, true);
	for (unsigned int block = 0; block < 2; block++) {
		for (unsigned int i = 0; i < 64; i++)
			d[i] = (uint8_t)(block * 64 + i);
		assert_int_equal(set(&n, 1, IB_SMP_ATTR_LFT, block, d), 0);
		expect_changed(&n, 0, IB_SMA_CH_SWITCH);
		assert_int_equal(get(&n, 1, IB_SMP_ATTR_LFT, block, e), 0);
		assert_memory_equal(d, e, 64);
	}
	for (unsigned int i = 0; i < 128; i++)
		assert_int_equal(n.lft[i], i);
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_LFT, 2, d), IB_MAD_BAD_FIELD);

	for (unsigned int block = 0; block < 2; block++) {
		for (unsigned int i = 0; i < 32; i++)
			ib_mft_block_put(d, i, (uint16_t)(block * 32 + i));
		assert_int_equal(set(&n, 1, IB_SMP_ATTR_MFT, block, d), 0);
		expect_changed(&n, 0, IB_SMA_CH_SWITCH);
		assert_int_equal(get(&n, 1, IB_SMP_ATTR_MFT, block, e), 0);
		assert_memory_equal(d, e, 64);
	}
	for (unsigned int i = 0; i < 64; i++) {
		assert_int_equal(n.mft[i][0], i);
		assert_int_equal(n.mft[i][1], 0);
	}
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_MFT, 2, d), IB_MAD_BAD_FIELD);
	/* 16 ports a position, with port 0 */
	n.sma.num_ports = 15;
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_MFT, 1u << 28, d), IB_MAD_BAD_FIELD);
	n.sma.num_ports = 16;
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_MFT, 1u << 28, d), 0);
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_MFT, 2u << 28, d), IB_MAD_BAD_FIELD);
}

static void port_info(void **st)
{
	struct ib_port_info pi;
	struct node n;

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		node_init(&n, sw);
		for (unsigned int i = 0; i < PORTS; i++)
			n.port[i].pi.vl_high_limit = (uint8_t)(10 + i);
		/* 0 is the port that received the SMP, or the switch's own */
		assert_int_equal(get_pi(&n, 2, 0, &pi), 0);
		assert_int_equal(pi.vl_high_limit, sw ? 10 : 12);
		assert_int_equal(pi.local_port, 2);
		assert_int_equal(get_pi(&n, 2, 0x7fffff00 | 1, &pi), 0);
		assert_int_equal(pi.vl_high_limit, 11);
		assert_int_equal(get_pi(&n, 2, 3, &pi), sw ? 0 : IB_MAD_BAD_FIELD);
		assert_int_equal(get_pi(&n, 2, 4, &pi), IB_MAD_BAD_FIELD);
	}
	/* the agent passes a change on to the data path */
	node_init(&n, true);
	pi = request(&n, 2);
	pi.vl_high_limit = 77;
	assert_int_equal(set_pi(&n, 1, 2, &pi), 0);
	assert_int_equal(n.changed_num, 2);
	assert_int_equal(n.what, IB_SMA_CH_PORT_INFO | IB_PI_EFF_VLARB);
	assert_int_equal(n.port[2].arb.high_limit, 77);
	pi = request(&n, 2);
	assert_int_equal(set_pi(&n, 1, 2, &pi), 0);
	expect_changed(&n, 2, IB_SMA_CH_PORT_INFO);

	/* only a manager that announces its support can set extended speeds */
	pi = request(&n, 2);
	pi.speed_ext_enabled = 1;
	assert_int_equal(set_pi(&n, 1, 2, &pi), 0);
	assert_int_equal(pi.speed_ext_enabled, 3);
	pi = request(&n, 2);
	pi.speed_ext_enabled = 1;
	assert_int_equal(set_pi(&n, 1, 1u << 31 | 2, &pi), 0);
	assert_int_equal(pi.speed_ext_enabled, 1);

	/* the answer to the Set shows ClientReregister */
	node_init(&n, false);
	n.port[1].pi.cap_mask |= IB_CAP_CLIENT_REREG;
	pi = request(&n, 1);
	pi.lid = 5;
	pi.sm_lid = 1;
	pi.client_reregister = 1;
	assert_int_equal(set_pi(&n, 1, 1, &pi), 0);
	assert_int_equal(pi.client_reregister, 1);
	assert_int_equal(pi.lid, 5);
	assert_true(n.what & IB_PI_EFF_REREG);
	assert_int_equal(get_pi(&n, 1, 1, &pi), 0);
	assert_int_equal(pi.client_reregister, 0);
	/* a bad component gives a bad status, and the others take effect */
	pi = request(&n, 1);
	pi.sm_lid = 2;
	pi.mtu = 7;
	assert_int_equal(set_pi(&n, 1, 1, &pi), IB_MAD_BAD_FIELD);
	assert_int_equal(n.port[1].pi.sm_lid, 2);
	assert_int_equal(n.changes, 1);
}

/*
 * The answer shows a Set's effect on the link as done, and it stays due until the owner has done
 * it.
 */
static void link_due(void **st)
{
	struct ib_port_info pi;
	struct node n;

	(void)st;
	node_init(&n, true);
	pi = request(&n, 2);
	pi.state = IB_PS_DOWN;
	assert_int_equal(set_pi(&n, 1, 2, &pi), 0);
	assert_int_equal(pi.state, IB_PS_DOWN);
	assert_int_equal(pi.phys_state, IB_PHYS_POLLING);
	assert_int_equal(n.port[2].due, IB_PI_EFF_LINK_DOWN);
	assert_int_equal(n.port[2].pi.state, IB_PS_INIT);
	assert_int_equal(n.port[2].pi.phys_state, IB_PHYS_LINK_UP);
	/* the next Set starts from that state, and Down to Armed is no transition */
	pi = request(&n, 2);
	pi.state = IB_PS_ARMED;
	assert_int_equal(set_pi(&n, 1, 2, &pi), IB_MAD_BAD_FIELD);
	assert_int_equal(n.port[2].pi.state, IB_PS_INIT);
	assert_int_equal(n.port[2].due, IB_PI_EFF_LINK_DOWN);
	pi = request(&n, 2);
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_DISABLED;
	assert_int_equal(set_pi(&n, 1, 2, &pi), 0);
	assert_int_equal(pi.phys_state, IB_PHYS_DISABLED);
	assert_true(n.port[2].due & IB_PI_EFF_LINK_DISABLE);
	assert_int_equal(get_pi(&n, 1, 2, &pi), 0);
	assert_int_equal(pi.state, IB_PS_DOWN);
	assert_int_equal(pi.phys_state, IB_PHYS_DISABLED);
	assert_int_equal(get_pi(&n, 1, 1, &pi), 0);
	assert_int_equal(pi.state, IB_PS_INIT);
}

/* FDR10, which PortInfo shows as QDR; for nodes with IDs of Mellanox. */
static void mlnx_ext_port_info(void **st)
{
	const uint16_t attr = IB_SMP_ATTR_MLNX_EXT_PORT_INFO;
	uint8_t want[64] = { 0 }, d[64], pi[64];

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		const unsigned int last = sw ? 3 : 2;
		struct ib_port_info *p;
		struct node n;

		node_init(&n, sw);
		p = &n.port[last].pi;
		assert_int_equal(get(&n, 1, attr, last, d), IB_MAD_BAD_METHOD_ATTR);
		n.sma.device_id = 0xc738;
		assert_int_equal(get(&n, 1, attr, last, d), IB_MAD_OK);
		n.sma.device_id = 15;
		n.sma.vendor_id = 0x2c9;
		assert_int_equal(get(&n, 1, attr, last, d), IB_MAD_OK);
		assert_memory_equal(d, want, 64);
		assert_int_equal(get(&n, 1, attr, last + 1, d), IB_MAD_BAD_FIELD);

		p->speed_supported |= IB_SPEED_FDR10;
		assert_int_equal(get(&n, 1, attr, last, d), IB_MAD_OK);
		want[7] = 1;
		assert_memory_equal(d, want, 64);
		/* without StateChangeEnable nothing changes */
		d[11] = 1;
		assert_int_equal(set(&n, 1, attr, last, d), IB_MAD_OK);
		assert_memory_equal(d, want, 64);
		d[3] = 1;
		d[11] = 1;
		assert_int_equal(set(&n, 1, attr, last, d), IB_MAD_OK);
		expect_changed(&n, last, IB_SMA_CH_PORT_INFO | IB_PI_EFF_WIDTH_SPEED);
		want[11] = 1;
		assert_memory_equal(d, want, 64);
		d[3] = 1;
		d[11] = 2;
		assert_int_equal(set(&n, 1, attr, last, d), IB_MAD_BAD_FIELD);
		assert_memory_equal(d, want, 64);

		assert_int_equal(ib_port_negotiate(p, p->width_enabled, p->speed_enabled, 0,
						   p->mtu_cap, p->vl_cap), 0);
		assert_int_equal(get(&n, 1, attr, last, d), IB_MAD_OK);
		want[15] = 1;
		assert_memory_equal(d, want, 64);
		ib_port_info_pack(p, pi);
		assert_int_equal(pi[35] >> 4, IB_SPEED_QDR);
		/* a Set of PortInfo does not disable it */
		assert_int_equal(get(&n, 1, IB_SMP_ATTR_PORT_INFO, last, pi), IB_MAD_OK);
		pi[32] &= 0xf0;			/* no change of state */
		pi[33] &= 0x0f;
		set(&n, 1, IB_SMP_ATTR_PORT_INFO, last, pi);
		assert_true(p->speed_enabled & IB_SPEED_FDR10);
		d[3] = 1;
		d[11] = 0;
		assert_int_equal(set(&n, 1, attr, last, d), IB_MAD_OK);
		assert_false(p->speed_enabled & IB_SPEED_FDR10);
		memset(want, 0, sizeof(want));
	}
}

/* Class 0x0A, as vendstat uses it: ClassPortInfo, GeneralInfo, and nothing else. */
static void mlnx_class(void **st)
{
	const struct ib_mlnx_info info = { .device_id = 0xd2f0, .revision = 0xa0, .uptime = 77,
					   .psid = "longer than sixteen" };
	struct ib_mad mad = { .hdr = { .base_version = 1, .mgmt_class = IB_CLASS_MLNX,
				       .class_version = 1, .method = IB_METHOD_GET,
				       .attr_id = ib_to_be16(IB_ATTR_CLASS_PORT_INFO) } };
	struct ib_mad q = mad;

	(void)st;
	assert_true(ib_mlnx_process(&info, &q));
	assert_int_equal(q.hdr.method, IB_METHOD_GET_RESP);
	assert_int_equal(ib_be16(q.hdr.status), IB_MAD_OK);
	assert_true(q.data[0] == 1 && q.data[1] == 1);
	q = mad;
	q.hdr.attr_id = ib_to_be16(0x17);
	memset(q.data, 0x55, sizeof(q.data));
	assert_true(ib_mlnx_process(&info, &q));
	assert_int_equal(ib_be16(q.hdr.status), IB_MAD_OK);
	assert_int_equal(ib_get_be16(q.data + 8), 0xa0);
	assert_int_equal(ib_get_be16(q.data + 10), 0xd2f0);
	assert_int_equal(ib_get_be32(q.data + 36), 77);
	assert_memory_equal(q.data + 56, "longer than sixt\0\0\0\0", 20);
	q = mad;
	q.hdr.attr_id = ib_to_be16(0x50);
	assert_true(ib_mlnx_process(&info, &q));
	assert_int_equal(ib_be16(q.hdr.status), IB_MAD_BAD_METHOD_ATTR);
	q = mad;
	q.hdr.method = IB_METHOD_SET;
	assert_true(ib_mlnx_process(&info, &q));
	assert_int_equal(ib_be16(q.hdr.status), IB_MAD_BAD_METHOD_ATTR);
	q = mad;
	q.hdr.class_version = 2;
	assert_true(ib_mlnx_process(&info, &q));
	assert_int_equal(ib_be16(q.hdr.status), IB_MAD_BAD_VERSION);
	q = mad;
	q.hdr.method = IB_METHOD_GET_RESP;
	assert_false(ib_mlnx_process(&info, &q));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity),
		cmocka_unit_test(naming),
		cmocka_unit_test(switch_info),
		cmocka_unit_test(guids),
		cmocka_unit_test(pkeys),
		cmocka_unit_test(lanes),
		cmocka_unit_test(all_lanes),
		cmocka_unit_test(forwarding),
		cmocka_unit_test(port_info),
		cmocka_unit_test(link_due),
		cmocka_unit_test(mlnx_ext_port_info),
		cmocka_unit_test(mlnx_class),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
