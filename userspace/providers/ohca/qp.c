// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* QPs: creation, states, resize and destruction. */

#include <stdlib.h>

#include "compat.h"
#include "wr.h"
#include "ohca_abi.h"

#define OHCA_UD_OPS (OHCA_BIT(OHCA_OP_SEND) | OHCA_BIT(OHCA_OP_SEND_IMM))
#define OHCA_UC_OPS                                                            \
	(OHCA_UD_OPS | OHCA_BIT(OHCA_OP_RDMA_WRITE) |                          \
	 OHCA_BIT(OHCA_OP_RDMA_WRITE_IMM) | OHCA_BIT(OHCA_OP_LOCAL_INV) |      \
	 OHCA_BIT(OHCA_OP_BIND_MW))
#define OHCA_RC_OPS                                                            \
	(OHCA_UC_OPS | OHCA_BIT(OHCA_OP_RDMA_READ) |                           \
	 OHCA_BIT(OHCA_OP_CMP_SWAP) | OHCA_BIT(OHCA_OP_FETCH_ADD) |            \
	 OHCA_BIT(OHCA_OP_SEND_INV))

#define OHCA_MPE_OPS (OHCA_BIT(OHCA_OP_FLUSH) | OHCA_BIT(OHCA_OP_ATOMIC_WRITE))

/* Operations that libibverbs lacks, or whose feature the device does not have. */
static uint32_t ohca_missing_ops(const struct ohca_context *ctx)
{
	uint32_t ops = OHCA_COMPAT_NO_OPS;

	if (!ohca_has_feature(ctx, OHCA_FEATURE_MPE))
		ops |= OHCA_MPE_OPS;
	if (!ohca_has_feature(ctx, OHCA_FEATURE_MW))
		ops |= OHCA_BIT(OHCA_OP_BIND_MW);
	if (!ohca_has_feature(ctx, OHCA_FEATURE_FRMR))
		ops |= OHCA_KEY_OPS;
	return ops;
}

/* Bits of enum ohca_wqe_op that a QP type has; 0 for an unsupported type. */
static uint32_t ohca_type_ops(const struct ohca_context *ctx,
			      enum ibv_qp_type type)
{
	uint32_t ops = 0;

	switch (type) {
	case IBV_QPT_RC:
		ops = OHCA_RC_OPS | OHCA_MPE_OPS;
		break;
	case IBV_QPT_XRC_SEND:
		if (ohca_has_feature(ctx, OHCA_FEATURE_XRC))
			ops = OHCA_RC_OPS;
		break;
	case IBV_QPT_UC:
		ops = OHCA_UC_OPS;
		break;
	case IBV_QPT_UD:
		ops = OHCA_UD_OPS;
		break;
	default:
		break;
	}
	return ops & ~ohca_missing_ops(ctx);
}

/* Bits of enum ibv_send_flags that are invalid for a QP of this type. */
static uint32_t ohca_type_no_flags(const struct ohca_context *ctx,
				   enum ibv_qp_type type)
{
	return type == IBV_QPT_UD &&
			       ohca_has_feature(ctx, OHCA_FEATURE_UD_CSUM) ?
		       0 :
		       IBV_SEND_IP_CSUM;
}

/* Takes both queues' locks: no thread posts meanwhile. */
static void ohca_qp_lock(struct ohca_qp *qp)
{
	ohca_lock(&qp->sq.lock);
	ohca_lock(&qp->rq.lock);
}

static void ohca_qp_unlock(struct ohca_qp *qp)
{
	ohca_unlock(&qp->rq.lock);
	ohca_unlock(&qp->sq.lock);
}

/*
 * What may be posted in a state (IBTA vol 1, 10.3.1): receives from INIT on, sends
 * from RTS on; in the error state both, to be flushed. With both locks held, or before
 * the QP is published.
 */
static void ohca_qp_set_state(struct ohca_qp *qp, enum ibv_qp_state state)
{
	qp->sq.ops = state >= IBV_QPS_RTS ? qp->all_ops : 0;
	/* builders only: ibv_send_wr has no fields for FLUSH, and its TSO fields are not used */
	qp->sq.post_ops = qp->sq.ops &
			  ~(OHCA_BIT(OHCA_OP_FLUSH) | OHCA_BIT(OHCA_OP_TSO));
	qp->sq.fast_ops = qp->sq.xrc ? 0 : qp->sq.post_ops & ~OHCA_NO_DATA_OPS;
	qp->rq.sge_limit = state == IBV_QPS_RESET ? 0 : qp->rq_sge_limit;
}

static uint32_t ohca_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Whether the device uses the send queue of a QP of this SRQ. */
static bool ohca_has_tags(struct ibv_srq *srq)
{
	return srq && to_osrq(srq)->tm;
}

/* Largest headers of the QP's large segments, bytes; 0: no large segments. */
static uint32_t ohca_tso_header(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER ?
		       attr->max_tso_header :
		       0;
}

/* The result of ohca_qp_plan(). */
struct ohca_qp_plan {
	bool dgram;
	bool xrc;
	bool has_rq;
	uint32_t wqe_bbs;	/* of the largest send WQE */
	uint32_t max_tso_header;
	uint32_t log_sq;
	uint32_t log_rq;
	uint32_t log_stride;
	struct ibv_qp_cap cap;	/* what can be posted */
};

/* Largest number of requests of a queue, as query_device reports it. */
static uint32_t ohca_max_qp_wr(const struct ohca_context *ctx)
{
	return 1u << ohca_min(ctx->log_max_sq_bbs, ctx->log_max_rq_wqes);
}

/*
 * Sets the sizes of the queues for the requests of @cap; the rest of @plan is set. With
 * an SRQ with tags the send queue is one unused block. 0 or EINVAL.
 */
static int ohca_qp_plan_wrs(const struct ohca_context *ctx,
			    const struct ibv_qp_cap *cap, bool tags,
			    struct ohca_qp_plan *plan)
{
	uint32_t max_wr = cap->max_send_wr ? cap->max_send_wr : 1;

	if (cap->max_send_wr > ohca_max_qp_wr(ctx) ||
	    cap->max_recv_wr > ohca_max_qp_wr(ctx))
		return EINVAL;
	plan->log_sq = tags ? 0 : ohca_log2_up(max_wr * plan->wqe_bbs);
	if (plan->log_sq > ctx->log_max_sq_bbs)
		return EINVAL;
	plan->cap.max_send_wr =
		tags ? 0 : ohca_min((1u << plan->log_sq) / plan->wqe_bbs,
				    ohca_max_qp_wr(ctx));
	plan->log_rq = plan->has_rq ? ohca_log2_up(cap->max_recv_wr) : 0;
	plan->cap.max_recv_wr = plan->has_rq ? 1u << plan->log_rq : 0;
	return 0;
}

/* Sizes of the queues of a QP with @attr's capabilities; 0 or EINVAL. */
static int ohca_qp_plan(const struct ohca_context *ctx,
			const struct ibv_qp_init_attr_ex *attr,
			struct ohca_qp_plan *plan)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	bool tags = ohca_has_tags(attr->srq);
	uint32_t tso = ohca_tso_header(attr);
	uint32_t bbs, hdr, max_sge, segs;

	if (cap->max_send_sge > ctx->max_sge ||
	    cap->max_recv_sge > ctx->max_sge ||
	    cap->max_inline_data > ctx->max_inline)
		return EINVAL;

	plan->dgram = attr->qp_type == IBV_QPT_UD;
	plan->xrc = attr->qp_type == IBV_QPT_XRC_SEND;
	plan->has_rq = !attr->srq && !plan->xrc;

	max_sge = cap->max_send_sge ? cap->max_send_sge : 1;
	hdr = ohca_wqe_hdr_segs(plan->dgram || plan->xrc);
	bbs = ohca_sq_wqe_bbs(plan->dgram || plan->xrc, max_sge, cap->max_inline_data);
	if (tso) {
		segs = hdr + ohca_tso_segs(tso) + max_sge;
		if (segs > OHCA_MAX_WQE_BBS * OHCA_SEGS_PER_BB)
			return EINVAL;
		if (bbs < ohca_segs_to_bbs(segs))
			bbs = ohca_segs_to_bbs(segs);
	}
	segs = bbs * OHCA_SEGS_PER_BB - hdr;
	plan->wqe_bbs = bbs;
	plan->max_tso_header = tso;
	plan->cap.max_send_sge =
		ohca_min(tso ? segs - ohca_tso_segs(tso) : segs, ctx->max_sge);
	plan->cap.max_inline_data =
		ohca_min(segs * OHCA_SEG_SIZE, ctx->max_inline);
	if (tags) {
		plan->cap.max_send_sge = 0;
		plan->cap.max_inline_data = 0;
	}

	plan->log_stride = OHCA_MIN_LOG_RQ_STRIDE;
	plan->cap.max_recv_sge = 0;
	if (plan->has_rq) {
		plan->log_stride = ohca_rq_log_stride(cap->max_recv_sge);
		plan->cap.max_recv_sge = ohca_min(
			ohca_rq_stride_sges(plan->log_stride), ctx->max_sge);
	}
	return ohca_qp_plan_wrs(ctx, cap, tags, plan);
}

/* The plan of @qp without the sizes, which ohca_qp_plan_wrs() sets. */
static struct ohca_qp_plan ohca_qp_planned(struct ohca_qp *qp)
{
	struct ohca_qp_plan plan;

	ohca_qp_lock(qp);
	plan = (struct ohca_qp_plan){
		.dgram = qp->sq.dgram,
		.xrc = qp->sq.xrc,
		.has_rq = qp->rq_sge_limit,
		.wqe_bbs = qp->wqe_bbs,
		.max_tso_header = qp->sq.max_tso_header,
		.log_stride = qp->rq.log_stride,
		.cap = qp->cap,
	};
	ohca_qp_unlock(qp);
	return plan;
}

static int ohca_qp_alloc_buf(struct ohca_context *ctx, struct ohca_pd *pd,
			     const struct ohca_qp_plan *plan,
			     struct ohca_buf *buf)
{
	return ohca_buf_alloc(ctx, buf, pd,
			      ohca_qp_buf_size(plan->has_rq, plan->log_rq,
					       plan->log_stride, plan->log_sq),
			      OHCA_RES_QP);
}

/* Moves the queues to @buf; with both locks held, or before the QP is published. */
static void ohca_qp_set_buf(struct ohca_qp *qp, const struct ohca_buf *buf,
			    const struct ohca_qp_plan *plan)
{
	struct ohca_sq *sq = &qp->sq;
	struct ohca_rq *rq = &qp->rq;

	qp->buf = *buf;
	qp->db = buf->addr + OHCA_DB_OFFSET;
	sq->ring = buf->addr + ohca_sq_offset(plan->has_rq, plan->log_rq,
					      plan->log_stride);
	sq->size = 1u << plan->log_sq;
	sq->end = sq->ring + ((size_t)sq->size << OHCA_BB_SHIFT);
	sq->dgram = plan->dgram;
	sq->xrc = plan->xrc;
	sq->room = sq->size - plan->wqe_bbs;
	sq->offset_mask = (sq->size - 1) << OHCA_BB_SHIFT;
	sq->sge_limit = plan->cap.max_send_sge + 1;
	sq->max_inline = plan->cap.max_inline_data;
	sq->max_tso_header = plan->max_tso_header;
	rq->ring = buf->addr + OHCA_RQ_RING_OFFSET;
	rq->db = qp->db;
	rq->size = 1u << plan->log_rq;
	rq->log_stride = plan->log_stride;
	rq->offset_mask = (rq->size - 1) << rq->log_stride;
	qp->rq_sge_limit = plan->has_rq ? plan->cap.max_recv_sge + 1 : 0;
	qp->wqe_bbs = plan->wqe_bbs;
	qp->cap = plan->cap;
}

static int ohca_check_qp_attr(const struct ohca_context *ctx,
			      const struct ibv_qp_init_attr_ex *attr)
{
	if (!check_comp_mask(attr->comp_mask,
			     IBV_QP_INIT_ATTR_PD |
				     IBV_QP_INIT_ATTR_CREATE_FLAGS |
				     IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
				     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
	    !ohca_type_ops(ctx, attr->qp_type))
		return EOPNOTSUPP;
	if (ohca_tso_header(attr) && (attr->qp_type != IBV_QPT_UD ||
				      !ohca_has_feature(ctx, OHCA_FEATURE_TSO)))
		return EOPNOTSUPP;
	if (ohca_tso_header(attr) > OHCA_MAX_TSO_HDR)
		return EINVAL;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	    attr->create_flags & ~IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->send_cq)
		return EINVAL;
	/* the kernel takes no receive queue of an initiator, whatever the attributes have */
	if (attr->qp_type == IBV_QPT_XRC_SEND ? !!attr->srq : !attr->recv_cq)
		return EINVAL;
	if (ohca_has_tags(attr->srq) &&
	    (attr->qp_type != IBV_QPT_RC || attr->cap.max_send_wr))
		return EINVAL;
	return 0;
}

/*
 * Receives of a target belong to SRQs and stay, as do messages of an SRQ with tags, which free
 * tags; an initiator receives nothing.
 */
static void ohca_qp_clean_cqs(struct ohca_qp *qp)
{
	struct ibv_qp *ibqp = &qp->vqp.qp;

	if (ibqp->qp_type == IBV_QPT_XRC_RECV || qp->tags)
		return;
	ohca_cq_clean(to_ocq(ibqp->send_cq), qp->handle);
	if (ibqp->recv_cq && ibqp->recv_cq != ibqp->send_cq)
		ohca_cq_clean(to_ocq(ibqp->recv_cq), qp->handle);
}

/**
 * ohca_clean_begin - begin to clean the CQs of an object that the kernel has destroyed
 * @ctx: open device, its dying_lock held; dropped if the caller has to clean
 * @cleaning: state of the object, which is in a list of @ctx; not OHCA_CLEAN
 *
 * A poller holds the lock of its CQ between ibv_start_poll() and ibv_end_poll(), and may create or
 * destroy other objects there. So no thread waits for a CQ while it holds dying_lock. The thread
 * that destroys the object frees it when it is clean.
 *
 * Return: true if the caller has to clean the CQs and then to call ohca_clean_end(); false if it
 * has waited for a thread that cleans: then the object may be freed, unless the caller destroys it.
 */
bool ohca_clean_begin(struct ohca_context *ctx, enum ohca_cleaning *cleaning)
{
	if (*cleaning == OHCA_CLEANING) {
		pthread_cond_wait(&ctx->cleaned, &ctx->dying_lock);
		return false;
	}
	*cleaning = OHCA_CLEANING;
	pthread_mutex_unlock(&ctx->dying_lock);
	return true;
}

/** ohca_clean_end - the CQs are clean; takes the lock again that ohca_clean_begin() dropped */
void ohca_clean_end(struct ohca_context *ctx, enum ohca_cleaning *cleaning)
{
	pthread_mutex_lock(&ctx->dying_lock);
	*cleaning = OHCA_CLEAN;
	pthread_cond_broadcast(&ctx->cleaned);
}

/*
 * With @dying_lock held, after the kernel has destroyed @qp, which is not clean: cleans its CQs, or
 * waits as ohca_clean_begin().
 */
static void ohca_qp_clean_dead(struct ohca_context *ctx, struct ohca_qp *qp)
{
	if (!ohca_clean_begin(ctx, &qp->cleaning))
		return;
	ohca_qp_clean_cqs(qp);
	ohca_clean_end(ctx, &qp->cleaning);
}

/* With @dying_lock held: a QP with this number that is not clean, or NULL. */
static struct ohca_qp *ohca_qp_find_dead(struct ohca_context *ctx,
					 uint32_t handle)
{
	struct ohca_qp *qp;

	list_for_each(&ctx->dying, qp, dying)
		if (qp->handle == handle && qp->cleaning != OHCA_CLEAN)
			return qp;
	return NULL;
}

/**
 * ohca_qp_take_number - remove the completions of an earlier QP with the same number
 * @ctx: open device
 * @handle: of a QP that the kernel has just created
 *
 * The kernel may reuse a number as soon as it has destroyed the QP. The destroying thread removes
 * the QP's completions after the command has returned, that is after all events of the QP are
 * acknowledged. The creating thread may be the one that acknowledges them; so it removes the
 * completions itself. It waits only for a thread that is removing them.
 */
void ohca_qp_take_number(struct ohca_context *ctx, uint32_t handle)
{
	struct ohca_qp *qp;

	pthread_mutex_lock(&ctx->dying_lock);
	while ((qp = ohca_qp_find_dead(ctx, handle)))
		ohca_qp_clean_dead(ctx, qp);
	pthread_mutex_unlock(&ctx->dying_lock);
}

/** ohca_qp_new - allocate a zeroed QP, to be freed with free(); NULL without memory */
struct ohca_qp *ohca_qp_new(void)
{
	struct ohca_qp *qp = aligned_alloc(OHCA_CACHE_LINE, sizeof(*qp));

	if (qp)
		memset(qp, 0, sizeof(*qp));
	return qp;
}

/**
 * ohca_create_qp_ex - ibv_create_qp_ex()
 *
 * On return @attr->cap holds what can be posted. NULL with errno: EINVAL
 * for sizes out of range, EOPNOTSUPP for unsupported types and operations,
 * ENOMEM, or the kernel's.
 */
struct ibv_qp *ohca_create_qp_ex(struct ibv_context *ibctx,
				 struct ibv_qp_init_attr_ex *attr)
{
	struct ohca_context *ctx = to_octx(ibctx);
	struct uohca_create_qp_ex_resp resp = {};
	struct uohca_create_qp_ex cmd = {};
	struct ohca_qp_plan plan;
	struct ohca_qp *qp;
	bool locked;
	int err;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return ohca_create_target(ibctx, attr);
	err = ohca_check_qp_attr(ctx, attr);
	if (!err)
		err = ohca_qp_plan(ctx, attr, &plan);
	if (err) {
		errno = err;
		return NULL;
	}
	qp = ohca_qp_new();
	if (!qp) {
		errno = ENOMEM;
		return NULL;
	}

	qp->tags = ohca_has_tags(attr->srq);
	qp->all_ops = qp->tags ? 0 : ohca_type_ops(ctx, attr->qp_type);
	if (plan.max_tso_header)
		qp->all_ops |= OHCA_BIT(OHCA_OP_TSO);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		err = ohca_qp_fill_wr_ops(qp, attr->send_ops_flags);
		if (err)
			goto err_free;
	}
	qp->pd = ohca_parent_domain_get(attr->pd);
	qp->sq.no_flags = ohca_type_no_flags(ctx, attr->qp_type);
	qp->sq.slow_flags = qp->sq.no_flags | ~OHCA_USER_FLAGS;
	qp->sq.pdn = to_opd(attr->pd)->pdn;
	err = ohca_qp_alloc_buf(ctx, qp->pd, &plan, &qp->buf);
	if (err)
		goto err_pd;
	ohca_qp_set_buf(qp, &qp->buf, &plan);

	cmd.log_sq = plan.log_sq;
	cmd.log_rq = plan.log_rq;
	cmd.log_rq_stride = plan.log_stride;
	cmd.buf_addr = (uintptr_t)qp->buf.addr;
	cmd.buf_size = qp->buf.size;
	err = ohca_cmd_create_qp_ex2(ibctx, &qp->vqp, attr, &cmd.ibv_cmd,
				     sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (err)
		goto err_buf;
	ohca_qp_take_number(ctx, resp.drv_payload.handle);

	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		qp->vqp.comp_mask |= VERBS_QP_EX;
	locked = !(qp->pd && qp->pd->td);
	ohca_lock_init(&qp->sq.lock, locked);
	ohca_lock_init(&qp->rq.lock, locked);
	qp->handle = resp.drv_payload.handle;
	qp->uar = ctx->uar;
	qp->rq.doorbell = ctx->uar + OHCA_UAR_RQ;
	qp->rq.number = qp->handle;
	ohca_qp_set_state(qp, IBV_QPS_RESET);
	attr->cap = qp->cap;
	return &qp->vqp.qp;

err_buf:
	ohca_buf_free(&qp->buf);
err_pd:
	ohca_parent_domain_put(qp->pd);
err_free:
	free(qp);
	errno = err;
	return NULL;
}

/** ohca_create_qp - ibv_create_qp(); see ohca_create_qp_ex() */
struct ibv_qp *ohca_create_qp(struct ibv_pd *ibpd,
			      struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = ibpd,
	};
	struct ibv_qp *qp = ohca_create_qp_ex(ibpd->context, &ex);

	if (qp)
		attr->cap = ex.cap;
	return qp;
}

/* The device has reset the queues: restarts them with a zeroed record. With both locks. */
static void ohca_qp_reset(struct ohca_qp *qp)
{
	qp->sq.pi = 0;
	qp->sq.ci = 0;
	qp->rq.pi = 0;
	qp->rq.ci = 0;
	memset(qp->db, 0, sizeof(*qp->db));
	udma_to_device_barrier();
}

/*
 * Resizes the queues. The device moves the outstanding WQEs, in any state, while no thread
 * can post; it sends and receives before and after.
 */
static int ohca_resize_qp(struct ohca_qp *qp, struct ibv_qp_attr *attr,
			  int attr_mask)
{
	struct ohca_context *ctx = to_octx(qp->vqp.qp.context);
	struct ohca_qp_plan plan = ohca_qp_planned(qp);
	struct uohca_modify_qp_ex_resp resp = {};
	struct uohca_modify_qp_ex cmd = {};
	struct ohca_buf buf, old;
	int err;

	if (!ohca_has_feature(ctx, OHCA_FEATURE_QP_RESIZE))
		return EOPNOTSUPP;
	/* neither a target nor a QP of an SRQ with tags has queues of its own */
	if (attr_mask != IBV_QP_CAP || !plan.wqe_bbs || qp->tags ||
	    attr->cap.max_send_sge != plan.cap.max_send_sge ||
	    (plan.has_rq && attr->cap.max_recv_sge != plan.cap.max_recv_sge) ||
	    attr->cap.max_inline_data != plan.cap.max_inline_data)
		return EINVAL;
	err = ohca_qp_plan_wrs(ctx, &attr->cap, false, &plan);
	if (!err)
		err = ohca_qp_alloc_buf(ctx, qp->pd, &plan, &buf);
	if (err)
		return err;

	cmd.log_sq = plan.log_sq;
	cmd.log_rq = plan.log_rq;
	cmd.buf_addr = (uintptr_t)buf.addr;
	cmd.buf_size = buf.size;
	cmd.max_send_wr = plan.cap.max_send_wr;
	cmd.max_recv_wr = plan.cap.max_recv_wr;
	ohca_lock_slow(&qp->sq.lock);
	ohca_lock_slow(&qp->rq.lock);
	old = qp->buf;
	/* the device checks that all fit */
	err = ibv_cmd_modify_qp_ex(&qp->vqp.qp, attr, attr_mask, &cmd.ibv_cmd,
				   sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (!err)
		ohca_qp_set_buf(qp, &buf, &plan);
	ohca_unlock_slow(&qp->rq.lock);
	ohca_unlock_slow(&qp->sq.lock);
	ohca_buf_free(err ? &buf : &old);
	if (!err)
		attr->cap = plan.cap;
	return err;
}

/**
 * ohca_modify_qp - ibv_modify_qp(); RESET drops what was posted and completed
 *
 * IBV_QP_CAP stands alone. max_send_wr and max_recv_wr may change, the latter, if within the
 * limit, is ignored without a receive queue; @attr->cap becomes what can be posted.
 *
 * Return: 0; with IBV_QP_CAP: EINVAL for sizes out of range, other attributes or other
 * limits that change, or if more is outstanding than would fit; EOPNOTSUPP if the device
 * cannot; else the kernel's errno value. On failure nothing has changed.
 */
int ohca_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct ohca_qp *qp = to_oqp(ibqp);
	struct ibv_modify_qp cmd = {};
	bool reset;
	int err;

	if (attr_mask & IBV_QP_CAP)
		return ohca_errno(ohca_resize_qp(qp, attr, attr_mask));
	err = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (err || !(attr_mask & IBV_QP_STATE))
		return err;
	ohca_qp_lock(qp);
	reset = attr->qp_state == IBV_QPS_RESET && qp->db;
	ohca_qp_set_state(qp, attr->qp_state);
	if (reset)
		ohca_qp_reset(qp);
	ohca_qp_unlock(qp);
	if (reset)
		ohca_qp_clean_cqs(qp);
	return 0;
}

/** ohca_query_qp - ibv_query_qp(); capabilities as reported when they were set last */
int ohca_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr)
{
	struct ohca_qp *qp = to_oqp(ibqp);
	struct ibv_query_qp cmd;
	int err;

	err = ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr, &cmd,
			       sizeof(cmd));
	if (err)
		return err;
	/* a thread that resizes the queues meanwhile holds both locks */
	ohca_lock(&qp->sq.lock);
	attr->cap = qp->cap;
	ohca_unlock(&qp->sq.lock);
	init_attr->cap = attr->cap;
	return 0;
}

/**
 * ohca_destroy_qp - ibv_destroy_qp()
 *
 * After the command the device no longer accesses the queues and writes no further
 * completions; those in the CQs are removed.
 */
int ohca_destroy_qp(struct ibv_qp *ibqp)
{
	struct ohca_context *ctx = to_octx(ibqp->context);
	struct ohca_qp *qp = to_oqp(ibqp);
	int err;

	pthread_mutex_lock(&ctx->dying_lock);
	list_add_tail(&ctx->dying, &qp->dying);
	pthread_mutex_unlock(&ctx->dying_lock);
	err = ibv_cmd_destroy_qp(ibqp);
	pthread_mutex_lock(&ctx->dying_lock);
	while (!err && qp->cleaning != OHCA_CLEAN)
		ohca_qp_clean_dead(ctx, qp);
	list_del(&qp->dying);
	pthread_mutex_unlock(&ctx->dying_lock);
	if (err)
		return err;
	ohca_buf_free(&qp->buf);
	ohca_parent_domain_put(qp->pd);
	free(qp);
	return 0;
}
