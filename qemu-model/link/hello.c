// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Establishing a link: listening, connecting, the HELLO. tcp.c has what TCP does instead.
 */
#include "link_priv.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define NFDS	3	/* memfd, the listener's wake-up pipe, the connector's wake-up pipe */

#define LOCK_MS	2000	/* for others that begin to listen in the same directory */

static int64_t hello_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void ohca_link_cfg_init(struct ohca_link_cfg *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	cfg->node_type = 1;
	cfg->port_num = 1;
	cfg->vl_cap = 8;
	cfg->mtu_cap = 5;
	cfg->shift_max = OHCA_LINK_SHIFT_MAX;
	cfg->shift_pref = OHCA_LINK_SHIFT_DEFAULT;
	cfg->width_sup = 1 | 2;
	cfg->speed_sup = 1 | 2 | 4;
	cfg->speed_ext_sup = 1 | 2;
}

int link_check_cfg(const struct ohca_link_cfg *c, const char *whose, struct ohca_link_err *err)
{
	if (c->vl_cap != 1 && c->vl_cap != 2 && c->vl_cap != 4 && c->vl_cap != 8 &&
	    c->vl_cap != 15)
		return link_err(err, OHCA_LINK_E_CONFIG, 0, "%s port has %u data VLs", whose,
				c->vl_cap);
	if (c->mtu_cap < 1 || c->mtu_cap > 5)
		return link_err(err, OHCA_LINK_E_CONFIG, 0, "%s port has MTU code %u", whose,
				c->mtu_cap);
	if (c->shift_min > c->shift_max || c->shift_max > OHCA_LINK_SHIFT_MAX)
		return link_err(err, OHCA_LINK_E_CONFIG, 0, "%s port has credit shifts %u-%u",
				whose, c->shift_min, c->shift_max);
	return 0;
}

/* ---- HELLO messages ------------------------------------------------------------ */

void link_hello_fill(struct ohca_wire_hello *h, const struct ohca_link_cfg *c)
{
	memset(h, 0, sizeof(*h));
	link_hdr_init(&h->hdr, OHCA_WIRE_HELLO, sizeof(*h));
	h->features = htole64(OHCA_WIRE_FEAT_SHM);
	h->node_guid = htole64(c->node_guid);
	h->port_guid = htole64(c->port_guid);
	h->node_type = c->node_type;
	h->port_num = c->port_num;
	h->want_port = c->want_port;
	h->vl_cap = c->vl_cap;
	h->mtu_cap = c->mtu_cap;
	h->shift_min = c->shift_min;
	h->shift_max = c->shift_max;
	h->shift_pref = c->shift_pref;
	h->width_sup = c->width_sup;
	h->speed_sup = c->speed_sup;
	h->speed_ext_sup = c->speed_ext_sup;
	for (size_t i = 0; i < sizeof(h->desc) && c->desc[i]; i++)
		h->desc[i] = (uint8_t)c->desc[i];
}

int link_hello_parse(const void *buf, size_t len, uint64_t feature, struct ohca_wire_hello *h,
		     struct ohca_link_cfg *c, struct ohca_link_err *err)
{
	int type = link_check_hdr(buf, len, err);

	if (type < 0)
		return -1;
	if (type != OHCA_WIRE_HELLO || len < sizeof(*h))
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer sent message type %d of %zu bytes instead of HELLO",
				type, len);
	memcpy(h, buf, sizeof(*h));
	if (!(le64toh(h->features) & feature))
		return link_err(err, OHCA_LINK_E_CONFIG, 0, "the peer cannot use %s",
				feature == OHCA_WIRE_FEAT_SHM ? "shared-memory rings" :
				"a stream");
	memset(c, 0, sizeof(*c));
	c->node_guid = le64toh(h->node_guid);
	c->port_guid = le64toh(h->port_guid);
	c->node_type = h->node_type;
	c->port_num = h->port_num;
	c->want_port = h->want_port;
	c->vl_cap = h->vl_cap;
	c->mtu_cap = h->mtu_cap;
	c->shift_min = h->shift_min;
	c->shift_max = h->shift_max;
	c->shift_pref = h->shift_pref;
	c->width_sup = h->width_sup;
	c->speed_sup = h->speed_sup;
	c->speed_ext_sup = h->speed_ext_sup;
	for (size_t i = 0; i + 1 < sizeof(c->desc) && h->desc[i]; i++)
		c->desc[i] = h->desc[i] >= 0x20 && h->desc[i] < 0x7f ? (char)h->desc[i] : '?';
	return link_check_cfg(c, "the peer's", err);
}

/* ---- listening side ------------------------------------------------------------ */

static int fill_addr(const char *path, struct sockaddr_un *sa, struct ohca_link_err *err)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	if (!*path)
		return link_err(err, OHCA_LINK_E_PATH, 0, "the socket's path is empty");
	if (strlen(path) >= sizeof(sa->sun_path))
		return link_err(err, OHCA_LINK_E_PATH, 0,
				"socket path '%.60s...' has %zu characters, the limit is %zu",
				path, strlen(path), sizeof(sa->sun_path) - 1);
	strcpy(sa->sun_path, path);
	return 0;
}

/* Removes a socket of @type without a listener, which a process that died has left. */
static int remove_stale(const char *path, const struct sockaddr_un *sa, int type,
			struct ohca_link_err *err)
{
	struct stat st;
	int fd, e;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 :
		       link_err(err, OHCA_LINK_E_PATH, errno, "cannot listen on '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return link_err(err, OHCA_LINK_E_PATH, 0,
				"cannot listen on '%s': it exists and is not a socket", path);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return link_err(err, OHCA_LINK_E_SYS, errno, "socket");
	e = connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) ? errno : 0;
	close(fd);
	if (e != ECONNREFUSED)
		return link_err(err, OHCA_LINK_E_PATH, 0,
				"cannot listen on '%s': %s", path,
				e == 0 || e == EAGAIN || e == EPROTOTYPE ?
				"another process listens there" : strerror(e));
	if (unlink(path))
		return link_err(err, OHCA_LINK_E_PATH, errno,
				"cannot replace the stale socket '%s'", path);
	return 0;
}

int ohca_link_lock_dir(const char *path, struct ohca_link_err *err)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const char *slash = strrchr(path, '/');
	int64_t end = hello_now_ms() + LOCK_MS;
	struct sockaddr_un sa;		/* room for any path that fits */
	int fd;

	if (slash)
		snprintf(sa.sun_path, sizeof(sa.sun_path), "%.*s", (int)(slash - path) + 1, path);
	else
		strcpy(sa.sun_path, ".");
	fd = open(sa.sun_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return link_err(err, OHCA_LINK_E_PATH, errno, "cannot listen on '%s'", path);
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || hello_now_ms() >= end) {
			link_err(err, OHCA_LINK_E_PATH, errno, "cannot lock '%s'", sa.sun_path);
			close(fd);
			return -1;
		}
		nanosleep(&pause, NULL);
	}
	return fd;
}

static int listen_unix(const char *path, int type, struct ohca_link_err *err)
{
	struct sockaddr_un sa;
	int fd = -1, dir;

	if (fill_addr(path, &sa, err))
		return -1;
	dir = ohca_link_lock_dir(path, err);
	if (dir < 0)
		return -1;
	if (remove_stale(path, &sa, type, err))
		goto out;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		link_err(err, OHCA_LINK_E_SYS, errno, "socket");
	} else if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 64)) {
		link_err(err, OHCA_LINK_E_PATH, errno, "cannot listen on '%s'", path);
		close(fd);
		fd = -1;
	}
out:
	close(dir);
	return fd;
}

int ohca_link_listen(const char *path, struct ohca_link_err *err)
{
	return link_tcp_path(path) ? link_tcp_listen(path, err) :
				     listen_unix(path, SOCK_SEQPACKET, err);
}

int ohca_link_listen_stream(const char *path, struct ohca_link_err *err)
{
	return listen_unix(path, SOCK_STREAM, err);
}

void ohca_link_hello_reject(int fd, int code, const char *text)
{
	if (link_tcp_is_stream(fd))
		link_tcp_send_error(fd, code, text);
	else
		link_send_error(fd, code, text);
}

int ohca_link_hello_recv(int fd, const struct ohca_link_closer *closer, struct ohca_link_cfg *peer,
			 struct ohca_link_err *err)
{
	struct ohca_link_err e;
	struct ohca_wire_hello h;
	uint8_t buf[OHCA_WIRE_MSG_MAX];
	ssize_t n;

	if (link_tcp_is_stream(fd))
		return link_tcp_hello_recv(fd, peer, err);
	n = link_recv(fd, closer, buf, sizeof(buf), NULL, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return link_err(err, OHCA_LINK_E_SYS, errno, "receiving HELLO");
	if (n == 0)
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer closed the socket before its HELLO");
	if ((size_t)n > sizeof(buf))
		link_err(&e, OHCA_LINK_E_PROTO, 0, "HELLO of %zd bytes", n);
	else if (!link_hello_parse(buf, (size_t)n, OHCA_WIRE_FEAT_SHM, &h, peer, &e))
		return 1;
	link_send_error(fd, e.code, e.text);
	if (err)
		*err = e;
	return -1;
}

static int send_hello_fds(int sock, const struct ohca_wire_hello *h, const int fds[NFDS])
{
	union {
		char buf[CMSG_SPACE(NFDS * sizeof(int))];
		struct cmsghdr align;
	} c;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)h, .iov_len = sizeof(*h) };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = c.buf,
		.msg_controllen = sizeof(c.buf),
	};
	struct cmsghdr *cm;

	memset(&c, 0, sizeof(c));
	cm = CMSG_FIRSTHDR(&m);
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(NFDS * sizeof(int));
	memcpy(CMSG_DATA(cm), fds, NFDS * sizeof(int));
	return sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*h) ? 0 : -1;
}

/*
 * O_NONBLOCK belongs to the open file description, which is shared
 * with a passed descriptor. So each end opens the pipes anew, for itself alone: to read
 * and to write, so that it never sees the end of file of a peer that closed its own.
 * The peer may have passed any descriptor; only a pipe has this name, and reading the name
 * accesses no file system.
 */
static int wake_open(int fd, struct ohca_link_err *err)
{
	char name[16] = "", proc[32];
	ssize_t n;
	int own;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	n = readlink(proc, name, sizeof(name) - 1);
	if (n < 0)
		return link_err(err, OHCA_LINK_E_SYS, errno, "reading %s", proc);
	if (strncmp(name, "pipe:[", 6))
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer passed something that is no pipe");
	own = open(proc, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return own >= 0 ? own : link_err(err, OHCA_LINK_E_SYS, errno, "opening the wake-up pipe");
}

/* Creates a pipe for the peer in *@pass, and our own descriptor. The peer may be another user. */
static int wake_create(int *pass, struct ohca_link_err *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC | O_NONBLOCK))
		return link_err(err, OHCA_LINK_E_SYS, errno, "creating a wake-up pipe");
	close(p[1]);
	*pass = p[0];
	if (fchmod(p[0], 0666))
		return link_err(err, OHCA_LINK_E_SYS, errno, "fchmod of a wake-up pipe");
	return wake_open(p[0], err);
}

int link_hello_agree(const struct ohca_link_cfg *c, const struct ohca_link_cfg *peer,
		     unsigned int *vls, unsigned int *shift, struct ohca_link_err *err)
{
	const unsigned int lo = c->shift_min > peer->shift_min ? c->shift_min : peer->shift_min;
	const unsigned int hi = c->shift_max < peer->shift_max ? c->shift_max : peer->shift_max;

	if (link_check_cfg(c, "our", err))
		return -1;
	if (lo > hi)
		return link_err(err, OHCA_LINK_E_CONFIG, 0,
				"no common credit shift: peer %u-%u, listener %u-%u",
				peer->shift_min, peer->shift_max, c->shift_min, c->shift_max);
	*shift = c->shift_pref < lo ? lo : c->shift_pref > hi ? hi : c->shift_pref;
	*vls = c->vl_cap < peer->vl_cap ? c->vl_cap : peer->vl_cap;
	return 0;
}

/* The link is made: of what was passed with HELLO it keeps the memory, if somebody else closes it. */
static void link_keep(struct ohca_link *l, const int fds[NFDS])
{
	const unsigned int keep = l->cfg.closer ? 1 : 0;

	if (keep)
		l->mem = fds[0];
	link_close_all(l->cfg.closer, fds + keep, NFDS - keep);
}

struct ohca_link *ohca_link_hello_reply(int fd, const struct ohca_link_cfg *peer,
					const struct ohca_link_cfg *cfg,
					struct ohca_link_err *err)
{
	unsigned int vls, shift;
	int fds[NFDS] = { -1, -1, -1 }, my_wake = -1, peer_wake = -1;
	struct ohca_link *l = NULL;
	struct ohca_link_err e;
	struct ohca_wire_hello h;
	struct shm_map map = { 0 };

	if (link_tcp_is_stream(fd))
		return link_tcp_hello_reply(fd, peer, cfg, err);
	if (link_hello_agree(cfg, peer, &vls, &shift, &e))
		goto fail;
	fds[0] = shm_create(vls, shift);
	if (fds[0] < 0) {
		link_err(&e, OHCA_LINK_E_SYS, errno, "creating shared memory");
		goto fail;
	}
	my_wake = wake_create(&fds[1], &e);
	if (my_wake < 0)
		goto fail;
	peer_wake = wake_create(&fds[2], &e);
	if (peer_wake < 0)
		goto fail;
	if (shm_attach(&map, fds[0], vls, shift, 0, &e))
		goto fail;
	l = link_new(&map, true, vls, shift);
	if (!l) {
		link_err(&e, OHCA_LINK_E_SYS, ENOMEM, "allocating the link");
		goto fail;
	}
	link_hello_fill(&h, cfg);
	h.vls = (uint8_t)vls;
	h.shift = (uint8_t)shift;
	h.mem_size = htole64(shm_size(vls, shift));
	if (send_hello_fds(fd, &h, fds)) {
		link_err(&e, OHCA_LINK_E_SYS, errno, "sending HELLO");
		goto fail;
	}
	l->my_wake = my_wake;
	l->peer_wake = peer_wake;
	l->sock = fd;
	l->cfg = *cfg;
	l->peer = *peer;
	link_keep(l, fds);
	return l;
fail:
	link_send_error(fd, e.code, e.text);
	if (err)
		*err = e;
	free(l);
	shm_detach(&map);
	link_close_all(cfg->closer, fds, NFDS);
	link_close_all(cfg->closer, (int[]){ my_wake, peer_wake }, 2);
	link_close_sock(cfg->closer, fd);
	return NULL;
}

static int wait_readable(int fd, int64_t end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left = end - hello_now_ms();

	return poll(&p, 1, left > 0 ? (int)left : 0);
}

/* ---- connecting side ----------------------------------------------------------- */

static int do_connect(int fd, const struct sockaddr_un *sa, int64_t end,
		      struct ohca_link_err *err)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	int e;

	for (;;) {
		if (!connect(fd, (const struct sockaddr *)sa, sizeof(*sa)))
			return 0;
		e = errno;
		/* EAGAIN: the listener's backlog is full. */
		if ((e != EAGAIN && e != EINTR) || hello_now_ms() >= end)
			break;
		nanosleep(&pause, NULL);
	}
	switch (e) {
	case ENOENT:
		return link_err(err, OHCA_LINK_E_PATH, 0,
				"no fabric socket '%s': is ohca-fabric running?", sa->sun_path);
	case ECONNREFUSED:
		return link_err(err, OHCA_LINK_E_PATH, 0,
				"nobody listens on '%s': is ohca-fabric running?", sa->sun_path);
	case EPROTOTYPE:
		return link_err(err, OHCA_LINK_E_PATH, 0, "'%s' is not a fabric socket",
				sa->sun_path);
	case EAGAIN:
		return link_err(err, OHCA_LINK_E_TIMEOUT, 0,
				"'%s' has all the connections waiting that it can", sa->sun_path);
	default:
		return link_err(err, OHCA_LINK_E_PATH, e, "cannot connect to '%s'",
				sa->sun_path);
	}
}

int ohca_link_connect_finish(int sock, const struct ohca_link_cfg *cfg, struct ohca_link **link,
			     struct ohca_link_err *err)
{
	int fds[NFDS] = { -1, -1, -1 }, my_wake = -1, peer_wake = -1;
	uint8_t buf[OHCA_WIRE_MSG_MAX];
	struct ohca_link *l = NULL;
	struct ohca_link_cfg peer;
	struct ohca_wire_hello h;
	struct shm_map map = { 0 };
	ssize_t n;

	if (link_tcp_is_stream(sock))
		return link_tcp_connect_finish(sock, cfg, link, err);
	n = link_recv(sock, cfg->closer, buf, sizeof(buf), fds, NFDS);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0) {
		link_err(err, OHCA_LINK_E_SYS, errno, "receiving HELLO");
		goto fail;
	}
	if (n == 0 || (size_t)n > sizeof(buf)) {
		link_err(err, OHCA_LINK_E_PROTO, 0, n ? "the listener's HELLO is too long" :
			 "the listener closed the socket without an answer");
		goto fail;
	}
	if (link_hello_parse(buf, (size_t)n, OHCA_WIRE_FEAT_SHM, &h, &peer, err))
		goto fail;
	if (h.vls < 1 || h.vls > cfg->vl_cap || h.vls > 15 || h.shift < cfg->shift_min ||
	    h.shift > cfg->shift_max || le64toh(h.mem_size) != shm_size(h.vls, h.shift)) {
		link_err(err, OHCA_LINK_E_PROTO, 0,
			 "the listener chose %u VLs, credit shift %u, %llu bytes: not ours",
			 h.vls, h.shift, (unsigned long long)le64toh(h.mem_size));
		goto fail;
	}
	if (fds[2] < 0) {
		link_err(err, OHCA_LINK_E_PROTO, 0,
			 "the listener did not pass memory and pipes");
		goto fail;
	}
	peer_wake = wake_open(fds[1], err);
	if (peer_wake < 0)
		goto fail;
	my_wake = wake_open(fds[2], err);
	if (my_wake < 0 || shm_attach(&map, fds[0], h.vls, h.shift, 1, err))
		goto fail;
	l = link_new(&map, false, h.vls, h.shift);
	if (!l) {
		link_err(err, OHCA_LINK_E_SYS, ENOMEM, "allocating the link");
		shm_detach(&map);
		goto fail;
	}
	l->peer_wake = peer_wake;
	l->my_wake = my_wake;
	l->sock = sock;
	l->cfg = *cfg;
	l->peer = peer;
	link_keep(l, fds);
	*link = l;
	return 1;
fail:
	link_close_all(cfg->closer, fds, NFDS);
	link_close_all(cfg->closer, (int[]){ my_wake, peer_wake }, 2);
	link_close_sock(cfg->closer, sock);
	return -1;
}

int ohca_link_connect_start(const char *path, const struct ohca_link_cfg *cfg, int timeout_ms,
			    struct ohca_link_err *err)
{
	int64_t end = hello_now_ms() + timeout_ms;
	struct ohca_wire_hello h;
	struct sockaddr_un sa;
	int sock;

	if (link_tcp_path(path))
		return link_check_cfg(cfg, "our", err) ? -1 : link_tcp_connect_start(path, err);
	if (link_check_cfg(cfg, "our", err) || fill_addr(path, &sa, err))
		return -1;
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return link_err(err, OHCA_LINK_E_SYS, errno, "socket");
	if (do_connect(sock, &sa, end, err))
		goto fail;
	link_hello_fill(&h, cfg);
	if (link_send(sock, &h, sizeof(h))) {
		link_err(err, OHCA_LINK_E_SYS, errno, "sending HELLO");
		goto fail;
	}
	return sock;
fail:
	link_close_sock(cfg->closer, sock);
	return -1;
}

struct ohca_link *ohca_link_connect(const char *path, const struct ohca_link_cfg *cfg,
				    int timeout_ms, struct ohca_link_err *err)
{
	int64_t end = hello_now_ms() + timeout_ms;
	int sock = ohca_link_connect_start(path, cfg, timeout_ms, err);
	struct ohca_link *l = NULL;

	if (sock < 0)
		return NULL;
	while (!ohca_link_connect_finish(sock, cfg, &l, err)) {
		if (wait_readable(sock, end) <= 0 && hello_now_ms() >= end) {
			link_err(err, OHCA_LINK_E_TIMEOUT, 0,
				 "the listener did not answer our HELLO in time");
			link_close_sock(cfg->closer, sock);
			return NULL;
		}
	}
	return l;
}

/* ---- both ---------------------------------------------------------------------- */

void ohca_link_free(struct ohca_link *l)
{
	if (!l)
		return;
	if (l->sock >= 0)
		link_close_sock(l->cfg.closer, l->sock);
	link_close_all(l->cfg.closer, (int[]){ l->my_wake, l->peer_wake }, 2);
	link_stream_free(l);
	shm_detach(&l->map);
	/* its pages are still there, so that whoever closes it frees them */
	link_close_all(l->cfg.closer, &l->mem, 1);
	free(l);
}

const struct ohca_link_cfg *ohca_link_peer(const struct ohca_link *l)
{
	return &l->peer;
}

unsigned int ohca_link_vls(const struct ohca_link *l)
{
	return l->vls;
}
