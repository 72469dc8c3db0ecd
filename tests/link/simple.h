/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Links for simple programs: a thread that waits until a peer has connected or the link is up. */
#ifndef TEST_LINK_SIMPLE_H
#define TEST_LINK_SIMPLE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "link/link.h"

static inline int64_t simple_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Return: whether the time is over. */
static inline bool simple_wait(int fd, int64_t end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	const int64_t left = end - simple_ms();

	return poll(&p, 1, left > 0 ? (int)left : 0) <= 0 && simple_ms() >= end;
}

__attribute__((format(printf, 3, 4)))
static inline struct ohca_link *simple_failed(struct ohca_link_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	*err = (struct ohca_link_err){ .code = code };
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return NULL;
}

/* Receives the HELLO of the peer at @fd, which must have the token of @cfg. Return: 1 or -1. */
static inline int simple_hello(int fd, const struct ohca_link_cfg *cfg, int timeout_ms,
			       struct ohca_link_cfg *peer, struct ohca_link_err *err)
{
	const int64_t end = simple_ms() + timeout_ms;
	uint8_t nonce[OHCA_LINK_NONCE];
	int r;

	if (ohca_link_greet(fd, nonce, err))
		return -1;
	while (!(r = ohca_link_hello_recv(fd, cfg->closer, peer, err)))
		if (simple_wait(fd, end)) {
			simple_failed(err, OHCA_LINK_E_TIMEOUT, "the peer sent no HELLO in %d ms",
				      timeout_ms);
			return -1;
		}
	if (r < 0 || ohca_link_proven(peer, nonce, cfg->token))
		return r;
	simple_failed(err, OHCA_LINK_E_CONFIG, "the peer does not have our token");
	ohca_link_hello_reject(fd, OHCA_LINK_E_CONFIG, "the token is wrong, or missing");
	return -1;
}

/**
 * simple_accept() - accepts one peer; a peer by TCP without the token of @cfg is refused
 * @timeout_ms: for the connection, and then for its HELLO
 *
 * Return: the link, or NULL and the reason in @err.
 */
static inline struct ohca_link *simple_accept(int listen_fd, const struct ohca_link_cfg *cfg,
					      int timeout_ms, struct ohca_link_err *err)
{
	const int64_t end = simple_ms() + timeout_ms;
	struct ohca_link_cfg peer;
	int fd;

	do {
		if (simple_wait(listen_fd, end))
			return simple_failed(err, OHCA_LINK_E_TIMEOUT, "nobody connected in %d ms",
					     timeout_ms);
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED));
	if (fd < 0) {
		const int e = errno;

		simple_failed(err, OHCA_LINK_E_SYS, "accept: %s", strerror(e));
		err->sys = e;
		return NULL;
	}
	if (simple_hello(fd, cfg, timeout_ms, &peer, err) > 0)
		return ohca_link_hello_reply(fd, &peer, cfg, err);
	close(fd);
	return NULL;
}

/**
 * simple_take() - moves received frames to the rings and drops all events
 *
 * Return: whether there were any events.
 */
static inline bool simple_take(struct ohca_link *l)
{
	bool any = false;

	while (ohca_link_ctrl(l) != OHCA_LINK_EV_NONE)
		any = true;
	return any;
}

/** simple_step() - sends all that is ready, then as simple_take(). Return: as simple_take() */
static inline bool simple_step(struct ohca_link *l)
{
	ohca_link_kick(l);
	ohca_link_awake(l);
	return simple_take(l);
}

/** simple_nap() - waits until the link has something to do. Return: false if nothing came in @ms */
static inline bool simple_nap(struct ohca_link *l, int ms)
{
	struct pollfd p[] = {
		{ .fd = ohca_link_event_fd(l), .events = POLLIN },
		{ .fd = ohca_link_ctrl_fd(l), .events = POLLIN },
	};
	int r = 1;

	if (ohca_link_prepare_sleep(l)) {
		r = poll(p, 2, ms);
		ohca_link_awake(l);
	}
	simple_take(l);
	return r != 0;
}

/** simple_up() - waits until the link is up; both ends must train. Return: 0 or -1. */
static inline int simple_up(struct ohca_link *l, int timeout_ms)
{
	const int64_t end = simple_ms() + timeout_ms;

	for (;;) {
		switch (ohca_link_ctrl(l)) {
		case OHCA_LINK_EV_UP:
			return 0;
		case OHCA_LINK_EV_CLOSED:
		case OHCA_LINK_EV_ERROR:
			return -1;
		case OHCA_LINK_EV_DOWN:
			continue;
		case OHCA_LINK_EV_NONE:
			break;
		}
		if (ohca_link_is_up(l))
			return 0;
		if (ohca_link_ctrl_fd(l) < 0 || simple_wait(ohca_link_ctrl_fd(l), end))
			return -1;
	}
}

#endif
