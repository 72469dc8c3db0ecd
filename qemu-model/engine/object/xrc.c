/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Extended reliable connected service: XRC domains, and the SRQs of their targets (IBTA vol 1,
 * annex A14).
 *
 * An XRC_TGT QP has no PD, SRQ or CQ of its own. While it receives, its pd, srq and rcq are those
 * of the SRQ that the last request named. It has no reference to them, so the destruction of an SRQ
 * searches the targets of its domain. Its page faults count against the doorbell page of this SRQ.
 */
#include "engine/base/cmd.h"
#include "engine/base/ids.h"
#include "engine/base/le.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "engine/object/to_transport.h"
#include "engine/object/xrc.h"
#include "ohca_hw.h"

struct ohca_xrcd *ohca_xrcd_get(ohca_engine *e, uint32_t xrcdn)
{
	return xrcdn < e->max_xrcd ? e->xrcd[xrcdn] : NULL;
}

int ohca_cmd_alloc_xrcd(struct ohca_cmd *c)
{
	ohca_engine *e = c->e;
	struct ohca_xrcd *xrcd = ohca_mem_get(e, sizeof(*xrcd));

	if (!xrcd)
		return OHCA_ADMIN_NO_RESOURCE;
	xrcd->xrcdn = ohca_ids_get(&e->xrcd_ids);
	if (xrcd->xrcdn == OHCA_NO_ID) {
		ohca_mem_put(e, xrcd, sizeof(*xrcd));
		return OHCA_ADMIN_NO_RESOURCE;
	}
	ohca_list_init(&xrcd->targets);
	e->xrcd[xrcd->xrcdn] = xrcd;
	ohca_cmd_result(c, xrcd->xrcdn);
	return OHCA_ADMIN_OK;
}

void ohca_xrcd_free(ohca_engine *e, struct ohca_xrcd *xrcd)
{
	e->xrcd[xrcd->xrcdn] = NULL;
	ohca_ids_put(&e->xrcd_ids, xrcd->xrcdn);
	ohca_mem_put(e, xrcd, sizeof(*xrcd));
}

int ohca_cmd_dealloc_xrcd(struct ohca_cmd *c)
{
	struct ohca_xrcd *xrcd = ohca_xrcd_get(c->e, ohca_le32(c->aqe.handle.handle));

	if (!xrcd)
		return OHCA_ADMIN_BAD_HANDLE;
	if (xrcd->refs)
		return OHCA_ADMIN_BUSY;
	ohca_xrcd_free(c->e, xrcd);
	return OHCA_ADMIN_OK;
}

int ohca_xrc_srq(ohca_engine *e, const struct ohca_qp *qp, uint32_t srqn, struct ohca_srq **srq)
{
	*srq = ohca_srq_get(e, srqn);
	if (!*srq || !(*srq)->xrcd || (*srq)->going)
		return OHCA_VE_XRC_SRQ;
	return (*srq)->xrcd == qp->xrcd ? OHCA_VE_NONE : OHCA_VE_PD;
}

bool ohca_xrc_srq_gone(ohca_engine *e, const struct ohca_srq *srq)
{
	struct ohca_list *all = &srq->xrcd->targets;
	struct ohca_job *job = &e->job;

	if (!job->list)
		job->list = all->next;
	for (; job->list != all; job->list = job->list->next) {
		struct ohca_qp *qp = ohca_container_of(job->list, struct ohca_qp, target);

		if (!ohca_work_left(e))
			return false;
		ohca_work(e, OHCA_WORK_STEP);
		if (qp->srq != srq)
			continue;
		ohca_work(e, OHCA_WORK_WQE);
		ohca_xp_srq_gone(e, qp);
		qp->srq = NULL;
		qp->rcq = NULL;
		qp->pd = NULL;
	}
	return true;
}
