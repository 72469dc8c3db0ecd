// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The handshake of a link: configurations, HELLOs, descriptors.
 */
#include "check.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define OTHER_VERSION \
	"the peer uses version %u of the link protocol, this program uses %u: use ohca-fabric " \
	"and libohca-umad of the same release"

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
	memset(cb.desc, 'd', sizeof(cb.desc) - 1);
	memcpy(cb.desc, "the \033[2Jhost", 12);
	assert_int_equal(pair_meet(&p, &ca, &cb, &ea, &eb), 0);
	assert_int_equal(ohca_link_vls(p.a), 4);
	assert_int_equal(ohca_link_vls(p.b), 4);
	assert_int_equal(p.a->shift, 2);
	assert_int_equal(p.b->shift, 2);
	expect_cfg(ohca_link_peer(p.b), &ca);
	assert_string_equal(ohca_link_peer(p.b)->desc, "the switch");
	expect_cfg(ohca_link_peer(p.a), &cb);
	assert_memory_equal(ohca_link_peer(p.a)->desc, "the ?[2Jhost", 12);
	assert_memory_equal(ohca_link_peer(p.a)->desc + 12, cb.desc + 12, sizeof(cb.desc) - 12);
	assert_false(ohca_link_is_up(p.a));
	assert_null(ohca_link_tx_begin(p.a, 0, 64));
	pair_free(&p);
}

/* The defaults of a configuration: the first port of an HCA, EDR 4x. */
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

/* Values that a peer may announce. */
static void test_bad_peer(void **state)
{
	static const struct {
		uint8_t mtu, lo, hi;
		const char *what;
	} t[] = {
		{ 1, 0, 6, NULL }, { 5, 6, 6, NULL },
		{ 0, 0, 6, "MTU code 0" }, { 6, 0, 6, "MTU code 6" },
		{ 5, 0, 7, "credit shifts 0-7" }, { 5, 3, 2, "credit shifts 3-2" },
	};
	struct ohca_link_err err;
	struct ohca_link_cfg peer;
	int s[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0);
	for (unsigned int i = 0; i < 18 + sizeof(t) / sizeof(t[0]); i++) {
		struct ohca_wire_hello h = { .vl_cap = (uint8_t)i, .mtu_cap = 5 };
		bool ok = i == 1 || i == 2 || i == 4 || i == 8 || i == 15;
		char what[40];

		snprintf(what, sizeof(what), "%u data VLs", i);
		if (i >= 18) {
			h.vl_cap = 15;
			h.mtu_cap = t[i - 18].mtu;
			h.shift_min = t[i - 18].lo;
			h.shift_max = t[i - 18].hi;
			ok = !t[i - 18].what;
			if (!ok)
				snprintf(what, sizeof(what), "%s", t[i - 18].what);
		}
		link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h));
		assert_int_equal(link_send(s[1], &h, sizeof(h)), 0);
		memset(&err, 0xff, sizeof(err));
		assert_int_equal(ohca_link_hello_recv(s[0], NULL, &peer, &err), ok ? 1 : -1);
		if (!ok)
			expect_err(&err, OHCA_LINK_E_CONFIG, 0, "the peer's port has %s", what);
	}
	close(s[0]);
	close(s[1]);
}

/* Configurations that are invalid, which is detected before any socket is made. */
static void test_bad_cfg(void **state)
{
	static const struct {
		uint8_t vls, mtu, lo, hi;
		const char *what;
	} t[] = {
		{ 8, 1, 0, 6, NULL }, { 8, 5, 6, 6, NULL }, { 15, 3, 3, 3, NULL },
		{ 9, 5, 0, 6, "our port has 9 data VLs" },
		{ 8, 0, 0, 6, "our port has MTU code 0" },
		{ 8, 6, 0, 6, "our port has MTU code 6" },
		{ 8, 5, 0, 7, "our port has credit shifts 0-7" },
		{ 8, 5, 3, 2, "our port has credit shifts 3-2" },
	};
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;

	(void)state;
	ohca_link_cfg_init(&cfg);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		cfg.vl_cap = t[i].vls;
		cfg.mtu_cap = t[i].mtu;
		cfg.shift_min = t[i].lo;
		cfg.shift_max = t[i].hi;
		assert_int_equal(ohca_link_connect_start(in_dir("s"), &cfg, 0, NULL), -1);
		assert_int_equal(ohca_link_connect_start(in_dir("s"), &cfg, 0, &err), -1);
		if (t[i].what)
			expect_err(&err, OHCA_LINK_E_CONFIG, 0, "%s", t[i].what);
		else
			assert_int_equal(err.code, OHCA_LINK_E_PATH);
	}
}

/* The credit shift is the listener's preference, within the limits of both ends. */
static void test_shifts(void **state)
{
	static const struct {
		uint8_t lo[2], hi[2], pref;
		int want;
	} t[] = {
		{ { 0, 0 }, { 6, 6 }, 4, 4 }, { { 3, 1 }, { 6, 6 }, 1, 3 },
		{ { 1, 3 }, { 6, 6 }, 1, 3 }, { { 0, 0 }, { 2, 6 }, 5, 2 },
		{ { 0, 0 }, { 6, 2 }, 5, 2 }, { { 2, 0 }, { 6, 2 }, 0, 2 },
		{ { 0, 2 }, { 2, 6 }, 6, 2 }, { { 3, 0 }, { 6, 2 }, 3, -1 },
		{ { 0, 3 }, { 2, 6 }, 2, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ohca_link_cfg c[2];
		struct ohca_link_err ea, eb;
		struct pair p;

		for (unsigned int k = 0; k < 2; k++) {
			ohca_link_cfg_init(&c[k]);
			c[k].shift_min = t[i].lo[k];
			c[k].shift_max = t[i].hi[k];
			c[k].vl_cap = (uint8_t)((i + k) % 2 ? 2 : 4);
		}
		c[0].shift_pref = t[i].pref;
		c[1].shift_pref = 6;
		assert_int_equal(pair_meet(&p, &c[0], &c[1], &ea, &eb), t[i].want < 0 ? -1 : 0);
		if (t[i].want < 0) {
			expect_err(&ea, OHCA_LINK_E_CONFIG, 0,
				   "no common credit shift: peer %u-%u, listener %u-%u",
				   t[i].lo[1], t[i].hi[1], t[i].lo[0], t[i].hi[0]);
		} else {
			assert_int_equal(p.a->shift, t[i].want);
			assert_int_equal(p.b->shift, t[i].want);
			assert_int_equal(ohca_link_vls(p.a), 2);
			assert_int_equal(ohca_link_vls(p.b), 2);
		}
		pair_free(&p);
	}
}

/*
 * A listener with a bad configuration reports it to its caller and to the peer; then, a peer that
 * closes.
 */
static void test_reply_fails(void **state)
{
	struct ohca_link_cfg cfg, peer, bad;
	struct ohca_link_err err;
	struct ohca_link *l = NULL;
	int ls, fd, sock;

	(void)state;
	ohca_link_cfg_init(&cfg);
	bad = cfg;
	bad.mtu_cap = 0;
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	for (int i = 0; i < 4; i++) {
		sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		assert_true(sock >= 0 && fd >= 0);
		assert_int_equal(ohca_link_hello_recv(fd, NULL, &peer, &err), 1);
		memset(&err, 0xff, sizeof(err));
		if (i < 2) {
			assert_null(ohca_link_hello_reply(fd, &peer, &bad, i ? &err : NULL));
			if (i)
				expect_err(&err, OHCA_LINK_E_CONFIG, 0, "our port has MTU code 0");
			assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
			expect_err(&err, OHCA_LINK_E_CONFIG, 0,
				   "the peer refused: our port has MTU code 0");
		} else if (i == 2) {
			close(sock);
			assert_null(ohca_link_hello_reply(fd, &peer, &cfg, &err));
			expect_err(&err, OHCA_LINK_E_SYS, EPIPE, "sending HELLO");
		} else {
			/* the EAGAIN of an earlier call does not count */
			close(fd);
			errno = EAGAIN;
			assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
			expect_err(&err, OHCA_LINK_E_PROTO, 0,
				   "the peer closed the socket before its first message");
		}
	}
	/* The listener has not even read our HELLO. */
	sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
	fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(sock >= 0 && fd >= 0);
	close(fd);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
	expect_err(&err, OHCA_LINK_E_SYS, ECONNRESET, "the peer cannot be reached");
	assert_null(l);
	close(ls);
	unlink(in_dir("s"));
}

/* Headers, and the reasons of refusals, of any version. */
static void test_headers(void **state)
{
	struct ohca_wire_error e;
	struct ohca_wire_hdr h;
	struct ohca_link_err err;
	char text[300], cut[sizeof(e.text)];
	int s[2];

	(void)state;
	link_hdr_init(&h, 77, sizeof(h));
	assert_int_equal(link_check_hdr(&h, sizeof(h), &err), 77);
	assert_int_equal(link_check_hdr(&h, sizeof(h) - 1, &err), -1);
	expect_err(&err, OHCA_LINK_E_PROTO, 0, "the peer does not use the OpenHCA link protocol");
	h.len = htole32(sizeof(h) + 1);
	assert_int_equal(link_check_hdr(&h, sizeof(h), &err), -1);
	expect_err(&err, OHCA_LINK_E_PROTO, 0,
		   "the peer sent a message of 16 bytes whose length is 17");
	link_hdr_init(&h, 77, sizeof(h));
	h.magic ^= 1;
	assert_int_equal(link_check_hdr(&h, sizeof(h), &err), -1);
	expect_err(&err, OHCA_LINK_E_PROTO, 0, "the peer does not use the OpenHCA link protocol");

	/* Without a text, and too short for its code. */
	memset(&e, 0xff, sizeof(e));
	e.code = htole32(OHCA_LINK_E_NOPORT);
	link_hdr_init(&e.hdr, OHCA_WIRE_ERROR, sizeof(h) + 4);
	e.hdr.version = htole16(OHCA_LINK_VERSION + 1);
	assert_int_equal(link_check_hdr(&e, sizeof(h) + 4, &err), -1);
	expect_err(&err, OHCA_LINK_E_NOPORT, 0, "the peer refused: ");
	link_hdr_init(&e.hdr, OHCA_WIRE_ERROR, sizeof(h) + 3);
	assert_int_equal(link_check_hdr(&e, sizeof(h) + 3, &err), OHCA_WIRE_ERROR);
	e.hdr.version = htole16(OHCA_LINK_VERSION + 1);
	assert_int_equal(link_check_hdr(&e, sizeof(h) + 3, &err), -1);
	expect_err(&err, OHCA_LINK_E_VERSION, 0,
		   OTHER_VERSION, OHCA_LINK_VERSION + 1, OHCA_LINK_VERSION);
	/*
	 * A refusal for the version is reported from this end's view, with the version of the
	 * peer's header.
	 */
	link_hdr_init(&e.hdr, OHCA_WIRE_ERROR, sizeof(e));
	e.hdr.version = htole16(7);
	e.code = htole32(OHCA_LINK_E_VERSION);
	assert_int_equal(link_check_hdr(&e, sizeof(e), &err), -1);
	expect_err(&err, OHCA_LINK_E_VERSION, 0, OTHER_VERSION, 7, OHCA_LINK_VERSION);
	e.code = htole32(OHCA_LINK_E_NOPORT);
	/* Bytes of any value, without a terminator. */
	link_hdr_init(&e.hdr, OHCA_WIRE_ERROR, sizeof(e));
	memset(cut, '?', sizeof(cut) - 1);
	cut[sizeof(cut) - 1] = 0;
	memcpy(e.text, "\x1f ~\x7f", 4);
	memcpy(cut, "? ~?", 4);
	assert_int_equal(link_check_hdr(&e, sizeof(e), &err), -1);
	expect_err(&err, OHCA_LINK_E_NOPORT, 0, "the peer refused: %s", cut);
	/* A shorter message after it contains only its own bytes. */
	link_hdr_init(&e.hdr, OHCA_WIRE_ERROR, sizeof(h) + 4 + 3);
	assert_int_equal(link_check_hdr(&e, sizeof(h) + 4 + 3, &err), -1);
	expect_err(&err, OHCA_LINK_E_NOPORT, 0, "the peer refused: ? ~");
	link_hdr_init(&e.hdr, OHCA_WIRE_ERROR, sizeof(e));
	e.text[7] = 0;
	assert_int_equal(link_check_hdr(&e, sizeof(e), &err), -1);
	expect_err(&err, OHCA_LINK_E_NOPORT, 0, "the peer refused: ? ~\x3f\x3f\x3f\x3f");

	/* Our own message ends with a terminator, however long the reason is. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (size_t n = sizeof(text) - 1; n > 200; n--) {
		text[n] = 0;
		ohca_link_hello_reject(s[0], OHCA_LINK_E_NOPORT, text);
		assert_int_equal(recv(s[1], &e, sizeof(e), 0), sizeof(e));
		assert_int_equal(e.text[sizeof(e.text) - 1], 0);
		assert_int_equal(strlen((char *)e.text),
				 n < sizeof(e.text) ? n : sizeof(e.text) - 1);
	}
	close(s[0]);
	close(s[1]);
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
}

/* A raw client: sends @msg and stores the listener's answer in @theirs. */
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
	assert_int_equal(ohca_link_hello_recv(fd, NULL, &peer, ours), 0);
	assert_int_equal(send(cs, msg, len, 0), len);
	assert_int_equal(ohca_link_hello_recv(fd, NULL, &peer, ours), -1);
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
	struct ohca_wire_hello h = { 0 };
	struct ohca_link_err theirs, ours;
	uint8_t big[OHCA_WIRE_MSG_MAX + 100] = { 0 };

	(void)state;
	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h));
	h.hdr.version = OHCA_LINK_VERSION + 1;
	raw_client(&h, sizeof(h), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_VERSION);
	assert_int_equal(theirs.code, OHCA_LINK_E_VERSION);
	expect_err(&ours, OHCA_LINK_E_VERSION, 0, OTHER_VERSION, OHCA_LINK_VERSION + 1,
		   OHCA_LINK_VERSION);

	/* a HELLO of an earlier version was shorter */
	h.hdr.version = OHCA_LINK_VERSION - 1;
	h.hdr.len = 128;
	raw_client(&h, 128, &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_VERSION);

	raw_client("GET / HTTP/1.0\r\n\r\n", 18, &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);
	assert_int_equal(theirs.code, OHCA_LINK_E_PROTO);

	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h) - 1);
	raw_client(&h, sizeof(h), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);

	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h) - 1);
	raw_client(&h, sizeof(h) - 1, &theirs, &ours);
	expect_err(&ours, OHCA_LINK_E_PROTO, 0,
		   "the peer sent message type 1 of 207 bytes instead of HELLO");
	link_hdr_init(&h.hdr, 77, sizeof(h));
	raw_client(&h, sizeof(h), &theirs, &ours);
	expect_err(&ours, OHCA_LINK_E_PROTO, 0,
		   "the peer sent message type 77 of 208 bytes instead of HELLO");

	raw_client(big, OHCA_WIRE_MSG_MAX + 1, &theirs, &ours);
	expect_err(&ours, OHCA_LINK_E_PROTO, 0,
		   "the peer sent a first message of more than 512 bytes");
}

/* A HELLO of a later version may be longer; its name is shown as far as the field reaches. */
static void test_long_hello(void **state)
{
	struct ohca_wire_hello h = { .vl_cap = 1, .mtu_cap = 5 };
	uint8_t buf[OHCA_WIRE_MSG_MAX] = { 0 };
	struct ohca_link_cfg peer;
	struct ohca_link_err err;
	int s[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s), 0);
	assert_int_equal(ohca_link_hello_recv(s[0], NULL, &peer, &err), 0);
	memset(h.desc, 'n', sizeof(h.desc));
	memcpy(h.desc, "\x1f ~\x7f", 4);
	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(buf));
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(send(s[1], buf, sizeof(buf), 0), sizeof(buf));
	memset(&peer, 0xff, sizeof(peer));
	assert_int_equal(ohca_link_hello_recv(s[0], NULL, &peer, &err), 1);
	assert_int_equal(strlen(peer.desc), sizeof(peer.desc) - 1);
	assert_memory_equal(peer.desc, "? ~?nnnn", 8);
	close(s[1]);
	errno = EAGAIN;		/* of an earlier call */
	assert_int_equal(ohca_link_hello_recv(s[0], NULL, &peer, &err), -1);
	close(s[0]);
}

/* Both halves of a connection attempt never block, and a failure closes the socket. */
static void test_connect_halves(void **state)
{
	struct ohca_link_cfg cfg, peer;
	struct ohca_link_err err;
	struct ohca_link *l = NULL, *m;
	int ls, fd, sock, n, waiting[200];
	int64_t begin;

	(void)state;
	ohca_link_cfg_init(&cfg);
	assert_int_equal(ohca_link_connect_start(in_dir("s"), &cfg, 0, &err), -1);
	assert_int_equal(err.code, OHCA_LINK_E_PATH);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);

	/* No answer yet, then an answer. */
	sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
	assert_true(sock >= 0);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 0);
	fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(ohca_link_hello_recv(fd, NULL, &peer, &err), 1);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 0);
	assert_null(l);
	m = ohca_link_hello_reply(fd, &peer, &cfg, &err);
	assert_non_null(m);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 1);
	assert_non_null(l);
	ohca_link_free(l);
	ohca_link_free(m);

	/* A refusal, and a listener that closes. */
	for (int i = 0; i < 2; i++) {
		sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		assert_true(sock >= 0);
		fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		assert_true(fd >= 0);
		if (i == 0) {
			assert_int_equal(ohca_link_hello_recv(fd, NULL, &peer, &err), 1);
			ohca_link_hello_reject(fd, OHCA_LINK_E_NOPORT, "all ports are taken");
		}
		close(fd);
		assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
		assert_int_equal(fcntl(sock, F_GETFD), -1);
		if (i == 0)
			assert_non_null(strstr(err.text, "all ports are taken"));
	}

	/* A full backlog is an error at once and causes no wait. */
	for (n = 0; n < 200; n++) {
		waiting[n] = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		if (waiting[n] < 0)
			break;
	}
	assert_in_range(n, 1, 199);
	expect_err(&err, OHCA_LINK_E_TIMEOUT, 0,
		   "too many connections wait at '%s': try again", in_dir("s"));
	begin = ms_now();
	assert_int_equal(ohca_link_connect_start(in_dir("s"), &cfg, 30, &err), -1);
	assert_true(ms_now() - begin >= 30);
	assert_int_equal(ohca_link_listen(in_dir("s"), &err), -1);
	expect_err(&err, OHCA_LINK_E_PATH, 0,
		   "cannot listen on '%s': another process listens there", in_dir("s"));
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

/* Limits the process to @n more descriptors, or restores the limit if @n is negative. */
static void allow_files(int n)
{
	static struct rlimit before;
	struct rlimit now;

	if (n >= 0) {
		const int next = dup(0);

		assert_true(next >= 0);
		close(next);
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
		now = before;
		now.rlim_cur = (rlim_t)(next + n);
	} else {
		now = before;
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

/* Either end fails to get a descriptor: both ends report it, and no descriptor stays open. */
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
			assert_int_equal(ohca_link_hello_recv(fd, NULL, &peer, &err), 1);
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
				assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err),
						 -1);
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
		assert_true(n > 0);
		if (side == 0)
			assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 1);
		ohca_link_free(l);
		ohca_link_free(m);
		assert_int_equal(open_files(), before);
	}
	close(ls);
	unlink(in_dir("s"));
}

/* Sends a listener's HELLO of @len bytes with @n descriptors. */
static void send_answer(int fd, const void *hello, size_t len, size_t n)
{
	union {
		char buf[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} c = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)hello, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cm = &c.align;

	if (n) {
		m.msg_control = c.buf;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
	}
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(cm) + i * sizeof(int), &fd, sizeof(int));
	assert_int_equal(sendmsg(fd, &m, 0), len);
}

struct answer {
	struct ohca_wire_hello h;
	size_t len;
	unsigned int n;		/* descriptors */
	const char *refused;	/* beginning of its error, or NULL */
};

/* Checks how a connection handles an answer; the descriptors of the answer must be closed. */
static void expect_answer(struct answer *a, const struct ohca_link_cfg *cfg)
{
	uint8_t buf[OHCA_WIRE_MSG_MAX + 1] = { 0 };
	unsigned int before = open_fds();
	struct ohca_link_cfg peer;
	struct ohca_link_err err;
	struct ohca_link *l = NULL;
	int ls, fd, sock;

	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	sock = ohca_link_connect_start(in_dir("s"), cfg, 0, &err);
	fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(sock >= 0 && fd >= 0);
	assert_int_equal(ohca_link_hello_recv(fd, NULL, &peer, &err), 1);
	a->h.hdr.len = htole32((uint32_t)a->len);
	memcpy(buf, &a->h, sizeof(a->h));
	send_answer(fd, buf, a->len, a->n);
	if (a->refused) {
		assert_int_equal(ohca_link_connect_finish(sock, cfg, &l, &err), -1);
		if (strncmp(err.text, a->refused, strlen(a->refused)))
			fail_msg("'%s' is not '%s'", err.text, a->refused);
		assert_int_equal(err.code, OHCA_LINK_E_PROTO);
		assert_int_equal(err.sys, 0);
	} else {
		assert_int_equal(ohca_link_connect_finish(sock, cfg, &l, &err), 1);
		ohca_link_free(l);
	}
	close(fd);
	close(ls);
	unlink(in_dir("s"));
	assert_int_equal(open_fds(), before);
}

/* A valid answer. */
static void good_answer(struct answer *a, unsigned int vls, unsigned int shift)
{
	*a = (struct answer){
		.h = { .node_type = 2, .port_num = 1, .vl_cap = 15, .mtu_cap = 5, .shift_max = 6,
		       .vls = (uint8_t)vls, .shift = (uint8_t)shift },
		.len = sizeof(a->h),
	};
	link_hdr_init(&a->h.hdr, OHCA_WIRE_HELLO, sizeof(a->h));
}

/* The listener chooses among the values that we support. */
static void test_choices(void **state)
{
	static const struct {
		uint8_t vls, shift;
		bool ok;
	} t[] = {
		{ 1, 2, true }, { 4, 2, true }, { 4, 4, true }, { 0, 2, false },
		{ 5, 2, false }, { 4, 1, false }, { 4, 5, false },
	};
	struct ohca_link_cfg cfg;
	char text[200];

	(void)state;
	ohca_link_cfg_init(&cfg);
	cfg.vl_cap = 4;
	cfg.shift_min = 2;
	cfg.shift_max = 4;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct answer a;

		good_answer(&a, t[i].vls, t[i].shift);
		snprintf(text, sizeof(text),
			 "the listener chose %u VLs and credit shift %u: not possible here", t[i].vls,
			 t[i].shift);
		a.refused = t[i].ok ? NULL : text;
		expect_answer(&a, &cfg);
	}
}

/* Descriptors that the answer does not announce are closed, and an answer may be longer. */
static void test_answers(void **state)
{
	static const struct {
		unsigned int n;
		size_t len;
		const char *refused;
	} t[] = {
		{ 0, sizeof(struct ohca_wire_hello), NULL },
		{ 8, sizeof(struct ohca_wire_hello), NULL },
		{ 1, OHCA_WIRE_MSG_MAX, NULL },
		{ 8, OHCA_WIRE_MSG_MAX + 1, "the peer sent a first message of more than 512 bytes" },
		{ 8, sizeof(struct ohca_wire_hello) - 1, "the peer sent message type 1 of 207 bytes" },
		{ 8, 4, "the peer does not use" },
	};
	struct ohca_link_cfg cfg;
	struct answer a;

	(void)state;
	ohca_link_cfg_init(&cfg);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		good_answer(&a, 1, 0);
		a.n = t[i].n;
		a.len = t[i].len;
		a.refused = t[i].refused;
		expect_answer(&a, &cfg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_bad_peer),
		cmocka_unit_test(test_hello_no_common_shift),
		cmocka_unit_test(test_hello_bad),
		cmocka_unit_test(test_bad_cfg),
		cmocka_unit_test(test_shifts),
		cmocka_unit_test(test_reply_fails),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_long_hello),
		cmocka_unit_test(test_connect_halves),
		cmocka_unit_test(test_no_descriptors),
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests_name("link handshake", tests, make_dir, remove_dir);
}
