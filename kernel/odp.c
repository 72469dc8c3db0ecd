// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging: regions of a process's address space without pinned pages. The kernel's
 * notifier invalidates pages, and a page fault of the device faults them in.
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
#include "paged.h"

#define OHCA_CHILD_SHIFT	26	/* size of an implicit region's child: arrays of 256 KiB */
#define OHCA_CHILD_SIZE		BIT_ULL(OHCA_CHILD_SHIFT)
#define OHCA_CHILD_ENTRIES	(OHCA_CHILD_SIZE >> PAGE_SHIFT)
#define OHCA_ODP_SHARE		16	/* tables take at most this part of all memory */

/* Bytes for each page in the core's tables pfn_list and dma_list; the latter may be missing. */
#define OHCA_ODP_ENTRY		(sizeof(unsigned long) + sizeof(dma_addr_t))

static bool ohca_odp_is_implicit(const struct ohca_paged *p)
{
	return to_ib_umem_odp(p->umem)->is_implicit_odp;
}

/* Invalidates the mapped pages of [from, to). Under umem_mutex. */
static void ohca_odp_unmap(struct ib_umem_odp *umem, u64 from, u64 to)
{
	u64 base = ib_umem_start(umem), first, last;
	u32 shift = umem->page_shift;

	first = (from - base) >> shift;
	last = (to - 1 - base) >> shift;
	while (first <= last && !ohca_umem_odp_is_mapped(umem, first))
		first++;
	if (first > last)
		return;
	while (!ohca_umem_odp_is_mapped(umem, last))
		last--;
	ohca_paged_take(umem->private, base + (first << shift), last - first + 1);
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
	/* before the first page umem->private is not set */
	if (umem->npages) {
		p = umem->private;
		from = max_t(u64, ib_umem_start(umem), range->start);
		to = min_t(u64, ib_umem_end(umem), range->end);
		ohca_odp_unmap(umem, from, to);
		if (!umem->npages && ohca_odp_is_implicit(p))
			queue_work(p->dev->fault_wq, &p->reap);
	}
	mutex_unlock(&umem->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops ohca_odp_ops = {
	.invalidate = ohca_odp_invalidate,
};

/*
 * Maps [va, va + len) of one umem and sets the pages in the device, one command for each
 * OHCA_ODP_BATCH. Without @fault it sets the pages that are present.
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
			ret = ohca_paged_name(p, va, pages, num);
		mutex_unlock(&umem->umem_mutex);
		if (ret)
			break;
		/* no access waits for this, so it may end early */
		if (!fault && fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		cond_resched();
	}
	kfree(pages);
	return ret;
}

static int ohca_odp_bring(struct ohca_paged *p, struct ib_umem_odp *umem, u64 va, u64 len,
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
		/* map for writing, as a write may follow; else for reading only */
		if (p->writable) {
			ret = ohca_odp_map(p, umem, va, len, rw, true);
			if (!ret)
				return 0;
		}
		fallthrough;
	default:
		return ohca_odp_map(p, umem, va, len, HMM_PFN_VALID, true);
	}
}

static int ohca_odp_populate(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	return ohca_odp_bring(p, to_ib_umem_odp(p->umem), va, len, want);
}

/* ---- what an address space takes ---- */

/*
 * The tables are kernel memory that is charged to no process, and a process need not touch the
 * memory that it registers. So all regions of an address space together have a limit: 1/16 of
 * the machine's memory, which is enough tables for 16 times that memory.
 */
static u64 ohca_odp_limit(void)
{
	return ((u64)totalram_pages() << PAGE_SHIFT) / OHCA_ODP_SHARE /
	       OHCA_ODP_ENTRY;
}

/* Returns the caller's address space with a reference. */
static struct ohca_odp_mm *ohca_odp_mm_get(struct ohca_dev *dev)
{
	struct ohca_odp_mm *odp;

	mutex_lock(&dev->odp_lock);
	list_for_each_entry(odp, &dev->odp_mms, link)
		if (odp->mm == current->mm)
			goto out;
	odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);
	if (odp) {
		odp->mm = current->mm;
		mutex_init(&odp->lock);
		INIT_LIST_HEAD(&odp->children);
		list_add(&odp->link, &dev->odp_mms);
	}
out:
	if (odp)
		odp->refs++;
	mutex_unlock(&dev->odp_lock);
	return odp;
}

static void ohca_odp_mm_put(struct ohca_dev *dev, struct ohca_odp_mm *odp, u64 entries)
{
	mutex_lock(&odp->lock);
	odp->entries -= entries;
	mutex_unlock(&odp->lock);
	mutex_lock(&dev->odp_lock);
	if (!--odp->refs) {
		list_del(&odp->link);
		kfree(odp);
	}
	mutex_unlock(&dev->odp_lock);
}

/* Under the lock of @odp. */
static bool ohca_odp_charge(struct ohca_odp_mm *odp, u64 entries)
{
	u64 limit = ohca_odp_limit();

	if (odp->entries > limit || entries > limit - odp->entries)
		return false;
	odp->entries += entries;
	return true;
}

/* ---- implicit regions ---- */

/* Frees a child and invalidates its pages. Under the lock of its address space. */
static void ohca_odp_remove(struct ohca_child *child)
{
	struct ib_umem_odp *umem = child->umem;
	struct ohca_paged *p = child->p;

	/* waits until the child is not used */
	down_write(&p->lock);
	xa_erase(&p->children, child->index);
	up_write(&p->lock);
	mutex_lock(&umem->umem_mutex);
	if (umem->npages)
		ohca_odp_unmap(umem, ib_umem_start(umem), ib_umem_end(umem));
	mutex_unlock(&umem->umem_mutex);
	ib_umem_odp_release(umem);
	list_del(&child->link);
	p->odp->entries -= OHCA_CHILD_ENTRIES;
	atomic_dec(&p->dev->odp_children);
	kfree(child);
}

/*
 * Makes room for another child: frees one without pages, else the oldest of all regions. Later
 * accesses to its pages fault again. Under the lock of the address space.
 */
static bool ohca_odp_evict(struct ohca_odp_mm *odp)
{
	struct ohca_child *child;

	list_for_each_entry(child, &odp->children, link) {
		if (!READ_ONCE(child->umem->npages)) {
			ohca_odp_remove(child);
			return true;
		}
	}
	child = list_first_entry_or_null(&odp->children, struct ohca_child, link);
	if (child)
		ohca_odp_remove(child);
	return child;
}

/* Returns the child with @index, created if necessary. Under the address space's lock. */
static struct ohca_child *ohca_odp_make(struct ohca_paged *p, unsigned long index)
{
	struct ohca_child *child = xa_load(&p->children, index);
	struct ohca_odp_mm *odp = p->odp;
	int ret;

	if (child)
		return child;
	while (!ohca_odp_charge(odp, OHCA_CHILD_ENTRIES))
		if (!ohca_odp_evict(odp))
			return ERR_PTR(-ENOMEM);
	ret = -ENOMEM;
	child = kzalloc(sizeof(*child), GFP_KERNEL);
	if (!child)
		goto err_charge;
	child->p = p;
	child->index = index;
	child->umem = ib_umem_odp_alloc_child(to_ib_umem_odp(p->umem), index << OHCA_CHILD_SHIFT,
					      OHCA_CHILD_SIZE, &ohca_odp_ops);
	if (IS_ERR(child->umem)) {
		ret = PTR_ERR(child->umem);
		goto err_child;
	}
	child->umem->private = p;
	ret = xa_insert(&p->children, index, child, GFP_KERNEL);
	if (ret)
		goto err_umem;
	list_add_tail(&child->link, &odp->children);
	atomic_inc(&p->dev->odp_children);
	return child;

err_umem:
	ib_umem_odp_release(child->umem);
err_child:
	kfree(child);
err_charge:
	odp->entries -= OHCA_CHILD_ENTRIES;
	return ERR_PTR(ret);
}

/* Whether anything is mapped in [va, va + len) of the region's address space. */
static bool ohca_odp_mapped(struct ohca_paged *p, u64 va, u64 len)
{
	struct mm_struct *mm = p->umem->owning_mm;
	bool mapped;

	if (!mmget_not_zero(mm))
		return false;
	mmap_read_lock(mm);
	mapped = find_vma_intersection(mm, va, va + len);
	mmap_read_unlock(mm);
	mmput(mm);
	return mapped;
}

/*
 * Returns the child with @va, with the region's lock held for reading, so that the child is not
 * removed. Returns NULL without the lock if no page is present and @want faults none in.
 */
static struct ohca_child *ohca_odp_child(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	unsigned long index = va >> OHCA_CHILD_SHIFT;
	struct ohca_child *child;

	down_read(&p->lock);
	child = xa_load(&p->children, index);
	if (child)
		return child;
	up_read(&p->lock);
	if (want == OHCA_WANT_PRESENT && !ohca_odp_mapped(p, va, len))
		return NULL;
	mutex_lock(&p->odp->lock);
	child = ohca_odp_make(p, index);
	if (!IS_ERR(child))
		down_read(&p->lock);
	mutex_unlock(&p->odp->lock);
	return child;
}

/* Removes a child without a page. */
static void ohca_odp_drop(struct ohca_paged *p, unsigned long index)
{
	struct ohca_child *child;

	mutex_lock(&p->odp->lock);
	child = xa_load(&p->children, index);
	if (child && !READ_ONCE(child->umem->npages))
		ohca_odp_remove(child);
	mutex_unlock(&p->odp->lock);
}

static int ohca_odp_populate_implicit(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	u64 end = va + len, n;
	int ret = 0;

	/* deregistration waits for this work item */
	for (; va < end && !ret && !READ_ONCE(p->leaving); va += n) {
		struct ohca_child *child;
		bool empty;

		n = min(end - va, OHCA_CHILD_SIZE - (va & (OHCA_CHILD_SIZE - 1)));
		child = ohca_odp_child(p, va, n, want);
		if (IS_ERR(child))
			return PTR_ERR(child);
		if (!child)
			continue;
		ret = ohca_odp_bring(p, child->umem, va, n, want);
		empty = !READ_ONCE(child->umem->npages);
		up_read(&p->lock);
		if (empty)
			ohca_odp_drop(p, va >> OHCA_CHILD_SHIFT);
	}
	return ret;
}

/* Removes the children without a page, or with @all every child. Under the lock they get none. */
static void ohca_odp_reap(struct ohca_paged *p, bool all)
{
	struct ohca_child *child;
	unsigned long index;

	mutex_lock(&p->odp->lock);
	xa_for_each(&p->children, index, child)
		if (all || !READ_ONCE(child->umem->npages))
			ohca_odp_remove(child);
	mutex_unlock(&p->odp->lock);
}

static void ohca_odp_reap_work(struct work_struct *work)
{
	ohca_odp_reap(container_of(work, struct ohca_paged, reap), false);
}

/**
 * ohca_odp_release - release the notifiers and umems of a region
 * @p: region that the device has deregistered and no work uses
 *
 * Process context.
 */
void ohca_odp_release(struct ohca_paged *p)
{
	struct ohca_odp_mm *odp = p->odp;

	if (ohca_odp_is_implicit(p)) {
		ohca_odp_reap(p, true);
		/* no notifier is left that could queue the work item */
		cancel_work_sync(&p->reap);
		xa_destroy(&p->children);
	}
	ib_umem_odp_release(to_ib_umem_odp(p->umem));
	ohca_odp_mm_put(p->dev, odp, p->entries);
}

/* ---- registration ---- */

/*
 * The most entries that the tables of an explicit region have: the core's list of pages has one for
 * each of PAGE_SIZE, and begins and ends at a huge page if the region is of these.
 */
static u64 ohca_odp_entries(u64 length, int access)
{
	u64 more = access & IB_ACCESS_HUGETLB ? HPAGE_SIZE >> PAGE_SHIFT : 1;

	return (length >> PAGE_SHIFT) + 2 * more;
}

/**
 * ohca_reg_odp_mr - register memory of a process without pinning it
 * @ibpd: protection domain
 * @start: address in the process
 * @length: bytes; U64_MAX with @start 0: all of the address space
 * @virt: address for the device
 * @access: enum ib_access_flags, with IB_ACCESS_ON_DEMAND
 *
 * Process context of the owner. Sets the present pages in the device at once, except for a
 * region of all of the address space.
 * Return: the region or an error pointer: -ENOMEM also if the tables of all regions of this
 * address space would be too large.
 */
struct ib_mr *ohca_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	u64 max = le64_to_cpu(dev->attr.max_odp_size);
	bool implicit = !start && length == U64_MAX;
	struct ib_umem_odp *umem;
	struct ohca_odp_mm *odp;
	struct ohca_paged *p;
	u64 entries = 0;
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
		ohca_odp_mm_put(dev, odp, 0);
		return ERR_PTR(-ENOMEM);
	}
	umem = implicit ? ib_umem_odp_alloc_implicit(&dev->ibdev, access) :
			  ib_umem_odp_get(&dev->ibdev, start, length, access & ~OHCA_ODP_LACKS,
					  &ohca_odp_ops);
	if (IS_ERR(umem)) {
		ohca_odp_mm_put(dev, odp, entries);
		return ERR_CAST(umem);
	}
	mr = ERR_PTR(-ENOMEM);
	p = ohca_paged_alloc(dev, access & IB_ZERO_BASED ? 0 : virt, start, length,
			     umem->page_shift, access);
	if (!p)
		goto err;
	INIT_WORK(&p->reap, ohca_odp_reap_work);
	umem->private = p;
	p->umem = &umem->umem;
	p->odp = odp;
	p->entries = entries;
	p->populate = implicit ? ohca_odp_populate_implicit : ohca_odp_populate;
	mr = ohca_paged_register(p, ibpd, access);
	if (!IS_ERR(mr)) {
		/* UD drops a datagram whose page is missing; a page that is not set faults later */
		if (!implicit)
			ohca_odp_populate(p, start, length, OHCA_WANT_PRESENT);
		return mr;
	}

err:
	ib_umem_odp_release(umem);
	ohca_odp_mm_put(dev, odp, entries);
	kfree(p);
	return mr;
}
