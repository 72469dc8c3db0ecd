/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Paths: an address vector, resolved against the tables of a port. */
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
	OHCA_TX_LOOP,		/* to this port itself */
	OHCA_TX_DISCARD,	/* the port cannot send it: discarded and counted */
};

/**
 * struct ohca_path - a path, resolved against the port's tables
 * @kind: enum ohca_tx_kind
 * @hdr_len: bytes of @hdr that count: 8 without, 48 with GRH
 * @pkey: to put into the BTH
 * @pace: static rate, if it is less than the port's: ps for a byte; 0: the port's rate
 * @hdr: LRH and GRH; lengths are filled in per packet
 */
struct ohca_path {
	uint8_t port, vl, kind, hdr_len;
	bool mcast;
	uint16_t pkey, pace;
	uint8_t hdr[IB_LRH_LEN + IB_GRH_LEN];
};

/*
 * Resolve @av as seen from @port. @pkey_index is ignored with @vl15 (P_Key 0xffff then).
 * 0, or enum ohca_vendor_err if the AV is not usable. A path that is usable but leads
 * nowhere now (port not Active, SL without VL, P_Key invalid) is of kind DISCARD.
 * @pkey: of the table, CPU order; on VL15 the default P_Key is sent
 */
int ohca_path_resolve(ohca_engine *e, unsigned int port, const struct ohca_hw_av *av,
		      uint16_t pkey, bool vl15, struct ohca_path *p);
/* The QP's own path (RC, UC; sched.h has ohca_qp_path()), resolved again: the port has changed. */
const struct ohca_path *ohca_qp_path_again(ohca_engine *e, struct ohca_qp *qp);

#endif /* OHCA_TRANSPORT_PATH_H */
