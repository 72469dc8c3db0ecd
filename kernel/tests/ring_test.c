// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Rings: posting, wrapping, completions, resize, and CQEs of a malicious device. */
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "eq.h"
#include "fatal.h"
#include "ohca_test.h"
#include "srq.h"
#include "wr.h"

/* The device writes a CQE at index @i. */
static void put_cqe(struct ohca_cq *cq, u32 i, u32 handle, u8 flags, u32 wqe_idx, u64 wr_id)
{
	u32 mask = (1u << cq->log_size) - 1;
	struct ohca_hw_cqe *e = ohca_buf_at(&cq->buf, OHCA_CQ_RING_OFFSET +
					    (i & mask) * sizeof(*e));

	memset(e, 0, sizeof(*e));
	e->wr_id = cpu_to_le64(wr_id);
	e->qp_num = cpu_to_le32(handle);
	e->opcode = cpu_to_le32(flags & OHCA_CQE_SEND ? IB_WC_SEND : IB_WC_RECV);
	e->wqe_idx = cpu_to_le32(wqe_idx);
	e->flags = flags;
	e->byte_len = cpu_to_le32(8);
	e->owner = !((i >> cq->log_size) & 1);
}

static int post_with(struct ohca_qp *qp, u64 wr_id, int nsge, int send_flags)
{
	struct ib_sge sge[4] = { { .addr = 0x1000, .length = 8, .lkey = 7 } };
	struct ib_rdma_wr wr = {
		.wr.wr_id = wr_id,
		.wr.sg_list = sge,
		.wr.num_sge = nsge,
		.wr.opcode = IB_WR_RDMA_WRITE,
		.wr.send_flags = send_flags,
		.remote_addr = 0x2000,
		.rkey = 9,
	};
	const struct ib_send_wr *bad;

	return ohca_post_send(&qp->ibqp, &wr.wr, &bad);
}

static int post_one(struct ohca_qp *qp, u64 wr_id, int nsge)
{
	return post_with(qp, wr_id, nsge, IB_SEND_SIGNALED);
}

static int post_recv_one(struct ohca_qp *qp, u64 wr_id, u32 length)
{
	struct ib_sge sge = { .addr = 0x1000, .length = length, .lkey = 7 };
	struct ib_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	const struct ib_recv_wr *bad;

	return ohca_post_recv(&qp->ibqp, &wr, &bad);
}

static void sq_fill_and_drain(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 77, 3);
	u32 bb = 0, cqe = 0, round, i;
	struct ib_wc wc;

	/* 1 BB with 2 SGEs, 2 BBs with 3: the ring of 8 wraps at every offset */
	for (round = 0; round < 20; round++) {
		u32 at[8], n = 0, used = 0;

		while (1) {
			u32 nsge = (round + n) % 2 ? 3 : 2, bbs = nsge == 3 ? 2 : 1;
			int ret = post_one(qp, 1000 * round + n, nsge);

			if (used + bbs > 8) {
				KUNIT_ASSERT_EQ(test, -ENOMEM, ret);
				break;
			}
			KUNIT_ASSERT_EQ(test, 0, ret);
			at[n++] = bb & 7;
			bb += bbs;
			used += bbs;
			KUNIT_ASSERT_EQ(test, bb, le32_to_cpu(qp->db->sq_pi));
		}
		for (i = 0; i < n; i++) {
			put_cqe(cq, cqe++, 77, OHCA_CQE_SEND, at[i], 0xdead);
			KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
			KUNIT_ASSERT_EQ(test, 1000 * round + i, wc.wr_id);
			KUNIT_ASSERT_EQ(test, IB_WC_RDMA_WRITE, wc.opcode);
			KUNIT_ASSERT_PTR_EQ(test, &qp->ibqp, wc.qp);
		}
		KUNIT_ASSERT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 1, &wc));
		KUNIT_ASSERT_EQ(test, qp->sq.head, qp->sq.tail);
	}
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&dev->bad_cqes));
	ohca_test_end(dev);
}

/* A CQE also completes the unsignaled WQEs before its WQE. */
static void sq_unsignaled(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 4, 2);
	struct ib_wc wc[4];
	u32 i;

	for (i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, post_with(qp, i, 1, 0));
	/* the CQE of an error may belong to an unsignaled WQE */
	put_cqe(cq, 0, 4, OHCA_CQE_SEND, 2, 0);
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 4, wc));
	KUNIT_EXPECT_EQ(test, 2, wc[0].wr_id);
	KUNIT_EXPECT_EQ(test, 3, qp->sq.tail);
	/* earlier WQEs are not outstanding any more */
	put_cqe(cq, 1, 4, OHCA_CQE_SEND, 1, 0);
	KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 4, wc));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&dev->bad_cqes));
	ohca_test_end(dev);
}

/*
 * A signaled WQE whose CQE is missing completes with an error before the next WQE, for each number
 * of entries that a call polls.
 */
static void sq_missing(struct kunit *test)
{
	static const struct {
		int flags, nsge;
		u32 at;
	} wr[] = {
		{ 0, 1, 0 }, { IB_SEND_SIGNALED, 3, 1 }, { 0, 3, 3 }, { IB_SEND_SIGNALED, 1, 5 },
		{ 0, 1, 6 }, { IB_SEND_SIGNALED, 1, 7 },
	};
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 4, 3);
	u32 num, n, i, cqe = 0;
	struct ib_wc wc[4];

	for (num = 1; num <= 4; num++) {
		qp->signal_all = num == 4;
		for (i = 0; i < ARRAY_SIZE(wr); i++)
			KUNIT_ASSERT_EQ(test, 0, post_with(qp, i, wr[i].nsge, wr[i].flags));
		put_cqe(cq, cqe++, 4, OHCA_CQE_SEND, wr[5].at, 0);
		for (i = num == 4 ? 0 : 1; i < ARRAY_SIZE(wr);) {
			n = ohca_poll_cq(&cq->ibcq, num, wc);
			KUNIT_ASSERT_GT(test, n, 0);
			for (u32 k = 0; k < n; k++, i += num == 4 ? 1 : 2) {
				KUNIT_EXPECT_EQ(test, i, wc[k].wr_id);
				KUNIT_EXPECT_EQ(test, i < 5 ? IB_WC_GENERAL_ERR : IB_WC_SUCCESS,
						wc[k].status);
			}
		}
		KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, num, wc));
		KUNIT_EXPECT_EQ(test, qp->sq.head, qp->sq.tail);
		KUNIT_EXPECT_EQ(test, cqe, cq->ci);
	}
	KUNIT_EXPECT_EQ(test, 3 * 2 + 5, atomic_read(&dev->bad_cqes));
	ohca_test_end(dev);
}

static void sq_doorbell(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 0x123456, 3);
	void __iomem *db = dev->uar + OHCA_UAR_SQ;

	KUNIT_ASSERT_EQ(test, 0, post_one(qp, 0, 1));
	KUNIT_EXPECT_EQ(test, 0x123456 | 1ull << 32, readq(db));
	/* the event index requests no doorbell */
	KUNIT_ASSERT_EQ(test, 0, post_one(qp, 1, 1));
	KUNIT_EXPECT_EQ(test, 0x123456 | 1ull << 32, readq(db));
	qp->db->sq_event = cpu_to_le32(2);
	KUNIT_ASSERT_EQ(test, 0, post_one(qp, 2, 1));
	KUNIT_EXPECT_EQ(test, 0x123456 | 3ull << 32, readq(db));
	ohca_test_end(dev);
}

static void rq_in_order(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 2);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 2);
	struct ib_wc wc;
	u32 i;

	for (i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, 100 + i, 64));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_recv_one(qp, 104, 64));
	for (i = 0; i < 40; i++) {
		put_cqe(cq, i, 9, 0, i & 3, 1);
		KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
		KUNIT_ASSERT_EQ(test, 100 + i, wc.wr_id);
		KUNIT_ASSERT_EQ(test, IB_WC_SUCCESS, wc.status);
		KUNIT_ASSERT_EQ(test, i + 1, le32_to_cpu(((struct ohca_hw_db *)
							  ohca_buf_at(&cq->buf, 0))->cq_ci));
		KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, 104 + i, 64));
	}
	ohca_test_end(dev);
}

/* The CQE has a larger length than the posted buffer. */
static void rq_too_long(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 2);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 2);
	struct ib_wc wc;

	KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, 1, 7));
	put_cqe(cq, 0, 9, 0, 0, 1);
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
	KUNIT_EXPECT_EQ(test, IB_WC_LOC_LEN_ERR, wc.status);
	ohca_test_end(dev);
}

/* A WRITE may be longer than the posted buffer, but a CQE of a datagram QP is no WRITE. */
static void datagram_too_long(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 2);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 2);
	struct ohca_hw_cqe *e = ohca_buf_at(&cq->buf, OHCA_CQ_RING_OFFSET);
	struct ib_wc wc;
	u32 i;

	for (i = 0; i < 2; i++) {
		qp->ibqp.qp_type = i ? IB_QPT_UD : IB_QPT_RC;
		KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, 1, 47));
		put_cqe(cq, i, 9, 0, i, 1);
		e[i].byte_len = cpu_to_le32(48);
		e[i].opcode = cpu_to_le32(IB_WC_RECV_RDMA_WITH_IMM);
		KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
		KUNIT_EXPECT_EQ(test, i ? IB_WC_LOC_LEN_ERR : IB_WC_SUCCESS, wc.status);
		KUNIT_EXPECT_EQ(test, i ? IB_WC_RECV : IB_WC_RECV_RDMA_WITH_IMM, wc.opcode);
	}
	ohca_test_end(dev);
}

/* The length of a datagram includes 40 bytes for the GRH, which consumers skip. */
static void datagram_too_short(struct kunit *test)
{
	static const enum ib_qp_type types[] = { IB_QPT_UD, IB_QPT_GSI, IB_QPT_SMI, IB_QPT_RC };
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 3);
	struct ohca_hw_cqe *e = ohca_buf_at(&cq->buf, OHCA_CQ_RING_OFFSET);
	struct ib_wc wc;
	u32 i;

	for (i = 0; i < 2 * ARRAY_SIZE(types); i++) {
		bool whole = i % 2 || types[i / 2] == IB_QPT_RC;

		qp->ibqp.qp_type = types[i / 2];
		KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, 1, 100));
		put_cqe(cq, i, 9, 0, i, 0);
		e[i].byte_len = cpu_to_le32(i % 2 ? 40 : 39);
		KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
		KUNIT_EXPECT_EQ(test, whole ? IB_WC_SUCCESS : IB_WC_LOC_LEN_ERR, wc.status);
	}
	ohca_test_end(dev);
}

/* Invalid CQEs are dropped. Those of a QP that completes to the CQ are counted. */
static void hostile_cqes(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 4);
	struct ohca_cq *other = ohca_test_cq(test, dev, 4);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 3);
	struct ohca_qp *stranger = ohca_test_qp(test, dev, other, 10, 3);
	struct ib_wc wc[4];
	u32 i = 0;

	KUNIT_ASSERT_EQ(test, 0, post_one(qp, 42, 3));
	KUNIT_ASSERT_EQ(test, 0, post_one(stranger, 43, 1));
	KUNIT_ASSERT_PTR_EQ(test, stranger, xa_load(&other->qps, 10));
	put_cqe(cq, i++, 9, OHCA_CQE_SEND, 1, 0);		/* inside a WQE */
	put_cqe(cq, i++, 9, OHCA_CQE_SEND, 2, 0);		/* not posted */
	put_cqe(cq, i++, 9, OHCA_CQE_SEND, 8, 0);		/* outside the ring */
	put_cqe(cq, i++, 9, OHCA_CQE_SEND, U32_MAX, 0);
	put_cqe(cq, i++, 9, 0, 0, 0);				/* no receive WQE */
	put_cqe(cq, i++, 10, OHCA_CQE_SEND, 0, 0);		/* QP of another CQ */
	put_cqe(cq, i++, 12, OHCA_CQE_SEND, 0, 0);		/* no such QP */
	put_cqe(cq, i++, U32_MAX, OHCA_CQE_SEND, 0, 0);
	KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 4, wc));
	KUNIT_EXPECT_EQ(test, 5, atomic_read(&dev->bad_cqes));
	KUNIT_EXPECT_EQ(test, i, cq->ci);
	put_cqe(cq, i++, 9, OHCA_CQE_SEND, 0, 0);
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 4, wc));
	KUNIT_EXPECT_EQ(test, 42, wc[0].wr_id);
	/* a second CQE of the same WQE */
	put_cqe(cq, i++, 9, OHCA_CQE_SEND, 0, 0);
	KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 4, wc));
	ohca_test_end(dev);
}

/* If all entries of the ring are valid, ohca_poll_cq() returns after one ring. */
static void endless_cq(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 2);
	struct ib_wc wc;
	u32 i;

	for (i = 0; i < 4; i++)
		put_cqe(cq, i, 1234, OHCA_CQE_SEND, 0, 0);
	KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 1, &wc));
	KUNIT_EXPECT_EQ(test, 4, cq->ci);
	ohca_test_end(dev);
}

static void free_srq(void *arg)
{
	struct ohca_srq *srq = arg;

	kvfree(srq->shadow);
	kvfree(srq->next);
}

static struct ohca_srq *make_srq(struct kunit *test, struct ohca_dev *dev, u32 log)
{
	struct ohca_srq *srq = ohca_test_alloc(test, sizeof(*srq));

	srq->ibsrq.device = &dev->ibdev;
	srq->log = log;
	srq->log_stride = 6;
	srq->max_sge = 3;
	srq->srqn = 33;
	srq->room = 1u << log;
	spin_lock_init(&srq->lock);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_srq, srq));
	KUNIT_ASSERT_EQ(test, 0, ohca_srq_grow(srq, 1u << log));
	ohca_test_buf(test, &srq->buf, ohca_srq_buf_size(log, 6));
	srq->db = ohca_buf_at(&srq->buf, 0);
	return srq;
}

static int post_srq_one(struct ohca_srq *srq, u64 wr_id)
{
	struct ib_sge sge = { .addr = 0x1000, .length = 64, .lkey = 7 };
	struct ib_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	const struct ib_recv_wr *bad;

	return ohca_post_srq_recv(&srq->ibsrq, &wr, &bad);
}

static u64 srq_wqe_id(struct ohca_srq *srq, u32 i)
{
	struct ohca_hw_rwqe_ctrl *ctrl = ohca_buf_at(&srq->buf, OHCA_RQ_RING_OFFSET + i * 64);

	return le64_to_cpu(ctrl->wr_id);
}

/* WQEs of an SRQ complete in any order, each once. */
static void srq_any_order(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 4);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 2);
	struct ohca_srq *srq = make_srq(test, dev, 2);
	struct ib_wc wc;
	u64 id;

	qp->ibqp.srq = &srq->ibsrq;
	qp->has_rq = false;
	KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, 100));
	KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, 101));
	KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, 102));
	KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, 103));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_srq_one(srq, 104));

	put_cqe(cq, 0, 9, OHCA_CQE_SRQ, 0, srq_wqe_id(srq, 2));
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
	KUNIT_EXPECT_EQ(test, 102, wc.wr_id);
	put_cqe(cq, 1, 9, OHCA_CQE_SRQ, 0, srq_wqe_id(srq, 2));
	KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 1, &wc));
	put_cqe(cq, 2, 9, OHCA_CQE_SRQ, 0, 4);
	KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 1, &wc));
	put_cqe(cq, 3, 9, OHCA_CQE_SRQ, 0, U64_MAX);
	KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 1, &wc));
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&dev->bad_cqes));

	KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, 105));
	id = srq_wqe_id(srq, 0);
	KUNIT_EXPECT_EQ(test, 5, le32_to_cpu(srq->db->rq_pi));
	put_cqe(cq, 4, 9, OHCA_CQE_SRQ, 0, id);
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
	KUNIT_EXPECT_EQ(test, 105, wc.wr_id);
	ohca_test_end(dev);
}

/* Completes the WQE at @i by CQE @cqe. Returns its wr_id. */
static u64 srq_take(struct kunit *test, struct ohca_srq *srq, struct ohca_cq *cq, u32 i, u32 cqe)
{
	struct ib_wc wc;

	put_cqe(cq, cqe, 9, OHCA_CQE_SRQ, 0, srq_wqe_id(srq, i & ((1u << srq->log) - 1)));
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
	return wc.wr_id;
}

/* Copies the WQEs [@ci, @pi) to @buf, a ring of 1 << @log WQEs, like the device. */
static void srq_device_copy(struct ohca_srq *srq, struct ohca_buf *buf, u32 log, u32 ci, u32 pi)
{
	for (; ci != pi; ci++)
		memcpy(ohca_buf_at(buf, OHCA_RQ_RING_OFFSET + (ci & ((1u << log) - 1)) * 64),
		       ohca_buf_at(&srq->buf, OHCA_RQ_RING_OFFSET +
				   (ci & ((1u << srq->log) - 1)) * 64), 64);
}

/* Resize to 16 and to 2 WQEs, with posts between the copies of the device and the driver. */
static void srq_resize(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 6);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 2);
	struct ohca_srq *srq = make_srq(test, dev, 2);
	u32 posted = 0, taken = 0, i;
	struct ohca_buf buf = {};

	qp->ibqp.srq = &srq->ibsrq;
	qp->has_rq = false;
	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, posted++));
	KUNIT_EXPECT_EQ(test, 0, srq_take(test, srq, cq, 0, taken++));
	/* two WQEs are outstanding */
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_srq_narrow(srq, 1));
	KUNIT_EXPECT_EQ(test, 0, ohca_srq_narrow(srq, 2));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_srq_one(srq, 99));
	/* the device has refused the resize */
	ohca_srq_move(srq, NULL, 1, 0);
	KUNIT_EXPECT_EQ(test, 0, post_srq_one(srq, posted++));

	/* to 16: one WQE is posted after the device has copied */
	ohca_test_buf(test, &buf, ohca_srq_buf_size(4, 6));
	KUNIT_ASSERT_EQ(test, 0, ohca_srq_grow(srq, 16));
	KUNIT_ASSERT_EQ(test, 0, ohca_srq_narrow(srq, 16));
	srq_device_copy(srq, &buf, 4, taken, posted);
	KUNIT_EXPECT_EQ(test, 0, post_srq_one(srq, posted++));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_srq_one(srq, 99));
	ohca_srq_move(srq, &buf, 4, posted - 1);
	KUNIT_EXPECT_EQ(test, posted, le32_to_cpu(srq->db->rq_pi));
	KUNIT_EXPECT_EQ(test, 33 | (u64)posted << 32, readq(dev->uar + OHCA_UAR_SRQ));
	while (posted - taken < 16)
		KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, posted++));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_srq_one(srq, 99));
	for (i = 0; i < 14; i++, taken++)
		KUNIT_ASSERT_EQ(test, taken, srq_take(test, srq, cq, taken, taken));

	/* to 2; the index of the device is out of range */
	memset(&buf, 0, sizeof(buf));
	ohca_test_buf(test, &buf, ohca_srq_buf_size(1, 6));
	KUNIT_ASSERT_EQ(test, 0, ohca_srq_grow(srq, 2));
	KUNIT_ASSERT_EQ(test, 0, ohca_srq_narrow(srq, 2));
	ohca_srq_move(srq, &buf, 1, posted + 12345);
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_srq_one(srq, 99));
	for (i = 0; i < 10; i++, taken++) {
		KUNIT_ASSERT_EQ(test, taken, srq_take(test, srq, cq, taken, taken));
		KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, posted++));
		KUNIT_ASSERT_EQ(test, -ENOMEM, post_srq_one(srq, 99));
	}
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&dev->bad_cqes));
	ohca_test_end(dev);
}

/* Makes memory for the queues of a QP, as in ohca_test_qp(). */
static void make_mem(struct kunit *test, struct ohca_qp_mem *mem, u32 log)
{
	memset(mem, 0, sizeof(*mem));
	mem->log_sq = log;
	mem->log_rq = log;
	mem->sq = ohca_test_alloc(test, sizeof(*mem->sq) << log);
	mem->rq = ohca_test_alloc(test, sizeof(*mem->rq) << log);
	ohca_test_buf(test, &mem->buf, ohca_qp_buf_size(1, log, 6, log));
}

/* Completes WQE @i of QP 9, whose wr_id is @i, by CQE @cqe. */
static void expect_one(struct kunit *test, struct ohca_cq *cq, u32 cqe, u8 flags, u32 i)
{
	struct ib_wc wc;

	put_cqe(cq, cqe, 9, flags, i, 0);
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
	KUNIT_ASSERT_EQ(test, i, wc.wr_id);
}

/*
 * Resize to 16 and to 2 WQEs, with posts between the copies of the device and the driver, and with
 * older CQEs. The test does not copy WQEs for the device, because the driver does not read them.
 */
static void qp_resize(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 6);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 2);
	struct ohca_resp_resize_qp at = {};
	struct ohca_qp_mem mem;
	u32 i, cqe = 0;
	struct ib_wc wc;

	qp->features = BIT_ULL(OHCA_FEATURE_QP_RESIZE);
	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, 0, post_one(qp, i, 1));
		KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, i, 64));
	}
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_qp_narrow(qp, 2, 16));
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_qp_narrow(qp, 16, 2));
	/* the device has refused the resize */
	KUNIT_EXPECT_EQ(test, 0, ohca_qp_narrow(qp, 3, 3));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_one(qp, 99, 1));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_recv_one(qp, 99, 64));
	ohca_qp_move(qp, NULL, &at);

	/* to 16: one WQE of each queue is posted after the device has copied */
	make_mem(test, &mem, 4);
	KUNIT_ASSERT_EQ(test, 0, ohca_qp_narrow(qp, 16, 16));
	at.sq_pi = cpu_to_le32(3);
	at.rq_pi = cpu_to_le32(3);
	KUNIT_ASSERT_EQ(test, 0, post_one(qp, 3, 1));
	KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, 3, 64));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_one(qp, 99, 1));
	ohca_qp_move(qp, &mem, &at);
	KUNIT_EXPECT_EQ(test, 4, le32_to_cpu(qp->db->sq_pi));
	KUNIT_EXPECT_EQ(test, 4, le32_to_cpu(qp->db->rq_pi));
	KUNIT_EXPECT_EQ(test, 9 | 4ull << 32, readq(dev->uar + OHCA_UAR_SQ));
	KUNIT_EXPECT_EQ(test, 9 | 4ull << 32, readq(dev->uar + OHCA_UAR_RQ));
	KUNIT_EXPECT_MEMEQ(test, ohca_buf_at(&qp->buf, qp->sq.off + 3 * OHCA_BB_SIZE),
			   ohca_buf_at(&mem.buf, ohca_sq_offset(1, 2, 6) + 3 * OHCA_BB_SIZE),
			   OHCA_BB_SIZE);
	KUNIT_EXPECT_MEMEQ(test, ohca_buf_at(&qp->buf, OHCA_RQ_RING_OFFSET + 3 * 64),
			   ohca_buf_at(&mem.buf, OHCA_RQ_RING_OFFSET + 3 * 64), 64);
	for (i = 4; i < 16; i++) {
		KUNIT_ASSERT_EQ(test, 0, post_one(qp, i, 1));
		KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, i, 64));
	}
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_one(qp, 99, 1));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_recv_one(qp, 99, 64));
	for (i = 0; i < 14; i++) {
		expect_one(test, cq, cqe++, OHCA_CQE_SEND, i);
		expect_one(test, cq, cqe++, 0, i);
	}

	/* to 2: the indices of the device are out of range, and one CQE is older */
	make_mem(test, &mem, 1);
	KUNIT_ASSERT_EQ(test, 0, ohca_qp_narrow(qp, 2, 2));
	put_cqe(cq, cqe++, 9, OHCA_CQE_SEND, 14, 0);
	at.sq_pi = cpu_to_le32(12345);
	at.rq_pi = cpu_to_le32(U32_MAX);
	ohca_qp_move(qp, &mem, &at);
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_recv_one(qp, 99, 64));
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 1, &wc));
	KUNIT_EXPECT_EQ(test, 14, wc.wr_id);
	for (i = 16; i < 30; i++) {
		KUNIT_ASSERT_EQ(test, 0, post_one(qp, i, 1));
		expect_one(test, cq, cqe++, OHCA_CQE_SEND, i - 1);
		expect_one(test, cq, cqe++, 0, i - 2);
		KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, i, 64));
	}
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&dev->bad_cqes));
	/* the index is free running, not modulo the ring size */
	put_cqe(cq, cqe++, 9, OHCA_CQE_SEND, 29 - 2, 0);
	KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 1, &wc));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&dev->bad_cqes));
	ohca_test_end(dev);
}

/* ohca_cq_clean() drops the CQEs of one QP only, and frees their WQEs of an SRQ. */
static void cq_clean(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 2);
	struct ohca_qp *stays = ohca_test_qp(test, dev, cq, 10, 2);
	struct ohca_srq *srq = make_srq(test, dev, 1);
	struct ib_wc wc[4];

	qp->ibqp.srq = &srq->ibsrq;
	KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, 1));
	KUNIT_ASSERT_EQ(test, 0, post_srq_one(srq, 2));
	KUNIT_ASSERT_EQ(test, 0, post_one(qp, 3, 1));
	KUNIT_ASSERT_EQ(test, 0, post_one(stays, 4, 1));
	put_cqe(cq, 0, 9, OHCA_CQE_SEND, 0, 0);
	put_cqe(cq, 1, 10, OHCA_CQE_SEND, 0, 0);
	put_cqe(cq, 2, 9, OHCA_CQE_SRQ, 0, srq_wqe_id(srq, 1));
	ohca_cq_clean(cq, qp);
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 4, wc));
	KUNIT_EXPECT_EQ(test, 4, wc[0].wr_id);
	KUNIT_EXPECT_EQ(test, 0, post_srq_one(srq, 5));
	KUNIT_EXPECT_EQ(test, -ENOMEM, post_srq_one(srq, 6));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&dev->bad_cqes));
	ohca_test_end(dev);
}

/* Outstanding WQEs of a quiet device are flushed, each once. */
static void fatal_flush(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 3);
	int missed = IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS;
	struct ib_wc wc[8];
	int i;

	KUNIT_ASSERT_EQ(test, 0, post_one(qp, 0, 3));
	KUNIT_ASSERT_EQ(test, 0, post_one(qp, 1, 1));
	KUNIT_ASSERT_EQ(test, 0, post_recv_one(qp, 2, 64));
	dev->life = OHCA_DYING;
	/* not flushed yet: the device may still write to the posted buffers */
	KUNIT_ASSERT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 8, wc));
	dev->life = OHCA_QUIET;
	KUNIT_EXPECT_EQ(test, 1, ohca_req_notify_cq(&cq->ibcq, missed));
	KUNIT_ASSERT_EQ(test, 2, ohca_poll_cq(&cq->ibcq, 2, wc));
	KUNIT_ASSERT_EQ(test, 1, ohca_poll_cq(&cq->ibcq, 6, wc + 2));
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, i, wc[i].wr_id);
		KUNIT_EXPECT_EQ(test, IB_WC_WR_FLUSH_ERR, wc[i].status);
		KUNIT_EXPECT_PTR_EQ(test, &qp->ibqp, wc[i].qp);
	}
	KUNIT_EXPECT_EQ(test, 0, ohca_poll_cq(&cq->ibcq, 8, wc));
	KUNIT_EXPECT_EQ(test, 0, ohca_req_notify_cq(&cq->ibcq, missed));
	ohca_test_end(dev);
}

/* struct flush_seen - @calls: calls of the handler; @closed: softirqs were disabled */
struct flush_seen {
	u32 calls;
	bool closed;
};

static void flush_seen(struct ib_cq *ibcq, void *context)
{
	struct flush_seen *seen = context;

	seen->calls++;
	seen->closed = softirq_count();
}

/* The handler of a CQ of a dead device is called with softirqs disabled. */
static void fatal_wakes(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct flush_seen seen = {};

	ohca_fatal_init(dev);
	ohca_flush_init(dev);
	put_cqe(cq, 0, 1, OHCA_CQE_SEND, 0, 0);
	cq->ibcq.comp_handler = flush_seen;
	cq->ibcq.cq_context = &seen;
	ohca_flush_kick(dev);
	flush_work(&dev->flush_work);
	KUNIT_EXPECT_EQ(test, 1, seen.calls);
	KUNIT_EXPECT_TRUE(test, seen.closed);
	KUNIT_EXPECT_EQ(test, 1, refcount_read(&cq->obj.ref));
	ohca_test_end(dev);
}

/* Only handlers of CQs with outstanding WQEs are called, and none of an IB_POLL_DIRECT CQ. */
static void fatal_wakes_whom(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *idle = ohca_test_cq(test, dev, 3);
	struct ohca_cq *busy = ohca_test_cq(test, dev, 3);
	struct ohca_cq *direct = ohca_test_cq(test, dev, 3);
	struct ohca_qp *polled = ohca_test_qp(test, dev, direct, 10, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, busy, 9, 3);
	struct flush_seen seen[3] = {};

	ohca_fatal_init(dev);
	ohca_flush_init(dev);
	idle->ibcq.cq_context = &seen[0];
	busy->ibcq.cq_context = &seen[1];
	direct->ibcq.cq_context = &seen[2];
	idle->ibcq.comp_handler = flush_seen;
	busy->ibcq.comp_handler = flush_seen;
	direct->ibcq.comp_handler = flush_seen;
	direct->ibcq.poll_ctx = IB_POLL_DIRECT;
	KUNIT_ASSERT_EQ(test, 0, post_one(qp, 0, 3));
	KUNIT_ASSERT_EQ(test, 0, post_one(polled, 0, 3));
	ohca_flush_kick(dev);
	flush_work(&dev->flush_work);
	KUNIT_EXPECT_EQ(test, 0, seen[0].calls);
	KUNIT_EXPECT_EQ(test, 1, seen[1].calls);
	KUNIT_EXPECT_EQ(test, 0, seen[2].calls);
	/* an event for an IB_POLL_DIRECT CQ, or for a CQ that is not armed, is dropped */
	KUNIT_EXPECT_FALSE(test, ohca_cq_comp_event(busy));
	KUNIT_EXPECT_EQ(test, 0, ohca_req_notify_cq(&busy->ibcq, IB_CQ_NEXT_COMP));
	KUNIT_EXPECT_TRUE(test, ohca_cq_comp_event(busy));
	KUNIT_EXPECT_FALSE(test, ohca_cq_comp_event(busy));
	KUNIT_EXPECT_EQ(test, 1, busy->arm_sn);
	KUNIT_EXPECT_FALSE(test, ohca_cq_comp_event(direct));
	KUNIT_EXPECT_EQ(test, 2, seen[1].calls);
	KUNIT_EXPECT_EQ(test, 0, seen[2].calls);
	ohca_test_end(dev);
}

static void notify(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 2);
	void __iomem *db = dev->uar + OHCA_UAR_CQ_ARM;
	struct ib_wc wc;

	KUNIT_EXPECT_EQ(test, 0, ohca_req_notify_cq(&cq->ibcq, IB_CQ_NEXT_COMP));
	KUNIT_EXPECT_EQ(test, 5, readq(db));
	cq->arm_sn = 6;
	put_cqe(cq, 0, 1, OHCA_CQE_SEND, 0, 0);
	ohca_poll_cq(&cq->ibcq, 1, &wc);
	KUNIT_EXPECT_EQ(test, 0, ohca_req_notify_cq(&cq->ibcq, IB_CQ_SOLICITED));
	KUNIT_EXPECT_EQ(test, 5 | 1 << 24 | 2 << 25 | 1ull << 32, readq(db));
	/* a CQ that is being destroyed is not armed */
	cq->gone = true;
	writeq(0, db);
	KUNIT_EXPECT_EQ(test, 0, ohca_req_notify_cq(&cq->ibcq, IB_CQ_NEXT_COMP));
	KUNIT_EXPECT_EQ(test, 0, readq(db));
	ohca_test_end(dev);
}

/* Each rewind resets only the record of its own queue, so that a post between them is kept. */
static void rewind(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 3, 3);
	u32 i;

	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, 0, post_one(qp, i, 1));
		KUNIT_EXPECT_EQ(test, 0, post_recv_one(qp, i, 8));
	}
	qp->db->sq_event = cpu_to_le32(2);
	qp->db->sq_ci = cpu_to_le32(1);
	qp->db->rq_event = cpu_to_le32(2);
	qp->db->rq_ci = cpu_to_le32(1);
	spin_lock_irq(&qp->sq.lock);
	ohca_sq_rewind(qp);
	spin_unlock_irq(&qp->sq.lock);
	KUNIT_EXPECT_EQ(test, 0, qp->sq.head | qp->sq.tail | le32_to_cpu(qp->db->sq_pi) |
				 le32_to_cpu(qp->db->sq_event) | le32_to_cpu(qp->db->sq_ci));
	/* a consumer posts to the SQ before the RQ is rewound */
	KUNIT_EXPECT_EQ(test, 0, post_one(qp, 7, 1));
	KUNIT_EXPECT_EQ(test, 3, le32_to_cpu(qp->db->rq_pi));
	spin_lock_irq(&qp->rq.lock);
	ohca_rq_rewind(qp);
	spin_unlock_irq(&qp->rq.lock);
	KUNIT_EXPECT_EQ(test, 0, qp->rq.head | qp->rq.tail | le32_to_cpu(qp->db->rq_pi) |
				 le32_to_cpu(qp->db->rq_event) | le32_to_cpu(qp->db->rq_ci));
	KUNIT_EXPECT_EQ(test, 1, le32_to_cpu(qp->db->sq_pi));
	KUNIT_EXPECT_EQ(test, 1, qp->sq.head);
	ohca_test_end(dev);
}

static void eq_phase(struct kunit *test)
{
	struct ohca_hw_eqe eqe = { .phase = 1 };

	KUNIT_EXPECT_TRUE(test, ohca_eqe_valid(&eqe, 0, 5));
	KUNIT_EXPECT_TRUE(test, ohca_eqe_valid(&eqe, 31, 5));
	KUNIT_EXPECT_FALSE(test, ohca_eqe_valid(&eqe, 32, 5));
	KUNIT_EXPECT_TRUE(test, ohca_eqe_valid(&eqe, 64, 5));
	eqe.phase = 0;
	KUNIT_EXPECT_FALSE(test, ohca_eqe_valid(&eqe, 0, 5));
	KUNIT_EXPECT_TRUE(test, ohca_eqe_valid(&eqe, 32, 5));
	KUNIT_EXPECT_TRUE(test, ohca_eqe_valid(&eqe, U32_MAX, 5));
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(sq_fill_and_drain),
	KUNIT_CASE(sq_unsignaled),
	KUNIT_CASE(sq_missing),
	KUNIT_CASE(sq_doorbell),
	KUNIT_CASE(rq_in_order),
	KUNIT_CASE(rq_too_long),
	KUNIT_CASE(datagram_too_long),
	KUNIT_CASE(datagram_too_short),
	KUNIT_CASE(hostile_cqes),
	KUNIT_CASE(endless_cq),
	KUNIT_CASE(srq_any_order),
	KUNIT_CASE(srq_resize),
	KUNIT_CASE(qp_resize),
	KUNIT_CASE(cq_clean),
	KUNIT_CASE(fatal_flush),
	KUNIT_CASE(fatal_wakes),
	KUNIT_CASE(fatal_wakes_whom),
	KUNIT_CASE(notify),
	KUNIT_CASE(rewind),
	KUNIT_CASE(eq_phase),
	{}
};

static struct kunit_suite ring_suite = {
	.name = "ohca-ring",
	.test_cases = ring_cases,
};

kunit_test_suite(ring_suite);
