// SPDX-License-Identifier: GPL-2.0-or-later
/* erdma supports neither datagrams nor builders. */
#include <config.h>
#include <stdlib.h>
#include <util/mmio.h>
#include <util/udma_barrier.h>
#include <util/util.h>

#include "erdma.h"
#include "erdma_hw.h"
#include "erdma_verbs.h"
#include "peer.h"

static struct erdma_context *context;
static struct erdma_cq cq;
static struct erdma_qp qp;
static uint32_t made;		/* CQEs so far */

static void queue(struct erdma_queue *q, size_t entry)
{
	q->depth = PEER_DEPTH;
	q->qbuf = peer_memory(PEER_DEPTH * entry);
	q->size = PEER_DEPTH * entry;
	q->db = peer_memory(64);
	q->db_record = peer_memory(64);
	q->wr_tbl = peer_memory(PEER_DEPTH * sizeof(*q->wr_tbl));
}

static bool setup(struct peer *p, bool ud)
{
	if (ud)
		return false;
	context = peer_memory(sizeof(*context));
	context->qp_table[0].table = peer_memory(sizeof(void *) << ERDMA_QP_TABLE_SHIFT);
	context->qp_table[0].table[PEER_QPN] = &qp;
	cq.base_cq.context = &context->ibv_ctx.context;
	cq.depth = PEER_CQES;
	cq.queue = peer_memory(PEER_CQES * sizeof(*cq.queue));
	pthread_spin_init(&cq.lock, PTHREAD_PROCESS_PRIVATE);
	qp.base_qp.context = cq.base_cq.context;
	qp.base_qp.state = IBV_QPS_RTS;
	qp.base_qp.qp_type = IBV_QPT_RC;
	qp.id = PEER_QPN;
	queue(&qp.sq, SQEBB_SIZE);
	queue(&qp.rq, RQE_SIZE);
	pthread_spin_init(&qp.sq_lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp.rq_lock, PTHREAD_PROCESS_PRIVATE);
	p->qp = &qp.base_qp;
	p->cq = &cq.base_cq;
	return true;
}

static void device(void)
{
	if (!made)
		qp.sq.ci = qp.sq.pi;
	qp.rq.ci = qp.rq.pi;
}

/* Writes the CQE of the next WQE: each WQE has one block, and they complete in order. */
static void complete(void)
{
	struct erdma_cqe *cqe = &cq.queue[made % PEER_CQES];
	const uint32_t owner = !(made & PEER_CQES);

	cqe->qe_idx = htobe32(made & 0xffff);
	cqe->qpn = htobe32(PEER_QPN);
	cqe->hdr = htobe32(FIELD_PREP(ERDMA_CQE_HDR_OWNER_MASK, owner) |
			   FIELD_PREP(ERDMA_CQE_HDR_QTYPE_MASK, ERDMA_CQE_QTYPE_SQ) |
			   FIELD_PREP(ERDMA_CQE_HDR_OPCODE_MASK, ERDMA_OP_WRITE));
	made++;
}

struct peer peer = {
	.setup = setup,
	.post_send = erdma_post_send,
	.post_recv = erdma_post_recv,
	.poll_cq = erdma_poll_cq,
	.device = device,
	.complete = complete,
};
