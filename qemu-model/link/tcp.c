// SPDX-License-Identifier: GPL-2.0-or-later
/* TCP sockets of links: addresses, options. */
#include "link_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * A peer that does not answer at all, since its host or the network has failed, is lost after a
 * minute. So is a peer whose process is stopped, if our frames wait for it that long.
 */
#define DEAD_MS		60000
#define KEEP_IDLE_S	20
#define KEEP_INTVL_S	10

bool link_path_is_tcp(const char *path)
{
	return !strncmp(path, OHCA_LINK_TCP, strlen(OHCA_LINK_TCP));
}

bool link_is_tcp(int fd)
{
	socklen_t len = sizeof(int);
	int type = 0;

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM;
}

/* ---- addresses ----------------------------------------------------------------- */

/*
 * Split HOST:PORT, [ADDRESS]:PORT or PORT. Return: false: it is not valid, or too long. strtoul()
 * of a new glibc is a symbol that the glibc of an old host lacks, where libohca-umad.so must load.
 */
static bool split(const char *name, char *host, size_t size, uint16_t *port)
{
	const char *colon = strrchr(name, ':');
	const char *digits = colon ? colon + 1 : name;
	size_t n = colon ? (size_t)(colon - name) : 0;
	uint32_t number = 0;

	if (!colon) {
		name = "127.0.0.1";
		n = strlen(name);
	} else if (n > 1 && name[0] == '[' && name[n - 1] == ']') {
		name++;
		n -= 2;
	} else if (memchr(name, ':', n)) {
		return false;
	}
	if (!n || n >= size || !*digits || strspn(digits, "0123456789") != strlen(digits) ||
	    strlen(digits) > 5)
		return false;
	for (; *digits; digits++)
		number = number * 10 + (uint32_t)(*digits - '0');
	if (number > UINT16_MAX)
		return false;
	*port = (uint16_t)number;
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
	char host[256], service[6];
	uint16_t port;
	int e;

	if (!split(name, host, sizeof(host), &port))
		return link_err(err, OHCA_LINK_E_PATH, 0, "'%.80s' is not HOST:PORT", name);
	snprintf(service, sizeof(service), "%u", port);
	e = getaddrinfo(host, service, &hints, &found);
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

/* Parse the address of @path, which is numeric: this does not wait. Return: its length, or 0. */
static socklen_t address(const char *path, struct sockaddr_storage *sa, struct ohca_link_err *err)
{
	struct sockaddr_in6 *v6 = (void *)sa;
	struct sockaddr_in *v4 = (void *)sa;
	char host[INET6_ADDRSTRLEN];
	uint16_t port;
	bool ok;

	memset(sa, 0, sizeof(*sa));
	ok = split(path + strlen(OHCA_LINK_TCP), host, sizeof(host), &port);
	if (ok && inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		return sizeof(*v4);
	}
	if (ok && inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		return sizeof(*v6);
	}
	link_err(err, OHCA_LINK_E_PATH, 0, "'%.80s' is not tcp:ADDRESS:PORT", path);
	return 0;
}

/* ---- sockets ------------------------------------------------------------------- */

static void tcp_set(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value))) {
		/* The link is slower, or detects the loss of a peer later. */
	}
}

void link_tcp_prepare(int fd)
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

int link_tcp_connect(const char *path, struct ohca_link_err *err)
{
	struct sockaddr_storage sa;
	const socklen_t len = address(path, &sa, err);
	int fd;

	if (!len)
		return -1;
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		link_tcp_prepare(fd);
	if (fd < 0 || (connect(fd, (struct sockaddr *)&sa, len) && errno != EINPROGRESS)) {
		link_err(err, OHCA_LINK_E_PATH, errno, "cannot connect to '%s'", path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

void link_tcp_begun(int fd)
{
	if (link_is_tcp(fd))
		tcp_set(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
}
