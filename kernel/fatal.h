/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA driver: failure of a device, fatal.c; completion of outstanding WQEs after it, flush.c;
 * the register STATUS and the reset of the device, reset.c.
 */
#ifndef OHCA_FATAL_H
#define OHCA_FATAL_H

#include <linux/jiffies.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "dev.h"

#define OHCA_HEALTH_PERIOD	(2 * HZ)

/* fatal.c */
void ohca_fatal_init(struct ohca_dev *dev);
void ohca_fatal_stop(struct ohca_dev *dev);
void ohca_fatal(struct ohca_dev *dev, const char *why);
void ohca_halt(struct ohca_dev *dev);

/* flush.c */
void ohca_flush_init(struct ohca_dev *dev);

/**
 * ohca_flush_kick - queue the work that has the CQs of a dead device polled
 * @dev: the device
 *
 * Any context.
 */
static inline void ohca_flush_kick(struct ohca_dev *dev)
{
	schedule_work(&dev->flush_work);
}

/* reset.c */
bool ohca_is_gone(struct ohca_dev *dev);
const char *ohca_absence(struct ohca_dev *dev);
int ohca_wait_status(struct ohca_dev *dev, u32 mask, u32 bits);
int ohca_reset_hw(struct ohca_dev *dev);

#endif /* OHCA_FATAL_H */
