/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adaptive routing spreads packets of HCAs: RDMA WRITEs of RC to the three hosts of a leaf, in
 * virtual time. The forwarding tables use one of three spines for all.
 */
#include <stdio.h>
#include <zlib.h>

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
#define STEPS		60u

static const uint32_t one_leaf[PLACES] = { 3, 4, 5, 6, 7, 8 };
static const uint32_t three_leaves[PLACES] = { 3, 9, 12, 6, 7, 8 };
static struct pair flow[FLOWS] = {
	{ { 0, 3 }, OHCA_QPT_RC, 5, { { 0 } } }, { { 1, 4 }, OHCA_QPT_RC, 5, { { 0 } } },
	{ { 2, 5 }, OHCA_QPT_RC, 5, { { 0 } } },
};

static const struct fab_adaptive_cfg kept = { .sls = 1, .gap_ns = 1000000 };
static const struct fab_adaptive_cfg any = { .sls = 1, .gap_ns = 1000000, .any_order = true };
static const struct fab_adaptive_cfg others = { .sls = 2, .gap_ns = 1000000, .any_order = true };

static void switch_on(const struct fab_adaptive_cfg *cfg)
{
	int lid = 0;

	assert_true(fab_adaptive_on(&m, FAB_NONE, cfg));
	do
		lid = fab_adaptive_fill(&m, (uint32_t)lid);
	while (lid > 0);
	assert_int_equal(lid, 0);
}

/* Puts the HCAs at these hosts. @cfg: adaptive routing; NULL: none */
static void begin_spread(const uint32_t at[PLACES], const struct fab_adaptive_cfg *cfg)
{
	begin_hosts(from_spec("fat-tree:6"));
	now = 1000000000;
	d->cfg.rate_scale = SCALE;
	m.epoch++;
	hcas = fab_hcas_new(d);
	assert_non_null(hcas);
	for (unsigned int i = 0; i < PLACES; i++)
		place_up(&place_of[i], i, at[i]);
	for (unsigned int i = 0; i < FLOWS; i++) {
		pair_up(&flow[i]);
		assert_int_equal(fab_route(f, &f->node[LEAF], LID(at[FLOWS + i])), UP);
	}
	if (cfg)
		switch_on(cfg);
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

/* Return: the first contents of place @i at @off. */
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

/* Writes with all flows at once. Return: ns until the last message has completed. */
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

/* Checks that nothing was lost, or counted as lost. */
static void check_counters(void)
{
	assert_int_equal(count_all(OHCA_CNT_RX_OUT_OF_SEQ), 0);
	assert_int_equal(count_all(OHCA_CNT_RX_DUP), 0);
	assert_int_equal(count_all(OHCA_CNT_ACK_TIMEOUT), 0);
	assert_int_equal(d->n.drop[FAB_DROP_HOQ] + d->n.drop[FAB_DROP_LIFETIME], 0);
}

/* Checks that all bytes are in place. */
static void check_bytes(void)
{
	for (unsigned int i = 0; i < FLOWS; i++)
		for (uint32_t k = 0; k < HALF; k++)
			if (byte_at(&place_of[FLOWS + i], HALF + k) != first_byte(i, k))
				fail_msg("flow %u: byte %u is wrong", i, k);
}

/* Lets outstanding packets arrive, so that the counters of both ends of wires agree. */
static void arrive(void)
{
	while (fab_data_timer(d) < 1000000000)
		step_on();
}

/* Return: the throughput of all flows, in Gb/s of an unscaled fabric. */
static double run(const uint32_t at[PLACES], const struct fab_adaptive_cfg *cfg, uint64_t *spread)
{
	void *st = NULL;
	uint64_t ns;

	begin_spread(at, cfg);
	ns = write_all();
	arrive();
	check_bytes();
	check_counters();
	*spread = d->n.adaptive;
	all_down(flow, FLOWS, PLACES, &st);
	return (double)FLOWS * MESSAGES * MSG * 8 * SCALE / (double)ns;
}

static void test_throughput(void **st)
{
	uint64_t spread[4];
	const double one = run(one_leaf, NULL, &spread[0]);
	const double by_flow = run(one_leaf, &kept, &spread[1]);
	const double free_way = run(one_leaf, &any, &spread[2]);
	const double not_these = run(one_leaf, &others, &spread[3]);

	(void)st;
	print_message("from one leaf: Gb/s: %.1f by the tables, %.1f kept, %.1f in any order\n",
		      one, by_flow, free_way);
	assert_int_equal(spread[0] + spread[3], 0);
	assert_true(spread[2] > FLOWS * MESSAGES * MSG / 4096 / 4);
	/* the wire carries 100 Gb/s with headers */
	assert_true(one > 95 && one < 100);
	assert_true(not_these > 0.99 * one && not_these < 1.01 * one);
	assert_true(free_way > 2 * one);
}

/* Flows that meet only behind the first switch, which cannot detect that. */
static void test_meet(void **st)
{
	uint64_t spread;
	const double one = run(three_leaves, NULL, &spread);
	const double by_flow = run(three_leaves, &kept, &spread);
	const double free_way = run(three_leaves, &any, &spread);

	(void)st;
	print_message("from three leaves: Gb/s: %.1f by the tables, %.1f kept, %.1f in any order\n",
		      one, by_flow, free_way);
	assert_true(one > 95 && one < 100);
	assert_true(free_way > 2 * one);
	assert_true(free_way > 2 * by_flow);
}

/* ---- all kinds of requests ----------------------------------------------------- */

static uint64_t state;

static uint32_t rnd(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16) % n;
}

/* Flow @i posts a request, while earlier ones are outstanding. */
static void post_any(unsigned int i, unsigned int step)
{
	static const uint8_t ops[] = {
		OHCA_OP_RDMA_WRITE, OHCA_OP_RDMA_WRITE, OHCA_OP_RDMA_WRITE, OHCA_OP_RDMA_WRITE_IMM,
		OHCA_OP_RDMA_READ, OHCA_OP_SEND,
	};
	const struct place *from = &place_of[i], *to = &place_of[FLOWS + i];
	const uint8_t op = ops[rnd(6)];
	const uint32_t len = rnd(3) ? rnd(100000) : rnd(600);
	/* READs and SENDs use parts that no WRITE changes */
	const uint32_t off = rnd(HALF - len);
	const uint32_t dst = HALF + (op == OHCA_OP_SEND || op == OHCA_OP_RDMA_READ ?
				     300000 + rnd(HALF - 300000 - len) : rnd(200000));
	const bool read = op == OHCA_OP_RDMA_READ;
	struct ohca_hw_sge sge = host_sge(to->mr.iova + dst, len, to->mr.key);
	struct wqe q = wqe_new(op, OHCA_WQE_SIGNALED, step);

	if (op == OHCA_OP_SEND || op == OHCA_OP_RDMA_WRITE_IMM)
		host_post_recv(&flow[i].qp[1], step, &sge, op == OHCA_OP_SEND);
	if (op == OHCA_OP_RDMA_WRITE_IMM)
		wqe_imm(&q, step);
	if (op != OHCA_OP_SEND)
		wqe_raddr(&q, to->mr.iova + (read ? off : dst), to->mr.key);
	wqe_sge(&q, from->mr.iova + (read ? dst : off), len, from->mr.key);
	wqe_post(&flow[i].qp[0], &q);
}

/* Return: a sum over all memory, and over the completions of each CQ in their order. */
static uLong play(const struct fab_adaptive_cfg *cfg)
{
	unsigned int pending = 0;
	uLong sum[2 * PLACES] = { 0 };
	void *st = NULL;
	uLong s = 0;

	begin_spread(one_leaf, cfg);
	state = 4711;
	for (unsigned int step = 0; step < STEPS; step++) {
		for (unsigned int i = 0; i < FLOWS; i++)
			for (unsigned int n = 1 + rnd(4); n; n--, pending++)
				post_any(i, step);
		settle();
		while (pending) {
			struct ohca_hw_cqe c;

			step_on();
			for (unsigned int i = 0; i < PLACES; i++)
				while (host_cq_poll(&place_of[i].cq, &c)) {
					const uint64_t v[] = { c.wr_id, c.status, c.opcode,
							       c.byte_len, c.imm };

					assert_int_equal(c.status, WC_SUCCESS);
					sum[i] = crc32(sum[i], (const uint8_t *)v, sizeof(v));
					pending -= i < FLOWS;
				}
		}
	}
	arrive();
	check_counters();
	for (unsigned int i = 0; i < PLACES; i++) {
		static uint8_t all[LEN];

		host_buf_read(place_of[i].h, &place_of[i].mr.buf, 0, all, LEN);
		sum[PLACES + i] = crc32(0, all, LEN);
	}
	s = crc32(0, (const uint8_t *)sum, sizeof(sum));
	if (cfg)
		assert_true(d->n.adaptive > 100);
	all_down(flow, FLOWS, PLACES, &st);
	return s;
}

/* WRITEs that overlap, immediate data, READs and SENDs have the same results as with one path. */
static void test_mixed(void **st)
{
	(void)st;
	assert_int_equal(play(NULL), play(&any));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_throughput), cmocka_unit_test(test_meet),
		cmocka_unit_test(test_mixed),
	};

	return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
