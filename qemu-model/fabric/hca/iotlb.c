// SPDX-License-Identifier: GPL-2.0-or-later
/* Translations of an IOMMU for an HCA; see iotlb.h. */
#include "iotlb.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "hca_priv.h"

/**
 * struct fab_iotlb_entry - a range
 * @r: the range
 * @users: counter that includes it
 */
struct fab_iotlb_entry {
	struct fab_hca_range r;
	unsigned int *users;
};

/* A tree that was given up, and is freed in steps. */
struct given_up {
	struct given_up *next;
	void *root;
};

static _Thread_local struct given_up *given_up;

static uint64_t iotlb_last_of(const struct fab_hca_range *r)
{
	return r->iova + (r->len - 1);
}

/* Ranges of a tree do not overlap: a range that overlaps the key is equal to it. */
static int iotlb_order(const void *pa, const void *pb)
{
	const struct fab_iotlb_entry *a = pa, *b = pb;

	if (iotlb_last_of(&a->r) < b->r.iova)
		return -1;
	return a->r.iova > iotlb_last_of(&b->r);
}

/* A range with one of the @len addresses from @iova, or NULL; @len 0: 2^64. */
static struct fab_iotlb_entry *iotlb_find(const struct fab_iotlb *t, uint64_t iova, uint64_t len)
{
	const struct fab_iotlb_entry key = { .r = { .iova = iova, .len = len } };
	void *const *node = tfind(&key, &t->root, iotlb_order);

	return node ? *node : NULL;
}

static bool iotlb_is_same(const struct fab_hca_range *a, const struct fab_hca_range *b)
{
	return a->iova == b->iova && a->len == b->len && a->mem == b->mem &&
	       a->read_only == b->read_only;
}

static bool iotlb_insert(struct fab_iotlb *t, const struct fab_hca_range *r, unsigned int *users)
{
	struct fab_iotlb_entry *e;

	errno = ENOMEM;
	e = t->n < FAB_IOTLB_MOST ? malloc(sizeof(*e)) : NULL;
	if (!e)
		return false;
	e->r = *r;
	e->users = users;
	if (!tsearch(e, &t->root, iotlb_order)) {
		free(e);
		return false;
	}
	t->n++;
	++*users;
	return true;
}

static void iotlb_delete(struct fab_iotlb *t, struct fab_iotlb_entry *e)
{
	tdelete(e, &t->root, iotlb_order);
	t->n--;
	--*e->users;
	free(e);
}

bool fab_iotlb_map(struct fab_iotlb *t, const struct fab_hca_range *r, unsigned int *users)
{
	const struct fab_iotlb_entry *was;

	errno = EINVAL;
	if (!fab_hca_range_is_valid(r))
		return false;
	was = iotlb_find(t, r->iova, r->len);
	if (was)
		return iotlb_is_same(&was->r, r);
	return iotlb_insert(t, r, users);
}

/* Remove addresses from @iova to @last, some of which @e has, from @e. Return: false: ENOMEM */
static bool iotlb_cut(struct fab_iotlb *t, struct fab_iotlb_entry *e, uint64_t iova, uint64_t last)
{
	struct fab_hca_range behind = e->r;
	const bool has_before = e->r.iova < iova, has_behind = iotlb_last_of(&e->r) > last;

	if (has_behind) {
		behind.iova = last + 1;
		behind.len = iotlb_last_of(&e->r) - last;
		behind.mem = (uint8_t *)e->r.mem + (behind.iova - e->r.iova);
	}
	if (has_before)
		e->r.len = iova - e->r.iova;
	else if (has_behind)
		e->r = behind;
	else
		iotlb_delete(t, e);
	return !has_before || !has_behind || iotlb_insert(t, &behind, e->users);
}

bool fab_iotlb_unmap(struct fab_iotlb *t, uint64_t iova, uint64_t last, bool *more)
{
	struct fab_iotlb_entry *e = NULL;
	unsigned int n = 0;
	bool ok = true;

	t->hit = NULL;
	while (iova <= last && (e = iotlb_find(t, iova, last - iova + 1)) && n++ < FAB_IOTLB_STEP)
		ok &= iotlb_cut(t, e, iova, last);
	*more = e;
	return ok;
}

const struct fab_hca_range *fab_iotlb_at(struct fab_iotlb *t, uint64_t iova)
{
	if (!t->hit || iova - t->hit->r.iova >= t->hit->r.len)
		t->hit = iotlb_find(t, iova, 1);
	return t->hit ? &t->hit->r : NULL;
}

void fab_iotlb_free(struct fab_iotlb *t)
{
	struct given_up *g = t->root ? malloc(sizeof(*g)) : NULL;

	if (g) {
		*g = (struct given_up){ given_up, t->root };
		given_up = g;
	} else {
		tdestroy(t->root, free);
	}
	*t = (struct fab_iotlb){ 0 };
}

bool fab_iotlbs_reap(void)
{
	struct given_up *g = given_up;
	void *e;

	for (unsigned int n = 0; g && n < FAB_IOTLB_STEP; n++) {
		e = *(void **)g->root;
		tdelete(e, &g->root, iotlb_order);
		free(e);
		if (g->root)
			continue;
		given_up = g->next;
		free(g);
		g = given_up;
	}
	return g;
}
