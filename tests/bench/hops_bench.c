/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Measures the cost of switches: two HCAs that a fabric hosts, and the same engines back to back
 * for comparison. One thread runs all of them.
 *
 *	hops_bench SECONDS	for tests/bench/run: TABLE, ROW, COLUMN and VALUE, with tabs
 */
#include "fabric/hca/hca.h"
#include "fabric/hosts.h"
#include "pair.h"

#define SAMPLES	20000u
#define BIG	(1u << 20)

/* ---- HCAs that the fabric hosts ------------------------------------------------ */

static struct fab_hcas *hcas;
static struct fab_hca *hca[2];
static uint32_t seat_of[2];		/* nodes whose places the HCAs have */
static struct fab_hca_log seat_log[2];	/* each front has one */

static ohca_engine *seat_make(void *arg, struct host *h)
{
	const uintptr_t i = (uintptr_t)arg;
	const struct fab_hca_range memory = { HOST_BASE, h->mem_size, h->mem, false, &seat_log[i] };
	static _Atomic uint32_t some[2];
	const struct fab_hca_cfg cfg = {
		.engine = h->cfg,
		.place = { port_of_host(seat_of[i]) },
		.irq = host_irq,
		.arg = h,
	};

	seat_log[i].mem = h->mem;
	seat_log[i].some = &some[i];
	ohca_dirty_place(&seat_log[i].dirty, h->mem_size, calloc(1, OHCA_DIRTY_BYTES(h->mem_size)));
	if (!seat_log[i].dirty.top)
		abort();
	hca[i] = fab_hca_new(hcas, &cfg);
	if (!hca[i] || !fab_hca_memory(hca[i], &memory, 1))
		abort();
	return fab_hca_engine(hca[i]);
}

static bool seat_turn(void *arg)
{
	(void)arg;
	return fab_hcas_turn(hcas);
}

static void seat_leave(void *arg)
{
	const uintptr_t i = (uintptr_t)arg;

	fab_hca_free(hca[i]);
	free((void *)seat_log[i].dirty.top);
}

static struct host *home_make(unsigned int i)
{
	static struct host_seat seat[2];
	struct host *h;

	seat[i] = (struct host_seat){
		.make = seat_make,
		.turn = seat_turn,
		.leave = seat_leave,
		.arg = (void *)(uintptr_t)i,
	};
	h = host_new_seat(1, 0x1000 * (i + 1), &seat[i]);
	host_start(h);
	/* the link trains */
	while (fab_hcas_turn(hcas) | fab_data_round(d))
		;
	activate(seat_of[i]);
	fab_data_round(d);
	host_port_set(h, 0, LID(seat_of[i]), IB_PS_ACTIVE);
	return h;
}

static void home_spin(void)
{
	fab_hcas_turn(hcas);
	fab_data_round(d);
}

static const struct pair_home in_fabric = {
	.make = home_make,
	.spin = home_spin,
};

/* ---- tables --------------------------------------------------------------------- */

static void value(const char *table, const char *row, const char *column, double v)
{
	printf("%s\t%s\t%s\t%.6g\n", table, row, column, v);
	fflush(stdout);
}

/* Measures all columns of a row; @w: how the machines are joined. */
static void measure(const char *table, const char *row, struct pair_work w, double seconds)
{
	static uint32_t ns[SAMPLES];

	w.type = OHCA_QPT_RC;
	w.op = OHCA_OP_RDMA_WRITE;
	w.len = 8;
	w.depth = PAIR_DEPTH;
	pair_up(&w);
	value(table, row, "8 B", pair_rate(seconds) * 1e-3);
	pair_down();
	w.len = BIG;
	w.depth = 8;
	pair_up(&w);
	value(table, row, "1 MiB", pair_rate(seconds) * BIG * 1e-9);
	value(table, row, "memcpy", pair_memcpy(BIG, seconds / 4) * BIG * 1e-9);
	pair_down();
	w.op = OHCA_OP_SEND;
	w.len = 8;
	w.depth = 1;
	pair_up(&w);
	pair_latency(ns, SAMPLES / 10);
	pair_latency(ns, SAMPLES);
	value(table, row, "one way", ns[SAMPLES / 2]);
	pair_down();
}

static double seconds = 0.1;

static const uint32_t nodes[] = { 3, 1, 15 };	/* at 1, 3 and 5 switches from node 2 */

static void bench_hosted(void **st)
{
	(void)st;
	d->cfg.clock = NULL;		/* the engines use the fabric's clock, with its cost */
	hcas = fab_hcas_new(d);
	assert_non_null(hcas);
	measure("hosted", "0", (struct pair_work){ 0 }, seconds);
	seat_of[0] = 2;
	for (unsigned int i = 0; i < 3; i++) {
		char row[16];

		seat_of[1] = nodes[i];
		snprintf(row, sizeof(row), "%u", 2 * i + 1);
		measure("hosted", row, (struct pair_work){
			.home = &in_fabric, .lid = { LID(2), LID(nodes[i]) } }, seconds);
	}
	fab_hcas_free(hcas);
}

static int setup_bench(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4,3"));
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bench_hosted, setup_bench, teardown_hosts),
	};

	if (argc > 1)
		seconds = atof(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
