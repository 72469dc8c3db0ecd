/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Responder of RC, UC and XRC. */
#ifndef OHCA_TRANSPORT_RESPONDER_H
#define OHCA_TRANSPORT_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/fault.h"
#include "engine/transport/turn.h"
#include "engine/transport/xport.h"

struct ohca_hw_cqe;
struct ohca_qp;
struct ohca_rwqe;
struct ohca_rxpkt;

#define OHCA_FAULT_RNR_TIMER	12u	/* code of 0.64 ms; many pages are faulted in by then */
#define OHCA_RD_RING		128u	/* power of two; largest max_dest_rd_atomic */

/**
 * struct ohca_rd - a response that must be sent: to a READ, FLUSH or ATOMIC WRITE, or to an atomic
 * @va, @rkey, @length: memory of a READ
 * @orig: atomic: value before the operation
 * @first, @last: PSNs; @next: PSN of the next packet
 * @msn: MSN for the AETH
 * @srqn: XRC SRQ to whose PD the key must belong (XRC_TGT)
 * @dup: response to a duplicate request; a new request may replace it
 */
struct ohca_rd {
	uint64_t va;
	uint64_t orig;
	uint32_t rkey, length;
	uint32_t first, next, last;
	uint32_t msn;
	uint32_t srqn;
	bool atomic, dup;
};

/** struct ohca_rdring - ring of responses that must be sent; allocated while there are some */
struct ohca_rdring {
	struct ohca_rdring *next;	/* free list */
	struct ohca_rd rd[OHCA_RD_RING];
};

/** struct ohca_atomic_res - result of an executed atomic, to answer duplicates */
struct ohca_atomic_res {
	uint64_t orig;
	uint32_t psn;
	bool valid;
};

_Static_assert(sizeof(struct ohca_qp) + sizeof(struct ohca_xport) +
	       16 * sizeof(struct ohca_atomic_res) <= 1024 - 64,
	       "an idle QP costs at most 1 KiB, malloc's own included");

/* Send one response of @qp, RC or XRC, or several packets of it as a series. */
enum ohca_sent ohca_resp_send(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t);
/* Whether there is a response to send. */
static inline bool ohca_resp_pending(const struct ohca_xport *xp)
{
	return xp->resp.rd_num || xp->resp.nak_due || xp->resp.ack_due;
}

/* Receive a request for @qp: of RC or XRC; of UC. Changes the state and sends nothing. */
void ohca_resp_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
void ohca_uc_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
/*
 * Receive all packets of a series in the middle of a message of RC or UC at once. False: they must
 * be received one by one, and nothing has changed.
 */
bool ohca_resp_series(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
/*
 * Receive the first packets of a burst of RDMA WRITEs of RC, as many as are in sequence and
 * permitted.
 * Return: how many; the others must be received one by one.
 */
uint32_t ohca_resp_burst(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
/* Get resources for max_dest_rd_atomic; the ring is only reserved. 0 or -1 (memory) */
int ohca_resp_alloc(ohca_engine *e, struct ohca_qp *qp);
/* Free these resources. */
void ohca_resp_free(ohca_engine *e, struct ohca_xport *xp);
/*
 * Stop responding. With @keep_closing responses that are due still leave. In ERR an ACK or NAK that
 * is due leaves in any case, and the receive WQE in use is flushed, so that no WQE completes after
 * LAST_WQE.
 */
void ohca_resp_reset(ohca_engine *e, struct ohca_xport *xp, bool keep_closing);
/*
 * Complete the receive WQE @r. @cqe: has the fields of the operation; the function sets the others
 */
void ohca_recv_complete(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r,
			uint8_t status, uint16_t ve, struct ohca_hw_cqe *cqe, bool solicited);
/* In ERR: flush up to *@quantum receive WQEs, and subtract their number. False: none is left */
bool ohca_rq_flush(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum);

/* The driver cannot fault in the page that a request or READ response waits for */
void ohca_resp_no_page(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side);

#endif /* OHCA_TRANSPORT_RESPONDER_H */
