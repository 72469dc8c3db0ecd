// SPDX-License-Identifier: GPL-2.0-or-later
/* Receive queues, those of QPs and SRQs: limits, a full queue, doorbells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "post.h"

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
		/* the first post rings, and again one that reaches the event index */
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
	check_rq(e, &to_osrq(the_srq)->rq, to_osrq(the_srq)->rq.db, OHCA_UAR_SRQ,
		 to_osrq(the_srq)->rq.number, post_srq);

	/* a QP that uses an SRQ has no RQ */
	qattr.srq = the_srq;
	e->ibqp = ops.create_qp(e->pd, &qattr);
	e->qp = to_oqp(e->ibqp);
	assert_int_equal(qattr.cap.max_recv_wr, 0);
	set_state(e, IBV_QPS_RTS);
	assert_int_equal(ops.post_recv(e->ibqp, &wr, &bad), EINVAL);
	assert_int_equal(ops.destroy_srq(the_srq), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(recv_queue), T(shared_recv_queue),
	};

	return cmocka_run_group_tests_name("provider: receive queues", tests, NULL, NULL);
}
