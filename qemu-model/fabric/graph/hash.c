// SPDX-License-Identifier: GPL-2.0-or-later
/* Hash tables of indices; see hash.h. */
#include "hash.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE	64u

uint32_t fab_hash_bytes(const void *p, size_t len)
{
	const uint8_t *b = p;
	uint64_t h = len, w;

	for (; len >= sizeof(w); b += sizeof(w), len -= sizeof(w)) {
		memcpy(&w, b, sizeof(w));
		h = (h ^ w) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	for (w = 0; len; len--)
		w = w << 8 | b[len - 1];
	return fab_hash_u64(h ^ w);
}

static void hash_put(struct fab_hash *h, uint32_t hash, uint32_t index)
{
	uint32_t i = hash & (h->size - 1);

	while (h->slot[i].index != FAB_NONE)
		i = (i + 1) & (h->size - 1);
	h->slot[i] = (struct fab_hash_slot){ hash, index };
}

static bool hash_grow(struct fab_hash *h)
{
	struct fab_hash n = { .size = h->size ? 2 * h->size : FIRST_SIZE, .used = h->used };

	n.slot = malloc(n.size * sizeof(*n.slot));
	if (!n.slot)
		return false;
	memset(n.slot, 0xff, n.size * sizeof(*n.slot));
	for (uint32_t i = 0; i < h->size; i++)
		if (h->slot[i].index != FAB_NONE)
			hash_put(&n, h->slot[i].hash, h->slot[i].index);
	free(h->slot);
	*h = n;
	return true;
}

uint32_t fab_hash_find(const struct fab_hash *h, uint32_t hash, fab_hash_eq eq, const void *ctx,
		       const void *key)
{
	if (!h->size)
		return FAB_NONE;
	for (uint32_t i = hash & (h->size - 1);; i = (i + 1) & (h->size - 1)) {
		const struct fab_hash_slot *s = &h->slot[i];

		if (s->index == FAB_NONE || (s->hash == hash && eq(ctx, s->index, key)))
			return s->index;
	}
}

bool fab_hash_add(struct fab_hash *h, uint32_t hash, uint32_t index)
{
	/* at most 5 of 8 slots, so that searches stay short */
	if (h->used >= h->size / 8 * 5 && !hash_grow(h))
		return false;
	hash_put(h, hash, index);
	h->used++;
	return true;
}

/* Move later entries of the same run up, so that no search stops too early. */
void fab_hash_del(struct fab_hash *h, uint32_t hash, uint32_t index)
{
	const uint32_t mask = h->size - 1;
	uint32_t at = hash & mask;

	while (h->slot[at].index != index)
		at = (at + 1) & mask;
	h->used--;
	for (uint32_t i = (at + 1) & mask; h->slot[i].index != FAB_NONE; i = (i + 1) & mask) {
		if (((i - h->slot[i].hash) & mask) < ((i - at) & mask))
			continue;
		h->slot[at] = h->slot[i];
		at = i;
	}
	h->slot[at].index = FAB_NONE;
}

void fab_hash_free(struct fab_hash *h)
{
	free(h->slot);
	*h = (struct fab_hash){ 0 };
}
