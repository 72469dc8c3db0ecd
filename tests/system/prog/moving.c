// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pages of a region are removed in every way that the kernel has, while the device writes and reads
 * them for a thread.
 */
#define _GNU_SOURCE
#include "paged.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define HUGE		(2u << 20)
#define LEN		(64 * PAGE)

/* A SEND and an atomic: each is executed once, however often it is retried. */
static void once(struct traffic *t, uint32_t i)
{
	uint64_t va = (uintptr_t)t->at, was, now;
	struct peer *p = t->p;

	fill(p->buf, t->len, i);
	paged_recv(p, va, t->len, t->mr->lkey);
	paged_op(p, IBV_WR_SEND, (uintptr_t)p->buf, p->mr->lkey, 0, 0, t->len, IBV_WC_SUCCESS,
		 "send");
	wc_expect(p->rcq, 8, IBV_WC_SUCCESS, "receive");
	check(t->at, t->len, i, "received while pages moved");
	memcpy(&was, t->at + t->len - 8, 8);
	paged_op(p, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)p->buf, p->mr->lkey, va + t->len - 8,
		 t->mr->rkey, 8, IBV_WC_SUCCESS, "atomic");
	memcpy(&now, t->at + t->len - 8, 8);
	if (memcmp(p->buf, &was, 8) || now != was + PAGED_ADD)
		fail("an atomic was not done once while pages moved");
	/* its result buffer has no page */
	paged_op(p, IBV_WR_ATOMIC_FETCH_AND_ADD, va, t->mr->lkey, p->you.addr + 64, p->you.rkey, 8,
		 IBV_WC_SUCCESS, "atomic from it");
	memcpy(&was, p->buf + 64, 8);
	memcpy(&now, t->at, 8);
	if (was != now + PAGED_ADD)
		fail("an atomic from it was not done once while pages moved");
}

static void *traffic(void *arg)
{
	struct traffic *t = arg;
	struct peer *p = t->p;

	for (uint32_t i = 1; !atomic_load(&t->stop); i++) {
		fill(p->buf, t->len, i);
		paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)t->at,
			 t->mr->rkey, t->len, IBV_WC_SUCCESS, "write");
		if (t->verify) {
			check(t->at, t->len, i, "written while pages moved");
			memset(p->buf, 0, t->len);
		}
		paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)t->at,
			 t->mr->rkey, t->len, IBV_WC_SUCCESS, "read");
		if (t->verify)
			check(p->buf, t->len, i, "read while pages moved");
		/* the opposite direction: the requester's pages are missing */
		paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)t->at, t->mr->lkey, p->you.addr,
			 p->you.rkey, t->len, IBV_WC_SUCCESS, "write from it");
		if (t->verify)
			check(p->buf, t->len, i, "written from pages that moved");
		if (t->verify)
			once(t, i);
		atomic_fetch_add(&t->rounds, 1);
	}
	return NULL;
}

void rounds_wait(struct traffic *t, unsigned int n)
{
	unsigned int goal = atomic_load(&t->rounds) + n + 1;
	int64_t end = ms_now() + PATIENCE_MS;

	while ((int)(atomic_load(&t->rounds) - goal) < 0) {
		if (ms_now() > end)
			fail("the traffic stands still");
		sched_yield();
	}
}

void traffic_on(struct traffic *t, struct peer *p, struct ibv_mr *mr, uint8_t *at, uint32_t len,
		bool verify)
{
	memset(t, 0, sizeof(*t));
	t->p = p;
	t->at = at;
	t->len = len;
	t->verify = verify;
	t->mr = mr;
	if (pthread_create(&t->thread, NULL, traffic, t))
		fail("pthread_create");
	rounds_wait(t, 0);
}

static void traffic_start(struct traffic *t, struct peer *p, uint8_t *at, uint32_t len, bool verify)
{
	traffic_on(t, p, paged_reg(p, at, len, ODP), at, len, verify);
}

void traffic_stop(struct traffic *t)
{
	rounds_wait(t, 0);
	atomic_store(&t->stop, true);
	pthread_join(t->thread, NULL);
	paged_dereg(t->mr);
}

/* ---- every way ------------------------------------------------------------------- */

/* A child's memory stays as at the fork, whatever the device writes for its parent. */
static void forks(struct peer *p)
{
	uint8_t *m = paged_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	static uint8_t copy[LEN];
	struct traffic t;

	memset(m, 0, LEN);
	traffic_start(&t, p, m, LEN, true);
	for (int i = 0; i < 8; i++) {
		int go[2], status;
		pid_t pid;
		char c;

		if (pipe(go))
			fail("pipe: %s", strerror(errno));
		pid = fork();
		if (pid < 0)
			fail("fork: %s", strerror(errno));
		if (!pid) {
			memcpy(copy, m, LEN);
			_exit(read(go[0], &c, 1) != 1 || memcmp(copy, m, LEN));
		}
		rounds_wait(&t, 2);
		if (write(go[1], "", 1) != 1 || waitpid(pid, &status, 0) != pid || status)
			fail("a child saw what the device wrote for the parent");
		close(go[0]);
		close(go[1]);
	}
	traffic_stop(&t);
	munmap(m, LEN);
}

/* Small pages become a huge one, which is split again; not every s390x has huge pages. */
static void collapses(struct peer *p)
{
	const uint32_t len = HUGE / 4;
	uint8_t *room = paged_map(2 * HUGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint8_t *m = (uint8_t *)(((uintptr_t)room + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
	unsigned int done = 0;
	struct traffic t;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK)) {
		munmap(room, 2 * HUGE);
		return;
	}
	for (uint32_t i = 0; i < HUGE; i += PAGE)
		m[i] = 1;
	traffic_start(&t, p, m, len, true);
	for (int i = 0; i < 6; i++) {
		if (!madvise(m, HUGE, MADV_COLLAPSE))
			done++;
		else if (errno != EAGAIN && errno != EBUSY && errno != ENOMEM)
			fail("MADV_COLLAPSE: %s", strerror(errno));
		rounds_wait(&t, 1);
		if (madvise(m + HUGE / 2 + (uint32_t)i * PAGE, PAGE, MADV_DONTNEED))
			fail("MADV_DONTNEED: %s", strerror(errno));
		rounds_wait(&t, 1);
	}
	if (!done)
		fail("no huge page was made");
	traffic_stop(&t);
	munmap(room, 2 * HUGE);
}

/*
 * Other memory at the same address, by mmap() and by mremap(). When either returns, the device no
 * longer writes the old pages: the file keeps its contents.
 */
static void replacements(struct peer *p)
{
	static const uint8_t zero[LEN];
	int fd = paged_file(LEN, 0), next;
	uint8_t *m = paged_map(LEN, MAP_SHARED, fd), *old = paged_map(LEN, MAP_SHARED, fd), *now;
	struct traffic t;

	close(fd);
	traffic_start(&t, p, m, LEN, false);
	for (uint32_t i = 0; i < 12; i++) {
		next = paged_file(LEN, 0);
		now = paged_map(LEN, MAP_SHARED, next);
		if (i & 1) {
			void *from = paged_map(LEN, MAP_SHARED, next);

			if (mremap(from, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, m) != m)
				fail("mremap: %s", strerror(errno));
		} else if (mmap(m, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, next,
				0) != m) {
			fail("mmap: %s", strerror(errno));
		}
		fill(old, LEN, 1000 + i);
		rounds_wait(&t, 2);
		check(old, LEN, 1000 + i, "pages that were taken away");
		if (!memcmp(now, zero, LEN))
			fail("the device does not write to the new pages");
		munmap(old, LEN);
		close(next);
		old = now;
	}
	traffic_stop(&t);
	munmap(old, LEN);
	munmap(m, LEN);
}

/* munmap() or deregistration during requests: the requests fail, each with its own error. */
static void ends(struct peer *p)
{
	static const struct {
		bool local, dereg;
		enum ibv_wc_status status;
	} how[] = {
		{ false, false, IBV_WC_REM_ACCESS_ERR },
		{ true, false, IBV_WC_LOC_PROT_ERR },
		{ false, true, IBV_WC_REM_ACCESS_ERR },
		{ true, true, IBV_WC_LOC_PROT_ERR },
	};

	for (unsigned int i = 0; i < 4; i++) {
		uint8_t *m = paged_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		struct ibv_mr *mr = paged_reg(p, m, LEN, ODP);
		uint64_t va = (uintptr_t)m, buf = (uintptr_t)p->buf;
		uint32_t key = mr->lkey;
		unsigned int posted = 0, good = 0, flushed = 0, bad = 0;
		struct ibv_wc wc;

		memset(m, 0, LEN);
		/* 32 requests are outstanding or completed at that moment */
		for (; posted < 32; posted++) {
			if (how[i].local)
				paged_post(p, IBV_WR_RDMA_WRITE, va, key, p->you.addr,
					   p->you.rkey, LEN);
			else
				paged_post(p, IBV_WR_RDMA_WRITE, buf, p->mr->lkey, va, key,
					   LEN);
		}
		if (!wc_get(p->scq, &wc, PATIENCE_MS) || wc.status)
			fail("before the end: %s", ibv_wc_status_str(wc.status));
		if (how[i].dereg)
			paged_dereg(mr);
		else
			munmap(m, LEN);
		if (how[i].local)
			paged_post(p, IBV_WR_RDMA_WRITE, va, key, p->you.addr, p->you.rkey,
				   LEN);
		else
			paged_post(p, IBV_WR_RDMA_WRITE, buf, p->mr->lkey, va, key, LEN);
		for (; posted > 0; posted--) {
			if (!wc_get(p->scq, &wc, PATIENCE_MS))
				fail("a request is lost");
			if (wc.status == IBV_WC_SUCCESS && !bad)
				good++;
			else if (wc.status == how[i].status && !bad)
				bad++;
			else if (wc.status == IBV_WC_WR_FLUSH_ERR && bad)
				flushed++;
			else
				fail("end %u: %s after %u good, %u bad, %u flushed", i,
				     ibv_wc_status_str(wc.status), good, bad, flushed);
		}
		if (!bad)
			fail("end %u: nothing failed", i);
		paged_pair(p);
		if (how[i].dereg)
			munmap(m, LEN);
		else
			paged_dereg(mr);
	}
}

void moving(struct peer *p)
{
	forks(p);
	collapses(p);
	replacements(p);
	ends(p);
}

/* ---- memory is short ------------------------------------------------------------- */

static unsigned long vmstat(const char *name)
{
	FILE *f = fopen("/proc/vmstat", "r");
	unsigned long n, found = 0;
	char key[64];

	while (f && fscanf(f, "%63s %lu", key, &n) == 2)
		if (!strcmp(key, name))
			found = n;
	if (f)
		fclose(f);
	return found;
}

void swapped(struct peer *p)
{
	uint8_t *m = paged_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	unsigned long out = vmstat("pswpout"), in = vmstat("pswpin");
	uint64_t state = 9;
	struct traffic t;

	memset(m, 0, LEN);
	traffic_start(&t, p, m, LEN, true);
	for (int i = 0; i < 60; i++) {
		uint64_t r = rnd(&state);
		size_t first = r % 48, n = 1 + (r >> 8) % 16;

		if (madvise(m + first * PAGE, n * PAGE, MADV_PAGEOUT))
			fail("MADV_PAGEOUT: %s", strerror(errno));
		if (i % 4 == 3)
			rounds_wait(&t, 0);
	}
	traffic_stop(&t);
	munmap(m, LEN);
	out = vmstat("pswpout") - out;
	in = vmstat("pswpin") - in;
	if (!out || !in)
		fail("%lu pages went to swap space, %lu came back", out, in);
}

void squeezed(struct peer *p, unsigned int mib)
{
	const uint32_t len = 1u << 20;
	uint8_t *m = paged_map((size_t)mib * len, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct ibv_mr *mr = paged_reg(p, m, (size_t)mib * len, ODP);
	unsigned long out = vmstat("pswpout");

	for (uint32_t i = 0; i < mib; i++) {
		fill(p->buf, len, i);
		paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey,
			 (uintptr_t)m + i * len, mr->rkey, len, IBV_WC_SUCCESS, "write");
	}
	for (uint32_t i = 0; i < mib; i++) {
		memset(p->buf, 0, len);
		paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey,
			 (uintptr_t)m + i * len, mr->rkey, len, IBV_WC_SUCCESS, "read");
		check(p->buf, len, i, "came back from swap space");
	}
	paged_dereg(mr);
	munmap(m, (size_t)mib * len);
	out = vmstat("pswpout") - out;
	if (out < mib * 256 / 4)
		fail("only %lu pages went to swap space", out);
}

/* ---- a process is killed ----------------------------------------------------------- */

static void victim(int tell)
{
	struct peer p = { .sock = -1 };
	struct traffic t;
	uint8_t *m;

	peer_open(&p, IBV_QPT_RC);
	peer_connect(&p);
	paged_pair(&p);
	m = paged_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	traffic_start(&t, &p, m, LEN, false);
	if (!ibv_reg_mr(p.pd, NULL, SIZE_MAX, ODP))
		fail("implicit region: %s", strerror(errno));
	if (write(tell, "", 1) != 1)
		fail("write");
	for (;;)
		madvise(m, LEN, MADV_DONTNEED);
}

void paged_killed(void (*run)(int tell))
{
	for (int i = 0; i < 6; i++) {
		int told[2], status;
		pid_t pid;
		char c;

		if (pipe(told))
			fail("pipe: %s", strerror(errno));
		pid = fork();
		if (pid < 0)
			fail("fork: %s", strerror(errno));
		if (!pid) {
			alarm(60);
			run(told[1]);
		}
		close(told[1]);
		if (read(told[0], &c, 1) != 1)
			fail("the victim did not live long enough");
		close(told[0]);
		if (kill(pid, SIGKILL) || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
			fail("kill");
	}
}

void killed(void)
{
	paged_killed(victim);
}
