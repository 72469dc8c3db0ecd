/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: the end of a device; fatal.c. */
#ifndef OHCA_FATAL_H
#define OHCA_FATAL_H

#include <linux/jiffies.h>

struct ohca_dev;

#define OHCA_HEALTH_PERIOD	(2 * HZ)

void ohca_fatal_init(struct ohca_dev *dev);
void ohca_fatal_stop(struct ohca_dev *dev);
void ohca_fatal(struct ohca_dev *dev, const char *why);
void ohca_halt(struct ohca_dev *dev);

#endif /* OHCA_FATAL_H */
