/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Data of single objects that the device reports: counter sets and contexts. */
#include "rig.h"

static uint64_t *query_set(struct host *h, uint32_t n)
{
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_QUERY_COUNTER_SET, n, h->mbox[0]),
			 OHCA_ADMIN_OK);
	return host_ptr(h, h->mbox[0]);
}

static uint64_t *query_port(struct host *h, uint8_t port)
{
	struct ohca_hw_aqe c = HOST_AQE(query_counter_set, .port = port, .addr = h->mbox[0]);

	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_COUNTER_SET, &c, NULL), OHCA_ADMIN_OK);
	return host_ptr(h, h->mbox[0]);
}

static uint32_t alloc_set(struct host *h)
{
	struct ohca_hw_aqe c = { 0 };
	struct ohca_hw_acqe r;

	assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_COUNTERS, &c, &r), OHCA_ADMIN_OK);
	return r.handle.handle;
}

static int bind_set(struct host *h, uint32_t qp, uint32_t n)
{
	struct ohca_hw_aqe c = HOST_AQE(bind_counters, .qp = qp, .set = n);

	return host_cmd(h, OHCA_CMD_BIND_COUNTERS, &c, NULL);
}

/* Packets of a QP count in its set, others in set 0, and all in the device's counters. */
static void test_counts(void **state)
{
	uint64_t set[OHCA_CNT_NUM], rest[OHCA_CNT_NUM], before;
	struct host *h;
	struct rig r;
	uint32_t n;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 3 });
	h = r.h[1];
	n = alloc_set(h);
	assert_int_not_equal(n, 0);
	before = query_set(h, 0)[OHCA_CNT_RX_PKTS];
	assert_int_equal(before, host_counter(h, OHCA_CNT_RX_PKTS));

	/* 8 packets before it is bound */
	rig_write(&r, 0, 1, 0, 0, 8 * 1024);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(query_set(h, 0)[OHCA_CNT_RX_PKTS], before + 8);
	assert_int_equal(query_set(h, n)[OHCA_CNT_RX_PKTS], 0);

	/* 16 while it is bound; then a message without a receive WQE */
	assert_int_equal(bind_set(h, r.qp[1].handle, n), OHCA_ADMIN_OK);
	rig_write(&r, 0, 2, 0, 0, 16 * 1024);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	rig_send(&r, 0, 3, 0, 8);
	rig_run(&r);
	memcpy(set, query_set(h, n), sizeof(set));
	memcpy(rest, query_set(h, 0), sizeof(rest));
	assert_int_equal(set[OHCA_CNT_RX_PKTS], 17);
	/* LRH, BTH and ICRC of each, RETH of the first */
	assert_int_equal(set[OHCA_CNT_RX_BYTES], 16 * 1024 + 8 + 17 * (8 + 12 + 4) + 16);
	assert_in_range(set[OHCA_CNT_TX_PKTS], 2, 17);
	/* and AETH, of ACKs */
	assert_int_equal(set[OHCA_CNT_TX_BYTES], set[OHCA_CNT_TX_PKTS] * (8 + 12 + 4 + 4));
	assert_int_equal(set[OHCA_CNT_RNR_NAK_TX], 1);
	assert_int_equal(rest[OHCA_CNT_RX_PKTS], before + 8);
	assert_int_equal(rest[OHCA_CNT_RNR_NAK_TX], 0);
	for (unsigned int i = 0; i < OHCA_CNT_NUM; i++)
		if (i != OHCA_CNT_CMDS)
			assert_int_equal(set[i] + rest[i], host_counter(h, i));
	rig_recv(&r, 1, 4, 0, 8);
	rig_time(&r, 1000);
	wc(&r.scq[0], 3, WC_SUCCESS);

	/* and 8 after it; the set keeps its counts */
	assert_int_equal(bind_set(h, r.qp[1].handle, 0), OHCA_ADMIN_OK);
	memcpy(set, query_set(h, n), sizeof(set));
	rig_write(&r, 0, 5, 0, 0, 8 * 1024);
	rig_run(&r);
	wc(&r.scq[0], 5, WC_SUCCESS);
	assert_memory_equal(query_set(h, n), set, sizeof(set));
	assert_int_equal(query_set(h, 0)[OHCA_CNT_RX_PKTS], before + 16);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_FREE_COUNTERS, n, 0), OHCA_ADMIN_OK);
	assert_int_equal(query_set(h, 0)[OHCA_CNT_RX_PKTS], before + 16);
	rig_down(&r);
}

/* Each of two ports has the counts of its packets, without those of sets. */
static void test_ports(void **state)
{
	struct ohca_hw_aqe c = HOST_AQE(query_counter_set, .port = 3);
	uint64_t one, two, set;
	struct host *h;
	struct rig r;
	uint32_t n;

	(void)state;
	rig_up(&r, (struct rig_opt){ .two_ports = true });
	h = r.h[1];
	one = query_port(h, 1)[OHCA_CNT_RX_PKTS];
	two = query_port(h, 2)[OHCA_CNT_RX_PKTS];
	rig_write(&r, 0, 1, 0, 0, 8 * 1024);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(query_port(h, 1)[OHCA_CNT_RX_PKTS], one + 8);
	assert_int_equal(query_port(h, 2)[OHCA_CNT_RX_PKTS], two);
	assert_true(query_port(h, 1)[OHCA_CNT_TX_PKTS]);
	n = alloc_set(h);
	assert_int_equal(bind_set(h, r.qp[1].handle, n), OHCA_ADMIN_OK);
	rig_write(&r, 0, 2, 0, 0, 4 * 1024);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	set = query_set(h, n)[OHCA_CNT_RX_PKTS];
	assert_int_equal(set, 4);
	assert_int_equal(query_port(h, 1)[OHCA_CNT_RX_PKTS], one + 8);
	/* the ports have all packets of the device */
	assert_int_equal(query_port(h, 1)[OHCA_CNT_RX_PKTS] +
			 query_port(h, 2)[OHCA_CNT_RX_PKTS] + set,
			 host_counter(h, OHCA_CNT_RX_PKTS));
	set = query_set(h, n)[OHCA_CNT_TX_BYTES];
	assert_true(set);
	assert_int_equal(query_port(h, 1)[OHCA_CNT_TX_BYTES] +
			 query_port(h, 2)[OHCA_CNT_TX_BYTES] + set,
			 host_counter(h, OHCA_CNT_TX_BYTES));
	/* counts that belong to no port */
	assert_true(query_set(h, 0)[OHCA_CNT_CMDS]);
	assert_int_equal(query_port(h, 1)[OHCA_CNT_CMDS], 0);
	c.query_counter_set.addr = h->mbox[0];
	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_COUNTER_SET, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.query_counter_set.port = 1;
	c.query_counter_set.set = n;
	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_COUNTER_SET, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	rig_down(&r);
}

/* The requester's side: retries of a QP whose peer does not answer. */
static void test_retries(void **state)
{
	struct rig r;
	uint64_t *v;
	uint32_t n;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	n = alloc_set(r.h[0]);
	assert_int_equal(bind_set(r.h[0], r.qp[0].handle, n), OHCA_ADMIN_OK);
	rig_modify(&r.qp[1], OHCA_QPS_RESET);
	rig_write(&r, 0, 1, 0, 0, 8);
	rig_time(&r, 60000);
	wc(&r.scq[0], 1, WC_RETRY_EXC);
	v = query_set(r.h[0], n);
	assert_true(v[OHCA_CNT_ACK_TIMEOUT] > 1);
	assert_int_equal(v[OHCA_CNT_RETRY_EXCEEDED], 1);
	assert_int_equal(v[OHCA_CNT_REMOTE_ERR], 1);
	assert_int_equal(v[OHCA_CNT_TX_PKTS], v[OHCA_CNT_ACK_TIMEOUT]);
	assert_int_equal(v[OHCA_CNT_TX_BYTES], v[OHCA_CNT_TX_PKTS] * (8 + 12 + 16 + 8 + 4));
	rig_down(&r);
}

static void test_sets(void **state)
{
	struct ohca_hw_aqe c = { 0 };
	struct host *h;
	struct rig r;
	uint32_t a, b, n;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true });
	h = r.h[0];
	a = alloc_set(h);
	b = alloc_set(h);
	assert_int_not_equal(a, b);
	/* no QP, no set */
	assert_int_equal(bind_set(h, 0xffffff, a), OHCA_ADMIN_BAD_HANDLE);
	assert_int_equal(bind_set(h, r.qp[0].handle, b + 1), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(bind_set(h, r.qp[0].handle, ~0u), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x0c);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint32_t bad[] = { 0, 4096, ~0u };

		assert_int_equal(host_cmd_handle(h, OHCA_CMD_FREE_COUNTERS, bad[i], 0),
				 OHCA_ADMIN_BAD_HANDLE);
		if (i)
			assert_int_equal(host_cmd_handle(h, OHCA_CMD_QUERY_COUNTER_SET, bad[i],
							 h->mbox[0]), OHCA_ADMIN_BAD_HANDLE);
	}
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_QUERY_COUNTER_SET, a, h->mbox[0] + 8),
			 OHCA_ADMIN_BAD_PARAM);
	/* from one set to another; a set with QPs stays */
	assert_int_equal(bind_set(h, r.qp[0].handle, a), OHCA_ADMIN_OK);
	assert_int_equal(bind_set(h, r.qp[0].handle, b), OHCA_ADMIN_OK);
	assert_int_equal(bind_set(h, r.qp[1].handle, b), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_FREE_COUNTERS, a, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_FREE_COUNTERS, b, 0), OHCA_ADMIN_BUSY);
	host_qp_destroy(&r.qp[0]);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_FREE_COUNTERS, b, 0), OHCA_ADMIN_BUSY);
	host_qp_destroy(&r.qp[1]);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_FREE_COUNTERS, b, 0), OHCA_ADMIN_OK);
	for (n = 0; host_cmd(h, OHCA_CMD_ALLOC_COUNTERS, &c, NULL) == OHCA_ADMIN_OK; n++)
		memset(&c, 0, sizeof(c));
	assert_int_equal(n, 4095);
	/* the end of the rig, with sets in use, leaks nothing */
	ohca_reset(h->e);
	host_free(h);
	host_buf_free(&r.scq[0].buf);
	host_buf_free(&r.scq[1].buf);
	host_buf_free(&r.rcq[0].buf);
	host_buf_free(&r.rcq[1].buf);
	host_buf_free(&r.mr[0].buf);
	host_buf_free(&r.mr[1].buf);
}

static int query(struct host *h, uint8_t kind, uint32_t handle, void *buf, size_t n)
{
	struct ohca_hw_aqe c = HOST_AQE(query_context, .handle = handle, .kind = kind,
					.addr = h->mbox[0]);
	int rc;

	memset(host_ptr(h, h->mbox[0]), 0xaa, HOST_PAGE);
	rc = host_cmd(h, OHCA_CMD_QUERY_CONTEXT, &c, NULL);
	memcpy(buf, host_ptr(h, h->mbox[0]), n);
	/* no more than it reports */
	assert_int_equal(((uint8_t *)host_ptr(h, h->mbox[0]))[n], 0xaa);
	return rc;
}

static void test_eq_and_cq(void **state)
{
	struct ohca_hw_eq_context eq;
	struct ohca_hw_cq_context cq;
	struct host *h;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	h = r.h[0];
	for (unsigned int i = 0; i < 3; i++)
		rig_write(&r, 0, i, 0, 0, 8);
	rig_run(&r);
	wc(&r.scq[0], 0, WC_SUCCESS);
	wc(&r.scq[0], 1, WC_SUCCESS);
	host_cq_arm(&r.scq[0], false);
	rig_run(&r);

	assert_int_equal(query(h, OHCA_CONTEXT_EQ, h->async.eqn, &eq, sizeof(eq)), OHCA_ADMIN_OK);
	assert_int_equal(eq.eqn, h->async.eqn);
	assert_int_equal(eq.log_size, h->async.log);
	assert_int_equal(eq.kind, OHCA_EQ_ASYNC);
	assert_int_equal(eq.vector, 0);
	assert_int_equal(eq.pi, h->async.ci);
	assert_int_equal(eq.ci, h->async.ci);
	assert_int_equal(eq.flags, OHCA_EQC_ARMED);
	assert_int_equal(query(h, OHCA_CONTEXT_EQ, h->comp.eqn, &eq, sizeof(eq)), OHCA_ADMIN_OK);
	assert_int_equal(eq.kind, OHCA_EQ_COMP);
	assert_int_equal(eq.vector, 1);
	/* two CQs of each side; one event, which raised an interrupt and disarmed */
	assert_int_equal(eq.refs, 2);
	assert_int_equal(eq.pi, 1);
	assert_int_equal(eq.ci, 0);
	assert_int_equal(eq.flags, 0);

	assert_int_equal(query(h, OHCA_CONTEXT_CQ, r.scq[0].cqn, &cq, sizeof(cq)), OHCA_ADMIN_OK);
	assert_int_equal(cq.cqn, r.scq[0].cqn);
	assert_int_equal(cq.uar, 0);
	assert_int_equal(cq.eqn, h->comp.eqn);
	assert_int_equal(cq.refs, 1);
	assert_int_equal(cq.pi, 3);
	assert_int_equal(cq.told_pi, 3);
	assert_int_equal(cq.events, 1);
	assert_int_equal(cq.arm_sn, 1);
	assert_int_equal(cq.log_size, r.scq[0].log);
	assert_int_equal(cq.flags, OHCA_CQC_EQE_OUT);
	host_cq_arm(&r.rcq[0], true);
	rig_run(&r);
	assert_int_equal(query(h, OHCA_CONTEXT_CQ, r.rcq[0].cqn, &cq, sizeof(cq)), OHCA_ADMIN_OK);
	assert_int_equal(cq.flags, OHCA_CQC_ARMED | OHCA_CQC_SOLICITED);
	rig_down(&r);
}

static void test_moderation(void **state)
{
	struct ohca_hw_aqe c;
	struct ohca_hw_cq_context cq;
	struct host_cq own;
	struct host *h;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true });
	h = r.h[0];
	host_cq_create(h, &own, 5, 3);
	c = HOST_AQE(modify_cq, .cqn = own.cqn, .count = 0x123, .period_us = 0x234);
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_CQ, &c, NULL), OHCA_ADMIN_OK);
	assert_int_equal(query(h, OHCA_CONTEXT_CQ, own.cqn, &cq, sizeof(cq)), OHCA_ADMIN_OK);
	assert_int_equal(cq.uar, 3);
	assert_int_equal(cq.log_size, 5);
	assert_int_equal(cq.mod_count, 0x123);
	assert_int_equal(cq.mod_period_us, 0x234);
	assert_int_equal(cq.refs | cq.pi | cq.ci | cq.flags, 0);
	host_cq_destroy(&own);
	rig_down(&r);
}

static void test_srq(void **state)
{
	struct ohca_hw_srq_context srq;
	struct host_srq own;
	struct host *h;
	struct rig r;
	uint32_t pdn;

	(void)state;
	rig_up(&r, (struct rig_opt){ .srq = true, .srq_pd = true });
	h = r.h[0];
	rig_recv(&r, 0, 9, 0, 8);
	rig_recv(&r, 0, 10, 0, 8);
	rig_send(&r, 1, 2, 0, 8);
	rig_run(&r);
	assert_int_equal(query(h, OHCA_CONTEXT_SRQ, r.srq[0].srqn, &srq, sizeof(srq)),
			 OHCA_ADMIN_OK);
	assert_int_equal(srq.pdn, r.srq_pdn[0]);
	assert_int_equal(srq.refs, 1);
	assert_int_equal(srq.ci, 1);
	assert_int_equal(srq.limit, 0);
	assert_int_equal(srq.flags, 0);
	pdn = host_pd(h, 2);
	host_srq_create(h, &own, 4, pdn, 2, 7);
	assert_int_equal(query(h, OHCA_CONTEXT_SRQ, own.srqn, &srq, sizeof(srq)), OHCA_ADMIN_OK);
	assert_int_equal(srq.srqn, own.srqn);
	assert_int_equal(srq.uar, 2);
	assert_int_equal(srq.pdn, pdn);
	assert_int_equal(srq.refs, 0);
	assert_int_equal(srq.ci, 0);
	assert_int_equal(srq.limit, 7);
	assert_int_equal(srq.log_size, 4);
	assert_int_equal(srq.log_stride, own.log_stride);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, own.srqn, 0), OHCA_ADMIN_OK);
	host_buf_free(&own.buf);
	rig_down(&r);
}

static void test_qp(void **state)
{
	struct ohca_hw_qp_context qp;
	struct host *h;
	struct rig r;
	uint32_t n;

	(void)state;
	rig_up(&r, (struct rig_opt){ .log_sq = 5, .log_rq = 3, .signal_all = true,
				     .psn = { 0xfffff0, 7 } });
	h = r.h[0];
	n = alloc_set(h);
	assert_int_equal(bind_set(h, r.qp[0].handle, n), OHCA_ADMIN_OK);
	rig_recv(&r, 0, 9, 0, 8);
	rig_recv(&r, 0, 10, 0, 8);
	rig_write(&r, 0, 1, 0, 0, 8);
	rig_send(&r, 1, 2, 0, 8);
	rig_run(&r);
	assert_int_equal(query(h, OHCA_CONTEXT_QP, r.qp[0].handle, &qp, sizeof(qp)),
			 OHCA_ADMIN_OK);
	assert_int_equal(qp.handle, r.qp[0].handle);
	assert_int_equal(qp.wire_qpn, r.qp[0].qpn);
	assert_int_equal(qp.dest_qpn, r.qp[1].qpn);
	assert_int_equal(qp.uar, 0);
	assert_int_equal(qp.pdn, h->pdn);
	assert_int_equal(qp.type, OHCA_QPT_RC);
	assert_int_equal(qp.state, OHCA_QPS_RTS);
	assert_int_equal(qp.flags, OHCA_QP_SIGNAL_ALL);
	assert_int_equal(qp.log_sq, 5);
	assert_int_equal(qp.log_rq, 3);
	assert_int_equal(qp.send_cqn, r.scq[0].cqn);
	assert_int_equal(qp.recv_cqn, r.rcq[0].cqn);
	assert_int_equal(qp.srqn, 0);
	assert_int_equal(qp.counters, n);
	assert_int_equal(qp.rq_ci, 1);
	assert_int_equal(qp.sq_pi, r.qp[0].sq_pi);
	assert_int_equal(qp.sq_cur, r.qp[0].sq_pi);
	assert_int_equal(qp.sq_ci, r.qp[0].sq_pi);
	assert_int_equal(qp.next_psn, 0xfffff1);
	assert_int_equal(qp.max_psn, 0xfffff1);
	assert_int_equal(qp.una_psn, 0xfffff1);
	assert_int_equal(qp.expected_psn, 8);
	assert_int_equal(qp.msn, 1);
	assert_int_equal(qp.port, 1);
	assert_int_equal(qp.retry_left, 7);
	assert_int_equal(qp.rnr_left, 7);
	assert_int_equal(qp.reads_out, 0);
	rig_down(&r);
}

/* A QP with a READ that is not answered, then with a message that is not received. */
static void test_qp_busy(void **state)
{
	struct ohca_hw_qp_context qp;
	struct host *h;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .psn = { 0xffffff, 0 } });
	h = r.h[0];
	host_hook_set(r.h[0], 0, host_drop, NULL);
	rig_read(&r, 0, 3, 0, 0, 2048);
	rig_run(&r);
	assert_int_equal(query(h, OHCA_CONTEXT_QP, r.qp[0].handle, &qp, sizeof(qp)),
			 OHCA_ADMIN_OK);
	assert_int_equal(qp.reads_out, 1);
	assert_int_equal(qp.una_psn, 0xffffff);
	assert_int_equal(qp.next_psn, 1);
	assert_int_equal(qp.max_psn, 1);
	assert_int_not_equal(qp.sq_ci, r.qp[0].sq_pi);
	assert_int_equal(qp.sq_cur, r.qp[0].sq_pi);
	assert_int_equal(qp.wait, 0);
	host_hook_set(r.h[0], 0, NULL, NULL);
	rig_time(&r, 1000);
	wc(&r.scq[0], 3, WC_SUCCESS);
	/* no receive is posted */
	rig_send(&r, 0, 4, 0, 8);
	rig_run(&r);
	assert_int_equal(query(h, OHCA_CONTEXT_QP, r.qp[0].handle, &qp, sizeof(qp)),
			 OHCA_ADMIN_OK);
	assert_int_equal(qp.wait, OHCA_QPC_RNR_WAIT);
	rig_down(&r);
}

/* A QP that was only created, with an SRQ. */
static void test_qp_idle(void **state)
{
	struct ohca_hw_qp_context qp;
	struct host_qp own = { 0 };
	struct host_qp_init in;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .srq = true });
	in = (struct host_qp_init){ .scq = &r.scq[0], .rcq = &r.rcq[0], .srq = &r.srq[0] };
	assert_int_equal(host_qp_create(r.h[0], &own, &in), OHCA_ADMIN_OK);
	assert_int_equal(query(r.h[0], OHCA_CONTEXT_QP, own.handle, &qp, sizeof(qp)),
			 OHCA_ADMIN_OK);
	assert_int_equal(qp.srqn, r.srq[0].srqn);
	assert_int_equal(qp.flags, OHCA_QP_SRQ);
	assert_int_equal(qp.state, OHCA_QPS_RESET);
	assert_int_equal(qp.port | qp.counters | qp.dest_qpn | qp.sq_pi | qp.rq_ci, 0);
	host_qp_destroy(&own);
	rig_down(&r);
}

static void test_mr(void **state)
{
	struct ohca_hw_aqe c;
	struct ohca_hw_acqe rsp;
	struct ohca_hw_mr_context mr;
	struct host_mr own;
	struct host *h;
	struct rig r;
	uint32_t pdn;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true });
	h = r.h[0];
	pdn = host_pd(h, 4);
	host_mr_create(h, &own, 3 * HOST_PAGE, pdn, OHCA_ACCESS_REMOTE_READ);
	assert_int_equal(query(h, OHCA_CONTEXT_MR, own.key, &mr, sizeof(mr)), OHCA_ADMIN_OK);
	assert_int_equal(mr.key, own.key);
	assert_int_equal(mr.pdn, pdn);
	assert_int_equal(mr.iova, own.iova);
	assert_int_equal(mr.length, own.len);
	assert_int_equal(mr.access, OHCA_ACCESS_REMOTE_READ);
	assert_int_equal(mr.npages, 3);
	assert_int_equal(mr.page_shift, 12);
	assert_int_equal(mr.pl_offset, 0);
	assert_int_equal(mr.max_pages, 0);
	assert_int_equal(mr.refs, 0);
	assert_int_equal(mr.bound, 0);
	assert_int_equal(mr.type, OHCA_MR_USER);
	assert_int_equal(mr.flags, OHCA_MRC_VALID);
	/* room for pages, but no pages */
	c = HOST_AQE(reg_mr, .type = OHCA_MR_FRMR, .pdn = pdn, .length = 9);
	assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), OHCA_ADMIN_OK);
	assert_int_equal(query(h, OHCA_CONTEXT_MR, rsp.handle.handle, &mr, sizeof(mr)),
			 OHCA_ADMIN_OK);
	assert_int_equal(mr.type, OHCA_MR_FRMR);
	assert_int_equal(mr.max_pages, 9);
	assert_int_equal(mr.npages, 0);
	assert_int_equal(mr.flags, 0);
	host_buf_free(&own.buf);
	rig_down(&r);
}

static void test_refused(void **state)
{
	struct ohca_hw_aqe c;
	struct host *h;
	struct rig r;
	uint8_t buf[128];

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true });
	h = r.h[0];
	for (uint8_t kind = OHCA_CONTEXT_EQ; kind <= OHCA_CONTEXT_MR; kind++) {
		assert_int_equal(query(h, kind, ~0u, buf, sizeof(buf)), OHCA_ADMIN_BAD_HANDLE);
		assert_int_equal(query(h, kind, 1u << 20, buf, sizeof(buf)),
				 OHCA_ADMIN_BAD_HANDLE);
	}
	assert_int_equal(query(h, OHCA_CONTEXT_MR, r.mr[0].key ^ 1, buf, sizeof(buf)),
			 OHCA_ADMIN_BAD_HANDLE);
	assert_int_equal(query(h, OHCA_CONTEXT_MR + 1, 0, buf, sizeof(buf)),
			 OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x0c);
	c = HOST_AQE(query_context, .kind = OHCA_CONTEXT_QP, .handle = r.qp[0].handle,
		     .addr = h->mbox[0], .reserved = { 0, 1, 0 });
	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_CONTEXT, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c = HOST_AQE(query_context, .kind = OHCA_CONTEXT_QP, .handle = r.qp[0].handle,
		     .addr = 1ull << 60);
	assert_int_equal(host_cmd(h, OHCA_CMD_QUERY_CONTEXT, &c, NULL), OHCA_ADMIN_DMA);
	rig_down(&r);
}

/* Without the features these commands are refused. */
static void test_features(void **state)
{
	static const uint8_t ops[] = {
		OHCA_CMD_QUERY_CONTEXT, OHCA_CMD_ALLOC_COUNTERS, OHCA_CMD_FREE_COUNTERS,
		OHCA_CMD_QUERY_COUNTER_SET, OHCA_CMD_BIND_COUNTERS,
	};
	struct host *h = host_new(1, 0x0002c90000000100ull);

	(void)state;
	host_enable(h, ~(1ull << OHCA_FEATURE_QP_COUNTERS | 1ull << OHCA_FEATURE_QUERY_CONTEXT));
	for (size_t i = 0; i < sizeof(ops); i++)
		assert_int_equal(host_cmd_handle(h, ops[i], 0, 0), OHCA_ADMIN_BAD_OPCODE);
	host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_retries),
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_eq_and_cq),
		cmocka_unit_test(test_moderation),
		cmocka_unit_test(test_srq),
		cmocka_unit_test(test_qp),
		cmocka_unit_test(test_qp_busy),
		cmocka_unit_test(test_qp_idle),
		cmocka_unit_test(test_mr),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_features),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
