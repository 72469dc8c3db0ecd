// SPDX-License-Identifier: GPL-2.0-or-later
/* Threads that close descriptors, some of which take long to close or are never closed. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../process.h"
#include "fabric/base/closer.h"

#define LINGER_S	30	/* that the close of a full socket waits */
#define LIMIT_MS	10000	/* of what takes 2 s at most */
#define LATER		100u	/* descriptors after one whose close does not return */

/** struct full - a TCP connection whose other end reads nothing */
struct full {
	int fd, reader;
	uint64_t sent;
};

static int64_t ms_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Waits until there are @n threads. */
static void wait_threads(unsigned int n)
{
	const int64_t end = ms_now() + LIMIT_MS;

	while (threads() != n) {
		assert_true(ms_now() < end);
		poll(NULL, 0, 1);
	}
}

/* Sends until the socket has no room, and makes its close wait. */
static void full_make(struct full *t)
{
	static const uint8_t data[65536];
	const struct linger linger = { 1, LINGER_S };
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), size = 4096;
	ssize_t n;

	*t = (struct full){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	assert_true(listener >= 0 && t->fd >= 0);
	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(t->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	t->reader = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(t->reader >= 0);
	close(listener);
	while ((n = send(t->fd, data, sizeof(data), MSG_DONTWAIT)) > 0)
		t->sent += (uint64_t)n;
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
}

/* Reads all that was sent, and the end. */
static void full_read(struct full *t)
{
	static uint8_t data[65536];
	struct pollfd p = { .fd = t->reader, .events = POLLIN };
	ssize_t n;

	do {
		assert_int_equal(poll(&p, 1, LIMIT_MS), 1);
		n = recv(t->reader, data, sizeof(data), 0);
		assert_true(n >= 0);
		t->sent -= (uint64_t)n;
	} while (n);
	assert_int_equal(t->sent, 0);
	close(t->reader);
}

/* Return: a UNIX socket in whose queue @fd waits, which is closed otherwise. */
static int nested(int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c = { 0 };
	struct iovec iov = { .iov_base = &c, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
			    .msg_controllen = sizeof(c.buf) };
	struct cmsghdr *cm = CMSG_FIRSTHDR(&m);
	int sv[2];

	*cm = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(cm), &fd, sizeof(int));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(sendmsg(sv[0], &m, 0), 1);
	close(sv[0]);
	close(fd);
	return sv[1];
}

/* Waits for the close of the other end of pipe @fd. */
static void closed(int fd)
{
	struct pollfd p = { .fd = fd };

	assert_int_equal(poll(&p, 1, LIMIT_MS), 1);
	assert_int_equal(p.revents, POLLHUP);
	close(fd);
}

/*
 * A peer that passes a TCP socket decides how long its close waits, but the threads do not wait.
 * What was sent still arrives.
 */
static void test_linger(void **state)
{
	struct fab_closer c = { 0 };
	struct full t;
	int64_t begin;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		full_make(&t);
		begin = ms_now();
		if (!i)
			assert_true(fab_closer_start(&c));
		fab_closer_close(&c, t.fd);
		assert_true(fab_closer_stop(&c));
		assert_true(ms_now() - begin < LIMIT_MS);
		/* without threads, too */
		assert_int_equal(c.in_place, i);
		full_read(&t);
	}
	full_make(&t);
	begin = ms_now();
	fab_closer_close(NULL, t.fd);
	assert_true(ms_now() - begin < LIMIT_MS);
	full_read(&t);
}

/* As long as one thread is left, closes that do not return delay no other, nor the end. */
static void test_stuck(void **state)
{
	const unsigned int before = threads();
	struct full t[FAB_CLOSER_THREADS - 1];
	struct fab_closer c = { 0 };
	int p[LATER][2];
	int64_t begin;

	(void)state;
	assert_true(fab_closer_start(&c));
	for (unsigned int i = 0; i < FAB_CLOSER_THREADS - 1; i++) {
		full_make(&t[i]);
		fab_closer_close(&c, nested(t[i].fd));
	}
	for (unsigned int i = 0; i < LATER; i++) {
		assert_int_equal(pipe2(p[i], O_CLOEXEC), 0);
		fab_closer_close(&c, p[i][1]);
	}
	for (unsigned int i = 0; i < LATER; i++)
		closed(p[i][0]);
	begin = ms_now();
	assert_false(fab_closer_stop(&c));
	assert_true(ms_now() - begin < LIMIT_MS);
	/* the connections end, so these closes return */
	for (unsigned int i = 0; i < FAB_CLOSER_THREADS - 1; i++)
		close(t[i].reader);
	wait_threads(before);
	assert_int_equal(c.in_place, 0);
}

/* If no thread is left the end comes all the same, and the others close what waits later. */
static void test_all_stuck(void **state)
{
	const unsigned int before = threads();
	struct full t[FAB_CLOSER_THREADS];
	struct fab_closer c = { 0 };
	int p[LATER][2];
	int64_t begin;

	(void)state;
	assert_true(fab_closer_start(&c));
	for (unsigned int i = 0; i < FAB_CLOSER_THREADS; i++) {
		full_make(&t[i]);
		fab_closer_close(&c, nested(t[i].fd));
	}
	for (unsigned int i = 0; i < LATER; i++) {
		assert_int_equal(pipe2(p[i], O_CLOEXEC), 0);
		fab_closer_close(&c, p[i][1]);
	}
	begin = ms_now();
	assert_false(fab_closer_stop(&c));
	assert_true(ms_now() - begin < LIMIT_MS);
	/* it can be started again meanwhile */
	assert_true(fab_closer_start(&c));
	assert_true(fab_closer_stop(&c));
	close(t[0].reader);
	for (unsigned int i = 0; i < LATER; i++)
		closed(p[i][0]);
	for (unsigned int i = 1; i < FAB_CLOSER_THREADS; i++)
		close(t[i].reader);
	wait_threads(before);
	assert_int_equal(c.in_place, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_linger),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_all_stuck),
	};

	return cmocka_run_group_tests_name("closers", tests, NULL, NULL);
}
