/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Differences between versions of libibverbs: a wrapper for each call whose arguments
 * changed. Version 54 and later; earlier ones lack an argument of
 * ibv_cmd_reg_dmabuf_mr().
 */

#ifndef OHCA_COMPAT_H
#define OHCA_COMPAT_H

#include <infiniband/driver.h>

/** ohca_cmd_get_context - ibv_cmd_get_context(); 57 added a file descriptor to be passed on */
static inline int ohca_cmd_get_context(struct verbs_context *vctx,
				       struct ibv_get_context *cmd,
				       size_t cmd_size,
				       struct ib_uverbs_get_context_resp *resp,
				       size_t resp_size)
{
#if IBVERBS_PABI_VERSION >= 57
	return ibv_cmd_get_context(vctx, cmd, cmd_size, NULL, resp, resp_size);
#else
	return ibv_cmd_get_context(vctx, cmd, cmd_size, resp, resp_size);
#endif
}

/** ohca_cmd_create_cq_ex - ibv_cmd_create_cq_ex(); 59 added attributes for the library's memory */
static inline int
ohca_cmd_create_cq_ex(struct ibv_context *ibctx,
		      const struct ibv_cq_init_attr_ex *attr,
		      struct verbs_cq *cq, struct ibv_create_cq_ex *cmd,
		      size_t cmd_size, struct ib_uverbs_ex_create_cq_resp *resp,
		      size_t resp_size)
{
#if IBVERBS_PABI_VERSION >= 59
	return ibv_cmd_create_cq_ex(ibctx, attr, NULL, cq, cmd, cmd_size, resp,
				    resp_size, 0);
#else
	return ibv_cmd_create_cq_ex(ibctx, attr, cq, cmd, cmd_size, resp,
				    resp_size, 0);
#endif
}

/** ohca_cmd_create_qp_ex2 - ibv_cmd_create_qp_ex2(); 64 added attributes of the driver */
static inline int
ohca_cmd_create_qp_ex2(struct ibv_context *ibctx, struct verbs_qp *qp,
		       struct ibv_qp_init_attr_ex *attr,
		       struct ibv_create_qp_ex *cmd, size_t cmd_size,
		       struct ib_uverbs_ex_create_qp_resp *resp,
		       size_t resp_size)
{
#if IBVERBS_PABI_VERSION >= 64
	return ibv_cmd_create_qp_ex2(ibctx, qp, attr, cmd, cmd_size, resp,
				     resp_size, NULL);
#else
	return ibv_cmd_create_qp_ex2(ibctx, qp, attr, cmd, cmd_size, resp,
				     resp_size);
#endif
}

#endif /* OHCA_COMPAT_H */
