/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allocation of object numbers, cyclically. */
#include <stdlib.h>

#include "engine/base/ids.h"

int ohca_ids_init(struct ohca_ids *ids, uint32_t max, uint32_t first)
{
	ids->used = calloc((max + 63) / 64, sizeof(*ids->used));
	if (!ids->used)
		return -1;
	ids->max = max;
	ids->next = first;
	ids->num = first;
	for (uint32_t i = 0; i < first; i++)
		ids->used[i / 64] |= 1ull << (i % 64);
	/* bits of the last word from @max on are always set */
	for (uint32_t i = max; i % 64; i++)
		ids->used[i / 64] |= 1ull << (i % 64);
	return 0;
}

uint32_t ohca_ids_get(struct ohca_ids *ids)
{
	uint32_t words = (ids->max + 63) / 64;
	uint32_t w = ids->next / 64;
	uint64_t mask = ~0ull << (ids->next % 64);	/* first word: from next on */

	if (ids->num >= ids->max)
		return OHCA_NO_ID;
	for (uint32_t i = 0; i <= words; i++) {
		uint64_t avail = ~ids->used[w] & mask;

		if (avail) {
			uint32_t id = w * 64 + (uint32_t)__builtin_ctzll(avail);

			ids->used[w] |= 1ull << (id % 64);
			ids->num++;
			ids->next = id + 1 < ids->max ? id + 1 : 0;
			return id;
		}
		mask = ~0ull;
		w = w + 1 < words ? w + 1 : 0;
	}
	return OHCA_NO_ID;
}

void ohca_ids_put(struct ohca_ids *ids, uint32_t id)
{
	ids->used[id / 64] &= ~(1ull << (id % 64));
	ids->num--;
}

uint32_t ohca_ids_from(const struct ohca_ids *ids, uint32_t id)
{
	uint64_t mask = ~0ull << (id % 64);

	for (uint32_t w = id / 64; w * 64 < ids->max; w++, mask = ~0ull) {
		const uint64_t used = ids->used[w] & mask;

		if (!used)
			continue;
		id = w * 64 + (uint32_t)__builtin_ctzll(used);
		return id < ids->max ? id : OHCA_NO_ID;
	}
	return OHCA_NO_ID;
}
