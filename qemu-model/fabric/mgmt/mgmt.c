// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The path of a MAD from port to port (IBTA volume 1, 14.2.2), and how the node of the port where
 * it arrives processes it.
 */
#include "mgmt.h"
#include "router.h"

#include <string.h>

#include "ib/mad_packet.h"

/* Forwarding tables may form a loop. A real packet stays in it for ever. */
#define MAX_HOPS	255u

void fab_mgmt_init(struct fab_mgmt *m, struct fab *f,
		   bool (*deliver)(void *ctx, uint32_t port, const struct fab_mad *mad), void *ctx)
{
	memset(m, 0, sizeof(*m));
	m->f = f;
	m->deliver = deliver;
	m->ctx = ctx;
	m->deadline_ns = UINT64_MAX;
	fab_mgmt_seed(m, 0);
}

void fab_mgmt_seed(struct fab_mgmt *m, uint64_t seed)
{
	m->seed = seed;
	m->rng = fab_random_state(seed);
}

bool fab_own_lid(const struct fab_port *p, uint16_t lid)
{
	return p->pi.lid && lid >= p->pi.lid && lid < p->pi.lid + (1u << p->pi.lmc);
}

uint32_t fab_end_port(const struct fab *f, uint32_t p)
{
	const struct fab_node *n = &f->node[f->port[p].node];

	return n->type == IB_NODE_SWITCH_DEVICE ? fab_port_of(n, 0) : p;
}

unsigned int fab_route(const struct fab *f, const struct fab_node *n, uint16_t lid)
{
	const struct fab_switch *sw = &f->sw[n->sw];

	if (fab_own_lid(&f->port[fab_port_of(n, 0)], lid))
		return 0;
	if (!ib_lid_is_ucast(lid) || lid > sw->si.linear_top ||
	    lid / IB_LFT_PER_BLOCK >= sw->lft_blocks)
		return IB_LFT_NO_PORT;
	return sw->lft[lid];
}

static enum fab_fate mad_lose(struct fab_mgmt *m)
{
	m->stats.lost++;
	return FAB_LOST;
}

static void mad_discard(struct fab_mgmt *m, uint32_t p)
{
	struct fab_extra *x = fab_extra(m->f, p);

	if (!x)
		return;
	x->ctr.xmit_discards++;
	x->ctr.xmit_inactive_discards++;
}

/* Count a LID without a route, or one whose route leads back. @num: port in the table */
static void mad_relay_error(struct fab_mgmt *m, uint32_t at, unsigned int num)
{
	struct fab_extra *x = fab_extra(m->f, at);

	if (!x)
		return;
	x->ctr.rcv_switch_relay_errors++;
	if (num == fab_port_num(m->f, at))
		x->ctr.rcv_looping++;
	else
		x->ctr.rcv_dlid_mapping++;
}

/*
 * Let @mad leave by port @p, over a wire of the graph. *@fault: of that wire, or NULL
 *
 * Return: whether it is on its way.
 */
static bool mad_depart(struct fab_mgmt *m, uint32_t p, const struct fab_mad *mad,
		       struct fab_fault **fault)
{
	struct fab_port *a = &m->f->port[p];
	const bool is_smp = ib_mad_is_smp(&mad->mad.hdr);
	struct fab_extra *x;
	bool lost;

	/* SMPs pass as soon as the link is trained, other MADs when it is Active (7.2.7) */
	if (a->peer == FAB_NO_PORT || a->pi.state < (is_smp ? IB_PS_INIT : IB_PS_ACTIVE)) {
		mad_discard(m, p);
		return false;
	}
	a->xmit_mads++;
	x = fab_extra_of(m->f, p);
	*fault = x ? x->fault : NULL;
	lost = *fault && fab_wire_loses(m, *fault, a->peer,
					  IB_MAD_PKT_LEN + (mad->has_grh ? IB_GRH_LEN : 0));
	if (m->taps)
		m->wires->mad(m->wires_ctx, p, true, mad, lost);
	return !lost;
}

/* Let @mad, which has left by port @p, arrive. Return: the port there, or FAB_NO_PORT. */
static inline uint32_t mad_arrive(struct fab_mgmt *m, uint32_t p, const struct fab_mad *mad)
{
	struct fab_port *a = &m->f->port[p], *b = &m->f->port[a->peer];

	b->rcv_mads++;
	if (m->taps)
		m->wires->mad(m->wires_ctx, a->peer, false, mad, false);
	m->stats.hops++;
	if (!ib_mad_is_smp(&mad->mad.hdr)) {
		if (b->pi.state < IB_PS_ARMED)
			return FAB_NO_PORT;
		if (ib_port_rx_data(&b->pi))
			fab_changed(m, a->peer);
	}
	return a->peer;
}

/* ---- at a node ----------------------------------------------------------------- */

/*
 * The agents of a switch are at its port 0, which counts the MADs that they receive and send
 * (16.1.3.5).
 */
static void agent_rcv(struct fab_mgmt *m, const struct fab_node *n)
{
	if (n->sw != FAB_NONE)
		m->f->port[fab_port_of(n, 0)].rcv_mads++;
}

void fab_agent_xmit(struct fab_mgmt *m, const struct fab_node *n)
{
	if (n->sw != FAB_NONE)
		m->f->port[fab_port_of(n, 0)].xmit_mads++;
}

/* Port by which an SMP leaves @n on its directed route, or FAB_NO_PORT. */
static uint32_t dr_out(struct fab_mgmt *m, const struct fab_node *n, struct fab_mad *mad,
		       unsigned int out)
{
	mad->dlid = mad->slid = IB_LID_PERMISSIVE;
	if (out == IB_DR_PORT_BY_LID) {
		mad->dlid = ib_be16(ib_smp_returning(&mad->smp) ? mad->smp.dr_slid :
				    mad->smp.dr_dlid);
		if (n->sw == FAB_NONE)
			return FAB_NO_PORT;
		mad->slid = m->f->port[fab_port_of(n, 0)].pi.lid;
		out = fab_route(m->f, n, mad->dlid);
	}
	return out && out <= n->nports ? fab_port_of(n, out) : FAB_NO_PORT;
}

/* Swap the GIDs of @grh, of a request, for the answer (13.5.4). */
static void turn_grh(struct ib_grh *grh)
{
	uint8_t gid[sizeof(grh->sgid)];

	memcpy(gid, grh->sgid, sizeof(gid));
	memcpy(grh->sgid, grh->dgid, sizeof(gid));
	memcpy(grh->dgid, gid, sizeof(gid));
	grh->hoplimit = UINT8_MAX;
}

/* Port by which the reply to a LID routed MAD leaves. @at: port where the request arrived */
static uint32_t lid_out(struct fab_mgmt *m, const struct fab_node *n, uint32_t at,
			struct fab_mad *mad)
{
	const uint16_t lid = mad->slid;
	const uint32_t qp = mad->sqp;
	unsigned int out;

	mad->slid = mad->dlid;
	mad->dlid = lid;
	mad->sqp = mad->dqp;
	mad->dqp = qp;
	if (mad->has_grh)
		turn_grh(&mad->grh);
	if (n->sw == FAB_NONE)
		return at;
	out = fab_route(m->f, n, lid);
	/* until the tables are written a reply leaves by the port where the request arrived */
	return out && out <= n->nports ? fab_port_of(n, out) : at;
}

static enum fab_fate mad_deliver(struct fab_mgmt *m, uint32_t at, const struct fab_mad *mad)
{
	return m->deliver(m->ctx, at, mad) ? FAB_DELIVERED : mad_lose(m);
}

/* Send the reply to an SMP. @by: ib_sma_process()'s @out_port */
static enum fab_fate smp_reply(struct fab_mgmt *m, uint32_t at, bool from_wire,
			       struct fab_mad *mad, unsigned int by, uint32_t *out)
{
	const struct fab_node *n = &m->f->node[m->f->port[at].node];

	*out = ib_smp_is_dr(&mad->smp) && from_wire && !ib_smp_ends_by_lid(&mad->smp) ?
	       dr_out(m, n, mad, by) : lid_out(m, n, at, mad);
	fab_agent_xmit(m, n);
	return from_wire ? FAB_GOES_ON : mad_deliver(m, at, mad);
}

/*
 * Whether a program at @at handles @h but has no room for it now. It may answer when @h is
 * repeated, so an agent must not report that no program handles @h.
 */
static bool is_busy(const struct fab_mgmt *m, uint32_t at, const struct ib_mad_hdr *h)
{
	const enum fab_occupant who = fab_occupied(m, at);

	return ib_mad_is_smp(h) || h->mgmt_class == IB_CLASS_SUBN_ADM ? who == FAB_SUBNET_MANAGER :
									who != FAB_NOBODY;
}

/* Pass an SMP to the manager at a host, if it has one. @hops: HopPointer and HopCount received */
static enum fab_fate for_manager(struct fab_mgmt *m, uint32_t at, const struct ib_sma *s,
				 const struct ib_sma_in *in, struct fab_mad *mad, __be16 hops,
				 uint32_t *out)
{
	uint8_t by;

	/* a returning SMP is for this host only if its route ends here */
	if (ib_smp_is_dr(&mad->smp) && ib_smp_returning(&mad->smp) &&
	    ib_dr_recv(&mad->smp, s->si, (uint8_t)in->port, s->num_ports, &by) != IB_DR_LOCAL)
		return mad_lose(m);
	if (!s->si && m->deliver(m->ctx, at, mad))
		return FAB_DELIVERED;
	if (is_busy(m, at, &mad->mad.hdr))
		return mad_lose(m);
	mad->smp.hdr.class_specific = hops;
	if (ib_sma_unclaimed(s, in, &mad->smp, &by) == IB_SMA_REPLY)
		return smp_reply(m, at, in->from_wire, mad, by, out);
	return mad_lose(m);
}

static void count(struct fab_mgmt *m, const struct ib_smp *s)
{
	uint8_t attr = (uint8_t)ib_be16(s->hdr.attr_id);

	if (m->job.is_set)
		m->stats.set[attr]++;
	else
		m->stats.get[attr]++;
}

static enum fab_fate smp_at_node(struct fab_mgmt *m, uint32_t at, bool from_wire,
				 struct fab_mad *mad, uint32_t *out)
{
	const uint32_t node = m->f->port[at].node;
	const struct fab_node *n = &m->f->node[node];
	const struct ib_sma_in in = {
		.port = fab_port_num(m->f, at),
		.from_wire = from_wire,
		.slid = mad->slid,
		.now_ns = m->now_ns,
	};
	const __be16 hops = mad->smp.hdr.class_specific;
	enum ib_sma_verdict v;
	uint8_t by;

	m->job.starved = false;
	v = ib_sma_process(fab_agent_begin(m, node, mad->smp.hdr.method == IB_METHOD_SET), &in,
			   &mad->smp, &by);
	fab_agent_end(m);
	if (v != IB_SMA_FORWARD)
		agent_rcv(m, n);
	/* no answer: the manager repeats it */
	if (m->job.starved)
		return mad_lose(m);
	switch (v) {
	case IB_SMA_FORWARD:
		*out = dr_out(m, n, mad, by);
		return FAB_GOES_ON;
	case IB_SMA_REPLY:
		count(m, &mad->smp);
		return smp_reply(m, at, from_wire, mad, by, out);
	case IB_SMA_CONSUMED:
		return FAB_CONSUMED;
	case IB_SMA_UNHANDLED:
		return for_manager(m, at, &m->job.sma, &in, mad, hops, out);
	default:
		return mad_lose(m);
	}
}

static enum fab_fate gs_at_node(struct fab_mgmt *m, uint32_t at, bool from_wire,
				struct fab_mad *mad, uint32_t *out)
{
	const uint32_t node = m->f->port[at].node;
	const struct fab_node *n = &m->f->node[node];
	struct ib_mad_hdr *h = &mad->mad.hdr;

	agent_rcv(m, n);
	if ((m->mad_faults && fab_mad_refused(m, node, &mad->mad)) || fab_mlnx(m, node, &mad->mad)) {
		/* answered */
	} else if (h->mgmt_class == IB_CLASS_CC && !(h->method & IB_METHOD_RESP)) {
		if (!fab_answer_cc(m, at, &mad->mad))
			return mad_lose(m);
	} else if (h->mgmt_class != IB_CLASS_PERF || (h->method & IB_METHOD_RESP)) {
		if (n->sw == FAB_NONE && m->deliver(m->ctx, at, mad))
			return FAB_DELIVERED;
		if (is_busy(m, at, h) || !ib_mad_refuse(h))
			return mad_lose(m);
	} else if (!fab_pma(m, node, &mad->mad)) {
		return mad_lose(m);
	}
	m->stats.other++;
	*out = lid_out(m, n, at, mad);
	fab_agent_xmit(m, n);
	return from_wire ? FAB_GOES_ON : mad_deliver(m, at, mad);
}

static enum fab_fate process(struct fab_mgmt *m, uint32_t at, bool from_wire, struct fab_mad *mad,
			     uint32_t *out)
{
	return ib_mad_is_smp(&mad->mad.hdr) ? smp_at_node(m, at, from_wire, mad, out) :
					      gs_at_node(m, at, from_wire, mad, out);
}

/*
 * Apply faults of a node to @mad at @place of port @p. Return: FAB_GOES_ON: none applies, or its
 * fate.
 */
static inline enum fab_fate held(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p,
				 const struct fab_mad *mad)
{
	enum fab_fate fate;

	if (!m->mad_faults)
		return FAB_GOES_ON;
	fate = fab_mad_fault(m, place, p, mad);
	return fate == FAB_LOST ? mad_lose(m) : fate;
}

/*
 * Let the node process @mad at its port @at.
 *
 * Return: FAB_GOES_ON: it leaves by port *@out, FAB_NO_PORT: there is none.
 */
static enum fab_fate at_node(struct fab_mgmt *m, uint32_t at, bool from_wire, struct fab_mad *mad,
			     uint32_t *out)
{
	const struct fab_node *n = &m->f->node[m->f->port[at].node];
	enum fab_fate fate;
	unsigned int by;

	if (mad->dlid == IB_LID_PERMISSIVE) {
		/* the permissive LID reaches only the SMA of the next node */
		if (!ib_mad_is_smp(&mad->mad.hdr) || ib_smp_begins_by_lid(&mad->smp))
			return mad_lose(m);
	} else {
		if (n->sw == FAB_NONE) {
			if (!fab_own_lid(&m->f->port[at], mad->dlid))
				return mad_lose(m);
			if (mad->has_grh && fab_is_router(m->f, at)) {
				const enum fab_router_verdict v = fab_router_mad(m, at, mad, out);

				if (v != FAB_ROUTER_OWN)
					return v == FAB_ROUTER_ON ? FAB_GOES_ON : mad_lose(m);
			}
		} else {
			by = fab_route(m->f, n, mad->dlid);
			*out = fab_port_of(n, by);
			if (by > n->nports || (by && *out == at)) {
				mad_relay_error(m, at, by);
				return mad_lose(m);
			}
			if (by)
				return FAB_GOES_ON;
		}
	}
	fate = held(m, from_wire ? FAB_MAD_ARRIVED : FAB_MAD_AT_HOME, at, mad);
	return fate == FAB_GOES_ON ? process(m, at, from_wire, mad, out) : fate;
}

/*
 * Let @mad leave the process by port *@out. Return: FAB_GOES_ON: a fault has refused it on behalf
 * of the machine there, and the answer leaves by *@out.
 */
static enum fab_fate mad_leave(struct fab_mgmt *m, uint32_t *out, struct fab_mad *mad)
{
	const struct fab_port *a = &m->f->port[*out];
	const bool is_smp = ib_mad_is_smp(&mad->mad.hdr);

	if (a->pi.state < (is_smp ? IB_PS_INIT : IB_PS_ACTIVE)) {
		mad_discard(m, *out);
		return mad_lose(m);
	}
	if (m->mad_faults && !is_smp && fab_mad_refused(m, m->f->port[a->peer].node, &mad->mad)) {
		m->stats.other++;
		*out = lid_out(m, &m->f->node[a->node], *out, mad);
		return FAB_GOES_ON;
	}
	return m->wires && m->wires->send(m->wires_ctx, *out, mad) ? FAB_DELIVERED : mad_lose(m);
}

enum fab_fate fab_forward(struct fab_mgmt *m, uint32_t out, struct fab_mad *mad)
{
	for (; mad->hops < MAX_HOPS && out != FAB_NO_PORT; mad->hops++) {
		struct fab_fault *x;
		enum fab_fate fate;
		uint32_t at;

		if (fab_outside(m->f, out)) {
			fate = held(m, FAB_MAD_LEAVES, out, mad);
			if (fate == FAB_GOES_ON)
				fate = mad_leave(m, &out, mad);
			if (fate == FAB_GOES_ON)
				continue;
			return fate;
		}
		if (!mad_depart(m, out, mad, &x))
			break;
		fate = x ? fab_mad_delay(m, out, x, mad) : FAB_GOES_ON;
		if (fate == FAB_LOST)
			break;
		if (fate != FAB_GOES_ON)
			return fate;
		at = mad_arrive(m, out, mad);
		if (at == FAB_NO_PORT)
			break;
		fate = at_node(m, at, true, mad, &out);
		if (fate != FAB_GOES_ON)
			return fate;
	}
	return mad_lose(m);
}

/* @mad, which has left by port @p, arrives at the other end. Return: as at_node(). */
static enum fab_fate landed(struct fab_mgmt *m, uint32_t p, struct fab_mad *mad, uint32_t *out)
{
	uint32_t at;

	if (fab_outside(m->f, p)) {
		m->wires->land(m->wires_ctx, p, mad);
		return FAB_DELIVERED;
	}
	at = mad_arrive(m, p, mad);
	mad->hops++;
	return at == FAB_NO_PORT ? mad_lose(m) : at_node(m, at, true, mad, out);
}

void fab_mgmt_resume(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p, struct fab_mad *mad)
{
	enum fab_fate fate = FAB_GOES_ON;
	uint32_t out = p;

	switch (place) {
	case FAB_MAD_ON_WIRE:
		fate = landed(m, p, mad, &out);
		break;
	case FAB_MAD_ENTERS:
		fate = at_node(m, p, true, mad, &out);
		break;
	case FAB_MAD_ARRIVED:
	case FAB_MAD_AT_HOME:
		/* a node that was switched off has lost its MADs */
		fate = m->f->node[m->f->port[p].node].off ? mad_lose(m) :
		       process(m, p, place == FAB_MAD_ARRIVED, mad, &out);
		break;
	case FAB_MAD_LEAVES:
		fate = mad_leave(m, &out, mad);
		break;
	case FAB_MAD_SENT:
		break;
	}
	if (fate == FAB_GOES_ON)
		fab_forward(m, out, mad);
	if (m->job.link_due)
		fab_link_effects(m);
}

enum fab_fate fab_mgmt_arrive(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad,
			      uint64_t now_ns)
{
	enum fab_fate fate = FAB_GOES_ON;
	uint32_t out;

	m->now_ns = now_ns;
	if (fab_outside(m->f, port))
		fate = held(m, FAB_MAD_ENTERS, port, mad);
	if (fate != FAB_GOES_ON)
		return fate;
	fate = at_node(m, port, true, mad, &out);
	if (fate == FAB_GOES_ON)
		fate = fab_forward(m, out, mad);
	if (m->job.link_due)
		fab_link_effects(m);
	return fate;
}

enum fab_fate fab_mgmt_local(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad)
{
	uint32_t out;

	return at_node(m, port, false, mad, &out);
}

/* ---- managers ------------------------------------------------------------------ */

enum fab_fate fab_mgmt_send(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad,
			    uint64_t now_ns)
{
	const struct fab_node *n = &m->f->node[m->f->port[port].node];
	const bool by_lid = ib_smp_begins_by_lid(&mad->smp);
	enum ib_dr_verdict v = IB_DR_LOCAL;
	enum fab_fate fate;
	uint8_t by = (uint8_t)fab_port_num(m->f, port);

	m->now_ns = now_ns;
	if (ib_smp_is_dr(&mad->smp) && !by_lid)
		v = ib_dr_send(&mad->smp, false, n->nports, &by);
	else if (by_lid || mad->dlid == IB_LID_PERMISSIVE ||
		 !fab_own_lid(&m->f->port[port], mad->dlid))
		v = IB_DR_FORWARD;
	/* a manager sends by its own port only */
	if (v == IB_DR_DISCARD || (v == IB_DR_FORWARD && by != fab_port_num(m->f, port) &&
				   !ib_smp_ends_by_lid(&mad->smp)))
		return mad_lose(m);
	fate = v == IB_DR_FORWARD ? held(m, FAB_MAD_SENT, port, mad) : FAB_GOES_ON;
	if (fate != FAB_GOES_ON)
		return fate;
	if (v == IB_DR_FORWARD)
		fate = fab_forward(m, port, mad);
	else
		fate = fab_mgmt_local(m, port, mad);
	if (m->job.link_due)
		fab_link_effects(m);
	return fate;
}
