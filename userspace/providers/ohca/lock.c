// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The slow paths of queue locks. */

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lock.h"

/* About as many pauses as fit into the time in which a thread sleeps and wakes up. */
#define OHCA_SPINS_BEFORE_SLEEP 1000
#define OHCA_SLEEP_NS		50000

static inline void ohca_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	asm volatile("yield" ::: "memory");
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void ohca_futex(atomic_uint *word, int op, unsigned int val)
{
	/* its callers check the word again, whatever it returns */
	syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, val, NULL, NULL, 0);
}

/**
 * ohca_lock_contended - take a lock that another thread holds
 *
 * While the holder is in a system call, sleeps until it has returned. Else spins, and sleeps
 * shortly from time to time: with more threads than processors the holder may not be running,
 * and may not be scheduled while this thread, perhaps of a higher priority, runs.
 */
void ohca_lock_contended(struct ohca_lock *lock)
{
	const struct timespec moment = { .tv_nsec = OHCA_SLEEP_NS };
	unsigned int spins = 0;

	do {
		while (atomic_load_explicit(&lock->held,
					    memory_order_relaxed)) {
			if (atomic_load_explicit(&lock->slow,
						 memory_order_relaxed))
				ohca_futex(&lock->slow, FUTEX_WAIT, 1);
			else if (++spins % OHCA_SPINS_BEFORE_SLEEP == 0)
				nanosleep(&moment, NULL);
			else
				ohca_cpu_relax();
		}
	} while (atomic_exchange_explicit(&lock->held, 1,
					  memory_order_acquire));
}

/** ohca_lock_slow - take a lock for a system call; release it with ohca_unlock_slow() */
void ohca_lock_slow(struct ohca_lock *lock)
{
	ohca_lock(lock);
	atomic_store_explicit(&lock->slow, 1, memory_order_relaxed);
}

/**
 * ohca_unlock_slow - release a lock of ohca_lock_slow() and wake its waiters
 *
 * A thread that is about to sleep finds in the kernel that @slow is 0. A thread that sees the 1 of
 * a later holder may get the wake-up of this one, and checks again.
 */
void ohca_unlock_slow(struct ohca_lock *lock)
{
	atomic_store_explicit(&lock->slow, 0, memory_order_relaxed);
	ohca_unlock(lock);
	ohca_futex(&lock->slow, FUTEX_WAKE, INT_MAX);
}
