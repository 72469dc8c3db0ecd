/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Management datagrams of the agents, and their queues. */
#ifndef OHCA_TRANSPORT_MADQ_H
#define OHCA_TRANSPORT_MADQ_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "ohca_hw.h"

#define OHCA_MADQ_SLOTS		32u	/* power of two */

/** struct ohca_madq - management datagrams that wait for credits */
struct ohca_madq {
	struct ohca_madq_slot {
		struct ohca_hw_av av;
		uint16_t pkey, slid;
		uint8_t mad[256];
	} slot[OHCA_MADQ_SLOTS];
	uint32_t head, tail;
	bool blocked;
};

/* Send one 256-byte MAD as a UD packet from QP @src_qp (0 or 1) with @av (dqpn,
 * qkey, dlid, sl, path bits, GRH); VL15 for QP0. @pkey: CPU order. Queued if there are no
 * credits (bounded; the oldest is dropped and counted). slid: 0xffff for directed route */
void ohca_mad_send(ohca_engine *e, unsigned int port, unsigned int src_qp,
		   const struct ohca_hw_av *av, uint16_t pkey, uint16_t slid, const uint8_t *mad);
/* Send what ohca_ack_later() and ohca_mad_send() queued, as far as there are credits, and as the
 * allowance of work covers. */
void ohca_madq_run(ohca_engine *e);

#endif /* OHCA_TRANSPORT_MADQ_H */
