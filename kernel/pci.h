/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: the PCI function, which outlives its devices; pci.c. */
#ifndef OHCA_PCI_H
#define OHCA_PCI_H

#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/workqueue.h>

struct ohca_dev;

#define OHCA_DRV_NAME	"ohca"

/**
 * struct ohca_function - a PCI function that the driver is bound to; outlives its devices
 * @pdev: the function
 * @lock: held by who makes or takes the device; outermost
 * @dev: the device, or NULL while there is none
 * @stopped: no device is made until somebody starts the function again
 * @config: configuration space as it was when the device was first identified: it decodes memory,
 *	but is no bus master; or NULL
 * @recover: makes another device of one that failed
 * @tries: attempts since the device last ran for OHCA_RECOVER_CALM
 * @since: jiffies of the last attempt that succeeded
 */
struct ohca_function {
	struct pci_dev *pdev;
	struct mutex lock;	/* see above */
	struct ohca_dev *dev;
	bool stopped;
	struct pci_saved_state *config;
	struct delayed_work recover;
	u32 tries;
	unsigned long since;
};

void ohca_recover(struct ohca_function *fn);

#endif /* OHCA_PCI_H */
