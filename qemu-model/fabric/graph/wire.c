// SPDX-License-Identifier: GPL-2.0-or-later
/* Effects of wires, and the generator of random choices; see wire.h. */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "ib/packet.h"

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

/*
 * Only by comparisons: J. von Neumann, "Various techniques used in connection with random digits",
 * 1951.
 */
uint64_t fab_random_gap(uint64_t *state, uint64_t mean)
{
	for (uint64_t whole = 0;; whole++) {
		const uint32_t first = fab_random(state);
		uint32_t u = first, v;
		unsigned int n = 1;

		while ((v = fab_random(state)) < u) {
			u = v;
			n++;
		}
		if (n % 2) {
			const uint64_t part = (uint64_t)((double)mean * first / 4294967296.0);

			return whole && mean > (UINT64_MAX - part) / whole ? UINT64_MAX :
									     whole * mean + part;
		}
	}
}

/* Several errors in one packet lose one packet. */
bool fab_fault_errs(struct fab_fault *x, uint32_t len)
{
	const uint64_t bits = 8ull * (len + IB_VCRC_LEN);

	if (x->clean_bits >= bits) {
		x->clean_bits -= bits;
		return false;
	}
	/* memoryless: the gap from the end of this packet is distributed as from any bit */
	x->clean_bits = fab_random_gap(&x->rng, x->error_bits);
	return true;
}

void fab_fault_down(struct fab_fault *x)
{
	x->downs++;
	x->leaks = false;
	memset(x->gone, 0, sizeof(x->gone));
}

void fab_fault_take(struct fab_fault *x, const struct fab_fault *from)
{
	x->loss = from->loss;
	x->stays = from->stays;
	x->loses = from->loses;
	x->error_bits = from->error_bits;
	x->clean_bits = from->clean_bits;
	x->corrupt = from->corrupt;
	x->delay_ns = from->delay_ns;
	x->rng = from->rng;
}
