// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions with on-demand paging: registration, deregistration, and the commands that set and
 * invalidate their pages.
 */
#include <linux/slab.h>
#include <linux/wait_bit.h>
#include <linux/xarray.h>
#include <kunit/visibility.h>
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
 * ohca_paged_alloc - allocate a region; the caller sets its umem, then registers it
 * @dev: the device
 * @iova: address of the first byte, for the device
 * @start: address of the same byte in the process, or offset in the dma-buf
 * @length: bytes
 * @shift: log2 of the page size
 * @access: enum ib_access_flags
 * @ops: operations of its kind
 *
 * Return: the region, to be freed with kfree(), or NULL.
 */
struct ohca_paged *ohca_paged_alloc(struct ohca_dev *dev, u64 iova, u64 start, u64 length,
				    u32 shift, int access, const struct ohca_paged_ops *ops)
{
	struct ohca_paged *p = kzalloc(sizeof(*p), GFP_KERNEL_ACCOUNT);

	if (!p)
		return NULL;
	p->dev = dev;
	p->iova = iova;
	p->start = start;
	p->length = length;
	p->shift = shift;
	p->writable = ib_access_writable(access);
	p->ops = ops;
	ohca_obj_init(&p->obj);
	init_rwsem(&p->lock);
	init_rwsem(&p->set_lock);
	xa_init(&p->children);
	return p;
}

/*
 * Whether no region with this key is being deregistered. Sets *@state to the state of the region,
 * or to -ENOENT if there is none.
 */
static bool ohca_paged_settled(struct ohca_dev *dev, u32 key, int *state)
{
	struct ohca_obj *obj;

	/* a region that is in the array is not freed */
	xa_lock(&dev->paged);
	obj = xa_load(&dev->paged, key);
	*state = obj ? (int)READ_ONCE(container_of(obj, struct ohca_paged, obj)->state) : -ENOENT;
	xa_unlock(&dev->paged);
	return *state < 0 || *state == OHCA_PAGED_LIVE;
}

/**
 * ohca_paged_insert - add a region to ohca_dev.paged
 * @p: the region, with its key
 *
 * The device may reuse a key as soon as it has executed DEREG_MR, when the old region is still in
 * the array. This function waits until the old region is removed. Process context.
 * Return: 0, -ENOMEM, or -EBUSY if a region that is not being deregistered has the key.
 */
VISIBLE_IF_KUNIT int ohca_paged_insert(struct ohca_paged *p)
{
	struct ohca_dev *dev = p->dev;
	int ret, state;

	do {
		ret = xa_insert(&dev->paged, p->key, &p->obj, GFP_KERNEL_ACCOUNT);
		if (ret != -EBUSY)
			return ret;
		wait_var_event(&dev->paged, ohca_paged_settled(dev, p->key, &state));
	} while (state < 0);
	return -EBUSY;
}

/** ohca_paged_remove - remove a region from ohca_dev.paged; process context */
VISIBLE_IF_KUNIT void ohca_paged_remove(struct ohca_paged *p)
{
	xa_erase(&p->dev->paged, p->key);
	smp_mb();	/* pairs with wait_var_event(): the removal is visible before the wakeup */
	wake_up_var(&p->dev->paged);
}

/**
 * ohca_paged_register - register a region without pages in the device
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
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	in.access = cpu_to_le16(hw_access);
	p->pdn = to_ohca_pd(ibpd)->pdn;
	ret = ohca_cmd_reg_mr(dev, OHCA_CMD_REG_MR, &in, &p->key);
	if (ret)
		goto err;
	ret = ohca_paged_insert(p);
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
 * ohca_paged_dereg_begin - DEREG_MR of a region is about to be submitted
 * @p: the region
 *
 * Process context. Waits for commands that set pages; later code submits none with this key.
 */
void ohca_paged_dereg_begin(struct ohca_paged *p)
{
	down_write(&p->set_lock);
	WRITE_ONCE(p->state, OHCA_PAGED_LEAVING);
	up_write(&p->set_lock);
}

/** ohca_paged_dereg_abort - the device has refused DEREG_MR of a region; any context */
void ohca_paged_dereg_abort(struct ohca_paged *p)
{
	WRITE_ONCE(p->state, OHCA_PAGED_LIVE);
	smp_mb();	/* pairs with wait_var_event() */
	wake_up_var(&p->dev->paged);
}

/**
 * ohca_paged_dereg_finish - free a region that the device has deregistered
 * @p: the region, after ohca_paged_dereg_begin(); freed
 *
 * Process context.
 */
void ohca_paged_dereg_finish(struct ohca_paged *p)
{
	/* DEREG_MR is a fence: the device has no pages of the region, so none is invalidated */
	WRITE_ONCE(p->state, OHCA_PAGED_GONE);
	ohca_paged_remove(p);
	ohca_obj_release(&p->obj);
	/* even if the device is wedged: the notifiers must not run after the region is freed */
	p->ops->release(p);
	kfree(p);
}

/**
 * ohca_paged_get - look up a region by its key
 * @dev: the device
 * @key: its key
 *
 * Process context.
 * Return: the region with a reference, or NULL. Deregistration waits for the reference.
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
 * ohca_paged_set - set pages in the device
 * @p: the region
 * @va: an address in the first page
 * @pages: pages in the device's encoding; 0: no page
 * @n: number of pages, at most OHCA_ODP_BATCH
 *
 * Under the lock under which pages are invalidated; allocates no memory. Sets no page of a region
 * that is being deregistered, because the device may have given its key to another region.
 * Return: 0 or a negative errno.
 */
int ohca_paged_set(struct ohca_paged *p, u64 va, const __le64 *pages, u32 n)
{
	int ret = 0;

	down_read(&p->set_lock);
	/* else the device repeats the access, which fails because the region is deregistered */
	if (ohca_paged_is_live(p))
		ret = ohca_cmd_update_mr(p->dev, p->key, ohca_paged_index(p, va), n, pages);
	up_read(&p->set_lock);
	return ret;
}

/**
 * ohca_paged_invalidate - invalidate pages in the device
 * @p: the region
 * @va: an address in the first page
 * @n: number of pages
 *
 * Under the lock under which the pages were set; allocates no memory. When this returns the device
 * no longer uses the pages: the driver resets a device that refuses the command.
 */
void ohca_paged_invalidate(struct ohca_paged *p, u64 va, u64 n)
{
	if (READ_ONCE(p->state) == OHCA_PAGED_GONE)
		return;
	if (ohca_cmd_update_mr(p->dev, p->key, ohca_paged_index(p, va), n, NULL) &&
	    ohca_paged_is_live(p))
		ohca_fatal(p->dev, "the device did not invalidate pages of a memory region");
}

/**
 * ohca_paged_populate - fault pages in
 * @p: the region
 * @addr: device address of the first byte; the region begins at its iova
 * @len: bytes
 * @want: enum ohca_want
 *
 * Process context.
 * Return: 0, -EFAULT outside the region, -EPERM without the right to write, or another errno.
 */
int ohca_paged_populate(struct ohca_paged *p, u64 addr, u64 len, enum ohca_want want)
{
	u64 off = addr - p->iova;

	if (addr < p->iova || off >= p->length || len > p->length - off)
		return -EFAULT;
	if (want == OHCA_WANT_WRITE && !p->writable)
		return -EPERM;
	return len ? p->ops->populate(p, p->start + off, len, want) : 0;
}
