// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Forwarding of data packets: a round decides on the head of every input lane, and every output
 * serves the lanes that request it, by its VL arbiter if several of its lanes have packets, in
 * turn if several inputs request the same lane. A multicast head has its turn at each of its
 * outputs like any other; it stays until all of them have their copy.
 *
 * What an output sends over a local wire is decided on at once at the switch where it arrives,
 * and leaves that by its output, if there nothing waits; else it stays in that input buffer.
 */
#include "to_watch.h"

#include <string.h>

#include "ib/crc.h"

static struct fab_lane *lane_of(struct fab_data *d, uint32_t id)
{
	return &d->all[id / FAB_DATA_LANES]->lane[id % FAB_DATA_LANES];
}

static uint32_t lane_id(const struct fab_dport *in, unsigned int vl)
{
	return in->id * FAB_DATA_LANES + vl;
}

static void count_rcv(struct fab_dport *in, const struct fab_frame *f)
{
	ib_pma_count_rcv(in->ctr, f->len, f->lrh[1] >> 4,
			 ib_get_be16(f->lrh + 2) >= IB_LID_MCAST_MIN);
}

void fab_drop_head(struct fab_data *d, const struct fab_lane *l, enum fab_drop why)
{
	if (l->kind != FAB_HEAD_MCAST) {
		fab_dropped(d, why);
		return;
	}
	for (int num = -1; (num = fab_next_output(l, num)) >= 0;)
		fab_dropped(d, why);
}

/* @f has left by @out; @why: and ended on the wire, or FAB_DROP_NONE */
static void count_xmit(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		       const struct fab_frame *f, enum fab_drop why)
{
	ib_pma_count_xmit(out->ctr, f->len, f->lrh[1] >> 4,
			  ib_get_be16(f->lrh + 2) >= IB_LID_MCAST_MIN);
	out->hoq_drops[vl] = 0;
	out->sent |= (uint16_t)(1u << vl);
	fab_touch(d, out);
	if (fab_unlikely(out->tap))
		fab_capture_frame(d, out, f, vl, true, why);
}

/* ---- hops ---------------------------------------------------------------------- */

static void lane_arrive(struct fab_data *d, struct fab_dport *in, unsigned int vl,
			const struct fab_frame *f);

/* The wire of @out has fault @x. Return: whether it loses @f, which has left. */
static bool loses(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		  const struct fab_frame *f, struct fab_fault *x)
{
	const bool lost = fab_fault_loses(x);

	count_xmit(d, out, vl, f, lost ? FAB_DROP_LOSS : FAB_DROP_NONE);
	if (!lost)
		return false;
	if (out->link) {
		/* an error of the machine */
		x->lost++;
	} else {
		d->m->now_ns = fab_data_clock(d);
		fab_fault_damage(d->m, x, out->peer->p);
	}
	fab_dropped(d, FAB_DROP_LOSS);
	return true;
}

void fab_commit(struct fab_data *d, const struct fab_dport *out, unsigned int vl, const uint8_t *b,
		uint32_t len, uint16_t flags, bool lost, bool agent)
{
	/* without a fault there is no VCRC: the VL may have changed */
	if (fab_unlikely(lost)) {
		ohca_link_tx_commit_vcrc(out->link, vl, len, OHCA_FRAME_VCRC,
					 (uint16_t)~ib_vcrc(b, len));
		return;
	}
	ohca_link_tx_commit(out->link, vl, len, flags);
	if (fab_unlikely(agent))
		d->n.mads_out++;
	else
		d->n.delivered++;
}

/* The link of @out has fault @x. Return: false: there is no credit. */
static bool send_by_faulty_link(struct fab_data *d, struct fab_dport *out, unsigned int vl,
				const struct fab_frame *f, struct fab_fault *x)
{
	const bool later = fab_is_delayed(out, true, vl, x);
	struct fab_frame at = *f;
	uint8_t *b = NULL;
	bool lost;

	if (later && !fab_delay_fits(out, vl, f->len))
		return false;
	if (!later)
		b = fab_tx_begin(d, out, vl, f->len);
	if (!later && !b)
		return false;
	lost = loses(d, out, vl, f, x);
	at.corrupt |= !lost && fab_fault_corrupts(x);
	if (later) {
		fab_delay(d, out, true, vl, &at, x, lost);
		return true;
	}
	fab_copy(b, &at, vl);
	fab_commit(d, out, vl, b, f->len, fab_icrc_flag(&at), lost, false);
	return true;
}

/* Return: false: there is no credit. */
static bool send_by_link(struct fab_data *d, struct fab_dport *out, unsigned int vl,
			 const struct fab_frame *f)
{
	uint8_t *b;

	if (fab_unlikely(out->fault))
		return send_by_faulty_link(d, out, vl, f, out->fault);
	b = fab_tx_begin(d, out, vl, f->len);
	if (!b)
		return false;
	fab_copy(b, f, vl);
	fab_commit(d, out, vl, b, f->len, fab_icrc_flag(f), false, false);
	count_xmit(d, out, vl, f, FAB_DROP_NONE);
	return true;
}

/* @f, which fits into the next buffer, leaves @out by a wire of the graph with fault @x. */
static void send_over_fault(struct fab_data *d, struct fab_dport *out, unsigned int vl,
			    const struct fab_frame *f, struct fab_fault *x)
{
	struct fab_dport *in = out->peer;
	struct fab_frame at = *f;

	if (loses(d, out, vl, f, x))
		return;
	d->n.hops++;
	at.corrupt |= fab_fault_corrupts(x);
	if (fab_is_delayed(in, false, vl, x))
		fab_delay(d, in, false, vl, &at, x, false);
	else
		lane_arrive(d, in, vl, &at);
}

/* @f leaves by @out. Return: false: there is no credit. */
static bool out_send(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		     const struct fab_frame *f)
{
	if (out->link)
		return send_by_link(d, out, vl, f);
	if (!out->peer || !fab_fits(out->peer, vl, f->len))
		return false;
	if (fab_unlikely(out->fault)) {
		send_over_fault(d, out, vl, f, out->fault);
		return true;
	}
	count_xmit(d, out, vl, f, FAB_DROP_NONE);
	d->n.hops++;
	lane_arrive(d, out->peer, vl, f);
	return true;
}

/* Others wait for @out: whoever comes now has no better right. */
static bool contended(const struct fab_dport *out)
{
	return out->want | out->refused | out->waiting;
}

static void refused(struct fab_data *d, struct fab_dport *out, uint16_t vls)
{
	out->refused |= vls;
	fab_touch(d, out);
}

/* Output @num of the switch of @in, to which a head has led: it is there. */
static struct fab_dport *output(const struct fab_data *d, const struct fab_dport *in, int num)
{
	const struct fab_node *n = &d->f->node[d->f->port[in->p].node];

	return d->by_port[fab_port_of(n, (unsigned int)num)];
}

/* Send the copies of a multicast head that need not wait. Return: whether any is left. */
static bool head_spread(struct fab_data *d, const struct fab_dport *in, struct fab_lane *l)
{
	for (int num = -1; (num = fab_next_output(l, num)) >= 0;) {
		struct fab_dport *out = output(d, in, num);
		int vl = fab_mcast_vl(d, in, l, out);

		if (vl < 0 || contended(out) || !(out->arb_vls >> vl & 1) ||
		    !out_send(d, out, (unsigned int)vl, &l->f))
			continue;
		l->started = true;
		fab_clear_output(l, out->num);
	}
	return fab_next_output(l, -1) >= 0;
}

/* Whether the packet that has just arrived in @l is done. */
static bool head_pass(struct fab_data *d, struct fab_dport *in, struct fab_lane *l)
{
	switch (l->kind) {
	case FAB_HEAD_UCAST:
		return !contended(l->out) && l->out->arb_vls >> l->ovl & 1 &&
		       out_send(d, l->out, l->ovl, &l->f);
	case FAB_HEAD_MCAST:
		return !head_spread(d, in, l);
	case FAB_HEAD_LOCAL:
		fab_gsi_rx(d, in, &l->f, in->tap);
		return true;
	default:
		return true;
	}
}

static void decide(struct fab_data *d, struct fab_dport *in, unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];

	l->started = false;
	l->forks = 0;
	l->kind = (uint8_t)fab_decide(d, in, l);
	l->version = d->version;
}

/* The head was received, and decided on; fab_gsi_rx() captures what is for an agent. */
static void capture_rcv(struct fab_data *d, const struct fab_dport *in, unsigned int vl)
{
	const struct fab_lane *l = &in->lane[vl];

	if (l->kind == FAB_HEAD_LOCAL)
		return;
	fab_capture_frame(d, in, &l->f, vl, false,
			  l->kind == FAB_HEAD_DROP ? d->why : FAB_DROP_NONE);
}

/* @f, which has arrived and is the head of its lane, goes on, or waits. */
static void head_go_on(struct fab_data *d, struct fab_dport *in, unsigned int vl,
		       const struct fab_frame *f)
{
	struct fab_lane *l = &in->lane[vl];

	d->walk--;
	l->f = *f;
	l->passing = true;
	decide(d, in, vl);
	if (fab_unlikely(in->tap))
		capture_rcv(d, in, vl);
	if (head_pass(d, in, l)) {
		l->kind = FAB_HEAD_NONE;
	} else if (!fab_store(d, in, vl, &l->f, true)) {
		fab_drop_head(d, l, FAB_DROP_MEMORY);
		l->kind = FAB_HEAD_NONE;
	}
	l->passing = false;
}

/* @f is at the other end of a local wire now, in whose buffer it fits */
static void lane_arrive(struct fab_data *d, struct fab_dport *in, unsigned int vl,
			const struct fab_frame *f)
{
	struct fab_lane *l = &in->lane[vl];
	struct fab_frame at = *f;

	at.vl = (uint8_t)vl;
	at.lrh[0] = (uint8_t)(vl << 4);
	at.hops++;
	at.flags &= OHCA_FRAME_ICRC;
	count_rcv(in, &at);
	if (!l->first && !l->passing && d->walk) {
		head_go_on(d, in, vl, &at);
		return;
	}
	if (fab_unlikely(in->tap))
		fab_capture_frame(d, in, &at, vl, false, FAB_DROP_NONE);
	if (!fab_store(d, in, vl, &at, false))
		fab_dropped(d, FAB_DROP_MEMORY);
}

/* What the link of @in has lost or damaged ends here. Return: whether it was that. */
static bool arrives_damaged(struct fab_data *d, struct fab_dport *in, const struct fab_buffer *b)
{
	if (b->lost) {
		if (in->rx_fault) {
			d->m->now_ns = fab_data_clock(d);
			fab_fault_damage(d->m, in->rx_fault, in->p);
		}
		fab_dropped(d, FAB_DROP_LOSS);
		return true;
	}
	return fab_damaged(d, in, b->data, b->len, b->flags, b->vcrc);
}

void fab_arrived(struct fab_data *d, struct fab_dport *in, unsigned int vl, struct fab_buffer *b)
{
	struct fab_frame f;

	fab_buffer_frame(b, vl, &f);
	f.hops += !in->link;
	count_rcv(in, &f);
	if (in->link && fab_unlikely(arrives_damaged(d, in, b))) {
		if (fab_unlikely(in->tap))
			fab_capture_frame(d, in, &f, vl, false, d->why);
		fab_buffer_put(d, b);
		return;
	}
	f.flags &= OHCA_FRAME_ICRC;
	b->flags = f.flags;
	b->hops = f.hops;
	b->came_ns = fab_data_now(d);
	if (in->lane[vl].first) {
		if (fab_unlikely(in->tap))
			fab_capture_frame(d, in, &f, vl, false, FAB_DROP_NONE);
		fab_append(d, in, vl, b);
		return;
	}
	d->walk = FAB_WALK;
	head_go_on(d, in, vl, &f);
	fab_buffer_put(d, b);
}

/* ---- requests ------------------------------------------------------------------ */

static void list_output(struct fab_data *d, struct fab_dport *out)
{
	if (out->out_listed)
		return;
	out->out_listed = true;
	d->outs[d->nouts++] = out;
}

/* Queue lane @id for its lane of @out, its @ovl. */
static void enqueue(struct fab_data *d, struct fab_dport *out, uint32_t id)
{
	struct fab_lane *l = lane_of(d, id);

	l->next = FAB_NONE_LANE;
	if (out->want & (1u << l->ovl)) {
		lane_of(d, out->tail[l->ovl])->next = id;
	} else {
		out->want |= (uint16_t)(1u << l->ovl);
		out->head[l->ovl] = id;
	}
	out->tail[l->ovl] = id;
}

/* Return: whether multicast lane @id requests @out. */
static bool request_mcast(struct fab_data *d, struct fab_dport *out, uint32_t id)
{
	const struct fab_dport *in = d->all[id / FAB_DATA_LANES];
	struct fab_lane *l = lane_of(d, id);
	int vl;

	if (l->kind != FAB_HEAD_MCAST || d->f->port[in->p].node != d->f->port[out->p].node ||
	    !fab_has_output(l, out->num))
		return false;
	vl = fab_mcast_vl(d, in, l, out);
	if (vl < 0)
		return false;
	l->ovl = (uint8_t)vl;
	enqueue(d, out, id);
	return true;
}

static void list_mcast(struct fab_data *d, struct fab_dport *in, unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];

	if (!l->listed)
		d->mcast[d->nmcast++] = lane_id(in, vl);
	l->listed = true;
}

/* Whether the head has been here for longer than this round. */
static bool waited(const struct fab_lane *l)
{
	return l->blocked_ns | l->came_ns;
}

/*
 * Drop the outputs at which a multicast head is to be discarded: down or not Active, stalled, or
 * too old there. Return: whether it still waits for any.
 */
static bool prune(struct fab_data *d, const struct fab_dport *in, struct fab_lane *l)
{
	for (int num = -1; (num = fab_next_output(l, num)) >= 0;) {
		struct fab_dport *out = output(d, in, num);
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

/* The head of @in's lane @vl in @l->f. Return: false: there is none. */
static bool peek(struct fab_dport *in, unsigned int vl, struct fab_lane *l)
{
	struct ohca_link_frame lf;

	if (in->buffers)
		return fab_peek(in, vl);
	if (ohca_link_rx_peek(in->link, vl, &lf) <= 0)
		return false;
	l->f.data = lf.data;
	l->f.len = lf.len;
	l->f.flags = lf.flags;
	l->f.vcrc = lf.vcrc;
	l->f.vl = (uint8_t)vl;
	l->f.patch = 0;
	l->f.hops = 0;
	l->f.corrupt &= l->seen;
	memcpy(l->f.lrh, lf.data, IB_LRH_LEN);
	if (fab_unlikely(l->mark_ns))
		fab_came(in, vl);
	if (fab_unlikely(in->rx_fault) && !l->seen) {
		l->lost = fab_fault_loses(in->rx_fault);
		l->f.corrupt = !l->lost && fab_fault_corrupts(in->rx_fault);
	}
	return true;
}

/* The next packet of the lane is another one. */
static void forget_head(struct fab_data *d, struct fab_lane *l)
{
	fab_unblock(d, l);
	l->came_ns = 0;
	l->kind = FAB_HEAD_NONE;
	l->started = false;
	l->seen = false;
	l->lost = false;
}

/* The head is done. */
static void release(struct fab_data *d, struct fab_dport *in, unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];

	forget_head(d, l);
	if (in->buffers) {
		fab_release(d, in, vl);
		return;
	}
	count_rcv(in, &l->f);
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
		/* a packet that is partly copied keeps its decision */
		if (l->kind != FAB_HEAD_NONE && l->version != d->version && !l->started) {
			l->kind = FAB_HEAD_NONE;
			d->n.forks -= l->forks;
		}
		if (l->kind == FAB_HEAD_NONE) {
			if (!peek(in, vl, l))
				return FAB_HEAD_NONE;
			decide(d, in, vl);
			/* a capture has what a buffer holds since it came */
			if (fab_unlikely(in->tap) && !in->buffers && !l->seen)
				capture_rcv(d, in, vl);
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
			/* what comes out of a buffer was captured when it came in */
			fab_gsi_rx(d, in, &l->f, in->link ? in->tap : NULL);
			break;
		default:
			break;
		}
		release(d, in, vl);
		*moved = true;
	}
	return FAB_HEAD_NONE;
}

/* Marks the heads for these lanes of the output as blocked. */
static void block_lanes(struct fab_data *d, struct fab_dport *out, uint16_t vls)
{
	if (vls)
		refused(d, out, vls);
	for (; vls; vls &= (uint16_t)(vls - 1)) {
		uint32_t id = out->head[__builtin_ctz(vls)];

		while (id != FAB_NONE_LANE) {
			fab_block(d, d->all[id / FAB_DATA_LANES], id % FAB_DATA_LANES);
			id = lane_of(d, id)->next;
		}
	}
}

/* Start the list of requesters behind the one that was served last. */
static void take_turns(struct fab_data *d, struct fab_dport *out, unsigned int vl)
{
	uint32_t best = FAB_NONE_LANE, low = FAB_NONE_LANE, id;

	if (out->head[vl] == out->tail[vl])
		return;
	for (id = out->head[vl]; id != FAB_NONE_LANE; id = lane_of(d, id)->next) {
		if (id > out->turn[vl] && id < best)
			best = id;
		if (id < low)
			low = id;
	}
	if (best == FAB_NONE_LANE)
		best = low;
	/* bounded: the list holds it */
	while (out->head[vl] != best) {
		id = out->head[vl];
		out->head[vl] = lane_of(d, id)->next;
		lane_of(d, id)->next = FAB_NONE_LANE;
		lane_of(d, out->tail[vl])->next = id;
		out->tail[vl] = id;
	}
}

/* ---- serving ------------------------------------------------------------------- */

/*
 * A multicast head has left by one output: copy it to those at which it has no competitor, so that
 * the next one can follow in the same round. Of several multicast heads of a round that is the
 * one that an arbiter has chosen, and nothing waits there: else lanes would have the same share,
 * whatever their weights are, because each of them has one packet in a round.
 */
static void copy_rest(struct fab_data *d, const struct fab_dport *in, struct fab_lane *l)
{
	for (int num = -1; (num = fab_next_output(l, num)) >= 0;) {
		struct fab_dport *out = output(d, in, num);
		int vl = fab_mcast_vl(d, in, l, out);

		if (d->nmcast > 1 && (out->waiting | out->refused))
			continue;
		if (vl >= 0 && !out->ucast && out->up && out->active && !(out->stalled >> vl & 1) &&
		    out->arb_vls >> vl & 1 && out_send(d, out, (unsigned int)vl, &l->f))
			fab_clear_output(l, out->num);
	}
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

/* The lane whose head has left has another one, perhaps for @out as well. */
static void follow(struct fab_data *d, struct fab_dport *out, struct fab_dport *in,
		   unsigned int vl)
{
	struct fab_lane *l = &in->lane[vl];
	bool moved = false;

	switch (advance(d, in, vl, &moved)) {
	case FAB_HEAD_UCAST:
		if (l->out == out)
			enqueue(d, out, lane_id(in, vl));
		break;
	case FAB_HEAD_MCAST:
		list_mcast(d, in, vl);
		request_mcast(d, out, lane_id(in, vl));
		break;
	default:
		break;
	}
}

/* The lane of @out that sends now, of those @ready, or -1. */
static int pick(struct fab_dport *out, uint16_t ready, bool alone)
{
	return alone ? __builtin_ctz(ready) : ib_vlarb_pick(&out->arb, ready);
}

/* Requests of multicast heads. Return: packets that @out may send in this round. */
static unsigned int budget_of(struct fab_data *d, struct fab_dport *out)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < d->nmcast; i++)
		n += request_mcast(d, out, d->mcast[i]);
	/*
	 * A multicast head may have to wait for its other outputs until the next round. Then
	 * unicast has no more than its turn here, either.
	 */
	return n && out->ucast ? n + out->ucast : FAB_BURST;
}

/* Serve all requests for this output. */
static bool out_serve(struct fab_data *d, struct fab_dport *out)
{
	unsigned int budget = budget_of(d, out);
	uint16_t ready = out->want & out->arb_vls, tired = 0;	/* lanes without credit */
	bool moved = false;

	for (uint16_t m = ready; m; m &= (uint16_t)(m - 1))
		take_turns(d, out, (unsigned int)__builtin_ctz(m));
	/* lanes without weight in any table never send; HOQLife ends their wait */
	block_lanes(d, out, out->want & (uint16_t)~out->arb_vls);
	for (; ready && budget; budget--) {
		const bool alone = !(ready & (ready - 1));
		const int vl = pick(out, ready, alone);
		struct fab_dport *in;
		struct fab_lane *l;
		uint32_t id, len;

		if (fab_unlikely(vl < 0)) {
			block_lanes(d, out, ready);
			break;
		}
		id = out->head[vl];
		in = d->all[id / FAB_DATA_LANES];
		l = lane_of(d, id);
		len = l->f.len;
		d->walk = FAB_WALK;
		if (fab_unlikely(!out_send(d, out, (unsigned int)vl, &l->f))) {
			block_lanes(d, out, (uint16_t)(1u << vl));
			tired |= (uint16_t)(1u << vl);
			ready &= (uint16_t)~tired;
			continue;
		}
		moved = true;
		out->turn[vl] = id;
		if (!alone)
			ib_vlarb_sent(&out->arb, (uint8_t)vl, len + IB_VCRC_LEN);
		out->head[vl] = l->next;
		if (l->next == FAB_NONE_LANE) {
			out->want &= (uint16_t)~(1u << vl);
			ready &= (uint16_t)~(1u << vl);
		}
		if (!head_sent(d, in, l, out))
			continue;
		release(d, in, id % FAB_DATA_LANES);
		follow(d, out, in, id % FAB_DATA_LANES);
		ready = out->want & out->arb_vls & (uint16_t)~tired;
	}
	out->want = 0;
	return moved;
}

/* ---- rounds -------------------------------------------------------------------- */

/* The heads of the lanes @mask of @in request their outputs. */
static void collect(struct fab_data *d, struct fab_dport *in, uint32_t mask, bool *moved)
{
	for (; mask; mask &= mask - 1) {
		unsigned int vl = (unsigned int)__builtin_ctz(mask);
		struct fab_lane *l = &in->lane[vl];

		switch (advance(d, in, vl, moved)) {
		case FAB_HEAD_UCAST:
			l->out->ucast++;
			enqueue(d, l->out, lane_id(in, vl));
			list_output(d, l->out);
			break;
		case FAB_HEAD_MCAST:
			list_mcast(d, in, vl);
			for (int num = -1; (num = fab_next_output(l, num)) >= 0;)
				list_output(d, output(d, in, num));
			break;
		default:
			break;
		}
	}
}

static void collect_buffers(struct fab_data *d, bool *moved)
{
	uint32_t kept = 0;

	/* without moving anything into a buffer: the array does not grow here */
	for (uint32_t i = 0; i < d->queues; i++) {
		struct fab_dport *in = d->queue[i];

		collect(d, in, in->buffered, moved);
		in->queued = in->buffered;
		if (in->queued)
			d->queue[kept++] = in;
	}
	d->queues = kept;
}

bool fab_forward_round(struct fab_data *d)
{
	bool moved = false;

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
	for (uint32_t i = 0; i < d->nouts; i++) {
		moved |= out_serve(d, d->outs[i]);
		d->outs[i]->out_listed = false;
	}
	/* until here: copy_rest() asks whether an output that was served has unicast */
	while (d->nouts)
		d->outs[--d->nouts]->ucast = 0;
	while (d->nmcast)
		lane_of(d, d->mcast[--d->nmcast])->listed = false;
	return moved;
}

void fab_keep_heads(struct fab_data *d, struct fab_dport *dp)
{
	for (unsigned int vl = 0; vl < FAB_DATA_LANES; vl++) {
		struct fab_lane *l = &dp->lane[vl];
		uint64_t came;

		/* the ring passes it without a look at it */
		l->mark_ns = 0;
		if (l->kind == FAB_HEAD_NONE)
			continue;
		came = l->came_ns ? l->came_ns : l->blocked_ns;
		count_rcv(dp, &l->f);
		if (!fab_store(d, dp, vl, &l->f, true)) {
			fab_drop_head(d, l, FAB_DROP_MEMORY);
			forget_head(d, l);
		} else if (came) {
			l->came_ns = came;
			l->first->came_ns = came;
		}
		ohca_link_rx_release(dp->link, vl);
	}
}

/*
 * The head @l is lost with the ring that it is in. Nobody counts it, but for a multicast head some
 * of whose copies have ended: that one came, and the other copies are lost.
 */
static void lose_head(struct fab_data *d, struct fab_dport *dp, struct fab_lane *l)
{
	if (l->kind == FAB_HEAD_MCAST && l->started) {
		count_rcv(dp, &l->f);
		fab_drop_head(d, l, FAB_DROP_LOSS);
	} else if (l->kind == FAB_HEAD_MCAST) {
		d->n.forks -= l->forks;
	}
	forget_head(d, l);
}

void fab_forget_heads(struct fab_data *d, struct fab_dport *dp)
{
	for (unsigned int vl = 0; vl < FAB_DATA_LANES; vl++) {
		/* those of an input buffer are still there, some of their copies have left */
		if (!dp->buffers)
			lose_head(d, dp, &dp->lane[vl]);
		dp->lane[vl].mark_ns = 0;
	}
	dp->full = 0;
	fab_delay_forget(d, dp, true);
	fab_unstall_all(d, dp);
}
