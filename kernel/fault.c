// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Page faults of the device. The driver has a slot for each fault that the device may have
 * outstanding, so the interrupt handler never drops a fault. A work item resolves and answers it.
 * paged.h lists the steps.
 */
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "aq.h"
#include "dev.h"
#include "fault.h"
#include "paged.h"
#include "trace.h"

#define OHCA_FAULT_MAX	(4ull << 20)	/* largest number of bytes to fault in for one fault */

/**
 * struct ohca_fault - an outstanding page fault
 * @work: resolves and answers the fault
 * @dev: the device
 * @busy: set from the event until just before the answer
 * @id: number of the fault, chosen by the device
 * @key: key of the region
 * @length: bytes that the device is about to access, a hint
 * @addr: device address of the first missing byte
 * @write: the device will write them
 */
struct ohca_fault {
	struct work_struct work;
	struct ohca_dev *dev;
	bool busy;
	u32 id;
	u32 key;
	u32 length;
	u64 addr;
	bool write;
};

static void ohca_fault_work(struct work_struct *work)
{
	struct ohca_fault *f = container_of(work, struct ohca_fault, work);
	enum ohca_want want = f->write ? OHCA_WANT_WRITE : OHCA_WANT_READ;
	struct ohca_dev *dev = f->dev;
	u32 id = f->id;
	struct ohca_paged *p = ohca_paged_get(dev, f->key);
	int ret = 0;

	/* only the first byte is necessary, because the length is a hint */
	if (p) {
		u64 len = min_t(u64, f->length, OHCA_FAULT_MAX);

		ret = ohca_paged_populate(p, f->addr, len, want);
		if (ret && len > 1)
			ret = ohca_paged_populate(p, f->addr, 1, want);
		ohca_paged_put(p);
	}
	trace_ohca_fault(dev, id, f->key, f->addr, f->length, f->write, ret);
	/* before the answer, after which the device may reuse the slot at once */
	smp_store_release(&f->busy, false);	/* pairs with ohca_fault_event() */
	/* if there is no region, the repeated access fails with the right syndrome */
	ohca_cmd_fault_resume(dev, id, ret != 0);
}

/**
 * ohca_fault_event - queue the work of a page fault
 * @dev: the device
 * @eqe: copy of its event
 *
 * Any context.
 * Return: false if the event is malformed or its slot is busy.
 */
bool ohca_fault_event(struct ohca_dev *dev, const struct ohca_hw_fault_eqe *eqe)
{
	u32 id = le32_to_cpu(eqe->id);
	u32 slot = OHCA_FIELD_GET(OHCA_FAULT_SLOT, id);
	struct ohca_fault *f;

	if (eqe->type != OHCA_EVENT_PAGE_FAULT || slot >= 1u << dev->attr.log_max_faults)
		return false;
	f = &dev->faults[slot];
	if (smp_load_acquire(&f->busy))	/* pairs with ohca_fault_work() */
		return false;
	f->busy = true;
	f->id = id;
	f->key = le32_to_cpu(eqe->key);
	f->length = le32_to_cpu(eqe->length);
	f->addr = le64_to_cpu(eqe->addr);
	f->write = eqe->flags & OHCA_FAULT_WRITE;
	queue_work(dev->fault_wq, &f->work);
	return true;
}

/**
 * ohca_faults_init - allocate the slots of page faults and the work queues of on-demand paging
 * @dev: device whose attributes are known
 *
 * Process context. Return: 0 or -ENOMEM; ohca_faults_free() cleans up in both cases.
 */
int ohca_faults_init(struct ohca_dev *dev)
{
	u32 i, n = 1u << dev->attr.log_max_faults;

	/* faulting a page in may wait for storage, and must not delay other faults */
	dev->fault_wq = alloc_workqueue("ohca-fault", WQ_UNBOUND | WQ_HIGHPRI, WQ_MAX_ACTIVE);
	/* for work that no access waits for */
	dev->odp_wq = alloc_workqueue("ohca-odp", WQ_UNBOUND, WQ_MAX_ACTIVE);
	dev->faults = kvcalloc(n, sizeof(*dev->faults), GFP_KERNEL);
	if (!dev->fault_wq || !dev->odp_wq || !dev->faults)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		dev->faults[i].dev = dev;
		INIT_WORK(&dev->faults[i].work, ohca_fault_work);
	}
	return 0;
}

/**
 * ohca_faults_free - wait for all work of on-demand paging, and free the slots
 * @dev: device whose interrupts are freed
 *
 * Process context.
 */
void ohca_faults_free(struct ohca_dev *dev)
{
	if (dev->fault_wq)
		destroy_workqueue(dev->fault_wq);
	dev->fault_wq = NULL;
	if (dev->odp_wq)
		destroy_workqueue(dev->odp_wq);
	dev->odp_wq = NULL;
	kvfree(dev->faults);
	dev->faults = NULL;
}
