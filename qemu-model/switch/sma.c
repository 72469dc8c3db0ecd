// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The switch's side of its subnet management agent (ib/sma.h).
 */
#include "switch.h"

#define VENDOR_ID	0x525400u	/* as the HCA's: the OUI of QEMU/KVM */
#define DEVICE_ID	0x0ca8u

static void agent_port(void *ctx, unsigned int num, struct ib_sma_port *v)
{
	struct sw *sw = ctx;
	struct sw_port *p = &sw->port[num];

	*v = (struct ib_sma_port){
		.pi = &p->pi,
		.link_due = &p->pending_eff,
		.pkey = p->pkeys,
		.num_pkeys = SW_PKEYS,
		.arb = &p->arb,
	};
	if (num == 0) {
		v->guid = sw->guids;
		v->num_guids = SW_GUIDS;
		v->end = &sw->end;
	}
}

static struct ib_sl2vl *agent_sl2vl(void *ctx, unsigned int in, unsigned int out)
{
	return sw_sl2vl(ctx, in, out);
}

static void count_pkeys(struct sw_port *p)
{
	for (p->num_pkeys = SW_PKEYS; p->num_pkeys; p->num_pkeys--)
		if (p->pkeys[p->num_pkeys - 1] & IB_PKEY_BASE_MASK)
			break;
}

static void agent_changed(void *ctx, unsigned int num, uint32_t what)
{
	struct sw *sw = ctx;
	struct sw_port *p = &sw->port[num];

	sw->epoch++;
	if (what & IB_SMA_CH_PKEYS)
		count_pkeys(p);
	if (what & IB_SMA_CH_SL2VL)
		p->sl2vl_set = true;
	if (what & (IB_SMA_CH_PORT_INFO | IB_SMA_CH_VLARB))
		sw_port_changed(sw, p);
}

static void agent_send_trap(void *ctx, unsigned int num, const struct ib_smp *trap)
{
	(void)num;
	sw_send_trap(ctx, trap);
}

static uint8_t *agent_lft(void *ctx, unsigned int block)
{
	struct sw *sw = ctx;

	return sw->lft + block * IB_LFT_PER_BLOCK;
}

static uint16_t *agent_mft(void *ctx, unsigned int entry, unsigned int pos)
{
	struct sw *sw = ctx;

	return &sw->mft[entry][pos];
}

static const struct ib_sma_ops agent_ops = {
	.port = agent_port,
	.sl2vl = agent_sl2vl,
	.changed = agent_changed,
	.send_trap = agent_send_trap,
	.lft = agent_lft,
	.mft = agent_mft,
};

void sw_sma_init(struct sw *sw)
{
	static const struct ib_trap_room room = { .slots = SW_TRAPS, .security = 2, .each = 1 };

	ib_switch_info_init(&sw->si, SW_LFT_CAP, SW_MFT_CAP, SW_PKEYS, true);
	sw->guids[0] = sw->cfg.node_guid;
	ib_trap_init(&sw->end.traps, sw->trap, &room, 1);
	sw->end.lease_ns = UINT64_MAX;
	sw->sma = (struct ib_sma){
		.ops = &agent_ops,
		.ctx = sw,
		.sys_guid = sw->cfg.sys_guid,
		.node_guid = sw->cfg.node_guid,
		.vendor_id = VENDOR_ID,
		.revision = 1,
		.device_id = DEVICE_ID,
		.num_ports = (uint8_t)sw->nports,
		.type = IB_NODE_SWITCH_DEVICE,
		.desc = sw->cfg.desc,
		.si = &sw->si,
	};
}
