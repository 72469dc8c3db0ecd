// SPDX-License-Identifier: GPL-2.0-or-later
/* The process's link to a fabric; see wire.h. */
#include "wire.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "ib/crc.h"
#include "ib/mad_packet.h"
#include "issm.h"
#include "link/link.h"
#include "node.h"
#include "place.h"

#define CONNECT_MS	10000
#define LINK_MS		10000u
#define RETRY_NS	1000000000ll
#define WAIT_S		30u		/* for a subnet manager, which may sweep every 10 s */
#define LANES		16u
#define BURST		64u		/* packets of a lane, then the lock is released */
#define EVENTS		4u		/* of the link in a turn, each of at most 16 messages */
#define LEAVE_MS	100u		/* wait at the end for data that is not sent yet */

static struct {
	pthread_mutex_t lock;
	pthread_mutex_t gate;		/* of the thread that gets @lock next */
	pthread_mutex_t open_lock;
	int cancel;			/* state of the thread that has the lock */
	bool init, open, dead;
	struct um_place place;		/* @path is numeric once it is open */
	char token[OHCA_LINK_TOKEN_MAX + 1];
	unsigned int wait_s;
	struct ohca_link *link;		/* NULL: there is no link to the fabric */
	int wake;			/* eventfd */
	int64_t sleep_ns;		/* the thread sleeps until then */
	int64_t retry_ns;
} w = { .lock = PTHREAD_MUTEX_INITIALIZER, .gate = PTHREAD_MUTEX_INITIALIZER,
	.open_lock = PTHREAD_MUTEX_INITIALIZER };

void um_lock(void)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	/* a thread that releases the lock and gets it again must queue behind one that waits */
	pthread_mutex_lock(&w.gate);
	pthread_mutex_lock(&w.lock);
	pthread_mutex_unlock(&w.gate);
	w.cancel = cancel;
}

void um_unlock(void)
{
	const int cancel = w.cancel;

	pthread_mutex_unlock(&w.lock);
	pthread_setcancelstate(cancel, NULL);
}

int64_t um_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

bool um_wire_send(unsigned int vl, const void *pkt, size_t len)
{
	void *b = w.link ? ohca_link_tx_begin(w.link, vl, len) : NULL;

	if (!b)
		return false;
	memcpy(b, pkt, len);
	ohca_link_tx_commit(w.link, vl, len, 0);
	ohca_link_kick(w.link);
	return true;
}

void um_wire_wake(int64_t due_ns)
{
	const uint64_t one = 1;

	if (due_ns >= w.sleep_ns)
		return;
	w.sleep_ns = due_ns;
	while (write(w.wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* ---- the thread ---------------------------------------------------------------- */

/* Let threads that wait for the lock have it before the next part of this thread's work. */
static void let_others(void)
{
	um_unlock();
	um_lock();
}

/* Process events of the link. Return: whether there may be more. */
static bool take_events(void)
{
	struct ohca_link_state st;
	enum ohca_link_event ev;

	for (unsigned int i = 0; i < EVENTS; i++) {
		ev = w.link ? ohca_link_ctrl(w.link) : OHCA_LINK_EV_NONE;
		if (ev == OHCA_LINK_EV_NONE)
			return false;
		if (ev == OHCA_LINK_EV_UP) {
			ohca_link_get_state(w.link, &st);
			um_node_link_up(&st, ohca_link_peer(w.link));
			continue;
		}
		um_node_link_down();
		if (ev == OHCA_LINK_EV_DOWN)
			continue;
		fprintf(stderr, "ohca-umad: lost the fabric: %s\n", ohca_link_error(w.link));
		ohca_link_free(w.link);
		w.link = NULL;
		w.retry_ns = um_now_ns() + RETRY_NS;
	}
	return w.link;
}

/* Apply the settings of a Set to the link, after the answer has left. */
static void apply_link(void)
{
	struct ohca_link_phy phy;

	if (um_node_phy(&phy) && w.link)
		ohca_link_train(w.link, &phy);
}

/*
 * Whether an earlier port has marked a frame, or its VCRC or its ICRC is wrong (7.3, 7.8). @pkt: a
 * copy
 */
static bool damaged(const struct ohca_link_frame *f, const uint8_t *pkt)
{
	return f->flags & OHCA_FRAME_EBP ||
	       (f->flags & OHCA_FRAME_VCRC && ib_vcrc(pkt, f->len) != f->vcrc) ||
	       (f->flags & OHCA_FRAME_ICRC && !ib_icrc_ok(pkt, f->len));
}

/* Receive packets. Return: how many; if BURST, there may be more. */
static unsigned int take_lane(unsigned int vl)
{
	uint8_t pkt[IB_MAD_PKT_MAX];
	struct ohca_link_frame f;
	unsigned int n;

	for (n = 0; n < BURST; n++) {
		if (!w.link || !ohca_link_rx_peek(w.link, vl, &f))
			break;
		/* agents here accept only MADs */
		if (f.len <= sizeof(pkt)) {
			memcpy(pkt, f.data, f.len);
			if (damaged(&f, pkt))
				um_node_damaged(f.flags & OHCA_FRAME_EBP);
			else
				um_node_receive(pkt, f.len);
		}
		ohca_link_rx_release(w.link, vl);
	}
	return n;
}

static bool take_packets(void)
{
	bool more = false;

	for (unsigned int vl = 0; vl < LANES; vl++) {
		const unsigned int n = take_lane(vl);

		more |= n == BURST;
		if (n)
			let_others();
	}
	if (w.link)
		ohca_link_kick(w.link);
	return more;
}

/* Fill in the HELLO of this end. */
static void fill_cfg(struct ohca_link_cfg *cfg)
{
	um_node_link_cfg(cfg);
	cfg->token = w.token[0] ? w.token : NULL;
}

/* Connect again, after the link was lost: in the library's thread, without the lock. */
static void reconnect(void)
{
	struct ohca_link_phy phy;
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	struct ohca_link *l;

	fill_cfg(&cfg);
	um_unlock();
	l = ohca_link_connect(w.place.path, &cfg, CONNECT_MS / 10, &err);
	um_lock();
	w.retry_ns = um_now_ns() + RETRY_NS;
	if (!l)
		return;
	fprintf(stderr, "ohca-umad: connected to the fabric again\n");
	w.link = l;
	um_node_phy(&phy);
	ohca_link_train(l, &phy);
}

static int64_t run_timers(int64_t now)
{
	const int64_t due[] = {
		um_agent_timer(now), um_node_timer(now), um_issm_update(now),
		w.link ? INT64_MAX : w.retry_ns,
	};
	int64_t first = INT64_MAX;

	for (unsigned int i = 0; i < IB_ARRAY_SIZE(due); i++)
		first = due[i] < first ? due[i] : first;
	return first;
}

static void sleep_until(int64_t due)
{
	const int64_t left = due - um_now_ns();
	const struct timespec ts = { .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };
	struct pollfd pf[] = {
		{ .fd = w.wake, .events = POLLIN },
		{ .fd = um_issm_fd() },
		{ .fd = w.link ? ohca_link_event_fd(w.link) : -1, .events = POLLIN },
		{ .fd = w.link ? ohca_link_ctrl_fd(w.link) : -1, .events = POLLIN },
	};
	uint64_t count;

	if (left <= 0 || (w.link && !ohca_link_prepare_sleep(w.link)))
		return;
	w.sleep_ns = due;
	um_unlock();
	ppoll(pf, IB_ARRAY_SIZE(pf), due == INT64_MAX ? NULL : &ts, NULL);
	um_lock();
	w.sleep_ns = INT64_MIN;
	if (pf[0].revents)
		while (read(w.wake, &count, sizeof(count)) < 0 && errno == EINTR)
			;
	if (w.link)
		ohca_link_awake(w.link);
}

static void *run_thread(void *arg)
{
	bool more;
	int64_t now, due;

	um_lock();
	for (;;) {
		more = take_events();
		more |= take_packets();
		apply_link();
		now = um_now_ns();
		due = run_timers(now);
		if (!w.link && w.retry_ns <= now)
			reconnect();
		else if (more)
			let_others();
		else
			sleep_until(due);
	}
	return arg;
}

/* ---- the end ------------------------------------------------------------------- */

/*
 * When the process ends, data that is not in the link's socket yet would be lost: the
 * acknowledgment of a message, or the agent's answer to a Set, which the subnet manager needs. A
 * signal handler that ends the process may have interrupted a thread with the lock.
 */
static void __attribute__((destructor)) leave(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	bool done = false;

	for (unsigned int i = 0; i < LEAVE_MS && w.open && !w.dead; i++) {
		if (!pthread_mutex_trylock(&w.lock)) {
			done = !w.link || ohca_link_is_sent(w.link);
			pthread_mutex_unlock(&w.lock);
		}
		if (done)
			return;
		nanosleep(&pause, NULL);
	}
}

/* ---- fork() -------------------------------------------------------------------- */

/*
 * In the child: leave the link's socket alone, which it shares with the parent. The thread that
 * may have had a lock does not exist here.
 */
static void forked(void)
{
	pthread_mutex_init(&w.lock, NULL);
	pthread_mutex_init(&w.gate, NULL);
	pthread_mutex_init(&w.open_lock, NULL);
	ohca_link_free(w.link);
	w.link = NULL;
	close(w.wake);
	um_file_forget();
	w.dead = true;
}

bool um_wire_is_dead(void)
{
	return w.dead;
}

/* ---- opening ------------------------------------------------------------------- */

int um_wire_init(void)
{
	const char *wait = getenv("OHCA_UMAD_WAIT");
	char why[200];
	int r = 0;

	pthread_mutex_lock(&w.open_lock);
	if (!w.init) {
		r = um_place_parse(getenv("OHCA_UMAD"), &w.place, why, sizeof(why));
		if (r)
			fprintf(stderr, "ohca-umad: %s\n", why);
		w.wait_s = WAIT_S;
		if (wait && !um_place_seconds(wait, &w.wait_s))
			fprintf(stderr, "ohca-umad: OHCA_UMAD_WAIT: '%s' is not a number of seconds; "
				"using %u\n", wait, WAIT_S);
		w.init = !r;
	}
	pthread_mutex_unlock(&w.open_lock);
	return r;
}

/* Attach. A process without a name uses the first GUID that no other process has. */
static struct ohca_link *take_place(struct ohca_link_err *err)
{
	const char *desc = w.place.name[0] ? w.place.name : program_invocation_short_name;
	const unsigned int slots = w.place.guid ? 1 : UM_SLOTS;
	struct ohca_link *l = NULL;
	struct ohca_link_cfg cfg;

	for (unsigned int i = 0; i < slots && !l; i++) {
		um_node_init(w.place.guid ? w.place.guid : um_place_slot(i), desc);
		fill_cfg(&cfg);
		l = ohca_link_connect(w.place.path, &cfg, CONNECT_MS, err);
		if (!l && err->code != OHCA_LINK_E_CONFIG)
			break;
	}
	return l;
}

/* By TCP look up the name of the fabric's host, and read the token. Return: false: failed. */
static bool find_host(struct ohca_link_err *err)
{
	const size_t n = strlen(OHCA_LINK_TCP);
	const char *secret = getenv("OHCA_UMAD_TOKEN");
	char path[OHCA_LINK_TCP_MAX];

	if (strncmp(w.place.path, OHCA_LINK_TCP, n))
		return true;
	if (ohca_link_resolve(w.place.path + n, path, err) ||
	    (secret && ohca_link_read_token(secret, w.token, err)))
		return false;
	strcpy(w.place.path, path);
	return true;
}

static int start_thread(void)
{
	sigset_t all, old;
	pthread_t thread;
	int r;

	w.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (w.wake < 0)
		return errno;
	w.sleep_ns = INT64_MIN;
	/* signals are for the program's threads */
	pthread_atfork(NULL, NULL, forked);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, NULL, run_thread, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!r)
		pthread_detach(thread);
	return r;
}

static bool wait_state(uint8_t state, unsigned int ms)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	const int64_t end = um_now_ns() + ms * 1000000ll;
	bool there;

	for (;;) {
		um_lock();
		there = um_node.pi.state >= state;
		um_unlock();
		if (there || um_now_ns() >= end)
			return there;
		nanosleep(&pause, NULL);
	}
}

/*
 * OpenSM makes ports Active. It exports this function to its plugins; other programs with its
 * vendor library, as osmtest, do not have it.
 */
static bool is_sm(void)
{
	return dlsym(RTLD_DEFAULT, "osm_opensm_init");
}

static void wait_port(void)
{
	const unsigned int wait_s = is_sm() ? 0 : w.wait_s;

	if (!wait_state(IB_PS_INIT, LINK_MS))
		fprintf(stderr, "ohca-umad: the port is Down: the link has not trained\n");
	else if (wait_s && !wait_state(IB_PS_ACTIVE, wait_s * 1000))
		fprintf(stderr, "ohca-umad: no subnet manager has made the port Active in %u s "
			"(OHCA_UMAD_WAIT)\n", wait_s);
}

static int open_locked(void)
{
	struct ohca_link_phy phy;
	struct ohca_link_err err;
	int r;

	w.link = find_host(&err) ? take_place(&err) : NULL;
	if (!w.link) {
		fprintf(stderr, "ohca-umad: %s\n", err.text);
		return -1;
	}
	um_node_phy(&phy);
	ohca_link_train(w.link, &phy);
	r = start_thread();
	if (r) {
		fprintf(stderr, "ohca-umad: cannot start a thread: %s\n", strerror(r));
		ohca_link_free(w.link);
		w.link = NULL;
		return -1;
	}
	w.open = true;
	wait_port();
	return 0;
}

int um_wire_open(void)
{
	int r = um_wire_init();

	if (w.dead)
		fprintf(stderr, "ohca-umad: the port belongs to the parent process: open it there\n");
	if (r || w.dead)
		return -1;
	pthread_mutex_lock(&w.open_lock);
	if (!w.open)
		r = open_locked();
	pthread_mutex_unlock(&w.open_lock);
	return r;
}
