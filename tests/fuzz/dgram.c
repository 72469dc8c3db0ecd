// SPDX-License-Identifier: GPL-2.0-or-later
/* Datagram sockets of one thread; see dgram.h. */
#include "dgram.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define FD_BASE		3000
#define SOCKETS		320
#define MSGS		8u	/* that a socket stores before EAGAIN */
#define MSG_BYTES	512u

/* An address of either family. All bytes that do not belong to it are 0, for comparisons. */
struct addr {
	socklen_t len;	/* 0: none */
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_un un;
	};
};

struct msg {
	struct addr from;
	size_t len;
	uint8_t data[MSG_BYTES];
};

/*
 * @serial: distinguishes it from earlier sockets of the same number; 0: closed
 * @is_server: it does not block; the sockets of a target's clients do not announce that
 * @peer, @peer_serial: of a UNIX socket: the one that it is connected to
 * @err: error of the next call
 */
struct sock {
	unsigned int serial;
	int family;
	bool is_server;
	struct addr own, to;
	struct sock *peer;
	unsigned int peer_serial;
	int err;
	bool deaf;		/* after shutdown() */
	uint32_t polled;	/* EPOLLIN, EPOLLOUT */
	uint64_t event;
	unsigned int first, num;
	struct msg *msg;	/* [MSGS], kept until the end */
};

static struct sock sock[SOCKETS];
static unsigned int last_serial, num_open, top, turn;
static struct msg early;	/* arrives at each socket that the server binds; len 0: none */

static int error(int e)
{
	errno = e;
	return -1;
}

static struct sock *get(int fd)
{
	if (fd >= FD_BASE && fd < FD_BASE + SOCKETS && sock[fd - FD_BASE].serial)
		return &sock[fd - FD_BASE];
	/* a descriptor that is not open is a bug of the server */
	fprintf(stderr, "dgram: descriptor %d is not open\n", fd);
	abort();
}

static struct addr addr_of(const struct sockaddr *sa, socklen_t len)
{
	struct addr a;

	memset(&a, 0, sizeof(a));
	if (len > sizeof(a.un) || len < sizeof(sa->sa_family))
		abort();
	a.len = len;
	memcpy(&a.sa, sa, len);
	return a;
}

static bool same(const struct addr *a, const struct addr *b)
{
	return a->len == b->len && !memcmp(&a->sa, &b->sa, a->len);
}

static struct sock *find(const struct addr *a)
{
	for (unsigned int i = 0; i < top; i++)
		if (sock[i].serial && sock[i].own.len && same(&sock[i].own, a))
			return &sock[i];
	return NULL;
}

int dgram_socket(int domain, int type, int protocol)
{
	unsigned int i = 0;
	struct msg *msg;

	if ((domain != AF_UNIX && domain != AF_INET) || (type & 15) != SOCK_DGRAM || protocol)
		abort();
	while (sock[i].serial)
		if (++i == SOCKETS)
			return error(EMFILE);
	msg = sock[i].msg ? sock[i].msg : malloc(MSGS * sizeof(*msg));
	if (!msg)
		abort();
	sock[i] = (struct sock){
		.serial = ++last_serial, .family = domain, .is_server = type & SOCK_NONBLOCK,
		.msg = msg,
	};
	num_open++;
	top = i >= top ? i + 1 : top;
	return FD_BASE + (int)i;
}

int dgram_close(int fd)
{
	struct sock *s = get(fd);

	s->serial = 0;
	num_open--;
	return 0;
}

/* Nobody can send to the socket any more; what it has stays. */
int dgram_shutdown(int fd, int how)
{
	if (how != SHUT_RD)
		abort();
	get(fd)->deaf = true;
	return 0;
}

void dgram_end(void)
{
	if (num_open) {
		fprintf(stderr, "dgram: %u sockets are open at the end\n", num_open);
		abort();
	}
	top = turn = last_serial = 0;
	early.len = 0;
}

/* Only its peer can send to a connected UNIX socket. */
static bool may_send(const struct sock *s, const struct sock *to)
{
	return !to->deaf && (!to->peer || (to->peer == s && to->peer_serial == s->serial));
}

int dgram_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct addr a = addr_of(addr, len);
	struct sock *s = get(fd), *to;

	if (a.sa.sa_family != s->family)
		return error(EAFNOSUPPORT);
	if (s->family == AF_INET) {
		s->to = a;
		return 0;
	}
	to = find(&a);
	if (!to)
		return error(ECONNREFUSED);
	if (!may_send(s, to))
		return error(EPERM);
	s->peer = to;
	s->peer_serial = to->serial;
	return 0;
}

int dgram_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct sock *s = get(fd);

	if (epfd != -1 || op != (s->polled ? EPOLL_CTL_MOD : EPOLL_CTL_ADD) || !ev->events ||
	    ev->events & ~(uint32_t)(EPOLLIN | EPOLLOUT))
		abort();
	s->polled = ev->events;
	s->event = ev->data.u64;
	return 0;
}

/* A UDP socket always has room, and a peer that was closed does not count as full. */
static bool is_writable(const struct sock *s)
{
	return !s->peer || s->peer->serial != s->peer_serial || s->peer->num < MSGS;
}

bool dgram_event(uint64_t *which)
{
	for (unsigned int i = 0; i < top; i++) {
		const struct sock *s = &sock[++turn % top];

		if (!s->serial || !s->polled)
			continue;
		if (!s->err && !(s->polled & EPOLLIN && s->num) &&
		    !(s->polled & EPOLLOUT && is_writable(s)))
			continue;
		*which = s->event;
		return true;
	}
	return false;
}

/* ---- messages ------------------------------------------------------------------ */

static ssize_t put(struct sock *to, const struct addr *from, const void *buf, size_t n)
{
	struct msg *m;

	if (n > MSG_BYTES)
		abort();
	if (to->num == MSGS)
		return error(EAGAIN);
	m = &to->msg[(to->first + to->num++) % MSGS];
	m->from = *from;
	m->len = n;
	memcpy(m->data, buf, n);
	return (ssize_t)n;
}

void dgram_at_bind(const void *buf, size_t n)
{
	memset(&early, 0, sizeof(early));
	if (n > MSG_BYTES)
		abort();
	memcpy(early.data, buf, n);
	early.len = n;
}

int dgram_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct addr a = addr_of(addr, len);
	struct sock *s = get(fd);

	if (a.sa.sa_family != s->family || s->own.len)
		return error(EINVAL);
	if (find(&a))
		return error(EADDRINUSE);
	s->own = a;
	if (early.len && s->is_server)
		put(s, &early.from, early.data, early.len);
	return 0;
}

/* Return: whether a socket has that address and accepts from @from, with or without room for it. */
static bool put_udp(const struct addr *from, const struct addr *a, const void *buf, size_t n)
{
	struct sock *to = find(a);

	if (!to || (to->to.len && !same(&to->to, from)))
		return false;
	put(to, from, buf, n);
	return true;
}

bool dgram_spoof(const struct sockaddr *from, const struct sockaddr *to, socklen_t len,
		 const void *buf, size_t n)
{
	const struct addr a = addr_of(from, len), b = addr_of(to, len);

	return put_udp(&a, &b, buf, n);
}

static int take_error(struct sock *s)
{
	int e = s->err;

	s->err = 0;
	return e;
}

static ssize_t send_to(struct sock *s, struct sock *to, const struct addr *a, const void *buf,
		       size_t n)
{
	if (s->err)
		return error(take_error(s));
	if (s->family == AF_INET) {
		if (!a->len)
			return error(EDESTADDRREQ);
		/* a UDP socket without a peer receives no error for what it sends */
		if (!put_udp(&s->own, a, buf, n) && s->to.len)
			s->err = ECONNREFUSED;
		return (ssize_t)n;
	}
	if (!to)
		return error(ECONNREFUSED);
	return may_send(s, to) ? put(to, &s->own, buf, n) : error(EPERM);
}

ssize_t dgram_send(int fd, const void *buf, size_t n, int flags)
{
	struct sock *s = get(fd), *peer = s->peer;

	(void)flags;
	if (s->family == AF_UNIX && !peer)
		return error(ENOTCONN);
	if (peer && peer->serial != s->peer_serial) {
		s->peer = NULL;
		return error(ECONNREFUSED);
	}
	return send_to(s, peer, &s->to, buf, n);
}

ssize_t dgram_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
		     socklen_t len)
{
	struct sock *s = get(fd);
	struct addr a;

	/* a message of a socket without an address has no return address */
	if (!len)
		return dgram_send(fd, buf, n, flags);
	a = addr_of(to, len);
	if (a.sa.sa_family != s->family)
		return error(EINVAL);
	return send_to(s, s->family == AF_UNIX ? find(&a) : NULL, &a, buf, n);
}

/* Return: the next message, which stays until the next call; NULL with errno. */
static const struct msg *next(struct sock *s)
{
	if (s->err) {
		errno = take_error(s);
		return NULL;
	}
	if (!s->num) {
		errno = EAGAIN;
		return NULL;
	}
	s->num--;
	return &s->msg[s->first++ % MSGS];
}

ssize_t dgram_recv(int fd, void *buf, size_t n, int flags)
{
	const struct msg *m = next(get(fd));

	if (!m)
		return -1;
	memcpy(buf, m->data, m->len < n ? m->len : n);
	return (ssize_t)(flags & MSG_TRUNC || m->len < n ? m->len : n);
}

/* Copies a message. No message has a descriptor. */
static size_t give(const struct msg *m, struct msghdr *h)
{
	const struct iovec *iov = h->msg_iov;

	if (h->msg_iovlen != 1)
		abort();
	memcpy(iov->iov_base, m->data, m->len < iov->iov_len ? m->len : iov->iov_len);
	if (h->msg_name) {
		memcpy(h->msg_name, &m->from.sa,
		       m->from.len < h->msg_namelen ? m->from.len : h->msg_namelen);
		h->msg_namelen = m->from.len;
	}
	h->msg_controllen = 0;
	h->msg_flags = m->len > iov->iov_len ? MSG_TRUNC : 0;
	return m->len < iov->iov_len ? m->len : iov->iov_len;
}

ssize_t dgram_recvmsg(int fd, struct msghdr *h, int flags)
{
	const struct msg *m = next(get(fd));

	if (flags != (MSG_TRUNC | MSG_CMSG_CLOEXEC) || !h->msg_control)
		abort();
	if (!m)
		return -1;
	give(m, h);
	return (ssize_t)m->len;
}

int dgram_recvmmsg(int fd, struct mmsghdr *msg, unsigned int num, int flags, struct timespec *t)
{
	struct sock *s = get(fd);
	unsigned int i = 0;

	if (flags != MSG_CMSG_CLOEXEC || t)
		abort();
	for (; i < num && (!i || s->num); i++) {
		const struct msg *m = next(s);

		if (!m)
			return -1;
		if (msg[i].msg_hdr.msg_name || !msg[i].msg_hdr.msg_control)
			abort();
		msg[i].msg_len = (unsigned int)give(m, &msg[i].msg_hdr);
	}
	return (int)i;
}
