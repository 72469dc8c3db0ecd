/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bursts: successive RDMA WRITEs of a QP in one turn, each of one packet, all of the same length.
 * Each is begun, gathered and counted like a single one. At the end they leave together: one set of
 * headers, and the parts that differ in each packet. The host has agreed to the number of packets
 * before, so no event between two of them can be observed.
 */
#ifndef OHCA_TRANSPORT_BURST_H
#define OHCA_TRANSPORT_BURST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/limits.h"
#include "engine/engine.h"
#include "engine/object/mr_access.h"
#include "engine/transport/tx.h"
#include "ib/packet.h"
#include "ib/view.h"

struct ohca_missing;
struct ohca_qp;
struct ohca_swqe;
struct ohca_turn;

#define OHCA_BURST		16u	/* packets: the number in a turn */
#define OHCA_BURST_LEN		(OHCA_VIEW_MIN - 1)	/* most bytes of payload in one packet */

/**
 * struct ohca_burst - packets that leave together
 * @n: number of packets, at most @most; 0: there is no burst
 * @len: bytes of payload in each packet
 * @flags: flags of the first WQE
 * @tx: the first packet, which is complete; it leaves alone if no other one follows
 * @from: memory of the last payload
 * @view: the payload of all packets
 * @ext: the RETHs; @payload: the payloads, of @len bytes each
 */
struct ohca_burst {
	uint32_t n, most;
	uint32_t len;
	uint16_t flags;
	struct ohca_tx tx;
	struct ohca_stretch from;
	struct ib_view view;
	uint8_t ext[OHCA_BURST * IB_RETH_LEN];
	uint8_t payload[OHCA_BURST * OHCA_BURST_LEN];
};

/*
 * Begin a burst with packet @tx of WQE @w, which is complete. @h: its RETH. Return: true if the
 * burst has begun and the packet has not left; false if the packet must leave alone.
 */
bool ohca_burst_begin(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		      const struct ohca_tx *tx, const uint8_t *h);
/* Whether there is a burst, and the next WQE, @w, can continue it. */
bool ohca_burst_takes(ohca_engine *e, const struct ohca_swqe *w);
/* Add @w to the burst: gather its payload and build its RETH. Return: as ohca_swqe_gather() */
int ohca_burst_add(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		   struct ohca_missing *m);
/* Send the burst, if there is one. */
void ohca_burst_end(ohca_engine *e, const struct ohca_qp *qp);

#endif /* OHCA_TRANSPORT_BURST_H */
