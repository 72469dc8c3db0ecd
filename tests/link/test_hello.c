// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The handshake of a link: listening, connecting, the HELLO.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static void expect_cfg(const struct ohca_link_cfg *c, const struct ohca_link_cfg *want)
{
	assert_true(c->node_guid == want->node_guid && c->port_guid == want->port_guid);
	assert_int_equal(c->node_type, want->node_type);
	assert_true(c->port_num == want->port_num && c->want_port == want->want_port);
	assert_true(c->vl_cap == want->vl_cap && c->mtu_cap == want->mtu_cap);
	assert_true(c->shift_min == want->shift_min && c->shift_max == want->shift_max);
	assert_int_equal(c->shift_pref, want->shift_pref);
	assert_int_equal(c->width_sup, want->width_sup);
	assert_int_equal(c->speed_sup, want->speed_sup);
	assert_int_equal(c->speed_ext_sup, want->speed_ext_sup);
}

static void test_hello(void **state)
{
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg ca, cb;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&ca);
	ohca_link_cfg_init(&cb);
	ca.node_type = 2;
	ca.node_guid = 0x0102030405060708;
	ca.port_num = 7;
	ca.vl_cap = 4;
	strcpy(ca.desc, "the switch");
	cb.port_guid = 0x1112131415161718;
	cb.want_port = 7;
	cb.mtu_cap = 4;
	cb.shift_min = 1;
	cb.shift_max = 2;
	cb.shift_pref = 1;
	cb.width_sup = 1;
	cb.speed_sup = 5;
	cb.speed_ext_sup = 6;
	strcpy(cb.desc, "the \033[2Jhost");
	assert_int_equal(pair_meet(&p, &ca, &cb, &ea, &eb), 0);
	assert_int_equal(ohca_link_vls(p.a), 4);
	assert_int_equal(ohca_link_vls(p.b), 4);
	assert_int_equal(ohca_link_shift(p.a), 2);
	assert_int_equal(ohca_link_shift(p.b), 2);
	expect_cfg(ohca_link_peer(p.b), &ca);
	assert_string_equal(ohca_link_peer(p.b)->desc, "the switch");
	expect_cfg(ohca_link_peer(p.a), &cb);
	assert_string_equal(ohca_link_peer(p.a)->desc, "the ?[2Jhost");
	assert_false(ohca_link_is_up(p.a));
	assert_null(ohca_link_tx_begin(p.a, 0, 64));
	pair_free(&p);
}

/* What an end is that says nothing else: an HCA's first port, EDR 4x. */
static void test_defaults(void **state)
{
	const struct ohca_link_cfg want = {
		.node_type = 1, .port_num = 1, .vl_cap = 8, .mtu_cap = 5, .shift_min = 0,
		.shift_max = 6, .shift_pref = 2, .width_sup = 3, .speed_sup = 7,
		.speed_ext_sup = 3,
	};
	struct ohca_link_cfg c;

	(void)state;
	memset(&c, 0xff, sizeof(c));
	ohca_link_cfg_init(&c);
	expect_cfg(&c, &want);
	assert_string_equal(c.desc, "");
}

static void test_bad_vls(void **state)
{
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg ca, cb;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&ca);
	for (unsigned int vls = 0; vls < 18; vls++) {
		bool ok = vls == 1 || vls == 2 || vls == 4 || vls == 8 || vls == 15;

		cb = ca;
		cb.vl_cap = (uint8_t)vls;
		memset(&eb, 0xff, sizeof(eb));
		assert_int_equal(pair_meet(&p, &ca, &cb, &ea, &eb), ok ? 0 : -1);
		if (!ok) {
			assert_int_equal(eb.code, OHCA_LINK_E_CONFIG);
			assert_int_equal(eb.sys, 0);
			assert_int_equal(eb.text[sizeof(eb.text) - 1], 0);
		}
		pair_free(&p);
	}
}

static void test_hello_no_common_shift(void **state)
{
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg ca, cb;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&ca);
	ohca_link_cfg_init(&cb);
	ca.shift_max = 1;
	cb.shift_min = 2;
	assert_int_equal(pair_meet(&p, &ca, &cb, &ea, &eb), -1);
	assert_int_equal(ea.code, OHCA_LINK_E_CONFIG);
	assert_int_equal(eb.code, OHCA_LINK_E_CONFIG);
	assert_non_null(strstr(eb.text, "no common credit shift"));
	cb.vl_cap = 3;
	assert_int_equal(pair_meet(&p, &ca, &cb, &ea, &eb), -1);
	assert_non_null(strstr(eb.text, "3 data VLs"));
}

/* A raw client: what it sends, and the listener's answer into @err. */
static void raw_client(const void *msg, size_t len, struct ohca_link_err *theirs,
		       struct ohca_link_err *ours)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct ohca_link_cfg cfg, peer;
	uint8_t buf[OHCA_WIRE_MSG_MAX];
	int ls, cs, fd;
	ssize_t n;

	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), ours);
	assert_true(ls >= 0);
	strcpy(sa.sun_path, in_dir("s"));
	cs = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(connect(cs, (struct sockaddr *)&sa, sizeof(sa)), 0);
	fd = accept4(ls, NULL, NULL, SOCK_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(ohca_link_hello_recv(fd, &peer, ours), 0);
	assert_int_equal(send(cs, msg, len, 0), len);
	assert_int_equal(ohca_link_hello_recv(fd, &peer, ours), -1);
	n = recv(cs, buf, sizeof(buf), MSG_DONTWAIT);
	assert_true(n > 0);
	assert_int_equal(link_check_hdr(buf, (size_t)n, theirs), -1);
	close(fd);
	close(cs);
	close(ls);
	unlink(in_dir("s"));
}

static void test_hello_bad(void **state)
{
	struct ohca_wire_hello h = { .features = OHCA_WIRE_FEAT_SHM };
	struct ohca_link_err theirs, ours;
	uint8_t big[OHCA_WIRE_MSG_MAX + 100] = { 0 };

	(void)state;
	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h));
	h.hdr.version = OHCA_LINK_VERSION + 1;
	raw_client(&h, sizeof(h), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_VERSION);
	assert_int_equal(theirs.code, OHCA_LINK_E_VERSION);
	assert_non_null(strstr(theirs.text, "version 3"));
	assert_non_null(strstr(theirs.text, "speak 2"));

	raw_client("GET / HTTP/1.0\r\n\r\n", 18, &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);
	assert_int_equal(theirs.code, OHCA_LINK_E_PROTO);

	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h) - 1);
	raw_client(&h, sizeof(h), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);

	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, 40);
	raw_client(&h, 40, &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);

	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h));
	h.features = 0;
	raw_client(&h, sizeof(h), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_CONFIG);

	raw_client(big, sizeof(big), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);
}

static void test_timeout(void **state)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	int ls;

	(void)state;
	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	assert_null(ohca_link_accept(ls, &cfg, 20, &err));
	assert_int_equal(err.code, OHCA_LINK_E_TIMEOUT);
	/* Nobody accepts. */
	assert_null(ohca_link_connect(in_dir("s"), &cfg, 20, &err));
	assert_int_equal(err.code, OHCA_LINK_E_TIMEOUT);
	close(ls);
	unlink(in_dir("s"));
}

static void test_paths(void **state)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	char longer[200];
	int fd, fd2;

	(void)state;
	ohca_link_cfg_init(&cfg);
	memset(longer, 'x', sizeof(longer));
	longer[0] = '/';
	longer[sizeof(longer) - 1] = 0;
	assert_int_equal(ohca_link_listen(longer, &err), -1);
	assert_int_equal(err.code, OHCA_LINK_E_PATH);
	assert_non_null(strstr(err.text, "199 characters"));
	assert_null(ohca_link_connect(longer, &cfg, 10, &err));
	assert_int_equal(err.code, OHCA_LINK_E_PATH);
	assert_int_equal(ohca_link_listen("", &err), -1);
	assert_int_equal(ohca_link_listen(in_dir("no/such"), &err), -1);
	assert_int_equal(err.sys, ENOENT);
	assert_null(ohca_link_connect(in_dir("none"), &cfg, 10, &err));
	assert_non_null(strstr(err.text, "is ohca-switch running?"));

	/* A plain file is not replaced, a live socket neither, a stale one is. */
	fd = open(in_dir("file"), O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ohca_link_listen(in_dir("file"), &err), -1);
	assert_non_null(strstr(err.text, "not a socket"));
	assert_int_equal(unlink(in_dir("file")), 0);
	fd = ohca_link_listen(in_dir("s"), &err);
	assert_true(fd >= 0);
	assert_int_equal(ohca_link_listen(in_dir("s"), &err), -1);
	assert_non_null(strstr(err.text, "another process listens"));
	close(fd);
	assert_null(ohca_link_connect(in_dir("s"), &cfg, 10, &err));
	assert_non_null(strstr(err.text, "nobody listens"));
	fd2 = ohca_link_listen(in_dir("s"), &err);
	assert_true(fd2 >= 0);
	close(fd2);
	unlink(in_dir("s"));
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

/* Several find the same stale socket at the same time: one gets the path, and keeps it. */
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

/* The halves of connecting never block; what fails closes the socket. */
static void test_connect_halves(void **state)
{
	struct ohca_link_cfg cfg, peer;
	struct ohca_link_err err;
	struct ohca_link *l = NULL, *m;
	int ls, fd, sock, n, waiting[200];

	(void)state;
	ohca_link_cfg_init(&cfg);
	assert_int_equal(ohca_link_connect_start(in_dir("s"), &cfg, 0, &err), -1);
	assert_int_equal(err.code, OHCA_LINK_E_PATH);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);

	/* No answer yet, an answer. */
	sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
	assert_true(sock >= 0);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 0);
	fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(ohca_link_hello_recv(fd, &peer, &err), 1);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 0);
	assert_null(l);
	m = ohca_link_hello_reply(fd, &peer, &cfg, &err);
	assert_non_null(m);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 1);
	assert_non_null(l);
	ohca_link_free(l);
	ohca_link_free(m);

	/* A refusal, and a listener that goes away. */
	for (int i = 0; i < 2; i++) {
		sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		assert_true(sock >= 0);
		fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		assert_true(fd >= 0);
		if (i == 0) {
			assert_int_equal(ohca_link_hello_recv(fd, &peer, &err), 1);
			ohca_link_hello_reject(fd, OHCA_LINK_E_NOPORT, "all ports are taken");
		}
		close(fd);
		assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
		assert_int_equal(fcntl(sock, F_GETFD), -1);
		if (i == 0)
			assert_non_null(strstr(err.text, "all ports are taken"));
	}

	/* A full backlog is an error at once, not a wait. */
	for (n = 0; n < 200; n++) {
		waiting[n] = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		if (waiting[n] < 0)
			break;
	}
	assert_in_range(n, 1, 199);
	assert_int_equal(err.code, OHCA_LINK_E_TIMEOUT);
	while (n)
		close(waiting[--n]);
	close(ls);
	unlink(in_dir("s"));
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* No more than @n descriptors beside the open ones, or as many as before if @n is negative. */
static void allow_files(int n)
{
	static struct rlimit before;
	struct rlimit now;
	int next = dup(0);

	assert_true(next >= 0);
	close(next);
	if (n >= 0) {
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
		now = before;
		now.rlim_cur = (rlim_t)(next + n);
	} else {
		now = before;
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

/* Whichever descriptor cannot be had at either end, both ends learn that, and none stays open. */
static void test_no_descriptors(void **state)
{
	struct ohca_link_cfg cfg, peer;
	struct ohca_link *l, *m;
	struct ohca_link_err err;
	unsigned int before;
	int ls, fd, sock, n;

	(void)state;
	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	before = open_files();
	for (int side = 0; side < 2; side++) {
		for (n = 0;; n++) {
			l = NULL;
			sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
			fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			assert_true(sock >= 0 && fd >= 0);
			assert_int_equal(ohca_link_hello_recv(fd, &peer, &err), 1);
			if (side == 0)
				allow_files(n);
			memset(&err, 0, sizeof(err));
			m = ohca_link_hello_reply(fd, &peer, &cfg, &err);
			if (side == 0) {
				allow_files(-1);
				if (m)
					break;
				assert_int_equal(err.code, OHCA_LINK_E_SYS);
				assert_int_equal(err.sys, EMFILE);
				assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
				assert_int_equal(err.code, OHCA_LINK_E_SYS);
				assert_non_null(strstr(err.text, "the peer refused"));
			} else {
				assert_non_null(m);
				allow_files(n);
				memset(&err, 0, sizeof(err));
				(void)ohca_link_connect_finish(sock, &cfg, &l, &err);
				allow_files(-1);
				if (l)
					break;
				assert_int_not_equal(err.code, 0);
				ohca_link_free(m);
			}
			assert_int_equal(open_files(), before);
		}
		assert_true(n > 2);
		if (side == 0)
			assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 1);
		ohca_link_free(l);
		ohca_link_free(m);
		assert_int_equal(open_files(), before);
	}
	close(ls);
	unlink(in_dir("s"));
}

/* A descriptor that is no pipe is refused, whatever its name; so is one too few. */
static void test_hostile_fds(void **state)
{
	struct ohca_link_cfg cfg, peer;
	struct ohca_link_err err;
	struct ohca_link *l = NULL;
	struct ohca_wire_hello h = { .features = OHCA_WIRE_FEAT_SHM, .node_type = 2,
				     .port_num = 1, .vl_cap = 1, .mtu_cap = 5, .vls = 1 };
	int ls, fd, sock;

	(void)state;
	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	h.mem_size = shm_size(1, 0);
	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h));
	for (unsigned int n = 2; n <= 3; n++) {
		union {
			char buf[CMSG_SPACE(3 * sizeof(int))];
			struct cmsghdr align;
		} c = { 0 };
		struct iovec iov = { .iov_base = &h, .iov_len = sizeof(h) };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
				    .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
		struct cmsghdr *cm = CMSG_FIRSTHDR(&m);
		int fds[3] = { shm_create(1, 0), -1, -1 };

		fds[1] = fds[2] = memfd_create("pipe:[1]", 0);
		sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		assert_true(sock >= 0);
		fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		assert_true(fd >= 0);
		assert_int_equal(ohca_link_hello_recv(fd, &peer, &err), 1);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, n * sizeof(int));
		assert_int_equal(sendmsg(fd, &m, 0), sizeof(h));
		assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
		assert_non_null(strstr(err.text, n == 3 ? "no pipe" : "did not pass"));
		close(fds[0]);
		close(fds[1]);
		close(fd);
	}
	close(ls);
	unlink(in_dir("s"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_bad_vls),
		cmocka_unit_test(test_hello_no_common_shift),
		cmocka_unit_test(test_hello_bad),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_listen_race),
		cmocka_unit_test(test_connect_halves),
		cmocka_unit_test(test_no_descriptors),
		cmocka_unit_test(test_hostile_fds),
	};

	return cmocka_run_group_tests_name("link handshake", tests, make_dir, remove_dir);
}
