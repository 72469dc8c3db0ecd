// SPDX-License-Identifier: GPL-2.0-or-later
/* Congestion control settings of ports; see graph.h. */
#include "graph.h"

#include <stdlib.h>

/* Elements of struct ib_cc.port at end port @p. */
static unsigned int elements(const struct fab *f, uint32_t p)
{
	const struct fab_node *n = &f->node[f->port[p].node];

	return n->sw == FAB_NONE ? 0 : n->nports + 1u;
}

struct ib_cc *fab_cc(struct fab *f, uint32_t p)
{
	/* of a large array of zeros only the pages that are written need memory */
	if (!f->cc)
		f->cc = calloc(f->ports, sizeof(*f->cc));
	if (f->cc && !f->cc[p])
		f->cc[p] = calloc(1, sizeof(**f->cc) + elements(f, p) * sizeof(struct ib_cc_port));
	return f->cc ? f->cc[p] : NULL;
}

void fab_forget_cc(struct fab *f, uint32_t p)
{
	if (!f->cc)
		return;
	free(f->cc[p]);
	f->cc[p] = NULL;
}

void fab_free_cc(struct fab *f)
{
	for (uint32_t p = 0; f->cc && p < f->ports; p++)
		free(f->cc[p]);
	free(f->cc);
	f->cc = NULL;
}

size_t fab_cc_bytes(const struct fab *f)
{
	size_t n = f->cc ? f->ports * sizeof(*f->cc) : 0;

	for (uint32_t p = 0; f->cc && p < f->ports; p++)
		n += f->cc[p] ? sizeof(**f->cc) + elements(f, p) * sizeof(struct ib_cc_port) : 0;
	return n;
}
