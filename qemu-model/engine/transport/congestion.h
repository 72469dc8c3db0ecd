/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a port does about congestion (IBTA volume 1, annex A10); see congestion.c. */
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
 * struct ohca_congestion - how a port obeys BECNs
 * @on: a manager has set a table; while not, packets are not looked at
 * @gen: counts what a manager has set; who waits for what was set before need not any more
 * @flow: CCTI of each service level, if the port has one for each
 * @paced: the next packet of a service level may leave then, ns
 */
struct ohca_congestion {
	bool on;
	uint32_t gen;
	struct ib_cc_flow flow[IB_CC_SLS];
	uint64_t paced[IB_CC_SLS];
};

/* What a manager has set of @port is @ca now. */
void ohca_congestion_set(ohca_engine *e, unsigned int port, const struct ib_cc_ca *ca);
/*
 * A packet with FECN has come, by service level @sl: a notification to the sender's QP @dqpn leaves
 * by @path before the packets of QPs. One is enough while one waits. If many wait already there is
 * none for this packet.
 */
void ohca_congestion_fecn(ohca_engine *e, const struct ohca_path *path, uint32_t dqpn, uint8_t sl);
/* A packet with BECN has come for @qp by service level @sl; those that it is about go by @of. */
void ohca_congestion_becn(ohca_engine *e, const struct ohca_qp *qp, unsigned int port, uint8_t sl,
			  uint8_t of);
/*
 * @xp has sent @tx, of a port that is on: its next packet waits as long as the table says, from
 * @from ns on or, with a CCTI of the service level, from when that may send. Packets of QP0 and QP1
 * never wait.
 */
void ohca_congestion_sent(ohca_engine *e, struct ohca_xport *xp, const struct ohca_tx *tx,
			  uint64_t from);
/* Whether packets of @xp by service level @sl of a port that is on have to leave one by one. */
bool ohca_congestion_slow(ohca_engine *e, const struct ohca_xport *xp, unsigned int port,
			  uint8_t sl);

#endif /* OHCA_TRANSPORT_CONGESTION_H */
