/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Paths: an address vector, resolved with the tables of a port. */
#include <string.h>

#include "engine/base/le.h"
#include "engine/base/port.h"
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/path.h"
#include "engine/transport/sched.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ib/rate.h"
#include "ib/smp.h"
#include "ohca_hw.h"

static uint8_t path_kind(const struct ohca_port *port, const struct ohca_path *p, uint16_t dlid,
			 const struct ohca_hw_av *av, bool vl15)
{
	if (ib_lid_is_ucast(dlid) && port->lid && dlid >> port->lmc == port->lid >> port->lmc &&
	    (vl15 || port->state == IB_PS_ACTIVE))
		return OHCA_TX_LOOP;
	if (vl15)
		return port->state >= IB_PS_INIT ? OHCA_TX_WIRE : OHCA_TX_DISCARD;
	if (port->state != IB_PS_ACTIVE || p->vl >= port->op_vls ||
	    !(p->pkey & IB_PKEY_BASE_MASK))
		return OHCA_TX_DISCARD;
	if (av->flags & OHCA_AV_GRH && !ib_gid_is_mcast(av->dgid) &&
	    ohca_gid_find(port, av->dgid) >= 0)
		return OHCA_TX_LOOP;
	return OHCA_TX_WIRE;
}

/* Time of a byte at a static rate, ps; 0 if the port is not faster (9.11). */
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

	/* a packet with DLID 0 is sent like any other, and the first switch drops it (7.12.2) */
	if ((dlid == IB_LID_PERMISSIVE && !vl15) || av->sl > 15 ||
	    (vl15 && grh))
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
	slid = port->lid ? ohca_port_slid(port, av->src_path_bits) : IB_LID_PERMISSIVE;
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

const struct ohca_path *ohca_qp_path_again(ohca_engine *e, struct ohca_qp *qp)
{
	const struct ohca_port *port = &e->port[qp->port];
	struct ohca_xport *xp = qp->xp;

	if (qp->pkey_index >= port->num_pkeys ||
	    ohca_path_resolve(e, qp->port, &qp->av, port->pkey[qp->pkey_index], false,
			      &xp->sched.path)) {
		/*
		 * the path was valid at MODIFY_QP, so only discard packets until it is valid again
		 */
		memset(&xp->sched.path, 0, sizeof(xp->sched.path));
		xp->sched.path.kind = OHCA_TX_DISCARD;
		xp->sched.path.port = qp->port;
		xp->sched.path.hdr_len = IB_LRH_LEN;
	}
	xp->sched.path_gen = e->sched->gen[qp->port];
	xp->sched.path_ok = true;
	return &xp->sched.path;
}
