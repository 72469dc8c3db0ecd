/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The trap queue of one port; see trap.h. */
#include "trap.h"

void ib_trap_init(struct ib_trap_queue *q, struct ib_trap *slots, const struct ib_trap_room *room,
		  uint64_t tid)
{
	memset(q, 0, sizeof(*q));
	q->t = slots;
	q->room = *room;
	q->next_tid = tid ? tid : 1;
	ib_trap_clear(q);
}

void ib_trap_clear(struct ib_trap_queue *q)
{
	memset(q->t, 0, q->room.slots * sizeof(*q->t));
	q->next_ns = UINT64_MAX;
}

/* Update the earliest due time after a change of a slot. */
static void earliest(struct ib_trap_queue *q)
{
	q->next_ns = UINT64_MAX;
	for (unsigned int i = 0; i < q->room.slots; i++)
		if (q->t[i].used && q->t[i].next_ns < q->next_ns)
			q->next_ns = q->t[i].next_ns;
}

static bool same_event(const struct ib_notice *a, const struct ib_notice *b)
{
	return a->trap == b->trap && !memcmp(a->details, b->details, sizeof(a->details));
}

/* Whether a trap about @b replaces the waiting one about @a, which may contain an old LID. */
static bool says(const struct ib_notice *a, const struct ib_notice *b)
{
	return same_event(a, b) || (a->trap == b->trap && a->trap == IB_TRAP_LINK_STATE_CHANGE);
}

/* The event of a waiting trap has occurred again. */
static bool again(struct ib_trap_queue *q, struct ib_trap *t, const struct ib_notice *n,
		  uint64_t now_ns)
{
	t->n.count = (uint16_t)((t->n.count + 1) & 0x7fff);
	memcpy(t->n.details, n->details, sizeof(t->n.details));
	if (!t->sent || t->n.type == IB_NOTICE_SECURITY)
		return false;
	t->sent = 0;
	t->tid = q->next_tid++;
	t->next_ns = now_ns;
	earliest(q);
	return true;
}

bool ib_trap_post(struct ib_trap_queue *q, const struct ib_notice *n, uint64_t now_ns)
{
	unsigned int security = 0, each = 0;
	struct ib_trap *free_slot = NULL;

	for (unsigned int i = 0; i < q->room.slots; i++) {
		struct ib_trap *t = &q->t[i];

		if (!t->used) {
			if (!free_slot)
				free_slot = t;
			continue;
		}
		if (says(&t->n, n))
			return again(q, t, n, now_ns);
		security += t->n.type == IB_NOTICE_SECURITY;
		each += t->n.trap == n->trap;
	}
	if (!free_slot || (n->type == IB_NOTICE_SECURITY &&
			   (security >= q->room.security || each >= q->room.each))) {
		q->dropped++;
		return false;
	}
	memset(free_slot, 0, sizeof(*free_slot));
	free_slot->used = true;
	free_slot->tid = q->next_tid++;
	free_slot->next_ns = now_ns;
	free_slot->n = *n;
	earliest(q);
	return true;
}

bool ib_trap_repress(struct ib_trap_queue *q, uint64_t tid, const struct ib_notice *n)
{
	for (unsigned int i = 0; i < q->room.slots; i++) {
		struct ib_trap *t = &q->t[i];

		if (t->used && t->n.trap == n->trap &&
		    (tid ? t->tid == tid : same_event(&t->n, n))) {
			t->used = false;
			q->repressed++;
			earliest(q);
			return true;
		}
	}
	return false;
}

const struct ib_trap *ib_trap_first(const struct ib_trap_queue *q)
{
	const struct ib_trap *first = NULL;

	for (unsigned int i = 0; i < q->room.slots; i++)
		if (q->t[i].used && (!first || q->t[i].tid < first->tid))
			first = &q->t[i];
	return first;
}

const struct ib_trap *ib_trap_due(struct ib_trap_queue *q, uint64_t now_ns, uint64_t timeout_ns)
{
	uint64_t repeat = timeout_ns < IB_TRAP_MIN_PERIOD_NS ? IB_TRAP_MIN_PERIOD_NS : timeout_ns;
	struct ib_trap *due = NULL;

	if (now_ns < q->quiet_ns)
		return NULL;
	for (unsigned int i = 0; i < q->room.slots; i++) {
		struct ib_trap *t = &q->t[i];

		if (!t->used || t->next_ns > now_ns)
			continue;
		if (t->sent > IB_TRAP_MAX_REPEATS) {
			t->used = false;
			q->dropped++;
			continue;
		}
		if (!due || t->next_ns < due->next_ns)
			due = t;
	}
	if (due) {
		due->sent++;
		due->next_ns = now_ns + repeat;
		q->quiet_ns = now_ns + timeout_ns;
	}
	earliest(q);
	return due;
}
