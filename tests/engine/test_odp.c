/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Regions whose pages come and go: the table and its command, and what every access does
 * that finds no page: waits, goes on, fails.
 */
#include <stdlib.h>

#include "engine/base/features.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/mr.h"
#include "engine/object/qp.h"
#include "engine/object/to_transport.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "engine/transport/sched.h"
#include "rig.h"

#define PAGE	4096u
#define ALL	(OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_READ | \
		 OHCA_ACCESS_REMOTE_ATOMIC | OHCA_ACCESS_MW_BIND)

/** struct odp - a rig whose regions are without pages; key[i] in place of r.mr[i].key */
struct odp {
	struct rig r;
	struct host_eq eq[2];
	uint32_t pinned[2];	/* the keys of rig_up() */
};

static struct host *host_of(struct odp *t, unsigned int i)
{
	return t->r.h[i];
}

static int reg(struct host *h, const struct ohca_cmd_reg_mr *in, uint32_t *key)
{
	struct ohca_hw_aqe c = host_aqe(in, sizeof(*in));
	struct ohca_hw_acqe rsp;
	int rc = host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp);

	if (!rc)
		*key = rsp.handle.handle;
	return rc;
}

static int update(struct host *h, uint32_t key, uint64_t first, uint64_t n, const uint64_t *page)
{
	struct ohca_hw_aqe c = HOST_AQE(update_mr, .first = first, .npages = n, .key = key);

	if (page) {
		c.update_mr.addr = h->mbox[0];
		memcpy(host_ptr(h, h->mbox[0]), page, n * 8);
	} else {
		c.update_mr.flags = OHCA_UPDATE_MR_INVALIDATE;
	}
	return host_cmd(h, OHCA_CMD_UPDATE_MR_PAGES, &c, NULL);
}

/* Pages [first, first + n) of the region of side @i, with @rights; 0 takes them back. */
static void pages(struct odp *t, unsigned int i, uint64_t first, uint32_t n, uint64_t rights)
{
	struct host_mr *mr = &t->r.mr[i];
	uint64_t page[OHCA_ODP_BATCH];

	if (!rights) {
		assert_int_equal(update(host_of(t, i), mr->key, first, n, NULL), 0);
		return;
	}
	for (uint32_t k = 0; k < n; k++)
		page[k] = mr->buf.page[first + k] | rights;
	assert_int_equal(update(host_of(t, i), mr->key, first, n, page), 0);
}

static void odp_up(struct odp *t, struct rig_opt opt)
{
	rig_up(&t->r, opt);
	for (unsigned int i = 0; i < 2; i++) {
		struct host_mr *mr = &t->r.mr[i];
		struct ohca_cmd_reg_mr in = {
			.pl.page_shift = 12,
			.iova = mr->iova,
			.length = mr->len,
			.pdn = host_of(t, i)->pdn,
			.access = ALL,
			.type = OHCA_MR_ODP,
		};

		if (i < t->r.nh) {
			host_eq_create(host_of(t, i), &t->eq[i], OHCA_LOG_MAX_FAULTS, OHCA_EQ_FAULT,
				       2);
			host_eq_db(host_of(t, i), &t->eq[i], true);
		}
		t->pinned[i] = mr->key;
		assert_int_equal(reg(host_of(t, i), &in, &mr->key), 0);
	}
}

static void odp_down(struct odp *t)
{
	rig_down(&t->r);
}

/* The next fault of side @i, if there is one. */
static bool fault(struct odp *t, unsigned int i, struct ohca_hw_fault_eqe *f)
{
	struct ohca_hw_eqe e;

	if (!host_eq_poll(host_of(t, i), &t->eq[i], &e))
		return false;
	host_eq_db(host_of(t, i), &t->eq[i], true);
	assert_int_equal(e.type, OHCA_EVENT_PAGE_FAULT);
	memcpy(f, &e, sizeof(*f));
	return true;
}

static int resume(struct odp *t, unsigned int i, uint32_t id, bool ok)
{
	struct ohca_hw_aqe c = HOST_AQE(fault_resume, .id = id, .flags = ok ? 0 : OHCA_FAULT_FAILED);

	return host_cmd(host_of(t, i), OHCA_CMD_PAGE_FAULT_RESUME, &c, NULL);
}

/* There must be a fault of side @i, at @off of its region. */
static struct ohca_hw_fault_eqe want_(struct odp *t, unsigned int i, uint64_t off, uint32_t len,
				      bool write, const char *file, int line)
{
	struct ohca_hw_fault_eqe f;

	if (!fault(t, i, &f)) {
		print_error("no fault at %llu\n", (unsigned long long)off);
		_fail(file, line);
	}
	if (f.key != t->r.mr[i].key || f.addr != t->r.mr[i].iova + off || f.length != len ||
	    f.flags != (write ? OHCA_FAULT_WRITE : 0)) {
		print_error("fault at %lld length %u flags %u, not at %llu length %u write %u\n",
			    (long long)(f.addr - t->r.mr[i].iova), f.length, f.flags,
			    (unsigned long long)off, len, write);
		_fail(file, line);
	}
	return f;
}
#define want(t, i, off, len, write) want_(t, i, off, len, write, __FILE__, __LINE__)

static void none(struct odp *t)
{
	struct ohca_hw_fault_eqe f;

	for (unsigned int i = 0; i < t->r.nh; i++)
		assert_false(fault(t, i, &f));
}

/* Let it all happen, with the pages that are wanted. Return: how many faults there were. */
static unsigned int serve(struct odp *t, uint64_t rights)
{
	struct ohca_hw_fault_eqe f;
	unsigned int n = 0, idle = 0;

	while (idle < 3) {
		idle++;
		rig_time(&t->r, 2);
		for (unsigned int i = 0; i < t->r.nh; i++)
			while (fault(t, i, &f)) {
				unsigned int side = f.key == t->r.mr[i].key ? i : 1;
				uint64_t first = (f.addr - t->r.mr[side].iova) / PAGE;

				pages(t, side, first, 1, rights);
				assert_int_equal(resume(t, i, f.id, true), 0);
				idle = 0;
				assert_in_range(n++, 0, 100000);
			}
	}
	return n;
}
#define RW	(OHCA_ODP_READ | OHCA_ODP_WRITE)

/* ---- commands --------------------------------------------------------------------- */

static void test_commands(void **state)
{
	struct host *h = host_new(1, 0x0002c90000000100ull);
	struct ohca_cmd_reg_mr good, in;
	struct host_eq eq, other;
	uint64_t page[8] = { 0 };
	uint32_t key;

	(void)state;
	host_start(h);
	good = (struct ohca_cmd_reg_mr){
		.pl.page_shift = 12, .iova = 0x10000800, .length = 3 * PAGE, .pl_offset = 0x800,
		.pdn = h->pdn, .access = ALL, .type = OHCA_MR_ODP,
	};
	/* nobody would hear of faults */
	assert_int_equal(reg(h, &good, &key), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x36);
	host_eq_create(h, &eq, 8, OHCA_EQ_FAULT, 0);
#define REFUSED(member, value, syn)						\
	in = good;								\
	in.member = (value);							\
	assert_int_equal(reg(h, &in, &key), OHCA_ADMIN_BAD_PARAM);		\
	assert_int_equal(h->syndrome, syn)
	REFUSED(pl.root, 0x1000, 0x08);
	REFUSED(pl.npages, 4, 0x08);
	REFUSED(pl.levels, 1, 0x08);
	REFUSED(pl.page_shift, 11, 0x08);
	REFUSED(pl.page_shift, 31, 0x08);
	REFUSED(pl_offset, PAGE, 0x30);
	REFUSED(length, 0, 0x20);
	REFUSED(length, OHCA_MAX_ODP_SIZE + 1, 0x20);
	REFUSED(iova, ~0ull - PAGE, 0x18);
	REFUSED(access, ALL | OHCA_ACCESS_ZERO_BASED, 0x18);
	REFUSED(access, OHCA_ACCESS_REMOTE_WRITE, 0x34);
#undef REFUSED
	assert_int_equal(reg(h, &good, &key), 0);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, eq.eqn, 0), OHCA_ADMIN_BUSY);

	/* 3 pages and an offset: 4 pages */
	assert_int_equal(update(h, key, 0, 4, page), 0);
	assert_int_equal(update(h, key, 0, 5, page), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x18);
	assert_int_equal(update(h, key, 1, 4, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(update(h, key, 4, 1, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x10);
	assert_int_equal(update(h, key, ~0ull, 2, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(update(h, key, 0, 0, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(update(h, key ^ 1, 0, 1, NULL), OHCA_ADMIN_BAD_HANDLE);
	page[2] = HOST_BASE + 0x800 + OHCA_ODP_READ;
	assert_int_equal(update(h, key, 0, 4, page), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 64 + 16);
	page[2] = HOST_BASE + OHCA_ODP_WRITE;	/* no page can only be written */
	assert_int_equal(update(h, key, 0, 4, page), OHCA_ADMIN_BAD_PARAM);
	{
		struct ohca_hw_aqe c = HOST_AQE(update_mr, .npages = 1, .key = key, .flags = 2);

		assert_int_equal(host_cmd(h, OHCA_CMD_UPDATE_MR_PAGES, &c, NULL),
				 OHCA_ADMIN_BAD_PARAM);
		assert_int_equal(h->syndrome, 0x24);
		c.update_mr.flags = OHCA_UPDATE_MR_INVALIDATE;
		c.update_mr.addr = h->mbox[0];
		assert_int_equal(host_cmd(h, OHCA_CMD_UPDATE_MR_PAGES, &c, NULL),
				 OHCA_ADMIN_BAD_PARAM);
		c = HOST_AQE(update_mr, .npages = 1, .key = key, .addr = 0x800);
		assert_int_equal(host_cmd(h, OHCA_CMD_UPDATE_MR_PAGES, &c, NULL),
				 OHCA_ADMIN_BAD_PARAM);
		c = HOST_AQE(update_mr, .npages = 1, .key = key, .addr = 1ull << 50);
		assert_int_equal(host_cmd(h, OHCA_CMD_UPDATE_MR_PAGES, &c, NULL), OHCA_ADMIN_DMA);
		/* REREG_MR is for pinned memory */
		c = HOST_AQE(reg_mr, .key = key, .type = OHCA_MR_USER, .rereg = OHCA_REREG_ACCESS);
		assert_int_equal(host_cmd(h, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_HANDLE);
		/* nothing has faulted */
		c = HOST_AQE(fault_resume, .id = 0);
		assert_int_equal(host_cmd(h, OHCA_CMD_PAGE_FAULT_RESUME, &c, NULL),
				 OHCA_ADMIN_BAD_HANDLE);
	}
	/* one such EQ */
	{
		struct ohca_hw_aqe c = HOST_AQE(create_eq, .log_size = 8, .kind = OHCA_EQ_FAULT);

		c.create_eq.pl = (struct ohca_hw_pl){ .root = host_pages(h, 2), .npages = 2,
						      .page_shift = 12 };
		assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_EQ, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	}
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEREG_MR, key, 0), 0);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, eq.eqn, 0), 0);
	host_eq_create(h, &other, 8, OHCA_EQ_FAULT, 0);
	host_free(h);

	/* without the feature there is nothing of it */
	h = host_new(1, 0x0002c90000000100ull);
	host_enable(h, OHCA_ALL_FEATURES & ~(1ull << OHCA_FEATURE_ODP));
	good.pdn = host_pd(h, 0);
	assert_int_equal(reg(h, &good, &key), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(update(h, key, 0, 1, NULL), OHCA_ADMIN_BAD_OPCODE);
	host_free(h);
}

/* All of the address space in one region: the table is as large as what is in it. */
static void test_sparse(void **state)
{
	static const uint64_t at[] = { 0, 1, 511, 512, 1ull << 20, (1ull << 35) + 7,
				       (1ull << 45) - 1 };
	struct odp t;
	struct host *h;
	uint32_t before, key;
	uint64_t page;

	(void)state;
	odp_up(&t, (struct rig_opt){ .loop = true });
	h = t.r.h[0];
	before = h->e->page_entries;
	{
		struct ohca_cmd_reg_mr in = {
			.pl.page_shift = 12, .length = OHCA_MAX_ODP_SIZE, .pdn = h->pdn,
			.access = ALL, .type = OHCA_MR_ODP,
		};

		assert_int_equal(reg(h, &in, &key), 0);
	}
	for (unsigned int i = 0; i < 7; i++) {
		page = t.r.mr[1].buf.page[i] | RW;
		assert_int_equal(update(h, key, at[i], 1, &page), 0);
	}
	assert_in_range(h->e->page_entries - before, 5 * 512, 25 * 512);
	rig_fill(&t.r, 0, 0, 7 * PAGE, 3);
	pages(&t, 0, 0, 8, RW);
	for (unsigned int i = 0; i < 7; i++) {
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, i);

		wqe_raddr(&w, at[i] * PAGE, key);
		wqe_sge(&w, t.r.mr[0].iova + (uint64_t)i * PAGE, PAGE, t.r.mr[0].key);
		wqe_post(&t.r.qp[0], &w);
		rig_run(&t.r);
		wc(&t.r.scq[0], i, WC_SUCCESS);
	}
	rig_check(&t.r, 1, 0, 7 * PAGE, 3);
	none(&t);
	/* a range that holds some of them, one by naming no page, and the rest */
	assert_int_equal(update(h, key, 1, 1ull << 21, NULL), 0);
	page = 0;
	assert_int_equal(update(h, key, 0, 1, &page), 0);
	assert_int_equal(update(h, key, 0, 1, &page), 0);
	assert_in_range(h->e->page_entries - before, 3 * 512, 13 * 512);
	assert_int_equal(update(h, key, 0, 1ull << 45, NULL), 0);
	assert_int_equal(h->e->page_entries - before, 1024);	/* pages() of mr[0] */
	/* memory is bounded */
	h->e->mem_max = h->e->mem_used + 4 * 4096;
	page = t.r.mr[1].buf.page[0] | RW;
	assert_int_equal(update(h, key, 99, 1, &page), OHCA_ADMIN_NO_RESOURCE);
	h->e->mem_max = OHCA_MEM_DEFAULT;
	assert_int_equal(update(h, key, 99, 1, &page), 0);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEREG_MR, key, 0), 0);
	assert_int_equal(h->e->page_entries - before, 1024);
	odp_down(&t);
}

/* ---- every kind of access --------------------------------------------------------- */

enum kind { K_SEND, K_WRITE, K_READ, K_ATOMIC };

static void post(struct odp *t, enum kind k, uint64_t wr_id, uint64_t off, uint64_t roff,
		 uint32_t len)
{
	switch (k) {
	case K_SEND:
		rig_send(&t->r, 0, wr_id, off, len);
		break;
	case K_WRITE:
		rig_write(&t->r, 0, wr_id, off, roff, len);
		break;
	case K_READ:
		rig_read(&t->r, 0, wr_id, off, roff, len);
		break;
	case K_ATOMIC:
		rig_atomic(&t->r, 0, OHCA_OP_FETCH_ADD, wr_id, off, roff, 5, 0);
		break;
	}
}

/* The requester's own pages: it waits for as long as it takes, and nothing overtakes it. */
static void test_requester(void **state)
{
	for (enum kind k = K_SEND; k <= K_ATOMIC; k++)
		for (unsigned int ok = 0; ok < 2; ok++) {
			struct odp t;
			struct ohca_hw_fault_eqe f;
			struct ohca_resp_resize_qp at;
			bool write = k == K_READ || k == K_ATOMIC;
			uint32_t len = k == K_ATOMIC ? 8 : 3 * PAGE;
			uint64_t off = k == K_ATOMIC ? PAGE : 100;

			(void)state;
			odp_up(&t, (struct rig_opt){ .mtu = 4 });
			t.r.mr[1].key = t.pinned[1];
			rig_recv(&t.r, 1, 70, 0, len);
			rig_recv(&t.r, 1, 71, 0, len);
			rig_fill(&t.r, write, write ? 0 : off, len, 9);
			if (k == K_ATOMIC)
				rig_put64(&t.r, 1, 0, 1000);
			/* the second page is missing, or the only one */
			if (k != K_ATOMIC)
				pages(&t, 0, 0, 1, RW);
			post(&t, k, 1, off, 0, len);
			rig_send(&t.r, 0, 2, 0, 0);
			rig_run(&t.r);
			f = want(&t, 0, PAGE, k == K_ATOMIC ? 8 : len - (PAGE - 100), write);
			/* far longer than all retries: no timer runs */
			rig_time(&t.r, 60000);
			no_wc(&t.r.scq[0]);
			none(&t);
			/* who waits may be given other queues meanwhile */
			if (ok == (k & 1))
				for (unsigned int i = 0; i < 2; i++)
					assert_int_equal(host_qp_resize(&t.r.qp[i], 2 + i, 1 + k,
									&at), 0);
			if (ok)
				pages(&t, 0, 1, 3, RW);
			assert_int_equal(resume(&t, 0, f.id, ok), 0);
			assert_int_equal(resume(&t, 0, f.id, ok), OHCA_ADMIN_BAD_HANDLE);
			rig_time(&t.r, 100);
			none(&t);
			if (!ok) {
				assert_int_equal(wc(&t.r.scq[0], 1, WC_LOC_PROT).vendor_err,
						 OHCA_VE_PAGE_FAULT);
				wc(&t.r.scq[0], 2, WC_WR_FLUSH);
				assert_int_equal(host_counter(t.r.h[0], OHCA_CNT_PAGE_FAULT_FAIL), 1);
				odp_down(&t);
				continue;
			}
			wc(&t.r.scq[0], 1, WC_SUCCESS);
			wc(&t.r.scq[0], 2, WC_SUCCESS);
			if (k == K_ATOMIC) {
				assert_int_equal(rig_get64(&t.r, 0, off), 1000);
				assert_int_equal(rig_get64(&t.r, 1, 0), 1005);	/* once */
			} else {
				rig_check(&t.r, !write, write ? off : 0, len, 9);
			}
			assert_int_equal(host_counter(t.r.h[0], OHCA_CNT_PAGE_FAULT), 1);
			odp_down(&t);
		}
}

/* The responder's pages. */
static void test_responder(void **state)
{
	for (enum kind k = K_SEND; k <= K_ATOMIC; k++)
		for (unsigned int ok = 0; ok < 2; ok++)
			for (unsigned int srq = 0; srq < (k == K_SEND ? 2 : 1); srq++) {
				struct odp t;
				struct ohca_hw_fault_eqe f;
				uint32_t len = k == K_ATOMIC ? 8 : 3 * PAGE;
				uint64_t roff = k == K_ATOMIC ? PAGE : 100;

				(void)state;
				odp_up(&t, (struct rig_opt){ .mtu = 4, .srq = srq });
				t.r.mr[0].key = t.pinned[0];
				rig_recv(&t.r, 1, 70, roff, len);
				rig_recv(&t.r, 1, 71, 0, 0);
				rig_fill(&t.r, k == K_READ, k == K_READ ? roff : 0, len, 9);
				if (k == K_ATOMIC)
					rig_put64(&t.r, 1, roff, 1000);
				else
					pages(&t, 1, 0, 1, RW);
				post(&t, k, 1, 0, roff, len);
				rig_send(&t.r, 0, 2, 0, 0);
				rig_run(&t.r);
				f = want(&t, 1, PAGE, k == K_ATOMIC ? 8 : len - (PAGE - 100),
					 k != K_READ);
				rig_time(&t.r, 20);
				no_wc(&t.r.scq[0]);
				none(&t);
				if (ok)
					pages(&t, 1, 1, 3, RW);
				assert_int_equal(resume(&t, 1, f.id, ok), 0);
				rig_time(&t.r, 100);
				none(&t);
				if (!ok) {
					assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
					wc(&t.r.scq[0], 1, k == K_SEND ? WC_REM_OP : WC_REM_ACCESS);
					wc(&t.r.scq[0], 2, WC_WR_FLUSH);
					if (k == K_SEND)
						assert_int_equal(wc(&t.r.rcq[1], 70, WC_LOC_PROT)
								 .vendor_err, OHCA_VE_PAGE_FAULT);
					else
						event(t.r.h[1], OHCA_EVENT_QP_ACCESS_ERR,
						      t.r.qp[1].handle);
					odp_down(&t);
					continue;
				}
				wc(&t.r.scq[0], 1, WC_SUCCESS);
				wc(&t.r.scq[0], 2, WC_SUCCESS);
				if (k == K_SEND)
					wc(&t.r.rcq[1], 70, WC_SUCCESS);
				wc(&t.r.rcq[1], k == K_SEND ? 71 : 70, WC_SUCCESS);
				no_wc(&t.r.rcq[1]);
				if (k == K_ATOMIC) {
					assert_int_equal(rig_get64(&t.r, 0, 0), 1000);
					assert_int_equal(rig_get64(&t.r, 1, roff), 1005);
				} else {
					rig_check(&t.r, k != K_READ, k != K_READ ? roff : 0, len, 9);
				}
				odp_down(&t);
			}
}

/*
 * A WRITE with immediate data to memory that is not there: the requester's mistake, not the
 * receive WQE's. A SEND into such memory after it: the other way round.
 */
static void test_whose(void **state)
{
	for (unsigned int uc = 0; uc < 2; uc++) {
		struct ohca_hw_fault_eqe f;
		struct odp t;
		struct wqe w;

		(void)state;
		odp_up(&t, (struct rig_opt){ .type = uc ? OHCA_QPT_UC : OHCA_QPT_RC });
		t.r.mr[0].key = t.pinned[0];
		rig_recv(&t.r, 1, 70, 0, 64);
		w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, OHCA_WQE_SIGNALED, 1);
		wqe_imm(&w, 1);
		wqe_raddr(&w, t.r.mr[1].iova + PAGE, t.r.mr[1].key);
		wqe_sge(&w, t.r.mr[0].iova, 64, t.r.mr[0].key);
		wqe_post(&t.r.qp[0], &w);
		rig_run(&t.r);
		f = want(&t, 1, PAGE, 64, true);
		assert_int_equal(resume(&t, 1, f.id, false), 0);
		rig_time(&t.r, 100);
		wc(&t.r.scq[0], 1, uc ? WC_SUCCESS : WC_REM_ACCESS);
		assert_int_equal(wc(&t.r.rcq[1], 70, WC_LOC_ACCESS).vendor_err,
				 OHCA_VE_PAGE_FAULT);
		assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
		odp_down(&t);

		odp_up(&t, (struct rig_opt){ .type = uc ? OHCA_QPT_UC : OHCA_QPT_RC });
		t.r.mr[0].key = t.pinned[0];
		/* the page comes for the WRITE, and none for the SEND */
		rig_write(&t.r, 0, 1, 0, PAGE, 64);
		rig_run(&t.r);
		f = want(&t, 1, PAGE, 64, true);
		pages(&t, 1, 1, 1, RW);
		assert_int_equal(resume(&t, 1, f.id, true), 0);
		rig_time(&t.r, 100);
		wc(&t.r.scq[0], 1, WC_SUCCESS);
		rig_recv(&t.r, 1, 71, 0, 64);
		rig_send(&t.r, 0, 2, 0, 64);
		rig_run(&t.r);
		f = want(&t, 1, 0, 64, true);
		assert_int_equal(resume(&t, 1, f.id, false), 0);
		rig_time(&t.r, 100);
		wc(&t.r.scq[0], 2, uc ? WC_SUCCESS : WC_REM_OP);
		wc(&t.r.rcq[1], 71, WC_LOC_PROT);
		odp_down(&t);
	}
}

/* A page that may only be read serves whom reads. */
/* The packet that asks for an acknowledgement needs a page: it still asks when it leaves. */
struct asks {
	unsigned int frames, at[4], n;
};

static enum host_fate count_asks(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				 uint32_t len)
{
	struct asks *a = arg;

	(void)from;
	(void)port;
	(void)len;
	if (frame[IB_LRH_LEN + 8] & 0x80 && a->n < 4)
		a->at[a->n++] = a->frames;
	a->frames++;
	return HOST_DELIVER;
}

static void test_asks(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct asks a = { 0 };
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .mtu = 1 });
	pages(&t, 0, 0, 2, OHCA_ODP_READ);
	pages(&t, 1, 0, 8, OHCA_ODP_READ | OHCA_ODP_WRITE);
	host_hook_set(t.r.h[0], 0, count_asks, &a);
	/* packet 31 begins with page 2 */
	rig_write(&t.r, 0, 1, 256, 0, 64 * 256);
	rig_run(&t.r);
	f = want(&t, 0, 8192, 64 * 256 - 31 * 256, false);
	assert_int_equal(a.frames, 31);
	pages(&t, 0, 2, 3, OHCA_ODP_READ);
	assert_int_equal(resume(&t, 0, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(a.n, 2);
	assert_int_equal(a.at[0], 31);
	assert_int_equal(a.at[1], 63);
	host_hook_set(t.r.h[0], 0, NULL, NULL);
	odp_down(&t);
}

/* Responses of the flight in which one found no page arrive when it is there: that is no loss. */
struct old {
	uint8_t frame[2][600];
	uint32_t len[2];
	unsigned int seen;
};

static enum host_fate keep_back(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				uint32_t len)
{
	struct old *o = arg;
	unsigned int i = o->seen++;

	(void)from;
	(void)port;
	if (i < 1 || i > 2)
		return HOST_DELIVER;
	memcpy(o->frame[i - 1], frame, len);
	o->len[i - 1] = len;
	return HOST_DROP;
}

static void test_old_flight(void **state)
{
	static struct old o;
	struct ohca_hw_fault_eqe f;
	struct ohca_xport *xp;
	struct odp t;

	(void)state;
	memset(&o, 0, sizeof(o));
	odp_up(&t, (struct rig_opt){ .mtu = 1 });
	pages(&t, 1, 0, 1, OHCA_ODP_READ);
	host_hook_set(t.r.h[1], 0, keep_back, &o);
	rig_read(&t.r, 0, 1, 0, 0, 3 * 256);
	rig_run(&t.r);
	assert_int_equal(o.seen, 3);
	f = want(&t, 0, 0, 3 * 256, true);
	pages(&t, 0, 0, 1, OHCA_ODP_READ | OHCA_ODP_WRITE);
	assert_int_equal(resume(&t, 0, f.id, true), 0);
	xp = ohca_qp_get(t.r.h[0]->e, t.r.qp[0].handle)->xp;
	assert_int_equal(xp->req.retry_left, 7);
	for (unsigned int i = 0; i < 2; i++)
		host_rx(t.r.h[0], 0, o.frame[i][0] >> 4, o.frame[i], o.len[i], 0);
	assert_int_equal(xp->req.retry_left, 7);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	host_hook_set(t.r.h[1], 0, NULL, NULL);
	odp_down(&t);
}

static void test_read_only(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ 0 });
	pages(&t, 0, 0, 1, RW);
	pages(&t, 1, 0, 1, OHCA_ODP_READ);
	rig_read(&t.r, 0, 1, 0, 0, 64);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	none(&t);
	rig_write(&t.r, 0, 2, 0, 8, 64);
	rig_run(&t.r);
	f = want(&t, 1, 8, 64, true);
	pages(&t, 1, 0, 1, RW);
	assert_int_equal(resume(&t, 1, f.id, true), 0);
	rig_time(&t.r, 10);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	/* to name it again for reading takes the right to write back */
	pages(&t, 1, 0, 1, OHCA_ODP_READ);
	rig_atomic(&t.r, 0, OHCA_OP_FETCH_ADD, 3, 0, 16, 1, 0);
	rig_run(&t.r);
	f = want(&t, 1, 16, 8, true);
	assert_int_equal(resume(&t, 1, f.id, false), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 3, WC_REM_ACCESS);
	odp_down(&t);
}

/* A window names the region behind it. */
static void test_window(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct ohca_hw_acqe rsp;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ 0 });
	pages(&t, 0, 0, 1, RW);
	{
		struct ohca_hw_aqe c = HOST_AQE(reg_mr, .pdn = t.r.h[1]->pdn, .type = OHCA_MR_MW2);
		struct wqe w = wqe_new(OHCA_OP_BIND_MW, OHCA_WQE_SIGNALED, 1);
		struct ohca_hw_wqe_reg bind;

		assert_int_equal(host_cmd(t.r.h[1], OHCA_CMD_REG_MR, &c, &rsp), 0);
		bind = (struct ohca_hw_wqe_reg){
			.key = rsp.handle.handle + 1, .access = OHCA_ACCESS_REMOTE_WRITE,
			.iova = t.r.mr[1].iova + 3 * PAGE, .length = 2 * PAGE,
			.mr_key = t.r.mr[1].key,
		};
		memcpy(w.b + OHCA_SEG_SIZE, &bind, sizeof(bind));
		w.nseg = 4;
		wqe_post(&t.r.qp[1], &w);
		rig_run(&t.r);
		wc(&t.r.scq[1], 1, WC_SUCCESS);
		w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 2);
		wqe_raddr(&w, t.r.mr[1].iova + 4 * PAGE + 5, bind.key);
		wqe_sge(&w, t.r.mr[0].iova, 100, t.r.mr[0].key);
		wqe_post(&t.r.qp[0], &w);
	}
	rig_run(&t.r);
	f = want(&t, 1, 4 * PAGE + 5, 100, true);
	pages(&t, 1, 4, 1, RW);
	assert_int_equal(resume(&t, 1, f.id, true), 0);
	rig_time(&t.r, 10);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	odp_down(&t);
}

/* ---- datagrams, unreliable connections ------------------------------------------------ */

static void test_ud(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .type = OHCA_QPT_UD });
	rig_recv(&t.r, 1, 70, 0, 1064);
	rig_recv(&t.r, 1, 71, PAGE, 1064);
	rig_fill(&t.r, 0, 0, 1024, 4);
	rig_send(&t.r, 0, 1, 0, 1024);
	rig_send(&t.r, 0, 2, 0, 1024);
	rig_send(&t.r, 0, 3, 0, 1024);
	rig_time(&t.r, 100);
	no_wc(&t.r.scq[0]);
	f = want(&t, 0, 0, 1024, false);
	pages(&t, 0, 0, 1, RW);
	assert_int_equal(resume(&t, 0, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	wc(&t.r.scq[0], 3, WC_SUCCESS);
	/* all three found the receive buffer of the first without a page and are lost */
	no_wc(&t.r.rcq[1]);
	f = want(&t, 1, 40, 1024, true);
	none(&t);
	assert_int_equal(host_counter(t.r.h[1], OHCA_CNT_RX_NO_WQE), 3);
	pages(&t, 1, 0, 2, RW);
	rig_send(&t.r, 0, 4, 0, 1024);
	rig_run(&t.r);
	wc(&t.r.rcq[1], 70, WC_SUCCESS);
	rig_check(&t.r, 0, 0, 1024, 4);
	/* too late to do harm */
	assert_int_equal(resume(&t, 1, f.id, false), 0);
	rig_send(&t.r, 0, 5, 0, 1024);
	rig_run(&t.r);
	wc(&t.r.rcq[1], 71, WC_SUCCESS);
	wc(&t.r.scq[0], 4, WC_SUCCESS);
	wc(&t.r.scq[0], 5, WC_SUCCESS);
	/* failures of both sides */
	rig_recv(&t.r, 1, 72, 2 * PAGE, 1064);
	rig_send(&t.r, 0, 6, 0, 1024);
	rig_run(&t.r);
	wc(&t.r.scq[0], 6, WC_SUCCESS);
	f = want(&t, 1, 2 * PAGE + 40, 1024, true);
	assert_int_equal(resume(&t, 1, f.id, false), 0);
	wc(&t.r.rcq[1], 72, WC_LOC_PROT);
	assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
	rig_send(&t.r, 0, 7, 8 * PAGE, 1024);
	rig_send(&t.r, 0, 8, 0, 1024);
	rig_run(&t.r);
	f = want(&t, 0, 8 * PAGE, 1024, false);
	assert_int_equal(resume(&t, 0, f.id, false), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 7, WC_LOC_PROT);
	wc(&t.r.scq[0], 8, WC_WR_FLUSH);
	assert_int_equal(rig_state(&t.r.qp[0]), OHCA_QPS_SQE);
	odp_down(&t);
}

static void test_uc(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .type = OHCA_QPT_UC });
	rig_fill(&t.r, 0, 0, 3 * PAGE, 4);
	rig_recv(&t.r, 1, 70, 0, 3 * PAGE);
	/* in the middle of a message: it goes on where it stopped */
	pages(&t, 0, 0, 1, RW);
	pages(&t, 1, 0, 4, RW);
	rig_send(&t.r, 0, 1, 0, 3 * PAGE);
	rig_time(&t.r, 1000);
	f = want(&t, 0, PAGE, 2 * PAGE, false);
	pages(&t, 0, 1, 2, RW);
	assert_int_equal(resume(&t, 0, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	wc(&t.r.rcq[1], 70, WC_SUCCESS);
	rig_check(&t.r, 1, 0, 3 * PAGE, 4);
	/* at the other end it is lost, and its WQE serves the next */
	pages(&t, 1, 0, 4, 0);
	rig_recv(&t.r, 1, 71, 0, 3 * PAGE);
	rig_send(&t.r, 0, 2, 0, 3 * PAGE);
	rig_run(&t.r);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	no_wc(&t.r.rcq[1]);
	f = want(&t, 1, 0, 3 * PAGE, true);
	pages(&t, 1, 0, 4, RW);
	assert_int_equal(resume(&t, 1, f.id, true), 0);
	rig_send(&t.r, 0, 3, 0, 3 * PAGE);
	rig_run(&t.r);
	wc(&t.r.scq[0], 3, WC_SUCCESS);
	wc(&t.r.rcq[1], 71, WC_SUCCESS);
	rig_write(&t.r, 0, 4, 0, 8 * PAGE, PAGE);
	rig_run(&t.r);
	f = want(&t, 1, 8 * PAGE, PAGE, true);
	assert_int_equal(resume(&t, 1, f.id, false), 0);
	assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
	odp_down(&t);
}

/* ---- what goes away meanwhile ------------------------------------------------------------ */

static void test_gone(void **state)
{
	for (unsigned int how = 0; how < 6; how++) {
		struct ohca_hw_fault_eqe f[2];
		struct odp t;

		(void)state;
		odp_up(&t, (struct rig_opt){ 0 });
		rig_recv(&t.r, 1, 70, 0, PAGE);
		rig_write(&t.r, 1, 1, 0, 0, PAGE);	/* waits for pages of its own */
		pages(&t, 0, 0, 1, RW);
		rig_send(&t.r, 0, 2, 0, PAGE);		/* and side 1 for that of the receive */
		rig_time(&t.r, 3);
		assert_true(fault(&t, 1, &f[0]));
		assert_true(fault(&t, 1, &f[1]));
		none(&t);
		switch (how) {
		case 0:
			rig_modify(&t.r.qp[1], OHCA_QPS_ERR);
			rig_run(&t.r);
			wc(&t.r.scq[1], 1, WC_WR_FLUSH);
			wc(&t.r.rcq[1], 70, WC_WR_FLUSH);
			break;
		case 1:
			rig_modify(&t.r.qp[1], OHCA_QPS_RESET);
			break;
		case 2:
			assert_int_equal(host_cmd_handle(t.r.h[1], OHCA_CMD_DESTROY_QP,
							 t.r.qp[1].handle, 0), 0);
			break;
		case 3:
		case 4:
			assert_int_equal(host_cmd_handle(t.r.h[1], OHCA_CMD_DEREG_MR, t.r.mr[1].key,
							 0), 0);
			break;
		case 5:
			ohca_mmio_write(t.r.h[1]->e, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
			ohca_mmio_write(t.r.h[0]->e, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
			for (unsigned int i = 0; i < 2; i++) {
				t.r.h[i]->aq_pi = 0;
				host_buf_free(&t.r.mr[i].buf);
				host_buf_free(&t.r.qp[i].buf);
				host_buf_free(&t.r.scq[i].buf);
				host_buf_free(&t.r.rcq[i].buf);
				host_free(t.r.h[i]);
			}
			continue;
		}
		rig_time(&t.r, 5);
		assert_int_equal(resume(&t, 1, f[1].id, how != 4), 0);
		assert_int_equal(resume(&t, 1, f[0].id, how != 4), 0);
		rig_time(&t.r, 100);
		none(&t);
		if (how >= 3) {
			/* first come is the one who fails: the key is gone, or no page came */
			struct ohca_hw_cqe c;

			assert_true(host_cq_poll(&t.r.scq[1], &c));
			assert_int_not_equal(c.status, WC_SUCCESS);
			assert_true(host_cq_poll(&t.r.rcq[1], &c));
			assert_int_not_equal(c.status, WC_SUCCESS);
			assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
		}
		if (how == 2) {
			struct host_qp_init in = { .scq = &t.r.scq[1], .rcq = &t.r.rcq[1] };

			host_buf_free(&t.r.qp[1].buf);
			assert_int_equal(host_qp_create(t.r.h[1], &t.r.qp[1], &in), 0);
		}
		odp_down(&t);
	}
}

/* An answer comes after what asked has been served: it is none. */
static void test_late(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ 0 });
	pages(&t, 0, 0, 1, RW);
	rig_write(&t.r, 0, 1, 0, 0, 64);
	rig_run(&t.r);
	f = want(&t, 1, 0, 64, true);
	pages(&t, 1, 0, 1, RW);
	rig_time(&t.r, 5);	/* the request comes again */
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(resume(&t, 1, f.id, false), 0);
	rig_write(&t.r, 0, 2, 0, 0, 64);
	rig_run(&t.r);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	odp_down(&t);
}

/* ---- load ------------------------------------------------------------------------------------ */

/* More faults than one doorbell page may have: who finds none waits, and has its turn. */
static void test_many(void **state)
{
	enum { QPS = OHCA_MAX_FAULTS + 40, MOST = OHCA_MAX_FAULTS / 2 };
	static struct host_qp qp[QPS];
	struct ohca_hw_fault_eqe f[QPS];
	unsigned int n = 0, told = 0, done = 0;
	struct ohca_hw_cqe c;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .loop = true });
	for (unsigned int i = 0; i < QPS; i++) {
		struct host_qp_init in = { .type = OHCA_QPT_UD, .log_sq = 4, .log_rq = 1,
					   .scq = &t.r.scq[0], .rcq = &t.r.rcq[0] };
		struct wqe w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, i);

		assert_int_equal(host_qp_create(t.r.h[0], &qp[i], &in), 0);
		host_qp_datagram(&qp[i], 0, RIG_QKEY);
		wqe_av(&w, 1, qp[i].qpn, RIG_QKEY);
		wqe_sge(&w, t.r.mr[0].iova + (uint64_t)i * PAGE, 64, t.r.mr[0].key);
		wqe_post(&qp[i], &w);
	}
	rig_time(&t.r, 10);
	while (fault(&t, 0, &f[n]))
		n++;
	assert_int_equal(n, MOST);
	/* one of those who wait goes; the first answer lets another one in */
	host_qp_destroy(&qp[QPS - 1]);
	for (told = 0; told < n; told++) {
		pages(&t, 0, (f[told].addr - t.r.mr[0].iova) / PAGE, 1, RW);
		assert_int_equal(resume(&t, 0, f[told].id, true), 0);
		rig_time(&t.r, 1);
		while (n < QPS && fault(&t, 0, &f[n]))
			n++;
		/* one has tried and has the slot; the others were not woken for it */
		for (unsigned int i = 0; told < 10 && i < QPS - 1; i++) {
			const struct ohca_xport *xp = t.r.h[0]->e->qp[qp[i].handle]->xp;

			assert_true(xp->sched.on == OHCA_XP_OFF ||
				    xp->sched.fault_gen != t.r.h[0]->e->sched->fault_gen);
		}
	}
	assert_int_equal(n, QPS - 1);
	rig_run(&t.r);
	while (host_cq_poll(&t.r.scq[0], &c)) {
		assert_int_equal(c.status, WC_SUCCESS);
		done++;
	}
	assert_int_equal(done, QPS - 1);
	for (unsigned int i = 0; i < QPS - 1; i++)
		host_qp_destroy(&qp[i]);
	odp_down(&t);
}

/** struct process - one of those that share the device: a doorbell page, and UD QPs on it */
struct process {
	struct host_cq cq;
	struct host_qp qp[OHCA_MAX_FAULTS];
	uint32_t pdn, uar, key, told, qps;
};

static void process_up(struct odp *t, struct process *p, uint32_t uar)
{
	struct host *h = t->r.h[0];
	struct ohca_cmd_reg_mr in = {
		.pl.page_shift = 12, .iova = t->r.mr[0].iova, .length = t->r.mr[0].len,
		.access = ALL, .type = OHCA_MR_ODP,
	};

	*p = (struct process){ .uar = uar };
	p->pdn = in.pdn = host_pd(h, uar);
	host_cq_create(h, &p->cq, 8, uar);
	assert_int_equal(reg(h, &in, &p->key), 0);
}

static void process_down(struct process *p)
{
	for (unsigned int i = 0; i < p->qps; i++)
		host_qp_destroy(&p->qp[i]);
	host_buf_free(&p->cq.buf);
}

/* QP @i of a process sends from page @i of its region, which is not there. */
static void process_send(struct odp *t, struct process *p, unsigned int i)
{
	struct host_qp_init in = { .type = OHCA_QPT_UD, .log_sq = 1, .log_rq = 1, .pdn = p->pdn,
				   .uar = p->uar, .scq = &p->cq, .rcq = &p->cq };
	struct wqe w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, i);

	assert_int_equal(host_qp_create(t->r.h[0], &p->qp[i], &in), 0);
	host_qp_datagram(&p->qp[i], 0, RIG_QKEY);
	wqe_av(&w, 1, p->qp[i].qpn, RIG_QKEY);
	wqe_sge(&w, t->r.mr[0].iova + (uint64_t)i * PAGE, 64, p->key);
	wqe_post(&p->qp[i], &w);
}

/* Count the faults of each process; with @answer the pages come. */
static void process_faults(struct odp *t, struct process *p, unsigned int n, bool answer)
{
	struct ohca_hw_fault_eqe f;

	for (unsigned int idle = 0; idle < 3; idle++) {
		rig_time(&t->r, 1);
		while (fault(t, 0, &f)) {
			uint64_t page = t->r.mr[0].buf.page[0] | RW;

			idle = 0;
			for (unsigned int i = 0; i < n; i++)
				if (p[i].key == f.key)
					p[i].told++;
			if (!answer)
				continue;
			assert_int_equal(update(t->r.h[0], f.key,
						(f.addr - t->r.mr[0].iova) / PAGE, 1, &page), 0);
			assert_int_equal(resume(t, 0, f.id, true), 0);
		}
	}
}

/* Memory that does not come takes no slot from another process: neither that of one, nor of four. */
static void test_share(void **state)
{
	enum { HOGS = 4 };
	static struct process p[HOGS + 1];
	struct process *victim = &p[HOGS];
	struct ohca_hw_cqe c;
	uint32_t free_slots = OHCA_MAX_FAULTS;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .loop = true });
	for (unsigned int i = 0; i <= HOGS; i++)
		process_up(&t, &p[i], i + 1);
	for (unsigned int i = 0; i < HOGS; i++) {
		for (p[i].qps = 0; p[i].qps < free_slots / 2 + 8; p[i].qps++)
			process_send(&t, &p[i], p[i].qps);
		process_faults(&t, p, HOGS, false);
		/* as many as are left, and those stay for others */
		assert_int_equal(p[i].told, free_slots / 2);
		free_slots -= p[i].told;
		process_send(&t, victim, victim->qps++);
		process_faults(&t, victim, 1, true);
		assert_int_equal(victim->told, i + 1);
		rig_run(&t.r);
		assert_true(host_cq_poll(&victim->cq, &c));
		assert_int_equal(c.status, WC_SUCCESS);
		assert_int_equal(c.wr_id, i);
	}
	for (unsigned int i = 0; i < HOGS; i++)
		process_down(&p[i]);
	process_down(victim);
	odp_down(&t);
}

/*
 * No slot is free for the page of a READ response. The requester of the same QP goes on: its own
 * page comes, and it sends what is posted later.
 */
static void test_one_side(void **state)
{
	enum { TAKEN = 50, OF_PAGE = 100 };
	static struct ohca_xport no_turn;
	struct ohca_hw_fault_eqe f;
	struct ohca_engine *e;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ 0 });
	e = host_of(&t, 1)->e;
	rig_fill(&t.r, 1, 0, 64, 1);
	rig_fill(&t.r, 1, 8 * PAGE, 64, 2);
	pages(&t, 0, 0, 4, RW);
	rig_write(&t.r, 1, 1, 0, PAGE, 64);
	rig_run(&t.r);
	f = want(&t, 1, 0, 64, false);
	/* other QPs of the doorbell page have more than it may have */
	e->num_faults += TAKEN;
	e->uar_faults[t.r.qp[1].uar] += OF_PAGE;
	rig_read(&t.r, 0, 2, 0, 8 * PAGE, 64);
	rig_run(&t.r);
	none(&t);
	assert_int_equal(e->qp[t.r.qp[1].handle]->xp->sched.on, OHCA_XP_WAIT_FAULT);
	pages(&t, 1, 0, 1, RW);
	assert_int_equal(resume(&t, 1, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[1], 1, WC_SUCCESS);
	rig_check(&t.r, 0, PAGE, 64, 1);
	rig_write(&t.r, 1, 3, 0, 2 * PAGE, 64);
	rig_run(&t.r);
	wc(&t.r.scq[1], 3, WC_SUCCESS);
	rig_check(&t.r, 0, 2 * PAGE, 64, 1);
	/* the response still waits for its slot */
	none(&t);
	e->num_faults -= TAKEN;
	e->uar_faults[t.r.qp[1].uar] -= OF_PAGE;
	/* the QP that was woken before it has no turn, because its lane has none */
	e->sched->fault_next = &no_turn;
	ohca_xp_fault_room(e, 1);
	rig_run(&t.r);
	f = want(&t, 1, 8 * PAGE, 64, false);
	pages(&t, 1, 8, 1, RW);
	assert_int_equal(resume(&t, 1, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	rig_check(&t.r, 0, 0, 64, 2);
	odp_down(&t);
}

/* A free slot wakes the first QP that may have it; QPs of a page that has enough have no turn. */
static void test_refused(void **state)
{
	static struct process p[2];
	const struct ohca_xport *waits;
	struct ohca_hw_fault_eqe f;
	struct ohca_sched *s;
	uint32_t id = 0;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .loop = true });
	s = t.r.h[0]->e->sched;
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t most = OHCA_MAX_FAULTS >> (i + 1);

		process_up(&t, &p[i], i + 1);
		while (p[i].qps < most + 8 - 7 * i)
			process_send(&t, &p[i], p[i].qps++);
		rig_time(&t.r, 1);
		while (fault(&t, 0, &f)) {
			p[i].told++;
			id = f.id;
		}
		assert_int_equal(p[i].told, most);
	}
	/* one of the second process is answered; eight of the first have waited for longer */
	waits = t.r.h[0]->e->qp[p[1].qp[p[1].qps - 1].handle]->xp;
	assert_int_equal(waits->sched.on, OHCA_XP_WAIT_FAULT);
	assert_int_equal(resume(&t, 0, id, false), 0);
	assert_ptr_equal(s->fault_next, waits);
	rig_run(&t.r);
	assert_true(fault(&t, 0, &f));
	assert_int_equal(f.key, p[1].key);
	none(&t);
	process_down(&p[0]);
	process_down(&p[1]);
	odp_down(&t);
}

/* Pages go at random while everything is under way, in both directions. */
static void test_churn(void **state)
{
	enum { OPS = 600, AREA = 64 * PAGE, SLOTS = 16, SLOT = AREA / SLOTS };
	const char *given = getenv("SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0) : 1;
	uint32_t x = seed | 1;

	(void)state;
	print_message("seed %u\n", seed);
	for (unsigned int loop = 0; loop < 2; loop++) {
		unsigned int sent[2] = { 0 }, done[2] = { 0 }, faults = 0;
		uint64_t sum[2] = { 0 };
		struct odp t;

		odp_up(&t, (struct rig_opt){ .loop = loop, .scatter = true, .mtu = 3, .log_sq = 7 });
		/* side i: sources at 0, what the other writes at AREA, what it reads at 2 AREA */
		for (unsigned int i = 0; i < 2; i++) {
			rig_fill(&t.r, i, 0, AREA, i + 1);
			rig_put64(&t.r, i, 3 * AREA, 0);
		}
		while (done[0] + done[1] < 2 * OPS) {
			struct ohca_hw_cqe c;

			for (unsigned int i = 0; i < 2; i++) {
				x = x * 1664525u + 1013904223u;
				while (sent[i] < OPS && sent[i] - done[i] < 12) {
					uint64_t at = (uint64_t)(sent[i] % SLOTS) * SLOT;
					uint32_t len = 1 + (x >> 8) % (SLOT - 8);

					switch (x >> 28 & 3) {
					case 0:
						rig_read(&t.r, i, sent[i], 2 * AREA + at, at, len);
						break;
					case 1:
						rig_atomic(&t.r, i, OHCA_OP_FETCH_ADD, sent[i],
							   3 * AREA + 64, 3 * AREA, x & 0xff, 0);
						sum[1 - i] += x & 0xff;
						break;
					default:
						rig_write(&t.r, i, sent[i], at, AREA + at, len);
					}
					sent[i]++;
					x = x * 1664525u + 1013904223u;
				}
				pages(&t, i, (x >> 8) % 200, 1 + (x >> 20) % 20, 0);
			}
			faults += serve(&t, RW);
			for (unsigned int i = 0; i < 2; i++)
				while (host_cq_poll(&t.r.scq[i], &c)) {
					assert_int_equal(c.status, WC_SUCCESS);
					assert_int_equal(c.wr_id, done[i]);	/* in order */
					done[i]++;
				}
		}
		assert_in_range(faults, OPS / 4, 100000);
		for (unsigned int i = 0; i < 2; i++) {
			assert_int_equal(rig_get64(&t.r, i, 3 * AREA), sum[i]);
			/* whatever was copied is a copy: each slot begins with what was sent */
			for (unsigned int s = 0; s < SLOTS; s++)
				for (unsigned int to = 1; to < 3; to++) {
					uint8_t a, b;

					host_buf_read(host_of(&t, i), &t.r.mr[i].buf,
						      (uint64_t)to * AREA + s * SLOT, &a, 1);
					host_buf_read(host_of(&t, 1 - i), &t.r.mr[1 - i].buf,
						      s * SLOT, &b, 1);
					if (a)
						assert_int_equal(a, b);
				}
		}
		none(&t);
		odp_down(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_requester),
		cmocka_unit_test(test_responder),
		cmocka_unit_test(test_whose),
		cmocka_unit_test(test_asks),
		cmocka_unit_test(test_old_flight),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_ud),
		cmocka_unit_test(test_uc),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_one_side),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_churn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
