// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * User contexts and their mappings.
 */
#include <linux/compat.h>
#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <rdma/ohca-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "buf.h"
#include "compat.h"
#include "dev.h"
#include "uctx.h"

#define UVERBS_MODULE_NAME ohca
#include <rdma/uverbs_named_ioctl.h>

/**
 * ohca_mmap_create - create an mmap entry for a part of a BAR
 * @dev: the device
 * @ibucontext: the process's context
 * @kind: kind of memory
 * @num: number of the doorbell page, or handle of the device memory; ohca_mmap_free() frees it
 *	if this function succeeds
 * @offset: offset in its BAR in bytes, a multiple of the page size
 * @size: bytes, a multiple of the page size
 *
 * Process context.
 * Return: the entry, to be removed with rdma_user_mmap_entry_remove(), or an error pointer.
 */
struct ohca_mmap *ohca_mmap_create(struct ohca_dev *dev, struct ib_ucontext *ibucontext,
				   enum ohca_mmap_kind kind, u32 num, u64 offset, size_t size)
{
	struct ohca_mmap *entry;
	int ret;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return ERR_PTR(-ENOMEM);
	entry->dev = dev;
	entry->kind = kind;
	entry->num = num;
	entry->offset = offset;
	ret = rdma_user_mmap_entry_insert(ibucontext, &entry->rdma, size);
	if (ret) {
		kfree(entry);
		return ERR_PTR(ret);
	}
	return entry;
}

/** ohca_mmap_free - ib_device_ops.mmap_free: free an entry after its last mapping */
void ohca_mmap_free(struct rdma_user_mmap_entry *rdma)
{
	struct ohca_mmap *entry = container_of(rdma, struct ohca_mmap, rdma);

	if (entry->kind == OHCA_MMAP_DM)
		ohca_cmd_destroy(entry->dev, OHCA_CMD_FREE_DM, entry->num);
	else
		ida_free(&entry->dev->uars, entry->num);
	kfree(entry);
}

static struct ohca_mmap *ohca_uar_alloc(struct ohca_dev *dev, struct ib_ucontext *ibucontext)
{
	struct ohca_mmap *entry;
	int uar;

	uar = ida_alloc_range(&dev->uars, 1, dev->num_uars - 1, GFP_KERNEL);
	if (uar < 0)
		return ERR_PTR(uar == -ENOSPC ? -ENOMEM : uar);
	entry = ohca_mmap_create(dev, ibucontext, OHCA_MMAP_UAR, uar, (u64)uar * PAGE_SIZE,
				 PAGE_SIZE);
	if (IS_ERR(entry))
		ida_free(&dev->uars, uar);
	return entry;
}

/* Fills in the response that describes a context to its provider. */
static void ohca_ucontext_resp(const struct ohca_ucontext *ctx,
			       struct ohca_alloc_ucontext_resp *resp)
{
	const struct ohca_dev *dev = ctx->mmap->dev;

	*resp = (struct ohca_alloc_ucontext_resp) {
		.hw_version = dev->version,
		.features = dev->features,
		.uar_mmap_key = rdma_user_mmap_get_offset(&ctx->mmap->rdma),
		.uar_mmap_size = PAGE_SIZE,
		.max_inline = le16_to_cpu(dev->attr.max_inline),
		.log_max_sq_bbs = dev->attr.log_max_sq_bbs,
		.log_max_rq_wqes = dev->attr.log_max_rq_wqes,
		.log_max_srq_wqes = dev->attr.log_max_srq_wqes,
		.log_max_cqe = dev->attr.log_max_cqe,
		.max_sge = dev->attr.max_sge,
		.timestamp_khz = le64_to_cpu(dev->attr.timestamp_khz),
	};
}

/** ohca_alloc_ucontext - ib_device_ops.alloc_ucontext */
int ohca_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata)
{
	struct ohca_ucontext *ctx = to_ohca_ucontext(ibucontext);
	struct ohca_dev *dev = to_ohca_dev(ibucontext->device);
	struct ohca_alloc_ucontext_resp resp;
	struct ohca_alloc_ucontext_req req;
	int ret;

	/* a 32-bit program may split a doorbell into two stores, which the device ignores */
	if (in_compat_syscall()) {
		dev_dbg(&dev->pdev->dev, "32-bit program refused\n");
		return -EOPNOTSUPP;
	}
	ret = ohca_udata_in(udata, &req, sizeof(req));
	if (ret)
		return ret;
	if (req.comp_mask)
		return -EOPNOTSUPP;
	if (req.hw_major != OHCA_FIELD_GET(OHCA_VERSION_MAJOR, dev->version)) {
		dev_dbg(&dev->pdev->dev, "provider for interface version %u refused\n",
			req.hw_major);
		return -EPROTO;
	}
	if (dev->num_uars < 2)
		return -ENOMEM;

	/*
	 * The core holds no reference to a driver with disassociate_ucontext(), because such a
	 * driver can revoke open contexts. That is for a device that is removed or unbound. An
	 * update of the driver, or a script that unloads unused modules, must not revoke contexts.
	 * So each context holds a reference to the module.
	 */
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	ctx->mmap = ohca_uar_alloc(dev, ibucontext);
	if (IS_ERR(ctx->mmap)) {
		ret = PTR_ERR(ctx->mmap);
		goto err_module;
	}
	ctx->uar = ctx->mmap->num;

	ohca_ucontext_resp(ctx, &resp);
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
 * Empty: the core removes the mappings and destroys the objects. It does this only for drivers with
 * this operation.
 */
void ohca_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}

/**
 * ohca_query_ucontext - ib_device_ops.query_ucontext
 * @ibucontext: a context that another process has opened
 * @attrs: OHCA_ATTR_QUERY_CONTEXT_RESP is set to struct ohca_alloc_ucontext_resp
 *
 * All processes with the context share its doorbell page and its objects. Process context.
 * Return: 0 or a negative errno.
 */
int ohca_query_ucontext(struct ib_ucontext *ibucontext, struct uverbs_attr_bundle *attrs)
{
	struct ohca_alloc_ucontext_resp resp;

	ohca_ucontext_resp(to_ohca_ucontext(ibucontext), &resp);
	return uverbs_copy_to_struct_or_zero(attrs, OHCA_ATTR_QUERY_CONTEXT_RESP, &resp,
					     sizeof(resp));
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	ohca_query_context, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
	UVERBS_ATTR_PTR_OUT(OHCA_ATTR_QUERY_CONTEXT_RESP,
			    UVERBS_ATTR_STRUCT(struct ohca_alloc_ucontext_resp, timestamp_khz),
			    UA_MANDATORY));

const struct uapi_definition ohca_ucontext_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &ohca_query_context),
	{}
};

/** ohca_mmap - ib_device_ops.mmap: map a doorbell page or device memory */
int ohca_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct ohca_dev *dev = to_ohca_dev(ibucontext->device);
	struct rdma_user_mmap_entry *rdma;
	struct ohca_mmap *entry;
	resource_size_t addr;
	pgprot_t prot;
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
	if (entry->kind == OHCA_MMAP_DM) {
		addr = pci_resource_start(dev->pdev, OHCA_BAR_DM);
		prot = pgprot_writecombine(vma->vm_page_prot);
	} else {
		addr = pci_resource_start(dev->pdev, OHCA_BAR_UAR);
		prot = pgprot_noncached(vma->vm_page_prot);
	}
	ret = rdma_user_mmap_io(ibucontext, vma, (addr + entry->offset) >> PAGE_SHIFT,
				rdma->npages * PAGE_SIZE, prot, rdma);
out:
	rdma_user_mmap_entry_put(rdma);
	return ret;
}
