/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A descriptor in a message that may have none. */
#ifndef PASS_H
#define PASS_H

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cases.h"

/* Sends the read end of a pipe, and closes it here. Return: the write end. */
static inline int pass_pipe(int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr hdr;
	} c = { .hdr = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
			 .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec iov = { .iov_base = &c, .iov_len = 1 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
			    .msg_controllen = sizeof(c.buf) };
	int ends[2];

	assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	memcpy(CMSG_DATA(&c.hdr), &ends[0], sizeof(int));
	assert_int_equal(sendmsg(fd, &h, 0), 1);
	close(ends[0]);
	return ends[1];
}

#endif
