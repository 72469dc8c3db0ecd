/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: declarations of odp.c, odp_implicit.c and odp_mm.c; see also paged.h. */
#ifndef OHCA_ODP_MM_H
#define OHCA_ODP_MM_H

#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>

#include "paged.h"

struct ohca_dev;

#define OHCA_CHILD_SHIFT	26	/* log2 of the bytes of a child; its tables have 256 KiB */
#define OHCA_CHILD_SIZE		BIT_ULL(OHCA_CHILD_SHIFT)
#define OHCA_CHILD_ENTRIES	(OHCA_CHILD_SIZE >> PAGE_SHIFT)

/**
 * struct ohca_odp_mm - the regions of one address space on one device, and their tables
 * @link: in ohca_dev.odp_mms
 * @dev: the device
 * @mm: the address space, referenced by mmgrab(): the umem of an implicit region holds no
 *	reference, and its process may exit while another process uses the region
 * @refs: regions, under ohca_dev.odp_lock
 * @lock: protects the fields that follow, and creation and removal of children
 * @entries: table entries that are charged: one for each page that a region or a child covers
 * @children: struct ohca_child, the oldest first
 * @reap: destroys children without pages
 */
struct ohca_odp_mm {
	struct list_head link;
	struct ohca_dev *dev;
	struct mm_struct *mm;
	u32 refs;
	struct mutex lock;	/* see above */
	u64 entries;
	struct list_head children;
	struct delayed_work reap;
};

/**
 * struct ohca_child - a part of an implicit region, with its own tables
 * @link: in ohca_odp_mm.children
 * @p: the region
 * @index: its address in the process >> OHCA_CHILD_SHIFT
 * @umem: its tables
 */
struct ohca_child {
	struct list_head link;
	struct ohca_paged *p;
	unsigned long index;
	struct ib_umem_odp *umem;
};

/* odp_mm.c */
struct ohca_odp_mm *ohca_odp_mm_get(struct ohca_dev *dev);
void ohca_odp_mm_put(struct ohca_odp_mm *odp);
u64 ohca_odp_limit(void);
bool ohca_odp_charge(struct ohca_odp_mm *odp, u64 entries);
void ohca_odp_uncharge(struct ohca_odp_mm *odp, u64 entries);

/* odp.c */
extern const struct mmu_interval_notifier_ops ohca_odp_notifier_ops;
void ohca_odp_unmap(struct ib_umem_odp *umem, u64 from, u64 to);
int ohca_odp_fault_in(struct ohca_paged *p, struct ib_umem_odp *umem, u64 va, u64 len,
		      enum ohca_want want);
void ohca_odp_release(struct ohca_paged *p);

/* odp_implicit.c */
extern const struct ohca_paged_ops ohca_implicit_ops;
void ohca_odp_reap_work(struct work_struct *work);
#if IS_ENABLED(CONFIG_KUNIT)
struct ohca_child *ohca_child_victim(struct ohca_odp_mm *odp, const struct ohca_paged *p);
#endif

#endif /* OHCA_ODP_MM_H */
