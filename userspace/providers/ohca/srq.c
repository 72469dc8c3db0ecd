// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* SRQs: creation, resize and destruction. */

#include <stdlib.h>

#include "ohca.h"
#include "ohca_abi.h"

#define OHCA_BASIC_SRQ_MASK (IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD)
#define OHCA_XRC_SRQ_MASK                                                      \
	(OHCA_BASIC_SRQ_MASK | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ)

#define OHCA_TM_SRQ_MASK                                                       \
	(OHCA_BASIC_SRQ_MASK | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM)

/* The kernel checks the device's limits; these bound the arithmetic here. */
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

static bool ohca_is_xrc(const struct ibv_srq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE &&
	       attr->srq_type == IBV_SRQT_XRC;
}

static int ohca_check_srq_attr(const struct ohca_context *ctx,
			       const struct ibv_srq_init_attr_ex *attr)
{
	bool xrc = ohca_is_xrc(attr);
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

/* Moves the queue to @buf; with all locks of the SRQ held, or before the SRQ is published. */
static void ohca_srq_set_buf(struct ohca_srq *srq, const struct ohca_buf *buf,
			     uint32_t log_size)
{
	struct ohca_rq *rq = &srq->rq;

	srq->buf = *buf;
	rq->db = buf->addr + OHCA_DB_OFFSET;
	rq->ring = buf->addr + OHCA_RQ_RING_OFFSET;
	rq->size = 1u << log_size;
	rq->offset_mask = (rq->size - 1) << rq->log_stride;
	if (srq->tm)
		srq->tm->ring = buf->addr + ohca_tm_ring_offset(log_size,
								rq->log_stride);
}

/* With @dying_lock held, after the kernel has destroyed @srq: as ohca_qp_clean_dead(). */
static void ohca_srq_clean_dead(struct ohca_context *ctx, struct ohca_srq *srq)
{
	if (!ohca_clean_begin(ctx, &srq->cleaning))
		return;
	ohca_cq_clean_srq(srq->xrc_cq, srq->rq.number);
	ohca_clean_end(ctx, &srq->cleaning);
}

/* As ohca_qp_find_dead(). */
static struct ohca_srq *ohca_srq_find_dead(struct ohca_context *ctx,
					   uint32_t srqn)
{
	struct ohca_srq *srq;

	list_for_each(&ctx->dying_srqs, srq, dying)
		if (srq->rq.number == srqn && srq->cleaning != OHCA_CLEAN)
			return srq;
	return NULL;
}

/* As ohca_qp_take_number(): a new XRC SRQ must have no completions of its number yet. */
static void ohca_srq_take_number(struct ohca_context *ctx, uint32_t srqn)
{
	struct ohca_srq *srq;

	pthread_mutex_lock(&ctx->dying_lock);
	while ((srq = ohca_srq_find_dead(ctx, srqn)))
		ohca_srq_clean_dead(ctx, srq);
	pthread_mutex_unlock(&ctx->dying_lock);
}

/**
 * ohca_create_srq_ex - ibv_create_srq_ex(): basic, XRC, tag matching
 *
 * On return @attr->attr holds what can be posted. NULL with errno: EINVAL for
 * what no SRQ can be, EOPNOTSUPP for other types, ENOMEM, or the kernel's.
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
	srq->rq.log_stride = log_stride;
	srq->rq.doorbell = ctx->uar + OHCA_UAR_SRQ;
	ohca_lock_init(&srq->rq.lock, !(srq->pd && srq->pd->td));
	if (tm) {
		err = ohca_tm_init(srq, to_ocq(attr->cq), log_ops,
				   attr->tm_cap.max_num_tags);
		if (err)
			goto err_buf;
	}
	ohca_srq_set_buf(srq, &srq->buf, log_size);

	cmd.log_size = log_size;
	cmd.log_stride = log_stride;
	cmd.log_ops = log_ops;
	cmd.buf_addr = (uintptr_t)srq->buf.addr;
	cmd.buf_size = srq->buf.size;
	err = ibv_cmd_create_srq_ex(ibctx, &srq->vsrq, attr, &cmd.ibv_cmd,
				    sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (err)
		goto err_buf;

	srq->rq.number = resp.drv_payload.srqn;
	if (ohca_is_xrc(attr)) {
		srq->xrc_cq = to_ocq(attr->cq);
		ohca_srq_take_number(ctx, srq->rq.number);
	}
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

/*
 * Changes the size, and with IBV_SRQ_LIMIT the limit. The device moves the WQEs, in their
 * order, while no thread can post; it takes WQEs before and after.
 */
static int ohca_resize_srq(struct ohca_srq *srq, struct ibv_srq_attr *attr,
			   int attr_mask)
{
	struct ohca_context *ctx = to_octx(srq->vsrq.srq.context);
	struct uohca_modify_srq cmd = {};
	struct ohca_buf buf, old;
	uint32_t log_size;
	uint64_t size;
	int err;

	if (!ohca_has_feature(ctx, OHCA_FEATURE_SRQ_RESIZE))
		return EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > 1u << ctx->log_max_srq_wqes)
		return EINVAL;
	log_size = ohca_log2_up(attr->max_wr);
	size = ohca_srq_buf_size(log_size, srq->rq.log_stride);
	if (srq->tm)
		size += (uint64_t)srq->tm->size << OHCA_TM_WQE_SHIFT;
	err = ohca_buf_alloc(ctx, &buf, srq->pd, size, OHCA_RES_SRQ);
	if (err)
		return err;

	cmd.log_size = log_size;
	cmd.buf_addr = (uintptr_t)buf.addr;
	cmd.buf_size = buf.size;
	ohca_lock_slow(&srq->rq.lock);
	if (srq->tm)
		ohca_lock_slow(&srq->tm->lock);
	old = srq->buf;
	/* the device checks that all fit, after it has stopped taking WQEs */
	err = ibv_cmd_modify_srq(&srq->vsrq.srq, attr, attr_mask, &cmd.ibv_cmd,
				 sizeof(cmd));
	if (!err)
		ohca_srq_set_buf(srq, &buf, log_size);
	if (srq->tm)
		ohca_unlock_slow(&srq->tm->lock);
	ohca_unlock_slow(&srq->rq.lock);
	ohca_buf_free(err ? &buf : &old);
	return err;
}

/**
 * ohca_modify_srq - ibv_modify_srq(): arm the limit event, change the size
 *
 * Return: 0; EINVAL for a size or limit out of range, or if more is outstanding than would
 * fit; EOPNOTSUPP for a size if the device cannot; else the kernel's errno value. On failure
 * nothing has changed.
 */
int ohca_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
		    int attr_mask)
{
	struct ibv_modify_srq cmd;

	if (attr_mask & IBV_SRQ_MAX_WR)
		return ohca_errno(ohca_resize_srq(to_osrq(ibsrq), attr,
						  attr_mask));
	return ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd, sizeof(cmd));
}

/** ohca_query_srq - ibv_query_srq(); sizes are what can be posted */
int ohca_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ohca_srq *srq = to_osrq(ibsrq);
	struct ibv_query_srq cmd;
	int err;

	err = ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
	if (err)
		return err;
	/* a thread that resizes it meanwhile holds the lock */
	ohca_lock(&srq->rq.lock);
	attr->max_wr = srq->rq.size;
	ohca_unlock(&srq->rq.lock);
	attr->max_sge = srq->rq.sge_limit - 1;
	return 0;
}

/** ohca_get_srq_num - ibv_get_srq_num() */
int ohca_get_srq_num(struct ibv_srq *ibsrq, uint32_t *srq_num)
{
	*srq_num = to_osrq(ibsrq)->rq.number;
	return 0;
}

/*
 * Removes an XRC SRQ's completions from its CQ, since their WQEs are freed. After the command the
 * device writes no further ones.
 */
static int ohca_destroy_xrc_srq(struct ohca_srq *srq)
{
	struct ohca_context *ctx = to_octx(srq->vsrq.srq.context);
	int err;

	pthread_mutex_lock(&ctx->dying_lock);
	list_add_tail(&ctx->dying_srqs, &srq->dying);
	pthread_mutex_unlock(&ctx->dying_lock);
	err = ibv_cmd_destroy_srq(&srq->vsrq.srq);
	pthread_mutex_lock(&ctx->dying_lock);
	while (!err && srq->cleaning != OHCA_CLEAN)
		ohca_srq_clean_dead(ctx, srq);
	list_del(&srq->dying);
	pthread_mutex_unlock(&ctx->dying_lock);
	return err;
}

/** ohca_destroy_srq - ibv_destroy_srq(); the completions of an XRC SRQ are removed */
int ohca_destroy_srq(struct ibv_srq *ibsrq)
{
	struct ohca_srq *srq = to_osrq(ibsrq);
	int err;

	if (srq->tm)
		ohca_tm_settle(srq);
	err = srq->xrc_cq ? ohca_destroy_xrc_srq(srq) :
			    ibv_cmd_destroy_srq(ibsrq);
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
