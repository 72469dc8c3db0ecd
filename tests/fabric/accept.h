/* SPDX-License-Identifier: GPL-2.0-or-later */
/* accept4() that fails, for programs that are linked with --wrap=accept4; any thread calls it. */
#ifndef ACCEPT_H
#define ACCEPT_H

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

static atomic_int fail_accept;	/* error of accept4(); 0: none */
static atomic_uint accepts;	/* that have failed */

int __real_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
	const int error = atomic_load(&fail_accept);

	if (!error)
		return __real_accept4(fd, from, len, flags);
	atomic_fetch_add(&accepts, 1);
	errno = error;
	return -1;
}

#endif
