/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMA WRITEs whose packets arrive in any order (transport/ahead.h): on a seeded wire that delays,
 * loses and repeats packets, the result is the same as in order. Also packets of a peer that are
 * invalid, or too many.
 */
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/ahead.h"
#include "engine/transport/pool.h"
#include "engine/transport/sched.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "odp_rig.h"

#define MTU		1024u	/* of rig_up() */
#define BTH		IB_LRH_LEN
#define HELD		1200u	/* packets that the wire holds */
#define ZONE		65536u	/* target of WRITEs, which overlap */
#define STEPS		60u
#define RECV_AT		(1u << 20)
#define RECV_LEN	20000u
#define READ_AT		(2u << 20)	/* READs read here, and no WRITE writes */
#define ATOMIC_AT	(3u << 20)

/**
 * struct mess - a wire from the first machine to the second
 * @hold: the wire holds packets until the test releases them; @deep: at most so many
 * @lose, @repeat: per mille
 */
struct mess {
	struct host *to;
	uint64_t state;
	bool hold;
	unsigned int deep, lose, repeat;
	unsigned int num, lost, repeated, moved;
	struct held {
		uint32_t len;
		uint8_t frame[2048];
	} held[HELD];
};

static struct mess mess;

static uint32_t draw(uint64_t *s, uint32_t n)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return (uint32_t)(*s >> 16) % n;
}

/* Delivers packet @i of those that are held. */
static void let_go(unsigned int i, bool keep)
{
	struct held h = mess.held[i];

	mess.moved += i > 0;
	if (!keep)
		memmove(&mess.held[i], &mess.held[i + 1], (--mess.num - i) * sizeof(h));
	host_rx(mess.to, 0, h.frame[0] >> 4, h.frame, h.len, 0);
}

static enum host_fate hold(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			   uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	if (!mess.hold || frame[0] >> 4 == IB_VL_MANAGEMENT)
		return HOST_DELIVER;
	assert_true(mess.num < HELD && len <= sizeof(mess.held[0].frame));
	memcpy(mess.held[mess.num].frame, frame, len);
	mess.held[mess.num++].len = len;
	return HOST_DROP;
}

static void mess_up(struct rig *r, uint64_t seed)
{
	memset(&mess, 0, sizeof(mess));
	mess.to = r->h[1];
	mess.state = seed;
	mess.hold = true;
	mess.deep = 40;
	host_hook_set(r->h[0], 0, hold, NULL);
}

/* Whether a switch would keep the order of this packet. */
static bool keeps_order(const struct held *h)
{
	return h->frame[BTH] != IB_OP_RC_WRITE_ONLY && h->frame[BTH] != IB_OP_RC_WRITE_ONLY_IMM;
}

/* Picks a packet to deliver: any one, except that packets that keep their order do so. */
static unsigned int pick(void)
{
	const unsigned int n = mess.num < mess.deep ? mess.num : mess.deep;
	unsigned int i = draw(&mess.state, n);

	for (unsigned int k = 0; keeps_order(&mess.held[i]) && k < i; k++)
		if (keeps_order(&mess.held[k]))
			i = k;
	return i;
}

/* Delivers, loses or repeats a packet that is held, and runs. Return: false if none is held. */
static bool mess_on(struct rig *r)
{
	unsigned int i;

	rig_run(r);
	if (!mess.num)
		return false;
	i = pick();
	if (draw(&mess.state, 1000) < mess.lose) {
		memmove(&mess.held[i], &mess.held[i + 1],
			(--mess.num - i) * sizeof(mess.held[0]));
		mess.lost++;
	} else if (draw(&mess.state, 1000) < mess.repeat) {
		mess.repeated++;
		let_go(i, true);
	} else {
		let_go(i, false);
	}
	rig_run(r);
	return true;
}

static void any_order(struct rig *r, uint16_t sls)
{
	for (unsigned int i = 0; i < r->nh; i++)
		ohca_any_order(r->h[i]->e, sls);
}

static struct ohca_xport *xport_of(const struct host_qp *qp)
{
	return qp->h->e->qp[qp->handle]->xp;
}

/* ---- the same as in order ------------------------------------------------------ */

/** struct outcome - the results of a play; @end: comparable only with the same segmentation */
struct outcome {
	uLong memory, sent, received;
	unsigned int num;
	struct {
		uint32_t una, epsn, msn;
	} end;
};

static void post_imm(struct rig *r, uint64_t wr_id, uint64_t off, uint64_t roff, uint32_t len)
{
	struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, OHCA_WQE_SIGNALED | OHCA_WQE_SOLICITED,
			       wr_id);

	wqe_imm(&w, (uint32_t)wr_id * 0x01010101u);
	wqe_raddr(&w, r->mr[1].iova + roff, r->mr[1].key);
	wqe_sge(&w, r->mr[0].iova + off, len, r->mr[0].key);
	wqe_post(&r->qp[0], &w);
}

/* A step posts the same request whatever the earlier ones caused. */
static void post_one(struct rig *r, uint64_t *s, unsigned int step)
{
	const unsigned int what = draw(s, 16);
	const uint32_t len = draw(s, 4) ? draw(s, 20000) : draw(s, 300);
	const uint32_t off = draw(s, 900000), to = draw(s, ZONE);

	switch (what) {
	case 0:
		rig_recv(r, 1, 1000 + step, RECV_AT + step % 40 * RECV_LEN, RECV_LEN);
		rig_send(r, 0, step, off, len);
		break;
	case 1:
		rig_read(r, 0, step, RECV_AT + step % 40 * RECV_LEN, READ_AT, len);
		break;
	case 2:
		rig_atomic(r, 0, OHCA_OP_FETCH_ADD, step, ATOMIC_AT + step * 8, ATOMIC_AT, step, 0);
		break;
	case 3:
	case 4:
	case 5:
		rig_recv(r, 1, 1000 + step, 0, 0);
		post_imm(r, step, off, to, what == 3 ? len : len % MTU);
		break;
	default:
		rig_write(r, 0, step, off, to, len);
	}
}

static uLong sum_cqe(uLong s, const struct ohca_hw_cqe *c)
{
	const uint64_t v[] = { c->wr_id, c->status, c->opcode, c->byte_len, c->wc_flags, c->imm };

	return crc32(s, (const uint8_t *)v, sizeof(v));
}

static uLong sum_memory(struct rig *r)
{
	static uint8_t all[RIG_MR_LEN];
	uLong s = 0;

	for (unsigned int i = 0; i < 2; i++) {
		host_buf_read(r->h[i], &r->mr[i].buf, 0, all, sizeof(all));
		s = crc32(s, all, sizeof(all));
	}
	return s;
}

static void drain(struct rig *r, struct outcome *o, unsigned int *pending)
{
	struct ohca_hw_cqe c;

	while (host_cq_poll(&r->scq[0], &c)) {
		assert_int_equal(c.status, WC_SUCCESS);
		o->sent = sum_cqe(o->sent, &c);
		o->num++;
		--*pending;
	}
	while (host_cq_poll(&r->rcq[1], &c))
		o->received = sum_cqe(o->received, &c);
}

/* @sls: for any_order() of both sides; @messy: whether the wire is */
static struct outcome play(uint64_t seed, uint16_t sls, bool messy, unsigned int lose)
{
	struct outcome o = { 0 };
	unsigned int pending = 0, most = 0;
	uint64_t s = seed;
	struct rig r;

	rig_up(&r, (struct rig_opt){ .log_sq = 6, .psn = { 0xffff80 + (uint32_t)seed % 64, 9 } });
	any_order(&r, sls);
	rig_fill(&r, 0, 0, 1 << 20, (uint32_t)seed);
	rig_fill(&r, 1, READ_AT, RECV_LEN, (uint32_t)seed + 1);
	mess_up(&r, seed * 31 + 7);
	mess.hold = messy;
	mess.lose = lose;
	mess.repeat = lose ? 50 : 0;
	for (unsigned int step = 0; step < STEPS;) {
		for (unsigned int n = 1 + draw(&s, 8); n && step < STEPS; n--, step++, pending++)
			post_one(&r, &s, step);
		for (unsigned int i = 0; pending; i++) {
			const struct ohca_ahead *a = xport_of(&r.qp[1])->ahead;

			assert_true(i < 100000);
			most = a && a->num > most ? a->num : most;
			if (!mess_on(&r))
				rig_time(&r, 100);
			drain(&r, &o, &pending);
		}
	}
	rig_time(&r, 1000);
	while (mess_on(&r))
		;
	assert_int_equal(o.num, STEPS);
	assert_null(xport_of(&r.qp[1])->ahead);
	assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_RTS);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
	if (messy && sls)
		assert_true(most > 1);
	else
		assert_int_equal(most, 0);
	if (messy && sls && !lose) {
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_RETRY_EXCEEDED), 0);
	}
	o.memory = sum_memory(&r);
	o.end.una = xport_of(&r.qp[0])->req.una;
	o.end.epsn = xport_of(&r.qp[1])->resp.epsn;
	o.end.msn = xport_of(&r.qp[1])->resp.msn;
	mess.hold = false;
	rig_down(&r);
	return o;
}

/* Plays with @lose per mille of packets lost, and some repeated. */
static void as_in_order(unsigned int seeds, unsigned int lose)
{
	unsigned int moved = 0, lost = 0, repeated = 0;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		const struct outcome plain = play(seed, 0, false, 0);
		const struct outcome apart = play(seed, 1, false, 0);
		const struct outcome o = play(seed, 1, true, lose);

		moved += mess.moved;
		lost += mess.lost;
		repeated += mess.repeated;
		if (o.memory != plain.memory || o.sent != plain.sent ||
		    o.received != plain.received)
			fail_msg("seed %llu: not as in order: memory %d, sent %d, received %d",
				 (unsigned long long)seed, o.memory == plain.memory,
				 o.sent == plain.sent, o.received == plain.received);
		assert_int_equal(apart.memory, plain.memory);
		assert_int_equal(apart.sent, plain.sent);
		assert_int_equal(apart.received, plain.received);
		assert_int_equal(o.end.una, plain.end.una);
		assert_int_equal(o.end.epsn, plain.end.epsn);
		/* each packet of a WRITE is a message */
		assert_int_equal(o.end.msn, apart.end.msn);
		assert_true(apart.end.msn > plain.end.msn);
	}
	print_message("seeds 1 to %u: %u packets moved, %u lost, %u came twice\n", seeds, moved, lost,
		      repeated);
	assert_true(moved > 100 * seeds && (!lose || (lost > seeds && repeated > seeds)));
}

static void test_reorder(void **state)
{
	(void)state;
	as_in_order(12, 0);
}

static void test_reorder_and_loss(void **state)
{
	(void)state;
	as_in_order(12, 20);
}

/* ---- single packets ------------------------------------------------------------ */

/* QPs, with an SRQ if @srq, and a wire that holds what the first one sends. */
static void begin_held_srq(struct rig *r, bool srq)
{
	rig_up(r, (struct rig_opt){ .log_sq = 8, .log_rq = 8, .srq = srq });
	any_order(r, 1);
	rig_fill(r, 0, 0, 1 << 20, 5);
	mess_up(r, 1);
}

static void begin_held(struct rig *r)
{
	begin_held_srq(r, false);
}

static void end_held(struct rig *r)
{
	mess.hold = false;
	rig_down(r);
}

static struct ohca_ahead *ahead_of(const struct rig *r)
{
	return xport_of(&r->qp[1])->ahead;
}

/* Delivers a copy of frame @i that is held, with PSN @psn after the first. */
static void comes_as(unsigned int i, uint32_t psn)
{
	struct held h = mess.held[i];

	h.frame[BTH + 9] = (uint8_t)(psn >> 16);
	h.frame[BTH + 10] = (uint8_t)(psn >> 8);
	h.frame[BTH + 11] = (uint8_t)psn;
	host_rx(mess.to, 0, 0, h.frame, h.len, 0);
}

/* Delivers all that is held, in order, until nothing is. */
static void all_come(struct rig *r)
{
	for (rig_run(r); mess.num; rig_run(r))
		let_go(0, false);
}

/* Checks that bytes of the first machine are at @to of the second. */
static void check_copy(struct rig *r, uint32_t from, uint32_t to, uint32_t len)
{
	for (uint32_t k = 0; k < len; k++)
		assert_int_equal(*(uint8_t *)host_buf_ptr(r->h[1], &r->mr[1].buf, to + k),
				 *(uint8_t *)host_buf_ptr(r->h[0], &r->mr[0].buf, from + k));
}

/* Bytes of the later WRITE stay, in whichever order two packets arrive. */
static void test_overlap(void **state)
{
	struct rig r;

	(void)state;
	for (unsigned int swap = 0; swap < 2; swap++) {
		begin_held(&r);
		rig_write(&r, 0, 1, 0, 100, 128);
		rig_write(&r, 0, 2, 1000, 200, 64);
		rig_write(&r, 0, 3, 2000, 100, 64);
		rig_run(&r);
		assert_int_equal(mess.num, 3);
		let_go(swap ? 2 : 1, false);
		let_go(swap ? 0 : 1, false);
		let_go(0, false);
		all_come(&r);
		for (unsigned int i = 1; i <= 3; i++)
			wc(&r.scq[0], i, WC_SUCCESS);
		check_copy(&r, 2000, 100, 64);
		check_copy(&r, 64, 164, 36);
		check_copy(&r, 1000, 200, 64);
		end_held(&r);
	}
}

/*
 * Two WRITEs were overwritten and have to be sent again: one NAK covers both. If the first one
 * arrives again ahead of its turn, the second one gets a NAK.
 */
static void test_again(void **state)
{
	static const uint32_t to[] = { 0, 100, 100, 200, 200 };
	struct rig r;

	(void)state;
	for (unsigned int itself = 0; itself < 2; itself++) {
		begin_held(&r);
		for (unsigned int i = 0; i < 5; i++)
			rig_write(&r, 0, i, i * 1000, to[i], 64);
		rig_run(&r);
		assert_int_equal(mess.num, 5);
		let_go(4, false);
		let_go(2, true);
		let_go(3, false);
		let_go(1, false);
		assert_int_equal(ahead_of(&r)->num, 2);
		if (itself)
			let_go(1, false);
		else
			mess.num--;
		let_go(0, false);
		rig_run(&r);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_SEQ_NAK_RX), 1);
		assert_int_equal(mess.num, itself ? 1 : 3);
		all_come(&r);
		for (unsigned int i = 0; i < 5; i++)
			wc(&r.scq[0], i, WC_SUCCESS);
		check_copy(&r, 2000, 100, 64);
		check_copy(&r, 4000, 200, 64);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_SEQ_NAK_RX), 1);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
		assert_null(ahead_of(&r));
		end_held(&r);
	}
}

/* A request that keeps its order waits for WRITEs that do not, and they wait for it. */
static void test_order_of_others(void **state)
{
	struct rig r;

	(void)state;
	begin_held(&r);
	/* the requester knows of the receive WQE */
	mess.hold = false;
	rig_recv(&r, 1, 0, 0, 0);
	rig_recv(&r, 1, 10, RECV_AT, 64);
	rig_greet(&r, 0);
	mess.hold = true;
	rig_write(&r, 0, 1, 0, 0, 2 * MTU);
	rig_send(&r, 0, 2, 0, 64);
	rig_write(&r, 0, 3, 0, 4 * MTU, 64);
	rig_run(&r);
	assert_int_equal(mess.num, 2);
	let_go(1, false);
	rig_run(&r);
	assert_int_equal(mess.num, 1);
	no_wc(&r.rcq[1]);
	let_go(0, false);
	rig_run(&r);
	/* the SEND; when it is acknowledged, the WRITE after it */
	assert_int_equal(mess.num, 1);
	wc(&r.scq[0], 1, WC_SUCCESS);
	let_go(0, false);
	rig_run(&r);
	wc(&r.rcq[1], 10, WC_SUCCESS);
	wc(&r.scq[0], 2, WC_SUCCESS);
	assert_int_equal(mess.num, 1);
	let_go(0, false);
	rig_run(&r);
	wc(&r.scq[0], 3, WC_SUCCESS);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 0);
	end_held(&r);
}

static void atomic_write(struct rig *r, uint64_t wr_id, uint64_t off, uint64_t roff)
{
	struct wqe w = wqe_new(OHCA_OP_ATOMIC_WRITE, OHCA_WQE_SIGNALED, wr_id);

	wqe_raddr(&w, r->mr[1].iova + roff, r->mr[1].key);
	wqe_sge(&w, r->mr[0].iova + off, 8, r->mr[0].key);
	wqe_post(&r->qp[0], &w);
}

/*
 * A WRITE to bytes that the request before it writes or reads: at the end they have the data of the
 * WRITE, and the earlier request finds the old contents, although the wire would let the WRITE
 * overtake it.
 */
static void test_same_bytes(void **state)
{
	enum { SEND, READ, ATOMIC, ATOMIC_WRITE, LAST_ONE };
	const uint32_t from = 64 * MTU, to = RECV_AT;
	uint64_t found;

	(void)state;
	for (unsigned int what = SEND; what < LAST_ONE; what++) {
		struct rig r;

		begin_held(&r);
		mess.hold = false;
		rig_recv(&r, 1, 0, 0, 0);
		rig_recv(&r, 1, 10, to, 4 * MTU);
		rig_greet(&r, 0);
		mess.hold = true;
		switch (what) {
		case SEND:
			rig_send(&r, 0, 1, 0, 3 * MTU);
			break;
		case READ:
			rig_read(&r, 0, 1, ATOMIC_AT, to, 8);
			break;
		case ATOMIC:
			rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 1, ATOMIC_AT, to, 1, 0);
			break;
		case ATOMIC_WRITE:
			atomic_write(&r, 1, 0, to);
			break;
		}
		rig_write(&r, 0, 2, from, to, 8);
		rig_run(&r);
		/* the last packet first, then all */
		let_go(mess.num - 1, false);
		all_come(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		wc(&r.scq[0], 2, WC_SUCCESS);
		check_copy(&r, from, to, 8);
		memcpy(&found, host_buf_ptr(r.h[0], &r.mr[0].buf, ATOMIC_AT), sizeof(found));
		assert_int_equal(found, 0);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
		end_held(&r);
	}
}

/* Immediate data that arrives early and has no receive WQE when its turn comes. */
static void test_imm(void **state)
{
	struct ohca_hw_cqe c;
	struct rig r;

	(void)state;
	/* an SRQ grants no credits, so the requester sends everything */
	begin_held_srq(&r, true);
	mess.hold = false;
	rig_write(&r, 0, 0, 0, 0, 8);
	rig_run(&r);
	wc(&r.scq[0], 0, WC_SUCCESS);
	mess.hold = true;
	rig_write(&r, 0, 1, 0, 0, 100);
	post_imm(&r, 2, 200, 200, 300);
	post_imm(&r, 3, 600, 600, 0);
	rig_run(&r);
	assert_int_equal(mess.num, 3);
	let_go(2, false);
	let_go(1, false);
	rig_run(&r);
	check_copy(&r, 200, 200, 300);
	assert_int_equal(ahead_of(&r)->imms, 2);
	let_go(0, false);
	rig_run(&r);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RNR_NAK_TX), 1);
	assert_int_equal(ahead_of(&r)->num, 1);
	rig_recv(&r, 1, 20, 0, 0);
	rig_recv(&r, 1, 30, 0, 0);
	mess.hold = false;
	rig_time(&r, 1000);
	c = wc(&r.rcq[1], 20, WC_SUCCESS);
	assert_int_equal(c.byte_len, 300);
	assert_int_equal(c.imm, 0x02020202);
	c = wc(&r.rcq[1], 30, WC_SUCCESS);
	assert_int_equal(c.byte_len, 0);
	for (unsigned int i = 1; i <= 3; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	assert_null(ahead_of(&r));
	end_held(&r);
}

/* A packet far ahead means that a packet is lost: the responder sends a NAK, without a timeout. */
static void test_lost(void **state)
{
	struct rig r;

	(void)state;
	begin_held(&r);
	rig_write(&r, 0, 1, 0, 0, 600 * MTU);
	rig_run(&r);
	assert_int_equal(mess.num, OHCA_AHEAD);
	memmove(&mess.held[0], &mess.held[1], --mess.num * sizeof(mess.held[0]));
	for (unsigned int i = 1; i < OHCA_AHEAD_LOST; i++)
		let_go(0, false);
	assert_int_equal(ahead_of(&r)->num, OHCA_AHEAD_LOST - 1);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 0);
	let_go(0, false);
	let_go(0, false);
	rig_run(&r);
	/* each counts, but causes no NAK of its own */
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 2);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_SEQ_NAK_RX), 1);
	all_come(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	rig_check(&r, 1, 0, 600 * MTU, 5);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	/* no packet follows the last ones, so a timeout has to detect the loss */
	rig_write(&r, 0, 2, 0, 700 * MTU, 10 * MTU);
	rig_run(&r);
	memmove(&mess.held[0], &mess.held[1], --mess.num * sizeof(mess.held[0]));
	all_come(&r);
	no_wc(&r.scq[0]);
	mess.hold = false;
	rig_time(&r, 1000);
	wc(&r.scq[0], 2, WC_SUCCESS);
	assert_true(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT) > 0);
	rig_check(&r, 1, 700 * MTU, 10 * MTU, 5);
	end_held(&r);
}

/* Disabled, or for another service level: only in order, with a NAK for each gap. */
static void test_off(void **state)
{
	static const uint16_t sls[] = { 0, (uint16_t)~1u };
	struct rig r;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		begin_held(&r);
		any_order(&r, sls[i]);
		rig_write(&r, 0, 1, 0, 0, 3 * MTU);
		rig_write(&r, 0, 2, 0, 4 * MTU, 64);
		rig_run(&r);
		assert_int_equal(mess.num, 4);
		assert_int_equal(mess.held[0].frame[BTH], IB_OP_RC_WRITE_FIRST);
		assert_int_equal(mess.held[2].frame[BTH], IB_OP_RC_WRITE_LAST);
		let_go(3, false);
		assert_null(ahead_of(&r));
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 1);
		mess.hold = false;
		mess.num = 0;
		rig_time(&r, 1000);
		wc(&r.scq[0], 1, WC_SUCCESS);
		wc(&r.scq[0], 2, WC_SUCCESS);
		rig_check(&r, 1, 0, 3 * MTU, 5);
		end_held(&r);
	}
}

/* The wire holds 40 packets, of which the first is an @op; they get lost and are sent again. */
static void lost_once(struct rig *r, uint8_t op)
{
	rig_run(r);
	assert_int_equal(mess.num, 40);
	assert_int_equal(mess.held[0].frame[BTH], op);
	mess.num = 0;
	rig_time(r, 100);
	assert_true(mess.num >= 40);
	assert_int_equal(mess.held[0].frame[BTH], op);
}

/*
 * The option changes while messages are outstanding: each message keeps the mode in which it began.
 */
static void test_change(void **state)
{
	struct rig r;

	(void)state;
	begin_held(&r);
	any_order(&r, 0);
	rig_write(&r, 0, 1, 0, 0, 40 * MTU);
	rig_run(&r);
	any_order(&r, 1);
	rig_write(&r, 0, 2, 0, 100 * MTU, 40 * MTU);
	lost_once(&r, IB_OP_RC_WRITE_FIRST);
	for (unsigned int i = mess.num; i; i--)
		let_go(0, false);
	rig_run(&r);
	any_order(&r, 0);
	rig_write(&r, 0, 3, 0, 200 * MTU, 40 * MTU);
	lost_once(&r, IB_OP_RC_WRITE_ONLY);
	all_come(&r);
	mess.hold = false;
	rig_time(&r, 1000);
	for (unsigned int i = 1; i <= 3; i++) {
		wc(&r.scq[0], i, WC_SUCCESS);
		rig_check(&r, 1, (i - 1) * 100 * MTU, 40 * MTU, 5);
	}
	end_held(&r);
}

/* An early packet without a page causes no page fault until its turn comes. */
static void test_no_page(void **state)
{
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ 0 });
	t.r.mr[0].key = t.pinned[0];
	odp_pages(&t, 1, 0, 1, RW);
	any_order(&t.r, 1);
	rig_fill(&t.r, 0, 0, 3 * MTU, 5);
	mess_up(&t.r, 1);
	rig_write(&t.r, 0, 1, 0, PAGE - MTU, 3 * MTU);
	rig_run(&t.r);
	assert_int_equal(mess.num, 3);
	let_go(2, false);
	let_go(1, false);
	odp_none(&t);
	assert_int_equal(ahead_of(&t.r)->num, 0);
	mess.hold = false;
	let_go(0, false);
	assert_true(odp_serve(&t, RW) > 0);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	check_copy(&t.r, 0, PAGE - MTU, 3 * MTU);
	/* the second packet, and the third one, which was early again before the page was there */
	assert_int_equal(host_counter(t.r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 2);
	assert_int_equal(host_counter(t.r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	odp_down(&t);
}

/* Without memory for early packets, the responder works as without the option. */
static void test_no_budget(void **state)
{
	uint64_t taken;
	struct rig r;

	(void)state;
	begin_held(&r);
	taken = r.h[1]->e->mem_max - r.h[1]->e->mem_used - sizeof(struct ohca_ahead) + 1;
	assert_true(ohca_mem_reserve(r.h[1]->e, taken));
	rig_write(&r, 0, 1, 0, 0, 10 * MTU);
	rig_run(&r);
	let_go(5, false);
	assert_null(ahead_of(&r));
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 1);
	all_come(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	check_copy(&r, 0, 0, 10 * MTU);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	ohca_mem_release(r.h[1]->e, taken);
	end_held(&r);
}

/*
 * Other QPs use all memory for early packets: the same, and the guest keeps the rest of the budget.
 */
static void test_share(void **state)
{
	enum { QPS = 3 };
	struct ohca_ahead *other[QPS];
	struct rig r;
	ohca_engine *e;

	(void)state;
	begin_held(&r);
	e = r.h[1]->e;
	e->mem_max = OHCA_AHEAD_SHARE * (QPS + 1) * sizeof(struct ohca_ahead) - 1;
	assert_true(e->mem_max - e->mem_used > (QPS + 1) * sizeof(struct ohca_ahead));
	for (unsigned int i = 0; i < QPS; i++) {
		other[i] = ohca_ahead_get(e);
		assert_non_null(other[i]);
	}
	rig_write(&r, 0, 1, 0, 0, 10 * MTU);
	rig_run(&r);
	let_go(5, false);
	assert_null(ahead_of(&r));
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 1);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_NO_MEMORY), 1);
	/* one QP has no early packets any more */
	ohca_ahead_put(e, other[0]);
	let_go(5, false);
	assert_int_equal(ahead_of(&r)->num, 1);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_NO_MEMORY), 1);
	for (unsigned int i = 1; i < QPS; i++)
		ohca_ahead_put(e, other[i]);
	all_come(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	check_copy(&r, 0, 0, 10 * MTU);
	assert_null(ahead_of(&r));
	assert_int_equal(e->sched->ahead_used, 0);
	e->mem_max = OHCA_MEM_DEFAULT;
	end_held(&r);
}

/* ---- a hostile peer ------------------------------------------------------------ */

static void put32(uint8_t *p, uint32_t v)
{
	for (unsigned int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* An early packet that is invalid is not recorded and writes nothing; it is refused in its turn. */
static void test_bad(void **state)
{
	enum { KEY, LENGTH, BEYOND, SHORT, READ, MIDDLE, LAST_ONE };

	(void)state;
	for (unsigned int bad = KEY; bad < LAST_ONE; bad++) {
		uint8_t *f;
		struct rig r;

		begin_held(&r);
		rig_write(&r, 0, 1, 0, 0, 64);
		rig_write(&r, 0, 2, 0, 64, 64);
		rig_run(&r);
		f = mess.held[1].frame;
		switch (bad) {
		case KEY:
			f[BTH + 23] ^= 1;
			break;
		case LENGTH:
			put32(f + BTH + 24, 65);
			break;
		case BEYOND:
			put32(f + BTH + 16, (uint32_t)r.mr[1].iova + RIG_MR_LEN - 63);
			break;
		case SHORT:
			put32(f + BTH + 24, 0x80000001);
			break;
		case READ:
			f[BTH] = IB_OP_RC_READ_REQUEST;
			mess.held[1].len -= 64;
			f[5] = (uint8_t)(mess.held[1].len / 4);
			break;
		case MIDDLE:
			f[BTH] = IB_OP_RC_WRITE_MIDDLE;
			break;
		}
		let_go(1, false);
		assert_true(!ahead_of(&r) || !ahead_of(&r)->num);
		for (unsigned int k = 0; k < 64; k++)
			assert_int_equal(*(uint8_t *)host_buf_ptr(r.h[1], &r.mr[1].buf, 64 + k), 0);
		/* the responder asks for the packet again, and the requester sends the right one */
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), bad >= READ);
		all_come(&r);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 1);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
		assert_null(ahead_of(&r));
		wc(&r.scq[0], 1, WC_SUCCESS);
		wc(&r.scq[0], 2, WC_SUCCESS);
		end_held(&r);
	}
}

/* A WRITE with a wrong key: those before it complete, and it fails as in order. */
static void test_refused(void **state)
{
	struct rig r;
	struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 2);

	(void)state;
	begin_held(&r);
	rig_write(&r, 0, 1, 0, 0, 3 * MTU);
	wqe_raddr(&w, r.mr[1].iova, r.mr[1].key ^ 1);
	wqe_sge(&w, r.mr[0].iova, 64, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_write(&r, 0, 3, 0, 4 * MTU, 64);
	rig_run(&r);
	assert_int_equal(mess.num, 5);
	for (unsigned int i = 5; i-- > 0;)
		let_go(i, false);
	all_come(&r);
	assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.scq[0], 2, WC_REM_ACCESS);
	wc(&r.scq[0], 3, WC_WR_FLUSH);
	rig_check(&r, 1, 0, 3 * MTU, 5);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_ERR);
	assert_null(ahead_of(&r));
	end_held(&r);
}

/* WRITEs have used PSNs that belong to the responses of a READ: they have no effect. */
static void test_read_over(void **state)
{
	struct rig r;

	(void)state;
	begin_held(&r);
	rig_write(&r, 0, 1, 0, 0, 8);
	rig_run(&r);
	comes_as(0, 1);
	comes_as(0, 3);
	comes_as(0, 5);
	/* and one that has to be sent again */
	mess.held[0].frame[BTH + 23] ^= 1;
	comes_as(0, 4);
	assert_int_equal(ahead_of(&r)->num, 3);
	mess.num = 0;
	rig_modify(&r.qp[0], OHCA_QPS_RESET);
	rig_connect(&r, 0, rig_attr(&r, 0));
	mess.hold = false;
	rig_read(&r, 0, 2, 0, READ_AT, 5 * MTU);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	/* except for the next one */
	assert_null(ahead_of(&r));
	assert_int_equal(xport_of(&r.qp[1])->resp.epsn, 6);
	end_held(&r);
}

/* As many packets as there are PSNs, and more, of each kind, twice: all is bounded and freed. */
static void test_flood(void **state)
{
	uint64_t used;
	struct rig r;

	(void)state;
	for (unsigned int kind = 0; kind < 4; kind++) {
		const bool imm = kind & 1;

		begin_held(&r);
		used = r.h[1]->e->mem_used;
		if (imm)
			post_imm(&r, 1, 0, 0, 8);
		else
			rig_write(&r, 0, 1, 0, 0, 8);
		for (unsigned int i = 0; i < 200; i++)
			rig_recv(&r, 1, 1000 + i, 0, 0);
		rig_run(&r);
		for (uint32_t k = 0; k < 2 * OHCA_AHEAD; k++) {
			comes_as(0, 1 + k * 7 % 2000);
			assert_true(!ahead_of(&r) || ahead_of(&r)->num < OHCA_AHEAD);
		}
		for (uint32_t k = 1; k < OHCA_AHEAD + 10; k++)
			comes_as(0, k);
		assert_int_equal(ahead_of(&r)->num, imm ? OHCA_AHEAD_IMMS : OHCA_AHEAD - 1);
		assert_int_equal(r.h[1]->e->mem_used, used + sizeof(struct ohca_ahead));
		assert_int_equal(r.h[1]->e->sched->ahead_num, 0);
		/* all in turn, or the end */
		if (kind < 2)
			comes_as(0, 0);
		if (kind >= 2 || imm)
			rig_modify(&r.qp[1], imm ? OHCA_QPS_RESET : OHCA_QPS_ERR);
		assert_null(ahead_of(&r));
		assert_int_equal(r.h[1]->e->sched->ahead_num, 1);
		assert_in_range(r.h[1]->e->mem_used, 0, used);
		end_held(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reorder),
		cmocka_unit_test(test_reorder_and_loss),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_order_of_others),
		cmocka_unit_test(test_same_bytes),
		cmocka_unit_test(test_imm),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_change),
		cmocka_unit_test(test_no_page),
		cmocka_unit_test(test_no_budget),
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_read_over),
		cmocka_unit_test(test_flood),
	};

	return cmocka_run_group_tests_name("ahead", tests, NULL, NULL);
}
