/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A thread that closes descriptors, for one that must not wait: who closes the last descriptor of a
 * file frees its pages, 140 ms for each GiB, or asks the server of a file system, which may never
 * answer. A socket has the descriptors that nobody has received, too.
 * So the thread that moves packets closes nothing that a peer has to do with: neither what links do not
 * need any more (struct ohca_link_closer), nor what fronts have passed.
 *
 * There is room for as many as the process may have open, so they are closed in the thread whatever
 * one of them takes.
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
 * @given, @taken: how many there were, modulo 2^32; written by the owner, by the thread
 * @in_place: closed by the owner, for lack of a thread or of room
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
 * fab_closer_start() - start the thread, which has begun at the return
 * Return: false: there is none, errno says why; descriptors are closed in place.
 */
bool fab_closer_start(struct fab_closer *c);

/**
 * fab_closer_close() - close @fd, soon; owner thread only
 * @c: NULL: close it in place
 *
 * It may be among those of an epoll set until it is closed: the caller takes it out.
 */
void fab_closer_close(struct fab_closer *c, int fd);

/** fab_closer_stop() - wait until all are closed, and end the thread; it may be started again */
void fab_closer_stop(struct fab_closer *c);

#endif
