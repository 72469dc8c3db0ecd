/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interned tables: equal tables are stored once. Most ports of a fabric have the same P_Key table,
 * SLtoVLMappingTable and VLArbitrationTable; a changed table has another index. References are
 * counted. Owner thread only.
 */
#ifndef OHCA_FABRIC_POOL_H
#define OHCA_FABRIC_POOL_H

#include "hash.h"

/**
 * struct fab_pool - tables of one kind
 * @size: bytes of a table
 * @data: [@cap] tables
 * @ref: [@cap] references; 0 for a free table
 * @cap: capacity
 * @top: tables from here on were never used
 * @free_at: a free table below @top, which contains the next; FAB_NONE: there is none
 * @hash: of those in use
 */
struct fab_pool {
	size_t size;
	uint8_t *data;
	uint32_t *ref;
	uint32_t cap;
	uint32_t top;
	uint32_t free_at;
	struct fab_hash hash;
};

/** fab_pool_init() - an empty pool of tables of @size bytes, 4 at least */
void fab_pool_init(struct fab_pool *p, size_t size);

/** fab_pool_free() - free all tables */
void fab_pool_free(struct fab_pool *p);

/**
 * fab_pool_get() - get a reference to the table that equals @v
 * @v: @size bytes, padding included; not a table of the pool
 *
 * Return: its index, FAB_NONE if out of memory.
 */
uint32_t fab_pool_get(struct fab_pool *p, const void *v);

/** fab_pool_ref() - get one more reference to table @i */
static inline void fab_pool_ref(struct fab_pool *p, uint32_t i)
{
	p->ref[i]++;
}

/** fab_pool_put() - drop a reference to table @i */
void fab_pool_put(struct fab_pool *p, uint32_t i);

/** fab_pool_at() - table @i; valid until the next fab_pool_get(), and read-only */
static inline const void *fab_pool_at(const struct fab_pool *p, uint32_t i)
{
	return p->data + i * p->size;
}

#endif
