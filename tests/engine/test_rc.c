/* SPDX-License-Identifier: GPL-2.0-or-later */
/* RC: every operation, between two engines back to back. */
#include "rig.h"
#include "ib/packet.h"

static void write_sizes(struct rig_opt opt)
{
	static const uint32_t len[] = { 0, 1, 3, 4, 255, 256, 257, 1023, 1024, 1025, 4096, 4097,
					65536, 65537, 1000003 };
	struct rig r;

	rig_up(&r, opt);
	for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		rig_fill(&r, 0, 7, len[i], i + 1);
		rig_write(&r, 0, i, 7, 13, len[i]);
		rig_run(&r);
		wc(&r.scq[0], i, WC_SUCCESS);
		rig_check(&r, 1, 13, len[i], i + 1);
		rig_fill(&r, 1, 13, len[i], i + 100);
		rig_read(&r, 0, i + 50, 9, 13, len[i]);
		rig_run(&r);
		assert_int_equal(wc(&r.scq[0], i + 50, WC_SUCCESS).opcode, 2);
		rig_check(&r, 0, 9, len[i], i + 100);
		rig_fill(&r, 0, 7, len[i], i + 200);
		rig_recv(&r, 1, 1000 + i, 5, len[i]);
		rig_send(&r, 0, i + 70, 7, len[i]);
		rig_run(&r);
		wc(&r.scq[0], i + 70, WC_SUCCESS);
		assert_int_equal(wc(&r.rcq[1], 1000 + i, WC_SUCCESS).byte_len, len[i]);
		rig_check(&r, 1, 5, len[i], i + 200);
	}
	no_wc(&r.scq[0]);
	no_wc(&r.rcq[1]);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 0);
	rig_down(&r);
}

static void test_sizes(void **state)
{
	(void)state;
	for (uint8_t mtu = 1; mtu <= 5; mtu++)
		write_sizes((struct rig_opt){ .mtu = mtu, .psn = { 0xfffff0, 0xfffffe } });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
