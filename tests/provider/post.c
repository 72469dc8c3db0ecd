// SPDX-License-Identifier: GPL-2.0-or-later
/* A QP that posts, and its surroundings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "post.h"

struct ohca_hw_db *db(struct env *e)
{
	return e->qp->db;
}

void *bb(struct env *e, uint32_t pi)
{
	return e->qp->sq.ring + (size_t)(pi & (e->qp->sq.size - 1)) * 64;
}

void set_state(struct env *e, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	assert_int_equal(ops.modify_qp(e->ibqp, &attr, IBV_QP_STATE), 0);
}

/* Makes a QP of @cap in RTS, with all builders of its type. */
void make_qp(struct env *e, enum ibv_qp_type type, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.cap = cap,
		.pd = e->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = type == IBV_QPT_UD ? 0xc :
				  type == IBV_QPT_XRC_SEND ? 0x3ff :
				  OHCA_RDMA_CORE < 45 ? 0x13ff : 0x1bff,
	};

	e->ibqp = ops.create_qp_ex(e->ctx, &attr);
	assert_non_null(e->ibqp);
	e->qp = to_oqp(e->ibqp);
	e->ex = &e->qp->vqp.qp_ex;
	assert_true(e->qp->vqp.comp_mask & VERBS_QP_EX);
	set_state(e, IBV_QPS_RTS);
}

int setup(void **state)
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

int teardown(void **state)
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

const uint8_t sge_bytes[16] = { 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,
				       0x40, 0, 0, 0, 0x44, 0x33, 0x22, 0x11 };
struct ibv_sge sge = { .addr = 0x0102030405060708, .length = 64,
			      .lkey = 0x11223344 };

int post(struct env *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err = ops.post_send(e->ibqp, wr, &bad);

	assert_true(!err == !bad);
	return err;
}
