/* SPDX-License-Identifier: GPL-2.0-or-later */
/* RC: every operation, between two engines back to back; XRC: sizes (see test_xrc.c). */
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "ib/packet.h"
#include "rig.h"

static void write_sizes(struct rig_opt opt)
{
	static const uint32_t len[] = { 0, 1, 3, 4, 255, 256, 257, 1023, 1024, 1025, 4096, 4097,
					65536, 65537, 1000003 };
	struct rig r;

	rig_up(&r, opt);
	for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		rig_fill(&r, 0, 7, len[i], i + 1);
		rig_write(&r, 0, i, 7, 13, len[i]);
		rig_run(&r);
		wc(&r.scq[0], i, WC_SUCCESS);
		rig_check(&r, 1, 13, len[i], i + 1);
		rig_fill(&r, 1, 13, len[i], i + 100);
		rig_read(&r, 0, i + 50, 9, 13, len[i]);
		rig_run(&r);
		assert_int_equal(wc(&r.scq[0], i + 50, WC_SUCCESS).opcode, 2);
		rig_check(&r, 0, 9, len[i], i + 100);
		rig_fill(&r, 0, 7, len[i], i + 200);
		rig_recv(&r, 1, 1000 + i, 5, len[i]);
		rig_send(&r, 0, i + 70, 7, len[i]);
		rig_run(&r);
		wc(&r.scq[0], i + 70, WC_SUCCESS);
		assert_int_equal(wc(&r.rcq[1], 1000 + i, WC_SUCCESS).byte_len, len[i]);
		rig_check(&r, 1, 5, len[i], i + 200);
	}
	no_wc(&r.scq[0]);
	no_wc(&r.rcq[1]);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 0);
	rig_down(&r);
}

static void test_sizes(void **state)
{
	(void)state;
	for (uint8_t mtu = 1; mtu <= 5; mtu++)
		write_sizes((struct rig_opt){ .mtu = mtu, .psn = { 0xfffff0, 0xfffffe } });
}


static void test_sizes_xrc(void **state)
{
	(void)state;
	for (uint8_t mtu = 1; mtu <= 5; mtu++)
		write_sizes((struct rig_opt){ .type = OHCA_QPT_XRC_INI, .mtu = mtu,
					      .psn = { 0xfffff0, 0xfffffe } });
	write_sizes((struct rig_opt){ .type = OHCA_QPT_XRC_INI, .loop = true });
}

/* Page lists of scattered pages. */
static void test_memory(void **state)
{
	(void)state;
	write_sizes((struct rig_opt){ .mtu = 5, .scatter = true });
	write_sizes((struct rig_opt){ .mtu = 2, .scatter = true });
}

static void test_immediate(void **state)
{
	struct rig r;
	struct wqe w;
	struct ohca_hw_cqe c;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	for (uint32_t len = 0; len <= 3000; len += 1500) {
		rig_fill(&r, 0, 0, len, len);
		rig_recv(&r, 1, 1, 100, len);
		w = wqe_new(OHCA_OP_SEND_IMM, OHCA_WQE_SIGNALED | OHCA_WQE_SOLICITED, 2);
		wqe_imm(&w, 0xdeadbeef);
		wqe_sge(&w, r.mr[0].iova, len, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		assert_int_equal(wc(&r.scq[0], 2, WC_SUCCESS).opcode, 0);
		c = wc(&r.rcq[1], 1, WC_SUCCESS);
		assert_int_equal(c.opcode, 128);
		assert_int_equal(c.wc_flags, 2);
		assert_int_equal(c.imm, 0xdeadbeef);
		assert_int_equal(c.byte_len, len);
		assert_int_equal(c.qp_num, r.qp[1].handle);
		rig_check(&r, 1, 100, len, len);

		rig_fill(&r, 0, 0, len, len + 1);
		rig_recv(&r, 1, 3, 0, 0);
		w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, OHCA_WQE_SIGNALED, 4);
		wqe_imm(&w, 0x01020304);
		wqe_raddr(&w, r.mr[1].iova + 5000, r.mr[1].key);
		wqe_sge(&w, r.mr[0].iova, len, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		assert_int_equal(wc(&r.scq[0], 4, WC_SUCCESS).opcode, 1);
		c = wc(&r.rcq[1], 3, WC_SUCCESS);
		assert_int_equal(c.opcode, 129);
		assert_int_equal(c.wc_flags, 2);
		assert_int_equal(c.imm, 0x01020304);
		assert_int_equal(c.byte_len, len);
		rig_check(&r, 1, 5000, len, len + 1);
	}
	rig_down(&r);
}

static void test_inline(void **state)
{
	struct rig r;
	uint8_t data[512];

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1, .log_sq = 4 });
	for (uint32_t len = 0; len <= 512; len += len < 20 ? 1 : 41) {
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, len);

		rig_fill(&r, 0, 0, 512, len);
		host_buf_read(r.h[0], &r.mr[0].buf, 0, data, 512);
		wqe_raddr(&w, r.mr[1].iova + 3, r.mr[1].key);
		wqe_inline(&w, data, len);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], len, WC_SUCCESS);
		rig_check(&r, 1, 3, len, len);
	}
	rig_down(&r);
}

/*
 * The MTU cannot change while messages are outstanding; if it did, no byte after a WQE's data would
 * leave.
 */
static void test_mtu_stays(void **state)
{
	uint8_t data[512] = { 1 };
	struct ohca_hw_qp_attr a = { .state = OHCA_QPS_RTS, .path_mtu = 5 };
	struct ohca_hw_cqe c;
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1, .log_sq = 4 });
	r.h[0]->port[0].credits = 1;
	w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);
	wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
	wqe_inline(&w, data, sizeof(data));
	wqe_post(&r.qp[0], &w);
	ohca_poll(r.h[0]->e, 64);
	assert_int_equal(r.h[0]->port[0].frames, 1);
	assert_int_equal(host_qp_modify(&r.qp[0], OHCA_ATTR_STATE | OHCA_ATTR_PATH_MTU, &a),
			 OHCA_ADMIN_BAD_STATE);
	/* as if the change were possible */
	r.h[0]->e->qp[r.qp[0].handle]->path_mtu = 5;
	rig_run(&r);
	c = wc(&r.scq[0], 1, WC_LOC_PROT);
	assert_int_equal(c.vendor_err, OHCA_VE_LENGTH);
	rig_down(&r);
}

/* 30 SGEs on both sides, which share no boundary. */
static void test_sges(void **state)
{
	struct rig r;
	struct wqe w;
	struct ohca_hw_sge s[7];

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	rig_fill(&r, 0, 0, 30 * 101, 1);
	w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 1);
	for (unsigned int i = 0; i < 30; i++)
		wqe_sge(&w, r.mr[0].iova + i * 101, i == 3 ? 0 : 101, r.mr[0].key);
	for (unsigned int i = 0; i < 7; i++)
		s[i] = host_sge(r.mr[1].iova + i * 433, 433, r.mr[1].key);
	host_post_recv(&r.qp[1], 2, s, 7);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(wc(&r.rcq[1], 2, WC_SUCCESS).byte_len, 29 * 101);
	rig_check(&r, 1, 0, 3 * 101, 1);
	rig_down(&r);
}

static void test_atomics(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	rig_put64(&r, 1, 64, 1000);
	rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 1, 8, 64, 0x100000001ull, 0);
	rig_run(&r);
	assert_int_equal(wc(&r.scq[0], 1, WC_SUCCESS).opcode, 4);
	assert_int_equal(rig_get64(&r, 0, 8), 1000);
	assert_int_equal(rig_get64(&r, 1, 64), 0x100000001ull + 1000);
	rig_atomic(&r, 0, OHCA_OP_CMP_SWAP, 2, 16, 64, 77, 5);
	rig_run(&r);
	assert_int_equal(wc(&r.scq[0], 2, WC_SUCCESS).opcode, 3);
	assert_int_equal(rig_get64(&r, 0, 16), 0x100000001ull + 1000);
	assert_int_equal(rig_get64(&r, 1, 64), 0x100000001ull + 1000);
	rig_atomic(&r, 0, OHCA_OP_CMP_SWAP, 3, 24, 64, 77, 0x100000001ull + 1000);
	rig_run(&r);
	assert_int_equal(wc(&r.scq[0], 3, WC_SUCCESS).byte_len, 8);
	assert_int_equal(rig_get64(&r, 1, 64), 77);
	/* many at once: no more than max_rd_atomic outstanding, in order */
	for (unsigned int i = 0; i < 15; i++)
		rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 10 + i, 8 * i, 64, 1, 0);
	rig_run(&r);
	for (unsigned int i = 0; i < 15; i++) {
		wc(&r.scq[0], 10 + i, WC_SUCCESS);
		assert_int_equal(rig_get64(&r, 0, 8 * i), 77 + i);
	}
	rig_down(&r);
}

/* The drivers of both sides have announced big-endian processors. */
static void test_big_endian_atomics(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	for (unsigned int big = 0; big < 4; big++) {
		uint64_t was = 0x1122334455667788ull, add = 0xfful, old, now;

		for (unsigned int i = 0; i < 2; i++)
			r.h[i]->e->features_ack = (r.h[i]->e->features_ack &
						  ~(1ull << OHCA_FEATURE_BIG_ENDIAN)) |
						 (uint64_t)(big >> i & 1) << OHCA_FEATURE_BIG_ENDIAN;
		rig_put64(&r, 1, 64, big & 2 ? __builtin_bswap64(was) : was);
		rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, big, 8, 64, add, 0);
		rig_run(&r);
		wc(&r.scq[0], big, WC_SUCCESS);
		old = rig_get64(&r, 0, 8);
		now = rig_get64(&r, 1, 64);
		assert_int_equal(big & 1 ? __builtin_bswap64(old) : old, was);
		assert_int_equal(big & 2 ? __builtin_bswap64(now) : now, was + add);
	}
	rig_down(&r);
}

/*
 * All kinds of operations, in both directions, more than the windows hold, in order of completion.
 */
static void test_mix(void **state)
{
	struct rig r;
	uint64_t done[2] = { 0 }, recvs[2] = { 0 }, posted[2] = { 0 }, sends[2] = { 0 };
	struct ohca_hw_cqe c;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 2, .log_sq = 8, .psn = { 0xffff00, 0x7fff80 } });
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int k = 0; k < 64; k++)
			rig_recv(&r, i, k, 3u << 20, 4000);
	for (unsigned int round = 0; round < 40; round++) {
		for (unsigned int i = 0; i < 2; i++) {
			for (unsigned int k = 0; k < 20; k++, posted[i]++) {
				switch (posted[i] * 7 % 5) {
				case 0:
					rig_read(&r, i, posted[i], 0, 1 << 20, 3000);
					break;
				case 1:
					rig_send(&r, i, posted[i], 2 << 20, 2500);
					sends[i]++;
					break;
				case 2:
					rig_atomic(&r, i, OHCA_OP_FETCH_ADD, posted[i], 16384,
						   20000, 1, 0);
					break;
				default:
					rig_write(&r, i, posted[i], 2 << 20, 40000, 100 * k);
				}
			}
		}
		host_step(r.h, 2);
		for (unsigned int i = 0; i < 2; i++)
			for (;;) {
				if (host_cq_poll(&r.scq[i], &c)) {
					assert_int_equal(c.status, 0);
					assert_int_equal(c.wr_id, done[i]++);
				} else if (host_cq_poll(&r.rcq[i], &c)) {
					assert_int_equal(c.status, 0);
					recvs[i]++;
					rig_recv(&r, i, 0, 3u << 20, 4000);
				} else if (posted[i] - done[i] > 100) {
					host_step(r.h, 2);
				} else {
					break;
				}
			}
	}
	rig_time(&r, 100);
	for (unsigned int i = 0; i < 2; i++) {
		while (host_cq_poll(&r.scq[i], &c)) {
			assert_int_equal(c.status, 0);
			assert_int_equal(c.wr_id, done[i]++);
		}
		while (host_cq_poll(&r.rcq[i], &c))
			recvs[i]++;
	}
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(done[i], posted[i]);
		assert_int_equal(recvs[1 - i], sends[i]);
		assert_int_equal(rig_get64(&r, i, 20000), posted[1 - i] / 5);
	}
	rig_down(&r);
}

/* A WQE that wraps at the end of the ring, in all positions. */
static void test_wrap(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1, .log_sq = 4 });
	for (unsigned int i = 0; i < 100; i++) {
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, i);
		unsigned int n = 1 + i % 30;

		rig_fill(&r, 0, 0, n * 64, i);
		wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
		for (unsigned int k = 0; k < n; k++)
			wqe_sge(&w, r.mr[0].iova + k * 64, 64, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], i, WC_SUCCESS);
		rig_check(&r, 1, 0, n * 64, i);
	}
	rig_down(&r);
}

static uint32_t sq_ci(struct host_qp *qp)
{
	return ((struct ohca_hw_db *)host_buf_ptr(qp->h, &qp->buf, 0))->sq_ci;
}

/* WQEs without SIGNALED make no CQE; the consumer index reports them. */
static void test_unsignaled(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	for (unsigned int i = 0; i < 200; i++) {
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, i % 10 == 9 ? OHCA_WQE_SIGNALED : 0, i);

		wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
		wqe_sge(&w, r.mr[0].iova, 8, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		if (i % 3 == 0) {
			rig_run(&r);
			assert_int_equal(sq_ci(&r.qp[0]), r.qp[0].sq_pi);
		}
	}
	rig_run(&r);
	for (unsigned int i = 9; i < 200; i += 10)
		wc(&r.scq[0], i, WC_SUCCESS);
	no_wc(&r.scq[0]);
	rig_down(&r);
	/* unless the QP signals everything */
	rig_up(&r, (struct rig_opt){ .signal_all = true });
	for (unsigned int i = 0; i < 3; i++) {
		struct wqe w = wqe_new(OHCA_OP_NOP, 0, i);

		wqe_post(&r.qp[0], &w);
	}
	rig_run(&r);
	for (unsigned int i = 0; i < 3; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	rig_down(&r);
}

/* ---- WQEs that one acknowledgement completes ---- */

static struct {
	const struct ohca_hw_db *db;
	const struct ohca_hw_cqe *first;	/* CQE of the first WQE */
	uint32_t seen, stores;	/* values of sq_ci */
	uint32_t ci_at_cqe;	/* its value when the first CQE was written */
	uint64_t now;
} ack;

static void ack_look(void *h, uint64_t iova, size_t n)
{
	(void)h;
	(void)iova;
	(void)n;
	ack.stores += ack.db->sq_ci != ack.seen;
	ack.seen = ack.db->sq_ci;
	if (ack.first->owner && !ack.ci_at_cqe)
		ack.ci_at_cqe = ack.seen;
}

static uint64_t ack_clock(void *h)
{
	(void)h;
	return ++ack.now;
}

/* Posts @n WRITEs after @before completions that stay in the CQ. */
static void ack_of(struct rig *r, unsigned int n, unsigned int before)
{
	for (unsigned int i = 0; i < before; i++) {
		rig_write(r, 0, i, 0, 0, 8);
		rig_run(r);
	}
	memset(&ack, 0, sizeof(ack));
	ack.db = host_buf_ptr(r->h[0], &r->qp[0].buf, 0);
	ack.seen = ack.db->sq_ci;
	ack.first = host_buf_ptr(r->h[0], &r->scq[0].buf, OHCA_CQ_RING_OFFSET +
				 before * sizeof(struct ohca_hw_cqe));
	assert_false(ack.first->owner);
	r->h[0]->e->ops.dma_dirty = ack_look;
	r->h[0]->e->ops.now_ns = ack_clock;
	for (unsigned int i = 0; i < n; i++)
		rig_write(r, 0, 100 + i, 0, 0, 8);
	rig_run(r);
}

/*
 * Their CQEs have one timestamp, because a clock reading is expensive, and the consumer index is
 * stored once, before the first CQE; but not if the CQ may have no room for them.
 */
static void test_one_ack(void **state)
{
	uint64_t at = 0;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .log_sq = 8 });
	ack_of(&r, 8, 0);
	assert_int_equal(ack.stores, 1);
	assert_int_equal(ack.ci_at_cqe, 8);
	for (unsigned int i = 0; i < 8; i++) {
		const uint64_t t = wc(&r.scq[0], 100 + i, WC_SUCCESS).timestamp;

		assert_true(!i || t == at);
		at = t;
	}
	rig_down(&r);
	rig_up(&r, (struct rig_opt){ .log_sq = 8 });
	ack_of(&r, 3, (1u << r.scq[0].log) - 2);
	assert_int_equal(ack.stores, 3);
	assert_int_equal(ack.ci_at_cqe, (1u << r.scq[0].log) - 1);
	assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_ERR);
	rig_down(&r);
}

/* The driver rings only if the queue was idle. */
static void test_event_index(void **state)
{
	struct rig r;
	unsigned int kicks;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	rig_run(&r);
	kicks = r.h[0]->kicks;
	for (unsigned int i = 0; i < 10; i++)
		rig_write(&r, 0, i, 0, 0, 8);
	assert_int_equal(r.h[0]->kicks, kicks + 1);
	rig_run(&r);
	for (unsigned int i = 0; i < 10; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	for (unsigned int i = 0; i < 5; i++)
		rig_write(&r, 0, i, 0, 0, 8);
	assert_int_equal(r.h[0]->kicks, kicks + 2);
	rig_run(&r);
	for (unsigned int i = 0; i < 5; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	rig_down(&r);
}

/* ---- packets on the wire ---- */

struct tally {
	unsigned int op[256], ackreq;
	uint32_t max_outstanding_reads, reads;
};

static enum host_fate tally(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	struct tally *t = arg;
	struct ib_pkt_info i;

	(void)from;
	(void)port;
	assert_int_equal(ib_pkt_parse(frame, len, &i), IB_PKT_OK);
	t->op[i.opcode]++;
	t->ackreq += i.ackreq;
	if (i.opcode == IB_OP_RC_READ_REQUEST && ++t->reads > t->max_outstanding_reads)
		t->max_outstanding_reads = t->reads;
	return HOST_DELIVER;
}

static enum host_fate tally_resp(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				 uint32_t len)
{
	struct tally *t = arg;
	struct ib_pkt_info i;

	(void)from;
	(void)port;
	assert_int_equal(ib_pkt_parse(frame, len, &i), IB_PKT_OK);
	t->op[i.opcode]++;
	if (i.opcode == IB_OP_RC_READ_RESP_LAST || i.opcode == IB_OP_RC_READ_RESP_ONLY)
		t->reads--;
	return HOST_DELIVER;
}

static void test_wire(void **state)
{
	struct rig r;
	struct tally t = { 0 };

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	host_hook_set(r.h[0], 0, tally, &t);
	host_hook_set(r.h[1], 0, tally_resp, &t);
	rig_write(&r, 0, 1, 0, 0, 256 * 100);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(t.op[IB_OP_RC_WRITE_FIRST], 1);
	assert_int_equal(t.op[IB_OP_RC_WRITE_MIDDLE], 98);
	assert_int_equal(t.op[IB_OP_RC_WRITE_LAST], 1);
	assert_in_range(t.ackreq, 3, 5);
	assert_in_range(t.op[IB_OP_RC_ACK], 1, 5);
	/* ACKs are coalesced: packets that arrive together have one ACK */
	memset(&t, 0, sizeof(t));
	for (unsigned int i = 0; i < 32; i++)
		rig_write(&r, 0, i, 0, 0, 8);
	rig_run(&r);
	for (unsigned int i = 0; i < 32; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	assert_int_equal(t.op[IB_OP_RC_WRITE_ONLY], 32);
	assert_int_equal(t.op[IB_OP_RC_ACK], 1);
	/* max_rd_atomic is 4 */
	memset(&t, 0, sizeof(t));
	for (unsigned int i = 0; i < 12; i++)
		rig_read(&r, 0, i, 0, 0, 1000);
	rig_run(&r);
	for (unsigned int i = 0; i < 12; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	assert_int_equal(t.op[IB_OP_RC_READ_REQUEST], 12);
	assert_int_equal(t.op[IB_OP_RC_READ_RESP_FIRST], 12);
	assert_int_equal(t.op[IB_OP_RC_READ_RESP_MIDDLE], 24);
	assert_int_equal(t.op[IB_OP_RC_READ_RESP_LAST], 12);
	assert_int_equal(t.op[IB_OP_RC_ACK], 0);
	assert_in_range(t.max_outstanding_reads, 2, 4);
	/* a READ response acknowledges the WRITE before it */
	rig_write(&r, 0, 1, 0, 0, 100);
	rig_read(&r, 0, 2, 0, 0, 100);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.scq[0], 2, WC_SUCCESS);
	assert_int_equal(t.op[IB_OP_RC_ACK], 0);
	rig_down(&r);
}

/* A fenced WRITE waits for the READ before it, and sends the data of the READ. */
static void test_fence(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	rig_fill(&r, 1, 0, 8000, 5);
	rig_read(&r, 0, 1, 0, 0, 8000);
	w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED | OHCA_WQE_FENCE, 2);
	wqe_raddr(&w, r.mr[1].iova + 20000, r.mr[1].key);
	wqe_sge(&w, r.mr[0].iova, 8000, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.scq[0], 2, WC_SUCCESS);
	rig_check(&r, 1, 20000, 8000, 5);
	rig_down(&r);
}

/* ---- states ---- */

static void to_state(struct host_qp *qp, uint8_t state, uint32_t mask, bool notify)
{
	struct ohca_hw_qp_attr a = { .state = state, .en_sqd_notify = notify };

	assert_int_equal(host_qp_modify(qp, OHCA_ATTR_STATE | mask, &a), 0);
}

static void test_sqd(void **state)
{
	struct rig r;
	struct ohca_hw_qp_attr a;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	/* idle: drained at once */
	to_state(&r.qp[0], OHCA_QPS_SQD, OHCA_ATTR_EN_SQD_NOTIFY, true);
	rig_run(&r);
	event(r.h[0], OHCA_EVENT_SQ_DRAINED, r.qp[0].handle);
	rig_write(&r, 0, 1, 0, 0, 100);
	rig_time(&r, 100);
	no_wc(&r.scq[0]);
	/* the responder continues */
	rig_write(&r, 1, 9, 0, 0, 100);
	rig_run(&r);
	wc(&r.scq[1], 9, WC_SUCCESS);
	to_state(&r.qp[0], OHCA_QPS_RTS, 0, false);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	/* busy: what has begun ends first */
	host_hook_set(r.h[1], 0, host_drop, NULL);
	rig_write(&r, 0, 2, 0, 0, 100);
	rig_run(&r);
	to_state(&r.qp[0], OHCA_QPS_SQD, OHCA_ATTR_EN_SQD_NOTIFY, true);
	rig_write(&r, 0, 3, 0, 0, 100);
	rig_run(&r);
	no_event(r.h[0]);
	assert_int_equal(host_qp_query(&r.qp[0], &a), 0);
	assert_int_equal(a.sq_draining, 1);
	host_hook_set(r.h[1], 0, NULL, NULL);
	rig_time(&r, 100);
	wc(&r.scq[0], 2, WC_SUCCESS);
	no_wc(&r.scq[0]);
	event(r.h[0], OHCA_EVENT_SQ_DRAINED, r.qp[0].handle);
	assert_int_equal(host_qp_query(&r.qp[0], &a), 0);
	assert_int_equal(a.sq_draining, 0);
	to_state(&r.qp[0], OHCA_QPS_RTS, 0, false);
	rig_run(&r);
	wc(&r.scq[0], 3, WC_SUCCESS);
	rig_down(&r);
}

/* A QP in RTR responds, and raises COMM_EST. */
static void test_comm_est(void **state)
{
	struct rig r;
	struct ohca_hw_qp_attr a = {
		.state = OHCA_QPS_INIT, .port = 1, .access = OHCA_ACCESS_REMOTE_WRITE,
		.path_mtu = 3, .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .av = { .dlid = 1 },
	};

	(void)state;
	rig_up(&r, (struct rig_opt){ .cold = true });
	host_qp_connect(&r.qp[0], 0, 2, r.qp[1].qpn, 3, 0, 0);
	a.dest_qpn = r.qp[0].qpn;
	assert_int_equal(host_qp_modify(&r.qp[1], OHCA_ATTR_STATE | OHCA_ATTR_PORT |
					OHCA_ATTR_ACCESS | OHCA_ATTR_PKEY_INDEX, &a), 0);
	a.state = OHCA_QPS_RTR;
	assert_int_equal(host_qp_modify(&r.qp[1], OHCA_ATTR_STATE | OHCA_ATTR_AV |
					OHCA_ATTR_PATH_MTU | OHCA_ATTR_DEST_QPN | OHCA_ATTR_RQ_PSN |
					OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER, &a),
			 0);
	rig_write(&r, 0, 1, 0, 0, 5000);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	event(r.h[1], OHCA_EVENT_COMM_EST, r.qp[1].handle);
	no_event(r.h[1]);
	rig_down(&r);
}

/* RESET clears everything; the QP can be connected again. */
static void test_reset(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	for (unsigned int round = 0; round < 3; round++) {
		host_hook_set(r.h[1], 0, host_drop, NULL);
		for (unsigned int i = 0; i < 20; i++)
			rig_write(&r, 0, i, 0, 0, 5000);
		rig_read(&r, 1, 1, 0, 0, 5000);
		rig_run(&r);
		host_hook_set(r.h[1], 0, NULL, NULL);
		for (unsigned int i = 0; i < 2; i++)
			to_state(&r.qp[i], OHCA_QPS_RESET, 0, false);
		for (unsigned int i = 0; i < 2; i++)
			host_qp_connect(&r.qp[i], 0, (uint16_t)(2 - i), r.qp[1 - i].qpn, 3,
					round * 1000, round * 1000);
		rig_fill(&r, 0, 0, 5000, round);
		rig_write(&r, 0, 77, 0, 0, 5000);
		rig_time(&r, 100);
		wc(&r.scq[0], 77, WC_SUCCESS);
		no_wc(&r.scq[0]);
		rig_check(&r, 1, 0, 5000, round);
	}
	rig_down(&r);
}

static void test_srq(void **state)
{
	struct rig r;
	struct ohca_hw_cqe c;

	(void)state;
	rig_up(&r, (struct rig_opt){ .srq = true });
	for (unsigned int i = 0; i < 10; i++)
		rig_recv(&r, 1, 100 + i, i * 8192, 8192);
	for (unsigned int i = 0; i < 10; i++) {
		rig_fill(&r, 0, 0, 5000, i);
		rig_send(&r, 0, i, 0, 5000);
		rig_run(&r);
		wc(&r.scq[0], i, WC_SUCCESS);
		c = wc(&r.rcq[1], 100 + i, WC_SUCCESS);
		assert_int_equal(c.flags & OHCA_CQE_SRQ, OHCA_CQE_SRQ);
		rig_check(&r, 1, i * 8192, 5000, i);
	}
	/* WQEs in the SRQ stay when the QP goes to ERR */
	rig_recv(&r, 1, 200, 0, 8192);
	to_state(&r.qp[1], OHCA_QPS_ERR, 0, false);
	rig_run(&r);
	event(r.h[1], OHCA_EVENT_LAST_WQE, r.qp[1].handle);
	no_event(r.h[1]);
	no_wc(&r.rcq[1]);
	rig_down(&r);
}

/* ---- keys that WQEs make and invalidate ---- */

static uint32_t reg_key(struct rig *r, unsigned int i, uint8_t type, uint64_t length)
{
	struct ohca_hw_aqe c = HOST_AQE(reg_mr, .length = length, .pdn = r->h[i]->pdn,
					     .type = type);
	struct ohca_hw_acqe rsp;

	assert_int_equal(host_cmd(r->h[i], OHCA_CMD_REG_MR, &c, &rsp), 0);
	return rsp.handle.handle;
}

static void post_reg(struct rig *r, unsigned int i, uint8_t op, uint64_t wr_id,
		     struct ohca_hw_wqe_reg *reg)
{
	struct wqe w = wqe_new(op, OHCA_WQE_SIGNALED, wr_id);

	memcpy(w.b + 16, reg, sizeof(*reg));
	w.nseg = 4;
	wqe_post(&r->qp[i], &w);
}

static void test_frmr(void **state)
{
	struct rig r;
	struct wqe w;
	struct host_buf b;
	struct ohca_hw_wqe_reg reg;
	uint32_t key;

	(void)state;
	rig_up(&r, (struct rig_opt){ .privileged = true });
	key = reg_key(&r, 1, OHCA_MR_FRMR, 16);
	host_buf_alloc(r.h[1], &b, 16 * HOST_PAGE);
	for (unsigned int round = 0; round < 3; round++) {
		reg = (struct ohca_hw_wqe_reg){
			.key = key, .iova = 0x1000, .length = 50000, .pl = b.pl,
			.access = OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE,
		};
		reg.key = key = (key & ~0xffu) | (uint8_t)(key + 1);
		post_reg(&r, 1, OHCA_OP_REG_MR, 1, &reg);
		rig_run(&r);
		assert_int_equal(wc(&r.scq[1], 1, WC_SUCCESS).opcode, 10);
		w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 2);
		wqe_raddr(&w, 0x1000, key);
		wqe_sge(&w, r.mr[0].iova, 50000, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 2, WC_SUCCESS);
		/* once by the owner, then by the peer */
		if (round == 0) {
			w = wqe_new(OHCA_OP_LOCAL_INV, OHCA_WQE_SIGNALED, 3);
			wqe_inv(&w, key);
			wqe_post(&r.qp[1], &w);
			rig_run(&r);
			assert_int_equal(wc(&r.scq[1], 3, WC_SUCCESS).opcode, 6);
		} else {
			struct ohca_hw_cqe c;

			rig_recv(&r, 1, 4, 0, 100);
			w = wqe_new(OHCA_OP_SEND_INV, OHCA_WQE_SIGNALED, 5);
			wqe_inv(&w, key);
			wqe_sge(&w, r.mr[0].iova, 10, r.mr[0].key);
			wqe_post(&r.qp[0], &w);
			rig_run(&r);
			wc(&r.scq[0], 5, WC_SUCCESS);
			c = wc(&r.rcq[1], 4, WC_SUCCESS);
			assert_int_equal(c.wc_flags, 8);
			assert_int_equal(c.inv_key, key);
		}
	}
	/* after the invalidation no write has an effect */
	w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 6);
	wqe_raddr(&w, 0x1000, key);
	wqe_sge(&w, r.mr[0].iova, 50000, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	wc(&r.scq[0], 6, WC_REM_ACCESS);
	host_buf_free(&b);
	rig_down(&r);
}

static void test_window(void **state)
{
	struct rig r;
	struct wqe w;
	struct ohca_hw_wqe_reg reg = { .access = OHCA_ACCESS_REMOTE_WRITE, .length = 4096 };
	uint32_t key;

	(void)state;
	rig_up(&r, (struct rig_opt){ .privileged = true });
	key = reg_key(&r, 1, OHCA_MR_MW2, 0);
	reg.key = key = (key & ~0xffu) | (uint8_t)(key + 1);
	reg.iova = r.mr[1].iova + 8192;
	reg.mr_key = r.mr[1].key;
	post_reg(&r, 1, OHCA_OP_BIND_MW, 1, &reg);
	rig_run(&r);
	assert_int_equal(wc(&r.scq[1], 1, WC_SUCCESS).opcode, 5);
	rig_fill(&r, 0, 0, 4096, 3);
	w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 2);
	wqe_raddr(&w, reg.iova, key);
	wqe_sge(&w, r.mr[0].iova, 4096, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	rig_check(&r, 1, 8192, 4096, 3);
	/* one byte more than is bound */
	w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 3);
	wqe_raddr(&w, reg.iova + 1, key);
	wqe_sge(&w, r.mr[0].iova, 4096, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	wc(&r.scq[0], 3, WC_REM_ACCESS);
	event(r.h[1], OHCA_EVENT_QP_ACCESS_ERR, r.qp[1].handle);
	rig_down(&r);
}

/* Few credits: everything arrives, and other QPs can send, too. */
static void test_credits(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	r.h[0]->port[0].credits = r.h[1]->port[0].credits = 1;
	rig_fill(&r, 0, 0, 100000, 1);
	rig_fill(&r, 1, 200000, 100000, 2);
	rig_write(&r, 0, 1, 0, 0, 100000);
	rig_read(&r, 0, 2, 200000, 200000, 100000);
	rig_write(&r, 1, 3, 0, 400000, 100000);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.scq[0], 2, WC_SUCCESS);
	wc(&r.scq[1], 3, WC_SUCCESS);
	rig_check(&r, 1, 0, 100000, 1);
	rig_check(&r, 0, 200000, 100000, 2);
	assert_true(r.h[0]->port[0].refused > 0);
	rig_down(&r);
}

/* A full send queue that is longer than the engine's window on it. */
static void test_deep(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .log_sq = 10, .signal_all = true });
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < 1024; i++) {
			rig_put64(&r, 0, 8 * i, i + round);
			rig_write(&r, 0, i, 8 * i, 16 * i, 8);
		}
		rig_run(&r);
		for (unsigned int i = 0; i < 1024; i++) {
			wc(&r.scq[0], i, WC_SUCCESS);
			assert_int_equal(rig_get64(&r, 1, 16 * i), i + round);
		}
	}
	rig_down(&r);
}

/* A READ of more packets than one request covers. */
static void test_large_read(void **state)
{
	struct tally t = { 0 };
	struct host_mr big;
	struct rig r;
	struct wqe w;
	uint32_t len = 18u << 20;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	host_mr_create(r.h[1], &big, len, r.h[1]->pdn, OHCA_ACCESS_REMOTE_READ);
	for (uint32_t off = 0; off < len; off += HOST_PAGE)
		memcpy(host_buf_ptr(r.h[1], &big.buf, off), &off, 4);
	host_hook_set(r.h[0], 0, tally, &t);
	w = wqe_new(OHCA_OP_RDMA_READ, OHCA_WQE_SIGNALED, 1);
	wqe_raddr(&w, big.iova, big.key);
	for (unsigned int i = 0; i < 5; i++)
		wqe_sge(&w, r.mr[0].iova, i < 4 ? 4u << 20 : 2u << 20, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_write(&r, 0, 2, 0, 0, 100);
	rig_run(&r);
	assert_int_equal(wc(&r.scq[0], 1, WC_SUCCESS).byte_len, len);
	wc(&r.scq[0], 2, WC_SUCCESS);
	assert_int_equal(t.op[IB_OP_RC_READ_REQUEST], 2);
	for (uint32_t off = 0; off < 4u << 20; off += HOST_PAGE) {
		uint32_t v, want = off + (off < 2u << 20 ? 16u << 20 : 12u << 20);

		memcpy(&v, host_buf_ptr(r.h[0], &r.mr[0].buf, off), 4);
		assert_int_equal(v, want);
	}
	host_buf_free(&big.buf);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_sizes_xrc),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_immediate),
		cmocka_unit_test(test_inline),
		cmocka_unit_test(test_mtu_stays),
		cmocka_unit_test(test_sges),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_big_endian_atomics),
		cmocka_unit_test(test_mix),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_unsignaled),
		cmocka_unit_test(test_one_ack),
		cmocka_unit_test(test_event_index),
		cmocka_unit_test(test_wire),
		cmocka_unit_test(test_fence),
		cmocka_unit_test(test_sqd),
		cmocka_unit_test(test_comm_est),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_srq),
		cmocka_unit_test(test_frmr),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_credits),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_large_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
