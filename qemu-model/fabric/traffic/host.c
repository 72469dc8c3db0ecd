// SPDX-License-Identifier: GPL-2.0-or-later
/* Hosts without machines that send and receive messages; see traffic.h. */
#include "traffic_priv.h"

#include <stdlib.h>
#include <string.h>

#include "ib/packet.h"
#include "ib/rate.h"

#define NS_BITS		8e6		/* ns of a byte at 1 kb/s */
#define GAP_MAX		1e14		/* between two messages: a day */

/* ---- sending ------------------------------------------------------------------- */

static uint32_t index_of(const struct traffic_host *h)
{
	return (uint32_t)(h - h->t->host);
}

bool traffic_lane(const struct traffic_host *h, uint8_t sl, uint8_t *vl)
{
	const struct fab *f = h->t->f;
	const unsigned int vls = ib_opvls_count(f->port[h->leaf].pi.op_vls);
	const int found = ib_sl2vl_lookup(fab_sl2vl(f, &f->node[f->port[h->port].node], 0,
						    fab_port_num(f, h->port)), sl, vls);

	*vl = (uint8_t)found;
	return found >= 0;
}

uint8_t traffic_sl(const struct traffic_host *from, const struct traffic_host *to)
{
	const struct fab_traffic_cfg *cfg = &from->t->cfg;

	return fab_paths_sl(cfg->paths, from->lid, to->lid,
			    cfg->sl[cfg->sls ? index_of(from) % cfg->sls : 0]);
}

/* Find the next message with a lane; messages without one are lost. */
static void next_message(struct traffic_host *h)
{
	struct fab_traffic *t = h->t;

	for (; h->next < t->cfg.messages; h->next++) {
		h->to = traffic_target(t, index_of(h), h->next);
		h->sl = traffic_sl(h, &t->host[h->to]);
		if (traffic_lane(h, h->sl, &h->vl))
			return;
	}
	if (!t->share_ns && !(traffic_is_incast(t) && !index_of(h)))
		t->share_ns = t->now_ns;
}

/*
 * Set the timer to the begin @ns of the current message; at once if a notification or an ACK waits.
 */
static void set_timer(struct traffic_host *h, uint64_t ns)
{
	if (h->t->net)
		traffic_net_due(h, ns);
	else
		fab_timer_set(&h->t->due, &h->timer, h->cnps || h->acks ? h->t->now_ns : ns);
}

void traffic_wake(struct traffic_host *h)
{
	set_timer(h, h->t->now_ns);
}

/*
 * Make the next message the current one. @begin_ns may be in the past if others were sent before.
 */
static void prepare(struct traffic_host *h, uint64_t begin_ns)
{
	struct fab_traffic *t = h->t;
	const bool reduce = traffic_is_reduce(t);
	struct traffic_message *msg;

	/* the first host of an incast sends nothing */
	if (traffic_is_incast(t) && !index_of(h))
		h->next = t->cfg.messages;
	h->begin_ns = UINT64_MAX;
	next_message(h);
	if (h->next == t->cfg.messages || (reduce && traffic_reduce_waits(t, index_of(h), h->next))) {
		set_timer(h, UINT64_MAX);
		return;
	}
	msg = &t->msg[traffic_message_of(h)];
	h->left = reduce ? traffic_reduce_bytes(t, index_of(h), h->next) : t->cfg.size;
	h->begin_ns = begin_ns;
	h->psn = 0;
	msg->left = h->left;
	msg->begin_ns = begin_ns;
	set_timer(h, begin_ns);
}

/* Random begin of the message after this one: at most twice the mean time later. */
static uint64_t next_begin(struct traffic_host *h)
{
	if (h->t->cfg.load >= 100)
		return h->t->now_ns;
	return h->begin_ns + (h->gap_ns * traffic_below(&h->rng, 1u << 16) >> 15);
}

void traffic_host_sent(struct traffic_host *h, uint32_t bytes)
{
	h->t->sent++;
	h->psn++;
	h->left -= bytes;
	if (h->left)
		return;
	h->next++;
	if (h->t->cfg.watcher)
		traffic_flows_sent(h);
	prepare(h, next_begin(h));
}

/*
 * Send one packet of the current message. Return: false: the wire is busy, or there are no credits.
 */
static bool send_packet(struct traffic_host *h)
{
	struct fab_traffic *t = h->t;
	const uint32_t bytes = traffic_packet_bytes(h), len = traffic_len(t, bytes);
	uint8_t *b = fab_hport_begin(h->h, h->vl, len);

	if (!b)
		return false;
	b = ib_build_lrh(b, h->vl, h->sl, IB_LNH_IBA_LOCAL, t->host[h->to].lid,
			 (uint16_t)(len / 4), h->lid);
	/* only the headers up to the BTH are read */
	ib_build_bth(b, traffic_deth_len(t) ? IB_OP_UD_SEND_ONLY : IB_OP_UC_SEND_ONLY, 0, (uint8_t)(-bytes & 3),
		     IB_DEFAULT_PKEY, traffic_message_of(h), false, h->psn);
	fab_hport_commit(h->h, h->vl, len, NULL);
	if (t->cfg.cc)
		traffic_sent(h);
	traffic_host_sent(h, bytes);
	return true;
}

/* Send the next ACK. Return: false: as above. */
static bool send_ack(struct traffic_host *h)
{
	struct fab_traffic *t = h->t;
	const uint32_t number = h->ack_first;
	uint8_t *b = fab_hport_begin(h->h, h->ack_vl, TRAFFIC_ACK_LEN);

	if (!b)
		return false;
	b = ib_build_lrh(b, h->ack_vl, h->ack_sl, IB_LNH_IBA_LOCAL, traffic_sender(t, number)->lid,
			 TRAFFIC_ACK_LEN / 4, h->lid);
	ib_build_bth(b, IB_OP_RC_ACK, 0, 0, IB_DEFAULT_PKEY, number, false, 0);
	memset(b + IB_BTH_LEN, 0, IB_AETH_LEN);
	fab_hport_commit(h->h, h->ack_vl, TRAFFIC_ACK_LEN, NULL);
	traffic_ack_sent(h);
	return true;
}

static bool send_next(struct traffic_host *h)
{
	if (h->cnps)
		return traffic_send_cnp(h);
	return h->acks ? send_ack(h) : send_packet(h);
}

/* Wait until the wire is ready, or until there are credits again. */
static void wait_for_wire(struct traffic_host *h)
{
	struct fab_traffic *t = h->t;
	const uint64_t free_ns = fab_hport_free_ns(h->h);

	fab_timer_set(&t->due, &h->timer, free_ns > t->now_ns ? free_ns : UINT64_MAX);
	if (free_ns > t->now_ns || h->is_refused)
		return;
	h->is_refused = true;
	h->refused = t->refused;
	t->refused = h;
}

/* Time at which the next packet of a message may begin; UINT64_MAX: there is none. */
static uint64_t next_ns(const struct traffic_host *h)
{
	if (h->next == h->t->cfg.messages)
		return UINT64_MAX;
	return h->begin_ns > h->may_ns ? h->begin_ns : h->may_ns;
}

static bool host_turn(struct traffic_host *h)
{
	struct fab_traffic *t = h->t;
	bool moved = false;

	while (h->cnps || h->acks || next_ns(h) <= t->now_ns) {
		if (!send_next(h)) {
			wait_for_wire(h);
			return moved;
		}
		moved = true;
	}
	fab_timer_set(&t->due, &h->timer, next_ns(h));
	return moved;
}

bool traffic_hosts_turn(struct fab_traffic *t)
{
	struct traffic_host *h = t->refused, *next;
	bool moved = false;

	t->refused = NULL;
	for (; h; h = next) {
		next = h->refused;
		h->is_refused = false;
		moved |= host_turn(h);
	}
	while (fab_timers_due(&t->due) <= t->now_ns) {
		/* the timer is the first member */
		h = (struct traffic_host *)(void *)t->due.first;
		moved |= host_turn(h);
	}
	return moved;
}

/* ---- receiving ----------------------------------------------------------------- */

static bool host_room(void *ctx, unsigned int vl, unsigned int n, uint32_t len)
{
	(void)ctx;
	(void)vl;
	(void)n;
	(void)len;
	return true;
}

/* Count bytes that have arrived at @h by an incast, or by the flow beside it. */
static void count_flow(const struct traffic_host *h, uint32_t bytes)
{
	struct fab_traffic *t = h->t;
	const bool victim = index_of(h), beside = t->cfg.pattern == FAB_PATTERN_INCAST_VICTIM;
	struct traffic_flow *flow = victim ? &t->victim : &t->hot;
	const uint64_t senders = victim ? 1 : t->hosts - 1 - beside;

	flow->bytes += bytes;
	flow->last_ns = t->now_ns;
	if (flow->half_ns || 2 * flow->bytes < senders * t->cfg.messages * t->cfg.size)
		return;
	flow->half = flow->bytes;
	flow->half_ns = t->now_ns;
}

void traffic_host_got(struct traffic_host *h, uint32_t number, uint32_t psn, uint32_t bytes, uint8_t sl)
{
	struct fab_traffic *t = h->t;
	struct traffic_message *msg = &t->msg[number];

	t->came++;
	t->bytes += bytes;
	t->last_ns = t->now_ns;
	if (!t->share_ns)
		t->share[sl] += bytes;
	if (traffic_is_incast(t))
		count_flow(h, bytes);
	if (t->cfg.watcher)
		traffic_flows_came(t, number, bytes);
	t->reordered += psn < msg->top;
	if (psn >= msg->top)
		msg->top = psn + 1;
	msg->left -= bytes;
	if (msg->left)
		return;
	if (t->cfg.transport == FAB_TRANSPORT_RC)
		traffic_ack_add(h, number);
	else
		t->took[t->done++] = t->now_ns - msg->begin_ns;
	/* a step of an all-reduce may have waited for it */
	if (h->begin_ns == UINT64_MAX)
		prepare(h, t->now_ns);
}

/* The BTH has the message's number in place of the QP's. */
static void host_rx(void *ctx, const struct ohca_link_frame *f, const struct ib_view *view)
{
	struct traffic_host *h = ctx;
	const uint32_t hdr = IB_LRH_LEN + IB_BTH_LEN + traffic_deth_len(h->t);
	const uint32_t pad = f->data[IB_LRH_LEN + 1] >> 4 & 3;
	const uint32_t bits = ib_get_be32(f->data + IB_LRH_LEN + 4), number = bits & IB_QPN_MASK;

	(void)view;
	if (f->data[IB_LRH_LEN] == IB_OP_CNP) {
		h->t->came++;
		traffic_becn(h);
		return;
	}
	if (f->data[IB_LRH_LEN] == IB_OP_RC_ACK) {
		traffic_ack_got(h->t, number);
		return;
	}
	if (bits >> 31)
		traffic_fecn(h, number);
	traffic_host_got(h, number, ib_get_be32(f->data + IB_LRH_LEN + 8) & IB_PSN_MASK,
			 f->len - hdr - IB_ICRC_LEN - pad, f->data[1] >> 4);
}

static void host_link(void *ctx, const struct fab_hport_rate *rate)
{
	(void)ctx;
	(void)rate;
}

static const struct fab_hport_ops host_ops = {
	.room = host_room, .rx = host_rx, .link = host_link,
};

/* ---- the begin ----------------------------------------------------------------- */

static bool host_make(struct fab_traffic *t, uint32_t p, uint32_t leaf)
{
	const struct ib_port_info *pi = &t->f->port[p].pi;
	struct traffic_host *h = &t->host[t->hosts];
	struct ohca_link_cfg cfg;

	ohca_link_cfg_init(&cfg);
	cfg.port_guid = t->f->port[p].guid;
	cfg.vl_cap = (uint8_t)ib_opvls_count(t->f->port[leaf].pi.op_vls);
	cfg.mtu_cap = t->f->port[leaf].pi.mtu;
	cfg.width_sup = pi->width_supported;
	cfg.speed_sup = pi->speed_supported;
	cfg.speed_ext_sup = pi->speed_ext_supported;
	h->t = t;
	h->leaf = leaf;
	h->port = p;
	h->lid = pi->lid;
	h->node = t->f->port[p].node;
	h->h = fab_hport_attach(t->d, leaf, &cfg, &host_ops, h);
	if (!h->h)
		return false;
	t->hosts++;
	fab_hport_train(h->h, true);
	return true;
}

bool traffic_hosts_make(struct fab_traffic *t)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < t->f->nodes; i++)
		most += t->f->node[i].type == IB_NODE_CHANNEL_ADAPTER;
	t->host = calloc(most ? most : 1, sizeof(*t->host));
	if (!t->host)
		return false;
	for (uint32_t i = 0; i < t->f->nodes; i++) {
		const struct fab_node *n = &t->f->node[i];
		const uint32_t p = fab_port_of(n, 1), leaf = t->f->port[p].peer;

		if (n->type != IB_NODE_CHANNEL_ADAPTER || leaf == FAB_NO_PORT ||
		    t->f->node[t->f->port[leaf].node].sw == FAB_NONE ||
		    t->f->port[p].pi.state == IB_PS_DOWN || !t->f->port[p].pi.lid)
			continue;
		if (!host_make(t, p, leaf))
			return false;
	}
	return true;
}

void traffic_hosts_begin(struct fab_traffic *t)
{
	for (uint32_t i = 0; i < t->hosts; i++) {
		struct traffic_host *h = &t->host[i];
		const struct ib_port_info *pi = &t->f->port[h->leaf].pi;
		const uint32_t kbps = ib_link_data_kbps(pi->width_active, pi->speed_active,
							pi->speed_ext_active);
		double gap = 0;

		if (kbps)
			gap = NS_BITS * t->cfg.size * t->cfg.rate_scale / kbps * 100 / t->cfg.load;
		h->rng = (uint64_t)fab_random(&t->rng) << 32;
		h->rng = fab_random_state(h->rng | fab_random(&t->rng));
		h->gap_ns = gap < GAP_MAX ? (uint64_t)gap : (uint64_t)GAP_MAX;
		h->begin_ns = t->now_ns;
		prepare(h, next_begin(h));
	}
}
