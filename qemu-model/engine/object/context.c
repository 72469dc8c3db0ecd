/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QUERY_CONTEXT: the device's state of an object, for debugging. */
#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/object/context.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/eq.h"
#include "engine/object/mr.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "engine/object/to_transport.h"
#include "engine/object/xrc.h"
#include "ohca_hw.h"

#define FLAG(cond, bit)	((uint8_t)((cond) ? (bit) : 0))

static int eq_context(struct ohca_cmd *c, uint32_t handle)
{
	const struct ohca_eq *eq = ohca_eq_get(c->e, handle);
	struct ohca_hw_eq_context x = { 0 };

	if (!eq)
		return OHCA_ADMIN_BAD_HANDLE;
	x.eqn = ohca_to_le32(eq->eqn);
	x.pi = ohca_to_le32(eq->pi);
	x.ci = ohca_to_le32(eq->ci);
	x.refs = ohca_to_le32(eq->refs);
	x.vector = ohca_to_le16(eq->vector);
	x.log_size = eq->log_size;
	x.kind = eq->kind;
	x.flags = FLAG(eq->armed, OHCA_EQC_ARMED) |
		  FLAG(!ohca_list_empty(&eq->deferred), OHCA_EQC_BACKLOG);
	return ohca_cmd_mbox_write(c, OHCA_AT(query_context.addr), 0, &x, sizeof(x));
}

static int cq_context(struct ohca_cmd *c, uint32_t handle)
{
	const struct ohca_cq *cq = ohca_cq_get(c->e, handle);
	struct ohca_hw_cq_context x = { 0 };

	if (!cq)
		return OHCA_ADMIN_BAD_HANDLE;
	x.cqn = ohca_to_le32(cq->cqn);
	x.uar = ohca_to_le32(cq->uar);
	x.eqn = ohca_to_le32(cq->eq->eqn);
	x.refs = ohca_to_le32(cq->refs);
	x.pi = ohca_to_le32(cq->pi);
	x.ci = ohca_to_le32(cq->ci);
	x.solicited_pi = ohca_to_le32(cq->sol_pi);
	x.told_pi = ohca_to_le32(cq->told);
	x.events = ohca_to_le32(cq->fired);
	x.mod_count = ohca_to_le16(cq->mod_count);
	x.mod_period_us = ohca_to_le16(cq->mod_period);
	x.log_size = cq->log_size;
	x.arm_sn = cq->arm_sn;
	x.flags = FLAG(cq->armed, OHCA_CQC_ARMED) | FLAG(cq->arm_sol, OHCA_CQC_SOLICITED) |
		  FLAG(cq->error, OHCA_CQC_ERROR) | FLAG(cq->eqe_out, OHCA_CQC_EQE_OUT) |
		  FLAG(cq->eqe_due, OHCA_CQC_EQE_DUE);
	return ohca_cmd_mbox_write(c, OHCA_AT(query_context.addr), 0, &x, sizeof(x));
}

static int srq_context(struct ohca_cmd *c, uint32_t handle)
{
	const struct ohca_srq *srq = ohca_feature(c->e, OHCA_FEATURE_SRQ) ?
				     ohca_srq_get(c->e, handle) : NULL;
	struct ohca_hw_srq_context x = { 0 };

	if (!srq)
		return OHCA_ADMIN_BAD_HANDLE;
	x.srqn = ohca_to_le32(srq->srqn);
	x.uar = ohca_to_le32(srq->uar);
	x.pdn = ohca_to_le32(srq->pd->pdn);
	x.refs = ohca_to_le32(srq->refs);
	x.ci = ohca_to_le32(srq->ci);
	x.limit = ohca_to_le32(srq->limit);
	x.log_size = srq->log_size;
	x.log_stride = srq->log_stride;
	x.flags = FLAG(srq->error, OHCA_SRQC_ERROR);
	return ohca_cmd_mbox_write(c, OHCA_AT(query_context.addr), 0, &x, sizeof(x));
}

static int qp_context(struct ohca_cmd *c, uint32_t handle)
{
	const struct ohca_qp *qp = ohca_qp_get(c->e, handle);
	struct ohca_hw_qp_context x = { 0 };

	if (!qp)
		return OHCA_ADMIN_BAD_HANDLE;
	x.handle = ohca_to_le32(qp->handle);
	x.wire_qpn = ohca_to_le32(qp->wire_qpn);
	if (qp->xrcd) {
		x.srqn = ohca_to_le32(qp->xrcd->xrcdn);
	} else {
		x.uar = ohca_to_le32(qp->uar);
		x.pdn = ohca_to_le32(qp->pd->pdn);
		x.send_cqn = ohca_to_le32(qp->scq->cqn);
		x.recv_cqn = ohca_to_le32(qp->rcq->cqn);
		x.srqn = ohca_to_le32(qp->srq ? qp->srq->srqn : 0);
	}
	x.counters = ohca_to_le32(qp->counters ? qp->counters->n : 0);
	x.rq_ci = ohca_to_le32(qp->rq_ci);
	x.dest_qpn = ohca_to_le32(qp->dest_qpn);
	x.mcast_refs = ohca_to_le32(qp->mcast_refs);
	x.type = qp->type;
	x.state = qp->state;
	x.flags = qp->flags;
	x.port = qp->handle < OHCA_FIRST_QP || qp->state != OHCA_QPS_RESET ? qp->port + 1 : 0;
	x.log_sq = qp->log_sq;
	x.log_rq = qp->log_rq;
	ohca_xp_context(qp, &x);
	return ohca_cmd_mbox_write(c, OHCA_AT(query_context.addr), 0, &x, sizeof(x));
}

static int mr_context(struct ohca_cmd *c, uint32_t key)
{
	const struct ohca_mr *mr = ohca_mr_by_index(c->e, key);
	struct ohca_hw_mr_context x = { 0 };

	if (!mr)
		return OHCA_ADMIN_BAD_HANDLE;
	x.key = ohca_to_le32(mr->key);
	x.pdn = ohca_to_le32(mr->pd->pdn);
	x.iova = ohca_to_le64(mr->iova);
	x.length = ohca_to_le64(mr->length);
	x.pl_offset = ohca_to_le64(mr->pl_offset);
	x.access = ohca_to_le32(mr->access);
	x.npages = ohca_to_le32(mr->pages.npages);
	x.max_pages = ohca_to_le32(mr->max_pages);
	x.refs = ohca_to_le32(mr->refs);
	x.bound = ohca_to_le32(mr->bound ? mr->bound->key : 0);
	x.type = mr->type;
	x.page_shift = mr->pages.shift;
	x.flags = FLAG(mr->valid, OHCA_MRC_VALID);
	return ohca_cmd_mbox_write(c, OHCA_AT(query_context.addr), 0, &x, sizeof(x));
}

int ohca_cmd_query_context(struct ohca_cmd *c)
{
	static int (*const read[])(struct ohca_cmd *c, uint32_t handle) = {
		[OHCA_CONTEXT_EQ] = eq_context,
		[OHCA_CONTEXT_CQ] = cq_context,
		[OHCA_CONTEXT_SRQ] = srq_context,
		[OHCA_CONTEXT_QP] = qp_context,
		[OHCA_CONTEXT_MR] = mr_context,
	};
	const struct ohca_cmd_query_context *cmd = &c->aqe.query_context;

	if (cmd->kind >= sizeof(read) / sizeof(read[0]))
		return OHCA_BAD(c, query_context.kind);
	if (cmd->reserved[0] | cmd->reserved[1] | cmd->reserved[2])
		return OHCA_BAD(c, query_context.reserved);
	return read[cmd->kind](c, ohca_le32(cmd->handle));
}
