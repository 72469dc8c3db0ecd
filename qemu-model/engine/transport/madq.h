/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Management datagrams of the agents, and their queues. */
#ifndef OHCA_TRANSPORT_MADQ_H
#define OHCA_TRANSPORT_MADQ_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "ohca_hw.h"

#define OHCA_MADQ_SLOTS		32u	/* power of two */

/** struct ohca_madq - queue of management datagrams; @blocked: the first one waits for credits */
struct ohca_madq {
	struct ohca_madq_slot {
		struct ohca_hw_av av;
		uint16_t pkey, slid;
		uint8_t mad[256];
	} slot[OHCA_MADQ_SLOTS];
	uint32_t head, tail;
	bool blocked;
};

/*
 * Queue a MAD of 256 bytes for ohca_madq_run(), as a UD packet from QP @src_qp (0 or 1) with @av
 * (dqpn, qkey, dlid, sl, path bits, GRH); QP0 uses VL15. @pkey: CPU order. @slid: SLID, 0xffff for
 * a directed route; 0: that of the path. The queue is bounded: if it is full, the oldest MAD is
 * dropped and counted.
 */
void ohca_mad_send(ohca_engine *e, unsigned int port, unsigned int src_qp,
		   const struct ohca_hw_av *av, uint16_t pkey, uint16_t slid, const uint8_t *mad);
/*
 * Send what ohca_ack_later() and ohca_mad_send() have queued, as far as there are credits and the
 * allowance of work covers.
 */
void ohca_madq_run(ohca_engine *e);

#endif /* OHCA_TRANSPORT_MADQ_H */
