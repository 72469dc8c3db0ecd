/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the engine costs: two of them back to back, one thread for both and for the driver.
 * Set up by the test host; then wires and memory are replaced by ones that cost nothing.
 *
 *	engine_bench [seconds a line]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/state.h"
#include "host.h"

#define SLOTS	64u		/* frames a wire holds: credits */
#define SLOT	4352u
#define DEPTH	64u		/* WQEs under way */
#define MR_LEN	(8u << 20)

static double seconds = 0.5;

/** struct wire - frames from one engine to the other, in order */
struct wire {
	uint8_t data[SLOTS][SLOT];
	uint32_t len[SLOTS];
	uint8_t vl[SLOTS];
	uint32_t head, tail;
	bool refused;
};

struct side {
	struct host *h;
	struct wire *out;
	struct host_cq scq, rcq;
	struct host_qp qp;
	struct host_mr mr;
	uint8_t *sq, *rq;
	struct ohca_hw_db *db;
	struct ohca_hw_cqe *cqe[2];
	uint32_t ci[2];
};

static struct wire wires[2];
static struct host *hosts[2];

/* CPU time: what others do on the machine does not count. */
static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a host that costs nothing ---- */

static unsigned int index_of(void *h)
{
	return h == hosts[1];
}

static void nothing(void *h)
{
	(void)h;
}

static void *fast_map(void *p, uint64_t addr, size_t *len, int prot)
{
	struct host *h = p;
	uint64_t off = addr - HOST_BASE;

	(void)prot;
	if (off >= h->mem_size)
		return NULL;
	if (*len > h->mem_size - off)
		*len = (size_t)(h->mem_size - off);
	return h->mem + off;
}

static void no_dirty(void *h, uint64_t addr, size_t n)
{
	(void)h;
	(void)addr;
	(void)n;
}

static uint64_t real_now(void *h)
{
	struct timespec t;

	(void)h;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint8_t *fast_begin(void *h, unsigned int port, unsigned int vl, uint32_t len)
{
	struct wire *w = &wires[index_of(h)];

	(void)port;
	(void)vl;
	(void)len;
	if (w->head - w->tail == SLOTS) {
		w->refused = true;
		return NULL;
	}
	return w->data[w->head % SLOTS];
}

static void fast_commit(void *h, unsigned int port, unsigned int vl, uint32_t len)
{
	struct wire *w = &wires[index_of(h)];

	(void)port;
	w->len[w->head % SLOTS] = len;
	w->vl[w->head % SLOTS] = (uint8_t)vl;
	w->head++;
}

/* One round: poll both, deliver what they sent. */
static void spin(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct wire *w = &wires[i];

		ohca_poll(hosts[i]->e, 64);
		while (w->tail != w->head && ohca_rx_room(hosts[1 - i]->e)) {
			uint32_t s = w->tail % SLOTS;

			ohca_rx(hosts[1 - i]->e, 0, &(struct ohca_frame){
				.data = w->data[s], .len = w->len[s], .vl = w->vl[s] });
			w->tail++;
		}
		if (w->refused) {
			w->refused = false;
			ohca_tx_ready(hosts[i]->e, 0, 0xffff);
		}
	}
}

/* ---- a driver that costs little ---- */

static void post(struct side *s, const uint8_t bb[64])
{
	memcpy(s->sq + (size_t)(s->qp.sq_pi & ((1u << s->qp.log_sq) - 1)) * 64, bb, 64);
	s->qp.sq_pi++;
	__atomic_store_n(&s->db->sq_pi, s->qp.sq_pi, __ATOMIC_SEQ_CST);
	if (ohca_db_needed(s->db->sq_event, s->qp.sq_pi, s->qp.sq_pi - 1))
		ohca_doorbell(s->h->e, 0, OHCA_UAR_SQ, s->qp.handle, 8);
}

static void post_recv(struct side *s, uint32_t len)
{
	struct ohca_hw_rwqe_ctrl c = { .num_sge = 1 };
	struct ohca_hw_sge g = host_sge(s->mr.iova, len, s->mr.key);
	uint8_t *p = s->rq + ((size_t)(s->qp.rq_pi & ((1u << s->qp.log_rq) - 1)) << 6);

	memcpy(p, &c, sizeof(c));
	memcpy(p + 16, &g, sizeof(g));
	s->qp.rq_pi++;
	__atomic_store_n(&s->db->rq_pi, s->qp.rq_pi, __ATOMIC_RELEASE);
}

static bool poll_cq(struct side *s, unsigned int k)
{
	struct host_cq *cq = k ? &s->rcq : &s->scq;
	struct ohca_hw_cqe *c = &s->cqe[k][s->ci[k] & ((1u << cq->log) - 1)];

	if (!ohca_cqe_valid(c->owner, s->ci[k], cq->log))
		return false;
	if (c->status) {
		fprintf(stderr, "completion with status %u\n", c->status);
		exit(1);
	}
	s->ci[k]++;
	((struct ohca_hw_db *)host_buf_ptr(s->h, &cq->buf, 0))->cq_ci = s->ci[k];
	return true;
}

static void make_wqe(struct side *s, struct side *peer, uint8_t type, uint8_t op, uint32_t len,
		     uint8_t bb[64])
{
	struct ohca_hw_wqe_ctrl c = { .opcode = op, .flags = OHCA_WQE_SIGNALED };
	struct ohca_hw_wqe_raddr ra = { .raddr = peer->mr.iova, .rkey = peer->mr.key };
	struct ohca_hw_wqe_atomic at = { .swap_add = 1 };
	struct ohca_hw_sge g = host_sge(s->mr.iova, len, s->mr.key);
	unsigned int n = 1;

	memset(bb, 0, 64);
	if (type == OHCA_QPT_UD) {
		/* AV and no data: the data of a UD WQE would need a second BB */
		c.flags |= OHCA_WQE_INLINE;
		n = 4;
	} else if (op != OHCA_OP_SEND) {
		memcpy(bb + 16 * n++, &ra, 16);
		if (op == OHCA_OP_FETCH_ADD)
			memcpy(bb + 16 * n++, &at, 16);
	}
	if (type != OHCA_QPT_UD)
		memcpy(bb + 16 * n++, &g, 16);
	else
		memcpy(bb + 16, &(struct ohca_hw_av){ .dlid = 2, .dqpn = peer->qp.qpn, .qkey = 1 },
		       48);
	c.nseg = (uint8_t)n;
	memcpy(bb, &c, 16);
}

/* ---- measurements ---- */

static void side_up(struct side *s, unsigned int i, uint8_t type)
{
	struct host_qp_init in = { .type = type, .log_sq = 7, .log_rq = 7, .log_stride = 6,
				   .scq = &s->scq, .rcq = &s->rcq };

	s->h = hosts[i];
	host_cq_create(s->h, &s->scq, 8, 0);
	host_cq_create(s->h, &s->rcq, 8, 0);
	if (host_qp_create(s->h, &s->qp, &in))
		abort();
	host_mr_create(s->h, &s->mr, MR_LEN, s->h->pdn, 0xf);
	memset(host_ptr(s->h, s->mr.buf.page[0]), (int)i + 1, MR_LEN);
	s->sq = host_buf_ptr(s->h, &s->qp.buf, s->qp.sq_off);
	s->rq = host_buf_ptr(s->h, &s->qp.buf, OHCA_RQ_RING_OFFSET);
	s->db = host_buf_ptr(s->h, &s->qp.buf, 0);
	s->cqe[0] = host_buf_ptr(s->h, &s->scq.buf, OHCA_CQ_RING_OFFSET);
	s->cqe[1] = host_buf_ptr(s->h, &s->rcq.buf, OHCA_CQ_RING_OFFSET);
}

static void side_down(struct side *s)
{
	host_qp_destroy(&s->qp);
	host_cq_destroy(&s->scq);
	host_cq_destroy(&s->rcq);
	host_buf_free(&s->mr.buf);
}

static void fast_ops(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_host_ops *o = &hosts[i]->e->ops;

		o->dma_enter = o->dma_exit = o->kick = nothing;
		o->dma_map = fast_map;
		o->dma_dirty = no_dirty;
		o->now_ns = real_now;
		o->tx_begin = fast_begin;
		o->tx_commit = fast_commit;
		ohca_set_trace(hosts[i]->e, 0);
	}
}

/* One line: @depth WQEs of @op under way for a while. */
static void run(const char *name, uint8_t type, uint8_t op, uint32_t len, unsigned int depth,
		bool loop)
{
	struct side s[2];
	uint8_t bb[64];
	uint64_t posted = 0, done = 0, recvs = 0;
	double t0, t;
	bool recv = op == OHCA_OP_SEND;

	memset(wires, 0, sizeof(wires));
	memset(s, 0, sizeof(s));
	host_pair(hosts, 1);
	for (unsigned int i = 0; i < 2; i++)
		side_up(&s[i], loop ? 0 : i, type);
	for (unsigned int i = 0; i < 2; i++) {
		if (type == OHCA_QPT_UD)
			host_qp_datagram(&s[i].qp, 0, 1);
		else
			host_qp_connect(&s[i].qp, 0, loop ? 1 : (uint16_t)(2 - i), s[1 - i].qp.qpn,
					5, 0, 0);
	}
	host_settle(hosts, 2);
	fast_ops();
	make_wqe(&s[0], &s[1], type, op, len, bb);
	for (unsigned int i = 0; recv && i < 128; i++)
		post_recv(&s[1], len + 64);
	t0 = now_s();
	do {
		for (unsigned int k = 0; k < 100; k++) {
			while (posted - done < depth && posted - recvs < 100) {
				post(&s[0], bb);
				posted++;
				recvs += !recv;
			}
			spin();
			while (poll_cq(&s[0], 0))
				done++;
			while (poll_cq(&s[1], 1)) {
				recvs++;
				post_recv(&s[1], len + 64);
			}
		}
		t = now_s() - t0;
	} while (t < seconds);
	printf("%-28s %10.0f msg/s %8.1f ns/msg", name, (double)done / t, 1e9 * t / (double)done);
	if (len >= 1024) {
		double pkts = (double)done * ((len + 4095) / 4096);

		printf(" %8.2f GB/s %8.1f ns/4 KiB", 1e-9 * (double)done * len / t,
		       1e9 * t / pkts);
	}
	printf("\n");
	fflush(stdout);
	for (unsigned int i = 0; i < 2; i++)
		hosts[i]->e->ops.kick = nothing;
	side_down(&s[0]);
	side_down(&s[1]);
	host_free(hosts[0]);
	host_free(hosts[1]);
}

/* What the copies alone would cost: 4 KiB twice, over the same span of memory. */
static void copies(void)
{
	uint8_t *a = malloc(MR_LEN), *b = malloc(MR_LEN);
	uint64_t n = 0;
	double t0 = now_s(), t;

	memset(a, 1, MR_LEN);
	memset(b, 2, MR_LEN);
	do {
		for (uint32_t off = 0; off < 1u << 20; off += 4096, n++) {
			uint8_t *mid = wires[0].data[n % SLOTS];

			memcpy(mid, a + off, 4096);
			memcpy(b + off, mid, 4096);
			__asm__ volatile("" ::: "memory");
		}
		t = now_s() - t0;
	} while (t < seconds);
	printf("%-28s %10s       %8s        %8.2f GB/s %8.1f ns/4 KiB\n", "two copies alone", "",
	       "", 1e-9 * (double)n * 4096 / t, 1e9 * t / (double)n);
	free(a);
	free(b);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		seconds = atof(argv[1]);
	copies();
	run("RC write 8 B", OHCA_QPT_RC, OHCA_OP_RDMA_WRITE, 8, DEPTH, false);
	run("RC write 8 B, one at a time", OHCA_QPT_RC, OHCA_OP_RDMA_WRITE, 8, 1, false);
	run("RC write 4 KiB", OHCA_QPT_RC, OHCA_OP_RDMA_WRITE, 4096, DEPTH, false);
	run("RC write 1 MiB", OHCA_QPT_RC, OHCA_OP_RDMA_WRITE, 1 << 20, 8, false);
	run("RC send 8 B", OHCA_QPT_RC, OHCA_OP_SEND, 8, DEPTH, false);
	run("RC send 8 B, one at a time", OHCA_QPT_RC, OHCA_OP_SEND, 8, 1, false);
	run("RC send 4 KiB", OHCA_QPT_RC, OHCA_OP_SEND, 4096, DEPTH, false);
	run("RC read 8 B", OHCA_QPT_RC, OHCA_OP_RDMA_READ, 8, DEPTH, false);
	run("RC read 1 MiB", OHCA_QPT_RC, OHCA_OP_RDMA_READ, 1 << 20, 8, false);
	run("RC fetch and add", OHCA_QPT_RC, OHCA_OP_FETCH_ADD, 8, DEPTH, false);
	run("UC write 8 B", OHCA_QPT_UC, OHCA_OP_RDMA_WRITE, 8, DEPTH, false);
	run("UC write 1 MiB", OHCA_QPT_UC, OHCA_OP_RDMA_WRITE, 1 << 20, 8, false);
	run("UD send 0 B", OHCA_QPT_UD, OHCA_OP_SEND, 0, DEPTH, false);
	run("loopback RC write 8 B", OHCA_QPT_RC, OHCA_OP_RDMA_WRITE, 8, DEPTH, true);
	run("loopback RC write 1 MiB", OHCA_QPT_RC, OHCA_OP_RDMA_WRITE, 1 << 20, 8, true);
	return 0;
}
