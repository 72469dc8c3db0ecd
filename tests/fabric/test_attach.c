/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The share of peers in a pass of the loop: those that a socket accepts, and those it answers. */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "hosts.h"

#include "fabric/remote.h"
#include "link/wire.h"

#define PEERS	20u
#define TOKEN	"0123456789abcdef"

static unsigned int accepted;

/* Counts calls of the C library's function. */
int accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	const int new = (int)syscall(SYS_accept4, fd, sa, len, flags);

	accepted += new >= 0;
	return new;
}

/* Handles all events several times, as one pass of the loop. */
static void pass(struct fab_attach *a)
{
	struct epoll_event ev[64];

	fab_attach_timer(a, now);
	for (unsigned int look = 0; look < 3; look++)
		for (int n = epoll_wait(epfd, ev, 64, 0), i = 0; i < n; i++)
			fab_attach_event(a, fab_event_of(&ev[i]).index);
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
		pass(door);
		most = most + FAB_ATTACH_ACCEPTS < PEERS ? most + FAB_ATTACH_ACCEPTS : PEERS;
		assert_int_equal(answered(fd), done);
		assert_int_equal(accepted, most);
	}
	for (unsigned int i = 0; i < PEERS; i++)
		close(fd[i]);
}

/* ---- by TCP --------------------------------------------------------------------- */

static time_t seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/* Connects to @path as a program that is no peer, and sends @n bytes. Return: its socket. */
static int stranger(const char *path, size_t n)
{
	static const uint8_t bytes[OHCA_WIRE_MSG_MAX];
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_port = htons((uint16_t)atoi(strrchr(path, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(fd, bytes, n, 0), n);
	return fd;
}

/* Connects to @path, and waits for GREETING at most 30 s. Return: a socket that has sent HELLO. */
static int program(struct fab_attach *tcp, const char *path, const struct ohca_link_cfg *cfg)
{
	struct ohca_link_err err;
	struct pollfd p = { .fd = ohca_link_connect_start(path, cfg, 0, &err), .events = POLLIN };
	const time_t end = seconds() + 30;
	struct ohca_link *l;

	assert_true(p.fd >= 0);
	do {
		assert_true(seconds() < end);
		pass(tcp);
	} while (!poll(&p, 1, 1));
	assert_int_equal(ohca_link_connect_finish(p.fd, cfg, &l, &err), 0);
	return p.fd;
}

/*
 * A peer whose first message is not complete takes nobody's turn, and one that sends an urgent byte
 * in it is refused at once: its socket would stay readable.
 */
static void test_tcp(void **st)
{
	struct fab_attach_cfg at = { .path = "tcp:127.0.0.1:0", .epfd = epfd,
				     .type = FAB_EVENT_ATTACH, .tenant = FAB_NONE };
	const uint8_t bytes[600] = { 0 };
	char path[OHCA_LINK_TCP_MAX];
	struct ohca_link_err err;
	struct ohca_link_cfg cfg;
	struct fab_attach *tcp;
	int urgent, half, fd;
	time_t end;

	(void)st;
	at.remote = fab_remote_new(d, epfd, TOKEN, NULL, 0, &err);
	assert_non_null(at.remote);
	tcp = fab_attach_new(d, &at, &err);
	assert_non_null(tcp);
	fab_attach_bound(tcp, path);
	/* their events come in this order */
	urgent = stranger(path, 100);
	assert_int_equal(send(urgent, "!", 1, MSG_OOB), 1);
	assert_int_equal(send(urgent, bytes, sizeof(bytes), 0), sizeof(bytes));
	half = stranger(path, OHCA_WIRE_MSG_MAX - 1);
	ohca_link_cfg_init(&cfg);
	cfg.token = TOKEN;
	cfg.port_guid = 50;
	fd = program(tcp, path, &cfg);
	end = seconds() + 30;
	while (!ohca_link_connect_finish(fd, &cfg, &host[0].l, &err)) {
		assert_true(seconds() < end);
		pass(tcp);
	}
	assert_non_null(host[0].l);
	assert_non_null(strstr(said, "refused 'a peer': the peer sent urgent data in its first"));
	close(urgent);

	/* the other program has the place of the one that was refused */
	cfg.port_guid = 51;
	fd = program(tcp, path, &cfg);
	end = seconds() + 30;
	while (!ohca_link_connect_finish(fd, &cfg, &host[1].l, &err)) {
		assert_true(seconds() < end);
		fab_attach_timer(tcp, now);
		fab_attach_event(tcp, 1);
		fab_attach_event(tcp, 0);
	}
	assert_non_null(host[1].l);
	close(half);
	fab_attach_free(tcp);
	fab_remote_free(at.remote);
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
		cmocka_unit_test_setup_teardown(test_tcp, setup_hosts, teardown_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
