/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The commands of rdma/ohca-abi.h, wrapped as libibverbs requires. */

#ifndef OHCA_PROVIDER_ABI_H
#define OHCA_PROVIDER_ABI_H

#include <infiniband/kern-abi.h>
#include <rdma/ohca-abi.h>
#include <kernel-abi/ohca-abi.h>

DECLARE_DRV_CMD(uohca_alloc_context, IB_USER_VERBS_CMD_GET_CONTEXT,
		ohca_alloc_ucontext_req, ohca_alloc_ucontext_resp);
DECLARE_DRV_CMD(uohca_alloc_pd, IB_USER_VERBS_CMD_ALLOC_PD, empty,
		ohca_alloc_pd_resp);
DECLARE_DRV_CMD(uohca_create_cq_ex, IB_USER_VERBS_EX_CMD_CREATE_CQ,
		ohca_create_cq_req, ohca_create_cq_resp);
DECLARE_DRV_CMD(uohca_resize_cq, IB_USER_VERBS_CMD_RESIZE_CQ,
		ohca_resize_cq_req, empty);
DECLARE_DRV_CMD(uohca_create_qp_ex, IB_USER_VERBS_EX_CMD_CREATE_QP,
		ohca_create_qp_req, ohca_create_qp_resp);
DECLARE_DRV_CMD(uohca_modify_qp_ex, IB_USER_VERBS_EX_CMD_MODIFY_QP,
		ohca_modify_qp_req, empty);
DECLARE_DRV_CMD(uohca_create_srq_ex, IB_USER_VERBS_CMD_CREATE_XSRQ,
		ohca_create_srq_req, ohca_create_srq_resp);
DECLARE_DRV_CMD(uohca_modify_srq, IB_USER_VERBS_CMD_MODIFY_SRQ,
		ohca_modify_srq_req, empty);

#endif /* OHCA_PROVIDER_ABI_H */
