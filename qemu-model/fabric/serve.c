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

#include "attach.h"
#include "fabric/base/closer.h"
#include "fabric/base/event.h"
#include "fabric/base/sandbox.h"
#include "fabric/base/schedstat.h"
#include "fabric/control/control.h"
#include "fabric/mgmt/mgmt.h"
#include "fabric/fault/script.h"
#include "fabric/sim/umad2sim.h"
#include "fabric/graph/names.h"
#include "front/slice.h"

#define EVENTS		32
#define LOOK_NS		50000u		/* of busy rounds between checks of the sockets, ... */
#define LOOK_ROUNDS	256u		/* ... or this many: the clock may be a test's */
#define LOOK_EMPTY	64u		/* rounds without a packet, of about 100 ns */

struct loop {
	int epfd;
	int sigfd;
	struct fab_spin spin;
	int schedfd;		/* of fab_schedstat_open(), or -1 */
	bool only_ms;		/* the kernel has no epoll_pwait2() */
	uint64_t idle_since_ns;	/* time since which no packet has moved; 0: one has */
	const struct fab_serve_cfg *cfg;
	struct fab_mgmt m;
	struct fab_sim *sim;
	struct fab_control *control;
	struct fab_data *data;
	struct fab_hcas *hcas;
	struct fab_attach *attach;	/* NULL: there is no socket but those of @tenant */
	struct fab_attach *tenant[FAB_SERVE_TENANTS];
	uint32_t tenant_node[FAB_SERVE_TENANTS];
	struct fab_tenants tenants;
	struct fab_remote *remote;	/* NULL: no wires to other hosts */
	struct fab_attach *door;	/* the TCP socket */
	struct fab_fronts *fronts;
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

/*
 * Write @len bytes of @text to standard error, as far as it accepts them: a pipe without a reader
 * must not stop the fabric. A pipe that is writable accepts PIPE_BUF bytes.
 * Return: whether all were written.
 */
static bool write_stderr(const char *text, size_t len)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	while (len) {
		const size_t n = len < PIPE_BUF ? len : PIPE_BUF;
		ssize_t done;

		if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
			return false;
		done = write(STDERR_FILENO, text, n);
		if (done <= 0)
			return false;
		text += done;
		len -= (size_t)done;
	}
	return true;
}

/* Print counts of links, as far as standard error accepts them now. */
static void print_counts(const struct loop *l)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);

	if (!to)
		return;
	fab_data_print(l->data, to);
	if (!fclose(to))
		write_stderr(text, len);
	free(text);
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
	t = l->fronts ? fab_fronts_due() : UINT64_MAX;
	next = t < next ? t : next;
	t = l->remote ? fab_remote_timer(l->remote, now) : UINT64_MAX;
	next = t < next ? t : next;
	t = l->door ? fab_attach_timer(l->door, now) : UINT64_MAX;
	next = t < next ? t : next;
	t = l->attach ? fab_attach_timer(l->attach, now) : UINT64_MAX;
	next = t < next ? t : next;
	for (unsigned int i = 0; i < l->tenants.n; i++) {
		t = fab_attach_timer(l->tenant[i], now);
		next = t < next ? t : next;
	}
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
	struct fab_spin_look look;

	if (!fab_spin_due(&l->spin, now) || !fab_schedstat_read(l->schedfd, &look) ||
	    !fab_spin_look(&l->spin, now, &look))
		return;
	if (l->spin.busy)
		fab_data_log(l->data, "sleeps at once: the processors are busy (run delay %u.%u %%)",
			     l->spin.delay / 10, l->spin.delay % 10);
	else
		fab_data_log(l->data, "may wait for up to 50 us before it sleeps: the processors are "
			     "free (run delay %u.%u %%)", l->spin.delay / 10, l->spin.delay % 10);
}

/* Move packets until none moves or the sockets are due. Return: false: the sockets are due. */
static bool move_packets(struct loop *l)
{
	const uint64_t begin = now_ns(l);
	unsigned int empty = 0;

	for (unsigned int i = 0; i < LOOK_ROUNDS && empty < LOOK_EMPTY; i++) {
		/* first messages of fronts, and the end of fronts whose memory has vanished */
		bool moved = l->fronts && fab_fronts_settle(l->fronts);
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
	case FAB_EVENT_ATTACH:
		fab_attach_event(l->attach, e.index);
		break;
	case FAB_EVENT_DOOR:
		fab_attach_event(l->door, e.index);
		break;
	case FAB_EVENT_REMOTE:
		fab_remote_event(l->remote, e.index);
		break;
	case FAB_EVENT_CONTROL:
		fab_control_event(l->control, e.index, now);
		break;
	case FAB_EVENT_SIM:
		fab_sim_event(l->sim, e.index, now);
		break;
	case FAB_EVENT_FRONT:
		fab_fronts_event(l->fronts, e.index);
		break;
	case FAB_EVENT_HCA:
		break;
	default:
		fab_attach_event(l->tenant[e.type - FAB_EVENT_TENANT], e.index);
	}
	return true;
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

		if (l->fronts)
			fab_fronts_pass(l->fronts);
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
		n = wait_events(l, ev, !sleeps ? 0 : l->cfg->time ? UINT64_MAX : next);
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

/* Lines that standard error does not accept are counted, and the next line has the number. */
static void stderr_line(void *arg, const char *fmt, va_list ap)
{
	static unsigned int lost;
	char line[1024];
	int n = 0, more;

	(void)arg;
	if (lost)
		n = snprintf(line, sizeof(line), "ohca-fabric: %u lines were not written\n", lost);
	n += snprintf(line + n, sizeof(line) - (size_t)n, "ohca-fabric: ");
	more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	n += more < 0 ? 0 : more;
	n = n < (int)sizeof(line) - 1 ? n : (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (write_stderr(line, (size_t)n))
		lost = 0;
	else
		lost++;
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
static bool open_remote(struct loop *l, const struct fab_serve_cfg *cfg)
{
	struct fab_attach_cfg door = { .path = cfg->listen_tcp, .epfd = l->epfd,
				       .type = FAB_EVENT_DOOR };
	struct ohca_link_err err;

	if (!cfg->nwires && !cfg->listen_tcp)
		return true;
	l->remote = fab_remote_new(l->data, l->epfd, cfg->token, cfg->wire, cfg->nwires, &err);
	if (!l->remote) {
		fprintf(stderr, "ohca-fabric: %s\n", err.text);
		return false;
	}
	if (!cfg->listen_tcp)
		return true;
	door.remote = l->remote;
	door.tenants = &l->tenants;
	door.tenant = FAB_NONE;
	l->door = fab_attach_new(l->data, &door, &err);
	if (!l->door)
		fprintf(stderr, "ohca-fabric: --listen-tcp: %s\n", err.text);
	return l->door;
}

/* Whether virtual machines may attach. */
static bool has_machines(const struct fab_serve_cfg *cfg)
{
	return cfg->listen || cfg->ntenants;
}

/* Whether any link may attach. */
static bool has_links(const struct fab_serve_cfg *cfg)
{
	return has_machines(cfg) || cfg->nwires || cfg->listen_tcp;
}

/* Find the hosts with a socket of their own. Return: false: the error was printed. */
static bool find_tenants(struct loop *l, const struct fab_serve_cfg *cfg)
{
	for (unsigned int i = 0; i < cfg->ntenants; i++) {
		const uint32_t node = fab_find_node(l->m.f, cfg->tenant[i].node);
		const char *wrong = NULL;

		if (node == FAB_NONE)
			wrong = "there is no such node";
		else if (!fab_attach_has_place(l->m.f, node))
			wrong = "it is no host at a switch";
		for (unsigned int k = 0; !wrong && k < i; k++)
			if (l->tenant_node[k] == node)
				wrong = "it has a socket already";
		if (wrong) {
			fprintf(stderr, "ohca-fabric: --listen-node %s: %s\n", cfg->tenant[i].node,
				wrong);
			return false;
		}
		l->tenant_node[i] = node;
	}
	l->tenants.node = l->tenant_node;
	return true;
}

/* Return: NULL: the error was printed. */
static struct fab_attach *open_attach(struct loop *l, const struct fab_attach_cfg *cfg,
				      const char *option)
{
	struct ohca_link_err err;
	struct fab_attach *a = fab_attach_new(l->data, cfg, &err);

	if (a)
		fab_attach_fronts(a, l->fronts);
	else
		fprintf(stderr, "ohca-fabric: %s %s: %s\n", option, cfg->path, err.text);
	return a;
}

/* Open the sockets for virtual machines. Return: false: the error was printed. */
static bool open_machines(struct loop *l, const struct fab_serve_cfg *cfg)
{
	const struct fab_fronts_cfg fronts = {
		.hcas = l->hcas,
		.d = l->data,
		.closer = &l->closer,
		.disk = cfg->disk,
		.front_max = cfg->front_memory,
		.all_max = cfg->fronts_memory,
		.hca_max = cfg->hca_memory,
		.epfd = l->epfd,
		.place = fab_attach_front_place,
	};
	struct fab_attach_cfg attach = {
		.path = cfg->listen,
		.epfd = l->epfd,
		.type = FAB_EVENT_ATTACH,
		.tenants = &l->tenants,
		.tenant = FAB_NONE,
	};

	if (!has_machines(cfg))
		return true;
	if (!find_tenants(l, cfg))
		return false;
	l->fronts = fab_fronts_new(&fronts);
	if (!l->fronts) {
		perror("ohca-fabric");
		return false;
	}
	l->attach = cfg->listen ? open_attach(l, &attach, "--listen") : NULL;
	if (cfg->listen && !l->attach)
		return false;
	for (unsigned int i = 0; i < cfg->ntenants; i++) {
		attach.path = cfg->tenant[i].path;
		attach.type = (enum fab_event_type)(FAB_EVENT_TENANT + i);
		attach.tenant = l->tenant_node[i];
		l->tenant[i] = open_attach(l, &attach, "--listen-node");
		if (!l->tenant[i])
			return false;
		l->tenants.n++;
	}
	return true;
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
		data.log = stderr_line;
	data.spin = &l->spin;
	l->link_closer = (struct ohca_link_closer){ .close = close_soon, .arg = l };
	data.closer = &l->link_closer;
	l->data = fab_data_new(&l->m, &data);
	if (!l->data) {
		fputs("ohca-fabric: out of memory\n", stderr);
		return false;
	}
	return open_hcas(l, cfg->events) && open_remote(l, cfg) && open_machines(l, cfg);
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
	l->control = fab_control_new(&l->m, l->data, path, l->epfd);
	if (!l->control)
		fprintf(stderr, "ohca-fabric: --control %s: %s: use another PATH, of a file that "
			"is not there, in a directory that is\n", path, strerror(errno));
	return l->control;
}

static bool open_sim(struct loop *l, const char *name, const char *udp)
{
	if (!name)
		return true;
	l->sim = fab_sim_new(&l->m, name, l->epfd);
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

	fab_spin_init(&l->spin, measured && !has_machines(cfg) ? 0 : cfg->spin_us);
	if (!l->spin.automatic)
		return;
	l->schedfd = fab_schedstat_open();
	if (l->schedfd >= 0)
		return;
	fprintf(stderr, "ohca-fabric: sleeps at once: the kernel does not say how busy the "
		"processors are: %s\n", strerror(errno));
	fab_spin_init(&l->spin, 0);
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

	if (has_links(l->cfg) && !fab_closer_start(&l->closer))
		fprintf(stderr, "ohca-fabric: no thread closes descriptors, so a machine that leaves delays "
			"the others: %s\n", strerror(errno));
	if (l->fronts && !fab_fronts_start(l->fronts))
		fprintf(stderr, "ohca-fabric: no thread writes to disks, so no machine's memory is on one: %s\n",
			strerror(errno));
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
		sandbox.tcp[i] = fab_remote_connects(l->remote, i);
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
	if (l->door) {
		fab_attach_bound(l->door, path);
		printf("ohca-fabric: wires come by %s\n", path);
	}
	printf("ohca-fabric: ready, %u switches, %u other nodes\n", f->switches,
	       f->nodes - f->switches);
	fflush(stdout);
}

static void say_closed(const struct loop *l)
{
	if (l->closer.in_place)
		fab_data_log(l->data, "closed %" PRIu64 " descriptors of peers itself", l->closer.in_place);
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
	l->epfd = l->sigfd = l->file = l->schedfd = -1;
	ok = open_loop(l, cfg);
	if (ok) {
		/*
		 * not without links: OpenSM then sends several SMPs before each wake-up, which is
		 * better
		 */
		if (has_links(cfg) && !cfg->hooks)
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
	fab_attach_free(l->attach);
	for (unsigned int i = 0; i < l->tenants.n; i++)
		fab_attach_free(l->tenant[i]);
	fab_attach_free(l->door);
	fab_remote_free(l->remote);
	fab_fronts_free(l->fronts);
	close_capture(l);
	fab_hcas_free(l->hcas);
	say_closed(l);
	fab_data_free(l->data);
	fab_closer_stop(&l->closer);
	if (l->sigfd >= 0)
		close(l->sigfd);
	if (l->schedfd >= 0)
		close(l->schedfd);
	if (l->epfd >= 0)
		close(l->epfd);
	free(l);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
