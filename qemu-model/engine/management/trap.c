/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The trap queue of one port; see trap.h. */
#include "engine/management/trap.h"

void ohca_trap_init(struct ohca_trap_queue *q, uint64_t tid)
{
	memset(q, 0, sizeof(*q));
	q->next_tid = tid ? tid : 1;
}

void ohca_trap_clear(struct ohca_trap_queue *q)
{
	memset(q->t, 0, sizeof(q->t));
}

static bool same_event(const struct ib_notice *a, const struct ib_notice *b)
{
	return a->trap == b->trap && !memcmp(a->details, b->details, sizeof(a->details));
}

void ohca_trap_post(struct ohca_trap_queue *q, const struct ib_notice *n, uint64_t now_ns)
{
	struct ohca_trap *free_slot = NULL;
	unsigned int security = 0;

	for (unsigned int i = 0; i < OHCA_TRAP_SLOTS; i++) {
		struct ohca_trap *t = &q->t[i];

		if (!t->used) {
			if (!free_slot)
				free_slot = t;
		} else if (same_event(&t->n, n)) {
			t->n.count = (uint16_t)((t->n.count + 1) & 0x7fff);
			return;
		} else {
			security += t->n.type == IB_NOTICE_SECURITY;
		}
	}
	if (!free_slot || (n->type == IB_NOTICE_SECURITY && security >= OHCA_TRAP_SECURITY)) {
		q->dropped++;
		return;
	}
	memset(free_slot, 0, sizeof(*free_slot));
	free_slot->used = true;
	free_slot->tid = q->next_tid++;
	free_slot->next_ns = now_ns;
	free_slot->n = *n;
}

bool ohca_trap_repress(struct ohca_trap_queue *q, uint64_t tid, const struct ib_notice *n)
{
	for (unsigned int i = 0; i < OHCA_TRAP_SLOTS; i++) {
		struct ohca_trap *t = &q->t[i];

		if (t->used && t->n.trap == n->trap && (t->tid == tid || same_event(&t->n, n))) {
			t->used = false;
			q->repressed++;
			return true;
		}
	}
	return false;
}

const struct ohca_trap *ohca_trap_first(const struct ohca_trap_queue *q)
{
	const struct ohca_trap *first = NULL;

	for (unsigned int i = 0; i < OHCA_TRAP_SLOTS; i++)
		if (q->t[i].used && (!first || q->t[i].tid < first->tid))
			first = &q->t[i];
	return first;
}

const struct ohca_trap *ohca_trap_due(struct ohca_trap_queue *q, uint64_t now_ns,
				      uint64_t timeout_ns)
{
	uint64_t repeat = timeout_ns < OHCA_TRAP_MIN_PERIOD_NS ? OHCA_TRAP_MIN_PERIOD_NS :
			  timeout_ns;
	struct ohca_trap *due = NULL;

	if (now_ns < q->quiet_ns)
		return NULL;
	for (unsigned int i = 0; i < OHCA_TRAP_SLOTS; i++) {
		struct ohca_trap *t = &q->t[i];

		if (!t->used || t->next_ns > now_ns)
			continue;
		if (t->sent > OHCA_TRAP_MAX_REPEATS) {
			t->used = false;
			q->dropped++;
			continue;
		}
		if (!due || t->next_ns < due->next_ns)
			due = t;
	}
	if (!due)
		return NULL;
	due->sent++;
	due->next_ns = now_ns + repeat;
	q->quiet_ns = now_ns + timeout_ns;
	return due;
}

uint64_t ohca_trap_deadline(const struct ohca_trap_queue *q)
{
	uint64_t d = UINT64_MAX;

	for (unsigned int i = 0; i < OHCA_TRAP_SLOTS; i++)
		if (q->t[i].used && q->t[i].next_ns < d)
			d = q->t[i].next_ns;
	return d < q->quiet_ns ? q->quiet_ns : d;
}
