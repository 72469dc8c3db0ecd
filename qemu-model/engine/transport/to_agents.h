/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of the ports' agents that the transport calls; management has them in mad.c. */
#ifndef OHCA_TRANSPORT_TO_AGENTS_H
#define OHCA_TRANSPORT_TO_AGENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

struct ib_cc_ca;
struct ib_key_violation;
struct ib_pkt_info;
struct ib_vlarb;

/* A datagram for QP0 or QP1 was received from the wire or by loopback. @hdr: its headers
 * (LRH on; source QP in the DETH, GRH if any) and @mad: 256 bytes, both private copies.
 * True: SMA or PMA took it (a reply, if any, is sent by ohca_mad_send()). False: deliver
 * @mad to the QP; the M_Key of a request is no longer in it. */
bool ohca_mad_rx(ohca_engine *e, unsigned int port, const struct ib_pkt_info *pkt,
		 const uint8_t *hdr, uint8_t *mad);
/* What a manager has set of congestion control at the port. */
const struct ib_cc_ca *ohca_mad_congestion(const ohca_engine *e, unsigned int port);
/* The arbiter of the port's data VLs, with the tables in force. */
struct ib_vlarb *ohca_mad_vlarb(ohca_engine *e, unsigned int port);
/* a packet with a P_Key or Q_Key that does not match arrived: counter and trap */
void ohca_mad_bad_pkey(ohca_engine *e, unsigned int port, const struct ib_key_violation *v);
void ohca_mad_bad_qkey(ohca_engine *e, unsigned int port, const struct ib_key_violation *v);
/* a packet on a data VL arrived at a port that is Armed: it becomes Active */
void ohca_mad_rx_data(ohca_engine *e, unsigned int port);

#endif /* OHCA_TRANSPORT_TO_AGENTS_H */
