/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FLUSH for persistence (IBTA vol 1, annex A19). It may take as long as a disk of the host needs.
 * The host executes it in another thread, OHCA_PERSIST_RUNS ranges at a time, while the engine
 * continues. The responder answers with an RNR NAK. The repeated FLUSH begins the next part, or
 * completes when all parts are done.
 *
 * All QPs share a few slots, which bound the host's work. A FLUSH without a slot also gets an RNR
 * NAK. If a requester does not repeat its FLUSH, its slot is reused after a while.
 */
#include <stdlib.h>

#include "engine/base/guestmem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/mr_access.h"
#include "engine/transport/persist.h"
#include "engine/transport/sched.h"

/* A slot may be reused if its FLUSH was not repeated for so long. */
#define ABANDONED_NS	1000000000ull
/* Work for successive parts, if the host completes each at once. */
#define PART_WORK	(OHCA_WORK_ONE / 4 * 3)

void ohca_persist_forget(ohca_engine *e, const struct ohca_xport *xp)
{
	for (unsigned int i = 0; i < OHCA_PERSISTS; i++)
		if (e->sched->persist[i].xp == xp)
			e->sched->persist[i].xp = NULL;
}

/* Get the slot of this FLUSH, or a free one. NULL: none is free. */
static struct ohca_persist *journal_place(ohca_engine *e, const struct ohca_xport *xp, uint32_t psn,
					  uint32_t rkey, const struct ohca_mr_range *r)
{
	struct ohca_persist *free = NULL;
	uint64_t now = ohca_now(e);

	for (unsigned int i = 0; i < OHCA_PERSISTS; i++) {
		struct ohca_persist *p = &e->sched->persist[i];

		if (p->xp == xp) {
			if (p->psn == psn && p->rkey == rkey && p->range.mr == r->mr &&
			    p->range.off == r->off && p->range.len == r->len) {
				p->seen_ns = now;
				return p;
			}
			p->xp = NULL;
		}
		if (!p->tag && (!p->xp || now - p->seen_ns > ABANDONED_NS))
			free = p;
	}
	if (free)
		*free = (struct ohca_persist){
			.xp = xp, .psn = psn, .rkey = rkey, .range = *r, .seen_ns = now,
		};
	return free;
}

bool ohca_persist(ohca_engine *e, const struct ohca_xport *xp, uint32_t psn, uint32_t rkey,
		  const struct ohca_mr_range *r)
{
	struct ohca_persist *p = journal_place(e, xp, psn, rkey, r);
	struct ohca_run run[OHCA_PERSIST_RUNS];

	/* the host has no memory that needs a flush */
	if (p && !e->ops.dma_persist) {
		p->xp = NULL;
		return true;
	}
	if (!p)
		return false;
	for (uint64_t end = e->work + PART_WORK; e->work < end && !p->tag;) {
		unsigned int n = ohca_mr_runs(e, r, &p->done, run, OHCA_PERSIST_RUNS);

		if (!n) {
			p->xp = NULL;
			return true;
		}
		if (!ohca_dma_persist(e, run, n, e->sched->persist_tag + 1))
			p->tag = ++e->sched->persist_tag;
	}
	return false;
}

void ohca_persisted(ohca_engine *e, uint64_t tag)
{
	for (unsigned int i = 0; i < OHCA_PERSISTS; i++)
		if (e->sched->persist[i].tag == tag)
			e->sched->persist[i].tag = 0;
}
