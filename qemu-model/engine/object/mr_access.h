/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Access by L_Key and R_Key: checks, and copying to and from memory that was checked. */
#ifndef OHCA_OBJECT_MR_ACCESS_H
#define OHCA_OBJECT_MR_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

struct ib_view;
struct ohca_atomic;
struct ohca_mr;
struct ohca_pd;
struct ohca_qp;
struct ohca_sge;

/**
 * struct ohca_missing - pages that an access needs that returned OHCA_MR_FAULT
 * @addr: first missing byte, an address of the region
 * @len: bytes of the access from there on
 * @key: key of the region
 * @write: the access writes
 */
struct ohca_missing {
	uint64_t addr;
	uint64_t len;
	uint32_t key;
	bool write;
};

/**
 * struct ohca_mr_range - checked permission for [addr, addr + len)
 *
 * Valid until the owner function that requested it returns: the next command may deregister the MR.
 * Work that lasts longer keeps the key and checks it again.
 */
struct ohca_mr_range {
	struct ohca_mr *mr;
	uint64_t off;		/* offset of addr in the MR's pages; DMA MR: bus address; DM MR:
				 * offset in the allocation of device memory */
	uint64_t len;
};

/*
 * Check an L_Key that @qp uses. @pd: the PD that the key must belong to (for a receive WQE
 * ohca_recv_pd()). @write: the access writes, which needs LOCAL_WRITE. 0 or vendor error
 */
int ohca_lkey_check(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t lkey, uint64_t addr, uint64_t len, bool write,
		    struct ohca_mr_range *r);
/*
 * Check an R_Key that @qp uses, for @access (one OHCA_ACCESS_REMOTE_*). @pd: the PD that the key
 * must belong to. 0 or vendor error. The caller does not check an access of 0 bytes, which is
 * always allowed (IBTA vol 1, 9.7.4.1.4).
 */
int ohca_rkey_check(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t rkey, uint64_t addr, uint64_t len, uint32_t access,
		    struct ohca_mr_range *r);
/* The same for all of the region or window. */
int ohca_rkey_whole(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t rkey, uint32_t access, struct ohca_mr_range *r);
/*
 * Copy @n bytes at @off of the range. 0; -1: the memory cannot be reached; OHCA_MR_FAULT: a page is
 * missing, see *@m. On failure any part may have been copied.
 */
#define OHCA_MR_FAULT	(-2)
int ohca_mr_read(ohca_engine *e, const struct ohca_mr_range *r, uint64_t off, void *buf, size_t n,
		 struct ohca_missing *m);
int ohca_mr_write(ohca_engine *e, const struct ohca_mr_range *r, uint64_t off, const void *buf,
		  size_t n, struct ohca_missing *m);
/* Copy all of @v to the start of the range; as ohca_mr_write() */
int ohca_mr_write_view(ohca_engine *e, const struct ohca_mr_range *r, const struct ib_view *v,
		       struct ohca_missing *m);
/* Add the first @n bytes of the range, for reading, to @v, as by ohca_dma_view() */
bool ohca_mr_view(ohca_engine *e, const struct ohca_mr_range *r, struct ib_view *v, size_t n);
/*
 * Execute an atomic operation on the first 8 bytes of the range (ohca_atomic_do()). *@old: the
 * previous value. 0; -1: no such memory, or not aligned; OHCA_MR_FAULT: *@m.
 */
int ohca_mr_atomic(ohca_engine *e, const struct ohca_mr_range *r, const struct ohca_atomic *a,
		   uint64_t *old, struct ohca_missing *m);
/*
 * Write the first 8 bytes of the range atomically. 0; -1: no such memory, or not aligned;
 * OHCA_MR_FAULT: *@m.
 */
int ohca_mr_write8(ohca_engine *e, const struct ohca_mr_range *r, const void *buf,
		   struct ohca_missing *m);
/*
 * List memory of the range that can be persistent, from byte *@done on, as at most @max stretches
 * of bus addresses. Pages that follow each other are one stretch. *@done becomes the end of the
 * last one. Return: the number of stretches; 0: none is left.
 */
unsigned int ohca_mr_runs(ohca_engine *e, const struct ohca_mr_range *r, uint64_t *done,
			  struct ohca_run *run, unsigned int max);
/*
 * Gather: copy @len bytes of the SGE list of a send WQE, from byte @off of the message on, to @dst.
 * Scatter: copy @len bytes from @src to the SGE list, whose keys belong to @pd. Each call checks
 * every key that it uses. 0, vendor error or OHCA_MR_FAULT: *@m.
 */
int ohca_sgl_gather(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_sge *sge,
		    unsigned int num, uint32_t off, void *dst, uint32_t len,
		    struct ohca_missing *m);
int ohca_sgl_scatter(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		     const struct ohca_sge *sge, unsigned int num, uint32_t off, const void *src,
		     uint32_t len, struct ohca_missing *m);
/* Scatter all of @v; as ohca_sgl_scatter() */
int ohca_sgl_scatter_view(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
			  const struct ohca_sge *sge, unsigned int num, uint32_t off,
			  const struct ib_view *v, struct ohca_missing *m);
/*
 * Add the memory that ohca_sgl_gather() would copy to @v. False: as ohca_dma_view(), also if a key
 * is wrong.
 */
bool ohca_sgl_view(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_sge *sge,
		   unsigned int num, uint32_t off, struct ib_view *v, uint32_t len);

/**
 * struct ohca_stretch - mapped memory that a key gives access to; all zero: none
 * @p: host address
 * @addr, @len: its start, an address of the key, and bytes
 * @iova: bus address
 * @key: the key, which was checked
 *
 * Valid until another WQE or a command is executed, or the burst of DMA ends.
 */
struct ohca_stretch {
	uint8_t *p;
	uint64_t addr, len, iova;
	uint32_t key;
};

/*
 * Map the contiguous memory around @addr, for which @key has been checked, to *@s. @prot:
 * OHCA_DMA_READ or OHCA_DMA_WRITE. Return: false if the key names on-demand pages, device memory or
 * bus addresses, or the memory cannot be reached.
 */
bool ohca_stretch_find(ohca_engine *e, uint32_t key, uint64_t addr, int prot,
		       struct ohca_stretch *s);
/* Host address, in @s, of @n bytes at @addr of @key; NULL: they are not inside @s. */
static inline uint8_t *ohca_stretch_at(const struct ohca_stretch *s, uint32_t key, uint64_t addr,
				       uint32_t n)
{
	const uint64_t off = addr - s->addr;

	return s->p && key == s->key && off <= s->len && n <= s->len - off ? s->p + off : NULL;
}

#endif /* OHCA_OBJECT_MR_ACCESS_H */
