/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA driver: the device; main.c and device.c.
 *
 * Locks, outermost first. A lock is taken under those of the lines before it, if any; locks of one
 * line exclude each other, or their order is said:
 *
 *	ohca_function.lock
 *	ohca_qp.mutex; ohca_cq.resize_lock; ohca_srq.resize_lock
 *	ohca_dev.kqp_lock
 *	ohca_port.lock
 *	ohca_odp_mm.lock, then ohca_paged.lock; ohca_dev.odp_lock
 *	umem_mutex of a struct ib_umem_odp; dma_resv of a dma-buf: the core's and the exporter's
 *	ohca_paged.set_lock
 *	ohca_aq.consumers, then ohca_aq.sem: semaphores, down while a command has a slot
 *	ohca_dev.fatal_lock: a command that times out or must not be refused
 *	ohca_cq.lock: of a QP's two CQs the one with the lower address first
 *	ohca_srq.lock
 *	ohca_sq.lock, then ohca_rq.lock
 *	ohca_aq.lock; xa_lock of ohca_dev.qps, cqs, srqs and paged, and of ohca_cq.qps
 *
 * Those from ohca_cq.lock on are spinlocks, under which nothing sleeps. A completion moves a
 * queue's tail under the CQ's lock and a post its head under the queue's; they meet in acquire and
 * release alone. paged.h says why the locks of on-demand paging are in this order.
 */
#ifndef OHCA_DEV_H
#define OHCA_DEV_H

#include <linux/idr.h>
#include <linux/io.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "aq.h"
#include "eq.h"
#include "ohca_hw.h"
#include "pci.h"
#include "port.h"

struct ohca_fault;

#ifndef CONFIG_64BIT
#error "OpenHCA doorbells need 64-bit MMIO writes"
#endif

/**
 * enum ohca_life - what may still be asked of a device
 * @OHCA_UP: it executes commands
 * @OHCA_UNBORN: it is not identified yet; no command, and no reset
 * @OHCA_DYING: it accepts no command any more and is being reset; it may still do DMA
 * @OHCA_QUIET: it is reset: it does no DMA, so its buffers may be freed
 * @OHCA_WEDGED: it did not answer the reset either: memory that it was given is never freed, and
 *	software completes what it was given as for a quiet one
 *
 * Only ohca_fatal() and ohca_halt() lead to the end; each later state implies those before::
 *
 *   UNBORN --identified--> UP --ohca_fatal(), ohca_halt()--> DYING --reset--> QUIET
 *                                                              |
 *                                                              +--no answer--> WEDGED
 *
 * What else ends has a state of its own:
 * ohca_aq.dead follows DYING, when commands have failed; none is accepted.
 * ohca_function.stopped: no recovery makes another device of the function.
 * ohca_cq.gone: the CQ is being destroyed; a poller arms it no more.
 * ohca_paged.state: LEAVING: the device is deregistering the region, and may refuse its key;
 * GONE: it has, and no page is left to invalidate.
 */
enum ohca_life {
	OHCA_UP,
	OHCA_UNBORN,
	OHCA_DYING,
	OHCA_QUIET,
	OHCA_WEDGED,
};

/**
 * struct ohca_dev - one HCA
 * @ibdev: the core's part; must be first
 * @pdev: its PCI function
 * @fn: the driver's state of that function; NULL in unit tests
 * @regs: BAR 0
 * @uar: doorbell page 0, the kernel's
 * @features: FEATURES_ACK in force
 * @version: register VERSION
 * @reset_ms: longest reset
 * @cmd_ms: longest command
 * @num_uars: doorbell pages
 * @attr: result of QUERY_DEVICE
 * @aq: admin queue
 * @async_eq: EQ of vector 0
 * @fault_eq: EQ for page faults, of vector 0, too
 * @faults: struct ohca_fault by slot
 * @fault_wq: resolves page faults
 * @odp_wq: runs prefetches, and destroys children of implicit regions
 * @prefetches: queued prefetches
 * @comp_eqs: completion EQs
 * @num_comp_eqs: how many
 * @num_vectors: MSI-X vectors
 * @irq_requested: vectors whose interrupt is requested
 * @uars: doorbell pages in use
 * @qps: QPs by handle: struct ohca_obj, as are the next three
 * @cqs: CQs by number
 * @srqs: SRQs by number
 * @paged: regions with on-demand paging, by key
 * @odp_lock: protects @odp_mms
 * @odp_mms: struct ohca_odp_mm, one for each address space with such regions
 * @odp_children: children of implicit regions
 * @ports: by port number - 1
 * @life: what may still be asked of it; set under @fatal_lock, or before anyone knows it
 * @registered: ib_core knows it
 * @early_events: by port number - 1: events before that, bits of enum ib_event_type
 * @fatal_lock: serializes ohca_fatal()
 * @fatal_work: reports the device's end to consumers
 * @flush_work: completes what kernel consumers post after the end
 * @health: reads STATUS every OHCA_HEALTH_PERIOD
 * @kqp_lock: the device does not reuse the handle of a kernel QP before its CQEs are removed
 * @bad_cqes: malformed CQEs, and missing ones
 * @bad_eqes: malformed EQEs
 * @late_eqes: EQEs of objects that are destroyed
 * @debugfs: directory of its state
 */
struct ohca_dev {
	struct ib_device ibdev;
	struct pci_dev *pdev;
	struct ohca_function *fn;
	void __iomem *regs;
	void __iomem *uar;
	u64 features;
	u32 version;
	u32 reset_ms;
	u32 cmd_ms;
	u32 num_uars;
	struct ohca_hw_device_attr attr;
	struct ohca_aq aq;
	struct ohca_eq async_eq;
	struct ohca_eq fault_eq;
	struct ohca_fault *faults;
	struct workqueue_struct *fault_wq;
	struct workqueue_struct *odp_wq;
	atomic_t prefetches;
	struct ohca_eq *comp_eqs;
	u32 num_comp_eqs;
	u32 num_vectors;
	u32 irq_requested;
	struct ida uars;
	struct xarray qps;
	struct xarray cqs;
	struct xarray srqs;
	struct xarray paged;
	struct mutex odp_lock;	/* see above */
	struct list_head odp_mms;
	atomic_t odp_children;
	struct ohca_port ports[OHCA_MAX_PORTS];
	enum ohca_life life;
	bool registered;
	unsigned long early_events[OHCA_MAX_PORTS];
	struct mutex fatal_lock;	/* see above */
	struct work_struct fatal_work;
	struct work_struct flush_work;
	struct delayed_work health;
	struct mutex kqp_lock;	/* see above */
	atomic_t bad_cqes;
	atomic_t bad_eqes;
	atomic_t late_eqes;
	struct dentry *debugfs;
};

static inline struct ohca_dev *to_ohca_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct ohca_dev, ibdev);
}

/** ohca_has - whether a feature, enum ohca_feature, is in force */
static inline bool ohca_has(const struct ohca_dev *dev, enum ohca_feature feature)
{
	return dev->features & BIT_ULL(feature);
}

/** ohca_has_xrc - whether there are XRC domains, SRQs and QPs */
static inline bool ohca_has_xrc(const struct ohca_dev *dev)
{
	return ohca_has(dev, OHCA_FEATURE_XRC) && ohca_has(dev, OHCA_FEATURE_SRQ);
}

/** ohca_has_odp - whether kernel and device have on-demand paging */
static inline bool ohca_has_odp(const struct ohca_dev *dev)
{
	return IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING) && ohca_has(dev, OHCA_FEATURE_ODP);
}

/** ohca_page_sizes - bits of the page sizes that page lists and the device support */
static inline unsigned long ohca_page_sizes(const struct ohca_dev *dev)
{
	return le64_to_cpu(dev->attr.page_size_cap) & GENMASK(OHCA_PL_MAX_SHIFT, OHCA_PL_MIN_SHIFT);
}

/** ohca_max_qp_wr - requests that a queue of a QP may be created for */
static inline u32 ohca_max_qp_wr(const struct ohca_hw_device_attr *a)
{
	return 1u << min(a->log_max_sq_bbs, a->log_max_rq_wqes);
}

/** ohca_is_dead - whether the device accepts no command; any context */
static inline bool ohca_is_dead(const struct ohca_dev *dev)
{
	return READ_ONCE(dev->life) != OHCA_UP;
}

/** ohca_is_wedged - whether memory that the device was given must never be freed; any context */
static inline bool ohca_is_wedged(const struct ohca_dev *dev)
{
	return READ_ONCE(dev->life) == OHCA_WEDGED;
}

/**
 * ohca_is_quiet - whether the device is dead and has stopped all DMA
 * @dev: the device
 *
 * Any context. Only then may software complete what the device was given.
 */
static inline bool ohca_is_quiet(const struct ohca_dev *dev)
{
	return smp_load_acquire(&dev->life) >= OHCA_QUIET;	/* pairs with ohca_quiesce() */
}

/** ohca_uar_write - ring a doorbell of page 0; any context */
static inline void ohca_uar_write(struct ohca_dev *dev, enum ohca_uar_off off, u64 val)
{
	writeq(val, dev->uar + off);
}

/* main.c */
int ohca_attach(struct ohca_function *fn);
void ohca_detach(struct ohca_function *fn);

/* device.c */
extern const struct attribute_group ohca_attr_group;
int ohca_device_init(struct ohca_dev *dev);
u64 ohca_max_dm(const struct ohca_dev *dev);
int ohca_query_device(struct ib_device *ibdev, struct ib_device_attr *props,
		      struct ib_udata *udata);
int ohca_modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *modify);
void ohca_get_dev_fw_str(struct ib_device *ibdev, char *str);

#endif /* OHCA_DEV_H */
