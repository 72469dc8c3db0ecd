// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The switch's loop, in a thread of its own: peers that sleep for real, that say nothing, that
 * are too many, and other switches.
 */
#include "net.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/un.h>

static unsigned int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/*
 * A switch in its own thread. What is written to @pipe is the loop's signal: STOP ends it, LOOK is
 * counted in @looks. If @now_ns is set, it is the time for the switch, which nothing else moves.
 */
struct live {
	struct sw *sw;
	struct sw_loop *lp;
	int pipe[2];
	int rc;
	_Atomic uint64_t now_ns;
	atomic_uint looks;
};

enum { STOP = 'x', LOOK = 'l' };

static bool live_signal(void *arg, int fd)
{
	struct live *v = arg;
	char c;

	assert_int_equal(read(fd, &c, 1), 1);
	if (c == STOP)
		return false;
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

static void *live_thread(void *arg)
{
	struct live *v = arg;

	v->rc = sw_loop_run(v->lp, v->pipe[0], live_signal, v);
	return NULL;
}

/*
 * Waits until the loop has seen all that its descriptors have now. Signals come with other events:
 * those of before the first are taken with it or before it, but for more than one poll returns.
 */
static void live_look(struct live *v)
{
	for (unsigned int i = 0; i < 4; i++) {
		unsigned int looks = atomic_load(&v->looks);

		assert_int_equal(write(v->pipe[1], &(char){ LOOK }, 1), 1);
		while (atomic_load(&v->looks) == looks)
			usleep(100);
	}
}

/*
 * A switch in its own thread; end ports sleep for real. Not a frame may be lost. Its uplinks
 * lead to somebody who never says a word, which is nobody else's concern.
 */
static void test_live(void **state)
{
	const unsigned int fds = open_fds();
	char dir[] = "/tmp/ohca-sw-XXXXXX", path[64], mute[64];
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_err err;
	struct ohca_link_cfg lc;
	struct ep ep[2] = { 0 };
	int silent;
	unsigned int sent = 0, got = 0;
	struct live v = { 0 };
	struct sw_cfg cfg;
	pthread_t th;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	sw_cfg_init(&cfg);
	cfg.node_guid = 7;
	v.sw = sw_new(&cfg);
	v.lp = sw_loop_new(v.sw, path, 0, &err);
	assert_non_null(v.lp);
	snprintf(mute, sizeof(mute), "%s/m", dir);
	silent = ohca_link_listen(mute, &err);
	assert_true(silent >= 0);
	for (unsigned int i = 0; i < 34; i++)
		assert_int_equal(sw_loop_uplink(v.lp, mute, 0), 36 - i);
	assert_int_equal(pipe(v.pipe), 0);
	assert_int_equal(pthread_create(&th, NULL, live_thread, &v), 0);
	for (unsigned int i = 0; i < 2; i++) {
		ohca_link_cfg_init(&lc);
		lc.port_guid = 50 + i;
		ep[i].l = ohca_link_connect(path, &lc, 30000, &err);
		assert_non_null(ep[i].l);
		ep[i].port = i + 1;
		ohca_link_train(ep[i].l, &phy);
		assert_int_equal(ohca_link_wait_up(ep[i].l, 30000), 0);
	}
	assert_int_equal(ep_bring_up(ep, 2), 0);
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
		if (idle && ohca_link_prepare_sleep(ep[1].l)) {
			struct pollfd pf = { .fd = ohca_link_event_fd(ep[1].l),
					     .events = POLLIN };

			/* The sender may be out of credits: look after it, too. */
			assert_true(poll(&pf, 1, 30000) == 1);
			ohca_link_awake(ep[1].l, true);
		}
	}
	ohca_link_free(ep[0].l);
	ohca_link_free(ep[1].l);
	assert_int_equal(write(v.pipe[1], &(char){ STOP }, 1), 1);
	pthread_join(th, NULL);
	assert_int_equal(v.rc, 0);
	assert_int_equal(v.sw->port[2].ctr.xmit_pkts, 50000);
	sw_loop_free(v.lp);
	sw_free(v.sw);
	close(v.pipe[0]);
	close(v.pipe[1]);
	close(silent);
	unlink(mute);
	assert_int_equal(rmdir(dir), 0);	/* the socket is gone */
	assert_int_equal(open_fds(), fds);
}

static atomic_uint told;

static void count_told(void *arg, const char *fmt, va_list ap)
{
	(void)arg;
	(void)ap;
	if (strstr(fmt, "accepted"))
		atomic_fetch_add(&told, 1);
}

static uint64_t ms_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/*
 * Without a descriptor for who knocks the switch tries now and then, not all the time, and
 * says it once; the peer gets in as soon as there is one.
 */
static void test_descriptors(void **state)
{
	char dir[] = "/tmp/ohca-sw-XXXXXX", path[64];
	struct ohca_link *l = NULL;
	struct ohca_link_err err;
	struct ohca_link_cfg lc;
	struct rlimit old, few;
	struct live v = { 0 };
	struct pollfd pf = { .events = POLLIN };
	struct sw_cfg cfg;
	uint64_t begin;
	pthread_t th;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	sw_cfg_init(&cfg);
	cfg.node_guid = 7;
	cfg.log = count_told;
	v.sw = sw_new(&cfg);
	v.lp = sw_loop_new(v.sw, path, 0, &err);
	assert_non_null(v.lp);
	assert_int_equal(pipe(v.pipe), 0);
	ohca_link_cfg_init(&lc);
	lc.port_guid = 50;
	pf.fd = ohca_link_connect_start(path, &lc, 0, &err);
	assert_true(pf.fd >= 0);
	/* none is free below the limit */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t)dup(0);
	close((int)few.rlim_cur);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	begin = ms_now();
	assert_int_equal(pthread_create(&th, NULL, live_thread, &v), 0);
	while (__atomic_load_n(&v.sw->accept_stops, __ATOMIC_RELAXED) < 4) {
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
	assert_int_equal(write(v.pipe[1], &(char){ STOP }, 1), 1);
	pthread_join(th, NULL);
	assert_int_equal(v.rc, 0);
	assert_int_equal(atomic_load(&told), 2);
	sw_loop_free(v.lp);
	sw_free(v.sw);
	close(v.pipe[0]);
	close(v.pipe[1]);
	assert_int_equal(rmdir(dir), 0);
}

/* ---- peers that say nothing ---------------------------------------------------- */

static atomic_uint trying, timeouts, refused;

static void count_log(void *arg, const char *fmt, va_list ap)
{
	(void)arg;
	(void)ap;
	if (strstr(fmt, "trying again"))
		atomic_fetch_add(&trying, 1);
	if (strstr(fmt, "no HELLO"))
		atomic_fetch_add(&timeouts, 1);
	else if (strstr(fmt, "refused"))
		atomic_fetch_add(&refused, 1);
}

/* A switch of four ports and its thread, listening on @path. */
static void live_start(struct live *v, pthread_t *th, const char *path, uint64_t guid,
		       unsigned int spin_us, const char *uplink, unsigned int want)
{
	struct ohca_link_err err;
	struct sw_cfg cfg;

	sw_cfg_init(&cfg);
	cfg.nports = 4;
	cfg.node_guid = guid;
	cfg.log = count_log;
	cfg.clock = live_clock;
	cfg.clock_arg = v;
	v->sw = sw_new(&cfg);
	assert_non_null(v->sw);
	v->lp = sw_loop_new(v->sw, path, spin_us, &err);
	assert_non_null(v->lp);
	if (uplink)
		assert_int_equal(sw_loop_uplink(v->lp, uplink, want), 4);
	assert_int_equal(pipe(v->pipe), 0);
	assert_int_equal(pthread_create(th, NULL, live_thread, v), 0);
}

static void live_join(struct live *v, pthread_t th)
{
	assert_int_equal(write(v->pipe[1], &(char){ STOP }, 1), 1);
	pthread_join(th, NULL);
	assert_int_equal(v->rc, 0);
}

static void live_free(struct live *v)
{
	sw_loop_free(v->lp);
	sw_free(v->sw);
	close(v->pipe[0]);
	close(v->pipe[1]);
}

static int live_connect(struct ep *e, const char *path, uint64_t guid, unsigned int want,
			struct ohca_link_err *err)
{
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_cfg lc;

	ohca_link_cfg_init(&lc);
	lc.port_guid = guid;
	lc.want_port = (uint8_t)want;
	e->l = ohca_link_connect(path, &lc, 30000, err);
	if (!e->l)
		return -1;
	ohca_link_train(e->l, &phy);
	return ohca_link_wait_up(e->l, 30000);
}

/*
 * 64 peers that say nothing leave no room for one that does until one of them goes; each of
 * them is told after 2 s that it was too slow.
 */
static void test_silent_peers(void **state)
{
	const unsigned int fds = open_fds();
	char dir[] = "/tmp/ohca-sw-XXXXXX", path[64], word[256];
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct live v = { .now_ns = 3600000000000 };
	struct pollfd pf = { .events = POLLIN };
	struct ohca_link *l = NULL;
	struct ohca_link_err err;
	struct ohca_link_cfg lc;
	int mute[64], one;
	pthread_t th;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	strcpy(to.sun_path, path);
	live_start(&v, &th, path, 7, 0, NULL, 0);
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
	/* who says what is no HELLO is gone at once; one more is there when the switch ends */
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
	live_join(&v, th);
	close(one);
	ohca_link_free(l);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(open_fds(), fds);
}

/* ---- other switches ------------------------------------------------------------ */

/* Waits until port @n of the switch of @e is up, or not. */
static void wait_port(struct ep *e, unsigned int n, bool up)
{
	struct ib_port_info pi;
	uint8_t d[64];

	for (int i = 0; i < 20000; i++) {
		assert_int_equal(ep_switch(e, IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, n, d), 0);
		ib_port_info_unpack(d, &pi);
		if ((pi.state != IB_PS_DOWN) == up)
			return;
		usleep(1000);
	}
	fail_msg("port %u", n);
}

static void wait_trying(unsigned int n)
{
	for (int i = 0; i < 20000 && atomic_load(&trying) < n; i++)
		usleep(1000);
	assert_int_equal(atomic_load(&trying), n);
}

/* The NodeInfo of what is behind port @n of the switch of @e. */
static void beyond(struct ep *e, unsigned int n, struct ib_node_info *ni)
{
	const uint8_t path[] = { 1, (uint8_t)n };
	struct ib_smp smp;

	ep_smp_init(e, &smp, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, NULL, 2, path);
	assert_int_equal(ep_query(e, &smp), 0);
	ib_node_info_unpack(smp.data, ni);
}

/* An uplink takes the highest port that is free; without one there is none. */
static void test_uplink_ports(void **state)
{
	char dir[] = "/tmp/ohca-sw-XXXXXX", path[64];
	struct ohca_link_err err;
	struct sw_loop *lp;
	struct sw_cfg cfg;
	struct sw *sw;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	sw_cfg_init(&cfg);
	cfg.nports = 2;
	sw = sw_new(&cfg);
	assert_non_null(sw);
	lp = sw_loop_new(sw, path, 0, &err);
	assert_non_null(lp);
	for (unsigned int n = 2; n <= 2; n--)
		assert_int_equal(sw_loop_uplink(lp, path, 0), n);
	sw_loop_free(lp);
	sw_free(sw);
	assert_int_equal(rmdir(dir), 0);
}

/*
 * An uplink is tried until the other switch is there, and again when it has gone; that it is
 * not there is said once each time. Its port is nobody else's.
 */
static void test_uplink(void **state)
{
	const unsigned int fds = open_fds();
	char dir[] = "/tmp/ohca-sw-XXXXXX", far[64], near[64];
	struct live a = { 0 }, b = { 0 };
	struct ib_node_info ni;
	struct ohca_link_err err;
	struct ep e = { 0 }, f = { 0 };
	pthread_t ta, tb;

	(void)state;
	atomic_store(&trying, 0);
	assert_non_null(mkdtemp(dir));
	snprintf(far, sizeof(far), "%s/a", dir);
	snprintf(near, sizeof(near), "%s/b", dir);
	live_start(&b, &tb, near, 0xb, 0, far, 3);
	wait_trying(1);
	assert_int_equal(live_connect(&e, near, 50, 4, &err), -1);
	assert_non_null(strstr(err.text, "port 4 is reserved"));
	assert_int_equal(live_connect(&e, near, 50, 0, &err), 0);
	for (unsigned int i = 0; i < 2; i++) {
		live_start(&a, &ta, far, 0xa, 0, NULL, 0);
		if (live_connect(&f, far, 60, 0, &err))
			fail_msg("%s", err.text);
		wait_port(&e, 4, true);
		wait_port(&f, 3, true);
		beyond(&e, 4, &ni);
		assert_int_equal(ni.node_guid, 0xa);
		assert_int_equal(ni.local_port, 3);
		beyond(&f, 3, &ni);
		assert_int_equal(ni.node_guid, 0xb);
		assert_int_equal(ni.local_port, 4);
		assert_int_equal(atomic_load(&trying), 1 + i);
		ohca_link_free(f.l);
		live_join(&a, ta);
		live_free(&a);
		wait_port(&e, 4, false);
		wait_trying(2 + i);
	}
	ohca_link_free(e.l);
	live_join(&b, tb);
	live_free(&b);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(open_fds(), fds);
}

/* ---- spinning ------------------------------------------------------------------ */

/* A switch that is to spin for some time does not sleep before it, and does after. */
static void test_spin(void **state)
{
	char dir[] = "/tmp/ohca-sw-XXXXXX", path[64];
	struct live v = { .now_ns = 3600000000000 };
	struct ohca_link_stats st;
	struct ohca_link_err err;
	struct ep e = { 0 };
	uint8_t d[64];
	pthread_t th;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	live_start(&v, &th, path, 7, 200000, NULL, 0);
	assert_int_equal(live_connect(&e, path, 50, 0, &err), 0);
	/* from the last frame on */
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(ep_switch(&e, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
		live_look(&v);
		v.now_ns += 199999999;
		live_look(&v);
	}
	ohca_link_get_stats(v.sw->port[1].link, &st);
	assert_int_equal(st.sleeps, 0);
	v.now_ns++;
	for (unsigned int i = 0; i < 60000 && !st.sleeps; i++) {
		usleep(1000);
		ohca_link_get_stats(v.sw->port[1].link, &st);
	}
	assert_int_not_equal(st.sleeps, 0);
	live_join(&v, th);
	ohca_link_free(e.l);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
}

/* A signal is taken once: a switch that was woken sleeps again, and stays asleep. */
static void test_idle(void **state)
{
	char dir[] = "/tmp/ohca-sw-XXXXXX", path[64];
	struct ohca_link_stats st, later;
	struct live v = { 0 };
	struct ohca_link_err err;
	struct ep e = { 0 };
	uint8_t d[64];
	pthread_t th;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	live_start(&v, &th, path, 7, 0, NULL, 0);
	assert_int_equal(live_connect(&e, path, 50, 0, &err), 0);
	for (unsigned int i = 0; i < 3; i++) {
		usleep(5000);
		assert_int_equal(ep_switch(&e, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	}
	live_look(&v);
	ohca_link_get_stats(v.sw->port[1].link, &st);
	usleep(50000);
	ohca_link_get_stats(v.sw->port[1].link, &later);
	assert_true(later.sleeps - st.sleeps < 10);
	live_join(&v, th);
	ohca_link_free(e.l);
	live_free(&v);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_silent_peers),
		cmocka_unit_test(test_uplink_ports),
		cmocka_unit_test(test_uplink),
		cmocka_unit_test(test_spin),
		cmocka_unit_test(test_idle),
	};

	return cmocka_run_group_tests_name("switch loop", tests, NULL, NULL);
}
