// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Page lists: number of tables, their links, the page list for the command. */
#include <linux/dma-mapping.h>
#include <kunit/device.h>

#include "buf.h"
#include "ohca_test.h"

static void pl_levels(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, ohca_pl_levels(1));
	KUNIT_EXPECT_EQ(test, 1, ohca_pl_levels(2));
	KUNIT_EXPECT_EQ(test, 1, ohca_pl_levels(512));
	KUNIT_EXPECT_EQ(test, 2, ohca_pl_levels(513));
	KUNIT_EXPECT_EQ(test, 2, ohca_pl_levels(512 * 512));
	KUNIT_EXPECT_EQ(test, 3, ohca_pl_levels(512 * 512 + 1));
	KUNIT_EXPECT_EQ(test, 3, ohca_pl_levels(1ull << 27));
	KUNIT_EXPECT_GT(test, ohca_pl_levels((1ull << 27) + 1), OHCA_PL_MAX_LEVELS);
	KUNIT_EXPECT_GT(test, ohca_pl_levels(U64_MAX), OHCA_PL_MAX_LEVELS);
}

static void pl_tables(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, ohca_pl_tables(1));
	KUNIT_EXPECT_EQ(test, 1, ohca_pl_tables(512));
	KUNIT_EXPECT_EQ(test, 2 + 1, ohca_pl_tables(513));
	KUNIT_EXPECT_EQ(test, 512 + 1, ohca_pl_tables(512 * 512));
	KUNIT_EXPECT_EQ(test, 513 + 2 + 1, ohca_pl_tables(512 * 512 + 1));
}

/* A list whose tables are at bus addresses 1 << 40 | index << 12. */
static struct ohca_pl *fake_pl(struct kunit *test, u64 capacity)
{
	struct ohca_pl *pl = ohca_test_alloc(test, sizeof(*pl));
	u32 i;

	pl->capacity = capacity;
	pl->ntables = ohca_pl_tables(capacity);
	pl->tables = kunit_kcalloc(test, pl->ntables + 1, sizeof(*pl->tables), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pl->tables);
	for (i = 0; i < pl->ntables; i++) {
		pl->tables[i].va = ohca_test_alloc(test, OHCA_PL_TABLE_SIZE);
		pl->tables[i].dma = 1ull << 40 | (u64)i << 12;
	}
	ohca_pl_link(pl);
	return pl;
}

/* Returns the address of page @i by a walk through the tables, like the device. */
static u64 walk(struct kunit *test, const struct ohca_pl *pl, u64 i)
{
	u64 addr = le64_to_cpu(pl->hw.root);
	u32 level;

	for (level = pl->hw.levels; level; level--) {
		u32 table = (addr & ~(1ull << 40)) >> 12;

		KUNIT_ASSERT_LT(test, table, pl->ntables);
		addr = le64_to_cpu(pl->tables[table].va[(i >> (9 * (level - 1))) % 512]);
	}
	return addr;
}

static void check_pl(struct kunit *test, struct ohca_pl *pl, u32 npages, u8 levels)
{
	u32 i;

	for (i = 0; i < npages; i++)
		ohca_pl_set(pl, i, (u64)(i + 7) << 16);
	ohca_pl_finish(pl, npages, 16);
	KUNIT_EXPECT_EQ(test, npages, le32_to_cpu(pl->hw.npages));
	KUNIT_EXPECT_EQ(test, 16, pl->hw.page_shift);
	KUNIT_ASSERT_EQ(test, levels, pl->hw.levels);
	for (i = 0; i < npages; i += max(1u, npages / 97))
		KUNIT_ASSERT_EQ(test, (u64)(i + 7) << 16, walk(test, pl, i));
	KUNIT_ASSERT_EQ(test, (u64)(npages - 1 + 7) << 16, walk(test, pl, npages - 1));
}

static void pl_walk(struct kunit *test)
{
	check_pl(test, fake_pl(test, 1), 1, 0);
	check_pl(test, fake_pl(test, 2), 2, 1);
	check_pl(test, fake_pl(test, 512), 512, 1);
	check_pl(test, fake_pl(test, 513), 513, 2);
	check_pl(test, fake_pl(test, 5000), 5000, 2);
	check_pl(test, fake_pl(test, 512 * 512 + 3), 512 * 512 + 3, 3);
}

/* A list with the capacity for many pages, as for a fast registration, lists few. */
static void pl_reuse(struct kunit *test)
{
	struct ohca_pl *pl = fake_pl(test, 4096);

	check_pl(test, pl, 4096, 2);
	check_pl(test, pl, 1, 0);
	check_pl(test, pl, 512, 1);
	check_pl(test, pl, 513, 2);
	check_pl(test, pl, 2, 1);
}

/* If a page of the kernel is larger than a table, tables share pages. */
static void pl_pieces(struct kunit *test)
{
	struct device *dma = kunit_device_register(test, "ohca-buf");
	const u32 n = 37, per_piece = 16;
	u32 i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dma);
	dma->coherent_dma_mask = DMA_BIT_MASK(64);
	for (i = 1; i <= per_piece; i *= 4) {
		struct ohca_pl pl = { .ntables = n, .per_piece = i };
		u32 t;

		KUNIT_ASSERT_EQ(test, 0, ohca_pl_alloc_tables(dma, &pl));
		for (t = 0; t < n; t++) {
			const struct ohca_table *first = &pl.tables[t - t % i];
			size_t off = t % i * OHCA_PL_TABLE_SIZE;

			KUNIT_EXPECT_TRUE(test, IS_ALIGNED(pl.tables[t].dma, OHCA_PL_TABLE_SIZE));
			KUNIT_EXPECT_EQ(test, first->dma + off, pl.tables[t].dma);
			KUNIT_EXPECT_PTR_EQ(test, (void *)first->va + off, (void *)pl.tables[t].va);
			/* KASAN checks the bounds; DMA debugging checks that all is freed */
			memset(pl.tables[t].va, 0xff, OHCA_PL_TABLE_SIZE);
		}
		ohca_pl_free_tables(dma, &pl);
	}
}

static void buf_at_pieces(struct kunit *test)
{
	struct ohca_buf buf = { .size = 3 * PAGE_SIZE, .npages = 3 };
	void *pages[3];
	u32 i;

	for (i = 0; i < 3; i++)
		pages[i] = ohca_test_alloc(test, PAGE_SIZE);
	buf.pages = pages;
	KUNIT_EXPECT_PTR_EQ(test, pages[0], ohca_buf_at(&buf, 0));
	KUNIT_EXPECT_PTR_EQ(test, pages[1] + 64, ohca_buf_at(&buf, PAGE_SIZE + 64));
	KUNIT_EXPECT_PTR_EQ(test, pages[2] + PAGE_SIZE - 64,
			    ohca_buf_at(&buf, 3 * PAGE_SIZE - 64));
}

static struct kunit_case buf_cases[] = {
	KUNIT_CASE(pl_levels),
	KUNIT_CASE(pl_tables),
	KUNIT_CASE(pl_walk),
	KUNIT_CASE(pl_reuse),
	KUNIT_CASE(pl_pieces),
	KUNIT_CASE(buf_at_pieces),
	{}
};

static struct kunit_suite buf_suite = {
	.name = "ohca-buf",
	.test_cases = buf_cases,
};

kunit_test_suite(buf_suite);
