// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Replaces ioctl() and write() of libc for libibverbs: each call of uverbs is counted, stored for
 * lie_again(), and changed at random.
 */
#define _GNU_SOURCE
#include "liar.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_ATTRS	48
#define DATA		4096	/* bytes of one call, with the data of its attributes */
#define KEPT		64

/**
 * struct call - a complete call: its pointers lead into @data
 * @fd: file descriptor of the call
 * @len: bytes of a write(); 0: an ioctl()
 */
struct call {
	int fd;
	uint32_t len;
	union {
		struct {
			struct ib_uverbs_ioctl_hdr hdr;
			struct ib_uverbs_attr attr[MOST_ATTRS];
		};
		uint32_t words[DATA / 4];
	};
	uint8_t data[DATA];
};

struct shared *shared;
static uint64_t state;
static unsigned int one_of, count;
static struct call kept[KEPT];
static uint8_t *read_only;
static bool old_kernel;		/* libibverbs must use write() */

void liar_begin(uint64_t seed)
{
	state = seed;
	old_kernel = !rnd(3);
	read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

uint64_t rnd(uint64_t n)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}

void lie_about(unsigned int n)
{
	one_of = n;
}

uint64_t odd_value(void)
{
	static const uint64_t edges[] = {
		0, 1, 2, 3, 7, 8, 63, 64, 127, 255, 256, 4095, 4096, 4097, 65535, 65536, 1u << 20,
		(1u << 24) - 1, 1u << 24, INT32_MAX, 1u << 31, UINT32_MAX, 1ull << 32,
		1ull << 47, (1ull << 47) - 4096, INT64_MAX, 1ull << 63, UINT64_MAX - 4095, UINT64_MAX,
	};

	switch (rnd(6)) {
	case 0:
		return rnd(40);		/* a handle, a file descriptor */
	case 1:
		return rnd(UINT64_MAX);
	case 2:
		return (uintptr_t)read_only + rnd(4096);
	case 3:
		return 1ull << rnd(64);
	default:
		return edges[rnd(sizeof(edges) / sizeof(*edges))];
	}
}

static bool is_pointer(const struct ib_uverbs_attr *a)
{
	return a->len > sizeof(a->data);
}

/* Changes some bytes of a call's data. */
static void change_bytes(void *at, size_t len)
{
	uint64_t v = odd_value();
	size_t n = 1u << rnd(4);

	if (!len)
		return;
	if (n > len)
		n = 1;
	if (rnd(3))
		memcpy((uint8_t *)at + rnd(len / n) * n, &v, n);
	else
		((uint8_t *)at)[rnd(len)] ^= 1u << rnd(8);
}

/* @whole: the call is libibverbs' own, so its pointers are valid. */
static void change_attr(struct ib_uverbs_attr *a, bool whole)
{
	switch (rnd(8)) {
	case 0:
		a->len = odd_value();
		break;
	case 1:
		a->attr_id = rnd(2) ? a->attr_id ^ 1u << rnd(16) : rnd(20) | rnd(2) << 12;
		break;
	case 2:
		a->flags = rnd(2) ? rnd(4) : odd_value();
		break;
	case 3:
		a->data = odd_value();
		break;
	case 4:
		a->attr_data.reserved = rnd(2) ? rnd(4) : odd_value();
		break;
	default:
		if (is_pointer(a) && whole)
			change_bytes((void *)(uintptr_t)a->data, a->len < DATA ? a->len : DATA);
		else
			change_bytes(&a->data, sizeof(a->data));
	}
}

/* Changes an ioctl with room for one more attribute. */
static void change_ioctl(struct ib_uverbs_ioctl_hdr *hdr, struct ib_uverbs_attr *attr, bool whole)
{
	unsigned int n = hdr->num_attrs, i = n ? rnd(n) : 0;

	switch (rnd(12)) {
	case 0:
		hdr->method_id = rnd(2) ? rnd(8) : rnd(8) | 1u << UVERBS_ID_NS_SHIFT;
		break;
	case 1:
		hdr->object_id = rnd(20);
		break;
	case 2:
		change_bytes(hdr, sizeof(*hdr));
		break;
	case 3:
		if (n) {
			attr[i] = attr[n - 1];
			hdr->num_attrs--;
			hdr->length -= sizeof(*attr);
		}
		break;
	case 4:
		if (n && n < MOST_ATTRS) {
			attr[n] = attr[i];
			hdr->num_attrs++;
			hdr->length += sizeof(*attr);
		}
		break;
	default:
		if (n)
			change_attr(&attr[i], whole);
	}
}

static void change_write(struct call *c)
{
	struct ib_uverbs_cmd_hdr *hdr = (void *)c->words;

	switch (rnd(8)) {
	case 0:
		hdr->command = (hdr->command & IB_USER_VERBS_CMD_FLAG_EXTENDED) | rnd(64);
		break;
	case 1:
		change_bytes(hdr, sizeof(*hdr));
		break;
	case 2:
		c->len = 1 + rnd(2 * c->len < sizeof(c->words) ? 2 * c->len : c->len);
		if (rnd(2))
			hdr->in_words = c->len / 4;
		break;
	default:
		change_bytes(c->words, c->len);
	}
}

static int done(long ret, bool lie)
{
	shared->calls++;
	if (lie) {
		shared->lies++;
		if (ret >= 0)
			shared->taken++;
	}
	return ret;
}

static int make(struct call *c, bool lie)
{
	if (c->len)
		return done(syscall(SYS_write, c->fd, c->words, c->len), lie);
	return done(syscall(SYS_ioctl, c->fd, RDMA_VERBS_IOCTL, &c->hdr), lie);
}

/* Stores a call with the data of its pointers, as far as there is room. */
static void keep_ioctl(int fd, const struct ib_uverbs_ioctl_hdr *hdr)
{
	struct call *c = &kept[count++ % KEPT];
	size_t used = 0;

	c->fd = fd;
	c->len = 0;
	c->hdr = *hdr;
	memcpy(c->attr, hdr->attrs, hdr->num_attrs * sizeof(*c->attr));
	for (unsigned int i = 0; i < hdr->num_attrs; i++) {
		struct ib_uverbs_attr *a = &c->attr[i];

		if (!is_pointer(a)) {
			/* a short output has an address, too; an input may be any address */
			if (a->len && a->data >= 1u << 16 && a->data < 1ull << 47)
				a->data = (uintptr_t)c->data + DATA - sizeof(a->data);
			continue;
		}
		if (used + a->len > DATA) {
			a->len = 0;
			continue;
		}
		memcpy(c->data + used, (void *)(uintptr_t)a->data, a->len);
		a->data = (uintptr_t)c->data + used;
		used += (a->len + 7u) & ~7u;
	}
}

static int call_ioctl(int fd, struct ib_uverbs_ioctl_hdr *hdr)
{
	static struct call c;

	if (hdr->num_attrs > MOST_ATTRS)
		return done(syscall(SYS_ioctl, fd, RDMA_VERBS_IOCTL, hdr), false);
	keep_ioctl(fd, hdr);
	if (!one_of || rnd(one_of))
		return done(syscall(SYS_ioctl, fd, RDMA_VERBS_IOCTL, hdr), false);
	/* outputs go to the addresses of libibverbs */
	c.fd = fd;
	c.len = 0;
	c.hdr = *hdr;
	memcpy(c.attr, hdr->attrs, hdr->num_attrs * sizeof(*c.attr));
	for (unsigned int i = 0, n = 1 + rnd(3); i < n; i++)
		change_ioctl(&c.hdr, c.attr, !i);
	return make(&c, true);
}

/* As in libc. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (request != RDMA_VERBS_IOCTL)
		return syscall(SYS_ioctl, fd, request, arg);
	if (old_kernel && ((struct ib_uverbs_ioctl_hdr *)arg)->object_id == UVERBS_OBJECT_DEVICE &&
	    ((struct ib_uverbs_ioctl_hdr *)arg)->method_id == UVERBS_METHOD_INVOKE_WRITE) {
		errno = ENOTTY;
		return -1;
	}
	return call_ioctl(fd, arg);
}

/* As in libc. */
ssize_t write(int fd, const void *buf, size_t len)
{
	struct call *c;

	/* libibverbs writes only commands to descriptors other than standard output */
	if (fd <= 2 || len < 12 || len > DATA)
		return syscall(SYS_write, fd, buf, len);
	shared->writes++;
	c = &kept[count++ % KEPT];
	c->fd = fd;
	c->len = len;
	memcpy(c->words, buf, len);
	if (one_of && !rnd(one_of)) {
		change_write(c);
		return make(c, true);
	}
	return done(syscall(SYS_write, fd, buf, len), false);
}

/* A random ioctl: objects, methods and attributes by number. */
static void make_up(struct call *c)
{
	memset(&c->hdr, 0, sizeof(c->hdr));
	c->len = 0;
	c->hdr.object_id = rnd(18);
	c->hdr.method_id = rnd(7) | (rnd(8) ? 0 : 1u << UVERBS_ID_NS_SHIFT);
	c->hdr.num_attrs = rnd(16);
	c->hdr.length = sizeof(c->hdr) + c->hdr.num_attrs * sizeof(*c->attr);
	for (unsigned int i = 0; i < c->hdr.num_attrs; i++) {
		struct ib_uverbs_attr *a = &c->attr[i];

		memset(a, 0, sizeof(*a));
		a->attr_id = rnd(6) ? i : rnd(16) | rnd(2) << UVERBS_ID_NS_SHIFT;
		a->flags = rnd(4) ? UVERBS_ATTR_F_MANDATORY : 0;
		if (rnd(3)) {
			a->data = rnd(2) ? rnd(32) : odd_value();
			a->len = rnd(2) ? 0 : 4u << rnd(2);
		} else {
			a->len = 1u << rnd(9);
			a->data = (uintptr_t)c->data + rnd(DATA - a->len + 1);
		}
	}
}

/* Whether bytes 8 to 15 of a command are the address of its response. */
static bool has_response(const struct call *c)
{
	if (c->len < 16)
		return false;
	switch (c->words[0] & IB_USER_VERBS_CMD_COMMAND_MASK) {
	case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
	case IB_USER_VERBS_CMD_ATTACH_MCAST:
	case IB_USER_VERBS_CMD_DETACH_MCAST:
	case IB_USER_VERBS_CMD_MODIFY_SRQ:
		return false;
	case IB_USER_VERBS_CMD_MODIFY_QP:
		return c->words[0] & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	default:
		return true;
	}
}

void lie_again(void)
{
	unsigned int n = count < KEPT ? count : KEPT;
	static struct call c;

	if (!n)
		return;
	c = kept[rnd(n)];
	if (!rnd(4))
		make_up(&c);
	for (unsigned int i = 0, k = rnd(4); i < k; i++) {
		if (c.len)
			change_write(&c);
		else if (c.hdr.num_attrs <= MOST_ATTRS)
			change_ioctl(&c.hdr, c.attr, !i);
	}
	/* a response gets an address with enough room */
	if (has_response(&c))
		memcpy(&c.words[2], &(uint64_t){ rnd(16) ? (uintptr_t)c.data : odd_value() }, 8);
	make(&c, true);
}
