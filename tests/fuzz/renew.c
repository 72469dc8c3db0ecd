/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One machine for all inputs. See renew.h. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/transport/sched.h"
#include "renew.h"

#define BLOCKS	10u

/** struct block - memory of the engine, and what was in it when the engine was new */
struct block {
	void *p, *as_new;
	size_t n;
};

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
	must(ohca_list_empty(&e->mod), "moderated CQs");
	must(!e->sched->num_xp && !e->sched->heap_num && !e->sched->busy, "who sends");
	must(atomic_load(&e->status) == OHCA_STATUS_READY, "not ready");
}

static void remember(struct block *b, void *p)
{
	/* of ASan's allocator: what was asked for */
	size_t n = p ? malloc_usable_size(p) : 0;

	*b = (struct block){ .p = p, .as_new = malloc(n ? n : 1), .n = n };
	must(b->as_new != NULL, "out of memory");
	if (n)
		memcpy(b->as_new, p, n);
}

void retire(struct host *h)
{
	ohca_reset(h->e);
	must_be_empty(h->e);
}

struct host *renewed(const struct ohca_cfg *cfg, uint64_t mem)
{
	static struct block block[BLOCKS];
	static struct host as_new;
	static struct host *h;
	ohca_engine *e;

	if (h) {
		e = h->e;
		for (unsigned int i = 0; i < BLOCKS; i++)
			if (block[i].n)
				memcpy(block[i].p, block[i].as_new, block[i].n);
		host_renew(h, &as_new);
		return h;
	}
	h = host_new_cfg(cfg, mem);
	e = h->e;
	memset(h->mem, 0, h->mem_size);
	as_new = *h;
	remember(&block[0], e);
	remember(&block[1], e->sched);
	remember(&block[2], e->mad);
	remember(&block[3], e->db);
	remember(&block[4], e->fault);
	remember(&block[5], e->mr_tag);
	remember(&block[6], e->local_dma);
	remember(&block[7], e->qp_ids.used);
	remember(&block[8], e->mr_ids.used);
	remember(&block[9], e->set_ids.used);
	return h;
}
