/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of an engine and of its scheduler, for a comparison with a later state. */
#ifndef TESTS_AS_NEW_H
#define TESTS_AS_NEW_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/state.h"
#include "engine/object/doorbell.h"
#include "engine/transport/sched.h"

/** struct as_new - a copy of the state; fields that change by design are zero */
struct as_new {
	struct ohca_engine e;
	struct ohca_sched s;
	uint64_t faults;	/* sum of all doorbell pages */
	uint32_t commands;	/* commands that are posted */
};

/* Numbers of objects are assigned in turn, so the next one differs. */
static inline void as_new_ids(struct ohca_ids *ids)
{
	ids->next = 0;
	ids->used = NULL;
}

/* The tables of a life may be at other addresses. */
static inline void as_new_places(struct ohca_engine *c)
{
	void **table[] = { (void **)&c->qp, (void **)&c->cq, (void **)&c->srq, (void **)&c->mr,
			   (void **)&c->pd, (void **)&c->xrcd, (void **)&c->dm,
			   (void **)&c->sched };

	for (unsigned int i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		memset(table[i], 0, sizeof(*table[i]));
	assert_int_equal(c->num_dead, 0);
	c->spare = NULL;
}

/* The address of an empty list does not matter. */
static inline void as_new_lists(struct ohca_list *c, const struct ohca_list *l, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (ohca_list_empty(&l[i]))
			c[i].next = c[i].prev = NULL;
}

/** as_new - stores the state of @e */
static inline void as_new(struct as_new *n, const ohca_engine *e)
{
	struct ohca_ids *ids[] = { &n->e.qp_ids, &n->e.cq_ids, &n->e.srq_ids, &n->e.mr_ids,
				   &n->e.pd_ids, &n->e.xrcd_ids, &n->e.dm_ids, &n->e.set_ids };
	struct ohca_engine *c = &n->e;
	struct ohca_sched *s = &n->s;

	memcpy(c, e, sizeof(*c));
	memcpy(s, e->sched, sizeof(*s));
	n->faults = 0;
	for (uint32_t i = 0; i < e->cfg.num_uars; i++)
		n->faults += e->uar_faults[i];
	for (unsigned int i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		as_new_ids(ids[i]);
	as_new_places(c);
	as_new_lists(s->active, e->sched->active, OHCA_LISTS);
	as_new_lists(s->wait[0][0], e->sched->wait[0][0], OHCA_MAX_PORTS * 16 * 2);
	as_new_lists(s->wait_loop, e->sched->wait_loop, 2);
	as_new_lists(s->moved, e->sched->moved, 2);
	as_new_lists(s->wait_fault, e->sched->wait_fault, 2);
	s->loop = NULL;
	n->commands = ohca_db_admin(e) - e->aq_ci;
	c->aq_ci = 0;
	c->work = c->work_end = c->rx_end = 0;
	memset(&c->aqe, 0, sizeof(c->aqe));
	c->fault_next = 0;
	memset(&c->lies, 0, sizeof(c->lies));
	memset(c->cnt, 0, sizeof(c->cnt));
	memset(c->port_cnt, 0, sizeof(c->port_cnt));
	memset(c->set_cnt, 0, sizeof(c->set_cnt));
	for (unsigned int i = 0; i < OHCA_MAX_PORTS; i++) {
		memset(&c->port[i].cnt, 0, sizeof(c->port[i].cnt));
		/* these fields are for objects that are released, which a port never is */
		c->port[i].async.eqe_idx = 0;
		c->port[i].async.eqe_out = false;
	}
	s->persist_tag = 0;
	s->now = 0;
	memset(s->gen, 0, sizeof(s->gen));
	s->fault_gen = 0;
	s->waiting = false;	/* a hint that the next run clears */
	memset(s->refused_ns, 0, sizeof(s->refused_ns));
	memset(s->idle_ns, 0, sizeof(s->idle_ns));
	s->port = s->port_left = 0;
	/* the position of an empty queue does not matter */
	for (unsigned int p = 0; p < OHCA_MAX_PORTS; p++) {
		for (unsigned int q = 0; q < 2; q++) {
			s->madq[p][q].head -= s->madq[p][q].tail;
			s->madq[p][q].tail = 0;
			memset(s->madq[p][q].slot, 0, sizeof(s->madq[p][q].slot));
		}
		s->late[p].head -= s->late[p].tail;
		s->late[p].tail = 0;
		memset(s->late[p].slot, 0, sizeof(s->late[p].slot));
	}
	s->loop_head -= s->loop_tail;
	s->loop_tail = 0;
	memset(s->loop_len, 0, sizeof(s->loop_len));
	memset(s->loop_port, 0, sizeof(s->loop_port));
	memset(s->loop_from, 0, sizeof(s->loop_from));
	memset(s->discard, 0, sizeof(s->discard));
}

static inline void as_new_bytes(const void *was, const void *is, size_t n, const char *what)
{
	const uint8_t *a = was, *b = is;

	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i])
			fail_msg("byte %zu of %s is 0x%02x and not 0x%02x", i, what, b[i], a[i]);
}

/** as_new_check - fails unless @e has the state @was */
static inline void as_new_check(const struct as_new *was, const ohca_engine *e)
{
	static struct as_new now;

	as_new(&now, e);
	as_new_bytes(&was->e, &now.e, sizeof(now.e), "struct ohca_engine");
	as_new_bytes(&was->s, &now.s, sizeof(now.s), "struct ohca_sched");
	assert_int_equal(was->faults, now.faults);
	assert_int_equal(was->commands, now.commands);
}

#endif /* TESTS_AS_NEW_H */
