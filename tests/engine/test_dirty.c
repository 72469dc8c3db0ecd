// SPDX-License-Identifier: GPL-2.0-or-later
#define _DEFAULT_SOURCE
/*
 * The log of the memory that a daemon has written: the daemon sets it, and the front reads and
 * clears it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "front/dirty.h"

#define PAGE	((uint64_t)OHCA_DIRTY_PAGE)
#define FAN	((uint64_t)OHCA_DIRTY_FAN)
#define MOST	8u

/** struct log - a log of @bytes of memory, and the runs that were read from it */
struct log {
	struct ohca_dirty d;
	uint64_t bytes;
	uint8_t *mem;
	uint64_t runs, pages;
	uint64_t first[MOST], num[MOST];
};

static void log_open(struct log *l, uint64_t bytes)
{
	*l = (struct log){ .bytes = bytes };
	/* on the heap, so that ASan detects writes past the end */
	l->mem = calloc(1, OHCA_DIRTY_BYTES(bytes));
	assert_non_null(l->mem);
	ohca_dirty_place(&l->d, bytes, l->mem);
}

static void log_run(void *arg, uint64_t off, uint64_t len)
{
	struct log *l = arg;

	assert_true(len && !((off | len) % PAGE));
	assert_true(off + len <= (l->bytes + PAGE - 1) / PAGE * PAGE);
	if (l->runs < MOST) {
		l->first[l->runs] = off / PAGE;
		l->num[l->runs] = len / PAGE;
	}
	l->runs++;
	l->pages += len / PAGE;
}

static void log_take(struct log *l)
{
	l->runs = l->pages = 0;
	ohca_dirty_take(&l->d, log_run, l);
}

/* Reads everything that is set; a second call then finds nothing. */
static void log_close(struct log *l)
{
	log_take(l);
	log_take(l);
	assert_int_equal(l->runs, 0);
	free(l->mem);
}

/* The bytes of all levels are inside the log and do not overlap. */
static void test_sizes(void **state)
{
	static const uint64_t sizes[] = {
		1, PAGE, PAGE + 1, FAN * PAGE, FAN * PAGE + 1, FAN * FAN * PAGE,
		FAN * FAN * PAGE + PAGE, 3 * FAN * FAN * FAN * PAGE + 5,
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const uint64_t pages = (sizes[i] + PAGE - 1) / PAGE;
		struct log l;

		assert_int_equal(OHCA_DIRTY_BYTES(sizes[i]) % 4096, 0);
		log_open(&l, sizes[i]);
		for (uint64_t k = 0; k < 2; k++) {
			ohca_dirty_set(&l.d, k ? sizes[i] - 1 : 0, 1);
			log_take(&l);
			assert_int_equal(l.runs, 1);
			assert_int_equal(l.first[0], k ? pages - 1 : 0);
			assert_int_equal(l.num[0], 1);
		}
		ohca_dirty_set(&l.d, 0, sizes[i]);
		log_take(&l);
		assert_int_equal(l.runs, 1);
		assert_int_equal(l.num[0], pages);
		/* whatever the other side has left there */
		memset(l.mem, 0xff, OHCA_DIRTY_BYTES(sizes[i]));
		log_take(&l);
		assert_int_equal(l.runs, 1);
		assert_int_equal(l.num[0], pages);
		log_close(&l);
	}
	/* the largest memory that is allowed */
	assert_true(OHCA_DIRTY_BYTES(1ull << 42) < (1ull << 42) / 4000);
}

/* Pages beside each other are one run, across all borders, and a run is read once. */
static void test_runs(void **state)
{
	static const uint64_t want[][2] = { { 0, 2 }, { 63, 3 }, { 4094, 4 }, { 5000, 1 }, { 8191, 1 } };
	struct log l;

	(void)state;
	log_open(&l, 2 * FAN * FAN * PAGE);
	log_take(&l);
	assert_int_equal(l.runs, 0);
	ohca_dirty_set(&l.d, PAGE - 1, 2);
	ohca_dirty_set(&l.d, 65 * PAGE, PAGE);
	ohca_dirty_set(&l.d, 63 * PAGE, 2 * PAGE);
	ohca_dirty_set(&l.d, 4094 * PAGE + 8, 3 * PAGE);
	ohca_dirty_set(&l.d, 5000 * PAGE + 100, 8);
	ohca_dirty_set(&l.d, 5000 * PAGE, 8);
	ohca_dirty_set(&l.d, 8191 * PAGE + 4088, 8);
	log_take(&l);
	assert_int_equal(l.runs, 5);
	for (unsigned int i = 0; i < 5; i++) {
		assert_int_equal(l.first[i], want[i][0]);
		assert_int_equal(l.num[i], want[i][1]);
	}
	log_take(&l);
	assert_int_equal(l.runs, 0);
	log_close(&l);
}

/* A log with every byte set: the calls are bounded, and all of it is reported. */
static void test_bound(void **state)
{
	const uint64_t groups = 1000, pages = groups * FAN;
	struct log l;

	(void)state;
	log_open(&l, pages * PAGE);
	for (uint64_t i = 0; i < pages; i += 2)
		ohca_dirty_set(&l.d, i * PAGE, 1);
	log_take(&l);
	assert_in_range(l.runs, OHCA_DIRTY_RUNS, OHCA_DIRTY_RUNS + groups / 2);
	/* the pages that are distinguished, and the rest as a whole */
	assert_in_range(l.pages, pages - OHCA_DIRTY_RUNS - 2 * FAN, pages - OHCA_DIRTY_RUNS);
	log_close(&l);
}

/* ---- the order of the stores ------------------------------------------------------- */

/* Levels, each in a page of its own, and the order of the stores to them. */
static uint8_t *level[3];
static volatile sig_atomic_t stored[8], stores;

static void note_store(int sig, siginfo_t *si, void *context)
{
	(void)context;
	for (int i = 0; i < 3; i++) {
		if ((uintptr_t)si->si_addr - (uintptr_t)level[i] >= PAGE)
			continue;
		stored[stores++ % 8] = i;
		mprotect(level[i], PAGE, PROT_READ | PROT_WRITE);
		return;
	}
	signal(sig, SIG_DFL);
}

/*
 * The lowest level first, and each one even if it is set, because a read would not order the
 * stores.
 */
static void test_order(void **state)
{
	const struct sigaction sa = { .sa_sigaction = note_store, .sa_flags = SA_SIGINFO };
	struct ohca_dirty d = { .pages = FAN };
	struct sigaction was;

	(void)state;
	for (int i = 0; i < 3; i++) {
		level[i] = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(level[i], MAP_FAILED);
	}
	d.page = (void *)level[0];
	d.sum = (void *)level[1];
	d.top = (void *)level[2];
	assert_int_equal(sigaction(SIGSEGV, &sa, &was), 0);
	for (int round = 0; round < 2; round++) {
		stores = 0;
		for (int i = 0; i < 3; i++)
			mprotect(level[i], PAGE, PROT_READ);
		ohca_dirty_set(&d, 5 * PAGE, 8);
		assert_int_equal(stores, 3);
		for (int i = 0; i < 3; i++)
			assert_int_equal(stored[i], i);
	}
	sigaction(SIGSEGV, &was, NULL);
	for (int i = 0; i < 3; i++)
		munmap(level[i], PAGE);
}

/* ---- both at once ------------------------------------------------------------------- */

#define PAGES		(2 * OHCA_DIRTY_FAN * OHCA_DIRTY_FAN)
#define MET		1000u		/* new writes that the front sees while others are made */
#define WRITES		20000000u	/* at most */

/**
 * struct race - a daemon that writes pages, and a front that has a copy of each
 * @data: the last write to each page; @copy: the front's copy
 * @told: number of the last write, and its page
 * @met: times that the front saw another number than before
 * @last: number of the last write of all, when it is made
 */
static struct race {
	struct log l;
	_Atomic uint32_t data[PAGES];
	uint32_t copy[PAGES];
	_Atomic uint64_t told;
	_Atomic uint32_t met, last;
} race;

static void *write_pages(void *arg)
{
	uint32_t page = 1;

	(void)arg;
	for (uint32_t n = 1; ; n++) {
		/* three times of four the same page again, whose byte may be set or just be read */
		if (n % 4 == 0)
			page = (page * 1103515245u + 12345u) % PAGES;
		atomic_store_explicit(&race.data[page], n, memory_order_relaxed);
		ohca_dirty_set(&race.l.d, page * PAGE, 1);
		atomic_store_explicit(&race.told, (uint64_t)n << 32 | page, memory_order_release);
		if (n < WRITES && race.met < MET)
			continue;
		race.last = n;
		return NULL;
	}
}

static void copy_run(void *arg, uint64_t off, uint64_t len)
{
	(void)arg;
	for (uint64_t i = off / PAGE; i < (off + len) / PAGE; i++)
		race.copy[i] = atomic_load_explicit(&race.data[i], memory_order_relaxed);
}

/* If the front knows of a write and then reads the log, it gets that write. */
static void test_race(void **state)
{
	unsigned int late = 0;
	pthread_t writer;
	uint64_t told = 0, was = 0;

	(void)state;
	log_open(&race.l, PAGES * PAGE);
	assert_int_equal(pthread_create(&writer, NULL, write_pages, NULL), 0);
	while (!race.last || told >> 32 < race.last) {
		told = atomic_load_explicit(&race.told, memory_order_acquire);
		ohca_dirty_take(&race.l.d, copy_run, NULL);
		late += race.copy[(uint32_t)told] < told >> 32;
		race.met += told != was;
		was = told;
	}
	pthread_join(writer, NULL);
	assert_int_equal(late, 0);
	for (unsigned int i = 0; i < PAGES; i++)
		assert_int_equal(race.copy[i], race.data[i]);
	log_close(&race.l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes), cmocka_unit_test(test_runs),
		cmocka_unit_test(test_bound), cmocka_unit_test(test_order),
		cmocka_unit_test(test_race),
	};

	return cmocka_run_group_tests_name("the log of what was written", tests, NULL, NULL);
}
