/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One machine for all inputs. See renew.h. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/object/doorbell.h"
#include "engine/transport/sched.h"
#include "block.h"
#include "renew.h"

#define BLOCKS	11u

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "after a reset: %s\n", what);
	abort();
}

void must_be_empty(const ohca_engine *e)
{
	must(e->qp_ids.num == OHCA_FIRST_QP, "QPs");
	must(!e->cq_ids.num, "CQs");
	must(!e->srq_ids.num, "SRQs");
	must(e->mr_ids.num == 2, "MRs");
	must(!e->pd_ids.num, "PDs");
	must(!e->xrcd_ids.num, "XRC domains");
	must(!e->dm_ids.num && ohca_list_empty(&e->dm_used), "device memory");
	must(e->set_ids.num == 1, "counter sets");
	for (unsigned int i = 0; i < OHCA_MAX_EQ; i++)
		must(!e->eq[i], "EQs");
	must(!e->async_eq && !e->fault_eq, "EQs of a kind");
	must(!e->num_mcast_grp && !e->mcast_total, "multicast groups");
	must(!e->num_tags && !e->num_odp && !e->num_faults, "tags, ODP or faults");
	must(!e->page_entries, "page lists");
	must(!e->mem_used, "memory of the budget");
	must(!e->dma_depth, "a burst of DMA");
	must(!e->mod.num, "moderated CQs");
	must(!e->sched->num_xp && !e->sched->heap_num && !e->sched->busy, "who sends");
}

void retire(struct host *h)
{
	ohca_reset(h->e);
	must(atomic_load(&h->e->status) == OHCA_STATUS_READY, "not ready");
	while (ohca_sweep(h->e))
		;
	for (const ohca_engine *e = h->e; e; e = e->spare)
		must_be_empty(e);
}

/* Resets the engine until it uses its first tables again; there are two others at most. */
static void first_life(ohca_engine *e, const struct ohca_sched *first)
{
	for (unsigned int i = 0; e->sched != first; i++) {
		must(i < OHCA_MAX_DEAD, "tables are lost");
		e->aq_ci = 1;		/* as if there was a driver */
		ohca_reset(e);
		while (ohca_sweep(e))
			;
	}
}

struct host *renewed(const struct ohca_cfg *cfg, uint64_t mem)
{
	static struct block block[BLOCKS];
	static struct host as_new;
	static struct ohca_sched *first;
	static struct host *h;
	ohca_engine *e;

	if (h) {
		ohca_engine *spare;

		e = h->e;
		first_life(e, first);
		spare = e->spare;
		for (unsigned int i = 0; i < BLOCKS; i++)
			block_put_back(&block[i]);
		e->spare = spare;
		host_renew(h, &as_new);
		return h;
	}
	h = host_new_cfg(cfg, mem);
	e = h->e;
	memset(h->mem, 0, h->mem_size);
	as_new = *h;
	first = e->sched;
	block[0] = block_of(e);
	block[1] = block_of(e->sched);
	block[2] = block_of(e->mad);
	block[3] = block_of(e->db);
	block[4] = block_of(e->fault);
	block[5] = block_of(e->mr_tag);
	block[6] = block_of(e->local_dma);
	block[7] = block_of(e->qp_ids.used);
	block[8] = block_of(e->mr_ids.used);
	block[9] = block_of(e->set_ids.used);
	block[10] = block_of(h->doorbells ? h->doorbells : e->db->own);
	return h;
}
