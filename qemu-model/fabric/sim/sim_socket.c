// SPDX-License-Identifier: GPL-2.0-or-later
/* The server's sockets and their addresses; see umad2sim.h. */
#include "sim_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/base/event.h"

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
