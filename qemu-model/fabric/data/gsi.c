// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * MADs in packets. MADs that arrive by links and by lanes are passed to management (mgmt.h). MADs
 * that its agents send to a virtual machine leave by the link: an SMP by VL15, any other by a data
 * lane as soon as there is credit. Every packet is copied first; the copy is checked.
 */
#include "gsi.h"
#include "buffer.h"
#include "clock.h"
#include "delay.h"
#include "hop.h"
#include "links.h"
#include "pace.h"
#include "to_watch.h"
#include "wait.h"

#include <string.h>

#include "ib/crc.h"

#define MAX_MAD_PKT	512u	/* longest packet that carries one MAD */

static void mad_malformed(struct ohca_port_counters *c)
{
	c->rcv_errors++;
	c->rcv_malformed++;
}

/* ---- receiving ----------------------------------------------------------------- */

static struct fab_mad mad_of(const uint8_t *pkt, const struct ib_pkt_info *pi)
{
	const struct ib_deth *deth = ib_pkt_deth(pkt, pi);
	struct fab_mad mad = {
		.dlid = pi->dlid,
		.slid = pi->slid,
		.dqp = pi->dqpn,
		.sqp = ib_be32(deth->sqpn) & IB_QPN_MASK,
		.sl = pi->sl,
		.pkey = pi->pkey,
	};

	memcpy(&mad.mad, pkt + pi->hdr_len, IB_MAD_LEN);
	/* without a GRH for SMPs: the answers have none (14.2.1) */
	mad.has_grh = pi->has_grh && !ib_mad_is_smp(&mad.mad.hdr);
	if (fab_unlikely(mad.has_grh))
		memcpy(&mad.grh, ib_pkt_grh(pkt, pi), sizeof(mad.grh));
	return mad;
}

/* Process SMP @mad, which has arrived at port @in of a switch. */
static void smp_rx(struct fab_data *d, struct fab_dport *in, struct fab_mad *mad)
{
	ib_pma_count_rcv(in->ctr, IB_MAD_PKT_LEN, mad->sl, false);
	if (fab_unlikely(in->tap))
		fab_capture_mad(d, in->tap, mad, false, FAB_DROP_NONE);
	fab_mgmt_arrive(d->m, in->p, mad, fab_data_clock(d));
}

/* Whether fault @x of the cable of @in loses a VL15 packet of @len bytes; counts it. */
static bool vl15_lost(struct fab_data *d, struct fab_dport *in, struct fab_fault *x, size_t len)
{
	d->m->now_ns = fab_data_clock(d);
	if (!fab_wire_loses(d->m, x, in->p, (uint32_t)len))
		return false;
	d->m->stats.lost++;
	return true;
}

/* Whether @pkt has a wrong ICRC (7.8.1); @flags (OHCA_FRAME_*) say whether it has one. */
static bool has_wrong_icrc(const uint8_t *pkt, size_t len, uint16_t flags)
{
	return fab_unlikely(flags & OHCA_FRAME_ICRC) && !ib_icrc_ok(pkt, len);
}

void fab_vl15_rx(struct fab_data *d, struct fab_dport *in, const uint8_t *data, size_t len,
		 uint16_t flags)
{
	struct fab_fault *x = in->rx_fault;
	uint8_t pkt[MAX_MAD_PKT];
	struct ib_pkt_info pi;
	struct fab_mad mad;
	enum fab_fate fate;

	if (fab_unlikely(x) && vl15_lost(d, in, x, len))
		return;
	d->n.mads_in++;
	memcpy(pkt, data, len < sizeof(pkt) ? len : sizeof(pkt));
	if (len > sizeof(pkt) || ib_pkt_parse(pkt, len, &pi) != IB_PKT_OK ||
	    pi.vl != IB_MGMT_VL || pi.opcode != IB_OP_UD_SEND_ONLY ||
	    pi.payload_len != IB_MAD_LEN) {
		ib_pma_count_rcv(in->ctr, (uint32_t)len, pkt[1] >> 4, false);
		mad_malformed(in->ctr);
		return;
	}
	mad = mad_of(pkt, &pi);
	if (!ib_mad_is_smp(&mad.mad.hdr)) {
		ib_pma_count_rcv(in->ctr, (uint32_t)len, pkt[1] >> 4, false);
		mad_malformed(in->ctr);
		return;
	}
	if (has_wrong_icrc(pkt, len, flags)) {
		ib_pma_count_rcv(in->ctr, (uint32_t)len, pkt[1] >> 4, false);
		in->ctr->rcv_errors++;
		in->ctr->rcv_local_phys_errors++;
		d->m->stats.lost++;
		return;
	}
	fate = fab_unlikely(x) ? fab_mad_delay(d->m, d->f->port[in->p].peer, x, &mad) :
				 FAB_GOES_ON;
	if (fate == FAB_GOES_ON)
		smp_rx(d, in, &mad);
	else if (fate == FAB_LOST)
		d->m->stats.lost++;
}

/* The P_Key of port @p's table that matches @pkey, or 0. */
static uint16_t node_pkey(const struct fab *f, const struct fab_node *n, uint32_t p, uint16_t pkey)
{
	const bool sw = n->sw != FAB_NONE;
	const uint16_t *t = fab_pool_at(sw ? &f->sw_pkeys : &f->ca_pkeys, f->port[p].pkeys);

	for (unsigned int i = 0; i < (sw ? FAB_SW_PKEYS : FAB_CA_PKEYS); i++)
		if (ib_pkey_match(t[i], pkey))
			return t[i];
	return 0;
}

/* Report the wrong P_Key, or else the wrong Q_Key, of the MAD in @pkt for end port @p. */
static void key_violation(struct fab_data *d, uint32_t p, const uint8_t *pkt,
			  const struct ib_pkt_info *pi, bool bad_pkey)
{
	const struct ib_grh *grh = ib_pkt_grh(pkt, pi);
	const struct ib_deth *deth = ib_pkt_deth(pkt, pi);
	struct ib_port_info *port = &d->f->port[p].pi;
	struct ib_key_violation v = {
		.lid1 = pi->slid,
		.lid2 = pi->dlid,
		.key = bad_pkey ? pi->pkey : ib_be32(deth->qkey),
		.sl = pi->sl,
		.qp1 = ib_deth_sqpn(deth),
		.qp2 = pi->dqpn,
	};
	uint8_t details[54];

	if (grh) {
		memcpy(v.gid1, grh->sgid, sizeof(v.gid1));
		memcpy(v.gid2, grh->dgid, sizeof(v.gid2));
	}
	ib_sma_count16(bad_pkey ? &port->pkey_violations : &port->qkey_violations);
	ib_trap257_258(details, &v);
	d->m->now_ns = fab_data_clock(d);
	fab_raise_trap(d->m, p, IB_NOTICE_SECURITY, bad_pkey ? IB_TRAP_BAD_PKEY : IB_TRAP_BAD_QKEY,
		       details);
}

/* Count a packet for port 0 of a switch that no agent receives: rcv_mads counts those of agents. */
static void count_port0(const struct fab_dport *in, struct fab_extra *x, const struct fab_frame *f)
{
	if (in->is_switch && x)
		ib_pma_count_rcv(&x->ctr, f->len, f->lrh[1] >> 4, false);
}

/*
 * Pass the MAD in @pkt to the agents. Return: whether it is one for GSI; *@taken: an agent received
 * it.
 */
static bool gsi_mad(struct fab_data *d, struct fab_dport *in, const uint8_t *pkt,
		    const struct ib_pkt_info *pi, const struct fab_frame *f,
		    const struct fab_tap *tap, bool *taken)
{
	const struct fab_node *n = &d->f->node[d->f->port[in->p].node];
	const uint32_t end = fab_end_port(d->f, in->p);
	const struct ib_deth *deth;
	struct fab_mad mad;

	if (pi->opcode != IB_OP_UD_SEND_ONLY || pi->dqpn != IB_QP1 ||
	    pi->payload_len != IB_MAD_LEN || !fab_own_lid(&d->f->port[end], pi->dlid))
		return false;
	/* captured before the answer to it */
	if (fab_unlikely(tap))
		fab_capture_frame(d, in, f, f->vl, false, FAB_DROP_NONE);
	deth = ib_pkt_deth(pkt, pi);
	mad = mad_of(pkt, pi);
	mad.pkey = node_pkey(d->f, n, end, pi->pkey);
	*taken = mad.pkey && ib_be32(deth->qkey) == IB_QKEY_GSI && !ib_mad_is_smp(&mad.mad.hdr);
	if (*taken) {
		fab_mgmt_arrive(d->m, in->p, &mad, fab_data_clock(d));
		return true;
	}
	if (!mad.pkey || ib_be32(deth->qkey) != IB_QKEY_GSI)
		key_violation(d, end, pkt, pi, !mad.pkey);
	d->m->stats.lost++;
	return true;
}

/* Read the MAD in @f. Return: false: there is none, or it is for an SMA. */
static bool gmp_of(struct fab_data *d, const struct fab_frame *f, struct fab_mad *mad)
{
	uint8_t pkt[MAX_MAD_PKT];
	struct ib_pkt_info pi;

	if (f->len > sizeof(pkt) || fab_icrc_flag(f))
		return false;
	fab_copy(d, pkt, f, f->vl);
	if (ib_pkt_parse(pkt, f->len, &pi) != IB_PKT_OK || pi.opcode != IB_OP_UD_SEND_ONLY ||
	    pi.dqpn != IB_QP1 || pi.payload_len != IB_MAD_LEN ||
	    ib_be32(ib_pkt_deth(pkt, &pi)->qkey) != IB_QKEY_GSI)
		return false;
	*mad = mad_of(pkt, &pi);
	return !ib_mad_is_smp(&mad->mad.hdr);
}

/* Whether a fault of the machine at @dp applies to @mad. */
static bool is_wanted(const struct fab_data *d, const struct fab_dport *dp, const struct ib_mad *mad)
{
	return fab_gmp_faulty(d, dp) &&
	       fab_mad_is_wanted(d->m, d->f->port[d->f->port[dp->p].peer].node, mad);
}

bool fab_gsi_held(struct fab_data *d, const struct fab_dport *in, const struct fab_dport *out,
		  const struct fab_frame *f)
{
	struct fab_mad mad;

	return (fab_gmp_faulty(d, in) || fab_gmp_faulty(d, out)) && gmp_of(d, f, &mad) &&
	       (is_wanted(d, in, &mad.mad) || is_wanted(d, out, &mad.mad));
}

/*
 * Hand a packet for another node, which fab_gsi_held() has chosen, over to management. Return:
 * false: it is for the switch itself.
 */
static bool pass_on(struct fab_data *d, const struct fab_dport *in, const struct fab_frame *f,
		    const struct fab_tap *tap)
{
	const struct fab_node *n = &d->f->node[d->f->port[in->p].node];
	struct fab_mad mad;

	if (!in->is_switch || !fab_route(d->f, n, ib_get_be16(f->lrh + 2)))
		return false;
	d->n.mads_in++;
	if (fab_unlikely(tap))
		fab_capture_frame(d, in, f, f->vl, false, FAB_DROP_NONE);
	d->n.delivered++;
	/* read again: the peer may have written to the ring meanwhile */
	if (gmp_of(d, f, &mad))
		fab_mgmt_arrive(d->m, in->p, &mad, fab_data_clock(d));
	else
		d->m->stats.lost++;
	return true;
}

static void end_of(struct fab_data *d, const struct fab_dport *in, const struct fab_frame *f,
		   const struct fab_tap *tap, enum fab_drop why)
{
	fab_dropped(d, why);
	if (fab_unlikely(tap))
		fab_capture_frame(d, in, f, f->vl, false, why);
}

void fab_gsi_rx(struct fab_data *d, struct fab_dport *in, const struct fab_frame *f,
		const struct fab_tap *tap)
{
	struct fab_extra *x = fab_extra(d->f, fab_end_port(d->f, in->p));
	const uint16_t flags = fab_icrc_flag(f);
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	struct ib_pkt_info pi;
	bool taken = false, mad = false;

	if (fab_unlikely(d->m->mad_faults) && pass_on(d, in, f, tap))
		return;
	d->n.mads_in += in->is_switch;
	if (f->len <= MAX_MAD_PKT || flags)
		fab_copy(d, pkt, f, f->vl);
	if (has_wrong_icrc(pkt, f->len, flags)) {
		count_port0(in, x, f);
		if (in->is_switch && x) {
			x->ctr.rcv_errors++;
			x->ctr.rcv_local_phys_errors++;
		}
		d->m->stats.lost += in->is_switch;
		end_of(d, in, f, tap, FAB_DROP_DAMAGED);
		return;
	}
	if (f->len <= MAX_MAD_PKT) {
		mad = ib_pkt_parse(pkt, f->len, &pi) == IB_PKT_OK &&
		      gsi_mad(d, in, pkt, &pi, f, tap, &taken);
	}
	if (!taken)
		count_port0(in, x, f);
	if (mad) {
		d->n.delivered++;
		return;
	}
	if (in->is_switch && x)
		mad_malformed(&x->ctr);
	d->m->stats.lost += in->is_switch;
	end_of(d, in, f, tap, in->is_switch ? FAB_DROP_MALFORMED : FAB_DROP_PHANTOM);
}

/* ---- sending ------------------------------------------------------------------- */

size_t fab_mad_packet(uint8_t *pkt, const struct fab_mad *mad, uint8_t vl)
{
	struct ib_mad_path path = {
		.slid = mad->slid,
		.dlid = mad->dlid,
		.pkey = mad->pkey ? mad->pkey : IB_DEFAULT_PKEY,
		.vl = vl,
		.sl = mad->sl,
		.dqpn = mad->dqp,
		.sqpn = mad->sqp,
		.qkey = ib_mad_is_smp(&mad->mad.hdr) ? 0 : IB_QKEY_GSI,
		.global = mad->has_grh,
	};

	if (fab_unlikely(mad->has_grh)) {
		path.tclass = ib_grh_tclass(&mad->grh);
		path.flow = ib_grh_flow(&mad->grh);
		path.hop_limit = mad->grh.hoplimit;
		memcpy(path.sgid, mad->grh.sgid, sizeof(path.sgid));
		memcpy(path.dgid, mad->grh.dgid, sizeof(path.dgid));
	}
	return ib_build_mad(pkt, &path, &mad->mad);
}

/* Deliver @mad, which has left, to the machine at @out. Return: false: it is lost. */
static bool put_vl15(struct fab_data *d, struct fab_dport *out, const struct fab_mad *mad)
{
	uint8_t *b;
	bool lost;

	b = fab_tx_begin(d, out, OHCA_LINK_VL15, IB_MAD_PKT_LEN);
	if (!b)		/* the peer's VL15 buffer is full: it counts VL15Dropped */
		return false;
	fab_mad_packet(b, mad, IB_MGMT_VL);
	lost = out->fault && fab_fault_takes(out->fault, IB_MAD_PKT_LEN);
	d->m->stats.lost += lost;
	fab_commit(d, out, OHCA_LINK_VL15, b, NULL, IB_MAD_PKT_LEN, 0, lost, true);
	return true;
}

static bool send_vl15(struct fab_data *d, struct fab_dport *out, const struct fab_mad *mad)
{
	enum fab_fate fate = FAB_GOES_ON;

	/* counted even if the peer drops it: VL15 has no credits (7.9.1) */
	ib_pma_count_xmit(out->ctr, IB_MAD_PKT_LEN, mad->sl, false);
	if (fab_unlikely(out->fault))
		fate = fab_mad_delay(d->m, out->p, out->fault, mad);
	return fate == FAB_GOES_ON ? put_vl15(d, out, mad) : fate == FAB_UNDER_WAY;
}

void fab_gsi_land(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	struct fab_data *d = ctx;
	const bool leaves = d->f->node[d->f->port[port].node].sw != FAB_NONE;
	struct fab_dport *dp = d->by_port[leaves ? port : d->f->port[port].peer];
	struct fab_mad copy = *mad;

	if (!dp || !fab_leads_out(dp))
		d->m->stats.lost++;
	else if (!leaves)
		smp_rx(d, dp, &copy);
	else if (!put_vl15(d, dp, mad))
		d->m->stats.lost++;
}

bool fab_gsi_send(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	struct fab_data *d = ctx;
	struct fab_dport *out = d->by_port[port];
	const struct fab_node *n;
	struct fab_reply *r;
	int vl;

	if (!out || !fab_leads_out(out) || !out->is_switch)
		return false;
	if (fab_unlikely(out->tap))
		fab_capture_mad(d, out->tap, mad, true, FAB_DROP_NONE);
	if (ib_mad_is_smp(&mad->mad.hdr))
		return send_vl15(d, out, mad);
	n = &d->f->node[d->f->port[port].node];
	vl = ib_sl2vl_lookup(fab_sl2vl(d->f, n, 0, out->num), mad->sl, out->nvls);
	if (vl < 0)
		return false;
	if (d->reply_count == FAB_REPLIES || out->replies == FAB_PORT_REPLIES) {
		out->ctr->qp1_dropped++;
		return false;
	}
	r = &d->reply[d->reply_order[d->reply_count]];
	r->since_ns = fab_data_now(d);
	d->reply_count++;
	out->replies++;
	r->out = out;
	r->vl = (uint8_t)vl;
	r->len = (uint16_t)fab_mad_packet(r->pkt, mad, (uint8_t)vl);
	return true;
}

/* put_reply() over the wire of @out with fault @x, in order with its data packets. */
static bool reply_over_fault(struct fab_data *d, struct fab_dport *out, const struct fab_reply *r,
			     struct fab_fault *x)
{
	const bool later = fab_is_delayed(out, true, r->vl, x);
	struct fab_frame f = { .data = r->pkt, .len = r->len, .vl = r->vl, .agent = true };
	uint8_t *b = NULL;
	bool lost;

	if (x->stalls)
		return false;
	if (!later)
		b = fab_tx_begin(d, out, r->vl, r->len);
	if (later ? !fab_delay_fits(out, r->vl, r->len) : !b)
		return false;
	lost = fab_fault_takes(x, r->len);
	d->m->stats.lost += lost;
	f.corrupt = !lost && fab_fault_corrupts(x);
	memcpy(f.lrh, r->pkt, IB_LRH_LEN);
	if (later) {
		fab_delay(d, out, true, r->vl, &f, x, lost, fab_pace_take(d, x, r->vl, r->len));
		return true;
	}
	fab_copy(d, b, &f, r->vl);
	fab_commit(d, out, r->vl, b, NULL, r->len, fab_icrc_flag(&f), lost, true);
	return true;
}

/* Send @r by @out. Return: false: there is no credit. */
static bool put_reply(struct fab_data *d, struct fab_dport *out, const struct fab_reply *r)
{
	uint8_t *b;

	if (fab_unlikely(out->fault))
		return reply_over_fault(d, out, r, out->fault);
	b = fab_tx_begin(d, out, r->vl, r->len);
	if (!b)
		return false;
	memcpy(b, r->pkt, r->len);
	fab_commit(d, out, r->vl, b, NULL, r->len, 0, false, true);
	return true;
}

/* Return: whether the entry of the MAD is free. */
static bool send_reply(struct fab_data *d, const struct fab_reply *r)
{
	struct fab_dport *out = r->out;

	if (!fab_leads_out(out) || !out->up || !out->active) {
		fab_discard(d, out, &out->ctr->xmit_inactive_discards, FAB_DROP_INACTIVE);
		return true;
	}
	if (out->stalled >> r->vl & 1) {
		fab_hoq_discard(d, out, r->vl);
		return true;
	}
	if (!put_reply(d, out, r)) {
		out->refused |= (uint16_t)(1u << r->vl);
		fab_touch(d, out);
		if (fab_too_old(d, out, r->since_ns))
			fab_hoq_discard(d, out, r->vl);
		else if (fab_outlived(d, out, r->since_ns))
			fab_discard(d, out, &out->ctr->xmit_lifetime_discards, FAB_DROP_LIFETIME);
		else
			return false;
		return true;
	}
	out->hoq_drops[r->vl] = 0;
	out->sent |= (uint16_t)(1u << r->vl);
	fab_touch(d, out);
	ib_pma_count_xmit(out->ctr, r->len, r->pkt[1] >> 4, false);
	return true;
}

/* A port without credits delays only its own MADs. */
bool fab_reply_flush(struct fab_data *d)
{
	const unsigned int count = d->reply_count;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < count; i++) {
		uint16_t slot = d->reply_order[i];

		if (send_reply(d, &d->reply[slot])) {
			d->reply_count--;
			d->reply[slot].out->replies--;
			continue;
		}
		/* swap: free entries move to the end, the others keep their order */
		d->reply_order[i] = d->reply_order[kept];
		d->reply_order[kept++] = slot;
	}
	return kept < count;
}
