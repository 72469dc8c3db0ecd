/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The translations of an IOMMU: ranges that are mapped and unmapped, compared with an array of all
 * pages.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/hca/hca.h"
#include "fabric/hca/iotlb.h"

#define PAGE	4096ull
#define MEM	((uint8_t *)0x100000000000ull)	/* the test does not access it */

static struct fab_hca_range range(uint64_t page, uint64_t n, uint64_t at, bool read_only)
{
	return (struct fab_hca_range){ page * PAGE, n * PAGE, MEM + at * PAGE, read_only, NULL };
}

static void expect(struct fab_iotlb *t, uint64_t page, const uint8_t *mem)
{
	const struct fab_hca_range *r = fab_iotlb_at(t, page * PAGE + 1);

	if (!mem)
		assert_null(r);
	else
		assert_ptr_equal((uint8_t *)r->mem + (page * PAGE - r->iova), mem);
}

static void unmap(struct fab_iotlb *t, uint64_t first, uint64_t n)
{
	bool more = true;

	while (more)
		assert_true(fab_iotlb_unmap(t, first * PAGE, (first + n) * PAGE - 1, &more));
}

static void give_up(struct fab_iotlb *t)
{
	fab_iotlb_free(t);
	while (fab_iotlbs_reap())
		;
}

#define PAGES	64u

static void test_random(void **state)
{
	const uint8_t *model[PAGES] = { 0 };
	unsigned int users = 0, maps = 0, cuts = 0;
	struct fab_iotlb t = { 0 };

	(void)state;
	srandom(7);
	for (unsigned int i = 0; i < 20000; i++) {
		const uint64_t n = 1 + (uint64_t)random() % 8;
		const uint64_t first = (uint64_t)random() % (PAGES - n);
		const uint64_t at = (uint64_t)random() % 1000;
		struct fab_hca_range r = range(first, n, at, false);
		bool is_free = true;

		for (uint64_t k = first; k < first + n; k++)
			is_free &= !model[k];
		if (random() % 2) {
			assert_int_equal(fab_iotlb_map(&t, &r, &users), is_free);
			/* the same again is no error */
			assert_int_equal(fab_iotlb_map(&t, &r, &users), is_free);
			for (uint64_t k = first; is_free && k < first + n; k++)
				model[k] = MEM + (at + k - first) * PAGE;
			maps += is_free;
		} else {
			unmap(&t, first, n);
			for (uint64_t k = first; k < first + n; k++)
				model[k] = NULL;
			cuts += !is_free;
		}
		for (uint64_t k = 0; k < PAGES; k++)
			expect(&t, k, model[k]);
		assert_int_equal(users, t.n);
	}
	assert_true(maps > 1000 && cuts > 1000);
	unmap(&t, 0, PAGES);
	assert_null(t.root);
	assert_int_equal(users, 0);
}

static void refuse(struct fab_iotlb *t, struct fab_hca_range r, unsigned int *users)
{
	assert_false(fab_iotlb_map(t, &r, users));
	assert_int_equal(errno, EINVAL);
}

static void test_refused(void **state)
{
	struct fab_hca_range r = range(16, 4, 0, false);
	struct fab_iotlb t = { 0 };
	unsigned int users = 0;

	(void)state;
	assert_true(fab_iotlb_map(&t, &r, &users));
	refuse(&t, range(16, 0, 0, false), &users);
	refuse(&t, range(15, 2, 0, false), &users);
	refuse(&t, range(19, 1, 0, false), &users);
	refuse(&t, range(0, 100, 0, false), &users);
	/* the same addresses for other memory, or read-only */
	refuse(&t, range(16, 4, 1, false), &users);
	refuse(&t, range(16, 4, 0, true), &users);
	r.iova = 1;
	refuse(&t, r, &users);
	r = range(1, 1, 0, false);
	r.len++;
	refuse(&t, r, &users);
	r = range(1, 1, 0, false);
	r.mem = NULL;
	refuse(&t, r, &users);
	refuse(&t, range(UINT64_MAX / PAGE, 2, 0, false), &users);
	assert_int_equal(users, 1);
	/* the last page of all */
	r = range(UINT64_MAX / PAGE, 1, 9, false);
	assert_true(fab_iotlb_map(&t, &r, &users));
	expect(&t, UINT64_MAX / PAGE, MEM + 9 * PAGE);
	unmap(&t, 0, UINT64_MAX / PAGE + 1);
	assert_null(t.root);
	assert_int_equal(users, 0);
}

/* The maximum number; each call removes a part of them, and so does the reaper. */
static void test_many(void **state)
{
	struct fab_iotlb t = { 0 };
	struct fab_hca_range r;
	unsigned int users = 0, calls;
	bool more = true;

	(void)state;
	for (unsigned int i = 0; i < FAB_IOTLB_MOST; i++) {
		r = range(2ull * i, 1, i, false);
		assert_true(fab_iotlb_map(&t, &r, &users));
	}
	r = range(2ull * FAB_IOTLB_MOST, 1, 0, false);
	assert_false(fab_iotlb_map(&t, &r, &users));
	assert_int_equal(errno, ENOMEM);
	expect(&t, 2 * 123456, MEM + 123456 * PAGE);
	expect(&t, 2 * 123456 + 1, NULL);
	for (calls = 0; more; calls++) {
		assert_true(fab_iotlb_unmap(&t, 0, FAB_IOTLB_MOST * PAGE - 1, &more));
		assert_true(FAB_IOTLB_MOST - users <= (calls + 1) * FAB_IOTLB_STEP);
	}
	assert_int_equal(users, FAB_IOTLB_MOST / 2);
	fab_iotlb_free(&t);
	expect(&t, 2 * (FAB_IOTLB_MOST - 1), NULL);
	for (calls = 1; fab_iotlbs_reap(); calls++)
		;
	assert_int_equal(calls, FAB_IOTLB_MOST / 2 / FAB_IOTLB_STEP);
	/* users are not counted after the end */
	assert_int_equal(users, FAB_IOTLB_MOST / 2);
	assert_false(fab_iotlbs_reap());
}

/*
 * A hole in one range needs one range more than allowed: the part after the hole is removed, too.
 */
static void test_hole(void **state)
{
	struct fab_iotlb t = { 0 };
	struct fab_hca_range r = range(0, 4, 0, false);
	unsigned int users = 0;
	bool more;

	(void)state;
	assert_true(fab_iotlb_map(&t, &r, &users));
	t.n = FAB_IOTLB_MOST;
	assert_false(fab_iotlb_unmap(&t, PAGE, 2 * PAGE - 1, &more));
	assert_int_equal(errno, ENOMEM);
	assert_false(more);
	expect(&t, 0, MEM);
	for (unsigned int i = 1; i < 4; i++)
		expect(&t, i, NULL);
	t.n = users;
	give_up(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_hole),
	};

	return cmocka_run_group_tests_name("what an IOMMU translates", tests, NULL, NULL);
}
