/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Translations of an IOMMU for an HCA: ranges of bus addresses that are added and removed one by
 * one, at most FAB_IOTLB_MOST, in a balanced tree.
 *
 * Owner thread only. No call takes longer than about 100 us: longer work is done in steps.
 */
#ifndef OHCA_FABRIC_IOTLB_H
#define OHCA_FABRIC_IOTLB_H

#include <stdbool.h>
#include <stdint.h>

#define FAB_IOTLB_MOST	(1u << 20)	/* ranges of an HCA */
#define FAB_IOTLB_STEP	256u		/* ranges that one call removes */

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
 * fab_iotlb_map() - add a range
 * @users: counter of ranges of some memory: incremented now, and decremented when the range is
 *	removed; must stay valid until then, or until fab_iotlb_free()
 *
 * Nothing changes if the same translation exists already.
 *
 * Return: false: errno is EINVAL: fab_hca_memory() would reject the range, or it overlaps another
 * one; or ENOMEM, also if there are FAB_IOTLB_MOST ranges.
 */
bool fab_iotlb_map(struct fab_iotlb *t, const struct fab_hca_range *r, unsigned int *users);

/**
 * fab_iotlb_unmap() - remove the translations of addresses from @iova to @last
 * @more: filled in: some are left, call again
 *
 * Parts of a range that are outside of these addresses stay.
 *
 * Return: false: errno is ENOMEM: more addresses than these have lost their translation.
 */
bool fab_iotlb_unmap(struct fab_iotlb *t, uint64_t iova, uint64_t last, bool *more);

/** fab_iotlb_at() - the range with @iova, or NULL; valid until the next call that changes @t */
const struct fab_hca_range *fab_iotlb_at(struct fab_iotlb *t, uint64_t iova);

/**
 * fab_iotlb_free() - remove all ranges, without a change of @users; fab_iotlbs_reap() frees them
 */
void fab_iotlb_free(struct fab_iotlb *t);

/** fab_iotlbs_reap() - free some of the removed ranges. Return: whether there are more. */
bool fab_iotlbs_reap(void);

#endif
