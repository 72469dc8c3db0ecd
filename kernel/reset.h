/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: the register STATUS, and the reset of the device; reset.c. */
#ifndef OHCA_RESET_H
#define OHCA_RESET_H

#include <linux/types.h>

struct ohca_dev;

bool ohca_is_gone(struct ohca_dev *dev);
int ohca_wait_status(struct ohca_dev *dev, u32 mask, u32 bits);
int ohca_reset_hw(struct ohca_dev *dev);

#endif /* OHCA_RESET_H */
