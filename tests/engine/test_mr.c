/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory regions: registration, keys, rights, bounds, access, page lists. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/guestmem.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/mr.h"
#include "engine/object/mr_access.h"
#include "engine/object/pd.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "mr_rig.h"

/* ---- registration ---- */

#define LONG	(96u * 1024u)	/* pages, which need several steps */

/* Writes a list of two levels of tables. The pages are contiguous except from page @gap on. */
static void long_list(struct rig *r, struct ohca_hw_aqe *c, uint32_t gap)
{
	uint32_t tables = LONG / OHCA_PL_TABLE_ENTRIES;
	uint64_t root = host_pages(r->h, 1), leaf = host_pages(r->h, tables);
	uint64_t *top = host_ptr(r->h, root), *entry = host_ptr(r->h, leaf);

	assert_true(tables <= OHCA_PL_TABLE_ENTRIES);
	for (uint32_t i = 0; i < tables; i++)
		top[i] = leaf + i * 4096ull;
	for (uint32_t i = 0; i < LONG; i++)
		entry[i] = 0x100000000ull + (i + (i >= gap)) * 4096ull;
	*c = HOST_AQE(reg_mr, .iova = 0x1000, .length = LONG * 4096ull, .access = 1);
	c->reg_mr.pdn = r->h->pdn;
	c->reg_mr.pl.root = root;
	c->reg_mr.pl.npages = LONG;
	c->reg_mr.pl.page_shift = 12;
	c->reg_mr.pl.levels = 2;
}

/* Begins a command and runs it for @polls turns of the engine. */
static void begin(struct rig *r, struct ohca_hw_aqe *c, unsigned int polls)
{
	struct host *h = r->h;

	c->hdr.opcode = OHCA_CMD_REG_MR;
	memcpy((uint8_t *)host_ptr(h, h->aq) + h->aq_pi % 16 * 64, c, sizeof(*c));
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, ++h->aq_pi, 4);
	while (polls--)
		assert_true(ohca_poll(h->e, 64));
}

/* A long page list is loaded in steps, and between them everything else continues. */
static void test_reg_in_steps(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe c;
	uint64_t cmds;
	uint32_t key;

	for (unsigned int i = 0; i < 3; i++) {
		static const uint32_t gap[] = { 1, LONG - 1, LONG };
		struct ohca_mr *mr;

		long_list(r, &c, gap[i]);
		assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, &key), OHCA_ADMIN_OK);
		mr = ohca_mr_get(r->h->e, key);
		assert_int_equal(mr->pages.contig, gap[i] == LONG);
		assert_int_equal(r->h->e->page_entries, gap[i] == LONG ? 0 : LONG);
		for (uint64_t p = 0; p < LONG; p += 511) {
			uint64_t run;

			assert_int_equal(ohca_pages_addr(&mr->pages, p * 4096, &run),
					 0x100000000ull + (p + (p >= gap[i])) * 4096);
		}
		assert_int_equal(dereg(r, key), OHCA_ADMIN_OK);
		assert_int_equal(r->h->e->page_entries, 0);
	}

	/* The command needs several turns. A change of its entry meanwhile has no effect. */
	long_list(r, &c, 1);
	cmds = host_counter(r->h, OHCA_CNT_CMDS);
	begin(r, &c, 3);
	assert_int_equal(host_counter(r->h, OHCA_CNT_CMDS), cmds);
	assert_in_range(r->h->e->job.walk.done, 3 * 8192, LONG - 1);
	memset((uint8_t *)host_ptr(r->h, r->h->aq) + (r->h->aq_pi - 1) % 16 * 64, 0xff, 64);
	for (unsigned int i = 0; i < 100 && ohca_poll(r->h->e, 64); i++)
		;
	assert_int_equal(host_counter(r->h, OHCA_CNT_CMDS), cmds + 1);
	assert_int_equal(host_counter(r->h, OHCA_CNT_CMDS_BAD), 0);
	assert_int_equal(r->h->e->page_entries, LONG);

	/* A list with an error in the middle leaves nothing behind. */
	long_list(r, &c, 1);
	begin(r, &c, 2);
	((uint64_t *)host_ptr(r->h, c.reg_mr.pl.root))[LONG / OHCA_PL_TABLE_ENTRIES - 1] = 8;
	for (unsigned int i = 0; i < 100 && ohca_poll(r->h->e, 64); i++)
		;
	assert_int_equal(host_counter(r->h, OHCA_CNT_CMDS_BAD), 1);
	assert_int_equal(r->h->e->page_entries, LONG);

	/* Nor does a reset. */
	begin(r, &c, 2);
	assert_true(r->h->e->job.walk.done > 0);
	ohca_reset(r->h->e);
	assert_int_equal(r->h->e->job.walk.done, 0);
	assert_int_equal(r->h->e->page_entries, 0);
}

static void test_reg_refused(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe good = HOST_AQE(reg_mr, .iova = 0x1000, .length = 4096,
						.access = 1), c;

	good.reg_mr.pl.root = host_pages(r->h, 2);
	good.reg_mr.pl.npages = 1;
	good.reg_mr.pl.page_shift = 12;
	good.reg_mr.pdn = r->h->pdn;
#define REFUSED(field, value, syn)						\
	c = good;								\
	c.reg_mr.field = (value);						\
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);	\
	assert_int_equal(r->h->syndrome, syn)
	REFUSED(length, 0, 0x20);
	REFUSED(length, (1ull << 40) + 1, 0x20);
	REFUSED(length, ~0ull, 0x20);
	REFUSED(length, 4097, 0x08);
	REFUSED(iova, ~0ull - 4094, 0x18);
	REFUSED(pl_offset, 1, 0x08);			/* the end is past the pages */
	REFUSED(pl_offset, 4096, 0x30);
	REFUSED(pl.npages, 0, 0x08);
	REFUSED(pl.npages, 0xffffffff, 0x08);
	REFUSED(pl.page_shift, 63, 0x30);
	REFUSED(pl.page_shift, 11, 0x08);
	REFUSED(pl.root, 0x1001, 0x08);
	REFUSED(pl.root, 0xfffffffffffff800, 0x08);
	REFUSED(access, OHCA_ACCESS_REMOTE_WRITE, 0x34);
	REFUSED(access, OHCA_ACCESS_REMOTE_ATOMIC, 0x34);
	REFUSED(access, 0x8000, 0x34);
	REFUSED(access, OHCA_ACCESS_ZERO_BASED, 0x18);
	REFUSED(type, 200, 0x08);				/* it has pages */
	REFUSED(pdn, 200, 0x28);
	REFUSED(key, 1, 0x2c);
	REFUSED(rereg, 1, 0x37);
#undef REFUSED
	memset(&c, 0, sizeof(c));
	c.reg_mr.pdn = r->h->pdn;
	c.reg_mr.type = 200;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 0x36);
	/* a process cannot have a DMA region */
	c.reg_mr.type = OHCA_MR_DMA;
	c.reg_mr.pdn = r->upd;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 0x28);
	c.reg_mr.pdn = r->h->pdn;
	c.reg_mr.iova = 1;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.reg_mr.iova = 0;
	c.reg_mr.type = OHCA_MR_FRMR;
	c.reg_mr.length = 4097;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, 0x20);
	assert_int_equal(r->h->e->page_entries, 0);
}

#define REG(member)	offsetof(struct ohca_hw_aqe, reg_mr.member)

/*
 * Fields that a type of region does not use must be zero, and rights that it cannot have are
 * refused.
 */
static void test_reg_by_type(void **state)
{
	struct rig *r = *state;
	const struct ohca_hw_aqe c = HOST_AQE(reg_mr, .pdn = r->h->pdn, .iova = 0x1000,
					      .length = 4096, .pl_offset = 4, .dm = 1);
	static const struct {
		uint8_t type;
		bool iova, length;
		uint32_t pl_offset, dm;
		uint16_t access;
		size_t syn;
	} bad[] = {
		{ .type = OHCA_MR_DMA, .iova = true, .syn = REG(iova) },
		{ .type = OHCA_MR_DMA, .length = true, .syn = REG(length) },
		{ .type = OHCA_MR_DMA, .pl_offset = 4, .syn = REG(pl_offset) },
		{ .type = OHCA_MR_DMA, .dm = 1, .syn = REG(dm) },
		{ .type = OHCA_MR_DMA, .access = OHCA_ACCESS_ZERO_BASED, .syn = REG(access) },
		{ .type = OHCA_MR_DMA, .access = OHCA_ACCESS_MW_BIND, .syn = REG(access) },
		{ .type = OHCA_MR_FRMR, .length = true, .iova = true, .syn = REG(iova) },
		{ .type = OHCA_MR_FRMR, .length = true, .pl_offset = 4, .syn = REG(pl_offset) },
		{ .type = OHCA_MR_FRMR, .syn = REG(length) },
		{ .type = OHCA_MR_MW1, .iova = true, .syn = REG(iova) },
		{ .type = OHCA_MR_MW1, .length = true, .syn = REG(length) },
		{ .type = OHCA_MR_MW1, .access = OHCA_ACCESS_LOCAL_WRITE, .syn = REG(access) },
		{ .type = OHCA_MR_MW2, .length = true, .syn = REG(length) },
		{ .type = OHCA_MR_MW2, .pl_offset = 4, .syn = REG(pl_offset) },
		{ .type = OHCA_MR_MW2, .access = OHCA_ACCESS_REMOTE_READ, .syn = REG(access) },
		{ .type = OHCA_MR_DM, .access = OHCA_ACCESS_ZERO_BASED, .syn = REG(dm) },
		{ .type = OHCA_MR_USER, .length = true, .dm = 1, .syn = REG(dm) },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ohca_hw_aqe x = c;

		x.reg_mr.type = bad[i].type;
		x.reg_mr.iova = bad[i].iova ? c.reg_mr.iova : 0;
		x.reg_mr.length = bad[i].length ? c.reg_mr.length : 0;
		x.reg_mr.pl_offset = bad[i].pl_offset;
		x.reg_mr.dm = bad[i].dm;
		x.reg_mr.access = bad[i].access;
		assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &x, NULL), OHCA_ADMIN_BAD_PARAM);
		assert_int_equal(r->h->syndrome, bad[i].syn);
	}
	assert_int_equal(r->h->e->page_entries, 0);
	/* the largest one, and a region of all memory with every right that it may have */
	dereg(r, reg(r, OHCA_MR_FRMR, r->h->pdn, 0, OHCA_MAX_FRMR_PAGES));
	dereg(r, reg(r, OHCA_MR_DMA, r->h->pdn, RW, 0));
}

/* Types and rights of features that the driver has not acknowledged. */
static void test_reg_features(void **state)
{
	static const struct {
		unsigned int feature;
		uint8_t type;
		uint16_t access;
		size_t syn;
	} bad[] = {
		{ OHCA_FEATURE_FRMR, OHCA_MR_FRMR, 0, REG(type) },
		{ OHCA_FEATURE_MW, OHCA_MR_MW1, 0, REG(type) },
		{ OHCA_FEATURE_MW, OHCA_MR_MW2, 0, REG(type) },
		{ OHCA_FEATURE_DM, OHCA_MR_DM, 0, REG(type) },
		{ OHCA_FEATURE_ODP, OHCA_MR_ODP, 0, REG(type) },
		{ OHCA_FEATURE_MPE, OHCA_MR_DMA, OHCA_ACCESS_FLUSH_GLOBAL, REG(access) },
		{ OHCA_FEATURE_MPE, OHCA_MR_DMA, OHCA_ACCESS_FLUSH_PERSISTENT, REG(access) },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct host *h = host_new(1, 0x100);
		struct ohca_hw_aqe c;

		host_start_with(h, ~(1ull << bad[i].feature));
		c = HOST_AQE(reg_mr, .pdn = h->pdn, .type = bad[i].type, .access = bad[i].access,
			     .length = bad[i].type == OHCA_MR_FRMR ? 4 : 0);
		assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
		assert_int_equal(h->syndrome, bad[i].syn);
		host_free(h);
	}
}

static void test_limit_and_tags(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .type = OHCA_MR_DMA, .pdn = r->h->pdn);
	uint32_t key = 0, again, n = 0;

	while (cmd(r, OHCA_CMD_REG_MR, &c, &key) == OHCA_ADMIN_OK) {
		assert_int_not_equal(key >> 8, 0);
		assert_int_not_equal(key >> 8, OHCA_LOCAL_DMA_LKEY >> 8);
		n++;
	}
	assert_int_equal(n, 1022);
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, &again), OHCA_ADMIN_NO_RESOURCE);
	/* the same index gets another tag, and the old key is invalid */
	key = 500 << 8 | 1;
	assert_int_equal(dereg(r, key), OHCA_ADMIN_OK);
	assert_int_equal(dereg(r, key), OHCA_ADMIN_BAD_HANDLE);
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, &again), OHCA_ADMIN_OK);
	assert_int_equal(again, 500 << 8 | 2);
	assert_int_equal(lkey(r, r->k, key, 0, 1, false), OHCA_VE_LKEY);
	assert_int_equal(lkey(r, r->k, again, 0, 1, false), OHCA_VE_NONE);
	assert_int_equal(dereg(r, key), OHCA_ADMIN_BAD_HANDLE);
	/* the reserved key cannot be deregistered */
	assert_int_equal(dereg(r, OHCA_LOCAL_DMA_LKEY), OHCA_ADMIN_BAD_HANDLE);
}

/* ---- page lists ---- */

static void check_list(struct rig *r, uint64_t len, uint32_t off)
{
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .iova = 0x7000000000ull + off, .length = len - off,
					     .pdn = r->h->pdn, .pl_offset = off,
					     .access = RW);
	uint8_t *want = malloc(len), *got = calloc(1, len);
	struct ohca_mr_range range;
	struct host_buf b;
	uint32_t key;

	for (uint64_t i = 0; i < len; i++)
		want[i] = (uint8_t)(i * 7 + i / 4096);
	host_buf_alloc(r->h, &b, len);
	c.reg_mr.pl = b.pl;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(ohca_lkey_check(r->h->e, r->k, r->k->pd, key, c.reg_mr.iova, len - off,
					 true, &range), 0);
	assert_int_equal(ohca_mr_write(r->h->e, &range, 0, want + off, len - off, NULL), 0);
	host_buf_read(r->h, &b, off, got, len - off);
	assert_memory_equal(got, want + off, len - off);
	memset(got, 0, len);
	assert_int_equal(ohca_mr_read(r->h->e, &range, 3, got, len - off - 3, NULL), 0);
	assert_memory_equal(got, want + off + 3, len - off - 3);
	/* not a byte past the range */
	assert_int_equal(ohca_mr_read(r->h->e, &range, 1, got, len - off, NULL), -1);
	assert_int_equal(ohca_mr_read(r->h->e, &range, ~0ull, got, 2, NULL), -1);
	assert_int_equal(dereg(r, key), OHCA_ADMIN_OK);
	assert_int_equal(r->h->e->page_entries, 0);
	host_buf_free(&b);
	free(want);
	free(got);
}

static void test_lists(void **state)
{
	struct rig *r = *state;

	check_list(r, 5000, 0);
	check_list(r, 40000, 777);
	r->h->scatter = true;
	check_list(r, 5000, 1);
	check_list(r, 512 * 4096, 4095);		/* one full table */
	check_list(r, 513 * 4096, 0);			/* two levels */
	r->h->pieces = true;
	check_list(r, 60000, 5);
}

/* Three levels; a list that is contiguous needs no array. */
static void test_deep_list(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .iova = 0, .length = 600 * 4096,
					     .pdn = r->h->pdn, .access = 1);
	struct host_buf b;
	uint64_t l2, l3;
	uint32_t key;

	r->h->scatter = true;
	host_buf_alloc(r->h, &b, 600 * 4096);
	assert_int_equal(b.pl.levels, 2);
	l3 = host_pages(r->h, 1);
	memcpy(host_ptr(r->h, l3), &b.pl.root, 8);
	c.reg_mr.pl = b.pl;
	c.reg_mr.pl.root = l3;
	c.reg_mr.pl.levels = 3;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(r->h->e->page_entries, 600);
	assert_int_equal(dereg(r, key), OHCA_ADMIN_OK);

	/* the same, contiguous */
	for (uint64_t t = 0; t < 2; t++) {
		l2 = *(uint64_t *)host_ptr(r->h, b.pl.root + 8 * t);
		for (uint64_t i = 0; i < 512; i++)
			((uint64_t *)host_ptr(r->h, l2))[i] = HOST_BASE + (t * 512 + i) * 4096;
	}
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(r->h->e->page_entries, 0);
	assert_int_equal(dereg(r, key), OHCA_ADMIN_OK);
	host_buf_free(&b);
}

/* Huge pages: 2 MiB each, not in order, and the region begins inside the first. */
static void test_huge_pages(void **state)
{
	const uint64_t huge = 2u << 20, off = 12345;
	struct rig *r = *state;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .iova = 0x10000000 + off, .length = 2 * huge - off,
					     .pdn = r->h->pdn, .pl_offset = off, .access = RW);
	uint64_t page[2] = { HOST_BASE + 2 * huge, HOST_BASE + huge };
	struct ohca_mr_range range;
	uint8_t got[100], want[100];
	uint32_t key;

	for (unsigned int i = 0; i < sizeof(want); i++)
		want[i] = (uint8_t)(i + 1);
	assert_true(r->h->mem_size >= 3 * huge);
	/* the table does not overlap the pages */
	c.reg_mr.pl.root = host_pages(r->h, 1);
	assert_true(c.reg_mr.pl.root < page[1]);
	memcpy(host_ptr(r->h, c.reg_mr.pl.root), page, sizeof(page));
	c.reg_mr.pl.npages = 2;
	c.reg_mr.pl.page_shift = 21;
	c.reg_mr.pl.levels = 1;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(r->h->e->page_entries, 2);
	assert_int_equal(ohca_lkey_check(r->h->e, r->k, r->k->pd, key, c.reg_mr.iova,
					 c.reg_mr.length, true, &range), 0);
	/* at the start, and across the border of the two */
	assert_int_equal(ohca_mr_write(r->h->e, &range, 0, want, 100, NULL), 0);
	assert_memory_equal(host_ptr(r->h, page[0] + off), want, 100);
	assert_int_equal(ohca_mr_write(r->h->e, &range, huge - off - 50, want, 100, NULL), 0);
	assert_memory_equal(host_ptr(r->h, page[0] + huge - 50), want, 50);
	assert_memory_equal(host_ptr(r->h, page[1]), want + 50, 50);
	assert_int_equal(ohca_mr_read(r->h->e, &range, huge - off - 50, got, 100, NULL), 0);
	assert_memory_equal(got, want, 100);
	assert_int_equal(lkey(r, r->k, key, c.reg_mr.iova + c.reg_mr.length, 1, false),
			 OHCA_VE_BOUNDS);
	assert_int_equal(dereg(r, key), OHCA_ADMIN_OK);
	/* a page without the alignment of its size */
	page[1] += 4096;
	memcpy(host_ptr(r->h, c.reg_mr.pl.root), page, sizeof(page));
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->e->page_entries, 0);
}

static void test_hostile_lists(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .length = 1ull << 39, .pdn = r->h->pdn,
					     .access = 1);
	uint64_t table = host_pages(r->h, 1);
	__le64 *p = host_ptr(r->h, table);

	/* a table that names itself, 2^27 times */
	for (int i = 0; i < 512; i++)
		p[i] = table;
	c.reg_mr.pl.root = table;
	c.reg_mr.pl.npages = 1u << 27;
	c.reg_mr.pl.page_shift = 12;
	c.reg_mr.pl.levels = 3;
	/*
	 * the sanitizer copies an allocation that is made smaller, so the list must not become very
	 * long
	 */
	r->h->e->mem_max = r->h->e->mem_used + (4u << 20);
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_NO_RESOURCE);
	assert_int_equal(r->h->e->page_entries, 0);
	r->h->e->mem_max = OHCA_MEM_DEFAULT;
	/* more pages than the levels can hold */
	c.reg_mr.length = 513 * 4096;
	c.reg_mr.pl.npages = 513;
	c.reg_mr.pl.levels = 1;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.reg_mr.pl.npages = (1u << 27) + 1;
	c.reg_mr.pl.levels = 3;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	/* tables and pages that have no alignment, do not exist, are past the end of everything */
	c.reg_mr.pl.npages = 513;
	c.reg_mr.pl.levels = 2;
	p[1] = table + 8;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	p[1] = 0x1000;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_DMA);
	assert_int_equal(r->h->syndrome, 8);
	c.reg_mr.pl.levels = 1;
	c.reg_mr.pl.npages = 512;
	c.reg_mr.length = 512 * 4096;
	p[1] = table;
	p[511] = 0x1001;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	p[511] = 0xfffffffffffff000;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_OK);
	c.reg_mr.pl.root = 0xfffffffffffff000;
	c.reg_mr.pl.levels = 0;
	assert_int_equal(cmd(r, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->e->page_entries, 512);
}

/* ---- keys ---- */

static void test_local_keys(void **state)
{
	struct rig *r = *state;
	struct host_mr ro, rw;

	host_mr_create(r->h, &ro, 10000, r->upd, 0);
	host_mr_create(r->h, &rw, 10000, r->upd, OHCA_ACCESS_LOCAL_WRITE);
	assert_int_equal(lkey(r, r->u, ro.key, ro.iova, 10000, false), 0);
	assert_int_equal(lkey(r, r->u, ro.key, ro.iova, 1, true), OHCA_VE_ACCESS);
	assert_int_equal(lkey(r, r->u, rw.key, rw.iova + 9999, 1, true), 0);
	assert_int_equal(lkey(r, r->u, rw.key, rw.iova + 10000, 0, true), 0);
	assert_int_equal(lkey(r, r->u, rw.key, rw.iova + 10000, 1, true), OHCA_VE_BOUNDS);
	assert_int_equal(lkey(r, r->u, rw.key, rw.iova - 1, 1, true), OHCA_VE_BOUNDS);
	assert_int_equal(lkey(r, r->u, rw.key, rw.iova + 1, ~0ull, true), OHCA_VE_BOUNDS);
	assert_int_equal(lkey(r, r->u, rw.key, ~0ull, 2, true), OHCA_VE_BOUNDS);
	assert_int_equal(lkey(r, r->k, rw.key, rw.iova, 1, true), OHCA_VE_PD);
	assert_int_equal(lkey(r, r->u, rw.key + 1, rw.iova, 1, true), OHCA_VE_LKEY);
	assert_int_equal(lkey(r, r->u, 0xffffffff, 0, 1, true), OHCA_VE_LKEY);
	assert_int_equal(lkey(r, r->u, 0, 0, 1, true), OHCA_VE_LKEY);
	/* the reserved key: for the kernel only, and never remote */
	assert_int_equal(lkey(r, r->k, OHCA_LOCAL_DMA_LKEY, HOST_BASE, 100, true), 0);
	assert_int_equal(lkey(r, r->k, OHCA_LOCAL_DMA_LKEY, ~0ull, 2, true), OHCA_VE_BOUNDS);
	assert_int_equal(lkey(r, r->u, OHCA_LOCAL_DMA_LKEY, HOST_BASE, 100, true),
			 OHCA_VE_LKEY);
	assert_int_equal(rkey(r, r->k, OHCA_LOCAL_DMA_LKEY, HOST_BASE, 100,
			      OHCA_ACCESS_REMOTE_READ), OHCA_VE_LKEY);
	host_buf_free(&ro.buf);
	host_buf_free(&rw.buf);
}

static void test_remote_keys(void **state)
{
	struct rig *r = *state;
	struct host_mr mr, zb;

	host_mr_create(r->h, &mr, 10000, r->upd, OHCA_ACCESS_REMOTE_READ);
	assert_int_equal(rkey(r, r->u, mr.key, mr.iova, 10000, OHCA_ACCESS_REMOTE_READ), 0);
	assert_int_equal(rkey(r, r->u, mr.key, mr.iova, 10001, OHCA_ACCESS_REMOTE_READ),
			 OHCA_VE_BOUNDS);
	assert_int_equal(rkey(r, r->u, mr.key, mr.iova, 1, OHCA_ACCESS_REMOTE_WRITE),
			 OHCA_VE_ACCESS);
	assert_int_equal(rkey(r, r->u, mr.key, mr.iova, 8, OHCA_ACCESS_REMOTE_ATOMIC),
			 OHCA_VE_ACCESS);
	assert_int_equal(rkey(r, r->k, mr.key, mr.iova, 1, OHCA_ACCESS_REMOTE_READ),
			 OHCA_VE_PD);
	host_mr_create(r->h, &zb, 10000, r->upd,
		       OHCA_ACCESS_REMOTE_READ | OHCA_ACCESS_ZERO_BASED);
	assert_int_equal(rkey(r, r->u, zb.key, 0, 10000, OHCA_ACCESS_REMOTE_READ), 0);
	assert_int_equal(rkey(r, r->u, zb.key, 10000, 1, OHCA_ACCESS_REMOTE_READ),
			 OHCA_VE_BOUNDS);
	host_buf_free(&mr.buf);
	host_buf_free(&zb.buf);
}

static void test_atomics(void **state)
{
	struct rig *r = *state;
	const struct ohca_atomic add = { .op = OHCA_OP_FETCH_ADD, .swap_add = 1 };
	const struct ohca_atomic sub = { .op = OHCA_OP_FETCH_ADD, .swap_add = ~0ull };
	struct ohca_atomic swap = { .op = OHCA_OP_CMP_SWAP, .swap_add = 1000, .compare = 4 };
	struct ohca_mr_range range;
	struct host_mr mr;
	uint64_t v = 5, old;

	host_mr_create(r->h, &mr, 100, r->h->pdn, RW);
	host_buf_write(r->h, &mr.buf, 8, &v, 8);
	assert_int_equal(ohca_rkey_check(r->h->e, r->k, r->k->pd, mr.key, mr.iova + 8, 8,
					 OHCA_ACCESS_REMOTE_ATOMIC, &range), 0);
	assert_int_equal(ohca_mr_atomic(r->h->e, &range, &sub, &old, NULL), 0);
	assert_int_equal(old, 5);
	assert_int_equal(ohca_mr_atomic(r->h->e, &range, &swap, &old, NULL), 0);
	assert_int_equal(old, 4);
	swap.swap_add = 2000;
	assert_int_equal(ohca_mr_atomic(r->h->e, &range, &swap, &old, NULL), 0);
	assert_int_equal(old, 1000);
	host_buf_read(r->h, &mr.buf, 8, &v, 8);
	assert_int_equal(v, 1000);
	/* memory that is not contiguous where the atomic is */
	assert_int_equal(ohca_rkey_check(r->h->e, r->k, r->k->pd, mr.key, mr.iova + 9, 8,
					 OHCA_ACCESS_REMOTE_ATOMIC, &range), 0);
	assert_int_equal(ohca_mr_atomic(r->h->e, &range, &add, &old, NULL), -1);
	host_buf_free(&mr.buf);
}

/* ---- scatter and gather ---- */

static void test_sgl(void **state)
{
	struct rig *r = *state;
	uint8_t want[9000], got[9000];
	struct ohca_sge sge[4];
	struct host_mr mr;

	r->h->scatter = true;
	host_mr_create(r->h, &mr, 20000, r->upd, OHCA_ACCESS_LOCAL_WRITE);
	for (unsigned int i = 0; i < sizeof(want); i++)
		want[i] = (uint8_t)(i * 13 + i / 256);
	/* 4000 bytes, none, 100, 4900: pieces across pages and SGEs */
	sge[0] = (struct ohca_sge){ mr.iova + 10, 4000, mr.key };
	sge[1] = (struct ohca_sge){ 0, 0, 0 };
	sge[2] = (struct ohca_sge){ mr.iova + 5000, 100, mr.key };
	sge[3] = (struct ohca_sge){ mr.iova + 9000, 4900, mr.key };
	for (uint32_t off = 0; off < 9000; off += 1000)
		assert_int_equal(ohca_sgl_scatter(r->h->e, r->u, r->u->pd, sge, 4, off, want + off,
						  1000, NULL), 0);
	for (uint32_t off = 0; off < 9000; off += 450)
		assert_int_equal(ohca_sgl_gather(r->h->e, r->u, sge, 4, off, got + off, 450,
						 NULL), 0);
	assert_memory_equal(got, want, sizeof(want));
	host_buf_read(r->h, &mr.buf, 5000, got, 100);
	assert_memory_equal(got, want + 4000, 100);
	/* more than there is, an invalid key, an address that wraps */
	assert_int_equal(ohca_sgl_gather(r->h->e, r->u, sge, 4, 8999, got, 2, NULL),
			 OHCA_VE_LENGTH);
	assert_int_equal(ohca_sgl_gather(r->h->e, r->u, sge, 4, 0xffffffff, got, 1, NULL),
			 OHCA_VE_LENGTH);
	sge[2].lkey ^= 1;
	assert_int_equal(ohca_sgl_gather(r->h->e, r->u, sge, 4, 3999, got, 2, NULL), OHCA_VE_LKEY);
	assert_int_equal(ohca_sgl_gather(r->h->e, r->u, sge, 4, 3999, got, 1, NULL), 0);
	sge[0] = (struct ohca_sge){ ~0ull, 4000, OHCA_LOCAL_DMA_LKEY };
	assert_int_equal(ohca_sgl_gather(r->h->e, r->k, sge, 1, 8, got, 1, NULL), OHCA_VE_BOUNDS);
	/* memory that was removed */
	sge[0] = (struct ohca_sge){ mr.iova, 4000, mr.key };
	r->h->hole = mr.buf.page[0];
	r->h->hole_len = 4096;
	assert_int_equal(ohca_sgl_scatter(r->h->e, r->u, r->u->pd, sge, 1, 0, want, 4000, NULL),
			 OHCA_VE_DMA);
	host_buf_free(&mr.buf);
}

/* ---- fast registration ---- */

static void test_fast_reg(void **state)
{
	struct rig *r = *state;
	uint32_t key = reg(r, OHCA_MR_FRMR, r->h->pdn, 0, 8), key2;
	struct ohca_hw_wqe_reg w = { .access = RW, .iova = 0x5000, .length = 8 * 4096 };
	struct ohca_hw_wqe_reg bind = { .access = OHCA_ACCESS_REMOTE_READ, .iova = 0x5000,
					.length = 10 };
	struct host_buf b;

	r->h->scatter = true;
	host_buf_alloc(r->h, &b, 8 * 4096);
	w.pl = b.pl;
	w.key = key2 = (key & ~0xffu) | 0x77;
	assert_int_equal(lkey(r, r->k, key, 0x5000, 1, true), OHCA_VE_LKEY);
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->u, &w), OHCA_VE_WQE_OPCODE);
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), 0);
	assert_int_equal(lkey(r, r->k, key, 0x5000, 1, true), OHCA_VE_LKEY);
	assert_int_equal(lkey(r, r->k, key2, 0x5000, 8 * 4096, true), 0);
	assert_int_equal(rkey(r, r->k, key2, 0x5000, 8 * 4096, OHCA_ACCESS_REMOTE_WRITE), 0);
	/* in use: it must be invalidated first */
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_MR_STATE);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->k, key, false), OHCA_VE_LKEY);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->u, key2, true), OHCA_VE_PD);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->k, key2, false), 0);
	assert_int_equal(lkey(r, r->k, key2, 0x5000, 1, true), OHCA_VE_LKEY);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->k, key2, true), OHCA_VE_MR_STATE);
	assert_int_equal(r->h->e->page_entries, 0);
	/* the peer invalidates only what it has access to */
	w.access = OHCA_ACCESS_LOCAL_WRITE;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), 0);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->k, key2, true), OHCA_VE_MR_STATE);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->k, key2, false), 0);
	/* what cannot be registered */
	w.length = 0;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_BOUNDS);
	w.length = 100;
	w.iova = ~0ull - 98;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_BOUNDS);
	w.iova = 0x5000;
	w.pl_offset = 4096;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_BOUNDS);
	w.pl_offset = 0;
	w.mr_key = 1;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_WQE_FLAGS);
	w.mr_key = 0;
	w.length = 8 * 4096 + 1;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_BOUNDS);
	w.length = 100;
	w.pl.npages = 9;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_BOUNDS);
	w.pl.npages = 8;
	w.access = OHCA_ACCESS_REMOTE_WRITE;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_ACCESS);
	w.access = 1;
	w.pl.root = 0x1000;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_DMA);
	w.key = 0xfffffff0;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_LKEY);
	/* of another PD; not a region of this kind, nor one that can be invalidated */
	w.key = reg(r, OHCA_MR_FRMR, r->upd, 0, 8);
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_PD);
	assert_int_equal(dereg(r, w.key), OHCA_ADMIN_OK);
	/* only the kernel invalidates its regions, and none with a window */
	w.key = reg(r, OHCA_MR_FRMR, r->upd, 0, 8);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->u, w.key, false), OHCA_VE_WQE_OPCODE);
	assert_int_equal(dereg(r, w.key), OHCA_ADMIN_OK);
	w.key = key2;
	w.access = OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_MW_BIND;
	w.length = 100;
	w.pl = b.pl;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), 0);
	bind.key = reg(r, OHCA_MR_MW2, r->h->pdn, 0, 0);
	bind.mr_key = key2;
	assert_int_equal(ohca_mw_bind(r->h->e, r->k, &bind), 0);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->k, key2, false), OHCA_VE_MR_STATE);
	assert_int_equal(rkey(r, r->k, bind.key, 0x5000, 10, OHCA_ACCESS_REMOTE_READ), 0);
	assert_int_equal(dereg(r, bind.key), OHCA_ADMIN_OK);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->k, key2, false), 0);
	w.key = reg(r, OHCA_MR_DMA, r->h->pdn, RW, 0);
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_LKEY);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->k, w.key, false), OHCA_VE_LKEY);
	assert_int_equal(dereg(r, w.key), OHCA_ADMIN_OK);
	/* deregistered by its index, whatever its tag is now */
	assert_int_equal(dereg(r, key), OHCA_ADMIN_OK);
	host_buf_free(&b);
}

/* More pages than one table lists, and one more than the region was made for. */
static void test_fast_reg_long(void **state)
{
	const uint32_t n = 600;
	struct rig *r = *state;
	uint32_t key = reg(r, OHCA_MR_FRMR, r->h->pdn, 0, n);
	struct ohca_hw_wqe_reg w = { .key = key, .access = RW | OHCA_ACCESS_ZERO_BASED,
				     .length = (n + 1) * 4096ull };
	struct ohca_mr_range range;
	struct host_buf b;
	uint64_t v = 0x1122334455667788ull, got;

	r->h->scatter = true;
	host_buf_alloc(r->h, &b, (n + 1) * 4096ull);
	assert_int_equal(b.pl.levels, 2);
	w.pl = b.pl;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), OHCA_VE_BOUNDS);
	w.pl.npages = n;
	w.length = n * 4096ull;
	assert_int_equal(ohca_mr_fast_reg(r->h->e, r->k, &w), 0);
	assert_int_equal(r->h->e->page_entries, n);
	for (uint64_t off = 0; off < w.length; off += 511 * 4096) {
		assert_int_equal(ohca_rkey_check(r->h->e, r->k, r->k->pd, key, off, 8,
						 OHCA_ACCESS_REMOTE_WRITE, &range), 0);
		assert_int_equal(ohca_mr_write(r->h->e, &range, 0, &v, 8, NULL), 0);
		host_buf_read(r->h, &b, off, &got, 8);
		assert_int_equal(got, v);
	}
	assert_int_equal(rkey(r, r->k, key, w.length, 1, OHCA_ACCESS_REMOTE_WRITE),
			 OHCA_VE_BOUNDS);
	assert_int_equal(ohca_mr_invalidate(r->h->e, r->k, key, false), 0);
	assert_int_equal(r->h->e->page_entries, 0);
	assert_int_equal(dereg(r, key), OHCA_ADMIN_OK);
	host_buf_free(&b);
}

/* A device does not offer features that it lacks, and its driver cannot acknowledge them. */
static void test_lacks(void **state)
{
	const uint64_t bit = 1ull << OHCA_FEATURE_ODP;
	struct rig *r = *state;
	struct ohca_cfg cfg = r->h->cfg;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .type = OHCA_MR_ODP, .access = RW);
	struct host *h;

	assert_true(ohca_mmio_read(r->h->e, OHCA_REG_FEATURES, 8) & bit);
	cfg.dm_size = 0;
	cfg.lacks = bit;
	h = host_new_cfg(&cfg, HOST_MEM);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_FEATURES, 8),
			 ohca_mmio_read(r->h->e, OHCA_REG_FEATURES, 8) &
			 ~(bit | 1ull << OHCA_FEATURE_DM));
	host_enable(h, ~0ull);
	assert_false(ohca_mmio_read(h->e, OHCA_REG_FEATURES_ACK, 8) & bit);
	assert_int_not_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, NULL), OHCA_ADMIN_OK);
	host_free(h);
}

/* ---- changing a region ---- */

static void test_rereg(void **state)
{
	struct rig *r = *state;
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .rereg = OHCA_REREG_ACCESS, .access = RW);
	struct ohca_mr_range range;
	struct host_mr mr;
	struct host_buf b;
	uint32_t key;
	char got[3];

	host_mr_create(r->h, &mr, 10000, r->upd, 0);
	c.reg_mr.key = mr.key;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(key, mr.key);
	assert_int_equal(lkey(r, r->u, key, mr.iova, 10000, true), 0);
	c.reg_mr.rereg = OHCA_REREG_PD;
	c.reg_mr.access = 0;
	c.reg_mr.pdn = r->h->pdn;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(lkey(r, r->u, key, mr.iova, 1, true), OHCA_VE_PD);
	assert_int_equal(lkey(r, r->k, key, mr.iova, 1, true), 0);
	assert_int_equal(ohca_pd_get(r->h->e, r->upd)->refs, 2);	/* those of its QPs */
	host_buf_alloc(r->h, &b, 50000);
	c.reg_mr.rereg = OHCA_REREG_TRANS;
	c.reg_mr.iova = 0x123456;
	c.reg_mr.length = 50000;
	c.reg_mr.pl = b.pl;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, &key), OHCA_ADMIN_OK);
	assert_int_equal(lkey(r, r->k, key, 0x123456, 50000, true), 0);
	assert_int_equal(lkey(r, r->k, key, mr.iova, 1, true), OHCA_VE_BOUNDS);
	/* at an offset */
	c.reg_mr.length = 100;
	c.reg_mr.pl_offset = 77;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, &key), OHCA_ADMIN_OK);
	host_buf_write(r->h, &b, 80, "abc", 3);
	assert_int_equal(ohca_lkey_check(r->h->e, r->k, r->k->pd, key, 0x123456 + 3, 3, false, &range), 0);
	assert_int_equal(ohca_mr_read(r->h->e, &range, 0, got, 3, NULL), 0);
	assert_memory_equal(got, "abc", 3);
	c.reg_mr.pl_offset = 0;
	c.reg_mr.length = 50000;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, &key), OHCA_ADMIN_OK);
	/* one with a window stays as it is */
	ohca_mr_get(r->h->e, key)->refs++;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BUSY);
	ohca_mr_get(r->h->e, key)->refs--;
	/* a command with an error changes nothing */
	c.reg_mr.rereg = 0;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, REG(rereg));
	c.reg_mr.rereg = OHCA_REREG_ACCESS;
	c.reg_mr.access = OHCA_ACCESS_REMOTE_WRITE;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, REG(access));
	c.reg_mr.access = 0;
	c.reg_mr.dm = 1;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(r->h->syndrome, REG(dm));
	c.reg_mr.dm = 0;
	c.reg_mr.type = OHCA_MR_DMA;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.reg_mr.type = OHCA_MR_USER;
	c.reg_mr.rereg = OHCA_REREG_PD;
	c.reg_mr.pdn = 255;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.reg_mr.rereg = OHCA_REREG_TRANS;
	c.reg_mr.length = 60000;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(lkey(r, r->k, key, 0x123456, 50000, true), 0);
	c.reg_mr.rereg = 8;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.reg_mr.rereg = OHCA_REREG_ACCESS;
	c.reg_mr.access = OHCA_ACCESS_ZERO_BASED;
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	c.reg_mr.key = reg(r, OHCA_MR_DMA, r->h->pdn, 0, 0);
	assert_int_equal(cmd(r, OHCA_CMD_REREG_MR, &c, NULL), OHCA_ADMIN_BAD_HANDLE);
	host_buf_free(&mr.buf);
	host_buf_free(&b);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(reg_in_steps), T(reg_refused), T(reg_by_type), cmocka_unit_test(test_reg_features),
		T(limit_and_tags), T(lists), T(deep_list),
		T(huge_pages), T(hostile_lists),
		T(local_keys), T(remote_keys), T(atomics), T(sgl), T(fast_reg), T(fast_reg_long),
		T(lacks), T(rereg),
	};

	return cmocka_run_group_tests_name("memory regions", tests, NULL, NULL);
}
