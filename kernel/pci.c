// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The PCI function: probe and remove, resets and errors, and recovery of a device that
 * failed.
 */
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/stringify.h>
#include <rdma/ohca-abi.h>

#include "debugfs.h"
#include "dev.h"
#include "fatal.h"
#include "pci.h"
#include "trace.h"

MODULE_AUTHOR("The OpenHCA authors");
MODULE_DESCRIPTION("OpenHCA InfiniBand host channel adapter driver");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("1.0");
MODULE_INFO(interface, __stringify(OHCA_MAJOR));
MODULE_INFO(uverbs_abi, __stringify(OHCA_UVERBS_ABI_VERSION));

static const struct pci_device_id ohca_pci_ids[] = {
	{ PCI_DEVICE(OHCA_PCI_VENDOR_ID, OHCA_PCI_DEVICE_ID_PF) },
	{ PCI_DEVICE_SUB(PCI_ANY_ID, OHCA_PCI_DEVICE_ID_PF,
			 OHCA_PCI_VENDOR_ID, OHCA_PCI_DEVICE_ID_PF) },
	{ }
};
MODULE_DEVICE_TABLE(pci, ohca_pci_ids);

/* Creates the device, and enables its recovery. */
static int ohca_start(struct ohca_function *fn)
{
	int ret;

	mutex_lock(&fn->lock);
	fn->stopped = false;
	fn->tries = 0;
	fn->since = jiffies;
	WRITE_ONCE(fn->away, false);
	ret = ohca_attach(fn);
	mutex_unlock(&fn->lock);
	return ret;
}

/* Removes the device, and disables its recovery until ohca_start(). */
static void ohca_stop(struct ohca_function *fn)
{
	mutex_lock(&fn->lock);
	fn->stopped = true;
	ohca_detach(fn);
	mutex_unlock(&fn->lock);
	/* nothing queues it any more */
	cancel_delayed_work_sync(&fn->recover);
}

/* Restores the function's configuration after a reset. */
static void ohca_restore_config(struct ohca_function *fn)
{
	if (fn->config && !pci_load_saved_state(fn->pdev, fn->config))
		pci_restore_state(fn->pdev);
}

static void ohca_try_again(struct ohca_function *fn)
{
	bool away = READ_ONCE(fn->away);
	struct device *d = &fn->pdev->dev;
	int ret;

	if (fn->dev && time_after(jiffies, fn->since + OHCA_RECOVER_CALM))
		fn->tries = 0;
	ohca_detach(fn);
	if (!away && fn->tries == OHCA_RECOVER_TRIES) {
		dev_err(d, "failed again after %u recoveries; bind the driver again to retry\n",
			fn->tries);
		return;
	}
	WRITE_ONCE(fn->away, false);
	/* the cause of the failure may have reset the function, too */
	ohca_restore_config(fn);
	ret = ohca_attach(fn);
	if (!away && !READ_ONCE(fn->away))
		WRITE_ONCE(fn->tries, fn->tries + 1);
	trace_ohca_recover(fn->pdev, fn->tries, ret);
	if (ret) {
		ohca_recover(fn);
		return;
	}
	fn->since = jiffies;
	if (away)
		dev_info(d, "recovered, after it was away\n");
	else
		dev_info(d, "recovered, attempt %u\n", fn->tries);
}

static void ohca_recover_work(struct work_struct *work)
{
	struct ohca_function *fn = container_of(to_delayed_work(work), struct ohca_function,
						recover);

	mutex_lock(&fn->lock);
	if (!fn->stopped && (!fn->dev || ohca_is_dead(fn->dev)))
		ohca_try_again(fn);
	mutex_unlock(&fn->lock);
}

static int ohca_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct device *d = &pdev->dev;
	struct ohca_function *fn;
	int ret;

	fn = devm_kzalloc(d, sizeof(*fn), GFP_KERNEL);
	if (!fn)
		return -ENOMEM;
	if (pdev->vendor != OHCA_PCI_VENDOR_ID)
		dev_info(d, "vendor ID %#06x is an alias of %#06x\n", pdev->vendor,
			 OHCA_PCI_VENDOR_ID);
	fn->pdev = pdev;
	mutex_init(&fn->lock);
	INIT_DELAYED_WORK(&fn->recover, ohca_recover_work);

	ret = pci_enable_device_mem(pdev);
	if (ret)
		return dev_err_probe(d, ret, "cannot enable the PCI function\n");
	if (pci_resource_len(pdev, OHCA_BAR_CTRL) < OHCA_CTRL_BAR_SIZE ||
	    pci_resource_len(pdev, OHCA_BAR_UAR) < PAGE_SIZE) {
		ret = dev_err_probe(d, -ENODEV, "BAR 0 or BAR 2 is missing or too small\n");
		goto err_disable;
	}
	ret = pci_request_mem_regions(pdev, OHCA_DRV_NAME);
	if (ret) {
		dev_err_probe(d, ret, "BARs are in use\n");
		goto err_disable;
	}
	ret = dma_set_mask_and_coherent(d, DMA_BIT_MASK(64));
	if (ret) {
		dev_err_probe(d, ret, "cannot use 64-bit DMA\n");
		goto err_release;
	}
	dma_set_max_seg_size(d, UINT_MAX);

	pci_set_drvdata(pdev, fn);
	ret = ohca_start(fn);
	if (ret && !READ_ONCE(fn->away))
		goto err_stop;
	if (ret) {
		dev_warn(d, "the device is away; the driver waits for it\n");
		ohca_recover(fn);
	}
	return 0;

err_stop:
	ohca_stop(fn);
	kfree(fn->config);
err_release:
	pci_release_mem_regions(pdev);
err_disable:
	pci_disable_device(pdev);
	return ret;
}

static void ohca_remove(struct pci_dev *pdev)
{
	struct ohca_function *fn = pci_get_drvdata(pdev);

	ohca_stop(fn);
	kfree(fn->config);
	pci_release_mem_regions(pdev);
	pci_disable_device(pdev);
}

/* Stops all DMA, because kexec may start another kernel in this memory. */
static void ohca_shutdown(struct pci_dev *pdev)
{
	struct ohca_function *fn = pci_get_drvdata(pdev);

	mutex_lock(&fn->lock);
	fn->stopped = true;
	if (fn->dev)
		ohca_halt(fn->dev);
	mutex_unlock(&fn->lock);
	cancel_delayed_work_sync(&fn->recover);
}

static void ohca_reset_prepare(struct pci_dev *pdev)
{
	ohca_stop(pci_get_drvdata(pdev));
}

/* Starts a function again after a reset or sleep; queues a recovery if that fails. */
static void ohca_restart(struct ohca_function *fn, const char *from)
{
	int ret = ohca_start(fn);

	if (ret) {
		dev_err(&fn->pdev->dev, "cannot restart after %s: %d\n", from, ret);
		ohca_recover(fn);
	}
}

static void ohca_reset_done(struct pci_dev *pdev)
{
	ohca_restart(pci_get_drvdata(pdev), "a reset");
}

static pci_ers_result_t ohca_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct ohca_function *fn = pci_get_drvdata(pdev);

	mutex_lock(&fn->lock);
	fn->stopped = true;
	if (fn->dev)
		ohca_fatal(fn->dev, "PCI error");
	mutex_unlock(&fn->lock);
	ohca_stop(fn);
	if (state == pci_channel_io_perm_failure)
		return PCI_ERS_RESULT_DISCONNECT;
	return PCI_ERS_RESULT_NEED_RESET;
}

/* After a reset of the slot the function decodes no memory until its state is restored. */
static pci_ers_result_t ohca_slot_reset(struct pci_dev *pdev)
{
	struct ohca_function *fn = pci_get_drvdata(pdev);

	ohca_restore_config(fn);
	return ohca_start(fn) ? PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers ohca_err_handlers = {
	.error_detected = ohca_error_detected,
	.slot_reset = ohca_slot_reset,
	.reset_prepare = ohca_reset_prepare,
	.reset_done = ohca_reset_done,
};

static int ohca_suspend(struct device *d)
{
	ohca_stop(dev_get_drvdata(d));
	return 0;
}

/* Returns 0 even on failure: the core abandons a device whose resume() fails. Recovery retries. */
static int ohca_resume(struct device *d)
{
	ohca_restart(dev_get_drvdata(d), "sleep");
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(ohca_pm_ops, ohca_suspend, ohca_resume);

static struct pci_driver ohca_driver = {
	.name = OHCA_DRV_NAME,
	.id_table = ohca_pci_ids,
	.probe = ohca_probe,
	.remove = ohca_remove,
	.shutdown = ohca_shutdown,
	.err_handler = &ohca_err_handlers,
	.driver.pm = pm_sleep_ptr(&ohca_pm_ops),
};

static int __init ohca_init(void)
{
	int ret;

	ohca_debugfs_init();
	ret = pci_register_driver(&ohca_driver);
	if (ret)
		ohca_debugfs_exit();
	return ret;
}
module_init(ohca_init);

static void __exit ohca_exit(void)
{
	pci_unregister_driver(&ohca_driver);
	ohca_debugfs_exit();
}
module_exit(ohca_exit);
