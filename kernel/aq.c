// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The admin queue. Slots, mailboxes and copies of results belong to the queue and are never on a
 * caller's stack, so a late write of the device does no harm. If a command times out, the driver
 * declares the device dead and resets it. It frees memory that the device may access only after
 * the reset.
 */
#include <linux/bitfield.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/ktime.h>
#include <kunit/visibility.h>

#include "aq.h"
#include "dev.h"
#include "fatal.h"
#include "trace.h"

#define OHCA_COOKIE_SLOT	GENMASK(7, 0)
#define OHCA_COOKIE_GEN		GENMASK(31, 8)
#define OHCA_GEN_MASK		0xffffffu
#define OHCA_AQ_MASK		(OHCA_AQ_SLOTS - 1)

/**
 * ohca_aq_errno - errno of a command's status
 * @status: enum ohca_admin_status, as the device returned it
 *
 * Any context. Return: 0 or a negative errno.
 */
VISIBLE_IF_KUNIT int ohca_aq_errno(u8 status)
{
	switch (status) {
	case OHCA_ADMIN_OK:
		return 0;
	case OHCA_ADMIN_BAD_OPCODE:
		return -EOPNOTSUPP;
	case OHCA_ADMIN_BAD_PARAM:
	case OHCA_ADMIN_BAD_HANDLE:
	case OHCA_ADMIN_BAD_STATE:
		return -EINVAL;
	case OHCA_ADMIN_NO_RESOURCE:
		return -ENOMEM;
	case OHCA_ADMIN_BUSY:
		return -EBUSY;
	case OHCA_ADMIN_DMA:
		return -EFAULT;
	default:
		return -EIO;
	}
}

static bool ohca_op_is_teardown(u8 op)
{
	return ohca_op_class(op) == OHCA_OP_TEARDOWN;
}

/**
 * ohca_aq_expected - whether a consumer can cause a refusal
 * @op: enum ohca_admin_op
 * @status: enum ohca_admin_status, not OHCA_ADMIN_OK
 *
 * Any context. A consumer can request attributes that only the device checks, can exhaust
 * resources, and can use an object that another consumer destroys. All other refusals are errors of
 * the driver or the device: objects that the driver creates for itself are valid, the device
 * supports every opcode that the driver sends, and all memory in the commands is accessible.
 * Return: true if a consumer can cause it.
 */
VISIBLE_IF_KUNIT bool ohca_aq_expected(u8 op, u8 status)
{
	switch (status) {
	case OHCA_ADMIN_BAD_PARAM:
	case OHCA_ADMIN_BAD_HANDLE:
	case OHCA_ADMIN_BAD_STATE:
	case OHCA_ADMIN_NO_RESOURCE:
	case OHCA_ADMIN_BUSY:
		break;
	default:
		return false;
	}
	switch (op) {
	case OHCA_CMD_QUERY_DEVICE:
	case OHCA_CMD_MODIFY_DEVICE:
	case OHCA_CMD_QUERY_COUNTERS:
	case OHCA_CMD_CREATE_EQ:
		return false;
	case OHCA_CMD_UPDATE_MR_PAGES:	/* the driver chooses the parameters, not a consumer */
	case OHCA_CMD_PAGE_FAULT_RESUME:
		return status != OHCA_ADMIN_BAD_PARAM;
	case OHCA_CMD_DEREG_MR:		/* windows may be bound to it */
		return status == OHCA_ADMIN_BUSY;
	case OHCA_CMD_DETACH_MCAST:
		return true;
	default:
		return !ohca_op_is_teardown(op);
	}
}

/* Logs a refused command: as a warning if no consumer can cause the refusal. */
static void ohca_aq_refused(struct ohca_dev *dev, u8 op, const struct ohca_hw_acqe *resp)
{
	struct device *d = &dev->pdev->dev;

	if (ohca_aq_expected(op, resp->status))
		dev_dbg(d, "%s refused: status %u, offset %u\n", ohca_op_name(op), resp->status,
			le16_to_cpu(resp->syndrome));
	else
		dev_warn_ratelimited(d, "%s refused: status %u, offset %u\n", ohca_op_name(op),
				     resp->status, le16_to_cpu(resp->syndrome));
}

/**
 * ohca_aq_reset - set the driver's state of the queue to that after a reset of the device
 * @aq: the queue; its rings need not be allocated
 *
 * No other function may use the queue meanwhile.
 */
VISIBLE_IF_KUNIT void ohca_aq_reset(struct ohca_aq *aq)
{
	u32 i;

	spin_lock_init(&aq->lock);
	sema_init(&aq->sem, OHCA_AQ_SLOTS);
	sema_init(&aq->consumers, OHCA_AQ_CONSUMER_SLOTS);
	aq->pending = 0;
	aq->pi = 0;
	aq->ci = 0;
	aq->dead = false;
	aq->polled = true;
	for (i = 0; i < OHCA_AQ_SLOTS; i++) {
		aq->slots[i].state = OHCA_SLOT_FREE;
		init_completion(&aq->slots[i].done);
	}
}

/**
 * ohca_aq_init - allocate rings and mailboxes
 * @dev: the device
 *
 * Return: 0 or -ENOMEM, with nothing left allocated. Process context.
 */
int ohca_aq_init(struct ohca_dev *dev)
{
	struct device *dma = &dev->pdev->dev;
	struct ohca_aq *aq = &dev->aq;
	u32 i;

	BUILD_BUG_ON(OHCA_AQ_SLOTS * OHCA_AQ_ENTRY_SIZE > PAGE_SIZE);
	BUILD_BUG_ON(OHCA_AQ_SLOTS - 1 > FIELD_MAX(OHCA_COOKIE_SLOT));

	ohca_aq_reset(aq);
	aq->db = dev->regs + OHCA_REG_AQ_DB;
	aq->sq = dma_alloc_coherent(dma, PAGE_SIZE, &aq->sq_dma, GFP_KERNEL);
	aq->cq = dma_alloc_coherent(dma, PAGE_SIZE, &aq->cq_dma, GFP_KERNEL);
	if (!aq->sq || !aq->cq)
		goto err;

	for (i = 0; i < OHCA_AQ_SLOTS; i++) {
		struct ohca_slot *slot = &aq->slots[i];

		slot->in = dma_alloc_coherent(dma, OHCA_MAILBOX_SIZE, &slot->in_dma, GFP_KERNEL);
		slot->out = dma_alloc_coherent(dma, OHCA_MAILBOX_SIZE, &slot->out_dma,
					       GFP_KERNEL);
		if (!slot->in || !slot->out)
			goto err;
	}
	return 0;

err:
	ohca_aq_free(dev);
	return -ENOMEM;
}

/**
 * ohca_aq_free - free rings and mailboxes
 * @dev: the device, reset
 *
 * Process context.
 */
void ohca_aq_free(struct ohca_dev *dev)
{
	struct device *dma = &dev->pdev->dev;
	struct ohca_aq *aq = &dev->aq;
	u32 i;

	if (ohca_is_wedged(dev))
		return;
	for (i = 0; i < OHCA_AQ_SLOTS; i++) {
		struct ohca_slot *slot = &aq->slots[i];

		if (slot->in)
			dma_free_coherent(dma, OHCA_MAILBOX_SIZE, slot->in, slot->in_dma);
		if (slot->out)
			dma_free_coherent(dma, OHCA_MAILBOX_SIZE, slot->out, slot->out_dma);
		slot->in = NULL;
		slot->out = NULL;
	}
	if (aq->sq)
		dma_free_coherent(dma, PAGE_SIZE, aq->sq, aq->sq_dma);
	if (aq->cq)
		dma_free_coherent(dma, PAGE_SIZE, aq->cq, aq->cq_dma);
	aq->sq = NULL;
	aq->cq = NULL;
}

/**
 * ohca_aq_set_polled - select polling or the interrupt for completions
 * @dev: the device
 * @polled: true: polling; false: interrupt of vector 0
 */
void ohca_aq_set_polled(struct ohca_dev *dev, bool polled)
{
	WRITE_ONCE(dev->aq.polled, polled);
	writel(polled ? 0 : 1, dev->regs + OHCA_REG_AQ_INTR);
}

/* Handles one completion. Return: false if its cookie names no pending command. */
static bool ohca_aq_complete(struct ohca_aq *aq, const struct ohca_hw_acqe *resp)
{
	u32 cookie = le32_to_cpu(resp->cookie);
	u32 idx = FIELD_GET(OHCA_COOKIE_SLOT, cookie);
	struct ohca_slot *slot;

	if (idx >= OHCA_AQ_SLOTS)
		return false;
	slot = &aq->slots[idx];
	if (slot->state != OHCA_SLOT_PENDING || slot->gen != FIELD_GET(OHCA_COOKIE_GEN, cookie))
		return false;
	slot->resp = *resp;
	slot->state = OHCA_SLOT_BUSY;
	aq->pending--;
	WRITE_ONCE(aq->completed, aq->completed + 1);
	complete(&slot->done);
	return true;
}

/**
 * ohca_aq_poll - handle the completions in the ring
 * @aq: the queue
 *
 * Any context; the interrupt handler and waiters may call it concurrently. Handles at most
 * OHCA_AQ_SLOTS entries.
 * Return: the number of entries handled.
 */
u32 ohca_aq_poll(struct ohca_aq *aq)
{
	struct ohca_hw_acqe resp;
	unsigned long flags;
	u32 n;

	spin_lock_irqsave(&aq->lock, flags);
	for (n = 0; n < OHCA_AQ_SLOTS && !aq->dead; n++) {
		struct ohca_hw_acqe *e = &aq->cq[aq->ci & OHCA_AQ_MASK];
		u8 phase = !((aq->ci >> OHCA_AQ_LOG_SIZE) & 1);

		if ((READ_ONCE(e->phase) & 1) != phase)
			break;
		dma_rmb();
		resp = *e;
		aq->ci++;
		if (!ohca_aq_complete(aq, &resp))
			aq->stray++;
	}
	spin_unlock_irqrestore(&aq->lock, flags);
	return n;
}

/**
 * ohca_aq_fail - fail all pending commands, and every later one
 * @dev: the device, which must have stopped all DMA
 */
void ohca_aq_fail(struct ohca_dev *dev)
{
	struct ohca_aq *aq = &dev->aq;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&aq->lock, flags);
	aq->dead = true;
	for (i = 0; i < OHCA_AQ_SLOTS; i++) {
		struct ohca_slot *slot = &aq->slots[i];

		if (slot->state != OHCA_SLOT_PENDING)
			continue;
		slot->state = OHCA_SLOT_BUSY;
		aq->pending--;
		slot->error = -EIO;
		complete(&slot->done);
	}
	spin_unlock_irqrestore(&aq->lock, flags);
}

static struct ohca_slot *ohca_slot_take(struct ohca_aq *aq)
{
	struct ohca_slot *slot = NULL;
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&aq->lock, flags);
	for (i = 0; i < OHCA_AQ_SLOTS && !aq->dead; i++) {
		if (aq->slots[i].state != OHCA_SLOT_FREE)
			continue;
		slot = &aq->slots[i];
		slot->state = OHCA_SLOT_BUSY;
		slot->gen = (slot->gen + 1) & OHCA_GEN_MASK;
		slot->error = 0;
		reinit_completion(&slot->done);
		break;
	}
	spin_unlock_irqrestore(&aq->lock, flags);
	return slot;
}

/*
 * Waits for a slot; with @share for one of the slots that consumers share. Returns -EINTR if the
 * thread was killed while it waited with @share, NULL if the queue is dead.
 */
static struct ohca_slot *ohca_slot_get(struct ohca_aq *aq, bool share)
{
	struct ohca_slot *slot;

	if (share && down_killable(&aq->consumers))
		return ERR_PTR(-EINTR);
	if (!share) {
		down(&aq->sem);
	} else if (down_killable(&aq->sem)) {
		up(&aq->consumers);
		return ERR_PTR(-EINTR);
	}
	slot = ohca_slot_take(aq);
	if (!slot) {
		up(&aq->sem);
		if (share)
			up(&aq->consumers);
	}
	return slot;
}

static void ohca_slot_put(struct ohca_aq *aq, struct ohca_slot *slot, bool share)
{
	unsigned long flags;

	spin_lock_irqsave(&aq->lock, flags);
	slot->state = OHCA_SLOT_FREE;
	spin_unlock_irqrestore(&aq->lock, flags);
	up(&aq->sem);
	if (share)
		up(&aq->consumers);
}

static void ohca_slot_submit(struct ohca_aq *aq, struct ohca_slot *slot, struct ohca_hw_aqe *aqe)
{
	unsigned long flags;

	aqe->hdr.cookie = cpu_to_le32(FIELD_PREP(OHCA_COOKIE_SLOT, slot - aq->slots) |
				      FIELD_PREP(OHCA_COOKIE_GEN, slot->gen));
	spin_lock_irqsave(&aq->lock, flags);
	if (aq->dead) {
		slot->error = -EIO;
		complete(&slot->done);
	} else {
		slot->state = OHCA_SLOT_PENDING;
		slot->opcode = aqe->hdr.opcode;
		slot->ahead = aq->pending++;
		aq->sq[aq->pi & OHCA_AQ_MASK] = *aqe;
		aq->pi++;
		/* writel() orders the entry before the doorbell */
		writel(aq->pi, aq->db);
	}
	spin_unlock_irqrestore(&aq->lock, flags);
}

/*
 * Waits for the completion; returns false if it is late. The wait is uninterruptible, because the
 * device may write to the slot until the command has completed. The device executes commands one
 * after another, and the time limit is that of one command. So the limit restarts when another
 * command completes, but not more often than there were commands ahead of this one. So a device
 * that makes progress is not late, but a device that has lost this command is.
 */
static bool ohca_slot_wait(struct ohca_dev *dev, struct ohca_slot *slot)
{
	unsigned long limit = msecs_to_jiffies(dev->cmd_ms) + 1;
	struct ohca_aq *aq = &dev->aq;
	unsigned long deadline = jiffies + limit;
	u32 completed = READ_ONCE(aq->completed);
	u32 ahead = slot->ahead, now;

	for (;;) {
		bool late = time_after(jiffies, deadline);

		if (READ_ONCE(aq->polled))
			usleep_range(20, 100);
		else if (wait_for_completion_timeout(&slot->done, HZ / 4))
			return true;
		/* the interrupt may be lost, or disabled */
		ohca_aq_poll(aq);
		if (try_wait_for_completion(&slot->done))
			return true;
		now = READ_ONCE(aq->completed);
		if (ahead && now != completed) {
			ahead -= min(ahead, now - completed);
			completed = now;
			deadline = jiffies + limit;
			late = false;
		}
		if (late)
			return false;
	}
}

/**
 * ohca_cmd_exec - execute a command and wait for its completion
 * @dev: the device
 * @cmd: the command; @cmd->resp and @cmd->out are set on success
 *
 * Process context, may sleep. The wait for a slot is killable for a command of a consumer. The wait
 * for the completion is uninterruptible.
 * Return: 0, the errno of the device's status, -EINTR if the thread was killed before the command
 * was submitted, or -EIO if the device is dead. A command of OHCA_OP_TEARDOWN succeeds on a dead
 * device.
 */
int ohca_cmd_exec(struct ohca_dev *dev, struct ohca_cmd *cmd)
{
	bool share = ohca_op_class(cmd->aqe.hdr.opcode) == OHCA_OP_CONSUMER && !cmd->must;
	int dead = ohca_op_is_teardown(cmd->aqe.hdr.opcode) ? 0 : -EIO;
	struct ohca_aq *aq = &dev->aq;
	struct ohca_slot *slot;
	u64 begin = ktime_get_ns();
	int ret;

	might_sleep();
	if (WARN_ON_ONCE(cmd->in_len > OHCA_MAILBOX_SIZE || cmd->out_len > OHCA_MAILBOX_SIZE))
		return -EINVAL;

	slot = ohca_slot_get(aq, share);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	if (!slot)
		return dead;

	if (cmd->in) {
		memcpy(slot->in, cmd->in, cmd->in_len);
		*cmd->in_addr = cpu_to_le64(slot->in_dma);
	}
	if (cmd->out) {
		memset(slot->out, 0, cmd->out_len);
		*cmd->out_addr = cpu_to_le64(slot->out_dma);
	}
	ohca_slot_submit(aq, slot, &cmd->aqe);
	if (!ohca_slot_wait(dev, slot)) {
		char why[40];

		snprintf(why, sizeof(why), "%s timed out", ohca_op_name(cmd->aqe.hdr.opcode));
		/* resets the device and completes the slot */
		ohca_fatal(dev, why);
		wait_for_completion(&slot->done);
	}

	if (slot->error) {
		ret = dead;
	} else {
		cmd->resp = slot->resp;
		ret = ohca_aq_errno(slot->resp.status);
		if (!ret && cmd->out)
			memcpy(cmd->out, slot->out, cmd->out_len);
	}
	ohca_slot_put(aq, slot, share);
	trace_ohca_cmd(dev, cmd->aqe.hdr.opcode, ret, ktime_get_ns() - begin);
	if (ret && cmd->resp.status)
		ohca_aq_refused(dev, cmd->aqe.hdr.opcode, &cmd->resp);
	return ret;
}
