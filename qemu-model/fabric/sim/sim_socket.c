// SPDX-License-Identifier: GPL-2.0-or-later
/* The server's sockets and their addresses; see umad2sim.h. */
#include "sim_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/base/event.h"
#include "fabric/base/passed.h"

socklen_t fab_sim_address(const struct fab_sim *s, const char *suffix, struct sockaddr_un *un)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "%s:%s", s->name, suffix);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 2 + strlen(un->sun_path + 1));
}

static int bind_at(const struct fab_sim *s, const struct sockaddr *addr, socklen_t len,
		   uint32_t index)
{
	int fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (bind(fd, addr, len) ||
	    !fab_event_watch(s->epfd, EPOLL_CTL_ADD, fd, EPOLLIN, FAB_EVENT_SIM, index)) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

ssize_t fab_sim_recv(struct fab_sim *s, int fd, void *buf, size_t size, void *from, socklen_t *len)
{
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr m = { .msg_name = from, .msg_namelen = len ? *len : 0, .msg_iov = &iov,
			    .msg_iovlen = 1 };
	union fab_passed room;
	ssize_t n;

	fab_passed_expect(&m, &room);
	n = recvmsg(fd, &m, MSG_TRUNC | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -1;
	fab_passed_close(s->closer, &m);
	if (len)
		*len = m.msg_namelen;
	return n;
}

void fab_sim_close(struct fab_sim *s, int fd)
{
	/* what is in the socket would be closed with it, so nothing may be in it, or arrive */
	shutdown(fd, SHUT_RD);
	fab_sim_drain(s, fd);
	close(fd);
}

/* More datagrams than the receive buffer of a socket can have. */
#define MOST_DATAGRAMS	4096u

void fab_sim_drain(struct fab_sim *s, int fd)
{
	uint8_t byte;

	/*
	 * Bounded: without shutdown() the client itself may continue to send. An error of the
	 * socket is reported before what it has received.
	 */
	for (unsigned int i = 0; i < MOST_DATAGRAMS; i++)
		if (fab_sim_recv(s, fd, &byte, sizeof(byte), NULL, NULL) < 0 && errno == EAGAIN)
			break;
}

int fab_sim_bind_local(const struct fab_sim *s, const char *suffix, uint32_t index)
{
	struct sockaddr_un un;
	socklen_t len = fab_sim_address(s, suffix, &un);

	return bind_at(s, (struct sockaddr *)&un, len, index);
}

int fab_sim_bind_udp(const struct fab_sim *s, uint32_t above, uint32_t index)
{
	struct sockaddr_in in = s->at;

	in.sin_port = htons((uint16_t)(ntohs(in.sin_port) + above));
	return bind_at(s, (struct sockaddr *)&in, sizeof(in), index);
}
