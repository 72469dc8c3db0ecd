// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging: regions that follow a process's address space. Nothing is pinned; the
 * kernel's notifier takes pages back, and a fault of the device brings them in.
 */
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <rdma/ib_umem_odp.h>

#include "paged.h"

#define OHCA_CHILD_SHIFT	26	/* an implicit region's child: arrays of 256 KiB */
#define OHCA_CHILD_SIZE		BIT_ULL(OHCA_CHILD_SHIFT)

static bool ohca_odp_is_implicit(const struct ohca_paged *p)
{
	return to_ib_umem_odp(p->umem)->is_implicit_odp;
}

/* Takes the mapped pages of [from, to) back, under umem_mutex. */
static void ohca_odp_unmap(struct ib_umem_odp *umem, u64 from, u64 to)
{
	u64 base = ib_umem_start(umem), first, last;
	u32 shift = umem->page_shift;

	first = (from - base) >> shift;
	last = (to - 1 - base) >> shift;
	while (first <= last && !umem->dma_list[first])
		first++;
	if (first > last)
		return;
	while (!umem->dma_list[last])
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
	/* before the first page there is no owner to be asked */
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
 * Maps [va, va + len) of one umem and names the pages, a command's worth at a time. Without
 * @fault there may be none; the device hears of those that are there.
 */
static int ohca_odp_map(struct ohca_paged *p, struct ib_umem_odp *umem, u64 va, u64 len,
			u64 rights, bool fault)
{
	u64 pgsz = BIT_ULL(umem->page_shift), end = va + len, n;
	__le64 *pages;
	int ret = 0, i, first;
	bool any;

	pages = kmalloc_array(OHCA_ODP_BATCH, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	for (; va < end; va += n) {
		n = min(end - va, OHCA_ODP_BATCH * pgsz - (va & (pgsz - 1)));
		ret = ib_umem_odp_map_dma_and_lock(umem, va, n, rights, fault);
		if (ret < 0)
			break;
		if (WARN_ON_ONCE(ret > OHCA_ODP_BATCH))
			ret = OHCA_ODP_BATCH;
		first = (va - ib_umem_start(umem)) >> umem->page_shift;
		for (i = 0, any = false; i < ret; i++) {
			pages[i] = cpu_to_le64(umem->dma_list[first + i]);
			any |= pages[i] != 0;
		}
		ret = any ? ohca_paged_name(p, va, pages, ret) : 0;
		mutex_unlock(&umem->umem_mutex);
		if (ret)
			break;
		/* what is wanted by no fault can be left */
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
	const u64 rw = ODP_READ_ALLOWED_BIT | ODP_WRITE_ALLOWED_BIT;
	int ret;

	BUILD_BUG_ON((ODP_READ_ALLOWED_BIT ^ OHCA_ODP_READ) ||
		     (ODP_WRITE_ALLOWED_BIT ^ OHCA_ODP_WRITE));

	switch (want) {
	case OHCA_WANT_WRITE:
		return ohca_odp_map(p, umem, va, len, rw, true);
	case OHCA_WANT_PRESENT:
		return ohca_odp_map(p, umem, va, len, ODP_READ_ALLOWED_BIT, false);
	case OHCA_WANT_READ:
		/* it may be written next; but what is mapped for reading only can be read */
		if (p->writable) {
			ret = ohca_odp_map(p, umem, va, len, rw, true);
			if (!ret)
				return 0;
		}
		fallthrough;
	default:
		return ohca_odp_map(p, umem, va, len, ODP_READ_ALLOWED_BIT, true);
	}
}

static int ohca_odp_populate(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	return ohca_odp_bring(p, to_ib_umem_odp(p->umem), va, len, want);
}

/* ---- implicit regions ---- */

/* The child with @va, made if there is none; under the region's lock for reading. */
static struct ib_umem_odp *ohca_odp_child(struct ohca_paged *p, u64 va)
{
	unsigned long index = va >> OHCA_CHILD_SHIFT;
	struct ib_umem_odp *child, *other;

	child = xa_load(&p->children, index);
	if (child)
		return child;
	child = ib_umem_odp_alloc_child(to_ib_umem_odp(p->umem), index << OHCA_CHILD_SHIFT,
					OHCA_CHILD_SIZE, &ohca_odp_ops);
	if (IS_ERR(child))
		return child;
	child->private = p;
	other = xa_cmpxchg(&p->children, index, NULL, child, GFP_KERNEL);
	if (!other)
		return child;
	ib_umem_odp_release(child);
	return xa_is_err(other) ? ERR_PTR(xa_err(other)) : other;
}

static int ohca_odp_populate_implicit(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	u64 end = va + len, n;
	int ret = 0;

	for (; va < end && !ret; va += n) {
		struct ib_umem_odp *child;

		n = min(end - va, OHCA_CHILD_SIZE - (va & (OHCA_CHILD_SIZE - 1)));
		down_read(&p->lock);
		child = ohca_odp_child(p, va);
		ret = IS_ERR(child) ? PTR_ERR(child) : ohca_odp_bring(p, child, va, n, want);
		up_read(&p->lock);
	}
	return ret;
}

/* Removes the children without a page, or @all. A child gets pages under the lock only. */
static void ohca_odp_reap(struct ohca_paged *p, bool all)
{
	struct ib_umem_odp *child;
	unsigned long index;

	down_write(&p->lock);
	xa_for_each(&p->children, index, child) {
		if (!all && READ_ONCE(child->npages))
			continue;
		xa_erase(&p->children, index);
		ib_umem_odp_release(child);
	}
	up_write(&p->lock);
}

static void ohca_odp_reap_work(struct work_struct *work)
{
	ohca_odp_reap(container_of(work, struct ohca_paged, reap), false);
}

/**
 * ohca_odp_release - give the notifiers and umems of a region back
 * @p: region that the device has forgotten, and nobody works with
 *
 * Process context.
 */
void ohca_odp_release(struct ohca_paged *p)
{
	if (ohca_odp_is_implicit(p)) {
		ohca_odp_reap(p, true);
		/* no notifier is left that could queue it */
		cancel_work_sync(&p->reap);
		xa_destroy(&p->children);
	}
	ib_umem_odp_release(to_ib_umem_odp(p->umem));
}

/* ---- registration ---- */

/**
 * ohca_reg_odp_mr - register memory of a process without pinning it
 * @ibpd: protection domain
 * @start: address in the process
 * @length: bytes; U64_MAX with @start 0: all of the address space
 * @virt: address for the device
 * @access: enum ib_access_flags, with IB_ACCESS_ON_DEMAND
 *
 * Process context of the owner. Pages that are there are named at once, except for all of
 * the address space.
 * Return: the region or an error pointer.
 */
struct ib_mr *ohca_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	u64 max = le64_to_cpu(dev->attr.max_odp_size);
	bool implicit = !start && length == U64_MAX;
	struct ib_umem_odp *umem;
	struct ohca_paged *p;
	struct ib_mr *mr;

	if (implicit) {
		if (virt)
			return ERR_PTR(-EINVAL);
		length = min_t(u64, max, TASK_SIZE);
		umem = ib_umem_odp_alloc_implicit(&dev->ibdev, access);
	} else {
		if (!length || length > max)
			return ERR_PTR(-EINVAL);
		umem = ib_umem_odp_get(&dev->ibdev, start, length, access, &ohca_odp_ops);
	}
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	mr = ERR_PTR(-ENOMEM);
	p = ohca_paged_alloc(dev, access & IB_ZERO_BASED ? 0 : virt, start, length,
			     umem->page_shift, access);
	if (!p)
		goto err;
	INIT_WORK(&p->reap, ohca_odp_reap_work);
	umem->private = p;
	p->umem = &umem->umem;
	p->populate = implicit ? ohca_odp_populate_implicit : ohca_odp_populate;
	mr = ohca_paged_register(p, ibpd, access);
	if (!IS_ERR(mr)) {
		/* Datagrams do not wait for a page. What cannot be named now faults later. */
		if (!implicit)
			ohca_odp_populate(p, start, length, OHCA_WANT_PRESENT);
		return mr;
	}

err:
	ib_umem_odp_release(umem);
	kfree(p);
	return mr;
}
