// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Flows, see flow.h. A flow is found by the same tests that fab_decide() makes, without their
 * effects. It depends on tables, states and faults, all of which change the version of the data
 * path. What may change without that is checked for each packet: captures, and packets that wait.
 */
#include "flow.h"
#include "buffer.h"
#include "decide.h"
#include "gsi.h"
#include "hop.h"
#include "hport_priv.h"
#include "wait.h"

#include <stdlib.h>
#include <string.h>

/* Whether @dp does not filter packets with @pkey. */
static bool partition_ok(const struct fab_data *d, struct fab_dport *dp, uint16_t pkey,
			 bool inbound)
{
	const struct ib_port_info *pi = &d->f->port[dp->p].pi;

	return !(inbound ? pi->part_enf_in : pi->part_enf_out) ||
	       fab_pkey_in_table(dp, pkey, inbound);
}

/* Whether a wire has no rate, and no active fault, also none whose state changes with time. */
static bool does_nothing(const struct fab_fault *x)
{
	return !x || !(x->loss | x->corrupt | x->delay_ns | x->marginal | x->byte_fs | x->error_bits | x->stalls);
}

/*
 * Fill in @hop of @fl, which begins at lane @vl of @in. Return: the input of the next hop, or NULL.
 */
static struct fab_dport *find_hop(struct fab_data *d, struct fab_flow *fl, struct fab_dport *in,
				  uint8_t vl, struct fab_flow_hop *hop)
{
	const struct fab_node *n = &d->f->node[d->f->port[in->p].node];
	struct fab_dport *out;
	unsigned int num;
	int out_vl;

	if (!in->is_switch || !in->receives || !in->active || in->link ||
	    !partition_ok(d, in, fl->pkey, true))
		return NULL;
	num = fab_route(d->f, n, fl->dlid);
	if (!num || num > n->nports || num == in->num ||
	    fab_adaptive_varies(d->f, &d->f->sw[n->sw], fl->dlid, fl->sl, num))
		return NULL;
	out = fab_dport(d, fab_port_of(n, num));
	if (!out || !out->up || !out->active || out->link || !does_nothing(out->fault) ||
	    fab_gmp_faulty(d, out) ||
	    !partition_ok(d, out, fl->pkey, false))
		return NULL;
	out_vl = ib_sl2vl_lookup(fab_sl2vl(d->f, n, in->num, num), fl->sl, out->nvls);
	if (out_vl < 0 || !(out->arb_vls >> out_vl & 1))
		return NULL;
	*hop = (struct fab_flow_hop){ in, out, vl, (uint8_t)out_vl };
	if (in->max_len < fl->max_len)
		fl->max_len = in->max_len;
	if (out->max_len < fl->max_len)
		fl->max_len = out->max_len;
	return out->hport ? out : out->peer;
}

/* Find the hops of @fl, whose key is set. */
static void flow_find(struct fab_hport *h, struct fab_flow *fl)
{
	struct fab_data *d = h->d;
	struct fab_dport *in = h->dp;
	uint8_t vl = fl->vl;

	fl->version = d->version;
	fl->max_len = OHCA_LINK_MAX_FRAME;
	fl->hops = 0;
	if (!does_nothing(in->rx_fault) || fab_gmp_faulty(d, in))
		return;
	for (unsigned int i = 0; i < FAB_FLOW_HOPS; i++) {
		struct fab_flow_hop *hop = &fl->hop[i];
		struct fab_dport *next = find_hop(d, fl, in, vl, hop);

		if (!next)
			return;
		if (next == hop->out) {
			fl->hops = (uint8_t)(i + 1);
			return;
		}
		in = next;
		vl = hop->out_vl;
	}
}

/*
 * Whether no packet waits at @hop, no tap is there, and none is on its way over a wire that had a
 * delay.
 */
static bool is_free(const struct fab_data *d, const struct fab_flow_hop *hop)
{
	const struct fab_lane *l = &hop->in->lane[hop->in_vl];
	const struct fab_dport *out = hop->out;

	return !hop->in->tap && !out->tap && !l->first && !l->passing && !l->used &&
	       !(out->want | out->refused | out->waiting) && !(out->stalled >> hop->out_vl & 1) &&
	       (!d->flying || (!hop->in->flight[false] && !out->flight[true]));
}

/* The slot of the flow with this key. The VL follows from the SL. */
static unsigned int slot(uint16_t dlid, uint16_t pkey, uint8_t sl)
{
	const uint32_t key = (uint32_t)pkey << 16 | dlid;

	return ((key ^ (uint32_t)sl << 12) * 2654435761u) >> 16 & (FAB_FLOWS - 1);
}

const struct fab_hport *fab_flow_end(const struct fab_hport *h, const uint8_t *lrh, uint16_t pkey)
{
	const uint16_t dlid = ib_get_be16(lrh + 2);
	const uint8_t sl = lrh[1] >> 4;
	const struct fab_flow *fl;

	if (!h->flow)
		return NULL;
	fl = &h->flow[slot(dlid, pkey, sl)];
	if (fl->version != h->d->version || fl->dlid != dlid || fl->sl != sl || fl->pkey != pkey ||
	    !fl->hops)
		return NULL;
	return fl->hop[fl->hops - 1].out->hport;
}

const struct fab_flow *fab_flow_ready(struct fab_hport *h, unsigned int vl,
				      const struct fab_frame *f, unsigned int n)
{
	const uint16_t dlid = ib_get_be16(f->lrh + 2);
	const unsigned int lnh = f->lrh[1] & 3;
	const unsigned int bth = IB_LRH_LEN + (lnh == IB_LNH_IBA_GLOBAL ? IB_GRH_LEN : 0);
	const uint8_t sl = f->lrh[1] >> 4;
	const struct fab_flow_hop *last;
	struct fab_flow *fl;
	uint16_t pkey;

	if (fab_unlikely(!h->flow || lnh < IB_LNH_IBA_LOCAL || !dlid || dlid >= IB_LID_MCAST_MIN ||
			 f->lrh[0] != vl << 4 ||
			 4u * (ib_get_be16(f->lrh + 4) & 0x7ff) != f->len ||
			 f->len < bth + IB_BTH_LEN + IB_ICRC_LEN))
		return NULL;
	pkey = ib_get_be16(f->data + bth + 2);
	fl = &h->flow[slot(dlid, pkey, sl)];
	if (fab_unlikely(fl->version != h->d->version || fl->dlid != dlid || fl->sl != sl ||
			 fl->pkey != pkey || fl->vl != vl)) {
		fl->dlid = dlid;
		fl->sl = sl;
		fl->vl = (uint8_t)vl;
		fl->pkey = pkey;
		flow_find(h, fl);
	}
	if (!fl->hops || f->len > fl->max_len)
		return NULL;
	for (unsigned int i = 0; i < fl->hops; i++)
		if (!is_free(h->d, &fl->hop[i]))
			return NULL;
	last = &fl->hop[fl->hops - 1];
	return fab_hport_takes(last->out->hport, last->out_vl, n, f->len) ? fl : NULL;
}

void fab_flow_send(struct fab_data *d, const struct fab_flow *fl, struct fab_frame *f)
{
	const struct fab_flow_hop *last = &fl->hop[fl->hops - 1];
	const unsigned int n = f->view ? f->view->packets : 1;

	for (unsigned int i = 0; i < fl->hops; i++) {
		const struct fab_flow_hop *hop = &fl->hop[i];

		ib_pma_count_rcvs(hop->in->ctr, n, f->len, fl->sl);
		ib_pma_count_xmits(hop->out->ctr, n, f->len, fl->sl);
		hop->out->hoq_drops[hop->out_vl] = 0;
		hop->out->sent |= (uint16_t)(1u << hop->out_vl);
		fab_touch(d, hop->out);
	}
	d->n.hops += (uint64_t)n * (fl->hops - 1);
	fab_copy_head(d->scratch[0], f, last->out_vl);
	fab_commit(d, last->out, last->out_vl, d->scratch[0], f->view, f->len, 0, false, false);
}
