/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon for one front, in its own thread: it answers HELLO with a WELCOME, and calls with DONE.
 * A test can change both before they are sent.
 */
#ifndef TEST_FRONT_DAEMON_H
#define TEST_FRONT_DAEMON_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "front/page.h"
#include "front/proto.h"

#define DAEMON_FDS	4
#define DAEMON_MAX	1024

/**
 * struct answer - an answer to the front
 * @msg: the message, @len bytes of it
 * @fd: descriptors, @fds of them
 * @silent: no answer is sent
 * @close: the daemon closes the connection after the answer
 */
struct answer {
	union {
		struct ohca_front_hdr hdr;
		struct ohca_front_welcome welcome;
		struct ohca_front_done done;
		unsigned char byte[DAEMON_MAX];
	} msg;
	size_t len;
	int fd[DAEMON_FDS];
	unsigned int fds;
	bool silent, close;
};

/**
 * struct daemon - a daemon
 * @path: its socket
 * @memfd: of the page, @bytes long; @page: mapped; @db: the doorbells in it
 * @wake: eventfd
 * @irq: both ends of the interrupt socket: the daemon's, the front's
 * @sock: to the front, valid after daemon_accepted()
 * @change: changes an answer before it is sent; or NULL
 * @value: of answers to calls
 * @type, @len, @fd: of the last call; @fd: whether it had a descriptor
 * @calls: calls so far
 * @hello: as received; @dm: whether it had a descriptor
 */
struct daemon {
	char dir[32], path[64];
	int listener, memfd, wake, irq[2], sock;
	size_t bytes;
	struct ohca_page *page;
	struct ohca_doorbells db;
	void (*change)(struct daemon *l, struct answer *a);
	unsigned long long value;
	unsigned int calls, type;
	size_t len;
	bool fd, dm;
	struct ohca_front_hello hello;
	pthread_t thread;
};

/** daemon_open() - listens and serves one front; @welcome and @calls change its answers */
void daemon_open(struct daemon *l, void (*change)(struct daemon *l, struct answer *a));

/** daemon_close() - waits for the front to close, and checks that it has closed the connection */
void daemon_close(struct daemon *l);

/** daemon_hang_up() - closes the connection */
void daemon_hang_up(struct daemon *l);

/** daemon_send() - sends a message that is no answer */
void daemon_send(struct daemon *l, const void *msg, size_t len);

#endif
