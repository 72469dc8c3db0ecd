// SPDX-License-Identifier: GPL-2.0-or-later
#include "vfio-user/socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Room in a control message is rounded up: one more descriptor may fit. */
#define VU_FDS_ROOM	CMSG_SPACE(VU_FDS * sizeof(int))

void vu_message_free(struct vu_message *m)
{
	while (m->fds)
		close(m->fd[--m->fds]);
	m->have = 0;
}

/*
 * Keep the descriptors of a control message; close those without room. Return: false: there were
 * such.
 */
static bool message_fds(struct vu_message *m, const struct cmsghdr *cm)
{
	const size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	bool fit = true;
	int fd;

	for (size_t i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(cm) + i * sizeof(fd), sizeof(fd));
		if (m->fds < VU_FDS) {
			m->fd[m->fds++] = fd;
		} else {
			close(fd);
			fit = false;
		}
	}
	return fit;
}

/* Return: bytes; 0: the end; -1 with errno: EMSGSIZE: it has more descriptors than are allowed. */
static ssize_t message_recv(int sock, struct vu_message *m, size_t want)
{
	union {
		char buf[VU_FDS_ROOM];
		struct cmsghdr align;
	} c;
	struct iovec iov = { .iov_base = m->byte + m->have, .iov_len = want };
	struct msghdr h = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = c.buf,
		.msg_controllen = sizeof(c.buf),
	};
	ssize_t n = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	bool fit = true;

	if (n < 0)
		return n;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&h); cm; cm = CMSG_NXTHDR(&h, cm))
		if (cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS)
			fit &= message_fds(m, cm);
	/* the kernel has closed the descriptors for which there was no room */
	if (h.msg_flags & MSG_CTRUNC || !fit) {
		errno = EMSGSIZE;
		return -1;
	}
	return n;
}

enum vu_got vu_socket_get(int sock, struct vu_message *m, const char **why)
{
	const uint32_t head = sizeof(m->hdr);
	ssize_t n;

	*why = "";
	do {
		n = message_recv(sock, m, (m->have < head ? head : m->hdr.size) - m->have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return VU_GOT_PART;
		if (n < 0)
			*why = errno == EMSGSIZE ?
				"it sent more than 16 descriptors at a time, or the limit of open files is reached" :
				strerror(errno);
		else if (!n && m->have)
			*why = "it disconnected within a message";
		if (n <= 0)
			return VU_GOT_END;
		m->have += (uint32_t)n;
		if (m->have == head && (m->hdr.size < head || m->hdr.size > VU_MESSAGE))
			*why = "it sent a message of an invalid size";
		else if (m->have == head && (m->hdr.flags & VU_TYPE) != VU_TYPE_COMMAND)
			*why = "it sent a message that is not a command";
		if (**why)
			return VU_GOT_END;
	} while (m->have < head || m->have < m->hdr.size);
	return VU_GOT_MESSAGE;
}

/* Advance @h by @n bytes. */
static void iov_skip(struct msghdr *h, size_t n)
{
	while (h->msg_iovlen && n >= h->msg_iov->iov_len) {
		n -= h->msg_iov->iov_len;
		h->msg_iov++;
		h->msg_iovlen--;
	}
	if (h->msg_iovlen) {
		h->msg_iov->iov_base = (char *)h->msg_iov->iov_base + n;
		h->msg_iov->iov_len -= n;
	}
}

bool vu_socket_reply(int sock, const struct vu_hdr *h, int error, const void *head, size_t head_len,
		     const void *data, size_t len)
{
	struct vu_hdr r = {
		.id = h->id,
		.command = h->command,
		.size = (uint32_t)(sizeof(r) + (error ? 0 : head_len + len)),
		.flags = VU_TYPE_REPLY | (error ? VU_ERROR : 0),
		.error = (uint32_t)error,
	};
	struct iovec iov[3] = {
		{ &r, sizeof(r) },
		{ (void *)(uintptr_t)head, error ? 0 : head_len },
		{ (void *)(uintptr_t)data, error ? 0 : len },
	};
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 3 };
	struct pollfd p = { .fd = sock, .events = POLLOUT };

	if (h->flags & VU_NO_REPLY)
		return true;
	iov_skip(&m, 0);
	while (m.msg_iovlen) {
		ssize_t n = sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0)
			iov_skip(&m, (size_t)n);
		else if (errno == EAGAIN && poll(&p, 1, VU_SEND_MS) != 1)
			return false;
		else if (errno != EAGAIN && errno != EINTR)
			return false;
	}
	return true;
}
