/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that close descriptors, for a thread that must not wait: the last close of a file frees
 * its pages, 140 ms for each GiB, or asks the server of a file system, which may never answer. The
 * close of a socket also closes the descriptors in it that were not received. So the thread that
 * moves packets closes no descriptor that depends on a peer: neither those that links do not need
 * any more (struct ohca_link_closer), nor those that fronts have passed.
 *
 * There is room for as many as the process may have open, so these threads close all of them,
 * however long one of them takes. A close may also never return: of a file whose server (FUSE) does
 * not answer, or of a UNIX socket in which a TCP socket with SO_LINGER waits to be received. Each
 * such close keeps one thread. FAB_CLOSER_THREADS - 1 of them at a time delay no other descriptor.
 * With FAB_CLOSER_THREADS of them nothing else is closed until one returns.
 *
 * All threads start together, because the sandbox forbids new ones later.
 */
#ifndef OHCA_FABRIC_CLOSER_H
#define OHCA_FABRIC_CLOSER_H

#include <stdbool.h>
#include <stdint.h>

#define FAB_CLOSER_THREADS	4u

struct fab_closer_queue;

/**
 * struct fab_closer - all 0: there is no thread
 * @queue: what the threads share with the owner; NULL: there is no thread
 * @given: number of descriptors that the owner has put into @queue, modulo 2^32
 * @in_place: number that the owner has closed, for lack of a thread or of room
 */
struct fab_closer {
	struct fab_closer_queue *queue;
	uint32_t given;
	uint64_t in_place;
};

/**
 * fab_closer_start() - start FAB_CLOSER_THREADS threads, or as many of them as the system allows;
 * they run at the return
 * Return: false: there is none, errno has the reason; descriptors are closed in place.
 */
bool fab_closer_start(struct fab_closer *c);

/**
 * fab_closer_close() - close @fd, soon; owner thread only
 * @c: NULL: close it in place
 *
 * Until it is closed it may still be in an epoll set: the caller must remove it. Two descriptors
 * may be closed in any order, or at the same time. SO_LINGER of a socket is switched off: a peer
 * may have set it, and the close of a TCP socket would wait that long for its data to be sent. The
 * kernel still sends the data, after the close.
 */
void fab_closer_close(struct fab_closer *c, int fd);

/**
 * fab_closer_stop() - wait until all are closed and the threads have ended, but at most 2 s;
 * @c may be started again
 * Return: false: 2 s were not enough. The threads that still close descriptors go on, and end when
 * nothing is left to close. The end of the process does not wait for them, except in the kernel.
 */
bool fab_closer_stop(struct fab_closer *c);

#endif
