/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reception: the checks of every packet, and dispatch. */
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
 * struct ohca_rxpkt - a packet in reception
 * @hdr: private copy of the headers; @i: decoded from it
 * @payload: in the frame, may change meanwhile
 * @view: NULL, or where it is instead: only of SEND, WRITE and READ response, and without tags
 * @from: of a multicast group: members before this one have it already
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
 * Check a packet of the loop, and deliver it. @frame: LRH to ICRC field; @loop: @port has sent it
 * to itself; @from: as in struct ohca_rxpkt. If more is to be delivered, sched->mcast_left says so.
 */
void ohca_rx_loop(ohca_engine *e, unsigned int port, const uint8_t *frame, uint32_t len, bool loop,
		  uint16_t from);
/* @p is dropped: the device counts @why, and the host may trace it. */
void ohca_rx_drop(ohca_engine *e, const struct ohca_rxpkt *p, enum ohca_counter why);
/*
 * Whether the GRH of a packet to a unicast LID, if it has one, is addressed to a GID of @port. A
 * packet for another port's GID is dropped silently (9.6.1.2).
 */
bool ohca_rx_dgid_ok(const struct ohca_port *port, const struct ohca_rxpkt *p);
/* @p is dropped: its P_Key, or its Q_Key @qkey, does not match. Counter and trap. */
void ohca_rx_bad_pkey(ohca_engine *e, const struct ohca_rxpkt *p);
void ohca_rx_bad_qkey(ohca_engine *e, const struct ohca_rxpkt *p, uint32_t qkey);

#endif /* OHCA_TRANSPORT_RX_H */
