// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The end of a device that failed, hung or was pulled: it is reset, which stops all
 * DMA; commands fail; kernel queues complete in software, so that whoever drains them
 * comes to an end; consumers are told. Then another device is made of the function
 * (ohca_recover()), as if it had been unbound and bound.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "aq.h"
#include "cq.h"
#include "dev.h"
#include "fatal.h"
#include "obj.h"
#include "pci.h"
#include "qp.h"

/*
 * Stops all DMA of the device, however it is. If it is there but does not answer a reset,
 * memory that it was told of will never be freed (ohca_dev.wedged). Process context.
 */
static void ohca_quiesce(struct ohca_dev *dev)
{
	int ret = ohca_reset_hw(dev);

	pci_clear_master(dev->pdev);
	if (ret == -ETIMEDOUT) {
		dev_err(&dev->pdev->dev, "no answer to a reset; its memory is set aside\n");
		dev->wedged = true;
	}
	smp_store_release(&dev->quiet, true);	/* pairs with ohca_is_quiet() */
}

/*
 * Marks the device dead, stops it, and fails its commands, in this order: until it has
 * stopped nothing completes in software, since it may still write to the buffers of what
 * is outstanding. Doorbell pages stay mapped in processes: a device that is reset ignores
 * them. Under ohca_dev.fatal_lock.
 */
static void ohca_give_up(struct ohca_dev *dev)
{
	WRITE_ONCE(dev->fatal, true);
	ohca_quiesce(dev);
	ohca_aq_fail(dev);
}

/**
 * ohca_fatal - declare the device dead
 * @dev: the device
 * @why: for the log
 *
 * Process context, may sleep. Only the first call does anything; all return after the
 * device is quiet and every command has failed.
 */
void ohca_fatal(struct ohca_dev *dev, const char *why)
{
	mutex_lock(&dev->fatal_lock);
	if (!dev->fatal) {
		u32 reason = readl(dev->regs + OHCA_REG_FATAL_REASON);

		dev_err(&dev->pdev->dev, "%s (reason %#x)\n", why, reason);
		ohca_give_up(dev);
		queue_work(system_wq, &dev->fatal_work);
	}
	mutex_unlock(&dev->fatal_lock);
}

/**
 * ohca_halt - stop the device for good, without a word: this kernel ends, or the device
 * @dev: the device
 *
 * Process context. No event that is still to be taken declares it dead any more.
 */
void ohca_halt(struct ohca_dev *dev)
{
	cancel_delayed_work_sync(&dev->health);
	mutex_lock(&dev->fatal_lock);
	if (!dev->fatal) {
		ohca_give_up(dev);
		ohca_flush_kick(dev);
	}
	mutex_unlock(&dev->fatal_lock);
}

/* For those who drain a QP with an SRQ and wait for the device to say so: it is in error. */
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
 * Wakes the pollers of the CQs that hold something or whose queues are to be flushed. A CQ that
 * is being destroyed is not found any more. Handlers are used to interrupts: what they leave to
 * a softirq (NAPI) runs when these are let in again.
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

/**
 * ohca_flush_kick - have the CQs of a dead device polled
 * @dev: the device
 *
 * Any context.
 */
void ohca_flush_kick(struct ohca_dev *dev)
{
	queue_work(system_wq, &dev->flush_work);
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

static void ohca_health_work(struct work_struct *work)
{
	struct ohca_dev *dev = container_of(to_delayed_work(work), struct ohca_dev, health);
	u32 status = readl(dev->regs + OHCA_REG_STATUS);

	if (ohca_is_gone(dev))
		ohca_fatal(dev, "the device is gone");
	else if (status & OHCA_STATUS_FATAL)
		ohca_fatal(dev, "the device raised FATAL");
	else if (!(status & OHCA_STATUS_ENABLED))
		ohca_fatal(dev, "the device was reset behind the driver's back");
	else
		queue_delayed_work(system_wq, &dev->health, OHCA_HEALTH_PERIOD);
}

/** ohca_fatal_init - prepare the work items; before any command */
void ohca_fatal_init(struct ohca_dev *dev)
{
	mutex_init(&dev->fatal_lock);
	INIT_WORK(&dev->fatal_work, ohca_fatal_work);
	INIT_WORK(&dev->flush_work, ohca_flush_work);
	INIT_DELAYED_WORK(&dev->health, ohca_health_work);
}

/** ohca_fatal_stop - no work item runs any more when this returns; process context */
void ohca_fatal_stop(struct ohca_dev *dev)
{
	cancel_delayed_work_sync(&dev->health);
	cancel_work_sync(&dev->fatal_work);
	cancel_work_sync(&dev->flush_work);
}
