/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Device memory. */
#ifndef OHCA_OBJECT_DM_H
#define OHCA_OBJECT_DM_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/list.h"
#include "engine/engine.h"

struct ohca_cmd;

/**
 * struct ohca_dm - an allocation of device memory
 * @handle: its number
 * @refs: number of memory regions on it
 * @length: bytes requested
 * @off, @size: offset in the device memory and size, bytes, multiples of the page size
 * @link: on e->dm_used, which is in order of @off
 */
struct ohca_dm {
	uint32_t handle, refs;
	uint64_t length, off, size;
	struct ohca_list link;
};

/* Make the table of allocations. 0 or -1 (memory) */
int ohca_dm_init(ohca_engine *e);
/* The object with this number; NULL: there is none. */
struct ohca_dm *ohca_dm_get(ohca_engine *e, uint32_t handle);
/* Free allocations, as far as the allowance of work covers. Return: true if none is left */
bool ohca_dm_free_some(ohca_engine *e);
/* Address of [off, off + n) of @dm. NULL: out of bounds, or the device does not run. */
void *ohca_dm_ptr(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, uint64_t n);
/* Report to the host that @n bytes at @off of @dm were written. */
void ohca_dm_dirty(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, size_t n);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_alloc_dm(struct ohca_cmd *c);
int ohca_cmd_free_dm(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_DM_H */
