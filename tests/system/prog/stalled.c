// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory of one process is not provided (modules/stall.c), and as many faults or prefetches as
 * possible wait for it. Pages of another process are provided nevertheless.
 */
#include "paged.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../modules/stall.h"

#define LEN	(64 * PAGE)
#define QUEUED	32u	/* prefetches that a context may have queued (kernel/prefetch.h) */
#define CALLS	1100u	/* more than a work queue of any kernel runs concurrently by default */
#define QPS	140u	/* more than the device has fault slots */

static int stall = -1;	/* /dev/stall */

static unsigned int waiting(void)
{
	uint32_t n;

	if (ioctl(stall, STALL_WAITING, &n))
		fail("STALL_WAITING: %s", strerror(errno));
	return n;
}

/** struct hog - the process whose memory is not provided */
struct hog {
	struct peer p;
	struct ibv_mr *mr;
	uint8_t *m;
	pthread_t thread;
	atomic_uint returned;
};

static void *advise(void *arg)
{
	struct hog *h = arg;

	for (unsigned int i = 0; i < CALLS; i++) {
		struct ibv_sge sge = { (uintptr_t)h->m + (uint64_t)i * PAGE, PAGE, h->mr->lkey };
		int rc = ibv_advise_mr(h->p.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);

		if (rc)
			fail("advice %u: %s", i, strerror(rc));
		atomic_fetch_add(&h->returned, 1);
	}
	return NULL;
}

/* Issues as many prefetches as possible. One that is not queued waits in its caller. */
static void hog_prefetches(struct hog *h)
{
	int64_t end = ms_now() + PATIENCE_MS;
	unsigned int n;

	if (pthread_create(&h->thread, NULL, advise, h))
		fail("pthread_create");
	while ((n = atomic_load(&h->returned)) != CALLS && (n < QUEUED || waiting() != n + 1)) {
		if (ms_now() > end)
			fail("%u prefetches, %u wait", n, waiting());
		usleep(1000);
	}
	printf("%u of %u prefetches are queued\n", n, CALLS);
}

/*
 * Causes as many faults as possible: each QP sends from missing pages. While a fault waits, no call
 * that changes the address space returns; so all QPs are created before the first send.
 */
static void hog_faults(struct hog *h)
{
	uint64_t faults = hw_counter(h->p.ctx, "page_faults");
	struct ibv_qp *first = h->p.qp, *qp[QPS];
	int64_t end = ms_now() + PATIENCE_MS;
	unsigned int n;

	for (unsigned int i = 0; i < QPS; i++) {
		struct peer_info to = h->p.me;

		qp[i] = peer_qp(&h->p, h->p.pd);
		to.qpn = qp[i]->qp_num;
		peer_rts(&h->p, qp[i], &to, to.psn);
	}
	for (unsigned int i = 0; i < QPS; i++) {
		h->p.qp = qp[i];
		paged_post(&h->p, IBV_WR_RDMA_WRITE, (uintptr_t)h->m + (uint64_t)i * PAGE,
			   h->mr->lkey, h->p.you.addr, h->p.you.rkey, 8);
	}
	h->p.qp = first;
	/* the device reports no more faults, and the driver waits for all reported ones */
	do {
		n = waiting();
		usleep(100000);
		if (ms_now() > end)
			fail("%u faults wait", n);
	} while (!n || n != waiting() || hw_counter(h->p.ctx, "page_faults") - faults != n);
	printf("%u of %u faults are under way\n", n, QPS);
}

static void hog_faults_end(struct hog *h)
{
	for (unsigned int i = 0; i < QPS; i++)
		wc_expect(h->p.scq, 7, IBV_WC_SUCCESS, "write of what has come");
}

/* A separate process, which reports when its requests wait, and exits on request. */
static void hog(bool prefetch, int tell, int told)
{
	struct hog h = { .p.sock = -1 };
	char c;

	alarm(STALL_SECONDS);
	peer_open(&h.p, IBV_QPT_RC);
	peer_connect(&h.p);
	paged_pair(&h.p);
	h.m = paged_map(CALLS * PAGE, MAP_SHARED, stall);
	h.mr = paged_reg(&h.p, h.m, CALLS * PAGE, ODP);
	if (prefetch)
		hog_prefetches(&h);
	else
		hog_faults(&h);
	fflush(stdout);
	if (write(tell, "", 1) != 1 || read(told, &c, 1) < 0)
		fail("pipe: %s", strerror(errno));
	/* only if the other process has failed */
	ioctl(stall, STALL_COME);
	if (prefetch)
		pthread_join(h.thread, NULL);
	else
		hog_faults_end(&h);
	paged_dereg(h.mr);
	exit(0);
}

/* Faults of every kind, an asynchronous prefetch, and deregistrations. */
static void victim(struct peer *p)
{
	for (uint32_t i = 0; i < 4; i++) {
		uint8_t *m = paged_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		struct ibv_mr *mr = paged_reg(p, m, LEN, ODP);
		struct ibv_sge sge = { (uintptr_t)m, LEN, mr->lkey };

		paged_every_op(p, mr, m, (uintptr_t)m, LEN, true, 100 + i);
		if (madvise(m, LEN, MADV_DONTNEED))
			fail("madvise: %s", strerror(errno));
		if (ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1))
			fail("advice: %s", strerror(errno));
		paged_dereg(mr);
		munmap(m, LEN);
	}
}

void stalled(bool prefetch)
{
	int tell[2], told[2], status;
	struct peer p = { .sock = -1 };
	pid_t pid;
	char c;

	stall = open("/dev/stall", O_RDWR | O_CLOEXEC);
	if (stall < 0 || ioctl(stall, STALL_HOLD))
		fail("/dev/stall: %s", strerror(errno));
	if (pipe(tell) || pipe(told))
		fail("pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (!pid) {
		close(told[1]);
		hog(prefetch, tell[1], told[0]);
	}
	close(tell[1]);
	if (read(tell[0], &c, 1) != 1)
		fail("the process whose memory does not come has failed");
	peer_open(&p, IBV_QPT_RC);
	peer_connect(&p);
	paged_pair(&p);
	victim(&p);
	if (!waiting())
		fail("its memory has come");
	ioctl(stall, STALL_COME);
	if (write(told[1], "", 1) != 1 || waitpid(pid, &status, 0) != pid || status)
		fail("the process whose memory has come has failed");
	victim(&p);
	close(stall);
}
