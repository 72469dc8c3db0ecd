// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The admin queue against a thread that plays the device: many callers at once, answers
 * out of order, refusals, stray and late answers, and the end.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/random.h>

#include "ohca_test.h"

#define MASK	(OHCA_AQ_SLOTS - 1)

/**
 * struct fake - the device
 * @dev: what the driver sees
 * @ci: AQ entries taken
 * @pi: ACQ entries written
 * @refuse: status for every command
 */
struct fake {
	struct ohca_dev *dev;
	u32 ci;
	u32 pi;
	u8 refuse;
};

static struct fake *make_fake(struct kunit *test)
{
	struct fake *f = ohca_test_alloc(test, sizeof(*f));
	struct ohca_aq *aq;
	u32 i;

	f->dev = ohca_test_dev(test);
	f->dev->pdev = ohca_test_alloc(test, sizeof(*f->dev->pdev));
	f->dev->cmd_ms = 10000;
	aq = &f->dev->aq;
	ohca_aq_reset(aq);
	aq->db = f->dev->regs + OHCA_REG_AQ_DB;
	aq->sq = ohca_test_alloc(test, OHCA_AQ_SLOTS * sizeof(*aq->sq));
	aq->cq = ohca_test_alloc(test, OHCA_AQ_SLOTS * sizeof(*aq->cq));
	for (i = 0; i < OHCA_AQ_SLOTS; i++) {
		struct ohca_slot *slot = &aq->slots[i];

		slot->in = ohca_test_alloc(test, OHCA_MAILBOX_SIZE);
		slot->out = ohca_test_alloc(test, OHCA_MAILBOX_SIZE);
		slot->in_dma = (uintptr_t)slot->in;
		slot->out_dma = (uintptr_t)slot->out;
	}
	return f;
}

static void put_acqe(struct fake *f, __le32 cookie, u8 status, u8 opcode, u32 handle)
{
	struct ohca_hw_acqe *e = &f->dev->aq.cq[f->pi & MASK];

	memset(e, 0, offsetof(struct ohca_hw_acqe, phase));
	e->cookie = cookie;
	e->status = status;
	e->opcode = opcode;
	e->handle.handle = cpu_to_le32(handle);
	smp_wmb();	/* the phase is written last */
	WRITE_ONCE(e->phase, !((f->pi >> OHCA_AQ_LOG_SIZE) & 1));
	f->pi++;
}

/* Answers one command. The handle echoes a field of the command. */
static void answer(struct fake *f, const struct ohca_hw_aqe *aqe)
{
	const void *in;
	void *out;

	switch (aqe->hdr.opcode) {
	case OHCA_CMD_ALLOC_PD:
		put_acqe(f, aqe->hdr.cookie, f->refuse, aqe->hdr.opcode,
			 le32_to_cpu(aqe->alloc_pd.uar) + 1);
		break;
	case OHCA_CMD_MAD_IFC:
		in = (void *)(uintptr_t)le64_to_cpu(aqe->mad_ifc.in_addr);
		out = (void *)(uintptr_t)le64_to_cpu(aqe->mad_ifc.out_addr);
		memcpy(out, in, IB_MGMT_MAD_SIZE);
		put_acqe(f, aqe->hdr.cookie, f->refuse, aqe->hdr.opcode, OHCA_MAD_REPLY);
		break;
	default:
		put_acqe(f, aqe->hdr.cookie, f->refuse, aqe->hdr.opcode, 0);
	}
}

/* Takes up to a few commands and answers them in reverse. */
static int device_thread(void *data)
{
	struct fake *f = data;
	struct ohca_hw_aqe batch[4];

	while (!kthread_should_stop()) {
		u32 n = 0, pi = readl(f->dev->aq.db);

		smp_rmb();	/* entries after the index */
		while (f->ci != pi && n < ARRAY_SIZE(batch))
			batch[n++] = f->dev->aq.sq[f->ci++ & MASK];
		if (!n)
			usleep_range(10, 50);
		while (n)
			answer(f, &batch[--n]);
	}
	return 0;
}

static struct task_struct *start_device(struct kunit *test, struct fake *f)
{
	struct task_struct *t = kthread_run(device_thread, f, "ohca-fake");

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t);
	return t;
}

static void errnos(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, ohca_aq_errno(OHCA_ADMIN_OK));
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, ohca_aq_errno(OHCA_ADMIN_BAD_OPCODE));
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_aq_errno(OHCA_ADMIN_BAD_PARAM));
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_aq_errno(OHCA_ADMIN_BAD_HANDLE));
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_aq_errno(OHCA_ADMIN_BAD_STATE));
	KUNIT_EXPECT_EQ(test, -ENOMEM, ohca_aq_errno(OHCA_ADMIN_NO_RESOURCE));
	KUNIT_EXPECT_EQ(test, -EBUSY, ohca_aq_errno(OHCA_ADMIN_BUSY));
	KUNIT_EXPECT_EQ(test, -EFAULT, ohca_aq_errno(OHCA_ADMIN_DMA));
	KUNIT_EXPECT_EQ(test, -EIO, ohca_aq_errno(OHCA_ADMIN_INTERNAL));
	KUNIT_EXPECT_EQ(test, -EIO, ohca_aq_errno(255));
}

static void one_after_another(struct kunit *test)
{
	struct fake *f = make_fake(test);
	struct task_struct *t = start_device(test, f);
	u32 i, pdn;

	for (i = 0; i < 3 * OHCA_AQ_SLOTS; i++) {
		KUNIT_EXPECT_EQ(test, 0, ohca_cmd_alloc_pd(f->dev, i, &pdn));
		KUNIT_EXPECT_EQ(test, i + 1, pdn);
	}
	f->refuse = OHCA_ADMIN_BUSY;
	KUNIT_EXPECT_EQ(test, -EBUSY, ohca_cmd_handle(f->dev, OHCA_CMD_DESTROY_CQ, 1));
	kthread_stop(t);
	KUNIT_EXPECT_EQ(test, 0, f->dev->aq.stray);
	ohca_test_end(f->dev);
}

/*
 * A handle that no doorbell can carry is not taken for one. What has it could not be
 * destroyed, so the device is reset.
 */
static void handle_too_large(struct kunit *test)
{
	struct fake *f = make_fake(test);
	struct task_struct *t = start_device(test, f);
	u32 pdn;

	ohca_fatal_init(f->dev);
	f->dev->pdev->error_state = pci_channel_io_perm_failure; /* there is no config space */
	writel(OHCA_STATUS_READY, f->dev->regs + OHCA_REG_STATUS);
	KUNIT_EXPECT_EQ(test, 0, ohca_cmd_alloc_pd(f->dev, OHCA_MAX_HANDLE - 1, &pdn));
	KUNIT_EXPECT_FALSE(test, ohca_is_quiet(f->dev));
	KUNIT_EXPECT_EQ(test, -EIO, ohca_cmd_alloc_pd(f->dev, OHCA_MAX_HANDLE, &pdn));
	KUNIT_EXPECT_TRUE(test, ohca_is_quiet(f->dev));
	KUNIT_EXPECT_EQ(test, OHCA_CTRL_RESET, readl(f->dev->regs + OHCA_REG_CTRL));
	KUNIT_EXPECT_EQ(test, -EIO, ohca_cmd_alloc_pd(f->dev, 1, &pdn));
	kthread_stop(t);
	ohca_fatal_stop(f->dev);
	ohca_test_end(f->dev);
}

/* Once the device is stopped for good, what it still says starts nothing. */
static void late_failure(struct kunit *test)
{
	struct fake *f = make_fake(test);

	ohca_fatal_init(f->dev);
	f->dev->pdev->error_state = pci_channel_io_perm_failure; /* there is no config space */
	writel(OHCA_STATUS_READY, f->dev->regs + OHCA_REG_STATUS);
	ohca_halt(f->dev);
	ohca_fatal_stop(f->dev);
	KUNIT_EXPECT_TRUE(test, ohca_is_quiet(f->dev));
	ohca_fatal(f->dev, "too late");
	KUNIT_EXPECT_FALSE(test, work_busy(&f->dev->fatal_work));
	KUNIT_EXPECT_FALSE(test, work_busy(&f->dev->flush_work));
	ohca_test_end(f->dev);
}

/** struct caller - one of many that use the queue at once; @done when it has ended */
struct caller {
	struct fake *f;
	u32 id;
	int wrong;
	struct completion done;
};

static int caller_thread(void *data)
{
	struct caller *c = data;
	u8 in[IB_MGMT_MAD_SIZE], out[IB_MGMT_MAD_SIZE], verdict;
	u32 i, pdn;

	for (i = 0; i < 40; i++) {
		u32 uar = c->id << 12 | i;

		if (ohca_cmd_alloc_pd(c->f->dev, uar, &pdn) || pdn != uar + 1)
			c->wrong++;
		memset(in, c->id ^ i, sizeof(in));
		if (ohca_cmd_mad_ifc(c->f->dev, 1, 0, in, NULL, out, &verdict) ||
		    verdict != OHCA_MAD_REPLY || memcmp(in, out, sizeof(in)))
			c->wrong++;
	}
	complete(&c->done);
	return 0;
}

static void many_callers(struct kunit *test)
{
	struct fake *f = make_fake(test);
	struct task_struct *t = start_device(test, f);
	u32 n = OHCA_AQ_SLOTS + 8, i;
	struct caller *c = ohca_test_alloc(test, n * sizeof(*c));

	for (i = 0; i < n; i++) {
		c[i].f = f;
		c[i].id = i;
		init_completion(&c[i].done);
		if (IS_ERR(kthread_run(caller_thread, &c[i], "ohca-caller"))) {
			KUNIT_FAIL(test, "no thread");
			complete(&c[i].done);
		}
	}
	for (i = 0; i < n; i++) {
		wait_for_completion(&c[i].done);
		KUNIT_EXPECT_EQ(test, 0, c[i].wrong);
	}
	kthread_stop(t);
	KUNIT_EXPECT_EQ(test, 0, f->dev->aq.stray);
	ohca_test_end(f->dev);
}

/* Answers to nothing, to another generation and with bad slots are dropped. */
static void stray_answers(struct kunit *test)
{
	struct fake *f = make_fake(test);
	struct ohca_aq *aq = &f->dev->aq;
	struct ohca_slot *slot = &aq->slots[3];

	put_acqe(f, cpu_to_le32(3), 0, 0, 0);
	put_acqe(f, cpu_to_le32(OHCA_AQ_SLOTS), 0, 0, 0);
	put_acqe(f, cpu_to_le32(U32_MAX), 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 3, ohca_aq_poll(aq));
	KUNIT_EXPECT_EQ(test, 3, aq->stray);

	slot->state = OHCA_SLOT_PENDING;
	slot->gen = 0x77;
	put_acqe(f, cpu_to_le32(3 | 0x76 << 8), OHCA_ADMIN_BUSY, 0, 0);
	KUNIT_EXPECT_EQ(test, 1, ohca_aq_poll(aq));
	KUNIT_EXPECT_EQ(test, 4, aq->stray);
	KUNIT_EXPECT_EQ(test, OHCA_SLOT_PENDING, slot->state);
	KUNIT_EXPECT_FALSE(test, try_wait_for_completion(&slot->done));

	put_acqe(f, cpu_to_le32(3 | 0x77 << 8), OHCA_ADMIN_BUSY, 0, 0);
	KUNIT_EXPECT_EQ(test, 1, ohca_aq_poll(aq));
	KUNIT_EXPECT_EQ(test, 4, aq->stray);
	KUNIT_EXPECT_TRUE(test, try_wait_for_completion(&slot->done));
	KUNIT_EXPECT_EQ(test, OHCA_ADMIN_BUSY, slot->resp.status);
	/* the same once more is late */
	put_acqe(f, cpu_to_le32(3 | 0x77 << 8), 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 1, ohca_aq_poll(aq));
	KUNIT_EXPECT_EQ(test, 5, aq->stray);
	KUNIT_EXPECT_EQ(test, OHCA_ADMIN_BUSY, slot->resp.status);
	ohca_test_end(f->dev);
}

/* A ring full of answers that all look new keeps nobody for ever. */
static void endless_answers(struct kunit *test)
{
	struct fake *f = make_fake(test);
	u32 i;

	for (i = 0; i < OHCA_AQ_SLOTS; i++)
		put_acqe(f, cpu_to_le32(U32_MAX), 0, 0, 0);
	KUNIT_EXPECT_EQ(test, OHCA_AQ_SLOTS, ohca_aq_poll(&f->dev->aq));
	KUNIT_EXPECT_EQ(test, 0, ohca_aq_poll(&f->dev->aq));
	ohca_test_end(f->dev);
}

/** struct waiter - a caller whose command is never answered */
struct waiter {
	struct fake *f;
	int ret;
	struct completion done;
};

static int waiter_thread(void *data)
{
	struct waiter *w = data;
	u32 pdn;

	w->ret = ohca_cmd_alloc_pd(w->f->dev, 1, &pdn);
	complete(&w->done);
	return 0;
}

/* The device dies: those who wait are released, later commands fail, teardown succeeds. */
static void dead_device(struct kunit *test)
{
	/* the core keeps what it cannot destroy, and complains */
	static const u8 teardown[] = {
		OHCA_CMD_DESTROY_EQ, OHCA_CMD_DEALLOC_PD, OHCA_CMD_DESTROY_CQ,
		OHCA_CMD_DESTROY_SRQ, OHCA_CMD_DESTROY_QP, OHCA_CMD_DEREG_MR,
		OHCA_CMD_DETACH_MCAST, OHCA_CMD_DEALLOC_XRCD, OHCA_CMD_FREE_DM,
		OHCA_CMD_FREE_COUNTERS,
	};
	struct fake *f = make_fake(test);
	struct waiter *w = ohca_test_alloc(test, sizeof(*w));
	u32 pdn, i;

	w->f = f;
	init_completion(&w->done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(waiter_thread, w, "ohca-waiter")));
	while (!readl(f->dev->aq.db))
		usleep_range(10, 50);
	ohca_aq_fail(f->dev);
	wait_for_completion(&w->done);
	KUNIT_EXPECT_EQ(test, -EIO, w->ret);
	KUNIT_EXPECT_EQ(test, -EIO, ohca_cmd_alloc_pd(f->dev, 1, &pdn));
	for (i = 0; i < ARRAY_SIZE(teardown); i++)
		KUNIT_EXPECT_EQ_MSG(test, 0, ohca_cmd_handle(f->dev, teardown[i], 1),
				    "command %#x", teardown[i]);
	/* what the device still says is not heard */
	put_acqe(f, f->dev->aq.sq[0].hdr.cookie, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 0, ohca_aq_poll(&f->dev->aq));
	ohca_test_end(f->dev);
}

static struct kunit_case aq_cases[] = {
	KUNIT_CASE(errnos),
	KUNIT_CASE(one_after_another),
	KUNIT_CASE(handle_too_large),
	KUNIT_CASE(late_failure),
	KUNIT_CASE_SLOW(many_callers),
	KUNIT_CASE(stray_answers),
	KUNIT_CASE(endless_answers),
	KUNIT_CASE(dead_device),
	{}
};

static struct kunit_suite aq_suite = {
	.name = "ohca-aq",
	.test_cases = aq_cases,
};

kunit_test_suite(aq_suite);
