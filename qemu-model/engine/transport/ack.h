/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Acknowledgements and congestion notifications as packets, and a queue of them. */
#ifndef OHCA_TRANSPORT_ACK_H
#define OHCA_TRANSPORT_ACK_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/transport/path.h"
#include "ib/packet.h"

struct ohca_turn;

#define OHCA_LATE_ACKS		64u	/* power of two */

/**
 * struct ohca_ack - an ACK, a NAK or a CNP (IB_OP_CNP), which does not refer to its QP
 * @dqpn: destination QP
 * @psn, @msn, @syndrome: of an ACK or NAK
 * @migreq: IB_BTH_MIGREQ or 0
 */
struct ohca_ack {
	uint32_t dqpn, psn, msn;
	uint8_t opcode, syndrome, migreq;
};

/* Length of an ACK or NAK, LRH to ICRC, bytes. */
static inline uint32_t ohca_ack_len(const struct ohca_path *path)
{
	return path->hdr_len + IB_BTH_LEN + IB_AETH_LEN + IB_ICRC_LEN;
}

/* Send @a on @path. False: no room; @t->wait is the reason. */
bool ohca_ack_out(ohca_engine *e, struct ohca_turn *t, const struct ohca_path *path,
		  const struct ohca_ack *a);
/*
 * Queue @a until there are credits: a CNP, or an acknowledgement of a QP that is being destroyed or
 * reset. The queue is bounded: if it is full, the oldest entry is dropped and counted as discarded.
 */
void ohca_ack_later(ohca_engine *e, const struct ohca_path *path, const struct ohca_ack *a);
/*
 * Send the queue of @port, as far as there are credits. False: no room in the loop, or the
 * allowance of work is used up.
 */
bool ohca_acks_run(ohca_engine *e, unsigned int port);

/** struct ohca_lateq - queue of a port; @blocked: the first entry waits for credits */
struct ohca_lateq {
	struct ohca_late {
		struct ohca_path path;
		struct ohca_ack ack;
	} slot[OHCA_LATE_ACKS];
	uint32_t head, tail;
	bool blocked;
};

#endif /* OHCA_TRANSPORT_ACK_H */
