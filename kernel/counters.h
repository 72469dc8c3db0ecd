/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: counters; counters.c. */
#ifndef OHCA_COUNTERS_H
#define OHCA_COUNTERS_H

#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

struct ohca_dev;

void ohca_counters_init(struct ohca_dev *dev);
struct rdma_hw_stats *ohca_alloc_hw_device_stats(struct ib_device *ibdev);
int ohca_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);
int ohca_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port);
int ohca_counter_unbind_qp(struct ib_qp *ibqp, u32 port);
int ohca_counter_dealloc(struct rdma_counter *counter);
struct rdma_hw_stats *ohca_counter_alloc_stats(struct rdma_counter *counter);
int ohca_counter_update_stats(struct rdma_counter *counter);

#endif /* OHCA_COUNTERS_H */
