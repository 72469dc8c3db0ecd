/* SPDX-License-Identifier: GPL-2.0-or-later */
/* PortInfo Set, port states and M_Key checks; see portinfo.h. */
#include "packet.h"
#include "portinfo.h"
#include "rate.h"

#define PI_SPEEDS	IB_SPEED_SET_SUPPORTED		/* bits of LinkSpeedEnabled */
#define PI_EXT_SPEEDS	IB_SPEED_EXT_SET_SUPPORTED	/* bits of LinkSpeedExtEnabled */

/* An enabled mask: 0 keeps the old one, @all enables all supported bits, else a subset of these. */
static bool enable_ok(uint8_t v, uint8_t supported, uint8_t all)
{
	return v == 0 || v == all || (v & ~supported) == 0;
}

static uint8_t enable_value(uint8_t v, uint8_t old, uint8_t supported, uint8_t all)
{
	if (v == 0)
		return old;
	return v == all ? supported : v;
}

/* LinkSpeedExtEnabled in the low bits, LinkSpeedExtEnabled2 above. */
static bool ext_enable_ok(uint8_t v, uint8_t supported)
{
	const uint8_t low = v & PI_EXT_SPEEDS, high = v >> IB_SPEED_EXT2_SHIFT;

	return (low == IB_SPEED_EXT_DISABLE ||
		enable_ok(low, supported & PI_EXT_SPEEDS, IB_SPEED_EXT_SET_SUPPORTED)) &&
	       enable_ok(high, supported >> IB_SPEED_EXT2_SHIFT, IB_SPEED_EXT2_SET_SUPPORTED);
}

static uint8_t ext_enable_value(uint8_t v, const struct ib_port_info *pi)
{
	const uint8_t old = pi->speed_ext_enabled, sup = pi->speed_ext_supported;
	const uint8_t low = v & PI_EXT_SPEEDS;
	uint8_t high = v >> IB_SPEED_EXT2_SHIFT;

	if (low == IB_SPEED_EXT_DISABLE || (!low && old == IB_SPEED_EXT_DISABLE))
		return IB_SPEED_EXT_DISABLE;
	high = enable_value(high, old >> IB_SPEED_EXT2_SHIFT, sup >> IB_SPEED_EXT2_SHIFT,
			    IB_SPEED_EXT2_SET_SUPPORTED);
	return (uint8_t)(enable_value(low, old & PI_EXT_SPEEDS, sup & PI_EXT_SPEEDS,
				      IB_SPEED_EXT_SET_SUPPORTED) | high << IB_SPEED_EXT2_SHIFT);
}

/* Set the enabled widths and speeds. Return: false if one is not supported. */
static bool set_width_speed(struct ib_port_info *pi, const struct ib_port_info *new,
			    uint32_t *eff)
{
	bool ok = true;
	uint8_t v;

	if (enable_ok(new->width_enabled, pi->width_supported, IB_WIDTH_SET_SUPPORTED)) {
		v = enable_value(new->width_enabled, pi->width_enabled, pi->width_supported,
				 IB_WIDTH_SET_SUPPORTED);
		if (v != pi->width_enabled)
			*eff |= IB_PI_EFF_WIDTH_SPEED;
		pi->width_enabled = v;
	} else {
		ok = false;
	}
	/* PortInfo does not define FDR10, so its bit does not change */
	if (enable_ok(new->speed_enabled & PI_SPEEDS, pi->speed_supported & PI_SPEEDS,
		      IB_SPEED_SET_SUPPORTED)) {
		v = enable_value(new->speed_enabled & PI_SPEEDS, pi->speed_enabled & PI_SPEEDS,
				 pi->speed_supported & PI_SPEEDS, IB_SPEED_SET_SUPPORTED);
		v |= pi->speed_enabled & IB_SPEED_FDR10;
		if (v != pi->speed_enabled)
			*eff |= IB_PI_EFF_WIDTH_SPEED;
		pi->speed_enabled = v;
	} else {
		ok = false;
	}
	if (ext_enable_ok(new->speed_ext_enabled, pi->speed_ext_supported)) {
		v = ext_enable_value(new->speed_ext_enabled, pi);
		if (v != pi->speed_ext_enabled)
			*eff |= IB_PI_EFF_WIDTH_SPEED;
		pi->speed_ext_enabled = v;
	} else {
		ok = false;
	}
	return ok;
}

/* Set the components that every kind of port has: MTU, VLs, thresholds. */
static bool set_link(struct ib_port_info *pi, const struct ib_port_info *new,
		     enum ib_pi_kind kind, uint32_t *eff)
{
	bool ok = true;

	if (new->mtu != 0) {
		if (!ib_mtu_bytes(new->mtu) || new->mtu > pi->mtu_cap)
			ok = false;
		else if (new->mtu != pi->mtu) {
			pi->mtu = new->mtu;
			*eff |= IB_PI_EFF_MTU;
		}
	}
	if (new->op_vls != 0) {
		if (!ib_opvls_count(new->op_vls) || new->op_vls > pi->vl_cap)
			ok = false;
		else if (new->op_vls != pi->op_vls) {
			pi->op_vls = new->op_vls;
			*eff |= IB_PI_EFF_VLS;
		}
	}
	if (new->vl_high_limit != pi->vl_high_limit) {
		pi->vl_high_limit = new->vl_high_limit;
		*eff |= IB_PI_EFF_VLARB;
	}
	if (new->down_default > IB_PHYS_POLLING)
		ok = false;
	else if (new->down_default != 0)
		pi->down_default = new->down_default;
	pi->local_phy_errors = new->local_phy_errors;
	pi->overrun_errors = new->overrun_errors;
	if (kind == IB_PI_SWITCH_EXT) {
		pi->vl_stall_count = new->vl_stall_count;
		pi->hoq_life = new->hoq_life;
		if (pi->part_enf_in != new->part_enf_in || pi->part_enf_out != new->part_enf_out ||
		    pi->filter_raw_in != new->filter_raw_in ||
		    pi->filter_raw_out != new->filter_raw_out)
			*eff |= IB_PI_EFF_ENFORCE;
		pi->part_enf_in = new->part_enf_in;
		pi->part_enf_out = new->part_enf_out;
		pi->filter_raw_in = new->filter_raw_in;
		pi->filter_raw_out = new->filter_raw_out;
	}
	return ok;
}

/* Set the components of an end port: LIDs, keys, timeouts. */
static bool set_endport(struct ib_port_info *pi, const struct ib_port_info *new, uint32_t *eff)
{
	bool ok = true;
	uint32_t last = new->lid + (1u << (new->lmc & 7)) - 1;

	if (new->lid != pi->lid || new->lmc != pi->lmc) {
		if (!ib_lid_is_ucast(new->lid) || last > IB_LID_UCAST_MAX ||
		    (new->lid & ((1u << (new->lmc & 7)) - 1))) {
			ok = false;
		} else {
			pi->lid = new->lid;
			pi->lmc = new->lmc;
			*eff |= IB_PI_EFF_LID;
		}
	}
	if (new->sm_lid != pi->sm_lid || new->sm_sl != pi->sm_sl) {
		if (!ib_lid_is_ucast(new->sm_lid)) {
			ok = false;
		} else {
			pi->sm_lid = new->sm_lid;
			pi->sm_sl = new->sm_sl;
			*eff |= IB_PI_EFF_SM;
		}
	}
	if (new->gid_prefix != pi->gid_prefix) {
		pi->gid_prefix = new->gid_prefix;
		*eff |= IB_PI_EFF_GID;
	}
	if (new->mkey != pi->mkey || new->mkey_prot != pi->mkey_prot ||
	    new->mkey_lease != pi->mkey_lease) {
		pi->mkey = new->mkey;
		pi->mkey_prot = new->mkey_prot;
		pi->mkey_lease = new->mkey_lease;
		*eff |= IB_PI_EFF_MKEY;
	}
	/* violation counters: 0 resets them, other values have no effect */
	if (new->mkey_violations == 0)
		pi->mkey_violations = 0;
	if (new->pkey_violations == 0)
		pi->pkey_violations = 0;
	if (new->qkey_violations == 0)
		pi->qkey_violations = 0;
	pi->subnet_timeout = new->subnet_timeout;
	pi->init_type = new->init_type;
	if (pi->cap_mask & IB_CAP_MCAST_PKEY_TRAP_SUP)
		pi->mcast_pkey_trap_sup = new->mcast_pkey_trap_sup;
	if (new->client_reregister && (pi->cap_mask & IB_CAP_CLIENT_REREG))
		*eff |= IB_PI_EFF_REREG;
	return ok;
}

/* Set PortState and PortPhysicalState. Return: false if they are invalid; then nothing changes. */
static bool set_state(struct ib_port_info *pi, const struct ib_port_info *new,
		      enum ib_pi_kind kind, uint32_t *eff)
{
	uint8_t state = new->state, phys = new->phys_state;

	if (phys > IB_PHYS_DISABLED || state > IB_PS_ACTIVE || state == IB_PS_INIT)
		return false;
	if (phys != IB_PHYS_NO_CHANGE && state > IB_PS_DOWN)
		return false;
	/* a switch's management port has no link */
	if (kind == IB_PI_SWITCH_PORT0 && (phys != IB_PHYS_NO_CHANGE || state == IB_PS_DOWN))
		return false;

	switch (state) {
	case IB_PS_NO_CHANGE:
		if (phys == IB_PHYS_NO_CHANGE)
			return true;
		break;
	case IB_PS_DOWN:
		break;
	case IB_PS_ARMED:
		if (pi->state != IB_PS_INIT && pi->state != IB_PS_ARMED)
			return false;
		if (pi->state != state)
			*eff |= IB_PI_EFF_STATE;
		pi->state = state;
		return true;
	default:
		if (pi->state != IB_PS_ARMED && pi->state != IB_PS_ACTIVE)
			return false;
		if (pi->state != state)
			*eff |= IB_PI_EFF_STATE;
		pi->state = state;
		return true;
	}

	if (phys == IB_PHYS_NO_CHANGE && pi->phys_state == IB_PHYS_DISABLED)
		return true;
	/* Down without a physical state: LinkDownDefaultState (14.2.5.6) */
	if (phys == IB_PHYS_NO_CHANGE)
		phys = pi->down_default;
	*eff |= phys == IB_PHYS_DISABLED ? IB_PI_EFF_LINK_DISABLE : IB_PI_EFF_LINK_DOWN;
	if (phys == IB_PHYS_SLEEP)
		*eff |= IB_PI_EFF_LINK_SLEEP;
	return true;
}

uint16_t ib_port_info_set(struct ib_port_info *pi, const struct ib_port_info *new,
			  enum ib_pi_kind kind, uint32_t *effects)
{
	uint32_t eff = 0;
	bool ok = true;

	if (kind != IB_PI_SWITCH_EXT)
		ok &= set_endport(pi, new, &eff);
	if (kind != IB_PI_SWITCH_PORT0)
		ok &= set_width_speed(pi, new, &eff);
	ok &= set_link(pi, new, kind, &eff);
	ok &= set_state(pi, new, kind, &eff);
	*effects = eff;
	return ok ? IB_MAD_OK : IB_MAD_BAD_FIELD;
}

bool ib_port_link_up(struct ib_port_info *pi)
{
	bool was_down = pi->state == IB_PS_DOWN;

	pi->phys_state = IB_PHYS_LINK_UP;
	if (was_down)
		pi->state = IB_PS_INIT;
	return was_down;
}

bool ib_port_link_down(struct ib_port_info *pi, uint8_t phys)
{
	bool was_up = pi->state != IB_PS_DOWN;

	pi->phys_state = phys;
	pi->state = IB_PS_DOWN;
	return was_up;
}

bool ib_port_rx_data(struct ib_port_info *pi)
{
	if (pi->state != IB_PS_ARMED)
		return false;
	pi->state = IB_PS_ACTIVE;
	return true;
}

void ib_port_info_init(struct ib_port_info *pi, const struct ib_port_profile *prof,
		       uint8_t local_port, enum ib_pi_kind kind)
{
	memset(pi, 0, sizeof(*pi));
	pi->local_port = local_port;
	pi->width_enabled = pi->width_supported = prof->width;
	pi->speed_enabled = pi->speed_supported = prof->speed;
	pi->speed_ext_enabled = pi->speed_ext_supported = prof->speed_ext;
	pi->width_active = ib_best_width(prof->width);
	pi->speed_ext_active = ib_best_bit(prof->speed_ext);
	pi->speed_active = ib_best_bit(pi->speed_ext_active ? prof->speed & PI_SPEEDS :
							      prof->speed);
	pi->down_default = IB_PHYS_POLLING;
	pi->state = IB_PS_DOWN;
	pi->phys_state = IB_PHYS_POLLING;
	pi->mtu_cap = pi->mtu = prof->mtu_cap;
	pi->vl_cap = pi->op_vls = prof->vl_cap;
	pi->vlarb_high_cap = pi->vlarb_low_cap = prof->vlarb_cap;
	pi->resp_time = 8;			/* 1 ms */
	pi->subnet_timeout = 18;		/* 1 s */
	pi->local_phy_errors = pi->overrun_errors = 8;
	if (kind != IB_PI_SWITCH_EXT) {
		pi->guid_cap = prof->guid_cap;
		pi->gid_prefix = 0xfe80000000000000ull;
		pi->cap_mask = prof->cap_mask;
		pi->cap_mask2 = prof->cap_mask2;
		if (prof->speed_ext)
			pi->cap_mask |= IB_CAP_EXT_SPEEDS;
		if (prof->speed_ext & IB_SPEED_EXT_HDR)
			pi->cap_mask2 |= IB_CAP2_SPEED_HDR;
		if (prof->speed_ext & IB_SPEED_EXT_NDR)
			pi->cap_mask2 |= IB_CAP2_SPEED_NDR;
		if (prof->speed_ext & IB_SPEED_EXT_XDR)
			pi->cap_mask2 |= IB_CAP2_EXT_SPEEDS2 | IB_CAP2_SPEED_XDR;
		if (prof->width & IB_WIDTH_2X)
			pi->cap_mask2 |= IB_CAP2_WIDTH_2X;
		if (pi->cap_mask2)
			pi->cap_mask |= IB_CAP_CAP_MASK2;
	}
	if (kind == IB_PI_SWITCH_EXT) {
		pi->vl_stall_count = 7;
		pi->hoq_life = 18;		/* 1 s */
	}
	if (kind == IB_PI_SWITCH_PORT0) {
		pi->state = IB_PS_ACTIVE;
		pi->phys_state = IB_PHYS_LINK_UP;
	}
}

int ib_port_negotiate(struct ib_port_info *pi, uint8_t width, uint8_t speed, uint8_t speed_ext,
		      uint8_t mtu_cap, uint8_t vl_cap)
{
	uint8_t w = ib_best_width(pi->width_enabled & width);
	uint8_t s = ib_best_bit(pi->speed_enabled & speed);
	uint8_t e = 0;

	if (pi->speed_ext_enabled != IB_SPEED_EXT_DISABLE && speed_ext != IB_SPEED_EXT_DISABLE)
		e = ib_best_bit(pi->speed_ext_enabled & speed_ext);
	if (e)
		s = ib_best_bit(pi->speed_enabled & speed & PI_SPEEDS);
	if (!w || (!s && !e) || !ib_mtu_bytes(mtu_cap) || !ib_opvls_count(vl_cap))
		return -1;
	pi->width_active = w;
	/* with an extended speed, LinkSpeedActive is the best classic speed */
	pi->speed_active = s ? s : IB_SPEED_SDR;
	pi->speed_ext_active = e;
	pi->mtu = mtu_cap < pi->mtu_cap ? mtu_cap : pi->mtu_cap;
	pi->op_vls = vl_cap < pi->vl_cap ? vl_cap : pi->vl_cap;
	return 0;
}

enum ib_mkey_verdict ib_mkey_check(const struct ib_port_info *pi, const struct ib_smp *s)
{
	bool match = pi->mkey == 0 || pi->mkey == ib_be64(s->mkey);

	switch (s->hdr.method) {
	case IB_METHOD_GET:
		if (match || pi->mkey_prot == 0)
			return IB_MKEY_OK;
		return pi->mkey_prot == 1 ? IB_MKEY_OK_HIDE : IB_MKEY_BAD;
	case IB_METHOD_SET:
	case IB_METHOD_TRAP_REPRESS:
		return match ? IB_MKEY_OK : IB_MKEY_BAD;
	default:
		return IB_MKEY_OK;
	}
}
