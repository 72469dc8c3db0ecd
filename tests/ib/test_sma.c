/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The subnet management agent: each attribute of an HCA and of a switch, M_Keys, routes, traps. */
#include "cm.h"

#include "ib/packet.h"
#include "ib/rate.h"
#include "ib/sma.h"

#define PORTS	4u	/* with a switch's port 0; an HCA has 1 and 2 */
#define NOW	1000000000000ull

struct node {
	struct ib_sma sma;
	struct ib_switch_info si;
	struct port {
		struct ib_port_info pi;
		uint32_t due;
		uint16_t pkey[2 * IB_PKEYS_PER_BLOCK];
		uint64_t guid[2 * IB_GUIDS_PER_BLOCK];
		struct ib_vlarb arb;
		struct ib_sma_end end;
		struct ib_trap slot[3];
	} port[PORTS];
	struct ib_sl2vl sl2vl[PORTS][PORTS];
	uint8_t lft[2 * IB_LFT_PER_BLOCK];
	uint16_t mft[2 * IB_MFT_PER_BLOCK][2];
	char desc[IB_SMP_DATA_LEN];
	unsigned int changes, changed_num;
	uint32_t what;
	unsigned int traps, trap_num;
	struct ib_smp trap;
	uint64_t named_ns;
};

static void op_port(void *ctx, unsigned int num, struct ib_sma_port *p)
{
	struct node *n = ctx;
	struct port *x = &n->port[num];

	assert_true(num <= n->sma.num_ports);
	*p = (struct ib_sma_port){
		.pi = &x->pi,
		.link_due = &x->due,
		.pkey = x->pkey,
		.num_pkeys = IB_ARRAY_SIZE(x->pkey),
		.arb = &x->arb,
		.guid = x->guid,
		.num_guids = IB_ARRAY_SIZE(x->guid),
		.end = &x->end,
	};
}

static struct ib_sl2vl *op_sl2vl(void *ctx, unsigned int in, unsigned int out)
{
	return &((struct node *)ctx)->sl2vl[in][out];
}

static void op_changed(void *ctx, unsigned int num, uint32_t what)
{
	struct node *n = ctx;

	n->changes++;
	n->changed_num = num;
	n->what = what;
}

static void op_send_trap(void *ctx, unsigned int num, const struct ib_smp *trap)
{
	struct node *n = ctx;

	n->traps++;
	n->trap_num = num;
	n->trap = *trap;
}

static void op_set_node_desc(void *ctx, const char desc[IB_SMP_DATA_LEN], uint64_t now_ns)
{
	struct node *n = ctx;

	memcpy(n->desc, desc, IB_SMP_DATA_LEN);
	n->named_ns = now_ns;
}

static uint8_t *op_lft(void *ctx, unsigned int block)
{
	return &((struct node *)ctx)->lft[block * IB_LFT_PER_BLOCK];
}

static uint16_t *op_mft(void *ctx, unsigned int entry, unsigned int pos)
{
	return &((struct node *)ctx)->mft[entry][pos];
}

static const struct ib_sma_ops hca_ops = {
	.port = op_port,
	.sl2vl = op_sl2vl,
	.changed = op_changed,
	.send_trap = op_send_trap,
	.set_node_desc = op_set_node_desc,
};

static const struct ib_sma_ops switch_ops = {
	.port = op_port,
	.sl2vl = op_sl2vl,
	.changed = op_changed,
	.send_trap = op_send_trap,
	.lft = op_lft,
	.mft = op_mft,
};

static void node_init(struct node *n, bool is_switch)
{
	static const struct ib_port_profile prof = {
		.width = 3, .speed = 7, .speed_ext = 3, .mtu_cap = 5, .vl_cap = 4, .vlarb_cap = 64,
	};
	static const struct ib_trap_room room = { .slots = 3, .security = 2, .each = 1 };

	memset(n, 0, sizeof(*n));
	n->sma = (struct ib_sma){
		.ops = is_switch ? &switch_ops : &hca_ops,
		.ctx = n,
		.sys_guid = 11,
		.node_guid = 12,
		.vendor_id = 13,
		.revision = 14,
		.device_id = 15,
		.num_ports = is_switch ? 3 : 2,
		.type = is_switch ? IB_NODE_SWITCH_DEVICE : IB_NODE_CHANNEL_ADAPTER,
		.desc = n->desc,
		.si = is_switch ? &n->si : NULL,
	};
	n->si = (struct ib_switch_info){
		.linear_cap = IB_ARRAY_SIZE(n->lft),
		.mcast_cap = IB_ARRAY_SIZE(n->mft),
		.port_state_change = 1,
	};
	strcpy(n->desc, "what it is");
	for (unsigned int i = 0; i < PORTS; i++) {
		struct port *p = &n->port[i];

		ib_port_info_init(&p->pi, &prof, (uint8_t)i, !is_switch ? IB_PI_CA :
				  i ? IB_PI_SWITCH_EXT : IB_PI_SWITCH_PORT0);
		if (i || !is_switch) {
			assert_int_equal(ib_port_negotiate(&p->pi, 3, 7, 3, 5, 4), 0);
			ib_port_link_up(&p->pi);
		}
		ib_vlarb_init(&p->arb, 64, 8);
		p->pkey[0] = IB_DEFAULT_PKEY;
		p->guid[0] = 100 + i;
		ib_trap_init(&p->end.traps, p->slot, &room, 1000 * (i + 1));
		p->end.lease_ns = UINT64_MAX;
	}
}

static void smp_init(struct ib_smp *smp, uint8_t method, uint16_t attr, uint32_t mod,
		     const uint8_t *data)
{
	memset(smp, 0, sizeof(*smp));
	smp->hdr.base_version = IB_MAD_BASE_VERSION;
	smp->hdr.mgmt_class = IB_CLASS_SUBN_LID;
	smp->hdr.class_version = IB_SMP_CLASS_VERSION;
	smp->hdr.method = method;
	smp->hdr.tid = ib_to_be64(77);
	smp->hdr.attr_id = ib_to_be16(attr);
	smp->hdr.attr_mod = ib_to_be32(mod);
	if (data)
		memcpy(smp->data, data, IB_SMP_DATA_LEN);
}

static enum ib_sma_verdict give(struct node *n, unsigned int port, struct ib_smp *smp)
{
	const struct ib_sma_in in = { .port = port, .from_wire = true, .slid = 9, .now_ns = NOW };
	uint8_t out = 99;
	enum ib_sma_verdict v = ib_sma_process(&n->sma, &in, smp, &out);

	assert_int_equal(out, IB_DR_PORT_BY_LID);
	return v;
}

/* A request by @port, LID routed; @d in and out. Return: the status of its response. */
static uint16_t ask(struct node *n, unsigned int port, uint8_t method, uint16_t attr, uint32_t mod,
		    uint8_t *d)
{
	struct ib_smp smp;

	smp_init(&smp, method, attr, mod, d);
	n->changes = 0;
	assert_int_equal(give(n, port, &smp), IB_SMA_REPLY);
	assert_int_equal(smp.hdr.method, IB_METHOD_GET_RESP);
	assert_int_equal(ib_be64(smp.hdr.tid), 77);
	memcpy(d, smp.data, IB_SMP_DATA_LEN);
	return ib_be16(smp.hdr.status);
}

static uint16_t get(struct node *n, unsigned int port, uint16_t attr, uint32_t mod, uint8_t *d)
{
	uint16_t status;

	memset(d, 0xa5, IB_SMP_DATA_LEN);
	status = ask(n, port, IB_METHOD_GET, attr, mod, d);
	assert_int_equal(n->changes, 0);
	return status;
}

static uint16_t set(struct node *n, unsigned int port, uint16_t attr, uint32_t mod, uint8_t *d)
{
	return ask(n, port, IB_METHOD_SET, attr, mod, d);
}

static void expect_changed(const struct node *n, unsigned int num, uint32_t what)
{
	assert_int_equal(n->changes, 1);
	assert_int_equal(n->changed_num, num);
	assert_int_equal(n->what, what);
}

/* ---- attributes ---- */

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

/* The driver names its node, and nobody else. */
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
	si.port_state_change = 1;			/* takes it back */
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
		assert_int_equal(n.changes, 0);		/* as it was */
		for (unsigned int block = 0; block < 2; block++) {
			for (unsigned int i = 0; i < 8; i++)
				ib_guid_block_put(d, i, 1000 + block * 8 + i);
			assert_int_equal(set(&n, 2, IB_SMP_ATTR_GUID_INFO, block, d), 0);
			expect_changed(&n, num, IB_SMA_CH_GUIDS);
			assert_int_equal(get(&n, 2, IB_SMP_ATTR_GUID_INFO, block, e), 0);
			assert_memory_equal(d, e, 64);
		}
		/* the first one is the hardware's */
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
		/* an HCA's is that of the port that was asked */
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
	/* 16 ports a position, and port 0 */
	n.sma.num_ports = 15;
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_MFT, 1u << 28, d), IB_MAD_BAD_FIELD);
	n.sma.num_ports = 16;
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_MFT, 1u << 28, d), 0);
	assert_int_equal(get(&n, 1, IB_SMP_ATTR_MFT, 2u << 28, d), IB_MAD_BAD_FIELD);
}

static uint16_t set_pi(struct node *n, unsigned int port, uint32_t mod, struct ib_port_info *pi)
{
	uint16_t status;
	uint8_t d[64];

	ib_port_info_pack(pi, d);
	status = set(n, port, IB_SMP_ATTR_PORT_INFO, mod, d);
	ib_port_info_unpack(d, pi);
	return status;
}

static uint16_t get_pi(struct node *n, unsigned int port, uint32_t mod, struct ib_port_info *pi)
{
	uint8_t d[64];
	uint16_t status = get(n, port, IB_SMP_ATTR_PORT_INFO, mod, d);

	ib_port_info_unpack(d, pi);
	return status;
}

/* What a manager sends: what it has read, with no change of state. */
static struct ib_port_info request(const struct node *n, unsigned int num)
{
	struct ib_port_info pi = n->port[num].pi;

	pi.state = IB_PS_NO_CHANGE;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	return pi;
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
		/* 0 is the port that was asked, or a switch's own */
		assert_int_equal(get_pi(&n, 2, 0, &pi), 0);
		assert_int_equal(pi.vl_high_limit, sw ? 10 : 12);
		assert_int_equal(pi.local_port, 2);
		assert_int_equal(get_pi(&n, 2, 0x7fffff00 | 1, &pi), 0);
		assert_int_equal(pi.vl_high_limit, 11);
		assert_int_equal(get_pi(&n, 2, 3, &pi), sw ? 0 : IB_MAD_BAD_FIELD);
		assert_int_equal(get_pi(&n, 2, 4, &pi), IB_MAD_BAD_FIELD);
	}
	/* what one knows of the data path is told to it */
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

	/* extended speeds belong to managers that know them */
	pi = request(&n, 2);
	pi.speed_ext_enabled = 1;
	assert_int_equal(set_pi(&n, 1, 2, &pi), 0);
	assert_int_equal(pi.speed_ext_enabled, 3);
	pi = request(&n, 2);
	pi.speed_ext_enabled = 1;
	assert_int_equal(set_pi(&n, 1, 1u << 31 | 2, &pi), 0);
	assert_int_equal(pi.speed_ext_enabled, 1);

	/* ClientReregister is in the answer to its Set */
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
	/* what is wrong is said, and the rest taken */
	pi = request(&n, 1);
	pi.sm_lid = 2;
	pi.mtu = 7;
	assert_int_equal(set_pi(&n, 1, 1, &pi), IB_MAD_BAD_FIELD);
	assert_int_equal(n.port[1].pi.sm_lid, 2);
	assert_int_equal(n.changes, 1);
}

/* What a Set does to the link is shown as done, and due until the owner has done it. */
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
	/* for the next Set, that is the state: Down to Armed is none of its */
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

/* ---- M_Keys ---- */

static enum ib_sma_verdict with_key(struct node *n, unsigned int port, uint8_t method,
				    uint16_t attr, uint32_t mod, uint64_t key)
{
	struct ib_smp smp;
	uint8_t d[64];

	memset(d, 0, sizeof(d));
	if (attr == IB_SMP_ATTR_PORT_INFO) {
		struct ib_port_info pi = request(n, mod ? mod : n->sma.si ? 0 : port);

		ib_port_info_pack(&pi, d);
	}
	smp_init(&smp, method, attr, mod, d);
	smp.mkey = ib_to_be64(key);
	return give(n, port, &smp);
}

static void mkeys(void **st)
{
	struct ib_port_info pi;
	struct ib_notice notice;
	struct ib_smp smp;
	struct port *p;
	struct node n;
	uint8_t out;

	(void)st;
	node_init(&n, false);
	p = &n.port[1];
	pi = request(&n, 1);
	p->end.lease_ns = 5;
	pi.mkey = 0xabc;
	pi.mkey_prot = 1;
	pi.mkey_lease = 60;
	pi.lid = 7;
	pi.sm_lid = 8;
	assert_int_equal(set_pi(&n, 1, 0, &pi), 0);
	assert_int_equal(p->end.lease_ns, UINT64_MAX);
	p->pi.state = IB_PS_ACTIVE;

	/* reading is allowed, and the key not shown; with it, it is */
	assert_int_equal(get_pi(&n, 1, 0, &pi), 0);
	assert_int_equal(pi.mkey, 0);
	smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 0, NULL);
	smp.mkey = ib_to_be64(0xabc);
	assert_int_equal(give(&n, 1, &smp), IB_SMA_REPLY);
	assert_int_equal(ib_be64(smp.mkey), 0);
	ib_port_info_unpack(smp.data, &pi);
	assert_int_equal(pi.mkey, 0xabc);

	/* writing is not: a count that sticks, the lease, a trap */
	p->pi.mkey_violations = 0xfffe;
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(with_key(&n, 1, IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 0x1234, 5),
				 IB_SMA_DISCARD);
		assert_int_equal(p->pi.mkey_violations, 0xffff);
	}
	assert_int_equal(p->end.lease_ns, NOW + 60000000000ull);
	assert_int_equal(n.traps, 0);
	ib_sma_timer(&n.sma, NOW);
	assert_int_equal(n.traps, 1);
	assert_int_equal(n.trap_num, 1);
	assert_int_equal(ib_be64(n.trap.hdr.tid), 2000);
	assert_int_equal(ib_be64(n.trap.mkey), 0xabc);
	ib_notice_unpack(n.trap.data, &notice);
	assert_int_equal(notice.generic, 1);
	assert_int_equal(notice.type, IB_NOTICE_SECURITY);
	assert_int_equal(notice.producer, IB_NODE_CHANNEL_ADAPTER);
	assert_int_equal(notice.trap, IB_TRAP_BAD_MKEY);
	assert_int_equal(notice.issuer_lid, 7);
	assert_int_equal(ib_get_be16(notice.details + 2), 9);
	assert_int_equal(notice.details[6], IB_METHOD_SET);
	assert_int_equal(ib_get_be16(notice.details + 8), IB_SMP_ATTR_SL2VL);
	assert_int_equal(ib_get_be32(notice.details + 10), 0x1234);
	assert_int_equal(ib_get_be64(notice.details + 14), 5);
	/* the key stops the lease; what needs none does not */
	assert_int_equal(get_pi(&n, 1, 0, &pi), 0);
	assert_int_equal(p->end.lease_ns, NOW + 60000000000ull);
	assert_int_equal(with_key(&n, 1, IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 0, 0xabc), IB_SMA_REPLY);
	assert_int_equal(p->end.lease_ns, UINT64_MAX);

	/* only the driver may do without, and only to read */
	p->pi.mkey_prot = 2;
	for (unsigned int i = 0; i < 8; i++) {
		const struct ib_sma_in in = { .port = 1, .from_wire = i & 1, .ignore_mkey = i & 2 };

		smp_init(&smp, i & 4 ? IB_METHOD_GET : IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 0, NULL);
		assert_int_equal(ib_sma_process(&n.sma, &in, &smp, &out),
				 i == 6 ? IB_SMA_REPLY : IB_SMA_DISCARD);
	}
	/* no lease, none runs */
	p->pi.mkey_lease = 0;
	p->end.lease_ns = UINT64_MAX;
	assert_int_equal(with_key(&n, 1, IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 0, 5), IB_SMA_DISCARD);
	assert_int_equal(p->end.lease_ns, UINT64_MAX);
}

/* PortInfo of an HCA's other port wants the keys of both; what else is asked, and a switch, one. */
static void mkeys_of_two(void **st)
{
	struct node n;

	(void)st;
	node_init(&n, false);
	n.port[2].pi.mkey = 0xdef;
	n.port[2].pi.mkey_prot = 2;
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 1, 0), IB_SMA_REPLY);
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PKEY_TABLE, 2, 0),
			 IB_SMA_REPLY);
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2, 0),
			 IB_SMA_DISCARD);
	assert_int_equal(n.port[1].pi.mkey_violations, 0);
	assert_int_equal(n.port[2].pi.mkey_violations, 1);
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2, 0xdef),
			 IB_SMA_REPLY);
	assert_int_equal(with_key(&n, 2, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 1, 0),
			 IB_SMA_DISCARD);
	node_init(&n, true);
	n.port[2].pi.mkey = 0xdef;
	n.port[2].pi.mkey_prot = 2;
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2, 0), IB_SMA_REPLY);
	n.port[0].pi.mkey = 0xdef;
	n.port[0].pi.mkey_prot = 2;
	assert_int_equal(with_key(&n, 1, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2, 0),
			 IB_SMA_DISCARD);
}

/* ---- SMPs ---- */

static enum ib_sma_verdict verdict(struct node *n, uint8_t method, uint16_t attr)
{
	struct ib_smp smp;

	smp_init(&smp, method, attr, 0, NULL);
	return give(n, 1, &smp);
}

static void methods(void **st)
{
	static const uint8_t manager[] = {
		IB_METHOD_SEND, IB_METHOD_GET_RESP, IB_METHOD_TRAP, IB_METHOD_REPORT,
	};

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		struct ib_smp smp;
		struct node n;
		uint8_t d[64];

		node_init(&n, sw);
		for (unsigned int i = 0; i < IB_ARRAY_SIZE(manager); i++)
			assert_int_equal(verdict(&n, manager[i], IB_SMP_ATTR_NODE_INFO),
					 IB_SMA_UNHANDLED);
		assert_int_equal(verdict(&n, IB_METHOD_TRAP_REPRESS, IB_SMP_ATTR_NOTICE),
				 IB_SMA_CONSUMED);
		memset(d, 0, sizeof(d));
		assert_int_equal(ask(&n, 1, 0x15, IB_SMP_ATTR_NODE_INFO, 0, d), IB_MAD_BAD_METHOD);
		assert_int_equal(get(&n, 1, 0x1ff, 0, d), IB_MAD_BAD_METHOD_ATTR);
		/* what is a subnet manager's, where there is one */
		assert_int_equal(get(&n, 1, IB_SMP_ATTR_SM_INFO, 0, d), IB_MAD_BAD_METHOD_ATTR);
		n.port[sw ? 0 : 1].pi.cap_mask |= IB_CAP_SM;
		assert_int_equal(verdict(&n, IB_METHOD_GET, IB_SMP_ATTR_SM_INFO), IB_SMA_UNHANDLED);

		for (unsigned int i = 0; i < 2; i++) {
			smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL);
			smp.hdr.base_version = i ? 1 : 2;
			smp.hdr.class_version = i ? 2 : 1;
			assert_int_equal(give(&n, 1, &smp), IB_SMA_REPLY);
			assert_int_equal(ib_be16(smp.hdr.status), IB_MAD_BAD_VERSION);
		}
		smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL);
		smp.hdr.mgmt_class = IB_CLASS_PERF;
		assert_int_equal(give(&n, 1, &smp), IB_SMA_UNHANDLED);
	}
}

static void unclaimed(void **st)
{
	static const struct {
		uint8_t method;
		bool answered;
	} m[] = {
		{ IB_METHOD_GET, true }, { IB_METHOD_SET, true }, { IB_METHOD_TRAP, false },
		{ IB_METHOD_GET_RESP, false }, { IB_METHOD_SEND, false },
	};
	const struct ib_sma_in in = { .port = 1, .from_wire = true };
	struct ib_smp smp;
	struct node n;
	uint8_t out;

	(void)st;
	node_init(&n, false);
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(m); i++) {
		smp_init(&smp, m[i].method, IB_SMP_ATTR_SM_INFO, 0, NULL);
		assert_int_equal(ib_sma_unclaimed(&n.sma, &in, &smp, &out),
				 m[i].answered ? IB_SMA_REPLY : IB_SMA_DISCARD);
		if (m[i].answered)
			assert_int_equal(ib_be16(smp.hdr.status), IB_MAD_BAD_METHOD_ATTR);
	}
	/* that is for another, or for nobody */
	smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_SM_INFO, 0, NULL);
	smp.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	ib_smp_set_hops(&smp, 1, 2);
	assert_int_equal(ib_sma_unclaimed(&n.sma, &in, &smp, &out), IB_SMA_DISCARD);
}

static enum ib_sma_verdict route(struct node *n, bool from_wire, uint8_t ptr, uint8_t cnt,
				 bool returning, uint8_t *out)
{
	const struct ib_sma_in in = { .port = 2, .from_wire = from_wire };
	struct ib_smp smp;

	smp_init(&smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL);
	smp.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	smp.dr_slid = smp.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	smp.init_path[1] = smp.init_path[2] = smp.ret_path[1] = 1;
	smp.init_path[3] = 4;
	if (returning)
		smp.hdr.status = ib_to_be16(IB_SMP_DIRECTION);
	ib_smp_set_hops(&smp, ptr, cnt);
	return ib_sma_process(&n->sma, &in, &smp, out);
}

static void routes(void **st)
{
	struct node n;
	uint8_t out;

	(void)st;
	for (unsigned int sw = 0; sw < 2; sw++) {
		node_init(&n, sw);
		/* ends here, and the answer leaves by where it came from */
		assert_int_equal(route(&n, true, 1, 1, false, &out), IB_SMA_REPLY);
		assert_int_equal(out, 2);
		/* without hops, too */
		assert_int_equal(route(&n, true, 0, 0, false, &out), IB_SMA_REPLY);
		assert_int_equal(out, 2);
		/* goes on; a request does not return, and nothing comes from beyond its end */
		assert_int_equal(route(&n, true, 1, 2, false, &out),
				 sw ? IB_SMA_FORWARD : IB_SMA_DISCARD);
		if (sw)
			assert_int_equal(out, 1);
		assert_int_equal(route(&n, true, 2, 3, false, &out), IB_SMA_DISCARD);
		assert_int_equal(route(&n, true, 0, 1, false, &out), IB_SMA_DISCARD);
		assert_int_equal(route(&n, true, 1, 1, true, &out), IB_SMA_DISCARD);
		/* the driver has followed its route itself */
		assert_int_equal(route(&n, false, 1, 2, false, &out), IB_SMA_REPLY);
		assert_int_equal(out, IB_DR_PORT_BY_LID);
	}
}

/* ---- traps and time ---- */

static void traps(void **st)
{
	struct ib_notice notice;
	uint8_t details[54], d[64];

	(void)st;
	for (unsigned int i = 0; i < sizeof(details); i++)
		details[i] = (uint8_t)i;
	for (unsigned int sw = 0; sw < 2; sw++) {
		unsigned int num = sw ? 0 : 2;
		const uint64_t timeout = ib_time_ns(19);
		struct port *p;
		struct ib_smp smp;
		struct node n;

		node_init(&n, sw);
		p = &n.port[num];
		p->pi.subnet_timeout = 19;
		p->pi.lid = 7;
		p->pi.sm_lid = 8;
		p->pi.state = IB_PS_ARMED;
		assert_int_equal(ib_sma_deadline(&n.sma), UINT64_MAX);
		assert_int_equal(get(&n, 2, IB_SMP_ATTR_NOTICE, 0, d), 0);
		ib_notice_unpack(d, &notice);
		assert_int_equal(notice.type, IB_NOTICE_EMPTY);
		/* neither before Active nor without a manager */
		assert_false(ib_sma_trap(&n.sma, num, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE,
					 details, NOW));
		p->pi.state = IB_PS_ACTIVE;
		p->pi.sm_lid = 0;
		assert_false(ib_sma_trap(&n.sma, num, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE,
					 details, NOW));
		p->pi.sm_lid = 8;
		assert_true(ib_sma_trap(&n.sma, num, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE,
					details, NOW));
		assert_int_equal(ib_sma_deadline(&n.sma), NOW);
		ib_sma_timer(&n.sma, NOW - 1);
		assert_int_equal(n.traps, 0);
		ib_sma_timer(&n.sma, NOW);
		assert_int_equal(n.traps, 1);
		assert_int_equal(n.trap_num, num);
		assert_int_equal(n.trap.hdr.base_version, IB_MAD_BASE_VERSION);
		assert_int_equal(n.trap.hdr.class_version, IB_SMP_CLASS_VERSION);
		assert_int_equal(n.trap.hdr.mgmt_class, IB_CLASS_SUBN_LID);
		assert_int_equal(n.trap.hdr.method, IB_METHOD_TRAP);
		assert_int_equal(n.trap.hdr.status, 0);
		assert_int_equal(ib_be16(n.trap.hdr.attr_id), IB_SMP_ATTR_NOTICE);
		assert_int_equal(n.trap.ret_path[63], 0);
		ib_notice_unpack(n.trap.data, &notice);
		assert_int_equal(notice.generic, 1);
		assert_int_equal(notice.type, IB_NOTICE_URGENT);
		assert_int_equal(notice.producer, sw ? 2 : 1);
		assert_int_equal(notice.trap, IB_TRAP_LINK_STATE_CHANGE);
		assert_int_equal(notice.issuer_lid, 7);
		assert_memory_equal(notice.details, details, 54);
		assert_int_equal(ib_sma_deadline(&n.sma), NOW + timeout);
		/* Get shows it, and Set takes it back; so does TrapRepress */
		for (unsigned int i = 0; i < 2; i++) {
			assert_int_equal(get(&n, 2, IB_SMP_ATTR_NOTICE, 0, d), 0);
			ib_notice_unpack(d, &notice);
			assert_int_equal(notice.trap, IB_TRAP_LINK_STATE_CHANGE);
			assert_int_equal(notice.issuer_lid, 7);
			if (i) {
				assert_int_equal(set(&n, 2, IB_SMP_ATTR_NOTICE, 0, d), 0);
			} else {
				smp = n.trap;
				smp.hdr.method = IB_METHOD_TRAP_REPRESS;
				assert_int_equal(give(&n, 2, &smp), IB_SMA_CONSUMED);
			}
			assert_int_equal(p->end.traps.repressed, i + 1);
			assert_int_equal(ib_sma_deadline(&n.sma), UINT64_MAX);
			ib_sma_trap(&n.sma, num, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE,
				    details, NOW);
		}
	}
}

/* A lease that runs out takes the protection with it, of that port. */
static void leases(void **st)
{
	struct node n;

	(void)st;
	node_init(&n, false);
	for (unsigned int i = 1; i <= 2; i++) {
		n.port[i].pi.mkey = 1;
		n.port[i].pi.mkey_prot = 1;
		n.port[i].end.lease_ns = NOW + i;
	}
	for (unsigned int i = 1; i <= 2; i++) {
		assert_int_equal(ib_sma_deadline(&n.sma), NOW + i);
		ib_sma_timer(&n.sma, NOW + i - 1);
		assert_int_equal(n.port[i].pi.mkey_prot, 1);
		ib_sma_timer(&n.sma, NOW + i);
		assert_int_equal(n.port[i].pi.mkey_prot, 0);
		assert_int_equal(n.port[i].pi.mkey, 1);
		assert_int_equal(n.port[i].end.lease_ns, UINT64_MAX);
	}
	assert_int_equal(ib_sma_deadline(&n.sma), UINT64_MAX);
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
		cmocka_unit_test(forwarding),
		cmocka_unit_test(port_info),
		cmocka_unit_test(link_due),
		cmocka_unit_test(mkeys),
		cmocka_unit_test(mkeys_of_two),
		cmocka_unit_test(methods),
		cmocka_unit_test(unclaimed),
		cmocka_unit_test(routes),
		cmocka_unit_test(traps),
		cmocka_unit_test(leases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
