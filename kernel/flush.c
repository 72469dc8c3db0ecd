// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * After the failure of a device (fatal.c) the driver completes the WQEs of kernel queues in
 * software, so that consumers that drain a queue do not wait for ever, and raises DEVICE_FATAL.
 * Then it removes the device and creates a new one for the function (ohca_recover()), as if the
 * function had been unbound and bound.
 */
#include <linux/bottom_half.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "cq.h"
#include "dev.h"
#include "fatal.h"
#include "obj.h"
#include "pci.h"
#include "qp.h"

/* Raises LAST_WQE_REACHED for consumers that drain a QP with an SRQ. */
static void ohca_last_wqes(struct ohca_dev *dev)
{
	unsigned long index = 0;
	struct ohca_obj *obj;
	struct ohca_qp *qp;

	while ((obj = ohca_obj_next(&dev->qps, &index))) {
		qp = container_of(obj, struct ohca_qp, obj);
		if (!qp->user && READ_ONCE(qp->state) > IB_QPS_INIT)
			ohca_qp_last_wqe(qp);
		ohca_obj_put(obj);
		index++;
	}
}

/*
 * Calls the completion handlers of CQs that hold CQEs or whose queues have WQEs to flush. A CQ that
 * is being destroyed is not in the array. Handlers expect interrupt context, and raise softirqs
 * (NAPI): local_bh_enable() runs these.
 */
static void ohca_flush_work(struct work_struct *work)
{
	struct ohca_dev *dev = container_of(work, struct ohca_dev, flush_work);
	unsigned long index = 0;
	struct ohca_obj *obj;
	struct ohca_cq *cq;

	while ((obj = ohca_obj_next(&dev->cqs, &index))) {
		cq = container_of(obj, struct ohca_cq, obj);
		if (!cq->umem && ohca_cq_wants_events(cq) && ohca_cq_has_work(cq)) {
			local_bh_disable();
			cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
			local_bh_enable();
		}
		ohca_obj_put(obj);
		index++;
	}
}

static void ohca_fatal_work(struct work_struct *work)
{
	struct ohca_dev *dev = container_of(work, struct ohca_dev, fatal_work);
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_DEVICE_FATAL,
		.element.port_num = 1,
	};

	ohca_flush_kick(dev);
	ohca_last_wqes(dev);
	if (READ_ONCE(dev->registered))
		ib_dispatch_event(&event);
	if (dev->fn)
		ohca_recover(dev->fn);
}

/** ohca_flush_init - prepare the work items; before any command */
void ohca_flush_init(struct ohca_dev *dev)
{
	INIT_WORK(&dev->fatal_work, ohca_fatal_work);
	INIT_WORK(&dev->flush_work, ohca_flush_work);
}
