/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The subnet management agent; see sma.h. */
#include "mlnx.h"
#include "packet.h"
#include "rate.h"
#include "sma.h"

#define AM_EXT_SPEEDS	0x80000000u	/* PortInfo: the manager supports extended speeds */
#define AM_PORT		0x000000ffu	/* PortInfo: the port; the other bits are reserved */
#define AM_ALL_OUT	0x00010000u	/* SLtoVLMappingTable: for all output ports */
#define AM_ALL_IN	0x00020000u	/* SLtoVLMappingTable: for all input ports */

/* The request that is being answered. */
struct req {
	const struct ib_sma *s;
	const struct ib_sma_in *in;
	struct ib_smp *out;		/* the request, which becomes the response */
	struct ib_sma_port end;		/* the end port that answers */
	unsigned int end_num;
	uint32_t mod;			/* AttributeModifier */
	bool set;
	bool hide_mkey;
};

/* The end port that answers a request received by port @num. */
static unsigned int end_port(const struct ib_sma *s, unsigned int num)
{
	return s->si ? 0 : num;
}

static unsigned int first_end(const struct ib_sma *s)
{
	return s->si ? 0 : 1;
}

static unsigned int last_end(const struct ib_sma *s)
{
	return s->si ? 0 : s->num_ports;
}

static void changed(const struct req *r, unsigned int num, uint32_t what)
{
	r->s->ops->changed(r->s->ctx, num, what);
}

/* Get the state of port @num, from an AttributeModifier. Return: false: there is no such port. */
static bool port_named(const struct req *r, unsigned int num, struct ib_sma_port *p)
{
	if (num > r->s->num_ports)
		return false;
	r->s->ops->port(r->s->ctx, num, p);
	return true;
}

/* ---- attributes; each returns the status ---- */

static uint16_t node_desc(struct req *r)
{
	const struct ib_sma_ops *ops = r->s->ops;

	if (r->mod)
		return IB_MAD_BAD_FIELD;
	if (r->set) {
		/* only the node's own driver may set it */
		if (r->in->from_wire || !ops->set_node_desc)
			return IB_MAD_BAD_METHOD_ATTR;
		ops->set_node_desc(r->s->ctx, (const char *)r->out->data, r->in->now_ns);
	}
	memcpy(r->out->data, r->s->desc, IB_SMP_DATA_LEN);
	return IB_MAD_OK;
}

static uint16_t sma_node_info(struct req *r)
{
	const struct ib_sma *s = r->s;
	struct ib_node_info ni = {
		.base_version = IB_MAD_BASE_VERSION,
		.class_version = IB_SMP_CLASS_VERSION,
		.node_type = s->type,
		.num_ports = s->num_ports,
		.sys_guid = s->sys_guid,
		.node_guid = s->node_guid,
		.port_guid = r->end.guid[0],
		.partition_cap = (uint16_t)r->end.num_pkeys,
		.device_id = s->device_id,
		.revision = s->revision,
		.local_port = (uint8_t)r->in->port,
		.vendor_id = s->vendor_id,
	};

	if (r->set)
		return IB_MAD_BAD_METHOD_ATTR;
	if (r->mod)
		return IB_MAD_BAD_FIELD;
	ib_node_info_pack(&ni, r->out->data);
	return IB_MAD_OK;
}

static uint16_t switch_info(struct req *r)
{
	struct ib_switch_info *si = r->s->si, n;
	uint16_t status = IB_MAD_OK;

	if (r->mod)
		return IB_MAD_BAD_FIELD;
	if (r->set) {
		ib_switch_info_unpack(r->out->data, &n);
		if (n.linear_top >= si->linear_cap)
			status = IB_MAD_BAD_FIELD;
		else
			si->linear_top = n.linear_top;
		if (n.mcast_top && (n.mcast_top < IB_LID_MCAST_MIN - 1 ||
				    n.mcast_top >= IB_LID_MCAST_MIN + si->mcast_cap))
			status = IB_MAD_BAD_FIELD;
		else
			si->mcast_top = n.mcast_top;
		si->def_port = n.def_port;
		si->def_mcast_primary = n.def_mcast_primary;
		si->def_mcast_not_primary = n.def_mcast_not_primary;
		si->life_time = n.life_time;
		if (n.port_state_change)
			si->port_state_change = 0;
		changed(r, 0, IB_SMA_CH_SWITCH);
	}
	ib_switch_info_pack(si, r->out->data);
	return status;
}

static uint16_t guid_info(struct req *r)
{
	uint32_t first = r->mod * IB_GUIDS_PER_BLOCK;
	uint64_t *tbl = r->end.guid;
	bool any = false;

	if (r->mod >= r->end.num_guids / IB_GUIDS_PER_BLOCK)
		return IB_MAD_BAD_FIELD;
	for (unsigned int i = 0; i < IB_GUIDS_PER_BLOCK; i++) {
		uint64_t g = ib_guid_block_get(r->out->data, i);

		/* GUID 0 belongs to the hardware and is read only */
		if (r->set && first + i != 0 && tbl[first + i] != g) {
			tbl[first + i] = g;
			any = true;
		}
		ib_guid_block_put(r->out->data, i, tbl[first + i]);
	}
	if (any)
		changed(r, r->end_num, IB_SMA_CH_GUIDS);
	return IB_MAD_OK;
}

static uint16_t pkey_table(struct req *r)
{
	/* bits 31:16 of the modifier are a switch's port; a channel adapter ignores them */
	unsigned int num = r->s->si ? r->mod >> 16 : r->end_num;
	unsigned int block = r->mod & 0xffff;
	struct ib_sma_port p;
	bool any = false;
	uint16_t *tbl;

	if (!port_named(r, num, &p) || block >= p.num_pkeys / IB_PKEYS_PER_BLOCK)
		return IB_MAD_BAD_FIELD;
	tbl = p.pkey + block * IB_PKEYS_PER_BLOCK;
	for (unsigned int i = 0; i < IB_PKEYS_PER_BLOCK; i++) {
		uint16_t k = ib_pkey_block_get(r->out->data, i);

		if (r->set && tbl[i] != k) {
			tbl[i] = k;
			any = true;
		}
		ib_pkey_block_put(r->out->data, i, tbl[i]);
	}
	if (any)
		changed(r, num, IB_SMA_CH_PKEYS);
	return IB_MAD_OK;
}

/* The ports in the modifier. Only a Set at a switch with opt_sl2vl may name all ports. */
static bool sl2vl_ports(const struct req *r, unsigned int *in, unsigned int *out)
{
	const uint32_t all = r->mod & (AM_ALL_OUT | AM_ALL_IN);

	if (!r->s->si) {
		/* a channel adapter ignores the modifier */
		*in = r->end_num;
		*out = r->end_num;
		return true;
	}
	if (r->mod >> 16 != all >> 16 || (all && !(r->set && r->s->si->opt_sl2vl)))
		return false;
	*in = all & AM_ALL_IN ? IB_SMA_ALL_PORTS : r->mod >> 8 & 0xff;
	*out = all & AM_ALL_OUT ? IB_SMA_ALL_PORTS : r->mod & 0xff;
	return (all & AM_ALL_IN || *in <= r->s->num_ports) &&
	       (all & AM_ALL_OUT || *out <= r->s->num_ports);
}

static uint16_t sl2vl(struct req *r)
{
	unsigned int in, out;
	struct ib_sl2vl *t;

	if (!sl2vl_ports(r, &in, &out))
		return IB_MAD_BAD_FIELD;
	t = r->s->ops->sl2vl(r->s->ctx, in, out);
	if (r->set) {
		ib_sl2vl_unpack(r->out->data, t);
		changed(r, out == IB_SMA_ALL_PORTS ? 0 : out, IB_SMA_CH_SL2VL);
	}
	ib_sl2vl_pack(t, r->out->data);
	return IB_MAD_OK;
}

static uint16_t vlarb(struct req *r)
{
	/* bits 15:0 of the modifier are a switch's port; a channel adapter ignores them */
	unsigned int num = r->s->si ? r->mod & 0xffff : r->end_num;
	struct ib_vlarb_entry e[IB_VLARB_BLOCK];
	uint32_t block = r->mod >> 16;
	struct ib_sma_port p;

	if (!port_named(r, num, &p) || ib_vlarb_get_block(p.arb, block, e) < 0)
		return IB_MAD_BAD_FIELD;
	if (r->set) {
		ib_vlarb_block_unpack(r->out->data, e);
		for (unsigned int i = 0; i < IB_VLARB_BLOCK; i++)
			if (e[i].vl == IB_MGMT_VL && e[i].weight)
				return IB_MAD_BAD_FIELD;
		ib_vlarb_set_block(p.arb, block, e);
		changed(r, num, IB_SMA_CH_VLARB);
	}
	ib_vlarb_block_pack(e, r->out->data);
	return IB_MAD_OK;
}

/* The port in the modifier of PortInfo; 0 at an HCA is the port that received the request. */
static unsigned int port_info_num(const struct req *r)
{
	unsigned int num = r->mod & AM_PORT;

	return num || r->s->si ? num : r->end_num;
}

static uint16_t set_port_info(struct req *r, unsigned int num, const struct ib_sma_port *p,
			      uint32_t *eff)
{
	enum ib_pi_kind kind = !r->s->si ? IB_PI_CA : num ? IB_PI_SWITCH_EXT : IB_PI_SWITCH_PORT0;
	const uint32_t link = IB_PI_EFF_LINK_DISABLE | IB_PI_EFF_LINK_DOWN | IB_PI_EFF_LINK_SLEEP;
	const uint8_t state = p->pi->state, phys = p->pi->phys_state;
	const uint32_t due = *p->link_due;
	struct ib_port_info new;
	uint16_t status;

	ib_port_info_unpack(r->out->data, &new);
	/* without this bit the manager does not support extended speeds */
	if (!(r->mod & AM_EXT_SPEEDS))
		new.speed_ext_enabled = 0;
	/* apply the Set as if a previous, pending change of the link had happened */
	if (due)
		ib_port_link_down(p->pi, ib_port_due_phys(due));
	status = ib_port_info_set(p->pi, &new, kind, eff);
	if (due) {
		p->pi->state = state;
		p->pi->phys_state = phys;
	}
	if (*eff & IB_PI_EFF_VLARB)
		p->arb->high_limit = p->pi->vl_high_limit;
	if (*eff & IB_PI_EFF_MKEY)
		p->end->lease_ns = UINT64_MAX;
	if (*eff & link)
		*p->link_due = *eff & link;
	changed(r, num, *eff | IB_SMA_CH_PORT_INFO);
	return status;
}

static uint16_t port_info(struct req *r)
{
	unsigned int num = port_info_num(r);
	uint16_t status = IB_MAD_OK;
	struct ib_port_info show;
	struct ib_sma_port p;
	uint32_t eff = 0;

	if (!port_named(r, num, &p))
		return IB_MAD_BAD_FIELD;
	if (r->set)
		status = set_port_info(r, num, &p, &eff);
	show = *p.pi;
	show.local_port = (uint8_t)r->in->port;
	if (r->hide_mkey)
		show.mkey = 0;
	show.client_reregister = eff & IB_PI_EFF_REREG ? 1 : 0;
	/* show a pending change of the link as done */
	if (*p.link_due)
		ib_port_link_down(&show, ib_port_due_phys(*p.link_due));
	/* as hardware shows a port without a link; parsers of ibnetdiscover -p expect it */
	if (show.state == IB_PS_DOWN) {
		show.speed_active = IB_SPEED_SDR;
		show.speed_ext_active = 0;
	}
	ib_port_info_pack(&show, r->out->data);
	return status;
}

/* MLNXExtendedPortInfo; the modifier contains the port, as for PortInfo. */
static uint16_t mlnx_ext_port_info(struct req *r)
{
	unsigned int num = port_info_num(r);
	uint16_t status = IB_MAD_OK;
	struct ib_sma_port p;
	bool any;

	if (!ib_mlnx_ids(r->s->vendor_id, r->s->device_id))
		return IB_MAD_BAD_METHOD_ATTR;
	if (!port_named(r, num, &p))
		return IB_MAD_BAD_FIELD;
	if (r->set) {
		status = ib_mlnx_epi_set(p.pi, r->out->data, &any);
		changed(r, num, IB_SMA_CH_PORT_INFO | (any ? IB_PI_EFF_WIDTH_SPEED : 0));
	}
	ib_mlnx_epi_get(p.pi, r->out->data);
	return status;
}

static uint16_t sma_lft(struct req *r)
{
	const struct ib_sma *s = r->s;
	uint8_t *at;

	if (r->mod >= s->si->linear_cap / IB_LFT_PER_BLOCK)
		return IB_MAD_BAD_FIELD;
	at = s->ops->lft(s->ctx, r->mod);
	if (r->set) {
		memcpy(at, r->out->data, IB_LFT_PER_BLOCK);
		changed(r, 0, IB_SMA_CH_SWITCH);
	}
	memcpy(r->out->data, at, IB_LFT_PER_BLOCK);
	return IB_MAD_OK;
}

static uint16_t sma_mft(struct req *r)
{
	unsigned int pos = r->mod >> 28, block = r->mod & 0x0fffffff;
	const struct ib_sma *s = r->s;

	if (block >= s->si->mcast_cap / IB_MFT_PER_BLOCK ||
	    pos * IB_MFT_PORTS_PER_MASK > s->num_ports)
		return IB_MAD_BAD_FIELD;
	for (unsigned int i = 0; i < IB_MFT_PER_BLOCK; i++) {
		uint16_t *mask = s->ops->mft(s->ctx, block * IB_MFT_PER_BLOCK + i, pos);

		if (r->set)
			*mask = ib_mft_block_get(r->out->data, i);
		ib_mft_block_put(r->out->data, i, *mask);
	}
	if (r->set)
		changed(r, 0, IB_SMA_CH_SWITCH);
	return IB_MAD_OK;
}

/* Notice: a Get returns the oldest trap that was not repressed, a Set with a trap removes it. */
static uint16_t notice(struct req *r)
{
	struct ib_notice n = { .type = IB_NOTICE_EMPTY };
	const struct ib_trap *t;

	if (r->set) {
		ib_notice_unpack(r->out->data, &n);
		ib_trap_repress(&r->end.end->traps, 0, &n);
		return IB_MAD_OK;
	}
	t = ib_trap_first(&r->end.end->traps);
	if (t) {
		n = t->n;
		n.issuer_lid = r->end.pi->lid;
	}
	ib_notice_pack(&n, r->out->data);
	return IB_MAD_OK;
}

static const struct {
	uint16_t attr;
	bool switches;			/* only switches have it */
	uint16_t (*fn)(struct req *r);
} attrs[] = {
	{ IB_SMP_ATTR_NOTICE, false, notice },
	{ IB_SMP_ATTR_NODE_DESC, false, node_desc },
	{ IB_SMP_ATTR_NODE_INFO, false, sma_node_info },
	{ IB_SMP_ATTR_SWITCH_INFO, true, switch_info },
	{ IB_SMP_ATTR_GUID_INFO, false, guid_info },
	{ IB_SMP_ATTR_PORT_INFO, false, port_info },
	{ IB_SMP_ATTR_PKEY_TABLE, false, pkey_table },
	{ IB_SMP_ATTR_SL2VL, false, sl2vl },
	{ IB_SMP_ATTR_VLARB, false, vlarb },
	{ IB_SMP_ATTR_LFT, true, sma_lft },
	{ IB_SMP_ATTR_MFT, true, sma_mft },
	{ IB_SMP_ATTR_MLNX_EXT_PORT_INFO, false, mlnx_ext_port_info },
};

static uint16_t sma_attribute(struct req *r)
{
	uint16_t attr = ib_be16(r->out->hdr.attr_id);

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(attrs); i++)
		if (attrs[i].attr == attr && (r->s->si || !attrs[i].switches))
			return attrs[i].fn(r);
	return IB_MAD_BAD_METHOD_ATTR;
}

/* ---- M_Keys ---- */

/* An M_Key violation: count it, start the lease, raise trap 256, do not answer. */
static enum ib_sma_verdict mkey_violation(const struct req *r, unsigned int num)
{
	struct ib_sma_port p;
	uint8_t d[54];

	r->s->ops->port(r->s->ctx, num, &p);
	ib_sma_count16(&p.pi->mkey_violations);
	if (p.pi->mkey_lease && p.end->lease_ns == UINT64_MAX)
		p.end->lease_ns = r->in->now_ns + p.pi->mkey_lease * 1000000000ull;
	ib_trap256(d, r->in->slid, r->out);
	ib_sma_trap(r->s, num, IB_NOTICE_SECURITY, IB_TRAP_BAD_MKEY, d, r->in->now_ns);
	return IB_SMA_DISCARD;
}

/*
 * Check the M_Key of the end port that answers and, for PortInfo of another port, of that port.
 * *@bad: the port whose M_Key is violated.
 */
static enum ib_mkey_verdict check_mkeys(const struct req *r, unsigned int *bad)
{
	enum ib_mkey_verdict all = IB_MKEY_OK;
	unsigned int about = r->end_num;

	/* without the M_Key a driver may only read, and the response does not contain the M_Key */
	if (r->in->ignore_mkey && !r->in->from_wire && r->out->hdr.method == IB_METHOD_GET)
		return IB_MKEY_OK_HIDE;
	if (!r->s->si && ib_be16(r->out->hdr.attr_id) == IB_SMP_ATTR_PORT_INFO &&
	    port_info_num(r) <= r->s->num_ports)
		about = port_info_num(r);
	for (unsigned int num = r->end_num;; num = about) {
		enum ib_mkey_verdict v;
		struct ib_sma_port p;

		r->s->ops->port(r->s->ctx, num, &p);
		v = ib_mkey_check(p.pi, r->out);
		if (v == IB_MKEY_BAD) {
			*bad = num;
			return v;
		}
		if (v == IB_MKEY_OK_HIDE)
			all = v;
		else if (p.pi->mkey == ib_be64(r->out->mkey))
			p.end->lease_ns = UINT64_MAX;
		if (num == about)
			return all;
	}
}

/* ---- SMPs ---- */

/*
 * Whether it is for a manager in software: responses, traps and reports, and a Send, which needs no
 * response (13.4.5).
 */
static bool sma_for_manager(const struct ib_mad_hdr *h)
{
	return (h->method & IB_METHOD_RESP) || h->method == IB_METHOD_SEND ||
	       h->method == IB_METHOD_TRAP || h->method == IB_METHOD_REPORT;
}

/* Apply the hop rules to an SMP from the wire. Return: IB_SMA_CONSUMED if it is for this node. */
static enum ib_sma_verdict sma_arrive(const struct ib_sma *s, const struct ib_sma_in *in,
				      struct ib_smp *smp, uint8_t *out_port)
{
	if (!in->from_wire || !ib_smp_is_dr(smp))
		return IB_SMA_CONSUMED;
	switch (ib_dr_recv(smp, s->si, (uint8_t)in->port, s->num_ports, out_port)) {
	case IB_DR_FORWARD:
		return IB_SMA_FORWARD;
	case IB_DR_LOCAL:
		/* a request with D set is invalid */
		return ib_smp_returning(smp) ? IB_SMA_DISCARD : IB_SMA_CONSUMED;
	default:
		return IB_SMA_DISCARD;
	}
}

/* Make the response; to the wire, with its return route. */
static enum ib_sma_verdict sma_reply(const struct ib_sma *s, const struct ib_sma_in *in,
				     struct ib_smp *smp, uint16_t status, uint8_t *out_port)
{
	*out_port = IB_DR_PORT_BY_LID;
	ib_smp_make_resp(smp, status);
	if (!in->from_wire || !ib_smp_is_dr(smp))
		return IB_SMA_REPLY;
	switch (ib_dr_send(smp, s->si, s->num_ports, out_port)) {
	case IB_DR_FORWARD:
		return IB_SMA_REPLY;
	case IB_DR_LOCAL:
		/*
		 * a route without hops: the response leaves by the port that received the request
		 */
		*out_port = (uint8_t)in->port;
		return IB_SMA_REPLY;
	default:
		return IB_SMA_DISCARD;
	}
}

/* Process a request for this node. */
static enum ib_sma_verdict sma_request(struct req *r, uint8_t *out_port)
{
	struct ib_smp *smp = r->out;
	enum ib_mkey_verdict mk;
	struct ib_notice n;
	unsigned int bad;

	if (smp->hdr.base_version != IB_MAD_BASE_VERSION ||
	    smp->hdr.class_version != IB_SMP_CLASS_VERSION)
		return sma_reply(r->s, r->in, smp, IB_MAD_BAD_VERSION, out_port);
	mk = check_mkeys(r, &bad);
	if (mk == IB_MKEY_BAD)
		return mkey_violation(r, bad);
	r->hide_mkey = mk == IB_MKEY_OK_HIDE;
	if (smp->hdr.method == IB_METHOD_TRAP_REPRESS) {
		ib_notice_unpack(smp->data, &n);
		ib_trap_repress(&r->end.end->traps, ib_be64(smp->hdr.tid), &n);
		return IB_SMA_CONSUMED;
	}
	if (smp->hdr.method != IB_METHOD_GET && !r->set)
		return sma_reply(r->s, r->in, smp, IB_MAD_BAD_METHOD, out_port);
	/* a subnet manager runs at this port and answers SMInfo */
	if (ib_be16(smp->hdr.attr_id) == IB_SMP_ATTR_SM_INFO && (r->end.pi->cap_mask & IB_CAP_SM))
		return IB_SMA_UNHANDLED;
	return sma_reply(r->s, r->in, smp, sma_attribute(r), out_port);
}

enum ib_sma_verdict ib_sma_process(const struct ib_sma *s, const struct ib_sma_in *in,
				   struct ib_smp *smp, uint8_t *out_port)
{
	struct req r = {
		.s = s,
		.in = in,
		.out = smp,
		.end_num = end_port(s, in->port),
		.mod = ib_be32(smp->hdr.attr_mod),
		.set = smp->hdr.method == IB_METHOD_SET,
	};
	enum ib_sma_verdict v;

	*out_port = IB_DR_PORT_BY_LID;
	if (!ib_mad_is_smp(&smp->hdr))
		return IB_SMA_UNHANDLED;
	/* in an HCA the manager's software applies the hop rules of returning SMPs */
	if (!s->si && sma_for_manager(&smp->hdr))
		return IB_SMA_UNHANDLED;
	v = sma_arrive(s, in, smp, out_port);
	if (v != IB_SMA_CONSUMED)
		return v;
	if (sma_for_manager(&smp->hdr))
		return IB_SMA_UNHANDLED;
	s->ops->port(s->ctx, r.end_num, &r.end);
	return sma_request(&r, out_port);
}

enum ib_sma_verdict ib_sma_unclaimed(const struct ib_sma *s, const struct ib_sma_in *in,
				     struct ib_smp *smp, uint8_t *out_port)
{
	enum ib_sma_verdict v;

	if (smp->hdr.method != IB_METHOD_GET && smp->hdr.method != IB_METHOD_SET)
		return IB_SMA_DISCARD;
	v = sma_arrive(s, in, smp, out_port);
	if (v != IB_SMA_CONSUMED)
		return v;
	return sma_reply(s, in, smp, IB_MAD_BAD_METHOD_ATTR, out_port);
}

/* ---- traps and time ---- */

bool ib_sma_trap(const struct ib_sma *s, unsigned int num, enum ib_notice_type type,
		 enum ib_trap_num trap, const uint8_t details[54], uint64_t now_ns)
{
	struct ib_sma_port p;
	struct ib_notice n = {
		.generic = 1,
		.type = (uint8_t)type,
		.producer = s->type,
		.trap = (uint16_t)trap,
	};

	s->ops->port(s->ctx, num, &p);
	/* before Active there is no path to the manager, which will sweep the port later */
	if (p.pi->state != IB_PS_ACTIVE || p.pi->sm_lid == 0)
		return false;
	memcpy(n.details, details, sizeof(n.details));
	return ib_trap_post(&p.end->traps, &n, now_ns);
}

uint64_t ib_sma_deadline(const struct ib_sma *s)
{
	uint64_t d = UINT64_MAX;

	for (unsigned int i = first_end(s); i <= last_end(s); i++) {
		struct ib_sma_port p;
		uint64_t t;

		s->ops->port(s->ctx, i, &p);
		t = ib_sma_end_deadline(p.end);
		if (t < d)
			d = t;
	}
	return d;
}

static void send_traps(const struct ib_sma *s, unsigned int num, const struct ib_sma_port *p,
		       uint64_t now_ns)
{
	uint64_t timeout = ib_time_ns(p->pi->subnet_timeout);
	const struct ib_trap *t;
	struct ib_notice n;
	struct ib_smp smp;

	/* each call of ib_trap_due() reschedules one slot to a later time, so the loop ends */
	while ((t = ib_trap_due(&p->end->traps, now_ns, timeout))) {
		n = t->n;
		n.issuer_lid = p->pi->lid;
		ib_trap_build(&smp, t->tid, p->pi->mkey, &n);
		s->ops->send_trap(s->ctx, num, &smp);
	}
}

void ib_sma_timer(const struct ib_sma *s, uint64_t now_ns)
{
	for (unsigned int i = first_end(s); i <= last_end(s); i++) {
		struct ib_sma_port p;

		s->ops->port(s->ctx, i, &p);
		/* the lease has ended: any manager may read the M_Key now (14.2.4.2) */
		if (p.end->lease_ns <= now_ns) {
			p.end->lease_ns = UINT64_MAX;
			p.pi->mkey_prot = 0;
		}
		send_traps(s, i, &p, now_ns);
	}
}
