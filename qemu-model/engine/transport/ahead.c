/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Early RDMA WRITEs of RC; see ahead.h. */
#include <string.h>

#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/counters.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/transport/ahead.h"
#include "engine/transport/pool.h"
#include "engine/transport/rx.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

static uint64_t bit_of(uint32_t psn)
{
	return 1ull << (psn % 64);
}

static uint64_t *word_of(struct ohca_ahead *a, uint32_t psn)
{
	return &a->map[psn % OHCA_AHEAD / 64];
}

static uint64_t *again_of(struct ohca_ahead *a, uint32_t psn)
{
	return &a->again[psn % OHCA_AHEAD / 64];
}

static struct ohca_early *packet_of(struct ohca_ahead *a, uint32_t psn)
{
	return &a->pkt[psn % OHCA_AHEAD];
}

static void drop(struct ohca_ahead *a, uint32_t psn)
{
	*word_of(a, psn) &= ~bit_of(psn);
	a->imms -= packet_of(a, psn)->has_imm;
	a->num--;
}

/* Note that the packet with @psn must be sent again. */
static void ask_again(struct ohca_ahead *a, uint32_t psn)
{
	*again_of(a, psn) |= bit_of(psn);
}

void ohca_ahead_overwrite(ohca_engine *e, struct ohca_xport *xp, uint32_t psn,
			  const struct ohca_mr_range *r, uint32_t n)
{
	struct ohca_ahead *a = xp->ahead;
	uint32_t left = a->num;

	for (uint32_t i = 1; left && i < OHCA_AHEAD; i++) {
		const uint32_t later = ib_psn_add(xp->resp.epsn, i);
		const struct ohca_early *p = packet_of(a, later);

		if (!(*word_of(a, later) & bit_of(later)))
			continue;
		left--;
		if (ib_psn_diff(later, psn) <= 0 || p->mr != r->mr ||
		    p->off >= r->off + n || r->off >= p->off + p->len)
			continue;
		drop(a, later);
		ask_again(a, later);
	}
	ohca_work(e, OHCA_AHEAD);
}

/* Write the bytes of an early packet. False: they cannot be written. */
static bool place_early(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
			struct ohca_early *early)
{
	const struct ib_reth *reth = ib_pkt_reth(p->hdr, &p->i);
	const struct ohca_attempt a = ohca_attempt(e);
	const uint32_t n = p->i.payload_len;
	struct ohca_mr_range r;
	struct ohca_missing m;

	if (n > ohca_qp_mtu(qp) || ib_be32(reth->dmalen) != n ||
	    !(qp->access & OHCA_ACCESS_REMOTE_WRITE))
		return false;
	early->mr = NULL;
	if (!n)
		return true;
	if (ohca_rkey_check(e, qp, qp->pd, ib_be32(reth->rkey), ib_be64(reth->va), n,
			    OHCA_ACCESS_REMOTE_WRITE, &r))
		return false;
	ohca_ahead_overwrite(e, qp->xp, p->i.psn, &r, n);
	early->mr = r.mr;
	early->off = r.off;
	early->len = (uint16_t)n;
	if (!(p->view ? ohca_mr_write_view(e, &r, p->view, &m) :
			ohca_mr_write(e, &r, 0, p->payload, n, &m)))
		return true;
	ohca_attempt_failed(e, &a);
	return false;
}

bool ohca_ahead_take(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p, uint32_t diff)
{
	const struct ib_immdt *imm = ib_pkt_immdt(p->hdr, &p->i);
	const uint32_t kind = IB_OPF_WRITE | IB_OPF_ONLY;
	struct ohca_xport *xp = qp->xp;
	struct ohca_early early = { .se = p->i.se, .ackreq = p->i.ackreq,
				    .has_imm = imm != NULL };
	struct ohca_ahead *a;

	if (!ohca_ahead_allowed(e, qp, p->i.sl) || (p->i.op->flags & kind) != kind ||
	    diff >= OHCA_AHEAD)
		return false;
	if (!xp->ahead)
		xp->ahead = ohca_ahead_get(e);
	a = xp->ahead;
	if (!a)
		return false;
	if (*word_of(a, p->i.psn) & bit_of(p->i.psn)) {
		ohca_count_qp(e, qp, OHCA_CNT_RX_DUP);
		return true;
	}
	/* to take a receive WQE with tags, the responder needs the packet */
	if ((imm && (xp->rndv || a->imms == OHCA_AHEAD_IMMS)) || !place_early(e, qp, p, &early)) {
		ask_again(a, p->i.psn);
		return true;
	}
	if (imm)
		memcpy(&early.imm, &imm->imm, sizeof(early.imm));
	*packet_of(a, p->i.psn) = early;
	*word_of(a, p->i.psn) |= bit_of(p->i.psn);
	*again_of(a, p->i.psn) &= ~bit_of(p->i.psn);
	a->num++;
	a->imms += early.has_imm;
	return true;
}

void ohca_ahead_reset(ohca_engine *e, struct ohca_xport *xp)
{
	if (xp->ahead)
		ohca_ahead_put(e, xp->ahead);
	xp->ahead = NULL;
}

void ohca_ahead_end(ohca_engine *e, struct ohca_xport *xp)
{
	const struct ohca_ahead *a = xp->ahead;

	if (!a || a->num)
		return;
	for (unsigned int i = 0; i < OHCA_AHEAD / 64; i++)
		if (a->again[i])
			return;
	ohca_ahead_reset(e, xp);
}

bool ohca_ahead_next(struct ohca_xport *xp, struct ohca_early *p)
{
	const uint32_t psn = xp->resp.epsn;
	struct ohca_ahead *a = xp->ahead;

	if (!(*word_of(a, psn) & bit_of(psn)))
		return false;
	*p = *packet_of(a, psn);
	drop(a, psn);
	return true;
}

void ohca_ahead_skip(ohca_engine *e, struct ohca_xport *xp, uint32_t next)
{
	const uint32_t psn = xp->resp.epsn, all = (uint32_t)ib_psn_diff(next, psn);
	struct ohca_ahead *a = xp->ahead;

	for (uint32_t i = 1; i < all && i < OHCA_AHEAD; i++) {
		const uint32_t later = ib_psn_add(psn, i);

		if (*word_of(a, later) & bit_of(later))
			drop(a, later);
		*again_of(a, later) &= ~bit_of(later);
	}
	ohca_work(e, OHCA_AHEAD);
}

bool ohca_ahead_again(struct ohca_xport *xp)
{
	struct ohca_ahead *a = xp->ahead;
	const uint32_t psn = xp->resp.epsn;

	if (!(*again_of(a, psn) & bit_of(psn)))
		return false;
	/* after the NAK the requester sends all packets from here on */
	memset(a->again, 0, sizeof(a->again));
	return true;
}
