/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The writer's side of doorbells, any thread of any process; see doorbell.h. */
#include "front/doorbell.h"
#include "ohca_hw.h"

#define LINE	64u	/* of a cache, so that arrays do not share one */
#define PAGE	4096u

_Static_assert((int)OHCA_DB_BAD_SIZE == (int)OHCA_CNT_DB_BAD_SIZE &&
	       (int)OHCA_DB_BAD_HANDLE == (int)OHCA_CNT_DB_BAD_HANDLE &&
	       (int)OHCA_DB_BAD_UAR == (int)OHCA_CNT_DB_BAD_UAR, "a counter of another name");

/* ---- addresses ------------------------------------------------------------------ */

static bool sizes_ok(const struct ohca_db_sizes *s)
{
	for (int i = 0; i < OHCA_DB_NUM; i++)
		if (s->max[i] < 2 || s->max[i] > OHCA_DB_MAX || (s->max[i] & (s->max[i] - 1)))
			return false;
	return s->uars >= 1 && s->uars <= OHCA_DB_UARS;
}

/* The next array, of @bytes. */
static void *array(uintptr_t *at, size_t bytes)
{
	void *begin = (void *)*at;

	*at += (bytes + LINE - 1) & ~(size_t)(LINE - 1);
	return begin;
}

static uint64_t low_bits(uint32_t n)
{
	return n < 64 ? (1ull << n) - 1 : ~0ull;
}

static void place_ring(struct ohca_db_ring *r, uintptr_t *at, uint32_t max)
{
	r->words = (max + 63) / 64;
	r->sums = (r->words + 63) / 64;
	r->bits_mask = low_bits(max);
	r->sum_mask = low_bits(r->words);
	r->sum = array(at, r->sums * sizeof(*r->sum));
	r->bits = array(at, r->words * sizeof(*r->bits));
}

/* Compute the addresses. Return: the size of the arrays. */
static size_t place(struct ohca_doorbells *db, const struct ohca_db_sizes *s, uintptr_t begin)
{
	static const enum ohca_db_kind rings[OHCA_RING_NUM] = {
		[OHCA_RING_SQ] = OHCA_DB_QP,
		[OHCA_RING_RQ] = OHCA_DB_QP,
		[OHCA_RING_CQ] = OHCA_DB_CQ,
		[OHCA_RING_SRQ] = OHCA_DB_SRQ,
	};
	uintptr_t at = begin;

	db->size = *s;
	db->pending = array(&at, 2 * sizeof(*db->pending));
	db->aq_db = db->pending + 1;
	db->bad = array(&at, OHCA_DB_BAD_NUM * sizeof(*db->bad));
	db->eq = array(&at, OHCA_DB_EQS * sizeof(*db->eq));
	for (int i = 0; i < OHCA_RING_NUM; i++)
		place_ring(&db->ring[i], &at, s->max[rings[i]]);
	db->arm = array(&at, s->max[OHCA_DB_CQ] * sizeof(*db->arm));
	for (int i = 0; i < OHCA_DB_NUM; i++)
		db->owner[i] = array(&at, s->max[i] * sizeof(*db->owner[i]));
	return at - begin;
}

size_t ohca_doorbells_bytes(const struct ohca_db_sizes *s)
{
	struct ohca_doorbells db;

	return sizes_ok(s) ? (place(&db, s, PAGE) + PAGE - 1) & ~(size_t)(PAGE - 1) : 0;
}

void ohca_doorbells_place(struct ohca_doorbells *db, const struct ohca_db_sizes *s, void *mem)
{
	place(db, s, (uintptr_t)mem);
}

/* ---- ringing -------------------------------------------------------------------- */

static bool bad(const struct ohca_doorbells *db, enum ohca_db_bad why)
{
	atomic_fetch_add_explicit(&db->bad[why], 1, memory_order_relaxed);
	return false;
}

void ohca_doorbells_set(const struct ohca_doorbells *db, enum ohca_ring_kind kind, uint32_t n)
{
	const struct ohca_db_ring *r = &db->ring[kind];

	atomic_fetch_or(&r->bits[n / 64], 1ull << (n % 64));
	atomic_fetch_or(&r->sum[n / 4096], 1ull << (n / 64 % 64));
	atomic_fetch_or(db->pending, OHCA_PEND_RING(kind));
}

static bool owned(const struct ohca_doorbells *db, enum ohca_db_kind kind, uint32_t n,
		  uint32_t uar)
{
	const uint32_t owner = n < db->size.max[kind] ? atomic_load(&db->owner[kind][n]) : 0;

	if (owner == uar + 1)
		return true;
	return bad(db, owner ? OHCA_DB_BAD_UAR : OHCA_DB_BAD_HANDLE);
}

static bool set(const struct ohca_doorbells *db, enum ohca_ring_kind ring, enum ohca_db_kind kind,
		uint32_t n, uint32_t uar)
{
	if (!owned(db, kind, n, uar))
		return false;
	ohca_doorbells_set(db, ring, n);
	return true;
}

static bool arm(const struct ohca_doorbells *db, uint32_t cqn, uint32_t uar, uint64_t val)
{
	const unsigned int sn = (unsigned int)OHCA_FIELD_GET(OHCA_CQ_ARM_SN, val);
	const uint64_t req = val & OHCA_CQ_ARM_SOLICITED ? OHCA_ARM_SOL(sn) : OHCA_ARM_ANY(sn);
	const uint64_t ci = OHCA_FIELD_GET(OHCA_CQ_ARM_CI, val) << OHCA_ARM_CI_SHIFT;
	uint64_t old;

	if (!owned(db, OHCA_DB_CQ, cqn, uar))
		return false;
	old = atomic_load(&db->arm[cqn]);
	while (!atomic_compare_exchange_weak(&db->arm[cqn], &old,
					     (old & OHCA_ARM_REQ) | req | ci))
		;
	ohca_doorbells_set(db, OHCA_RING_CQ, cqn);
	return true;
}

static bool eq(const struct ohca_doorbells *db, uint32_t uar, uint64_t val)
{
	const uint32_t eqn = (uint32_t)OHCA_FIELD_GET(OHCA_EQ_DB_EQN, val);
	const uint64_t word = OHCA_FIELD_GET(OHCA_EQ_DB_CI, val) | OHCA_EQ_WORD_VALID |
			      (val & OHCA_EQ_DB_ARM ? OHCA_EQ_WORD_ARM : 0);
	uint64_t old;

	if (uar != 0)
		return bad(db, OHCA_DB_BAD_UAR);
	if (eqn >= OHCA_DB_EQS)
		return bad(db, OHCA_DB_BAD_HANDLE);
	old = atomic_load(&db->eq[eqn]);
	while (!atomic_compare_exchange_weak(&db->eq[eqn], &old, (old & OHCA_EQ_WORD_ARM) | word))
		;
	atomic_fetch_or(db->pending, OHCA_PEND_EQ);
	return true;
}

bool ohca_doorbells_ring(const struct ohca_doorbells *db, uint32_t uar, uint32_t off, uint64_t val,
			 unsigned int size)
{
	const uint32_t n = (uint32_t)OHCA_FIELD_GET(OHCA_DB_HANDLE, val);

	if (size != 8 || (off & 7))
		return bad(db, OHCA_DB_BAD_SIZE);
	if (uar >= db->size.uars)
		return bad(db, OHCA_DB_BAD_UAR);
	switch (off) {
	case OHCA_UAR_SQ:
		return set(db, OHCA_RING_SQ, OHCA_DB_QP, n, uar);
	case OHCA_UAR_RQ:
		return set(db, OHCA_RING_RQ, OHCA_DB_QP, n, uar);
	case OHCA_UAR_SRQ:
		return set(db, OHCA_RING_SRQ, OHCA_DB_SRQ, n, uar);
	case OHCA_UAR_CQ_ARM:
		return arm(db, n, uar, val);
	case OHCA_UAR_EQ:
		return eq(db, uar, val);
	default:
		return bad(db, OHCA_DB_BAD_HANDLE);
	}
}

void ohca_doorbells_admin(const struct ohca_doorbells *db, uint32_t pi)
{
	atomic_store(db->aq_db, pi);
	atomic_fetch_or(db->pending, OHCA_PEND_AQ);
}
