/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pools of windows, receive WQEs, rings of responses and notes of early packets. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/transport/ahead.h"
#include "engine/transport/pool.h"
#include "engine/transport/responder.h"
#include "engine/transport/sched.h"
#include "engine/transport/sq.h"
#include "ohca_hw.h"

static size_t win_bbs(unsigned int log)
{
	return ((1u << log) + OHCA_MAX_WQE_BBS - 1) << OHCA_BB_SHIFT;
}

size_t ohca_win_bytes(unsigned int log)
{
	size_t n = sizeof(struct ohca_sqwin) + win_bbs(log) +
		   sizeof(struct ohca_swqe) * (1u << log);

	return (n + 127) & ~(size_t)63;
}

/* Bytes of the budget that a window needs beyond the reservation of its QP. */
static size_t win_extra(unsigned int log)
{
	return ohca_win_bytes(log) - ohca_win_bytes(OHCA_MIN_LOG_WIN);
}

struct ohca_sqwin *ohca_win_get(ohca_engine *e, unsigned int log_sq)
{
	unsigned int log = log_sq < OHCA_MIN_LOG_WIN ? OHCA_MIN_LOG_WIN :
			   log_sq > OHCA_MAX_LOG_WIN ? OHCA_MAX_LOG_WIN : log_sq;
	struct ohca_sqwin *w;

	if (log > OHCA_MIN_LOG_WIN && !ohca_mem_reserve(e, win_extra(log)))
		log = OHCA_MIN_LOG_WIN;
	w = e->sched->win_free[log];
	if (w) {
		e->sched->win_free[log] = w->next;
		e->sched->win_num[log]--;
		return w;
	}
	/* the number of allocated windows is bounded by the number of busy QPs */
	w = aligned_alloc(64, ohca_win_bytes(log));
	if (!w) {
		ohca_mem_release(e, win_extra(log));
		return NULL;
	}
	w->log = (uint8_t)log;
	w->mask = (1u << log) - 1;
	w->bb = (uint8_t *)w + ((sizeof(*w) + 63) & ~(size_t)63);
	w->wqe = (struct ohca_swqe *)(void *)(w->bb + win_bbs(log));
	return w;
}

void ohca_win_put(ohca_engine *e, struct ohca_sqwin *w)
{
	ohca_mem_release(e, win_extra(w->log));
	if (e->sched->win_num[w->log] == OHCA_POOL_KEEP) {
		free(w);
		return;
	}
	e->sched->win_num[w->log]++;
	w->next = e->sched->win_free[w->log];
	e->sched->win_free[w->log] = w;
}

struct ohca_rwqe *ohca_rwqe_get(ohca_engine *e)
{
	struct ohca_rwqe_slot *s = e->sched->rwqe_free;

	if (s) {
		e->sched->rwqe_free = s->next;
		e->sched->rwqe_num--;
	} else {
		s = malloc(sizeof(*s));
	}
	return s ? &s->r : NULL;
}

void ohca_rwqe_put(ohca_engine *e, struct ohca_rwqe *r)
{
	struct ohca_rwqe_slot *s = ohca_container_of(r, struct ohca_rwqe_slot, r);

	if (e->sched->rwqe_num == OHCA_POOL_KEEP) {
		free(s);
		return;
	}
	e->sched->rwqe_num++;
	s->next = e->sched->rwqe_free;
	e->sched->rwqe_free = s;
}

struct ohca_rdring *ohca_rdring_get(ohca_engine *e)
{
	struct ohca_rdring *r = e->sched->rd_free;

	if (r) {
		e->sched->rd_free = r->next;
		e->sched->rd_num--;
	} else {
		r = malloc(sizeof(*r));
	}
	return r;
}

void ohca_rdring_put(ohca_engine *e, struct ohca_rdring *r)
{
	if (e->sched->rd_num == OHCA_POOL_KEEP) {
		free(r);
		return;
	}
	e->sched->rd_num++;
	r->next = e->sched->rd_free;
	e->sched->rd_free = r;
}

struct ohca_ahead *ohca_ahead_get(ohca_engine *e)
{
	struct ohca_ahead *a = e->sched->ahead_free;

	if ((uint64_t)(e->sched->ahead_used + 1) * sizeof(*a) > e->mem_max / OHCA_AHEAD_SHARE) {
		ohca_count(e, OHCA_CNT_NO_MEMORY);
		return NULL;
	}
	if (!ohca_mem_reserve(e, sizeof(*a)))
		return NULL;
	if (a) {
		e->sched->ahead_free = a->next;
		e->sched->ahead_num--;
	} else {
		a = malloc(sizeof(*a));
	}
	if (!a) {
		ohca_mem_release(e, sizeof(*a));
		return NULL;
	}
	memset(a, 0, offsetof(struct ohca_ahead, pkt));
	e->sched->ahead_used++;
	return a;
}

void ohca_ahead_put(ohca_engine *e, struct ohca_ahead *a)
{
	ohca_mem_release(e, sizeof(*a));
	e->sched->ahead_used--;
	if (e->sched->ahead_num == OHCA_POOL_KEEP) {
		free(a);
		return;
	}
	e->sched->ahead_num++;
	a->next = e->sched->ahead_free;
	e->sched->ahead_free = a;
}

bool ohca_pools_free_some(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;

	for (unsigned int i = 0; i <= OHCA_MAX_LOG_WIN; i++)
		for (; s->win_free[i]; s->win_num[i]--) {
			struct ohca_sqwin *w = s->win_free[i];

			if (!ohca_work_left(e))
				return false;
			ohca_work_free(e, ohca_win_bytes(i));
			s->win_free[i] = w->next;
			free(w);
		}
	for (; s->rwqe_free; s->rwqe_num--) {
		struct ohca_rwqe_slot *r = s->rwqe_free;

		if (!ohca_work_left(e))
			return false;
		ohca_work_free(e, sizeof(*r));
		s->rwqe_free = r->next;
		free(r);
	}
	for (; s->rd_free; s->rd_num--) {
		struct ohca_rdring *r = s->rd_free;

		if (!ohca_work_left(e))
			return false;
		ohca_work_free(e, sizeof(*r));
		s->rd_free = r->next;
		free(r);
	}
	for (; s->ahead_free; s->ahead_num--) {
		struct ohca_ahead *a = s->ahead_free;

		if (!ohca_work_left(e))
			return false;
		ohca_work_free(e, sizeof(*a));
		s->ahead_free = a->next;
		free(a);
	}
	return true;
}
