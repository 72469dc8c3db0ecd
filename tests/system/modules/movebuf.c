// SPDX-License-Identifier: GPL-2.0
/*
 * An exporter of DMA-BUFs for tests of importers: it moves and revokes a buffer on request, as
 * drivers of GPUs do when memory is short or a client exits.
 *
 * Removed pages are filled with a pattern and kept until the next move. If the pattern has changed
 * then, an importer has written to pages that it no longer had. The reservation lock of a buffer
 * protects all its state.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "compat.h"
#include "movebuf.h"

#define MOVEBUF_POISON	0xd5

/**
 * struct movebuf - a buffer
 * @npages: its size
 * @pages: its current pages; NULL: it is revoked
 * @old: its earlier pages, filled with MOVEBUF_POISON; NULL: none
 * @pins: importers that have pinned it
 * @mapped: mappings of importers
 * @maps: mappings since it was created
 * @refused: mappings and pins refused since it was revoked
 * @moves: moves since it was created
 * @stray: pages of @old that were written
 * @peers: importers that would accept memory behind a BAR
 */
struct movebuf {
	u32 npages;
	struct page **pages;
	struct page **old;
	u32 pins;
	u32 mapped;
	u64 maps;
	u64 refused;
	u64 moves;
	u64 stray;
	u64 peers;
};

/* ---- pages ---- */

static void movebuf_pages_free(struct page **pages, u32 n)
{
	u32 i;

	if (!pages)
		return;
	for (i = 0; i < n && pages[i]; i++)
		__free_page(pages[i]);
	kvfree(pages);
}

static struct page **movebuf_pages_alloc(u32 n)
{
	struct page **pages = kvcalloc(n, sizeof(*pages), GFP_KERNEL);
	u32 i;

	for (i = 0; pages && i < n; i++) {
		pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!pages[i]) {
			movebuf_pages_free(pages, i);
			pages = NULL;
		}
	}
	return pages;
}

/* Frees the pages of before the last move, and checks that they are unchanged. */
static void movebuf_old_free(struct movebuf *mb)
{
	u32 i;

	for (i = 0; mb->old && i < mb->npages; i++) {
		void *at = kmap_local_page(mb->old[i]);

		if (memchr_inv(at, MOVEBUF_POISON, PAGE_SIZE))
			mb->stray++;
		kunmap_local(at);
	}
	movebuf_pages_free(mb->old, mb->npages);
	mb->old = NULL;
}

/* ---- called by importers ---- */

static int movebuf_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct movebuf *mb = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	mb->peers += attach->peer2peer;
	dma_resv_unlock(dmabuf->resv);
	return 0;
}

static int movebuf_pin(struct dma_buf_attachment *attach)
{
	struct movebuf *mb = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (!mb->pages) {
		mb->refused++;
		return -ENODEV;
	}
	mb->pins++;
	return 0;
}

static void movebuf_unpin(struct dma_buf_attachment *attach)
{
	struct movebuf *mb = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	mb->pins--;
}

static struct sg_table *movebuf_map(struct dma_buf_attachment *attach,
				    enum dma_data_direction dir)
{
	struct movebuf *mb = attach->dmabuf->priv;
	struct sg_table *sgt;
	int ret;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (!mb->pages) {
		mb->refused++;
		return ERR_PTR(-ENODEV);
	}
	sgt = kzalloc(sizeof(*sgt), GFP_KERNEL);
	if (!sgt)
		return ERR_PTR(-ENOMEM);
	ret = sg_alloc_table_from_pages(sgt, mb->pages, mb->npages, 0,
					(size_t)mb->npages << PAGE_SHIFT, GFP_KERNEL);
	if (ret)
		goto err_free;
	ret = dma_map_sgtable(attach->dev, sgt, dir, 0);
	if (ret)
		goto err_table;
	mb->mapped++;
	mb->maps++;
	return sgt;

err_table:
	sg_free_table(sgt);
err_free:
	kfree(sgt);
	return ERR_PTR(ret);
}

static void movebuf_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			  enum dma_data_direction dir)
{
	struct movebuf *mb = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	mb->mapped--;
	dma_unmap_sgtable(attach->dev, sgt, dir, 0);
	sg_free_table(sgt);
	kfree(sgt);
}

static void movebuf_release(struct dma_buf *dmabuf)
{
	struct movebuf *mb = dmabuf->priv;

	WARN_ON(mb->pins || mb->mapped);
	movebuf_old_free(mb);
	WARN_ON(mb->stray);
	movebuf_pages_free(mb->pages, mb->npages);
	kfree(mb);
}

static vm_fault_t movebuf_fault(struct vm_fault *vmf)
{
	struct dma_buf *dmabuf = vmf->vma->vm_private_data;
	struct movebuf *mb = dmabuf->priv;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	dma_resv_lock(dmabuf->resv, NULL);
	if (mb->pages && vmf->pgoff < mb->npages)
		ret = vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(mb->pages[vmf->pgoff]));
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

static const struct vm_operations_struct movebuf_vm_ops = {
	.fault = movebuf_fault,
};

static int movebuf_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vma->vm_ops = &movebuf_vm_ops;
	vma->vm_private_data = dmabuf;
	vm_flags_set(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
}

static const struct dma_buf_ops movebuf_dmabuf_ops = {
	.attach = movebuf_attach,
	.pin = movebuf_pin,
	.unpin = movebuf_unpin,
	.map_dma_buf = movebuf_map,
	.unmap_dma_buf = movebuf_unmap,
	.release = movebuf_release,
	.mmap = movebuf_mmap,
};

/* ---- called by the test ---- */

static int movebuf_create(u32 npages)
{
	DEFINE_DMA_BUF_EXPORT_INFO(exp);
	struct dma_buf *dmabuf;
	struct movebuf *mb;
	int fd;

	if (!npages || npages > MOVEBUF_MAX_PAGES)
		return -EINVAL;
	mb = kzalloc(sizeof(*mb), GFP_KERNEL);
	if (!mb)
		return -ENOMEM;
	mb->npages = npages;
	mb->pages = movebuf_pages_alloc(npages);
	if (!mb->pages) {
		kfree(mb);
		return -ENOMEM;
	}
	exp.ops = &movebuf_dmabuf_ops;
	exp.size = (size_t)npages << PAGE_SHIFT;
	exp.flags = O_RDWR;
	exp.priv = mb;
	dmabuf = dma_buf_export(&exp);
	if (IS_ERR(dmabuf)) {
		movebuf_pages_free(mb->pages, npages);
		kfree(mb);
		return PTR_ERR(dmabuf);
	}
	fd = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(dmabuf);
	return fd;
}

/* Removes the mappings of all importers: after this none uses the pages. */
static void movebuf_take(struct dma_buf *dmabuf)
{
	struct movebuf *mb = dmabuf->priv;

	unmap_mapping_range(dmabuf->file->f_mapping, 0, 0, 1);
	dma_buf_invalidate_mappings(dmabuf);
	WARN_ON(mb->mapped);
}

/* Sets the buffer's pages to @pages; NULL: it has none. */
static void movebuf_put_at(struct movebuf *mb, struct page **pages)
{
	u32 i;

	movebuf_old_free(mb);
	for (i = 0; i < mb->npages; i++) {
		void *at = kmap_local_page(mb->pages[i]);

		if (pages)
			memcpy_to_page(pages[i], 0, at, PAGE_SIZE);
		memset(at, MOVEBUF_POISON, PAGE_SIZE);
		kunmap_local(at);
	}
	mb->old = mb->pages;
	mb->pages = pages;
}

static int movebuf_move(struct dma_buf *dmabuf)
{
	struct movebuf *mb = dmabuf->priv;
	struct page **pages = movebuf_pages_alloc(mb->npages);
	int ret = 0;

	if (!pages)
		return -ENOMEM;
	dma_resv_lock(dmabuf->resv, NULL);
	if (!mb->pages)
		ret = -ENODEV;
	else if (mb->pins)
		ret = -EBUSY;
	if (!ret) {
		movebuf_take(dmabuf);
		movebuf_put_at(mb, pages);
		mb->moves++;
	}
	dma_resv_unlock(dmabuf->resv);
	if (ret)
		movebuf_pages_free(pages, mb->npages);
	return ret;
}

static int movebuf_revoke(struct dma_buf *dmabuf)
{
	struct movebuf *mb = dmabuf->priv;
	int ret = 0;

	dma_resv_lock(dmabuf->resv, NULL);
	if (!mb->pages) {
		ret = -ENODEV;
	} else if (mb->pins) {
		ret = -EBUSY;
	} else {
		movebuf_take(dmabuf);
		movebuf_put_at(mb, NULL);
	}
	dma_resv_unlock(dmabuf->resv);
	return ret;
}

static void movebuf_status(struct dma_buf *dmabuf, struct movebuf_status *st)
{
	struct movebuf *mb = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	st->pins = mb->pins;
	st->mapped = mb->mapped;
	st->revoked = !mb->pages;
	st->maps = mb->maps;
	st->refused = mb->refused;
	st->moves = mb->moves;
	st->stray = mb->stray;
	st->peers = mb->peers;
	dma_resv_unlock(dmabuf->resv);
}

static struct dma_buf *movebuf_get(s32 fd)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);

	if (!IS_ERR(dmabuf) && dmabuf->ops != &movebuf_dmabuf_ops) {
		dma_buf_put(dmabuf);
		dmabuf = ERR_PTR(-EINVAL);
	}
	return dmabuf;
}

static long movebuf_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	void __user *at = (void __user *)arg;
	struct movebuf_status st = {};
	struct dma_buf *dmabuf;
	u32 npages;
	int ret;

	switch (cmd) {
	case MOVEBUF_CREATE:
		if (get_user(npages, (u32 __user *)at))
			return -EFAULT;
		return movebuf_create(npages);
	case MOVEBUF_MOVE:
	case MOVEBUF_REVOKE:
		if (get_user(st.fd, (s32 __user *)at))
			return -EFAULT;
		break;
	case MOVEBUF_STATUS:
		if (copy_from_user(&st, at, sizeof(st)))
			return -EFAULT;
		break;
	default:
		return -ENOTTY;
	}
	dmabuf = movebuf_get(st.fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	if (cmd == MOVEBUF_STATUS) {
		movebuf_status(dmabuf, &st);
		ret = copy_to_user(at, &st, sizeof(st)) ? -EFAULT : 0;
	} else {
		ret = cmd == MOVEBUF_MOVE ? movebuf_move(dmabuf) : movebuf_revoke(dmabuf);
	}
	dma_buf_put(dmabuf);
	return ret;
}

static const struct file_operations movebuf_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = movebuf_ioctl,
};

static struct miscdevice movebuf_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "movebuf",
	.fops = &movebuf_fops,
	.mode = 0600,
};
module_misc_device(movebuf_misc);

MODULE_IMPORT_NS(TEST_DMA_BUF_NS);
MODULE_DESCRIPTION("DMA-BUFs that move and are revoked, for tests");
MODULE_LICENSE("GPL");
