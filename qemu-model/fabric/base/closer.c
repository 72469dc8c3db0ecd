// SPDX-License-Identifier: GPL-2.0-or-later
/* Descriptors that another thread closes; see closer.h. */
#include "closer.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define ROOM_MOST	(1u << 20)	/* a power of 2 */

static void wait_for(sem_t *s)
{
	/* a signal of the process may interrupt it */
	while (sem_wait(s))
		;
}

static void *closer_run(void *arg)
{
	struct fab_closer *c = arg;

	sem_post(&c->begun);
	for (;;) {
		const uint32_t n = c->taken;

		wait_for(&c->todo);
		if (n == atomic_load(&c->given))
			return NULL;
		close(c->fd[n % c->room]);
		atomic_store(&c->taken, n + 1);
	}
}

/* A power of 2, so that indices may wrap around. Unused pages of the array are never allocated. */
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

bool fab_closer_start(struct fab_closer *c)
{
	*c = (struct fab_closer){ .room = closer_room() };
	c->fd = calloc(c->room, sizeof(*c->fd));
	if (!c->fd)
		return false;
	sem_init(&c->todo, 0, 0);
	sem_init(&c->begun, 0, 0);
	errno = pthread_create(&c->thread, NULL, closer_run, c);
	if (!errno) {
		wait_for(&c->begun);
		return true;
	}
	free(c->fd);
	c->fd = NULL;
	return false;
}

void fab_closer_close(struct fab_closer *c, int fd)
{
	const uint32_t n = c ? c->given : 0;

	if (!c) {
		close(fd);
		return;
	}
	if (!c->fd || n - atomic_load(&c->taken) == c->room) {
		c->in_place++;
		close(fd);
		return;
	}
	c->fd[n % c->room] = fd;
	atomic_store(&c->given, n + 1);
	sem_post(&c->todo);
}

void fab_closer_stop(struct fab_closer *c)
{
	if (!c->fd)
		return;
	/* the thread finds no descriptor, and ends */
	sem_post(&c->todo);
	pthread_join(c->thread, NULL);
	sem_destroy(&c->todo);
	sem_destroy(&c->begun);
	free(c->fd);
	c->fd = NULL;
}
