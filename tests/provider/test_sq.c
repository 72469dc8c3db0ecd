// SPDX-License-Identifier: GPL-2.0-or-later
/* The SQ: wrap-around, limits, states, a full queue, doorbells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "post.h"

/*
 * The WQE at @pi is an RDMA WRITE with @len bytes inline, and is published. The device has executed
 * it. Return: the index of the next WQE.
 */
static uint32_t inlined(struct env *e, uint32_t pi, const uint8_t *src, uint32_t len)
{
	const struct ohca_hw_wqe_ctrl *c = bb(e, pi);
	const uint32_t nseg = 2 + (len + 15) / 16, bbs = (nseg + 3) / 4;
	uint8_t got[256];

	assert_int_equal(c->nseg, nseg);
	assert_int_equal(le16toh(c->flags), OHCA_WQE_INLINE | len << 6);
	for (uint32_t i = 0; i < bbs; i++)
		memcpy(got + 64 * i, bb(e, pi + i), 64);
	assert_memory_equal(got + 32, src, len);
	pi += bbs;
	assert_int_equal(le32toh(db(e)->sq_pi), pi);
	db(e)->sq_ci = htole32(pi);
	return pi;
}

/* SGEs and inline bytes past the end of the ring, from every block. */
static void wrap(void **state)
{
	struct env *e = *state;
	uint8_t src[200], got[256];
	struct ibv_sge parts[3];
	struct ibv_sge many[9];
	uint32_t pi = 0, i, len;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 4, .max_send_sge = 9,
						    .max_inline_data = 200 });
	assert_int_equal(e->qp->sq.size, 16);
	for (i = 0; i < sizeof(src); i++)
		src[i] = i * 7 + 1;
	for (i = 0; i < 9; i++)
		many[i] = (struct ibv_sge){ 0x1000 * i, i + 1, 0x50 + i };

	for (len = 0; len <= 200; len++) {
		struct ibv_send_wr wr = {
			.sg_list = parts, .num_sge = 3, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_INLINE,
		};

		parts[0] = (struct ibv_sge){ (uintptr_t)src, len / 3, 0 };
		parts[1] = (struct ibv_sge){ (uintptr_t)src + len / 3, len / 2 - len / 3, 0 };
		parts[2] = (struct ibv_sge){ (uintptr_t)src + len / 2, len - len / 2, 0 };
		assert_int_equal(post(e, &wr), 0);
		pi = inlined(e, pi, src, len);

		/* one SGE */
		parts[0] = (struct ibv_sge){ (uintptr_t)src, len, 0 };
		wr.num_sge = 1;
		assert_int_equal(post(e, &wr), 0);
		pi = inlined(e, pi, src, len);

		/* by builder, in one piece and as a list */
		e->ex->wr_start(e->ex);
		e->ex->wr_flags = 0;
		e->ex->wr_rdma_write(e->ex, 0, 0);
		if (len & 1) {
			e->ex->wr_set_inline_data(e->ex, src, len);
		} else {
			struct ibv_data_buf bufs[2] = { { src, len / 4 },
							{ src + len / 4, len - len / 4 } };

			e->ex->wr_set_inline_data_list(e->ex, 2, bufs);
		}
		assert_int_equal(e->ex->wr_complete(e->ex), 0);
		pi = inlined(e, pi, src, len);

		/* nine SGEs: three blocks */
		wr = (struct ibv_send_wr){ .sg_list = many, .num_sge = 9, .opcode = IBV_WR_SEND };
		assert_int_equal(post(e, &wr), 0);
		for (i = 0; i < 3; i++)
			memcpy(got + 64 * i, bb(e, pi + i), 64);
		assert_int_equal(got[1], 10);
		assert_memory_equal(got + 16, many, sizeof(many));
		pi += 3;
		e->ex->wr_start(e->ex);
		e->ex->wr_send(e->ex);
		e->ex->wr_set_sge_list(e->ex, 9, many);
		assert_int_equal(e->ex->wr_complete(e->ex), 0);
		for (i = 0; i < 3; i++)
			memcpy(got + 64 * i, bb(e, pi + i), 64);
		assert_int_equal(got[1], 10);
		assert_memory_equal(got + 16, many, sizeof(many));
		pi += 3;
		db(e)->sq_ci = htole32(pi);
	}
	assert_true(pi > 10 * e->qp->sq.size);
}

static void limits(void **state)
{
	struct env *e = *state;
	struct ibv_sge list[OHCA_MAX_SGE + 1];
	uint8_t data[OHCA_MAX_INLINE + 1] = { 0 };
	struct ibv_data_buf huge = { data, SIZE_MAX };
	struct ibv_send_wr wr = { .sg_list = list, .opcode = IBV_WR_SEND };
	uint32_t sges, inl, pi;

	memset(list, 0, sizeof(list));
	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 4, .max_send_sge = 2,
						    .max_inline_data = 100 });
	sges = e->qp->cap.max_send_sge;
	inl = e->qp->cap.max_inline_data;
	assert_true(sges >= 2 && inl >= 100);

	wr.num_sge = sges + 1;
	assert_int_equal(post(e, &wr), EINVAL);
	wr.num_sge = -1;
	assert_int_equal(post(e, &wr), EINVAL);
	wr.num_sge = sges;
	assert_int_equal(post(e, &wr), 0);

	list[0] = (struct ibv_sge){ (uintptr_t)data, inl + 1, 0 };
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(post(e, &wr), EINVAL);
	/* a sum that wraps at 32 bits is still too long */
	list[0].length = 0x80000000;
	list[1].length = 0x80000000;
	wr.num_sge = 2;
	assert_int_equal(post(e, &wr), EINVAL);
	list[0].length = inl;
	wr.num_sge = 1;
	assert_int_equal(post(e, &wr), 0);
	/* READ has no inline data */
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(post(e, &wr), EINVAL);
	wr.opcode = IBV_WR_TSO;
	wr.send_flags = 0;
	assert_int_equal(post(e, &wr), EINVAL);
	wr.opcode = 77;
	assert_int_equal(post(e, &wr), EINVAL);
	wr.opcode = -1;
	assert_int_equal(post(e, &wr), EINVAL);

	/* builders: after an error nothing is published, not even the good WQEs */
	pi = le32toh(db(e)->sq_pi);
	e->ex->wr_start(e->ex);
	e->ex->wr_send(e->ex);
	e->ex->wr_set_sge(e->ex, 1, 2, 3);
	e->ex->wr_send(e->ex);
	e->ex->wr_set_inline_data(e->ex, data, inl + 1);
	assert_int_equal(e->ex->wr_complete(e->ex), EINVAL);
	e->ex->wr_start(e->ex);
	e->ex->wr_send(e->ex);
	e->ex->wr_set_inline_data_list(e->ex, 1, &huge);
	e->ex->wr_send(e->ex);
	assert_int_equal(e->ex->wr_complete(e->ex), EINVAL);
	e->ex->wr_start(e->ex);
	e->ex->wr_send(e->ex);
	e->ex->wr_set_sge_list(e->ex, sges + 1, list);
	assert_int_equal(e->ex->wr_complete(e->ex), EINVAL);
	e->ex->wr_start(e->ex);
	e->ex->wr_rdma_read(e->ex, 1, 2);
	e->ex->wr_set_inline_data(e->ex, data, 1);
	assert_int_equal(e->ex->wr_complete(e->ex), EINVAL);
	e->ex->wr_start(e->ex);
	e->ex->wr_send(e->ex);
	e->ex->wr_abort(e->ex);
	e->ex->wr_start(e->ex);
	assert_int_equal(e->ex->wr_complete(e->ex), 0);
	assert_int_equal(le32toh(db(e)->sq_pi), pi);
}

/* States: RESET and INIT accept no sends, RESET no receives. */
static void states(void **state)
{
	static const struct {
		enum ibv_qp_state st;
		int send;
		int recv;
	} t[] = {
		{ IBV_QPS_RESET, EINVAL, EINVAL }, { IBV_QPS_INIT, EINVAL, 0 },
		{ IBV_QPS_RTR, EINVAL, 0 }, { IBV_QPS_RTS, 0, 0 }, { IBV_QPS_SQD, 0, 0 },
		{ IBV_QPS_SQE, 0, 0 }, { IBV_QPS_ERR, 0, 0 },
	};
	struct env *e = *state;
	struct ibv_recv_wr rwr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	unsigned int i;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ 16, 16, 1, 1, 0 });
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		set_state(e, t[i].st);
		assert_int_equal(post(e, &wr), t[i].send);
		assert_int_equal(ops.post_recv(e->ibqp, &rwr, &bad), t[i].recv);
		e->ex->wr_start(e->ex);
		e->ex->wr_send(e->ex);
		e->ex->wr_set_sge(e->ex, 1, 2, 3);
		assert_int_equal(e->ex->wr_complete(e->ex), t[i].send);
	}
	/* back to RESET: indices and the doorbell record start again */
	assert_true(e->qp->sq.pi);
	db(e)->sq_event = 7;
	set_state(e, IBV_QPS_RESET);
	assert_int_equal(e->qp->sq.pi | e->qp->rq.pi, 0);
	assert_int_equal(db(e)->sq_pi | db(e)->rq_pi | db(e)->sq_event, 0);
}

/* A full SQ returns ENOMEM, posts what fits, and continues when the device has consumed WQEs. */
static void overflow(void **state)
{
	struct env *e = *state;
	struct ibv_send_wr wr[9], *bad = NULL;
	uint32_t i, round;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 8, .max_send_sge = 1 });
	assert_int_equal(e->qp->cap.max_send_wr, 8);
	e->qp->sq.pi = e->qp->sq.ci = 0xfffffff0;	/* soon wraps to zero */
	db(e)->sq_pi = db(e)->sq_ci = htole32(0xfffffff0);
	memset(wr, 0, sizeof(wr));
	for (i = 0; i < 9; i++) {
		wr[i].opcode = IBV_WR_SEND;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].next = i < 8 ? &wr[i + 1] : NULL;
	}
	for (round = 0; round < 4; round++) {
		uint32_t pi = 0xfffffff0 + 8 * round;

		assert_int_equal(ops.post_send(e->ibqp, wr, &bad), ENOMEM);
		assert_ptr_equal(bad, &wr[8]);
		assert_int_equal(le32toh(db(e)->sq_pi), pi + 8);
		e->ex->wr_start(e->ex);
		e->ex->wr_send(e->ex);
		assert_int_equal(e->ex->wr_complete(e->ex), ENOMEM);
		assert_int_equal(le32toh(db(e)->sq_pi), pi + 8);
		/* the device's index is read only when it is needed */
		db(e)->sq_ci = htole32(pi + 8);
		assert_int_equal(e->qp->sq.ci, pi);
	}
}

/* The event index of the doorbell record decides; at most one doorbell a call. */
static void doorbells(void **state)
{
	struct env *e = *state;
	struct ibv_send_wr wr[3];
	uint32_t i;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 64, .max_send_sge = 1 });
	memset(wr, 0, sizeof(wr));
	for (i = 0; i < 3; i++) {
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	/* a new queue: the first post rings */
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ), FAKE_NO_DOORBELL);
	assert_int_equal(post(e, wr), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ),
			 3ull << 32 | e->qp->handle);
	/* the event index is behind: the device polls */
	assert_int_equal(post(e, wr), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ), FAKE_NO_DOORBELL);
	/* it is among the WQEs of one call */
	db(e)->sq_event = htole32(7);
	assert_int_equal(post(e, wr), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ),
			 9ull << 32 | e->qp->handle);
	/* it is ahead */
	db(e)->sq_event = htole32(100);
	assert_int_equal(post(e, wr), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ), FAKE_NO_DOORBELL);
	/* the same with builders */
	db(e)->sq_event = htole32(12);
	e->ex->wr_start(e->ex);
	e->ex->wr_send(e->ex);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ), FAKE_NO_DOORBELL);
	assert_int_equal(e->ex->wr_complete(e->ex), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ),
			 13ull << 32 | e->qp->handle);
	/* a list whose first WR is bad posts nothing and rings no doorbell */
	db(e)->sq_event = htole32(13);
	wr[0].opcode = IBV_WR_TSO;
	assert_int_equal(post(e, wr), EINVAL);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ), FAKE_NO_DOORBELL);
	assert_int_equal(le32toh(db(e)->sq_pi), 13);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(wrap), T(limits), T(states), T(overflow),
		T(doorbells),
	};

	return cmocka_run_group_tests_name("provider: SQ", tests, NULL, NULL);
}
