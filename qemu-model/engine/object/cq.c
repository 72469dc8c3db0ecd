/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion queues: entries, overflow, arming, moderation, resizing.
 *
 * A CQ has at most one EQE that the driver has not consumed. A CQ that fires again before that is
 * put on its EQ's list of deferred CQs, which every EQ doorbell processes. So an EQ cannot
 * overflow, however often a guest arms CQs.
 */
#include "engine/base/async.h"
#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/ids.h"
#include "engine/base/job.h"
#include "engine/base/le.h"
#include "engine/base/lies.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/cq.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "ohca_hw.h"

#define CQE_SIZE	((uint64_t)sizeof(struct ohca_hw_cqe))

struct ohca_cq *ohca_cq_get(ohca_engine *e, uint32_t cqn)
{
	return cqn < e->max_cq ? e->cq[cqn] : NULL;
}

static uint32_t cq_size(const struct ohca_cq *cq)
{
	return 1u << cq->log_size;
}

static uint64_t cqe_off(uint32_t index, uint8_t log_size)
{
	return OHCA_CQ_RING_OFFSET + (uint64_t)(index & ((1u << log_size) - 1)) * CQE_SIZE;
}

/* ---- events ----------------------------------------------------------------------- */

/* Whether the driver has not consumed the last EQE yet. */
static bool cq_eqe_waits(const struct ohca_cq *cq)
{
	const struct ohca_eq *eq = cq->eq;

	return cq->eqe_out && eq->pi - 1 - cq->eqe_idx < eq->pi - eq->ci;
}

bool ohca_cq_deliver(ohca_engine *e, struct ohca_cq *cq)
{
	struct ohca_eq *eq = cq->eq;
	uint32_t idx = eq->pi;

	if (cq_eqe_waits(cq))
		return false;
	if (!ohca_eq_room(eq))
		return false;
	cq->arm_sn++;
	cq->eqe_due = false;
	cq->eqe_out = true;
	cq->eqe_idx = idx;
	cq->told = cq->pi;
	ohca_eq_push(e, eq, OHCA_EVENT_COMP, cq->cqn, 0, cq->fired);
	return true;
}

static void cq_fire(ohca_engine *e, struct ohca_cq *cq)
{
	ohca_heap_del(&e->mod, &cq->mod);
	cq->armed = false;
	cq->fired++;
	cq->eqe_due = true;
	if (!ohca_cq_deliver(e, cq)) {
		ohca_list_add_tail(&cq->eq->deferred, &cq->defer);
		ohca_count(e, OHCA_CNT_EQE_DEFERRED);
	}
}

void ohca_cq_arm(ohca_engine *e, struct ohca_cq *cq, bool any, uint32_t ci)
{
	const uint32_t mask = 0xffffff;
	uint32_t held = (cq->pi - ci) & mask;	/* entries not polled */
	uint32_t news = cq->pi - cq->told;	/* entries after the last event */

	if (news > held)
		news = held;
	/* the EQE of the last event is not written yet, so the consumer has not seen that event */
	if (cq->eqe_due)
		return;
	if (any ? news != 0 : cq->pi - cq->sol_pi < news) {
		cq_fire(e, cq);
		return;
	}
	/* a request for solicited entries does not replace one for any entry */
	cq->arm_sol = !any && (!cq->armed || cq->arm_sol);
	cq->armed = true;
}

/* A new entry fires the armed CQ: now or, if the CQ is moderated, together with later entries. */
static void cq_notify(ohca_engine *e, struct ohca_cq *cq)
{
	if (cq->mod_count <= 1 || cq->mod_period == 0) {
		cq_fire(e, cq);
	} else if (!cq->mod.at) {
		cq->mod_left = cq->mod_count - 1u;
		ohca_heap_add(&e->mod, &cq->mod, ohca_now(e) + cq->mod_period * 1000ull);
	} else if (--cq->mod_left == 0) {
		cq_fire(e, cq);
	}
}

bool ohca_cq_moderate(ohca_engine *e, uint64_t now)
{
	ohca_work_begin(e, OHCA_WORK_EVENTS);
	while (ohca_heap_next(&e->mod) <= now) {
		if (!ohca_work_left(e))
			return true;
		ohca_work(e, OHCA_WORK_STEP);
		cq_fire(e, ohca_container_of(e->mod.due[0], struct ohca_cq, mod));
	}
	return false;
}

uint64_t ohca_cq_deadline(const ohca_engine *e)
{
	return ohca_heap_next(&e->mod);
}

/* ---- entries ---------------------------------------------------------------------- */

static int cq_error(ohca_engine *e, struct ohca_cq *cq)
{
	cq->error = true;
	ohca_count(e, OHCA_CNT_CQ_OVERFLOW);
	ohca_async_event(e, OHCA_EVENT_CQ_ERR, &cq->async);
	return -1;
}

/*
 * Read the consumer index again. False: the ring is full, or the index is unreadable or outside of
 * the entries written.
 */
static bool cq_refresh_ci(ohca_engine *e, struct ohca_cq *cq)
{
	uint32_t ci;

	if (ohca_pages_load32(e, &cq->buf, OHCA_DB_OFFSET + offsetof(struct ohca_hw_db, cq_ci),
			      &ci))
		return false;
	if (ci - cq->ci > cq->pi - cq->ci) {
		ohca_count(e, OHCA_CNT_DB_BAD_INDEX);
		return false;
	}
	cq->ci = ci;
	return cq->pi - cq->ci < cq_size(cq);
}

static int cq_put(ohca_engine *e, struct ohca_cq *cq, struct ohca_hw_cqe *cqe)
{
	cqe->owner = !(cq->pi >> cq->log_size & 1);
	if (ohca_pages_publish(e, &cq->buf, cqe_off(cq->pi, cq->log_size), cqe, sizeof(*cqe)))
		return -1;
	cq->pi++;
	return 0;
}

bool ohca_cq_holds(const ohca_engine *e, const struct ohca_cq *cq, uint32_t n)
{
	return !cq->error && !ohca_lies(e) && n <= cq_size(cq) - (cq->pi - cq->ci);
}

int ohca_cq_push(ohca_engine *e, struct ohca_cq *cq, struct ohca_hw_cqe *cqe, bool solicited)
{
	bool twice;

	if (cq->error)
		return -1;
	if (cq->pi - cq->ci >= cq_size(cq) && !cq_refresh_ci(e, cq))
		return cq_error(e, cq);
	cqe->timestamp = 0;
	if (cq->flags & OHCA_CQ_TIMESTAMP)
		cqe->timestamp = ohca_to_le64(e->stamp ? e->stamp : ohca_now(e));
	twice = ohca_lies(e) && ohca_lie_in_cqe(e, cqe, !cq->uar);
	if (cq_put(e, cq, cqe))
		return cq_error(e, cq);
	if (twice && cq->pi - cq->ci < cq_size(cq)) {
		ohca_lies_tell(e);
		if (cq_put(e, cq, cqe))
			return cq_error(e, cq);
	}
	if (solicited)
		cq->sol_pi = cq->pi;
	if (cq->armed && (!cq->arm_sol || solicited))
		cq_notify(e, cq);
	return 0;
}

/* ---- commands --------------------------------------------------------------------- */

int ohca_cmd_create_cq(struct ohca_cmd *c)
{
	const struct ohca_cmd_create_cq *cmd = &c->aqe.create_cq;
	ohca_engine *e = c->e;
	uint32_t uar = ohca_le32(cmd->uar);
	struct ohca_eq *eq = ohca_eq_get(e, ohca_le32(cmd->eqn));
	struct ohca_cq *cq;
	int rc;

	if (uar >= e->cfg.num_uars)
		return OHCA_BAD(c, create_cq.uar);
	if (!eq || eq->kind != OHCA_EQ_COMP)
		return OHCA_BAD(c, create_cq.eqn);
	if (cmd->log_size > OHCA_LOG_MAX_CQE)
		return OHCA_BAD(c, create_cq.log_size);
	if (cmd->flags & ~(ohca_feature(e, OHCA_FEATURE_TIMESTAMP) ? OHCA_CQ_TIMESTAMP : 0))
		return OHCA_BAD(c, create_cq.flags);
	if (cmd->reserved[0] || cmd->reserved[1])
		return OHCA_BAD(c, create_cq.reserved);
	cq = ohca_mem_get(e, sizeof(*cq));
	if (!cq)
		return OHCA_ADMIN_NO_RESOURCE;
	rc = OHCA_CMD_PAGES(c, &cq->buf, create_cq.pl, ohca_cq_buf_size(cmd->log_size),
			    OHCA_MAX_QUEUE_PAGES);
	cq->cqn = rc ? OHCA_NO_ID : ohca_ids_get(&e->cq_ids);
	if (cq->cqn == OHCA_NO_ID) {
		ohca_pages_free(e, &cq->buf);
		ohca_mem_put(e, cq, sizeof(*cq));
		return rc ? rc : OHCA_ADMIN_NO_RESOURCE;
	}
	cq->uar = uar;
	cq->log_size = cmd->log_size;
	cq->flags = cmd->flags;
	cq->eq = eq;
	eq->refs++;
	ohca_list_init(&cq->defer);
	ohca_async_init(&cq->async, cq->cqn, 0);
	e->cq[cq->cqn] = cq;
	ohca_db_own(e, OHCA_DB_CQ, cq->cqn, uar);
	ohca_cmd_result(c, cq->cqn);
	return OHCA_ADMIN_OK;
}

static void cq_release(ohca_engine *e, struct ohca_async *a)
{
	struct ohca_cq *cq = ohca_container_of(a, struct ohca_cq, async);

	ohca_ids_put(&e->cq_ids, cq->cqn);
	ohca_mem_put(e, cq, sizeof(*cq));
}

/* No completion event is left; an asynchronous event may be left. */
static void cq_number_free(ohca_engine *e, struct ohca_cq *cq)
{
	ohca_async_release(e, &cq->async, cq_release);
}

void ohca_cq_free(ohca_engine *e, struct ohca_cq *cq)
{
	ohca_db_disown(e, OHCA_DB_CQ, cq->cqn);
	e->cq[cq->cqn] = NULL;
	ohca_list_del(&cq->defer);
	ohca_heap_del(&e->mod, &cq->mod);
	ohca_async_forget(&cq->async);
	cq->eq->refs--;
	ohca_pages_free(e, &cq->buf);
	/* else the driver would take this EQE for an event of the next CQ with this number */
	if (cq_eqe_waits(cq))
		ohca_list_add_tail(&cq->eq->gone, &cq->defer);
	else
		cq_number_free(e, cq);
}

void ohca_cq_gone(ohca_engine *e, struct ohca_eq *eq, bool all)
{
	struct ohca_cq *cq = ohca_container_of(eq->gone.next, struct ohca_cq, defer);

	ohca_list_del(&cq->defer);
	if (!all && cq_eqe_waits(cq))
		ohca_list_add_tail(&eq->gone, &cq->defer);
	else
		cq_number_free(e, cq);
}

int ohca_cmd_destroy_cq(struct ohca_cmd *c)
{
	struct ohca_cq *cq = ohca_cq_get(c->e, ohca_le32(c->aqe.handle.handle));

	if (!cq)
		return OHCA_ADMIN_BAD_HANDLE;
	if (cq->refs)
		return OHCA_ADMIN_BUSY;
	ohca_cq_free(c->e, cq);
	return OHCA_ADMIN_OK;
}

int ohca_cmd_modify_cq(struct ohca_cmd *c)
{
	struct ohca_cq *cq = ohca_cq_get(c->e, ohca_le32(c->aqe.modify_cq.cqn));

	if (!cq)
		return OHCA_ADMIN_BAD_HANDLE;
	/* room for the events of all CQs that exist, so that no later event fails */
	if (c->aqe.modify_cq.period_us && ohca_heap_room(c->e, &c->e->mod, c->e->cq_ids.num))
		return OHCA_ADMIN_NO_RESOURCE;
	cq->mod_count = ohca_le16(c->aqe.modify_cq.count);
	cq->mod_period = ohca_le16(c->aqe.modify_cq.period_us);
	/* an event that is pending under the old moderation is sent now */
	if (cq->mod.at)
		cq_fire(c->e, cq);
	return OHCA_ADMIN_OK;
}

/*
 * Make the slots of the new ring from job->blank up to @end invalid, as far as the allowance of
 * work covers. A slot needs a write if a zeroed owner byte would make it valid.
 */
static int cq_blank(ohca_engine *e, uint8_t log, uint32_t end)
{
	struct ohca_job *job = &e->job;

	for (; job->blank != end && ohca_work_left(e); job->blank++) {
		uint8_t owner = job->blank >> log & 1;

		if (owner && ohca_pages_write(e, &job->buf, cqe_off(job->blank, log) +
					      offsetof(struct ohca_hw_cqe, owner), &owner, 1))
			return OHCA_ADMIN_DMA;
		ohca_work(e, CQE_SIZE);
	}
	return job->blank == end ? OHCA_ADMIN_OK : OHCA_CMD_MORE;
}

/*
 * Copy the entries from job->at on to the new ring, as far as the allowance of work covers. Entries
 * may be added between two steps.
 */
static int cq_move(ohca_engine *e, const struct ohca_cq *cq, uint8_t log)
{
	struct ohca_job *job = &e->job;
	struct ohca_hw_cqe cqe;

	for (; job->at[0] != cq->pi && ohca_work_left(e); job->at[0]++) {
		uint32_t i = job->at[0];

		if (ohca_pages_read(e, &cq->buf, cqe_off(i, cq->log_size), &cqe, sizeof(cqe)))
			return OHCA_ADMIN_DMA;
		cqe.owner = !(i >> log & 1);
		if (ohca_pages_write(e, &job->buf, cqe_off(i, log), &cqe, sizeof(cqe)))
			return OHCA_ADMIN_DMA;
	}
	return job->at[0] == cq->pi ? OHCA_ADMIN_OK : OHCA_CMD_MORE;
}

int ohca_cmd_resize_cq(struct ohca_cmd *c)
{
	const struct ohca_cmd_resize_cq *cmd = &c->aqe.resize_cq;
	ohca_engine *e = c->e;
	struct ohca_cq *cq = ohca_cq_get(e, ohca_le32(cmd->cqn));
	uint32_t ci = ohca_le32(cmd->ci);
	struct ohca_job *job = &e->job;
	int rc;

	if (!cq)
		return OHCA_ADMIN_BAD_HANDLE;
	if (cq->error)
		return OHCA_ADMIN_BAD_STATE;
	if (cmd->log_size > OHCA_LOG_MAX_CQE)
		return OHCA_BAD(c, resize_cq.log_size);
	if (cmd->reserved[0] || cmd->reserved[1] || cmd->reserved[2])
		return OHCA_BAD(c, resize_cq.reserved);
	if (!job->begun && ci - cq->ci > cq->pi - cq->ci)
		return OHCA_BAD(c, resize_cq.ci);
	if (cq->pi - ci > 1u << cmd->log_size)
		return OHCA_BAD(c, resize_cq.log_size);
	rc = OHCA_CMD_BUF(c, resize_cq.pl, ohca_cq_buf_size(cmd->log_size));
	if (rc)
		return rc;
	if (!job->begun) {
		job->begun = true;
		job->at[0] = job->blank = ci;
	}
	/* blank all slots first: copying an entry makes its slot valid */
	rc = cq_blank(e, cmd->log_size, ci + (1u << cmd->log_size));
	if (rc == OHCA_ADMIN_OK)
		rc = cq_move(e, cq, cmd->log_size);
	if (rc)
		return rc;
	ohca_cmd_buf_take(c, &cq->buf);
	cq->log_size = cmd->log_size;
	cq->ci = ci;
	ohca_cmd_result(c, cq->pi);
	return OHCA_ADMIN_OK;
}
