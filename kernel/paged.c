// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions with on-demand paging: registration, deregistration, and the commands that set and
 * invalidate their pages.
 */
#include <linux/slab.h>
#include <rdma/ib_umem.h>

#include "aq.h"
#include "compat.h"
#include "dev.h"
#include "fatal.h"
#include "mr.h"
#include "obj.h"
#include "paged.h"
#include "verbs.h"

/**
 * ohca_paged_alloc - allocate a region; the caller sets its umem and populate(), then registers it
 * @dev: the device
 * @iova: address of the first byte, for the device
 * @start: the same byte in the process or the dma-buf
 * @length: bytes
 * @shift: log2 of the page size
 * @access: enum ib_access_flags
 *
 * Return: the region, to be freed with kfree(), or NULL.
 */
struct ohca_paged *ohca_paged_alloc(struct ohca_dev *dev, u64 iova, u64 start, u64 length,
				    u32 shift, int access)
{
	struct ohca_paged *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return NULL;
	p->dev = dev;
	p->iova = iova;
	p->start = start;
	p->length = length;
	p->shift = shift;
	p->writable = ib_access_writable(access);
	ohca_obj_init(&p->obj);
	init_rwsem(&p->lock);
	xa_init(&p->children);
	return p;
}

/**
 * ohca_paged_register - register the region in the device, without a page
 * @p: the region
 * @ibpd: its protection domain
 * @access: enum ib_access_flags
 *
 * Process context.
 * Return: the region, which owns @p, or an error pointer.
 */
struct ib_mr *ohca_paged_register(struct ohca_paged *p, struct ib_pd *ibpd, int access)
{
	u64 pgsz = BIT_ULL(p->shift);
	struct ohca_cmd_reg_mr in = {
		.pl.page_shift = p->shift,
		.iova = cpu_to_le64(p->iova),
		.length = cpu_to_le64(p->length),
		.pdn = cpu_to_le32(to_ohca_pd(ibpd)->pdn),
		.pl_offset = cpu_to_le32(p->start & (pgsz - 1)),
		.type = OHCA_MR_ODP,
	};
	struct ohca_dev *dev = p->dev;
	struct ohca_mr *mr;
	u16 hw_access;
	int ret;

	/* persistent memory must be pinned */
	if (access & IB_ACCESS_FLUSH_PERSISTENT)
		return ERR_PTR(-EOPNOTSUPP);
	ret = ohca_mr_access(dev, access, &hw_access);
	if (ret)
		return ERR_PTR(ret);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	in.access = cpu_to_le16(hw_access);
	p->pdn = to_ohca_pd(ibpd)->pdn;
	ret = ohca_cmd_reg_mr(dev, OHCA_CMD_REG_MR, &in, &p->key);
	if (ret)
		goto err;
	ret = xa_insert(&dev->paged, p->key, &p->obj, GFP_KERNEL);
	if (ret) {
		ohca_cmd_undo(dev, OHCA_CMD_DEREG_MR, p->key, ret);
		goto err;
	}
	mr->paged = p;
	mr->access = access;
	mr->ibmr.lkey = p->key;
	mr->ibmr.rkey = p->key;
	mr->ibmr.iova = p->iova;
	mr->ibmr.length = p->length;
	return &mr->ibmr;

err:
	kfree(mr);
	return ERR_PTR(ret);
}

/**
 * ohca_paged_leave - say whether DEREG_MR of a region is under way
 * @p: the region
 * @leaving: it is; false: the device has refused it
 *
 * Any context.
 */
void ohca_paged_leave(struct ohca_paged *p, bool leaving)
{
	WRITE_ONCE(p->leaving, leaving);
}

/**
 * ohca_paged_end - free a region that the device has deregistered
 * @p: the region, after ohca_paged_leave(); freed
 *
 * Process context.
 */
void ohca_paged_end(struct ohca_paged *p)
{
	struct ohca_dev *dev = p->dev;

	/* DEREG_MR was a fence: the device has no page of the region left to invalidate */
	WRITE_ONCE(p->gone, true);
	xa_erase(&dev->paged, p->key);
	ohca_obj_release(&p->obj);
	/* also with a wedged device: the notifiers must not run after the region is freed */
	if (p->umem->is_odp)
		ohca_odp_release(p);
	else
		ib_umem_release(p->umem);
	kfree(p);
}

/**
 * ohca_paged_get - look up a region by its key
 * @dev: the device
 * @key: its key
 *
 * Process context.
 * Return: the region with a reference, for which deregistration waits, or NULL.
 */
struct ohca_paged *ohca_paged_get(struct ohca_dev *dev, u32 key)
{
	struct ohca_obj *obj = ohca_obj_get_locked(&dev->paged, key);

	return obj ? container_of(obj, struct ohca_paged, obj) : NULL;
}

/** ohca_paged_put - drop a reference; any context */
void ohca_paged_put(struct ohca_paged *p)
{
	ohca_obj_put(&p->obj);
}

/* Index of the page with @va in the region. */
static u64 ohca_paged_index(const struct ohca_paged *p, u64 va)
{
	return (va >> p->shift) - (p->start >> p->shift);
}

/**
 * ohca_paged_name - set pages in the device
 * @p: the region
 * @va: in the first of them
 * @pages: in the device's encoding; 0: no page
 * @n: how many, at most OHCA_ODP_BATCH
 *
 * Under the lock under which they are invalidated; allocates no memory.
 * Return: 0 or a negative errno.
 */
int ohca_paged_name(struct ohca_paged *p, u64 va, const __le64 *pages, u32 n)
{
	int ret = ohca_cmd_update_mr(p->dev, p->key, ohca_paged_index(p, va), n, pages);

	/* the access that faulted is repeated, and fails because the region is gone */
	return READ_ONCE(p->leaving) ? 0 : ret;
}

/**
 * ohca_paged_take - invalidate pages in the device
 * @p: the region
 * @va: in the first of them
 * @n: how many
 *
 * Under the lock under which they were set; allocates no memory. When this returns the
 * device no longer uses them: a device that refuses is reset.
 */
void ohca_paged_take(struct ohca_paged *p, u64 va, u64 n)
{
	if (READ_ONCE(p->gone))
		return;
	if (ohca_cmd_update_mr(p->dev, p->key, ohca_paged_index(p, va), n, NULL) &&
	    !READ_ONCE(p->leaving))
		ohca_fatal(p->dev, "the device keeps pages that are taken back");
}

/**
 * ohca_paged_populate - fault pages in
 * @p: the region
 * @addr: first byte, as a device address
 * @len: bytes
 * @want: enum ohca_want
 *
 * Process context.
 * Return: 0 or a negative errno.
 */
int ohca_paged_populate(struct ohca_paged *p, u64 addr, u64 len, enum ohca_want want)
{
	u64 off = addr - p->iova;

	if (addr < p->iova || off >= p->length || len > p->length - off)
		return -EFAULT;
	if (want == OHCA_WANT_WRITE && !p->writable)
		return -EPERM;
	return len ? p->populate(p, p->start + off, len, want) : 0;
}

/* ---- advice ---- */

/** struct ohca_prefetch - a prefetch that runs later; it holds references to its regions */
struct ohca_prefetch {
	struct work_struct work;
	enum ohca_want want;
	u32 num;
	struct ohca_prefetch_range {
		struct ohca_paged *p;
		u64 addr;
		u32 length;
	} range[] __counted_by(num);
};

static int ohca_prefetch_run(struct ohca_prefetch *pf)
{
	u32 i;
	int ret;

	for (i = 0; i < pf->num; i++) {
		ret = ohca_paged_populate(pf->range[i].p, pf->range[i].addr, pf->range[i].length,
					  pf->want);
		if (ret)
			return ret;
	}
	return 0;
}

static void ohca_prefetch_free(struct ohca_prefetch *pf)
{
	u32 i;

	for (i = 0; i < pf->num && pf->range[i].p; i++)
		ohca_paged_put(pf->range[i].p);
	kvfree(pf);
}

static void ohca_prefetch_work(struct work_struct *work)
{
	struct ohca_prefetch *pf = container_of(work, struct ohca_prefetch, work);

	/* no caller waits: a page that is still missing faults at its first access */
	ohca_prefetch_run(pf);
	ohca_prefetch_free(pf);
}

/**
 * ohca_advise_mr - ib_device_ops.advise_mr: prefetch pages of regions
 * @ibpd: protection domain of the regions
 * @advice: which kind of prefetch
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: wait until it is done
 * @sg: ranges and local keys
 * @num: how many
 * @attrs: not used
 */
int ohca_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sg, u32 num, struct uverbs_attr_bundle *attrs)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	struct ohca_prefetch *pf;
	enum ohca_want want;
	int ret = 0;
	u32 i;

	if (!ohca_has_odp(dev))
		return -EOPNOTSUPP;
	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
		want = OHCA_WANT_ADVICE_READ;
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		want = OHCA_WANT_WRITE;
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		want = OHCA_WANT_PRESENT;
		break;
	default:
		return -EOPNOTSUPP;
	}
	/* charged to the process, because many requests of one process may be queued */
	pf = kvzalloc(struct_size(pf, range, num), GFP_KERNEL_ACCOUNT);
	if (!pf)
		return -ENOMEM;
	pf->num = num;
	pf->want = want;
	for (i = 0; i < num && !ret; i++) {
		struct ohca_paged *p = ohca_paged_get(dev, sg[i].lkey);

		pf->range[i].p = p;
		pf->range[i].addr = sg[i].addr;
		pf->range[i].length = sg[i].length;
		if (!p)
			ret = -ENOENT;
		else if (p->pdn != to_ohca_pd(ibpd)->pdn ||
			 (want == OHCA_WANT_WRITE && !p->writable))
			ret = -EPERM;
	}
	if (!ret && !(flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH)) {
		INIT_WORK(&pf->work, ohca_prefetch_work);
		queue_work(dev->fault_wq, &pf->work);
		return 0;
	}
	if (!ret)
		ret = ohca_prefetch_run(pf);
	ohca_prefetch_free(pf);
	return ret;
}
