// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decisions on data packets at a switch (IBTA volume 1, 18.2.4): checks, partitions, the forwarding
 * tables, SL to VL. A router may forward a packet to another subnet. At any other node a packet has
 * arrived.
 */
#include "decide.h"
#include "adaptive.h"
#include "clock.h"
#include "gsi.h"
#include "route.h"
#include "to_watch.h"
#include "wait.h"

#include <string.h>

#include "ib/crc.h"

static enum fab_kind relay_error(struct fab_data *d, struct fab_dport *in, uint64_t *detail,
				 enum fab_drop why)
{
	in->ctr->rcv_switch_relay_errors++;
	++*detail;
	return fab_dropped(d, why);
}

static enum fab_kind frame_malformed(struct fab_data *d, struct fab_dport *in)
{
	in->ctr->rcv_errors++;
	in->ctr->rcv_malformed++;
	return fab_dropped(d, FAB_DROP_MALFORMED);
}

/* Count the entries of the P_KeyTable of @dp, up to the last valid one. */
static void count_pkeys(struct fab_dport *dp)
{
	dp->num_pkeys = dp->is_switch ? FAB_SW_PKEYS : FAB_CA_PKEYS;
	while (dp->num_pkeys && !(dp->pkeys[dp->num_pkeys - 1] & IB_PKEY_BASE_MASK))
		dp->num_pkeys--;
}

bool fab_pkey_in_table(struct fab_dport *dp, uint16_t pkey, bool inbound)
{
	if (fab_unlikely(dp->num_pkeys == FAB_PKEYS_UNKNOWN))
		count_pkeys(dp);
	for (unsigned int i = 0; i < dp->num_pkeys; i++)
		if (inbound ? ib_pkey_sends(dp->pkeys[i], pkey) : ib_pkey_match(dp->pkeys[i], pkey))
			return true;
	return false;
}

static void trap_pkey(struct fab_data *d, const struct fab_dport *dp, const struct fab_frame *f,
		      uint16_t pkey, unsigned int bth)
{
	const uint32_t end = fab_end_port(d->f, dp->p);
	struct ib_key_violation v = {
		.lid1 = ib_get_be16(f->lrh + 6),
		.lid2 = ib_get_be16(f->lrh + 2),
		.key = pkey,
		.sl = f->lrh[1] >> 4,
		.sw_lid = d->f->port[end].pi.lid,
		.port = dp->num,
		.data_valid = 0x0007,		/* LIDs, P_Key, SL and QP */
	};
	uint8_t details[54], qp[4];

	memcpy(qp, f->data + bth + 4, sizeof(qp));
	v.qp2 = ib_get_be32(qp) & IB_QPN_MASK;
	ib_trap259(details, &v);
	d->m->now_ns = fab_data_clock(d);
	fab_raise_trap(d->m, dp->p, IB_NOTICE_SECURITY, IB_TRAP_BAD_PKEY_SWITCH, details);
}

/* Check the P_Key and raw filters of one port, on input or output. Return: whether @f passes. */
static bool admit(struct fab_data *d, struct fab_dport *dp, struct fab_frame *f, bool inbound)
{
	const struct ib_port_info *pi = &d->f->port[dp->p].pi;
	const unsigned int lnh = f->lrh[1] & 3;
	const unsigned int bth = IB_LRH_LEN + (lnh == IB_LNH_IBA_GLOBAL ? IB_GRH_LEN : 0);
	uint64_t *errors = inbound ? &dp->ctr->rcv_constraint_errors :
				     &dp->ctr->xmit_constraint_errors;

	if (lnh < IB_LNH_IBA_LOCAL) {
		if (inbound ? !pi->filter_raw_in : !pi->filter_raw_out)
			return true;
		++*errors;
		return false;
	}
	if (inbound ? !pi->part_enf_in : !pi->part_enf_out)
		return true;
	if (!f->patch) {
		/* the copy is checked and forwarded: the peer may change the original */
		f->patch = (uint8_t)(bth + 2);
		memcpy(f->pkey, f->data + bth + 2, 2);
	}
	if (fab_pkey_in_table(dp, ib_get_be16(f->pkey), inbound))
		return true;
	++*errors;
	trap_pkey(d, dp, f, ib_get_be16(f->pkey), bth);
	return false;
}

int fab_mcast_vl(const struct fab_data *d, const struct fab_dport *in, const struct fab_lane *l,
		 const struct fab_dport *out)
{
	const struct fab_node *n = &d->f->node[d->f->port[in->p].node];

	return ib_sl2vl_lookup(fab_sl2vl(d->f, n, in->num, out->num), l->f.lrh[1] >> 4, out->nvls);
}

/*
 * Whether @f can leave by @out. On success *@ovl is its lane there, and *@looks whether the output
 * filters by P_Keys or raw packets.
 */
static bool can_leave(struct fab_data *d, struct fab_dport *in, struct fab_frame *f,
		      struct fab_dport *out, uint8_t *ovl, bool *looks)
{
	const struct fab_node *n = &d->f->node[d->f->port[in->p].node];
	const struct ib_port_info *pi = &d->f->port[out->p].pi;
	int vl;

	if (fab_unlikely(!out->up || !out->active)) {
		fab_discard(d, out, &out->ctr->xmit_inactive_discards, FAB_DROP_INACTIVE);
		return false;
	}
	if (fab_unlikely(f->len > out->max_len)) {
		fab_discard(d, out, &out->ctr->xmit_mtu_discards, FAB_DROP_MTU);
		return false;
	}
	vl = ib_sl2vl_lookup(fab_sl2vl(d->f, n, in->num, out->num), f->lrh[1] >> 4, out->nvls);
	if (fab_unlikely(vl < 0)) {
		relay_error(d, in, &in->ctr->rcv_vl_mapping, FAB_DROP_VL);
		return false;
	}
	*looks = pi->part_enf_out || pi->filter_raw_out;
	if (fab_unlikely(*looks && !admit(d, out, f, false))) {
		fab_dropped(d, FAB_DROP_FILTER);
		return false;
	}
	if (fab_unlikely(out->stalled >> vl & 1)) {
		fab_hoq_discard(d, out, (unsigned int)vl);
		return false;
	}
	*ovl = (uint8_t)vl;
	return true;
}

void fab_mcast_ports(const struct fab *f, const struct fab_node *n, unsigned int in, uint16_t mlid,
		     uint64_t mc[4])
{
	const struct fab_switch *sw = &f->sw[n->sw];
	const unsigned int entry = mlid - IB_LID_MCAST_MIN, block = entry / IB_MFT_PER_BLOCK;
	const uint16_t *mask;
	unsigned int port;

	memset(mc, 0, 4 * sizeof(*mc));
	if (entry < FAB_MFT_CAP && (!sw->si.mcast_top || mlid <= sw->si.mcast_top)) {
		if (!sw->mft || !sw->mft[block])
			return;
		mask = &sw->mft[block][entry % IB_MFT_PER_BLOCK * sw->mft_positions];
		for (unsigned int pos = 0; pos < sw->mft_positions; pos++)
			mc[pos / 4] |= (uint64_t)mask[pos] << (pos % 4 * 16);
		return;
	}
	port = in == sw->si.def_mcast_primary ? sw->si.def_mcast_not_primary :
						sw->si.def_mcast_primary;
	if (port && port <= n->nports)
		mc[port / 64] |= 1ull << (port % 64);
}

static enum fab_kind decide_mcast(struct fab_data *d, struct fab_dport *in, struct fab_lane *l,
				  const struct fab_node *n, uint16_t dlid)
{
	unsigned int members = 0;
	uint8_t ovl;
	bool looks;

	fab_mcast_ports(d->f, n, in->num, dlid, l->mc);
	fab_clear_output(l, in->num);
	for (int i = -1; (i = fab_next_output(l, i)) >= 0;) {
		const unsigned int num = (unsigned int)i;
		struct fab_dport *out = NULL;

		/* port 0 consumes no multicast packets */
		if (!num || num > n->nports) {
			fab_clear_output(l, num);
			continue;
		}
		members++;
		out = fab_dport(d, fab_port_of(n, num));
		if (out && out->up && can_leave(d, in, &l->f, out, &ovl, &looks))
			continue;
		fab_clear_output(l, num);
		if (!out)
			fab_dropped(d, FAB_DROP_MEMORY);
		else if (!out->up)
			fab_dropped(d, FAB_DROP_NO_LINK);
		if (out && fab_unlikely(out->tap))
			fab_capture_frame(d, out, &l->f, l->f.vl, true, d->why);
		/* a drop was counted: do not decide again */
		l->started = true;
	}
	if (!members)
		return fab_dropped(d, FAB_DROP_NO_MEMBER);
	l->forks = (uint8_t)(members - 1);
	d->n.forks += l->forks;
	return fab_next_output(l, -1) >= 0 ? FAB_HEAD_MCAST : FAB_HEAD_DROP;
}

bool fab_damaged(struct fab_data *d, struct fab_dport *in, const uint8_t *data, uint32_t len,
		 uint16_t flags, uint16_t vcrc)
{
	if (flags & OHCA_FRAME_EBP) {
		in->ctr->rcv_remote_phys_errors++;
	} else if ((flags & OHCA_FRAME_VCRC) && ib_vcrc(data, len) != vcrc) {
		in->ctr->rcv_errors++;
		in->ctr->rcv_local_phys_errors++;
	} else {
		return false;
	}
	fab_dropped(d, FAB_DROP_DAMAGED);
	return true;
}

static bool is_malformed(const struct fab_dport *in, const struct fab_frame *f, uint16_t dlid)
{
	const unsigned int lnh = f->lrh[1] & 3;
	const uint32_t bth = IB_LRH_LEN + (lnh == IB_LNH_IBA_GLOBAL ? IB_GRH_LEN : 0);

	return f->lrh[0] != f->vl << 4 || 4u * (ib_get_be16(f->lrh + 4) & 0x7ff) != f->len ||
	       !dlid || dlid == IB_LID_PERMISSIVE || f->len > in->max_len ||
	       (lnh >= IB_LNH_IBA_LOCAL && f->len < bth + IB_BTH_LEN + IB_ICRC_LEN);
}

/* Whether @in filters arriving packets by P_Keys or raw packets. */
static bool in_looks(const struct fab_data *d, const struct fab_dport *in)
{
	const struct ib_port_info *pi = &d->f->port[in->p].pi;

	return pi->part_enf_in || pi->filter_raw_in;
}

/* The cache entry for the output to @dlid of packets that arrive by @in. */
static struct fab_outlet *outlet_of(struct fab_dport *in, uint16_t dlid)
{
	return &in->outlet[dlid % FAB_OUTLETS];
}

static enum fab_kind decide_ucast(struct fab_data *d, struct fab_dport *in, struct fab_lane *l,
				  const struct fab_node *n, uint16_t dlid)
{
	const bool adaptive = d->f->sw[n->sw].adaptive;
	unsigned int num = fab_route(d->f, n, dlid);
	struct fab_dport *out;
	bool looks;

	if (fab_unlikely(adaptive))
		num = fab_adaptive_port(d, in, l, n, dlid, num);
	if (num == 0)
		return FAB_HEAD_LOCAL;
	if (num > n->nports)
		return relay_error(d, in, &in->ctr->rcv_dlid_mapping, FAB_DROP_ROUTE);
	if (num == in->num)
		return relay_error(d, in, &in->ctr->rcv_looping, FAB_DROP_ROUTE);
	out = d->by_port[fab_port_of(n, num)];
	if (fab_unlikely(!out))
		out = fab_dport(d, fab_port_of(n, num));
	if (fab_unlikely(!out))
		return fab_dropped(d, FAB_DROP_MEMORY);
	if (!can_leave(d, in, &l->f, out, &l->ovl, &looks))
		return FAB_HEAD_DROP;
	if (fab_unlikely(d->m->mad_faults) && fab_gsi_held(d, in, out, &l->f))
		return FAB_HEAD_LOCAL;
	l->out = out;
	if (fab_unlikely(adaptive))
		fab_adaptive_wait(l);
	else if (fab_likely(in->active && !looks && !in_looks(d, in)))
		*outlet_of(in, dlid) = (struct fab_outlet){
			out, d->version, dlid, l->f.lrh[1] >> 4, l->ovl,
		};
	return FAB_HEAD_UCAST;
}

/* Whether the output of the head of @l is cached, and accepts it. */
static bool known_outlet(const struct fab_data *d, struct fab_dport *in, struct fab_lane *l,
			 uint16_t dlid)
{
	const struct fab_outlet *o = outlet_of(in, dlid);

	if (o->version != d->version || o->dlid != dlid || o->sl != l->f.lrh[1] >> 4 ||
	    l->f.len > o->out->max_len || o->out->stalled >> o->ovl & 1 ||
	    l->f.hops >= FAB_MAX_HOPS || d->m->mad_faults)
		return false;
	l->out = o->out;
	l->ovl = o->ovl;
	return true;
}

/* A packet at a router's port is for its agents, or goes on if it has a GRH. */
static enum fab_kind decide_router(struct fab_data *d, struct fab_dport *in, struct fab_lane *l,
				   uint16_t dlid)
{
	enum fab_kind kind;
	bool looks;
	uint32_t out;

	if ((l->f.lrh[1] & 3) != IB_LNH_IBA_GLOBAL || !fab_own_lid(&d->f->port[in->p], dlid))
		return FAB_HEAD_LOCAL;
	kind = fab_route_find(d, in, l, &out);
	if (kind != FAB_HEAD_UCAST)
		return kind;
	l->out = fab_dport(d, out);
	if (fab_unlikely(!l->out))
		return fab_dropped(d, FAB_DROP_MEMORY);
	return can_leave(d, in, &l->f, l->out, &l->ovl, &looks) ? FAB_HEAD_UCAST : FAB_HEAD_DROP;
}

enum fab_kind fab_decide(struct fab_data *d, struct fab_dport *in, struct fab_lane *l)
{
	const uint16_t dlid = ib_get_be16(l->f.lrh + 2);
	const struct fab_node *n;

	if (fab_unlikely(l->f.flags & (OHCA_FRAME_EBP | OHCA_FRAME_VCRC)) &&
	    fab_damaged(d, in, l->f.data, l->f.len, l->f.flags, l->f.vcrc))
		return FAB_HEAD_DROP;
	if (fab_unlikely(l->lost)) {
		if (in->rx_fault) {
			d->m->now_ns = fab_data_clock(d);
			fab_fault_damage(d->m, in->rx_fault, in->p);
		}
		return fab_dropped(d, FAB_DROP_LOSS);
	}
	if (fab_unlikely(is_malformed(in, &l->f, dlid)))
		return frame_malformed(d, in);
	if (fab_unlikely(!in->receives))
		return fab_dropped(d, FAB_DROP_NOT_ARMED);
	if (known_outlet(d, in, l, dlid))
		return FAB_HEAD_UCAST;
	if (fab_unlikely(!in->active) && ib_port_rx_data(&d->f->port[in->p].pi)) {
		fab_changed(d->m, in->p);
		fab_dport_refresh(d, in);
	}
	if (fab_unlikely(!in->is_switch))
		return in->is_router ? decide_router(d, in, l, dlid) : FAB_HEAD_LOCAL;
	if (fab_unlikely(in_looks(d, in) && !admit(d, in, &l->f, true)))
		return fab_dropped(d, FAB_DROP_FILTER);
	if (fab_unlikely(l->f.hops >= FAB_MAX_HOPS))
		return fab_dropped(d, FAB_DROP_HOPS);
	n = &d->f->node[d->f->port[in->p].node];
	if (fab_unlikely(dlid >= IB_LID_MCAST_MIN))
		return decide_mcast(d, in, l, n, dlid);
	return decide_ucast(d, in, l, n, dlid);
}
