/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * READs, atomics, FLUSHes and ATOMIC WRITEs at the responder: execution, ring of responses,
 * duplicates (IBTA vol 1, 9.7.4.2, 9.7.5, annex A19).
 */
#include <string.h>

#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/mem.h"
#include "engine/object/counters.h"
#include "engine/object/fault.h"
#include "engine/object/mr_access.h"
#include "engine/object/xrc.h"
#include "engine/transport/persist.h"
#include "engine/transport/pool.h"
#include "engine/transport/responder.h"
#include "engine/transport/responder_priv.h"
#include "engine/transport/suspend.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

/* ---- resources --------------------------------------------------------------------- */

int ohca_resp_alloc(ohca_engine *e, struct ohca_qp *qp)
{
	struct ohca_xport *xp = qp->xp;
	uint8_t cap = qp->max_dest_rd_atomic;
	struct ohca_atomic_res *at;

	if (cap <= xp->at_cap)
		return 0;
	if (!xp->at_cap && !ohca_mem_reserve(e, sizeof(struct ohca_rdring)))
		return -1;
	at = ohca_mem_resize(e, xp->at, xp->at_cap * sizeof(*at), cap * sizeof(*at));
	if (!at) {
		if (!xp->at_cap)
			ohca_mem_release(e, sizeof(struct ohca_rdring));
		return -1;
	}
	memset(at + xp->at_cap, 0, (cap - xp->at_cap) * sizeof(*at));
	xp->at = at;
	xp->at_cap = cap;
	return 0;
}

void ohca_resp_free(ohca_engine *e, struct ohca_xport *xp)
{
	ohca_mem_put(e, xp->at, xp->at_cap * sizeof(*xp->at));
	if (xp->at_cap)
		ohca_mem_release(e, sizeof(struct ohca_rdring));
	xp->at = NULL;
	xp->at_cap = 0;
}

void ohca_rd_clear(ohca_engine *e, struct ohca_xport *xp)
{
	ohca_suspend_forget(e, xp, OHCA_FAULT_READ);
	if (xp->resp.rd)
		ohca_rdring_put(e, xp->resp.rd);
	xp->resp.rd = NULL;
	xp->resp.rd_num = 0;
	xp->resp.rd_head = 0;
}

void ohca_rd_pop(ohca_engine *e, struct ohca_xport *xp)
{
	xp->resp.rd_head = (uint8_t)((xp->resp.rd_head + 1) & (OHCA_RD_RING - 1));
	if (--xp->resp.rd_num == 0)
		ohca_rd_clear(e, xp);
}

/*
 * Whether there are resources for one more response; @dup: to a duplicate request. If a new request
 * exceeds them, the requester has received the response to the oldest duplicate already, so that
 * one is dropped.
 */
static bool rd_room(ohca_engine *e, const struct ohca_qp *qp, bool dup)
{
	struct ohca_xport *xp = qp->xp;
	uint8_t i;

	if (xp->resp.rd_num < qp->max_dest_rd_atomic && xp->resp.rd_num < OHCA_RD_RING)
		return true;
	if (dup)
		return false;
	for (i = 0; i < xp->resp.rd_num && !rd_at(xp, i)->dup; i++)
		;
	if (i == xp->resp.rd_num)
		return false;
	/* the first response may wait for a page */
	if (i == 0)
		ohca_suspend_forget(e, xp, OHCA_FAULT_READ);
	for (; i + 1 < xp->resp.rd_num; i++)
		*rd_at(xp, i) = *rd_at(xp, i + 1);
	xp->resp.rd_num--;
	return true;
}

int ohca_resp_pd(ohca_engine *e, const struct ohca_qp *qp, uint32_t srqn, const struct ohca_pd **pd)
{
	struct ohca_srq *srq;
	int ve;

	*pd = qp->pd;
	if (!qp->xrcd)
		return OHCA_VE_NONE;
	ve = ohca_xrc_srq(e, qp, srqn, &srq);
	if (!ve)
		*pd = srq->pd;
	return ve;
}

/* ---- READ and atomics ---------------------------------------------------------------- */

/* Insert a response into the ring, in order of PSNs. False: the ring is full, or no memory. */
static bool rd_insert(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rd *r)
{
	struct ohca_xport *xp = qp->xp;
	uint8_t i;

	if (!rd_room(e, qp, r->dup))
		return false;
	if (!xp->resp.rd)
		xp->resp.rd = ohca_rdring_get(e);
	if (!xp->resp.rd)
		return false;
	for (i = xp->resp.rd_num; i && ib_psn_diff(rd_at(xp, i - 1)->first, r->first) > 0; i--)
		*rd_at(xp, i) = *rd_at(xp, i - 1);
	if (i == 0)
		ohca_suspend_forget(e, xp, OHCA_FAULT_READ);
	*rd_at(xp, i) = *r;
	xp->resp.rd_num++;
	return true;
}

/* Check a READ request, with its key in @pd, and fill in its response. */
static struct ohca_outcome read_request(ohca_engine *e, const struct ohca_qp *qp,
					const struct ohca_pd *pd, const struct ohca_rxpkt *p,
				   struct ohca_rd *rd)
{
	const struct ib_reth *reth = ib_pkt_reth(p->hdr, &p->i);
	struct ohca_mr_range r;
	int ve;

	memset(rd, 0, sizeof(*rd));
	rd->va = ib_be64(reth->va);
	rd->rkey = ib_be32(reth->rkey);
	rd->length = ib_be32(reth->dmalen);
	rd->srqn = xrc_srqn(p);
	if (!(qp->access & OHCA_ACCESS_REMOTE_READ))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	if (rd->length > OHCA_MAX_MSG)
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (rd->length) {
		ve = ohca_rkey_check(e, qp, pd, rd->rkey, rd->va, rd->length,
				     OHCA_ACCESS_REMOTE_READ, &r);
		if (ve)
			return ohca_vd_nak(IB_NAK_REM_ACCESS, 0, (uint16_t)ve,
					   OHCA_EVENT_QP_ACCESS_ERR);
	}
	rd->first = rd->next = p->i.psn;
	rd->last = ib_psn_add(p->i.psn, ohca_npkts(qp, rd->length) - 1);
	rd->msn = ib_psn_add(qp->xp->resp.msn, 1);
	return ohca_vd(OHCA_VD_OK);
}

struct ohca_outcome ohca_resp_read(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
				   uint32_t *next)
{
	struct ohca_rd rd;
	struct ohca_outcome v = read_request(e, qp, qp->pd, p, &rd);

	if (v.verdict != OHCA_VD_OK)
		return v;
	if (!rd_insert(e, qp, &rd))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_SIZE, OHCA_EVENT_QP_REQ_ERR);
	*next = ib_psn_add(rd.last, 1);
	return ohca_vd(OHCA_VD_OK);
}

/* Operation and operands of an atomic request. */
static struct ohca_atomic atomic_operands(const struct ohca_rxpkt *p)
{
	const struct ib_atomic_eth *eth = ib_pkt_atomic(p->hdr, &p->i);
	struct ohca_atomic a = {
		.swap_add = ib_be64(eth->swap_add), .compare = ib_be64(eth->compare),
	};

	switch (p->i.opcode) {
	case IB_OP_OHCA_MASKED_CMP_SWAP:
		a.op = OHCA_OP_MASKED_CMP_SWAP;
		break;
	case IB_OP_OHCA_MASKED_FETCH_ADD:
		a.op = OHCA_OP_MASKED_FETCH_ADD;
		break;
	case IB_OP_RC_CMP_SWAP:
	case IB_TRANS_XRC | IB_OPN_CMP_SWAP:
		a.op = OHCA_OP_CMP_SWAP;
		break;
	default:
		a.op = OHCA_OP_FETCH_ADD;
	}
	if (p->i.op->flags & IB_OPF_MASKED) {
		const struct ib_masked_atomic_eth *m = ib_pkt_masked_atomic(p->hdr, &p->i);

		a.swap_mask = ib_be64(m->swap_mask);
		a.compare_mask = ib_be64(m->compare_mask);
	}
	return a;
}

struct ohca_outcome ohca_resp_atomic(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
				     struct ohca_missing *m)
{
	const struct ib_atomic_eth *eth = ib_pkt_atomic(p->hdr, &p->i);
	const struct ohca_atomic a = atomic_operands(p);
	struct ohca_xport *xp = qp->xp;
	struct ohca_mr_range r;
	struct ohca_rd rd;
	uint64_t va = ib_be64(eth->va);
	int ve;

	if (p->i.op->flags & IB_OPF_MASKED && !ohca_feature(e, OHCA_FEATURE_EXT_ATOMIC))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_OPCODE, OHCA_EVENT_QP_REQ_ERR);
	if (!(qp->access & OHCA_ACCESS_REMOTE_ATOMIC))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	if (!rd_room(e, qp, false))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_SIZE, OHCA_EVENT_QP_REQ_ERR);
	if (va & 7)
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_ALIGN, OHCA_EVENT_QP_REQ_ERR);
	ve = ohca_rkey_check(e, qp, qp->pd, ib_be32(eth->rkey), va, 8, OHCA_ACCESS_REMOTE_ATOMIC,
			     &r);
	if (ve)
		return ohca_vd_nak(IB_NAK_REM_ACCESS, 0, (uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);
	memset(&rd, 0, sizeof(rd));
	ve = ohca_mr_atomic(e, &r, &a, &rd.orig, m);
	if (ve == OHCA_MR_FAULT)
		return ohca_vd(OHCA_VD_FAULT);
	if (ve)
		return ohca_vd_nak(IB_NAK_REM_OP, 0, OHCA_VE_DMA, OHCA_EVENT_QP_FATAL);
	rd.atomic = true;
	rd.first = rd.next = rd.last = p->i.psn;
	rd.msn = ib_psn_add(xp->resp.msn, 1);
	rd_insert(e, qp, &rd);
	xp->at_pos = (uint8_t)((xp->at_pos + 1) % xp->at_cap);
	xp->at[xp->at_pos] = (struct ohca_atomic_res){
		.orig = rd.orig, .psn = rd.first, .valid = true,
	};
	return ohca_vd(OHCA_VD_OK);
}

/* ---- memory placement (annex A19) ------------------------------------------------------ */

/* The response to a FLUSH or ATOMIC WRITE: a READ response without data. */
static struct ohca_rd empty_resp(const struct ohca_rxpkt *p, uint32_t msn)
{
	return (struct ohca_rd){ .first = p->i.psn, .next = p->i.psn, .last = p->i.psn,
				 .msn = msn };
}

/*
 * All earlier writes are in memory, also those that may arrive in any order (ahead.h). So a FLUSH
 * for visibility is a fence. For persistence the host flushes the memory, and the requester may
 * have to repeat the FLUSH.
 */
struct ohca_outcome ohca_resp_flush(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	const struct ib_feth *feth = ib_pkt_feth(p->hdr, &p->i);
	const struct ib_reth *reth = ib_pkt_reth(p->hdr, &p->i);
	uint8_t type = ib_feth_placement(feth), level = ib_feth_level(feth);
	uint32_t len = ib_be32(reth->dmalen), rkey = ib_be32(reth->rkey), access = 0;
	struct ohca_mr_range r = { 0 };
	struct ohca_rd rd;
	int ve = 0;

	if (type & OHCA_FLUSH_GLOBAL)
		access |= OHCA_ACCESS_FLUSH_GLOBAL;
	if (type & OHCA_FLUSH_PERSISTENT)
		access |= OHCA_ACCESS_FLUSH_PERSISTENT;
	if (!access || type & ~(OHCA_FLUSH_GLOBAL | OHCA_FLUSH_PERSISTENT) ||
	    level > OHCA_FLUSH_MR || (qp->access & access) != access)
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	if (level == OHCA_FLUSH_MR)
		ve = ohca_rkey_whole(e, qp, qp->pd, rkey, access, &r);
	else if (len)
		ve = ohca_rkey_check(e, qp, qp->pd, rkey, ib_be64(reth->va), len, access, &r);
	if (ve)
		return ohca_vd_nak(IB_NAK_REM_ACCESS, 0, (uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);
	if (!rd_room(e, qp, false))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_SIZE, OHCA_EVENT_QP_REQ_ERR);
	atomic_thread_fence(memory_order_seq_cst);
	if (type & OHCA_FLUSH_PERSISTENT && r.mr &&
	    !ohca_persist(e, qp->xp, p->i.psn, rkey, &r))
		return ohca_vd(OHCA_VD_BUSY);
	rd = empty_resp(p, ib_psn_add(qp->xp->resp.msn, 1));
	rd_insert(e, qp, &rd);
	return ohca_vd(OHCA_VD_OK);
}

struct ohca_outcome ohca_resp_atomic_write(ohca_engine *e, struct ohca_qp *qp,
					   const struct ohca_rxpkt *p, struct ohca_missing *m)
{
	const struct ib_reth *reth = ib_pkt_reth(p->hdr, &p->i);
	struct ohca_mr_range r;
	struct ohca_rd rd;
	uint64_t va = ib_be64(reth->va), val;
	int ve;

	if (!(qp->access & OHCA_ACCESS_REMOTE_WRITE))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_ACCESS, OHCA_EVENT_QP_REQ_ERR);
	if (p->i.payload_len != sizeof(val) || ib_be32(reth->dmalen) != sizeof(val))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_LENGTH, OHCA_EVENT_QP_REQ_ERR);
	if (va & 7)
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_ALIGN, OHCA_EVENT_QP_REQ_ERR);
	if (!rd_room(e, qp, false))
		return ohca_vd_nak(IB_NAK_INV_REQ, 0, OHCA_VE_WQE_SIZE, OHCA_EVENT_QP_REQ_ERR);
	ve = ohca_rkey_check(e, qp, qp->pd, ib_be32(reth->rkey), va, sizeof(val),
			     OHCA_ACCESS_REMOTE_WRITE, &r);
	if (ve)
		return ohca_vd_nak(IB_NAK_REM_ACCESS, 0, (uint16_t)ve, OHCA_EVENT_QP_ACCESS_ERR);
	memcpy(&val, p->payload, sizeof(val));
	ve = ohca_mr_write8(e, &r, &val, m);
	if (ve == OHCA_MR_FAULT)
		return ohca_vd(OHCA_VD_FAULT);
	if (ve)
		return ohca_vd_nak(IB_NAK_REM_OP, 0, OHCA_VE_DMA, OHCA_EVENT_QP_FATAL);
	rd = empty_resp(p, ib_psn_add(qp->xp->resp.msn, 1));
	rd_insert(e, qp, &rd);
	return ohca_vd(OHCA_VD_OK);
}

/* ---- RC: duplicates -------------------------------------------------------------------- */

/*
 * Whether the duplicate READ @rd requests a part of @o, whose first PSN is not after that of @rd.
 */
static bool rd_part(const struct ohca_qp *qp, const struct ohca_rd *rd, const struct ohca_rd *o)
{
	uint64_t off = (uint64_t)ib_psn_diff(rd->first, o->first) * ohca_qp_mtu(qp);

	return !o->atomic && rd->rkey == o->rkey && rd->srqn == o->srqn &&
	       rd->va == o->va + off && off + rd->length <= o->length;
}

/*
 * A duplicate READ: answer again, from its PSN (9.7.4.2). If the first response is still under way,
 * the duplicate must request a part of it. Earlier READs are not stored, so for their duplicates
 * only the key is checked.
 */
static void dup_read(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	const struct ohca_pd *pd;
	struct ohca_rd rd;
	struct ohca_outcome v;

	if (ohca_resp_pd(e, qp, xrc_srqn(p), &pd))
		return;
	v = read_request(e, qp, pd, p, &rd);
	/* it must not include PSNs that were not requested */
	if (v.verdict != OHCA_VD_OK || ib_psn_diff(rd.last, xp->resp.epsn) >= 0)
		return;
	rd.msn = xp->resp.msn;
	for (uint8_t i = 0; i < xp->resp.rd_num; i++) {
		struct ohca_rd *o = rd_at(xp, i);

		if (ib_psn_diff(rd.first, o->first) >= 0 && ib_psn_diff(rd.first, o->last) <= 0) {
			if (rd_part(qp, &rd, o)) {
				rd.dup = o->dup;
				*o = rd;
			}
			return;
		}
	}
	rd.dup = true;
	rd_insert(e, qp, &rd);
}

static void dup_atomic(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_rd rd = { .atomic = true, .dup = true, .first = p->i.psn, .next = p->i.psn,
			      .last = p->i.psn, .msn = xp->resp.msn };

	for (uint8_t i = 0; i < xp->resp.rd_num; i++)
		if (rd_at(xp, i)->first == p->i.psn)
			return;
	/* from the newest to the oldest, because PSNs wrap and old results may have the same PSN */
	for (uint8_t i = 0; i < xp->at_cap; i++) {
		const struct ohca_atomic_res *at =
			&xp->at[(xp->at_pos + xp->at_cap - i) % xp->at_cap];

		if (at->valid && at->psn == p->i.psn) {
			rd.orig = at->orig;
			rd_insert(e, qp, &rd);
			return;
		}
	}
}

/* A duplicate FLUSH or ATOMIC WRITE is only answered: it must not undo a later write (A19.4). */
static void dup_placement(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;
	struct ohca_rd rd = empty_resp(p, xp->resp.msn);

	for (uint8_t i = 0; i < xp->resp.rd_num; i++)
		if (rd_at(xp, i)->first == p->i.psn)
			return;
	rd.dup = true;
	rd_insert(e, qp, &rd);
}

void ohca_resp_duplicate(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	struct ohca_xport *xp = qp->xp;

	ohca_count_qp(e, qp, OHCA_CNT_RX_DUP);
	if (p->i.op->flags & IB_OPF_READ)
		dup_read(e, qp, p);
	else if (p->i.op->flags & IB_OPF_ATOMIC)
		dup_atomic(e, qp, p);
	else if (p->i.op->flags & (IB_OPF_FLUSH | IB_OPF_ATOMIC_WRITE))
		dup_placement(e, qp, p);
	else if (p->i.op->flags & IB_OPF_END || p->i.ackreq)
		xp->resp.ack_due = true;
}
