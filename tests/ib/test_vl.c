/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SL to VL, the arbiter, rates. */
#include "cm.h"

#include "ib/rate.h"
#include "ib/vl.h"

static void sl_to_vl(void **st)
{
	struct ib_sl2vl t;

	(void)st;
	for (unsigned int few = 0; few < 2; few++) {
		ib_sl2vl_init(&t, few ? 0 : 16);	/* no VLs count as one */
		for (unsigned int sl = 0; sl < 16; sl++)
			assert_int_equal(t.vl[sl], 0);
	}
	ib_sl2vl_init(&t, 15);
	assert_int_equal(t.vl[14], 14);
	ib_sl2vl_init(&t, 8);
	assert_int_equal(ib_sl2vl_lookup(&t, 9, 8), 1);
	assert_int_equal(ib_sl2vl_lookup(&t, 7, 4), -1);
	t.vl[3] = IB_SL2VL_DROP;
	assert_int_equal(ib_sl2vl_lookup(&t, 3, 15), -1);
	assert_int_equal(ib_opvls_count(5), 15);
	assert_int_equal(ib_opvls_count(6), 0);
	assert_int_equal(ib_opvls_count(0), 0);
}

/* Runs @n picks with all VLs of @ready backlogged, and counts packets by VL. */
static void run(struct ib_vlarb *a, uint16_t ready, unsigned int n, uint32_t bytes,
		unsigned int got[16])
{
	memset(got, 0, 16 * sizeof(*got));
	for (unsigned int i = 0; i < n; i++) {
		int vl = ib_vlarb_pick(a, ready);

		assert_in_range(vl, 0, 15);
		got[vl]++;
		ib_vlarb_sent(a, (uint8_t)vl, bytes);
	}
}

static void arbiter(void **st)
{
	struct ib_vlarb a;
	struct ib_vlarb_entry e[IB_VLARB_BLOCK] = { { 0, 3 }, { 1, 1 } }, back[IB_VLARB_BLOCK];
	unsigned int got[16];

	(void)st;
	ib_vlarb_init(&a, 64, 2);
	assert_int_equal(ib_vlarb_pick(&a, 0), -1);
	assert_int_equal(ib_vlarb_pick(&a, 0x8003), 15);
	assert_int_equal(ib_vlarb_pick(&a, 1 << 5), -1);	/* not in the tables */

	/* low table: weights 3 to 1 in 64-byte packets */
	assert_int_equal(ib_vlarb_set_block(&a, 1, e), 0);
	assert_int_equal(ib_vlarb_get_block(&a, 1, back), 0);
	assert_memory_equal(e, back, sizeof(e));
	run(&a, 3, 400, 64, got);
	assert_int_equal(got[0], 300);
	assert_int_equal(got[1], 100);
	/* a lane that is alone sends everything */
	run(&a, 2, 50, 64, got);
	assert_int_equal(got[1], 50);

	/* high priority without a limit starves low priority */
	memset(e, 0, sizeof(e));
	e[0].weight = 1;
	assert_int_equal(ib_vlarb_set_block(&a, 1, e), 0);	/* low: VL0 alone */
	e[0].vl = 1;
	e[0].weight = 1;
	assert_int_equal(ib_vlarb_set_block(&a, 3, e), 0);
	a.high_limit = IB_VLARB_UNLIMITED;
	run(&a, 3, 100, 64, got);
	assert_int_equal(got[1], 100);
	/* limit 0: one high, one low, ... */
	a.high_limit = 0;
	run(&a, 1, 1, 64, got);
	run(&a, 3, 100, 64, got);
	assert_in_range(got[0], 49, 51);
	/* limit 2: 8192 bytes of high between two lows */
	a.high_limit = 2;
	run(&a, 1, 1, 1024, got);
	run(&a, 3, 90, 1024, got);
	assert_in_range(got[1], 79, 81);
	/* only high has packets: the limit does not stop it */
	run(&a, 2, 40, 4096, got);
	assert_int_equal(got[1], 40);

	assert_int_equal(ib_vlarb_set_block(&a, 0, e), -1);
	assert_int_equal(ib_vlarb_set_block(&a, 5, e), -1);
	ib_vlarb_init(&a, 32, 2);
	assert_int_equal(ib_vlarb_set_block(&a, 2, e), -1);
	assert_int_equal(ib_vlarb_set_block(&a, 1, e), 0);
	ib_vlarb_init(&a, 2, 8);
	assert_int_equal(a.t[IB_VLARB_LOW].e[1].weight, 64);
	assert_int_equal(a.t[IB_VLARB_LOW].e[2].weight, 0);
	memset(back, 0xff, sizeof(back));
	assert_int_equal(ib_vlarb_get_block(&a, 1, back), 0);
	assert_true(back[1].weight == 64 && back[2].weight == 0 && back[31].vl == 0);
	assert_int_equal(ib_vlarb_get_block(&a, 2, back), -1);
	ib_vlarb_init(&a, 65, 15);
	assert_int_equal(a.t[IB_VLARB_LOW].n, 64);
	assert_int_equal(a.t[IB_VLARB_HIGH].n, 64);
	for (uint8_t i = 0; i < 32; i++)
		e[i] = (struct ib_vlarb_entry){ i % 15, i };
	assert_int_equal(ib_vlarb_set_block(&a, 4, e), 0);
	assert_int_equal(a.t[IB_VLARB_HIGH].e[32].weight, 0);
	assert_int_equal(a.t[IB_VLARB_HIGH].e[63].weight, 31);
	ib_vlarb_init(&a, 8, 1);
	assert_int_equal(a.t[IB_VLARB_LOW].e[1].weight, 0);
	assert_int_equal(ib_vlarb_set_block(&a, 2, e), -1);
}

static void rates(void **st)
{
	(void)st;
	assert_int_equal(ib_mtu_bytes(IB_MTU_CODE_256), 256);
	assert_int_equal(ib_mtu_bytes(IB_MTU_CODE_4096), 4096);
	assert_int_equal(ib_mtu_bytes(6), 0);
	assert_int_equal(ib_mtu_code(4096), 5);
	assert_int_equal(ib_mtu_code(2047), 3);
	assert_int_equal(ib_mtu_code(100), 0);
	assert_int_equal(ib_link_mbps(IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_EDR), 100000);
	assert_int_equal(ib_link_mbps(IB_WIDTH_1X, IB_SPEED_SDR, 0), 2500);
	assert_int_equal(ib_link_mbps(3, IB_SPEED_SDR, 0), 0);
	/* the bits of the code, 8b/10b or 64b/66b, are no data */
	assert_int_equal(ib_link_data_kbps(IB_WIDTH_1X, IB_SPEED_SDR, 0), 2000000);
	assert_int_equal(ib_link_data_kbps(IB_WIDTH_4X, IB_SPEED_DDR, 0), 16000000);
	assert_int_equal(ib_link_data_kbps(IB_WIDTH_12X, IB_SPEED_QDR, 0), 96000000);
	assert_int_equal(ib_link_data_kbps(IB_WIDTH_4X, IB_SPEED_FDR10, 0), 40000000);
	assert_int_equal(ib_link_data_kbps(IB_WIDTH_1X, IB_SPEED_QDR, IB_SPEED_EXT_FDR), 13636364);
	assert_int_equal(ib_link_data_kbps(IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_EDR), 100000000);
	assert_int_equal(ib_link_data_kbps(IB_WIDTH_12X, 0, IB_SPEED_EXT_XDR), 2400000000u);
	assert_int_equal(ib_link_data_kbps(IB_WIDTH_4X, 0, 0), 0);
	assert_int_equal(ib_link_data_kbps(3, IB_SPEED_SDR, 0), 0);
	assert_int_equal(ib_rate_code(IB_WIDTH_4X, IB_SPEED_QDR, IB_SPEED_EXT_EDR),
			 IB_RATE_CODE_100);
	assert_int_equal(ib_rate_code(IB_WIDTH_2X, 0, IB_SPEED_EXT_HDR), IB_RATE_CODE_100);
	assert_int_equal(ib_rate_code(IB_WIDTH_4X, IB_SPEED_SDR, 0), IB_RATE_CODE_10);
	assert_int_equal(ib_rate_mbps(IB_RATE_CODE_800), 800000);
	assert_int_equal(ib_rate_mbps(1), 0);
	assert_int_equal(ib_rate_mbps(25), 1600000);
	assert_int_equal(ib_rate_mbps(26), 0);
	assert_int_equal(ib_rate_code(0, 0, 0), 0);
	assert_int_equal(ib_rate_code(IB_WIDTH_8X, 0, IB_SPEED_EXT_NDR + 1), 0);
	assert_int_equal(ib_best_bit(0), 0);
	assert_int_equal(ib_best_bit(6), 4);
	assert_int_equal(ib_best_width(0xe0), 0);
	assert_int_equal(ib_rate_mbps(200), 0);
	assert_int_equal(ib_best_width(IB_WIDTH_2X | IB_WIDTH_1X), IB_WIDTH_2X);
	assert_int_equal(ib_best_width(IB_WIDTH_2X | IB_WIDTH_4X), IB_WIDTH_4X);
	assert_true(ib_time_ns(0) == 4096 && ib_time_ns(14) == 67108864);
	assert_true(ib_rnr_timer_ns(0) == 655360000);
	assert_true(ib_rnr_timer_ns(1) == 10000);
	assert_true(ib_rnr_timer_ns(2) == 20000);
	/* from there on, each value is twice the value before the last */
	for (uint8_t i = 4; i < 32; i++)
		assert_true(ib_rnr_timer_ns(i) == 2 * ib_rnr_timer_ns((uint8_t)(i - 2)));
	assert_true(ib_rnr_timer_ns(3) == 30000);
	assert_true(ib_rnr_timer_ns(31) == 491520000);
}

/* A table without a ready VL keeps its position, and the remaining weight of its entry. */
static void arbiter_keeps_weight(void **st)
{
	const struct ib_vlarb_entry low[IB_VLARB_BLOCK] = { { 0, 1 } };
	const struct ib_vlarb_entry high[IB_VLARB_BLOCK] = { { 1, 3 }, { 2, 3 }, { 3, 0 } };
	struct ib_vlarb a;

	(void)st;
	ib_vlarb_init(&a, 32, 4);
	assert_int_equal(a.t[IB_VLARB_LOW].vls, 15);
	assert_int_equal(ib_vlarb_set_block(&a, 1, low), 0);
	assert_int_equal(ib_vlarb_set_block(&a, 3, high), 0);
	assert_int_equal(a.t[IB_VLARB_LOW].vls, 1);
	assert_int_equal(a.t[IB_VLARB_HIGH].vls, 6);
	assert_int_equal(a.t[IB_VLARB_LOW].end, 1);
	assert_int_equal(a.t[IB_VLARB_HIGH].end, 2);
	a.high_limit = IB_VLARB_UNLIMITED;
	for (unsigned int i = 0; i < 6; i++) {
		assert_int_equal(ib_vlarb_pick(&a, 7), i < 3 ? 1 : 2);
		ib_vlarb_sent(&a, i < 3 ? 1 : 2, 64);
		/* in between only VL 0 is ready */
		assert_int_equal(ib_vlarb_pick(&a, 1), 0);
		ib_vlarb_sent(&a, 0, 64);
	}
	assert_int_equal(ib_vlarb_pick(&a, 1 << 3), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sl_to_vl),
		cmocka_unit_test(arbiter),
		cmocka_unit_test(arbiter_keeps_weight),
		cmocka_unit_test(rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
