/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Regions with on-demand paging: the table of pages, and its command. */
#include "engine/base/features.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "odp_rig.h"

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
	/* no EQ would receive page faults */
	assert_int_equal(odp_reg(h, &good, &key), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x36);
	host_eq_create(h, &eq, 8, OHCA_EQ_FAULT, 0);
#define REFUSED(member, value, syn)						\
	in = good;								\
	in.member = (value);							\
	assert_int_equal(odp_reg(h, &in, &key), OHCA_ADMIN_BAD_PARAM);		\
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
	assert_int_equal(odp_reg(h, &good, &key), 0);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_EQ, eq.eqn, 0), OHCA_ADMIN_BUSY);

	/* 3 pages and an offset: 4 pages */
	assert_int_equal(odp_update(h, key, 0, 4, page), 0);
	assert_int_equal(odp_update(h, key, 0, 5, page), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x18);
	assert_int_equal(odp_update(h, key, 1, 4, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(odp_update(h, key, 4, 1, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 0x10);
	assert_int_equal(odp_update(h, key, ~0ull, 2, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(odp_update(h, key, 0, 0, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(odp_update(h, key ^ 1, 0, 1, NULL), OHCA_ADMIN_BAD_HANDLE);
	page[2] = HOST_BASE + 0x800 + OHCA_ODP_READ;
	assert_int_equal(odp_update(h, key, 0, 4, page), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, 64 + 16);
	page[2] = HOST_BASE + OHCA_ODP_WRITE;	/* no page can be write-only */
	assert_int_equal(odp_update(h, key, 0, 4, page), OHCA_ADMIN_BAD_PARAM);
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
		/* there is no page fault */
		c = HOST_AQE(fault_resume, .id = 0);
		assert_int_equal(host_cmd(h, OHCA_CMD_PAGE_FAULT_RESUME, &c, NULL),
				 OHCA_ADMIN_BAD_HANDLE);
	}
	/* there may be one such EQ */
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

	/* without the feature all of it is refused */
	h = host_new(1, 0x0002c90000000100ull);
	host_enable(h, OHCA_ALL_FEATURES & ~(1ull << OHCA_FEATURE_ODP));
	good.pdn = host_pd(h, 0);
	assert_int_equal(odp_reg(h, &good, &key), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(odp_update(h, key, 0, 1, NULL), OHCA_ADMIN_BAD_OPCODE);
	host_free(h);
}

/* All of the address space in one region: the table is only as large as its pages need. */
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

		assert_int_equal(odp_reg(h, &in, &key), 0);
	}
	for (unsigned int i = 0; i < 7; i++) {
		page = t.r.mr[1].buf.page[i] | RW;
		assert_int_equal(odp_update(h, key, at[i], 1, &page), 0);
	}
	assert_in_range(h->e->page_entries - before, 5 * 512, 25 * 512);
	rig_fill(&t.r, 0, 0, 7 * PAGE, 3);
	odp_pages(&t, 0, 0, 8, RW);
	for (unsigned int i = 0; i < 7; i++) {
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, i);

		wqe_raddr(&w, at[i] * PAGE, key);
		wqe_sge(&w, t.r.mr[0].iova + (uint64_t)i * PAGE, PAGE, t.r.mr[0].key);
		wqe_post(&t.r.qp[0], &w);
		rig_run(&t.r);
		wc(&t.r.scq[0], i, WC_SUCCESS);
	}
	rig_check(&t.r, 1, 0, 7 * PAGE, 3);
	odp_none(&t);
	/* a range that contains some of them, one by the page number 0, and the rest */
	assert_int_equal(odp_update(h, key, 1, 1ull << 21, NULL), 0);
	page = 0;
	assert_int_equal(odp_update(h, key, 0, 1, &page), 0);
	assert_int_equal(odp_update(h, key, 0, 1, &page), 0);
	assert_in_range(h->e->page_entries - before, 3 * 512, 13 * 512);
	assert_int_equal(odp_update(h, key, 0, 1ull << 45, NULL), 0);
	assert_int_equal(h->e->page_entries - before, 1024);	/* those of mr[0], by odp_pages() */
	/* memory is bounded */
	h->e->mem_max = h->e->mem_used + 4 * 4096;
	page = t.r.mr[1].buf.page[0] | RW;
	assert_int_equal(odp_update(h, key, 99, 1, &page), OHCA_ADMIN_NO_RESOURCE);
	h->e->mem_max = OHCA_MEM_DEFAULT;
	assert_int_equal(odp_update(h, key, 99, 1, &page), 0);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEREG_MR, key, 0), 0);
	assert_int_equal(h->e->page_entries - before, 1024);
	odp_down(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_sparse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
