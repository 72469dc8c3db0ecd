// SPDX-License-Identifier: GPL-2.0-or-later
/* The page that an HCA shares with its front (front/page.h); see hca_priv.h. */
#include "hca_priv.h"
#include "ohca_hw.h"

/* The requests of the front that count now: while the machine is paused only OHCA_PEND_ATTN. */
static uint32_t page_pending(const struct fab_hca *h)
{
	return atomic_load(h->bells.pending) & (h->running ? OHCA_PEND_ENGINE | OHCA_PEND_ATTN :
						OHCA_PEND_ATTN);
}

bool fab_page_open(struct fab_hca *h)
{
	struct ohca_page *page = h->cfg.page;
	struct ohca_db_sizes sizes;
	void *bells;

	if (!page)
		return true;
	bells = (uint8_t *)page + OHCA_PAGE_DOORBELLS;
	if (h->cfg.engine.num_vectors > OHCA_PAGE_VECTORS ||
	    !ohca_doorbell_sizes(&h->cfg.engine, &sizes))
		return false;
	ohca_doorbells_place(&h->bells, &sizes, bells);
	h->cfg.engine.doorbells = bells;
	h->paged = h->s->paged;
	h->s->paged = h;
	return true;
}

void fab_hca_page_copy(const struct fab_hca *h, struct ohca_page *page)
{
	struct ohca_page *from = h->cfg.page;

	for (unsigned int i = 0; i < OHCA_PAGE_REGS; i++)
		atomic_store(&page->reg[i], atomic_load(&from->reg[i]));
	atomic_store(&page->clock, atomic_load(&from->clock));
	atomic_store(&page->clock_ok, atomic_load(&from->clock_ok));
	atomic_store(&page->slow_reads, atomic_load(&from->slow_reads));
	for (unsigned int i = 0; i < OHCA_PAGE_VECTORS / 64; i++)
		atomic_store(&page->irq[i], atomic_load(&from->irq[i]));
}

void fab_page_move(struct fab_hca *h, struct ohca_page *page)
{
	const struct ohca_db_sizes sizes = h->bells.size;

	h->cfg.page = page;
	h->cfg.engine.doorbells = (uint8_t *)page + OHCA_PAGE_DOORBELLS;
	ohca_doorbells_place(&h->bells, &sizes, h->cfg.engine.doorbells);
	/* the new interrupt socket has carried no notification of these */
	for (unsigned int i = 0; i < OHCA_PAGE_VECTORS / 64; i++)
		h->raised |= atomic_load(&page->irq[i]) != 0;
}

void fab_page_close(struct fab_hca *h)
{
	struct fab_hca **at = &h->s->paged;

	while (*at && *at != h)
		at = &(*at)->paged;
	if (*at)
		*at = h->paged;
}

/* ---- from the front ------------------------------------------------------------ */

void fab_pages_collect(struct fab_hcas *s)
{
	for (struct fab_hca *h = s->paged; h; h = h->paged)
		if (page_pending(h) & OHCA_PEND_ENGINE)
			fab_hca_list(h);
}

void fab_hcas_attn(struct fab_hcas *s)
{
	for (struct fab_hca *h = s->paged; h; h = h->paged) {
		if (!(page_pending(h) & OHCA_PEND_ATTN))
			continue;
		atomic_fetch_and(h->bells.pending, ~OHCA_PEND_ATTN);
		if (h->cfg.attn)
			h->cfg.attn(h->cfg.arg);
	}
}

bool fab_pages_sleep(struct fab_hcas *s)
{
	const struct fab_hca *h;

	/* the front accesses @asleep and its pending bits in the opposite order */
	for (h = s->paged; h; h = h->paged)
		atomic_store(&h->cfg.page->asleep, 1);
	for (h = s->paged; h && !page_pending(h); h = h->paged)
		;
	if (!h)
		return true;
	fab_pages_awake(s);
	return false;
}

void fab_pages_awake(struct fab_hcas *s)
{
	for (const struct fab_hca *h = s->paged; h; h = h->paged)
		atomic_store_explicit(&h->cfg.page->asleep, 0, memory_order_relaxed);
}

/* ---- to the front -------------------------------------------------------------- */

static void page_store(_Atomic uint32_t *to, uint32_t v)
{
	atomic_store_explicit(to, v, memory_order_release);
}

void fab_page_show(struct fab_hca *h)
{
	struct ohca_page *page = h->cfg.page;

	if (!page)
		return;
	h->status = (uint32_t)ohca_mmio_read(h->e, OHCA_REG_STATUS, 4);
	for (uint32_t i = 0; i < OHCA_PAGE_REGS; i++)
		if (i != OHCA_REG_STATUS / 4)
			page_store(&page->reg[i], (uint32_t)ohca_mmio_read(h->e, i * 4, 4));
	page_store(&page->clock_ok, ohca_mmio_read(h->e, OHCA_REG_FEATURES_ACK, 8) >>
		   OHCA_FEATURE_CLOCK & 1);
	/* last: a reader of the status then reads the registers that belong to it */
	page_store(&page->reg[OHCA_REG_STATUS / 4], h->status);
}

void fab_page_clock(struct fab_hca *h)
{
	struct ohca_page *page = h->cfg.page;

	if (!page)
		return;
	atomic_store(&page->clock, atomic_load(&h->clock));
}

void fab_page_irq(struct fab_hca *h, unsigned int vec)
{
	atomic_fetch_or(&h->cfg.page->irq[vec / 64], 1ull << vec % 64);
	h->raised = true;
}

void fab_page_turned(struct fab_hca *h)
{
	struct ohca_page *page = h->cfg.page;

	if (!page)
		return;
	/* only writes of registers, and fatal errors, change registers */
	if (h->status != (uint32_t)ohca_mmio_read(h->e, OHCA_REG_STATUS, 4))
		fab_page_show(h);
	if (!h->raised)
		return;
	h->raised = false;
	if (!atomic_exchange(&page->irq_any, 1) && h->cfg.irq)
		h->cfg.irq(h->cfg.arg, 0);
}
