/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Doorbells: any thread writes them to a few atomic words, which the owner reads.
 *
 * Ringing accesses only flat arrays that never move: the owner page of each number, a bitmap
 * of rung numbers with a summary bit for each of its words, a word for each CQ and EQ.
 * Writers set the lowest level first, the reader clears the highest first, so no ring is
 * lost; at worst the reader finds a number twice or an empty word.
 *
 * The reader serves as many as its allowance covers. It leaves the others rung and begins with
 * them the next time, so that no number is served twice before another that was rung.
 */
#include <stdlib.h>

#include "engine/base/features.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/cq.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "engine/object/srq.h"
#include "engine/object/to_transport.h"
#include "ohca_hw.h"

/*
 * CQ arm word: two bits for each of the four SNs that a request may carry (any event,
 * solicited only), and the consumer index of the last one. Requests with different SNs
 * do not replace each other: all but one are stale, and only the CQ knows which.
 */
#define ARM_ANY(sn)	(1ull << (sn))
#define ARM_SOL(sn)	(1ull << (4 + (sn)))
#define ARM_REQ		0xffull
#define ARM_CI_SHIFT	32

/* EQ word: index in the low half */
#define EQ_VALID	(1ull << 32)
#define EQ_ARM		(1ull << 33)

/* In the order in which they are served. SRQs come last: their list operations are large. */
enum ring_kind { RING_SQ, RING_RQ, RING_CQ, RING_SRQ, RING_NUM };

/**
 * struct ring - rung numbers of one kind
 * @bits: rung; @sum: one bit for each word of @bits
 * @next: the owner's: the first number that the last run has not looked at; 0: it was complete
 */
struct ring {
	_Atomic uint64_t *bits;
	_Atomic uint64_t *sum;
	uint32_t words, sums;
	uint32_t next;
};

struct ohca_doorbells {
	_Atomic uint32_t pending;	/* one bit a ring kind, RING_NUM: EQs */
	struct ring ring[RING_NUM];
	_Atomic uint32_t *owner[OHCA_DB_NUM];	/* UAR + 1; 0: no object */
	uint32_t max[OHCA_DB_NUM];
	_Atomic uint64_t *arm;
	_Atomic uint64_t eq[OHCA_MAX_EQ];
};

static int ring_init(struct ring *r, uint32_t max)
{
	r->words = (max + 63) / 64;
	r->sums = (r->words + 63) / 64;
	r->bits = calloc(r->words, sizeof(*r->bits));
	r->sum = calloc(r->sums, sizeof(*r->sum));
	return r->bits && r->sum ? 0 : -1;
}

int ohca_db_init(ohca_engine *e)
{
	struct ohca_doorbells *db = calloc(1, sizeof(*db));

	e->db = db;
	if (!db)
		return -1;
	db->max[OHCA_DB_QP] = e->max_qp;
	db->max[OHCA_DB_SRQ] = e->max_srq;
	db->max[OHCA_DB_CQ] = e->max_cq;
	for (int i = 0; i < OHCA_DB_NUM; i++) {
		db->owner[i] = calloc(db->max[i], sizeof(*db->owner[i]));
		if (!db->owner[i])
			return -1;
	}
	db->arm = calloc(e->max_cq, sizeof(*db->arm));
	if (!db->arm || ring_init(&db->ring[RING_SQ], e->max_qp) ||
	    ring_init(&db->ring[RING_RQ], e->max_qp) ||
	    ring_init(&db->ring[RING_SRQ], e->max_srq) ||
	    ring_init(&db->ring[RING_CQ], e->max_cq))
		return -1;
	return 0;
}

void ohca_db_free(ohca_engine *e)
{
	struct ohca_doorbells *db = e->db;

	if (!db)
		return;
	for (int i = 0; i < RING_NUM; i++) {
		free(db->ring[i].bits);
		free(db->ring[i].sum);
	}
	for (int i = 0; i < OHCA_DB_NUM; i++)
		free(db->owner[i]);
	free(db->arm);
	free(db);
	e->db = NULL;
}

void ohca_db_own(ohca_engine *e, enum ohca_db_kind kind, uint32_t n, uint32_t uar)
{
	if (kind == OHCA_DB_CQ)
		atomic_store(&e->db->arm[n], 0);
	atomic_store(&e->db->owner[kind][n], uar + 1);
}

void ohca_db_disown(ohca_engine *e, enum ohca_db_kind kind, uint32_t n)
{
	atomic_store(&e->db->owner[kind][n], 0);
}

void ohca_db_eq_clear(ohca_engine *e, uint32_t eqn)
{
	atomic_store(&e->db->eq[eqn], 0);
}

/* ---- any thread ------------------------------------------------------------------- */

static void db_bad(ohca_engine *e, enum ohca_counter id)
{
	atomic_fetch_add_explicit(&e->cnt[id], 1, memory_order_relaxed);
}

static void ring_set(struct ohca_doorbells *db, enum ring_kind kind, uint32_t n)
{
	struct ring *r = &db->ring[kind];

	atomic_fetch_or(&r->bits[n / 64], 1ull << (n % 64));
	atomic_fetch_or(&r->sum[n / 4096], 1ull << (n / 64 % 64));
	atomic_fetch_or(&db->pending, 1u << kind);
}

void ohca_db_srq_again(ohca_engine *e, uint32_t srqn)
{
	ring_set(e->db, RING_SRQ, srqn);
}

static bool owned(ohca_engine *e, enum ohca_db_kind kind, uint32_t n, uint32_t uar)
{
	uint32_t owner = n < e->db->max[kind] ? atomic_load(&e->db->owner[kind][n]) : 0;

	if (owner == 0)
		db_bad(e, OHCA_CNT_DB_BAD_HANDLE);
	else if (owner != uar + 1)
		db_bad(e, OHCA_CNT_DB_BAD_UAR);
	return owner == uar + 1;
}

static void arm_set(struct ohca_doorbells *db, uint32_t cqn, uint64_t val)
{
	unsigned int sn = (unsigned int)OHCA_FIELD_GET(OHCA_CQ_ARM_SN, val);
	uint64_t req = val & OHCA_CQ_ARM_SOLICITED ? ARM_SOL(sn) : ARM_ANY(sn);
	uint64_t ci = OHCA_FIELD_GET(OHCA_CQ_ARM_CI, val) << ARM_CI_SHIFT;
	uint64_t old = atomic_load(&db->arm[cqn]);

	while (!atomic_compare_exchange_weak(&db->arm[cqn], &old, (old & ARM_REQ) | req | ci))
		;
	ring_set(db, RING_CQ, cqn);
}

static void eq_set(struct ohca_doorbells *db, uint32_t eqn, uint64_t val)
{
	uint64_t ci = OHCA_FIELD_GET(OHCA_EQ_DB_CI, val);
	uint64_t arm = val & OHCA_EQ_DB_ARM ? EQ_ARM : 0;
	uint64_t old = atomic_load(&db->eq[eqn]);

	while (!atomic_compare_exchange_weak(&db->eq[eqn], &old,
					     (old & EQ_ARM) | arm | EQ_VALID | ci))
		;
	atomic_fetch_or(&db->pending, 1u << RING_NUM);
}

uint64_t ohca_uar_read(ohca_engine *e, uint32_t off, unsigned int size)
{
	if (!ohca_feature(e, OHCA_FEATURE_CLOCK) || (size != 4 && size != 8))
		return 0;
	if (off == OHCA_UAR_CLOCK)
		return size == 8 ? ohca_now(e) : (uint32_t)ohca_now(e);
	if (off == OHCA_UAR_CLOCK + 4 && size == 4)
		return ohca_now(e) >> 32;
	return 0;
}

void ohca_doorbell(ohca_engine *e, uint32_t uar, uint32_t off, uint64_t val, unsigned int size)
{
	uint32_t n = (uint32_t)OHCA_FIELD_GET(OHCA_DB_HANDLE, val);

	if (size != 8 || (off & 7)) {
		db_bad(e, OHCA_CNT_DB_BAD_SIZE);
		return;
	}
	if (uar >= e->cfg.num_uars) {
		db_bad(e, OHCA_CNT_DB_BAD_UAR);
		return;
	}
	switch (off) {
	case OHCA_UAR_SQ:
		if (!owned(e, OHCA_DB_QP, n, uar))
			return;
		ring_set(e->db, RING_SQ, n);
		break;
	case OHCA_UAR_RQ:
		if (!owned(e, OHCA_DB_QP, n, uar))
			return;
		ring_set(e->db, RING_RQ, n);
		break;
	case OHCA_UAR_SRQ:
		if (!owned(e, OHCA_DB_SRQ, n, uar))
			return;
		ring_set(e->db, RING_SRQ, n);
		break;
	case OHCA_UAR_CQ_ARM:
		if (!owned(e, OHCA_DB_CQ, n, uar))
			return;
		arm_set(e->db, n, val);
		break;
	case OHCA_UAR_EQ:
		n = (uint32_t)OHCA_FIELD_GET(OHCA_EQ_DB_EQN, val);
		if (uar != 0) {
			db_bad(e, OHCA_CNT_DB_BAD_UAR);
			return;
		}
		if (n >= OHCA_MAX_EQ) {
			db_bad(e, OHCA_CNT_DB_BAD_HANDLE);
			return;
		}
		eq_set(e->db, n, val);
		break;
	default:
		db_bad(e, OHCA_CNT_DB_BAD_HANDLE);
		return;
	}
	e->ops.kick(e->h);
}

/* ---- owner ------------------------------------------------------------------------ */

static void ring_one(ohca_engine *e, enum ring_kind kind, uint32_t n)
{
	uint64_t w;
	unsigned int sn;

	switch (kind) {
	case RING_SQ:
		if (e->qp[n])
			ohca_xp_kick_sq(e, e->qp[n]);
		break;
	case RING_RQ:
		if (e->qp[n])
			ohca_xp_kick_rq(e, e->qp[n]);
		break;
	case RING_SRQ:
		if (e->srq[n])
			ohca_srq_kick(e, e->srq[n]);
		break;
	case RING_CQ:
		w = atomic_exchange(&e->db->arm[n], 0);
		if (!e->cq[n])
			break;
		sn = e->cq[n]->arm_sn & 3;
		if (w & (ARM_ANY(sn) | ARM_SOL(sn)))
			ohca_cq_arm(e, e->cq[n], !!(w & ARM_ANY(sn)),
				    (uint32_t)(w >> ARM_CI_SHIFT));
		break;
	default:
		break;
	}
}

/* These numbers of a word stay rung. */
static void ring_keep(struct ring *r, uint32_t word, uint64_t bits)
{
	if (!bits)
		return;
	atomic_fetch_or(&r->bits[word], bits);
	atomic_fetch_or(&r->sum[word / 64], 1ull << word % 64);
}

/* Serve the rung numbers of a word from @first on. Return: whether all of them were served. */
static bool ring_word(ohca_engine *e, enum ring_kind kind, uint32_t word, uint32_t first)
{
	struct ring *r = &e->db->ring[kind];
	uint64_t bits = atomic_exchange(&r->bits[word], 0);

	if (first > word * 64) {
		uint64_t below = first - word * 64 < 64 ? (1ull << first % 64) - 1 : ~0ull;

		ring_keep(r, word, bits & below);
		bits &= ~below;
	}
	for (; bits; bits &= bits - 1) {
		uint32_t n = word * 64 + (uint32_t)__builtin_ctzll(bits);

		if (!ohca_work_left(e)) {
			ring_keep(r, word, bits);
			r->next = n;
			return false;
		}
		ohca_work(e, OHCA_WORK_STEP);
		ring_one(e, kind, n);
	}
	return true;
}

/* Serve the rung numbers from @first on. Return: whether all of them were served. */
static bool ring_from(ohca_engine *e, enum ring_kind kind, uint32_t first)
{
	struct ring *r = &e->db->ring[kind];

	for (uint32_t s = first / 4096; s < r->sums; s++) {
		uint64_t sum = atomic_load_explicit(&r->sum[s], memory_order_relaxed) ?
			       atomic_exchange(&r->sum[s], 0) : 0;

		for (; sum; sum &= sum - 1) {
			if (ring_word(e, kind, s * 64 + (uint32_t)__builtin_ctzll(sum), first))
				continue;
			atomic_fetch_or(&r->sum[s], sum);
			return false;
		}
	}
	return true;
}

/* Serve the rung numbers, those first that the last run left. */
static void ring_run(ohca_engine *e, enum ring_kind kind)
{
	struct ring *r = &e->db->ring[kind];
	uint32_t first = r->next;

	r->next = 0;
	if ((first && !ring_from(e, kind, first)) || !ring_from(e, kind, 0))
		atomic_fetch_or(&e->db->pending, 1u << kind);
}

/*
 * The next kind begins, and kinds are left with it, a bit each in @kinds: they share what is left
 * of the allowance since @begin, so that none of them keeps another from being served.
 */
static void ring_share(ohca_engine *e, uint64_t begin, uint32_t kinds)
{
	unsigned int n = 0;
	uint64_t used = e->work - begin;
	uint64_t left = used < OHCA_WORK_DOORBELLS ? OHCA_WORK_DOORBELLS - used : 0;

	for (; kinds; kinds &= kinds - 1)
		n++;
	ohca_work_begin(e, left / n);
}

/* Serve the EQs that were rung, or that the last run has not finished. */
static void eqs_run(ohca_engine *e)
{
	struct ohca_doorbells *db = e->db;
	bool more = false;

	for (uint32_t n = 0; n < OHCA_MAX_EQ; n++) {
		uint64_t w = atomic_load_explicit(&db->eq[n], memory_order_relaxed) ?
			     atomic_exchange(&db->eq[n], 0) : 0;

		if (w & EQ_VALID) {
			if (e->eq[n])
				ohca_eq_doorbell(e, e->eq[n], (uint32_t)w, w & EQ_ARM);
			else
				db_bad(e, OHCA_CNT_DB_BAD_HANDLE);
		}
		if (e->eq[n])
			more |= ohca_eq_serve(e, e->eq[n]);
	}
	if (more)
		atomic_fetch_or(&db->pending, 1u << RING_NUM);
}

bool ohca_doorbells_run(ohca_engine *e)
{
	struct ohca_doorbells *db = e->db;
	uint64_t begin = e->work;
	uint32_t pending;

	if (!ohca_db_pending(e))
		return false;
	pending = atomic_exchange(&db->pending, 0);
	/* EQs first, to make room for the events of CQs; what they leave is for the others */
	ohca_work_begin(e, OHCA_WORK_EQS);
	if (pending & 1u << RING_NUM)
		eqs_run(e);
	for (unsigned int k = 0; k < RING_NUM; k++) {
		if (!(pending & 1u << k))
			continue;
		ring_share(e, begin, pending & ((1u << RING_NUM) - (1u << k)));
		ring_run(e, (enum ring_kind)k);
	}
	return true;
}

bool ohca_db_pending(const ohca_engine *e)
{
	return atomic_load(&e->db->pending) != 0;
}

void ohca_db_clear(ohca_engine *e)
{
	struct ohca_doorbells *db = e->db;

	atomic_store(&db->pending, 0);
	for (int k = 0; k < RING_NUM; k++) {
		db->ring[k].next = 0;
		for (uint32_t s = 0; s < db->ring[k].sums; s++) {
			uint64_t sum = atomic_exchange(&db->ring[k].sum[s], 0);

			for (; sum; sum &= sum - 1)
				atomic_store(&db->ring[k].bits[s * 64 +
					     (uint32_t)__builtin_ctzll(sum)], 0);
		}
	}
	for (uint32_t n = 0; n < OHCA_MAX_EQ; n++)
		atomic_store(&db->eq[n], 0);
}
