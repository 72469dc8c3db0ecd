// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Errors that the provider itself detects: the verb returns an errno value and sets errno to the
 * same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "post.h"

/* @call returns @err, and errno has the same value. */
#define REFUSED(call, err) do {							\
		errno = 0;							\
		assert_int_equal(call, err);					\
		assert_int_equal(errno, err);					\
	} while (0)

/* @call returns no object, and errno has the reason. */
#define NONE(call, err) do {							\
		errno = 0;							\
		assert_null(call);						\
		assert_int_equal(errno, err);					\
	} while (0)

static void without(struct env *e, enum ohca_feature f)
{
	to_octx(e->ctx)->features &= ~(1ull << f);
}

static void domains(void **state)
{
	struct env *e = *state;
	struct ibv_td_init_attr ta = {};
	struct ibv_td *td = ops.alloc_td(e->ctx, &ta);
	struct ibv_parent_domain_init_attr pa = { .pd = e->pd, .td = td };
	struct ibv_pd *parent = ops.alloc_parent_domain(e->ctx, &pa);

	/* an AH and a parent domain refer to the PD */
	REFUSED(ops.dealloc_pd(e->pd), EBUSY);
	REFUSED(ops.dealloc_td(td), EBUSY);
	pa.comp_mask = 1u << 30;
	NONE(ops.alloc_parent_domain(e->ctx, &pa), EOPNOTSUPP);
	pa.comp_mask = 0;
	pa.pd = parent;
	NONE(ops.alloc_parent_domain(e->ctx, &pa), EINVAL);
	ta.comp_mask = 1;
	NONE(ops.alloc_td(e->ctx, &ta), EOPNOTSUPP);
	assert_int_equal(ops.dealloc_pd(parent), 0);
	assert_int_equal(ops.dealloc_td(td), 0);
	/* refusals of the kernel for objects of another process */
	fake.fail = ENOENT;
	NONE(ops.import_pd(e->ctx, 5), ENOENT);
	fake.fail = ENOENT;
	NONE(ops.import_mr(e->pd, 5), ENOENT);
}

static void address_handles(void **state)
{
	struct env *e = *state;
	struct ibv_ah_attr a = { .dlid = 1, .port_num = 2 };

	NONE(ops.create_ah(e->pd, &a), EINVAL);
}

static void clocks(void **state)
{
	struct env *e = *state;
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK | 2 };

	REFUSED(ops.query_rt_values(e->ctx, &v), EINVAL);
	v.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	without(e, OHCA_FEATURE_CLOCK);
	REFUSED(ops.query_rt_values(e->ctx, &v), EOPNOTSUPP);
}

static void completion_queues(void **state)
{
	struct env *e = *state;
	struct ibv_cq_init_attr_ex a = { .cqe = 4, .comp_mask = 1u << 30 };
	struct ibv_poll_cq_attr poll = { .comp_mask = 1 };
	struct ibv_cq_ex *ex;

	NONE(ops.create_cq_ex(e->ctx, &a), EOPNOTSUPP);
	a.comp_mask = 0;
	a.wc_flags = 1ull << 40;
	NONE(ops.create_cq_ex(e->ctx, &a), EOPNOTSUPP);
	a.wc_flags = 0;
	a.cqe = 0;
	NONE(ops.create_cq_ex(e->ctx, &a), EINVAL);
	NONE(ops.create_cq(e->ctx, 0, NULL, 0), EINVAL);
	a.cqe = 4;
	ex = ops.create_cq_ex(e->ctx, &a);
	assert_non_null(ex);
	REFUSED(ex->start_poll(ex, &poll), EINVAL);
	/* an empty queue is no error: errno stays */
	poll.comp_mask = 0;
	errno = 7;
	assert_int_equal(ex->start_poll(ex, &poll), ENOENT);
	assert_int_equal(errno, 7);
	REFUSED(ops.resize_cq(ibv_cq_ex_to_cq(ex), 0), EINVAL);
	for (unsigned int i = 0; i < 3; i++)
		fake_complete(to_ocq_ex(ex), i, i, 1);
	REFUSED(ops.resize_cq(ibv_cq_ex_to_cq(ex), 2), EINVAL);
	without(e, OHCA_FEATURE_CQ_RESIZE);
	REFUSED(ops.resize_cq(ibv_cq_ex_to_cq(ex), 8), EOPNOTSUPP);
	ops.destroy_cq(ibv_cq_ex_to_cq(ex));
}

static void device_memory(void **state)
{
	struct env *e = *state;
	struct ibv_alloc_dm_attr a = { .length = 4096 };
	uint8_t data[8] = {};
	struct ibv_dm *dm;

	fake.dm_length = 4096;
	dm = ops.alloc_dm(e->ctx, &a);
	assert_non_null(dm);
	REFUSED(dm->memcpy_to_dm(dm, 4096, data, 4), EFAULT);
	REFUSED(dm->memcpy_to_dm(dm, 2, data, 4), EINVAL);
	REFUSED(dm->memcpy_from_dm(data, dm, 4096, 4), EFAULT);
	REFUSED(dm->memcpy_from_dm(data, dm, 2, 4), EINVAL);
	ops.free_dm(dm);
	a.comp_mask = 1;
	NONE(ops.alloc_dm(e->ctx, &a), EINVAL);
	without(e, OHCA_FEATURE_DM);
	a.comp_mask = 0;
	NONE(ops.alloc_dm(e->ctx, &a), EOPNOTSUPP);
	NONE(ops.import_dm(e->ctx, 1), EOPNOTSUPP);
}

static void memory_windows(void **state)
{
	struct env *e = *state;

	without(e, OHCA_FEATURE_MW);
	NONE(ops.alloc_mw(e->pd, IBV_MW_TYPE_1), EOPNOTSUPP);
}

static void domains_of_xrc(void **state)
{
	struct env *e = *state;
	struct ibv_xrcd_init_attr a = {};

	without(e, OHCA_FEATURE_XRC);
	NONE(ops.open_xrcd(e->ctx, &a), EOPNOTSUPP);
}

static void shared_receive_queues(void **state)
{
	struct env *e = *state;
	struct ibv_srq_init_attr a = { .attr = { 4, 1, 0 } }, none = {};
	struct ibv_srq_attr size = { .max_wr = 0 };
	struct ibv_recv_wr many = { .num_sge = OHCA_MAX_SGE + 1 }, wr = {}, *bad;
	struct ibv_srq *srq = ops.create_srq(e->pd, &a);
	struct ibv_ops_wr op = {}, *bad_op;
	unsigned int i;

	assert_non_null(srq);
	NONE(ops.create_srq(e->pd, &none), EINVAL);
	REFUSED(ops.modify_srq(srq, &size, IBV_SRQ_MAX_WR), EINVAL);
	REFUSED(ops.post_srq_recv(srq, &many, &bad), EINVAL);
	for (i = 0; i < to_osrq(srq)->rq.size; i++)
		assert_int_equal(ops.post_srq_recv(srq, &wr, &bad), 0);
	REFUSED(ops.post_srq_recv(srq, &wr, &bad), ENOMEM);
	REFUSED(ops.post_srq_ops(srq, &op, &bad_op), EINVAL);
	without(e, OHCA_FEATURE_SRQ_RESIZE);
	size.max_wr = 8;
	REFUSED(ops.modify_srq(srq, &size, IBV_SRQ_MAX_WR), EOPNOTSUPP);
	ops.destroy_srq(srq);
}

static void tag_lists(void **state)
{
	struct env *e = *state;
	struct ibv_srq_init_attr_ex a = {
		.attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_TM, .pd = e->pd, .cq = e->cq,
		.tm_cap = { .max_num_tags = 1, .max_ops = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
	};
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_DEL, .tm.handle = 1 }, *bad;
	struct ibv_srq *srq = ops.create_srq_ex(e->ctx, &a);

	assert_non_null(srq);
	REFUSED(ops.post_srq_ops(srq, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_TAG_SYNC;
	assert_int_equal(ops.post_srq_ops(srq, &wr, &bad), 0);
	REFUSED(ops.post_srq_ops(srq, &wr, &bad), ENOMEM);
	ops.destroy_srq(srq);
	without(e, OHCA_FEATURE_TM);
	NONE(ops.create_srq_ex(e->ctx, &a), EOPNOTSUPP);
}

static void queue_pairs(void **state)
{
	struct env *e = *state;
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .send_cq = e->cq };
	struct ibv_qp_attr attr = {};
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr rwr = { .num_sge = OHCA_MAX_SGE + 1 }, *bad_recv;
	struct ibv_mw_bind bind = {};
	struct ibv_mw mw = {};
	unsigned int i;

	NONE(ops.create_qp(e->pd, &a), EINVAL);
	a.qp_type = IBV_QPT_RAW_PACKET;
	NONE(ops.create_qp(e->pd, &a), EOPNOTSUPP);
	make_qp(e, IBV_QPT_RC, (struct ibv_qp_cap){ .max_send_wr = 4, .max_recv_wr = 4,
						    .max_send_sge = 1, .max_recv_sge = 1 });
	/* sizes, while other limits must stay */
	attr.cap = e->qp->cap;
	attr.cap.max_send_sge++;
	REFUSED(ops.modify_qp(e->ibqp, &attr, IBV_QP_CAP), EINVAL);
	attr.cap = e->qp->cap;
	attr.cap.max_send_wr = 1u << 30;
	REFUSED(ops.modify_qp(e->ibqp, &attr, IBV_QP_CAP), EINVAL);
	/* posting, by the list and by the builders */
	wr.num_sge = OHCA_MAX_SGE + 1;
	REFUSED(post(e, &wr), EINVAL);
	REFUSED(ops.post_recv(e->ibqp, &rwr, &bad_recv), EINVAL);
	rwr.num_sge = 0;
	for (i = 0; i < e->qp->rq.size; i++)
		assert_int_equal(ops.post_recv(e->ibqp, &rwr, &bad_recv), 0);
	REFUSED(ops.post_recv(e->ibqp, &rwr, &bad_recv), ENOMEM);
	mw.pd = e->pd;
	bind.bind_info.mw_access_flags = ~0u;
	wr.num_sge = 1;
	for (i = 0; i < e->qp->sq.size; i++)
		assert_int_equal(post(e, &wr), 0);
	REFUSED(post(e, &wr), ENOMEM);
	REFUSED(ops.bind_mw(e->ibqp, &mw, &bind), ENOMEM);
	e->ex->wr_start(e->ex);
	e->ex->wr_send(e->ex);
	e->ex->wr_set_sge(e->ex, 1, 2, 3);
	REFUSED(e->ex->wr_complete(e->ex), ENOMEM);
	without(e, OHCA_FEATURE_QP_RESIZE);
	attr.cap = e->qp->cap;
	REFUSED(ops.modify_qp(e->ibqp, &attr, IBV_QP_CAP), EOPNOTSUPP);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(domains), T(address_handles), T(clocks), T(completion_queues), T(device_memory),
		T(memory_windows), T(domains_of_xrc), T(shared_receive_queues), T(tag_lists),
		T(queue_pairs),
	};

	return cmocka_run_group_tests_name("provider: errno", tests, NULL, NULL);
}
