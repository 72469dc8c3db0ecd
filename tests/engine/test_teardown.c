/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets that a QP still has to send when it goes to RESET, to ERR, or is destroyed. */
#include "engine/base/state.h"
#include "ib/packet.h"
#include "rig.h"

enum way { DESTROY, RESET, ERR, WAYS };

/* Steps while a port has no credits, because the machines would never settle. */
static void steps(struct rig *r)
{
	for (unsigned int i = 0; i < 20; i++)
		host_step(r->h, r->nh);
}

static void go(struct host_qp *qp, enum way way)
{
	if (way == DESTROY)
		host_qp_destroy(qp);
	else
		rig_modify(qp, way == RESET ? OHCA_QPS_RESET : OHCA_QPS_ERR);
}

static void again(struct rig *r, unsigned int i, enum way way)
{
	struct host_qp_init in = { .scq = &r->scq[i], .rcq = &r->rcq[i] };

	if (way == DESTROY)
		assert_int_equal(host_qp_create(r->h[i], &r->qp[i], &in), 0);
}

/*
 * The last message is acknowledged, although its QP is gone before there are credits for the ACK.
 */
static void test_last_ack(void **state)
{
	struct rig r;

	(void)state;
	for (enum way way = 0; way < WAYS; way++) {
		rig_up(&r, (struct rig_opt){ 0 });
		rig_recv(&r, 1, 0, 0, 0);
		rig_recv(&r, 1, 5, 0, 3000);
		rig_greet(&r, 0);
		r.h[1]->port[0].credits = 0;
		rig_send(&r, 0, 1, 0, 3000);
		steps(&r);
		wc(&r.rcq[1], 5, WC_SUCCESS);
		no_wc(&r.scq[0]);
		go(&r.qp[1], way);
		steps(&r);
		no_wc(&r.scq[0]);
		r.h[1]->port[0].credits = 64;
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		assert_int_equal(r.h[1]->port[0].frames, 2);
		again(&r, 1, way);
		rig_down(&r);
	}
}

/* The sender gets a NAK that waits for credits, and no timeout. */
static void test_last_nak(void **state)
{
	struct rig r;

	(void)state;
	for (enum way way = 0; way < WAYS; way++) {
		rig_up(&r, (struct rig_opt){ 0 });
		rig_recv(&r, 1, 0, 0, 0);
		rig_recv(&r, 1, 5, 0, 2999);
		rig_greet(&r, 0);
		r.h[1]->port[0].credits = 0;
		rig_send(&r, 0, 1, 0, 3000);
		steps(&r);
		wc(&r.rcq[1], 5, WC_LOC_LEN);
		go(&r.qp[1], way);
		steps(&r);
		r.h[1]->port[0].credits = 64;
		rig_run(&r);
		wc(&r.scq[0], 1, WC_REM_INV_REQ);
		again(&r, 1, way);
		rig_down(&r);
	}
}

/* Flushing does not wait for credits, while a NAK, an ACK or a response does. */
static void test_flush_without_credits(void **state)
{
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 3; k++) {
		rig_up(&r, (struct rig_opt){ 0 });
		rig_recv(&r, 1, 0, 0, 0);
		rig_recv(&r, 1, 5, 0, k == 0 ? 2999 : 3000);
		rig_greet(&r, 0);
		r.h[1]->port[0].credits = 0;
		for (unsigned int i = 0; i < 40; i++) {
			rig_recv(&r, 1, 10 + i, 0, 100);
			rig_write(&r, 1, 10 + i, 0, 0, 100);
		}
		if (k == 2) {		/* a response, then a NAK */
			rig_read(&r, 0, 2, 0, 100000, 3000);
			rig_read(&r, 0, 3, 0, RIG_MR_LEN, 1);
		} else {
			rig_send(&r, 0, 2, 0, 3000);
		}
		steps(&r);
		if (k < 2)
			wc(&r.rcq[1], 5, k ? WC_SUCCESS : WC_LOC_LEN);
		else
			wc(&r.rcq[1], 5, WC_WR_FLUSH);
		if (k == 1)
			go(&r.qp[1], ERR);
		steps(&r);
		for (unsigned int i = 0; i < 40; i++) {
			wc(&r.rcq[1], 10 + i, WC_WR_FLUSH);
			wc(&r.scq[1], 10 + i, WC_WR_FLUSH);
		}
		/* and later posts, too */
		rig_recv(&r, 1, 100, 0, 100);
		rig_write(&r, 1, 100, 0, 0, 100);
		steps(&r);
		wc(&r.rcq[1], 100, WC_WR_FLUSH);
		wc(&r.scq[1], 100, WC_WR_FLUSH);
		no_wc(&r.scq[0]);
		r.h[1]->port[0].credits = 64;
		rig_run(&r);
		wc(&r.scq[0], 2, k ? WC_SUCCESS : WC_REM_INV_REQ);
		if (k == 2)
			wc(&r.scq[0], 3, WC_REM_ACCESS);
		rig_down(&r);
	}
}

/* With credits the ACK leaves at once, even if doorbell and command arrive together. */
static void test_ack_before_destroy(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	rig_recv(&r, 1, 0, 0, 0);
	rig_recv(&r, 1, 5, 0, 3000);
	rig_greet(&r, 0);
	rig_send(&r, 0, 1, 0, 3000);
	/* the message has arrived, and there was no poll since */
	host_step(r.h, 2);
	wc(&r.rcq[1], 5, WC_SUCCESS);
	assert_int_equal(r.h[1]->port[0].frames, 1);
	host_qp_destroy(&r.qp[1]);
	assert_int_equal(r.h[1]->port[0].frames, 2);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	again(&r, 1, DESTROY);
	rig_down(&r);
}

/*
 * If more QPs are destroyed without credits than acknowledgements are kept, the newest ones are
 * kept.
 */
static void test_bound(void **state)
{
	enum { N = 70, KEPT = 64 };
	static struct host_qp q[2][N];
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	for (unsigned int i = 0; i < N; i++)
		for (unsigned int k = 0; k < 2; k++) {
			struct host_qp_init in = { .scq = &r.scq[k], .rcq = &r.rcq[k] };

			assert_int_equal(host_qp_create(r.h[k], &q[k][i], &in), 0);
		}
	r.h[1]->port[0].credits = 0;
	for (unsigned int i = 0; i < N; i++) {
		struct ohca_hw_sge s = host_sge(r.mr[1].iova, 100, r.mr[1].key);
		struct wqe w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, i);

		host_qp_connect(&q[0][i], 0, 2, q[1][i].qpn, 3, 0, 0);
		host_qp_connect(&q[1][i], 0, 1, q[0][i].qpn, 3, 0, 0);
		host_post_recv(&q[1][i], i, &s, 1);
		wqe_sge(&w, r.mr[0].iova, 100, r.mr[0].key);
		wqe_post(&q[0][i], &w);
		steps(&r);
		wc(&r.rcq[1], i, WC_SUCCESS);
		host_qp_destroy(&q[1][i]);
	}
	assert_int_equal(r.h[1]->e->port[0].cnt.xmit_discards, N - KEPT);
	r.h[1]->port[0].credits = 64;
	rig_run(&r);
	for (unsigned int i = N - KEPT; i < N; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	no_wc(&r.scq[0]);
	for (unsigned int i = 0; i < N; i++)
		host_qp_destroy(&q[0][i]);
	rig_down(&r);
}

/* A device that is reset sends none of them. */
static void test_device_reset(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	r.h[1]->port[0].credits = 0;
	rig_recv(&r, 1, 5, 0, 100);
	rig_send(&r, 0, 1, 0, 100);
	steps(&r);
	wc(&r.rcq[1], 5, WC_SUCCESS);
	host_qp_destroy(&r.qp[1]);
	ohca_reset(r.h[1]->e);
	r.h[1]->port[0].credits = 64;
	host_start(r.h[1]);
	steps(&r);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_RX_PKTS), 0);
	host_qp_destroy(&r.qp[0]);
	for (unsigned int i = 0; i < 2; i++) {
		host_buf_free(&r.scq[i].buf);
		host_buf_free(&r.rcq[i].buf);
		host_buf_free(&r.mr[i].buf);
		host_free(r.h[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_last_ack),
		cmocka_unit_test(test_last_nak),
		cmocka_unit_test(test_flush_without_credits),
		cmocka_unit_test(test_ack_before_destroy),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_device_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
