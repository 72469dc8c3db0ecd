/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Paths: an address vector, resolved with the tables of a port. The owner calls. */
#ifndef OHCA_TRANSPORT_PATH_H
#define OHCA_TRANSPORT_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "ib/packet.h"

struct ohca_hw_av;
struct ohca_qp;

enum ohca_tx_kind {
	OHCA_TX_WIRE,
	OHCA_TX_LOOP,		/* to the port itself */
	OHCA_TX_DISCARD,	/* the port cannot send packets: discard and count them */
};

/**
 * struct ohca_path - a path, resolved with the port's tables
 * @kind: enum ohca_tx_kind
 * @hdr_len: bytes of @hdr: 8 without GRH, 48 with GRH
 * @mcast: the DLID is a multicast LID
 * @pkey: P_Key for the BTH, CPU order
 * @pace: static rate, if less than the port's: ps for a byte; 0: the port's rate
 * @hdr: LRH and GRH; their lengths are set in each packet
 */
struct ohca_path {
	uint8_t port, vl, kind, hdr_len;
	bool mcast;
	uint16_t pkey, pace;
	uint8_t hdr[IB_LRH_LEN + IB_GRH_LEN];
};

/*
 * Resolve @av at @port. @pkey: P_Key of the table, CPU order; ignored with @vl15, which uses the
 * default P_Key. Return: 0, or enum ohca_vendor_err if @av is not usable. If @av is usable but the
 * port cannot send now (not Active, SL without VL, invalid P_Key), the path is of kind DISCARD.
 */
int ohca_path_resolve(ohca_engine *e, unsigned int port, const struct ohca_hw_av *av,
		      uint16_t pkey, bool vl15, struct ohca_path *p);
/* Resolve the path of a connected QP again, because the port has changed; see ohca_qp_path(). */
const struct ohca_path *ohca_qp_path_again(ohca_engine *e, struct ohca_qp *qp);

#endif /* OHCA_TRANSPORT_PATH_H */
