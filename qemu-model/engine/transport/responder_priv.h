/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inside the responder: the interfaces between its files.
 *
 * responder.c		order and refusal of requests, SENDs and WRITEs, UC
 * responder_read.c	READs, atomics, memory placement, and their duplicates
 * responder_series.c	several packets at once
 * responder_tx.c	sending of the responses
 */
#ifndef OHCA_TRANSPORT_RESPONDER_PRIV_H
#define OHCA_TRANSPORT_RESPONDER_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/transport/responder.h"
#include "engine/transport/rx.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "ohca_hw.h"

struct ohca_missing;
struct ohca_pd;
struct ohca_qp;

/* ---- the result of a request --------------------------------------------------------- */

/** enum ohca_verdict - the result of a request packet */
enum ohca_verdict {
	OHCA_VD_OK,	/* executed */
	OHCA_VD_NAK,	/* refused; the QP moves to ERR */
	OHCA_VD_RNR,	/* no receive WQE: RNR NAK */
	OHCA_VD_FAULT,	/* a page is missing, see struct ohca_missing: RNR NAK */
	OHCA_VD_BUSY,	/* not complete yet: RNR NAK, so that the requester repeats it */
	OHCA_VD_LOCAL,	/* acknowledged, but the WQE fails and the QP moves to ERR */
};

/**
 * struct ohca_outcome - the verdict, and how to report a refusal
 * @nak: OHCA_VD_NAK: NAK code for the requester
 * @status: status of the receive WQE, if there is one
 * @ve: vendor error
 * @ev: asynchronous event, if there is no WQE
 */
struct ohca_outcome {
	enum ohca_verdict verdict;
	uint8_t nak;
	uint8_t status;
	uint16_t ve;
	enum ohca_event ev;
};

static inline struct ohca_outcome ohca_vd(enum ohca_verdict verdict)
{
	return (struct ohca_outcome){ .verdict = verdict };
}

static inline struct ohca_outcome ohca_vd_nak(uint8_t nak, uint8_t status, uint16_t ve,
					      enum ohca_event ev)
{
	return (struct ohca_outcome){ .verdict = OHCA_VD_NAK, .nak = nak, .status = status,
				      .ve = ve, .ev = ev };
}

static inline struct ohca_outcome ohca_vd_local(uint8_t status, uint16_t ve)
{
	return (struct ohca_outcome){ .verdict = OHCA_VD_LOCAL, .status = status, .ve = ve };
}

/* ---- responder_read.c ------------------------------------------------------------------ */

/* Requests that have a response of their own instead of an ACK. */
#define RESPONDED (IB_OPF_READ | IB_OPF_ATOMIC | IB_OPF_FLUSH | IB_OPF_ATOMIC_WRITE)

/* Response @i of the ring, counted from the next one to send. */
static inline struct ohca_rd *rd_at(const struct ohca_xport *xp, uint8_t i)
{
	return &xp->resp.rd->rd[(xp->resp.rd_head + i) & (OHCA_RD_RING - 1)];
}

/* Drop all responses in the ring. */
void ohca_rd_clear(ohca_engine *e, struct ohca_xport *xp);
/* Remove the first response, which has been sent. */
void ohca_rd_pop(ohca_engine *e, struct ohca_xport *xp);

/*
 * Execute one request in sequence. @next: result of a READ: PSN after its responses; @m: result of
 * OHCA_VD_FAULT: the missing pages
 */
struct ohca_outcome ohca_resp_read(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
				   uint32_t *next);
struct ohca_outcome ohca_resp_atomic(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
				     struct ohca_missing *m);
struct ohca_outcome ohca_resp_flush(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
struct ohca_outcome ohca_resp_atomic_write(ohca_engine *e, struct ohca_qp *qp,
					   const struct ohca_rxpkt *p, struct ohca_missing *m);
/* Answer a duplicate request again. */
void ohca_resp_duplicate(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);

/* ---- XRC: the SRQ that a request names (annex A14) ------------------------------------- */

/* Number of the SRQ in the XRCETH; 0: there is no XRCETH. */
static inline uint32_t xrc_srqn(const struct ohca_rxpkt *p)
{
	const struct ib_xrceth *x = ib_pkt_xrceth(p->hdr, &p->i);

	return x ? ib_be32(x->srqn) & IB_QPN_MASK : 0;
}

/*
 * Look up the PD of R_Keys: the QP's, or for a target that of SRQ @srqn. For responses that leave
 * after the request that named the SRQ. 0, or vendor error: there is none
 */
int ohca_resp_pd(ohca_engine *e, const struct ohca_qp *qp, uint32_t srqn,
		 const struct ohca_pd **pd);

/* ---- responder.c ---------------------------------------------------------------------------- */

/* The next READ response cannot be sent: queue a NAK instead, and move the QP to ERR. */
void ohca_resp_read_refuse(ohca_engine *e, struct ohca_qp *qp, const struct ohca_outcome *v);

#endif /* OHCA_TRANSPORT_RESPONDER_PRIV_H */
