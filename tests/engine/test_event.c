/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Event queues: interrupts, deferred and asynchronous events, commands. */
#include "engine/base/limits.h"
#include "engine/object/eq.h"
#include "engine/object/fatal.h"
#include "engine/object/qp.h"
#include "engine/object/srq.h"
#include "events.h"

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

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(interrupts), T(deferred), T(number), T(async_number), T(special_number),
		T(async_overflow), T(no_dma), T(eq_dma), T(eq_commands),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
