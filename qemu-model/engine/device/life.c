/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Start and end of lives, and the sweep. See life.h. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/async.h"
#include "engine/base/heap.h"
#include "engine/base/ids.h"
#include "engine/base/job.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/device/life.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/dm.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "engine/object/fault.h"
#include "engine/object/mcast.h"
#include "engine/object/mr.h"
#include "engine/object/odp.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "engine/object/to_transport.h"
#include "engine/object/xrc.h"
#include "engine/transport/sched.h"

/* ---- the host of an ended life ---------------------------------------------------- */

static void no_call(void *h)
{
	(void)h;
}

static void *no_memory(void *h, uint64_t iova, size_t *len, int prot)
{
	(void)h;
	(void)iova;
	(void)len;
	(void)prot;
	return NULL;
}

static void no_irq(void *h, unsigned int vec)
{
	(void)h;
	(void)vec;
}

static uint64_t no_clock(void *h)
{
	(void)h;
	return 0;
}

/* An engine that does not run sends, writes and trains nothing, so it calls no other functions. */
static const struct ohca_host_ops no_host = {
	.dma_map = no_memory,
	.irq = no_irq,
	.now_ns = no_clock,
	.kick = no_call,
};

/* ---- begin ------------------------------------------------------------------------ */

int ohca_life_init(ohca_engine *e)
{
	e->max_qp = 1u << e->cfg.log_max_qp;
	e->max_cq = 1u << e->cfg.log_max_cq;
	e->max_srq = 1u << e->cfg.log_max_srq;
	e->max_mr = 1u << e->cfg.log_max_mr;
	e->max_pd = e->max_qp;
	e->max_xrcd = e->max_qp;
	ohca_list_init(&e->dm_used);
	/* calloc(): the system allocates pages only when a number is used */
	e->qp = calloc(e->max_qp, sizeof(*e->qp));
	e->cq = calloc(e->max_cq, sizeof(*e->cq));
	e->srq = calloc(e->max_srq, sizeof(*e->srq));
	e->mr = calloc(e->max_mr, sizeof(*e->mr));
	e->pd = calloc(e->max_pd, sizeof(*e->pd));
	e->xrcd = calloc(e->max_xrcd, sizeof(*e->xrcd));
	e->fault = calloc(OHCA_MAX_FAULTS, sizeof(*e->fault));
	if (!e->qp || !e->cq || !e->srq || !e->mr || !e->pd || !e->xrcd || !e->fault)
		return -1;
	/* MR 0 would make key 0 valid; MR 1 is the reserved L_Key */
	if (ohca_ids_init(&e->qp_ids, e->max_qp, OHCA_FIRST_QP) ||
	    ohca_ids_init(&e->cq_ids, e->max_cq, 0) || ohca_ids_init(&e->srq_ids, e->max_srq, 0) ||
	    ohca_ids_init(&e->mr_ids, e->max_mr, 2) || ohca_ids_init(&e->pd_ids, e->max_pd, 0) ||
	    ohca_ids_init(&e->set_ids, OHCA_MAX_COUNTER_SETS, 1) ||
	    ohca_ids_init(&e->xrcd_ids, e->max_xrcd, 0))
		return -1;
	return ohca_dm_init(e) ? -1 : ohca_sched_init(e);
}

#define MRS_FREED	(1u << 16)	/* entries freed at a time */

/*
 * Free the table of MRs, which is the largest one, in pieces, as far as the allowance of work
 * covers. It has @e->max_mr entries left. Return: true if the rest is small
 */
static bool mr_table_free(ohca_engine *e)
{
	while (e->mr && e->max_mr > MRS_FREED) {
		struct ohca_mr **mr;

		if (!ohca_work_left(e))
			return false;
		ohca_work_free(e, MRS_FREED * sizeof(*mr));
		mr = realloc(e->mr, (e->max_mr - MRS_FREED) * sizeof(*mr));
		if (!mr)
			return true;
		e->mr = mr;
		e->max_mr -= MRS_FREED;
	}
	return true;
}

/*
 * Free the tables, as far as the allowance of work covers; e->sweep_at of them are free. Return:
 * true if it is done
 */
static bool tables_free(ohca_engine *e)
{
	const struct { void *mem; uint64_t bytes; } t[] = {
		{ e->qp, e->max_qp * sizeof(*e->qp) },
		{ e->cq, e->max_cq * sizeof(*e->cq) },
		{ e->srq, e->max_srq * sizeof(*e->srq) },
		{ e->mr, e->max_mr * sizeof(*e->mr) },
		{ e->pd, e->max_pd * sizeof(*e->pd) },
		{ e->xrcd, e->max_xrcd * sizeof(*e->xrcd) },
		{ e->dm, e->dm_ids.max * sizeof(*e->dm) },
		{ e->fault, OHCA_MAX_FAULTS * sizeof(*e->fault) },
		{ e->qp_ids.used, e->max_qp / 8 },
		{ e->cq_ids.used, e->max_cq / 8 },
		{ e->srq_ids.used, e->max_srq / 8 },
		{ e->mr_ids.used, e->mr_ids.max / 8 },
		{ e->pd_ids.used, e->max_pd / 8 },
		{ e->xrcd_ids.used, e->max_xrcd / 8 },
		{ e->set_ids.used, OHCA_MAX_COUNTER_SETS / 8 },
		{ e->dm_ids.used, e->dm_ids.max / 8 },
	};

	for (; e->sweep_at < sizeof(t) / sizeof(t[0]); e->sweep_at++) {
		if (!ohca_work_left(e))
			return false;
		ohca_work_free(e, t[e->sweep_at].bytes);
		free(t[e->sweep_at].mem);
	}
	ohca_sched_free(e);
	return true;
}

static bool all_free(ohca_engine *e)
{
	return (e->sweep_at || mr_table_free(e)) && tables_free(e);
}

/* Get an empty life to exchange for that of @e. NULL: no memory */
static ohca_engine *life_get(ohca_engine *e)
{
	ohca_engine *d = e->spare;

	if (d) {
		e->spare = d->spare;
		d->spare = NULL;
		return d;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->cfg = e->cfg;
	d->ops = no_host;
	d->ended = true;
	d->mem_max = e->mem_max;
	d->mr_tag = e->mr_tag;
	if (!ohca_life_init(d))
		return d;
	d->work_end = UINT64_MAX;
	all_free(d);
	free(d);
	return NULL;
}

/* ---- end -------------------------------------------------------------------------- */

#define SWAP(a, b)					\
	do {						\
		const __typeof__(a) was_ = (a);		\
							\
		(a) = (b);				\
		(b) = was_;				\
	} while (0)

/* Move @e to @d, and clear @e. */
#define MOVE(d, e)					\
	do {						\
		memcpy(&(d), &(e), sizeof(d));		\
		memset(&(e), 0, sizeof(e));		\
	} while (0)

/* Swap, but continue the numbers. */
static void swap_ids(struct ohca_ids *d, struct ohca_ids *e)
{
	SWAP(*d, *e);
	e->next = d->next;
}

/* Move the life of @e to @d, which is empty. Then @e is empty. */
static void exchange(ohca_engine *d, ohca_engine *e)
{
	SWAP(d->qp, e->qp);
	SWAP(d->cq, e->cq);
	SWAP(d->srq, e->srq);
	SWAP(d->mr, e->mr);
	SWAP(d->pd, e->pd);
	SWAP(d->xrcd, e->xrcd);
	SWAP(d->dm, e->dm);
	swap_ids(&d->qp_ids, &e->qp_ids);
	swap_ids(&d->cq_ids, &e->cq_ids);
	swap_ids(&d->srq_ids, &e->srq_ids);
	swap_ids(&d->mr_ids, &e->mr_ids);
	swap_ids(&d->pd_ids, &e->pd_ids);
	swap_ids(&d->xrcd_ids, &e->xrcd_ids);
	swap_ids(&d->dm_ids, &e->dm_ids);
	swap_ids(&d->set_ids, &e->set_ids);
	SWAP(d->sched, e->sched);
	ohca_list_splice_tail(&d->dm_used, &e->dm_used);
	MOVE(d->eq, e->eq);
	MOVE(d->async_eq, e->async_eq);
	MOVE(d->fault_eq, e->fault_eq);
	MOVE(d->special_gone, e->special_gone);
	MOVE(d->num_tags, e->num_tags);
	MOVE(d->num_odp, e->num_odp);
	MOVE(d->page_entries, e->page_entries);
	MOVE(d->mem_used, e->mem_used);
	MOVE(d->mod, e->mod);
	MOVE(d->num_mcast_grp, e->num_mcast_grp);
	MOVE(d->mcast_total, e->mcast_total);
	MOVE(d->mcast, e->mcast);
	MOVE(d->set, e->set);
	MOVE(d->job, e->job);
}

static bool sweep_some(ohca_engine *e);

void ohca_life_end(ohca_engine *e)
{
	ohca_engine *d;

	/* a driver creates objects only by commands, so without a command there are none */
	if (!e->aq_ci && !e->aq_more && !e->mem_used)
		return;
	ohca_work(e, sizeof(*e));
	ohca_db_disown_all(e);
	for (unsigned int i = 0; i < OHCA_MAX_PORTS; i++)
		ohca_async_forget(&e->port[i].async);
	d = e->num_dead < OHCA_MAX_DEAD ? life_get(e) : NULL;
	if (!d) {
		/* a previous life is not swept, and there is no memory for a third set of tables */
		ohca_work_begin(e, UINT64_MAX - e->work);
		sweep_some(e);
		return;
	}
	exchange(d, e);
	ohca_sched_continue(e, d);
	/* release nothing: this updates OHCA_CNT_MEMORY */
	ohca_mem_release(e, 0);
	e->dead[e->num_dead++] = d;
}

/* ---- sweep ------------------------------------------------------------------------ */

/*
 * Call @one, which frees the object with a number, for each number in @ids, as far as the allowance
 * of work covers. Return: true if it is done
 */
static bool each(ohca_engine *e, const struct ohca_ids *ids,
		 bool (*one)(ohca_engine *e, uint32_t n))
{
	for (;;) {
		const uint32_t n = ohca_ids_from(ids, e->sweep_at);

		if (n == OHCA_NO_ID)
			return true;
		if (!ohca_work_left(e))
			return false;
		ohca_work(e, OHCA_WORK_STEP);
		if (!one(e, n))
			return false;
		e->sweep_at = n + 1;
	}
}

static bool qp_one(ohca_engine *e, uint32_t n)
{
	struct ohca_qp *qp = e->qp[n];

	if (!qp)
		return true;
	qp->going = true;
	if (!ohca_mw_forget(e, qp) || !ohca_xp_tags_flush(e, qp) ||
	    !ohca_pages_free_some(e, &qp->buf))
		return false;
	ohca_work(e, 2 * OHCA_WORK_OBJECT);
	ohca_qp_free(e, qp);
	return true;
}

static bool srq_one(ohca_engine *e, uint32_t n)
{
	struct ohca_srq *srq = e->srq[n];

	if (!srq)
		return true;
	if (!ohca_pages_free_some(e, &srq->buf))
		return false;
	ohca_work(e, OHCA_WORK_OBJECT);
	ohca_srq_free(e, srq);
	return true;
}

static bool cq_one(ohca_engine *e, uint32_t n)
{
	struct ohca_cq *cq = e->cq[n];

	if (!cq)
		return true;
	if (!ohca_pages_free_some(e, &cq->buf))
		return false;
	ohca_work(e, OHCA_WORK_OBJECT);
	ohca_cq_free(e, cq);
	return true;
}

static bool mr_one(ohca_engine *e, uint32_t n)
{
	struct ohca_mr *mr = e->mr[n];

	if (!mr)
		return true;
	if ((mr->odp && !ohca_odp_clear(e, mr->odp)) ||
	    (mr->type != OHCA_MR_FRMR && !ohca_pages_free_some(e, &mr->pages)))
		return false;
	ohca_work(e, OHCA_WORK_OBJECT);
	ohca_mr_free(e, mr);
	return true;
}

static bool window_one(ohca_engine *e, uint32_t n)
{
	return !e->mr[n] || !e->mr[n]->bound || mr_one(e, n);
}

static bool pd_one(ohca_engine *e, uint32_t n)
{
	ohca_work(e, OHCA_WORK_OBJECT);
	if (e->pd[n])
		ohca_pd_free(e, e->pd[n]);
	return true;
}

static bool set_one(ohca_engine *e, uint32_t n)
{
	ohca_work(e, OHCA_WORK_OBJECT);
	if (e->set[n])
		ohca_counter_set_free(e, e->set[n]);
	return true;
}

static bool xrcd_one(ohca_engine *e, uint32_t n)
{
	ohca_work(e, OHCA_WORK_OBJECT);
	if (e->xrcd[n])
		ohca_xrcd_free(e, e->xrcd[n]);
	return true;
}

static bool qps(ohca_engine *e)
{
	return each(e, &e->qp_ids, qp_one);
}

static bool srqs(ohca_engine *e)
{
	return each(e, &e->srq_ids, srq_one);
}

static bool cqs(ohca_engine *e)
{
	return each(e, &e->cq_ids, cq_one);
}

static bool eqs(ohca_engine *e)
{
	for (; e->sweep_at < OHCA_MAX_EQ; e->sweep_at++) {
		struct ohca_eq *eq = e->eq[e->sweep_at];

		if (!eq)
			continue;
		if (!ohca_eq_forget(e, eq) || !ohca_pages_free_some(e, &eq->buf))
			return false;
		ohca_work(e, OHCA_WORK_OBJECT);
		ohca_eq_free(e, eq);
	}
	return true;
}

static bool moderation(ohca_engine *e)
{
	ohca_work_free(e, e->mod.cap * sizeof(*e->mod.due));
	ohca_heap_free(e, &e->mod);
	return true;
}

static bool windows(ohca_engine *e)
{
	return each(e, &e->mr_ids, window_one);
}

static bool mrs(ohca_engine *e)
{
	return each(e, &e->mr_ids, mr_one);
}

static bool pds(ohca_engine *e)
{
	return each(e, &e->pd_ids, pd_one);
}

static bool sets(ohca_engine *e)
{
	return each(e, &e->set_ids, set_one);
}

static bool xrcds(ohca_engine *e)
{
	return each(e, &e->xrcd_ids, xrcd_one);
}

/* An object that refers to others is freed before them: windows before regions, all before PDs. */
static bool (*const parts[])(ohca_engine *e) = {
	ohca_job_end_some, ohca_mcast_free_some, qps, srqs, cqs, moderation, eqs, windows, mrs,
	ohca_dm_free_some, pds, sets, xrcds, ohca_sched_empty,
};

/* Free objects, as far as the allowance of work covers. Return: true if none is left */
static bool sweep_some(ohca_engine *e)
{
	for (; e->sweep < sizeof(parts) / sizeof(parts[0]); e->sweep++, e->sweep_at = 0)
		if (!parts[e->sweep](e))
			return false;
	ohca_sched_reset(e);
	e->sweep = 0;
	return true;
}

/* Run @step on an ended life of @e, with what is left of the allowance of work. Return: as @step */
static bool work_at(ohca_engine *e, ohca_engine *d, bool (*step)(ohca_engine *e))
{
	bool done;

	d->work = 0;
	d->work_end = e->work_end - e->work;
	done = step(d);
	ohca_work(e, d->work);
	return done;
}

/* Append the empty life @d to the list of spare ones. */
static void life_put(ohca_engine *e, ohca_engine *d)
{
	ohca_engine **at = &e->spare;

	while (*at)
		at = &(*at)->spare;
	*at = d;
}

int ohca_life_spare(ohca_engine *e)
{
	ohca_engine *d = life_get(e);

	if (!d)
		return -1;
	life_put(e, d);
	return 0;
}

bool ohca_life_sweep(ohca_engine *e, uint64_t allowance)
{
	ohca_work_begin(e, allowance);
	while (e->num_dead && ohca_work_left(e) && work_at(e, e->dead[0], sweep_some)) {
		life_put(e, e->dead[0]);
		e->num_dead--;
		memmove(e->dead, e->dead + 1, e->num_dead * sizeof(*e->dead));
		e->dead[e->num_dead] = NULL;
	}
	return e->num_dead;
}

bool ohca_life_free_some(ohca_engine *e)
{
	while (e->spare) {
		ohca_engine *d = e->spare;

		if (!ohca_work_left(e) || !work_at(e, d, all_free))
			return false;
		ohca_work_free(e, sizeof(*d));
		e->spare = d->spare;
		free(d);
	}
	return all_free(e);
}
