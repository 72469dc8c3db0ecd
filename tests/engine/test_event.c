/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Completion and event queues: entries, overflow, arming, deferral, moderation, resizing. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/guestmem.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/cq.h"
#include "engine/object/eq.h"
#include "engine/object/fatal.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "host.h"

static int setup(void **state)
{
	struct host *h = host_new(1, 0x100);

	host_start(h);
	host_settle(&h, 1);
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	host_free(*state);
	return 0;
}

/* The engine completes a WQE. */
static int push(struct host_cq *cq, uint64_t wr_id, bool solicited)
{
	struct ohca_hw_cqe cqe = { .wr_id = wr_id };
	int rc;

	ohca_dma_enter(cq->h->e);
	rc = ohca_cq_push(cq->h->e, ohca_cq_get(cq->h->e, cq->cqn), &cqe, solicited);
	ohca_dma_exit(cq->h->e);
	return rc;
}

static unsigned int events(struct host *h, uint32_t cqn)
{
	struct ohca_hw_eqe eqe;
	unsigned int n = 0;

	while (host_eq_poll(h, &h->comp, &eqe)) {
		assert_int_equal(eqe.type, OHCA_EVENT_COMP);
		assert_int_equal(eqe.handle, cqn);
		n++;
	}
	return n;
}

static void async_is(struct host *h, uint8_t type, uint32_t handle)
{
	struct ohca_hw_eqe eqe;

	assert_true(host_eq_poll(h, &h->async, &eqe));
	assert_int_equal(eqe.type, type);
	assert_int_equal(eqe.handle, handle);
	host_eq_db(h, &h->async, true);
	host_settle(&h, 1);
}

/* ---- entries ---- */

static void check_wrap(struct host *h, uint8_t log)
{
	struct ohca_hw_cqe cqe;
	struct host_cq cq;

	host_cq_create(h, &cq, log, 0);
	for (uint64_t i = 0; i < 5; i++) {
		/* completely full, then empty */
		for (uint64_t k = 0; k < 1u << log; k++)
			assert_int_equal(push(&cq, i * 1000 + k, false), 0);
		for (uint64_t k = 0; k < 1u << log; k++) {
			assert_true(host_cq_poll(&cq, &cqe));
			assert_int_equal(cqe.wr_id, i * 1000 + k);
			assert_int_equal(cqe.timestamp, *h->now);
		}
		assert_false(host_cq_poll(&cq, &cqe));
	}
	host_cq_destroy(&cq);
}

static unsigned int readings;

static uint64_t counting(void *h)
{
	readings++;
	return *((struct host *)h)->now;
}

/* Only a CQ with OHCA_CQ_TIMESTAMP has timestamps, and the clock is read for no other. */
static void test_timestamps(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe c;
	struct ohca_hw_cqe cqe;
	struct host_cq cq;

	*h->now = 12345;
	h->e->ops.now_ns = counting;
	for (unsigned int flags = 0; flags <= OHCA_CQ_TIMESTAMP; flags++) {
		host_cq_create_flags(h, &cq, 2, 0, (uint8_t)flags);
		readings = 0;
		assert_int_equal(push(&cq, 1, false), 0);
		assert_int_equal(readings, flags);
		assert_true(host_cq_poll(&cq, &cqe));
		assert_int_equal(cqe.timestamp, flags ? 12345 : 0);
		host_cq_destroy(&cq);
	}
	h = host_new(1, 0x100);
	host_start_with(h, ~(1ull << OHCA_FEATURE_TIMESTAMP));
	c = HOST_AQE(create_cq, .log_size = 2, .eqn = h->comp.eqn, .flags = OHCA_CQ_TIMESTAMP);
	c.create_cq.pl.root = host_pages(h, 1);
	c.create_cq.pl.npages = 1;
	c.create_cq.pl.page_shift = 12;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_CQ, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x21);
	c.create_cq.flags = 0;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_CQ, &c, NULL), OHCA_ADMIN_OK);
	host_free(h);
}

static void test_wrap(void **state)
{
	struct host *h = *state;

	check_wrap(h, 0);
	check_wrap(h, 3);
	check_wrap(h, 8);
	h->scatter = true;
	check_wrap(h, 9);
	h->pieces = true;
	check_wrap(h, 9);
}

static void test_overflow(void **state)
{
	struct host *h = *state;
	struct ohca_hw_cqe cqe;
	struct host_cq cq;

	host_cq_create(h, &cq, 2, 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(push(&cq, 1, false), 0);
	assert_int_equal(push(&cq, 2, false), -1);
	assert_int_equal(host_counter(h, OHCA_CNT_CQ_OVERFLOW), 1);
	async_is(h, OHCA_EVENT_CQ_ERR, cq.cqn);
	/* its entries stay, and no more are added, even after they were polled */
	for (int i = 0; i < 4; i++)
		assert_true(host_cq_poll(&cq, &cqe));
	assert_int_equal(push(&cq, 2, false), -1);
	assert_int_equal(host_counter(h, OHCA_CNT_CQ_OVERFLOW), 1);
	assert_false(host_cq_poll(&cq, &cqe));
	host_cq_destroy(&cq);
}

static void test_bad_consumer_index(void **state)
{
	struct host *h = *state;
	struct ohca_hw_db *db;
	struct host_cq cq;

	host_cq_create(h, &cq, 2, 0);
	db = host_buf_ptr(h, &cq.buf, 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(push(&cq, 1, false), 0);
	/* ahead of the producer: ignored */
	db->cq_ci = 5;
	assert_int_equal(push(&cq, 1, false), -1);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_INDEX), 1);
	async_is(h, OHCA_EVENT_CQ_ERR, cq.cqn);
	host_cq_destroy(&cq);
}

static void test_memory_gone(void **state)
{
	struct host *h = *state;
	struct host_cq cq;

	host_cq_create(h, &cq, 2, 0);
	h->hole = cq.buf.page[0];
	h->hole_len = 4096;
	assert_int_equal(push(&cq, 1, false), -1);
	assert_int_equal(host_counter(h, OHCA_CNT_DMA_ERR), 1);
	async_is(h, OHCA_EVENT_CQ_ERR, cq.cqn);
	/* the device still runs */
	h->hole_len = 0;
	host_cq_destroy(&cq);
}

/* ---- arming ---- */

static void test_arm(void **state)
{
	struct host *h = *state;
	struct ohca_hw_cqe cqe;
	struct host_cq cq;

	host_cq_create(h, &cq, 4, 0);
	/* no event without a request */
	push(&cq, 1, false);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 0);
	/* requested too late: an event at once */
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 1);
	cq.sn++;
	host_eq_db(h, &h->comp, true);
	/* the event covers the CQE: arming before the poll causes no second one */
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 0);
	assert_true(host_cq_poll(&cq, &cqe));
	/* requested in time: one event, for any number of entries */
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 0);
	push(&cq, 2, false);
	push(&cq, 3, false);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 1);
	cq.sn++;
	host_eq_db(h, &h->comp, true);
	/* a stale number is ignored */
	cq.sn--;
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 0);
	cq.sn++;
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 1);
	host_cq_destroy(&cq);
}

static void test_solicited(void **state)
{
	struct host *h = *state;
	struct ohca_hw_cqe cqe;
	struct host_cq cq;

	host_cq_create(h, &cq, 4, 0);
	host_cq_arm(&cq, true);
	host_settle(&h, 1);
	push(&cq, 1, false);
	assert_int_equal(events(h, cq.cqn), 0);
	push(&cq, 2, true);
	assert_int_equal(events(h, cq.cqn), 1);
	cq.sn++;
	host_eq_db(h, &h->comp, true);
	/* the solicited one was polled, another one was not: no event */
	host_cq_poll(&cq, &cqe);
	host_cq_poll(&cq, &cqe);
	push(&cq, 3, false);
	host_cq_arm(&cq, true);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 0);
	/* a request for any entry has precedence over others, before and after it */
	host_cq_poll(&cq, &cqe);
	host_cq_arm(&cq, false);
	host_cq_arm(&cq, true);
	host_settle(&h, 1);
	host_cq_arm(&cq, true);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 0);
	push(&cq, 4, false);
	assert_int_equal(events(h, cq.cqn), 1);
	cq.sn++;
	host_eq_db(h, &h->comp, true);
	/* requested late, and there is a solicited one */
	push(&cq, 5, true);
	push(&cq, 6, false);
	host_cq_arm(&cq, true);
	host_settle(&h, 1);
	assert_int_equal(events(h, cq.cqn), 1);
	host_cq_destroy(&cq);
}

/* Requests with two numbers arrive together, the valid one first or last. */
static void test_arm_race(void **state)
{
	struct host *h = *state;
	struct host_cq cq;

	for (int good_first = 0; good_first < 2; good_first++) {
		host_cq_create(h, &cq, 4, 0);
		cq.sn = good_first ? 0 : 3;
		host_cq_arm(&cq, false);
		cq.sn = good_first ? 3 : 0;
		host_cq_arm(&cq, false);
		host_settle(&h, 1);
		push(&cq, 1, false);
		assert_int_equal(events(h, cq.cqn), 1);
		host_eq_db(h, &h->comp, true);
		host_cq_destroy(&cq);
	}
}

/* ---- event queues ---- */

static void test_interrupts(void **state)
{
	struct host *h = *state;
	struct host_cq cq;

	host_cq_create(h, &cq, 6, 0);
	h->irqs[1] = 0;
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	push(&cq, 1, false);
	assert_int_equal(h->irqs[1], 1);
	/* not armed: an entry, but no interrupt */
	cq.sn++;
	assert_int_equal(events(h, cq.cqn), 1);
	host_eq_db(h, &h->comp, false);
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	push(&cq, 2, false);
	assert_int_equal(h->irqs[1], 1);
	/* armed while an entry is there: at once */
	host_eq_db(h, &h->comp, true);
	host_settle(&h, 1);
	assert_int_equal(h->irqs[1], 2);
	/* an index out of range is ignored, and so is its arming */
	h->comp.ci += 5;
	host_eq_db(h, &h->comp, true);
	host_settle(&h, 1);
	assert_int_equal(h->irqs[1], 2);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_INDEX), 1);
	host_cq_destroy(&cq);
}

/* One EQE for a CQ, however often it is armed: the others wait for the driver. */
static void test_deferred(void **state)
{
	struct host *h = *state;
	struct host_cq cq[40];
	struct host_eq eq;
	struct ohca_hw_eqe eqe;
	uint32_t big = h->comp.eqn;
	unsigned int n = 0, seen[40] = { 0 };

	/* 32 entries for 40 CQs */
	host_eq_create(h, &eq, 5, false, 2);
	h->comp.eqn = eq.eqn;
	for (int i = 0; i < 40; i++)
		host_cq_create(h, &cq[i], 6, 0);
	h->comp.eqn = big;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 40; i++) {
			push(&cq[i], 1, false);
			host_cq_arm(&cq[i], false);
			host_settle(&h, 1);
			/* a consumer that arms with the number of its next event */
			cq[i].sn++;
			host_cq_arm(&cq[i], false);
			host_settle(&h, 1);
			cq[i].sn--;
		}
	}
	assert_int_equal(ohca_eq_get(h->e, eq.eqn)->pi, 32);
	assert_int_not_equal(host_counter(h, OHCA_CNT_EQE_DEFERRED), 0);
	for (int round = 0; round < 100; round++) {
		if (!host_eq_poll(h, &eq, &eqe))
			break;
		n++;
		for (int i = 0; i < 40; i++)
			seen[i] += cq[i].cqn == eqe.handle;
		host_eq_db(h, &eq, true);
		host_settle(&h, 1);
		assert_true(ohca_eq_get(h->e, eq.eqn)->pi - eq.ci <= 32);
	}
	for (int i = 0; i < 40; i++)
		assert_true(seen[i] >= 1);
	assert_true(n >= 40);
	/* destroyed while deferred: no event */
	for (int i = 0; i < 40; i++) {
		host_cq_arm(&cq[i], false);
		host_settle(&h, 1);
		host_cq_destroy(&cq[i]);
		host_eq_db(h, &eq, true);
		host_settle(&h, 1);
	}
	while (host_eq_poll(h, &eq, &eqe))
		;
	host_eq_db(h, &eq, true);
	host_settle(&h, 1);
	assert_false(host_eq_poll(h, &eq, &eqe));
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, eq.eqn, 0), OHCA_ADMIN_OK);
}

/*
 * The number of a CQ is not used again while the driver may read an EQE of it, however often
 * numbers wrap.
 */
static void test_number(void **state)
{
	struct host *h = *state;
	struct host_cq cq, other;
	struct host_eq eq[2];
	struct ohca_hw_eqe eqe;
	uint32_t big = h->comp.eqn, first[2];
	unsigned int seen = 0;

	for (int i = 0; i < 2; i++) {
		host_eq_create(h, &eq[i], 5, false, 2);
		h->comp.eqn = eq[i].eqn;
		host_cq_create(h, &cq, 4, 0);
		h->comp.eqn = big;
		first[i] = cq.cqn;
		host_cq_arm(&cq, false);
		host_settle(&h, 1);
		push(&cq, 1, false);
		host_cq_destroy(&cq);
	}
	for (uint32_t i = 0; i < 2 * h->e->max_cq; i++) {
		host_cq_create(h, &other, 4, 0);
		assert_int_not_equal(other.cqn, first[0]);
		assert_int_not_equal(other.cqn, first[1]);
		host_cq_destroy(&other);
	}
	/* the driver has read it, or the EQ itself is destroyed */
	assert_true(host_eq_poll(h, &eq[0], &eqe));
	assert_int_equal(eqe.handle, first[0]);
	host_eq_db(h, &eq[0], true);
	host_settle(&h, 1);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, eq[1].eqn, 0), OHCA_ADMIN_OK);
	for (uint32_t i = 0; i < 2 * h->e->max_cq; i++) {
		host_cq_create(h, &other, 4, 0);
		seen += other.cqn == first[0] || other.cqn == first[1];
		host_cq_destroy(&other);
	}
	assert_int_equal(seen, 4);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, eq[0].eqn, 0), OHCA_ADMIN_OK);
}

/* An object that only this test has. */
static struct ohca_async stranger(void)
{
	struct ohca_async a;

	ohca_async_init(&a, 5, 0);
	return a;
}

static void raise_event(struct host *h, enum ohca_event type, struct ohca_async *a)
{
	ohca_dma_enter(h->e);
	ohca_async_event(h->e, type, a);
	ohca_dma_exit(h->e);
	assert_true(ohca_running(h->e));
}

/* Fills the asynchronous EQ with events of another object. */
static void async_fill(struct host *h)
{
	struct ohca_async a = stranger();

	for (int i = 0; i < 256; i++)
		raise_event(h, OHCA_EVENT_COMM_EST, &a);
	assert_int_equal(a.pending, 0);
}

static void async_empty(struct host *h)
{
	struct ohca_hw_eqe eqe;

	for (int i = 0; i < 256; i++) {
		assert_true(host_eq_poll(h, &h->async, &eqe));
		assert_int_equal(eqe.type, OHCA_EVENT_COMM_EST);
	}
	assert_false(host_eq_poll(h, &h->async, &eqe));
	host_eq_db(h, &h->async, true);
	host_settle(&h, 1);
}

/*
 * Creates and destroys QPs, SRQs and CQs until their numbers wrap; counts how often it gets each
 * number.
 */
static void numbers_wrap(struct host *h, const uint32_t number[3], unsigned int seen[3])
{
	struct host_qp_init in;
	struct host_cq scq, other;
	struct host_srq srq;
	struct host_qp qp;

	host_cq_create(h, &scq, 4, 0);
	in = (struct host_qp_init){ .scq = &scq, .rcq = &scq, .type = OHCA_QPT_RC, .log_sq = 2,
				    .log_rq = 2, .log_stride = 6 };
	memset(seen, 0, 3 * sizeof(*seen));
	for (uint32_t i = 0; i < h->e->max_qp; i++) {
		assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_OK);
		seen[0] += qp.handle == number[0];
		host_qp_destroy(&qp);
		host_srq_create(h, &srq, 4, h->pdn, 0, 0);
		seen[1] += srq.srqn == number[1];
		host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, srq.srqn, 0);
		host_buf_free(&srq.buf);
		host_cq_create(h, &other, 4, 0);
		seen[2] += other.cqn == number[2];
		host_cq_destroy(&other);
	}
	host_cq_destroy(&scq);
}

/*
 * The number of an object is not used again while the driver may read an asynchronous event of it.
 */
static void test_async_number(void **state)
{
	struct host *h = *state;
	struct host_qp_init in;
	unsigned int seen[3];
	struct ohca_hw_eqe eqe;
	struct host_cq scq, cq;
	struct host_srq srq;
	uint32_t number[3];
	struct host_qp qp;

	host_cq_create(h, &scq, 4, 0);
	in = (struct host_qp_init){ .scq = &scq, .rcq = &scq, .type = OHCA_QPT_RC, .log_sq = 2,
				    .log_rq = 2, .log_stride = 6 };
	assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_OK);
	host_srq_create(h, &srq, 4, h->pdn, 0, 0);
	host_cq_create(h, &cq, 4, 0);
	number[0] = qp.handle;
	number[1] = srq.srqn;
	number[2] = cq.cqn;
	raise_event(h, OHCA_EVENT_COMM_EST, &h->e->qp[qp.handle]->async);
	raise_event(h, OHCA_EVENT_SRQ_LIMIT, &h->e->srq[srq.srqn]->async);
	raise_event(h, OHCA_EVENT_CQ_ERR, &h->e->cq[cq.cqn]->async);
	host_qp_destroy(&qp);
	host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, srq.srqn, 0);
	host_buf_free(&srq.buf);
	host_cq_destroy(&cq);
	numbers_wrap(h, number, seen);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(seen[i], 0);
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(host_eq_poll(h, &h->async, &eqe));
		assert_int_equal(eqe.handle, number[i]);
	}
	host_eq_db(h, &h->async, true);
	host_settle(&h, 1);
	numbers_wrap(h, number, seen);
	for (unsigned int i = 0; i < 3; i++)
		assert_true(seen[i]);
	/* and if the driver reads none, a reset frees all */
	assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_OK);
	raise_event(h, OHCA_EVENT_COMM_EST, &h->e->qp[qp.handle]->async);
	host_qp_destroy(&qp);
	host_cq_destroy(&scq);
}

/* The number of a special QP follows from its port: none gets it before the event is read. */
static void test_special_number(void **state)
{
	struct host *h = host_new(2, 0x200);
	struct host_qp_init in = { .special = true, .log_sq = 2, .log_rq = 2, .log_stride = 6 };
	struct ohca_hw_eqe eqe;
	struct host_cq cq;
	struct host_qp qp;

	(void)state;
	host_start(h);
	host_settle(&h, 1);
	host_cq_create(h, &cq, 4, 0);
	in.scq = in.rcq = &cq;
	for (unsigned int i = 0; i < 4; i++) {
		in.type = i & 1 ? OHCA_QPT_GSI : OHCA_QPT_SMI;
		in.port = (uint8_t)(i / 2 + 1);
		assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_OK);
		assert_int_equal(qp.handle, i);
		raise_event(h, OHCA_EVENT_COMM_EST, &h->e->qp[i]->async);
		host_qp_destroy(&qp);
		assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_BUSY);
		host_buf_free(&qp.buf);
		assert_true(host_eq_poll(h, &h->async, &eqe));
		assert_int_equal(eqe.handle, i);
		/* polled, and then returned to the device */
		assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_BUSY);
		host_buf_free(&qp.buf);
		host_eq_db(h, &h->async, true);
		assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_OK);
		/* without an event it is free at once */
		host_qp_destroy(&qp);
		assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_OK);
		host_qp_destroy(&qp);
	}
	/* and after a reset in any case */
	assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_OK);
	raise_event(h, OHCA_EVENT_COMM_EST, &h->e->qp[3]->async);
	host_qp_destroy(&qp);
	host_buf_free(&cq.buf);
	ohca_reset(h->e);
	host_start(h);
	host_settle(&h, 1);
	host_cq_create(h, &cq, 4, 0);
	assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_OK);
	host_qp_destroy(&qp);
	host_cq_destroy(&cq);
	host_free(h);
}

/* Without room an event waits at its object, and each kind of event is reported once. */
static void test_async_overflow(void **state)
{
	struct host *h = *state;
	struct host_qp_init in = { 0 };
	struct ohca_hw_eqe eqe;
	struct host_cq cq[2];
	struct host_srq srq;
	struct host_qp qp;
	unsigned int irqs;

	for (unsigned int i = 0; i < 2; i++)
		host_cq_create(h, &cq[i], 4, 0);
	host_srq_create(h, &srq, 4, h->pdn, 0, 0);
	in.scq = in.rcq = &cq[0];
	in.srq = &srq;
	assert_int_equal(host_qp_create(h, &qp, &in), OHCA_ADMIN_OK);
	async_fill(h);
	for (int i = 0; i < 300; i++) {
		raise_event(h, OHCA_EVENT_LAST_WQE, &ohca_qp_get(h->e, qp.handle)->async);
		raise_event(h, OHCA_EVENT_QP_FATAL, &ohca_qp_get(h->e, qp.handle)->async);
		raise_event(h, OHCA_EVENT_SRQ_LIMIT, &ohca_srq_get(h->e, srq.srqn)->async);
		raise_event(h, OHCA_EVENT_PORT_ERR, &h->e->port[0].async);
		raise_event(h, OHCA_EVENT_PORT_ACTIVE, &h->e->port[0].async);
		raise_event(h, OHCA_EVENT_GID_CHANGE, &h->e->port[0].async);
		raise_event(h, OHCA_EVENT_CQ_ERR, &ohca_cq_get(h->e, cq[0].cqn)->async);
	}
	raise_event(h, OHCA_EVENT_CQ_ERR, &ohca_cq_get(h->e, cq[1].cqn)->async);
	assert_int_equal(host_counter(h, OHCA_CNT_EQE_DEFERRED), 7 * 300 + 1);
	/* an object that is destroyed removes its events */
	host_cq_destroy(&cq[1]);
	irqs = h->irqs[0];
	async_empty(h);
	assert_true(h->irqs[0] > irqs);
	async_is(h, OHCA_EVENT_QP_FATAL, qp.handle);
	async_is(h, OHCA_EVENT_LAST_WQE, qp.handle);
	async_is(h, OHCA_EVENT_SRQ_LIMIT, srq.srqn);
	assert_true(host_eq_poll(h, &h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_PORT_ACTIVE);
	assert_int_equal(eqe.port, 1);
	assert_true(host_eq_poll(h, &h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_GID_CHANGE);
	assert_int_equal(eqe.port, 1);
	async_is(h, OHCA_EVENT_CQ_ERR, cq[0].cqn);
	assert_false(host_eq_poll(h, &h->async, &eqe));
	/* reported: the next one is a new event */
	raise_event(h, OHCA_EVENT_QP_FATAL, &ohca_qp_get(h->e, qp.handle)->async);
	async_is(h, OHCA_EVENT_QP_FATAL, qp.handle);
	/* the EQ is destroyed, then the objects with events; and a reset finds some that wait */
	for (unsigned int k = 0; k < 2; k++) {
		async_fill(h);
		raise_event(h, OHCA_EVENT_QP_FATAL, &ohca_qp_get(h->e, qp.handle)->async);
		raise_event(h, OHCA_EVENT_CQ_ERR, &ohca_cq_get(h->e, cq[0].cqn)->async);
		raise_event(h, OHCA_EVENT_SRQ_ERR, &ohca_srq_get(h->e, srq.srqn)->async);
		raise_event(h, OHCA_EVENT_PORT_ERR, &h->e->port[0].async);
		if (k)
			break;
		assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, h->async.eqn, 0),
				 OHCA_ADMIN_OK);
		host_eq_create(h, &h->async, 8, true, 0);
		host_eq_db(h, &h->async, true);
		host_settle(&h, 1);
		assert_false(host_eq_poll(h, &h->async, &eqe));
	}
	ohca_reset(h->e);
	host_start(h);
	host_settle(&h, 1);
	assert_false(host_eq_poll(h, &h->async, &eqe));
	host_buf_free(&qp.buf);
	host_buf_free(&srq.buf);
	host_buf_free(&cq[0].buf);
}

/* Outside of a burst, after FATAL and after reset nothing is read or written. */
static void test_no_dma(void **state)
{
	struct host *h = *state;
	struct ohca_hw_cqe cqe = { .wr_id = 7 };
	struct host_cq cq;
	uint64_t errors;
	uint32_t v;

	host_cq_create(h, &cq, 4, 0);
	errors = host_counter(h, OHCA_CNT_DMA_ERR);
	assert_int_equal(ohca_dma_read(h->e, cq.buf.page[0], &v, 4), -1);
	assert_int_equal(ohca_dma_write(h->e, cq.buf.page[0], &v, 4), -1);
	assert_int_equal(host_counter(h, OHCA_CNT_DMA_ERR), errors + 2);
	ohca_dma_enter(h->e);
	assert_int_equal(ohca_dma_read(h->e, cq.buf.page[0], &v, 4), 0);
	assert_int_equal(ohca_dma_read(h->e, ~0ull - 2, &v, 4), -1);
	ohca_fatal(h->e, OHCA_FATAL_INTERNAL);
	assert_int_equal(ohca_cq_push(h->e, ohca_cq_get(h->e, cq.cqn), &cqe, false), -1);
	assert_int_equal(ohca_dma_read(h->e, cq.buf.page[0], &v, 4), -1);
	ohca_dma_exit(h->e);
	assert_false(host_cq_poll(&cq, &cqe));
	ohca_reset(h->e);
	ohca_dma_enter(h->e);
	assert_int_equal(ohca_dma_read(h->e, cq.buf.page[0], &v, 4), -1);
	ohca_dma_exit(h->e);
	host_buf_free(&cq.buf);
}

static void test_eq_dma(void **state)
{
	struct ohca_async a = stranger();
	struct host *h = *state;

	h->hole = h->async.ring;
	h->hole_len = 4096;
	ohca_dma_enter(h->e);
	ohca_async_event(h->e, OHCA_EVENT_QP_FATAL, &a);
	ohca_dma_exit(h->e);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_FATAL_REASON, 4), OHCA_FATAL_EQ_DMA);
}

static void test_eq_commands(void **state)
{
	struct ohca_async a = stranger();
	struct host *h = *state;
	struct ohca_hw_aqe good = HOST_AQE(create_eq, .log_size = 5, .vector = 1), c;
	struct host_cq cq;

	good.create_eq.pl.root = host_pages(h, 1);
	good.create_eq.pl.npages = 1;
	good.create_eq.pl.page_shift = 12;
#define REFUSED(field, value, syn)						\
	c = good;								\
	c.create_eq.field = (value);						\
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_EQ, &c, NULL),		\
			 OHCA_ADMIN_BAD_PARAM);					\
	assert_int_equal(h->syndrome, syn)
	REFUSED(log_size, 4, 0x18);
	REFUSED(log_size, 21, 0x18);
	REFUSED(log_size, 8, 0x08);		/* larger than the list */
	REFUSED(kind, OHCA_EQ_ASYNC, 0x19);	/* there is one */
	REFUSED(kind, OHCA_EQ_FAULT, 0x18);	/* too small */
	REFUSED(kind, 3, 0x19);
	REFUSED(vector, HOST_VECTORS, 0x1a);
	REFUSED(pl.root, good.create_eq.pl.root + 8, 0x08);
	REFUSED(pl.npages, 0, 0x08);
	REFUSED(pl.page_shift, 11, 0x08);
	REFUSED(pl.page_shift, 31, 0x08);
	REFUSED(pl.levels, 4, 0x08);
	REFUSED(pl.reserved, 1, 0x08);
#undef REFUSED
	/* all of them, one more, and one again */
	for (int i = 2; i < OHCA_MAX_EQ; i++) {
		c = good;
		assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_EQ, &c, NULL), OHCA_ADMIN_OK);
	}
	c = good;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_EQ, &c, NULL), OHCA_ADMIN_NO_RESOURCE);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, 9, 0), OHCA_ADMIN_OK);
	c = good;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_EQ, &c, NULL), OHCA_ADMIN_OK);
	host_cq_create(h, &cq, 4, 0);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, h->comp.eqn, 0),
			 OHCA_ADMIN_BUSY);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, 64, 0), OHCA_ADMIN_BAD_HANDLE);
	host_cq_destroy(&cq);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, h->async.eqn, 0),
			 OHCA_ADMIN_OK);
	/* without an async EQ, events are dropped */
	ohca_async_event(h->e, OHCA_EVENT_QP_FATAL, &a);
	assert_true(ohca_running(h->e));
}

static void test_cq_commands(void **state)
{
	struct host *h = *state;
	struct ohca_hw_aqe good = HOST_AQE(create_cq, .log_size = 4, .eqn = h->comp.eqn), c;
	unsigned int n = 0;

	good.create_cq.pl.root = host_pages(h, 1);
	good.create_cq.pl.npages = 1;
	good.create_cq.pl.page_shift = 12;
#define REFUSED(field, value, syn)						\
	c = good;								\
	c.create_cq.field = (value);						\
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_CQ, &c, NULL),		\
			 OHCA_ADMIN_BAD_PARAM);					\
	assert_int_equal(h->syndrome, syn)
	REFUSED(log_size, 21, 0x20);
	REFUSED(log_size, 6, 0x08);		/* 64 entries and a record: more than a page */
	REFUSED(uar, HOST_UARS, 0x18);
	REFUSED(eqn, 63, 0x1c);
	REFUSED(eqn, h->async.eqn, 0x1c);
	REFUSED(flags, 2, 0x21);
	REFUSED(reserved[1], 1, 0x22);
#undef REFUSED
	for (;; n++) {
		c = good;
		if (host_cmd(h, OHCA_CMD_CREATE_CQ, &c, NULL))
			break;
	}
	assert_int_equal(n, 256);
	c = good;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_CQ, &c, NULL), OHCA_ADMIN_NO_RESOURCE);
}

/* ---- moderation ---- */

static void modify(struct host_cq *cq, uint16_t count, uint16_t us)
{
	struct ohca_hw_aqe c = HOST_AQE(modify_cq, .cqn = cq->cqn, .count = count,
						.period_us = us);

	assert_int_equal(host_cmd(cq->h, OHCA_CMD_MODIFY_CQ, &c, NULL), OHCA_ADMIN_OK);
}

static void test_moderation(void **state)
{
	struct host *h = *state;
	struct ohca_hw_cqe cqe;
	struct host_cq cq;

	host_cq_create(h, &cq, 6, 0);
	modify(&cq, 4, 100);
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	for (int i = 0; i < 3; i++) {
		push(&cq, 1, false);
		assert_int_equal(events(h, cq.cqn), 0);
	}
	push(&cq, 1, false);
	assert_int_equal(events(h, cq.cqn), 1);
	cq.sn++;
	host_eq_db(h, &h->comp, true);
	while (host_cq_poll(&cq, &cqe))
		;
	/* fewer arrive: reported when the time is over */
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	push(&cq, 1, false);
	assert_int_equal(ohca_next_deadline(h->e), *h->now + 100000);
	host_run(&h, 1, 99999);
	assert_int_equal(events(h, cq.cqn), 0);
	host_run(&h, 1, 1);
	assert_int_equal(events(h, cq.cqn), 1);
	assert_int_equal(ohca_next_deadline(h->e), OHCA_NO_DEADLINE);
	cq.sn++;
	host_eq_db(h, &h->comp, true);
	while (host_cq_poll(&cq, &cqe))
		;
	/* switched off while it waits: reported */
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	push(&cq, 1, false);
	modify(&cq, 0, 0);
	assert_int_equal(events(h, cq.cqn), 1);
	cq.sn++;
	host_eq_db(h, &h->comp, true);
	/* destroyed while it waits: not reported */
	modify(&cq, 4, 100);
	while (host_cq_poll(&cq, &cqe))
		;
	host_cq_arm(&cq, false);
	host_settle(&h, 1);
	push(&cq, 1, false);
	host_cq_destroy(&cq);
	host_run(&h, 1, 1000000);
	assert_int_equal(events(h, 0), 0);
}

/* Several CQs at once, each with its own time. */
static void test_moderation_order(void **state)
{
	static const uint16_t us[3] = { 300, 100, 200 };
	struct host *h = *state;
	struct ohca_hw_eqe eqe;
	struct host_cq cq[3];

	for (int i = 0; i < 3; i++) {
		host_cq_create(h, &cq[i], 6, 0);
		modify(&cq[i], 9, us[i]);
		host_cq_arm(&cq[i], false);
	}
	host_settle(&h, 1);
	for (int i = 0; i < 3; i++)
		push(&cq[i], 1, false);
	for (int k = 1; k <= 3; k++) {
		host_run(&h, 1, 99000);
		assert_false(host_eq_poll(h, &h->comp, &eqe));
		host_run(&h, 1, 1000);
		assert_true(host_eq_poll(h, &h->comp, &eqe));
		assert_int_equal(eqe.handle, cq[k % 3].cqn);
	}
	for (int i = 0; i < 3; i++)
		host_cq_destroy(&cq[i]);
}

/* ---- resizing ---- */

static int resize(struct host_cq *cq, uint8_t log, struct host_buf *buf, uint32_t *pi)
{
	struct ohca_hw_aqe c = HOST_AQE(resize_cq, .cqn = cq->cqn, .ci = cq->ci,
						.log_size = log);
	struct ohca_hw_acqe r;
	int rc;

	host_buf_alloc(cq->h, buf, ohca_cq_buf_size(log));
	c.resize_cq.pl = buf->pl;
	rc = host_cmd(cq->h, OHCA_CMD_RESIZE_CQ, &c, &r);
	*pi = r.handle.handle;
	if (rc) {
		host_buf_free(buf);
		return rc;
	}
	host_buf_free(&cq->buf);
	cq->buf = *buf;
	cq->log = log;
	((struct ohca_hw_db *)host_buf_ptr(cq->h, buf, 0))->cq_ci = cq->ci;
	return 0;
}

static void test_resize(void **state)
{
	struct host *h = *state;
	struct ohca_hw_cqe cqe;
	struct host_buf buf;
	struct host_cq cq;
	uint64_t next = 0, seen = 0;
	uint32_t pi;

	h->scatter = true;
	host_cq_create(h, &cq, 4, 0);
	/* at every position of the old ring, to every size that fits */
	for (unsigned int round = 0; round < 60; round++) {
		uint8_t log = (uint8_t)(2 + round * 7 % 6);
		unsigned int held = round % 4;

		while (next - seen < held)
			assert_int_equal(push(&cq, next++, false), 0);
		assert_int_equal(resize(&cq, log, &buf, &pi), OHCA_ADMIN_OK);
		assert_int_equal(pi, (uint32_t)next);
		for (unsigned int k = 0; k < 13; k++) {
			while (seen < next) {
				assert_true(host_cq_poll(&cq, &cqe));
				assert_int_equal(cqe.wr_id, seen++);
			}
			assert_false(host_cq_poll(&cq, &cqe));
			assert_int_equal(push(&cq, next++, false), 0);
		}
		while (seen < next) {
			assert_true(host_cq_poll(&cq, &cqe));
			assert_int_equal(cqe.wr_id, seen++);
		}
	}
	/* too small; an invalid index; a CQ in error */
	for (int i = 0; i < 4; i++)
		assert_int_equal(push(&cq, next++, false), 0);
	assert_int_equal(resize(&cq, 1, &buf, &pi), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x20);
	{
		struct ohca_hw_aqe c = HOST_AQE(resize_cq, .cqn = cq.cqn, .ci = cq.ci,
						.log_size = 21,
						.pl = { .root = 1ull << 44, .npages = 1u << 16,
							.page_shift = 13 });

		assert_int_equal(host_cmd(h, OHCA_CMD_RESIZE_CQ, &c, NULL),
				 OHCA_ADMIN_BAD_PARAM);
		assert_int_equal(h->syndrome, 0x20);
		/* there is no such memory: the CQ stays as it was */
		c.resize_cq.log_size = 4;
		assert_int_equal(host_cmd(h, OHCA_CMD_RESIZE_CQ, &c, NULL), OHCA_ADMIN_DMA);
	}
	cq.ci += 5;
	assert_int_equal(resize(&cq, 4, &buf, &pi), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x1c);
	cq.ci -= 5;
	assert_true(host_cq_poll(&cq, &cqe));
	assert_int_equal(cqe.wr_id, seen);
	while (push(&cq, next, false) == 0)
		;
	assert_int_equal(resize(&cq, 8, &buf, &pi), OHCA_ADMIN_BAD_STATE);
	host_cq_destroy(&cq);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(timestamps), T(wrap), T(overflow), T(bad_consumer_index), T(memory_gone), T(arm),
		T(solicited), T(arm_race), T(interrupts), T(deferred), T(number), T(async_number),
		T(special_number), T(async_overflow),
		T(no_dma), T(eq_dma), T(eq_commands), T(cq_commands), T(moderation),
		T(moderation_order), T(resize),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
