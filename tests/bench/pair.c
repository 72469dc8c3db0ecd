/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See pair.h. The test host sets up the machines; afterwards its checks are left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pair.h"

#define SLOTS	64u		/* frames that a wire holds; these are its credits */
#define SLOT	4352u
#define MEM	(512ull << 20)	/* of a machine; the process needs only the pages that are written */

/** struct wire - frames from one engine to the other, in order */
struct wire {
	uint8_t data[SLOTS][SLOT];
	uint32_t len[SLOTS];
	uint8_t vl[SLOTS];
	uint32_t head, tail;
	bool refused;
};

/** struct queue - a QP with the addresses that its driver uses */
struct queue {
	struct host_qp qp;
	uint8_t *sq, *rq;
	struct ohca_hw_db *db;
};

/** struct side - a machine; @bb: the WQE that it posts, the same to each QP */
struct side {
	struct host *h;
	uint8_t bb[64];
	struct host_cq scq, rcq;
	struct host_mr mr;
	struct queue *q;
	struct ohca_hw_cqe *cqe[2];
	uint32_t ci[2];
};

static struct wire wires[2];
static struct host *hosts[2];
static struct side side[2];
static struct pair_work work;
static uint64_t posted, done, recvs;
static uint64_t qp_bytes;	/* of all QPs of a machine */

struct host *pair_host(unsigned int i)
{
	return hosts[i];
}

double pair_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a host without a cost of its own ---- */

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

/* Frames arrive in the order in which they leave, so the announcement is right. */
static void fast_soon(void *h, unsigned int port, const uint8_t *lrh, uint16_t pkey, uint32_t dqpn)
{
	(void)lrh;
	(void)pkey;
	ohca_rx_soon(hosts[1 - index_of(h)]->e, port, dqpn);
}

static void fast_ops(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_host_ops *o = &hosts[i]->e->ops;

		o->kick = nothing;
		o->dma_map = fast_map;
		o->dma_dirty = no_dirty;
		o->now_ns = real_now;
		o->tx_begin = fast_begin;
		o->tx_commit = fast_commit;
		o->tx_soon = work.loop ? NULL : fast_soon;
		ohca_set_trace(hosts[i]->e, 0);
	}
}

/* Delivers the frames of machine @i to the other machine. */
static void carry(unsigned int i)
{
	struct wire *w = &wires[i];

	while (w->tail != w->head && ohca_rx_room(hosts[1 - i]->e, 1, 0)) {
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

/* One round: polls both engines and delivers what they sent. */
static void spin(void)
{
	if (work.home) {
		work.home->spin();
		return;
	}
	for (unsigned int i = 0; i < 2; i++) {
		ohca_poll(hosts[i]->e, 64);
		carry(i);
	}
}

/* ---- a driver of little cost ---- */

/* The WQE's wr_id is the number of the QP. */
static void post(struct side *s, struct queue *q)
{
	uint8_t *bb = q->sq + (size_t)(q->qp.sq_pi & ((1u << q->qp.log_sq) - 1)) * 64;

	memcpy(bb, s->bb, 64);
	((struct ohca_hw_wqe_ctrl *)bb)->wr_id = (uint64_t)(q - s->q);
	q->qp.sq_pi++;
	__atomic_store_n(&q->db->sq_pi, q->qp.sq_pi, __ATOMIC_SEQ_CST);
	if (ohca_db_needed(q->db->sq_event, q->qp.sq_pi, q->qp.sq_pi - 1))
		ohca_doorbell(s->h->e, 0, OHCA_UAR_SQ, q->qp.handle, 8);
}

static void post_recv(struct side *s)
{
	struct ohca_hw_rwqe_ctrl c = { .num_sge = 1 };
	struct ohca_hw_sge g = host_sge(s->mr.iova, work.len + 64, s->mr.key);
	struct queue *q = &s->q[0];
	uint8_t *p = q->rq + ((size_t)(q->qp.rq_pi & ((1u << q->qp.log_rq) - 1)) << 6);

	memcpy(p, &c, sizeof(c));
	memcpy(p + 16, &g, sizeof(g));
	q->qp.rq_pi++;
	__atomic_store_n(&q->db->rq_pi, q->qp.rq_pi, __ATOMIC_RELEASE);
}

/* @got: receives a copy of the CQE, unless NULL */
static bool poll_cq(struct side *s, unsigned int k, struct ohca_hw_cqe *got)
{
	struct host_cq *cq = k ? &s->rcq : &s->scq;
	struct ohca_hw_cqe *c = &s->cqe[k][s->ci[k] & ((1u << cq->log) - 1)];

	if (!ohca_cqe_valid(c->owner, s->ci[k], cq->log))
		return false;
	if (c->status) {
		fprintf(stderr, "completion with status %u\n", c->status);
		exit(1);
	}
	if (got)
		*got = *c;
	s->ci[k]++;
	((struct ohca_hw_db *)host_buf_ptr(s->h, &cq->buf, 0))->cq_ci = s->ci[k];
	return true;
}

static void make_wqe(struct side *s, const struct side *peer)
{
	struct ohca_hw_wqe_ctrl c = { .opcode = work.op, .flags = OHCA_WQE_SIGNALED };
	struct ohca_hw_wqe_raddr ra = { .raddr = peer->mr.iova, .rkey = peer->mr.key };
	struct ohca_hw_wqe_atomic at = { .swap_add = 1 };
	struct ohca_hw_sge g = host_sge(s->mr.iova, work.len, s->mr.key);
	uint8_t *bb = s->bb;
	unsigned int n = 1;

	memset(bb, 0, 64);
	if (work.type == OHCA_QPT_UD) {
		/* an AV and no data, because the data of a UD WQE would need a second BB */
		c.flags |= OHCA_WQE_INLINE;
		n = 4;
	} else if (work.op != OHCA_OP_SEND) {
		memcpy(bb + 16 * n++, &ra, 16);
		if (work.op == OHCA_OP_FETCH_ADD)
			memcpy(bb + 16 * n++, &at, 16);
	}
	if (work.type != OHCA_QPT_UD)
		memcpy(bb + 16 * n++, &g, 16);
	else
		memcpy(bb + 16, &(struct ohca_hw_av){ .dlid = 2, .dqpn = peer->q[0].qp.qpn,
						      .qkey = 1 }, 48);
	c.nseg = (uint8_t)n;
	memcpy(bb, &c, 16);
}

/* ---- both ---- */

static void machines(void)
{
	if (work.home) {
		for (unsigned int i = 0; i < 2; i++)
			hosts[i] = work.home->make(i);
		return;
	}
	for (unsigned int i = 0; i < 2; i++) {
		const struct ohca_cfg cfg = {
			.node_guid = 0x0002c90000000000ull + 0x100 * (i + 1),
			.num_ports = 1,
			.vl_cap = 8,
			.mtu_cap = 5,
			.width_sup = 3,
			.speed_sup = 7,
			.speed_ext_sup = 3,
			.num_vectors = HOST_VECTORS,
			.num_uars = HOST_UARS,
		};

		hosts[i] = host_new_cfg(&cfg, MEM);
		host_start(hosts[i]);
	}
	host_connect(hosts[0], 0, hosts[1], 0);
	host_settle(hosts, 2);
	for (unsigned int i = 0; i < 2; i++)
		host_port_set(hosts[i], 0, work.lid[i], IB_PS_ACTIVE);
	host_settle(hosts, 2);
}

static void queue_up(struct side *s, struct queue *q)
{
	const bool many = work.qps > 1;
	const struct host_qp_init in = {
		.type = work.type,
		.flags = many ? OHCA_QP_NO_RQ : 0,
		.log_sq = !many ? 7 : work.active ? 4 : 2,
		.log_rq = 7,
		.log_stride = 6,
		.scq = &s->scq,
		.rcq = &s->rcq,
	};

	if (host_qp_create(s->h, &q->qp, &in))
		abort();
	q->sq = host_buf_ptr(s->h, &q->qp.buf, q->qp.sq_off);
	q->rq = host_buf_ptr(s->h, &q->qp.buf, OHCA_RQ_RING_OFFSET);
	q->db = host_buf_ptr(s->h, &q->qp.buf, 0);
}

static void side_up(struct side *s, unsigned int i)
{
	s->h = hosts[i];
	host_cq_create_flags(s->h, &s->scq, 8, 0, 0);
	/* pair_latency() reads the timestamps */
	host_cq_create_flags(s->h, &s->rcq, 8, 0, OHCA_CQ_TIMESTAMP);
	host_mr_create(s->h, &s->mr, PAIR_MR_LEN, s->h->pdn, 0xf);
	memset(host_ptr(s->h, s->mr.buf.page[0]), (int)i + 1, PAIR_MR_LEN);
	s->cqe[0] = host_buf_ptr(s->h, &s->scq.buf, OHCA_CQ_RING_OFFSET);
	s->cqe[1] = host_buf_ptr(s->h, &s->rcq.buf, OHCA_CQ_RING_OFFSET);
	s->q = calloc(work.qps, sizeof(*s->q));
	if (!s->q)
		abort();
	qp_bytes = s->h->e->mem_used;
	for (unsigned int k = 0; k < work.qps; k++)
		queue_up(s, &s->q[k]);
	qp_bytes = s->h->e->mem_used - qp_bytes;
}

uint64_t pair_qp_bytes(void)
{
	return qp_bytes / work.qps;
}

void pair_up(const struct pair_work *w)
{
	work = *w;
	work.qps = w->qps ? w->qps : 1;
	if (!work.home) {
		work.lid[0] = 1;
		work.lid[1] = 2;
	}
	memset(wires, 0, sizeof(wires));
	memset(side, 0, sizeof(side));
	posted = done = recvs = 0;
	machines();
	for (unsigned int i = 0; i < 2; i++)
		side_up(&side[i], work.loop ? 0 : i);
	for (unsigned int k = 0; k < work.qps; k++)
		for (unsigned int i = 0; i < 2; i++) {
			struct host_qp *qp = &side[i].q[k].qp;

			if (work.type == OHCA_QPT_UD)
				host_qp_datagram(qp, 0, 1);
			else
				host_qp_connect(qp, 0, work.lid[work.loop ? 0 : 1 - i],
						side[1 - i].q[k].qp.qpn, 5, 0, 0);
		}
	host_settle(hosts, 2);
	if (!work.home)
		fast_ops();
	make_wqe(&side[0], &side[1]);
	for (unsigned int i = 0; work.op == OHCA_OP_SEND && i < 128; i++)
		post_recv(&side[1]);
}

void pair_down(void)
{
	for (unsigned int i = 0; i < 2 && !work.home; i++)
		hosts[i]->e->ops.kick = nothing;
	for (unsigned int i = 0; i < 2; i++) {
		struct side *s = &side[i];

		for (unsigned int k = 0; k < work.qps; k++)
			host_buf_free(&s->q[k].qp.buf);
		host_buf_free(&s->scq.buf);
		host_buf_free(&s->rcq.buf);
		host_buf_free(&s->mr.buf);
		free(s->q);
	}
	host_free(hosts[0]);
	host_free(hosts[1]);
}

/* All QPs always have work: a QP gets a WQE for each one that is complete. */
static double active_rate(double seconds)
{
	const uint64_t first = done;
	struct ohca_hw_cqe c;
	double t0, t;

	while (posted < (uint64_t)work.qps * PAIR_ACTIVE)
		post(&side[0], &side[0].q[posted++ % work.qps]);
	t0 = pair_seconds();
	do {
		for (unsigned int k = 0; k < 100; k++) {
			spin();
			while (poll_cq(&side[0], 0, &c)) {
				post(&side[0], &side[0].q[c.wr_id]);
				posted++;
				done++;
			}
		}
		t = pair_seconds() - t0;
	} while (t < seconds);
	return (double)(done - first) / t;
}

double pair_rate(double seconds)
{
	const uint64_t first = done;
	const bool recv = work.op == OHCA_OP_SEND;
	unsigned int at = (unsigned int)(posted % work.qps);
	double t0, t;

	if (work.active)
		return active_rate(seconds);
	t0 = pair_seconds();
	do {
		for (unsigned int k = 0; k < 100; k++) {
			while (posted - done < work.depth && posted - recvs < 100) {
				post(&side[0], &side[0].q[at]);
				posted++;
				at = at + 1 == work.qps ? 0 : at + 1;
				recvs += !recv;
			}
			spin();
			while (poll_cq(&side[0], 0, NULL))
				done++;
			while (poll_cq(&side[1], 1, NULL)) {
				recvs++;
				post_recv(&side[1]);
			}
		}
		t = pair_seconds() - t0;
	} while (t < seconds);
	return (double)(done - first) / t;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void pair_latency(uint32_t *ns, unsigned int n)
{
	const bool recv = work.op == OHCA_OP_SEND;

	for (unsigned int i = 0; i < n; i++) {
		const uint64_t begin = real_now(NULL);
		bool sent = false;
		struct ohca_hw_cqe c;

		post(&side[0], &side[0].q[0]);
		if (recv) {
			while (!poll_cq(&side[1], 1, &c))
				spin();
			ns[i] = (uint32_t)(c.timestamp - begin);
			post_recv(&side[1]);
			while (!poll_cq(&side[0], 0, NULL))
				spin();
			continue;
		}
		while (!sent) {
			spin();
			sent = poll_cq(&side[0], 0, NULL);
		}
		ns[i] = (uint32_t)(real_now(NULL) - begin);
	}
	posted += n;
	done += n;
	recvs += n;
	qsort(ns, n, sizeof(*ns), by_value);
}

double pair_memcpy(uint32_t len, double seconds)
{
	uint8_t *to = host_ptr(side[1].h, side[1].mr.buf.page[0]);
	const uint8_t *from = host_ptr(side[0].h, side[0].mr.buf.page[0]);
	const unsigned int batch = len < 4096 ? 1000 : len < 1u << 20 ? 20 : 1;
	double t0 = pair_seconds(), t;
	uint64_t n = 0;

	if (!len)
		return 0;
	do {
		for (unsigned int i = 0; i < batch; i++, n++) {
			memcpy(to, from, len);
			__asm__ volatile("" ::: "memory");
		}
		t = pair_seconds() - t0;
	} while (t < seconds);
	return (double)n / t;
}
