// SPDX-License-Identifier: GPL-2.0-or-later
/* Interned tables; see pool.h. */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

void fab_pool_init(struct fab_pool *p, size_t size)
{
	*p = (struct fab_pool){ .size = size, .free_at = FAB_NONE };
}

void fab_pool_free(struct fab_pool *p)
{
	free(p->data);
	free(p->ref);
	fab_hash_free(&p->hash);
	fab_pool_init(p, p->size);
}

static bool same(const void *ctx, uint32_t index, const void *key)
{
	const struct fab_pool *p = ctx;

	return !memcmp(fab_pool_at(p, index), key, p->size);
}

static bool pool_grow(struct fab_pool *p)
{
	uint32_t cap = p->cap ? 2 * p->cap : 4;
	uint8_t *data = realloc(p->data, cap * p->size);
	uint32_t *ref;

	if (!data)
		return false;
	p->data = data;
	ref = realloc(p->ref, cap * sizeof(*ref));
	if (!ref)
		return false;
	p->ref = ref;
	p->cap = cap;
	return true;
}

uint32_t fab_pool_get(struct fab_pool *p, const void *v)
{
	uint32_t hash = fab_hash_bytes(v, p->size);
	uint32_t i = fab_hash_find(&p->hash, hash, same, p, v);

	if (i != FAB_NONE) {
		p->ref[i]++;
		return i;
	}
	i = p->free_at;
	if (i == FAB_NONE && p->top == p->cap && !pool_grow(p))
		return FAB_NONE;
	if (!fab_hash_add(&p->hash, hash, i == FAB_NONE ? p->top : i))
		return FAB_NONE;
	if (i == FAB_NONE)
		i = p->top++;
	else
		memcpy(&p->free_at, fab_pool_at(p, i), sizeof(p->free_at));
	memcpy(p->data + i * p->size, v, p->size);
	p->ref[i] = 1;
	return i;
}

void fab_pool_put(struct fab_pool *p, uint32_t i)
{
	if (--p->ref[i])
		return;
	fab_hash_del(&p->hash, fab_hash_bytes(fab_pool_at(p, i), p->size), i);
	memcpy(p->data + i * p->size, &p->free_at, sizeof(p->free_at));
	p->free_at = i;
}
