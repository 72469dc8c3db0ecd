/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Measures the cost of the engine: two engines are connected back to back, and one thread runs both
 * and the driver.
 *
 *	engine_bench [seconds a line]
 *	engine_bench SECONDS report	for tests/bench/run: TABLE, ROW, COLUMN and VALUE, with tabs
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define SAMPLES	20000u

static double seconds = 0.5;

static const struct {
	const char *name;
	struct pair_work w;
} lines[] = {
#define LINE(name, qpt, oper, bytes, n, ...)	\
	{ name, { .type = OHCA_QPT_##qpt, .op = OHCA_OP_##oper, .len = bytes, .depth = n,	\
		  __VA_ARGS__ } }
	LINE("RC write 8 B", RC, RDMA_WRITE, 8, PAIR_DEPTH),
	LINE("RC write 8 B, one at a time", RC, RDMA_WRITE, 8, 1),
	LINE("RC write 4 KiB", RC, RDMA_WRITE, 4096, PAIR_DEPTH),
	LINE("RC write 1 MiB", RC, RDMA_WRITE, 1 << 20, 8),
	LINE("RC send 8 B", RC, SEND, 8, PAIR_DEPTH),
	LINE("RC send 8 B, one at a time", RC, SEND, 8, 1),
	LINE("RC send 4 KiB", RC, SEND, 4096, PAIR_DEPTH),
	LINE("RC read 8 B", RC, RDMA_READ, 8, PAIR_DEPTH),
	LINE("RC read 1 MiB", RC, RDMA_READ, 1 << 20, 8),
	LINE("RC fetch and add", RC, FETCH_ADD, 8, PAIR_DEPTH),
	LINE("UC write 8 B", UC, RDMA_WRITE, 8, PAIR_DEPTH),
	LINE("UC write 1 MiB", UC, RDMA_WRITE, 1 << 20, 8),
	LINE("UD send 0 B", UD, SEND, 0, PAIR_DEPTH),
	LINE("loopback RC write 8 B", RC, RDMA_WRITE, 8, PAIR_DEPTH, .loop = true),
	LINE("loopback RC write 1 MiB", RC, RDMA_WRITE, 1 << 20, 8, .loop = true),
};

static void print_line(const char *name, uint32_t len, double rate)
{
	printf("%-28s %10.0f msg/s %8.1f ns/msg", name, rate, 1e9 / rate);
	if (len >= 1024)
		printf(" %8.2f GB/s %8.1f ns/4 KiB", 1e-9 * rate * len,
		       1e9 / (rate * ((len + 4095) / 4096)));
	printf("\n");
}

/* Measures the cost of the copies alone: 4 KiB is copied twice, over the same span of memory. */
static void copies(void)
{
	static uint8_t mid[64][4352];
	uint8_t *a = malloc(PAIR_MR_LEN), *b = malloc(PAIR_MR_LEN);
	uint64_t n = 0;
	double t0 = pair_seconds(), t;

	if (!a || !b)
		abort();
	memset(a, 1, PAIR_MR_LEN);
	memset(b, 2, PAIR_MR_LEN);
	do {
		for (uint32_t off = 0; off < 1u << 20; off += 4096, n++) {
			memcpy(mid[n % 64], a + off, 4096);
			memcpy(b + off, mid[n % 64], 4096);
			__asm__ volatile("" ::: "memory");
		}
		t = pair_seconds() - t0;
	} while (t < seconds);
	printf("%-28s %10s       %8s        %8.2f GB/s %8.1f ns/4 KiB\n", "two copies alone", "",
	       "", 1e-9 * (double)n * 4096 / t, 1e9 * t / (double)n);
	free(a);
	free(b);
}

/* ---- for tests/bench/run ---- */

static void value(const char *table, const char *row, const char *column, double v)
{
	printf("%s\t%s\t%s\t%.6g\n", table, row, column, v);
	fflush(stdout);
}

static void rates(void)
{
	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		pair_up(&lines[i].w);
		value("rate", lines[i].name, "ohca", pair_rate(seconds) * 1e-3);
		if (lines[i].w.len)
			value("rate", lines[i].name, "memcpy",
			      pair_memcpy(lines[i].w.len, seconds / 4) * 1e-3);
		pair_down();
	}
}

static void sizes(void)
{
	for (uint32_t len = 8; len <= PAIR_MR_LEN; len *= 4) {
		struct pair_work w = { .type = OHCA_QPT_RC, .op = OHCA_OP_RDMA_WRITE, .len = len };
		char row[16];

		w.depth = len <= 4096 ? PAIR_DEPTH : 8;
		snprintf(row, sizeof(row), "%u", len);
		pair_up(&w);
		value("bandwidth", row, "write", pair_rate(seconds) * len * 1e-9);
		value("bandwidth", row, "memcpy", pair_memcpy(len, seconds / 4) * len * 1e-9);
		pair_down();
		w.op = OHCA_OP_RDMA_READ;
		pair_up(&w);
		value("bandwidth", row, "read", pair_rate(seconds) * len * 1e-9);
		pair_down();
	}
}

static void one_way(void)
{
	static const struct {
		const char *name;
		uint8_t op;
		uint32_t len;
	} rows[] = {
		{ "SEND 8 B, to the receiver's CQE", OHCA_OP_SEND, 8 },
		{ "WRITE 8 B, to the sender's CQE", OHCA_OP_RDMA_WRITE, 8 },
		{ "READ 8 B, to the sender's CQE", OHCA_OP_RDMA_READ, 8 },
		{ "SEND 4 KiB, to the receiver's CQE", OHCA_OP_SEND, 4096 },
		{ "WRITE 4 KiB, to the sender's CQE", OHCA_OP_RDMA_WRITE, 4096 },
	};
	static uint32_t ns[SAMPLES];

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		pair_up(&(struct pair_work){ .type = OHCA_QPT_RC, .op = rows[i].op,
					     .len = rows[i].len, .depth = 1 });
		pair_latency(ns, SAMPLES / 10);
		pair_latency(ns, SAMPLES);
		value("one-way", rows[i].name, "p50", ns[SAMPLES / 2]);
		value("one-way", rows[i].name, "p99", ns[SAMPLES - SAMPLES / 100]);
		value("one-way", rows[i].name, "memcpy",
		      1e9 / pair_memcpy(rows[i].len, seconds / 4));
		pair_down();
	}
}

/* Rate of @qps QPs, all of them active or in turn; with the latter also the columns of the row. */
static void queues_of(unsigned int qps, bool active, const char *column)
{
	char row[16];

	snprintf(row, sizeof(row), "%u", qps);
	pair_up(&(struct pair_work){ .type = OHCA_QPT_RC, .op = OHCA_OP_RDMA_WRITE, .len = 8,
				     .depth = PAIR_DEPTH, .qps = qps, .active = active });
	if (!active)
		value("queues", row, "memory", (double)pair_qp_bytes());
	pair_rate(seconds / 2);
	value("queues", row, column, pair_rate(seconds) * 1e-3);
	if (!active)
		value("queues", row, "memcpy", pair_memcpy(8, seconds / 4) * 1e-3);
	pair_down();
}

static void queues(void)
{
	static const unsigned int qps[] = { 1, 16, 256, 1024, 4096, 10000, PAIR_MAX_QPS };

	for (unsigned int i = 0; i < sizeof(qps) / sizeof(qps[0]); i++) {
		queues_of(qps[i], true, "all active");
		queues_of(qps[i], false, "in turn");
	}
}

int main(int argc, char **argv)
{
	if (argc > 1)
		seconds = atof(argv[1]);
	if (argc > 2) {
		rates();
		sizes();
		one_way();
		queues();
		return 0;
	}
	copies();
	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		pair_up(&lines[i].w);
		print_line(lines[i].name, lines[i].w.len, pair_rate(seconds));
		pair_down();
		fflush(stdout);
	}
	return 0;
}
