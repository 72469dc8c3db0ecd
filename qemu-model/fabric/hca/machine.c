// SPDX-License-Identifier: GPL-2.0-or-later
/* Calls of the machine to its HCA, between turns: registers, reset, pause, move; see hca.h. */
#include "hca_priv.h"

void fab_hca_write_reg(struct fab_hca *h, uint32_t off, uint64_t val, unsigned int size)
{
	ohca_mmio_write(h->e, off, val, size);
	fab_page_show(h);
	fab_page_turned(h);
}

uint64_t fab_hca_read_reg(struct fab_hca *h, uint32_t off, unsigned int size)
{
	return ohca_lie_in_register(h->e, ohca_mmio_read(h->e, off, size), size);
}

void fab_hca_reset(struct fab_hca *h)
{
	ohca_reset(h->e);
	h->raised = false;
	fab_page_show(h);
}

void fab_hca_persisted(struct fab_hca *h, uint64_t tag)
{
	ohca_persisted(h->e, tag);
}

void fab_hca_run(struct fab_hca *h, bool running)
{
	const uint64_t host = fab_data_host_ns(h->s->d);
	const uint64_t clock = ohca_page_clock(atomic_load(&h->clock), host);

	if (running == h->running)
		return;
	if (!running) {
		/* notify the front of vectors that were raised before the pause */
		fab_page_turned(h);
		fab_hca_unlist(h);
	}
	atomic_store(&h->clock, ohca_page_clock_word(running ? clock - host : clock, running));
	h->running = running;
	fab_page_clock(h);
	if (!running)
		return;
	fab_hca_links(h);
	fab_hca_list(h);
}

bool fab_hca_is_running(const struct fab_hca *h)
{
	return h->running;
}

void fab_hca_move(struct fab_hca *h, const struct fab_hca_cfg *to, struct fab_hca_reach *reach)
{
	const struct fab_hca_reach was = h->reach;

	h->reach = *reach;
	*reach = was;
	h->cfg.arg = to->arg;
	h->cfg.dm_log = to->dm_log;
	h->cfg.vanished = to->vanished;
	h->cfg.engine.dm = to->engine.dm;
	fab_page_move(h, to->page);
	ohca_move(h->e, to->engine.dm, h->cfg.engine.doorbells);
}
