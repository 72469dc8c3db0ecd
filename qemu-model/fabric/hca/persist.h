/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FLUSH for persistence: writes the memory of machines that is in files of a disk to the disk
 * (msync()).
 *
 * That waits for the disk, so a thread does it. Each front has a journal of its FLUSHes in
 * progress, and the thread does a step of each journal in turn: FAB_PERSIST_STEP bytes of one
 * block. So a FLUSH waits for at most one step of each other front, however long theirs are.
 *
 * Neither the removal of a block nor the end of a front waits: steps that have not begun are left
 * out, and a block that is being written is unmapped when that step is over (block.h).
 *
 * A FLUSH that fails is reported as done: a responder cannot report a broken disk, and QEMU's own
 * msync() of guest memory reports none, either. The log has the error.
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
 * @todo: signalled when a journal has something to write, or @begun or @stops changes
 * @first, @last: journals with something to write, in the order of their turns
 * @at: the journal of the current step; NULL: there is none, or the journal was freed meanwhile
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
 * fab_persister_start() - start the thread; it runs at the return
 * Return: false: it does not run, errno has the reason, and there are no journals.
 */
bool fab_persister_start(struct fab_persister *t);

/** fab_persister_stop() - end the thread, after its step; all journals must have been freed */
void fab_persister_stop(struct fab_persister *t);

/** fab_persister_some_done() - whether a FLUSH of any journal is done since the last call */
bool fab_persister_some_done(struct fab_persister *t);

/** fab_persist_new() - create the journal of a front. Return: NULL: no thread, or out of memory. */
struct fab_persist *fab_persist_new(struct fab_persister *t);

/**
 * fab_persist_free() - discard the journal with its FLUSHes; before its blocks are freed. NULL does
 *	nothing
 */
void fab_persist_free(struct fab_persist *p);

/**
 * fab_persist_add() - add @len bytes at @off of block @b to the next FLUSH
 *
 * The bytes between two stretches of a block are written, too: one write to the disk takes less
 * time than one for each stretch.
 */
void fab_persist_add(struct fab_persist *p, struct fab_block *b, uint64_t off, uint64_t len);

/**
 * fab_persist_begin() - begin the FLUSH of what was added
 * @tag: returned by fab_persist_done(). At most OHCA_PERSISTS are in progress.
 * Return: false: nothing was added.
 */
bool fab_persist_begin(struct fab_persist *p, uint64_t tag);

/** fab_persist_forget() - remove block @b, which is about to be freed, from all FLUSHes */
void fab_persist_forget(struct fab_persist *p, const struct fab_block *b);

/**
 * fab_persist_done() - the next FLUSH that is done, in the order in which they began
 * @tag: filled in
 * @error: filled in: errno of an msync() that has failed since the last call, or 0
 * Return: false: no other FLUSH is done.
 */
bool fab_persist_done(struct fab_persist *p, uint64_t *tag, int *error);

#endif
