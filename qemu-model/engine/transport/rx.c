/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reception: the checks of IBTA vol 1, 9.6.1, in that order, then dispatch.
 *
 * The headers are copied once, before any check, because the peer may change the frame at any time.
 * The payload is copied once, to its destination.
 */
#include <string.h>

#include "engine/base/guestmem.h"
#include "engine/base/le.h"
#include "engine/base/port.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/apm.h"
#include "engine/object/counters.h"
#include "engine/object/eq.h"
#include "engine/object/qp.h"
#include "engine/transport/completer.h"
#include "engine/transport/congestion.h"
#include "engine/transport/responder.h"
#include "engine/transport/rx.h"
#include "engine/transport/sched.h"
#include "engine/transport/to_agents.h"
#include "engine/transport/tx.h"
#include "engine/transport/ud.h"
#include "ib/crc.h"
#include "ib/packet.h"
#include "ib/pma.h"
#include "ib/smp.h"
#include "ohca_hw.h"

#define PORT_ARMED	3u

/* Whether a path leads back to its own port, by the same rule as in path.c. */
static bool leads_back(const struct ohca_port *port, const struct ohca_hw_av *av)
{
	return (port->lid && ohca_le16(av->dlid) >> port->lmc == port->lid >> port->lmc) ||
	       (av->flags & OHCA_AV_GRH && ohca_gid_find(port, av->dgid) >= 0);
}

/* Whether the packet comes from the peer of a path of port @port_idx. */
static inline bool from_peer(ohca_engine *e, const struct ohca_rxpkt *p, unsigned int port_idx,
			     const struct ohca_hw_av *av)
{
	const struct ohca_port *port = &e->port[port_idx];
	const struct ib_grh *grh;

	if (port_idx != p->port)
		return false;
	/* QPs of this port sent a looped packet, so the path must lead back to the port */
	if (p->loop)
		return leads_back(port, av);
	if (p->i.slid != ohca_le16(av->dlid))
		return false;
	if (p->i.dlid != ohca_port_slid(port, av->src_path_bits))
		return false;
	if (!p->i.has_grh)
		return true;
	/* the DGID of a GRH must be a GID of the port */
	grh = ib_pkt_grh(p->hdr, &p->i);
	if (av->flags & OHCA_AV_GRH)
		return port->gid_valid[av->sgid_index] &&
		       ib_gid_is(grh->dgid, port->gid[av->sgid_index]) &&
		       memcmp(grh->sgid, av->dgid, 16) == 0;
	return ohca_rx_dgid_ok(port, p);
}

/*
 * RC, UC and XRC: whether the packet comes from the peer, on the right path: on the alternate path
 * if the QP is ARMED and the packet has MigReq set. Handles path migration.
 */
static inline bool on_path(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	const struct ohca_port *port = &e->port[p->port];
	bool alt = p->i.migreq && qp->mig_state == OHCA_MIG_ARMED;
	uint16_t pkey_index = alt ? qp->alt->pkey_index : qp->pkey_index;

	if (!ohca_pkey_accepts(port, pkey_index, p->i.pkey)) {
		ohca_rx_bad_pkey(e, p);
	} else if (!from_peer(e, p, alt ? qp->alt->port : qp->port,
			      alt ? &qp->alt->av : &qp->av)) {
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QP);
	} else {
		if (alt)
			ohca_mig_go(e, qp);
		else if (qp->mig_state == OHCA_MIG_REARM && !p->i.migreq &&
			 p->i.opcode != IB_OP_CNP)
			qp->mig_state = OHCA_MIG_ARMED;	/* CNPs never have MigReq */
		return true;
	}
	if (p->i.migreq)
		ohca_mig_refuse(e, qp);
	return false;
}

/* Type of the QP that must receive a packet of a connected service. */
static uint8_t qp_type(const struct ib_pkt_info *i)
{
	switch (i->opcode & IB_TRANS_MASK) {
	case IB_TRANS_RC:
	case IB_TRANS_VENDOR:
		return OHCA_QPT_RC;
	case IB_TRANS_UC:
		return OHCA_QPT_UC;
	default:
		return i->op->flags & IB_OPF_RESPONSE ? OHCA_QPT_XRC_INI : OHCA_QPT_XRC_TGT;
	}
}

/* Whether the receiver of @p reads its payload, so that it cannot be a view. */
static bool looks_inside(const struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	if (p->i.op->flags & IB_OPF_SEND)
		return qp->xp->rndv;
	return !(p->i.op->flags & (IB_OPF_WRITE | IB_OPF_READ));
}

/* Replace the view by a copy of the payload. */
static void make_flat(ohca_engine *e, struct ohca_rxpkt *p)
{
	/* the discard buffer is free: nothing is sent while a packet is received */
	ib_view_copy(e->sched->discard, p->view);
	p->payload = e->sched->discard;
	p->view = NULL;
}

/* A packet with FECN or BECN for a connected QP. */
static void rx_congested(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	if (p->i.fecn)
		ohca_congestion_fecn(e, ohca_qp_path(e, qp), qp->dest_qpn, p->i.sl);
	if (p->i.becn)
		ohca_congestion_becn(e, qp, p->port, p->i.sl, qp->av.sl);
}

/* Receive a congestion notification packet. */
static void rx_cnp(ohca_engine *e, const struct ohca_rxpkt *p)
{
	const struct ohca_port *port = &e->port[p->port];
	struct ohca_qp *qp = ohca_qp_by_wire(e, p->port, p->i.dqpn);
	uint8_t sl;

	if (!qp || qp->state < OHCA_QPS_RTR || qp->state == OHCA_QPS_ERR || qp->going ||
	    !p->i.becn) {
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QP);
		return;
	}
	sl = qp->av.sl;
	if (qp->type == OHCA_QPT_UD) {
		sl = p->i.sl;
		if (qp->port != p->port) {
			ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QP);
			return;
		}
		if (!ohca_pkey_accepts(port, qp->pkey_index, p->i.pkey)) {
			ohca_rx_bad_pkey(e, p);
			return;
		}
	} else if (!on_path(e, qp, p)) {
		return;
	}
	ohca_congestion_becn(e, qp, p->port, p->i.sl, sl);
}

static void rx_connected(ohca_engine *e, struct ohca_rxpkt *p)
{
	struct ohca_qp *qp = ohca_qp_by_wire(e, p->port, p->i.dqpn);

	if (!qp || qp->type != qp_type(&p->i) || qp->state < OHCA_QPS_RTR ||
	    qp->state == OHCA_QPS_ERR || qp->going) {
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QP);
		return;
	}
	if (!on_path(e, qp, p))
		return;
	if (p->i.fecn || p->i.becn)
		rx_congested(e, qp, p);
	if (p->view && looks_inside(qp, p))
		make_flat(e, p);
	ohca_count_rx(e, qp, 1, p->i.len);
	ohca_trace(e, OHCA_TR_PKT, qp->handle, p->i.opcode, p->i.psn,
		   p->i.op->flags & IB_OPF_RESPONSE ? qp->xp->req.una : qp->xp->resp.epsn);
	if (p->i.op->flags & IB_OPF_RESPONSE) {
		if (qp->state == OHCA_QPS_RTR)
			ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QP);
		else
			ohca_comp_rx(e, qp, p);
		return;
	}
	if (qp->state == OHCA_QPS_RTR && !qp->xp->resp.comm_est) {
		qp->xp->resp.comm_est = true;
		ohca_async_event(e, OHCA_EVENT_COMM_EST, &qp->async);
	}
	if (ohca_qp_reliable(qp))
		ohca_resp_rx(e, qp, p);
	else
		ohca_uc_rx(e, qp, p);
}

/* Whether the packet is addressed to this port. */
static bool addressed(const struct ohca_port *port, const struct ib_pkt_info *i)
{
	if (ib_lid_is_mcast(i->dlid))
		return true;		/* the MGID is checked later */
	if (i->dlid == IB_LID_PERMISSIVE)
		return i->vl == IB_VL_MANAGEMENT;
	return port->lid && !((i->dlid ^ port->lid) >> port->lmc);
}

/* The link layer refuses a packet: count PortRcvErrors and @detail, a part of these. */
static void rcv_error(ohca_engine *e, const struct ohca_rxpkt *p, uint64_t *detail)
{
	e->port[p->port].cnt.rcv_errors++;
	++*detail;
	ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_PKT);
}

/*
 * A packet that cannot be decoded. PortRcvErrors counts those with a bad LVer, length, VL or LID
 * (7.3). The transport drops packets with errors after the LRH (9.6.1), and raw packets, which have
 * no receiver.
 */
static void malformed(ohca_engine *e, const struct ohca_rxpkt *p, int rc)
{
	switch (rc) {
	case IB_PKT_ERR_RAW:
	case IB_PKT_ERR_GRH:
	case IB_PKT_ERR_TVER:
	case IB_PKT_ERR_OPCODE:
	case IB_PKT_ERR_PAYLOAD:
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_PKT);
		break;
	default:
		rcv_error(e, p, &e->port[p->port].cnt.rcv_malformed);
		break;
	}
}

/*
 * Copy the headers of a frame to @hdr, which has room for IB_MAX_HDR_LEN. Return: bytes copied.
 * Copies of constant sizes, of which two may overlap, are much faster than one of a variable size.
 */
static uint32_t copy_headers(uint8_t *hdr, const uint8_t *frame, uint32_t len)
{
	if (len >= IB_MAX_HDR_LEN) {
		memcpy(hdr, frame, IB_MAX_HDR_LEN);
		return IB_MAX_HDR_LEN;
	}
	if (len < 16) {
		memcpy(hdr, frame, len);
		return len;
	}
	for (uint32_t i = 0; i + 16 <= len; i += 16)
		memcpy(hdr + i, frame + i, 16);
	memcpy(hdr + len - 16, frame + len - 16, 16);
	return len;
}

/* Whether a view has the lengths that the headers require. */
static bool view_fits(const struct ib_view *v, const struct ib_pkt_info *i)
{
	return v->hdr_len == i->hdr_len && v->len == i->payload_len;
}

/* Whether the series arrived on the path of the QP, and its reception has no other effect. */
static bool takes_series(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	const struct ohca_port *port = &e->port[p->port];

	return qp && qp->type == qp_type(&p->i) && qp->state >= OHCA_QPS_RTR &&
	       qp->state != OHCA_QPS_ERR && !qp->going &&
	       (qp->state != OHCA_QPS_RTR || qp->xp->resp.comm_est) &&
	       qp->mig_state != OHCA_MIG_ARMED && qp->mig_state != OHCA_MIG_REARM &&
	       ohca_pkey_accepts(port, qp->pkey_index, p->i.pkey) &&
	       from_peer(e, p, qp->port, &qp->av);
}

/*
 * Receive packets of a series at once, as many as need no special handling. Return: how many; the
 * others must be received one by one.
 */
static uint32_t rx_at_once(ohca_engine *e, struct ohca_rxpkt *p, uint32_t n,
			   const struct ohca_frame *f)
{
	const struct ohca_port *port = &e->port[p->port];
	uint32_t packets = f->view->packets;
	struct ohca_qp *qp;

	if (ib_hdr_parse(p->hdr, n, f->len, 0, &p->i) || f->view->hdr_len != p->i.hdr_len ||
	    f->view->len != packets * p->i.payload_len || port->state <= PORT_ARMED ||
	    p->i.payload_len > 128u << port->mtu || ib_lid_is_mcast(p->i.dlid) ||
	    p->i.fecn || p->i.becn ||
	    !addressed(port, &p->i) || e->trace >> OHCA_TR_PKT & 1 ||
	    !(f->view->ext_len ? p->i.opcode == IB_OP_RC_WRITE_ONLY && !p->i.pad :
				 p->i.op->flags & IB_OPF_MIDDLE))
		return 0;
	qp = ohca_qp_by_wire(e, p->port, p->i.dqpn);
	if (!takes_series(e, qp, p))
		return 0;
	if (f->view->ext_len)
		packets = ohca_resp_burst(e, qp, p);
	else if (!(p->i.op->flags & IB_OPF_RESPONSE ? ohca_comp_series(e, qp, p) :
						      ohca_resp_series(e, qp, p)))
		return 0;
	ohca_count_add(&e->port_cnt[OHCA_CNT_RX_PKTS][p->port], packets);
	ohca_count_add(&e->port_cnt[OHCA_CNT_RX_BYTES][p->port], (uint64_t)packets * f->len);
	ohca_count_rx(e, qp, packets, f->len);
	ohca_work(e, (uint64_t)packets * OHCA_WORK_WQE);
	return packets;
}

/*
 * Receive a packet. @p: all members but @i and @payload are set; @n: bytes of its headers; @len:
 * bytes of @frame, LRH to ICRC field; @icrc: @frame has an ICRC, which is checked
 */
static void rx_packet(ohca_engine *e, struct ohca_rxpkt *p, uint32_t n, const uint8_t *frame,
		      uint32_t len, bool icrc)
{
	struct ohca_port *port = &e->port[p->port];
	int rc = ib_hdr_parse(p->hdr, n, len, 0, &p->i);

	p->payload = frame + p->i.hdr_len;
	if (!p->from) {
		ohca_count_port(e, p->port, OHCA_CNT_RX_PKTS);
		ohca_count_add(&e->port_cnt[OHCA_CNT_RX_BYTES][p->port], len);
	}
	ohca_work(e, OHCA_WORK_WQE);
	/* an unassigned opcode of RC is refused by the QP (9.7.4.1.4) */
	if (rc == IB_PKT_ERR_OPCODE && (p->i.opcode & IB_TRANS_MASK) == IB_TRANS_RC &&
	    p->i.vl != IB_VL_MANAGEMENT)
		rc = 0;
	if (rc || p->i.payload_len > IB_MAX_PAYLOAD) {
		malformed(e, p, rc);
		return;
	}
	if (p->view && !view_fits(p->view, &p->i)) {
		malformed(e, p, IB_PKT_ERR_PAYLOAD);
		return;
	}
	if (icrc && !ib_icrc_ok(frame, len)) {
		rcv_error(e, p, &port->cnt.rcv_local_phys_errors);
		return;
	}
	if (p->i.vl != IB_VL_MANAGEMENT && !p->loop) {
		if (port->state < PORT_ARMED) {
			ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_PKT);
			return;
		}
		if (port->state == PORT_ARMED)
			ohca_mad_rx_data(e, p->port);
		if (p->i.payload_len > 128u << port->mtu) {
			rcv_error(e, p, &port->cnt.rcv_malformed);
			return;
		}
	}
	if (!p->loop && !addressed(port, &p->i)) {
		port->cnt.rcv_errors++;
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_PKT);
		return;
	}
	switch (p->i.opcode & IB_TRANS_MASK) {
	case IB_TRANS_RC:
	case IB_TRANS_UC:
	case IB_TRANS_XRC:
	case IB_TRANS_VENDOR:
		rx_connected(e, p);
		break;
	case IB_TRANS_UD:
		ohca_ud_rx(e, p);
		break;
	case IB_TRANS_CNP:
		rx_cnp(e, p);
		break;
	default:
		ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QP);
		break;
	}
}

void ohca_rx_loop(ohca_engine *e, unsigned int port, const uint8_t *frame, uint32_t len, bool loop,
		  uint16_t from)
{
	uint8_t hdr[IB_MAX_HDR_LEN];
	struct ohca_rxpkt p = { .hdr = hdr, .port = (uint8_t)port, .loop = loop, .from = from };
	uint32_t n = copy_headers(hdr, frame, len);

	rx_packet(e, &p, n, frame, len, false);
}

/*
 * Whether a frame is damaged (7.3): an earlier port has marked it, or its VCRC is wrong. Counts it
 * if it is.
 */
static bool damaged(ohca_engine *e, unsigned int port, const struct ohca_frame *f)
{
	struct ohca_port_counters *c = &e->port[port].cnt;

	if (f->flags & OHCA_RX_EBP) {
		c->rcv_remote_phys_errors++;
	} else if (f->flags & OHCA_RX_VCRC && ib_vcrc(f->data, f->len) != f->vcrc) {
		c->rcv_errors++;
		c->rcv_local_phys_errors++;
	} else {
		return false;
	}
	ohca_count_port(e, port, OHCA_CNT_RX_BAD_PKT);
	return true;
}

/* @hdr: as in @p */
static void rx_series(ohca_engine *e, struct ohca_rxpkt *p, uint8_t *hdr, uint32_t n,
		      const struct ohca_frame *f)
{
	uint8_t *bth = hdr + IB_LRH_LEN + ((hdr[1] & 3) == IB_LNH_IBA_GLOBAL ? IB_GRH_LEN : 0);
	const uint32_t word = ib_get_be32(bth + 8), last = f->view->packets - 1;
	const uint32_t ext_len = f->view->ext_len, done = rx_at_once(e, p, n, f);
	struct ohca_port_counters *c = &e->port[p->port].cnt;
	struct ib_view part;

	if (done)
		ib_pma_count_rcvs(c, done, f->len, hdr[1] >> 4);
	/* a packet may move the device to the fatal state */
	for (uint32_t i = done; i <= last && ohca_running(e); i++) {
		ib_pma_count_rcv(c, f->len, hdr[1] >> 4, false);
		ib_view_part(f->view, i, &part);
		if (ext_len)
			memcpy(hdr + n - ext_len, f->view->ext + (size_t)i * ext_len, ext_len);
		ib_set_psn(bth, (ext_len || i == last) && word >> 31, word + i);
		p->view = &part;
		rx_packet(e, p, n, f->data, f->len, false);
	}
}

/* Store a multicast packet in the loop, for the members that this step has not served. */
static void rx_rest(ohca_engine *e, struct ohca_rxpkt *p, uint32_t n, const struct ohca_frame *f)
{
	struct ohca_sched *s = e->sched;

	while (s->mcast_left) {
		p->from = s->mcast_left;
		p->view = NULL;
		s->mcast_left = 0;
		if (ohca_loop_keep(e, p->port, p->hdr, n, f, p->from))
			return;
		/* the loop is full only if the host does not use ohca_rx_room() */
		rx_packet(e, p, n, f->data, f->len, false);
	}
}

void ohca_rx_soon(const ohca_engine *e, unsigned int port, uint32_t qpn)
{
	const struct ohca_xport *xp;
	const struct ohca_qp *qp;

	if (port >= e->cfg.num_ports || qpn < OHCA_FIRST_QP || qpn >= e->max_qp ||
	    !ohca_running(e))
		return;
	qp = e->qp[qpn];
	if (!qp)
		return;
	xp = ohca_xp_of(qp);
	__builtin_prefetch(qp);
	__builtin_prefetch(&qp->buf);
	__builtin_prefetch(&qp->rcq);
	__builtin_prefetch(&xp->qp, 1);
	__builtin_prefetch(&xp->sched.timer, 1);
	__builtin_prefetch(&xp->resp, 1);
}

bool ohca_rx_room(const ohca_engine *e, unsigned int n, uint32_t len)
{
	/* true if there would be room for the last packet after the others */
	const uint64_t work = e->work + (uint64_t)(n - 1) * (len + OHCA_WORK_WQE);

	return !ohca_running(e) || (!e->sched->loop_kept && work < e->rx_end);
}

void ohca_rx(ohca_engine *e, unsigned int port, const struct ohca_frame *f)
{
	struct ohca_port_counters *c;
	uint8_t hdr[IB_MAX_HDR_LEN];
	struct ohca_rxpkt p;
	uint32_t n;

	if (port >= e->cfg.num_ports || !ohca_running(e))
		return;
	/* no valid frame is so short */
	if (f->len < IB_LRH_LEN) {
		ohca_count_port(e, port, OHCA_CNT_RX_BAD_PKT);
		return;
	}
	c = &e->port[port].cnt;
	n = copy_headers(hdr, f->data, f->view ? f->view->hdr_len : f->len);
	if (!f->view || f->view->packets == 1)
		ib_pma_count_rcv(c, f->len, hdr[1] >> 4, ib_lid_is_mcast(ib_get_be16(hdr + 2)));
	if (f->flags & (OHCA_RX_EBP | OHCA_RX_VCRC) && damaged(e, port, f))
		return;
	/* the frame's lane is not the VL of the LRH: an error of the peer */
	if (hdr[0] >> 4 != f->vl) {
		c->rcv_errors++;
		c->rcv_malformed++;
		ohca_count_port(e, port, OHCA_CNT_RX_BAD_PKT);
		return;
	}
	p.hdr = hdr;
	p.view = f->view;
	p.port = (uint8_t)port;
	p.loop = false;
	p.from = 0;
	ohca_dma_enter(e);
	if (f->view && f->view->packets > 1)
		rx_series(e, &p, hdr, n, f);
	else
		rx_packet(e, &p, n, f->data, f->len, f->flags & OHCA_RX_ICRC);
	if (e->sched->mcast_left)
		rx_rest(e, &p, n, f);
	ohca_dma_exit(e);
}
