/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory regions and windows. */
#ifndef OHCA_OBJECT_MR_H
#define OHCA_OBJECT_MR_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/guestmem.h"
#include "engine/base/list.h"
#include "engine/engine.h"

struct ohca_cmd;
struct ohca_dm;
struct ohca_hw_wqe_reg;
struct ohca_odp;
struct ohca_pd;
struct ohca_qp;

/** struct ohca_mr - memory region or window */
struct ohca_mr {
	uint32_t key;		/* index << 8 | tag; an access must have exactly this key */
	uint8_t type;		/* enum ohca_mr_type */
	bool valid;		/* FRMR, MW2: registered / bound */
	uint32_t access;
	uint32_t refs;		/* windows bound to it */
	uint32_t max_pages;	/* FRMR; memory for the page list is reserved from the budget */
	uint64_t iova, length;
	uint64_t pl_offset;	/* offset of the first byte in the pages (window: of its MR) */
	struct ohca_pd *pd;
	struct ohca_pages pages;
	struct ohca_dm *dm;	/* DM: the allocation; pl_offset is an offset in it */
	struct ohca_odp *odp;	/* ODP: page table, instead of @pages */
	struct ohca_mr *bound;	/* MW: region that the window is bound to */
	struct ohca_qp *qp;	/* MW2: the QP it is bound to */
	struct ohca_list qp_link;	/* MW2: on qp->windows while bound */
};

/* Operations of WQEs on keys; each returns 0 or a vendor error */
int ohca_mr_fast_reg(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_hw_wqe_reg *reg);
int ohca_mr_invalidate(ohca_engine *e, const struct ohca_qp *qp, uint32_t key, bool remote);
int ohca_mw_bind(ohca_engine *e, struct ohca_qp *qp, const struct ohca_hw_wqe_reg *reg);
/* The object with this number; NULL: there is none. */
struct ohca_mr *ohca_mr_get(ohca_engine *e, uint32_t key);
/*
 * The object with this number, for commands. For an FRMR or a window only the index must match,
 * because work requests change the tag.
 */
struct ohca_mr *ohca_mr_by_index(ohca_engine *e, uint32_t key);
/*
 * Invalidate the windows bound to a QP that is being destroyed (IBTA vol 1, 10.6.7.2.3), as far as
 * the allowance of work covers. Return: true if none is left
 */
bool ohca_mw_forget(ohca_engine *e, struct ohca_qp *qp);
/* Free the object at destroy or reset; nothing refers to it. */
void ohca_mr_free(ohca_engine *e, struct ohca_mr *mr);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_reg_mr(struct ohca_cmd *c);
int ohca_cmd_dereg_mr(struct ohca_cmd *c);
int ohca_cmd_rereg_mr(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_MR_H */
