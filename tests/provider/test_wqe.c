// SPDX-License-Identifier: GPL-2.0-or-later
/* WQEs: the bytes of every operation, by both interfaces; the AH that a datagram names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "post.h"

static void write_wqe(void **state)
{
	static const uint8_t want[64] = {
		0, 3, 2, 0, 0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
		0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
		0xdd, 0xcc, 0xbb, 0xaa, 0, 0, 0, 0,
		0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,
		0x40, 0, 0, 0, 0x44, 0x33, 0x22, 0x11,
	};
	struct ibv_send_wr wr = {
		.wr_id = 0x1122334455667788,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { 0x1112131415161718, 0xaabbccdd },
	};
	struct env *e = *state;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 4, .max_send_sge = 1 });
	assert_int_equal(post(e, &wr), 0);
	assert_memory_equal(bb(e, 0), want, sizeof(want));
	assert_int_equal(le32toh(db(e)->sq_pi), 1);

	/* the same by a builder, in the next block */
	e->ex->wr_start(e->ex);
	e->ex->wr_id = wr.wr_id;
	e->ex->wr_flags = IBV_SEND_SIGNALED;
	e->ex->wr_rdma_write(e->ex, 0xaabbccdd, 0x1112131415161718);
	e->ex->wr_set_sge(e->ex, sge.lkey, sge.addr, sge.length);
	assert_int_equal(le32toh(db(e)->sq_pi), 1);
	assert_int_equal(e->ex->wr_complete(e->ex), 0);
	assert_memory_equal(bb(e, 1), want, sizeof(want));
	assert_int_equal(le32toh(db(e)->sq_pi), 2);
}

/* Every operation: opcode, segments, immediate or key; by post_send and by builder. */
static void every_op(void **state)
{
	struct ibv_mr mr = { .lkey = 0x777 };
	struct {
		enum ibv_wr_opcode op;
		uint8_t nseg;
		uint32_t imm;	/* as bytes 4 to 7 read little-endian */
	} t[] = {
		{ IBV_WR_RDMA_WRITE, 3, 0 },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 3, 0x04030201 },
		{ IBV_WR_SEND, 2, 0 },
		{ IBV_WR_SEND_WITH_IMM, 2, 0x04030201 },
		{ IBV_WR_RDMA_READ, 3, 0 },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 4, 0 },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0 },
		{ IBV_WR_LOCAL_INV, 1, 0x01020304 },
		{ IBV_WR_BIND_MW, 4, 0 },
		{ IBV_WR_SEND_WITH_INV, 2, 0x01020304 },
	};
	struct env *e = *state;
	struct ibv_mw mw = { .rkey = 0x4499, .type = IBV_MW_TYPE_2 };
	struct ibv_mw_bind_info info = { &mr, 0x5000, 0x100,
					 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE };
	uint8_t first[64];
	unsigned int i;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 32, .max_send_sge = 1 });
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ibv_send_wr wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = t[i].op,
			.send_flags = IBV_SEND_FENCE | IBV_SEND_SOLICITED,
		};
		struct ohca_hw_wqe_ctrl *c = bb(e, 2 * i);

		if (t[i].imm)
			wr.imm_data = t[i].op == IBV_WR_SEND_WITH_INV ||
				      t[i].op == IBV_WR_LOCAL_INV ?
				      0x01020304 : htobe32(0x01020304);
		if (t[i].op == IBV_WR_ATOMIC_CMP_AND_SWP ||
		    t[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.remote_addr = 0x8000;
			wr.wr.atomic.rkey = 0x99;
			wr.wr.atomic.compare_add = 0x1111;
			wr.wr.atomic.swap = 0x2222;
		} else {
			wr.wr.rdma.remote_addr = 0x8000;
			wr.wr.rdma.rkey = 0x99;
		}
		wr.bind_mw.mw = &mw;
		wr.bind_mw.rkey = 0x4401;
		wr.bind_mw.bind_info = info;
		/* every byte is written, whatever was there */
		memset(c, 0, 64);
		memset(bb(e, 2 * i + 1), 0xff, 64);
		assert_int_equal(post(e, &wr), 0);
		assert_int_equal(c->opcode, t[i].op);
		assert_int_equal(c->nseg, t[i].nseg);
		assert_int_equal(le16toh(c->flags), OHCA_WQE_FENCE | OHCA_WQE_SOLICITED);
		assert_int_equal(le32toh(c->inv_key), t[i].imm);
		assert_int_equal(le64toh(c->wr_id), i);
		memcpy(first, c, 64);

		e->ex->wr_start(e->ex);
		e->ex->wr_id = i;
		e->ex->wr_flags = wr.send_flags;
		switch (t[i].op) {
		case IBV_WR_RDMA_WRITE:
			e->ex->wr_rdma_write(e->ex, 0x99, 0x8000);
			break;
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			e->ex->wr_rdma_write_imm(e->ex, 0x99, 0x8000, wr.imm_data);
			break;
		case IBV_WR_SEND:
			e->ex->wr_send(e->ex);
			break;
		case IBV_WR_SEND_WITH_IMM:
			e->ex->wr_send_imm(e->ex, wr.imm_data);
			break;
		case IBV_WR_RDMA_READ:
			e->ex->wr_rdma_read(e->ex, 0x99, 0x8000);
			break;
		case IBV_WR_ATOMIC_CMP_AND_SWP: {
			struct ohca_hw_wqe_atomic *a = (void *)((uint8_t *)c + 32);

			assert_int_equal(le64toh(a->swap_add), 0x2222);
			assert_int_equal(le64toh(a->compare), 0x1111);
			e->ex->wr_atomic_cmp_swp(e->ex, 0x99, 0x8000, 0x1111, 0x2222);
			break;
		}
		case IBV_WR_ATOMIC_FETCH_AND_ADD: {
			struct ohca_hw_wqe_atomic *a = (void *)((uint8_t *)c + 32);

			assert_int_equal(le64toh(a->swap_add), 0x1111);
			e->ex->wr_atomic_fetch_add(e->ex, 0x99, 0x8000, 0x1111);
			break;
		}
		case IBV_WR_LOCAL_INV:
			e->ex->wr_local_inv(e->ex, 0x01020304);
			break;
		case IBV_WR_BIND_MW: {
			struct ohca_hw_wqe_reg *r = (void *)((uint8_t *)c + 16);

			assert_int_equal(le32toh(r->key), 0x4401);
			assert_int_equal(le32toh(r->access), OHCA_ACCESS_REMOTE_WRITE);
			assert_int_equal(le64toh(r->iova), 0x5000);
			assert_int_equal(le64toh(r->length), 0x100);
			assert_int_equal(le32toh(r->mr_key), 0x777);
			e->ex->wr_bind_mw(e->ex, &mw, 0x4401, &info);
			break;
		}
		default:
			e->ex->wr_send_inv(e->ex, 0x01020304);
			break;
		}
		if (t[i].op != IBV_WR_LOCAL_INV && t[i].op != IBV_WR_BIND_MW) {
			e->ex->wr_set_sge(e->ex, sge.lkey, sge.addr, sge.length);
			assert_memory_equal((uint8_t *)c + (t[i].nseg - 1) * 16, sge_bytes, 16);
		}
		assert_int_equal(e->ex->wr_complete(e->ex), 0);
		assert_memory_equal(bb(e, 2 * i + 1), first, t[i].nseg * 16);
	}
}

static void atomic_write_wqes(void **state)
{
	static const uint8_t want[64] = {
		15, 3, 0x0a, 2, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
		0, 0x80, 0, 0, 0, 0, 0, 0, 0x99, 0, 0, 0, 0, 0, 0, 0,
		1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,
	};
	uint8_t data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct ibv_sge s = { .addr = (uintptr_t)data, .length = 8 };
	struct ibv_send_wr wr = {
		.wr_id = 7, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.wr.rdma = { 0x8000, 0x99 },
	};
	struct env *e = *state;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 8, .max_send_sge = 1,
						    .max_inline_data = 16 });
	memset(e->qp->sq.ring, 0xff, 256);
	e->ex->wr_start(e->ex);
	e->ex->wr_id = 7;
	e->ex->wr_flags = IBV_SEND_SIGNALED;
	e->ex->wr_atomic_write(e->ex, 0x99, 0x8000, data);
	assert_int_equal(e->ex->wr_complete(e->ex), 0);
	assert_int_equal(le32toh(db(e)->sq_pi), 1);
	assert_memory_equal(bb(e, 0), want, 48);

	assert_int_equal(post(e, &wr), 0);
	assert_memory_equal(bb(e, 1), want, 40);
	wr.send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(post(e, &wr), 0);
	assert_int_equal(((uint8_t *)bb(e, 2))[1], 3);
}

/* The old interface has no fields for FLUSH, and rdma-core before 45 has no builder for it. */
static void flush_wqes(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_FLUSH };
	struct env *e = *state;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 8, .max_send_sge = 1 });
	memset(e->qp->sq.ring, 0xff, 256);
	assert_int_equal(post(e, &wr), EINVAL);
#if OHCA_RDMA_CORE >= 45
	static const uint8_t want[48] = {
		14, 3, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
		0, 0x80, 0, 0, 0, 0, 0, 0, 0x99, 0, 0, 0, 0, 0, 0, 0,
		0x78, 0x56, 0x34, 0x12, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	};

	e->ex->wr_start(e->ex);
	e->ex->wr_id = 7;
	e->ex->wr_flags = IBV_SEND_SIGNALED;
	e->ex->wr_flush(e->ex, 0x99, 0x8000, 0x12345678, 3, IBV_FLUSH_MR);
	assert_int_equal(e->ex->wr_complete(e->ex), 0);
	assert_int_equal(le32toh(db(e)->sq_pi), 1);
	assert_memory_equal(bb(e, 0), want, 48);

	/* longer than the field of the packet allows */
	e->ex->wr_start(e->ex);
	e->ex->wr_flush(e->ex, 0x99, 0x8000, 1ull << 32, 1, IBV_FLUSH_RANGE);
	assert_int_equal(e->ex->wr_complete(e->ex), EINVAL);
	assert_int_equal(le32toh(db(e)->sq_pi), 1);
#endif
}

static void ud_wqe(void **state)
{
	static const uint8_t av[48] = {
		0x56, 0x34, 0x12, 0, 0x11, 0x11, 0x11, 0x11,
		0xef, 0xbe, 3, 5, 1, 2, 1, 64,
		0x21, 0x43, 0x55, 0x0a,
		0xd6, 0xd6, 0xd6, 0xd6, 0xd6, 0xd6, 0xd6, 0xd6,
		0xd6, 0xd6, 0xd6, 0xd6, 0xd6, 0xd6, 0xd6, 0xd6,
	};
	struct env *e = *state;
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = e->ah, .remote_qpn = DQPN, .remote_qkey = QKEY },
	};

	make_qp(e, IBV_QPT_UD, (struct ibv_qp_cap){ .max_send_wr = 4, .max_send_sge = 1 });
	assert_int_equal(e->qp->sq.size, 8);
	assert_int_equal(post(e, &wr), 0);
	assert_int_equal(((uint8_t *)bb(e, 0))[1], 5);
	assert_memory_equal((uint8_t *)bb(e, 0) + 16, av, sizeof(av));
	assert_memory_equal(bb(e, 1), sge_bytes, 16);
	assert_int_equal(le32toh(db(e)->sq_pi), 2);

	/* setters in either order */
	e->ex->wr_start(e->ex);
	e->ex->wr_id = 1;
	e->ex->wr_flags = IBV_SEND_SIGNALED;
	e->ex->wr_send(e->ex);
	e->ex->wr_set_sge(e->ex, sge.lkey, sge.addr, sge.length);
	e->ex->wr_set_ud_addr(e->ex, e->ah, DQPN, QKEY);
	e->ex->wr_send(e->ex);
	e->ex->wr_set_ud_addr(e->ex, e->ah, DQPN, QKEY);
	e->ex->wr_set_sge(e->ex, sge.lkey, sge.addr, sge.length);
	assert_int_equal(e->ex->wr_complete(e->ex), 0);
	assert_memory_equal(bb(e, 2), bb(e, 0), 80);
	assert_memory_equal(bb(e, 4), bb(e, 0), 80);
	assert_int_equal(le32toh(db(e)->sq_pi), 6);

	/* no RDMA on a datagram QP */
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(post(e, &wr), EINVAL);
}

/* Sends one datagram by each interface. */
static int send_by(struct env *e, struct ibv_ah *ah, bool inl)
{
	struct ibv_send_wr wr[2] = {
		{ .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = { .ah = e->ah } },
	}, *bad = NULL;
	char data[8] = "";
	struct ibv_sge in = { (uintptr_t)data, sizeof(data), 0 };
	uint32_t pi = e->qp->sq.pi;
	int err;

	if (inl) {
		wr[0].sg_list = &in;
		wr[0].send_flags = IBV_SEND_INLINE;
	}
	wr[1] = wr[0];
	wr[1].wr.ud.ah = ah;
	err = post(e, &wr[1]);
	assert_int_equal(e->qp->sq.pi - pi, err ? 0 : 2);

	/* after a good one */
	pi = e->qp->sq.pi;
	wr[0].next = &wr[1];
	assert_int_equal(ops.post_send(e->ibqp, wr, &bad), err);
	assert_ptr_equal(bad, err ? &wr[1] : NULL);
	assert_int_equal(e->qp->sq.pi - pi, err ? 2 : 4);

	pi = e->qp->sq.pi;
	e->ex->wr_start(e->ex);
	e->ex->wr_flags = 0;
	ibv_wr_send(e->ex);
	ibv_wr_set_ud_addr(e->ex, ah, DQPN, QKEY);
	ibv_wr_set_sge(e->ex, sge.lkey, sge.addr, sge.length);
	assert_int_equal(e->ex->wr_complete(e->ex), err);
	assert_int_equal(e->qp->sq.pi - pi, err ? 0 : 2);
	db(e)->sq_ci = htole32(e->qp->sq.pi);
	return err;
}

/* A QP uses AHs of its own protection domain, also those of imported and parent domains of it. */
static void ah_of_another_pd(void **state)
{
	struct env *e = *state;
	struct ibv_parent_domain_init_attr pattr = { .pd = e->pd };
	struct ibv_ah_attr a = { .dlid = 7, .port_num = 1 };
	struct ibv_pd *other = ops.alloc_pd(e->ctx);
	struct ibv_pd *pds[] = {
		e->pd, ops.alloc_parent_domain(e->ctx, &pattr),
		ops.import_pd(e->ctx, e->pd->handle), other, NULL,
		ops.import_pd(e->ctx, other->handle),
	};
	struct ibv_ah *ah;

	pattr.pd = other;
	pds[4] = ops.alloc_parent_domain(e->ctx, &pattr);
	make_qp(e, IBV_QPT_UD, (struct ibv_qp_cap){ .max_send_wr = 8, .max_send_sge = 1,
						    .max_inline_data = 8 });
	for (unsigned int i = 0; i < 6; i++) {
		ah = ops.create_ah(pds[i], &a);
		assert_non_null(ah);
		for (unsigned int inl = 0; inl < 2; inl++)
			assert_int_equal(send_by(e, ah, inl), i < 3 ? 0 : EINVAL);
		ops.destroy_ah(ah);
	}
	ops.unimport_pd(pds[2]);
	ops.unimport_pd(pds[5]);
	assert_int_equal(ops.dealloc_pd(pds[1]), 0);
	assert_int_equal(ops.dealloc_pd(pds[4]), 0);
	assert_int_equal(ops.dealloc_pd(other), 0);
}

/* The WQE of an initiator: that of RC, with the XRC segment after the control segment. */
static void xrc_wqes(void **state)
{
	static const struct {
		enum ibv_wr_opcode op;
		unsigned int nseg;	/* with one SGE */
	} ops_of[] = {
		{ IBV_WR_SEND, 3 }, { IBV_WR_SEND_WITH_IMM, 3 }, { IBV_WR_SEND_WITH_INV, 3 },
		{ IBV_WR_RDMA_WRITE, 4 }, { IBV_WR_RDMA_WRITE_WITH_IMM, 4 },
		{ IBV_WR_RDMA_READ, 4 }, { IBV_WR_ATOMIC_FETCH_AND_ADD, 5 },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 5 },
	};
	static const uint8_t seg[16] = { 0x56, 0x34, 0x12 };
	struct env *e = *state;
	uint8_t by_post[128];
	uint32_t pi = 0;

	make_qp(e, IBV_QPT_XRC_SEND,
		(struct ibv_qp_cap){ .max_send_wr = 100, .max_send_sge = 4,
				     .max_inline_data = 64 });
	assert_true(e->qp->sq.xrc);
	for (unsigned int i = 0; i < sizeof(ops_of) / sizeof(ops_of[0]); i++) {
		struct ibv_send_wr wr = {
			.wr_id = 77, .sg_list = &sge, .num_sge = 1, .opcode = ops_of[i].op,
			.qp_type.xrc.remote_srqn = 0x123456,
		};
		uint32_t bbs = (ops_of[i].nseg + 3) / 4;

		if (wr.opcode == IBV_WR_SEND_WITH_INV)
			wr.invalidate_rkey = 0xabcd;
		else if (wr.opcode == IBV_WR_SEND_WITH_IMM ||
			 wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			wr.imm_data = htobe32(0x1234);
		if (ops_of[i].nseg == 5) {
			wr.wr.atomic.remote_addr = 0x1000;
			wr.wr.atomic.rkey = 0x500;
			wr.wr.atomic.compare_add = 3;
			wr.wr.atomic.swap = 4;
		} else {
			wr.wr.rdma.remote_addr = 0x1000;
			wr.wr.rdma.rkey = 0x500;
		}
		assert_int_equal(post(e, &wr), 0);
		assert_int_equal(((uint8_t *)bb(e, pi))[1], ops_of[i].nseg);
		assert_memory_equal((uint8_t *)bb(e, pi) + 16, seg, 16);
		memcpy(by_post, bb(e, pi), bbs * 64);
		pi += bbs;
		assert_int_equal(e->qp->sq.pi, pi);

		e->ex->wr_start(e->ex);
		e->ex->wr_id = 77;
		e->ex->wr_flags = 0;
		switch (wr.opcode) {
		case IBV_WR_SEND:
			e->ex->wr_send(e->ex);
			break;
		case IBV_WR_SEND_WITH_IMM:
			e->ex->wr_send_imm(e->ex, wr.imm_data);
			break;
		case IBV_WR_SEND_WITH_INV:
			e->ex->wr_send_inv(e->ex, wr.invalidate_rkey);
			break;
		case IBV_WR_RDMA_WRITE:
			e->ex->wr_rdma_write(e->ex, 0x500, 0x1000);
			break;
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			e->ex->wr_rdma_write_imm(e->ex, 0x500, 0x1000, wr.imm_data);
			break;
		case IBV_WR_RDMA_READ:
			e->ex->wr_rdma_read(e->ex, 0x500, 0x1000);
			break;
		case IBV_WR_ATOMIC_FETCH_AND_ADD:
			e->ex->wr_atomic_fetch_add(e->ex, 0x500, 0x1000, 3);
			break;
		default:
			e->ex->wr_atomic_cmp_swp(e->ex, 0x500, 0x1000, 3, 4);
		}
		e->ex->wr_set_xrc_srqn(e->ex, 0x123456);
		e->ex->wr_set_sge(e->ex, sge.lkey, sge.addr, sge.length);
		assert_int_equal(e->ex->wr_complete(e->ex), 0);
		assert_memory_equal(bb(e, pi), by_post, ops_of[i].nseg * 16);
		pi += bbs;
		assert_int_equal(e->qp->sq.pi, pi);
	}
	/* operations that send nothing have no XRC segment */
	assert_int_equal(post(e, &(struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV }), 0);
	assert_int_equal(((uint8_t *)bb(e, pi))[1], 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(write_wqe), T(every_op), T(atomic_write_wqes), T(flush_wqes), T(ud_wqe),
		T(ah_of_another_pd), T(xrc_wqes),
	};

	return cmocka_run_group_tests_name("provider: WQEs", tests, NULL, NULL);
}
