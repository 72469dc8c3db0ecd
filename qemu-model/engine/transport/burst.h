/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bursts: RDMA WRITEs of one packet each, of one length, of one QP, one after the other in a turn.
 * Each is begun, gathered and counted by itself, as if it were alone. They leave together at the
 * end, with one set of headers and what is different in each of them, if the host has said before
 * that so many may: nothing that happens between two of them could be noticed.
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

#define OHCA_BURST		16u	/* packets: as many as a turn has */
#define OHCA_BURST_LEN		(OHCA_VIEW_MIN - 1)	/* bytes of one of them */

/**
 * struct ohca_burst - packets that leave together
 * @n: packets in it, of at most @most; 0: there is none
 * @tx: the first, which is complete; it leaves alone if no other one follows
 * @flags: of its WQE
 * @from: where the last payload was
 * @view: what they become
 * @ext: RETHs; @payload: of @view.len / @n bytes each
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
 * The packet @tx of the WQE @w, complete but for AckReq, may be the first of a burst: then it is,
 * and has not left. @h: its RETH. Return: false: it is to leave alone.
 */
bool ohca_burst_begin(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		      const struct ohca_tx *tx, const uint8_t *h);
/* Whether there is a burst that the next WQE, @w, continues. */
bool ohca_burst_takes(ohca_engine *e, const struct ohca_swqe *w);
/* Gather the payload of @w to it, as ohca_swqe_gather() does, and if it could be, add its RETH. */
int ohca_burst_add(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		   struct ohca_missing *m);
/* If there is a burst, it leaves. */
void ohca_burst_end(ohca_engine *e, const struct ohca_qp *qp);

#endif /* OHCA_TRANSPORT_BURST_H */
