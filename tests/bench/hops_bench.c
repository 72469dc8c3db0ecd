/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What switches add: two engines at hosts of a fabric, by links as those of machines, all in one
 * thread, beside the same engines back to back.
 *
 *	hops_bench SECONDS	for tests/bench/run: TABLE, ROW, COLUMN and VALUE, with tabs
 */
#include "fabric/hosts.h"
#include "pair.h"

#define SAMPLES	20000u
#define BIG	(1u << 20)

/* Lanes whose packet did not fit. */
static bool refused[2];

static uint8_t *link_begin(unsigned int i, unsigned int vl, uint32_t len)
{
	uint8_t *room = ohca_link_tx_begin(host[i].l, vl, len);

	refused[i] |= !room;
	return room;
}

static void link_commit(unsigned int i, unsigned int vl, uint32_t len)
{
	ohca_link_tx_commit(host[i].l, vl, len, 0);
}

/* What machine @i has sent goes as far as it can; what came for the machines is taken. */
static void link_step(unsigned int i)
{
	ohca_link_kick(host[i].l);
	while (fab_data_round(d))
		;
	for (unsigned int k = 0; k < 2; k++) {
		ohca_engine *e = pair_host(k)->e;
		struct ohca_link_frame fr;
		bool any = false;

		while (ohca_rx_room(e) && ohca_link_rx_peek(host[k].l, 0, &fr) > 0) {
			ohca_rx(e, 0, &(struct ohca_frame){ .data = fr.data, .len = fr.len });
			ohca_link_rx_release(host[k].l, 0);
			any = true;
		}
		if (any)
			ohca_link_kick(host[k].l);
		if (refused[k]) {
			refused[k] = false;
			ohca_tx_ready(e, 0, 0xffff);
		}
	}
}

static const struct pair_wire by_link = {
	.tx_begin = link_begin,
	.tx_commit = link_commit,
	.step = link_step,
};

static void value(const char *row, const char *column, double v)
{
	printf("hops\t%s\t%s\t%.6g\n", row, column, v);
	fflush(stdout);
}

/* All of a row; @wire: as of struct pair_work. */
static void measure(const char *row, const struct pair_wire *wire, double seconds)
{
	static uint32_t ns[SAMPLES];
	struct pair_work w = {
		.type = OHCA_QPT_RC,
		.op = OHCA_OP_RDMA_WRITE,
		.len = 8,
		.depth = PAIR_DEPTH,
		.wire = wire,
		.lid = { host[0].lid, host[1].lid },
	};

	pair_up(&w);
	value(row, "8 B", pair_rate(seconds) * 1e-3);
	pair_down();
	w.len = BIG;
	w.depth = 8;
	pair_up(&w);
	value(row, "1 MiB", pair_rate(seconds) * BIG * 1e-9);
	value(row, "memcpy", pair_memcpy(BIG, seconds / 4) * BIG * 1e-9);
	pair_down();
	w.op = OHCA_OP_SEND;
	w.len = 8;
	w.depth = 1;
	pair_up(&w);
	pair_latency(ns, SAMPLES / 10);
	pair_latency(ns, SAMPLES);
	value(row, "one way", ns[SAMPLES / 2]);
	pair_down();
}

static double seconds = 0.1;

static void bench(void **st)
{
	static const uint32_t nodes[] = { 3, 1, 15 };

	(void)st;
	measure("0", NULL, seconds);
	place(0, 2);
	for (unsigned int i = 0; i < 3; i++) {
		char row[16];

		place(1, nodes[i]);
		d->n.hops = d->n.delivered = 0;
		send_data(0, 0, host[1].lid, 64, 0);
		pump(NULL);
		snprintf(row, sizeof(row), "%llu",
			 (unsigned long long)(d->n.hops / d->n.delivered + 1));
		assert_int_equal(count_data(1, 0), 1);
		measure(row, &by_link, seconds);
		ohca_link_free(host[1].l);
		host[1].l = NULL;
		pump(NULL);
	}
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
		cmocka_unit_test_setup_teardown(bench, setup_bench, teardown_hosts),
	};

	if (argc > 1)
		seconds = atof(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
