/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: the PCI function; pci.c. */
#ifndef OHCA_PCI_H
#define OHCA_PCI_H

#include <linux/jiffies.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/workqueue.h>

struct ohca_dev;

#define OHCA_DRV_NAME	"ohca"

#define OHCA_RECOVER_TRIES	5
#define OHCA_RECOVER_DELAY	(HZ / 4)
#define OHCA_RECOVER_CALM	(600 * HZ)
#define OHCA_AWAY_PERIOD	(2 * HZ)

/**
 * struct ohca_function - a PCI function that the driver is bound to; exists from probe to remove,
 *	while recovery replaces the device
 * @pdev: the function
 * @lock: held while the device is created or removed; outermost
 * @dev: the device, or NULL while there is none
 * @stopped: recovery is disabled until ohca_start()
 * @config: configuration space, saved when the device was first identified: memory decoding is on,
 *	bus mastering is off; or NULL
 * @recover: recovers a device that failed
 * @tries: attempts since the device last ran for OHCA_RECOVER_CALM
 * @since: jiffies of the last attempt that succeeded
 * @away: the device was away when it was last reset (OHCA_STATUS_AWAY); any context sets it
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
	bool away;
};

/**
 * ohca_recover - queue the recovery of a function whose device is dead
 * @fn: the function
 *
 * Any context. The delay before an attempt doubles with each attempt. There are at most
 * OHCA_RECOVER_TRIES attempts until a device has run for OHCA_RECOVER_CALM. If the device is away,
 * the driver tries every OHCA_AWAY_PERIOD without limit, and these attempts do not count.
 */
static inline void ohca_recover(struct ohca_function *fn)
{
	queue_delayed_work(system_long_wq, &fn->recover,
			   READ_ONCE(fn->away) ? OHCA_AWAY_PERIOD :
			   OHCA_RECOVER_DELAY << READ_ONCE(fn->tries));
}

#endif /* OHCA_PCI_H */
