// SPDX-License-Identifier: GPL-2.0-or-later
/* The ports that have carried data, and the settings that they copy from management. */
#include "port.h"
#include "buffer.h"
#include "congestion.h"
#include "delay.h"
#include "hop.h"
#include "links.h"
#include "pace.h"

#include <stdlib.h>
#include <string.h>

#include "ib/rate.h"

#define HEADERS		124u	/* LRH, GRH, BTH and 64 bytes of others */

uint32_t fab_port_max_len(const struct ib_port_info *pi)
{
	return ib_mtu_bytes(pi->mtu) + HEADERS;
}

/* Count the credits that fault @x (or NULL) of the wire to @dp has lost as in use. */
static void take_gone(struct fab_dport *dp, const struct fab_fault *x)
{
	const bool leaks = x && x->leaks;

	if (fab_likely(!leaks && !dp->leaks))
		return;
	for (unsigned int vl = 0; vl < FAB_DATA_LANES; vl++) {
		struct fab_lane *l = &dp->lane[vl];
		const uint16_t gone = leaks ? x->gone[vl] : 0;

		l->used = (uint16_t)(l->used - l->gone + gone);
		l->gone = gone;
	}
	dp->leaks = leaks;
}

void fab_dport_refresh(struct fab_data *d, struct fab_dport *dp)
{
	const struct fab_port *p = &d->f->port[dp->p];
	const struct fab_extra *x = fab_extra_of(d->f, dp->p), *far;

	d->refreshes++;
	/* used when the link trains next */
	if (fab_leads_out(dp))
		fab_link_set_phy(d, dp);
	if (fab_unlikely(d->cfg.rate_scale))
		fab_pace_set(d, dp);
	fab_congestion_refresh(d, dp);
	far = p->peer != FAB_NO_PORT ? fab_extra_of(d->f, p->peer) : NULL;
	dp->fault = x ? x->fault : NULL;
	dp->rx_fault = fab_leads_out(dp) && far ? far->fault : NULL;
	if (fab_unlikely(dp->rx_fault) && (dp->rx_fault->delay_ns | dp->rx_fault->byte_fs) &&
	    !dp->buffers) {
		fab_keep_heads(d, dp);
		dp->buffers = true;
	}
	fab_delay_forget(d, dp, false);
	take_gone(dp, far && !fab_leads_out(dp) ? far->fault : NULL);
	dp->up = p->pi.state != IB_PS_DOWN && (!fab_outside(d->f, dp->p) || fab_leads_out(dp));
	dp->receives = p->pi.state == IB_PS_ARMED || p->pi.state == IB_PS_ACTIVE;
	dp->active = p->pi.state == IB_PS_ACTIVE;
	dp->nvls = (uint8_t)ib_opvls_count(p->pi.op_vls);
	dp->max_len = fab_port_max_len(&p->pi);
	dp->pkeys = fab_pool_at(dp->is_switch ? &d->f->sw_pkeys : &d->f->ca_pkeys, p->pkeys);
	dp->num_pkeys = FAB_PKEYS_UNKNOWN;
	if (dp->arb_index != p->vlarb) {
		/* hold a reference, so that no other table gets this index */
		fab_pool_ref(&d->f->vlarb, p->vlarb);
		if (dp->arb_index != FAB_NONE)
			fab_pool_put(&d->f->vlarb, dp->arb_index);
		dp->arb_index = p->vlarb;
		memcpy(&dp->arb, fab_pool_at(&d->f->vlarb, p->vlarb), sizeof(dp->arb));
		dp->arb_vls = dp->arb.t[IB_VLARB_LOW].vls | dp->arb.t[IB_VLARB_HIGH].vls;
	}
	dp->arb.high_limit = p->pi.vl_high_limit;
	dp->life_ns = UINT64_MAX;
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

/* Make room for one more port in all arrays. */
static bool room(struct fab_data *d)
{
	const uint32_t n = d->cap ? 2 * d->cap : 64;

	if (d->count < d->cap)
		return true;
	if (!grow(&d->all, n, sizeof(*d->all)) || !grow(&d->linked, n, sizeof(*d->linked)) ||
	    !grow(&d->awake, n, sizeof(*d->awake)) || !grow(&d->used, n, sizeof(*d->used)) ||
	    !grow(&d->stall, n, sizeof(*d->stall)) ||
	    !grow(&d->queue, n, sizeof(*d->queue)) || !grow(&d->outs, n, sizeof(*d->outs)) ||
	    !grow(&d->touch, n, sizeof(*d->touch)) || !grow(&d->woken, n, sizeof(*d->woken)) ||
	    !grow(&d->freed, n, sizeof(*d->freed)) ||
	    !grow(&d->mcast, n, FAB_DATA_LANES * sizeof(*d->mcast)))
		return false;
	d->cap = n;
	return true;
}

static struct fab_dport *port_make(struct fab_data *d, uint32_t p)
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
	dp->is_router = n->type == IB_NODE_ROUTER_DEVICE;
	dp->ctr = &x->ctr;
	dp->arb_index = FAB_NONE;
	dp->buffers = true;
	fab_dport_refresh(d, dp);
	d->all[d->count++] = dp;
	d->by_port[p] = dp;
	return dp;
}

void fab_hport_forget(struct fab_hport *h)
{
	struct fab_hport **at = &h->d->mad_ports;

	h->mads = 0;
	if (!h->listed)
		return;
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	h->listed = false;
}

void fab_hport_free(struct fab_hport *h)
{
	if (!h)
		return;
	fab_hport_forget(h);
	free(h->flow);
	free(h->mad);
	free(h);
}

void fab_dport_free(struct fab_data *d, struct fab_dport *dp)
{
	fab_buffers_free(d, dp);
	ohca_link_free(dp->link);
	fab_hport_free(dp->hport);
	free(dp->congestion);
	fab_pool_put(&d->f->vlarb, dp->arb_index);
	free(dp);
}

/* Undo the creation of the last port, which was not used yet. */
static void unmake(struct fab_data *d)
{
	struct fab_dport *dp = d->all[--d->count];

	d->by_port[dp->p] = NULL;
	fab_dport_free(d, dp);
}

struct fab_dport *fab_dport(struct fab_data *d, uint32_t p)
{
	const uint32_t peer = d->f->port[p].peer;
	struct fab_dport *dp = d->by_port[p];

	if (fab_likely(dp))
		return dp;
	dp = port_make(d, p);
	if (!dp || peer == FAB_NO_PORT || fab_outside(d->f, p))
		return dp;
	if (!d->by_port[peer] && !port_make(d, peer)) {
		unmake(d);
		return NULL;
	}
	dp->peer = d->by_port[peer];
	dp->peer->peer = dp;
	return dp;
}

bool fab_ports_meet(void *ctx, uint32_t a, uint32_t b)
{
	struct fab_data *d = ctx;
	struct fab_dport *x = fab_dport(d, a), *y = fab_dport(d, b);

	if (!x || !y)
		return false;
	x->peer = y;
	y->peer = x;
	return true;
}
