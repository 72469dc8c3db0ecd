/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hash table of 32-bit indices into an array of the caller, which compares keys (fab_hash_eq).
 * Open addressing; an entry stores its hash, so that growing and deleting need no keys.
 */
#ifndef OHCA_FABRIC_HASH_H
#define OHCA_FABRIC_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAB_NONE	0xffffffffu	/* no index: not found, or out of memory */

/** struct fab_hash_slot - one entry; @index FAB_NONE: free */
struct fab_hash_slot {
	uint32_t hash;
	uint32_t index;
};

/**
 * struct fab_hash - a table, all zero when it is new
 * @slot: [@size], a power of two, or NULL
 * @used: entries
 */
struct fab_hash {
	struct fab_hash_slot *slot;
	uint32_t size;
	uint32_t used;
};

/* Whether @index is that of @key. */
typedef bool (*fab_hash_eq)(const void *ctx, uint32_t index, const void *key);

/** fab_hash_u64() - hash of a GUID */
static inline uint32_t fab_hash_u64(uint64_t v)
{
	v ^= v >> 33;
	v *= 0xff51afd7ed558ccdull;
	v ^= v >> 33;
	v *= 0xc4ceb9fe1a85ec53ull;
	return (uint32_t)(v ^ v >> 33);
}

/** fab_hash_bytes() - hash of @len bytes */
uint32_t fab_hash_bytes(const void *p, size_t len);

/** fab_hash_find() - index of @key, FAB_NONE if it is not in the table */
uint32_t fab_hash_find(const struct fab_hash *h, uint32_t hash, fab_hash_eq eq, const void *ctx,
		       const void *key);

/** fab_hash_add() - add @index, which is not in the table. Return: false if out of memory. */
bool fab_hash_add(struct fab_hash *h, uint32_t hash, uint32_t index);

/** fab_hash_del() - remove @index, which is in the table */
void fab_hash_del(struct fab_hash *h, uint32_t hash, uint32_t index);

/** fab_hash_free() - free the slots; the table is empty */
void fab_hash_free(struct fab_hash *h);

#endif
