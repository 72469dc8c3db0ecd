/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the device tells of single objects: counter sets and contexts. */
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

/* Each QP's packets are in its set, the rest in set 0, and all in the device's counters. */
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

	/* 16 while it is; then a message for which there is no receive */
	assert_int_equal(bind_set(h, r.qp[1].handle, n), OHCA_ADMIN_OK);
	rig_write(&r, 0, 2, 0, 0, 16 * 1024);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	rig_send(&r, 0, 3, 0, 8);
	rig_run(&r);
	memcpy(set, query_set(h, n), sizeof(set));
	memcpy(rest, query_set(h, 0), sizeof(rest));
	assert_int_equal(set[OHCA_CNT_RX_PKTS], 17);
	assert_in_range(set[OHCA_CNT_TX_PKTS], 2, 17);
	assert_int_equal(set[OHCA_CNT_RNR_NAK_TX], 1);
	assert_int_equal(rest[OHCA_CNT_RX_PKTS], before + 8);
	assert_int_equal(rest[OHCA_CNT_RNR_NAK_TX], 0);
	for (unsigned int i = 0; i < OHCA_CNT_NUM; i++)
		if (i != OHCA_CNT_CMDS)
			assert_int_equal(set[i] + rest[i], host_counter(h, i));
	rig_recv(&r, 1, 4, 0, 8);
	rig_time(&r, 1000);
	wc(&r.scq[0], 3, WC_SUCCESS);

	/* and 8 after; what the set has counted stays where it is */
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

/* Of two ports each has what came and went by it, without what a set has. */
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
	/* the ports are all that the device has of packets */
	assert_int_equal(query_port(h, 1)[OHCA_CNT_RX_PKTS] +
			 query_port(h, 2)[OHCA_CNT_RX_PKTS] + set,
			 host_counter(h, OHCA_CNT_RX_PKTS));
	/* what belongs to no port */
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
	/* from one set to another; what has QPs stays */
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
	/* the rig's own end, with sets that are in use, leaks nothing */
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
	/* no more than it says */
	assert_int_equal(((uint8_t *)host_ptr(h, h->mbox[0]))[n], 0xaa);
	return rc;
}

static void test_context(void **state)
{
	struct ohca_hw_eq_context eq;
	struct ohca_hw_cq_context cq;
	struct ohca_hw_srq_context srq;
	struct ohca_hw_qp_context qp;
	struct ohca_hw_mr_context mr;
	struct host *h;
	struct rig r;
	uint32_t n;

	(void)state;
	rig_up(&r, (struct rig_opt){ .srq = true, .psn = { 0xfffff0, 7 } });
	h = r.h[0];
	n = alloc_set(h);
	assert_int_equal(bind_set(h, r.qp[0].handle, n), OHCA_ADMIN_OK);
	rig_recv(&r, 0, 9, 0, 8);
	rig_recv(&r, 0, 10, 0, 8);
	rig_write(&r, 0, 1, 0, 0, 8);
	rig_send(&r, 1, 2, 0, 8);
	host_cq_arm(&r.scq[0], true);
	rig_run(&r);

	assert_int_equal(query(h, OHCA_CONTEXT_EQ, h->async.eqn, &eq, sizeof(eq)), OHCA_ADMIN_OK);
	assert_int_equal(eq.eqn, h->async.eqn);
	assert_int_equal(eq.log_size, h->async.log);
	assert_int_equal(eq.kind, OHCA_EQ_ASYNC);

	assert_int_equal(query(h, OHCA_CONTEXT_CQ, r.scq[0].cqn, &cq, sizeof(cq)), OHCA_ADMIN_OK);
	assert_int_equal(cq.cqn, r.scq[0].cqn);
	assert_int_equal(cq.eqn, h->comp.eqn);
	assert_int_equal(cq.pi, 1);
	assert_int_equal(cq.refs, 1);
	assert_int_equal(cq.log_size, r.scq[0].log);
	assert_int_equal(cq.flags, OHCA_CQC_ARMED | OHCA_CQC_SOLICITED);

	assert_int_equal(query(h, OHCA_CONTEXT_SRQ, r.srq[0].srqn, &srq, sizeof(srq)),
			 OHCA_ADMIN_OK);
	assert_int_equal(srq.pdn, h->pdn);
	assert_int_equal(srq.refs, 1);
	assert_int_equal(srq.ci, 1);

	assert_int_equal(query(h, OHCA_CONTEXT_QP, r.qp[0].handle, &qp, sizeof(qp)),
			 OHCA_ADMIN_OK);
	assert_int_equal(qp.handle, r.qp[0].handle);
	assert_int_equal(qp.state, OHCA_QPS_RTS);
	assert_int_equal(qp.send_cqn, r.scq[0].cqn);
	assert_int_equal(qp.recv_cqn, r.rcq[0].cqn);
	assert_int_equal(qp.srqn, r.srq[0].srqn);
	assert_int_equal(qp.counters, n);
	assert_int_equal(qp.sq_pi, r.qp[0].sq_pi);
	assert_int_equal(qp.sq_ci, r.qp[0].sq_pi);
	assert_int_equal(qp.next_psn, 0xfffff1);
	assert_int_equal(qp.una_psn, 0xfffff1);
	assert_int_equal(qp.expected_psn, 8);
	assert_int_equal(qp.msn, 1);
	assert_int_equal(qp.port, 1);

	assert_int_equal(query(h, OHCA_CONTEXT_MR, r.mr[0].key, &mr, sizeof(mr)), OHCA_ADMIN_OK);
	assert_int_equal(mr.key, r.mr[0].key);
	assert_int_equal(mr.iova, r.mr[0].iova);
	assert_int_equal(mr.length, r.mr[0].len);
	assert_int_equal(mr.npages << mr.page_shift, r.mr[0].len);
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

/* Without the features there are no such commands. */
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
		cmocka_unit_test(test_context),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_features),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
