/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Completer: responses to an RC requester, and its timeouts (IBTA vol 1, 9.7.6 to 9.7.8). */
#ifndef OHCA_TRANSPORT_COMPLETER_H
#define OHCA_TRANSPORT_COMPLETER_H

#include "engine/engine.h"

struct ohca_qp;
struct ohca_rxpkt;
struct ohca_xport;

/* Delay until a requester without a fault slot retries. */
#define OHCA_FAULT_RETRY_NS	1000000ull

/* Receive a response for @qp: ACK, NAK, READ or atomic data. */
void ohca_comp_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
/* Receive a series of packets in the middle of a READ response; as ohca_resp_series() */
bool ohca_comp_series(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
/* The QP's timer has expired */
void ohca_comp_timer(ohca_engine *e, struct ohca_qp *qp);
/* Go back to the oldest PSN that is not acknowledged */
void ohca_req_restart(struct ohca_xport *xp);
/* Complete the acknowledged WQEs, in order */
void ohca_sq_retire(ohca_engine *e, struct ohca_qp *qp);

#endif /* OHCA_TRANSPORT_COMPLETER_H */
