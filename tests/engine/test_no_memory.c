/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host has no memory, although the budget allows it: each allocation fails in turn. The
 * operation that needs it fails with the right result, nothing leaks, and the next attempt
 * succeeds. Linked with --wrap, so that this file allocates for the engine.
 */
#include <stdlib.h>

#include "as_new.h"
#include "engine/base/work.h"
#include "engine/transport/pool.h"
#include "engine/transport/sq.h"
#include "fill.h"
#include "rig.h"

/** struct memory - allocations of the engine and its host */
static struct {
	unsigned int fail_at;	/* the allocation that fails; 1: the next; 0: none */
	long live;		/* pieces that are not freed */
} memory;

void *__real_malloc(size_t n);
void *__real_calloc(size_t num, size_t n);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t num, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void __wrap_free(void *p);

static bool refused(void)
{
	return memory.fail_at && !--memory.fail_at;
}

static void *given(void *p)
{
	memory.live += p != NULL;
	return p;
}

void *__wrap_malloc(size_t n)
{
	return refused() ? NULL : given(__real_malloc(n));
}

void *__wrap_calloc(size_t num, size_t n)
{
	return refused() ? NULL : given(__real_calloc(num, n));
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return refused() ? NULL : given(__real_aligned_alloc(align, n));
}

void *__wrap_realloc(void *p, size_t n)
{
	void *q;

	if (refused())
		return NULL;
	q = __real_realloc(p, n);
	memory.live += q && !p;
	return q;
}

void __wrap_free(void *p)
{
	memory.live -= p != NULL;
	__real_free(p);
}

/* ---- commands --------------------------------------------------------------------- */

/* A device that cannot be made leaves no allocation. */
static void test_new(void **state)
{
	struct host *h = host_new(2, 0x100);
	ohca_engine *e = NULL;
	long live = memory.live;
	unsigned int n = 0;

	(void)state;
	while (!e) {
		memory.fail_at = ++n;
		e = ohca_new(&h->cfg, &h->e->ops, h);
		assert_true(e || memory.live == live);
	}
	/* as many as it has tables and lists of numbers, and more */
	assert_in_range(n, 20, 100);
	memory.fail_at = 0;
	ohca_free(e);
	assert_int_equal(memory.live, live);
	host_free(h);
}

/**
 * struct kind - a kind of object: how it is made, the least number of its allocations, its numbers
 */
struct kind {
	uint8_t make, end;
	unsigned int least;
	size_t ids;		/* offset in struct ohca_engine; 0: none */
	struct ohca_hw_aqe c;
};

/* The command fails while all numbers are used, and frees everything that the object would have. */
static void no_number(struct host *h, struct kind *k, const struct as_new *was)
{
	struct ohca_ids *ids = (struct ohca_ids *)(void *)((uint8_t *)h->e + k->ids);
	uint32_t num = ids->num;
	long live = memory.live;

	if (!k->ids)
		return;
	ids->num = ids->max;
	assert_int_equal(host_cmd(h, k->make, &k->c, NULL), OHCA_ADMIN_NO_RESOURCE);
	ids->num = num;
	as_new_check(was, h->e);
	assert_int_equal(memory.live, live);
}

/*
 * Each attempt except the last fails, for one allocation after the other, and leaves nothing
 * behind.
 */
static void refuse(struct host *h, struct kind *k)
{
	uint64_t used = h->e->mem_used;
	static struct as_new was;
	long live = memory.live;
	struct ohca_hw_acqe rsp;
	unsigned int n = 0;
	int rc;

	as_new(&was, h->e);
	no_number(h, k, &was);
	do {
		memory.fail_at = ++n;
		rc = host_cmd(h, k->make, &k->c, &rsp);
		if (rc) {
			assert_int_equal(rc, OHCA_ADMIN_NO_RESOURCE);
			assert_int_equal(host_counter(h, OHCA_CNT_MEMORY), used);
			assert_int_equal(memory.live, live);
			as_new_check(&was, h->e);
		}
	} while (rc);
	assert_true(n > k->least && n < 40);
	memory.fail_at = 0;
	assert_true(h->e->mem_used > used && memory.live > live);
	assert_int_equal(host_cmd_handle(h, k->end, rsp.handle.handle, 0), 0);
	as_new_check(&was, h->e);
	assert_int_equal(memory.live, live);
}

static void test_commands(void **state)
{
	struct host_eq fault;
	struct host_buf buf;
	struct host *h;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .mtu = 1, .scatter = true });
	h = r.h[0];
	host_eq_create(h, &fault, 8, OHCA_EQ_FAULT, 0);
	host_buf_alloc(h, &buf, 64 * HOST_PAGE);
	{
#define IDS(of) offsetof(struct ohca_engine, of##_ids)
		struct kind kind[] = {
			{ OHCA_CMD_ALLOC_PD, OHCA_CMD_DEALLOC_PD, 1, IDS(pd),
			  HOST_AQE(alloc_pd, .uar = 0) },
			{ OHCA_CMD_ALLOC_XRCD, OHCA_CMD_DEALLOC_XRCD, 1, IDS(xrcd),
			  { .hdr = { 0 } } },
			{ OHCA_CMD_ALLOC_COUNTERS, OHCA_CMD_FREE_COUNTERS, 1, IDS(set),
			  { .hdr = { 0 } } },
			{ OHCA_CMD_ALLOC_DM, OHCA_CMD_FREE_DM, 1, IDS(dm),
			  HOST_AQE(alloc_dm, .length = 64) },
			{ OHCA_CMD_CREATE_EQ, OHCA_CMD_DESTROY_EQ, 2, 0,
			  HOST_AQE(create_eq, .log_size = 8, .kind = OHCA_EQ_COMP, .pl = buf.pl) },
			{ OHCA_CMD_CREATE_CQ, OHCA_CMD_DESTROY_CQ, 2, IDS(cq),
			  HOST_AQE(create_cq, .eqn = h->comp.eqn, .log_size = 8, .pl = buf.pl) },
			{ OHCA_CMD_CREATE_SRQ, OHCA_CMD_DESTROY_SRQ, 2, IDS(srq),
			  HOST_AQE(create_srq, .pdn = h->pdn, .log_size = 4, .log_stride = 7,
				   .pl = buf.pl) },
			{ OHCA_CMD_CREATE_SRQ, OHCA_CMD_DESTROY_SRQ, 3, IDS(srq),
			  HOST_AQE(create_srq, .pdn = h->pdn, .log_size = 4, .log_stride = 7,
				   .type = OHCA_SRQT_TM, .cqn = r.rcq[0].cqn, .num_tags = 16,
				   .log_ops = 4, .pl = buf.pl) },
			{ OHCA_CMD_CREATE_QP, OHCA_CMD_DESTROY_QP, 3, IDS(qp),
			  HOST_AQE(create_qp, .pdn = h->pdn, .send_cqn = r.scq[0].cqn,
				   .recv_cqn = r.rcq[0].cqn, .type = OHCA_QPT_RC, .log_sq = 4,
				   .log_rq = 4, .log_rq_stride = 7, .pl = buf.pl) },
			{ OHCA_CMD_REG_MR, OHCA_CMD_DEREG_MR, 2, IDS(mr),
			  HOST_AQE(reg_mr, .pdn = h->pdn, .type = OHCA_MR_USER,
				   .length = 64 * HOST_PAGE, .pl = buf.pl) },
			{ OHCA_CMD_REG_MR, OHCA_CMD_DEREG_MR, 1, IDS(mr),
			  HOST_AQE(reg_mr, .pdn = h->pdn, .type = OHCA_MR_FRMR, .length = 256) },
			{ OHCA_CMD_REG_MR, OHCA_CMD_DEREG_MR, 2, IDS(mr),
			  HOST_AQE(reg_mr, .pdn = h->pdn, .type = OHCA_MR_ODP,
				   .length = HOST_PAGE, .pl.page_shift = 12) },
		};

		for (unsigned int i = 0; i < sizeof(kind) / sizeof(kind[0]); i++)
			refuse(h, &kind[i]);
	}
	host_buf_free(&buf);
	rig_down(&r);
}

/*
 * Memory that grows with the number of objects is allocated for one of them, whose command fails.
 */
static void test_grow(void **state)
{
	enum { QPS = 200 };
	static struct host_qp qp[QPS];
	unsigned int made = 0, refusals = 0;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true });
	for (unsigned int fail_at = 1; made < QPS;) {
		struct host_qp_init in = { .scq = &r.scq[0], .rcq = &r.rcq[0] };
		uint64_t used = r.h[0]->e->mem_used;
		int rc;

		/* the first one is for the QP itself */
		memory.fail_at = ++fail_at;
		rc = host_qp_create(r.h[0], &qp[made], &in);
		memory.fail_at = 0;
		if (!rc) {
			made++;
			fail_at = 1;
			continue;
		}
		refusals++;
		assert_int_equal(rc, OHCA_ADMIN_NO_RESOURCE);
		assert_true(r.h[0]->e->mem_used >= used);
	}
	assert_true(refusals > QPS);
	while (made--)
		host_qp_destroy(&qp[made]);
	rig_down(&r);
}

/* A group, and room for its members. */
static void test_mcast(void **state)
{
	struct ohca_hw_aqe c;
	unsigned int n = 0;
	uint64_t used;
	struct rig r;
	int rc;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .type = OHCA_QPT_UD });
	c = HOST_AQE(mcast, .qp = r.qp[0].handle, .mlid = 0xc001, .mgid = { 0xff, 0x12, 0, 1 });
	used = r.h[0]->e->mem_used;
	do {
		memory.fail_at = ++n;
		rc = host_cmd(r.h[0], OHCA_CMD_ATTACH_MCAST, &c, NULL);
		if (rc) {
			assert_int_equal(rc, OHCA_ADMIN_NO_RESOURCE);
			assert_int_equal(r.h[0]->e->mem_used, used);
		}
	} while (rc);
	assert_true(n > 2);
	memory.fail_at = 0;
	assert_int_equal(host_cmd(r.h[0], OHCA_CMD_DETACH_MCAST, &c, NULL), 0);
	assert_int_equal(r.h[0]->e->mem_used, used);
	rig_down(&r);
}

/* ---- traffic ----------------------------------------------------------------------- */

/*
 * No memory for the window of the send queue: an event reports the QP, and the budget is as before.
 */
static void test_window(void **state)
{
	struct ohca_hw_qp_attr a;
	uint64_t used;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .log_sq = OHCA_MAX_LOG_WIN });
	used = r.h[0]->e->mem_used;
	memory.fail_at = 1;
	rig_write(&r, 0, 1, 0, 0, 64);
	rig_run(&r);
	assert_int_equal(memory.fail_at, 0);
	event(r.h[0], OHCA_EVENT_QP_FATAL, r.qp[0].handle);
	no_event(r.h[0]);
	assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_ERR);
	wc(&r.scq[0], 1, WC_WR_FLUSH);
	/* after a reset it works, and the window is freed */
	a = rig_attr(&r, 0);
	rig_modify(&r.qp[0], OHCA_QPS_RESET);
	r.qp[0].sq_pi = 0;
	rig_connect(&r, 0, a);
	rig_fill(&r, 0, 0, 64, 5);
	rig_write(&r, 0, 2, 0, 4096, 64);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	rig_check(&r, 1, 4096, 64, 5);
	assert_int_equal(r.h[0]->e->mem_used, used);
	rig_down(&r);
}

/* No memory for a receive WQE: the requester sends the message again. */
static void test_receive(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true });
	rig_fill(&r, 0, 0, 64, 5);
	rig_recv(&r, 1, 70, 4096, 64);
	rig_send(&r, 0, 2, 0, 64);
	/* the first one is the window */
	memory.fail_at = 2;
	rig_run(&r);
	assert_int_equal(memory.fail_at, 0);
	no_wc(&r.scq[0]);
	no_wc(&r.rcq[1]);
	rig_time(&r, 1000);
	wc(&r.scq[0], 2, WC_SUCCESS);
	wc(&r.rcq[1], 70, WC_SUCCESS);
	rig_check(&r, 1, 4096, 64, 5);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_RNR_NAK_TX), 1);
	no_wc(&r.rcq[1]);
	no_event(r.h[0]);
	rig_down(&r);
}

/* No memory for a READ within the limit: it is refused like one beyond the limit. */
static void test_read(void **state)
{
	uint64_t used;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true });
	used = r.h[0]->e->mem_used;
	rig_read(&r, 0, 2, 4096, 0, 64);
	memory.fail_at = 2;
	rig_run(&r);
	assert_int_equal(memory.fail_at, 0);
	wc(&r.scq[0], 2, WC_REM_INV_REQ);
	event(r.h[0], OHCA_EVENT_QP_REQ_ERR, r.qp[1].handle);
	no_event(r.h[0]);
	assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_ERR);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_ERR);
	assert_int_equal(r.h[0]->e->mem_used, used);
	rig_down(&r);
}

/* No memory for the page list of a region that a work request registers. */
static void test_fast_reg(void **state)
{
	struct ohca_hw_aqe c = { .hdr = { 0 } };
	struct ohca_hw_wqe_reg reg;
	struct ohca_hw_acqe rsp;
	struct host_buf buf;
	uint64_t used;
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .privileged = true, .scatter = true });
	host_buf_alloc(r.h[0], &buf, 16 * HOST_PAGE);
	c = HOST_AQE(reg_mr, .pdn = r.h[0]->pdn, .type = OHCA_MR_FRMR, .length = 16);
	assert_int_equal(host_cmd(r.h[0], OHCA_CMD_REG_MR, &c, &rsp), 0);
	used = r.h[0]->e->mem_used;
	reg = (struct ohca_hw_wqe_reg){
		.key = rsp.handle.handle, .iova = 0x1000, .length = 16 * HOST_PAGE, .pl = buf.pl,
		.access = OHCA_ACCESS_LOCAL_WRITE,
	};
	w = wqe_new(OHCA_OP_REG_MR, OHCA_WQE_SIGNALED, 1);
	memcpy(w.b + OHCA_SEG_SIZE, &reg, sizeof(reg));
	w.nseg = 4;
	wqe_post(&r.qp[0], &w);
	/* the first one is the window */
	memory.fail_at = 2;
	rig_run(&r);
	assert_int_equal(memory.fail_at, 0);
	assert_int_equal(wc(&r.scq[0], 1, WC_MW_BIND).vendor_err, OHCA_VE_MR_STATE);
	assert_int_equal(r.h[0]->e->mem_used, used);
	assert_int_equal(host_cmd_handle(r.h[0], OHCA_CMD_DEREG_MR, reg.key, 0), 0);
	host_buf_free(&buf);
	rig_down(&r);
}

/* A datagram without memory is lost; its WQE stays. */
static void test_datagram(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .loop = true, .type = OHCA_QPT_UD });
	rig_recv(&r, 1, 70, 4096, 1064);
	rig_send(&r, 0, 1, 0, 64);
	/* the first one is the window */
	memory.fail_at = 2;
	rig_run(&r);
	assert_int_equal(memory.fail_at, 0);
	wc(&r.scq[0], 1, WC_SUCCESS);
	no_wc(&r.rcq[1]);
	rig_send(&r, 0, 2, 0, 64);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	wc(&r.rcq[1], 70, WC_SUCCESS);
	no_event(r.h[0]);
	rig_down(&r);
}

/* The pools keep no more than their limits, and everything is freed in the end. */
static void test_pools(void **state)
{
	enum { MORE = OHCA_POOL_KEEP + 3 };
	static struct ohca_sqwin *w[MORE];
	static struct ohca_rwqe *q[MORE];
	static struct ohca_rdring *d[MORE];
	struct host *h = host_new(1, 0x100);
	uint64_t used;
	long live;

	(void)state;
	host_start(h);
	used = h->e->mem_used;
	live = memory.live;
	for (unsigned int turn = 0; turn < 2; turn++) {
		for (unsigned int i = 0; i < MORE; i++) {
			w[i] = ohca_win_get(h->e, 5);
			q[i] = ohca_rwqe_get(h->e);
			d[i] = ohca_rdring_get(h->e);
			assert_true(w[i] && q[i] && d[i]);
			assert_int_equal(w[i]->log, 5);
			assert_int_equal(w[i]->mask, 31);
		}
		/* memory that was kept is used again */
		assert_int_equal(memory.live - live, 3 * MORE);
		assert_int_equal(h->e->mem_used - used,
				 MORE * (ohca_win_bytes(5) - ohca_win_bytes(OHCA_MIN_LOG_WIN)));
		for (unsigned int i = 0; i < MORE; i++) {
			ohca_win_put(h->e, w[i]);
			ohca_rwqe_put(h->e, q[i]);
			ohca_rdring_put(h->e, d[i]);
		}
		assert_int_equal(memory.live - live, 3 * OHCA_POOL_KEEP);
		assert_int_equal(h->e->mem_used, used);
	}
	ohca_work_begin(h->e, UINT32_MAX);
	assert_true(ohca_pools_free_some(h->e));
	assert_int_equal(memory.live, live);
	/* and filled again */
	w[0] = ohca_win_get(h->e, 5);
	ohca_win_put(h->e, w[0]);
	q[0] = ohca_rwqe_get(h->e);
	ohca_rwqe_put(h->e, q[0]);
	d[0] = ohca_rdring_get(h->e);
	ohca_rdring_put(h->e, d[0]);
	assert_int_equal(memory.live - live, 3);
	host_free(h);
}

static void make_some(struct host *h)
{
	const struct fill some = { .windows = 100, .qps = 20, .list_pages = 1000, .odp_nodes = 3 };
	struct host_eq faults;

	host_start(h);
	host_eq_create(h, &faults, 8, OHCA_EQ_FAULT, 0);
	fill_all(h, &some);
}

/*
 * A reset allocates only new tables, if all others are in use. Without memory for them it frees at
 * once.
 */
static void test_reset(void **state)
{
	struct host *h = host_new(1, 0x100);
	unsigned int n = 0, at_once = 0;
	long live = memory.live, least;
	ohca_engine *other;

	(void)state;
	make_some(h);
	memory.fail_at = 1;
	ohca_reset(h->e);
	assert_int_equal(memory.fail_at, 1);
	memory.fail_at = 0;
	assert_int_equal(h->e->num_dead, 1);
	while (ohca_sweep(h->e))
		;
	assert_int_equal(memory.live, live);
	/* as if the sweep had not returned them yet */
	other = h->e->spare;
	assert_non_null(other);
	assert_null(other->spare);
	h->e->spare = NULL;
	do {
		make_some(h);
		memory.fail_at = ++n;
		ohca_reset(h->e);
		memory.fail_at = 0;
		assert_int_equal(h->e->mem_used, 0);
		at_once += !h->e->num_dead;
		least = memory.live;
		assert_int_equal(ohca_sweep(h->e), h->e->num_dead);
	} while (memory.live == least);
	/* a set of tables has about that many */
	assert_in_range(at_once, 15, 40);
	while (ohca_sweep(h->e))
		;
	/* only the third set of tables is kept */
	assert_in_range(memory.live, live + 15, live + 40);
	h->e->spare->spare = other;
	host_free(h);
}

/* At the end of a machine no memory is left, not even that of this test program. */
static int none_left(void **state)
{
	(void)state;
	memory.fail_at = 0;
	return memory.live ? -1 : 0;
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(test_##name, none_left)
	const struct CMUnitTest tests[] = {
		T(new), T(commands), T(grow), T(mcast), T(window), T(receive), T(read), T(fast_reg),
		T(datagram), T(pools), T(reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
