// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Life of an SRQ. */

#include <stdlib.h>

#include "ohca.h"
#include "ohca_abi.h"

#define OHCA_BASIC_SRQ_MASK (IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD)
#define OHCA_XRC_SRQ_MASK                                                      \
	(OHCA_BASIC_SRQ_MASK | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ)

#define OHCA_TM_SRQ_MASK                                                       \
	(OHCA_BASIC_SRQ_MASK | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM)

/* The device's limits are the kernel's to check; these are for the arithmetic here. */
static int ohca_check_tm_attr(const struct ohca_context *ctx,
			      const struct ibv_srq_init_attr_ex *attr)
{
	if (!ohca_has_feature(ctx, OHCA_FEATURE_TM))
		return EOPNOTSUPP;
	if ((attr->comp_mask & OHCA_TM_SRQ_MASK) != OHCA_TM_SRQ_MASK ||
	    !attr->tm_cap.max_num_tags || attr->tm_cap.max_num_tags > UINT16_MAX ||
	    !attr->tm_cap.max_ops || attr->tm_cap.max_ops > 1u << 20)
		return EINVAL;
	return 0;
}

static bool ohca_is_tm(const struct ibv_srq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE &&
	       attr->srq_type == IBV_SRQT_TM;
}

static int ohca_check_srq_attr(const struct ohca_context *ctx,
			       const struct ibv_srq_init_attr_ex *attr)
{
	bool xrc = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE &&
		   attr->srq_type == IBV_SRQT_XRC;
	bool tm = ohca_is_tm(attr);

	if (!check_comp_mask(attr->comp_mask, OHCA_XRC_SRQ_MASK |
						      IBV_SRQ_INIT_ATTR_TM) ||
	    (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE &&
	     attr->srq_type != IBV_SRQT_BASIC && !xrc && !tm) ||
	    (xrc && !ohca_has_feature(ctx, OHCA_FEATURE_XRC)))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->attr.max_wr ||
	    attr->attr.max_wr > 1u << ctx->log_max_srq_wqes ||
	    attr->attr.max_sge > ctx->max_sge)
		return EINVAL;
	if (xrc && (attr->comp_mask & OHCA_XRC_SRQ_MASK) != OHCA_XRC_SRQ_MASK)
		return EINVAL;
	return tm ? ohca_check_tm_attr(ctx, attr) : 0;
}

/**
 * ohca_create_srq_ex - ibv_create_srq_ex(): basic, XRC, tag matching
 *
 * On return @attr->attr holds what can really be posted. NULL with errno: EINVAL for
 * what no SRQ can be, EOPNOTSUPP for other types, ENOMEM, or what the kernel says.
 */
struct ibv_srq *ohca_create_srq_ex(struct ibv_context *ibctx,
				   struct ibv_srq_init_attr_ex *attr)
{
	struct ohca_context *ctx = to_octx(ibctx);
	struct uohca_create_srq_ex_resp resp = {};
	struct uohca_create_srq_ex cmd = {};
	uint32_t log_size, log_stride, log_ops = 0;
	bool tm = ohca_is_tm(attr);
	struct ohca_srq *srq;
	uint64_t size;
	int err;

	err = ohca_check_srq_attr(ctx, attr);
	if (err) {
		errno = err;
		return NULL;
	}
	srq = calloc(1, sizeof(*srq));
	if (!srq) {
		errno = ENOMEM;
		return NULL;
	}

	log_size = ohca_log2_up(attr->attr.max_wr);
	log_stride = ohca_rq_log_stride(attr->attr.max_sge);
	size = ohca_srq_buf_size(log_size, log_stride);
	if (tm) {
		log_ops = ohca_log2_up(attr->tm_cap.max_ops);
		size += ohca_tm_ring_size(log_ops);
	}
	srq->pd = ohca_parent_domain_get(attr->pd);
	err = ohca_buf_alloc(ctx, &srq->buf, srq->pd, size, OHCA_RES_SRQ);
	if (err)
		goto err_free;
	srq->db = srq->buf.addr + OHCA_DB_OFFSET;
	srq->uar = ctx->uar;
	srq->rq.ring = srq->buf.addr + OHCA_RQ_RING_OFFSET;
	srq->rq.size = 1u << log_size;
	srq->rq.log_stride = log_stride;
	srq->rq.offset_mask = (srq->rq.size - 1) << srq->rq.log_stride;
	ohca_lock_init(&srq->rq.lock, !(srq->pd && srq->pd->td));
	if (tm) {
		err = ohca_tm_init(srq, to_ocq(attr->cq),
				   srq->buf.addr + ohca_tm_ring_offset(log_size,
								       log_stride),
				   log_ops, attr->tm_cap.max_num_tags);
		if (err)
			goto err_buf;
	}

	cmd.log_size = log_size;
	cmd.log_stride = log_stride;
	cmd.log_ops = log_ops;
	cmd.buf_addr = (uintptr_t)srq->buf.addr;
	cmd.buf_size = srq->buf.size;
	err = ibv_cmd_create_srq_ex(ibctx, &srq->vsrq, attr, &cmd.ibv_cmd,
				    sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (err)
		goto err_buf;

	srq->srqn = resp.drv_payload.srqn;
	attr->attr.max_wr = srq->rq.size;
	attr->attr.max_sge = ohca_rq_stride_sges(log_stride);
	if (attr->attr.max_sge > ctx->max_sge)
		attr->attr.max_sge = ctx->max_sge;
	srq->rq.sge_limit = attr->attr.max_sge + 1;
	if (tm) {
		attr->tm_cap.max_ops = 1u << log_ops;
		ohca_tm_attach(srq);
	}
	return &srq->vsrq.srq;

err_buf:
	free(srq->tm);
	ohca_buf_free(&srq->buf);
err_free:
	ohca_parent_domain_put(srq->pd);
	free(srq);
	errno = err;
	return NULL;
}

/** ohca_create_srq - ibv_create_srq(); see ohca_create_srq_ex() */
struct ibv_srq *ohca_create_srq(struct ibv_pd *ibpd,
				struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD,
		.pd = ibpd,
	};
	struct ibv_srq *srq = ohca_create_srq_ex(ibpd->context, &ex);

	if (srq)
		attr->attr = ex.attr;
	return srq;
}

/** ohca_modify_srq - ibv_modify_srq(): arm the limit event */
int ohca_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
		    int attr_mask)
{
	struct ibv_modify_srq cmd;

	return ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd, sizeof(cmd));
}

/** ohca_query_srq - ibv_query_srq(); sizes are as ibv_create_srq() reported them */
int ohca_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ohca_srq *srq = to_osrq(ibsrq);
	struct ibv_query_srq cmd;
	int err;

	err = ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
	if (err)
		return err;
	attr->max_wr = srq->rq.size;
	attr->max_sge = srq->rq.sge_limit - 1;
	return 0;
}

/** ohca_get_srq_num - ibv_get_srq_num() */
int ohca_get_srq_num(struct ibv_srq *ibsrq, uint32_t *srq_num)
{
	*srq_num = to_osrq(ibsrq)->srqn;
	return 0;
}

/** ohca_destroy_srq - ibv_destroy_srq() */
int ohca_destroy_srq(struct ibv_srq *ibsrq)
{
	struct ohca_srq *srq = to_osrq(ibsrq);
	int err;

	if (srq->tm)
		ohca_tm_settle(srq);
	err = ibv_cmd_destroy_srq(ibsrq);
	if (err)
		return err;
	if (srq->tm)
		ohca_tm_detach(srq);
	free(srq->tm);
	ohca_buf_free(&srq->buf);
	ohca_parent_domain_put(srq->pd);
	free(srq);
	return 0;
}
