/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: details for `rdma resource show`; restrack.c. */
#ifndef OHCA_RESTRACK_H
#define OHCA_RESTRACK_H

#include <rdma/ib_verbs.h>

int ohca_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int ohca_fill_res_mr_entry_raw(struct sk_buff *msg, struct ib_mr *ibmr);
int ohca_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);
int ohca_fill_res_cq_entry_raw(struct sk_buff *msg, struct ib_cq *ibcq);
int ohca_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
int ohca_fill_res_qp_entry_raw(struct sk_buff *msg, struct ib_qp *ibqp);
int ohca_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq);
int ohca_fill_res_srq_entry_raw(struct sk_buff *msg, struct ib_srq *ibsrq);

#endif /* OHCA_RESTRACK_H */
