/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Locks of queues. A post or a poll holds one as a spinlock; a resize holds it during a
 * system call, and then its waiters sleep.
 */

#ifndef OHCA_LOCK_H
#define OHCA_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

#include <util/compiler.h>

#define OHCA_COLD __attribute__((noinline, cold))
#define OHCA_INLINE static inline ALWAYS_INLINE

/**
 * struct ohca_lock - spinlock that may be disabled
 * @held: 1 while it is held
 * @slow: 1 while the holder is in a system call; a futex
 * @needed: false if the consumer promised to use one thread only (thread domain,
 *	IBV_CREATE_CQ_ATTR_SINGLE_THREADED), and only that can take it
 */
struct ohca_lock {
	atomic_uint held;
	atomic_uint slow;
	bool needed;
};

void ohca_lock_contended(struct ohca_lock *lock) OHCA_COLD;
void ohca_lock_slow(struct ohca_lock *lock);
void ohca_unlock_slow(struct ohca_lock *lock);

/** ohca_lock_init - initialize a lock that is not held */
static inline void ohca_lock_init(struct ohca_lock *lock, bool needed)
{
	atomic_init(&lock->held, 0);
	atomic_init(&lock->slow, 0);
	lock->needed = needed;
}

/**
 * ohca_trylock - take a lock if it is free
 *
 * The hot functions try first, and call a second, out of line copy of themselves to
 * wait: without a call in them they need no stack frame.
 */
static inline bool ohca_trylock(struct ohca_lock *lock)
{
	return !lock->needed ||
	       likely(!atomic_exchange_explicit(&lock->held, 1,
						memory_order_acquire));
}

/** ohca_lock - take a lock; release it with ohca_unlock() */
static inline void ohca_lock(struct ohca_lock *lock)
{
	if (!ohca_trylock(lock))
		ohca_lock_contended(lock);
}

/**
 * ohca_unlock - release a lock
 *
 * Also a lock that was not needed and so never taken: a store is cheaper than a test.
 */
static inline void ohca_unlock(struct ohca_lock *lock)
{
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}

#endif /* OHCA_LOCK_H */
