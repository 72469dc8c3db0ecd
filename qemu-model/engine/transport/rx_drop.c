/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Received packets that are dropped: counters, trace, and traps of key violations. */
#include <string.h>

#include "engine/base/port.h"
#include "engine/base/state.h"
#include "engine/transport/rx.h"
#include "engine/transport/to_agents.h"
#include "ib/packet.h"
#include "ib/smp.h"
#include "ohca_hw.h"

void ohca_rx_drop(ohca_engine *e, const struct ohca_rxpkt *p, enum ohca_counter why)
{
	ohca_count_port(e, p->port, why);
	ohca_trace(e, OHCA_TR_RX_DROP, why, p->port, p->i.opcode, p->i.dqpn);
}

static void violation(const struct ohca_rxpkt *p, uint32_t key, struct ib_key_violation *v)
{
	const struct ib_grh *grh = ib_pkt_grh(p->hdr, &p->i);
	const struct ib_deth *deth = ib_pkt_deth(p->hdr, &p->i);

	memset(v, 0, sizeof(*v));
	v->lid1 = p->i.slid;
	v->lid2 = p->i.dlid;
	v->key = key;
	v->sl = p->i.sl;
	v->qp1 = deth ? ib_deth_sqpn(deth) : 0;
	v->qp2 = p->i.dqpn;
	if (grh) {
		memcpy(v->gid1, grh->sgid, 16);
		memcpy(v->gid2, grh->dgid, 16);
	}
}

void ohca_rx_bad_pkey(ohca_engine *e, const struct ohca_rxpkt *p)
{
	struct ib_key_violation v;

	ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_PKEY);
	violation(p, p->i.pkey, &v);
	ohca_mad_bad_pkey(e, p->port, &v);
}

void ohca_rx_bad_qkey(ohca_engine *e, const struct ohca_rxpkt *p, uint32_t qkey)
{
	struct ib_key_violation v;

	ohca_rx_drop(e, p, OHCA_CNT_RX_BAD_QKEY);
	violation(p, qkey, &v);
	ohca_mad_bad_qkey(e, p->port, &v);
}

bool ohca_rx_dgid_ok(const struct ohca_port *port, const struct ohca_rxpkt *p)
{
	const struct ib_grh *grh = ib_pkt_grh(p->hdr, &p->i);

	return !grh || ohca_gid_accepts(port, grh->dgid) >= 0;
}
