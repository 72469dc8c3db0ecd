// SPDX-License-Identifier: GPL-2.0-or-later
/* The links of a fabric's ports: attach, train, detach. */
#include "links.h"
#include "clock.h"
#include "congestion.h"
#include "hop.h"
#include "hport_priv.h"
#include "wait.h"

#include <inttypes.h>
#include <string.h>

#include "ib/rate.h"

#define CTRL_EVENTS	8	/* of one link in a turn */

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

void fab_link_set_phy(struct fab_data *d, const struct fab_dport *dp)
{
	const struct ohca_link_phy phy = phy_of(d->f, dp->p, !dp->hport || dp->hport->near.enabled);

	if (dp->hport)
		dp->hport->near = phy;
	else
		ohca_link_set_phy(dp->link, &phy);
}

/* Train the link of @dp, or disable it: by @enable and the state of the port. */
static void train(struct fab_data *d, struct fab_dport *dp, bool enable)
{
	const struct ib_port_info *pi = &d->f->port[dp->p].pi;
	const struct ohca_link_phy phy = phy_of(d->f, dp->p, enable && fab_may_train(d->f, dp->p) &&
							     pi->phys_state !=
							     IB_PHYS_DISABLED);

	if (dp->hport) {
		dp->hport->near = phy;
		fab_hport_due(dp->hport);
	} else {
		ohca_link_train(dp->link, &phy);
	}
}

void fab_link_train(void *ctx, uint32_t port, bool enable)
{
	struct fab_data *d = ctx;
	struct fab_dport *dp = d->by_port[port];

	if (!dp || !fab_leads_out(dp))
		return;
	if (dp->up)
		fab_data_log(d, "'%.64s' port %u: link down, by management",
			     d->f->desc[d->f->port[port].node].text, dp->num);
	fab_forget_heads(d, dp);
	train(d, dp, enable);
	dp->ctrl_due = true;
	d->ctrl_due = true;
}

void fab_link_count(void *ctx, uint32_t port)
{
	struct fab_data *d = ctx;
	struct fab_dport *dp = d->by_port[port];
	uint32_t n;

	if (!dp)
		return;
	fab_count_wait(d, dp);
	if (fab_unlikely(dp->congestion))
		fab_congestion_count(d, dp);
	if (!dp->link)
		return;
	n = ohca_link_vl15_dropped_by_peer(dp->link);
	dp->ctr->vl15_dropped += (uint32_t)(n - dp->vl15_seen);
	dp->vl15_seen = n;
}

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
	cfg->closer = d->cfg.closer;
	cfg->width_sup = pi->width_supported;
	cfg->speed_sup = pi->speed_supported;
	cfg->speed_ext_sup = pi->speed_ext_supported;
	memcpy(cfg->desc, d->f->desc[node].text, sizeof(cfg->desc));
}

/* Remove the wire between switch port @p and the host at its other end from the graph. */
static bool take_out(struct fab_data *d, uint32_t p)
{
	const uint32_t host = d->f->port[p].peer;
	struct fab_extra *a = fab_extra(d->f, p), *b = fab_extra(d->f, host);

	if (!a || !b || !fab_lids_make(d->f, &d->f->node[d->f->port[p].node]))
		return false;
	if (a->outside)
		return true;
	d->m->now_ns = fab_data_clock(d);
	fab_wire_down(d->m, p);
	ib_port_link_down(&d->f->port[host].pi, IB_PHYS_POLLING);
	a->outside = true;
	b->outside = true;
	fab_changed(d->m, p);
	return true;
}

/* The HELLO of the peer of @dp, or NULL. */
static const struct ohca_link_cfg *peer_of(const struct fab_dport *dp)
{
	return dp->link ? ohca_link_peer(dp->link) : dp->hport ? &dp->hport->cfg : NULL;
}

bool fab_port_attach(struct fab_data *d, uint32_t p, struct ohca_link *l, struct fab_hport *h)
{
	struct fab_dport *dp = fab_dport(d, p);
	const struct ohca_link_cfg *peer = l ? ohca_link_peer(l) : &h->cfg;

	if (!dp || !take_out(d, p))
		return false;
	if (!fab_hash_add(&d->by_guid, fab_hash_u64(peer->port_guid), dp->id))
		return false;
	if (dp->peer)
		dp->peer->peer = NULL;
	dp->peer = NULL;
	/* cached flows may lead here */
	d->version++;
	dp->link = l;
	dp->hport = h;
	if (l) {
		dp->buffers = dp->buffered;
		dp->vl15_seen = ohca_link_vl15_dropped_by_peer(l);
		d->awake[d->nawake++] = dp;
	} else {
		h->dp = dp;
	}
	dp->peer_guid = peer->port_guid;
	dp->idle = false;
	d->linked[d->links++] = dp;
	fab_data_log(d, "'%.64s' port %u: '%.64s' attached, port GUID 0x%016" PRIx64,
		     d->f->desc[d->f->port[p].node].text, dp->num, peer->desc, peer->port_guid);
	fab_changed(d->m, p);
	train(d, dp, true);
	return true;
}

bool fab_data_attach(struct fab_data *d, uint32_t p, struct ohca_link *l)
{
	return fab_port_attach(d, p, l, NULL);
}

bool fab_port_up(struct fab_data *d, struct fab_dport *dp, const struct ohca_link_cfg *peer,
		 const struct ohca_link_state *st, unsigned int vls)
{
	struct ib_port_info *pi = &d->f->port[dp->p].pi;

	if (ib_port_negotiate(pi, st->width, st->speed, st->speed_ext, peer->mtu_cap,
			      fab_vl_code(vls))) {
		fab_data_log(d, "'%.64s' port %u: no common width or speed with '%.64s'",
			     d->f->desc[d->f->port[dp->p].node].text, dp->num, peer->desc);
		return false;
	}
	d->m->now_ns = fab_data_clock(d);
	if (!fab_fold_sl2vl(d->m, dp->p, ib_opvls_count(pi->op_vls)))
		fab_data_log(d, "'%.64s' port %u: no memory for its SLtoVLMappingTable: SLs may "
			     "have no VL", d->f->desc[d->f->port[dp->p].node].text, dp->num);
	fab_wire_up(d->m, dp->p);
	fab_data_log(d, "'%.64s' port %u: link up, %ux, %u Gb/s",
		     d->f->desc[d->f->port[dp->p].node].text, dp->num,
		     ib_width_lanes(pi->width_active),
		     ib_link_mbps(pi->width_active, pi->speed_active, pi->speed_ext_active) / 1000);
	return true;
}

static void link_up(struct fab_data *d, struct fab_dport *dp)
{
	struct ohca_link_state st;

	ohca_link_get_state(dp->link, &st);
	/* if it fails, disable the link: no port would receive its packets */
	if (!fab_port_up(d, dp, ohca_link_peer(dp->link), &st, ohca_link_vls(dp->link)))
		train(d, dp, false);
}

void fab_port_down(struct fab_data *d, struct fab_dport *dp)
{
	fab_forget_heads(d, dp);
	if (d->f->port[dp->p].pi.state != IB_PS_DOWN)
		fab_data_log(d, "'%.64s' port %u: link down",
			     d->f->desc[d->f->port[dp->p].node].text, dp->num);
	d->m->now_ns = fab_data_clock(d);
	fab_wire_down(d->m, dp->p);
}

/* Remove @dp from @list, which has @n entries, if it is there. */
static void unlist(struct fab_dport **list, uint32_t *n, const struct fab_dport *dp)
{
	for (uint32_t i = 0; i < *n; i++)
		if (list[i] == dp) {
			list[i] = list[--*n];
			return;
		}
}

void fab_port_detach(struct fab_data *d, struct fab_dport *dp, const char *why)
{
	fab_data_log(d, "'%.64s' port %u: '%.64s' detached: %s",
		     d->f->desc[d->f->port[dp->p].node].text, dp->num, peer_of(dp)->desc, why);
	fab_port_down(d, dp);
	fab_link_count(d, dp->p);
	d->version++;
	fab_hash_del(&d->by_guid, fab_hash_u64(dp->peer_guid), dp->id);
	ohca_link_free(dp->link);
	fab_hport_free(dp->hport);
	dp->link = NULL;
	dp->hport = NULL;
	dp->buffers = true;
	dp->pending = 0;
	unlist(d->linked, &d->links, dp);
	unlist(d->awake, &d->nawake, dp);
	unlist(d->used, &d->nused, dp);
	dp->idle = false;
	dp->used = false;
}

void fab_link_wake(struct fab_data *d, struct fab_dport *dp)
{
	if (!dp->idle)
		return;
	dp->idle = false;
	d->awake[d->nawake++] = dp;
}

void fab_link_use(struct fab_data *d, struct fab_dport *dp)
{
	if (dp->used)
		return;
	dp->used = true;
	d->used[d->nused++] = dp;
}

void fab_links_used(struct fab_data *d)
{
	while (d->nused) {
		struct fab_dport *dp = d->used[--d->nused];

		ohca_link_kick_tx(dp->link);
		dp->used = false;
	}
}

bool fab_link_ctrl(struct fab_data *d, struct fab_dport *dp)
{
	dp->ctrl_due = false;
	fab_link_wake(d, dp);
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
			fab_port_down(d, dp);
			break;
		case OHCA_LINK_EV_ERROR:
			dp->ctr->local_link_integrity_errors++;
			/* fall through */
		case OHCA_LINK_EV_CLOSED:
			fab_port_detach(d, dp, ohca_link_error(dp->link));
			return false;
		}
	}
	return false;
}

bool fab_data_ctrl(struct fab_data *d, uint32_t p)
{
	struct fab_dport *dp = d->by_port[p];

	return dp && (dp->hport || fab_link_ctrl(d, dp));
}

/* ---- peers --------------------------------------------------------------------- */

const struct ohca_link_cfg *fab_data_peer(const struct fab_data *d, uint32_t p)
{
	const struct fab_dport *dp = d->by_port[p];

	return dp ? peer_of(dp) : NULL;
}

uint64_t fab_data_last_guid(const struct fab_data *d, uint32_t p)
{
	return d->by_port[p] ? d->by_port[p]->peer_guid : 0;
}

static bool peer_guid_is(const void *ctx, uint32_t id, const void *key)
{
	const struct fab_data *d = ctx;
	const struct fab_extra *x = fab_extra_of(d->f, d->all[id]->p);

	return d->all[id]->peer_guid == *(const uint64_t *)key && !(x && x->remote);
}

uint32_t fab_data_find_guid(const struct fab_data *d, uint64_t guid)
{
	const uint32_t id = fab_hash_find(&d->by_guid, fab_hash_u64(guid), peer_guid_is, d, &guid);

	return id != FAB_NONE ? d->all[id]->p : FAB_NO_PORT;
}
