// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Room for a WQE: what fits up to the last block is posted, what needs one block more is refused,
 * by both interfaces. Builders without room, and setters without a builder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "post.h"

#define MAX_SGE	9u

/* Leaves @bbs blocks of the SQ free. */
static void leave(struct env *e, uint32_t bbs)
{
	uint32_t ci = e->qp->sq.pi - (e->qp->sq.size - bbs);

	e->qp->sq.ci = ci;
	db(e)->sq_ci = htole32(ci);
}

static struct ibv_mw mw = { .rkey = 0x4400, .type = IBV_MW_TYPE_2 };
static uint8_t data[256] = { 1, 2, 3 };

static void build(struct env *e, enum ibv_wr_opcode op)
{
	const struct ibv_mw_bind_info info = { .length = 1 };
	struct ibv_qp_ex *x = e->ex;

	switch ((int)op) {
	case IBV_WR_RDMA_WRITE:
		x->wr_rdma_write(x, 1, 2);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		x->wr_rdma_write_imm(x, 1, 2, 3);
		break;
	case IBV_WR_SEND:
		x->wr_send(x);
		break;
	case IBV_WR_SEND_WITH_IMM:
		x->wr_send_imm(x, 3);
		break;
	case IBV_WR_RDMA_READ:
		x->wr_rdma_read(x, 1, 2);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		x->wr_atomic_cmp_swp(x, 1, 2, 3, 4);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		x->wr_atomic_fetch_add(x, 1, 2, 3);
		break;
	case IBV_WR_LOCAL_INV:
		x->wr_local_inv(x, 1);
		break;
	case IBV_WR_BIND_MW:
		x->wr_bind_mw(x, &mw, 0x4401, &info);
		break;
	case IBV_WR_SEND_WITH_INV:
		x->wr_send_inv(x, 1);
		break;
	case IBV_WR_ATOMIC_WRITE:
		x->wr_atomic_write(x, 1, 2, data);
		break;
#if OHCA_RDMA_CORE >= 45
	case IBV_WR_FLUSH:
		x->wr_flush(x, 1, 2, 3, 1, IBV_FLUSH_MR);
		break;
#endif
	default:
		fail_msg("no builder of %d", op);
	}
}

static bool has_data(enum ibv_wr_opcode op)
{
	return op != IBV_WR_LOCAL_INV && op != IBV_WR_BIND_MW;
}

/* Segments of @op before its data segments. */
static uint32_t header(enum ibv_qp_type type, enum ibv_wr_opcode op)
{
	static const uint8_t segs[16] = { 2, 2, 1, 1, 2, 3, 3, 1, 4, 1 };

	if (type == IBV_QPT_UD)
		return 4;
	return segs[op] + (type == IBV_QPT_XRC_SEND && has_data(op));
}

/* The least number of inline bytes that needs @num segments. */
static uint32_t bytes(uint32_t num)
{
	return num ? 16 * num - 15 : 0;
}

/* Posts one WR of @num SGEs, or of as many segments of inline bytes, by post_send. */
static int by_post(struct env *e, enum ibv_wr_opcode op, uint32_t num, bool inl)
{
	static struct ibv_sge sges[MAX_SGE];
	struct ibv_sge one = { (uintptr_t)data, bytes(num), 0 };
	struct ibv_send_wr wr = { .opcode = op, .sg_list = inl ? &one : sges,
				  .num_sge = inl ? 1 : num,
				  .send_flags = inl ? IBV_SEND_INLINE : 0 };

	if (e->ibqp->qp_type == IBV_QPT_UD)
		wr.wr.ud.ah = e->ah;
	else if (op == IBV_WR_BIND_MW)
		wr.bind_mw.rkey = 0x4401;
	wr.bind_mw.mw = op == IBV_WR_BIND_MW ? &mw : wr.bind_mw.mw;
	return post(e, &wr);
}

static int by_builder(struct env *e, enum ibv_wr_opcode op, uint32_t num, bool inl)
{
	static struct ibv_sge sges[MAX_SGE];
	struct ibv_qp_ex *x = e->ex;

	x->wr_start(x);
	x->wr_flags = 0;
	build(e, op);
	if (e->ibqp->qp_type == IBV_QPT_UD)
		x->wr_set_ud_addr(x, e->ah, 1, 2);
	if (has_data(op) && inl)
		x->wr_set_inline_data(x, data, bytes(num));
	else if (has_data(op) && num == 1)
		x->wr_set_sge(x, 1, 2, 3);
	else if (has_data(op))
		x->wr_set_sge_list(x, num, sges);
	return x->wr_complete(x);
}

static void try(struct env *e, enum ibv_qp_type type, enum ibv_wr_opcode op, uint32_t num, bool inl)
{
	uint32_t nseg = header(type, op) + (has_data(op) ? num : 0), bbs = (nseg + 3) / 4;

	for (unsigned int builder = 0; builder < 2; builder++) {
		int (*by)(struct env *, enum ibv_wr_opcode, uint32_t, bool) =
			builder ? by_builder : by_post;
		uint32_t pi = e->qp->sq.pi;

		leave(e, bbs - 1);
		assert_int_equal(by(e, op, num, inl), ENOMEM);
		assert_int_equal(e->qp->sq.pi, pi);
		assert_int_equal(le32toh(db(e)->sq_pi), pi);
		leave(e, bbs);
		assert_int_equal(by(e, op, num, inl), 0);
		assert_int_equal(e->qp->sq.pi, pi + bbs);
		assert_int_equal(le32toh(db(e)->sq_pi), pi + bbs);
		assert_int_equal(((struct ohca_hw_wqe_ctrl *)bb(e, pi))->nseg, nseg);
	}
}

static void every_size(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_XRC_SEND, IBV_QPT_UD };
	struct env *e = *state;

	for (unsigned int t = 0; t < 3; t++) {
		make_qp(e, types[t], (struct ibv_qp_cap){
			.max_send_wr = 16, .max_send_sge = MAX_SGE, .max_inline_data = 128 });
		for (int op = IBV_WR_RDMA_WRITE; op <= IBV_WR_SEND_WITH_INV; op++) {
			if (types[t] == IBV_QPT_UD && op != IBV_WR_SEND &&
			    op != IBV_WR_SEND_WITH_IMM)
				continue;
			for (uint32_t num = 0; num <= MAX_SGE; num++)
				try(e, types[t], op, num, false);
			if (op <= IBV_WR_SEND_WITH_IMM || op == IBV_WR_SEND_WITH_INV)
				for (uint32_t num = 0; num <= 8; num++)
					try(e, types[t], op, num, true);
		}
		ops.destroy_qp(e->ibqp);
		e->ibqp = NULL;
	}
}

/* A builder that finds no room, or is called after an error, writes nothing. */
static void no_room(void **state)
{
	static const enum ibv_wr_opcode builders[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_ATOMIC_WRITE,
#if OHCA_RDMA_CORE >= 45
		IBV_WR_FLUSH,
#endif
	};
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_XRC_SEND };
	struct env *e = *state;
	uint8_t before[2048];
	size_t size;

	for (unsigned int t = 0; t < 2; t++) {
		make_qp(e, types[t], (struct ibv_qp_cap){
			.max_send_wr = 8, .max_send_sge = 1, .max_inline_data = 64 });
		size = (size_t)e->qp->sq.size * 64;
		assert_true(size <= sizeof(before));
		memset(e->qp->sq.ring, 0x77, size);
		memcpy(before, e->qp->sq.ring, size);
		for (unsigned int i = 0; i < sizeof(builders) / sizeof(builders[0]); i++) {
			if (t && builders[i] > IBV_WR_SEND_WITH_INV)
				continue;
			leave(e, 0);
			e->ex->wr_start(e->ex);
			build(e, builders[i]);
			e->ex->wr_set_sge(e->ex, 1, 2, 3);
			assert_int_equal(e->ex->wr_complete(e->ex), ENOMEM);
			/* the first error counts, even if there is room for the next builder */
			e->ex->wr_start(e->ex);
			build(e, builders[i]);
			leave(e, 8);
			build(e, builders[i]);
			e->ex->wr_set_inline_data(e->ex, data, 1);
			assert_int_equal(e->ex->wr_complete(e->ex), ENOMEM);
			assert_memory_equal(e->qp->sq.ring, before, size);
			assert_int_equal(e->qp->sq.pi, 0);
		}
		ops.destroy_qp(e->ibqp);
		e->ibqp = NULL;
	}
}

/* Whether a QP has the builder of bit @bit of its flags. */
static bool has(const struct ibv_qp_ex *x, unsigned int bit)
{
	switch (bit) {
	case 0:
		return x->wr_rdma_write;
	case 1:
		return x->wr_rdma_write_imm;
	case 2:
		return x->wr_send;
	case 3:
		return x->wr_send_imm;
	case 4:
		return x->wr_rdma_read;
	case 5:
		return x->wr_atomic_cmp_swp;
	case 6:
		return x->wr_atomic_fetch_add;
	case 7:
		return x->wr_local_inv;
	case 8:
		return x->wr_bind_mw;
	case 9:
		return x->wr_send_inv;
	case 10:
		return x->wr_send_tso;
#if OHCA_RDMA_CORE >= 45
	case 11:
		return x->wr_flush;
#endif
	default:
		return x->wr_atomic_write;
	}
}

/* A QP has the builders of its flags and no others. */
static void asked_for(void **state)
{
	struct env *e = *state;

	for (unsigned int bit = 0; bit < 13; bit++) {
		struct ibv_qp_init_attr_ex attr = {
			.qp_type = bit == 10 ? IBV_QPT_UD : IBV_QPT_RC,
			.send_cq = e->cq, .recv_cq = e->cq, .pd = e->pd,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
				     (bit == 10 ? IBV_QP_INIT_ATTR_MAX_TSO_HEADER : 0),
			.max_tso_header = bit == 10 ? 64 : 0,
			.cap = { 4, 4, 1, 1, 0 }, .send_ops_flags = 1u << bit,
		};
		struct ibv_qp *qp;

		if (bit == 11 && OHCA_RDMA_CORE < 45)
			continue;
		qp = ops.create_qp_ex(e->ctx, &attr);
		assert_non_null(qp);
		for (unsigned int other = 0; other < 13; other++)
			if (other != 11 || OHCA_RDMA_CORE >= 45)
				assert_int_equal(has(&to_oqp(qp)->vqp.qp_ex, other), other == bit);
		assert_int_equal(ops.destroy_qp(qp), 0);
	}
}

/* Setters change nothing before the first builder, whatever was built before. */
static void no_builder(void **state)
{
	const struct ibv_data_buf buf = { data, 3 };
	static struct ibv_sge sges[2];
	struct env *e = *state;
	struct ibv_qp_ex *x;
	uint8_t before[512];

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){
		.max_send_wr = 8, .max_send_sge = 2, .max_inline_data = 32 });
	x = e->ex;
	assert_int_equal(by_builder(e, IBV_WR_SEND, 1, false), 0);
	memcpy(before, e->qp->sq.ring, sizeof(before));
	for (unsigned int how = 0; how < 6; how++) {
		x->wr_start(x);
		if (how == 0)
			x->wr_set_sge(x, 9, 9, 9);
		else if (how == 1)
			x->wr_set_sge_list(x, 2, sges);
		else if (how == 2)
			x->wr_set_inline_data(x, data, 3);
		else if (how == 3)
			x->wr_set_inline_data_list(x, 1, &buf);
		else if (how == 4)
			x->wr_set_ud_addr(x, e->ah, 1, 2);
		else
			x->wr_set_xrc_srqn(x, 1);
		assert_int_equal(x->wr_complete(x), 0);
		assert_memory_equal(e->qp->sq.ring, before, sizeof(before));
		assert_int_equal(e->qp->sq.pi, 1);
		assert_int_equal(le32toh(db(e)->sq_pi), 1);
	}
	/* nor do they change what an aborted call has built */
	x->wr_start(x);
	x->wr_send(x);
	x->wr_abort(x);
	memcpy(before, e->qp->sq.ring, sizeof(before));
	x->wr_start(x);
	x->wr_set_sge(x, 9, 9, 9);
	assert_int_equal(x->wr_complete(x), 0);
	assert_memory_equal(e->qp->sq.ring, before, sizeof(before));
	assert_int_equal(e->qp->sq.pi, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = { T(every_size), T(no_room), T(no_builder), T(asked_for) };

	return cmocka_run_group_tests_name("provider: room", tests, NULL, NULL);
}
