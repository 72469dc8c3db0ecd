// SPDX-License-Identifier: GPL-2.0-or-later
/* mlx5 with its defaults: doorbells with a lock, which include the first 64 bytes of a lone WQE. */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "mlx5.h"
#include "wqe.h"
#include "peer.h"

/* mlx5.c defines these two for CQEs with errors and of signatures, which do not occur here */
int mlx5_freeze_on_error_cqe;

struct mlx5_mkey *mlx5_find_mkey(struct mlx5_context *ctx, uint32_t mkeyn)
{
	abort();
}

static struct mlx5_context *context;
static struct mlx5_cq cq;
static struct mlx5_qp qp;
static struct mlx5_bf bf;
static struct mlx5_ah ah;
static uint32_t made;		/* CQEs so far */

static void lock(struct mlx5_spinlock *l)
{
	l->need_lock = 1;
	pthread_spin_init(&l->lock, PTHREAD_PROCESS_PRIVATE);
}

static void queue(struct mlx5_wq *wq)
{
	wq->wrid = peer_memory(PEER_DEPTH * sizeof(*wq->wrid));
	wq->wqe_head = peer_memory(PEER_DEPTH * sizeof(*wq->wqe_head));
	wq->wr_data = peer_memory(PEER_DEPTH * sizeof(*wq->wr_data));
	wq->wqe_cnt = wq->max_post = PEER_DEPTH;
	wq->max_gs = wq->qp_state_max_gs = 1;
	wq->wqe_shift = 6;
	lock(&wq->lock);
}

static void doorbell(void)
{
	bf.reg = peer_memory(4096);
	bf.buf_size = 256;
	bf.uuarn = 1;
	bf.need_lock = 1;
	lock(&bf.lock);
}

static bool setup(struct peer *p, bool ud)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = ud ? IBV_QPT_UD : IBV_QPT_RC,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	context = peer_memory(sizeof(*context));
	context->prefer_bf = 1;
	context->cqe_version = 1;
	context->uidx_table[0].refcnt = 1;
	context->uidx_table[0].table = peer_memory(sizeof(void *) << MLX5_UIDX_TABLE_SHIFT);
	context->uidx_table[0].table[PEER_QPN] = &qp.rsc;
	cq.verbs_cq.cq.context = &context->ibv_ctx.context;
	cq.verbs_cq.cq.cqe = PEER_CQES - 1;
	cq.active_buf = &cq.buf_a;
	cq.buf_a.buf = peer_memory(PEER_CQES * 64);
	memset(cq.buf_a.buf, MLX5_CQE_INVALID << 4, PEER_CQES * 64);
	cq.cqe_sz = 64;
	cq.dbrec = peer_memory(64);
	lock(&cq.lock);
	doorbell();
	qp.rsc.type = MLX5_RSC_TYPE_QP;
	qp.rsc.rsn = PEER_QPN;
	qp.ibv_qp = &qp.verbs_qp.qp;
	qp.ibv_qp->context = cq.verbs_cq.cq.context;
	qp.ibv_qp->send_cq = qp.ibv_qp->recv_cq = &cq.verbs_cq.cq;
	qp.ibv_qp->qp_type = attr.qp_type;
	qp.ibv_qp->qp_num = PEER_QPN;
	qp.ibv_qp->state = IBV_QPS_RTS;
	qp.bf = &bf;
	qp.db = peer_memory(64);
	qp.max_inline_data = 64;
	qp.sq_start = peer_memory(PEER_DEPTH * 64);
	qp.buf.buf = peer_memory(PEER_DEPTH * 64);
	queue(&qp.sq);
	queue(&qp.rq);
	qp.sq.qend = qp.sq_start + PEER_DEPTH * 64;
	if (mlx5_qp_fill_wr_pfns(&qp, &attr, NULL))
		return false;
	p->qp = qp.ibv_qp;
	p->ex = &qp.verbs_qp.qp_ex;
	p->cq = &cq.verbs_cq.cq;
	p->ah = &ah.ibv_ah;
	return true;
}

static void device(void)
{
	qp.sq.tail = qp.sq.head;
	qp.rq.tail = qp.rq.head;
}

static void complete(void)
{
	struct mlx5_cqe64 *cqe = cq.buf_a.buf + (size_t)(made % PEER_CQES) * 64;

	cqe->srqn_uidx = htobe32(PEER_QPN);
	cqe->sop_drop_qpn = htobe32((uint32_t)MLX5_OPCODE_RDMA_WRITE << 24 | PEER_QPN);
	cqe->wqe_counter = htobe16((uint16_t)made);
	cqe->op_own = MLX5_CQE_REQ << 4 | !!(made & PEER_CQES);
	made++;
}

struct peer peer = {
	.setup = setup,
	.post_send = mlx5_post_send,
	.post_recv = mlx5_post_recv,
	.poll_cq = mlx5_poll_cq_v1,
	.device = device,
	.complete = complete,
};
