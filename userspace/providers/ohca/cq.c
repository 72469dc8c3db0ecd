// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* CQs: creation, resize and destruction. */

#include <stdlib.h>

#include "compat.h"
#include "ohca.h"
#include "ohca_abi.h"

#define OHCA_CQ_WC_FLAGS (IBV_WC_STANDARD_FLAGS)

static int ohca_check_cq_attr(struct ohca_context *ctx,
			      const struct ibv_cq_init_attr_ex *attr)
{
	uint64_t wc_flags = OHCA_CQ_WC_FLAGS;

	if (ohca_has_feature(ctx, OHCA_FEATURE_TIMESTAMP))
		wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	if (ohca_has_feature(ctx, OHCA_FEATURE_TIMESTAMP) &&
	    ohca_has_feature(ctx, OHCA_FEATURE_CLOCK))
		wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	if (ohca_has_feature(ctx, OHCA_FEATURE_TM))
		wc_flags |= IBV_WC_EX_WITH_TM_INFO;
	if (!check_comp_mask(attr->comp_mask, IBV_CQ_INIT_ATTR_MASK_FLAGS |
						      IBV_CQ_INIT_ATTR_MASK_PD))
		return EOPNOTSUPP;
	if (attr->wc_flags & ~wc_flags)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		return EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > 1u << ctx->log_max_cqe)
		return EINVAL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD &&
	    !(attr->parent_domain && to_opd(attr->parent_domain)->base))
		return EINVAL;
	return 0;
}

static void ohca_cq_set_buf(struct ohca_cq *cq, const struct ohca_buf *buf,
			    uint32_t log_size)
{
	cq->buf = *buf;
	cq->db = buf->addr + OHCA_DB_OFFSET;
	cq->ring = buf->addr + OHCA_CQ_RING_OFFSET;
	cq->log_size = log_size;
	cq->mask = (1u << log_size) - 1;
}

/**
 * ohca_create_cq_ex - ibv_create_cq_ex()
 *
 * Return: the CQ, of a power of two of entries; NULL with errno: EINVAL for a size
 * or vector out of range, EOPNOTSUPP for unsupported flags.
 */
struct ibv_cq_ex *ohca_create_cq_ex(struct ibv_context *ibctx,
				    struct ibv_cq_init_attr_ex *attr)
{
	struct ohca_context *ctx = to_octx(ibctx);
	/* Of the flags, the kernel accepts only those of timestamps. */
	struct ibv_cq_init_attr_ex kattr = *attr;
	struct uohca_create_cq_ex_resp resp = {};
	struct uohca_create_cq_ex cmd = {};
	struct ohca_buf buf;
	bool single = false;
	uint32_t log_size;
	struct ohca_cq *cq;
	int err;

	err = ohca_check_cq_attr(ctx, attr);
	if (err)
		goto err_errno;
	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		err = ENOMEM;
		goto err_errno;
	}

	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		cq->pd = ohca_parent_domain_get(attr->parent_domain);
	log_size = ohca_log2_up(attr->cqe);
	err = ohca_buf_alloc(ctx, &buf, cq->pd, ohca_cq_buf_size(log_size),
			     OHCA_RES_CQ);
	if (err)
		goto err_free;
	ohca_cq_set_buf(cq, &buf, log_size);

	kattr.wc_flags &= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	kattr.comp_mask = 0;
	cmd.log_size = log_size;
	cmd.buf_addr = (uintptr_t)buf.addr;
	cmd.buf_size = buf.size;
	err = ohca_cmd_create_cq_ex(ibctx, &kattr, &cq->vcq, &cmd.ibv_cmd,
				    sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (err)
		goto err_buf;

	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		single = attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	if (cq->pd && cq->pd->td)
		single = true;
	ohca_lock_init(&cq->lock, !single);
	cq->cqn = resp.cqn;
	cq->uar = ctx->uar;
	cq->vcq.cq.cqe = 1 << log_size;
	ohca_cq_fill_poll_ops(cq, attr->wc_flags);
	return &cq->vcq.cq_ex;

err_buf:
	ohca_buf_free(&buf);
err_free:
	ohca_parent_domain_put(cq->pd);
	free(cq);
err_errno:
	errno = err;
	return NULL;
}

/** ohca_create_cq - ibv_create_cq() */
struct ibv_cq *ohca_create_cq(struct ibv_context *ibctx, int cqe,
			      struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.channel = channel,
		.comp_vector = comp_vector,
	};
	struct ibv_cq_ex *cq;

	if (cqe <= 0) {
		errno = EINVAL;
		return NULL;
	}
	cq = ohca_create_cq_ex(ibctx, &attr);
	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

/*
 * An entry is valid by its owner bit and its index. Indices go on after a resize,
 * so the owner bits of a new ring must be invalid for the lap that begins at @ci, which is
 * not always zero.
 */
static void ohca_cq_init_owners(const struct ohca_buf *buf, uint32_t ci,
				uint32_t log_size)
{
	struct ohca_hw_cqe *ring = buf->addr + OHCA_CQ_RING_OFFSET;
	uint32_t mask = (1u << log_size) - 1;
	uint32_t n;

	for (n = 0; n <= mask; n++)
		ring[(ci + n) & mask].owner = (ci + n) >> log_size & 1;
}

/**
 * ohca_resize_cq - ibv_resize_cq()
 *
 * The device moves the entries that are not polled yet. Return: 0; EINVAL if @cqe
 * is out of range or too small for them; else the kernel's errno value.
 */
int ohca_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct ohca_context *ctx = to_octx(ibcq->context);
	struct ib_uverbs_resize_cq_resp resp = {};
	struct ohca_cq *cq = to_ocq(ibcq);
	struct uohca_resize_cq cmd = {};
	struct ohca_buf buf, old;
	uint32_t log_size;
	int err;

	if (!ohca_has_feature(ctx, OHCA_FEATURE_CQ_RESIZE))
		return ohca_errno(EOPNOTSUPP);
	if (cqe <= 0 || cqe > 1 << ctx->log_max_cqe)
		return ohca_errno(EINVAL);
	log_size = ohca_log2_up(cqe);
	err = ohca_buf_alloc(ctx, &buf, cq->pd, ohca_cq_buf_size(log_size),
			     OHCA_RES_CQ);
	if (err)
		return ohca_errno(err);

	ohca_lock_slow(&cq->lock);
	old = cq->buf;
	if (ohca_cq_pending(cq) > 1u << log_size) {
		err = EINVAL;
		goto out;
	}
	cmd.log_size = log_size;
	cmd.buf_addr = (uintptr_t)buf.addr;
	cmd.buf_size = buf.size;
	cmd.ci = atomic_load_explicit(&cq->ci, memory_order_relaxed);
	ohca_cq_init_owners(&buf, cmd.ci, log_size);
	ohca_store_le32(&((struct ohca_hw_db *)buf.addr)->cq_ci, cmd.ci);
	err = ibv_cmd_resize_cq(ibcq, cqe, &cmd.ibv_cmd, sizeof(cmd), &resp,
				sizeof(resp));
	if (err)
		goto out;
	ohca_cq_set_buf(cq, &buf, log_size);
	ibcq->cqe = 1 << log_size;
out:
	ohca_unlock_slow(&cq->lock);
	ohca_buf_free(err ? &buf : &old);
	return ohca_errno(err);
}

/** ohca_modify_cq - ibv_modify_cq(): event moderation */
int ohca_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq cmd = {};

	return ibv_cmd_modify_cq(ibcq, attr, &cmd, sizeof(cmd));
}

/** ohca_destroy_cq - ibv_destroy_cq(); waits until its events are acknowledged */
int ohca_destroy_cq(struct ibv_cq *ibcq)
{
	struct ohca_cq *cq = to_ocq(ibcq);
	int err = ibv_cmd_destroy_cq(ibcq);

	if (err)
		return err;
	ohca_buf_free(&cq->buf);
	ohca_parent_domain_put(cq->pd);
	free(cq);
	return 0;
}
