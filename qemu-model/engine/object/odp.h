/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Regions with on-demand paging. */
#ifndef OHCA_OBJECT_ODP_H
#define OHCA_OBJECT_ODP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

struct ohca_cmd;
struct ib_view;
struct ohca_missing;
struct ohca_mr;
struct ohca_odp;

/* Create a table without pages, for @bytes in pages of 1 << @shift. enum ohca_admin_status */
int ohca_odp_create(ohca_engine *e, struct ohca_odp **out, uint64_t bytes, uint8_t shift);
void ohca_odp_free(ohca_engine *e, struct ohca_odp *o);
/* Invalidate pages, as far as the allowance of work covers. Return: true if none is left */
bool ohca_odp_clear(ohca_engine *e, struct ohca_odp *o);
/*
 * Copy @n bytes between @buf and the pages from @off on, which is inside the region; as
 * ohca_mr_read() and ohca_mr_write(). If @write, @buf is only read.
 */
int ohca_odp_copy(ohca_engine *e, const struct ohca_mr *mr, uint64_t off, uint8_t *buf, size_t n,
		  bool write, struct ohca_missing *m);
/* Add @n bytes of the pages from @off on, for reading, to @v, as by ohca_dma_view() */
bool ohca_odp_view(ohca_engine *e, const struct ohca_mr *mr, uint64_t off, struct ib_view *v,
		   size_t n);
/* Bus address of the 8 bytes at @off, a multiple of 8, for writing. 0 or OHCA_MR_FAULT: *@m */
int ohca_odp_addr(const struct ohca_mr *mr, uint64_t off, uint64_t *addr, struct ohca_missing *m);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_update_mr_pages(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_ODP_H */
