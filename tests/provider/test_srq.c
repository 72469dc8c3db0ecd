// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SRQs that change their size: the WQEs that are posted are at their places in the new ring, also
 * when another thread posts meanwhile, and a change that is refused has no effect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <pthread.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake.h"

#define POSTS	300000u
#define TAGS	4

/** struct device - consumer of the WQEs of the one SRQ; @ci: consumer index */
static struct device {
	struct ohca_hw_db *db;
	uint8_t *ring;
	uint32_t mask, log_stride, ci, log_ops;
	bool tm;
} dev;

struct env {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *ibsrq;
	struct ohca_srq *srq;
};

static void dev_init(struct env *e, uint32_t log)
{
	dev = (struct device){
		.db = e->srq->buf.addr, .ring = e->srq->buf.addr + OHCA_RQ_RING_OFFSET,
		.mask = (1u << log) - 1, .log_stride = e->srq->rq.log_stride,
		.log_ops = fake.srq_req.log_ops, .tm = e->srq->tm,
	};
}

static uint8_t *dev_wqe(uint32_t i)
{
	return dev.ring + ((size_t)(i & dev.mask) << dev.log_stride);
}

static uint32_t dev_posted(void)
{
	return le32toh(__atomic_load_n(&dev.db->rq_pi, __ATOMIC_ACQUIRE));
}

/* Consumes the WQEs that are posted; their wr_ids count up. */
static void dev_take(uint32_t max)
{
	uint32_t pi = dev_posted();

	for (; max && dev.ci != pi; max--, dev.ci++)
		if (le64toh(*(uint64_t *)dev_wqe(dev.ci)) != dev.ci)
			fail_msg("WQE %u has wr_id %llu", dev.ci,
				 (unsigned long long)le64toh(*(uint64_t *)dev_wqe(dev.ci)));
	__atomic_store_n(&dev.db->rq_ci, htole32(dev.ci), __ATOMIC_RELEASE);
}

/* RESIZE_SRQ, as the interface contract defines it. */
static int dev_move(const struct ohca_modify_srq_req *req)
{
	uint8_t *buf = (uint8_t *)(uintptr_t)req->buf_addr;
	uint32_t pi = dev_posted(), mask = (1u << req->log_size) - 1;
	uint64_t size = ohca_srq_buf_size(req->log_size, dev.log_stride);

	assert_true(req->buf_size >= size + (dev.tm ? ohca_tm_ring_size(dev.log_ops) : 0));
	if (pi - dev.ci > mask + 1)
		return EINVAL;
	memcpy(buf, dev.db, sizeof(*dev.db));
	for (uint32_t i = dev.ci; i != pi; i++)
		memcpy(buf + OHCA_RQ_RING_OFFSET + ((size_t)(i & mask) << dev.log_stride),
		       dev_wqe(i), 1u << dev.log_stride);
	if (dev.tm)
		memcpy(buf + size, dev.ring + ((size_t)(dev.mask + 1) << dev.log_stride),
		       ohca_tm_ring_size(dev.log_ops));
	/* no WQE may be posted to the old buffer any more */
	memset(dev.db, 0xa5, OHCA_RQ_RING_OFFSET + ((size_t)(dev.mask + 1) << dev.log_stride));
	dev.db = (struct ohca_hw_db *)buf;
	dev.ring = buf + OHCA_RQ_RING_OFFSET;
	dev.mask = mask;
	return 0;
}

static int setup(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 5 } };
	struct env *e = calloc(1, sizeof(*e));

	e->ctx = fake_open();
	e->pd = ops.alloc_pd(e->ctx);
	e->ibsrq = ops.create_srq(e->pd, &attr);
	*state = e;
	if (!e->ibsrq)
		return -1;
	e->srq = to_osrq(e->ibsrq);
	dev_init(e, 3);
	fake.on_modify_srq = dev_move;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	fake.on_modify_srq = NULL;
	ops.destroy_srq(e->ibsrq);
	ops.dealloc_pd(e->pd);
	fake_close(e->ctx);
	free(e);
	return fake.bufs || fake.opens;
}

static int post(struct env *e, uint32_t wr_id)
{
	struct ibv_sge sge = { 0x1000, 64, 7 };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = wr_id & 1 }, *bad;

	return ops.post_srq_recv(e->ibsrq, &wr, &bad);
}

static int resize(struct env *e, uint32_t max_wr)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr };

	return ops.modify_srq(e->ibsrq, &attr, IBV_SRQ_MAX_WR);
}

/* At every position of the rings, full and empty. */
static void sizes(void **state)
{
	struct env *e = *state;
	struct ibv_srq_attr attr;
	uint32_t posted = 0, size = 8, held, i, round;

	for (round = 0; round < 500; round++) {
		uint32_t want = 1 + round * 37 % 300;

		while (posted - dev.ci < round % 7 && posted - dev.ci < size)
			assert_int_equal(post(e, posted++), 0);
		held = posted - dev.ci;
		if (held > 1u << ohca_log2_up(want)) {
			assert_int_equal(resize(e, want), EINVAL);
			assert_int_equal(e->srq->rq.size, size);
		} else {
			assert_int_equal(resize(e, want), 0);
			size = e->srq->rq.size;
			assert_true(size >= want && size < 2 * want);
		}
		assert_int_equal(fake.bufs, 1);
		assert_int_equal(ops.query_srq(e->ibsrq, &attr), 0);
		assert_int_equal(attr.max_wr, size);
		for (i = 0; i < 3; i++) {
			while (posted - dev.ci < size)
				assert_int_equal(post(e, posted++), 0);
			assert_int_equal(post(e, posted), ENOMEM);
			dev_take(1 + round % 5);
		}
		dev_take(round % 2 ? size : size - 3);
	}
	assert_int_equal(dev_posted(), posted);
}

static int denied(const struct ohca_modify_srq_req *req)
{
	return EPERM;
}

static void refused(void **state)
{
	struct env *e = *state;
	struct ibv_srq_attr attr = { .max_wr = 16, .srq_limit = 3 };
	uint32_t i;

	assert_int_equal(resize(e, 0), EINVAL);
	assert_int_equal(resize(e, (1u << 14) + 1), EINVAL);
	for (i = 0; i < 5; i++)
		assert_int_equal(post(e, i), 0);
	assert_int_equal(resize(e, 4), EINVAL);
	/* no memory for it */
	fake.fail = ENOMEM;
	assert_int_equal(resize(e, 16), ENOMEM);
	fake.on_modify_srq = denied;
	assert_int_equal(resize(e, 16), EPERM);
	fake.on_modify_srq = dev_move;
	assert_int_equal(fake.bufs, 1);
	for (; i < 8; i++)
		assert_int_equal(post(e, i), 0);
	assert_int_equal(post(e, i), ENOMEM);
	/* the kernel sets the limit, in the same command or alone */
	assert_int_equal(ops.modify_srq(e->ibsrq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	assert_int_equal(fake.srq_mask, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
	assert_int_equal(ops.modify_srq(e->ibsrq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(fake.srq_mask, IBV_SRQ_LIMIT);
	for (; i < 16; i++)
		assert_int_equal(post(e, i), 0);
	dev_take(100);
	assert_int_equal(dev.ci, 16);
}

static void not_there(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 5 } };
	struct env *e = *state, old = { 0 };

	(void)e;
	fake.features = ~(1ull << OHCA_FEATURE_SRQ_RESIZE);
	old.ctx = fake_open();
	fake.features = ~0ull;
	old.pd = ops.alloc_pd(old.ctx);
	old.ibsrq = ops.create_srq(old.pd, &attr);
	assert_int_equal(resize(&old, 16), EOPNOTSUPP);
	ops.destroy_srq(old.ibsrq);
	ops.dealloc_pd(old.pd);
	fake_close(old.ctx);
}

static void *poster(void *arg)
{
	struct env *e = arg;

	for (uint32_t i = 0; i < POSTS;) {
		struct ibv_srq_attr attr;
		int err = post(e, i);

		if (!err)
			i++;
		else if (err != ENOMEM)
			abort();
		if (i % 1024 == 0 && (ops.query_srq(e->ibsrq, &attr) || attr.max_sge != 7))
			abort();
	}
	return NULL;
}

/* One thread posts, another one changes the size and consumes: no WQE is lost, all are in order. */
static void race(void **state)
{
	struct env *e = *state;
	uint32_t done = 0, tried = 0;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, poster, e), 0);
	while (dev.ci != POSTS) {
		int err = resize(e, 1 + tried++ * 37 % 300);

		assert_true(err == 0 || err == EINVAL);
		done += !err;
		dev_take(tried % 50);
	}
	pthread_join(t, NULL);
	assert_true(done > 100);
}

/*
 * The ring of list operations moves, too, with those that have been executed and those that have
 * not.
 */
static void list_operations(void **state)
{
	struct env *e = *state;
	struct env x = { .ctx = e->ctx, .pd = e->pd };
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8, .max_sge = 2 }, .pd = e->pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM, .tm_cap = { .max_num_tags = TAGS, .max_ops = 4 },
	};
	struct ohca_hw_tm_wqe *w;
	uint32_t n, i;

	x.cq = ops.create_cq(x.ctx, 8, NULL, 0);
	attr.cq = x.cq;
	x.ibsrq = ops.create_srq_ex(x.ctx, &attr);
	assert_non_null(x.ibsrq);
	x.srq = to_osrq(x.ibsrq);
	dev_init(&x, 3);
	for (n = 0; n < 40; n++) {
		struct ibv_ops_wr add = { .wr_id = n, .opcode = IBV_WR_TAG_ADD,
					  .tm.add = { .recv_wr_id = 500 + n, .tag = n } };
		struct ibv_ops_wr del = { .opcode = IBV_WR_TAG_DEL }, *bad;

		/* all tags are free again, because the operations before the moves were executed */
		assert_int_equal(ops.post_srq_ops(x.ibsrq, &add, &bad), 0);
		del.tm.handle = add.tm.handle;
		assert_int_equal(ops.post_srq_ops(x.ibsrq, &del, &bad), 0);
		assert_int_equal(resize(&x, 1 + n * 11 % 60), 0);
		assert_int_equal(le32toh(x.srq->rq.db->sq_pi), 2 * n + 2);
		for (i = 2 * n; i < 2 * n + 2; i++) {
			w = (void *)(dev.ring + ((size_t)(dev.mask + 1) << dev.log_stride) +
				     (i & 3) * 64);
			assert_int_equal(w->opcode, i & 1 ? OHCA_TM_DEL : OHCA_TM_ADD);
			assert_int_equal(le32toh(w->handle), add.tm.handle);
			w->result = htole32(OHCA_TM_DONE);
		}
		dev.db->sq_ci = htole32(2 * n + 2);
		if (n & 1)
			assert_int_equal(resize(&x, 5), 0);
	}
	ops.destroy_srq(x.ibsrq);
	ops.destroy_cq(x.cq);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(sizes), T(refused), T(not_there), T(race), T(list_operations),
	};

	return cmocka_run_group_tests_name("provider: SRQs", tests, NULL, NULL);
}
