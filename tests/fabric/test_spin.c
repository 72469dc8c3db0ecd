// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decides for how long the loop polls before it sleeps, by arriving work and by the threads that
 * want a processor.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/base/runnable.h"
#include "fabric/base/spin.h"

#define LOOK		((uint64_t)FAB_SPIN_LOOK_NS)
#define PROCESSORS	4u

/** struct run - a thread in simulated time */
struct run {
	struct fab_spin s;
	uint64_t now_ns;
};

static struct run begin(void)
{
	struct run r = { .now_ns = 1000 };

	fab_spin_init(&r.s, FAB_SPIN_AUTO, PROCESSORS);
	assert_true(fab_spin_due(&r.s, r.now_ns + LOOK));
	return r;
}

/* The next look, which finds @runnable threads. */
static bool look(struct run *r, uint32_t runnable)
{
	bool changed;

	r->now_ns += LOOK;
	changed = fab_spin_look(&r->s, r->now_ns, runnable);
	assert_int_equal(r->s.runnable, runnable);
	return changed;
}

/* The looks after which processors that were free are busy. */
static void until_busy(struct run *r)
{
	for (unsigned int i = 1; i < FAB_SPIN_BUSY; i++)
		assert_false(look(r, PROCESSORS + 1));
	assert_true(look(r, PROCESSORS + 1));
	assert_true(r->s.busy);
}

/* Number of looks that find processors free until they count as free. */
static unsigned int until_free(struct run *r)
{
	unsigned int n = 1;

	while (!look(r, PROCESSORS))
		assert_true(n++ < 1000000);
	assert_false(r->s.busy);
	return n;
}

/* A configured window stays the same. */
static void test_fixed(void **state)
{
	struct fab_spin s;

	(void)state;
	fab_spin_init(&s, 20, PROCESSORS);
	assert_int_equal(s.window_ns, 20000);
	fab_spin_idled(&s, 1000000);
	fab_spin_idled(&s, 30000);
	assert_int_equal(s.window_ns, 20000);
	assert_false(fab_spin_due(&s, LOOK));
	fab_spin_init(&s, 0, PROCESSORS);
	fab_spin_idled(&s, 1);
	assert_int_equal(s.window_ns, 0);
	fab_spin_init(&s, 1000000, PROCESSORS);
	assert_int_equal(s.window_ns, 1000000000);
}

/*
 * The window grows with work that came just after it, up to a limit, and shrinks to the least. Work
 * within it does not change it.
 */
static void test_window(void **state)
{
	static const uint32_t widths[] = { 6250, 12500, 25000, 50000, 50000 };
	struct run r = begin();

	(void)state;
	assert_int_equal(r.s.window_ns, FAB_SPIN_LEAST_NS);
	fab_spin_idled(&r.s, FAB_SPIN_MAX_NS + 1);
	assert_int_equal(r.s.window_ns, FAB_SPIN_LEAST_NS);
	for (unsigned int i = 0; i < 5; i++) {
		fab_spin_idled(&r.s, r.s.window_ns);
		fab_spin_idled(&r.s, FAB_SPIN_MAX_NS);
		assert_int_equal(r.s.window_ns, widths[i]);
	}
	for (unsigned int i = 4; i-- > 0;) {
		assert_int_equal(r.s.window_ns, widths[i]);
		fab_spin_idled(&r.s, UINT64_MAX);
	}
	assert_int_equal(r.s.window_ns, FAB_SPIN_LEAST_NS);
}

static void test_looks(void **state)
{
	struct run r = begin();

	(void)state;
	assert_false(look(&r, 1));
	assert_false(fab_spin_due(&r.s, r.now_ns));
	assert_false(fab_spin_due(&r.s, r.now_ns + LOOK - 1));
	assert_true(fab_spin_due(&r.s, r.now_ns + LOOK));
}

/* On busy processors the window is the least, however soon work arrives. */
static void test_busy(void **state)
{
	struct run r = begin();

	(void)state;
	/* as many threads as processors do not wait */
	for (unsigned int i = 0; i < 100; i++)
		assert_false(look(&r, PROCESSORS));
	fab_spin_idled(&r.s, FAB_SPIN_MAX_NS);
	until_busy(&r);
	assert_int_equal(r.s.window_ns, FAB_SPIN_LEAST_NS);
	fab_spin_idled(&r.s, FAB_SPIN_LEAST_NS + 1);
	assert_int_equal(r.s.window_ns, FAB_SPIN_LEAST_NS);
	/* further looks do not report it again */
	for (unsigned int i = 0; i < 100; i++)
		assert_false(look(&r, 1000));
}

/* Threads that run for a moment do not make processors busy. */
static void test_moments(void **state)
{
	struct run r = begin();

	(void)state;
	for (unsigned int i = 0; i < 1000; i++)
		assert_false(look(&r, i % 8 < FAB_SPIN_BUSY - 1 ? PROCESSORS + 1 : PROCESSORS));
	/* those of the last 8 looks count */
	r = begin();
	assert_false(look(&r, PROCESSORS + 1));
	for (unsigned int i = 0; i < 5; i++)
		assert_false(look(&r, 1));
	assert_false(look(&r, PROCESSORS + 1));
	assert_true(look(&r, PROCESSORS + 1));
}

/* Processors count as free after a number of looks, which doubles each time that was wrong. */
static void test_patience(void **state)
{
	struct run r = begin();
	unsigned int patience = 2 * FAB_SPIN_PATIENCE;

	(void)state;
	until_busy(&r);
	/* one busy look in between restarts the count */
	for (unsigned int i = 1; i < patience; i++)
		assert_false(look(&r, PROCESSORS));
	assert_false(look(&r, PROCESSORS + 1));
	for (; patience < FAB_SPIN_PATIENCE_MAX; patience *= 2) {
		assert_int_equal(until_free(&r), patience);
		fab_spin_idled(&r.s, FAB_SPIN_LEAST_NS + 1);
		assert_int_equal(r.s.window_ns, FAB_SPIN_MIN_NS);
		until_busy(&r);
	}
	assert_int_equal(patience, FAB_SPIN_PATIENCE_MAX);
	assert_int_equal(until_free(&r), patience);
	until_busy(&r);
	assert_int_equal(until_free(&r), patience);
	/* after as many free looks again, the number is the first one */
	for (unsigned int i = 0; i < patience; i++)
		assert_false(look(&r, PROCESSORS));
	until_busy(&r);
	assert_int_equal(until_free(&r), 2 * FAB_SPIN_PATIENCE);
}

/* The kernel counts this thread, and knows how many processors it may use. */
static void test_kernel(void **state)
{
	const int fd = fab_runnable_open();
	cpu_set_t all, one;
	uint32_t threads = 0;
	int cpu = 0;

	(void)state;
	assert_true(fd >= 0);
	assert_true(fab_runnable_read(fd, &threads));
	assert_in_range(threads, 1, 1u << 22);
	close(fd);
	assert_false(fab_runnable_read(fd, &threads));
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	assert_int_equal(fab_processors(), CPU_COUNT(&all));
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(fab_processors(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixed),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_looks),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_moments),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
