// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Event queues and interrupts. Vector 0 has the admin completions and the EQ for page faults, which
 * the interrupt handler handles, and the asynchronous EQ, which the interrupt thread handles
 * because consumers' event handlers may sleep. The other vectors have one completion EQ each.
 *
 * An event is handled in these steps:
 * 1. The device writes an EQE, whose phase bit marks it as new (ohca_eqe_valid()), and raises the
 *    EQ's interrupt if the driver has armed the EQ.
 * 2. The handler copies each entry before it reads fields, since the device can change them
 *    (ohca_eq_next()). It handles at most one ring of entries.
 * 3. The handler looks the number in the entry up in the array of its kind of object. Code that
 *    destroys an object first removes it from the array, then has the device destroy it, and then
 *    waits for the handlers (ohca_sync_events()) and for references (ohca_obj_release()). So an
 *    object that the handler finds exists until the handler drops its reference. An event whose
 *    object it does not find is counted as late. The device does not reuse the number before the
 *    driver has returned the entry, so a late event cannot reach another object.
 * 4. A completion event needs an armed CQ (ohca_cq_comp_event()). The CQ's handler polls the CQ and
 *    arms it again. An asynchronous event calls the consumer's handler in the interrupt thread. A
 *    port event first invalidates the cached tables; before the registration with ib_core the
 *    driver records it (ohca_early_events()). For a page fault see ohca_fault_event().
 * 5. The doorbell returns the entries and arms the EQ. If there is a new entry already, the device
 *    raises the interrupt at once, so no event is missed.
 * An entry with invalid fields is counted as bad and has no other effect: ohca_bad_eqe().
 */
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/log2.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <kunit/visibility.h>
#include <rdma/ib_verbs.h>

#include "aq.h"
#include "buf.h"
#include "cq.h"
#include "dev.h"
#include "eq.h"
#include "fatal.h"
#include "fault.h"
#include "obj.h"
#include "port.h"
#include "qp.h"
#include "srq.h"

#define OHCA_FAULT_EQ_MIN_LOG	8
#define OHCA_ASYNC_EQ_MIN_LOG	13
#define OHCA_EQ_MAX_LOG		20
#define OHCA_COMP_EQ_MAX_LOG	16

/**
 * ohca_eqe_valid - whether the device has written an entry
 * @eqe: the entry
 * @ci: free running consumer index
 * @log_size: log2 of the ring
 */
VISIBLE_IF_KUNIT bool ohca_eqe_valid(const struct ohca_hw_eqe *eqe, u32 ci, u32 log_size)
{
	return (READ_ONCE(eqe->phase) & 1) == !((ci >> log_size) & 1);
}

static struct ohca_hw_eqe *ohca_eq_entry(struct ohca_eq *eq)
{
	u32 i = READ_ONCE(eq->ci) & ((1u << eq->log_size) - 1);

	return ohca_buf_at(&eq->buf, i * sizeof(struct ohca_hw_eqe));
}

static bool ohca_eq_next(struct ohca_eq *eq, struct ohca_hw_eqe *eqe)
{
	struct ohca_hw_eqe *e = ohca_eq_entry(eq);

	if (!ohca_eqe_valid(e, eq->ci, eq->log_size))
		return false;
	dma_rmb();
	*eqe = *e;
	WRITE_ONCE(eq->ci, eq->ci + 1);
	return true;
}

static void ohca_eq_doorbell(struct ohca_eq *eq, bool arm)
{
	ohca_uar_write(eq->dev, OHCA_UAR_EQ,
		       OHCA_FIELD_PREP(OHCA_EQ_DB_EQN, (u64)eq->eqn) |
		       OHCA_FIELD_PREP(OHCA_EQ_DB_ARM, (u64)arm) |
		       OHCA_FIELD_PREP(OHCA_EQ_DB_CI, (u64)eq->ci));
}

static void ohca_bad_eqe(struct ohca_dev *dev, const struct ohca_hw_eqe *eqe)
{
	atomic_inc(&dev->bad_eqes);
	dev_err_ratelimited(&dev->pdev->dev, "invalid event %#x for handle %#x, port %u\n",
			    eqe->type, le32_to_cpu(eqe->handle), eqe->port);
}

/*
 * An event of an object that the driver has already removed from its array. The device may send
 * events of an object until it has executed the destroy command; so this is no error.
 */
static void ohca_late_eqe(struct ohca_dev *dev, const struct ohca_hw_eqe *eqe)
{
	atomic_inc(&dev->late_eqes);
	dev_dbg_ratelimited(&dev->pdev->dev, "event %#x for handle %#x, which was destroyed\n",
			    eqe->type, le32_to_cpu(eqe->handle));
}

/* ohca_comp_eq_poll - handle the entries of a completion EQ, then arm it; hard interrupt context */
VISIBLE_IF_KUNIT void ohca_comp_eq_poll(struct ohca_eq *eq)
{
	struct ohca_dev *dev = eq->dev;
	struct ohca_hw_eqe eqe;
	struct ohca_obj *obj;
	u32 n;

	if (!READ_ONCE(eq->armed))
		return;
	for (n = 0; n < 1u << eq->log_size && ohca_eq_next(eq, &eqe); n++) {
		obj = eqe.type == OHCA_EVENT_COMP ?
		      ohca_obj_get(&dev->cqs, le32_to_cpu(eqe.handle)) : NULL;
		if (obj) {
			if (!ohca_cq_comp_event(container_of(obj, struct ohca_cq, obj)))
				ohca_bad_eqe(dev, &eqe);
			ohca_obj_put(obj);
		} else if (eqe.type == OHCA_EVENT_COMP) {
			ohca_late_eqe(dev, &eqe);
		} else {
			ohca_bad_eqe(dev, &eqe);
		}
		if (n % 64 == 63)
			ohca_eq_doorbell(eq, false);
	}
	ohca_eq_doorbell(eq, true);
}

static irqreturn_t ohca_comp_irq(int irq, void *data)
{
	ohca_comp_eq_poll(data);
	return IRQ_HANDLED;
}

/* Hard interrupt context. */
static void ohca_fault_eq_poll(struct ohca_eq *eq)
{
	struct ohca_hw_fault_eqe fault;
	struct ohca_hw_eqe eqe;
	u32 n;

	if (!READ_ONCE(eq->armed))
		return;
	for (n = 0; n < 1u << eq->log_size && ohca_eq_next(eq, &eqe); n++) {
		static_assert(sizeof(fault) == sizeof(eqe));
		memcpy(&fault, &eqe, sizeof(fault));
		if (!ohca_fault_event(eq->dev, &fault))
			ohca_bad_eqe(eq->dev, &eqe);
	}
	if (n)
		ohca_eq_doorbell(eq, true);
}

/* Dispatches a recorded event of this type to ib_core, if there is one. */
static void ohca_early_event(struct ohca_dev *dev, u32 port, enum ib_event_type type)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = type,
		.element.port_num = port,
	};

	if (test_and_clear_bit(type, &dev->early_events[port - 1]))
		ib_dispatch_event(&event);
}

/**
 * ohca_early_events - dispatch port events that were recorded before the registration
 * @dev: the device, registered
 *
 * Process context. On an event ib_core reads only the tables that the event concerns, so each
 * recorded type is dispatched.
 */
void ohca_early_events(struct ohca_dev *dev)
{
	u32 port, type;

	for (port = 1; port <= dev->attr.num_ports; port++) {
		/* PORT_ERR first, because clients query the state on PORT_ACTIVE */
		ohca_early_event(dev, port, IB_EVENT_PORT_ERR);
		for (type = 0; type <= IB_EVENT_GID_CHANGE; type++)
			ohca_early_event(dev, port, type);
	}
}

/* Dispatches DEVICE_SPEED_CHANGE if a link that was trained again has another rate. */
static void ohca_speed_event(struct ohca_dev *dev, const struct ohca_hw_eqe *eqe)
{
#ifdef OHCA_HAVE_SPEED_EVENT
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_DEVICE_SPEED_CHANGE,
		.element.port_num = eqe->port,
	};

	if (eqe->type == OHCA_EVENT_PORT_ACTIVE && ohca_port_rate_changed(dev, eqe->port))
		ib_dispatch_event(&event);
#endif
}

static void ohca_port_event(struct ohca_dev *dev, const struct ohca_hw_eqe *eqe)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = eqe->type - OHCA_EVENT_ASYNC,
		.element.port_num = eqe->port,
	};

	if (!eqe->port || eqe->port > dev->attr.num_ports) {
		ohca_bad_eqe(dev, eqe);
		return;
	}
	ohca_port_changed(dev, eqe->port);
	if (READ_ONCE(dev->registered)) {
		ib_dispatch_event(&event);
		ohca_speed_event(dev, eqe);
		return;
	}
	set_bit(event.event, &dev->early_events[eqe->port - 1]);
	smp_mb__after_atomic();	/* pairs with ohca_register() */
	if (READ_ONCE(dev->registered))
		ohca_early_events(dev);
}

static void ohca_qp_event(struct ohca_dev *dev, const struct ohca_hw_eqe *eqe)
{
	struct ohca_obj *obj = ohca_obj_get(&dev->qps, le32_to_cpu(eqe->handle));
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = eqe->type - OHCA_EVENT_ASYNC,
	};
	struct ohca_qp *qp;

	if (!obj) {
		ohca_late_eqe(dev, eqe);
		return;
	}
	qp = container_of(obj, struct ohca_qp, obj);
	event.element.qp = &qp->ibqp;
	/* if the device is dead, the driver may have raised this event already */
	if (eqe->type == OHCA_EVENT_LAST_WQE && ohca_is_quiet(dev))
		ohca_qp_last_wqe(qp);
	else if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	ohca_obj_put(obj);
}

static void ohca_cq_event(struct ohca_dev *dev, const struct ohca_hw_eqe *eqe)
{
	struct ohca_obj *obj = ohca_obj_get(&dev->cqs, le32_to_cpu(eqe->handle));
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_CQ_ERR,
	};
	struct ohca_cq *cq;

	if (!obj) {
		ohca_late_eqe(dev, eqe);
		return;
	}
	cq = container_of(obj, struct ohca_cq, obj);
	event.element.cq = &cq->ibcq;
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
	ohca_obj_put(obj);
}

static void ohca_srq_event(struct ohca_dev *dev, const struct ohca_hw_eqe *eqe)
{
	struct ohca_obj *obj = ohca_obj_get(&dev->srqs, le32_to_cpu(eqe->handle));
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = eqe->type - OHCA_EVENT_ASYNC,
	};
	struct ohca_srq *srq;

	if (!obj) {
		ohca_late_eqe(dev, eqe);
		return;
	}
	srq = container_of(obj, struct ohca_srq, obj);
	event.element.srq = &srq->ibsrq;
	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
	ohca_obj_put(obj);
}

/* ohca_async_event - handle an asynchronous event; process context: the interrupt thread */
VISIBLE_IF_KUNIT void ohca_async_event(struct ohca_dev *dev, const struct ohca_hw_eqe *eqe)
{
	switch (eqe->type) {
	case OHCA_EVENT_CQ_ERR:
		ohca_cq_event(dev, eqe);
		break;
	case OHCA_EVENT_QP_FATAL:
	case OHCA_EVENT_QP_REQ_ERR:
	case OHCA_EVENT_QP_ACCESS_ERR:
	case OHCA_EVENT_COMM_EST:
	case OHCA_EVENT_SQ_DRAINED:
	case OHCA_EVENT_PATH_MIG:
	case OHCA_EVENT_PATH_MIG_ERR:
	case OHCA_EVENT_LAST_WQE:
		ohca_qp_event(dev, eqe);
		break;
	case OHCA_EVENT_DEVICE_FATAL:
		ohca_fatal(dev, "the device reported a fatal error");
		break;
	case OHCA_EVENT_PORT_ACTIVE:
	case OHCA_EVENT_PORT_ERR:
	case OHCA_EVENT_LID_CHANGE:
	case OHCA_EVENT_PKEY_CHANGE:
	case OHCA_EVENT_SM_CHANGE:
	case OHCA_EVENT_CLIENT_REREGISTER:
	case OHCA_EVENT_GID_CHANGE:
		ohca_port_event(dev, eqe);
		break;
	case OHCA_EVENT_SRQ_ERR:
	case OHCA_EVENT_SRQ_LIMIT:
		ohca_srq_event(dev, eqe);
		break;
	default:
		ohca_bad_eqe(dev, eqe);
	}
}

static irqreturn_t ohca_async_irq(int irq, void *data)
{
	struct ohca_dev *dev = data;
	struct ohca_eq *eq = &dev->async_eq;

	ohca_aq_poll(&dev->aq);
	if (dev->num_vectors == 1)
		ohca_comp_eq_poll(&dev->comp_eqs[0]);
	if (ohca_has_odp(dev))
		ohca_fault_eq_poll(&dev->fault_eq);
	if (READ_ONCE(eq->armed) &&
	    ohca_eqe_valid(ohca_eq_entry(eq), READ_ONCE(eq->ci), eq->log_size))
		return IRQ_WAKE_THREAD;
	return IRQ_HANDLED;
}

static irqreturn_t ohca_async_thread(int irq, void *data)
{
	struct ohca_dev *dev = data;
	struct ohca_eq *eq = &dev->async_eq;
	struct ohca_hw_eqe eqe;
	u32 n;

	for (n = 0; n < 1u << eq->log_size && ohca_eq_next(eq, &eqe); n++) {
		ohca_async_event(dev, &eqe);
		if (n % 64 == 63)
			ohca_eq_doorbell(eq, false);
	}
	ohca_eq_doorbell(eq, true);
	return IRQ_HANDLED;
}

/**
 * ohca_sync_events - wait for the handlers of earlier events
 * @dev: the device
 * @comp: also wait for completion events; of all EQs, because the device may have used a wrong one
 *
 * Process context, not from an event handler.
 */
void ohca_sync_events(struct ohca_dev *dev, bool comp)
{
	u32 i, num = comp ? dev->num_vectors : 1;

	for (i = 0; i < num; i++)
		synchronize_irq(pci_irq_vector(dev->pdev, i));
}

static int ohca_eq_create(struct ohca_dev *dev, struct ohca_eq *eq, u32 log_size, u32 vector,
			  enum ohca_eq_kind kind)
{
	struct ohca_cmd_create_eq in = {};
	struct ohca_pl pl;
	int ret;

	eq->dev = dev;
	eq->log_size = log_size;
	eq->vector = vector;
	eq->ci = 0;
	ret = ohca_buf_alloc(dev, &eq->buf, sizeof(struct ohca_hw_eqe) << log_size);
	if (ret)
		return ret;
	ret = ohca_pl_from_buf(dev, &pl, &eq->buf);
	if (ret)
		return ret;
	in.pl = pl.hw;
	in.log_size = log_size;
	in.kind = kind;
	in.vector = cpu_to_le16(vector);
	ret = ohca_cmd_create_eq(dev, &in, &eq->eqn);
	ohca_pl_free(dev, &pl);
	if (ret)
		return ret;
	eq->created = true;
	if (eq->eqn > OHCA_EQ_DB_EQN) {
		dev_err(&dev->pdev->dev, "EQ number %#x is too large\n", eq->eqn);
		return -EIO;
	}
	return 0;
}

static int ohca_irq_request(struct ohca_dev *dev, u32 vector)
{
	int irq = pci_irq_vector(dev->pdev, vector);
	struct ohca_eq *eq = vector ? &dev->comp_eqs[vector - 1] : &dev->async_eq;
	unsigned int cpu;
	int ret;

	if (!vector) {
		snprintf(eq->name, sizeof(eq->name), "ohca-async@%s", pci_name(dev->pdev));
		ret = request_threaded_irq(irq, ohca_async_irq, ohca_async_thread, 0, eq->name,
					   dev);
	} else {
		snprintf(eq->name, sizeof(eq->name), "ohca-comp%u@%s", vector - 1,
			 pci_name(dev->pdev));
		ret = request_irq(irq, ohca_comp_irq, 0, eq->name, eq);
	}
	if (ret)
		return ret;
	dev->irq_requested = vector + 1;
	if (vector) {	/* a hint: spread the vectors over the CPUs near the device */
		cpu = cpumask_local_spread(vector - 1, dev_to_node(&dev->pdev->dev));
		irq_set_affinity_and_hint(irq, cpumask_of(cpu));
	}
	return 0;
}

/*
 * Log2 of the entries of the asynchronous EQ: enough for the events of all objects before the
 * thread runs. A QP raises at most an error, LAST_WQE and one more event, a CQ one, an SRQ two.
 */
static u32 ohca_async_eq_log(const struct ohca_hw_device_attr *a)
{
	u64 n = 3ull * le32_to_cpu(a->max_qp) + le32_to_cpu(a->max_cq) +
		2ull * le32_to_cpu(a->max_srq);

	return clamp_t(u32, order_base_2(n + 64), OHCA_ASYNC_EQ_MIN_LOG, OHCA_EQ_MAX_LOG);
}

/**
 * ohca_vectors_wanted - number of MSI-X vectors to request
 * @max_eq: EQs that the device has
 * @limit: vectors that it has
 * @cpus: CPUs that may handle completions
 * @faults: the device has an EQ for page faults
 *
 * Vector 0 has the asynchronous EQ and the EQ for page faults; each other vector has a completion
 * EQ. If there is only one vector, it has the completion EQ, too.
 * Return: the number; 0 if there are too few EQs or vectors.
 */
VISIBLE_IF_KUNIT u32 ohca_vectors_wanted(u32 max_eq, u32 limit, u32 cpus, bool faults)
{
	if (!limit || max_eq < 2u + faults)
		return 0;
	return min3(limit, max_eq - faults, cpus + 1);
}

/**
 * ohca_eqs_init - allocate vectors, create the EQs, request and enable interrupts
 * @dev: enabled device whose attributes are known
 *
 * Process context. Return: 0 or a negative errno. After an error the caller must clean up by
 * ohca_eqs_stop(), a reset and ohca_eqs_free().
 */
int ohca_eqs_init(struct ohca_dev *dev)
{
	u32 limit = OHCA_FIELD_GET(OHCA_LIMITS_VECTORS, readl(dev->regs + OHCA_REG_LIMITS));
	u32 max_eq = le32_to_cpu(dev->attr.max_eq);
	u32 i, want, log_size;
	int ret;

	want = ohca_vectors_wanted(max_eq, limit, num_online_cpus(), ohca_has_odp(dev));
	if (!want) {
		dev_err(&dev->pdev->dev, "too few EQs (%u) or MSI-X vectors (%u)\n", max_eq, limit);
		return -ENODEV;
	}
	/*
	 * Not PCI_IRQ_AFFINITY: the kernel shuts a managed interrupt down with the last CPU
	 * of its mask, and CQs would get no events.
	 */
	ret = pci_alloc_irq_vectors(dev->pdev, 1, want, PCI_IRQ_MSIX);
	if (ret < 0) {
		dev_err(&dev->pdev->dev, "cannot allocate MSI-X vectors: %d\n", ret);
		return ret;
	}
	dev->num_vectors = ret;
	dev->num_comp_eqs = max_t(u32, 1, dev->num_vectors - 1);
	dev->comp_eqs = kcalloc(dev->num_comp_eqs, sizeof(*dev->comp_eqs), GFP_KERNEL);
	if (!dev->comp_eqs)
		return -ENOMEM;

	ret = ohca_eq_create(dev, &dev->async_eq, ohca_async_eq_log(&dev->attr), 0,
			     OHCA_EQ_ASYNC);
	if (ret)
		return ret;
	if (ohca_has_odp(dev)) {
		ret = ohca_faults_init(dev);
		if (ret)
			return ret;
		log_size = max_t(u32, dev->attr.log_max_faults, OHCA_FAULT_EQ_MIN_LOG);
		ret = ohca_eq_create(dev, &dev->fault_eq, log_size, 0, OHCA_EQ_FAULT);
		if (ret)
			return ret;
	}
	log_size = clamp_t(u32, ohca_log2_up(le32_to_cpu(dev->attr.max_cq) / dev->num_comp_eqs), 10,
			   OHCA_COMP_EQ_MAX_LOG);
	for (i = 0; i < dev->num_comp_eqs; i++) {
		ret = ohca_eq_create(dev, &dev->comp_eqs[i], log_size,
				     dev->num_vectors > 1 ? i + 1 : 0, OHCA_EQ_COMP);
		if (ret)
			return ret;
	}
	for (i = 0; i < dev->num_vectors; i++) {
		ret = ohca_irq_request(dev, i);
		if (ret)
			return ret;
	}

	ohca_aq_set_polled(dev, false);
	for (i = 0; i < dev->num_comp_eqs; i++) {
		WRITE_ONCE(dev->comp_eqs[i].armed, true);
		ohca_eq_doorbell(&dev->comp_eqs[i], true);
	}
	WRITE_ONCE(dev->async_eq.armed, true);
	ohca_eq_doorbell(&dev->async_eq, true);
	if (ohca_has_odp(dev)) {
		WRITE_ONCE(dev->fault_eq.armed, true);
		ohca_eq_doorbell(&dev->fault_eq, true);
	}
	return 0;
}

/**
 * ohca_eqs_stop - free the interrupts; when this returns no handler runs
 * @dev: the device
 *
 * Process context. Completions of later commands are polled.
 */
void ohca_eqs_stop(struct ohca_dev *dev)
{
	u32 i;

	if (dev->irq_requested)
		ohca_aq_set_polled(dev, true);
	for (i = 0; i < dev->irq_requested; i++) {
		int irq = pci_irq_vector(dev->pdev, i);

		irq_update_affinity_hint(irq, NULL);
		free_irq(irq, i ? (void *)&dev->comp_eqs[i - 1] : (void *)dev);
	}
	dev->irq_requested = 0;
	if (dev->num_vectors)
		pci_free_irq_vectors(dev->pdev);
	dev->num_vectors = 0;
}

/**
 * ohca_eqs_free - free the memory of the EQs
 * @dev: device that is reset and whose interrupts are freed; process context
 */
void ohca_eqs_free(struct ohca_dev *dev)
{
	u32 i;

	if (ohca_has_odp(dev))
		ohca_faults_free(dev);
	ohca_buf_free(dev, &dev->fault_eq.buf);
	ohca_buf_free(dev, &dev->async_eq.buf);
	for (i = 0; dev->comp_eqs && i < dev->num_comp_eqs; i++)
		ohca_buf_free(dev, &dev->comp_eqs[i].buf);
	kfree(dev->comp_eqs);
	dev->comp_eqs = NULL;
}
