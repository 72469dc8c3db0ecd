/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QP that is idle, failing, flushing, parked or hostile does not delay an honest one by more than
 * a few turns.
 */
#include <stdlib.h>

#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/transport/sched.h"
#include "ib/packet.h"
#include "ib/rate.h"
#include "ib/smp.h"
#include "rig.h"

#define BUDGET	64u
#define TURNS	4u	/* polls after which an honest packet must have left */
#define LOG_BAD	12u
#define CROWD	200u
#define ROUNDS	20u	/* steps of time; more than an ACK timeout in all */

/**
 * struct town - two machines with two joined ports each
 * @bad: QPs that misbehave, with CQs of their own
 * @good: honest QPs: one on each port and lane 0, and one on port 0 and lane 1
 * @crowd: @num more that misbehave; @srq: of one of @bad; @by: the machine that is attacked
 * @armed: limits of @srq that were set, after @eqes events
 */
struct town {
	struct rig r;
	struct host_cq cq[2];
	struct host_qp bad[2];
	struct host_qp good[3][2];
	struct host_qp crowd[CROWD][2];
	unsigned int num, by;
	uint64_t eqes;
	unsigned int armed;
	struct host_srq srq;
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
		host_cq_create(t->r.h[i], &t->cq[i], 12, 0);
	make(t, t->bad, type, LOG_BAD, true);
	for (unsigned int k = 0; k < 3; k++) {
		make(t, t->good[k], OHCA_QPT_RC, 10, false);
		join(t, t->good[k], k == 1, k == 2);
	}
	for (unsigned int i = 0; i < 2; i++)
		memset(&t->r.h[i]->most, 0, sizeof(t->r.h[i]->most));
	return t;
}

static void town_down(struct town *t, const char *attack)
{
	host_attack(t->r.h[t->by], attack, OHCA_POLL_WORK(BUDGET));
	t->r.h[0]->on_map = NULL;
	t->r.h[1]->on_map = NULL;
	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int k = 0; k < 3; k++)
			host_qp_destroy(&t->good[k][i]);
		host_qp_destroy(&t->bad[i]);
		for (unsigned int k = 0; k < t->num; k++)
			host_qp_destroy(&t->crowd[k][i]);
		host_cq_destroy(&t->cq[i]);
	}
	host_buf_free(&t->srq.buf);
	rig_down(&t->r);
	free(t);
}

static struct ohca_hw_db *record(struct host_qp *q)
{
	return host_buf_ptr(q->h, &q->buf, 0);
}

/* Makes the send queue full, whatever it contains. */
static void fill_sq(struct host_qp *q)
{
	record(q)->sq_pi = record(q)->sq_ci + (1u << q->log_sq);
}

/* A process that fills its queue again while the device reads it. */
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
			host_poll(h, BUDGET);
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
	/* it is flushed nevertheless */
	rig_run(&t->r);
	assert_int_equal(record(&t->bad[0])->sq_ci, 1u << LOG_BAD);
	town_down(t, "QP in ERR with a full send queue");
}

/* The same without end; its receive queue is flushed, too. */
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
		host_poll(h, BUDGET);
	while (host_cq_poll(&t->r.rcq[0], &e)) {
		assert_int_equal(e.status, WC_WR_FLUSH);
		flushed++;
	}
	assert_int_equal(flushed, 20);
	town_down(t, "QP in ERR whose send queue stays full");
}

/* A QP in SQE: it sends nothing. */
static void test_sqe_without_end(void **state)
{
	struct town *t = town_up(OHCA_QPT_UC);
	struct host *h = t->r.h[0];

	(void)state;
	join(t, t->bad, 0, 0);
	/* an empty WQE fails */
	record(&t->bad[0])->sq_pi = 1;
	ring_sq(&t->bad[0]);
	host_poll(h, BUDGET);
	assert_int_equal(rig_state(&t->bad[0]), OHCA_QPS_SQE);
	h->on_map = refill;
	h->on_map_arg = &t->bad[0];
	ring_sq(&t->bad[0]);
	for (unsigned int i = 0; i < 3; i++)
		honest_leave(t);
	town_down(t, "QP in SQE whose send queue stays full");
}

/* A QP whose SL is mapped to VL15, where data is not allowed: its packets are discarded at once. */
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
			town_down(t, "QPs whose SL has no lane");
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
 * A responder that refuses a request sends its NAK and flushes then, even if its process keeps the
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
	t->by = 1;
	join(t, t->bad, 0, 0);
	/* it has sent nothing yet, but executed WQEs */
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
	/* the requester's packet, and afterwards the responder's polls */
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
	town_down(t, "refused request at a QP whose send queue stays full");
}

/* Polls until the honest QP on port 0 and lane 0 has sent its next packet. */
static unsigned int polls_to_send(struct town *t)
{
	struct ohca_xport *xp = t->r.h[0]->e->qp[t->good[0][0].handle]->xp;
	uint32_t psn = xp->req.nxt;
	unsigned int polls = 0;

	while (xp->req.nxt == psn && polls < 100) {
		host_poll(t->r.h[0], BUDGET);
		polls++;
	}
	return polls;
}

static void post_nops(struct host_qp *q, unsigned int n)
{
	while (n--) {
		struct wqe w = wqe_new(OHCA_OP_NOP, 0, 0);

		wqe_post(q, &w);
	}
}

static void crowd_up(struct town *t, unsigned int num, uint8_t sl);

/*
 * A crowd flushes, and several lanes are busy. Work without packets that precedes a packet, such as
 * the registration of the memory that it names, does not move an honest QP behind the crowd.
 */
static void test_local_before_packet(void **state)
{
	struct town *t = town_up(OHCA_QPT_RC);
	struct host_qp *good = &t->good[0][0];

	(void)state;
	crowd_up(t, CROWD, 0);
	for (unsigned int k = 0; k < CROWD; k++) {
		rig_modify(&t->crowd[k][0], OHCA_QPS_ERR);
		t->crowd[k][0].sq_pi = record(&t->crowd[k][0])->sq_ci;
	}
	/* a QP that had much of such work, and is idle */
	post_nops(good, 3 * OHCA_QUANTUM);
	rig_run(&t->r);
	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int k = 0; k < CROWD; k++) {
			fill_sq(&t->crowd[k][0]);
			ring_sq(&t->crowd[k][0]);
		}
		for (unsigned int n = 0; n < 8; n++)
			post_write(t, 0, &t->good[2][0], 0, 64000);
		host_poll(t->r.h[0], BUDGET);
		if (i)
			post_nops(good, 2);
		post_write(t, 0, good, 0, 8);
		assert_in_range(polls_to_send(t), 1, TURNS);
		rig_run(&t->r);
	}
	town_down(t, "200 QPs that flush");
}

/* ---- a table of attackers ------------------------------------------------------------- */

static void crowd_up(struct town *t, unsigned int num, uint8_t sl)
{
	for (t->num = 0; t->num < num; t->num++) {
		make(t, t->crowd[t->num], OHCA_QPT_RC, 6, true);
		join(t, t->crowd[t->num], 0, sl);
	}
}

static void step(struct town *t, unsigned int n)
{
	while (n--)
		host_step(t->r.h, 2);
}

static void ring_crowd(struct town *t)
{
	for (unsigned int k = 0; k < t->num; k++) {
		ring_sq(&t->crowd[k][0]);
		ohca_doorbell(t->r.h[0]->e, 0, OHCA_UAR_RQ, t->crowd[k][0].handle, 8);
	}
}

static void crowd_sends(struct town *t)
{
	for (unsigned int k = 0; k < t->num; k++) {
		struct wqe w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 0);

		wqe_post(&t->crowd[k][0], &w);
	}
}

/* Idle QPs whose process rings their doorbells without pause. */
static void idle(struct town *t)
{
	crowd_up(t, CROWD, 0);
}

/* QPs that have used more than their static rate allows. */
static void paced(struct town *t)
{
	t->r.h[0]->static_rate = IB_RATE_CODE_2_5;
	crowd_up(t, CROWD, 0);
	t->r.h[0]->static_rate = 0;
	for (unsigned int k = 0; k < CROWD; k++)
		for (unsigned int i = 0; i < 60; i++)
			post_write(t, 0, &t->crowd[k][0], 0, 64000);
	for (unsigned int i = 0; t->r.h[0]->e->sched->paced.num < CROWD; i++) {
		assert_true(i < 10000);
		step(t, 1);
	}
}

/* QPs whose peer has no receive WQE for their message. */
static void rnr(struct town *t)
{
	crowd_up(t, CROWD, 0);
	crowd_sends(t);
	step(t, 20);
}

static unsigned int slow_lane(const struct town *t)
{
	return t->r.h[0]->e->port[0].sl2vl[3];
}

/* QPs of a lane whose peer gives no credits. */
static void credits(struct town *t)
{
	assert_int_not_equal(slow_lane(t), 0);
	assert_int_not_equal(slow_lane(t), 1);
	crowd_up(t, CROWD, 3);
	t->r.h[0]->port[0].queued[slow_lane(t)] = t->r.h[0]->port[0].credits;
	crowd_sends(t);
	step(t, 20);
	for (unsigned int i = 0; i < 2; i++)
		if (!ohca_list_empty(&t->r.h[0]->e->sched->wait[0][slow_lane(t)][i]))
			return;
	fail();
}

/* The peer announces credits but gives none. */
static void no_credits(struct town *t)
{
	ohca_tx_ready(t->r.h[0]->e, 0, (uint16_t)(1u << slow_lane(t)));
}

/* QPs whose memory has no pages; they are more than there may be page faults. */
static void faults(struct town *t)
{
	struct host *h = t->r.h[0];
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .pl.page_shift = 12, .length = RIG_MR_LEN,
					.pdn = h->pdn, .access = OHCA_ACCESS_LOCAL_WRITE,
					.type = OHCA_MR_ODP);
	struct ohca_hw_acqe rsp;
	struct host_eq eq;

	host_eq_create(h, &eq, OHCA_LOG_MAX_FAULTS, OHCA_EQ_FAULT, 2);
	assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), 0);
	crowd_up(t, CROWD, 0);
	for (unsigned int k = 0; k < CROWD; k++) {
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, 0, 0);

		wqe_raddr(&w, t->r.mr[1].iova, t->r.mr[1].key);
		wqe_sge(&w, 4096 * k, 64, rsp.handle.handle);
		wqe_post(&t->crowd[k][0], &w);
	}
	step(t, 20);
	assert_false(ohca_list_empty(&h->e->sched->wait_fault[0]) &&
		     ohca_list_empty(&h->e->sched->wait_fault[1]));
}

static struct ohca_hw_db *srq_record(struct town *t)
{
	return host_buf_ptr(t->srq.h, &t->srq.buf, 0);
}

/* Its first QP has an SRQ, to which the peer sends. */
static void srq_up(struct town *t)
{
	struct host_qp_init in = { .type = OHCA_QPT_RC, .log_sq = LOG_BAD, .log_rq = 6,
				   .scq = &t->cq[0], .rcq = &t->cq[0], .srq = &t->srq };

	host_srq_create(t->r.h[0], &t->srq, 6, t->r.h[0]->pdn, 0, 0);
	host_qp_destroy(&t->bad[0]);
	assert_int_equal(host_qp_create(t->r.h[0], &t->bad[0], &in), 0);
	join(t, t->bad, 0, 0);
}

static void sends(struct town *t)
{
	struct ohca_hw_cqe e;

	for (unsigned int i = 0; i < 100; i++) {
		struct wqe w = wqe_new(OHCA_OP_SEND, 0, 0);

		if (t->bad[1].sq_pi - record(&t->bad[1])->sq_ci < 1000)
			wqe_post(&t->bad[1], &w);
	}
	while (host_cq_poll(&t->cq[0], &e))
		;
	ohca_doorbell(t->r.h[0]->e, 0, OHCA_UAR_SRQ, t->srq.srqn, 8);
}

/* An SRQ with an invalid index. */
static void srq_index(struct town *t)
{
	srq_record(t)->rq_pi = srq_record(t)->rq_ci + 0x10000;
	sends(t);
}

static void srq_refill(void *arg, struct host *h, uint64_t addr, size_t n, int prot)
{
	struct town *t = arg;

	(void)h, (void)addr, (void)n, (void)prot;
	srq_record(t)->rq_pi = srq_record(t)->rq_ci + 64;
}

/* An SRQ that is full whenever the device reads it. */
static void srq_full(struct town *t)
{
	t->r.h[0]->on_map = srq_refill;
	t->r.h[0]->on_map_arg = t;
	sends(t);
}

/* Limit events without end; the driver reads none. */
static void srq_limit(struct town *t)
{
	struct ohca_hw_aqe c = HOST_AQE(modify_srq, .srqn = t->srq.srqn, .limit = 64);

	if (!t->armed++)
		t->eqes = host_counter(t->r.h[0], OHCA_CNT_EQE) +
			  host_counter(t->r.h[0], OHCA_CNT_EQE_DEFERRED);
	assert_int_equal(host_cmd(t->r.h[0], OHCA_CMD_MODIFY_SRQ, &c, NULL), 0);
	srq_record(t)->rq_pi = srq_record(t)->rq_ci + 64;
	sends(t);
}

static void wrong_index(void *arg, struct host *h, uint64_t addr, size_t n, int prot)
{
	(void)h, (void)addr, (void)n, (void)prot;
	record(arg)->sq_pi += 0x12345;
}

static void qp_up(struct town *t)
{
	join(t, t->bad, 0, 0);
}

/* A producer index with another invalid value whenever the device reads it. */
static void qp_index(struct town *t)
{
	t->r.h[0]->on_map = wrong_index;
	t->r.h[0]->on_map_arg = &t->bad[0];
	ring_sq(&t->bad[0]);
}

/* An invalid index is detected once, and not read again. */
static void once(struct town *t)
{
	assert_int_equal(host_counter(t->r.h[0], OHCA_CNT_DB_BAD_INDEX), 1);
}

/* Each QP sends again when its RNR timer has expired, and not earlier: that is once a round. */
static void rnr_timers(struct town *t)
{
	assert_in_range(host_counter(t->r.h[0], OHCA_CNT_RNR_NAK_RX), t->num * ROUNDS,
			t->num * (ROUNDS + 2));
}

/* An armed limit causes one event. */
static void limits(struct town *t)
{
	struct host *h = t->r.h[0];
	uint64_t told = host_counter(h, OHCA_CNT_EQE) + host_counter(h, OHCA_CNT_EQE_DEFERRED);

	assert_in_range(told - t->eqes, 1, t->armed);
}

/**
 * struct attacker - QPs that must not delay an honest QP
 * @begin: starts the attack; @again: continues it before each poll; may be NULL
 * @turns: polls within which an honest WRITE leaves while time stands still
 * @steps: polls of both sides within which it completes while time passes
 * @check: checks that the attack is limited as intended; may be NULL
 */
struct attacker {
	const char *name;
	void (*begin)(struct town *t);
	void (*again)(struct town *t);
	unsigned int turns, steps;
	void (*check)(struct town *t);
};

/* A crowd of QPs that each send one packet, or as many as a turn allows. */
#define EACH_ONCE	(CROWD / BUDGET + 1)
#define EACH_TURN	(CROWD * OHCA_QUANTUM / BUDGET)

static const struct attacker attackers[] = {
	{ "idle QPs that are rung", idle, ring_crowd, TURNS + EACH_ONCE,
	  2 * (TURNS + EACH_ONCE), NULL },
	{ "QPs ahead of their static rate", paced, NULL, 2, 2 * (TURNS + EACH_TURN), NULL },
	{ "QPs that wait after an RNR NAK", rnr, NULL, 2, 2 + 2 * EACH_ONCE, rnr_timers },
	{ "QPs without credits", credits, NULL, 2, 4, NULL },
	{ "credits that are none", credits, no_credits, 2, 4, NULL },
	{ "QPs with page faults", faults, NULL, 2, 4, NULL },
	{ "QPs with page faults that are rung", faults, ring_crowd, 2, 4, NULL },
	{ "SRQ with a wrong index", srq_up, srq_index, 2, 4, once },
	{ "SRQ that is always full", srq_up, srq_full, 2, 4, NULL },
	{ "SRQ with limit events", srq_up, srq_limit, 2, 4, limits },
	{ "QP with a wrong index", qp_up, qp_index, 2, 4, once },
};

static void poll_after(struct town *t, const struct attacker *a)
{
	if (a->again)
		a->again(t);
	host_poll(t->r.h[0], BUDGET);
}

/*
 * Posts an honest WRITE by each lane and port while the attacker has turns. Return: polls until it
 * left.
 */
static unsigned int in_turns(struct town *t, const struct attacker *a)
{
	struct host *h = t->r.h[0];
	unsigned int most = 0;

	for (unsigned int k = 0; k < 3; k++) {
		struct ohca_xport *xp = h->e->qp[t->good[k][0].handle]->xp;
		uint32_t psn = xp->req.nxt;
		unsigned int polls = 0;

		poll_after(t, a);
		post_write(t, 0, &t->good[k][0], 0, 8);
		for (; xp->req.nxt == psn; polls++) {
			if (polls == 1000)
				return polls;
			poll_after(t, a);
		}
		most = polls > most ? polls : most;
	}
	return most;
}

/* The same until all are complete, at several times in more than an ACK timeout. */
static unsigned int in_time(struct town *t, const struct attacker *a)
{
	unsigned int most = 0;
	struct ohca_hw_cqe e;

	step(t, a->steps);
	while (host_cq_poll(&t->r.scq[0], &e))
		assert_int_equal(e.status, WC_SUCCESS);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int steps = 0;

		*t->r.h[0]->now += 250000;
		poll_after(t, a);
		for (unsigned int k = 0; k < 3; k++)
			post_write(t, 0, &t->good[k][0], 0, 8);
		for (unsigned int left = 3; left; steps++) {
			if (steps == 1000)
				return steps;
			if (a->again)
				a->again(t);
			step(t, 1);
			for (; host_cq_poll(&t->r.scq[0], &e); left--)
				assert_int_equal(e.status, WC_SUCCESS);
		}
		most = steps > most ? steps : most;
	}
	/* requests that the attacker's QPs have begun in the last round end */
	step(t, a->steps);
	return most;
}

static void test_attackers(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < sizeof(attackers) / sizeof(*attackers); i++) {
		const struct attacker *a = &attackers[i];
		struct town *t = town_up(OHCA_QPT_RC);
		unsigned int turns, steps;

		a->begin(t);
		turns = in_turns(t, a);
		steps = in_time(t, a);
		print_message("%s: an honest QP waits %u polls of %u, %u steps of %u\n", a->name,
			      turns, a->turns, steps, a->steps);
		assert_in_range(turns, 1, a->turns);
		assert_in_range(steps, 1, a->steps);
		if (a->check)
			a->check(t);
		t->r.h[0]->port[0].queued[slow_lane(t)] = 0;
		town_down(t, a->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flush_waits_its_turn),
		cmocka_unit_test(test_flush_without_end),
		cmocka_unit_test(test_sqe_without_end),
		cmocka_unit_test(test_no_lane),
		cmocka_unit_test(test_nak_before_flush),
		cmocka_unit_test(test_local_before_packet),
		cmocka_unit_test(test_attackers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
