/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: event queues and interrupts; eq.c. */
#ifndef OHCA_EQ_H
#define OHCA_EQ_H

#include <linux/types.h>

#include "buf.h"
#include "ohca_hw.h"

struct ohca_dev;

/**
 * struct ohca_eq - an event queue
 * @dev: the device
 * @buf: ring of struct ohca_hw_eqe
 * @eqn: number
 * @log_size: log2 of its entries
 * @ci: consumer index
 * @vector: MSI-X vector
 * @created: created in the device
 * @armed: the interrupt handler may use it
 * @name: name of its interrupt
 */
struct ohca_eq {
	struct ohca_dev *dev;
	struct ohca_buf buf;
	u32 eqn;
	u32 log_size;
	u32 ci;
	u32 vector;
	bool created;
	bool armed;
	char name[32];
};

int ohca_eqs_init(struct ohca_dev *dev);
void ohca_early_events(struct ohca_dev *dev);
void ohca_eqs_free(struct ohca_dev *dev);
void ohca_eqs_stop(struct ohca_dev *dev);
void ohca_sync_events(struct ohca_dev *dev, bool comp);
#if IS_ENABLED(CONFIG_KUNIT)
void ohca_comp_eq_poll(struct ohca_eq *eq);
void ohca_async_event(struct ohca_dev *dev, const struct ohca_hw_eqe *eqe);
u32 ohca_vectors_wanted(u32 max_eq, u32 limit, u32 cpus, bool faults);
bool ohca_eqe_valid(const struct ohca_hw_eqe *eqe, u32 ci, u32 log_size);
#endif

#endif /* OHCA_EQ_H */
