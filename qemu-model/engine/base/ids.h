/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Allocation of object numbers. */
#ifndef OHCA_BASE_IDS_H
#define OHCA_BASE_IDS_H

#include <stdint.h>

/** struct ohca_ids - which numbers below @max are in use; allocated cyclically */
struct ohca_ids {
	uint64_t *used;
	uint32_t max, next, num;
};

/* 0 or -1 (memory). Numbers from @first to @max - 1 are free. */
int ohca_ids_init(struct ohca_ids *ids, uint32_t max, uint32_t first);
/* Allocate a number, or OHCA_NO_ID. Numbers below @first are never allocated. */
#define OHCA_NO_ID	UINT32_MAX
uint32_t ohca_ids_get(struct ohca_ids *ids);
/* Free @id. */
void ohca_ids_put(struct ohca_ids *ids, uint32_t id);
/* The first number from @id on that is in use, those below @first, too; or OHCA_NO_ID. */
uint32_t ohca_ids_from(const struct ohca_ids *ids, uint32_t id);

#endif /* OHCA_BASE_IDS_H */
