/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/stall: memory that does not come until a test says so.
 *
 * A page of a shared mapping is faulted in when STALL_COME has been called, and is zero then.
 */
#ifndef STALL_H
#define STALL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define STALL_SECONDS	100	/* a fault fails after that */

/* Faults wait from now on */
#define STALL_HOLD	_IO('M', 0x80)
/* They wait no more */
#define STALL_COME	_IO('M', 0x81)
/* Faults that wait now */
#define STALL_WAITING	_IOR('M', 0x82, __u32)

#endif /* STALL_H */
