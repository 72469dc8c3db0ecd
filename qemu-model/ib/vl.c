/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SL to VL defaults and the VL arbiter; see vl.h. */
#include "vl.h"

void ib_sl2vl_init(struct ib_sl2vl *t, unsigned int nvls)
{
	if (nvls == 0 || nvls > 15)
		nvls = 1;
	for (unsigned int sl = 0; sl < IB_NUM_SLS; sl++)
		t->vl[sl] = (uint8_t)(sl % nvls);
}

static void find_vls(struct ib_vlarb_table *t)
{
	t->vls = 0;
	t->end = 0;
	memset(t->of_vl, 0, sizeof(t->of_vl));
	for (unsigned int i = 0; i < t->n; i++) {
		if (!t->e[i].weight || t->e[i].vl >= IB_MGMT_VL)
			continue;
		t->vls |= (uint16_t)(1u << t->e[i].vl);
		t->of_vl[t->e[i].vl] |= 1ull << i;
		t->end = (uint8_t)(i + 1);
	}
}

void ib_vlarb_init(struct ib_vlarb *a, unsigned int caps, unsigned int nvls)
{
	memset(a, 0, sizeof(*a));
	if (caps > IB_VLARB_MAX)
		caps = IB_VLARB_MAX;
	a->t[IB_VLARB_LOW].n = (uint8_t)caps;
	a->t[IB_VLARB_HIGH].n = (uint8_t)caps;
	for (unsigned int i = 0; i < caps && i < nvls; i++) {
		a->t[IB_VLARB_LOW].e[i].vl = (uint8_t)i;
		a->t[IB_VLARB_LOW].e[i].weight = 64;
	}
	find_vls(&a->t[IB_VLARB_LOW]);
}

static struct ib_vlarb_table *block_table(const struct ib_vlarb *a, unsigned int block,
					  unsigned int *first)
{
	const struct ib_vlarb_table *t;

	if (block < 1 || block > 4)
		return NULL;
	t = &a->t[block >= 3 ? IB_VLARB_HIGH : IB_VLARB_LOW];
	*first = (block - 1) % 2 * IB_VLARB_BLOCK;
	return *first < t->n ? (struct ib_vlarb_table *)(uintptr_t)t : NULL;
}

int ib_vlarb_set_block(struct ib_vlarb *a, unsigned int block,
		       const struct ib_vlarb_entry e[IB_VLARB_BLOCK])
{
	unsigned int first;
	struct ib_vlarb_table *t = block_table(a, block, &first);

	if (!t)
		return -1;
	for (unsigned int i = 0; i < IB_VLARB_BLOCK && first + i < t->n; i++) {
		t->e[first + i].vl = e[i].vl & 15;
		t->e[first + i].weight = e[i].weight;
	}
	find_vls(t);
	t->cur = 0;
	t->left = 64 * t->e[0].weight;
	return 0;
}

int ib_vlarb_get_block(const struct ib_vlarb *a, unsigned int block,
		       struct ib_vlarb_entry e[IB_VLARB_BLOCK])
{
	unsigned int first;
	const struct ib_vlarb_table *t = block_table(a, block, &first);

	if (!t)
		return -1;
	memset(e, 0, IB_VLARB_BLOCK * sizeof(*e));
	for (unsigned int i = 0; i < IB_VLARB_BLOCK && first + i < t->n; i++)
		e[i] = t->e[first + i];
	return 0;
}

/*
 * Choose the entry to serve next: the current one while it has weight left and its VL is ready,
 * else the next entry with a weight whose VL is ready, with its full weight; this may be the
 * current one again. If there is none, the current one keeps the weight that it has left.
 */
static int table_pick(struct ib_vlarb_table *t, uint16_t ready)
{
	const struct ib_vlarb_entry *e = &t->e[t->cur];
	uint64_t able = 0, behind;

	ready &= t->vls;
	if (!ready)
		return -1;
	if (e->weight && t->left > 0 && e->vl < IB_MGMT_VL && (ready >> e->vl & 1))
		return e->vl;
	for (; ready; ready &= (uint16_t)(ready - 1))
		able |= t->of_vl[__builtin_ctz(ready)];
	behind = able & ~((2ull << t->cur) - 1);
	t->cur = (uint8_t)__builtin_ctzll(behind ? behind : able);
	t->left = 64 * t->e[t->cur].weight;
	return t->e[t->cur].vl;
}

static bool high_allowed(const struct ib_vlarb *a)
{
	if (a->high_limit == IB_VLARB_UNLIMITED)
		return true;
	return a->high_limit ? a->high_sent < a->high_limit * 4096u : a->high_sent == 0;
}

int ib_vlarb_pick(struct ib_vlarb *a, uint16_t ready)
{
	int vl;

	if (ready >> IB_MGMT_VL & 1)
		return IB_MGMT_VL;
	if (!ready)
		return -1;
	if (!high_allowed(a)) {
		vl = table_pick(&a->t[IB_VLARB_LOW], ready);
		if (vl >= 0) {
			a->last_table = IB_VLARB_LOW;
			return vl;
		}
		/* low priority had its opportunity, but nothing to send */
		a->high_sent = 0;
	}
	a->last_table = IB_VLARB_HIGH;
	vl = table_pick(&a->t[IB_VLARB_HIGH], ready);
	if (vl >= 0)
		return vl;
	a->last_table = IB_VLARB_LOW;
	return table_pick(&a->t[IB_VLARB_LOW], ready);
}

void ib_vlarb_sent(struct ib_vlarb *a, uint8_t vl, uint32_t bytes)
{
	if (vl == IB_MGMT_VL)
		return;
	if (a->last_table == IB_VLARB_HIGH) {
		if (a->high_sent < UINT32_MAX / 2)
			a->high_sent += bytes;
	} else {
		a->high_sent = 0;
	}
	a->t[a->last_table].left -= (int32_t)bytes;
}
