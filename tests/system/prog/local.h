/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tests of ohca-peer that need only one machine. */
#ifndef LOCAL_H
#define LOCAL_H

#include "peer.h"

/** local_main - one scenario; its last line states the result */
void local_main(const char *name);

/** share_main - a second process imports context, PD, MR and DM; the first one is killed */
void share_main(void);

/** lost_main - traffic until the device is removed */
void lost_main(void);

/** channels_main - many CQs on few channels, thousands of regions */
void channels_main(void);

/** nomem_main - verbs while allocations in the kernel fail */
void nomem_main(void);

/** supplied_main - a CQ in memory that the consumer passes by the core's attributes */
void supplied_main(void);

/** dm_main - device memory of several contexts */
void dm_main(void);

/** narrow_main - the driver refuses a context to system calls of a 32-bit program; x86 only */
void narrow_main(void);

/** doorbells_main - posts at the moment when the device has found a queue empty */
void doorbells_main(void);

/** fork_main - children that access registered pages; @init: after ibv_fork_init() */
void fork_main(bool init);

#endif
