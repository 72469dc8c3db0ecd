// SPDX-License-Identifier: GPL-2.0-or-later
/* FLUSH for persistence of machines' memory; see persist.h. */
#include "persist.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine.h"

/**
 * struct fab_flush - a FLUSH
 * @part: [@n] what is left to write, one part for each block
 */
struct fab_flush {
	uint64_t tag;
	unsigned int n;
	struct fab_flush_part {
		struct fab_block *b;
		uint64_t from, to;
	} part[OHCA_FRONT_BLOCKS];
};

/**
 * struct fab_persist - the journal of a front
 * @flush: a ring: those from @told to @done are done, up to @given in progress; fab_persist_add()
 *	adds to the one at @given
 * @queued: it waits for its turn, before @next
 * @error: errno of an msync() that has failed, until fab_persist_done() returns it
 */
struct fab_persist {
	struct fab_persister *t;
	struct fab_persist *next;
	bool queued;
	uint32_t told, done, given;
	int error;
	struct fab_flush flush[2 * OHCA_PERSISTS];
};

static struct fab_flush *flush_at(struct fab_persist *p, uint32_t i)
{
	return &p->flush[i % (2 * OHCA_PERSISTS)];
}

/* ---- the thread; all functions here hold the lock ------------------------------- */

static void persist_queue(struct fab_persist *p)
{
	struct fab_persister *t = p->t;

	/* the thread itself requeues its current journal behind the others */
	if (p->queued || t->at == p)
		return;
	p->queued = true;
	p->next = NULL;
	if (t->first)
		t->last->next = p;
	else
		t->first = p;
	t->last = p;
	pthread_cond_broadcast(&t->todo);
}

static void persist_unqueue(struct fab_persist *p)
{
	struct fab_persist **at = &p->t->first, *last = NULL;

	if (!p->queued)
		return;
	for (; *at != p; at = &(*at)->next)
		last = *at;
	*at = p->next;
	if (p->t->last == p)
		p->t->last = last;
	p->queued = false;
}

/* A FLUSH is done when nothing of it is left to write, and no step of it is in progress. */
static void persist_settle(struct fab_persist *p)
{
	const uint32_t was = p->done;

	if (p->t->at == p)
		return;
	while (p->done != p->given && !flush_at(p, p->done)->n)
		p->done++;
	if (p->done != was)
		atomic_store(&p->t->some_done, true);
	if (p->done != p->given)
		persist_queue(p);
	else
		persist_unqueue(p);
}

/* Do a step of @p, which is not queued. */
static void persist_step(struct fab_persister *t, struct fab_persist *p)
{
	struct fab_flush *f = flush_at(p, p->done);
	struct fab_flush_part *part = &f->part[f->n - 1];
	struct fab_block *b = part->b;
	const uint64_t from = part->from, left = part->to - from;
	const uint64_t n = left < FAB_PERSIST_STEP ? left : FAB_PERSIST_STEP;
	int error = 0;

	part->from += n;
	f->n -= n == left;
	t->at = p;
	fab_block_hold(b);
	pthread_mutex_unlock(&t->lock);
	if (msync((uint8_t *)fab_block_mem(b) + from, n, MS_SYNC))
		error = errno;
	pthread_mutex_lock(&t->lock);
	fab_block_let_go(b);
	/* NULL: the journal was freed meanwhile, perhaps with the block */
	if (t->at) {
		p->error = error ? error : p->error;
		t->at = NULL;
		persist_settle(p);
	}
}

static void *persister_run(void *arg)
{
	struct fab_persister *t = arg;

	pthread_mutex_lock(&t->lock);
	t->begun = true;
	pthread_cond_broadcast(&t->todo);
	for (;;) {
		struct fab_persist *p = t->first;

		if (t->stops)
			break;
		if (!p) {
			pthread_cond_wait(&t->todo, &t->lock);
			continue;
		}
		persist_unqueue(p);
		persist_step(t, p);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

bool fab_persister_start(struct fab_persister *t)
{
	*t = (struct fab_persister){ 0 };
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->todo, NULL);
	errno = pthread_create(&t->thread, NULL, persister_run, t);
	if (errno)
		return false;
	t->runs = true;
	pthread_mutex_lock(&t->lock);
	while (!t->begun)
		pthread_cond_wait(&t->todo, &t->lock);
	pthread_mutex_unlock(&t->lock);
	return true;
}

void fab_persister_stop(struct fab_persister *t)
{
	if (!t->runs)
		return;
	pthread_mutex_lock(&t->lock);
	t->stops = true;
	pthread_cond_broadcast(&t->todo);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->todo);
	pthread_mutex_destroy(&t->lock);
	t->runs = false;
}

bool fab_persister_some_done(struct fab_persister *t)
{
	return atomic_load_explicit(&t->some_done, memory_order_relaxed) &&
	       atomic_exchange(&t->some_done, false);
}

/* ---- journals ------------------------------------------------------------------ */

struct fab_persist *fab_persist_new(struct fab_persister *t)
{
	struct fab_persist *p = t->runs ? calloc(1, sizeof(*p)) : NULL;

	if (p)
		p->t = t;
	return p;
}

void fab_persist_free(struct fab_persist *p)
{
	struct fab_persister *t;

	if (!p)
		return;
	t = p->t;
	pthread_mutex_lock(&t->lock);
	persist_unqueue(p);
	if (t->at == p)
		t->at = NULL;
	pthread_mutex_unlock(&t->lock);
	free(p);
}

/* The thread does not access the entry at @given, so this needs no lock. */
void fab_persist_add(struct fab_persist *p, struct fab_block *b, uint64_t off, uint64_t len)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = off / page * page;
	struct fab_flush *f = flush_at(p, p->given);
	unsigned int i;

	for (i = 0; i < f->n && f->part[i].b != b; i++)
		;
	/* fits: there are no more blocks than parts, and parts of freed blocks are removed */
	if (i == f->n) {
		f->part[f->n++] = (struct fab_flush_part){ b, from, off + len };
		return;
	}
	if (from < f->part[i].from)
		f->part[i].from = from;
	if (off + len > f->part[i].to)
		f->part[i].to = off + len;
}

bool fab_persist_begin(struct fab_persist *p, uint64_t tag)
{
	struct fab_flush *f = flush_at(p, p->given);

	if (!f->n)
		return false;
	f->tag = tag;
	pthread_mutex_lock(&p->t->lock);
	p->given++;
	flush_at(p, p->given)->n = 0;
	persist_queue(p);
	pthread_mutex_unlock(&p->t->lock);
	return true;
}

void fab_persist_forget(struct fab_persist *p, const struct fab_block *b)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->t->lock);
	for (uint32_t i = p->done; i != p->given + 1; i++) {
		struct fab_flush *f = flush_at(p, i);

		for (unsigned int k = f->n; k-- > 0;)
			if (f->part[k].b == b)
				f->part[k] = f->part[--f->n];
	}
	persist_settle(p);
	pthread_mutex_unlock(&p->t->lock);
}

bool fab_persist_done(struct fab_persist *p, uint64_t *tag, int *error)
{
	bool is;

	pthread_mutex_lock(&p->t->lock);
	is = p->told != p->done;
	if (is)
		*tag = flush_at(p, p->told++)->tag;
	*error = p->error;
	p->error = 0;
	pthread_mutex_unlock(&p->t->lock);
	return is;
}
