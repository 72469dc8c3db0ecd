/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Acknowledgements, also of QPs that are destroyed or reset, and congestion notifications. */
#ifndef OHCA_TRANSPORT_ACK_H
#define OHCA_TRANSPORT_ACK_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/transport/path.h"
#include "ib/packet.h"

struct ohca_turn;

#define OHCA_LATE_ACKS		64u	/* power of two */

/** struct ohca_ack - an ACK or NAK, whose QP may be gone by then, or a CNP (IB_OP_CNP) */
struct ohca_ack {
	uint32_t dqpn, psn, msn;
	uint8_t opcode, syndrome, migreq;
};

/* Bytes of an ACK or NAK, LRH to ICRC. */
static inline uint32_t ohca_ack_len(const struct ohca_path *path)
{
	return path->hdr_len + IB_BTH_LEN + IB_AETH_LEN + IB_ICRC_LEN;
}

/* Send it by @path. False: no room; @t says what for. */
bool ohca_ack_out(ohca_engine *e, struct ohca_turn *t, const struct ohca_path *path,
		  const struct ohca_ack *a);
/*
 * Queue it until there are credits, for a QP that is destroyed or reset, or a CNP. The queue is
 * bounded; the oldest is dropped and counted as discarded.
 */
void ohca_ack_later(ohca_engine *e, const struct ohca_path *path, const struct ohca_ack *a);
/*
 * Send the queued ones of @port, as far as there are credits. False: no room in the loop, or the
 * allowance of work is used up.
 */
bool ohca_acks_run(ohca_engine *e, unsigned int port);

/** struct ohca_lateq - acknowledgements of QPs that are destroyed or reset, and CNPs */
struct ohca_lateq {
	struct ohca_late {
		struct ohca_path path;
		struct ohca_ack ack;
	} slot[OHCA_LATE_ACKS];
	uint32_t head, tail;
	bool blocked;
};

#endif /* OHCA_TRANSPORT_ACK_H */
