/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory placement extensions: FLUSH and ATOMIC WRITE (IBTA vol 1, annex A19). */
#include "engine/base/guestmem.h"
#include "engine/base/state.h"
#include "engine/object/mr.h"
#include "engine/object/mr_access.h"
#include "engine/transport/persist.h"
#include "rig.h"

static struct wqe flush(struct rig *r, uint64_t off, uint32_t len, uint8_t placement, uint8_t level)
{
	struct wqe w = wqe_new(OHCA_OP_FLUSH, OHCA_WQE_SIGNALED, 1);

	wqe_raddr(&w, r->mr[1].iova + off, r->mr[1].key);
	wqe_flush(&w, len, placement, level);
	return w;
}

static struct wqe atomic_write(struct rig *r, uint64_t off, uint32_t len)
{
	struct wqe w = wqe_new(OHCA_OP_ATOMIC_WRITE, OHCA_WQE_SIGNALED, 1);

	wqe_raddr(&w, r->mr[1].iova + off, r->mr[1].key);
	wqe_sge(&w, r->mr[0].iova, len, r->mr[0].key);
	return w;
}

/* Each is one packet, has one response, and advances the PSN by one. */
static void test_packets(void **state)
{
	struct ohca_hw_cqe c;
	struct rig r;
	struct wqe w;
	uint64_t before;

	(void)state;
	rig_up(&r, (struct rig_opt){ .psn = { 0xffffff, 5 } });
	w = flush(&r, 100, 1 << 20, OHCA_FLUSH_GLOBAL, OHCA_FLUSH_RANGE);
	before = r.h[0]->port[0].frames;
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	c = wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(c.opcode, 8);
	assert_int_equal(r.h[0]->port[0].frames, before + 1);
	assert_int_equal(r.h[1]->persisted, 0);

	rig_put64(&r, 0, 0, 0x1122334455667788ull);
	w = atomic_write(&r, 64, 8);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	c = wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(c.opcode, 9);
	assert_int_equal(c.byte_len, 8);
	assert_int_equal(rig_get64(&r, 1, 64), 0x1122334455667788ull);
	assert_int_equal(r.h[0]->port[0].frames, before + 2);
	/* the next request has the right PSN */
	rig_write(&r, 0, 7, 0, 4096, 3000);
	rig_run(&r);
	wc(&r.scq[0], 7, WC_SUCCESS);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 0);
	rig_down(&r);
}

/* The host makes exactly the named bytes persistent. */
static void test_persist(void **state)
{
	static const struct {
		uint32_t len;
		uint8_t type, level;
		uint64_t want;
	} t[] = {
		{ 0, OHCA_FLUSH_PERSISTENT, OHCA_FLUSH_RANGE, 0 },
		{ 1, OHCA_FLUSH_PERSISTENT, OHCA_FLUSH_RANGE, 1 },
		{ 12345, OHCA_FLUSH_PERSISTENT | OHCA_FLUSH_GLOBAL, OHCA_FLUSH_RANGE, 12345 },
		{ 12345, OHCA_FLUSH_GLOBAL, OHCA_FLUSH_RANGE, 0 },
		/* length and address have no meaning then */
		{ 0xffffffff, OHCA_FLUSH_PERSISTENT, OHCA_FLUSH_MR, RIG_MR_LEN },
		{ 0, OHCA_FLUSH_GLOBAL, OHCA_FLUSH_MR, 0 },
	};
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ .scatter = true });
	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		r.h[1]->persisted = 0;
		w = flush(&r, 3, t[i].len, t[i].type, t[i].level);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		assert_int_equal(r.h[1]->persisted, t[i].want);
	}
	rig_down(&r);
}

/* Time passes, and the host's work is done. */
static void persist_done(struct rig *r)
{
	struct host *h = r->h[1];

	while (h->persist_num)
		ohca_persisted(h->e, h->persist_tag[--h->persist_num]);
	rig_time(r, 2);
}

/*
 * A slow host: only the requester waits for it. It gets a part at a time, and contiguous pages are
 * one part.
 */
static void test_persist_later(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	for (int scatter = 0; scatter < 2; scatter++) {
		unsigned int pages = RIG_MR_LEN / HOST_PAGE;
		unsigned int parts = scatter ? (pages + OHCA_PERSIST_RUNS - 1) / OHCA_PERSIST_RUNS : 1;

		rig_up(&r, (struct rig_opt){ .scatter = scatter });
		r.h[1]->persist_later = true;
		rig_write(&r, 0, 1, 0, 0, 4096);
		w = flush(&r, 0, 0, OHCA_FLUSH_PERSISTENT, OHCA_FLUSH_MR);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		for (unsigned int i = 1; i <= parts; i++) {
			/* requested again and again, and begun once */
			rig_time(&r, 10);
			no_wc(&r.scq[0]);
			assert_int_equal(r.h[1]->persist_calls, i);
			persist_done(&r);
		}
		wc(&r.scq[0], 1, WC_SUCCESS);
		assert_int_equal(r.h[1]->persisted, RIG_MR_LEN);
		assert_int_equal(r.h[1]->persist_runs, scatter ? pages : 1);
		assert_int_equal(r.h[1]->persist_calls, parts);
		/* the next one begins anew */
		w = flush(&r, 0, 1, OHCA_FLUSH_PERSISTENT, OHCA_FLUSH_RANGE);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		assert_int_equal(r.h[1]->persist_calls, parts + 1);
		/* it ends after its QP */
		rig_modify(&r.qp[1], OHCA_QPS_RESET);
		persist_done(&r);
		rig_down(&r);
	}
}

/* A limited number at a time, of all QPs; a request that is not sent again loses its slot. */
static void test_persist_places(void **state)
{
	struct ohca_mr_range range;
	struct rig r;
	struct host *h;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	h = r.h[1];
	h->persist_later = true;
	range = (struct ohca_mr_range){ .mr = ohca_mr_get(h->e, r.mr[1].key), .len = 4096 };
	ohca_dma_enter(h->e);
	for (uintptr_t i = 0; i <= OHCA_PERSISTS; i++)
		for (unsigned int again = 0; again < 2; again++)
			assert_false(ohca_persist(h->e, (void *)(64 * (i + 1)), 5, 6, &range));
	assert_int_equal(h->persist_calls, OHCA_PERSISTS);
	while (h->persist_num)
		ohca_persisted(h->e, h->persist_tag[--h->persist_num]);
	/* a new request finds no slot, one that was there completes */
	assert_false(ohca_persist(h->e, (void *)4096, 5, 6, &range));
	assert_int_equal(h->persist_calls, OHCA_PERSISTS);
	assert_true(ohca_persist(h->e, (void *)64, 5, 6, &range));
	assert_false(ohca_persist(h->e, (void *)4096, 5, 6, &range));
	assert_int_equal(h->persist_calls, OHCA_PERSISTS + 1);
	/* nor while the others may be sent again */
	assert_false(ohca_persist(h->e, (void *)8192, 5, 6, &range));
	assert_int_equal(h->persist_calls, OHCA_PERSISTS + 1);
	*h->now += 2000 * HOST_MS;
	assert_false(ohca_persist(h->e, (void *)8192, 5, 6, &range));
	assert_int_equal(h->persist_calls, OHCA_PERSISTS + 2);
	/* another FLUSH of a QP does not match the one that is done */
	assert_false(ohca_persist(h->e, (void *)128, 6, 6, &range));
	assert_int_equal(h->persist_calls, OHCA_PERSISTS + 3);
	for (uintptr_t i = 0; i <= OHCA_PERSISTS; i++)
		ohca_persist_forget(h->e, (void *)(64 * (i + 1)));
	ohca_persist_forget(h->e, (void *)4096);
	ohca_persist_forget(h->e, (void *)8192);
	while (h->persist_num)
		ohca_persisted(h->e, h->persist_tag[--h->persist_num]);
	ohca_dma_exit(h->e);
	rig_down(&r);
}

/* All requests before a FLUSH are in memory when it completes; the order is kept. */
static void test_order(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1, .log_sq = 8 });
	for (unsigned int round = 0; round < 10; round++) {
		uint64_t val = round;

		rig_fill(&r, 0, 0, 10000, round);
		rig_write(&r, 0, 0, 0, 1 << 20, 10000);
		w = flush(&r, 1 << 20, 10000, OHCA_FLUSH_GLOBAL, OHCA_FLUSH_RANGE);
		wqe_post(&r.qp[0], &w);
		w = wqe_new(OHCA_OP_ATOMIC_WRITE, OHCA_WQE_SIGNALED, 2);
		wqe_raddr(&w, r.mr[1].iova + 64, r.mr[1].key);
		wqe_inline(&w, &val, 8);
		wqe_post(&r.qp[0], &w);
		rig_read(&r, 0, 3, 200000, 64, 8);
		rig_run(&r);
		for (unsigned int k = 0; k < 4; k++)
			wc(&r.scq[0], k, WC_SUCCESS);
		rig_check(&r, 1, 1 << 20, 10000, round);
		assert_int_equal(rig_get64(&r, 0, 200000), round);
	}
	rig_down(&r);
}

/* They count as READs: no more than max_rd_atomic at a time, and a fence waits. */
static void test_depth(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ .log_sq = 8 });
	for (unsigned int i = 0; i < 40; i++) {
		w = i & 1 ? flush(&r, 0, 64, OHCA_FLUSH_GLOBAL, OHCA_FLUSH_RANGE) :
			    atomic_write(&r, 8 * i, 8);
		wqe_post(&r.qp[0], &w);
	}
	rig_run(&r);
	for (unsigned int i = 0; i < 40; i++)
		wc(&r.scq[0], 1, WC_SUCCESS);
	no_wc(&r.scq[0]);
	assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
	rig_down(&r);
}

/* The requester's own errors: @status, and no packet leaves. */
static void test_local(void **state)
{
	(void)state;
	for (unsigned int k = 0; k < 5; k++) {
		uint32_t status = k == 0 || k == 1 ? WC_LOC_LEN : WC_LOC_QP_OP;
		struct rig r;
		struct wqe w;
		uint64_t frames;

		rig_up(&r, (struct rig_opt){ .type = k == 4 ? OHCA_QPT_UC : OHCA_QPT_RC });
		frames = r.h[0]->port[0].frames;
		switch (k) {
		case 0:
		case 1:
			w = atomic_write(&r, 0, k ? 4 : 16);
			break;
		case 2:		/* data where none is allowed */
			w = flush(&r, 0, 64, OHCA_FLUSH_GLOBAL, OHCA_FLUSH_RANGE);
			wqe_sge(&w, r.mr[0].iova, 8, r.mr[0].key);
			break;
		case 3:		/* nothing to flush */
			w = wqe_new(OHCA_OP_FLUSH, OHCA_WQE_SIGNALED, 1);
			wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
			break;
		default:
			w = flush(&r, 0, 64, OHCA_FLUSH_GLOBAL, OHCA_FLUSH_RANGE);
			break;
		}
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 1, status);
		assert_int_equal(r.h[0]->port[0].frames, frames);
		rig_down(&r);
	}
}

enum { ALIGN, BOUNDS, BAD_KEY, NO_TYPE, BAD_TYPE, BAD_LEVEL, QP_RIGHT, MR_RIGHT, MR_LEVEL_RIGHT,
       AW_QP_RIGHT, AW_MR_RIGHT, AW_BOUNDS, REFUSALS };

/* Requests that the responder refuses, with which NAK; memory stays as it was. */
static void test_remote(void **state)
{
	(void)state;
	for (unsigned int k = 0; k < REFUSALS; k++) {
		bool access = k == BOUNDS || k == BAD_KEY || k == MR_RIGHT ||
			      k == MR_LEVEL_RIGHT || k == AW_MR_RIGHT || k == AW_BOUNDS;
		struct ohca_hw_qp_attr a;
		struct host_mr mr;
		struct rig r;
		struct wqe w;

		rig_up(&r, (struct rig_opt){ .cold = true, .mtu = 3 });
		a = rig_attr(&r, 0);
		rig_connect(&r, 0, a);
		a = rig_attr(&r, 1);
		if (k == QP_RIGHT)
			a.access &= ~OHCA_ACCESS_FLUSH_PERSISTENT;
		if (k == AW_QP_RIGHT)
			a.access &= ~OHCA_ACCESS_REMOTE_WRITE;
		rig_connect(&r, 1, a);
		host_mr_create(r.h[1], &mr, 8192, r.h[1]->pdn,
			       OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_FLUSH_GLOBAL);
		rig_put64(&r, 0, 0, ~0ull);
		w = wqe_new(k == ALIGN || k >= AW_QP_RIGHT ? OHCA_OP_ATOMIC_WRITE : OHCA_OP_FLUSH,
			    OHCA_WQE_SIGNALED, 1);
		wqe_raddr(&w, k == AW_MR_RIGHT || k == MR_RIGHT ? mr.iova :
			      k == BOUNDS || k == AW_BOUNDS ? r.mr[1].iova + RIG_MR_LEN :
			      r.mr[1].iova + (k == ALIGN ? 4 : 0),
			  k == BAD_KEY ? r.mr[1].key + 1 :
			  k == MR_RIGHT || k == MR_LEVEL_RIGHT || k == AW_MR_RIGHT ? mr.key :
			  r.mr[1].key);
		if (k == ALIGN || k >= AW_QP_RIGHT)
			wqe_sge(&w, r.mr[0].iova, 8, r.mr[0].key);
		else
			wqe_flush(&w, 8, k == NO_TYPE ? 0 : k == BAD_TYPE ? 5 :
				  k == QP_RIGHT || k == MR_RIGHT || k == MR_LEVEL_RIGHT ?
				  OHCA_FLUSH_PERSISTENT : OHCA_FLUSH_GLOBAL,
				  k == BAD_LEVEL ? 2 : k == MR_LEVEL_RIGHT ? OHCA_FLUSH_MR :
				  OHCA_FLUSH_RANGE);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 1, access ? WC_REM_ACCESS : WC_REM_INV_REQ);
		event(r.h[1], access ? OHCA_EVENT_QP_ACCESS_ERR : OHCA_EVENT_QP_REQ_ERR,
		      r.qp[1].handle);
		assert_int_equal(rig_get64(&r, 1, 0), 0);
		assert_int_equal(r.h[1]->persisted, 0);
		host_buf_free(&mr.buf);
		rig_down(&r);
	}
}

/* A driver that has not acknowledged the features gets neither the operations nor the rights. */
static void test_feature(void **state)
{
	static const uint8_t ops[] = { OHCA_OP_FLUSH, OHCA_OP_ATOMIC_WRITE };

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		struct rig r;
		struct wqe w;

		rig_up(&r, (struct rig_opt){ .loop = true });
		r.h[0]->e->features_ack &= ~(1ull << OHCA_FEATURE_MPE);
		w = ops[k] == OHCA_OP_FLUSH ?
		    flush(&r, 0, 8, OHCA_FLUSH_GLOBAL, OHCA_FLUSH_RANGE) : atomic_write(&r, 0, 8);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_LOC_QP_OP);
		rig_down(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packets), cmocka_unit_test(test_persist),
		cmocka_unit_test(test_persist_later), cmocka_unit_test(test_persist_places),
		cmocka_unit_test(test_order), cmocka_unit_test(test_depth),
		cmocka_unit_test(test_local), cmocka_unit_test(test_remote),
		cmocka_unit_test(test_feature),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
