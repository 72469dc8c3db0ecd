// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A link with a closer closes no descriptor itself: neither its own ones, nor those that a peer
 * sends with a message without need. The closer of the tests keeps all of them until the test has
 * checked them.
 */
#include "check.h"

#include <fcntl.h>
#include <sys/socket.h>

#define MOST	253u	/* descriptors of a message */

static int taken[2 * MOST];
static unsigned int ntaken, in_place;
static unsigned int mapped;	/* mappings of links when the closer received the last descriptor */

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	in_place++;
	return __real_close(fd);
}

static void take(void *arg, int fd)
{
	assert_ptr_equal(arg, &ntaken);
	assert_true(ntaken < 2 * MOST);
	/* it is open, and the closer has not received it before */
	assert_true(fcntl(fd, F_GETFD) >= 0);
	for (unsigned int i = 0; i < ntaken; i++)
		assert_int_not_equal(taken[i], fd);
	taken[ntaken++] = fd;
	mapped = mappings();
}

static const struct ohca_link_closer closer = { .close = take, .arg = &ntaken };

/* The closer has received @n descriptors since the last check, and the link closed none. */
static void expect_taken(unsigned int n)
{
	assert_int_equal(in_place, 0);
	assert_int_equal(ntaken, n);
	while (ntaken)
		__real_close(taken[--ntaken]);
}

/* The last descriptor that the closer received is the memory of a link. */
static bool memory_is_last(void)
{
	char name[64] = "", proc[32];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", taken[ntaken - 1]);
	return readlink(proc, name, sizeof(name) - 1) > 0 && strstr(name, "memfd:ohca-link");
}

static struct ohca_link_cfg cfg_of(uint8_t vls)
{
	struct ohca_link_cfg c;

	ohca_link_cfg_init(&c);
	c.vl_cap = vls;
	c.closer = &closer;
	return c;
}

static void sockets(int type, int *sv)
{
	assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv), 0);
}

/* Sends a message with @n descriptors. */
static void send_fds(int sock, const void *msg, size_t len, unsigned int n)
{
	union {
		char buf[CMSG_SPACE(MOST * sizeof(int))];
		struct cmsghdr align;
	} c = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)msg, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
			    .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *cm = CMSG_FIRSTHDR(&m);

	*cm = (struct cmsghdr){ .cmsg_len = CMSG_LEN(n * sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS };
	for (unsigned int i = 0; i < n; i++)
		memcpy(CMSG_DATA(cm) + i * sizeof(int), &(int){ 0 }, sizeof(int));
	assert_int_equal(sendmsg(sock, &m, 0), (ssize_t)len);
}

/* @sv[1] has sent its HELLO. */
static void meet(struct pair *p, const int *sv, const struct ohca_link_cfg *c)
{
	struct ohca_link_cfg peer;
	struct ohca_link_err err;

	assert_int_equal(ohca_link_hello_recv(sv[0], c->closer, &peer, &err), 1);
	p->a = ohca_link_hello_reply(sv[0], &peer, c, &err);
	assert_non_null(p->a);
	assert_int_equal(ohca_link_connect_finish(sv[1], c, &p->b, &err), 1);
}

/*
 * The links of @p have @n descriptors. One end is freed; the other one detects it while they are
 * open.
 */
static void expect_end(struct pair *p, unsigned int n)
{
	ohca_link_free(p->b);
	assert_int_equal(ohca_link_ctrl(p->a), OHCA_LINK_EV_CLOSED);
	/* including a socket of the other end */
	expect_taken(n + 1);
	ohca_link_free(p->a);
	/* the closer's owner frees the pages when it closes this descriptor */
	assert_true(memory_is_last());
	assert_int_equal(mapped, 0);
	expect_taken(n - 1);
}

/* The peer sends descriptors with each message. */
static void test_passed(void **state)
{
	const struct ohca_link_cfg c = cfg_of(1);
	struct {
		struct ohca_wire_rec rec;
		struct ohca_wire_hdr hdr;
	} m = { .rec = { .kind = OHCA_WIRE_MESSAGE, .len = htole16(sizeof(m.hdr)) } };
	struct ohca_wire_hello h;
	struct pair p;
	int sv[2];

	(void)state;
	in_place = 0;
	sockets(SOCK_SEQPACKET, sv);
	link_hello_fill(&h, &c);
	send_fds(sv[1], &h, sizeof(h), MOST);
	meet(&p, sv, &c);
	expect_taken(MOST);
	link_hdr_init(&m.hdr, 99, sizeof(m.hdr));
	send_fds(sv[1], &m, sizeof(m), MOST);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
	expect_taken(MOST);
	expect_end(&p, 3);
}

/* A peer that breaks the rules is disconnected at once and receives the reason. */
static void test_rules(void **state)
{
	const struct ohca_link_cfg c = cfg_of(1);
	struct ohca_wire_hello h;
	struct pair p;
	int sv[2];

	(void)state;
	in_place = 0;
	sockets(SOCK_SEQPACKET, sv);
	link_hello_fill(&h, &c);
	assert_int_equal(link_send(sv[1], &h, sizeof(h)), 0);
	meet(&p, sv, &c);
	expect_taken(0);
	send_fds(sv[1], "????????", 8, 3);
	expect_error(p.a, "a record of kind 63");
	/* the socket is still open */
	assert_int_equal(ohca_link_ctrl(p.b), OHCA_LINK_EV_ERROR);
	assert_non_null(strstr(ohca_link_error(p.b), "a record of kind 63"));
	expect_taken(3 + 2);
	ohca_link_free(p.a);
	ohca_link_free(p.b);
	expect_taken(4);
}

/* A TCP connection passes no descriptors. */
static void test_stream(void **state)
{
	const struct ohca_link_cfg c = cfg_of(1);
	uint8_t nonce[OHCA_LINK_NONCE];
	struct ohca_link_err err;
	struct pair p;
	int sv[2];

	(void)state;
	in_place = 0;
	sockets(SOCK_STREAM, sv);
	assert_int_equal(ohca_link_greet(sv[0], nonce, &err), 0);
	assert_int_equal(ohca_link_connect_finish(sv[1], &c, &p.b, &err), 0);
	meet(&p, sv, &c);
	expect_taken(0);
	expect_end(&p, 3);
}

/* Descriptors that a failed handshake has made and received. */
static void test_failures(void **state)
{
	const struct ohca_link_cfg c = cfg_of(1), bad = cfg_of(3);
	struct ohca_link_cfg peer;
	struct ohca_link_err err;
	uint8_t nonce[OHCA_LINK_NONCE], buf[OHCA_WIRE_MSG_MAX];
	struct ohca_wire_hello h;
	struct ohca_link *l;
	int sv[2];

	(void)state;
	in_place = 0;
	sockets(SOCK_SEQPACKET, sv);
	send_fds(sv[1], "?", 1, MOST);
	assert_int_equal(ohca_link_hello_recv(sv[0], &closer, &peer, &err), -1);
	expect_taken(MOST);
	assert_int_equal(recv(sv[1], buf, sizeof(buf), 0), sizeof(struct ohca_wire_error));
	link_hello_fill(&h, &c);
	assert_int_equal(link_send(sv[1], &h, sizeof(h)), 0);
	assert_int_equal(ohca_link_hello_recv(sv[0], &closer, &peer, &err), 1);
	assert_null(ohca_link_hello_reply(sv[0], &peer, &bad, &err));
	assert_int_equal(recv(sv[1], buf, sizeof(buf), 0), sizeof(struct ohca_wire_error));
	assert_int_equal(recv(sv[1], buf, sizeof(buf), 0), 0);
	expect_taken(1);
	__real_close(sv[1]);

	sockets(SOCK_SEQPACKET, sv);
	send_fds(sv[0], "?", 1, MOST);
	assert_int_equal(ohca_link_connect_finish(sv[1], &c, &l, &err), -1);
	assert_int_equal(recv(sv[0], buf, sizeof(buf), 0), 0);
	expect_taken(MOST + 1);
	__real_close(sv[0]);

	sockets(SOCK_STREAM, sv);
	assert_int_equal(ohca_link_greet(sv[0], nonce, &err), 0);
	assert_int_equal(ohca_link_connect_finish(sv[1], &c, &l, &err), 0);
	assert_int_equal(ohca_link_hello_recv(sv[0], &closer, &peer, &err), 1);
	assert_null(ohca_link_hello_reply(sv[0], &peer, &bad, &err));
	assert_int_equal(ohca_link_connect_finish(sv[1], &c, &l, &err), -1);
	expect_taken(2);

	sockets(SOCK_SEQPACKET, sv);
	ohca_link_close(&closer, sv[0]);
	assert_int_equal(recv(sv[1], buf, sizeof(buf), 0), 0);
	expect_taken(1);
	__real_close(sv[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passed),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_failures),
	};

	return cmocka_run_group_tests_name("closers of links", tests, make_dir, remove_dir);
}
