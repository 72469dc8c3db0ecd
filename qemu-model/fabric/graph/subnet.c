// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the subnets of switches; see subnet.h. */
#include "subnet.h"

#include <stdlib.h>

/* Put all switches that are connected to that of node @start into @subnet. @stack: [switches] */
static void subnet_walk(struct fab *f, uint32_t start, uint32_t subnet, uint32_t *stack)
{
	uint32_t depth = 0;

	f->sw[f->node[start].sw].subnet = subnet;
	stack[depth++] = start;
	while (depth) {
		const struct fab_node *n = &f->node[stack[--depth]];

		for (unsigned int i = 1; i <= n->nports; i++) {
			const uint32_t peer = f->port[fab_port_of(n, i)].peer;
			const struct fab_node *next;

			if (peer == FAB_NO_PORT)
				continue;
			next = &f->node[f->port[peer].node];
			if (next->sw == FAB_NONE || f->sw[next->sw].subnet != FAB_NONE)
				continue;
			f->sw[next->sw].subnet = subnet;
			stack[depth++] = f->port[peer].node;
		}
	}
}

bool fab_subnets_find(struct fab *f)
{
	uint32_t *stack, subnets = 0;

	if (!f->switches)
		return true;
	stack = malloc(f->switches * sizeof(*stack));
	if (!stack)
		return false;
	for (uint32_t i = 0; i < f->switches; i++)
		f->sw[i].subnet = FAB_NONE;
	for (uint32_t i = 0; i < f->nodes; i++)
		if (f->node[i].sw != FAB_NONE && f->sw[f->node[i].sw].subnet == FAB_NONE)
			subnet_walk(f, i, subnets++, stack);
	free(stack);
	return true;
}
