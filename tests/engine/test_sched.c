/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Many QPs at once: fairness, timers, destruction during other work. */
#include <stdlib.h>

#include "engine/base/list.h"
#include "engine/base/state.h"
#include "engine/transport/pool.h"
#include "engine/transport/responder.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "engine/transport/to_agents.h"
#include "ib/rate.h"
#include "rig.h"

#define N	40u	/* QPs on each side */

struct crowd {
	struct rig r;
	struct host_qp qp[2][N];
	bool alive[2][N];
};

static uint64_t seed;

static uint32_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20);
}

static void make(struct crowd *c, unsigned int i, unsigned int k)
{
	struct host_qp_init in = { .log_sq = 5, .log_rq = 3, .scq = &c->r.scq[i],
				   .rcq = &c->r.rcq[i] };

	assert_int_equal(host_qp_create(c->r.h[i], &c->qp[i][k], &in), 0);
	c->alive[i][k] = true;
}

static void join(struct crowd *c, unsigned int k)
{
	for (unsigned int i = 0; i < 2; i++)
		host_qp_connect(&c->qp[i][k], 0, (uint16_t)(2 - i), c->qp[1 - i][k].qpn, 2, k, k);
}

static void crowd_up(struct crowd *c)
{
	memset(c, 0, sizeof(*c));
	rig_up(&c->r, (struct rig_opt){ 0 });
	for (unsigned int k = 0; k < N; k++) {
		make(c, 0, k);
		make(c, 1, k);
		join(c, k);
	}
}

static void crowd_down(struct crowd *c)
{
	for (unsigned int k = 0; k < N; k++)
		for (unsigned int i = 0; i < 2; i++)
			if (c->alive[i][k])
				host_qp_destroy(&c->qp[i][k]);
	rig_down(&c->r);
}

static void post(struct crowd *c, unsigned int i, unsigned int k, uint8_t op, uint64_t wr_id,
		 uint32_t len)
{
	struct wqe w = wqe_new(op, OHCA_WQE_SIGNALED, wr_id);
	struct rig *r = &c->r;

	wqe_raddr(&w, r->mr[1 - i].iova, r->mr[1 - i].key);
	wqe_sge(&w, r->mr[i].iova, len, r->mr[i].key);
	wqe_post(&c->qp[i][k], &w);
}

/* Equal messages on all QPs and few credits: no QP completes before every other QP nearly has. */
static void test_fair(void **state)
{
	unsigned int done[N] = { 0 }, total = 0;
	struct crowd *c = malloc(sizeof(*c));
	struct ohca_hw_cqe e;

	(void)state;
	crowd_up(c);
	c->r.h[0]->port[0].credits = 4;
	for (unsigned int m = 0; m < 20; m++)
		for (unsigned int k = 0; k < N; k++)
			post(c, 0, k, OHCA_OP_RDMA_WRITE, k, 2000);
	while (total < 20 * N) {
		unsigned int min = 20, max = 0;

		assert_true(host_step(c->r.h, 2));
		while (host_cq_poll(&c->r.scq[0], &e)) {
			assert_int_equal(e.status, 0);
			done[e.wr_id]++;
			total++;
		}
		for (unsigned int k = 0; k < N; k++) {
			min = done[k] < min ? done[k] : min;
			max = done[k] > max ? done[k] : max;
		}
		/* a turn is 16 packets, that is 4 of these messages */
		assert_true(max - min <= 9);
	}
	crowd_down(c);
	free(c);
}

/* Credits for one packet do not wake all QPs that wait, because only one can send. */
static void test_few_credits(void **state)
{
	struct crowd *c = malloc(sizeof(*c));
	struct host_port *p;
	struct ohca_hw_cqe e;
	unsigned int total = 0;
	uint64_t frames;

	(void)state;
	crowd_up(c);
	p = &c->r.h[0]->port[0];
	p->credits = 1;
	for (unsigned int m = 0; m < 10; m++)
		for (unsigned int k = 0; k < N; k++)
			post(c, 0, k, OHCA_OP_RDMA_WRITE, k, 2000);
	host_step(c->r.h, 2);
	/* let every QP find out that there are no credits */
	while (p->refused < N && host_step(c->r.h, 2))
		;
	p->refused = 0;
	frames = p->frames;
	while (total < 10 * N) {
		assert_true(host_step(c->r.h, 2));
		while (host_cq_poll(&c->r.scq[0], &e)) {
			assert_int_equal(e.status, 0);
			total++;
		}
	}
	frames = p->frames - frames;
	assert_true(frames >= 9 * 4 * N);
	assert_true(p->refused <= 2 * frames);
	crowd_down(c);
	free(c);
}

/* Timers of many QPs, each with its own timeout: they expire in order and in time. */
static void test_timers(void **state)
{
	struct crowd *c = malloc(sizeof(*c));
	struct ohca_hw_cqe e;
	uint64_t last = 0;

	(void)state;
	crowd_up(c);
	host_hook_set(c->r.h[0], 0, host_drop, NULL);
	for (unsigned int k = 0; k < N; k++) {
		struct ohca_hw_qp_attr a = rig_attr(&c->r, 0);
		struct host_qp *q = &c->qp[0][(k * 17) % N];

		rig_modify(q, OHCA_QPS_RESET);
		a.state = OHCA_QPS_INIT;
		host_qp_modify(q, OHCA_ATTR_STATE | OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT |
			       OHCA_ATTR_ACCESS, &a);
		a.state = OHCA_QPS_RTR;
		host_qp_modify(q, OHCA_ATTR_STATE | OHCA_ATTR_AV | OHCA_ATTR_PATH_MTU |
			       OHCA_ATTR_DEST_QPN | OHCA_ATTR_RQ_PSN | OHCA_ATTR_MIN_RNR_TIMER |
			       OHCA_ATTR_MAX_DEST_RD_ATOMIC, &a);
		a.state = OHCA_QPS_RTS;
		a.retry_cnt = 0;
		a.timeout = (uint8_t)(12 + k % 8);
		assert_int_equal(host_qp_modify(q, OHCA_ATTR_STATE | OHCA_ATTR_SQ_PSN |
						OHCA_ATTR_TIMEOUT | OHCA_ATTR_RETRY_CNT |
						OHCA_ATTR_RNR_RETRY | OHCA_ATTR_MAX_RD_ATOMIC, &a),
				 0);
		post(c, 0, (k * 17) % N, OHCA_OP_RDMA_WRITE, a.timeout, 8);
	}
	for (unsigned int ms = 0; ms < 9000; ms += 10) {
		rig_time(&c->r, 10);
		while (host_cq_poll(&c->r.scq[0], &e)) {
			uint64_t spec = 4096ull << e.wr_id;

			assert_int_equal(e.status, WC_RETRY_EXC);
			assert_true(e.wr_id >= last);
			last = e.wr_id;
			assert_in_range((ms + 10) * HOST_MS, spec, 4 * spec + 10 * HOST_MS);
		}
	}
	assert_int_equal(last, 19);
	assert_true(ohca_next_deadline(c->r.h[0]->e) > *c->r.h[0]->now);
	crowd_down(c);
	free(c);
}

/* QPs are destroyed and made while they send, receive, wait for credits and for timers. */
static void test_churn(void **state)
{
	static const uint8_t ops[] = { OHCA_OP_RDMA_WRITE, OHCA_OP_RDMA_READ, OHCA_OP_SEND };
	struct crowd *c = malloc(sizeof(*c));
	struct ohca_hw_cqe e;

	(void)state;
	seed = 4711;
	crowd_up(c);
	for (unsigned int round = 0; round < 3000; round++) {
		unsigned int i = rnd() & 1, k = rnd() % N;

		if (round % 100 == 0)
			c->r.h[0]->port[0].credits = 1 + rnd() % 8;
		if (round % 150 == 0)
			host_hook_set(c->r.h[1], 0, rnd() % 3 ? NULL : host_drop, NULL);
		switch (rnd() % 16) {
		case 0:
			if (c->alive[i][k])
				host_qp_destroy(&c->qp[i][k]);
			c->alive[i][k] = false;
			break;
		case 1:
			if (c->alive[i][k] && rig_state(&c->qp[i][k]) != OHCA_QPS_RESET)
				rig_modify(&c->qp[i][k], rnd() & 1 ? OHCA_QPS_ERR : OHCA_QPS_RESET);
			break;
		case 2:
		case 3:
			for (unsigned int s = 0; s < 2; s++) {
				if (c->alive[s][k])
					rig_modify(&c->qp[s][k], OHCA_QPS_RESET);
				else
					make(c, s, k);
			}
			join(c, k);
			break;
		case 4:
			rig_time(&c->r, rnd() % 20);
			break;
		default:
			if (c->alive[i][k] && rig_state(&c->qp[i][k]) == OHCA_QPS_RTS &&
			    c->qp[i][k].sq_pi < 20)
				post(c, i, k, ops[rnd() % 3], k, rnd() % 30000);
		}
		host_step(c->r.h, 2);
		for (unsigned int s = 0; s < 2; s++)
			while (host_cq_poll(&c->r.scq[s], &e) || host_cq_poll(&c->r.rcq[s], &e))
				;
	}
	host_hook_set(c->r.h[1], 0, NULL, NULL);
	rig_time(&c->r, 3000);
	for (unsigned int s = 0; s < 2; s++)
		while (host_cq_poll(&c->r.scq[s], &e))
			;
	/* after all that a new pair works */
	for (unsigned int s = 0; s < 2; s++) {
		if (c->alive[s][0])
			host_qp_destroy(&c->qp[s][0]);
		make(c, s, 0);
	}
	join(c, 0);
	post(c, 0, 0, OHCA_OP_RDMA_WRITE, 5, 30000);
	rig_time(&c->r, 100);
	wc(&c->r.scq[0], 5, WC_SUCCESS);
	crowd_down(c);
	free(c);
}

/* Memory that many QPs needed at once is freed when they are idle; a reset frees all of it. */
static void test_pools(void **state)
{
	enum { MANY = OHCA_POOL_KEEP + 50 };
	static struct ohca_sqwin *w[MANY];
	static struct ohca_rwqe *q[MANY];
	static struct ohca_rdring *d[MANY];
	struct ohca_sched *s;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	s = r.h[0]->e->sched;
	for (unsigned int k = 0; k < 2; k++) {
		unsigned int nw = 0, nq = 0, nd = 0;

		for (unsigned int i = 0; i < MANY; i++) {
			w[i] = ohca_win_get(r.h[0]->e, 8);
			q[i] = ohca_rwqe_get(r.h[0]->e);
			d[i] = ohca_rdring_get(r.h[0]->e);
			assert_true(w[i] && q[i] && d[i]);
		}
		assert_null(s->win_free[8]);
		for (unsigned int i = 0; i < MANY; i++) {
			ohca_win_put(r.h[0]->e, w[i]);
			ohca_rwqe_put(r.h[0]->e, q[i]);
			ohca_rdring_put(r.h[0]->e, d[i]);
		}
		for (struct ohca_sqwin *p = s->win_free[8]; p; p = p->next)
			nw++;
		for (struct ohca_rwqe_slot *p = s->rwqe_free; p; p = p->next)
			nq++;
		for (struct ohca_rdring *p = s->rd_free; p; p = p->next)
			nd++;
		assert_int_equal(nw, OHCA_POOL_KEEP);
		assert_int_equal(nq, OHCA_POOL_KEEP);
		assert_int_equal(nd, OHCA_POOL_KEEP);
	}
	/* some in use by a QP */
	r.h[0]->port[0].credits = 0;
	rig_write(&r, 0, 1, 0, 0, 100);
	host_step(r.h, 2);
	ohca_reset(r.h[0]->e);
	while (ohca_sweep(r.h[0]->e))
		;
	for (unsigned int i = 0; i <= OHCA_MAX_LOG_WIN; i++)
		assert_null(s->win_free[i]);
	assert_null(s->rwqe_free);
	assert_null(s->rd_free);
	for (unsigned int i = 0; i < 2; i++) {
		host_buf_free(&r.qp[i].buf);
		host_buf_free(&r.scq[i].buf);
		host_buf_free(&r.rcq[i].buf);
		host_buf_free(&r.mr[i].buf);
	}
	host_free(r.h[0]);
	host_free(r.h[1]);
}

/* ---- lanes and rates ---- */

#define MSGS	20u		/* that a QP sends, of 4 packets each */
#define MSG_LEN	2000u

/** struct lanes - packets on each VL; @other_at_end: those of the other VL when one had sent all */
struct lanes {
	unsigned int n[16], total[16];
	unsigned int other_at_end[2];
};

static enum host_fate count_lane(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				 uint32_t len)
{
	struct lanes *l = arg;
	unsigned int vl = frame[0] >> 4;

	(void)from, (void)port, (void)len;
	if (vl < 2 && ++l->n[vl] == l->total[vl])
		l->other_at_end[vl] = l->n[!vl];
	return HOST_DELIVER;
}

static void set_arb(struct host *h, unsigned int block, const struct ib_vlarb_entry *e)
{
	struct ib_vlarb_entry b[IB_VLARB_BLOCK] = { { 0, 0 } };

	for (unsigned int i = 0; e && i < 2; i++)
		b[i] = e[i];
	assert_int_equal(ib_vlarb_set_block(ohca_mad_vlarb(h->e, 0), block, b), 0);
}

/*
 * Half of the QPs use SL 0 and half SL 1, all with the same amount to send, and the arbitration
 * tables apply. @first: the lane that finishes first. Return: packets of the other one until then.
 */
static unsigned int compete(const struct ib_vlarb_entry *low, const struct ib_vlarb_entry *high,
			    uint8_t limit, unsigned int first)
{
	struct crowd *c = malloc(sizeof(*c));
	struct lanes l = { .total = { N / 2 * MSGS * 4, N / 2 * MSGS * 4 } };
	struct ohca_hw_cqe e;
	unsigned int total = 0;

	memset(c, 0, sizeof(*c));
	rig_up(&c->r, (struct rig_opt){ 0 });
	assert_int_equal(c->r.h[0]->e->port[0].sl2vl[1], 1);
	for (unsigned int k = 0; k < N; k++) {
		make(c, 0, k);
		make(c, 1, k);
		c->r.h[0]->sl = c->r.h[1]->sl = (uint8_t)(k & 1);
		join(c, k);
	}
	for (unsigned int i = 1; i <= 4; i++)
		set_arb(c->r.h[0], i, i == 1 ? low : i == 3 ? high : NULL);
	ohca_mad_vlarb(c->r.h[0]->e, 0)->high_limit = limit;
	host_hook_set(c->r.h[0], 0, count_lane, &l);
	for (unsigned int m = 0; m < MSGS; m++)
		for (unsigned int k = 0; k < N; k++)
			post(c, 0, k, OHCA_OP_RDMA_WRITE, k, MSG_LEN);
	while (total < MSGS * N) {
		assert_true(host_step(c->r.h, 2));
		while (host_cq_poll(&c->r.scq[0], &e)) {
			assert_int_equal(e.status, 0);
			total++;
		}
	}
	/* nothing was lost or sent twice, whichever QP had to wait */
	assert_int_equal(l.n[0], l.total[0]);
	assert_int_equal(l.n[1], l.total[1]);
	crowd_down(c);
	free(c);
	return l.other_at_end[first];
}

/* Lanes share the wire as the tables demand, and no lane waits for ever. */
static void test_arbiter(void **state)
{
	static const struct ib_vlarb_entry
		equal[] = { { 0, 64 }, { 1, 64 } }, four[] = { { 0, 64 }, { 1, 16 } },
		one[] = { { 1, 64 }, { 0, 0 } }, other[] = { { 0, 64 }, { 1, 0 } };
	const unsigned int all = N / 2 * MSGS * 4;

	(void)state;
	assert_in_range(compete(equal, NULL, 0, 0), all * 95 / 100, all);
	assert_in_range(compete(four, NULL, 0, 0), all * 23 / 100, all * 27 / 100);
	/* high priority without a limit: no packet of the low one meanwhile */
	assert_in_range(compete(other, one, IB_VLARB_UNLIMITED, 1), 0, 16);
	/* one packet of each; 4 KiB of high priority, that is 8 packets, and one of low priority */
	assert_in_range(compete(other, one, 0, 1), all * 95 / 100, all);
	assert_in_range(compete(other, one, 1, 1), all * 10 / 100, all * 14 / 100);
	/* a lane that is in no table uses the rest */
	assert_in_range(compete(other, NULL, 0, 0), 0, 16);
}

/* A QP with a static rate below that of the port obeys it, and does not delay others. */
static void test_static_rate(void **state)
{
	struct crowd *c = malloc(sizeof(*c));
	struct ohca_hw_cqe e;

	(void)state;
	memset(c, 0, sizeof(*c));
	rig_up(&c->r, (struct rig_opt){ 0 });
	assert_int_equal(c->r.h[0]->e->port[0].mbps, 100000);
	for (unsigned int k = 0; k < 3; k++) {
		static const uint8_t rate[] = {
			IB_RATE_CODE_10, IB_RATE_CODE_2_5, IB_RATE_CODE_100,
		};

		make(c, 0, k);
		make(c, 1, k);
		c->r.h[0]->static_rate = c->r.h[1]->static_rate = rate[k];
		join(c, k);
	}
	for (unsigned int k = 0; k < 3; k++) {
		/* ps a byte, with LRH, BTH and CRCs; the first packet has a RETH */
		uint64_t ps = k == 0 ? 800 : 3200, len = 1u << 20, pkts = len / 512;
		/* of wires that take twice as long, too */
		const unsigned int scale = k == 1 ? 2 : 1;
		uint64_t want = (len + pkts * 26 + 16) * ps * scale / 1000;
		uint64_t begin = *c->r.h[0]->now, took, frames = c->r.h[0]->port[0].frames;

		c->r.h[0]->e->cfg.rate_scale = scale;
		post(c, 0, k, OHCA_OP_RDMA_WRITE, k, (uint32_t)len);
		for (unsigned int i = 0; !host_cq_poll(&c->r.scq[0], &e); i++) {
			assert_true(i < 10000);
			host_run(c->r.h, 2, k == 2 ? 0 : 1000);
		}
		assert_int_equal(e.status, 0);
		took = *c->r.h[0]->now - begin;
		assert_int_equal(c->r.h[0]->port[0].frames - frames, pkts);
		if (k == 2)
			assert_int_equal(took, 0);
		else
			assert_in_range(took, want - OHCA_PACE_NS - 10000, want + 10000);
	}
	/* destroyed while it waits */
	post(c, 0, 0, OHCA_OP_RDMA_WRITE, 0, 1u << 20);
	host_run(c->r.h, 2, 1000);
	assert_int_equal(c->r.h[0]->e->sched->paced.num, 1);
	host_qp_destroy(&c->qp[0][0]);
	c->alive[0][0] = false;
	assert_int_equal(c->r.h[0]->e->sched->paced.num, 0);
	host_run(c->r.h, 2, HOST_MS);
	crowd_down(c);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fair),
		cmocka_unit_test(test_few_credits),
		cmocka_unit_test(test_timers),
		cmocka_unit_test(test_churn),
		cmocka_unit_test(test_pools),
		cmocka_unit_test(test_arbiter),
		cmocka_unit_test(test_static_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
