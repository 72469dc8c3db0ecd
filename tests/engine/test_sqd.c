/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SQD: changed attributes apply to outstanding and to later requests (11.2.5.2). */
#include "rig.h"

static void change(struct rig *r, unsigned int i, uint32_t mask, struct ohca_hw_qp_attr a)
{
	a.state = OHCA_QPS_SQD;
	assert_int_equal(host_qp_modify(&r->qp[i], mask, &a), 0);
}

/* Connects two QPs; @attr changes the attributes of the first one. */
static void up(struct rig *r, struct rig_opt opt, void (*attr)(struct ohca_hw_qp_attr *a))
{
	opt.cold = true;
	rig_up(r, opt);
	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_hw_qp_attr a = rig_attr(r, i);

		if (i == 0 && attr)
			attr(&a);
		rig_connect(r, i, a);
	}
}

/* ---- retries --------------------------------------------------------------------------- */

static void no_retries(struct ohca_hw_qp_attr *a)
{
	a->retry_cnt = 0;
	a->rnr_retry = 0;
}

static void all_retries(struct ohca_hw_qp_attr *a)
{
	a->retry_cnt = 7;
	a->rnr_retry = 7;
}

static void test_rnr_retry(void **state)
{
	struct rig r;

	(void)state;
	up(&r, (struct rig_opt){ 0 }, no_retries);
	rig_modify(&r.qp[0], OHCA_QPS_SQD);
	change(&r, 0, OHCA_ATTR_RNR_RETRY, (struct ohca_hw_qp_attr){ .rnr_retry = 7 });
	rig_modify(&r.qp[0], OHCA_QPS_RTS);
	rig_send(&r, 0, 1, 0, 8);
	rig_time(&r, 5);
	rig_recv(&r, 1, 7, 0, 8);
	rig_time(&r, 100);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_down(&r);

	up(&r, (struct rig_opt){ 0 }, all_retries);
	rig_modify(&r.qp[0], OHCA_QPS_SQD);
	change(&r, 0, OHCA_ATTR_RNR_RETRY, (struct ohca_hw_qp_attr){ .rnr_retry = 0 });
	rig_modify(&r.qp[0], OHCA_QPS_RTS);
	rig_send(&r, 0, 1, 0, 8);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_RNR_RETRY_EXC);
	rig_down(&r);
}

/* Drops the first *@arg packets. */
static enum host_fate lose(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			   uint32_t len)
{
	unsigned int *left = arg;

	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	if (!*left)
		return HOST_DELIVER;
	--*left;
	return HOST_DROP;
}

static void test_retry_cnt(void **state)
{
	for (unsigned int more = 0; more < 2; more++) {
		unsigned int left = more ? 7 : 1;
		struct rig r;

		(void)state;
		up(&r, (struct rig_opt){ 0 }, more ? no_retries : all_retries);
		rig_modify(&r.qp[0], OHCA_QPS_SQD);
		change(&r, 0, OHCA_ATTR_RETRY_CNT,
		       (struct ohca_hw_qp_attr){ .retry_cnt = more ? 7 : 0 });
		rig_modify(&r.qp[0], OHCA_QPS_RTS);
		host_hook_set(r.h[0], 0, lose, &left);
		rig_write(&r, 0, 1, 0, 0, 8);
		rig_time(&r, 1000);
		wc(&r.scq[0], 1, more ? WC_SUCCESS : WC_RETRY_EXC);
		rig_down(&r);
	}
}

/* ---- the timeout of an outstanding request --------------------------------------------- */

static void no_timeout(struct ohca_hw_qp_attr *a)
{
	a->timeout = 0;
}

static void test_timeout(void **state)
{
	unsigned int left;
	struct rig r;

	(void)state;
	/* none, then one: a packet that was lost before is sent again */
	left = 1;
	up(&r, (struct rig_opt){ 0 }, no_timeout);
	host_hook_set(r.h[0], 0, lose, &left);
	rig_write(&r, 0, 1, 0, 0, 8);
	rig_time(&r, 10000);
	no_wc(&r.scq[0]);
	rig_modify(&r.qp[0], OHCA_QPS_SQD);
	change(&r, 0, OHCA_ATTR_TIMEOUT, (struct ohca_hw_qp_attr){ .timeout = 12 });
	rig_time(&r, 1000);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_down(&r);
	/* one, then none: nothing is sent again */
	left = 1;
	up(&r, (struct rig_opt){ 0 }, NULL);
	host_hook_set(r.h[0], 0, lose, &left);
	rig_write(&r, 0, 1, 0, 0, 8);
	rig_run(&r);
	rig_modify(&r.qp[0], OHCA_QPS_SQD);
	change(&r, 0, OHCA_ATTR_TIMEOUT, (struct ohca_hw_qp_attr){ .timeout = 0 });
	rig_time(&r, 10000);
	no_wc(&r.scq[0]);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	rig_down(&r);
	/*
	 * another one while the responder has asked to wait: the QP waits for that time and no
	 * longer
	 */
	up(&r, (struct rig_opt){ 0 }, NULL);
	rig_send(&r, 0, 1, 0, 8);
	rig_run(&r);
	rig_recv(&r, 1, 7, 0, 8);
	rig_modify(&r.qp[0], OHCA_QPS_SQD);
	change(&r, 0, OHCA_ATTR_TIMEOUT, (struct ohca_hw_qp_attr){ .timeout = 20 });
	rig_time(&r, 100);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_down(&r);
}

/* ---- READs ------------------------------------------------------------------------------ */

/* A READ that was fetched before SQD, and is not allowed any more when its turn comes. */
static void test_no_reads(void **state)
{
	struct rig r;

	(void)state;
	up(&r, (struct rig_opt){ 0 }, NULL);
	rig_modify(&r.qp[0], OHCA_QPS_SQD);
	rig_read(&r, 0, 1, 0, 0, 100);
	rig_write(&r, 0, 2, 0, 0, 100);
	rig_run(&r);
	change(&r, 0, OHCA_ATTR_MAX_RD_ATOMIC, (struct ohca_hw_qp_attr){ 0 });
	rig_modify(&r.qp[0], OHCA_QPS_RTS);
	rig_time(&r, 5000);
	assert_int_equal(wc(&r.scq[0], 1, WC_LOC_QP_OP).vendor_err, OHCA_VE_WQE_OPCODE);
	wc(&r.scq[0], 2, WC_WR_FLUSH);
	rig_down(&r);
}

/* Fewer than are outstanding: those complete, and later ones obey the new limit. */
static void test_fewer_reads(void **state)
{
	struct rig r;

	(void)state;
	up(&r, (struct rig_opt){ 0 }, NULL);
	host_hook_set(r.h[1], 0, host_drop, NULL);
	for (uint64_t i = 1; i <= 3; i++)
		rig_read(&r, 0, i, i * 1000, 0, 100);
	rig_run(&r);
	rig_modify(&r.qp[0], OHCA_QPS_SQD);
	change(&r, 0, OHCA_ATTR_MAX_RD_ATOMIC, (struct ohca_hw_qp_attr){ .max_rd_atomic = 1 });
	host_hook_set(r.h[1], 0, NULL, NULL);
	rig_time(&r, 1000);
	rig_modify(&r.qp[0], OHCA_QPS_RTS);
	for (uint64_t i = 4; i <= 6; i++)
		rig_read(&r, 0, i, i * 1000, 0, 100);
	rig_time(&r, 1000);
	for (uint64_t i = 1; i <= 6; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	rig_down(&r);
}

/* ---- the path --------------------------------------------------------------------------- */

/* A QP that waits for credits of one port gets a path from the other port. */
static void test_path(void **state)
{
	struct rig r;

	(void)state;
	up(&r, (struct rig_opt){ .two_ports = true }, NULL);
	r.h[0]->port[0].credits = 0;
	rig_fill(&r, 0, 0, 5000, 1);
	rig_write(&r, 0, 1, 0, 0, 5000);
	rig_run(&r);
	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_hw_qp_attr a = { .port = 2, .av = { .port = 2 } };

		a.av.dlid = (uint16_t)(4 - i);
		rig_modify(&r.qp[i], OHCA_QPS_SQD);
		change(&r, i, OHCA_ATTR_AV | OHCA_ATTR_PORT, a);
	}
	rig_time(&r, 1000);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_check(&r, 1, 0, 5000, 1);
	rig_down(&r);
}

/* ---- draining --------------------------------------------------------------------------- */

struct held {
	uint8_t frame[128];
	uint32_t len;
};

/* Keeps packets that arrive. */
static enum host_fate hold(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			   uint32_t len)
{
	struct held *held = arg;

	(void)from;
	(void)port;
	assert_true(len <= sizeof(held->frame));
	memcpy(held->frame, frame, len);
	held->len = len;
	return HOST_DROP;
}

/*
 * A QP that has sent everything is drained by its last acknowledgement, without a doorbell or a
 * timer.
 */
static void test_drain(void **state)
{
	struct held held = { 0 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	host_hook_set(r.h[1], 0, hold, &held);
	rig_write(&r, 0, 1, 0, 0, 100);
	rig_run(&r);
	change(&r, 0, OHCA_ATTR_STATE | OHCA_ATTR_EN_SQD_NOTIFY,
	       (struct ohca_hw_qp_attr){ .en_sqd_notify = 1 });
	rig_run(&r);
	no_event(r.h[0]);
	assert_true(held.len > 0);
	host_rx(r.h[0], 0, 0, held.frame, held.len, 0);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	event(r.h[0], OHCA_EVENT_SQ_DRAINED, r.qp[0].handle);
	/* a transition that does not ask for the event raises none */
	rig_modify(&r.qp[0], OHCA_QPS_RTS);
	rig_modify(&r.qp[0], OHCA_QPS_SQD);
	rig_run(&r);
	no_event(r.h[0]);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rnr_retry),
		cmocka_unit_test(test_retry_cnt),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_no_reads),
		cmocka_unit_test(test_fewer_reads),
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_drain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
