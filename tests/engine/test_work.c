/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The maximum cost of a poll, whatever a guest does, tested with attacks that could make a poll
 * long. Each attack runs to its end, and none of its polls exceeds the bound (host_poll() checks
 * that). host_attack() prints the longest poll of each.
 */
#include <stdlib.h>

#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/cq.h"
#include "engine/object/eq.h"
#include "engine/object/mr.h"
#include "engine/object/srq.h"
#include "engine/object/tm.h"
#include "engine/transport/sched.h"
#include "engine/transport/tagged.h"
#include "attack.h"

#define MEM		(192u << 20)
#define DM		(16u << 20)
/* Maximum cost of a poll that only executes commands, or only serves doorbells. */
#define ONLY_COMMANDS	(OHCA_CMD_WORK + OHCA_WORK_ONE)
#define ONLY_DOORBELLS	(OHCA_WORK_DOORBELLS + OHCA_WORK_ONE)

static struct host *machine(void)
{
	struct ohca_cfg cfg = {
		.node_guid = 0x10, .num_ports = 1, .vl_cap = 1, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .num_vectors = HOST_VECTORS, .num_uars = HOST_UARS,
		.log_max_qp = 14, .log_max_cq = 14, .log_max_srq = 8, .log_max_mr = 14,
		.dm_size = DM,
	};
	struct host *h = host_new_cfg(&cfg, MEM);

	host_start(h);
	return h;
}

/* Puts a command into the queue, and rings. */
static void queue(struct host *h, uint8_t opcode, struct ohca_hw_aqe c)
{
	c.hdr.opcode = opcode;
	c.hdr.cookie = ohca_to_le32(h->aq_pi);
	memcpy((uint8_t *)host_ptr(h, h->aq) + h->aq_pi % 16 * 64, &c, sizeof(c));
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, ++h->aq_pi, 4);
}

/* ---- doorbells ----------------------------------------------------------------------- */

/* Many SRQs with full rings of list operations are rung at once, and one of them stays full. */
static void test_tag_lists(void **state)
{
	enum { SRQS = 64, LOG_OPS = 12 };
	struct host *h = machine();
	struct host_srq srq[SRQS];
	struct host_cq cq;

	(void)state;
	host_cq_create(h, &cq, 4, 0);
	for (unsigned int i = 0; i < SRQS; i++) {
		struct ohca_hw_tm_wqe w = { .opcode = OHCA_TM_SYNC };

		assert_int_equal(host_tm_srq_create(h, &srq[i], 4, h->pdn, 1, LOG_OPS, &cq), 0);
		for (unsigned int k = 0; k < 1u << LOG_OPS; k++)
			host_tm_op(&srq[i], &w);
	}
	begin(h);
	for (unsigned int n = 0, left = SRQS; left; n++) {
		struct ohca_hw_db *evil = host_buf_ptr(h, &srq[0].buf, 0);

		assert_true(n < 10000);
		evil->sq_pi = evil->sq_ci + (1u << LOG_OPS);
		host_poll(h, BUDGET);
		assert_true(h->most.work <= ONLY_DOORBELLS);
		left = 0;
		for (unsigned int i = 1; i < SRQS; i++)
			left += ((struct ohca_hw_db *)host_buf_ptr(h, &srq[i].buf, 0))->sq_ci !=
				1u << LOG_OPS;
	}
	host_attack(h, "64 full rings of list operations", ONLY_DOORBELLS);
	for (unsigned int i = 0; i < SRQS; i++)
		host_buf_free(&srq[i].buf);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* All numbers are rung at once: each is served, the last ones in later polls. */
static void test_doorbells(void **state)
{
	enum { CQS = 2048 };
	struct host *h = machine();
	struct host_cq *cq = calloc(CQS, sizeof(*cq));
	unsigned int n = 0;

	(void)state;
	for (unsigned int i = 0; i < CQS; i++)
		host_cq_create(h, &cq[i], 0, 0);
	for (unsigned int i = 0; i < CQS; i++)
		host_cq_arm(&cq[i], false);
	begin(h);
	while (host_poll(h, BUDGET)) {
		assert_true(h->most.work <= ONLY_DOORBELLS);
		assert_true(++n < 100);
	}
	assert_true(n >= CQS * OHCA_WORK_STEP / OHCA_WORK_DOORBELLS - 1);
	for (unsigned int i = 0; i < CQS; i++)
		assert_true(h->e->cq[cq[i].cqn]->armed);
	host_attack(h, "all CQs armed", ONLY_DOORBELLS);
	for (unsigned int i = 0; i < CQS; i++)
		host_buf_free(&cq[i].buf);
	free(cq);
	host_free(h);
}

/* An SRQ with tags is resized: its ring of list operations moves in steps, too. */
static void test_tm_resize(void **state)
{
	enum { LOG_OPS = 12, OPS = 1u << LOG_OPS };
	struct ohca_hw_tm_wqe w = { .opcode = OHCA_TM_SYNC, .flags = OHCA_TM_SIGNALED };
	struct host *h = machine();
	struct ohca_hw_cqe e;
	struct host_srq srq;
	struct host_cq cq;
	uint32_t pi;

	(void)state;
	host_cq_create(h, &cq, LOG_OPS + 1, 0);
	assert_int_equal(host_tm_srq_create(h, &srq, 4, h->pdn, 1, LOG_OPS, &cq), 0);
	work_off(h);
	for (unsigned int i = 0; i < OPS; i++) {
		w.wr_id = i;
		host_tm_op(&srq, &w);
	}
	begin(h);
	assert_int_equal(host_srq_resize(&srq, 5, 0, 0, &pi), 0);
	work_off(h);
	host_attack(h, "an SRQ with 4096 list operations is resized",
		    ONLY_COMMANDS + OHCA_WORK_DOORBELLS);
	for (unsigned int i = 0; i < OPS; i++) {
		assert_true(host_cq_poll(&cq, &e));
		assert_int_equal(e.wr_id, i);
		assert_int_equal(e.status, 0);
		/* also of operations that were executed while the ring moved */
		assert_int_equal(host_tm_result(&srq, i), OHCA_TM_DONE);
	}
	host_buf_free(&srq.buf);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* Pages are removed one by one, by entries without a page, from the deepest table. */
static void test_no_pages(void **state)
{
	enum { N = OHCA_ODP_BATCH - 1 };
	struct host *h = machine();
	struct ohca_hw_acqe rsp;
	struct ohca_hw_aqe c;
	struct host_eq eq;
	uint32_t key;

	(void)state;
	host_eq_create(h, &eq, OHCA_LOG_MAX_FAULTS, OHCA_EQ_FAULT, 2);
	c = HOST_AQE(reg_mr, .pl.page_shift = 12, .length = OHCA_MAX_ODP_SIZE, .pdn = h->pdn,
		     .access = OHCA_ACCESS_LOCAL_WRITE, .type = OHCA_MR_ODP);
	assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), 0);
	key = rsp.handle.handle;
	/* page 0 stays, so that no table is freed */
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t *page = host_ptr(h, h->mbox[0]);

		memset(page, 0, N * sizeof(*page));
		page[0] = i ? 0 : HOST_BASE | OHCA_ODP_READ;
		c = HOST_AQE(update_mr, .first = i, .npages = N, .key = key,
			     .addr = h->mbox[0]);
		begin(h);
		assert_int_equal(host_cmd(h, OHCA_CMD_UPDATE_MR_PAGES, &c, NULL), 0);
		host_attack(h, "511 entries without a page", ONLY_COMMANDS);
	}
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEREG_MR, key, 0), 0);
	host_free(h);
}

/* ---- events -------------------------------------------------------------------------- */

enum { CQS_EV = 2048, LOG_EV = 12 };

/* Many CQs, and an EQ that has room for all of their events. */
static struct host_cq *cqs_up(struct host *h, struct host_eq *eq)
{
	struct host_cq *cq = calloc(CQS_EV, sizeof(*cq));
	uint32_t old = h->comp.eqn;

	host_eq_create(h, eq, LOG_EV, false, 2);
	h->comp.eqn = eq->eqn;
	for (unsigned int i = 0; i < CQS_EV; i++)
		host_cq_create(h, &cq[i], 2, 0);
	h->comp.eqn = old;
	return cq;
}

/* Writes a CQE into each CQ, and arms it. */
static void fill_cqs(struct host *h, struct host_cq *cq, unsigned int num)
{
	for (unsigned int i = 0; i < num; i++)
		host_cq_arm(&cq[i], false);
	work_off(h);
	for (unsigned int i = 0; i < num; i++) {
		struct ohca_hw_cqe e = { .wr_id = i };

		ohca_dma_enter(h->e);
		assert_int_equal(ohca_cq_push(h->e, h->e->cq[cq[i].cqn], &e, false), 0);
		ohca_dma_exit(h->e);
		assert_true(host_cq_poll(&cq[i], &e));
	}
}

static unsigned int take_events(struct host *h, struct host_eq *eq)
{
	struct ohca_hw_eqe e;
	unsigned int n = 0;

	for (; host_eq_poll(h, eq, &e); n++)
		;
	return n;
}

static void cqs_down(struct host *h, struct host_cq *cq)
{
	for (unsigned int i = 0; i < CQS_EV; i++)
		host_buf_free(&cq[i].buf);
	free(cq);
	host_free(h);
}

/*
 * Moderated events: each expires without a search among the others; all at once need several polls.
 */
static void test_moderated(void **state)
{
	const uint64_t one = OHCA_WORK_STEP + 4 * sizeof(struct ohca_hw_eqe);
	struct host *h = machine();
	struct host_eq eq;
	struct host_cq *cq = cqs_up(h, &eq);

	(void)state;
	for (unsigned int at_once = 0; at_once < 2; at_once++) {
		unsigned int told = 0;

		for (unsigned int i = 0; i < CQS_EV; i++) {
			struct ohca_hw_aqe c = HOST_AQE(modify_cq, .cqn = cq[i].cqn, .count = 9,
				.period_us = (uint16_t)(at_once ? 100 : 100 + 7 * i % CQS_EV));

			assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_CQ, &c, NULL), 0);
			cq[i].sn = at_once;
		}
		fill_cqs(h, cq, CQS_EV);
		work_off(h);
		assert_int_equal(take_events(h, &eq), 0);
		*h->now += 99 * 1000;
		while (told < CQS_EV) {
			unsigned int n;

			if (ohca_next_deadline(h->e) > *h->now)
				*h->now = ohca_next_deadline(h->e);
			begin(h);
			host_poll(h, BUDGET);
			n = take_events(h, &eq);
			assert_true(n > 0);
			assert_true(h->most.work <= n * one);
			assert_true(at_once ? n < CQS_EV : n == 1);
			assert_true(h->most.work <= OHCA_WORK_EVENTS + one);
			told += n;
		}
		note(h, at_once ? "2048 moderated events at once" : "2048 moderated events");
		host_eq_db(h, &eq, true);
		assert_int_equal(ohca_next_deadline(h->e), OHCA_NO_DEADLINE);
		work_off(h);
	}
	cqs_down(h, cq);
}

/* The driver returns all EQEs at once, for which thousands of events and numbers wait. */
static void test_given_back(void **state)
{
	struct host *h = machine();
	struct host_eq eq;
	struct host_cq *cq = cqs_up(h, &eq);
	unsigned int n = 0, polls = 0;

	(void)state;
	fill_cqs(h, cq, CQS_EV);
	n = take_events(h, &eq);
	assert_int_equal(n, CQS_EV);
	/* the next ones wait, because the driver has not returned the first ones */
	for (unsigned int i = 0; i < CQS_EV; i++)
		cq[i].sn++;
	fill_cqs(h, cq, CQS_EV);
	work_off(h);
	assert_int_equal(take_events(h, &eq), 0);
	host_eq_db(h, &eq, true);
	begin(h);
	for (n = 0; host_poll(h, BUDGET); polls++)
		n += take_events(h, &eq);
	n += take_events(h, &eq);
	assert_int_equal(n, CQS_EV);
	assert_true(polls >= CQS_EV * OHCA_WORK_STEP / OHCA_WORK_EQS - 1);
	assert_true(h->most.work <= ONLY_DOORBELLS);
	host_attack(h, "2048 deferred events", ONLY_DOORBELLS);
	/* their numbers */
	for (unsigned int i = 0; i < CQS_EV; i++)
		assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_CQ, cq[i].cqn, 0), 0);
	assert_true(h->e->cq_ids.num >= CQS_EV);
	host_eq_db(h, &eq, true);
	begin(h);
	for (polls = 0; host_poll(h, BUDGET); polls++)
		;
	assert_int_equal(h->e->cq_ids.num, 0);
	assert_true(polls >= CQS_EV * OHCA_WORK_STEP / OHCA_WORK_EQS - 1);
	assert_true(h->most.work <= ONLY_DOORBELLS);
	host_attack(h, "numbers of 2048 CQs that have gone", ONLY_DOORBELLS);
	cqs_down(h, cq);
}

/* An EQ is destroyed for which thousands of events and numbers wait. */
static void test_eq_gone(void **state)
{
	enum { CQS = 8192, LOG = 13, LEAST = CQS * OHCA_WORK_STEP };
	struct host *h = machine();
	struct host_cq *cq = calloc(CQS, sizeof(*cq));
	uint32_t old = h->comp.eqn;
	struct host_eq eq;
	uint64_t work;

	(void)state;
	host_eq_create(h, &eq, LOG, false, 2);
	h->comp.eqn = eq.eqn;
	for (unsigned int i = 0; i < CQS; i++)
		host_cq_create(h, &cq[i], 2, 0);
	h->comp.eqn = old;
	fill_cqs(h, cq, CQS);
	/* the asynchronous EQ: it is full, and an event of each CQ waits */
	while (ohca_eq_room(h->e->async_eq))
		ohca_async_event(h->e, OHCA_EVENT_GID_CHANGE, &h->e->port[0].async);
	for (unsigned int i = 0; i < CQS; i++)
		ohca_async_event(h->e, OHCA_EVENT_CQ_ERR, &h->e->cq[cq[i].cqn]->async);
	queue(h, OHCA_CMD_DESTROY_EQ, HOST_AQE(handle, .handle = h->async.eqn));
	begin(h);
	work = h->e->work;
	assert_true(work_off(h) >= 2);
	assert_true(h->e->work - work >= LEAST);
	assert_null(h->e->async_eq);
	for (unsigned int i = 0; i < CQS; i++)
		assert_int_equal(h->e->cq[cq[i].cqn]->async.pending, 0);
	host_attack(h, "8192 events of an EQ that goes", ONLY_COMMANDS);
	/* the completion EQ: the number of each CQ waits until an EQE is read */
	for (unsigned int i = 0; i < CQS; i++)
		assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_CQ, cq[i].cqn, 0), 0);
	assert_true(h->e->cq_ids.num >= CQS);
	queue(h, OHCA_CMD_DESTROY_EQ, HOST_AQE(handle, .handle = eq.eqn));
	begin(h);
	work = h->e->work;
	assert_true(work_off(h) >= 2);
	assert_true(h->e->work - work >= LEAST);
	assert_int_equal(h->e->cq_ids.num, 0);
	assert_null(h->e->eq[eq.eqn]);
	host_attack(h, "8192 numbers of CQs, and their EQ goes", ONLY_COMMANDS);
	for (unsigned int i = 0; i < CQS; i++)
		host_buf_free(&cq[i].buf);
	free(cq);
	host_free(h);
}

/* ---- commands ------------------------------------------------------------------------ */

/* A QP leaves SQE after its process has filled its send queue. */
static void test_sqe(void **state)
{
	enum { LOG = 14 };
	struct host *h = machine();
	struct ohca_hw_qp_attr a = { .state = OHCA_QPS_RTS };
	struct ohca_hw_db *db;
	struct ohca_hw_cqe e;
	struct host_cq cq;
	struct host_qp qp;
	uint32_t pi, flushed = 0;
	bool more;

	(void)state;
	host_cq_create(h, &cq, LOG + 2, 0);
	assert_int_equal(host_qp_create(h, &qp, &(struct host_qp_init){
		.type = OHCA_QPT_UC, .log_sq = LOG, .scq = &cq, .rcq = &cq }), 0);
	host_qp_connect(&qp, 0, 7, 9, 1, 0, 0);
	work_off(h);
	db = host_buf_ptr(h, &qp.buf, 0);
	/* an empty WQE */
	db->sq_pi = 1;
	ohca_doorbell(h->e, 0, OHCA_UAR_SQ, qp.handle, 8);
	work_off(h);
	assert_int_equal(rig_state(&qp), OHCA_QPS_SQE);
	while (host_cq_poll(&cq, &e))
		;
	pi = db->sq_pi = db->sq_ci + (1u << LOG);
	memcpy(host_ptr(h, h->mbox[0]), &a, sizeof(a));
	queue(h, OHCA_CMD_MODIFY_QP, HOST_AQE(modify_qp, .handle = qp.handle,
					      .attr_mask = OHCA_ATTR_STATE, .addr = h->mbox[0]));
	begin(h);
	do {
		uint32_t before = flushed;

		more = host_poll(h, BUDGET);
		while (host_cq_poll(&cq, &e)) {
			assert_int_equal(e.status, WC_WR_FLUSH);
			flushed++;
		}
		assert_true(flushed - before <= BUDGET);
	} while (more);
	assert_int_equal(flushed, 1u << LOG);
	assert_int_equal(db->sq_ci, pi);
	assert_int_equal(rig_state(&qp), OHCA_QPS_RTS);
	note(h, "SQE to RTS with a full queue");
	/* later posts are not flushed, but sent: one fails again */
	db->sq_pi = pi + 1;
	ohca_doorbell(h->e, 0, OHCA_UAR_SQ, qp.handle, 8);
	work_off(h);
	assert_true(host_cq_poll(&cq, &e));
	assert_int_equal(e.status, WC_LOC_QP_OP);
	host_buf_free(&qp.buf);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* A QP is destroyed to which thousands of windows are bound. */
static void test_windows(void **state)
{
	enum { WINDOWS = 8192 };
	struct host *h = machine();
	struct ohca_hw_wqe_reg w = { .length = 8, .access = OHCA_ACCESS_REMOTE_READ };
	struct host_cq cq;
	struct host_qp qp;
	struct host_mr mr;
	uint32_t keys[2] = { 0 };

	(void)state;
	host_cq_create(h, &cq, 4, 0);
	assert_int_equal(host_qp_create(h, &qp, &(struct host_qp_init){
		.type = OHCA_QPT_RC, .scq = &cq, .rcq = &cq }), 0);
	host_mr_create(h, &mr, 4096, h->pdn, OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_MW_BIND);
	w.mr_key = mr.key;
	w.iova = mr.iova;
	for (unsigned int i = 0; i < WINDOWS; i++) {
		struct ohca_hw_aqe c = HOST_AQE(reg_mr, .pdn = h->pdn, .type = OHCA_MR_MW2);
		struct ohca_hw_acqe rsp;

		assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), 0);
		keys[i != 0] = w.key = rsp.handle.handle;
		assert_int_equal(ohca_mw_bind(h->e, h->e->qp[qp.handle], &w), 0);
	}
	queue(h, OHCA_CMD_DESTROY_QP, HOST_AQE(handle, .handle = qp.handle));
	begin(h);
	assert_true(work_off(h) > WINDOWS * OHCA_WORK_STEP / ONLY_COMMANDS);
	assert_true(h->most.work <= ONLY_COMMANDS);
	assert_null(h->e->qp[qp.handle]);
	assert_false(h->e->mr[keys[0] >> 8]->valid);
	assert_false(h->e->mr[keys[1] >> 8]->valid);
	host_attack(h, "8192 windows of a QP that goes", ONLY_COMMANDS);
	host_buf_free(&qp.buf);
	host_buf_free(&cq.buf);
	host_buf_free(&mr.buf);
	host_free(h);
}

/* An SRQ is destroyed that thousands of targets of its domain have used. */
static void test_targets(void **state)
{
	enum { TARGETS = 4096 };
	struct host *h = machine();
	uint32_t xrcdn = host_xrcd(h), handle[TARGETS];
	struct ohca_srq *s;
	struct host_srq srq;
	struct host_cq cq;

	(void)state;
	host_cq_create(h, &cq, 4, 0);
	assert_int_equal(host_xrc_srq_create(h, &srq, 4, h->pdn, xrcdn, &cq), 0);
	s = h->e->srq[srq.srqn];
	for (unsigned int i = 0; i < TARGETS; i++) {
		struct host_qp qp;

		assert_int_equal(host_qp_create(h, &qp, &(struct host_qp_init){
			.type = OHCA_QPT_XRC_TGT, .xrcdn = xrcdn }), 0);
		handle[i] = qp.handle;
		h->e->qp[qp.handle]->srq = s;
		h->e->qp[qp.handle]->rcq = s->cq;
		h->e->qp[qp.handle]->pd = s->pd;
	}
	queue(h, OHCA_CMD_DESTROY_SRQ, HOST_AQE(handle, .handle = srq.srqn));
	begin(h);
	assert_true(work_off(h) > 4);
	assert_true(h->most.work <= ONLY_COMMANDS);
	assert_null(h->e->srq[srq.srqn]);
	for (unsigned int i = 0; i < TARGETS; i++)
		assert_null(h->e->qp[handle[i]]->srq);
	host_attack(h, "4096 targets of an SRQ that goes", ONLY_COMMANDS);
	host_buf_free(&srq.buf);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* A QP is destroyed, or reset, whose messages have used all tags of its SRQ. */
static void test_tags_go(void **state)
{
	enum { TAGS = OHCA_MAX_TAGS, LOG = 11 };
	struct host *h = machine();
	struct host_srq srq;
	struct ohca_hw_cqe e;
	struct host_cq cq;
	struct ohca_tm *tm;

	(void)state;
	host_cq_create(h, &cq, LOG, 0);
	assert_int_equal(host_tm_srq_create(h, &srq, 4, h->pdn, TAGS, 4, &cq), 0);
	tm = h->e->srq[srq.srqn]->tm;
	for (unsigned int destroy = 0; destroy < 2; destroy++) {
		struct ohca_hw_qp_attr a = { .state = OHCA_QPS_RESET };
		uint8_t seen[TAGS] = { 0 };
		struct host_qp qp;

		assert_int_equal(host_qp_create(h, &qp, &(struct host_qp_init){
			.type = OHCA_QPT_RC, .no_sq = true, .scq = &cq, .rcq = &cq,
			.srq = &srq }), 0);
		host_qp_connect(&qp, 0, 7, 9, 1, 0, 0);
		work_off(h);
		for (unsigned int i = 0; i < TAGS; i++) {
			tm->tag[i].state = OHCA_TAG_TAKEN;
			tm->tag[i].wr_id = i;
			ohca_list_add_tail(&h->e->qp[qp.handle]->xp->rndv->list, &tm->tag[i].link);
		}
		memcpy(host_ptr(h, h->mbox[0]), &a, sizeof(a));
		if (destroy)
			queue(h, OHCA_CMD_DESTROY_QP, HOST_AQE(handle, .handle = qp.handle));
		else
			queue(h, OHCA_CMD_MODIFY_QP, HOST_AQE(modify_qp, .handle = qp.handle,
				.attr_mask = OHCA_ATTR_STATE, .addr = h->mbox[0]));
		begin(h);
		host_poll(h, BUDGET);
		/* between two steps a change of the attributes in memory has no effect */
		((struct ohca_hw_qp_attr *)host_ptr(h, h->mbox[0]))->state = OHCA_QPS_ERR;
		assert_int_equal(h->e->qp[qp.handle]->state, OHCA_QPS_RTS);
		work_off(h);
		if (destroy)
			assert_null(h->e->qp[qp.handle]);
		else
			assert_int_equal(h->e->qp[qp.handle]->state, OHCA_QPS_RESET);
		host_attack(h, destroy ? "1024 tags of a QP that goes" :
			    "1024 tags of a QP that is reset", ONLY_COMMANDS);
		for (unsigned int i = 0; i < TAGS; i++) {
			assert_true(host_cq_poll(&cq, &e));
			assert_int_equal(e.status, WC_WR_FLUSH);
			assert_int_equal(seen[e.wr_id]++, 0);
		}
		assert_false(host_cq_poll(&cq, &e));
		/* after a reset it works again */
		if (!destroy) {
			host_qp_connect(&qp, 0, 7, 9, 1, 0, 0);
			assert_int_equal(rig_state(&qp), OHCA_QPS_RTS);
			assert_false(h->e->qp[qp.handle]->going);
			host_qp_destroy(&qp);
		} else {
			host_buf_free(&qp.buf);
		}
	}
	host_buf_free(&srq.buf);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* Device memory in as many pieces as there are pages, and no room after the last one. */
static void test_memory_in_pieces(void **state)
{
	enum { PAGES = DM / 4096 };
	struct host *h = machine();
	uint64_t work, bad;

	(void)state;
	for (unsigned int i = 0; i < PAGES; i++) {
		struct ohca_hw_aqe c = HOST_AQE(alloc_dm, .length = 1);

		assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_DM, &c, NULL), 0);
	}
	bad = host_counter(h, OHCA_CNT_CMDS_BAD);
	queue(h, OHCA_CMD_ALLOC_DM, HOST_AQE(alloc_dm, .length = 1));
	begin(h);
	work = h->e->work;
	assert_true(work_off(h) >= 2);
	assert_true(h->e->work - work >= PAGES * OHCA_WORK_STEP);
	assert_int_equal(host_counter(h, OHCA_CNT_CMDS_BAD), bad + 1);
	host_attack(h, "4096 pieces of device memory", ONLY_COMMANDS);
	/* a gap in the middle is found */
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_FREE_DM, PAGES / 2, 0), 0);
	{
		struct ohca_hw_aqe c = HOST_AQE(alloc_dm, .length = 4096);
		struct ohca_hw_acqe rsp;

		assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_DM, &c, &rsp), 0);
		assert_int_equal(rsp.alloc_dm.offset, DM / 2);
	}
	host_free(h);
}

/* All of the device memory in one piece. */
static void test_device_memory(void **state)
{
	struct host *h = machine();
	bool more = true;

	(void)state;
	memset(h->dm, 0xa5, DM);
	queue(h, OHCA_CMD_ALLOC_DM, HOST_AQE(alloc_dm, .length = DM));
	begin(h);
	while (more) {
		uint64_t before = h->dm_dirty;

		more = host_poll(h, BUDGET);
		assert_true(h->dm_dirty - before <= ONLY_COMMANDS);
	}
	assert_int_equal(h->dm_dirty, DM);
	for (size_t i = 0; i < DM; i++)
		if (h->dm[i])
			fail_msg("byte %zu is not zero", i);
	assert_int_equal(host_counter(h, OHCA_CNT_CMDS_BAD), 0);
	host_attack(h, "16 MiB of device memory", ONLY_COMMANDS);
	host_free(h);
}

/* A region gets new pages, and its long list is freed; a list is refused at its end. */
static void test_lists(void **state)
{
	enum { PAGES = 1u << 18 };
	struct host *h = machine();
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .length = 4096ull * PAGES, .pdn = h->pdn,
					.access = 1);
	uint64_t first = host_pages(h, 1), last = host_pages(h, 1), mid = host_pages(h, 1);
	uint64_t root = host_pages(h, 1), entries;
	struct ohca_hw_acqe rsp;

	(void)state;
	/* the same pages again and again */
	for (unsigned int i = 0; i < 512; i++) {
		((uint64_t *)host_ptr(h, mid))[i] = first;
		((uint64_t *)host_ptr(h, root))[i] = mid;
		((uint64_t *)host_ptr(h, first))[i] = first;
		((uint64_t *)host_ptr(h, last))[i] = i == 511 ? 1 : first;
	}
	c.reg_mr.pl = (struct ohca_hw_pl){ .root = mid, .npages = PAGES, .page_shift = 12,
					   .levels = 2 };
	assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), 0);
	assert_int_equal(h->e->page_entries, PAGES);
	begin(h);
	c.reg_mr.key = rsp.handle.handle;
	c.reg_mr.rereg = OHCA_REREG_TRANS;
	c.reg_mr.length = 4096;
	c.reg_mr.pl.npages = 1;
	c.reg_mr.pl.levels = 1;
	c.reg_mr.pl.root = first;
	entries = h->e->page_entries;
	queue(h, OHCA_CMD_REREG_MR, c);
	for (bool more = true; more; entries = h->e->page_entries) {
		more = host_poll(h, BUDGET);
		assert_true((entries - h->e->page_entries) * 8 <= ONLY_COMMANDS);
	}
	assert_int_equal(h->e->page_entries, 0);
	/* the last address of the last table is invalid */
	c.reg_mr.key = 0;
	c.reg_mr.rereg = 0;
	c.reg_mr.length = 4096ull * PAGES;
	c.reg_mr.pl = (struct ohca_hw_pl){ .root = mid, .npages = PAGES, .page_shift = 12,
					   .levels = 2 };
	((uint64_t *)host_ptr(h, mid))[511] = last;
	queue(h, OHCA_CMD_REG_MR, c);
	for (bool more = true; more; entries = h->e->page_entries) {
		more = host_poll(h, BUDGET);
		assert_true(entries <= h->e->page_entries ||
			    (entries - h->e->page_entries) * 8 <= ONLY_COMMANDS);
	}
	assert_int_equal(h->e->page_entries, 0);
	assert_int_equal(host_counter(h, OHCA_CNT_CMDS_BAD), 1);
	assert_true(h->most.work <= ONLY_COMMANDS);
	host_attack(h, "page lists of 2 MiB that go", ONLY_COMMANDS);
	host_free(h);
}

/* ---- WQEs ---------------------------------------------------------------------------- */

/* Registrations of 4096 pages, one after the other. */
static void test_registrations(void **state)
{
	enum { PAGES = 4096, WQES = 64 };
	struct host *h = machine();
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .pdn = h->pdn, .type = OHCA_MR_FRMR,
					.length = PAGES);
	struct ohca_hw_wqe_reg reg = { .access = OHCA_ACCESS_LOCAL_WRITE |
						 OHCA_ACCESS_ZERO_BASED,
				       .length = PAGES * 4096ull };
	struct ohca_hw_acqe rsp;
	struct host_buf pages;
	struct host_cq cq;
	struct host_qp qp;
	unsigned int done = 0;
	struct ohca_hw_cqe e;

	(void)state;
	host_cq_create(h, &cq, 8, 0);
	assert_int_equal(host_qp_create(h, &qp, &(struct host_qp_init){
		.type = OHCA_QPT_RC, .log_sq = 8, .flags = OHCA_QP_PRIVILEGED,
		.scq = &cq, .rcq = &cq }), 0);
	host_qp_connect(&qp, 0, 7, 9, 1, 0, 0);
	assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), 0);
	reg.key = rsp.handle.handle;
	h->scatter = true;
	host_buf_alloc(h, &pages, reg.length);
	reg.pl = pages.pl;
	for (unsigned int i = 0; i < WQES; i++) {
		struct wqe w = wqe_new(OHCA_OP_REG_MR, OHCA_WQE_SIGNALED, i), inv;

		memcpy(w.b + 16, &reg, sizeof(reg));
		w.nseg = 4;
		wqe_post(&qp, &w);
		inv = wqe_new(OHCA_OP_LOCAL_INV, 0, 0);
		wqe_inv(&inv, reg.key);
		wqe_post(&qp, &inv);
	}
	begin(h);
	assert_true(work_off(h) >= 4);
	for (; host_cq_poll(&cq, &e); done++)
		assert_int_equal(e.status, WC_SUCCESS);
	assert_int_equal(done, WQES);
	note(h, "registrations of 4096 pages by WQE");
	host_buf_free(&pages);
	host_buf_free(&qp.buf);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* Many QPs with full queues go to ERR. */
static void test_flush(void **state)
{
	enum { QPS = 64, LOG = 10 };
	struct host *h = machine();
	struct host_qp qp[QPS];
	struct host_cq cq;

	(void)state;
	host_cq_create(h, &cq, 4, 0);
	for (unsigned int i = 0; i < QPS; i++) {
		assert_int_equal(host_qp_create(h, &qp[i], &(struct host_qp_init){
			.type = OHCA_QPT_RC, .log_sq = LOG, .scq = &cq, .rcq = &cq }), 0);
		host_qp_connect(&qp[i], 0, 7, 9, 1, 0, 0);
	}
	work_off(h);
	begin(h);
	for (unsigned int i = 0; i < QPS; i++) {
		((struct ohca_hw_db *)host_buf_ptr(h, &qp[i].buf, 0))->sq_pi = 1u << LOG;
		rig_modify(&qp[i], OHCA_QPS_ERR);
	}
	work_off(h);
	for (unsigned int i = 0; i < QPS; i++)
		assert_int_equal(((struct ohca_hw_db *)host_buf_ptr(h, &qp[i].buf, 0))->sq_ci,
				 1u << LOG);
	note(h, "64 full queues are flushed");
	for (unsigned int i = 0; i < QPS; i++)
		host_buf_free(&qp[i].buf);
	host_buf_free(&cq.buf);
	host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tag_lists),
		cmocka_unit_test(test_tm_resize),
		cmocka_unit_test(test_no_pages),
		cmocka_unit_test(test_doorbells),
		cmocka_unit_test(test_moderated),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_eq_gone),
		cmocka_unit_test(test_sqe),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_tags_go),
		cmocka_unit_test(test_memory_in_pieces),
		cmocka_unit_test(test_device_memory),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_registrations),
		cmocka_unit_test(test_flush),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
