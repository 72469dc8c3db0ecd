/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A node with a subnet management agent: an HCA with two ports, or a switch with three. */
#ifndef TESTS_IB_NODE_H
#define TESTS_IB_NODE_H

#include "cm.h"

#include "ib/packet.h"
#include "ib/rate.h"
#include "ib/sma.h"

#define PORTS	4u	/* including a switch's port 0; an HCA has ports 1 and 2 */
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
	struct ib_sl2vl sl2vl[PORTS + 1][PORTS + 1];	/* the last entry stands for all ports */
	uint8_t lft[2 * IB_LFT_PER_BLOCK];
	uint16_t mft[2 * IB_MFT_PER_BLOCK][2];
	char desc[IB_SMP_DATA_LEN];
	unsigned int changes, changed_num;
	uint32_t what;
	unsigned int traps, trap_num;
	struct ib_smp trap;
	uint64_t named_ns;
};

static inline void op_port(void *ctx, unsigned int num, struct ib_sma_port *p)
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

static inline struct ib_sl2vl *op_sl2vl(void *ctx, unsigned int in, unsigned int out)
{
	return &((struct node *)ctx)->sl2vl[in == IB_SMA_ALL_PORTS ? PORTS : in]
					   [out == IB_SMA_ALL_PORTS ? PORTS : out];
}

static inline void op_changed(void *ctx, unsigned int num, uint32_t what)
{
	struct node *n = ctx;

	n->changes++;
	n->changed_num = num;
	n->what = what;
}

static inline void op_send_trap(void *ctx, unsigned int num, const struct ib_smp *trap)
{
	struct node *n = ctx;

	n->traps++;
	n->trap_num = num;
	n->trap = *trap;
}

static inline void op_set_node_desc(void *ctx, const char desc[IB_SMP_DATA_LEN], uint64_t now_ns)
{
	struct node *n = ctx;

	memcpy(n->desc, desc, IB_SMP_DATA_LEN);
	n->named_ns = now_ns;
}

static inline uint8_t *op_lft(void *ctx, unsigned int block)
{
	return &((struct node *)ctx)->lft[block * IB_LFT_PER_BLOCK];
}

static inline uint16_t *op_mft(void *ctx, unsigned int entry, unsigned int pos)
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

static inline void node_init(struct node *n, bool is_switch)
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

static inline void smp_init(struct ib_smp *smp, uint8_t method, uint16_t attr, uint32_t mod,
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

static inline enum ib_sma_verdict give(struct node *n, unsigned int port, struct ib_smp *smp)
{
	const struct ib_sma_in in = { .port = port, .from_wire = true, .slid = 9, .now_ns = NOW };
	uint8_t out = 99;
	enum ib_sma_verdict v = ib_sma_process(&n->sma, &in, smp, &out);

	assert_int_equal(out, IB_DR_PORT_BY_LID);
	return v;
}

/* Sends a request to @port, LID routed; @d in and out. Return: the status of the response. */
static inline uint16_t ask(struct node *n, unsigned int port, uint8_t method, uint16_t attr, uint32_t mod,
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

static inline uint16_t get(struct node *n, unsigned int port, uint16_t attr, uint32_t mod, uint8_t *d)
{
	uint16_t status;

	memset(d, 0xa5, IB_SMP_DATA_LEN);
	status = ask(n, port, IB_METHOD_GET, attr, mod, d);
	assert_int_equal(n->changes, 0);
	return status;
}

static inline uint16_t set(struct node *n, unsigned int port, uint16_t attr, uint32_t mod, uint8_t *d)
{
	return ask(n, port, IB_METHOD_SET, attr, mod, d);
}

static inline void expect_changed(const struct node *n, unsigned int num, uint32_t what)
{
	assert_int_equal(n->changes, 1);
	assert_int_equal(n->changed_num, num);
	assert_int_equal(n->what, what);
}

static inline uint16_t set_pi(struct node *n, unsigned int port, uint32_t mod, struct ib_port_info *pi)
{
	uint16_t status;
	uint8_t d[64];

	ib_port_info_pack(pi, d);
	status = set(n, port, IB_SMP_ATTR_PORT_INFO, mod, d);
	ib_port_info_unpack(d, pi);
	return status;
}

static inline uint16_t get_pi(struct node *n, unsigned int port, uint32_t mod, struct ib_port_info *pi)
{
	uint8_t d[64];
	uint16_t status = get(n, port, IB_SMP_ATTR_PORT_INFO, mod, d);

	ib_port_info_unpack(d, pi);
	return status;
}

/* The Set of a manager: the PortInfo that it has read, without a change of state. */
static inline struct ib_port_info request(const struct node *n, unsigned int num)
{
	struct ib_port_info pi = n->port[num].pi;

	pi.state = IB_PS_NO_CHANGE;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	return pi;
}

#endif
