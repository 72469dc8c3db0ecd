/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Transmission: room for packets, waits for credits, loopback to the port itself. */
#include <string.h>

#include "engine/base/list.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/mcast.h"
#include "engine/transport/path.h"
#include "engine/transport/sched.h"
#include "engine/transport/turn.h"
#include "engine/transport/tx.h"
#include "ib/packet.h"
#include "ib/pma.h"
#include "ib/smp.h"
#include "ohca_hw.h"

#define MTU_SLACK	124u	/* headers and ICRC that do not count as MTU (7.7.8) */

/* ---- room -------------------------------------------------------------------------- */

/*
 * One slot is reserved for a multicast frame from the wire, so looped packets cannot block frames.
 */
static bool loop_full(const struct ohca_sched *s)
{
	return s->loop_head - s->loop_tail >= OHCA_LOOP_SLOTS - 1;
}

static uint8_t *loop_slot(struct ohca_sched *s)
{
	return s->loop + (size_t)(s->loop_head & (OHCA_LOOP_SLOTS - 1)) * OHCA_SLOT_SIZE;
}

static void loop_push(struct ohca_sched *s, uint8_t port, uint32_t len)
{
	uint32_t i = s->loop_head & (OHCA_LOOP_SLOTS - 1);

	s->loop_port[i] = port;
	s->loop_len[i] = len;
	s->loop_from[i] = 0;
	s->loop_head++;
}

bool ohca_loop_keep(ohca_engine *e, unsigned int port, const uint8_t *hdr, uint32_t n,
		    const struct ohca_frame *f, uint16_t from)
{
	struct ohca_sched *s = e->sched;
	uint32_t i = s->loop_head & (OHCA_LOOP_SLOTS - 1);
	uint8_t *buf = loop_slot(s);

	if (s->loop_head - s->loop_tail >= OHCA_LOOP_SLOTS)
		return false;
	memcpy(buf, f->data, f->len);
	memcpy(buf, hdr, n);
	loop_push(s, (uint8_t)port, f->len);
	s->loop_from[i] = from;
	s->loop_kept |= 1ull << i;
	return true;
}

/* ---- waiting for credits ------------------------------------------------------------ */

static uint32_t port_refused(const struct ohca_sched *s, unsigned int port)
{
	return s->refused >> ohca_lane(port, 0) & 0xffff;
}

/* Begin the wait of @vl of @port, which has a packet and no credits. */
static void wait_begin(struct ohca_sched *s, unsigned int port, unsigned int vl, uint64_t now)
{
	unsigned int lane = ohca_lane(port, vl);

	if (s->refused >> lane & 1)
		return;
	if (!port_refused(s, port))
		s->idle_ns[port] = now;
	s->refused_ns[lane] = now;
	s->refused |= 1u << lane;
}

static void wait_end(ohca_engine *e, unsigned int port, unsigned int vl, uint64_t now)
{
	struct ohca_sched *s = e->sched;
	unsigned int lane = ohca_lane(port, vl);

	if (!(s->refused >> lane & 1))
		return;
	e->port[port].cnt.xmit_wait_vl[vl] += ib_pma_ticks(&s->refused_ns[lane], now);
	s->refused &= ~(1u << lane);
}

/*
 * A packet leaves on @vl while lanes of the port wait, perhaps this one. PortXmitWait counts the
 * ticks in which the port has packets to send and sends none on any lane (16.1.3.5).
 */
static void wait_sent(ohca_engine *e, unsigned int port, unsigned int vl)
{
	struct ohca_sched *s = e->sched;
	uint64_t now = ohca_now(e);

	e->port[port].cnt.xmit_wait += ib_pma_ticks(&s->idle_ns[port], now);
	s->idle_ns[port] = now;
	wait_end(e, port, vl, now);
}

/* Whether a sender waits for credits of @vl of @port. */
static bool anybody_waits(const struct ohca_sched *s, unsigned int port, unsigned int vl)
{
	return !ohca_list_empty(&s->wait[port][vl][0]) || !ohca_list_empty(&s->wait[port][vl][1]) ||
	       s->madq[port][0].blocked || s->madq[port][1].blocked || s->late[port].blocked;
}

void ohca_xp_wait_update(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;
	uint64_t now;

	if (!s->refused)
		return;
	now = ohca_now(e);
	for (unsigned int port = 0; port < e->cfg.num_ports; port++) {
		struct ohca_port_counters *c = &e->port[port].cnt;

		if (!port_refused(s, port))
			continue;
		c->xmit_wait += ib_pma_ticks(&s->idle_ns[port], now);
		for (unsigned int vl = 0; vl < 16; vl++) {
			unsigned int lane = ohca_lane(port, vl);

			if (s->refused >> lane & 1)
				c->xmit_wait_vl[vl] += ib_pma_ticks(&s->refused_ns[lane],
								    now);
			if (!anybody_waits(s, port, vl))
				s->refused &= ~(1u << lane);
		}
	}
}

static uint8_t *wire_room(ohca_engine *e, struct ohca_turn *t, const struct ohca_path *p,
			  uint32_t len, struct ohca_tx *tx)
{
	struct ohca_sched *s = e->sched;
	struct ohca_port *port = &e->port[p->port];
	uint8_t *buf;

	if (p->vl != IB_VL_MANAGEMENT && port->mtu && len > (128u << port->mtu) + MTU_SLACK) {
		tx->too_long = true;
		tx->kind = OHCA_TX_DISCARD;
		return s->discard;
	}
	if (p->mcast) {
		struct ohca_mcast_grp *g = ohca_mcast_find(e, p->hdr + IB_LRH_LEN + 24);

		tx->loop_copy = g && g->num;
		if (tx->loop_copy && loop_full(s)) {
			t->wait = OHCA_WAIT_LOOP;
			return NULL;
		}
	}
	buf = e->ops.tx_begin(e->h, p->port, p->vl, len);
	if (!buf && p->vl == IB_VL_MANAGEMENT) {
		/* VL15 has no flow control (7.9.1), so the peer counts it as VL15Dropped */
		tx->lost = true;
		return s->discard;
	}
	if (!buf) {
		t->wait = OHCA_WAIT_CREDITS;
		t->lane = ohca_lane(p->port, p->vl);
		wait_begin(s, p->port, p->vl, ohca_now(e));
	} else {
		if (port_refused(s, p->port))
			wait_sent(e, p->port, p->vl);
		t->sent = ohca_lane(p->port, p->vl) + 1;
	}
	return buf;
}

/*
 * Whether the packet must wait: for a turn of its lane, or because of the static rate of the QP or
 * a delay by congestion control.
 */
static bool too_early(const struct ohca_sched *s, struct ohca_turn *t, const struct ohca_path *p)
{
	if (t->grant != OHCA_LANE_ANY && t->grant != ohca_lane(p->port, p->vl)) {
		t->lane = ohca_lane(p->port, p->vl);
		t->wait = OHCA_WAIT_TURN;
		return true;
	}
	if ((p->pace || s->congestion[p->port].on) && t->xp && t->xp->sched.paced > s->now &&
	    t->xp->sched.paced_gen == s->congestion[p->port].gen) {
		t->wait = OHCA_WAIT_PACE;
		return true;
	}
	return false;
}

static void pace(ohca_engine *e, const struct ohca_tx *tx)
{
	const struct ohca_sched *s = e->sched;
	struct ohca_xport *xp = tx->turn->xp;
	uint64_t since = s->now > OHCA_PACE_NS ? s->now - OHCA_PACE_NS : 0, was;

	if (!xp)
		return;
	if (xp->sched.paced_gen != s->congestion[tx->port].gen) {
		xp->sched.paced_gen = s->congestion[tx->port].gen;
		xp->sched.paced = 0;
	}
	was = xp->sched.paced;
	if (tx->pace) {
		if (xp->sched.paced < since)
			xp->sched.paced = since;
		xp->sched.paced += (uint64_t)(tx->len + IB_VCRC_LEN) * tx->pace *
				   e->cfg.rate_scale / 1000;
	}
	/* the longer of the two delays applies */
	if (s->congestion[tx->port].on)
		ohca_congestion_sent(e, xp, tx, was);
}

bool ohca_tx_open(ohca_engine *e, struct ohca_turn *t, const struct ohca_path *p, uint32_t len,
		  struct ohca_tx *tx)
{
	struct ohca_sched *s = e->sched;
	uint8_t *buf;

	tx->turn = t;
	tx->len = len;
	tx->port = p->port;
	tx->vl = p->vl;
	tx->sl = p->hdr[1] >> 4;
	tx->kind = p->kind;
	tx->mcast = p->mcast;
	tx->pace = p->pace;
	tx->loop_copy = tx->too_long = tx->lost = false;
	tx->view = NULL;
	switch (p->kind) {
	case OHCA_TX_WIRE:
		if ((t->grant != OHCA_LANE_ANY || p->pace || s->congestion[p->port].on) &&
		    too_early(s, t, p))
			return false;
		buf = wire_room(e, t, p, len, tx);
		if (!buf)
			return false;
		break;
	case OHCA_TX_LOOP:
		if (loop_full(s)) {
			t->wait = OHCA_WAIT_LOOP;
			return false;
		}
		buf = loop_slot(s);
		break;
	default:
		buf = s->discard;
		break;
	}
	/* copies of constant sizes are faster */
	memcpy(buf, p->hdr, IB_LRH_LEN);
	if (p->hdr_len > IB_LRH_LEN)
		memcpy(buf + IB_LRH_LEN, p->hdr + IB_LRH_LEN, IB_GRH_LEN);
	ib_put_be16(buf + 4, (uint16_t)(len / 4));
	if (p->hdr_len > IB_LRH_LEN)
		ib_put_be16(buf + IB_LRH_LEN + 4, (uint16_t)(len - IB_LRH_LEN - IB_GRH_LEN));
	memset(buf + len - IB_ICRC_LEN, 0, IB_ICRC_LEN);
	tx->buf = buf;
	return true;
}

bool ohca_tx_views(const ohca_engine *e, const struct ohca_tx *tx)
{
	return e->ops.tx_commit_view && tx->kind == OHCA_TX_WIRE && !tx->mcast;
}

bool ohca_tx_paced(ohca_engine *e, const struct ohca_tx *tx)
{
	return tx->pace || (e->sched->congestion[tx->port].on &&
			    ohca_congestion_slow(e, tx->turn->xp, tx->port, tx->sl));
}

unsigned int ohca_tx_series(ohca_engine *e, const struct ohca_tx *tx, unsigned int n,
			    uint32_t mtu)
{
	const struct ohca_turn *t = tx->turn;
	const uint64_t left = e->work_end - e->work;

	if (!ohca_work_left(e))
		return 1;
	if (n > t->most)
		n = t->most;
	/* as many as would leave one by one, each while some of the allowance is left */
	if (n > 1 && (uint64_t)(n - 1) * mtu >= left)
		n = (unsigned int)((left - 1) / mtu) + 1;
	/* with an arbiter a turn has one packet */
	if (n < 2 || !e->ops.tx_series || ohca_tx_paced(e, tx) ||
	    !e->ops.tx_series(e->h, tx->port, tx->vl, tx->len, n))
		return 1;
	return n;
}

void ohca_tx_close(ohca_engine *e, struct ohca_tx *tx)
{
	struct ohca_sched *s = e->sched;
	struct ohca_port_counters *c = &e->port[tx->port].cnt;
	const uint32_t n = tx->view ? tx->view->packets : 1;

	/* looped packets are charged, too, since they cost the engine's time */
	if (tx->kind != OHCA_TX_DISCARD)
		tx->turn->charge += n * (tx->len + IB_VCRC_LEN);
	switch (tx->kind) {
	case OHCA_TX_WIRE:
		if (n > 1)
			ib_pma_count_xmits(c, n, tx->len, tx->sl);
		else
			ib_pma_count_xmit(c, tx->len, tx->sl, tx->mcast);
		if (tx->loop_copy) {
			memcpy(loop_slot(s), tx->buf, tx->len);
			loop_push(s, tx->port, tx->len);
		}
		if (tx->pace || s->congestion[tx->port].on)
			pace(e, tx);
		if (tx->view)
			e->ops.tx_commit_view(e->h, tx->port, tx->vl, tx->len, tx->view);
		else if (!tx->lost)
			e->ops.tx_commit(e->h, tx->port, tx->vl, tx->len);
		break;
	case OHCA_TX_LOOP:
		loop_push(s, tx->port, tx->len);
		break;
	default:
		c->xmit_discards++;
		if (tx->too_long)
			c->xmit_mtu_discards++;
		else if (e->port[tx->port].state != IB_PS_ACTIVE)
			c->xmit_inactive_discards++;
		return;
	}
	ohca_count_add(&e->port_cnt[OHCA_CNT_TX_PKTS][tx->port], n);
	ohca_count_add(&e->port_cnt[OHCA_CNT_TX_BYTES][tx->port], (uint64_t)n * tx->len);
}
