// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Races. First, between a device that sleeps and a driver that posts: a thread plays the device,
 * which stores its event index, checks the queue once more, and waits for a doorbell. If one is
 * lost, it waits for ever. Second, between the end of a QP and the creation of one with the same
 * number. Third, between the end of a QP and a poller of its CQ that creates another one.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake.h"

#define POSTS	200000u
#define LOST_S	20

struct race {
	struct ibv_context *ctx;
	struct ohca_qp *qp;
	uint32_t seen;
	uint32_t slept;
	int lost;
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static void *device(void *arg)
{
	struct race *r = arg;
	struct ohca_hw_db *db = r->qp->db;
	uint64_t *door = (uint64_t *)(r->qp->uar + OHCA_UAR_SQ);
	uint64_t rung = __atomic_load_n(door, __ATOMIC_RELAXED);
	double start;

	while (r->seen != POSTS) {
		uint32_t pi = le32toh(__atomic_load_n(&db->sq_pi, __ATOMIC_ACQUIRE));

		if (pi != r->seen) {
			for (; r->seen != pi; r->seen++) {
				struct ohca_hw_wqe_ctrl *c = (void *)(r->qp->sq.ring +
					(r->seen & (r->qp->sq.size - 1)) * 64);

				/* a WQE that is published is complete */
				if (le64toh(c->wr_id) != r->seen)
					abort();
			}
			__atomic_store_n(&db->sq_ci, htole32(pi), __ATOMIC_RELEASE);
			continue;
		}
		__atomic_store_n(&db->sq_event, htole32(pi), __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (le32toh(__atomic_load_n(&db->sq_pi, __ATOMIC_RELAXED)) != pi)
			continue;
		r->slept++;
		start = now();
		while (__atomic_load_n(door, __ATOMIC_RELAXED) == rung) {
			sched_yield();
			if (now() - start > LOST_S) {
				r->lost = 1;
				return NULL;
			}
		}
		rung = __atomic_load_n(door, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void no_doorbell_is_lost(void **state)
{
	struct race r = { .ctx = fake_open() };
	struct ibv_pd *pd = ops.alloc_pd(r.ctx);
	struct ibv_cq *cq = ops.create_cq(r.ctx, 8, NULL, 0);
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
				      .cap = { 16, 1, 1, 1, 0 } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };
	struct ibv_qp *qp = ops.create_qp(pd, &a);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	double stuck = 0;
	pthread_t t;
	uint32_t i;
	int err;

	r.qp = to_oqp(qp);
	ops.modify_qp(qp, &rts, IBV_QP_STATE);
	assert_int_equal(pthread_create(&t, NULL, device, &r), 0);
	for (i = 0; i < POSTS; i++) {
		wr.wr_id = i;
		while ((err = ops.post_send(qp, &wr, &bad)) == ENOMEM) {
			sched_yield();
			if (!stuck)
				stuck = now();
			if (now() - stuck > LOST_S + 10)
				break;
		}
		stuck = 0;
		if (err)
			break;
		/* give the device the chance to sleep at different moments */
		if (i % 7 == 0)
			for (uint32_t spin = i % 300; spin; spin--)
				__atomic_signal_fence(__ATOMIC_SEQ_CST);
	}
	pthread_join(t, NULL);
	assert_int_equal(err, 0);
	assert_int_equal(r.lost, 0);
	assert_int_equal(r.seen, POSTS);
	assert_true(r.slept > 0);
	ops.destroy_qp(qp);
	ops.destroy_cq(cq);
	ops.dealloc_pd(pd);
	fake_close(r.ctx);
}

/*
 * A number (of a QP, or of an XRC SRQ) that one thread frees and another one gets. The first thread
 * is in the command that destroys its object, which lasts until events are acknowledged. The second
 * thread acknowledges them when it has made its own object.
 */
static struct {
	bool srq;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	void *next;
	pthread_t other;
	uint32_t number;
	atomic_bool acknowledged;
	bool in_time;
	bool early;
} reuse;

static void *small_one(void)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .send_cq = reuse.cq,
				      .recv_cq = reuse.cq, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_srq_init_attr_ex ex = {
		.attr = { .max_wr = 1, .max_sge = 1 }, .pd = reuse.pd, .cq = reuse.cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
	};

	if (reuse.srq)
		return ops.create_srq_ex(reuse.pd->context, &ex);
	return ops.create_qp(reuse.pd, &a);
}

static uint32_t number_of(void *one)
{
	return reuse.srq ? to_osrq(one)->rq.number : to_oqp(one)->handle;
}

static int destroy(void *one)
{
	return reuse.srq ? ops.destroy_srq(one) : ops.destroy_qp(one);
}

static void complete(uint32_t pi, uint64_t wr_id)
{
	if (reuse.srq)
		fake_complete_xrc(to_ocq(reuse.cq), pi, wr_id, reuse.number, 77);
	else
		fake_complete(to_ocq(reuse.cq), pi, wr_id, reuse.number);
}

static void *take_number(void *arg)
{
	fake.next_handle = reuse.number;
	reuse.next = small_one();
	/* completions from here on must not be taken for those of the first object */
	reuse.early = ohca_cq_pending(to_ocq(reuse.cq));
	complete(1, 2);
	atomic_store(&reuse.acknowledged, true);
	return NULL;
}

/* The kernel has destroyed the object, and the provider's call has not returned yet. */
static void number_given_back(void)
{
	double start = now();

	fake.on_destroy = NULL;
	complete(0, 1);
	if (pthread_create(&reuse.other, NULL, take_number, NULL))
		abort();
	while (!atomic_load(&reuse.acknowledged) && now() - start < LOST_S)
		sched_yield();
	reuse.in_time = atomic_load(&reuse.acknowledged);
}

static void number_is_used_again(bool srq)
{
	struct ibv_context *ctx = fake_open();
	struct ibv_wc wc;
	void *one;

	memset(&reuse, 0, sizeof(reuse));
	reuse.srq = srq;
	reuse.pd = ops.alloc_pd(ctx);
	reuse.cq = ops.create_cq(ctx, 8, NULL, 0);
	one = small_one();
	reuse.number = number_of(one);
	fake.on_destroy = number_given_back;
	assert_int_equal(destroy(one), 0);
	pthread_join(reuse.other, NULL);
	assert_true(reuse.in_time);
	assert_non_null(reuse.next);
	assert_int_equal(number_of(reuse.next), reuse.number);
	assert_false(reuse.early);
	assert_int_equal(ops.poll_cq(reuse.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(ops.poll_cq(reuse.cq, 1, &wc), 0);
	destroy(reuse.next);
	ops.destroy_cq(reuse.cq);
	ops.dealloc_pd(reuse.pd);
	fake_close(ctx);
}

static void qp_number_is_used_again(void **state)
{
	number_is_used_again(false);
}

static void srq_number_is_used_again(void **state)
{
	number_is_used_again(true);
}

/*
 * A poller has the CQ's lock until it ends the poll. Meanwhile another thread destroys an object
 * and waits for that lock. The poller creates another object and must not wait for that thread.
 * With @same, a third thread creates an object with the number of the first one, and waits until
 * the second thread has cleaned the CQ; then the first object is freed.
 */
static struct {
	bool same;
	void *one;
	atomic_int waiter;	/* thread that is to wait for the CQ, or for one that does */
	atomic_bool destroyed;
	atomic_bool created;
} batch;

static void in_the_kernel(void)
{
	fake.on_destroy = NULL;
	atomic_store(&batch.destroyed, true);
}

/* Waits until the last thread that has set @waiter sleeps. */
static void until_asleep(void)
{
	const double end = now() + LOST_S;
	char path[64], text[64];
	const char *state;
	FILE *f;

	do {
		if (now() > end)
			abort();
		sched_yield();
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat",
			 atomic_load(&batch.waiter));
		f = fopen(path, "r");
		state = f && fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
		if (f)
			fclose(f);
	} while (!state || state[2] != 'S');
}

static void *destroyer(void *arg)
{
	atomic_store(&batch.waiter, gettid());
	destroy(batch.one);
	return NULL;
}

static void *same_number(void *arg)
{
	atomic_store(&batch.waiter, gettid());
	fake.next_handle = reuse.number;
	reuse.next = small_one();
	return NULL;
}

static void *poller(void *arg)
{
	pthread_t third;
	struct ibv_cq_ex *cq = &to_ocq(reuse.cq)->vcq.cq_ex;
	struct ibv_poll_cq_attr attr = {};

	if (cq->start_poll(cq, &attr))
		abort();
	fake.on_destroy = in_the_kernel;
	if (pthread_create(&reuse.other, NULL, destroyer, NULL))
		abort();
	while (!atomic_load(&batch.destroyed))
		sched_yield();
	until_asleep();
	if (batch.same) {
		atomic_store(&batch.waiter, 0);
		if (pthread_create(&third, NULL, same_number, NULL))
			abort();
		until_asleep();
		cq->end_poll(cq);
		pthread_join(third, NULL);
	} else {
		reuse.next = small_one();
		cq->end_poll(cq);
	}
	atomic_store(&batch.created, true);
	return NULL;
}

static void poller_creates(bool srq, bool same)
{
	struct ibv_context *ctx = fake_open();
	double start = now();
	pthread_t t;

	memset(&reuse, 0, sizeof(reuse));
	memset(&batch, 0, sizeof(batch));
	batch.same = same;
	reuse.srq = srq;
	reuse.pd = ops.alloc_pd(ctx);
	reuse.cq = ops.create_cq(ctx, 8, NULL, 0);
	batch.one = small_one();
	reuse.number = number_of(batch.one);
	complete(0, 1);
	complete(1, 2);
	assert_int_equal(pthread_create(&t, NULL, poller, NULL), 0);
	while (!atomic_load(&batch.created) && now() - start < LOST_S)
		sched_yield();
	assert_true(atomic_load(&batch.created));
	pthread_join(t, NULL);
	pthread_join(reuse.other, NULL);
	/* the first one was polled, and the other one was removed */
	assert_int_equal(ohca_cq_pending(to_ocq(reuse.cq)), 0);
	assert_non_null(reuse.next);
	assert_true(same == (number_of(reuse.next) == reuse.number));
	destroy(reuse.next);
	ops.destroy_cq(reuse.cq);
	ops.dealloc_pd(reuse.pd);
	fake_close(ctx);
}

static void poller_creates_qp(void **state)
{
	poller_creates(false, false);
}

static void poller_creates_srq(void **state)
{
	poller_creates(true, false);
}

static void qp_number_of_one_that_is_cleaned(void **state)
{
	poller_creates(false, true);
}

static void srq_number_of_one_that_is_cleaned(void **state)
{
	poller_creates(true, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(no_doorbell_is_lost),
					    cmocka_unit_test(qp_number_is_used_again),
					    cmocka_unit_test(srq_number_is_used_again),
					    cmocka_unit_test(poller_creates_qp),
					    cmocka_unit_test(poller_creates_srq),
					    cmocka_unit_test(qp_number_of_one_that_is_cleaned),
					    cmocka_unit_test(srq_number_of_one_that_is_cleaned) };

	return cmocka_run_group_tests_name("provider: races", tests, NULL, NULL);
}
