// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A hostile virtual machine monitor at ohca-vfio-user: any messages, in pieces of any size, with
 * any descriptors. Our side may close the connection, but nothing else fails, and no descriptor
 * stays open. A few functions below replace the client half of the fabric's process, and refuse a
 * call now and then.
 */
#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../process.h"
#include "fds.h"
#include "vfio-user/say.h"
#include "vfio-user/serve.h"
#include "vfio-user/socket.h"

#define MOST_MESSAGES	40u	/* whose answers fit in the socket's buffer */
#define BYTES		(1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the fabric's process --------------------------------------------------------- */

/** struct ohca_front - the HCA; @refuse: bits of the calls that fail, of @calls so far */
struct ohca_front {
	uint32_t refuse, calls;
	bool lost;
	int sock[2];
};

static uint32_t refuse;

struct ohca_front *ohca_front_connect(const char *path, const struct ohca_front_hello *hello,
				      int dm_fd, int ms, struct ohca_front_err *err)
{
	struct ohca_front *f = calloc(1, sizeof(*f));

	(void)path;
	(void)hello;
	(void)dm_fd;
	(void)ms;
	(void)err;
	assert(f && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f->sock));
	f->refuse = refuse;
	return f;
}

struct ohca_front *ohca_front_start(const char *path, const struct ohca_front_hello *hello,
				    int dm_fd, struct ohca_front_err *err)
{
	return ohca_front_connect(path, hello, dm_fd, 0, err);
}

int ohca_front_welcome(struct ohca_front *f, int ms, struct ohca_front_err *err)
{
	(void)f;
	(void)ms;
	(void)err;
	return 1;
}

void ohca_front_free(struct ohca_front *f)
{
	if (!f)
		return;
	close(f->sock[0]);
	close(f->sock[1]);
	free(f);
}

int ohca_front_call(struct ohca_front *f, enum ohca_front_type type, void *msg, size_t len, int fd,
		    uint64_t *value)
{
	const struct ohca_front_mem *m = msg;

	(void)value;
	assert(len >= sizeof(struct ohca_front_hdr) && len <= OHCA_FRONT_MAX);
	assert((type == OHCA_FRONT_BLOCK) == (fd >= 0));
	if (f->lost)
		return -1;
	/* the ranges obey the protocol */
	for (uint32_t i = 0; type == OHCA_FRONT_MEM && i < le32toh(m->n); i++) {
		const struct ohca_front_range *r = &m->range[i];

		assert(le64toh(r->len) && le64toh(r->iova) + le64toh(r->len) > le64toh(r->iova));
		assert(le32toh(r->block) < OHCA_FRONT_BLOCKS);
		if (i)
			assert(le64toh(r[-1].iova) + le64toh(r[-1].len) <= le64toh(r->iova));
	}
	f->lost = (f->refuse >> (f->calls % 16)) & 1 && f->calls % 3 == 2;
	return f->lost ? -1 : (int)(f->refuse >> (f->calls++ % 16) & 1) * (int)(f->refuse >> 16 & 7);
}

int ohca_front_sock(const struct ohca_front *f)
{
	return f->sock[0];
}

int ohca_front_irq_sock(const struct ohca_front *f)
{
	return f->sock[1];
}

bool ohca_front_event(struct ohca_front *f)
{
	return !f->lost;
}

void ohca_front_lose(struct ohca_front *f, const char *why)
{
	(void)why;
	f->lost = true;
}

const char *ohca_front_lost(const struct ohca_front *f)
{
	return f->lost ? "lost" : NULL;
}

bool ohca_front_irq_read(struct ohca_front *f)
{
	return !f->lost;
}

void ohca_front_ring(struct ohca_front *f, uint32_t uar, uint32_t off, uint64_t val, unsigned int size)
{
	(void)f;
	(void)val;
	(void)size;
	assert(uar < 1u << 16 && off < 1u << 16);
}

void ohca_front_admin(struct ohca_front *f, uint32_t pi)
{
	(void)f;
	(void)pi;
}

uint64_t ohca_front_reg(const struct ohca_front *f, uint64_t off, unsigned int size)
{
	(void)size;
	return f->refuse * 0x9e3779b97f4a7c15ull >> (off & 31);
}

uint64_t ohca_front_away(uint64_t off, unsigned int size)
{
	return off ^ size;
}

uint64_t ohca_front_clock(const struct ohca_front *f, uint32_t off, unsigned int size)
{
	(void)f;
	return (uint64_t)off << size;
}

bool ohca_front_irq_any(const struct ohca_front *f)
{
	return !f->lost;
}

bool ohca_front_irqs(struct ohca_front *f, unsigned int n, uint64_t *vec)
{
	memset(vec, 0, OHCA_PAGE_VECTORS / 8);
	vec[0] = f->refuse & ((1ull << n) - 1);
	return vec[0];
}

void ohca_front_irq_clear(struct ohca_front *f)
{
	(void)f;
}

/* ---- the VMM ---------------------------------------------------------------------- */

struct input {
	const uint8_t *p, *end;
};

static uint32_t get(struct input *in, unsigned int n)
{
	uint32_t v = 0;

	while (n--)
		v = v << 8 | (in->p < in->end ? *in->p++ : 0);
	return v;
}

static void put_fds(int sock, const void *buf, size_t n, const int *fd, unsigned int fds)
{
	/* a message that has no room is not sent */
	(void)!fds_send(sock, buf, n, fd, fds, MSG_DONTWAIT);
}

/* Builds a message of a command and its fields, some of which are likely to be valid. */
static size_t message(struct input *in, struct vu_message *m)
{
	static const uint32_t least[] = { 0, 4, 32, 24, 16, 32, 0, 16, 20, 16, 24, 0, 0, 0, 0, 0 };
	const uint32_t kind = get(in, 1), command = kind & 15;
	uint32_t len = least[command] + (kind & 0x40 ? get(in, 1) : 0), n = len;

	memset(m->byte, 0, sizeof(m->hdr) + len);
	m->hdr = (struct vu_hdr){ .id = (uint16_t)kind, .command = (uint16_t)command,
				  .size = (uint32_t)sizeof(m->hdr) + len };
	if (kind & 0x80)
		m->hdr.flags = get(in, 1);
	if (kind & 0x20)
		m->hdr.size = get(in, 2);
	/* 4 bytes each: a small number, a page, or any value */
	for (uint32_t at = 0; at < n; at += 4) {
		const uint32_t how = get(in, 1);
		uint32_t v = how & 0x80 ? get(in, 4) : how & 0x40 ? (how & 0x3f) << 12 : how;

		memcpy(m->byte + sizeof(m->hdr) + at, &v, n - at < 4 ? n - at : 4);
	}
	if ((command == VU_DMA_MAP || command == VU_DMA_UNMAP || command == VU_SET_IRQS) && !(kind & 0x10))
		memcpy(m->byte + sizeof(m->hdr), &least[command], 4);
	return sizeof(m->hdr) + len;
}

void vu_say(const char *fmt, ...)
{
	(void)fmt;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct vu_cfg cfg = { .fabric = "", .uars = 8 };
	struct input in = { data, data + size };
	static struct vu_message m;
	int sv[2], stop[2], fd[4], many[VU_FDS + 2];
	unsigned int before, fds;

	before = open_fds();
	refuse = get(&in, 4);
	assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv));
	assert(!setsockopt(sv[1], SOL_SOCKET, SO_SNDBUF, &(int){ 1 << 20 }, sizeof(int)));
	assert(!pipe(stop));
	fd[0] = memfd_create("memory", MFD_CLOEXEC);
	fd[1] = memfd_create("more", MFD_CLOEXEC);
	assert(!ftruncate(fd[0], BYTES) && !ftruncate(fd[1], BYTES));
	fd[2] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fd[3] = stop[1];
	if (get(&in, 1) & 7)
		put_fds(sv[0], "\1\0\1\0\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, NULL, 0);
	for (unsigned int i = 0; i < MOST_MESSAGES && in.p < in.end; i++) {
		const uint32_t how = get(&in, 1);
		const size_t len = message(&in, &m);

		fds = how & 3 ? 0 : how >> 2 & 3 ? how >> 2 & 3 : get(&in, 1) % (VU_FDS + 2);
		for (unsigned int k = 0; k < fds; k++)
			many[k] = fd[(how >> 4) % 3 == 2 ? k % 4 : (how >> 4) % 4];
		put_fds(sv[0], m.byte, len, many, fds);
	}
	shutdown(sv[0], SHUT_WR);
	vu_serve_one(&cfg, sv[1], stop[0]);
	close(sv[0]);
	close(stop[0]);
	for (unsigned int i = 0; i < 4; i++)
		close(fd[i]);
	if (open_fds() != before)
		abort();
	return 0;
}
