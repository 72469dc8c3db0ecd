/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Doorbells from many threads while the owner polls: none is lost. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <cmocka.h>

#include "engine/base/guestmem.h"
#include "engine/base/limits.h"
#include "engine/object/cq.h"
#include "fake_xport.h"
#include "host.h"

#define THREADS	4u
#define QPS	200u
#define RINGS	20000u

static _Atomic uint32_t posted[QPS];	/* producer indices in memory */
static uint32_t seen[QPS];		/* the owner's last reading, when it was kicked */
static _Atomic uint32_t wakes;
static struct host *h;

static void on_kick(uint32_t handle)
{
	seen[handle - OHCA_FIRST_QP] = atomic_load(&posted[handle - OHCA_FIRST_QP]);
}

static void *ring(void *arg)
{
	uint32_t x = (uint32_t)(uintptr_t)arg * 2654435761u + 1;

	for (unsigned int i = 0; i < RINGS; i++) {
		uint32_t n;

		x = x * 1664525 + 1013904223;
		n = (x >> 8) % QPS;
		atomic_fetch_add(&posted[n], 1);
		ohca_doorbell(h->e, 0, OHCA_UAR_SQ, OHCA_FIRST_QP + n, 8);
		/* and some that only count */
		ohca_doorbell(h->e, 1, OHCA_UAR_SQ, OHCA_FIRST_QP + n, 8);
	}
	return NULL;
}

/* host.c counts kicks without atomics, but any thread kicks here */
static void kick(void *p)
{
	(void)p;
	atomic_fetch_add(&wakes, 1);
}

static void test_threads(void **state)
{
	struct host_cq cq;
	struct host_qp_init in = { .scq = &cq, .rcq = &cq, .log_sq = 1, .log_rq = 1 };
	struct host_qp qp;
	pthread_t thread[THREADS];
	uint32_t last = 0;

	(void)state;
	h = host_new(1, 0x100);
	host_start(h);
	host_cq_create(h, &cq, 2, 0);
	for (unsigned int i = 0; i < QPS; i++) {
		assert_int_equal(host_qp_create(h, &qp, &in), 0);
		assert_int_equal(qp.handle, OHCA_FIRST_QP + i);
		host_buf_free(&qp.buf);
	}
	host_settle(&h, 1);
	fake.on_kick_sq = on_kick;
	h->e->ops.kick = kick;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ring, (void *)i), 0);
	/* sleep whenever the engine allows it; only a kick wakes */
	for (unsigned int idle = 0; idle < 1000000; idle++) {
		uint32_t now = atomic_load(&wakes);

		if (now != last) {
			last = now;
			while (ohca_poll(h->e, 16))
				;
			idle = 0;
		}
		if (last == THREADS * RINGS)
			break;
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	while (ohca_poll(h->e, 16))
		;
	assert_int_equal(atomic_load(&wakes), THREADS * RINGS);
	for (unsigned int i = 0; i < QPS; i++)
		assert_int_equal(seen[i], posted[i]);
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_UAR), THREADS * RINGS);
	assert_true(fake.kicks_sq >= QPS);
	assert_true(fake.kicks_sq <= THREADS * RINGS);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* Each thread sends an arm request to each CQ: every CQ fires, and none more than once. */
static struct host_cq cqs[THREADS];

static void *arm(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < 1000; i++)
		for (unsigned int n = 0; n < THREADS; n++)
			ohca_doorbell(h->e, 0, OHCA_UAR_CQ_ARM, cqs[n].cqn, 8);
	return NULL;
}

static void test_arm(void **state)
{
	struct ohca_hw_eqe eqe;
	struct ohca_hw_cqe cqe = { 0 };
	pthread_t thread[THREADS];
	unsigned int events = 0;

	(void)state;
	h = host_new(1, 0x100);
	host_start(h);
	for (unsigned int i = 0; i < THREADS; i++)
		host_cq_create(h, &cqs[i], 4, 0);
	host_settle(&h, 1);
	h->e->ops.kick = kick;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, arm, (void *)i), 0);
	for (unsigned int i = 0; i < 100; i++)
		ohca_poll(h->e, 16);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ohca_poll(h->e, 16);
	ohca_dma_enter(h->e);
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(ohca_cq_push(h->e, h->e->cq[cqs[i].cqn], &cqe, false), 0);
	ohca_dma_exit(h->e);
	while (host_eq_poll(h, &h->comp, &eqe))
		events++;
	assert_int_equal(events, THREADS);
	for (unsigned int i = 0; i < THREADS; i++)
		host_buf_free(&cqs[i].buf);
	host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_arm),
	};

	return cmocka_run_group_tests_name("doorbells", tests, NULL, NULL);
}
