/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A thread that closes descriptors, for a thread that must not wait: the last close of a file frees
 * its pages, 140 ms for each GiB, or asks the server of a file system, which may never answer. The
 * close of a socket also closes the descriptors in it that were not received. So the thread that
 * moves packets closes no descriptor that depends on a peer: neither those that links do not need
 * any more (struct ohca_link_closer), nor those that fronts have passed.
 *
 * There is room for as many as the process may have open, so this thread closes all of them,
 * however long one of them takes.
 */
#ifndef OHCA_FABRIC_CLOSER_H
#define OHCA_FABRIC_CLOSER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * struct fab_closer - all 0: there is no thread
 * @thread: valid if @fd is
 * @todo: posted for each descriptor, and for the end
 * @begun: posted when the thread runs
 * @fd: [@room] those from @taken to @given, modulo @room, are to be closed; NULL: no thread
 * @given, @taken: numbers of descriptors, modulo 2^32; @given is written by the owner, @taken by
 *	the thread
 * @in_place: number that the owner has closed, for lack of a thread or of room
 */
struct fab_closer {
	pthread_t thread;
	sem_t todo, begun;
	int *fd;
	uint32_t room;
	_Atomic uint32_t given, taken;
	uint64_t in_place;
};

/**
 * fab_closer_start() - start the thread; it runs at the return
 * Return: false: it does not run, errno has the reason; descriptors are closed in place.
 */
bool fab_closer_start(struct fab_closer *c);

/**
 * fab_closer_close() - close @fd, soon; owner thread only
 * @c: NULL: close it in place
 *
 * Until it is closed it may still be in an epoll set: the caller must remove it.
 */
void fab_closer_close(struct fab_closer *c, int fd);

/** fab_closer_stop() - wait until all are closed, and end the thread; it may be started again */
void fab_closer_stop(struct fab_closer *c);

#endif
