/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Completion queues: entries, overflow, arming, commands, moderation, resizing. */
#include "events.h"

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

/* ---- commands ---- */

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
		T(solicited), T(arm_race), T(cq_commands), T(moderation), T(moderation_order), T(resize),
	};

	return cmocka_run_group_tests_name("completion queues", tests, NULL, NULL);
}
