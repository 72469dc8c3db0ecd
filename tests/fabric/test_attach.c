/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The number of peers that a socket accepts in a pass of the loop. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "hosts.h"

#define PEERS	20u

static unsigned int accepted;

/* Counts calls of the C library's function. */
int accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	const int new = (int)syscall(SYS_accept4, fd, sa, len, flags);

	accepted += new >= 0;
	return new;
}

/* Handles all events several times, as one pass of the loop. */
static void pass(void)
{
	struct epoll_event ev[64];

	fab_attach_timer(door, now);
	for (unsigned int look = 0; look < 3; look++)
		for (int n = epoll_wait(epfd, ev, 64, 0), i = 0; i < n; i++)
			fab_attach_event(door, fab_event_of(&ev[i]).index);
}

static unsigned int answered(const int fd[PEERS])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < PEERS; i++) {
		struct pollfd p = { .fd = fd[i], .events = POLLIN };

		n += (unsigned int)poll(&p, 1, 0);
	}
	return n;
}

/* If many peers connect at once, each pass accepts some and answers one, until all are done. */
static void test_pass(void **st)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	unsigned int most = 0;
	int fd[PEERS];

	(void)st;
	accepted = 0;
	ohca_link_cfg_init(&cfg);
	/* this one is refused, which is an answer */
	cfg.port_guid = 0;
	for (unsigned int i = 0; i < PEERS; i++) {
		fd[i] = ohca_link_connect_start(sock, &cfg, 0, &err);
		assert_true(fd[i] >= 0);
	}
	for (unsigned int done = 1; done <= PEERS; done++) {
		pass();
		most = most + FAB_ATTACH_ACCEPTS < PEERS ? most + FAB_ATTACH_ACCEPTS : PEERS;
		assert_int_equal(answered(fd), done);
		assert_int_equal(accepted, most);
	}
	for (unsigned int i = 0; i < PEERS; i++)
		close(fd[i]);
}

static int setup_hosts(void **st)
{
	(void)st;
	begin_hosts(from_spec("star:4"));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pass, setup_hosts, teardown_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
