// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Measures the cost of a link itself: one sender and one receiver, two threads of a process.
 *
 *	bench_link [shift [seconds]]	all shifts and 1 s by default
 */
#include "pair.h"

#include <poll.h>
#include <stdatomic.h>
#include <time.h>

static atomic_bool stop;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

struct side {
	struct ohca_link *l;
	size_t len;
	uint64_t frames;
};

static void *sender(void *arg)
{
	static uint8_t src[1 << 20];
	struct side *s = arg;
	size_t at = 0;

	while (!stop) {
		int n;

		for (n = 0; n < 32; n++) {
			void *b = ohca_link_tx_begin(s->l, 0, s->len);

			if (!b)
				break;
			memcpy(b, src + at, s->len);
			at = (at + 4096) % (sizeof(src) - 8192);
			ohca_link_tx_commit(s->l, 0, s->len, 0);
		}
		ohca_link_kick(s->l);
		if (!n)
			simple_nap(s->l, 100);
	}
	return NULL;
}

static void *receiver(void *arg)
{
	static uint8_t dst[1 << 20];
	struct side *s = arg;
	size_t at = 0;

	while (!stop) {
		struct ohca_link_frame f;
		int n;

		for (n = 0; n < 32 && ohca_link_rx_peek(s->l, 0, &f); n++) {
			memcpy(dst + at, f.data, f.len);
			at = (at + 4096) % (sizeof(dst) - 8192);
			ohca_link_rx_release(s->l, 0);
			s->frames++;
		}
		ohca_link_kick(s->l);
		if (!n)
			simple_nap(s->l, 100);
	}
	return NULL;
}

/* The sender echoes; the receiver counts round trips of one frame. */
static void *echo(void *arg)
{
	struct side *s = arg;

	while (!stop) {
		struct ohca_link_frame f;
		void *b;

		if (!ohca_link_rx_peek(s->l, 0, &f)) {
			simple_nap(s->l, 100);
			continue;
		}
		b = ohca_link_tx_begin(s->l, 0, f.len);
		if (b) {
			memcpy(b, f.data, f.len);
			ohca_link_tx_commit(s->l, 0, f.len, 0);
		}
		ohca_link_rx_release(s->l, 0);
		ohca_link_kick(s->l);
		s->frames++;
	}
	return NULL;
}

static int run(unsigned int shift, size_t len, double seconds, bool pingpong)
{
	struct side a = { .len = len }, b = { .len = len };
	struct ohca_link_stats sa, sb;
	pthread_t ta, tb;
	struct timespec ts = {
		.tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
	};
	struct pair p;
	double t;

	if (pair_up(&p, 1, shift))
		return -1;
	a.l = p.a;
	b.l = p.b;
	stop = false;
	if (pingpong) {
		memset(ohca_link_tx_begin(a.l, 0, len), 0, len);
		ohca_link_tx_commit(a.l, 0, len, 0);
	}
	pthread_create(&ta, NULL, pingpong ? echo : sender, &a);
	pthread_create(&tb, NULL, pingpong ? echo : receiver, &b);
	t = now();
	nanosleep(&ts, NULL);
	stop = true;
	t = now() - t;
	pthread_join(ta, NULL);
	pthread_join(tb, NULL);
	ohca_link_get_stats(p.a, &sa);
	ohca_link_get_stats(p.b, &sb);
	if (pingpong)
		printf("shift %u  %4zu B  ping-pong, sleeping: %.1f us one way\n", shift, len,
		       1e6 * t / (double)(a.frames + b.frames));
	else
		printf("shift %u  %4zu B  %6.2f Mpps %6.2f GB/s  sends %.0f k/s, %.0f k/s\n",
		       shift, len, (double)b.frames / t / 1e6,
		       (double)b.frames * (double)len / t / 1e9,
		       (double)sa.sends / t / 1e3, (double)sb.sends / t / 1e3);
	pair_free(&p);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int lo = 0, hi = 6;
	double seconds = argc > 2 ? atof(argv[2]) : 1;
	int bad = 0;

	if (argc > 1) {
		lo = (unsigned int)atoi(argv[1]);
		hi = lo;
	}
	for (unsigned int shift = lo; shift <= hi && shift <= OHCA_LINK_SHIFT_MAX; shift++) {
		bad |= run(shift, 64, seconds, false);
		bad |= run(shift, 4096 + 26, seconds, false);
		bad |= run(shift, 64, seconds, true);
	}
	return bad ? 1 : 0;
}
