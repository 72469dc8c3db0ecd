/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reception of packets: checks and dispatch. */
#ifndef OHCA_TRANSPORT_RX_H
#define OHCA_TRANSPORT_RX_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "ib/packet.h"
#include "ib/view.h"
#include "ohca_hw.h"

struct ohca_port;

/**
 * struct ohca_rxpkt - a received packet
 * @i: decoded headers
 * @hdr: private copy of the headers
 * @payload: payload in the frame, which may change at any time
 * @view: NULL, or the payload, if that does not follow the headers: only for SENDs without tags,
 *	WRITEs and READ responses
 * @port: from 0
 * @loop: the port has sent the packet to itself
 * @from: multicast: index of the first member of the group that has not received the packet
 */
struct ohca_rxpkt {
	struct ib_pkt_info i;
	const uint8_t *hdr;
	const uint8_t *payload;
	const struct ib_view *view;
	uint8_t port;
	bool loop;
	uint16_t from;
};

/*
 * Check and deliver a packet of the loop. @frame: LRH to ICRC field, @len bytes; @loop, @from: as
 * in struct ohca_rxpkt. If other members of a multicast group must receive it, sets
 * sched->mcast_left.
 */
void ohca_rx_loop(ohca_engine *e, unsigned int port, const uint8_t *frame, uint32_t len, bool loop,
		  uint16_t from);
/* Count and trace that @p is dropped because of @why. */
void ohca_rx_drop(ohca_engine *e, const struct ohca_rxpkt *p, enum ohca_counter why);
/*
 * Whether a packet to a unicast LID has no GRH, or a DGID of @port. A packet with the GID of
 * another port is dropped silently (9.6.1.2).
 */
bool ohca_rx_dgid_ok(const struct ohca_port *port, const struct ohca_rxpkt *p);
/* Drop @p because its P_Key, or its Q_Key @qkey, does not match: counter and trap. */
void ohca_rx_bad_pkey(ohca_engine *e, const struct ohca_rxpkt *p);
void ohca_rx_bad_qkey(ohca_engine *e, const struct ohca_rxpkt *p, uint32_t qkey);

#endif /* OHCA_TRANSPORT_RX_H */
