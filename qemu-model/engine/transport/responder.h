/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Responder of RC and UC. */
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

#define OHCA_FAULT_RNR_TIMER	12u	/* code; 0.64 ms, in which a page is often faulted in */
#define OHCA_RD_RING		128u	/* power of two; largest max_dest_rd_atomic */

/**
 * struct ohca_rd - a READ or atomic response to be sent
 * @srqn: XRC SRQ whose PD the key must be of (XRC_TGT)
 * @dup: a duplicate; a new request may replace it
 */
struct ohca_rd {
	uint64_t va;
	uint64_t orig;		/* atomic: value before */
	uint32_t rkey, length;
	uint32_t first, next, last;
	uint32_t msn;
	uint32_t srqn;
	bool atomic, dup;
};

/** struct ohca_rdring - responses to be sent; allocated only while there are some */
struct ohca_rdring {
	struct ohca_rdring *next;	/* free list */
	struct ohca_rd rd[OHCA_RD_RING];
};

/** struct ohca_atomic_res - result of an executed atomic, for duplicates */
struct ohca_atomic_res {
	uint64_t orig;
	uint32_t psn;
	bool valid;
};

_Static_assert(sizeof(struct ohca_qp) + sizeof(struct ohca_xport) +
	       16 * sizeof(struct ohca_atomic_res) <= 1024 - 64,
	       "an idle QP costs at most 1 KiB, malloc's own included");

/* Send one response of @qp, RC. */
enum ohca_sent ohca_resp_send(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t);
/* Whether it has a response to send. */
static inline bool ohca_resp_pending(const struct ohca_xport *xp)
{
	return xp->resp.rd_num || xp->resp.nak_due || xp->resp.ack_due;
}

/* Receive a request for @qp: RC or XRC; UC. Changes the state, sends nothing. */
void ohca_resp_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
void ohca_uc_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
/*
 * The packets of a series, in the middle of a message of RC or UC, all at once. false: they have to
 * be received one by one; nothing has happened.
 */
bool ohca_resp_series(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
/*
 * Of a burst of RDMA WRITEs of RC the first ones, as many as are in sequence and allowed. Return:
 * how many; nothing has happened of the others.
 */
uint32_t ohca_resp_burst(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
/* Resources for max_dest_rd_atomic, of which the ring is only reserved; 0 or -1 */
int ohca_resp_alloc(ohca_engine *e, struct ohca_qp *qp);
/* Free them. */
void ohca_resp_free(ohca_engine *e, struct ohca_xport *xp);
/*
 * Stop responding; with @keep_closing the responses under way still leave. In ERR an ACK or
 * NAK that is due does so in any case, and the receive WQE in use is flushed, so that
 * LAST_WQE is true when it is raised.
 */
void ohca_resp_reset(ohca_engine *e, struct ohca_xport *xp, bool keep_closing);
/* Complete a receive WQE. @cqe: the fields of the operation; the function fills in the rest */
void ohca_recv_complete(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r,
			uint8_t status, uint16_t ve, struct ohca_hw_cqe *cqe, bool solicited);
/* In ERR: flush up to *@quantum receive WQEs; false: none is left */
bool ohca_rq_flush(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum);

/* The page that a request or READ response waits for cannot be faulted in */
void ohca_resp_no_page(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side);

#endif /* OHCA_TRANSPORT_RESPONDER_H */
