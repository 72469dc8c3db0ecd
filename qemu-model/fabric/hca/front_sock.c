// SPDX-License-Identifier: GPL-2.0-or-later
/* Messages of a front's socket, as bytes and descriptors; see front_priv.h. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/base/passed.h"
#include "front_priv.h"

/*
 * Keep the only descriptor of message @h in @m. Return: how many there were; more than one is a
 * violation, and the closer closes the others.
 */
static unsigned int take_fds(struct fab_fronts *s, struct msghdr *h, struct front_msg *m)
{
	unsigned int n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		const size_t fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < fds; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (n++)
				fab_closer_close(s->cfg.closer, fd);
			else
				m->fd = fd;
		}
	}
	return n;
}

static const char *check_bytes(struct fab_fronts *s, const struct front_msg *m)
{
	const struct ohca_front_hdr *h = &s->in.hdr;
	const unsigned int version = le16toh(h->version);

	if (m->len > sizeof(s->in))
		return "a message is too long";
	if (m->len < sizeof(*h) || le32toh(h->magic) != OHCA_FRONT_MAGIC)
		return "a message is not of the front protocol";
	if (version != OHCA_FRONT_VERSION) {
		snprintf(s->why, sizeof(s->why), "QEMU uses version %u of the protocol of HCAs, "
			 "ohca-fabric uses %u: use QEMU and ohca-fabric of the same release", version,
			 OHCA_FRONT_VERSION);
		return s->why;
	}
	if (le32toh(h->len) != m->len)
		return "a message has a wrong length";
	return NULL;
}

int fab_front_recv(struct fab_fronts *s, int sock, struct front_msg *m, const char **why)
{
	struct iovec iov = { .iov_base = &s->in, .iov_len = sizeof(s->in) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	union fab_passed room;
	unsigned int fds;
	ssize_t n;

	fab_passed_expect(&h, &room);
	n = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	m->fd = -1;
	m->last = false;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	*why = NULL;
	if (n < 0)
		return -1;
	m->len = (size_t)n;
	/* a message without bytes may have descriptors, too */
	fds = take_fds(s, &h, m);
	/* descriptors for which this process has no room are left out */
	m->starved = h.msg_flags & MSG_CTRUNC;
	if (fds > 1)
		*why = "a message has more than one descriptor";
	else if (n || fds)
		*why = check_bytes(s, m);
	if (n && !*why)
		return 1;
	fab_front_drop_fd(s, m);
	return -1;
}

void fab_front_drop_fd(struct fab_fronts *s, struct front_msg *m)
{
	if (m->fd >= 0)
		fab_closer_close(s->cfg.closer, m->fd);
	m->fd = -1;
}

bool fab_front_send(int sock, struct ohca_front_hdr *msg, enum ohca_front_type type, size_t len,
		    uint32_t seq, const int *fds)
{
	union {
		char buf[CMSG_SPACE(OHCA_FRONT_FDS * sizeof(int))];
		struct cmsghdr align;
	} c;
	struct iovec iov = { .iov_base = msg, .iov_len = len };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cm;

	*msg = (struct ohca_front_hdr){
		.magic = htole32(OHCA_FRONT_MAGIC),
		.version = htole16(OHCA_FRONT_VERSION),
		.type = htole16((uint16_t)type),
		.len = htole32((uint32_t)len),
		.seq = seq,
	};
	if (fds) {
		memset(&c, 0, sizeof(c));
		h.msg_control = c.buf;
		h.msg_controllen = sizeof(c.buf);
		cm = CMSG_FIRSTHDR(&h);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(OHCA_FRONT_FDS * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, OHCA_FRONT_FDS * sizeof(int));
	}
	return sendmsg(sock, &h, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

void fab_front_refuse(int sock, int code, const char *text)
{
	struct ohca_front_error e = { .code = htole32((uint32_t)code) };

	strncpy((char *)e.text, text, sizeof(e.text) - 1);
	/* if it is lost the peer still detects the end of the socket */
	fab_front_send(sock, &e.hdr, OHCA_FRONT_ERROR, sizeof(e), 0, NULL);
}
