// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Failure of a device: the device reported an error, does not answer, or was removed. The driver
 * resets it, which stops all DMA, and fails its commands. flush.c completes outstanding WQEs and
 * notifies consumers.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/workqueue.h>

#include "aq.h"
#include "dev.h"
#include "fatal.h"
#include "pci.h"
#include "trace.h"

/*
 * Stops all DMA of the device. If the device responds but does not complete a reset, the driver
 * never frees memory that the device may access (OHCA_WEDGED). Process context.
 */
static void ohca_quiesce(struct ohca_dev *dev)
{
	enum ohca_life life = OHCA_QUIET;
	int ret = ohca_reset_hw(dev);

	pci_clear_master(dev->pdev);
	if (ret == -ETIMEDOUT) {
		dev_err(&dev->pdev->dev, "the device did not complete a reset; its memory is not freed\n");
		life = OHCA_WEDGED;
	}
	smp_store_release(&dev->life, life);	/* pairs with ohca_is_quiet() */
}

/*
 * Marks the device dead, stops it, and fails its commands, in this order: software must not
 * complete WQEs while the device may still write to their buffers. Processes keep their mappings of
 * doorbell pages; a device that is reset ignores doorbells. Under ohca_dev.fatal_lock.
 */
static void ohca_give_up(struct ohca_dev *dev)
{
	WRITE_ONCE(dev->life, OHCA_DYING);
	ohca_quiesce(dev);
	ohca_aq_fail(dev);
}

/**
 * ohca_fatal - declare the device dead
 * @dev: the device
 * @why: reason, for the log
 *
 * Process context, may sleep. Only the first call has an effect. All calls return after the device
 * is quiet or wedged and every pending command has failed.
 */
void ohca_fatal(struct ohca_dev *dev, const char *why)
{
	mutex_lock(&dev->fatal_lock);
	if (!ohca_is_dead(dev)) {
		u32 reason = readl(dev->regs + OHCA_REG_FATAL_REASON);

		dev_err(&dev->pdev->dev, "%s (reason %#x)\n", why, reason);
		trace_ohca_fatal(dev, why, reason);
		ohca_give_up(dev);
		schedule_work(&dev->fatal_work);
	}
	mutex_unlock(&dev->fatal_lock);
}

/**
 * ohca_halt - stop the device without a message: for shutdown and removal
 * @dev: the device
 *
 * Process context. A later ohca_fatal() has no effect.
 */
void ohca_halt(struct ohca_dev *dev)
{
	cancel_delayed_work_sync(&dev->health);
	mutex_lock(&dev->fatal_lock);
	if (!ohca_is_dead(dev)) {
		ohca_give_up(dev);
		ohca_flush_kick(dev);
	}
	mutex_unlock(&dev->fatal_lock);
}

static void ohca_health_work(struct work_struct *work)
{
	struct ohca_dev *dev = container_of(to_delayed_work(work), struct ohca_dev, health);
	u32 status = readl(dev->regs + OHCA_REG_STATUS);
	const char *absence = ohca_absence(dev);

	if (absence)
		ohca_fatal(dev, absence);
	else if (status & OHCA_STATUS_FATAL)
		ohca_fatal(dev, "the device raised FATAL");
	else if (!(status & OHCA_STATUS_ENABLED))
		ohca_fatal(dev, "the device had a reset that the driver did not request");
	else
		schedule_delayed_work(&dev->health, OHCA_HEALTH_PERIOD);
}

/** ohca_fatal_init - initialize the lock and the health work; before any command */
void ohca_fatal_init(struct ohca_dev *dev)
{
	mutex_init(&dev->fatal_lock);
	INIT_DELAYED_WORK(&dev->health, ohca_health_work);
}

/** ohca_fatal_stop - cancel the work items of fatal.c and flush.c, and wait; process context */
void ohca_fatal_stop(struct ohca_dev *dev)
{
	cancel_delayed_work_sync(&dev->health);
	cancel_work_sync(&dev->fatal_work);
	cancel_work_sync(&dev->flush_work);
}
