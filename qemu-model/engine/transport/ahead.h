/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Early RDMA WRITEs of RC: packets that arrive before packets with lower PSNs.
 *
 * On service levels whose packets the fabric may deliver in any order (ohca_any_order()) the
 * requester sends each packet of an RDMA WRITE as a request of its own, RDMA WRITE Only, whose RETH
 * contains the address of the bytes in this packet. The responder writes the bytes when the packet
 * arrives, up to OHCA_AHEAD - 1 PSNs early, and notes that. When all packets with lower PSNs have
 * arrived, it does the rest: MSN, ACK, receive WQE, CQE. So everything that a consumer can rely on
 * (IBTA vol 1, 9.5) happens in the order of PSNs. Only the bytes that outstanding WRITEs write may
 * change in another order.
 *
 * An RDMA WRITE with immediate data and several packets stays one request, whose packets keep their
 * order, because its receive completion contains the length of the message. The requester begins a
 * request that needs order only when all requests without order are acknowledged, and a request
 * without order only when all requests with order are acknowledged. So a WRITE is early only among
 * WRITEs: it does not change memory before an earlier SEND has written it, or an earlier READ or
 * atomic has read it.
 *
 * Two WRITEs to the same bytes have the same result as in order: if a packet writes to bytes that a
 * later packet has already written, the later packet must be sent again. The responder does not
 * detect this if two regions contain the same memory and each WRITE uses another one.
 *
 * An early WRITE that cannot be written, for any reason, must also be sent again: the responder
 * sends a NAK when all packets with lower PSNs have arrived. It then executes or refuses the
 * repeated packet as usual. Any other early request means a loss, and the responder sends a NAK at
 * once. It does the same for a WRITE that is OHCA_AHEAD_LOST PSNs or more early, or for which it
 * has no memory. Packets that are missing before a less early one may still arrive; else the
 * requester's timer expires.
 *
 * A peer determines how long a QP has early packets. So all QPs of an HCA together may use only a
 * part of the memory budget for them, and the rest stays for the guest.
 */
#ifndef OHCA_TRANSPORT_AHEAD_H
#define OHCA_TRANSPORT_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/state.h"
#include "engine/engine.h"
#include "engine/object/qp.h"
#include "ohca_hw.h"

struct ohca_mr;
struct ohca_mr_range;
struct ohca_rxpkt;
struct ohca_xport;

#define OHCA_AHEAD	512u	/* PSNs, a power of two; also the requester's window */
#define OHCA_AHEAD_LOST	384u	/* PSNs; a packet that is so early means a loss */
#define OHCA_AHEAD_IMMS	128u	/* early packets of a QP with immediate data */
#define OHCA_AHEAD_SHARE	8u	/* all QPs together may use 1/8 of the budget */

/**
 * struct ohca_early - an early packet whose bytes were written
 * @mr: its region, only for comparison since the region may be deregistered; NULL: no bytes
 * @off: offset of the bytes in the region; @len: their number
 * @imm: immediate data, as in the packet, if @has_imm
 * @se, @ackreq: SE and AckReq of the BTH
 */
struct ohca_early {
	const struct ohca_mr *mr;
	uint64_t off;
	uint32_t imm;
	uint16_t len;
	bool has_imm : 1, se : 1, ackreq : 1;
};

/**
 * struct ohca_ahead - the early packets of a QP; allocated while there are some
 * @num: their number; @imms: number of those with immediate data
 * @map: a bit for each, by PSN modulo OHCA_AHEAD
 * @again: a bit, likewise, for each packet that must be sent again; none of them is in @map
 * @pkt: the packets, by PSN modulo OHCA_AHEAD
 */
struct ohca_ahead {
	struct ohca_ahead *next;	/* free list */
	uint32_t num, imms;
	uint64_t map[OHCA_AHEAD / 64], again[OHCA_AHEAD / 64];
	struct ohca_early pkt[OHCA_AHEAD];
};

/* Whether packets of RDMA WRITEs of @qp on @sl may arrive in any order. */
static inline bool ohca_ahead_allowed(const ohca_engine *e, const struct ohca_qp *qp, uint8_t sl)
{
	return __builtin_expect(e->any_order >> sl & 1, 0) && qp->type == OHCA_QPT_RC;
}

/*
 * Write the bytes of request @p, whose PSN is @diff after the expected one, or note that it must be
 * sent again. Return: false if the request means a loss.
 */
bool ohca_ahead_take(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p, uint32_t diff);
/*
 * Remove the packet with the expected PSN, if it has arrived early. *@p: the packet. Return: false
 * if it has not arrived.
 */
bool ohca_ahead_next(struct ohca_xport *xp, struct ohca_early *p);
/*
 * A packet with @psn is about to write to the first @n bytes of @r: later packets that have already
 * written to any of them must be sent again.
 */
void ohca_ahead_overwrite(ohca_engine *e, struct ohca_xport *xp, uint32_t psn,
			  const struct ohca_mr_range *r, uint32_t n);
/* Drop packets with PSNs before @next: the responses to a READ have these PSNs, no request has. */
void ohca_ahead_skip(ohca_engine *e, struct ohca_xport *xp, uint32_t next);
/*
 * Return: whether the packet with the expected PSN must be sent again. Then a NAK is due, and the
 * requester repeats all later packets, too.
 */
bool ohca_ahead_again(struct ohca_xport *xp);
/* Free the memory if nothing is noted any more. */
void ohca_ahead_end(ohca_engine *e, struct ohca_xport *xp);
/* Drop all early packets. */
void ohca_ahead_reset(ohca_engine *e, struct ohca_xport *xp);

#endif /* OHCA_TRANSPORT_AHEAD_H */
