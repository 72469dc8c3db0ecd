// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * efa: its builders are static, so this file includes its source. An address handle is needed for
 * each send. post_send() supports SEND alone, and builders support RDMA WRITE, too.
 */
#include "verbs.c"

#include "peer.h"

static struct efa_context *context;
static struct efa_cq *cq;
static struct efa_qp *qp;
static struct efa_ah ah;
static uint32_t made;		/* CQEs so far */

static void queue(struct efa_wq *wq)
{
	unsigned int i;

	wq->wqe_cnt = PEER_DEPTH;
	wq->desc_mask = PEER_DEPTH - 1;
	wq->max_sge = 1;
	wq->wrid = peer_memory(PEER_DEPTH * sizeof(*wq->wrid));
	wq->wrid_idx_pool = peer_memory(PEER_DEPTH * sizeof(*wq->wrid_idx_pool));
	for (i = 0; i < PEER_DEPTH; i++)
		wq->wrid_idx_pool[i] = i;
	wq->db = peer_memory(64);
	pthread_spin_init(&wq->wqlock, PTHREAD_PROCESS_PRIVATE);
}

static bool setup(struct peer *p, bool ud)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};

	if (!ud)
		return false;
	context = peer_memory(sizeof(*context));
	context->qp_table = peer_memory(sizeof(void *) * 16);
	context->qp_table_sz_m1 = 15;
	cq = peer_memory(sizeof(*cq) + sizeof(cq->sub_cq_arr[0]));
	qp = peer_memory(sizeof(*qp));
	context->qp_table[PEER_QPN] = qp;
	cq->verbs_cq.cq.context = &context->ibvctx.context;
	cq->num_sub_cqs = 1;
	cq->cqe_size = sizeof(struct efa_io_tx_cdesc);
	efa_sub_cq_initialize(&cq->sub_cq_arr[0], peer_memory(PEER_CQES * 64), PEER_CQES, 64);
	cq->sub_cq_arr[0].ref_cnt = 1;
	pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
	qp->verbs_qp.qp.context = cq->verbs_cq.cq.context;
	qp->verbs_qp.qp.qp_num = PEER_QPN;
	qp->verbs_qp.qp.state = IBV_QPS_RTS;
	queue(&qp->sq.wq);
	queue(&qp->rq.wq);
	qp->sq.desc = peer_memory(PEER_DEPTH * sizeof(struct efa_io_tx_wqe));
	qp->sq.local_queue = peer_memory(PEER_DEPTH * sizeof(struct efa_io_tx_wqe));
	qp->sq.max_inline_data = 32;
	qp->sq.max_wr_rdma_sge = 1;
	qp->sq.max_batch_wr = PEER_DEPTH;
	qp->rq.buf = peer_memory(PEER_DEPTH * sizeof(struct efa_io_rx_desc));
	efa_qp_fill_wr_pfns(&qp->verbs_qp.qp_ex, &attr);
	p->qp = &qp->verbs_qp.qp;
	p->ex = &qp->verbs_qp.qp_ex;
	p->cq = &cq->verbs_cq.cq;
	p->ah = &ah.ibvah;
	return true;
}

static void device(void)
{
	qp->sq.wq.wqe_completed = qp->sq.wq.wqe_posted;
	qp->rq.wq.wqe_completed = qp->rq.wq.wqe_posted;
	qp->sq.wq.wrid_idx_pool_next = 0;
	qp->rq.wq.wrid_idx_pool_next = 0;
}

static void complete(void)
{
	struct efa_sub_cq *sub = &cq->sub_cq_arr[0];
	struct efa_io_cdesc_common *cqe = efa_sub_cq_get_cqe(sub, made % PEER_CQES);

	cqe->qp_num = PEER_QPN;
	cqe->req_id = qp->sq.wq.wrid_idx_pool_next++;
	cqe->flags = 0;
	EFA_SET(&cqe->flags, EFA_IO_CDESC_COMMON_PHASE, !(made & PEER_CQES));
	EFA_SET(&cqe->flags, EFA_IO_CDESC_COMMON_Q_TYPE, EFA_IO_SEND_QUEUE);
	EFA_SET(&cqe->flags, EFA_IO_CDESC_COMMON_OP_TYPE, EFA_IO_SEND);
	made++;
}

struct peer peer = {
	.setup = setup,
	.post_send = efa_post_send,
	.post_recv = efa_post_recv,
	.poll_cq = efa_poll_cq,
	.device = device,
	.complete = complete,
};
