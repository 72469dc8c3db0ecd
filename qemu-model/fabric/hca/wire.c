// SPDX-License-Identifier: GPL-2.0-or-later
/* The operations between an engine and its ports at the switches (data/hport.h). */
#include <string.h>

#include "hca_priv.h"

_Static_assert(OHCA_RX_ICRC == OHCA_FRAME_ICRC && OHCA_RX_VCRC == OHCA_FRAME_VCRC &&
	       OHCA_RX_EBP == OHCA_FRAME_EBP, "the flags of a frame are those of a link");

/* ---- fabric to engine ---------------------------------------------------------- */

static bool hca_room(void *ctx, unsigned int vl, unsigned int n, uint32_t len)
{
	const struct fab_hca_port *p = ctx;

	if (p->h->in_call || !p->h->running)
		return false;
	/* VL15 has its own limit: data must not keep SMPs out (7.9.1) */
	if (vl == IB_MGMT_VL)
		return p->smps < FAB_HCA_SMPS;
	return p->h->mapped < OHCA_PAGE_MAPS && ohca_rx_room(p->h->e, n, len);
}

static void hca_frame(void *ctx, const struct ohca_link_frame *f, const struct ib_view *view)
{
	struct fab_hca_port *p = ctx;

	p->smps += f->vl == IB_MGMT_VL;
	ohca_rx(p->h->e, p->num, &(struct ohca_frame){
		.data = f->data,
		.view = view,
		.len = f->len,
		.vl = f->vl,
		.flags = (uint8_t)f->flags,
		.vcrc = f->vcrc,
	});
	fab_hca_list(p->h);
}

static void hca_link(void *ctx, const struct fab_hport_rate *rate)
{
	struct fab_hca_port *p = ctx;
	struct fab_hca_missed *m = &p->missed;

	m->down |= !rate;
	m->up = rate;
	if (rate)
		m->rate = (struct ohca_link_rate){ rate->width, rate->speed, rate->speed_ext };
	if (p->h->running)
		fab_hca_links(p->h);
}

static void hca_soon(void *ctx, uint32_t qpn)
{
	const struct fab_hca_port *p = ctx;

	ohca_rx_soon(p->h->e, p->num, qpn);
}

static const struct fab_hport_ops hca_wire_ops = {
	.room = hca_room,
	.soon = hca_soon,
	.rx = hca_frame,
	.link = hca_link,
};

void fab_hca_links(struct fab_hca *h)
{
	for (unsigned int i = 0; i < h->cfg.engine.num_ports; i++) {
		struct fab_hca_missed *m = &h->port[i].missed;

		if (!m->down && !m->up)
			continue;
		if (m->down)
			ohca_link_change(h->e, i, NULL);
		if (m->up)
			ohca_link_change(h->e, i, &m->rate);
		m->down = m->up = false;
		fab_hca_list(h);
	}
}

bool fab_hca_plug(struct fab_hca *h)
{
	const struct ohca_cfg *e = &h->cfg.engine;
	struct ohca_link_cfg cfg;

	ohca_link_cfg_init(&cfg);
	cfg.node_guid = e->node_guid;
	cfg.vl_cap = e->vl_cap;
	cfg.mtu_cap = e->mtu_cap;
	cfg.width_sup = e->width_sup;
	cfg.speed_sup = e->speed_sup;
	cfg.speed_ext_sup = e->speed_ext_sup;
	memcpy(cfg.desc, e->node_desc, sizeof(cfg.desc));
	for (unsigned int i = 0; i < e->num_ports; i++) {
		struct fab_hca_port *p = &h->port[i];

		cfg.port_guid = e->node_guid + 1 + i;
		cfg.port_num = (uint8_t)(i + 1);
		p->h = h;
		p->num = i;
		p->wire = fab_hport_attach(h->s->d, h->cfg.place[i], &cfg, &hca_wire_ops, p);
		if (!p->wire)
			return false;
	}
	return true;
}

void fab_hca_unplug(struct fab_hca *h)
{
	for (unsigned int i = 0; i < FAB_HCA_PORTS; i++) {
		if (h->port[i].wire)
			fab_hport_detach(h->port[i].wire);
		h->port[i].wire = NULL;
	}
}

bool fab_hca_credits(struct fab_hca *h)
{
	bool refused = false;

	for (unsigned int i = 0; i < h->cfg.engine.num_ports; i++) {
		const uint16_t lanes = fab_hport_ready(h->port[i].wire);

		h->port[i].refused &= (uint16_t)~lanes;
		refused |= h->port[i].refused;
		if (!lanes)
			continue;
		ohca_tx_ready(h->e, i, lanes);
		fab_hca_list(h);
	}
	return refused;
}

/* ---- engine to fabric ---------------------------------------------------------- */

uint8_t *fab_hca_tx_begin(void *p, unsigned int port, unsigned int vl, uint32_t len)
{
	struct fab_hca *h = p;
	uint8_t *room = fab_hport_begin(h->port[port].wire, vl, len);

	if (!room && vl != IB_MGMT_VL) {
		h->port[port].refused |= (uint16_t)(1u << vl);
		h->s->refused = true;
	}
	return room;
}

bool fab_hca_tx_series(void *p, unsigned int port, unsigned int vl, uint32_t len, unsigned int n)
{
	const struct fab_hca *h = p;

	return fab_hport_series(h->port[port].wire, vl, len, n);
}

void fab_hca_tx_soon(void *p, unsigned int port, const uint8_t *lrh, uint16_t pkey, uint32_t dqpn)
{
	const struct fab_hca *h = p;

	fab_hport_soon(h->port[port].wire, lrh, pkey, dqpn);
}

void fab_hca_tx_commit(void *p, unsigned int port, unsigned int vl, uint32_t len)
{
	const struct fab_hca *h = p;

	fab_hport_commit(h->port[port].wire, vl, len, NULL);
}

void fab_hca_tx_commit_view(void *p, unsigned int port, unsigned int vl, uint32_t len,
			    const struct ib_view *view)
{
	const struct fab_hca *h = p;

	fab_hport_commit(h->port[port].wire, vl, len, view);
}

void fab_hca_link_ctl(void *p, unsigned int port, bool enable)
{
	const struct fab_hca *h = p;

	fab_hport_train(h->port[port].wire, enable);
}

void fab_hca_link_rate(void *p, unsigned int port, const struct ohca_link_rate *rate)
{
	const struct fab_hca *h = p;

	fab_hport_enable(h->port[port].wire, &(struct fab_hport_rate){
		.width = rate->width,
		.speed = rate->speed,
		.speed_ext = rate->speed_ext,
	});
}

uint64_t fab_hca_vl15_dropped(void *p, unsigned int port)
{
	const struct fab_hca *h = p;

	return fab_hport_dropped(h->port[port].wire);
}
