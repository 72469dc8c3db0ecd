// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions in a dma-buf. If the device has on-demand paging and the kernel has
 * CONFIG_DMABUF_MOVE_NOTIFY, the exporter may move or revoke the buffer; otherwise the driver
 * pins it. After a move the next access faults and maps the buffer again. If the exporter
 * refuses to map it, the access fails, and the region stays unusable until it is deregistered.
 *
 * No attachment allows peer-to-peer: the device accesses host memory only, not the BARs of other
 * functions, and the driver cannot recognize a BAR by its bus address. So an exporter moves its
 * buffer to host memory when the buffer is attached or pinned. If it cannot do that it refuses, and
 * the registration fails, not a later access. ib_umem_dmabuf_get_pinned() allows peer-to-peer, so
 * this file pins buffers itself.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "buf.h"
#include "compat.h"
#include "dev.h"
#include "mr.h"
#include "paged.h"

/* Sets all pages of a mapped buffer in the device. Under the reservation lock of the buffer. */
static int ohca_dmabuf_set(struct ohca_paged *p, __le64 *pages)
{
	u64 rights = OHCA_ODP_READ | (p->writable ? OHCA_ODP_WRITE : 0);
	u64 va = ALIGN_DOWN(p->start, PAGE_SIZE);
	struct ib_block_iter iter;
	int ret = 0;
	u32 n = 0;

	rdma_umem_for_each_dma_block(p->umem, &iter, PAGE_SIZE) {
		pages[n++] = cpu_to_le64(rdma_block_iter_dma_address(&iter) | rights);
		if (n < OHCA_ODP_BATCH)
			continue;
		ret = ohca_paged_set(p, va, pages, n);
		if (ret)
			return ret;
		va += (u64)n * PAGE_SIZE;
		n = 0;
	}
	return n ? ohca_paged_set(p, va, pages, n) : 0;
}

static int ohca_dmabuf_populate(struct ohca_paged *p, u64 va, u64 len, enum ohca_want want)
{
	struct ib_umem_dmabuf *umem = to_ib_umem_dmabuf(p->umem);
	struct dma_resv *resv = umem->attach->dmabuf->resv;
	__le64 *pages;
	int ret;

	pages = kmalloc_array(OHCA_ODP_BATCH, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	dma_resv_lock(resv, NULL);
	ret = ib_umem_dmabuf_map_pages(umem);
	if (!ret)
		ret = ohca_dmabuf_set(p, pages);
	dma_resv_unlock(resv);
	kfree(pages);
	return ret;
}

static void ohca_dmabuf_release(struct ohca_paged *p)
{
	ib_umem_release(p->umem);
}

static const struct ohca_paged_ops ohca_dmabuf_paged_ops = {
	.populate = ohca_dmabuf_populate,
	.release = ohca_dmabuf_release,
};

/*
 * dma_buf_attach_ops.invalidate_mappings: the exporter is about to move the buffer. It must not do
 * so with a pinned buffer. Under the reservation lock of the buffer.
 */
static void ohca_dmabuf_invalidate(struct dma_buf_attachment *attach)
{
	struct ib_umem_dmabuf *umem = attach->importer_priv;
	struct ohca_paged *p = umem->private;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (umem->pinned)
		ibdev_warn_ratelimited(umem->umem.ibdev, "the exporter moves a pinned dma-buf\n");
	/* no page is set in the device before the first mapping, or without on-demand paging */
	if (!ohca_has_odp(to_ohca_dev(umem->umem.ibdev)) || !umem->sgt || !p)
		return;
	ohca_paged_invalidate(p, p->start, ib_umem_num_pages(p->umem));
	ib_umem_dmabuf_unmap_pages(umem);
}

static const struct dma_buf_attach_ops ohca_dmabuf_ops = {
#ifdef OHCA_HAVE_INVALIDATE_MAPPINGS
	.invalidate_mappings = ohca_dmabuf_invalidate,
#else
	.move_notify = ohca_dmabuf_invalidate,
#endif
};

static struct ib_mr *ohca_dmabuf_dynamic(struct ib_pd *ibpd, u64 offset, u64 length, u64 virt,
					 int fd, int access)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	struct ib_umem_dmabuf *umem;
	struct ohca_paged *p;
	struct ib_mr *mr;
	int ret;

	umem = ib_umem_dmabuf_get(&dev->ibdev, offset, length, fd, access, &ohca_dmabuf_ops);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	umem->umem.iova = offset;
	mr = ERR_PTR(-ENOMEM);
	p = ohca_paged_alloc(dev, access & IB_ZERO_BASED ? 0 : virt, offset, length, PAGE_SHIFT,
			     access, &ohca_dmabuf_paged_ops);
	if (!p)
		goto err;
	umem->private = p;
	p->umem = &umem->umem;
	mr = ohca_paged_register(p, ibpd, access);
	if (IS_ERR(mr))
		goto err;
	/* map now: if that is impossible the registration fails, not a later access */
	ret = ohca_dmabuf_populate(p, offset, length, OHCA_WANT_WRITE);
	if (!ret)
		return mr;
	ohca_paged_dereg_begin(p);
	ohca_cmd_destroy(dev, OHCA_CMD_DEREG_MR, p->key);
	ohca_paged_dereg_finish(p);
	kfree(to_ohca_mr(mr));
	return ERR_PTR(ret);

err:
	ib_umem_release(&umem->umem);
	kfree(p);
	return mr;
}

/* Attaches a buffer, pins it and maps it. Returns its umem, or an error pointer. */
static struct ib_umem_dmabuf *ohca_dmabuf_pin(struct ohca_dev *dev, u64 offset, u64 length, int fd,
					      int access)
{
	struct ib_umem_dmabuf *umem;
	struct dma_resv *resv;
	int ret;

	umem = ib_umem_dmabuf_get(&dev->ibdev, offset, length, fd, access, &ohca_dmabuf_ops);
	if (IS_ERR(umem))
		return umem;
	resv = umem->attach->dmabuf->resv;
	dma_resv_lock(resv, NULL);
	ret = dma_buf_pin(umem->attach);
	if (!ret) {
		/* ib_umem_release() unpins it */
		umem->pinned = 1;
		ret = ib_umem_dmabuf_map_pages(umem);
	}
	dma_resv_unlock(resv);
	if (!ret)
		return umem;
	ib_umem_release(&umem->umem);
	return ERR_PTR(ret);
}

/**
 * ohca_reg_user_mr_dmabuf - ib_device_ops.reg_user_mr_dmabuf
 * @ibpd: protection domain
 * @offset: offset of the region in the buffer
 * @length: bytes
 * @virt: address for the device
 * @fd: file descriptor of the buffer
 * @access: enum ib_access_flags
 * @dmah: NULL: hints of DMA handles are not supported
 * @attrs: attributes of the call, not used
 *
 * Consumers call this without a buffer and with length 0 to detect whether a device supports the
 * operation. They expect the errno of the bad @fd, so @fd is checked before @length.
 *
 * Process context.
 * Return: the region, or an error pointer: -EBADF if @fd is no open file, -EINVAL if it is no
 * dma-buf or @length is out of range, -EOPNOTSUPP for unsupported @dmah or @access.
 */
struct ib_mr *ohca_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 virt, int fd,
				      int access, struct ib_dmah *dmah,
				      struct uverbs_attr_bundle *attrs)
{
	struct ohca_dev *dev = to_ohca_dev(ibpd->device);
	struct ib_umem_dmabuf *umem;

	if (!length || length > le64_to_cpu(dev->attr.max_mr_size)) {
		struct dma_buf *dmabuf = dma_buf_get(fd);

		if (IS_ERR(dmabuf))
			return ERR_CAST(dmabuf);
		dma_buf_put(dmabuf);
		return ERR_PTR(-EINVAL);
	}
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	if (access & (IB_ACCESS_ON_DEMAND | IB_ACCESS_FLUSH_PERSISTENT))
		return ERR_PTR(-EOPNOTSUPP);
	if (ohca_has_odp(dev))
		return ohca_dmabuf_dynamic(ibpd, offset, length, virt, fd, access);
	umem = ohca_dmabuf_pin(dev, offset, length, fd, access);
	if (IS_ERR(umem))
		return ERR_CAST(umem);
	return ohca_reg_umem(ibpd, &umem->umem, length, virt, access);
}

/* not MODULE_IMPORT_NS(), whose argument is a string in some kernels and an identifier in others */
MODULE_INFO(import_ns, "DMA_BUF");
