/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Congestion control of a port (IBTA volume 1, annex A10); see congestion.c. */
#ifndef OHCA_TRANSPORT_CONGESTION_H
#define OHCA_TRANSPORT_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/transport/path.h"
#include "ib/cc.h"

struct ohca_qp;
struct ohca_rxpkt;
struct ohca_tx;
struct ohca_xport;

/**
 * struct ohca_congestion - congestion control of the packets that a port sends
 * @on: a manager has set a table; without it packets are not delayed
 * @gen: counts changes by a manager; a change ends delays under the previous settings
 * @flow: CCTI of each service level, if the port has one for each
 * @paced: time when the next packet of a service level may leave, ns
 */
struct ohca_congestion {
	bool on;
	uint32_t gen;
	struct ib_cc_flow flow[IB_CC_SLS];
	uint64_t paced[IB_CC_SLS];
};

/* A manager has changed the settings of @port, which are now @ca. */
void ohca_congestion_set(ohca_engine *e, unsigned int port, const struct ib_cc_ca *ca);
/*
 * A packet with FECN was received on service level @sl: queue a CNP to the sender's QP @dqpn on
 * @path, which leaves before the packets of QPs. No CNP is queued if one for the same QP waits, or
 * if many wait.
 */
void ohca_congestion_fecn(ohca_engine *e, const struct ohca_path *path, uint32_t dqpn, uint8_t sl);
/*
 * @qp received a packet with BECN on service level @sl. @of: SL of the packets that it must delay.
 */
void ohca_congestion_becn(ohca_engine *e, const struct ohca_qp *qp, unsigned int port, uint8_t sl,
			  uint8_t of);
/*
 * @xp has sent @tx on a port that is @on: delay its next packet by the entry of the table, after
 * @from, ns, or, if service levels have CCTIs, after the time when its service level may send.
 * Packets of QP0 and QP1 are never delayed.
 */
void ohca_congestion_sent(ohca_engine *e, struct ohca_xport *xp, const struct ohca_tx *tx,
			  uint64_t from);
/* Whether packets of @xp on service level @sl of a port that is @on must leave one by one. */
bool ohca_congestion_slow(ohca_engine *e, const struct ohca_xport *xp, unsigned int port,
			  uint8_t sl);

#endif /* OHCA_TRANSPORT_CONGESTION_H */
