// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Polling of kernel CQs. The driver does not trust a CQE: the QP that it names must complete
 * to this CQ, the WQE must be outstanding, and the driver reads wr_id, opcode and the posted
 * length from its shadow queues.
 */
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <kunit/visibility.h>
#include <rdma/ib_verbs.h>

#include "buf.h"
#include "cq.h"
#include "dev.h"
#include "qp.h"
#include "srq.h"
#include "wr.h"

#define OHCA_CQE_GONE	cpu_to_le32(~0u)	/* qp_num of a CQE whose QP is destroyed or reset */

/**
 * ohca_cq_arm_word - doorbell that arms a CQ
 * @cqn: number
 * @solicited: for solicited completions only
 * @sn: events received so far
 * @ci: consumer index
 */
static u64 ohca_cq_arm_word(u32 cqn, bool solicited, u32 sn, u32 ci)
{
	return OHCA_FIELD_PREP(OHCA_CQ_ARM_CQN, (u64)cqn) |
	       OHCA_FIELD_PREP(OHCA_CQ_ARM_SOLICITED, (u64)solicited) |
	       OHCA_FIELD_PREP(OHCA_CQ_ARM_SN, (u64)sn) |
	       OHCA_FIELD_PREP(OHCA_CQ_ARM_CI, (u64)ci);
}

/** ohca_wc_flags - convert enum ibv_wc_flags of libibverbs to enum ib_wc_flags of the kernel */
VISIBLE_IF_KUNIT int ohca_wc_flags(u32 hw_flags)
{
	int flags = 0;

	if (hw_flags & BIT(0))
		flags |= IB_WC_GRH;
	if (hw_flags & BIT(1))
		flags |= IB_WC_WITH_IMM;
	if (hw_flags & BIT(2))
		flags |= IB_WC_IP_CSUM_OK;
	if (hw_flags & BIT(3))
		flags |= IB_WC_WITH_INVALIDATE;
	return flags;
}

/**
 * ohca_cqe_to_wc - convert the fields of a CQE that need no shadow queue
 * @cqe: copy of the entry
 * @wc: result, without wr_id, qp, port_num and the opcode of a send
 */
VISIBLE_IF_KUNIT void ohca_cqe_to_wc(const struct ohca_hw_cqe *cqe, struct ib_wc *wc)
{
	u32 status = le32_to_cpu(cqe->status);

	memset(wc, 0, sizeof(*wc));
	wc->status = status <= IB_WC_GENERAL_ERR ? status : IB_WC_GENERAL_ERR;
	wc->opcode = le32_to_cpu(cqe->opcode) == IB_WC_RECV_RDMA_WITH_IMM ?
		     IB_WC_RECV_RDMA_WITH_IMM : IB_WC_RECV;
	wc->vendor_err = le32_to_cpu(cqe->vendor_err);
	wc->byte_len = le32_to_cpu(cqe->byte_len);
	wc->wc_flags = ohca_wc_flags(le32_to_cpu(cqe->wc_flags));
	if (wc->wc_flags & IB_WC_WITH_INVALIDATE)
		wc->ex.invalidate_rkey = le32_to_cpu(cqe->inv_key);
	else
		wc->ex.imm_data = cqe->imm;
	wc->src_qp = le32_to_cpu(cqe->src_qp);
	wc->slid = le16_to_cpu(cqe->slid);
	wc->pkey_index = le16_to_cpu(cqe->pkey_index);
	wc->sl = cqe->sl & 0xf;
	wc->dlid_path_bits = cqe->dlid_path_bits;
}

/* Result of handling a CQE. */
enum ohca_taken {
	OHCA_TAKEN_NOT,		/* skip the CQE */
	OHCA_TAKEN,		/* *wc is set */
	OHCA_TAKEN_BEFORE,	/* *wc is set for an earlier WQE; handle the CQE again */
};

/* Returns the first signaled WQE from the tail on, at most @pos. */
static u32 ohca_sq_first(const struct ohca_sq *sq, u32 pos)
{
	u32 mask = (1u << sq->log) - 1, i = sq->tail;

	while (i != pos && !sq->shadow[i & mask].signaled)
		i += sq->shadow[i & mask].bbs;
	return i;
}

/**
 * ohca_sq_complete - complete a send WQE and the unsignaled WQEs before it
 * @sq: the queue
 * @pos: first BB of the WQE, free running
 * @wc: wr_id, opcode and byte_len are set
 *
 * If the CQE of an earlier signaled WQE is missing, that WQE completes first, with an error,
 * because its consumer waits for it. Under the CQ's lock.
 * Return: enum ohca_taken; OHCA_TAKEN_NOT if no such WQE is outstanding.
 */
static enum ohca_taken ohca_sq_complete(struct ohca_sq *sq, u32 pos, struct ib_wc *wc)
{
	u32 head = smp_load_acquire(&sq->head); /* pairs with ohca_post_send() */
	u32 mask = (1u << sq->log) - 1, first;
	const struct ohca_sq_shadow *s;

	if (pos - sq->tail >= head - sq->tail || !sq->shadow[pos & mask].bbs)
		return OHCA_TAKEN_NOT;
	first = ohca_sq_first(sq, pos);
	if (unlikely(first != pos))
		wc->status = IB_WC_GENERAL_ERR;
	s = &sq->shadow[first & mask];
	wc->wr_id = s->wr_id;
	wc->opcode = s->opcode;
	wc->byte_len = s->byte_len;
	/* a post may reuse the shadow entry once it sees the new tail */
	smp_store_release(&sq->tail, first + s->bbs);
	return first == pos ? OHCA_TAKEN : OHCA_TAKEN_BEFORE;
}

/* Fails a receive of more bytes than the WQE holds, because consumers rely on byte_len. */
static void ohca_check_len(struct ib_wc *wc, u32 posted)
{
	if (wc->opcode == IB_WC_RECV && wc->status == IB_WC_SUCCESS && wc->byte_len > posted)
		wc->status = IB_WC_LOC_LEN_ERR;
}

/**
 * ohca_rq_complete - complete the oldest receive WQE
 * @rq: the queue
 * @pos: WQE that the device has completed, free running
 * @wc: wr_id is set
 *
 * Under the CQ's lock. Return: false if @pos is not the oldest outstanding WQE.
 */
static bool ohca_rq_complete(struct ohca_rq *rq, u32 pos, struct ib_wc *wc)
{
	u32 head = smp_load_acquire(&rq->head); /* pairs with ohca_post_recv() */
	const struct ohca_rq_shadow *s;

	if (head == rq->tail || pos != rq->tail)
		return false;
	s = &rq->shadow[pos & ((1u << rq->log) - 1)];
	wc->wr_id = s->wr_id;
	ohca_check_len(wc, s->length);
	/* a post may reuse the shadow entry once it sees the new tail */
	smp_store_release(&rq->tail, rq->tail + 1);
	return true;
}

/**
 * ohca_srq_complete - complete a receive WQE of an SRQ
 * @srq: the queue
 * @idx: wr_id of the CQE, which is the index that the driver wrote into the WQE
 * @wc: wr_id is set
 *
 * Under the CQ's lock. Return: false if no such WQE is outstanding.
 */
static bool ohca_srq_complete(struct ohca_srq *srq, u64 idx, struct ib_wc *wc)
{
	struct ohca_rq_shadow *s;
	bool ok = false;

	spin_lock(&srq->lock);
	s = idx < srq->num ? &srq->shadow[idx] : NULL;
	if (s && s->used) {
		wc->wr_id = s->wr_id;
		ohca_check_len(wc, s->length);
		s->used = false;
		srq->next[idx] = srq->free;
		srq->free = idx;
		srq->used--;
		ok = true;
	}
	spin_unlock(&srq->lock);
	return ok;
}

static struct ohca_hw_cqe *ohca_cq_entry(struct ohca_cq *cq, u32 ci)
{
	u32 i = ci & ((1u << cq->log_size) - 1);

	return ohca_buf_at(&cq->buf, OHCA_CQ_RING_OFFSET + (size_t)i * sizeof(struct ohca_hw_cqe));
}

/*
 * Sets *@pos to the free running index of a CQE's WQE. Without OHCA_FEATURE_QP_RESIZE the device
 * returns the index modulo the ring size, and *@pos is the first such index from @tail on. Returns
 * false if the device's index is not below the ring size.
 */
static bool ohca_wqe_pos(const struct ohca_qp *qp, const struct ohca_hw_cqe *cqe, u32 log, u32 tail,
			 u32 *pos)
{
	u32 idx = le32_to_cpu(cqe->wqe_idx), mask = (1u << log) - 1;

	*pos = ohca_qp_has(qp, OHCA_FEATURE_QP_RESIZE) ? idx : tail + ((idx - tail) & mask);
	return ohca_qp_has(qp, OHCA_FEATURE_QP_RESIZE) || idx <= mask;
}

/* Sets *wc from one CQE. */
static enum ohca_taken ohca_cq_take(struct ohca_dev *dev, struct ohca_cq *cq,
				    const struct ohca_hw_cqe *cqe, struct ib_wc *wc)
{
	enum ohca_taken taken = OHCA_TAKEN_NOT;
	bool send = cqe->flags & OHCA_CQE_SEND;
	struct ohca_qp *qp;
	u32 pos;

	if (cqe->qp_num == OHCA_CQE_GONE)
		return OHCA_TAKEN_NOT;
	/* ohca_qp_unlink() removes the QP from the array, then takes cq->lock, then frees the QP */
	qp = xa_load(&cq->qps, le32_to_cpu(cqe->qp_num));
	if (!qp)	/* the QP is being destroyed, or never existed */
		return OHCA_TAKEN_NOT;
	if ((send ? qp->ibqp.send_cq : qp->ibqp.recv_cq) != &cq->ibcq) {
		atomic_inc(&dev->bad_cqes);
		return OHCA_TAKEN_NOT;
	}

	ohca_cqe_to_wc(cqe, wc);
	/* a datagram QP receives no WRITE; IB_WC_RECV makes ohca_check_len() check the length */
	if (wc->opcode == IB_WC_RECV_RDMA_WITH_IMM && ohca_is_datagram(qp->ibqp.qp_type))
		wc->opcode = IB_WC_RECV;
	wc->qp = &qp->ibqp;
	wc->port_num = qp->port;
	/* consumers skip the 40 bytes of the GRH without checking the length */
	if (!send && ohca_is_datagram(qp->ibqp.qp_type) && wc->status == IB_WC_SUCCESS &&
	    wc->byte_len < sizeof(struct ib_grh))
		wc->status = IB_WC_LOC_LEN_ERR;
	if (send) {
		if (ohca_wqe_pos(qp, cqe, qp->sq.log, qp->sq.tail, &pos))
			taken = ohca_sq_complete(&qp->sq, pos, wc);
	} else if (qp->ibqp.srq) {
		if (ohca_srq_complete(to_ohca_srq(qp->ibqp.srq), le64_to_cpu(cqe->wr_id), wc))
			taken = OHCA_TAKEN;
	} else if (qp->has_rq && ohca_wqe_pos(qp, cqe, qp->rq.log, qp->rq.tail, &pos) &&
		   ohca_rq_complete(&qp->rq, pos, wc)) {
		taken = OHCA_TAKEN;
	}
	if (taken != OHCA_TAKEN)
		atomic_inc(&dev->bad_cqes);
	return taken;
}

static int ohca_flush_wc(struct ohca_qp *qp, bool send, struct ib_wc *wc)
{
	bool ok;

	memset(wc, 0, sizeof(*wc));
	wc->status = IB_WC_WR_FLUSH_ERR;
	wc->qp = &qp->ibqp;
	if (send) {
		ok = ohca_sq_complete(&qp->sq, qp->sq.tail, wc) == OHCA_TAKEN;
	} else {
		wc->opcode = IB_WC_RECV;
		ok = qp->has_rq && ohca_rq_complete(&qp->rq, qp->rq.tail, wc);
	}
	return ok;
}

/* Completes outstanding WQEs of a dead device in software. */
static int ohca_cq_flush(struct ohca_cq *cq, int num, struct ib_wc *wc)
{
	struct ohca_qp *qp;
	int n = 0;

	list_for_each_entry(qp, &cq->send_qps, send_link)
		while (n < num && ohca_flush_wc(qp, true, &wc[n]))
			n++;
	list_for_each_entry(qp, &cq->recv_qps, recv_link)
		while (n < num && ohca_flush_wc(qp, false, &wc[n]))
			n++;
	return n;
}

/* Whether ohca_cq_flush() has a WQE to complete. */
static bool ohca_cq_outstanding(struct ohca_cq *cq)
{
	struct ohca_qp *qp;

	list_for_each_entry(qp, &cq->send_qps, send_link)
		if (READ_ONCE(qp->sq.head) != qp->sq.tail)
			return true;
	list_for_each_entry(qp, &cq->recv_qps, recv_link)
		if (READ_ONCE(qp->rq.head) != qp->rq.tail)
			return true;
	return false;
}

/**
 * ohca_cq_has_work - whether a CQ of a dead device has CQEs or WQEs to flush
 * @cq: kernel CQ
 *
 * Process context.
 * Return: true if it has.
 */
bool ohca_cq_has_work(struct ohca_cq *cq)
{
	bool work;

	spin_lock_irq(&cq->lock);
	work = ohca_cqe_valid(READ_ONCE(ohca_cq_entry(cq, cq->ci)->owner), cq->ci, cq->log_size) ||
	       ohca_cq_outstanding(cq);
	spin_unlock_irq(&cq->lock);
	return work;
}

/** ohca_poll_cq - ib_device_ops.poll_cq; any context */
int ohca_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct ohca_dev *dev = to_ohca_dev(ibcq->device);
	struct ohca_cq *cq = to_ohca_cq(ibcq);
	struct ohca_hw_db *db = ohca_buf_at(&cq->buf, OHCA_DB_OFFSET);
	u32 start, budget = 1u << cq->log_size;
	bool quiet = ohca_is_quiet(dev);	/* read before the ring: no CQE is added later */
	struct ohca_hw_cqe *e, cqe;
	enum ohca_taken taken;
	unsigned long flags;
	int n = 0;

	spin_lock_irqsave(&cq->lock, flags);
	start = cq->ci;
	while (n < num && cq->ci - start < budget) {
		e = ohca_cq_entry(cq, cq->ci);
		if (!ohca_cqe_valid(READ_ONCE(e->owner), cq->ci, cq->log_size))
			break;
		dma_rmb();
		cqe = *e;
		taken = ohca_cq_take(dev, cq, &cqe, &wc[n]);
		n += taken != OHCA_TAKEN_NOT;
		cq->ci += taken != OHCA_TAKEN_BEFORE;
	}
	if (cq->ci != start) {
		/* the entries are read before the device may overwrite them */
		mb();
		WRITE_ONCE(db->cq_ci, cpu_to_le32(cq->ci));
	}
	if (unlikely(quiet))
		n += ohca_cq_flush(cq, num - n, wc + n);
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

/**
 * ohca_req_notify_cq - ib_device_ops.req_notify_cq; any context
 * @ibcq: kernel CQ
 * @notify: enum ib_cq_notify_flags
 *
 * The device writes an event at once if the CQ holds entries past the consumer index in the
 * doorbell that were written after its last event, so no event is missed. A dead device does not.
 * Return: 0, or 1 if the device is dead, @notify has IB_CQ_REPORT_MISSED_EVENTS, and WQEs remain
 * to be flushed.
 */
int ohca_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags notify)
{
	bool solicited = (notify & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;
	struct ohca_dev *dev = to_ohca_dev(ibcq->device);
	struct ohca_cq *cq = to_ohca_cq(ibcq);
	unsigned long flags;
	int ret = 0;
	u32 sn;

	spin_lock_irqsave(&cq->lock, flags);
	if (likely(!cq->gone)) {	/* else the number may belong to another CQ */
		/*
		 * Read the number of events before setting the flag. If the number is old, the
		 * device ignores the doorbell; if it is new, ohca_cq_comp_event() has already
		 * cleared the flag.
		 */
		sn = smp_load_acquire(&cq->arm_sn);
		WRITE_ONCE(cq->armed, 1);
		ohca_uar_write(dev, OHCA_UAR_CQ_ARM,
			       ohca_cq_arm_word(cq->cqn, solicited, sn, cq->ci));
	}
	if (unlikely(ohca_is_quiet(dev)) && notify & IB_CQ_REPORT_MISSED_EVENTS)
		ret = ohca_cq_outstanding(cq);
	spin_unlock_irqrestore(&cq->lock, flags);
	return ret;
}

/**
 * ohca_cq_clean - drop the CQEs of a QP that the device has destroyed or reset
 * @cq: kernel CQ
 * @qp: the QP
 *
 * Frees the shadow entries of WQEs of an SRQ. Process context, without the lock of the CQ.
 */
void ohca_cq_clean(struct ohca_cq *cq, struct ohca_qp *qp)
{
	u32 i, budget = 1u << cq->log_size;
	struct ohca_hw_cqe *e;
	struct ib_wc wc = {};

	spin_lock_irq(&cq->lock);
	for (i = cq->ci; i - cq->ci < budget; i++) {
		e = ohca_cq_entry(cq, i);
		if (!ohca_cqe_valid(READ_ONCE(e->owner), i, cq->log_size))
			break;
		dma_rmb();
		if (le32_to_cpu(e->qp_num) != qp->handle)
			continue;
		if (!(e->flags & OHCA_CQE_SEND) && qp->ibqp.srq)
			ohca_srq_complete(to_ohca_srq(qp->ibqp.srq), le64_to_cpu(e->wr_id), &wc);
		e->qp_num = OHCA_CQE_GONE;
	}
	spin_unlock_irq(&cq->lock);
}
