/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Timers of QPs: a heap with lazy keys. To set a timer to a later time costs nothing: the heap
 * moves it when the old time is reached.
 */
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/transport/completer.h"
#include "engine/transport/sched.h"
#include "engine/transport/timer.h"
#include "engine/transport/xport.h"

/*
 * Each node has four children, whose keys are in one or two cache lines. The keys are in the heap,
 * because there are many QPs, whose state is in no cache.
 */
#define KIDS	4u

static void heap_put(struct ohca_sched *s, uint32_t i, struct ohca_timer t)
{
	s->heap[i] = t;
	t.xp->sched.heap = i + 1;
}

static void heap_up(struct ohca_sched *s, uint32_t i, struct ohca_timer t)
{
	while (i) {
		uint32_t parent = (i - 1) / KIDS;

		if (s->heap[parent].key <= t.key)
			break;
		heap_put(s, i, s->heap[parent]);
		i = parent;
	}
	heap_put(s, i, t);
}

static void heap_down(struct ohca_sched *s, uint32_t i, struct ohca_timer t)
{
	for (uint32_t first; (first = KIDS * i + 1) < s->heap_num;) {
		const uint32_t end = s->heap_num - first < KIDS ? s->heap_num : first + KIDS;
		uint32_t kid = first;

		for (uint32_t k = first + 1; k < end; k++)
			kid = s->heap[k].key < s->heap[kid].key ? k : kid;
		if (s->heap[kid].key >= t.key)
			break;
		heap_put(s, i, s->heap[kid]);
		i = kid;
	}
	heap_put(s, i, t);
}

void ohca_timer_forget(struct ohca_sched *s, struct ohca_xport *xp)
{
	uint32_t i = xp->sched.heap - 1;
	struct ohca_timer last;

	if (!xp->sched.heap)
		return;
	xp->sched.heap = 0;
	last = s->heap[--s->heap_num];
	if (last.xp == xp)
		return;
	if (i && s->heap[(i - 1) / KIDS].key > last.key)
		heap_up(s, i, last);
	else
		heap_down(s, i, last);
}

void ohca_timer_set(ohca_engine *e, struct ohca_xport *xp, uint64_t t)
{
	struct ohca_sched *s = e->sched;
	const uint32_t at = xp->sched.heap;

	xp->sched.timer = t;
	if (t == OHCA_NO_DEADLINE || (at && t >= s->heap[at - 1].key))
		return;
	heap_up(s, at ? at - 1 : s->heap_num++, (struct ohca_timer){ t, xp });
}

void ohca_timers_run(ohca_engine *e)
{
	struct ohca_sched *s = e->sched;
	/* an expired timer may be set again, even to a past time, so bound the loop */
	uint32_t bound = s->heap_num;

	while (bound-- && s->heap_num && s->heap[0].key <= s->now && ohca_work_left(e)) {
		struct ohca_xport *xp = s->heap[0].xp;

		ohca_work(e, OHCA_WORK_WQE);
		if (xp->sched.timer > s->now) {
			if (xp->sched.timer == OHCA_NO_DEADLINE)
				ohca_timer_forget(s, xp);
			else
				heap_down(s, 0, (struct ohca_timer){ xp->sched.timer, xp });
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
	struct ohca_timer *h;

	if (s->num_xp < s->heap_cap)
		return 0;
	h = ohca_mem_resize(e, s->heap, s->heap_cap * sizeof(*h), cap * sizeof(*h));
	if (!h)
		return -1;
	s->heap = h;
	s->heap_cap = cap;
	return 0;
}
