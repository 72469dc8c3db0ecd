// SPDX-License-Identifier: GPL-2.0-or-later
/* The client side of a front: its messages, and its checks of a daemon that lies. */
#define _GNU_SOURCE
#include "fake_daemon.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../process.h"
#include "front/client.h"
#include "front/hello.h"
#include "ohca_regs.h"

#define PATIENCE_MS	20000	/* that a call needs on a busy machine, if it is bounded */
#define DB(n)		OHCA_FIELD_PREP(OHCA_DB_HANDLE, (uint64_t)(n))

static const struct ohca_front_hello hello = { .ports = 1, .desc = "a card" };

/* Number of mappings of pages of fake_daemon.c. */
static unsigned int pages(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int n = 0;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "/memfd:ohca-page") != NULL;
	fclose(maps);
	return n;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static struct ohca_front *join(struct daemon *l)
{
	struct ohca_front_err err;
	struct ohca_front *f = ohca_front_connect(l->path, &hello, -1, PATIENCE_MS, &err);

	if (!f)
		print_message("%s\n", err.text);
	assert_non_null(f);
	assert_null(ohca_front_lost(f));
	return f;
}

static int call(struct ohca_front *f, uint64_t *value)
{
	struct ohca_front_reg m = { .off = htole32(OHCA_REG_CTRL), .size = 4 };

	return ohca_front_call(f, OHCA_FRONT_REG, &m, sizeof(m), -1, value);
}

/* ---- an honest daemon ------------------------------------------------------------------- */

static void test_hello(void **state)
{
	int dm = memfd_create("dm", MFD_CLOEXEC);
	struct ohca_front_err err;
	struct ohca_front *f;
	uint64_t before = now_ns();
	struct daemon l;

	(void)state;
	daemon_open(&l, NULL);
	f = ohca_front_connect(l.path, &hello, dm, PATIENCE_MS, &err);
	assert_non_null(f);
	assert_int_equal(le32toh(l.hello.hdr.magic), OHCA_FRONT_MAGIC);
	assert_int_equal(le16toh(l.hello.hdr.version), OHCA_FRONT_VERSION);
	assert_int_equal(le16toh(l.hello.hdr.type), OHCA_FRONT_HELLO);
	assert_int_equal(le32toh(l.hello.hdr.len), sizeof(l.hello));
	assert_int_equal(l.hello.ports, 1);
	assert_string_equal((const char *)l.hello.desc, "a card");
	assert_in_range(le64toh(l.hello.clock_ns), before, now_ns());
	assert_true(l.dm);
	assert_int_equal(pages(), 2);
	ohca_front_free(f);
	assert_int_equal(pages(), 1);
	assert_int_equal(fcntl(dm, F_GETFD), FD_CLOEXEC);
	close(dm);
	daemon_close(&l);
}

/* ohca_front_start() does not wait, and ohca_front_welcome() waits no longer than its timeout. */
static void keep_silent(struct daemon *l, struct answer *a)
{
	(void)l;
	a->silent = true;
}

static void test_start(void **state)
{
	const unsigned int before = open_fds();
	struct ohca_front_err err;
	struct ohca_front *f;
	uint64_t begin;
	struct daemon l;

	(void)state;
	daemon_open(&l, keep_silent);
	f = ohca_front_start(l.path, &hello, -1, &err);
	assert_non_null(f);
	begin = now_ns();
	assert_int_equal(ohca_front_welcome(f, 0, &err), 0);
	assert_int_equal(ohca_front_welcome(f, 50, &err), 0);
	assert_in_range((now_ns() - begin) / 1000000, 50, PATIENCE_MS);
	ohca_front_free(f);
	daemon_close(&l);

	daemon_open(&l, keep_silent);
	assert_null(ohca_front_connect(l.path, &hello, -1, 50, &err));
	assert_string_equal(err.text, "the fabric's process did not answer HELLO within 50 ms");
	daemon_close(&l);
	assert_int_equal(open_fds(), before);
}

static void test_absent(void **state)
{
	struct ohca_front_err err = { .absent = false };
	char path[200];

	(void)state;
	assert_null(ohca_front_start("/tmp/there/is/none", &hello, -1, &err));
	assert_true(err.absent);
	assert_string_equal(err.text, "no fabric socket '/tmp/there/is/none': is ohca-fabric running?");
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	assert_null(ohca_front_start(path, &hello, -1, &err));
	assert_false(err.absent);
	assert_null(ohca_front_start("", &hello, -1, &err));
	assert_non_null(strstr(err.text, "1 to 107 characters"));
}

static void refuse_memory(struct daemon *l, struct answer *a)
{
	if (l->type == OHCA_FRONT_MEM)
		a->msg.done.status = htole32(OHCA_FRONT_INVALID);
}

static void test_call(void **state)
{
	struct ohca_front_block block = { .id = 0 };
	struct ohca_front_mem mem = { .n = 0 };
	uint64_t value = 0;
	struct ohca_front *f;
	struct daemon l;

	(void)state;
	daemon_open(&l, refuse_memory);
	l.value = 0x123456789abcull;
	f = join(&l);
	assert_int_equal(call(f, &value), OHCA_FRONT_OK);
	assert_true(value == 0x123456789abcull);
	assert_int_equal(l.type, OHCA_FRONT_REG);
	assert_int_equal(l.len, sizeof(struct ohca_front_reg));
	assert_false(l.fd);
	/* the daemon reads the socket and needs no wake-up: it is awake */
	assert_int_equal(atomic_exchange(l.db.pending, 0), OHCA_PEND_ATTN);
	assert_int_equal(read(l.wake, &value, sizeof(value)), -1);

	atomic_store(&l.page->asleep, 1);
	assert_int_equal(ohca_front_call(f, OHCA_FRONT_BLOCK, &block, sizeof(block), l.memfd, NULL),
			 OHCA_FRONT_OK);
	assert_true(l.fd);
	assert_int_equal(atomic_load(&l.page->asleep), 0);
	assert_int_equal(read(l.wake, &value, sizeof(value)), sizeof(value));
	/* a refusal does not end the connection */
	assert_int_equal(ohca_front_call(f, OHCA_FRONT_MEM, &mem, sizeof(mem), -1, NULL),
			 OHCA_FRONT_INVALID);
	assert_null(ohca_front_lost(f));
	assert_true(ohca_front_event(f));
	assert_int_equal(l.calls, 3);
	ohca_front_free(f);
	daemon_close(&l);
}

/* The daemon reads the ring of mappings before it answers UNMAP. */
static void take_maps(struct daemon *l, struct answer *a)
{
	(void)a;
	if (l->type == OHCA_FRONT_UNMAP)
		atomic_store(&l->page->map_tail, atomic_load(&l->page->map_head));
}

/* Mappings of an IOMMU go into the ring; only a full ring needs a call, which empties it. */
static void test_maps(void **state)
{
	for (unsigned int lies = 0; lies < 2; lies++) {
		const struct ohca_page_map *ring;
		struct ohca_front *f;
		struct daemon l;

		(void)state;
		daemon_open(&l, NULL);
		f = join(&l);
		l.change = lies ? NULL : take_maps;
		ring = (const void *)((const uint8_t *)l.page + OHCA_PAGE_RING);
		for (uint64_t i = 0; i < OHCA_PAGE_MAPS; i++) {
			assert_int_equal(ohca_front_map(f, i << 12, 4096, 3, i << 13, 1), 0);
			assert_int_equal(l.page->map_head, i + 1);
			assert_int_equal(ring[i].iova, i << 12);
			assert_int_equal(ring[i].len, 4096);
			assert_int_equal(ring[i].off, i << 13);
			assert_int_equal(ring[i].block, 1ull << 32 | 3);
		}
		assert_int_equal(l.calls, 0);
		assert_int_equal(ohca_front_map(f, 77 << 12, 4096, 3, 0, 0), lies ? -1 : 0);
		assert_int_equal(l.calls, 1);
		assert_int_equal(l.type, OHCA_FRONT_UNMAP);
		assert_int_equal(l.page->map_head, OHCA_PAGE_MAPS + !lies);
		assert_int_equal(ring[0].iova, lies ? 0 : 77 << 12);
		assert_int_equal(!!ohca_front_lost(f), lies);
		/* a daemon that has read all of the ring is not called */
		for (unsigned int i = 0; i < 2; i++) {
			assert_int_equal(ohca_front_maps_read(f), lies ? -1 : 0);
			assert_int_equal(l.calls, 1 + !lies);
		}
		ohca_front_free(f);
		daemon_close(&l);
	}
}

static void test_ring(void **state)
{
	uint64_t count;
	struct ohca_front *f;
	struct daemon l;

	(void)state;
	daemon_open(&l, NULL);
	f = join(&l);
	atomic_store(&l.db.owner[OHCA_DB_QP][7], 2 + 1);
	ohca_front_ring(f, 2, OHCA_UAR_SQ, DB(7), 8);
	assert_int_equal(atomic_exchange(l.db.pending, 0), OHCA_PEND_RING(OHCA_RING_SQ));
	assert_true(atomic_load(&l.db.ring[OHCA_RING_SQ].bits[0]) == 1u << 7);
	assert_int_equal(read(l.wake, &count, sizeof(count)), -1);
	/* one wake-up for a sleep; none for a doorbell that is ignored */
	atomic_store(&l.page->asleep, 1);
	ohca_front_ring(f, 3, OHCA_UAR_SQ, DB(7), 8);
	assert_int_equal(atomic_load(&l.page->asleep), 1);
	ohca_front_ring(f, 2, OHCA_UAR_SQ, DB(7), 8);
	ohca_front_ring(f, 2, OHCA_UAR_RQ, DB(7), 8);
	assert_int_equal(read(l.wake, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 1);
	atomic_store(l.db.pending, 0);

	atomic_store(&l.page->asleep, 1);
	ohca_front_admin(f, 0x80000001);
	assert_int_equal(atomic_load(l.db.aq_db), 0x80000001);
	assert_int_equal(atomic_load(l.db.pending), OHCA_PEND_AQ);
	assert_int_equal(read(l.wake, &count, sizeof(count)), sizeof(count));
	ohca_front_free(f);
	daemon_close(&l);
}

static void test_registers(void **state)
{
	uint64_t before, got;
	struct ohca_front *f;
	struct daemon l;

	(void)state;
	daemon_open(&l, NULL);
	f = join(&l);
	atomic_store(&l.page->reg[0], OHCA_MAGIC);
	atomic_store(&l.page->reg[1], 7);
	atomic_store(&l.page->reg[OHCA_PAGE_REGS - 1], 8);
	assert_int_equal(ohca_front_reg(f, 0, 4), OHCA_MAGIC);
	assert_true(ohca_front_reg(f, 0, 8) == (7ull << 32 | OHCA_MAGIC));
	assert_int_equal(ohca_front_reg(f, 4, 8), 0);
	assert_int_equal(ohca_front_reg(f, 2, 4), 0);
	assert_int_equal(ohca_front_reg(f, 4 * (OHCA_PAGE_REGS - 1), 4), 8);
	assert_int_equal(ohca_front_reg(f, 4 * OHCA_PAGE_REGS, 4), 0);
	assert_int_equal(ohca_front_reg(f, ~7ull, 8), 0);
	assert_false(ohca_front_slow_reads(f));
	atomic_store(&l.page->slow_reads, 1);
	assert_true(ohca_front_slow_reads(f));

	atomic_store(&l.page->clock, ohca_page_clock_word(0x100000002ull, false));
	assert_int_equal(ohca_front_clock(f, OHCA_UAR_CLOCK, 8), 0);
	atomic_store(&l.page->clock_ok, 1);
	assert_true(ohca_front_clock(f, OHCA_UAR_CLOCK, 8) == 0x100000002ull);
	assert_int_equal(ohca_front_clock(f, OHCA_UAR_CLOCK, 4), 2);
	assert_int_equal(ohca_front_clock(f, OHCA_UAR_CLOCK + 4, 4), 1);
	assert_int_equal(ohca_front_clock(f, OHCA_UAR_CLOCK, 2), 0);
	assert_int_equal(ohca_front_clock(f, OHCA_UAR_SQ, 8), 0);
	atomic_store(&l.page->clock, ohca_page_clock_word((uint64_t)-5, true));
	before = now_ns();
	got = ohca_front_clock(f, OHCA_UAR_CLOCK, 8);
	assert_in_range(got, before - 5, now_ns() - 5);
	ohca_front_free(f);
	daemon_close(&l);
}

static void *wait_irq(void *arg)
{
	return ohca_front_irq_wait(arg) ? arg : NULL;
}

static void test_interrupts(void **state)
{
	uint64_t seen[OHCA_PAGE_VECTORS / 64];
	struct ohca_front *f;
	pthread_t waiter;
	struct daemon l;
	void *woken;

	(void)state;
	daemon_open(&l, NULL);
	f = join(&l);
	assert_false(ohca_front_irq_any(f));
	atomic_store(&l.page->irq[0], 1ull << 63 | 1);
	atomic_store(&l.page->irq[1], ~0ull);
	atomic_store(&l.page->irq_any, 1);
	assert_true(ohca_front_irq_any(f));
	assert_true(ohca_front_irqs(f, 66, seen));
	assert_true(seen[0] == (1ull << 63 | 1) && seen[1] == 3);
	for (unsigned int i = 2; i < OHCA_PAGE_VECTORS / 64; i++)
		assert_true(!seen[i]);
	assert_false(ohca_front_irq_any(f));
	assert_false(ohca_front_irqs(f, 66, seen));
	assert_true(!seen[0] && !seen[1]);
	/* of a device whose vectors were removed */
	atomic_store(&l.page->irq[0], 1);
	assert_false(ohca_front_irqs(f, 0, seen));

	atomic_store(&l.page->irq[31], 1);
	atomic_store(&l.page->irq_any, 1);
	ohca_front_irq_clear(f);
	assert_false(ohca_front_irq_any(f));
	assert_true(!atomic_load(&l.page->irq[31]));

	assert_int_equal(send(l.irq[0], "x", 1, 0), 1);
	assert_true(ohca_front_irq_wait(f));
	/* a byte wakes a thread that waits, even if the daemon makes the socket non-blocking */
	fcntl(l.irq[1], F_SETFL, O_RDWR | O_NONBLOCK);
	pthread_create(&waiter, NULL, wait_irq, f);
	assert_int_equal(send(l.irq[0], "x", 1, 0), 1);
	pthread_join(waiter, &woken);
	assert_ptr_equal(woken, f);
	/* and so does the loss */
	fcntl(l.irq[1], F_SETFL, O_RDWR);
	pthread_create(&waiter, NULL, wait_irq, f);
	ohca_front_lose(f, "enough");
	pthread_join(waiter, &woken);
	assert_null(woken);
	assert_string_equal(ohca_front_lost(f), "enough");
	ohca_front_free(f);
	daemon_close(&l);
}

/*
 * Only the interrupt socket ends: a thread that waits for the other one, or calls, detects the
 * loss.
 */
static void test_mute(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct pollfd p = { .events = POLLIN };
		struct ohca_front *f;
		pthread_t waiter;
		struct daemon l;
		void *woken;

		daemon_open(&l, NULL);
		f = join(&l);
		pthread_create(&waiter, NULL, wait_irq, f);
		shutdown(l.irq[0], SHUT_RDWR);
		pthread_join(waiter, &woken);
		assert_null(woken);
		p.fd = ohca_front_sock(f);
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		if (i)
			assert_int_equal(call(f, NULL), -1);
		else
			assert_false(ohca_front_event(f));
		assert_string_equal(ohca_front_lost(f),
				    "the fabric's process closed the socket of interrupts");
		assert_false(ohca_front_irq_wait(f));
		ohca_front_free(f);
		daemon_close(&l);
	}
}

/* An urgent byte of a daemon makes the interrupt socket readable, but blocks no thread. */
static void test_urgent(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct pollfd p = { .events = POLLIN };
		struct ohca_front *f;
		struct daemon l;

		daemon_open(&l, NULL);
		f = join(&l);
		p.fd = ohca_front_irq_sock(f);
		assert_int_equal(send(l.irq[0], "x", 1, 0), 1);
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		assert_true(ohca_front_irq_read(f));
		assert_int_equal(poll(&p, 1, 0), 0);
		/* a kernel may support none */
		if (i && send(l.irq[0], "x", 1, MSG_OOB) < 0)
			assert_int_equal(errno, EOPNOTSUPP);
		/* ends a test that blocks */
		alarm(PATIENCE_MS / 1000);
		assert_false(ohca_front_irq_read(f));
		alarm(0);
		assert_false(ohca_front_event(f));
		ohca_front_free(f);
		daemon_close(&l);
	}
}

/* ---- lies in WELCOME ---------------------------------------------------------------------- */

static void short_record(struct daemon *l, struct answer *a)
{
	(void)l;
	a->len = 15;
}

static void long_record(struct daemon *l, struct answer *a)
{
	(void)l;
	a->len = DAEMON_MAX;
	a->msg.hdr.len = htole32(DAEMON_MAX);
}

static void short_welcome(struct daemon *l, struct answer *a)
{
	(void)l;
	a->len--;
	a->msg.hdr.len = htole32((uint32_t)a->len);
}

static void other_magic(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.hdr.magic++;
}

static void link_magic(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.hdr.magic = htole32(0x4c43484f);
}

static void other_version(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.hdr.version = htole16(77);
}

static void other_length(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.hdr.len++;
}

static void other_seq(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.hdr.seq++;
}

static void other_type(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.hdr.type = htole16(99);
}

static void type_zero(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.hdr.type = 0;
}

static void no_fds(struct daemon *l, struct answer *a)
{
	(void)l;
	a->fds = 0;
}

static void two_fds(struct daemon *l, struct answer *a)
{
	(void)l;
	a->fds = 2;
}

static void four_fds(struct daemon *l, struct answer *a)
{
	a->fd[a->fds++] = l->wake;
}

static void no_eventfd(struct daemon *l, struct answer *a)
{
	a->fd[OHCA_FRONT_FD_WAKE] = l->irq[0];
}

static void blocking_eventfd(struct daemon *l, struct answer *a)
{
	(void)a;
	fcntl(l->wake, F_SETFL, O_RDWR);
}

static void no_stream(struct daemon *l, struct answer *a)
{
	a->fd[OHCA_FRONT_FD_IRQ] = l->memfd;
}

static void datagrams(struct daemon *l, struct answer *a)
{
	a->fd[OHCA_FRONT_FD_IRQ] = l->listener;
}

static void no_page(struct daemon *l, struct answer *a)
{
	a->fd[OHCA_FRONT_FD_PAGE] = l->irq[1];
}

/* The page is replaced by another memfd with @flags, of @bytes. */
static void replace_page_by(struct daemon *l, struct answer *a, unsigned int flags, size_t bytes,
			    int seals)
{
	close(l->memfd);
	l->memfd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	if (ftruncate(l->memfd, (off_t)bytes) || fcntl(l->memfd, F_ADD_SEALS, seals))
		abort();
	a->fd[OHCA_FRONT_FD_PAGE] = l->memfd;
}

static void replace_page(struct daemon *l, struct answer *a, size_t bytes, int seals)
{
	replace_page_by(l, a, 0, bytes, seals);
}

static void small_page(struct daemon *l, struct answer *a)
{
	replace_page(l, a, l->bytes - 1, F_SEAL_SHRINK | F_SEAL_GROW);
}

static void large_page(struct daemon *l, struct answer *a)
{
	replace_page(l, a, l->bytes + 1, F_SEAL_SHRINK | F_SEAL_GROW);
}

static void huge_page(struct daemon *l, struct answer *a)
{
	replace_page_by(l, a, MFD_HUGETLB | MAP_HUGE_2MB, 2 << 20, F_SEAL_SHRINK | F_SEAL_GROW);
}

static void unsealed_page(struct daemon *l, struct answer *a)
{
	replace_page(l, a, l->bytes, F_SEAL_GROW);
}

static void wrong_size(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.welcome.page_bytes = htole64(l->bytes - 4096);
}

static void no_sizes(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.welcome.max[0] = htole32(63);
}

static void huge_sizes(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.welcome.max[2] = htole32(1u << 31);
}

static void end(struct daemon *l, struct answer *a)
{
	(void)l;
	a->silent = a->close = true;
}

static void say_error(struct answer *a, const char *text)
{
	a->len = 20 + 204;
	a->fds = 0;
	memset(a->msg.byte + sizeof(a->msg.hdr), 0, 208);
	memcpy(a->msg.byte + 20, text, strlen(text));
	a->msg.hdr.len = htole32((uint32_t)a->len);
	a->msg.hdr.type = htole16(OHCA_FRONT_ERROR);
	a->close = true;
}

static void error(struct daemon *l, struct answer *a)
{
	(void)l;
	say_error(a, "no port is \033free");
}

static void long_error(struct daemon *l, struct answer *a)
{
	(void)l;
	say_error(a, "x");
	memset(a->msg.byte + 20, 'y', 204);
}

static void empty_error(struct daemon *l, struct answer *a)
{
	(void)l;
	a->len = sizeof(a->msg.hdr);
	a->fds = 0;
	a->msg.hdr.len = htole32((uint32_t)a->len);
	a->msg.hdr.type = htole16(OHCA_FRONT_ERROR);
}

static const struct lie {
	void (*change)(struct daemon *l, struct answer *a);
	const char *why;
} welcome_lies[] = {
	{ short_record, "sent 15 bytes, which is not a message" },
	{ long_record, "sent 1024 bytes, which is not a message" },
	{ short_welcome, "sent a WELCOME of" },
	{ other_magic, "does not use the protocol of HCAs" },
	{ link_magic, "this ohca-fabric hosts no HCAs" },
	{ other_version, "ohca-fabric uses version 77 of the protocol of HCAs, QEMU uses 4" },
	{ other_length, "whose length is" },
	{ other_seq, "did not answer HELLO but" },
	{ other_type, "answered HELLO by message type 99" },
	{ type_zero, "type 0" },
	{ no_fds, "0 descriptors instead of 3" },
	{ two_fds, "2 descriptors instead of 3" },
	{ four_fds, "too many descriptors" },
	{ no_eventfd, "descriptors of a wrong type" },
	{ blocking_eventfd, "descriptors of a wrong type" },
	{ no_stream, "descriptors of a wrong type" },
	{ datagrams, "descriptors of a wrong type" },
	{ no_page, "not sealed" },
	{ small_page, "bytes instead of" },
	{ large_page, "bytes instead of" },
	{ unsealed_page, "not sealed" },
	{ wrong_size, "sent invalid sizes of" },
	{ no_sizes, "sent invalid sizes of" },
	{ huge_sizes, "sent invalid sizes of" },
	{ end, "closed the socket" },
	{ error, "no port is ?free" },
	{ long_error, "yyyy" },
	{ empty_error, "closed the connection without a reason" },
};

static void expect_no_welcome(const struct lie *lie)
{
	unsigned int before = open_fds();
	struct ohca_front_err err = { .absent = true };
	struct ohca_front *f;
	struct daemon l;

	daemon_open(&l, lie->change);
	f = ohca_front_connect(l.path, &hello, -1, PATIENCE_MS, &err);
	assert_null(f);
	assert_false(err.absent);
	if (!strstr(err.text, lie->why))
		fail_msg("'%s', not '%s'", err.text, lie->why);
	daemon_close(&l);
	assert_int_equal(open_fds(), before);
}

static void test_welcome_lies(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < sizeof(welcome_lies) / sizeof(*welcome_lies); i++)
		expect_no_welcome(&welcome_lies[i]);
}

/* A page of a kernel with hugetlbfs; no huge page has to be free. */
static void test_huge_page(void **state)
{
	const int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB | MAP_HUGE_2MB);

	(void)state;
	if (fd < 0)
		skip();
	close(fd);
	expect_no_welcome(&(const struct lie){ huge_page, "not in tmpfs" });
}

/* ---- lies in answers ---------------------------------------------------------------------- */

static void short_done(struct daemon *l, struct answer *a)
{
	(void)l;
	a->len = 31;
	a->msg.hdr.len = htole32(31);
}

static void mad_status(struct daemon *l, struct answer *a)
{
	(void)l;
	a->msg.done.status = htole32(0xffffffff);
}

static void stray_fd(struct daemon *l, struct answer *a)
{
	a->fd[a->fds++] = l->memfd;
}

static const struct lie call_lies[] = {
	{ short_record, "which is not a message" },
	{ long_record, "which is not a message" },
	{ short_done, "an answer of 31 bytes" },
	{ other_magic, "does not use" },
	{ other_version, "version 77" },
	{ other_length, "whose length is" },
	{ other_seq, "answered a wrong call" },
	{ other_type, "answered a call by message type 99" },
	{ mad_status, "status 4294967295" },
	{ stray_fd, "unexpected descriptor" },
	{ keep_silent, "did not answer within 250 ms" },
	{ end, "closed the socket" },
	{ error, "no port is ?free" },
};

/* Checks that a front that is lost has no effect any more. */
static void expect_lost(struct daemon *l, struct ohca_front *f, const char *why)
{
	unsigned int calls = l->calls;
	uint64_t value = 5;

	assert_non_null(ohca_front_lost(f));
	if (!strstr(ohca_front_lost(f), why))
		fail_msg("'%s', not '%s'", ohca_front_lost(f), why);
	atomic_store(l->db.pending, 0);
	atomic_store(&l->page->asleep, 1);
	atomic_store(&l->db.owner[OHCA_DB_QP][7], 2 + 1);
	ohca_front_ring(f, 2, OHCA_UAR_SQ, DB(7), 8);
	ohca_front_admin(f, 1);
	assert_int_equal(call(f, &value), -1);
	assert_int_equal(value, 5);
	assert_false(ohca_front_event(f));
	assert_false(ohca_front_irq_wait(f));
	assert_int_equal(atomic_load(l->db.pending), 0);
	assert_int_equal(atomic_load(l->db.aq_db), 0);
	assert_int_equal(atomic_load(&l->page->asleep), 1);
	assert_int_equal(l->calls, calls);
}

static void test_call_lies(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < sizeof(call_lies) / sizeof(*call_lies); i++) {
		unsigned int before = open_fds();
		struct ohca_front *f;
		uint64_t begin;
		struct daemon l;

		daemon_open(&l, NULL);
		f = join(&l);
		l.change = call_lies[i].change;
		begin = now_ns();
		assert_int_equal(call(f, NULL), -1);
		assert_in_range((now_ns() - begin) / 1000000,
				call_lies[i].change == keep_silent ? OHCA_FRONT_CALL_MS : 0,
				PATIENCE_MS);
		assert_int_equal(l.calls, 1);
		expect_lost(&l, f, call_lies[i].why);
		ohca_front_free(f);
		daemon_close(&l);
		assert_int_equal(open_fds(), before);
	}
}

/* A daemon that always has more to unmap is asked again a bounded number of times. */
static void test_unmap_lies(void **state)
{
	struct ohca_front *f;
	struct daemon l;

	(void)state;
	daemon_open(&l, NULL);
	f = join(&l);
	l.value = 1;
	assert_int_equal(ohca_front_unmap(f, 0, UINT64_MAX), -1);
	assert_in_range(l.calls, 2, OHCA_FRONT_MAPS / OHCA_FRONT_UNMAP_STEP + 1);
	expect_lost(&l, f, "does not remove mappings");
	ohca_front_free(f);
	daemon_close(&l);
}

/* Messages without a call: the end, a reason, and an invalid one. */
static void test_unasked(void **state)
{
	static const char *const why[] = {
		"closed the socket", "no port is ?free", "unexpected message type 32768",
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(why) / sizeof(*why); i++) {
		struct answer a = { .msg.hdr.magic = htole32(OHCA_FRONT_MAGIC) };
		struct ohca_front *f;
		struct daemon l;

		daemon_open(&l, NULL);
		f = join(&l);
		a.msg.hdr.version = htole16(OHCA_FRONT_VERSION);
		if (i == 1) {
			error(&l, &a);
		} else {
			a.len = sizeof(a.msg.done);
			a.msg.hdr.len = htole32((uint32_t)a.len);
			a.msg.hdr.type = htole16(OHCA_FRONT_DONE);
		}
		if (i == 0)
			daemon_hang_up(&l);
		else
			daemon_send(&l, &a.msg, a.len);
		assert_false(ohca_front_event(f));
		expect_lost(&l, f, why[i]);
		/* a reason is the whole text */
		if (i == 1)
			assert_string_equal(ohca_front_lost(f), why[i]);
		ohca_front_free(f);
		daemon_close(&l);
	}
	ohca_front_free(NULL);
}

/* Names of speeds and widths, and a GUID. */
static void test_words(void **state)
{
	struct ohca_front_hello m = { .ports = 1 };

	(void)state;
	assert_false(ohca_hello_speed(&m, "edr2"));
	assert_false(ohca_hello_width(&m, ""));
	assert_int_equal(m.speed_sup | m.speed_ext_sup | m.width_sup, 0);
	assert_true(ohca_hello_speed(&m, "EDR"));
	assert_int_equal(m.speed_sup, 7);
	assert_int_equal(m.speed_ext_sup, 3);
	assert_true(ohca_hello_speed(&m, "sdr"));
	assert_int_equal(m.speed_sup, 1);
	assert_int_equal(m.speed_ext_sup, 0);
	assert_true(ohca_hello_width(&m, "12x"));
	assert_int_equal(m.width_sup, 11);
	assert_int_equal(ohca_hello_guid(UINT64_MAX), 0x0600cafffffffff0);
}

/* Registers of a device without an HCA: its identity, and AWAY. */
static void test_away(void **state)
{
	(void)state;
	assert_int_equal(ohca_front_away(OHCA_REG_MAGIC, 4), OHCA_MAGIC);
	assert_int_equal(ohca_front_away(OHCA_REG_MAGIC, 8),
			 OHCA_MAGIC | (uint64_t)ohca_front_away(OHCA_REG_VERSION, 4) << 32);
	assert_int_equal(ohca_front_away(OHCA_REG_VERSION, 4) >> 16, OHCA_MAJOR);
	assert_int_equal(ohca_front_away(OHCA_REG_STATUS, 4), OHCA_STATUS_AWAY);
	assert_int_equal(ohca_front_away(OHCA_REG_FEATURES, 8), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_call),
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_interrupts),
		cmocka_unit_test(test_mute),
		cmocka_unit_test(test_urgent),
		cmocka_unit_test(test_welcome_lies),
		cmocka_unit_test(test_huge_page),
		cmocka_unit_test(test_call_lies),
		cmocka_unit_test(test_unmap_lies),
		cmocka_unit_test(test_unasked),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_away),
	};

	return cmocka_run_group_tests_name("front client", tests, NULL, NULL);
}
