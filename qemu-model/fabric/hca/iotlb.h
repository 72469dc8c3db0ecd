/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an IOMMU translates for an HCA: ranges of bus addresses that come and go one by one, up to
 * FAB_IOTLB_MOST of them, in a balanced tree.
 *
 * Owner thread only. Nothing here takes longer than some 100 us: what is more is done in steps.
 */
#ifndef OHCA_FABRIC_IOTLB_H
#define OHCA_FABRIC_IOTLB_H

#include <stdbool.h>
#include <stdint.h>

#define FAB_IOTLB_MOST	(1u << 20)	/* ranges of an HCA */
#define FAB_IOTLB_STEP	256u		/* ranges that go by one call */

struct fab_hca_range;
struct fab_iotlb_entry;

/**
 * struct fab_iotlb - all 0: there are no ranges
 * @root: of the tree
 * @n: ranges in it
 * @hit: the range that was found last, or NULL
 */
struct fab_iotlb {
	void *root;
	unsigned int n;
	struct fab_iotlb_entry *hit;
};

/**
 * fab_iotlb_map() - a range is translated from now on
 * @users: counts the ranges of some memory: it becomes one more, and one less when the range goes;
 *	stays where it is until then, or fab_iotlb_free()
 *
 * Nothing changes if the same is translated so already.
 *
 * Return: false: errno is EINVAL: it is not as fab_hca_memory() takes it, or overlaps another one;
 * or ENOMEM, also if there are as many as there may be.
 */
bool fab_iotlb_map(struct fab_iotlb *t, const struct fab_hca_range *r, unsigned int *users);

/**
 * fab_iotlb_unmap() - addresses from @iova to @last are not translated any more
 * @more: filled in: some of them still are, call again
 *
 * What a range has beside them stays.
 *
 * Return: false: errno is ENOMEM: more is not translated any more than should be.
 */
bool fab_iotlb_unmap(struct fab_iotlb *t, uint64_t iova, uint64_t last, bool *more);

/** fab_iotlb_at() - the range with @iova, or NULL; until the next call that changes @t */
const struct fab_hca_range *fab_iotlb_at(struct fab_iotlb *t, uint64_t iova);

/** fab_iotlb_free() - all ranges go, nothing is counted any more; fab_iotlbs_reap() frees them */
void fab_iotlb_free(struct fab_iotlb *t);

/** fab_iotlbs_reap() - free some of what was given up. Return: whether there is more. */
bool fab_iotlbs_reap(void);

#endif
