// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Dma-bufs of an exporter that moves and revokes them on request (modules/movebuf.c), while the
 * device uses them.
 */
#include "paged.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../modules/movebuf.h"

#define LEN	(64 * PAGE)
#define MOVES	150u

/**
 * struct movable - a buffer
 * @dev: the exporter
 * @fd: the buffer
 * @m: its memory, @size bytes
 * @maps: number of its mappings at the last check
 */
struct movable {
	int dev, fd;
	uint8_t *m;
	size_t size;
	uint64_t maps;
};

static struct movebuf_status status(const struct movable *b)
{
	struct movebuf_status st = { .fd = b->fd };

	if (ioctl(b->dev, MOVEBUF_STATUS, &st))
		fail("MOVEBUF_STATUS: %s", strerror(errno));
	if (st.stray)
		fail("%llu pages were written to after they were taken away",
		     (unsigned long long)st.stray);
	if (st.peers)
		fail("it may be behind a BAR, which the device does not reach");
	return st;
}

static void make(struct movable *b, uint32_t npages)
{
	b->dev = open("/dev/movebuf", O_RDWR | O_CLOEXEC);
	if (b->dev < 0)
		fail("/dev/movebuf: %s", strerror(errno));
	b->fd = ioctl(b->dev, MOVEBUF_CREATE, &npages);
	if (b->fd < 0)
		fail("MOVEBUF_CREATE: %s", strerror(errno));
	b->size = npages * PAGE;
	b->m = paged_map(b->size, MAP_SHARED, b->fd);
	b->maps = 0;
}

static void unmake(struct movable *b)
{
	status(b);
	munmap(b->m, b->size);
	close(b->fd);
	close(b->dev);
}

static void call(const struct movable *b, unsigned long request, int error, const char *what)
{
	int rc = ioctl(b->dev, request, &b->fd);

	if (error ? !rc || errno != error : rc)
		fail("%s: %s", what, rc ? strerror(errno) : "it worked");
}

static void move(const struct movable *b)
{
	call(b, MOVEBUF_MOVE, 0, "MOVEBUF_MOVE");
}

/* Moves it after the device has used it since the last move. */
static void move_used(struct movable *b)
{
	int64_t end = ms_now() + PATIENCE_MS;
	uint64_t maps;

	while ((maps = status(b).maps) == b->maps) {
		if (ms_now() > end)
			fail("the device does not use the buffer");
		sched_yield();
	}
	b->maps = maps;
	move(b);
}

static struct ibv_mr *reg(struct peer *p, const struct movable *b, uint64_t off, uint64_t va,
			  size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(p->pd, off, len, va, b->fd, access);

	if (!mr)
		fail("ibv_reg_dmabuf_mr: %s", strerror(errno));
	return mr;
}

/* After advice the device accesses the buffer without a page fault. */
static void advised(struct peer *p, struct movable *b, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)b->m, LEN, mr->lkey };
	uint64_t faults;

	move(b);
	if (ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
			  &sge, 1))
		fail("advice: %s", strerror(errno));
	faults = hw_counter(p->ctx, "page_faults");
	paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)b->m, mr->rkey,
		 LEN, IBV_WC_SUCCESS, "advised");
	if (hw_counter(p->ctx, "page_faults") != faults)
		fail("what was advised faulted");
	move(b);
	paged_op(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, (uintptr_t)b->m, mr->rkey,
		 LEN, IBV_WC_SUCCESS, "not advised");
	if (hw_counter(p->ctx, "page_faults") == faults)
		fail("what has moved did not fault");
}

void movable_moving(struct peer *p)
{
	struct ibv_mr *mr, *part;
	struct movable b;
	struct traffic t;

	make(&b, 2 * LEN / PAGE);
	mr = reg(p, &b, 0, (uintptr_t)b.m, LEN, RIGHTS);
	for (uint32_t i = 0; i < 3; i++) {
		paged_every_op(p, mr, b.m, (uintptr_t)b.m, LEN, false, 60 + i);
		move(&b);
	}
	advised(p, &b, mr);
	/* a part of it, from the middle of a page on: both regions are moved */
	part = reg(p, &b, LEN + 3 * PAGE + 256, 256, 8 * PAGE, RIGHTS);
	traffic_on(&t, p, mr, b.m, LEN, true);
	for (uint32_t i = 0; i < MOVES; i++)
		move_used(&b);
	traffic_stop(&t);
	paged_every_op(p, part, b.m + LEN + 3 * PAGE + 256, 256, 8 * PAGE, false, 70);
	fill(b.m + LEN + 3 * PAGE + 256, 8 * PAGE, 71);
	move(&b);
	/* the exporter can be closed: the region keeps the buffer */
	unmake(&b);
	paged_op(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf, p->mr->lkey, 256, part->rkey, 8 * PAGE,
		 IBV_WC_SUCCESS, "read what was closed");
	check(p->buf, 8 * PAGE, 71, "what was closed");
	paged_dereg(part);
}

/* 32 requests are outstanding or completed at that moment. */
static void revoked_under(struct peer *p, struct movable *b, struct ibv_mr *mr, bool local)
{
	enum ibv_wc_status want = local ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR;
	uint64_t va = (uintptr_t)b->m, buf = (uintptr_t)p->buf;
	unsigned int good = 0, bad = 0, flushed = 0;
	struct ibv_wc wc;

	for (unsigned int i = 0; i < 33; i++) {
		if (local)
			paged_post(p, IBV_WR_RDMA_WRITE, va, mr->lkey, p->you.addr, p->you.rkey,
				   LEN);
		else
			paged_post(p, IBV_WR_RDMA_WRITE, buf, p->mr->lkey, va, mr->rkey, LEN);
		if (i < 31)
			continue;
		if (i == 31) {
			if (!wc_get(p->scq, &wc, PATIENCE_MS) || wc.status)
				fail("before it was revoked: %s", ibv_wc_status_str(wc.status));
			call(b, MOVEBUF_REVOKE, 0, "MOVEBUF_REVOKE");
		}
	}
	for (good = 1; good + bad + flushed < 33;) {
		if (!wc_get(p->scq, &wc, PATIENCE_MS))
			fail("a request is lost");
		if (wc.status == IBV_WC_SUCCESS && !bad)
			good++;
		else if (wc.status == want && !bad)
			bad++;
		else if (wc.status == IBV_WC_WR_FLUSH_ERR && bad)
			flushed++;
		else
			fail("revoked: %s after %u good, %u bad, %u flushed",
			     ibv_wc_status_str(wc.status), good, bad, flushed);
	}
	if (!bad)
		fail("revoked, and nothing failed");
	paged_pair(p);
}

/* No kind of access to a revoked buffer works any more. */
static void revoked_stays(struct peer *p, struct movable *b, struct ibv_mr *mr)
{
	uint64_t va = (uintptr_t)b->m, buf = (uintptr_t)p->buf;
	struct ibv_sge sge = { va, LEN, mr->lkey };

	if (!status(b).revoked || status(b).mapped)
		fail("it is not revoked");
	call(b, MOVEBUF_MOVE, ENODEV, "MOVEBUF_MOVE");
	call(b, MOVEBUF_REVOKE, ENODEV, "MOVEBUF_REVOKE");
	paged_op(p, IBV_WR_RDMA_WRITE, buf, p->mr->lkey, va, mr->rkey, 8, IBV_WC_REM_ACCESS_ERR,
		 "write to what is revoked");
	paged_op(p, IBV_WR_RDMA_READ, buf, p->mr->lkey, va, mr->rkey, 8, IBV_WC_REM_ACCESS_ERR,
		 "read from what is revoked");
	paged_op(p, IBV_WR_ATOMIC_FETCH_AND_ADD, buf, p->mr->lkey, va, mr->rkey, 8,
		 IBV_WC_REM_ACCESS_ERR, "atomic on what is revoked");
	paged_op(p, IBV_WR_RDMA_WRITE, va, mr->lkey, p->you.addr, p->you.rkey, 8,
		 IBV_WC_LOC_PROT_ERR, "write from what is revoked");
	paged_op(p, IBV_WR_RDMA_READ, va, mr->lkey, p->you.addr, p->you.rkey, 8,
		 IBV_WC_LOC_PROT_ERR, "read into what is revoked");
	paged_recv(p, va, LEN, mr->lkey);
	paged_post(p, IBV_WR_SEND, buf, p->mr->lkey, 0, 0, 8);
	wc_expect(p->scq, 7, IBV_WC_REM_OP_ERR, "send to what is revoked");
	wc_expect(p->rcq, 8, IBV_WC_LOC_PROT_ERR, "receive into what is revoked");
	paged_pair(p);
	if (ibv_reg_dmabuf_mr(p->pd, 0, LEN, va, b->fd, RIGHTS) || errno != ENODEV)
		fail("what is revoked was registered: %s", strerror(errno));
	if (!ibv_advise_mr(p->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1))
		fail("advice on what is revoked");
	if (status(b).refused < 7)
		fail("the exporter was not asked");
}

void movable_revoked(struct peer *p)
{
	struct ibv_mr *mr, *other;
	struct movable b, c;

	make(&c, LEN / PAGE);
	other = reg(p, &c, 0, (uintptr_t)c.m, LEN, RIGHTS);
	for (unsigned int i = 0; i < 4; i++) {
		make(&b, LEN / PAGE);
		mr = reg(p, &b, 0, (uintptr_t)b.m, LEN, RIGHTS);
		if (i < 2)
			revoked_under(p, &b, mr, i);
		else
			call(&b, MOVEBUF_REVOKE, 0, "MOVEBUF_REVOKE");
		revoked_stays(p, &b, mr);
		/* in both orders */
		if (i & 1)
			unmake(&b);
		paged_dereg(mr);
		if (!(i & 1))
			unmake(&b);
		/* other buffers are not affected */
		paged_every_op(p, other, c.m, (uintptr_t)c.m, LEN, false, 80 + i);
		move(&c);
	}
	paged_dereg(other);
	unmake(&c);
}

void movable_pinned(struct peer *p)
{
	struct ibv_mr *mr;
	struct movable b;

	make(&b, LEN / PAGE);
	move(&b);
	mr = reg(p, &b, 0, (uintptr_t)b.m, LEN, RIGHTS);
	paged_every_op(p, mr, b.m, (uintptr_t)b.m, LEN, false, 90);
	if (!status(&b).pins)
		fail("a kernel that does not pin");
	call(&b, MOVEBUF_MOVE, EBUSY, "MOVEBUF_MOVE");
	call(&b, MOVEBUF_REVOKE, EBUSY, "MOVEBUF_REVOKE");
	paged_every_op(p, mr, b.m, (uintptr_t)b.m, LEN, false, 91);
	paged_dereg(mr);
	if (status(&b).pins || status(&b).mapped)
		fail("it is still pinned");
	move(&b);
	call(&b, MOVEBUF_REVOKE, 0, "MOVEBUF_REVOKE");
	if (ibv_reg_dmabuf_mr(p->pd, 0, LEN, 0, b.fd, RIGHTS) || errno != ENODEV)
		fail("what is revoked was registered: %s", strerror(errno));
	unmake(&b);
}

/* ---- processes that exit ----------------------------------------------------------- */

static void victim(int tell)
{
	struct peer p = { .sock = -1 };
	struct movable b;
	struct traffic t;

	peer_open(&p, IBV_QPT_RC);
	peer_connect(&p);
	paged_pair(&p);
	make(&b, LEN / PAGE);
	traffic_on(&t, &p, reg(&p, &b, 0, (uintptr_t)b.m, LEN, RIGHTS), b.m, LEN, true);
	move_used(&b);
	if (write(tell, "", 1) != 1)
		fail("write");
	for (;;)
		move_used(&b);
}

void movable_killed(void)
{
	paged_killed(victim);
}

void movable_held(struct peer *p)
{
	struct movable b;

	make(&b, LEN / PAGE);
	paged_every_op(p, reg(p, &b, 0, (uintptr_t)b.m, LEN, RIGHTS), b.m, (uintptr_t)b.m, LEN, false,
		       95);
	printf("held\n");
	/* main() has set an alarm */
	for (;;)
		move(&b);
}

/* ---- between two nodes --------------------------------------------------------------- */

/** struct where - the server's buffer; its counter follows @len bytes */
struct where {
	uint64_t addr;
	uint64_t safe_addr;
	uint64_t rkey;
	uint64_t safe_rkey;	/* of another region */
	uint64_t len;
};

static void op(struct peer *p, enum ibv_wr_opcode opcode, uint32_t len, uint64_t addr,
	       uint32_t rkey, enum ibv_wc_status want, const char *what)
{
	paged_post(p, opcode, (uintptr_t)p->buf, p->mr->lkey, addr, rkey, len);
	wc_expect(p->scq, 7, want, what);
}

static void there_and_back(struct peer *p, const struct where *w, uint32_t seed, bool safe)
{
	uint64_t addr = safe ? w->safe_addr : w->addr;
	uint32_t rkey = safe ? w->safe_rkey : w->rkey;

	fill(p->buf, w->len, seed);
	op(p, IBV_WR_RDMA_WRITE, w->len, addr, rkey, IBV_WC_SUCCESS, "write");
	memset(p->buf, 0, w->len);
	op(p, IBV_WR_RDMA_READ, w->len, addr, rkey, IBV_WC_SUCCESS, "read");
	check(p->buf, w->len, seed, "read back");
}

/* Whether the server has finished this step. */
static bool told(struct peer *p)
{
	char c;
	ssize_t n = recv(p->sock, &c, 1, MSG_DONTWAIT);

	if (!n || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
		fail("the server is gone");
	return n > 0;
}

static void renew(struct peer *p)
{
	if (ibv_destroy_qp(p->qp))
		fail("ibv_destroy_qp");
	p->qp = peer_qp(p, p->pd);
	peer_reconnect(p, 0);
}

static void client(struct peer *p)
{
	struct where w = { 0 }, none = { 0 };
	uint64_t rounds, theirs;
	struct ibv_wc wc = { 0 };

	tcp_swap(p, &none, &w, sizeof(w));
	if (w.len > PEER_BUF)
		fail("%llu bytes", (unsigned long long)w.len);
	there_and_back(p, &w, 0, false);
	sync_at(p, 1);
	sync_at(p, 2);
	for (rounds = 0; !told(p);) {
		there_and_back(p, &w, ++rounds, false);
		op(p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, w.addr + w.len, w.rkey, IBV_WC_SUCCESS,
		   "atomic");
		if (*(uint64_t *)(void *)p->buf != (rounds - 1) * PAGED_ADD)
			fail("an atomic was not done once");
	}
	tcp_swap(p, &rounds, &theirs, sizeof(rounds));
	/* the data have moved with the buffer */
	memset(p->buf, 0, w.len);
	op(p, IBV_WR_RDMA_READ, w.len, w.addr, w.rkey, IBV_WC_SUCCESS, "read after the moves");
	check(p->buf, w.len, theirs, "after the moves");
	there_and_back(p, &w, 1000, false);
	sync_at(p, 3);
	/* after the revocation no request is executed */
	for (int64_t end = ms_now() + PATIENCE_MS; wc.status == IBV_WC_SUCCESS;) {
		if (ms_now() > end)
			fail("it is not revoked");
		paged_post(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, p->mr->lkey, w.addr, w.rkey,
			   w.len);
		if (!wc_get(p->scq, &wc, PATIENCE_MS))
			fail("a request is lost");
	}
	if (wc.status != IBV_WC_REM_ACCESS_ERR)
		fail("revoked: %s", ibv_wc_status_str(wc.status));
	sync_at(p, 4);
	renew(p);
	there_and_back(p, &w, 1001, true);
	sync_at(p, 5);
	sync_at(p, 6);
	op(p, IBV_WR_RDMA_READ, 8, w.addr, w.rkey, IBV_WC_REM_ACCESS_ERR, "deregistered");
	sync_at(p, 7);
	printf("%llu rounds\n", (unsigned long long)rounds);
}

static void server(struct peer *p)
{
	const uint64_t off = 5 * PAGE + 512;
	struct ibv_mr *mr, *safe_mr;
	struct where w, none;
	uint64_t rounds, mine = 2000;
	struct movable b, safe;
	uint64_t sum;

	make(&b, LEN / PAGE + 8);
	make(&safe, LEN / PAGE);
	mr = reg(p, &b, off, (uintptr_t)b.m + off, LEN + 8, RIGHTS);
	safe_mr = reg(p, &safe, 0, 0, LEN, RIGHTS);
	w = (struct where){ (uintptr_t)b.m + off, 0, mr->rkey, safe_mr->rkey, LEN };
	tcp_swap(p, &w, &none, sizeof(w));
	sync_at(p, 1);
	check(b.m + off, LEN, 0, "before it moved");
	sync_at(p, 2);
	for (uint32_t i = 0; i < MOVES; i++)
		move_used(&b);
	if (write(p->sock, "", 1) != 1)
		fail("the client is gone");
	/* the client replies after its last round; the data that it reads next move, too */
	tcp_recv(p, &rounds, sizeof(rounds));
	check(b.m + off, LEN, rounds, "while it moved");
	memcpy(&sum, b.m + off + LEN, 8);
	if (sum != rounds * PAGED_ADD)
		fail("%llu by atomics in %llu rounds", (unsigned long long)sum,
		     (unsigned long long)rounds);
	fill(b.m + off, LEN, mine);
	move(&b);
	tcp_send(p, &mine, sizeof(mine));
	sync_at(p, 3);
	move_used(&b);
	move_used(&b);
	call(&b, MOVEBUF_REVOKE, 0, "MOVEBUF_REVOKE");
	sync_at(p, 4);
	if (qp_state(p->qp) != IBV_QPS_ERR)
		fail("the QP is not in the error state");
	event_expect(p->ctx, IBV_EVENT_QP_ACCESS_ERR);
	renew(p);
	sync_at(p, 5);
	check(safe.m, LEN, 1001, "in the other buffer");
	paged_dereg(mr);
	sync_at(p, 6);
	sync_at(p, 7);
	paged_dereg(safe_mr);
	printf("moved %llu times in %llu rounds\n", (unsigned long long)status(&b).moves,
	       (unsigned long long)rounds);
	unmake(&b);
	unmake(&safe);
}

void movable_main(struct peer *p)
{
	peer_open(p, IBV_QPT_RC);
	peer_connect(p);
	if (p->client)
		client(p);
	else
		server(p);
	peer_close(p);
}
