/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory regions and windows: commands, and the operations of work requests that
 * register, bind and invalidate. Keys are checked in mr_access.c.
 */
#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/ids.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/work.h"
#include "engine/object/dm.h"
#include "engine/object/mr.h"
#include "engine/object/odp.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "ohca_hw.h"

#define ACCESS_REMOTE	(OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_READ |	\
			 OHCA_ACCESS_REMOTE_ATOMIC)
#define ACCESS_ALL	(ACCESS_REMOTE | OHCA_ACCESS_LOCAL_WRITE |		\
			 OHCA_ACCESS_MW_BIND | OHCA_ACCESS_ZERO_BASED)

struct ohca_mr *ohca_mr_get(ohca_engine *e, uint32_t key)
{
	uint32_t idx = key >> 8;
	struct ohca_mr *mr = idx < e->max_mr ? e->mr[idx] : NULL;

	return mr && mr->key == key ? mr : NULL;
}

static bool is_window(const struct ohca_mr *mr)
{
	return mr->type == OHCA_MR_MW1 || mr->type == OHCA_MR_MW2;
}

struct ohca_mr *ohca_mr_by_index(ohca_engine *e, uint32_t key)
{
	uint32_t idx = key >> 8;
	struct ohca_mr *mr = idx < e->max_mr ? e->mr[idx] : NULL;

	/* work requests change the tag, and the driver may not know it yet */
	return mr && (mr->key == key || mr->type == OHCA_MR_FRMR || is_window(mr)) ? mr : NULL;
}

/* Remote rights to write need the local one (IBTA vol 1, 10.6.3.1). */
static bool access_ok(const ohca_engine *e, uint32_t access)
{
	uint32_t all = ACCESS_ALL;

	if (ohca_feature(e, OHCA_FEATURE_MPE))
		all |= OHCA_ACCESS_FLUSH_GLOBAL | OHCA_ACCESS_FLUSH_PERSISTENT;
	if (access & ~all)
		return false;
	return !(access & (OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_ATOMIC)) ||
	       (access & OHCA_ACCESS_LOCAL_WRITE);
}

static void mw_unbind(struct ohca_mr *mw)
{
	if (mw->bound)
		mw->bound->refs--;
	if (mw->qp)
		ohca_list_del(&mw->qp_link);
	mw->qp = NULL;
	mw->bound = NULL;
	mw->valid = false;
	mw->length = 0;
}

bool ohca_mw_forget(ohca_engine *e, struct ohca_qp *qp)
{
	while (!ohca_list_empty(&qp->windows)) {
		if (!ohca_work_left(e))
			return false;
		ohca_work(e, OHCA_WORK_STEP);
		mw_unbind(ohca_container_of(qp->windows.next, struct ohca_mr, qp_link));
	}
	return true;
}

/*
 * Memory that is reserved for the page list of an FRMR and not allocated, bytes. A change of the
 * list releases it and reserves the new rest. No other object can reserve it in between.
 */
static size_t frmr_bytes(const struct ohca_mr *mr)
{
	return (mr->max_pages - (mr->pages.page ? mr->pages.npages : 0)) * sizeof(uint64_t);
}

static void frmr_pages_free(ohca_engine *e, struct ohca_mr *mr)
{
	ohca_mem_release(e, frmr_bytes(mr));
	ohca_pages_free(e, &mr->pages);
	ohca_mem_reserve(e, frmr_bytes(mr));
}

/* ---- commands --------------------------------------------------------------------- */

/* Whether an ended life still has the key with the next tag of @idx. */
static bool is_old_tag(const ohca_engine *e, uint32_t idx)
{
	const uint32_t key = idx << 8 | (uint8_t)(e->mr_tag[idx] + 1);

	for (unsigned int i = 0; i < e->num_dead; i++)
		if (e->dead[i]->mr[idx] && e->dead[i]->mr[idx]->key == key)
			return true;
	return false;
}

static uint8_t next_tag(ohca_engine *e, uint32_t idx)
{
	while (is_old_tag(e, idx))
		e->mr_tag[idx]++;
	return ++e->mr_tag[idx];
}

/* Load the address range and page list of REG_MR or REREG_MR into @mr. */
static int load_translation(struct ohca_cmd *c, struct ohca_mr *mr, uint32_t access)
{
	const struct ohca_cmd_reg_mr *cmd = &c->aqe.reg_mr;
	uint64_t iova = ohca_le64(cmd->iova), length = ohca_le64(cmd->length);
	uint32_t offset = ohca_le32(cmd->pl_offset);
	int rc;

	if (length == 0 || length > OHCA_MAX_MR_SIZE)
		return OHCA_BAD(c, reg_mr.length);
	if (iova + (length - 1) < iova || ((access & OHCA_ACCESS_ZERO_BASED) && iova))
		return OHCA_BAD(c, reg_mr.iova);
	if (cmd->pl.page_shift > OHCA_PL_MAX_SHIFT || offset >= 1ull << cmd->pl.page_shift)
		return OHCA_BAD(c, reg_mr.pl_offset);
	rc = OHCA_CMD_PAGES(c, &mr->pages, reg_mr.pl, length + offset,
			    OHCA_MAX_MR_PAGES);
	if (rc)
		return rc;
	mr->iova = iova;
	mr->length = length;
	mr->pl_offset = offset;
	return OHCA_ADMIN_OK;
}

/* The same for a region with on-demand paging, which begins without pages. */
static int load_odp(struct ohca_cmd *c, struct ohca_mr *mr, uint32_t access)
{
	const struct ohca_cmd_reg_mr *cmd = &c->aqe.reg_mr;
	uint64_t iova = ohca_le64(cmd->iova), length = ohca_le64(cmd->length);
	uint32_t offset = ohca_le32(cmd->pl_offset);
	int rc;

	if (!ohca_feature(c->e, OHCA_FEATURE_ODP) || !c->e->fault_eq)
		return OHCA_BAD(c, reg_mr.type);
	if (cmd->pl.root || cmd->pl.npages || cmd->pl.levels || cmd->pl.reserved ||
	    cmd->pl.page_shift < OHCA_PL_MIN_SHIFT || cmd->pl.page_shift > OHCA_PL_MAX_SHIFT)
		return OHCA_BAD(c, reg_mr.pl);
	if (offset >= 1ull << cmd->pl.page_shift)
		return OHCA_BAD(c, reg_mr.pl_offset);
	if (length == 0 || length > OHCA_MAX_ODP_SIZE)
		return OHCA_BAD(c, reg_mr.length);
	if (iova + (length - 1) < iova || ((access & OHCA_ACCESS_ZERO_BASED) && iova))
		return OHCA_BAD(c, reg_mr.iova);
	rc = ohca_odp_create(c->e, &mr->odp, length + offset, cmd->pl.page_shift);
	if (rc)
		return rc;
	mr->iova = iova;
	mr->length = length;
	mr->pl_offset = offset;
	mr->valid = true;
	return OHCA_ADMIN_OK;
}

/* Set @mr to a part of an allocation of device memory. */
static int load_dm(struct ohca_cmd *c, struct ohca_mr *mr)
{
	const struct ohca_cmd_reg_mr *cmd = &c->aqe.reg_mr;
	struct ohca_dm *dm = ohca_dm_get(c->e, ohca_le32(cmd->dm));
	uint64_t length = ohca_le64(cmd->length);
	uint32_t offset = ohca_le32(cmd->pl_offset);

	if (!dm)
		return OHCA_BAD(c, reg_mr.dm);
	if (!(mr->access & OHCA_ACCESS_ZERO_BASED) ||
	    (mr->access & OHCA_ACCESS_FLUSH_PERSISTENT))
		return OHCA_BAD(c, reg_mr.access);
	if (offset > dm->length)
		return OHCA_BAD(c, reg_mr.pl_offset);
	/* a region of 0 bytes is valid, since libibverbs allows it */
	if (length > dm->length - offset)
		return OHCA_BAD(c, reg_mr.length);
	mr->dm = dm;
	mr->length = length;
	mr->pl_offset = offset;
	mr->valid = true;
	return OHCA_ADMIN_OK;
}

/* Fields that a type does not use must be zero. */
static int check_unused(struct ohca_cmd *c)
{
	const struct ohca_cmd_reg_mr *cmd = &c->aqe.reg_mr;

	if (cmd->dm && cmd->type != OHCA_MR_DM)
		return OHCA_BAD(c, reg_mr.dm);
	if (cmd->reserved)
		return OHCA_BAD(c, reg_mr.reserved);
	if (cmd->type == OHCA_MR_USER || cmd->type == OHCA_MR_ODP)
		return OHCA_ADMIN_OK;
	if (cmd->pl.root || cmd->pl.npages || cmd->pl.page_shift || cmd->pl.levels ||
	    cmd->pl.reserved)
		return OHCA_BAD(c, reg_mr.pl);
	if (cmd->iova)
		return OHCA_BAD(c, reg_mr.iova);
	if (cmd->pl_offset && cmd->type != OHCA_MR_DM)
		return OHCA_BAD(c, reg_mr.pl_offset);
	if (cmd->length && cmd->type != OHCA_MR_FRMR && cmd->type != OHCA_MR_DM)
		return OHCA_BAD(c, reg_mr.length);
	return OHCA_ADMIN_OK;
}

static int fill_mr(struct ohca_cmd *c, struct ohca_mr *mr)
{
	const struct ohca_cmd_reg_mr *cmd = &c->aqe.reg_mr;
	uint32_t access = ohca_le16(cmd->access);
	int rc = check_unused(c);

	if (rc)
		return rc;
	if (!access_ok(c->e, access))
		return OHCA_BAD(c, reg_mr.access);
	mr->type = cmd->type;
	mr->access = access;
	switch (cmd->type) {
	case OHCA_MR_USER:
		mr->valid = true;
		return load_translation(c, mr, access);
	case OHCA_MR_ODP:
		/* a flush needs pages that are present */
		if (access & OHCA_ACCESS_FLUSH_PERSISTENT)
			return OHCA_BAD(c, reg_mr.access);
		return load_odp(c, mr, access);
	case OHCA_MR_DMA:
		/* it covers all bus addresses, so only the kernel may have it */
		if (mr->pd->uar)
			return OHCA_BAD(c, reg_mr.pdn);
		if (access & (OHCA_ACCESS_ZERO_BASED | OHCA_ACCESS_MW_BIND))
			return OHCA_BAD(c, reg_mr.access);
		mr->valid = true;
		return OHCA_ADMIN_OK;
	case OHCA_MR_FRMR:
		if (!ohca_feature(c->e, OHCA_FEATURE_FRMR))
			return OHCA_BAD(c, reg_mr.type);
		if (!cmd->length || ohca_le64(cmd->length) > OHCA_MAX_FRMR_PAGES)
			return OHCA_BAD(c, reg_mr.length);
		if (!ohca_mem_reserve(c->e, ohca_le64(cmd->length) * sizeof(uint64_t)))
			return OHCA_ADMIN_NO_RESOURCE;
		mr->max_pages = (uint32_t)ohca_le64(cmd->length);
		return OHCA_ADMIN_OK;
	case OHCA_MR_MW1:
	case OHCA_MR_MW2:
		if (!ohca_feature(c->e, OHCA_FEATURE_MW))
			return OHCA_BAD(c, reg_mr.type);
		if (access)
			return OHCA_BAD(c, reg_mr.access);
		return OHCA_ADMIN_OK;
	case OHCA_MR_DM:
		if (!ohca_feature(c->e, OHCA_FEATURE_DM))
			return OHCA_BAD(c, reg_mr.type);
		return load_dm(c, mr);
	default:
		return OHCA_BAD(c, reg_mr.type);
	}
}

int ohca_cmd_reg_mr(struct ohca_cmd *c)
{
	const struct ohca_cmd_reg_mr *cmd = &c->aqe.reg_mr;
	ohca_engine *e = c->e;
	struct ohca_pd *pd = ohca_pd_get(e, ohca_le32(cmd->pdn));
	struct ohca_mr *mr;
	uint32_t idx;
	int rc;

	if (!pd)
		return OHCA_BAD(c, reg_mr.pdn);
	if (cmd->key)
		return OHCA_BAD(c, reg_mr.key);
	if (cmd->rereg)
		return OHCA_BAD(c, reg_mr.rereg);
	mr = ohca_mem_get(e, sizeof(*mr));
	if (!mr)
		return OHCA_ADMIN_NO_RESOURCE;
	mr->pd = pd;
	rc = fill_mr(c, mr);
	idx = rc ? OHCA_NO_ID : ohca_ids_get(&e->mr_ids);
	if (idx == OHCA_NO_ID) {
		if (mr->type == OHCA_MR_FRMR)
			ohca_mem_release(e, frmr_bytes(mr));
		/* the end of the command frees the list in steps */
		e->job.buf = mr->pages;
		ohca_odp_free(e, mr->odp);
		ohca_mem_put(e, mr, sizeof(*mr));
		return rc ? rc : OHCA_ADMIN_NO_RESOURCE;
	}
	mr->key = idx << 8 | next_tag(e, idx);
	e->mr[idx] = mr;
	e->num_odp += mr->odp != NULL;
	pd->refs++;
	if (mr->dm)
		mr->dm->refs++;
	ohca_cmd_result(c, mr->key);
	return OHCA_ADMIN_OK;
}

void ohca_mr_free(ohca_engine *e, struct ohca_mr *mr)
{
	uint32_t idx = mr->key >> 8;

	mw_unbind(mr);
	/*
	 * A consumer may have chosen the tag. The next key must differ from the last one, and from
	 * a key of an ended life.
	 */
	if (!e->ended || (uint8_t)(e->mr_tag[idx] + 1) == (uint8_t)mr->key)
		e->mr_tag[idx] = (uint8_t)mr->key;
	e->mr[idx] = NULL;
	ohca_ids_put(&e->mr_ids, idx);
	mr->pd->refs--;
	e->num_odp -= mr->odp != NULL;
	ohca_odp_free(e, mr->odp);
	if (mr->dm)
		mr->dm->refs--;
	if (mr->type == OHCA_MR_FRMR)
		ohca_mem_release(e, frmr_bytes(mr));
	ohca_pages_free(e, &mr->pages);
	ohca_mem_put(e, mr, sizeof(*mr));
}

int ohca_cmd_dereg_mr(struct ohca_cmd *c)
{
	struct ohca_mr *mr = ohca_mr_by_index(c->e, ohca_le32(c->aqe.handle.handle));

	if (!mr)
		return OHCA_ADMIN_BAD_HANDLE;
	if (mr->refs)
		return OHCA_ADMIN_BUSY;
	/* the key is invalid while its pages are freed */
	mr->valid = false;
	if (mr->odp && !ohca_odp_clear(c->e, mr->odp))
		return OHCA_CMD_MORE;
	/* the list of an FRMR is short, and ohca_mr_free() accounts for its budget */
	if (mr->type != OHCA_MR_FRMR && !ohca_pages_free_some(c->e, &mr->pages))
		return OHCA_CMD_MORE;
	ohca_mr_free(c->e, mr);
	return OHCA_ADMIN_OK;
}

int ohca_cmd_rereg_mr(struct ohca_cmd *c)
{
	const struct ohca_cmd_reg_mr *cmd = &c->aqe.reg_mr;
	ohca_engine *e = c->e;
	struct ohca_mr *mr = ohca_mr_get(e, ohca_le32(cmd->key)), tmp = { 0 };
	uint32_t access;
	struct ohca_pd *pd;
	int rc;

	if (!mr || mr->type != OHCA_MR_USER)
		return OHCA_ADMIN_BAD_HANDLE;
	if (cmd->type != OHCA_MR_USER)
		return OHCA_BAD(c, reg_mr.type);
	rc = check_unused(c);
	if (rc)
		return rc;
	if (!cmd->rereg ||
	    (cmd->rereg & ~(OHCA_REREG_TRANS | OHCA_REREG_PD | OHCA_REREG_ACCESS)))
		return OHCA_BAD(c, reg_mr.rereg);
	if (mr->refs)
		return OHCA_ADMIN_BUSY;
	pd = cmd->rereg & OHCA_REREG_PD ? ohca_pd_get(e, ohca_le32(cmd->pdn)) : mr->pd;
	if (!pd)
		return OHCA_BAD(c, reg_mr.pdn);
	access = cmd->rereg & OHCA_REREG_ACCESS ? ohca_le16(cmd->access) : mr->access;
	if (!access_ok(e, access))
		return OHCA_BAD(c, reg_mr.access);
	/* ZERO_BASED belongs to the translation */
	if (!(cmd->rereg & OHCA_REREG_TRANS) &&
	    ((access ^ mr->access) & OHCA_ACCESS_ZERO_BASED))
		return OHCA_BAD(c, reg_mr.access);
	if (cmd->rereg & OHCA_REREG_TRANS) {
		rc = load_translation(c, &tmp, access);
		if (rc)
			return rc;
		/* the end of the command frees the old list in steps */
		e->job.buf = mr->pages;
		mr->pages = tmp.pages;
		mr->iova = tmp.iova;
		mr->length = tmp.length;
		mr->pl_offset = tmp.pl_offset;
	}
	mr->pd->refs--;
	mr->pd = pd;
	pd->refs++;
	mr->access = access;
	ohca_cmd_result(c, mr->key);
	return OHCA_ADMIN_OK;
}

/* ---- work requests ---------------------------------------------------------------- */

int ohca_mr_fast_reg(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_hw_wqe_reg *reg)
{
	uint32_t key = ohca_le32(reg->key), access = ohca_le32(reg->access);
	uint32_t offset = ohca_le32(reg->pl_offset);
	uint64_t iova = ohca_le64(reg->iova), length = ohca_le64(reg->length);
	uint32_t idx = key >> 8;
	struct ohca_mr *mr = idx < e->max_mr ? e->mr[idx] : NULL;
	int rc;

	if (!(qp->flags & OHCA_QP_PRIVILEGED))
		return OHCA_VE_WQE_OPCODE;
	if (!mr || mr->type != OHCA_MR_FRMR)
		return OHCA_VE_LKEY;
	if (mr->pd != qp->pd)
		return OHCA_VE_PD;
	if (mr->valid || mr->refs)
		return OHCA_VE_MR_STATE;
	if (reg->mr_key)
		return OHCA_VE_WQE_FLAGS;
	if (!access_ok(e, access))
		return OHCA_VE_ACCESS;
	if (length == 0 || length > OHCA_MAX_MR_SIZE || iova + (length - 1) < iova ||
	    ((access & OHCA_ACCESS_ZERO_BASED) && iova) ||
	    reg->pl.page_shift > OHCA_PL_MAX_SHIFT || offset >= 1ull << reg->pl.page_shift)
		return OHCA_VE_BOUNDS;
	/* a region that is not valid has no pages */
	ohca_mem_release(e, frmr_bytes(mr));
	rc = ohca_pages_load(e, &mr->pages, &reg->pl, length + offset, mr->max_pages);
	ohca_mem_reserve(e, frmr_bytes(mr));
	switch (rc) {
	case OHCA_ADMIN_OK:
		break;
	case OHCA_ADMIN_DMA:
		return OHCA_VE_DMA;
	case OHCA_ADMIN_NO_RESOURCE:
		return OHCA_VE_MR_STATE;
	default:
		return OHCA_VE_BOUNDS;
	}
	mr->key = key;
	mr->iova = iova;
	mr->length = length;
	mr->pl_offset = offset;
	mr->access = access;
	mr->valid = true;
	return OHCA_VE_NONE;
}

int ohca_mr_invalidate(ohca_engine *e, const struct ohca_qp *qp, uint32_t key, bool remote)
{
	struct ohca_mr *mr = ohca_mr_get(e, key);

	if (!mr || (mr->type != OHCA_MR_FRMR && mr->type != OHCA_MR_MW2))
		return OHCA_VE_LKEY;
	if (mr->pd != qp->pd)
		return OHCA_VE_PD;
	if (mr->type == OHCA_MR_MW2) {
		if (!mr->valid || mr->qp != qp)
			return OHCA_VE_MR_STATE;
		mw_unbind(mr);
		return OHCA_VE_NONE;
	}
	if (!remote && !(qp->flags & OHCA_QP_PRIVILEGED))
		return OHCA_VE_WQE_OPCODE;
	/* the peer may invalidate only a key with remote access */
	if (remote && (!mr->valid || !(mr->access & ACCESS_REMOTE)))
		return OHCA_VE_MR_STATE;
	if (mr->refs)
		return OHCA_VE_MR_STATE;
	mr->valid = false;
	frmr_pages_free(e, mr);
	return OHCA_VE_NONE;
}

int ohca_mw_bind(ohca_engine *e, struct ohca_qp *qp, const struct ohca_hw_wqe_reg *reg)
{
	uint32_t key = ohca_le32(reg->key), access = ohca_le32(reg->access);
	uint64_t iova = ohca_le64(reg->iova), length = ohca_le64(reg->length);
	uint32_t idx = key >> 8;
	struct ohca_mr *mw = idx < e->max_mr ? e->mr[idx] : NULL;
	struct ohca_mr *mr = ohca_mr_get(e, ohca_le32(reg->mr_key));

	if (!mw || !is_window(mw))
		return OHCA_VE_LKEY;
	if (mw->pd != qp->pd)
		return OHCA_VE_PD;
	if (mw->type == OHCA_MR_MW2 && (mw->valid || length == 0))
		return OHCA_VE_MR_STATE;
	if (reg->pl.root || reg->pl.npages || reg->pl.page_shift || reg->pl.levels ||
	    reg->pl.reserved || reg->pl_offset)
		return OHCA_VE_WQE_FLAGS;
	/* consumers also set local rights, which a window does not have (IBTA 10.6.7.2) */
	if (access & ~(ACCESS_REMOTE | OHCA_ACCESS_ZERO_BASED | OHCA_ACCESS_LOCAL_WRITE))
		return OHCA_VE_ACCESS;
	access &= ~OHCA_ACCESS_LOCAL_WRITE;
	/* binding a type 1 window with length 0 unbinds it and invalidates its old key */
	if (length == 0) {
		mw_unbind(mw);
		mw->key = key;
		return OHCA_VE_NONE;
	}
	if (!mr || is_window(mr) || !mr->valid || mr->type == OHCA_MR_DMA)
		return OHCA_VE_LKEY;
	if (mr->pd != qp->pd)
		return OHCA_VE_PD;
	if (!(mr->access & OHCA_ACCESS_MW_BIND) ||
	    ((access & (OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_ATOMIC)) &&
	     !(mr->access & OHCA_ACCESS_LOCAL_WRITE)))
		return OHCA_VE_ACCESS;
	if (iova < mr->iova || iova - mr->iova > mr->length ||
	    length > mr->length - (iova - mr->iova))
		return OHCA_VE_BOUNDS;
	mw_unbind(mw);
	mw->bound = mr;
	mr->refs++;
	mw->key = key;
	mw->access = access;
	mw->iova = access & OHCA_ACCESS_ZERO_BASED ? 0 : iova;
	mw->length = length;
	mw->pl_offset = iova - mr->iova + mr->pl_offset;
	if (mw->type == OHCA_MR_MW2) {
		mw->qp = qp;
		ohca_list_add_tail(&qp->windows, &mw->qp_link);
	}
	mw->valid = true;
	return OHCA_VE_NONE;
}
