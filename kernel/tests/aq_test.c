// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The admin queue with a thread that acts as the device: many callers at once, answers out of
 * order, refusals, stray and late answers, dead devices.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_mad.h>

#include "aq.h"
#include "cq.h"
#include "fake.h"
#include "fatal.h"
#include "mr.h"
#include "ohca_test.h"
#include "pci.h"
#include "qp.h"
#include "srq.h"
#include "verbs.h"

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

/* The driver warns of a refusal unless a process can cause it. */
static void refusals(struct kunit *test)
{
	static const struct {
		u8 op;
		u8 status;
		bool expected;
	} step[] = {
		{ OHCA_CMD_CREATE_QP, OHCA_ADMIN_BAD_PARAM, true },
		{ OHCA_CMD_MODIFY_QP, OHCA_ADMIN_BAD_STATE, true },
		{ OHCA_CMD_ALLOC_PD, OHCA_ADMIN_NO_RESOURCE, true },
		{ OHCA_CMD_QUERY_CONTEXT, OHCA_ADMIN_BAD_HANDLE, true },
		{ OHCA_CMD_UPDATE_MR_PAGES, OHCA_ADMIN_BAD_HANDLE, true },
		{ OHCA_CMD_UPDATE_MR_PAGES, OHCA_ADMIN_NO_RESOURCE, true },
		{ OHCA_CMD_UPDATE_MR_PAGES, OHCA_ADMIN_BAD_PARAM, false },
		{ OHCA_CMD_PAGE_FAULT_RESUME, OHCA_ADMIN_BAD_HANDLE, true },
		{ OHCA_CMD_PAGE_FAULT_RESUME, OHCA_ADMIN_BAD_PARAM, false },
		{ OHCA_CMD_DEREG_MR, OHCA_ADMIN_BUSY, true },
		{ OHCA_CMD_DETACH_MCAST, OHCA_ADMIN_BAD_PARAM, true },
		{ OHCA_CMD_CREATE_QP, OHCA_ADMIN_BAD_OPCODE, false },
		{ OHCA_CMD_CREATE_CQ, OHCA_ADMIN_DMA, false },
		{ OHCA_CMD_MODIFY_QP, OHCA_ADMIN_INTERNAL, false },
		{ OHCA_CMD_MODIFY_QP, 255, false },
		{ OHCA_CMD_QUERY_DEVICE, OHCA_ADMIN_BAD_PARAM, false },
		{ OHCA_CMD_CREATE_EQ, OHCA_ADMIN_NO_RESOURCE, false },
		{ OHCA_CMD_DEREG_MR, OHCA_ADMIN_BAD_HANDLE, false },
		{ OHCA_CMD_DESTROY_CQ, OHCA_ADMIN_BUSY, false },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(step); i++)
		KUNIT_EXPECT_EQ_MSG(test, step[i].expected,
				    ohca_aq_expected(step[i].op, step[i].status),
				    "command %#x, status %u", step[i].op, step[i].status);
}

static void one_after_another(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	struct task_struct *t = ohca_fake_start(test, f);
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
 * If the device returns a handle of more than 24 bits, the command fails, and the driver resets the
 * device, because it cannot destroy the object.
 */
static void handle_too_large(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	struct task_struct *t = ohca_fake_start(test, f);
	u32 pdn;

	ohca_fatal_init(f->dev);
	ohca_flush_init(f->dev);
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

/* After ohca_halt(), ohca_fatal() queues no work. */
static void late_failure(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);

	ohca_fatal_init(f->dev);
	ohca_flush_init(f->dev);
	writel(OHCA_STATUS_READY, f->dev->regs + OHCA_REG_STATUS);
	ohca_halt(f->dev);
	ohca_fatal_stop(f->dev);
	KUNIT_EXPECT_TRUE(test, ohca_is_quiet(f->dev));
	ohca_fatal(f->dev, "too late");
	KUNIT_EXPECT_FALSE(test, work_busy(&f->dev->fatal_work));
	KUNIT_EXPECT_FALSE(test, work_busy(&f->dev->flush_work));
	ohca_test_end(f->dev);
}

/** struct caller - one of many concurrent callers; @done: completed when it has ended */
struct caller {
	struct ohca_fake *f;
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
		if (ohca_cmd_mad_ifc(c->f->dev, 1, 0, in, NULL, out, i & 1, &verdict) ||
		    verdict != OHCA_MAD_REPLY || memcmp(in, out, sizeof(in)))
			c->wrong++;
	}
	complete(&c->done);
	return 0;
}

static void many_callers(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	struct task_struct *t = ohca_fake_start(test, f);
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

/* Answers without a pending command, with an old generation or a bad slot are dropped. */
static void stray_answers(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	struct ohca_aq *aq = &f->dev->aq;
	struct ohca_slot *slot = &aq->slots[3];

	ohca_fake_put(f, cpu_to_le32(3), 0, 0, 0);
	ohca_fake_put(f, cpu_to_le32(OHCA_AQ_SLOTS), 0, 0, 0);
	ohca_fake_put(f, cpu_to_le32(U32_MAX), 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 3, ohca_aq_poll(aq));
	KUNIT_EXPECT_EQ(test, 3, aq->stray);

	slot->state = OHCA_SLOT_PENDING;
	slot->gen = 0x77;
	ohca_fake_put(f, cpu_to_le32(3 | 0x76 << 8), OHCA_ADMIN_BUSY, 0, 0);
	KUNIT_EXPECT_EQ(test, 1, ohca_aq_poll(aq));
	KUNIT_EXPECT_EQ(test, 4, aq->stray);
	KUNIT_EXPECT_EQ(test, OHCA_SLOT_PENDING, slot->state);
	KUNIT_EXPECT_FALSE(test, try_wait_for_completion(&slot->done));

	ohca_fake_put(f, cpu_to_le32(3 | 0x77 << 8), OHCA_ADMIN_BUSY, 0, 0);
	KUNIT_EXPECT_EQ(test, 1, ohca_aq_poll(aq));
	KUNIT_EXPECT_EQ(test, 4, aq->stray);
	KUNIT_EXPECT_TRUE(test, try_wait_for_completion(&slot->done));
	KUNIT_EXPECT_EQ(test, OHCA_ADMIN_BUSY, slot->resp.status);
	/* the same answer again has no pending command */
	ohca_fake_put(f, cpu_to_le32(3 | 0x77 << 8), 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 1, ohca_aq_poll(aq));
	KUNIT_EXPECT_EQ(test, 5, aq->stray);
	KUNIT_EXPECT_EQ(test, OHCA_ADMIN_BUSY, slot->resp.status);
	ohca_test_end(f->dev);
}

/* If all entries of the ring are new, ohca_aq_poll() returns after one ring. */
static void endless_answers(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	u32 i;

	for (i = 0; i < OHCA_AQ_SLOTS; i++)
		ohca_fake_put(f, cpu_to_le32(U32_MAX), 0, 0, 0);
	KUNIT_EXPECT_EQ(test, OHCA_AQ_SLOTS, ohca_aq_poll(&f->dev->aq));
	KUNIT_EXPECT_EQ(test, 0, ohca_aq_poll(&f->dev->aq));
	ohca_test_end(f->dev);
}

/** struct waiter - a caller whose command is never answered */
struct waiter {
	struct ohca_fake *f;
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

/* On a dead device pending and later commands fail, and teardown succeeds. */
static void dead_device(struct kunit *test)
{
	/* the core warns and leaks an object if its destruction fails */
	static const u8 teardown[] = {
		OHCA_CMD_DESTROY_EQ, OHCA_CMD_DEALLOC_PD, OHCA_CMD_DESTROY_CQ,
		OHCA_CMD_DESTROY_SRQ, OHCA_CMD_DESTROY_QP, OHCA_CMD_DEREG_MR,
		OHCA_CMD_DETACH_MCAST, OHCA_CMD_DEALLOC_XRCD, OHCA_CMD_FREE_DM,
		OHCA_CMD_FREE_COUNTERS,
	};
	struct ohca_fake *f = ohca_fake_make(test);
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
	/* later answers are ignored */
	ohca_fake_put(f, f->dev->aq.sq[0].hdr.cookie, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, 0, ohca_aq_poll(&f->dev->aq));
	ohca_test_end(f->dev);
}

/*
 * Sends at most one command every @ms milliseconds until the command of @w has ended, which must be
 * before @most commands. There is no bound on the time, because a busy host may stop the machine
 * for seconds.
 */
static void expect_late(struct kunit *test, struct waiter *w, u32 ms, u32 most)
{
	u32 i;

	for (i = 0; i < most && !completion_done(&w->done); i++) {
		ohca_cmd_handle(w->f->dev, OHCA_CMD_DESTROY_CQ, 1);
		msleep(ms);
	}
	KUNIT_EXPECT_TRUE(test, completion_done(&w->done));
	ohca_aq_fail(w->f->dev);
	wait_for_completion(&w->done);
	KUNIT_EXPECT_EQ(test, -EIO, w->ret);
}

/* A command without an answer times out even if the device answers later commands. */
static void starved(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	struct waiter *w = ohca_test_alloc(test, sizeof(*w));
	struct task_struct *t = ohca_fake_start(test, f);

	ohca_fatal_init(f->dev);
	ohca_flush_init(f->dev);
	writel(OHCA_STATUS_READY, f->dev->regs + OHCA_REG_STATUS);
	f->dev->cmd_ms = 400;
	f->deaf = OHCA_CMD_ALLOC_PD;
	w->f = f;
	init_completion(&w->done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(waiter_thread, w, "ohca-waiter")));
	expect_late(test, w, 10, 600);
	KUNIT_EXPECT_TRUE(test, ohca_is_quiet(f->dev));
	kthread_stop(t);
	ohca_fatal_stop(f->dev);
	ohca_test_end(f->dev);
}

static int destroy_thread(void *data)
{
	struct waiter *w = data;

	w->ret = ohca_cmd_handle(w->f->dev, OHCA_CMD_DESTROY_CQ, 1);
	complete(&w->done);
	return 0;
}

/* After the commands ahead of it have completed, later ones do not extend its time limit. */
static void starved_behind(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	u32 n = 20, i;
	struct waiter *w = ohca_test_alloc(test, (n + 1) * sizeof(*w));
	struct task_struct *t;

	ohca_fatal_init(f->dev);
	ohca_flush_init(f->dev);
	writel(OHCA_STATUS_READY, f->dev->regs + OHCA_REG_STATUS);
	f->dev->cmd_ms = 1000;
	f->deaf = OHCA_CMD_ALLOC_PD;
	for (i = 0; i <= n; i++) {
		w[i].f = f;
		init_completion(&w[i].done);
		KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(i < n ? destroy_thread : waiter_thread,
							    &w[i], "ohca-waiter")));
		/* the command ends without a doorbell if one ahead of it was late */
		while (readl(f->dev->aq.db) != i + 1 && !completion_done(&w[i].done))
			usleep_range(100, 200);
	}
	if (ohca_is_quiet(f->dev))
		kunit_mark_skipped(test, "a slow host: a command was late before the last one");
	t = ohca_fake_start(test, f);
	for (i = 0; i < n; i++)
		wait_for_completion(&w[i].done);
	expect_late(test, &w[n], 600, 7);
	kthread_stop(t);
	ohca_fatal_stop(f->dev);
	ohca_test_end(f->dev);
}

/* A thread that can be killed. */
static int killable_thread(void *data)
{
	allow_signal(SIGKILL);
	return waiter_thread(data);
}

/* Starts @n threads that allocate a PD, and waits until the device has @given commands. */
static struct waiter *start_waiters(struct kunit *test, struct ohca_fake *f, u32 n, u32 given)
{
	struct waiter *w = ohca_test_alloc(test, n * sizeof(*w));
	u32 i;

	for (i = 0; i < n; i++) {
		w[i].f = f;
		init_completion(&w[i].done);
		KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(waiter_thread, &w[i], "ohca-waiter")));
	}
	while (readl(f->dev->aq.db) != given)
		usleep_range(100, 200);
	return w;
}

/* Commands of OHCA_OP_DRIVER and teardown get a slot at once while many consumers wait. */
static void reserve(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	u32 n = 2 * OHCA_AQ_SLOTS, i;
	struct waiter *w = start_waiters(test, f, n, OHCA_AQ_CONSUMER_SLOTS);
	struct waiter *d = ohca_test_alloc(test, sizeof(*d));
	struct task_struct *t;

	msleep(20);
	KUNIT_EXPECT_EQ(test, OHCA_AQ_CONSUMER_SLOTS, readl(f->dev->aq.db));
	d->f = f;
	init_completion(&d->done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(destroy_thread, d, "ohca-destroy")));
	for (i = 0; i < 1000 && readl(f->dev->aq.db) == OHCA_AQ_CONSUMER_SLOTS; i++)
		usleep_range(1000, 2000);
	KUNIT_EXPECT_EQ(test, OHCA_AQ_CONSUMER_SLOTS + 1, readl(f->dev->aq.db));
	t = ohca_fake_start(test, f);
	for (i = 0; i < n; i++) {
		wait_for_completion(&w[i].done);
		KUNIT_EXPECT_EQ(test, 0, w[i].ret);
	}
	wait_for_completion(&d->done);
	KUNIT_EXPECT_EQ(test, 0, d->ret);
	kthread_stop(t);
	KUNIT_EXPECT_EQ(test, 0, f->dev->aq.pending);
	ohca_test_end(f->dev);
}

/* A consumer that waits for a slot can be killed, and no slot is lost. */
static void killed(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	u32 n = OHCA_AQ_CONSUMER_SLOTS, i, pdn;
	struct waiter *w = start_waiters(test, f, n, n);
	struct waiter *k = ohca_test_alloc(test, sizeof(*k));
	struct task_struct *t;

	k->f = f;
	init_completion(&k->done);
	t = kthread_create(killable_thread, k, "ohca-victim");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t);
	get_task_struct(t);
	wake_up_process(t);
	while (!wait_for_completion_timeout(&k->done, HZ / 50))
		send_sig(SIGKILL, t, 1);
	put_task_struct(t);
	KUNIT_EXPECT_EQ(test, -EINTR, k->ret);
	KUNIT_EXPECT_EQ(test, n, readl(f->dev->aq.db));
	t = ohca_fake_start(test, f);
	for (i = 0; i < n; i++)
		wait_for_completion(&w[i].done);
	for (i = 0; i < 2 * OHCA_AQ_SLOTS; i++)
		KUNIT_EXPECT_EQ(test, 0, ohca_cmd_alloc_pd(f->dev, i, &pdn));
	kthread_stop(t);
	ohca_test_end(f->dev);
}

/*
 * A device that executes many commands slowly is not late. All commands together take longer than
 * the limit of one command. The limit is long enough for a busy host.
 */
static void slow_device(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);
	u32 n = OHCA_AQ_CONSUMER_SLOTS, i;
	struct task_struct *t;
	struct waiter *w;

	ohca_fatal_init(f->dev);
	ohca_flush_init(f->dev);
	writel(OHCA_STATUS_READY, f->dev->regs + OHCA_REG_STATUS);
	f->dev->cmd_ms = 6000;
	f->pause_us = 300000;
	w = start_waiters(test, f, n, n);
	t = ohca_fake_start(test, f);
	for (i = 0; i < n; i++) {
		wait_for_completion(&w[i].done);
		KUNIT_EXPECT_EQ(test, 0, w[i].ret);
	}
	KUNIT_EXPECT_FALSE(test, ohca_is_quiet(f->dev));
	kthread_stop(t);
	ohca_fatal_stop(f->dev);
	ohca_test_end(f->dev);
}

/* Names and classes of commands, also of opcodes that do not exist. */
static void names(struct kunit *test)
{
	KUNIT_EXPECT_STREQ(test, "NOP", ohca_op_name(OHCA_CMD_NOP));
	KUNIT_EXPECT_STREQ(test, "BIND_COUNTERS", ohca_op_name(OHCA_CMD_BIND_COUNTERS));
	KUNIT_EXPECT_STREQ(test, "unknown", ohca_op_name(OHCA_CMD_BIND_COUNTERS + 1));
	KUNIT_EXPECT_STREQ(test, "unknown", ohca_op_name(0x0f));
	KUNIT_EXPECT_STREQ(test, "unknown", ohca_op_name(255));
	KUNIT_EXPECT_EQ(test, OHCA_OP_CONSUMER, ohca_op_class(OHCA_CMD_RESIZE_CQ));
	KUNIT_EXPECT_EQ(test, OHCA_OP_DRIVER, ohca_op_class(OHCA_CMD_UPDATE_MR_PAGES));
	KUNIT_EXPECT_EQ(test, OHCA_OP_TEARDOWN, ohca_op_class(OHCA_CMD_DEREG_MR));
	/* a process may execute MAD_IFC; MODIFY_PORT must succeed when it is killed */
	KUNIT_EXPECT_EQ(test, OHCA_OP_CONSUMER, ohca_op_class(OHCA_CMD_MAD_IFC));
	KUNIT_EXPECT_EQ(test, OHCA_OP_DRIVER, ohca_op_class(OHCA_CMD_MODIFY_PORT));
	KUNIT_EXPECT_EQ(test, OHCA_OP_DRIVER, ohca_op_class(OHCA_CMD_QUERY_COUNTER_SET));
	KUNIT_EXPECT_EQ(test, OHCA_OP_CONSUMER, ohca_op_class(255));
}

/* ohca_wait_status() returns at once if the device is FATAL, unless it waits for a reset. */
static void fatal_while_waiting(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	void __iomem *status = dev->regs + OHCA_REG_STATUS;
	u32 all = OHCA_STATUS_READY | OHCA_STATUS_ENABLED | OHCA_STATUS_FATAL;

	dev->reset_ms = 200;
	writel(OHCA_STATUS_READY | OHCA_STATUS_ENABLED, status);
	KUNIT_EXPECT_EQ(test, 0, ohca_wait_status(dev, OHCA_STATUS_ENABLED, OHCA_STATUS_ENABLED));
	writel(OHCA_STATUS_READY | OHCA_STATUS_FATAL, status);
	KUNIT_EXPECT_EQ(test, -EIO, ohca_wait_status(dev, OHCA_STATUS_ENABLED,
						     OHCA_STATUS_ENABLED));
	KUNIT_EXPECT_EQ(test, -ETIMEDOUT, ohca_wait_status(dev, all, OHCA_STATUS_READY));
	writel(OHCA_STATUS_AWAY, status);
	KUNIT_EXPECT_EQ(test, -EHOSTDOWN, ohca_wait_status(dev, all, OHCA_STATUS_READY));
	writel(0, dev->regs + OHCA_REG_MAGIC);
	KUNIT_EXPECT_EQ(test, -ENODEV, ohca_wait_status(dev, all, OHCA_STATUS_READY));
	ohca_test_end(dev);
}

static void looked_for(struct work_struct *work)
{
}

/* The recovery of a device that is away waits for OHCA_AWAY_PERIOD. */
static void away_is_no_failure(struct kunit *test)
{
	struct ohca_function *fn = ohca_test_alloc(test, sizeof(*fn));
	struct ohca_fake *f = ohca_fake_make(test);
	struct ohca_dev *dev = f->dev;
	void __iomem *status = dev->regs + OHCA_REG_STATUS;

	INIT_DELAYED_WORK(&fn->recover, looked_for);
	dev->fn = fn;
	ohca_fatal_init(dev);
	ohca_flush_init(dev);
	writel(OHCA_STATUS_READY | OHCA_STATUS_ENABLED, status);
	KUNIT_EXPECT_NULL(test, ohca_absence(dev));
	writel(OHCA_STATUS_AWAY, status);
	KUNIT_EXPECT_STREQ(test, "the device is away", ohca_absence(dev));
	/* it may become away during the first reset */
	KUNIT_EXPECT_EQ(test, -EHOSTDOWN, ohca_reset_hw(dev));
	KUNIT_EXPECT_TRUE(test, fn->away);
	fn->away = false;

	ohca_fatal(dev, ohca_absence(dev));
	KUNIT_EXPECT_TRUE(test, ohca_is_quiet(dev));
	KUNIT_EXPECT_TRUE(test, fn->away);
	flush_work(&dev->fatal_work);
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&fn->recover));
	KUNIT_EXPECT_TRUE(test, time_after(fn->recover.timer.expires,
					   jiffies + OHCA_RECOVER_DELAY));

	cancel_delayed_work_sync(&fn->recover);
	ohca_fatal_stop(dev);
	writel(~0u, status);
	writel(~0u, dev->regs + OHCA_REG_MAGIC);
	KUNIT_EXPECT_STREQ(test, "the device is gone", ohca_absence(dev));
	ohca_test_end(dev);
}

/* ---- objects that the device refuses to destroy ---- */

static int destroy_pd(struct kunit *test, struct ohca_dev *dev)
{
	struct ohca_pd *pd = ohca_test_alloc(test, sizeof(*pd));

	pd->ibpd.device = &dev->ibdev;
	return ohca_dealloc_pd(&pd->ibpd, NULL);
}

static int destroy_xrcd(struct kunit *test, struct ohca_dev *dev)
{
	struct ohca_xrcd *xrcd = ohca_test_alloc(test, sizeof(*xrcd));

	xrcd->ibxrcd.device = &dev->ibdev;
	return ohca_dealloc_xrcd(&xrcd->ibxrcd, NULL);
}

static int destroy_cq(struct kunit *test, struct ohca_dev *dev)
{
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	int ret = ohca_destroy_cq(&cq->ibcq, NULL);

	KUNIT_EXPECT_NULL(test, xa_load(&dev->cqs, cq->cqn));
	return ret;
}

static int destroy_srq(struct kunit *test, struct ohca_dev *dev)
{
	struct ohca_srq *srq = ohca_test_alloc(test, sizeof(*srq));
	int ret;

	srq->ibsrq.device = &dev->ibdev;
	srq->srqn = 7;
	ohca_obj_init(&srq->obj);
	KUNIT_ASSERT_EQ(test, 0, xa_insert(&dev->srqs, 7, &srq->obj, GFP_KERNEL));
	ret = ohca_destroy_srq(&srq->ibsrq, NULL);
	KUNIT_EXPECT_NULL(test, xa_load(&dev->srqs, 7));
	return ret;
}

static int destroy_qp(struct kunit *test, struct ohca_dev *dev)
{
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 3);
	int ret;

	/* memory of the test, which must not be freed */
	qp->sq.shadow = NULL;
	qp->rq.shadow = NULL;
	KUNIT_ASSERT_EQ(test, 0, xa_insert(&dev->qps, 9, &qp->obj, GFP_KERNEL));
	ret = ohca_destroy_qp(&qp->ibqp, NULL);
	KUNIT_EXPECT_NULL(test, xa_load(&dev->qps, 9));
	KUNIT_EXPECT_NULL(test, xa_load(&cq->qps, 9));
	KUNIT_EXPECT_TRUE(test, list_empty(&cq->send_qps) && list_empty(&cq->recv_qps));
	return ret;
}

static int destroy_mr(struct kunit *test, struct ohca_dev *dev)
{
	struct ohca_pd *pd = ohca_test_alloc(test, sizeof(*pd));
	struct ohca_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mr);
	mr->ibmr.device = &dev->ibdev;
	mr->ibmr.pd = &pd->ibpd;
	/* with windows BUSY is not an error */
	atomic_set(&pd->windows, 1);
	KUNIT_EXPECT_EQ(test, -EBUSY, ohca_dereg_mr(&mr->ibmr, NULL));
	KUNIT_EXPECT_FALSE(test, ohca_is_quiet(dev));
	atomic_set(&pd->windows, 0);
	return ohca_dereg_mr(&mr->ibmr, NULL);
}

static int destroy_mw(struct kunit *test, struct ohca_dev *dev)
{
	struct ohca_pd *pd = ohca_test_alloc(test, sizeof(*pd));
	struct ohca_mw *mw = ohca_test_alloc(test, sizeof(*mw));

	mw->ibmw.device = &dev->ibdev;
	mw->ibmw.pd = &pd->ibpd;
	return ohca_dealloc_mw(&mw->ibmw);
}

/*
 * The core expects that destruction succeeds. So the driver resets a device that refuses it, and
 * removes the object.
 */
static void destroy_refused(struct kunit *test)
{
	static int (*const destroy[])(struct kunit *test, struct ohca_dev *dev) = {
		destroy_pd, destroy_xrcd, destroy_cq, destroy_srq, destroy_qp, destroy_mr,
		destroy_mw,
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(destroy); i++) {
		struct ohca_fake *f = ohca_fake_make(test);
		struct task_struct *t = ohca_fake_start(test, f);

		ohca_fatal_init(f->dev);
		ohca_flush_init(f->dev);
		/* the reset times out, so that the driver frees no buffers: the test owns them */
		f->dev->reset_ms = 1;
		f->refuse = OHCA_ADMIN_BUSY;
		KUNIT_EXPECT_EQ_MSG(test, 0, destroy[i](test, f->dev), "object %u", i);
		KUNIT_EXPECT_TRUE_MSG(test, ohca_is_quiet(f->dev), "object %u", i);
		KUNIT_EXPECT_TRUE_MSG(test, ohca_is_wedged(f->dev), "object %u", i);
		kthread_stop(t);
		ohca_fatal_stop(f->dev);
		ohca_test_end(f->dev);
	}
}

/*
 * If the device refuses to stop a kernel QP, the driver resets it, because the consumer frees the
 * buffers after that. For a user QP the driver returns the error.
 */
static void stop_refused(struct kunit *test)
{
	static const enum ib_qp_state states[] = { IB_QPS_ERR, IB_QPS_RESET };
	u32 i;

	for (i = 0; i < 2 * ARRAY_SIZE(states); i++) {
		struct ib_qp_attr attr = { .qp_state = states[i % 2] };
		struct ohca_fake *f = ohca_fake_make(test);
		struct task_struct *t = ohca_fake_start(test, f);
		struct ohca_cq *cq = ohca_test_cq(test, f->dev, 3);
		struct ohca_qp *qp = ohca_test_qp(test, f->dev, cq, 9, 3);
		bool user = i / 2;

		mutex_init(&qp->mutex);
		qp->user = user;
		ohca_fatal_init(f->dev);
		ohca_flush_init(f->dev);
		writel(OHCA_STATUS_READY, f->dev->regs + OHCA_REG_STATUS);
		f->refuse = OHCA_ADMIN_NO_RESOURCE;
		KUNIT_EXPECT_EQ_MSG(test, user ? -ENOMEM : 0,
				    ohca_modify_qp(&qp->ibqp, &attr, IB_QP_STATE, NULL),
				    "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, ohca_is_quiet(f->dev), !user, "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, qp->state, user ? IB_QPS_RTS : states[i % 2], "case %u",
				    i);
		kthread_stop(t);
		ohca_fatal_stop(f->dev);
		ohca_test_end(f->dev);
	}
}

static struct kunit_case aq_cases[] = {
	KUNIT_CASE(errnos),
	KUNIT_CASE(refusals),
	KUNIT_CASE(one_after_another),
	KUNIT_CASE(handle_too_large),
	KUNIT_CASE(late_failure),
	KUNIT_CASE_SLOW(many_callers),
	KUNIT_CASE(stray_answers),
	KUNIT_CASE(endless_answers),
	KUNIT_CASE(dead_device),
	KUNIT_CASE_SLOW(starved),
	KUNIT_CASE_SLOW(starved_behind),
	KUNIT_CASE(reserve),
	KUNIT_CASE(killed),
	KUNIT_CASE_SLOW(slow_device),
	KUNIT_CASE(names),
	KUNIT_CASE(fatal_while_waiting),
	KUNIT_CASE(away_is_no_failure),
	KUNIT_CASE(destroy_refused),
	KUNIT_CASE(stop_refused),
	{}
};

static struct kunit_suite aq_suite = {
	.name = "ohca-aq",
	.test_cases = aq_cases,
};

kunit_test_suite(aq_suite);
