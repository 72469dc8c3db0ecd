/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allocation of object numbers. The owner calls. */
#ifndef OHCA_BASE_IDS_H
#define OHCA_BASE_IDS_H

#include <stdint.h>

/**
 * struct ohca_ids - numbers below @max, allocated cyclically
 * @used: bit n: number n is in use
 * @next: where the next search begins
 * @num: how many are in use
 */
struct ohca_ids {
	uint64_t *used;
	uint32_t max, next, num;
};

/*
 * Initialize: numbers from @first to @max - 1 are free, those below @first are in use forever. 0 or
 * -1 (memory)
 */
int ohca_ids_init(struct ohca_ids *ids, uint32_t max, uint32_t first);
/* Allocate a number. OHCA_NO_ID: all are in use. */
#define OHCA_NO_ID	UINT32_MAX
uint32_t ohca_ids_get(struct ohca_ids *ids);
/* Free @id. */
void ohca_ids_put(struct ohca_ids *ids, uint32_t id);
/* The first number from @id on that is in use, or OHCA_NO_ID. Includes those below @first. */
uint32_t ohca_ids_from(const struct ohca_ids *ids, uint32_t id);

#endif /* OHCA_BASE_IDS_H */
