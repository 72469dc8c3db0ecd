// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decides whether the loop polls instead of sleeping, by arriving work and by the kernel's
 * counters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/base/schedstat.h"

#define LOOK	((uint64_t)FAB_SPIN_LOOK_NS)
#define LIMIT	(LOOK / 100 * FAB_SPIN_BUSY)	/* the delay between two looks */

/** struct run - a thread in simulated time */
struct run {
	struct fab_spin s;
	uint64_t now_ns;
	struct fab_spin_look look;
};

static struct run begin(void)
{
	struct run r = { .now_ns = 1000 };

	fab_spin_init(&r.s, FAB_SPIN_AUTO);
	assert_true(fab_spin_due(&r.s, r.now_ns + LOOK));
	assert_false(fab_spin_look(&r.s, r.now_ns, &r.look));
	return r;
}

/*
 * The next look at the counters, after @sleeps sleeps with @wake_ns of delay each, and a further
 * delay of @delay_ns.
 */
static bool look(struct run *r, uint64_t delay_ns, uint64_t sleeps, uint64_t wake_ns)
{
	r->now_ns += LOOK;
	r->look.delay_ns += delay_ns + sleeps * wake_ns;
	r->look.sleeps += sleeps;
	return fab_spin_look(&r->s, r->now_ns, &r->look);
}

/* Number of looks without delay until the processor counts as free. */
static unsigned int looks_until_free(struct run *r)
{
	unsigned int n = 1;

	while (!look(r, 0, 0, 0))
		assert_true(n++ < 100000);
	return n;
}

/* A configured window stays the same. */
static void test_fixed(void **state)
{
	struct fab_spin s;

	(void)state;
	fab_spin_init(&s, 20);
	assert_int_equal(s.window_ns, 20000);
	fab_spin_idled(&s, 1000000);
	fab_spin_idled(&s, 30000);
	assert_int_equal(s.window_ns, 20000);
	assert_false(fab_spin_due(&s, LOOK));
	fab_spin_init(&s, 1000000);
	assert_int_equal(s.window_ns, 1000000000);
}

/*
 * The window grows with work that came just after it, up to a limit, and shrinks to zero. Work
 * within it does not change it.
 */
static void test_window(void **state)
{
	static const uint32_t widths[] = { 6250, 12500, 25000, 50000, 50000 };
	struct run r = begin();

	(void)state;
	assert_int_equal(r.s.window_ns, 0);
	fab_spin_idled(&r.s, FAB_SPIN_MAX_NS + 1);
	assert_int_equal(r.s.window_ns, 0);
	for (unsigned int i = 0; i < 5; i++) {
		fab_spin_idled(&r.s, r.s.window_ns);
		fab_spin_idled(&r.s, FAB_SPIN_MAX_NS);
		assert_int_equal(r.s.window_ns, widths[i]);
	}
	for (unsigned int i = 4; i-- > 0;) {
		assert_int_equal(r.s.window_ns, widths[i]);
		fab_spin_idled(&r.s, UINT64_MAX);
	}
	assert_int_equal(r.s.window_ns, 0);
}

static void test_looks(void **state)
{
	struct run r = begin();

	(void)state;
	assert_false(fab_spin_due(&r.s, r.now_ns));
	assert_false(fab_spin_due(&r.s, r.now_ns + LOOK - 1));
	assert_true(fab_spin_due(&r.s, r.now_ns + LOOK));
	/* delays before the first look do not count */
	r = (struct run){ .now_ns = 5, .look = { .delay_ns = 10 * LOOK } };
	fab_spin_init(&r.s, FAB_SPIN_AUTO);
	assert_false(fab_spin_look(&r.s, r.now_ns, &r.look));
	assert_false(look(&r, 0, 0, 0));
	assert_int_equal(r.s.delay, 0);
}

/* A thread that waits for a processor sleeps at once, however soon work arrives. */
static void test_busy(void **state)
{
	struct run r = begin();

	(void)state;
	fab_spin_idled(&r.s, FAB_SPIN_MAX_NS);
	assert_false(look(&r, LIMIT, 0, 0));
	assert_int_equal(r.s.delay, 10);
	assert_int_equal(r.s.window_ns, FAB_SPIN_MIN_NS);
	assert_true(look(&r, LIMIT + LIMIT / 10, 0, 0));
	assert_true(r.s.busy);
	assert_int_equal(r.s.delay, 11);
	assert_int_equal(r.s.window_ns, 0);
	fab_spin_idled(&r.s, 1000);
	assert_int_equal(r.s.window_ns, 0);
	/* the next look does not report it again */
	assert_false(look(&r, LOOK, 0, 0));
	assert_int_equal(r.s.delay, 1000);
}

/* Wake-up delays of an idle machine do not mean that processors are busy. */
static void test_wake_ups(void **state)
{
	struct run r = begin();

	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		assert_false(look(&r, 0, 10000, FAB_SPIN_WAKE_NS));
		assert_int_equal(r.s.delay, 0);
	}
	assert_true(look(&r, LIMIT + LIMIT / 10, 10000, FAB_SPIN_WAKE_NS));
}

/* Processors count as free after a number of looks, which doubles each time that was wrong. */
static void test_patience(void **state)
{
	struct run r = begin();
	unsigned int patience = 2 * FAB_SPIN_PATIENCE;

	(void)state;
	assert_true(look(&r, LOOK, 0, 0));
	/* one busy look in between restarts the count */
	for (unsigned int i = 1; i < patience; i++)
		assert_false(look(&r, 0, 0, 0));
	assert_false(look(&r, LOOK, 0, 0));
	for (; patience < FAB_SPIN_PATIENCE_MAX; patience *= 2) {
		assert_int_equal(looks_until_free(&r), patience);
		assert_false(r.s.busy);
		fab_spin_idled(&r.s, 1000);
		assert_int_equal(r.s.window_ns, FAB_SPIN_MIN_NS);
		assert_true(look(&r, LOOK, 0, 0));
	}
	assert_int_equal(patience, FAB_SPIN_PATIENCE_MAX);
	assert_int_equal(looks_until_free(&r), patience);
	assert_true(look(&r, LOOK, 0, 0));
	assert_int_equal(looks_until_free(&r), patience);
	/* after as many free looks again, the number is the first one */
	for (unsigned int i = 0; i < patience; i++)
		assert_false(look(&r, 0, 0, 0));
	assert_true(look(&r, LOOK, 0, 0));
	assert_int_equal(looks_until_free(&r), 2 * FAB_SPIN_PATIENCE);
}

/* The kernel counts something for this thread. */
static void test_kernel(void **state)
{
	const int fd = fab_schedstat_open();
	struct fab_spin_look was, is;

	(void)state;
	assert_true(fd >= 0);
	assert_true(fab_schedstat_read(fd, &was));
	usleep(1);
	assert_true(fab_schedstat_read(fd, &is));
	assert_true(is.sleeps > was.sleeps);
	assert_true(is.delay_ns >= was.delay_ns);
	close(fd);
	assert_false(fab_schedstat_read(fd, &is));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixed),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_looks),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_wake_ups),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
