// SPDX-License-Identifier: GPL-2.0-or-later
/* Adaptive routing of a switch; see adaptive.h. */
#include "adaptive.h"

#include <stdlib.h>

void fab_adaptive_free(struct fab_switch *sw)
{
	if (!sw->adaptive)
		return;
	free(sw->adaptive->of);
	free(sw->adaptive->group);
	free(sw->adaptive);
	sw->adaptive = NULL;
}

void fab_adaptive_changed(struct fab *f)
{
	f->any_order = 0;
	for (uint32_t i = 0; i < f->switches; i++)
		if (f->sw[i].adaptive && f->sw[i].adaptive->cfg.any_order)
			f->any_order |= f->sw[i].adaptive->cfg.sls;
}

size_t fab_adaptive_bytes(const struct fab_switch *sw)
{
	const struct fab_adaptive *a = sw->adaptive;

	return a ? sizeof(*a) + a->room + a->groups * sizeof(*a->group) : 0;
}
