// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "fake_daemon.h"

#include <endian.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "fds.h"

#define MUST(x)	do { \
	if (!(x)) { \
		perror(#x); \
		abort(); \
	} \
} while (0)

static const struct ohca_db_sizes sizes = { .max = { 128, 64, 256 }, .uars = 8 };

static void header(struct answer *a, unsigned int type, uint32_t seq)
{
	a->msg.hdr = (struct ohca_front_hdr) {
		.magic = htole32(OHCA_FRONT_MAGIC),
		.version = htole16(OHCA_FRONT_VERSION),
		.type = htole16((uint16_t)type),
		.len = htole32((uint32_t)a->len),
		.seq = seq,
	};
}

static void answer(struct daemon *l, struct answer *a)
{
	if (l->change)
		l->change(l, a);
	if (!a->silent)
		/* a front that has given up does not read it */
		(void)!fds_send(l->sock, a->msg.byte, a->len, a->fd, a->fds, 0);
	if (a->close)
		shutdown(l->sock, SHUT_RDWR);
}

/* Receives a message. Return: its bytes, or 0 if the front has closed. */
static size_t receive(struct daemon *l, void *buf, size_t size, bool *fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = c.buf,
		.msg_controllen = sizeof(c.buf),
	};
	ssize_t n = recvmsg(l->sock, &m, MSG_CMSG_CLOEXEC);
	struct cmsghdr *cm = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	int got;

	*fd = cm;
	if (cm) {
		memcpy(&got, CMSG_DATA(cm), sizeof(got));
		close(got);
	}
	return n > 0 ? (size_t)n : 0;
}

static void *serve(void *arg)
{
	struct daemon *l = arg;
	struct ohca_front_hdr h;
	struct answer a = { .len = sizeof(a.msg.welcome), .fds = OHCA_FRONT_FDS };
	unsigned char buf[OHCA_FRONT_MAX];

	l->sock = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
	MUST(l->sock >= 0);
	if (receive(l, &l->hello, sizeof(l->hello), &l->dm) != sizeof(l->hello))
		return NULL;
	header(&a, OHCA_FRONT_WELCOME, l->hello.hdr.seq);
	a.msg.welcome.page_bytes = htole64(l->bytes);
	for (unsigned int i = 0; i < OHCA_DB_NUM; i++)
		a.msg.welcome.max[i] = htole32(sizes.max[i]);
	a.msg.welcome.uars = htole32(sizes.uars);
	a.fd[OHCA_FRONT_FD_PAGE] = l->memfd;
	a.fd[OHCA_FRONT_FD_WAKE] = l->wake;
	a.fd[OHCA_FRONT_FD_IRQ] = l->irq[1];
	answer(l, &a);
	while ((l->len = receive(l, buf, sizeof(buf), &l->fd))) {
		memcpy(&h, buf, sizeof(h));
		l->calls++;
		l->type = le16toh(h.type);
		a = (struct answer) { .len = sizeof(a.msg.done) };
		a.msg.done.status = htole32(OHCA_FRONT_OK);
		a.msg.done.value = htole64(l->value);
		header(&a, OHCA_FRONT_DONE, h.seq);
		answer(l, &a);
	}
	return NULL;
}

void daemon_open(struct daemon *l, void (*change)(struct daemon *l, struct answer *a))
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	memset(l, 0, sizeof(*l));
	l->change = change;
	l->bytes = OHCA_PAGE_BYTES(ohca_doorbells_bytes(&sizes));
	strcpy(l->dir, "/tmp/ohca-front-XXXXXX");
	MUST(mkdtemp(l->dir));
	snprintf(l->path, sizeof(l->path), "%s/fabric", l->dir);
	strcpy(sa.sun_path, l->path);
	l->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	MUST(!bind(l->listener, (struct sockaddr *)&sa, sizeof(sa)) && !listen(l->listener, 1));
	l->memfd = memfd_create("ohca-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	MUST(!ftruncate(l->memfd, (off_t)l->bytes) &&
	     !fcntl(l->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	l->page = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, l->memfd, 0);
	MUST(l->page != MAP_FAILED);
	ohca_doorbells_place(&l->db, &sizes, (unsigned char *)l->page + OHCA_PAGE_DOORBELLS);
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	MUST(l->wake >= 0);
	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, l->irq));
	MUST(!pthread_create(&l->thread, NULL, serve, l));
}

void daemon_hang_up(struct daemon *l)
{
	shutdown(l->sock, SHUT_RDWR);
}

void daemon_send(struct daemon *l, const void *msg, size_t len)
{
	MUST(send(l->sock, msg, len, 0) == (ssize_t)len);
}

void daemon_close(struct daemon *l)
{
	/*
	 * the thread ends when the front has closed; a front that never connected must not connect
	 * now
	 */
	shutdown(l->listener, SHUT_RDWR);
	pthread_join(l->thread, NULL);
	munmap(l->page, l->bytes);
	close(l->listener);
	close(l->sock);
	close(l->memfd);
	close(l->wake);
	close(l->irq[0]);
	close(l->irq[1]);
	unlink(l->path);
	rmdir(l->dir);
}
