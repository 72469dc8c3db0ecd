// SPDX-License-Identifier: GPL-2.0-or-later
/* Polling: owner bits, fields, both interfaces, cleaning, arming, resizing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "fake.h"

struct env {
	struct ibv_context *ctx;
	struct ibv_cq_ex *ex;
	struct ibv_cq *ibcq;
	struct ohca_cq *cq;
	uint32_t pi;		/* the producer index of the device */
};

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 7,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};

	e->ctx = fake_open();
	e->ex = ops.create_cq_ex(e->ctx, &attr);
	e->ibcq = ibv_cq_ex_to_cq(e->ex);
	e->cq = to_ocq(e->ibcq);
	*state = e;
	return !e->ex || e->ibcq->cqe != 8;
}

static int teardown(void **state)
{
	struct env *e = *state;

	ops.destroy_cq(e->ibcq);
	fake_close(e->ctx);
	free(e);
	fake.on_resize = NULL;
	return fake.bufs || fake.opens;
}

static uint32_t db_ci(struct env *e)
{
	return le32toh(e->cq->db->cq_ci);
}

/* Empty, partly filled, full, past the end of the ring and past 2^32. */
static void poll_order(void **state)
{
	struct env *e = *state;
	struct ibv_wc wc[9];
	uint32_t start = 0u - 24, n, i, round;
	uint64_t got = 0;

	/* a free running index just before 2^32; a multiple of 2 * size, so that no CQE is valid */
	start &= ~15u;
	atomic_store(&e->cq->ci, start);
	e->pi = start;
	assert_int_equal(ops.poll_cq(e->ibcq, 9, wc), 0);
	assert_int_equal(ops.poll_cq(e->ibcq, 0, wc), 0);
	assert_int_equal(ops.poll_cq(e->ibcq, -1, wc), 0);
	assert_int_equal(db_ci(e), 0);
	for (round = 0; round < 40; round++) {
		n = round % 9;
		for (i = 0; i < n; i++) {
			fake_complete(e->cq, e->pi, e->pi - start, 5);
			e->pi++;
		}
		/* fewer than there are */
		i = ops.poll_cq(e->ibcq, n / 2, wc);
		assert_int_equal(i, n / 2);
		if (i)
			assert_int_equal(db_ci(e), e->pi - n + i);
		i += ops.poll_cq(e->ibcq, 9, wc + i);
		assert_int_equal(i, n);
		for (i = 0; i < n; i++)
			assert_int_equal(wc[i].wr_id, got++);
		if (n)
			assert_int_equal(db_ci(e), e->pi);
	}
	assert_true(e->pi < start);
}

static void fill(struct ohca_hw_cqe *c)
{
	c->wr_id = htole64(0x1122334455667788);
	c->status = htole32(IBV_WC_REM_ACCESS_ERR);
	c->opcode = htole32(IBV_WC_RECV_RDMA_WITH_IMM);
	c->vendor_err = htole32(0x33);
	c->byte_len = htole32(4096);
	c->imm = htobe32(0x01020304);
	c->qp_num = htole32(0x123456);
	c->src_qp = htole32(0x654321);
	c->wc_flags = htole32(IBV_WC_GRH | IBV_WC_WITH_IMM);
	c->pkey_index = htole16(0x7f);
	c->slid = htole16(0xbeef);
	c->sl = 9;
	c->dlid_path_bits = 3;
}

static void fields(void **state)
{
	struct env *e = *state;
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc;

	fake_complete(e->cq, 0, 0, 0);
	fill(fake_cqe(e->cq, 0));
	assert_int_equal(ops.poll_cq(e->ibcq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 0x1122334455667788);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.vendor_err, 0x33);
	assert_int_equal(wc.byte_len, 4096);
	assert_int_equal(be32toh(wc.imm_data), 0x01020304);
	assert_int_equal(wc.qp_num, 0x123456);
	assert_int_equal(wc.src_qp, 0x654321);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.pkey_index, 0x7f);
	assert_int_equal(wc.slid, 0xbeef);
	assert_int_equal(wc.sl, 9);
	assert_int_equal(wc.dlid_path_bits, 3);

	fake_complete(e->cq, 1, 0, 0);
	fill(fake_cqe(e->cq, 1));
	fake_complete(e->cq, 2, 77, 0);
	fake_cqe(e->cq, 2)->inv_key = htole32(0x4400);
	fake_cqe(e->cq, 2)->wc_flags = htole32(IBV_WC_WITH_INV);
	assert_int_equal(e->ex->start_poll(e->ex, &attr), 0);
	assert_int_equal(e->ex->wr_id, 0x1122334455667788);
	assert_int_equal(e->ex->status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(e->ex->read_opcode(e->ex), IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(e->ex->read_vendor_err(e->ex), 0x33);
	assert_int_equal(e->ex->read_byte_len(e->ex), 4096);
	assert_int_equal(be32toh(e->ex->read_imm_data(e->ex)), 0x01020304);
	assert_int_equal(e->ex->read_qp_num(e->ex), 0x123456);
	assert_int_equal(e->ex->read_src_qp(e->ex), 0x654321);
	assert_int_equal(e->ex->read_wc_flags(e->ex), IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(e->ex->read_slid(e->ex), 0xbeef);
	assert_int_equal(e->ex->read_sl(e->ex), 9);
	assert_int_equal(e->ex->read_dlid_path_bits(e->ex), 3);
	assert_int_equal(e->ex->read_completion_ts(e->ex), 1001);
	/* no entry is returned to the device while it may be read */
	assert_int_equal(db_ci(e), 1);
	assert_int_equal(e->ex->next_poll(e->ex), 0);
	assert_int_equal(e->ex->wr_id, 77);
	assert_int_equal(ibv_wc_read_invalidated_rkey(e->ex), 0x4400);
	assert_int_equal(e->ex->next_poll(e->ex), ENOENT);
	assert_int_equal(db_ci(e), 1);
	e->ex->end_poll(e->ex);
	assert_int_equal(db_ci(e), 3);
	/* empty: nothing has begun that must end, and the lock is free */
	assert_int_equal(e->ex->start_poll(e->ex, &attr), ENOENT);
	assert_int_equal(ops.poll_cq(e->ibcq, 1, &wc), 0);
	attr.comp_mask = 1;
	assert_int_equal(e->ex->start_poll(e->ex, &attr), EINVAL);
}

/* Every pattern of the CQEs of two QPs, at every fill level of the ring, from every position. */
static void clean(void **state)
{
	struct env *e = *state;
	uint32_t n, pattern, i;
	struct ibv_wc wc[9];

	for (n = 0; n <= 8; n++) {
		for (pattern = 0; pattern < 1u << n; pattern++) {
			uint32_t left = 0, polled;

			for (i = 0; i < n; i++)
				fake_complete(e->cq, e->pi + i, i, pattern >> i & 1 ? 7 : 9);
			ohca_cq_clean(e->cq, 7);
			/* the device continues where it was */
			polled = ops.poll_cq(e->ibcq, 9, wc);
			for (i = 0; i < n; i++) {
				if (pattern >> i & 1)
					continue;
				assert_true(left < polled);
				assert_int_equal(wc[left].wr_id, i);
				assert_int_equal(wc[left].qp_num, 9);
				left++;
			}
			assert_int_equal(left, polled);
			e->pi += n;
			if (n)
				assert_int_equal(db_ci(e), e->pi);
			fake_complete(e->cq, e->pi++, 1234, 9);
			assert_int_equal(ops.poll_cq(e->ibcq, 9, wc), 1);
			assert_int_equal(wc[0].wr_id, 1234);
		}
	}
}

static void arm(void **state)
{
	struct env *e = *state;
	uint64_t cqn = e->cq->cqn;
	struct ibv_wc wc[3];
	int i;

	assert_int_equal(ops.req_notify_cq(e->ibcq, 0), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_CQ_ARM), cqn);
	for (i = 0; i < 3; i++)
		fake_complete(e->cq, i, i, 1);
	assert_int_equal(ops.poll_cq(e->ibcq, 3, wc), 3);
	assert_int_equal(ops.req_notify_cq(e->ibcq, 1), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_CQ_ARM), cqn | 1 << 24 | 3ull << 32);
	/* the sequence number counts events, modulo 4 */
	for (i = 1; i <= 5; i++) {
		ops.cq_event(e->ibcq);
		assert_int_equal(ops.req_notify_cq(e->ibcq, 0), 0);
		assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_CQ_ARM),
				 cqn | (i & 3ull) << 25 | 3ull << 32);
	}
	/* if CQEs are left that nobody polled, the armed CQ fires for them */
	for (i = 3; i < 6; i++)
		fake_complete(e->cq, i, i, 1);
	ops.req_notify_cq(e->ibcq, 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_CQ_ARM), cqn | 1 << 25 | 3ull << 32);
	/* only 24 bits of the consumer index are written, without effect on other fields */
	atomic_store(&e->cq->ci, 0xab123456);
	ops.req_notify_cq(e->ibcq, 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_CQ_ARM),
			 cqn | 1 << 25 | 0x123456ull << 32);
}

static struct env *resizing;
static uint32_t pending_at_resize;

/* The device's part: CQEs keep their free running index. */
static void device_resize(const struct ohca_resize_cq_req *req)
{
	struct ohca_hw_cqe *to = (void *)((uintptr_t)req->buf_addr + OHCA_CQ_RING_OFFSET);
	uint32_t mask = (1u << req->log_size) - 1, i;

	assert_int_equal(((struct ohca_hw_db *)(uintptr_t)req->buf_addr)->cq_ci, htole32(req->ci));
	pending_at_resize = resizing->pi - req->ci;
	for (i = req->ci; i != resizing->pi; i++) {
		to[i & mask] = *fake_cqe(resizing->cq, i);
		to[i & mask].owner = !(i >> req->log_size & 1);
	}
}

static void resize(void **state)
{
	static const int sizes[] = { 16, 5, 100, 8, 6, 1000, 7 };
	struct env *e = *state;
	struct ibv_wc wc[8];
	uint64_t id = 0, got = 0;
	unsigned int s, i;
	int n;

	resizing = e;
	fake.on_resize = device_resize;
	for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (i = 0; i < 6; i++)
			fake_complete(e->cq, e->pi++, id++, 1);
		n = ops.poll_cq(e->ibcq, 3, wc);
		for (i = 0; i < n; i++)
			assert_int_equal(wc[i].wr_id, got++);
		assert_int_equal(ops.resize_cq(e->ibcq, sizes[s]), 0);
		assert_int_equal(pending_at_resize, 3);
		assert_true(e->ibcq->cqe >= sizes[s]);
		assert_int_equal(fake.resize_req.ci, e->pi - 3);
		for (i = 0; i < 2; i++)
			fake_complete(e->cq, e->pi++, id++, 1);
		n = ops.poll_cq(e->ibcq, 8, wc);
		assert_int_equal(n, 5);
		for (i = 0; i < n; i++)
			assert_int_equal(wc[i].wr_id, got++);
		assert_int_equal(fake.bufs, 1);
	}

	/*
	 * too small for the CQEs in it, refused by the kernel, out of range: the CQ does not change
	 */
	for (i = 0; i < 3; i++)
		fake_complete(e->cq, e->pi++, id++, 1);
	assert_int_equal(ops.resize_cq(e->ibcq, 2), EINVAL);
	fake.fail = 0;
	assert_int_equal(ops.resize_cq(e->ibcq, 0), EINVAL);
	assert_int_equal(ops.resize_cq(e->ibcq, -5), EINVAL);
	assert_int_equal(ops.resize_cq(e->ibcq, (1 << 20) + 1), EINVAL);
	assert_int_equal(fake.bufs, 1);
	n = ops.poll_cq(e->ibcq, 8, wc);
	assert_int_equal(n, 3);
	for (i = 0; i < 3; i++)
		assert_int_equal(wc[i].wr_id, got++);

	/* exactly the room that the CQEs need */
	for (i = 0; i < 4; i++)
		fake_complete(e->cq, e->pi++, id++, 1);
	assert_int_equal(ops.resize_cq(e->ibcq, 4), 0);
	assert_int_equal(e->ibcq->cqe, 4);
	n = ops.poll_cq(e->ibcq, 8, wc);
	assert_int_equal(n, 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(wc[i].wr_id, got++);
}

static uint64_t day_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* A timestamp as time of day: the time at which the device's clock had its value. */
static void wall_clock(void **state)
{
	struct env *e = *state;
	struct ibv_poll_cq_attr attr = {};
	uint64_t before, after, first, at;

	for (uint32_t i = 0; i < 2; i++)
		fake_complete(e->cq, i, i, 0);
	fake_clock(7000);
	assert_int_equal(e->ex->start_poll(e->ex, &attr), 0);
	before = day_ns();
	first = ibv_wc_read_completion_wallclock_ns(e->ex);
	after = day_ns();
	assert_in_range(first + 6000, before, after);
	/* the clocks are not compared again at once, */
	fake_clock(500000);
	assert_int_equal(e->ex->next_poll(e->ex), 0);
	at = ibv_wc_read_completion_wallclock_ns(e->ex);
	if (day_ns() - before < 100000000)
		assert_int_equal(at, first + 1);
	/* but after a while */
	e->cq->wall_until = 0;
	before = day_ns();
	at = ibv_wc_read_completion_wallclock_ns(e->ex);
	assert_in_range(at + 500000 - 1001, before, day_ns());
	e->ex->end_poll(e->ex);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(poll_order), T(fields), T(wall_clock), T(clean), T(arm), T(resize),
	};

	return cmocka_run_group_tests_name("provider: polling", tests, NULL, NULL);
}
