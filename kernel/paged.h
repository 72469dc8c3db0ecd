/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions whose pages come and go: what fault.c, paged.c, odp.c and dmabuf.c share.
 *
 * A page is named to the device under the lock under which it may be taken back: the
 * umem_mutex of an address range, the reservation lock of a dma-buf. Whoever takes pages
 * back may stand in reclaim; so under these locks, and in a command, nothing is allocated.
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

struct ohca_dev;

/** enum ohca_want - for what pages are to be brought in */
enum ohca_want {
	OHCA_WANT_READ,		/* the device reads; may map for writing, too */
	OHCA_WANT_WRITE,	/* the device writes */
	OHCA_WANT_ADVICE_READ,	/* for reading alone */
	OHCA_WANT_PRESENT,	/* what is there, as it is; no page is brought in */
};

struct ohca_paged;

/**
 * struct ohca_odp_mm - what the regions of one address space take of the kernel
 * @link: in ohca_dev.odp_mms
 * @mm: the address space; a region's umem keeps the structure, if not what is mapped
 * @refs: regions, under ohca_dev.odp_lock
 * @lock: protects the rest, and the children of regions from being made or removed; outside of
 *	the locks of regions
 * @entries: of tables, one for each page that a region or a child covers
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
 * struct ohca_child - a piece of an implicit region with tables of its own
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
 * struct ohca_paged - a region whose pages come and go
 * @dev: the device
 * @key: L_Key and R_Key
 * @iova: address of the first byte, for the device
 * @start: the same byte in the process or in the dma-buf
 * @length: bytes
 * @shift: log2 of the page size
 * @writable: the consumer gave rights to write
 * @pdn: protection domain
 * @umem: address range, root of an implicit region, or dma-buf
 * @populate: bring pages of [va, va + len) in, as @start counts, and name them; process
 *	context. 0 or a negative errno
 * @obj: held by the region until it is deregistered, and by who works with it
 * @leaving: DEREG_MR is under way: the device may not know the key any more
 * @gone: it has forgotten the region: there is nothing to take back
 * @odp: region of an address space: what it takes there
 * @entries: of these its own tables; an implicit region's children count for themselves
 * @lock: implicit region: held for reading by who uses a child, for writing to remove one
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
				      int access, struct uverbs_attr_bundle *attrs);

#endif /* OHCA_PAGED_H */
