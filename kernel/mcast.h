/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: multicast groups; mcast.c. */
#ifndef OHCA_MCAST_H
#define OHCA_MCAST_H

#include <rdma/ib_verbs.h>

int ohca_attach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid);
int ohca_detach_mcast(struct ib_qp *ibqp, union ib_gid *mgid, u16 mlid);

#endif /* OHCA_MCAST_H */
