/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared receive queues, and how the device takes receive WQEs from an SRQ or a QP's own RQ.
 *
 * The device takes WQEs in the order of posting. It copies and checks a WQE when it takes it, and
 * the slot is free at once.
 */
#include <string.h>

#include "engine/base/async.h"
#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/ids.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/object/cq.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/object/srq.h"
#include "engine/object/tm.h"
#include "engine/object/xrc.h"
#include "ohca_hw.h"

#define DB_OFF(member) (OHCA_DB_OFFSET + offsetof(struct ohca_hw_db, member))

/* ---- taking ----------------------------------------------------------------------- */

/** struct rq - a ring of receive WQEs; @ci: consumer index, which rq_take() advances */
struct rq {
	struct ohca_ring ring;
	uint32_t *ci;
};

/* WQEs posted and not taken; -1: the record is unreadable or its index invalid. */
static int64_t rq_posted(ohca_engine *e, const struct rq *rq)
{
	uint32_t pi;

	if (ohca_pages_load32(e, rq->ring.buf, DB_OFF(rq_pi), &pi))
		return -1;
	if (pi - *rq->ci > 1u << rq->ring.log_size) {
		ohca_count(e, OHCA_CNT_DB_BAD_INDEX);
		return -1;
	}
	return pi - *rq->ci;
}

/* Copy the next WQE and free its slot. As ohca_rwqe_take(); a WQE is posted. */
static int rq_take(ohca_engine *e, const struct rq *rq, struct ohca_rwqe *out)
{
	static const uint8_t no_flags[sizeof(((struct ohca_hw_rwqe_ctrl *)0)->reserved)];
	uint8_t raw[1u << OHCA_MAX_LOG_RQ_STRIDE];
	struct ohca_hw_rwqe_ctrl ctrl;
	uint32_t slot = *rq->ci & ((1u << rq->ring.log_size) - 1);
	uint64_t off = rq->ring.off + ((uint64_t)slot << rq->ring.log_stride);
	uint64_t total = 0;
	size_t len;
	int rc;

	out->wqe_idx = ohca_wqe_idx(e, *rq->ci, rq->ring.log_size);
	out->wr_id = 0;
	out->num_sge = 0;
	out->total = 0;
	out->use = OHCA_USE_PLAIN;
	++*rq->ci;
	/* most WQEs have few SGEs, so of a larger stride read only the first cache line at first */
	rc = ohca_pages_read(e, rq->ring.buf, off, raw, 64);
	if (rc == 0) {
		memcpy(&ctrl, raw, sizeof(ctrl));
		out->wr_id = ohca_le64(ctrl.wr_id);
		len = sizeof(ctrl) + (size_t)ctrl.num_sge * sizeof(struct ohca_hw_sge);
		if (ctrl.num_sge > ohca_rq_stride_sges(rq->ring.log_stride))
			rc = -OHCA_VE_WQE_SIZE;
		else if (len > 64)
			rc = ohca_pages_read(e, rq->ring.buf, off + 64, raw + 64, len - 64) ?
			     -OHCA_VE_WQE_DMA : 0;
		if (!rc && memcmp(ctrl.reserved, no_flags, sizeof(no_flags)) != 0)
			rc = -OHCA_VE_WQE_FLAGS;
	} else {
		rc = -OHCA_VE_WQE_DMA;
	}
	ohca_pages_store32(e, rq->ring.buf, DB_OFF(rq_ci), *rq->ci);
	if (rc)
		return rc;
	for (unsigned int i = 0; i < ctrl.num_sge; i++) {
		struct ohca_hw_sge sge;

		memcpy(&sge, raw + sizeof(ctrl) + i * sizeof(sge), sizeof(sge));
		out->sge[i].addr = ohca_le64(sge.addr);
		out->sge[i].length = ohca_le32(sge.length);
		out->sge[i].lkey = ohca_le32(sge.lkey);
		total += out->sge[i].length;
	}
	if (total > 1u << 31)
		return -OHCA_VE_LENGTH;
	out->num_sge = ctrl.num_sge;
	out->total = (uint32_t)total;
	return 1;
}

static struct rq srq_rq(struct ohca_srq *srq)
{
	return (struct rq){
		.ring = { &srq->buf, OHCA_RQ_RING_OFFSET, srq->log_size, srq->log_stride },
		.ci = &srq->ci,
	};
}

static int srq_take(ohca_engine *e, struct ohca_srq *srq, struct ohca_rwqe *out)
{
	struct rq rq = srq_rq(srq);
	int64_t posted;
	int rc;

	if (srq->error)
		return OHCA_RWQE_NO_RQ;
	posted = rq_posted(e, &rq);
	if (posted < 0) {
		srq->error = true;
		ohca_async_event(e, OHCA_EVENT_SRQ_ERR, &srq->async);
		return OHCA_RWQE_NO_RQ;
	}
	if (posted == 0)
		return 0;
	rc = rq_take(e, &rq, out);
	out->wqe_idx = 0;
	if (srq->limit && posted - 1 < srq->limit) {
		srq->limit = 0;
		ohca_async_event(e, OHCA_EVENT_SRQ_LIMIT, &srq->async);
	}
	return rc;
}

static struct rq qp_rq(struct ohca_qp *qp)
{
	return (struct rq){
		.ring = { &qp->buf, qp->rq_off, qp->log_rq, qp->log_rq_stride },
		.ci = &qp->rq_ci,
	};
}

int ohca_rwqe_take(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *out)
{
	struct rq rq;
	int64_t posted;

	out->from_srq = qp->srq != NULL;
	if (qp->srq)
		return srq_take(e, qp->srq, out);
	if (qp->flags & OHCA_QP_NO_RQ)
		return 0;
	rq = qp_rq(qp);
	posted = rq_posted(e, &rq);
	if (posted <= 0)
		return posted ? OHCA_RWQE_NO_RQ : 0;
	qp->rq_pi = qp->rq_ci + (uint32_t)posted;
	return rq_take(e, &rq, out);
}

int64_t ohca_rq_posted(ohca_engine *e, struct ohca_qp *qp)
{
	struct rq rq = qp_rq(qp);

	return rq_posted(e, &rq);
}

bool ohca_rq_notify(ohca_engine *e, struct ohca_qp *qp, bool want)
{
	struct rq rq;
	uint32_t pi;

	if (qp->srq || (qp->flags & OHCA_QP_NO_RQ))
		return false;
	rq = qp_rq(qp);
	if (ohca_pages_load32(e, &qp->buf, DB_OFF(rq_pi), &pi))
		return false;
	/* posts reach an event index just behind the producer index only after 2^32 posts */
	if (ohca_pages_store32(e, &qp->buf, DB_OFF(rq_event), want ? pi : pi - 1))
		return false;
	/* a post between the load and the store did not ring the doorbell */
	atomic_thread_fence(memory_order_seq_cst);
	return rq_posted(e, &rq) > 0;
}

void ohca_srq_kick(ohca_engine *e, struct ohca_srq *srq)
{
	uint32_t pi;

	if (ohca_pages_load32(e, &srq->buf, DB_OFF(rq_pi), &pi) == 0)
		ohca_pages_store32(e, &srq->buf, DB_OFF(rq_event), pi - 1);
	if (srq->tm)
		ohca_tm_run(e, srq);
}

/* ---- commands --------------------------------------------------------------------- */

/* Check the fields that depend on the SRQ's type, and look up the objects that it needs. */
static int srq_type(struct ohca_cmd *c, struct ohca_srq *srq)
{
	const struct ohca_cmd_create_srq *cmd = &c->aqe.create_srq;
	ohca_engine *e = c->e;

	if (cmd->type > OHCA_SRQT_TM ||
	    (cmd->type == OHCA_SRQT_XRC && !ohca_feature(e, OHCA_FEATURE_XRC)) ||
	    (cmd->type == OHCA_SRQT_TM && !ohca_feature(e, OHCA_FEATURE_TM)))
		return OHCA_BAD(c, create_srq.type);
	if (cmd->type == OHCA_SRQT_TM) {
		if (cmd->log_ops > OHCA_LOG_MAX_TM_OPS)
			return OHCA_BAD(c, create_srq.log_ops);
		if (!cmd->num_tags || ohca_le16(cmd->num_tags) > OHCA_MAX_TAGS)
			return OHCA_BAD(c, create_srq.num_tags);
	} else if (cmd->log_ops) {
		return OHCA_BAD(c, create_srq.log_ops);
	} else if (cmd->num_tags) {
		return OHCA_BAD(c, create_srq.num_tags);
	}
	if (cmd->type == OHCA_SRQT_XRC)
		srq->xrcd = ohca_xrcd_get(e, ohca_le32(cmd->xrcdn));
	if (cmd->type == OHCA_SRQT_XRC ? !srq->xrcd : cmd->xrcdn != 0)
		return OHCA_BAD(c, create_srq.xrcdn);
	if (cmd->type == OHCA_SRQT_BASIC)
		return cmd->cqn ? OHCA_BAD(c, create_srq.cqn) : OHCA_ADMIN_OK;
	srq->cq = ohca_cq_get(e, ohca_le32(cmd->cqn));
	if (!srq->cq || srq->cq->uar != ohca_le32(cmd->uar))
		return OHCA_BAD(c, create_srq.cqn);
	return OHCA_ADMIN_OK;
}

int ohca_cmd_create_srq(struct ohca_cmd *c)
{
	const struct ohca_cmd_create_srq *cmd = &c->aqe.create_srq;
	ohca_engine *e = c->e;
	struct ohca_pd *pd = ohca_pd_get(e, ohca_le32(cmd->pdn));
	uint32_t uar = ohca_le32(cmd->uar), limit = ohca_le32(cmd->limit);
	struct ohca_srq *srq;
	uint64_t bytes;
	int rc;

	if (!pd)
		return OHCA_BAD(c, create_srq.pdn);
	if (uar != pd->uar)
		return OHCA_BAD(c, create_srq.uar);
	if (cmd->log_size > OHCA_LOG_MAX_SRQ_WQES)
		return OHCA_BAD(c, create_srq.log_size);
	if (cmd->log_stride < OHCA_MIN_LOG_RQ_STRIDE || cmd->log_stride > OHCA_MAX_LOG_RQ_STRIDE)
		return OHCA_BAD(c, create_srq.log_stride);
	if (limit > 1u << cmd->log_size)
		return OHCA_BAD(c, create_srq.limit);
	if (cmd->reserved)
		return OHCA_BAD(c, create_srq.reserved);
	srq = ohca_mem_get(e, sizeof(*srq));
	if (!srq)
		return OHCA_ADMIN_NO_RESOURCE;
	rc = srq_type(c, srq);
	if (rc) {
		ohca_mem_put(e, srq, sizeof(*srq));
		return rc;
	}
	bytes = ohca_srq_buf_size(cmd->log_size, cmd->log_stride);
	if (cmd->type == OHCA_SRQT_TM) {
		bytes += ohca_tm_ring_size(cmd->log_ops);
		rc = ohca_tm_create(e, srq, ohca_le16(cmd->num_tags), cmd->log_ops);
	}
	if (rc == OHCA_ADMIN_OK)
		rc = OHCA_CMD_PAGES(c, &srq->buf, create_srq.pl, bytes, OHCA_MAX_QUEUE_PAGES);
	srq->srqn = rc ? OHCA_NO_ID : ohca_ids_get(&e->srq_ids);
	if (srq->srqn == OHCA_NO_ID) {
		ohca_pages_free(e, &srq->buf);
		ohca_tm_free(e, srq);
		ohca_mem_put(e, srq, sizeof(*srq));
		return rc ? rc : OHCA_ADMIN_NO_RESOURCE;
	}
	srq->uar = uar;
	srq->limit = limit;
	srq->log_size = cmd->log_size;
	srq->log_stride = cmd->log_stride;
	srq->pd = pd;
	pd->refs++;
	if (srq->xrcd)
		srq->xrcd->refs++;
	if (srq->cq)
		srq->cq->refs++;
	ohca_async_init(&srq->async, srq->srqn, 0);
	e->srq[srq->srqn] = srq;
	ohca_db_own(e, OHCA_DB_SRQ, srq->srqn, uar);
	ohca_cmd_result(c, srq->srqn);
	return OHCA_ADMIN_OK;
}

static void srq_release(ohca_engine *e, struct ohca_async *a)
{
	struct ohca_srq *srq = ohca_container_of(a, struct ohca_srq, async);

	ohca_ids_put(&e->srq_ids, srq->srqn);
	ohca_mem_put(e, srq, sizeof(*srq));
}

void ohca_srq_free(ohca_engine *e, struct ohca_srq *srq)
{
	ohca_db_disown(e, OHCA_DB_SRQ, srq->srqn);
	e->srq[srq->srqn] = NULL;
	srq->pd->refs--;
	if (srq->xrcd)
		srq->xrcd->refs--;
	if (srq->cq)
		srq->cq->refs--;
	ohca_tm_free(e, srq);
	ohca_pages_free(e, &srq->buf);
	ohca_async_release(e, &srq->async, srq_release);
}

int ohca_cmd_destroy_srq(struct ohca_cmd *c)
{
	struct ohca_srq *srq = ohca_srq_get(c->e, ohca_le32(c->aqe.handle.handle));

	if (!srq)
		return OHCA_ADMIN_BAD_HANDLE;
	if (srq->refs)
		return OHCA_ADMIN_BUSY;
	srq->going = true;
	if (srq->xrcd && !ohca_xrc_srq_gone(c->e, srq))
		return OHCA_CMD_MORE;
	ohca_srq_free(c->e, srq);
	return OHCA_ADMIN_OK;
}

/* Arm the limit event of an SRQ; @posted: its WQEs, -1: unknown. */
static void srq_limit(ohca_engine *e, struct ohca_srq *srq, uint32_t limit, int64_t posted)
{
	srq->limit = limit;
	/* if fewer WQEs are posted, the event is due at once (IBTA vol 1, 11.2.4.3) */
	if (limit && posted >= 0 && posted < limit) {
		srq->limit = 0;
		ohca_async_event(e, OHCA_EVENT_SRQ_LIMIT, &srq->async);
	}
}

int ohca_cmd_modify_srq(struct ohca_cmd *c)
{
	struct ohca_srq *srq = ohca_srq_get(c->e, ohca_le32(c->aqe.modify_srq.srqn));
	uint32_t limit = ohca_le32(c->aqe.modify_srq.limit);
	struct rq rq;

	if (!srq)
		return OHCA_ADMIN_BAD_HANDLE;
	if (limit > 1u << srq->log_size)
		return OHCA_BAD(c, modify_srq.limit);
	if (srq->error)
		return OHCA_ADMIN_BAD_STATE;
	rq = srq_rq(srq);
	srq_limit(c->e, srq, limit, rq_posted(c->e, &rq));
	return OHCA_ADMIN_OK;
}

/*
 * Copy the WQEs from job->at up to @pi, then the list operations, as far as the allowance of work
 * covers; after the last one the record in its current state.
 */
static int srq_move(ohca_engine *e, const struct ohca_srq *srq, uint8_t log, uint32_t pi)
{
	struct ohca_job *job = &e->job;
	const struct ohca_ring to = { &job->buf, OHCA_RQ_RING_OFFSET, log, srq->log_stride };
	const struct ohca_ring from = { &srq->buf, OHCA_RQ_RING_OFFSET, srq->log_size,
					srq->log_stride };

	/* skip WQEs that were taken since the last step; restart if an index decreased */
	if (!job->begun || job->at[0] - srq->ci > pi - srq->ci)
		job->at[0] = srq->ci;
	if (!job->begun && srq->tm)
		job->blank = srq->tm->ci;
	job->begun = true;
	if (ohca_ring_copy(e, &to, &from, &job->at[0], pi))
		return OHCA_ADMIN_DMA;
	if (job->at[0] != pi)
		return OHCA_CMD_MORE;
	if (srq->tm) {
		int rc = ohca_tm_move(e, srq, log);

		if (rc)
			return rc;
	}
	/*
	 * store the index that was checked, since the guest may have changed the record since then
	 */
	if (ohca_pages_copy(e, &job->buf, OHCA_DB_OFFSET, &srq->buf, OHCA_DB_OFFSET,
			    sizeof(struct ohca_hw_db)) ||
	    ohca_pages_store32(e, &job->buf, DB_OFF(rq_pi), pi) ||
	    ohca_pages_store32(e, &job->buf, DB_OFF(rq_ci), srq->ci) ||
	    ohca_pages_store32(e, &job->buf, DB_OFF(rq_event), pi - 1))
		return OHCA_ADMIN_DMA;
	return OHCA_ADMIN_OK;
}

int ohca_cmd_resize_srq(struct ohca_cmd *c)
{
	const struct ohca_cmd_resize_srq *cmd = &c->aqe.resize_srq;
	ohca_engine *e = c->e;
	struct ohca_srq *srq = ohca_srq_get(e, ohca_le32(cmd->srqn));
	bool set = cmd->flags & OHCA_RESIZE_SRQ_LIMIT;
	int64_t posted;
	uint64_t bytes;
	struct rq rq;
	int rc;

	if (!srq)
		return OHCA_ADMIN_BAD_HANDLE;
	if (srq->error)
		return OHCA_ADMIN_BAD_STATE;
	if (cmd->log_size > OHCA_LOG_MAX_SRQ_WQES)
		return OHCA_BAD(c, resize_srq.log_size);
	if (cmd->flags & ~OHCA_RESIZE_SRQ_LIMIT)
		return OHCA_BAD(c, resize_srq.flags);
	if (cmd->reserved)
		return OHCA_BAD(c, resize_srq.reserved);
	if (set ? ohca_le32(cmd->limit) > 1u << cmd->log_size : cmd->limit != 0)
		return OHCA_BAD(c, resize_srq.limit);
	rq = srq_rq(srq);
	posted = rq_posted(e, &rq);
	if (posted < 0)
		return OHCA_ADMIN_BAD_STATE;
	if (posted > 1u << cmd->log_size || (!set && srq->limit > 1u << cmd->log_size))
		return OHCA_BAD(c, resize_srq.log_size);
	bytes = ohca_srq_buf_size(cmd->log_size, srq->log_stride) +
		(srq->tm ? ohca_tm_ring_size(srq->tm->log_ops) : 0);
	rc = OHCA_CMD_BUF(c, resize_srq.pl, bytes);
	if (rc == OHCA_ADMIN_OK)
		rc = srq_move(e, srq, cmd->log_size, srq->ci + (uint32_t)posted);
	if (rc)
		return rc;
	ohca_cmd_buf_take(c, &srq->buf);
	srq->log_size = cmd->log_size;
	if (set)
		srq_limit(e, srq, ohca_le32(cmd->limit), posted);
	ohca_cmd_result(c, srq->ci + (uint32_t)posted);
	return OHCA_ADMIN_OK;
}

int ohca_cmd_query_srq(struct ohca_cmd *c)
{
	struct ohca_srq *srq = ohca_srq_get(c->e, ohca_le32(c->aqe.handle.handle));

	if (!srq)
		return OHCA_ADMIN_BAD_HANDLE;
	c->rsp.query_srq.limit = ohca_to_le32(srq->limit);
	return OHCA_ADMIN_OK;
}
