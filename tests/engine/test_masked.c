/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Masked atomics: packets that only OpenHCA has, and their effect on memory. */
#include <stdio.h>

#include "engine/base/state.h"
#include "engine/object/mr.h"
#include "rig.h"

static uint64_t seed = 0x9e3779b97f4a7c15ull;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* The masked addition as it is defined, bit by bit. */
static uint64_t add_fields(uint64_t a, uint64_t b, uint64_t boundary)
{
	uint64_t sum = 0, carry = 0;

	for (unsigned int i = 0; i < 64; i++) {
		uint64_t n = (a >> i & 1) + (b >> i & 1) + carry;

		sum |= (n & 1) << i;
		carry = boundary >> i & 1 ? 0 : n >> 1;
	}
	return sum;
}

static void masked(struct rig *r, uint8_t op, uint64_t swap_add, uint64_t compare,
		   uint64_t swap_mask, uint64_t compare_mask)
{
	struct wqe w = wqe_new(op, OHCA_WQE_SIGNALED, 1);

	wqe_raddr(&w, r->mr[1].iova + 64, r->mr[1].key);
	wqe_atomic(&w, swap_add, compare);
	wqe_masks(&w, swap_mask, compare_mask);
	wqe_sge(&w, r->mr[0].iova, 8, r->mr[0].key);
	wqe_post(&r->qp[0], &w);
	rig_run(r);
}

static void test_fetch_add(void **state)
{
	static const uint64_t masks[] = {
		0, ~0ull, 1ull << 63, 0x8000000080000000ull, 0x80808080, 1, 0x8888888888888888ull,
	};
	struct ohca_hw_cqe c;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	for (unsigned int i = 0; i < 200; i++) {
		uint64_t was = rnd(), add = rnd(), mask = i < 7 ? masks[i] : rnd() & rnd();

		if (i % 5 == 0)
			was = add = ~0ull;
		rig_put64(&r, 1, 64, was);
		masked(&r, OHCA_OP_MASKED_FETCH_ADD, add, rnd(), rnd(), mask);
		c = wc(&r.scq[0], 1, WC_SUCCESS);
		assert_int_equal(c.byte_len, 8);
		assert_int_equal(rig_get64(&r, 0, 0), was);
		assert_int_equal(rig_get64(&r, 1, 64), add_fields(was, add, mask));
	}
	rig_down(&r);
}

static void test_cmp_swap(void **state)
{
	unsigned int hits = 0, misses = 0;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	for (unsigned int i = 0; i < 200; i++) {
		uint64_t was = rnd(), swap = rnd(), smask = rnd(), cmask = rnd() & rnd();
		uint64_t compare = i & 1 ? was ^ (rnd() & ~cmask) : rnd();
		bool hit = ((was ^ compare) & cmask) == 0;

		rig_put64(&r, 1, 64, was);
		masked(&r, OHCA_OP_MASKED_CMP_SWAP, swap, compare, smask, cmask);
		wc(&r.scq[0], 1, WC_SUCCESS);
		assert_int_equal(rig_get64(&r, 0, 0), was);
		assert_int_equal(rig_get64(&r, 1, 64),
				 hit ? (was & ~smask) | (swap & smask) : was);
		hits += hit;
		misses += !hit;
	}
	assert_true(hits >= 100 && misses >= 50);
	/* nothing compared, nothing swapped */
	rig_put64(&r, 1, 64, 5);
	masked(&r, OHCA_OP_MASKED_CMP_SWAP, 9, 6, 0, 0);
	wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(rig_get64(&r, 1, 64), 5);
	rig_down(&r);
}

/* The first response of each is lost: the operation is executed once nevertheless. */
static enum host_fate drop_first(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				 uint32_t len)
{
	unsigned int *left = arg;

	(void)from, (void)port, (void)frame, (void)len;
	if (!*left)
		return HOST_DELIVER;
	--*left;
	return HOST_DROP;
}

static void test_once(void **state)
{
	unsigned int left;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .psn = { 0xffffff, 0 } });
	rig_put64(&r, 1, 64, 0);
	host_hook_set(r.h[1], 0, drop_first, &left);
	for (unsigned int i = 0; i < 5; i++) {
		left = 2;
		masked(&r, OHCA_OP_MASKED_FETCH_ADD, 0xff01, 0, 0, 0x8080);
		rig_time(&r, 3000);
		wc(&r.scq[0], 1, WC_SUCCESS);
		assert_int_equal(rig_get64(&r, 0, 0), add_fields(0, (i * 0xff & 0xff) << 8 | i,
								 0x8080));
	}
	assert_true(host_counter(r.h[1], OHCA_CNT_RX_DUP));
	rig_down(&r);
}

enum { ALIGN, KEY, RIGHT, NO_FEATURE, FORM, CASES };

static void test_refused(void **state)
{
	(void)state;
	for (unsigned int k = 0; k < CASES; k++) {
		struct rig r;
		struct wqe w = wqe_new(OHCA_OP_MASKED_FETCH_ADD, OHCA_WQE_SIGNALED, 1);

		rig_up(&r, (struct rig_opt){ .loop = true });
		rig_put64(&r, 1, 0, 7);
		if (k == NO_FEATURE)
			r.h[0]->e->features_ack &= ~(1ull << OHCA_FEATURE_EXT_ATOMIC);
		if (k == RIGHT)
			r.h[0]->e->mr[r.mr[1].key >> 8]->access &= ~OHCA_ACCESS_REMOTE_ATOMIC;
		wqe_raddr(&w, r.mr[1].iova + (k == ALIGN ? 4 : 0), r.mr[1].key ^ (k == KEY));
		wqe_atomic(&w, 1, 0);
		if (k != FORM)
			wqe_masks(&w, 0, 0);
		wqe_sge(&w, r.mr[0].iova, 8, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 1, k == ALIGN ? WC_REM_INV_REQ : k == NO_FEATURE ? WC_LOC_QP_OP :
		   k == FORM ? WC_LOC_LEN : WC_REM_ACCESS);
		assert_int_equal(rig_get64(&r, 1, 0), 7);
		rig_down(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fetch_add), cmocka_unit_test(test_cmp_swap),
		cmocka_unit_test(test_once), cmocka_unit_test(test_refused),
	};

	printf("seed %llx\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
