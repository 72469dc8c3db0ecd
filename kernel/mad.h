/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: MADs for the device's own agents; mad.c. */
#ifndef OHCA_MAD_H
#define OHCA_MAD_H

#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/ib_verbs.h>

struct ohca_dev;

int ohca_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *in_wc,
		     const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *out_pkey_index);
int ohca_smp_get(struct ohca_dev *dev, u32 port, __be16 attr_id, u32 attr_mod,
		 struct ib_smp *out);
#if IS_ENABLED(CONFIG_KUNIT)
bool ohca_mad_for_device(const struct ib_mad *mad);
#endif

#endif /* OHCA_MAD_H */
