// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A thread that uses a queue during a change of its size sleeps until the kernel is done, and uses
 * no processor meanwhile.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake.h"

#define QUIET	50	/* checks, one a ms, in which a sleeper must not wake up */
#define LOOKS	20000

static struct env {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
} e;

/** struct waiter - a thread that uses a queue once; @asleep: it slept before it got the queue */
static struct waiter {
	void (*use)(void);
	pthread_t thread;
	atomic_int tid;
	bool asleep;
} waiters[2];
static unsigned int num_waiters;

static void use_sq(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	if (ops.post_send(e.qp, &wr, &bad))
		abort();
}

static void use_rq(void)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	if (ops.post_recv(e.qp, &wr, &bad))
		abort();
}

static void use_builder(void)
{
	struct ibv_qp_ex *ex = &to_oqp(e.qp)->vqp.qp_ex;

	ex->wr_start(ex);
	ex->wr_send(ex);
	ex->wr_set_sge(ex, 0, 0, 0);
	if (ex->wr_complete(ex))
		abort();
}

static void use_srq(void)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	if (ops.post_srq_recv(e.srq, &wr, &bad))
		abort();
}

static void use_cq(void)
{
	struct ibv_wc wc;

	if (ops.poll_cq(e.cq, 1, &wc) != 0)
		abort();
}

static void *waiter(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->tid, gettid());
	w->use();
	return NULL;
}

/* Returns the state of a thread and counts how often it has gone to sleep. */
static char look(int tid, long *sleeps)
{
	char name[64], line[128], state = '?';
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%d/status", tid);
	f = fopen(name, "r");
	if (!f)
		return state;
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "State: %c", &state);
		sscanf(line, "voluntary_ctxt_switches: %ld", sleeps);
	}
	fclose(f);
	return state;
}

/* Returns whether the thread sleeps and stays asleep; it must begin within LOOKS milliseconds. */
static bool sleeps_on(struct waiter *w)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	long last = -1, now = 0;

	for (unsigned int i = 0, quiet = 0; i < LOOKS; i++) {
		int tid = atomic_load(&w->tid);

		quiet = tid && look(tid, &now) == 'S' && now == last ? quiet + 1 : 0;
		if (quiet == QUIET)
			return true;
		last = now;
		nanosleep(&ms, NULL);
	}
	return false;
}

/* Runs inside the command: the size changes, and no thread may use the queue. */
static void in_kernel(void)
{
	unsigned int i;

	for (i = 0; i < num_waiters; i++) {
		atomic_store(&waiters[i].tid, 0);
		if (pthread_create(&waiters[i].thread, NULL, waiter, &waiters[i]))
			abort();
	}
	for (i = 0; i < num_waiters; i++)
		waiters[i].asleep = sleeps_on(&waiters[i]);
}

static int qp_in_kernel(const struct ohca_modify_qp_req *req)
{
	in_kernel();
	return 0;
}

static int srq_in_kernel(const struct ohca_modify_srq_req *req)
{
	in_kernel();
	return 0;
}

static void cq_in_kernel(const struct ohca_resize_cq_req *req)
{
	in_kernel();
}

static int setup(void **state)
{
	struct ibv_srq_init_attr sattr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS };

	e.ctx = fake_open();
	e.pd = ops.alloc_pd(e.ctx);
	e.cq = ops.create_cq(e.ctx, 8, NULL, 0);
	attr.pd = e.pd;
	attr.send_cq = e.cq;
	attr.recv_cq = e.cq;
	e.qp = ops.create_qp_ex(e.ctx, &attr);
	e.srq = ops.create_srq(e.pd, &sattr);
	fake.on_modify_qp = qp_in_kernel;
	fake.on_modify_srq = srq_in_kernel;
	fake.on_resize = cq_in_kernel;
	return !e.qp || !e.srq || ops.modify_qp(e.qp, &rts, IBV_QP_STATE);
}

static int teardown(void **state)
{
	ops.destroy_srq(e.srq);
	ops.destroy_qp(e.qp);
	ops.destroy_cq(e.cq);
	ops.dealloc_pd(e.pd);
	fake_close(e.ctx);
	return fake.bufs || fake.opens;
}

static void resize_qp(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ops.query_qp(e.qp, &attr, IBV_QP_CAP, &init), 0);
	attr.cap.max_send_wr *= 2;
	assert_int_equal(ops.modify_qp(e.qp, &attr, IBV_QP_CAP), 0);
}

static void resize_srq(void)
{
	struct ibv_srq_attr attr = { .max_wr = 32 };

	assert_int_equal(ops.modify_srq(e.srq, &attr, IBV_SRQ_MAX_WR), 0);
}

static void resize_cq(void)
{
	assert_int_equal(ops.resize_cq(e.cq, 64), 0);
}

static void wait_for(void (*resize)(void), void (*one)(void), void (*two)(void))
{
	num_waiters = 2;
	waiters[0].use = one;
	waiters[1].use = two;
	resize();
	/* they wake up when the command is done, and then use the queue */
	for (unsigned int i = 0; i < num_waiters; i++) {
		assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
		assert_true(waiters[i].asleep);
	}
}

static void qp(void **state)
{
	wait_for(resize_qp, use_sq, use_rq);
	assert_int_equal(le32toh(to_oqp(e.qp)->db->sq_pi), 1);
	assert_int_equal(le32toh(to_oqp(e.qp)->db->rq_pi), 1);
}

static void builder(void **state)
{
	wait_for(resize_qp, use_builder, use_sq);
	assert_int_equal(le32toh(to_oqp(e.qp)->db->sq_pi), 2);
}

static void srq(void **state)
{
	wait_for(resize_srq, use_srq, use_srq);
	assert_int_equal(le32toh(to_osrq(e.srq)->rq.db->rq_pi), 2);
}

static void cq(void **state)
{
	wait_for(resize_cq, use_cq, use_cq);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = { T(qp), T(builder), T(srq), T(cq) };

	return cmocka_run_group_tests_name("provider: locks", tests, NULL, NULL);
}
