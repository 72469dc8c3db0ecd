// SPDX-License-Identifier: GPL-2.0-or-later
/* Paths of listeners, who may listen, and how long an end waits for the other. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

static void test_timeout(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct ohca_link_cfg cfg, peer;
	struct ohca_link_err err;
	int64_t begin = ms_now();
	int ls, cs, fd;

	(void)state;
	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	assert_null(simple_accept(ls, &cfg, 20, &err));
	expect_err(&err, OHCA_LINK_E_TIMEOUT, 0, "nobody connected in 20 ms");
	assert_true(ms_now() - begin >= 20);
	/* The listener accepts no connection. */
	begin = ms_now();
	assert_null(ohca_link_connect(in_dir("s"), &cfg, 20, &err));
	expect_err(&err, OHCA_LINK_E_TIMEOUT, 0, "the listener did not answer our HELLO in time");
	assert_true(ms_now() - begin >= 20);
	fd = accept(ls, NULL, NULL);
	close(fd);
	/* A client connects and sends nothing, or closes. */
	strcpy(sa.sun_path, in_dir("s"));
	for (int i = 0; i < 2; i++) {
		cs = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		assert_int_equal(connect(cs, (struct sockaddr *)&sa, sizeof(sa)), 0);
		begin = ms_now();
		if (i)
			close(cs);
		assert_null(simple_accept(ls, &cfg, 20, &err));
		if (i) {
			expect_err(&err, OHCA_LINK_E_PROTO, 0,
				   "the peer closed the socket before its first message");
			break;
		}
		expect_err(&err, OHCA_LINK_E_TIMEOUT, 0, "the peer sent no HELLO in 20 ms");
		assert_true(ms_now() - begin >= 20);
		close(cs);
	}
	close(ls);
	unlink(in_dir("s"));
	/* This socket does not listen. */
	ls = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	assert_null(simple_accept(ls, &cfg, 20, &err));
	expect_err(&err, OHCA_LINK_E_SYS, EINVAL, "accept");
	errno = 0;
	assert_int_equal(ohca_link_hello_recv(ls, NULL, &peer, &err), -1);
	expect_err(&err, OHCA_LINK_E_SYS, errno, "the peer cannot be reached");
	assert_int_not_equal(err.sys, 0);
	close(ls);
}

int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);

static int64_t readable_until;	/* until then poll() reports data, whether there is any or not */

int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
	if (ms_now() >= readable_until)
		return __real_poll(p, n, ms);
	p->revents = POLLIN;
	return 1;
}

/* A listener that sends all the time, but no HELLO, does not extend the wait. */
static void test_no_answer(void **state)
{
	const int64_t end = ms_now() + 5000;
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	int ls;

	(void)state;
	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	readable_until = end;
	assert_null(ohca_link_connect(in_dir("s"), &cfg, 20, &err));
	readable_until = 0;
	assert_true(ms_now() < end);
	expect_err(&err, OHCA_LINK_E_TIMEOUT, 0, "the listener did not answer our HELLO in time");
	close(ls);
	unlink(in_dir("s"));
}

static void test_paths(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	char longer[200];
	int64_t begin;
	int fd, fd2;

	(void)state;
	ohca_link_cfg_init(&cfg);
	memset(longer, 'x', sizeof(longer));
	memcpy(longer, in_dir(""), strlen(in_dir("")));
	longer[199] = 0;
	assert_int_equal(ohca_link_listen(longer, &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, 0,
		   "socket path '%.60s...' has 199 characters, the limit is 107", longer);
	assert_null(ohca_link_connect(longer, &cfg, 10, &err));
	assert_int_equal(err.code, OHCA_LINK_E_PATH);
	longer[108] = 0;
	assert_int_equal(ohca_link_listen(longer, &err), -1);
	assert_int_equal(ohca_link_listen(longer, NULL), -1);
	longer[107] = 0;
	fd = ohca_link_listen(longer, &err);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(unlink(longer), 0);
	assert_int_equal(ohca_link_listen("", &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, 0, "the socket's path is empty");
	assert_int_equal(ohca_link_listen(in_dir("no/such"), &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, ENOENT, "cannot listen on '%s'", in_dir("no/such"));
	assert_int_equal(ohca_link_listen("/proc/ohca", &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, err.sys, "cannot listen on '/proc/ohca'");
	assert_int_not_equal(err.sys, 0);
	/* A missing listener is no reason to wait. */
	begin = ms_now();
	assert_null(ohca_link_connect(in_dir("none"), &cfg, 20000, &err));
	expect_err(&err, OHCA_LINK_E_PATH, 0, "no fabric socket '%s': is ohca-fabric running?",
		   in_dir("none"));
	assert_true(ms_now() - begin < 20000);

	/* A listener replaces a stale socket, but neither a plain file nor a live socket. */
	fd = open(in_dir("file"), O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ohca_link_listen(in_dir("file"), &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, 0,
		   "cannot listen on '%s': it exists and is not a socket", in_dir("file"));
	assert_int_equal(ohca_link_connect_start(in_dir("file/s"), &cfg, 0, &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, ENOTDIR, "cannot connect to '%s'", in_dir("file/s"));
	assert_int_equal(unlink(in_dir("file")), 0);
	fd = ohca_link_listen(in_dir("s"), &err);
	assert_true(fd >= 0);
	assert_int_equal(ohca_link_listen(in_dir("s"), &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, 0,
		   "cannot listen on '%s': another process listens there", in_dir("s"));
	close(fd);
	assert_null(ohca_link_connect(in_dir("s"), &cfg, 10, &err));
	expect_err(&err, OHCA_LINK_E_PATH, 0, "no process listens on '%s': is ohca-fabric running?",
		   in_dir("s"));
	fd2 = ohca_link_listen(in_dir("s"), &err);
	assert_true(fd2 >= 0);
	close(fd2);
	unlink(in_dir("s"));

	/* A socket of another kind of program stays. */
	strcpy(sa.sun_path, in_dir("s"));
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(ohca_link_listen(in_dir("s"), &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, 0,
		   "cannot listen on '%s': another process listens there", in_dir("s"));
	assert_int_equal(ohca_link_connect_start(in_dir("s"), &cfg, 0, &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, 0, "'%s' is not a fabric socket", in_dir("s"));
	close(fd);
	unlink(in_dir("s"));

	/* relative to the working directory */
	fd2 = open(".", O_RDONLY | O_DIRECTORY);
	assert_true(fd2 >= 0);
	assert_int_equal(chdir(dir), 0);
	fd = ohca_link_listen("s", &err);
	assert_int_equal(fchdir(fd2), 0);
	close(fd2);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(unlink(in_dir("s")), 0);
}

struct race {
	pthread_barrier_t *start;
	const char *path;
	struct ohca_link_err err;
	int fd;
};

static void *race_listen(void *arg)
{
	struct race *r = arg;

	pthread_barrier_wait(r->start);
	r->fd = ohca_link_listen(r->path, &r->err);
	return NULL;
}

/* A listener waits while another process begins to listen in the same directory. */
static void test_lock(void **state)
{
	struct race r = { .path = in_dir("s") };
	int lock = open(dir, O_RDONLY | O_DIRECTORY);
	pthread_barrier_t start;
	pthread_t t;

	(void)state;
	assert_int_equal(pthread_barrier_init(&start, NULL, 2), 0);
	r.start = &start;
	assert_int_equal(flock(lock, LOCK_EX), 0);
	assert_int_equal(pthread_create(&t, NULL, race_listen, &r), 0);
	pthread_barrier_wait(&start);
	usleep(20000);
	assert_int_equal(access(r.path, F_OK), -1);
	close(lock);
	pthread_join(t, NULL);
	assert_true(r.fd >= 0);
	close(r.fd);
	unlink(r.path);
	pthread_barrier_destroy(&start);
}

/* Several processes find the same stale socket at the same time: one gets the path and keeps it. */
static void test_listen_race(void **state)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	const char *path = in_dir("s");
	pthread_barrier_t start;
	int fd, sock;

	(void)state;
	ohca_link_cfg_init(&cfg);
	assert_int_equal(pthread_barrier_init(&start, NULL, 4), 0);
	fd = ohca_link_listen(in_dir("s"), &err);
	assert_true(fd >= 0);
	for (int i = 0; i < 300; i++) {
		struct race r[4];
		pthread_t t[4];
		int won = 0;

		close(fd);		/* stale from here on */
		for (int k = 0; k < 4; k++) {
			r[k] = (struct race){ .start = &start, .path = path };
			assert_int_equal(pthread_create(&t[k], NULL, race_listen, &r[k]), 0);
		}
		for (int k = 0; k < 4; k++) {
			pthread_join(t[k], NULL);
			if (r[k].fd < 0)
				continue;
			fd = r[k].fd;
			won++;
		}
		assert_int_equal(won, 1);
		sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		assert_true(sock >= 0);
		close(sock);
	}
	close(fd);
	unlink(in_dir("s"));
	pthread_barrier_destroy(&start);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_listen_race),
	};

	return cmocka_run_group_tests_name("link listening", tests, make_dir, remove_dir);
}
