// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Forwarding of data packets (IBTA volume 1, 18.2.4): tables, P_Key enforcement,
 * SL to VL, arbitration, credits, lifetime at the head of a queue.
 *
 * A round decides the output of the head of every input lane, and every output port
 * serves the lanes that request it: by its VL arbiter if several of its lanes have
 * packets, in turn if several inputs request the same lane.
 * A multicast head has its turn at each of its outputs like any other; it stays until all
 * of them have their copy.
 */
#include "switch.h"

#include <string.h>

#include "ib/crc.h"
#include "ib/rate.h"

#define BURST		64u	/* frames an output port or an input lane moves per round */
#define VL15_BURST	32u

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

/* ---- deciding ------------------------------------------------------------------ */

static bool pkey_in_table(const struct sw_port *p, uint16_t pkey)
{
	for (unsigned int i = 0; i < p->num_pkeys; i++)
		if (ib_pkey_match(p->pkeys[i], pkey))
			return true;
	return false;
}

static void trap_pkey(struct sw *sw, const struct sw_port *p, const struct sw_lane *h,
		      uint16_t pkey, unsigned int bth)
{
	struct ib_key_violation v = {
		.lid1 = ib_get_be16(h->lrh + 6),
		.lid2 = ib_get_be16(h->lrh + 2),
		.key = pkey,
		.sl = h->lrh[1] >> 4,
		.sw_lid = sw->port[0].pi.lid,
		.port = p->num,
		.data_valid = 0x0007,		/* LIDs, P_Key, SL and QP */
	};
	uint8_t details[54], qp[4];

	memcpy(qp, h->f.data + bth + 4, sizeof(qp));
	v.qp2 = ib_get_be32(qp) & IB_QPN_MASK;
	ib_trap259(details, &v);
	sw_trap(sw, IB_NOTICE_SECURITY, IB_TRAP_BAD_PKEY_SWITCH, details);
}

static enum sw_kind relay_error(struct sw_port *p, uint64_t *detail)
{
	p->ctr.rcv_switch_relay_errors++;
	++*detail;
	return SW_DROP;
}

static enum sw_kind malformed(struct sw_port *p)
{
	p->ctr.rcv_errors++;
	p->ctr.rcv_malformed++;
	return SW_DROP;
}

static enum sw_kind discard(struct sw_port *out, uint64_t *detail)
{
	out->ctr.xmit_discards++;
	++*detail;
	return SW_DROP;
}

/* HOQLife in ns: 4.096 us * 2^n, n > 19 never. */
static uint64_t hoq_ns(const struct sw *sw, const struct sw_port *out)
{
	uint8_t n = out->pi.hoq_life;

	return n > 19 || !sw->cfg.hoq_scale ? UINT64_MAX : ib_time_ns(n) * sw->cfg.hoq_scale;
}

bool sw_too_old(struct sw *sw, const struct sw_port *out, uint64_t since_ns)
{
	return since_ns && sw_now(sw) - since_ns > hoq_ns(sw, out);
}

void sw_hoq_discard(struct sw *sw, struct sw_port *out, unsigned int vl)
{
	uint8_t limit = out->pi.vl_stall_count;

	discard(out, &out->ctr.xmit_hoq_discards);
	if (out->stalled >> vl & 1)
		return;
	/*
	 * A sequence ends when a packet leaves, not when the stall does: a peer that gives
	 * no credits for minutes holds the lane up once per stall, not VLStallCount times.
	 */
	if (out->hoq_drops[vl] < UINT8_MAX)
		out->hoq_drops[vl]++;
	if (!limit || out->hoq_drops[vl] < limit)
		return;
	out->stalled |= (uint16_t)(1u << vl);
	out->stall_end_ns[vl] = sw_now(sw) + 8 * hoq_ns(sw, out);
	sw->stalled++;
	sw->epoch++;		/* heads that are decided are decided again */
}

static void unstall(struct sw *sw, struct sw_port *out, unsigned int vl)
{
	out->stalled &= (uint16_t)~(1u << vl);
	sw->stalled--;
	sw->epoch++;
}

/* End the stalls that have expired. */
static void end_stalls(struct sw *sw)
{
	for (unsigned int i = 1; i <= sw->nports; i++) {
		struct sw_port *p = &sw->port[i];

		for (uint16_t m = p->stalled; m; m &= (uint16_t)(m - 1)) {
			unsigned int vl = (unsigned int)__builtin_ctz(m);

			if (sw_now(sw) >= p->stall_end_ns[vl])
				unstall(sw, p, vl);
		}
	}
}

/* P_Key and raw filters of one port, on input or output. */
static bool admit(struct sw *sw, struct sw_port *p, struct sw_lane *h, bool inbound)
{
	unsigned int lnh = h->lrh[1] & 3, bth = lnh == IB_LNH_IBA_GLOBAL ? 48 : 8;
	const struct ib_port_info *pi = &p->pi;
	uint64_t *errors = inbound ? &p->ctr.rcv_constraint_errors :
				     &p->ctr.xmit_constraint_errors;

	if (lnh < IB_LNH_IBA_LOCAL) {
		if (inbound ? pi->filter_raw_in : pi->filter_raw_out) {
			++*errors;
			return false;
		}
		return true;
	}
	if (inbound ? !pi->part_enf_in : !pi->part_enf_out)
		return true;
	if (!h->patch) {
		/* The copy is checked, and sent. */
		h->patch = (uint8_t)(bth + 2);
		memcpy(h->pkey, h->f.data + bth + 2, 2);
	}
	if (pkey_in_table(p, ib_get_be16(h->pkey)))
		return true;
	++*errors;
	trap_pkey(sw, p, h, ib_get_be16(h->pkey), bth);
	return false;
}

/* Whether the frame can leave by @out. On success *@ovl is its lane there. */
static bool can_leave(struct sw *sw, struct sw_port *in, struct sw_lane *h, struct sw_port *out,
		      uint8_t *ovl)
{
	int vl;

	if (unlikely(!out->up || !out->active)) {
		discard(out, &out->ctr.xmit_inactive_discards);
		return false;
	}
	if (unlikely(h->f.len > out->max_len)) {
		discard(out, &out->ctr.xmit_mtu_discards);
		return false;
	}
	vl = ib_sl2vl_lookup(sw_sl2vl(sw, in->num, out->num), h->lrh[1] >> 4, out->nvls);
	if (unlikely(vl < 0)) {
		relay_error(in, &in->ctr.rcv_vl_mapping);
		return false;
	}
	if (unlikely((out->pi.part_enf_out || out->pi.filter_raw_out) &&
		     !admit(sw, out, h, false)))
		return false;
	if (unlikely(out->stalled >> vl & 1)) {
		sw_hoq_discard(sw, out, (unsigned int)vl);
		return false;
	}
	*ovl = (uint8_t)vl;
	return true;
}

static enum sw_kind decide_mcast(struct sw *sw, struct sw_port *in, struct sw_lane *h,
				 uint16_t dlid)
{
	unsigned int idx = dlid - IB_LID_MCAST_MIN;
	uint8_t ovl;

	memset(h->mc, 0, sizeof(h->mc));
	if (idx < SW_MFT_CAP && (!sw->si.mcast_top || dlid <= sw->si.mcast_top)) {
		for (unsigned int pos = 0; pos < SW_MFT_POS; pos++)
			h->mc[pos / 4] |= (uint64_t)sw->mft[idx][pos] << (pos % 4 * 16);
	} else if (sw->si.def_mcast_primary && sw->si.def_mcast_primary <= sw->nports) {
		h->mc[sw->si.def_mcast_primary / 64] |= 1ull << (sw->si.def_mcast_primary % 64);
	}
	h->mc[in->num / 64] &= ~(1ull << (in->num % 64));
	for (unsigned int w = 0; w < 4; w++) {
		for (uint64_t m = h->mc[w]; m; m &= m - 1) {
			unsigned int n = w * 64 + (unsigned int)__builtin_ctzll(m);

			/* Port 0 has no multicast consumer; a member port may be down. */
			if (n == 0 || n > sw->nports || !sw->port[n].up ||
			    !can_leave(sw, in, h, &sw->port[n], &ovl))
				h->mc[w] &= ~(1ull << (n % 64));
		}
	}
	/* without an output left the head is done */
	return SW_MCAST;
}

/* Whether the frame is damaged according to its flags. Counts it. */
static bool damaged(struct sw_port *in, const struct ohca_link_frame *f)
{
	if (f->flags & OHCA_FRAME_EBP) {
		in->ctr.rcv_remote_phys_errors++;
		return true;
	}
	if ((f->flags & OHCA_FRAME_VCRC) && ib_vcrc(f->data, f->len) != f->vcrc) {
		in->ctr.rcv_errors++;
		in->ctr.rcv_local_phys_errors++;
		return true;
	}
	return false;
}

/* Decide on the frame in @h->f. Counts errors, so call once per frame. */
static enum sw_kind decide(struct sw *sw, struct sw_port *in, struct sw_lane *h)
{
	uint32_t lnh, bth, len = h->f.len;
	struct sw_port *out;
	uint16_t dlid;

	memcpy(h->lrh, h->f.data, sizeof(h->lrh));
	h->patch = 0;
	if (unlikely(h->f.flags & (OHCA_FRAME_EBP | OHCA_FRAME_VCRC)) && damaged(in, &h->f))
		return SW_DROP;
	dlid = ib_get_be16(h->lrh + 2);
	lnh = h->lrh[1] & 3;
	bth = lnh == IB_LNH_IBA_GLOBAL ? IB_LRH_LEN + IB_GRH_LEN : IB_LRH_LEN;
	if (unlikely(h->lrh[0] != h->f.vl << 4 ||
		     4u * (ib_get_be16(h->lrh + 4) & 0x7ff) != len || !dlid ||
		     dlid == IB_LID_PERMISSIVE || len > in->max_len ||
		     (lnh >= IB_LNH_IBA_LOCAL && len < bth + IB_BTH_LEN + IB_ICRC_LEN)))
		return malformed(in);
	if (unlikely(!in->receives))
		return SW_DROP;
	if (unlikely(!in->active) && ib_port_rx_data(&in->pi))
		sw_port_changed(sw, in);
	if (unlikely((in->pi.part_enf_in || in->pi.filter_raw_in) && !admit(sw, in, h, true)))
		return SW_DROP;

	if (unlikely(dlid >= IB_LID_MCAST_MIN))
		return decide_mcast(sw, in, h, dlid);
	if (dlid > sw->si.linear_top || dlid >= SW_LFT_CAP || sw->lft[dlid] > sw->nports)
		return relay_error(in, &in->ctr.rcv_dlid_mapping);
	if (sw->lft[dlid] == 0)
		return SW_LOCAL;
	out = &sw->port[sw->lft[dlid]];
	if (unlikely(out == in))
		return relay_error(in, &in->ctr.rcv_looping);
	if (!can_leave(sw, in, h, out, &h->ovl))
		return SW_DROP;
	h->out = out->num;
	return SW_UCAST;
}

/* ---- moving -------------------------------------------------------------------- */

static void unblock(struct sw *sw, struct sw_lane *h)
{
	if (likely(!h->blocked_ns))
		return;
	h->blocked_ns = 0;
	sw->blocked--;
}

static void block(struct sw *sw, struct sw_lane *h)
{
	if (!h->blocked_ns) {
		h->blocked_ns = sw_now(sw);
		sw->blocked++;
	}
}

/* The frame is done: count it, release its buffer. */
static void release(struct sw *sw, struct sw_port *in, unsigned int vl, struct sw_lane *h)
{
	ib_pma_count_rcv(&in->ctr, h->f.len, h->lrh[1] >> 4, (h->lrh[2] & 0xc0) == 0xc0);
	unblock(sw, h);
	h->kind = SW_NONE;
	ohca_link_rx_release(in->link, vl);
}

static bool copy_out(struct sw_port *out, unsigned int ovl, const struct sw_lane *h, bool mcast)
{
	uint8_t *b = ohca_link_tx_begin(out->link, ovl, h->f.len);

	if (!b)
		return false;
	memcpy(b, h->lrh, sizeof(h->lrh));
	b[0] = (uint8_t)(ovl << 4);
	memcpy(b + sizeof(h->lrh), h->f.data + sizeof(h->lrh), h->f.len - sizeof(h->lrh));
	if (unlikely(h->patch))
		memcpy(b + h->patch, h->pkey, 2);
	/* The VL may have changed, so the VCRC is no longer there; it is computed when needed. */
	ohca_link_tx_commit(out->link, ovl, h->f.len, h->f.flags & OHCA_FRAME_ICRC);
	out->hoq_drops[ovl] = 0;
	out->sent |= (uint16_t)(1u << ovl);
	ib_pma_count_xmit(&out->ctr, h->f.len, h->lrh[1] >> 4, mcast);
	return true;
}

static bool has_output(const struct sw_lane *h, unsigned int n)
{
	return h->mc[n / 64] >> (n % 64) & 1;
}

static int mcast_vl(struct sw *sw, const struct sw_port *in, const struct sw_lane *h,
		    const struct sw_port *out)
{
	return ib_sl2vl_lookup(sw_sl2vl(sw, in->num, out->num), h->lrh[1] >> 4, out->nvls);
}

/*
 * Drop the outputs at which a multicast head is to be discarded: down or not Active,
 * stalled, or too old there. Return: whether it still waits for any.
 */
static bool prune_mcast(struct sw *sw, struct sw_port *in, struct sw_lane *h)
{
	uint64_t left = 0;

	for (unsigned int w = 0; w < 4; w++) {
		for (uint64_t m = h->mc[w]; m; m &= m - 1) {
			unsigned int n = w * 64 + (unsigned int)__builtin_ctzll(m);
			struct sw_port *out = &sw->port[n];
			int vl = mcast_vl(sw, in, h, out);

			if (unlikely(!out->up || !out->active || vl < 0))
				discard(out, &out->ctr.xmit_inactive_discards);
			else if (unlikely(out->stalled >> vl & 1 ||
					  sw_too_old(sw, out, h->blocked_ns)))
				sw_hoq_discard(sw, out, (unsigned int)vl);
			else
				continue;
			h->mc[w] &= ~(1ull << (n % 64));
		}
		left |= h->mc[w];
	}
	return left;
}

static struct sw_lane *lane_of(struct sw *sw, uint16_t id)
{
	return &sw->port[id / SW_DATA_VLS].lane[id % SW_DATA_VLS];
}

/* Queue the head for its lane of @out, @ovl of that head. */
static void enqueue(struct sw *sw, struct sw_port *out, unsigned int in, unsigned int vl)
{
	uint16_t id = (uint16_t)(in * SW_DATA_VLS + vl);
	struct sw_lane *h = lane_of(sw, id);

	h->next = SW_END;
	if (out->want & (1u << h->ovl)) {
		lane_of(sw, out->tail[h->ovl])->next = id;
	} else {
		out->want |= (uint16_t)(1u << h->ovl);
		out->head[h->ovl] = id;
	}
	out->tail[h->ovl] = id;
}

static void request(struct sw *sw, unsigned int in, unsigned int vl)
{
	struct sw_port *out = &sw->port[sw->port[in].lane[vl].out];

	out->ucast++;
	enqueue(sw, out, in, vl);
}

/* Return: whether the head requests @out. */
static bool request_mcast(struct sw *sw, struct sw_port *out, unsigned int in, unsigned int vl)
{
	struct sw_lane *h = &sw->port[in].lane[vl];
	int ovl = mcast_vl(sw, &sw->port[in], h, out);

	if (h->kind != SW_MCAST || !has_output(h, out->num) || ovl < 0)
		return false;
	h->ovl = (uint8_t)ovl;
	enqueue(sw, out, in, vl);
	return true;
}

static void list_mcast(struct sw *sw, unsigned int in, unsigned int vl)
{
	struct sw_lane *h = &sw->port[in].lane[vl];

	if (!h->listed)
		sw->mcast[sw->nmcast++] = (uint16_t)(in * SW_DATA_VLS + vl);
	h->listed = true;
}

static void forget_mcast(struct sw *sw)
{
	while (sw->nmcast)
		lane_of(sw, sw->mcast[--sw->nmcast])->listed = false;
}

/*
 * Decide on the lane's head; discard or consume all frames without an output.
 * Return: SW_UCAST or SW_MCAST if a head requests an output, else SW_NONE.
 */
static enum sw_kind advance(struct sw *sw, struct sw_port *in, unsigned int vl, bool *moved)
{
	struct sw_lane *h = &in->lane[vl];

	for (unsigned int n = 0; n < BURST; n++) {
		/* A frame that is partly copied keeps its decision. */
		if (h->kind != SW_NONE && h->epoch != sw->epoch && !h->started)
			h->kind = SW_NONE;
		if (h->kind == SW_NONE) {
			if (ohca_link_rx_peek(in->link, vl, &h->f) <= 0)
				return SW_NONE;
			h->started = false;
			h->kind = decide(sw, in, h);
			h->epoch = sw->epoch;
		}
		switch (h->kind) {
		case SW_UCAST:
			if (likely(!sw_too_old(sw, &sw->port[h->out], h->blocked_ns)))
				return SW_UCAST;
			sw_hoq_discard(sw, &sw->port[h->out], h->ovl);
			break;
		case SW_MCAST:
			if (likely(prune_mcast(sw, in, h)))
				return SW_MCAST;
			break;
		case SW_LOCAL:
			sw_gsi_rx(sw, in->num, h->f.data, h->f.len);
			break;
		default:
			break;
		}
		release(sw, in, vl, h);
		*moved = true;
	}
	return SW_NONE;
}

/* Marks the heads for these lanes of the output as blocked. */
static void block_lanes(struct sw *sw, struct sw_port *out, uint16_t vls)
{
	out->refused |= vls;
	for (; vls; vls &= (uint16_t)(vls - 1)) {
		uint16_t id = out->head[__builtin_ctz(vls)];

		while (id != SW_END) {
			struct sw_lane *h = lane_of(sw, id);

			block(sw, h);
			id = h->next;
		}
	}
}

/* Start the list of requesters behind the one that was served last. */
static void take_turns(struct sw *sw, struct sw_port *out, unsigned int vl)
{
	uint16_t best = SW_END, low = SW_END, id;

	if (out->head[vl] == out->tail[vl])
		return;
	for (id = out->head[vl]; id != SW_END; id = lane_of(sw, id)->next) {
		if (id > out->last[vl] && id < best)
			best = id;
		if (id < low)
			low = id;
	}
	if (best == SW_END)
		best = low;
	/* Bounded: the list holds it. */
	while (out->head[vl] != best) {
		id = out->head[vl];
		out->head[vl] = lane_of(sw, id)->next;
		lane_of(sw, id)->next = SW_END;
		lane_of(sw, out->tail[vl])->next = id;
		out->tail[vl] = id;
	}
}

/*
 * The only multicast head of this round has left by one output: copy it to the outputs at which it
 * has no competitor, so that the next one can follow in the same round.
 */
static void copy_rest(struct sw *sw, const struct sw_port *in, struct sw_lane *h)
{
	for (unsigned int w = 0; w < 4; w++) {
		for (uint64_t m = h->mc[w]; m; m &= m - 1) {
			unsigned int n = w * 64 + (unsigned int)__builtin_ctzll(m);
			struct sw_port *out = &sw->port[n];
			int vl = mcast_vl(sw, in, h, out);

			if (vl >= 0 && !out->ucast && out->up && out->active &&
			    !(out->stalled >> vl & 1) && out->arb_vls >> vl & 1 &&
			    copy_out(out, (unsigned int)vl, h, true))
				h->mc[w] &= ~(1ull << (n % 64));
		}
	}
}

/* @out has sent the head. Return: whether the head is done. */
static bool head_sent(struct sw *sw, const struct sw_port *in, struct sw_lane *h,
		      const struct sw_port *out)
{
	if (likely(h->kind != SW_MCAST))
		return true;
	h->started = true;
	h->mc[out->num / 64] &= ~(1ull << (out->num % 64));
	if (sw->nmcast == 1)
		copy_rest(sw, in, h);
	return !(h->mc[0] | h->mc[1] | h->mc[2] | h->mc[3]);
}

/* Serve all requests for this output. */
static bool serve(struct sw *sw, struct sw_port *out)
{
	bool moved = false, dummy = false;
	unsigned int budget = BURST, n = 0;
	uint16_t ready, tired = 0;	/* lanes without credit */

	for (unsigned int i = 0; i < sw->nmcast; i++)
		n += request_mcast(sw, out, sw->mcast[i] / SW_DATA_VLS,
				   sw->mcast[i] % SW_DATA_VLS);
	/*
	 * A multicast head may have to wait for its other outputs until the next round. Then
	 * unicast has no more than its turn here, either.
	 */
	if (n && out->ucast)
		budget = n + out->ucast;
	ready = out->want & out->arb_vls;
	for (uint16_t m = ready; m; m &= (uint16_t)(m - 1))
		take_turns(sw, out, (unsigned int)__builtin_ctz(m));
	/* Lanes without weight in any table never send; HOQLife ends their wait. */
	block_lanes(sw, out, out->want & (uint16_t)~out->arb_vls);

	for (; ready && budget; budget--) {
		bool alone = !(ready & (ready - 1));
		int vl = alone ? __builtin_ctz(ready) : ib_vlarb_pick(&out->arb, ready);
		struct sw_port *in;
		struct sw_lane *h;
		unsigned int ivl;
		uint16_t id;

		if (unlikely(vl < 0)) {
			block_lanes(sw, out, ready);
			break;
		}
		id = out->head[vl];
		in = &sw->port[id / SW_DATA_VLS];
		ivl = id % SW_DATA_VLS;
		h = &in->lane[ivl];
		if (unlikely(!copy_out(out, (unsigned int)vl, h, h->kind == SW_MCAST))) {
			block_lanes(sw, out, (uint16_t)(1u << vl));
			tired |= (uint16_t)(1u << vl);
			ready &= (uint16_t)~tired;
			continue;
		}
		moved = true;
		out->last[vl] = id;
		if (!alone)
			ib_vlarb_sent(&out->arb, (uint8_t)vl, h->f.len + IB_VCRC_LEN);
		out->head[vl] = h->next;
		if (h->next == SW_END) {
			out->want &= (uint16_t)~(1u << vl);
			ready &= (uint16_t)~(1u << vl);
		}
		if (!head_sent(sw, in, h, out))
			continue;
		release(sw, in, ivl, h);
		switch (advance(sw, in, ivl, &dummy)) {
		case SW_UCAST:
			if (h->out == out->num)
				enqueue(sw, out, in->num, ivl);
			break;
		case SW_MCAST:
			list_mcast(sw, in->num, ivl);
			request_mcast(sw, out, in->num, ivl);
			break;
		default:
			break;
		}
		ready = out->want & out->arb_vls & (uint16_t)~tired;
	}
	out->want = 0;
	return moved;
}

/* ---- waiting ------------------------------------------------------------------- */

void sw_count_wait(struct sw *sw, struct sw_port *p)
{
	uint64_t now;

	if (!p->waiting)
		return;
	now = sw_clock(sw);
	p->ctr.xmit_wait += ib_pma_ticks(&p->wait_ns, now);
	for (uint16_t m = p->waiting; m; m &= (uint16_t)(m - 1)) {
		unsigned int vl = (unsigned int)__builtin_ctz(m);

		p->ctr.xmit_wait_vl[vl] += ib_pma_ticks(&p->wait_vl_ns[vl], now);
	}
}

/* The end of a round: begins and ends waits of lanes. */
static void settle_wait(struct sw *sw, struct sw_port *p)
{
	uint16_t sent = p->sent, refused = p->refused, from_now;
	uint64_t now;

	p->sent = 0;
	p->refused = 0;
	if (likely(!(refused | p->waiting)) || (!sent && refused == p->waiting))
		return;
	sw_count_wait(sw, p);
	now = sw_clock(sw);
	if (sent || !p->waiting)
		p->wait_ns = now;
	from_now = refused & (uint16_t)(sent | ~p->waiting);
	for (; from_now; from_now &= (uint16_t)(from_now - 1))
		p->wait_vl_ns[__builtin_ctz(from_now)] = now;
	p->waiting = refused;
}

uint32_t sw_blocked_lanes(const struct sw *sw, unsigned int n)
{
	uint32_t mask = 0;

	if (!sw->blocked)
		return 0;
	for (unsigned int vl = 0; vl < SW_DATA_VLS; vl++)
		if (sw->port[n].lane[vl].blocked_ns)
			mask |= 1u << vl;
	return mask;
}

void sw_forget_heads(struct sw *sw, struct sw_port *p)
{
	for (unsigned int vl = 0; vl < SW_DATA_VLS; vl++) {
		unblock(sw, &p->lane[vl]);
		p->lane[vl].kind = SW_NONE;
		p->lane[vl].started = false;
		p->hoq_drops[vl] = 0;
		if (p->stalled >> vl & 1)
			unstall(sw, p, vl);
	}
}

static bool rx_vl15(struct sw *sw, struct sw_port *p)
{
	struct ohca_link_frame f;
	unsigned int n;

	for (n = 0; n < VL15_BURST && p->up; n++) {
		if (ohca_link_rx_peek(p->link, OHCA_LINK_VL15, &f) <= 0)
			break;
		if (unlikely(damaged(p, &f)))
			ib_pma_count_rcv(&p->ctr, f.len, f.data[1] >> 4, false);
		else
			sw_vl15_rx(sw, p->num, f.data, f.len);
		ohca_link_rx_release(p->link, OHCA_LINK_VL15);
		/* No frame of the link is in use: the link may go down or be freed. */
		sw_link_effects(sw);
	}
	return n > 0;
}

bool sw_round(struct sw *sw)
{
	uint64_t busy[4] = { 0 };
	bool moved = false;

	sw->now_ns = 0;
	sw->first = (uint16_t)(sw->first % sw->nports + 1);
	if (unlikely(sw->ctrl_due)) {
		sw->ctrl_due = false;
		moved = true;
		for (unsigned int i = 1; i <= sw->nports; i++)
			if (sw->port[i].ctrl_due)
				sw_port_ctrl(sw, i);
	}
	if (unlikely(sw->stalled))
		end_stalls(sw);
	/* Management first, because only it takes links down. */
	for (unsigned int i = 1; i <= sw->nports; i++) {
		struct sw_port *p = &sw->port[i];

		p->pending = p->up ? ohca_link_rx_pending(p->link) : 0;
		if (likely(!(p->pending >> OHCA_LINK_VL15)))
			continue;
		moved |= rx_vl15(sw, p);
		/* Frames are left: more than a burst, or a protocol violation. */
		if (p->up && ohca_link_rx_pending(p->link) >> OHCA_LINK_VL15)
			sw_port_ctrl(sw, i);
	}
	for (unsigned int k = 0; k < sw->nports; k++) {
		unsigned int i = (sw->first + k - 1) % sw->nports + 1;
		struct sw_port *p = &sw->port[i];
		uint32_t mask = p->pending & ((1u << SW_DATA_VLS) - 1);

		if (!mask || !p->up)
			continue;
		for (; mask; mask &= mask - 1) {
			unsigned int vl = (unsigned int)__builtin_ctz(mask);
			struct sw_lane *h = &p->lane[vl];

			switch (advance(sw, p, vl, &moved)) {
			case SW_UCAST:
				request(sw, i, vl);
				busy[h->out / 64] |= 1ull << (h->out % 64);
				break;
			case SW_MCAST:
				list_mcast(sw, i, vl);
				for (unsigned int w = 0; w < 4; w++)
					busy[w] |= h->mc[w];
				break;
			default:
				break;
			}
		}
	}
	for (unsigned int w = 0; w < 4; w++)
		for (uint64_t m = busy[w]; m; m &= m - 1)
			moved |= serve(sw, &sw->port[w * 64 + (unsigned int)__builtin_ctzll(m)]);
	forget_mcast(sw);
	moved |= sw_reply_flush(sw);
	for (unsigned int i = 1; i <= sw->nports; i++) {
		struct sw_port *p = &sw->port[i];

		if (p->sent | p->refused | p->waiting)
			settle_wait(sw, p);
		p->ucast = 0;
		if (p->up)
			ohca_link_kick(p->link);
	}
	return moved;
}
