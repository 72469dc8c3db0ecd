/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flows over several switches: the same traffic of four HCAs at a fat tree, once by flows with
 * views and series, and once packet by packet at each switch. At the end the results are the same
 * at every port of the fabric.
 */
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "fabric/data/hport_priv.h"
#include "fabric/traffic/traffic.h"
#include "ib/rate.h"
#include "places.h"

#define NODES	PLACES
#define PAIRS	8u
#define MOST	300000u
#define STEPS	150u

static const uint32_t hosts_at[NODES] = { 2, 3, 1, 15 };	/* over 1, 3 and 5 switches */
static uint64_t state;
static unsigned long completions;

static uint32_t rnd(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16) % n;
}

static void post(struct pair *p, unsigned int k, unsigned int step)
{
	static const uint8_t ops[] = { OHCA_OP_RDMA_WRITE, OHCA_OP_RDMA_READ, OHCA_OP_SEND };
	const struct place *from = &place_of[p->side[k]], *to = &place_of[p->side[!k]];
	const uint8_t op = ops[rnd(3)];
	const uint32_t len = rnd(3) ? rnd(MOST) : rnd(600);
	const uint32_t off = rnd(HALF - len), dst = HALF + rnd(HALF - len);
	const bool read = op == OHCA_OP_RDMA_READ;
	struct ohca_hw_sge sge = host_sge(to->mr.iova + dst, len, to->mr.key);
	struct wqe q = wqe_new(op, OHCA_WQE_SIGNALED, step);

	if (read && p->type == OHCA_QPT_UC)
		return;
	if (op == OHCA_OP_SEND)
		host_post_recv(&p->qp[!k], step, &sge, 1);
	else
		wqe_raddr(&q, to->mr.iova + (read ? off : dst), to->mr.key);
	wqe_sge(&q, from->mr.iova + (read ? dst : off), len, from->mr.key);
	wqe_post(&p->qp[k], &q);
}

static uLong sum(uLong s, const void *p, size_t n)
{
	return crc32(s, p, (uInt)n);
}

static uLong drain(uLong s)
{
	struct ohca_hw_cqe c;

	for (unsigned int i = 0; i < NODES; i++)
		for (; host_cq_poll(&place_of[i].cq, &c); completions++)
			s = sum(s, &c, sizeof(c));
	return s;
}

/* Everything that is visible of the fabric and its HCAs. */
static uLong outcome(uLong s)
{
	for (unsigned int i = 0; i < NODES; i++) {
		const struct host *h = place_of[i].h;

		s = sum(s, h->mem, h->next_page * HOST_PAGE);
		s = sum(s, &h->e->port[0].cnt, sizeof(struct ohca_port_counters));
		for (unsigned int id = 0; id < OHCA_CNT_NUM; id++) {
			const uint64_t n = ohca_counter(h->e, id);

			s = sum(s, &n, sizeof(n));
		}
	}
	for (uint32_t p = 1; p < f->ports; p++) {
		const struct fab_extra *x = fab_extra_of(f, p);

		if (x)
			s = sum(s, &x->ctr, sizeof(x->ctr));
	}
	s = sum(s, &d->n.hops, sizeof(d->n.hops));
	s = sum(s, &d->n.delivered, sizeof(d->n.delivered));
	return sum(s, d->n.drop, sizeof(d->n.drop));
}

/* Every packet is built completely, leaves alone, and passes each switch by itself. */
static void make_plain(void)
{
	for (unsigned int i = 0; i < NODES; i++) {
		struct fab_hport *h = d->by_port[port_of_host(place_of[i].at)]->hport;

		free(h->flow);
		h->flow = NULL;
		place_of[i].h->e->ops.tx_commit_view = NULL;
	}
}

static uLong play(bool plain)
{
	struct pair pair[PAIRS] = {
		{ { 0, 1 }, OHCA_QPT_RC, 5, { { 0 } } }, { { 0, 2 }, OHCA_QPT_RC, 5, { { 0 } } },
		{ { 0, 3 }, OHCA_QPT_RC, 3, { { 0 } } }, { { 1, 3 }, OHCA_QPT_UC, 5, { { 0 } } },
		{ { 2, 3 }, OHCA_QPT_RC, 5, { { 0 } } }, { { 3, 2 }, OHCA_QPT_UC, 3, { { 0 } } },
		{ { 3, 0 }, OHCA_QPT_RC, 5, { { 0 } } }, { { 1, 2 }, OHCA_QPT_RC, 1, { { 0 } } },
	};
	void *st = NULL;
	uLong s = 0;

	begin_hosts(from_spec("fat-tree:4,3"));
	now = 1000000000;
	state = 12345;
	hcas = fab_hcas_new(d);
	assert_non_null(hcas);
	for (unsigned int i = 0; i < NODES; i++)
		place_up(&place_of[i], i, hosts_at[i]);
	for (unsigned int i = 0; i < PAIRS; i++)
		pair_up(&pair[i]);
	if (plain)
		make_plain();
	for (unsigned int step = 0; step < STEPS; step++) {
		for (unsigned int n = 1 + rnd(5); n; n--)
			post(&pair[rnd(PAIRS)], rnd(2), step);
		/* the same tables with another version */
		if (!rnd(10))
			m.epoch++;
		settle();
		now += 100000;
		settle();
		s = drain(s);
	}
	s = outcome(s);
	all_down(pair, PAIRS, NODES, &st);
	return s;
}

static void test_several_switches(void **st)
{
	uLong flows, plain;
	unsigned long n;

	(void)st;
	flows = play(false);
	n = completions;
	plain = play(true);
	assert_true(n > 2 * STEPS);
	assert_int_equal(completions, 2 * n);
	assert_int_equal(flows, plain);
}

/* ---- wires with rates ---------------------------------------------------------- */

/* Return: ns to write @len bytes @n times from the first place to the second. */
static uint64_t write_ns(struct pair *p, unsigned int n, uint32_t len)
{
	struct place *from = &place_of[p->side[0]];
	const struct place *to = &place_of[p->side[1]];
	const uint64_t begin_ns = now;
	struct ohca_hw_cqe c;

	for (unsigned int i = 0; i < n; i++) {
		struct wqe q = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, i);

		wqe_raddr(&q, to->mr.iova + HALF, to->mr.key);
		wqe_sge(&q, from->mr.iova, len, from->mr.key);
		wqe_post(&p->qp[0], &q);
	}
	settle();
	while (n) {
		step_on();
		while (n && host_cq_poll(&from->cq, &c)) {
			assert_int_equal(c.status, 0);
			n--;
		}
	}
	return now - begin_ns;
}

/* An HCA sends at the rate of its wire, 100 Gb/s / 100, with headers. */
static void test_rate(void **st)
{
	struct pair p = { { 0, 1 }, OHCA_QPT_RC, 5, { { 0 } } };
	const uint64_t packet_ns = (4096 + 8 + 12 + 4 + 2) * 8;
	uint64_t ns;

	begin_hosts(from_spec("fat-tree:4,3"));
	now = 1000000000;
	d->cfg.rate_scale = 100;
	m.epoch++;
	hcas = fab_hcas_new(d);
	assert_non_null(hcas);
	for (unsigned int i = 0; i < 2; i++)
		place_up(&place_of[i], i, hosts_at[i]);
	pair_up(&p);
	ns = write_ns(&p, 4, 256 * 4096);
	assert_in_range(ns, 1024 * packet_ns, 1024 * packet_ns * 101 / 100);
	/* a wire of a quarter of the rate */
	f->port[port_of_host(place_of[1].at)].pi.width_active = IB_WIDTH_1X;
	m.epoch++;
	ns = write_ns(&p, 4, 256 * 4096);
	assert_in_range(ns, 4 * 1024 * packet_ns, 4 * 1024 * packet_ns * 101 / 100);
	assert_int_equal(d->n.drop[FAB_DROP_HOQ] + d->n.drop[FAB_DROP_LIFETIME], 0);
	all_down(&p, 1, 2, st);
}

/* ---- congestion ---------------------------------------------------------------- */

#define FLOWS		4u
#define SCALE		100u
#define DEPTH		4u
#define MSG		65536u
#define MESSAGES	2400u	/* that are complete at the end */

/* Sets the usual values (Documentation/congestion.rst), with a CCTI for each QP. */
static void set_congestion(void)
{
	struct fab_congestion_cfg usual;

	fab_congestion_usual(&usual);
	for (uint32_t i = 0; i < f->nodes; i++) {
		struct ib_cc *cc = f->node[i].sw == FAB_NONE ? NULL :
				   fab_cc(f, fab_port_of(&f->node[i], 0));

		if (cc)
			cc->sw = usual.sw;
	}
	usual.ca.port_control = 0;
	/* each of three senders sends a packet in three times 330 ns */
	for (unsigned int sl = 0; sl < IB_CC_SLS; sl++)
		usual.ca.sl[sl].ccti_timer = 1;
	for (unsigned int i = 0; i < NODES; i++)
		host_congestion(place_of[i].h, 0, &usual.ca);
	m.epoch++;
}

static void write_on(struct pair *p, unsigned int flow)
{
	const struct place *from = &place_of[p->side[0]], *to = &place_of[p->side[1]];
	struct wqe q = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, flow);

	wqe_raddr(&q, to->mr.iova + HALF, to->mr.key);
	wqe_sge(&q, from->mr.iova, MSG, from->mr.key);
	wqe_post(&p->qp[0], &q);
}

/*
 * Three HCAs write to the one at host 1, and one of them also to another host. @share: bytes of
 * each flow in the second half, in thousandths of the rate of a wire.
 */
static void incast(bool control, unsigned int share[FLOWS], uint64_t *fecns)
{
	struct pair p[FLOWS] = {
		{ { 0, 2 }, OHCA_QPT_RC, 5, { { 0 } } }, { { 1, 2 }, OHCA_QPT_RC, 5, { { 0 } } },
		{ { 3, 2 }, OHCA_QPT_RC, 5, { { 0 } } }, { { 1, 0 }, OHCA_QPT_RC, 5, { { 0 } } },
	};
	unsigned int done = 0, of[FLOWS] = { 0 };
	uint64_t begin_ns = 0, end_ns = 0;
	void *st = NULL;

	begin_hosts(from_spec("fat-tree:4,3"));
	now = 1000000000;
	d->cfg.rate_scale = SCALE;
	m.epoch++;
	hcas = fab_hcas_new(d);
	assert_non_null(hcas);
	for (unsigned int i = 0; i < NODES; i++)
		place_up(&place_of[i], i, hosts_at[i]);
	for (unsigned int i = 0; i < FLOWS; i++)
		pair_up(&p[i]);
	if (control)
		set_congestion();
	for (unsigned int i = 0; i < FLOWS * DEPTH; i++)
		write_on(&p[i % FLOWS], i % FLOWS);
	settle();
	while (done < MESSAGES + FLOWS * DEPTH) {
		struct ohca_hw_cqe c;

		step_on();
		for (unsigned int i = 0; i < NODES; i++)
			while (host_cq_poll(&place_of[i].cq, &c)) {
				assert_int_equal(c.status, 0);
				if (++done == MESSAGES / 2)
					begin_ns = now;
				else if (done == MESSAGES)
					end_ns = now;
				if (done > MESSAGES)
					continue;
				of[c.wr_id] += done > MESSAGES / 2;
				write_on(&p[c.wr_id], (unsigned int)c.wr_id);
			}
	}
	/* until the last packets have arrived */
	while (fab_data_timer(d) < 1000000000)
		step_on();
	for (unsigned int i = 0; i < FLOWS; i++)
		share[i] = (unsigned int)((uint64_t)of[i] * MSG * 80 * SCALE / (end_ns - begin_ns));
	*fecns = d->n.fecns;
	all_down(p, FLOWS, NODES, &st);
}

/* HCAs that obey BECNs leave room for a flow that shares wires with theirs. */
static void test_incast(void **st)
{
	unsigned int without[FLOWS], with[FLOWS];
	uint64_t fecns;

	(void)st;
	incast(false, without, &fecns);
	assert_int_equal(fecns, 0);
	incast(true, with, &fecns);
	for (unsigned int i = 0; i < FLOWS; i++)
		print_message("flow %u: %u and %u of 1000\n", i, without[i], with[i]);
	assert_true(fecns > 100);
	assert_in_range(without[0] + without[1] + without[2], 950, 1000);
	assert_in_range(with[0] + with[1] + with[2], 950, 1000);
	/*
	 * each of three has the same share of the wire to host 1, and the fourth one most of the
	 * rest
	 */
	for (unsigned int i = 0; i < 3; i++)
		assert_in_range(with[i], 300, 360);
	assert_in_range(without[3], 200, 300);
	assert_in_range(with[3], 480, 700);
}

/* ---- lanes --------------------------------------------------------------------- */

/*
 * Two HCAs write to a third one, by lanes 0 and 1, whose weights are 1 and @ratio packets of 1 KiB.
 * Return: the share of lane 1 in the second half, in thousandths of the wire.
 */
static unsigned int lanes(unsigned int ratio)
{
	struct pair p[2] = {
		{ { 1, 0 }, OHCA_QPT_RC, 3, { { 0 } } }, { { 2, 0 }, OHCA_QPT_RC, 3, { { 0 } } },
	};
	const struct ib_vlarb_entry low[IB_VLARB_BLOCK] = {
		{ .vl = 0, .weight = 16 }, { .vl = 1, .weight = (uint8_t)(16 * ratio) },
	};
	unsigned int done = 0, of[2] = { 0 };
	struct ib_vlarb arb;
	void *st = NULL;

	/* host 0 has the subnet manager */
	begin_hosts(from_spec("star:4"));
	now = 1000000000;
	d->cfg.rate_scale = SCALE;
	hcas = fab_hcas_new(d);
	assert_non_null(hcas);
	for (unsigned int i = 0; i < 3; i++)
		place_up(&place_of[i], i, 1 + i);
	ib_vlarb_init(&arb, IB_VLARB_MAX, 0);
	assert_int_equal(ib_vlarb_set_block(&arb, 1, low), 0);
	f->port[port_of_host(place_of[0].at)].vlarb = fab_pool_get(&f->vlarb, &arb);
	m.epoch++;
	for (unsigned int i = 0; i < 2; i++) {
		place_of[1 + i].h->sl = (uint8_t)i;
		pair_up(&p[i]);
	}
	for (unsigned int i = 0; i < 2 * 2 * DEPTH; i++)
		write_on(&p[i % 2], i % 2);
	settle();
	while (done < MESSAGES / 2) {
		struct ohca_hw_cqe c;

		step_on();
		for (unsigned int i = 1; i < 3; i++)
			while (host_cq_poll(&place_of[i].cq, &c)) {
				assert_int_equal(c.status, 0);
				of[c.wr_id] += ++done > MESSAGES / 4;
				write_on(&p[c.wr_id], (unsigned int)c.wr_id);
			}
	}
	all_down(p, 2, 3, &st);
	return 1000 * of[1] / (of[0] + of[1]);
}

static void test_lanes(void **st)
{
	(void)st;
	for (unsigned int ratio = 1; ratio <= 15; ratio = 2 * ratio + 1) {
		const unsigned int share = lanes(ratio), want = 1000 * ratio / (1 + ratio);

		print_message("1:%u: %u of 1000\n", ratio, share);
		assert_in_range(share, want - 15, want + 15);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_several_switches), cmocka_unit_test(test_rate),
		cmocka_unit_test(test_incast), cmocka_unit_test(test_lanes),
	};

	return cmocka_run_group_tests_name("flows", tests, NULL, NULL);
}
