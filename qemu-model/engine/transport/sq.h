/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Send queues: WQEs are fetched, parsed, completed and flushed. */
#ifndef OHCA_TRANSPORT_SQ_H
#define OHCA_TRANSPORT_SQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/rwqe.h"
#include "engine/transport/xport.h"
#include "ohca_hw.h"

struct ohca_missing;

#define OHCA_MIN_LOG_WIN	4u
#define OHCA_MAX_LOG_WIN	8u

_Static_assert((1u << OHCA_MIN_LOG_WIN) > OHCA_MAX_WQE_BBS, "a window holds any WQE");

enum ohca_swqe_state {
	OHCA_SW_NEW,		/* parsed, not begun */
	OHCA_SW_BEGUN,		/* has PSNs, its packets are being sent */
	OHCA_SW_SENT,		/* every packet was sent at least once */
	OHCA_SW_DONE,		/* done, waits until earlier WQEs complete */
};

/**
 * struct ohca_swqe - a send WQE, private copy
 * @raddr, @rkey: remote memory
 * @length: bytes of the message
 * @first, @last: PSNs, after it has begun; READ: PSNs of the responses; TSO: packets and bytes of
 *	data that were sent
 * @idx: free running index of its first BB
 * @imm: ImmDt as in the packet, big-endian, or R_Key of the IETH, CPU order
 * @srqn: number of the remote XRC SRQ (XRC_INI)
 * @ssn: SSN of its (last) request, after it has begun (RC)
 * @data: offset of SGEs or inline data in the copied WQE, bytes
 * @status, @ve: not 0: it has failed, and completes with these after the WQEs before it
 * @apart: after it has begun: each packet is a request of its own, and the packets may arrive in
 *	any order (ahead.h)
 */
struct ohca_swqe {
	uint64_t wr_id;
	uint64_t raddr;
	uint32_t rkey;
	uint32_t length;
	uint32_t first, last;
	uint32_t idx;
	uint32_t imm;
	union {
		uint32_t srqn;
		uint32_t ssn;
	};
	uint16_t flags;
	uint8_t op, nbb;
	uint8_t num_sge, data;
	uint8_t state, status;
	uint16_t ve;
	bool apart;
};

/**
 * struct ohca_sqwin - window of a send queue: WQEs fetched and not yet completed
 *
 * WQE and BB with free running index i are at i & @mask. There is room after the last BB, so that a
 * WQE that wraps is contiguous once it is parsed.
 */
struct ohca_sqwin {
	struct ohca_sqwin *next;	/* free list */
	uint32_t mask;
	uint8_t log;
	struct ohca_swqe *wqe;
	uint8_t *bb;
};

/* A WQE in the window. */
static inline struct ohca_swqe *ohca_swqe_at(const struct ohca_xport *xp, uint32_t idx)
{
	return &xp->req.win->wqe[idx & xp->req.win->mask];
}

static inline uint8_t *ohca_swqe_raw(const struct ohca_xport *xp, uint32_t idx)
{
	return xp->req.win->bb + ((size_t)(idx & xp->req.win->mask) << OHCA_BB_SHIFT);
}

/* SGEs of a parsed WQE, in CPU order. */
static inline const struct ohca_sge *ohca_swqe_sge(const struct ohca_xport *xp,
						   const struct ohca_swqe *w)
{
	return (const struct ohca_sge *)(const void *)(ohca_swqe_raw(xp, w->idx) + w->data);
}

/*
 * Copy @len bytes from @off of the message to @dst. 0, enum ohca_vendor_err, or OHCA_MR_FAULT: *@m
 */
int ohca_swqe_gather(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w, uint32_t off,
		     void *dst, uint32_t len, struct ohca_missing *m);
/*
 * Set @v to a view of the same bytes, the payload of @packets packets. False: they must be copied,
 * and the caller restores the count of work.
 */
bool ohca_swqe_view(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w, uint32_t off,
		    struct ib_view *v, uint32_t packets, uint32_t len);
/* Get the WQE at xp->req.cur; fetches and parses it if needed. NULL: none, or the window is full */
struct ohca_swqe *ohca_sq_next(ohca_engine *e, struct ohca_qp *qp);
/* Complete @w, the WQE at the tail: free its room in the window, write a CQE if one is due. */
void ohca_sq_complete(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, uint8_t status,
		      uint16_t ve);
/* Write the consumer index to the record, if it has changed. */
void ohca_sq_ci(ohca_engine *e, struct ohca_qp *qp);
/* Write @ci to the record, for several WQEs before their CQEs; the CQ must have room for these. */
void ohca_sq_ci_to(ohca_engine *e, struct ohca_qp *qp, uint32_t ci);
/* Fail @w, the WQE at the tail: write its CQE, then move the QP to ERR or SQE. */
void ohca_sq_fail(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, uint8_t status,
		  uint16_t ve);
/* Execute a local operation; afterwards @w is DONE or has a status. */
void ohca_sq_local(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w);
static inline bool ohca_op_is_local(uint8_t op)
{
	return op == OHCA_OP_LOCAL_INV || op == OHCA_OP_BIND_MW || op == OHCA_OP_REG_MR ||
	       op == OHCA_OP_NOP;
}

static inline bool ohca_op_is_masked(uint8_t op)
{
	return op == OHCA_OP_MASKED_CMP_SWAP || op == OHCA_OP_MASKED_FETCH_ADD;
}

static inline bool ohca_op_is_atomic(uint8_t op)
{
	return op == OHCA_OP_CMP_SWAP || op == OHCA_OP_FETCH_ADD || ohca_op_is_masked(op);
}

/* Operations that have a response of their own (IBTA vol 1, 9.7.5 and annex A19.4). */
static inline bool ohca_op_is_read(uint8_t op)
{
	return op == OHCA_OP_RDMA_READ || ohca_op_is_atomic(op) || op == OHCA_OP_FLUSH ||
	       op == OHCA_OP_ATOMIC_WRITE;
}

/* Operations that use a receive WQE. */
static inline bool ohca_op_takes_wqe(uint8_t op)
{
	return op == OHCA_OP_SEND || op == OHCA_OP_SEND_IMM || op == OHCA_OP_SEND_INV ||
	       op == OHCA_OP_RDMA_WRITE_IMM;
}

/* Flush up to *@quantum WQEs, and subtract their number. False: none is left. */
bool ohca_sq_flush(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum);
/* The QP leaves SQE: the WQEs that are posted now will be flushed in the turns of the QP. */
void ohca_sq_flush_posted(ohca_engine *e, struct ohca_qp *qp);
/* In SQE, or after it: flush the next WQE. False: none is left. */
bool ohca_sq_flush_one(ohca_engine *e, struct ohca_qp *qp);
/* Whether the queue is being flushed because of SQE. */
static inline bool ohca_sq_flushes(const struct ohca_qp *qp)
{
	return qp->state == OHCA_QPS_SQE || qp->xp->flush_sqe;
}

/* Free the window if no WQE is in it. */
void ohca_sq_empty(ohca_engine *e, struct ohca_xport *xp);
/*
 * Request a doorbell and check the queue once more. Return: true if the queue is idle, and the
 * window is freed; false if WQEs are posted.
 */
bool ohca_sq_idle(ohca_engine *e, struct ohca_qp *qp);
/* In SQD: raise SQ_DRAINED once when nothing is outstanding. */
void ohca_sq_drained(ohca_engine *e, struct ohca_qp *qp);

#endif /* OHCA_TRANSPORT_SQ_H */
