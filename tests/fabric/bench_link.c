// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Measures the throughput of ohca-fabric and the latency through its switch: its process and two
 * end ports, one thread each.
 *
 *	bench_link FABRIC [SECONDS [SPINNERS [OPTION...]]]
 *
 * SPINNERS: processes that spin meanwhile, as virtual CPUs do. Environment: IDLE: machines that are
 * attached, too, and send nothing (0).
 */
#include "ep.h"
#include "front/slice.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MAX_IDLE	250

static atomic_bool stop;
static struct ep ep[2], idle[MAX_IDLE];
static size_t frame_len;
static uint64_t frames;
static uint32_t lat[1 << 20];
static unsigned int nlat;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void *sender(void *arg)
{
	static uint8_t src[1 << 21];
	uint8_t lrh[8 + 12];
	size_t at = 0;

	(void)arg;
	ohca_short_slice();
	ib_build_bth(ib_build_lrh(lrh, 0, 0, IB_LNH_IBA_LOCAL, ep[1].lid,
				  (uint16_t)(frame_len / 4), ep[0].lid),
		     IB_OP_UC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 5, false, 0);
	while (!stop) {
		int n;

		for (n = 0; n < 32; n++) {
			uint8_t *b = ohca_link_tx_begin(ep[0].l, 0, frame_len);

			if (!b)
				break;
			memcpy(b, lrh, sizeof(lrh));
			memcpy(b + sizeof(lrh), src + at, frame_len - sizeof(lrh));
			at = (at + 4096) % (sizeof(src) - 8192);
			ohca_link_tx_commit(ep[0].l, 0, frame_len, 0);
		}
		ohca_link_kick(ep[0].l);
		if (!n)
			simple_nap(ep[0].l, 100);
	}
	return NULL;
}

static void *receiver(void *arg)
{
	static uint8_t dst[1 << 21];
	size_t at = 0;

	(void)arg;
	ohca_short_slice();
	while (!stop) {
		struct ohca_link_frame f;
		int n;

		for (n = 0; n < 32 && ohca_link_rx_peek(ep[1].l, 0, &f); n++) {
			memcpy(dst + at, f.data, f.len);
			at = (at + 4096) % (sizeof(dst) - 8192);
			ohca_link_rx_release(ep[1].l, 0);
			frames++;
		}
		ohca_link_kick(ep[1].l);
		if (!n)
			simple_nap(ep[1].l, 100);
	}
	return NULL;
}

/* Ping-pong; side 0 measures. */
static void *pinger(void *arg)
{
	struct ep *e = arg;
	struct ep *to = e == &ep[0] ? &ep[1] : &ep[0];
	uint8_t pkt[256] = { 0 };
	double t = now();

	ohca_short_slice();
	ib_build_bth(ib_build_lrh(pkt, 0, 0, IB_LNH_IBA_LOCAL, to->lid,
				  (uint16_t)(frame_len / 4), e->lid),
		     IB_OP_UC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 5, false, 0);
	if (e == &ep[0])
		ep_send_raw(e, 0, pkt, frame_len);
	while (!stop) {
		uint8_t in[256];

		if (!ep_recv(e, 0, in, sizeof(in))) {
			simple_nap(e->l, 100);
			continue;
		}
		if (e == &ep[0]) {
			double t2 = now();

			if (nlat < sizeof(lat) / sizeof(lat[0]))
				lat[nlat++] = (uint32_t)((t2 - t) * 1e9);
			t = t2;
		}
		ep_send_raw(e, 0, pkt, frame_len);
	}
	return NULL;
}

static pid_t fabric_pid;

/* Processor time of the fabric and of the end ports so far. */
static double cpu(bool of_fabric)
{
	clockid_t c = CLOCK_PROCESS_CPUTIME_ID;
	struct timespec ts = { 0 };

	if (of_fabric)
		clock_getcpuclockid(fabric_pid, &c);
	clock_gettime(c, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static int cmp(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void run(const char *what, size_t len, double seconds, void *(*fa)(void *),
		void *(*fb)(void *))
{
	struct timespec ts = { .tv_sec = (time_t)seconds };
	double t, c0 = cpu(false), c1 = cpu(true);
	pthread_t ta, tb;

	frame_len = len;
	frames = 0;
	nlat = 0;
	stop = false;
	pthread_create(&tb, NULL, fb, &ep[1]);
	pthread_create(&ta, NULL, fa, &ep[0]);
	t = now();
	nanosleep(&ts, NULL);
	stop = true;
	t = now() - t;
	pthread_join(ta, NULL);
	pthread_join(tb, NULL);
	if (nlat) {
		qsort(lat, nlat, sizeof(lat[0]), cmp);
		printf("%s %4zu B: one way p50 %.1f us, p99 %.1f us, max %.0f us of %u\n", what,
		       len, lat[nlat / 2] / 2e3, lat[nlat / 100 * 99] / 2e3,
		       lat[nlat - 1] / 2e3, nlat);
	} else {
		printf("%s %4zu B: %.3f Mpps, %.2f GB/s, CPU per packet: fabric %.0f ns, "
		       "end ports %.0f ns\n", what, len, (double)frames / t / 1e6,
		       (double)frames * (double)len / t / 1e9,
		       (cpu(true) - c1) / (double)frames * 1e9,
		       (cpu(false) - c0) / (double)frames * 1e9);
	}
	/* Receives what is still on its way. */
	for (int i = 0; i < 20; i++) {
		uint8_t in[256];

		usleep(1000);
		for (int k = 0; k < 2; k++)
			while (ep_recv(&ep[k], 0, in, sizeof(in)))
				;
	}
}

static int attach(struct ep *e, const char *path, uint8_t port)
{
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;

	ohca_link_cfg_init(&cfg);
	cfg.port_guid = 0x100 + port;
	cfg.want_port = port;
	for (int i = 0; i < 100 && !e->l; i++) {
		e->l = ohca_link_connect(path, &cfg, 2000, &err);
		if (!e->l)
			usleep(10000);
	}
	if (!e->l) {
		fprintf(stderr, "%s\n", err.text);
		return -1;
	}
	e->port = port;
	ohca_link_train(e->l, &phy);
	return simple_up(e->l, 2000);
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 2;
	int spinners = argc > 3 ? atoi(argv[3]) : 0;
	char dir[] = "/tmp/ohca-bench-XXXXXX", path[64];
	const char *want = getenv("IDLE");
	const int nidle = want ? atoi(want) : 0;
	char spec[16];
	pid_t spin[64];
	struct rusage ru;

	if (argc < 2 || !mkdtemp(dir) || spinners < 0 || spinners > 64 ||
	    nidle < 0 || nidle > MAX_IDLE) {
		fprintf(stderr, "usage: bench_link FABRIC [SECONDS [SPINNERS [OPTION...]]]\n");
		return 2;
	}
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(spec, sizeof(spec), "star:%d", 2 + nidle);
	fabric_pid = fork();
	if (!fabric_pid) {
		char *args[36] = { argv[1], (char *)"serve", (char *)"--generate",
				   spec, (char *)"--hosts-off", (char *)"--listen",
				   path, (char *)"--stats", (char *)"--quiet" };

		prctl(PR_SET_PDEATHSIG, SIGTERM);
		for (int i = 4; i < argc && i < 28; i++)
			args[i + 5] = argv[i];
		execv(argv[1], args);
		_exit(127);
	}
	if (attach(&ep[0], path, 1) || attach(&ep[1], path, 2) || ep_bring_up(ep, 2)) {
		fprintf(stderr, "the fabric did not come up\n");
		kill(fabric_pid, SIGTERM);
		return 1;
	}
	for (int i = 0; i < nidle; i++)
		if (attach(&idle[i], path, (uint8_t)(3 + i))) {
			fprintf(stderr, "idle machine %d did not come up\n", i);
			kill(fabric_pid, SIGTERM);
			return 1;
		}
	for (int i = 0; i < spinners; i++) {
		spin[i] = fork();
		if (!spin[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (volatile unsigned int x = 0;; x++)
				;
		}
	}
	run("stream", 4096 + 24, seconds, sender, receiver);
	run("stream", 1024 + 24, seconds, sender, receiver);
	run("stream", 64, seconds, sender, receiver);
	run("ping-pong", 64, seconds, pinger, pinger);
	for (int i = 0; i < spinners; i++) {
		kill(spin[i], SIGKILL);
		waitpid(spin[i], NULL, 0);
	}
	kill(fabric_pid, SIGTERM);
	wait4(fabric_pid, NULL, 0, &ru);
	printf("fabric: %.2f s user, %.2f s system\n",
	       (double)ru.ru_utime.tv_sec + 1e-6 * (double)ru.ru_utime.tv_usec,
	       (double)ru.ru_stime.tv_sec + 1e-6 * (double)ru.ru_stime.tv_usec);
	ohca_link_free(ep[0].l);
	ohca_link_free(ep[1].l);
	rmdir(dir);
	return 0;
}
