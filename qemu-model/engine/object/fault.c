/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Outstanding page faults: those that the driver has not answered.
 *
 * Each uses one of OHCA_MAX_FAULTS slots. When its QP is destroyed, the slot stays in use until the
 * driver answers. The pages of one process may not arrive for a long time, so the slots are shared
 * among doorbell pages, of which each process has one.
 */
#include <string.h>

#include "engine/base/cmd.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/eq.h"
#include "engine/object/fault.h"
#include "engine/object/mr_access.h"
#include "engine/object/qp.h"
#include "engine/object/to_transport.h"
#include "ohca_hw.h"

static uint32_t slot_of(const ohca_engine *e, const struct ohca_fault *f)
{
	return (uint32_t)(f - e->fault);
}

static struct ohca_fault *slot_get(ohca_engine *e)
{
	for (uint32_t i = 0; i < OHCA_MAX_FAULTS; i++) {
		struct ohca_fault *f = &e->fault[e->fault_next];

		e->fault_next = (e->fault_next + 1) % OHCA_MAX_FAULTS;
		if (!f->busy)
			return f;
	}
	return NULL;
}

bool ohca_fault_may(const ohca_engine *e, uint32_t uar)
{
	return e->uar_faults[uar] < OHCA_MAX_FAULTS - e->num_faults;
}

uint16_t ohca_fault_tell(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
			 uint32_t wqe_idx, const struct ohca_missing *m)
{
	struct ohca_hw_fault_eqe eqe = { .type = OHCA_EVENT_PAGE_FAULT };
	struct ohca_fault *f;

	if (!e->fault_eq || !ohca_fault_may(e, qp->uar) || !ohca_eq_room(e->fault_eq))
		return 0;
	f = slot_get(e);
	if (!f)
		return 0;
	f->gen++;
	f->id = slot_of(e, f) | f->gen << OHCA_FAULT_SLOT_BITS;
	eqe.flags = m->write ? OHCA_FAULT_WRITE : 0;
	eqe.id = ohca_to_le32(f->id);
	eqe.addr = ohca_to_le64(m->addr);
	eqe.length = ohca_to_le32(m->len > UINT32_MAX ? UINT32_MAX : (uint32_t)m->len);
	eqe.key = ohca_to_le32(m->key);
	if (ohca_eq_put(e, e->fault_eq, &eqe))
		return 0;
	f->busy = true;
	f->qp = qp;
	f->uar = qp->uar;
	f->side = side;
	f->wqe_idx = wqe_idx;
	e->num_faults++;
	e->uar_faults[f->uar]++;
	ohca_count(e, OHCA_CNT_PAGE_FAULT);
	return (uint16_t)(slot_of(e, f) + 1);
}

void ohca_fault_forget(ohca_engine *e, uint16_t ref)
{
	e->fault[ref - 1].qp = NULL;
}

void ohca_fault_reset(ohca_engine *e)
{
	/* keep the generations, so that a late answer does not match a new fault */
	for (uint32_t i = 0; i < OHCA_MAX_FAULTS; i++) {
		e->fault[i].busy = false;
		e->fault[i].qp = NULL;
	}
	e->num_faults = 0;
	memset(e->uar_faults, 0, e->cfg.num_uars * sizeof(*e->uar_faults));
}

int ohca_cmd_page_fault_resume(struct ohca_cmd *c)
{
	const struct ohca_cmd_fault_resume *cmd = &c->aqe.fault_resume;
	uint32_t id = ohca_le32(cmd->id), flags = ohca_le32(cmd->flags);
	uint32_t slot = OHCA_FIELD_GET(OHCA_FAULT_SLOT, id);
	ohca_engine *e = c->e;
	struct ohca_fault f;

	if (slot >= OHCA_MAX_FAULTS || !e->fault[slot].busy || e->fault[slot].id != id)
		return OHCA_ADMIN_BAD_HANDLE;
	if (flags & ~OHCA_FAULT_FAILED)
		return OHCA_BAD(c, fault_resume.flags);
	f = e->fault[slot];
	e->fault[slot].busy = false;
	e->fault[slot].qp = NULL;
	e->num_faults--;
	e->uar_faults[f.uar]--;
	if (flags)
		ohca_count(e, OHCA_CNT_PAGE_FAULT_FAIL);
	if (f.qp)
		ohca_xp_resume(e, f.qp, f.side, f.wqe_idx, flags == 0);
	ohca_xp_fault_room(e, 1);
	return OHCA_ADMIN_OK;
}
