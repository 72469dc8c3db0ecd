// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory that the device accesses: kernel queue buffers, pinned user memory, and the
 * page lists that describe both.
 */
#include <linux/dma-mapping.h>
#include <linux/slab.h>
#include <kunit/visibility.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "buf.h"
#include "compat.h"
#include "dev.h"

#define OHCA_PL_BATCH	65536	/* pages between two calls of cond_resched() */

/**
 * ohca_buf_alloc - allocate zeroed queue memory
 * @dev: the device
 * @buf: set on success
 * @size: bytes
 *
 * Allocates contiguous memory if possible, else single pages. Process context.
 * Return: 0 or -ENOMEM.
 */
int ohca_buf_alloc(struct ohca_dev *dev, struct ohca_buf *buf, size_t size)
{
	struct device *dma = &dev->pdev->dev;
	u32 i;

	memset(buf, 0, sizeof(*buf));
	buf->size = PAGE_ALIGN(size);
	buf->direct = dma_alloc_coherent(dma, buf->size, &buf->dma,
					 GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
	if (buf->direct)
		return 0;

	buf->npages = buf->size >> PAGE_SHIFT;
	buf->pages = kvcalloc(buf->npages, sizeof(*buf->pages), GFP_KERNEL);
	buf->page_dma = kvcalloc(buf->npages, sizeof(*buf->page_dma), GFP_KERNEL);
	if (!buf->pages || !buf->page_dma)
		goto err;
	for (i = 0; i < buf->npages; i++) {
		buf->pages[i] = dma_alloc_coherent(dma, PAGE_SIZE, &buf->page_dma[i], GFP_KERNEL);
		if (!buf->pages[i])
			goto err;
	}
	return 0;

err:
	ohca_buf_free(dev, buf);
	return -ENOMEM;
}

/**
 * ohca_buf_free - free queue memory that the device no longer uses
 * @dev: the device
 * @buf: buffer, or all zero
 */
void ohca_buf_free(struct ohca_dev *dev, struct ohca_buf *buf)
{
	struct device *dma = &dev->pdev->dev;
	u32 i;

	if (ohca_is_wedged(dev))
		return;
	if (buf->direct)
		dma_free_coherent(dma, buf->size, buf->direct, buf->dma);
	for (i = 0; buf->pages && buf->page_dma && i < buf->npages && buf->pages[i]; i++)
		dma_free_coherent(dma, PAGE_SIZE, buf->pages[i], buf->page_dma[i]);
	kvfree(buf->pages);
	kvfree(buf->page_dma);
	memset(buf, 0, sizeof(*buf));
}

/** ohca_pl_levels - levels of tables that a list of @npages needs; 4: the list is too long */
VISIBLE_IF_KUNIT u32 ohca_pl_levels(u64 npages)
{
	u32 levels = 0;
	u64 reach = 1;

	while (reach < npages && levels <= OHCA_PL_MAX_LEVELS) {
		reach *= OHCA_PL_TABLE_ENTRIES;
		levels++;
	}
	return levels;
}

/** ohca_pl_tables - tables of all levels that a list of @npages needs */
VISIBLE_IF_KUNIT u32 ohca_pl_tables(u64 npages)
{
	u32 level, levels = ohca_pl_levels(npages), total = 0;
	u64 n = npages;

	for (level = 0; level < levels; level++) {
		n = DIV_ROUND_UP_ULL(n, OHCA_PL_TABLE_ENTRIES);
		total += n;
	}
	return total;
}

/**
 * ohca_pl_link - write the addresses of tables into the tables of the next higher level
 * @pl: list with its tables allocated
 */
VISIBLE_IF_KUNIT void ohca_pl_link(struct ohca_pl *pl)
{
	u32 n = DIV_ROUND_UP(pl->capacity, OHCA_PL_TABLE_ENTRIES);
	u32 below = 0, first = n, i;

	while (first < pl->ntables) {
		for (i = 0; i < n; i++) {
			struct ohca_table *up = &pl->tables[first + i / OHCA_PL_TABLE_ENTRIES];

			up->va[i % OHCA_PL_TABLE_ENTRIES] = cpu_to_le64(pl->tables[below + i].dma);
		}
		below = first;
		n = DIV_ROUND_UP(n, OHCA_PL_TABLE_ENTRIES);
		first += n;
	}
}

/**
 * ohca_pl_alloc_tables - allocate memory for the tables of a page list
 * @dma: device that reads them
 * @pl: list with @ntables and @per_piece; @tables are set
 *
 * dma_alloc_coherent() returns whole pages, so several tables share a page that is larger than a
 * table. A pool would keep the memory of a large registration after it is freed. Process context.
 * Return: 0, or -ENOMEM: ohca_pl_free_tables() frees the tables that were allocated.
 */
VISIBLE_IF_KUNIT int ohca_pl_alloc_tables(struct device *dma, struct ohca_pl *pl)
{
	struct ohca_table piece = {};
	u32 i;

	pl->tables = kvcalloc(pl->ntables, sizeof(*pl->tables), GFP_KERNEL);
	if (!pl->tables)
		return -ENOMEM;
	for (i = 0; i < pl->ntables; i++) {
		size_t off = i % pl->per_piece * OHCA_PL_TABLE_SIZE;

		if (!off) {
			piece.va = dma_alloc_coherent(dma, pl->per_piece * OHCA_PL_TABLE_SIZE,
						      &piece.dma, GFP_KERNEL);
			if (!piece.va)
				return -ENOMEM;
			cond_resched();
		}
		pl->tables[i].va = (void *)piece.va + off;
		pl->tables[i].dma = piece.dma + off;
	}
	return 0;
}

/** ohca_pl_free_tables - free the tables that ohca_pl_alloc_tables() has allocated */
VISIBLE_IF_KUNIT void ohca_pl_free_tables(struct device *dma, struct ohca_pl *pl)
{
	u32 i;

	for (i = 0; pl->tables && i < pl->ntables && pl->tables[i].va; i += pl->per_piece)
		dma_free_coherent(dma, pl->per_piece * OHCA_PL_TABLE_SIZE, pl->tables[i].va,
				  pl->tables[i].dma);
	kvfree(pl->tables);
}

/**
 * ohca_pl_alloc - allocate the tables of a page list
 * @dev: the device
 * @pl: set on success
 * @capacity: largest number of pages that it will list
 *
 * Process context.
 * Return: 0, -ENOMEM, or -E2BIG if three levels are too few.
 */
int ohca_pl_alloc(struct ohca_dev *dev, struct ohca_pl *pl, u64 capacity)
{
	memset(pl, 0, sizeof(*pl));
	if (!capacity || ohca_pl_levels(capacity) > OHCA_PL_MAX_LEVELS)
		return -E2BIG;
	pl->capacity = capacity;
	pl->ntables = ohca_pl_tables(capacity);
	if (!pl->ntables)
		return 0;
	pl->per_piece = PAGE_SIZE / OHCA_PL_TABLE_SIZE;
	if (ohca_pl_alloc_tables(&dev->pdev->dev, pl)) {
		ohca_pl_free(dev, pl);
		return -ENOMEM;
	}
	ohca_pl_link(pl);
	return 0;
}

/**
 * ohca_pl_free - free the tables of a page list that the device no longer reads
 * @dev: the device
 * @pl: the list, or all zero
 */
void ohca_pl_free(struct ohca_dev *dev, struct ohca_pl *pl)
{
	if (ohca_is_wedged(dev))
		return;
	ohca_pl_free_tables(&dev->pdev->dev, pl);
	memset(pl, 0, sizeof(*pl));
}

/**
 * ohca_pl_set - set one page address
 * @pl: the list
 * @i: index of the page, below the capacity
 * @addr: bus address
 *
 * Any context.
 */
void ohca_pl_set(struct ohca_pl *pl, u32 i, u64 addr)
{
	if (pl->ntables)
		pl->tables[i / OHCA_PL_TABLE_ENTRIES].va[i % OHCA_PL_TABLE_ENTRIES] =
			cpu_to_le64(addr);
	if (!i)
		pl->hw.root = cpu_to_le64(addr);
}

/**
 * ohca_pl_finish - compute ohca_pl.hw
 * @pl: list with its addresses set
 * @npages: pages set, from 1 to its capacity
 * @page_shift: log2 of their size
 *
 * Uses only the levels that @npages needs: if these are fewer than the capacity needs, the first
 * table of a lower level is the root. Any context.
 */
void ohca_pl_finish(struct ohca_pl *pl, u32 npages, u32 page_shift)
{
	u32 levels = ohca_pl_levels(npages);
	u32 n = pl->capacity, root = 0, level;

	pl->hw.npages = cpu_to_le32(npages);
	pl->hw.page_shift = page_shift;
	pl->hw.levels = levels;
	if (!levels) {
		if (pl->ntables)
			pl->hw.root = pl->tables[0].va[0];
		return;
	}
	for (level = 1; level < levels; level++) {
		n = DIV_ROUND_UP(n, OHCA_PL_TABLE_ENTRIES);
		root += n;
	}
	pl->hw.root = cpu_to_le64(pl->tables[root].dma);
}

static void ohca_pl_contiguous(struct ohca_pl *pl, u64 addr, u32 npages, u32 page_shift)
{
	memset(pl, 0, sizeof(*pl));
	pl->hw.root = cpu_to_le64(addr);
	pl->hw.npages = cpu_to_le32(npages);
	pl->hw.page_shift = page_shift;
}

/**
 * ohca_pl_from_buf - page list of a kernel buffer
 * @dev: the device
 * @pl: set on success; ohca_pl_free() after the command
 * @buf: the buffer
 *
 * Process context. Return: 0 or a negative errno, as ohca_pl_alloc().
 */
int ohca_pl_from_buf(struct ohca_dev *dev, struct ohca_pl *pl, const struct ohca_buf *buf)
{
	u32 i;
	int ret;

	if (buf->direct) {
		ohca_pl_contiguous(pl, buf->dma, buf->size >> PAGE_SHIFT, PAGE_SHIFT);
		return 0;
	}
	ret = ohca_pl_alloc(dev, pl, buf->npages);
	if (ret)
		return ret;
	for (i = 0; i < buf->npages; i++)
		ohca_pl_set(pl, i, buf->page_dma[i]);
	ohca_pl_finish(pl, buf->npages, PAGE_SHIFT);
	return 0;
}

/**
 * ohca_pl_from_umem - page list of pinned user memory
 * @dev: the device
 * @pl: set on success; ohca_pl_free() after the command
 * @umem: the memory
 * @pgsz: page size that ib_umem_find_best_pgsz() returned
 *
 * Process context. Return: 0, -E2BIG, -ENOMEM, or -EINVAL if the number of pages is inconsistent.
 */
int ohca_pl_from_umem(struct ohca_dev *dev, struct ohca_pl *pl, struct ib_umem *umem,
		      unsigned long pgsz)
{
	u64 npages = ib_umem_num_dma_blocks(umem, pgsz);
	struct ib_block_iter iter;
	bool contiguous = true;
	u64 first = 0, n = 0;
	int ret;

	if (!npages || npages > U32_MAX)
		return -E2BIG;
	rdma_umem_for_each_dma_block(umem, &iter, pgsz) {
		u64 addr = rdma_block_iter_dma_address(&iter);

		if (!n)
			first = addr;
		else if (addr != first + n * pgsz)
			contiguous = false;
		n++;
		if (!contiguous)
			break;
		if (!(n % OHCA_PL_BATCH))
			cond_resched();
	}
	if (contiguous && n == npages) {
		ohca_pl_contiguous(pl, first, npages, __ffs(pgsz));
		return 0;
	}

	ret = ohca_pl_alloc(dev, pl, npages);
	if (ret)
		return ret;
	n = 0;
	rdma_umem_for_each_dma_block(umem, &iter, pgsz) {
		if (n < npages)
			ohca_pl_set(pl, n, rdma_block_iter_dma_address(&iter));
		n++;
		if (!(n % OHCA_PL_BATCH))
			cond_resched();
	}
	if (WARN_ON_ONCE(n != npages)) {
		ohca_pl_free(dev, pl);
		return -EINVAL;
	}
	ohca_pl_finish(pl, npages, __ffs(pgsz));
	return 0;
}

/**
 * ohca_queue_pages - list the pages of a user queue's buffer
 * @dev: the device
 * @pl: set on success; ohca_pl_free() after the command
 * @umem: the buffer
 * @need: bytes that the queue needs
 *
 * Process context. Return: 0, -EINVAL if the buffer is too small or badly aligned, or -ENOMEM.
 */
int ohca_queue_pages(struct ohca_dev *dev, struct ohca_pl *pl, struct ib_umem *umem, u64 need)
{
	unsigned long pgsz;

	/* commands have no offset, so the queue must start at a page */
	if (umem->length < need || ib_umem_offset(umem))
		return -EINVAL;
	pgsz = ib_umem_find_best_pgoff(umem, ohca_page_sizes(dev), 0);
	if (!pgsz)
		return -EINVAL;
	return ohca_pl_from_umem(dev, pl, umem, pgsz);
}

/**
 * ohca_queue_umem - pin a user queue's buffer and list its pages
 * @dev: the device
 * @pl: set on success; ohca_pl_free() after the command
 * @umem: set on success; ohca_umem_release() after the queue is destroyed
 * @addr: address that the process passed
 * @size: bytes that the process passed
 * @need: bytes that the queue needs
 *
 * Process context of the owner.
 * Return: 0, -EINVAL if the buffer is too small or badly aligned, or the errno of pinning.
 */
int ohca_queue_umem(struct ohca_dev *dev, struct ohca_pl *pl, struct ib_umem **umem,
		    u64 addr, u64 size, u64 need)
{
	struct ib_umem *mem;
	int ret;

	if (size < need || !PAGE_ALIGNED(addr))
		return -EINVAL;
	mem = ib_umem_get_va(&dev->ibdev, addr, need, IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(mem))
		return PTR_ERR(mem);
	ret = ohca_queue_pages(dev, pl, mem, need);
	if (ret)
		ib_umem_release(mem);
	else
		*umem = mem;
	return ret;
}

/**
 * ohca_umem_release - unpin memory that the device no longer uses
 * @dev: the device
 * @umem: the memory, or NULL
 */
void ohca_umem_release(struct ohca_dev *dev, struct ib_umem *umem)
{
	if (umem && !ohca_is_wedged(dev))
		ib_umem_release(umem);
}

/**
 * ohca_udata_in - read a provider's request
 * @udata: from the core
 * @req: destination; bytes that the request does not have are set to zero
 * @size: bytes of the structure
 *
 * Return: 0, -EFAULT, or -EOPNOTSUPP if the request is longer and the excess is not zero.
 */
int ohca_udata_in(struct ib_udata *udata, void *req, size_t size)
{
	memset(req, 0, size);
	if (udata->inlen > size && !ib_is_udata_cleared(udata, size, udata->inlen - size))
		return -EOPNOTSUPP;
	return ib_copy_from_udata(req, udata, min(udata->inlen, size));
}

/** ohca_udata_none - check that a provider's request is empty. Return: 0, or -EOPNOTSUPP if not */
int ohca_udata_none(struct ib_udata *udata)
{
	if (udata && udata->inlen && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EOPNOTSUPP;
	return 0;
}

/** ohca_udata_out - copy a response to a provider: @size bytes, or fewer if it has no more room */
int ohca_udata_out(struct ib_udata *udata, void *resp, size_t size)
{
	return ib_copy_to_udata(udata, resp, min(udata->outlen, size));
}
