// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory windows: WQEs that bind them, and their keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "post.h"

/* A type 1 window gets its new key when the WQE is posted, and not if the post fails. */
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

/* The key of the WQE must be one of the window that it names, by each interface. */
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
		T(bind_type1), T(bind_type2),
	};

	return cmocka_run_group_tests_name("provider: memory windows", tests, NULL, NULL);
}
