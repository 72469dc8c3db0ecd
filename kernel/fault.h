/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: page faults of the device; fault.c. */
#ifndef OHCA_FAULT_H
#define OHCA_FAULT_H

#include <linux/types.h>

#include "ohca_hw.h"

struct ohca_dev;

int ohca_faults_init(struct ohca_dev *dev);
void ohca_faults_free(struct ohca_dev *dev);
bool ohca_fault_event(struct ohca_dev *dev, const struct ohca_hw_fault_eqe *eqe);

#endif /* OHCA_FAULT_H */
