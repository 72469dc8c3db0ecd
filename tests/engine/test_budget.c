/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory that a guest can make the device use: bounded, refused with a clear error, freed. */
#include "engine/base/le.h"
#include "engine/base/state.h"
#include "engine/transport/pool.h"
#include "engine/transport/responder.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "rig.h"

/* Sets the budget so that @bytes of it are left. */
static void leave(struct host *h, uint64_t bytes)
{
	h->e->mem_max = h->e->mem_used + bytes;
}

static uint64_t used(struct host *h)
{
	assert_int_equal(host_counter(h, OHCA_CNT_MEMORY), h->e->mem_used);
	assert_true(h->e->mem_used <= h->e->mem_max);
	return h->e->mem_used;
}

/* Makes objects of one kind until there is no memory. Return: their number. */
static unsigned int make(struct host *h, uint8_t opcode, struct ohca_hw_aqe *c, uint32_t *handle,
			 unsigned int max)
{
	struct ohca_hw_acqe r;
	unsigned int n;

	for (n = 0; n < max; n++) {
		int rc = host_cmd(h, opcode, c, &r);

		if (rc) {
			assert_int_equal(rc, OHCA_ADMIN_NO_RESOURCE);
			break;
		}
		handle[n] = ohca_le32(r.handle.handle);
		used(h);
	}
	return n;
}

/* Each kind of object stops at the budget with a clear error, and all of its memory is freed. */
static void test_objects(void **state)
{
	enum { MAX = 4000 };
	static uint32_t handle[MAX];
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .mtu = 1, .scatter = true });
	{
		struct host *h = r.h[0];
		struct host_buf buf;
		struct {
			uint8_t make, end;
			struct ohca_hw_aqe c;
		} k[9] = {
			{ OHCA_CMD_ALLOC_PD, OHCA_CMD_DEALLOC_PD, HOST_AQE(alloc_pd, .uar = 0) },
			{ OHCA_CMD_ALLOC_XRCD, OHCA_CMD_DEALLOC_XRCD, { .hdr = { 0 } } },
			{ OHCA_CMD_ALLOC_COUNTERS, OHCA_CMD_FREE_COUNTERS, { .hdr = { 0 } } },
		};
		unsigned int n = 3;

		host_buf_alloc(h, &buf, 64 * 4096);
		k[n].make = OHCA_CMD_CREATE_CQ;
		k[n].end = OHCA_CMD_DESTROY_CQ;
		k[n++].c = HOST_AQE(create_cq, .eqn = h->comp.eqn, .log_size = 8, .pl = buf.pl);
		k[n].make = OHCA_CMD_CREATE_SRQ;
		k[n].end = OHCA_CMD_DESTROY_SRQ;
		k[n++].c = HOST_AQE(create_srq, .pdn = h->pdn, .log_size = 4, .log_stride = 7,
						.pl = buf.pl);
		k[n].make = OHCA_CMD_CREATE_QP;
		k[n].end = OHCA_CMD_DESTROY_QP;
		k[n++].c = HOST_AQE(create_qp, .pdn = h->pdn, .send_cqn = r.scq[0].cqn,
					       .recv_cqn = r.rcq[0].cqn, .type = OHCA_QPT_RC,
					       .log_sq = 4, .log_rq = 4, .log_rq_stride = 7,
					       .pl = buf.pl);
		k[n].make = OHCA_CMD_REG_MR;
		k[n].end = OHCA_CMD_DEREG_MR;
		k[n++].c = HOST_AQE(reg_mr, .pdn = h->pdn, .type = OHCA_MR_USER,
					    .length = 64 * 4096, .pl = buf.pl);
		k[n].make = OHCA_CMD_REG_MR;
		k[n].end = OHCA_CMD_DEREG_MR;
		k[n++].c = HOST_AQE(reg_mr, .pdn = h->pdn, .type = OHCA_MR_FRMR, .length = 256);
		for (unsigned int i = 0; i < n; i++) {
			uint64_t before, refused;
			unsigned int num;

			/* what only a reset frees (the heap of timers) is there */
			num = make(h, k[i].make, &k[i].c, handle, 40);
			assert_int_equal(num, 40);
			while (num--)
				assert_int_equal(host_cmd_handle(h, k[i].end, handle[num], 0), 0);
			before = used(h);
			refused = host_counter(h, OHCA_CNT_NO_MEMORY);
			leave(h, i < 3 ? 1500 : 20000);
			num = make(h, k[i].make, &k[i].c, handle, MAX);
			assert_true(num > 0 && num < MAX);
			assert_true(host_counter(h, OHCA_CNT_NO_MEMORY) > refused);
			while (num--)
				assert_int_equal(host_cmd_handle(h, k[i].end, handle[num], 0), 0);
			assert_int_equal(used(h), before);
			h->e->mem_max = OHCA_MEM_DEFAULT;
		}
		host_buf_free(&buf);
	}
	rig_down(&r);
}

/*
 * An idle QP uses at most 1 KiB of the budget. The memory for a busy one is reserved when it leaves
 * RESET. Without that memory the transition is refused, and the QP stays as it was.
 */
static void test_idle_qp(void **state)
{
	enum { QPS = 64 };
	static struct host_qp qp[QPS];
	const uint32_t mask = OHCA_ATTR_STATE | OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT |
			      OHCA_ATTR_ACCESS;
	struct host_qp_init in = { .type = OHCA_QPT_RC, .log_sq = 6, .log_rq = 6, .log_stride = 6 };
	struct ohca_hw_qp_attr a = { .state = OHCA_QPS_INIT, .port = 1 };
	uint64_t before, idle, busy;
	struct host *h;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true });
	h = r.h[0];
	in.scq = &r.scq[0];
	in.rcq = &r.rcq[0];
	/* the heaps of timers stay */
	for (unsigned int i = 0; i < QPS; i++)
		assert_int_equal(host_qp_create(h, &qp[i], &in), 0);
	for (unsigned int i = 0; i < QPS; i++)
		host_qp_destroy(&qp[i]);
	before = used(h);
	for (unsigned int i = 0; i < QPS; i++)
		assert_int_equal(host_qp_create(h, &qp[i], &in), 0);
	idle = used(h);
	assert_true(idle - before <= QPS * 1024);
	leave(h, 0);
	assert_int_equal(host_qp_modify(&qp[0], mask, &a), OHCA_ADMIN_NO_RESOURCE);
	assert_int_equal(rig_state(&qp[0]), OHCA_QPS_RESET);
	assert_int_equal(used(h), idle);
	h->e->mem_max = OHCA_MEM_DEFAULT;
	assert_int_equal(host_qp_modify(&qp[0], mask, &a), 0);
	busy = used(h) - idle;
	assert_true(busy >= ohca_win_bytes(OHCA_MIN_LOG_WIN));
	/* once, for the life of the QP: one that was reset starts again */
	rig_modify(&qp[0], OHCA_QPS_ERR);
	assert_int_equal(used(h), idle + busy);
	rig_modify(&qp[0], OHCA_QPS_RESET);
	assert_int_equal(used(h), idle + busy);
	leave(h, 0);
	assert_int_equal(host_qp_modify(&qp[0], mask, &a), 0);
	h->e->mem_max = OHCA_MEM_DEFAULT;
	assert_int_equal(used(h), idle + busy);
	for (unsigned int i = 0; i < QPS; i++)
		host_qp_destroy(&qp[i]);
	assert_int_equal(used(h), before);
	rig_down(&r);
}

/* A fast-register MR frees its reservation once, with a list of pages and without. */
static void test_frmr(void **state)
{
	struct ohca_hw_aqe c = { 0 };
	struct ohca_hw_acqe rsp;
	struct ohca_hw_wqe_reg reg;
	struct host_buf b;
	uint64_t before;
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ .privileged = true, .scatter = true });
	host_buf_alloc(r.h[1], &b, 16 * HOST_PAGE);
	c = HOST_AQE(reg_mr, .pdn = r.h[1]->pdn, .type = OHCA_MR_FRMR, .length = 64);
	before = used(r.h[1]);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(host_cmd(r.h[1], OHCA_CMD_REG_MR, &c, &rsp), 0);
		reg = (struct ohca_hw_wqe_reg){
			.key = rsp.handle.handle, .iova = 0x1000, .length = 16 * HOST_PAGE,
			.pl = b.pl, .access = OHCA_ACCESS_LOCAL_WRITE,
		};
		if (i % 2) {
			uint64_t made = used(r.h[1]);

			w = wqe_new(OHCA_OP_REG_MR, OHCA_WQE_SIGNALED, i);
			memcpy(w.b + OHCA_SEG_SIZE, &reg, sizeof(reg));
			w.nseg = 4;
			wqe_post(&r.qp[1], &w);
			rig_run(&r);
			wc(&r.scq[1], i, WC_SUCCESS);
			assert_int_equal(used(r.h[1]), made);
		}
		assert_int_equal(host_cmd_handle(r.h[1], OHCA_CMD_DEREG_MR, reg.key, 0), 0);
		assert_int_equal(used(r.h[1]), before);
	}
	host_buf_free(&b);
	rig_down(&r);
}

#define QPS	40u
#define DEEP	8u		/* log2 of BBs: the largest window */

/*
 * The budget is used up when traffic begins: all queue pairs of a device send, read and receive
 * with small windows, and early ones get no more than the others.
 */
static void test_busy(void **state)
{
	static struct host_qp a[QPS], b[QPS];
	struct ohca_hw_cqe c;
	struct host_cq cq[2];
	struct rig r;
	uint64_t before;
	unsigned int done = 0;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	for (unsigned int i = 0; i < 2; i++)
		host_cq_create(r.h[i], &cq[i], 12, 0);
	for (unsigned int i = 0; i < QPS; i++) {
		struct host_qp_init in = { .log_sq = DEEP };

		in.scq = in.rcq = &cq[0];
		assert_int_equal(host_qp_create(r.h[0], &a[i], &in), 0);
		in.scq = in.rcq = &cq[1];
		assert_int_equal(host_qp_create(r.h[1], &b[i], &in), 0);
		host_qp_connect(&a[i], 0, 2, b[i].qpn, 1, 0, 0);
		host_qp_connect(&b[i], 0, 1, a[i].qpn, 1, 0, 0);
	}
	for (unsigned int i = 0; i < 2; i++)
		leave(r.h[i], 0);
	before = used(r.h[0]);
	rig_fill(&r, 0, 0, 4096, 5);
	rig_fill(&r, 1, 8192, 4096, 6);
	for (unsigned int i = 0; i < QPS; i++) {
		for (unsigned int n = 0; n < 30; n++) {
			struct wqe w = wqe_new(n & 1 ? OHCA_OP_RDMA_READ : OHCA_OP_RDMA_WRITE,
					       OHCA_WQE_SIGNALED, n);

			wqe_raddr(&w, r.mr[1].iova + (n & 1 ? 8192 : 0), r.mr[1].key);
			wqe_sge(&w, r.mr[0].iova + (n & 1 ? 8192 : 0), 700, r.mr[0].key);
			wqe_post(&a[i], &w);
		}
	}
	host_step(r.h, 2);
	for (unsigned int i = 0; i < QPS; i++)
		assert_true(!a[i].h->e->qp[a[i].handle]->xp->req.win ||
			    a[i].h->e->qp[a[i].handle]->xp->req.win->log == OHCA_MIN_LOG_WIN);
	assert_int_equal(used(r.h[0]), before);
	rig_time(&r, 100);
	for (; host_cq_poll(&cq[0], &c); done++)
		assert_int_equal(c.status, WC_SUCCESS);
	assert_int_equal(done, QPS * 30);
	rig_check(&r, 1, 0, 700, 5);
	rig_check(&r, 0, 8192, 700, 6);
	assert_true(host_counter(r.h[0], OHCA_CNT_NO_MEMORY) > 0);
	/* with memory the windows are large again, and all of it is freed */
	leave(r.h[0], 1 << 20);
	before = used(r.h[0]);
	for (unsigned int n = 0; n < 30; n++) {
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, n);

		wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
		wqe_sge(&w, r.mr[0].iova, 700, r.mr[0].key);
		wqe_post(&a[0], &w);
	}
	ohca_poll(r.h[0]->e, 4);
	assert_int_equal(used(r.h[0]) - before, ohca_win_bytes(DEEP) -
			 ohca_win_bytes(OHCA_MIN_LOG_WIN));
	rig_time(&r, 100);
	assert_int_equal(used(r.h[0]), before);
	for (unsigned int i = 0; i < QPS; i++) {
		host_qp_destroy(&a[i]);
		host_qp_destroy(&b[i]);
	}
	for (unsigned int i = 0; i < 2; i++)
		host_cq_destroy(&cq[i]);
	rig_down(&r);
}

/*
 * Responder resources are reserved by commands, too: each part may be refused, and nothing is kept.
 */
static void test_modify(void **state)
{
	unsigned int refused = 0;
	struct host_qp qp;
	struct rig r;
	uint64_t idle;
	int status;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .mtu = 1 });
	assert_int_equal(host_qp_create(r.h[0], &qp, &(struct host_qp_init){
		.scq = &r.scq[0], .rcq = &r.rcq[0] }), 0);
	leave(r.h[0], 100);
	assert_int_equal(host_qp_try_connect(&qp, 0, 1, 77, 1, 0, 0), OHCA_ADMIN_NO_RESOURCE);
	assert_int_equal(rig_state(&qp), OHCA_QPS_RESET);
	r.h[0]->e->mem_max = OHCA_MEM_DEFAULT;
	assert_int_equal(host_qp_try_connect(&qp, 0, 1, 77, 1, 0, 0), 0);
	rig_modify(&qp, OHCA_QPS_RESET);
	/* the reservation for a busy QP stays: RTR is refused, not INIT */
	idle = used(r.h[0]);
	for (uint64_t left = 100;; left += sizeof(struct ohca_atomic_res)) {
		leave(r.h[0], left);
		status = host_qp_try_connect(&qp, 0, 1, 77, 1, 0, 0);
		r.h[0]->e->mem_max = OHCA_MEM_DEFAULT;
		if (!status)
			break;
		refused++;
		assert_int_equal(status, OHCA_ADMIN_NO_RESOURCE);
		assert_int_equal(rig_state(&qp), OHCA_QPS_ERR);
		assert_int_equal(used(r.h[0]), idle);
		rig_modify(&qp, OHCA_QPS_RESET);
	}
	assert_in_range(refused, 2, 1000);
	host_qp_destroy(&qp);
	rig_down(&r);
}

/* A reset frees everything, including windows in use. */
static void test_reset(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1, .srq = true });
	r.h[0]->port[0].credits = 0;
	rig_write(&r, 0, 1, 0, 0, 100);
	host_step(r.h, 2);
	assert_true(used(r.h[0]) > 0);
	ohca_reset(r.h[0]->e);
	assert_int_equal(used(r.h[0]), 0);
	for (unsigned int i = 0; i < 2; i++) {
		host_buf_free(&r.qp[i].buf);
		host_buf_free(&r.scq[i].buf);
		host_buf_free(&r.rcq[i].buf);
		host_buf_free(&r.mr[i].buf);
		host_buf_free(&r.srq[i].buf);
	}
	host_free(r.h[0]);
	host_free(r.h[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_objects),
		cmocka_unit_test(test_idle_qp),
		cmocka_unit_test(test_frmr),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_modify),
		cmocka_unit_test(test_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
