// SPDX-License-Identifier: GPL-2.0-or-later
/* Training of a link, and other messages on its socket. */
#include "check.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

static void test_train(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	int ua = 0, da = 0, ub = 0, db = 0;
	struct ohca_link_state st;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 3), 0);
	ohca_link_get_state(p.b, &st);
	assert_true(st.up);
	assert_int_equal(st.phys, 5);
	assert_int_equal(st.width, 2);
	assert_int_equal(st.speed, 4);
	assert_int_equal(st.speed_ext, 2);

	/* Frames of the old training do not arrive after it, in either direction. */
	assert_true(send_one(p.a, 0, 100, 1));
	assert_true(send_one(p.b, 1, 200, 2));
	assert_true(send_one(p.b, 15, 300, 3));
	phy.width_en = 1;
	phy.speed_ext_en = 1;
	assert_int_equal(ohca_link_train(p.a, &phy), 0);
	assert_false(ohca_link_is_up(p.a));
	ohca_link_get_state(p.a, &st);
	assert_false(st.up);
	assert_true(st.width == 0 && st.speed == 0 && st.speed_ext == 0 && st.phys == 2);
	assert_null(ohca_link_tx_begin(p.a, 0, 100));
	assert_true(send_one(p.b, 1, 200, 2));		/* B does not know of the training yet */
	drain(p.a, &ua, &da);
	assert_int_equal(ua, 0);
	assert_int_equal(da, 1);
	drain(p.b, &ub, &db);
	assert_int_equal(db, 1);
	assert_int_equal(ub, 1);
	assert_true(send_one(p.b, 1, 222, 4));		/* new training */
	drain(p.a, &ua, &da);
	assert_int_equal(ua, 1);
	assert_int_equal(ohca_link_rx_pending(p.a), 1 << 1);
	expect_one(p.a, 1, 222, 4);
	assert_int_equal(ohca_link_rx_pending(p.a), 0);
	assert_int_equal(ohca_link_rx_pending(p.b), 0);
	ohca_link_get_state(p.b, &st);
	assert_int_equal(st.width, 1);
	assert_int_equal(st.speed_ext, 1);
	/* no credit is lost */
	assert_true(send_one(p.a, 1, 64, 5));
	expect_one(p.b, 1, 64, 5);
	assert_int_equal(ohca_link_tx_credits(p.b, 1), 2048);

	/* Disabled at one end: both ends are down and stay down. */
	phy.enabled = false;
	ohca_link_train(p.b, &phy);
	drain(p.b, &ub, &db);
	drain(p.a, &ua, &da);
	drain(p.b, &ub, &db);
	assert_int_equal(da, 2);
	assert_int_equal(db, 2);
	assert_int_equal(ua, 1);
	ohca_link_get_state(p.a, &st);
	assert_int_equal(st.phys, 2);
	ohca_link_get_state(p.b, &st);
	assert_int_equal(st.phys, 3);

	/* Both ends train at once. */
	phy.enabled = true;
	ohca_link_train(p.a, &phy);
	ohca_link_train(p.b, &phy);
	for (int i = 0; i < 4; i++) {
		drain(p.a, &ua, &da);
		drain(p.b, &ub, &db);
	}
	assert_true(ohca_link_is_up(p.a));
	assert_true(ohca_link_is_up(p.b));
	assert_int_equal(ua, 2);
	assert_int_equal(ub, 2);

	/* Nothing in common: the link stays down. */
	phy.width_en = 2;
	ohca_link_train(p.b, &phy);
	for (int i = 0; i < 4; i++) {
		drain(p.a, &ua, &da);
		drain(p.b, &ub, &db);
	}
	assert_false(ohca_link_is_up(p.a));
	assert_false(ohca_link_is_up(p.b));
	pair_free(&p);
}

/* The widest width has the most lanes, and not the highest code (14.2.5.6). */
static void test_train_widest(void **state)
{
	static const uint8_t mask[] = { 1, 16 | 1, 16 | 2, 2 | 1, 4 | 2 | 16, 31, 16 };
	static const uint8_t want[] = { 1, 16, 2, 2, 4, 8, 16 };
	struct ohca_link_cfg cfg;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&cfg);
	cfg.width_sup = 31;
	for (size_t i = 0; i < sizeof(mask); i++) {
		struct ohca_link_phy phy = pair_phy();
		struct ohca_link_err ea, eb;
		struct ohca_link_state st;
		int n = 0;

		assert_int_equal(pair_meet(&p, &cfg, &cfg, &ea, &eb), 0);
		ohca_link_train(p.b, &phy);
		phy.width_en = mask[i];
		ohca_link_train(p.a, &phy);
		for (unsigned int k = 0; k < 8; k++)
			drain(k % 2 ? p.a : p.b, &n, &n);
		ohca_link_get_state(p.a, &st);
		assert_int_equal(st.width, want[i]);
		ohca_link_get_state(p.b, &st);
		assert_int_equal(st.width, want[i]);
		pair_free(&p);
	}
}

/*
 * The link uses the best width and speeds that both ends support and allow; one kind of speed is
 * enough.
 */
static void test_train_best(void **state)
{
	static const struct {
		uint8_t width[2], speed[2], ext[2];	/* allowed by either */
		uint8_t want[3];			/* no width: down */
	} t[] = {
		{ { 3, 3 }, { 7, 7 }, { 3, 3 }, { 2, 4, 2 } },
		{ { 1, 3 }, { 3, 7 }, { 1, 3 }, { 1, 2, 1 } },
		{ { 3, 1 }, { 7, 1 }, { 3, 1 }, { 1, 1, 1 } },
		{ { 3, 3 }, { 7, 7 }, { 0, 3 }, { 2, 4, 0 } },
		{ { 3, 3 }, { 0, 7 }, { 3, 1 }, { 2, 4, 1 } },
		{ { 3, 3 }, { 1, 2 }, { 2, 2 }, { 2, 4, 2 } },
		{ { 3, 3 }, { 1, 2 }, { 1, 2 }, { 0, 0, 0 } },
		{ { 1, 2 }, { 7, 7 }, { 3, 3 }, { 0, 0, 0 } },
		{ { 4, 4 }, { 7, 7 }, { 3, 3 }, { 0, 0, 0 } },	/* allowed, but not supported */
		{ { 3, 3 }, { 8, 8 }, { 4, 4 }, { 0, 0, 0 } },
	};
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ohca_link *l[2] = { p.a, p.b };
		struct ohca_link_phy phy[2];
		struct ohca_link_state st;
		int n = 0;

		for (unsigned int k = 0; k < 2; k++)
			phy[k] = (struct ohca_link_phy){ true, t[i].width[k], t[i].speed[k],
							 t[i].ext[k] };
		/* The settings of one end wait until the other end trains. */
		phy[1].enabled = false;
		ohca_link_set_phy(p.b, &phy[1]);
		assert_int_equal(ohca_link_train(p.a, &phy[0]), 0);
		for (unsigned int k = 0; k < 8; k++)
			drain(l[k % 2], &n, &n);
		for (unsigned int k = 0; k < 2; k++) {
			ohca_link_get_state(l[k], &st);
			assert_int_equal(st.up, t[i].want[0] != 0);
			assert_int_equal(st.phys, st.up ? 5 : 2);
			assert_int_equal(st.width, t[i].want[0]);
			assert_int_equal(st.speed, t[i].want[1]);
			assert_int_equal(st.speed_ext, t[i].want[2]);
		}
	}
	pair_free(&p);
}

/* The number of a training is never 0, and an end that has not trained yet is disabled. */
static void test_train_number(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	struct ohca_link_err ea, eb;
	struct ohca_link_state st;
	struct ohca_link_cfg c;
	struct pair p;
	int n = 0;

	(void)state;
	ohca_link_cfg_init(&c);
	assert_int_equal(pair_meet(&p, &c, &c, &ea, &eb), 0);
	ohca_link_get_state(p.a, &st);
	assert_int_equal(st.phys, 3);
	p.b->seq = UINT32_MAX;
	assert_int_equal(ohca_link_train(p.b, &phy), 0);
	assert_int_equal(p.b->seq, 1);
	drain(p.a, &n, &n);
	ohca_link_get_state(p.a, &st);
	assert_int_equal(st.phys, 3);
	assert_int_equal(ohca_link_train(p.a, &phy), 0);
	for (unsigned int k = 0; k < 4; k++)
		drain(k % 2 ? p.a : p.b, &n, &n);
	assert_true(ohca_link_is_up(p.a));
	assert_true(ohca_link_is_up(p.b));
	pair_free(&p);
}

/* A wait ends when the link ends or the time is over. */
static void test_wait_up(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg c;
	int64_t begin;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&c);
	assert_int_equal(pair_meet(&p, &c, &c, &ea, &eb), 0);
	begin = ms_now();
	assert_int_equal(simple_up(p.a, 20), -1);
	assert_true(ms_now() - begin >= 20);
	assert_int_equal(send(p.b->sock, "hello, peer", 11, 0), 11);
	assert_int_equal(simple_up(p.a, 30000), -1);
	assert_int_equal(simple_up(p.b, 30000), -1);
	assert_int_equal(simple_up(p.b, 30000), -1);
	pair_free(&p);

	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_int_equal(simple_up(p.a, 0), 0);
	/* One message takes the link down and up again. */
	assert_int_equal(ohca_link_train(p.b, &phy), 0);
	begin = ms_now();
	assert_int_equal(simple_up(p.a, 20000), 0);
	assert_true(ms_now() - begin < 20000);
	ohca_link_free(p.b);
	assert_int_equal(simple_up(p.a, 30000), -1);
	ohca_link_free(p.a);
}

/* A frame that was begun before a retraining does not arrive after it. */
static void test_train_in_frame(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	int ua = 0, da = 0, ub = 0, db = 0;
	struct pair p;
	uint8_t *b;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	for (int i = 0; i < 2; i++) {	/* either end begins the training */
		b = ohca_link_tx_begin(p.a, 0, 100);
		assert_non_null(b);
		memset(b, 7, 100);
		assert_int_equal(ohca_link_train(i ? p.a : p.b, &phy), 0);
		for (int k = 0; k < 4; k++) {
			drain(p.a, &ua, &da);
			drain(p.b, &ub, &db);
		}
		assert_int_equal(ua, i + 1);
		assert_int_equal(ub, i + 1);
		ohca_link_tx_commit(p.a, 0, 100, 0);
		assert_int_equal(ohca_link_rx_pending(p.b), 0);
		assert_true(send_one(p.a, 0, 60, 1));
		expect_one(p.b, 0, 60, 1);
	}
	pair_free(&p);
}

/* The message that ends a training may be the last one of those that one call reads. */
static void test_ctrl_budget(void **state)
{
	struct ohca_wire_hdr h;
	struct ohca_link_phy phy = pair_phy();
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg c;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&c);
	for (unsigned int n = 0; n < 40; n++) {
		assert_int_equal(pair_meet(&p, &c, &c, &ea, &eb), 0);
		assert_int_equal(ohca_link_train(p.b, &phy), 0);
		assert_int_equal(ohca_link_train(p.a, &phy), 0);
		assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
		link_hdr_init(&h, 77, sizeof(h));
		for (unsigned int i = 0; i < n; i++)
			assert_int_equal(raw_message(p.b->sock, &h, sizeof(h)), 0);
		assert_int_equal(ohca_link_ctrl(p.b), OHCA_LINK_EV_UP);
		/* As with poll(): while there is something to read. */
		for (;;) {
			struct pollfd pf = { .fd = ohca_link_ctrl_fd(p.a), .events = POLLIN };

			if (poll(&pf, 1, 0) <= 0)
				break;
			while (ohca_link_ctrl(p.a) != OHCA_LINK_EV_NONE)
				;
		}
		assert_true(ohca_link_is_up(p.a));
		pair_free(&p);
	}
}

static void test_close(void **state)
{
	struct ohca_link_state st;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_true(send_one(p.a, 0, 64, 1));
	ohca_link_free(p.b);
	errno = EAGAIN;		/* of an earlier call */
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_CLOSED);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
	assert_string_equal(ohca_link_error(p.a), "the peer closed the link");
	ohca_link_get_state(p.a, &st);
	assert_false(st.up);
	assert_int_equal(st.phys, 2);
	assert_null(ohca_link_tx_begin(p.a, 0, 64));
	assert_int_equal(ohca_link_ctrl_fd(p.a), -1);
	assert_true(ohca_link_prepare_sleep(p.a));
	assert_int_equal(ohca_link_train(p.a, &(struct ohca_link_phy){ 0 }), -1);
	ohca_link_free(p.a);
}

/*
 * ohca_link_train() reports neither a peer that has closed (ohca_link_ctrl() does) nor one that
 * does not read.
 */
static void test_train_unheard(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	struct ohca_wire_hdr h;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	ohca_link_free(p.b);
	assert_int_equal(ohca_link_train(p.a, &phy), 0);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_DOWN);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_CLOSED);
	ohca_link_free(p.a);

	/* a peer that does not read never stops an end from training */
	assert_int_equal(pair_up(&p, 1, 0), 0);
	link_hdr_init(&h, 77, sizeof(h));
	while (!raw_message(p.a->sock, &h, sizeof(h)))
		;
	for (unsigned int n = 0; n < 1000; n++)
		assert_int_equal(ohca_link_train(p.a, &phy), 0);
	assert_string_equal(ohca_link_error(p.a), "");
	pair_free(&p);
}

static void test_bad_ctrl(void **state)
{
	struct ohca_wire_state m = { .seq = 9, .enabled = 1, .width_en = 2, .speed_en = 4 };
	_Alignas(8) char big[OHCA_WIRE_MSG_MAX + 1] = { 0 };
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_int_equal(send(p.b->sock, "hello, peer", 11, 0), 11);
	expect_error(p.a, "a record of kind 104");
	pair_free(&p);

	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_int_equal(raw_message(p.b->sock, big, sizeof(big)), 0);
	expect_error(p.a, "a record of length 513");
	pair_free(&p);

	/* The FCTBS of a training exceeds the credits. */
	assert_int_equal(pair_up(&p, 1, 0), 0);
	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
	m.ack = p.a->seq;
	m.fctbs[0] = htole16(2049);
	assert_int_equal(raw_message(p.b->sock, &m, sizeof(m)), 0);
	expect_error(p.a, "training failed");
	pair_free(&p);

	/* Unknown types are ignored, truncated ones are not. */
	assert_int_equal(pair_up(&p, 1, 0), 0);
	link_hdr_init(&m.hdr, 77, sizeof(m));
	assert_int_equal(raw_message(p.b->sock, &m, sizeof(m)), 0);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
	assert_true(ohca_link_is_up(p.a));
	memset(big, 0, sizeof(big));
	link_hdr_init((struct ohca_wire_hdr *)(void *)big, 77, OHCA_WIRE_MSG_MAX);
	assert_int_equal(raw_message(p.b->sock, big, OHCA_WIRE_MSG_MAX), 0);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
	assert_true(ohca_link_is_up(p.a));
	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, 32);
	assert_int_equal(raw_message(p.b->sock, &m, 32), 0);
	expect_error(p.a, "training failed");
	pair_free(&p);

	/* A training without a number, or with an invalid value of enabled, is an error. */
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(pair_up(&p, 1, 0), 0);
		link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
		m.seq = i ? htole32(9) : 0;
		m.enabled = i ? 2 : 1;
		assert_int_equal(raw_message(p.b->sock, &m, sizeof(m)), 0);
		expect_error(p.a, "training failed");
		pair_free(&p);
	}

	/* Only twelve bits of an FCTBS count. */
	assert_int_equal(pair_up(&p, 1, 0), 0);
	m.seq = htole32(9);
	m.enabled = 1;
	m.ack = htole32(p.a->seq);
	for (unsigned int vl = 0; vl < OHCA_WIRE_LANES; vl++)
		m.fctbs[vl] = htole16(0xf000);
	assert_int_equal(raw_message(p.b->sock, &m, sizeof(m)), 0);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_DOWN);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_UP);
	pair_free(&p);
}

/* A peer that floods the socket gets its answers or loses the link, and we never block. */
static void test_ctrl_flood(void **state)
{
	struct ohca_wire_state m = { .enabled = 1, .width_en = 2, .speed_en = 4 };
	int ended = 0;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
	for (uint32_t i = 0; i < 100000 && !ended; i++) {
		enum ohca_link_event ev;

		m.seq = i + 100;
		raw_message(p.b->sock, &m, sizeof(m));
		ev = ohca_link_ctrl(p.a);
		ended = ev == OHCA_LINK_EV_ERROR || ev == OHCA_LINK_EV_CLOSED;
	}
	assert_true(ended);
	pair_free(&p);
}

/* As many trainings in one recv() as an honest peer may have begun, and one more. */
static void test_trainings(void **state)
{
	struct {
		struct ohca_wire_rec rec;
		struct ohca_wire_state m;
	} many[5];
	struct pair p;

	(void)state;
	memset(many, 0, sizeof(many));
	for (unsigned int i = 0; i < 5; i++) {
		many[i].rec.kind = OHCA_WIRE_MESSAGE;
		many[i].rec.len = htole16(sizeof(many[i].m));
		link_hdr_init(&many[i].m.hdr, OHCA_WIRE_STATE, sizeof(many[i].m));
		many[i].m.enabled = 1;
	}
	for (unsigned int n = 4; n <= 5; n++) {
		assert_int_equal(pair_up(&p, 1, 0), 0);
		/* again with a second packet */
		for (unsigned int k = 0; k < 2; k++) {
			for (unsigned int i = 0; i < n; i++)
				many[i].m.seq = htole32(100 + n * k + i);
			assert_int_equal(link_send(p.b->sock, many, n * sizeof(many[0])), 0);
			if (n == 5)
				break;
		}
		assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_DOWN);
		if (n == 4)
			assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
		else
			expect_error(p.a, "training failed");
		pair_free(&p);
	}
}

/* Packets of maximum length: one call leaves some of them, so that others get their turn. */
static void test_long_packets(void **state)
{
	static struct {
		struct ohca_wire_rec rec;
		struct ohca_wire_credit credit;
	} many[(130 << 10) / 48];
	const int room = 1 << 20;
	unsigned int n = 0;
	struct pollfd pf;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	setsockopt(p.b->sock, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	for (unsigned int i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		many[i].rec.kind = OHCA_WIRE_CREDIT;
		many[i].rec.len = htole16(sizeof(many[i].credit));
		many[i].credit.fccl[0] = htole16(OHCA_LINK_BLOCKS);
		many[i].credit.fccl[OHCA_LINK_VL15] = htole16(OHCA_WIRE_VL15_BLOCKS);
	}
	while (n < 9 && !link_send(p.b->sock, many, sizeof(many)))
		n++;
	assert_in_range(n, 3, 9);
	pf = (struct pollfd){ .fd = ohca_link_ctrl_fd(p.a), .events = POLLIN };
	for (unsigned int left = n; left; left -= left < 2 ? left : 2) {
		assert_int_equal(poll(&pf, 1, 0), 1);
		assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
	}
	assert_int_equal(poll(&pf, 1, 0), 0);
	assert_true(ohca_link_is_up(p.a));
	pair_free(&p);
}

/* An end trains again and again while the other one stands still, as in a reset loop. */
static void test_train_unread(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	unsigned int messages = 0;
	struct pair p;
	char c;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	for (int i = 0; i < 100000; i++) {
		phy.enabled = i & 1;
		assert_int_equal(ohca_link_train(p.a, &phy), 0);
		while (ohca_link_ctrl(p.a) == OHCA_LINK_EV_DOWN)
			;
		assert_string_equal(ohca_link_error(p.a), "");
	}
	/* One message waits, and not one for each training. */
	while (recv(p.b->sock, &c, 1, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC) > 0 && messages < 9) {
		messages++;
		assert_int_not_equal(ohca_link_ctrl(p.b), OHCA_LINK_EV_ERROR);
	}
	assert_int_equal(messages, 1);
	/* The last training follows it, and both ends come up with it. */
	for (int i = 0; i < 20; i++) {
		while (ohca_link_ctrl(p.a) != OHCA_LINK_EV_NONE)
			;
		while (ohca_link_ctrl(p.b) != OHCA_LINK_EV_NONE)
			;
	}
	assert_true(ohca_link_is_up(p.a));
	assert_true(ohca_link_is_up(p.b));
	assert_true(send_one(p.a, 0, 100, 1));
	expect_one(p.b, 0, 100, 1);
	pair_free(&p);
}

/* A port whose peer closes goes to Polling, even if it was disabled. */
static void test_close_disabled(void **state)
{
	struct ohca_link_state st;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_int_equal(ohca_link_train(p.a, &(struct ohca_link_phy){ .enabled = false }), 0);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_DOWN);
	ohca_link_get_state(p.a, &st);
	assert_int_equal(st.phys, 3);
	ohca_link_free(p.b);
	while (ohca_link_ctrl(p.a) != OHCA_LINK_EV_CLOSED)
		;
	ohca_link_get_state(p.a, &st);
	assert_int_equal(st.phys, 2);
	ohca_link_free(p.a);
}

/* An end that ends a link because of its peer sends the reason and receives nothing more. */
static void test_broke(void **state)
{
	static const char junk[64] = "no message of a link";
	struct {
		struct ohca_wire_rec rec;
		struct ohca_wire_error e;
	} r;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	while (recv(p.b->sock, &r, sizeof(r), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(send(p.b->sock, junk, sizeof(junk), 0), sizeof(junk));
	expect_error(p.a, "a record of kind 110");
	assert_true(p.a->rx_broken);
	assert_int_equal(ohca_link_ctrl_fd(p.a), -1);
	do
		assert_int_equal(recv(p.b->sock, &r, sizeof(r), 0), sizeof(r));
	while (le16toh(r.e.hdr.type) != OHCA_WIRE_ERROR);
	assert_int_equal(le32toh(r.e.code), OHCA_LINK_E_PEER);
	assert_string_equal((char *)r.e.text, ohca_link_error(p.a));
	pair_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_train),
		cmocka_unit_test(test_train_best),
		cmocka_unit_test(test_train_widest),
		cmocka_unit_test(test_train_number),
		cmocka_unit_test(test_wait_up),
		cmocka_unit_test(test_train_in_frame),
		cmocka_unit_test(test_ctrl_budget),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_close_disabled),
		cmocka_unit_test(test_broke),
		cmocka_unit_test(test_train_unheard),
		cmocka_unit_test(test_bad_ctrl),
		cmocka_unit_test(test_ctrl_flood),
		cmocka_unit_test(test_trainings),
		cmocka_unit_test(test_long_packets),
		cmocka_unit_test(test_train_unread),
	};

	return cmocka_run_group_tests_name("link training", tests, make_dir, remove_dir);
}
