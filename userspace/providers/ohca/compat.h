/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Differences between versions of rdma-core, 44 to 65: a wrapper for each call whose arguments
 * changed, and what only newer versions have. The rest of the provider is written for the newest.
 * OHCA_RDMA_CORE is the major version; IBVERBS_PABI_VERSION is the same from 44 to 56.
 */

#ifndef OHCA_COMPAT_H
#define OHCA_COMPAT_H

#include <infiniband/driver.h>
#include <ohca-rdma-core.h>

#include "ohca_hw.h"

/** typedef ohca_wr_flush_t - member wr_flush of struct ibv_qp_ex; see ibv_wr_flush(3) */
typedef void (*ohca_wr_flush_t)(struct ibv_qp_ex *qp, uint32_t rkey,
				uint64_t remote_addr, size_t len, uint8_t type,
				uint8_t level);

#if OHCA_RDMA_CORE >= 45

/* Bits of enum ohca_wqe_op: operations that no program can post, whatever the device has. */
#define OHCA_COMPAT_NO_OPS 0

/** ohca_set_wr_flush - set the builder of ibv_wr_flush() */
static inline void ohca_set_wr_flush(struct ibv_qp_ex *ex, ohca_wr_flush_t flush)
{
	ex->wr_flush = flush;
}

#else

/*
 * 45 added FLUSH, and its builder to struct ibv_qp_ex. Its numbers are those of the device, too; no
 * QP can be created with it.
 */
#define OHCA_COMPAT_NO_OPS OHCA_BIT(OHCA_OP_FLUSH)

#define IBV_QP_EX_WITH_FLUSH (1 << 11)
#define IBV_WR_FLUSH ((enum ibv_wr_opcode)14)

static inline void ohca_set_wr_flush(struct ibv_qp_ex *ex, ohca_wr_flush_t flush)
{
}

#endif

/** ohca_cmd_get_context - ibv_cmd_get_context(); 57 added a file descriptor to be passed on */
static inline int ohca_cmd_get_context(struct verbs_context *vctx,
				       struct ibv_get_context *cmd,
				       size_t cmd_size,
				       struct ib_uverbs_get_context_resp *resp,
				       size_t resp_size)
{
#if OHCA_RDMA_CORE >= 57
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
#if OHCA_RDMA_CORE >= 59
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
#if OHCA_RDMA_CORE >= 64
	return ibv_cmd_create_qp_ex2(ibctx, qp, attr, cmd, cmd_size, resp,
				     resp_size, NULL);
#else
	return ibv_cmd_create_qp_ex2(ibctx, qp, attr, cmd, cmd_size, resp,
				     resp_size);
#endif
}

/** ohca_cmd_reg_dmabuf_mr - ibv_cmd_reg_dmabuf_mr(); 54 added attributes of the driver */
static inline int ohca_cmd_reg_dmabuf_mr(struct ibv_pd *ibpd, uint64_t offset,
					 size_t length, uint64_t iova, int fd,
					 int access, struct verbs_mr *vmr)
{
#if OHCA_RDMA_CORE >= 54
	return ibv_cmd_reg_dmabuf_mr(ibpd, offset, length, iova, fd, access,
				     vmr, NULL);
#else
	return ibv_cmd_reg_dmabuf_mr(ibpd, offset, length, iova, fd, access,
				     vmr);
#endif
}

#endif /* OHCA_COMPAT_H */
