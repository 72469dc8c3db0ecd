/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine as a whole: creation, reset and polling. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/async.h"
#include "engine/base/guestmem.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/device/admin.h"
#include "engine/device/life.h"
#include "engine/management/mad.h"
#include "engine/object/cq.h"
#include "engine/object/doorbell.h"
#include "engine/object/fault.h"
#include "engine/object/mcast.h"
#include "engine/object/mr.h"
#include "engine/transport/sched.h"
#include "ohca_hw.h"

#define ADMIN_PER_POLL	8u	/* commands that one poll executes at most */

/* ---- creation --------------------------------------------------------------------- */

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
	if (!c.rate_scale)
		c.rate_scale = 1;
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
	return o->dma_map && o->dma_dirty && o->irq && o->now_ns && o->kick && o->tx_begin &&
	       o->tx_commit && o->link_ctl && o->link_rate;
}

static int keys_init(ohca_engine *e)
{
	/* calloc(): the system allocates pages only when a number is used */
	e->mr_tag = calloc(1ull << e->cfg.log_max_mr, sizeof(*e->mr_tag));
	e->local_dma = calloc(1, sizeof(*e->local_dma));
	e->uar_faults = calloc(e->cfg.num_uars, sizeof(*e->uar_faults));
	if (!e->mr_tag || !e->local_dma || !e->uar_faults)
		return -1;
	*e->local_dma = (struct ohca_mr){
		.key = OHCA_LOCAL_DMA_LKEY,
		.type = OHCA_MR_DMA,
		.valid = true,
		.access = OHCA_ACCESS_LOCAL_WRITE,
	};
	return 0;
}

void ohca_set_trace(ohca_engine *e, uint32_t events)
{
	e->trace = e->ops.trace ? events : 0;
}

void ohca_any_order(ohca_engine *e, uint16_t sls)
{
	e->any_order = sls;
}

void ohca_move(ohca_engine *e, void *dm, void *doorbells)
{
	e->cfg.dm = dm;
	e->cfg.doorbells = doorbells;
	ohca_db_move(e, doorbells);
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
	for (unsigned int i = 0; i < OHCA_MAX_PORTS; i++)
		ohca_async_init(&e->port[i].async, 0, i + 1);
	ohca_mcast_init(e);
	atomic_store(&e->page_shift, OHCA_PL_MIN_SHIFT);
	if (!ohca_doorbell_sizes(&e->cfg, &sizes) || keys_init(e) || ohca_life_init(e) ||
	    ohca_life_spare(e) || ohca_db_init(e, &sizes) || ohca_mad_init(e)) {
		ohca_free(e);
		return NULL;
	}
	atomic_store(&e->status, OHCA_STATUS_READY);
	return e;
}

/* ---- reset and end ---------------------------------------------------------------- */

void ohca_retire(ohca_engine *e)
{
	atomic_store(&e->status, 0);
	if (e->db)
		ohca_life_end(e);
	ohca_db_free(e);
	ohca_mad_free(e);
}

bool ohca_sweep(ohca_engine *e)
{
	return ohca_life_sweep(e, OHCA_SWEEP_WORK) || (!e->db && !ohca_life_free_some(e));
}

void ohca_free(ohca_engine *e)
{
	if (!e)
		return;
	ohca_retire(e);
	while (ohca_sweep(e))
		;
	free(e->mr_tag);
	free(e->local_dma);
	free(e->uar_faults);
	free(e);
}

void ohca_reset(ohca_engine *e)
{
	atomic_store(&e->status, 0);
	ohca_life_end(e);
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
	if (e->num_dead)
		e->ops.kick(e->h);
}

/* ---- running ---------------------------------------------------------------------- */

bool ohca_poll(ohca_engine *e, unsigned int budget)
{
	bool more;

	/* before the commands, which may wait for the sweep */
	more = ohca_life_sweep(e, OHCA_SWEEP_WORK);
	if (!ohca_running(e)) {
		ohca_db_ignore(e);
		return more;
	}
	ohca_dma_enter(e);
	ohca_doorbells_run(e);
	/* packets first, so that an acknowledgement leaves before a command destroys its QP */
	more |= ohca_sched_run(e, budget);
	if (ohca_running(e) && ohca_db_admin(e) != e->aq_ci) {
		if (e->num_dead < OHCA_MAX_DEAD)
			ohca_admin_run(e, ADMIN_PER_POLL);
		more = true;
	}
	if (ohca_running(e)) {
		uint64_t now = ohca_turn_now(e);

		if (ohca_cq_deadline(e) <= now && ohca_cq_moderate(e, now))
			more = true;
		/*
		 * after the packets, so that a reply leaves before its request takes the link down
		 */
		if (now >= ohca_mad_deadline(e)) {
			ohca_mad_timer(e, now);
			more = true;
		}
	}
	ohca_dma_exit(e);
	e->rx_end = e->work + OHCA_RX_WORK;
	/* work that arrived during this call needs no kick */
	return e->num_dead ||
	       (ohca_running(e) &&
		(more || ohca_db_pending(e) || ohca_db_admin(e) != e->aq_ci));
}

void ohca_host_work(ohca_engine *e, uint64_t n)
{
	ohca_work(e, n);
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
