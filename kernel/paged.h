/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions with on-demand paging: what fault.c, paged.c, odp.c and dmabuf.c share.
 *
 * The driver sets a page in the device under the lock under which the page is invalidated:
 * the umem_mutex of an address range, the reservation lock of a dma-buf. Invalidation may run
 * in reclaim; so no code allocates memory under these locks, nor in a command.
 */
#ifndef OHCA_PAGED_H
#define OHCA_PAGED_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "obj.h"

struct ib_dmah;
struct ohca_dev;

/** enum ohca_want - the access that pages are faulted in for */
enum ohca_want {
	OHCA_WANT_READ,		/* the device reads; the mapping may be writable */
	OHCA_WANT_WRITE,	/* the device writes */
	OHCA_WANT_ADVICE_READ,	/* a prefetch for reading */
	OHCA_WANT_PRESENT,	/* present pages with their present rights; none is faulted in */
};

struct ohca_paged;

/**
 * struct ohca_odp_mm - the regions of one address space, and their tables
 * @link: in ohca_dev.odp_mms
 * @mm: the address space; a region's umem holds a reference to the structure
 * @refs: regions, under ohca_dev.odp_lock
 * @lock: protects the rest, and creation and removal of children; outside of the locks
 *	of regions
 * @entries: entries of tables: one for each page that a region or a child covers
 * @children: struct ohca_child, the oldest first
 */
struct ohca_odp_mm {
	struct list_head link;
	struct mm_struct *mm;
	u32 refs;
	struct mutex lock;	/* see above */
	u64 entries;
	struct list_head children;
};

/**
 * struct ohca_child - a part of an implicit region, with its own tables
 * @link: in ohca_odp_mm.children
 * @p: the region
 * @index: its address >> OHCA_CHILD_SHIFT
 * @umem: its tables
 */
struct ohca_child {
	struct list_head link;
	struct ohca_paged *p;
	unsigned long index;
	struct ib_umem_odp *umem;
};

/**
 * struct ohca_paged - a region with on-demand paging
 * @dev: the device
 * @key: L_Key and R_Key
 * @iova: address of the first byte, for the device
 * @start: address of the same byte in the process, or offset in the dma-buf
 * @length: bytes
 * @shift: log2 of the page size
 * @writable: a local or remote write right is set
 * @pdn: protection domain
 * @umem: address range, root of an implicit region, or dma-buf
 * @populate: fault in the pages of [va, va + len), counted like @start, and set them in the
 *	device; process context. Returns 0 or a negative errno
 * @obj: held by the region until it is deregistered, and by work on it
 * @leaving: DEREG_MR is under way: the device may refuse the key
 * @gone: the device has deregistered it: no page is left to invalidate
 * @odp: region of an address space: the address space
 * @entries: entries of its own tables; the children of an implicit region count separately
 * @lock: implicit region: held for reading while a child is used, for writing to remove one
 * @children: implicit region: struct ohca_child by address >> OHCA_CHILD_SHIFT
 * @reap: implicit region: removes children without a page
 */
struct ohca_paged {
	struct ohca_dev *dev;
	u32 key;
	u64 iova;
	u64 start;
	u64 length;
	u32 shift;
	bool writable;
	u32 pdn;
	struct ib_umem *umem;
	int (*populate)(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want);
	struct ohca_obj obj;
	bool leaving;
	bool gone;
	struct ohca_odp_mm *odp;
	u64 entries;
	struct rw_semaphore lock;	/* see above */
	struct xarray children;
	struct work_struct reap;
};

/* paged.c */
struct ohca_paged *ohca_paged_alloc(struct ohca_dev *dev, u64 iova, u64 start, u64 length,
				    u32 shift, int access);
struct ib_mr *ohca_paged_register(struct ohca_paged *p, struct ib_pd *ibpd, int access);
struct ohca_paged *ohca_paged_get(struct ohca_dev *dev, u32 key);
void ohca_paged_put(struct ohca_paged *p);
int ohca_paged_name(struct ohca_paged *p, u64 va, const __le64 *pages, u32 n);
void ohca_paged_take(struct ohca_paged *p, u64 va, u64 n);
int ohca_paged_populate(struct ohca_paged *p, u64 addr, u64 len, enum ohca_want want);
void ohca_paged_leave(struct ohca_paged *p, bool leaving);
void ohca_paged_end(struct ohca_paged *p);
int ohca_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sg, u32 num, struct uverbs_attr_bundle *attrs);

/* odp.c */
struct ib_mr *ohca_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access);
void ohca_odp_release(struct ohca_paged *p);

/* dmabuf.c */
struct ib_mr *ohca_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 virt, int fd,
				      int access, struct ib_dmah *dmah,
				      struct uverbs_attr_bundle *attrs);

#endif /* OHCA_PAGED_H */
