/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions of the ports' agents that the transport calls; management/mad.c implements them. */
#ifndef OHCA_TRANSPORT_TO_AGENTS_H
#define OHCA_TRANSPORT_TO_AGENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

struct ib_cc_ca;
struct ib_key_violation;
struct ib_pkt_info;
struct ib_vlarb;

/*
 * A datagram for QP0 or QP1 was received from the wire or by loopback. @hdr: its headers, from the
 * LRH on; @mad: 256 bytes; both are private copies. Return: true if an agent has processed it; the
 * agent sends a response by ohca_mad_send(). False: deliver @mad to the QP; the M_Key of a request
 * is cleared.
 */
bool ohca_mad_rx(ohca_engine *e, unsigned int port, const struct ib_pkt_info *pkt,
		 const uint8_t *hdr, uint8_t *mad);
/* Settings of congestion control at the port. */
const struct ib_cc_ca *ohca_mad_congestion(const ohca_engine *e, unsigned int port);
/* The arbiter of the port's data VLs, with the tables in force. */
struct ib_vlarb *ohca_mad_vlarb(ohca_engine *e, unsigned int port);
/* A packet arrived whose P_Key or Q_Key does not match: counter and trap */
void ohca_mad_bad_pkey(ohca_engine *e, unsigned int port, const struct ib_key_violation *v);
void ohca_mad_bad_qkey(ohca_engine *e, unsigned int port, const struct ib_key_violation *v);
/* A packet on a data VL arrived at an Armed port: the port becomes Active */
void ohca_mad_rx_data(ohca_engine *e, unsigned int port);

#endif /* OHCA_TRANSPORT_TO_AGENTS_H */
