// SPDX-License-Identifier: GPL-2.0-or-later
/* The control socket and its clients; see control.h. */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "link/link.h"

#include "fabric/base/event.h"
#include "fabric/base/passed.h"
#include "fabric/fault/journal.h"

#define EVENT_LISTEN	FAB_CONTROL_CLIENTS	/* after the clients' */
#define ACCEPT_NS	100000000ull	/* between attempts to accept without memory */

/*
 * A client, of process @pid; @fd -1: none. It is not read from while it has a reply to receive:
 * @out, of
 * @out_len bytes, @sent of which were sent. @last: it is disconnected after that. @spool: it gets a
 *	capture instead of replies; @events: its current epoll events. @moved_ns: time of the last
 *	bytes from or to it.
 */
struct client {
	int fd;
	int pid;
	uint64_t moved_ns;
	size_t have;
	char line[FAB_CONTROL_LINE];
	char *out;
	size_t out_len, sent;
	bool last;
	struct fab_spool *spool;
	uint32_t events;
};

/*
 * @spare: a descriptor that is closed to accept a client when no descriptor is free, so that such a
 *	client gets an error at once
 * @closer: closes descriptors that a client passes
 * @listening: @listen is in the epoll set; otherwise it will be at @accept_due_ns
 * @starved: the last attempt to accept has failed
 */
struct fab_control {
	struct fab_mgmt *m;
	struct fab_data *d;
	unsigned int captures;
	int epfd;
	int listen;
	int spare;
	struct fab_closer *closer;
	bool listening, starved;
	uint64_t accept_due_ns;
	struct sockaddr_un un;
	struct fab_journal journal;
	struct client client[FAB_CONTROL_CLIENTS];
};

static bool watch_fd(const struct fab_control *c, int op, int fd, uint32_t which, uint32_t events)
{
	return fab_event_watch(c->epfd, op, fd, events, FAB_EVENT_CONTROL, which);
}

/* Time limits of clients use the clock of the host, whatever that of the fabric is. */
static uint64_t host_ns(const struct fab_control *c)
{
	struct timespec ts;

	if (!c->m->until_ns)
		return c->m->now_ns;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Receive, and no descriptors. Return: as recv(). */
static ssize_t hear(struct fab_control *c, int fd, char *buf, size_t size)
{
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	union fab_passed room;
	ssize_t n;

	fab_passed_expect(&m, &room);
	n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	if (n >= 0)
		fab_passed_close(c->closer, &m);
	return n;
}

/* Received bytes of a client that are discarded at its end; a socket can have fewer parts. */
#define MOST_PARTS	4096u

/* Close a client's socket. What is in it would be closed with it, so it must be empty. */
static void hang_up(struct fab_control *c, int fd)
{
	char rest[4096];

	shutdown(fd, SHUT_RDWR);
	for (unsigned int i = 0; i < MOST_PARTS; i++)
		if (hear(c, fd, rest, sizeof(rest)) <= 0)
			break;
	close(fd);
}

static void drop(struct fab_control *c, struct client *p)
{
	if (p->spool)
		c->captures--;
	fab_spool_free(p->spool);
	p->spool = NULL;
	hang_up(c, p->fd);
	free(p->out);
	p->fd = -1;
	p->out = NULL;
}

/* Send what waits for @p. Return: false: it has disconnected, or accepts no more now. */
static bool client_push(struct fab_control *c, struct client *p)
{
	ssize_t n = send(p->fd, p->out + p->sent, p->out_len - p->sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		drop(c, p);
		return false;
	}
	if (n > 0) {
		p->sent += (size_t)n;
		p->moved_ns = host_ns(c);
	}
	if (p->sent < p->out_len) {
		if (!watch_fd(c, EPOLL_CTL_MOD, p->fd, (uint32_t)(p - c->client), EPOLLOUT))
			drop(c, p);
		return false;
	}
	if (p->last) {
		drop(c, p);
		return false;
	}
	free(p->out);
	p->out = NULL;
	return true;
}

/* Whether a whole request was received. */
static bool has_request(const struct client *p)
{
	return memchr(p->line, '\n', p->have);
}

static void reply(struct client *p, char *text)
{
	p->out = text;
	p->out_len = text ? strlen(text) : 0;
	p->sent = 0;
}

/* ---- captures ------------------------------------------------------------------ */

/*
 * Begin a capture for @p after the reply @text, which is freed. Return: NULL, or on failure a
 * reply.
 */
static char *begin_capture(struct fab_control *c, struct client *p, struct fab_spool_cfg *cfg,
			   char *text)
{
	cfg->hello = text;
	if (text && c->captures < FAB_CONTROL_CAPTURES)
		p->spool = fab_spool_new(c->d, cfg, p->fd);
	free(text);
	if (!p->spool)
		return strdup("{\"error\": \"there is no room for one more capture: end one\"}\n");
	c->captures++;
	p->have = 0;
	p->events = 0;
	return NULL;
}

/* Send captured data; disconnect the client when it has all. */
static void send_capture(struct fab_control *c, struct client *p)
{
	const uint32_t which = (uint32_t)(p - c->client);
	struct fab_spool *s = p->spool;
	uint32_t events;

	if (!fab_spool_flush(s) || (!s->c && !s->len)) {
		drop(c, p);
		return;
	}
	events = (s->c ? EPOLLIN : 0) | (s->len ? EPOLLOUT : 0);
	if (events != p->events && !watch_fd(c, EPOLL_CTL_MOD, p->fd, which, events))
		drop(c, p);
	else
		p->events = events;
}

/* Any byte from a client, or its end, ends its capture. */
static void hear_capture(struct fab_control *c, struct client *p)
{
	if (p->spool->c && (hear(c, p->fd, p->line, sizeof(p->line)) >= 0 ||
			    (errno != EAGAIN && errno != EINTR)))
		fab_spool_end(p->spool);
	send_capture(c, p);
}

void fab_control_flush(struct fab_control *c)
{
	for (uint32_t i = 0; c->captures && i < FAB_CONTROL_CLIENTS; i++)
		if (c->client[i].spool && !(c->client[i].events & EPOLLOUT))
			send_capture(c, &c->client[i]);
}

/* ---- requests ------------------------------------------------------------------ */

/* Answer the first request of @p, if it is complete. Return: whether @p is disconnected. */
static bool answer(struct fab_control *c, struct client *p)
{
	const char *end = memchr(p->line, '\n', p->have);
	size_t len = end ? (size_t)(end - p->line) : 0;
	struct fab_spool_cfg cfg = { .n = 0 };
	char *text;

	if (end) {
		c->journal.pid = p->pid;
		text = fab_control_answer(c->m, c->d, p->line, len, c->d ? &cfg : NULL);
		p->have -= len + 1;
		memmove(p->line, end + 1, p->have);
		reply(p, cfg.n ? begin_capture(c, p, &cfg, text) : text);
	} else if (p->have == sizeof(p->line)) {
		reply(p, strdup("{\"error\": \"a request is too long: send at most 65536 bytes, "
				"and a newline\"}\n"));
		p->last = true;
	} else {
		return false;
	}
	if (!p->out && !p->spool)
		drop(c, p);
	return p->fd < 0;
}

/* Bytes of the next request have arrived, or @p accepts more. */
static void serve_client(struct fab_control *c, struct client *p)
{
	const uint32_t which = (uint32_t)(p - c->client);
	ssize_t n;

	if (p->out) {
		if (!client_push(c, p))
			return;
	} else if (!has_request(p)) {
		n = hear(c, p->fd, p->line + p->have, sizeof(p->line) - p->have);
		if (!n || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			drop(c, p);
			return;
		}
		if (n > 0) {
			p->have += (size_t)n;
			p->moved_ns = host_ns(c);
		}
	}
	/* a request that arrived with an earlier one is answered at the next event */
	if (answer(c, p))
		return;
	if (p->out && !client_push(c, p))
		return;
	if (!watch_fd(c, EPOLL_CTL_MOD, p->fd, which,
		      has_request(p) ? EPOLLIN | EPOLLOUT : EPOLLIN))
		drop(c, p);
}

/* Duplicate an open descriptor: a confined daemon cannot open files. */
static int spare_descriptor(const struct fab_control *c)
{
	return fcntl(c->epfd, F_DUPFD_CLOEXEC, 0);
}

static int next_client(const struct fab_control *c)
{
	return accept4(c->listen, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void turn_away(struct fab_control *c, int fd, const char *why)
{
	send(fd, why, strlen(why), MSG_NOSIGNAL);
	hang_up(c, fd);
}

/*
 * Find an entry for one more client: a free one, or that of the client that has neither sent nor
 * received anything for the longest time, if that is long enough. Return: NULL: there is none.
 */
static struct client *client_place(struct fab_control *c)
{
	struct client *quiet = NULL;

	for (uint32_t i = 0; i < FAB_CONTROL_CLIENTS; i++) {
		struct client *p = &c->client[i];

		if (p->fd < 0)
			return p;
		if (!p->spool && (!quiet || p->moved_ns < quiet->moved_ns))
			quiet = p;
	}
	if (!quiet || host_ns(c) - quiet->moved_ns < FAB_CONTROL_QUIET_NS)
		return NULL;
	return quiet;
}

/* Process of the peer; 0: unknown. */
static int process_of(int fd)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) ? 0 : peer.pid;
}

static bool listen_again(struct fab_control *c)
{
	c->listening = watch_fd(c, EPOLL_CTL_ADD, c->listen, EVENT_LISTEN, EPOLLIN);
	c->accept_due_ns = host_ns(c) + ACCEPT_NS;
	return c->listening;
}

/* Accept no clients until the timer. The listener stays readable, so take it out of the set. */
static void stop_listening(struct fab_control *c, int error)
{
	struct epoll_event ev = { 0 };

	if (c->d) {
		fab_data_accept_stopped(c->d);
		if (!c->starved)
			fab_data_log(c->d, "cannot accept clients of the control socket: %s; "
				     "trying again", strerror(error));
	}
	c->starved = true;
	epoll_ctl(c->epfd, EPOLL_CTL_DEL, c->listen, &ev);
	c->listening = false;
	c->accept_due_ns = host_ns(c) + ACCEPT_NS;
}

static void accepted(struct fab_control *c)
{
	if (c->starved && c->d)
		fab_data_log(c->d, "accepting clients of the control socket again");
	c->starved = false;
}

/* Send an error to a client for which no descriptor is left. Return: errno, or 0. */
static int refuse_client(struct fab_control *c)
{
	int fd, error;

	if (c->spare >= 0)
		close(c->spare);
	fd = next_client(c);
	error = fd < 0 ? errno : 0;
	if (fd >= 0) {
		accepted(c);
		turn_away(c, fd, "{\"error\": \"the fabric has no descriptor left: end a program, or "
			  "start it with a higher limit (ulimit -n)\"}\n");
	}
	c->spare = spare_descriptor(c);
	return error;
}

/* accept4() has failed with @error. */
static void accept_failed(struct fab_control *c, int error)
{
	/* to close a descriptor helps only if the limit is that of this process */
	if (error == EMFILE)
		error = refuse_client(c);
	if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
		stop_listening(c, error);
}

static void take_client(struct fab_control *c)
{
	int fd = next_client(c);
	struct client *p;

	if (fd < 0) {
		accept_failed(c, errno);
		return;
	}
	accepted(c);
	p = client_place(c);
	if (!p) {
		turn_away(c, fd, "{\"error\": \"too many programs are connected: end one\"}\n");
		return;
	}
	if (!watch_fd(c, EPOLL_CTL_ADD, fd, (uint32_t)(p - c->client), EPOLLIN)) {
		turn_away(c, fd, "{\"error\": \"the fabric cannot watch one more connection: the host "
			  "has no memory left, or fs.epoll.max_user_watches is too low\"}\n");
		return;
	}
	if (p->fd >= 0)
		drop(c, p);
	p->fd = fd;
	p->pid = process_of(fd);
	p->have = 0;
	p->last = false;
	p->moved_ns = host_ns(c);
}

uint64_t fab_control_timer(struct fab_control *c)
{
	uint64_t now;

	if (c->listening)
		return UINT64_MAX;
	now = host_ns(c);
	if (c->accept_due_ns <= now && listen_again(c))
		return UINT64_MAX;
	return c->accept_due_ns - now;
}

void fab_control_event(struct fab_control *c, uint32_t index, uint64_t now_ns)
{
	c->m->now_ns = now_ns;
	if (index == EVENT_LISTEN)
		take_client(c);
	else if (index < FAB_CONTROL_CLIENTS && c->client[index].spool)
		hear_capture(c, &c->client[index]);
	else if (index < FAB_CONTROL_CLIENTS && c->client[index].fd >= 0)
		serve_client(c, &c->client[index]);
}

/*
 * A process that was killed leaves the file of its socket. Another kind of file has no listener
 * either, but must not be removed.
 */
static bool is_stale(const struct sockaddr_un *un)
{
	struct stat st;
	bool refused;
	int fd;

	if (lstat(un->sun_path, &st) || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	refused = connect(fd, (const struct sockaddr *)un, sizeof(*un)) && errno == ECONNREFUSED;
	close(fd);
	return refused;
}

static bool listen_at(struct fab_control *c, const char *path)
{
	struct ohca_link_err err;
	const int dir = ohca_link_lock_dir(path, &err);
	int error;
	mode_t mask;
	bool ok;

	if (dir < 0) {
		errno = err.sys;
		return false;
	}
	mask = umask(0177);
	c->un.sun_family = AF_UNIX;
	memcpy(c->un.sun_path, path, strlen(path) + 1);
	if (is_stale(&c->un))
		unlink(path);
	c->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ok = c->listen >= 0 && !bind(c->listen, (struct sockaddr *)&c->un, sizeof(c->un));
	umask(mask);
	if (ok && (listen(c->listen, FAB_CONTROL_CLIENTS) || !listen_again(c))) {
		unlink(path);
		ok = false;
	}
	error = errno;
	close(dir);
	errno = error;
	return ok;
}

struct fab_control *fab_control_new(struct fab_mgmt *m, struct fab_data *d, const char *path,
				    int epfd, struct fab_closer *closer)
{
	struct fab_control *c;

	if (strlen(path) >= sizeof(c->un.sun_path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->m = m;
	m->journal = &c->journal;
	c->d = d;
	c->epfd = epfd;
	c->closer = closer;
	for (uint32_t i = 0; i < FAB_CONTROL_CLIENTS; i++)
		c->client[i].fd = -1;
	c->listen = -1;
	/* before the sandbox: it reads a file; with the seed no client knows which names collide */
	json_object_seed(0);
	c->spare = spare_descriptor(c);
	if (c->spare < 0 || !listen_at(c, path)) {
		int err = errno;

		if (c->listen >= 0)
			close(c->listen);
		if (c->spare >= 0)
			close(c->spare);
		m->journal = NULL;
		free(c);
		errno = err;
		return NULL;
	}
	return c;
}

void fab_control_free(struct fab_control *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < FAB_CONTROL_CLIENTS; i++)
		if (c->client[i].fd >= 0)
			drop(c, &c->client[i]);
	unlink(c->un.sun_path);
	close(c->listen);
	if (c->spare >= 0)
		close(c->spare);
	c->m->journal = NULL;
	free(c);
}
