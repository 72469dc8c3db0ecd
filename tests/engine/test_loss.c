/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RC and XRC on a wire that loses, repeats and reorders packets, by a seeded generator: data and
 * the order of completions are the same as without. Timeouts, RNR, retries and their exhaustion.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/sched.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "rig.h"

struct chaos {
	uint64_t seed;
	unsigned int drop, dup, swap;	/* per mille */
	unsigned int dropped, dupped, swapped;
};

static uint32_t rnd(struct chaos *c)
{
	c->seed ^= c->seed << 13;
	c->seed ^= c->seed >> 7;
	c->seed ^= c->seed << 17;
	return (uint32_t)(c->seed >> 16);
}

static enum host_fate chaos(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	struct chaos *c = arg;
	uint32_t v = rnd(c) % 1000;

	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	if (v < c->drop) {
		c->dropped++;
		return HOST_DROP;
	}
	v -= c->drop;
	if (v < c->dup) {
		c->dupped++;
		return HOST_DUP;
	}
	v -= c->dup;
	if (v < c->swap) {
		c->swapped++;
		return HOST_SWAP;
	}
	return HOST_DELIVER;
}

/* ATOMIC WRITEs and a FLUSH, which XRC does not have here */
static void placement(struct rig *r, unsigned int round)
{
	struct wqe w;

	/* if it were executed twice, the older value would remain */
	for (unsigned int k = 8; k < 12; k++) {
		uint64_t val = 100 * round + k;

		w = wqe_new(OHCA_OP_ATOMIC_WRITE, OHCA_WQE_SIGNALED, k);
		wqe_raddr(&w, r->mr[1].iova + 600000, r->mr[1].key);
		wqe_inline(&w, &val, 8);
		wqe_post(&r->qp[0], &w);
	}
	w = wqe_new(OHCA_OP_FLUSH, OHCA_WQE_SIGNALED, 12);
	wqe_raddr(&w, r->mr[1].iova + 600000, r->mr[1].key);
	wqe_flush(&w, 8, OHCA_FLUSH_GLOBAL, OHCA_FLUSH_RANGE);
	wqe_post(&r->qp[0], &w);
}

/*
 * Messages of every kind, several outstanding; each result is checked when it completes. Atomics
 * add exactly once.
 */
static void storm_on(uint8_t type, uint64_t seed, unsigned int drop, unsigned int dup,
		     unsigned int swap, uint8_t mtu)
{
	struct chaos c[2] = { { seed, drop, dup, swap, 0, 0, 0 },
			      { seed * 77 + 1, drop, dup, swap, 0, 0, 0 } };
	bool xrc = type == OHCA_QPT_XRC_INI;
	uint64_t adds = 0;
	struct rig r;

	rig_up(&r, (struct rig_opt){ .type = type, .mtu = mtu, .log_sq = 8,
				     .psn = { (uint32_t)seed & 0xffffff, 0xfffff8 } });
	for (unsigned int i = 0; i < 2; i++)
		host_hook_set(r.h[i], 0, chaos, &c[i]);
	for (unsigned int round = 0; round < 30; round++) {
		uint32_t len[6];

		for (unsigned int k = 0; k < 6; k++)
			len[k] = rnd(&c[0]) % 20000;
		rig_fill(&r, 0, 0, len[0], round);
		rig_fill(&r, 0, 100000, len[1], round + 1000);
		rig_fill(&r, 1, 200000, len[2], round + 2000);
		rig_fill(&r, 0, 300000, len[4], round + 3000);
		rig_recv(&r, 1, 1000 + round, 1000000, 20000);
		rig_write(&r, 0, 0, 0, 0, len[0]);
		rig_read(&r, 0, 1, 200000, 200000, len[2]);
		rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 2, 400000, 400000, 3, 0);
		rig_send(&r, 0, 3, 100000, len[1]);
		rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 4, 400008, 400000, 5, 0);
		rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 5, 400016, 400000, 7, 0);
		rig_write(&r, 0, 6, 300000, 300000, len[4]);
		rig_read(&r, 0, 7, 500000, 300000, len[4]);
		if (!xrc)
			placement(&r, round);
		rig_time(&r, 4000);
		for (unsigned int k = 0; k < (xrc ? 8 : 13); k++)
			wc(&r.scq[0], k, WC_SUCCESS);
		no_wc(&r.scq[0]);
		assert_int_equal(wc(&r.rcq[1], 1000 + round, WC_SUCCESS).byte_len, len[1]);
		no_wc(&r.rcq[1]);
		rig_check(&r, 1, 0, len[0], round);
		rig_check(&r, 1, 1000000, len[1], round + 1000);
		rig_check(&r, 0, 200000, len[2], round + 2000);
		rig_check(&r, 1, 300000, len[4], round + 3000);
		assert_int_equal(rig_get64(&r, 0, 400000), adds);
		assert_int_equal(rig_get64(&r, 0, 400008), adds + 3);
		assert_int_equal(rig_get64(&r, 0, 400016), adds + 8);
		adds += 15;
		assert_int_equal(rig_get64(&r, 1, 400000), adds);
		assert_int_equal(rig_get64(&r, 1, 600000), xrc ? 0 : 100 * round + 11);
	}
	if (drop)
		assert_true(c[0].dropped && c[1].dropped);
	if (dup)
		assert_true(c[0].dupped && c[1].dupped);
	if (swap)
		assert_true(c[0].swapped && c[1].swapped);
	rig_down(&r);
}

static void storm(uint64_t seed, unsigned int drop, unsigned int dup, unsigned int swap,
		  uint8_t mtu)
{
	storm_on(OHCA_QPT_RC, seed, drop, dup, swap, mtu);
}

static void test_xrc(void **state)
{
	(void)state;
	storm_on(OHCA_QPT_XRC_INI, 21, 0, 0, 0, 3);
	storm_on(OHCA_QPT_XRC_INI, 22, 30, 0, 0, 4);
	for (uint64_t seed = 1; seed <= 4; seed++)
		storm_on(OHCA_QPT_XRC_INI, seed * 1337, 10, 20, 10, (uint8_t)(1 + seed));
}

static void test_loss(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++)
		storm(seed * 0x9e3779b9, 5, 0, 0, 3);
	storm(99, 50, 0, 0, 4);
	storm(1234567, 20, 0, 0, 1);
}

static void test_dup(void **state)
{
	(void)state;
	storm(7, 0, 100, 0, 3);
	storm(8, 0, 500, 0, 3);
}

static void test_reorder(void **state)
{
	(void)state;
	storm(11, 0, 0, 20, 3);
	storm(12, 0, 0, 50, 4);
}

static void test_all(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++)
		storm(seed * 31337, 10, 20, 10, (uint8_t)(1 + seed % 5));
}

/* ---- single losses ---- */

/** struct nth - drops the @n-th packet (from 1) with opcode @op, @times times */
struct nth {
	uint8_t op;
	unsigned int n, times;
	unsigned int seen, total[256];
};

static enum host_fate nth(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			  uint32_t len)
{
	struct nth *x = arg;

	(void)from;
	(void)port;
	(void)len;
	x->total[frame[8]]++;
	if (frame[8] == x->op && ++x->seen >= x->n && x->seen < x->n + x->times)
		return HOST_DROP;
	return HOST_DELIVER;
}

/* A gap causes one NAK at once, and no timeout. */
static void test_seq_nak(void **state)
{
	struct nth x = { .op = IB_OP_RC_WRITE_MIDDLE, .n = 3, .times = 1 }, back = { .op = 0xff };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	host_hook_set(r.h[0], 0, nth, &x);
	host_hook_set(r.h[1], 0, nth, &back);
	rig_fill(&r, 0, 0, 20000, 1);
	rig_write(&r, 0, 1, 0, 0, 20000);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_check(&r, 1, 0, 20000, 1);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_SEQ_NAK_RX), 1);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	assert_true(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ) > 1);
	rig_down(&r);
}

static enum host_fate two(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			  uint32_t len)
{
	unsigned int n = ++*(unsigned int *)arg;

	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return n == 5 || n == 200 ? HOST_DROP : HOST_DELIVER;
}

/* Two gaps in one message: a NAK for each, and no timeout. */
static void test_two_gaps(void **state)
{
	unsigned int n = 0;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	host_hook_set(r.h[0], 0, two, &n);
	rig_fill(&r, 0, 0, 100000, 1);
	rig_write(&r, 0, 1, 0, 0, 100000);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_check(&r, 1, 0, 100000, 1);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_SEQ_NAK_RX), 2);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	rig_down(&r);
}

/* An ACK arrived, but the engine was not polled until after the old deadline: no timeout. */
static void test_late_poll(void **state)
{
	struct nth back = { .op = IB_OP_RC_ACK, .n = 2, .times = 1 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	host_hook_set(r.h[1], 0, nth, &back);
	rig_write(&r, 0, 1, 0, 0, 8);
	host_step(r.h, 2);
	rig_write(&r, 0, 2, 0, 0, 8);
	host_step(r.h, 2);
	/* the first is acknowledged, the second is outstanding; the thread sleeps too long */
	*r.h[0]->now += 17 * HOST_MS;
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	rig_time(&r, 18);
	wc(&r.scq[0], 2, WC_SUCCESS);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 1);
	rig_down(&r);
}

/* An ACK is lost: after the timeout the last packet is a duplicate, and is acknowledged again. */
static void test_lost_ack(void **state)
{
	struct nth back = { .op = IB_OP_RC_ACK, .n = 1, .times = 1 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	host_hook_set(r.h[1], 0, nth, &back);
	rig_recv(&r, 1, 5, 0, 100);
	rig_send(&r, 0, 1, 0, 100);
	rig_run(&r);
	no_wc(&r.scq[0]);
	rig_time(&r, 15);
	no_wc(&r.scq[0]);
	rig_time(&r, 3);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.rcq[1], 5, WC_SUCCESS);
	no_wc(&r.rcq[1]);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_DUP), 1);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 1);
	rig_down(&r);
}

/* A part of a READ response is lost: only the rest is requested again, at once. */
static void test_lost_read_resp(void **state)
{
	struct nth out = { .op = 0xff },
		   back = { .op = IB_OP_RC_READ_RESP_MIDDLE, .n = 10, .times = 1 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	host_hook_set(r.h[0], 0, nth, &out);
	host_hook_set(r.h[1], 0, nth, &back);
	rig_fill(&r, 1, 0, 256 * 20, 1);
	rig_read(&r, 0, 1, 0, 0, 256 * 20);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_check(&r, 0, 0, 256 * 20, 1);
	assert_int_equal(out.total[IB_OP_RC_READ_REQUEST], 2);
	assert_int_equal(back.total[IB_OP_RC_READ_RESP_MIDDLE], 18 + 8);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	rig_down(&r);
}

/* A lost atomic response is sent again, and the operation is not repeated. */
static void test_lost_atomic(void **state)
{
	struct nth back = { .op = IB_OP_RC_ATOMIC_ACK, .n = 1, .times = 4 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	host_hook_set(r.h[1], 0, nth, &back);
	rig_put64(&r, 1, 0, 10);
	for (unsigned int i = 0; i < 4; i++)
		rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, i, 8 * i, 0, 1, 0);
	rig_time(&r, 200);
	for (unsigned int i = 0; i < 4; i++) {
		wc(&r.scq[0], i, WC_SUCCESS);
		assert_int_equal(rig_get64(&r, 0, 8 * i), 10 + i);
	}
	assert_int_equal(rig_get64(&r, 1, 0), 14);
	rig_down(&r);
}

/*
 * PSNs repeat after 2^24 packets. If a response is lost then, the responder sends the result of the
 * atomic that was just executed, and not that of the earlier one with the same PSN.
 */
static void test_old_atomic(void **state)
{
	struct nth back = { .op = IB_OP_RC_ATOMIC_ACK, .n = 2, .times = 1 };
	struct ohca_xport *xp[2];
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	for (unsigned int i = 0; i < 2; i++)
		xp[i] = r.h[i]->e->qp[r.qp[i].handle]->xp;
	host_hook_set(r.h[1], 0, nth, &back);
	rig_put64(&r, 1, 0, 10);
	rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 1, 0, 0, 1, 0);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	/* as if as many packets as there are PSNs had passed */
	xp[0]->req.una = xp[0]->req.nxt = xp[0]->req.max = xp[1]->resp.epsn = 0;
	rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 2, 8, 0, 1, 0);
	rig_time(&r, 200);
	wc(&r.scq[0], 2, WC_SUCCESS);
	assert_int_equal(back.total[IB_OP_RC_ATOMIC_ACK], 3);
	assert_int_equal(rig_get64(&r, 0, 0), 10);
	assert_int_equal(rig_get64(&r, 0, 8), 11);
	assert_int_equal(rig_get64(&r, 1, 0), 12);
	rig_down(&r);
}

static enum host_fate hold(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			   uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return HOST_SWAP;
}

static void post_rd(struct rig *r, bool atomic, uint64_t wr_id)
{
	if (atomic)
		rig_atomic(r, 0, OHCA_OP_FETCH_ADD, wr_id, 8 * wr_id, 0, 1, 0);
	else
		rig_read(r, 0, wr_id, 8 * wr_id, 0, 8);
}

/*
 * A response arrives just after the requester has sent its request again. The answer to the
 * duplicate occupies the responder's resources when the next request arrives.
 */
static void test_late_response(void **state)
{
	struct ohca_hw_qp_attr a;
	struct host_frame *f;
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 4; k++) {
		rig_up(&r, (struct rig_opt){ .cold = true });
		for (unsigned int i = 0; i < 2; i++) {
			a = rig_attr(&r, i);
			a.max_rd_atomic = a.max_dest_rd_atomic = 1;
			rig_connect(&r, i, a);
		}
		host_hook_set(r.h[1], 0, hold, NULL);
		post_rd(&r, k & 1, 1);
		post_rd(&r, k & 2, 2);
		rig_run(&r);
		host_hook_set(r.h[1], 0, NULL, NULL);
		f = r.h[1]->port[0].held;
		r.h[1]->port[0].held = NULL;
		assert_non_null(f);
		*r.h[0]->now = ohca_next_deadline(r.h[0]->e);
		ohca_poll(r.h[0]->e, 64);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 1);
		/* both requests are on the wire before the responder gets either */
		host_rx(r.h[0], 0, f->vl, f->data, f->len, 0);
		free(f);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		wc(&r.scq[0], 2, WC_SUCCESS);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_DUP), 1);
		assert_int_equal(rig_get64(&r, 1, 0), (k & 1) + (k >> 1));
		no_event(r.h[1]);
		rig_down(&r);
	}
}

/* An ACK that overtakes a lost READ response does not complete the READ. */
static void test_implied_nak(void **state)
{
	struct nth back = { .op = IB_OP_RC_READ_RESP_ONLY, .n = 1, .times = 1 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	host_hook_set(r.h[1], 0, nth, &back);
	rig_fill(&r, 1, 0, 100, 2);
	rig_read(&r, 0, 1, 0, 0, 100);
	rig_write(&r, 0, 2, 1000, 1000, 100);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.scq[0], 2, WC_SUCCESS);
	rig_check(&r, 0, 0, 100, 2);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	rig_down(&r);
}

/* ---- limits of outstanding requests ---- */

static enum host_fate count_and_drop(void *arg, struct host *from, unsigned int port,
				     uint8_t *frame, uint32_t len)
{
	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	++*(unsigned int *)arg;
	return HOST_DROP;
}

static enum host_fate count_only(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				 uint32_t len)
{
	count_and_drop(arg, from, port, frame, len);
	return HOST_DELIVER;
}

/* Nothing is acknowledged: WQEs stay in the window, and are executed when ACKs arrive again. */
static void test_window_full(void **state)
{
	unsigned int n = 0;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .log_sq = 10 });
	host_hook_set(r.h[1], 0, count_and_drop, &n);
	for (unsigned int i = 0; i < 1024; i++) {
		rig_put64(&r, 0, 8 * i, 3 * i + 1);
		rig_write(&r, 0, i, 8 * i, 16 * i, 8);
	}
	rig_run(&r);
	no_wc(&r.scq[0]);
	memset(host_buf_ptr(r.h[1], &r.mr[1].buf, 0), 0, 4096);
	host_hook_set(r.h[1], 0, NULL, NULL);
	rig_time(&r, 200);
	for (unsigned int i = 0; i < 1024; i++) {
		wc(&r.scq[0], i, WC_SUCCESS);
		if (i >= 256)
			assert_int_equal(rig_get64(&r, 1, 16 * i), 3 * i + 1);
	}
	rig_down(&r);
}

/* The number of packets in flight is limited, too. */
static void test_packet_window(void **state)
{
	unsigned int sent = 0, back = 0;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	host_hook_set(r.h[0], 0, count_only, &sent);
	host_hook_set(r.h[1], 0, count_and_drop, &back);
	rig_fill(&r, 0, 0, 1000000, 1);
	rig_write(&r, 0, 1, 0, 0, 1000000);
	rig_run(&r);
	assert_in_range(sent, 1000, 2048);
	host_hook_set(r.h[1], 0, NULL, NULL);
	rig_time(&r, 200);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_check(&r, 1, 0, 1000000, 1);
	rig_down(&r);
}

/* A WQE invalidates the key that the WQE before it needs: it waits until that one is done. */
static void test_local_inv(void **state)
{
	struct nth x = { .op = IB_OP_RC_WRITE_MIDDLE, .n = 2, .times = 1 };
	struct ohca_hw_aqe c = { .reg_mr = { .length = 16, .type = OHCA_MR_FRMR } };
	struct ohca_hw_wqe_reg reg = { .iova = 0x1000, .length = 8192,
				       .access = OHCA_ACCESS_LOCAL_WRITE };
	struct ohca_hw_acqe rsp;
	struct host_buf b;
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ .privileged = true, .mtu = 1 });
	c.reg_mr.pdn = r.h[0]->pdn;
	assert_int_equal(host_cmd(r.h[0], OHCA_CMD_REG_MR, &c, &rsp), 0);
	host_buf_alloc(r.h[0], &b, 8192);
	reg.key = (rsp.handle.handle & ~0xffu) | 0x42;
	reg.pl = b.pl;
	host_hook_set(r.h[0], 0, nth, &x);
	w = wqe_new(OHCA_OP_REG_MR, OHCA_WQE_SIGNALED, 1);
	memcpy(w.b + 16, &reg, sizeof(reg));
	w.nseg = 4;
	wqe_post(&r.qp[0], &w);
	w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 2);
	wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
	wqe_sge(&w, 0x1000, 8192, reg.key);
	wqe_post(&r.qp[0], &w);
	w = wqe_new(OHCA_OP_LOCAL_INV, OHCA_WQE_SIGNALED, 3);
	wqe_inv(&w, reg.key);
	wqe_post(&r.qp[0], &w);
	rig_time(&r, 100);
	for (unsigned int i = 1; i <= 3; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	host_buf_free(&b);
	rig_down(&r);
}

/* ---- exhaustion ---- */

static void test_retry_exceeded(void **state)
{
	struct nth out = { .op = IB_OP_RC_WRITE_ONLY, .n = 1, .times = 1000 };
	struct ohca_hw_qp_attr a;
	struct rig r;

	(void)state;
	for (uint8_t retry = 0; retry < 8; retry += 3) {
		rig_up(&r, (struct rig_opt){ .cold = true });
		a = rig_attr(&r, 0);
		a.retry_cnt = retry;
		a.timeout = 14;		/* 67 ms */
		rig_connect(&r, 0, a);
		rig_connect(&r, 1, rig_attr(&r, 1));
		memset(out.total, 0, sizeof(out.total));
		out.seen = 0;
		host_hook_set(r.h[0], 0, nth, &out);
		rig_recv(&r, 0, 9, 0, 10);
		rig_write(&r, 0, 1, 0, 0, 8);
		rig_write(&r, 0, 2, 0, 0, 8);
		/*
		 * never earlier than the timeout of the specification, never later than 4 of them
		 */
		rig_time(&r, 67 * (retry + 1u));
		no_wc(&r.scq[0]);
		rig_time(&r, (68 * 4 - 67) * (retry + 1u));
		assert_int_equal(wc(&r.scq[0], 1, WC_RETRY_EXC).vendor_err, OHCA_VE_TIMEOUT);
		wc(&r.scq[0], 2, WC_WR_FLUSH);
		wc(&r.rcq[0], 9, WC_WR_FLUSH);
		assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_ERR);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), retry + 1);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_RETRY_EXCEEDED), 1);
		assert_int_equal(out.total[IB_OP_RC_WRITE_ONLY], 2 * (retry + 1u));
		assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
		rig_down(&r);
	}
}

/* Timeout 0 waits without limit. */
static void test_no_timeout(void **state)
{
	struct nth back = { .op = IB_OP_RC_ACK, .n = 1, .times = 1 };
	struct ohca_hw_qp_attr a;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .cold = true });
	a = rig_attr(&r, 0);
	a.timeout = 0;
	rig_connect(&r, 0, a);
	rig_connect(&r, 1, rig_attr(&r, 1));
	host_hook_set(r.h[1], 0, nth, &back);
	rig_write(&r, 0, 1, 0, 0, 8);
	rig_time(&r, 100000);
	no_wc(&r.scq[0]);
	/* a later ACK covers both */
	rig_write(&r, 0, 2, 0, 0, 8);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.scq[0], 2, WC_SUCCESS);
	rig_down(&r);
}

/* Progress restores the retries. */
static void test_retry_reset(void **state)
{
	struct nth out = { .op = IB_OP_RC_WRITE_ONLY };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	host_hook_set(r.h[0], 0, nth, &out);
	for (unsigned int i = 0; i < 5; i++) {
		out.seen = 0;
		out.n = 1;
		out.times = 6;
		rig_write(&r, 0, i, 0, 0, 8);
		rig_time(&r, 7 * 17);
		wc(&r.scq[0], i, WC_SUCCESS);
	}
	rig_down(&r);
}

static void test_rnr(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		rig_up(&r, (struct rig_opt){ 0 });
		rig_fill(&r, 0, 0, 5000, 1);
		rig_write(&r, 0, 1, 0, 0, 5000);
		w = wqe_new(k ? OHCA_OP_RDMA_WRITE_IMM : OHCA_OP_SEND, OHCA_WQE_SIGNALED, 2);
		if (k)
			wqe_raddr(&w, r.mr[1].iova + 10000, r.mr[1].key);
		wqe_sge(&w, r.mr[0].iova, 5000, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		rig_write(&r, 0, 3, 0, 20000, 5000);
		rig_time(&r, 5);
		wc(&r.scq[0], 1, WC_SUCCESS);
		no_wc(&r.scq[0]);
		/* every 10 us of min_rnr_timer 1, for 5 ms */
		assert_in_range(host_counter(r.h[0], OHCA_CNT_RNR_NAK_RX), 300, 520);
		rig_recv(&r, 1, 7, 10000, 5000);
		rig_time(&r, 1);
		wc(&r.scq[0], 2, WC_SUCCESS);
		wc(&r.scq[0], 3, WC_SUCCESS);
		wc(&r.rcq[1], 7, WC_SUCCESS);
		rig_check(&r, 1, 10000, 5000, 1);
		rig_check(&r, 1, 20000, 5000, 1);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
		rig_down(&r);
	}
}

static void test_rnr_exceeded(void **state)
{
	struct ohca_hw_qp_attr a;
	struct rig r;

	(void)state;
	for (uint8_t retry = 0; retry < 7; retry += 2) {
		rig_up(&r, (struct rig_opt){ .cold = true });
		a = rig_attr(&r, 0);
		a.rnr_retry = retry;
		rig_connect(&r, 0, a);
		rig_connect(&r, 1, rig_attr(&r, 1));
		rig_send(&r, 0, 1, 0, 8);
		rig_send(&r, 0, 2, 0, 8);
		rig_time(&r, 10);
		assert_int_equal(wc(&r.scq[0], 1, WC_RNR_RETRY_EXC).vendor_err, OHCA_VE_RNR);
		wc(&r.scq[0], 2, WC_WR_FLUSH);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_RNR_NAK_RX), retry + 1);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RNR_NAK_TX), retry + 1);
		assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
		rig_down(&r);
	}
}

/*
 * The peer reports a lost packet while the requester waits for its RNR timer: the timer is not
 * changed, whether it is shorter or longer than the timeout, and no retry is used.
 */
static void test_rnr_and_nak(void **state)
{
	static const uint8_t timeout[] = { 0, 1, 14 };

	(void)state;
	for (unsigned int k = 0; k < sizeof(timeout); k++) {
		struct nth out = { .op = IB_OP_RC_SEND_ONLY, .n = 100, .times = 0 };
		struct ohca_hw_qp_attr a;
		struct ohca_xport *xp;
		uint32_t psn;
		struct rig r;

		rig_up(&r, (struct rig_opt){ .cold = true });
		a = rig_attr(&r, 0);
		a.timeout = timeout[k];
		a.retry_cnt = 0;
		rig_connect(&r, 0, a);
		a = rig_attr(&r, 1);
		a.min_rnr_timer = 22;	/* 20.48 ms */
		rig_connect(&r, 1, a);
		host_hook_set(r.h[0], 0, nth, &out);
		rig_send(&r, 0, 1, 0, 8);
		rig_run(&r);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_RNR_NAK_RX), 1);
		assert_int_equal(out.total[IB_OP_RC_SEND_ONLY], 1);
		xp = r.h[1]->e->qp[r.qp[1].handle]->xp;
		psn = xp->resp.epsn;
		xp->resp.nak_due = true;
		xp->resp.nak_syn = IB_AETH_NAK | IB_NAK_PSN_SEQ;
		xp->resp.nak_psn = psn;
		xp->sched.answers = true;
		ohca_sched_activate(r.h[1]->e, xp);
		rig_run(&r);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_SEQ_NAK_RX), 1);
		rig_time(&r, 20);
		assert_int_equal(out.total[IB_OP_RC_SEND_ONLY], 1);
		rig_recv(&r, 1, 7, 0, 8);
		rig_time(&r, 1);
		assert_int_equal(out.total[IB_OP_RC_SEND_ONLY], 2);
		wc(&r.scq[0], 1, WC_SUCCESS);
		rig_down(&r);
	}
}

/* The PSNs wrap, with losses at the wrap. */
static void test_psn_wrap(void **state)
{
	struct chaos c = { 5, 30, 0, 0, 0, 0, 0 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1, .psn = { 0xffffc0, 0xffffff } });
	host_hook_set(r.h[0], 0, chaos, &c);
	for (unsigned int i = 0; i < 5; i++) {
		rig_fill(&r, 0, 0, 10000, i);
		rig_write(&r, 0, 1, 0, 0, 10000);
		rig_read(&r, 0, 2, 50000, 0, 10000);
		rig_time(&r, 500);
		wc(&r.scq[0], 1, WC_SUCCESS);
		wc(&r.scq[0], 2, WC_SUCCESS);
		rig_check(&r, 0, 50000, 10000, i);
	}
	rig_down(&r);
}

/* A connection with the peer's GID and DLID 0, as for RoCE: none of its packets arrives. */
static void test_dlid_zero(void **state)
{
	struct ohca_hw_qp_attr a;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .cold = true });
	a = rig_attr(&r, 0);
	a.av.dlid = 0;
	a.av.flags = OHCA_AV_GRH;
	a.av.dgid[0] = 0xfe;
	a.av.dgid[1] = 0x80;
	ib_put_be64(a.av.dgid + 8, r.h[1]->cfg.node_guid + 1);
	rig_connect(&r, 0, a);
	rig_connect(&r, 1, rig_attr(&r, 1));
	rig_write(&r, 0, 1, 0, 0, 100);
	rig_time(&r, 5000);
	wc(&r.scq[0], 1, WC_RETRY_EXC);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_PKT), a.retry_cnt + 1);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dlid_zero),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_xrc),
		cmocka_unit_test(test_dup),
		cmocka_unit_test(test_reorder),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_seq_nak),
		cmocka_unit_test(test_two_gaps),
		cmocka_unit_test(test_late_poll),
		cmocka_unit_test(test_lost_ack),
		cmocka_unit_test(test_lost_read_resp),
		cmocka_unit_test(test_lost_atomic),
		cmocka_unit_test(test_old_atomic),
		cmocka_unit_test(test_late_response),
		cmocka_unit_test(test_implied_nak),
		cmocka_unit_test(test_window_full),
		cmocka_unit_test(test_packet_window),
		cmocka_unit_test(test_local_inv),
		cmocka_unit_test(test_retry_exceeded),
		cmocka_unit_test(test_no_timeout),
		cmocka_unit_test(test_retry_reset),
		cmocka_unit_test(test_rnr),
		cmocka_unit_test(test_rnr_exceeded),
		cmocka_unit_test(test_rnr_and_nak),
		cmocka_unit_test(test_psn_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
