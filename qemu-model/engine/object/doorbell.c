/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The owner's half of the doorbells (front/doorbell.h). Any thread may ring them.
 *
 * Another process may write the arrays, so they may contain anything at any time. The owner reads
 * each word once and masks it, and counts each word that it reads and each number that it serves as
 * work.
 *
 * The owner serves as many numbers as its allowance of work covers. It leaves the others rung and
 * begins with them the next time, so it serves no number twice before another that was rung.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/features.h"
#include "engine/base/ids.h"
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/cq.h"
#include "engine/object/doorbell.h"
#include "engine/object/eq.h"
#include "engine/object/srq.h"
#include "engine/object/to_transport.h"
#include "ohca_hw.h"

#define ALIGN	64u	/* alignment of the arrays, bytes */
#define SOON	8u	/* how many numbers ahead their state is prefetched */

_Static_assert(OHCA_DB_EQS == OHCA_MAX_EQ, "a word for each EQ");

static struct ohca_doorbells *bells(const ohca_engine *e)
{
	return &e->db->at;
}

int ohca_db_init(ohca_engine *e, const struct ohca_db_sizes *s)
{
	struct ohca_db *db = calloc(1, sizeof(*db));
	void *mem = e->cfg.doorbells;

	e->db = db;
	if (!db)
		return -1;
	if (!mem) {
		/* calloc(): the system allocates pages only when a number is used */
		db->own = calloc(1, ohca_doorbells_bytes(s) + ALIGN);
		if (!db->own)
			return -1;
		mem = (uint8_t *)db->own + (ALIGN - (uintptr_t)db->own % ALIGN);
	}
	ohca_doorbells_place(&db->at, s, mem);
	return 0;
}

void ohca_db_free(ohca_engine *e)
{
	if (e->db)
		free(e->db->own);
	free(e->db);
	e->db = NULL;
}

void ohca_db_own(ohca_engine *e, enum ohca_db_kind kind, uint32_t n, uint32_t uar)
{
	if (kind == OHCA_DB_CQ)
		atomic_store(&bells(e)->arm[n], 0);
	atomic_store(&bells(e)->owner[kind][n], uar + 1);
}

void ohca_db_disown(ohca_engine *e, enum ohca_db_kind kind, uint32_t n)
{
	/* the engine of an ended life has no doorbells; its numbers may be in use again */
	if (e->db)
		atomic_store(&bells(e)->owner[kind][n], 0);
}

/*
 * Clear the owners in words of 64 numbers, if a number of the word is in use: other words may have
 * no page of memory yet.
 */
static void disown(ohca_engine *e, enum ohca_db_kind kind, const struct ohca_ids *ids)
{
	_Atomic uint32_t *owner = bells(e)->owner[kind];

	for (uint32_t n = ohca_ids_from(ids, 0); n != OHCA_NO_ID;
	     n = ohca_ids_from(ids, (n | 63) + 1)) {
		ohca_work(e, OHCA_WORK_STEP);
		for (uint32_t i = n & ~63u; i < ids->max && i <= (n | 63); i++)
			atomic_store_explicit(&owner[i], 0, memory_order_relaxed);
	}
}

/* Relaxed, since no other thread reads @to before the move is complete. */
#define move_word(to, from, i) \
	atomic_store_explicit(&(to)[i], atomic_load_explicit(&(from)[i], memory_order_relaxed), \
			      memory_order_relaxed)

/* Move rung numbers: a word has some only if its bit in the sum is set. */
static void move_ring(const struct ohca_db_ring *from, const struct ohca_db_ring *to)
{
	for (uint32_t s = 0; s < from->sums; s++) {
		uint64_t sum = atomic_load(&from->sum[s]) & from->sum_mask;

		atomic_store(&to->sum[s], sum);
		for (; sum; sum &= sum - 1) {
			const uint32_t word = s * 64 + (uint32_t)__builtin_ctzll(sum);

			move_word(to->bits, from->bits, word);
		}
	}
}

/* Move words of 64 numbers, the same words as disown(). */
static void move_numbers(const struct ohca_doorbells *from, const struct ohca_doorbells *to,
			 enum ohca_db_kind kind, const struct ohca_ids *ids)
{
	for (uint32_t n = ohca_ids_from(ids, 0); n != OHCA_NO_ID;
	     n = ohca_ids_from(ids, (n | 63) + 1)) {
		for (uint32_t i = n & ~63u; i < ids->max && i <= (n | 63); i++) {
			move_word(to->owner[kind], from->owner[kind], i);
			if (kind == OHCA_DB_CQ)
				move_word(to->arm, from->arm, i);
		}
	}
}

void ohca_db_move(ohca_engine *e, void *mem)
{
	const struct ohca_doorbells from = *bells(e);
	struct ohca_doorbells *to = bells(e);

	ohca_doorbells_place(to, &from.size, mem);
	for (unsigned int i = 0; i < OHCA_DB_BAD_NUM; i++)
		move_word(to->bad, from.bad, i);
	for (unsigned int i = 0; i < OHCA_DB_EQS; i++)
		move_word(to->eq, from.eq, i);
	for (unsigned int i = 0; i < OHCA_RING_NUM; i++)
		move_ring(&from.ring[i], &to->ring[i]);
	move_numbers(&from, to, OHCA_DB_QP, &e->qp_ids);
	move_numbers(&from, to, OHCA_DB_CQ, &e->cq_ids);
	move_numbers(&from, to, OHCA_DB_SRQ, &e->srq_ids);
	atomic_store(to->aq_db, atomic_load(from.aq_db));
	atomic_fetch_or(to->pending, atomic_load(from.pending));
}

void ohca_db_disown_all(ohca_engine *e)
{
	disown(e, OHCA_DB_QP, &e->qp_ids);
	disown(e, OHCA_DB_CQ, &e->cq_ids);
	disown(e, OHCA_DB_SRQ, &e->srq_ids);
}

void ohca_db_eq_clear(ohca_engine *e, uint32_t eqn)
{
	atomic_store(&bells(e)->eq[eqn], 0);
}

void ohca_db_srq_again(ohca_engine *e, uint32_t srqn)
{
	ohca_doorbells_set(bells(e), OHCA_RING_SRQ, srqn);
}

uint64_t ohca_db_bad(const ohca_engine *e, enum ohca_db_bad why)
{
	return atomic_load_explicit(&bells(e)->bad[why], memory_order_relaxed);
}

/* ---- any thread ------------------------------------------------------------------- */

void ohca_doorbell(ohca_engine *e, uint32_t uar, uint32_t off, uint64_t val, unsigned int size)
{
	if (ohca_doorbells_ring(bells(e), uar, off, val, size))
		e->ops.kick(e->h);
}

void ohca_admin_doorbell(ohca_engine *e, uint32_t pi)
{
	ohca_doorbells_admin(bells(e), pi);
	if (ohca_running(e))
		e->ops.kick(e->h);
}

/* ---- owner ------------------------------------------------------------------------ */

/* Prefetch the state of a number that is served soon. */
static void ring_soon(const ohca_engine *e, enum ohca_ring_kind kind, uint32_t n)
{
	if (kind == OHCA_RING_SQ && e->qp[n])
		ohca_xp_soon(e->qp[n]);
}

/* Serve one number; @several: other numbers are rung. */
static void ring_one(ohca_engine *e, enum ohca_ring_kind kind, uint32_t n, bool several)
{
	uint64_t w;
	unsigned int sn;

	switch (kind) {
	case OHCA_RING_SQ:
		if (e->qp[n])
			ohca_xp_kick_sq(e, e->qp[n], several);
		break;
	case OHCA_RING_RQ:
		if (e->qp[n])
			ohca_xp_kick_rq(e, e->qp[n]);
		break;
	case OHCA_RING_SRQ:
		if (e->srq[n])
			ohca_srq_kick(e, e->srq[n]);
		break;
	case OHCA_RING_CQ:
		w = atomic_exchange(&bells(e)->arm[n], 0);
		if (!e->cq[n])
			break;
		sn = e->cq[n]->arm_sn & 3;
		if (w & (OHCA_ARM_ANY(sn) | OHCA_ARM_SOL(sn)))
			ohca_cq_arm(e, e->cq[n], !!(w & OHCA_ARM_ANY(sn)),
				    (uint32_t)(w >> OHCA_ARM_CI_SHIFT));
		break;
	default:
		break;
	}
}

/* Ring numbers of a word again. */
static void ring_keep(struct ohca_db_ring *r, uint32_t word, uint64_t bits)
{
	if (!bits)
		return;
	atomic_fetch_or(&r->bits[word], bits);
	atomic_fetch_or(&r->sum[word / 64], 1ull << word % 64);
}

/*
 * Serve the rung numbers of a word from @first on; @several: other words have rung numbers.
 * Return: whether all of them were served.
 */
static bool ring_word(ohca_engine *e, enum ohca_ring_kind kind, uint32_t word, uint32_t first,
		      bool several)
{
	struct ohca_db_ring *r = &bells(e)->ring[kind];
	uint64_t bits, below, soon;

	if (first < word * 64)
		first = word * 64;
	if (!ohca_work_left(e)) {
		e->db->next[kind] = first;
		return false;
	}
	ohca_work(e, OHCA_WORK_LOOK);
	below = (1ull << first % 64) - 1;
	bits = atomic_exchange(&r->bits[word], 0) & r->bits_mask;
	ring_keep(r, word, bits & below);
	bits &= ~below;
	soon = bits & (bits - 1);
	several |= soon != 0;
	for (unsigned int i = 0; i < SOON && soon; i++, soon &= soon - 1)
		ring_soon(e, kind, word * 64 + (uint32_t)__builtin_ctzll(soon));
	for (; bits; bits &= bits - 1) {
		uint32_t n = word * 64 + (uint32_t)__builtin_ctzll(bits);

		if (!ohca_work_left(e)) {
			ring_keep(r, word, bits);
			e->db->next[kind] = n;
			return false;
		}
		ohca_work(e, OHCA_WORK_STEP);
		if (soon) {
			ring_soon(e, kind, word * 64 + (uint32_t)__builtin_ctzll(soon));
			soon &= soon - 1;
		}
		ring_one(e, kind, n, several);
	}
	return true;
}

/* Serve the rung numbers from @first on. Return: whether all of them were served. */
static bool ring_from(ohca_engine *e, enum ohca_ring_kind kind, uint32_t first)
{
	struct ohca_db_ring *r = &bells(e)->ring[kind];
	uint64_t below = (1ull << first / 64 % 64) - 1;

	for (uint32_t s = first / 4096; s < r->sums; s++, below = 0) {
		uint64_t sum = atomic_load_explicit(&r->sum[s], memory_order_relaxed) ?
			       atomic_exchange(&r->sum[s], 0) & r->sum_mask : 0;

		if (sum & below)
			atomic_fetch_or(&r->sum[s], sum & below);
		for (sum &= ~below; sum; sum &= sum - 1) {
			if (ring_word(e, kind, s * 64 + (uint32_t)__builtin_ctzll(sum), first,
				      sum & (sum - 1)))
				continue;
			atomic_fetch_or(&r->sum[s], sum);
			return false;
		}
	}
	return true;
}

/* Serve the rung numbers, first those that the last run left. */
static void ring_run(ohca_engine *e, enum ohca_ring_kind kind)
{
	uint32_t first = e->db->next[kind];

	e->db->next[kind] = 0;
	if ((first && !ring_from(e, kind, first)) || !ring_from(e, kind, 0))
		atomic_fetch_or(bells(e)->pending, OHCA_PEND_RING(kind));
}

/*
 * Begin the next kind. @kinds: a bit for each kind that is left, including the next. They share
 * what is left of the allowance since @begin, so that each of them is served.
 */
static void ring_share(ohca_engine *e, uint64_t begin, uint32_t kinds)
{
	unsigned int n = 0;
	uint64_t used = e->work - begin;
	uint64_t left = used < OHCA_WORK_DOORBELLS ? OHCA_WORK_DOORBELLS - used : 0;

	for (; kinds; kinds &= kinds - 1)
		n++;
	ohca_work_begin(e, n > 1 ? left / n : left);
}

/* Serve the EQs that were rung, or that the last run has not finished. */
static void eqs_run(ohca_engine *e)
{
	struct ohca_doorbells *db = bells(e);
	bool more = false;

	for (uint32_t n = 0; n < OHCA_MAX_EQ; n++) {
		uint64_t w = atomic_load_explicit(&db->eq[n], memory_order_relaxed) ?
			     atomic_exchange(&db->eq[n], 0) : 0;

		if (w & OHCA_EQ_WORD_VALID) {
			if (e->eq[n])
				ohca_eq_doorbell(e, e->eq[n], (uint32_t)w, w & OHCA_EQ_WORD_ARM);
			else
				atomic_fetch_add(&db->bad[OHCA_DB_BAD_HANDLE], 1);
		}
		if (e->eq[n])
			more |= ohca_eq_serve(e, e->eq[n]);
	}
	if (more)
		atomic_fetch_or(db->pending, OHCA_PEND_EQ);
}

/* Read and clear the pending bits, except the host's bit. */
static uint32_t take_pending(const ohca_engine *e)
{
	_Atomic uint32_t *pending = bells(e)->pending;
	uint32_t p = atomic_exchange(pending, 0);

	if (p & OHCA_PEND_ATTN)
		atomic_fetch_or(pending, OHCA_PEND_ATTN);
	return p;
}

bool ohca_doorbells_run(ohca_engine *e)
{
	uint64_t begin = e->work;
	uint32_t pending;

	if (!ohca_db_pending(e))
		return false;
	pending = take_pending(e);
	/* EQs first, to make room for the events of CQs; the others may use what EQs leave */
	ohca_work_begin(e, OHCA_WORK_EQS);
	if (pending & OHCA_PEND_EQ)
		eqs_run(e);
	for (unsigned int k = 0; k < OHCA_RING_NUM; k++) {
		if (!(pending & OHCA_PEND_RING(k)))
			continue;
		ring_share(e, begin, pending & (OHCA_PEND_EQ - OHCA_PEND_RING(k)));
		ring_run(e, (enum ohca_ring_kind)k);
	}
	return true;
}

bool ohca_db_pending(const ohca_engine *e)
{
	return atomic_load(bells(e)->pending) & OHCA_PEND_ENGINE;
}

void ohca_db_ignore(ohca_engine *e)
{
	if (ohca_db_pending(e))
		take_pending(e);
}

uint32_t ohca_db_admin(const ohca_engine *e)
{
	return atomic_load(bells(e)->aq_db);
}

void ohca_db_admin_reset(ohca_engine *e)
{
	atomic_store(bells(e)->aq_db, 0);
}

void ohca_db_clear(ohca_engine *e)
{
	struct ohca_doorbells *db = bells(e);

	take_pending(e);
	memset(e->db->next, 0, sizeof(e->db->next));
	for (int k = 0; k < OHCA_RING_NUM; k++) {
		struct ohca_db_ring *r = &db->ring[k];

		ohca_work(e, (r->sums + r->words) * sizeof(uint64_t));
		for (uint32_t s = 0; s < r->sums; s++)
			atomic_store(&r->sum[s], 0);
		/* another process may have set bits without their bits in the sum */
		for (uint32_t w = 0; w < r->words; w++)
			atomic_store(&r->bits[w], 0);
	}
	for (uint32_t n = 0; n < OHCA_MAX_EQ; n++)
		atomic_store(&db->eq[n], 0);
}
