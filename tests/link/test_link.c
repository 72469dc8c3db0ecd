// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Lanes of a link that is up: frames, credits, sleeping.
 */
#include "check.h"

#include <poll.h>

/* Frames of maximum length, the maximum number of lanes, and their counters. */
static void test_bounds(void **state)
{
	struct ohca_link_stats a, b;
	struct ohca_link_frame f;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 15, 0), 0);
	assert_int_equal(mappings(), 2);
	for (unsigned int vl = 0; vl < 16; vl++) {
		assert_null(ohca_link_tx_begin(p.a, vl, OHCA_LINK_MIN_FRAME - 1));
		assert_true(send_one(p.a, vl, OHCA_LINK_MIN_FRAME, (uint8_t)vl));
		assert_null(ohca_link_tx_begin(p.a, vl, OHCA_LINK_MAX_FRAME + 1));
		assert_true(send_one(p.a, vl, OHCA_LINK_MAX_FRAME, (uint8_t)vl));
	}
	assert_null(ohca_link_tx_begin(p.a, 16, 64));
	simple_step(p.b);
	assert_int_equal(ohca_link_rx_pending(p.b), 0xffff);
	assert_false(ohca_link_rx_peek(p.b, 16, &f));
	ohca_link_rx_release(p.b, 16);
	ohca_link_rx_release(p.b, 3);		/* no frame was peeked */
	ohca_link_get_stats(p.b, &b);
	assert_int_equal(b.rx_frames, 0);
	for (unsigned int vl = 0; vl < 16; vl++) {
		expect_one(p.b, vl, OHCA_LINK_MIN_FRAME, (uint8_t)vl);
		ohca_link_rx_release(p.b, vl);	/* one release is enough */
		expect_one(p.b, vl, OHCA_LINK_MAX_FRAME, (uint8_t)vl);
	}
	ohca_link_get_stats(p.a, &a);
	ohca_link_get_stats(p.b, &b);
	assert_int_equal(a.tx_frames, 32);
	assert_int_equal(a.tx_bytes, 16 * (OHCA_LINK_MIN_FRAME + OHCA_LINK_MAX_FRAME));
	assert_int_equal(a.rx_frames, 0);
	assert_int_equal(a.rx_bytes, 0);
	assert_int_equal(b.rx_frames, 32);
	assert_int_equal(b.rx_bytes, a.tx_bytes);
	assert_int_equal(b.tx_frames, 0);
	assert_int_equal(a.retrains, 1);
	assert_int_equal(a.tx_nocredit, 0);
	assert_int_equal(a.tx_vl15_dropped, 0);

	/* none of these calls succeeds while the link is down */
	assert_int_not_equal(ohca_link_tx_credits(p.a, 0), 0);
	assert_int_equal(ohca_link_tx_credits(p.a, 16), 0);
	ohca_link_train(p.a, &(struct ohca_link_phy){ .enabled = false });
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 0);
	assert_int_equal(ohca_link_rx_pending(p.a), 0);
	assert_null(ohca_link_tx_begin(p.a, 0, 64));
	pair_free(&p);
	assert_int_equal(mappings(), 0);
}

/* Steps both ends several times, because a socket does not accept everything at once. */
static void flow(struct pair *p)
{
	for (int i = 0; i < 64; i++) {
		simple_step(p->a);
		simple_step(p->b);
	}
}

/* ---- credits ------------------------------------------------------------------- */

static void test_credits(void **state)
{
	const size_t len = 4096 + 26;	/* 65 blocks with the VCRC */
	struct ohca_link_stats st;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 0), 0);
	assert_null(ohca_link_tx_begin(p.a, 2, 64));	/* no such lane */
	assert_null(ohca_link_tx_begin(p.a, 99, 64));
	assert_null(ohca_link_tx_begin(p.a, 0, OHCA_LINK_MAX_FRAME + 1));
	assert_null(ohca_link_tx_begin(p.a, 0, OHCA_LINK_MIN_FRAME - 1));
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);

	/* 31 packets are 2015 blocks; 33 are left, not enough for another. */
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 31; i++)
			assert_true(send_one(p.a, 0, len, (uint8_t)(round + i)));
		assert_int_equal(ohca_link_tx_credits(p.a, 0), 33);
		assert_false(send_one(p.a, 0, len, 0));
		/* The other lanes are not affected. */
		assert_true(send_one(p.a, 1, 64, 9));
		assert_true(send_one(p.a, 15, 64, 8));
		flow(&p);
		expect_one(p.b, 1, 64, 9);
		expect_one(p.b, 15, 64, 8);
		for (int i = 0; i < 31; i++)
			expect_one(p.b, 0, len, (uint8_t)(round + i));
		assert_int_equal(ohca_link_rx_pending(p.b), 0);
		ohca_link_kick(p.b);
		simple_take(p.a);
		assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);
	}
	/*
	 * 62 bytes and the VCRC are one block: the sender can use all 2048 blocks and no more. The
	 * receiver returns credits at once while the sender has fewer than a longest frame needs
	 * (67), then an eighth at a time, and the rest with any record that it sends.
	 */
	for (int i = 0; i < 2048; i++)
		assert_true(send_one(p.a, 0, 62, (uint8_t)i));
	assert_false(send_one(p.a, 0, 62, 0));
	flow(&p);
	for (unsigned int i = 0, told = 0; i < 2048; i++) {
		assert_int_equal(ohca_link_tx_credits(p.a, 0), told);
		expect_one(p.b, 0, 62, (uint8_t)i);
		ohca_link_kick(p.b);
		simple_take(p.a);
		if (told < 67 || i + 1 - told >= 256)
			told = i + 1;
	}
	assert_in_range(ohca_link_tx_credits(p.a, 0), 2048 - 255, 2047);
	assert_true(send_one(p.b, 1, 62, 1));
	expect_one(p.a, 1, 62, 1);
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.tx_frames, 200 * 33 + 2048);
	assert_int_equal(st.tx_nocredit, 201);
	ohca_link_get_stats(p.b, &st);
	assert_int_equal(st.rx_frames, 200 * 33 + 2048);
	pair_free(&p);
}

/* The values of each end's flow control packets: blocks sent, and the limit for the other end. */
static void test_flow(void **state)
{
	struct ohca_link_flow a, b;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 0), 0);
	assert_false(ohca_link_get_flow(p.a, 2, &a));
	assert_false(ohca_link_get_flow(p.a, 15, &a));
	/* 5 blocks of 64 bytes in one direction, 3 in the other one, on different lanes */
	assert_true(send_one(p.a, 0, 250, 1));
	assert_true(send_one(p.a, 0, 62, 1));
	assert_true(send_one(p.b, 1, 190, 1));
	simple_take(p.a);
	simple_take(p.b);
	assert_true(ohca_link_get_flow(p.a, 0, &a));
	assert_true(ohca_link_get_flow(p.b, 0, &b));
	assert_int_equal(a.sent_fctbs, 5);
	assert_int_equal(b.rcvd_fctbs, 5);
	assert_int_equal(b.sent_fctbs, 0);
	assert_int_equal(a.rcvd_fctbs, 0);
	assert_int_equal(a.rcvd_fccl, 2048);
	assert_int_equal(b.sent_fccl, 2048);
	/* released blocks become credits */
	expect_one(p.b, 0, 250, 1);
	assert_true(send_one(p.b, 1, 62, 1));
	simple_take(p.a);
	assert_true(ohca_link_get_flow(p.a, 0, &a));
	assert_true(ohca_link_get_flow(p.b, 0, &b));
	assert_int_equal(a.rcvd_fccl, 2048 + 4);
	assert_int_equal(b.sent_fccl, 2048 + 4);
	assert_int_equal(a.sent_fccl, 2048);
	assert_int_equal(b.rcvd_fccl, 2048);
	assert_true(ohca_link_get_flow(p.a, 1, &a));
	assert_true(ohca_link_get_flow(p.b, 1, &b));
	assert_int_equal(b.sent_fctbs, 4);
	assert_int_equal(a.rcvd_fctbs, 4);
	assert_int_equal(a.sent_fctbs, 0);
	/* the counts are modulo 4096: 252 frames of 17 blocks wrap them */
	expect_one(p.b, 0, 62, 1);
	for (unsigned int i = 0; i < 252; i++) {
		assert_true(send_one(p.a, 0, 17 * 64 - 2, 2));
		expect_one(p.b, 0, 17 * 64 - 2, 2);
		ohca_link_kick(p.b);
		simple_take(p.a);
	}
	assert_true(ohca_link_get_flow(p.a, 0, &a));
	assert_int_equal(a.sent_fctbs, (5 + 252 * 17) % 4096);
	assert_in_range((2048 + 5 + 252 * 17 - a.rcvd_fccl) % 4096, 0, 255);
	assert_true(ohca_link_get_flow(p.b, 0, &b));
	assert_int_equal(b.rcvd_fctbs, a.sent_fctbs);
	assert_int_equal(b.sent_fccl, a.rcvd_fccl);
	pair_free(&p);
}

static void test_shorter_commit(void **state)
{
	struct ohca_link_frame f;
	struct pair p;
	uint8_t *b;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 1), 0);
	b = ohca_link_tx_begin(p.a, 0, 4000);
	assert_non_null(b);
	memset(b, 5, 100);
	ohca_link_tx_commit_vcrc(p.a, 0, 100, OHCA_FRAME_ICRC | OHCA_FRAME_VCRC, 0xbeef);
	ohca_link_kick(p.a);
	simple_take(p.b);
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 2047);
	assert_true(ohca_link_rx_peek(p.b, 0, &f));
	assert_int_equal(f.len, 100);
	assert_int_equal(f.flags, OHCA_FRAME_ICRC | OHCA_FRAME_VCRC);
	assert_int_equal(f.vcrc, 0xbeef);
	assert_true(ohca_link_rx_peek(p.b, 0, &f));	/* still there */
	ohca_link_rx_release(p.b, 0);
	ohca_link_rx_release(p.b, 0);				/* nothing to release */
	assert_false(ohca_link_rx_peek(p.b, 0, &f));
	pair_free(&p);
}

static void test_vl15_drops(void **state)
{
	struct ohca_link_stats st;
	struct pair p;
	int n = 0;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	while (send_one(p.a, 15, 300, (uint8_t)n))
		n++;
	assert_int_equal(n, OHCA_WIRE_VL15_BLOCKS / 5);
	assert_false(send_one(p.a, 15, 300, 0));
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.tx_vl15_dropped, 2);
	assert_int_equal(st.tx_nocredit, 0);
	flow(&p);
	ohca_link_get_stats(p.b, &st);
	assert_int_equal(st.rx_vl15_dropped, 2);
	assert_int_equal(ohca_link_vl15_dropped_by_peer(p.b), 2);
	for (int i = 0; i < n; i++)
		expect_one(p.b, 15, 300, (uint8_t)i);
	ohca_link_kick(p.b);
	simple_take(p.a);
	assert_true(send_one(p.a, 15, 300, 0));
	pair_free(&p);
}

/* ---- sleeping ------------------------------------------------------------------ */

static bool signalled(struct ohca_link *l)
{
	struct pollfd pf[] = {
		{ .fd = ohca_link_event_fd(l), .events = POLLIN },
		{ .fd = ohca_link_ctrl_fd(l), .events = POLLIN },
	};

	return poll(pf, 2, 0) > 0;
}

static void test_sleep(void **state)
{
	struct ohca_link_stats st;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	simple_take(p.a);
	simple_take(p.b);
	assert_true(ohca_link_prepare_sleep(p.b));
	ohca_link_kick(p.a);				/* nothing new */
	assert_false(signalled(p.b));
	assert_true(put_one(p.a, 0, 64, 2));
	assert_true(put_one(p.a, 0, 64, 3));
	assert_false(signalled(p.b));
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.sends, 2);			/* those of the training */
	ohca_link_kick(p.a);
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.sends, 3);			/* one for both frames */
	assert_true(signalled(p.b));
	simple_take(p.b);
	assert_false(signalled(p.b));
	assert_false(ohca_link_prepare_sleep(p.b));	/* it has work */
	expect_one(p.b, 0, 64, 2);
	expect_one(p.b, 0, 64, 3);
	assert_true(ohca_link_prepare_sleep(p.b));

	/* an end sends everything before it sleeps */
	assert_true(put_one(p.a, 0, 64, 4));
	assert_true(ohca_link_prepare_sleep(p.a));
	assert_true(ohca_link_is_sent(p.a));
	assert_true(signalled(p.b));
	expect_one(p.b, 0, 64, 4);

	/* Credits wake a sender that has none, and nothing else does. */
	while (send_one(p.a, 0, 4000, 1))
		;
	flow(&p);
	assert_true(ohca_link_prepare_sleep(p.a));
	ohca_link_kick(p.b);
	assert_false(signalled(p.a));
	expect_one(p.b, 0, 4000, 1);
	ohca_link_kick(p.b);
	assert_true(signalled(p.a));
	simple_take(p.a);
	assert_false(ohca_link_prepare_sleep(p.a));	/* credits are there to be used */
	assert_true(ohca_link_prepare_sleep(p.a));	/* if they are not used, it may sleep */
	assert_true(send_one(p.a, 0, 4000, 1));
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.sleeps, 3);
	assert_int_equal(st.rx_vl15_dropped, 0);
	ohca_link_get_stats(p.b, &st);
	assert_int_equal(st.sleeps, 2);
	pair_free(&p);
}

/* Frames in the socket of a process that exits arrive, even if the process left data unread. */
static void test_last_frames(void **state)
{
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 0), 0);
	assert_true(send_one(p.a, 0, 64, 1));
	assert_true(send_one(p.b, 0, 64, 2));
	assert_true(send_one(p.b, 1, 4000, 3));
	ohca_link_free(p.b);
	simple_up(p.a, 0);
	assert_int_equal(ohca_link_ctrl_fd(p.a), -1);
	assert_string_equal(ohca_link_error(p.a), "the peer closed the link");
	assert_int_equal(p.a->rx[0].fctbs, 2);
	assert_int_equal(p.a->rx[1].fctbs, 63);
	ohca_link_free(p.a);
}

/* A sender does not sleep if it has the credits for its frame, and sleeps if one is missing. */
static void test_sleep_credits(void **state)
{
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	for (unsigned int i = 0; i < 2048; i++)
		assert_true(send_one(p.a, 0, 62, 1));
	assert_false(send_one(p.a, 0, 64 + 62, 1));
	flow(&p);
	assert_true(ohca_link_prepare_sleep(p.a));
	for (unsigned int i = 0; i < 2; i++) {
		expect_one(p.b, 0, 62, 1);
		ohca_link_kick(p.b);
		simple_take(p.a);
		assert_int_equal(ohca_link_prepare_sleep(p.a), i == 0);
	}
	assert_true(send_one(p.a, 0, 64 + 62, 1));
	pair_free(&p);
}

/* Frames of lanes that the owner cannot accept now do not prevent its sleep. */
static void test_sleep_except(void **state)
{
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 0), 0);
	assert_true(send_one(p.a, 1, 64, 1));
	simple_take(p.b);
	assert_true(ohca_link_prepare_sleep_except(p.b, 1u << 1));
	assert_false(ohca_link_prepare_sleep_except(p.b, 1u << 0));
	assert_true(send_one(p.a, 15, 64, 1));
	simple_take(p.b);
	assert_false(ohca_link_prepare_sleep_except(p.b, 1u << 1));
	pair_free(&p);
}

/* ---- two threads --------------------------------------------------------------- */

struct stress {
	struct ohca_link *l;
	unsigned int seed, frames;
	uint64_t tx_ok, rx_ok;
	int bad;
};

/* Each frame contains the sequence number of its lane (4 bytes) and bytes derived from it. */
static void fill(uint8_t *p, uint32_t seq, size_t len)
{
	uint32_t x = seq * 2654435761u + 1;

	memcpy(p, &seq, 4);
	for (size_t i = 4; i < len; i++) {
		x = x * 1103515245u + 12345;
		p[i] = (uint8_t)(x >> 24);
	}
}

static bool check(const uint8_t *p, uint32_t seq, size_t len)
{
	static _Thread_local uint8_t want[OHCA_LINK_MAX_FRAME];

	fill(want, seq, len);
	return !memcmp(want, p, len);
}

static size_t frame_len(unsigned int seed, uint32_t seq)
{
	uint32_t h = (seq + seed) * 2246822519u;

	return 12 + (h >> 8) % (h & 64 ? 4200 : 100);
}

/* One thread for each side: it sends and receives on 2 lanes, and sleeps when it can do neither. */
static void *stress_side(void *arg)
{
	struct stress *s = arg;
	uint32_t tx[2] = { 0 }, rx[2] = { 0 };

	while ((tx[0] < s->frames || tx[1] < s->frames || rx[0] < s->frames ||
		rx[1] < s->frames) && !s->bad) {
		bool idle = true;

		for (unsigned int vl = 0; vl < 2; vl++) {
			struct ohca_link_frame f;
			uint8_t *b;
			size_t len;

			for (int n = 0; n < 20 && tx[vl] < s->frames; n++) {
				len = frame_len(s->seed, tx[vl]);
				b = ohca_link_tx_begin(s->l, vl, len);
				if (!b)
					break;
				fill(b, tx[vl]++, len);
				ohca_link_tx_commit(s->l, vl, len, 0);
				s->tx_ok++;
				idle = false;
			}
			for (int n = 0; n < 20; n++) {
				if (!ohca_link_rx_peek(s->l, vl, &f))
					break;
				if (f.len != frame_len(!s->seed, rx[vl]) ||
				    !check(f.data, rx[vl], f.len))
					s->bad = 1;
				rx[vl]++;
				ohca_link_rx_release(s->l, vl);
				s->rx_ok++;
				idle = false;
			}
		}
		ohca_link_kick(s->l);
		if (idle && !simple_nap(s->l, 30000))
			s->bad = 2;	/* a lost wake-up */
		if (*ohca_link_error(s->l))
			s->bad = 3;
	}
	/* the last frames have to be sent, too */
	for (int n = 0; n < 30000 && !ohca_link_is_sent(s->l); n++)
		simple_nap(s->l, 1);
	return NULL;
}

static void test_stress(void **state)
{
	(void)state;
	for (unsigned int shift = 0; shift <= 6; shift += 3) {
		struct stress a = { .seed = 0, .frames = 60000 };
		struct stress b = { .seed = 1, .frames = 60000 };
		pthread_t ta, tb;
		struct pair p;

		assert_int_equal(pair_up(&p, 2, shift), 0);
		a.l = p.a;
		b.l = p.b;
		assert_int_equal(pthread_create(&ta, NULL, stress_side, &a), 0);
		assert_int_equal(pthread_create(&tb, NULL, stress_side, &b), 0);
		pthread_join(ta, NULL);
		pthread_join(tb, NULL);
		assert_int_equal(a.bad, 0);
		assert_int_equal(b.bad, 0);
		assert_int_equal(a.rx_ok, 120000);
		assert_int_equal(b.rx_ok, 120000);
		pair_free(&p);
	}
}

/* Marks of the frames in a lane at one moment: none, some, as many as possible. */
static void test_marks(void **state)
{
	uint32_t mark, sent = 0;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 0), 0);
	assert_false(ohca_link_rx_before(p.b, 0, ohca_link_rx_mark(p.b, 0)));
	for (unsigned int i = 0; i < 3; i++)
		assert_true(send_one(p.a, 0, 62, 1));	/* one block with the VCRC */
	simple_take(p.b);
	mark = ohca_link_rx_mark(p.b, 0);
	assert_true(send_one(p.a, 0, 62, 1));
	simple_take(p.b);
	assert_false(ohca_link_rx_before(p.b, 1, ohca_link_rx_mark(p.b, 1)));
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(ohca_link_rx_before(p.b, 0, mark));
		expect_one(p.b, 0, 62, 1);
	}
	assert_false(ohca_link_rx_before(p.b, 0, mark));
	expect_one(p.b, 0, 62, 1);
	/* the frame behind the mark arrived later */
	assert_false(ohca_link_rx_before(p.b, 0, mark));
	assert_true(send_one(p.b, 0, 62, 1));	/* returns the credits of all released frames */
	expect_one(p.a, 0, 62, 1);
	while (send_one(p.a, 0, 62, 1))
		sent++;
	assert_int_equal(sent, OHCA_LINK_BLOCKS);
	flow(&p);
	mark = ohca_link_rx_mark(p.b, 0);
	while (sent--) {
		assert_true(ohca_link_rx_before(p.b, 0, mark));
		expect_one(p.b, 0, 62, 1);
	}
	assert_false(ohca_link_rx_before(p.b, 0, mark));
	pair_free(&p);
}

/* ohca_link_bytes() is what a link allocates and maps: the blocks of all lanes, and little more. */
static void test_bytes(void **state)
{
	static const unsigned int vls[] = { 1, 2, 15 };

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		for (unsigned int shift = 0; shift < 3; shift++) {
			const size_t blocks = 2 * ((size_t)vls[i] * OHCA_LINK_BLOCKS << (6 + shift)) +
					      2 * (OHCA_WIRE_VL15_BLOCKS << 6);
			struct pair p;

			assert_int_equal(pair_up(&p, vls[i], shift), 0);
			assert_in_range(ohca_link_bytes(p.a) - blocks, 256 << 10, 1 << 20);
			assert_int_equal(ohca_link_bytes(p.a), ohca_link_bytes(p.b));
			pair_free(&p);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_credits),
		cmocka_unit_test(test_flow),
		cmocka_unit_test(test_shorter_commit),
		cmocka_unit_test(test_vl15_drops),
		cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_sleep_credits),
		cmocka_unit_test(test_sleep_except),
		cmocka_unit_test(test_last_frames),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_stress),
	};

	return cmocka_run_group_tests_name("link", tests, make_dir, remove_dir);
}
