// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Forwarding of data packets: a round decides on the head of every input lane. Every output serves
 * the lanes that request it: by its VL arbiter if several of its lanes have packets, in turn if
 * several inputs request the same lane. A multicast head requests each of its outputs, and stays
 * until all of them have their copy. hop.c sends the packets.
 */
#include "forward.h"
#include "buffer.h"
#include "decide.h"
#include "delay.h"
#include "gsi.h"
#include "hop.h"
#include "pace.h"
#include "park.h"
#include "route.h"
#include "wait.h"

#include <string.h>

static void refused(struct fab_data *d, struct fab_dport *out, uint16_t vls)
{
	out->refused |= vls;
	fab_touch(d, out);
}

/* ---- requests ------------------------------------------------------------------ */

/* List @out, which a lane requests, for this round. */
static void list_output(struct fab_data *d, struct fab_dport *out)
{
	if (out->out_listed)
		return;
	out->out_listed = true;
	d->outs[d->nouts++] = out;
}

/* Let multicast lane @id request @out. Return: whether it does. */
static bool request_mcast(struct fab_data *d, struct fab_dport *out, uint32_t id)
{
	const struct fab_dport *in = d->all[id / FAB_DATA_LANES];
	struct fab_lane *l = fab_lane_at(d, id);
	int vl;

	if (l->kind != FAB_HEAD_MCAST || d->f->port[in->p].node != d->f->port[out->p].node ||
	    !fab_has_output(l, out->num))
		return false;
	vl = fab_mcast_vl(d, in, l, out);
	if (vl < 0)
		return false;
	l->ovl = (uint8_t)vl;
	fab_enqueue(d, out, id);
	return true;
}

static void list_mcast(struct fab_data *d, struct fab_dport *in, unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];

	if (!l->listed)
		d->mcast[d->nmcast++] = fab_lane_id(in, vl);
	l->listed = true;
}

/* Whether the head arrived before this round. */
static bool waited(const struct fab_lane *l)
{
	return l->blocked_ns | l->came_ns;
}

/*
 * Discard the copies of a multicast head for outputs that are down or not Active or stalled, or
 * where it is too old. Return: whether it still waits for any output.
 */
static bool prune(struct fab_data *d, const struct fab_dport *in, struct fab_lane *l)
{
	for (int num = -1; (num = fab_next_output(l, num)) >= 0;) {
		struct fab_dport *out = fab_output(d, in, num);
		int vl = fab_mcast_vl(d, in, l, out);

		if (fab_unlikely(!out->up || !out->active || vl < 0))
			fab_discard(d, out, &out->ctr->xmit_inactive_discards, FAB_DROP_INACTIVE);
		else if (fab_unlikely(out->stalled >> vl & 1))
			fab_hoq_discard(d, out, (unsigned int)vl);
		else if (fab_likely(!waited(l)) || !fab_expire(d, in, l, out, (unsigned int)vl))
			continue;
		if (fab_unlikely(out->tap))
			fab_capture_frame(d, out, &l->f, vl < 0 ? l->f.vl : (unsigned int)vl, true,
					  d->why);
		fab_clear_output(l, out->num);
		l->started = true;
	}
	return fab_next_output(l, -1) >= 0;
}

/* Read the head of @in's lane @vl into @l->f. Return: false: there is none. */
static bool peek(struct fab_dport *in, unsigned int vl, struct fab_lane *l)
{
	struct ohca_link_frame lf;

	if (in->buffers)
		return fab_peek(in, vl);
	if (!ohca_link_rx_peek(in->link, vl, &lf))
		return false;
	l->f.data = lf.data;
	l->f.view = NULL;
	l->f.owned = false;
	l->f.len = lf.len;
	l->f.flags = (uint8_t)(lf.flags & OHCA_FRAME_FLAGS);
	l->f.vcrc = lf.vcrc;
	l->f.vl = (uint8_t)vl;
	l->f.patch = 0;
	l->f.hops = 0;
	l->f.corrupt &= l->seen;
	l->f.fecn = false;
	l->f.hop_limit = 0;
	memcpy(l->f.lrh, lf.data, IB_LRH_LEN);
	if (fab_unlikely(l->mark_ns))
		fab_came(in, vl);
	if (fab_unlikely(in->rx_fault) && !l->seen) {
		l->lost = fab_fault_loses(in->rx_fault, lf.len);
		l->f.corrupt = !l->lost && fab_fault_corrupts(in->rx_fault);
	}
	return true;
}

/* Remove the head. @b, @next: its buffer and the one behind it, if it is in the input buffer */
static void release(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b,
		    struct fab_buffer *next)
{
	struct fab_lane *l = &in->lane[vl];

	fab_head_forget(d, l);
	if (in->buffers) {
		fab_release(d, in, vl, b, next);
		if (fab_unlikely(in->parked >> vl & 1))
			fab_unpark(d, in, vl);
		return;
	}
	fab_count_rcv(in, &l->f);
	ohca_link_rx_release(in->link, vl);
}

/*
 * Decide on the lane's head; discard or consume all packets without an output.
 * Return: FAB_HEAD_UCAST or FAB_HEAD_MCAST if a head requests an output, else FAB_HEAD_NONE.
 */
static enum fab_kind advance(struct fab_data *d, struct fab_dport *in, unsigned int vl,
			     bool *moved)
{
	struct fab_lane *l = &in->lane[vl];

	for (unsigned int n = 0; n < FAB_BURST; n++) {
		/* a multicast packet with copies that have left keeps its decision */
		if (l->kind != FAB_HEAD_NONE && l->version != d->version && !l->started) {
			l->kind = FAB_HEAD_NONE;
			d->n.forks -= l->forks;
		}
		if (l->kind == FAB_HEAD_NONE) {
			if (!peek(in, vl, l))
				return FAB_HEAD_NONE;
			fab_head_decide(d, in, vl);
			/* packets in an input buffer were captured when they arrived */
			if (fab_unlikely(in->tap) && !in->buffers && !l->seen)
				fab_head_capture(d, in, vl);
			l->seen = true;
		}
		switch (l->kind) {
		case FAB_HEAD_UCAST:
			if (fab_likely(!waited(l)) || !fab_expire(d, in, l, l->out, l->ovl))
				return FAB_HEAD_UCAST;
			if (fab_unlikely(l->out->tap))
				fab_capture_frame(d, l->out, &l->f, l->ovl, true, d->why);
			break;
		case FAB_HEAD_MCAST:
			if (fab_likely(prune(d, in, l)))
				return FAB_HEAD_MCAST;
			break;
		case FAB_HEAD_LOCAL:
			/* packets in an input buffer were captured when they arrived */
			fab_gsi_rx(d, in, &l->f, in->link ? in->tap : NULL);
			break;
		default:
			break;
		}
		release(d, in, vl, l->first, l->first ? l->first->next : NULL);
		*moved = true;
	}
	return FAB_HEAD_NONE;
}

/* Mark the heads for these lanes of the output as blocked. */
static void block_lanes(struct fab_data *d, struct fab_dport *out, uint16_t vls)
{
	if (vls)
		refused(d, out, vls);
	for (; vls; vls &= (uint16_t)(vls - 1)) {
		uint32_t id = out->out[__builtin_ctz(vls)].head;

		while (id != FAB_NONE_LANE) {
			fab_block(d, d->all[id / FAB_DATA_LANES], id % FAB_DATA_LANES);
			id = fab_lane_at(d, id)->next;
		}
	}
}

/* Order of lane @id among those of its switch: by its port, then its VL. */
static uint32_t turn_of(const struct fab_data *d, uint32_t id)
{
	return (uint32_t)d->all[id / FAB_DATA_LANES]->num << 4 | id % FAB_DATA_LANES;
}

/* Rotate the list of requesters: it begins behind the one that was served last. */
static void take_turns(struct fab_data *d, struct fab_dport *out, unsigned int vl)
{
	uint32_t best_turn = UINT32_MAX, low_turn = UINT32_MAX;
	uint32_t best = FAB_NONE_LANE, low = FAB_NONE_LANE, id;

	if (out->out[vl].head == out->out[vl].tail)
		return;
	for (id = out->out[vl].head; id != FAB_NONE_LANE; id = fab_lane_at(d, id)->next) {
		const uint32_t turn = turn_of(d, id);

		if (turn > out->out[vl].turn && turn < best_turn) {
			best = id;
			best_turn = turn;
		}
		if (turn < low_turn) {
			low = id;
			low_turn = turn;
		}
	}
	if (best == FAB_NONE_LANE)
		best = low;
	/* bounded: @best is in the list */
	while (out->out[vl].head != best) {
		id = out->out[vl].head;
		out->out[vl].head = fab_lane_at(d, id)->next;
		fab_lane_at(d, id)->next = FAB_NONE_LANE;
		fab_lane_at(d, out->out[vl].tail)->next = id;
		out->out[vl].tail = id;
	}
}

/* ---- serving ------------------------------------------------------------------- */

/*
 * A multicast head has left by one output: copy it to those where no other packet competes, so that
 * the next head can follow in the same round. If a round has several multicast heads, only outputs
 * where nothing waits get a copy this way. Otherwise all lanes would get the same share, whatever
 * their weights are, because each of them has one packet in a round.
 */
static void copy_rest(struct fab_data *d, const struct fab_dport *in, struct fab_lane *l)
{
	for (int num = -1; (num = fab_next_output(l, num)) >= 0;) {
		struct fab_dport *out = fab_output(d, in, num);
		int vl = fab_mcast_vl(d, in, l, out);

		if (d->nmcast > 1 && (out->waiting | out->refused))
			continue;
		if (vl >= 0 && !out->ucast && out->up && out->active && !(out->stalled >> vl & 1) &&
		    out->arb_vls >> vl & 1 && fab_out_pass(d, out, (unsigned int)vl, &l->f))
			fab_clear_output(l, out->num);
	}
}

/* Send the head by lane @vl of @out. Return: false: there is no credit. */
static bool head_send(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		      const struct fab_lane *l)
{
	struct fab_frame f;

	if (fab_likely(!l->routed))
		return fab_out_send(d, out, vl, &l->f);
	fab_route_frame(l, &f);
	return fab_out_send(d, out, vl, &f);
}

/* @out has sent the head. Return: whether the head is done. */
static bool head_sent(struct fab_data *d, const struct fab_dport *in, struct fab_lane *l,
		      const struct fab_dport *out)
{
	if (fab_likely(l->kind != FAB_HEAD_MCAST))
		return true;
	l->started = true;
	fab_clear_output(l, out->num);
	copy_rest(d, in, l);
	return fab_next_output(l, -1) < 0;
}

/* Process the next head of the lane whose head has left: it may request @out as well. */
static void follow(struct fab_data *d, struct fab_dport *out, struct fab_dport *in,
		   unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];
	bool moved = false;

	switch (advance(d, in, vl, &moved)) {
	case FAB_HEAD_UCAST:
		if (l->out == out)
			fab_enqueue(d, out, fab_lane_id(in, vl));
		break;
	case FAB_HEAD_MCAST:
		list_mcast(d, in, vl);
		request_mcast(d, out, fab_lane_id(in, vl));
		break;
	default:
		break;
	}
}

/* Choose the lane of @out that sends now from @ready, or -1. */
static int pick(struct fab_dport *out, uint16_t ready, bool alone)
{
	return alone ? __builtin_ctz(ready) : ib_vlarb_pick(&out->arb, ready);
}

/* Collect requests of multicast heads. Return: packets that @out may send in this round. */
static unsigned int budget_of(struct fab_data *d, struct fab_dport *out)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < d->nmcast; i++)
		n += request_mcast(d, out, d->mcast[i]);
	/*
	 * A multicast head may have to wait until the next round for its other outputs. Unicast
	 * heads then send no more than one packet each here, too.
	 */
	return n && out->ucast ? n + out->ucast : FAB_BURST;
}

/* Add the parked requests of @out to those of this round. */
static void take_back(struct fab_data *d, struct fab_dport *out)
{
	out->parks = false;
	out->starved = 0;
	d->parks--;
	fab_touch(d, out);
}

/* Serve all requests for this output. */
static bool out_serve(struct fab_data *d, struct fab_dport *out)
{
	unsigned int budget = budget_of(d, out);
	uint16_t ready = out->want & out->arb_vls, tired = 0;	/* lanes without credit */
	bool moved = false, busy = false;

	if (fab_unlikely(out->parks))
		take_back(d, out);
	for (uint16_t m = ready; m; m &= (uint16_t)(m - 1))
		take_turns(d, out, (unsigned int)__builtin_ctz(m));
	/* lanes without weight in any table never send; HOQLife ends their wait */
	block_lanes(d, out, out->want & (uint16_t)~out->arb_vls);
	for (; ready && budget; budget--) {
		const bool alone = !(ready & (ready - 1)) && !fab_is_paced(out);
		struct fab_buffer *b, *next;
		struct fab_dport *in;
		struct fab_lane *l;
		uint32_t id, len;
		int vl;

		/* while the wire sends, the arbiter does not choose */
		busy = fab_is_paced(out) && fab_pace_busy(d, out->fault);
		if (busy) {
			block_lanes(d, out, ready);
			break;
		}
		vl = pick(out, ready, alone);
		if (fab_unlikely(vl < 0)) {
			block_lanes(d, out, ready);
			break;
		}
		id = out->out[vl].head;
		in = d->all[id / FAB_DATA_LANES];
		l = fab_lane_at(d, id);
		len = l->f.len;
		/* a wire may take over the buffer @b */
		b = l->first;
		next = b ? b->next : NULL;
		d->walk = FAB_WALK;
		if (fab_unlikely(!head_send(d, out, (unsigned int)vl, l))) {
			block_lanes(d, out, (uint16_t)(1u << vl));
			tired |= (uint16_t)(1u << vl);
			ready &= (uint16_t)~tired;
			continue;
		}
		moved = true;
		out->out[vl].turn = turn_of(d, id);
		if (!alone)
			ib_vlarb_sent(&out->arb, (uint8_t)vl, len + IB_VCRC_LEN);
		out->out[vl].head = l->next;
		if (l->next == FAB_NONE_LANE) {
			out->want &= (uint16_t)~(1u << vl);
			ready &= (uint16_t)~(1u << vl);
		}
		if (!head_sent(d, in, l, out))
			continue;
		/*
		 * packets that returned to this lane meanwhile are queued behind @b, if that is
		 * still here
		 */
		release(d, in, id % FAB_DATA_LANES, b, b && !b->moved ? b->next : next);
		follow(d, out, in, id % FAB_DATA_LANES);
		ready = out->want & out->arb_vls & (uint16_t)~tired;
	}
	if (fab_likely(!d->cfg.rate_scale))
		out->want = 0;
	else if (out->want)
		fab_park(d, out, fab_is_paced(out) && !d->nmcast &&
			 (busy || (!ready && !fab_leads_out(out))), tired);
	return moved;
}

/* ---- rounds -------------------------------------------------------------------- */

/* Let the heads of the lanes @mask of @in request their outputs. */
static void collect(struct fab_data *d, struct fab_dport *in, uint32_t mask, bool *moved)
{
	for (; mask; mask &= mask - 1) {
		unsigned int vl = (unsigned int)__builtin_ctz(mask);
		struct fab_lane *l = &in->lane[vl];

		switch (advance(d, in, vl, moved)) {
		case FAB_HEAD_UCAST:
			l->out->ucast++;
			if (fab_unlikely(l->out->parks) && fab_park_joins(d, in, vl, l->out))
				break;
			fab_enqueue(d, l->out, fab_lane_id(in, vl));
			list_output(d, l->out);
			break;
		case FAB_HEAD_MCAST:
			list_mcast(d, in, vl);
			for (int num = -1; (num = fab_next_output(l, num)) >= 0;)
				list_output(d, fab_output(d, in, num));
			break;
		default:
			break;
		}
	}
}

static void collect_buffers(struct fab_data *d, bool *moved)
{
	uint32_t kept = 0;

	/* nothing moves into a buffer here, so the array does not grow */
	for (uint32_t i = 0; i < d->queues; i++) {
		struct fab_dport *in = d->queue[i];

		collect(d, in, in->buffered & (uint16_t)~in->parked, moved);
		in->queued = in->buffered & (uint16_t)~in->parked;
		if (in->queued)
			d->queue[kept++] = in;
	}
	d->queues = kept;
}

/*
 * Prefetch the outputs that are served next, their heads, and the data of these: in a large fabric
 * cache misses are most of the time that a packet costs.
 */
static void prefetch_turns(const struct fab_data *d, struct fab_dport *const *outs, uint32_t n)
{
	if (n > 4)
		fab_prefetch(outs[4], FAB_DPORT_HOT);
	if (n > 2 && outs[2]->want) {
		const unsigned int vl = (unsigned int)__builtin_ctz(outs[2]->want);

		fab_prefetch(fab_lane_at(d, outs[2]->out[vl].head), sizeof(struct fab_lane));
		fab_prefetch_wire(outs[2], vl);
	}
	if (n > 1 && outs[1]->want) {
		const unsigned int vl = (unsigned int)__builtin_ctz(outs[1]->want);

		fab_prefetch(fab_lane_at(d, outs[1]->out[vl].head)->first,
			     sizeof(struct fab_buffer) + IB_LRH_LEN);
	}
}

bool fab_forward_round(struct fab_data *d)
{
	bool moved = false;

	if (fab_unlikely(d->cfg.rate_scale))
		fab_park_begin(d);
	collect_buffers(d, &moved);
	if (d->nawake)
		d->first = (d->first + 1) % d->nawake;
	for (uint32_t i = 0; i < d->nawake; i++) {
		struct fab_dport *in = d->awake[(d->first + i) % d->nawake];

		if (fab_unlikely(in->buffers))
			moved |= fab_delay_take(d, in);
		else if (in->up)
			collect(d, in, in->pending & ((1u << FAB_DATA_LANES) - 1), &moved);
	}
	if (fab_unlikely(d->cfg.rate_scale))
		fab_park_join(d);
	for (uint32_t i = 0; i < d->nouts; i++) {
		struct fab_dport *out = d->outs[i];

		prefetch_turns(d, &d->outs[i + 1], d->nouts - i - 1);
		moved |= out_serve(d, out);
		out->out_listed = false;
	}
	if (fab_unlikely(d->nfreed))
		fab_free_room(d);
	/* after all are served: copy_rest() checks whether a served output has unicast requests */
	while (d->nouts) {
		struct fab_dport *out = d->outs[--d->nouts];

		if (fab_likely(!out->parks))
			out->ucast = 0;
	}
	while (d->nmcast)
		fab_lane_at(d, d->mcast[--d->nmcast])->listed = false;
	return moved;
}
