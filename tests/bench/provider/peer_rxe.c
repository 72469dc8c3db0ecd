// SPDX-License-Identifier: GPL-2.0-or-later
/* rxe: its operations are static, so this file includes its source. */
#include "rxe.c"

#include <fcntl.h>

#include "peer.h"

static struct rxe_context context;
static struct rxe_cq cq;
static struct rxe_qp qp;
static struct rxe_ah ah;

static struct rxe_queue_buf *ring(uint32_t entries, uint32_t log_size)
{
	struct rxe_queue_buf *q = peer_memory(sizeof(*q) + ((size_t)entries << log_size));

	q->log2_elem_size = log_size;
	q->index_mask = entries - 1;
	return q;
}

static bool setup(struct peer *p, bool ud)
{
	const uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;

	/* a doorbell of rxe is a write() */
	context.ibv_ctx.context.cmd_fd = open("/dev/null", O_WRONLY);
	cq.vcq.cq.context = &context.ibv_ctx.context;
	cq.queue = ring(PEER_CQES, 7);
	pthread_spin_init(&cq.lock, PTHREAD_PROCESS_PRIVATE);
	qp.vqp.qp.context = cq.vcq.cq.context;
	qp.vqp.qp.qp_type = ud ? IBV_QPT_UD : IBV_QPT_RC;
	qp.vqp.qp.state = IBV_QPS_RTS;
	qp.sq.queue = ring(PEER_DEPTH, 9);
	qp.rq.queue = ring(PEER_DEPTH, 9);
	qp.sq.max_sge = qp.rq.max_sge = 1;
	qp.sq.max_inline = 64;
	pthread_spin_init(&qp.sq.lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp.rq.lock, PTHREAD_PROCESS_PRIVATE);
	set_qp_send_ops(&qp, ops);
	ah.ah_num = 1;
	p->qp = &qp.vqp.qp;
	p->ex = &qp.vqp.qp_ex;
	p->cq = &cq.vcq.cq;
	p->ah = &ah.ibv_ah;
	return true;
}

static void device(void)
{
	qp.sq.queue->consumer_index = qp.sq.queue->producer_index;
	qp.rq.queue->consumer_index = qp.rq.queue->producer_index;
}

static void complete(void)
{
	struct ib_uverbs_wc *wc = (void *)producer_addr(cq.queue);

	wc->status = 0;
	wc->qp_num = PEER_QPN;
	advance_producer(cq.queue);
}

struct peer peer = {
	.setup = setup,
	.post_send = rxe_post_send,
	.post_recv = rxe_post_recv,
	.poll_cq = rxe_poll_cq,
	.device = device,
	.complete = complete,
};
