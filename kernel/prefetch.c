// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Prefetches of regions with on-demand paging. A prefetch may wait for storage without a time
 * limit, for example for a file on a network. So prefetches do not use the high priority work queue
 * of page faults. A context can queue OHCA_PREFETCH_CONTEXT prefetches; the caller executes further
 * ones itself. OHCA_PREFETCH_ALL is less than the number of work items that the queue runs at a
 * time, so no prefetch, and no deregistration of a region, waits for a prefetch of another process.
 */
#include <linux/atomic.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <kunit/visibility.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "dev.h"
#include "paged.h"
#include "prefetch.h"
#include "uctx.h"
#include "verbs.h"

/**
 * struct ohca_prefetch - a prefetch; it holds references to its regions
 * @work: executes a queued prefetch
 * @dev: the device
 * @ctx: the context, which exists as long as its regions; NULL for a kernel consumer
 * @want: enum ohca_want
 * @num: number of ranges
 * @range: ranges: @length bytes in region @p from device address @addr on
 */
struct ohca_prefetch {
	struct work_struct work;
	struct ohca_dev *dev;
	struct ohca_ucontext *ctx;
	enum ohca_want want;
	u32 num;
	struct ohca_prefetch_range {
		struct ohca_paged *p;
		u64 addr;
		u32 length;
	} range[] __counted_by(num);
};

/**
 * ohca_prefetch_admit - count a prefetch before it is queued
 * @dev: the device
 * @ctx: context of the caller; NULL for a kernel consumer
 *
 * Any context.
 * Return: false if too many are queued.
 */
VISIBLE_IF_KUNIT bool ohca_prefetch_admit(struct ohca_dev *dev, struct ohca_ucontext *ctx)
{
	if (ctx && !atomic_add_unless(&ctx->prefetches, 1, OHCA_PREFETCH_CONTEXT))
		return false;
	if (atomic_add_unless(&dev->prefetches, 1, OHCA_PREFETCH_ALL))
		return true;
	if (ctx)
		atomic_dec(&ctx->prefetches);
	return false;
}

/** ohca_prefetch_leave - undo ohca_prefetch_admit() after the prefetch; any context */
VISIBLE_IF_KUNIT void ohca_prefetch_leave(struct ohca_dev *dev, struct ohca_ucontext *ctx)
{
	atomic_dec(&dev->prefetches);
	if (ctx)
		atomic_dec(&ctx->prefetches);
}

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

	/* errors are ignored: a page that is still missing faults at its first access */
	ohca_prefetch_run(pf);
	/* before the references are dropped, which keep the context */
	ohca_prefetch_leave(pf->dev, pf->ctx);
	ohca_prefetch_free(pf);
}

/**
 * ohca_advise_mr - ib_device_ops.advise_mr: prefetch pages of regions
 * @ibpd: protection domain of the regions
 * @advice: kind of prefetch
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: wait until the prefetch is complete
 * @sg: ranges and L_Keys
 * @num: number of ranges
 * @attrs: attributes of the call; NULL for a kernel consumer
 *
 * Process context. If too many prefetches are queued, it waits without the flag, too.
 * Return: 0, -EOPNOTSUPP, -ENOMEM, -ENOENT for an unknown key, -EPERM for a key of another PD or
 * without the right to write, or with waiting the errno of the prefetch.
 */
int ohca_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sg, u32 num, struct uverbs_attr_bundle *attrs)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	struct ohca_ucontext *ctx = NULL;
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
	/* GFP_KERNEL_ACCOUNT, because a process may have many requests queued */
	pf = kvzalloc(struct_size(pf, range, num), GFP_KERNEL_ACCOUNT);
	if (!pf)
		return -ENOMEM;
	if (attrs)
		ctx = to_ohca_ucontext(attrs->context);
	pf->dev = dev;
	pf->ctx = ctx;
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
	if (!ret && !(flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH) && ohca_prefetch_admit(dev, ctx)) {
		INIT_WORK(&pf->work, ohca_prefetch_work);
		queue_work(dev->odp_wq, &pf->work);
		return 0;
	}
	if (!ret)
		ret = ohca_prefetch_run(pf);
	ohca_prefetch_free(pf);
	return ret;
}
