/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Helpers of the unit tests: a device, queues and doorbell pages that are plain memory, so
 * that a test can act as the hardware.
 */
#ifndef OHCA_TEST_H
#define OHCA_TEST_H

#include <linux/io.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <kunit/test.h>

#include "buf.h"
#include "cq.h"
#include "dev.h"
#include "obj.h"
#include "qp.h"

/** ohca_test_alloc - allocate zeroed memory, which is freed at the end of the test */
static inline void *ohca_test_alloc(struct kunit *test, size_t size)
{
	void *p = kunit_kzalloc(test, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, p);
	return p;
}

/** ohca_test_dev - a device without hardware; its pages are plain memory */
static inline struct ohca_dev *ohca_test_dev(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_alloc(test, sizeof(*dev));

	dev->regs = (void __force __iomem *)ohca_test_alloc(test, OHCA_CTRL_BAR_SIZE);
	writel(OHCA_MAGIC, dev->regs + OHCA_REG_MAGIC);
	dev->uar = (void __force __iomem *)ohca_test_alloc(test, PAGE_SIZE);
	mutex_init(&dev->kqp_lock);
	xa_init(&dev->qps);
	xa_init(&dev->cqs);
	xa_init(&dev->srqs);
	return dev;
}

/** ohca_test_buf - buffer of one piece */
static inline void ohca_test_buf(struct kunit *test, struct ohca_buf *buf, size_t size)
{
	buf->direct = ohca_test_alloc(test, size);
	buf->size = size;
}

/** ohca_test_cq - kernel CQ of 1 << @log entries */
static inline struct ohca_cq *ohca_test_cq(struct kunit *test, struct ohca_dev *dev, u32 log)
{
	struct ohca_cq *cq = ohca_test_alloc(test, sizeof(*cq));

	cq->ibcq.device = &dev->ibdev;
	cq->log_size = log;
	ohca_obj_init(&cq->obj);
	spin_lock_init(&cq->lock);
	xa_init(&cq->qps);
	INIT_LIST_HEAD(&cq->send_qps);
	INIT_LIST_HEAD(&cq->recv_qps);
	ohca_test_buf(test, &cq->buf, ohca_cq_buf_size(log));
	cq->cqn = 5 + dev->num_comp_eqs++;
	KUNIT_ASSERT_EQ(test, 0, xa_insert(&dev->cqs, cq->cqn, &cq->obj, GFP_KERNEL));
	return cq;
}

/** ohca_test_qp - kernel QP in RTS with 1 << @log BBs and WQEs, completing to @cq */
static inline struct ohca_qp *ohca_test_qp(struct kunit *test, struct ohca_dev *dev,
					   struct ohca_cq *cq, u32 handle, u32 log)
{
	struct ohca_qp *qp = ohca_test_alloc(test, sizeof(*qp));

	qp->ibqp.device = &dev->ibdev;
	qp->ibqp.qp_type = IB_QPT_RC;
	qp->ibqp.send_cq = &cq->ibcq;
	qp->ibqp.recv_cq = &cq->ibcq;
	qp->handle = handle;
	qp->state = IB_QPS_RTS;
	qp->has_rq = true;
	ohca_obj_init(&qp->obj);
	spin_lock_init(&qp->sq.lock);
	qp->sq.log = log;
	qp->sq.room = 1u << log;
	qp->sq.max_sge = 4;
	qp->sq.max_inline = 64;
	qp->sq.shadow = ohca_test_alloc(test, sizeof(*qp->sq.shadow) << log);
	spin_lock_init(&qp->rq.lock);
	qp->rq.log = log;
	qp->rq.room = 1u << log;
	qp->rq.log_stride = 6;
	qp->rq.max_sge = 3;
	qp->rq.shadow = ohca_test_alloc(test, sizeof(*qp->rq.shadow) << log);
	qp->sq.off = ohca_sq_offset(1, log, 6);
	ohca_test_buf(test, &qp->buf, ohca_qp_buf_size(1, log, 6, log));
	qp->db = ohca_buf_at(&qp->buf, OHCA_DB_OFFSET);
	list_add_tail(&qp->send_link, &cq->send_qps);
	list_add_tail(&qp->recv_link, &cq->recv_qps);
	KUNIT_ASSERT_EQ(test, 0, xa_insert(&cq->qps, handle, qp, GFP_KERNEL));
	return qp;
}

/** ohca_test_end - free the nodes of the arrays, which are not memory of the test */
static inline void ohca_test_end(struct ohca_dev *dev)
{
	struct ohca_obj *obj;
	unsigned long i;

	xa_for_each(&dev->cqs, i, obj)
		xa_destroy(&container_of(obj, struct ohca_cq, obj)->qps);
	xa_destroy(&dev->qps);
	xa_destroy(&dev->cqs);
	xa_destroy(&dev->srqs);
}

#endif /* OHCA_TEST_H */
