/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Allocation of device memory.
 *
 * The host owns the memory and maps it into the guest. Processes of the guest read and write it
 * through their mappings at any time, so it is as untrusted as the guest's RAM.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/cmd.h"
#include "engine/base/ids.h"
#include "engine/base/le.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/dm.h"
#include "ohca_hw.h"

#define ZERO_STEP	(16u << 10)	/* bytes zeroed at a time */

int ohca_dm_init(ohca_engine *e)
{
	uint32_t max = (uint32_t)(e->cfg.dm_size >> OHCA_PL_MIN_SHIFT);

	if (!max)
		return 0;
	e->dm = calloc(max, sizeof(*e->dm));
	return e->dm ? ohca_ids_init(&e->dm_ids, max, 0) : -1;
}

struct ohca_dm *ohca_dm_get(ohca_engine *e, uint32_t handle)
{
	return handle < e->dm_ids.max ? e->dm[handle] : NULL;
}

static struct ohca_dm *dm_at(struct ohca_list *l)
{
	return ohca_container_of(l, struct ohca_dm, link);
}

/*
 * First fit: find @size free bytes at a multiple of @align, a power of two, as far as the allowance
 * of work covers. *@off: where they are; job->list: the next allocation behind them.
 */
static int dm_find(ohca_engine *e, uint64_t size, uint64_t align, uint64_t *off)
{
	struct ohca_list *all = &e->dm_used, *l = e->job.list ? e->job.list : all->next;

	/* there are at most as many allocations as pages */
	for (;; l = l->next) {
		uint64_t end = l == all ? e->cfg.dm_size : dm_at(l)->off, at = 0;

		e->job.list = l;
		if (!ohca_work_left(e))
			return OHCA_CMD_MORE;
		ohca_work(e, OHCA_WORK_STEP);
		if (l->prev != all)
			at = (dm_at(l->prev)->off + dm_at(l->prev)->size + align - 1) &
			     ~(align - 1);
		if (at <= end && end - at >= size) {
			*off = at;
			return OHCA_ADMIN_OK;
		}
		if (l == all)
			return OHCA_ADMIN_NO_RESOURCE;
	}
}

/*
 * Zero the memory, since the new owner must not see the previous contents, as far as the allowance
 * of work covers. job->at[1] counts the parts of ZERO_STEP bytes that are done.
 */
static int dm_zero(struct ohca_cmd *c, const struct ohca_dm *dm)
{
	ohca_engine *e = c->e;

	for (; (uint64_t)e->job.at[1] * ZERO_STEP < dm->size; e->job.at[1]++) {
		uint64_t off = (uint64_t)e->job.at[1] * ZERO_STEP;
		size_t n = dm->size - off < ZERO_STEP ? (size_t)(dm->size - off) : ZERO_STEP;

		if (!ohca_work_left(e))
			return OHCA_CMD_MORE;
		ohca_work(e, n);
		memset(ohca_dm_ptr(e, dm, off, n), 0, n);
		ohca_dm_dirty(e, dm, off, n);
	}
	c->rsp.alloc_dm.handle = ohca_to_le32(dm->handle);
	c->rsp.alloc_dm.offset = ohca_to_le64(dm->off);
	return OHCA_ADMIN_OK;
}

int ohca_cmd_alloc_dm(struct ohca_cmd *c)
{
	const struct ohca_cmd_alloc_dm *cmd = &c->aqe.alloc_dm;
	ohca_engine *e = c->e;
	uint64_t length = ohca_le64(cmd->length);
	uint64_t page = 1ull << atomic_load(&e->page_shift), align;
	uint64_t size, off;
	struct ohca_dm *dm;
	int rc;

	if (e->job.begun)
		return dm_zero(c, e->dm[e->job.at[0]]);
	if (!length || length > e->cfg.dm_size)
		return OHCA_BAD(c, alloc_dm.length);
	if (cmd->log_align > 63 || 1ull << cmd->log_align > e->cfg.dm_size)
		return OHCA_BAD(c, alloc_dm.log_align);
	for (unsigned int i = 0; i < sizeof(cmd->reserved); i++)
		if (cmd->reserved[i])
			return OHCA_BAD(c, alloc_dm.reserved);
	align = 1ull << cmd->log_align > page ? 1ull << cmd->log_align : page;
	size = (length + page - 1) & ~(page - 1);
	rc = dm_find(e, size, align, &off);
	if (rc)
		return rc;
	dm = ohca_mem_get(e, sizeof(*dm));
	if (!dm)
		return OHCA_ADMIN_NO_RESOURCE;
	dm->length = length;
	dm->size = size;
	dm->off = off;
	dm->handle = ohca_ids_get(&e->dm_ids);
	if (dm->handle == OHCA_NO_ID) {
		ohca_mem_put(e, dm, sizeof(*dm));
		return OHCA_ADMIN_NO_RESOURCE;
	}
	ohca_list_add_tail(e->job.list, &dm->link);
	e->dm[dm->handle] = dm;
	e->job.begun = true;
	e->job.at[0] = dm->handle;
	return dm_zero(c, dm);
}

static void dm_free(ohca_engine *e, struct ohca_dm *dm)
{
	ohca_list_del(&dm->link);
	e->dm[dm->handle] = NULL;
	ohca_ids_put(&e->dm_ids, dm->handle);
	ohca_mem_put(e, dm, sizeof(*dm));
}

int ohca_cmd_free_dm(struct ohca_cmd *c)
{
	struct ohca_dm *dm = ohca_dm_get(c->e, ohca_le32(c->aqe.handle.handle));

	if (!dm)
		return OHCA_ADMIN_BAD_HANDLE;
	if (dm->refs)
		return OHCA_ADMIN_BUSY;
	dm_free(c->e, dm);
	return OHCA_ADMIN_OK;
}

bool ohca_dm_free_some(ohca_engine *e)
{
	while (!ohca_list_empty(&e->dm_used)) {
		if (!ohca_work_left(e))
			return false;
		ohca_work(e, OHCA_WORK_OBJECT);
		dm_free(e, dm_at(e->dm_used.next));
	}
	return true;
}

void *ohca_dm_ptr(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, uint64_t n)
{
	if (!ohca_running(e) || off > dm->size || n > dm->size - off)
		return NULL;
	return (uint8_t *)e->cfg.dm + dm->off + off;
}

void ohca_dm_dirty(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, size_t n)
{
	if (e->ops.dm_dirty && n)
		e->ops.dm_dirty(e->h, dm->off + off, n);
}
