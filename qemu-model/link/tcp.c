// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How a link over TCP begins: addresses, sockets, the first message of each side. That has always
 * OHCA_WIRE_MSG_MAX bytes, whatever version the peer has, and stays in the socket until all of it is
 * there (SO_RCVLOWAT): nothing is kept for a peer that has not said who it is.
 */
#include "link_priv.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hmac.h"

/*
 * A peer that does not answer at all, since its host or the network has failed, is gone after a
 * minute. One whose process is stopped is, too, if our frames wait for it that long.
 */
#define DEAD_MS		60000
#define KEEP_IDLE_S	20
#define KEEP_INTVL_S	10

bool link_tcp_path(const char *path)
{
	return !strncmp(path, OHCA_LINK_TCP, strlen(OHCA_LINK_TCP));
}

bool link_tcp_is_stream(int fd)
{
	socklen_t len = sizeof(int);
	int type = 0;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM;
}

/* ---- addresses ----------------------------------------------------------------- */

/* Parts of HOST:PORT, [ADDRESS]:PORT or PORT. Return: false: it is none, or too long. */
static bool split(const char *name, char *host, size_t size, const char **port)
{
	const char *colon = strrchr(name, ':');
	size_t n = colon ? (size_t)(colon - name) : 0;

	*port = colon ? colon + 1 : name;
	if (!colon) {
		name = "127.0.0.1";
		n = strlen(name);
	} else if (n > 1 && name[0] == '[' && name[n - 1] == ']') {
		name++;
		n -= 2;
	} else if (memchr(name, ':', n)) {
		return false;
	}
	if (!n || n >= size || !**port || strspn(*port, "0123456789") != strlen(*port) ||
	    strlen(*port) > 5 || strtoul(*port, NULL, 10) > UINT16_MAX)
		return false;
	memcpy(host, name, n);
	host[n] = 0;
	return true;
}

static int write_path(const struct sockaddr_storage *sa, char *path)
{
	const struct sockaddr_in6 *v6 = (const void *)sa;
	const struct sockaddr_in *v4 = (const void *)sa;
	char host[INET6_ADDRSTRLEN] = "";

	if (sa->ss_family == AF_INET6 && inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)))
		snprintf(path, OHCA_LINK_TCP_MAX, OHCA_LINK_TCP "[%s]:%u", host,
			 ntohs(v6->sin6_port));
	else if (sa->ss_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host)))
		snprintf(path, OHCA_LINK_TCP_MAX, OHCA_LINK_TCP "%s:%u", host,
			 ntohs(v4->sin_port));
	return host[0] ? 0 : -1;
}

int ohca_link_resolve(const char *name, char *path, struct ohca_link_err *err)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
	struct sockaddr_storage sa = { 0 };
	struct addrinfo *found = NULL;
	const char *port;
	char host[256];
	int e;

	if (!split(name, host, sizeof(host), &port))
		return link_err(err, OHCA_LINK_E_PATH, 0, "'%.80s' is not HOST:PORT", name);
	e = getaddrinfo(host, port, &hints, &found);
	if (e)
		return link_err(err, OHCA_LINK_E_PATH, 0, "'%.80s': %s", name, gai_strerror(e));
	memcpy(&sa, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return write_path(&sa, path) ?
	       link_err(err, OHCA_LINK_E_PATH, 0, "'%.80s' has no numeric address", name) : 0;
}

int ohca_link_bound(int fd, char *path)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	return getsockname(fd, (struct sockaddr *)&sa, &len) ? -1 : write_path(&sa, path);
}

bool ohca_link_is_loopback(const char *path)
{
	return !strncmp(path, OHCA_LINK_TCP "127.", strlen(OHCA_LINK_TCP) + 4) ||
	       !strncmp(path, OHCA_LINK_TCP "[::1]:", strlen(OHCA_LINK_TCP) + 6);
}

/* The address of @path, which is numeric: nothing waits. Return: its length, or 0. */
static socklen_t address(const char *path, struct sockaddr_storage *sa, struct ohca_link_err *err)
{
	struct sockaddr_in6 *v6 = (void *)sa;
	struct sockaddr_in *v4 = (void *)sa;
	char host[INET6_ADDRSTRLEN];
	const char *port;
	bool ok;

	memset(sa, 0, sizeof(*sa));
	ok = split(path + strlen(OHCA_LINK_TCP), host, sizeof(host), &port);
	if (ok && inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)strtoul(port, NULL, 10));
		return sizeof(*v4);
	}
	if (ok && inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)strtoul(port, NULL, 10));
		return sizeof(*v6);
	}
	link_err(err, OHCA_LINK_E_PATH, 0, "'%.80s' is not tcp:ADDRESS:PORT", path);
	return 0;
}

/* ---- sockets ------------------------------------------------------------------- */

static void tcp_set(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value))) {
		/* It is slower, or a peer that is lost is noticed later. */
	}
}

/* Of a socket before its first message. */
static void prepare(int fd)
{
	tcp_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	tcp_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	tcp_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
	tcp_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTVL_S);
	tcp_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, DEAD_MS);
	tcp_set(fd, SOL_SOCKET, SO_RCVLOWAT, OHCA_WIRE_MSG_MAX);
}

int link_tcp_listen(const char *path, struct ohca_link_err *err)
{
	struct sockaddr_storage sa;
	const socklen_t len = address(path, &sa, err);
	int fd;

	if (!len)
		return -1;
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		tcp_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) || listen(fd, 64)) {
		link_err(err, OHCA_LINK_E_PATH, errno, "cannot listen on '%s'", path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

int link_tcp_connect_start(const char *path, struct ohca_link_err *err)
{
	struct sockaddr_storage sa;
	const socklen_t len = address(path, &sa, err);
	int fd;

	if (!len)
		return -1;
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		prepare(fd);
	if (fd < 0 || (connect(fd, (struct sockaddr *)&sa, len) && errno != EINPROGRESS)) {
		link_err(err, OHCA_LINK_E_PATH, errno, "cannot connect to '%s'", path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

/* ---- first messages ------------------------------------------------------------ */

/* Return: 0, or -1 with errno. */
static int send_first(int fd, const void *msg, size_t len)
{
	uint8_t buf[OHCA_WIRE_MSG_MAX] = { 0 };

	memcpy(buf, msg, len);
	return link_send(fd, buf, sizeof(buf));
}

void link_tcp_send_error(int fd, int code, const char *text)
{
	struct ohca_wire_error e;

	link_error_msg(&e, code, text);
	(void)send_first(fd, &e, sizeof(e));
}

/*
 * The first message of the peer: @buf has room for OHCA_WIRE_MSG_MAX bytes.
 * Return: its length without the padding, 0: it is not there yet, -1: it never will be
 */
static ssize_t recv_first(int fd, uint8_t *buf, struct ohca_link_err *err)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	ssize_t n = recv(fd, buf, OHCA_WIRE_MSG_MAX, MSG_DONTWAIT | MSG_PEEK);
	struct ohca_wire_hdr h;
	uint32_t len;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return link_err(err, errno == ECONNREFUSED ? OHCA_LINK_E_PATH : OHCA_LINK_E_SYS,
				errno, "the peer cannot be reached");
	if (n < OHCA_WIRE_MSG_MAX)
		return n && poll(&p, 1, 0) == 0 ? 0 :
		       link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer closed the socket before its first message");
	n = recv(fd, buf, OHCA_WIRE_MSG_MAX, MSG_DONTWAIT);
	memcpy(&h, buf, sizeof(h));
	len = le32toh(h.len);
	if (n != OHCA_WIRE_MSG_MAX || le32toh(h.magic) != OHCA_WIRE_MAGIC || len < sizeof(h) ||
	    len > OHCA_WIRE_MSG_MAX)
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer does not speak the OpenHCA link protocol");
	return (ssize_t)len;
}

int ohca_link_greet(int fd, uint8_t nonce[OHCA_LINK_NONCE], struct ohca_link_err *err)
{
	struct ohca_wire_greeting g;

	memset(nonce, 0, OHCA_LINK_NONCE);
	if (!link_tcp_is_stream(fd))
		return 0;
	prepare(fd);
	if (getrandom(nonce, OHCA_LINK_NONCE, GRND_NONBLOCK) != OHCA_LINK_NONCE)
		return link_err(err, OHCA_LINK_E_SYS, errno, "getrandom");
	link_hdr_init(&g.hdr, OHCA_WIRE_GREETING, sizeof(g));
	memcpy(g.nonce, nonce, sizeof(g.nonce));
	return send_first(fd, &g, sizeof(g)) ?
	       link_err(err, OHCA_LINK_E_SYS, errno, "sending GREETING") : 0;
}

static void prove(const uint8_t *nonce, const char *token, uint8_t proof[OHCA_WIRE_PROOF])
{
	static_assert(OHCA_WIRE_PROOF == LINK_SHA256_LEN, "the proof is a code");

	memset(proof, 0, OHCA_WIRE_PROOF);
	if (token)
		link_hmac(token, strlen(token), nonce, OHCA_WIRE_NONCE, proof);
}

bool ohca_link_proven(const struct ohca_link_cfg *peer, const uint8_t nonce[OHCA_LINK_NONCE],
		      const char *token)
{
	uint8_t want[OHCA_WIRE_PROOF], differ = 0;

	if (!token)
		return true;
	prove(nonce, token, want);
	for (unsigned int i = 0; i < sizeof(want); i++)
		differ |= want[i] ^ peer->proof[i];
	return !differ;
}

static void join_fill(struct ohca_wire_join *j, const struct ohca_link_cfg *c)
{
	memset(j, 0, sizeof(*j));
	link_hello_fill(&j->hello, c);
	link_hdr_init(&j->hello.hdr, OHCA_WIRE_HELLO, sizeof(*j));
	j->hello.features = htole64(OHCA_WIRE_FEAT_STREAM);
	memcpy(j->place, c->place, strnlen(c->place, sizeof(j->place)));
}

static int join_parse(const uint8_t *buf, size_t len, struct ohca_wire_hello *h,
		      struct ohca_link_cfg *c, struct ohca_link_err *err)
{
	struct ohca_wire_join j;

	if (link_hello_parse(buf, len, OHCA_WIRE_FEAT_STREAM, h, c, err))
		return -1;
	if (len < sizeof(j))
		return link_err(err, OHCA_LINK_E_PROTO, 0, "HELLO of %zu bytes", len);
	memcpy(&j, buf, sizeof(j));
	memcpy(c->proof, j.proof, sizeof(c->proof));
	for (size_t i = 0; i + 1 < sizeof(c->place) && j.place[i]; i++)
		c->place[i] = j.place[i] >= 0x20 && j.place[i] < 0x7f ? (char)j.place[i] : '?';
	return 0;
}

int link_tcp_hello_recv(int fd, struct ohca_link_cfg *peer, struct ohca_link_err *err)
{
	uint8_t buf[OHCA_WIRE_MSG_MAX];
	struct ohca_wire_hello h;
	struct ohca_link_err e;
	ssize_t n = recv_first(fd, buf, &e);

	if (!n)
		return 0;
	if (n > 0 && !join_parse(buf, (size_t)n, &h, peer, &e))
		return 1;
	link_tcp_send_error(fd, e.code, e.text);
	if (err)
		*err = e;
	return -1;
}

/* ---- established --------------------------------------------------------------- */

/* A link over @fd, which is the link's then. Return: NULL: failed. */
static struct ohca_link *link_tcp_make(int fd, const struct ohca_link_cfg *cfg, unsigned int vls,
				       unsigned int shift, struct ohca_link_err *err)
{
	const int mem = shm_create(vls, shift);
	struct shm_map map = { 0 };
	struct ohca_link *l;

	if (mem < 0) {
		link_err(err, OHCA_LINK_E_SYS, errno, "creating memory");
		return NULL;
	}
	if (shm_attach(&map, mem, vls, shift, SHM_BOTH, err)) {
		close(mem);
		return NULL;
	}
	l = link_new(&map, true, vls, shift);
	if (!l) {
		link_err(err, OHCA_LINK_E_SYS, ENOMEM, "allocating the link");
		goto fail;
	}
	l->peer_wake = -1;
	l->sock = fd;
	l->cfg = *cfg;
	if (!link_stream_new(l)) {
		tcp_set(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
		if (cfg->closer)
			l->mem = mem;
		else
			close(mem);
		return l;
	}
	link_err(err, OHCA_LINK_E_SYS, errno, "allocating the link");
fail:
	shm_detach(&map);
	/* nobody has touched it */
	close(mem);
	free(l);
	return NULL;
}

struct ohca_link *link_tcp_hello_reply(int fd, const struct ohca_link_cfg *peer,
				  const struct ohca_link_cfg *cfg, struct ohca_link_err *err)
{
	unsigned int vls, shift;
	struct ohca_link *l = NULL;
	struct ohca_wire_join j;
	struct ohca_link_err e;

	if (link_hello_agree(cfg, peer, &vls, &shift, &e))
		goto fail;
	l = link_tcp_make(fd, cfg, vls, shift, &e);
	if (!l)
		goto fail;
	join_fill(&j, cfg);
	j.hello.vls = (uint8_t)vls;
	j.hello.shift = (uint8_t)shift;
	if (!send_first(fd, &j, sizeof(j))) {
		l->peer = *peer;
		return l;
	}
	link_err(&e, OHCA_LINK_E_SYS, errno, "sending HELLO");
fail:
	link_tcp_send_error(fd, e.code, e.text);
	if (err)
		*err = e;
	if (l)
		ohca_link_free(l);
	else
		link_close_sock(cfg->closer, fd);
	return NULL;
}

/* The listener has spoken. Return: 0 or -1. */
static int link_tcp_answer(int sock, const uint8_t *buf, const struct ohca_link_cfg *cfg,
		  struct ohca_link_err *err)
{
	struct ohca_wire_greeting g;
	struct ohca_wire_join j;

	memcpy(&g, buf, sizeof(g));
	join_fill(&j, cfg);
	prove(g.nonce, cfg->token, j.proof);
	return send_first(sock, &j, sizeof(j)) ?
	       link_err(err, OHCA_LINK_E_SYS, errno, "sending HELLO") : 0;
}

int link_tcp_connect_finish(int sock, const struct ohca_link_cfg *cfg, struct ohca_link **link,
		       struct ohca_link_err *err)
{
	uint8_t buf[OHCA_WIRE_MSG_MAX];
	struct ohca_link *l = NULL;
	struct ohca_link_cfg peer;
	struct ohca_wire_hello h;
	ssize_t n = recv_first(sock, buf, err);
	int type;

	if (!n)
		return 0;
	type = n > 0 ? link_check_hdr(buf, (size_t)n, err) : -1;
	if (type == OHCA_WIRE_GREETING && (size_t)n >= sizeof(struct ohca_wire_greeting)) {
		if (!link_tcp_answer(sock, buf, cfg, err))
			return 0;
	} else if (type >= 0 && !join_parse(buf, (size_t)n, &h, &peer, err)) {
		if (h.vls >= 1 && h.vls <= cfg->vl_cap && h.vls <= 15 &&
		    h.shift >= cfg->shift_min && h.shift <= cfg->shift_max)
			l = link_tcp_make(sock, cfg, h.vls, h.shift, err);
		else
			link_err(err, OHCA_LINK_E_PROTO, 0,
				 "the listener chose %u VLs, credit shift %u: not ours", h.vls,
				 h.shift);
	}
	if (!l) {
		link_close_sock(cfg->closer, sock);
		return -1;
	}
	l->peer = peer;
	*link = l;
	return 1;
}
