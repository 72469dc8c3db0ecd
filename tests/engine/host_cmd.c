/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The driver of the test host: admin queue, queues, work requests. See host.h. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/features.h"
#include "host.h"
#include "ib/cc_agent.h"
#include "host_priv.h"

#define CMD_TURNS	10000u	/* the longest page list needs 8192 */
#define AQ_LOG		4u
#define AQ_MASK		((1u << AQ_LOG) - 1)

static void must(struct host *h, int status, const char *what)
{
	char msg[128];

	if (status == OHCA_ADMIN_OK)
		return;
	snprintf(msg, sizeof(msg), "%s: status %d, syndrome %#x", what, status, h->syndrome);
	host_die(msg);
}

/* ---- registers ---- */

static uint64_t reg_read(struct host *h, uint32_t off, unsigned int size)
{
	if (h->seat && h->seat->read)
		return h->seat->read(h->seat->arg, off, size);
	return ohca_mmio_read(h->e, off, size);
}

static void reg_write(struct host *h, uint32_t off, uint64_t val, unsigned int size)
{
	if (h->seat && h->seat->write)
		h->seat->write(h->seat->arg, off, val, size);
	else
		ohca_mmio_write(h->e, off, val, size);
}

static void ring(struct host *h, uint32_t uar, uint32_t off, uint64_t val)
{
	if (h->seat && h->seat->ring)
		h->seat->ring(h->seat->arg, uar, off, val);
	else
		ohca_doorbell(h->e, uar, off, val, 8);
}

/* ---- admin queue ---- */

int host_cmd(struct host *h, uint8_t opcode, struct ohca_hw_aqe *cmd, struct ohca_hw_acqe *rsp)
{
	uint32_t idx = h->aq_pi++;
	volatile struct ohca_hw_acqe *acqe;
	struct ohca_hw_acqe copy;

	cmd->hdr.opcode = opcode;
	cmd->hdr.cookie = 0xc0de0000 + idx;
	memcpy((uint8_t *)host_ptr(h, h->aq) + (idx & AQ_MASK) * 64, cmd, sizeof(*cmd));
	reg_write(h, OHCA_REG_AQ_DB, h->aq_pi, 4);
	acqe = (struct ohca_hw_acqe *)host_ptr(h, h->acq) + (idx & AQ_MASK);
	for (unsigned int i = 0; (acqe->phase & 1) == (idx >> AQ_LOG & 1); i++) {
		if (i == CMD_TURNS)
			host_die("command without completion");
		host_poll(h, 64);
	}
	memcpy(&copy, (const void *)(uintptr_t)acqe, sizeof(copy));
	if (copy.cookie != cmd->hdr.cookie || copy.opcode != opcode)
		host_die("completion of another command");
	h->syndrome = copy.syndrome;
	if (rsp)
		*rsp = copy;
	return copy.status;
}

int host_cmd_handle(struct host *h, uint8_t opcode, uint32_t handle, uint64_t mbox)
{
	struct ohca_hw_aqe c = HOST_AQE(handle, .handle = handle, .addr = mbox);

	return host_cmd(h, opcode, &c, NULL);
}

void host_enable(struct host *h, uint64_t features)
{
	h->aq = host_pages(h, 1);
	h->acq = host_pages(h, 1);
	h->mbox[0] = host_pages(h, 1);
	h->mbox[1] = host_pages(h, 1);
	h->aq_pi = 0;
	reg_write(h, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
	if (reg_read(h, OHCA_REG_STATUS, 4) != OHCA_STATUS_READY)
		host_die("not ready after reset");
	reg_write(h, OHCA_REG_PAGE_SHIFT, h->page_shift ? h->page_shift : 12, 4);
	reg_write(h, OHCA_REG_FEATURES_ACK,
		  features & ~(1ull << OHCA_FEATURE_BIG_ENDIAN) & reg_read(h, OHCA_REG_FEATURES, 8),
		  8);
	reg_write(h, OHCA_REG_AQ_BASE, h->aq, 8);
	reg_write(h, OHCA_REG_ACQ_BASE, h->acq, 8);
	reg_write(h, OHCA_REG_AQ_LOG_SIZE, AQ_LOG, 4);
	reg_write(h, OHCA_REG_CTRL, OHCA_CTRL_ENABLE, 4);
	if (!(reg_read(h, OHCA_REG_STATUS, 4) & OHCA_STATUS_ENABLED))
		host_die("not enabled");
}

void host_start(struct host *h)
{
	host_start_with(h, ~0ull);
}

void host_start_with(struct host *h, uint64_t features)
{
	host_enable(h, features);
	host_eq_create(h, &h->async, 8, true, 0);
	host_eq_create(h, &h->comp, 8, false, 1);
	host_eq_db(h, &h->async, true);
	host_eq_db(h, &h->comp, true);
	h->pdn = host_pd(h, 0);
}

uint32_t host_pd(struct host *h, uint32_t uar)
{
	struct ohca_hw_aqe c = HOST_AQE(alloc_pd, .uar = uar);
	struct ohca_hw_acqe r;

	must(h, host_cmd(h, OHCA_CMD_ALLOC_PD, &c, &r), "ALLOC_PD");
	return r.handle.handle;
}

/* ---- events ---- */

void host_eq_create(struct host *h, struct host_eq *eq, uint8_t log, uint8_t kind, uint16_t vec)
{
	struct ohca_hw_aqe c = HOST_AQE(create_eq, .log_size = log, .kind = kind,
						.vector = vec);
	uint32_t n = ((32u << log) + HOST_PAGE - 1) / HOST_PAGE;
	struct ohca_hw_acqe r;

	eq->ring = host_pages(h, n);
	eq->log = log;
	eq->ci = 0;
	c.create_eq.pl.root = eq->ring;
	c.create_eq.pl.npages = n;
	c.create_eq.pl.page_shift = 12;
	must(h, host_cmd(h, OHCA_CMD_CREATE_EQ, &c, &r), "CREATE_EQ");
	eq->eqn = r.handle.handle;
}

bool host_eq_poll(struct host *h, struct host_eq *eq, struct ohca_hw_eqe *out)
{
	struct ohca_hw_eqe *eqe = (struct ohca_hw_eqe *)host_ptr(h, eq->ring) +
				  (eq->ci & ((1u << eq->log) - 1));

	if ((eqe->phase & 1) == (eq->ci >> eq->log & 1))
		return false;
	*out = *eqe;
	eq->ci++;
	return true;
}

void host_eq_db(struct host *h, struct host_eq *eq, bool arm)
{
	ring(h, 0, OHCA_UAR_EQ, eq->eqn | (arm ? OHCA_EQ_DB_ARM : 0) | (uint64_t)eq->ci << 32);
}

/* ---- completion queues ---- */

void host_cq_create_flags(struct host *h, struct host_cq *cq, uint8_t log, uint32_t uar,
			  uint8_t flags)
{
	struct ohca_hw_aqe c = HOST_AQE(create_cq, .uar = uar, .eqn = h->comp.eqn,
						.log_size = log, .flags = flags);
	struct ohca_hw_acqe r;

	memset(cq, 0, sizeof(*cq));
	cq->h = h;
	cq->log = log;
	cq->uar = uar;
	host_buf_alloc(h, &cq->buf, ohca_cq_buf_size(log));
	c.create_cq.pl = cq->buf.pl;
	must(h, host_cmd(h, OHCA_CMD_CREATE_CQ, &c, &r), "CREATE_CQ");
	cq->cqn = r.handle.handle;
}

void host_cq_create(struct host *h, struct host_cq *cq, uint8_t log, uint32_t uar)
{
	host_cq_create_flags(h, cq, log, uar,
			     ohca_feature(h->e, OHCA_FEATURE_TIMESTAMP) ? OHCA_CQ_TIMESTAMP : 0);
}

void host_cq_destroy(struct host_cq *cq)
{
	must(cq->h, host_cmd_handle(cq->h, OHCA_CMD_DESTROY_CQ, cq->cqn, 0), "DESTROY_CQ");
	host_buf_free(&cq->buf);
}

bool host_cq_poll(struct host_cq *cq, struct ohca_hw_cqe *out)
{
	uint64_t slot = cq->ci & ((1u << cq->log) - 1);
	struct ohca_hw_cqe *cqe = host_buf_ptr(cq->h, &cq->buf, OHCA_CQ_RING_OFFSET + slot * 64);
	struct ohca_hw_db *db = host_buf_ptr(cq->h, &cq->buf, 0);

	if (!ohca_cqe_valid(cqe->owner, cq->ci, cq->log))
		return false;
	*out = *cqe;
	db->cq_ci = ++cq->ci;
	return true;
}

void host_cq_arm(struct host_cq *cq, bool solicited)
{
	ring(cq->h, cq->uar, OHCA_UAR_CQ_ARM, cq->cqn |
	     (solicited ? OHCA_CQ_ARM_SOLICITED : 0) |
	     OHCA_FIELD_PREP(OHCA_CQ_ARM_SN, (uint64_t)cq->sn) |
	     OHCA_FIELD_PREP(OHCA_CQ_ARM_CI, (uint64_t)cq->ci));
}

/* ---- receive queues ---- */

static void put_rwqe(struct host *h, const struct host_buf *b, uint64_t off, uint64_t wr_id,
		     const struct ohca_hw_sge *sge, unsigned int n)
{
	struct ohca_hw_rwqe_ctrl ctrl = { .wr_id = wr_id, .num_sge = (uint8_t)n };

	host_buf_write(h, b, off, &ctrl, sizeof(ctrl));
	host_buf_write(h, b, off + sizeof(ctrl), sge, n * sizeof(*sge));
}

static int srq_create(struct host *h, struct host_srq *srq, struct ohca_hw_aqe *c)
{
	struct ohca_hw_acqe r;
	int rc;

	memset(srq, 0, sizeof(*srq));
	srq->h = h;
	srq->uar = c->create_srq.uar;
	srq->log = c->create_srq.log_size;
	srq->log_stride = c->create_srq.log_stride = 7;
	srq->log_ops = c->create_srq.log_ops;
	srq->tm = c->create_srq.num_tags != 0;
	host_buf_alloc(h, &srq->buf, ohca_srq_buf_size(srq->log, 7) +
		       (srq->tm ? ohca_tm_ring_size(srq->log_ops) : 0));
	c->create_srq.pl = srq->buf.pl;
	rc = host_cmd(h, OHCA_CMD_CREATE_SRQ, c, &r);
	if (rc)
		host_buf_free(&srq->buf);
	srq->srqn = r.handle.handle;
	return rc;
}

void host_srq_create(struct host *h, struct host_srq *srq, uint8_t log, uint32_t pdn,
		     uint32_t uar, uint32_t limit)
{
	struct ohca_hw_aqe c = HOST_AQE(create_srq, .pdn = pdn, .uar = uar, .limit = limit,
						 .log_size = log);

	must(h, srq_create(h, srq, &c), "CREATE_SRQ");
}

uint32_t host_xrcd(struct host *h)
{
	struct ohca_hw_aqe c = { 0 };
	struct ohca_hw_acqe r;

	must(h, host_cmd(h, OHCA_CMD_ALLOC_XRCD, &c, &r), "ALLOC_XRCD");
	return r.handle.handle;
}

int host_xrc_srq_create(struct host *h, struct host_srq *srq, uint8_t log, uint32_t pdn,
			uint32_t xrcdn, const struct host_cq *cq)
{
	struct ohca_hw_aqe c = HOST_AQE(create_srq, .pdn = pdn, .uar = cq->uar, .log_size = log,
						 .type = OHCA_SRQT_XRC, .xrcdn = xrcdn,
						 .cqn = cq->cqn);

	return srq_create(h, srq, &c);
}

int host_tm_srq_create(struct host *h, struct host_srq *srq, uint8_t log, uint32_t pdn,
		       uint16_t tags, uint8_t log_ops, const struct host_cq *cq)
{
	struct ohca_hw_aqe c = HOST_AQE(create_srq, .pdn = pdn, .uar = cq->uar, .log_size = log,
						 .type = OHCA_SRQT_TM, .cqn = cq->cqn,
						 .log_ops = log_ops, .num_tags = tags);

	return srq_create(h, srq, &c);
}

static uint64_t tm_slot(const struct host_srq *srq, uint32_t i)
{
	return ohca_tm_ring_offset(srq->log, srq->log_stride) +
	       ((uint64_t)(i & ((1u << srq->log_ops) - 1)) << OHCA_TM_WQE_SHIFT);
}

void host_tm_op(struct host_srq *srq, const struct ohca_hw_tm_wqe *w)
{
	struct ohca_hw_db *db = host_buf_ptr(srq->h, &srq->buf, 0);

	host_buf_write(srq->h, &srq->buf, tm_slot(srq, srq->op_pi), w, sizeof(*w));
	srq->op_pi++;
	db->sq_pi = srq->op_pi;
	if (ohca_db_needed(db->sq_event, srq->op_pi, srq->op_pi - 1))
		ring(srq->h, srq->uar, OHCA_UAR_SRQ, srq->srqn | (uint64_t)srq->op_pi << 32);
}

uint32_t host_tm_result(struct host_srq *srq, unsigned int back)
{
	struct ohca_hw_tm_wqe w;

	host_buf_read(srq->h, &srq->buf, tm_slot(srq, srq->op_pi - 1 - back), &w, sizeof(w));
	return w.result;
}

void host_srq_post(struct host_srq *srq, uint64_t wr_id, const struct ohca_hw_sge *sge,
		   unsigned int n)
{
	struct ohca_hw_db *db = host_buf_ptr(srq->h, &srq->buf, 0);
	uint64_t slot = srq->pi & ((1u << srq->log) - 1);

	put_rwqe(srq->h, &srq->buf, OHCA_RQ_RING_OFFSET + (slot << srq->log_stride), wr_id, sge,
		 n);
	srq->pi++;
	db->rq_pi = srq->pi;
	if (ohca_db_needed(db->rq_event, srq->pi, srq->pi - 1))
		ring(srq->h, srq->uar, OHCA_UAR_SRQ, srq->srqn | (uint64_t)srq->pi << 32);
}

/* Returns a buffer to move to, with the contents that the last queue left there. */
static struct host_buf *spare_buf(struct host *h, uint64_t bytes)
{
	if ((uint64_t)h->spare.npages * HOST_PAGE < bytes) {
		host_buf_free(&h->spare);
		host_buf_alloc(h, &h->spare, bytes);
	}
	return &h->spare;
}

/* The queue has moved from @buf to the spare buffer, and they change roles. */
static void moved(struct host *h, struct host_buf *buf)
{
	struct host_buf old = *buf;

	/* the old record must contain nothing that could be valid */
	memset(host_buf_ptr(h, &old, 0), 0xff, sizeof(struct ohca_hw_db));
	*buf = h->spare;
	h->spare = old;
}

int host_srq_resize(struct host_srq *srq, uint8_t log, uint8_t flags, uint32_t limit,
		    uint32_t *pi)
{
	struct ohca_hw_aqe c = HOST_AQE(resize_srq, .srqn = srq->srqn, .log_size = log,
						 .flags = flags, .limit = limit);
	uint64_t bytes = ohca_srq_buf_size(log, srq->log_stride) +
			 (srq->tm ? ohca_tm_ring_size(srq->log_ops) : 0);
	struct ohca_hw_acqe r;
	int rc;

	c.resize_srq.pl = spare_buf(srq->h, bytes)->pl;
	rc = host_cmd(srq->h, OHCA_CMD_RESIZE_SRQ, &c, &r);
	if (rc)
		return rc;
	moved(srq->h, &srq->buf);
	srq->log = log;
	*pi = r.handle.handle;
	return 0;
}

int host_qp_resize(struct host_qp *qp, uint8_t log_sq, uint8_t log_rq,
		   struct ohca_resp_resize_qp *pi)
{
	struct ohca_hw_aqe c = HOST_AQE(resize_qp, .handle = qp->handle, .log_sq = log_sq,
						.log_rq = log_rq);
	struct ohca_hw_acqe r;
	int rc;

	c.resize_qp.pl = spare_buf(qp->h, ohca_qp_buf_size(qp->has_rq, log_rq, qp->log_stride,
							   log_sq))->pl;
	rc = host_cmd(qp->h, OHCA_CMD_RESIZE_QP, &c, &r);
	if (rc)
		return rc;
	moved(qp->h, &qp->buf);
	qp->log_sq = log_sq;
	qp->log_rq = log_rq;
	qp->sq_off = ohca_sq_offset(qp->has_rq, log_rq, qp->log_stride);
	*pi = r.resize_qp;
	return 0;
}

void host_post_recv(struct host_qp *qp, uint64_t wr_id, const struct ohca_hw_sge *sge,
		    unsigned int n)
{
	struct ohca_hw_db *db = host_buf_ptr(qp->h, &qp->buf, 0);
	uint64_t slot = qp->rq_pi & ((1u << qp->log_rq) - 1);

	put_rwqe(qp->h, &qp->buf, OHCA_RQ_RING_OFFSET + (slot << qp->log_stride), wr_id, sge, n);
	qp->rq_pi++;
	db->rq_pi = qp->rq_pi;
	if (ohca_db_needed(db->rq_event, qp->rq_pi, qp->rq_pi - 1))
		ring(qp->h, qp->uar, OHCA_UAR_RQ, qp->handle | (uint64_t)qp->rq_pi << 32);
}

/* ---- queue pairs ---- */

int host_qp_create(struct host *h, struct host_qp *qp, const struct host_qp_init *in)
{
	struct ohca_hw_aqe c = { 0 };
	struct ohca_cmd_create_qp *cmd = &c.create_qp;
	struct ohca_hw_acqe r;
	int rc;

	memset(qp, 0, sizeof(*qp));
	qp->h = h;
	qp->scq = in->scq;
	qp->rcq = in->rcq;
	qp->type = in->type || in->special ? in->type : OHCA_QPT_RC;
	qp->uar = in->uar;
	qp->log_sq = in->no_sq ? 0 : in->log_sq ? in->log_sq : 6;
	qp->log_rq = in->log_rq ? in->log_rq : 4;
	qp->log_stride = in->log_stride ? in->log_stride : 7;
	qp->has_rq = !(in->flags & OHCA_QP_NO_RQ) && !in->srq && qp->type < OHCA_QPT_XRC_INI;
	if (qp->type == OHCA_QPT_XRC_TGT) {
		cmd->type = qp->type;
		cmd->flags = OHCA_QP_NO_RQ;
		cmd->srqn = in->xrcdn;
		rc = host_cmd(h, OHCA_CMD_CREATE_QP, &c, &r);
		qp->handle = qp->qpn = r.handle.handle;
		return rc;
	}
	qp->sq_off = ohca_sq_offset(qp->has_rq, qp->log_rq, qp->log_stride);
	host_buf_alloc(h, &qp->buf, ohca_qp_buf_size(qp->has_rq, qp->log_rq, qp->log_stride,
						     qp->log_sq));
	cmd->pl = qp->buf.pl;
	cmd->pdn = in->pdn ? in->pdn : h->pdn;
	cmd->uar = in->uar;
	cmd->send_cqn = in->scq->cqn;
	cmd->recv_cqn = qp->type == OHCA_QPT_XRC_INI ? 0 : in->rcq->cqn;
	cmd->srqn = in->srq ? in->srq->srqn : 0;
	cmd->type = qp->type;
	cmd->port = in->port;
	cmd->flags = in->flags | (in->srq ? OHCA_QP_SRQ : 0) |
		     (qp->type == OHCA_QPT_XRC_INI ? OHCA_QP_NO_RQ : 0);
	cmd->log_sq = qp->log_sq;
	cmd->log_rq = qp->has_rq ? qp->log_rq : 0;
	cmd->log_rq_stride = qp->has_rq ? qp->log_stride : 0;
	rc = host_cmd(h, OHCA_CMD_CREATE_QP, &c, &r);
	if (rc) {
		host_buf_free(&qp->buf);
		return rc;
	}
	qp->handle = r.handle.handle;
	qp->qpn = qp->type == OHCA_QPT_SMI ? 0 : qp->type == OHCA_QPT_GSI ? 1 : qp->handle;
	return 0;
}

void host_qp_destroy(struct host_qp *qp)
{
	must(qp->h, host_cmd_handle(qp->h, OHCA_CMD_DESTROY_QP, qp->handle, 0), "DESTROY_QP");
	host_buf_free(&qp->buf);
}

int host_qp_modify(struct host_qp *qp, uint32_t mask, const struct ohca_hw_qp_attr *attr)
{
	struct host *h = qp->h;
	struct ohca_hw_aqe c = HOST_AQE(modify_qp, .handle = qp->handle, .attr_mask = mask,
						.addr = h->mbox[0]);
	int rc;

	memcpy(host_ptr(h, h->mbox[0]), attr, sizeof(*attr));
	rc = host_cmd(h, OHCA_CMD_MODIFY_QP, &c, NULL);
	if (rc == 0 && (mask & OHCA_ATTR_STATE) && attr->state == OHCA_QPS_RESET) {
		qp->sq_pi = qp->rq_pi = 0;
		if (qp->buf.npages)
			memset(host_buf_ptr(h, &qp->buf, 0), 0, sizeof(struct ohca_hw_db));
	}
	return rc;
}

int host_qp_query(struct host_qp *qp, struct ohca_hw_qp_attr *attr)
{
	int rc = host_cmd_handle(qp->h, OHCA_CMD_QUERY_QP, qp->handle, qp->h->mbox[0]);

	memcpy(attr, host_ptr(qp->h, qp->h->mbox[0]), sizeof(*attr));
	return rc;
}

/* Moves to the next state, unless an earlier step was refused; the first refusal stays. */
static void step(struct host_qp *qp, struct ohca_hw_qp_attr *a, uint8_t state, uint32_t mask,
		 int *status)
{
	a->state = state;
	if (*status == OHCA_ADMIN_OK)
		*status = host_qp_modify(qp, OHCA_ATTR_STATE | mask, a);
}

int host_qp_try_connect(struct host_qp *qp, unsigned int port, uint16_t lid, uint32_t dqpn,
			uint8_t mtu, uint32_t sq_psn, uint32_t rq_psn)
{
	struct ohca_hw_qp_attr a = {
		.port = (uint8_t)(port + 1),
		.access = OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_READ |
			  OHCA_ACCESS_REMOTE_ATOMIC | OHCA_ACCESS_FLUSH_GLOBAL |
			  OHCA_ACCESS_FLUSH_PERSISTENT,
		.path_mtu = mtu,
		.dest_qpn = dqpn,
		.rq_psn = rq_psn,
		.sq_psn = sq_psn,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,	/* 10 us */
		.timeout = 10,		/* 4 ms */
		.retry_cnt = 7,
		.rnr_retry = 7,
		.av = { .dlid = lid, .sl = qp->h->sl, .static_rate = qp->h->static_rate },
	};
	const uint32_t resp = OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER;
	const uint32_t req = OHCA_ATTR_TIMEOUT | OHCA_ATTR_RETRY_CNT | OHCA_ATTR_RNR_RETRY |
			     OHCA_ATTR_MAX_RD_ATOMIC;
	int status = OHCA_ADMIN_OK;
	uint32_t rtr = 0, rts = 0;

	if (qp->h->hop_limit) {
		a.av.flags = OHCA_AV_GRH;
		a.av.hop_limit = qp->h->hop_limit;
		memcpy(a.av.dgid, qp->h->dgid, sizeof(a.av.dgid));
	}
	if (qp->type == OHCA_QPT_RC || qp->type == OHCA_QPT_XRC_TGT)
		rtr = resp;
	if (qp->type == OHCA_QPT_RC || qp->type == OHCA_QPT_XRC_INI)
		rts = req;
	else if (qp->type == OHCA_QPT_XRC_TGT)
		rts = OHCA_ATTR_TIMEOUT;
	step(qp, &a, OHCA_QPS_INIT, OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT | OHCA_ATTR_ACCESS,
	     &status);
	step(qp, &a, OHCA_QPS_RTR, OHCA_ATTR_AV | OHCA_ATTR_PATH_MTU | OHCA_ATTR_DEST_QPN |
				   OHCA_ATTR_RQ_PSN | rtr, &status);
	step(qp, &a, OHCA_QPS_RTS, OHCA_ATTR_SQ_PSN | rts, &status);
	return status;
}

int host_qp_try_datagram(struct host_qp *qp, unsigned int port, uint32_t qkey)
{
	struct ohca_hw_qp_attr a = {
		.port = (uint8_t)(port + 1),
		.qkey = qkey,
	};
	int status = OHCA_ADMIN_OK;

	step(qp, &a, OHCA_QPS_INIT, OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT | OHCA_ATTR_QKEY,
	     &status);
	step(qp, &a, OHCA_QPS_RTR, 0, &status);
	step(qp, &a, OHCA_QPS_RTS, OHCA_ATTR_SQ_PSN, &status);
	return status;
}

void host_qp_connect(struct host_qp *qp, unsigned int port, uint16_t lid, uint32_t dqpn,
		     uint8_t mtu, uint32_t sq_psn, uint32_t rq_psn)
{
	must(qp->h, host_qp_try_connect(qp, port, lid, dqpn, mtu, sq_psn, rq_psn),
	     "RESET to RTS");
}

void host_qp_datagram(struct host_qp *qp, unsigned int port, uint32_t qkey)
{
	must(qp->h, host_qp_try_datagram(qp, port, qkey), "RESET to RTS");
}

void host_post_wqe(struct host_qp *qp, const void *wqe, unsigned int nseg)
{
	struct ohca_hw_db *db = host_buf_ptr(qp->h, &qp->buf, 0);
	uint32_t old = qp->sq_pi, mask = (1u << qp->log_sq) - 1;
	const uint8_t *s = wqe;
	size_t left = nseg * OHCA_SEG_SIZE;

	while (left) {
		size_t n = left < OHCA_BB_SIZE ? left : OHCA_BB_SIZE;

		host_buf_write(qp->h, &qp->buf, qp->sq_off +
			       (uint64_t)(qp->sq_pi++ & mask) * OHCA_BB_SIZE, s, n);
		s += n;
		left -= n;
	}
	db->sq_pi = qp->sq_pi;
	/* the engine may be in another thread, which accesses these in the opposite order */
	atomic_thread_fence(memory_order_seq_cst);
	if (ohca_db_needed(db->sq_event, qp->sq_pi, old))
		ring(qp->h, qp->uar, OHCA_UAR_SQ, qp->handle | (uint64_t)qp->sq_pi << 32);
}

/* ---- memory and management ---- */

void host_mr_create(struct host *h, struct host_mr *mr, uint64_t len, uint32_t pdn,
		    uint16_t access)
{
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .length = len, .pdn = pdn, .access = access,
					     .type = OHCA_MR_USER);
	struct ohca_hw_acqe r;

	host_buf_alloc(h, &mr->buf, len);
	mr->iova = access & OHCA_ACCESS_ZERO_BASED ? 0 : 0x7f0000000000ull + mr->buf.page[0];
	mr->len = len;
	c.reg_mr.pl = mr->buf.pl;
	c.reg_mr.iova = mr->iova;
	must(h, host_cmd(h, OHCA_CMD_REG_MR, &c, &r), "REG_MR");
	mr->key = r.handle.handle;
}

int host_mad_ifc(struct host *h, unsigned int port, uint8_t mad[256])
{
	struct ohca_hw_aqe c = HOST_AQE(mad_ifc, .in_addr = h->mbox[0], .out_addr = h->mbox[1],
					      .port = (uint8_t)(port + 1),
					      .flags = OHCA_MAD_IFC_IGNORE_MKEY);
	struct ohca_hw_acqe r;

	memcpy(host_ptr(h, h->mbox[0]), mad, 256);
	must(h, host_cmd(h, OHCA_CMD_MAD_IFC, &c, &r), "MAD_IFC");
	if (r.mad_ifc.verdict == OHCA_MAD_REPLY)
		memcpy(mad, host_ptr(h, h->mbox[1]), 256);
	return r.mad_ifc.verdict;
}

/* A Set of a manager of congestion control, to which the agent answers. */
static void congestion_set(struct host *h, unsigned int port, uint16_t attr, uint32_t mod,
			   const uint8_t data[IB_CC_DATA_LEN])
{
	struct ib_mad m = {
		.hdr = {
			.base_version = 1,
			.mgmt_class = IB_CLASS_CC,
			.class_version = IB_CC_CLASS_VERSION,
			.method = IB_METHOD_SET,
			.attr_id = ib_to_be16(attr),
			.attr_mod = ib_to_be32(mod),
		},
	};

	memcpy((uint8_t *)&m + IB_CC_DATA_OFF, data, IB_CC_DATA_LEN);
	if (host_mad_ifc(h, port, (uint8_t *)&m) != OHCA_MAD_REPLY || ib_be16(m.hdr.status))
		host_die("congestion control refused");
}

void host_congestion(struct host *h, unsigned int port, const struct ib_cc_ca *ca)
{
	uint8_t d[IB_CC_DATA_LEN] = { 0 };

	ib_put_be16(d, ca->port_control);
	ib_put_be16(d + 2, 0xffff);
	for (unsigned int i = 0; i < IB_CC_SLS; i++) {
		uint8_t *sl = d + 4 + 8 * i;

		ib_put_be16(sl, ca->sl[i].ccti_timer);
		sl[2] = ca->sl[i].ccti_increase;
		sl[3] = ca->sl[i].trigger_threshold;
		sl[4] = ca->sl[i].ccti_min;
	}
	congestion_set(h, port, IB_CC_ATTR_CA_SETTING, 0, d);
	for (unsigned int b = 0; b < IB_CCT_BLOCKS; b++) {
		memset(d, 0, sizeof(d));
		ib_put_be16(d, ca->ccti_limit);
		for (unsigned int i = 0; i < IB_CCT_PER_BLOCK; i++)
			ib_put_be16(d + 4 + 2 * i, ca->cct[b * IB_CCT_PER_BLOCK + i]);
		congestion_set(h, port, IB_CC_ATTR_TABLE, b, d);
	}
}

static void port_info(struct host *h, unsigned int port, uint8_t method,
		      struct ib_port_info *pi)
{
	struct ib_smp s = {
		.hdr = {
			.base_version = 1,
			.mgmt_class = IB_CLASS_SUBN_LID,
			.class_version = 1,
			.method = method,
			.attr_id = ib_to_be16(IB_SMP_ATTR_PORT_INFO),
			.attr_mod = ib_to_be32(port + 1),
		},
	};

	if (method == IB_METHOD_SET)
		ib_port_info_pack(pi, s.data);
	if (host_mad_ifc(h, port, (uint8_t *)&s) != OHCA_MAD_REPLY || (ib_be16(s.hdr.status)))
		host_die("PortInfo refused");
	ib_port_info_unpack(s.data, pi);
}

void host_port_set(struct host *h, unsigned int port, uint16_t lid, uint8_t state)
{
	struct ib_port_info pi;

	host_settle(&h, 1);
	port_info(h, port, IB_METHOD_GET, &pi);
	if (pi.state == IB_PS_DOWN)
		host_die("port is down");
	pi.lid = lid;
	pi.sm_lid = 1;
	pi.mkey = 0;
	pi.phys_state = IB_PHYS_NO_CHANGE;
	pi.down_default = 0;
	for (uint8_t s = pi.state; s <= state; s++) {
		pi.state = s <= IB_PS_INIT ? IB_PS_NO_CHANGE : s;
		pi.phys_state = IB_PHYS_NO_CHANGE;
		pi.down_default = 0;
		port_info(h, port, IB_METHOD_SET, &pi);
	}
	if (pi.state != state || pi.lid != lid)
		host_die("port did not come up");
}

struct ohca_hw_sge host_sge(uint64_t addr, uint32_t len, uint32_t key)
{
	return (struct ohca_hw_sge){ .addr = addr, .length = len, .lkey = key };
}

uint64_t host_counter(struct host *h, unsigned int id)
{
	return ohca_counter(h->e, id);
}

void host_pair(struct host *h[2], unsigned int ports)
{
	for (unsigned int i = 0; i < 2; i++) {
		h[i] = host_new(ports, 0x0002c90000000000ull + 0x100 * (i + 1));
		host_start(h[i]);
	}
	for (unsigned int p = 0; p < ports; p++)
		host_connect(h[0], p, h[1], p);
	host_settle(h, 2);
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int p = 0; p < ports; p++)
			host_port_set(h[i], p, (uint16_t)(2 * p + i + 1), IB_PS_ACTIVE);
	host_settle(h, 2);
}
