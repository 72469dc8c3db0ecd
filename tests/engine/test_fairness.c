/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QP that is idle, failing, flushing, parked or hostile does not delay an honest one by more
 * than a few turns.
 */
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/transport/sched.h"
#include "ib/packet.h"
#include "ib/smp.h"
#include "rig.h"

#define BUDGET	64u
#define TURNS	4u	/* polls after which an honest packet has left */
#define LOG_BAD	12u

/**
 * struct town - two machines with two joined ports each
 * @bad: QPs that misbehave, with CQs of their own; @good: one on each port and lane 0, and one
 *	on port 0 and lane 1
 */
struct town {
	struct rig r;
	struct host_cq cq[2];
	struct host_qp bad[2];
	struct host_qp good[3][2];
};

static void join(struct town *t, struct host_qp q[2], unsigned int port, uint8_t sl)
{
	for (unsigned int i = 0; i < 2; i++) {
		t->r.h[i]->sl = sl;
		host_qp_connect(&q[i], port, (uint16_t)(2 * port + 2 - i), q[1 - i].qpn, 2, 5, 5);
		t->r.h[i]->sl = 0;
	}
}

static void make(struct town *t, struct host_qp q[2], uint8_t type, uint8_t log_sq, bool bad)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct host_qp_init in = {
			.type = type, .log_sq = log_sq, .log_rq = 6,
			.scq = bad ? &t->cq[i] : &t->r.scq[i], .rcq = &t->r.rcq[i],
		};

		assert_int_equal(host_qp_create(t->r.h[i], &q[i], &in), 0);
	}
}

static struct town *town_up(uint8_t type)
{
	struct town *t = calloc(1, sizeof(*t));

	rig_up(&t->r, (struct rig_opt){ .two_ports = true });
	for (unsigned int i = 0; i < 2; i++)
		host_cq_create(t->r.h[i], &t->cq[i], 6, 0);
	make(t, t->bad, type, LOG_BAD, true);
	for (unsigned int k = 0; k < 3; k++) {
		make(t, t->good[k], OHCA_QPT_RC, 10, false);
		join(t, t->good[k], k == 1, k == 2);
	}
	return t;
}

static void town_down(struct town *t)
{
	t->r.h[0]->on_map = NULL;
	t->r.h[1]->on_map = NULL;
	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int k = 0; k < 3; k++)
			host_qp_destroy(&t->good[k][i]);
		host_qp_destroy(&t->bad[i]);
		host_cq_destroy(&t->cq[i]);
	}
	rig_down(&t->r);
	free(t);
}

static struct ohca_hw_db *record(struct host_qp *q)
{
	return host_buf_ptr(q->h, &q->buf, 0);
}

/* The send queue is full, whatever is in it. */
static void fill_sq(struct host_qp *q)
{
	record(q)->sq_pi = record(q)->sq_ci + (1u << q->log_sq);
}

/* A process that keeps its queue full while the device looks at it. */
static void refill(void *arg, struct host *h, uint64_t addr, size_t n, int prot)
{
	(void)h, (void)addr, (void)n, (void)prot;
	fill_sq(arg);
}

static void ring_sq(struct host_qp *q)
{
	ohca_doorbell(q->h->e, q->uar, OHCA_UAR_SQ, q->handle, 8);
}

static void post_write(struct town *t, unsigned int side, struct host_qp *q, uint32_t rkey,
		       uint32_t len)
{
	struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);

	wqe_raddr(&w, t->r.mr[1 - side].iova, rkey ? rkey : t->r.mr[1 - side].key);
	wqe_sge(&w, t->r.mr[side].iova, len, t->r.mr[side].key);
	wqe_post(q, &w);
}

/* Within a few polls a packet of the honest QP leaves by each lane and port. */
static void honest_leave(struct town *t)
{
	struct host *h = t->r.h[0];

	for (unsigned int k = 0; k < 3; k++) {
		struct ohca_xport *xp = h->e->qp[t->good[k][0].handle]->xp;
		uint32_t psn = xp->req.nxt;
		unsigned int polls = 0;

		post_write(t, 0, &t->good[k][0], 0, 8);
		do
			host_poll(h, BUDGET, true);
		while (xp->req.nxt == psn && ++polls < TURNS);
		assert_true(xp->req.nxt != psn);
	}
}

/* A QP in ERR with a full send queue. */
static void test_flush_waits_its_turn(void **state)
{
	struct town *t = town_up(OHCA_QPT_RC);

	(void)state;
	join(t, t->bad, 0, 0);
	rig_modify(&t->bad[0], OHCA_QPS_ERR);
	fill_sq(&t->bad[0]);
	ring_sq(&t->bad[0]);
	honest_leave(t);
	/* it is flushed all the same */
	rig_run(&t->r);
	assert_int_equal(record(&t->bad[0])->sq_ci, 1u << LOG_BAD);
	town_down(t);
}

/* The same for ever; its receive queue is flushed as well. */
static void test_flush_without_end(void **state)
{
	struct town *t = town_up(OHCA_QPT_RC);
	struct host *h = t->r.h[0];
	struct ohca_hw_cqe e;
	unsigned int flushed = 0;

	(void)state;
	join(t, t->bad, 0, 0);
	for (unsigned int i = 0; i < 20; i++)
		host_post_recv(&t->bad[0], i, NULL, 0);
	rig_modify(&t->bad[0], OHCA_QPS_ERR);
	h->on_map = refill;
	h->on_map_arg = &t->bad[0];
	ring_sq(&t->bad[0]);
	for (unsigned int i = 0; i < 3; i++)
		honest_leave(t);
	for (unsigned int i = 0; i < 8; i++)
		host_poll(h, BUDGET, true);
	while (host_cq_poll(&t->r.rcq[0], &e)) {
		assert_int_equal(e.status, WC_WR_FLUSH);
		flushed++;
	}
	assert_int_equal(flushed, 20);
	town_down(t);
}

/* A QP in SQE is the same: it sends nothing. */
static void test_sqe_without_end(void **state)
{
	struct town *t = town_up(OHCA_QPT_UC);
	struct host *h = t->r.h[0];

	(void)state;
	join(t, t->bad, 0, 0);
	/* a WQE of no size fails */
	record(&t->bad[0])->sq_pi = 1;
	ring_sq(&t->bad[0]);
	host_poll(h, BUDGET, true);
	assert_int_equal(rig_state(&t->bad[0]), OHCA_QPS_SQE);
	h->on_map = refill;
	h->on_map_arg = &t->bad[0];
	ring_sq(&t->bad[0]);
	for (unsigned int i = 0; i < 3; i++)
		honest_leave(t);
	town_down(t);
}

/* A QP whose SL is mapped to VL15, that is to nothing: its packets are discarded at once. */
static void test_no_lane(void **state)
{
	static const uint8_t type[] = { OHCA_QPT_UC, OHCA_QPT_RC };

	(void)state;
	for (unsigned int k = 0; k < 2; k++)
		for (unsigned int vl = 8; vl < 16; vl += 7) {
			struct town *t = town_up(type[k]);
			struct host *h = t->r.h[0];

			for (unsigned int i = 0; i < 2; i++)
				t->r.h[i]->e->port[0].sl2vl[3] = (uint8_t)vl;
			join(t, t->bad, 0, 3);
			for (unsigned int i = 0; i < 1u << LOG_BAD; i++)
				post_write(t, 0, &t->bad[0], 0, 8);
			if (type[k] == OHCA_QPT_UC) {
				h->on_map = refill;
				h->on_map_arg = &t->bad[0];
			}
			for (unsigned int i = 0; i < 3; i++)
				honest_leave(t);
			town_down(t);
		}
}

/** struct nak - whether a NAK has left; @ci: WQEs of @q that were flushed before it */
struct nak {
	struct host_qp *q;
	bool seen;
	uint32_t ci;
};

static enum host_fate see_nak(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			      uint32_t len)
{
	struct nak *n = arg;

	(void)from, (void)port, (void)len;
	if (frame[8] == IB_OPN_ACK && IB_AETH_KIND(frame[20]) == IB_AETH_NAK) {
		n->seen = true;
		n->ci = record(n->q)->sq_ci;
	}
	return HOST_DELIVER;
}

/*
 * A responder that refuses a request sends its NAK, and then flushes: though its process keeps the
 * send queue full, and other lanes are busy.
 */
static void test_nak_before_flush(void **state)
{
	struct town *t = town_up(OHCA_QPT_RC);
	struct host *h = t->r.h[1];
	struct nak nak = { .q = &t->bad[1] };
	uint32_t done;
	struct ohca_hw_cqe e;

	(void)state;
	join(t, t->bad, 0, 0);
	/* it has sent nothing yet, but worked */
	for (unsigned int i = 0; i < 2 * OHCA_QUANTUM; i++) {
		struct wqe w = wqe_new(OHCA_OP_NOP, 0, 0);

		wqe_post(&t->bad[1], &w);
	}
	rig_run(&t->r);
	done = t->bad[1].sq_pi;
	post_write(t, 0, &t->bad[0], 0xdead00, 8);
	for (unsigned int k = 0; k < 3; k++)
		for (unsigned int i = 0; i < 40; i++)
			post_write(t, 1, &t->good[k][1], 0, 64000);
	host_hook_set(h, 0, see_nak, &nak);
	h->on_map = refill;
	h->on_map_arg = &t->bad[1];
	/* the requester's packet, and from then on the responder's polls */
	for (unsigned int i = 0; i < TURNS && !nak.seen; i++)
		host_step(t->r.h, 2);
	assert_true(nak.seen);
	assert_int_equal(h->e->qp[t->bad[1].handle]->state, OHCA_QPS_ERR);
	assert_int_equal(nak.ci, done);
	h->on_map = NULL;
	for (unsigned int i = 0; i < TURNS; i++)
		host_step(t->r.h, 2);
	assert_true(host_cq_poll(&t->cq[0], &e));
	assert_int_equal(e.status, WC_REM_ACCESS);
	town_down(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flush_waits_its_turn),
		cmocka_unit_test(test_flush_without_end),
		cmocka_unit_test(test_sqe_without_end),
		cmocka_unit_test(test_no_lane),
		cmocka_unit_test(test_nak_before_flush),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
