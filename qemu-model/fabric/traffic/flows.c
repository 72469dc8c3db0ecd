// SPDX-License-Identifier: GPL-2.0-or-later
/* Received bytes of each host's messages over time; see traffic.h. */
#include "traffic_priv.h"

#include <stdlib.h>

#define ROWS_MAX	100000u	/* of a series */

const char *traffic_flows_make(struct fab_traffic *t)
{
	const struct fab_traffic_watcher *w = t->cfg.watcher;
	struct traffic_flows *fl = &t->flows;

	if (w->flows && t->cfg.messages < 2)
		return "--flows needs two messages of each host, or more";
	fl->slot = calloc(t->hosts, sizeof(*fl->slot));
	fl->steady = calloc(t->hosts, sizeof(*fl->steady));
	if (!fl->slot || !fl->steady)
		return "out of memory";
	for (uint32_t i = 0; i < t->hosts; i++) {
		fl->slot[i].node = t->host[i].node;
		fl->steady[i].node = t->host[i].node;
	}
	fl->slot_ns = t->now_ns;
	return NULL;
}

void traffic_flows_free(struct fab_traffic *t)
{
	free(t->flows.slot);
	free(t->flows.steady);
}

/* End an interval of the series. */
static void next_slot(struct fab_traffic *t)
{
	const struct fab_traffic_watcher *w = t->cfg.watcher;
	struct traffic_flows *fl = &t->flows;

	fl->slot_ns += w->interval_ns;
	fl->rows++;
	w->series(w->arg, fl->slot, t->hosts, (uint64_t)fl->rows * w->interval_ns);
	for (uint32_t i = 0; i < t->hosts; i++)
		fl->slot[i].bytes = 0;
}

void traffic_flows_came(struct fab_traffic *t, uint32_t number, uint32_t bytes)
{
	const uint64_t interval_ns = t->cfg.watcher->interval_ns;
	struct traffic_flows *fl = &t->flows;
	const uint32_t i = number / t->cfg.messages;

	while (interval_ns && fl->rows < ROWS_MAX && t->now_ns - fl->slot_ns >= interval_ns)
		next_slot(t);
	fl->slot[i].bytes += bytes;
	if (fl->begin_ns && !fl->end_ns)
		fl->steady[i].bytes += bytes;
}

void traffic_flows_sent(const struct traffic_host *h)
{
	struct traffic_flows *fl = &h->t->flows;

	if (!fl->begin_ns && h->next >= h->t->cfg.messages / 2)
		fl->begin_ns = h->t->now_ns;
	if (!fl->end_ns && h->next == h->t->cfg.messages)
		fl->end_ns = h->t->now_ns;
}

void traffic_flows_end(struct fab_traffic *t)
{
	const struct fab_traffic_watcher *w = t->cfg.watcher;
	struct traffic_flows *fl = &t->flows;

	if (w->interval_ns && fl->rows < ROWS_MAX && t->last_ns > fl->slot_ns)
		next_slot(t);
	/* no host has sent all, because packets wait for ever */
	if (!fl->end_ns)
		fl->end_ns = t->last_ns > fl->begin_ns ? t->last_ns : fl->begin_ns;
	if (w->flows)
		w->flows(w->arg, fl->steady, t->hosts, fl->end_ns - fl->begin_ns);
}
