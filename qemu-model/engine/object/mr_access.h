/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Access by L_Key and R_Key: the checks, and the copying that they allow. */
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

/** struct ohca_missing - the pages that an access needs which returned OHCA_MR_FAULT */
struct ohca_missing {
	uint64_t addr;		/* first byte that is missing, as the region counts */
	uint64_t len;		/* of the access, from there on */
	uint32_t key;
	bool write;
};

/**
 * struct ohca_mr_range - checked permission for [addr, addr + len)
 *
 * Valid until the owner function that got it returns: the next command may deregister
 * the MR. Work that lasts longer keeps the key and checks it again.
 */
struct ohca_mr_range {
	struct ohca_mr *mr;
	uint64_t off;		/* of addr in the MR's pages; bus address for DMA MRs;
				 * in the device memory for DM MRs */
	uint64_t len;
};

/* Check a local key of @qp. @pd: that it must be of, of a receive WQE: ohca_recv_pd(). @write:
 * device will write (LOCAL_WRITE needed). 0 or vendor error */
int ohca_lkey_check(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t lkey, uint64_t addr, uint64_t len, bool write,
		    struct ohca_mr_range *r);
/* Check a remote key of @qp for @access (one OHCA_ACCESS_REMOTE_*). @pd: that it must be of. 0 or
 * vendor error. len 0 is always allowed by the caller without a check (IBTA vol 1, 9.7.4.1.4) */
int ohca_rkey_check(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t rkey, uint64_t addr, uint64_t len, uint32_t access,
		    struct ohca_mr_range *r);
/* The same for all of what the key names, wherever that is. */
int ohca_rkey_whole(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t rkey, uint32_t access, struct ohca_mr_range *r);
/* Copy; 0, -1 when memory behind the range is gone, or OHCA_MR_FAULT: a page is missing,
 * which *@m names. Then any part may have been copied. */
#define OHCA_MR_FAULT	(-2)
int ohca_mr_read(ohca_engine *e, const struct ohca_mr_range *r, uint64_t off, void *buf, size_t n,
		 struct ohca_missing *m);
int ohca_mr_write(ohca_engine *e, const struct ohca_mr_range *r, uint64_t off, const void *buf,
		  size_t n, struct ohca_missing *m);
/* All of @v to the begin of the range */
int ohca_mr_write_view(ohca_engine *e, const struct ohca_mr_range *r, const struct ib_view *v,
		       struct ohca_missing *m);
/* Add the first @n bytes of the range, which are to be read, to @v, as by ohca_dma_view() */
bool ohca_mr_view(ohca_engine *e, const struct ohca_mr_range *r, struct ib_view *v, size_t n);
/* Atomic on 8 aligned bytes in host order of the guest (x86: LE) memory: returns the
 * previous value in *@old. 0, -1 or OHCA_MR_FAULT: *@m. */
int ohca_mr_atomic(ohca_engine *e, const struct ohca_mr_range *r, const struct ohca_atomic *a,
		   uint64_t *old, struct ohca_missing *m);
/* Write 8 bytes atomically. 0, -1: no such memory, or not aligned, or
 * OHCA_MR_FAULT: *@m. */
int ohca_mr_write8(ohca_engine *e, const struct ohca_mr_range *r, const void *buf,
		   struct ohca_missing *m);
/*
 * Memory of a range from byte *@done on that could be persistent, as at most @max stretches
 * of the bus; *@done moves behind them. Pages that follow each other are one stretch. The
 * number of stretches; 0: that was all.
 */
unsigned int ohca_mr_runs(ohca_engine *e, const struct ohca_mr_range *r, uint64_t *done,
			  struct ohca_run *run, unsigned int max);
/* Gather @len bytes of the SGE list of a send WQE, from byte @off of the message on, to @dst;
 * scatter the other way, with keys of @pd. Every key is checked at every call. 0, vendor error or
 * OHCA_MR_FAULT: *@m. */
int ohca_sgl_gather(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_sge *sge,
		    unsigned int num, uint32_t off, void *dst, uint32_t len,
		    struct ohca_missing *m);
int ohca_sgl_scatter(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		     const struct ohca_sge *sge, unsigned int num, uint32_t off, const void *src,
		     uint32_t len, struct ohca_missing *m);
/* Scatter all of @v */
int ohca_sgl_scatter_view(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
			  const struct ohca_sge *sge, unsigned int num, uint32_t off,
			  const struct ib_view *v, struct ohca_missing *m);
/* Add what ohca_sgl_gather() would copy to @v; false: as ohca_dma_view(), also for a wrong key */
bool ohca_sgl_view(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_sge *sge,
		   unsigned int num, uint32_t off, struct ib_view *v, uint32_t len);

/**
 * struct ohca_stretch - memory that a key allows, mapped; all zero: none
 * @key: was checked for it
 * @addr, @len: as the key counts; @p: host address; @iova: bus address
 *
 * Good as long as nothing but the accesses that are made by it can happen: no other WQE, no command,
 * no end of the burst of DMA.
 */
struct ohca_stretch {
	uint8_t *p;
	uint64_t addr, len, iova;
	uint32_t key;
};

/*
 * @key has been checked for an access to @addr. *@s becomes what lies around that in one stretch.
 * Return: false: it cannot be used so: on-demand pages, device memory, bus addresses, or no memory.
 */
bool ohca_stretch_find(ohca_engine *e, uint32_t key, uint64_t addr, int prot,
		       struct ohca_stretch *s);
/* Where in @s an access by @key to @n bytes at @addr goes; NULL: not there. */
static inline uint8_t *ohca_stretch_at(const struct ohca_stretch *s, uint32_t key, uint64_t addr,
				       uint32_t n)
{
	const uint64_t off = addr - s->addr;

	return s->p && key == s->key && off <= s->len && n <= s->len - off ? s->p + off : NULL;
}

#endif /* OHCA_OBJECT_MR_ACCESS_H */
