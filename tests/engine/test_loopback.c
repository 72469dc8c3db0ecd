/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Traffic of a port with itself: all services, without a wire. */
#include "rig.h"

static enum host_fate none(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			   uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	fail_msg("a frame left the port");
	return HOST_DROP;
}

static void connected(uint8_t type)
{
	struct rig r;

	rig_up(&r, (struct rig_opt){ .type = type, .loop = true, .mtu = 5 });
	host_hook_set(r.h[0], 0, none, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		rig_fill(&r, i, 0, 1000000, 1 + i);
		rig_write(&r, i, 1, 0, 1 << 20, 1000000);
		rig_recv(&r, 1 - i, 2, 2 << 20, 70000);
		rig_run(&r);
		wc(&r.scq[i], 1, WC_SUCCESS);
		rig_check(&r, 1 - i, 1 << 20, 1000000, 1 + i);
		rig_send(&r, i, 3, 0, 70000);
		rig_run(&r);
		wc(&r.scq[i], 3, WC_SUCCESS);
		wc(&r.rcq[1 - i], 2, WC_SUCCESS);
		rig_check(&r, 1 - i, 2 << 20, 70000, 1 + i);
		if (type == OHCA_QPT_UC)
			continue;
		rig_read(&r, i, 4, 3 << 20, 0, 1000000);
		rig_atomic(&r, i, OHCA_OP_FETCH_ADD, 5, 16, 8, 1, 0);
		rig_run(&r);
		wc(&r.scq[i], 4, WC_SUCCESS);
		wc(&r.scq[i], 5, WC_SUCCESS);
	}
	rig_down(&r);
}

static void test_rc(void **state)
{
	(void)state;
	connected(OHCA_QPT_RC);
}

static void test_uc(void **state)
{
	(void)state;
	connected(OHCA_QPT_UC);
}

/* Both at once, and more than the loop can hold. */
static void test_both(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .mtu = 1 });
	for (unsigned int k = 0; k < 10; k++)
		for (unsigned int i = 0; i < 2; i++) {
			rig_read(&r, i, 2 * k, 0, 1 << 20, 100000);
			rig_write(&r, i, 2 * k + 1, 1 << 20, 2 << 20, 100000);
		}
	rig_run(&r);
	for (unsigned int k = 0; k < 20; k++)
		for (unsigned int i = 0; i < 2; i++)
			wc(&r.scq[i], k, WC_SUCCESS);
	rig_down(&r);
}

/* A QP connected to itself. */
static void test_self(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .cold = true });
	host_qp_connect(&r.qp[0], 0, 1, r.qp[0].qpn, 4, 5, 5);
	rig_fill(&r, 0, 0, 100000, 9);
	rig_write(&r, 0, 1, 0, 0, 100000);
	rig_recv(&r, 0, 2, 1 << 20, 100000);
	rig_send(&r, 0, 3, 0, 100000);
	rig_read(&r, 0, 4, 2 << 20, 0, 100000);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.scq[0], 3, WC_SUCCESS);
	wc(&r.scq[0], 4, WC_SUCCESS);
	wc(&r.rcq[0], 2, WC_SUCCESS);
	rig_check(&r, 1, 0, 100000, 9);
	rig_check(&r, 0, 1 << 20, 100000, 9);
	rig_check(&r, 0, 2 << 20, 100000, 9);
	rig_down(&r);
}

static void test_ud(void **state)
{
	struct rig r;
	struct ohca_hw_cqe c;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD, .loop = true });
	host_hook_set(r.h[0], 0, none, NULL);
	for (uint32_t len = 0; len <= 2048; len += 1 + len) {
		rig_fill(&r, 0, 0, len, len);
		rig_recv(&r, 1, 1, 4096, len + 40);
		rig_send(&r, 0, 2, 0, len);
		rig_run(&r);
		wc(&r.scq[0], 2, WC_SUCCESS);
		c = wc(&r.rcq[1], 1, WC_SUCCESS);
		assert_int_equal(c.byte_len, len + 40);
		assert_int_equal(c.src_qp, r.qp[0].qpn);
		assert_int_equal(c.slid, 1);
		rig_check(&r, 1, 4096 + 40, len, len);
	}
	rig_down(&r);
}

/* Only an ACTIVE port carries data, even to itself. */
static void test_port_down(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true });
	rig_write(&r, 0, 1, 0, 0, 100);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	host_cable(r.h[0], 0, false);
	rig_run(&r);
	rig_write(&r, 0, 2, 0, 0, 100);
	rig_time(&r, 1000);
	wc(&r.scq[0], 2, WC_RETRY_EXC);
	assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_ERR);
	rig_down(&r);
}

/* The port is down and up again during a message; retries complete it. */
static void test_port_bounce(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	rig_fill(&r, 0, 0, 1000000, 4);
	rig_write(&r, 0, 1, 0, 0, 1000000);
	for (unsigned int i = 0; i < 3; i++)
		host_step(r.h, 2);
	no_wc(&r.scq[0]);
	host_cable(r.h[0], 0, false);
	rig_time(&r, 20);
	host_cable(r.h[0], 0, true);
	rig_run(&r);
	host_port_set(r.h[0], 0, 1, 4);
	host_port_set(r.h[1], 0, 2, 4);
	rig_time(&r, 1000);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_check(&r, 1, 0, 1000000, 4);
	rig_down(&r);
}

/* A QP whose peer is at another port ignores packets of its own port, whatever they claim. */
static void test_stranger(void **state)
{
	struct host_qp x;
	struct rig r;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		struct host_qp_init in = {
			.type = k ? OHCA_QPT_UC : OHCA_QPT_RC, .log_sq = 4, .log_rq = 4,
		};

		rig_up(&r, (struct rig_opt){ .type = in.type });
		in.scq = in.rcq = &r.scq[0];
		assert_int_equal(host_qp_create(r.h[0], &x, &in), 0);
		host_qp_connect(&x, 0, 1, r.qp[0].qpn, 3, 0, 0);
		rig_fill(&r, 0, 0, 100, 1);
		w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);
		wqe_raddr(&w, r.mr[0].iova + 4096, r.mr[0].key);
		wqe_sge(&w, r.mr[0].iova, 100, r.mr[0].key);
		wqe_post(&x, &w);
		rig_time(&r, 3000);
		wc(&r.scq[0], 1, k ? WC_SUCCESS : WC_RETRY_EXC);
		assert_int_equal(rig_get64(&r, 0, 4096), 0);
		assert_true(ohca_counter(r.h[0]->e, OHCA_CNT_RX_BAD_QP) > 0);
		/* the true peer is not affected */
		rig_fill(&r, 1, 0, 100, 2);
		rig_write(&r, 1, 2, 0, 4096, 100);
		rig_run(&r);
		wc(&r.scq[1], 2, WC_SUCCESS);
		rig_check(&r, 0, 4096, 100, 2);
		host_qp_destroy(&x);
		rig_down(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rc),
		cmocka_unit_test(test_uc),
		cmocka_unit_test(test_both),
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_ud),
		cmocka_unit_test(test_port_down),
		cmocka_unit_test(test_port_bounce),
		cmocka_unit_test(test_stranger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
