// SPDX-License-Identifier: GPL-2.0-or-later
/* Destinations of messages; see traffic.h. */
#include "traffic_priv.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/graph/wire.h"

#define HOT_ONE_OF	4u

static const char *const names[FAB_PATTERNS] = {
	[FAB_PATTERN_UNIFORM] = "uniform",
	[FAB_PATTERN_PERMUTATION] = "permutation",
	[FAB_PATTERN_INCAST] = "incast",
	[FAB_PATTERN_INCAST_VICTIM] = "incast-victim",
	[FAB_PATTERN_HOT_SPOT] = "hot-spot",
	[FAB_PATTERN_ALL_TO_ALL] = "all-to-all",
	[FAB_PATTERN_ALL_REDUCE_RING] = "all-reduce-ring",
	[FAB_PATTERN_ALL_REDUCE_HALVING] = "all-reduce-halving",
};

enum fab_pattern fab_pattern_find(const char *name)
{
	enum fab_pattern p = 0;

	while (p < FAB_PATTERNS && strcmp(names[p], name))
		p++;
	return p;
}

const char *fab_pattern_name(enum fab_pattern pattern)
{
	return names[pattern];
}

uint32_t traffic_below(uint64_t *rng, uint32_t n)
{
	return (uint32_t)((uint64_t)fab_random(rng) * n >> 32);
}

/* All hosts in a random cyclic order: each sends to the next one. */
bool traffic_choose_fixed(struct fab_traffic *t)
{
	uint32_t *order = malloc(t->hosts * sizeof(*order));

	if (!order)
		return false;
	for (uint32_t i = 0; i < t->hosts; i++) {
		const uint32_t k = traffic_below(&t->rng, i + 1);

		order[i] = order[k];
		order[k] = i;
	}
	for (uint32_t i = 0; i < t->hosts; i++)
		t->host[order[i]].fixed = order[(i + 1) % t->hosts];
	free(order);
	return true;
}

/*
 * Number of wires, from the first on, that the routes from the last host to hosts @a and @b share.
 */
static unsigned int shared(const struct fab_traffic *t, uint32_t a, uint32_t b)
{
	const struct fab *f = t->f;
	uint32_t at = t->host[t->hosts - 1].leaf;
	unsigned int n = 0;

	/* a route of more switches is a loop */
	for (; n < f->switches; n++) {
		const struct fab_node *sw = &f->node[f->port[at].node];
		const unsigned int num = fab_route(f, sw, t->host[a].lid);

		if (!num || num > sw->nports || num != fab_route(f, sw, t->host[b].lid))
			break;
		at = f->port[fab_port_of(sw, num)].peer;
		if (f->node[f->port[at].node].sw == FAB_NONE)
			break;
	}
	return n;
}

/* Choose the host whose route shares most with that to the first host, so that both flows meet. */
void traffic_choose_victim(struct fab_traffic *t)
{
	unsigned int most = 0;

	t->victim_to = t->hosts > 2 ? 1 : 0;
	for (uint32_t i = 1; i + 1 < t->hosts; i++) {
		const unsigned int n = shared(t, 0, i);

		if (n <= most)
			continue;
		most = n;
		t->victim_to = i;
	}
}

/* Any host but @from. */
static uint32_t any_other(struct fab_traffic *t, uint32_t from)
{
	const uint32_t to = traffic_below(&t->host[from].rng, t->hosts - 1);

	return to + (to >= from);
}

uint32_t traffic_target(struct fab_traffic *t, uint32_t from, uint32_t i)
{
	switch (t->cfg.pattern) {
	case FAB_PATTERN_PERMUTATION:
		return t->host[from].fixed;
	case FAB_PATTERN_INCAST:
		return 0;
	case FAB_PATTERN_INCAST_VICTIM:
		return from == t->hosts - 1 ? t->victim_to : 0;
	case FAB_PATTERN_HOT_SPOT:
		return from && i % HOT_ONE_OF == 0 ? 0 : any_other(t, from);
	case FAB_PATTERN_ALL_TO_ALL:
		return (from + 1 + i % (t->hosts - 1)) % t->hosts;
	case FAB_PATTERN_ALL_REDUCE_RING:
	case FAB_PATTERN_ALL_REDUCE_HALVING:
		return traffic_reduce_target(t, from, i);
	default:
		return any_other(t, from);
	}
}
