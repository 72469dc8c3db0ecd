// SPDX-License-Identifier: GPL-2.0-or-later
/* What comes before a link by TCP: the address, the token, and the first message of each side. */
#include "tcp_pair.h"

#include <endian.h>
#include <errno.h>

static void test_names(void **state)
{
	static const char * const bad[] = {
		"", ":1", "host:", "1:2:3", "host:port", "[::1]", "[::1]x:1",
		"65536", "127.0.0.1:70000", "[::1]:99999",
	};
	struct ohca_link_err err;
	char path[OHCA_LINK_TCP_MAX];

	(void)state;
	assert_int_equal(ohca_link_resolve("4711", path, &err), 0);
	assert_string_equal(path, "tcp:127.0.0.1:4711");
	assert_true(ohca_link_is_loopback(path));
	assert_int_equal(ohca_link_resolve("[::1]:5", path, &err), 0);
	assert_string_equal(path, "tcp:[::1]:5");
	assert_true(ohca_link_is_loopback(path));
	assert_int_equal(ohca_link_resolve("0.0.0.0:5", path, &err), 0);
	assert_false(ohca_link_is_loopback(path));
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ohca_link_resolve(bad[i], path, &err), -1);
		expect_err(&err, OHCA_LINK_E_PATH, 0, "'%s' is not HOST:PORT", bad[i]);
	}
	assert_int_equal(ohca_link_resolve("127.0.0.1:65535", path, &err), 0);
	assert_string_equal(path, "tcp:127.0.0.1:65535");
	assert_int_equal(ohca_link_listen("tcp:localhost:1", &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, 0, "'tcp:localhost:1' is not tcp:ADDRESS:PORT");
	assert_int_equal(ohca_link_listen("tcp:127.0.0.1:70000", &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, 0, "'tcp:127.0.0.1:70000' is not tcp:ADDRESS:PORT");
}

/*
 * The proof is HMAC-SHA256 (RFC 2104) of the nonce with the token as key. The value is that of
 * Python's hmac.
 */
static void test_proof(void **state)
{
	static const uint8_t code[] = {
		0x0b, 0x7e, 0xde, 0xd4, 0xa3, 0xc3, 0x77, 0x58,
		0xe4, 0xc0, 0xf0, 0x57, 0xed, 0xd3, 0x05, 0xd5,
		0x59, 0xa5, 0x22, 0x91, 0x6e, 0x88, 0x99, 0x05,
		0x7c, 0x63, 0xed, 0xe4, 0xcf, 0xc1, 0x4c, 0x05,
	};
	struct ohca_link_cfg peer;
	uint8_t nonce[OHCA_LINK_NONCE];

	(void)state;
	ohca_link_cfg_init(&peer);
	for (unsigned int i = 0; i < sizeof(nonce); i++)
		nonce[i] = (uint8_t)i;
	memcpy(peer.proof, code, sizeof(code));
	assert_true(ohca_link_proven(&peer, nonce, TOKEN));
	for (unsigned int i = 0; i < 8 * sizeof(code); i++) {
		peer.proof[i / 8] ^= 1u << i % 8;
		assert_false(ohca_link_proven(&peer, nonce, TOKEN));
		peer.proof[i / 8] ^= 1u << i % 8;
	}
	nonce[0] = 1;
	assert_false(ohca_link_proven(&peer, nonce, TOKEN));
}

static void test_token(void **state)
{
	static const char * const wrong[] = { NULL, "", "a token of the test, long enougi", TOKEN "x" };
	struct ohca_link_cfg a, b;
	struct ohca_link_err err;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&a);
	b = a;
	a.token = TOKEN;
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		b.token = wrong[i];
		assert_int_equal(meet(&a, &b, &p, &err), -1);
		expect_err(&err, OHCA_LINK_E_CONFIG, 0,
			   "the peer refused: the token is wrong, or missing");
	}
	b.token = TOKEN;
	strcpy(b.place, "leaf 1:36");
	strcpy(b.desc, "the other end");
	assert_int_equal(meet(&a, &b, &p, &err), 1);
	assert_string_equal(ohca_link_peer(p.a)->place, "leaf 1:36");
	assert_string_equal(ohca_link_peer(p.a)->desc, "the other end");
	pair_free(&p);
	/* a listener without a token accepts any peer */
	a.token = NULL;
	assert_int_equal(meet(&a, &b, &p, &err), 1);
	pair_free(&p);
}

/* The two blocking calls, with a token and without. */
static void test_waiting(void **state)
{
	struct ohca_link_err err;
	struct ohca_link_cfg c;
	struct pair_arg arg = { .cfg = &c };
	char path[OHCA_LINK_TCP_MAX];
	struct ohca_link *a;
	pthread_t t;
	int fd;

	(void)state;
	for (int wrong = 0; wrong < 2; wrong++) {
		struct ohca_link_cfg ours;

		ohca_link_cfg_init(&c);
		ours = c;
		ours.token = wrong ? TOKEN : NULL;
		fd = listen_tcp(path);
		arg.path = path;
		assert_int_equal(pthread_create(&t, NULL, pair_connect, &arg), 0);
		a = simple_accept(fd, &ours, 10000, &err);
		pthread_join(t, NULL);
		close(fd);
		assert_true(wrong ? !a && !arg.l : a && arg.l);
		ohca_link_free(a);
		ohca_link_free(arg.l);
	}
	/* the listener has closed */
	assert_null(ohca_link_connect(path, &c, 5000, &err));
	expect_err(&err, OHCA_LINK_E_PATH, ECONNREFUSED, "the peer cannot be reached");
}

/* A message that is no HELLO is refused, and an incomplete one stays in the socket. */
static void test_first(void **state)
{
	struct ohca_wire_hello good;
	uint8_t msg[OHCA_WIRE_MSG_MAX], nonce[OHCA_LINK_NONCE];
	struct ohca_link_cfg c, peer;
	struct ohca_link_err err;
	int sv[2];

	(void)state;
	ohca_link_cfg_init(&c);
	memset(&good, 0, sizeof(good));
	link_hello_fill(&good, &c);
	for (unsigned int how = 0; how < 8; how++) {
		static const int codes[] = {
			OHCA_LINK_OK, OHCA_LINK_E_PROTO, OHCA_LINK_E_VERSION, OHCA_LINK_E_PROTO,
			OHCA_LINK_E_PROTO, OHCA_LINK_E_CONFIG, OHCA_LINK_E_PROTO, OHCA_LINK_E_PROTO,
		};
		struct ohca_wire_hello j = good;
		size_t n = sizeof(msg);

		if (how == 1)
			j.hdr.magic ^= 1;
		else if (how == 2)
			j.hdr.version = htole16(OHCA_LINK_VERSION + 1);
		else if (how == 3)
			j.hdr.len = htole32(OHCA_WIRE_MSG_MAX + 1);
		else if (how == 4)
			j.hdr.len = htole32(sizeof(j) - 1);
		else if (how == 5)
			j.vl_cap = 3;
		else if (how == 6)
			n = 100;
		else if (how == 7)
			n = 0;
		memset(msg, 0, sizeof(msg));
		memcpy(msg, &j, sizeof(j));
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sv), 0);
		assert_int_equal(ohca_link_greet(sv[0], nonce, &err), 0);
		if (n && n < sizeof(msg)) {
			assert_int_equal(send(sv[1], msg, n, 0), n);
			assert_int_equal(ohca_link_hello_recv(sv[0], NULL, &peer, &err), 0);
		} else if (n) {
			assert_int_equal(send(sv[1], msg, n, 0), n);
		}
		if (n < sizeof(msg))
			shutdown(sv[1], SHUT_WR);
		assert_int_equal(ohca_link_hello_recv(sv[0], NULL, &peer, &err), how ? -1 : 1);
		if (how) {
			assert_int_equal(err.code, codes[how]);
			/* the peer reads the reason after the greeting */
			assert_int_equal(recv(sv[1], msg, sizeof(msg), 0), sizeof(msg));
			assert_int_equal(recv(sv[1], msg, sizeof(msg), 0), sizeof(msg));
			assert_int_equal(link_check_hdr(msg, sizeof(struct ohca_wire_error), &err), -1);
			assert_int_equal(err.code, codes[how]);
		}
		close(sv[0]);
		close(sv[1]);
	}
}

/*
 * Nobody waits for the rest of a first message behind an urgent byte: neither a listener for HELLO
 * nor the connecting side for GREETING. An urgent byte after the message is that of the link.
 */
static void test_urgent(void **state)
{
	uint8_t msg[OHCA_WIRE_MSG_MAX] = { 0 }, nonce[OHCA_LINK_NONCE];
	struct ohca_link_cfg c, peer;
	struct ohca_link *l = NULL;
	struct ohca_wire_hello h;
	struct ohca_link_err err;
	struct pollfd p = { .events = POLLPRI };
	int s[2];

	(void)state;
	ohca_link_cfg_init(&c);
	link_hello_fill(&h, &c);
	memcpy(msg, &h, sizeof(h));
	for (unsigned int how = 0; how < 3; how++) {
		const size_t before = how < 2 ? 100 : sizeof(msg);

		tcp_pair(s);
		p.fd = s[how == 1];
		if (how == 1)
			link_tcp_prepare(s[1]);
		else
			assert_int_equal(ohca_link_greet(s[0], nonce, &err), 0);
		assert_int_equal(send(s[how != 1], msg, before, 0), before);
		assert_int_equal(send(s[how != 1], "!", 1, MSG_OOB), 1);
		assert_int_equal(send(s[how != 1], msg, sizeof(msg), 0), sizeof(msg));
		assert_int_equal(poll(&p, 1, 10000), 1);
		if (how == 1)
			assert_int_equal(ohca_link_connect_finish(s[1], &c, &l, &err), -1);
		else
			assert_int_equal(ohca_link_hello_recv(s[0], NULL, &peer, &err),
					 how ? 1 : -1);
		if (how < 2)
			expect_err(&err, OHCA_LINK_E_PROTO, 0,
				   "the peer sent urgent data in its first message");
		close(s[0]);
		if (how != 1)
			close(s[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_proof),
		cmocka_unit_test(test_token),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_urgent),
	};

	return cmocka_run_group_tests_name("first messages", tests, make_dir, remove_dir);
}
