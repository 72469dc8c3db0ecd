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
 * @length: bytes requested
 * @off, @size: where it is, whole pages
 * @refs: regions
 * @link: on e->dm_used, in order of @off
 */
struct ohca_dm {
	uint32_t handle, refs;
	uint64_t length, off, size;
	struct ohca_list link;
};

int ohca_dm_init(ohca_engine *e);
/* The object with this number; NULL: there is none. */
struct ohca_dm *ohca_dm_get(ohca_engine *e, uint32_t handle);
/* All of it is free again, a step of it. Return: it is done */
bool ohca_dm_free_some(ohca_engine *e);
/* Address of [off, off + n) of @dm, or NULL: out of bounds, or the device is dead. */
void *ohca_dm_ptr(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, uint64_t n);
void ohca_dm_dirty(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, size_t n);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_alloc_dm(struct ohca_cmd *c);
int ohca_cmd_free_dm(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_DM_H */
