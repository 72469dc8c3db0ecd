// SPDX-License-Identifier: GPL-2.0-or-later
/* Large segments: their WQEs at every position in the ring, and QPs that cannot be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "post.h"

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

/* Posts a large segment. Return: the result of wr_complete(). */
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

/* Headers of every length at every position in the ring, with the data after them. */
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
	assert_int_equal(dev.tso_caps.max_tso, 1u << 31);
	/* a program whose structure includes all of tso_caps, and one whose structure does not */
	for (n = 0; n < 2; n++) {
		memset(&dev, 0, sizeof(dev));
		assert_int_equal(ops.query_device_ex(e->ctx, NULL, &dev,
						     offsetofend(struct ibv_device_attr_ex,
								 tso_caps) - n), 0);
		assert_int_equal(dev.tso_caps.supported_qpts, n ? 0 : 1 << IBV_QPT_UD);
	}
	e->ibqp = ops.create_qp_ex(e->ctx, &attr);
	assert_non_null(e->ibqp);
	e->qp = to_oqp(e->ibqp);
	e->ex = &e->qp->vqp.qp_ex;
	/* AV, headers and SGEs need five blocks */
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
	/* nor does a WQE after a bad one */
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

/* QPs that cannot be made. */
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
	/* four segments, nine for the headers, and at most nine blocks in all */
	REFUSED(attr.cap.max_send_sge = 24, EINVAL);
	attr = tso_attr(e);
	attr.cap.max_send_sge = 23;
	e->ibqp = ops.create_qp_ex(e->ctx, &attr);
	assert_non_null(e->ibqp);
	assert_int_equal(attr.cap.max_send_sge, 23);
	to_octx(e->ctx)->features &= ~(1ull << OHCA_FEATURE_TSO);
	REFUSED((void)attr, EOPNOTSUPP);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(large_segments), T(large_segments_refused),
	};

	return cmocka_run_group_tests_name("provider: large segments", tests, NULL, NULL);
}
