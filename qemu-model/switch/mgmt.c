// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Management packets: routing of SMPs (IBTA volume 1, 14.2.2), the agents of port 0,
 * traps (14.3.9 to 14.3.11).
 *
 * Every packet is copied first; the copy is checked.
 */
#include "switch.h"

#include <string.h>

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
		/* The peer's VL15 buffer is full: it counts VL15Dropped. */
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

/* The reply to a LID routed request. */
static void send_by_lid(struct sw *sw, unsigned int in, const struct ib_pkt_info *pi,
			const struct ib_smp *smp)
{
	unsigned int out = route(sw, pi->slid);

	/* Before the tables are written, answers leave by the port of the request. */
	if (out == IB_LFT_NO_PORT || pi->slid == IB_LID_PERMISSIVE)
		out = in;
	send_smp(sw, smp, out, pi->slid, pi->dlid);
}

static void smp_local(struct sw *sw, unsigned int in, const struct ib_pkt_info *pi,
		      struct ib_smp *smp)
{
	const struct ib_sma_in how = {
		.port = in,
		.from_wire = true,
		.slid = pi->slid,
		.now_ns = sw_now(sw),
	};
	uint8_t out;

	switch (ib_sma_process(&sw->sma, &how, smp, &out)) {
	case IB_SMA_FORWARD:
		send_dr(sw, smp, out);
		break;
	case IB_SMA_REPLY:
		if (ib_smp_is_dr(smp))
			send_dr(sw, smp, out);
		else
			send_by_lid(sw, in, pi, smp);
		break;
	case IB_SMA_CONSUMED:
		break;
	case IB_SMA_UNHANDLED:		/* The switch has no manager. */
	case IB_SMA_DISCARD:
		sw->mads_dropped++;
		break;
	}
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

/* Return: whether the answer is done. */
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

/* A port without credits delays only its own answers. */
bool sw_reply_flush(struct sw *sw)
{
	unsigned int kept = 0, count = sw->reply_count;

	for (unsigned int i = 0; i < count; i++) {
		uint8_t slot = sw->reply_order[i];

		if (send_reply(sw, &sw->reply[slot])) {
			sw->reply_count--;
			continue;
		}
		/* Swapped, so that free entries move to the end; the order of the others stays. */
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
		ib_sma_count16(&p0->pi.pkey_violations);
		sw->mads_dropped++;
		return;
	}
	if (ib_be32(deth->qkey) != IB_QKEY_GSI) {
		ib_sma_count16(&p0->pi.qkey_violations);
		sw->mads_dropped++;
		return;
	}
	memcpy(&mad, pkt + pi.hdr_len, sizeof(mad));
	if (mad.hdr.mgmt_class == IB_CLASS_PERF) {
		if (ib_pma_process(&sw->pma, &mad, &mad, sw_clock(sw)) != IB_PMA_REPLY)
			return;
	} else if (!ib_mad_refuse(&mad.hdr)) {
		return;
	}
	queue_reply(sw, &pi, pkey, &mad);
}

/* ---- traps --------------------------------------------------------------------- */

void sw_send_trap(struct sw *sw, const struct ib_smp *trap)
{
	const struct ib_port_info *pi = &sw->port[0].pi;

	send_smp(sw, trap, route(sw, pi->sm_lid), pi->sm_lid, pi->lid);
}

void sw_trap(struct sw *sw, enum ib_notice_type type, enum ib_trap_num num,
	     const uint8_t details[54])
{
	/* a flood of violations does not run the timer each time */
	if (ib_sma_trap(&sw->sma, 0, type, num, details, sw_now(sw)))
		ib_sma_timer(&sw->sma, sw_now(sw));
}

void sw_trap_state_change(struct sw *sw)
{
	uint8_t details[54];

	sw->si.port_state_change = 1;
	ib_trap128(details, sw->port[0].pi.lid);
	sw_trap(sw, IB_NOTICE_URGENT, IB_TRAP_LINK_STATE_CHANGE, details);
}

/* Sampling uses the clock of PortXmitWait. Return: ns until the next. */
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
	ib_sma_timer(&sw->sma, now);
	due = ib_sma_deadline(&sw->sma);
	next = due == UINT64_MAX ? due : due > now ? due - now : 0;
	due = pma_timer(sw);
	if (due < next)
		next = due;
	/* HOQLife of heads and answers that wait for credit. */
	if ((sw->blocked || sw->reply_count) && next > SW_LOOK_NS)
		next = SW_LOOK_NS;
	return next;
}
