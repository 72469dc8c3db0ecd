// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The switch's one thread: sockets, rounds, sleeping.
 *
 * While frames move the thread's only system calls are wake-ups of peers that sleep
 * and, from time to time, a poll of the sockets. Without frames the thread announces
 * its sleep on every link and waits in epoll; peers then signal by the links' pipes.
 */
#include "switch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_PENDING	64		/* peers that have not sent HELLO yet */
#define HELLO_NS	2000000000ull	/* their time limit */
#define UPLINK_NS	1000000000ull	/* between attempts to reach another switch */
#define ACCEPT_NS	100000000ull	/* between attempts to accept without descriptors */
#define LOOK_ROUNDS	64		/* busy rounds between polls of the sockets */

enum { K_LISTEN, K_SIGNAL, K_HELLO, K_UPLINK, K_CTRL, K_EVENT };

struct pending {
	int fd;				/* -1: free */
	uint64_t deadline;
};

struct uplink {
	char *path;
	unsigned int want_port;		/* of the other switch */
	unsigned int port;		/* ours */
	int fd;				/* that is to bring an answer, or -1 */
	bool told;			/* that it is not there */
};

struct sw_loop {
	struct sw *sw;
	char *path;
	int ep, listen_fd;
	unsigned int spin_us;
	bool listening;			/* listen_fd is in the epoll set */
	bool starved;			/* the last attempt to accept found no descriptor */
	uint64_t accept_due;		/* if not: when to try again; UINT64_MAX: drop_pending() */
	unsigned int npending;
	struct pending pending[MAX_PENDING];
	unsigned int nuplinks;
	uint64_t uplink_due;
	struct uplink uplink[SW_MAX_PORTS];
};

static int watch(struct sw_loop *lp, int fd, uint32_t events, unsigned int kind, unsigned int n)
{
	struct epoll_event ev = { .events = events, .data.u64 = (uint64_t)kind << 32 | n };

	return epoll_ctl(lp->ep, EPOLL_CTL_ADD, fd, &ev);
}

struct sw_loop *sw_loop_new(struct sw *sw, const char *path, unsigned int spin_us,
			    struct ohca_link_err *err)
{
	struct sw_loop *lp = calloc(1, sizeof(*lp));

	if (!lp)
		goto nomem;
	lp->sw = sw;
	lp->spin_us = spin_us;
	lp->listen_fd = -1;
	for (unsigned int i = 0; i < MAX_PENDING; i++)
		lp->pending[i].fd = -1;
	lp->path = strdup(path);
	lp->ep = epoll_create1(EPOLL_CLOEXEC);
	if (!lp->path || lp->ep < 0)
		goto nomem;
	lp->listen_fd = ohca_link_listen(path, err);
	if (lp->listen_fd < 0)
		goto fail;
	if (watch(lp, lp->listen_fd, EPOLLIN, K_LISTEN, 0))
		goto nomem;
	lp->listening = true;
	return lp;
nomem:
	memset(err, 0, sizeof(*err));
	err->code = OHCA_LINK_E_SYS;
	err->sys = errno;
	snprintf(err->text, sizeof(err->text), "starting the switch: %s", strerror(errno));
fail:
	sw_loop_free(lp);
	return NULL;
}

void sw_loop_free(struct sw_loop *lp)
{
	if (!lp)
		return;
	for (unsigned int i = 0; i < MAX_PENDING; i++)
		if (lp->pending[i].fd >= 0)
			close(lp->pending[i].fd);
	if (lp->listen_fd >= 0) {
		unlink(lp->path);
		close(lp->listen_fd);
	}
	if (lp->ep > 0)
		close(lp->ep);
	for (unsigned int i = 0; i < lp->nuplinks; i++) {
		if (lp->uplink[i].fd >= 0)
			close(lp->uplink[i].fd);
		free(lp->uplink[i].path);
	}
	free(lp->path);
	free(lp);
}

/* ---- peers that arrive --------------------------------------------------------- */

static void listen_again(struct sw_loop *lp)
{
	if (lp->listening)
		return;
	lp->listening = !watch(lp, lp->listen_fd, EPOLLIN, K_LISTEN, 0);
	lp->accept_due = sw_host_ns(lp->sw) + ACCEPT_NS;
}

/* Until @due, or until a peer that is pending is done. */
static void stop_listening(struct sw_loop *lp, uint64_t due)
{
	struct epoll_event ev = { 0 };

	epoll_ctl(lp->ep, EPOLL_CTL_DEL, lp->listen_fd, &ev);
	lp->listening = false;
	lp->accept_due = due;
}

static void drop_pending(struct sw_loop *lp, unsigned int i, bool do_close)
{
	struct epoll_event ev = { 0 };

	if (do_close)
		close(lp->pending[i].fd);
	else
		epoll_ctl(lp->ep, EPOLL_CTL_DEL, lp->pending[i].fd, &ev);
	lp->pending[i].fd = -1;
	lp->npending--;
	listen_again(lp);
}

/* accept4() has failed with @error. A lack of resources leaves the listener readable. */
static void accept_failed(struct sw_loop *lp, int error)
{
	if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
		return;
	lp->sw->accept_stops++;
	if (!lp->starved)
		sw_log(lp->sw, "nobody can be accepted: %s; trying again", strerror(error));
	lp->starved = true;
	stop_listening(lp, sw_host_ns(lp->sw) + ACCEPT_NS);
}

static void do_accept(struct sw_loop *lp)
{
	for (unsigned int i = 0; i < MAX_PENDING; i++) {
		int fd;

		if (lp->pending[i].fd >= 0)
			continue;
		fd = accept4(lp->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			accept_failed(lp, errno);
			return;
		}
		if (lp->starved)
			sw_log(lp->sw, "peers are accepted again");
		lp->starved = false;
		lp->pending[i].fd = fd;
		lp->pending[i].deadline = sw_host_ns(lp->sw) + HELLO_NS;
		lp->npending++;
		if (watch(lp, fd, EPOLLIN, K_HELLO, i))
			drop_pending(lp, i, true);
	}
	/* The rest waits in the backlog until one of these is done. */
	if (lp->npending == MAX_PENDING)
		stop_listening(lp, UINT64_MAX);
}

/* Listen again when it is due. Return: ns until then. */
static uint64_t accept_timeout(struct sw_loop *lp)
{
	uint64_t now;

	if (lp->listening)
		return UINT64_MAX;
	now = sw_host_ns(lp->sw);
	if (lp->accept_due > now)
		return lp->accept_due - now;
	listen_again(lp);
	return lp->listening ? UINT64_MAX : ACCEPT_NS;
}

/* Attaches a link after its handshake to port @n. */
static void adopt(struct sw_loop *lp, unsigned int n, struct ohca_link *l)
{
	if (watch(lp, ohca_link_ctrl_fd(l), EPOLLIN, K_CTRL, n) ||
	    watch(lp, ohca_link_event_fd(l), EPOLLIN, K_EVENT, n)) {
		sw_log(lp->sw, "port %u: epoll: %s", n, strerror(errno));
		ohca_link_free(l);
		return;
	}
	sw_attach(lp->sw, n, l);
}

static void do_hello(struct sw_loop *lp, unsigned int i)
{
	int fd = lp->pending[i].fd;
	struct ohca_link_cfg peer, cfg;
	struct ohca_link_err err;
	struct ohca_link *l;
	unsigned int n;
	int r;

	if (fd < 0)
		return;
	r = ohca_link_hello_recv(fd, &peer, &err);
	if (r == 0)
		return;
	if (r < 0) {
		sw_log(lp->sw, "refused a peer: %s", err.text);
		drop_pending(lp, i, true);
		return;
	}
	n = sw_pick_port(lp->sw, &peer, &err);
	if (!n) {
		sw_log(lp->sw, "refused '%s': %s", peer.desc, err.text);
		ohca_link_hello_reject(fd, err.code, err.text);
		drop_pending(lp, i, true);
		return;
	}
	sw_link_cfg(lp->sw, n, &cfg);
	drop_pending(lp, i, false);
	l = ohca_link_hello_reply(fd, &peer, &cfg, &err);
	if (l)
		adopt(lp, n, l);
	else
		sw_log(lp->sw, "refused '%s': %s", peer.desc, err.text);
}

static uint64_t hello_timeouts(struct sw_loop *lp)
{
	uint64_t now, next = UINT64_MAX;

	if (!lp->npending)
		return next;
	now = sw_host_ns(lp->sw);
	for (unsigned int i = 0; i < MAX_PENDING; i++) {
		if (lp->pending[i].fd < 0)
			continue;
		if (lp->pending[i].deadline <= now) {
			sw_log(lp->sw, "refused a peer: no HELLO within 2 s");
			ohca_link_hello_reject(lp->pending[i].fd, OHCA_LINK_E_TIMEOUT,
					       "no HELLO within 2 s");
			drop_pending(lp, i, true);
		} else if (lp->pending[i].deadline - now < next) {
			next = lp->pending[i].deadline - now;
		}
	}
	return next;
}

/* ---- other switches ------------------------------------------------------------ */

unsigned int sw_loop_uplink(struct sw_loop *lp, const char *path, unsigned int want_port)
{
	struct uplink *u = &lp->uplink[lp->nuplinks];
	unsigned int n = lp->sw->nports;

	while (n && (lp->sw->port[n].reserved || lp->sw->port[n].link))
		n--;
	if (!n)
		return 0;
	u->path = strdup(path);
	if (!u->path)
		return 0;
	u->want_port = want_port;
	u->port = n;
	u->fd = -1;
	lp->sw->port[n].reserved = true;
	lp->nuplinks++;
	return n;
}

static void uplink_cfg(const struct sw_loop *lp, const struct uplink *u,
		       struct ohca_link_cfg *cfg)
{
	sw_link_cfg(lp->sw, u->port, cfg);
	cfg->want_port = (uint8_t)u->want_port;
}

/* Not possible now: log the reason, once. */
static void uplink_failed(struct sw_loop *lp, struct uplink *u, const char *why)
{
	if (!u->told)
		sw_log(lp->sw, "port %u: %s; trying again", u->port, why);
	u->told = true;
}

static void uplink_start(struct sw_loop *lp, unsigned int i)
{
	struct uplink *u = &lp->uplink[i];
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;

	uplink_cfg(lp, u, &cfg);
	u->fd = ohca_link_connect_start(u->path, &cfg, 0, &err);
	if (u->fd < 0) {
		uplink_failed(lp, u, err.text);
	} else if (watch(lp, u->fd, EPOLLIN, K_UPLINK, i)) {
		uplink_failed(lp, u, strerror(errno));
		close(u->fd);
		u->fd = -1;
	}
}

/* The other switch has answered or closed. */
static void do_uplink(struct sw_loop *lp, unsigned int i)
{
	struct uplink *u = &lp->uplink[i];
	struct epoll_event ev = { 0 };
	struct ohca_link *l = NULL;
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	int fd = u->fd, r;

	if (fd < 0)
		return;
	uplink_cfg(lp, u, &cfg);
	/* a descriptor that failed is closed, and no longer watched */
	r = ohca_link_connect_finish(fd, &cfg, &l, &err);
	if (!r)
		return;
	u->fd = -1;
	if (r < 0) {
		uplink_failed(lp, u, err.text);
		return;
	}
	epoll_ctl(lp->ep, EPOLL_CTL_DEL, fd, &ev);
	u->told = false;
	adopt(lp, u->port, l);
}

/*
 * Connect the uplinks that are not connected, once a second; one without an answer until the next
 * time starts again. Never blocks. Return: ns until the next look.
 */
static uint64_t try_uplinks(struct sw_loop *lp)
{
	bool missing = false;
	uint64_t now;

	for (unsigned int i = 0; i < lp->nuplinks; i++)
		missing |= !lp->sw->port[lp->uplink[i].port].link;
	if (!missing)
		return UINT64_MAX;
	now = sw_host_ns(lp->sw);
	if (now < lp->uplink_due)
		return lp->uplink_due - now;
	for (unsigned int i = 0; i < lp->nuplinks; i++) {
		struct uplink *u = &lp->uplink[i];

		if (lp->sw->port[u->port].link)
			continue;
		if (u->fd >= 0) {
			uplink_failed(lp, u, "the other switch does not answer");
			close(u->fd);
			u->fd = -1;
		}
		uplink_start(lp, i);
	}
	lp->uplink_due = now + UPLINK_NS;
	return UPLINK_NS;
}

/* ---- the loop ------------------------------------------------------------------ */

/* Announce the sleep on every link. False: frames or credits are there. */
static bool prepare_sleep(struct sw *sw)
{
	for (unsigned int i = 1; i <= sw->nports; i++) {
		struct sw_port *p = &sw->port[i];

		if (!p->link)
			continue;
		if (ohca_link_prepare_sleep_except(p->link, sw_blocked_lanes(sw, i)))
			continue;
		/* Frames, credits, or a protocol violation of a peer. */
		sw_port_ctrl(sw, i);
		while (--i)
			if (sw->port[i].link)
				ohca_link_awake(sw->port[i].link, false);
		return false;
	}
	return true;
}

static void awake(struct sw *sw)
{
	for (unsigned int i = 1; i <= sw->nports; i++)
		if (sw->port[i].link)
			ohca_link_awake(sw->port[i].link, false);
}

static int to_ms(uint64_t ns)
{
	return ns == UINT64_MAX ? -1 : (int)(ns > 1000000000u ? 1000 : (ns + 999999) / 1000000);
}

int sw_loop_run(struct sw_loop *lp, int sigfd, bool (*on_signal)(void *arg, int fd), void *arg)
{
	struct epoll_event ev[32];
	struct sw *sw = lp->sw;
	unsigned int busy = 0;
	uint64_t idle_since = 0;

	if (sigfd >= 0 && watch(lp, sigfd, EPOLLIN, K_SIGNAL, 0))
		return -1;
	for (;;) {
		bool sleeping = false;
		int n, timeout = 0;

		if (sw_round(sw)) {
			idle_since = 0;
			if (++busy % LOOK_ROUNDS)
				continue;
		} else {
			if (lp->spin_us) {
				uint64_t now = sw_host_ns(sw);

				if (!idle_since)
					idle_since = now;
				if (now - idle_since < lp->spin_us * 1000ull) {
					if (++busy % LOOK_ROUNDS)
						continue;
					goto look;
				}
			}
			sleeping = prepare_sleep(sw);
		}
look:
		if (sleeping || !(busy & (LOOK_ROUNDS * 16 - 1))) {
			uint64_t t1 = sw_timers(sw), t2 = hello_timeouts(lp);
			uint64_t t3 = try_uplinks(lp), t4 = accept_timeout(lp);

			t1 = t1 < t2 ? t1 : t2;
			t3 = t3 < t4 ? t3 : t4;
			if (sleeping)
				timeout = to_ms(t1 < t3 ? t1 : t3);
		}
		n = epoll_wait(lp->ep, ev, 32, timeout);
		if (n < 0 && errno != EINTR)
			return -1;
		if (sleeping)
			awake(sw);
		for (int i = 0; i < n; i++) {
			unsigned int k = (unsigned int)(ev[i].data.u64 >> 32);
			unsigned int id = (unsigned int)ev[i].data.u64;

			switch (k) {
			case K_LISTEN:
				do_accept(lp);
				break;
			case K_HELLO:
				do_hello(lp, id);
				break;
			case K_UPLINK:
				do_uplink(lp, id);
				break;
			case K_CTRL:
				if (sw->port[id].link)
					sw_port_ctrl(sw, id);
				break;
			case K_SIGNAL:
				if (!on_signal(arg, sigfd))
					return 0;
				break;
			default:	/* K_EVENT: the round handles the reason */
				if (sw->port[id].link)
					ohca_link_awake(sw->port[id].link, true);
				break;
			}
		}
	}
}
