/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tag lists of SRQs: list operations, matching, and the count of unexpected messages
 * (firmware-if/ohca_tm.h). The messages that use a tag are in tagged.c.
 */
#include <string.h>

#include "engine/base/cmd.h"
#include "engine/base/guestmem.h"
#include "engine/base/job.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/cq.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "engine/object/srq.h"
#include "engine/object/tm.h"
#include "engine/object/wc.h"
#include "ohca_hw.h"

#define DB_OFF(member) (OHCA_DB_OFFSET + offsetof(struct ohca_hw_db, member))
#define TURN		64u	/* list operations of one SRQ in a row */
#define FAR_BEHIND	0x3fffu	/* messages: a quarter of the range of the counts */

static size_t tm_bytes(uint32_t num_tags)
{
	return sizeof(struct ohca_tm) + num_tags * sizeof(struct ohca_tag);
}

int ohca_tm_create(ohca_engine *e, struct ohca_srq *srq, uint32_t num_tags, uint8_t log_ops)
{
	struct ohca_tm *tm;

	if (num_tags > OHCA_MAX_ALL_TAGS - e->num_tags)
		return OHCA_ADMIN_NO_RESOURCE;
	tm = ohca_mem_get(e, tm_bytes(num_tags));
	if (!tm)
		return OHCA_ADMIN_NO_RESOURCE;
	e->num_tags += num_tags;
	ohca_list_init(&tm->list);
	ohca_list_init(&tm->wait);
	tm->num_tags = num_tags;
	tm->log_ops = log_ops;
	srq->tm = tm;
	return OHCA_ADMIN_OK;
}

void ohca_tm_free(ohca_engine *e, struct ohca_srq *srq)
{
	if (!srq->tm)
		return;
	e->num_tags -= srq->tm->num_tags;
	ohca_mem_put(e, srq->tm, tm_bytes(srq->tm->num_tags));
	srq->tm = NULL;
}

int ohca_tm_move(ohca_engine *e, const struct ohca_srq *srq, uint8_t log_size)
{
	const struct ohca_tm *tm = srq->tm;
	struct ohca_job *job = &e->job;
	const struct ohca_ring to = {
		&job->buf, ohca_tm_ring_offset(log_size, srq->log_stride), tm->log_ops,
		OHCA_TM_WQE_SHIFT,
	};
	const struct ohca_ring from = {
		&srq->buf, ohca_tm_ring_offset(srq->log_size, srq->log_stride), tm->log_ops,
		OHCA_TM_WQE_SHIFT,
	};

	/* all slots, then again those of operations executed meanwhile, for their results */
	if (ohca_ring_copy(e, &to, &from, &job->at[1], 1u << tm->log_ops) ||
	    ohca_ring_copy(e, &to, &from, &job->blank, tm->ci))
		return OHCA_ADMIN_DMA;
	return job->at[1] == 1u << tm->log_ops && job->blank == tm->ci ? OHCA_ADMIN_OK :
								       OHCA_CMD_MORE;
}

/* ---- matching ---------------------------------------------------------------------- */

struct ohca_tag *ohca_tm_take(ohca_engine *e, struct ohca_srq *srq, uint64_t tag)
{
	struct ohca_tm *tm = srq->tm;
	struct ohca_tag *found = NULL;
	uint32_t n = 0;

	if (srq->error)
		return NULL;
	for (struct ohca_list *l = tm->list.next; l != &tm->list && !found; l = l->next) {
		struct ohca_tag *t = ohca_container_of(l, struct ohca_tag, link);

		n++;
		if ((tag & t->mask) == t->tag)
			found = t;
	}
	/* the masks differ, so each message needs a search; a guest chooses its length */
	ohca_work(e, n * OHCA_WORK_STEP);
	if (!found)
		return NULL;
	ohca_list_del(&found->link);
	found->state = OHCA_TAG_TAKEN;
	return found;
}

/* If the counts are equal, move the waiting tags to the list. */
static void in_step(struct ohca_tm *tm)
{
	while (tm->seen == tm->told && !ohca_list_empty(&tm->wait)) {
		struct ohca_list *l = tm->wait.next;

		ohca_list_del(l);
		ohca_list_add_tail(&tm->list, l);
	}
}

void ohca_tm_unexpected(struct ohca_tm *tm)
{
	tm->seen++;
	in_step(tm);
}

void ohca_tm_not_unexpected(struct ohca_tm *tm)
{
	tm->seen--;
	in_step(tm);
}

bool ohca_tm_far_behind(const struct ohca_tm *tm)
{
	return (uint16_t)(tm->seen - tm->told) > FAR_BEHIND;
}

/* ---- completions ------------------------------------------------------------------- */

void ohca_tm_cqe(const struct ohca_srq *srq, const struct ohca_tag *t, struct ohca_hw_cqe *c)
{
	uint64_t tag = 0;
	uint32_t ctx = 0;

	if (t) {
		for (unsigned int i = 0; i < 8; i++)
			tag = tag << 8 | t->hdr[8 + i];
		for (unsigned int i = 0; i < 4; i++)
			ctx = ctx << 8 | t->hdr[4 + i];
	}
	c->tag = ohca_to_le64(tag);
	c->src_qp = ohca_to_le32(ctx);
	c->wqe_idx = ohca_to_le32(srq->srqn);
	c->flags = OHCA_CQE_SRQ | OHCA_CQE_TM;
}

static void tag_free(struct ohca_hw_cqe *c, uint32_t handle)
{
	c->flags |= OHCA_CQE_TAG_FREE;
	c->handle[0] = (uint8_t)handle;
	c->handle[1] = (uint8_t)(handle >> 8);
}

void ohca_tm_done(struct ohca_srq *srq, struct ohca_tag *t, struct ohca_hw_cqe *c)
{
	t->state = OHCA_TAG_FREE;
	tag_free(c, (uint32_t)(t - srq->tm->tag));
}

/* ---- list operations --------------------------------------------------------------- */

static bool well_formed(const struct ohca_tm *tm, const struct ohca_hw_tm_wqe *w)
{
	if (w->opcode > OHCA_TM_SYNC || w->flags & ~(OHCA_TM_SIGNALED | OHCA_TM_COUNT) ||
	    w->reserved || w->result)
		return false;
	if (w->opcode == OHCA_TM_SYNC)
		return !w->num_sge && !w->handle;
	if (ohca_le32(w->handle) >= tm->num_tags)
		return false;
	if (w->opcode == OHCA_TM_DEL)
		return !w->num_sge;
	return w->num_sge <= 1 && ohca_le32(w->sge.length) <= 1u << 31;
}

static bool add(struct ohca_tm *tm, const struct ohca_hw_tm_wqe *w)
{
	struct ohca_tag *t = &tm->tag[ohca_le32(w->handle)];

	if (t->state != OHCA_TAG_FREE)
		return false;
	t->state = OHCA_TAG_LISTED;
	t->wr_id = ohca_le64(w->recv_wr_id);
	t->tag = ohca_le64(w->tag);
	t->mask = ohca_le64(w->mask);
	t->num_sge = w->num_sge;
	t->sge.addr = ohca_le64(w->sge.addr);
	t->sge.length = ohca_le32(w->sge.length);
	t->sge.lkey = ohca_le32(w->sge.lkey);
	ohca_list_add_tail(tm->seen == tm->told ? &tm->list : &tm->wait, &t->link);
	return true;
}

static bool del(struct ohca_tm *tm, const struct ohca_hw_tm_wqe *w)
{
	struct ohca_tag *t = &tm->tag[ohca_le32(w->handle)];

	if (t->state != OHCA_TAG_LISTED)
		return false;
	ohca_list_del(&t->link);
	t->state = OHCA_TAG_FREE;
	return true;
}

/** struct outcome - the result of a list operation; @cqe: it needs a CQE */
struct outcome {
	uint8_t status;
	uint16_t ve;
	bool cqe;
};

static struct outcome execute(struct ohca_tm *tm, const struct ohca_hw_tm_wqe *w)
{
	struct outcome o = { .cqe = w->flags & OHCA_TM_SIGNALED };
	bool ok = true;

	if (!well_formed(tm, w)) {
		o.cqe = true;
		o.status = OHCA_WC_TM_ERR;
		o.ve = OHCA_VE_WQE_FLAGS;
		return o;
	}
	if (w->flags & OHCA_TM_COUNT) {
		tm->told = (uint16_t)ohca_le32(w->unexpected);
		in_step(tm);
	}
	if (w->opcode == OHCA_TM_ADD) {
		ok = add(tm, w);
		o.cqe |= !ok;
	} else if (w->opcode == OHCA_TM_DEL) {
		ok = del(tm, w);
	}
	if (!ok) {
		o.status = OHCA_WC_TM_ERR;
		o.ve = OHCA_VE_TAG;
	}
	return o;
}

/* Write the CQE of a list operation. 0, or -1 if the CQ has no room. */
static int complete(ohca_engine *e, struct ohca_srq *srq, const struct ohca_hw_tm_wqe *w,
		    const struct outcome *o)
{
	static const uint8_t opcode[] = { OHCA_WCO_TM_ADD, OHCA_WCO_TM_DEL, OHCA_WCO_TM_SYNC };
	struct ohca_hw_cqe c;

	memset(&c, 0, sizeof(c));
	c.wr_id = w->wr_id;
	c.status = ohca_to_le32(o->status);
	c.opcode = ohca_to_le32(opcode[w->opcode <= OHCA_TM_SYNC ? w->opcode : OHCA_TM_SYNC]);
	c.vendor_err = ohca_to_le32(o->ve);
	if (srq->tm->seen != srq->tm->told)
		c.wc_flags = ohca_to_le32(OHCA_WCF_TM_SYNC_REQ);
	ohca_tm_cqe(srq, NULL, &c);
	return ohca_cq_push(e, srq->cq, &c, o->status != OHCA_WC_SUCCESS);
}

static void list_broken(ohca_engine *e, struct ohca_srq *srq)
{
	srq->error = true;
	ohca_async_event(e, OHCA_EVENT_SRQ_ERR, &srq->async);
}

/* Operations posted and not executed; -1: the record is unreadable or its index invalid. */
static int64_t posted(ohca_engine *e, struct ohca_srq *srq)
{
	struct ohca_tm *tm = srq->tm;
	uint32_t pi;

	if (ohca_pages_load32(e, &srq->buf, DB_OFF(sq_pi), &pi))
		return -1;
	if (pi - tm->ci > 1u << tm->log_ops) {
		ohca_count(e, OHCA_CNT_DB_BAD_INDEX);
		return -1;
	}
	return pi - tm->ci;
}

/* Execute the next operation. False: the buffer is unreachable or the CQ has no room. */
static bool list_op_run(ohca_engine *e, struct ohca_srq *srq)
{
	struct ohca_tm *tm = srq->tm;
	uint32_t slot = tm->ci & ((1u << tm->log_ops) - 1);
	uint64_t off = ohca_tm_ring_offset(srq->log_size, srq->log_stride) +
		       ((uint64_t)slot << OHCA_TM_WQE_SHIFT);
	struct ohca_hw_tm_wqe w;
	struct outcome o;

	ohca_work(e, OHCA_WORK_WQE);
	if (ohca_pages_read(e, &srq->buf, off, &w, sizeof(w)))
		return false;
	o = execute(tm, &w);
	tm->ci++;
	/* write the CQE last: a consumer that sees it must find the result and a free slot */
	if (ohca_pages_store32(e, &srq->buf, off + offsetof(struct ohca_hw_tm_wqe, result),
			       o.status ? OHCA_TM_FAILED : OHCA_TM_DONE) ||
	    ohca_pages_store32(e, &srq->buf, DB_OFF(sq_ci), tm->ci))
		return false;
	return !o.cqe || complete(e, srq, &w, &o) == 0;
}

void ohca_tm_run(ohca_engine *e, struct ohca_srq *srq)
{
	struct ohca_tm *tm = srq->tm;
	int64_t n = 0;

	/* at most TURN operations, so that other SRQs are served */
	for (uint32_t left = TURN; left && ohca_work_left(e) && !srq->error;) {
		n = posted(e, srq);
		if (n == 0) {
			if (ohca_pages_store32(e, &srq->buf, DB_OFF(sq_event), tm->ci))
				n = -1;
			atomic_thread_fence(memory_order_seq_cst);
			if (n == 0)
				n = posted(e, srq);
			if (n == 0)
				return;
		}
		if (n < 0) {
			list_broken(e, srq);
			return;
		}
		for (; n && left && ohca_work_left(e) && !srq->error; n--, left--)
			if (!list_op_run(e, srq))
				list_broken(e, srq);
	}
	if (!srq->error)
		ohca_db_srq_again(e, srq->srqn);
}
