/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The HCA's SMA, with requests of a subnet manager, a driver and an attacker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/management/sma.h"
#include "ib/packet.h"
#include "ib/rate.h"

#define SEC 1000000000ull

static struct ohca_sma sma;
static uint64_t now;

/* Calls since clear_log(). */
static struct {
	unsigned int ev[8], changed, traps;
	int link;			/* the last action; -1: none */
	uint16_t dlid;
	struct ib_smp trap;
} lg;

static void clear_log(void)
{
	memset(&lg, 0, sizeof(lg));
	lg.link = -1;
}

static void on_event(void *ctx, unsigned int port, enum ohca_sma_event ev)
{
	assert_ptr_equal(ctx, &lg);
	assert_true(port < 2);
	lg.ev[ev]++;
}

static void on_changed(void *ctx, unsigned int port)
{
	(void)ctx, (void)port;
	lg.changed++;
}

static void on_trap(void *ctx, unsigned int port, uint16_t dlid, uint8_t sl, const uint8_t *mad)
{
	(void)ctx, (void)port, (void)sl;
	lg.traps++;
	lg.dlid = dlid;
	memcpy(&lg.trap, mad, sizeof(lg.trap));
}

static void on_link(void *ctx, unsigned int port, enum ohca_sma_link act)
{
	(void)ctx, (void)port;
	lg.link = (int)act;
}

static const struct ohca_sma_ops ops = { on_event, on_changed, on_trap, on_link };

static const struct ohca_sma_cfg cfg = {
	.sys_guid = 0x1000, .node_guid = 0x1000, .port_guid = { 0x1001, 0x1002 },
	.vendor_id = 0x1234, .device_id = 0xca0, .revision = 1, .num_ports = 2,
	.width = 3, .speed = 7, .speed_ext = 3, .mtu_cap = 5, .vl_cap = 4,
	.node_desc = "test node",
};

static int setup(void **st)
{
	(void)st;
	now = 100 * SEC;
	ohca_sma_init(&sma, &cfg, &ops, &lg);
	clear_log();
	return 0;
}

/* The driver hands in a LID routed SMP. */
static struct ib_smp smp(uint8_t method, uint16_t attr, uint32_t mod)
{
	struct ib_smp s;

	memset(&s, 0, sizeof(s));
	s.hdr.base_version = 1;
	s.hdr.mgmt_class = IB_CLASS_SUBN_LID;
	s.hdr.class_version = 1;
	s.hdr.method = method;
	s.hdr.tid = ib_to_be64(0xabc);
	s.hdr.attr_id = ib_to_be16(attr);
	s.hdr.attr_mod = ib_to_be32(mod);
	return s;
}

static enum ohca_sma_verdict run(struct ib_smp *s, unsigned int port, bool wire)
{
	struct ohca_sma_in in = { .port = port, .from_wire = wire, .slid = 7, .now_ns = now };

	return ohca_sma_process(&sma, &in, (const uint8_t *)s, (uint8_t *)s);
}

static uint16_t ask(struct ib_smp *s)
{
	assert_int_equal(run(s, 0, true), OHCA_SMA_REPLY);
	assert_int_equal(s->hdr.method, IB_METHOD_GET_RESP);
	assert_true(ib_be64(s->hdr.tid) == 0xabc && ib_be64(s->mkey) == 0);
	return ib_be16(s->hdr.status);
}

static uint16_t get(uint16_t attr, uint32_t mod, struct ib_smp *s)
{
	*s = smp(IB_METHOD_GET, attr, mod);
	return ask(s);
}

static struct ib_port_info get_pi(void)
{
	struct ib_port_info pi;
	struct ib_smp s;

	assert_int_equal(get(IB_SMP_ATTR_PORT_INFO, 0, &s), IB_MAD_OK);
	ib_port_info_unpack(s.data, &pi);
	return pi;
}

static uint16_t set_pi(const struct ib_port_info *pi, struct ib_port_info *back)
{
	struct ib_smp s = smp(IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, 0);
	uint16_t status;

	ib_port_info_pack(pi, s.data);
	s.mkey = ib_to_be64(sma.port[0].pi.mkey);
	status = ask(&s);
	if (back)
		ib_port_info_unpack(s.data, back);
	return status;
}

static void activate(void)
{
	struct ib_port_info pi;

	ohca_sma_link_up(&sma, 0, IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_EDR);
	pi = get_pi();
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_int_equal(pi.phys_state, IB_PHYS_LINK_UP);
	pi.state = pi.phys_state = 0;
	pi.lid = 4;
	pi.sm_lid = 1;
	assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
	pi.state = IB_PS_ARMED;
	assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
	pi.state = IB_PS_ACTIVE;
	assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
	assert_int_equal(get_pi().state, IB_PS_ACTIVE);
}

static void identity(void **st)
{
	struct ib_node_info ni;
	struct ib_smp s;

	(void)st;
	assert_int_equal(get(IB_SMP_ATTR_NODE_INFO, 0, &s), IB_MAD_OK);
	ib_node_info_unpack(s.data, &ni);
	assert_true(ni.node_type == 1 && ni.num_ports == 2 && ni.node_guid == 0x1000 &&
		    ni.port_guid == 0x1001 && ni.local_port == 1 && ni.device_id == 0xca0 &&
		    ni.vendor_id == 0x1234 && ni.partition_cap == 128);
	s = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);
	assert_int_equal(run(&s, 1, true), OHCA_SMA_REPLY);
	ib_node_info_unpack(s.data, &ni);
	assert_true(ni.port_guid == 0x1002 && ni.local_port == 2);
	assert_int_equal(get(IB_SMP_ATTR_NODE_DESC, 0, &s), IB_MAD_OK);
	assert_string_equal((char *)s.data, "test node");
}

static void to_active(void **st)
{
	struct ib_port_info pi, back;

	(void)st;
	assert_int_equal(get_pi().state, IB_PS_DOWN);
	activate();
	assert_int_equal(lg.ev[OHCA_SMA_EV_PORT_ACTIVE], 1);
	assert_int_equal(lg.ev[OHCA_SMA_EV_LID_CHANGE], 1);
	assert_int_equal(lg.ev[OHCA_SMA_EV_SM_CHANGE], 1);
	assert_int_equal(lg.ev[OHCA_SMA_EV_PORT_ERR], 0);
	assert_true(lg.changed >= 4);
	assert_true(sma.port[0].pi.lid == 4 && sma.port[1].pi.lid == 0);

	/* ClientReregister appears only in the response of its Set */
	pi = get_pi();
	pi.state = pi.phys_state = 0;
	pi.client_reregister = 1;
	assert_int_equal(set_pi(&pi, &back), IB_MAD_OK);
	assert_int_equal(back.client_reregister, 1);
	assert_int_equal(lg.ev[OHCA_SMA_EV_CLIENT_REREGISTER], 1);
	assert_int_equal(get_pi().client_reregister, 0);

	/* extended speeds need a manager that announces them (modifier bit 31) */
	for (uint32_t bit = 0; bit < 2; bit++) {
		struct ib_smp s = smp(IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, bit << 31);

		pi.client_reregister = 0;
		pi.speed_ext_enabled = IB_SPEED_EXT_FDR;
		ib_port_info_pack(&pi, s.data);
		assert_int_equal(ask(&s), IB_MAD_OK);
		assert_int_equal(get_pi().speed_ext_enabled, bit ? IB_SPEED_EXT_FDR : 3);
	}

	/* a bad component: the status reports it, and the rest of the response is right */
	pi.client_reregister = 0;
	pi.lid = 0xc123;
	assert_int_equal(set_pi(&pi, &back), IB_MAD_BAD_FIELD);
	assert_int_equal(back.lid, 4);

	ohca_sma_link_down(&sma, 0);
	assert_int_equal(lg.ev[OHCA_SMA_EV_PORT_ERR], 1);
	assert_int_equal(get_pi().state, IB_PS_DOWN);
	ohca_sma_link_down(&sma, 0);
	assert_int_equal(lg.ev[OHCA_SMA_EV_PORT_ERR], 1);
}

static void armed_by_data(void **st)
{
	struct ib_port_info pi;

	(void)st;
	ohca_sma_link_up(&sma, 0, 2, 4, 2);
	ohca_sma_rx_data(&sma, 0);
	assert_int_equal(get_pi().state, IB_PS_INIT);
	pi = get_pi();
	pi.phys_state = 0;
	pi.lid = 3;
	pi.sm_lid = 1;
	pi.state = IB_PS_ARMED;
	assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
	ohca_sma_rx_data(&sma, 0);
	assert_int_equal(get_pi().state, IB_PS_ACTIVE);
	assert_int_equal(lg.ev[OHCA_SMA_EV_PORT_ACTIVE], 1);
}

static void link_control(void **st)
{
	struct ib_port_info pi;

	(void)st;
	activate();
	pi = get_pi();
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_DISABLED;
	assert_int_equal(ohca_sma_deadline(&sma), UINT64_MAX);
	assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
	/*
	 * the response leaves first, and the link goes down then; the response shows the new
	 * settings
	 */
	assert_int_equal(lg.link, -1);
	assert_int_equal(sma.port[0].pi.state, IB_PS_ACTIVE);
	assert_int_equal(get_pi().state, IB_PS_DOWN);
	assert_int_equal(get_pi().phys_state, IB_PHYS_DISABLED);
	assert_int_equal(ohca_sma_deadline(&sma), 0);
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.link, OHCA_SMA_LINK_DISABLE);
	assert_int_equal(lg.ev[OHCA_SMA_EV_PORT_ERR], 1);
	pi = get_pi();
	assert_true(pi.state == IB_PS_DOWN && pi.phys_state == IB_PHYS_DISABLED);
	ohca_sma_link_down(&sma, 0);		/* the host confirms */
	assert_int_equal(get_pi().phys_state, IB_PHYS_DISABLED);
	pi.phys_state = IB_PHYS_POLLING;
	assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.link, OHCA_SMA_LINK_ENABLE);
	assert_int_equal(get_pi().phys_state, IB_PHYS_POLLING);
	activate();
	pi = get_pi();
	pi.state = IB_PS_DOWN;
	pi.phys_state = 0;
	assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.link, OHCA_SMA_LINK_BOUNCE);
	assert_int_equal(ohca_sma_deadline(&sma), UINT64_MAX);
}

/* A link that goes down is in LinkDownDefaultState, unless a Set names another state. */
static void down_default(void **st)
{
	static const struct {
		uint8_t asked, phys;
	} set[] = {
		{ IB_PHYS_NO_CHANGE, IB_PHYS_SLEEP },
		{ IB_PHYS_POLLING, IB_PHYS_POLLING },
		{ IB_PHYS_SLEEP, IB_PHYS_SLEEP },
		{ IB_PHYS_DISABLED, IB_PHYS_DISABLED },
	};
	struct ib_port_info pi;

	(void)st;
	for (unsigned int i = 0; i < sizeof(set) / sizeof(*set); i++) {
		activate();
		pi = get_pi();
		pi.state = IB_PS_DOWN;
		pi.phys_state = set[i].asked;
		pi.down_default = IB_PHYS_SLEEP;
		assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
		assert_int_equal(get_pi().phys_state, set[i].phys);
		ohca_sma_timer(&sma, now);
		assert_int_equal(get_pi().phys_state, set[i].phys);
		ohca_sma_link_down(&sma, 0);		/* the host confirms */
		assert_int_equal(get_pi().phys_state, set[i].phys);
	}
	/* without a Set, as when a cable is pulled */
	activate();
	ohca_sma_link_down(&sma, 0);
	assert_int_equal(get_pi().phys_state, IB_PHYS_SLEEP);
}

/* Two Sets, the second one before the link has done what the first one demands. */
static void link_control_twice(void **st)
{
	static const struct {
		uint8_t state, phys;
		uint16_t status;
		int link;
	} second[] = {
		{ IB_PS_DOWN, 0, IB_MAD_OK, OHCA_SMA_LINK_DISABLE },
		{ IB_PS_DOWN, IB_PHYS_POLLING, IB_MAD_OK, OHCA_SMA_LINK_BOUNCE },
		{ IB_PS_ACTIVE, 0, IB_MAD_BAD_FIELD, OHCA_SMA_LINK_DISABLE },
	};
	struct ib_port_info pi;

	(void)st;
	for (unsigned int i = 0; i < sizeof(second) / sizeof(*second); i++) {
		setup(NULL);
		activate();
		lg.ev[OHCA_SMA_EV_PORT_ACTIVE] = 0;
		pi = get_pi();
		pi.state = IB_PS_DOWN;
		pi.phys_state = IB_PHYS_DISABLED;
		assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
		pi.state = second[i].state;
		pi.phys_state = second[i].phys;
		assert_int_equal(set_pi(&pi, NULL), second[i].status);
		assert_int_equal(sma.port[0].pi.state, IB_PS_ACTIVE);
		ohca_sma_timer(&sma, now);
		assert_int_equal(lg.link, second[i].link);
		assert_int_equal(lg.ev[OHCA_SMA_EV_PORT_ACTIVE], 0);
	}
}

static void pkeys(void **st)
{
	struct ib_smp s;

	(void)st;
	assert_int_equal(get(IB_SMP_ATTR_PKEY_TABLE, 0, &s), IB_MAD_OK);
	assert_int_equal(ib_pkey_block_get(s.data, 0), 0xffff);
	assert_int_equal(ib_pkey_block_get(s.data, 1), 0);
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, 3);
	ib_pkey_block_put(s.data, 31, 0x8123);
	assert_int_equal(ask(&s), IB_MAD_OK);
	assert_int_equal(sma.port[0].pkey[127], 0x8123);
	assert_int_equal(sma.port[1].pkey[127], 0);
	assert_int_equal(lg.ev[OHCA_SMA_EV_PKEY_CHANGE], 1);
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, 3);
	ib_pkey_block_put(s.data, 31, 0x8123);
	assert_int_equal(ask(&s), IB_MAD_OK);
	assert_int_equal(lg.ev[OHCA_SMA_EV_PKEY_CHANGE], 1);
	assert_int_equal(get(IB_SMP_ATTR_PKEY_TABLE, 4, &s), IB_MAD_BAD_FIELD);
	assert_int_equal(get(IB_SMP_ATTR_PKEY_TABLE, 0xffff, &s), IB_MAD_BAD_FIELD);
}

static void guids(void **st)
{
	struct ib_smp s;

	(void)st;
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_GUID_INFO, 0);
	ib_guid_block_put(s.data, 0, 0xbad);
	ib_guid_block_put(s.data, 1, 0x2001);
	assert_int_equal(ask(&s), IB_MAD_OK);
	assert_true(ib_guid_block_get(s.data, 0) == 0x1001);
	assert_true(ib_guid_block_get(s.data, 1) == 0x2001);
	assert_true(sma.port[0].guid[0] == 0x1001 && sma.port[0].guid[1] == 0x2001);
	assert_int_equal(lg.ev[OHCA_SMA_EV_GID_CHANGE], 1);
	assert_int_equal(get(IB_SMP_ATTR_GUID_INFO, 31, &s), IB_MAD_OK);
	assert_int_equal(get(IB_SMP_ATTR_GUID_INFO, 32, &s), IB_MAD_BAD_FIELD);
	assert_int_equal(get(IB_SMP_ATTR_GUID_INFO, 0x20000000, &s), IB_MAD_BAD_FIELD);
}

static void qos(void **st)
{
	struct ib_smp s;

	(void)st;
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_SL2VL, 0);
	s.data[0] = 0x12;
	assert_int_equal(ask(&s), IB_MAD_OK);
	assert_true(sma.port[0].sl2vl.vl[0] == 1 && sma.port[0].sl2vl.vl[1] == 2);
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_VLARB, 4 << 16);
	s.data[0] = 3;
	s.data[1] = 99;
	assert_int_equal(ask(&s), IB_MAD_OK);
	assert_int_equal(sma.port[0].arb.t[IB_VLARB_HIGH].e[32].weight, 99);
	assert_int_equal(get(IB_SMP_ATTR_VLARB, 4 << 16, &s), IB_MAD_OK);
	assert_true(s.data[0] == 3 && s.data[1] == 99);
	assert_int_equal(get(IB_SMP_ATTR_VLARB, 0, &s), IB_MAD_BAD_FIELD);
	assert_int_equal(get(IB_SMP_ATTR_VLARB, 5 << 16, &s), IB_MAD_BAD_FIELD);
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_VLARB, 1 << 16);
	s.data[0] = 15;
	s.data[1] = 1;
	assert_int_equal(ask(&s), IB_MAD_BAD_FIELD);
}

static void refusals(void **st)
{
	static const uint16_t unsupported[] = {
		IB_SMP_ATTR_SWITCH_INFO, IB_SMP_ATTR_LFT, IB_SMP_ATTR_RFT, IB_SMP_ATTR_MFT,
		IB_SMP_ATTR_SM_INFO, IB_SMP_ATTR_VENDOR_DIAG, IB_SMP_ATTR_LED_INFO,
		IB_SMP_ATTR_PORT_INFO_EXT, 0xff90, 0xffff,
	};
	struct ib_smp s;

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(unsupported); i++) {
		assert_int_equal(get(unsupported[i], 0, &s), IB_MAD_BAD_METHOD_ATTR);
		s = smp(IB_METHOD_SET, unsupported[i], 0);
		assert_int_equal(ask(&s), IB_MAD_BAD_METHOD_ATTR);
	}
	assert_int_equal(get(IB_SMP_ATTR_NODE_INFO, 1, &s), IB_MAD_BAD_FIELD);
	assert_int_equal(get(IB_SMP_ATTR_NODE_DESC, 1, &s), IB_MAD_BAD_FIELD);
	assert_int_equal(get(IB_SMP_ATTR_PORT_INFO, 3, &s), IB_MAD_BAD_FIELD);
	assert_int_equal(get(IB_SMP_ATTR_PORT_INFO, 2, &s), IB_MAD_OK);
	assert_int_equal(get(IB_SMP_ATTR_PORT_INFO, 0x80000001u, &s), IB_MAD_OK);
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_NODE_INFO, 0);
	assert_int_equal(ask(&s), IB_MAD_BAD_METHOD_ATTR);
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_NODE_DESC, 0);
	assert_int_equal(ask(&s), IB_MAD_BAD_METHOD_ATTR);
	s = smp(0x15, IB_SMP_ATTR_NODE_INFO, 0);
	assert_int_equal(ask(&s), IB_MAD_BAD_METHOD);
	s = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);
	s.hdr.class_version = 2;
	assert_int_equal(ask(&s), IB_MAD_BAD_VERSION);
	s = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);
	s.hdr.base_version = 0;
	assert_int_equal(ask(&s), IB_MAD_BAD_VERSION);
	/* there is no such port: an error of the engine, without effect */
	s = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);
	assert_int_equal(run(&s, 2, true), OHCA_SMA_CONSUMED);
}

static void for_software(void **st)
{
	static const uint8_t methods[] = {
		IB_METHOD_GET_RESP, IB_METHOD_TRAP, IB_METHOD_SEND, IB_METHOD_REPORT, 0x86,
	};
	struct ohca_sma_in in = { .from_wire = true };
	struct ib_smp s, t;

	(void)st;
	for (unsigned int i = 0; i < sizeof(methods); i++) {
		s = t = smp(methods[i], IB_SMP_ATTR_NOTICE, 0);
		assert_int_equal(run(&s, 0, true), OHCA_SMA_UNHANDLED);
		assert_memory_equal(&s, &t, sizeof(s));
		assert_int_equal(ohca_sma_unclaimed(&sma, &in, (uint8_t *)&s, (uint8_t *)&s),
				 OHCA_SMA_CONSUMED);
	}
	/* SMInfo belongs to a manager, if there is one */
	ohca_sma_modify_caps(&sma, 0, IB_CAP_SM, 0, now);
	s = t = smp(IB_METHOD_GET, IB_SMP_ATTR_SM_INFO, 0);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_UNHANDLED);
	assert_memory_equal(&s, &t, sizeof(s));
	assert_int_equal(run(&s, 1, true), OHCA_SMA_REPLY);
	/* no manager is there after all: still an answer */
	s = t;
	assert_int_equal(ohca_sma_unclaimed(&sma, &in, (uint8_t *)&s, (uint8_t *)&s),
			 OHCA_SMA_REPLY);
	assert_int_equal(ib_be16(s.hdr.status), IB_MAD_BAD_METHOD_ATTR);
	s.hdr.mgmt_class = IB_CLASS_CC;
	s.hdr.method = IB_METHOD_SET;
	assert_int_equal(run(&s, 0, true), OHCA_SMA_UNHANDLED);
	assert_int_equal(ohca_sma_unclaimed(&sma, &in, (uint8_t *)&s, (uint8_t *)&s),
			 OHCA_SMA_REPLY);
	assert_int_equal(s.hdr.method, IB_METHOD_GET_RESP);
}

static struct ib_smp dr(uint8_t ptr, uint8_t cnt)
{
	struct ib_smp s = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);

	s.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	s.dr_slid = s.dr_dlid = ib_to_be16(0xffff);
	ib_smp_set_hops(&s, ptr, cnt);
	return s;
}

static void directed(void **st)
{
	struct ib_smp s;

	(void)st;
	/* from the wire: the rules for hops apply */
	s = dr(2, 2);
	assert_int_equal(run(&s, 1, true), OHCA_SMA_REPLY);
	assert_int_equal(ib_be16(s.hdr.status), IB_SMP_DIRECTION);
	assert_int_equal(ib_smp_hop_ptr(&s), 2);
	assert_int_equal(s.ret_path[2], 2);
	/* one hop */
	s = dr(1, 1);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_REPLY);
	assert_int_equal(ib_smp_hop_ptr(&s), 1);
	assert_int_equal(s.ret_path[1], 1);
	/* no hops, over the wire */
	s = dr(0, 0);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_REPLY);
	/* its end is not here; malformed; a request on the return path */
	s = dr(1, 2);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_CONSUMED);
	s = dr(64, 64);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_CONSUMED);
	s = dr(1, 1);
	s.hdr.status = ib_to_be16(IB_SMP_DIRECTION);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_CONSUMED);
	/* and no manager answers those, either */
	for (int i = 0; i < 3; i++) {
		struct ohca_sma_in in = { .from_wire = true };

		s = i == 0 ? dr(1, 2) : i == 1 ? dr(64, 64) : dr(1, 1);
		if (i == 2)
			s.hdr.status = ib_to_be16(IB_SMP_DIRECTION);
		assert_int_equal(ohca_sma_unclaimed(&sma, &in, (uint8_t *)&s, (uint8_t *)&s),
				 OHCA_SMA_CONSUMED);
		s = dr(1, 1);
		assert_int_equal(ohca_sma_unclaimed(&sma, &in, (uint8_t *)&s, (uint8_t *)&s),
				 OHCA_SMA_REPLY);
		assert_int_equal(ib_smp_hop_ptr(&s), 1);
	}
	/* from the driver: the hops are done, and the pointer stays */
	s = dr(3, 2);
	assert_int_equal(run(&s, 0, false), OHCA_SMA_REPLY);
	assert_int_equal(ib_smp_hop_ptr(&s), 3);
	assert_int_equal(ib_be16(s.hdr.status), IB_SMP_DIRECTION);
	s = dr(0, 0);
	s.hdr.attr_id = ib_to_be16(0xff90);
	assert_int_equal(run(&s, 0, false), OHCA_SMA_REPLY);
	assert_int_equal(ib_be16(s.hdr.status), IB_SMP_DIRECTION | IB_MAD_BAD_METHOD_ATTR);
	/* a response is passed to the manager unchanged */
	s = dr(1, 2);
	s.hdr.method = IB_METHOD_GET_RESP;
	s.hdr.status = ib_to_be16(IB_SMP_DIRECTION);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_UNHANDLED);
	assert_int_equal(ib_smp_hop_ptr(&s), 1);
}

static void mkey(void **st)
{
	struct ib_port_info pi;
	struct ib_smp s;

	(void)st;
	activate();
	pi = get_pi();
	pi.state = pi.phys_state = 0;
	pi.mkey = 0x5555;
	pi.mkey_prot = 1;
	pi.mkey_lease = 10;
	assert_int_equal(set_pi(&pi, NULL), IB_MAD_OK);
	clear_log();

	/* protection 1: a Get without the key hides the key; a Set fails without an answer */
	assert_int_equal(get(IB_SMP_ATTR_PORT_INFO, 0, &s), IB_MAD_OK);
	ib_port_info_unpack(s.data, &pi);
	assert_true(pi.mkey == 0 && pi.mkey_prot == 1);
	s = smp(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 0);
	s.mkey = ib_to_be64(0x5555);
	assert_int_equal(ask(&s), IB_MAD_OK);
	ib_port_info_unpack(s.data, &pi);
	assert_true(pi.mkey == 0x5555);
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, 0);
	s.mkey = ib_to_be64(0x6666);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_CONSUMED);
	assert_int_equal(sma.port[0].pkey[0], 0xffff);
	assert_int_equal(sma.port[0].pi.mkey_violations, 1);
	/* trap 256 to the manager */
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.traps, 1);
	assert_int_equal(lg.dlid, 1);
	assert_int_equal(ib_get_be16(lg.trap.data + 4), IB_TRAP_BAD_MKEY);
	assert_true(ib_be64(lg.trap.mkey) == 0x5555);
	assert_int_equal(ib_get_be16(lg.trap.data + 12), 7);		/* the source LID */
	assert_true(ib_get_be64(lg.trap.data + 24) == 0x6666);

	/* the lease runs; the right key stops it, and otherwise the protection ends */
	assert_true(sma.port[0].end.lease_ns == now + 10 * SEC);
	s = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);
	s.mkey = ib_to_be64(0x5555);
	assert_int_equal(ask(&s), IB_MAD_OK);
	assert_true(sma.port[0].end.lease_ns == UINT64_MAX);
	s = smp(IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, 0);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_CONSUMED);
	ohca_sma_timer(&sma, now + 10 * SEC - 1);
	assert_int_equal(sma.port[0].pi.mkey_prot, 1);
	ohca_sma_timer(&sma, now + 10 * SEC);
	assert_int_equal(sma.port[0].pi.mkey_prot, 0);
	assert_true(get_pi().mkey == 0x5555);

	/* protection 2: not even a Get; the driver may ignore the key, the wire may not */
	sma.port[0].pi.mkey_prot = 2;
	s = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_CONSUMED);
	for (int wire = 0; wire < 2; wire++) {
		struct ohca_sma_in in = { .from_wire = wire, .ignore_mkey = true };

		s = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);
		assert_int_equal(ohca_sma_process(&sma, &in, (uint8_t *)&s, (uint8_t *)&s),
				 wire ? OHCA_SMA_CONSUMED : OHCA_SMA_REPLY);
		if (wire)
			continue;
		/* the driver does not see the key, with which it could change other ports */
		s = smp(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 0);
		assert_int_equal(ohca_sma_process(&sma, &in, (uint8_t *)&s, (uint8_t *)&s),
				 OHCA_SMA_REPLY);
		ib_port_info_unpack(s.data, &pi);
		assert_true(pi.mkey == 0 && pi.mkey_prot == 2 && pi.lid == 4);
		s = smp(IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE, 0);
		assert_int_equal(ohca_sma_process(&sma, &in, (uint8_t *)&s, (uint8_t *)&s),
				 OHCA_SMA_CONSUMED);
		assert_int_equal(sma.port[0].pkey[0], 0xffff);
	}
	/* PortInfo of the other port is protected by that port's key, too */
	sma.port[1].pi.mkey = 0x7777;
	sma.port[1].pi.mkey_prot = 3;
	s = smp(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 2);
	s.mkey = ib_to_be64(0x5555);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_CONSUMED);
	assert_int_equal(sma.port[1].pi.mkey_violations, 1);
	/* counters stay at their maximum */
	sma.port[1].pi.mkey_violations = 0xffff;
	s = smp(IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0);
	assert_int_equal(run(&s, 1, true), OHCA_SMA_CONSUMED);
	assert_int_equal(sma.port[1].pi.mkey_violations, 0xffff);
}

static void traps(void **st)
{
	struct ib_key_violation v = { .lid1 = 9, .lid2 = 4, .key = 0x8001 };
	struct ib_notice n;
	struct ib_smp s;
	uint64_t period, tid;

	(void)st;
	/* not Active: there is no manager */
	ohca_sma_modify_caps(&sma, 0, IB_CAP_SM, 0, now);
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.traps, 0);
	activate();
	ohca_sma_modify_caps(&sma, 0, 0, IB_CAP_SM, now);
	assert_true(ohca_sma_deadline(&sma) == now);
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.traps, 1);
	assert_int_equal(lg.trap.hdr.method, IB_METHOD_TRAP);
	tid = ib_be64(lg.trap.hdr.tid);
	ib_notice_unpack(lg.trap.data, &n);
	assert_true(n.trap == IB_TRAP_CAP_MASK_CHANGE && n.issuer_lid == 4 && n.producer == 1);
	assert_int_equal(ib_get_be32(n.details + 6) & IB_CAP_SM, 0);
	/*
	 * CapabilityMask shows what the HCA supports, and software cannot change the HCA's own bits
	 */
	assert_true(sma.port[0].pi.cap_mask & IB_CAP_AUTO_MIGR);
	ohca_sma_modify_caps(&sma, 0, 0, IB_CAP_AUTO_MIGR, now);
	assert_true(sma.port[0].pi.cap_mask & IB_CAP_AUTO_MIGR);
	ohca_sma_modify_caps(&sma, 0, 0, IB_CAP_TRAP, now);
	assert_true(sma.port[0].pi.cap_mask & IB_CAP_TRAP);

	/* repeats, same transaction, until repressed */
	period = ib_time_ns(sma.port[0].pi.subnet_timeout);
	if (period < IB_TRAP_MIN_PERIOD_NS)
		period = IB_TRAP_MIN_PERIOD_NS;
	now += period - 1;
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.traps, 1);
	now += 1;
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.traps, 2);
	assert_true(ib_be64(lg.trap.hdr.tid) == tid);
	/* Get(Notice) returns it */
	assert_int_equal(get(IB_SMP_ATTR_NOTICE, 0, &s), IB_MAD_OK);
	assert_memory_equal(s.data, lg.trap.data, 64);
	/* a TrapRepress for another trap has no effect */
	s = lg.trap;
	s.hdr.method = IB_METHOD_TRAP_REPRESS;
	ib_put_be16(s.data + 4, 145);
	assert_int_equal(run(&s, 0, true), OHCA_SMA_CONSUMED);
	assert_true(ohca_sma_deadline(&sma) != UINT64_MAX);
	s = lg.trap;
	s.hdr.method = IB_METHOD_TRAP_REPRESS;
	assert_int_equal(run(&s, 0, true), OHCA_SMA_CONSUMED);
	assert_true(ohca_sma_deadline(&sma) == UINT64_MAX);
	assert_int_equal(get(IB_SMP_ATTR_NOTICE, 0, &s), IB_MAD_OK);
	ib_notice_unpack(s.data, &n);
	assert_int_equal(n.type, IB_NOTICE_EMPTY);

	/* the same violation a thousand times is one trap; the number of kinds is bounded */
	clear_log();
	now += period;
	for (unsigned int i = 0; i < 1000; i++)
		ohca_sma_bad_pkey(&sma, 0, &v, now);
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.traps, 1);
	assert_int_equal(get_pi().pkey_violations, 1000);
	for (unsigned int i = 0; i < 100; i++) {
		v.qp1 = i;
		ohca_sma_bad_qkey(&sma, 0, &v, now);
	}
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.traps, 1);
	/* violations leave room for the node's own traps */
	assert_int_equal(sma.port[0].end.traps.dropped, 100 - (OHCA_TRAP_SECURITY - 1));
	for (unsigned int i = 0; i < 2; i++)
		ohca_sma_modify_caps(&sma, 0, i ? 0 : IB_CAP_SM, i ? IB_CAP_SM : 0, now);
	assert_int_equal(sma.port[0].end.traps.dropped, 100 - (OHCA_TRAP_SECURITY - 1));
	assert_int_equal(get_pi().qkey_violations, 100);
	ohca_sma_reset_qkey_violations(&sma, 0);
	assert_int_equal(get_pi().qkey_violations, 0);
	/* one by one, all of them; they end after their repeats even without a manager */
	for (unsigned int i = 0; i < 3 * OHCA_TRAP_SLOTS * IB_TRAP_MAX_REPEATS; i++) {
		now += period;
		ohca_sma_timer(&sma, now);
	}
	assert_true(ohca_sma_deadline(&sma) == UINT64_MAX);
	assert_int_equal(lg.traps, OHCA_TRAP_SLOTS * (IB_TRAP_MAX_REPEATS + 1));
	/* link down removes them */
	ohca_sma_bad_pkey(&sma, 0, &v, now);
	ohca_sma_link_down(&sma, 0);
	assert_true(ohca_sma_deadline(&sma) == UINT64_MAX);
}

/*
 * A peer that violates keys without pause, a driver that changes its capabilities as often, and a
 * manager that represses at once: no two traps of the port leave within SubnetTimeOut.
 */
static void trap_rate(void **st)
{
	struct ib_key_violation v = { .lid1 = 9, .lid2 = 4, .key = 0x8001 };
	uint64_t start, timeout;

	(void)st;
	activate();
	for (unsigned int code = 16; code <= 20; code += 2) {
		sma.port[0].pi.subnet_timeout = (uint8_t)code;
		timeout = ib_time_ns((uint8_t)code);
		now += ib_time_ns(20);
		start = now;
		clear_log();
		while (now < start + 4 * timeout) {
			unsigned int before = lg.traps;
			struct ib_smp s;

			v.qp1++;
			ohca_sma_bad_pkey(&sma, 0, &v, now);
			ohca_sma_bad_qkey(&sma, 0, &v, now);
			ohca_sma_modify_caps(&sma, 0, v.qp1 & 1 ? IB_CAP_SM : 0,
					     v.qp1 & 1 ? 0 : IB_CAP_SM, now);
			ohca_sma_timer(&sma, now);
			if (lg.traps != before && v.qp1 % 3) {
				s = lg.trap;
				s.hdr.method = IB_METHOD_TRAP_REPRESS;
				run(&s, 0, true);
			}
			/* and the deadline is the time of the next one */
			assert_true(ohca_sma_deadline(&sma) <= now + timeout);
			now += timeout / 100;
		}
		assert_true(lg.traps == 4 || lg.traps == 5);
	}
	/* a link that goes down and up causes no earlier one */
	clear_log();
	now += timeout;
	for (unsigned int i = 0; i < 50; i++) {
		ohca_sma_link_down(&sma, 0);
		activate();
		sma.port[0].pi.subnet_timeout = 20;
		ohca_sma_bad_pkey(&sma, 0, &v, now);
		ohca_sma_timer(&sma, now);
	}
	assert_int_equal(lg.traps, 1);
}

static void node_description(void **st)
{
	struct ib_smp s = smp(IB_METHOD_SET, IB_SMP_ATTR_NODE_DESC, 0);

	(void)st;
	activate();
	clear_log();
	memcpy(s.data, "renamed", 8);
	assert_int_equal(run(&s, 0, false), OHCA_SMA_REPLY);
	assert_string_equal(sma.cfg.node_desc, "renamed");
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.traps, 1);
	assert_int_equal(ib_get_be16(lg.trap.data + 10 + 10), IB_TRAP144_NODE_DESC);
	clear_log();
	ohca_sma_set_node_desc(&sma, sma.cfg.node_desc, now);
	ohca_sma_timer(&sma, now);
	assert_int_equal(lg.traps, 0);
}

/* Random MADs, most of them plausible: each gets a valid verdict, and all invariants hold. */
static void hostile(void **st)
{
	static const uint16_t attr[] = { 2, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x20 };

	(void)st;
	srand(5);
	for (unsigned int i = 0; i < 300000; i++) {
		struct ib_smp s;
		uint8_t *b = (uint8_t *)&s;

		for (size_t k = 0; k < sizeof(s); k++)
			b[k] = (uint8_t)(rand() >> 4);
		if (i & 15) {
			s.hdr.base_version = s.hdr.class_version = 1;
			s.hdr.mgmt_class = i & 1 ? IB_CLASS_SUBN_DR : IB_CLASS_SUBN_LID;
			s.hdr.method = (uint8_t)(1 + rand() % 8);
			s.hdr.attr_id = ib_to_be16(attr[(unsigned int)rand() % 10]);
			s.hdr.attr_mod = ib_to_be32((uint32_t)(rand() % 6) << (i & 2 ? 16 : 0));
			if (i & 4)
				s.mkey = ib_to_be64(sma.port[0].pi.mkey);
			ib_smp_set_hops(&s, (uint8_t)(rand() % 4), (uint8_t)(rand() % 4));
		}
		now += (uint64_t)(rand() % 100000000);
		run(&s, (unsigned int)rand() % 3, i & 8);
		if (i % 5 == 0)
			ohca_sma_timer(&sma, now);
		if (i % 97 == 0)
			ohca_sma_link_up(&sma, 0, 2, 4, 2);
		for (unsigned int p = 0; p < 2; p++) {
			const struct ib_port_info *pi = &sma.port[p].pi;

			assert_in_range(pi->state, IB_PS_DOWN, IB_PS_ACTIVE);
			assert_true(pi->lid == 0 || ib_lid_is_ucast(pi->lid));
			assert_in_range(pi->mtu, 1, pi->mtu_cap);
			assert_in_range(pi->op_vls, 1, pi->vl_cap);
			assert_true(sma.port[p].guid[0] == cfg.port_guid[p]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(identity, setup),
		cmocka_unit_test_setup(to_active, setup),
		cmocka_unit_test_setup(armed_by_data, setup),
		cmocka_unit_test_setup(link_control, setup),
		cmocka_unit_test_setup(link_control_twice, setup),
		cmocka_unit_test_setup(down_default, setup),
		cmocka_unit_test_setup(pkeys, setup),
		cmocka_unit_test_setup(guids, setup),
		cmocka_unit_test_setup(qos, setup),
		cmocka_unit_test_setup(refusals, setup),
		cmocka_unit_test_setup(for_software, setup),
		cmocka_unit_test_setup(directed, setup),
		cmocka_unit_test_setup(mkey, setup),
		cmocka_unit_test_setup(traps, setup),
		cmocka_unit_test_setup(trap_rate, setup),
		cmocka_unit_test_setup(node_description, setup),
		cmocka_unit_test_setup(hostile, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
