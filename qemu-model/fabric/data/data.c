// SPDX-License-Identifier: GPL-2.0-or-later
/* The data path of a fabric: its ports, its rounds, links that come and go; see data.h. */
#include "to_watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ib/rate.h"

#define CTRL_EVENTS	8	/* of one link in a turn */
#define VL15_BURST	32u
#define HEADERS		124u	/* LRH, GRH, BTH and 64 bytes of others, beside the payload */

/* ---- ports --------------------------------------------------------------------- */

/* Settings of the link of port @p. */
static struct ohca_link_phy phy_of(const struct fab *f, uint32_t p, bool enabled)
{
	const struct ib_port_info *pi = &f->port[p].pi;
	const struct fab_limit at_most = fab_limit_of(f, p);

	return (struct ohca_link_phy){
		.enabled = enabled,
		.width_en = pi->width_enabled & at_most.width,
		.speed_en = pi->speed_enabled & at_most.speed,
		.speed_ext_en = pi->speed_ext_enabled == IB_SPEED_EXT_DISABLE ?
				0 : pi->speed_ext_enabled & at_most.speed_ext,
	};
}

void fab_dport_refresh(struct fab_data *d, struct fab_dport *dp)
{
	const struct fab_port *p = &d->f->port[dp->p];
	const unsigned int keys = dp->is_switch ? FAB_SW_PKEYS : FAB_CA_PKEYS;
	const struct fab_extra *x = fab_extra_of(d->f, dp->p), *far;
	const struct ohca_link_phy phy = phy_of(d->f, dp->p, true);

	/* for when the link trains next */
	if (dp->link)
		ohca_link_set_phy(dp->link, &phy);
	far = p->peer != FAB_NO_PORT ? fab_extra_of(d->f, p->peer) : NULL;
	dp->fault = x ? x->fault : NULL;
	dp->rx_fault = dp->link && far ? far->fault : NULL;
	if (fab_unlikely(dp->rx_fault && dp->rx_fault->delay_ns && !dp->buffers)) {
		fab_keep_heads(d, dp);
		dp->buffers = true;
	}
	fab_delay_forget(d, dp, false);
	dp->up = p->pi.state != IB_PS_DOWN && (!fab_outside(d->f, dp->p) || dp->link);
	dp->receives = p->pi.state == IB_PS_ARMED || p->pi.state == IB_PS_ACTIVE;
	dp->active = p->pi.state == IB_PS_ACTIVE;
	dp->nvls = (uint8_t)ib_opvls_count(p->pi.op_vls);
	dp->max_len = ib_mtu_bytes(p->pi.mtu) + HEADERS;
	dp->pkeys = fab_pool_at(dp->is_switch ? &d->f->sw_pkeys : &d->f->ca_pkeys, p->pkeys);
	for (dp->num_pkeys = (uint16_t)keys; dp->num_pkeys; dp->num_pkeys--)
		if (dp->pkeys[dp->num_pkeys - 1] & IB_PKEY_BASE_MASK)
			break;
	if (dp->arb_index != p->vlarb) {
		/* held, so that no other table gets this index */
		fab_pool_ref(&d->f->vlarb, p->vlarb);
		if (dp->arb_index != FAB_NONE)
			fab_pool_put(&d->f->vlarb, dp->arb_index);
		dp->arb_index = p->vlarb;
		memcpy(&dp->arb, fab_pool_at(&d->f->vlarb, p->vlarb), sizeof(dp->arb));
		dp->arb_vls = 0;
		for (unsigned int t = 0; t < 2; t++)
			for (unsigned int i = 0; i < dp->arb.t[t].n && i < IB_VLARB_MAX; i++)
				if (dp->arb.t[t].e[i].weight &&
				    dp->arb.t[t].e[i].vl < FAB_DATA_LANES)
					dp->arb_vls |= (uint16_t)(1u << dp->arb.t[t].e[i].vl);
	}
	dp->arb.high_limit = p->pi.vl_high_limit;
	if (dp->is_switch)
		dp->life_ns = fab_limit_ns(d, d->f->sw[d->f->node[p->node].sw].si.life_time);
}

static bool grow(void *array, uint32_t n, size_t size)
{
	void *old, *grown;

	memcpy(&old, array, sizeof(old));
	grown = realloc(old, n * size);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	return true;
}

/* Room for one more port in all arrays. */
static bool room(struct fab_data *d)
{
	const uint32_t n = d->cap ? 2 * d->cap : 64;

	if (d->count < d->cap)
		return true;
	if (!grow(&d->all, n, sizeof(*d->all)) || !grow(&d->linked, n, sizeof(*d->linked)) ||
	    !grow(&d->queue, n, sizeof(*d->queue)) || !grow(&d->outs, n, sizeof(*d->outs)) ||
	    !grow(&d->touch, n, sizeof(*d->touch)) ||
	    !grow(&d->mcast, n, FAB_DATA_LANES * sizeof(*d->mcast)))
		return false;
	d->cap = n;
	return true;
}

static struct fab_dport *make(struct fab_data *d, uint32_t p)
{
	const struct fab_node *n = &d->f->node[d->f->port[p].node];
	struct fab_extra *x = fab_extra(d->f, p);
	struct fab_dport *dp;

	if (!x || !room(d))
		return NULL;
	dp = calloc(1, sizeof(*dp));
	if (!dp)
		return NULL;
	dp->p = p;
	dp->id = d->count;
	dp->num = (uint8_t)fab_port_num(d->f, p);
	dp->is_switch = n->sw != FAB_NONE;
	dp->ctr = &x->ctr;
	dp->arb_index = FAB_NONE;
	dp->buffers = true;
	fab_dport_refresh(d, dp);
	d->all[d->count++] = dp;
	d->by_port[p] = dp;
	return dp;
}

static void free_dport(struct fab_data *d, struct fab_dport *dp)
{
	fab_buffers_free(d, dp);
	ohca_link_free(dp->link);
	fab_pool_put(&d->f->vlarb, dp->arb_index);
	free(dp);
}

/* The one that was made last was not used yet. */
static void unmake(struct fab_data *d)
{
	struct fab_dport *dp = d->all[--d->count];

	d->by_port[dp->p] = NULL;
	free_dport(d, dp);
}

struct fab_dport *fab_dport(struct fab_data *d, uint32_t p)
{
	const uint32_t peer = d->f->port[p].peer;
	struct fab_dport *dp = d->by_port[p];

	if (fab_likely(dp))
		return dp;
	dp = make(d, p);
	if (!dp || peer == FAB_NO_PORT || fab_outside(d->f, p))
		return dp;
	if (!d->by_port[peer] && !make(d, peer)) {
		unmake(d);
		return NULL;
	}
	dp->peer = d->by_port[peer];
	dp->peer->peer = dp;
	return dp;
}

/* Train the link of @dp, or disable it: @enable, and what is in the way. */
static void train(struct fab_data *d, struct fab_dport *dp, bool enable)
{
	const struct ib_port_info *pi = &d->f->port[dp->p].pi;
	const struct ohca_link_phy phy = phy_of(d->f, dp->p, enable && fab_may_train(d->f, dp->p) &&
							     pi->phys_state !=
							     IB_PHYS_DISABLED);

	ohca_link_train(dp->link, &phy);
}

static void wire_train(void *ctx, uint32_t port, bool enable)
{
	struct fab_data *d = ctx;
	struct fab_dport *dp = d->by_port[port];

	if (!dp || !dp->link)
		return;
	if (dp->up)
		fab_data_log(d, "'%.64s' port %u: link down, by management",
			     d->f->desc[d->f->port[port].node].text, dp->num);
	fab_forget_heads(d, dp);
	train(d, dp, enable);
	dp->ctrl_due = true;
	d->ctrl_due = true;
}

static void wire_count(void *ctx, uint32_t port)
{
	struct fab_data *d = ctx;
	struct fab_dport *dp = d->by_port[port];
	uint32_t n;

	if (!dp)
		return;
	fab_count_wait(d, dp);
	if (!dp->link)
		return;
	n = ohca_link_vl15_dropped_by_peer(dp->link);
	dp->ctr->vl15_dropped += (uint32_t)(n - dp->vl15_seen);
	dp->vl15_seen = n;
}

static void wire_mad(void *ctx, uint32_t port, bool sent, const struct fab_mad *mad, bool lost)
{
	struct fab_data *d = ctx;
	struct fab_dport *dp = d->by_port[port];

	if (dp && dp->tap)
		fab_capture_mad(d, dp->tap, mad, sent, lost ? FAB_DROP_LOSS : FAB_DROP_NONE);
}

static const struct fab_wires wires = {
	.send = fab_gsi_send,
	.train = wire_train,
	.count = wire_count,
	.mad = wire_mad,
};

struct fab_data *fab_data_new(struct fab_mgmt *m, const struct fab_data_cfg *cfg)
{
	struct fab_data *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->cfg = *cfg;
	d->m = m;
	d->f = m->f;
	d->by_port = calloc(d->f->ports, sizeof(*d->by_port));
	if (!d->by_port) {
		free(d);
		return NULL;
	}
	for (unsigned int i = 0; i < FAB_REPLIES; i++)
		d->reply_order[i] = (uint16_t)i;
	m->wires = &wires;
	m->wires_ctx = d;
	return d;
}

void fab_data_free(struct fab_data *d)
{
	if (!d)
		return;
	d->m->wires = NULL;
	fab_delay_free(d);
	for (uint32_t i = 0; i < d->count; i++)
		free_dport(d, d->all[i]);
	fab_buffers_free(d, NULL);
	free(d->by_port);
	free(d->all);
	free(d->linked);
	free(d->queue);
	free(d->outs);
	free(d->touch);
	free(d->mcast);
	free(d);
}

/* ---- links --------------------------------------------------------------------- */

void fab_data_link_cfg(const struct fab_data *d, uint32_t p, struct ohca_link_cfg *cfg)
{
	const struct ib_port_info *pi = &d->f->port[p].pi;
	const uint32_t node = d->f->port[p].node;

	ohca_link_cfg_init(cfg);
	cfg->node_guid = d->f->node[node].guid;
	cfg->port_guid = cfg->node_guid;
	cfg->node_type = IB_NODE_SWITCH_DEVICE;
	cfg->port_num = (uint8_t)fab_port_num(d->f, p);
	cfg->vl_cap = (uint8_t)ib_opvls_count(pi->vl_cap);
	cfg->mtu_cap = pi->mtu_cap;
	cfg->shift_pref = d->cfg.shift;
	cfg->width_sup = pi->width_supported;
	cfg->speed_sup = pi->speed_supported;
	cfg->speed_ext_sup = pi->speed_ext_supported;
	memcpy(cfg->desc, d->f->desc[node].text, sizeof(cfg->desc));
}

/* The wire between switch port @p and the host at its other end is no longer in the graph. */
static bool take_out(struct fab_data *d, uint32_t p)
{
	const uint32_t host = d->f->port[p].peer;
	struct fab_extra *a = fab_extra(d->f, p), *b = fab_extra(d->f, host);

	if (!a || !b)
		return false;
	if (a->outside)
		return true;
	d->m->now_ns = fab_data_clock(d);
	fab_wire_down(d->m, p);
	ib_port_link_down(&d->f->port[host].pi, IB_PHYS_POLLING);
	a->outside = true;
	b->outside = true;
	d->m->epoch++;
	return true;
}

bool fab_data_attach(struct fab_data *d, uint32_t p, struct ohca_link *l)
{
	const struct ohca_link_cfg *peer = ohca_link_peer(l);
	struct fab_dport *dp = fab_dport(d, p);

	if (!dp || !take_out(d, p))
		return false;
	if (dp->peer)
		dp->peer->peer = NULL;
	dp->peer = NULL;
	dp->link = l;
	dp->buffers = dp->buffered;
	dp->peer_guid = peer->port_guid;
	dp->vl15_seen = ohca_link_vl15_dropped_by_peer(l);
	d->linked[d->links++] = dp;
	fab_data_log(d, "'%.64s' port %u: '%.64s' attached, port GUID 0x%016" PRIx64,
		     d->f->desc[d->f->port[p].node].text, dp->num, peer->desc, peer->port_guid);
	d->m->epoch++;
	train(d, dp, true);
	return true;
}

static void link_up(struct fab_data *d, struct fab_dport *dp)
{
	const struct ohca_link_cfg *peer = ohca_link_peer(dp->link);
	struct ib_port_info *pi = &d->f->port[dp->p].pi;
	struct ohca_link_state st;

	ohca_link_get_state(dp->link, &st);
	if (ib_port_negotiate(pi, st.width, st.speed, st.speed_ext, peer->mtu_cap,
			      fab_vl_code(ohca_link_vls(dp->link)))) {
		fab_data_log(d, "'%.64s' port %u: nothing in common with '%.64s'",
			     d->f->desc[d->f->port[dp->p].node].text, dp->num, peer->desc);
		/* nobody would take what it brings */
		train(d, dp, false);
		return;
	}
	d->m->now_ns = fab_data_clock(d);
	if (!fab_fold_sl2vl(d->m, dp->p, ib_opvls_count(pi->op_vls)))
		fab_data_log(d, "'%.64s' port %u: no memory for its SLtoVLMappingTable: SLs may "
			     "have no VL", d->f->desc[d->f->port[dp->p].node].text, dp->num);
	fab_wire_up(d->m, dp->p);
	fab_data_log(d, "'%.64s' port %u: link up, %ux, %u Gb/s",
		     d->f->desc[d->f->port[dp->p].node].text, dp->num, ib_width_lanes(st.width),
		     ib_link_mbps(st.width, st.speed, st.speed_ext) / 1000);
}

static void link_down(struct fab_data *d, struct fab_dport *dp)
{
	fab_forget_heads(d, dp);
	if (d->f->port[dp->p].pi.state != IB_PS_DOWN)
		fab_data_log(d, "'%.64s' port %u: link down",
			     d->f->desc[d->f->port[dp->p].node].text, dp->num);
	d->m->now_ns = fab_data_clock(d);
	fab_wire_down(d->m, dp->p);
}

static void detach(struct fab_data *d, struct fab_dport *dp)
{
	uint32_t i = 0;

	fab_data_log(d, "'%.64s' port %u: '%.64s' detached: %s",
		     d->f->desc[d->f->port[dp->p].node].text, dp->num,
		     ohca_link_peer(dp->link)->desc, ohca_link_error(dp->link));
	link_down(d, dp);
	wire_count(d, dp->p);
	ohca_link_free(dp->link);
	dp->link = NULL;
	dp->buffers = true;
	dp->pending = 0;
	while (d->linked[i] != dp)
		i++;
	d->linked[i] = d->linked[--d->links];
}

bool fab_data_ctrl(struct fab_data *d, struct fab_dport *dp)
{
	dp->ctrl_due = false;
	for (int i = 0; dp->link; i++) {
		if (i == CTRL_EVENTS) {
			dp->ctrl_due = true;
			d->ctrl_due = true;
			return true;
		}
		switch (ohca_link_ctrl(dp->link)) {
		case OHCA_LINK_EV_NONE:
			return true;
		case OHCA_LINK_EV_UP:
			link_up(d, dp);
			break;
		case OHCA_LINK_EV_DOWN:
			link_down(d, dp);
			break;
		case OHCA_LINK_EV_ERROR:
			dp->ctr->local_link_integrity_errors++;
			/* fall through */
		case OHCA_LINK_EV_CLOSED:
			detach(d, dp);
			return false;
		}
	}
	return false;
}

/* ---- rounds -------------------------------------------------------------------- */

static bool rx_vl15(struct fab_data *d, struct fab_dport *dp)
{
	struct ohca_link_frame f;
	unsigned int n;

	for (n = 0; n < VL15_BURST && dp->up; n++) {
		if (ohca_link_rx_peek(dp->link, OHCA_LINK_VL15, &f) <= 0)
			break;
		if (fab_unlikely(fab_damaged(d, dp, f.data, f.len, f.flags, f.vcrc)))
			ib_pma_count_rcv(dp->ctr, f.len, f.data[1] >> 4, false);
		else
			fab_vl15_rx(d, dp, f.data, f.len);
		ohca_link_rx_release(dp->link, OHCA_LINK_VL15);
		/* Management may have trained this link or another one. */
		if (d->epoch != d->m->epoch)
			fab_dport_refresh(d, dp);
	}
	return n;
}

/* Management first, because only it takes links down. */
static bool management(struct fab_data *d)
{
	bool moved = false;

	for (uint32_t i = 0; i < d->links; i++) {
		struct fab_dport *dp = d->linked[i];

		dp->pending = ohca_link_rx_pending(dp->link);
		if (fab_likely(!(dp->pending >> OHCA_LINK_VL15)))
			continue;
		moved |= rx_vl15(d, dp);
		/* what is left is more than a burst, or breaks the link's rules */
		if (ohca_link_rx_pending(dp->link) >> OHCA_LINK_VL15 && !fab_data_ctrl(d, dp))
			i--;
	}
	return moved;
}

static bool late_ctrl(struct fab_data *d)
{
	if (fab_likely(!d->ctrl_due))
		return false;
	d->ctrl_due = false;
	for (uint32_t i = 0; i < d->links; i++)
		if (d->linked[i]->ctrl_due && !fab_data_ctrl(d, d->linked[i]))
			i--;
	return true;
}

static void refresh(struct fab_data *d)
{
	if (fab_likely(d->epoch == d->m->epoch))
		return;
	d->epoch = d->m->epoch;
	d->version++;
	for (uint32_t i = 0; i < d->count; i++)
		fab_dport_refresh(d, d->all[i]);
}

bool fab_data_round(struct fab_data *d)
{
	bool moved;

	d->now_ns = 0;
	moved = late_ctrl(d);
	if (fab_unlikely(d->stalls))
		fab_end_stalls(d);
	moved |= management(d);
	refresh(d);
	if (fab_unlikely(d->flying))
		moved |= fab_delay_round(d);
	moved |= fab_forward_round(d);
	moved |= fab_reply_flush(d);
	if (d->touches)
		fab_settle(d);
	for (uint32_t i = 0; i < d->links; i++)
		ohca_link_kick(d->linked[i]->link);
	if (fab_unlikely(d->link_captures))
		fab_capture_links(d);
	return moved;
}

uint64_t fab_data_timer(struct fab_data *d)
{
	uint64_t next;

	d->now_ns = 0;
	/* traps have left, perhaps after a sleep was announced */
	for (uint32_t i = 0; i < d->links; i++)
		ohca_link_kick_tx(d->linked[i]->link);
	next = d->flying ? fab_delay_due(d) : UINT64_MAX;
	if ((d->blocked || d->reply_count || d->stalls) && FAB_LOOK_NS < next)
		next = FAB_LOOK_NS;
	return next;
}

bool fab_data_sleep(struct fab_data *d)
{
	for (uint32_t i = 0; i < d->links; i++) {
		struct fab_dport *dp = d->linked[i];

		if (ohca_link_prepare_sleep_except(dp->link, fab_blocked_lanes(d, dp)))
			continue;
		while (i--)
			ohca_link_awake(d->linked[i]->link, false);
		/* packets, credits, or a peer that breaks the link's rules */
		fab_data_ctrl(d, dp);
		return false;
	}
	return true;
}

void fab_data_awake(struct fab_data *d)
{
	for (uint32_t i = 0; i < d->links; i++)
		ohca_link_awake(d->linked[i]->link, false);
}
