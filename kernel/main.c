// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The device: handshake, registration with ib_core, and teardown.
 */
#include <linux/delay.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/ohca-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "aq.h"
#include "compat.h"
#include "compat/ops.h"
#include "counters.h"
#include "cq.h"
#include "debugfs.h"
#include "dev.h"
#include "dm.h"
#include "eq.h"
#include "fatal.h"
#include "mr.h"
#include "paged.h"
#include "pci.h"
#include "port.h"
#include "qp.h"
#include "restrack.h"
#include "srq.h"
#include "uctx.h"
#include "verbs.h"
#include "wr.h"

#define OHCA_MAX_MS	30000u	/* upper limit of the device's TIMEOUTS */

static const struct uapi_definition ohca_uapi_defs[] = {
	UAPI_DEF_CHAIN(ohca_dm_defs),
	UAPI_DEF_CHAIN(ohca_pd_defs),
	UAPI_DEF_CHAIN(ohca_ucontext_defs),
	{}
};

/* The functions return -EOPNOTSUPP for operations that the device or the kernel lacks. */
static const struct ib_device_ops ohca_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = OHCA_UVERBS_ABI_VERSION,
	.uverbs_no_driver_id_binding = 1,
	.device_group = &ohca_attr_group,

	.advise_mr = IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING) ? ohca_advise_mr : NULL,
	.alloc_dm = ohca_alloc_dm,
	.alloc_hw_device_stats = ohca_alloc_hw_device_stats,
	.alloc_mr = ohca_alloc_mr,
	.alloc_mw = ohca_alloc_mw,
	.alloc_pd = ohca_alloc_pd,
	.alloc_ucontext = ohca_alloc_ucontext,
	.alloc_xrcd = ohca_alloc_xrcd,
	.attach_mcast = ohca_attach_mcast,
	.counter_alloc_stats = ohca_counter_alloc_stats,
	.counter_dealloc = ohca_counter_dealloc,
	.counter_update_stats = ohca_counter_update_stats,
	.create_ah = ohca_create_ah,
	.create_qp = ohca_create_qp,
	.create_srq = ohca_create_srq,
	.create_user_ah = ohca_create_ah,
	.dealloc_dm = ohca_dealloc_dm,
	.dealloc_mw = ohca_dealloc_mw,
	.dealloc_pd = ohca_dealloc_pd,
	.dealloc_ucontext = ohca_dealloc_ucontext,
	.dealloc_xrcd = ohca_dealloc_xrcd,
	.dereg_mr = ohca_dereg_mr,
	.destroy_ah = ohca_destroy_ah,
	.destroy_qp = ohca_destroy_qp,
	.destroy_srq = ohca_destroy_srq,
	.detach_mcast = ohca_detach_mcast,
	.disassociate_ucontext = ohca_disassociate_ucontext,
	.fill_res_cq_entry = ohca_fill_res_cq_entry,
	.fill_res_cq_entry_raw = ohca_fill_res_cq_entry_raw,
	.fill_res_mr_entry = ohca_fill_res_mr_entry,
	.fill_res_mr_entry_raw = ohca_fill_res_mr_entry_raw,
	.fill_res_qp_entry = ohca_fill_res_qp_entry,
	.fill_res_qp_entry_raw = ohca_fill_res_qp_entry_raw,
	.get_dev_fw_str = ohca_get_dev_fw_str,
	.get_dma_mr = ohca_get_dma_mr,
	.get_hw_stats = ohca_get_hw_stats,
	.get_port_immutable = ohca_get_port_immutable,
	.map_mr_sg = ohca_map_mr_sg,
	.mmap = ohca_mmap,
	.mmap_free = ohca_mmap_free,
	.modify_ah = ohca_modify_ah,
	.modify_cq = ohca_modify_cq,
	.modify_device = ohca_modify_device,
	.modify_port = ohca_modify_port,
	.modify_qp = ohca_modify_qp,
	.modify_srq = ohca_modify_srq,
	.poll_cq = ohca_poll_cq,
	.post_recv = ohca_post_recv,
	.post_send = ohca_post_send,
	.post_srq_recv = ohca_post_srq_recv,
	.process_mad = ohca_process_mad,
	.query_ah = ohca_query_ah,
	.query_device = ohca_query_device,
	.query_gid = ohca_query_gid,
	.query_pkey = ohca_query_pkey,
	.query_port = ohca_query_port,
	.query_qp = ohca_query_qp,
	.query_srq = ohca_query_srq,
	.query_ucontext = ohca_query_ucontext,
	.reg_dm_mr = ohca_reg_dm_mr,
	.req_notify_cq = ohca_req_notify_cq,
	.rereg_user_mr = ohca_rereg_user_mr,

	INIT_RDMA_OBJ_SIZE(ib_ah, ohca_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, ohca_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, ohca_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, ohca_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, ohca_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, ohca_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, ohca_ucontext, ibucontext),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, ohca_xrcd, ibxrcd),
};

static u64 ohca_wanted_features(void)
{
	u64 wanted = IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING) ? BIT_ULL(OHCA_FEATURE_ODP) : 0;

	wanted |= BIT_ULL(OHCA_FEATURE_EVENT_IDX) | BIT_ULL(OHCA_FEATURE_SRQ) |
	       BIT_ULL(OHCA_FEATURE_MCAST) | BIT_ULL(OHCA_FEATURE_FRMR) |
	       BIT_ULL(OHCA_FEATURE_MW) | BIT_ULL(OHCA_FEATURE_CQ_RESIZE) |
	       BIT_ULL(OHCA_FEATURE_TIMESTAMP) | BIT_ULL(OHCA_FEATURE_REREG) |
	       BIT_ULL(OHCA_FEATURE_DM) | BIT_ULL(OHCA_FEATURE_SRQ_RESIZE) |
	       BIT_ULL(OHCA_FEATURE_EXT_ATOMIC) | BIT_ULL(OHCA_FEATURE_MPE) |
	       BIT_ULL(OHCA_FEATURE_APM) | BIT_ULL(OHCA_FEATURE_XRC) |
	       BIT_ULL(OHCA_FEATURE_UD_CSUM) | BIT_ULL(OHCA_FEATURE_TSO) |
	       BIT_ULL(OHCA_FEATURE_QP_COUNTERS) | BIT_ULL(OHCA_FEATURE_QUERY_CONTEXT) |
	       BIT_ULL(OHCA_FEATURE_CLOCK) | BIT_ULL(OHCA_FEATURE_TM) |
	       BIT_ULL(OHCA_FEATURE_MW_TYPE_2A) | BIT_ULL(OHCA_FEATURE_QP_RESIZE);
	if (IS_ENABLED(CONFIG_CPU_BIG_ENDIAN))
		wanted |= BIT_ULL(OHCA_FEATURE_BIG_ENDIAN);
	return wanted & ~OHCA_KERNEL_LACKS;
}

/* Steps 1 and 2 of the handshake: identification and reset. */
static int ohca_identify(struct ohca_dev *dev)
{
	struct device *d = &dev->pdev->dev;
	u32 magic = readl(dev->regs + OHCA_REG_MAGIC);
	u32 timeouts, limits;
	int ret;

	if (magic != OHCA_MAGIC)
		return dev_err_probe(d, -ENODEV, "not an OpenHCA device: magic is %#010x\n", magic);
	dev->version = readl(dev->regs + OHCA_REG_VERSION);
	if (OHCA_FIELD_GET(OHCA_VERSION_MAJOR, dev->version) != OHCA_MAJOR)
		return dev_err_probe(d, -EPROTO,
				     "device has interface version %u.%u, driver is for %u.x: use the same release of both\n",
				     OHCA_FIELD_GET(OHCA_VERSION_MAJOR, dev->version),
				     OHCA_FIELD_GET(OHCA_VERSION_MINOR, dev->version), OHCA_MAJOR);

	/* ohca_probe() or ohca_fatal() logs this */
	if (readl(dev->regs + OHCA_REG_STATUS) & OHCA_STATUS_AWAY) {
		WRITE_ONCE(dev->fn->away, true);
		return -EHOSTDOWN;
	}

	timeouts = readl(dev->regs + OHCA_REG_TIMEOUTS);
	dev->reset_ms = clamp(OHCA_FIELD_GET(OHCA_TIMEOUTS_RESET, timeouts), 100u, OHCA_MAX_MS);
	dev->cmd_ms = clamp(OHCA_FIELD_GET(OHCA_TIMEOUTS_CMD, timeouts), 1000u, OHCA_MAX_MS);
	limits = readl(dev->regs + OHCA_REG_LIMITS);
	dev->num_uars = min_t(u64, OHCA_FIELD_GET(OHCA_LIMITS_UARS, limits),
			      pci_resource_len(dev->pdev, OHCA_BAR_UAR) >> PAGE_SHIFT);
	if (dev->num_uars < 1)
		return dev_err_probe(d, -ENODEV, "the device has no doorbell page\n");

	ret = ohca_reset_hw(dev);
	if (ret == -EHOSTDOWN)
		return ret;
	if (ret)
		return dev_err_probe(d, ret, "reset failed, status %#x\n",
				     readl(dev->regs + OHCA_REG_STATUS));
	return 0;
}

/* Steps 3 to 5: features, admin queue, enable. */
static int ohca_enable(struct ohca_dev *dev)
{
	void __iomem *regs = dev->regs;
	int ret;

	writel(PAGE_SHIFT, regs + OHCA_REG_PAGE_SHIFT);
	dev->features = readq(regs + OHCA_REG_FEATURES) & ohca_wanted_features();
	if (!ohca_has(dev, OHCA_FEATURE_EVENT_IDX))
		return dev_err_probe(&dev->pdev->dev, -EPROTO,
				     "the device does not support event indices\n");
	writeq(dev->features, regs + OHCA_REG_FEATURES_ACK);
	writeq(dev->aq.sq_dma, regs + OHCA_REG_AQ_BASE);
	writeq(dev->aq.cq_dma, regs + OHCA_REG_ACQ_BASE);
	writel(OHCA_AQ_LOG_SIZE, regs + OHCA_REG_AQ_LOG_SIZE);
	writel(0, regs + OHCA_REG_AQ_INTR);
	writel(OHCA_CTRL_ENABLE, regs + OHCA_REG_CTRL);
	ret = ohca_wait_status(dev, OHCA_STATUS_ENABLED, OHCA_STATUS_ENABLED);
	if (ret)
		return dev_err_probe(&dev->pdev->dev, ret, "enable failed, reason %#x\n",
				     readl(regs + OHCA_REG_FATAL_REASON));
	return 0;
}

static int ohca_register(struct ohca_dev *dev)
{
	struct ib_device *ibdev = &dev->ibdev;
	u32 port;
	int ret;

	ibdev->driver_def = ohca_uapi_defs;
	ib_set_device_ops(ibdev, &ohca_ops);
	ib_set_device_ops(ibdev, &ohca_compat_ops);
	ohca_counters_init(dev);

	ret = ib_register_device(ibdev, OHCA_DRV_NAME "_%d", &dev->pdev->dev);
	if (ret)
		return dev_err_probe(&dev->pdev->dev, ret, "cannot register with ib_core\n");
	/* records the rate, so that the next link with another rate is a change */
	for (port = 1; port <= dev->attr.num_ports; port++)
		ohca_port_rate_changed(dev, port);
	/* ib_core must not get an event before this */
	WRITE_ONCE(dev->registered, true);
	smp_mb();	/* pairs with ohca_port_event() */
	ohca_early_events(dev);
	return 0;
}

static void ohca_teardown(struct ohca_dev *dev)
{
	/* first, because the interrupt thread may queue the work that ohca_fatal_stop() cancels */
	ohca_halt(dev);
	ohca_fatal_stop(dev);
	ohca_eqs_stop(dev);
	ohca_eqs_free(dev);
	ohca_aq_free(dev);
	xa_destroy(&dev->qps);
	xa_destroy(&dev->cqs);
	xa_destroy(&dev->srqs);
	xa_destroy(&dev->paged);
	ida_destroy(&dev->uars);
	if (dev->uar)
		pci_iounmap(dev->pdev, dev->uar);
	if (dev->regs)
		pci_iounmap(dev->pdev, dev->regs);
	ib_dealloc_device(&dev->ibdev);
}

/*
 * Saves the function's configuration once, when the function has responded: reads of a function
 * that was removed or lost its power return all ones. Recovery needs the configuration to restore
 * the function. Returns 0 or -ENOMEM.
 */
static int ohca_save_config(struct ohca_function *fn)
{
	if (fn->config)
		return 0;
	pci_save_state(fn->pdev);
	fn->config = pci_store_saved_state(fn->pdev);
	return fn->config ? 0 : -ENOMEM;
}

/**
 * ohca_attach - create the device of a PCI function
 * @fn: the function, enabled; @fn->dev is NULL
 *
 * Under @fn->lock, process context. The function may have been reset before.
 * Return: 0, with @fn->dev set, or a negative errno.
 */
int ohca_attach(struct ohca_function *fn)
{
	struct pci_dev *pdev = fn->pdev;
	struct ohca_dev *dev;
	int ret;

	dev = ib_alloc_device(ohca_dev, ibdev);
	if (!dev)
		return -ENOMEM;
	dev->pdev = pdev;
	dev->fn = fn;
	ida_init(&dev->uars);
	mutex_init(&dev->kqp_lock);
	xa_init(&dev->qps);
	xa_init(&dev->cqs);
	xa_init(&dev->srqs);
	xa_init(&dev->paged);
	mutex_init(&dev->odp_lock);
	INIT_LIST_HEAD(&dev->odp_mms);
	ohca_fatal_init(dev);
	ohca_flush_init(dev);
	ohca_ports_init(dev);
	dev->life = OHCA_UNBORN;	/* ohca_teardown() does not reset it */

	ret = -ENOMEM;
	dev->regs = pci_iomap(pdev, OHCA_BAR_CTRL, OHCA_CTRL_BAR_SIZE);
	dev->uar = pci_iomap_range(pdev, OHCA_BAR_UAR, 0, PAGE_SIZE);
	if (!dev->regs || !dev->uar)
		goto err;
	ret = ohca_identify(dev);
	if (ret)
		goto err;
	ret = ohca_save_config(fn);
	if (ret)
		goto err;
	dev->life = OHCA_UP;	/* from here on ohca_halt() resets it */
	ret = ohca_aq_init(dev);
	if (ret)
		goto err;
	pci_set_master(pdev);
	ret = ohca_enable(dev);
	if (ret)
		goto err;
	ret = ohca_device_init(dev);
	if (ret)
		goto err;
	ret = ohca_eqs_init(dev);
	if (ret)
		goto err;
	dev->ibdev.num_comp_vectors = dev->num_comp_eqs;
	ret = ohca_register(dev);
	if (ret)
		goto err;

	ohca_debugfs_add(dev);
	schedule_delayed_work(&dev->health, OHCA_HEALTH_PERIOD);
	fn->dev = dev;
	dev_info(&pdev->dev, "%s: OpenHCA %u.%u, GUID %016llx, %u port%s, %u vectors\n",
		 dev_name(&dev->ibdev.dev), OHCA_FIELD_GET(OHCA_VERSION_MAJOR, dev->version),
		 OHCA_FIELD_GET(OHCA_VERSION_MINOR, dev->version),
		 be64_to_cpu(dev->attr.node_guid), dev->attr.num_ports,
		 dev->attr.num_ports == 1 ? "" : "s", dev->num_vectors);
	return 0;

err:
	ohca_teardown(dev);
	return ret;
}

/**
 * ohca_detach - unregister and free the device of a PCI function
 * @fn: the function; afterwards @fn->dev is NULL
 *
 * Under @fn->lock, process context. The core disassociates open contexts of processes.
 */
void ohca_detach(struct ohca_function *fn)
{
	struct ohca_dev *dev = fn->dev;
	const char *absence;

	if (!dev)
		return;
	fn->dev = NULL;
	/* if the device is gone or away, later commands fail at once instead of timing out */
	absence = ohca_absence(dev);
	if (absence)
		ohca_fatal(dev, absence);
	/* no event reaches ib_core while it unregisters the device */
	WRITE_ONCE(dev->registered, false);
	synchronize_irq(pci_irq_vector(dev->pdev, 0));
	flush_work(&dev->fatal_work);
	ohca_debugfs_remove(dev);
	ib_unregister_device(&dev->ibdev);
	ohca_teardown(dev);
}
