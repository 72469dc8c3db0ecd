// SPDX-License-Identifier: GPL-2.0-or-later
/* Generated fabrics: from a plan to a fabric; see generate.h and gen.h. */
#include "gen.h"

#include <stdlib.h>

/* Check what does not depend on the kind of fabric. */
static bool plan_is_good(struct gen *g)
{
	const struct fab_plan *plan = g->plan;

	if ((plan->aggregation || plan->chassis) && !plan->nvidia)
		return gen_fail(g, "aggregation nodes and chassis need --names nvidia");
	if (plan->missing > FAB_MAX_DAMAGE || plan->slow > FAB_MAX_DAMAGE ||
	    plan->swapped > FAB_MAX_DAMAGE)
		return gen_fail(g, "at most %u cables of a kind have damage", FAB_MAX_DAMAGE);
	return gen_rates(g);
}

bool fab_generate_plan(struct fab *f, const struct fab_plan *plan, struct fab_damages *damages,
		       char *why, size_t size)
{
	struct gen g = { .f = f, .plan = plan, .why = why, .size = size,
			 .role = "host", .first = 1 };

	if (damages)
		*damages = (struct fab_damages){ 0 };
	if (!plan_is_good(&g))
		return false;
	g.next_port = calloc(FAB_MAX_NODES, sizeof(*g.next_port));
	if (!g.next_port)
		return gen_fail(&g, "out of memory");
	if (gen_make(&g) && plan->aggregation)
		gen_aggregation(&g);
	if (!g.failed && gen_damage(&g, damages))
		gen_plug(&g);
	free(g.next_port);
	free(g.cable);
	return !g.failed;
}

bool fab_generate(struct fab *f, const char *spec, char *why, size_t size)
{
	return fab_generate_plan(f, &(struct fab_plan){ .spec = spec }, NULL, why, size);
}
