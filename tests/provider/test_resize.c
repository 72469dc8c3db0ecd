// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * QPs whose queues change their sizes: the WQEs that are posted are at their places in the new
 * rings, also when other threads post meanwhile, and a change that is refused has no effect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <pthread.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake.h"

#define POSTS	50000u

/** struct ring - a queue of the device; @ci: consumer index, @num: WQEs consumed so far */
struct ring {
	uint8_t *at;
	uint32_t mask, shift, ci, num;
	__le32 *pi, *done;
};

static struct device {
	uint8_t *buf;
	bool has_rq;
	struct ring sq, rq;
} dev;

struct env {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *ibqp;
	struct ohca_qp *qp;
	struct ibv_qp_cap cap;
};

static void dev_at(uint8_t *buf, uint32_t log_sq, uint32_t log_rq)
{
	struct ohca_hw_db *db = (struct ohca_hw_db *)buf;

	dev.buf = buf;
	dev.sq.at = buf + ohca_sq_offset(dev.has_rq, log_rq, dev.rq.shift);
	dev.sq.mask = (1u << log_sq) - 1;
	dev.sq.pi = &db->sq_pi;
	dev.sq.done = &db->sq_ci;
	dev.rq.at = buf + OHCA_RQ_RING_OFFSET;
	dev.rq.mask = (1u << log_rq) - 1;
	dev.rq.pi = &db->rq_pi;
	dev.rq.done = &db->rq_ci;
}

static uint8_t *slot(const struct ring *r, uint32_t i)
{
	return r->at + ((size_t)(i & r->mask) << r->shift);
}

static uint32_t posted(const struct ring *r)
{
	return le32toh(__atomic_load_n(r->pi, __ATOMIC_ACQUIRE));
}

/* Consumes the WQEs that are posted; their wr_ids count up. */
static void dev_send(uint32_t max)
{
	struct ohca_hw_wqe_ctrl c;

	for (; max && dev.sq.ci != posted(&dev.sq); max--, dev.sq.num++) {
		memcpy(&c, slot(&dev.sq, dev.sq.ci), sizeof(c));
		assert_int_equal(le64toh(c.wr_id), dev.sq.num);
		dev.sq.ci += (c.nseg + 3) / 4;
	}
	__atomic_store_n(dev.sq.done, htole32(dev.sq.ci), __ATOMIC_RELEASE);
}

static void dev_recv(uint32_t max)
{
	for (; max && dev.rq.ci != posted(&dev.rq); max--, dev.rq.ci++, dev.rq.num++)
		assert_int_equal(le64toh(*(uint64_t *)slot(&dev.rq, dev.rq.ci)), dev.rq.num);
	__atomic_store_n(dev.rq.done, htole32(dev.rq.ci), __ATOMIC_RELEASE);
}

static void copy(uint8_t *to, uint32_t log, const struct ring *r)
{
	for (uint32_t i = r->ci; i != posted(r); i++)
		memcpy(to + ((size_t)(i & ((1u << log) - 1)) << r->shift), slot(r, i),
		       1u << r->shift);
}

/* RESIZE_QP, as the interface contract defines it. */
static int dev_move(const struct ohca_modify_qp_req *req)
{
	uint64_t size = ohca_qp_buf_size(dev.has_rq, req->log_rq, dev.rq.shift, req->log_sq);
	uint64_t old = ohca_qp_buf_size(dev.has_rq, __builtin_ctz(dev.rq.mask + 1), dev.rq.shift,
					__builtin_ctz(dev.sq.mask + 1));
	uint8_t *buf = (uint8_t *)(uintptr_t)req->buf_addr, *was = dev.buf;

	assert_true(req->buf_size >= size && !req->comp_mask && !req->reserved);
	assert_true(req->max_send_wr <= 1u << req->log_sq);
	if (posted(&dev.sq) - dev.sq.ci > 1u << req->log_sq ||
	    posted(&dev.rq) - dev.rq.ci > 1u << req->log_rq)
		return EINVAL;
	memcpy(buf, was, sizeof(struct ohca_hw_db));
	copy(buf + ohca_sq_offset(dev.has_rq, req->log_rq, dev.rq.shift), req->log_sq, &dev.sq);
	copy(buf + OHCA_RQ_RING_OFFSET, req->log_rq, &dev.rq);
	/* no WQE may be posted to the old buffer any more */
	memset(was, 0xa5, old);
	dev_at(buf, req->log_sq, req->log_rq);
	return 0;
}

static void make(struct env *e, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = e->cq, .recv_cq = e->cq, .srq = srq, .qp_type = type,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 6,
			 .max_recv_sge = 5, .max_inline_data = 64 },
	};
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };

	e->ibqp = ops.create_qp(e->pd, &attr);
	assert_non_null(e->ibqp);
	e->cap = attr.cap;
	e->qp = to_oqp(e->ibqp);
	dev = (struct device){
		.has_rq = !srq && type != IBV_QPT_XRC_SEND, .sq.shift = OHCA_BB_SHIFT,
		.rq.shift = fake.qp_req.log_rq_stride,
	};
	dev_at(e->qp->buf.addr, fake.qp_req.log_sq, fake.qp_req.log_rq);
	assert_int_equal(ops.modify_qp(e->ibqp, &rts, IBV_QP_STATE), 0);
}

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));

	e->ctx = fake_open();
	e->pd = ops.alloc_pd(e->ctx);
	e->cq = ops.create_cq(e->ctx, 8, NULL, 0);
	make(e, IBV_QPT_RC, NULL);
	fake.on_modify_qp = dev_move;
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	fake.on_modify_qp = NULL;
	ops.destroy_qp(e->ibqp);
	ops.destroy_cq(e->cq);
	ops.dealloc_pd(e->pd);
	fake_close(e->ctx);
	free(e);
	return fake.bufs || fake.opens;
}

/* WQEs of one and of two blocks. */
static int post_send(struct env *e, uint32_t wr_id)
{
	struct ibv_sge sge[6] = { { 0x1000, 64, 7 } };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = wr_id % 3 * 3 }, *bad;

	wr.opcode = IBV_WR_SEND;
	return ops.post_send(e->ibqp, &wr, &bad);
}

static int post_recv(struct env *e, uint32_t wr_id)
{
	struct ibv_sge sge = { 0x1000, 64, 7 };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = wr_id & 1 }, *bad;

	return ops.post_recv(e->ibqp, &wr, &bad);
}

static int resize(struct env *e, uint32_t send, uint32_t recv)
{
	struct ibv_qp_attr attr = { .cap = e->cap }, now;
	struct ibv_qp_init_attr init;
	int err;

	attr.cap.max_send_wr = send;
	attr.cap.max_recv_wr = recv;
	err = ops.modify_qp(e->ibqp, &attr, IBV_QP_CAP);
	if (!err)
		e->cap = attr.cap;
	/* refused or not, there is one buffer, and all parts know its size */
	assert_int_equal(ops.query_qp(e->ibqp, &now, IBV_QP_CAP, &init), 0);
	assert_memory_equal(&now.cap, &e->cap, sizeof(now.cap));
	return err;
}

/* At every position of the rings, full and empty. */
static void sizes(void **state)
{
	struct env *e = *state;
	uint32_t sent = 0, recv = 0, done = 0, refused = 0;
	int bufs = fake.bufs;

	for (uint32_t round = 0; round < 1000; round++) {
		uint32_t s = 1 + round * 37 % 300, r = 1 + round * 53 % 300;
		uint32_t held = posted(&dev.sq) - dev.sq.ci, rheld = posted(&dev.rq) - dev.rq.ci;
		int err = resize(e, s, r);

		if (err) {
			assert_int_equal(err, EINVAL);
			assert_true(held > s || rheld > r);
			refused++;
		} else {
			assert_true(e->cap.max_send_wr >= s && e->cap.max_recv_wr >= r);
			assert_true(e->cap.max_recv_wr < 2 * r);
			done++;
		}
		assert_int_equal(fake.bufs, bufs);
		/* all WQEs that the limit allows can be posted, and soon no more */
		while (recv - dev.rq.num < e->cap.max_recv_wr)
			assert_int_equal(post_recv(e, recv++), 0);
		assert_int_equal(post_recv(e, recv), ENOMEM);
		while (sent - dev.sq.num < e->cap.max_send_wr)
			assert_int_equal(post_send(e, sent++), 0);
		while (!post_send(e, sent))
			sent++;
		assert_true(posted(&dev.sq) - dev.sq.ci <= dev.sq.mask + 1);
		dev_send(round % 3 ? sent : 1 + round % 7);
		dev_recv(round % 4 ? recv : 1 + round % 5);
	}
	dev_send(sent);
	dev_recv(recv);
	assert_int_equal(dev.sq.num, sent);
	assert_int_equal(dev.rq.num, recv);
	print_message("%u sizes, %u refused\n", done, refused);
	assert_true(done > 100 && refused > 50);
}

static int denied(const struct ohca_modify_qp_req *req)
{
	return EPERM;
}

static void refused(void **state)
{
	struct env *e = *state;
	struct ibv_qp_attr good = { .cap = e->cap }, a;
	struct ohca_hw_db *db = e->qp->db;

#define REFUSED(field, value)							\
	a = good;								\
	a.cap.field = (value);							\
	assert_int_equal(ops.modify_qp(e->ibqp, &a, IBV_QP_CAP), EINVAL)
	REFUSED(max_send_wr, (1u << 14) + 1);
	REFUSED(max_send_wr, UINT32_MAX);
	REFUSED(max_recv_wr, (1u << 14) + 1);
	REFUSED(max_send_sge, e->cap.max_send_sge - 1);
	REFUSED(max_recv_sge, e->cap.max_recv_sge + 1);
	REFUSED(max_inline_data, e->cap.max_inline_data + 1);
#undef REFUSED
	assert_int_equal(ops.modify_qp(e->ibqp, &good, IBV_QP_CAP | IBV_QP_STATE), EINVAL);
	assert_int_equal(ops.modify_qp(e->ibqp, &good, IBV_QP_CAP | IBV_QP_QKEY), EINVAL);
	fake.fail = ENOMEM;
	assert_int_equal(resize(e, 16, 16), ENOMEM);
	fake.on_modify_qp = denied;
	assert_int_equal(resize(e, 16, 16), EPERM);
	assert_ptr_equal(e->qp->db, db);
	fake.on_modify_qp = dev_move;
	assert_int_equal(resize(e, 16, 16), 0);
	assert_ptr_not_equal(e->qp->db, db);
}

/* QPs whose receive queue is an SRQ, or that have none: they cannot get one. */
static void other_types(void **state)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct env *e = *state, x = *e;
	struct ibv_srq *srq = ops.create_srq(e->pd, &sa);

	for (unsigned int i = 0; i < 2; i++) {
		make(&x, i ? IBV_QPT_XRC_SEND : IBV_QPT_UC, i ? NULL : srq);
		assert_int_equal(x.cap.max_recv_wr, 0);
		assert_int_equal(resize(&x, 100, 77), 0);
		assert_int_equal(x.cap.max_recv_wr, 0);
		assert_true(x.cap.max_send_wr >= 100);
		assert_int_equal(fake.modify_qp_req.log_rq, 0);
		ops.destroy_qp(x.ibqp);
	}
	ops.destroy_srq(srq);
}

static void not_there(void **state)
{
	struct env *e = *state;

	to_octx(e->ctx)->features &= ~(1ull << OHCA_FEATURE_QP_RESIZE);
	assert_int_equal(resize(e, 16, 16), EOPNOTSUPP);
}

static struct ibv_qp_cap made;	/* limits of the QP when the threads start */

static void *sender(void *arg)
{
	struct env *e = arg;
	struct ibv_qp_attr attr = { .cap = made };

	/* changes of other limits are refused, whatever the sizes are now */
	attr.cap.max_send_sge++;
	for (uint32_t i = 0; i < POSTS;) {
		int err = post_send(arg, i);

		if (err && err != ENOMEM)
			abort();
		i += !err;
		if (i % 64 == 0 && ops.modify_qp(e->ibqp, &attr, IBV_QP_CAP) != EINVAL)
			abort();
	}
	return NULL;
}

static void *receiver(void *arg)
{
	for (uint32_t i = 0; i < POSTS;) {
		int err = post_recv(arg, i);

		if (err && err != ENOMEM)
			abort();
		i += !err;
	}
	return NULL;
}

/*
 * Two threads post; a third one changes sizes and states, and consumes: no WQE is lost, all are in
 * order.
 */
static void race(void **state)
{
	struct env *e = *state;
	/* processor time, because wall time says nothing on a busy host */
	const clock_t end = clock() + 60 * CLOCKS_PER_SEC;
	uint32_t done = 0, tried = 0;
	pthread_t t[2];

	made = e->cap;
	assert_int_equal(pthread_create(&t[0], NULL, sender, e), 0);
	assert_int_equal(pthread_create(&t[1], NULL, receiver, e), 0);
	while (dev.sq.num != POSTS || dev.rq.num != POSTS) {
		int err = resize(e, 1 + tried * 37 % 300, 1 + tried * 53 % 300);
		/* both states allow posts */
		struct ibv_qp_attr s = { .qp_state = tried & 1 ? IBV_QPS_SQD : IBV_QPS_RTS };

		assert_true(err == 0 || err == EINVAL);
		assert_int_equal(ops.modify_qp(e->ibqp, &s, IBV_QP_STATE), 0);
		assert_true(clock() < end);
		done += !err;
		dev_send(tried % 50);
		dev_recv(tried++ % 60);
	}
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	assert_true(done > 100);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(sizes), T(refused), T(other_types), T(not_there), T(race),
	};

	return cmocka_run_group_tests_name("provider: QPs resized", tests, NULL, NULL);
}
