/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Measures the speed of the decoder and of the CRCs. */
#include <stdio.h>
#include <time.h>

#include "build_op.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void)
{
	static uint8_t b[IB_MAX_PKT_LEN + 64];
	size_t len = build_op(b, IB_OP_RC_WRITE_MIDDLE, false, 4096);
	volatile uint32_t sink = 0;
	struct ib_pkt_info pi;
	unsigned int n;
	uint32_t c;
	double t;

	t = now();
	for (n = 0; n < 20000000; n++) {
		b[15] = (uint8_t)n;
		sink += (uint32_t)ib_hdr_parse(b, 64, len - 2, 0, &pi) + pi.psn;
	}
	t = now() - t;
	printf("ib_hdr_parse        %6.1f ns a packet\n", t / n * 1e9);
	t = now();
	for (n = 0; n < 100000; n++) {
		ib_icrc(b, len - 6, &c);
		sink += c;
	}
	t = now() - t;
	printf("ib_icrc of 4 KiB    %6.1f ns, %5.2f GB/s\n", t / n * 1e9, 4096 * n / t / 1e9);
	t = now();
	for (n = 0; n < 100000; n++)
		sink += ib_vcrc(b, len - 2);
	t = now() - t;
	printf("ib_vcrc of 4 KiB    %6.1f ns, %5.2f GB/s\n", t / n * 1e9, 4096 * n / t / 1e9);
	return 0;
}
