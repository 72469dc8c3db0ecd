/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/stall: memory that is not provided until a test requests it. A fault of a shared mapping
 * waits from STALL_HOLD to STALL_COME, and gets a page of zeros.
 */
#ifndef STALL_H
#define STALL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define STALL_SECONDS	100	/* a fault fails after that */

/* Faults wait from now on */
#define STALL_HOLD	_IO('M', 0x80)
/* Faults no longer wait */
#define STALL_COME	_IO('M', 0x81)
/* Number of faults that wait now */
#define STALL_WAITING	_IOR('M', 0x82, __u32)

#endif /* STALL_H */
