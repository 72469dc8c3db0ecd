/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two ends of a link by TCP on loopback, in one thread. */
#ifndef TEST_LINK_TCP_PAIR_H
#define TEST_LINK_TCP_PAIR_H

#include "check.h"

#include <poll.h>
#include <sys/socket.h>

#define TOKEN	"a token of the test, long enough"

static inline void readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, 10000), 1);
}

/* Makes a listener on loopback and stores its address in @path. */
static inline int listen_tcp(char *path)
{
	struct ohca_link_err err;
	int fd = ohca_link_listen("tcp:127.0.0.1:0", &err);

	assert_true(fd >= 0);
	assert_int_equal(ohca_link_bound(fd, path), 0);
	return fd;
}

/* Connects as the daemon does, in one thread. Return: the result of ohca_link_connect_finish(). */
static inline int meet(const struct ohca_link_cfg *ca, const struct ohca_link_cfg *cb,
		       struct pair *p, struct ohca_link_err *err)
{
	uint8_t nonce[OHCA_LINK_NONCE];
	char path[OHCA_LINK_TCP_MAX];
	struct ohca_link_cfg peer;
	int fd = listen_tcp(path), a, b, r;

	memset(p, 0, sizeof(*p));
	b = ohca_link_connect_start(path, cb, 0, err);
	assert_true(b >= 0);
	readable(fd);
	a = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	close(fd);
	assert_true(a >= 0);
	assert_int_equal(ohca_link_connect_finish(b, cb, &p->b, err), 0);
	assert_int_equal(ohca_link_greet(a, nonce, err), 0);
	readable(b);
	assert_int_equal(ohca_link_connect_finish(b, cb, &p->b, err), 0);
	readable(a);
	assert_int_equal(ohca_link_hello_recv(a, NULL, &peer, err), 1);
	if (!ohca_link_proven(&peer, nonce, ca->token)) {
		ohca_link_hello_reject(a, OHCA_LINK_E_CONFIG, "the token is wrong, or missing");
		close(a);
	} else {
		p->a = ohca_link_hello_reply(a, &peer, ca, err);
	}
	readable(b);
	r = ohca_link_connect_finish(b, cb, &p->b, err);
	return r;
}

/* Connects to a listener on loopback. @s: the listener's end, and the other. */
static inline void tcp_pair(int s[2])
{
	char path[OHCA_LINK_TCP_MAX];
	struct ohca_link_err err;
	const int fd = listen_tcp(path);

	s[1] = link_tcp_connect(path, &err);
	assert_true(s[1] >= 0);
	readable(fd);
	s[0] = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(s[0] >= 0);
	close(fd);
}

#endif
