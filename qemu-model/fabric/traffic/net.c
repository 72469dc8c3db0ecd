// SPDX-License-Identifier: GPL-2.0-or-later
/* The wires of a fabric for traffic, and the routes over them; see net.h. */
#include "net.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/mgmt/mgmt.h"

#define LINE	64u
#define WAYS	(1u << 28)	/* most bytes of @way: switches times hosts */

/* ---- traffic that needs the data path ------------------------------------------ */

/* Whether a wire has any effect except for its rate. */
static bool is_faulty(const struct fab *f, uint32_t p)
{
	const struct fab_extra *x = fab_extra_of(f, p);
	const struct fab_fault *w = x ? x->fault : NULL;

	return w && (w->loss | w->corrupt | w->delay_ns | w->error_bits | w->stalls | w->leaks | w->loses);
}

static bool is_plain(const struct fab_traffic *t)
{
	const struct fab *f = t->f;

	if (t->cfg.cc || t->cfg.adaptive || t->cfg.watcher || t->cfg.script || t->cfg.whole ||
	    (uint64_t)f->switches * t->hosts > WAYS)
		return false;
	for (uint32_t i = 0; i < f->nodes; i++)
		if (f->node[i].sw != FAB_NONE &&
		    (f->sw[f->node[i].sw].adaptive || fab_cc_of(f, fab_port_of(&f->node[i], 0))))
			return false;
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].pi.part_enf_in || f->port[p].pi.part_enf_out || is_faulty(f, p))
			return false;
	return true;
}

/* ---- wires --------------------------------------------------------------------- */

/* Allocate @n elements of @size bytes, all 0, at the begin of a cache line. */
static void *lines(size_t n, size_t size)
{
	const size_t bytes = (n * size + LINE - 1) / LINE * LINE;
	void *p = NULL;

	if (posix_memalign(&p, LINE, bytes ? bytes : LINE))
		return NULL;
	return memset(p, 0, bytes ? bytes : LINE);
}

/* Fill in the wire of port @p, which has a cable, without the ends. */
static void wire_find(struct traffic_net *n, uint32_t p)
{
	const struct fab *f = n->t->f;
	const struct fab_port *near = &f->port[p], *far = &f->port[near->peer];
	const struct ib_vlarb *arb = fab_pool_at(&f->vlarb, near->vlarb);
	struct net_wire *w = &n->wire[p];
	uint32_t max_len = fab_port_max_len(&near->pi);

	w->peer = near->peer;
	w->num = (uint8_t)fab_port_num(f, near->peer);
	w->first = f->node[near->node].first;
	w->sw = (uint16_t)f->node[far->node].sw;
	w->weights = arb->t[IB_VLARB_LOW].vls | arb->t[IB_VLARB_HIGH].vls;
	if (!w->to_host && max_len > fab_port_max_len(&far->pi))
		max_len = fab_port_max_len(&far->pi);
	w->max_len = (uint16_t)max_len;
	if (n->arb) {
		n->arb[p] = *arb;
		n->arb[p].high_limit = near->pi.vl_high_limit;
	}
	if (near->pi.state == IB_PS_ACTIVE && far->pi.state == IB_PS_ACTIVE)
		w->byte_fs = fab_pace_byte_fs(n->t->d, p);
}

static void wires_find(struct traffic_net *n)
{
	const struct fab *f = n->t->f;

	for (uint32_t i = 0; i < n->t->hosts; i++) {
		const uint32_t leaf = n->t->host[i].leaf, p = n->t->host[i].port;

		n->wire[p].from_host = true;
		n->wire[leaf].to_host = true;
		wire_find(n, p);
		wire_find(n, leaf);
		n->wire[p].first = i;
		n->wire[leaf].sw = (uint16_t)i;
		/* both directions have the rate of the switch's end */
		n->wire[p].byte_fs = n->wire[leaf].byte_fs = fab_pace_byte_fs(n->t->d, leaf);
	}
	for (uint32_t p = 1; p < f->ports; p++) {
		const uint32_t peer = f->port[p].peer;

		n->wire[p].packet = NET_NONE;
		for (unsigned int vl = 0; vl < n->lanes; vl++)
			*net_lane_of(n, p, vl) = (struct net_lane){ NET_NONE, NET_NONE, peer, 0 };
		if (peer != FAB_NO_PORT && f->node[f->port[p].node].sw != FAB_NONE &&
		    f->node[f->port[peer].node].sw != FAB_NONE)
			wire_find(n, p);
	}
}

/* ---- routes -------------------------------------------------------------------- */

static void ways_find(struct traffic_net *n)
{
	const struct fab_traffic *t = n->t;
	const struct fab *f = t->f;

	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *node = &f->node[i];
		uint8_t *way = n->way + (size_t)node->sw * t->hosts;

		if (node->sw == FAB_NONE)
			continue;
		for (uint32_t h = 0; h < t->hosts; h++) {
			const unsigned int num = fab_route(f, node, t->host[h].lid);

			way[h] = num <= node->nports ? (uint8_t)num : 0;
		}
	}
}

/*
 * Number of lanes that packets of service levels @sls, a bit for each, may use at any port. If it
 * is 1, lane_at() needs no tables: packets that some port discards count as a second lane.
 */
static unsigned int lanes_of(const struct fab *f, uint16_t sls)
{
	unsigned int vls = 1;

	for (uint32_t i = 0; i < f->sl2vl.top; i++) {
		const struct ib_sl2vl *map = fab_pool_at(&f->sl2vl, i);

		for (uint16_t m = sls; m; m &= (uint16_t)(m - 1)) {
			const unsigned int to = map->vl[__builtin_ctz(m)], vl = to < FAB_WIRE_LANES ? to : 1;

			if (vl >= vls)
				vls = vl + 1;
		}
	}
	return vls;
}

/* The shortest limit: packets that wait no longer at a switch are not discarded. */
static uint64_t patience(const struct fab_traffic *t)
{
	const struct fab *f = t->f;
	uint64_t ns = UINT64_MAX;

	for (uint32_t p = 1; p < f->ports; p++) {
		const struct fab_node *node = &f->node[f->port[p].node];
		uint64_t hoq, life;

		if (node->sw == FAB_NONE)
			continue;
		hoq = fab_limit_ns(t->d, f->port[p].pi.hoq_life);
		life = fab_limit_ns(t->d, f->sw[node->sw].si.life_time);
		ns = hoq < ns ? hoq : ns;
		ns = life < ns ? life : ns;
	}
	return ns;
}

/* ---- the begin ----------------------------------------------------------------- */

static bool net_make(struct traffic_net *n)
{
	const struct fab *f = n->t->f;
	const uint16_t sls = n->t->cfg.paths ? UINT16_MAX : traffic_service_levels(&n->t->cfg);
	const size_t ports = f->ports;
	unsigned int most = 0;

	for (uint32_t i = 0; i < f->nodes; i++)
		if (f->node[i].sw != FAB_NONE && f->node[i].nports > most)
			most = f->node[i].nports;
	while (1u << n->lane_bits < lanes_of(f, sls))
		n->lane_bits++;
	n->lanes = 1u << n->lane_bits;
	n->words = (((most + 1) << n->lane_bits) + 63) / 64;
	n->out_size = sizeof(struct net_out) + n->words * sizeof(uint64_t);
	n->spare = NET_NONE;
	n->wire = lines(ports, sizeof(*n->wire));
	n->begin = lines(n->t->hosts, sizeof(*n->begin));
	n->out = lines(ports << n->lane_bits, n->out_size);
	n->lane = lines(ports << n->lane_bits, sizeof(*n->lane));
	n->way = lines(f->switches, n->t->hosts);
	n->arb = n->lanes > 1 ? lines(ports, sizeof(*n->arb)) : NULL;
	n->arrivals = lines(ports, sizeof(*n->arrivals));
	n->turns = lines(ports, sizeof(*n->turns));
	n->senders = lines(ports, sizeof(*n->senders));
	n->heads = lines(ports, sizeof(*n->heads));
	n->now = lines(ports, sizeof(*n->now));
	n->rooms = lines(ports, sizeof(*n->rooms));
	return n->wire && n->begin && n->out && n->lane && n->way && (n->arb || n->lanes == 1) && n->arrivals &&
	       n->turns && n->senders && n->heads && n->now && n->rooms;
}

struct traffic_net *traffic_net_new(struct fab_traffic *t)
{
	struct traffic_net *n;

	if (!is_plain(t))
		return NULL;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->t = t;
	n->calendar.now_ns = t->now_ns;
	n->patience_ns = patience(t);
	if (net_make(n)) {
		wires_find(n);
		ways_find(n);
		return n;
	}
	traffic_net_free(n);
	return NULL;
}

void traffic_net_free(struct traffic_net *n)
{
	if (!n)
		return;
	free(n->wire);
	free(n->begin);
	free(n->out);
	free(n->lane);
	free(n->way);
	free(n->arb);
	free(n->arrivals);
	free(n->turns);
	free(n->senders);
	free(n->heads);
	free(n->now);
	free(n->rooms);
	free(n->packet);
	free(n);
}
