// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Management packets: routing of SMPs (IBTA volume 1, 14.2.2), the agents of port 0,
 * traps (14.3.9 to 14.3.11).
 *
 * Every packet is copied first; what is looked at is the copy.
 */
#include "switch.h"

#include <string.h>

#include "ib/rate.h"

#define SMP_HDR		(IB_LRH_LEN + IB_BTH_LEN + IB_DETH_LEN)
#define SMP_PKT		(SMP_HDR + IB_MAD_LEN + IB_ICRC_LEN)

/* ---- sending ------------------------------------------------------------------- */

struct addr {
	uint8_t vl;
	uint8_t sl;
	uint16_t dlid;
	uint16_t slid;
	uint16_t pkey;
	uint32_t qpn;
	uint32_t qkey;
};

/* A UD packet from our QP of the same number. Return: its length. */
static size_t build(uint8_t *pkt, const struct addr *a, const void *mad)
{
	uint8_t *p = pkt;

	p = ib_build_lrh(p, a->vl, a->sl, IB_LNH_IBA_LOCAL, a->dlid,
			 ib_pkt_words(SMP_HDR, IB_MAD_LEN), a->slid);
	p = ib_build_bth(p, IB_OP_UD_SEND_ONLY, 0, 0, a->pkey, a->qpn, false, 0);
	p = ib_build_deth(p, a->qkey, a->qpn);
	memcpy(p, mad, IB_MAD_LEN);
	memset(p + IB_MAD_LEN, 0, IB_ICRC_LEN);
	return SMP_PKT;
}

static void send_vl15(struct sw *sw, unsigned int out, const uint8_t *pkt, size_t len)
{
	struct sw_port *p = &sw->port[out];
	uint8_t *b;

	if (!out || out > sw->nports) {
		sw->mads_dropped++;
		return;
	}
	if (!p->up) {
		p->ctr.xmit_discards++;
		p->ctr.xmit_inactive_discards++;
		sw->mads_dropped++;
		return;
	}
	/* Sent in any case: VL15 has no credits (7.9.1). */
	ib_pma_count_xmit(&p->ctr, (uint32_t)len, pkt[1] >> 4, false);
	b = ohca_link_tx_begin(p->link, OHCA_LINK_VL15, len);
	if (!b) {
		/* The peer's VL15 buffer is full: that is its VL15Dropped. */
		sw->mads_dropped++;
		return;
	}
	memcpy(b, pkt, len);
	ohca_link_tx_commit(p->link, OHCA_LINK_VL15, len, 0);
	sw->mads_out++;
}

/* Output port of a unicast LID; 0 is port 0 itself, 255 nowhere. */
static unsigned int route(const struct sw *sw, uint16_t lid)
{
	if (sw_is_own_lid(sw, lid))
		return 0;
	if (!ib_lid_is_ucast(lid) || lid > sw->si.linear_top || lid >= SW_LFT_CAP)
		return IB_LFT_NO_PORT;
	return sw->lft[lid];
}

/* Send an SMP of our own or one that we forward along its directed route. */
static void send_smp(struct sw *sw, const struct ib_smp *smp, unsigned int out, uint16_t dlid,
		     uint16_t slid)
{
	const struct addr a = {
		.vl = IB_MGMT_VL,
		.dlid = dlid,
		.slid = slid,
		.pkey = IB_DEFAULT_PKEY,
	};
	uint8_t pkt[SMP_PKT];

	send_vl15(sw, out, pkt, build(pkt, &a, smp));
}

static void send_dr(struct sw *sw, const struct ib_smp *smp, unsigned int out)
{
	uint16_t dlid = IB_LID_PERMISSIVE, slid = IB_LID_PERMISSIVE;

	if (out == IB_DR_PORT_BY_LID) {
		dlid = ib_be16(ib_smp_returning(smp) ? smp->dr_slid : smp->dr_dlid);
		slid = sw->port[0].pi.lid;
		out = route(sw, dlid);
	}
	send_smp(sw, smp, out, dlid, slid);
}

/* ---- receiving SMPs ------------------------------------------------------------ */

bool sw_is_own_lid(const struct sw *sw, uint16_t lid)
{
	const struct ib_port_info *pi = &sw->port[0].pi;

	return pi->lid && lid >= pi->lid && lid < pi->lid + (1u << pi->lmc);
}

static void smp_local(struct sw *sw, unsigned int in, const struct ib_pkt_info *pi,
		      struct ib_smp *smp)
{
	uint8_t out;

	if (ib_smp_is_dr(smp)) {
		switch (ib_dr_recv(smp, true, (uint8_t)in, (uint8_t)sw->nports, &out)) {
		case IB_DR_DISCARD:
			sw->mads_dropped++;
			return;
		case IB_DR_FORWARD:
			send_dr(sw, smp, out);
			return;
		case IB_DR_LOCAL:
			break;
		}
		/* No manager lives here to take answers. */
		if (ib_smp_returning(smp) || !sw_sma(sw, in, pi->slid, smp))
			return;
		if (ib_dr_send(smp, true, (uint8_t)sw->nports, &out) == IB_DR_FORWARD)
			send_dr(sw, smp, out);
		return;
	}
	if (smp->hdr.mgmt_class != IB_CLASS_SUBN_LID) {
		sw->mads_dropped++;
		return;
	}
	if (!sw_sma(sw, in, pi->slid, smp))
		return;
	out = (uint8_t)route(sw, pi->slid);
	/* Before the tables are written, answers leave by where the question came. */
	if (out == IB_LFT_NO_PORT || pi->slid == IB_LID_PERMISSIVE)
		out = (uint8_t)in;
	send_smp(sw, smp, out, pi->slid, pi->dlid);
}

void sw_vl15_rx(struct sw *sw, unsigned int in, const uint8_t *data, size_t len)
{
	struct ohca_port_counters *c = &sw->port[in].ctr;
	uint8_t pkt[SW_MAX_MAD_PKT];
	struct ib_pkt_info pi;
	struct ib_smp smp;
	unsigned int out;

	sw->mads_in++;
	ib_pma_count_rcv(c, (uint32_t)len, data[1] >> 4, false);
	if (len > sizeof(pkt)) {
		c->rcv_errors++;
		c->rcv_malformed++;
		return;
	}
	memcpy(pkt, data, len);
	if (ib_pkt_parse(pkt, len, &pi) != IB_PKT_OK || pi.vl != IB_MGMT_VL ||
	    pi.opcode != IB_OP_UD_SEND_ONLY || pi.payload_len != IB_MAD_LEN) {
		c->rcv_errors++;
		c->rcv_malformed++;
		return;
	}
	if (pi.dlid != IB_LID_PERMISSIVE && (out = route(sw, pi.dlid)) != 0) {
		if (out > sw->nports) {
			c->rcv_switch_relay_errors++;
			c->rcv_dlid_mapping++;
		} else if (out == in) {
			c->rcv_switch_relay_errors++;
			c->rcv_looping++;
		} else {
			send_vl15(sw, out, pkt, len);
		}
		return;
	}
	memcpy(&smp, pkt + pi.hdr_len, sizeof(smp));
	smp_local(sw, in, &pi, &smp);
}

/* ---- port 0's QP1 -------------------------------------------------------------- */

/* Return: whether the answer is dealt with. */
static bool send_reply(struct sw *sw, struct sw_reply *r)
{
	struct sw_port *p = &sw->port[r->out];
	uint8_t *b;

	if (!p->up || !p->active) {
		p->ctr.xmit_discards++;
		p->ctr.xmit_inactive_discards++;
		return true;
	}
	if (p->stalled >> r->vl & 1) {
		sw_hoq_discard(sw, p, r->vl);
		return true;
	}
	b = ohca_link_tx_begin(p->link, r->vl, r->len);
	if (!b) {
		p->refused |= (uint16_t)(1u << r->vl);
		if (!sw_too_old(sw, p, r->since_ns))
			return false;
		sw_hoq_discard(sw, p, r->vl);
		return true;
	}
	memcpy(b, r->pkt, r->len);
	ohca_link_tx_commit(p->link, r->vl, r->len, 0);
	p->hoq_drops[r->vl] = 0;
	ib_pma_count_xmit(&p->ctr, r->len, r->pkt[1] >> 4, false);
	ib_pma_count_xmit(&sw->port[0].ctr, r->len, r->pkt[1] >> 4, false);
	p->sent |= (uint16_t)(1u << r->vl);
	sw->mads_out++;
	return true;
}

/* Who gives no credits waits alone: the answers behind it go to others. */
bool sw_reply_flush(struct sw *sw)
{
	unsigned int kept = 0, count = sw->reply_count;

	for (unsigned int i = 0; i < count; i++) {
		uint8_t slot = sw->reply_order[i];

		if (send_reply(sw, &sw->reply[slot])) {
			sw->reply_count--;
			continue;
		}
		/* Swapped, so that the free ones gather at the end; the order of the rest stays. */
		sw->reply_order[i] = sw->reply_order[kept];
		sw->reply_order[kept++] = slot;
	}
	return kept < count;
}

static void queue_reply(struct sw *sw, const struct ib_pkt_info *to, uint16_t pkey,
			const struct ib_mad *mad)
{
	unsigned int out = route(sw, to->slid);
	struct addr a = {
		.sl = to->sl,
		.dlid = to->slid,
		.slid = to->dlid,
		.pkey = pkey,
		.qpn = IB_QP1,
		.qkey = IB_QKEY_GSI,
	};
	struct sw_reply *r;
	int vl;

	if (!out || out > sw->nports) {
		sw->mads_dropped++;
		return;
	}
	if (sw->reply_count == SW_REPLIES) {
		sw->port[0].ctr.qp1_dropped++;
		sw->mads_dropped++;
		return;
	}
	vl = ib_sl2vl_lookup(sw_sl2vl(sw, 0, out), to->sl, sw->port[out].nvls);
	if (vl < 0) {
		sw->mads_dropped++;
		return;
	}
	r = &sw->reply[sw->reply_order[sw->reply_count]];
	r->since_ns = sw_now(sw);
	sw->reply_count++;
	a.vl = (uint8_t)vl;
	r->out = (uint8_t)out;
	r->vl = (uint8_t)vl;
	r->len = (uint16_t)build(r->pkt, &a, mad);
}

void sw_count_vl15(struct sw_port *p)
{
	uint32_t n;

	if (!p->link)
		return;
	n = ohca_link_vl15_dropped_by_peer(p->link);
	p->ctr.vl15_dropped += (uint32_t)(n - p->vl15_seen);
	p->vl15_seen = n;
}

struct ib_pma_port *sw_pma_port(void *ctx, unsigned int n)
{
	struct sw *sw = ctx;
	struct sw_port *p = &sw->port[n];

	if (n) {
		sw_count_wait(sw, p);
		sw_count_vl15(p);
	}
	return &p->pma;
}

void sw_gsi_rx(struct sw *sw, unsigned int in, const uint8_t *data, size_t len)
{
	struct sw_port *p0 = &sw->port[0];
	uint8_t pkt[SW_MAX_MAD_PKT];
	const struct ib_deth *deth;
	struct ib_pkt_info pi;
	struct ib_mad mad;
	uint16_t pkey = 0;

	(void)in;
	sw->mads_in++;
	ib_pma_count_rcv(&p0->ctr, (uint32_t)len, data[1] >> 4, false);
	if (len > sizeof(pkt)) {
		p0->ctr.rcv_errors++;
		return;
	}
	memcpy(pkt, data, len);
	if (ib_pkt_parse(pkt, len, &pi) != IB_PKT_OK || pi.opcode != IB_OP_UD_SEND_ONLY ||
	    pi.dqpn != IB_QP1 || pi.payload_len != IB_MAD_LEN || !sw_is_own_lid(sw, pi.dlid)) {
		p0->ctr.rcv_errors++;
		sw->mads_dropped++;
		return;
	}
	deth = ib_pkt_deth(pkt, &pi);
	for (unsigned int i = 0; i < p0->num_pkeys && !pkey; i++)
		if (ib_pkey_match(p0->pkeys[i], pi.pkey))
			pkey = p0->pkeys[i];
	if (!pkey) {
		p0->pi.pkey_violations += p0->pi.pkey_violations != 0xffff;
		sw->mads_dropped++;
		return;
	}
	if (ib_be32(deth->qkey) != IB_QKEY_GSI) {
		p0->pi.qkey_violations += p0->pi.qkey_violations != 0xffff;
		sw->mads_dropped++;
		return;
	}
	memcpy(&mad, pkt + pi.hdr_len, sizeof(mad));
	if (mad.hdr.mgmt_class == IB_CLASS_PERF) {
		if (ib_pma_process(&sw->pma, &mad, &mad, sw_clock(sw)) != IB_PMA_REPLY)
			return;
	} else if (mad.hdr.method == IB_METHOD_GET || mad.hdr.method == IB_METHOD_SET) {
		ib_mad_make_resp(&mad.hdr, IB_MAD_BAD_METHOD_ATTR);
	} else {
		return;
	}
	queue_reply(sw, &pi, pkey, &mad);
}

/* ---- traps --------------------------------------------------------------------- */

/* Send the traps that are due and may be sent. Return: ns until the next. */
static uint64_t run_traps(struct sw *sw)
{
	const struct ib_port_info *pi = &sw->port[0].pi;
	uint64_t now = sw_now(sw), next;
	const struct ib_trap *t;
	struct ib_smp smp;

	while ((t = ib_trap_due(&sw->traps, now, ib_time_ns(pi->subnet_timeout)))) {
		ib_trap_build(&smp, t->tid, pi->mkey, &t->n);
		send_smp(sw, &smp, route(sw, pi->sm_lid), pi->sm_lid, pi->lid);
	}
	next = ib_trap_deadline(&sw->traps);
	if (next == UINT64_MAX)
		return next;
	return next > now ? next - now : 0;
}

void sw_trap(struct sw *sw, uint8_t type, uint16_t num, const uint8_t details[54])
{
	struct ib_notice n = {
		.generic = 1,
		.type = type,
		.producer = IB_NODE_SWITCH_DEVICE,
		.trap = num,
		.issuer_lid = sw->port[0].pi.lid,
	};

	/* Before an SM has introduced itself there is nobody to tell. */
	if (!sw->port[0].pi.sm_lid)
		return;
	memcpy(n.details, details, sizeof(n.details));
	ib_trap_post(&sw->traps, &n, sw_now(sw));
	run_traps(sw);
}

void sw_trap_state_change(struct sw *sw)
{
	uint8_t details[54];

	sw->si.port_state_change = 1;
	ib_trap128(details, sw->port[0].pi.lid);
	sw_trap(sw, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE, details);
}

/* Sampling goes by the clock that PortXmitWait goes by. Return: ns until the next. */
static uint64_t pma_timer(struct sw *sw)
{
	uint64_t due = ib_pma_deadline(&sw->pma), now = sw_clock(sw);

	if (due <= now) {
		ib_pma_timer(&sw->pma, now);
		due = ib_pma_deadline(&sw->pma);
	}
	return due == UINT64_MAX ? due : due > now ? due - now : 0;
}

uint64_t sw_timers(struct sw *sw)
{
	uint64_t now, due, next;

	sw->now_ns = 0;
	now = sw_now(sw);
	next = run_traps(sw);
	due = pma_timer(sw);
	if (due < next)
		next = due;
	if (sw->mkey_expires_ns && sw->mkey_expires_ns <= now) {
		/* The lease ran out: anybody may now read and take the M_Key (14.2.4.2). */
		sw->port[0].pi.mkey_prot = 0;
		sw->mkey_expires_ns = 0;
	}
	if (sw->mkey_expires_ns && sw->mkey_expires_ns - now < next)
		next = sw->mkey_expires_ns - now;
	/* HOQLife of heads and answers that wait for credit. */
	if ((sw->blocked || sw->reply_count) && next > SW_LOOK_NS)
		next = SW_LOOK_NS;
	return next;
}
