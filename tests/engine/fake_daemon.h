/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon for one front, in a thread of its own: it answers HELLO by a WELCOME and calls by DONE,
 * both of which the test may change before they are sent.
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
 * struct answer - what is sent
 * @msg: the message, @len bytes of it
 * @fd: descriptors, @fds of them
 * @silent: nothing is sent
 * @close: the connection ends after it
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
 * @irq: both ends of the interrupt socket: ours, the front's
 * @sock: to the front, valid after daemon_accepted()
 * @change: of an answer, before it is sent; or NULL
 * @value: of answers to calls
 * @type, @len, @fd: of the last call: whether a descriptor came along
 * @calls: that were made
 * @hello: as it came; @dm: whether a descriptor came along
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

/** daemon_open() - listen, and have one front served with its @welcome and its @calls changed */
void daemon_open(struct daemon *l, void (*change)(struct daemon *l, struct answer *a));

/** daemon_close() - after the front has gone: end, and check that it has closed the connection */
void daemon_close(struct daemon *l);

/** daemon_hang_up() - end the connection */
void daemon_hang_up(struct daemon *l);

/** daemon_send() - send what nobody has asked for */
void daemon_send(struct daemon *l, const void *msg, size_t len);

#endif
