// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hops of data packets. A packet that an output sends over a wire of the graph arrives at once: the
 * next switch decides on it, and forwards it if nothing waits there; else the packet stays in that
 * input buffer. A packet that leaves by a link is copied into the ring. This file also handles the
 * heads of a link that gets a delay, or goes down.
 */
#include "hop.h"
#include "buffer.h"
#include "clock.h"
#include "congestion.h"
#include "decide.h"
#include "delay.h"
#include "gsi.h"
#include "links.h"
#include "pace.h"
#include "park.h"
#include "route.h"
#include "wait.h"

#include "ib/crc.h"

void fab_drop_head(struct fab_data *d, const struct fab_lane *l, enum fab_drop why)
{
	if (l->kind != FAB_HEAD_MCAST) {
		fab_dropped(d, why);
		return;
	}
	for (int num = -1; (num = fab_next_output(l, num)) >= 0;)
		fab_dropped(d, why);
}

/* Count @f, which has left by @out; @why: why the wire has dropped it, or FAB_DROP_NONE */
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

static void lane_arrive(struct fab_data *d, struct fab_dport *in, unsigned int vl,
			const struct fab_frame *f);

/* Whether fault @x of the wire of @out loses @f, which has left; counts it. */
static bool loses(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		  const struct fab_frame *f, struct fab_fault *x)
{
	bool lost;

	if (fab_leads_out(out)) {
		lost = fab_fault_takes(x, f->len);
	} else {
		d->m->now_ns = fab_data_clock(d);
		lost = fab_wire_loses(d->m, x, out->peer->p, f->len);
	}
	count_xmit(d, out, vl, f, lost ? FAB_DROP_LOSS : FAB_DROP_NONE);
	if (lost)
		fab_dropped(d, FAB_DROP_LOSS);
	return lost;
}

/* Pass a packet to the HCA @h, after fab_hport_takes() has allowed it. */
static void give(struct fab_hport *h, unsigned int vl, const uint8_t *b,
		 const struct ib_view *view, uint32_t len, uint16_t flags, bool lost)
{
	struct ohca_link_frame f = { .data = b, .len = len, .flags = flags, .vl = (uint8_t)vl };

	if (fab_unlikely(lost)) {
		f.flags = OHCA_FRAME_VCRC;
		f.vcrc = (uint16_t)~ib_vcrc(b, len);
	}
	h->ops->rx(h->ctx, &f, view);
}

void fab_commit(struct fab_data *d, const struct fab_dport *out, unsigned int vl, const uint8_t *b,
		const struct ib_view *view, uint32_t len, uint16_t flags, bool lost, bool agent)
{
	/* without OHCA_FRAME_VCRC: the VL may have changed, and with it the VCRC */
	if (out->hport)
		give(out->hport, vl, b, view, len, flags, lost);
	else if (fab_unlikely(lost))
		ohca_link_tx_commit_vcrc(out->link, vl, len, OHCA_FRAME_VCRC,
					 (uint16_t)~ib_vcrc(b, len));
	else
		ohca_link_tx_commit(out->link, vl, len, flags);
	if (fab_unlikely(lost))
		return;
	if (fab_unlikely(agent))
		d->n.mads_out++;
	else
		d->n.delivered += view ? view->packets : 1;
}

/*
 * Whether a packet of lane @vl may be on its way by the link of @out. With a rate and no delay only
 * one packet of a lane may, and it needs the link's credit when it leaves.
 */
static bool may_depart(struct fab_data *d, struct fab_dport *out, unsigned int vl, uint32_t len,
		       const struct fab_fault *x)
{
	if (!x->byte_fs || x->delay_ns)
		return fab_delay_fits(out, vl, len);
	return fab_delay_empty(out, vl) && fab_tx_begin(d, out, vl, len);
}

/* Send @f by the link of @out, or to its HCA, with fault @x. Return: false: there is no credit. */
static bool send_by_faulty_link(struct fab_data *d, struct fab_dport *out, unsigned int vl,
				const struct fab_frame *f, struct fab_fault *x)
{
	const bool later = fab_is_delayed(out, true, vl, x);
	struct fab_frame at = *f;
	uint8_t *b = NULL;
	bool lost;

	if (x->stalls || fab_pace_busy(d, x) || (later && !may_depart(d, out, vl, f->len, x)))
		return false;
	if (!later)
		b = fab_tx_begin(d, out, vl, f->len);
	if (!later && !b)
		return false;
	lost = loses(d, out, vl, f, x);
	at.corrupt |= !lost && fab_fault_corrupts(x);
	if (later) {
		fab_delay(d, out, true, vl, &at, x, lost, fab_pace_take(d, x, vl, f->len));
		return true;
	}
	fab_copy(d, b, &at, vl);
	fab_commit(d, out, vl, b, NULL, f->len, fab_icrc_flag(&at), lost, false);
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
	fab_copy(d, b, f, vl);
	fab_commit(d, out, vl, b, NULL, f->len, fab_icrc_flag(f), false, false);
	count_xmit(d, out, vl, f, FAB_DROP_NONE);
	return true;
}

/*
 * Send @f to the HCA of @out. A packet that another HCA has built is passed in place. Other packets
 * are copied: their bytes may belong to a peer. Return: false: there is no credit.
 */
static bool send_to_hca(struct fab_data *d, struct fab_dport *out, unsigned int vl,
			const struct fab_frame *f)
{
	const struct ib_view *view = NULL;
	uint8_t *b;

	if (fab_unlikely(out->fault))
		return send_by_faulty_link(d, out, vl, f, out->fault);
	b = fab_tx_begin(d, out, vl, f->len);
	if (!b)
		return false;
	if (fab_likely(f->data == d->scratch[0] && !f->corrupt)) {
		b = d->scratch[0];
		view = f->view;
		fab_copy_head(b, f, vl);
	} else {
		fab_copy(d, b, f, vl);
	}
	count_xmit(d, out, vl, f, FAB_DROP_NONE);
	fab_commit(d, out, vl, b, view, f->len, fab_icrc_flag(f), false, false);
	return true;
}

/*
 * Send @f, which fits into the next buffer, by @out over a wire of the graph with fault @x.
 * Return: false: the wire sends another packet, or the fault stalls it.
 */
static bool send_over_fault(struct fab_data *d, struct fab_dport *out, unsigned int vl,
			    const struct fab_frame *f, struct fab_fault *x)
{
	struct fab_dport *in = out->peer;
	struct fab_frame at = *f;
	uint64_t left_ns;

	if (x->stalls || fab_pace_busy(d, x))
		return false;
	left_ns = fab_pace_take(d, x, vl, f->len);
	if (loses(d, out, vl, f, x))
		return true;
	d->n.hops++;
	at.corrupt |= fab_fault_corrupts(x);
	if (fab_is_delayed(in, false, vl, x))
		fab_delay(d, in, false, vl, &at, x, false, left_ns);
	else
		lane_arrive(d, in, vl, &at);
	return true;
}

static bool out_send(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		     const struct fab_frame *f)
{
	if (out->link)
		return send_by_link(d, out, vl, f);
	if (out->hport)
		return send_to_hca(d, out, vl, f);
	if (!out->peer || !fab_fits(out->peer, vl, f->len))
		return false;
	if (fab_unlikely(out->fault))
		return send_over_fault(d, out, vl, f, out->fault);
	count_xmit(d, out, vl, f, FAB_DROP_NONE);
	d->n.hops++;
	lane_arrive(d, out->peer, vl, f);
	return true;
}

/*
 * Whether the wire of @out has a rate and is sending, or a packet of lane @vl on it has not
 * arrived.
 */
static bool is_sending(struct fab_data *d, const struct fab_dport *out, unsigned int vl)
{
	return fab_is_paced(out) &&
	       (fab_wire_ready(out->fault) > fab_data_clock(d) || fab_delay_lands(d, out, vl));
}

bool fab_out_send(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		  const struct fab_frame *f)
{
	struct fab_frame at;
	bool marks, sent;

	if (fab_likely(!out->congestion))
		return out_send(d, out, vl, f);
	at = *f;
	marks = fab_congestion_marks(out, vl, f);
	at.fecn |= marks;
	sent = out_send(d, out, vl, &at);
	if (sent)
		fab_congestion_sent(d, out, vl, &at, marks);
	else if (!is_sending(d, out, vl))
		fab_congestion_starves(out, vl);
	return sent;
}

bool fab_out_pass(struct fab_data *d, struct fab_dport *out, unsigned int vl,
		  const struct fab_frame *f)
{
	/* @f may be invalid when fab_out_send() returns */
	const uint32_t len = f->len;

	if (!fab_out_send(d, out, vl, f))
		return false;
	if (fab_is_paced(out) && ib_vlarb_pick(&out->arb, (uint16_t)(1u << vl)) >= 0)
		ib_vlarb_sent(&out->arb, (uint8_t)vl, len + IB_VCRC_LEN);
	return true;
}

/* Whether other packets wait for @out: a packet that arrives now must not overtake them. */
static bool contended(const struct fab_dport *out)
{
	return out->want | out->refused | out->waiting;
}

/* Send the copies of a multicast head that need not wait. Return: whether any is left. */
static bool head_spread(struct fab_data *d, const struct fab_dport *in, struct fab_lane *l)
{
	for (int num = -1; (num = fab_next_output(l, num)) >= 0;) {
		struct fab_dport *out = fab_output(d, in, num);
		int vl = fab_mcast_vl(d, in, l, out);

		if (vl < 0 || contended(out) || !(out->arb_vls >> vl & 1) ||
		    !fab_out_pass(d, out, (unsigned int)vl, &l->f))
			continue;
		l->started = true;
		fab_clear_output(l, out->num);
	}
	return fab_next_output(l, -1) >= 0;
}

/* Forward a head at a router. Return: whether it has left. */
static bool head_route(struct fab_data *d, const struct fab_lane *l)
{
	struct fab_frame f;

	fab_route_frame(l, &f);
	return fab_out_pass(d, l->out, l->ovl, &f);
}

/* Forward or consume the packet that has just arrived in @l. Return: whether it is done. */
static bool head_pass(struct fab_data *d, struct fab_dport *in, struct fab_lane *l)
{
	switch (l->kind) {
	case FAB_HEAD_UCAST:
		/* packets that arrive now for a wire with a rate have equal chances, see park.c */
		if (contended(l->out) || fab_is_paced(l->out) || !(l->out->arb_vls >> l->ovl & 1))
			return false;
		return fab_unlikely(l->routed) ? head_route(d, l) :
						 fab_out_pass(d, l->out, l->ovl, &l->f);
	case FAB_HEAD_MCAST:
		return !head_spread(d, in, l);
	case FAB_HEAD_LOCAL:
		fab_gsi_rx(d, in, &l->f, in->tap);
		return true;
	default:
		return true;
	}
}

void fab_head_capture(struct fab_data *d, const struct fab_dport *in, unsigned int vl)
{
	const struct fab_lane *l = &in->lane[vl];

	if (l->kind == FAB_HEAD_LOCAL)
		return;
	fab_capture_frame(d, in, &l->f, vl, false,
			  l->kind == FAB_HEAD_DROP ? d->why : FAB_DROP_NONE);
}

/*
 * Decide on @f, which has arrived and is the head of its lane: it goes on, or waits.
 * @b: its buffer, in which it can wait; NULL: it has none yet
 */
static void head_go_on(struct fab_data *d, struct fab_dport *in, unsigned int vl,
		       const struct fab_frame *f, struct fab_buffer *b)
{
	struct fab_lane *l = &in->lane[vl];

	d->walk--;
	l->f = *f;
	l->passing = true;
	fab_head_decide(d, in, vl);
	if (l->kind == FAB_HEAD_UCAST)
		fab_prefetch_wire(l->out, l->ovl);
	if (fab_unlikely(in->tap))
		fab_head_capture(d, in, vl);
	if (head_pass(d, in, l)) {
		l->kind = FAB_HEAD_NONE;
	} else if (b) {
		fab_store_own(d, in, vl, b);
	} else if (!fab_store(d, in, vl, &l->f, true)) {
		fab_drop_head(d, l, FAB_DROP_MEMORY);
		l->kind = FAB_HEAD_NONE;
	}
	if (fab_unlikely(l->counted) && l->kind == FAB_HEAD_NONE)
		fab_adaptive_left(l);
	l->passing = false;
}

void fab_enter(struct fab_data *d, struct fab_dport *in, unsigned int vl,
	       const struct fab_frame *f)
{
	struct fab_lane *l = &in->lane[vl];

	fab_count_rcv(in, f);
	if (!l->first && !l->passing && d->walk) {
		head_go_on(d, in, vl, f, NULL);
		return;
	}
	if (fab_unlikely(in->tap))
		fab_capture_frame(d, in, f, vl, false, FAB_DROP_NONE);
	if (!fab_store(d, in, vl, f, false))
		fab_dropped(d, FAB_DROP_MEMORY);
}

/* @f arrives at the other end of a local wire, in whose buffer it fits. */
static void lane_arrive(struct fab_data *d, struct fab_dport *in, unsigned int vl,
			const struct fab_frame *f)
{
	struct fab_frame at = *f;

	at.vl = (uint8_t)vl;
	at.lrh[0] = (uint8_t)(vl << 4);
	at.hops++;
	at.flags &= OHCA_FRAME_ICRC;
	fab_enter(d, in, vl, &at);
}

/* Drop a packet that the link of @in has lost or damaged. Return: whether it did. */
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

	b->moved = false;
	fab_buffer_frame(b, vl, &f);
	f.hops += !fab_leads_out(in);
	fab_count_rcv(in, &f);
	if (fab_leads_out(in) && fab_unlikely(arrives_damaged(d, in, b))) {
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
	head_go_on(d, in, vl, &f, b);
	if (in->lane[vl].kind != FAB_HEAD_NONE)
		return;
	fab_credit(d, in);
	if (!b->moved)
		fab_buffer_put(d, b);
}

/* ---- heads whose ring is given up ------------------------------------------------ */

void fab_keep_heads(struct fab_data *d, struct fab_dport *dp)
{
	for (unsigned int vl = 0; vl < FAB_DATA_LANES; vl++) {
		struct fab_lane *l = &dp->lane[vl];
		uint64_t came;

		/* the mark is for packets in the ring */
		l->mark_ns = 0;
		if (l->kind == FAB_HEAD_NONE)
			continue;
		came = l->came_ns ? l->came_ns : l->blocked_ns;
		fab_count_rcv(dp, &l->f);
		if (!fab_store(d, dp, vl, &l->f, true)) {
			fab_drop_head(d, l, FAB_DROP_MEMORY);
			fab_head_forget(d, l);
		} else if (came) {
			l->came_ns = came;
			l->first->came_ns = came;
		}
		ohca_link_rx_release(dp->link, vl);
	}
}

/*
 * The head @l is lost with its ring. It is not counted, unless it is a multicast head with copies
 * that have ended: then it counts as received, and its other copies as lost.
 */
static void lose_head(struct fab_data *d, struct fab_dport *dp, struct fab_lane *l)
{
	if (l->kind == FAB_HEAD_MCAST && l->started) {
		fab_count_rcv(dp, &l->f);
		fab_drop_head(d, l, FAB_DROP_LOSS);
	} else if (l->kind == FAB_HEAD_MCAST) {
		d->n.forks -= l->forks;
	}
	fab_head_forget(d, l);
}

void fab_forget_heads(struct fab_data *d, struct fab_dport *dp)
{
	for (unsigned int vl = 0; vl < FAB_DATA_LANES; vl++) {
		/* heads in an input buffer stay; some of their copies may have left */
		if (!dp->buffers)
			lose_head(d, dp, &dp->lane[vl]);
		dp->lane[vl].mark_ns = 0;
	}
	dp->full = 0;
	fab_delay_forget(d, dp, true);
	fab_unstall_all(d, dp);
}
