// SPDX-License-Identifier: GPL-2.0-or-later
/* The data path of a fabric: its beginning, its end, and its rounds; see data.h. */
#include "data.h"
#include "buffer.h"
#include "data_priv.h"
#include "decide.h"
#include "delay.h"
#include "forward.h"
#include "gsi.h"
#include "hport_priv.h"
#include "links.h"
#include "pace.h"
#include "to_watch.h"
#include "wait.h"

#include <stdlib.h>

#define VL15_BURST	32u

static void wire_mad(void *ctx, uint32_t port, bool sent, const struct fab_mad *mad, bool lost)
{
	struct fab_data *d = ctx;
	struct fab_dport *dp = d->by_port[port];

	if (dp && dp->tap)
		fab_capture_mad(d, dp->tap, mad, sent, lost ? FAB_DROP_LOSS : FAB_DROP_NONE);
}

static uint32_t wire_find(const void *ctx, uint64_t guid)
{
	return fab_data_find_guid(ctx, guid);
}

static const struct fab_wires wires = {
	.meet = fab_ports_meet,
	.send = fab_gsi_send,
	.land = fab_gsi_land,
	.train = fab_link_train,
	.count = fab_link_count,
	.find = wire_find,
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
	fab_pace_free(d);
	for (uint32_t i = 0; i < d->count; i++)
		fab_dport_free(d, d->all[i]);
	fab_buffers_free(d, NULL);
	free(d->by_port);
	fab_hash_free(&d->by_guid);
	free(d->all);
	free(d->linked);
	free(d->awake);
	free(d->used);
	free(d->stall);
	free(d->queue);
	free(d->outs);
	free(d->touch);
	free(d->woken);
	free(d->freed);
	free(d->mcast);
	free(d);
}

/* ---- rounds -------------------------------------------------------------------- */

static bool rx_vl15(struct fab_data *d, struct fab_dport *dp)
{
	struct ohca_link_frame f;
	unsigned int n;

	/* read new faults before the first packet */
	if (d->epoch != d->m->epoch)
		fab_dport_refresh(d, dp);
	for (n = 0; n < VL15_BURST && dp->up; n++) {
		if (!ohca_link_rx_peek(dp->link, OHCA_LINK_VL15, &f))
			break;
		if (fab_unlikely(fab_damaged(d, dp, f.data, f.len, f.flags, f.vcrc)))
			ib_pma_count_rcv(dp->ctr, f.len, f.data[1] >> 4, false);
		else
			fab_vl15_rx(d, dp, f.data, f.len, f.flags);
		ohca_link_rx_release(dp->link, OHCA_LINK_VL15);
		/* Management may have trained this link or another one. */
		if (d->epoch != d->m->epoch)
			fab_dport_refresh(d, dp);
	}
	return n;
}

/* Process VL15 packets of the links before their data, because only management takes links down. */
static bool management(struct fab_data *d)
{
	bool moved = false;

	for (uint32_t i = 0; i < d->nawake; i++) {
		struct fab_dport *dp = d->awake[i];

		dp->pending = ohca_link_rx_pending(dp->link);
		if (fab_likely(!(dp->pending >> OHCA_LINK_VL15)))
			continue;
		moved |= rx_vl15(d, dp);
		/* what is left is more than a burst, or breaks the link's rules */
		if (ohca_link_rx_pending(dp->link) >> OHCA_LINK_VL15 && !fab_link_ctrl(d, dp))
			i--;
	}
	return moved;
}

static bool late_ctrl(struct fab_data *d)
{
	if (fab_likely(!d->ctrl_due))
		return false;
	d->ctrl_due = false;
	for (uint32_t i = 0; i < d->links; i++) {
		struct fab_dport *dp = d->linked[i];

		if (!dp->ctrl_due)
			continue;
		if (dp->hport)
			fab_hport_settle(dp->hport);
		else if (!fab_link_ctrl(d, dp))
			i--;
	}
	return true;
}

static void refresh_port(struct fab_data *d, uint32_t p)
{
	if (p != FAB_NO_PORT && d->by_port[p])
		fab_dport_refresh(d, d->by_port[p]);
}

/* Refresh the ports of @p, a value of fab_changed(). */
static void refresh_changed(struct fab_data *d, uint32_t p)
{
	const struct fab_node *n = &d->f->node[d->f->port[p].node];

	if (n->sw == FAB_NONE || fab_port_num(d->f, p)) {
		refresh_port(d, p);
		refresh_port(d, d->f->port[p].peer);
		return;
	}
	for (unsigned int num = 0; num <= n->nports; num++)
		refresh_port(d, fab_port_of(n, num));
}

static void refresh(struct fab_data *d)
{
	struct fab_changes *c = &d->m->changes;
	bool some;

	if (fab_likely(d->epoch == d->m->epoch))
		return;
	some = d->m->epoch - d->epoch == c->count && c->n <= FAB_CHANGES;
	d->epoch = d->m->epoch;
	d->version++;
	for (uint32_t i = 0; some && i < c->n; i++)
		refresh_changed(d, c->port[i]);
	for (uint32_t i = 0; !some && i < d->count; i++)
		fab_dport_refresh(d, d->all[i]);
	c->count = 0;
	c->n = 0;
}

void fab_data_refresh(struct fab_data *d)
{
	d->now_ns = 0;
	refresh(d);
}

bool fab_data_round(struct fab_data *d)
{
	bool moved;

	d->now_ns = 0;
	/* first: an HCA's link goes down after the answer to the SMP that disables it has left */
	moved = fab_hport_round(d);
	moved |= late_ctrl(d);
	if (fab_unlikely(d->stalls))
		fab_end_stalls(d);
	moved |= management(d);
	refresh(d);
	if (fab_unlikely(d->paced.first))
		moved |= fab_pace_round(d);
	if (fab_unlikely(d->flying))
		moved |= fab_delay_round(d);
	moved |= fab_forward_round(d);
	moved |= fab_reply_flush(d);
	if (d->touches)
		fab_settle(d);
	for (uint32_t i = 0; i < d->nawake; i++)
		ohca_link_kick(d->awake[i]->link);
	/* also the links that HCAs have used since the last round */
	fab_links_used(d);
	if (fab_unlikely(d->link_captures))
		fab_capture_links(d);
	return moved;
}

uint64_t fab_data_timer(struct fab_data *d)
{
	uint64_t next;

	d->now_ns = 0;
	/* answers to delayed MADs that have arrived do not wait for the next round */
	if (d->reply_count) {
		refresh(d);
		fab_reply_flush(d);
		fab_settle(d);
	}
	/* traps may have left after a sleep was announced */
	for (uint32_t i = 0; i < d->nawake; i++)
		ohca_link_kick_tx(d->awake[i]->link);
	for (uint32_t i = 0; i < d->nused; i++)
		ohca_link_kick_tx(d->used[i]->link);
	next = fab_buffers_trim(d);
	/* links were trained since the round, or MADs of HCAs wait */
	if (d->ctrl_due || d->mad_ports)
		next = 0;
	/* management may have ended a wait */
	if (d->blocked && d->epoch != d->m->epoch)
		next = 0;
	if (d->flying) {
		const uint64_t due = fab_delay_due(d);

		next = due < next ? due : next;
	}
	if (d->paced.first) {
		const uint64_t due = fab_pace_due(d);

		next = due < next ? due : next;
	}
	if ((d->blocked || d->reply_count || d->stalls) && FAB_LOOK_NS < next)
		next = FAB_LOOK_NS;
	return next;
}

/*
 * Links without packets become idle: rounds skip them, so they cost nothing, until a message
 * arrives by their sockets. The others, whose heads wait for credit, sleep only as long as the
 * fabric does.
 */
bool fab_data_sleep(struct fab_data *d)
{
	uint32_t kept = 0;

	fab_links_used(d);
	for (uint32_t i = 0; i < d->nawake; i++) {
		struct fab_dport *dp = d->awake[i];

		if (ohca_link_prepare_sleep_except(dp->link, fab_blocked_lanes(d, dp)))
			continue;
		/* packets, credits, or a peer that breaks the link's rules */
		fab_link_ctrl(d, dp);
		return false;
	}
	for (uint32_t i = 0; i < d->nawake; i++) {
		struct fab_dport *dp = d->awake[i];

		dp->idle = !fab_blocked_lanes(d, dp);
		if (!dp->idle)
			d->awake[kept++] = dp;
	}
	d->nawake = kept;
	return true;
}

void fab_data_woke(struct fab_data *d, uint32_t p)
{
	struct fab_dport *dp = d->by_port[p];

	if (!dp || !dp->link)
		return;
	ohca_link_awake(dp->link);
	fab_link_wake(d, dp);
}

const struct fab_spin *fab_data_spin(const struct fab_data *d)
{
	return d->cfg.spin;
}

const struct ohca_link_closer *fab_data_closer(const struct fab_data *d)
{
	return d->cfg.closer;
}

unsigned int fab_data_rate_scale(const struct fab_data *d)
{
	return d->cfg.rate_scale;
}

uint16_t fab_data_any_order(const struct fab_data *d)
{
	return d->f->any_order;
}

struct fab_mgmt *fab_data_mgmt(const struct fab_data *d)
{
	return d->m;
}

void fab_data_set_fronts(struct fab_data *d, void (*read)(const void *arg, struct fab_front_stats *st),
			 const void *arg)
{
	d->fronts = read;
	d->fronts_arg = arg;
}

bool fab_data_fronts(const struct fab_data *d, struct fab_front_stats *st)
{
	if (!d->fronts)
		return false;
	*st = (struct fab_front_stats){ 0 };
	d->fronts(d->fronts_arg, st);
	return true;
}

void fab_data_accept_stopped(struct fab_data *d)
{
	d->accept_stops++;
}
