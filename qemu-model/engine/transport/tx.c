/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Out to the wire: paths, room for packets, looping to the port itself, MADs of the
 * port's own agents.
 */
#include <string.h>

#include "engine/base/le.h"
#include "engine/base/list.h"
#include "engine/base/port.h"
#include "engine/base/state.h"
#include "engine/object/mcast.h"
#include "engine/transport/ack.h"
#include "engine/transport/madq.h"
#include "engine/transport/path.h"
#include "engine/transport/sched.h"
#include "engine/transport/tx.h"
#include "ib/packet.h"
#include "ib/pma.h"
#include "ib/rate.h"
#include "ohca_hw.h"

#define PORT_INIT	2u
#define PORT_ACTIVE	4u
#define MTU_SLACK	124u	/* headers and ICRC that do not count as MTU (7.7.8) */
#define MAD_LEN		256u

/* ---- paths ------------------------------------------------------------------------- */

static uint8_t path_kind(const struct ohca_port *port, const struct ohca_path *p, uint16_t dlid,
			 const struct ohca_hw_av *av, bool vl15)
{
	if (ib_lid_is_ucast(dlid) && port->lid && dlid >> port->lmc == port->lid >> port->lmc &&
	    (vl15 || port->state == PORT_ACTIVE))
		return OHCA_TX_LOOP;
	if (vl15)
		return port->state >= PORT_INIT ? OHCA_TX_WIRE : OHCA_TX_DISCARD;
	if (port->state != PORT_ACTIVE || p->vl >= port->op_vls ||
	    !(p->pkey & IB_PKEY_BASE_MASK))
		return OHCA_TX_DISCARD;
	if (av->flags & OHCA_AV_GRH && !ib_gid_is_mcast(av->dgid) &&
	    ohca_gid_find(port, av->dgid) >= 0)
		return OHCA_TX_LOOP;
	return OHCA_TX_WIRE;
}

/* ps for a byte at a static rate, 0 if the port is no faster (9.11). */
static uint16_t path_pace(const struct ohca_port *port, uint8_t rate)
{
	uint32_t mbps = ib_rate_mbps(rate);

	return mbps && mbps < port->mbps ? (uint16_t)(8000000 / mbps) : 0;
}

int ohca_path_resolve(ohca_engine *e, unsigned int port_idx, const struct ohca_hw_av *av,
		      uint16_t pkey, bool vl15, struct ohca_path *p)
{
	const struct ohca_port *port = &e->port[port_idx];
	uint16_t dlid = ohca_le16(av->dlid);
	bool grh = av->flags & OHCA_AV_GRH;
	uint16_t slid;
	uint8_t *h;

	if (dlid == IB_LID_RESERVED || (dlid == IB_LID_PERMISSIVE && !vl15) || av->sl > 15 ||
	    av->src_path_bits >= 1u << port->lmc || (vl15 && grh))
		return OHCA_VE_AV;
	if (grh && !port->gid_valid[av->sgid_index])
		return OHCA_VE_AV;
	p->mcast = ib_lid_is_mcast(dlid);
	if (p->mcast && (!grh || !ib_gid_is_mcast(av->dgid)))
		return OHCA_VE_AV;
	p->port = (uint8_t)port_idx;
	p->vl = vl15 ? IB_VL_MANAGEMENT : port->sl2vl[av->sl];
	p->pkey = vl15 ? IB_DEFAULT_PKEY : pkey;
	p->kind = path_kind(port, p, dlid, av, vl15);
	p->pace = vl15 ? 0 : path_pace(port, av->static_rate);
	slid = port->lid | av->src_path_bits;
	if (!port->lid)
		slid = IB_LID_PERMISSIVE;
	h = ib_build_lrh(p->hdr, p->vl, av->sl, grh ? IB_LNH_IBA_GLOBAL : IB_LNH_IBA_LOCAL, dlid,
			 0, slid);
	if (grh) {
		uint32_t ft = ohca_le32(av->flow_tclass);

		h = ib_build_grh(h, (uint8_t)OHCA_FIELD_GET(OHCA_AV_TCLASS, ft),
				 OHCA_FIELD_GET(OHCA_AV_FLOW_LABEL, ft), 0, av->hop_limit,
				 port->gid[av->sgid_index], av->dgid);
	}
	p->hdr_len = (uint8_t)(h - p->hdr);
	return 0;
}

const struct ohca_path *ohca_qp_path(ohca_engine *e, struct ohca_qp *qp)
{
	const struct ohca_port *port = &e->port[qp->port];
	struct ohca_xport *xp = qp->xp;

	if (xp->path_ok && xp->path_gen == e->sched->gen[qp->port])
		return &xp->path;
	if (qp->pkey_index >= port->num_pkeys ||
	    ohca_path_resolve(e, qp->port, &qp->av, port->pkey[qp->pkey_index], false,
			      &xp->path)) {
		/* it was good when the QP was set up: to nowhere, until the port recovers */
		memset(&xp->path, 0, sizeof(xp->path));
		xp->path.kind = OHCA_TX_DISCARD;
		xp->path.port = qp->port;
		xp->path.hdr_len = IB_LRH_LEN;
	}
	xp->path_gen = e->sched->gen[qp->port];
	xp->path_ok = true;
	return &xp->path;
}

/* ---- room -------------------------------------------------------------------------- */

static bool loop_full(const struct ohca_sched *s)
{
	return s->loop_head - s->loop_tail >= OHCA_LOOP_SLOTS;
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
	s->loop_head++;
}

/* ---- waiting for credits ------------------------------------------------------------ */

static uint32_t port_refused(const struct ohca_sched *s, unsigned int port)
{
	return s->refused >> ohca_lane(port, 0) & 0xffff;
}

/* @vl of @port has a packet and no credits. */
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
 * A packet leaves by @vl while lanes of the port wait, this one perhaps. PortXmitWait has the
 * ticks in which the port has something to send and sends nothing at all (16.1.3.5).
 */
static void wait_sent(ohca_engine *e, unsigned int port, unsigned int vl)
{
	struct ohca_sched *s = e->sched;
	uint64_t now = ohca_now(e);

	e->port[port].cnt.xmit_wait += ib_pma_ticks(&s->idle_ns[port], now);
	s->idle_ns[port] = now;
	wait_end(e, port, vl, now);
}

/* Is there anybody whom @vl of @port refused, and who will ask again? */
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

static uint8_t *wire_room(ohca_engine *e, const struct ohca_path *p, uint32_t len,
			  struct ohca_tx *tx)
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
			s->blocked = s->wait_loop;
			return NULL;
		}
	}
	buf = e->ops.tx_begin(e->h, p->port, p->vl, len);
	if (!buf && p->vl == IB_VL_MANAGEMENT) {
		/* the peer counts it as VL15Dropped: it was sent, and is not waited for (7.9.1) */
		tx->lost = true;
		return s->discard;
	}
	if (!buf) {
		s->blocked = s->wait[p->port][p->vl];
		wait_begin(s, p->port, p->vl, ohca_now(e));
	} else {
		if (port_refused(s, p->port))
			wait_sent(e, p->port, p->vl);
		s->sent = ohca_lane(p->port, p->vl) + 1;
	}
	return buf;
}

/* Not now: another lane has its turn, or the QP is ahead of its static rate. */
static bool too_early(struct ohca_sched *s, const struct ohca_path *p)
{
	if (s->grant != OHCA_LANE_ANY && s->grant != ohca_lane(p->port, p->vl)) {
		s->want = ohca_lane(p->port, p->vl);
		s->blocked = s->wait_turn;
		return true;
	}
	if (p->pace && s->turn && s->turn->paced > s->now) {
		s->blocked = s->wait_pace;
		return true;
	}
	return false;
}

static void pace(const struct ohca_sched *s, const struct ohca_tx *tx)
{
	struct ohca_xport *xp = s->turn;
	uint64_t since = s->now > OHCA_PACE_NS ? s->now - OHCA_PACE_NS : 0;

	if (!xp)
		return;
	if (xp->paced < since)
		xp->paced = since;
	xp->paced += (uint64_t)(tx->len + IB_VCRC_LEN) * tx->pace / 1000;
}

bool ohca_tx_open(ohca_engine *e, const struct ohca_path *p, uint32_t len, struct ohca_tx *tx)
{
	struct ohca_sched *s = e->sched;
	uint8_t *buf;

	tx->len = len;
	tx->port = p->port;
	tx->vl = p->vl;
	tx->sl = p->hdr[1] >> 4;
	tx->kind = p->kind;
	tx->mcast = p->mcast;
	tx->pace = p->pace;
	tx->loop_copy = tx->too_long = tx->lost = false;
	switch (p->kind) {
	case OHCA_TX_WIRE:
		if ((s->arb || p->pace) && too_early(s, p))
			return false;
		buf = wire_room(e, p, len, tx);
		if (!buf)
			return false;
		break;
	case OHCA_TX_LOOP:
		if (loop_full(s)) {
			s->blocked = s->wait_loop;
			return false;
		}
		buf = loop_slot(s);
		break;
	default:
		buf = s->discard;
		break;
	}
	memcpy(buf, p->hdr, p->hdr_len);
	ib_put_be16(buf + 4, (uint16_t)(len / 4));
	if (p->hdr_len > IB_LRH_LEN)
		ib_put_be16(buf + IB_LRH_LEN + 4, (uint16_t)(len - IB_LRH_LEN - IB_GRH_LEN));
	memset(buf + len - IB_ICRC_LEN, 0, IB_ICRC_LEN);
	tx->buf = buf;
	return true;
}

void ohca_tx_close(ohca_engine *e, struct ohca_tx *tx)
{
	struct ohca_sched *s = e->sched;
	struct ohca_port_counters *c = &e->port[tx->port].cnt;

	/* what is looped takes the engine's time, if not the wire's */
	s->charge += tx->len + IB_VCRC_LEN;
	switch (tx->kind) {
	case OHCA_TX_WIRE:
		ib_pma_count_xmit(c, tx->len, tx->sl, tx->mcast);
		if (tx->loop_copy) {
			memcpy(loop_slot(s), tx->buf, tx->len);
			loop_push(s, tx->port, tx->len);
		}
		if (tx->pace)
			pace(s, tx);
		if (!tx->lost)
			e->ops.tx_commit(e->h, tx->port, tx->vl, tx->len);
		break;
	case OHCA_TX_LOOP:
		loop_push(s, tx->port, tx->len);
		break;
	default:
		c->xmit_discards++;
		if (tx->too_long)
			c->xmit_mtu_discards++;
		else if (e->port[tx->port].state != PORT_ACTIVE)
			c->xmit_inactive_discards++;
		return;
	}
	ohca_count(e, OHCA_CNT_TX_PKTS);
}

/* ---- acknowledgements ----------------------------------------------------------------- */

bool ohca_ack_out(ohca_engine *e, const struct ohca_ack *a)
{
	const struct ohca_path *path = &a->path;
	struct ohca_tx tx;
	uint8_t *h;

	if (!ohca_tx_open(e, path, path->hdr_len + IB_BTH_LEN + IB_AETH_LEN + IB_ICRC_LEN, &tx))
		return false;
	h = ib_build_bth(tx.buf + path->hdr_len, a->opcode, a->migreq, 0, path->pkey,
			 a->dqpn, false, a->psn);
	ib_build_aeth(h, a->syndrome, a->msn);
	ohca_tx_close(e, &tx);
	return true;
}

void ohca_ack_later(ohca_engine *e, const struct ohca_ack *a)
{
	struct ohca_lateq *q = &e->sched->late[a->path.port];

	if (q->head - q->tail >= OHCA_LATE_ACKS) {
		q->tail++;
		e->port[a->path.port].cnt.xmit_discards++;
	}
	q->ack[q->head++ & (OHCA_LATE_ACKS - 1)] = *a;
}

/* False: no room in the loop. */
static bool late_run(ohca_engine *e, struct ohca_lateq *q)
{
	struct ohca_sched *s = e->sched;

	while (q->head != q->tail && !q->blocked) {
		if (ohca_ack_out(e, &q->ack[q->tail & (OHCA_LATE_ACKS - 1)]))
			q->tail++;
		else if (s->blocked == s->wait_loop)
			return false;
		else
			q->blocked = true;
	}
	return true;
}

/* ---- management datagrams of the port's agents --------------------------------------- */

void ohca_mad_send(ohca_engine *e, unsigned int port, unsigned int src_qp,
		   const struct ohca_hw_av *av, uint16_t pkey, uint16_t slid, const uint8_t *mad)
{
	struct ohca_madq *q;
	struct ohca_madq_slot *m;

	if (port >= e->cfg.num_ports || src_qp > 1)
		return;
	q = &e->sched->madq[port][src_qp];
	if (q->head - q->tail >= OHCA_MADQ_SLOTS) {
		/* VL15Dropped and QP1Dropped have only packets that came */
		q->tail++;
		e->port[port].cnt.xmit_discards++;
	}
	m = &q->slot[q->head++ & (OHCA_MADQ_SLOTS - 1)];
	m->av = *av;
	m->pkey = pkey;
	m->slid = slid;
	memcpy(m->mad, mad, MAD_LEN);
}

/* Build and send one. False: no credits. */
static bool mad_out(ohca_engine *e, unsigned int port, unsigned int qpn,
		    const struct ohca_madq_slot *m)
{
	struct ohca_path p;
	struct ohca_tx tx;
	uint32_t len;
	uint8_t *h;

	/* a reply to what cannot be answered: nobody waits for it */
	if (ohca_path_resolve(e, port, &m->av, m->pkey, qpn == 0, &p))
		return true;
	if (m->slid)
		ib_put_be16(p.hdr + 6, m->slid);
	len = p.hdr_len + IB_BTH_LEN + IB_DETH_LEN + MAD_LEN + IB_ICRC_LEN;
	if (!ohca_tx_open(e, &p, len, &tx))
		return false;
	h = ib_build_bth(tx.buf + p.hdr_len, IB_OP_UD_SEND_ONLY, 0, 0, p.pkey,
			 ohca_le32(m->av.dqpn), false, 0);
	h = ib_build_deth(h, ohca_le32(m->av.qkey), qpn);
	memcpy(h, m->mad, MAD_LEN);
	ohca_tx_close(e, &tx);
	return true;
}

void ohca_madq_run(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;

	for (unsigned int port = 0; port < e->cfg.num_ports; port++)
		if (!late_run(e, &s->late[port]))
			return;		/* the loop drains in this very run */
	for (unsigned int port = 0; port < e->cfg.num_ports; port++)
		for (unsigned int qpn = 0; qpn < 2; qpn++) {
			struct ohca_madq *q = &s->madq[port][qpn];
			uint32_t n = q->head - q->tail;

			while (n-- && !q->blocked) {
				if (mad_out(e, port, qpn, &q->slot[q->tail & (OHCA_MADQ_SLOTS - 1)]))
					q->tail++;
				else if (s->blocked == s->wait_loop)
					return;
				else
					q->blocked = true;
			}
		}
}
