/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FLUSH for persistence: what machines have in files of a disk is written there (msync()).
 *
 * That takes as long as the disk, so a thread does it. Each front has a journal of the FLUSHes that are
 * under way, and the thread takes a step of each journal in turn: FAB_PERSIST_STEP bytes of one block.
 * So a FLUSH waits for one step of each other front at most, however long theirs are.
 *
 * A block that goes, and a front that ends, wait for nothing: what the thread has not begun is left
 * out, and a block that it is at is unmapped when that step is over (block.h).
 *
 * What fails has been done all the same: a responder has no way to say that a disk is broken, and
 * QEMU's own msync() of guest memory has none, either. It is in the log.
 *
 * All functions are for the owner thread.
 */
#ifndef OHCA_FABRIC_PERSIST_H
#define OHCA_FABRIC_PERSIST_H

#include <pthread.h>

#include "block.h"

#define FAB_PERSIST_STEP	(64ull << 20)	/* bytes of one msync() */

struct fab_persist;

/**
 * struct fab_persister - the thread; all 0: there is none
 * @thread: valid if @runs
 * @lock: of all below, and of journals
 * @todo: signalled when a journal has something to do, when @begun or @stops changes
 * @first, @last: journals that have, in the order of their turns
 * @at: the journal of the step under way; NULL: none is, or it has ended meanwhile
 * @some_done: any thread: a FLUSH is done, and fab_persist_done() is due
 */
struct fab_persister {
	pthread_t thread;
	bool runs, begun, stops;
	pthread_mutex_t lock;
	pthread_cond_t todo;
	struct fab_persist *first, *last, *at;
	_Atomic bool some_done;
};

/**
 * fab_persister_start() - start the thread, which has begun at the return
 * Return: false: there is none, errno says why, and there are no journals.
 */
bool fab_persister_start(struct fab_persister *t);

/** fab_persister_stop() - end the thread, after its step; all journals have been freed */
void fab_persister_stop(struct fab_persister *t);

/** fab_persister_some_done() - whether a FLUSH of any journal is done since the last call */
bool fab_persister_some_done(struct fab_persister *t);

/** fab_persist_new() - the journal of a front. Return: NULL: no thread, or out of memory. */
struct fab_persist *fab_persist_new(struct fab_persister *t);

/** fab_persist_free() - nothing of it is done any more; before its blocks are freed; NULL is none */
void fab_persist_free(struct fab_persist *p);

/**
 * fab_persist_add() - @len bytes at @off of block @b belong to the next FLUSH
 *
 * What lies between two stretches of a block is written, too: one write of the disk takes less than
 * one for each stretch.
 */
void fab_persist_add(struct fab_persist *p, struct fab_block *b, uint64_t off, uint64_t len);

/**
 * fab_persist_begin() - begin the FLUSH of what was added
 * @tag: for fab_persist_done(). No more than OHCA_PERSISTS are under way.
 * Return: false: nothing was added.
 */
bool fab_persist_begin(struct fab_persist *p, uint64_t tag);

/** fab_persist_forget() - block @b is about to be freed: there is nothing to do with it */
void fab_persist_forget(struct fab_persist *p, const struct fab_block *b);

/**
 * fab_persist_done() - the next FLUSH that is done, in the order in which they began
 * @tag: filled in
 * @error: filled in: what msync() has failed with in the meantime, or 0
 * Return: false: no other one is.
 */
bool fab_persist_done(struct fab_persist *p, uint64_t *tag, int *error);

#endif
