/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands whose work is as large as the guest chooses: others wait for a step only, and the
 * command is executed nevertheless. The test counts bytes of guest memory and measures no time.
 */
#include "engine/base/guestmem.h"
#include "engine/base/le.h"
#include "engine/base/work.h"
#include "engine/object/cq.h"
#include "engine/object/mr.h"
#include "rig.h"

#define MEM	(256u << 20)
#define LOG	15u		/* 2 MiB of CQEs */
#define NUM	8u		/* as many as one poll executes */
#define STEP	(4u * OHCA_CMD_WORK)

static struct host *machine(void)
{
	struct ohca_cfg cfg = {
		.node_guid = 0x10, .num_ports = 1, .vl_cap = 1, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .num_vectors = HOST_VECTORS, .num_uars = HOST_UARS,
	};
	struct host *h = host_new_cfg(&cfg, MEM);

	host_start(h);
	return h;
}

/* Puts commands into the queue and rings once. */
static void queue(struct host *h, struct ohca_hw_aqe *c, unsigned int n, uint8_t opcode)
{
	for (unsigned int i = 0; i < n; i++, h->aq_pi++) {
		c[i].hdr.opcode = opcode;
		c[i].hdr.cookie = ohca_to_le32(h->aq_pi);
		memcpy((uint8_t *)host_ptr(h, h->aq) + h->aq_pi % 16 * 64, &c[i], sizeof(c[i]));
	}
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, h->aq_pi, 4);
}

/* Polls until nothing is left. Return: polls; *@most: bytes that the largest of them moved */
static unsigned int steps(struct host *h, uint64_t *most)
{
	unsigned int n = 0;
	bool more = true;

	for (*most = 0; more; n++) {
		uint64_t before = h->dma_bytes;

		assert_true(n < 100000);
		more = host_poll(h, 64);
		if (h->dma_bytes - before > *most)
			*most = h->dma_bytes - before;
	}
	return n;
}

static void fill(struct host *h, struct host_cq *cq, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct ohca_hw_cqe c = { .wr_id = ohca_to_le64(i) };

		ohca_dma_enter(h->e);
		assert_int_equal(ohca_cq_push(h->e, h->e->cq[cq->cqn], &c, false), 0);
		ohca_dma_exit(h->e);
	}
}

/* Eight full CQs are resized at once, while more CQEs arrive. */
static void test_cqs(void **state)
{
	struct ohca_hw_aqe c[NUM];
	struct host *h = machine();
	struct host_buf old[NUM];
	struct host_cq cq[NUM];
	uint32_t got[NUM] = { 0 };
	unsigned int polls = 0;
	uint64_t most = 0;
	bool more = true;

	(void)state;
	for (unsigned int i = 0; i < NUM; i++) {
		host_cq_create(h, &cq[i], LOG, 0);
		fill(h, &cq[i], (1u << LOG) - 64);
		old[i] = cq[i].buf;
		host_buf_alloc(h, &cq[i].buf, ohca_cq_buf_size(LOG + 1));
		c[i] = HOST_AQE(resize_cq, .cqn = cq[i].cqn, .log_size = LOG + 1,
					   .pl = cq[i].buf.pl);
	}
	queue(h, c, NUM, OHCA_CMD_RESIZE_CQ);
	for (; more; polls++) {
		uint64_t before = h->dma_bytes;

		more = host_poll(h, 64);
		most = h->dma_bytes - before > most ? h->dma_bytes - before : most;
		if (polls < 16)
			fill(h, &cq[NUM - 1], 2);
	}
	print_message("%u polls, of which none moves more than %u KiB\n", polls,
		      (unsigned int)(most >> 10));
	assert_true(most <= STEP && polls > NUM);
	assert_int_equal(host_counter(h, OHCA_CNT_CMDS_BAD), 0);
	for (unsigned int i = 0; i < NUM; i++) {
		struct ohca_hw_cqe e;

		cq[i].log = LOG + 1;
		fill(h, &cq[i], 1);
		for (; host_cq_poll(&cq[i], &e); got[i]++)
			assert_true(ohca_le64(e.wr_id) == got[i] ||
				    got[i] >= (1u << LOG) - 64);
		assert_int_equal(got[i], (1u << LOG) - 64 + 1 + (i == NUM - 1 ? 32 : 0));
		host_buf_free(&old[i]);
		host_cq_destroy(&cq[i]);
	}
	host_free(h);
}

/* A CQ that overflows during a step of its resize ends as without a resize. */
static void test_cq_fails(void **state)
{
	struct ohca_hw_aqe c;
	struct host *h = machine();
	struct host_buf buf;
	struct host_cq cq;
	struct ohca_hw_cqe e;
	uint64_t most;
	uint32_t n = 0;

	(void)state;
	host_cq_create(h, &cq, LOG, 0);
	fill(h, &cq, (1u << (LOG - 1)) - 1);
	host_buf_alloc(h, &buf, ohca_cq_buf_size(LOG - 1));
	/* fits at first, and no longer later */
	c = HOST_AQE(resize_cq, .cqn = cq.cqn, .log_size = LOG - 1, .pl = buf.pl);
	queue(h, &c, 1, OHCA_CMD_RESIZE_CQ);
	assert_true(host_poll(h, 64));
	assert_true(h->e->job.begun);
	fill(h, &cq, 2);
	steps(h, &most);
	assert_int_equal(host_counter(h, OHCA_CNT_CMDS_BAD), 1);
	/* memory that is removed in the middle */
	c = HOST_AQE(resize_cq, .cqn = cq.cqn, .log_size = LOG, .pl = buf.pl);
	c.resize_cq.pl.npages = 1 << 10;
	c.resize_cq.pl.root = HOST_BASE + MEM - (64u << 10);
	queue(h, &c, 1, OHCA_CMD_RESIZE_CQ);
	steps(h, &most);
	assert_int_equal(host_counter(h, OHCA_CNT_CMDS_BAD), 2);
	assert_int_equal(h->e->page_entries, 0);
	assert_null(h->e->job.buf.page);
	while (host_cq_poll(&cq, &e))
		n++;
	assert_int_equal(n, (1u << (LOG - 1)) + 1);
	host_buf_free(&buf);
	host_cq_destroy(&cq);
	/* a reset in the middle leaves nothing */
	host_cq_create(h, &cq, LOG, 0);
	fill(h, &cq, 1000);
	h->scatter = true;
	host_buf_alloc(h, &buf, ohca_cq_buf_size(LOG));
	c = HOST_AQE(resize_cq, .cqn = cq.cqn, .log_size = LOG, .pl = buf.pl);
	queue(h, &c, 1, OHCA_CMD_RESIZE_CQ);
	assert_true(host_poll(h, 64));
	assert_true(h->e->job.loaded);
	ohca_reset(h->e);
	assert_false(h->e->job.loaded);
	assert_int_equal(h->e->page_entries, 0);
	host_buf_free(&buf);
	host_buf_free(&cq.buf);
	host_free(h);
}

/* Full receive and send queues. */
static void test_queues(void **state)
{
	struct ohca_hw_aqe c[2];
	struct host *h = machine();
	struct host_buf old[2];
	struct host_srq srq;
	struct host_cq cq;
	struct host_qp qp;
	uint64_t most;

	(void)state;
	host_cq_create(h, &cq, 4, 0);
	host_srq_create(h, &srq, 15, h->pdn, 0, 0);
	for (uint32_t i = 0; i < 1u << 15; i++)
		host_srq_post(&srq, i, NULL, 0);
	assert_int_equal(host_qp_create(h, &qp, &(struct host_qp_init){
		.type = OHCA_QPT_UC, .log_sq = 15, .log_rq = 13, .scq = &cq, .rcq = &cq }), 0);
	host_qp_connect(&qp, 0, 7, 9, 1, 0, 0);
	steps(h, &most);
	for (uint32_t i = 0; i < 1u << 13; i++)
		host_post_recv(&qp, i, NULL, 0);
	/* posted without a doorbell: these WQEs are in the queue, and stay there */
	((struct ohca_hw_db *)host_buf_ptr(h, &qp.buf, 0))->sq_pi = 1u << 15;
	old[0] = srq.buf;
	old[1] = qp.buf;
	host_buf_alloc(h, &srq.buf, ohca_srq_buf_size(16, srq.log_stride));
	host_buf_alloc(h, &qp.buf, ohca_qp_buf_size(true, 14, qp.log_stride, 16));
	c[0] = HOST_AQE(resize_srq, .srqn = srq.srqn, .log_size = 16, .pl = srq.buf.pl);
	c[1] = HOST_AQE(resize_qp, .handle = qp.handle, .log_sq = 16, .log_rq = 14,
				   .pl = qp.buf.pl);
	queue(h, &c[0], 1, OHCA_CMD_RESIZE_SRQ);
	queue(h, &c[1], 1, OHCA_CMD_RESIZE_QP);
	assert_true(steps(h, &most) > 16);
	print_message("no poll moves more than %u KiB\n", (unsigned int)(most >> 10));
	assert_true(most <= STEP);
	assert_int_equal(host_counter(h, OHCA_CNT_CMDS_BAD), 0);
	for (uint32_t i = 0; i < 1u << 15; i += 111) {
		uint64_t id;

		host_buf_read(h, &srq.buf, OHCA_RQ_RING_OFFSET + ((uint64_t)i << srq.log_stride),
			      &id, sizeof(id));
		assert_int_equal(id, i);
	}
	for (uint32_t i = 0; i < 1u << 13; i += 111) {
		uint64_t id;

		host_buf_read(h, &qp.buf, OHCA_RQ_RING_OFFSET + ((uint64_t)i << qp.log_stride),
			      &id, sizeof(id));
		assert_int_equal(id, i);
	}
	host_buf_free(&old[0]);
	host_buf_free(&old[1]);
	host_qp_destroy(&qp);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, srq.srqn, 0), 0);
	host_buf_free(&srq.buf);
	host_cq_destroy(&cq);
	host_free(h);
}

/*
 * The table of pages of a region with on-demand paging. Each poll obeys the bound of host_poll().
 */
static void test_odp(void **state)
{
	enum { NODES = 600, APART = 512 * 4096 };
	struct host *h = machine();
	uint64_t most, used;
	struct ohca_hw_acqe rsp;
	struct ohca_hw_aqe c;
	struct host_eq eq;
	uint32_t entries;
	uint64_t *page;

	(void)state;
	host_eq_create(h, &eq, 8, OHCA_EQ_FAULT, 0);
	used = h->e->mem_used;
	entries = h->e->page_entries;
	page = host_ptr(h, h->mbox[0]);
	*page = (HOST_BASE + 4096) | OHCA_ODP_READ;
	for (unsigned int dereg = 0; dereg < 2; dereg++) {
		c = HOST_AQE(reg_mr, .pl.page_shift = 12, .length = (uint64_t)NODES * APART,
			     .pdn = h->pdn, .type = OHCA_MR_ODP);
		assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), 0);
		for (unsigned int i = 0; i < NODES; i++) {
			c = HOST_AQE(update_mr, .first = 512 * i, .npages = 1,
				     .key = rsp.handle.handle, .addr = h->mbox[0]);
			assert_int_equal(host_cmd(h, OHCA_CMD_UPDATE_MR_PAGES, &c, NULL), 0);
		}
		assert_true(h->e->page_entries - entries > NODES * 512);
		if (dereg)
			c = HOST_AQE(handle, .handle = rsp.handle.handle);
		else
			c = HOST_AQE(update_mr, .npages = (uint64_t)NODES * 512,
				     .key = rsp.handle.handle,
				     .flags = OHCA_UPDATE_MR_INVALIDATE);
		queue(h, &c, 1, dereg ? OHCA_CMD_DEREG_MR : OHCA_CMD_UPDATE_MR_PAGES);
		assert_true(host_poll(h, 64));
		/* some of it is freed, and the key is invalid after the first step */
		assert_in_range(h->e->page_entries - entries, 512, NODES * 512);
		assert_int_equal(ohca_mr_get(h->e, rsp.handle.handle)->valid, !dereg);
		assert_in_range(steps(h, &most), NODES * 4096 / OHCA_CMD_WORK - 2,
				NODES * 4096 / OHCA_CMD_WORK + 4);
		assert_int_equal(h->e->page_entries, entries);
		assert_int_equal(host_counter(h, OHCA_CNT_CMDS_BAD), 0);
		if (!dereg)
			assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEREG_MR, rsp.handle.handle,
							 0), 0);
		assert_int_equal(h->e->mem_used, used);
		assert_null(ohca_mr_get(h->e, rsp.handle.handle));
	}
	host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cqs),
		cmocka_unit_test(test_cq_fails),
		cmocka_unit_test(test_queues),
		cmocka_unit_test(test_odp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
