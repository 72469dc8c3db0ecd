/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Timers of QPs: a heap with lazy keys. Moving a timer to later costs nothing; the heap moves it
 * when the old time has come.
 */
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/transport/completer.h"
#include "engine/transport/sched.h"
#include "engine/transport/timer.h"
#include "engine/transport/xport.h"

static void heap_put(struct ohca_sched *s, uint32_t i, struct ohca_xport *xp)
{
	s->heap[i] = xp;
	xp->sched.heap = i + 1;
}

static void heap_up(struct ohca_sched *s, uint32_t i, struct ohca_xport *xp)
{
	while (i) {
		uint32_t parent = (i - 1) / 2;

		if (s->heap[parent]->sched.heap_key <= xp->sched.heap_key)
			break;
		heap_put(s, i, s->heap[parent]);
		i = parent;
	}
	heap_put(s, i, xp);
}

static void heap_down(struct ohca_sched *s, uint32_t i, struct ohca_xport *xp)
{
	for (;;) {
		uint32_t kid = 2 * i + 1;

		if (kid >= s->heap_num)
			break;
		if (kid + 1 < s->heap_num &&
		    s->heap[kid + 1]->sched.heap_key < s->heap[kid]->sched.heap_key)
			kid++;
		if (s->heap[kid]->sched.heap_key >= xp->sched.heap_key)
			break;
		heap_put(s, i, s->heap[kid]);
		i = kid;
	}
	heap_put(s, i, xp);
}

void ohca_timer_forget(struct ohca_sched *s, struct ohca_xport *xp)
{
	uint32_t i = xp->sched.heap - 1;
	struct ohca_xport *last;

	if (!xp->sched.heap)
		return;
	xp->sched.heap = 0;
	last = s->heap[--s->heap_num];
	if (last == xp)
		return;
	if (i && s->heap[(i - 1) / 2]->sched.heap_key > last->sched.heap_key)
		heap_up(s, i, last);
	else
		heap_down(s, i, last);
}

void ohca_timer_set(ohca_engine *e, struct ohca_xport *xp, uint64_t t)
{
	struct ohca_sched *s = e->sched;

	xp->sched.timer = t;
	if (xp->sched.heap ? t >= xp->sched.heap_key : t == OHCA_NO_DEADLINE)
		return;
	xp->sched.heap_key = t;
	if (xp->sched.heap)
		heap_up(s, xp->sched.heap - 1, xp);
	else
		heap_up(s, s->heap_num++, xp);
}

void ohca_timers_run(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;
	/* a timer that expires may be set again, also to the past, so the loop is bounded */
	uint32_t bound = s->heap_num;

	while (bound-- && s->heap_num && s->heap[0]->sched.heap_key <= s->now &&
	       ohca_work_left(e)) {
		struct ohca_xport *xp = s->heap[0];

		ohca_work(e, OHCA_WORK_WQE);
		if (xp->sched.timer > s->now) {
			if (xp->sched.timer == OHCA_NO_DEADLINE) {
				ohca_timer_forget(s, xp);
			} else {
				xp->sched.heap_key = xp->sched.timer;
				heap_down(s, 0, xp);
			}
			continue;
		}
		ohca_timer_forget(s, xp);
		xp->sched.timer = OHCA_NO_DEADLINE;
		ohca_comp_timer(e, xp->qp);
	}
}

int ohca_timers_grow(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;
	uint32_t cap = s->heap_cap ? 2 * s->heap_cap : 64;
	struct ohca_xport **h;

	if (s->num_xp < s->heap_cap)
		return 0;
	h = ohca_mem_resize(e, s->heap, s->heap_cap * sizeof(*h), cap * sizeof(*h));
	if (!h)
		return -1;
	s->heap = h;
	s->heap_cap = cap;
	return 0;
}
