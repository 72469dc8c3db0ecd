/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages with descriptors, for tests that are the peer of a UNIX socket. */
#ifndef TESTS_FDS_H
#define TESTS_FDS_H

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define FDS_MOST	32u	/* in a message */

/* Sends @n bytes with @fds descriptors, at most FDS_MOST. Return: as sendmsg(2). */
static inline ssize_t fds_send(int sock, const void *msg, size_t n, const int *fd, unsigned int fds,
			       int flags)
{
	union {
		char buf[CMSG_SPACE(FDS_MOST * sizeof(int))];
		struct cmsghdr align;
	} c = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)msg, .iov_len = n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cm;

	if (fds) {
		m.msg_control = c.buf;
		m.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		cm = CMSG_FIRSTHDR(&m);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(fds * sizeof(int));
		memcpy(CMSG_DATA(cm), fd, fds * sizeof(int));
	}
	return sendmsg(sock, &m, flags | MSG_NOSIGNAL);
}

#endif /* TESTS_FDS_H */
