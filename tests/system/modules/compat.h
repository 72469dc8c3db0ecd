/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between the kernels of the guests, 6.1.y, 6.12.y, 7.2.y and 7.3.y, for these modules,
 * which are written for the newest. kernel/compat.h is that of the driver.
 */
#ifndef OHCA_TEST_COMPAT_H
#define OHCA_TEST_COMPAT_H

#include <linux/dma-buf.h>
#include <linux/mm.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
#define TEST_DMA_BUF_NS		"DMA_BUF"
#else
#define TEST_DMA_BUF_NS		DMA_BUF
#define dma_buf_invalidate_mappings	dma_buf_move_notify
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define TEST_HAS_ATOMIC_WRITE
#else
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}
#endif

#endif /* OHCA_TEST_COMPAT_H */
