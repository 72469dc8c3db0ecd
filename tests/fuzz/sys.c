/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The system calls of a link: descriptors, sockets and pipes. See sys.h; sys_mem.c has memory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys_priv.h"

#define FD_BASE		1000
#define FDS		64
#define OBJECTS		64
#define PIPE_BYTES	65536u

static struct object *open_fd[FDS];
static struct object object[OBJECTS];
static unsigned int num_open;

static struct object *object_new(enum kind kind)
{
	for (unsigned int i = 0; i < OBJECTS; i++) {
		struct object *o = &object[i];

		if (o->refs)
			continue;
		o->kind = kind;
		o->refs = 1;
		o->peer = NULL;
		o->err = 0;
		o->shut = false;
		o->orphan = false;
		o->first = 0;
		o->num = 0;
		o->bytes = 0;
		o->seals = 0;
		o->size = 0;
		o->mem = NULL;
		return o;
	}
	abort();
}

static void put_object(struct object *o)
{
	struct object *peer = o->peer;

	if (--o->refs)
		return;
	if (peer) {
		peer->peer = NULL;
		peer->orphan = true;
		if (o->num)
			peer->err = ECONNRESET;
	}
	for (; o->num; o->num--, o->first++)
		for (unsigned int i = 0; i < o->msg[o->first % MSGS].nfds; i++)
			put_object(o->msg[o->first % MSGS].fd[i]);
	if (o->mem)
		sys_mem_put(o->mem);
}

/* The lowest number, as POSIX has it. */
static int fd_new(struct object *o)
{
	for (int i = 0; i < FDS; i++) {
		if (open_fd[i])
			continue;
		open_fd[i] = o;
		num_open++;
		return FD_BASE + i;
	}
	abort();
}

struct object *sys_object(int fd)
{
	if (fd >= FD_BASE && fd < FD_BASE + FDS && open_fd[fd - FD_BASE])
		return open_fd[fd - FD_BASE];
	/* nobody uses a descriptor that is not open */
	fprintf(stderr, "sys: descriptor %d is not open\n", fd);
	abort();
}

static int error(int e)
{
	errno = e;
	return -1;
}

int sys_close(int fd)
{
	put_object(sys_object(fd));
	open_fd[fd - FD_BASE] = NULL;
	num_open--;
	return 0;
}

void sys_end(void)
{
	if (num_open) {
		fprintf(stderr, "sys: %u descriptors are open at the end\n", num_open);
		abort();
	}
	sys_mem_end();
}

/* ---- sockets ------------------------------------------------------------------- */

int sys_socketpair(int domain, int type, int protocol, int sv[2])
{
	struct object *a = object_new(SOCKET), *b = object_new(SOCKET);

	(void)domain;
	(void)type;
	(void)protocol;
	a->peer = b;
	b->peer = a;
	sv[0] = fd_new(a);
	sv[1] = fd_new(b);
	return 0;
}

static ssize_t put_message(int fd, const void *buf, size_t n, const int *fds, unsigned int nfds)
{
	struct object *s = sys_object(fd), *to = s->peer;
	struct message *m;

	if (s->kind != SOCKET)
		return error(ENOTSOCK);
	if (s->err) {
		int e = s->err;

		s->err = 0;
		return error(e);
	}
	if (!to || s->shut)
		return error(EPIPE);
	if (to->num == MSGS)
		return error(EAGAIN);
	if (n > sizeof(m->data) || nfds > MSG_FDS)
		abort();
	m = &to->msg[(to->first + to->num++) % MSGS];
	memcpy(m->data, buf, n);
	m->len = n;
	m->nfds = nfds;
	for (unsigned int i = 0; i < nfds; i++) {
		m->fd[i] = sys_object(fds[i]);
		m->fd[i]->refs++;
	}
	return (ssize_t)n;
}

ssize_t sys_send(int fd, const void *buf, size_t n, int flags)
{
	(void)flags;
	return put_message(fd, buf, n, NULL, 0);
}

ssize_t sys_sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fds[MSG_FDS];

	(void)flags;
	if (m->msg_iovlen != 1 || !c || c->cmsg_len != CMSG_LEN(sizeof(fds)))
		abort();
	memcpy(fds, CMSG_DATA(c), sizeof(fds));
	return put_message(fd, m->msg_iov->iov_base, m->msg_iov->iov_len, fds, MSG_FDS);
}

/* Return: a message with its objects, which are the caller's; NULL: *@n is what to return */
static const struct message *get_message(int fd, ssize_t *n)
{
	struct object *s = sys_object(fd);

	if (s->kind != SOCKET) {
		*n = error(ENOTSOCK);
	} else if (s->err) {
		*n = error(s->err);
		s->err = 0;
	} else if (s->num) {
		s->num--;
		return &s->msg[s->first++ % MSGS];
	} else {
		*n = s->orphan || s->shut ? 0 : error(EAGAIN);
	}
	return NULL;
}

ssize_t sys_recv(int fd, void *buf, size_t size, int flags)
{
	ssize_t n;
	const struct message *m = get_message(fd, &n);

	if (!m)
		return n;
	memcpy(buf, m->data, m->len < size ? m->len : size);
	for (unsigned int i = 0; i < m->nfds; i++)
		put_object(m->fd[i]);
	return (ssize_t)(flags & MSG_TRUNC || m->len < size ? m->len : size);
}

ssize_t sys_recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n;
	const struct message *from = get_message(fd, &n);
	struct iovec *v = m->msg_iov;
	struct cmsghdr *c;

	if (!from) {
		m->msg_controllen = 0;
		return n;
	}
	if (m->msg_iovlen != 1 || !(flags & MSG_TRUNC) ||
	    m->msg_controllen < CMSG_SPACE(MSG_FDS * sizeof(int)))
		abort();
	memcpy(v->iov_base, from->data, from->len < v->iov_len ? from->len : v->iov_len);
	if (from->nfds) {
		c = CMSG_FIRSTHDR(m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(from->nfds * sizeof(int));
		m->msg_controllen = CMSG_SPACE(from->nfds * sizeof(int));
	} else {
		m->msg_controllen = 0;
	}
	for (unsigned int i = 0; i < from->nfds; i++) {
		int own = fd_new(from->fd[i]);

		memcpy(CMSG_DATA(c) + i * sizeof(own), &own, sizeof(own));
	}
	return (ssize_t)from->len;
}

int sys_shutdown(int fd, int how)
{
	struct object *s = sys_object(fd);

	if (how != SHUT_RDWR)
		abort();
	s->shut = true;
	if (s->peer)
		s->peer->shut = true;
	return 0;
}

/* ---- pipes --------------------------------------------------------------------- */

/* Both descriptors are good to read and to write; nobody asks for an error then. */
int sys_pipe2(int fds[2], int flags)
{
	struct object *o = object_new(PIPE);

	(void)flags;
	o->refs++;
	fds[0] = fd_new(o);
	fds[1] = fd_new(o);
	return 0;
}

ssize_t sys_read(int fd, void *buf, size_t n)
{
	struct object *o = sys_object(fd);

	if (o->kind != PIPE)
		abort();
	if (!o->bytes)
		return error(EAGAIN);
	if (n > o->bytes)
		n = o->bytes;
	memset(buf, 0, n);
	o->bytes -= n;
	return (ssize_t)n;
}

ssize_t sys_write(int fd, const void *buf, size_t n)
{
	struct object *o = sys_object(fd);

	(void)buf;
	if (o->kind != PIPE)
		abort();
	if (o->bytes + n > PIPE_BYTES)
		return error(EAGAIN);
	o->bytes += n;
	return (ssize_t)n;
}

int sys_fchmod(int fd, mode_t mode)
{
	(void)mode;
	sys_object(fd);
	return 0;
}

static struct object *by_path(const char *path)
{
	static const char dir[] = "/proc/self/fd/";

	if (strncmp(path, dir, sizeof(dir) - 1))
		abort();
	return sys_object(atoi(path + sizeof(dir) - 1));
}

ssize_t sys_readlink(const char *path, char *buf, size_t size)
{
	static const char *const name[] = {
		[SOCKET] = "socket:[1234]",
		[PIPE] = "pipe:[1234]",
		[MEMFD] = "/memfd:name (deleted)",
	};
	const char *is = name[by_path(path)->kind];
	size_t n = strlen(is) < size ? strlen(is) : size;

	memcpy(buf, is, n);
	return (ssize_t)n;
}

int sys_open(const char *path, int flags)
{
	struct object *o = by_path(path);

	(void)flags;
	if (o->kind != PIPE)
		abort();
	o->refs++;
	return fd_new(o);
}

/* ---- shared memory: its descriptors -------------------------------------------- */

int sys_memfd_create(const char *name, unsigned int flags)
{
	struct object *o = object_new(MEMFD);

	(void)name;
	o->seals = flags & MFD_ALLOW_SEALING ? 0 : F_SEAL_SEAL;
	return fd_new(o);
}

int sys_ftruncate(int fd, off_t size)
{
	struct object *o = sys_object(fd);

	if (o->kind != MEMFD || o->mem)
		abort();
	o->size = (size_t)size;
	o->mem = sys_mem_get((size_t)size);
	return 0;
}

int sys_fcntl(int fd, int cmd, int arg)
{
	struct object *o = sys_object(fd);

	if (o->kind != MEMFD)
		return error(EINVAL);
	switch (cmd) {
	case F_ADD_SEALS:
		if (o->seals & F_SEAL_SEAL)
			return error(EPERM);
		o->seals |= arg;
		return 0;
	case F_GET_SEALS:
		return o->seals;
	default:
		abort();
	}
}

int sys_fstat(int fd, struct stat *st)
{
	struct object *o = sys_object(fd);

	memset(st, 0, sizeof(*st));
	st->st_size = (off_t)o->size;
	if (o->mem)
		sys_mem_next(o->mem);
	return 0;
}
