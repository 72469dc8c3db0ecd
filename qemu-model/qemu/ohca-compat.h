/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Differences between the versions of QEMU that the device supports, 10.0 to 11.
 */
#ifndef HW_RDMA_OHCA_COMPAT_H
#define HW_RDMA_OHCA_COMPAT_H

#define OHCA_QEMU_SINCE(major, minor) \
    (QEMU_VERSION_MAJOR > (major) || \
     (QEMU_VERSION_MAJOR == (major) && QEMU_VERSION_MINOR >= (minor)))

/* 10.1: exec/ gave the memory API to system/ */
#if __has_include("system/memory.h")
#include "system/memory.h"
#else
#include "exec/memory.h"
#endif

/* 11: headers of the core moved below hw/core/ */
#if __has_include("hw/core/qdev-properties.h")
#include "hw/core/qdev-properties.h"
#else
#include "hw/qdev-properties.h"
#endif
#if __has_include("hw/core/resettable.h")
#include "hw/core/resettable.h"
#else
#include "hw/resettable.h"
#endif

/* 10.1: class data and interface lists became const */
#if OHCA_QEMU_SINCE(10, 1)
typedef const void OhcaClassData;
typedef const InterfaceInfo OhcaInterfaceInfo;
#else
typedef void OhcaClassData;
typedef InterfaceInfo OhcaInterfaceInfo;
#endif

/* 10.2: MMIO handlers that need no BQL */
#if OHCA_QEMU_SINCE(10, 2)
#define ohca_lockless_io(mr)    memory_region_enable_lockless_io(mr)
#else
#define ohca_lockless_io(mr)    ((void)(mr))
#endif

#endif /* HW_RDMA_OHCA_COMPAT_H */
