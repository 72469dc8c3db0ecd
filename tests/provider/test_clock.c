// SPDX-License-Identifier: GPL-2.0-or-later
/* Timestamps as time of day, with clocks that the test sets. Linked with --wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "fake.h"

#define DEVICE	0x500000000ull
#define S	1000000000ull

/** struct script - values of the clocks: pair number i of readings lasts @took[i] ns */
static struct {
	uint64_t day, monotonic;
	uint64_t took[8];
	unsigned int reads;	/* readings of the time of day */
} script;

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	uint64_t now = script.monotonic;

	if (id == CLOCK_REALTIME) {
		/* the second reading of a pair is later */
		now = script.day + script.reads / 2 * 1000000 +
		      (script.reads % 2 ? script.took[script.reads / 2] : 0);
		script.reads++;
		assert_true(script.reads <= 16);
	} else {
		assert_int_equal(id, CLOCK_MONOTONIC);
	}
	ts->tv_sec = now / S;
	ts->tv_nsec = now % S;
	return 0;
}

static void wall(void **state)
{
	static const struct {
		uint64_t took[8];
		unsigned int tries, best;
	} t[] = {
		/*
		 * fast enough at once; just fast enough, and just not; never: the fastest of all
		 * tries counts
		 */
		{ { 5000 }, 1, 0 },
		{ { 20000 }, 1, 0 },
		{ { 20001, 20000 }, 2, 1 },
		{ { 90000, 70000, 30000, 20000 }, 4, 3 },
		{ { 80000, 70000, 60000, 50000, 40000, 50000, 60000, 70000 }, 8, 4 },
		{ { 80000, 90000, 90000, 90000, 90000, 90000, 90000, 80001 }, 8, 0 },
		{ { 90000, 90000, 90000, 90000, 90000, 90000, 90000, 80001 }, 8, 7 },
	};
	struct ibv_context *ctx;
	struct ohca_cq *cq;
	struct ibv_cq *ibcq;

	memset(&fake, 0, sizeof(fake));
	ctx = fake_open();
	fake_clock(DEVICE);
	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint64_t offset, want;

		ibcq = ops.create_cq(ctx, 8, NULL, 0);
		cq = to_ocq(ibcq);
		memcpy(script.took, t[i].took, sizeof(script.took));
		script.day = (1700000000 + i) * S + 7;
		script.monotonic = 5 * S;
		script.reads = 0;
		want = script.day + t[i].best * 1000000ull + t[i].took[t[i].best] / 2;
		assert_int_equal(ohca_wallclock_ns(cq, DEVICE), want);
		assert_int_equal(script.reads, 2 * t[i].tries);
		/* no new comparison for a tenth of a second, however the time of day changes */
		offset = want - DEVICE;
		script.day += 3600 * S;
		script.monotonic += S / 10 - 1;
		assert_int_equal(ohca_wallclock_ns(cq, DEVICE + 77), DEVICE + 77 + offset);
		assert_int_equal(script.reads, 2 * t[i].tries);
		script.monotonic++;
		script.reads = 0;
		assert_int_equal(ohca_wallclock_ns(cq, DEVICE), want + 3600 * S);
		assert_int_equal(script.reads, 2 * t[i].tries);
		assert_int_equal(ops.destroy_cq(ibcq), 0);
	}
	fake_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(wall) };

	return cmocka_run_group_tests_name("provider: clock", tests, NULL, NULL);
}
