/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Regions with on-demand paging, which have no pinned memory. An explicit region (odp.c) is a range
 * of a process's address space, an implicit region (odp_implicit.c) is all of it, and a third kind
 * is a part of a dma-buf (dmabuf.c). All kinds share the code of paged.c.
 *
 * States of a region:
 *
 *	LIVE	   REG_MR has returned the key, and the region is in ohca_dev.paged. Its pages may
 *		   be set in the device.
 *	   |  ^
 *	   |  | ohca_paged_dereg_abort(): windows are bound to it
 *	   v  |    ohca_paged_dereg_begin()
 *	LEAVING	   DEREG_MR is under way. The device may refuse the key in a command, which is not
 *		   an error in this state. The device may give the key to a new region, whose
 *	   |	   registration waits until this region is not in ohca_dev.paged any more.
 *	   v	   ohca_paged_dereg_finish(): the device has executed DEREG_MR, or is reset
 *	GONE	   No page is set in the device. The driver removes the region from ohca_dev.paged
 *		   and waits for the last reference. Then ohca_paged_ops.release() ends the
 *		   notifiers, and the driver frees the region.
 *
 * Page faults and prefetches look a region up in ohca_dev.paged and hold a reference. The notifier
 * or the exporter may invalidate pages until ohca_paged_ops.release() returns.
 *
 * The driver handles a page fault in these steps:
 *
 *  1. The device has no page for an access. It uses one of its fault slots and writes an event
 *     with the key, the address and the length. The access waits or is repeated.
 *  2. The interrupt handler reads the event. ohca_fault_event() copies it into the driver's slot
 *     of the same number and queues the work of that slot in ohca_dev.fault_wq. The driver has a
 *     slot for each slot of the device, so no event is lost and no event waits for another.
 *  3. ohca_fault_work() looks the region up and calls ohca_paged_populate(). The core faults the
 *     pages in, which may wait for storage, and maps them.
 *  4. ohca_paged_set() sets the pages in the device, under the lock under which they are
 *     invalidated. If they were invalidated after step 3, the core faults them in again first.
 *  5. PAGE_FAULT_RESUME answers the fault. The device frees its slot and repeats the access, or
 *     fails the access if there is no page. If the page was invalidated again, the access faults
 *     again.
 *
 * Prefetches and the destruction of children run in ohca_dev.odp_wq, so that they never delay
 * step 3.
 *
 * Locks; A -> B means that B is taken while A is held. dev.h has the order of all locks:
 *
 *	ohca_odp_mm.lock -> ohca_paged.lock -> mmap_lock -> invalidate_lock, page locks
 *	ohca_dev.odp_lock			(nothing is taken under it)
 *	notifier (reclaim, munmap) -> umem_mutex -> admin queue
 *	ohca_paged.lock, ohca_odp_mm.lock -> umem_mutex
 *	exporter -> dma_resv of the dma-buf -> admin queue
 *	umem_mutex, dma_resv -> ohca_paged.set_lock -> admin queue
 *	admin queue -> ohca_dev.fatal_lock	(nothing is allocated under it)
 *	ohca_dev.paged.xa_lock			(nothing is taken under it)
 *
 * The driver sets a page in the device under the lock under which the page is invalidated: the
 * umem_mutex of an address range, the reservation lock of a dma-buf. Invalidation may run in
 * reclaim, so no code allocates memory under these locks or in a command. No code waits for
 * memory of a process under these locks, or under a lock that other processes take.
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
 * struct ohca_paged_ops - operations of a kind of region: explicit, implicit or dma-buf
 * @populate: fault in the pages of [va, va + len), counted like ohca_paged.start, and set them
 *	in the device; process context. Returns 0 or a negative errno
 * @release: release the memory; no page is invalidated after this; process context
 */
struct ohca_paged_ops {
	int (*populate)(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want);
	void (*release)(struct ohca_paged *p);
};

/** enum ohca_paged_state - state of a region; see above */
enum ohca_paged_state {
	OHCA_PAGED_LIVE,
	OHCA_PAGED_LEAVING,
	OHCA_PAGED_GONE,
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
 * @ops: operations of its kind
 * @obj: references of the driver, until deregistration, and of work on the region
 * @state: enum ohca_paged_state
 * @set_lock: held for reading while pages are set in the device, for writing to leave LIVE
 * @odp: address space of an explicit or implicit region
 * @entries: table entries that are charged for the region: all of an explicit region, those of the
 *	first child of an implicit one
 * @lock: implicit region: held for reading while a child is used, for writing to remove one
 * @children: implicit region: struct ohca_child by address >> OHCA_CHILD_SHIFT
 * @nchildren: number of children, under the lock of @odp
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
	const struct ohca_paged_ops *ops;
	struct ohca_obj obj;
	enum ohca_paged_state state;
	struct rw_semaphore set_lock;	/* see above */
	struct ohca_odp_mm *odp;
	u64 entries;
	struct rw_semaphore lock;	/* see above */
	struct xarray children;
	u32 nchildren;
};

/** ohca_paged_is_live - whether no deregistration of the region is under way; any context */
static inline bool ohca_paged_is_live(const struct ohca_paged *p)
{
	return READ_ONCE(p->state) == OHCA_PAGED_LIVE;
}

/* paged.c */
struct ohca_paged *ohca_paged_alloc(struct ohca_dev *dev, u64 iova, u64 start, u64 length,
				    u32 shift, int access, const struct ohca_paged_ops *ops);
struct ib_mr *ohca_paged_register(struct ohca_paged *p, struct ib_pd *ibpd, int access);
struct ohca_paged *ohca_paged_get(struct ohca_dev *dev, u32 key);
void ohca_paged_put(struct ohca_paged *p);
int ohca_paged_set(struct ohca_paged *p, u64 va, const __le64 *pages, u32 n);
void ohca_paged_invalidate(struct ohca_paged *p, u64 va, u64 n);
int ohca_paged_populate(struct ohca_paged *p, u64 addr, u64 len, enum ohca_want want);
void ohca_paged_dereg_begin(struct ohca_paged *p);
void ohca_paged_dereg_abort(struct ohca_paged *p);
void ohca_paged_dereg_finish(struct ohca_paged *p);
#if IS_ENABLED(CONFIG_KUNIT)
int ohca_paged_insert(struct ohca_paged *p);
void ohca_paged_remove(struct ohca_paged *p);
#endif

/* prefetch.c */
int ohca_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sg, u32 num, struct uverbs_attr_bundle *attrs);

/* odp.c */
struct ib_mr *ohca_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access);

/* dmabuf.c */
struct ib_mr *ohca_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 virt, int fd,
				      int access, struct ib_dmah *dmah,
				      struct uverbs_attr_bundle *attrs);

#endif /* OHCA_PAGED_H */
