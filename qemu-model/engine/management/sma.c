/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The HCA's subnet management agent; see sma.h. */
#include "ib/packet.h"
#include "ib/rate.h"
#include "engine/management/sma.h"

/* CapabilityMask bits that software owns (modify_port). */
#define SOFT_CAPS	(IB_CAP_SM | IB_CAP_CM | IB_CAP_SNMP | IB_CAP_DEVICE_MGMT | \
			 IB_CAP_VENDOR_CLASS | IB_CAP_BOOT_MGMT)
#define HARD_CAPS	(IB_CAP_NOTICE | IB_CAP_TRAP | IB_CAP_SL_MAP | IB_CAP_SYS_IMAGE_GUID | \
			 IB_CAP_DR_NOTICE | IB_CAP_CAP_MASK_NOTICE | IB_CAP_CLIENT_REREG | \
			 IB_CAP_OTHER_LOCAL_CHANGES)
#define AM_EXT_SPEEDS	0x80000000u	/* PortInfo: the manager knows extended speeds */

/* One request being answered. */
struct req {
	struct ohca_sma *s;
	const struct ohca_sma_in *in;
	struct ohca_sma_port *port;	/* that it came by */
	uint8_t port_num;		/* from 1 */
	struct ib_smp *out;		/* starts as a copy of the request */
	uint32_t attr_mod;
	bool set;
	bool hide_mkey;
};

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
	for (unsigned int i = 0; i < s->cfg.num_ports; i++) {
		struct ohca_sma_port *p = &s->port[i];
		unsigned int nvls = ib_opvls_count(cfg->vl_cap);

		ib_port_info_init(&p->pi, &prof, (uint8_t)(i + 1), IB_PI_CA);
		p->pkey[0] = IB_DEFAULT_PKEY;
		p->guid[0] = cfg->port_guid[i];
		ib_sl2vl_init(&p->sl2vl, nvls);
		ib_vlarb_init(&p->arb, 64, nvls);
		ib_trap_init(&p->traps, p->trap, &room, (uint64_t)(i + 1) << 32);
		p->lease_ns = UINT64_MAX;
	}
}

/* ---- traps ---- */

static void post_trap(struct ohca_sma *s, unsigned int port, uint8_t type, uint16_t trap,
		      const uint8_t details[54], uint64_t now_ns)
{
	struct ohca_sma_port *p = &s->port[port];
	struct ib_notice n = {
		.generic = 1,
		.type = type,
		.producer = IB_NODE_CHANNEL_ADAPTER,
		.trap = trap,
		.issuer_lid = p->pi.lid,
	};

	/* Before Active there is no path to the manager, and it will sweep anyway. */
	if (p->pi.state != IB_PS_ACTIVE || p->pi.sm_lid == 0)
		return;
	memcpy(n.details, details, sizeof(n.details));
	ib_trap_post(&p->traps, &n, now_ns);
}

static void trap144(struct ohca_sma *s, unsigned int port, uint16_t changes, uint64_t now_ns)
{
	const struct ib_port_info *pi = &s->port[port].pi;
	uint8_t d[54];

	ib_trap144(d, pi->lid, pi->cap_mask, changes, pi->cap_mask2);
	post_trap(s, port, IB_NOTICE_INFO, IB_TRAP_CAP_MASK_CHANGE, d, now_ns);
}

static void count16(uint16_t *v)
{
	if (*v != 0xffff)
		(*v)++;
}

/* An M_Key violation: count, start the lease, tell the manager, stay silent. */
static enum ohca_sma_verdict mkey_violation(struct req *r, unsigned int port)
{
	struct ohca_sma_port *p = &r->s->port[port];
	uint8_t d[54];

	count16(&p->pi.mkey_violations);
	if (p->pi.mkey_lease && p->lease_ns == UINT64_MAX)
		p->lease_ns = r->in->now_ns + p->pi.mkey_lease * 1000000000ull;
	ib_trap256(d, r->in->slid, r->out);
	post_trap(r->s, port, IB_NOTICE_SECURITY, IB_TRAP_BAD_MKEY, d, r->in->now_ns);
	return OHCA_SMA_CONSUMED;
}

/* ---- attributes; each returns the status ---- */

static uint16_t node_desc(struct req *r)
{
	if (r->attr_mod)
		return IB_MAD_BAD_FIELD;
	if (r->set) {
		/* Only the node itself names itself. */
		if (r->in->from_wire)
			return IB_MAD_BAD_METHOD_ATTR;
		ohca_sma_set_node_desc(r->s, (const char *)r->out->data, r->in->now_ns);
	}
	memcpy(r->out->data, r->s->cfg.node_desc, IB_SMP_DATA_LEN);
	return IB_MAD_OK;
}

static uint16_t node_info(struct req *r)
{
	const struct ohca_sma_cfg *c = &r->s->cfg;
	struct ib_node_info ni = {
		.base_version = IB_MAD_BASE_VERSION,
		.class_version = IB_SMP_CLASS_VERSION,
		.node_type = IB_NODE_CHANNEL_ADAPTER,
		.num_ports = c->num_ports,
		.sys_guid = c->sys_guid,
		.node_guid = c->node_guid,
		.port_guid = c->port_guid[r->port_num - 1],
		.partition_cap = OHCA_SMA_PKEYS,
		.device_id = c->device_id,
		.revision = c->revision,
		.local_port = r->port_num,
		.vendor_id = c->vendor_id,
	};

	if (r->set)
		return IB_MAD_BAD_METHOD_ATTR;
	if (r->attr_mod)
		return IB_MAD_BAD_FIELD;
	ib_node_info_pack(&ni, r->out->data);
	return IB_MAD_OK;
}

static uint16_t guid_info(struct req *r)
{
	uint32_t first = r->attr_mod * IB_GUIDS_PER_BLOCK;
	uint64_t *tbl = r->port->guid;
	bool changed = false;

	if (r->attr_mod >= OHCA_SMA_GUIDS / IB_GUIDS_PER_BLOCK)
		return IB_MAD_BAD_FIELD;
	for (unsigned int i = 0; i < IB_GUIDS_PER_BLOCK; i++) {
		uint64_t g = ib_guid_block_get(r->out->data, i);

		/* GUID 0 is the hardware's and read only. */
		if (r->set && first + i != 0 && tbl[first + i] != g) {
			tbl[first + i] = g;
			changed = true;
		}
		ib_guid_block_put(r->out->data, i, tbl[first + i]);
	}
	if (changed) {
		r->s->ops.port_changed(r->s->ctx, r->port_num - 1u);
		r->s->ops.event(r->s->ctx, r->port_num - 1u, OHCA_SMA_EV_GID_CHANGE);
	}
	return IB_MAD_OK;
}

static uint16_t pkey_table(struct req *r)
{
	/* Modifier 31:16 is a switch's port; a channel adapter ignores it. */
	uint32_t block = r->attr_mod & 0xffff;
	uint16_t *tbl = r->port->pkey + block * IB_PKEYS_PER_BLOCK;
	bool changed = false;

	if (block >= OHCA_SMA_PKEYS / IB_PKEYS_PER_BLOCK)
		return IB_MAD_BAD_FIELD;
	for (unsigned int i = 0; i < IB_PKEYS_PER_BLOCK; i++) {
		uint16_t k = ib_pkey_block_get(r->out->data, i);

		if (r->set && tbl[i] != k) {
			tbl[i] = k;
			changed = true;
		}
		ib_pkey_block_put(r->out->data, i, tbl[i]);
	}
	if (changed) {
		r->s->ops.port_changed(r->s->ctx, r->port_num - 1u);
		r->s->ops.event(r->s->ctx, r->port_num - 1u, OHCA_SMA_EV_PKEY_CHANGE);
	}
	return IB_MAD_OK;
}

static uint16_t sl2vl(struct req *r)
{
	if (r->set) {
		ib_sl2vl_unpack(r->out->data, &r->port->sl2vl);
		r->s->ops.port_changed(r->s->ctx, r->port_num - 1u);
	}
	ib_sl2vl_pack(&r->port->sl2vl, r->out->data);
	return IB_MAD_OK;
}

static uint16_t vlarb(struct req *r)
{
	struct ib_vlarb_entry e[IB_VLARB_BLOCK];
	uint32_t block = r->attr_mod >> 16;

	if (ib_vlarb_get_block(&r->port->arb, block, e) < 0)
		return IB_MAD_BAD_FIELD;
	if (r->set) {
		ib_vlarb_block_unpack(r->out->data, e);
		for (unsigned int i = 0; i < IB_VLARB_BLOCK; i++)
			if (e[i].vl == IB_MGMT_VL && e[i].weight)
				return IB_MAD_BAD_FIELD;
		ib_vlarb_set_block(&r->port->arb, block, e);
		r->s->ops.port_changed(r->s->ctx, r->port_num - 1u);
	}
	ib_vlarb_block_pack(e, r->out->data);
	return IB_MAD_OK;
}

/* Tell the driver and the data path what a Set(PortInfo) changed. */
static void port_info_effects(struct req *r, unsigned int port, uint32_t eff, uint8_t old_state)
{
	struct ohca_sma *s = r->s;
	struct ohca_sma_port *p = &s->port[port];

	if (eff & IB_PI_EFF_VLARB)
		p->arb.high_limit = p->pi.vl_high_limit;
	if (eff & IB_PI_EFF_MKEY)
		p->lease_ns = UINT64_MAX;
	if (eff & (IB_PI_EFF_LINK_DISABLE | IB_PI_EFF_LINK_DOWN)) {
		p->link_due = true;
		if (eff & IB_PI_EFF_LINK_DISABLE)
			p->link_act = OHCA_SMA_LINK_DISABLE;
		else if (p->pi.phys_state == IB_PHYS_DISABLED)
			p->link_act = OHCA_SMA_LINK_ENABLE;
		else
			p->link_act = OHCA_SMA_LINK_BOUNCE;
	}
	if (eff & ~(uint32_t)IB_PI_EFF_REREG)
		s->ops.port_changed(s->ctx, port);
	if (eff & IB_PI_EFF_LID)
		s->ops.event(s->ctx, port, OHCA_SMA_EV_LID_CHANGE);
	if (eff & IB_PI_EFF_GID)
		s->ops.event(s->ctx, port, OHCA_SMA_EV_GID_CHANGE);
	if (eff & IB_PI_EFF_SM)
		s->ops.event(s->ctx, port, OHCA_SMA_EV_SM_CHANGE);
	if (eff & IB_PI_EFF_REREG)
		s->ops.event(s->ctx, port, OHCA_SMA_EV_CLIENT_REREGISTER);
	if (old_state != IB_PS_ACTIVE && p->pi.state == IB_PS_ACTIVE)
		s->ops.event(s->ctx, port, OHCA_SMA_EV_PORT_ACTIVE);
}

static uint16_t port_info(struct req *r)
{
	uint32_t num = r->attr_mod & ~AM_EXT_SPEEDS;
	struct ib_port_info new, show;
	struct ohca_sma_port *p;
	uint32_t eff = 0;
	uint16_t status = IB_MAD_OK;

	if (num == 0)
		num = r->port_num;
	if (num > r->s->cfg.num_ports)
		return IB_MAD_BAD_FIELD;
	p = &r->s->port[num - 1];
	if (r->set) {
		uint8_t old_state = p->pi.state;

		ib_port_info_unpack(r->out->data, &new);
		/* A manager that does not say so does not know extended speeds. */
		if (!(r->attr_mod & AM_EXT_SPEEDS))
			new.speed_ext_enabled = 0;
		status = ib_port_info_set(&p->pi, &new, IB_PI_CA, &eff);
		port_info_effects(r, num - 1, eff, old_state);
	}
	show = p->pi;
	show.local_port = r->port_num;
	if (r->hide_mkey)
		show.mkey = 0;
	show.client_reregister = eff & IB_PI_EFF_REREG ? 1 : 0;
	ib_port_info_pack(&show, r->out->data);
	return status;
}

/* The oldest trap that waits for its repress; Set with the same trap removes it. */
static uint16_t notice(struct req *r)
{
	struct ib_notice n = { .type = IB_NOTICE_EMPTY };
	const struct ib_trap *t;

	if (r->set) {
		ib_notice_unpack(r->out->data, &n);
		ib_trap_repress(&r->port->traps, 0, &n);
		return IB_MAD_OK;
	}
	t = ib_trap_first(&r->port->traps);
	ib_notice_pack(t ? &t->n : &n, r->out->data);
	return IB_MAD_OK;
}

static const struct {
	uint16_t attr;
	uint16_t (*fn)(struct req *r);
} attrs[] = {
	{ IB_SMP_ATTR_NOTICE, notice },
	{ IB_SMP_ATTR_NODE_DESC, node_desc },
	{ IB_SMP_ATTR_NODE_INFO, node_info },
	{ IB_SMP_ATTR_GUID_INFO, guid_info },
	{ IB_SMP_ATTR_PORT_INFO, port_info },
	{ IB_SMP_ATTR_PKEY_TABLE, pkey_table },
	{ IB_SMP_ATTR_SL2VL, sl2vl },
	{ IB_SMP_ATTR_VLARB, vlarb },
};

/* Put the way back into a response to the wire. */
static enum ohca_sma_verdict reply(const struct ohca_sma *s, const struct ohca_sma_in *in,
				   struct ib_smp *out, uint16_t status)
{
	uint8_t port;

	ib_smp_make_resp(out, status);
	if (in->from_wire && ib_smp_is_dr(out) &&
	    ib_dr_send(out, false, s->cfg.num_ports, &port) == IB_DR_DISCARD)
		return OHCA_SMA_CONSUMED;
	return OHCA_SMA_REPLY;
}

/*
 * Responses, traps and reports are for managers in software. So is a request to a
 * node with the R bit clear but a method that only managers use.
 */
static bool for_manager(const struct ib_mad_hdr *h)
{
	return (h->method & IB_METHOD_RESP) || h->method == IB_METHOD_SEND ||
	       h->method == IB_METHOD_TRAP || h->method == IB_METHOD_REPORT;
}

static enum ohca_sma_verdict repress(struct req *r)
{
	struct ib_notice n;

	ib_notice_unpack(r->out->data, &n);
	ib_trap_repress(&r->port->traps, ib_be64(r->out->hdr.tid), &n);
	return OHCA_SMA_CONSUMED;
}

/* M_Keys of the port that it came by and, for PortInfo, of the one it is about. */
static enum ib_mkey_verdict check_mkeys(struct req *r, unsigned int *bad)
{
	unsigned int ports[2] = { r->port_num - 1u, r->port_num - 1u };
	enum ib_mkey_verdict all = IB_MKEY_OK;
	uint32_t num = r->attr_mod & ~AM_EXT_SPEEDS;

	if (r->in->ignore_mkey && !r->in->from_wire)
		return IB_MKEY_OK;
	if (ib_be16(r->out->hdr.attr_id) == IB_SMP_ATTR_PORT_INFO && num != 0 &&
	    num <= r->s->cfg.num_ports)
		ports[1] = num - 1;
	for (unsigned int i = 0; i < 2; i++) {
		enum ib_mkey_verdict v;

		if (i && ports[1] == ports[0])
			break;
		v = ib_mkey_check(&r->s->port[ports[i]].pi, r->out);
		if (v == IB_MKEY_BAD) {
			*bad = ports[i];
			return v;
		}
		if (v == IB_MKEY_OK_HIDE)
			all = v;
		else if (r->s->port[ports[i]].pi.mkey == ib_be64(r->out->mkey))
			r->s->port[ports[i]].lease_ns = UINT64_MAX;
	}
	return all;
}

enum ohca_sma_verdict ohca_sma_process(struct ohca_sma *s, const struct ohca_sma_in *in,
				       const uint8_t *mad, uint8_t *out)
{
	struct ib_smp smp;
	struct req r = {
		.s = s,
		.in = in,
		.out = &smp,
	};
	enum ohca_sma_verdict v;
	enum ib_mkey_verdict mk;
	uint16_t status = IB_MAD_BAD_METHOD_ATTR, attr;
	unsigned int bad = 0;
	uint8_t port;

	if (in->port >= s->cfg.num_ports)
		return OHCA_SMA_CONSUMED;
	r.port = &s->port[in->port];
	r.port_num = (uint8_t)(in->port + 1);
	memcpy(&smp, mad, sizeof(smp));
	if (!ib_mad_is_smp(&smp.hdr))
		return OHCA_SMA_UNHANDLED;
	if (for_manager(&smp.hdr))
		return OHCA_SMA_UNHANDLED;
	if (ib_smp_is_dr(&smp) && in->from_wire &&
	    (ib_smp_returning(&smp) ||
	     ib_dr_recv(&smp, false, r.port_num, s->cfg.num_ports, &port) != IB_DR_LOCAL))
		return OHCA_SMA_CONSUMED;

	r.attr_mod = ib_be32(smp.hdr.attr_mod);
	r.set = smp.hdr.method == IB_METHOD_SET;
	attr = ib_be16(smp.hdr.attr_id);
	if (smp.hdr.base_version != IB_MAD_BASE_VERSION ||
	    smp.hdr.class_version != IB_SMP_CLASS_VERSION) {
		status = IB_MAD_BAD_VERSION;
		goto answer;
	}

	mk = check_mkeys(&r, &bad);
	if (mk == IB_MKEY_BAD)
		return mkey_violation(&r, bad);
	r.hide_mkey = mk == IB_MKEY_OK_HIDE;
	if (smp.hdr.method == IB_METHOD_TRAP_REPRESS)
		return repress(&r);
	if (smp.hdr.method != IB_METHOD_GET && !r.set) {
		status = IB_MAD_BAD_METHOD;
		goto answer;
	}
	/* A subnet manager runs here: the question is for it. */
	if (attr == IB_SMP_ATTR_SM_INFO && (r.port->pi.cap_mask & IB_CAP_SM))
		return OHCA_SMA_UNHANDLED;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(attrs); i++) {
		if (attrs[i].attr == attr) {
			status = attrs[i].fn(&r);
			break;
		}
	}
answer:
	v = reply(s, in, &smp, status);
	if (v == OHCA_SMA_REPLY)
		memcpy(out, &smp, sizeof(smp));
	return v;
}

enum ohca_sma_verdict ohca_sma_unclaimed(const struct ohca_sma *s, const struct ohca_sma_in *in,
					 const uint8_t *mad, uint8_t *out)
{
	struct ib_smp smp;
	uint8_t port;

	memcpy(&smp, mad, sizeof(smp));
	if (smp.hdr.method != IB_METHOD_GET && smp.hdr.method != IB_METHOD_SET)
		return OHCA_SMA_CONSUMED;
	if (ib_mad_is_smp(&smp.hdr)) {
		if (ib_smp_is_dr(&smp) && in->from_wire &&
		    (ib_smp_returning(&smp) ||
		     ib_dr_recv(&smp, false, (uint8_t)(in->port + 1), s->cfg.num_ports,
				&port) != IB_DR_LOCAL))
			return OHCA_SMA_CONSUMED;
		if (reply(s, in, &smp, IB_MAD_BAD_METHOD_ATTR) != OHCA_SMA_REPLY)
			return OHCA_SMA_CONSUMED;
	} else {
		ib_mad_make_resp(&smp.hdr, IB_MAD_BAD_METHOD_ATTR);
	}
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
	uint8_t phys = p->pi.phys_state == IB_PHYS_DISABLED ? IB_PHYS_DISABLED : IB_PHYS_POLLING;

	ib_trap_clear(&p->traps);
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

	p->link_due = false;
	switch (p->link_act) {
	case OHCA_SMA_LINK_DISABLE:
		p->pi.phys_state = IB_PHYS_DISABLED;
		ohca_sma_link_down(s, port);
		break;
	case OHCA_SMA_LINK_ENABLE:
		p->pi.phys_state = IB_PHYS_POLLING;
		s->ops.port_changed(s->ctx, port);
		break;
	case OHCA_SMA_LINK_BOUNCE:
		ohca_sma_link_down(s, port);
		break;
	}
	s->ops.link(s->ctx, port, p->link_act);
}

/* ---- the driver's side ---- */

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

	count16(&s->port[port].pi.pkey_violations);
	ib_trap257_258(d, v);
	post_trap(s, port, IB_NOTICE_SECURITY, IB_TRAP_BAD_PKEY, d, now_ns);
}

void ohca_sma_bad_qkey(struct ohca_sma *s, unsigned int port, const struct ib_key_violation *v,
		       uint64_t now_ns)
{
	uint8_t d[54];

	count16(&s->port[port].pi.qkey_violations);
	ib_trap257_258(d, v);
	post_trap(s, port, IB_NOTICE_SECURITY, IB_TRAP_BAD_QKEY, d, now_ns);
}

void ohca_sma_reset_qkey_violations(struct ohca_sma *s, unsigned int port)
{
	s->port[port].pi.qkey_violations = 0;
}

/* ---- time ---- */

uint64_t ohca_sma_deadline(const struct ohca_sma *s)
{
	uint64_t d = UINT64_MAX;

	for (unsigned int i = 0; i < s->cfg.num_ports; i++) {
		const struct ohca_sma_port *p = &s->port[i];
		uint64_t t = ib_trap_deadline(&p->traps);

		if (p->link_due)
			return 0;
		if (t < d)
			d = t;
		if (p->lease_ns < d)
			d = p->lease_ns;
	}
	return d;
}

static void send_traps(struct ohca_sma *s, unsigned int port, uint64_t now_ns)
{
	struct ohca_sma_port *p = &s->port[port];
	const struct ib_trap *t;
	struct ib_smp smp;

	/* Each call reschedules one of the slots into the future. */
	while ((t = ib_trap_due(&p->traps, now_ns, ib_time_ns(p->pi.subnet_timeout)))) {
		ib_trap_build(&smp, t->tid, p->pi.mkey, &t->n);
		s->ops.send_trap(s->ctx, port, p->pi.sm_lid, p->pi.sm_sl, (const uint8_t *)&smp);
	}
}

void ohca_sma_timer(struct ohca_sma *s, uint64_t now_ns)
{
	for (unsigned int i = 0; i < s->cfg.num_ports; i++) {
		struct ohca_sma_port *p = &s->port[i];

		if (p->lease_ns <= now_ns) {
			p->lease_ns = UINT64_MAX;
			p->pi.mkey_prot = 0;
		}
		if (p->link_due)
			do_link(s, i);
		send_traps(s, i, now_ns);
	}
}
