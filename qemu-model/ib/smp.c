/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SMP attribute layouts and directed routes; see smp.h. */
#include "field.h"
#include "rate.h"
#include "smp.h"

#define CODEC(fn, type, table)								\
void fn##_pack(const struct type *v, uint8_t d[IB_SMP_DATA_LEN])			\
{											\
	ib_fields_pack(table, IB_ARRAY_SIZE(table), v, d, IB_SMP_DATA_LEN);		\
}											\
void fn##_unpack(const uint8_t d[IB_SMP_DATA_LEN], struct type *v)			\
{											\
	memset(v, 0, sizeof(*v));							\
	ib_fields_unpack(table, IB_ARRAY_SIZE(table), d, v);				\
}

#define NI(member, bit, width) IB_FIELD(ib_node_info, member, bit, width)
static const struct ib_field node_info_fields[] = {
	NI(base_version, 0, 8),
	NI(class_version, 8, 8),
	NI(node_type, 16, 8),
	NI(num_ports, 24, 8),
	NI(sys_guid, 32, 64),
	NI(node_guid, 96, 64),
	NI(port_guid, 160, 64),
	NI(partition_cap, 224, 16),
	NI(device_id, 240, 16),
	NI(revision, 256, 32),
	NI(local_port, 288, 8),
	NI(vendor_id, 296, 24),
};
CODEC(ib_node_info, ib_node_info, node_info_fields)

#define SI(member, bit, width) IB_FIELD(ib_switch_info, member, bit, width)
static const struct ib_field switch_info_fields[] = {
	SI(linear_cap, 0, 16),
	SI(random_cap, 16, 16),
	SI(mcast_cap, 32, 16),
	SI(linear_top, 48, 16),
	SI(def_port, 64, 8),
	SI(def_mcast_primary, 72, 8),
	SI(def_mcast_not_primary, 80, 8),
	SI(life_time, 88, 5),
	SI(port_state_change, 93, 1),
	SI(opt_sl2vl, 94, 2),
	SI(lids_per_port, 96, 16),
	SI(part_enforce_cap, 112, 16),
	SI(inb_enforce_cap, 128, 1),
	SI(outb_enforce_cap, 129, 1),
	SI(filter_raw_in_cap, 130, 1),
	SI(filter_raw_out_cap, 131, 1),
	SI(enhanced_port0, 132, 1),
	SI(mcast_top, 144, 16),
};
CODEC(ib_switch_info, ib_switch_info, switch_info_fields)

void ib_switch_info_init(struct ib_switch_info *v, uint16_t linear_cap, uint16_t mcast_cap,
			 uint16_t pkeys, bool enhanced_port0)
{
	*v = (struct ib_switch_info){
		.linear_cap = linear_cap,
		.mcast_cap = mcast_cap,
		.def_mcast_primary = 0xff,
		.def_mcast_not_primary = 0xff,
		.life_time = 18,
		.opt_sl2vl = 1,
		.part_enforce_cap = pkeys,
		.inb_enforce_cap = 1,
		.outb_enforce_cap = 1,
		.filter_raw_in_cap = 1,
		.filter_raw_out_cap = 1,
		.enhanced_port0 = enhanced_port0,
	};
}

#define PI(member, bit, width) IB_FIELD(ib_port_info, member, bit, width)
static const struct ib_field port_info_fields[] = {
	PI(mkey, 0, 64),
	PI(gid_prefix, 64, 64),
	PI(lid, 128, 16),
	PI(sm_lid, 144, 16),
	PI(cap_mask, 160, 32),
	PI(diag_code, 192, 16),
	PI(mkey_lease, 208, 16),
	PI(local_port, 224, 8),
	PI(width_enabled, 232, 8),
	PI(width_supported, 240, 8),
	PI(width_active, 248, 8),
	PI(speed_supported, 256, 4),
	PI(state, 260, 4),
	PI(phys_state, 264, 4),
	PI(down_default, 268, 4),
	PI(mkey_prot, 272, 2),
	PI(lmc, 277, 3),
	PI(speed_active, 280, 4),
	PI(speed_enabled, 284, 4),
	PI(mtu, 288, 4),
	PI(sm_sl, 292, 4),
	PI(vl_cap, 296, 4),
	PI(init_type, 300, 4),
	PI(vl_high_limit, 304, 8),
	PI(vlarb_high_cap, 312, 8),
	PI(vlarb_low_cap, 320, 8),
	PI(init_type_reply, 328, 4),
	PI(mtu_cap, 332, 4),
	PI(vl_stall_count, 336, 3),
	PI(hoq_life, 339, 5),
	PI(op_vls, 344, 4),
	PI(part_enf_in, 348, 1),
	PI(part_enf_out, 349, 1),
	PI(filter_raw_in, 350, 1),
	PI(filter_raw_out, 351, 1),
	PI(mkey_violations, 352, 16),
	PI(pkey_violations, 368, 16),
	PI(qkey_violations, 384, 16),
	PI(guid_cap, 400, 8),
	PI(client_reregister, 408, 1),
	PI(mcast_pkey_trap_sup, 409, 2),
	PI(subnet_timeout, 411, 5),
	PI(resp_time, 419, 5),
	PI(local_phy_errors, 424, 4),
	PI(overrun_errors, 428, 4),
	PI(max_credit_hint, 432, 16),
	PI(round_trip, 456, 24),
	PI(cap_mask2, 480, 16),
	PI(speed_ext_active, 496, 4),
	PI(speed_ext_supported, 500, 4),
	PI(speed_ext_enabled, 507, 5),
};

/* LinkSpeedExt*2 are the upper bits of the masks. PortInfo does not define FDR10 and shows QDR. */
#define PI_EXT_ACTIVE2		449u, 2u
#define PI_EXT_SUPPORTED2	451u, 2u
#define PI_EXT_ENABLED2		453u, 3u

void ib_port_info_pack(const struct ib_port_info *v, uint8_t d[IB_SMP_DATA_LEN])
{
	ib_fields_pack(port_info_fields, IB_ARRAY_SIZE(port_info_fields), v, d, IB_SMP_DATA_LEN);
	ib_bits_put(d, PI_EXT_ACTIVE2, v->speed_ext_active >> IB_SPEED_EXT2_SHIFT);
	ib_bits_put(d, PI_EXT_SUPPORTED2, v->speed_ext_supported >> IB_SPEED_EXT2_SHIFT);
	ib_bits_put(d, PI_EXT_ENABLED2, v->speed_ext_enabled >> IB_SPEED_EXT2_SHIFT);
	if (v->speed_active == IB_SPEED_FDR10)
		ib_bits_put(d, 280, 4, IB_SPEED_QDR);
}

void ib_port_info_unpack(const uint8_t d[IB_SMP_DATA_LEN], struct ib_port_info *v)
{
	memset(v, 0, sizeof(*v));
	ib_fields_unpack(port_info_fields, IB_ARRAY_SIZE(port_info_fields), d, v);
	v->speed_ext_active |= (uint8_t)(ib_bits_get(d, PI_EXT_ACTIVE2) << IB_SPEED_EXT2_SHIFT);
	v->speed_ext_supported |=
		(uint8_t)(ib_bits_get(d, PI_EXT_SUPPORTED2) << IB_SPEED_EXT2_SHIFT);
	v->speed_ext_enabled |= (uint8_t)(ib_bits_get(d, PI_EXT_ENABLED2) << IB_SPEED_EXT2_SHIFT);
}

#define SM(member, bit, width) IB_FIELD(ib_sm_info, member, bit, width)
static const struct ib_field sm_info_fields[] = {
	SM(guid, 0, 64),
	SM(sm_key, 64, 64),
	SM(act_count, 128, 32),
	SM(priority, 160, 4),
	SM(state, 164, 4),
};
CODEC(ib_sm_info, ib_sm_info, sm_info_fields)

#define NT(member, bit, width) IB_FIELD(ib_notice, member, bit, width)
static const struct ib_field notice_fields[] = {
	NT(generic, 0, 1),
	NT(type, 1, 7),
	NT(producer, 8, 24),
	NT(trap, 32, 16),
	NT(issuer_lid, 48, 16),
	NT(toggle, 64, 1),
	NT(count, 65, 15),
	NT(details, 80, 54 * 8),
};
CODEC(ib_notice, ib_notice, notice_fields)

void ib_sl2vl_pack(const struct ib_sl2vl *t, uint8_t d[IB_SMP_DATA_LEN])
{
	memset(d, 0, IB_SMP_DATA_LEN);
	for (unsigned int i = 0; i < IB_NUM_SLS; i += 2)
		d[i / 2] = (uint8_t)(t->vl[i] << 4 | (t->vl[i + 1] & 15));
}

void ib_sl2vl_unpack(const uint8_t d[IB_SMP_DATA_LEN], struct ib_sl2vl *t)
{
	for (unsigned int i = 0; i < IB_NUM_SLS; i += 2) {
		t->vl[i] = d[i / 2] >> 4;
		t->vl[i + 1] = d[i / 2] & 15;
	}
}

void ib_vlarb_block_pack(const struct ib_vlarb_entry e[IB_VLARB_BLOCK],
			 uint8_t d[IB_SMP_DATA_LEN])
{
	for (unsigned int i = 0; i < IB_VLARB_BLOCK; i++) {
		d[2 * i] = e[i].vl & 15;
		d[2 * i + 1] = e[i].weight;
	}
}

void ib_vlarb_block_unpack(const uint8_t d[IB_SMP_DATA_LEN],
			   struct ib_vlarb_entry e[IB_VLARB_BLOCK])
{
	for (unsigned int i = 0; i < IB_VLARB_BLOCK; i++) {
		e[i].vl = d[2 * i] & 15;
		e[i].weight = d[2 * i + 1];
	}
}

/* ---- directed routes ---- */

static enum ib_dr_verdict forward(uint8_t port, uint8_t nports, uint8_t *out_port)
{
	if (port == 0 || port > nports)
		return IB_DR_DISCARD;
	*out_port = port;
	return IB_DR_FORWARD;
}

static enum ib_dr_verdict by_lid(bool is_switch, uint8_t *out_port)
{
	if (!is_switch)
		return IB_DR_DISCARD;
	*out_port = IB_DR_PORT_BY_LID;
	return IB_DR_FORWARD;
}

static enum ib_dr_verdict recv_outgoing(struct ib_smp *s, bool is_switch, uint8_t in_port,
					uint8_t nports, uint8_t *out_port)
{
	uint8_t ptr = ib_smp_hop_ptr(s), cnt = ib_smp_hop_cnt(s);

	if (cnt && ptr == 0) {
		/* without a LID routed part the sender must have set the hop pointer to 1 */
		if (!is_switch || !ib_smp_begins_by_lid(s))
			return IB_DR_DISCARD;
		/* the LID routed part ends and the directed part begins at this switch */
		ib_smp_set_hops(s, 1, cnt);
		return forward(s->init_path[1], nports, out_port);
	}
	if (ptr < cnt) {
		if (!is_switch)
			return IB_DR_DISCARD;
		s->ret_path[ptr] = in_port;
		ptr++;
		ib_smp_set_hops(s, ptr, cnt);
		return forward(s->init_path[ptr], nports, out_port);
	}
	if (ptr == cnt) {
		if (cnt)
			s->ret_path[ptr] = in_port;
		ib_smp_set_hops(s, (uint8_t)(ptr + 1), cnt);
		if (ib_be16(s->dr_dlid) == 0xffff)
			return IB_DR_LOCAL;
		return by_lid(is_switch, out_port);
	}
	return ptr == cnt + 1 ? IB_DR_LOCAL : IB_DR_DISCARD;
}

static enum ib_dr_verdict recv_returning(struct ib_smp *s, bool is_switch, uint8_t nports,
					 uint8_t *out_port)
{
	uint8_t ptr = ib_smp_hop_ptr(s), cnt = ib_smp_hop_cnt(s);

	if (ptr == 0)
		return IB_DR_LOCAL;
	/* beyond the hop count only a LID routed part is valid */
	if (ptr > cnt && !ib_smp_ends_by_lid(s))
		return IB_DR_DISCARD;
	ptr--;
	ib_smp_set_hops(s, ptr, cnt);
	if (ptr >= 1)
		return is_switch ? forward(s->ret_path[ptr], nports, out_port) : IB_DR_DISCARD;
	if (ib_be16(s->dr_slid) == 0xffff)
		return IB_DR_LOCAL;
	return by_lid(is_switch, out_port);
}

enum ib_dr_verdict ib_dr_recv(struct ib_smp *s, bool is_switch, uint8_t in_port, uint8_t nports,
			      uint8_t *out_port)
{
	*out_port = 0;
	if (ib_smp_hop_cnt(s) >= IB_SMP_MAX_HOPS)
		return IB_DR_DISCARD;
	if (ib_smp_returning(s))
		return recv_returning(s, is_switch, nports, out_port);
	return recv_outgoing(s, is_switch, in_port, nports, out_port);
}

enum ib_dr_verdict ib_dr_send(struct ib_smp *s, bool is_switch, uint8_t nports,
			      uint8_t *out_port)
{
	uint8_t ptr = ib_smp_hop_ptr(s), cnt = ib_smp_hop_cnt(s);

	*out_port = 0;
	if (cnt >= IB_SMP_MAX_HOPS)
		return IB_DR_DISCARD;
	if (!ib_smp_returning(s)) {
		if (ptr != 0)
			return IB_DR_DISCARD;
		ib_smp_set_hops(s, 1, cnt);
		if (cnt)
			return forward(s->init_path[1], nports, out_port);
		/* no directed hops: local unless a LID routed part follows */
		if (ib_be16(s->dr_dlid) == 0xffff)
			return IB_DR_LOCAL;
		*out_port = IB_DR_PORT_BY_LID;
		return IB_DR_FORWARD;
	}
	if (ptr == 0 || ptr != cnt + 1)
		return IB_DR_DISCARD;
	/* the switch at the end of the LID routed part changes the hop pointer */
	if (ib_smp_ends_by_lid(s)) {
		*out_port = IB_DR_PORT_BY_LID;
		return IB_DR_FORWARD;
	}
	ptr--;
	ib_smp_set_hops(s, ptr, cnt);
	if (ptr)
		return forward(s->ret_path[ptr], nports, out_port);
	if (ib_be16(s->dr_slid) == 0xffff)
		return IB_DR_LOCAL;
	return by_lid(is_switch, out_port);
}

void ib_smp_make_resp(struct ib_smp *s, uint16_t status)
{
	if (ib_smp_is_dr(s))
		status |= IB_SMP_DIRECTION;
	ib_mad_make_resp(&s->hdr, status);
	s->mkey = ib_to_be64(0);
}

/* ---- notices ---- */

void ib_trap128(uint8_t d[54], uint16_t lid)
{
	memset(d, 0, 54);
	ib_put_be16(d, lid);
}

void ib_trap129_131(uint8_t d[54], uint16_t lid, uint8_t port)
{
	memset(d, 0, 54);
	ib_put_be16(d + 2, lid);
	d[4] = port;
}

void ib_trap144(uint8_t d[54], uint16_t lid, uint32_t cap_mask, uint16_t changes,
		uint16_t cap_mask2)
{
	memset(d, 0, 54);
	ib_put_be16(d + 2, lid);
	d[5] = changes ? 1 : 0;
	ib_put_be32(d + 6, cap_mask);
	ib_put_be16(d + 10, changes);
	ib_put_be16(d + 12, cap_mask2);
}

void ib_trap256(uint8_t d[54], uint16_t slid, const struct ib_smp *s)
{
	memset(d, 0, 54);
	ib_put_be16(d + 2, slid);
	d[6] = s->hdr.method;
	memcpy(d + 8, &s->hdr.attr_id, 2);
	memcpy(d + 10, &s->hdr.attr_mod, 4);
	memcpy(d + 14, &s->mkey, 8);
	if (ib_smp_is_dr(s)) {
		uint8_t hops = ib_smp_hop_cnt(s) & 0x3f;
		size_t n = hops + 1u;

		memcpy(d + 4, &s->dr_slid, 2);
		d[23] = 0x80 | hops;			/* DRNotice, DRHopCount */
		if (n > 30) {
			d[23] |= 0x40;			/* DRPathTruncated */
			n = 30;
		}
		memcpy(d + 24, s->ret_path, n);
	}
}

static uint8_t *put_violation(uint8_t *d, const struct ib_key_violation *v)
{
	ib_put_be32(d, (uint32_t)(v->sl & 15) << 28 | (v->qp1 & 0xffffff));
	ib_put_be32(d + 4, v->qp2 & 0xffffff);
	memcpy(d + 8, v->gid1, 16);
	memcpy(d + 24, v->gid2, 16);
	return d + 40;
}

void ib_trap257_258(uint8_t d[54], const struct ib_key_violation *v)
{
	memset(d, 0, 54);
	ib_put_be16(d + 2, v->lid1);
	ib_put_be16(d + 4, v->lid2);
	ib_put_be32(d + 6, v->key);
	put_violation(d + 10, v);
}

void ib_trap259(uint8_t d[54], const struct ib_key_violation *v)
{
	uint8_t *p;

	memset(d, 0, 54);
	ib_put_be16(d, v->data_valid);
	ib_put_be16(d + 2, v->lid1);
	ib_put_be16(d + 4, v->lid2);
	ib_put_be16(d + 6, (uint16_t)v->key);
	p = put_violation(d + 8, v);
	ib_put_be16(p, v->sw_lid);
	p[2] = v->port;
}

void ib_trap_build(struct ib_smp *s, uint64_t tid, uint64_t mkey, const struct ib_notice *n)
{
	memset(s, 0, sizeof(*s));
	s->hdr.base_version = IB_MAD_BASE_VERSION;
	s->hdr.mgmt_class = IB_CLASS_SUBN_LID;
	s->hdr.class_version = IB_SMP_CLASS_VERSION;
	s->hdr.method = IB_METHOD_TRAP;
	s->hdr.tid = ib_to_be64(tid);
	s->hdr.attr_id = ib_to_be16(IB_SMP_ATTR_NOTICE);
	s->mkey = ib_to_be64(mkey);
	ib_notice_pack(n, s->data);
}
