/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: memory that the device accesses, page lists, udata of requests; buf.c. */
#ifndef OHCA_BUF_H
#define OHCA_BUF_H

#include <linux/mm.h>
#include <linux/types.h>
#include <rdma/ib_umem.h>

#include "ohca_hw.h"

struct device;
struct ib_udata;
struct ohca_dev;

/**
 * struct ohca_buf - queue memory that the device reads and writes
 * @size: bytes
 * @direct: the memory if it is contiguous; else NULL
 * @dma: bus address of @direct
 * @npages: pages of PAGE_SIZE if it is not contiguous
 * @pages: CPU addresses of these pages
 * @page_dma: their bus addresses
 */
struct ohca_buf {
	size_t size;
	void *direct;
	dma_addr_t dma;
	u32 npages;
	void **pages;
	dma_addr_t *page_dma;
};

/**
 * ohca_buf_at - CPU address of a byte of a buffer
 * @buf: the buffer
 * @off: offset in bytes, below its size; the caller must not access bytes beyond the page
 *
 * Any context. Return: the address.
 */
static inline void *ohca_buf_at(const struct ohca_buf *buf, size_t off)
{
	if (likely(buf->direct))
		return buf->direct + off;
	return buf->pages[off >> PAGE_SHIFT] + (off & ~PAGE_MASK);
}

/** struct ohca_table - one 4 KiB table of a page list */
struct ohca_table {
	__le64 *va;
	dma_addr_t dma;
};

/**
 * struct ohca_pl - a page list and its tables
 * @hw: the page list for the command or WQE
 * @capacity: pages for which there are tables
 * @ntables: entries of @tables
 * @per_piece: tables in each piece of memory; a piece is a page of the kernel
 * @tables: level 1 tables first, then level 2, then level 3
 */
struct ohca_pl {
	struct ohca_hw_pl hw;
	u32 capacity;
	u32 ntables;
	u32 per_piece;
	struct ohca_table *tables;
};

int ohca_buf_alloc(struct ohca_dev *dev, struct ohca_buf *buf, size_t size);
void ohca_buf_free(struct ohca_dev *dev, struct ohca_buf *buf);
int ohca_pl_alloc(struct ohca_dev *dev, struct ohca_pl *pl, u64 capacity);
void ohca_pl_set(struct ohca_pl *pl, u32 i, u64 addr);
void ohca_pl_finish(struct ohca_pl *pl, u32 npages, u32 page_shift);
void ohca_pl_free(struct ohca_dev *dev, struct ohca_pl *pl);
int ohca_pl_from_buf(struct ohca_dev *dev, struct ohca_pl *pl, const struct ohca_buf *buf);
int ohca_pl_from_umem(struct ohca_dev *dev, struct ohca_pl *pl, struct ib_umem *umem,
		      unsigned long pgsz);
int ohca_queue_pages(struct ohca_dev *dev, struct ohca_pl *pl, struct ib_umem *umem, u64 need);
int ohca_queue_umem(struct ohca_dev *dev, struct ohca_pl *pl, struct ib_umem **umem,
		    u64 addr, u64 size, u64 need);
void ohca_umem_release(struct ohca_dev *dev, struct ib_umem *umem);
int ohca_udata_in(struct ib_udata *udata, void *req, size_t size);
int ohca_udata_none(struct ib_udata *udata);
int ohca_udata_out(struct ib_udata *udata, void *resp, size_t size);
#if IS_ENABLED(CONFIG_KUNIT)
u32 ohca_pl_levels(u64 npages);
u32 ohca_pl_tables(u64 npages);
void ohca_pl_link(struct ohca_pl *pl);
int ohca_pl_alloc_tables(struct device *dma, struct ohca_pl *pl);
void ohca_pl_free_tables(struct device *dma, struct ohca_pl *pl);
#endif

#endif /* OHCA_BUF_H */
