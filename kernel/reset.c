// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The register STATUS and the reset of the device.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/jiffies.h>

#include "dev.h"
#include "fatal.h"
#include "pci.h"

/**
 * ohca_is_gone - whether the device does not respond: it was removed, or memory decoding is off
 * @dev: the device
 *
 * Any context. Reads of such a device return all ones or all zeros.
 * Return: true if it does not respond.
 */
bool ohca_is_gone(struct ohca_dev *dev)
{
	return readl(dev->regs + OHCA_REG_MAGIC) != OHCA_MAGIC;
}

/**
 * ohca_absence - whether the device is gone, or OHCA_STATUS_AWAY is set
 * @dev: the device
 *
 * Any context.
 * Return: the reason, for ohca_fatal(), or NULL.
 */
const char *ohca_absence(struct ohca_dev *dev)
{
	u32 status = readl(dev->regs + OHCA_REG_STATUS);

	/* first, because STATUS reads as all ones if the device is gone */
	if (ohca_is_gone(dev))
		return "the device is gone";
	return status & OHCA_STATUS_AWAY ? "the device is away" : NULL;
}

/**
 * ohca_wait_status - wait for bits of STATUS
 * @dev: the device
 * @mask: bits of STATUS
 * @bits: their expected value
 *
 * Process context. If FATAL is set and not in @mask, this function does not wait, because the
 * device executes nothing but a reset. If the device is away, the function sets ohca_function.away,
 * and recovery waits for the device.
 * Return: 0, -ENODEV if it is gone, -EHOSTDOWN if it is away, -EIO if it is FATAL, -ETIMEDOUT.
 */
int ohca_wait_status(struct ohca_dev *dev, u32 mask, u32 bits)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(dev->reset_ms) + 1;

	for (;;) {
		bool late = time_after(jiffies, deadline);
		u32 status = readl(dev->regs + OHCA_REG_STATUS);

		if (ohca_is_gone(dev))
			return -ENODEV;
		if (status & OHCA_STATUS_AWAY) {
			if (dev->fn)
				WRITE_ONCE(dev->fn->away, true);
			return -EHOSTDOWN;
		}
		if ((status & mask) == bits)
			return 0;
		if (status & ~mask & OHCA_STATUS_FATAL)
			return -EIO;
		if (late)
			return -ETIMEDOUT;
		usleep_range(50, 200);
	}
}

/**
 * ohca_reset_hw - reset the device: it stops all DMA and destroys all objects
 * @dev: device whose BAR 0 is mapped
 *
 * Process context.
 * Return: 0, -ENODEV if it is gone, -EHOSTDOWN if it is away, -ETIMEDOUT if the reset does not
 * complete.
 */
int ohca_reset_hw(struct ohca_dev *dev)
{
	writel(OHCA_CTRL_RESET, dev->regs + OHCA_REG_CTRL);
	return ohca_wait_status(dev, OHCA_STATUS_READY | OHCA_STATUS_ENABLED | OHCA_STATUS_FATAL,
				OHCA_STATUS_READY);
}
