// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Lanes of a link that is up: frames, credits, sleeping, a hostile peer.
 */
#include "check.h"

#include <fcntl.h>
#include <poll.h>

/* Frames as long as there can be, lanes as many as there are, and what is counted of them. */
static void test_bounds(void **state)
{
	struct ohca_link_stats a, b;
	struct ohca_link_frame f;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 15, 0), 0);
	/* two ends, of two directions each: written is one */
	assert_int_equal(mappings("-w-s"), 0);
	assert_true(mappings("r--s") > 0);
	for (unsigned int vl = 0; vl < 16; vl++) {
		assert_null(ohca_link_tx_begin(p.a, vl, OHCA_LINK_MIN_FRAME - 1));
		assert_true(send_one(p.a, vl, OHCA_LINK_MIN_FRAME, (uint8_t)vl));
		assert_null(ohca_link_tx_begin(p.a, vl, OHCA_LINK_MAX_FRAME + 1));
		assert_true(send_one(p.a, vl, OHCA_LINK_MAX_FRAME, (uint8_t)vl));
	}
	assert_null(ohca_link_tx_begin(p.a, 16, 64));
	assert_int_equal(ohca_link_rx_pending(p.b), 0xffff);
	assert_int_equal(ohca_link_rx_peek(p.b, 16, &f), 0);
	ohca_link_rx_release(p.b, 16);
	ohca_link_rx_release(p.b, 3);		/* nothing was looked at */
	ohca_link_get_stats(p.b, &b);
	assert_int_equal(b.rx_frames, 0);
	for (unsigned int vl = 0; vl < 16; vl++) {
		expect_one(p.b, vl, OHCA_LINK_MIN_FRAME, (uint8_t)vl);
		ohca_link_rx_release(p.b, vl);	/* once is enough */
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

	/* none of that without a link that is up */
	assert_int_not_equal(ohca_link_tx_credits(p.a, 0), 0);
	assert_int_equal(ohca_link_tx_credits(p.a, 16), 0);
	ohca_link_train(p.a, &(struct ohca_link_phy){ .enabled = false });
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 0);
	assert_int_equal(ohca_link_rx_pending(p.a), 0);
	assert_null(ohca_link_tx_begin(p.a, 0, 64));
	pair_free(&p);
	assert_int_equal(mappings(NULL), 0);

	/* the size is a matter of the protocol */
	assert_int_equal(shm_size(1, 0), 458752);
	assert_int_equal(shm_size(15, 6), 252313600);
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
		/* The other lanes do not suffer. */
		assert_true(send_one(p.a, 1, 64, 9));
		assert_true(send_one(p.a, 15, 64, 8));
		expect_one(p.b, 1, 64, 9);
		expect_one(p.b, 15, 64, 8);
		for (int i = 0; i < 31; i++)
			expect_one(p.b, 0, len, (uint8_t)(round + i));
		assert_int_equal(ohca_link_rx_pending(p.b), 0);
		ohca_link_kick(p.b);
		assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);
	}
	/*
	 * 62 bytes and the VCRC are one block: all 2048 can be used, not one more. An eighth of
	 * them comes back by itself.
	 */
	for (int i = 0; i < 2048; i++)
		assert_true(send_one(p.a, 0, 62, (uint8_t)i));
	assert_false(send_one(p.a, 0, 62, 0));
	for (unsigned int i = 0; i < 2048; i++) {
		assert_int_equal(ohca_link_tx_credits(p.a, 0), i / 256 * 256);
		expect_one(p.b, 0, 62, (uint8_t)i);
	}
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.tx_frames, 200 * 33 + 2048);
	assert_int_equal(st.tx_nocredit, 201);
	ohca_link_get_stats(p.b, &st);
	assert_int_equal(st.rx_frames, 200 * 33 + 2048);
	pair_free(&p);
}

/* What each end's flow control packets say: blocks sent, and up to which the other may send. */
static void test_flow(void **state)
{
	struct ohca_link_flow a, b;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 0), 0);
	assert_false(ohca_link_get_flow(p.a, 2, &a));
	assert_false(ohca_link_get_flow(p.a, 15, &a));
	/* 5 blocks of 64 bytes one way, 3 the other, on different lanes */
	assert_true(send_one(p.a, 0, 250, 1));
	assert_true(send_one(p.a, 0, 62, 1));
	assert_true(send_one(p.b, 1, 190, 1));
	ohca_link_kick(p.a);
	ohca_link_kick(p.b);
	assert_true(ohca_link_get_flow(p.a, 0, &a));
	assert_true(ohca_link_get_flow(p.b, 0, &b));
	assert_int_equal(a.sent_fctbs, 5);
	assert_int_equal(b.rcvd_fctbs, 5);
	assert_int_equal(b.sent_fctbs, 0);
	assert_int_equal(a.rcvd_fctbs, 0);
	assert_int_equal(a.rcvd_fccl, 2048);
	assert_int_equal(b.sent_fccl, 2048);
	/* what was taken may be sent again */
	expect_one(p.b, 0, 250, 1);
	ohca_link_kick(p.b);
	assert_true(ohca_link_get_flow(p.a, 0, &a));
	assert_true(ohca_link_get_flow(p.b, 0, &b));
	assert_int_equal(a.rcvd_fccl, 2048 + 4);
	assert_int_equal(b.sent_fccl, 2048 + 4);
	assert_int_equal(a.sent_fccl, 2048);
	assert_int_equal(b.rcvd_fccl, 2048);
	assert_true(ohca_link_get_flow(p.a, 1, &a));
	assert_true(ohca_link_get_flow(p.b, 1, &b));
	assert_int_equal(b.sent_fctbs, 3);
	assert_int_equal(a.rcvd_fctbs, 3);
	assert_int_equal(a.sent_fctbs, 0);
	/* modulo 4096: 252 frames of 17 blocks, a sixteenth at a time */
	expect_one(p.b, 0, 62, 1);
	for (unsigned int i = 0; i < 252; i++) {
		assert_true(send_one(p.a, 0, 17 * 64 - 2, 2));
		expect_one(p.b, 0, 17 * 64 - 2, 2);
		ohca_link_kick(p.b);
	}
	assert_true(ohca_link_get_flow(p.a, 0, &a));
	assert_int_equal(a.sent_fctbs, (5 + 252 * 17) % 4096);
	assert_int_equal(a.rcvd_fccl, (2048 + 5 + 252 * 17) % 4096);
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
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 2047);
	assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), 1);
	assert_int_equal(f.len, 100);
	assert_int_equal(f.flags, OHCA_FRAME_ICRC | OHCA_FRAME_VCRC);
	assert_int_equal(f.vcrc, 0xbeef);
	assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), 1);	/* still there */
	ohca_link_rx_release(p.b, 0);
	ohca_link_rx_release(p.b, 0);				/* nothing to release */
	assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), 0);
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
	assert_int_equal(n, OHCA_SHM_VL15_BLOCKS / 5);
	assert_false(send_one(p.a, 15, 300, 0));
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.tx_vl15_dropped, 2);
	assert_int_equal(st.tx_nocredit, 0);
	ohca_link_get_stats(p.b, &st);
	assert_int_equal(st.rx_vl15_dropped, 2);
	assert_int_equal(ohca_link_vl15_dropped_by_peer(p.b), 2);
	for (int i = 0; i < n; i++)
		expect_one(p.b, 15, 300, (uint8_t)i);
	ohca_link_kick(p.b);
	assert_true(send_one(p.a, 15, 300, 0));
	pair_free(&p);
}

/* ---- sleeping ------------------------------------------------------------------ */

static bool signalled(struct ohca_link *l)
{
	struct pollfd pf = { .fd = ohca_link_event_fd(l), .events = POLLIN };

	return poll(&pf, 1, 0) == 1;
}

static void test_sleep(void **state)
{
	struct ohca_link_stats st;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_true(send_one(p.a, 0, 64, 1));
	ohca_link_kick(p.a);
	assert_false(signalled(p.b));			/* B was awake */
	assert_false(ohca_link_prepare_sleep(p.b));	/* and has work */
	assert_true(send_one(p.a, 0, 64, 0));
	ohca_link_kick(p.a);
	assert_false(signalled(p.b));			/* it is awake still */
	expect_one(p.b, 0, 64, 1);
	expect_one(p.b, 0, 64, 0);
	assert_true(ohca_link_prepare_sleep(p.b));
	ohca_link_kick(p.a);				/* nothing new */
	assert_false(signalled(p.b));
	assert_true(send_one(p.a, 0, 64, 2));
	assert_true(send_one(p.a, 0, 64, 3));
	assert_false(signalled(p.b));
	ohca_link_kick(p.a);
	assert_true(signalled(p.b));
	assert_true(send_one(p.a, 0, 64, 4));
	ohca_link_kick(p.a);
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.wakeups_sent, 1);		/* once per sleep */
	ohca_link_awake(p.b, true);
	assert_false(signalled(p.b));
	for (uint8_t i = 2; i <= 4; i++)
		expect_one(p.b, 0, 64, i);

	/* A sender without credits is woken by them, not by anything else. */
	ohca_link_kick(p.b);
	while (send_one(p.a, 0, 4000, 1))
		;
	assert_true(ohca_link_prepare_sleep(p.a));
	ohca_link_kick(p.b);
	assert_false(signalled(p.a));
	expect_one(p.b, 0, 4000, 1);
	ohca_link_kick(p.b);
	assert_true(signalled(p.a));
	ohca_link_awake(p.a, true);
	assert_false(ohca_link_prepare_sleep(p.a));	/* credits are there: use them */
	assert_true(ohca_link_prepare_sleep(p.a));	/* or not: it may sleep */
	ohca_link_awake(p.a, true);
	assert_true(send_one(p.a, 0, 4000, 1));

	/* Blocked while the rx thread sleeps already. */
	assert_true(ohca_link_prepare_sleep(p.a));
	assert_false(send_one(p.a, 0, 4000, 1));
	expect_one(p.b, 0, 4000, 1);
	ohca_link_kick(p.b);
	assert_true(signalled(p.a));
	ohca_link_awake(p.a, true);
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.sleeps, 3);
	assert_int_equal(st.wakeups_sent, 1);
	assert_int_equal(st.rx_vl15_dropped, 0);
	ohca_link_get_stats(p.b, &st);
	assert_int_equal(st.sleeps, 1);
	assert_int_equal(st.wakeups_sent, 2);
	pair_free(&p);
}

/* As many credits as a frame takes keep a sender awake, one fewer does not. */
static void test_sleep_credits(void **state)
{
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	for (unsigned int i = 0; i < 2048; i++)
		assert_true(send_one(p.a, 0, 62, 1));
	assert_false(send_one(p.a, 0, 64 + 62, 1));
	assert_true(ohca_link_prepare_sleep(p.a));
	ohca_link_awake(p.a, true);
	for (unsigned int i = 0; i < 2; i++) {
		expect_one(p.b, 0, 62, 1);
		ohca_link_kick(p.b);
		assert_int_equal(ohca_link_prepare_sleep(p.a), i == 0);
		ohca_link_awake(p.a, true);
	}
	assert_true(send_one(p.a, 0, 64 + 62, 1));
	pair_free(&p);
}

/* Frames of lanes that cannot be taken anyway keep nobody awake. */
static void test_sleep_except(void **state)
{
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 0), 0);
	assert_true(send_one(p.a, 1, 64, 1));
	assert_true(ohca_link_prepare_sleep_except(p.b, 1u << 1));
	ohca_link_awake(p.b, false);
	assert_false(ohca_link_prepare_sleep_except(p.b, 1u << 0));
	assert_true(send_one(p.a, 15, 64, 1));
	assert_false(ohca_link_prepare_sleep_except(p.b, 1u << 1));
	pair_free(&p);
}

/* ---- hostile peer -------------------------------------------------------------- */

/* All that a peer can do to a pipe by its own descriptor: to block, full or empty. */
static void spoil(int fd, bool full)
{
	uint8_t buf[4096] = { 0 };
	int fl = fcntl(fd, F_GETFL);

	assert_int_equal(fcntl(fd, F_SETFL, fl | O_NONBLOCK), 0);
	if (full) {
		while (write(fd, buf, sizeof(buf)) > 0)
			;
		while (write(fd, buf, 1) > 0)
			;
	} else {
		while (read(fd, buf, sizeof(buf)) > 0)
			;
	}
	assert_int_equal(fcntl(fd, F_SETFL, fl & ~O_NONBLOCK), 0);
}

/* Whatever an end does to the wake-ups, it does not hold its peer up. */
static void test_hostile_wake(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct ohca_link *evil, *good;
		struct ohca_link_stats st;
		struct pair p;

		assert_int_equal(pair_up(&p, 1, 0), 0);
		evil = i ? p.a : p.b;
		good = i ? p.b : p.a;
		alarm(20);			/* ends a test that waits */
		/* It sleeps, and its pipe is full. */
		assert_true(ohca_link_prepare_sleep(evil));
		spoil(evil->my_wake, true);
		assert_true(send_one(good, 0, 64, 1));
		ohca_link_kick(good);
		ohca_link_get_stats(good, &st);
		assert_int_equal(st.wakeups_sent, 0);
		expect_one(evil, 0, 64, 1);
		/* It signals, and takes the signal away. */
		assert_true(ohca_link_prepare_sleep(good));
		assert_true(send_one(evil, 0, 64, 2));
		ohca_link_kick(evil);
		assert_true(signalled(good));
		spoil(evil->peer_wake, false);
		ohca_link_awake(good, true);
		expect_one(good, 0, 64, 2);
		/* It signals without end: all of it is read in the end. */
		spoil(evil->peer_wake, true);
		for (int k = 0; signalled(good); k++) {
			assert_in_range(k, 0, 10000);
			ohca_link_awake(good, true);
		}
		alarm(0);
		pair_free(&p);
	}
}

static void test_bad_desc(void **state)
{
	static const struct {
		struct ohca_shm_desc d;
		uint32_t blocks;
		const char *what;
	} t[] = {
		{ { .len = 0 }, 1, "frame length 0" },
		{ { .len = 11 }, 1, "frame length 11" },
		{ { .len = OHCA_LINK_MAX_FRAME + 1 }, 100, "frame length 4225" },
		{ { .len = 65535 }, 2048, "frame length 65535" },
		{ { .len = 64, .flags = 0x8000 }, 2, "frame flags" },
		{ { .len = 4000 }, 2, "longer than what was sent" },
		{ { .len = 63 }, 1, "longer than what was sent, blocks 2 on VL 0" },
		{ { .len = 64 }, 2049, "credits exceeded" },
		{ { .len = 64 }, 4095, "credits exceeded" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ohca_link_frame f;
		struct pair p;

		assert_int_equal(pair_up(&p, 1, 0), 0);
		p.a->tx[0].lane.desc[0] = t[i].d;
		shm_store_release(&p.a->tx_dir->fctbs[0], t[i].blocks);
		assert_true(ohca_link_rx_pending(p.b));
		assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), -1);
		assert_false(ohca_link_prepare_sleep(p.b));
		expect_error(p.b, t[i].what);
		assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), 0);
		/* The offender is told. */
		expect_error(p.a, t[i].what);
		pair_free(&p);
	}
}

static void test_bad_credit(void **state)
{
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	/* Twelve bits count. */
	shm_store(&p.a->rx_dir->fctbs[0], 0x1000);
	shm_store(&p.a->tx_dir->fctbs[0], 0x1000);
	shm_store(&p.a->tx_dir->fctbs[15], 0xf000);
	assert_int_equal(ohca_link_rx_pending(p.b), 0);
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);
	for (unsigned int i = 0; i < 2048; i++)
		assert_true(send_one(p.a, 0, 62, 1));
	/* Nothing was released, yet the limit grows: to what the buffer has, and beyond. */
	shm_store(&p.a->tx_dir->fccl[0], 0xf000);
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);
	assert_true(send_one(p.a, 0, 62, 1));
	for (unsigned int i = 1; i < 2048; i++)
		assert_true(send_one(p.a, 0, 62, 1));
	shm_store(&p.a->tx_dir->fccl[0], 2049);
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 0);
	assert_false(send_one(p.a, 0, 62, 1));
	assert_int_equal(ohca_link_rx_pending(p.a), 1 << 15);
	expect_error(p.a, "impossible credit limit");
	pair_free(&p);
}

static void scribble(struct ohca_link *l, unsigned int *r)
{
	unsigned int where = (unsigned int)rand_r(r), vl = where % 2;
	struct shm_lane *lane = &l->tx[vl].lane;
	uint8_t *at;

	switch (where / 2 % 3) {
	case 0:
		at = (uint8_t *)l->map.ctl + (unsigned int)rand_r(r) % 640;
		break;
	case 1:
		at = (uint8_t *)l->map.ctl + (unsigned int)rand_r(r) % l->map.ctl_size;
		break;
	default:	/* what the other side reads next */
		at = (uint8_t *)&lane->desc[l->tx[vl].fctbs & (lane->blocks - 1)];
		at += (unsigned int)rand_r(r) % 4 - (rand_r(r) % 2 ? sizeof(*lane->desc) : 0);
		if (at < (uint8_t *)lane->desc)
			at = (uint8_t *)lane->desc;
	}
	*at ^= (uint8_t)(1u << (rand_r(r) % 8));
}

/* Random garbage in all of the shared memory, at any time. */
static void test_hostile_memory(void **state)
{
	unsigned int errors = 0;

	(void)state;
	for (unsigned int seed = 1; seed <= 150; seed++) {
		unsigned int r = seed;
		struct pair p;
		bool dead = false;

		assert_int_equal(pair_up(&p, 2, (unsigned int)(seed % 3)), 0);
		for (int i = 0; i < 400 && !dead; i++) {
			struct ohca_link_frame f;
			uint32_t mask;

			switch (rand_r(&r) % 4) {
			case 0:	/* B scribbles over control words and descriptors */
				scribble(p.b, &r);
				break;
			case 1:
				send_one(p.b, (unsigned int)rand_r(&r) % 2,
					 12 + (unsigned int)rand_r(&r) % 4000, 1);
				break;
			case 2:
				send_one(p.a, (unsigned int)rand_r(&r) % 2,
					 12 + (unsigned int)rand_r(&r) % 4000, 1);
				break;
			default:
				mask = ohca_link_rx_pending(p.a);
				for (unsigned int vl = 0; vl < 16; vl++) {
					volatile uint8_t sum = 0;
					int got = mask & (1u << vl) ?
						  ohca_link_rx_peek(p.a, vl, &f) : 0;

					if (got < 0)
						break;
					for (uint32_t k = 0; got && k < f.len; k++)
						sum = (uint8_t)(sum + f.data[k]);
					if (got)
						ohca_link_rx_release(p.a, vl);
				}
				ohca_link_kick(p.a);
				if (ohca_link_prepare_sleep(p.a))
					ohca_link_awake(p.a, true);
			}
			dead = ohca_link_ctrl(p.a) == OHCA_LINK_EV_ERROR;
		}
		if (!dead && ohca_link_ctrl(p.a) == OHCA_LINK_EV_ERROR)
			dead = true;
		errors += dead;
		pair_free(&p);
	}
	print_message("%u of 150 hostile peers were caught\n", errors);
	assert_true(errors > 20);
}

/* ---- two threads --------------------------------------------------------------- */

struct stress {
	struct ohca_link *l;
	unsigned int seed, frames;
	uint64_t tx_ok, rx_ok;
	int bad;
};

/* Every frame: 4 bytes sequence number per lane, then bytes derived from it. */
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

/* One thread per side: sends on 2 lanes, receives on 2, sleeps when it can do neither. */
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
				int got = ohca_link_rx_peek(s->l, vl, &f);

				if (got <= 0) {
					s->bad |= got < 0;
					break;
				}
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
		if (idle && ohca_link_prepare_sleep(s->l)) {
			struct pollfd pf = { .fd = ohca_link_event_fd(s->l),
					     .events = POLLIN };

			if (poll(&pf, 1, 30000) != 1)
				s->bad = 2;	/* a lost wake-up */
			ohca_link_awake(s->l, true);
		}
	}
	ohca_link_kick(s->l);
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

/* Which frames were there at a moment: none of a lane, some, as many as there can be. */
static void test_marks(void **state)
{
	uint32_t mark, sent = 0;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 0), 0);
	assert_false(ohca_link_rx_before(p.b, 0, ohca_link_rx_mark(p.b, 0)));
	for (unsigned int i = 0; i < 3; i++)
		assert_true(send_one(p.a, 0, 62, 1));	/* one block with the VCRC */
	mark = ohca_link_rx_mark(p.b, 0);
	assert_true(send_one(p.a, 0, 62, 1));
	assert_false(ohca_link_rx_before(p.b, 1, ohca_link_rx_mark(p.b, 1)));
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(ohca_link_rx_before(p.b, 0, mark));
		expect_one(p.b, 0, 62, 1);
	}
	assert_false(ohca_link_rx_before(p.b, 0, mark));
	expect_one(p.b, 0, 62, 1);
	/* what is behind it came later */
	assert_false(ohca_link_rx_before(p.b, 0, mark));
	ohca_link_kick(p.b);		/* credits of all that was released */
	while (send_one(p.a, 0, 62, 1))
		sent++;
	assert_int_equal(sent, OHCA_LINK_BLOCKS);
	mark = ohca_link_rx_mark(p.b, 0);
	while (sent--) {
		assert_true(ohca_link_rx_before(p.b, 0, mark));
		expect_one(p.b, 0, 62, 1);
	}
	assert_false(ohca_link_rx_before(p.b, 0, mark));
	pair_free(&p);
}

/* What a link costs is what it allocates and maps. */
static void test_bytes(void **state)
{
	static const unsigned int vls[] = { 1, 2, 15 };

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		for (unsigned int shift = 0; shift < 3; shift++) {
			struct pair p;

			assert_int_equal(pair_up(&p, vls[i], shift), 0);
			assert_int_equal(ohca_link_bytes(p.a),
					 sizeof(struct ohca_link) + shm_size(vls[i], shift));
			assert_int_equal(ohca_link_bytes(p.a), ohca_link_bytes(p.b));
			pair_free(&p);
		}
}

/* Who is awake asks for no signals. */
static void test_awake(void **state)
{
	struct ohca_link_stats before, after;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_true(ohca_link_prepare_sleep(p.a));
	ohca_link_awake(p.a, true);
	assert_int_equal(atomic_load(&p.a->asleep), 0);
	while (send_one(p.a, 0, 62, 1))
		;
	assert_int_equal(p.a->self->tx_wait, 0);
	assert_int_equal(p.a->self->rx_wait, 0);
	ohca_link_get_stats(p.b, &before);
	for (unsigned int i = 0; i < OHCA_LINK_BLOCKS; i++)
		expect_one(p.b, 0, 62, 1);
	assert_true(send_one(p.b, 0, 62, 1));
	ohca_link_kick(p.b);
	ohca_link_get_stats(p.b, &after);
	assert_int_equal(before.wakeups_sent, after.wakeups_sent);
	/* who sleeps gets one, for the frame or for the credits */
	for (unsigned int i = 0; i < 2; i++) {
		while (send_one(p.a, 0, 62, 1))
			;
		if (i == 0)
			expect_one(p.a, 0, 62, 1);
		assert_true(ohca_link_prepare_sleep(p.a));
		assert_int_equal(atomic_load(&p.a->asleep), 1);
		before = after;
		if (i)
			assert_true(send_one(p.b, 0, 62, 1));
		else
			for (unsigned int k = 0; k < OHCA_LINK_BLOCKS; k++)
				expect_one(p.b, 0, 62, 1);
		ohca_link_kick(p.b);
		ohca_link_get_stats(p.b, &after);
		assert_int_equal(after.wakeups_sent, before.wakeups_sent + 1);
		ohca_link_awake(p.a, true);
	}
	pair_free(&p);
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
		cmocka_unit_test(test_hostile_wake),
		cmocka_unit_test(test_bad_desc),
		cmocka_unit_test(test_bad_credit),
		cmocka_unit_test(test_hostile_memory),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_awake),
		cmocka_unit_test(test_stress),
	};

	return cmocka_run_group_tests_name("link", tests, make_dir, remove_dir);
}
