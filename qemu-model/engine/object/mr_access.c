/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Access to memory by key: the check that a key permits an access, and the access.
 *
 * Work requests keep only the key between two accesses, so a deregistration takes effect at once.
 */
#include <string.h>

#include "engine/base/guestmem.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/dm.h"
#include "engine/object/mr.h"
#include "engine/object/mr_access.h"
#include "engine/object/odp.h"
#include "engine/object/qp.h"
#include "engine/object/rwqe.h"
#include "ohca_hw.h"

#define RUN_PAGES	4096u	/* pages that one call of ohca_mr_runs() looks at */

/* Set *@r to [addr, addr + len) of @mr; for a window to the memory of its region. */
static int range_set(struct ohca_mr *mr, uint64_t addr, uint64_t len, struct ohca_mr_range *r)
{
	r->len = len;
	if (mr->type == OHCA_MR_DMA) {
		if (len && addr + (len - 1) < addr)
			return OHCA_VE_BOUNDS;
		r->mr = mr;
		r->off = addr;
		return OHCA_VE_NONE;
	}
	if (addr < mr->iova || addr - mr->iova > mr->length ||
	    len > mr->length - (addr - mr->iova))
		return OHCA_VE_BOUNDS;
	r->off = addr - mr->iova + mr->pl_offset;
	r->mr = mr->bound ? mr->bound : mr;
	return OHCA_VE_NONE;
}

int ohca_lkey_check(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t lkey, uint64_t addr, uint64_t len, bool write,
		    struct ohca_mr_range *r)
{
	struct ohca_mr *mr;

	if (lkey == OHCA_LOCAL_DMA_LKEY) {
		if (!(qp->flags & OHCA_QP_PRIVILEGED))
			return OHCA_VE_LKEY;
		return range_set(e->local_dma, addr, len, r);
	}
	mr = ohca_mr_get(e, lkey);
	if (!mr || !mr->valid || mr->type == OHCA_MR_MW1 || mr->type == OHCA_MR_MW2)
		return OHCA_VE_LKEY;
	if (mr->pd != pd)
		return OHCA_VE_PD;
	if (write && !(mr->access & OHCA_ACCESS_LOCAL_WRITE))
		return OHCA_VE_ACCESS;
	return range_set(mr, addr, len, r);
}

/* Look up the region or window that @qp may use with @access. 0 or a vendor error */
static int rkey_mr(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		   uint32_t rkey, uint32_t access, struct ohca_mr **out)
{
	struct ohca_mr *mr = ohca_mr_get(e, rkey);

	*out = mr;
	if (!mr || !mr->valid)
		return OHCA_VE_LKEY;
	if (mr->pd != pd)
		return OHCA_VE_PD;
	if (mr->type == OHCA_MR_MW2 && mr->qp != qp)
		return OHCA_VE_PD;
	return (mr->access & access) == access ? OHCA_VE_NONE : OHCA_VE_ACCESS;
}

int ohca_rkey_check(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t rkey, uint64_t addr, uint64_t len, uint32_t access,
		    struct ohca_mr_range *r)
{
	struct ohca_mr *mr;
	int ve = rkey_mr(e, qp, pd, rkey, access, &mr);

	return ve ? ve : range_set(mr, addr, len, r);
}

int ohca_rkey_whole(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    uint32_t rkey, uint32_t access, struct ohca_mr_range *r)
{
	struct ohca_mr *mr;
	int ve = rkey_mr(e, qp, pd, rkey, access, &mr);

	return ve ? ve : range_set(mr, mr->iova, mr->length, r);
}

static bool range_inside(const struct ohca_mr_range *r, uint64_t off, uint64_t n)
{
	return off <= r->len && n <= r->len - off;
}

/* Address of the first 8 bytes of a range in device memory; NULL: too short, or not aligned. */
static void *dm_addr8(ohca_engine *e, const struct ohca_mr_range *r)
{
	__le64 *p = r->len < 8 ? NULL : ohca_dm_ptr(e, r->mr->dm, r->off, 8);

	return (uintptr_t)p & 7 ? NULL : p;
}

static int dm_read(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, void *buf, size_t n)
{
	const void *p = ohca_dm_ptr(e, dm, off, n);

	if (!p)
		return -1;
	memcpy(buf, p, n);
	return 0;
}

static int dm_write(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, const void *buf,
		    size_t n)
{
	void *p = ohca_dm_ptr(e, dm, off, n);

	if (!p)
		return -1;
	ohca_place(p, buf, n);
	ohca_dm_dirty(e, dm, off, n);
	return 0;
}

int ohca_mr_read(ohca_engine *e, const struct ohca_mr_range *r, uint64_t off, void *buf, size_t n,
		 struct ohca_missing *m)
{
	if (!range_inside(r, off, n))
		return -1;
	if (r->mr->type == OHCA_MR_DMA)
		return ohca_dma_read(e, r->off + off, buf, n);
	if (r->mr->odp)
		return ohca_odp_copy(e, r->mr, r->off + off, buf, n, false, m);
	if (r->mr->type == OHCA_MR_DM)
		return dm_read(e, r->mr->dm, r->off + off, buf, n);
	return ohca_pages_read(e, &r->mr->pages, r->off + off, buf, n);
}

int ohca_mr_write(ohca_engine *e, const struct ohca_mr_range *r, uint64_t off, const void *buf,
		  size_t n, struct ohca_missing *m)
{
	if (!range_inside(r, off, n))
		return -1;
	if (r->mr->type == OHCA_MR_DMA)
		return ohca_dma_write(e, r->off + off, buf, n);
	if (r->mr->odp)
		return ohca_odp_copy(e, r->mr, r->off + off, (uint8_t *)(uintptr_t)buf, n, true,
				     m);
	if (r->mr->type == OHCA_MR_DM)
		return dm_write(e, r->mr->dm, r->off + off, buf, n);
	return ohca_pages_write(e, &r->mr->pages, r->off + off, buf, n);
}

/**
 * struct source - data to scatter
 * @piece: the current piece; @at: bytes of the piece that have been copied
 */
struct source {
	const struct ib_piece *piece;
	uint32_t at;
};

/* Write the next @n bytes of @src to the start of @r, piece by piece; as ohca_mr_write() */
static int write_pieces(ohca_engine *e, const struct ohca_mr_range *r, struct source *src,
		     uint32_t n, struct ohca_missing *m)
{
	for (uint32_t done = 0, len; done < n; done += len) {
		int rc;

		len = src->piece->len - src->at < n - done ? src->piece->len - src->at : n - done;
		rc = ohca_mr_write(e, r, done, src->piece->p + src->at, len, m);
		if (rc == OHCA_MR_FAULT)
			m->len += n - done - len;
		if (rc)
			return rc;
		src->at += len;
		if (src->at == src->piece->len) {
			src->piece++;
			src->at = 0;
		}
	}
	return 0;
}

int ohca_mr_write_view(ohca_engine *e, const struct ohca_mr_range *r, const struct ib_view *v,
		       struct ohca_missing *m)
{
	struct source s = { .piece = v->piece };

	return write_pieces(e, r, &s, v->len, m);
}

bool ohca_mr_view(ohca_engine *e, const struct ohca_mr_range *r, struct ib_view *v, size_t n)
{
	const void *p;

	if (!range_inside(r, 0, n))
		return false;
	if (r->mr->type == OHCA_MR_DMA)
		return ohca_dma_view(e, r->off, v, n);
	if (r->mr->odp)
		return ohca_odp_view(e, r->mr, r->off, v, n);
	if (r->mr->type != OHCA_MR_DM)
		return ohca_pages_view(e, &r->mr->pages, r->off, v, n);
	p = ohca_dm_ptr(e, r->mr->dm, r->off, n);
	return p && ib_view_add(v, p, (uint32_t)n);
}

/*
 * Bus address of the first 8 bytes of a range. -1: the range is too short, or not aligned;
 * OHCA_MR_FAULT: the page is missing, see *@m.
 */
static int addr8(const struct ohca_mr_range *r, uint64_t *addr, struct ohca_missing *m)
{
	uint64_t run = 8;

	*addr = r->off;
	if (r->len < 8)
		return -1;
	if (r->mr->odp) {
		/* the size of a page is a multiple of 8, so aligned bytes lie in one page */
		if (r->off & 7)
			return -1;
		if (ohca_odp_addr(r->mr, r->off, addr, m))
			return OHCA_MR_FAULT;
	} else if (r->mr->type != OHCA_MR_DMA) {
		if (r->off > ohca_pages_bytes(&r->mr->pages) ||
		    ohca_pages_bytes(&r->mr->pages) - r->off < 8)
			return -1;
		*addr = ohca_pages_addr(&r->mr->pages, r->off, &run);
	}
	return (*addr & 7) || run < 8 ? -1 : 0;
}

int ohca_mr_write8(ohca_engine *e, const struct ohca_mr_range *r, const void *buf,
		   struct ohca_missing *m)
{
	uint64_t addr;
	int rc;

	if (r->mr->type == OHCA_MR_DM) {
		__le64 *p = dm_addr8(e, r), v;

		if (!p)
			return -1;
		memcpy(&v, buf, 8);
		__atomic_store_n(p, v, __ATOMIC_RELEASE);
		ohca_dm_dirty(e, r->mr->dm, r->off, 8);
		return 0;
	}
	rc = addr8(r, &addr, m);
	if (rc)
		return rc;
	return ohca_dma_publish(e, addr, buf, 8);
}

unsigned int ohca_mr_runs(ohca_engine *e, const struct ohca_mr_range *r, uint64_t *done,
			  struct ohca_run *run, unsigned int max)
{
	const struct ohca_pages *p = &r->mr->pages;
	unsigned int n = 0;

	/* device memory and on-demand pages are not persistent: they cannot have this right */
	if (r->mr->type == OHCA_MR_DMA || r->mr->type == OHCA_MR_DM || r->mr->odp)
		return 0;
	/* contiguous pages are one stretch, in one iteration */
	for (unsigned int i = 0; i < RUN_PAGES && *done < r->len; i++) {
		uint64_t left, addr, len;

		if (r->off + *done >= ohca_pages_bytes(p))
			break;
		addr = ohca_pages_addr(p, r->off + *done, &left);
		len = left < r->len - *done ? left : r->len - *done;
		if (n && run[n - 1].iova + run[n - 1].len == addr) {
			run[n - 1].len += len;
		} else {
			if (n == max)
				break;
			run[n++] = (struct ohca_run){ .iova = addr, .len = len };
		}
		*done += len;
		ohca_work(e, 8);
	}
	ohca_work(e, n * OHCA_WORK_STEP);
	return n;
}

int ohca_mr_atomic(ohca_engine *e, const struct ohca_mr_range *r, const struct ohca_atomic *a,
		   uint64_t *old, struct ohca_missing *m)
{
	uint64_t addr;
	int rc;

	if (r->mr->type == OHCA_MR_DM) {
		uint64_t *p = dm_addr8(e, r);

		if (!p)
			return -1;
		*old = ohca_atomic_do(e, p, a);
		ohca_dm_dirty(e, r->mr->dm, r->off, 8);
		return 0;
	}
	rc = addr8(r, &addr, m);
	if (rc)
		return rc;
	return ohca_dma_atomic(e, addr, a, old);
}

bool ohca_stretch_find(ohca_engine *e, uint32_t key, uint64_t addr, int prot,
		       struct ohca_stretch *s)
{
	const struct ohca_mr *mr = ohca_mr_get(e, key), *of;
	uint64_t begin, end, page;
	size_t n;

	s->p = NULL;
	if (key == OHCA_LOCAL_DMA_LKEY || !mr || mr->type == OHCA_MR_DMA)
		return false;
	of = mr->bound ? mr->bound : mr;
	if (of->odp || of->type == OHCA_MR_DMA || of->type == OHCA_MR_DM)
		return false;
	begin = mr->pl_offset;
	end = begin + mr->length;
	if (!of->pages.contig) {
		page = (addr - mr->iova + begin) & ~((1ull << of->pages.shift) - 1);
		if (end > page + (1ull << of->pages.shift))
			end = page + (1ull << of->pages.shift);
		if (begin < page)
			begin = page;
	}
	n = (size_t)(end - begin);
	s->p = ohca_pages_map(e, &of->pages, begin, &n, prot, &s->iova);
	s->key = key;
	s->addr = mr->iova + (begin - mr->pl_offset);
	s->len = n;
	return s->p;
}

/* ---- scatter/gather --------------------------------------------------------------- */

/*
 * Copy the part [off, off + len) of the message that the SGEs describe. Exactly one of @dst
 * (gather) and @src (scatter) is set. Each key is checked for all bytes of the part that its SGE
 * covers.
 */
static inline int sgl_copy(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		    const struct ohca_sge *sge, unsigned int num, uint32_t off, uint8_t *dst,
		    struct source *src, uint32_t len, struct ohca_missing *m)
{
	for (unsigned int i = 0; i < num && len; i++) {
		struct ohca_mr_range r;
		uint32_t n;
		int rc;

		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		n = sge[i].length - off < len ? sge[i].length - off : len;
		if (sge[i].addr + off < sge[i].addr)
			return OHCA_VE_BOUNDS;
		rc = ohca_lkey_check(e, qp, pd, sge[i].lkey, sge[i].addr + off, n, src != NULL,
				     &r);
		if (rc)
			return rc;
		rc = dst ? ohca_mr_read(e, &r, 0, dst, n, m) : write_pieces(e, &r, src, n, m);
		if (rc == OHCA_MR_FAULT) {
			/* the next packets need the rest of the SGE */
			m->len += sge[i].length - off - n;
			return OHCA_MR_FAULT;
		}
		if (rc)
			return OHCA_VE_DMA;
		if (dst)
			dst += n;
		len -= n;
		off = 0;
	}
	return len ? OHCA_VE_LENGTH : OHCA_VE_NONE;
}

int ohca_sgl_gather(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_sge *sge,
		    unsigned int num, uint32_t off, void *dst, uint32_t len,
		    struct ohca_missing *m)
{
	return sgl_copy(e, qp, qp->pd, sge, num, off, dst, NULL, len, m);
}

int ohca_sgl_scatter(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
		     const struct ohca_sge *sge, unsigned int num, uint32_t off, const void *src,
		     uint32_t len, struct ohca_missing *m)
{
	const struct ib_piece piece = { .p = src, .len = len };
	struct source s = { .piece = &piece };

	return sgl_copy(e, qp, pd, sge, num, off, NULL, &s, len, m);
}

int ohca_sgl_scatter_view(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_pd *pd,
			  const struct ohca_sge *sge, unsigned int num, uint32_t off,
			  const struct ib_view *v, struct ohca_missing *m)
{
	struct source s = { .piece = v->piece };

	return sgl_copy(e, qp, pd, sge, num, off, NULL, &s, v->len, m);
}

bool ohca_sgl_view(ohca_engine *e, const struct ohca_qp *qp, const struct ohca_sge *sge,
		   unsigned int num, uint32_t off, struct ib_view *v, uint32_t len)
{
	for (unsigned int i = 0; i < num && len; i++) {
		struct ohca_mr_range r;
		uint32_t n;

		if (off >= sge[i].length) {
			off -= sge[i].length;
			continue;
		}
		n = sge[i].length - off < len ? sge[i].length - off : len;
		if (sge[i].addr + off < sge[i].addr ||
		    ohca_lkey_check(e, qp, qp->pd, sge[i].lkey, sge[i].addr + off, n, false, &r) ||
		    !ohca_mr_view(e, &r, v, n))
			return false;
		len -= n;
		off = 0;
	}
	return !len;
}
