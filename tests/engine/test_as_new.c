/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * After a reset a device has the state of a new one, and after the end of an object the state
 * before it, whatever was outstanding: page faults, queues without credits, timers, doorbells that
 * were not served.
 */
#include "as_new.h"
#include "odp_rig.h"

/** struct busy - a machine whose queues are connected to each other */
struct busy {
	struct host *h;
	struct host_eq faults;
	struct host_cq cq, late;
	struct host_srq tags;
	struct host_qp qp[2], ud, slow;
	struct host_mr mr;
	uint32_t odp;		/* key of a region at the addresses of @mr that has no pages */
};

static void mcast(struct host *h, const struct host_qp *qp)
{
	struct ohca_hw_aqe c = HOST_AQE(mcast, .qp = qp->handle, .mgid = { 0xff, 0x12, 0, 7 });

	assert_int_equal(host_cmd(h, OHCA_CMD_ATTACH_MCAST, &c, NULL), 0);
}

static void objects(struct busy *b)
{
	struct host *h = b->h;
	struct host_qp_init in = { .scq = &b->cq, .rcq = &b->cq };
	struct ohca_cmd_reg_mr reg;
	struct ohca_hw_aqe c;

	host_start(h);
	host_settle(&h, 1);
	host_port_set(h, 0, 1, 4);
	host_eq_create(h, &b->faults, 8, OHCA_EQ_FAULT, 1);
	host_cq_create(h, &b->cq, 6, 0);
	host_cq_create(h, &b->late, 6, 0);
	h->scatter = true;
	host_mr_create(h, &b->mr, 16 * PAGE, h->pdn, ALL);
	reg = (struct ohca_cmd_reg_mr){ .pl.page_shift = 12, .iova = b->mr.iova,
					.length = 16 * PAGE, .pdn = h->pdn, .access = ALL,
					.type = OHCA_MR_ODP };
	assert_int_equal(odp_reg(h, &reg, &b->odp), 0);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(host_qp_create(h, &b->qp[i], &in), 0);
	for (unsigned int i = 0; i < 2; i++)
		host_qp_connect(&b->qp[i], 0, 1, b->qp[1 - i].qpn, 1, 0, 0);
	assert_int_equal(host_tm_srq_create(h, &b->tags, 2, h->pdn, 16, 2, &b->cq), 0);
	in.type = OHCA_QPT_UD;
	in.scq = &b->late;
	assert_int_equal(host_qp_create(h, &b->ud, &in), 0);
	host_qp_datagram(&b->ud, 0, RIG_QKEY);
	mcast(h, &b->ud);
	in.type = OHCA_QPT_RC;
	assert_int_equal(host_qp_create(h, &b->slow, &in), 0);
	h->static_rate = 2;
	host_qp_connect(&b->slow, 0, 7, 77, 1, 0, 0);
	c = HOST_AQE(alloc_dm, .length = 64);
	assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_DM, &c, NULL), 0);
	c = (struct ohca_hw_aqe){ .hdr = { 0 } };
	assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_COUNTERS, &c, NULL), 0);
	assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_XRCD, &c, NULL), 0);
	c = HOST_AQE(modify_cq, .cqn = b->late.cqn, .count = 100, .period_us = 60000);
	assert_int_equal(host_cmd(h, OHCA_CMD_MODIFY_CQ, &c, NULL), 0);
}

/* Posts a WRITE of 64 bytes with keys of the requester and of the responder. */
static void write_by(struct busy *b, struct host_qp *qp, uint32_t lkey, uint32_t rkey)
{
	struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);

	wqe_raddr(&w, b->mr.iova, rkey);
	wqe_sge(&w, b->mr.iova + 4 * PAGE, 64, lkey);
	wqe_post(qp, &w);
}

/* Leaves every part of the engine with outstanding work. */
static void work(struct busy *b)
{
	struct wqe w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 3);
	struct host *h = b->h;
	unsigned int i;

	/* pages, of a requester and of a responder; the end of a CQ's moderation */
	write_by(b, &b->qp[0], b->odp, b->mr.key);
	write_by(b, &b->qp[1], b->mr.key, b->odp);
	host_cq_arm(&b->late, false);
	wqe_av(&w, 1, b->ud.qpn, RIG_QKEY);
	wqe_sge(&w, b->mr.iova, 64, b->mr.key);
	wqe_post(&b->ud, &w);
	host_settle(&h, 1);
	assert_int_equal(h->e->num_faults, 2);
	assert_int_equal(h->e->mod.num, 1);
	/* a static rate, a timer; then credits, for data and for a reply of the agents */
	write_by(b, &b->slow, b->mr.key, b->mr.key);
	write_by(b, &b->slow, b->mr.key, b->mr.key);
	for (i = 0; i < 4; i++)
		host_step(&h, 1);
	h->port[0].credits = 0;
	*h->now += 1000000;
	for (i = 0; i < 4; i++)
		host_step(&h, 1);
	write_by(b, &b->slow, b->mr.key, b->mr.key);
	for (i = 0; i < 4; i++)
		host_step(&h, 1);
	assert_true(h->e->sched->refused && h->e->sched->heap_num);
	/* doorbells, and a command that has not begun */
	write_by(b, &b->qp[0], b->mr.key, b->mr.key);
	host_cq_arm(&b->cq, false);
	ohca_doorbell(h->e, 0, OHCA_UAR_SRQ, b->tags.srqn, 8);
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, h->aq_pi + 1, 4);
}

static void test_reset(void **state)
{
	struct host *h = host_new(1, 0x0002c90000000100ull);
	static struct as_new was;
	static struct busy b;

	(void)state;
	memset(&b, 0, sizeof(b));
	b.h = h;
	host_cable(h, 0, true);
	host_settle(&h, 1);
	as_new(&was, h->e);
	for (unsigned int i = 0; i < 2; i++) {
		objects(&b);
		work(&b);
		ohca_reset(h->e);
		assert_int_equal(h->e->mem_used, 0);
		assert_int_equal(h->e->aq_ci, 0);
		/* none of it appears again, and the second time is the same */
		assert_false(ohca_poll(h->e, 64));
		h->port[0].credits = 64;
		host_settle(&h, 1);
		as_new_check(&was, h->e);
		h->static_rate = 0;
		h->scatter = false;
		host_buf_free(&b.cq.buf);
		host_buf_free(&b.late.buf);
		host_buf_free(&b.tags.buf);
		host_buf_free(&b.mr.buf);
		for (unsigned int k = 0; k < 2; k++)
			host_buf_free(&b.qp[k].buf);
		host_buf_free(&b.ud.buf);
		host_buf_free(&b.slow.buf);
	}
	host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
