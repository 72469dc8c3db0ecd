/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: what follows the end of a device for consumers; flush.c. */
#ifndef OHCA_FLUSH_H
#define OHCA_FLUSH_H

#include <linux/workqueue.h>

#include "dev.h"

void ohca_flush_init(struct ohca_dev *dev);

/**
 * ohca_flush_kick - have the CQs of a dead device polled
 * @dev: the device
 *
 * Any context.
 */
static inline void ohca_flush_kick(struct ohca_dev *dev)
{
	schedule_work(&dev->flush_work);
}

#endif /* OHCA_FLUSH_H */
