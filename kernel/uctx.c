// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * User contexts and their doorbell pages.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/ohca-abi.h>

#include "ohca.h"

static struct ohca_mmap *ohca_mmap_create(struct ohca_dev *dev, struct ib_ucontext *ibucontext)
{
	struct ohca_mmap *entry;
	int uar, ret;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return ERR_PTR(-ENOMEM);
	uar = ida_alloc_range(&dev->uars, 1, dev->num_uars - 1, GFP_KERNEL);
	if (uar < 0) {
		kfree(entry);
		return ERR_PTR(uar == -ENOSPC ? -ENOMEM : uar);
	}
	entry->dev = dev;
	entry->uar = uar;
	ret = rdma_user_mmap_entry_insert(ibucontext, &entry->rdma, PAGE_SIZE);
	if (ret) {
		ida_free(&dev->uars, uar);
		kfree(entry);
		return ERR_PTR(ret);
	}
	return entry;
}

/** ohca_mmap_free - ib_device_ops.mmap_free: nobody maps the page any more */
void ohca_mmap_free(struct rdma_user_mmap_entry *rdma)
{
	struct ohca_mmap *entry = container_of(rdma, struct ohca_mmap, rdma);

	ida_free(&entry->dev->uars, entry->uar);
	kfree(entry);
}

/** ohca_alloc_ucontext - ib_device_ops.alloc_ucontext */
int ohca_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata)
{
	struct ohca_ucontext *ctx = to_ohca_ucontext(ibucontext);
	struct ohca_dev *dev = to_ohca_dev(ibucontext->device);
	struct ohca_alloc_ucontext_resp resp = {};
	struct ohca_alloc_ucontext_req req;
	int ret;

	ret = ohca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (req.comp_mask)
		return -EOPNOTSUPP;
	if (req.hw_major != OHCA_FIELD_GET(OHCA_VERSION_MAJOR, dev->version)) {
		ibdev_dbg(&dev->ibdev, "provider for interface version %u refused\n",
			  req.hw_major);
		return -EPROTO;
	}
	if (dev->num_uars < 2)
		return -ENOMEM;

	/* the core lets a driver go that can revoke contexts; this one stays while used */
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	ctx->mmap = ohca_mmap_create(dev, ibucontext);
	if (IS_ERR(ctx->mmap)) {
		ret = PTR_ERR(ctx->mmap);
		goto err_module;
	}
	ctx->uar = ctx->mmap->uar;

	resp.hw_version = dev->version;
	resp.features = dev->features;
	resp.uar_mmap_key = rdma_user_mmap_get_offset(&ctx->mmap->rdma);
	resp.uar_mmap_size = PAGE_SIZE;
	resp.max_inline = le16_to_cpu(dev->attr.max_inline);
	resp.log_max_sq_bbs = dev->attr.log_max_sq_bbs;
	resp.log_max_rq_wqes = dev->attr.log_max_rq_wqes;
	resp.log_max_srq_wqes = dev->attr.log_max_srq_wqes;
	resp.log_max_cqe = dev->attr.log_max_cqe;
	resp.max_sge = dev->attr.max_sge;
	resp.timestamp_khz = le64_to_cpu(dev->attr.timestamp_khz);
	ret = ohca_udata_out(udata, &resp, sizeof(resp));
	if (ret)
		goto err_mmap;
	return 0;

err_mmap:
	rdma_user_mmap_entry_remove(&ctx->mmap->rdma);
err_module:
	module_put(THIS_MODULE);
	return ret;
}

/** ohca_dealloc_ucontext - ib_device_ops.dealloc_ucontext */
void ohca_dealloc_ucontext(struct ib_ucontext *ibucontext)
{
	rdma_user_mmap_entry_remove(&to_ohca_ucontext(ibucontext)->mmap->rdma);
	module_put(THIS_MODULE);
}

/**
 * ohca_disassociate_ucontext - ib_device_ops.disassociate_ucontext
 * @ibucontext: the context
 *
 * The core takes the mappings away and destroys the objects; nothing is left to do.
 */
void ohca_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}

/** ohca_mmap - ib_device_ops.mmap: map a doorbell page */
int ohca_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct ohca_dev *dev = to_ohca_dev(ibucontext->device);
	struct rdma_user_mmap_entry *rdma;
	struct ohca_mmap *entry;
	resource_size_t addr;
	int ret;

	rdma = rdma_user_mmap_entry_get(ibucontext, vma);
	if (!rdma)
		return -EINVAL;
	entry = container_of(rdma, struct ohca_mmap, rdma);
	if (vma->vm_flags & VM_EXEC) {
		ret = -EPERM;
		goto out;
	}
	vm_flags_clear(vma, VM_MAYEXEC);
	addr = pci_resource_start(dev->pdev, OHCA_BAR_UAR) + (u64)entry->uar * PAGE_SIZE;
	ret = rdma_user_mmap_io(ibucontext, vma, addr >> PAGE_SHIFT, PAGE_SIZE,
				pgprot_noncached(vma->vm_page_prot), rdma);
out:
	rdma_user_mmap_entry_put(rdma);
	return ret;
}
