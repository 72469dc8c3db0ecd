/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SRQs with tags: list operations, eager and unexpected messages, rendezvous, and errors of a guest
 * or a peer. Side 0 sends, side 1 has the SRQ; the QP of side 0 receives FINs.
 */
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/tm.h"
#include "ib/packet.h"
#include "rig.h"

#define TAGS	20u
#define TM_ADD	130u	/* enum ibv_wc_opcode */
#define TM_DEL	131u
#define TM_SYNC	132u
#define TM_RECV	133u
#define NO_TAG	134u
#define SYNC_REQ 16u	/* enum ibv_wc_flags */
#define MATCH	32u
#define VALID	64u
#define HDR	32u
#define DATA	65536u	/* offset of the data of a rendezvous on side 0 */

static void up(struct rig *r, bool loop)
{
	rig_up(r, (struct rig_opt){ .tags = TAGS, .loop = loop });
}

static void put_be(uint8_t *p, uint64_t v, unsigned int n)
{
	while (n--) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

static void op(struct rig *r, struct ohca_hw_tm_wqe w)
{
	host_tm_op(&r->srq[1], &w);
	rig_run(r);
}

/* Adds a tag whose buffer is @len bytes at @off of side 1's MR; wr_id 1000 + handle. */
static void add(struct rig *r, uint32_t handle, uint64_t tag, uint64_t mask, uint64_t off,
		uint32_t len)
{
	struct ohca_hw_tm_wqe w = {
		.wr_id = 7, .opcode = OHCA_TM_ADD, .handle = handle, .recv_wr_id = 1000 + handle,
		.tag = tag, .mask = mask, .num_sge = 1,
		.sge = { r->mr[1].iova + off, len, r->mr[1].key },
	};

	op(r, w);
}

static void sync(struct rig *r, uint32_t n)
{
	op(r, (struct ohca_hw_tm_wqe){ .wr_id = 8, .opcode = OHCA_TM_SYNC,
				       .flags = OHCA_TM_COUNT, .unexpected = n });
}

/* Sends a message of @len bytes in all, with a TMH and, for a rendezvous of @rlen bytes, an RVH. */
static void message(struct rig *r, uint8_t tmh, uint64_t tag, uint32_t len, uint32_t rlen,
		    uint32_t rkey)
{
	uint8_t h[HDR] = { tmh };

	put_be(h + 4, 0xabcd, 4);
	put_be(h + 8, tag, 8);
	put_be(h + 16, r->mr[0].iova + DATA, 8);
	put_be(h + 24, rkey, 4);
	put_be(h + 28, rlen, 4);
	host_buf_write(r->h[0], &r->mr[0].buf, 0, h, len < HDR ? len : HDR);
	rig_send(r, 0, 1, 0, len);
}

/* Sends an eager message with @len bytes after its TMH. */
static void eager_data(struct rig *r, uint64_t tag, uint32_t len)
{
	uint8_t h[16] = { OHCA_TMH_EAGER };

	put_be(h + 4, 0xabcd, 4);
	put_be(h + 8, tag, 8);
	rig_fill(r, 0, 16, len, 3);
	host_buf_write(r->h[0], &r->mr[0].buf, 0, h, 16);
	rig_send(r, 0, 1, 0, 16 + len);
	rig_run(r);
}

static void rndv(struct rig *r, uint64_t tag, uint32_t len, uint32_t seed)
{
	rig_fill(r, 0, DATA, len, seed);
	message(r, OHCA_TMH_RNDV, tag, HDR, len, r->mr[0].key);
	rig_run(r);
}

static void srq_recv(struct rig *r, uint64_t wr_id, uint64_t off, uint32_t len)
{
	struct ohca_hw_sge s = host_sge(r->mr[1].iova + off, len, r->mr[1].key);

	host_srq_post(&r->srq[1], wr_id, &s, 1);
}

/* Expects a message as the next CQE of the SRQ. */
static struct ohca_hw_cqe got_(struct rig *r, uint64_t wr_id, uint32_t status, uint32_t flags,
			       const char *file, int line)
{
	struct ohca_hw_cqe c = wc_(&r->rcq[1], wr_id, status, file, line);

	_assert_int_equal(c.opcode, TM_RECV, file, line);
	_assert_int_equal(c.wc_flags, flags, file, line);
	_assert_int_equal(c.wqe_idx, r->srq[1].srqn, file, line);
	/* only the CQE of a match contains the tag */
	if (!(flags & MATCH)) {
		_assert_int_equal(c.tag, 0, file, line);
		_assert_int_equal(c.src_qp, 0, file, line);
	}
	return c;
}
#define got(r, wr_id, status, flags) got_(r, wr_id, status, flags, __FILE__, __LINE__)

static void is_free(const struct ohca_hw_cqe *c, uint32_t handle)
{
	assert_true(c->flags & OHCA_CQE_TAG_FREE);
	assert_int_equal(c->handle[0] | c->handle[1] << 8, handle);
}

static void is_tag(const struct ohca_hw_cqe *c, uint64_t tag)
{
	assert_int_equal(c->tag, tag);
	assert_int_equal(c->src_qp, 0xabcd);
}

static void sent(struct rig *r)
{
	wc(&r->scq[0], 1, WC_SUCCESS);
}

/* Expects the FIN that the rendezvous of @tag is done, at side 0. */
static void fin(struct rig *r, uint64_t wr_id, uint64_t off, uint64_t tag)
{
	struct ohca_hw_cqe c = wc(&r->rcq[0], wr_id, WC_SUCCESS);
	uint8_t h[HDR], want[8];

	assert_int_equal(c.byte_len, HDR);
	host_buf_read(r->h[0], &r->mr[0].buf, off, h, HDR);
	put_be(want, tag, 8);
	assert_int_equal(h[0], OHCA_TMH_FIN);
	assert_memory_equal(h + 8, want, 8);
	put_be(want, r->mr[0].iova + DATA, 8);
	assert_memory_equal(h + 16, want, 8);
}

/* ---- eager ---- */

static void eager_matches(bool loop)
{
	struct ohca_hw_cqe c;
	struct rig r;
	struct wqe w;

	up(&r, loop);
	add(&r, 3, 0x1234, 0xffff, 0, 8192);
	add(&r, 4, 0x5600, 0xff00, 8192, 8192);
	add(&r, 5, 0x5678, 0xffff, 16384, 8192);
	add(&r, 6, 0, 0, 24576, 8192);
	no_wc(&r.rcq[1]);
	/* the first tag of the list that matches by its mask; bits outside the mask are ignored */
	eager_data(&r, 0xabcd0005678ull, 100);
	c = got(&r, 1004, WC_SUCCESS, MATCH | VALID);
	assert_int_equal(c.byte_len, 100);
	assert_int_equal(c.qp_num, r.qp[1].handle);
	assert_int_equal(c.flags, OHCA_CQE_SRQ | OHCA_CQE_TM | OHCA_CQE_TAG_FREE);
	is_tag(&c, 0xabcd0005678ull);
	is_free(&c, 4);
	rig_check(&r, 1, 8192, 100, 3);
	sent(&r);
	/* several packets: two CQEs */
	eager_data(&r, 0x5678, 8192);
	c = got(&r, 1005, WC_SUCCESS, MATCH);
	is_tag(&c, 0x5678);
	assert_int_equal(c.flags, OHCA_CQE_SRQ | OHCA_CQE_TM);
	c = got(&r, 1005, WC_SUCCESS, VALID);
	assert_int_equal(c.byte_len, 8192);
	is_free(&c, 5);
	rig_check(&r, 1, 16384, 8192, 3);
	sent(&r);
	/* only a header, with immediate data; a tag that matches everything */
	w = wqe_new(OHCA_OP_SEND_IMM, OHCA_WQE_SIGNALED, 1);
	wqe_imm(&w, 0x11223344);
	wqe_sge(&w, r.mr[0].iova, 16, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	c = got(&r, 1006, WC_SUCCESS, MATCH | VALID | 2);
	assert_int_equal(c.imm, 0x11223344);
	assert_int_equal(c.byte_len, 0);
	sent(&r);
	no_wc(&r.rcq[1]);
	/* a WRITE with immediate data does not match */
	srq_recv(&r, 9, 0, 64);
	w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, OHCA_WQE_SIGNALED, 1);
	wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
	wqe_sge(&w, r.mr[0].iova, 16, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	c = wc(&r.rcq[1], 9, WC_SUCCESS);
	assert_int_equal(c.opcode, 129);
	sent(&r);
	rig_down(&r);
}

static void test_eager(void **state)
{
	(void)state;
	eager_matches(false);
	eager_matches(true);
}

/* All sizes near those of packets, on a wire that loses packets. */
static enum host_fate lossy(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	unsigned int *n = arg;

	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return ++*n % 5 == 0 ? HOST_DROP : HOST_DELIVER;
}

static void test_loss(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 1007, 1008, 1009, 2032, 2033, 50000 };
	struct ohca_hw_cqe c;
	unsigned int n = 0;
	struct rig r;

	(void)state;
	up(&r, false);
	host_hook_set(r.h[0], 0, lossy, &n);
	host_hook_set(r.h[1], 0, lossy, &n);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint32_t len = sizes[i];

		add(&r, 1, 5, ~0ull, 0, 50000);
		eager_data(&r, 5, len);
		rig_time(&r, 200);
		if (len > 1008)
			got(&r, 1001, WC_SUCCESS, MATCH);
		c = got(&r, 1001, WC_SUCCESS, len > 1008 ? VALID : MATCH | VALID);
		assert_int_equal(c.byte_len, len);
		rig_check(&r, 1, 0, len, 3);
		sent(&r);
		rig_recv(&r, 0, 2, 0, HDR);
		add(&r, 2, 6, ~0ull, 100000, 50000);
		rndv(&r, 6, len, i);
		rig_time(&r, 200);
		got(&r, 1002, WC_SUCCESS, MATCH);
		c = got(&r, 1002, WC_SUCCESS, VALID);
		assert_int_equal(c.byte_len, len);
		rig_check(&r, 1, 100000, len, i);
		fin(&r, 2, 0, 6);
		sent(&r);
	}
	no_wc(&r.rcq[1]);
	host_hook_set(r.h[0], 0, NULL, NULL);
	host_hook_set(r.h[1], 0, NULL, NULL);
	rig_down(&r);
}

/* ---- counts of unexpected messages ---- */

static void test_unexpected(void **state)
{
	struct ohca_hw_cqe c;
	struct rig r;

	(void)state;
	up(&r, false);
	srq_recv(&r, 50, 0, 4096);
	srq_recv(&r, 51, 4096, 4096);
	srq_recv(&r, 52, 8192, 64);
	add(&r, 0, 1, ~0ull, 16384, 4096);
	eager_data(&r, 2, 1500);
	c = got(&r, 50, WC_SUCCESS, 0);
	assert_int_equal(c.byte_len, 1516);
	assert_int_equal(c.tag, 0);
	assert_int_equal(c.flags, OHCA_CQE_SRQ | OHCA_CQE_TM);
	rig_check(&r, 1, 16, 1500, 3);
	/* a tag that is added now does not match yet; the one before does */
	op(&r, (struct ohca_hw_tm_wqe){ .wr_id = 4, .opcode = OHCA_TM_ADD, .handle = 1,
					.flags = OHCA_TM_SIGNALED, .recv_wr_id = 1001,
					.tag = 2, .mask = ~0ull, .num_sge = 1,
					.sge = { r.mr[1].iova + 20480, 4096, r.mr[1].key } });
	c = wc(&r.rcq[1], 4, WC_SUCCESS);
	assert_int_equal(c.opcode, TM_ADD);
	assert_int_equal(c.wc_flags, SYNC_REQ);
	assert_int_equal(c.qp_num, 0);
	eager_data(&r, 2, 10);
	got(&r, 51, WC_SUCCESS, 0);
	eager_data(&r, 1, 10);
	got(&r, 1000, WC_SUCCESS, MATCH | VALID);
	/* a wrong count has no effect; 16 bits count */
	sync(&r, 1);
	eager_data(&r, 2, 10);
	got(&r, 52, WC_SUCCESS, 0);
	op(&r, (struct ohca_hw_tm_wqe){ .wr_id = 5, .opcode = OHCA_TM_SYNC, .unexpected = 3,
					.flags = OHCA_TM_SIGNALED });
	c = wc(&r.rcq[1], 5, WC_SUCCESS);
	assert_int_equal(c.opcode, TM_SYNC);
	assert_int_equal(c.wc_flags, SYNC_REQ);
	op(&r, (struct ohca_hw_tm_wqe){ .wr_id = 6, .opcode = OHCA_TM_SYNC,
					.unexpected = 0x70003,
					.flags = OHCA_TM_SIGNALED | OHCA_TM_COUNT });
	assert_int_equal(wc(&r.rcq[1], 6, WC_SUCCESS).wc_flags, 0);
	eager_data(&r, 2, 10);
	c = got(&r, 1001, WC_SUCCESS, MATCH | VALID);
	is_free(&c, 1);
	/* no WQE is posted: RNR, and the message matches when it is sent again */
	eager_data(&r, 9, 10);
	no_wc(&r.rcq[1]);
	add(&r, 1, 9, ~0ull, 0, 10);
	rig_time(&r, 50);
	got(&r, 1001, WC_SUCCESS, MATCH | VALID);
	/* an unexpected message that cannot be received does not count */
	srq_recv(&r, 53, 0, 4);
	eager_data(&r, 9, 10);
	got(&r, 53, WC_LOC_LEN, 0);
	op(&r, (struct ohca_hw_tm_wqe){ .wr_id = 5, .opcode = OHCA_TM_SYNC,
					.flags = OHCA_TM_SIGNALED });
	assert_int_equal(wc(&r.rcq[1], 5, WC_SUCCESS).wc_flags, 0);
	rig_down(&r);
}

/* Messages without a tag, or without a valid header, are received as they are and do not count. */
static void test_no_tag(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t len;
		bool bad;
	} msg[] = {
		{ OHCA_TMH_NO_TAG, 40, false }, { OHCA_TMH_NO_TAG, 3, false },
		{ OHCA_TMH_NO_TAG, 0, false }, { OHCA_TMH_FIN, HDR, false },
		{ OHCA_TMH_EAGER, 15, true }, { OHCA_TMH_RNDV, 31, true },
		{ OHCA_TMH_RNDV, 65, true }, { OHCA_TMH_RNDV, 3000, true }, { 4, 40, true },
		{ 255, 16, true },
	};
	struct ohca_hw_cqe c;
	uint64_t bad = 0;
	struct rig r;

	(void)state;
	up(&r, false);
	add(&r, 0, 0, 0, 65536, 4096);
	for (unsigned int i = 0; i < sizeof(msg) / sizeof(*msg); i++) {
		uint8_t first = 0;

		srq_recv(&r, i, 0, 4096);
		message(&r, msg[i].op, 0, msg[i].len, 10, r.mr[0].key);
		rig_run(&r);
		c = wc(&r.rcq[1], i, WC_SUCCESS);
		assert_int_equal(c.opcode, NO_TAG);
		assert_int_equal(c.wc_flags, 0);
		assert_int_equal(c.byte_len, msg[i].len);
		bad += msg[i].bad;
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_BAD_TMH), bad);
		host_buf_read(r.h[1], &r.mr[1].buf, 0, &first, 1);
		if (msg[i].len)
			assert_int_equal(first, msg[i].op);
		sent(&r);
	}
	op(&r, (struct ohca_hw_tm_wqe){ .wr_id = 5, .opcode = OHCA_TM_SYNC,
					.flags = OHCA_TM_SIGNALED });
	assert_int_equal(wc(&r.rcq[1], 5, WC_SUCCESS).wc_flags, 0);
	/* the tag is still there */
	eager_data(&r, 77, 10);
	got(&r, 1000, WC_SUCCESS, MATCH | VALID);
	rig_down(&r);
}

/* ---- rendezvous ---- */

static void rendezvous(bool loop)
{
	struct ohca_hw_cqe c;
	struct rig r;

	up(&r, loop);
	rig_recv(&r, 0, 2, 0, HDR);
	add(&r, 1, 0x77, ~0ull, 1u << 20, 2u << 20);
	rndv(&r, 0x77, 1u << 20, 9);
	rig_time(&r, 1);
	c = got(&r, 1001, WC_SUCCESS, MATCH);
	is_tag(&c, 0x77);
	assert_false(c.flags & OHCA_CQE_TAG_FREE);
	c = got(&r, 1001, WC_SUCCESS, VALID);
	is_free(&c, 1);
	assert_int_equal(c.byte_len, 1u << 20);
	rig_check(&r, 1, 1u << 20, 1u << 20, 9);
	fin(&r, 2, 0, 0x77);
	sent(&r);
	no_wc(&r.rcq[1]);
	no_wc(&r.scq[1]);
	no_event(r.h[1]);
	/* more at a time than the window holds; FINs must wait for receives */
	for (unsigned int i = 0; i < TAGS; i++)
		add(&r, i, i, ~0ull, (1u << 20) + i * 8192, 8192);
	for (unsigned int i = 0; i < TAGS; i++)
		rndv(&r, i, 5000, 5);
	rig_time(&r, 5);
	for (unsigned int i = 0; i < TAGS; i++) {
		rig_recv(&r, 0, i, 1000 + i * HDR, HDR);
		rig_time(&r, 50);
		fin(&r, i, 1000 + i * HDR, i);
		rig_check(&r, 1, (1u << 20) + i * 8192, 5000, 5);
	}
	for (unsigned int i = 0; i < 2 * TAGS; i++) {
		assert_true(host_cq_poll(&r.rcq[1], &c));
		assert_int_equal(c.status, 0);
	}
	no_wc(&r.rcq[1]);
	rig_down(&r);
}

static void test_rendezvous(void **state)
{
	(void)state;
	rendezvous(false);
	rendezvous(true);
}

static void test_no_room(void **state)
{
	struct ohca_hw_cqe c;
	uint8_t h[HDR];
	struct rig r;

	(void)state;
	up(&r, false);
	add(&r, 1, 5, ~0ull, 0, 4999);
	add(&r, 2, 5, ~0ull, 8192, 8);
	rndv(&r, 5, 5000, 1);
	c = got(&r, 1001, WC_TM_RNDV_INCOMPLETE, MATCH);
	is_tag(&c, 5);
	is_free(&c, 1);
	assert_int_equal(c.byte_len, HDR);
	host_buf_read(r.h[1], &r.mr[1].buf, 0, h, HDR);
	assert_int_equal(h[0], OHCA_TMH_RNDV);
	assert_int_equal(h[15], 5);
	sent(&r);
	message(&r, OHCA_TMH_RNDV, 5, HDR, 0xffffffff, r.mr[0].key);
	rig_run(&r);
	c = got(&r, 1002, WC_TM_RNDV_INCOMPLETE, MATCH);
	assert_int_equal(c.byte_len, 8);
	sent(&r);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_LOCAL_ERR), 0);
	/* the QP still works */
	add(&r, 1, 5, ~0ull, 0, 100);
	eager_data(&r, 5, 100);
	got(&r, 1001, WC_SUCCESS, MATCH | VALID);
	rig_down(&r);
}

/* ---- errors ---- */

static void again(struct rig *r)
{
	struct ohca_hw_eqe e;

	for (unsigned int i = 0; i < 2; i++)
		rig_modify(&r->qp[i], OHCA_QPS_RESET);
	for (unsigned int i = 0; i < 2; i++)
		host_qp_connect(&r->qp[i], 0, (uint16_t)(2 - i), r->qp[1 - i].qpn, 3, 0, 0);
	for (unsigned int i = 0; i < 2; i++) {
		while (host_eq_poll(r->h[i], &r->h[i]->async, &e))
			;
		host_eq_db(r->h[i], &r->h[i]->async, true);
	}
}

static void test_errors(void **state)
{
	struct ohca_hw_cqe c;
	struct rig r;

	(void)state;
	up(&r, false);
	/* more data than the buffer has room for */
	add(&r, 1, 5, ~0ull, 0, 99);
	eager_data(&r, 5, 100);
	c = got(&r, 1001, WC_LOC_LEN, MATCH);
	is_free(&c, 1);
	wc(&r.scq[0], 1, WC_REM_INV_REQ);
	again(&r);
	/* the same in a later packet */
	add(&r, 1, 5, ~0ull, 0, 3000);
	eager_data(&r, 5, 3001);
	got(&r, 1001, WC_SUCCESS, MATCH);
	c = got(&r, 1001, WC_LOC_LEN, 0);
	is_free(&c, 1);
	wc(&r.scq[0], 1, WC_REM_INV_REQ);
	again(&r);
	/* a bad key of the tag: eager, rendezvous */
	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_hw_tm_wqe w = { .opcode = OHCA_TM_ADD, .handle = 1, .num_sge = 1,
					    .recv_wr_id = 1001,
					    .sge = { r.mr[1].iova, 100, 0x1234500 } };

		op(&r, w);
		if (i) {
			rndv(&r, 5, 100, 1);
			rig_time(&r, 10);
			got(&r, 1001, WC_SUCCESS, MATCH);
			got(&r, 1001, WC_LOC_PROT, 0);
			sent(&r);
		} else {
			eager_data(&r, 5, 100);
			got(&r, 1001, WC_LOC_PROT, MATCH);
			wc(&r.scq[0], 1, WC_REM_OP);
		}
		assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_ERR);
		again(&r);
	}
	/*
	 * the RVH of a peer has a wrong key: two rendezvous, of which the second is flushed. Both
	 * arrive together, because the peer knows that there are no credits
	 */
	srq_recv(&r, 3, 0, 0);
	rig_send(&r, 0, 1, 0, 0);
	rig_run(&r);
	sent(&r);
	assert_int_equal(wc(&r.rcq[1], 3, WC_SUCCESS).opcode, NO_TAG);
	add(&r, 1, 5, ~0ull, 0, 100);
	add(&r, 2, 5, ~0ull, 0, 100);
	message(&r, OHCA_TMH_RNDV, 5, HDR, 100, 0xdead00);
	message(&r, OHCA_TMH_RNDV, 5, HDR, 100, 0xdead00);
	rig_time(&r, 10);
	got(&r, 1001, WC_SUCCESS, MATCH);
	got(&r, 1002, WC_SUCCESS, MATCH);
	c = got(&r, 1001, WC_REM_ACCESS, 0);
	is_free(&c, 1);
	c = got(&r, 1002, WC_WR_FLUSH, 0);
	is_free(&c, 2);
	event(r.h[1], OHCA_EVENT_LAST_WQE, r.qp[1].handle);
	no_event(r.h[1]);
	no_wc(&r.scq[1]);
	while (host_cq_poll(&r.scq[0], &c))
		;
	again(&r);
	/* a peer that never receives the FIN */
	add(&r, 1, 5, ~0ull, 0, 100);
	rig_modify(&r.qp[1], OHCA_QPS_RESET);
	{
		struct ohca_hw_qp_attr a = rig_attr(&r, 1);

		a.rnr_retry = 1;
		rig_connect(&r, 1, a);
	}
	rndv(&r, 5, 100, 1);
	rig_time(&r, 500);
	got(&r, 1001, WC_SUCCESS, MATCH);
	got(&r, 1001, WC_SUCCESS, VALID);
	no_wc(&r.rcq[1]);
	event(r.h[1], OHCA_EVENT_QP_FATAL, r.qp[1].handle);
	event(r.h[1], OHCA_EVENT_LAST_WQE, r.qp[1].handle);
	rig_down(&r);
}

static enum host_fate first_only(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				 uint32_t len)
{
	unsigned int *n = arg;

	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return (*n)++ ? HOST_DROP : HOST_DELIVER;
}

/* Tags in use are returned when the QP is reset or destroyed, or goes to ERR. */
static void test_give_back(void **state)
{
	struct ohca_hw_qp_attr a;
	struct ohca_hw_cqe c;
	struct rig r;

	(void)state;
	up(&r, false);
	for (unsigned int i = 0; i < 3; i++) {
		add(&r, 1, 5, ~0ull, 0, 100);
		add(&r, 2, 6, ~0ull, 0, 50000);
		/* in RTR a QP receives, and sends nothing */
		rig_modify(&r.qp[1], OHCA_QPS_RESET);
		a = rig_attr(&r, 1);
		a.state = OHCA_QPS_INIT;
		host_qp_modify(&r.qp[1], OHCA_ATTR_STATE | OHCA_ATTR_PKEY_INDEX |
			       OHCA_ATTR_PORT | OHCA_ATTR_ACCESS, &a);
		a.state = OHCA_QPS_RTR;
		host_qp_modify(&r.qp[1], OHCA_ATTR_STATE | OHCA_ATTR_AV | OHCA_ATTR_PATH_MTU |
			       OHCA_ATTR_DEST_QPN | OHCA_ATTR_RQ_PSN |
			       OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER, &a);
		rndv(&r, 5, 100, 1);
		got(&r, 1001, WC_SUCCESS, MATCH);
		sent(&r);
		/* and half of an eager message */
		{
			unsigned int n = 0;

			host_hook_set(r.h[0], 0, first_only, &n);
			eager_data(&r, 6, 3000);
			host_hook_set(r.h[0], 0, NULL, NULL);
		}
		got(&r, 1002, WC_SUCCESS, MATCH);
		no_wc(&r.rcq[1]);
		if (i == 0)
			rig_modify(&r.qp[1], OHCA_QPS_RESET);
		else if (i == 1)
			rig_modify(&r.qp[1], OHCA_QPS_ERR);
		else
			host_qp_destroy(&r.qp[1]);
		rig_run(&r);
		c = got(&r, 1002, WC_WR_FLUSH, 0);
		is_free(&c, 2);
		c = got(&r, 1001, WC_WR_FLUSH, 0);
		is_free(&c, 1);
		no_wc(&r.rcq[1]);
		if (i < 2) {
			again(&r);
			while (host_cq_poll(&r.scq[0], &c))
				;
		}
	}
	/* for rig_down() */
	assert_int_equal(host_qp_create(r.h[1], &r.qp[1], &(struct host_qp_init){
		.scq = &r.scq[1], .rcq = &r.rcq[1], .srq = &r.srq[1], .no_sq = true }), 0);
	rig_down(&r);
}

/*
 * Half of an eager message uses a tag when its QP is reset or destroyed, and the CQ has no room for
 * the flushed tag. That is an error of the CQ and not of the QP, whose command succeeds.
 */
static void test_give_back_full(void **state)
{
	struct host_cq cq;
	struct rig r;

	(void)state;
	up(&r, false);
	for (unsigned int i = 0; i < 2; i++) {
		struct host_srq roomy = r.srq[1];
		struct host_qp_init in = { .scq = &r.scq[1], .rcq = &cq, .srq = &r.srq[1],
					   .no_sq = true };
		unsigned int n = 0;

		host_qp_destroy(&r.qp[1]);
		host_cq_create(r.h[1], &cq, 0, 0);
		assert_int_equal(host_tm_srq_create(r.h[1], &r.srq[1], 6, r.h[1]->pdn, TAGS, 4,
						    &cq), 0);
		assert_int_equal(host_qp_create(r.h[1], &r.qp[1], &in), 0);
		again(&r);
		add(&r, 2, 6, ~0ull, 0, 50000);
		host_hook_set(r.h[0], 0, first_only, &n);
		eager_data(&r, 6, 3000);
		host_hook_set(r.h[0], 0, NULL, NULL);
		/* the only CQE reports the match, and the test does not read it */
		no_event(r.h[1]);
		assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RTS);
		if (i == 0) {
			rig_modify(&r.qp[1], OHCA_QPS_RESET);
			assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_RESET);
		} else {
			host_qp_destroy(&r.qp[1]);
		}
		rig_run(&r);
		event(r.h[1], OHCA_EVENT_CQ_ERR, cq.cqn);
		no_event(r.h[1]);
		if (i == 0)
			host_qp_destroy(&r.qp[1]);
		host_cmd_handle(r.h[1], OHCA_CMD_DESTROY_SRQ, r.srq[1].srqn, 0);
		host_buf_free(&r.srq[1].buf);
		host_cq_destroy(&cq);
		r.srq[1] = roomy;
		/* for the next round, and rig_down() */
		in.rcq = &r.rcq[1];
		assert_int_equal(host_qp_create(r.h[1], &r.qp[1], &in), 0);
	}
	rig_down(&r);
}

/* ---- list operations ---- */

static void test_ops(void **state)
{
	struct ohca_hw_tm_wqe w = { .wr_id = 9, .opcode = OHCA_TM_DEL, .handle = 1 }, bad;
	struct ohca_hw_db *db;
	struct ohca_hw_cqe c;
	struct rig r;

	(void)state;
	up(&r, false);
	add(&r, 1, 5, ~0ull, 0, 100);
	assert_int_equal(host_tm_result(&r.srq[1], 0), OHCA_TM_DONE);
	op(&r, w);
	assert_int_equal(host_tm_result(&r.srq[1], 0), OHCA_TM_DONE);
	no_wc(&r.rcq[1]);
	/* again: the tag is not there */
	op(&r, w);
	assert_int_equal(host_tm_result(&r.srq[1], 0), OHCA_TM_FAILED);
	no_wc(&r.rcq[1]);
	w.flags = OHCA_TM_SIGNALED;
	op(&r, w);
	c = wc(&r.rcq[1], 9, WC_TM_ERR);
	assert_int_equal(c.opcode, TM_DEL);
	assert_int_equal(c.vendor_err, OHCA_VE_TAG);
	add(&r, 1, 5, ~0ull, 0, 100);
	op(&r, w);
	assert_int_equal(wc(&r.rcq[1], 9, WC_SUCCESS).opcode, TM_DEL);
	/* twice the same */
	add(&r, 1, 5, ~0ull, 0, 100);
	add(&r, 1, 6, ~0ull, 0, 100);
	c = wc(&r.rcq[1], 7, WC_TM_ERR);
	assert_int_equal(c.opcode, TM_ADD);
	assert_int_equal(host_tm_result(&r.srq[1], 0), OHCA_TM_FAILED);
	/* malformed ones make a CQE, signaled or not */
#define BAD(field, value)							\
	bad = (struct ohca_hw_tm_wqe){ .wr_id = 3, .opcode = OHCA_TM_ADD, .handle = 2 };	\
	bad.field = (value);							\
	op(&r, bad);								\
	wc(&r.rcq[1], 3, WC_TM_ERR);						\
	assert_int_equal(host_tm_result(&r.srq[1], 0), OHCA_TM_FAILED)
	BAD(opcode, 3);
	BAD(opcode, 255);
	BAD(opcode, OHCA_TM_SYNC);
	BAD(flags, 4);
	BAD(num_sge, 2);
	BAD(reserved, 1);
	BAD(handle, TAGS);
	BAD(handle, 0xffffffff);
	BAD(result, 1);
	bad = (struct ohca_hw_tm_wqe){ .wr_id = 3, .num_sge = 1, .sge.length = 0x80000001 };
	op(&r, bad);
	wc(&r.rcq[1], 3, WC_TM_ERR);
	bad = (struct ohca_hw_tm_wqe){ .wr_id = 3, .opcode = OHCA_TM_DEL, .num_sge = 1 };
	op(&r, bad);
	wc(&r.rcq[1], 3, WC_TM_ERR);
	/* the list has not changed */
	eager_data(&r, 5, 10);
	got(&r, 1001, WC_SUCCESS, MATCH | VALID);
	/* the ring wraps */
	for (unsigned int i = 0; i < 40; i++) {
		add(&r, i % TAGS, i, ~0ull, 0, 100);
		op(&r, (struct ohca_hw_tm_wqe){ .opcode = OHCA_TM_DEL, .handle = i % TAGS });
		assert_int_equal(host_tm_result(&r.srq[1], 0), OHCA_TM_DONE);
	}
	/* more posted than the ring holds */
	db = host_buf_ptr(r.h[1], &r.srq[1].buf, 0);
	db->sq_pi += 17;
	ohca_doorbell(r.h[1]->e, 0, OHCA_UAR_SRQ, r.srq[1].srqn, 8);
	rig_run(&r);
	event(r.h[1], OHCA_EVENT_SRQ_ERR, r.srq[1].srqn);
	no_event(r.h[1]);
	/* nothing of the SRQ works any more, and there is no second event */
	ohca_doorbell(r.h[1]->e, 0, OHCA_UAR_SRQ, r.srq[1].srqn, 8);
	rig_run(&r);
	no_event(r.h[1]);
	rig_down(&r);
}

/* A full CQ is an error of the SRQ, or of the QP. */
static void test_cq_full(void **state)
{
	struct host_srq srq;
	struct host_cq cq;
	struct rig r;

	(void)state;
	up(&r, false);
	host_cq_create(r.h[1], &cq, 0, 0);
	assert_int_equal(host_tm_srq_create(r.h[1], &srq, 2, r.h[1]->pdn, 4, 2, &cq), 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_hw_tm_wqe w = { .opcode = OHCA_TM_SYNC, .flags = OHCA_TM_SIGNALED };

		host_tm_op(&srq, &w);
	}
	rig_run(&r);
	event(r.h[1], OHCA_EVENT_CQ_ERR, cq.cqn);
	event(r.h[1], OHCA_EVENT_SRQ_ERR, srq.srqn);
	no_event(r.h[1]);
	assert_int_equal(host_cmd_handle(r.h[1], OHCA_CMD_DESTROY_CQ, cq.cqn, 0),
			 OHCA_ADMIN_BUSY);
	assert_int_equal(host_cmd_handle(r.h[1], OHCA_CMD_DESTROY_SRQ, srq.srqn, 0), 0);
	host_buf_free(&srq.buf);
	host_cq_destroy(&cq);
	rig_down(&r);
}

/* The limit for the difference between the counts of unexpected messages. */
static void test_far_behind(void **state)
{
	static const struct {
		uint16_t seen, told;
		bool far;
	} t[] = {
		{ 0, 0, false }, { 0x3fff, 0, false }, { 0x4000, 0, true }, { 0xffff, 0, true },
		{ 0x3ffe, 0xffff, false }, { 0x3fff, 0xffff, true }, { 5, 6, true },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct ohca_tm tm = { .seen = t[i].seen, .told = t[i].told };

		assert_int_equal(ohca_tm_far_behind(&tm), t[i].far);
	}
}

/*
 * Memory that the device writes for an operation is missing: its result, the index after it, its
 * request for a doorbell.
 */
static void test_unwritable(void **state)
{
	for (unsigned int i = 0; i < 3; i++) {
		const struct ohca_hw_tm_wqe w = { .wr_id = 9, .opcode = OHCA_TM_SYNC,
						  .flags = OHCA_TM_SIGNALED };
		struct host_srq *srq;
		uint64_t off[3];
		struct rig r;

		(void)state;
		up(&r, false);
		srq = &r.srq[1];
		op(&r, w);
		wc(&r.rcq[1], 9, WC_SUCCESS);
		off[0] = ohca_tm_ring_offset(srq->log, srq->log_stride) + (1u << OHCA_TM_WQE_SHIFT) +
			 offsetof(struct ohca_hw_tm_wqe, result);
		off[1] = OHCA_DB_OFFSET + offsetof(struct ohca_hw_db, sq_ci);
		off[2] = OHCA_DB_OFFSET + offsetof(struct ohca_hw_db, sq_event);
		r.h[1]->fixed = srq->buf.page[off[i] / HOST_PAGE] + off[i] % HOST_PAGE;
		r.h[1]->fixed_len = 4;
		op(&r, w);
		event(r.h[1], OHCA_EVENT_SRQ_ERR, srq->srqn);
		no_event(r.h[1]);
		/* no CQE for an operation whose result could not be written */
		if (i == 2)
			wc(&r.rcq[1], 9, WC_SUCCESS);
		no_wc(&r.rcq[1]);
		r.h[1]->fixed_len = 0;
		op(&r, w);
		no_wc(&r.rcq[1]);
		no_event(r.h[1]);
		rig_down(&r);
	}
}

static void test_create(void **state)
{
	struct host_qp_init in = { .no_sq = true };
	struct host_srq srq, many[70];
	struct ohca_hw_aqe c;
	unsigned int n = 0;
	struct host_qp qp;
	struct rig r;

	(void)state;
	up(&r, false);
	in.scq = in.rcq = &r.scq[1];
	in.srq = &r.srq[1];
	/* RC only, and no send queue */
	in.type = OHCA_QPT_UC;
	assert_int_equal(host_qp_create(r.h[1], &qp, &in), OHCA_ADMIN_BAD_PARAM);
	in.type = OHCA_QPT_UD;
	assert_int_equal(host_qp_create(r.h[1], &qp, &in), OHCA_ADMIN_BAD_PARAM);
	in.type = OHCA_QPT_RC;
	in.no_sq = false;
	assert_int_equal(host_qp_create(r.h[1], &qp, &in), OHCA_ADMIN_BAD_PARAM);
	/* tags, ring and CQ */
	c = HOST_AQE(create_srq, .pdn = r.h[1]->pdn, .log_size = 2, .log_stride = 6,
		     .type = OHCA_SRQT_TM, .cqn = r.rcq[1].cqn, .num_tags = 1);
	c.create_srq.pl.root = host_pages(r.h[1], 1);
	c.create_srq.pl.npages = 1;
	c.create_srq.pl.page_shift = 12;
#define REFUSED(field, value)							\
	do {									\
		struct ohca_hw_aqe bad = c;					\
		bad.create_srq.field = (value);					\
		assert_int_equal(host_cmd(r.h[1], OHCA_CMD_CREATE_SRQ, &bad, NULL),	\
				 OHCA_ADMIN_BAD_PARAM);				\
	} while (0)
	REFUSED(num_tags, 0);
	REFUSED(num_tags, OHCA_MAX_TAGS + 1);
	REFUSED(log_ops, 13);
	REFUSED(log_ops, 6);	/* more than the page */
	REFUSED(cqn, 0x12345);
	REFUSED(xrcdn, 1);
	REFUSED(reserved, 1);
	/* the total number of tags is bounded */
	assert_int_equal(host_tm_srq_create(r.h[1], &srq, 2, r.h[1]->pdn, OHCA_MAX_TAGS, 2,
					    &r.rcq[1]), 0);
	r.h[1]->e->num_tags += OHCA_MAX_ALL_TAGS - OHCA_MAX_TAGS - 3 * TAGS;
	while (n < 70 && host_tm_srq_create(r.h[1], &many[n], 2, r.h[1]->pdn, TAGS, 2,
					    &r.rcq[1]) == 0)
		n++;
	assert_int_equal(n, 2);
	r.h[1]->e->num_tags -= OHCA_MAX_ALL_TAGS - OHCA_MAX_TAGS - 3 * TAGS;
	while (n--) {
		host_cmd_handle(r.h[1], OHCA_CMD_DESTROY_SRQ, many[n].srqn, 0);
		host_buf_free(&many[n].buf);
	}
	host_cmd_handle(r.h[1], OHCA_CMD_DESTROY_SRQ, srq.srqn, 0);
	host_buf_free(&srq.buf);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eager), cmocka_unit_test(test_loss),
		cmocka_unit_test(test_unexpected), cmocka_unit_test(test_no_tag),
		cmocka_unit_test(test_rendezvous), cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_errors), cmocka_unit_test(test_give_back),
		cmocka_unit_test(test_give_back_full),
		cmocka_unit_test(test_ops), cmocka_unit_test(test_cq_full),
		cmocka_unit_test(test_unwritable), cmocka_unit_test(test_create),
		cmocka_unit_test(test_far_behind),
	};

	return cmocka_run_group_tests_name("tag matching", tests, NULL, NULL);
}
