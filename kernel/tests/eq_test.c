// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Delivery of events to handlers, and invalid events. */
#include <rdma/ib_verbs.h>

#include "eq.h"
#include "ohca_test.h"
#include "srq.h"

#define LOG	3	/* log2 of the entries of the EQ */

/** struct seen - counts calls of handlers; @last: type of the last asynchronous event */
struct seen {
	u32 comps;
	u32 asyncs;
	enum ib_event_type last;
};

static void comp(struct ib_cq *ibcq, void *context)
{
	((struct seen *)context)->comps++;
}

static void async(struct ib_event *event, void *context)
{
	struct seen *seen = context;

	seen->asyncs++;
	seen->last = event->event;
}

static struct ohca_dev *make_dev(struct kunit *test)
{
	struct ohca_dev *dev = ohca_test_dev(test);

	dev->pdev = ohca_test_alloc(test, sizeof(*dev->pdev));
	dev->attr.num_ports = 1;
	ohca_ports_init(dev);
	return dev;
}

static void put_eqe(struct ohca_eq *eq, u32 i, u8 type, u32 handle)
{
	struct ohca_hw_eqe *e = ohca_buf_at(&eq->buf, (i & ((1 << LOG) - 1)) * sizeof(*e));

	e->type = type;
	e->handle = cpu_to_le32(handle);
	e->phase = !((i >> LOG) & 1);
}

/* An armed CQ gets one completion event. Other events are counted. All entries are returned. */
static void completions(struct kunit *test)
{
	struct ohca_dev *dev = make_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_eq *eq = ohca_test_alloc(test, sizeof(*eq));
	struct seen seen = {};

	eq->dev = dev;
	eq->eqn = 2;
	eq->log_size = LOG;
	ohca_test_buf(test, &eq->buf, sizeof(struct ohca_hw_eqe) << LOG);
	cq->ibcq.comp_handler = comp;
	cq->ibcq.cq_context = &seen;
	put_eqe(eq, 0, OHCA_EVENT_COMP, cq->cqn);
	/* nothing is handled before the driver has armed the EQ */
	ohca_comp_eq_poll(eq);
	KUNIT_EXPECT_EQ(test, 0, eq->ci);
	eq->armed = true;
	KUNIT_EXPECT_EQ(test, 0, ohca_req_notify_cq(&cq->ibcq, IB_CQ_NEXT_COMP));
	put_eqe(eq, 1, OHCA_EVENT_COMP, cq->cqn);
	put_eqe(eq, 2, OHCA_EVENT_COMP, cq->cqn + 1);
	put_eqe(eq, 3, OHCA_EVENT_CQ_ERR, cq->cqn);
	put_eqe(eq, 4, 0xff, cq->cqn);
	ohca_comp_eq_poll(eq);
	KUNIT_EXPECT_EQ(test, 1, seen.comps);
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&dev->bad_eqes));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&dev->late_eqes));
	KUNIT_EXPECT_EQ(test, 5, eq->ci);
	KUNIT_EXPECT_EQ(test, 2 | 1 << 16 | 5ull << 32, readq(dev->uar + OHCA_UAR_EQ));
	KUNIT_EXPECT_EQ(test, 1, refcount_read(&cq->obj.ref));
	ohca_test_end(dev);
}

/* If all entries of the ring are new, the interrupt handler returns after one ring. */
static void endless(struct kunit *test)
{
	struct ohca_dev *dev = make_dev(test);
	struct ohca_eq *eq = ohca_test_alloc(test, sizeof(*eq));
	u32 i;

	eq->dev = dev;
	eq->log_size = LOG;
	eq->armed = true;
	ohca_test_buf(test, &eq->buf, sizeof(struct ohca_hw_eqe) << LOG);
	for (i = 0; i < 1 << LOG; i++)
		put_eqe(eq, i, OHCA_EVENT_COMP, i);
	ohca_comp_eq_poll(eq);
	KUNIT_EXPECT_EQ(test, 1 << LOG, eq->ci);
	KUNIT_EXPECT_EQ(test, 1 << LOG, atomic_read(&dev->late_eqes));
	ohca_comp_eq_poll(eq);
	KUNIT_EXPECT_EQ(test, 1 << LOG, eq->ci);
	ohca_test_end(dev);
}

static void raise_event(struct ohca_dev *dev, u8 type, u32 handle, u8 port)
{
	struct ohca_hw_eqe eqe = { .type = type, .handle = cpu_to_le32(handle), .port = port };

	ohca_async_event(dev, &eqe);
}

/* An event is delivered to the handler of its object, and to no object of another kind. */
static void objects(struct kunit *test)
{
	struct ohca_dev *dev = make_dev(test);
	struct ohca_cq *cq = ohca_test_cq(test, dev, 3);
	struct ohca_qp *qp = ohca_test_qp(test, dev, cq, 9, 3);
	struct ohca_srq *srq = ohca_test_alloc(test, sizeof(*srq));
	struct seen of_cq = {}, of_qp = {}, of_srq = {};

	KUNIT_ASSERT_EQ(test, 0, xa_insert(&dev->qps, 9, &qp->obj, GFP_KERNEL));
	ohca_obj_init(&srq->obj);
	KUNIT_ASSERT_EQ(test, 0, xa_insert(&dev->srqs, 7, &srq->obj, GFP_KERNEL));
	cq->ibcq.event_handler = async;
	cq->ibcq.cq_context = &of_cq;
	qp->ibqp.event_handler = async;
	qp->ibqp.qp_context = &of_qp;
	srq->ibsrq.event_handler = async;
	srq->ibsrq.srq_context = &of_srq;
	raise_event(dev, OHCA_EVENT_CQ_ERR, cq->cqn, 0);
	KUNIT_EXPECT_EQ(test, 1, of_cq.asyncs);
	KUNIT_EXPECT_EQ(test, IB_EVENT_CQ_ERR, of_cq.last);
	raise_event(dev, OHCA_EVENT_COMM_EST, 9, 0);
	KUNIT_EXPECT_EQ(test, IB_EVENT_COMM_EST, of_qp.last);
	raise_event(dev, OHCA_EVENT_LAST_WQE, 9, 0);
	KUNIT_EXPECT_EQ(test, 2, of_qp.asyncs);
	KUNIT_EXPECT_EQ(test, IB_EVENT_QP_LAST_WQE_REACHED, of_qp.last);
	raise_event(dev, OHCA_EVENT_SRQ_LIMIT, 7, 0);
	KUNIT_EXPECT_EQ(test, 1, of_srq.asyncs);
	KUNIT_EXPECT_EQ(test, IB_EVENT_SRQ_LIMIT_REACHED, of_srq.last);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&dev->late_eqes));
	/* numbers of objects of other kinds, or of no object */
	raise_event(dev, OHCA_EVENT_CQ_ERR, 9, 0);
	raise_event(dev, OHCA_EVENT_QP_FATAL, 7, 0);
	raise_event(dev, OHCA_EVENT_SRQ_ERR, U32_MAX, 0);
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&dev->late_eqes));
	KUNIT_EXPECT_EQ(test, 1 + 2 + 1, of_cq.asyncs + of_qp.asyncs + of_srq.asyncs);
	KUNIT_EXPECT_EQ(test, 1, refcount_read(&qp->obj.ref));
	ohca_test_end(dev);
}

/* Port events before the registration are recorded; events for other ports are bad. */
static void ports(struct kunit *test)
{
	struct ohca_dev *dev = make_dev(test);

	dev->ports[0].pkey_until = 5;
	raise_event(dev, OHCA_EVENT_PKEY_CHANGE, 0, 1);
	KUNIT_EXPECT_EQ(test, 0, dev->ports[0].pkey_until);
	KUNIT_EXPECT_EQ(test, BIT(IB_EVENT_PKEY_CHANGE), dev->early_events[0]);
	raise_event(dev, OHCA_EVENT_LID_CHANGE, 0, 0);
	raise_event(dev, OHCA_EVENT_LID_CHANGE, 0, 2);
	raise_event(dev, OHCA_EVENT_LID_CHANGE, 0, 255);
	raise_event(dev, 0, 0, 1);
	raise_event(dev, OHCA_EVENT_COMP, 5, 1);
	raise_event(dev, 0xff, 0, 1);
	KUNIT_EXPECT_EQ(test, 6, atomic_read(&dev->bad_eqes));
	KUNIT_EXPECT_EQ(test, BIT(IB_EVENT_PKEY_CHANGE), dev->early_events[0]);
	ohca_test_end(dev);
}

static struct kunit_case eq_cases[] = {
	KUNIT_CASE(completions),
	KUNIT_CASE(endless),
	KUNIT_CASE(objects),
	KUNIT_CASE(ports),
	{}
};

static struct kunit_suite eq_suite = {
	.name = "ohca-eq",
	.test_cases = eq_cases,
};

kunit_test_suite(eq_suite);
