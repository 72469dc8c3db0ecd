/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine as a whole: creation, reset and polling. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/async.h"
#include "engine/base/guestmem.h"
#include "engine/base/heap.h"
#include "engine/base/ids.h"
#include "engine/base/job.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/device/admin.h"
#include "engine/management/mad.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/dm.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "engine/object/fault.h"
#include "engine/object/mcast.h"
#include "engine/object/mr.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "engine/object/xrc.h"
#include "engine/transport/sched.h"
#include "ohca_hw.h"

#define ADMIN_PER_POLL	8u	/* commands a poll executes before packets get their turn */

/* ---- making ----------------------------------------------------------------------- */

static bool cfg_ok(const struct ohca_cfg *c)
{
	bool vls = c->vl_cap == 1 || c->vl_cap == 2 || c->vl_cap == 4 || c->vl_cap == 8 ||
		   c->vl_cap == 15;

	return c->num_ports >= 1 && c->num_ports <= OHCA_MAX_PORTS && vls &&
	       c->mtu_cap >= 1 && c->mtu_cap <= 5 && c->width_sup && c->num_vectors >= 1 &&
	       c->num_uars >= 1 && c->num_uars <= 0xffff && c->log_max_qp >= 3 &&
	       c->log_max_qp <= 16 && c->log_max_cq >= 1 && c->log_max_cq <= 16 &&
	       c->log_max_srq >= 1 && c->log_max_srq <= 16 && c->log_max_mr >= 2 &&
	       c->log_max_mr <= 20 && !(c->dm_size & 0xffff) && c->dm_size <= 1u << 30 &&
	       (!c->dm_size || (c->dm && !((uintptr_t)c->dm & 7))) &&
	       memchr(c->node_desc, 0, sizeof(c->node_desc)) != NULL;
}

static struct ohca_cfg with_defaults(const struct ohca_cfg *cfg)
{
	struct ohca_cfg c = *cfg;

	if (!c.sys_guid)
		c.sys_guid = c.node_guid;
	if (!c.log_max_qp)
		c.log_max_qp = 16;
	if (!c.log_max_cq)
		c.log_max_cq = 16;
	if (!c.log_max_srq)
		c.log_max_srq = 16;
	if (!c.log_max_mr)
		c.log_max_mr = 20;
	return c;
}

bool ohca_doorbell_sizes(const struct ohca_cfg *cfg, struct ohca_db_sizes *s)
{
	const struct ohca_cfg c = with_defaults(cfg);

	if (!cfg_ok(&c))
		return false;
	s->max[OHCA_DB_QP] = 1u << c.log_max_qp;
	s->max[OHCA_DB_CQ] = 1u << c.log_max_cq;
	s->max[OHCA_DB_SRQ] = 1u << c.log_max_srq;
	s->uars = c.num_uars;
	return true;
}

static bool ops_ok(const struct ohca_host_ops *o)
{
	return o->dma_enter && o->dma_exit && o->dma_map && o->dma_dirty && o->irq &&
	       o->now_ns && o->kick && o->tx_begin && o->tx_commit && o->link_ctl &&
	       o->link_rate;
}

static int tables_init(ohca_engine *e)
{
	e->max_qp = 1u << e->cfg.log_max_qp;
	e->max_cq = 1u << e->cfg.log_max_cq;
	e->max_srq = 1u << e->cfg.log_max_srq;
	e->max_mr = 1u << e->cfg.log_max_mr;
	e->max_pd = e->max_qp;
	e->max_xrcd = e->max_qp;
	/* calloc(): the system allocates pages only when a number is used */
	e->qp = calloc(e->max_qp, sizeof(*e->qp));
	e->cq = calloc(e->max_cq, sizeof(*e->cq));
	e->srq = calloc(e->max_srq, sizeof(*e->srq));
	e->mr = calloc(e->max_mr, sizeof(*e->mr));
	e->pd = calloc(e->max_pd, sizeof(*e->pd));
	e->xrcd = calloc(e->max_xrcd, sizeof(*e->xrcd));
	e->mr_tag = calloc(e->max_mr, sizeof(*e->mr_tag));
	e->local_dma = calloc(1, sizeof(*e->local_dma));
	e->fault = calloc(OHCA_MAX_FAULTS, sizeof(*e->fault));
	e->uar_faults = calloc(e->cfg.num_uars, sizeof(*e->uar_faults));
	if (!e->qp || !e->cq || !e->srq || !e->mr || !e->pd || !e->xrcd || !e->mr_tag ||
	    !e->local_dma || !e->fault || !e->uar_faults)
		return -1;
	*e->local_dma = (struct ohca_mr){
		.key = OHCA_LOCAL_DMA_LKEY,
		.type = OHCA_MR_DMA,
		.valid = true,
		.access = OHCA_ACCESS_LOCAL_WRITE,
	};
	/* MR 0 would make key 0 valid; MR 1 is the reserved L_Key */
	if (ohca_ids_init(&e->qp_ids, e->max_qp, OHCA_FIRST_QP) ||
	    ohca_ids_init(&e->cq_ids, e->max_cq, 0) || ohca_ids_init(&e->srq_ids, e->max_srq, 0) ||
	    ohca_ids_init(&e->mr_ids, e->max_mr, 2) || ohca_ids_init(&e->pd_ids, e->max_pd, 0) ||
	    ohca_ids_init(&e->set_ids, OHCA_MAX_COUNTER_SETS, 1) ||
	    ohca_ids_init(&e->xrcd_ids, e->max_xrcd, 0))
		return -1;
	return 0;
}

void ohca_set_trace(ohca_engine *e, uint32_t events)
{
	e->trace = e->ops.trace ? events : 0;
}

ohca_engine *ohca_new(const struct ohca_cfg *cfg, const struct ohca_host_ops *ops, void *h)
{
	struct ohca_db_sizes sizes;
	ohca_engine *e;

	if (!cfg || !ops || !ops_ok(ops))
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->cfg = with_defaults(cfg);
	e->ops = *ops;
	e->h = h;
	ohca_set_trace(e, ~0u);
	e->mem_max = e->cfg.mem_max ? e->cfg.mem_max : OHCA_MEM_DEFAULT;
	ohca_list_init(&e->dm_used);
	for (unsigned int i = 0; i < OHCA_MAX_PORTS; i++)
		ohca_async_init(&e->port[i].async, 0, i + 1);
	ohca_mcast_init(e);
	atomic_store(&e->page_shift, OHCA_PL_MIN_SHIFT);
	if (!ohca_doorbell_sizes(&e->cfg, &sizes) || tables_init(e) || ohca_dm_init(e) ||
	    ohca_db_init(e, &sizes) || ohca_mad_init(e) || ohca_sched_init(e)) {
		ohca_free(e);
		return NULL;
	}
	atomic_store(&e->status, OHCA_STATUS_READY);
	return e;
}

/* ---- reset ------------------------------------------------------------------------ */

/* Destroys all objects of the driver. No DMA happens: the status is cleared before. */
static void objects_free(ohca_engine *e)
{
	if (e->mcast_total)
		ohca_mcast_free_all(e);
	for (uint32_t i = 0; e->qp && i < e->max_qp; i++)
		if (e->qp[i])
			ohca_qp_free(e, e->qp[i]);
	for (uint32_t i = 0; e->srq && e->srq_ids.num && i < e->max_srq; i++)
		if (e->srq[i])
			ohca_srq_free(e, e->srq[i]);
	for (uint32_t i = 0; e->cq && e->cq_ids.num && i < e->max_cq; i++)
		if (e->cq[i])
			ohca_cq_free(e, e->cq[i]);
	ohca_heap_free(e, &e->mod);
	for (uint32_t i = 0; i < OHCA_MAX_EQ; i++)
		if (e->eq[i])
			ohca_eq_free(e, e->eq[i]);
	/* windows before the regions that they are bound to */
	for (unsigned int pass = 0; pass < 2; pass++)
		for (uint32_t i = 2; e->mr && e->mr_ids.num > 2 && i < e->max_mr; i++)
			if (e->mr[i] && (pass || e->mr[i]->bound))
				ohca_mr_free(e, e->mr[i]);
	ohca_dm_free_all(e);
	for (uint32_t i = 0; e->pd && e->pd_ids.num && i < e->max_pd; i++)
		if (e->pd[i])
			ohca_pd_free(e, e->pd[i]);
	for (uint32_t i = 1; e->set_ids.num > 1 && i < OHCA_MAX_COUNTER_SETS; i++)
		if (e->set[i])
			ohca_counter_set_free(e, e->set[i]);
	for (uint32_t i = 0; e->xrcd && e->xrcd_ids.num && i < e->max_xrcd; i++)
		if (e->xrcd[i])
			ohca_xrcd_free(e, e->xrcd[i]);
}

void ohca_free(ohca_engine *e)
{
	if (!e)
		return;
	atomic_store(&e->status, 0);
	objects_free(e);
	ohca_job_end(e);
	if (e->sched)
		ohca_sched_free(e);
	ohca_mad_free(e);
	ohca_db_free(e);
	ohca_dm_exit(e);
	ohca_ids_free(&e->qp_ids);
	ohca_ids_free(&e->cq_ids);
	ohca_ids_free(&e->srq_ids);
	ohca_ids_free(&e->mr_ids);
	ohca_ids_free(&e->pd_ids);
	ohca_ids_free(&e->set_ids);
	ohca_ids_free(&e->xrcd_ids);
	free(e->qp);
	free(e->cq);
	free(e->srq);
	free(e->mr);
	free(e->pd);
	free(e->xrcd);
	free(e->mr_tag);
	free(e->local_dma);
	free(e->fault);
	free(e->uar_faults);
	free(e);
}

void ohca_reset(ohca_engine *e)
{
	atomic_store(&e->status, 0);
	objects_free(e);
	ohca_sched_reset(e);
	ohca_fault_reset(e);
	ohca_aq_reset(e);
	ohca_db_clear(e);
	ohca_mad_reset(e);
	atomic_store(&e->features_ack, 0);
	atomic_store(&e->aq_base, 0);
	atomic_store(&e->acq_base, 0);
	atomic_store(&e->aq_log_size, 0);
	atomic_store(&e->aq_intr, 0);
	atomic_store(&e->page_shift, OHCA_PL_MIN_SHIFT);
	atomic_store(&e->fatal_reason, OHCA_FATAL_NONE);
	atomic_store(&e->status, OHCA_STATUS_READY);
}

/* ---- running ---------------------------------------------------------------------- */

static bool poll(ohca_engine *e, unsigned int budget, bool commands)
{
	bool more;

	if (!ohca_running(e)) {
		ohca_db_ignore(e);
		return false;
	}
	ohca_dma_enter(e);
	ohca_doorbells_run(e);
	/* packets first: an acknowledgement leaves before its QP goes */
	more = ohca_sched_run(e, budget);
	if (commands && ohca_running(e) && ohca_db_admin(e) != e->aq_ci) {
		ohca_admin_run(e, ADMIN_PER_POLL);
		more = true;
	}
	if (ohca_running(e)) {
		uint64_t now = ohca_now(e);

		if (ohca_cq_deadline(e) <= now && ohca_cq_moderate(e, now))
			more = true;
		/* after the packets: a reply leaves before the link it takes down */
		if (now >= ohca_mad_deadline(e)) {
			ohca_mad_timer(e, now);
			more = true;
		}
	}
	ohca_dma_exit(e);
	e->rx_end = e->work + OHCA_RX_WORK;
	/* work that arrived meanwhile needs no kick */
	return ohca_running(e) &&
	       (more || ohca_db_pending(e) || ohca_db_admin(e) != e->aq_ci);
}

bool ohca_poll(ohca_engine *e, unsigned int budget)
{
	return poll(e, budget, true);
}

bool ohca_poll_packets(ohca_engine *e, unsigned int budget)
{
	return poll(e, budget, false);
}

uint64_t ohca_next_deadline(const ohca_engine *e)
{
	uint64_t d, t;

	if (!ohca_running(e))
		return OHCA_NO_DEADLINE;
	d = ohca_sched_deadline(e);
	t = ohca_mad_deadline(e);
	if (t < d)
		d = t;
	t = ohca_cq_deadline(e);
	return t < d ? t : d;
}

void ohca_tx_ready(ohca_engine *e, unsigned int port, uint16_t lanes)
{
	if (port >= e->cfg.num_ports || !ohca_running(e))
		return;
	ohca_dma_enter(e);
	ohca_xp_tx_ready(e, port, lanes);
	ohca_dma_exit(e);
}

void ohca_link_change(ohca_engine *e, unsigned int port, const struct ohca_link_rate *rate)
{
	if (port >= e->cfg.num_ports)
		return;
	ohca_dma_enter(e);
	ohca_mad_link(e, port, rate);
	ohca_dma_exit(e);
}
