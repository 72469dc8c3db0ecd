/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Congestion control of a port (annex A10). The receiver of a packet with FECN, which a switch has
 * set, sends a congestion notification packet (CNP). A BECN, in a CNP or any other packet, delays
 * the packets of the QP that receives it, or of all QPs of the service level.
 *
 * QPs of a service level share its rate without a list of these QPs: each packet advances the time
 * when the service level may send again, and its QP waits until this time. So each of n QPs sends
 * one of n packets. An idle QP sends its first packet at once.
 */
#include "engine/transport/congestion.h"

#include "engine/base/port.h"
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/ack.h"
#include "engine/transport/sched.h"
#include "engine/transport/to_agents.h"
#include "engine/transport/tx.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"

#define PORT_CONTROL_SL	1u	/* each service level has a CCTI, else each QP */

void ohca_congestion_set(ohca_engine *e, unsigned int port, const struct ib_cc_ca *ca)
{
	struct ohca_congestion *c = &e->sched->congestion[port];
	const bool was = c->on;

	c->on = ca->ccti_limit || IB_CCT_MULTIPLIER(ca->cct[0]);
	if (!was && !c->on)
		return;
	c->gen++;
	e->sched->release = e->sched->paced.num;
	for (unsigned int i = 0; i < IB_CC_SLS; i++) {
		if (!c->on)
			c->flow[i] = (struct ib_cc_flow){ 0 };
		c->paced[i] = 0;
	}
}

void ohca_congestion_fecn(ohca_engine *e, const struct ohca_path *path, uint32_t dqpn, uint8_t sl)
{
	const struct ohca_lateq *q = &e->sched->late[path->port];

	e->port[path->port].cnt.rcv_fecn++;
	e->port[path->port].cnt.rcv_fecn_sl[sl & 15]++;
	if (path->kind != OHCA_TX_WIRE)
		return;
	/* the other half is for acknowledgements */
	if (q->head - q->tail >= OHCA_LATE_ACKS / 2)
		return;
	for (uint32_t i = q->tail; i != q->head; i++) {
		const struct ohca_late *l = &q->slot[i & (OHCA_LATE_ACKS - 1)];

		if (l->ack.opcode == IB_OP_CNP && l->ack.dqpn == dqpn &&
		    ib_get_be16(l->path.hdr + 2) == ib_get_be16(path->hdr + 2))
			return;
	}
	ohca_ack_later(e, path, &(struct ohca_ack){ .dqpn = dqpn, .opcode = IB_OP_CNP });
}

/* The CCTI for packets of @xp on @sl. */
static struct ib_cc_flow *flow_of(ohca_engine *e, const struct ib_cc_ca *ca, struct ohca_xport *xp,
				  unsigned int port, uint8_t sl)
{
	return ca->port_control & PORT_CONTROL_SL ? &e->sched->congestion[port].flow[sl & 15] :
						    &xp->sched.flow;
}

void ohca_congestion_becn(ohca_engine *e, const struct ohca_qp *qp, unsigned int port, uint8_t sl,
			  uint8_t of)
{
	const struct ib_cc_ca *ca = ohca_mad_congestion(e, port);

	e->port[port].cnt.rcv_becn++;
	e->port[port].cnt.rcv_becn_sl[sl & 15]++;
	if (e->sched->congestion[port].on)
		ib_cc_becn(ca, flow_of(e, ca, qp->xp, port, of), of & 15, ohca_now(e),
			   e->cfg.rate_scale);
}

bool ohca_congestion_slow(ohca_engine *e, const struct ohca_xport *xp, unsigned int port,
			  uint8_t sl)
{
	const struct ib_cc_ca *ca = ohca_mad_congestion(e, port);
	const struct ib_cc_flow *f = ca->port_control & PORT_CONTROL_SL ?
				     &e->sched->congestion[port].flow[sl & 15] : &xp->sched.flow;

	return f->ccti || ca->sl[sl & 15].ccti_min || IB_CCT_MULTIPLIER(ca->cct[0]);
}

void ohca_congestion_sent(ohca_engine *e, struct ohca_xport *xp, const struct ohca_tx *tx,
			  uint64_t from)
{
	const struct ib_cc_ca *ca = ohca_mad_congestion(e, tx->port);
	const bool by_sl = ca->port_control & PORT_CONTROL_SL;
	uint64_t *sl_paced = &e->sched->congestion[tx->port].paced[tx->sl & 15];
	const uint64_t now = e->sched->now, len = tx->len + IB_VCRC_LEN;
	const uint64_t since = now > OHCA_PACE_NS ? now - OHCA_PACE_NS : 0;
	const uint32_t mbps = e->port[tx->port].mbps;
	uint64_t packet_ns, step, most;
	uint16_t ccti;

	if (!mbps || xp->qp->type == OHCA_QPT_SMI || xp->qp->type == OHCA_QPT_GSI)
		return;
	/* the same clock as for BECNs, which may be later than the start of this run */
	ccti = ib_cc_ccti(ca, flow_of(e, ca, xp, tx->port, tx->sl), tx->sl & 15, ohca_now(e),
			  e->cfg.rate_scale);
	packet_ns = len * 8000 * e->cfg.rate_scale / mbps;
	step = ib_cc_delay_ns(ca, ccti, packet_ns);
	if (!step)
		return;
	step += packet_ns;
	if (by_sl)
		from = *sl_paced;
	if (from < since)
		from = since;
	from += step;
	if (by_sl) {
		/* one step for each waiting QP, so a QP that is reset repeatedly adds no more */
		most = now + (e->sched->paced.num + 1) * step;
		*sl_paced = from < most ? from : most;
		from = *sl_paced;
	}
	if (xp->sched.paced < from)
		xp->sched.paced = from;
}
