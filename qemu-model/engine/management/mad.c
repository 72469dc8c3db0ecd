/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine's side of the agents (ib/sma.h, ib/pma_agent.h, ib/cc_agent.h). It passes MADs from
 * the wire and from MAD_IFC to the agents, and turns their results into port state, events and
 * replies.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/port.h"
#include "engine/base/state.h"
#include "engine/management/mad.h"
#include "engine/management/sma.h"
#include "engine/object/eq.h"
#include "engine/object/qp.h"
#include "engine/transport/congestion.h"
#include "engine/transport/madq.h"
#include "engine/transport/sched.h"
#include "engine/transport/to_agents.h"
#include "engine/transport/tx.h"
#include "ib/cc_agent.h"
#include "ib/mad.h"
#include "ib/packet.h"
#include "ib/pma_agent.h"
#include "ib/rate.h"
#include "ib/smp.h"
#include "ib/vl.h"
#include "ohca_hw.h"

/**
 * struct ohca_mad - the agents
 * @sma: subnet management agent
 * @pma: performance management agent; @pma_port: its ports
 * @cc: congestion control agent of each port
 * @rate, @up: the host's last report of each link; links train only after ENABLE
 * @vl15_seen: the host's count of VL15 drops that VL15Dropped already includes
 */
struct ohca_mad {
	struct ohca_sma sma;
	struct ib_pma pma;
	struct ib_pma_port pma_port[OHCA_MAX_PORTS];
	struct ib_cc *cc[OHCA_MAX_PORTS];
	struct ohca_link_rate rate[OHCA_MAX_PORTS];
	bool up[OHCA_MAX_PORTS];
	uint64_t vl15_seen[OHCA_MAX_PORTS];
};

/* ---- requests of the SMA ---------------------------------------------------------- */

static void op_event(void *ctx, unsigned int port, enum ohca_sma_event ev)
{
	static const enum ohca_event map[] = {
		[OHCA_SMA_EV_PORT_ACTIVE] = OHCA_EVENT_PORT_ACTIVE,
		[OHCA_SMA_EV_PORT_ERR] = OHCA_EVENT_PORT_ERR,
		[OHCA_SMA_EV_LID_CHANGE] = OHCA_EVENT_LID_CHANGE,
		[OHCA_SMA_EV_PKEY_CHANGE] = OHCA_EVENT_PKEY_CHANGE,
		[OHCA_SMA_EV_SM_CHANGE] = OHCA_EVENT_SM_CHANGE,
		[OHCA_SMA_EV_CLIENT_REREGISTER] = OHCA_EVENT_CLIENT_REREGISTER,
		[OHCA_SMA_EV_GID_CHANGE] = OHCA_EVENT_GID_CHANGE,
	};
	ohca_engine *e = ctx;

	ohca_async_event(e, map[ev], &e->port[port].async);
}

/* Report the enabled width and speeds to the host. */
static void link_rate(ohca_engine *e, unsigned int port)
{
	const struct ib_port_info *pi = &e->mad->sma.port[port].pi;
	struct ohca_link_rate rate = {
		.width = pi->width_enabled,
		.speed = pi->speed_enabled,
		.speed_ext = pi->speed_ext_enabled == IB_SPEED_EXT_DISABLE ?
			     0 : pi->speed_ext_enabled,
	};

	e->ops.link_rate(e->h, port, &rate);
}

/* Refresh the data path's copy of the port, without a call of the transport. */
static void port_copy(ohca_engine *e, unsigned int port)
{
	const struct ohca_sma_port *s = &e->mad->sma.port[port];
	struct ohca_port *p = &e->port[port];
	unsigned int gids = OHCA_MAX_GIDS, old_gids = p->num_gids;

	p->state = s->pi.state;
	p->link_up = s->pi.state != IB_PS_DOWN;
	p->lid = s->pi.lid;
	p->lmc = s->pi.lmc;
	p->mtu = s->pi.mtu;
	p->op_vls = (uint8_t)ib_opvls_count(s->pi.op_vls);
	p->mbps = ib_link_mbps(s->pi.width_active, s->pi.speed_active, s->pi.speed_ext_active);
	memcpy(p->sl2vl, s->sl2vl.vl, sizeof(p->sl2vl));
	p->num_pkeys = OHCA_MAX_PKEYS;
	memcpy(p->pkey, s->pkey, sizeof(p->pkey));
	while (gids && !s->guid[gids - 1])
		gids--;
	p->num_gids = (uint16_t)gids;
	/* entries after both tables are not valid already */
	for (unsigned int i = 0; i < gids || i < old_gids; i++) {
		p->gid_valid[i] = s->guid[i] != 0;
		ib_put_be64(p->gid[i], s->pi.gid_prefix);
		ib_put_be64(p->gid[i] + 8, s->guid[i]);
	}
}
_Static_assert(OHCA_MAX_PKEYS == OHCA_SMA_PKEYS && OHCA_MAX_GIDS == OHCA_SMA_GUIDS &&
	       OHCA_MAX_PORTS == OHCA_SMA_MAX_PORTS, "the SMA's tables are the engine's");

/* Refresh the copy, trace a change of state, and notify the transport. */
static void port_update(ohca_engine *e, unsigned int port)
{
	uint8_t old = e->port[port].state;

	port_copy(e, port);
	if (e->port[port].state != old)
		ohca_trace(e, OHCA_TR_PORT_STATE, port + 1, old, e->port[port].state, 0);
	ohca_xp_port(e, port);
}

static void op_port_changed(void *ctx, unsigned int port)
{
	link_rate(ctx, port);
	port_update(ctx, port);
}

static void op_send_trap(void *ctx, unsigned int port, uint16_t dlid, uint8_t sl,
			 const uint8_t *mad)
{
	struct ohca_hw_av av = { .dlid = ohca_to_le16(dlid), .sl = sl };

	ohca_mad_send(ctx, port, IB_QP0, &av, IB_DEFAULT_PKEY, 0, mad);
}

static void op_link(void *ctx, unsigned int port, enum ohca_sma_link act)
{
	ohca_engine *e = ctx;

	if (act != OHCA_SMA_LINK_ENABLE)
		e->ops.link_ctl(e->h, port, false);
	if (act != OHCA_SMA_LINK_DISABLE)
		e->ops.link_ctl(e->h, port, true);
}

/* ---- creation and reset ----------------------------------------------------------- */

static uint8_t vl_cap_code(uint8_t vls)
{
	uint8_t code = 1;

	while (ib_opvls_count(code) && ib_opvls_count(code) < vls)
		code++;
	return code;
}

static void sma_start(ohca_engine *e)
{
	static const struct ohca_sma_ops ops = {
		.event = op_event,
		.port_changed = op_port_changed,
		.send_trap = op_send_trap,
		.link = op_link,
	};
	struct ohca_sma_cfg cfg = {
		.sys_guid = e->cfg.sys_guid,
		.node_guid = e->cfg.node_guid,
		.vendor_id = OHCA_VENDOR_OUI,
		.device_id = OHCA_PART_ID,
		.revision = OHCA_HW_REVISION,
		.num_ports = e->cfg.num_ports,
		.width = e->cfg.width_sup,
		.speed = e->cfg.speed_sup,
		.speed_ext = e->cfg.speed_ext_sup,
		.mtu_cap = e->cfg.mtu_cap,
		.vl_cap = vl_cap_code(e->cfg.vl_cap),
	};

	for (unsigned int i = 0; i < e->cfg.num_ports; i++)
		cfg.port_guid[i] = e->cfg.node_guid + i + 1;
	memcpy(cfg.node_desc, e->cfg.node_desc, sizeof(cfg.node_desc));
	ohca_sma_init(&e->mad->sma, &cfg, &ops, e);
}

/* Bring the port's counters up to date: PortXmitWait, and VL15 drops that the host counts. */
static struct ib_pma_port *mad_pma_port(void *ctx, unsigned int num)
{
	unsigned int port = num - 1;
	ohca_engine *e = ctx;
	uint64_t n;

	ohca_xp_wait_update(e);
	if (e->ops.vl15_dropped) {
		n = e->ops.vl15_dropped(e->h, port);
		e->port[port].cnt.vl15_dropped += n - e->mad->vl15_seen[port];
		e->mad->vl15_seen[port] = n;
	}
	return &e->mad->pma_port[port];
}

int ohca_mad_init(ohca_engine *e)
{
	e->mad = calloc(1, sizeof(*e->mad));
	if (!e->mad)
		return -1;
	for (unsigned int i = 0; i < OHCA_MAX_PORTS; i++) {
		e->mad->pma_port[i].ctr = &e->port[i].cnt;
		e->mad->cc[i] = calloc(1, sizeof(*e->mad->cc[i]));
		if (!e->mad->cc[i])
			return -1;
	}
	e->mad->pma = (struct ib_pma){
		.port = mad_pma_port,
		.ctx = e,
		.nports = e->cfg.num_ports,
		.first_port = 1,
		.resp_time = 8,		/* 1 ms */
	};
	sma_start(e);
	for (unsigned int i = 0; i < e->cfg.num_ports; i++)
		port_copy(e, i);
	return 0;
}

void ohca_mad_free(ohca_engine *e)
{
	for (unsigned int i = 0; e->mad && i < OHCA_MAX_PORTS; i++)
		free(e->mad->cc[i]);
	free(e->mad);
	e->mad = NULL;
}

const struct ib_cc_ca *ohca_mad_congestion(const ohca_engine *e, unsigned int port)
{
	return &e->mad->cc[port]->ca;
}

struct ib_vlarb *ohca_mad_vlarb(ohca_engine *e, unsigned int port)
{
	return &e->mad->sma.port[port].arb;
}

void ohca_mad_reset(ohca_engine *e)
{
	sma_start(e);
	for (unsigned int i = 0; i < e->cfg.num_ports; i++) {
		memset(e->mad->cc[i], 0, sizeof(*e->mad->cc[i]));
		ohca_congestion_set(e, i, &e->mad->cc[i]->ca);
		port_copy(e, i);
		ohca_xp_port(e, i);
		link_rate(e, i);
		e->ops.link_ctl(e->h, i, false);
	}
}

/* ---- links ------------------------------------------------------------------------ */

static void link_tell(ohca_engine *e, unsigned int port)
{
	const struct ohca_link_rate *r = &e->mad->rate[port];

	if (e->mad->up[port])
		ohca_sma_link_up(&e->mad->sma, port, r->width, r->speed, r->speed_ext);
	else
		ohca_sma_link_down(&e->mad->sma, port);
}

void ohca_mad_link(ohca_engine *e, unsigned int port, const struct ohca_link_rate *rate)
{
	e->mad->up[port] = rate != NULL;
	if (rate)
		e->mad->rate[port] = *rate;
	if (!ohca_running(e))
		return;
	/* the link failed; a port that took its link down itself is already in state Down */
	if (!rate && e->mad->sma.port[port].pi.state != IB_PS_DOWN)
		e->port[port].cnt.link_downed++;
	link_tell(e, port);
}

void ohca_mad_enable(ohca_engine *e)
{
	ohca_dma_enter(e);
	for (unsigned int i = 0; i < e->cfg.num_ports; i++) {
		e->ops.link_ctl(e->h, i, true);
		if (e->mad->up[i])
			link_tell(e, i);
	}
	ohca_dma_exit(e);
}

void ohca_mad_rx_data(ohca_engine *e, unsigned int port)
{
	ohca_sma_rx_data(&e->mad->sma, port);
}

void ohca_mad_bad_pkey(ohca_engine *e, unsigned int port, const struct ib_key_violation *v)
{
	ohca_sma_bad_pkey(&e->mad->sma, port, v, ohca_now(e));
}

void ohca_mad_bad_qkey(ohca_engine *e, unsigned int port, const struct ib_key_violation *v)
{
	ohca_sma_bad_qkey(&e->mad->sma, port, v, ohca_now(e));
}

uint64_t ohca_mad_deadline(const ohca_engine *e)
{
	uint64_t sma = ohca_sma_deadline(&e->mad->sma);
	uint64_t pma = ib_pma_deadline(&e->mad->pma);

	return sma < pma ? sma : pma;
}

void ohca_mad_timer(ohca_engine *e, uint64_t now)
{
	ohca_sma_timer(&e->mad->sma, now);
	ib_pma_timer(&e->mad->pma, now);
}

/* ---- MADs ------------------------------------------------------------------------- */

/* Process a request to the congestion control agent of a port. */
static enum ohca_sma_verdict congestion(ohca_engine *e, const struct ohca_sma_in *in,
					const uint8_t *mad, uint8_t *out)
{
	static const struct ib_cc_node node = { .resp_time = 8 };	/* 1 ms */
	struct ib_cc *cc = e->mad->cc[in->port];
	const struct ib_cc_ca was = cc->ca;
	enum ib_cc_verdict v;

	memcpy(out, mad, IB_MAD_LEN);
	v = ib_cc_process(&node, cc, (struct ib_mad *)(void *)out, in->now_ns);
	/* a manager sets the same values again in each sweep */
	if (v == IB_CC_CHANGED && memcmp(&was, &cc->ca, sizeof(was)))
		ohca_congestion_set(e, in->port, &cc->ca);
	return v == IB_CC_DROP ? OHCA_SMA_CONSUMED : OHCA_SMA_REPLY;
}

/* Let the agents process a MAD to QP @qpn (0 or 1). */
static enum ohca_sma_verdict process(ohca_engine *e, const struct ohca_sma_in *in,
				     uint32_t qpn, const uint8_t *mad, uint8_t *out)
{
	const struct ib_mad_hdr *h = (const struct ib_mad_hdr *)(const void *)mad;
	enum ohca_sma_verdict v = OHCA_SMA_UNHANDLED;

	if (qpn == IB_QP0 && ib_mad_is_smp(h)) {
		v = ohca_sma_process(&e->mad->sma, in, mad, out);
	} else if (qpn == IB_QP1 && h->mgmt_class == IB_CLASS_PERF) {
		if (ib_pma_process(&e->mad->pma, (const struct ib_mad *)(const void *)mad,
				   (struct ib_mad *)(void *)out, in->now_ns) == IB_PMA_REPLY)
			v = OHCA_SMA_REPLY;
	} else if (qpn == IB_QP1 && h->mgmt_class == IB_CLASS_CC &&
		   (h->method == IB_METHOD_GET || h->method == IB_METHOD_SET)) {
		v = congestion(e, in, mad, out);
	}
	if (v != OHCA_SMA_UNHANDLED)
		ohca_count_port(e, in->port, OHCA_CNT_MADS_RX);
	ohca_trace(e, OHCA_TR_MAD, in->port + 1, h->mgmt_class,
		   (uint64_t)h->method << 16 | ib_be16(h->attr_id), v);
	return v;
}

static uint16_t own_lid(const struct ohca_port *p, uint16_t dlid)
{
	/* the source of the reply is the request's DLID, if that is one of the port's LIDs (LMC) */
	return p->lid && (dlid >> p->lmc) == (p->lid >> p->lmc) ? dlid : p->lid;
}

/* The P_Key of the port's table that matches the request's. */
static uint16_t own_pkey(const struct ohca_port *p, uint16_t pkey)
{
	for (unsigned int i = 0; i < p->num_pkeys; i++)
		if (ib_pkey_match(p->pkey[i], pkey))
			return p->pkey[i];
	return IB_DEFAULT_PKEY;
}

/* Send @mad as the response to the packet @pkt. */
static void mad_reply(ohca_engine *e, unsigned int port, const struct ib_pkt_info *pkt,
		      const uint8_t *hdr, const uint8_t *mad)
{
	const struct ib_deth *deth = ib_pkt_deth(hdr, pkt);
	const struct ib_grh *grh = ib_pkt_grh(hdr, pkt);
	const struct ohca_port *p = &e->port[port];
	struct ohca_hw_av av = { .dlid = ohca_to_le16(pkt->slid), .sl = pkt->sl };

	if (pkt->dqpn == IB_QP0) {
		const struct ib_smp *smp = (const struct ib_smp *)(const void *)mad;
		bool dr = ib_smp_is_dr(smp) && !ib_smp_ends_by_lid(smp);

		if (dr)
			av.dlid = ohca_to_le16(IB_LID_PERMISSIVE);
		ohca_mad_send(e, port, IB_QP0, &av, IB_DEFAULT_PKEY,
			      dr ? IB_LID_PERMISSIVE : own_lid(p, pkt->dlid), mad);
		return;
	}
	if (!deth)
		return;
	av.dqpn = ohca_to_le32(ib_deth_sqpn(deth));
	av.qkey = ohca_to_le32(IB_QKEY_GSI);
	if (grh) {
		uint32_t vtf = ib_be32(grh->ver_tc_flow);
		int gid;

		av.flags = OHCA_AV_GRH;
		av.hop_limit = 0xff;
		av.flow_tclass = ohca_to_le32(vtf & (OHCA_AV_FLOW_LABEL | OHCA_AV_TCLASS));
		memcpy(av.dgid, grh->sgid, sizeof(av.dgid));
		gid = ohca_gid_accepts(p, grh->dgid);
		av.sgid_index = (uint8_t)(gid > 0 ? gid : 0);
	}
	ohca_mad_send(e, port, IB_QP1, &av, own_pkey(p, pkt->pkey), own_lid(p, pkt->dlid), mad);
}

/*
 * Clear the M_Key of a request, which the agent has checked. The driver's software must not learn
 * it, because other ports have the same M_Key, and a manager sends SMInfo requests to every port
 * with IsSM.
 */
static void hide_mkey(uint8_t *mad)
{
	struct ib_smp *s = (struct ib_smp *)(void *)mad;

	if (ib_mad_is_smp(&s->hdr) &&
	    (s->hdr.method == IB_METHOD_GET || s->hdr.method == IB_METHOD_SET))
		s->mkey = ib_to_be64(0);
}

bool ohca_mad_rx(ohca_engine *e, unsigned int port, const struct ib_pkt_info *pkt,
		 const uint8_t *hdr, uint8_t *mad)
{
	struct ohca_sma_in in = {
		.port = port,
		.from_wire = true,
		.slid = pkt->slid,
		.now_ns = ohca_now(e),
	};
	const struct ohca_qp *qp = ohca_qp_of_software(e, port, pkt->dqpn);
	enum ohca_sma_verdict v;
	uint8_t out[IB_MAD_LEN];

	v = process(e, &in, pkt->dqpn, mad, out);
	if (v == OHCA_SMA_UNHANDLED) {
		/* deliver it to the driver's QP, if there is one; else a request gets an error */
		if (qp && qp->state >= OHCA_QPS_RTR && qp->state <= OHCA_QPS_SQE) {
			hide_mkey(mad);
			return false;
		}
		if (ohca_sma_unclaimed(&e->mad->sma, &in, mad, out) != OHCA_SMA_REPLY)
			return false;
		v = OHCA_SMA_REPLY;
	}
	if (v == OHCA_SMA_REPLY)
		mad_reply(e, port, pkt, hdr, out);
	return true;
}

/* ---- commands --------------------------------------------------------------------- */

int ohca_cmd_mad_ifc(struct ohca_cmd *c)
{
	const struct ohca_cmd_mad_ifc *cmd = &c->aqe.mad_ifc;
	ohca_engine *e = c->e;
	struct ohca_hw_mad_in_wc wc = { 0 };
	uint8_t mad[IB_MAD_LEN], out[IB_MAD_LEN];
	const struct ib_mad_hdr *h = (const struct ib_mad_hdr *)(const void *)mad;
	struct ohca_sma_in in = { 0 };
	enum ohca_sma_verdict v;
	bool smp;
	int rc;

	if (cmd->port < 1 || cmd->port > e->cfg.num_ports)
		return OHCA_BAD(c, mad_ifc.port);
	if (cmd->flags & ~(OHCA_MAD_IFC_HAS_WC | OHCA_MAD_IFC_IGNORE_MKEY))
		return OHCA_BAD(c, mad_ifc.flags);
	if (cmd->reserved)
		return OHCA_BAD(c, mad_ifc.reserved);
	rc = ohca_cmd_mbox_read(c, OHCA_AT(mad_ifc.in_addr), 0, mad, sizeof(mad));
	if (!rc && cmd->flags & OHCA_MAD_IFC_HAS_WC)
		rc = ohca_cmd_mbox_read(c, OHCA_AT(mad_ifc.in_addr), IB_MAD_LEN, &wc, sizeof(wc));
	if (rc)
		return rc;
	smp = ib_mad_is_smp(h);
	in.port = cmd->port - 1u;
	in.ignore_mkey = cmd->flags & OHCA_MAD_IFC_IGNORE_MKEY;
	in.slid = cmd->flags & OHCA_MAD_IFC_HAS_WC ? ohca_le16(wc.slid) : e->port[in.port].lid;
	in.now_ns = ohca_now(e);
	if (smp && e->cfg.smp_off && h->method != IB_METHOD_GET)
		v = ohca_sma_unclaimed(&e->mad->sma, &in, mad, out);
	else
		v = process(e, &in, smp ? IB_QP0 : IB_QP1, mad, out);
	if (v == OHCA_SMA_REPLY) {
		rc = ohca_cmd_mbox_write(c, OHCA_AT(mad_ifc.out_addr), 0, out, sizeof(out));
		if (rc)
			return rc;
	}
	c->rsp.mad_ifc.verdict = (uint8_t)v;
	return OHCA_ADMIN_OK;
}
_Static_assert((int)OHCA_SMA_UNHANDLED == (int)OHCA_MAD_UNHANDLED &&
	       (int)OHCA_SMA_CONSUMED == (int)OHCA_MAD_CONSUMED &&
	       (int)OHCA_SMA_REPLY == (int)OHCA_MAD_REPLY, "one numbering of verdicts");

int ohca_cmd_modify_device(struct ohca_cmd *c)
{
	char desc[64];
	int rc = ohca_cmd_mbox_read(c, OHCA_AT(mbox.addr), 0, desc, sizeof(desc));

	if (rc)
		return rc;
	ohca_sma_set_node_desc(&c->e->mad->sma, desc, ohca_now(c->e));
	return OHCA_ADMIN_OK;
}

int ohca_cmd_modify_port(struct ohca_cmd *c)
{
	const struct ohca_cmd_modify_port *cmd = &c->aqe.modify_port;
	const uint32_t settable = (c->e->cfg.smp_off ? 0 : IB_CAP_SM) | IB_CAP_CM | IB_CAP_SNMP |
				  IB_CAP_DEVICE_MGMT | IB_CAP_VENDOR_CLASS;
	uint32_t set = ohca_le32(cmd->set_caps), clr = ohca_le32(cmd->clr_caps);
	struct ohca_sma *sma = &c->e->mad->sma;

	if (cmd->port < 1 || cmd->port > c->e->cfg.num_ports)
		return OHCA_BAD(c, modify_port.port);
	if (cmd->flags & ~OHCA_MODIFY_PORT_RESET_QKEY_CNTR)
		return OHCA_BAD(c, modify_port.flags);
	if (cmd->reserved)
		return OHCA_BAD(c, modify_port.reserved);
	if (set & ~settable)
		return OHCA_BAD(c, modify_port.set_caps);
	if ((clr & ~settable) || (set & clr))
		return OHCA_BAD(c, modify_port.clr_caps);
	if (cmd->flags & OHCA_MODIFY_PORT_RESET_QKEY_CNTR)
		ohca_sma_reset_qkey_violations(sma, cmd->port - 1u);
	if (set || clr)
		ohca_sma_modify_caps(sma, cmd->port - 1u, set, clr, ohca_now(c->e));
	return OHCA_ADMIN_OK;
}
