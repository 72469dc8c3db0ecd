/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA driver: all that differs between the kernels it is built for, 6.1.y, 6.6.y, 6.8.y,
 * 6.11.y, 6.12.y, 7.2.y and 7.3.y. The driver is written for the newest; this file supplies what
 * the others lack. A version below is that of the first kernel with an interface, or of the first
 * of these with it. For what point releases have added Kbuild looks in the headers.
 */
#ifndef OHCA_COMPAT_H
#define OHCA_COMPAT_H

#include <linux/dma-buf.h>
#include <linux/hmm.h>
#include <linux/mm.h>
#include <linux/pci-p2pdma.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>
#include <rdma/uverbs_ioctl.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif
#ifdef OHCA_HAVE_RDMA_ITER	/* else it is in rdma/ib_umem.h */
#include <rdma/iter.h>
#endif

#include "counters.h"
#include "cq.h"
#include "mr.h"
#include "ohca_hw.h"
#include "paged.h"
#include "restrack.h"

/* ---- FLUSH and ATOMIC WRITE ---- */

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
static_assert(IB_WR_ATOMIC_WRITE == (int)OHCA_OP_ATOMIC_WRITE);

#define OHCA_KERNEL_LACKS	0ull	/* features of the device that ib_core does not know */
#else
/*
 * Without the feature the driver reports no capability, grants no such right, and refuses the
 * operation. The numbers of the work request and of its completion are such as no consumer uses.
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

/* ---- memory ---- */

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define invalidate_mappings	move_notify	/* of struct dma_buf_attach_ops */

static inline struct ib_umem *ib_umem_get_va(struct ib_device *ibdev, unsigned long addr,
					     size_t size, int access)
{
	return ib_umem_get(ibdev, addr, size, access);
}
#endif

/* ---- on-demand paging ---- */

#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
/*
 * ib_umem_odp_map_dma_and_lock() counts pfn_list in pages of PAGE_SIZE, whatever the page size of
 * the umem is. A umem of small pages has one count only; it serves huge pages as well.
 */
#define OHCA_ODP_LACKS	IB_ACCESS_HUGETLB

/**
 * ohca_umem_odp_is_mapped - whether a page is mapped for the device
 * @umem: umem with on-demand paging
 * @i: which page
 *
 * Under @umem->umem_mutex.
 */
static inline bool ohca_umem_odp_is_mapped(const struct ib_umem_odp *umem, size_t i)
{
	return umem->map.pfn_list[i] & HMM_PFN_DMA_MAPPED;
}

/**
 * ohca_umem_odp_fault - bring pages of a process
 * @umem: umem with on-demand paging
 * @va: address of the first
 * @len: bytes
 * @access: rights wanted: HMM_PFN_VALID, and HMM_PFN_WRITE for writing
 * @fault: fault them in; else what is present will do
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
 * @first: the first page
 * @n: how many
 * @pages: set to their bus addresses with their rights, OHCA_ODP_*; 0 for a page that is absent
 *
 * Under @umem->umem_mutex, after ohca_umem_odp_fault() for these pages. A page that the process may
 * write has the right to be written, whatever was wanted: no write faults for it.
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
		/* the core counts a page off when it is unmapped */
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
 * The core has mapped them. Their rights are those that were wanted if they were faulted in, and
 * those that the process has if not.
 */
static inline int ohca_umem_odp_pages(struct ib_umem_odp *umem, size_t first, int n, __le64 *pages)
{
	int i, present = 0;

	for (i = 0; i < n; i++) {
		pages[i] = cpu_to_le64(umem->dma_list[first + i]);
		present += pages[i] != 0;
	}
	return present;
}
#endif
#endif /* CONFIG_INFINIBAND_ON_DEMAND_PAGING */

/* ---- ib_device_ops: what main.c's tables have of the members that differ ---- */

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 1, 0)
#define OHCA_CREATE_CQ_OPS	.create_cq = ohca_create_cq, .create_user_cq = ohca_create_user_cq
#define OHCA_RESIZE_CQ_OPS	.resize_user_cq = ohca_resize_user_cq
#else
#define OHCA_CREATE_CQ_OPS	.create_cq = ohca_compat_create_cq
#define OHCA_RESIZE_CQ_OPS	.resize_cq = ohca_compat_resize_cq

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
static inline int ohca_compat_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
					struct uverbs_attr_bundle *attrs)
{
	return attrs ? ohca_create_user_cq(ibcq, attr, attrs) : ohca_create_cq(ibcq, attr, NULL);
}
#else
static inline int ohca_compat_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
					struct ib_udata *udata)
{
	if (!udata)
		return ohca_create_cq(ibcq, attr, NULL);
	return ohca_create_user_cq(ibcq, attr, rdma_udata_to_uverbs_attr_bundle(udata));
}
#endif

static inline int ohca_compat_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata)
{
	if (!udata)
		return -EOPNOTSUPP;
	return cqe > 0 ? ohca_resize_user_cq(ibcq, cqe, udata) : -EINVAL;
}
#endif

#ifdef OHCA_HAVE_PRE_DESTROY_CQ
#define OHCA_DESTROY_CQ_OPS	.destroy_cq = ohca_destroy_cq, \
				.post_destroy_cq = ohca_post_destroy_cq, \
				.pre_destroy_cq = ohca_pre_destroy_cq
#else
#define OHCA_DESTROY_CQ_OPS	.destroy_cq = ohca_compat_destroy_cq

/*
 * The core stops its poller before it calls this, and an event between the two starts the poller
 * again; so this function stops it once more. The core has set comp_wq where it polls in a work
 * item; a disabled softirq stays disabled.
 */
static inline int ohca_compat_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	ohca_pre_destroy_cq(ibcq);
	if (ibcq->comp_wq)
		cancel_work_sync(&ibcq->work);
	ohca_post_destroy_cq(ibcq);
	return 0;
}
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define OHCA_REG_MR_OPS		.reg_user_mr = ohca_reg_user_mr, \
				.reg_user_mr_dmabuf = ohca_reg_user_mr_dmabuf
#else
#define OHCA_REG_MR_OPS		.reg_user_mr = ohca_compat_reg_user_mr, \
				.reg_user_mr_dmabuf = ohca_compat_reg_user_mr_dmabuf

static inline struct ib_mr *ohca_compat_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
						    u64 virt, int access, struct ib_udata *udata)
{
	return ohca_reg_user_mr(ibpd, start, length, virt, access, NULL, udata);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
static inline struct ib_mr *ohca_compat_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
							   u64 length, u64 virt, int fd,
							   int access,
							   struct uverbs_attr_bundle *attrs)
{
	return ohca_reg_user_mr_dmabuf(ibpd, offset, length, virt, fd, access, NULL, attrs);
}
#else
static inline struct ib_mr *ohca_compat_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
							   u64 length, u64 virt, int fd,
							   int access, struct ib_udata *udata)
{
	return ohca_reg_user_mr_dmabuf(ibpd, offset, length, virt, fd, access, NULL,
				       rdma_udata_to_uverbs_attr_bundle(udata));
}
#endif
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 2, 0)
/* The core allocates a counter with this size and calls counter_init(). It checks neither. */
#define OHCA_COUNTER_BIND_OPS	.counter_bind_qp = ohca_counter_bind_qp, \
				.counter_unbind_qp = ohca_counter_unbind_qp, \
				.counter_init = ohca_compat_counter_init, \
				.size_rdma_counter = sizeof(struct rdma_counter)

static inline void ohca_compat_counter_init(struct rdma_counter *counter)
{
}
#else
#define OHCA_COUNTER_BIND_OPS	.counter_bind_qp = ohca_compat_counter_bind_qp, \
				.counter_unbind_qp = ohca_compat_counter_unbind_qp

/* The core of these kernels passes no port; the driver asks for none. */
static inline int ohca_compat_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp)
{
	return ohca_counter_bind_qp(counter, ibqp, 0);
}

static inline int ohca_compat_counter_unbind_qp(struct ib_qp *ibqp)
{
	return ohca_counter_unbind_qp(ibqp, 0);
}
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
#define OHCA_FILL_RES_OPS	.fill_res_mr_entry = ohca_fill_res_mr_entry, \
				.fill_res_srq_entry = ohca_fill_res_srq_entry
#define OHCA_FILL_RES_RAW_OPS	.fill_res_mr_entry_raw = ohca_fill_res_mr_entry_raw, \
				.fill_res_srq_entry_raw = ohca_fill_res_srq_entry_raw
#else
/* `rdma resource show srq` has nothing of the driver. */
#define OHCA_FILL_RES_OPS	.fill_res_mr_entry = ohca_fill_res_mr_entry
#define OHCA_FILL_RES_RAW_OPS	.fill_res_mr_entry_raw = ohca_fill_res_mr_entry_raw
#endif

#endif /* OHCA_COMPAT_H */
