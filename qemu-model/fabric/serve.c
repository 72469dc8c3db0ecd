// SPDX-License-Identifier: GPL-2.0-or-later
/* The loop of a fabric that runs; see serve.h. */
#include "serve.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "mgmt.h"
#include "umad2sim.h"

#define EVENT_SIGNAL	0xffffffffu
#define EVENTS		16

struct loop {
	int epfd;
	int sigfd;
	uint64_t busy_ns;	/* awake for MADs */
	struct fab_mgmt m;
	struct fab_sim *sim;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static const char *attr_name(unsigned int attr)
{
	switch (attr) {
	case IB_SMP_ATTR_NOTICE:
		return "Notice";
	case IB_SMP_ATTR_NODE_DESC:
		return "NodeDescription";
	case IB_SMP_ATTR_NODE_INFO:
		return "NodeInfo";
	case IB_SMP_ATTR_SWITCH_INFO:
		return "SwitchInfo";
	case IB_SMP_ATTR_GUID_INFO:
		return "GUIDInfo";
	case IB_SMP_ATTR_PORT_INFO:
		return "PortInfo";
	case IB_SMP_ATTR_PKEY_TABLE:
		return "P_KeyTable";
	case IB_SMP_ATTR_SL2VL:
		return "SLtoVLMappingTable";
	case IB_SMP_ATTR_VLARB:
		return "VLArbitrationTable";
	case IB_SMP_ATTR_LFT:
		return "LinearForwardingTable";
	case IB_SMP_ATTR_MFT:
		return "MulticastForwardingTable";
	case IB_SMP_ATTR_SM_INFO:
		return "SMInfo";
	default:
		return "other";
	}
}

static void print_stats(const struct loop *l)
{
	const struct fab_mgmt_stats *st = &l->m.stats;
	uint64_t smps = 0;

	for (unsigned int i = 0; i < 256; i++) {
		if (!st->get[i] && !st->set[i])
			continue;
		smps += st->get[i] + st->set[i];
		fprintf(stderr, "ohca-fabric: attribute 0x%04x %-24s %10" PRIu64 " Get %10" PRIu64
			" Set\n", i, attr_name(i), st->get[i], st->set[i]);
	}
	fprintf(stderr, "ohca-fabric: %" PRIu64 " SMPs, %" PRIu64 " other MADs, %" PRIu64 " hops, "
		"%" PRIu64 " lost, %" PRIu64 " traps, %zu KiB; busy %.3f s, %.2f us a MAD\n",
		smps, st->other, st->hops, st->lost, st->traps, fab_bytes(l->m.f) >> 10,
		(double)l->busy_ns / 1e9,
		smps + st->other ? (double)l->busy_ns / 1e3 / (double)(smps + st->other) : 0.0);
}

/* Return: false: it is time to end. */
static bool on_signal(const struct loop *l)
{
	struct signalfd_siginfo si;

	if (read(l->sigfd, &si, sizeof(si)) != sizeof(si))
		return true;
	if (si.ssi_signo != SIGUSR1)
		return false;
	print_stats(l);
	return true;
}

/* Milliseconds until @m has something to do, rounded up. */
static int timeout_ms(const struct fab_mgmt *m, uint64_t now)
{
	uint64_t ms;

	if (m->deadline_ns == UINT64_MAX)
		return -1;
	if (m->deadline_ns <= now)
		return 0;
	ms = (m->deadline_ns - now + 999999) / 1000000;
	return ms < 60000 ? (int)ms : 60000;
}

static void run(struct loop *l)
{
	struct epoll_event ev[EVENTS];

	for (uint64_t now = now_ns();;) {
		int n = epoll_wait(l->epfd, ev, EVENTS, timeout_ms(&l->m, now));
		uint64_t begin = now_ns();

		now = begin;
		for (int i = 0; i < n; i++) {
			if (ev[i].data.u32 != EVENT_SIGNAL)
				fab_sim_event(l->sim, ev[i].data.u32, now);
			else if (!on_signal(l))
				return;
		}
		fab_mgmt_timer(&l->m, now);
		now = now_ns();
		l->busy_ns += now - begin;
	}
}

static bool nobody(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

static bool open_loop(struct loop *l, const struct fab_serve_cfg *cfg)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = EVENT_SIGNAL };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	l->sigfd = signalfd(-1, &set, SFD_CLOEXEC);
	if (l->epfd < 0 || l->sigfd < 0 || epoll_ctl(l->epfd, EPOLL_CTL_ADD, l->sigfd, &ev)) {
		perror("ohca-fabric");
		return false;
	}
	if (!cfg->umad2sim)
		return true;
	l->sim = fab_sim_new(&l->m, cfg->umad2sim, l->epfd);
	if (!l->sim)
		fprintf(stderr, "ohca-fabric: --umad2sim %s: %s%s\n", cfg->umad2sim,
			strerror(errno),
			errno == EADDRINUSE ? "; another one runs: use another name" : "");
	return l->sim;
}

int fab_serve(struct fab *f, const struct fab_serve_cfg *cfg)
{
	struct loop *l = calloc(1, sizeof(*l));
	bool ok;

	if (!l) {
		fputs("ohca-fabric: out of memory\n", stderr);
		return EXIT_FAILURE;
	}
	fab_mgmt_init(&l->m, f, nobody, NULL);
	l->epfd = l->sigfd = -1;
	ok = open_loop(l, cfg);
	if (ok) {
		printf("ohca-fabric: ready, %u switches, %u other nodes\n", f->switches,
		       f->nodes - f->switches);
		fflush(stdout);
		run(l);
		if (cfg->stats)
			print_stats(l);
	}
	fab_sim_free(l->sim);
	if (l->sigfd >= 0)
		close(l->sigfd);
	if (l->epfd >= 0)
		close(l->epfd);
	free(l);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
