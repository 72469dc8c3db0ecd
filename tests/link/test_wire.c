// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Links over a stream: by TCP on loopback, and with a relay between the ends that splits, merges,
 * cuts and changes what one end sends.
 */
#include "tcp_pair.h"

#include <endian.h>
#include <errno.h>
#include <sys/mman.h>

/* Reads from the socket until @l has an event. Return: the event. */
static enum ohca_link_event next_event(struct ohca_link *l)
{
	for (int i = 0; i < 1000; i++) {
		enum ohca_link_event ev = ohca_link_ctrl(l);

		if (ev != OHCA_LINK_EV_NONE)
			return ev;
		readable(ohca_link_ctrl_fd(l));
	}
	fail_msg("no event after 1,000 reads");
	return OHCA_LINK_EV_NONE;
}

static void settle(struct pair *p)
{
	for (int i = 0; i < 1000; i++) {
		int up = 0, down = 0;

		drain(p->a, &up, &down);
		drain(p->b, &up, &down);
		if (!up && !down && ohca_link_is_up(p->a) && ohca_link_is_up(p->b))
			return;
		poll(NULL, 0, 1);
	}
	fail_msg("the link does not come up");
}

static void tcp_up(struct pair *p, unsigned int vls, unsigned int shift)
{
	const struct ohca_link_phy phy = pair_phy();
	struct ohca_link_err err;
	struct ohca_link_cfg c;

	ohca_link_cfg_init(&c);
	c.vl_cap = (uint8_t)vls;
	c.shift_pref = (uint8_t)shift;
	assert_int_equal(meet(&c, &c, p, &err), 1);
	ohca_link_train(p->a, &phy);
	ohca_link_train(p->b, &phy);
	settle(p);
}

/* Moves what @from has sent to the rings of @to, as far as the sockets allow. */
static void move(struct ohca_link *from, struct ohca_link *to)
{
	struct pollfd p[2] = {
		{ .fd = ohca_link_event_fd(from), .events = POLLIN },
		{ .fd = ohca_link_ctrl_fd(to), .events = POLLIN },
	};
	int up = 0, down = 0;

	ohca_link_kick(from);
	if (poll(p, 2, 0) <= 0)
		return;
	if (p[0].revents)
		ohca_link_awake(from);
	drain(to, &up, &down);
	assert_int_equal(up + down, 0);
}

/* ---- frames --------------------------------------------------------------------- */

static void test_lanes(void **state)
{
	struct ohca_link_frame f;
	struct ohca_link_flow flow;
	struct pair p;
	uint8_t *b;

	(void)state;
	tcp_up(&p, 8, 2);
	assert_int_equal(ohca_link_vls(p.a), 8);
	for (unsigned int vl = 0; vl < 16; vl++) {
		if (vl > 7 && vl < 15) {
			assert_null(ohca_link_tx_begin(p.a, vl, 64));
			continue;
		}
		assert_true(put_one(p.a, vl, 12 + 4 * vl, (uint8_t)(vl + 1)));
		assert_true(put_one(p.a, vl, OHCA_LINK_MAX_FRAME, (uint8_t)(vl + 100)));
	}
	b = ohca_link_tx_begin(p.a, 3, 100);
	memset(b, 7, 100);
	ohca_link_tx_commit_vcrc(p.a, 3, 96, OHCA_FRAME_VCRC | OHCA_FRAME_ICRC, 0x1234);
	for (int i = 0; i < 1000 && ohca_link_rx_pending(p.b) != 0x80ff; i++) {
		move(p.a, p.b);
		poll(NULL, 0, 1);
	}
	for (unsigned int vl = 0; vl < 16; vl++) {
		if (vl > 7 && vl < 15)
			continue;
		expect_one(p.b, vl, 12 + 4 * vl, (uint8_t)(vl + 1));
		expect_one(p.b, vl, OHCA_LINK_MAX_FRAME, (uint8_t)(vl + 100));
	}
	assert_true(ohca_link_rx_peek(p.b, 3, &f));
	assert_int_equal(f.len, 96);
	assert_int_equal(f.flags, OHCA_FRAME_VCRC | OHCA_FRAME_ICRC);
	assert_int_equal(f.vcrc, 0x1234);
	ohca_link_rx_release(p.b, 3);
	assert_int_equal(ohca_link_rx_pending(p.b), 0);
	assert_true(ohca_link_get_flow(p.a, 3, &flow));
	assert_int_equal(flow.sent_fctbs, 1 + 17 + 1);
	assert_true(ohca_link_bytes(p.a) > 1 << 20);
	pair_free(&p);
}

/* @l can sleep when everything is sent; descriptors report new work. */
static void expect_sleep(struct ohca_link *l)
{
	assert_true(ohca_link_prepare_sleep(l));
}

/*
 * A reader that does not read: both lanes use up their credits, and no end stores more than that.
 * The socket fills on the way. When the reader reads, everything arrives in order.
 */
static void test_late_reader(void **state)
{
	const int small = 65536;
	struct ohca_link_stats st;
	unsigned int n[2] = { 0, 0 }, got[2] = { 0, 0 };
	struct ohca_link_frame f;
	struct pollfd ev;
	struct pair p;

	(void)state;
	tcp_up(&p, 2, 2);
	setsockopt(ohca_link_ctrl_fd(p.a), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	for (unsigned int vl = 0; vl < 2; vl++) {
		while (send_one(p.a, vl, 4000, (uint8_t)n[vl])) {
			n[vl]++;
			ohca_link_kick(p.a);
		}
		assert_int_equal(n[vl], 2048 / 16);
	}
	ev = (struct pollfd){ .fd = ohca_link_event_fd(p.a), .events = POLLIN };
	expect_sleep(p.a);
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.tx_nocredit, 2);
	/* VL15 has no credits that it could wait for */
	while (send_one(p.a, 15, 256, 1))
		;
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.tx_vl15_dropped, 1);
	for (int i = 0; i < 20000 && got[0] + got[1] < 2 * 2048 / 16 + 20; i++) {
		struct pollfd all[] = {
			ev,
			{ .fd = ohca_link_ctrl_fd(p.a), .events = POLLIN },
			{ .fd = ohca_link_ctrl_fd(p.b), .events = POLLIN },
		};

		poll(all, 3, 100);
		move(p.a, p.b);
		if (poll(&ev, 1, 0) > 0)
			ohca_link_awake(p.a);
		for (unsigned int vl = 0; vl < 2; vl++) {
			while (ohca_link_rx_peek(p.b, vl, &f)) {
				assert_int_equal(f.len, 4000);
				assert_int_equal(f.data[0], (uint8_t)got[vl]);
				assert_int_equal(f.data[3999], (uint8_t)got[vl]++);
				ohca_link_rx_release(p.b, vl);
			}
		}
		while (ohca_link_rx_peek(p.b, 15, &f))
			ohca_link_rx_release(p.b, 15);
		move(p.b, p.a);
		/* the credits came back */
		if (n[0] < 2048 / 16 + 20 && send_one(p.a, 0, 4000, (uint8_t)n[0]))
			n[0]++;
	}
	assert_int_equal(got[0], n[0]);
	assert_int_equal(got[1], n[1]);
	/* the count of dropped frames is sent with other records */
	assert_true(send_one(p.a, 0, 64, 0));
	for (int i = 0; i < 1000 && !ohca_link_vl15_dropped_by_peer(p.b); i++) {
		move(p.a, p.b);
		poll(NULL, 0, 1);
	}
	assert_int_equal(ohca_link_vl15_dropped_by_peer(p.b), 1);
	pair_free(&p);
}

/* More frames than one kick sends: the link can sleep, and its event descriptor brings the rest. */
static void test_many_frames(void **state)
{
	const unsigned int all = 2000;
	struct ohca_link_frame f;
	unsigned int got = 0;
	struct pair p;

	(void)state;
	tcp_up(&p, 1, 2);
	for (unsigned int i = 0; i < all; i++)
		assert_true(put_one(p.a, 0, 64, (uint8_t)i));
	ohca_link_kick(p.a);
	while (got < all) {
		struct pollfd ev[] = {
			{ .fd = ohca_link_event_fd(p.a), .events = POLLIN },
			{ .fd = ohca_link_ctrl_fd(p.b), .events = POLLIN },
		};
		int up = 0, down = 0;

		assert_true(ohca_link_prepare_sleep(p.a));
		assert_in_range(poll(ev, 2, 10000), 1, 2);
		ohca_link_awake(p.a);
		drain(p.b, &up, &down);
		for (; ohca_link_rx_peek(p.b, 0, &f); got++) {
			assert_int_equal(f.data[63], (uint8_t)got);
			ohca_link_rx_release(p.b, 0);
		}
	}
	pair_free(&p);
}

/*
 * What was not sent before a training never arrives, what is sent later does, and no credit is
 * lost.
 */
static void test_retrain(void **state)
{
	const struct ohca_link_phy phy = pair_phy();
	const int small = 4096;
	struct ohca_link_frame f;
	struct pair p;

	(void)state;
	tcp_up(&p, 1, 0);
	setsockopt(ohca_link_ctrl_fd(p.a), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	for (unsigned int round = 0; round < 20; round++) {
		unsigned int n = 0;

		while (send_one(p.a, 0, 4000, 0xee)) {
			n++;
			ohca_link_kick(p.a);
		}
		assert_int_equal(n, 2048 / 63);
		if (round % 3)
			move(p.a, p.b);
		ohca_link_train(round % 2 ? p.a : p.b, &phy);
		for (int i = 0; i < 1000; i++) {
			int up = 0, down = 0;

			ohca_link_awake(p.a);
			drain(p.a, &up, &down);
			drain(p.b, &up, &down);
			if (up && ohca_link_is_up(p.a) && ohca_link_is_up(p.b))
				break;
			poll(NULL, 0, 1);
		}
		settle(&p);
		assert_true(send_one(p.a, 0, 64, (uint8_t)round));
		for (int i = 0; i < 1000 && !ohca_link_rx_pending(p.b); i++) {
			move(p.a, p.b);
			poll(NULL, 0, 1);
		}
		expect_one(p.b, 0, 64, (uint8_t)round);
		assert_false(ohca_link_rx_peek(p.b, 0, &f));
		/* one message returns all credits */
		assert_true(send_one(p.b, 0, 64, 1));
		for (int i = 0; i < 1000 && ohca_link_tx_credits(p.a, 0) < 2048; i++) {
			move(p.b, p.a);
			if (ohca_link_rx_peek(p.a, 0, &f))
				ohca_link_rx_release(p.a, 0);
			poll(NULL, 0, 1);
		}
		assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);
	}
	pair_free(&p);
}

static void test_gone(void **state)
{
	struct pair p;

	(void)state;
	tcp_up(&p, 1, 2);
	ohca_link_free(p.b);
	assert_int_equal(next_event(p.a), OHCA_LINK_EV_CLOSED);
	assert_false(ohca_link_is_up(p.a));
	assert_string_not_equal(ohca_link_error(p.a), "");
	assert_null(ohca_link_tx_begin(p.a, 0, 64));
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
	assert_true(ohca_link_prepare_sleep(p.a));
	ohca_link_free(p.a);
}

static void expect_end(struct ohca_link *l, const char *why)
{
	enum ohca_link_event ev = OHCA_LINK_EV_NONE;

	assert_true(ohca_link_prepare_sleep(l));
	for (int i = 0; i < 10 && ev != OHCA_LINK_EV_CLOSED; i++) {
		readable(ohca_link_ctrl_fd(l));
		ev = ohca_link_ctrl(l);
	}
	assert_int_equal(ev, OHCA_LINK_EV_CLOSED);
	assert_string_equal(ohca_link_error(l), why);
}

/* A link that cannot send ends, even if its socket works. */
static void test_cannot_send(void **state)
{
	struct tx_lane *t;
	struct pair p;
	int other;

	(void)state;
	/* a frame that the kernel cannot read has the effect of a lack of kernel memory */
	tcp_up(&p, 1, 2);
	t = &p.a->tx[0];
	assert_true(put_one(p.a, 0, 4000, 1));
	assert_int_equal(mprotect(t->lane.data, 4096, PROT_NONE), 0);
	ohca_link_kick(p.a);
	expect_end(p.a, "the connection is lost: Bad address");
	pair_free(&p);

	/* and a set of events that accepts no other descriptor */
	tcp_up(&p, 1, 2);
	other = dup(p.a->my_wake);
	assert_true(other >= 0);
	assert_int_equal(dup2(p.a->sock, p.a->my_wake), p.a->my_wake);
	for (unsigned int i = 0; i < 2000; i++)
		assert_true(put_one(p.a, 0, 64, 1));
	ohca_link_kick(p.a);
	expect_end(p.a, "the connection is lost: Invalid argument");
	pair_free(&p);
	close(other);
}

/* ---- a relay between the ends ---------------------------------------------------- */

/**
 * struct between - two ends and a relay between them
 * @a: the listener; the relay changes what is sent to it
 * @fd: [0] the other end of @a's socket, [1] of @b's
 * @flip: index of the byte to @a whose bits of @mask are inverted; -1: none
 * @cut: bytes to @a after which its socket is closed; SIZE_MAX: never
 * @step: bytes that the relay passes on at a time, 0: all
 * @passed: bytes to @a so far
 * @held: bytes that wait for the next step
 */
struct between {
	struct ohca_link *a, *b;
	int fd[2];
	long flip;
	uint8_t mask;
	size_t cut, step, passed, held_len;
	bool is_cut;
	uint8_t held[1 << 16];
};

static void to_a(struct between *w)
{
	const size_t all = w->held_len;
	size_t n = w->step && w->step < all ? w->step : all;

	for (size_t i = 0; i < n; i++)
		if ((long)(w->passed + i) == w->flip)
			w->held[i] ^= w->mask;
	if (!w->is_cut && w->passed + n > w->cut) {
		n = w->cut - w->passed;
		w->is_cut = true;
	}
	if (n && send(w->fd[0], w->held, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		n = all;	/* @a has closed */
	if (w->is_cut)
		shutdown(w->fd[0], SHUT_WR);
	w->passed += n;
	w->held_len = w->is_cut ? 0 : all - n;
	memmove(w->held, w->held + n, w->held_len);
}

/* Return: whether any bytes moved. */
static bool pass(struct between *w)
{
	uint8_t buf[8192];
	ssize_t n = recv(w->fd[0], buf, sizeof(buf), MSG_DONTWAIT), m;

	if (n > 0 && send(w->fd[1], buf, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		n = 0;
	m = recv(w->fd[1], w->held + w->held_len, sizeof(w->held) - w->held_len, MSG_DONTWAIT);
	w->held_len += m > 0 ? (size_t)m : 0;
	if (w->held_len || w->cut == w->passed)
		to_a(w);
	return n > 0 || m > 0 || w->held_len;
}

/* Return: whether the link of @a is still open. */
static bool run(struct between *w)
{
	for (int i = 0; i < 4000; i++) {
		enum ohca_link_event e;
		bool moved = pass(w);

		for (int k = 0; k < 2; k++) {
			struct ohca_link *l = k ? w->b : w->a;

			while (l && (e = ohca_link_ctrl(l)) != OHCA_LINK_EV_NONE) {
				moved = true;
				if (e != OHCA_LINK_EV_CLOSED && e != OHCA_LINK_EV_ERROR)
					continue;
				if (!k && !ohca_link_error(l)[0])
					fail_msg("an end without a reason");
				if (!k)
					return false;
			}
		}
		if (!moved)
			break;
	}
	return ohca_link_ctrl_fd(w->a) >= 0;
}

/* Return: whether both ends have a link. */
static bool shake(struct between *w)
{
	uint8_t nonce[OHCA_LINK_NONCE];
	struct ohca_link_cfg c, peer;
	struct ohca_link_err err = { 0 };
	const int room = 1 << 20;
	int sa[2], sb[2], r = 0;

	ohca_link_cfg_init(&c);
	c.vl_cap = 2;
	c.shift_pref = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sa), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sb), 0);
	w->fd[0] = sa[1];
	/* a send of one byte needs much more room than that byte */
	assert_int_equal(setsockopt(w->fd[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
	w->fd[1] = sb[1];
	assert_int_equal(ohca_link_greet(sa[0], nonce, &err), 0);
	for (int i = 0; i < 4000 && !r; i++) {
		pass(w);
		if (!w->b && ohca_link_connect_finish(sb[0], &c, &w->b, &err) < 0)
			fail_msg("%s", err.text);
		r = ohca_link_hello_recv(sa[0], NULL, &peer, &err);
	}
	if (r <= 0) {
		assert_true(!r || err.code);
		close(sa[0]);
		close(sb[0]);
		return false;
	}
	w->a = ohca_link_hello_reply(sa[0], &peer, &c, &err);
	for (int i = 0; i < 10 && w->a && !w->b; i++) {
		pass(w);
		r = ohca_link_connect_finish(sb[0], &c, &w->b, &err);
		if (r < 0)
			return false;
	}
	if (!w->a)
		close(sb[0]);
	return w->a && w->b;
}

/* Reads the frames that @a has received; each is as @b sent it, unless @flip changes a byte. */
static unsigned int take(struct between *w)
{
	struct ohca_link_frame f;
	unsigned int n = 0;

	for (unsigned int vl = 0; vl < 16; vl++) {
		while (ohca_link_rx_peek(w->a, vl, &f)) {
			assert_in_range(f.len, OHCA_LINK_MIN_FRAME, OHCA_LINK_MAX_FRAME);
			for (uint32_t i = 0; i < f.len && w->flip < 0; i++)
				assert_int_equal(f.data[i], (uint8_t)(f.len + vl));
			ohca_link_rx_release(w->a, vl);
			n++;
		}
	}
	ohca_link_kick(w->a);
	return n;
}

static void give(struct between *w, unsigned int vl, size_t len)
{
	/* the link may be down by now */
	(void)send_one(w->b, vl, len, (uint8_t)(len + vl));
	ohca_link_kick(w->b);
}

/*
 * Sends all kinds of messages in both directions; either link may end. Return: frames that @a has
 * received, of 6.
 */
static unsigned int session(struct between *w)
{
	const struct ohca_link_phy phy = pair_phy();
	struct ohca_link_frame f;
	unsigned int n = 0;

	w->passed = w->held_len = 0;
	w->is_cut = false;
	w->a = w->b = NULL;
	if (!shake(w))
		goto out;
	ohca_link_train(w->a, &phy);
	ohca_link_train(w->b, &phy);
	if (!run(w))
		goto out;
	give(w, 0, 12);
	give(w, 1, 100);
	give(w, 15, 280);
	/* returns credits to @b, with a frame */
	if (send_one(w->a, 1, 64, 0))
		ohca_link_kick(w->a);
	if (!run(w))
		goto out;
	n += take(w);
	while (ohca_link_rx_pending(w->b) & 2 && ohca_link_rx_peek(w->b, 1, &f))
		ohca_link_rx_release(w->b, 1);
	give(w, 0, 16);
	if (!run(w))
		goto out;
	n += take(w);
	ohca_link_train(w->b, &phy);
	if (!run(w))
		goto out;
	give(w, 0, 20);
	give(w, 1, 24);
	if (run(w))
		n += take(w);
out:
	if (w->a) {
		assert_true(ohca_link_prepare_sleep(w->a));
		ohca_link_free(w->a);
	}
	ohca_link_free(w->b);
	close(w->fd[0]);
	close(w->fd[1]);
	return n;
}

static void test_split(void **state)
{
	static struct between w = { .flip = -1, .cut = SIZE_MAX };

	(void)state;
	assert_int_equal(session(&w), 6);
	for (w.step = 1; w.step < 600; w.step = w.step < 20 ? w.step + 1 : w.step * 2 - 7)
		assert_int_equal(session(&w), 6);
}

static void test_cut(void **state)
{
	static struct between w = { .flip = -1, .cut = SIZE_MAX };
	size_t all;

	(void)state;
	assert_int_equal(session(&w), 6);
	all = w.passed;
	assert_true(all > 512 + 2 * 72);
	for (size_t cut = 0; cut < all; cut += cut < 16 || cut > 500 ? 1 : 31) {
		w.cut = cut;
		assert_in_range(session(&w), 0, 6);
	}
}

static void test_flip(void **state)
{
	static struct between w = { .flip = -1, .cut = SIZE_MAX };
	unsigned int whole = 0;
	size_t all;

	(void)state;
	assert_int_equal(session(&w), 6);
	all = w.passed;
	for (size_t at = 0; at < all; at++) {
		w.flip = (long)at;
		w.mask = (uint8_t)(at % 3 == 2 ? 0xff : 1u << at % 8);
		whole += session(&w) == 6;
	}
	/* changes of payload and padding have no effect here, others have one */
	assert_in_range(whole, 1, all - 100);
}

/* Invalid records after a valid training. */
static void test_impossible(void **state)
{
	static const struct {
		struct ohca_wire_rec rec;
		size_t len;
		const char *why;
	} bad[] = {
		{ { .kind = 0 }, 0, "a record of kind 0" },
		{ { .kind = 4, .len = 8 }, 0, "a record of kind 4" },
		{ { .kind = OHCA_WIRE_FRAME, .len = 8 }, 8, "frame length 8" },
		{ { .kind = OHCA_WIRE_FRAME, .len = 4225 }, 0, "a record of length 4225" },
		{ { .kind = OHCA_WIRE_FRAME, .vl = 2, .len = 12 }, 12, "a frame of VL 2" },
		{ { .kind = OHCA_WIRE_FRAME, .vl = 200, .len = 12 }, 12, "a frame of VL 200" },
		{ { .kind = OHCA_WIRE_FRAME, .len = 12, .flags = 8 }, 12, "frame flags 8" },
		{ { .kind = OHCA_WIRE_MESSAGE, .len = 513 }, 0, "a record of length 513" },
		{ { .kind = OHCA_WIRE_MESSAGE, .len = 0 }, 0, "a record of length 0" },
		{ { .kind = OHCA_WIRE_MESSAGE, .len = 8 }, 8, "does not use" },
		{ { .kind = OHCA_WIRE_CREDIT, .len = 36 }, 0, "a record of length 36" },
		{ { .kind = OHCA_WIRE_CREDIT, .len = 40 }, 40, "impossible credit limit, VL 0" },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const uint8_t zeros[64] = { 0 };
		struct ohca_wire_rec rec = bad[i].rec;
		struct pair p;

		tcp_up(&p, 2, 2);
		rec.len = htole16(rec.len);
		rec.flags = htole16(rec.flags);
		assert_int_equal(send(p.b->sock, &rec, sizeof(rec), 0), sizeof(rec));
		if (bad[i].len)
			assert_int_equal(send(p.b->sock, zeros, bad[i].len, 0), bad[i].len);
		assert_int_equal(next_event(p.a), OHCA_LINK_EV_ERROR);
		if (!strstr(ohca_link_error(p.a), bad[i].why))
			fail_msg("%u: '%s'", i, ohca_link_error(p.a));
		/* the peer reads the reason, too */
		assert_int_equal(next_event(p.b), OHCA_LINK_EV_ERROR);
		if (!strstr(ohca_link_error(p.b), bad[i].why))
			fail_msg("%u: '%s'", i, ohca_link_error(p.b));
		pair_free(&p);
	}
}

/*
 * A peer whose messages never end: each call reads a part, the rest keeps the socket readable, and
 * a frame after them arrives.
 */
static void test_no_end(void **state)
{
	static struct between w = { .flip = -1, .cut = SIZE_MAX };
	const struct ohca_link_phy phy = pair_phy();
	struct {
		struct ohca_wire_rec rec;
		struct ohca_wire_hdr hdr;
	} many[512];
	const uint8_t *at = (const uint8_t *)many;
	size_t sent = 0, off = 0;
	struct pollfd p;
	ssize_t n;

	(void)state;
	assert_true(shake(&w));
	ohca_link_train(w.a, &phy);
	ohca_link_train(w.b, &phy);
	assert_true(run(&w));
	memset(many, 0, sizeof(many));
	for (unsigned int i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		many[i].rec.kind = OHCA_WIRE_MESSAGE;
		many[i].rec.len = htole16(sizeof(many[i].hdr));
		link_hdr_init(&many[i].hdr, 99, sizeof(many[i].hdr));
	}
	while ((n = send(w.fd[0], at + off, sizeof(many) - off, MSG_DONTWAIT)) > 0) {
		sent += (size_t)n;
		off = (off + (size_t)n) % sizeof(many);
	}
	/* more than one call reads */
	assert_in_range(sent, (256 << 10) + 1, 1 << 30);
	p = (struct pollfd){ .fd = ohca_link_ctrl_fd(w.a), .events = POLLIN };
	assert_int_equal(ohca_link_ctrl(w.a), OHCA_LINK_EV_NONE);
	assert_int_equal(poll(&p, 1, 0), 1);
	for (unsigned int i = 0; poll(&p, 1, 0) > 0; i++) {
		assert_in_range(i, 0, 100);
		assert_int_equal(ohca_link_ctrl(w.a), OHCA_LINK_EV_NONE);
	}
	assert_int_equal(send(w.fd[0], at + off, sizeof(many) - off, 0), sizeof(many) - off);
	give(&w, 0, 12);
	assert_true(run(&w));
	assert_int_equal(take(&w), 1);
	ohca_link_free(w.a);
	ohca_link_free(w.b);
	close(w.fd[0]);
	close(w.fd[1]);
}

/* More frames than there are credits. */
static void test_no_credit(void **state)
{
	struct ohca_wire_rec rec = { .kind = OHCA_WIRE_FRAME, .len = htole16(4000) };
	uint8_t frame[sizeof(rec) + 4000] = { 0 };
	struct pair p;

	(void)state;
	memcpy(frame, &rec, sizeof(rec));
	tcp_up(&p, 1, 2);
	for (unsigned int i = 0; i < 2048 / 16 + 1; i++)
		for (size_t done = 0; done < sizeof(frame);) {
			ssize_t n = send(p.b->sock, frame + done, sizeof(frame) - done, MSG_DONTWAIT);
			struct pollfd either[] = {
				{ .fd = p.a->sock, .events = POLLIN },
				{ .fd = p.b->sock, .events = POLLOUT },
			};

			done += n > 0 ? (size_t)n : 0;
			if (n > 0)
				continue;
			assert_true(poll(either, 2, 10000) > 0);
			/* a part of the frame without credits is no error yet */
			assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
		}
	assert_int_equal(next_event(p.a), OHCA_LINK_EV_ERROR);
	assert_string_equal(ohca_link_error(p.a),
			    "the peer violates the link protocol: credits exceeded, VL 0");
	pair_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_late_reader),
		cmocka_unit_test(test_many_frames),
		cmocka_unit_test(test_retrain),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_cannot_send),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_flip),
		cmocka_unit_test(test_impossible),
		cmocka_unit_test(test_no_credit),
		cmocka_unit_test(test_no_end),
	};

	return cmocka_run_group_tests_name("wire", tests, make_dir, remove_dir);
}
