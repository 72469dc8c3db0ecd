/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Receive WQEs: how RQs and SRQs return them, malformed ones, limits, suppression of doorbells. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/guestmem.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "fake_xport.h"
#include "host.h"

struct rig {
	struct host *h;
	struct host_cq cq;
	struct host_srq srq;
	struct host_qp own, shared;
	struct ohca_qp *o, *s;
};

static int setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct host_qp_init in = { .scq = &r->cq, .rcq = &r->cq, .log_rq = 3 };

	r->h = host_new(1, 0x100);
	host_start(r->h);
	host_cq_create(r->h, &r->cq, 4, 0);
	host_srq_create(r->h, &r->srq, 3, r->h->pdn, 0, 0);
	assert_int_equal(host_qp_create(r->h, &r->own, &in), 0);
	in.srq = &r->srq;
	assert_int_equal(host_qp_create(r->h, &r->shared, &in), 0);
	r->o = ohca_qp_get(r->h->e, r->own.handle);
	r->s = ohca_qp_get(r->h->e, r->shared.handle);
	memset(&fake, 0, sizeof(fake));
	ohca_dma_enter(r->h->e);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	ohca_dma_exit(r->h->e);
	host_buf_free(&r->cq.buf);
	host_buf_free(&r->srq.buf);
	host_buf_free(&r->own.buf);
	host_buf_free(&r->shared.buf);
	host_free(r->h);
	free(r);
	return 0;
}

static int take(struct rig *r, struct ohca_qp *qp, struct ohca_rwqe *w)
{
	return ohca_rwqe_take(r->h->e, qp, w);
}

static struct ohca_hw_db *db(struct rig *r, const struct host_buf *b)
{
	return host_buf_ptr(r->h, b, 0);
}

static void test_take(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_sge sge[3] = { { 0x1000, 100, 7 }, { 0x2000, 0, 8 }, { 0x3000, 50, 9 } };
	struct ohca_rwqe w;

	for (uint64_t i = 0; i < 50; i++) {
		assert_int_equal(take(r, r->o, &w), 0);
		for (uint64_t k = 0; k < 8; k++)
			host_post_recv(&r->own, i * 8 + k, sge, k % 4);
		for (uint64_t k = 0; k < 8; k++) {
			assert_int_equal(take(r, r->o, &w), 1);
			assert_int_equal(w.wr_id, i * 8 + k);
			assert_int_equal(w.wqe_idx, i * 8 + k);
			assert_int_equal(w.num_sge, k % 4);
			assert_int_equal(w.total, k % 4 == 3 ? 150 : k % 4 ? 100 : 0);
			assert_false(w.from_srq);
			assert_int_equal(db(r, &r->own.buf)->rq_ci, i * 8 + k + 1);
		}
		assert_int_equal(w.sge[2].addr, 0x3000);
		assert_int_equal(w.sge[2].lkey, 9);
	}
}

static void test_shared(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_sge sge = { 0x1000, 100, 7 };
	struct ohca_rwqe w;

	assert_int_equal(take(r, r->s, &w), 0);
	for (uint64_t i = 0; i < 20; i++) {
		host_srq_post(&r->srq, i, &sge, 1);
		assert_int_equal(take(r, r->s, &w), 1);
		assert_int_equal(w.wr_id, i);
		assert_int_equal(w.wqe_idx, 0);
		assert_true(w.from_srq);
	}
	assert_int_equal(db(r, &r->srq.buf)->rq_ci, 20);
}

static void test_malformed(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_sge big[2] = { { 0, 0x80000000, 0 }, { 0, 1, 0 } };
	struct ohca_hw_rwqe_ctrl *c;
	struct ohca_rwqe w;

	host_post_recv(&r->own, 11, NULL, 0);
	c = host_buf_ptr(r->h, &r->own.buf, OHCA_RQ_RING_OFFSET);
	c->num_sge = 8;			/* a stride of 128 bytes holds 7 */
	assert_int_equal(take(r, r->o, &w), -OHCA_VE_WQE_SIZE);
	assert_int_equal(w.wr_id, 11);
	assert_int_equal(w.wqe_idx, 0);
	assert_int_equal(take(r, r->o, &w), 0);
	host_post_recv(&r->own, 12, NULL, 0);
	c = host_buf_ptr(r->h, &r->own.buf, OHCA_RQ_RING_OFFSET + 128);
	c->reserved[6] = 1;
	assert_int_equal(take(r, r->o, &w), -OHCA_VE_WQE_FLAGS);
	assert_int_equal(w.wr_id, 12);
	host_post_recv(&r->own, 13, big, 2);
	assert_int_equal(take(r, r->o, &w), -OHCA_VE_LENGTH);
	host_post_recv(&r->own, 14, big, 1);
	assert_int_equal(take(r, r->o, &w), 1);
	assert_int_equal(w.total, 0x80000000);
}

static void test_bad_index(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_eqe eqe;
	struct ohca_rwqe w;

	db(r, &r->own.buf)->rq_pi = 9;		/* 8 fit */
	assert_int_equal(take(r, r->o, &w), OHCA_RWQE_NO_RQ);
	assert_int_equal(host_counter(r->h, OHCA_CNT_DB_BAD_INDEX), 1);
	db(r, &r->own.buf)->rq_pi = 0xffffffff;
	assert_int_equal(take(r, r->o, &w), OHCA_RWQE_NO_RQ);
	db(r, &r->own.buf)->rq_pi = 8;
	assert_int_equal(take(r, r->o, &w), 1);
	/* an SRQ is in error then, and an event reports it */
	db(r, &r->srq.buf)->rq_pi = 9;
	assert_int_equal(take(r, r->s, &w), OHCA_RWQE_NO_RQ);
	assert_true(host_eq_poll(r->h, &r->h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_SRQ_ERR);
	assert_int_equal(eqe.handle, r->srq.srqn);
	db(r, &r->srq.buf)->rq_pi = 1;
	assert_int_equal(take(r, r->s, &w), OHCA_RWQE_NO_RQ);
	assert_false(host_eq_poll(r->h, &r->h->async, &eqe));
}

static void test_memory_gone(void **state)
{
	struct rig *r = *state;
	struct host_qp_init in = { .scq = &r->cq, .rcq = &r->cq, .log_rq = 8 };
	struct host_qp qp;
	struct ohca_rwqe w;
	int n = 0;

	/* the WQEs of the second page cannot be read: that is an error, too */
	assert_int_equal(host_qp_create(r->h, &qp, &in), 0);
	for (unsigned int i = 0; i < 40; i++)
		host_post_recv(&qp, i, NULL, 0);
	r->h->hole = qp.buf.page[1];
	r->h->hole_len = 4096;
	for (; n < 100; n++) {
		int rc = take(r, ohca_qp_get(r->h->e, qp.handle), &w);

		if (rc == 0)
			break;
		assert_int_equal(rc, n < 28 ? 1 : -OHCA_VE_WQE_DMA);
	}
	assert_int_equal(n, 40);
	host_buf_free(&qp.buf);
}

static int set_limit(struct rig *r, uint32_t limit)
{
	struct ohca_hw_aqe c = HOST_AQE(modify_srq, .srqn = r->srq.srqn, .limit = limit);

	return host_cmd(r->h, OHCA_CMD_MODIFY_SRQ, &c, NULL);
}

static uint32_t get_limit(struct rig *r)
{
	struct ohca_hw_aqe c = HOST_AQE(handle, .handle = r->srq.srqn);
	struct ohca_hw_acqe rsp;

	assert_int_equal(host_cmd(r->h, OHCA_CMD_QUERY_SRQ, &c, &rsp), OHCA_ADMIN_OK);
	return rsp.query_srq.limit;
}

static void test_limit(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_eqe eqe;
	struct ohca_rwqe w;

	for (uint64_t i = 0; i < 6; i++)
		host_srq_post(&r->srq, i, NULL, 0);
	assert_int_equal(set_limit(r, 9), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(set_limit(r, 4), OHCA_ADMIN_OK);
	assert_int_equal(get_limit(r), 4);
	assert_int_equal(take(r, r->s, &w), 1);
	assert_int_equal(take(r, r->s, &w), 1);
	assert_false(host_eq_poll(r->h, &r->h->async, &eqe));
	/* three are left: fewer than four */
	assert_int_equal(take(r, r->s, &w), 1);
	assert_true(host_eq_poll(r->h, &r->h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_SRQ_LIMIT);
	assert_int_equal(eqe.handle, r->srq.srqn);
	assert_int_equal(get_limit(r), 0);
	assert_int_equal(take(r, r->s, &w), 1);
	assert_false(host_eq_poll(r->h, &r->h->async, &eqe));
	/* armed when it is low already, or empty: an event at once */
	assert_int_equal(set_limit(r, 5), OHCA_ADMIN_OK);
	assert_true(host_eq_poll(r->h, &r->h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_SRQ_LIMIT);
	while (take(r, r->s, &w) == 1)
		;
	assert_int_equal(set_limit(r, 1), OHCA_ADMIN_OK);
	assert_true(host_eq_poll(r->h, &r->h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_SRQ_LIMIT);
}

static void test_first_limit(void **state)
{
	struct rig *r = *state;
	struct host_qp_init in = { .scq = &r->cq, .rcq = &r->cq };
	struct ohca_hw_eqe eqe;
	struct host_srq srq;
	struct host_qp qp;
	struct ohca_rwqe w;

	host_srq_create(r->h, &srq, 3, r->h->pdn, 0, 2);
	in.srq = &srq;
	assert_int_equal(host_qp_create(r->h, &qp, &in), 0);
	host_srq_post(&srq, 0, NULL, 0);
	host_srq_post(&srq, 0, NULL, 0);
	assert_int_equal(take(r, ohca_qp_get(r->h->e, qp.handle), &w), 1);
	assert_true(host_eq_poll(r->h, &r->h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_SRQ_LIMIT);
	assert_int_equal(eqe.handle, srq.srqn);
	host_buf_free(&srq.buf);
	host_buf_free(&qp.buf);
}

/* One doorbell, then none; in the error state every post rings. */
static void test_suppression(void **state)
{
	struct rig *r = *state;

	host_srq_post(&r->srq, 0, NULL, 0);
	assert_true(r->h->kicked);
	r->h->kicked = false;
	ohca_poll(r->h->e, 64);
	for (unsigned int i = 0; i < 5; i++)
		host_srq_post(&r->srq, 0, NULL, 0);
	assert_false(r->h->kicked);

	assert_false(ohca_rq_notify(r->h->e, r->o, false));
	for (unsigned int i = 0; i < 3; i++)
		host_post_recv(&r->own, 0, NULL, 0);
	assert_false(r->h->kicked);
	assert_true(ohca_rq_notify(r->h->e, r->o, true));
	host_post_recv(&r->own, 0, NULL, 0);
	assert_true(r->h->kicked);
	ohca_poll(r->h->e, 64);
	assert_int_equal(fake.kicks_rq, 1);
	/* a QP with an SRQ has no RQ to arm */
	assert_false(ohca_rq_notify(r->h->e, r->s, true));
}

static void test_create(void **state)
{
	struct rig *r = *state;
	struct host *h = r->h;
	struct ohca_hw_aqe good = HOST_AQE(create_srq, .pdn = h->pdn, .log_size = 2,
						    .log_stride = 6), c;
	unsigned int n = 1;

	good.create_srq.pl.root = host_pages(h, 1);
	good.create_srq.pl.npages = 1;
	good.create_srq.pl.page_shift = 12;
#define REFUSED(field, value, syn)						\
	c = good;								\
	c.create_srq.field = (value);						\
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_SRQ, &c, NULL),		\
			 OHCA_ADMIN_BAD_PARAM);					\
	assert_int_equal(h->syndrome, syn)
	REFUSED(pdn, 77, 0x18);
	REFUSED(uar, 1, 0x1c);
	REFUSED(limit, 5, 0x20);
	REFUSED(log_size, 17, 0x24);
	REFUSED(log_size, 6, 0x08);
	REFUSED(log_stride, 5, 0x25);
	REFUSED(log_stride, 10, 0x25);
	REFUSED(type, 3, 0x26);
	REFUSED(log_ops, 1, 0x27);
	REFUSED(xrcdn, 1, 0x28);
	REFUSED(cqn, 1, 0x2c);
	REFUSED(num_tags, 1, 0x30);
	REFUSED(reserved, 1, 0x32);
#undef REFUSED
	for (;; n++) {
		c = good;
		if (host_cmd(h, OHCA_CMD_CREATE_SRQ, &c, NULL))
			break;
	}
	assert_int_equal(n, 64);
	assert_int_equal(ohca_pd_get(h->e, h->pdn)->refs, 64 + 2);	/* those of two QPs */
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, 63, 0), OHCA_ADMIN_OK);
	assert_int_equal(ohca_pd_get(h->e, h->pdn)->refs, 63 + 2);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, 63, 0),
			 OHCA_ADMIN_BAD_HANDLE);
	c = good;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_SRQ, &c, NULL), OHCA_ADMIN_OK);
}

/* ---- resizing ---- */

static uint32_t resize(struct rig *r, uint8_t log, uint8_t flags, uint32_t limit)
{
	uint32_t pi = 0;

	assert_int_equal(host_srq_resize(&r->srq, log, flags, limit, &pi), OHCA_ADMIN_OK);
	return pi;
}

static void post_some(struct rig *r, uint64_t wr_id)
{
	static const struct ohca_hw_sge sge[2] = { { 0x1000, 100, 7 }, { 0x2000, 50, 8 } };

	host_srq_post(&r->srq, wr_id, sge, wr_id % 3);
}

/* At every position of the old ring, to every size that fits, full and empty: all WQEs in order. */
static void test_resize(void **state)
{
	struct rig *r = *state;
	uint64_t next = 0, seen = 0;
	struct ohca_rwqe w;

	r->h->scatter = true;
	for (unsigned int round = 0; round < 400; round++) {
		uint8_t log = (uint8_t)(round * 7 % 9);
		uint64_t keep = round % 5 < 4 ? round % 5 : 1u << log;

		while (next - seen < keep && next - seen < 1u << r->srq.log)
			post_some(r, next++);
		while (next - seen > 1u << log) {
			assert_int_equal(take(r, r->s, &w), 1);
			assert_int_equal(w.wr_id, seen++);
		}
		assert_int_equal(resize(r, log, 0, 0), (uint32_t)next);
		assert_int_equal(db(r, &r->srq.buf)->rq_pi, (uint32_t)next);
		assert_int_equal(db(r, &r->srq.buf)->rq_ci, (uint32_t)seen);
		for (unsigned int k = 0; k < 11; k++) {
			while (next - seen < 1u << log)
				post_some(r, next++);
			for (unsigned int n = 0; n <= k && seen < next; n++) {
				assert_int_equal(take(r, r->s, &w), 1);
				assert_int_equal(w.wr_id, seen++);
				assert_int_equal(w.num_sge, w.wr_id % 3);
				if (w.num_sge == 2)
					assert_int_equal(w.sge[1].addr, 0x2000);
			}
		}
	}
	while (seen < next) {
		assert_int_equal(take(r, r->s, &w), 1);
		assert_int_equal(w.wr_id, seen++);
	}
	assert_int_equal(take(r, r->s, &w), 0);
	assert_int_equal(db(r, &r->srq.buf)->rq_ci, (uint32_t)next);
	assert_int_equal(host_counter(r->h, OHCA_CNT_DB_BAD_INDEX), 0);
}

/* A refused command changes nothing. */
static void test_resize_refused(void **state)
{
	struct rig *r = *state;
	struct host *h = r->h;
	struct ohca_hw_aqe good = HOST_AQE(resize_srq, .srqn = r->srq.srqn, .log_size = 3), c;
	struct ohca_hw_eqe eqe;
	struct ohca_rwqe w;
	struct host_srq first;
	uint32_t pi;

	for (uint64_t i = 0; i < 5; i++)
		host_srq_post(&r->srq, i, NULL, 0);
	good.resize_srq.pl.root = host_pages(h, 1);
	good.resize_srq.pl.npages = 1;
	good.resize_srq.pl.page_shift = 12;
#define REFUSED(field, value, status, syn)					\
	c = good;								\
	c.resize_srq.field = (value);						\
	assert_int_equal(host_cmd(h, OHCA_CMD_RESIZE_SRQ, &c, NULL), status);	\
	assert_int_equal(h->syndrome, syn)
	REFUSED(srqn, 77, OHCA_ADMIN_BAD_HANDLE, 0);
	REFUSED(limit, 1, OHCA_ADMIN_BAD_PARAM, 0x1c);
	REFUSED(log_size, 17, OHCA_ADMIN_BAD_PARAM, 0x20);
	REFUSED(log_size, 255, OHCA_ADMIN_BAD_PARAM, 0x20);
	/* five do not fit four */
	REFUSED(log_size, 2, OHCA_ADMIN_BAD_PARAM, 0x20);
	/* 32 of 128 bytes and the record do not fit a page */
	REFUSED(log_size, 5, OHCA_ADMIN_BAD_PARAM, 0x08);
	REFUSED(flags, 2, OHCA_ADMIN_BAD_PARAM, 0x21);
	REFUSED(reserved, 1, OHCA_ADMIN_BAD_PARAM, 0x22);
	REFUSED(pl.levels, 4, OHCA_ADMIN_BAD_PARAM, 0x08);
	REFUSED(pl.root, 1ull << 44, OHCA_ADMIN_DMA, 0);
	good.resize_srq.flags = OHCA_RESIZE_SRQ_LIMIT;
	REFUSED(limit, 9, OHCA_ADMIN_BAD_PARAM, 0x1c);
#undef REFUSED
	/* a limit that was armed before anything was posted */
	host_srq_create(h, &first, 3, h->pdn, 0, 6);
	assert_int_equal(host_srq_resize(&first, 2, 0, 0, &pi), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x20);
	assert_int_equal(host_srq_resize(&first, 2, OHCA_RESIZE_SRQ_LIMIT, 0, &pi), OHCA_ADMIN_OK);
	host_buf_free(&first.buf);
	/* the old buffer cannot be read any more */
	h->hole = r->srq.buf.page[0];
	h->hole_len = 4096;
	assert_int_equal(host_srq_resize(&r->srq, 4, 0, 0, &pi), OHCA_ADMIN_BAD_STATE);
	h->hole_len = 0;

	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(take(r, r->s, &w), 1);
		assert_int_equal(w.wr_id, i);
	}
	assert_false(host_eq_poll(h, &h->async, &eqe));
	/* an invalid record, and then the SRQ in error because of it */
	db(r, &r->srq.buf)->rq_pi += 9;
	assert_int_equal(host_srq_resize(&r->srq, 8, 0, 0, &pi), OHCA_ADMIN_BAD_STATE);
	assert_int_equal(take(r, r->s, &w), OHCA_RWQE_NO_RQ);
	db(r, &r->srq.buf)->rq_pi -= 9;
	assert_int_equal(host_srq_resize(&r->srq, 8, 0, 0, &pi), OHCA_ADMIN_BAD_STATE);
}

/* The limit stays, or the same command sets it. */
static void test_resize_limit(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_eqe eqe;
	struct ohca_rwqe w;

	for (uint64_t i = 0; i < 6; i++)
		host_srq_post(&r->srq, i, NULL, 0);
	assert_int_equal(set_limit(r, 6), OHCA_ADMIN_OK);
	resize(r, 4, 0, 0);
	assert_int_equal(get_limit(r), 6);
	resize(r, 5, OHCA_RESIZE_SRQ_LIMIT, 5);
	assert_int_equal(get_limit(r), 5);
	assert_int_equal(take(r, r->s, &w), 1);
	assert_false(host_eq_poll(r->h, &r->h->async, &eqe));
	assert_int_equal(take(r, r->s, &w), 1);
	assert_true(host_eq_poll(r->h, &r->h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_SRQ_LIMIT);
	/* more than there are: an event at once */
	resize(r, 6, OHCA_RESIZE_SRQ_LIMIT, 64);
	assert_true(host_eq_poll(r->h, &r->h->async, &eqe));
	assert_int_equal(eqe.type, OHCA_EVENT_SRQ_LIMIT);
	assert_int_equal(get_limit(r), 0);
	resize(r, 2, OHCA_RESIZE_SRQ_LIMIT, 4);
	resize(r, 2, OHCA_RESIZE_SRQ_LIMIT, 0);
	assert_int_equal(get_limit(r), 0);
}

/* Rung once and not asleep since: the new record does not ask for a doorbell, too. */
static void test_resize_silent(void **state)
{
	struct rig *r = *state;

	host_srq_post(&r->srq, 0, NULL, 0);
	ohca_poll(r->h->e, 64);
	resize(r, 4, 0, 0);
	r->h->kicked = false;
	host_srq_post(&r->srq, 1, NULL, 0);
	assert_false(r->h->kicked);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(take), T(shared), T(malformed), T(bad_index), T(memory_gone), T(limit),
		T(first_limit), T(suppression), T(create), T(resize), T(resize_refused),
		T(resize_limit), T(resize_silent),
	};

	return cmocka_run_group_tests_name("receive queues", tests, NULL, NULL);
}
