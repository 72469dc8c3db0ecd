/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Payloads that leave as views, packets that leave as a series, messages that leave as a burst, and
 * the flows that they use: two fabrics do the same, by a seed. In one of them every packet is built
 * completely, leaves alone, and passes each switch by itself (test_flows.c has several switches).
 * After each step completions, PSNs and all counters are equal, and memory after each LOOK steps.
 *
 *	OHCA_SEED	the first seed (1)
 *	OHCA_SECONDS	new seeds for so long; without it there are SEEDS
 *
 * Linked with --wrap, so that the test can count series that were received at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zlib.h>

#include "engine/base/work.h"
#include "fabric/data/hport_priv.h"
#include "fabric/fault/fault.h"
#include "fabric/hca/hca_priv.h"
#include "engine/object/to_transport.h"
#include "engine/transport/rx.h"
#include "fabric/watch/capture.h"
#include "world.h"

#define MS	HOST_MS
#define SEEDS	36u	/* a million packets */
#define LOOK	4u
#define STEPS	200u	/* for each seed */
#define PAIRS	6u
#define WINDOW	(1u << 20)	/* of a region: one half is read, the other half is written */
#define MOST	(300u << 10)	/* bytes of a message */

/* ---- packets that were received at once ---- */

static unsigned int taken[2], refused[2];	/* by responders, by requesters */
static unsigned int bursts, parts;	/* received as a whole; received in part */

bool __real_ohca_resp_series(ohca_engine *e, struct ohca_qp *qp, const void *p);
bool __wrap_ohca_resp_series(ohca_engine *e, struct ohca_qp *qp, const void *p);
bool __real_ohca_comp_series(ohca_engine *e, struct ohca_qp *qp, const void *p);
bool __wrap_ohca_comp_series(ohca_engine *e, struct ohca_qp *qp, const void *p);

bool __wrap_ohca_resp_series(ohca_engine *e, struct ohca_qp *qp, const void *p)
{
	const bool all = __real_ohca_resp_series(e, qp, p);

	(all ? taken : refused)[0]++;
	return all;
}

bool __wrap_ohca_comp_series(ohca_engine *e, struct ohca_qp *qp, const void *p)
{
	const bool all = __real_ohca_comp_series(e, qp, p);

	(all ? taken : refused)[1]++;
	return all;
}

uint32_t __real_ohca_resp_burst(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
uint32_t __wrap_ohca_resp_burst(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);

uint32_t __wrap_ohca_resp_burst(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p)
{
	const uint32_t n = __real_ohca_resp_burst(e, qp, p);

	bursts += n == p->view->packets;
	parts += n < p->view->packets;
	return n;
}

/* ---- turns ---- */

static uint64_t most_packets, most_work;	/* in a turn */

bool __real_ohca_poll(ohca_engine *e, unsigned int budget);
bool __wrap_ohca_poll(ohca_engine *e, unsigned int budget);

/* A series counts as all of its packets, in packets and in work. */
bool __wrap_ohca_poll(ohca_engine *e, unsigned int budget)
{
	const uint64_t before = e->port[0].cnt.xmit_pkts, work = e->work;
	const bool more = __real_ohca_poll(e, budget);
	/* the PMA may have cleared the counter */
	const uint64_t now = e->port[0].cnt.xmit_pkts, packets = now < before ? 0 : now - before;

	assert_true(packets <= budget);
	assert_true(e->work - work <= OHCA_POLL_WORK(budget));
	most_packets = packets > most_packets ? packets : most_packets;
	most_work = e->work - work > most_work ? e->work - work : most_work;
	return more;
}

/* ---- two worlds ---- */

/** struct pair - QPs of two nodes */
struct pair {
	unsigned int side[2];
	uint8_t type, mtu;
	struct host_qp qp[2];
};

/** struct twin - a world, and the state of the test in it */
struct twin {
	struct world *w;
	struct pair pair[PAIRS];
	bool hole[HOSTS];
	struct fab_capture *capture[HOSTS];
	uLong captured;		/* checksum of what was captured */
};

struct both {
	struct twin t[2];
	uint64_t seed;
	unsigned int step;
};

static uint32_t rnd(struct both *b, uint32_t n)
{
	b->seed ^= b->seed << 13;
	b->seed ^= b->seed >> 7;
	b->seed ^= b->seed << 17;
	return (uint32_t)(b->seed >> 16) % n;
}

static struct fab_hport *wire_of(struct world *w, unsigned int i)
{
	return net_port(w->net, w->node[i].ep.port)->hport;
}

/* Packets of this world are built completely and leave one by one. */
static void make_plain(struct world *w)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		struct fab_hport *h = wire_of(w, i);

		free(h->flow);
		h->flow = NULL;
		w->h[i]->e->ops.tx_commit_view = NULL;
	}
}

static void pair_up(struct twin *t, struct pair *p)
{
	for (unsigned int k = 0; k < 2; k++) {
		struct node *n = &t->w->node[p->side[k]];
		struct host_qp_init in = { .type = p->type, .scq = &n->cq, .rcq = &n->cq,
					   .log_sq = 6, .log_rq = 4 };

		n->h->sl = (uint8_t)((p - t->pair) % 3);
		assert_int_equal(host_qp_create(n->h, &p->qp[k], &in), 0);
	}
	for (unsigned int k = 0; k < 2; k++)
		host_qp_connect(&p->qp[k], 0, LID(p->side[!k]), p->qp[!k].qpn, p->mtu,
				0xfffff0 + k, 0xfffff1 - k);
}

static void pair_down(struct pair *p)
{
	host_qp_destroy(&p->qp[0]);
	host_qp_destroy(&p->qp[1]);
}

static void begin(struct both *b, uint64_t seed)
{
	static const uint8_t mtu[] = { 5, 3, 5, 3, 1, 5 };

	*b = (struct both){ .seed = seed * 0x9e3779b97f4a7c15ull + 1 };
	for (unsigned int k = 0; k < 2; k++) {
		void *state;

		setup_hosted(&state);
		b->t[k].w = state;
	}
	/* the clock of each world stands still since its start */
	b->t[0].w->net->now_ns = b->t[1].w->net->now_ns;
	for (unsigned int k = 0; k < 2; k++) {
		struct twin *t = &b->t[k];

		for (unsigned int i = 0; i < PAIRS; i++) {
			t->pair[i] = (struct pair){
				.side = { i % HOSTS, (i + 1) % HOSTS },
				.type = i == 2 || i == 3 ? OHCA_QPT_UC : OHCA_QPT_RC,
				.mtu = mtu[i],
			};
			pair_up(t, &t->pair[i]);
		}
		for (unsigned int i = 0; i < HOSTS; i++)
			fill(&t->w->node[i], 0, MR_LEN, i);
		if (k)
			make_plain(t->w);
	}
}

static void end(struct both *b)
{
	for (unsigned int k = 0; k < 2; k++) {
		void *state = b->t[k].w;

		for (unsigned int i = 0; i < HOSTS; i++)
			if (b->t[k].capture[i])
				fab_capture_stop(b->t[k].capture[i]);
		for (unsigned int i = 0; i < PAIRS; i++)
			pair_down(&b->t[k].pair[i]);
		teardown(&state);
	}
}

/* ---- what happens ---- */

/** struct message - a message, drawn once for both worlds */
struct message {
	uint8_t op;
	unsigned int num;
	uint32_t off[4], len[4], to;
	uint64_t id;
	bool beyond;		/* the end of its target is outside the region */
	bool outside;		/* and so is the end of the receiver's memory */
};

static void draw_message(struct both *b, struct message *m)
{
	static const uint8_t ops[] = {
		OHCA_OP_RDMA_WRITE, OHCA_OP_RDMA_WRITE, OHCA_OP_RDMA_WRITE_IMM, OHCA_OP_SEND,
		OHCA_OP_SEND_IMM, OHCA_OP_RDMA_READ,
	};
	uint32_t total = 0;

	*m = (struct message){ .op = ops[rnd(b, sizeof(ops))], .num = 1 + rnd(b, 4) };
	m->id = b->step;
	for (unsigned int i = 0; i < m->num; i++) {
		m->len[i] = rnd(b, 4) ? rnd(b, MOST / 4) : rnd(b, 600);
		m->off[i] = rnd(b, WINDOW - m->len[i]);
		total += m->len[i];
	}
	m->beyond = !rnd(b, 40);
	m->outside = !rnd(b, 40);
	m->to = m->beyond ? MR_LEN - total / 2 : WINDOW + rnd(b, WINDOW - total);
}

static void post(struct twin *t, unsigned int pair, unsigned int side, const struct message *m)
{
	struct pair *p = &t->pair[pair];
	const struct node *from = &t->w->node[p->side[side]], *to = &t->w->node[p->side[!side]];
	const bool read = m->op == OHCA_OP_RDMA_READ;
	struct wqe q = wqe_new(m->op, OHCA_WQE_SIGNALED, m->id);
	struct ohca_hw_sge sge[2];

	if (read && p->type == OHCA_QPT_UC)
		return;
	if (m->op == OHCA_OP_RDMA_WRITE_IMM || m->op == OHCA_OP_SEND_IMM)
		wqe_imm(&q, 77);
	if (m->op != OHCA_OP_SEND && m->op != OHCA_OP_SEND_IMM)
		wqe_raddr(&q, to->mr.iova + (read ? m->off[0] : m->to), to->mr.key);
	/* a READ has the upper half of the region as target, too */
	for (unsigned int i = 0; i < m->num; i++)
		wqe_sge(&q, m->outside && read ? from->mr.iova + MR_LEN - m->len[i] / 2 :
			from->mr.iova + m->off[i] + (read ? WINDOW : 0), m->len[i], from->mr.key);
	if (m->op == OHCA_OP_SEND || m->op == OHCA_OP_SEND_IMM ||
	    m->op == OHCA_OP_RDMA_WRITE_IMM) {
		sge[0] = host_sge(to->mr.iova + WINDOW, WINDOW / 2, to->mr.key);
		sge[1] = host_sge(to->mr.iova + WINDOW + WINDOW / 2 + 5, WINDOW / 4, to->mr.key);
		if (m->outside)
			sge[0] = host_sge(to->mr.iova + MR_LEN - m->len[0] / 2, WINDOW / 2,
					  to->mr.key);
		host_post_recv(&p->qp[!side], m->id, sge, 2);
	}
	wqe_post(&p->qp[side], &q);
}

/** struct small - a message of one packet, which may be one of a burst */
struct small {
	uint8_t op;
	uint16_t flags;
	uint32_t len, off, to;
	uint64_t id;
	bool beyond, outside;	/* as in struct message, at either end */
};

/* @like: the one before it, which the new one resembles; or NULL */
static void draw_small(struct both *b, const struct small *like, struct small *m)
{
	static const uint8_t others[] = {
		OHCA_OP_RDMA_READ, OHCA_OP_FETCH_ADD, OHCA_OP_NOP, OHCA_OP_SEND,
		OHCA_OP_RDMA_WRITE_IMM,
	};
	static const uint32_t lens[] = { 8, 8, 4, 64, 252, 256, 7, 1, 0, 600 };

	*m = (struct small){ .op = OHCA_OP_RDMA_WRITE, .len = lens[rnd(b, 10)], .id = b->step };
	if (like && rnd(b, 16))
		m->len = like->len;
	if (!rnd(b, 20))
		m->op = others[rnd(b, sizeof(others))];
	if (m->op == OHCA_OP_FETCH_ADD)
		m->len = 8;
	m->flags = rnd(b, 2) ? OHCA_WQE_SIGNALED : 0;
	m->flags |= rnd(b, 12) ? 0 : OHCA_WQE_SOLICITED;
	m->flags |= rnd(b, 12) ? 0 : OHCA_WQE_FENCE;
	if (!rnd(b, 3) && m->len <= 64 && m->op == OHCA_OP_RDMA_WRITE)
		m->flags |= OHCA_WQE_INLINE;
	m->off = rnd(b, WINDOW - m->len) & (rnd(b, 4) ? ~7u : ~0u);
	/* often where another one has written */
	m->to = (WINDOW + (rnd(b, 2) ? rnd(b, 64) : rnd(b, WINDOW - 1024))) & ~7u;
	m->beyond = !rnd(b, 150);
	m->outside = !rnd(b, 150);
}

static void post_small(struct twin *t, struct pair *p, unsigned int side, const struct small *m)
{
	const struct node *from = &t->w->node[p->side[side]], *to = &t->w->node[p->side[!side]];
	const uint16_t local = m->op == OHCA_OP_NOP ? OHCA_WQE_SOLICITED | OHCA_WQE_FENCE : 0;
	struct wqe q = wqe_new(m->op, m->flags & (uint16_t)~(OHCA_WQE_INLINE | local), m->id);
	struct ohca_hw_sge sge = host_sge(to->mr.iova + WINDOW, 1024, to->mr.key);
	const uint64_t at = from->mr.iova + (m->outside ? MR_LEN - m->len / 2 : m->off);

	if (m->op == OHCA_OP_RDMA_WRITE_IMM)
		wqe_imm(&q, 77);
	if (m->op == OHCA_OP_SEND || m->op == OHCA_OP_RDMA_WRITE_IMM)
		host_post_recv(&p->qp[!side], m->id, &sge, 1);
	if (m->op != OHCA_OP_SEND && m->op != OHCA_OP_NOP)
		wqe_raddr(&q, to->mr.iova + (m->beyond ? MR_LEN - m->len / 2 : m->to), to->mr.key);
	if (m->op == OHCA_OP_FETCH_ADD)
		wqe_atomic(&q, m->id, 0);
	if (m->op != OHCA_OP_NOP && m->flags & OHCA_WQE_INLINE)
		wqe_inline(&q, host_buf_ptr(from->h, &from->mr.buf, m->off & ~4095u), m->len);
	else if (m->op != OHCA_OP_NOP && m->len)
		wqe_sge(&q, at, m->len, from->mr.key);
	wqe_post(&p->qp[side], &q);
}

/* Posts many small messages to one QP, as many as there is room for. */
static void post_burst(struct both *b)
{
	static const unsigned int rc[] = { 0, 1, 4, 5 };
	const unsigned int pair = rnd(b, 8) ? rc[rnd(b, 4)] : 2, side = rnd(b, 2);
	struct pair *p = &b->t[0].pair[pair];
	const struct ohca_hw_db *db = host_buf_ptr(p->qp[side].h, &p->qp[side].buf, 0);
	const uint32_t room = (1u << p->qp[side].log_sq) - (p->qp[side].sq_pi - db->sq_ci);
	unsigned int n = 1 + rnd(b, 40);
	struct small m[2];

	/* one of them may need two blocks */
	if (n > room / 2)
		n = room / 2;
	for (unsigned int i = 0; i < n; i++) {
		draw_small(b, i ? &m[(i - 1) % 2] : NULL, &m[i % 2]);
		if (p->type == OHCA_QPT_UC && m[i % 2].op != OHCA_OP_RDMA_WRITE_IMM)
			m[i % 2].op = OHCA_OP_RDMA_WRITE;
		for (unsigned int k = 0; k < 2; k++)
			post_small(&b->t[k], &b->t[k].pair[pair], side, &m[i % 2]);
	}
}

static uint32_t near_port(struct world *w, unsigned int i)
{
	return net_index(w->net, w->node[i].ep.port);
}

static bool take(void *ctx, const void *buf, size_t len)
{
	struct twin *t = ctx;

	t->captured = crc32(t->captured, buf, (uInt)len);
	return true;
}

/* Sets partitions of the switch's port @p, which may exclude those of the packets. */
static void partition(struct twin *t, uint32_t p, uint32_t seed)
{
	struct ib_port_info *pi = &t->w->net->f->port[p].pi;
	uint8_t d[64] = { 0 };

	ib_pkey_block_put(d, 0, seed & 4 ? 0xffff : 0x8001);
	assert_int_equal(ep_switch(t->w->sm, IB_METHOD_SET, IB_SMP_ATTR_PKEY_TABLE,
				   fab_port_num(t->w->net->f, p) << 16, d), 0);
	pi->part_enf_in = seed & 1;
	pi->part_enf_out = seed >> 1 & 1;
	t->w->net->m.epoch++;
}

static void disturb(struct twin *t, unsigned int what, unsigned int i, bool out, uint32_t seed)
{
	struct world *w = t->w;
	uint32_t p = near_port(w, i);
	struct node *n = &w->node[i];
	struct fab_hca_range r[2] = {
		{ HOST_BASE, n->h->mem_size, n->h->mem, false, NULL },
	};

	if (out)
		p = w->net->f->port[p].peer;
	switch (what) {
	case 0:
		assert_true(fab_fault_wire(&w->net->m, p, 1u << 26, 0, seed));
		break;
	case 1:
		assert_true(fab_fault_wire(&w->net->m, p, 0, 1u << 26, seed));
		break;
	case 2:
		assert_true(fab_fault_delay(&w->net->m, p, 20000));
		break;
	case 3:
	case 4:
	case 5:
		/* a part of the region is removed, and is there again the next time */
		t->hole[i] = !t->hole[i];
		if (t->hole[i]) {
			const uint64_t page = n->mr.buf.page[WINDOW / HOST_PAGE + seed % 250];

			r[0].len = page - HOST_BASE;
			r[1] = (struct fab_hca_range){
				page + HOST_PAGE, n->h->mem_size - r[0].len - HOST_PAGE,
				n->h->mem + r[0].len + HOST_PAGE, false, NULL };
		}
		assert_true(fab_hca_memory(n->hca, r, 1 + t->hole[i]));
		break;
	case 6:
		partition(t, near_port(w, i), seed);
		break;
	case 7:
		w->net->f->port[near_port(w, i)].pi.mtu = (uint8_t)(1 + seed % 5);
		w->net->m.epoch++;
		break;
	case 8:
		p = near_port(w, i);
		if (t->capture[i])
			fab_capture_stop(t->capture[i]);
		t->capture[i] = t->capture[i] ? NULL :
				fab_capture_start(w->net->d, &p, 1, 0, false, take, t);
		break;
	default:
		for (unsigned int k = 0; k < HOSTS; k++) {
			p = near_port(w, k);
			w->net->f->port[p].pi.mtu = 5;
			partition(t, p, 4);
			assert_true(fab_fault_wire(&w->net->m, p, 0, 0, 0));
			assert_true(fab_fault_delay(&w->net->m, p, 0));
			assert_true(fab_fault_delay(&w->net->m, w->net->f->port[p].peer, 0));
		}
		break;
	}
}

/* ---- comparison ---- */

static void fail_at(const struct both *b, const char *what, unsigned int i)
{
	fail_msg("step %u: %s of node %u differs", b->step, what, i);
}

static void compare_counters(const struct both *b, unsigned int i)
{
	const struct world *w[2] = { b->t[0].w, b->t[1].w };
	const unsigned int port = w[0]->node[i].ep.port;

	for (unsigned int id = 0; id < OHCA_CNT_NUM; id++)
		if (ohca_counter(w[0]->h[i]->e, id) != ohca_counter(w[1]->h[i]->e, id))
			fail_msg("step %u: counter %u of node %u is %llu, one by one %llu", b->step,
				 id, i, (unsigned long long)ohca_counter(w[0]->h[i]->e, id),
				 (unsigned long long)ohca_counter(w[1]->h[i]->e, id));
	if (memcmp(&w[0]->h[i]->e->port[0].cnt, &w[1]->h[i]->e->port[0].cnt,
		   sizeof(struct ohca_port_counters)))
		fail_at(b, "the PMA", i);
	if (memcmp(net_ctr(w[0]->net, port), net_ctr(w[1]->net, port),
		   sizeof(struct ohca_port_counters)))
		fail_at(b, "the switch's PMA", i);
}

/* Compares the contexts of all QPs, as the transport reports them. */
static void compare_contexts(const struct both *b)
{
	for (unsigned int i = 0; i < 2 * PAIRS; i++) {
		struct ohca_hw_qp_context x[2];

		memset(x, 0, sizeof(x));
		for (unsigned int k = 0; k < 2; k++) {
			const struct host_qp *qp = &b->t[k].pair[i / 2].qp[i % 2];

			ohca_xp_context(qp->h->e->qp[qp->handle], &x[k]);
		}
		if (memcmp(&x[0], &x[1], sizeof(x[0])))
			fail_at(b, "the context of a QP", i);
	}
}

/* Compares queues and regions, including the places of requests and completions. */
static void compare_memory(const struct both *b)
{
	for (unsigned int i = 0; i < HOSTS; i++) {
		const struct host *h[2] = { b->t[0].w->h[i], b->t[1].w->h[i] };

		assert_int_equal(h[0]->next_page, h[1]->next_page);
		if (memcmp(h[0]->mem, h[1]->mem, h[0]->next_page * HOST_PAGE))
			fail_at(b, "memory", i);
	}
}

static void compare(const struct both *b)
{
	const struct world *w[2] = { b->t[0].w, b->t[1].w };
	const struct fab_data_counts *n[2] = { &w[0]->net->d->n, &w[1]->net->d->n };

	assert_memory_equal(n[0]->drop, n[1]->drop, sizeof(n[0]->drop));
	assert_int_equal(n[0]->delivered, n[1]->delivered);
	assert_int_equal(n[0]->hops, n[1]->hops);
	assert_int_equal(b->t[0].captured, b->t[1].captured);
	compare_contexts(b);
	for (unsigned int i = 0; i < HOSTS; i++)
		compare_counters(b, i);
	if (b->step % LOOK == 0)
		compare_memory(b);
}

/* Compares the completions of both worlds. A pair that is in error is made again. */
static void drain(struct both *b)
{
	bool broken[PAIRS] = { false };

	for (unsigned int i = 0; i < HOSTS; i++) {
		struct ohca_hw_cqe c[2];

		while (host_cq_poll(&b->t[0].w->node[i].cq, &c[0])) {
			assert_true(host_cq_poll(&b->t[1].w->node[i].cq, &c[1]));
			assert_memory_equal(&c[0], &c[1], sizeof(c[0]));
		}
		assert_false(host_cq_poll(&b->t[1].w->node[i].cq, &c[1]));
	}
	for (unsigned int i = 0; i < PAIRS; i++) {
		for (unsigned int k = 0; k < 2; k++) {
			const uint8_t was = rig_state(&b->t[0].pair[i].qp[k]);

			assert_int_equal(rig_state(&b->t[1].pair[i].qp[k]), was);
			broken[i] |= was == OHCA_QPS_ERR;
		}
	}
	for (unsigned int k = 0; k < 2; k++) {
		for (unsigned int i = 0; i < PAIRS; i++) {
			if (!broken[i])
				continue;
			pair_down(&b->t[k].pair[i]);
			pair_up(&b->t[k], &b->t[k].pair[i]);
		}
	}
}

static void run_step(struct both *b)
{
	const unsigned int kind = rnd(b, 8);
	const uint64_t ns = rnd(b, 3) ? 2 * MS : rnd(b, 200000);
	const uint32_t seed = rnd(b, 1u << 30);
	struct message m;

	if (kind == 0) {
		const unsigned int what = rnd(b, 14), i = rnd(b, HOSTS), out = rnd(b, 2);

		for (unsigned int k = 0; k < 2; k++)
			disturb(&b->t[k], what, i, out, seed);
	} else if (kind < 4) {
		post_burst(b);
	} else {
		/* several at once, in both directions */
		const unsigned int n = 1 + rnd(b, 6);

		for (unsigned int i = 0; i < n; i++) {
			const unsigned int pair = rnd(b, PAIRS), side = rnd(b, 2);

			draw_message(b, &m);
			for (unsigned int k = 0; k < 2; k++)
				post(&b->t[k], pair, side, &m);
		}
	}
	for (unsigned int k = 0; k < 2; k++)
		pass(b->t[k].w, ns);
}

static void test_equal(void **state)
{
	const char *seconds = getenv("OHCA_SECONDS"), *seed = getenv("OHCA_SEED");
	const uint64_t first = seed ? strtoull(seed, NULL, 0) : 1;
	const time_t until = time(NULL) + (seconds ? atoi(seconds) : 0);
	uint64_t done = 0;	/* packets of each world */
	struct both b;

	(void)state;
	for (uint64_t s = first; seconds ? time(NULL) < until : s < first + SEEDS; s++) {
		if (seconds)
			printf("seed %llu\n", (unsigned long long)s);
		begin(&b, s);
		for (b.step = 0; b.step < STEPS; b.step++) {
			run_step(&b);
			compare(&b);
			drain(&b);
		}
		/* everything outstanding ends */
		for (unsigned int k = 0; k < 2; k++)
			pass(b.t[k].w, 10000 * MS);
		compare(&b);
		drain(&b);
		done += b.t[0].w->net->d->n.delivered;
		end(&b);
	}
	print_message("series: %u requests and %u responses at once, %u and %u one by one; "
		      "bursts: %u at once, %u not all of it\n",
		      taken[0], taken[1], refused[0], refused[1], bursts, parts);
	print_message("the largest turn: %llu packets of %u, %llu units of %llu\n",
		      (unsigned long long)most_packets, FAB_HCA_BURST,
		      (unsigned long long)most_work,
		      (unsigned long long)OHCA_POLL_WORK(FAB_HCA_BURST));
	/* some were full */
	assert_int_equal(most_packets, FAB_HCA_BURST);
	if (seconds)
		printf("campaign: %llu packets\n", (unsigned long long)done);
	for (unsigned int i = 0; !seconds && i < 2; i++) {
		assert_true(taken[i] > 100);
		assert_true(refused[i] > 0);
	}
	if (!seconds) {
		assert_true(done >= 1000000);
		assert_true(bursts > 100);
		assert_true(parts > 0);
	}
}

/* ---- packets that no requester of ours would send ---- */

#define MTU	1024u

/** struct craft - packets in the middle of a message, after its first one, for side 1 of a pair */
struct craft {
	uint8_t first, op;	/* operations without the service; @first: 0xff: no first packet */
	uint32_t wr_len;	/* length in the RETH of a WRITE */
	uint32_t psn, packets, payload;
	bool ackreq;
};

/* Writes a packet to @to, up to its payload. Return: bytes of the headers. */
static uint32_t craft_headers(const struct twin *t, const struct pair *p, const struct craft *c,
			      bool first, uint32_t payload, uint8_t *to)
{
	const struct node *n = &t->w->node[p->side[1]];
	const bool write = first && c->first == IB_OPN_WRITE_FIRST;
	const uint32_t hdr = IB_LRH_LEN + IB_BTH_LEN + (write ? IB_RETH_LEN : 0);
	uint8_t *h = ib_build_lrh(to, 0, 0, IB_LNH_IBA_LOCAL, LID(p->side[1]),
				  (uint16_t)((hdr + payload + IB_ICRC_LEN) / 4), LID(p->side[0]));

	h = ib_build_bth(h, (uint8_t)((first ? c->first : c->op) |
				      (p->type == OHCA_QPT_UC ? IB_TRANS_UC : IB_TRANS_RC)), 0, 0,
			 0xffff, p->qp[1].qpn, !first && c->ackreq,
			 first ? 0xfffff0 : c->psn);
	if (write)
		ib_build_reth(h, n->mr.iova + WINDOW, n->mr.key, c->wr_len);
	return hdr;
}

static void craft_rx(struct twin *t, const struct pair *p, const uint8_t *frame,
		     const struct ib_view *v, uint32_t len)
{
	ohca_rx(t->w->node[p->side[1]].h->e, 0,
		&(struct ohca_frame){ .data = frame, .view = v, .len = len });
}

/* Delivers the packets as a series, or one by one. */
static void craft_send(struct twin *t, const struct pair *p, const struct craft *c, bool series)
{
	const struct node *n = &t->w->node[p->side[1]];
	const uint8_t *data = host_buf_ptr(n->h, &n->mr.buf, 0);
	uint8_t frame[8192] = { 0 };
	struct ib_view v;
	uint32_t hdr;

	if (c->first != 0xff) {
		hdr = craft_headers(t, p, c, true, MTU, frame);
		memcpy(frame + hdr, data, MTU);
		memset(frame + hdr + MTU, 0, IB_ICRC_LEN);
		craft_rx(t, p, frame, NULL, hdr + MTU + IB_ICRC_LEN);
	}
	hdr = craft_headers(t, p, c, false, c->payload, frame);
	ib_view_begin(&v, c->packets);
	v.hdr_len = hdr;
	for (uint32_t i = 0; i < c->packets; i++) {
		const uint8_t *from = data + (i + 1) * MTU + i * 16;

		ib_view_add(&v, from, c->payload);
		if (series)
			continue;
		memcpy(frame + hdr, from, c->payload);
		memset(frame + hdr + c->payload, 0, IB_ICRC_LEN);
		ib_set_psn(frame + IB_LRH_LEN, c->ackreq && i == c->packets - 1, c->psn + i);
		craft_rx(t, p, frame, NULL, hdr + c->payload + IB_ICRC_LEN);
	}
	if (series)
		craft_rx(t, p, frame, &v, hdr + c->payload + IB_ICRC_LEN);
}

static void draw_craft(struct both *b, struct craft *c)
{
	static const uint8_t firsts[] = { IB_OPN_WRITE_FIRST, IB_OPN_SEND_FIRST, 0xff };
	static const uint8_t ops[] = { IB_OPN_WRITE_MIDDLE, IB_OPN_SEND_MIDDLE,
				       IB_OPN_READ_RESP_MIDDLE };
	const unsigned int kind = rnd(b, 8);

	*c = (struct craft){
		.first = firsts[kind < 3 ? 0 : kind < 6 ? 1 : 2],
		.packets = 2 + rnd(b, 15),
		.payload = rnd(b, 8) ? MTU : 4 * (64 + rnd(b, 300)),
		.ackreq = rnd(b, 2),
	};
	c->op = rnd(b, 4) ? ops[kind >= 3] : ops[rnd(b, 3)];
	c->wr_len = MTU * (1 + rnd(b, c->packets + 3)) + rnd(b, 2) * rnd(b, MTU);
	c->psn = 0xfffff0 + (c->first != 0xff) + (rnd(b, 6) ? 0 : rnd(b, 3) - 1);
}

static void test_crafted(void **state)
{
	const unsigned int was = taken[0], not = refused[0];
	struct craft c;
	struct both b;

	(void)state;
	begin(&b, 1);
	for (b.step = 0; b.step < 600; b.step++) {
		const unsigned int pair = rnd(&b, 2) ? 1 : 3;	/* RC and UC with this MTU */
		const bool recv = rnd(&b, 4);

		draw_craft(&b, &c);
		for (unsigned int k = 0; k < 2; k++) {
			struct pair *p = &b.t[k].pair[pair];
			const struct node *n = &b.t[k].w->node[p->side[1]];
			struct ohca_hw_sge sge = host_sge(n->mr.iova + WINDOW, c.wr_len, n->mr.key);

			if (recv)
				host_post_recv(&p->qp[1], b.step, &sge, 1);
			craft_send(&b.t[k], p, &c, !k);
			pass(b.t[k].w, MS);
		}
		compare(&b);
		/* this message never ends */
		for (unsigned int k = 0; k < 2; k++) {
			pair_down(&b.t[k].pair[pair]);
			pair_up(&b.t[k], &b.t[k].pair[pair]);
		}
		drain(&b);
	}
	end(&b);
	print_message("crafted: %u at once, %u one by one\n", taken[0] - was, refused[0] - not);
	assert_true(taken[0] - was > 50);
	assert_true(refused[0] - not > 50);
}

/** struct shot - a burst for side 1 of pair 1 */
struct shot {
	uint8_t op;
	uint32_t psn, packets, len;
	bool ackreq;
	bool inside;		/* a message has begun before it */
	unsigned int odd;	/* the packet whose RETH differs, by @how; none: @packets */
	unsigned int how;
};

/* Writes the RETH of packet @i. */
static void shot_reth(const struct node *n, const struct shot *c, uint32_t i, uint8_t *to)
{
	const bool odd = i == c->odd;
	const uint64_t va = n->mr.iova + (odd && c->how == 0 ? MR_LEN - 1 : WINDOW + 300 * i);

	ib_build_reth(to, va, n->mr.key ^ (odd && c->how == 1),
		      c->len + (odd && c->how == 2) - (odd && c->how == 3));
}

static void shot_send(struct twin *t, const struct pair *p, const struct shot *c, bool at_once)
{
	const struct craft first = { .first = IB_OPN_WRITE_FIRST, .wr_len = 3 * MTU, .packets = 0 };
	const struct node *n = &t->w->node[p->side[1]];
	const uint8_t *data = host_buf_ptr(n->h, &n->mr.buf, 0);
	const uint32_t hdr = IB_LRH_LEN + IB_BTH_LEN + IB_RETH_LEN;
	const uint32_t len = hdr + c->len + IB_ICRC_LEN;
	uint8_t frame[8192] = { 0 }, ext[16 * IB_RETH_LEN], *h;
	struct ib_view v;

	if (c->inside)
		craft_send(t, p, &first, false);
	h = ib_build_lrh(frame, 0, 0, IB_LNH_IBA_LOCAL, LID(p->side[1]), (uint16_t)(len / 4),
			 LID(p->side[0]));
	ib_build_bth(h, c->op, 0, 0, 0xffff, p->qp[1].qpn, c->ackreq, c->psn);
	ib_view_begin(&v, c->packets);
	v.hdr_len = hdr;
	v.ext_len = IB_RETH_LEN;
	v.ext = ext;
	for (uint32_t i = 0; i < c->packets; i++) {
		shot_reth(n, c, i, ext + i * IB_RETH_LEN);
		memcpy(frame + hdr - IB_RETH_LEN, ext + i * IB_RETH_LEN, IB_RETH_LEN);
		memcpy(frame + hdr, data + i * c->len, c->len);
		memset(frame + hdr + c->len, 0, IB_ICRC_LEN);
		ib_set_psn(frame + IB_LRH_LEN, c->ackreq, c->psn + i);
		if (!at_once)
			craft_rx(t, p, frame, NULL, len);
	}
	if (!at_once)
		return;
	ib_set_psn(frame + IB_LRH_LEN, c->ackreq, c->psn);
	memcpy(frame + hdr - IB_RETH_LEN, ext, IB_RETH_LEN);
	ib_view_add(&v, data, c->packets * c->len);
	craft_rx(t, p, frame, &v, len);
}

static void test_shots(void **state)
{
	/* operations with a RETH */
	static const uint8_t ops[] = { IB_OP_RC_WRITE_ONLY, IB_OP_RC_WRITE_FIRST,
				       IB_OP_RC_READ_REQUEST, IB_OP_UC_WRITE_ONLY };
	const unsigned int was = bursts, not = parts;
	struct both b;

	(void)state;
	begin(&b, 1);
	for (b.step = 0; b.step < 400; b.step++) {
		struct shot c = {
			.op = ops[rnd(&b, 8) ? 0 : rnd(&b, 4)],
			.packets = 2 + rnd(&b, 15),
			.len = 4 * (rnd(&b, 8) ? rnd(&b, 65) : rnd(&b, 400)),
			.ackreq = rnd(&b, 2),
			.inside = !rnd(&b, 12),
			.how = rnd(&b, 4),
		};

		c.odd = rnd(&b, 2 * c.packets);
		c.psn = 0xfffff0 + c.inside + (rnd(&b, 6) ? 0 : rnd(&b, 3) - 1);
		for (unsigned int k = 0; k < 2; k++) {
			shot_send(&b.t[k], &b.t[k].pair[1], &c, !k);
			pass(b.t[k].w, MS);
		}
		compare(&b);
		for (unsigned int k = 0; k < 2; k++) {
			pair_down(&b.t[k].pair[1]);
			pair_up(&b.t[k], &b.t[k].pair[1]);
		}
		drain(&b);
	}
	end(&b);
	print_message("shots: %u at once, %u not all of it\n", bursts - was, parts - not);
	assert_true(bursts - was > 100);
	assert_true(parts - not > 100);
}

/* The device of the receiver fails in the middle of a series. */
static void test_fatal(void **state)
{
	const struct craft c = {
		.first = IB_OPN_WRITE_FIRST, .op = IB_OPN_WRITE_MIDDLE, .wr_len = 3 * MTU,
		.psn = 0xfffff1, .packets = 8, .payload = MTU,
	};
	struct both b;

	(void)state;
	begin(&b, 1);
	for (unsigned int k = 0; k < 2; k++) {
		struct twin *t = &b.t[k];
		struct node *n = &t->w->node[t->pair[1].side[1]];
		const uint64_t page = n->h->async.ring & ~(uint64_t)(HOST_PAGE - 1);
		const uint64_t len = page - HOST_BASE;
		const struct fab_hca_range r[2] = {
			{ HOST_BASE, len, n->h->mem, false, NULL },
			{ page + HOST_PAGE, n->h->mem_size - len - HOST_PAGE,
			  n->h->mem + len + HOST_PAGE, false, NULL },
		};

		/*
		 * the packet past the end of the WRITE raises an event, and its queue cannot be
		 * written
		 */
		assert_true(fab_hca_memory(n->hca, r, 2));
		craft_send(t, &t->pair[1], &c, !k);
		assert_true(n->h->e->status & OHCA_STATUS_FATAL);
	}
	compare(&b);
	for (unsigned int k = 0; k < 2; k++) {
		void *w = b.t[k].w;

		/* the device executes no command to destroy them */
		for (unsigned int i = 0; i < 2 * PAIRS; i++)
			host_buf_free(&b.t[k].pair[i / 2].qp[i % 2].buf);
		teardown(&w);
	}
}

/*
 * A SEND of 400 and 624 bytes to a receive WQE of 2000 bytes, of which the region has 500: the key
 * check refuses the packet, so nothing of it is written.
 */
static void test_outside(void **state)
{
	struct world *w = *state;
	struct node *x = &w->node[0], *y = &w->node[1];
	struct wqe q = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 7);
	struct ohca_hw_sge sge = host_sge(y->mr.iova + MR_LEN - 500, 2000, y->mr.key);
	uint8_t *to = host_buf_ptr(y->h, &y->mr.buf, MR_LEN - 500);
	struct host_qp qp[2];

	connect_rc(w, 0, 1, qp, OHCA_QPT_RC);
	fill(x, 0, 4 * HOST_PAGE, 3);
	memset(to, 0xee, 500);
	host_post_recv(&qp[1], 7, &sge, 1);
	wqe_sge(&q, x->mr.iova, 400, x->mr.key);
	wqe_sge(&q, x->mr.iova + 3 * HOST_PAGE, 624, x->mr.key);
	wqe_post(&qp[0], &q);
	pump(w);
	wc(&x->cq, 7, WC_REM_OP);
	wc(&y->cq, 7, WC_LOC_PROT);
	for (unsigned int i = 0; i < 500; i++)
		assert_int_equal(to[i], 0xee);
	done(qp);
}

/* ---- the end of a message ---- */

static struct {
	const uint8_t *at;	/* the last word of the message; NULL: none is watched */
	uint64_t old, new;
	unsigned int seen, torn;
} word;

/* Called after a write to memory. */
static void look(void *h, uint64_t iova, size_t n)
{
	uint64_t v;

	(void)h;
	(void)iova;
	(void)n;
	if (!word.at)
		return;
	memcpy(&v, word.at, sizeof(v));
	word.seen += v == word.new;
	word.torn += v != word.old && v != word.new;
}

/* A message of 252 and 4 bytes: its last word comes from two places, and appears at once. */
static void test_last_word(void **state)
{
	static const struct {
		uint8_t type, op;
	} kinds[] = {
		{ OHCA_QPT_RC, OHCA_OP_RDMA_WRITE }, { OHCA_QPT_UC, OHCA_OP_RDMA_WRITE },
		{ OHCA_QPT_RC, OHCA_OP_SEND }, { OHCA_QPT_UC, OHCA_OP_SEND },
	};
	struct world *w = *state;
	struct node *x = &w->node[0], *y = &w->node[1];

	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct wqe q = wqe_new(kinds[i].op, OHCA_WQE_SIGNALED, 7);
		struct ohca_hw_sge sge = host_sge(y->mr.iova + WINDOW, 256, y->mr.key);
		uint8_t *to = host_buf_ptr(y->h, &y->mr.buf, WINDOW);
		struct host_qp qp[2];

		connect_rc(w, 0, 1, qp, kinds[i].type);
		fill(x, 0, 4 * HOST_PAGE, 3);
		memset(to, 0, 256);
		y->h->e->ops.dma_dirty = look;
		memset(&word, 0, sizeof(word));
		memcpy(&word.new, host_buf_ptr(x->h, &x->mr.buf, 248), 4);
		memcpy((uint8_t *)&word.new + 4, host_buf_ptr(x->h, &x->mr.buf, 3 * HOST_PAGE), 4);
		word.at = to + 248;
		if (kinds[i].op == OHCA_OP_SEND)
			host_post_recv(&qp[1], 7, &sge, 1);
		else
			wqe_raddr(&q, y->mr.iova + WINDOW, y->mr.key);
		wqe_sge(&q, x->mr.iova, 252, x->mr.key);
		wqe_sge(&q, x->mr.iova + 3 * HOST_PAGE, 4, x->mr.key);
		wqe_post(&qp[0], &q);
		pump(w);
		wc(&x->cq, 7, WC_SUCCESS);
		if (kinds[i].op == OHCA_OP_SEND)
			wc(&y->cq, 7, WC_SUCCESS);
		word.at = NULL;
		assert_true(word.seen);
		assert_int_equal(word.torn, 0);
		done(qp);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_crafted),
		cmocka_unit_test(test_shots),
		cmocka_unit_test(test_fatal),
		cmocka_unit_test_setup_teardown(test_outside, setup_hosted, teardown),
		cmocka_unit_test_setup_teardown(test_last_word, setup_hosted, teardown),
	};

	return cmocka_run_group_tests_name("series and packets", tests, NULL, NULL);
}
