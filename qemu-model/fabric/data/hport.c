// SPDX-License-Identifier: GPL-2.0-or-later
/* Ports of HCAs that this process hosts; see hport.h. */
#include "hport_priv.h"
#include "buffer.h"
#include "clock.h"
#include "delay.h"
#include "flow.h"
#include "gsi.h"
#include "hop.h"
#include "links.h"
#include "pace.h"

#include <stdlib.h>
#include <string.h>

struct fab_hport *fab_hport_attach(struct fab_data *d, uint32_t p, const struct ohca_link_cfg *cfg,
				   const struct fab_hport_ops *ops, void *ctx)
{
	struct fab_hport *h = calloc(1, sizeof(*h));
	const unsigned int vls = (unsigned int)ib_opvls_count(d->f->port[p].pi.vl_cap);

	if (!h)
		return NULL;
	h->d = d;
	h->ops = ops;
	h->ctx = ctx;
	h->cfg = *cfg;
	h->vls = (uint8_t)(cfg->vl_cap < vls ? cfg->vl_cap : vls);
	h->far = (struct ohca_link_phy){
		.width_en = cfg->width_sup,
		.speed_en = cfg->speed_sup,
		.speed_ext_en = cfg->speed_ext_sup,
	};
	/* with @headers, HCAs send no MADs, and wires have rates, so there are no flows */
	if (!d->cfg.headers) {
		h->flow = calloc(FAB_FLOWS, sizeof(*h->flow));
		h->mad = calloc(FAB_HPORT_MADS, sizeof(*h->mad));
	}
	if ((d->cfg.headers || (h->flow && h->mad)) && fab_port_attach(d, p, NULL, h))
		return h;
	free(h->flow);
	free(h->mad);
	free(h);
	return NULL;
}

void fab_hport_detach(struct fab_hport *h)
{
	fab_port_detach(h->d, h->dp, "its HCA is gone");
}

/* ---- from the HCA -------------------------------------------------------------- */

static bool is_open(const struct fab_hport *h)
{
	return h->up && !h->due;
}

/* Whether its wire is not ready for another packet. */
static bool is_busy(const struct fab_hport *h)
{
	struct fab_fault *x = h->dp->rx_fault;

	return fab_unlikely(x) && fab_pace_busy(h->d, x);
}

uint8_t *fab_hport_begin(struct fab_hport *h, unsigned int vl, uint32_t len)
{
	struct fab_data *d = h->d;

	if (fab_unlikely(vl == IB_MGMT_VL)) {
		if (!is_open(h))
			return NULL;
		if (h->mad && h->mads < FAB_HPORT_MADS && len <= FAB_HPORT_MAD_LEN)
			return d->scratch[0];
		h->dp->ctr->vl15_dropped++;
		return NULL;
	}
	if (fab_likely(is_open(h) && vl < h->vls && len <= OHCA_LINK_MAX_FRAME && !is_busy(h) &&
		       fab_fits(h->dp, vl, len)))
		return d->scratch[0];
	h->refused |= (uint16_t)(1u << vl);
	return NULL;
}

uint16_t fab_hport_ready(struct fab_hport *h)
{
	uint16_t ready = 0;

	if (fab_likely(!h->refused) || !is_open(h) || is_busy(h))
		return 0;
	for (uint16_t m = h->refused; m; m &= (uint16_t)(m - 1)) {
		const unsigned int vl = (unsigned int)__builtin_ctz(m);

		if (vl < h->vls && fab_fits(h->dp, vl, OHCA_LINK_MAX_FRAME))
			ready |= (uint16_t)(1u << vl);
	}
	h->refused &= (uint16_t)~ready;
	return ready;
}

uint64_t fab_hport_free_ns(const struct fab_hport *h)
{
	const struct fab_fault *x = h->dp->rx_fault;

	return x ? fab_wire_ready(x) : 0;
}

uint32_t fab_hport_place(const struct fab_hport *h)
{
	return h->dp->p;
}

/* Queue the VL15 packet at @data for the next round. */
static void queue_mad(struct fab_hport *h, const uint8_t *data, uint32_t len)
{
	const unsigned int slot = (h->first_mad + h->mads++) % FAB_HPORT_MADS;

	h->mad[slot].len = (uint16_t)len;
	memcpy(h->mad[slot].pkt, data, len);
	if (h->listed)
		return;
	h->listed = true;
	h->next = h->d->mad_ports;
	h->d->mad_ports = h;
}

/* Count @f, which arrived at @in and which fault @x of the wire has lost. */
static void arrives_lost(struct fab_data *d, struct fab_dport *in, unsigned int vl,
			 const struct fab_frame *f, struct fab_fault *x)
{
	fab_count_rcv(in, f);
	d->m->now_ns = fab_data_clock(d);
	fab_fault_damage(d->m, x, in->p);
	fab_dropped(d, FAB_DROP_LOSS);
	if (fab_unlikely(in->tap))
		fab_capture_frame(d, in, f, vl, false, FAB_DROP_LOSS);
}

/* Let @f arrive at @in over a wire with fault @x. */
static void enter_over_fault(struct fab_data *d, struct fab_dport *in, unsigned int vl,
			     struct fab_frame *f, struct fab_fault *x)
{
	const bool lost = fab_fault_loses(x, f->len);

	f->corrupt = !lost && fab_fault_corrupts(x);
	if (fab_is_delayed(in, false, vl, x))
		fab_delay(d, in, false, vl, f, x, lost, fab_pace_take(d, x, vl, f->len));
	else if (lost)
		arrives_lost(d, in, vl, f, x);
	else
		fab_enter(d, in, vl, f);
}

bool fab_hport_series(struct fab_hport *h, unsigned int vl, uint32_t len, unsigned int n)
{
	struct fab_frame f = { .data = h->d->scratch[0], .len = len };

	memcpy(f.lrh, f.data, IB_LRH_LEN);
	h->series = fab_flow_ready(h, vl, &f, n);
	return h->series;
}

void fab_hport_soon(const struct fab_hport *h, const uint8_t *lrh, uint16_t pkey, uint32_t dqpn)
{
	const struct fab_hport *to = fab_flow_end(h, lrh, pkey);

	if (to && to->ops->soon)
		to->ops->soon(to->ctx, dqpn);
}

void fab_hport_commit(struct fab_hport *h, unsigned int vl, uint32_t len,
		      const struct ib_view *view)
{
	struct fab_data *d = h->d;
	struct fab_dport *in = h->dp;
	const struct fab_flow *flow;
	struct fab_frame f = {
		.data = d->scratch[0],
		.view = view,
		.len = len,
		.vl = (uint8_t)vl,
	};

	if (fab_unlikely(vl == IB_MGMT_VL)) {
		queue_mad(h, d->scratch[0], len);
		return;
	}
	memcpy(f.lrh, f.data, IB_LRH_LEN);
	if (view && view->packets > 1) {
		/* without a successful fab_hport_series() the packets are lost */
		if (h->series)
			fab_flow_send(d, h->series, &f);
		h->series = NULL;
		return;
	}
	/* a wire with a rate has no flows */
	flow = fab_unlikely(in->rx_fault) && in->rx_fault->byte_fs ? NULL :
								     fab_flow_ready(h, vl, &f, 1);
	if (fab_likely(flow)) {
		fab_flow_send(d, flow, &f);
		return;
	}
	d->walk = FAB_WALK;
	if (fab_unlikely(in->rx_fault))
		enter_over_fault(d, in, vl, &f, in->rx_fault);
	else
		fab_enter(d, in, vl, &f);
}

/* ---- management ---------------------------------------------------------------- */

bool fab_hport_round(struct fab_data *d)
{
	struct fab_hport *h;

	if (fab_likely(!d->mad_ports))
		return false;
	/* bounded: an HCA answers what an agent sends to it only in its own turn */
	while ((h = d->mad_ports)) {
		const unsigned int slot = h->first_mad;

		if (d->epoch != d->m->epoch)
			fab_dport_refresh(d, h->dp);
		if (!h->mads || !h->dp->up) {
			fab_hport_forget(h);
			continue;
		}
		h->mads--;
		h->first_mad = (slot + 1) % FAB_HPORT_MADS;
		fab_vl15_rx(d, h->dp, h->mad[slot].pkt, h->mad[slot].len, 0);
	}
	return true;
}

uint64_t fab_hport_dropped(const struct fab_hport *h)
{
	return h->dropped;
}

/* ---- training ------------------------------------------------------------------ */

void fab_hport_train(struct fab_hport *h, bool enable)
{
	h->far.enabled = enable;
	fab_hport_due(h);
}

void fab_hport_enable(struct fab_hport *h, const struct fab_hport_rate *rate)
{
	h->far.width_en = rate->width;
	h->far.speed_en = rate->speed;
	h->far.speed_ext_en = rate->speed_ext;
}

void fab_hport_settle(struct fab_hport *h)
{
	struct fab_data *d = h->d;
	const struct ib_port_info *pi = &d->f->port[h->dp->p].pi;
	const struct ohca_link_phy *a = &h->near, *b = &h->far;
	const struct ohca_link_state st = {
		.width = a->width_en & b->width_en & h->cfg.width_sup,
		.speed = a->speed_en & b->speed_en & h->cfg.speed_sup,
		.speed_ext = a->speed_ext_en & b->speed_ext_en & h->cfg.speed_ext_sup,
	};
	struct fab_hport_rate rate;

	h->dp->ctrl_due = false;
	h->due = false;
	if (h->up) {
		h->up = false;
		fab_hport_forget(h);
		fab_port_down(d, h->dp);
		h->ops->link(h->ctx, NULL);
	}
	if (!a->enabled || !b->enabled || !st.width || !(st.speed | st.speed_ext) ||
	    !fab_port_up(d, h->dp, &h->cfg, &st, h->vls))
		return;
	h->up = true;
	rate.width = pi->width_active;
	rate.speed = pi->speed_active;
	rate.speed_ext = pi->speed_ext_active;
	h->ops->link(h->ctx, &rate);
}
