/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RESIZE_QP: move the queues of a QP to a new buffer, in any state and with packets under way.
 *
 * The transport uses private copies of the WQEs that it has fetched, so the move does not affect
 * them. It finds later WQEs at the same index of the new ring.
 */
#include <string.h>

#include "engine/base/cmd.h"
#include "engine/base/guestmem.h"
#include "engine/base/job.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "engine/object/to_transport.h"
#include "ohca_hw.h"

#define DB_OFF(member) (OHCA_DB_OFFSET + offsetof(struct ohca_hw_db, member))

/** struct held - consumer and producer indices of both queues */
struct held {
	uint32_t sq_ci, sq_pi, rq_ci, rq_pi;
};

static bool has_rq(const struct ohca_qp *qp)
{
	return !(qp->flags & (OHCA_QP_SRQ | OHCA_QP_NO_RQ));
}

/* Read the indices of both queues, once in each step; those of the last step are the result. */
static int look(struct ohca_cmd *c, struct ohca_qp *qp, struct held *h)
{
	int64_t posted;

	memset(h, 0, sizeof(*h));
	/* no WQE can be posted, and the record has no valid index yet */
	if (qp->state == OHCA_QPS_RESET)
		return OHCA_ADMIN_OK;
	if (ohca_xp_sq_posted(c->e, qp, &h->sq_ci, &h->sq_pi))
		return OHCA_ADMIN_BAD_STATE;
	if (!has_rq(qp))
		return OHCA_ADMIN_OK;
	posted = ohca_rq_posted(c->e, qp);
	if (posted < 0)
		return OHCA_ADMIN_BAD_STATE;
	h->rq_ci = qp->rq_ci;
	h->rq_pi = qp->rq_ci + (uint32_t)posted;
	return OHCA_ADMIN_OK;
}

static int check(struct ohca_cmd *c, const struct ohca_qp *qp, const struct held *h)
{
	const struct ohca_cmd_resize_qp *cmd = &c->aqe.resize_qp;

	if (cmd->log_sq > OHCA_LOG_MAX_SQ_BBS || h->sq_pi - h->sq_ci > 1u << cmd->log_sq)
		return OHCA_BAD(c, resize_qp.log_sq);
	if (cmd->log_rq > (has_rq(qp) ? OHCA_LOG_MAX_RQ_WQES : 0) ||
	    h->rq_pi - h->rq_ci > 1u << cmd->log_rq)
		return OHCA_BAD(c, resize_qp.log_rq);
	return cmd->reserved ? OHCA_BAD(c, resize_qp.reserved) : OHCA_ADMIN_OK;
}

/* Write the record, with the event indices of the old one unless the QP is in RESET. */
static int put_record(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pages *dst,
		      const struct held *h)
{
	const struct ohca_hw_db none = { 0 };

	if (qp->state == OHCA_QPS_RESET)
		return ohca_pages_write(e, dst, OHCA_DB_OFFSET, &none, sizeof(none));
	return ohca_pages_copy(e, dst, OHCA_DB_OFFSET, &qp->buf, OHCA_DB_OFFSET,
			       sizeof(struct ohca_hw_db)) ||
	       ohca_pages_store32(e, dst, DB_OFF(sq_pi), h->sq_pi) ||
	       (has_rq(qp) && ohca_pages_store32(e, dst, DB_OFF(rq_pi), h->rq_pi));
}

/*
 * Copy the remaining WQEs, as far as the allowance of work covers; after the last one the record.
 */
static int move(struct ohca_cmd *c, const struct ohca_qp *qp, const struct held *h)
{
	const struct ohca_cmd_resize_qp *cmd = &c->aqe.resize_qp;
	struct ohca_job *job = &c->e->job;
	const struct ohca_ring sq = { &qp->buf, qp->sq_off, qp->log_sq, OHCA_BB_SHIFT };
	const struct ohca_ring rq = { &qp->buf, qp->rq_off, qp->log_rq, qp->log_rq_stride };
	const struct ohca_ring new_sq = {
		&job->buf, ohca_sq_offset(has_rq(qp), cmd->log_rq, qp->log_rq_stride),
		cmd->log_sq, OHCA_BB_SHIFT,
	};
	const struct ohca_ring new_rq = { &job->buf, qp->rq_off, cmd->log_rq, qp->log_rq_stride };

	/* skip WQEs that were completed since the last step; restart if an index decreased */
	if (!job->begun || job->at[0] - h->sq_ci > h->sq_pi - h->sq_ci)
		job->at[0] = h->sq_ci;
	if (!job->begun || job->at[1] - h->rq_ci > h->rq_pi - h->rq_ci)
		job->at[1] = h->rq_ci;
	job->begun = true;
	if (ohca_ring_copy(c->e, &new_sq, &sq, &job->at[0], h->sq_pi) ||
	    ohca_ring_copy(c->e, &new_rq, &rq, &job->at[1], h->rq_pi))
		return OHCA_ADMIN_DMA;
	if (job->at[0] != h->sq_pi || job->at[1] != h->rq_pi)
		return OHCA_CMD_MORE;
	return put_record(c->e, qp, &job->buf, h) ? OHCA_ADMIN_DMA : OHCA_ADMIN_OK;
}

int ohca_cmd_resize_qp(struct ohca_cmd *c)
{
	const struct ohca_cmd_resize_qp *cmd = &c->aqe.resize_qp;
	ohca_engine *e = c->e;
	struct ohca_qp *qp = ohca_qp_get(e, ohca_le32(cmd->handle));
	struct held h;
	int rc;

	if (!qp)
		return OHCA_ADMIN_BAD_HANDLE;
	/*
	 * an XRC target has no queue; a QP of an SRQ with tags has only the device's own send queue
	 */
	if (qp->xrcd || (qp->srq && qp->srq->tm))
		return OHCA_ADMIN_BAD_STATE;
	rc = look(c, qp, &h);
	if (rc == OHCA_ADMIN_OK)
		rc = check(c, qp, &h);
	if (rc == OHCA_ADMIN_OK)
		rc = OHCA_CMD_BUF(c, resize_qp.pl,
				  ohca_qp_buf_size(has_rq(qp), cmd->log_rq, qp->log_rq_stride,
						   cmd->log_sq));
	if (rc == OHCA_ADMIN_OK)
		rc = move(c, qp, &h);
	if (rc)
		return rc;
	ohca_cmd_buf_take(c, &qp->buf);
	qp->sq_off = ohca_sq_offset(has_rq(qp), cmd->log_rq, qp->log_rq_stride);
	qp->log_sq = cmd->log_sq;
	qp->log_rq = cmd->log_rq;
	ohca_xp_sq_moved(e, qp);
	c->rsp.resize_qp.sq_pi = ohca_to_le32(h.sq_pi);
	c->rsp.resize_qp.rq_pi = ohca_to_le32(h.rq_pi);
	return OHCA_ADMIN_OK;
}
