/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The heap of timers of QPs: its first key is the earliest one, whatever is set and cleared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/state.h"
#include "engine/transport/sched.h"
#include "engine/transport/timer.h"
#include "engine/transport/xport.h"

#define QPS	40u
#define SEED	20261127u
#define STEPS	20000u

static ohca_engine engine;
static struct ohca_sched sched;
static struct ohca_timer heap[QPS];
static struct ohca_xport qp[QPS];
static uint64_t key[QPS];	/* of the QPs in the heap */

/*
 * Sets a timer. A later time does not change the key, and OHCA_NO_DEADLINE leaves the QP in the
 * heap.
 */
static void set(unsigned int i, uint64_t t)
{
	const bool in = qp[i].sched.heap;

	ohca_timer_set(&engine, &qp[i], t);
	assert_true(qp[i].sched.timer == t);
	if (t != OHCA_NO_DEADLINE && (!in || t < key[i]))
		key[i] = t;
	assert_int_equal(qp[i].sched.heap != 0, in || t != OHCA_NO_DEADLINE);
}

static void check(void)
{
	uint64_t first = OHCA_NO_DEADLINE;
	unsigned int n = 0;

	for (unsigned int i = 0; i < QPS; i++) {
		const uint32_t at = qp[i].sched.heap;

		if (!at)
			continue;
		n++;
		assert_true(at <= sched.heap_num && heap[at - 1].xp == &qp[i]);
		assert_true(heap[at - 1].key == key[i]);
		first = key[i] < first ? key[i] : first;
	}
	assert_int_equal(n, sched.heap_num);
	assert_true(!n || heap[0].key == first);
}

static void test_heap(void **state)
{
	(void)state;
	printf("seed %u\n", SEED);
	srand(SEED);
	engine.sched = &sched;
	sched.heap = heap;
	for (unsigned int i = 0; i < STEPS; i++) {
		const unsigned int n = (unsigned int)rand() % QPS, what = (unsigned int)rand() % 8;

		if (what == 0)
			set(n, OHCA_NO_DEADLINE);
		else if (what == 1)
			ohca_timer_forget(&sched, &qp[n]);
		else if (what < 4 && sched.heap_num)
			ohca_timer_forget(&sched, heap[0].xp);
		else
			set(n, (uint64_t)rand() % 1000);
		check();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
