/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA driver: interfaces that older kernels lack, in the form of the newest kernel; ops.c does
 * the same for struct ib_device_ops. Distributions backport ib_core, so the kernel's version does
 * not say which interfaces exist. compat/features looks for each of them in the kernel's headers
 * and defines OHCA_HAVE_*.
 */
#ifndef OHCA_COMPAT_H
#define OHCA_COMPAT_H

#ifdef OHCA_NO_RDMA_HEADERS
#error "OpenHCA needs the headers of a kernel with rdma/ib_verbs.h"
#endif

#include <linux/dma-buf.h>
#include <linux/hmm.h>
#include <linux/mm.h>
#include <linux/pci-p2pdma.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#ifdef OHCA_HAVE_UNALIGNED	/* else the architecture has it */
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif
#ifdef OHCA_HAVE_RDMA_ITER	/* else it is in rdma/ib_umem.h */
#include <rdma/iter.h>
#endif

#include "ohca_hw.h"

/* ---- FLUSH and ATOMIC WRITE ---- */

#ifdef OHCA_HAVE_ATOMIC_WRITE
static_assert(IB_WR_ATOMIC_WRITE == (int)OHCA_OP_ATOMIC_WRITE);

#define OHCA_KERNEL_LACKS	0ull	/* features of the device that ib_core does not support */
#else
/*
 * Without the feature the driver does not report the capabilities, does not grant the rights, and
 * refuses the operation. IB_WR_RESERVED1 stands for it, an opcode that no consumer uses.
 */
#define OHCA_KERNEL_LACKS		BIT_ULL(OHCA_FEATURE_MPE)
#define IB_ACCESS_FLUSH_GLOBAL		BIT(8)
#define IB_ACCESS_FLUSH_PERSISTENT	BIT(9)
#define IB_DEVICE_FLUSH_GLOBAL		BIT_ULL(38)
#define IB_DEVICE_FLUSH_PERSISTENT	BIT_ULL(39)
#define IB_DEVICE_ATOMIC_WRITE		BIT_ULL(40)
#define IB_WR_ATOMIC_WRITE		IB_WR_RESERVED1
#define IB_WC_ATOMIC_WRITE		IB_WC_RECV
#endif

/* ---- ports ---- */

#ifndef OHCA_HAVE_SPEED_XDR
#define IB_SPEED_XDR	256
#endif

/* ---- memory ---- */

#ifndef OHCA_HAVE_VM_FLAGS_CLEAR
static inline void vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

#ifndef OHCA_HAVE_UMEM_GET_VA
static inline struct ib_umem *ib_umem_get_va(struct ib_device *ibdev, unsigned long addr,
					     size_t size, int access)
{
	return ib_umem_get(ibdev, addr, size, access);
}
#endif

/*
 * A consumer may supply the memory of a CQ by attributes. In the newest kernel the driver resolves
 * them. One older kernel resolves them itself and sets ib_cq.umem. Kernels before that refuse them
 * unless the driver supports them.
 */
#ifndef OHCA_HAVE_UMEM_GET_CQ_BUF
static inline struct ib_umem *ib_umem_get_cq_buf_or_va(struct ib_device *ibdev,
						       const struct uverbs_attr_bundle *attrs,
						       u64 addr, size_t size, int access)
{
	return ib_umem_get_va(ibdev, addr, size, access);
}
#endif

/** ohca_cq_has_umem - whether the kernel has resolved memory for a CQ, which the driver refuses */
static inline bool ohca_cq_has_umem(const struct ib_cq *ibcq)
{
#if defined(OHCA_HAVE_CQ_UMEM) && !defined(OHCA_HAVE_UMEM_GET_CQ_BUF)
	return ibcq->umem;
#else
	return false;
#endif
}

/* ---- on-demand paging ---- */

#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
#ifdef OHCA_HAVE_HMM_DMA_MAP
/*
 * ib_umem_odp_map_dma_and_lock() counts pfn_list in pages of PAGE_SIZE, whatever the page size of
 * the umem is. A umem of small pages has one count only; it serves huge pages as well.
 */
#define OHCA_ODP_LACKS	IB_ACCESS_HUGETLB

/**
 * ohca_umem_odp_is_mapped - whether a page is mapped for the device
 * @umem: umem with on-demand paging
 * @i: index of the page
 *
 * Under @umem->umem_mutex.
 */
static inline bool ohca_umem_odp_is_mapped(const struct ib_umem_odp *umem, size_t i)
{
	return umem->map.pfn_list[i] & HMM_PFN_DMA_MAPPED;
}

/**
 * ohca_umem_odp_fault - look up pages of a process
 * @umem: umem with on-demand paging
 * @va: address of the first byte
 * @len: bytes
 * @access: required rights: HMM_PFN_VALID, and HMM_PFN_WRITE for writing
 * @fault: fault missing pages in; else only pages that are present are looked up
 *
 * Process context. Return: the number of pages, with @umem->umem_mutex held, or a negative errno.
 */
static inline int ohca_umem_odp_fault(struct ib_umem_odp *umem, u64 va, u64 len, u64 access,
				      bool fault)
{
	return ib_umem_odp_map_dma_and_lock(umem, va, len, access, fault);
}

/**
 * ohca_umem_odp_pages - map pages for the device
 * @umem: umem with on-demand paging
 * @first: index of the first page
 * @n: number of pages
 * @pages: set to their bus addresses with their rights, OHCA_ODP_*; 0 for a page that is absent
 *
 * Under @umem->umem_mutex, after ohca_umem_odp_fault() for these pages. A page that the process may
 * write gets OHCA_ODP_WRITE even if @access had no HMM_PFN_WRITE, so a later write does not fault.
 * Return: the number of pages that are present, or a negative errno.
 */
static inline int ohca_umem_odp_pages(struct ib_umem_odp *umem, size_t first, int n, __le64 *pages)
{
	struct ib_device *ibdev = umem->umem.ibdev;
	struct pci_p2pdma_map_state state = {};
	int i, present = 0;

	for (i = 0; i < n; i++) {
		unsigned long pfn = umem->map.pfn_list[first + i];
		u64 rights = OHCA_ODP_READ | (pfn & HMM_PFN_WRITE ? OHCA_ODP_WRITE : 0);
		dma_addr_t addr;

		pages[i] = 0;
		if (!(pfn & HMM_PFN_VALID))
			continue;
		addr = hmm_dma_map_pfn(ibdev->dma_device, &umem->map, first + i, &state);
		if (ib_dma_mapping_error(ibdev, addr))
			return -EFAULT;
		/* the core decrements it when it unmaps a page */
		if (!(pfn & HMM_PFN_DMA_MAPPED))
			umem->npages++;
		pages[i] = cpu_to_le64(addr | rights);
		present++;
	}
	return present;
}
#else
#define OHCA_ODP_LACKS	0

static_assert(ODP_READ_ALLOWED_BIT == OHCA_ODP_READ && ODP_WRITE_ALLOWED_BIT == OHCA_ODP_WRITE);

static inline bool ohca_umem_odp_is_mapped(const struct ib_umem_odp *umem, size_t i)
{
	return umem->dma_list[i];
}

static inline int ohca_umem_odp_fault(struct ib_umem_odp *umem, u64 va, u64 len, u64 access,
				      bool fault)
{
	u64 rights = ODP_READ_ALLOWED_BIT | (access & HMM_PFN_WRITE ? ODP_WRITE_ALLOWED_BIT : 0);

	return ib_umem_odp_map_dma_and_lock(umem, va, len, rights, fault);
}

/*
 * The core has mapped the pages and has stored the required rights in dma_list, even if a page has
 * more. Without the right to write that is added here, a prefetch for reading would revoke the
 * right to write that an earlier prefetch for writing has set.
 */
static inline int ohca_umem_odp_pages(struct ib_umem_odp *umem, size_t first, int n, __le64 *pages)
{
	u32 shift = umem->page_shift - PAGE_SHIFT;
	int i, present = 0;

	for (i = 0; i < n; i++) {
		dma_addr_t *dma = &umem->dma_list[first + i];

		/* the core marks a page dirty by this right when it unmaps it */
		if (*dma && umem->umem.writable &&
		    umem->pfn_list[(first + i) << shift] & HMM_PFN_WRITE)
			*dma |= ODP_WRITE_ALLOWED_BIT;
		pages[i] = cpu_to_le64(*dma);
		present += *dma != 0;
	}
	return present;
}
#endif
#endif /* CONFIG_INFINIBAND_ON_DEMAND_PAGING */

#endif /* OHCA_COMPAT_H */
