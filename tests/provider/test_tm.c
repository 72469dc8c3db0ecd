// SPDX-License-Identifier: GPL-2.0-or-later
/* SRQs with tags: list operations in memory, and which tags are free. */
#include <setjmp.h>
#include <stdarg.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "fake.h"

#define TAGS 6

struct env {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq_ex *ex;
	struct ohca_cq *cq;
	struct ibv_srq *ibsrq;
	struct ohca_srq *srq;
	uint32_t pi;		/* the device's producer index of the CQ */
};

static struct ibv_srq_init_attr_ex srq_attr(struct env *e)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = { .max_wr = 10, .max_sge = 2 }, .pd = e->pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM, .cq = &e->cq->vcq.cq,
		.tm_cap = { .max_num_tags = TAGS, .max_ops = 3 },
	};
}

static int setup(void **state)
{
	struct ibv_cq_init_attr_ex cattr = {
		.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO,
	};
	struct env *e = calloc(1, sizeof(*e));
	struct ibv_srq_init_attr_ex attr;

	e->ctx = fake_open();
	e->pd = ops.alloc_pd(e->ctx);
	e->ex = ops.create_cq_ex(e->ctx, &cattr);
	e->cq = to_ocq_ex(e->ex);
	attr = srq_attr(e);
	e->ibsrq = ops.create_srq_ex(e->ctx, &attr);
	*state = e;
	if (!e->ibsrq || attr.tm_cap.max_ops != 4)
		return -1;
	e->srq = to_osrq(e->ibsrq);
	return 0;
}

static int teardown(void **state)
{
	struct env *e = *state;

	ops.destroy_srq(e->ibsrq);
	ops.destroy_cq(&e->cq->vcq.cq);
	ops.dealloc_pd(e->pd);
	fake_close(e->ctx);
	free(e);
	return fake.bufs || fake.opens;
}

static struct ohca_hw_tm_wqe *slot(struct env *e, uint32_t i)
{
	return (void *)((uint8_t *)e->srq->buf.addr +
			ohca_tm_ring_offset(4, e->srq->rq.log_stride) + (i & 3) * 64);
}

static int add(struct env *e, uint64_t tag, uint32_t *handle)
{
	struct ibv_sge sge = { 0x123456789abc, 4096, 0x77 };
	struct ibv_ops_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED,
		.tm = { .unexpected_cnt = 5, .add = { .recv_wr_id = 2, .sg_list = &sge,
						      .num_sge = 1, .tag = tag,
						      .mask = 0xff } },
	}, *bad = NULL;
	int rc = ops.post_srq_ops(e->ibsrq, &wr, &bad);

	assert_ptr_equal(bad, rc ? &wr : NULL);
	if (handle)
		*handle = wr.tm.handle;
	return rc;
}

static int del(struct env *e, uint32_t handle)
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_DEL, .tm.handle = handle }, *bad;

	return ops.post_srq_ops(e->ibsrq, &wr, &bad);
}

/* The device has executed all operations so far, the last one with @result. */
static void executed(struct env *e, uint32_t result)
{
	uint32_t ci = le32toh(e->srq->rq.db->sq_pi);

	slot(e, ci - 1)->result = htole32(result);
	e->srq->rq.db->sq_ci = htole32(ci);
}

static void tag_free(struct env *e, uint32_t handle, uint32_t srqn)
{
	const struct ohca_hw_cqe c = {
		.wr_id = htole64(9), .qp_num = htole32(3),
		.flags = OHCA_CQE_SRQ | OHCA_CQE_TM | OHCA_CQE_TAG_FREE,
		.wqe_idx = htole32(srqn), .handle = { handle, handle >> 8 },
		.tag = htole64(0x1122334455667788), .src_qp = htole32(0x99aabbcc),
	};

	fake_complete_as(e->cq, e->pi, &c);
	e->pi++;
}

static void operations(void **state)
{
	struct env *e = *state;
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_TM_SYNC,
				 .wr_id = 4, .tm.unexpected_cnt = 70000 }, *bad;
	struct ohca_hw_tm_wqe *w = slot(e, 0);

	assert_int_equal(fake.srq_req.log_ops, 2);
	assert_true(fake.srq_req.buf_size >= ohca_srq_buf_size(4, fake.srq_req.log_stride) +
						     ohca_tm_ring_size(2));
	assert_int_equal(add(e, 0xabcdef, NULL), 0);
	assert_int_equal(le64toh(w->wr_id), 1);
	assert_int_equal(w->opcode, OHCA_TM_ADD);
	assert_int_equal(w->flags, OHCA_TM_SIGNALED);
	assert_int_equal(w->num_sge, 1);
	assert_int_equal(le32toh(w->unexpected), 5);
	assert_int_equal(le64toh(w->recv_wr_id), 2);
	assert_int_equal(le64toh(w->tag), 0xabcdef);
	assert_int_equal(le64toh(w->mask), 0xff);
	assert_int_equal(le64toh(w->sge.addr), 0x123456789abc);
	assert_int_equal(le32toh(w->sge.length), 4096);
	assert_int_equal(le32toh(w->sge.lkey), 0x77);
	assert_int_equal(fake_doorbell(e->ctx, OHCA_UAR_SRQ), 1ull << 32 | e->srq->rq.number);
	/* the device is working on the ring: no doorbell */
	assert_int_equal(ops.post_srq_ops(e->ibsrq, &wr, &bad), 0);
	w = slot(e, 1);
	assert_int_equal(w->opcode, OHCA_TM_SYNC);
	assert_int_equal(w->flags, OHCA_TM_COUNT);
	assert_int_equal(le32toh(w->unexpected), 70000);
	assert_int_equal(w->num_sge, 0);
	assert_int_equal(w->handle, 0);
	assert_true(fake_doorbell(e->ctx, OHCA_UAR_SRQ) == FAKE_NO_DOORBELL);
	/* invalid operations */
	wr.opcode = 3;
	assert_int_equal(ops.post_srq_ops(e->ibsrq, &wr, &bad), EINVAL);
	wr.opcode = IBV_WR_TAG_SYNC;
	wr.flags = 4;
	assert_int_equal(ops.post_srq_ops(e->ibsrq, &wr, &bad), EINVAL);
	wr = (struct ibv_ops_wr){ .opcode = IBV_WR_TAG_ADD, .tm.add.num_sge = 2 };
	assert_int_equal(ops.post_srq_ops(e->ibsrq, &wr, &bad), EINVAL);
	assert_int_equal(del(e, TAGS), EINVAL);
	assert_int_equal(le32toh(e->srq->rq.db->sq_pi), 2);
	/* the ring is full */
	assert_int_equal(del(e, 0), 0);
	assert_int_equal(del(e, 0), 0);
	assert_int_equal(del(e, 0), ENOMEM);
	executed(e, OHCA_TM_FAILED);
	assert_int_equal(del(e, 0), 0);
}

static void tags(void **state)
{
	struct env *e = *state;
	uint32_t h[TAGS], n, x;
	struct ibv_wc wc;

	for (n = 0; n < TAGS; n++) {
		assert_int_equal(add(e, n, &h[n]), 0);
		executed(e, OHCA_TM_DONE);
	}
	assert_int_equal(add(e, n, NULL), ENOMEM);
	/* a message has consumed the tag: its CQE frees it, the deletion does not */
	assert_int_equal(del(e, h[2]), 0);
	executed(e, OHCA_TM_FAILED);
	assert_int_equal(add(e, n, NULL), ENOMEM);
	tag_free(e, h[2], e->srq->rq.number);
	assert_int_equal(ops.poll_cq(&e->cq->vcq.cq, 1, &wc), 1);
	assert_int_equal(add(e, n, &x), 0);
	assert_int_equal(x, h[2]);
	executed(e, OHCA_TM_DONE);
	/* deleted */
	assert_int_equal(del(e, h[4]), 0);
	assert_int_equal(add(e, n, NULL), ENOMEM);
	executed(e, OHCA_TM_DONE);
	assert_int_equal(add(e, n, &x), 0);
	assert_int_equal(x, h[4]);
	/* could not be added */
	executed(e, OHCA_TM_FAILED);
	assert_int_equal(add(e, n, &x), 0);
	assert_int_equal(x, h[4]);
	executed(e, OHCA_TM_DONE);
	/* CQEs that free nothing: of another SRQ, of an invalid number, of a tag that is free */
	tag_free(e, h[1], e->srq->rq.number + 1);
	tag_free(e, 0xffff, e->srq->rq.number);
	tag_free(e, h[1], e->srq->rq.number);
	tag_free(e, h[1], e->srq->rq.number);
	for (n = 0; n < 4; n++)
		assert_int_equal(ops.poll_cq(&e->cq->vcq.cq, 1, &wc), 1);
	assert_int_equal(add(e, n, &x), 0);
	assert_int_equal(x, h[1]);
	executed(e, OHCA_TM_DONE);
	assert_int_equal(add(e, n, NULL), ENOMEM);
}

/* A CQE of an SRQ that was destroyed does not free a tag of one that gets the same number. */
static void same_number(void **state)
{
	struct env *e = *state;
	struct ibv_srq_init_attr_ex attr = srq_attr(e);
	uint32_t h[TAGS], n;
	struct ibv_wc wc;

	for (n = 0; n < TAGS; n++) {
		assert_int_equal(add(e, n, &h[n]), 0);
		executed(e, OHCA_TM_DONE);
	}
	tag_free(e, h[2], e->srq->rq.number);
	tag_free(e, h[3], e->srq->rq.number);
	fake.next_handle = e->srq->rq.number;
	assert_int_equal(ops.destroy_srq(e->ibsrq), 0);
	e->ibsrq = ops.create_srq_ex(e->ctx, &attr);
	assert_non_null(e->ibsrq);
	e->srq = to_osrq(e->ibsrq);
	assert_int_equal(e->srq->rq.number, fake.next_handle - 1);
	for (n = 0; n < TAGS; n++) {
		assert_int_equal(add(e, n, &h[n]), 0);
		executed(e, OHCA_TM_DONE);
	}
	for (n = 0; n < 2; n++) {
		assert_int_equal(ops.poll_cq(&e->cq->vcq.cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, 9);
	}
	assert_int_equal(add(e, n, NULL), ENOMEM);
	tag_free(e, h[5], e->srq->rq.number);
	assert_int_equal(ops.poll_cq(&e->cq->vcq.cq, 1, &wc), 1);
	assert_int_equal(add(e, n, &n), 0);
	assert_int_equal(n, h[5]);
}

/*
 * If an SRQ cannot be destroyed, the CQEs that free its own tags take effect at once. Nothing else
 * in the CQ changes.
 */
static void busy(void **state)
{
	static const struct {
		uint8_t flags;
		bool own;
	} entry[] = {
		{ OHCA_CQE_TAG_FREE, true }, { OHCA_CQE_TAG_FREE, false },
		{ (uint8_t)~OHCA_CQE_TAG_FREE, true }, { 0xff, true }, { 0, true },
	};
	struct env *e = *state;
	struct ohca_hw_cqe want[5];
	uint32_t h[TAGS], n, x;
	struct ibv_wc wc;

	for (n = 0; n < TAGS; n++) {
		assert_int_equal(add(e, n, &h[n]), 0);
		executed(e, OHCA_TM_DONE);
	}
	for (n = 0; n < 5; n++) {
		tag_free(e, h[n], e->srq->rq.number + !entry[n].own);
		fake_cqe(e->cq, n)->flags = entry[n].flags;
		want[n] = *fake_cqe(e->cq, n);
	}
	want[0].flags = 0;
	want[3].flags = (uint8_t)~OHCA_CQE_TAG_FREE;
	fake.fail = EBUSY;
	assert_int_equal(ops.destroy_srq(e->ibsrq), EBUSY);
	for (n = 0; n < 5; n++)
		assert_memory_equal(&want[n], fake_cqe(e->cq, n), sizeof(want[n]));
	assert_int_equal(add(e, n, &x), 0);
	assert_int_equal(x, h[3]);
	executed(e, OHCA_TM_DONE);
	assert_int_equal(add(e, n, &x), 0);
	assert_int_equal(x, h[0]);
	executed(e, OHCA_TM_DONE);
	assert_int_equal(add(e, n, &x), ENOMEM);
	/* a poll frees no tag for a CQE that only names it */
	for (n = 1; n < 4; n++)
		fake_cqe(e->cq, n)->flags = OHCA_CQE_SRQ | OHCA_CQE_TM;
	for (n = 0; n < 5; n++)
		assert_int_equal(ops.poll_cq(&e->cq->vcq.cq, 1, &wc), 1);
	assert_int_equal(add(e, n, &x), ENOMEM);
}

/* SRQs that share a CQ each get their own tags back, whichever SRQs are destroyed meanwhile. */
static void shared_cq(void **state)
{
	struct env *e = *state;
	struct ibv_srq_init_attr_ex attr;
	struct env one[3];
	uint32_t h[3], n;
	struct ibv_wc wc;

	for (unsigned int i = 0; i < 3; i++) {
		one[i] = *e;
		attr = srq_attr(e);
		if (i)
			one[i].ibsrq = ops.create_srq_ex(e->ctx, &attr);
		assert_non_null(one[i].ibsrq);
		one[i].srq = to_osrq(one[i].ibsrq);
		for (n = 0; n < TAGS; n++) {
			assert_int_equal(add(&one[i], n, &h[i]), 0);
			executed(&one[i], OHCA_TM_DONE);
		}
	}
	/* the SRQ in the middle of the CQ's list, then the first one; the others stay in it */
	for (unsigned int gone = 1; gone < 4; gone++) {
		for (unsigned int i = 0; i < 3; i++) {
			if (!one[i].ibsrq)
				continue;
			tag_free(e, h[i], one[i].srq->rq.number);
			assert_int_equal(ops.poll_cq(&e->cq->vcq.cq, 1, &wc), 1);
			assert_int_equal(add(&one[i], n, &h[i]), 0);
			executed(&one[i], OHCA_TM_DONE);
			assert_int_equal(add(&one[i], n, NULL), ENOMEM);
		}
		if (gone < 3) {
			assert_int_equal(ops.destroy_srq(one[gone].ibsrq), 0);
			one[gone].ibsrq = NULL;
		}
	}
}

static void info(void **state)
{
	struct ibv_poll_cq_attr none = {};
	struct ibv_wc_tm_info i = {};
	struct env *e = *state;
	uint32_t h;

	assert_int_equal(add(e, 1, &h), 0);
	tag_free(e, h, e->srq->rq.number);
	fake_complete(e->cq, e->pi++, 1, 2);
	assert_int_equal(ibv_start_poll(e->ex, &none), 0);
	ibv_wc_read_tm_info(e->ex, &i);
	assert_int_equal(i.tag, 0x1122334455667788);
	assert_int_equal(i.priv, 0x99aabbcc);
	assert_int_equal(ibv_next_poll(e->ex), 0);
	ibv_wc_read_tm_info(e->ex, &i);
	assert_int_equal(i.tag, 0);
	assert_int_equal(i.priv, 0);
	ibv_end_poll(e->ex);
}

/* QPs of such an SRQ have no send queue, and destroying one keeps its receives. */
static void queue_pairs(void **state)
{
	struct env *e = *state;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = &e->cq->vcq.cq, .recv_cq = &e->cq->vcq.cq,
		.srq = e->ibsrq,
	};
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_qp *qp;
	struct ibv_wc wc;

	attr.cap.max_send_wr = 1;
	errno = 0;
	assert_null(ops.create_qp(e->pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.cap.max_send_wr = 0;
	attr.qp_type = IBV_QPT_UC;
	assert_null(ops.create_qp(e->pd, &attr));
	attr.qp_type = IBV_QPT_RC;
	qp = ops.create_qp(e->pd, &attr);
	assert_non_null(qp);
	assert_int_equal(attr.cap.max_send_wr, 0);
	assert_int_equal(fake.qp_req.log_sq, 0);
	assert_int_equal(fake.qp_req.log_rq, 0);
	assert_int_equal(fake.qp_req.log_rq_stride, OHCA_MIN_LOG_RQ_STRIDE);
	assert_int_equal(ops.post_send(qp, &wr, &bad), EINVAL);
	fake_complete(e->cq, e->pi++, 7, to_oqp(qp)->handle);
	assert_int_equal(ops.destroy_qp(qp), 0);
	assert_int_equal(ops.poll_cq(&e->cq->vcq.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 7);
}

static void refused(void **state)
{
	struct env *e = *state;
	struct ibv_srq_init_attr_ex attr;
	struct ibv_ops_wr wr = {}, *bad;
	struct ibv_srq_init_attr basic = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq;

#define REFUSED(change)								\
	attr = srq_attr(e);							\
	change;									\
	errno = 0;								\
	assert_null(ops.create_srq_ex(e->ctx, &attr));				\
	assert_int_equal(errno, EINVAL)
	REFUSED(attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_TM);
	REFUSED(attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ);
	REFUSED(attr.tm_cap.max_num_tags = 0);
	REFUSED(attr.tm_cap.max_num_tags = 65536);
	REFUSED(attr.tm_cap.max_ops = 0);
	REFUSED(attr.tm_cap.max_ops = 1 << 21);
	srq = ops.create_srq(e->pd, &basic);
	assert_int_equal(ops.post_srq_ops(srq, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	ops.destroy_srq(srq);
}

#define ADDS	20000u

static atomic_bool stop;

static void *poller(void *arg)
{
	struct env *e = arg;
	struct ibv_wc wc[4];

	while (!atomic_load(&stop))
		if (!ops.poll_cq(&e->cq->vcq.cq, 4, wc))
			sched_yield();
	return NULL;
}

/*
 * A thread domain promises that one thread posts to the SRQ. Another thread may poll its CQ, which
 * is in no such domain, and frees tags then.
 */
static void polled_elsewhere(void **state)
{
	struct env *e = *state, x = *e;
	struct ibv_td_init_attr tattr = {};
	struct ibv_parent_domain_init_attr pattr = { .pd = e->pd, .td = ops.alloc_td(e->ctx, &tattr) };
	const time_t end = time(NULL) + 60;
	struct ibv_srq_init_attr_ex attr;
	uint32_t handle;
	pthread_t t;

	x.pd = ops.alloc_parent_domain(e->ctx, &pattr);
	attr = srq_attr(&x);
	x.ibsrq = ops.create_srq_ex(e->ctx, &attr);
	assert_non_null(x.ibsrq);
	x.srq = to_osrq(x.ibsrq);
	assert_false(x.srq->rq.lock.needed);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&t, NULL, poller, &x), 0);
	for (uint32_t i = 0; i < ADDS && time(NULL) < end;) {
		int err = add(&x, i, &handle);

		if (err) {
			assert_int_equal(err, ENOMEM);
			sched_yield();
			continue;
		}
		assert_true(handle < TAGS);
		executed(&x, OHCA_TM_DONE);
		tag_free(&x, handle, x.srq->rq.number);
		i++;
	}
	assert_true(time(NULL) < end);
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	assert_int_equal(ops.destroy_srq(x.ibsrq), 0);
	assert_int_equal(ops.dealloc_pd(x.pd), 0);
	assert_int_equal(ops.dealloc_td(pattr.td), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(operations), T(tags), T(same_number), T(busy), T(shared_cq), T(info), T(queue_pairs),
		T(refused), T(polled_elsewhere),
	};

	return cmocka_run_group_tests_name("provider: tags", tests, NULL, NULL);
}
