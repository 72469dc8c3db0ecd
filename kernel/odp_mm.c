// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging: limits of the kernel memory that the regions of an address space use.
 *
 * The core's tables of a region are kernel memory that is charged to no process, and a process
 * need not touch the memory that it registers. So the tables have two limits. The tables of all
 * regions of an address space on a device use at most 1/16 of the machine's memory, which is
 * enough for regions of 16 times that memory. Processes may fork, and there may be several
 * devices; so the tables of all regions of the machine use at most 1/8, in the order of
 * registration.
 *
 * An implicit region is charged for one child when it is registered, so that it can always
 * resolve a fault.
 */
#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "dev.h"
#include "odp.h"

#define OHCA_ODP_SHARE	16	/* tables of an address space: 1/16 of all memory */
#define OHCA_ODP_SPACES	2	/* all tables: twice the limit of an address space */

/* Bytes for each page in the core's tables pfn_list and dma_list; some kernels lack dma_list. */
#define OHCA_ODP_ENTRY	(sizeof(unsigned long) + sizeof(dma_addr_t))

/* Entries of the tables of all address spaces and devices. */
static atomic64_t ohca_odp_total;

/**
 * ohca_odp_mm_get - look the caller's address space up, or create its structure
 * @dev: the device
 *
 * Process context of the owner of the address space.
 * Return: the address space with a reference, or NULL if there is no memory.
 */
struct ohca_odp_mm *ohca_odp_mm_get(struct ohca_dev *dev)
{
	struct ohca_odp_mm *odp;

	mutex_lock(&dev->odp_lock);
	list_for_each_entry(odp, &dev->odp_mms, link)
		if (odp->mm == current->mm)
			goto out;
	odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);
	if (odp) {
		odp->dev = dev;
		odp->mm = current->mm;
		mmgrab(odp->mm);
		mutex_init(&odp->lock);
		INIT_LIST_HEAD(&odp->children);
		INIT_DELAYED_WORK(&odp->reap, ohca_odp_reap_work);
		list_add(&odp->link, &dev->odp_mms);
	}
out:
	if (odp)
		odp->refs++;
	mutex_unlock(&dev->odp_lock);
	return odp;
}

/**
 * ohca_odp_mm_put - drop a reference to an address space
 * @odp: the address space; freed with the last reference, when nothing is charged any more
 *
 * Process context.
 */
void ohca_odp_mm_put(struct ohca_odp_mm *odp)
{
	struct ohca_dev *dev = odp->dev;
	bool last;

	mutex_lock(&dev->odp_lock);
	last = !--odp->refs;
	if (last)
		list_del(&odp->link);
	mutex_unlock(&dev->odp_lock);
	if (!last)
		return;
	/* there are no children any more, so nothing queues it again */
	cancel_delayed_work_sync(&odp->reap);
	WARN_ON_ONCE(odp->entries);
	mmdrop(odp->mm);
	kfree(odp);
}

/** ohca_odp_limit - entries that the tables of one address space may have; any context */
u64 ohca_odp_limit(void)
{
	return ((u64)totalram_pages() << PAGE_SHIFT) / OHCA_ODP_SHARE / OHCA_ODP_ENTRY;
}

/**
 * ohca_odp_charge - charge table entries before they are allocated
 * @odp: the address space
 * @entries: number of entries
 *
 * Under the lock of @odp.
 * Return: false if they exceed the limit of the address space or that of all address spaces.
 */
bool ohca_odp_charge(struct ohca_odp_mm *odp, u64 entries)
{
	u64 limit = ohca_odp_limit(), most = limit * OHCA_ODP_SPACES;
	s64 total = atomic64_read(&ohca_odp_total);

	if (odp->entries > limit || entries > limit - odp->entries)
		return false;
	do {
		if (total > most - entries)
			return false;
	} while (!atomic64_try_cmpxchg(&ohca_odp_total, &total, total + entries));
	odp->entries += entries;
	return true;
}

/** ohca_odp_uncharge - undo ohca_odp_charge(); under the lock of @odp */
void ohca_odp_uncharge(struct ohca_odp_mm *odp, u64 entries)
{
	odp->entries -= entries;
	atomic64_sub(entries, &ohca_odp_total);
}
