// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The subnet management agent of a switch (IBTA volume 1, 14.2.5, 18.2.5).
 *
 * Every Get and Set is answered; what is not there with IB_MAD_BAD_METHOD_ATTR.
 */
#include "switch.h"

#include <string.h>

#define VENDOR_ID	0x525400u	/* as the HCA's: the OUI of QEMU/KVM */
#define DEVICE_ID	0x0ca8u

/**
 * struct req - one request being answered
 * @sw: the switch
 * @in: port it came by
 * @set: Set, else Get
 * @hide: M_Key must read as zero
 * @mod: AttributeModifier
 * @d: attribute, in and out
 */
struct req {
	struct sw *sw;
	unsigned int in;
	bool set;
	bool hide;
	uint32_t mod;
	uint8_t *d;
};

static uint16_t node_desc(struct req *r)
{
	if (r->set)
		return IB_MAD_BAD_METHOD_ATTR;
	memcpy(r->d, r->sw->cfg.desc, IB_SMP_DATA_LEN);
	return IB_MAD_OK;
}

static uint16_t node_info(struct req *r)
{
	const struct ib_node_info ni = {
		.base_version = IB_MAD_BASE_VERSION,
		.class_version = IB_SMP_CLASS_VERSION,
		.node_type = IB_NODE_SWITCH_DEVICE,
		.num_ports = (uint8_t)r->sw->nports,
		.sys_guid = r->sw->cfg.sys_guid,
		.node_guid = r->sw->cfg.node_guid,
		.port_guid = r->sw->cfg.node_guid,
		.partition_cap = SW_PKEYS,
		.device_id = DEVICE_ID,
		.revision = 1,
		.local_port = (uint8_t)r->in,
		.vendor_id = VENDOR_ID,
	};

	if (r->set)
		return IB_MAD_BAD_METHOD_ATTR;
	ib_node_info_pack(&ni, r->d);
	return IB_MAD_OK;
}

static uint16_t switch_info(struct req *r)
{
	struct ib_switch_info *si = &r->sw->si, n;
	uint16_t status = IB_MAD_OK;

	if (r->set) {
		ib_switch_info_unpack(r->d, &n);
		if (n.linear_top >= SW_LFT_CAP)
			status = IB_MAD_BAD_FIELD;
		else
			si->linear_top = n.linear_top;
		if (n.mcast_top && (n.mcast_top < IB_LID_MCAST_MIN - 1 ||
				    n.mcast_top >= IB_LID_MCAST_MIN + SW_MFT_CAP))
			status = IB_MAD_BAD_FIELD;
		else
			si->mcast_top = n.mcast_top;
		si->def_port = n.def_port;
		si->def_mcast_primary = n.def_mcast_primary;
		si->def_mcast_not_primary = n.def_mcast_not_primary;
		si->life_time = n.life_time;
		if (n.port_state_change)
			si->port_state_change = 0;
	}
	ib_switch_info_pack(si, r->d);
	return status;
}

static uint16_t guid_info(struct req *r)
{
	struct sw *sw = r->sw;

	if (r->mod != 0)
		return IB_MAD_BAD_FIELD;
	for (unsigned int i = 0; i < SW_GUIDS; i++) {
		if (r->set && i)	/* the first is read only */
			sw->guids[i] = ib_guid_block_get(r->d, i);
		ib_guid_block_put(r->d, i, sw->guids[i]);
	}
	return IB_MAD_OK;
}

static uint16_t port_info(struct req *r)
{
	unsigned int n = r->mod & 0xff;
	uint16_t status = IB_MAD_OK;
	struct sw *sw = r->sw;
	struct ib_port_info pi, new;
	struct sw_port *p;
	uint32_t eff;

	if (n > sw->nports)
		return IB_MAD_BAD_FIELD;
	p = &sw->port[n];
	if (r->set) {
		ib_port_info_unpack(r->d, &new);
		/* Only an SM that says so knows the extended speeds. */
		if (!(r->mod >> 31))
			new.speed_ext_enabled = p->pi.speed_ext_enabled;
		status = ib_port_info_set(&p->pi, &new, n ? IB_PI_SWITCH_EXT :
					  IB_PI_SWITCH_PORT0, &eff);
		if (n)
			p->pending_eff |= eff & (IB_PI_EFF_LINK_DOWN | IB_PI_EFF_LINK_DISABLE);
		if (eff & IB_PI_EFF_MKEY)
			sw->mkey_expires_ns = 0;
		sw_port_changed(sw, p);
	}
	pi = p->pi;
	pi.local_port = (uint8_t)r->in;
	/* What is about to happen to the link; see sw_link_effects(). */
	if (p->pending_eff) {
		pi.state = IB_PS_DOWN;
		pi.phys_state = p->pending_eff & IB_PI_EFF_LINK_DISABLE ? IB_PHYS_DISABLED :
				IB_PHYS_POLLING;
	}
	if (r->hide)
		pi.mkey = 0;
	ib_port_info_pack(&pi, r->d);
	return status;
}

static uint16_t pkey_table(struct req *r)
{
	unsigned int block = r->mod & 0xffff, n = r->mod >> 16;
	const uint16_t *pkeys;

	if (block >= SW_PKEY_BLOCKS || n > r->sw->nports)
		return IB_MAD_BAD_FIELD;
	if (r->set)
		sw_set_pkeys(&r->sw->port[n], block, r->d);
	pkeys = &r->sw->port[n].pkeys[block * IB_PKEYS_PER_BLOCK];
	for (unsigned int i = 0; i < IB_PKEYS_PER_BLOCK; i++)
		ib_pkey_block_put(r->d, i, pkeys[i]);
	return IB_MAD_OK;
}

static uint16_t sl2vl(struct req *r)
{
	unsigned int in = r->mod >> 8 & 0xff, out = r->mod & 0xff;
	struct ib_sl2vl *t;

	if (r->mod >> 16 || in > r->sw->nports || out > r->sw->nports)
		return IB_MAD_BAD_FIELD;
	t = sw_sl2vl(r->sw, in, out);
	if (r->set) {
		ib_sl2vl_unpack(r->d, t);
		r->sw->port[out].sl2vl_set = true;
	}
	ib_sl2vl_pack(t, r->d);
	return IB_MAD_OK;
}

static uint16_t vlarb(struct req *r)
{
	unsigned int block = r->mod >> 16, n = r->mod & 0xffff;
	struct ib_vlarb_entry e[IB_VLARB_BLOCK];
	struct sw_port *p;

	if (n > r->sw->nports)
		return IB_MAD_BAD_FIELD;
	p = &r->sw->port[n];
	if (r->set) {
		ib_vlarb_block_unpack(r->d, e);
		if (ib_vlarb_set_block(&p->arb, block, e))
			return IB_MAD_BAD_FIELD;
		sw_port_changed(r->sw, p);
	}
	if (ib_vlarb_get_block(&p->arb, block, e))
		return IB_MAD_BAD_FIELD;
	ib_vlarb_block_pack(e, r->d);
	return IB_MAD_OK;
}

static uint16_t lft(struct req *r)
{
	uint8_t *at;

	if (r->mod >= SW_LFT_CAP / IB_LFT_PER_BLOCK)
		return IB_MAD_BAD_FIELD;
	at = r->sw->lft + r->mod * IB_LFT_PER_BLOCK;
	if (r->set)
		memcpy(at, r->d, IB_LFT_PER_BLOCK);
	memcpy(r->d, at, IB_LFT_PER_BLOCK);
	return IB_MAD_OK;
}

static uint16_t mft(struct req *r)
{
	unsigned int pos = r->mod >> 28, first = (r->mod & 0x0fffffff) * IB_MFT_PER_BLOCK;

	if ((r->mod & 0x0fffffff) >= SW_MFT_CAP / IB_MFT_PER_BLOCK ||
	    pos * IB_MFT_PORTS_PER_MASK > r->sw->nports)
		return IB_MAD_BAD_FIELD;
	for (unsigned int i = 0; i < IB_MFT_PER_BLOCK; i++) {
		if (r->set)
			r->sw->mft[first + i][pos] = ib_mft_block_get(r->d, i);
		ib_mft_block_put(r->d, i, r->sw->mft[first + i][pos]);
	}
	return IB_MAD_OK;
}

static uint16_t notice_attr(struct req *r)
{
	struct ib_notice n = { .type = IB_NOTICE_EMPTY };
	const struct ib_trap *t;

	if (r->set)
		return IB_MAD_BAD_METHOD_ATTR;
	t = ib_trap_first(&r->sw->traps);
	ib_notice_pack(t ? &t->n : &n, r->d);
	return IB_MAD_OK;
}

static uint16_t attribute(struct req *r, uint16_t id)
{
	switch (id) {
	case IB_SMP_ATTR_NOTICE:
		return notice_attr(r);
	case IB_SMP_ATTR_NODE_DESC:
		return node_desc(r);
	case IB_SMP_ATTR_NODE_INFO:
		return node_info(r);
	case IB_SMP_ATTR_SWITCH_INFO:
		return switch_info(r);
	case IB_SMP_ATTR_GUID_INFO:
		return guid_info(r);
	case IB_SMP_ATTR_PORT_INFO:
		return port_info(r);
	case IB_SMP_ATTR_PKEY_TABLE:
		return pkey_table(r);
	case IB_SMP_ATTR_SL2VL:
		return sl2vl(r);
	case IB_SMP_ATTR_VLARB:
		return vlarb(r);
	case IB_SMP_ATTR_LFT:
		return lft(r);
	case IB_SMP_ATTR_MFT:
		return mft(r);
	default:
		return IB_MAD_BAD_METHOD_ATTR;
	}
}

static bool bad_mkey(struct sw *sw, uint16_t slid, const struct ib_smp *smp)
{
	struct ib_port_info *pi = &sw->port[0].pi;
	uint8_t details[54];

	pi->mkey_violations += pi->mkey_violations != 0xffff;
	if (pi->mkey_lease && !sw->mkey_expires_ns)
		sw->mkey_expires_ns = sw_now(sw) + pi->mkey_lease * 1000000000ull;
	ib_trap256(details, slid, smp);
	sw_trap(sw, IB_NOTICE_SECURITY, IB_TRAP_BAD_MKEY, details);
	sw->mads_dropped++;
	return false;
}

bool sw_sma(struct sw *sw, unsigned int in, uint16_t slid, struct ib_smp *smp)
{
	struct req r = {
		.sw = sw,
		.in = in,
		.mod = ib_be32(smp->hdr.attr_mod),
		.d = smp->data,
	};
	uint8_t method = smp->hdr.method;
	struct ib_notice notice;
	uint16_t status;

	/* Answers, traps and reports are for managers. */
	if (method & IB_METHOD_RESP || method == IB_METHOD_TRAP || method == IB_METHOD_REPORT) {
		sw->mads_dropped++;
		return false;
	}
	if (smp->hdr.base_version != IB_MAD_BASE_VERSION ||
	    smp->hdr.class_version != IB_SMP_CLASS_VERSION) {
		ib_smp_make_resp(smp, IB_MAD_BAD_VERSION);
		return true;
	}
	switch (ib_mkey_check(&sw->port[0].pi, smp)) {
	case IB_MKEY_BAD:
		return bad_mkey(sw, slid, smp);
	case IB_MKEY_OK_HIDE:
		r.hide = true;
		break;
	case IB_MKEY_OK:
		/* Who knows the key keeps the lease; others may ask, too, but do not. */
		if (sw->port[0].pi.mkey == ib_be64(smp->mkey))
			sw->mkey_expires_ns = 0;
		break;
	}
	if (method == IB_METHOD_TRAP_REPRESS) {
		ib_notice_unpack(smp->data, &notice);
		ib_trap_repress(&sw->traps, ib_be64(smp->hdr.tid), &notice);
		return false;
	}
	if (method == IB_METHOD_GET || method == IB_METHOD_SET) {
		r.set = method == IB_METHOD_SET;
		status = attribute(&r, ib_be16(smp->hdr.attr_id));
		if (r.set)
			sw->epoch++;
	} else {
		status = IB_MAD_BAD_METHOD;
	}
	ib_smp_make_resp(smp, status);
	return true;
}
