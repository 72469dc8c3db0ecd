// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * SRQs with tags: list operations, and which tags are free.
 *
 * The device matches; this file has the ring of list operations and the numbers of the
 * tags. The device frees a number in the CQE that ends a message, or in the result of a
 * deletion, which is read when the next operation is posted.
 */

#include <stdlib.h>

#include "wr.h"

static_assert((int)IBV_WR_TAG_ADD == (int)OHCA_TM_ADD &&
	      (int)IBV_WR_TAG_DEL == (int)OHCA_TM_DEL &&
	      (int)IBV_WR_TAG_SYNC == (int)OHCA_TM_SYNC,
	      "operations must have the numbers of enum ibv_ops_wr_opcode");
static_assert((int)IBV_OPS_SIGNALED == OHCA_TM_SIGNALED &&
	      (int)IBV_OPS_TM_SYNC == OHCA_TM_COUNT,
	      "flags must have the numbers of enum ibv_ops_flags");

/**
 * ohca_tm_init - allocate an SRQ's tags
 * @srq: SRQ whose buffer has a ring of 1 << @log_ops operations; it is set along with
 *	the buffer
 * @num_tags: at least 1
 *
 * Return: 0 or ENOMEM.
 */
int ohca_tm_init(struct ohca_srq *srq, struct ohca_cq *cq, uint32_t log_ops,
		 uint32_t num_tags)
{
	struct ohca_tm *tm = calloc(1, sizeof(*tm) + num_tags * sizeof(tm->tag[0]));
	uint32_t i;

	if (!tm)
		return ENOMEM;
	tm->size = 1u << log_ops;
	tm->num_tags = num_tags;
	for (i = 0; i < num_tags; i++)
		tm->tag[i].next = i + 1;
	tm->cq = cq;
	/* any poller of the CQ takes it, whatever thread domain the SRQ is in */
	ohca_lock_init(&tm->lock, true);
	srq->tm = tm;
	return 0;
}

/** ohca_tm_attach - add an SRQ to its CQ's list of SRQs with tags */
void ohca_tm_attach(struct ohca_srq *srq)
{
	struct ohca_cq *cq = srq->tm->cq;

	ohca_lock(&cq->lock);
	srq->tm->next = cq->tm_srqs;
	cq->tm_srqs = srq;
	ohca_unlock(&cq->lock);
}

/** ohca_tm_detach - remove an SRQ, after the device has destroyed it */
void ohca_tm_detach(struct ohca_srq *srq)
{
	struct ohca_cq *cq = srq->tm->cq;
	struct ohca_srq **p;

	ohca_lock(&cq->lock);
	for (p = &cq->tm_srqs; *p; p = &(*p)->tm->next) {
		if (*p == srq) {
			*p = srq->tm->next;
			break;
		}
	}
	ohca_unlock(&cq->lock);
}

/* With the lock held. The number is checked, because the consumer can overwrite CQEs. */
static void ohca_tag_put(struct ohca_tm *tm, uint32_t handle)
{
	if (handle >= tm->num_tags || !tm->tag[handle].used)
		return;
	tm->tag[handle].used = false;
	tm->tag[handle].next = tm->free;
	tm->free = handle;
}

static void ohca_tm_put_of(struct ohca_srq *srq, const struct ohca_hw_cqe *cqe)
{
	ohca_lock(&srq->tm->lock);
	ohca_tag_put(srq->tm, cqe->handle[0] | cqe->handle[1] << 8);
	ohca_unlock(&srq->tm->lock);
}

/** ohca_tm_free_tag - process a CQ entry that may free a tag; with the CQ's lock held */
void ohca_tm_free_tag(struct ohca_cq *cq, const struct ohca_hw_cqe *cqe)
{
	struct ohca_srq *srq;

	if (!(cqe->flags & OHCA_CQE_TAG_FREE))
		return;
	for (srq = cq->tm_srqs; srq; srq = srq->tm->next) {
		if (srq->rq.number == le32toh(cqe->wqe_idx)) {
			ohca_tm_put_of(srq, cqe);
			return;
		}
	}
}

/**
 * ohca_tm_settle - process the entries of the CQ that free an SRQ's tags
 *
 * Called before the SRQ is destroyed: another one may get its number, and a later poll of
 * these entries would free that one's tags. Either no QP is left that could complete more of
 * them, or the destroy fails; then this was only early.
 */
void ohca_tm_settle(struct ohca_srq *srq)
{
	struct ohca_cq *cq = srq->tm->cq;
	struct ohca_hw_cqe *cqe;
	uint32_t i, n;

	ohca_lock(&cq->lock);
	n = ohca_cq_pending(cq);
	for (i = 0; i < n; i++) {
		cqe = &cq->ring[(atomic_load(&cq->ci) + i) & cq->mask];
		if (cqe->flags & OHCA_CQE_TAG_FREE &&
		    le32toh(cqe->wqe_idx) == srq->rq.number) {
			ohca_tm_put_of(srq, cqe);
			cqe->flags &= ~OHCA_CQE_TAG_FREE;
		}
	}
	ohca_unlock(&cq->lock);
}

/* Reads the results of executed operations; with the lock held. */
static void ohca_tm_reap(struct ohca_srq *srq)
{
	struct ohca_tm *tm = srq->tm;
	uint32_t ci = ohca_load_le32(&srq->rq.db->sq_ci);

	while (tm->ci != ci && tm->ci != tm->pi) {
		struct ohca_hw_tm_wqe *w = &tm->ring[tm->ci++ & (tm->size - 1)];
		bool done = le32toh(w->result) == OHCA_TM_DONE;

		/* a tag that could not be added is not freed by a message */
		if (w->opcode == OHCA_TM_DEL ? done :
					       w->opcode == OHCA_TM_ADD && !done)
			ohca_tag_put(tm, le32toh(w->handle));
	}
}

static int ohca_tm_build(struct ohca_tm *tm, struct ohca_hw_tm_wqe *w,
			 struct ibv_ops_wr *wr)
{
	uint32_t handle = 0;

	switch (wr->opcode) {
	case IBV_WR_TAG_ADD:
		if (wr->tm.add.num_sge < 0 || wr->tm.add.num_sge > 1)
			return EINVAL;
		if (tm->free == tm->num_tags)
			return ENOMEM;
		handle = tm->free;
		break;
	case IBV_WR_TAG_DEL:
		handle = wr->tm.handle;
		if (handle >= tm->num_tags)
			return EINVAL;
		break;
	case IBV_WR_TAG_SYNC:
		break;
	default:
		return EINVAL;
	}
	if (wr->flags & ~(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC))
		return EINVAL;

	memset(w, 0, sizeof(*w));
	w->wr_id = htole64(wr->wr_id);
	w->opcode = wr->opcode;
	w->flags = wr->flags;
	w->handle = htole32(handle);
	w->unexpected = htole32(wr->tm.unexpected_cnt);
	if (wr->opcode != IBV_WR_TAG_ADD)
		return 0;
	tm->free = tm->tag[handle].next;
	tm->tag[handle].used = true;
	wr->tm.handle = handle;
	w->recv_wr_id = htole64(wr->tm.add.recv_wr_id);
	w->tag = htole64(wr->tm.add.tag);
	w->mask = htole64(wr->tm.add.mask);
	/* an empty buffer needs no key */
	if (wr->tm.add.num_sge && wr->tm.add.sg_list->length) {
		w->num_sge = 1;
		ohca_put_sge(&w->sge, wr->tm.add.sg_list);
	}
	return 0;
}

/**
 * ohca_post_srq_ops - ibv_post_srq_ops()
 *
 * Return: 0; else with *@bad_wr the first request that was not taken: EINVAL for an
 * invalid operation, ENOMEM if the ring is full or no tag is free.
 */
int ohca_post_srq_ops(struct ibv_srq *ibsrq, struct ibv_ops_wr *wr,
		      struct ibv_ops_wr **bad_wr)
{
	struct ohca_srq *srq = to_osrq(ibsrq);
	struct ohca_tm *tm = srq->tm;
	uint32_t old;
	int err = 0;

	if (!tm) {
		*bad_wr = wr;
		return ohca_errno(EINVAL);
	}
	ohca_lock(&tm->lock);
	old = tm->pi;
	ohca_tm_reap(srq);
	for (; wr; wr = wr->next) {
		if (tm->pi - tm->ci >= tm->size)
			ohca_tm_reap(srq);
		err = tm->pi - tm->ci >= tm->size ?
			      ENOMEM :
			      ohca_tm_build(tm, &tm->ring[tm->pi & (tm->size - 1)],
					    wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
		tm->pi++;
	}
	if (tm->pi != old)
		ohca_ring(&srq->rq.db->sq_pi, &srq->rq.db->sq_event, old, tm->pi,
			  srq->rq.doorbell, srq->rq.number);
	ohca_unlock(&tm->lock);
	return ohca_errno(err);
}
