// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The loop of a fabric that runs in its own thread: peers that really sleep, that send nothing, and
 * that are too many.
 */
#include "accept.h"
#include "net.h"
#include "fabric/serve.h"
#include "../link/raw.h"
#include "../process.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define MOST_FDS	253u	/* in a message */

/* Which of the next calls to watch a descriptor fails; 0: none. */
static atomic_int fail_watch;

static _Atomic int loop_set;	/* the loop's epoll descriptor */

/* Called by the loop, in place of the C library's function. */
int epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	atomic_store(&loop_set, ep);
	if (op == EPOLL_CTL_ADD && atomic_load(&fail_watch) &&
	    atomic_fetch_sub(&fail_watch, 1) == 1) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, ep, op, fd, ev);
}

/*
 * Calls of close(). Those of thread @test do not count. Others wait while @held is set, at most 10
 * s, which sets @late. @watched counts descriptors of which the loop may still get events.
 */
#define HELD_MOST	100000u

static struct {
	atomic_bool counts, held, late;
	pthread_t test;
	atomic_uint closes, watched;
} closing;

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct epoll_event ev = { 0 };

	if (!atomic_load(&closing.counts) || pthread_equal(pthread_self(), closing.test))
		return __real_close(fd);
	atomic_fetch_add(&closing.closes, 1);
	if (!syscall(SYS_epoll_ctl, atomic_load(&loop_set), EPOLL_CTL_MOD, fd, &ev))
		atomic_fetch_add(&closing.watched, 1);
	for (unsigned int i = 0; atomic_load(&closing.held); i++) {
		if (i == HELD_MOST) {
			atomic_store(&closing.late, true);
			atomic_store(&closing.held, false);
		}
		usleep(100);
	}
	return __real_close(fd);
}

/*
 * A fabric of one switch in its own thread. A byte written to @pipe ends it (STOP), is counted in
 * @looks (LOOK), or stops it while @held is set (HOLD). If @now_ns is set, it is the time for the
 * fabric, which only the test moves.
 */
struct live {
	struct fab *f;
	struct fab_data *d;	/* valid once @ready is set */
	uint32_t sw;
	struct fab_serve_cfg cfg;
	struct fab_serve_hooks hooks;
	pthread_t thread;
	int pipe[2];
	atomic_int rc;
	_Atomic uint64_t now_ns;
	atomic_uint looks;
	atomic_bool ready, held;
};

enum { STOP = 'x', LOOK = 'l', HOLD = 'h' };

static bool live_signal(void *arg, int fd)
{
	struct live *v = arg;
	char c;

	assert_int_equal(read(fd, &c, 1), 1);
	if (c == STOP)
		return false;
	atomic_store(&v->held, c == HOLD);
	while (atomic_load(&v->held))
		usleep(100);
	atomic_fetch_add(&v->looks, 1);
	return true;
}

static uint64_t live_clock(void *arg)
{
	struct live *v = arg;
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return atomic_load(&v->now_ns) ? atomic_load(&v->now_ns) :
	       (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void live_ready(void *arg, struct fab_data *d, struct fab_hcas *hcas)
{
	struct live *v = arg;

	(void)hcas;
	v->d = d;
	atomic_store(&v->ready, true);
}

static void *live_thread(void *arg)
{
	struct live *v = arg;

	v->rc = fab_serve(v->f, &v->cfg);
	return NULL;
}

/* Starts a switch of @ports ports that listens on @path; @v->cfg has the special settings. */
static void live_start(struct live *v, const char *path, unsigned int ports)
{
	assert_int_equal(pipe(v->pipe), 0);
	v->f = net_fabric(ports, FAB_DATA_VLS, &v->sw);
	v->hooks = (struct fab_serve_hooks){ v->pipe[0], live_ready, live_signal, v };
	v->cfg.hooks = &v->hooks;
	v->cfg.listen = path;
	v->cfg.quiet = !v->cfg.data.log;
	v->cfg.data.shift = OHCA_LINK_SHIFT_DEFAULT;
	v->cfg.data.hoq_scale = 1;
	v->cfg.data.clock = live_clock;
	v->cfg.data.arg = v;
	assert_int_equal(pthread_create(&v->thread, NULL, live_thread, v), 0);
	while (!atomic_load(&v->ready))
		usleep(100);
}

static void live_stop(struct live *v)
{
	assert_int_equal(write(v->pipe[1], &(char){ STOP }, 1), 1);
	pthread_join(v->thread, NULL);
	assert_int_equal(v->rc, 0);
}

static void live_free(struct live *v)
{
	fab_free(v->f);
	close(v->pipe[0]);
	close(v->pipe[1]);
}

/*
 * Waits until the loop has handled all events that its descriptors have now. The first poll handles
 * those that were there before, unless there are more than one poll returns.
 */
static void live_look(struct live *v)
{
	for (unsigned int i = 0; i < 4; i++) {
		unsigned int looks = atomic_load(&v->looks);

		assert_int_equal(write(v->pipe[1], &(char){ LOOK }, 1), 1);
		while (atomic_load(&v->looks) == looks) {
			assert_int_equal(atomic_load(&v->rc), 0);
			usleep(100);
		}
	}
}

static uint64_t ms_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* A switch in its own thread; end ports really sleep. Not a frame may be lost. */
static void test_live(void **state)
{
	const unsigned int fds = open_fds();
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64];
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_err err;
	struct ohca_link_cfg lc;
	struct ep ep[2] = { 0 };
	unsigned int sent = 0, got = 0;
	struct live v = { .cfg.seed = 77 };
	uint64_t end;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	live_start(&v, path, 36);
	/* random choices follow this seed from the start */
	assert_true(v.d->m->rng == fab_random_state(77));
	for (unsigned int i = 0; i < 2; i++) {
		ohca_link_cfg_init(&lc);
		lc.port_guid = 50 + i;
		ep[i].l = ohca_link_connect(path, &lc, 30000, &err);
		assert_non_null(ep[i].l);
		ep[i].port = i + 1;
		ohca_link_train(ep[i].l, &phy);
		assert_int_equal(simple_up(ep[i].l, 30000), 0);
	}
	assert_int_equal(ep_bring_up(ep, 2), 0);
	end = ms_now() + 60000;
	while (got < 50000) {
		uint8_t pkt[OHCA_LINK_MAX_FRAME];
		bool idle = true;
		size_t len;

		while (sent < 50000 && net_send(&ep[0], 0, 0, 3, 0xffff, 100 + sent % 1000 * 4,
						(uint8_t)sent)) {
			sent++;
			idle = false;
		}
		while ((len = ep_recv(&ep[1], 0, pkt, sizeof(pkt)))) {
			assert_int_equal(len, 100 + got % 1000 * 4);
			assert_int_equal(pkt[len - 1], (uint8_t)got);
			got++;
			idle = false;
		}
		if (idle) {
			simple_nap(ep[1].l, 1);
			/* the sender may have no credits, or its socket is full: check it, too */
			simple_nap(ep[0].l, 0);
		}
		assert_true(ms_now() < end);
	}
	ohca_link_free(ep[0].l);
	ohca_link_free(ep[1].l);
	live_stop(&v);
	assert_int_equal(fab_extra(v.f, fab_port_of(&v.f->node[v.sw], 2))->ctr.xmit_pkts, 50000);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);	/* the socket is gone */
	assert_int_equal(open_fds(), fds);
}

static atomic_uint told;

static void count_told(void *arg, const char *fmt, va_list ap)
{
	(void)arg;
	(void)ap;
	if (strstr(fmt, "accept"))
		atomic_fetch_add(&told, 1);
}

/*
 * If there is no descriptor for a connection, the switch retries now and then, not all the time,
 * and logs it once; the peer is accepted as soon as there is one.
 */
static void test_descriptors(void **state)
{
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64];
	struct ohca_link *l = NULL;
	struct ohca_link_err err;
	struct ohca_link_cfg lc;
	struct rlimit old, few;
	struct live v = { 0 };
	struct pollfd pf = { .events = POLLIN };
	uint64_t begin;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	v.cfg.data.log = count_told;
	live_start(&v, path, 36);
	ohca_link_cfg_init(&lc);
	lc.port_guid = 50;
	assert_int_equal(write(v.pipe[1], &(char){ HOLD }, 1), 1);
	while (!atomic_load(&v.held))
		usleep(100);
	pf.fd = ohca_link_connect_start(path, &lc, 0, &err);
	assert_true(pf.fd >= 0);
	/* no descriptor is free below the limit */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t)dup(0);
	close((int)few.rlim_cur);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	begin = ms_now();
	atomic_store(&v.held, false);
	while (__atomic_load_n(&v.d->accept_stops, __ATOMIC_RELAXED) < 4) {
		assert_true(ms_now() - begin < 20000);
		poll(NULL, 0, 1);
	}
	assert_true(ms_now() - begin >= 300);
	assert_int_equal(poll(&pf, 1, 0), 0);
	assert_int_equal(atomic_load(&told), 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(poll(&pf, 1, 20000), 1);
	assert_int_equal(ohca_link_connect_finish(pf.fd, &lc, &l, &err), 1);
	ohca_link_free(l);
	live_stop(&v);
	assert_int_equal(atomic_load(&told), 2);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
}

/* The same for a client of the control socket when the host has no file left. */
static void test_control_files(void **state)
{
	static const char ask[] = "{\"command\": \"status\"}\n";
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64];
	struct pollfd pf = { .events = POLLIN };
	struct live v = { 0 };
	uint64_t begin;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/control", dir);
	atomic_store(&told, 0);
	v.cfg.data.log = count_told;
	v.cfg.control = un.sun_path;
	live_start(&v, path, 4);
	live_look(&v);
	begin = ms_now();
	atomic_store(&fail_accept, ENFILE);
	pf.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(pf.fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(send(pf.fd, ask, sizeof(ask) - 1, 0), sizeof(ask) - 1);
	while (atomic_load(&accepts) < 4) {
		assert_true(ms_now() - begin < 20000);
		poll(NULL, 0, 1);
	}
	assert_true(ms_now() - begin >= 300);
	assert_int_equal(poll(&pf, 1, 0), 0);
	assert_int_equal(atomic_load(&told), 1);
	atomic_store(&fail_accept, 0);
	assert_int_equal(poll(&pf, 1, 20000), 1);
	live_stop(&v);
	assert_int_equal(atomic_load(&told), 2);
	close(pf.fd);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
}

/* ---- silent peers -------------------------------------------------------------- */

static atomic_uint timeouts, refused;

static void count_log(void *arg, const char *fmt, va_list ap)
{
	(void)arg;
	(void)ap;
	if (strstr(fmt, "no HELLO"))
		atomic_fetch_add(&timeouts, 1);
	else if (strstr(fmt, "refused"))
		atomic_fetch_add(&refused, 1);
}

static int live_connect(struct ep *e, const char *path, uint64_t guid, struct ohca_link_err *err)
{
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_cfg lc;

	ohca_link_cfg_init(&lc);
	lc.port_guid = guid;
	e->l = ohca_link_connect(path, &lc, 30000, err);
	if (!e->l)
		return -1;
	ohca_link_train(e->l, &phy);
	return simple_up(e->l, 30000);
}

/*
 * 64 silent peers leave no room for another one until one of them closes; each of them gets an
 * error after 2 s.
 */
static void test_silent_peers(void **state)
{
	const unsigned int fds = open_fds();
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64], word[256];
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct live v = { .now_ns = 3600000000000, .cfg.data.log = count_log };
	struct pollfd pf = { .events = POLLIN };
	struct ohca_link *l = NULL;
	struct ohca_link_err err;
	struct ohca_link_cfg lc;
	int mute[64], one;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	strcpy(to.sun_path, path);
	live_start(&v, path, 4);
	for (unsigned int i = 0; i < 64; i++) {
		mute[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		while (connect(mute[i], (struct sockaddr *)&to, sizeof(to)))
			assert_int_equal(errno, EAGAIN);
	}
	live_look(&v);
	ohca_link_cfg_init(&lc);
	lc.port_guid = 50;
	pf.fd = ohca_link_connect_start(path, &lc, 30000, &err);
	assert_true(pf.fd >= 0);
	live_look(&v);
	assert_int_equal(ohca_link_connect_finish(pf.fd, &lc, &l, &err), 0);
	close(mute[5]);
	assert_int_equal(poll(&pf, 1, 60000), 1);
	assert_int_equal(ohca_link_connect_finish(pf.fd, &lc, &l, &err), 1);

	v.now_ns += 1999999999;
	live_look(&v);
	assert_int_equal(atomic_load(&timeouts), 0);
	v.now_ns++;
	for (unsigned int i = 0; i < 64; i++) {
		if (i == 5)
			continue;
		pf.fd = mute[i];
		assert_int_equal(poll(&pf, 1, 60000), 1);
		assert_true(recv(mute[i], word, sizeof(word), 0) > 0);
		assert_int_equal(recv(mute[i], word, sizeof(word), 0), 0);
		close(mute[i]);
	}
	assert_int_equal(atomic_load(&timeouts), 63);
	/*
	 * a peer that sends no HELLO is disconnected at once; another one is there when the switch
	 * ends
	 */
	for (unsigned int i = 0; i < 2; i++) {
		one = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(one, (struct sockaddr *)&to, sizeof(to)), 0);
		if (i)
			break;
		assert_int_equal(send(one, "garbage", 7, 0), 7);
		while (recv(one, word, sizeof(word), 0) > 0)
			;
		close(one);
	}
	live_look(&v);
	assert_int_equal(atomic_load(&refused), 2);	/* with the one that closed */
	assert_int_equal(atomic_load(&timeouts), 63);
	live_stop(&v);
	close(one);
	ohca_link_free(l);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(open_fds(), fds);
}

/* ---- spinning ------------------------------------------------------------------ */

/* A switch that spins for a set time does not sleep before it, and sleeps afterwards. */
static void test_spin(void **state)
{
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64];
	struct live v = { .now_ns = 3600000000000 };
	struct ohca_link_stats st;
	struct ohca_link_err err;
	struct ep e = { 0 };
	uint8_t d[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	v.cfg.spin_us = 200000;
	live_start(&v, path, 4);
	assert_int_equal(live_connect(&e, path, 50, &err), 0);
	/* from the last frame on */
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(ep_switch(&e, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
		live_look(&v);
		v.now_ns += 199999999;
		live_look(&v);
	}
	ohca_link_get_stats(v.d->linked[0]->link, &st);
	assert_int_equal(st.sleeps, 0);
	v.now_ns++;
	for (unsigned int i = 0; i < 60000 && !st.sleeps; i++) {
		usleep(1000);
		ohca_link_get_stats(v.d->linked[0]->link, &st);
	}
	assert_int_not_equal(st.sleeps, 0);
	live_stop(&v);
	ohca_link_free(e.l);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
}

/* Sends a query to the switch @ns after the loop had nothing to do. Return: the window after it. */
static uint32_t window_after(struct live *v, struct ep *e, uint64_t ns)
{
	uint8_t d[64];

	live_look(v);
	v->now_ns += ns;
	assert_int_equal(ep_switch(e, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	live_look(v);
	return fab_data_spin(v->d)->window_ns;
}

/* Packets that arrive soon after each other widen the window, and others narrow it. */
static void test_spin_auto(void **state)
{
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64];
	struct live v = { .now_ns = 3600000000000 };
	struct ohca_link_err err;
	struct ep e = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	v.cfg.spin_us = FAB_SPIN_AUTO;
	live_start(&v, path, 4);
	assert_int_equal(live_connect(&e, path, 50, &err), 0);
	assert_int_equal(window_after(&v, &e, 1000000), FAB_SPIN_LEAST_NS);
	assert_int_equal(window_after(&v, &e, FAB_SPIN_MAX_NS), FAB_SPIN_MIN_NS);
	assert_int_equal(window_after(&v, &e, FAB_SPIN_MIN_NS), FAB_SPIN_MIN_NS);
	assert_int_equal(window_after(&v, &e, FAB_SPIN_MAX_NS), 2 * FAB_SPIN_MIN_NS);
	assert_int_equal(window_after(&v, &e, FAB_SPIN_MAX_NS + 1), FAB_SPIN_MIN_NS);
	assert_int_equal(window_after(&v, &e, FAB_SPIN_MAX_NS + 1), FAB_SPIN_LEAST_NS);
	assert_true(fab_data_spin(v.d)->automatic);
	/* the loop has asked the kernel, which counts at least the loop's thread */
	assert_true(fab_data_spin(v.d)->runnable > 0);
	assert_true(fab_data_spin(v.d)->processors > 0);
	live_stop(&v);
	ohca_link_free(e.l);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
}

static void on_usr1(int sig)
{
	(void)sig;
}

/* A signal with a handler of another part does not end the loop. */
static void test_interrupted(void **state)
{
	const struct sigaction act = { .sa_handler = on_usr1 };
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64];
	struct live v = { 0 };
	struct sigaction old;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &act, &old), 0);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	live_start(&v, path, 7);
	for (unsigned int i = 0; i < 10; i++) {
		live_look(&v);
		usleep(1000);
		assert_int_equal(pthread_kill(v.thread, SIGUSR1), 0);
		usleep(1000);
	}
	live_stop(&v);
	live_free(&v);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
	assert_int_equal(rmdir(dir), 0);
}

/*
 * A peer is disconnected, before or after its handshake, if its socket, or the descriptor that
 * reports room in it, cannot be watched. Its place stays free.
 */
static void test_unwatched(void **state)
{
	const unsigned int fds = open_fds();
	struct ohca_link_phy phy = ep_phy();
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64];
	struct live v = { 0 };
	struct ohca_link_err err;
	struct ohca_link_cfg lc;
	struct ohca_link *l;
	struct ep e = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	live_start(&v, path, 1);
	live_look(&v);
	ohca_link_cfg_init(&lc);
	lc.port_guid = 50;
	/* its socket, before it is a link and after, and the link's own set of events */
	for (int n = 1; n <= 3; n++) {
		atomic_store(&fail_watch, n);
		l = ohca_link_connect(path, &lc, 30000, &err);
		assert_int_equal(l != NULL, n > 1);
		if (l) {
			ohca_link_train(l, &phy);
			assert_int_equal(simple_up(l, 30000), -1);
			assert_string_equal(ohca_link_error(l), "the peer closed the link");
		}
		ohca_link_free(l);
		live_look(&v);
		assert_int_equal(atomic_load(&fail_watch), 0);
	}
	assert_int_equal(live_connect(&e, path, 50, &err), 0);
	live_stop(&v);
	ohca_link_free(e.l);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(open_fds(), fds);
}

/*
 * A wake-up counts once: a switch that was woken sleeps again, and stays asleep. Nor does it check
 * ten times a second whether it can accept peers, because it can.
 */
static void test_idle(void **state)
{
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64];
	struct ohca_link_stats st, later;
	struct live v = { 0 };
	struct ohca_link_err err;
	struct ep e = { 0 };
	uint8_t d[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	live_start(&v, path, 4);
	assert_int_equal(live_connect(&e, path, 50, &err), 0);
	for (unsigned int i = 0; i < 3; i++) {
		usleep(5000);
		assert_int_equal(ep_switch(&e, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	}
	live_look(&v);
	ohca_link_get_stats(v.d->linked[0]->link, &st);
	usleep(350000);
	ohca_link_get_stats(v.d->linked[0]->link, &later);
	/* it may not have slept yet at the first reading */
	assert_in_range(later.sleeps - st.sleeps, 0, 1);
	live_stop(&v);
	ohca_link_free(e.l);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
}

/* Sends a message of unknown type, with @fd @n times. */
static void send_fds(int sock, int fd, unsigned int n)
{
	struct {
		struct ohca_wire_rec rec;
		struct ohca_wire_hdr hdr;
	} r = { .rec = { .kind = OHCA_WIRE_MESSAGE, .len = htole16(sizeof(r.hdr)) } };
	union {
		char buf[CMSG_SPACE(MOST_FDS * sizeof(int))];
		struct cmsghdr align;
	} c = { 0 };
	struct iovec iov = { .iov_base = &r, .iov_len = sizeof(r) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
			    .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *cm = CMSG_FIRSTHDR(&m);

	link_hdr_init(&r.hdr, 99, sizeof(r.hdr));
	*cm = (struct cmsghdr){ .cmsg_len = CMSG_LEN(n * sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS };
	for (unsigned int i = 0; i < n; i++)
		memcpy(CMSG_DATA(cm) + i * sizeof(int), &fd, sizeof(int));
	assert_int_equal(sendmsg(sock, &m, 0), sizeof(r));
}

/*
 * Closing the descriptors of a peer may take as long as the peer chooses. Neither links nor new
 * peers wait for that, and the loop gets no events of these descriptors meanwhile.
 */
static void test_closer(void **state)
{
	const unsigned int fds = open_fds();
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64];
	struct live v = { 0 };
	struct ohca_link_err err;
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct ep e[3] = { 0 };
	uint8_t d[64];
	int silent, mem = memfd_create("passed", MFD_CLOEXEC);

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	live_start(&v, path, 4);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(live_connect(&e[i], path, 50 + i, &err), 0);
	strcpy(to.sun_path, path);
	silent = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(connect(silent, (struct sockaddr *)&to, sizeof(to)), 0);
	live_look(&v);
	closing.test = pthread_self();
	atomic_store(&closing.held, true);
	atomic_store(&closing.counts, true);
	send_fds(ohca_link_ctrl_fd(e[0].l), mem, MOST_FDS);
	live_look(&v);
	send_fds(ohca_link_ctrl_fd(e[0].l), mem, MOST_FDS);
	ohca_link_free(e[0].l);
	close(silent);
	live_look(&v);
	assert_int_equal(live_connect(&e[2], path, 52, &err), 0);
	assert_int_equal(ep_switch(&e[1], IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	/* the first of them, one in each thread */
	while (atomic_load(&closing.closes) < FAB_CLOSER_THREADS)
		usleep(100);
	assert_int_equal(atomic_load(&closing.closes), FAB_CLOSER_THREADS);
	assert_false(atomic_load(&closing.late));
	atomic_store(&closing.held, false);
	/* those of both messages, two sockets, and the link's memory and epoll set */
	while (atomic_load(&closing.closes) < 2 * MOST_FDS + 4)
		usleep(100);
	assert_int_equal(atomic_load(&closing.watched), 0);
	atomic_store(&closing.counts, false);
	live_stop(&v);
	close(mem);
	ohca_link_free(e[1].l);
	ohca_link_free(e[2].l);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(open_fds(), fds);
}

/* Return: the answer of the control socket at @path to a request. */
static json_t *asked(const char *path, const char *ask)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char answer[4096];
	size_t len = 0;
	json_t *v;

	assert_true(fd >= 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(write(fd, ask, strlen(ask)), strlen(ask));
	do {
		const ssize_t n = read(fd, answer + len, sizeof(answer) - len);

		assert_true(n > 0);
		len += (size_t)n;
	} while (answer[len - 1] != '\n');
	close(fd);
	v = json_loadb(answer, len, 0, NULL);
	assert_non_null(v);
	return v;
}

/*
 * The moment of "changes" is a number that JavaScript represents exactly, even if the host is up
 * for ten years.
 */
static void test_moment(void **state)
{
	char dir[] = "/tmp/ohca-fab-XXXXXX", path[64], control[64];
	struct live v = { .now_ns = 10ull * 365 * 86400 * 1000000000, .cfg.control = control };
	json_int_t since;
	json_t *reply;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(control, sizeof(control), "%s/c", dir);
	live_start(&v, path, 1);
	reply = asked(control, "{\"command\": \"changes\"}\n");
	since = json_integer_value(json_object_get(reply, "since"));
	assert_true(since > FAB_LOG && since < 1ll << 53);
	json_decref(reply);
	live_stop(&v);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_control_files),
		cmocka_unit_test(test_silent_peers),
		cmocka_unit_test(test_spin),
		cmocka_unit_test(test_spin_auto),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_unwatched),
		cmocka_unit_test(test_closer),
		cmocka_unit_test(test_moment),
	};

	return cmocka_run_group_tests_name("the loop", tests, NULL, NULL);
}
