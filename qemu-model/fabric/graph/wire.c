// SPDX-License-Identifier: GPL-2.0-or-later
/* What wires do, and the generator of what they do by chance; see wire.h. */
#include "wire.h"

#include <stdlib.h>

#include "graph.h"

struct fab_fault *fab_wire_at(struct fab *f, uint32_t p)
{
	struct fab_extra *x = fab_extra(f, p);

	if (!x)
		return NULL;
	if (!x->fault) {
		x->fault = calloc(1, sizeof(*x->fault));
		if (!x->fault)
			return NULL;
		x->fault->port = p;
		x->fault->rng = fab_random_state(0);
	}
	return x->fault;
}

/* SplitMix64; the state is never 0, in which the generator would stay. */
uint64_t fab_random_state(uint64_t seed)
{
	seed += 0x9e3779b97f4a7c15ull;
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111ebull;
	seed ^= seed >> 31;
	return seed ? seed : 1;
}
