/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Differences between the versions of QEMU that the device supports, 10.0 to
 * 11.1. The device uses the interfaces of the newest version; this file adapts
 * them to older ones. A version below is the first one with an interface.
 */
#ifndef HW_RDMA_OHCA_COMPAT_H
#define HW_RDMA_OHCA_COMPAT_H

#define OHCA_QEMU_SINCE(major, minor) \
    (QEMU_VERSION_MAJOR > (major) || \
     (QEMU_VERSION_MAJOR == (major) && QEMU_VERSION_MINOR >= (minor)))

/* ---- renamed headers ---- */

#if OHCA_QEMU_SINCE(10, 1)
#include "exec/icount.h"
#include "system/address-spaces.h"
#include "system/memory.h"
#include "system/ramblock.h"
#else
#include "exec/address-spaces.h"
#include "exec/memory.h"
#include "exec/ramblock.h"
#include "system/cpu-timers.h"
#endif

#if OHCA_QEMU_SINCE(11, 0)
#include "hw/core/qdev-properties.h"
#include "hw/core/resettable.h"
#else
#include "hw/qdev-properties.h"
#include "hw/resettable.h"
#endif

#include "system/runstate.h"

/* ---- class data and lists of interfaces are const since 10.1 ---- */

#if OHCA_QEMU_SINCE(10, 1)
typedef const void OhcaClassData;
typedef const InterfaceInfo OhcaInterfaceInfo;
#else
typedef void OhcaClassData;
typedef InterfaceInfo OhcaInterfaceInfo;
#endif

/* ---- functions ---- */

#if !OHCA_QEMU_SINCE(10, 1)
/* older versions have no handler that returns a status */
#define qdev_add_vm_change_state_handler(dev, cb, cb_ret, opaque) \
    qdev_add_vm_change_state_handler(dev, cb, opaque)
#endif

/*
 * Block all modes except live migration. Returns 0, or -errno with @errp set.
 */
#if OHCA_QEMU_SINCE(10, 2)
#define ohca_block_cpr(reason, errp) \
    migrate_add_blocker_modes(reason, BIT(MIG_MODE_CPR_REBOOT) | \
                              BIT(MIG_MODE_CPR_TRANSFER) | \
                              BIT(MIG_MODE_CPR_EXEC), errp)
#else
#define ohca_block_cpr(reason, errp) \
    migrate_add_blocker_modes(reason, errp, MIG_MODE_CPR_REBOOT, \
                              MIG_MODE_CPR_TRANSFER, -1)
#endif

/*
 * The first value of enum MigrationEventType, whose name differs between
 * versions.
 */
#define OHCA_MIGRATION_BEGINS   0

#if !OHCA_QEMU_SINCE(10, 2)
/* older versions always take the BQL for MMIO handlers */
#define memory_region_enable_lockless_io(mr)    ((void)(mr))
#endif

#endif /* HW_RDMA_OHCA_COMPAT_H */
