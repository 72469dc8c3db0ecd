/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Datagrams: UD QPs, the ports' SMI and GSI QPs, multicast (IBTA vol 1, 9.8.1, 10.5, 13.5). A
 * message is one packet and is not acknowledged.
 */
#include <string.h>

#include "engine/base/features.h"
#include "engine/base/le.h"
#include "engine/base/work.h"
#include "engine/object/counters.h"
#include "engine/object/eq.h"
#include "engine/object/fault.h"
#include "engine/object/mcast.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/object/wc.h"
#include "engine/transport/ipoib.h"
#include "engine/transport/path.h"
#include "engine/transport/pool.h"
#include "engine/transport/responder.h"
#include "engine/transport/rx.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/suspend.h"
#include "engine/transport/to_agents.h"
#include "engine/transport/turn.h"
#include "engine/transport/tx.h"
#include "engine/transport/ud.h"
#include "ib/mad.h"
#include "ib/packet.h"
#include "ohca_hw.h"

#define MCAST_STEP	16u	/* most members of a group that receive a packet in one step */

/* ---- sending ----------------------------------------------------------------------------- */

/* The MTU of a port, bytes. */
static uint32_t port_mtu(const ohca_engine *e, unsigned int port)
{
	uint8_t code = e->port[port].mtu;

	return 128u << (code ? code : e->cfg.mtu_cap);
}

static enum ohca_sent dgram_fail(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
				 uint8_t status, int ve)
{
	ohca_sq_fail(e, qp, w, status, (uint16_t)ve);
	return OHCA_SENT;
}

/**
 * struct chunk - the part of a WQE that one packet contains
 * @hdr: headers before the data (TSO); @t: their layout
 * @off, @n: offset and number of bytes of the WQE's data
 * @last: the end of the WQE's data
 */
struct chunk {
	const uint8_t *hdr;
	struct ohca_tso t;
	uint32_t off, n;
	bool last;
};

/* Get the next chunk of a WQE. 0 or a vendor error */
static int next_chunk(const struct ohca_xport *xp, const struct ohca_swqe *w, struct chunk *c)
{
	struct ohca_hw_wqe_tso t;
	const uint8_t *raw = ohca_swqe_raw(xp, w->idx) + 4 * OHCA_SEG_SIZE;
	uint32_t mss;

	memset(c, 0, sizeof(*c));
	c->n = w->length;
	c->last = true;
	if (w->op != OHCA_OP_TSO)
		return 0;
	memcpy(&t, raw, sizeof(t));
	mss = ohca_le16(t.mss);
	c->hdr = raw + sizeof(t);
	if (!ohca_tso_check(c->hdr, ohca_le16(t.hlen), &c->t))
		return OHCA_VE_WQE_SIZE;
	c->off = w->last;
	c->n = w->length - w->last;
	c->last = c->n <= mss;
	if (!c->last)
		c->n = mss;
	return 0;
}

static enum ohca_sent send_one(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w,
			       struct ohca_turn *t)
{
	struct ohca_xport *xp = qp->xp;
	const struct ib_opcode_info *info;
	struct ohca_hw_av av;
	struct ohca_path path;
	struct ohca_missing m;
	struct ohca_tx tx;
	const struct ohca_port *port = &e->port[qp->port];
	struct chunk c;
	uint32_t pad, qkey, len;
	uint8_t op = w->op == OHCA_OP_SEND_IMM ? IB_OP_UD_SEND_ONLY_IMM : IB_OP_UD_SEND_ONLY;
	bool smi = qp->type == OHCA_QPT_SMI, gsi = qp->type == OHCA_QPT_GSI;
	uint16_t pkey_index;
	uint8_t *h;
	int ve;

	memcpy(&av, ohca_swqe_raw(xp, w->idx) + OHCA_SEG_SIZE, sizeof(av));
	ve = next_chunk(xp, w, &c);
	if (ve)
		return dgram_fail(e, qp, w, OHCA_WC_LOC_QP_OP, ve);
	len = c.t.len + c.n;
	pad = ib_pad(len);
	if (smi || gsi ? len != IB_MAD_LEN : len > port_mtu(e, qp->port))
		return dgram_fail(e, qp, w, OHCA_WC_LOC_LEN, OHCA_VE_LENGTH);
	pkey_index = gsi ? ohca_le16(av.pkey_index) : smi ? 0 : qp->pkey_index;
	if (pkey_index >= port->num_pkeys)
		return dgram_fail(e, qp, w, OHCA_WC_LOC_QP_OP, OHCA_VE_AV);
	ve = ohca_path_resolve(e, qp->port, &av, port->pkey[pkey_index], smi, &path);
	if (ve)
		return dgram_fail(e, qp, w, OHCA_WC_LOC_QP_OP, ve);
	if (smi && e->cfg.smp_off)
		path.kind = OHCA_TX_DISCARD;
	info = &ib_opcodes[op];
	if (!ohca_tx_open(e, t, &path, path.hdr_len + info->hdr_len + len + pad + IB_ICRC_LEN,
			  &tx))
		return OHCA_SENT_BLOCKED;
	/* MigReq is the migration state of a connection (17.2.8), which datagrams do not have */
	h = ib_build_bth(tx.buf + path.hdr_len, op,
			 w->flags & OHCA_WQE_SOLICITED ? IB_BTH_SE : 0,
			 (uint8_t)pad, path.pkey,
			 path.mcast ? IB_QP_MULTICAST : ohca_le32(av.dqpn), false, xp->req.nxt);
	/* if the WQE has a controlled Q_Key, the packet gets the QP's Q_Key (10.2.5) */
	qkey = ohca_le32(av.qkey);
	if (qkey >> 31)
		qkey = gsi ? IB_QKEY_GSI : qp->qkey;
	h = ib_build_deth(h, qkey, qp->wire_qpn);
	if (op == IB_OP_UD_SEND_ONLY_IMM) {
		memcpy(h, &w->imm, IB_IMMDT_LEN);
		h += IB_IMMDT_LEN;
	}
	if (c.t.len)
		memcpy(h, c.hdr, c.t.len);
	ve = ohca_swqe_gather(e, qp, w, c.off, h + c.t.len, c.n, &m);
	if (ve == OHCA_MR_FAULT)
		return ohca_suspend_tx(e, qp, t, OHCA_FAULT_REQ, w->idx, &m);
	if (ve)
		return dgram_fail(e, qp, w, OHCA_WC_LOC_PROT, ve);
	if (c.t.len)
		ohca_tso_segment(h, &c.t, w->first, c.off, c.n, c.last);
	else if (w->flags & OHCA_WQE_IP_CSUM)
		ohca_ip_fill(h, len);
	memset(h + len, 0, pad);
	ohca_tx_close_qp(e, qp, &tx);
	xp->req.nxt = xp->req.una = xp->req.max = ib_psn_add(xp->req.nxt, 1);
	if (!c.last) {
		w->state = OHCA_SW_BEGUN;
		w->first++;
		w->last += c.n;
		return OHCA_SENT;
	}
	ohca_sq_complete(e, qp, w, OHCA_WC_SUCCESS, 0);
	return OHCA_SENT;
}

enum ohca_sent ohca_ud_send(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t)
{
	struct ohca_swqe *w;

	if (ohca_sq_flushes(qp)) {
		if (ohca_sq_flush_one(e, qp))
			return OHCA_SENT;
		if (qp->state != OHCA_QPS_RTS)
			return OHCA_SENT_NONE;
	}
	if (qp->xp->fault[OHCA_FAULT_REQ])
		return OHCA_SENT_NONE;
	/* in SQD only a WQE that has begun continues */
	if (qp->state == OHCA_QPS_SQD &&
	    (qp->xp->req.tail == qp->xp->req.head ||
	     ohca_swqe_at(qp->xp, qp->xp->req.tail)->state == OHCA_SW_NEW))
		return OHCA_SENT_NONE;
	w = ohca_sq_next(e, qp);
	if (!w)
		return OHCA_SENT_NONE;
	if (w->status)
		return dgram_fail(e, qp, w, w->status, w->ve);
	if (w->op == OHCA_OP_NOP) {
		ohca_sq_complete(e, qp, w, OHCA_WC_SUCCESS, 0);
		return OHCA_SENT;
	}
	return send_one(e, qp, w, t);
}

/* ---- receiving --------------------------------------------------------------------------- */

/* Index of the port's P_Key that matches the packet's, or -1. */
static int match_pkey(const struct ohca_port *port, uint16_t pkey)
{
	for (unsigned int i = 0; i < port->num_pkeys; i++)
		if (ib_pkey_match(pkey, port->pkey[i]))
			return (int)i;
	return -1;
}

static void no_wqe(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_port_counters *c = &e->port[p->port].cnt;

	if (qp->type == OHCA_QPT_SMI)
		c->vl15_dropped++;
	else if (qp->type == OHCA_QPT_GSI)
		c->qp1_dropped++;
	ohca_rx_drop(e, p, OHCA_CNT_RX_NO_WQE);
	if (!ib_lid_is_mcast(p->i.dlid))
		ohca_count_set(e, qp, OHCA_CNT_RX_NO_WQE);
}

/* Write the packet to the buffers of the receive WQE, which are large enough. 0 or vendor error. */
static int dgram_place(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
		       const struct ohca_rwqe *r, const uint8_t *payload, struct ohca_missing *m)
{
	const struct ohca_pd *pd = ohca_recv_pd(qp);
	uint32_t n = p->i.payload_len;
	int ve = 0;

	if (p->i.has_grh)
		ve = ohca_sgl_scatter(e, qp, pd, r->sge, r->num_sge, 0,
				      ib_pkt_grh(p->hdr, &p->i), IB_GRH_LEN, m);
	if (!ve && n)
		ve = ohca_sgl_scatter(e, qp, pd, r->sge, r->num_sge, IB_GRH_LEN, payload, n, m);
	return ve;
}

/*
 * The datagram is longer than the buffer. Its sender must not be able to stop the QP, so the
 * datagram is dropped and the state of the QP does not change (9.9.3). The QP keeps a WQE of its
 * own RQ for the next datagram (class D). A WQE of an SRQ completes as aborted (class E, 11.6.2).
 */
static void too_long(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
		     struct ohca_rwqe *r)
{
	struct ohca_hw_cqe c;

	no_wqe(e, qp, p);
	if (!r->from_srq) {
		qp->xp->resp.rwqe = r;
		return;
	}
	memset(&c, 0, sizeof(c));
	ohca_recv_complete(e, qp, r, OHCA_WC_REM_ABORT, OHCA_VE_ABORTED, &c, false);
	ohca_rwqe_put(e, r);
}

/* Take the receive WQE for a datagram. NULL: there is none, and the datagram is dropped. */
static struct ohca_rwqe *dgram_take(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
				    int *ve)
{
	struct ohca_rwqe *r = qp->xp->resp.rwqe;
	int rc;

	*ve = 0;
	qp->xp->resp.rwqe = NULL;
	if (r)
		return r;
	r = ohca_rwqe_get(e);
	if (!r)
		return NULL;
	rc = ohca_rwqe_take(e, qp, r);
	if (rc && rc != OHCA_RWQE_NO_RQ) {
		*ve = rc < 0 ? -rc : 0;
		return r;
	}
	no_wqe(e, qp, p);
	ohca_rwqe_put(e, r);
	if (rc)
		ohca_qp_error(e, qp, OHCA_EVENT_QP_FATAL, OHCA_VE_WQE_SIZE);
	return NULL;
}

/* Deliver the packet to @qp, after the check of its keys. */
static void deliver(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
		    const uint8_t *payload, int pkey_index)
{
	const struct ib_immdt *imm = ib_pkt_immdt(p->hdr, &p->i);
	uint32_t flags = 0, n = p->i.payload_len;
	struct ohca_missing m;
	struct ohca_rwqe *r;
	struct ohca_hw_cqe c;
	uint8_t status = OHCA_WC_SUCCESS;
	int ve;

	r = dgram_take(e, qp, p, &ve);
	if (!r)
		return;
	if (ve) {
		status = OHCA_WC_LOC_QP_OP;
	} else if (r->total < IB_GRH_LEN || r->total - IB_GRH_LEN < n) {
		too_long(e, qp, p, r);
		return;
	} else {
		ve = dgram_place(e, qp, p, r, payload, &m);
		if (ve == OHCA_MR_FAULT) {
			/* drop the datagram and keep the WQE for the next one */
			qp->xp->resp.rwqe = r;
			ohca_suspend(e, qp, OHCA_FAULT_RECV, 0, &m);
			no_wqe(e, qp, p);
			return;
		}
		if (ve)
			status = OHCA_WC_LOC_PROT;
	}
	if (qp->xp->fault[OHCA_FAULT_RECV])
		ohca_suspend_forget(e, qp->xp, OHCA_FAULT_RECV);
	if (p->i.has_grh)
		flags |= OHCA_WCF_GRH;
	if (qp->type == OHCA_QPT_UD && ohca_feature(e, OHCA_FEATURE_UD_CSUM) &&
	    ohca_ip_ok(payload, n))
		flags |= OHCA_WCF_IP_CSUM_OK;
	memset(&c, 0, sizeof(c));
	if (imm) {
		flags |= OHCA_WCF_WITH_IMM;
		memcpy(&c.imm, &imm->imm, 4);
	}
	c.byte_len = ohca_to_le32(n + IB_GRH_LEN);
	c.src_qp = ohca_to_le32(ib_deth_sqpn(ib_pkt_deth(p->hdr, &p->i)));
	c.wc_flags = ohca_to_le32(flags);
	c.pkey_index = ohca_to_le16((uint16_t)pkey_index);
	c.slid = ohca_to_le16(p->i.slid);
	c.sl = p->i.sl;
	if (!ib_lid_is_mcast(p->i.dlid) && p->i.dlid != IB_LID_PERMISSIVE)
		c.dlid_path_bits = p->i.dlid & (uint8_t)((1u << e->port[p->port].lmc) - 1);
	if (!qp->xp->resp.comm_est && qp->state == OHCA_QPS_RTR) {
		qp->xp->resp.comm_est = true;
		ohca_async_event(e, OHCA_EVENT_COMM_EST, &qp->async);
	}
	ohca_recv_complete(e, qp, r, status, (uint16_t)ve, &c, p->i.se);
	ohca_rwqe_put(e, r);
	if (status)
		ohca_qp_error(e, qp, 0, (uint32_t)ve);
}

static bool can_receive(const struct ohca_qp *qp, unsigned int port)
{
	return qp->state >= OHCA_QPS_RTR && qp->state != OHCA_QPS_ERR && !qp->going &&
	       qp->port == port;
}

static void rx_mcast(ohca_engine *e, const struct ohca_rxpkt *p, uint32_t qkey)
{
	const struct ohca_port *port = &e->port[p->port];
	uint32_t sqpn = ib_deth_sqpn(ib_pkt_deth(p->hdr, &p->i));
	struct ohca_mcast_grp *g;

	g = p->i.dqpn == IB_QP_MULTICAST && p->i.has_grh ?
	    ohca_mcast_find(e, ib_pkt_grh(p->hdr, &p->i)->dgid) : NULL;
	if (!g || !g->num) {
		ohca_rx_drop(e, p, OHCA_CNT_MCAST_DROP);
		return;
	}
	for (uint32_t i = p->from; i < g->num; i++) {
		struct ohca_qp *qp = g->member[i].qp;

		if (i - p->from == MCAST_STEP) {
			e->sched->mcast_left = (uint16_t)i;
			return;
		}
		ohca_work(e, OHCA_WORK_STEP);

		if (qp->type != OHCA_QPT_UD || !can_receive(qp, p->port))
			continue;
		if (p->loop && qp->flags & OHCA_QP_BLOCK_LOOPBACK && qp->wire_qpn == sqpn)
			continue;
		/* a member whose key does not match is skipped, which is no violation */
		if (!ohca_pkey_accepts(port, qp->pkey_index, p->i.pkey) || qkey != qp->qkey)
			continue;
		ohca_work(e, OHCA_WORK_WQE);
		deliver(e, qp, p, p->payload, 0);
	}
}

/* A datagram to QP0 or QP1: first for the port's agents, then for software. */
static void rx_mad(ohca_engine *e, const struct ohca_rxpkt *p, uint32_t qkey)
{
	struct ohca_qp *qp;
	uint8_t mad[IB_MAD_LEN];
	int index = 0;

	if (p->i.payload_len != IB_MAD_LEN) {
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_PKT);
		return;
	}
	if (p->i.dqpn == IB_QP1) {
		index = match_pkey(&e->port[p->port], p->i.pkey);
		if (index < 0) {
			ohca_rx_bad_pkey(e, p);
			return;
		}
		if (qkey != IB_QKEY_GSI) {
			ohca_rx_bad_qkey(e, p, qkey);
			return;
		}
	}
	memcpy(mad, p->payload, sizeof(mad));
	if (ohca_mad_rx(e, p->port, &p->i, p->hdr, mad))
		return;
	qp = ohca_qp_of_software(e, p->port, p->i.dqpn);
	if (!qp || !can_receive(qp, p->port)) {
		if (p->i.dqpn == IB_QP0)
			e->port[p->port].cnt.vl15_dropped++;
		else
			e->port[p->port].cnt.qp1_dropped++;
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QP);
		return;
	}
	ohca_count_rx(e, qp, 1, p->i.len);
	deliver(e, qp, p, mad, index);
}

/* A datagram with FECN or BECN for a QP. */
static void ud_congested(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_hw_av av = { .dlid = ohca_to_le16(p->i.slid), .sl = p->i.sl };
	const uint32_t sqpn = ib_deth_sqpn(ib_pkt_deth(p->hdr, &p->i));
	const uint16_t pkey = e->port[p->port].pkey[qp->pkey_index];
	struct ohca_path path;

	if (p->i.becn)
		ohca_congestion_becn(e, qp, p->port, p->i.sl, p->i.sl);
	/* packets that QP1 sends are never delayed, so a CNP to it is useless */
	if (!p->i.fecn || sqpn <= IB_QP1)
		return;
	if (!ohca_path_resolve(e, p->port, &av, pkey, false, &path))
		ohca_congestion_fecn(e, &path, sqpn, p->i.sl);
}

void ohca_ud_rx(ohca_engine *e, const struct ohca_rxpkt *p)
{
	const struct ohca_port *port = &e->port[p->port];
	uint32_t qkey = ib_be32(ib_pkt_deth(p->hdr, &p->i)->qkey);
	struct ohca_qp *qp;

	if (ib_lid_is_mcast(p->i.dlid)) {
		rx_mcast(e, p, qkey);
		return;
	}
	if (!ohca_rx_dgid_ok(port, p)) {
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_PKT);
		return;
	}
	if (p->i.dqpn <= IB_QP1) {
		rx_mad(e, p, qkey);
		return;
	}
	qp = ohca_qp_by_wire(e, p->port, p->i.dqpn);
	if (!qp || qp->type != OHCA_QPT_UD || !can_receive(qp, p->port)) {
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QP);
		return;
	}
	if (!ohca_pkey_accepts(port, qp->pkey_index, p->i.pkey)) {
		ohca_rx_bad_pkey(e, p);
		return;
	}
	if (qkey != qp->qkey) {
		ohca_rx_bad_qkey(e, p, qkey);
		return;
	}
	ohca_count_rx(e, qp, 1, p->i.len);
	if (p->i.fecn || p->i.becn)
		ud_congested(e, qp, p);
	deliver(e, qp, p, p->payload, 0);
}
