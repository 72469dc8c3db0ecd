/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenHCA driver: the device; main.c and device.c.
 *
 * Locks, outermost first. Code may take a lock while it holds locks of earlier lines, not while it
 * holds locks of later lines. Locks of one line are never held together unless their order is
 * given:
 *
 *	ohca_function.lock
 *	ohca_qp.mutex; ohca_cq.resize_lock; ohca_srq.resize_lock
 *	ohca_dev.kqp_lock
 *	ohca_port.lock
 *	ohca_odp_mm.lock, then ohca_paged.lock; ohca_dev.odp_lock
 *	umem_mutex of a struct ib_umem_odp; dma_resv of a dma-buf: the core's and the exporter's
 *	ohca_paged.set_lock
 *	ohca_aq.consumers, then ohca_aq.sem: semaphores, down while a command has a slot
 *	ohca_dev.fatal_lock: after a command that timed out, or that failed and must not fail
 *	ohca_cq.lock: of a QP's two CQs the one with the lower address first
 *	ohca_srq.lock
 *	ohca_sq.lock, then ohca_rq.lock
 *	ohca_aq.lock; xa_lock of ohca_dev.qps, cqs, srqs and paged, and of ohca_cq.qps
 *
 * The locks from ohca_cq.lock on are spinlocks. A completion advances a queue's tail under the CQ's
 * lock, a post advances its head under the queue's lock; only acquire and release order the two.
 * paged.h explains the order of the locks of on-demand paging.
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
 * enum ohca_life - state of a device
 * @OHCA_UP: it executes commands
 * @OHCA_UNBORN: it is not identified yet; the driver sends it no command and no reset
 * @OHCA_DYING: the driver sends no more commands and resets it; it may still do DMA
 * @OHCA_QUIET: it is reset: it does no DMA, so the driver may free its buffers
 * @OHCA_WEDGED: it did not complete the reset: the driver never frees memory that the device may
 *	access; software completes outstanding WQEs as for a quiet device
 *
 * Only ohca_fatal() and ohca_halt() end the state UP::
 *
 *   UNBORN --identified--> UP --ohca_fatal(), ohca_halt()--> DYING --reset--> QUIET
 *                                                              |
 *                                                              +--no answer--> WEDGED
 *
 * Related states:
 * ohca_aq.dead: set after DYING, when all pending commands fail; the queue accepts no command.
 * ohca_function.stopped: recovery does not create another device of the function.
 * ohca_cq.gone: the CQ is being destroyed; pollers do not arm it.
 * ohca_paged.state: LEAVING: the device is deregistering the region, and may refuse its key;
 * GONE: the device has deregistered it, and no page is left to invalidate.
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
 * @reset_ms: time limit of a reset, milliseconds
 * @cmd_ms: time limit of a command, milliseconds
 * @num_uars: doorbell pages
 * @attr: result of QUERY_DEVICE
 * @aq: admin queue
 * @async_eq: EQ of vector 0
 * @fault_eq: EQ for page faults, also of vector 0
 * @faults: struct ohca_fault by slot
 * @fault_wq: resolves page faults
 * @odp_wq: runs prefetches, and destroys children of implicit regions
 * @prefetches: queued prefetches
 * @comp_eqs: completion EQs
 * @num_comp_eqs: number of completion EQs
 * @num_vectors: MSI-X vectors
 * @irq_requested: vectors whose interrupt is requested
 * @uars: doorbell pages in use
 * @qps: QPs by handle: struct ohca_obj
 * @cqs: CQs by number: struct ohca_obj
 * @srqs: SRQs by number: struct ohca_obj
 * @paged: regions with on-demand paging by key: struct ohca_obj
 * @odp_lock: protects @odp_mms
 * @odp_mms: struct ohca_odp_mm, one for each address space with such regions
 * @odp_children: children of implicit regions
 * @ports: by port number - 1
 * @life: enum ohca_life; set under @fatal_lock, or before the device is published
 * @registered: the device is registered with ib_core
 * @early_events: by port number - 1: events before @registered, bits of enum ib_event_type
 * @fatal_lock: serializes ohca_fatal()
 * @fatal_work: reports the failure of the device to consumers
 * @flush_work: calls the handlers of kernel CQs, whose polling flushes the WQEs of a dead device
 * @health: reads STATUS every OHCA_HEALTH_PERIOD
 * @kqp_lock: held from DESTROY_QP of a kernel QP until its CQEs are removed, and during CREATE_QP,
 *	so that no new QP gets its handle before
 * @bad_cqes: CQEs that are malformed or missing
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

/** ohca_page_sizes - mask of the page sizes that page lists and the device support */
static inline unsigned long ohca_page_sizes(const struct ohca_dev *dev)
{
	return le64_to_cpu(dev->attr.page_size_cap) & GENMASK(OHCA_PL_MAX_SHIFT, OHCA_PL_MIN_SHIFT);
}

/** ohca_max_qp_wr - largest number of work requests of a queue of a QP */
static inline u32 ohca_max_qp_wr(const struct ohca_hw_device_attr *a)
{
	return 1u << min(a->log_max_sq_bbs, a->log_max_rq_wqes);
}

/** ohca_is_dead - whether the device accepts no command; any context */
static inline bool ohca_is_dead(const struct ohca_dev *dev)
{
	return READ_ONCE(dev->life) != OHCA_UP;
}

/** ohca_is_wedged - whether memory that the device may access must never be freed; any context */
static inline bool ohca_is_wedged(const struct ohca_dev *dev)
{
	return READ_ONCE(dev->life) == OHCA_WEDGED;
}

/**
 * ohca_is_quiet - whether the device is dead and has stopped all DMA
 * @dev: the device
 *
 * Any context. Software may complete outstanding WQEs only if this returns true.
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
