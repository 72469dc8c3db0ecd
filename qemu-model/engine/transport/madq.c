/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Management datagrams of the ports' own agents. */
#include <string.h>

#include "engine/base/le.h"
#include "engine/base/work.h"
#include "engine/transport/ack.h"
#include "engine/transport/madq.h"
#include "engine/transport/path.h"
#include "engine/transport/sched.h"
#include "engine/transport/turn.h"
#include "engine/transport/tx.h"
#include "ib/mad.h"
#include "ib/packet.h"

void ohca_mad_send(ohca_engine *e, unsigned int port, unsigned int src_qp,
		   const struct ohca_hw_av *av, uint16_t pkey, uint16_t slid, const uint8_t *mad)
{
	struct ohca_madq *q;
	struct ohca_madq_slot *m;

	if (port >= e->cfg.num_ports || src_qp > 1)
		return;
	q = &e->sched->madq[port][src_qp];
	if (q->head - q->tail >= OHCA_MADQ_SLOTS) {
		/* VL15Dropped and QP1Dropped count received packets only */
		q->tail++;
		e->port[port].cnt.xmit_discards++;
	}
	m = &q->slot[q->head++ & (OHCA_MADQ_SLOTS - 1)];
	m->av = *av;
	m->pkey = pkey;
	m->slid = slid;
	memcpy(m->mad, mad, IB_MAD_LEN);
	e->sched->mads_due = true;
}

/* Build and send one MAD. False: no room; @t->wait is the reason. */
static bool mad_out(ohca_engine *e, struct ohca_turn *t, unsigned int port, unsigned int qpn,
		    const struct ohca_madq_slot *m)
{
	struct ohca_path p;
	struct ohca_tx tx;
	uint32_t len;
	uint8_t *h;

	/* a reply without a usable path is dropped */
	if (ohca_path_resolve(e, port, &m->av, m->pkey, qpn == 0, &p))
		return true;
	if (m->slid)
		ib_put_be16(p.hdr + 6, m->slid);
	len = p.hdr_len + IB_BTH_LEN + IB_DETH_LEN + IB_MAD_LEN + IB_ICRC_LEN;
	if (!ohca_tx_open(e, t, &p, len, &tx))
		return false;
	h = ib_build_bth(tx.buf + p.hdr_len, IB_OP_UD_SEND_ONLY, 0, 0, p.pkey,
			 ohca_le32(m->av.dqpn), false, 0);
	h = ib_build_deth(h, ohca_le32(m->av.qkey), qpn);
	memcpy(h, m->mad, IB_MAD_LEN);
	ohca_tx_close(e, &tx);
	return true;
}

void ohca_madq_run(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;
	struct ohca_turn t = ohca_turn_of(NULL);

	for (unsigned int port = 0; port < e->cfg.num_ports; port++)
		if (!ohca_acks_run(e, port))
			return;		/* a later call continues */
	for (unsigned int port = 0; port < e->cfg.num_ports; port++)
		for (unsigned int qpn = 0; qpn < 2; qpn++) {
			struct ohca_madq *q = &s->madq[port][qpn];

			while (q->head != q->tail && !q->blocked) {
				if (!ohca_work_left(e))
					return;
				ohca_work(e, OHCA_WORK_WQE);
				if (mad_out(e, &t, port, qpn,
					    &q->slot[q->tail & (OHCA_MADQ_SLOTS - 1)]))
					q->tail++;
				else if (t.wait == OHCA_WAIT_LOOP)
					return;
				else
					q->blocked = true;
			}
		}
	s->mads_due = false;
}
