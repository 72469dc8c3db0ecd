/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QPs whose queues move to new buffers while messages are outstanding and lost, in every state,
 * between all sizes; and what RESIZE_QP refuses.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/object/qp.h"
#include "engine/transport/sq.h"
#include "engine/transport/xport.h"
#include "rig.h"

#define MESSAGES	800u
#define SLOTS		64u
#define SLOT		4096u
#define SUM		(SLOTS * SLOT * 3)	/* target of atomics */
#define MAX_BBS		4u

static uint32_t seed;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

static enum host_fate lossy(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return rnd(25) ? HOST_DELIVER : HOST_DROP;
}

static const struct ohca_xport *xport(const struct host_qp *qp)
{
	return ohca_qp_get(qp->h->e, qp->handle)->xp;
}

static uint32_t sq_held(const struct host_qp *qp)
{
	return qp->sq_pi - xport(qp)->req.tail;
}

static uint32_t rq_held(const struct host_qp *qp)
{
	const struct ohca_hw_db *db = host_buf_ptr(qp->h, &qp->buf, 0);

	return qp->has_rq ? qp->rq_pi - db->rq_ci : 0;
}

/** struct load - traffic from side 0 to side 1 */
struct load {
	struct rig r;
	uint32_t sent, done;		/* of side 0 */
	uint32_t posted, got;		/* of side 1 */
	uint32_t msg[MESSAGES];		/* the message that each receive is for */
	uint32_t msgs;
	uint64_t sum;
	unsigned int sizes, refused;
};

enum { SEND, READ, ADD, INLINE };

static unsigned int kind(const struct load *l, uint32_t i)
{
	return l->r.opt.type == OHCA_QPT_UD ? SEND : i % 4;
}

static uint32_t length(const struct load *l, uint32_t i)
{
	return kind(l, i) == INLINE ? 200 : l->r.opt.type == OHCA_QPT_UD ? 700 : 1 + i * 37 % 3000;
}

static bool receives(const struct load *l, uint32_t i)
{
	return kind(l, i) == SEND || kind(l, i) == INLINE;
}

static void send_one(struct load *l)
{
	uint32_t i = l->sent++, len = length(l, i);
	uint64_t at = i % SLOTS * SLOT;
	struct rig *r = &l->r;
	uint8_t data[256];
	struct wqe w;

	if (receives(l, i))
		l->msg[l->msgs++] = i;
	switch (kind(l, i)) {
	case SEND:
		rig_fill(r, 0, at, len, i);
		rig_send(r, 0, i, at, len);
		break;
	case READ:
		rig_fill(r, 1, SLOTS * SLOT + at, len, i);
		rig_read(r, 0, i, SLOTS * SLOT + at, SLOTS * SLOT + at, len);
		break;
	case ADD:
		rig_atomic(r, 0, OHCA_OP_FETCH_ADD, i, 2 * SLOTS * SLOT + at, SUM, i, 0);
		break;
	default:
		rig_fill(r, 0, at, len, i);
		host_buf_read(r->h[0], &r->mr[0].buf, at, data, len);
		w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, i);
		if (r->opt.type == OHCA_QPT_XRC_INI)
			wqe_xrc(&w, r->srq[1].srqn);
		wqe_inline(&w, data, len);
		wqe_post(&r->qp[0], &w);
	}
}

static void poll(struct load *l)
{
	unsigned int grh = l->r.opt.type == OHCA_QPT_UD ? 40 : 0;
	struct rig *r = &l->r;
	struct ohca_hw_cqe c;
	uint32_t i;

	while (host_cq_poll(&r->scq[0], &c)) {
		i = l->done++;
		assert_int_equal(c.status, WC_SUCCESS);
		assert_int_equal(c.wr_id, i);
		if (kind(l, i) == READ)
			rig_check(r, 0, SLOTS * SLOT + i % SLOTS * SLOT, length(l, i), i);
		if (kind(l, i) == ADD) {
			assert_int_equal(rig_get64(r, 0, 2 * SLOTS * SLOT + i % SLOTS * SLOT),
					 l->sum);
			l->sum += i;
		}
	}
	while (host_cq_poll(&r->rcq[1], &c)) {
		assert_int_equal(c.status, WC_SUCCESS);
		assert_int_equal(c.wr_id, l->got);
		if (r->qp[1].has_rq)
			assert_int_equal(c.wqe_idx, l->got);
		i = l->msg[l->got];
		assert_int_equal(c.byte_len, length(l, i) + grh);
		rig_check(r, 1, l->got % SLOTS * SLOT + grh, length(l, i), i);
		l->got++;
	}
}

/*
 * Resizes to a random size; refused only if too much is outstanding. The driver's indices must be
 * those of the device.
 */
static void resize(struct load *l, struct host_qp *qp)
{
	uint8_t log_sq = (uint8_t)(2 + rnd(9)), log_rq = qp->has_rq ? (uint8_t)rnd(7) : 0;
	uint32_t sq = sq_held(qp), rq = rq_held(qp);
	struct ohca_resp_resize_qp pi;
	int rc = host_qp_resize(qp, log_sq, log_rq, &pi);

	if (rc) {
		assert_int_equal(rc, OHCA_ADMIN_BAD_PARAM);
		assert_true(sq > 1u << log_sq || rq > 1u << log_rq);
		assert_int_equal(qp->h->syndrome, sq > 1u << log_sq ? 0x1c : 0x1d);
		l->refused++;
		return;
	}
	assert_true(sq_held(qp) <= 1u << log_sq && rq_held(qp) <= 1u << log_rq);
	assert_int_equal(pi.sq_pi, qp->sq_pi);
	assert_int_equal(pi.rq_pi, qp->has_rq ? qp->rq_pi : 0);
	l->sizes++;
}

static void traffic(struct rig_opt opt)
{
	struct load *l = calloc(1, sizeof(*l));
	struct rig *r = &l->r;
	struct host_qp *qp;

	opt.log_sq = 3;
	opt.log_rq = 3;
	rig_up(r, opt);
	qp = r->qp;
	if (opt.type != OHCA_QPT_UD && !opt.loop)
		for (unsigned int i = 0; i < 2; i++)
			host_hook_set(r->h[i], 0, lossy, NULL);
	for (uint32_t step = 0; l->done < MESSAGES || l->got < l->msgs; step++) {
		if (step > 200 * MESSAGES)
			fail_msg("%u sent, %u done, %u received", l->sent, l->done, l->got);
		for (uint32_t n = rnd(6); n && l->posted - l->got < SLOTS &&
		     (!qp[1].has_rq || rq_held(&qp[1]) < 1u << qp[1].log_rq); n--, l->posted++)
			rig_recv(r, 1, l->posted, l->posted % SLOTS * SLOT, SLOT);
		/* never more than can be received, so no QP waits for an RNR timer */
		while (l->sent < MESSAGES && l->sent - l->done < SLOTS / 2 && rnd(8) &&
		       sq_held(&qp[0]) + MAX_BBS <= 1u << qp[0].log_sq &&
		       l->msgs < l->posted)
			send_one(l);
		host_step(r->h, r->nh);
		poll(l);
		if (step % 16 == 15)
			rig_time(r, 1);
		resize(l, &qp[0]);
		if (opt.type != OHCA_QPT_XRC_INI)
			resize(l, &qp[1]);
	}
	print_message("%u sizes, %u refused\n", l->sizes, l->refused);
	assert_true(l->sizes > 50 && l->refused > 5);
	assert_int_equal(rig_get64(r, 1, SUM), l->sum);
	for (unsigned int i = 0; i < r->nh; i++)
		assert_int_equal(host_counter(r->h[i], OHCA_CNT_DB_BAD_INDEX), 0);
	rig_down(r);
	free(l);
}

static void test_rc(void **state)
{
	(void)state;
	traffic((struct rig_opt){ .scatter = true });
	traffic((struct rig_opt){ .signal_all = true, .privileged = true });
	traffic((struct rig_opt){ .loop = true });
}

static void test_srq(void **state)
{
	(void)state;
	traffic((struct rig_opt){ .srq = true });
}

static void test_ud(void **state)
{
	(void)state;
	traffic((struct rig_opt){ .type = OHCA_QPT_UD, .scatter = true });
}

static void test_xrc(void **state)
{
	(void)state;
	traffic((struct rig_opt){ .type = OHCA_QPT_XRC_INI });
}

/* A QP that was used and reset starts with index 0 in its new buffer. */
static void test_states(void **state)
{
	struct ohca_resp_resize_qp pi;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .log_sq = 3, .log_rq = 3 });
	for (unsigned int round = 0; round < 8; round++) {
		uint32_t k = 10 * round;

		for (uint32_t n = 0; n < 5; n++) {
			rig_recv(&r, 1, k + n, n * SLOT, SLOT);
			rig_fill(&r, 0, n * SLOT, 100, k + n);
			rig_send(&r, 0, k + n, n * SLOT, 100);
		}
		/* SQD: WQEs that have not begun wait, and move */
		if (round & 1) {
			rig_modify(&r.qp[0], OHCA_QPS_SQD);
			assert_int_equal(host_qp_resize(&r.qp[0], 3 + round % 3, 2, &pi), 0);
			assert_int_equal(pi.sq_pi, r.qp[0].sq_pi);
			rig_run(&r);
			rig_modify(&r.qp[0], OHCA_QPS_RTS);
		}
		rig_run(&r);
		for (uint32_t n = 0; n < 5; n++) {
			wc(&r.scq[0], k + n, WC_SUCCESS);
			wc(&r.rcq[1], k + n, WC_SUCCESS);
			rig_check(&r, 1, n * SLOT, 100, k + n);
		}
		/* ERR: posts are flushed, from the new buffer, too */
		for (unsigned int i = 0; i < 2; i++) {
			rig_recv(&r, i, 7, 0, 100);
			rig_recv(&r, i, 8, 0, 100);
			rig_modify(&r.qp[i], OHCA_QPS_ERR);
			assert_int_equal(host_qp_resize(&r.qp[i], 4, 1 + round % 4, &pi), 0);
			rig_run(&r);
			wc(&r.rcq[i], 7, WC_WR_FLUSH);
			wc(&r.rcq[i], 8, WC_WR_FLUSH);
			rig_recv(&r, i, 9, 0, 100);
			rig_send(&r, i, 9, 0, 100);
			rig_run(&r);
			wc(&r.rcq[i], 9, WC_WR_FLUSH);
			wc(&r.scq[i], 9, WC_WR_FLUSH);
			rig_modify(&r.qp[i], OHCA_QPS_RESET);
			/* the old record still contains earlier indices */
			assert_int_equal(host_qp_resize(&r.qp[i], 4, 3, &pi), 0);
			assert_int_equal(pi.sq_pi | pi.rq_pi, 0);
			r.qp[i].sq_pi = 0;
			r.qp[i].rq_pi = 0;
		}
		rig_connect(&r, 0, rig_attr(&r, 0));
		rig_connect(&r, 1, rig_attr(&r, 1));
	}
	rig_down(&r);
}

/* A WRITE of SLOT bytes in four pieces, which needs two blocks. */
static void write_long(struct rig *r, uint64_t wr_id, uint64_t off, uint64_t roff)
{
	struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, wr_id);

	wqe_raddr(&w, r->mr[1].iova + roff, r->mr[1].key);
	for (uint32_t i = 0; i < 4; i++)
		wqe_sge(&w, r->mr[0].iova + off + i * (SLOT / 4), SLOT / 4, r->mr[0].key);
	wqe_post(&r->qp[0], &w);
}

/* A queue that is never empty gets a window of its new size, with all entries of the old one. */
static void test_window(void **state)
{
	struct ohca_resp_resize_qp pi;

	(void)state;
	for (uint32_t begin = 0; begin < 16; begin++) {
		struct rig r;
		uint32_t i;

		rig_up(&r, (struct rig_opt){ .log_sq = 4, .log_rq = 8 });
		/* these move the others in the ring, so that one may wrap */
		for (i = 0; i < begin; i++)
			rig_write(&r, 0, i, 0, 0, 64);
		rig_run(&r);
		for (i = 0; i < begin; i++)
			wc(&r.scq[0], i, WC_SUCCESS);
		/* everything is lost, so all stay outstanding */
		host_hook_set(r.h[0], 0, host_drop, NULL);
		for (i = 0; i < 8; i++) {
			rig_fill(&r, 0, i * SLOT, SLOT, 100 * begin + i);
			write_long(&r, i, i * SLOT, (i + 8) * SLOT);
		}
		host_step(r.h, r.nh);
		assert_int_equal(xport(&r.qp[0])->req.win->mask, 15);
		assert_int_equal(host_qp_resize(&r.qp[0], 7, 8, &pi), 0);
		assert_int_equal(xport(&r.qp[0])->req.win->mask, 127);
		/* after them, where only the larger ring has room */
		rig_fill(&r, 0, 8 * SLOT, SLOT, 100 * begin + 8);
		write_long(&r, 8, 8 * SLOT, 16 * SLOT);
		assert_int_equal(host_qp_resize(&r.qp[0], 4, 8, &pi), OHCA_ADMIN_BAD_PARAM);
		assert_int_equal(host_qp_resize(&r.qp[0], 5, 8, &pi), 0);
		host_hook_set(r.h[0], 0, NULL, NULL);
		rig_time(&r, 1000);
		for (i = 0; i < 9; i++) {
			wc(&r.scq[0], i, WC_SUCCESS);
			rig_check(&r, 1, (i + 8) * SLOT, SLOT, 100 * begin + i);
		}
		rig_down(&r);
	}
}

/* A refused command changes nothing. */
static void test_refused(void **state)
{
	struct ohca_resp_resize_qp pi;
	struct ohca_hw_aqe good, c;
	struct ohca_hw_db *db;
	struct host *h;
	struct rig r, x;

	(void)state;
	rig_up(&r, (struct rig_opt){ .log_sq = 4, .log_rq = 4 });
	h = r.h[1];
	for (uint32_t i = 0; i < 5; i++) {
		rig_recv(&r, 1, i, i * SLOT, SLOT);
		if (i < 3)
			rig_write(&r, 1, i, 0, 0, 64);
	}
	good = HOST_AQE(resize_qp, .handle = r.qp[1].handle, .log_sq = 3, .log_rq = 3);
	good.resize_qp.pl.root = host_pages(h, 1);
	good.resize_qp.pl.npages = 1;
	good.resize_qp.pl.page_shift = 12;
	/* nothing may leave while commands are tried */
	rig_modify(&r.qp[1], OHCA_QPS_SQD);
#define REFUSED(field, value, status, syn)					\
	c = good;								\
	c.resize_qp.field = (value);						\
	assert_int_equal(host_cmd(h, OHCA_CMD_RESIZE_QP, &c, NULL), status);	\
	assert_int_equal(h->syndrome, syn)
	REFUSED(handle, 77, OHCA_ADMIN_BAD_HANDLE, 0);
	REFUSED(handle, 0xffffffff, OHCA_ADMIN_BAD_HANDLE, 0);
	REFUSED(log_sq, 19, OHCA_ADMIN_BAD_PARAM, 0x1c);
	REFUSED(log_sq, 255, OHCA_ADMIN_BAD_PARAM, 0x1c);
	REFUSED(log_rq, 15, OHCA_ADMIN_BAD_PARAM, 0x1d);
	REFUSED(log_rq, 255, OHCA_ADMIN_BAD_PARAM, 0x1d);
	/* three do not fit two, five do not fit four */
	assert_int_equal(sq_held(&r.qp[1]), 3);
	REFUSED(log_sq, 1, OHCA_ADMIN_BAD_PARAM, 0x1c);
	REFUSED(log_rq, 2, OHCA_ADMIN_BAD_PARAM, 0x1d);
	/* 32 of 128 bytes, the SQ and the record do not fit a page */
	REFUSED(log_rq, 5, OHCA_ADMIN_BAD_PARAM, 0x08);
	REFUSED(reserved, 1, OHCA_ADMIN_BAD_PARAM, 0x1e);
	REFUSED(pl.levels, 4, OHCA_ADMIN_BAD_PARAM, 0x08);
	REFUSED(pl.root, 1ull << 44, OHCA_ADMIN_DMA, 0);
#undef REFUSED
	/* the old buffer cannot be read any more */
	h->hole = r.qp[1].buf.page[0];
	h->hole_len = 4096;
	assert_int_equal(host_qp_resize(&r.qp[1], 4, 4, &pi), OHCA_ADMIN_BAD_STATE);
	h->hole_len = 0;
	/* invalid indices in the record */
	db = host_buf_ptr(h, &r.qp[1].buf, 0);
	db->rq_pi += 12;
	assert_int_equal(host_qp_resize(&r.qp[1], 8, 8, &pi), OHCA_ADMIN_BAD_STATE);
	db->rq_pi -= 12;
	db->sq_pi += 17;
	assert_int_equal(host_qp_resize(&r.qp[1], 8, 8, &pi), OHCA_ADMIN_BAD_STATE);
	db->sq_pi -= 17;
	assert_int_equal(host_counter(h, OHCA_CNT_DB_BAD_INDEX), 2);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_SQD);
	no_event(h);

	rig_modify(&r.qp[1], OHCA_QPS_RTS);
	rig_run(&r);
	for (uint32_t i = 0; i < 5; i++) {
		rig_fill(&r, 0, 0, 100, i);
		rig_send(&r, 0, i, 0, 100);
		rig_run(&r);
		wc(&r.rcq[1], i, WC_SUCCESS);
		rig_check(&r, 1, i * SLOT, 100, i);
		if (i < 3)
			wc(&r.scq[1], i, WC_SUCCESS);
	}
	rig_down(&r);

	/* no receive queue: none can be made; no queue at all */
	rig_up(&x, (struct rig_opt){ .type = OHCA_QPT_XRC_INI });
	assert_int_equal(host_qp_resize(&x.qp[0], 4, 1, &pi), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(x.h[0]->syndrome, 0x1d);
	assert_int_equal(host_qp_resize(&x.qp[1], 4, 0, &pi), OHCA_ADMIN_BAD_STATE);
	rig_down(&x);
	rig_up(&x, (struct rig_opt){ .tags = 4 });
	assert_int_equal(host_qp_resize(&x.qp[1], 0, 0, &pi), OHCA_ADMIN_BAD_STATE);
	rig_down(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rc), cmocka_unit_test(test_srq), cmocka_unit_test(test_ud),
		cmocka_unit_test(test_xrc), cmocka_unit_test(test_states),
		cmocka_unit_test(test_window), cmocka_unit_test(test_refused),
	};
	const char *given = getenv("SEED");

	seed = given ? (uint32_t)strtoul(given, NULL, 0) : 1;
	printf("SEED=%u\n", seed);
	return cmocka_run_group_tests_name("QPs resized", tests, NULL, NULL);
}
