// SPDX-License-Identifier: GPL-2.0-or-later
/* Descriptors that other threads close; see closer.h. */
#include "closer.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROOM_MOST	(1u << 20)	/* a power of 2 */
#define STOP_S		2		/* that fab_closer_stop() waits at most */

/**
 * struct fab_closer_queue - descriptors that are to be closed; the last user frees it
 * @todo: posted for each descriptor, and by the end once for each thread
 * @begun: posted by each thread when it runs
 * @taken: number of times that a thread has taken something, modulo 2^32
 * @threads: number of threads that were started
 * @lock: of @users
 * @left: signalled when @users decreases
 * @users: threads that have not ended, and the owner
 * @room: slots, a power of 2, so that indices may wrap around
 * @slot: a descriptor + 1; 0: free. Unused pages of this array are never allocated
 */
struct fab_closer_queue {
	sem_t todo, begun;
	_Atomic uint32_t taken;
	unsigned int threads;
	pthread_mutex_t lock;
	pthread_cond_t left;
	unsigned int users;
	uint32_t room;
	_Atomic int slot[];
};

static void wait_for(sem_t *s)
{
	/* a signal of the process may interrupt it */
	while (sem_wait(s))
		;
}

static void close_now(int fd)
{
	const struct linger none = { 0 };

	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none))) {
		/* it is not a socket */
	}
	close(fd);
}

static void queue_free(struct fab_closer_queue *q)
{
	sem_destroy(&q->todo);
	sem_destroy(&q->begun);
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->left);
	free(q);
}

/* The caller does not use @q any more. */
static void queue_leave(struct fab_closer_queue *q)
{
	unsigned int users;

	pthread_mutex_lock(&q->lock);
	users = --q->users;
	pthread_cond_signal(&q->left);
	pthread_mutex_unlock(&q->lock);
	if (!users)
		queue_free(q);
}

static void *closer_run(void *arg)
{
	struct fab_closer_queue *q = arg;

	sem_post(&q->begun);
	for (;;) {
		int taken;

		wait_for(&q->todo);
		taken = atomic_exchange(&q->slot[atomic_fetch_add(&q->taken, 1) % q->room], 0);
		/* posts for the end come after those for descriptors, and fill no slot */
		if (!taken)
			break;
		close_now(taken - 1);
	}
	queue_leave(q);
	return NULL;
}

static uint32_t closer_room(void)
{
	struct rlimit r;
	uint32_t n = 1;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return ROOM_MOST;
	while (n < ROOM_MOST && n < r.rlim_cur)
		n *= 2;
	return n;
}

static struct fab_closer_queue *queue_new(void)
{
	const uint32_t room = closer_room();
	struct fab_closer_queue *q = calloc(1, sizeof(*q) + room * sizeof(q->slot[0]));
	pthread_condattr_t attr;

	if (!q)
		return NULL;
	q->room = room;
	q->users = 1;
	sem_init(&q->todo, 0, 0);
	sem_init(&q->begun, 0, 0);
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->left, &attr);
	pthread_condattr_destroy(&attr);
	return q;
}

/* Start one more thread. Return: 0 or an errno. */
static int queue_serve(struct fab_closer_queue *q)
{
	pthread_t thread;
	int e;

	pthread_mutex_lock(&q->lock);
	q->users++;
	pthread_mutex_unlock(&q->lock);
	e = pthread_create(&thread, NULL, closer_run, q);
	if (e) {
		queue_leave(q);
		return e;
	}
	/* nobody joins a thread whose close may never return */
	pthread_detach(thread);
	q->threads++;
	return 0;
}

bool fab_closer_start(struct fab_closer *c)
{
	struct fab_closer_queue *q = queue_new();
	int e = 0;

	*c = (struct fab_closer){ 0 };
	if (!q)
		return false;
	while (!e && q->threads < FAB_CLOSER_THREADS)
		e = queue_serve(q);
	if (!q->threads) {
		queue_free(q);
		errno = e;
		return false;
	}
	for (unsigned int i = 0; i < q->threads; i++)
		wait_for(&q->begun);
	c->queue = q;
	return true;
}

void fab_closer_close(struct fab_closer *c, int fd)
{
	struct fab_closer_queue *q = c ? c->queue : NULL;
	_Atomic int *slot = q ? &q->slot[c->given % q->room] : NULL;

	if (!slot || atomic_load(slot)) {
		if (c)
			c->in_place++;
		close_now(fd);
		return;
	}
	atomic_store(slot, fd + 1);
	c->given++;
	sem_post(&q->todo);
}

bool fab_closer_stop(struct fab_closer *c)
{
	struct fab_closer_queue *q = c->queue;
	struct timespec end;
	bool all;

	if (!q)
		return true;
	c->queue = NULL;
	/* each thread finds no descriptor once, and ends */
	for (unsigned int i = 0; i < q->threads; i++)
		sem_post(&q->todo);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += STOP_S;
	pthread_mutex_lock(&q->lock);
	while (q->users > 1 && pthread_cond_timedwait(&q->left, &q->lock, &end) != ETIMEDOUT)
		;
	all = q->users == 1;
	pthread_mutex_unlock(&q->lock);
	queue_leave(q);
	return all;
}
