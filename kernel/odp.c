// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging: regions of a process's address space without pinned pages. The kernel's
 * notifier invalidates pages, and a page fault of the device faults them in. odp_implicit.c has
 * the code for implicit regions.
 */
#include <linux/hmm.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>

#include "compat.h"
#include "dev.h"
#include "odp.h"
#include "paged.h"

/**
 * ohca_odp_unmap - invalidate pages in the device, and unmap them
 * @umem: tables
 * @from: first address in the process
 * @to: address after the last one; the range is in @umem
 *
 * Under umem_mutex; allocates no memory. Rounds @from and @to to pages of the umem, because the
 * core unmaps whole pages.
 */
void ohca_odp_unmap(struct ib_umem_odp *umem, u64 from, u64 to)
{
	u64 base = ib_umem_start(umem), first, last;
	u32 shift = umem->page_shift;

	from = ALIGN_DOWN(from, BIT_ULL(shift));
	to = ALIGN(to, BIT_ULL(shift));
	first = (from - base) >> shift;
	last = (to - 1 - base) >> shift;
	while (first <= last && !ohca_umem_odp_is_mapped(umem, first))
		first++;
	if (first > last)
		return;
	while (!ohca_umem_odp_is_mapped(umem, last))
		last--;
	ohca_paged_invalidate(umem->private, base + (first << shift), last - first + 1);
	ib_umem_odp_unmap_dma_pages(umem, from, to);
}

static bool ohca_odp_invalidate(struct mmu_interval_notifier *mni,
				const struct mmu_notifier_range *range, unsigned long seq)
{
	struct ib_umem_odp *umem = container_of(mni, struct ib_umem_odp, notifier);
	struct ohca_paged *p;
	u64 from, to;

	if (!mmu_notifier_range_blockable(range))
		return false;
	mutex_lock(&umem->umem_mutex);
	mmu_interval_set_seq(mni, seq);
	/* umem->private may not be set yet if there is no page */
	if (umem->npages) {
		p = umem->private;
		from = max_t(u64, ib_umem_start(umem), range->start);
		to = min_t(u64, ib_umem_end(umem), range->end);
		ohca_odp_unmap(umem, from, to);
		if (!umem->npages && p->ops == &ohca_implicit_ops)
			queue_delayed_work(p->dev->odp_wq, &p->odp->reap, 0);
	}
	mutex_unlock(&umem->umem_mutex);
	return true;
}

const struct mmu_interval_notifier_ops ohca_odp_notifier_ops = {
	.invalidate = ohca_odp_invalidate,
};

/*
 * Maps [va, va + len) of one umem and sets the pages in the device, by one command for each
 * OHCA_ODP_BATCH pages. Without @fault it sets only pages that are present.
 */
static int ohca_odp_map(struct ohca_paged *p, struct ib_umem_odp *umem, u64 va, u64 len,
			u64 access, bool fault)
{
	u64 pgsz = BIT_ULL(umem->page_shift), end = va + len, n;
	__le64 *pages;
	int ret = 0, first, num;

	pages = kmalloc_array(OHCA_ODP_BATCH, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	for (; va < end; va += n) {
		n = min(end - va, OHCA_ODP_BATCH * pgsz - (va & (pgsz - 1)));
		ret = ohca_umem_odp_fault(umem, va, n, access, fault);
		if (ret < 0)
			break;
		num = WARN_ON_ONCE(ret > OHCA_ODP_BATCH) ? OHCA_ODP_BATCH : ret;
		first = (va - ib_umem_start(umem)) >> umem->page_shift;
		ret = ohca_umem_odp_pages(umem, first, num, pages);
		if (ret > 0)
			ret = ohca_paged_set(p, va, pages, num);
		mutex_unlock(&umem->umem_mutex);
		if (ret)
			break;
		/* only in a prefetch or a registration: a worker gets no signals */
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		cond_resched();
	}
	kfree(pages);
	return ret;
}

/**
 * ohca_odp_fault_in - fault pages in, map them, and set them in the device
 * @p: the region
 * @umem: its tables, or those of a child
 * @va: address in the process
 * @len: bytes; the range is in @umem
 * @want: enum ohca_want
 *
 * Process context; may wait for storage without a time limit.
 * Return: 0 or a negative errno.
 */
int ohca_odp_fault_in(struct ohca_paged *p, struct ib_umem_odp *umem, u64 va, u64 len,
		      enum ohca_want want)
{
	const u64 rw = HMM_PFN_VALID | HMM_PFN_WRITE;
	int ret;

	switch (want) {
	case OHCA_WANT_WRITE:
		return ohca_odp_map(p, umem, va, len, rw, true);
	case OHCA_WANT_PRESENT:
		return ohca_odp_map(p, umem, va, len, HMM_PFN_VALID, false);
	case OHCA_WANT_READ:
		/* try to map for writing, because a write may follow; else map for reading */
		if (p->writable) {
			ret = ohca_odp_map(p, umem, va, len, rw, true);
			if (!ret || fatal_signal_pending(current))
				return ret;
		}
		fallthrough;
	default:
		return ohca_odp_map(p, umem, va, len, HMM_PFN_VALID, true);
	}
}

static int ohca_odp_populate(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	return ohca_odp_fault_in(p, to_ib_umem_odp(p->umem), va, len, want);
}

/**
 * ohca_odp_release - release the notifier and the umem of a region
 * @p: region that the device has deregistered and no work uses
 *
 * Process context.
 */
void ohca_odp_release(struct ohca_paged *p)
{
	ib_umem_odp_release(to_ib_umem_odp(p->umem));
	mutex_lock(&p->odp->lock);
	ohca_odp_uncharge(p->odp, p->entries);
	mutex_unlock(&p->odp->lock);
	ohca_odp_mm_put(p->odp);
}

static const struct ohca_paged_ops ohca_explicit_ops = {
	.populate = ohca_odp_populate,
	.release = ohca_odp_release,
};

/* ---- registration ---- */

/*
 * Upper limit of the table entries of an explicit region. The core's tables have an entry for each
 * PAGE_SIZE; with IB_ACCESS_HUGETLB they begin and end at the boundary of a huge page.
 */
static u64 ohca_odp_entries(u64 length, int access)
{
	u64 more = access & IB_ACCESS_HUGETLB ? HPAGE_SIZE >> PAGE_SHIFT : 1;

	return (length >> PAGE_SHIFT) + 2 * more;
}

/*
 * Allocates a region of the caller's address space with its tables, whose entries are charged.
 * Returns the region, to be freed by ops->release() and kfree(), or an error pointer.
 */
static struct ohca_paged *ohca_odp_alloc(struct ohca_odp_mm *odp, u64 start, u64 length, u64 iova,
					 int access, const struct ohca_paged_ops *ops)
{
	struct ib_device *ibdev = &odp->dev->ibdev;
	struct ib_umem_odp *umem;
	struct ohca_paged *p;

	umem = ops == &ohca_implicit_ops ?
	       ib_umem_odp_alloc_implicit(ibdev, access) :
	       ib_umem_odp_get(ibdev, start, length, access & ~OHCA_ODP_LACKS,
			       &ohca_odp_notifier_ops);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	p = ohca_paged_alloc(odp->dev, iova, start, length, umem->page_shift, access, ops);
	if (!p) {
		ib_umem_odp_release(umem);
		return ERR_PTR(-ENOMEM);
	}
	umem->private = p;
	p->umem = &umem->umem;
	p->odp = odp;
	return p;
}

/**
 * ohca_reg_odp_mr - register memory of a process without pinning it
 * @ibpd: protection domain
 * @start: address in the process
 * @length: bytes; U64_MAX with @start 0 means all of the address space
 * @virt: address for the device
 * @access: enum ib_access_flags, with IB_ACCESS_ON_DEMAND
 *
 * Process context of the owner. Sets present pages in the device at once, except for an implicit
 * region.
 * Return: the region, or an error pointer: -ENOMEM also if the tables exceed the limit of this
 * address space or that of all address spaces.
 */
struct ib_mr *ohca_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	u64 max = le64_to_cpu(dev->attr.max_odp_size);
	bool implicit = !start && length == U64_MAX;
	u64 entries = OHCA_CHILD_ENTRIES;
	struct ohca_odp_mm *odp;
	struct ohca_paged *p;
	struct ib_mr *mr;
	bool room;

	if (implicit ? virt : !length || length > max)
		return ERR_PTR(-EINVAL);
	if (implicit)
		length = min_t(u64, max, TASK_SIZE);
	else
		entries = ohca_odp_entries(length, access);
	odp = ohca_odp_mm_get(dev);
	if (!odp)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&odp->lock);
	room = ohca_odp_charge(odp, entries);
	mutex_unlock(&odp->lock);
	if (!room) {
		ohca_odp_mm_put(odp);
		return ERR_PTR(-ENOMEM);
	}
	p = ohca_odp_alloc(odp, start, length, access & IB_ZERO_BASED ? 0 : virt, access,
			   implicit ? &ohca_implicit_ops : &ohca_explicit_ops);
	if (IS_ERR(p)) {
		mutex_lock(&odp->lock);
		ohca_odp_uncharge(odp, entries);
		mutex_unlock(&odp->lock);
		ohca_odp_mm_put(odp);
		return ERR_CAST(p);
	}
	p->entries = entries;
	mr = ohca_paged_register(p, ibpd, access);
	if (IS_ERR(mr)) {
		p->ops->release(p);
		kfree(p);
		return mr;
	}
	/* UD drops a datagram whose page is missing; errors are ignored: the page faults later */
	if (!implicit)
		ohca_odp_populate(p, start, length, OHCA_WANT_PRESENT);
	return mr;
}
