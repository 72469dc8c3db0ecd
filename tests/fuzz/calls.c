// SPDX-License-Identifier: GPL-2.0-or-later
/* Descriptors of one thread; see calls.h. */
#include "calls.h"
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define FD_BASE		4000
#define FDS		320u
#define FILES		640u
#define MSGS		8u		/* that a socket stores before EAGAIN */
#define MSG_BYTES	512u
#define MSG_FDS		8u
#define BYTES		278u		/* that a stream stores, each sent alone, as in Linux */
#define PAGE		4096u

enum kind { NO_FILE, PACKETS, STREAM, EVENT, MEMORY };

struct msg {
	size_t len;
	unsigned int num;
	struct file *file[MSG_FDS];
	uint8_t data[MSG_BYTES];
};

/*
 * @refs: descriptors, messages that have it, and mappings
 * @peer: of a socket, NULL: it was closed; @shut: what shutdown() has ended, EPOLLIN and EPOLLOUT
 * @err: of the next call
 * @first, @num: messages, or bytes of a stream, that wait
 * @size, @seals: of memory; @pages: NULL while it is empty
 */
struct file {
	enum kind kind;
	unsigned int refs;
	struct file *peer;
	uint32_t shut;
	int err;
	unsigned int first, num;
	struct msg *msg;	/* [MSGS], kept until the end */
	size_t size;
	unsigned int seals;
	struct pages *pages;
};

static struct file files[FILES];
static struct {
	struct file *file;
	bool watched;
} fds[FDS];
static unsigned int num_open;

static int error(int e)
{
	errno = e;
	return -1;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "calls: %s\n", what);
	abort();
}

/* ---- descriptors ----------------------------------------------------------------- */

static struct file *file_of(int fd)
{
	must(fd >= FD_BASE && (unsigned int)(fd - FD_BASE) < FDS && fds[fd - FD_BASE].file,
	     "the descriptor is not open");
	return fds[fd - FD_BASE].file;
}

static struct file *socket_of(int fd, enum kind kind)
{
	struct file *f = file_of(fd);

	must(f->kind == kind, "the descriptor is not a socket of this type");
	return f;
}

/* Return: a new file without descriptors: the first one, whose memory is in the caches. */
static struct file *file_new(enum kind kind)
{
	struct file *f = files;

	while (f->kind)
		must(++f < files + FILES, "there are too many files");
	*f = (struct file){ .kind = kind, .msg = f->msg };
	return f;
}

static int fd_new(struct file *f)
{
	unsigned int i = 0;

	while (fds[i].file)
		if (++i == FDS)
			return error(EMFILE);
	fds[i].file = f;
	f->refs++;
	num_open++;
	return FD_BASE + (int)i;
}

static void file_put(struct file *f);

static void msg_drop(struct msg *m)
{
	for (unsigned int i = 0; i < m->num; i++)
		file_put(m->file[i]);
}

static void socket_end(struct file *f)
{
	struct file *peer = f->peer;

	if (peer) {
		peer->peer = NULL;
		peer->shut = EPOLLIN | EPOLLOUT;
		if (f->num)
			peer->err = ECONNRESET;
	}
	for (; f->kind == PACKETS && f->num; f->num--)
		msg_drop(&f->msg[f->first++ % MSGS]);
}

static void file_put(struct file *f)
{
	if (--f->refs)
		return;
	if (f->kind == PACKETS || f->kind == STREAM)
		socket_end(f);
	if (f->pages)
		pages_put(f->pages);
	f->kind = NO_FILE;
}

int call_close(int fd)
{
	struct file *f;

	/* other targets have real ones */
	if (fd < FD_BASE)
		return close(fd);
	f = file_of(fd);
	must(!fds[fd - FD_BASE].watched || f->refs == 1, "a closed descriptor is watched");
	fds[fd - FD_BASE].file = NULL;
	fds[fd - FD_BASE].watched = false;
	num_open--;
	file_put(f);
	return 0;
}

void calls_end(unsigned int n)
{
	must(num_open == n, "descriptors are open at the end");
	must(!pages_mapped(), "memory is mapped at the end");
}

int call_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	const struct file *f = file_of(fd);
	bool *watched = &fds[fd - FD_BASE].watched;

	must(epfd == CALL_EPOLL && f->kind != MEMORY, "epoll_ctl() of this descriptor");
	must(op == EPOLL_CTL_DEL || (op == EPOLL_CTL_ADD && ev->events), "epoll_ctl() to do this");
	if (*watched == (op == EPOLL_CTL_ADD))
		return error(*watched ? EEXIST : ENOENT);
	*watched = !*watched;
	return 0;
}

int call_eventfd(unsigned int value, int flags)
{
	must(!value && flags == (EFD_CLOEXEC | EFD_NONBLOCK), "eventfd() with these arguments");
	return fd_new(file_new(EVENT));
}

/* ---- sockets --------------------------------------------------------------------- */

int call_socketpair(int domain, int type, int protocol, int sv[2])
{
	const int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
	const enum kind kind = type == (SOCK_STREAM | flags) ? STREAM : PACKETS;
	struct file *a = file_new(kind), *b = file_new(kind);

	must(domain == AF_UNIX && !protocol &&
	     (kind == STREAM || type == (SOCK_SEQPACKET | flags)), "socketpair() of this type");
	a->peer = b;
	b->peer = a;
	sv[0] = fd_new(a);
	sv[1] = fd_new(b);
	must(sv[0] >= 0 && sv[1] >= 0, "there are too many descriptors");
	for (struct file *f = kind == PACKETS ? a : NULL; f; f = f == a ? b : NULL) {
		if (!f->msg)
			f->msg = malloc(MSGS * sizeof(*f->msg));
		must(f->msg, "out of memory");
	}
	return 0;
}

int call_shutdown(int fd, int how)
{
	struct file *f = file_of(fd);

	must(f->kind == PACKETS || f->kind == STREAM, "shutdown() of this descriptor");
	if (how != SHUT_WR)
		f->shut |= EPOLLIN;
	if (how != SHUT_RD)
		f->shut |= EPOLLOUT;
	if (f->peer && how != SHUT_WR)
		f->peer->shut |= EPOLLOUT;
	if (f->peer && how != SHUT_RD)
		f->peer->shut |= EPOLLIN;
	return 0;
}

/* The closer switches SO_LINGER of anything off before it closes it. */
int call_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	const struct linger *l = value;
	const struct file *f;

	/* other targets have real ones */
	if (fd < FD_BASE)
		return setsockopt(fd, level, name, value, len);
	f = file_of(fd);
	must(level == SOL_SOCKET && name == SO_LINGER && len == sizeof(*l) && !l->l_onoff,
	     "setsockopt() with these arguments");
	return f->kind == PACKETS || f->kind == STREAM ? 0 : error(ENOTSOCK);
}

/* Whether @f can send to its peer now; else errno is set. */
static bool may_send(struct file *f, int flags, unsigned int most)
{
	must(flags == (MSG_DONTWAIT | MSG_NOSIGNAL), "a send with these flags");
	errno = f->err;
	f->err = 0;
	if (!errno && (!f->peer || f->shut & EPOLLOUT))
		errno = EPIPE;
	else if (!errno && f->peer->num == most)
		errno = EAGAIN;
	return !errno;
}

ssize_t call_sendmsg(int fd, const struct msghdr *h, int flags)
{
	struct file *f = socket_of(fd, PACKETS);
	const struct cmsghdr *c = CMSG_FIRSTHDR(h);
	struct msg *m;

	must(h->msg_iovlen == 1 && h->msg_iov->iov_len <= MSG_BYTES && !h->msg_name, "a message");
	must(!c || (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    CMSG_SPACE(c->cmsg_len - CMSG_LEN(0)) == h->msg_controllen), "control data");
	if (!may_send(f, flags, MSGS))
		return -1;
	m = &f->peer->msg[(f->peer->first + f->peer->num++) % MSGS];
	m->len = h->msg_iov->iov_len;
	memcpy(m->data, h->msg_iov->iov_base, m->len);
	m->num = c ? (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int)) : 0;
	must(m->num <= MSG_FDS, "a message has more descriptors than there is room for");
	for (unsigned int i = 0; i < m->num; i++) {
		int sent;

		memcpy(&sent, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		m->file[i] = file_of(sent);
		m->file[i]->refs++;
	}
	return (ssize_t)m->len;
}

/* Puts descriptors for the files of @m into the control data of @h, as many as have room. */
static void take_files(struct msghdr *h, struct msg *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	const size_t room = c ? (h->msg_controllen - CMSG_LEN(0)) / sizeof(int) : 0;
	unsigned int n = 0;

	for (; n < m->num && n < room; n++) {
		const int fd = fd_new(m->file[n]);

		if (fd < 0)
			break;
		memcpy(CMSG_DATA(c) + n * sizeof(int), &fd, sizeof(int));
	}
	if (n < m->num)
		h->msg_flags |= MSG_CTRUNC;
	h->msg_controllen = n ? CMSG_SPACE(n * sizeof(int)) : 0;
	if (n)
		*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(n * sizeof(int)),
				       .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	msg_drop(m);
}

/* The message that waits at @f, or NULL: @ret is the result of the call. */
static struct msg *waiting(struct file *f, ssize_t *ret)
{
	if (!f->err && f->num)
		return &f->msg[f->first % MSGS];
	*ret = !f->err && f->shut & EPOLLIN ? 0 : error(f->err ? f->err : EAGAIN);
	f->err = 0;
	return NULL;
}

ssize_t call_recvmsg(int fd, struct msghdr *h, int flags)
{
	struct file *f = socket_of(fd, PACKETS);
	ssize_t n;
	struct msg *m = waiting(f, &n);

	must((flags & ~MSG_TRUNC) == (MSG_DONTWAIT | MSG_CMSG_CLOEXEC) && h->msg_iovlen == 1 &&
	     !h->msg_name, "recvmsg() with these arguments");
	h->msg_flags = 0;
	if (!m) {
		h->msg_controllen = 0;
		return n;
	}
	n = (ssize_t)(m->len < h->msg_iov->iov_len ? m->len : h->msg_iov->iov_len);
	memcpy(h->msg_iov->iov_base, m->data, (size_t)n);
	if ((size_t)n < m->len)
		h->msg_flags |= MSG_TRUNC;
	n = flags & MSG_TRUNC ? (ssize_t)m->len : n;
	f->first++;
	f->num--;
	take_files(h, m);
	return n;
}

/* A stream, whose bytes nobody reads. */
ssize_t call_send(int fd, const void *buf, size_t n, int flags)
{
	struct file *f = socket_of(fd, STREAM);

	must(n == 1 && buf, "send() of more than a byte");
	if (!may_send(f, flags, BYTES))
		return -1;
	f->peer->num++;
	return 1;
}

ssize_t call_recv(int fd, void *buf, size_t n, int flags)
{
	struct file *f = socket_of(fd, PACKETS);
	ssize_t ret;
	const struct msg *m = waiting(f, &ret);

	must(flags == (MSG_PEEK | MSG_DONTWAIT), "recv() with these flags");
	if (!m)
		return ret;
	n = m->len < n ? m->len : n;
	memcpy(buf, m->data, n);
	return (ssize_t)n;
}

/* ---- memfds ------------------------------------------------------------------------ */

static struct file *memory_of(int fd)
{
	struct file *f = file_of(fd);

	must(f->kind == MEMORY, "the descriptor is not memory");
	return f;
}

int call_memfd_create(const char *name, unsigned int flags)
{
	struct file *f = file_new(MEMORY);

	must(name && !(flags & ~(MFD_CLOEXEC | MFD_ALLOW_SEALING)), "memfd_create() of this kind");
	f->seals = flags & MFD_ALLOW_SEALING ? 0 : F_SEAL_SEAL;
	return fd_new(f);
}

int call_ftruncate(int fd, off_t size)
{
	struct file *f = memory_of(fd);
	const size_t n = (size_t)size;

	must(size >= 0 && (!f->pages || n <= pages_room(f->pages)),
	     "a memfd grows beyond its first size");
	if ((n < f->size && f->seals & F_SEAL_SHRINK) || (n > f->size && f->seals & F_SEAL_GROW))
		return error(EPERM);
	if (!f->pages && n)
		f->pages = pages_get(n);
	else if (n != f->size)
		pages_resize(f->pages, n);
	f->size = n;
	return 0;
}

int call_fcntl(int fd, int cmd, ...)
{
	struct file *f = file_of(fd);
	unsigned int seals;
	va_list ap;

	must(cmd == F_GET_SEALS || cmd == F_ADD_SEALS, "fcntl() of this kind");
	if (f->kind != MEMORY)
		return error(EINVAL);
	if (cmd == F_GET_SEALS)
		return (int)f->seals;
	va_start(ap, cmd);
	seals = va_arg(ap, unsigned int);
	va_end(ap);
	if (f->seals & F_SEAL_SEAL)
		return error(EPERM);
	f->seals |= seals;
	return 0;
}

int call_fstat(int fd, struct stat *st)
{
	const struct file *f = memory_of(fd);

	*st = (struct stat){ .st_mode = S_IFREG | 0600, .st_size = (off_t)f->size,
			     .st_blksize = PAGE };
	return 0;
}

int call_fstatfs(int fd, struct statfs *fs)
{
	memory_of(fd);
	*fs = (struct statfs){ .f_type = TMPFS_MAGIC, .f_bsize = PAGE };
	return 0;
}

ssize_t call_pwrite(int fd, const void *buf, size_t n, off_t at)
{
	struct file *f = memory_of(fd);
	const size_t end = (size_t)at + n;

	must(at >= 0 && f->pages && end <= pages_room(f->pages), "pwrite() beyond the first size");
	if (n && end > f->size && call_ftruncate(fd, (off_t)end))
		return -1;
	pages_write(f->pages, (size_t)at, buf, n);
	return (ssize_t)n;
}

void *call_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t at)
{
	struct file *f;

	if (flags & MAP_FIXED)
		return pages_cover(addr, (n + PAGE - 1) / PAGE * PAGE, prot, flags);
	f = memory_of(fd);
	must(!addr && !at && flags & MAP_SHARED && prot == (PROT_READ | PROT_WRITE) && n &&
	     f->pages, "mmap() with these arguments");
	f->refs++;
	return pages_map(f->pages, n, f);
}

int call_munmap(void *addr, size_t n)
{
	file_put(pages_unmap(addr, n));
	return 0;
}
