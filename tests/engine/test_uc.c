/* SPDX-License-Identifier: GPL-2.0-or-later */
/* UC: messages arrive whole or not at all. */
#include "ib/packet.h"
#include "rig.h"

static struct rig_opt uc(uint8_t mtu)
{
	return (struct rig_opt){ .type = OHCA_QPT_UC, .mtu = mtu, .psn = { 0xfffff0, 5 } };
}

static void test_sizes(void **state)
{
	static const uint32_t len[] = { 0, 1, 255, 256, 257, 1024, 4096, 4097, 65536, 1000003 };
	struct rig r;
	struct wqe w;
	struct ohca_hw_cqe c;

	(void)state;
	for (uint8_t mtu = 1; mtu <= 5; mtu++) {
		rig_up(&r, uc(mtu));
		for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
			rig_fill(&r, 0, 7, len[i], i);
			rig_write(&r, 0, 1, 7, 9, len[i]);
			rig_run(&r);
			wc(&r.scq[0], 1, WC_SUCCESS);
			rig_check(&r, 1, 9, len[i], i);
			rig_recv(&r, 1, 2, 3, len[i]);
			rig_fill(&r, 0, 7, len[i], i + 50);
			rig_send(&r, 0, 3, 7, len[i]);
			rig_run(&r);
			wc(&r.scq[0], 3, WC_SUCCESS);
			assert_int_equal(wc(&r.rcq[1], 2, WC_SUCCESS).byte_len, len[i]);
			rig_check(&r, 1, 3, len[i], i + 50);
			rig_recv(&r, 1, 4, 0, 0);
			w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, OHCA_WQE_SIGNALED, 5);
			wqe_imm(&w, 0x55);
			wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
			wqe_sge(&w, r.mr[0].iova + 7, len[i], r.mr[0].key);
			wqe_post(&r.qp[0], &w);
			rig_run(&r);
			wc(&r.scq[0], 5, WC_SUCCESS);
			c = wc(&r.rcq[1], 4, WC_SUCCESS);
			assert_int_equal(c.opcode, 129);
			assert_int_equal(c.imm, 0x55);
			assert_int_equal(c.byte_len, len[i]);
			rig_check(&r, 1, 0, len[i], i + 50);
		}
		rig_down(&r);
	}
}

/** struct drop_one - drops packet number @n (from 0) */
struct drop_one {
	unsigned int n, seen;
};

static enum host_fate drop_one(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			       uint32_t len)
{
	struct drop_one *d = arg;

	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return d->seen++ == d->n ? HOST_DROP : HOST_DELIVER;
}

/* Four messages of five packets, one packet lost: exactly one message is missing. */
static void test_loss(void **state)
{
	struct rig r;

	(void)state;
	for (unsigned int n = 0; n < 20; n++) {
		struct drop_one d = { .n = n };
		unsigned int lost = n / 5;

		rig_up(&r, uc(2));
		host_hook_set(r.h[0], 0, drop_one, &d);
		for (unsigned int i = 0; i < 4; i++)
			rig_recv(&r, 1, i, i * 10000, 10000);
		for (unsigned int i = 0; i < 4; i++) {
			rig_fill(&r, 0, i * 10000, 2500, i + 1);
			rig_send(&r, 0, i, i * 10000, 2500);
		}
		rig_run(&r);
		for (unsigned int i = 0; i < 4; i++)
			wc(&r.scq[0], i, WC_SUCCESS);
		for (unsigned int i = 0; i < 3; i++) {
			assert_int_equal(wc(&r.rcq[1], i, WC_SUCCESS).byte_len, 2500);
			rig_check(&r, 1, i * 10000, 2500, i + 1 + (i >= lost));
		}
		no_wc(&r.rcq[1]);
		no_event(r.h[1]);
		rig_down(&r);
	}
}

/*
 * The same with SRQs. The WQE that the missing message has used is not left unused: it ends as
 * aborted when the next packet arrives.
 */
static void test_loss_srq(void **state)
{
	struct rig_opt opt = uc(2);
	struct rig r;

	(void)state;
	opt.srq = true;
	for (unsigned int n = 0; n < 20; n++) {
		struct drop_one d = { .n = n };
		/* a message without its first packet uses no WQE */
		unsigned int lost = n / 5, wqe = 0;
		bool taken = n % 5;

		rig_up(&r, opt);
		host_hook_set(r.h[0], 0, drop_one, &d);
		for (unsigned int i = 0; i < 5; i++)
			rig_recv(&r, 1, i, i * 10000, 10000);
		for (unsigned int i = 0; i < 4; i++) {
			rig_fill(&r, 0, i * 10000, 2500, i + 1);
			rig_send(&r, 0, i, i * 10000, 2500);
		}
		rig_run(&r);
		for (unsigned int i = 0; i < 4; i++) {
			wc(&r.scq[0], i, WC_SUCCESS);
			if (i == lost && n == 19)
				no_wc(&r.rcq[1]);
			else if (i == lost && taken)
				wc(&r.rcq[1], wqe++, WC_REM_ABORT);
			else if (i != lost)
				assert_int_equal(wc(&r.rcq[1], wqe++, WC_SUCCESS).byte_len, 2500);
			if (i != lost)
				rig_check(&r, 1, (wqe - 1) * 10000, 2500, i + 1);
		}
		no_wc(&r.rcq[1]);
		no_event(r.h[1]);
		/* the connection continues */
		rig_send(&r, 0, 9, 0, 2500);
		rig_run(&r);
		wc(&r.scq[0], 9, WC_SUCCESS);
		if (n == 19)
			wc(&r.rcq[1], wqe++, WC_REM_ABORT);
		wc(&r.rcq[1], wqe, WC_SUCCESS);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_LOCAL_ERR), 0);
		rig_down(&r);
	}
}

/* A message that is longer than the SRQ's WQE; then one that fits. */
static void test_long_srq(void **state)
{
	struct rig_opt opt = uc(1);
	struct rig r;

	(void)state;
	opt.srq = true;
	rig_up(&r, opt);
	rig_recv(&r, 1, 1, 0, 999);
	rig_recv(&r, 1, 2, 5000, 1000);
	rig_fill(&r, 0, 0, 1000, 6);
	rig_send(&r, 0, 3, 0, 1000);
	rig_send(&r, 0, 4, 0, 1000);
	rig_run(&r);
	wc(&r.scq[0], 3, WC_SUCCESS);
	wc(&r.scq[0], 4, WC_SUCCESS);
	wc(&r.rcq[1], 1, WC_REM_ABORT);
	wc(&r.rcq[1], 2, WC_SUCCESS);
	rig_check(&r, 1, 5000, 1000, 6);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
	rig_down(&r);
}

/** struct gone - the region is deregistered before packet @n (from 0) arrives */
struct gone {
	struct rig *r;
	unsigned int n, seen;
};

static enum host_fate gone(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			   uint32_t len)
{
	struct gone *g = arg;

	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	if (g->seen++ == g->n)
		assert_int_equal(host_cmd_handle(g->r->h[1], OHCA_CMD_DEREG_MR, g->r->mr[1].key, 0),
				 0);
	return HOST_DELIVER;
}

/*
 * The last packet of a WRITE uses a WQE of an SRQ for its immediate data, and then the region is
 * gone.
 */
static void test_gone_srq(void **state)
{
	struct rig_opt opt = uc(1);
	struct gone g = { .n = 3 };
	struct rig r;
	struct wqe w;

	(void)state;
	opt.srq = true;
	rig_up(&r, opt);
	g.r = &r;
	/* each packet has arrived when the next one leaves */
	r.h[0]->port[0].credits = 1;
	host_hook_set(r.h[0], 0, gone, &g);
	rig_recv(&r, 1, 1, 0, 0);
	w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, OHCA_WQE_SIGNALED, 2);
	wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
	wqe_sge(&w, r.mr[0].iova, 1000, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	wc(&r.rcq[1], 1, WC_REM_ABORT);
	no_wc(&r.rcq[1]);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
	rig_down(&r);
}

/* The CQ has no room for an aborted WQE when the next message begins. */
static void test_full_srq(void **state)
{
	struct drop_one d = { .n = 9 };	/* the last packet of the second message */
	struct rig_opt opt = uc(2);
	struct host_qp_init in = { .type = OHCA_QPT_UC };
	struct ohca_hw_db *db;
	struct rig r;

	(void)state;
	opt.srq = opt.cold = true;
	rig_up(&r, opt);
	host_qp_destroy(&r.qp[1]);
	host_cq_destroy(&r.rcq[1]);
	host_cq_create(r.h[1], &r.rcq[1], 0, 0);
	in.scq = &r.scq[1];
	in.rcq = &r.rcq[1];
	in.srq = &r.srq[1];
	assert_int_equal(host_qp_create(r.h[1], &r.qp[1], &in), 0);
	for (unsigned int i = 0; i < 2; i++)
		rig_connect(&r, i, rig_attr(&r, i));
	host_hook_set(r.h[0], 0, drop_one, &d);
	for (unsigned int i = 0; i < 4; i++)
		rig_recv(&r, 1, i, i * 10000, 2500);
	for (unsigned int i = 0; i < 4; i++)
		rig_send(&r, 0, i, 0, 2500);
	rig_run(&r);
	event(r.h[1], OHCA_EVENT_CQ_ERR, r.rcq[1].cqn);
	event(r.h[1], OHCA_EVENT_QP_FATAL, r.qp[1].handle);
	event(r.h[1], OHCA_EVENT_LAST_WQE, r.qp[1].handle);
	no_event(r.h[1]);
	wc(&r.rcq[1], 0, WC_SUCCESS);
	no_wc(&r.rcq[1]);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_ERR);
	/* the message that revealed the loss has used no other WQE */
	db = host_buf_ptr(r.h[1], &r.srq[1].buf, 0);
	assert_int_equal(db->rq_ci, 2);
	rig_down(&r);
}

/* No receive WQE, an invalid key, a message too long: dropped, and the QP continues. */
static void test_drops(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, uc(1));
	rig_send(&r, 0, 1, 0, 1000);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_NO_WQE), 1);
	w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 2);
	wqe_raddr(&w, r.mr[1].iova, r.mr[1].key ^ 1);
	wqe_sge(&w, r.mr[0].iova, 1000, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	rig_recv(&r, 1, 3, 0, 999);
	rig_send(&r, 0, 4, 0, 1000);
	rig_run(&r);
	wc(&r.scq[0], 4, WC_SUCCESS);
	no_wc(&r.rcq[1]);
	/* the WQE serves the next message that fits */
	rig_fill(&r, 0, 0, 999, 5);
	rig_send(&r, 0, 5, 0, 999);
	rig_run(&r);
	wc(&r.scq[0], 5, WC_SUCCESS);
	wc(&r.rcq[1], 3, WC_SUCCESS);
	rig_check(&r, 1, 0, 999, 5);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
	rig_down(&r);
}

static void test_local_errors(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	/* of the sender: SQE and back */
	for (unsigned int k = 0; k < 2; k++) {
		rig_up(&r, uc(1));
		w = wqe_new(k ? OHCA_OP_RDMA_READ : OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);
		wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
		wqe_sge(&w, r.mr[0].iova, 1000, r.mr[0].key ^ (k ? 0 : 1));
		wqe_post(&r.qp[0], &w);
		rig_write(&r, 0, 2, 0, 0, 10);
		rig_run(&r);
		wc(&r.scq[0], 1, k ? WC_LOC_QP_OP : WC_LOC_PROT);
		wc(&r.scq[0], 2, WC_WR_FLUSH);
		assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_SQE);
		rig_write(&r, 0, 3, 0, 0, 10);
		rig_run(&r);
		wc(&r.scq[0], 3, WC_WR_FLUSH);
		rig_modify(&r.qp[0], OHCA_QPS_RTS);
		rig_fill(&r, 0, 0, 1000, 8);
		rig_write(&r, 0, 4, 0, 0, 1000);
		rig_run(&r);
		wc(&r.scq[0], 4, WC_SUCCESS);
		rig_check(&r, 1, 0, 1000, 8);
		rig_down(&r);
	}
	/* of the receiver: ERR */
	rig_up(&r, uc(1));
	r.mr[1].key ^= 1;
	rig_recv(&r, 1, 1, 0, 1000);
	rig_recv(&r, 1, 2, 0, 1000);
	rig_send(&r, 0, 3, 0, 500);
	rig_run(&r);
	wc(&r.scq[0], 3, WC_SUCCESS);
	wc(&r.rcq[1], 1, WC_LOC_PROT);
	wc(&r.rcq[1], 2, WC_WR_FLUSH);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_ERR);
	rig_down(&r);
}

/* The queue of a consumer that asks for no completions has room before everything is sent. */
static void test_room(void **state)
{
	static const uint8_t type[] = { OHCA_QPT_UC, OHCA_QPT_UD };

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		const struct ohca_hw_db *db;
		struct rig r;

		rig_up(&r, (struct rig_opt){ .type = type[k] });
		/* 64 blocks; a datagram needs two */
		for (unsigned int i = 0; i < (type[k] == OHCA_QPT_UD ? 30 : 60); i++) {
			struct wqe w = wqe_new(OHCA_OP_SEND, 0, i);

			if (type[k] == OHCA_QPT_UD)
				wqe_av(&w, 2, r.qp[1].qpn, RIG_QKEY);
			wqe_sge(&w, r.mr[0].iova, 8, r.mr[0].key);
			wqe_post(&r.qp[0], &w);
		}
		db = host_buf_ptr(r.h[0], &r.qp[0].buf, OHCA_DB_OFFSET);
		r.h[0]->port[0].credits = 100;
		ohca_poll(r.h[0]->e, 20);
		assert_true(db->sq_ci);
		assert_true(db->sq_ci < r.qp[0].sq_pi);
		rig_run(&r);
		assert_int_equal(db->sq_ci, r.qp[0].sq_pi);
		rig_down(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_loss_srq),
		cmocka_unit_test(test_long_srq),
		cmocka_unit_test(test_gone_srq),
		cmocka_unit_test(test_full_srq),
		cmocka_unit_test(test_drops),
		cmocka_unit_test(test_local_errors),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
