/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adaptive routing spreads what HCAs send: RDMA WRITEs of RC from the three hosts of a leaf to those
 * of another, in virtual time. The forwarding tables have one way for all; there are three.
 */
#include <stdio.h>

#include "fabric/mgmt/adaptive.h"

#define PLACES	6u
#include "places.h"

#define FLOWS		3u
#define SCALE		100u
#define DEPTH		4u
#define MSG		(128u << 10)
#define MESSAGES	24u	/* of each flow */
#define LEAF		19u	/* of fat-tree:6, with hosts 3 to 5 */
#define UP		4u	/* its first port that leads to a spine */

static const uint32_t hosts_at[PLACES] = { 3, 4, 5, 6, 7, 8 };
static struct pair flow[FLOWS] = {
	{ { 0, 3 }, OHCA_QPT_RC, 5, { { 0 } } }, { { 1, 4 }, OHCA_QPT_RC, 5, { { 0 } } },
	{ { 2, 5 }, OHCA_QPT_RC, 5, { { 0 } } },
};

static const struct fab_adaptive_cfg kept = { .sls = 1, .gap_ns = 1000000 };
static const struct fab_adaptive_cfg any = { .sls = 1, .gap_ns = 1000000, .any_order = true };
static const struct fab_adaptive_cfg others = { .sls = 2, .gap_ns = 1000000, .any_order = true };

static void begin_spread(const struct fab_adaptive_cfg *cfg)
{
	int lid = 0;

	begin_hosts(from_spec("fat-tree:6"));
	now = 1000000000;
	d->cfg.rate_scale = SCALE;
	m.epoch++;
	hcas = fab_hcas_new(d);
	assert_non_null(hcas);
	for (unsigned int i = 0; i < PLACES; i++)
		place_up(&place_of[i], i, hosts_at[i]);
	for (unsigned int i = 0; i < FLOWS; i++) {
		pair_up(&flow[i]);
		assert_int_equal(fab_route(f, &f->node[LEAF], LID(hosts_at[FLOWS + i])), UP);
	}
	assert_true(!cfg || fab_adaptive_on(&m, FAB_NONE, cfg));
	while (cfg && (lid = fab_adaptive_fill(&m, (uint32_t)lid)) != 0)
		assert_true(lid > 0);
}

static uint64_t count_all(enum ohca_counter id)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < PLACES; i++)
		n += ohca_counter(place_of[i].h->e, id);
	return n;
}

static uint8_t byte_at(const struct place *p, uint32_t off)
{
	return *(uint8_t *)host_buf_ptr(p->h, &p->mr.buf, off);
}

/* What place @i had first. */
static uint8_t first_byte(unsigned int i, uint32_t off)
{
	return (uint8_t)(off * 31 + (off >> 8) * 7 + i);
}

static void write_msg(unsigned int i, unsigned int k)
{
	const struct place *from = &place_of[i], *to = &place_of[FLOWS + i];
	const uint32_t at = k % (HALF / MSG) * MSG;
	struct wqe q = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, k);

	wqe_raddr(&q, to->mr.iova + HALF + at, to->mr.key);
	wqe_sge(&q, from->mr.iova + at, MSG, from->mr.key);
	wqe_post(&flow[i].qp[0], &q);
}

/* All flows at once. Return: ns until the last message is there. */
static uint64_t write_all(void)
{
	unsigned int posted[FLOWS], done[FLOWS] = { 0 }, all = 0;
	const uint64_t begin_ns = now;
	struct ohca_hw_cqe c;

	for (unsigned int i = 0; i < FLOWS; i++)
		for (posted[i] = 0; posted[i] < DEPTH; posted[i]++)
			write_msg(i, posted[i]);
	settle();
	while (all < FLOWS * MESSAGES) {
		step_on();
		for (unsigned int i = 0; i < FLOWS; i++)
			while (host_cq_poll(&place_of[i].cq, &c)) {
				assert_int_equal(c.status, WC_SUCCESS);
				assert_int_equal(c.wr_id, done[i]++);
				all++;
				if (posted[i] < MESSAGES)
					write_msg(i, posted[i]++);
			}
	}
	return now - begin_ns;
}

/* Bytes in place, and nothing was lost or refused. */
static void check_all(void)
{
	for (unsigned int i = 0; i < FLOWS; i++)
		for (uint32_t k = 0; k < HALF; k++)
			if (byte_at(&place_of[FLOWS + i], HALF + k) != first_byte(i, k))
				fail_msg("flow %u: byte %u is wrong", i, k);
	assert_int_equal(count_all(OHCA_CNT_RX_OUT_OF_SEQ), 0);
	assert_int_equal(count_all(OHCA_CNT_RX_DUP), 0);
	assert_int_equal(count_all(OHCA_CNT_ACK_TIMEOUT), 0);
	assert_int_equal(d->n.drop[FAB_DROP_HOQ] + d->n.drop[FAB_DROP_LIFETIME], 0);
}

/* In Gb/s of an unscaled fabric, of all flows. */
static double run(const struct fab_adaptive_cfg *cfg, uint64_t *spread)
{
	void *st = NULL;
	uint64_t ns;

	begin_spread(cfg);
	ns = write_all();
	/* what is under way, for the counters of both ends of wires */
	while (fab_data_timer(d) < 1000000000)
		step_on();
	check_all();
	*spread = d->n.adaptive;
	all_down(flow, FLOWS, PLACES, &st);
	return (double)FLOWS * MESSAGES * MSG * 8 * SCALE / (double)ns;
}

static void test_throughput(void **st)
{
	uint64_t spread[4];
	const double one = run(NULL, &spread[0]), by_flow = run(&kept, &spread[1]);
	const double free_way = run(&any, &spread[2]), not_these = run(&others, &spread[3]);

	(void)st;
	print_message("Gb/s of three flows: %.1f by the tables, %.1f kept, %.1f in any order: %.2f\n",
		      one, by_flow, free_way, free_way / one);
	assert_int_equal(spread[0] + spread[3], 0);
	assert_true(spread[2] > FLOWS * MESSAGES * MSG / 4096 / 4);
	/* the wire has 100 Gb/s with headers */
	assert_true(one > 95 && one < 100);
	assert_true(not_these > 0.99 * one && not_these < 1.01 * one);
	assert_true(free_way > 2 * one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_throughput),
	};

	return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
