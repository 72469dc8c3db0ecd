// SPDX-License-Identifier: GPL-2.0-or-later
/* The memory that an HCA accesses: ranges of bus addresses; see hca.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca_priv.h"

/* units for an entry of the ring: a full one uses up what a turn may cost for packets */
#define MAP_WORK	2048u

bool fab_hca_range_is_valid(const struct fab_hca_range *r)
{
	return r->mem && r->len && !((r->iova | r->len) % FAB_HCA_PAGE) &&
	       r->len - 1 <= UINT64_MAX - r->iova;
}

/* Whether @r lies behind @before; both are valid. */
static bool is_behind(const struct fab_hca_range *r, const struct fab_hca_range *before)
{
	return r->iova > before->iova && r->iova - before->iova >= before->len;
}

bool fab_hca_reach_set(struct fab_hca_reach *reach, const struct fab_hca_range *range,
		       unsigned int n)
{
	struct fab_hca_range *r;

	errno = EINVAL;
	if (n > FAB_HCA_RANGES)
		return false;
	for (unsigned int i = 0; i < n; i++)
		if (!fab_hca_range_is_valid(&range[i]) || (i && !is_behind(&range[i], &range[i - 1])))
			return false;
	errno = ENOMEM;
	r = calloc(n ? n : 1, sizeof(*r));
	if (!r)
		return false;
	if (n)
		memcpy(r, range, n * sizeof(*r));
	free(reach->range);
	reach->range = r;
	reach->ranges = n;
	reach->hit = NULL;
	return true;
}

bool fab_hca_memory(struct fab_hca *h, const struct fab_hca_range *range, unsigned int n)
{
	return fab_hca_reach_set(&h->reach, range, n);
}

void fab_hca_reach_free(struct fab_hca_reach *reach)
{
	free(reach->range);
	fab_iotlb_free(&reach->iotlb);
	*reach = (struct fab_hca_reach){ 0 };
}

/* The range that was used last, if it has @iova, or NULL. */
static inline const struct fab_hca_range *hca_hit(const struct fab_hca *h, uint64_t iova)
{
	const struct fab_hca_range *r = h->reach.hit;

	return r && iova - r->iova < r->len ? r : NULL;
}

/* The range with @iova, or NULL. */
static const struct fab_hca_range *hca_range_at(struct fab_hca_reach *reach, uint64_t iova)
{
	unsigned int low = 0, high = reach->ranges;

	while (low < high) {
		const unsigned int mid = (low + high) / 2;

		if (iova < reach->range[mid].iova)
			high = mid;
		else if (iova - reach->range[mid].iova >= reach->range[mid].len)
			low = mid + 1;
		else
			return reach->hit = &reach->range[mid];
	}
	return NULL;
}

/*
 * The translation of @iova; the front may have it in its ring, without a notification.
 *
 * All entries are read, since any of them may be the one. An entry takes up to 2.6 us, if there are
 * 2^20 ranges, and a front may fill the ring again and again. So entries are work of the turn, which
 * ends after a full ring, and frames then wait for the next turn. One packet may need a second ring:
 * what waits at its begin, and what an honest front adds during it.
 */
static const struct fab_hca_range *hca_translation_at(struct fab_hca *h, uint64_t iova)
{
	const struct fab_hca_range *r = fab_iotlb_at(&h->reach.iotlb, iova);
	unsigned int n;

	if (r || !h->cfg.maps || h->mapped > FAB_HCA_MAPS - OHCA_PAGE_MAPS)
		return r;
	n = h->cfg.maps(h->cfg.arg);
	h->mapped += n;
	ohca_host_work(h->e, (uint64_t)n * MAP_WORK);
	/* frames may wait for this turn */
	if (h->mapped >= OHCA_PAGE_MAPS && !h->in_call)
		fab_hca_list(h);
	return n ? fab_iotlb_at(&h->reach.iotlb, iova) : NULL;
}

/* The range with @iova, if it is another one, or NULL. */
static const struct fab_hca_range *hca_find(struct fab_hca *h, uint64_t iova)
{
	const struct fab_hca_range *r = hca_range_at(&h->reach, iova);

	return r ? r : hca_translation_at(h, iova);
}

static inline void *hca_map_range(const struct fab_hca_range *r, uint64_t iova, size_t *len,
				  int prot)
{
	const uint64_t off = iova - r->iova;

	if (r->read_only && prot & OHCA_DMA_WRITE)
		return NULL;
	if (*len > r->len - off)
		*len = (size_t)(r->len - off);
	return (uint8_t *)r->mem + off;
}

__attribute__((noinline))
static void *hca_map_found(struct fab_hca *h, uint64_t iova, size_t *len, int prot)
{
	const struct fab_hca_range *r = hca_find(h, iova);

	return r ? hca_map_range(r, iova, len, prot) : NULL;
}

/*
 * Whether an access has found no memory. Each such access costs a signal, and the front ends after
 * the turn: so the turn has only those to memory that it has mapped before.
 */
static inline bool hca_vanished(const struct fab_hca *h)
{
	return h->cfg.vanished && *h->cfg.vanished;
}

void *fab_hca_map(void *p, uint64_t iova, size_t *len, int prot)
{
	const struct fab_hca_range *r;

	if (hca_vanished(p))
		return NULL;
	r = hca_hit(p, iova);
	return r ? hca_map_range(r, iova, len, prot) : hca_map_found(p, iova, len, prot);
}

bool fab_hca_persist(void *p, const struct ohca_run *run, unsigned int n, uint64_t tag)
{
	struct iovec mem[FAB_HCA_FLUSH];
	unsigned int stretches = 0, i = 0;
	struct fab_hca *h = p;
	uint64_t off = 0;

	if (!h->cfg.persist)
		return true;
	/* bounded: an IOMMU may translate page by page */
	for (unsigned int looks = 0; i < n && looks < FAB_HCA_FLUSH; looks++) {
		struct iovec *last = stretches ? &mem[stretches - 1] : NULL;
		size_t len = (size_t)(run[i].len - off);
		uint8_t *at = fab_hca_map(h, run[i].iova + off, &len, OHCA_DMA_READ);

		/* unmapped since the driver registered it: continue with the next page */
		if (!at && len > FAB_HCA_PAGE - (run[i].iova + off) % FAB_HCA_PAGE)
			len = (size_t)(FAB_HCA_PAGE - (run[i].iova + off) % FAB_HCA_PAGE);
		if (at && last && (uint8_t *)last->iov_base + last->iov_len == at)
			last->iov_len += len;
		else if (at)
			mem[stretches++] = (struct iovec){ at, len };
		off += len;
		if (off < run[i].len)
			continue;
		off = 0;
		i++;
	}
	if (i == n && !stretches)
		return true;
	return !h->cfg.persist(h->cfg.arg, mem, i == n ? stretches : 0, tag);
}

/* ---- logs of writes -------------------------------------------------------------- */

static inline void hca_note(const struct fab_hca_log *log, uint64_t off, size_t n)
{
	if (!log->dirty.page)
		return;
	ohca_dirty_set(&log->dirty, off, n);
	atomic_store_explicit(log->some, 1, memory_order_release);
}

static inline void hca_note_range(const struct fab_hca_range *r, uint64_t iova, size_t n)
{
	if (r->log)
		hca_note(r->log, (uint64_t)((uint8_t *)r->mem - (const uint8_t *)r->log->mem) +
			 (iova - r->iova), n);
}

__attribute__((noinline))
static void hca_note_found(struct fab_hca *h, uint64_t iova, size_t n)
{
	const struct fab_hca_range *r = hca_find(h, iova);

	if (r)
		hca_note_range(r, iova, n);
}

/* All @n bytes are in one range: fab_hca_map() has returned the memory. */
void fab_hca_dirty(void *p, uint64_t iova, size_t n)
{
	const struct fab_hca_range *r = hca_hit(p, iova);

	if (r)
		hca_note_range(r, iova, n);
	else
		hca_note_found(p, iova, n);
}

void fab_hca_dm_dirty(void *p, uint64_t off, size_t n)
{
	const struct fab_hca *h = p;

	if (h->cfg.dm_log)
		hca_note(h->cfg.dm_log, off, n);
}
