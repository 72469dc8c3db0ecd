// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory regions: refused deregistration, and page sizes of fast registrations. */
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>

#include "fake.h"
#include "fatal.h"
#include "mr.h"
#include "ohca_test.h"
#include "verbs.h"

/* A device that answers every command with BUSY, and that the driver may reset. */
static struct ohca_fake *busy_device(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);

	ohca_fatal_init(f->dev);
	ohca_flush_init(f->dev);
	writel(OHCA_STATUS_READY, f->dev->regs + OHCA_REG_STATUS);
	f->refuse = OHCA_ADMIN_BUSY;
	return f;
}

/* The device may refuse to deregister a region only if the PD has a window. */
static void hw_dereg(struct kunit *test)
{
	struct ohca_fake *f = busy_device(test);
	struct ohca_pd *pd = ohca_test_alloc(test, sizeof(*pd));
	struct ohca_mr *mr = ohca_test_alloc(test, sizeof(*mr));
	struct task_struct *t = ohca_fake_start(test, f);

	mr->ibmr.device = &f->dev->ibdev;
	mr->ibmr.pd = &pd->ibpd;
	atomic_set(&pd->windows, 1);
	atomic_set(&pd->windows_made, 1);
	KUNIT_EXPECT_EQ(test, -EBUSY, ohca_mr_hw_dereg(f->dev, &mr->ibmr));
	KUNIT_EXPECT_FALSE(test, ohca_is_dead(f->dev));
	f->refuse = 0;
	KUNIT_EXPECT_EQ(test, 0, ohca_mr_hw_dereg(f->dev, &mr->ibmr));
	KUNIT_EXPECT_FALSE(test, ohca_is_dead(f->dev));
	f->refuse = OHCA_ADMIN_BUSY;
	atomic_set(&pd->windows, 0);
	KUNIT_EXPECT_EQ(test, 0, ohca_mr_hw_dereg(f->dev, &mr->ibmr));
	KUNIT_EXPECT_TRUE(test, ohca_is_dead(f->dev));
	kthread_stop(t);
	ohca_fatal_stop(f->dev);
	ohca_test_end(f->dev);
}

static void window_comes(struct ohca_fake *f, const struct ohca_hw_aqe *aqe)
{
	struct ohca_pd *pd = f->priv;

	/* a window is allocated, bound and freed while the command is under way */
	atomic_inc(&pd->windows_made);
}

static void hw_dereg_window_comes(struct kunit *test)
{
	struct ohca_fake *f = busy_device(test);
	struct ohca_pd *pd = ohca_test_alloc(test, sizeof(*pd));
	struct ohca_mr *mr = ohca_test_alloc(test, sizeof(*mr));
	struct task_struct *t;

	f->cmd = window_comes;
	f->priv = pd;
	t = ohca_fake_start(test, f);
	mr->ibmr.device = &f->dev->ibdev;
	mr->ibmr.pd = &pd->ibpd;
	KUNIT_EXPECT_EQ(test, -EBUSY, ohca_mr_hw_dereg(f->dev, &mr->ibmr));
	KUNIT_EXPECT_FALSE(test, ohca_is_dead(f->dev));
	kthread_stop(t);
	ohca_fatal_stop(f->dev);
	ohca_test_end(f->dev);
}

/* A page list supports page sizes from 4 KiB to 1 GiB, also if the device reports others. */
static void frmr_page_sizes(struct kunit *test)
{
	static const struct {
		u32 size;
		int ret;
	} sizes[] = {
		{ SZ_4K, 1 }, { SZ_2M, 1 }, { SZ_2K, -EINVAL }, { SZ_64K, -EINVAL },
		{ SZ_4K | SZ_2M, -EINVAL }, { SZ_2G, -EINVAL },
	};
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_mr *mr = ohca_test_alloc(test, sizeof(*mr));
	struct scatterlist sg;
	u32 i;

	dev->attr.page_size_cap = cpu_to_le64(SZ_2K | SZ_4K | SZ_2M | BIT_ULL(31));
	mr->ibmr.device = &dev->ibdev;
	mr->pl.capacity = 1;
	sg_init_table(&sg, 1);
	sg_dma_len(&sg) = SZ_2K;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		mr->ibmr.page_size = sizes[i].size;
		KUNIT_EXPECT_EQ_MSG(test, sizes[i].ret, ohca_map_mr_sg(&mr->ibmr, &sg, 1, NULL),
				    "pages of %#x bytes", sizes[i].size);
	}
	ohca_test_end(dev);
}

static struct kunit_case mr_cases[] = {
	KUNIT_CASE(hw_dereg),
	KUNIT_CASE(hw_dereg_window_comes),
	KUNIT_CASE(frmr_page_sizes),
	{}
};

static struct kunit_suite mr_suite = {
	.name = "ohca-mr",
	.test_cases = mr_cases,
};

kunit_test_suite(mr_suite);
