// SPDX-License-Identifier: GPL-2.0-or-later
/* Posting: bytes of WQEs, wrap-around, limits, doorbells, both interfaces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake.h"

#define QKEY	0x11111111u
#define DQPN	0x123456u

struct env {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_ah *ah;
	struct ohca_qp *qp;
	struct ibv_qp *ibqp;
	struct ibv_qp_ex *ex;
};

static struct ohca_hw_db *db(struct env *e)
{
	return e->qp->db;
}

static void *bb(struct env *e, uint32_t pi)
{
	return e->qp->sq.ring + (size_t)(pi & (e->qp->sq.size - 1)) * 64;
}

static void set_state(struct env *e, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	assert_int_equal(ops.modify_qp(e->ibqp, &attr, IBV_QP_STATE), 0);
}

/* A QP of @cap, ready to post to, with all builders of its type. */
static void make_qp(struct env *e, enum ibv_qp_type type, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = cap,
		.pd = e->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = type == IBV_QPT_UD ? 0xc :
				  type == IBV_QPT_XRC_SEND ? 0x3ff : 0x1bff,
	};

	e->ibqp = ops.create_qp_ex(e->ctx, &attr);
	assert_non_null(e->ibqp);
	e->qp = to_oqp(e->ibqp);
	e->ex = &e->qp->vqp.qp_ex;
	assert_true(e->qp->vqp.comp_mask & VERBS_QP_EX);
	set_state(e, IBV_QPS_RTS);
}

static int setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	struct ibv_ah_attr attr = {
		.dlid = 0xbeef,
		.sl = 3,
		.src_path_bits = 5,
		.static_rate = 2,
		.is_global = 1,
		.port_num = 1,
		.grh = { .flow_label = 0x54321, .sgid_index = 1, .hop_limit = 64,
			 .traffic_class = 0xa5 },
	};

	memset(&attr.grh.dgid, 0xd6, sizeof(attr.grh.dgid));
	e->ctx = fake_open();
	e->pd = ops.alloc_pd(e->ctx);
	e->cq = ops.create_cq(e->ctx, 64, NULL, 0);
	e->ah = ops.create_ah(e->pd, &attr);
	*state = e;
	return !(e->ctx && e->pd && e->cq && e->ah);
}

static int teardown(void **state)
{
	struct env *e = *state;

	ops.destroy_ah(e->ah);
	if (e->ibqp)
		ops.destroy_qp(e->ibqp);
	ops.destroy_cq(e->cq);
	ops.dealloc_pd(e->pd);
	fake_close(e->ctx);
	free(e);
	return fake.bufs || fake.opens;
}

static const uint8_t sge_bytes[16] = { 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,
				       0x40, 0, 0, 0, 0x44, 0x33, 0x22, 0x11 };
static struct ibv_sge sge = { .addr = 0x0102030405060708, .length = 64,
			      .lkey = 0x11223344 };

static int post(struct env *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err = ops.post_send(e->ibqp, wr, &bad);

	assert_true(!err == !bad);
	return err;
}

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

	/* the same by builder, in the next block */
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

/* FLUSH and ATOMIC WRITE; the old interface has no fields for the first. */
static void placement_wqes(void **state)
{
	static const uint8_t want[64] = {
		15, 3, 0x0a, 2, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
		0, 0x80, 0, 0, 0, 0, 0, 0, 0x99, 0, 0, 0, 0, 0, 0, 0,
		1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,
	}, flush[48] = {
		14, 3, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
		0, 0x80, 0, 0, 0, 0, 0, 0, 0x99, 0, 0, 0, 0, 0, 0, 0,
		0x78, 0x56, 0x34, 0x12, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
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
	e->ex->wr_flush(e->ex, 0x99, 0x8000, 0x12345678, 3, IBV_FLUSH_MR);
	assert_int_equal(e->ex->wr_complete(e->ex), 0);
	assert_int_equal(le32toh(db(e)->sq_pi), 2);
	assert_memory_equal(bb(e, 0), want, 48);
	assert_memory_equal(bb(e, 1), flush, 48);

	assert_int_equal(post(e, &wr), 0);
	assert_memory_equal(bb(e, 2), want, 40);
	wr.send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(post(e, &wr), 0);
	assert_int_equal(((uint8_t *)bb(e, 3))[1], 3);
	wr.opcode = IBV_WR_FLUSH;
	assert_int_equal(post(e, &wr), EINVAL);

	/* more than the packet's field holds */
	e->ex->wr_start(e->ex);
	e->ex->wr_flush(e->ex, 0x99, 0x8000, 1ull << 32, 1, IBV_FLUSH_RANGE);
	assert_int_equal(e->ex->wr_complete(e->ex), EINVAL);
	assert_int_equal(le32toh(db(e)->sq_pi), 4);
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

/* One datagram by each interface. */
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

	/* behind one that is good */
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

/* A QP sends by AHs of its own protection domain, whatever stands for it. */
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

/* SGEs and inline bytes over the end of the ring, at every starting block. */
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
		struct ohca_hw_wqe_ctrl *c = bb(e, pi);
		uint32_t nseg = 2 + (len + 15) / 16;
		uint32_t bbs = (nseg + 3) / 4;

		parts[0] = (struct ibv_sge){ (uintptr_t)src, len / 3, 0 };
		parts[1] = (struct ibv_sge){ (uintptr_t)src + len / 3, len / 2 - len / 3, 0 };
		parts[2] = (struct ibv_sge){ (uintptr_t)src + len / 2, len - len / 2, 0 };
		assert_int_equal(post(e, &wr), 0);
		assert_int_equal(c->nseg, nseg);
		assert_int_equal(le16toh(c->flags), OHCA_WQE_INLINE | len << 6);
		for (i = 0; i < bbs; i++)
			memcpy(got + 64 * i, bb(e, pi + i), 64);
		assert_memory_equal(got + 32, src, len);
		pi += bbs;
		assert_int_equal(le32toh(db(e)->sq_pi), pi);
		db(e)->sq_ci = htole32(pi);

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
		c = bb(e, pi);
		assert_int_equal(c->nseg, nseg);
		assert_int_equal(le16toh(c->flags), OHCA_WQE_INLINE | len << 6);
		for (i = 0; i < bbs; i++)
			memcpy(got + 64 * i, bb(e, pi + i), 64);
		assert_memory_equal(got + 32, src, len);
		pi += bbs;
		db(e)->sq_ci = htole32(pi);

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

static struct ibv_qp_init_attr_ex tso_attr(struct env *e)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_UD, .send_cq = e->cq, .recv_cq = e->cq, .pd = e->pd,
		.cap = { .max_send_wr = 4, .max_send_sge = 5, .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			     IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO,
		.max_tso_header = 128,
	};
}

/* A large segment; 0, or what wr_complete() says. */
static int post_tso(struct env *e, void *hdr, uint16_t len, uint16_t mss, struct ibv_sge *sges,
		    uint32_t num)
{
	e->ex->wr_start(e->ex);
	e->ex->wr_id = len;
	e->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_tso(e->ex, hdr, len, mss);
	ibv_wr_set_ud_addr(e->ex, e->ah, DQPN, QKEY);
	ibv_wr_set_sge_list(e->ex, num, sges);
	return e->ex->wr_complete(e->ex);
}

/* Headers of every length at every place in the ring, the data behind them. */
static void large_segments(void **state)
{
	struct env *e = *state;
	struct ibv_qp_init_attr_ex attr = tso_attr(e);
	uint8_t hdr[129], got[64 * 9], zero[16] = { 0 };
	struct ibv_device_attr_ex dev = {};
	struct ibv_sge many[5];
	uint32_t pi = 0, n;

	assert_int_equal(ops.query_device_ex(e->ctx, NULL, &dev, sizeof(dev)), 0);
	assert_int_equal(dev.tso_caps.supported_qpts, 1 << IBV_QPT_UD);
	e->ibqp = ops.create_qp_ex(e->ctx, &attr);
	assert_non_null(e->ibqp);
	e->qp = to_oqp(e->ibqp);
	e->ex = &e->qp->vqp.qp_ex;
	/* AV, headers and SGEs take five blocks */
	assert_int_equal(e->qp->sq.size, 32);
	assert_int_equal(attr.cap.max_send_sge, 7);
	set_state(e, IBV_QPS_RTS);
	for (n = 0; n < sizeof(hdr); n++)
		hdr[n] = n * 3 + 1;
	for (n = 0; n < 5; n++)
		many[n] = (struct ibv_sge){ 0x1000 * n, n + 1, 0x50 + n };
	for (uint32_t i = 0; i < 5 * 128; i++) {
		uint32_t len = i % 128 + 1, num = i % 6, segs = 5 + (len + 15) / 16;
		uint32_t pad = (segs - 5) * 16 - len;
		const struct ohca_hw_wqe_ctrl *c = (void *)got;
		const struct ohca_hw_wqe_tso *t = (void *)(got + 64);

		assert_int_equal(post_tso(e, hdr, len, 1000 + len, many, num), 0);
		for (n = 0; n < 9; n++)
			memcpy(got + 64 * n, bb(e, pi + n), 64);
		assert_int_equal(c->opcode, OHCA_OP_TSO);
		assert_int_equal(c->nseg, segs + num);
		assert_int_equal(le64toh(c->wr_id), len);
		assert_int_equal(got[16] | got[17] << 8 | got[18] << 16, DQPN);
		assert_int_equal(le16toh(t->mss), 1000 + len);
		assert_int_equal(le16toh(t->hlen), len);
		assert_memory_equal(t->reserved, zero, sizeof(t->reserved));
		assert_memory_equal(got + 80, hdr, len);
		assert_memory_equal(got + 80 + len, zero, pad);
		assert_memory_equal(got + segs * 16, many, num * sizeof(many[0]));
		pi += (segs + num + 3) / 4;
		assert_int_equal(le32toh(db(e)->sq_pi), pi);
		db(e)->sq_ci = htole32(pi);
	}
	/* none of these leaves anything in the queue */
	assert_int_equal(post_tso(e, hdr, 0, 1000, many, 1), EINVAL);
	assert_int_equal(post_tso(e, hdr, 129, 1000, many, 1), EINVAL);
	assert_int_equal(post_tso(e, hdr, 54, 0, many, 1), EINVAL);
	e->ex->wr_start(e->ex);
	ibv_wr_send_tso(e->ex, hdr, 54, 1000);
	ibv_wr_set_inline_data(e->ex, hdr, 10);
	assert_int_equal(e->ex->wr_complete(e->ex), EINVAL);
	/* nor what comes after a wrong one */
	e->ex->wr_start(e->ex);
	ibv_wr_send_tso(e->ex, hdr, 54, 0);
	ibv_wr_send_tso(e->ex, hdr, 54, 1000);
	assert_int_equal(e->ex->wr_complete(e->ex), EINVAL);
	assert_int_equal(post(e, &(struct ibv_send_wr){ .opcode = IBV_WR_TSO, .sg_list = &sge,
							.num_sge = 1 }), EINVAL);
	assert_int_equal(le32toh(db(e)->sq_pi), pi);
	for (n = 0; n < 8; n++)
		assert_int_equal(post_tso(e, hdr, 128, 1000, many, 3), 0);
	assert_int_equal(post_tso(e, hdr, 1, 1000, many, 0), ENOMEM);
}

/* What no QP can be. */
static void large_segments_refused(void **state)
{
	struct env *e = *state;
	struct ibv_qp_init_attr_ex attr;

#define REFUSED(change, err)							\
	attr = tso_attr(e);							\
	change;									\
	assert_null(ops.create_qp_ex(e->ctx, &attr));				\
	assert_int_equal(errno, err)
	REFUSED(attr.qp_type = IBV_QPT_RC, EOPNOTSUPP);
	REFUSED(attr.max_tso_header = 129, EINVAL);
	REFUSED(attr.max_tso_header = 0, EOPNOTSUPP);
	REFUSED(attr.comp_mask &= ~IBV_QP_INIT_ATTR_MAX_TSO_HEADER, EOPNOTSUPP);
	/* four segments, nine for the headers, and no more than nine blocks in all */
	REFUSED(attr.cap.max_send_sge = 24, EINVAL);
	attr = tso_attr(e);
	attr.cap.max_send_sge = 23;
	e->ibqp = ops.create_qp_ex(e->ctx, &attr);
	assert_non_null(e->ibqp);
	assert_int_equal(attr.cap.max_send_sge, 23);
	to_octx(e->ctx)->features &= ~(1ull << OHCA_FEATURE_TSO);
	REFUSED((void)attr, EOPNOTSUPP);
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
	/* there is no inline READ */
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(post(e, &wr), EINVAL);
	wr.opcode = IBV_WR_TSO;
	wr.send_flags = 0;
	assert_int_equal(post(e, &wr), EINVAL);
	wr.opcode = 77;
	assert_int_equal(post(e, &wr), EINVAL);
	wr.opcode = -1;
	assert_int_equal(post(e, &wr), EINVAL);

	/* builders: an error publishes nothing, not even what was good */
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

/* States: RESET and INIT take no sends, RESET no receives. */
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
	/* back to RESET: indices and record begin anew */
	assert_true(e->qp->sq.pi);
	db(e)->sq_event = 7;
	set_state(e, IBV_QPS_RESET);
	assert_int_equal(e->qp->sq.pi | e->qp->rq.pi, 0);
	assert_int_equal(db(e)->sq_pi | db(e)->rq_pi | db(e)->sq_event, 0);
}

/* A full SQ says ENOMEM, posts what fitted, and goes on when the device did. */
static void overflow(void **state)
{
	struct env *e = *state;
	struct ibv_send_wr wr[9], *bad = NULL;
	uint32_t i, round;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 8, .max_send_sge = 1 });
	assert_int_equal(e->qp->cap.max_send_wr, 8);
	e->qp->sq.pi = e->qp->sq.ci = 0xfffffff0;	/* soon to pass zero */
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
		/* the index is looked at only when it is needed */
		db(e)->sq_ci = htole32(pi + 8);
		assert_int_equal(e->qp->sq.ci, pi);
	}
}

/* The record's event index decides; one doorbell a call. */
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
	/* event behind us: the device polls */
	assert_int_equal(post(e, wr), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ), FAKE_NO_DOORBELL);
	/* in the middle of what one call posts */
	db(e)->sq_event = htole32(7);
	assert_int_equal(post(e, wr), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ),
			 9ull << 32 | e->qp->handle);
	/* ahead of us */
	db(e)->sq_event = htole32(100);
	assert_int_equal(post(e, wr), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ), FAKE_NO_DOORBELL);
	/* builders likewise */
	db(e)->sq_event = htole32(12);
	e->ex->wr_start(e->ex);
	e->ex->wr_send(e->ex);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ), FAKE_NO_DOORBELL);
	assert_int_equal(e->ex->wr_complete(e->ex), 0);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ),
			 13ull << 32 | e->qp->handle);
	/* a list whose first is bad posts nothing and rings nothing */
	db(e)->sq_event = htole32(13);
	wr[0].opcode = IBV_WR_TSO;
	assert_int_equal(post(e, wr), EINVAL);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SQ), FAKE_NO_DOORBELL);
	assert_int_equal(le32toh(db(e)->sq_pi), 13);
}

static void check_rq(struct env *e, struct ohca_rq *rq, struct ohca_hw_db *rdb,
		     unsigned int uar_off, uint32_t handle,
		     int (*do_post)(struct env *, struct ibv_recv_wr *, struct ibv_recv_wr **))
{
	uint32_t sges = rq->sge_limit - 1, i, n = 0;
	struct ibv_sge list[OHCA_MAX_SGE + 1];
	struct ibv_recv_wr wr = { .sg_list = list }, *bad = NULL;

	for (i = 0; i <= sges; i++)
		list[i] = (struct ibv_sge){ 0x1000 + i, i, i + 5 };
	wr.num_sge = sges + 1;
	assert_int_equal(do_post(e, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(fake_doorbell(e->ctx, uar_off), FAKE_NO_DOORBELL);

	for (i = 0; i < 3 * rq->size; i++) {
		uint8_t *wqe = rq->ring + ((size_t)(i & (rq->size - 1)) << rq->log_stride);

		wr.wr_id = 0xabcdef0000 + i;
		wr.num_sge = i % (sges + 1);
		assert_int_equal(do_post(e, &wr, &bad), 0);
		assert_int_equal(le64toh(*(uint64_t *)wqe), wr.wr_id);
		assert_int_equal(le64toh(*(uint64_t *)(wqe + 8)), wr.num_sge);
		assert_memory_equal(wqe + 16, list, wr.num_sge * 16);
		assert_int_equal(le32toh(rdb->rq_pi), i + 1);
		/* rung for the first, and again when the event index asks */
		if (i == 0 || i == rq->size + 1)
			assert_int_equal(fake_doorbell(e->ctx, uar_off),
					 (i + 1ull) << 32 | handle);
		else
			assert_int_equal(fake_doorbell(e->ctx, uar_off), FAKE_NO_DOORBELL);
		if (i == rq->size)
			rdb->rq_event = htole32(i + 1);
		if (++n == rq->size) {
			/* exactly full */
			assert_int_equal(do_post(e, &wr, &bad), ENOMEM);
			assert_ptr_equal(bad, &wr);
			rdb->rq_ci = htole32(i + 1);
			n = 0;
		}
	}
}

static int post_rq(struct env *e, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ops.post_recv(e->ibqp, wr, bad);
}

static void recv_queue(void **state)
{
	struct env *e = *state;

	make_qp(e, IBV_QPT_UD, (struct ibv_qp_cap){ 1, 13, 1, 5, 0 });
	assert_int_equal(e->qp->cap.max_recv_wr, 16);
	assert_true(e->qp->cap.max_recv_sge >= 5);
	check_rq(e, &e->qp->rq, e->qp->db, OHCA_UAR_RQ, e->qp->handle, post_rq);
}

static struct ibv_srq *the_srq;

static int post_srq(struct env *e, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ops.post_srq_recv(the_srq, wr, bad);
}

static void shared_recv_queue(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 10, .max_sge = 30 } };
	struct env *e = *state;
	struct ibv_qp_init_attr qattr = { .qp_type = IBV_QPT_RC, .send_cq = e->cq,
					  .recv_cq = e->cq, .cap = { 1, 8, 1, 1, 0 } };
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

	the_srq = ops.create_srq(e->pd, &attr);
	assert_non_null(the_srq);
	assert_int_equal(attr.attr.max_wr, 16);
	assert_int_equal(attr.attr.max_sge, 30);
	check_rq(e, &to_osrq(the_srq)->rq, to_osrq(the_srq)->db, OHCA_UAR_SRQ,
		 to_osrq(the_srq)->srqn, post_srq);

	/* a QP that uses it has no RQ of its own */
	qattr.srq = the_srq;
	e->ibqp = ops.create_qp(e->pd, &qattr);
	e->qp = to_oqp(e->ibqp);
	assert_int_equal(qattr.cap.max_recv_wr, 0);
	set_state(e, IBV_QPS_RTS);
	assert_int_equal(ops.post_recv(e->ibqp, &wr, &bad), EINVAL);
	assert_int_equal(ops.destroy_srq(the_srq), 0);
}

/* An initiator's WQE: as RC's, with the XRC segment behind the control segment. */
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
	/* what sends nothing has none */
	assert_int_equal(post(e, &(struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV }), 0);
	assert_int_equal(((uint8_t *)bb(e, pi))[1], 1);
}

/* A type 1 window takes its new key when the WQE is posted, and only then. */
static void bind_type1(void **state)
{
	struct env *e = *state;
	struct ibv_mr mr = { .lkey = 0x900 };
	struct ibv_mw_bind b = {
		.wr_id = 9,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { &mr, 0x1000, 64, IBV_ACCESS_REMOTE_READ },
	};
	struct ohca_hw_wqe_reg *r;
	struct ibv_mw *mw;
	uint32_t key;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 2, .max_send_sge = 1 });
	mw = ops.alloc_mw(e->pd, IBV_MW_TYPE_1);
	assert_non_null(mw);
	key = mw->rkey;
	assert_int_equal(ops.bind_mw(e->ibqp, mw, &b), 0);
	assert_int_equal(mw->rkey, (key & ~0xffu) | ((key + 1) & 0xff));
	r = (void *)((uint8_t *)bb(e, 0) + 16);
	assert_int_equal(le32toh(r->key), mw->rkey);
	assert_int_equal(le32toh(r->mr_key), 0x900);

	/* an unbind names no region */
	b.bind_info = (struct ibv_mw_bind_info){ 0 };
	assert_int_equal(ops.bind_mw(e->ibqp, mw, &b), 0);
	r = (void *)((uint8_t *)bb(e, 1) + 16);
	assert_int_equal(r->length | r->mr_key, 0);

	key = mw->rkey;
	assert_int_equal(ops.bind_mw(e->ibqp, mw, &b), ENOMEM);
	assert_int_equal(mw->rkey, key);
	assert_int_equal(ops.dealloc_mw(mw), 0);
}

/* The window that is named and the key that it gets belong together, by each interface. */
static void bind_type2(void **state)
{
	struct env *e = *state;
	struct ibv_mr mr = { .lkey = 0x900 };
	struct ibv_mw_bind_info info = { &mr, 0x1000, 64, IBV_ACCESS_REMOTE_READ };
	struct ibv_mw *mw = ops.alloc_mw(e->pd, IBV_MW_TYPE_2);
	const struct {
		uint32_t rkey;
		int err;
	} t[] = {
		{ mw->rkey, 0 }, { mw->rkey ^ 0x01, 0 }, { mw->rkey ^ 0xff, 0 },
		{ mw->rkey ^ 0x100, EINVAL }, { mw->rkey ^ 0x80000000, EINVAL },
		{ (mw->rkey ^ 0x200) + 1, EINVAL },
	};
	uint32_t pi;

	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 16, .max_send_sge = 1 });
	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_BIND_MW,
			.bind_mw = { .mw = mw, .rkey = t[i].rkey, .bind_info = info },
		};

		pi = e->qp->sq.pi;
		assert_int_equal(post(e, &wr), t[i].err);
		assert_int_equal(e->qp->sq.pi - pi, !t[i].err);
		pi = e->qp->sq.pi;
		e->ex->wr_start(e->ex);
		e->ex->wr_flags = 0;
		ibv_wr_bind_mw(e->ex, mw, t[i].rkey, &info);
		assert_int_equal(e->ex->wr_complete(e->ex), t[i].err);
		assert_int_equal(e->qp->sq.pi - pi, !t[i].err);
	}
	assert_int_equal(ops.dealloc_mw(mw), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(write_wqe), T(every_op), T(placement_wqes), T(ud_wqe), T(ah_of_another_pd), T(wrap), T(large_segments),
		T(large_segments_refused), T(limits), T(states),
		T(overflow), T(doorbells), T(recv_queue), T(shared_recv_queue), T(xrc_wqes),
		T(bind_type1), T(bind_type2),
	};

	return cmocka_run_group_tests_name("provider: posting", tests, NULL, NULL);
}
