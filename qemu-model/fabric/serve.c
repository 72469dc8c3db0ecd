// SPDX-License-Identifier: GPL-2.0-or-later
/* The loop of a running fabric; see serve.h. */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "fabric/base/event.h"
#include "fabric/base/runnable.h"
#include "fabric/base/sandbox.h"
#include "fabric/base/stderr.h"
#include "fabric/control/control.h"
#include "fabric/mgmt/mgmt.h"
#include "fabric/fault/script.h"
#include "fabric/sim/umad2sim.h"
#include "fabric/graph/names.h"
#include "front/slice.h"
#include "sockets.h"

#define EVENTS		32
#define LOOK_NS		50000u		/* of busy rounds between checks of the sockets, ... */
#define LOOK_ROUNDS	256u		/* ... or this many: the clock may be a test's */
#define LOOK_EMPTY	64u		/* rounds without a packet, of about 100 ns */

struct loop {
	int epfd;
	int sigfd;
	struct fab_spin spin;
	int loadfd;		/* of fab_runnable_open(), or -1 */
	bool only_ms;		/* the kernel has no epoll_pwait2() */
	uint64_t idle_since_ns;	/* time since which no packet has moved; 0: one has */
	const struct fab_serve_cfg *cfg;
	struct fab_mgmt m;
	struct fab_sim *sim;
	struct fab_control *control;
	struct fab_data *data;
	struct fab_hcas *hcas;
	struct fab_sockets sockets;
	struct fab_closer closer;
	struct ohca_link_closer link_closer;	/* uses @closer */
	struct fab_spool *capture;
	int file;		/* of @capture */
};

static uint64_t now_ns(const struct loop *l)
{
	const struct fab_data_cfg *c = &l->cfg->data;
	struct timespec ts;

	if (c->clock)
		return c->clock(c->arg);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Write to standard error, but nothing after text that it did not accept. */
static ssize_t put_counts(void *arg, const char *text, size_t len)
{
	bool *accepted = arg;

	*accepted = *accepted && fab_stderr_write(text, len);
	return (ssize_t)len;
}

/*
 * Print counts of links, as far as standard error accepts them now. A stream in memory would lose
 * lines without an error when it cannot grow.
 */
static void print_counts(const struct loop *l)
{
	const cookie_io_functions_t io = { .write = put_counts };
	bool accepted = true;
	char buf[PIPE_BUF];
	FILE *to = fopencookie(&accepted, "w", io);

	if (!to)
		return;
	setvbuf(to, buf, _IOFBF, sizeof(buf));
	fab_data_print(l->data, to);
	fclose(to);
}

/* The descriptor of signals, or of the hooks that replace them. */
static int signal_fd(const struct loop *l)
{
	return l->cfg->hooks ? l->cfg->hooks->fd : l->sigfd;
}

/* Return: false: the fabric must end. */
static bool on_signal(const struct loop *l)
{
	const struct fab_serve_hooks *hooks = l->cfg->hooks;
	struct signalfd_siginfo si;

	if (hooks)
		return hooks->event(hooks->arg, hooks->fd);
	if (read(l->sigfd, &si, sizeof(si)) != sizeof(si))
		return true;
	if (si.ssi_signo != SIGUSR1)
		return false;
	print_counts(l);
	return true;
}

/* Run all timers. Return: ns until the next one is due, UINT64_MAX: never */
static uint64_t timers(struct loop *l, uint64_t now)
{
	const uint64_t script = fab_script_timer(&l->m, now);
	uint64_t next, t;

	fab_mgmt_timer(&l->m, now);
	next = l->m.deadline_ns == UINT64_MAX ? UINT64_MAX :
	       l->m.deadline_ns > now ? l->m.deadline_ns - now : 0;
	next = script < next ? script : next;
	t = l->sim ? fab_sim_timer(l->sim, now) : UINT64_MAX;
	next = t < next ? t : next;
	t = fab_data_timer(l->data);
	next = t < next ? t : next;
	t = fab_hcas_due(l->hcas);
	next = t < next ? t : next;
	t = fab_sockets_timer(&l->sockets, now);
	next = t < next ? t : next;
	return next;
}

static int to_ms(uint64_t ns)
{
	return ns == UINT64_MAX ? -1 : ns > 60000000000u ? 60000 : (int)((ns + 999999) / 1000000);
}

/* Sleep for @ns, UINT64_MAX: until an event. Return: as epoll_wait(). */
static int wait_events(struct loop *l, struct epoll_event *ev, uint64_t ns)
{
	const struct timespec ts = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
	int n;

	if (l->only_ms || !ns || ns == UINT64_MAX)
		return epoll_wait(l->epfd, ev, EVENTS, to_ms(ns));
	n = epoll_pwait2(l->epfd, ev, EVENTS, &ts, NULL);
	/* kernels before 5.11, and filters of system calls, do not know it */
	l->only_ms = n < 0 && errno != EINTR;
	return n;
}

uint64_t fab_serve_clock(void *arg)
{
	const struct fab_serve_time *t = arg;

	return t->now_ns;
}

/* Whether virtual time runs: then the sockets are not checked. */
static bool is_running(const struct loop *l)
{
	const struct fab_serve_time *t = l->cfg->time;

	return t && t->now_ns < t->until_ns;
}

/* Advance virtual time to the next event, which is in @ns. */
static void pass_time(const struct loop *l, uint64_t ns)
{
	struct fab_serve_time *t = l->cfg->time;

	t->now_ns += ns < t->until_ns - t->now_ns ? ns : t->until_ns - t->now_ns;
}

/* Return: false: the fabric must end. */
static bool look_for_signal(const struct loop *l)
{
	struct pollfd p = { .fd = signal_fd(l), .events = POLLIN };

	return poll(&p, 1, 0) != 1 || on_signal(l);
}

/* Ask the kernel from time to time whether other threads want the processors. */
static void look_around(struct loop *l, uint64_t now)
{
	uint32_t threads;

	if (!fab_spin_due(&l->spin, now) || !fab_runnable_read(l->loadfd, &threads) ||
	    !fab_spin_look(&l->spin, now, threads))
		return;
	if (l->spin.busy)
		fab_data_log(l->data, "sleeps after 1 us: the processors are busy (%u of them, %u "
			     "threads)", l->spin.processors, threads);
	else
		fab_data_log(l->data, "may wait for up to 50 us before it sleeps: the processors are "
			     "free (%u of them, %u threads)", l->spin.processors, threads);
}

/* Move packets until none moves or the sockets are due. Return: false: the sockets are due. */
static bool move_packets(struct loop *l)
{
	const uint64_t begin = now_ns(l);
	unsigned int empty = 0;

	for (unsigned int i = 0; i < LOOK_ROUNDS && empty < LOOK_EMPTY; i++) {
		/* first messages of fronts, and the end of fronts whose memory has vanished */
		bool moved = l->sockets.fronts && fab_fronts_settle(l->sockets.fronts);
		uint64_t now;

		moved |= fab_hcas_turn(l->hcas);
		moved |= fab_data_round(l->data);
		now = now_ns(l);
		if (moved) {
			empty = 0;
			if (l->idle_since_ns)
				fab_spin_idled(&l->spin, now - l->idle_since_ns);
			l->idle_since_ns = 0;
		} else {
			empty++;
			l->idle_since_ns = l->idle_since_ns ? l->idle_since_ns : now;
			if (now - l->idle_since_ns >= l->spin.window_ns)
				return true;
		}
		if (now - begin >= LOOK_NS)
			break;
	}
	return false;
}

/* Return: false: the fabric must end. */
static bool handle(struct loop *l, union fab_event e, uint64_t now)
{
	switch (e.type) {
	case FAB_EVENT_SIGNAL:
		return on_signal(l);
	case FAB_EVENT_CONTROL:
		fab_control_event(l->control, e.index, now);
		break;
	case FAB_EVENT_SIM:
		fab_sim_event(l->sim, e.index, now);
		break;
	case FAB_EVENT_HCA:
		break;
	default:
		fab_sockets_event(&l->sockets, e);
	}
	return true;
}

/*
 * How long to wait for events, in ns; @next: of timers(). Virtual time that stands still has no
 * timers, but the control socket has one of the host's clock.
 */
static uint64_t wait_ns(struct loop *l, bool sleeps, uint64_t next)
{
	const uint64_t t = l->control ? fab_control_timer(l->control) : UINT64_MAX;

	next = l->cfg->time ? UINT64_MAX : next;
	return !sleeps ? 0 : t < next ? t : next;
}

/* Announce a sleep. Return: false: there is work. */
static bool may_sleep(struct loop *l)
{
	return fab_data_sleep(l->data) && fab_hcas_sleep(l->hcas);
}

static void run(struct loop *l)
{
	struct epoll_event ev[EVENTS];

	for (uint64_t begin;;) {
		uint64_t now, next;
		bool sleeps;
		int n;

		if (l->sockets.fronts)
			fab_fronts_pass(l->sockets.fronts);
		sleeps = move_packets(l) && may_sleep(l);
		now = now_ns(l);
		next = timers(l, now);
		look_around(l, now);
		if (l->capture)
			fab_spool_flush(l->capture);
		if (l->control)
			fab_control_flush(l->control);
		if (is_running(l)) {
			if (!look_for_signal(l))
				return;
			if (sleeps)
				pass_time(l, next);
			continue;
		}
		n = wait_events(l, ev, wait_ns(l, sleeps, next));
		begin = sleeps ? now_ns(l) : now;
		if (sleeps)
			fab_hcas_awake(l->hcas);
		/* if a request lets time run, other events wait until it has stopped */
		for (int i = 0; i < n && !is_running(l); i++)
			if (!handle(l, fab_event_of(&ev[i]), begin))
				return;
	}
}

static bool nobody(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

static bool open_hcas(struct loop *l, uint32_t events)
{
	l->hcas = fab_hcas_new(l->data);
	if (!l->hcas)
		perror("ohca-fabric");
	else
		fab_hcas_trace(l->hcas, events);
	return l->hcas;
}

/* Return: false: the error was printed. */
static bool open_sockets(struct loop *l, const struct fab_serve_cfg *cfg)
{
	const struct fab_sockets_cfg sockets = {
		.cfg = cfg,
		.f = l->m.f,
		.data = l->data,
		.hcas = l->hcas,
		.closer = &l->closer,
		.epfd = l->epfd,
	};

	return fab_sockets_open(&l->sockets, &sockets);
}

/* Remove it from the epoll set first: until it is closed its events would end each sleep. */
static void close_soon(void *arg, int fd)
{
	struct epoll_event ev = { 0 };
	struct loop *l = arg;

	if (epoll_ctl(l->epfd, EPOLL_CTL_DEL, fd, &ev)) {
		/* It was not in the set. */
	}
	fab_closer_close(&l->closer, fd);
}

static bool open_data(struct loop *l, const struct fab_serve_cfg *cfg)
{
	struct fab_data_cfg data = cfg->data;

	if (!data.log && !cfg->quiet)
		data.log = fab_stderr_line;
	data.spin = &l->spin;
	l->link_closer = (struct ohca_link_closer){ .close = close_soon, .arg = l };
	data.closer = &l->link_closer;
	l->data = fab_data_new(&l->m, &data);
	if (!l->data) {
		fputs("ohca-fabric: out of memory\n", stderr);
		return false;
	}
	return open_hcas(l, cfg->events) && open_sockets(l, cfg);
}

/* Return: false: the error was printed. */
static bool open_capture(struct loop *l, const struct fab_serve_cfg *cfg)
{
	struct fab_spool_cfg spool = { .n = cfg->ncaptured };

	if (!cfg->capture)
		return true;
	for (unsigned int i = 0; i < cfg->ncaptured; i++) {
		spool.port[i] = fab_find_port(l->m.f, cfg->captured[i]);
		if (spool.port[i] != FAB_NO_PORT)
			continue;
		fprintf(stderr, "ohca-fabric: --capture-port %s: there is no such port: write "
			"NODE:PORT\n", cfg->captured[i]);
		return false;
	}
	l->file = open(cfg->capture, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (l->file >= 0)
		l->capture = fab_spool_new(l->data, &spool, l->file);
	if (!l->capture)
		fprintf(stderr, "ohca-fabric: --capture %s: %s\n", cfg->capture, strerror(errno));
	return l->capture;
}

static void close_capture(struct loop *l)
{
	if (l->capture) {
		fab_spool_end(l->capture);
		if (!fab_spool_flush(l->capture))
			fputs("ohca-fabric: --capture: the file could not be written\n", stderr);
	}
	fab_spool_free(l->capture);
	if (l->file >= 0)
		close(l->file);
}

/* Let this thread run soon after a doorbell or a packet, and its timers for HCAs end in time. */
static void run_soon(void)
{
	/* otherwise wake-ups take longer, and timers end about 50 us late */
	ohca_short_slice();
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

/* Return: false: the error was printed. */
static bool open_control(struct loop *l, const char *path)
{
	if (!path)
		return true;
	l->control = fab_control_new(&l->m, l->data, path, l->epfd, &l->closer);
	if (!l->control)
		fprintf(stderr, "ohca-fabric: --control %s: %s: use another PATH, of a file that "
			"is not there, in a directory that is\n", path, strerror(errno));
	return l->control;
}

static bool open_sim(struct loop *l, const char *name, const char *udp)
{
	if (!name)
		return true;
	l->sim = fab_sim_new(&l->m, name, l->epfd, &l->closer);
	if (!l->sim) {
		fprintf(stderr, "ohca-fabric: --umad2sim %s: %s%s\n", name, strerror(errno),
			errno == EADDRINUSE ? "; another one runs: use another name" : "");
		return false;
	}
	if (!udp || fab_sim_listen(l->sim, udp))
		return true;
	fprintf(stderr, "ohca-fabric: --umad2sim-udp %s: %s: use ADDRESS:PORT, an IPv4 address of "
		"this host and a port from 1 to %u\n", udp, strerror(errno),
		UINT16_MAX - FAB_SIM_REMOTE);
	return false;
}

/* Return: a descriptor of the signals of on_signal(); -1: errno is set. */
static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Waiting awake is useful only with packets and doorbells. */
static void open_spin(struct loop *l, const struct fab_serve_cfg *cfg)
{
	const bool measured = cfg->spin_us == FAB_SPIN_AUTO;

	fab_spin_init(&l->spin, measured && !fab_serve_has_machines(cfg) ? 0 : cfg->spin_us,
		      fab_processors());
	if (!l->spin.automatic)
		return;
	l->loadfd = fab_runnable_open();
	if (l->loadfd >= 0)
		return;
	fprintf(stderr, "ohca-fabric: sleeps after 1 us: the kernel does not say how busy the "
		"processors are: %s\n", strerror(errno));
	fab_spin_init(&l->spin, FAB_SPIN_LEAST_NS / 1000, fab_processors());
}

static bool open_loop(struct loop *l, const struct fab_serve_cfg *cfg)
{
	int fd;

	if (!cfg->hooks)
		l->sigfd = open_signals();
	fd = signal_fd(l);
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epfd < 0 || fd < 0 ||
	    !fab_event_watch(l->epfd, EPOLL_CTL_ADD, fd, EPOLLIN, FAB_EVENT_SIGNAL, 0)) {
		perror("ohca-fabric");
		return false;
	}
	open_spin(l, cfg);
	return open_data(l, cfg) && open_capture(l, cfg) && open_control(l, cfg->control) &&
	       open_sim(l, cfg->umad2sim, cfg->umad2sim_udp);
}

static void start_threads(void *arg)
{
	struct loop *l = arg;

	if ((fab_serve_has_links(l->cfg) || l->sim || l->control) && !fab_closer_start(&l->closer))
		fprintf(stderr, "ohca-fabric: no thread closes descriptors, so a machine that "
			"leaves delays the others: %s\n", strerror(errno));
	if (l->sockets.fronts && !fab_fronts_start(l->sockets.fronts))
		fprintf(stderr, "ohca-fabric: no thread writes to disks, so no machine's memory is "
			"on one: %s\n", strerror(errno));
}

/*
 * Give up the rights that are not needed any more, because this maps memory of machines that are
 * not trusted, and report those that the kernel cannot restrict.
 */
_Static_assert(FAB_SANDBOX_FILES == 2 + FAB_SERVE_TENANTS, "sockets with a path");

static void confine(struct loop *l, const struct fab_serve_cfg *cfg)
{
	struct fab_sandbox_cfg sandbox = {
		.file = { cfg->listen, cfg->control },	/* and those of tenants */
		.abstract = cfg->umad2sim,
		.udp = cfg->umad2sim_udp,
		.all = !cfg->sandbox,
		.threads = start_threads,
		.arg = l,
	};
	const struct fab_sandbox *s;

	for (unsigned int i = 0; i < cfg->ntenants; i++)
		sandbox.file[2 + i] = cfg->tenant[i].path;
	for (unsigned int i = 0; i < cfg->nwires; i++)
		sandbox.tcp[i] = fab_remote_connects(l->sockets.remote, i);
	s = fab_sandbox_enter(&sandbox);
	if (s->privileges_errno)
		fprintf(stderr, "ohca-fabric: PR_SET_NO_NEW_PRIVS: %s\n",
			strerror(s->privileges_errno));
	if (!cfg->sandbox)
		return;
	if (!s->landlock_abi)
		fprintf(stderr, "ohca-fabric: without Landlock, all files of the user are in "
			"reach: %s\n", strerror(s->landlock_errno));
	if (!s->seccomp)
		fprintf(stderr, "ohca-fabric: without seccomp, all system calls are in reach: %s\n",
			strerror(s->seccomp_errno));
}

static void ready(const struct loop *l)
{
	const struct fab *f = l->m.f;
	char path[OHCA_LINK_TCP_MAX];

	if (l->cfg->hooks) {
		l->cfg->hooks->ready(l->cfg->hooks->arg, l->data, l->hcas);
		return;
	}
	if (l->sockets.door) {
		fab_attach_bound(l->sockets.door, path);
		printf("ohca-fabric: listens at %s\n", path);
	}
	printf("ohca-fabric: ready, %u switches, %u other nodes\n", f->switches,
	       f->nodes - f->switches);
	fflush(stdout);
}

static void say_closed(const struct loop *l)
{
	if (l->closer.in_place)
		fab_data_log(l->data, "closed %" PRIu64 " descriptors of peers itself",
			     l->closer.in_place);
}

int fab_serve(struct fab *f, const struct fab_serve_cfg *cfg)
{
	struct loop *l = calloc(1, sizeof(*l));
	bool ok;

	if (!l) {
		fputs("ohca-fabric: out of memory\n", stderr);
		return EXIT_FAILURE;
	}
	if (cfg->hosts_off)
		for (uint32_t i = 0; i < f->nodes; i++)
			if (f->node[i].type == IB_NODE_CHANNEL_ADAPTER)
				fab_switch_off(f, i);
	fab_mgmt_init(&l->m, f, nobody, NULL);
	fab_mgmt_seed(&l->m, cfg->seed);
	l->cfg = cfg;
	if (cfg->time)
		l->m.until_ns = &cfg->time->until_ns;
	/*
	 * A start value from the clock: a client that has followed an earlier daemon finds that it
	 * lags by too much. In us, so that programs whose numbers have 53 bits represent it
	 * exactly.
	 */
	l->m.log.count = now_ns(l) / 1000;
	l->epfd = l->sigfd = l->file = l->loadfd = -1;
	ok = open_loop(l, cfg);
	if (ok) {
		/*
		 * not without links: OpenSM then sends several SMPs before each wake-up, which is
		 * better
		 */
		if (fab_serve_has_links(cfg) && !cfg->hooks)
			run_soon();
		confine(l, cfg);
		ready(l);
		run(l);
		if (cfg->stats)
			fab_data_print(l->data, stderr);
	}
	fab_control_free(l->control);
	fab_script_stop(&l->m);
	fab_mad_forget(&l->m);
	fab_sim_free(l->sim);
	fab_sockets_close(&l->sockets);
	close_capture(l);
	fab_hcas_free(l->hcas);
	say_closed(l);
	fab_data_free(l->data);
	if (!fab_closer_stop(&l->closer))
		fputs("ohca-fabric: some descriptors of peers are not closed yet: the kernel "
		      "closes them\n", stderr);
	if (l->sigfd >= 0)
		close(l->sigfd);
	if (l->loadfd >= 0)
		close(l->loadfd);
	if (l->epfd >= 0)
		close(l->epfd);
	free(l);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
