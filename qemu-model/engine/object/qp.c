/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Queue pairs: create, query, destroy, errors. Transitions are in qp_modify.c. */
#include "engine/base/async.h"
#include "engine/base/cmd.h"
#include "engine/base/features.h"
#include "engine/base/guestmem.h"
#include "engine/base/ids.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/object/apm.h"
#include "engine/object/counters.h"
#include "engine/object/cq.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "engine/object/mr.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "engine/object/to_transport.h"
#include "engine/object/xrc.h"
#include "ib/packet.h"
#include "ohca_hw.h"

struct ohca_qp *ohca_qp_get(ohca_engine *e, uint32_t handle)
{
	return handle < e->max_qp ? e->qp[handle] : NULL;
}

struct ohca_qp *ohca_qp_by_wire(ohca_engine *e, unsigned int port, uint32_t qpn)
{
	if (qpn <= IB_QP1)
		return port < e->cfg.num_ports ? e->qp[2 * port + qpn] : NULL;
	return qpn >= OHCA_FIRST_QP && qpn < e->max_qp ? e->qp[qpn] : NULL;
}

struct ohca_qp *ohca_qp_of_software(ohca_engine *e, unsigned int port, uint32_t qpn)
{
	return qpn == IB_QP0 && e->cfg.smp_off ? NULL : ohca_qp_by_wire(e, port, qpn);
}

static bool is_special(uint8_t type)
{
	return type == OHCA_QPT_SMI || type == OHCA_QPT_GSI;
}

/* ---- errors ----------------------------------------------------------------------- */

void ohca_qp_error(ohca_engine *e, struct ohca_qp *qp, enum ohca_event ev, uint32_t vendor_err)
{
	uint8_t old = qp->state;

	/* the flush of a reset or a destruction may find no room in the CQ, which is no error */
	if (old == OHCA_QPS_ERR || old == OHCA_QPS_RESET || qp->going)
		return;
	qp->state = OHCA_QPS_ERR;
	ohca_trace(e, OHCA_TR_QP_STATE, qp->handle, old, qp->state, vendor_err);
	ohca_xp_state(e, qp, old, OHCA_ATTR_STATE);
	if (ev)
		ohca_async_event(e, ev, &qp->async);
	/*
	 * IBTA 11.6.3.3: in ERR the QP takes no more WQEs from its SRQ, and it has copied those
	 * that it took
	 */
	if (qp->srq || qp->xrcd)
		ohca_async_event(e, OHCA_EVENT_LAST_WQE, &qp->async);
}

void ohca_qp_sqe(ohca_engine *e, struct ohca_qp *qp, uint32_t vendor_err)
{
	uint8_t old = qp->state;

	if (ohca_qp_reliable(qp) || old != OHCA_QPS_RTS)
		return;
	qp->state = OHCA_QPS_SQE;
	ohca_trace(e, OHCA_TR_QP_STATE, qp->handle, old, qp->state, vendor_err);
	ohca_xp_state(e, qp, old, OHCA_ATTR_STATE);
}

/* ---- create ----------------------------------------------------------------------- */

static bool type_known(const ohca_engine *e, uint8_t type)
{
	if (type == OHCA_QPT_XRC_INI || type == OHCA_QPT_XRC_TGT)
		return ohca_feature(e, OHCA_FEATURE_XRC);
	return type <= OHCA_QPT_UD;
}

/* An XRC_TGT QP has an XRC domain and nothing else. */
static int check_target(struct ohca_cmd *c)
{
	const struct ohca_cmd_create_qp *cmd = &c->aqe.create_qp;

	if (cmd->flags != OHCA_QP_NO_RQ)
		return OHCA_BAD(c, create_qp.flags);
	if (cmd->port)
		return OHCA_BAD(c, create_qp.port);
	if (cmd->reserved)
		return OHCA_BAD(c, create_qp.reserved);
	if (cmd->pl.root || cmd->pl.npages || cmd->pl.page_shift || cmd->pl.levels ||
	    cmd->pl.reserved)
		return OHCA_BAD(c, create_qp.pl);
	if (cmd->pdn)
		return OHCA_BAD(c, create_qp.pdn);
	if (cmd->uar)
		return OHCA_BAD(c, create_qp.uar);
	if (cmd->send_cqn)
		return OHCA_BAD(c, create_qp.send_cqn);
	if (cmd->recv_cqn)
		return OHCA_BAD(c, create_qp.recv_cqn);
	if (cmd->log_sq)
		return OHCA_BAD(c, create_qp.log_sq);
	if (cmd->log_rq)
		return OHCA_BAD(c, create_qp.log_rq);
	if (cmd->log_rq_stride)
		return OHCA_BAD(c, create_qp.log_rq_stride);
	return OHCA_ADMIN_OK;
}

static int check_create(struct ohca_cmd *c)
{
	const struct ohca_cmd_create_qp *cmd = &c->aqe.create_qp;
	bool has_rq = !(cmd->flags & (OHCA_QP_SRQ | OHCA_QP_NO_RQ));

	if (!type_known(c->e, cmd->type))
		return OHCA_BAD(c, create_qp.type);
	if (cmd->type == OHCA_QPT_XRC_TGT)
		return check_target(c);
	if (is_special(cmd->type) ? cmd->port < 1 || cmd->port > c->e->cfg.num_ports : cmd->port)
		return OHCA_BAD(c, create_qp.port);
	if (cmd->flags & ~(OHCA_QP_SIGNAL_ALL | OHCA_QP_SRQ | OHCA_QP_PRIVILEGED |
			   OHCA_QP_BLOCK_LOOPBACK | OHCA_QP_NO_RQ))
		return OHCA_BAD(c, create_qp.flags);
	if ((is_special(cmd->type) && (cmd->flags & OHCA_QP_SRQ)) ||
	    (cmd->flags & OHCA_QP_SRQ && cmd->flags & OHCA_QP_NO_RQ) ||
	    (cmd->type == OHCA_QPT_XRC_INI && !(cmd->flags & OHCA_QP_NO_RQ)))
		return OHCA_BAD(c, create_qp.flags);
	if (cmd->log_sq > OHCA_LOG_MAX_SQ_BBS)
		return OHCA_BAD(c, create_qp.log_sq);
	if (has_rq && cmd->log_rq > OHCA_LOG_MAX_RQ_WQES)
		return OHCA_BAD(c, create_qp.log_rq);
	if (has_rq && (cmd->log_rq_stride < OHCA_MIN_LOG_RQ_STRIDE ||
		       cmd->log_rq_stride > OHCA_MAX_LOG_RQ_STRIDE))
		return OHCA_BAD(c, create_qp.log_rq_stride);
	if (cmd->reserved)
		return OHCA_BAD(c, create_qp.reserved);
	return OHCA_ADMIN_OK;
}

/* Look up the objects of the QP; they must exist and belong to the same doorbell page. */
static int check_refs(struct ohca_cmd *c, struct ohca_qp *qp)
{
	const struct ohca_cmd_create_qp *cmd = &c->aqe.create_qp;
	ohca_engine *e = c->e;

	if (cmd->type == OHCA_QPT_XRC_TGT) {
		qp->xrcd = ohca_xrcd_get(e, ohca_le32(cmd->srqn));
		return qp->xrcd ? OHCA_ADMIN_OK : OHCA_BAD(c, create_qp.srqn);
	}
	qp->pd = ohca_pd_get(e, ohca_le32(cmd->pdn));
	qp->scq = ohca_cq_get(e, ohca_le32(cmd->send_cqn));
	qp->rcq = cmd->type == OHCA_QPT_XRC_INI ? qp->scq :
						  ohca_cq_get(e, ohca_le32(cmd->recv_cqn));
	qp->uar = ohca_le32(cmd->uar);
	if (!qp->pd)
		return OHCA_BAD(c, create_qp.pdn);
	/* only the kernel may have special QPs and privileged QPs */
	if (qp->uar != qp->pd->uar || (qp->uar && is_special(cmd->type)))
		return OHCA_BAD(c, create_qp.uar);
	if (qp->uar && (cmd->flags & OHCA_QP_PRIVILEGED))
		return OHCA_BAD(c, create_qp.flags);
	if (!qp->scq || qp->scq->uar != qp->uar)
		return OHCA_BAD(c, create_qp.send_cqn);
	if (!qp->rcq || qp->rcq->uar != qp->uar ||
	    (cmd->type == OHCA_QPT_XRC_INI && cmd->recv_cqn))
		return OHCA_BAD(c, create_qp.recv_cqn);
	if (cmd->flags & OHCA_QP_SRQ) {
		/* its PD may differ, but must belong to the same doorbell page */
		qp->srq = ohca_srq_get(e, ohca_le32(cmd->srqn));
		if (!qp->srq || qp->srq->uar != qp->uar || qp->srq->xrcd ||
		    (qp->srq->tm && cmd->type != OHCA_QPT_RC))
			return OHCA_BAD(c, create_qp.srqn);
		if (qp->srq->tm) {
			if (cmd->log_sq)
				return OHCA_BAD(c, create_qp.log_sq);
			qp->rcq = qp->srq->cq;
		}
	} else if (cmd->srqn) {
		return OHCA_BAD(c, create_qp.srqn);
	}
	return OHCA_ADMIN_OK;
}

/* Allocate the handle; that of a special QP is a function of its port. */
static int take_handle(struct ohca_cmd *c, struct ohca_qp *qp)
{
	const struct ohca_cmd_create_qp *cmd = &c->aqe.create_qp;

	if (is_special(cmd->type)) {
		qp->wire_qpn = cmd->type == OHCA_QPT_SMI ? IB_QP0 : IB_QP1;
		qp->handle = 2u * (cmd->port - 1u) + qp->wire_qpn;
		qp->port = cmd->port - 1;
		return c->e->qp[qp->handle] || c->e->special_gone >> qp->handle & 1 ?
		       OHCA_ADMIN_BUSY : OHCA_ADMIN_OK;
	}
	qp->handle = ohca_ids_get(&c->e->qp_ids);
	qp->wire_qpn = qp->handle;
	return qp->handle == OHCA_NO_ID ? OHCA_ADMIN_NO_RESOURCE : OHCA_ADMIN_OK;
}

static void put_handle(ohca_engine *e, const struct ohca_qp *qp)
{
	if (qp->handle >= OHCA_FIRST_QP)
		ohca_ids_put(&e->qp_ids, qp->handle);
	else
		e->special_gone &= (uint8_t)~(1u << qp->handle);
}

/* Take references to the objects of the QP. */
static void refer(struct ohca_qp *qp)
{
	ohca_list_init(&qp->target);
	if (qp->xrcd) {
		qp->xrcd->refs++;
		ohca_list_add_tail(&qp->xrcd->targets, &qp->target);
		return;
	}
	qp->pd->refs++;
	qp->scq->refs++;
	qp->rcq->refs++;
	if (qp->srq)
		qp->srq->refs++;
}

static void forget(struct ohca_qp *qp)
{
	if (qp->xrcd) {
		ohca_list_del(&qp->target);
		qp->xrcd->refs--;
		return;
	}
	qp->pd->refs--;
	qp->scq->refs--;
	qp->rcq->refs--;
	if (qp->srq)
		qp->srq->refs--;
}

/*
 * The transport's part follows the object in memory, so a lookup of the QP also yields its address.
 */
static size_t qp_bytes(void)
{
	return sizeof(struct ohca_qp) + ohca_xp_bytes();
}

int ohca_cmd_create_qp(struct ohca_cmd *c)
{
	const struct ohca_cmd_create_qp *cmd = &c->aqe.create_qp;
	ohca_engine *e = c->e;
	bool has_rq = !(cmd->flags & (OHCA_QP_SRQ | OHCA_QP_NO_RQ));
	struct ohca_qp *qp;
	int rc = check_create(c);

	if (rc)
		return rc;
	qp = ohca_mem_get_lines(e, qp_bytes());
	if (!qp)
		return OHCA_ADMIN_NO_RESOURCE;
	rc = check_refs(c, qp);
	if (rc)
		goto err_free;
	if (!qp->xrcd)
		rc = OHCA_CMD_PAGES(c, &qp->buf, create_qp.pl,
				    ohca_qp_buf_size(has_rq, cmd->log_rq, cmd->log_rq_stride,
						     cmd->log_sq), OHCA_MAX_QUEUE_PAGES);
	if (rc)
		goto err_free;
	rc = take_handle(c, qp);
	if (rc)
		goto err_pages;
	ohca_list_init(&qp->windows);
	qp->type = cmd->type;
	qp->flags = cmd->flags;
	qp->log_sq = cmd->log_sq;
	qp->log_rq = has_rq ? cmd->log_rq : 0;
	qp->log_rq_stride = has_rq ? cmd->log_rq_stride : OHCA_MIN_LOG_RQ_STRIDE;
	qp->rq_off = OHCA_RQ_RING_OFFSET;
	qp->sq_off = ohca_sq_offset(has_rq, cmd->log_rq, cmd->log_rq_stride);
	if (ohca_xp_create(e, qp)) {
		rc = OHCA_ADMIN_NO_RESOURCE;
		goto err_handle;
	}
	refer(qp);
	ohca_async_init(&qp->async, qp->handle, 0);
	e->qp[qp->handle] = qp;
	/* a target has no doorbell */
	if (!qp->xrcd)
		ohca_db_own(e, OHCA_DB_QP, qp->handle, qp->uar);
	ohca_cmd_result(c, qp->handle);
	return OHCA_ADMIN_OK;

err_handle:
	put_handle(e, qp);
err_pages:
	ohca_pages_free(e, &qp->buf);
err_free:
	ohca_mem_put(e, qp, qp_bytes());
	return rc;
}

/* ---- destroy and query ------------------------------------------------------------ */

static void qp_release(ohca_engine *e, struct ohca_async *a)
{
	struct ohca_qp *qp = ohca_container_of(a, struct ohca_qp, async);

	put_handle(e, qp);
	ohca_mem_put(e, qp, qp_bytes());
}

void ohca_qp_free(ohca_engine *e, struct ohca_qp *qp)
{
	ohca_db_disown(e, OHCA_DB_QP, qp->handle);
	ohca_xp_destroy(e, qp);
	ohca_mig_forget(e, qp);
	ohca_counters_unbind(qp);
	e->qp[qp->handle] = NULL;
	if (qp->handle < OHCA_FIRST_QP)
		e->special_gone |= (uint8_t)(1u << qp->handle);
	forget(qp);
	ohca_pages_free(e, &qp->buf);
	ohca_async_release(e, &qp->async, qp_release);
}

int ohca_cmd_destroy_qp(struct ohca_cmd *c)
{
	struct ohca_qp *qp = ohca_qp_get(c->e, ohca_le32(c->aqe.handle.handle));

	if (!qp)
		return OHCA_ADMIN_BAD_HANDLE;
	if (qp->mcast_refs)
		return OHCA_ADMIN_BUSY;
	/* so that it binds no more windows and uses no more tags between two steps */
	qp->going = true;
	ohca_xp_last_words(c->e, qp);
	if (!ohca_mw_forget(c->e, qp) || !ohca_xp_tags_flush(c->e, qp))
		return OHCA_CMD_MORE;
	ohca_qp_free(c->e, qp);
	return OHCA_ADMIN_OK;
}

int ohca_cmd_query_qp(struct ohca_cmd *c)
{
	const struct ohca_qp *qp = ohca_qp_get(c->e, ohca_le32(c->aqe.handle.handle));
	struct ohca_hw_qp_attr a = { 0 };
	uint32_t sq_psn = 0, rq_psn = 0;
	bool draining = false;

	if (!qp)
		return OHCA_ADMIN_BAD_HANDLE;
	if (c->aqe.handle.reserved)
		return OHCA_BAD(c, handle.reserved);
	ohca_xp_query(c->e, qp, &sq_psn, &rq_psn, &draining);
	a.state = qp->state;
	a.cur_state = qp->state;
	a.path_mtu = qp->path_mtu;
	a.path_mig_state = qp->mig_state;
	a.qkey = ohca_to_le32(qp->qkey);
	a.rq_psn = ohca_to_le32(rq_psn & IB_PSN_MASK);
	a.sq_psn = ohca_to_le32(sq_psn & IB_PSN_MASK);
	a.dest_qpn = ohca_to_le32(qp->dest_qpn);
	a.access = ohca_to_le32(qp->access);
	a.pkey_index = ohca_to_le16(qp->pkey_index);
	a.en_sqd_notify = qp->en_sqd_notify;
	a.sq_draining = draining;
	a.max_rd_atomic = qp->max_rd_atomic;
	a.max_dest_rd_atomic = qp->max_dest_rd_atomic;
	a.min_rnr_timer = qp->min_rnr_timer;
	a.port = is_special(qp->type) || qp->state != OHCA_QPS_RESET ? qp->port + 1 : 0;
	a.timeout = qp->timeout;
	a.retry_cnt = qp->retry_cnt;
	a.rnr_retry = qp->rnr_retry;
	a.av = qp->av;
	if (qp->alt) {
		a.alt_av = qp->alt->av;
		a.alt_pkey_index = ohca_to_le16(qp->alt->pkey_index);
		a.alt_timeout = qp->alt->timeout;
	}
	return ohca_cmd_mbox_write(c, OHCA_AT(handle.addr), 0, &a, sizeof(a));
}
