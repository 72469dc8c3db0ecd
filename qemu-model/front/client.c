// SPDX-License-Identifier: GPL-2.0-or-later
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "front/client.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "ohca_regs.h"

#define NS_PER_MS	1000000
#define NS_PER_S	1000000000ull
#define SEALS		(F_SEAL_SHRINK | F_SEAL_GROW)
#define LINK_MAGIC	0x4c43484fu	/* of a link's messages, "OHCL" in memory */
#define ANSWER_MAX	512		/* longest message of the daemon, and reserve */

/**
 * struct ohca_front - a connection
 * @sock: to the daemon; shut down when the front is lost
 * @wake: eventfd
 * @irq: stream of bytes
 * @page: shared, @bytes of it; @db: the doorbells in it
 * @seq: of the last message
 * @map_head: as of the page
 * @lost: @why has the reason; set once
 * @mute: the interrupt socket has ended: the front is lost as soon as the thread that calls detects
 *	the end of @sock
 */
struct ohca_front {
	int sock, wake, irq;
	struct ohca_page *page;
	size_t bytes;
	struct ohca_doorbells db;
	uint32_t seq, map_head;
	_Atomic bool lost, mute;
	char why[sizeof(((struct ohca_front_err *)0)->text)];
};

/* Room for descriptors in a control message, which is rounded up: one more may fit. */
#define FDS_ROOM	CMSG_SPACE(OHCA_FRONT_FDS * sizeof(int))

/* Descriptors that arrived with a message. */
struct fds {
	int fd[FDS_ROOM / sizeof(int)];
	unsigned int n;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t deadline(int ms)
{
	return now_ns() + (uint64_t)ms * NS_PER_MS;
}

/* Wait for @events of @fd until @end. Return: false: the time is over. */
static bool wait_for(int fd, short events, uint64_t end)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = now_ns();

	if (now >= end)
		return false;
	/* rounded up: otherwise the last millisecond would be a busy loop */
	return poll(&p, 1, (int)((end - now + NS_PER_MS - 1) / NS_PER_MS)) != 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- loss ----------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static int lose(struct ohca_front *f, const char *fmt, ...)
{
	va_list ap;

	if (atomic_load(&f->lost))
		return -1;
	va_start(ap, fmt);
	vsnprintf(f->why, sizeof(f->why), fmt, ap);
	va_end(ap);
	atomic_store(&f->lost, true);
	/* the daemon detects the end, and so does a thread that waits for interrupts */
	shutdown(f->sock, SHUT_RDWR);
	if (f->irq >= 0)
		shutdown(f->irq, SHUT_RDWR);
	return -1;
}

void ohca_front_lose(struct ohca_front *f, const char *why)
{
	lose(f, "%s", why);
}

const char *ohca_front_lost(const struct ohca_front *f)
{
	return atomic_load(&f->lost) ? f->why : NULL;
}

int ohca_front_sock(const struct ohca_front *f)
{
	return f->sock;
}

/* ---- messages ------------------------------------------------------------------------- */

static void fds_close(struct fds *fds)
{
	while (fds->n)
		close(fds->fd[--fds->n]);
}

static void fds_take(struct fds *fds, struct cmsghdr *cm)
{
	size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++)
		memcpy(&fds->fd[fds->n++], CMSG_DATA(cm) + i * sizeof(int), sizeof(int));
}

/* Send a message with a header, and perhaps a descriptor. Return: 0, or -1 with errno. */
static int front_send(struct ohca_front *f, enum ohca_front_type type, void *msg, size_t len,
		      int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} c = { .buf = { 0 } };
	struct iovec iov = { .iov_base = msg, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct ohca_front_hdr *h = msg;

	*h = (struct ohca_front_hdr) {
		.magic = htole32(OHCA_FRONT_MAGIC),
		.version = htole16(OHCA_FRONT_VERSION),
		.type = htole16((uint16_t)type),
		.len = htole32((uint32_t)len),
		.seq = htole32(++f->seq),
	};
	if (fd >= 0) {
		struct cmsghdr *cm;

		m.msg_control = c.buf;
		m.msg_controllen = sizeof(c.buf);
		cm = CMSG_FIRSTHDR(&m);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &fd, sizeof(fd));
	}
	return sendmsg(f->sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Receive a record; the caller owns its descriptors. Return: bytes, 0 at the end; -1 with errno. */
static ssize_t front_recv(struct ohca_front *f, void *buf, size_t size, struct fds *fds)
{
	union {
		char buf[FDS_ROOM];
		struct cmsghdr align;
	} c;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = c.buf,
		.msg_controllen = sizeof(c.buf),
	};
	const int flags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC;
	ssize_t n = recvmsg(f->sock, &m, flags);

	/* a daemon that closes before it has read all resets: its last message is still there */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(f->sock, &m, flags);
	fds->n = 0;
	if (n < 0)
		return n;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(&m); cm; cm = CMSG_NXTHDR(&m, cm))
		if (cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS)
			fds_take(fds, cm);
	/* the kernel has closed the descriptors for which there was no room */
	if (m.msg_flags & MSG_CTRUNC || fds->n > OHCA_FRONT_FDS)
		lose(f, "the fabric's process passed too many descriptors");
	return n;
}

/* Process ERROR: the daemon's reason to close. */
static int lose_by_error(struct ohca_front *f, const uint8_t *msg, size_t len)
{
	char text[sizeof(f->why) - 16];
	size_t i, n = 0;

	for (i = offsetof(struct ohca_front_error, text); i < len && msg[i] && n < sizeof(text) - 1; i++)
		text[n++] = ohca_front_char(msg[i]);
	text[n] = 0;
	return lose(f, "%s", n ? text : "the fabric's process closed the connection without a reason");
}

/*
 * Receive a message, and check its header. Return: its type; 0: there is none; -1: the front is
 * lost. Descriptors are closed unless @fds is given.
 */
static int front_message(struct ohca_front *f, uint8_t buf[ANSWER_MAX], size_t *len,
			 struct fds *fds)
{
	struct fds got;
	ssize_t n = front_recv(f, buf, ANSWER_MAX, &got);
	struct ohca_front_hdr h;
	bool stray = got.n && !fds;

	if (fds)
		*fds = got;
	else
		fds_close(&got);
	if (ohca_front_lost(f))
		return -1;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return lose(f, "receiving from the fabric's process: %s", strerror(errno));
	if (n == 0)
		return lose(f, "the fabric's process closed the socket%s",
			    atomic_load(&f->mute) ? " of interrupts" : "");
	if ((size_t)n < sizeof(h) || (size_t)n > ANSWER_MAX)
		return lose(f, "the fabric's process sent %zd bytes, which is not a message", n);
	memcpy(&h, buf, sizeof(h));
	if (le32toh(h.magic) == LINK_MAGIC)
		return lose(f, "this ohca-fabric hosts no HCAs: use QEMU and ohca-fabric of the "
			    "same release");
	if (le32toh(h.magic) != OHCA_FRONT_MAGIC)
		return lose(f, "the program that listens there does not use the protocol of HCAs");
	if (le16toh(h.version) != OHCA_FRONT_VERSION)
		return lose(f, "ohca-fabric uses version %u of the protocol of HCAs, QEMU uses %u: "
			    "use QEMU and ohca-fabric of the same release", le16toh(h.version),
			    OHCA_FRONT_VERSION);
	if (le32toh(h.len) != (size_t)n)
		return lose(f, "the fabric's process sent a message of %zd bytes whose length is %u", n,
			    le32toh(h.len));
	if (stray)
		return lose(f, "the fabric's process passed an unexpected descriptor");
	*len = (size_t)n;
	if (le16toh(h.type) == OHCA_FRONT_ERROR)
		return lose_by_error(f, buf, *len);
	return le16toh(h.type) ? le16toh(h.type) :
				 lose(f, "the fabric's process sent a message of type 0");
}

/* ---- waking --------------------------------------------------------------------------- */

/*
 * Wake the daemon, after OHCA_PEND_* are set. If the write fails, the counter is full: it is awake.
 */
static void wake(struct ohca_front *f)
{
	const uint64_t one = 1;

	if (!atomic_load(&f->page->asleep) || !atomic_exchange(&f->page->asleep, 0))
		return;
	if (write(f->wake, &one, sizeof(one)) < 0)
		return;
}

static void pend(struct ohca_front *f, uint32_t what)
{
	atomic_fetch_or(f->db.pending, what);
	wake(f);
}

/* ---- connecting ----------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void *fail(struct ohca_front_err *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return NULL;
}

static void *connect_failed(const char *path, struct ohca_front_err *err)
{
	switch (errno) {
	case ENOENT:
		err->absent = true;
		return fail(err, "no fabric socket '%s': is ohca-fabric running?", path);
	case ECONNREFUSED:
		err->absent = true;
		return fail(err, "no process listens on '%s': is ohca-fabric running?", path);
	case EPROTOTYPE:
		return fail(err, "'%s' is not a fabric socket", path);
	case EAGAIN:
		return fail(err, "too many connections wait at '%s': try again", path);
	default:
		return fail(err, "cannot connect to '%s': %s", path, strerror(errno));
	}
}

struct ohca_front *ohca_front_start(const char *path, const struct ohca_front_hello *hello,
				    int dm_fd, struct ohca_front_err *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct ohca_front_hello h = *hello;
	struct ohca_front *f;

	*err = (struct ohca_front_err) { .absent = false };
	if (!*path || strlen(path) >= sizeof(sa.sun_path))
		return fail(err, "the path of the fabric's socket must have 1 to %zu characters",
			    sizeof(sa.sun_path) - 1);
	memcpy(sa.sun_path, path, strlen(path) + 1);
	f = calloc(1, sizeof(*f));
	if (!f)
		return fail(err, "out of memory");
	f->wake = f->irq = -1;
	f->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (f->sock < 0) {
		fail(err, "socket: %s", strerror(errno));
		goto failed;
	}
	if (connect(f->sock, (const struct sockaddr *)&sa, sizeof(sa))) {
		connect_failed(path, err);
		goto failed;
	}
	h.clock_ns = htole64(now_ns());
	if (front_send(f, OHCA_FRONT_HELLO, &h, sizeof(h), dm_fd)) {
		fail(err, "sending HELLO to '%s': %s", path, strerror(errno));
		goto failed;
	}
	return f;
failed:
	ohca_front_free(f);
	return NULL;
}

/*
 * Check that a descriptor is a memfd of exactly @bytes that keeps its size. In one of huge pages,
 * or in a larger one, the daemon could make a hole that ends this process, or blocks it for long.
 */
static int check_page(struct ohca_front *f, int fd, size_t bytes)
{
	/* this calls no file system, and fails for all files that are not in memory */
	const int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS)
		return lose(f, "the HCA's page is not sealed against resizing");
	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return lose(f, "fstat of the HCA's page: %s", strerror(errno));
	if (fs.f_type != TMPFS_MAGIC)
		return lose(f, "the HCA's page is not in tmpfs");
	if (st.st_size < 0 || (uint64_t)st.st_size != bytes)
		return lose(f, "the HCA's page has %lld bytes instead of %zu",
			    (long long)st.st_size, bytes);
	return 0;
}

/* Map the page that the daemon passes, if it matches WELCOME. */
static int map_page(struct ohca_front *f, const struct ohca_front_welcome *w, int fd)
{
	struct ohca_db_sizes size = { .uars = le32toh(w->uars) };
	size_t bytes;
	void *p;

	for (unsigned int i = 0; i < OHCA_DB_NUM; i++)
		size.max[i] = le32toh(w->max[i]);
	bytes = ohca_doorbells_bytes(&size);
	if (!bytes || le64toh(w->page_bytes) != OHCA_PAGE_BYTES(bytes))
		return lose(f, "the fabric's process sent invalid sizes of the HCA's page");
	bytes = OHCA_PAGE_BYTES(bytes);
	if (check_page(f, fd, bytes))
		return -1;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return lose(f, "mapping the HCA's page: %s", strerror(errno));
	f->page = p;
	f->bytes = bytes;
	ohca_doorbells_place(&f->db, &size, (uint8_t *)p + OHCA_PAGE_DOORBELLS);
	return 0;
}

/* Whether a descriptor is an eventfd, whose writes never block. */
static bool is_eventfd(int fd)
{
	char path[64], name[64];
	int flags = fcntl(fd, F_GETFL);
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name));
	/* without /proc only the flag can be checked */
	return flags >= 0 && flags & O_NONBLOCK &&
	       (n < 0 || ((size_t)n == strlen("anon_inode:[eventfd]") &&
			  !memcmp(name, "anon_inode:[eventfd]", (size_t)n)));
}

/* Whether a descriptor is a connected stream socket: a wait for it is a recv() that blocks. */
static bool is_stream(int fd)
{
	socklen_t len = sizeof(int);
	int type = 0, flags = fcntl(fd, F_GETFL);

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM &&
	       !fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

/* Process WELCOME with its descriptors, which stay the caller's if this fails. */
static int take_welcome(struct ohca_front *f, const uint8_t *buf, size_t len, const struct fds *fds)
{
	struct ohca_front_welcome w;

	if (len < sizeof(w))
		return lose(f, "the fabric's process sent a WELCOME of %zu bytes", len);
	memcpy(&w, buf, sizeof(w));
	if (le32toh(w.hdr.seq) != f->seq)
		return lose(f, "the fabric's process did not answer HELLO but another message");
	if (fds->n != OHCA_FRONT_FDS)
		return lose(f, "the fabric's process passed %u descriptors instead of %d", fds->n,
			    OHCA_FRONT_FDS);
	if (!is_eventfd(fds->fd[OHCA_FRONT_FD_WAKE]) || !is_stream(fds->fd[OHCA_FRONT_FD_IRQ]))
		return lose(f, "the fabric's process passed descriptors of a wrong type");
	if (map_page(f, &w, fds->fd[OHCA_FRONT_FD_PAGE]))
		return -1;
	close(fds->fd[OHCA_FRONT_FD_PAGE]);
	f->wake = fds->fd[OHCA_FRONT_FD_WAKE];
	f->irq = fds->fd[OHCA_FRONT_FD_IRQ];
	return 1;
}

int ohca_front_welcome(struct ohca_front *f, int ms, struct ohca_front_err *err)
{
	uint64_t end = deadline(ms);
	uint8_t buf[ANSWER_MAX];
	struct fds fds;
	size_t len;
	int r;

	do {
		r = front_message(f, buf, &len, &fds);
	} while (!r && wait_for(f->sock, POLLIN, end));
	if (!r)
		return 0;
	if (r == OHCA_FRONT_WELCOME)
		r = take_welcome(f, buf, len, &fds);
	else if (r > 0)
		r = lose(f, "the fabric's process answered HELLO by message type %d", r);
	if (r > 0)
		return 1;
	fds_close(&fds);
	*err = (struct ohca_front_err) { .absent = false };
	memcpy(err->text, f->why, sizeof(err->text));
	return -1;
}

struct ohca_front *ohca_front_connect(const char *path, const struct ohca_front_hello *hello,
				      int dm_fd, int ms, struct ohca_front_err *err)
{
	struct ohca_front *f = ohca_front_start(path, hello, dm_fd, err);
	int r;

	if (!f)
		return NULL;
	r = ohca_front_welcome(f, ms, err);
	if (r > 0)
		return f;
	if (!r)
		fail(err, "the fabric's process did not answer HELLO within %d ms", ms);
	ohca_front_free(f);
	return NULL;
}

struct ohca_front *ohca_front_none(const char *why)
{
	struct ohca_front *f = calloc(1, sizeof(*f));
	void *p = f ? mmap(NULL, OHCA_PAGE_RING, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;

	if (p == MAP_FAILED) {
		free(f);
		return NULL;
	}
	f->sock = f->wake = f->irq = -1;
	f->page = p;
	f->bytes = OHCA_PAGE_RING;
	lose(f, "%s", why);
	return f;
}

void ohca_front_free(struct ohca_front *f)
{
	if (!f)
		return;
	close_fd(&f->sock);
	close_fd(&f->wake);
	close_fd(&f->irq);
	if (f->page)
		munmap(f->page, f->bytes);
	free(f);
}

/* ---- calls ---------------------------------------------------------------------------- */

/* Process an answer. Return: status; -1: the front is lost. */
static int take_answer(struct ohca_front *f, const uint8_t *buf, size_t len, int type,
		       uint64_t *value)
{
	struct ohca_front_done d;

	if (type != OHCA_FRONT_DONE)
		return lose(f, "the fabric's process answered a call by message type %d", type);
	if (len < sizeof(d))
		return lose(f, "the fabric's process sent an answer of %zu bytes", len);
	memcpy(&d, buf, sizeof(d));
	if (le32toh(d.hdr.seq) != f->seq)
		return lose(f, "the fabric's process answered a wrong call");
	if (le32toh(d.status) > INT32_MAX)
		return lose(f, "the fabric's process answered a call by status %u",
			    le32toh(d.status));
	if (value)
		*value = le64toh(d.value);
	return (int)le32toh(d.status);
}

int ohca_front_call(struct ohca_front *f, enum ohca_front_type type, void *msg, size_t len, int fd,
		    uint64_t *value)
{
	uint64_t end = deadline(OHCA_FRONT_CALL_MS);
	uint8_t buf[ANSWER_MAX];
	int r;

	assert(len >= sizeof(struct ohca_front_hdr) && len <= OHCA_FRONT_MAX);
	if (ohca_front_lost(f))
		return -1;
	while (front_send(f, type, msg, len, fd)) {
		if (errno == EINTR || (errno == EAGAIN && wait_for(f->sock, POLLOUT, end)))
			continue;
		r = errno;
		/* the daemon's reason to close may be in the socket */
		ohca_front_event(f);
		return lose(f, "sending to the fabric's process: %s", strerror(r));
	}
	pend(f, OHCA_PEND_ATTN);
	do {
		r = front_message(f, buf, &len, NULL);
	} while (!r && wait_for(f->sock, POLLIN, end));
	if (!r)
		return lose(f, "the fabric's process did not answer within %d ms",
			    OHCA_FRONT_CALL_MS);
	return r < 0 ? r : take_answer(f, buf, len, r, value);
}

int ohca_front_unmap(struct ohca_front *f, uint64_t iova, uint64_t last)
{
	/* each call but the last does a full step; a daemon that always reports more is wrong */
	unsigned int left = OHCA_FRONT_MAPS / OHCA_FRONT_UNMAP_STEP + 1;
	const uint64_t end = deadline(OHCA_FRONT_UNMAP_MS);
	uint64_t more;
	int r;

	do {
		struct ohca_front_unmap m = { .iova = htole64(iova), .last = htole64(last) };

		more = 0;
		r = ohca_front_call(f, OHCA_FRONT_UNMAP, &m, sizeof(m), -1, &more);
	} while (!r && more && --left && now_ns() < end);
	if (!r && more)
		return lose(f, "the fabric's process does not remove mappings of the IOMMU");
	return r;
}

/* Entries of the ring that the daemon has not read. Its @map_tail is not trusted. */
static uint32_t maps_unread(const struct ohca_front *f)
{
	return f->map_head - atomic_load(&f->page->map_tail);
}

int ohca_front_maps_read(struct ohca_front *f)
{
	if (ohca_front_lost(f))
		return -1;
	return maps_unread(f) ? ohca_front_unmap(f, OHCA_FRONT_ALIGN, OHCA_FRONT_ALIGN - 1) : 0;
}

int ohca_front_map(struct ohca_front *f, uint64_t iova, uint64_t len, uint32_t block, uint64_t off,
		   uint32_t flags)
{
	struct ohca_page_map *m;
	int r = 0;

	if (ohca_front_lost(f))
		return -1;
	if (maps_unread(f) >= OHCA_PAGE_MAPS)
		r = ohca_front_maps_read(f);
	if (r)
		return r;
	if (maps_unread(f) >= OHCA_PAGE_MAPS)
		return lose(f, "the fabric's process does not accept mappings of the IOMMU");
	m = (struct ohca_page_map *)((uint8_t *)f->page + OHCA_PAGE_RING) +
	    f->map_head % OHCA_PAGE_MAPS;
	atomic_store_explicit(&m->iova, iova, memory_order_relaxed);
	atomic_store_explicit(&m->len, len, memory_order_relaxed);
	atomic_store_explicit(&m->off, off, memory_order_relaxed);
	atomic_store_explicit(&m->block, block | (uint64_t)flags << 32, memory_order_relaxed);
	atomic_store(&f->page->map_head, ++f->map_head);
	return 0;
}

bool ohca_front_event(struct ohca_front *f)
{
	uint8_t buf[ANSWER_MAX];
	size_t len;
	int r;

	if (ohca_front_lost(f))
		return false;
	r = front_message(f, buf, &len, NULL);
	if (r > 0)
		lose(f, "the fabric's process sent unexpected message type %d", r);
	return !r;
}

/* ---- the page; any thread --------------------------------------------------------------- */

void ohca_front_ring(struct ohca_front *f, uint32_t uar, uint32_t off, uint64_t val,
		     unsigned int size)
{
	if (!ohca_front_lost(f) && ohca_doorbells_ring(&f->db, uar, off, val, size))
		wake(f);
}

void ohca_front_admin(struct ohca_front *f, uint32_t pi)
{
	if (ohca_front_lost(f))
		return;
	atomic_store(f->db.aq_db, pi);
	pend(f, OHCA_PEND_AQ);
}

uint64_t ohca_front_reg(const struct ohca_front *f, uint64_t off, unsigned int size)
{
	uint64_t i = off / 4;

	if ((size != 4 && size != 8) || off % size || i + size / 4 > OHCA_PAGE_REGS)
		return 0;
	if (size == 4)
		return atomic_load(&f->page->reg[i]);
	return atomic_load(&f->page->reg[i]) | (uint64_t)atomic_load(&f->page->reg[i + 1]) << 32;
}

uint64_t ohca_front_away(uint64_t off, unsigned int size)
{
	if (size == 8)
		return ohca_front_away(off, 4) | ohca_front_away(off + 4, 4) << 32;
	switch (off) {
	case OHCA_REG_MAGIC:
		return OHCA_MAGIC;
	case OHCA_REG_VERSION:
		return OHCA_FIELD_PREP(OHCA_VERSION_MAJOR, OHCA_MAJOR) |
		       OHCA_FIELD_PREP(OHCA_VERSION_MINOR, OHCA_MINOR);
	case OHCA_REG_STATUS:
		return OHCA_STATUS_AWAY;
	default:
		return 0;
	}
}

bool ohca_front_slow_reads(const struct ohca_front *f)
{
	return atomic_load(&f->page->slow_reads);
}

uint64_t ohca_front_clock(const struct ohca_front *f, uint32_t off, unsigned int size)
{
	uint64_t now;

	if (!atomic_load(&f->page->clock_ok) || (size != 4 && size != 8))
		return 0;
	now = ohca_page_clock(atomic_load(&f->page->clock), now_ns());
	if (off == OHCA_UAR_CLOCK)
		return size == 8 ? now : (uint32_t)now;
	return off == OHCA_UAR_CLOCK + 4 && size == 4 ? now >> 32 : 0;
}

/* ---- interrupts; any thread ------------------------------------------------------------- */

/* The interrupt socket has ended, or does not work: without interrupts the front is useless. */
static bool mute(struct ohca_front *f)
{
	if (!ohca_front_lost(f)) {
		atomic_store(&f->mute, true);
		shutdown(f->sock, SHUT_RDWR);
	}
	return false;
}

bool ohca_front_irq_wait(struct ohca_front *f)
{
	struct pollfd p = { .fd = f->irq, .events = POLLIN };
	char buf[64];
	ssize_t n;

	while (!ohca_front_lost(f)) {
		n = recv(f->irq, buf, sizeof(buf), 0);
		if (n > 0)
			return true;
		/*
		 * the daemon has set O_NONBLOCK: the flag belongs to the socket, not to the
		 * descriptor
		 */
		if (n < 0 && errno == EAGAIN)
			poll(&p, 1, -1);
		else if (!n || errno != EINTR)
			return mute(f);
	}
	return false;
}

bool ohca_front_irq_read(struct ohca_front *f)
{
	char buf[64];

	return !ohca_front_lost(f) && (recv(f->irq, buf, sizeof(buf), MSG_DONTWAIT) > 0 || mute(f));
}

int ohca_front_irq_sock(const struct ohca_front *f)
{
	return f->irq;
}

bool ohca_front_irq_any(const struct ohca_front *f)
{
	return atomic_load_explicit(&f->page->irq_any, memory_order_relaxed);
}

bool ohca_front_irqs(struct ohca_front *f, unsigned int n, uint64_t *vec)
{
	struct ohca_page *p = f->page;
	bool any = false;

	atomic_exchange(&p->irq_any, 0);
	for (unsigned int i = 0; i < OHCA_PAGE_VECTORS / 64; i++) {
		const unsigned int left = i * 64 < n ? n - i * 64 : 0;

		vec[i] = left && atomic_load_explicit(&p->irq[i], memory_order_relaxed) ?
			 atomic_exchange(&p->irq[i], 0) : 0;
		if (left < 64)
			vec[i] &= (1ull << left) - 1;
		any |= vec[i];
	}
	return any;
}

bool ohca_front_dirty(struct ohca_front *f)
{
	/* the event that reported the write was a load, perhaps of another program */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&f->page->dirty, memory_order_relaxed) &&
	       atomic_exchange(&f->page->dirty, 0);
}

void ohca_front_irq_clear(struct ohca_front *f)
{
	atomic_store(&f->page->irq_any, 0);
	for (unsigned int i = 0; i < OHCA_PAGE_VECTORS / 64; i++)
		atomic_store(&f->page->irq[i], 0);
}
