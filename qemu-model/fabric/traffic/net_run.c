// SPDX-License-Identifier: GPL-2.0-or-later
/* Events on the wires of a fabric while nothing is discarded; see net.h. */
#include "net.h"

#include <stdlib.h>

#include "ib/vl.h"

#define PACKETS		1024u	/* initial number */
#define MOST_HOPS	254u	/* a packet that crosses more switches may be in a loop */

/* ---- packets ------------------------------------------------------------------- */

/* Allocate more packets, all spare. Return: false: out of memory. */
static bool packets_grow(struct traffic_net *n)
{
	const uint32_t packets = n->packets ? 2 * n->packets : PACKETS;
	struct net_packet *p = realloc(n->packet, packets * sizeof(*p));

	if (!p)
		return false;
	for (uint32_t i = n->packets; i < packets; i++)
		p[i].next = i + 1 < packets ? i + 1 : NET_NONE;
	n->packet = p;
	n->spare = n->packets;
	n->packets = packets;
	return true;
}

/* Get a packet, or NET_NONE: out of memory. */
static uint32_t packet_get(struct traffic_net *n)
{
	uint32_t k;

	if (n->spare == NET_NONE && !packets_grow(n))
		return NET_NONE;
	k = n->spare;
	n->spare = n->packet[k].next;
	return k;
}

static void packet_put(struct traffic_net *n, uint32_t k)
{
	n->packet[k].next = n->spare;
	n->spare = k;
}

/* ---- wires --------------------------------------------------------------------- */

static void wait_until(struct traffic_net *n, struct fab_entry *e, uint64_t ns)
{
	e->due_ns = ns;
	fab_calendar_add(&n->calendar, e);
}

/* Begin to send packet @k by @w, which is ready. */
static void wire_sends(struct traffic_net *n, struct net_wire *w, uint32_t k)
{
	const uint64_t now = n->t->now_ns;
	struct fab_moment begin = { .ns = now };

	if (w->owed && fab_moment_ns(&w->sent) == now)
		begin = w->sent;
	w->sent = fab_sent_at(begin, w->byte_fs, n->packet[k].len);
	w->packet = k;
	/* two packets of one wire in a ns: not supported */
	if (fab_moment_ns(&w->sent) <= now)
		n->wrong = true;
	else
		wait_until(n, &w->entry, fab_moment_ns(&w->sent));
}

/* Give wire @p a turn in the next round. */
static void add_turn(struct traffic_net *n, struct net_wire *w, uint32_t p)
{
	if (w->listed)
		return;
	w->listed = true;
	if (w->from_host)
		n->senders[n->nsenders++] = p;
	else
		n->turns[n->nturns++] = p;
}

/* ---- hosts --------------------------------------------------------------------- */

void traffic_net_due(struct traffic_host *h, uint64_t ns)
{
	struct traffic_net *n = h->t->net;
	struct net_wire *w = &n->wire[h->port];

	if (ns <= h->t->now_ns) {
		/* otherwise it gets its turn when the wire is ready */
		if (w->packet == NET_NONE)
			add_turn(n, w, h->port);
	} else if (ns != UINT64_MAX) {
		/* the entry is free: the begin of the previous message has passed */
		wait_until(n, &n->begin[h - h->t->host], ns);
	}
}

/* The packet that @h sends next, if it has to send. */
static struct net_packet next_packet(const struct traffic_host *h)
{
	const uint32_t bytes = traffic_packet_bytes(h);

	if (h->acks)
		return (struct net_packet){
			.number = h->ack_first,
			.to = (uint16_t)(traffic_sender(h->t, h->ack_first) - h->t->host),
			.len = TRAFFIC_ACK_LEN,
			.sl = h->ack_sl,
			.vl = h->ack_vl,
			.ack = true,
		};
	return (struct net_packet){
		.number = traffic_message_of(h),
		.psn = h->psn,
		.to = (uint16_t)h->to,
		.bytes = (uint16_t)bytes,
		.len = (uint16_t)traffic_len(h->t, bytes),
		.sl = h->sl,
		.vl = h->vl,
	};
}

/* Let the host at @p, whose wire may be busy, begin to send a packet, if it has any. */
static void host_turn(struct traffic_net *n, uint32_t p)
{
	struct net_wire *w = &n->wire[p];
	struct traffic_host *h = &n->t->host[w->first];
	const uint64_t since_ns = h->acks && h->ack_ns < h->begin_ns ? h->ack_ns : h->begin_ns;
	struct net_packet packet;
	struct net_out *out;
	uint32_t k;

	w->listed = false;
	if (w->packet != NET_NONE || since_ns > n->t->now_ns)
		return;
	packet = next_packet(h);
	if (!w->byte_fs || packet.len > w->max_len || packet.vl >= n->lanes) {
		n->wrong = true;
		return;
	}
	out = net_out_of(n, p, packet.vl);
	w->starved = out->used + fab_blocks(packet.len) > FAB_WIRE_BLOCKS;
	if (w->starved)
		return;
	k = packet_get(n);
	if (k == NET_NONE) {
		n->wrong = true;
		return;
	}
	n->packet[k] = packet;
	out->used += fab_blocks(packet.len);
	/* the packet has waited for the wire */
	w->owed = since_ns < fab_moment_ns(&w->sent);
	wire_sends(n, w, k);
	if (packet.ack)
		traffic_ack_sent(h);
	else
		traffic_host_sent(h, packet.bytes);
}

/* ---- switches ------------------------------------------------------------------ */

/*
 * The lane of wire @out for a packet with @sl that arrived by @by; IB_NUM_VLS: it would be
 * discarded.
 */
static unsigned int lane_at(const struct traffic_net *n, const struct net_wire *by, uint32_t out, uint8_t sl)
{
	const struct fab *f = n->t->f;
	const struct fab_node *node = &f->node[f->port[out].node];
	int vl;

	if (!n->arb)
		return 0;
	vl = ib_sl2vl_lookup(fab_sl2vl(f, node, by->num, fab_port_num(f, out)), sl,
			     ib_opvls_count(f->port[out].pi.op_vls));
	return vl >= 0 ? (unsigned int)vl : IB_NUM_VLS;
}

/* Let the head @k of lane @vl behind wire @by request its output. */
static void request(struct traffic_net *n, const struct net_wire *by, unsigned int vl,
		    const struct net_packet *k)
{
	const unsigned int num = n->way[(size_t)by->sw * n->t->hosts + k->to];
	const uint32_t p = by->peer - by->num + num, bit = (uint32_t)by->num << n->lane_bits | vl;
	const unsigned int out_vl = num ? lane_at(n, by, p, k->sl) : IB_NUM_VLS;
	struct net_wire *w = &n->wire[p];

	if (num == by->num || !(w->weights >> out_vl & 1) || !w->byte_fs || k->len > w->max_len) {
		n->wrong = true;
		return;
	}
	net_out_of(n, p, out_vl)->want[bit / 64] |= 1ull << (bit % 64);
	w->want |= (uint16_t)(1u << out_vl);
	if (w->packet == NET_NONE)
		add_turn(n, w, p);
	else
		w->owed = true;
}

/* Packet @k has arrived by @w. */
static void arrive(struct traffic_net *n, const struct net_wire *w, uint32_t k)
{
	struct net_packet *packet = &n->packet[k];
	struct net_lane *lane;

	if (w->to_host) {
		if (packet->ack)
			traffic_ack_got(n->t, packet->number);
		else
			traffic_host_got(&n->t->host[w->sw], packet->number, packet->psn, packet->bytes,
					 packet->sl);
		packet_put(n, k);
		return;
	}
	lane = net_lane_of(n, w->peer, packet->vl);
	n->t->hops += !w->from_host;
	n->wrong |= packet->hops++ >= MOST_HOPS;
	packet->came_ns = n->t->now_ns;
	packet->next = NET_NONE;
	if (lane->first == NET_NONE) {
		lane->first = k;
		request(n, w, packet->vl, packet);
	} else {
		n->packet[lane->last].next = k;
	}
	lane->last = k;
}

/* The next input lane in turn. */
static uint32_t choose(const struct traffic_net *n, const struct net_out *out)
{
	uint32_t word = out->turn / 64;
	uint64_t want = out->want[word] & ~((2ull << (out->turn % 64)) - 1);

	/* ends: a bit is set; after all words the search returns to the first one */
	while (!want) {
		word = word + 1 < n->words ? word + 1 : 0;
		want = out->want[word];
	}
	return word * 64 + (uint32_t)__builtin_ctzll(want);
}

static bool is_wanted(const struct traffic_net *n, const struct net_out *out)
{
	uint64_t any = 0;

	for (unsigned int i = 0; i < n->words; i++)
		any |= out->want[i];
	return any;
}

/* Send the head of input lane @bit by lane @vl of wire @p. */
static void out_sends(struct traffic_net *n, uint32_t p, struct net_out *out, unsigned int vl, uint32_t bit)
{
	struct net_wire *w = &n->wire[p];
	const uint32_t in = w->first + (bit >> n->lane_bits);
	const unsigned int in_vl = bit & (n->lanes - 1);
	struct net_lane *lane = net_lane_of(n, in, in_vl);
	const uint32_t k = lane->first;
	struct net_packet *packet = &n->packet[k];
	const uint16_t blocks = fab_blocks(packet->len);

	out->turn = bit;
	out->want[bit / 64] &= ~(1ull << (bit % 64));
	if (!is_wanted(n, out))
		w->want &= (uint16_t)~(1u << vl);
	if (n->arb)
		ib_vlarb_sent(&n->arb[p], (uint8_t)vl, packet->len + IB_VCRC_LEN);
	lane->first = packet->next;
	if (lane->first != NET_NONE)
		n->heads[n->nheads++] = in << n->lane_bits | in_vl;
	n->rooms[n->nrooms++] = (struct net_room){ lane->from, blocks, (uint8_t)in_vl };
	n->wrong |= n->t->now_ns - packet->came_ns > n->patience_ns;
	packet->vl = (uint8_t)vl;
	if (!w->to_host)
		out->used += blocks;
	wire_sends(n, w, k);
	w->owed = w->want != 0;
}

/* Let wire @p of a switch, which is ready, choose a packet. */
static void out_turn(struct traffic_net *n, uint32_t p)
{
	struct net_wire *w = &n->wire[p];
	uint16_t ready = w->want;

	w->listed = false;
	w->starved = false;
	while (ready) {
		const int vl = n->arb ? ib_vlarb_pick(&n->arb[p], ready) : 0;
		struct net_out *out = net_out_of(n, p, (unsigned int)vl);
		const uint32_t bit = choose(n, out);
		const struct net_lane *lane = net_lane_of(n, w->first + (bit >> n->lane_bits),
							  bit & (n->lanes - 1));

		if (w->to_host || out->used + fab_blocks(n->packet[lane->first].len) <= FAB_WIRE_BLOCKS) {
			out_sends(n, p, out, (unsigned int)vl, bit);
			return;
		}
		w->starved = true;
		ready &= (uint16_t)~(1u << vl);
	}
}

/* ---- rounds -------------------------------------------------------------------- */

/* Free the room that this round has made, and let the heads behind those that have left request. */
static void round_ends(struct traffic_net *n)
{
	while (n->nrooms) {
		const struct net_room *room = &n->rooms[--n->nrooms];
		struct net_wire *w = &n->wire[room->wire];

		net_out_of(n, room->wire, room->vl)->used -= room->blocks;
		if (w->starved && w->packet == NET_NONE)
			add_turn(n, w, room->wire);
	}
	while (n->nheads) {
		const uint32_t i = n->heads[--n->nheads];
		const struct net_lane *lane = &n->lane[i];

		request(n, &n->wire[lane->from], i & (n->lanes - 1), &n->packet[lane->first]);
	}
}

static void round_of(struct traffic_net *n)
{
	uint32_t *now = n->senders, turns = n->nsenders;

	n->senders = n->now;
	n->now = now;
	n->nsenders = 0;
	for (uint32_t i = 0; i < turns; i++)
		host_turn(n, now[i]);
	for (uint32_t i = 0; i < n->narrivals; i++)
		arrive(n, n->arrivals[i].wire, n->arrivals[i].packet);
	n->narrivals = 0;
	now = n->turns;
	turns = n->nturns;
	n->turns = n->now;
	n->now = now;
	n->nturns = 0;
	for (uint32_t i = 0; i < turns; i++)
		out_turn(n, now[i]);
	round_ends(n);
}

/* The message with the entry @e begins. */
static void message_begins(struct traffic_net *n, const struct fab_entry *e)
{
	traffic_net_due(&n->t->host[e - n->begin], n->t->now_ns);
}

/* The wire with the entry @e is ready, and its packet has arrived. */
static void wire_ready(struct traffic_net *n, struct fab_entry *e)
{
	struct net_wire *w = (struct net_wire *)(void *)e;

	__builtin_prefetch(net_lane_of(n, w->peer, 0));
	n->arrivals[n->narrivals++] = (struct net_arrival){ w, w->packet };
	w->packet = NET_NONE;
	if (w->from_host || w->want)
		add_turn(n, w, (uint32_t)(w - n->wire));
}

/* Process all events that are due now. */
static void events(struct traffic_net *n, struct fab_entry *e)
{
	const struct fab_entry *begin = n->begin, *end = n->begin + n->t->hosts;

	while (e) {
		struct fab_entry *next = e->next;

		__builtin_prefetch(next);
		if (e >= begin && e < end)
			message_begins(n, e);
		else
			wire_ready(n, e);
		e = next;
	}
}

bool traffic_net_run(struct traffic_net *n)
{
	struct fab_traffic *t = n->t;
	struct fab_entry *e = NULL;

	do {
		events(n, e);
		while (!n->wrong && (n->narrivals | n->nsenders | n->nturns))
			round_of(n);
		e = fab_calendar_next(&n->calendar);
		t->now_ns = n->calendar.now_ns;
	} while (!n->wrong && e);
	/* the remaining packets wait until they are discarded, or for ever */
	return !n->wrong && (t->sent == t->came || n->patience_ns == UINT64_MAX);
}
