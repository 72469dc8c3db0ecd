// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory that is not pinned, and memory of other devices: on-demand paging while pages are removed
 * and added, and dma-bufs, through two QPs of one process.
 */
#define _GNU_SOURCE
#include "paged.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN		(64 * PAGE)

static struct ibv_qp *far;	/* the QP to which p->qp is connected */

void paged_pair(struct peer *p)
{
	struct peer_info to = p->me;

	if (p->qp && ibv_destroy_qp(p->qp))
		fail("ibv_destroy_qp");
	if (far && ibv_destroy_qp(far))
		fail("ibv_destroy_qp");
	p->qp = peer_qp(p, p->pd);
	far = peer_qp(p, p->pd);
	to.psn = 5;
	to.qpn = far->qp_num;
	peer_rts(p, p->qp, &to, 5);
	to.qpn = p->qp->qp_num;
	peer_rts(p, far, &to, 5);
}

void paged_post(struct peer *p, enum ibv_wr_opcode op, uint64_t local, uint32_t lkey,
		uint64_t remote, uint32_t rkey, uint32_t len)
{
	struct ibv_sge sge = { local, len, lkey };
	struct ibv_send_wr wr = {
		.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = PAGED_ADD;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	send_post_raw(p, &wr);
}

void paged_op(struct peer *p, enum ibv_wr_opcode op, uint64_t local, uint32_t lkey, uint64_t remote,
	      uint32_t rkey, uint32_t len, enum ibv_wc_status status, const char *what)
{
	paged_post(p, op, local, lkey, remote, rkey, len);
	wc_expect(p->scq, 7, status, what);
	if (status != IBV_WC_SUCCESS)
		paged_pair(p);
}

void paged_recv(struct peer *p, uint64_t addr, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = { addr, len, lkey };
	struct ibv_recv_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(far, &wr, &bad))
		fail("ibv_post_recv");
}

uint8_t *paged_map(size_t len, int flags, int fd)
{
	void *m = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (m == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return m;
}

int paged_file(size_t len, unsigned int flags)
{
	int fd = memfd_create("ohca-peer", flags);

	if (fd < 0 || ftruncate(fd, (off_t)len))
		fail("memfd: %s", strerror(errno));
	return fd;
}

struct ibv_mr *paged_reg(struct peer *p, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(p->pd, addr, len, access);

	if (!mr)
		fail("ibv_reg_mr: %s", strerror(errno));
	return mr;
}

void paged_dereg(struct ibv_mr *mr)
{
	int rc = ibv_dereg_mr(mr);

	if (rc)
		fail("ibv_dereg_mr: %s", strerror(rc));
}

void paged_every_op(struct peer *p, struct ibv_mr *mr, uint8_t *cpu, uint64_t va, uint32_t len,
		    bool drop, uint32_t seed)
{
	uint64_t buf = (uintptr_t)p->buf;
	uint64_t sum;

	fill(p->buf, len, seed);
	paged_op(p, IBV_WR_RDMA_WRITE, buf, p->mr->lkey, va, mr->rkey, len, 0, "write to it");
	check(cpu, len, seed, "written");
	memset(p->buf, 0, len);
	paged_op(p, IBV_WR_RDMA_READ, buf, p->mr->lkey, va, mr->rkey, len, 0, "read from it");
	check(p->buf, len, seed, "read");
	/* the opposite direction: the requester's own memory */
	memset(p->buf, 0, len);
	paged_op(p, IBV_WR_RDMA_WRITE, va, mr->lkey, p->you.addr, p->you.rkey, len, 0, "write from it");
	check(p->buf, len, seed, "written from it");
	fill(p->buf, len, seed + 1);
	if (drop && madvise(cpu, len, MADV_DONTNEED))
		fail("madvise: %s", strerror(errno));
	paged_op(p, IBV_WR_RDMA_READ, va, mr->lkey, p->you.addr, p->you.rkey, len, 0, "read into it");
	check(cpu, len, seed + 1, "read into it");
	if (drop && madvise(cpu, len, MADV_DONTNEED))
		fail("madvise: %s", strerror(errno));
	paged_recv(p, va, len, mr->lkey);
	paged_op(p, IBV_WR_SEND, buf, p->mr->lkey, 0, 0, len, 0, "send to it");
	wc_expect(p->rcq, 8, IBV_WC_SUCCESS, "receive");
	check(cpu, len, seed + 1, "received");
	paged_recv(p, buf, len, p->mr->lkey);
	memset(p->buf, 0, len);
	paged_op(p, IBV_WR_SEND, va, mr->lkey, 0, 0, len, 0, "send from it");
	wc_expect(p->rcq, 8, IBV_WC_SUCCESS, "receive from it");
	check(p->buf, len, seed + 1, "sent");
	sum = 40;
	memcpy(cpu + 64, &sum, 8);
	paged_op(p, IBV_WR_ATOMIC_FETCH_AND_ADD, buf, p->mr->lkey, va + 64, mr->rkey, 8, 0, "atomic");
	if (*(uint64_t *)(void *)p->buf != 40 || *(uint64_t *)(void *)(cpu + 64) != 40 + PAGED_ADD)
		fail("atomic: %llu", *(unsigned long long *)(void *)(cpu + 64));
	/* beyond its end */
	paged_op(p, IBV_WR_RDMA_WRITE, buf, p->mr->lkey, va + len - 8, mr->rkey, 16,
	    IBV_WC_REM_ACCESS_ERR, "past the end");
	paged_op(p, IBV_WR_RDMA_WRITE, va + len - 8, mr->lkey, p->you.addr, p->you.rkey, 16,
	    IBV_WC_LOC_PROT_ERR, "past its own end");
}

/* ---- on-demand paging -------------------------------------------------------------------- */

static atomic_bool stop;
static uint8_t *churned;

/* Removes and adds pages as fast as possible; the contents stay, because they are a file's. */
static void *churn(void *arg)
{
	uint64_t state = 5;

	while (!atomic_load(&stop)) {
		uint64_t r = rnd(&state);
		size_t first = r % 60, n = 1 + (r >> 8) % 4;

		if (madvise(churned + first * PAGE, n * PAGE, MADV_DONTNEED))
			fail("madvise: %s", strerror(errno));
	}
	return NULL;
}

static void under_churn(struct peer *p)
{
	int fd = paged_file(LEN, 0);
	struct ibv_mr *mr;
	pthread_t t;

	churned = paged_map(LEN, MAP_SHARED, fd);
	mr = paged_reg(p, churned, LEN, ODP);
	pthread_create(&t, NULL, churn, NULL);
	for (uint32_t i = 0; i < 60; i++) {
		fill(p->buf, LEN, i);
		paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)churned,
		    mr->rkey, LEN, 0, "write under churn");
		check(churned, LEN, i, "under churn");
		memset(p->buf, 0, LEN);
		paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)churned, mr->rkey,
		    LEN, 0, "read under churn");
		check(p->buf, LEN, i, "read under churn");
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	paged_dereg(mr);
	munmap(churned, LEN);
	close(fd);
}

/* Access to addresses without memory, or with read-only memory. */
static void no_memory(struct peer *p)
{
	uint8_t *m = paged_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct ibv_mr *mr = paged_reg(p, m, LEN, ODP);
	uint64_t va = (uintptr_t)m, buf = (uintptr_t)p->buf;

	fill(m, LEN, 3);
	paged_op(p, IBV_WR_RDMA_READ, buf, p->mr->lkey, va, mr->rkey, LEN, 0, "read");
	/* other memory at the same address */
	if (mmap(m, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) != m)
		fail("mmap: %s", strerror(errno));
	fill(m, 8 * PAGE, 4);
	paged_op(p, IBV_WR_RDMA_READ, buf, p->mr->lkey, va, mr->rkey, 8 * PAGE, 0, "read anew");
	check(p->buf, 8 * PAGE, 4, "memory at the same address");
	if (mprotect(m, 8 * PAGE, PROT_READ))
		fail("mprotect: %s", strerror(errno));
	paged_op(p, IBV_WR_RDMA_READ, buf, p->mr->lkey, va, mr->rkey, 8 * PAGE, 0, "read-only read");
	paged_op(p, IBV_WR_RDMA_WRITE, buf, p->mr->lkey, va, mr->rkey, 8, IBV_WC_REM_ACCESS_ERR,
	    "write to read-only memory");
	check(m, 8 * PAGE, 4, "read-only memory");
	munmap(m, 8 * PAGE);
	paged_op(p, IBV_WR_RDMA_READ, buf, p->mr->lkey, va, mr->rkey, 8, IBV_WC_REM_ACCESS_ERR,
	    "no memory");
	paged_op(p, IBV_WR_RDMA_WRITE, va, mr->lkey, p->you.addr, p->you.rkey, 8, IBV_WC_LOC_PROT_ERR,
	    "no memory of its own");
	paged_dereg(mr);
	munmap(m + 8 * PAGE, LEN - 8 * PAGE);
}

/*
 * After a fork the writes of the device change only the parent's memory, although neither process
 * has copied its pages yet.
 */
static void forked(struct peer *p)
{
	uint8_t *m = paged_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct ibv_mr *mr = paged_reg(p, m, LEN, ODP);
	int go[2], status;
	pid_t pid;
	char c;

	fill(m, LEN, 11);
	paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)m, mr->rkey, LEN, 0,
	    "before fork");
	if (pipe(go))
		fail("pipe");
	pid = fork();
	if (!pid) {
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		check(m, LEN, 11, "the child's memory");
		_exit(0);
	}
	fill(p->buf, LEN, 12);
	paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)m, mr->rkey, LEN, 0,
	    "after fork");
	check(m, LEN, 12, "the parent's memory");
	if (write(go[1], "", 1) != 1 || waitpid(pid, &status, 0) != pid || status)
		fail("the child saw what the device wrote for the parent");
	paged_dereg(mr);
	munmap(m, LEN);
}

static void advice(struct peer *p)
{
	static const enum ibv_advise_mr_advice all[] = {
		IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
		IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
	};
	uint8_t *m = paged_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct ibv_mr *mr = paged_reg(p, m, LEN, ODP), *present, *ro;
	struct ibv_sge sge = { (uintptr_t)m, LEN, mr->lkey };
	uint64_t faults;

	/* without 64 mappings of the zero page: DMA debugging counts a page's mappings up to 7 */
	fill(m, LEN, 1);
	for (unsigned int i = 0; i < 3; i++)
		for (unsigned int flush = 0; flush < 2; flush++)
			if (ibv_advise_mr(p->pd, all[i], flush ? IBV_ADVISE_MR_FLAG_FLUSH : 0, &sge,
					  1))
				fail("advice %u: %s", i, strerror(errno));
	/* memory prefetched for writing causes no fault */
	madvise(m, LEN, MADV_DONTNEED);
	if (ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge,
			  1))
		fail("prefetch for writing");
	/* then for reading: an asynchronous prefetch of the above may be late */
	if (ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1))
		fail("prefetch for reading");
	faults = hw_counter(p->ctx, "page_faults");
	paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)m, mr->rkey, LEN, 0,
	    "prefetched");
	if (hw_counter(p->ctx, "page_faults") != faults)
		fail("what was prefetched faulted");
	/* nor does memory present at its registration: a datagram would be lost */
	present = paged_reg(p, m, LEN, ODP);
	paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)m, present->rkey,
	    LEN, 0, "present");
	if (hw_counter(p->ctx, "page_faults") != faults)
		fail("what was there faulted");
	paged_dereg(present);
	sge.length = LEN + 1;
	if (!ibv_advise_mr(p->pd, all[0], IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1))
		fail("advice past the end");
	sge.length = LEN;
	sge.lkey = p->mr->lkey;
	if (!ibv_advise_mr(p->pd, all[0], IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1))
		fail("advice on pinned memory");
	ro = paged_reg(p, m, LEN, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	sge.lkey = ro->lkey;
	if (!ibv_advise_mr(p->pd, all[1], IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1))
		fail("advice to write what may not be written");
	paged_dereg(ro);
	paged_dereg(mr);
	munmap(m, LEN);
}

static void implicit(struct peer *p)
{
	struct ibv_mr *mr = ibv_reg_mr(p->pd, NULL, SIZE_MAX, ODP);
	uint8_t *m[8];

	if (!mr)
		fail("implicit region: %s", strerror(errno));
	/* far apart, and across the pieces of an implicit region */
	for (unsigned int i = 0; i < 8; i++) {
		void *at = (void *)(0x100000000000ull + i * 0x5fffff8000ull);

		m[i] = mmap(at, LEN, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (m[i] != at)
			fail("mmap at %p: %s", at, strerror(errno));
		fill(p->buf, LEN, i);
		paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)m[i], mr->rkey,
		    LEN, 0, "implicit");
		check(m[i], LEN, i, "implicit");
	}
	/* read-only memory can be sent */
	paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)"constant", mr->lkey, p->you.addr, p->you.rkey, 9, 0,
	    "from constants");
	if (strcmp((char *)p->buf, "constant"))
		fail("constants");
	for (unsigned int i = 0; i < 8; i++) {
		munmap(m[i], LEN);
		paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)m[i], mr->rkey, 8,
		    IBV_WC_REM_ACCESS_ERR, "implicit, unmapped");
	}
	paged_op(p, IBV_WR_RDMA_WRITE, 0, mr->lkey, p->you.addr, p->you.rkey, 8, IBV_WC_LOC_PROT_ERR,
	    "the null pointer");
	paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey, 0x7ffffffffff0ull, mr->rkey, 64,
	    IBV_WC_REM_ACCESS_ERR, "the end of the address space");
	paged_dereg(mr);
}

/* The number of pieces of implicit regions with tables in the kernel, as the driver reports it. */
static long children(void)
{
	FILE *f = popen("cat /sys/kernel/debug/ohca/*/device", "r");
	char line[80];
	long n = -1;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "odp_children %ld", &n);
	if (!f || pclose(f) || n < 0)
		fail("no odp_children");
	return n;
}

static void children_become(long want)
{
	for (int ms = 0; children() != want; ms += 10) {
		if (ms > PATIENCE_MS)
			fail("%ld pieces, not %ld", children(), want);
		usleep(10000);
	}
}

/*
 * The kernel's tables of an implicit region have a limit of one part in 16 of the memory, 256 KiB
 * for each piece of 64 MiB. A piece whose tables were freed for that gets them again when it is
 * used. A piece without pages needs no tables, prefetched or not. An explicit region has the same
 * limit.
 */
static void wide(struct peer *p)
{
	const uint64_t piece = 64ull << 20, ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE;
	const long most = (long)(ram / 16 / (256 << 10)), n = most + 20;
	const uint64_t len = (uint64_t)n * piece;
	struct ibv_mr *mr = ibv_reg_mr(p->pd, NULL, SIZE_MAX, ODP), *big;
	uint8_t *m = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_sge sge;
	long before;

	if (!mr || m == MAP_FAILED || madvise(m, len, MADV_NOHUGEPAGE))
		fail("%ld pieces: %s", n, strerror(errno));
	before = children();
	for (long i = 0; i < n; i++) {
		fill(p->buf, 64, (unsigned int)i);
		paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey,
			 (uintptr_t)m + (uint64_t)i * piece, mr->rkey, 64, 0, "wide");
	}
	if (children() < 20 || children() > most + before)
		fail("%ld pieces, %ld at most", children(), most);
	for (long i = 0; i < n; i += 19) {
		check(m + (uint64_t)i * piece, 64, (unsigned int)i, "wide, in memory");
		paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey,
			 (uintptr_t)m + (uint64_t)i * piece, mr->rkey, 64, 0, "wide, read");
		check(p->buf, 64, (unsigned int)i, "wide, read");
	}
	if (children() > most + before)
		fail("%ld pieces, %ld at most", children(), most);
	munmap(m, len);
	children_become(before);
	/* nothing is mapped there any more */
	sge = (struct ibv_sge) { (uintptr_t)m, 0xfffff000, mr->lkey };
	if (ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, IBV_ADVISE_MR_FLAG_FLUSH,
			  &sge, 1))
		fail("PREFETCH_NO_FAULT of a hole: %s", strerror(errno));
	if (children() != before)
		fail("%ld pieces for a hole", children() - before);
	paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)m, mr->rkey, 8,
		 IBV_WC_REM_ACCESS_ERR, "wide, unmapped");
	children_become(before);
	paged_dereg(mr);
	/* twice the limit; the memory need not be mapped */
	big = ibv_reg_mr(p->pd, (void *)0x100000000000ull, 32 * ram, ODP);
	if (big || errno != ENOMEM)
		fail("an explicit region of 32 times the memory: %s", strerror(errno));
	big = ibv_reg_mr(p->pd, (void *)0x100000000000ull, 8 * ram, ODP);
	if (!big)
		fail("an explicit region of 8 times the memory: %s", strerror(errno));
	paged_dereg(big);
	printf("%ld pieces of an implicit region at most\n", most);
}

static void odp(struct peer *p)
{
	struct ibv_device_attr_ex attr;
	uint64_t faults;
	struct ibv_mr *mr;
	uint8_t *m;

	if (ibv_query_device_ex(p->ctx, NULL, &attr) ||
	    !(attr.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) ||
	    !(attr.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC))
		fail("no on-demand paging");
	faults = hw_counter(p->ctx, "page_faults");
	for (uint32_t i = 0; i < 4; i++) {
		/* not at the start of a page */
		m = paged_map(LEN + PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		mr = paged_reg(p, m + i * 8, LEN, ODP);
		paged_every_op(p, mr, m + i * 8, (uintptr_t)m + i * 8, LEN, false, 20 + i);
		paged_dereg(mr);
		munmap(m, LEN + PAGE);
	}
	m = paged_map(LEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	mr = paged_reg(p, m, LEN, ODP);
	paged_every_op(p, mr, m, (uintptr_t)m, LEN, true, 30);
	if (!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, p->pd, m, LEN, RIGHTS))
		fail("such a region was registered again");
	paged_dereg(mr);
	munmap(m, LEN);
	/* each region once, and after each removal */
	if (hw_counter(p->ctx, "page_faults") - faults < 4 + 3)
		fail("no page faults");
	no_memory(p);
	forked(p);
	advice(p);
	implicit(p);
	wide(p);
	under_churn(p);
}

/* ---- dma-buf ------------------------------------------------------------------------------ */

static void dmabuf(struct peer *p)
{
	const size_t size = 2 * LEN;
	struct udmabuf_create create = { .size = size };
	int dev = open("/dev/udmabuf", O_RDWR), mem = memfd_create("dmabuf", MFD_ALLOW_SEALING), fd;
	uint32_t rkey;
	struct ibv_mr *mr;
	uint8_t *m;

	if (dev < 0 || mem < 0 || ftruncate(mem, size) || fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK))
		fail("udmabuf: %s", strerror(errno));
	create.memfd = mem;
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	if (fd < 0)
		fail("UDMABUF_CREATE: %s", strerror(errno));
	m = paged_map(size, MAP_SHARED, mem);
	/* all of it; and from the middle of a page on, at a chosen address */
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t off = i ? 3 * PAGE + 256 : 0, va = i ? 0x123456000100ull : (uintptr_t)m;

		mr = ibv_reg_dmabuf_mr(p->pd, off, LEN, va, fd, RIGHTS);
		if (!mr)
			fail("ibv_reg_dmabuf_mr: %s", strerror(errno));
		paged_every_op(p, mr, m + off, va, LEN, false, 40 + i);
		rkey = mr->rkey;
		if (!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, p->pd, m, LEN, RIGHTS))
			fail("such a region was registered again");
		paged_dereg(mr);
		paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, va, rkey, 8,
		    IBV_WC_REM_ACCESS_ERR, "deregistered");
	}
	/* read-only */
	mr = ibv_reg_dmabuf_mr(p->pd, 0, size, 0, fd, IBV_ACCESS_REMOTE_READ);
	if (!mr)
		fail("ibv_reg_dmabuf_mr: %s", strerror(errno));
	fill(m, LEN, 50);
	fill(m + LEN, LEN, 51);
	paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey, 0, mr->rkey, LEN, 0, "read");
	check(p->buf, LEN, 50, "read");
	paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, 0, mr->rkey, 8,
	    IBV_WC_REM_ACCESS_ERR, "write to what may be read");
	/* the exporter can be closed: the region keeps the buffer */
	close(fd);
	close(mem);
	close(dev);
	paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey, LEN, mr->rkey, LEN, 0, "closed");
	check(p->buf, LEN, 51, "closed");
	paged_dereg(mr);
	munmap(m, size);
}

static void dmabuf_refused(struct peer *p)
{
	int dev = open("/dev/udmabuf", O_RDWR), mem = memfd_create("refused", MFD_ALLOW_SEALING), fd;
	struct udmabuf_create create = { .size = LEN };

	if (dev < 0 || mem < 0 || ftruncate(mem, LEN) || fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK))
		fail("udmabuf: %s", strerror(errno));
	create.memfd = mem;
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	if (fd < 0)
		fail("UDMABUF_CREATE: %s", strerror(errno));
	if (ibv_reg_dmabuf_mr(p->pd, 0, LEN, 0, -1, RIGHTS) ||
	    ibv_reg_dmabuf_mr(p->pd, 0, LEN, 0, mem, RIGHTS))
		fail("no dma-buf, and yet registered");
	if (ibv_reg_dmabuf_mr(p->pd, 0, LEN + 1, 0, fd, RIGHTS) ||
	    ibv_reg_dmabuf_mr(p->pd, PAGE, LEN, 0, fd, RIGHTS) ||
	    ibv_reg_dmabuf_mr(p->pd, UINT64_MAX - PAGE + 1, LEN, 0, fd, RIGHTS) ||
	    ibv_reg_dmabuf_mr(p->pd, 0, 0, 0, fd, RIGHTS))
		fail("past the end of the buffer, and yet registered");
	if (ibv_reg_dmabuf_mr(p->pd, 8, PAGE, 0, fd, RIGHTS))
		fail("other places in a page, and yet registered");
	if (ibv_reg_dmabuf_mr(p->pd, 0, LEN, 0, fd, IBV_ACCESS_REMOTE_WRITE))
		fail("remote right to write without the local one");
	close(fd);
	close(mem);
	close(dev);
}

void paged_main(struct peer *p, const char *what)
{
	if (!strcmp(what, "odp_stalled_prefetches") || !strcmp(what, "odp_stalled_faults")) {
		stalled(!strcmp(what, "odp_stalled_prefetches"));
		printf("the pages of others came\n");
		return;
	}
	if (!strcmp(what, "odp_tables")) {
		tables();
		printf("whoever came first had them\n");
		return;
	}
	if (!strcmp(what, "odp_killed"))
		killed();
	else if (!strcmp(what, "dmabuf_killed"))
		movable_killed();
	p->sock = -1;
	peer_open(p, IBV_QPT_RC);
	peer_connect(p);
	paged_pair(p);
	if (!strcmp(what, "odp")) {
		odp(p);
		printf("pages came and went\n");
	} else if (!strcmp(what, "odp_killed")) {
		advice(p);
		printf("the device outlived them\n");
	} else if (!strcmp(what, "odp_moving")) {
		moving(p);
		printf("pages moved under traffic\n");
	} else if (transports(p, what)) {
		printf("the transport did what it announces\n");
	} else if (!strcmp(what, "odp_swapped")) {
		swapped(p);
		printf("pages were swapped under traffic\n");
	} else if (!strcmp(what, "odp_squeezed")) {
		squeezed(p, 48);
		printf("more than there is memory for\n");
	} else if (!strcmp(what, "dmabuf")) {
		dmabuf(p);
		dmabuf_refused(p);
		printf("buffers of others worked\n");
	} else if (!strcmp(what, "dmabuf_moving")) {
		movable_moving(p);
		printf("buffers moved under traffic\n");
	} else if (!strcmp(what, "dmabuf_revoked")) {
		movable_revoked(p);
		printf("buffers were revoked under traffic\n");
	} else if (!strcmp(what, "dmabuf_killed")) {
		advice(p);
		printf("the device outlived them\n");
	} else if (!strcmp(what, "dmabuf_pinned")) {
		movable_pinned(p);
		printf("buffers stayed where they were\n");
	} else if (!strcmp(what, "dmabuf_held")) {
		movable_held(p);
	} else {
		fail("no such scenario: %s", what);
	}
	if (ibv_destroy_qp(far))
		fail("ibv_destroy_qp");
	peer_close(p);
}
