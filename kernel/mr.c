// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory regions and windows.
 */
#include <linux/log2.h>
#include <linux/slab.h>
#include <kunit/visibility.h>
#include <rdma/ib_umem.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "buf.h"
#include "compat.h"
#include "dev.h"
#include "dm.h"
#include "fatal.h"
#include "mr.h"
#include "paged.h"
#include "uctx.h"
#include "verbs.h"

#define OHCA_MR_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND | IB_ZERO_BASED)
#define OHCA_MR_FLUSH	(IB_ACCESS_FLUSH_GLOBAL | IB_ACCESS_FLUSH_PERSISTENT)

/**
 * ohca_mr_access - rights in the device's encoding
 * @dev: the device
 * @access: enum ib_access_flags
 * @hw: set on success
 *
 * Drops flags that are hints or concern pinning only. Any context.
 * Return: 0, or -EOPNOTSUPP for other unsupported flags.
 */
int ohca_mr_access(const struct ohca_dev *dev, int access, u16 *hw)
{
	int rights = OHCA_MR_ACCESS;

	if (ohca_has(dev, OHCA_FEATURE_MPE))
		rights |= OHCA_MR_FLUSH;
	if (access & ~(rights | IB_ACCESS_HUGETLB | IB_ACCESS_ON_DEMAND | IB_ACCESS_OPTIONAL))
		return -EOPNOTSUPP;
	*hw = access & rights;
	return 0;
}

/* Refuses IB_ACCESS_FLUSH_PERSISTENT for memory that is not persistent. */
static int ohca_mr_check_flush(struct ib_umem *umem, int access)
{
	struct scatterlist *sg;
	int i;

	if (!(access & IB_ACCESS_FLUSH_PERSISTENT))
		return 0;
	for_each_sgtable_sg(&umem->sgt_append.sgt, sg, i)
		if (region_intersects(sg_phys(sg), sg->length, IORESOURCE_MEM,
				      IORES_DESC_PERSISTENT_MEMORY) != REGION_INTERSECTS)
			return -EINVAL;
	return 0;
}

static void ohca_mr_set_key(struct ohca_mr *mr, u32 key)
{
	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
}

static int ohca_mr_register(struct ohca_dev *dev, struct ohca_mr *mr,
			    const struct ohca_cmd_reg_mr *in)
{
	u32 key;
	int ret;

	ret = ohca_cmd_reg_mr(dev, OHCA_CMD_REG_MR, in, &key);
	if (!ret)
		ohca_mr_set_key(mr, key);
	return ret;
}

/**
 * ohca_get_dma_mr - ib_device_ops.get_dma_mr: a region of all bus addresses
 * @ibpd: PD
 * @access: enum ib_access_flags
 *
 * Adds the local write right to a remote write or atomic right: for a PD with
 * IB_PD_UNSAFE_GLOBAL_RKEY the core requests remote rights only, and the device refuses these
 * without the local one. Process context.
 * Return: the region or an ERR_PTR().
 */
struct ib_mr *ohca_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct ohca_cmd_reg_mr in = {
		.pdn = cpu_to_le32(to_ohca_pd(ibpd)->pdn),
		.type = OHCA_MR_DMA,
	};
	struct ohca_mr *mr;
	u16 hw_access;
	int ret;

	if (access & OHCA_MR_FLUSH)
		return ERR_PTR(-EOPNOTSUPP);
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC))
		access |= IB_ACCESS_LOCAL_WRITE;
	ret = ohca_mr_access(to_ohca_dev(ibpd->device), access, &hw_access);
	if (ret)
		return ERR_PTR(ret);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	in.access = cpu_to_le16(hw_access);
	mr->access = access;
	ret = ohca_mr_register(to_ohca_dev(ibpd->device), mr, &in);
	if (ret) {
		kfree(mr);
		return ERR_PTR(ret);
	}
	return &mr->ibmr;
}

/* Sets the fields of @in that describe pinned memory. The caller frees *@pl after the command. */
static int ohca_mr_describe(struct ohca_dev *dev, struct ohca_cmd_reg_mr *in, struct ohca_pl *pl,
			    struct ib_umem *umem, u64 length, u64 virt, int access)
{
	unsigned long pgsz;
	int ret;

	ret = ohca_mr_check_flush(umem, access);
	if (ret)
		return ret;
	pgsz = ib_umem_find_best_pgsz(umem, ohca_page_sizes(dev),
				      access & IB_ZERO_BASED ? umem->address : virt);
	if (!pgsz)
		return -EINVAL;
	ret = ohca_pl_from_umem(dev, pl, umem, pgsz);
	if (ret)
		return ret;
	in->pl = pl->hw;
	in->iova = cpu_to_le64(access & IB_ZERO_BASED ? 0 : virt);
	in->length = cpu_to_le64(length);
	in->pl_offset = cpu_to_le32(ib_umem_dma_offset(umem, pgsz));
	return 0;
}

/* Pins memory of the process. The caller releases the umem after the region is deregistered. */
static struct ib_umem *ohca_mr_pin(struct ohca_dev *dev, u64 start, u64 length, int access)
{
	if (!length || length > le64_to_cpu(dev->attr.max_mr_size))
		return ERR_PTR(-EINVAL);
	return ib_umem_get_va(&dev->ibdev, start, length, access);
}

/**
 * ohca_reg_umem - register pinned memory
 * @ibpd: protection domain
 * @umem: the memory; the region owns it on success, else it is released
 * @length: bytes
 * @virt: address for the device
 * @access: enum ib_access_flags
 *
 * Process context.
 * Return: the region or an error pointer.
 */
struct ib_mr *ohca_reg_umem(struct ib_pd *ibpd, struct ib_umem *umem, u64 length, u64 virt,
			    int access)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	struct ohca_cmd_reg_mr in = {
		.pdn = cpu_to_le32(to_ohca_pd(ibpd)->pdn),
		.type = OHCA_MR_USER,
	};
	struct ohca_mr *mr;
	struct ohca_pl pl;
	u16 hw_access;
	int ret;

	ret = ohca_mr_access(dev, access, &hw_access);
	if (ret)
		goto err_umem;
	ret = -ENOMEM;
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		goto err_umem;
	ret = ohca_mr_describe(dev, &in, &pl, umem, length, virt, access);
	if (ret)
		goto err_free;
	in.access = cpu_to_le16(hw_access);
	mr->umem = umem;
	mr->access = access;
	ret = ohca_mr_register(dev, mr, &in);
	ohca_pl_free(dev, &pl);
	if (ret)
		goto err_free;
	mr->ibmr.iova = le64_to_cpu(in.iova);
	mr->ibmr.length = length;
	return &mr->ibmr;

err_free:
	kfree(mr);
err_umem:
	ohca_umem_release(dev, umem);
	return ERR_PTR(ret);
}

/** ohca_reg_user_mr - ib_device_ops.reg_user_mr; hints of DMA handles (@dmah) are not supported */
struct ib_mr *ohca_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 virt, int access,
			       struct ib_dmah *dmah, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	struct ib_umem *umem;
	u16 hw_access;
	int ret;

	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	ret = ohca_udata_none(udata);
	if (ret)
		return ERR_PTR(ret);
	/* check before pinning */
	ret = ohca_mr_access(dev, access, &hw_access);
	if (ret)
		return ERR_PTR(ret);
	if (access & IB_ACCESS_ON_DEMAND)
		return ohca_has_odp(dev) ? ohca_reg_odp_mr(ibpd, start, length, virt, access) :
					   ERR_PTR(-EOPNOTSUPP);
	umem = ohca_mr_pin(dev, start, length, access);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	return ohca_reg_umem(ibpd, umem, length, virt, access);
}

/**
 * ohca_rereg_user_mr - ib_device_ops.rereg_user_mr
 * @ibmr: region of a process
 * @flags: IB_MR_REREG_*, the fields to change
 * @start: new address in the process
 * @length: new length in bytes
 * @virt: new address of the first byte for the device
 * @access: new rights
 * @ibpd: new protection domain
 * @udata: must be empty
 *
 * Process context.
 * Return: NULL if the region was changed in place; else an error pointer, and the region is
 * unchanged.
 */
struct ib_mr *ohca_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 virt,
				 int access, struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibmr->device);
	struct ohca_mr *mr = to_ohca_mr(ibmr);
	struct ohca_cmd_reg_mr in = {
		.key = cpu_to_le32(ibmr->lkey),
		.type = OHCA_MR_USER,
	};
	struct ib_umem *umem = NULL;
	struct ohca_pl pl = {};
	u16 hw_access;
	u32 key;
	int ret;

	if (!ohca_has(dev, OHCA_FEATURE_REREG))
		return ERR_PTR(-EOPNOTSUPP);
	ret = ohca_udata_none(udata);
	if (ret)
		return ERR_PTR(ret);
	if (flags & ~(IB_MR_REREG_TRANS | IB_MR_REREG_PD | IB_MR_REREG_ACCESS))
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	ret = ohca_mr_access(dev, access, &hw_access);
	if (ret)
		return ERR_PTR(ret);
	/*
	 * Not supported: regions of device memory or with on-demand paging, which have no umem,
	 * regions of a dma-buf, and a change to on-demand paging.
	 */
	if (!mr->umem || mr->umem->is_dmabuf || access & IB_ACCESS_ON_DEMAND)
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_TRANS)) {
		ret = ohca_mr_check_flush(mr->umem, access);
		if (ret)
			return ERR_PTR(ret);
	}
	if (!(flags & IB_MR_REREG_TRANS) && ib_access_writable(access) && !mr->umem->writable) {
		/* memory that is pinned for reading must be pinned again by the same process */
		if (mr->umem->owning_mm != current->mm)
			return ERR_PTR(-EOPNOTSUPP);
		if ((access ^ mr->access) & IB_ZERO_BASED)
			return ERR_PTR(-EINVAL);
		flags |= IB_MR_REREG_TRANS;
		start = mr->umem->address;
		length = mr->umem->length;
		virt = ibmr->iova;
	}

	in.rereg = flags;
	in.access = cpu_to_le16(hw_access);
	in.pdn = cpu_to_le32(to_ohca_pd(flags & IB_MR_REREG_PD ? ibpd : ibmr->pd)->pdn);
	if (flags & IB_MR_REREG_TRANS) {
		umem = ohca_mr_pin(dev, start, length, access);
		if (IS_ERR(umem))
			return ERR_CAST(umem);
		ret = ohca_mr_describe(dev, &in, &pl, umem, length, virt, access);
		if (ret) {
			ohca_umem_release(dev, umem);
			return ERR_PTR(ret);
		}
	}
	ret = ohca_cmd_reg_mr(dev, OHCA_CMD_REREG_MR, &in, &key);
	ohca_pl_free(dev, &pl);
	if (ret) {
		ohca_umem_release(dev, umem);
		return ERR_PTR(ret);
	}
	if (umem) {
		ohca_umem_release(dev, mr->umem);
		mr->umem = umem;
		ibmr->iova = le64_to_cpu(in.iova);
		ibmr->length = length;
	}
	mr->access = access;
	ohca_mr_set_key(mr, key);
	return NULL;
}

/** ohca_reg_dm_mr - ib_device_ops.reg_dm_mr; the core has checked offset and length */
struct ib_mr *ohca_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm, struct ib_dm_mr_attr *attr,
			     struct uverbs_attr_bundle *attrs)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	struct ohca_cmd_reg_mr in = {
		.length = cpu_to_le64(attr->length),
		.pdn = cpu_to_le32(to_ohca_pd(ibpd)->pdn),
		.pl_offset = cpu_to_le32(attr->offset),
		.type = OHCA_MR_DM,
		.dm = cpu_to_le32(to_ohca_dm(ibdm)->mmap->num),
	};
	struct ohca_mr *mr;
	u16 hw_access;
	int ret;

	/* device memory is never paged, and is not persistent */
	if (attr->access_flags & (IB_ACCESS_ON_DEMAND | IB_ACCESS_FLUSH_PERSISTENT))
		return ERR_PTR(-EINVAL);
	ret = ohca_mr_access(dev, attr->access_flags, &hw_access);
	if (ret)
		return ERR_PTR(ret);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	in.access = cpu_to_le16(hw_access);
	mr->access = attr->access_flags;
	ret = ohca_mr_register(dev, mr, &in);
	if (ret) {
		kfree(mr);
		return ERR_PTR(ret);
	}
	mr->ibmr.length = attr->length;
	return &mr->ibmr;
}

/**
 * ohca_mr_hw_dereg - deregister a region in the device
 * @dev: the device
 * @ibmr: the region
 *
 * The device refuses with BUSY while windows are bound to the region (IBTA vol 1, 10.6.7.2.4).
 * If the PD had no window during the command, BUSY is an error of the device, which is reset.
 * Process context.
 * Return: 0: the device does not use the region any more; -EBUSY: the region is unchanged.
 */
VISIBLE_IF_KUNIT int ohca_mr_hw_dereg(struct ohca_dev *dev, const struct ib_mr *ibmr)
{
	struct ohca_pd *pd = to_ohca_pd(ibmr->pd);
	int made = atomic_read(&pd->windows_made);
	bool windows = atomic_read(&pd->windows);
	int ret;

	ret = ohca_cmd_handle(dev, OHCA_CMD_DEREG_MR, ibmr->lkey);
	if (ret == -EBUSY && (windows || atomic_read(&pd->windows_made) != made))
		return ret;
	if (ret)
		ohca_fatal(dev, "the device did not destroy a memory region");
	return 0;
}

/**
 * ohca_dereg_mr - ib_device_ops.dereg_mr
 * @ibmr: any region
 * @udata: not used
 *
 * Process context.
 * Return: 0, or -EBUSY if windows are bound to the region; it is unchanged then.
 */
int ohca_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct ohca_dev *dev = to_ohca_dev(ibmr->device);
	struct ohca_mr *mr = to_ohca_mr(ibmr);
	bool paged = ohca_has_odp(dev) && mr->paged;
	int ret;

	if (paged)
		ohca_paged_dereg_begin(mr->paged);
	ret = ohca_mr_hw_dereg(dev, ibmr);
	if (ret) {
		if (paged)
			ohca_paged_dereg_abort(mr->paged);
		return ret;
	}
	if (paged)
		ohca_paged_dereg_finish(mr->paged);
	ohca_umem_release(dev, mr->umem);
	ohca_pl_free(dev, &mr->pl);
	kfree(mr);
	return 0;
}

/** ohca_alloc_mr - ib_device_ops.alloc_mr: a region that IB_WR_REG_MR fills */
struct ib_mr *ohca_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	struct ohca_cmd_reg_mr in = {
		.length = cpu_to_le64(max_num_sg),
		.pdn = cpu_to_le32(to_ohca_pd(ibpd)->pdn),
		.type = OHCA_MR_FRMR,
	};
	struct ohca_mr *mr;
	int ret;

	if (type != IB_MR_TYPE_MEM_REG || !ohca_has(dev, OHCA_FEATURE_FRMR))
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > le32_to_cpu(dev->attr.max_frmr_pages))
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	ret = ohca_pl_alloc(dev, &mr->pl, max_num_sg);
	if (ret)
		goto err_free;
	ret = ohca_mr_register(dev, mr, &in);
	if (ret)
		goto err_pl;
	return &mr->ibmr;

err_pl:
	ohca_pl_free(dev, &mr->pl);
err_free:
	kfree(mr);
	return ERR_PTR(ret);
}

static int ohca_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct ohca_mr *mr = to_ohca_mr(ibmr);

	if (mr->npages >= mr->pl.capacity)
		return -ENOMEM;
	ohca_pl_set(&mr->pl, mr->npages++, addr);
	return 0;
}

/** ohca_map_mr_sg - ib_device_ops.map_mr_sg; needs no sync, because tables are coherent memory */
int ohca_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents, unsigned int *offset)
{
	struct ohca_mr *mr = to_ohca_mr(ibmr);
	int ret;

	if (!is_power_of_2(ibmr->page_size) ||
	    !(ohca_page_sizes(to_ohca_dev(ibmr->device)) & ibmr->page_size))
		return -EINVAL;
	mr->npages = 0;
	ret = ib_sg_to_pages(ibmr, sg, nents, offset, ohca_set_page);
	if (ret > 0 && mr->npages)
		ohca_pl_finish(&mr->pl, mr->npages, ilog2(ibmr->page_size));
	return ret;
}

/** ohca_alloc_mw - ib_device_ops.alloc_mw */
int ohca_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct ohca_pd *pd = to_ohca_pd(ibmw->pd);
	struct ohca_cmd_reg_mr in = { .pdn = cpu_to_le32(pd->pdn) };
	int ret = ohca_udata_none(udata);

	if (ret)
		return ret;
	if (!ohca_has(to_ohca_dev(ibmw->device), OHCA_FEATURE_MW))
		return -EOPNOTSUPP;
	switch (ibmw->type) {
	case IB_MW_TYPE_1:
		in.type = OHCA_MR_MW1;
		break;
	case IB_MW_TYPE_2:
		in.type = OHCA_MR_MW2;
		break;
	default:
		return -EINVAL;
	}
	/* before the window can be bound: see ohca_mr_hw_dereg() */
	atomic_inc(&pd->windows);
	atomic_inc(&pd->windows_made);
	ret = ohca_cmd_reg_mr(to_ohca_dev(ibmw->device), OHCA_CMD_REG_MR, &in, &ibmw->rkey);
	if (ret)
		atomic_dec(&pd->windows);
	return ret;
}

/**
 * ohca_dealloc_mw - ib_device_ops.dealloc_mw
 * @ibmw: the window
 *
 * A bind may have changed the tag of the key; the device uses only the index. Process context.
 * Return: 0.
 */
int ohca_dealloc_mw(struct ib_mw *ibmw)
{
	ohca_cmd_destroy(to_ohca_dev(ibmw->device), OHCA_CMD_DEREG_MR, ibmw->rkey);
	atomic_dec(&to_ohca_pd(ibmw->pd)->windows);
	return 0;
}
