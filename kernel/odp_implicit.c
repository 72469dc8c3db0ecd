// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging: implicit regions, which cover all of an address space. Each part of
 * OHCA_CHILD_SIZE bytes that is used is a child, with tables of its own. The driver destroys
 * children without pages. If a new child would exceed the limit of odp_mm.c, it destroys the
 * oldest child; later accesses to the pages of that child fault again.
 */
#include <linux/mm.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <kunit/visibility.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>

#include "dev.h"
#include "odp.h"
#include "paged.h"

#define OHCA_REAP_RETRY	(HZ / 10)

/* Frees a child that is removed from its region. Under the lock of the address space. */
static void ohca_child_free(struct ohca_child *child)
{
	struct ib_umem_odp *umem = child->umem;
	struct ohca_paged *p = child->p;

	mutex_lock(&umem->umem_mutex);
	if (umem->npages)
		ohca_odp_unmap(umem, ib_umem_start(umem), ib_umem_end(umem));
	mutex_unlock(&umem->umem_mutex);
	ib_umem_odp_release(umem);
	list_del(&child->link);
	/* the region stays charged for one child */
	if (--p->nchildren)
		ohca_odp_uncharge(p->odp, OHCA_CHILD_ENTRIES);
	atomic_dec(&p->dev->odp_children);
	kfree(child);
}

/*
 * Destroys a child and invalidates its pages. Under the lock of the address space. Waits for faults
 * that use a child of the region.
 */
static void ohca_child_destroy(struct ohca_child *child)
{
	struct ohca_paged *p = child->p;

	down_write(&p->lock);
	xa_erase(&p->children, child->index);
	up_write(&p->lock);
	ohca_child_free(child);
}

/**
 * ohca_child_victim - select the child to destroy before a region gets another one
 * @odp: the address space
 * @p: the region, which has a child
 *
 * Selects a child without pages, else the oldest one. The only child of another region is never
 * selected, because that region stays charged for one child. Under the lock of @odp.
 * Return: the child.
 */
VISIBLE_IF_KUNIT struct ohca_child *ohca_child_victim(struct ohca_odp_mm *odp,
						      const struct ohca_paged *p)
{
	struct ohca_child *child, *victim = NULL;

	list_for_each_entry(child, &odp->children, link) {
		bool empty = !READ_ONCE(child->umem->npages);

		if (child->p != p && child->p->nchildren == 1)
			continue;
		if (!victim || empty)
			victim = child;
		if (empty)
			break;
	}
	return victim;
}

/* Returns a new child, or an error pointer. Under the address space's lock. */
static struct ohca_child *ohca_child_create(struct ohca_paged *p, unsigned long index)
{
	struct ohca_odp_mm *odp = p->odp;
	struct ohca_child *child;
	int ret = -ENOMEM;

	/* the first child was charged at the registration of the region */
	while (p->nchildren && !ohca_odp_charge(odp, OHCA_CHILD_ENTRIES))
		ohca_child_destroy(ohca_child_victim(odp, p));
	child = kzalloc(sizeof(*child), GFP_KERNEL_ACCOUNT);
	if (!child)
		goto err_charge;
	child->p = p;
	child->index = index;
	child->umem = ib_umem_odp_alloc_child(to_ib_umem_odp(p->umem), index << OHCA_CHILD_SHIFT,
					      OHCA_CHILD_SIZE, &ohca_odp_notifier_ops);
	if (IS_ERR(child->umem)) {
		ret = PTR_ERR(child->umem);
		goto err_child;
	}
	child->umem->private = p;
	ret = xa_insert(&p->children, index, child, GFP_KERNEL_ACCOUNT);
	if (ret)
		goto err_umem;
	p->nchildren++;
	list_add_tail(&child->link, &odp->children);
	atomic_inc(&p->dev->odp_children);
	return child;

err_umem:
	ib_umem_odp_release(child->umem);
err_child:
	kfree(child);
err_charge:
	if (p->nchildren)
		ohca_odp_uncharge(odp, OHCA_CHILD_ENTRIES);
	return ERR_PTR(ret);
}

/* Whether a mapping intersects [va, va + len) of the region's address space. */
static bool ohca_implicit_mapped(struct ohca_paged *p, u64 va, u64 len)
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
 * removed. Returns NULL or an error pointer without the lock. NULL: there is neither a child nor a
 * mapping, and @want does not fault pages in.
 */
static struct ohca_child *ohca_child_get(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	unsigned long index = va >> OHCA_CHILD_SHIFT;
	struct ohca_child *child;

	down_read(&p->lock);
	child = xa_load(&p->children, index);
	if (child)
		return child;
	up_read(&p->lock);
	if (want == OHCA_WANT_PRESENT && !ohca_implicit_mapped(p, va, len))
		return NULL;
	mutex_lock(&p->odp->lock);
	child = xa_load(&p->children, index);
	if (!child)
		child = ohca_child_create(p, index);
	if (!IS_ERR(child))
		down_read(&p->lock);
	mutex_unlock(&p->odp->lock);
	return child;
}

/* Destroys the child with this index if it has no page. */
static void ohca_child_trim(struct ohca_paged *p, unsigned long index)
{
	struct ohca_child *child;

	mutex_lock(&p->odp->lock);
	child = xa_load(&p->children, index);
	if (child && !READ_ONCE(child->umem->npages))
		ohca_child_destroy(child);
	mutex_unlock(&p->odp->lock);
}

static int ohca_implicit_populate(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	u64 end = va + len, n;
	int ret = 0;

	/* stop early if the region is deregistered, which waits for this work item */
	for (; va < end && !ret && ohca_paged_is_live(p); va += n) {
		struct ohca_child *child;
		bool empty;

		n = min(end - va, OHCA_CHILD_SIZE - (va & (OHCA_CHILD_SIZE - 1)));
		child = ohca_child_get(p, va, n, want);
		if (IS_ERR(child))
			return PTR_ERR(child);
		if (!child)
			continue;
		ret = ohca_odp_fault_in(p, child->umem, va, n, want);
		empty = !READ_ONCE(child->umem->npages);
		up_read(&p->lock);
		if (empty)
			ohca_child_trim(p, va >> OHCA_CHILD_SHIFT);
	}
	return ret;
}

/**
 * ohca_odp_reap_work - destroy the children of an address space that have no page
 * @work: ohca_odp_mm.reap
 *
 * Other threads may hold the locks while they wait for storage, and the work of other processes is
 * in the same queue. So this function does not wait for a lock: it queues itself again.
 */
void ohca_odp_reap_work(struct work_struct *work)
{
	struct ohca_odp_mm *odp = container_of(to_delayed_work(work), struct ohca_odp_mm, reap);
	struct ohca_child *child, *next;
	bool busy = false;

	if (!mutex_trylock(&odp->lock)) {
		queue_delayed_work(odp->dev->odp_wq, &odp->reap, OHCA_REAP_RETRY);
		return;
	}
	list_for_each_entry_safe(child, next, &odp->children, link) {
		if (READ_ONCE(child->umem->npages))
			continue;
		if (!down_write_trylock(&child->p->lock)) {
			busy = true;
			continue;
		}
		xa_erase(&child->p->children, child->index);
		up_write(&child->p->lock);
		ohca_child_free(child);
	}
	mutex_unlock(&odp->lock);
	if (busy)
		queue_delayed_work(odp->dev->odp_wq, &odp->reap, OHCA_REAP_RETRY);
}

static void ohca_implicit_release(struct ohca_paged *p)
{
	struct ohca_child *child;
	unsigned long index;

	mutex_lock(&p->odp->lock);
	xa_for_each(&p->children, index, child)
		ohca_child_destroy(child);
	mutex_unlock(&p->odp->lock);
	xa_destroy(&p->children);
	ohca_odp_release(p);
}

const struct ohca_paged_ops ohca_implicit_ops = {
	.populate = ohca_implicit_populate,
	.release = ohca_implicit_release,
};
