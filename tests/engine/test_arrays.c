/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The arrays in which any thread of any process rings doorbells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "front/doorbell.h"
#include "ohca_hw.h"

#define UARS	4u
#define LINE	64u

static const struct ohca_db_sizes usual = { { 8192, 64, 2 }, UARS };

/** struct arrays - their memory, and their places in it */
struct arrays {
	struct ohca_doorbells db;
	void *mem;
};

static struct arrays arrays_new(const struct ohca_db_sizes *s)
{
	const size_t bytes = ohca_doorbells_bytes(s);
	struct arrays a = { .mem = aligned_alloc(LINE, bytes) };

	assert_non_null(a.mem);
	memset(a.mem, 0, bytes);
	ohca_doorbells_place(&a.db, s, a.mem);
	return a;
}

static int setup(void **state)
{
	static struct arrays a;

	a = arrays_new(&usual);
	*state = &a;
	return 0;
}

static int teardown(void **state)
{
	struct arrays *a = *state;

	free(a->mem);
	return 0;
}

/* ---- places -------------------------------------------------------------------- */

static void test_sizes(void **state)
{
	static const struct ohca_db_sizes good[] = {
		{ { 2, 2, 2 }, 1 }, { { 8, 16, 32 }, 2 }, { { 64, 128, 4096 }, 8 },
		{ { OHCA_DB_MAX, OHCA_DB_MAX, OHCA_DB_MAX }, OHCA_DB_UARS },
	};
	static const struct ohca_db_sizes bad[] = {
		{ { 0, 64, 64 }, 1 }, { { 64, 1, 64 }, 1 }, { { 64, 64, 65 }, 1 },
		{ { 64, 2 * OHCA_DB_MAX, 64 }, 1 }, { { 96, 64, 64 }, 1 }, { { 64, 64, 64 }, 0 },
		{ { 64, 64, 64 }, OHCA_DB_UARS + 1 }, { { UINT32_MAX, 64, 64 }, 1 },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		const size_t bytes = ohca_doorbells_bytes(&good[i]);

		assert_true(bytes >= 4096);
		assert_int_equal(bytes % 4096, 0);
	}
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ohca_doorbells_bytes(&bad[i]), 0);
}

/** struct stretch - an array */
struct stretch {
	volatile void *at;
	size_t bytes;
};

static unsigned int stretches(const struct ohca_doorbells *db, struct stretch s[32])
{
	unsigned int n = 0;

	s[n++] = (struct stretch){ db->bad, OHCA_DB_BAD_NUM * 8 };
	s[n++] = (struct stretch){ db->eq, OHCA_DB_EQS * 8 };
	s[n++] = (struct stretch){ db->arm, db->size.max[OHCA_DB_CQ] * 8 };
	for (unsigned int i = 0; i < OHCA_DB_NUM; i++)
		s[n++] = (struct stretch){ db->owner[i], db->size.max[i] * 4 };
	for (unsigned int i = 0; i < OHCA_RING_NUM; i++) {
		s[n++] = (struct stretch){ db->ring[i].bits, db->ring[i].words * 8 };
		s[n++] = (struct stretch){ db->ring[i].sum, db->ring[i].sums * 8 };
	}
	s[n++] = (struct stretch){ db->pending, 4 };
	return n;
}

/* Arrays are inside the memory and do not overlap, and each begins a cache line. */
static void test_places(void **state)
{
	static const struct ohca_db_sizes sizes[] = {
		{ { 2, 2, 2 }, 1 }, { { 8, 16, 32 }, 2 }, { { 8192, 64, 4096 }, 8 },
		{ { OHCA_DB_MAX, OHCA_DB_MAX, OHCA_DB_MAX }, 1 },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct arrays a = arrays_new(&sizes[i]);
		struct stretch s[32];
		const unsigned int n = stretches(&a.db, s);

		for (unsigned int k = 0; k < n; k++) {
			assert_int_equal((uintptr_t)s[k].at % LINE, 0);
			memset((void *)(uintptr_t)s[k].at, (int)(k + 1), s[k].bytes);
		}
		/* it shares a cache line */
		assert_ptr_equal(a.db.aq_db, a.db.pending + 1);
		for (unsigned int k = 0; k < n; k++)
			for (size_t b = 0; b < s[k].bytes; b++)
				assert_int_equal(((volatile uint8_t *)s[k].at)[b], k + 1);
		free(a.mem);
	}
}

/* Each number has a bit of its own, and numbers beyond the table are masked. */
static void test_masks(void **state)
{
	struct arrays *a = *state;
	const struct ohca_db_ring *r = a->db.ring;

	assert_int_equal(r[OHCA_RING_SQ].words, 128);
	assert_int_equal(r[OHCA_RING_SQ].sums, 2);
	assert_int_equal(r[OHCA_RING_SQ].bits_mask, UINT64_MAX);
	assert_int_equal(r[OHCA_RING_SQ].sum_mask, UINT64_MAX);
	assert_int_equal(r[OHCA_RING_RQ].words, 128);
	assert_int_equal(r[OHCA_RING_SRQ].words, 1);
	assert_int_equal(r[OHCA_RING_SRQ].sums, 1);
	assert_int_equal(r[OHCA_RING_SRQ].bits_mask, UINT64_MAX);
	assert_int_equal(r[OHCA_RING_SRQ].sum_mask, 1);
	assert_int_equal(r[OHCA_RING_CQ].words, 1);
	assert_int_equal(r[OHCA_RING_CQ].bits_mask, 3);
	assert_int_equal(r[OHCA_RING_CQ].sum_mask, 1);
}

/* ---- ringing ------------------------------------------------------------------- */

static uint32_t taken(struct arrays *a)
{
	return atomic_exchange(a->db.pending, 0);
}

/* Checks that number @n of @kind is rung, and no other one of its word. */
static void rung(struct arrays *a, enum ohca_ring_kind kind, uint32_t n)
{
	const struct ohca_db_ring *r = &a->db.ring[kind];

	assert_int_equal(atomic_exchange(&r->bits[n / 64], 0), 1ull << n % 64);
	assert_int_equal(atomic_exchange(&r->sum[n / 4096], 0), 1ull << n / 64 % 64);
	assert_int_equal(taken(a), OHCA_PEND_RING(kind));
}

static bool ring(struct arrays *a, uint32_t uar, uint32_t off, uint64_t val)
{
	return ohca_doorbells_ring(&a->db, uar, off, val, 8);
}

static void test_rings(void **state)
{
	static const struct {
		uint32_t off, n;
		enum ohca_db_kind kind;
		enum ohca_ring_kind ring;
	} t[] = {
		{ OHCA_UAR_SQ, 0, OHCA_DB_QP, OHCA_RING_SQ },
		{ OHCA_UAR_SQ, 8191, OHCA_DB_QP, OHCA_RING_SQ },
		{ OHCA_UAR_RQ, 4097, OHCA_DB_QP, OHCA_RING_RQ },
		{ OHCA_UAR_SRQ, 63, OHCA_DB_SRQ, OHCA_RING_SRQ },
		{ OHCA_UAR_CQ_ARM, 1, OHCA_DB_CQ, OHCA_RING_CQ },
	};
	struct arrays *a = *state;

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const uint32_t uar = i % UARS;

		assert_false(ring(a, uar, t[i].off, t[i].n));
		assert_int_equal(a->db.bad[OHCA_DB_BAD_HANDLE], i + 1);
		a->db.owner[t[i].kind][t[i].n] = uar + 1;
		assert_false(ring(a, (uar + 1) % UARS, t[i].off, t[i].n));
		assert_int_equal(a->db.bad[OHCA_DB_BAD_UAR], i + 1);
		assert_int_equal(taken(a), 0);
		/* the index is a hint */
		assert_true(ring(a, uar, t[i].off, t[i].n | 7ull << 32));
		rung(a, t[i].ring, t[i].n);
		a->db.owner[t[i].kind][t[i].n] = 0;
	}
	assert_int_equal(a->db.bad[OHCA_DB_BAD_SIZE], 0);
}

/* Invalid doorbells are counted, whatever the owner table contains. */
static void test_bad(void **state)
{
	struct arrays *a = *state;

	memset((void *)(uintptr_t)a->db.owner[OHCA_DB_QP], 0xff, 4 * usual.max[OHCA_DB_QP]);
	assert_false(ring(a, 0, OHCA_UAR_SQ, 1));
	assert_int_equal(a->db.bad[OHCA_DB_BAD_UAR], 1);
	for (unsigned int i = 0; i < usual.max[OHCA_DB_QP]; i++)
		a->db.owner[OHCA_DB_QP][i] = UARS + 1;
	/* a page that does not exist */
	assert_false(ring(a, UARS, OHCA_UAR_SQ, 1));
	assert_false(ring(a, UINT32_MAX, OHCA_UAR_SQ, 1));
	assert_int_equal(a->db.bad[OHCA_DB_BAD_UAR], 3);
	for (unsigned int i = 0; i < usual.max[OHCA_DB_QP]; i++)
		a->db.owner[OHCA_DB_QP][i] = 1;
	assert_false(ring(a, 0, OHCA_UAR_SQ, usual.max[OHCA_DB_QP]));
	assert_false(ring(a, 0, OHCA_UAR_SQ, 0xffffff));
	assert_false(ring(a, 0, OHCA_UAR_CQ_ARM, 2));
	assert_false(ring(a, 0, OHCA_UAR_SRQ, 64));
	assert_false(ring(a, 0, OHCA_UAR_EQ, OHCA_DB_EQS));
	assert_false(ring(a, 0, OHCA_UAR_CLOCK, 1));
	assert_false(ring(a, 0, 4096 - 8, 1));
	assert_int_equal(a->db.bad[OHCA_DB_BAD_HANDLE], 7);
	assert_false(ring(a, 1, OHCA_UAR_EQ, 0));
	assert_int_equal(a->db.bad[OHCA_DB_BAD_UAR], 4);
	assert_false(ohca_doorbells_ring(&a->db, 0, OHCA_UAR_SQ, 1, 4));
	assert_false(ohca_doorbells_ring(&a->db, 0, OHCA_UAR_SQ + 4, 1, 8));
	assert_int_equal(a->db.bad[OHCA_DB_BAD_SIZE], 2);
	assert_int_equal(taken(a), 0);
	assert_true(ring(a, 0, OHCA_UAR_SQ, 1));
	rung(a, OHCA_RING_SQ, 1);
}

/* Requests with different SNs are stored side by side, with the last consumer index. */
static void test_arm(void **state)
{
	const uint64_t sol = OHCA_CQ_ARM_SOLICITED;
	struct arrays *a = *state;

	a->db.owner[OHCA_DB_CQ][1] = 1;
	assert_true(ring(a, 0, OHCA_UAR_CQ_ARM, 1 | OHCA_FIELD_PREP(OHCA_CQ_ARM_CI, 9ull)));
	assert_int_equal(a->db.arm[1], OHCA_ARM_ANY(0) | 9ull << OHCA_ARM_CI_SHIFT);
	assert_true(ring(a, 0, OHCA_UAR_CQ_ARM, 1 | sol | OHCA_FIELD_PREP(OHCA_CQ_ARM_SN, 3ull) |
			 OHCA_FIELD_PREP(OHCA_CQ_ARM_CI, 0xffffffull)));
	assert_int_equal(a->db.arm[1], OHCA_ARM_ANY(0) | OHCA_ARM_SOL(3) |
			 0xffffffull << OHCA_ARM_CI_SHIFT);
	assert_int_equal(a->db.arm[0], 0);
	/* whatever the word had before */
	a->db.arm[1] = UINT64_MAX;
	assert_true(ring(a, 0, OHCA_UAR_CQ_ARM, 1));
	assert_int_equal(a->db.arm[1], OHCA_ARM_REQ);
	rung(a, OHCA_RING_CQ, 1);
}

/* The last consumer index counts; a request for an interrupt stays until the engine reads it. */
static void test_eq(void **state)
{
	struct arrays *a = *state;

	assert_true(ring(a, 0, OHCA_UAR_EQ, 63 | OHCA_EQ_DB_ARM | 5ull << 32));
	assert_int_equal(taken(a), OHCA_PEND_EQ);
	assert_int_equal(a->db.eq[63], OHCA_EQ_WORD_VALID | OHCA_EQ_WORD_ARM | 5);
	assert_true(ring(a, 0, OHCA_UAR_EQ, 63 | 6ull << 32));
	assert_int_equal(a->db.eq[63], OHCA_EQ_WORD_VALID | OHCA_EQ_WORD_ARM | 6);
	assert_true(ring(a, 0, OHCA_UAR_EQ, 7ull << 32));
	assert_int_equal(a->db.eq[0], OHCA_EQ_WORD_VALID | 7);
	/* the number of an EQ is no request */
	assert_true(ring(a, 0, OHCA_UAR_EQ, 9 | 8ull << 32));
	assert_int_equal(a->db.eq[9], OHCA_EQ_WORD_VALID | 8);
	assert_int_equal(a->db.eq[1], 0);
}

static void test_admin(void **state)
{
	struct arrays *a = *state;

	ohca_doorbells_admin(&a->db, 0xfffffff0);
	assert_int_equal(*a->db.aq_db, 0xfffffff0);
	atomic_fetch_or(a->db.pending, OHCA_PEND_ATTN);
	ohca_doorbells_admin(&a->db, 3);
	assert_int_equal(*a->db.aq_db, 3);
	assert_int_equal(taken(a), OHCA_PEND_AQ | OHCA_PEND_ATTN);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(sizes), T(places), T(masks), T(rings), T(bad), T(arm), T(eq), T(admin),
	};

	return cmocka_run_group_tests_name("arrays of doorbells", tests, NULL, NULL);
}
