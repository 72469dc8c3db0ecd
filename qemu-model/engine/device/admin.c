/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The admin queue: fetch, check, execute and answer commands. */
#include <string.h>

#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/job.h"
#include "engine/base/le.h"
#include "engine/base/lies.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/device/admin.h"
#include "engine/device/query_device.h"
#include "engine/management/mad.h"
#include "engine/object/context.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/dm.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "engine/object/fatal.h"
#include "engine/object/fault.h"
#include "engine/object/mcast.h"
#include "engine/object/mr.h"
#include "engine/object/odp.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "engine/object/xrc.h"
#include "ohca_hw.h"

/**
 * struct cmd_desc - one command
 * @run: executes it; NULL: there is no such command
 * @body: bytes of the entry's body that it uses; the other bytes must be zero
 * @feature: feature bit that must be acknowledged, plus one; 0: none
 */
struct cmd_desc {
	int (*run)(struct ohca_cmd *c);
	uint8_t body;
	uint8_t feature;
};

static int cmd_nop(struct ohca_cmd *c)
{
	(void)c;
	return OHCA_ADMIN_OK;
}

#define HANDLE		offsetof(struct ohca_cmd_handle, reserved)
#define HANDLE_MBOX	sizeof(struct ohca_cmd_handle)
#define FEATURE(f)	(OHCA_FEATURE_##f + 1)

static const struct cmd_desc cmds[] = {
	[OHCA_CMD_NOP]		  = { cmd_nop, 0, 0 },
	[OHCA_CMD_QUERY_DEVICE]	  = { ohca_cmd_query_device, sizeof(struct ohca_cmd_mbox), 0 },
	[OHCA_CMD_MODIFY_DEVICE]  = { ohca_cmd_modify_device, sizeof(struct ohca_cmd_mbox), 0 },
	[OHCA_CMD_MODIFY_PORT]	  = { ohca_cmd_modify_port,
				      sizeof(struct ohca_cmd_modify_port), 0 },
	[OHCA_CMD_MAD_IFC]	  = { ohca_cmd_mad_ifc, sizeof(struct ohca_cmd_mad_ifc), 0 },
	[OHCA_CMD_QUERY_COUNTERS] = { ohca_cmd_query_counters, sizeof(struct ohca_cmd_mbox), 0 },
	[OHCA_CMD_QUERY_CONTEXT]  = { ohca_cmd_query_context,
				      sizeof(struct ohca_cmd_query_context),
				      FEATURE(QUERY_CONTEXT) },
	[OHCA_CMD_CREATE_EQ]	  = { ohca_cmd_create_eq, sizeof(struct ohca_cmd_create_eq), 0 },
	[OHCA_CMD_DESTROY_EQ]	  = { ohca_cmd_destroy_eq, HANDLE, 0 },
	[OHCA_CMD_ALLOC_PD]	  = { ohca_cmd_alloc_pd, sizeof(struct ohca_cmd_alloc_pd), 0 },
	[OHCA_CMD_DEALLOC_PD]	  = { ohca_cmd_dealloc_pd, HANDLE, 0 },
	[OHCA_CMD_CREATE_CQ]	  = { ohca_cmd_create_cq, sizeof(struct ohca_cmd_create_cq), 0 },
	[OHCA_CMD_DESTROY_CQ]	  = { ohca_cmd_destroy_cq, HANDLE, 0 },
	[OHCA_CMD_MODIFY_CQ]	  = { ohca_cmd_modify_cq, sizeof(struct ohca_cmd_modify_cq), 0 },
	[OHCA_CMD_RESIZE_CQ]	  = { ohca_cmd_resize_cq, sizeof(struct ohca_cmd_resize_cq),
				      FEATURE(CQ_RESIZE) },
	[OHCA_CMD_CREATE_SRQ]	  = { ohca_cmd_create_srq, sizeof(struct ohca_cmd_create_srq),
				      FEATURE(SRQ) },
	[OHCA_CMD_DESTROY_SRQ]	  = { ohca_cmd_destroy_srq, HANDLE, FEATURE(SRQ) },
	[OHCA_CMD_MODIFY_SRQ]	  = { ohca_cmd_modify_srq, sizeof(struct ohca_cmd_modify_srq),
				      FEATURE(SRQ) },
	[OHCA_CMD_QUERY_SRQ]	  = { ohca_cmd_query_srq, HANDLE, FEATURE(SRQ) },
	[OHCA_CMD_RESIZE_SRQ]	  = { ohca_cmd_resize_srq, sizeof(struct ohca_cmd_resize_srq),
				      FEATURE(SRQ_RESIZE) },
	[OHCA_CMD_CREATE_QP]	  = { ohca_cmd_create_qp, sizeof(struct ohca_cmd_create_qp), 0 },
	[OHCA_CMD_DESTROY_QP]	  = { ohca_cmd_destroy_qp, HANDLE, 0 },
	[OHCA_CMD_MODIFY_QP]	  = { ohca_cmd_modify_qp, sizeof(struct ohca_cmd_modify_qp), 0 },
	[OHCA_CMD_QUERY_QP]	  = { ohca_cmd_query_qp, HANDLE_MBOX, 0 },
	[OHCA_CMD_RESIZE_QP]	  = { ohca_cmd_resize_qp, sizeof(struct ohca_cmd_resize_qp),
				      FEATURE(QP_RESIZE) },
	[OHCA_CMD_REG_MR]	  = { ohca_cmd_reg_mr, sizeof(struct ohca_cmd_reg_mr), 0 },
	[OHCA_CMD_DEREG_MR]	  = { ohca_cmd_dereg_mr, HANDLE, 0 },
	[OHCA_CMD_REREG_MR]	  = { ohca_cmd_rereg_mr, sizeof(struct ohca_cmd_reg_mr),
				      FEATURE(REREG) },
	[OHCA_CMD_ATTACH_MCAST]	  = { ohca_cmd_attach_mcast, sizeof(struct ohca_cmd_mcast),
				      FEATURE(MCAST) },
	[OHCA_CMD_DETACH_MCAST]	  = { ohca_cmd_detach_mcast, sizeof(struct ohca_cmd_mcast),
				      FEATURE(MCAST) },
	[OHCA_CMD_ALLOC_XRCD]	  = { ohca_cmd_alloc_xrcd, 0, FEATURE(XRC) },
	[OHCA_CMD_DEALLOC_XRCD]	  = { ohca_cmd_dealloc_xrcd, HANDLE, FEATURE(XRC) },
	[OHCA_CMD_ALLOC_DM]	  = { ohca_cmd_alloc_dm, sizeof(struct ohca_cmd_alloc_dm),
				      FEATURE(DM) },
	[OHCA_CMD_FREE_DM]	  = { ohca_cmd_free_dm, HANDLE, FEATURE(DM) },
	[OHCA_CMD_UPDATE_MR_PAGES] = { ohca_cmd_update_mr_pages,
				       sizeof(struct ohca_cmd_update_mr), FEATURE(ODP) },
	[OHCA_CMD_PAGE_FAULT_RESUME] = { ohca_cmd_page_fault_resume,
					 sizeof(struct ohca_cmd_fault_resume), FEATURE(ODP) },
	[OHCA_CMD_ALLOC_COUNTERS] = { ohca_cmd_alloc_counters, 0, FEATURE(QP_COUNTERS) },
	[OHCA_CMD_FREE_COUNTERS]  = { ohca_cmd_free_counters, HANDLE, FEATURE(QP_COUNTERS) },
	[OHCA_CMD_QUERY_COUNTER_SET] = { ohca_cmd_query_counter_set,
					 sizeof(struct ohca_cmd_query_counter_set),
					 FEATURE(QP_COUNTERS) },
	[OHCA_CMD_BIND_COUNTERS]  = { ohca_cmd_bind_counters,
				      sizeof(struct ohca_cmd_bind_counters),
				      FEATURE(QP_COUNTERS) },
};

/* ---- the rings -------------------------------------------------------------------- */

static int cmd_run(struct ohca_cmd *c)
{
	const struct ohca_cmd_hdr *h = &c->aqe.hdr;
	const struct cmd_desc *d;

	if (h->opcode >= sizeof(cmds) / sizeof(cmds[0]) || !cmds[h->opcode].run)
		return OHCA_ADMIN_BAD_OPCODE;
	d = &cmds[h->opcode];
	if (d->feature && !ohca_feature(c->e, (enum ohca_feature)(d->feature - 1)))
		return OHCA_ADMIN_BAD_OPCODE;
	if (h->reserved)
		return OHCA_BAD(c, hdr.reserved);
	if (h->function)
		return OHCA_BAD(c, hdr.function);
	for (unsigned int i = d->body; i < sizeof(c->aqe.body); i++) {
		if (c->aqe.body[i]) {
			c->syndrome = (uint16_t)(offsetof(struct ohca_hw_aqe, body) + i);
			return OHCA_ADMIN_BAD_PARAM;
		}
	}
	return d->run(c);
}

static int answer(ohca_engine *e, uint32_t index, uint32_t log_size, struct ohca_hw_acqe *rsp)
{
	uint64_t off = (uint64_t)(index & ((1u << log_size) - 1)) * OHCA_AQ_ENTRY_SIZE;

	rsp->phase = !(index >> log_size & 1);
	return ohca_dma_publish(e, atomic_load(&e->acq_base) + off, rsp, sizeof(*rsp));
}

/* Execute a command, perhaps with a false status. */
static int cmd_run_or_lie(struct ohca_cmd *c)
{
	int rc, status;
	bool execute;

	if (c->e->aq_more || !ohca_lie_in_status(c->e, c->aqe.hdr.opcode, &execute, &status))
		return cmd_run(c);
	if (execute) {
		rc = cmd_run(c);
		if (rc == OHCA_CMD_MORE || rc == status)
			return rc;
	}
	ohca_lies_tell(c->e);
	return status;
}

/* Write the answer, perhaps a false one, or at the wrong time. */
static int answer_or_lie(ohca_engine *e, uint32_t index, uint32_t log_size,
			 struct ohca_hw_acqe *rsp)
{
	enum ohca_late how = ohca_lie_in_answer(e, rsp);
	struct ohca_lies *l = &e->lies;
	int rc = 0;

	if (how != OHCA_ANSWER_LATE)
		rc = answer(e, index, log_size, rsp);
	if (how == OHCA_ANSWER_TWICE)
		rc |= answer(e, index + 1, log_size, rsp);
	if (l->is_late)
		rc |= answer(e, l->late_index, log_size, &l->late);
	l->is_late = how == OHCA_ANSWER_LATE;
	if (l->is_late) {
		l->late = *rsp;
		l->late_index = index;
	}
	return rc;
}

/*
 * Execute one entry. Return: 0: done; -1: the rings are not accessible; 1: the command has begun
 * and continues later.
 */
static int cmd_one(ohca_engine *e, uint32_t index, uint32_t log_size)
{
	uint64_t off = (uint64_t)(index & ((1u << log_size) - 1)) * OHCA_AQ_ENTRY_SIZE;
	struct ohca_cmd c = { .e = e };
	struct ohca_job *job = &e->job;
	int rc;

	/* copy the entry once, even if the command takes several steps */
	if (!e->aq_more &&
	    ohca_dma_read(e, atomic_load(&e->aq_base) + off, &e->aqe, sizeof(e->aqe)))
		return -1;
	ohca_work(e, OHCA_WORK_CMD);
	c.aqe = e->aqe;
	if (!job->ending) {
		rc = ohca_lies(e) ? cmd_run_or_lie(&c) : cmd_run(&c);
		e->aq_more = rc == OHCA_CMD_MORE;
		if (e->aq_more && ohca_running(e))
			return 1;
		/* done, or failed in a later step */
		job->ending = true;
		job->rc = rc;
		job->syndrome = c.syndrome;
		job->rsp = c.rsp;
	}
	rc = job->rc;
	c.syndrome = job->syndrome;
	c.rsp = job->rsp;
	e->aq_more = ohca_running(e) && !ohca_job_end_some(e);
	if (e->aq_more)
		return 1;
	ohca_job_end(e);
	ohca_count(e, OHCA_CNT_CMDS);
	if (rc) {
		ohca_count(e, OHCA_CNT_CMDS_BAD);
		memset(c.rsp.body, 0, sizeof(c.rsp.body));
	}
	c.rsp.cookie = c.aqe.hdr.cookie;
	c.rsp.status = (uint8_t)rc;
	c.rsp.opcode = c.aqe.hdr.opcode;
	c.rsp.syndrome = ohca_to_le16(rc ? c.syndrome : 0);
	ohca_trace(e, OHCA_TR_CMD, c.aqe.hdr.opcode, (uint64_t)rc, c.syndrome,
		   ohca_le32(c.rsp.handle.handle));
	/* a command that made the device fatal has no answer */
	if (!ohca_running(e))
		return 0;
	if (ohca_lies(e))
		return answer_or_lie(e, index, log_size, &c.rsp);
	return answer(e, index, log_size, &c.rsp);
}

bool ohca_admin_run(ohca_engine *e, unsigned int budget)
{
	uint32_t log_size = atomic_load(&e->aq_log_size);
	uint32_t pi = ohca_db_admin(e);
	bool done = false;

	if (pi == e->aq_ci)
		return false;
	if (pi - e->aq_ci > 1u << log_size) {
		ohca_fatal(e, OHCA_FATAL_AQ_OVERFLOW);
		return false;
	}
	ohca_work_begin(e, OHCA_CMD_WORK);
	for (; e->aq_ci != pi && budget && ohca_work_left(e) && ohca_running(e); budget--) {
		int rc = cmd_one(e, e->aq_ci, log_size);

		if (rc < 0) {
			ohca_fatal(e, OHCA_FATAL_AQ_DMA);
			return false;
		}
		if (rc)
			break;
		e->aq_ci++;
		done = true;
	}
	if (done && ohca_running(e) && (atomic_load(&e->aq_intr) & 1))
		e->ops.irq(e->h, 0);
	return e->aq_ci != pi;
}

void ohca_aq_reset(ohca_engine *e)
{
	ohca_db_admin_reset(e);
	e->aq_ci = 0;
	e->aq_more = false;
	ohca_lies_reset(e);
	ohca_job_end(e);
}
