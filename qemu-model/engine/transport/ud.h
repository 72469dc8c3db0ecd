/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Datagrams: UD, SMI and GSI QPs. */
#ifndef OHCA_TRANSPORT_UD_H
#define OHCA_TRANSPORT_UD_H

#include "engine/engine.h"
#include "engine/transport/turn.h"

struct ohca_qp;
struct ohca_rxpkt;

/* Send one packet of @qp: UD, SMI or GSI. */
enum ohca_sent ohca_ud_send(ohca_engine *e, struct ohca_qp *qp, struct ohca_turn *t);
/* Receive a datagram. */
void ohca_ud_rx(ohca_engine *e, const struct ohca_rxpkt *p);

#endif /* OHCA_TRANSPORT_UD_H */
