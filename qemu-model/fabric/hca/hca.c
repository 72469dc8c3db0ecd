// SPDX-License-Identifier: GPL-2.0-or-later
/* HCAs in the fabric's process: create, turns, free; see hca.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "hca_priv.h"

/* ---- operations that an engine calls ------------------------------------------- */

static void raise_irq(void *p, unsigned int vec)
{
	struct fab_hca *h = p;

	if (h->cfg.page)
		fab_page_irq(h, vec);
	else if (h->cfg.irq)
		h->cfg.irq(h->cfg.arg, vec);
}

/*
 * Reads the host's clock, not the time when the turn began: a machine may have read the clock since
 * then, before it posted work that completes in this turn.
 */
static uint64_t hca_clock(void *p)
{
	const struct fab_hca *h = p;
	const uint64_t clock = atomic_load_explicit(&h->clock, memory_order_relaxed);

	return ohca_page_clock(clock, fab_data_host_ns(h->s->d));
}

/* The time when the turn of this HCA began: precise enough for deadlines. */
static uint64_t hca_turn_clock(void *p)
{
	const struct fab_hca *h = p;
	const uint64_t clock = atomic_load_explicit(&h->clock, memory_order_relaxed);

	return ohca_page_clock(clock, h->s->now_ns);
}

/* Only the owner calls this, as all functions of an engine: other processes ring in the page. */
static void kick(void *p)
{
	struct fab_hca *h = p;

	h->kicked = true;
	h->s->kicked = true;
}

static const struct ohca_host_ops engine_ops = {
	.dma_map = fab_hca_map,
	.dma_dirty = fab_hca_dirty,
	.dm_dirty = fab_hca_dm_dirty,
	.dma_persist = fab_hca_persist,
	.irq = raise_irq,
	.now_ns = hca_clock,
	.turn_ns = hca_turn_clock,
	.kick = kick,
	.tx_begin = fab_hca_tx_begin,
	.tx_commit = fab_hca_tx_commit,
	.tx_commit_view = fab_hca_tx_commit_view,
	.tx_series = fab_hca_tx_series,
	.tx_soon = fab_hca_tx_soon,
	.link_ctl = fab_hca_link_ctl,
	.link_rate = fab_hca_link_rate,
	.vl15_dropped = fab_hca_vl15_dropped,
	.trace = fab_hca_trace,
};

/* ---- create and free ----------------------------------------------------------- */

struct fab_hcas *fab_hcas_new(struct fab_data *d)
{
	struct fab_hcas *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->d = d;
	s->due_ns = UINT64_MAX;
	return s;
}

/* Free some objects of the engine of an HCA that is gone. */
static void hca_sweep(struct fab_hcas *s)
{
	struct fab_hca *h = s->gone;

	if (ohca_sweep(h->e))
		return;
	ohca_free(h->e);
	s->gone = h->all;
	s->num_gone--;
	free(h);
}

void fab_hcas_free(struct fab_hcas *s)
{
	if (!s)
		return;
	while (s->all)
		fab_hca_free(s->all);
	while (s->gone)
		hca_sweep(s);
	free(s);
}

struct fab_hca *fab_hca_new(struct fab_hcas *s, const struct fab_hca_cfg *cfg)
{
	struct fab_hca *h;

	errno = EBUSY;
	h = s->num_gone < FAB_HCA_GONE ? calloc(1, sizeof(*h)) : NULL;
	if (!h)
		return NULL;
	errno = 0;
	h->s = s;
	h->cfg = *cfg;
	h->cfg.engine.rate_scale = fab_data_rate_scale(s->d);
	h->due_ns = UINT64_MAX;
	h->running = true;
	atomic_init(&h->clock, ohca_page_clock_word(0, true));
	if (!cfg->engine.hash_seed &&
	    getrandom(&h->cfg.engine.hash_seed, sizeof(cfg->engine.hash_seed), 0) < 0) {
		free(h);
		return NULL;
	}
	h->all = s->all;
	s->all = h;
	if (cfg->engine.num_ports && cfg->engine.num_ports <= FAB_HCA_PORTS && fab_page_open(h) &&
	    fab_hca_plug(h))
		h->e = ohca_new(&h->cfg.engine, &engine_ops, h);
	if (h->e) {
		ohca_set_trace(h->e, s->events);
		ohca_any_order(h->e, s->any_order);
		fab_page_show(h);
		fab_page_clock(h);
		return h;
	}
	fab_hca_free(h);
	return NULL;
}

void fab_hca_unlist(struct fab_hca *h)
{
	struct fab_hcas *s = h->s;
	struct fab_hca **at = &s->first, *last = NULL;

	if (!h->listed)
		return;
	for (; *at != h; at = &(*at)->next)
		last = *at;
	*at = h->next;
	if (s->last == h)
		s->last = last;
	h->listed = false;
	s->listed--;
}

void fab_hca_free(struct fab_hca *h)
{
	struct fab_hcas *s = h->s;
	struct fab_hca **at = &s->all;

	while (*at != h)
		at = &(*at)->all;
	*at = h->all;
	/* first: it may still read its links and its page */
	if (h->e)
		ohca_retire(h->e);
	fab_hca_unplug(h);
	fab_page_close(h);
	fab_hca_unlist(h);
	fab_hca_reach_free(&h->reach);
	if (h->e) {
		/* at the end of the list: the HCAs are freed in order */
		h->all = NULL;
		if (s->gone)
			s->gone_last->all = h;
		else
			s->gone = h;
		s->gone_last = h;
		s->num_gone++;
	} else {
		free(h);
	}
	if (s->all)
		return;
		/* no turn follows that would reset these */
	s->due_ns = UINT64_MAX;
	s->kicked = false;
}

struct fab_hca_reach *fab_hca_reach(struct fab_hca *h)
{
	return &h->reach;
}

ohca_engine *fab_hca_engine(const struct fab_hca *h)
{
	return h->e;
}

/* ---- turns --------------------------------------------------------------------- */

void fab_hca_list(struct fab_hca *h)
{
	struct fab_hcas *s = h->s;

	if (h->listed || !h->running)
		return;
	h->listed = true;
	s->listed++;
	h->next = NULL;
	if (s->first)
		s->last->next = h;
	else
		s->first = h;
	s->last = h;
}

/* Notify the engines: adaptive routing was switched on or off, or has other service levels. */
static void tell_order(struct fab_hcas *s)
{
	s->any_order = fab_data_any_order(s->d);
	for (struct fab_hca *h = s->all; h; h = h->all)
		ohca_any_order(h->e, s->any_order);
}

/* List HCAs with work other than packets. */
static void collect_work(struct fab_hcas *s)
{
	const uint64_t now = s->now_ns;
	const bool kicked = s->kicked;
	const bool due = now >= s->due_ns, refused = s->refused;

	fab_pages_collect(s);
	if (!kicked && !due && !refused)
		return;
	s->kicked = s->refused = false;
	if (due)
		s->due_ns = UINT64_MAX;
	for (struct fab_hca *h = s->all; h; h = h->all) {
		if (refused)
			s->refused |= fab_hca_credits(h);
		if (h->kicked)
			fab_hca_list(h);
		h->kicked = false;
		if (due && now >= h->due_ns)
			fab_hca_list(h);
		else if (due && h->due_ns < s->due_ns)
			s->due_ns = h->due_ns;
	}
}

static void hca_turn(struct fab_hca *h)
{
	struct fab_hcas *s = h->s;
	bool more;

	s->first = h->next;
	h->listed = false;
	s->listed--;
	/* other HCAs have sent to this one, and management may have retrained its link */
	fab_data_refresh(s->d);
	for (unsigned int i = 0; i < h->cfg.engine.num_ports; i++)
		h->port[i].smps = 0;
	h->mapped = 0;
	h->in_call = true;
	more = ohca_poll(h->e, FAB_HCA_BURST);
	h->in_call = false;
	h->mapped = 0;
	h->due_ns = ohca_next_deadline(h->e);
	if (h->due_ns != OHCA_NO_DEADLINE)
		h->due_ns = (h->due_ns - (h->clock >> 1)) & OHCA_PAGE_CLOCK_MASK;
	if (h->due_ns < s->due_ns)
		s->due_ns = h->due_ns;
	fab_page_turned(h);
	if (more)
		fab_hca_list(h);
}

bool fab_hcas_turn(struct fab_hcas *s)
{
	unsigned int n;
	bool moved;

	if (s->gone)
		hca_sweep(s);
	if (!s->all)
		return s->gone;
	if (s->any_order != fab_data_any_order(s->d))
		tell_order(s);
	s->now_ns = fab_data_host_ns(s->d);
	collect_work(s);
	n = s->listed;
	moved = n;
	/* one more: an HCA that received a packet in the first turn may answer it */
	for (n += moved; n && s->first; n--) {
		hca_turn(s->first);
		if (s->first && n > 1)
			s->now_ns = fab_data_host_ns(s->d);
	}
	return moved || s->gone;
}

uint64_t fab_hcas_due(const struct fab_hcas *s)
{
	const uint64_t now = s->due_ns == UINT64_MAX ? 0 : fab_data_host_ns(s->d);

	if (s->first || s->gone || s->kicked)
		return 0;
	return s->due_ns == UINT64_MAX ? UINT64_MAX : s->due_ns > now ? s->due_ns - now : 0;
}

bool fab_hcas_sleep(struct fab_hcas *s)
{
	return !s->first && !s->gone && !s->kicked && fab_pages_sleep(s);
}

void fab_hcas_awake(struct fab_hcas *s)
{
	fab_pages_awake(s);
}
