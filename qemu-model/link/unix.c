// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * UNIX sockets of links. They have packets: the first one identifies the connection, and
 * descriptors may be passed with it.
 */
#include "link_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LOCK_MS	2000	/* wait for other processes that begin to listen in the same directory */

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

/* Remove a socket of @type without a listener, which a process has left when it crashed. */
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
	int64_t end = link_now_ms() + LOCK_MS;
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
		if ((errno != EWOULDBLOCK && errno != EINTR) || link_now_ms() >= end) {
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

int link_unix_listen(const char *path, struct ohca_link_err *err)
{
	return listen_unix(path, SOCK_SEQPACKET, err);
}

int ohca_link_listen_stream(const char *path, struct ohca_link_err *err)
{
	return listen_unix(path, SOCK_STREAM, err);
}

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
		if ((e != EAGAIN && e != EINTR) || link_now_ms() >= end)
			break;
		nanosleep(&pause, NULL);
	}
	switch (e) {
	case ENOENT:
		return link_err(err, OHCA_LINK_E_PATH, 0,
				"no fabric socket '%s': is ohca-fabric running?", sa->sun_path);
	case ECONNREFUSED:
		return link_err(err, OHCA_LINK_E_PATH, 0,
				"no process listens on '%s': is ohca-fabric running?", sa->sun_path);
	case EPROTOTYPE:
		return link_err(err, OHCA_LINK_E_PATH, 0, "'%s' is not a fabric socket",
				sa->sun_path);
	case EAGAIN:
		return link_err(err, OHCA_LINK_E_TIMEOUT, 0,
				"too many connections wait at '%s': try again", sa->sun_path);
	default:
		return link_err(err, OHCA_LINK_E_PATH, e, "cannot connect to '%s'",
				sa->sun_path);
	}
}

int link_unix_connect(const char *path, int timeout_ms, struct ohca_link_err *err)
{
	const int64_t end = link_now_ms() + timeout_ms;
	struct sockaddr_un sa;
	int sock;

	if (fill_addr(path, &sa, err))
		return -1;
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return link_err(err, OHCA_LINK_E_SYS, errno, "socket");
	if (!do_connect(sock, &sa, end, err))
		return sock;
	close(sock);
	return -1;
}
