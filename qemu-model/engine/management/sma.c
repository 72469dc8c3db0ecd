/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The HCA's subnet management agent; see sma.h. */
#include "ib/packet.h"
#include "engine/management/sma.h"

/* CapabilityMask bits that the driver may change by MODIFY_PORT. */
#define SOFT_CAPS	(IB_CAP_SM | IB_CAP_CM | IB_CAP_SNMP | IB_CAP_DEVICE_MGMT | \
			 IB_CAP_VENDOR_CLASS | IB_CAP_BOOT_MGMT)
#define HARD_CAPS	(IB_CAP_NOTICE | IB_CAP_TRAP | IB_CAP_AUTO_MIGR | IB_CAP_SL_MAP | \
			 IB_CAP_SYS_IMAGE_GUID | IB_CAP_DR_NOTICE | IB_CAP_CAP_MASK_NOTICE | \
			 IB_CAP_CLIENT_REREG | IB_CAP_OTHER_LOCAL_CHANGES)

static void no_event(void *ctx, unsigned int port, enum ohca_sma_event ev)
{
	(void)ctx, (void)port, (void)ev;
}

static void no_change(void *ctx, unsigned int port)
{
	(void)ctx, (void)port;
}

static void no_trap(void *ctx, unsigned int port, uint16_t dlid, uint8_t sl, const uint8_t *mad)
{
	(void)ctx, (void)port, (void)dlid, (void)sl, (void)mad;
}

static void no_link(void *ctx, unsigned int port, enum ohca_sma_link act)
{
	(void)ctx, (void)port, (void)act;
}

/* ---- functions for the agent of ib/sma.h ---- */

static void agent_port(void *ctx, unsigned int num, struct ib_sma_port *v)
{
	struct ohca_sma *s = ctx;
	struct ohca_sma_port *p = &s->port[num - 1];

	*v = (struct ib_sma_port){
		.pi = &p->pi,
		.link_due = &p->link_due,
		.pkey = p->pkey,
		.num_pkeys = OHCA_SMA_PKEYS,
		.arb = &p->arb,
		.guid = p->guid,
		.num_guids = OHCA_SMA_GUIDS,
		.end = &p->end,
	};
}

static struct ib_sl2vl *agent_sl2vl(void *ctx, unsigned int in, unsigned int out)
{
	struct ohca_sma *s = ctx;

	(void)in;
	return &s->port[out - 1].sl2vl;
}

/* Report what a Set changed to the data path and to the driver. */
static void agent_changed(void *ctx, unsigned int num, uint32_t what)
{
	static const struct {
		uint32_t what;
		enum ohca_sma_event ev;
	} events[] = {
		{ IB_PI_EFF_LID, OHCA_SMA_EV_LID_CHANGE },
		{ IB_PI_EFF_GID | IB_SMA_CH_GUIDS, OHCA_SMA_EV_GID_CHANGE },
		{ IB_SMA_CH_PKEYS, OHCA_SMA_EV_PKEY_CHANGE },
		{ IB_PI_EFF_SM, OHCA_SMA_EV_SM_CHANGE },
		{ IB_PI_EFF_REREG, OHCA_SMA_EV_CLIENT_REREGISTER },
	};
	struct ohca_sma *s = ctx;
	unsigned int port = num - 1;

	if (what & ~(IB_PI_EFF_REREG | IB_SMA_CH_PORT_INFO))
		s->ops.port_changed(s->ctx, port);
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(events); i++)
		if (what & events[i].what)
			s->ops.event(s->ctx, port, events[i].ev);
	if (what & IB_PI_EFF_STATE && s->port[port].pi.state == IB_PS_ACTIVE)
		s->ops.event(s->ctx, port, OHCA_SMA_EV_PORT_ACTIVE);
}

static void agent_send_trap(void *ctx, unsigned int num, const struct ib_smp *trap)
{
	struct ohca_sma *s = ctx;
	const struct ib_port_info *pi = &s->port[num - 1].pi;

	s->ops.send_trap(s->ctx, num - 1, pi->sm_lid, pi->sm_sl, (const uint8_t *)trap);
}

static void agent_set_node_desc(void *ctx, const char desc[64], uint64_t now_ns)
{
	ohca_sma_set_node_desc(ctx, desc, now_ns);
}

static const struct ib_sma_ops agent_ops = {
	.port = agent_port,
	.sl2vl = agent_sl2vl,
	.changed = agent_changed,
	.send_trap = agent_send_trap,
	.set_node_desc = agent_set_node_desc,
};

void ohca_sma_init(struct ohca_sma *s, const struct ohca_sma_cfg *cfg,
		   const struct ohca_sma_ops *ops, void *ctx)
{
	static const struct ib_trap_room room = {
		.slots = OHCA_TRAP_SLOTS,
		.security = OHCA_TRAP_SECURITY,
		.each = OHCA_TRAP_EACH,
	};
	struct ib_port_profile prof = {
		.width = cfg->width,
		.speed = cfg->speed,
		.speed_ext = cfg->speed_ext,
		.mtu_cap = cfg->mtu_cap,
		.vl_cap = cfg->vl_cap,
		.vlarb_cap = 64,
		.guid_cap = OHCA_SMA_GUIDS > 255 ? 255 : OHCA_SMA_GUIDS,
		.cap_mask = HARD_CAPS,
	};

	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	if (s->cfg.num_ports > OHCA_SMA_MAX_PORTS)
		s->cfg.num_ports = OHCA_SMA_MAX_PORTS;
	s->ctx = ctx;
	s->ops.event = ops->event ? ops->event : no_event;
	s->ops.port_changed = ops->port_changed ? ops->port_changed : no_change;
	s->ops.send_trap = ops->send_trap ? ops->send_trap : no_trap;
	s->ops.link = ops->link ? ops->link : no_link;
	s->agent = (struct ib_sma){
		.ops = &agent_ops,
		.ctx = s,
		.sys_guid = cfg->sys_guid,
		.node_guid = cfg->node_guid,
		.vendor_id = cfg->vendor_id,
		.revision = cfg->revision,
		.device_id = cfg->device_id,
		.num_ports = s->cfg.num_ports,
		.type = IB_NODE_CHANNEL_ADAPTER,
		.desc = s->cfg.node_desc,
	};
	for (unsigned int i = 0; i < s->cfg.num_ports; i++) {
		struct ohca_sma_port *p = &s->port[i];
		unsigned int nvls = ib_opvls_count(cfg->vl_cap);

		ib_port_info_init(&p->pi, &prof, (uint8_t)(i + 1), IB_PI_CA);
		p->pkey[0] = IB_DEFAULT_PKEY;
		p->guid[0] = cfg->port_guid[i];
		ib_sl2vl_init(&p->sl2vl, nvls);
		ib_vlarb_init(&p->arb, 64, nvls);
		ib_trap_init(&p->end.traps, p->trap, &room, (uint64_t)(i + 1) << 32);
		p->end.lease_ns = UINT64_MAX;
	}
}

/* ---- MADs ---- */

/* A channel adapter forwards no SMP, so the other verdicts mean that nothing is sent. */
static enum ohca_sma_verdict verdict(enum ib_sma_verdict v)
{
	switch (v) {
	case IB_SMA_UNHANDLED:
		return OHCA_SMA_UNHANDLED;
	case IB_SMA_REPLY:
		return OHCA_SMA_REPLY;
	default:
		return OHCA_SMA_CONSUMED;
	}
}

static struct ib_sma_in how(const struct ohca_sma_in *in)
{
	return (struct ib_sma_in){
		.port = in->port + 1,
		.from_wire = in->from_wire,
		.ignore_mkey = in->ignore_mkey,
		.slid = in->slid,
		.now_ns = in->now_ns,
	};
}

enum ohca_sma_verdict ohca_sma_process(struct ohca_sma *s, const struct ohca_sma_in *in,
				       const uint8_t *mad, uint8_t *out)
{
	const struct ib_sma_in i = how(in);
	enum ohca_sma_verdict v;
	struct ib_smp smp;
	uint8_t port;

	if (in->port >= s->cfg.num_ports)
		return OHCA_SMA_CONSUMED;
	memcpy(&smp, mad, sizeof(smp));
	v = verdict(ib_sma_process(&s->agent, &i, &smp, &port));
	if (v == OHCA_SMA_REPLY)
		memcpy(out, &smp, sizeof(smp));
	return v;
}

enum ohca_sma_verdict ohca_sma_unclaimed(const struct ohca_sma *s, const struct ohca_sma_in *in,
					 const uint8_t *mad, uint8_t *out)
{
	const struct ib_sma_in i = how(in);
	struct ib_smp smp;
	uint8_t port;

	memcpy(&smp, mad, sizeof(smp));
	if (ib_mad_is_smp(&smp.hdr) ?
	    ib_sma_unclaimed(&s->agent, &i, &smp, &port) != IB_SMA_REPLY :
	    !ib_mad_refuse(&smp.hdr))
		return OHCA_SMA_CONSUMED;
	memcpy(out, &smp, sizeof(smp));
	return OHCA_SMA_REPLY;
}

/* ---- link ---- */

void ohca_sma_link_up(struct ohca_sma *s, unsigned int port, uint8_t width, uint8_t speed,
		      uint8_t speed_ext)
{
	struct ib_port_info *pi = &s->port[port].pi;

	pi->width_active = width;
	pi->speed_active = speed;
	pi->speed_ext_active = speed_ext;
	ib_port_link_up(pi);
	s->ops.port_changed(s->ctx, port);
}

void ohca_sma_link_down(struct ohca_sma *s, unsigned int port)
{
	struct ohca_sma_port *p = &s->port[port];
	bool active = p->pi.state == IB_PS_ACTIVE;
	/* the state that a Set has requested, else LinkDownDefaultState (14.2.5.6) */
	uint8_t phys = p->pi.phys_state == IB_PHYS_LINK_UP ? p->pi.down_default : p->pi.phys_state;

	ib_trap_clear(&p->end.traps);
	ib_port_link_down(&p->pi, phys);
	s->ops.port_changed(s->ctx, port);
	if (active)
		s->ops.event(s->ctx, port, OHCA_SMA_EV_PORT_ERR);
}

void ohca_sma_rx_data(struct ohca_sma *s, unsigned int port)
{
	if (!ib_port_rx_data(&s->port[port].pi))
		return;
	s->ops.port_changed(s->ctx, port);
	s->ops.event(s->ctx, port, OHCA_SMA_EV_PORT_ACTIVE);
}

static void do_link(struct ohca_sma *s, unsigned int port)
{
	struct ohca_sma_port *p = &s->port[port];
	enum ohca_sma_link act = OHCA_SMA_LINK_BOUNCE;

	if (p->link_due & IB_PI_EFF_LINK_DISABLE)
		act = OHCA_SMA_LINK_DISABLE;
	else if (p->pi.phys_state == IB_PHYS_DISABLED)
		act = OHCA_SMA_LINK_ENABLE;
	p->pi.phys_state = ib_port_due_phys(p->link_due);
	p->link_due = 0;
	if (act == OHCA_SMA_LINK_ENABLE)
		s->ops.port_changed(s->ctx, port);
	else
		ohca_sma_link_down(s, port);
	s->ops.link(s->ctx, port, act);
}

/* ---- the driver's side ---- */

static void trap144(struct ohca_sma *s, unsigned int port, uint16_t changes, uint64_t now_ns)
{
	const struct ib_port_info *pi = &s->port[port].pi;
	uint8_t d[54];

	ib_trap144(d, pi->lid, pi->cap_mask, changes, pi->cap_mask2);
	ib_sma_trap(&s->agent, port + 1, IB_NOTICE_INFO, IB_TRAP_CAP_MASK_CHANGE, d, now_ns);
}

void ohca_sma_modify_caps(struct ohca_sma *s, unsigned int port, uint32_t set, uint32_t clr,
			  uint64_t now_ns)
{
	struct ib_port_info *pi = &s->port[port].pi;
	uint32_t caps = (pi->cap_mask & ~(clr & SOFT_CAPS)) | (set & SOFT_CAPS);

	if (caps == pi->cap_mask)
		return;
	pi->cap_mask = caps;
	s->ops.port_changed(s->ctx, port);
	trap144(s, port, 0, now_ns);
}

void ohca_sma_set_node_desc(struct ohca_sma *s, const char desc[64], uint64_t now_ns)
{
	if (!memcmp(s->cfg.node_desc, desc, sizeof(s->cfg.node_desc)))
		return;
	memcpy(s->cfg.node_desc, desc, sizeof(s->cfg.node_desc));
	for (unsigned int i = 0; i < s->cfg.num_ports; i++)
		trap144(s, i, IB_TRAP144_NODE_DESC, now_ns);
}

void ohca_sma_bad_pkey(struct ohca_sma *s, unsigned int port, const struct ib_key_violation *v,
		       uint64_t now_ns)
{
	uint8_t d[54];

	ib_sma_count16(&s->port[port].pi.pkey_violations);
	ib_trap257_258(d, v);
	ib_sma_trap(&s->agent, port + 1, IB_NOTICE_SECURITY, IB_TRAP_BAD_PKEY, d, now_ns);
}

void ohca_sma_bad_qkey(struct ohca_sma *s, unsigned int port, const struct ib_key_violation *v,
		       uint64_t now_ns)
{
	uint8_t d[54];

	ib_sma_count16(&s->port[port].pi.qkey_violations);
	ib_trap257_258(d, v);
	ib_sma_trap(&s->agent, port + 1, IB_NOTICE_SECURITY, IB_TRAP_BAD_QKEY, d, now_ns);
}

void ohca_sma_reset_qkey_violations(struct ohca_sma *s, unsigned int port)
{
	s->port[port].pi.qkey_violations = 0;
}

/* ---- time ---- */

uint64_t ohca_sma_deadline(const struct ohca_sma *s)
{
	uint64_t t, d = UINT64_MAX;

	/* not ib_sma_deadline(), which looks up each port: every poll calls this */
	for (unsigned int i = 0; i < s->cfg.num_ports; i++) {
		if (s->port[i].link_due)
			return 0;
		t = ib_sma_end_deadline(&s->port[i].end);
		if (t < d)
			d = t;
	}
	return d;
}

void ohca_sma_timer(struct ohca_sma *s, uint64_t now_ns)
{
	for (unsigned int i = 0; i < s->cfg.num_ports; i++)
		if (s->port[i].link_due)
			do_link(s, i);
	ib_sma_timer(&s->agent, now_ns);
}
