// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device memory.
 *
 * The device allocates whole pages of BAR 5, which only their owner may map. The driver frees
 * them when the object is destroyed and no mapping of them is left, because the device may
 * allocate free pages to another process.
 */
#include <linux/log2.h>
#include <linux/slab.h>
#include <rdma/ohca-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "dev.h"
#include "dm.h"
#include "uctx.h"

#define UVERBS_MODULE_NAME ohca
#include <rdma/uverbs_named_ioctl.h>

static void ohca_dm_resp(struct ohca_dm *dm, struct ohca_dm_resp *resp)
{
	*resp = (struct ohca_dm_resp) {
		.mmap_key = rdma_user_mmap_get_offset(&dm->mmap->rdma),
		.mmap_size = dm->mmap->rdma.npages * PAGE_SIZE,
		.length = dm->length,
	};
}

/**
 * ohca_alloc_dm - ib_device_ops.alloc_dm
 * @ibdev: the device
 * @ibucontext: context of the process that may map it
 * @attr: length in bytes and log2 of the alignment
 * @attrs: OHCA_ATTR_ALLOC_DM_RESP is set to struct ohca_dm_resp on success
 *
 * Process context.
 * Return: zeroed device memory, or an error pointer: -EOPNOTSUPP without OHCA_FEATURE_DM, -EINVAL
 * for an invalid length or alignment, -ENOMEM, -EPROTO if the device returned a bad offset.
 */
struct ib_dm *ohca_alloc_dm(struct ib_device *ibdev, struct ib_ucontext *ibucontext,
			    struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct ohca_dev *dev = to_ohca_dev(ibdev);
	u64 size = le64_to_cpu(dev->attr.dm_size), offset;
	struct ohca_dm_resp resp;
	struct ohca_dm *dm;
	u32 handle;
	int ret;

	if (!ohca_has(dev, OHCA_FEATURE_DM))
		return ERR_PTR(-EOPNOTSUPP);
	if (attr->flags || !attr->length || attr->length > ohca_max_dm(dev) ||
	    attr->alignment > ilog2(size))
		return ERR_PTR(-EINVAL);
	dm = kzalloc(sizeof(*dm), GFP_KERNEL_ACCOUNT);
	if (!dm)
		return ERR_PTR(-ENOMEM);
	dm->length = attr->length;
	ret = ohca_cmd_alloc_dm(dev, attr->length, attr->alignment, &handle, &offset);
	if (ret)
		goto err_free;
	/* the mapping must be inside device memory and start at a page */
	if (!PAGE_ALIGNED(offset) || offset > size || PAGE_ALIGN(attr->length) > size - offset) {
		ohca_cmd_destroy(dev, OHCA_CMD_FREE_DM, handle);
		ret = -EPROTO;
		goto err_free;
	}
	dm->mmap = ohca_mmap_create(dev, ibucontext, OHCA_MMAP_DM, handle, offset,
				    PAGE_ALIGN(attr->length));
	if (IS_ERR(dm->mmap)) {
		ret = PTR_ERR(dm->mmap);
		ohca_cmd_destroy(dev, OHCA_CMD_FREE_DM, handle);
		goto err_free;
	}
	ohca_dm_resp(dm, &resp);
	ret = uverbs_copy_to_struct_or_zero(attrs, OHCA_ATTR_ALLOC_DM_RESP, &resp, sizeof(resp));
	if (ret)
		goto err_mmap;
	return &dm->ibdm;

err_mmap:
	rdma_user_mmap_entry_remove(&dm->mmap->rdma);
err_free:
	kfree(dm);
	return ERR_PTR(ret);
}

/** ohca_dealloc_dm - ib_device_ops.dealloc_dm; the pages are freed after the last mapping */
int ohca_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct ohca_dm *dm = to_ohca_dm(ibdm);

	rdma_user_mmap_entry_remove(&dm->mmap->rdma);
	kfree(dm);
	return 0;
}

/* Lets a process that shares the context map the same pages. */
static int UVERBS_HANDLER(OHCA_METHOD_DM_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm = uverbs_attr_get_obj(attrs, OHCA_ATTR_QUERY_DM_HANDLE);
	struct ohca_dm_resp resp;

	ohca_dm_resp(to_ohca_dm(ibdm), &resp);
	return uverbs_copy_to_struct_or_zero(attrs, OHCA_ATTR_QUERY_DM_RESP, &resp, sizeof(resp));
}

DECLARE_UVERBS_NAMED_METHOD(
	OHCA_METHOD_DM_QUERY,
	UVERBS_ATTR_IDR(OHCA_ATTR_QUERY_DM_HANDLE, UVERBS_OBJECT_DM, UVERBS_ACCESS_READ,
			UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(OHCA_ATTR_QUERY_DM_RESP,
			    UVERBS_ATTR_STRUCT(struct ohca_dm_resp, length),
			    UA_MANDATORY));

ADD_UVERBS_METHODS(ohca_dm_methods, UVERBS_OBJECT_DM, &UVERBS_METHOD(OHCA_METHOD_DM_QUERY));

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	ohca_dm_alloc_attrs, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
	UVERBS_ATTR_PTR_OUT(OHCA_ATTR_ALLOC_DM_RESP,
			    UVERBS_ATTR_STRUCT(struct ohca_dm_resp, length),
			    UA_MANDATORY));

const struct uapi_definition ohca_dm_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &ohca_dm_methods),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &ohca_dm_alloc_attrs),
	{}
};
