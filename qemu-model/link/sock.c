// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Descriptors of a link, and descriptors that a peer passes although none are expected.
 */
#include "link_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_MOST	253	/* with a message (SCM_MAX_FD) */

void link_close(const struct ohca_link_closer *closer, int fd)
{
	if (fd < 0)
		return;
	if (closer)
		closer->close(closer->arg, fd);
	else
		close(fd);
}

void link_close_sock(const struct ohca_link_closer *closer, int fd)
{
	if (closer)
		shutdown(fd, SHUT_RDWR);
	link_close(closer, fd);
}

void ohca_link_close(const struct ohca_link_closer *closer, int fd)
{
	link_close_sock(closer, fd);
}

int link_send(int sock, const void *msg, size_t len)
{
	ssize_t n;

	do {
		n = send(sock, msg, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)len ? 0 : -1;
}

static void close_those_in(const struct cmsghdr *cm, const struct ohca_link_closer *closer)
{
	const size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(int));
		link_close(closer, fd);
	}
}

ssize_t link_recv(int sock, const struct ohca_link_closer *closer, void *buf, size_t size)
{
	union {
		char buf[CMSG_SPACE(FDS_MOST * sizeof(int))];
		struct cmsghdr align;
	} c;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = c.buf,
		.msg_controllen = sizeof(c.buf),
	};
	const ssize_t n = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return n;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&m); cm; cm = CMSG_NXTHDR(&m, cm))
		if (cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS)
			close_those_in(cm, closer);
	if (!(m.msg_flags & MSG_TRUNC))
		return n;
	errno = EMSGSIZE;
	return -1;
}
