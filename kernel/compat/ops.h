/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: members of struct ib_device_ops that differ between kernels; ops.c. */
#ifndef OHCA_COMPAT_OPS_H
#define OHCA_COMPAT_OPS_H

#include <rdma/ib_verbs.h>

extern const struct ib_device_ops ohca_compat_ops;

#endif /* OHCA_COMPAT_OPS_H */
