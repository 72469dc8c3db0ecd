/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * RDMA WRITEs of RC that come before their turn.
 *
 * On service levels whose packets the fabric delivers in any order (ohca_any_order()) the requester
 * makes each packet of an RDMA WRITE a request of its own, RDMA WRITE Only: its RETH says where the
 * bytes of that packet go. The responder places them when the packet comes, up to OHCA_AHEAD - 1
 * PSNs before its turn, and notes that. When its turn comes what is left is done: MSN, ACK, receive
 * WQE, CQE. So what a consumer can rely on (IBTA vol 1, 9.5) happens in the order of PSNs; only
 * memory to which a WRITE is on its way may change in another one.
 *
 * An RDMA WRITE with immediate data of several packets stays one request, whose packets keep their
 * order: its receive completion has the length of all. No request that keeps its order is begun
 * before all those that do not are acknowledged, and none of these before all those that do. So a
 * WRITE comes before its turn among WRITEs only: it changes no memory that a SEND writes, or a READ
 * or an atomic looks at, before these have done so.
 *
 * Two WRITEs to the same bytes have the result that they have in order: a packet that writes where
 * a later one has written already makes that one come again. This is not noticed where two regions
 * have the same memory, and each WRITE names another.
 *
 * A WRITE that comes before its turn and cannot be placed, for whatever reason, has to come again,
 * too: a NAK asks for it when its turn comes. Then it is executed, or refused, as ever. All else
 * that comes before its turn means a loss, for which there is a NAK at once, and so does a WRITE
 * that is OHCA_AHEAD_LOST PSNs or more before its turn, or for which there is no memory. What is
 * missing before a closer one may still come, or the requester's timer finds out.
 *
 * A peer decides for how long a QP has packets that are early. So all QPs of an HCA together have a
 * part of its memory for them, and the rest is the guest's.
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

#define OHCA_AHEAD	512u	/* PSNs, a power of two; and packets under way to a responder */
#define OHCA_AHEAD_LOST	384u
#define OHCA_AHEAD_IMMS	128u	/* of them with immediate data */
#define OHCA_AHEAD_SHARE	8u	/* all QPs together have 1/8 of the budget */

/**
 * struct ohca_early - a packet whose bytes are placed
 * @mr: NULL: it has none; only compared, the region may have gone
 * @off: of the bytes in the region; @len: how many
 * @imm: immediate data, as in the packet; @has_imm: there is some
 * @se, @ackreq: of the BTH
 */
struct ohca_early {
	const struct ohca_mr *mr;
	uint64_t off;
	uint32_t imm;
	uint16_t len;
	bool has_imm : 1, se : 1, ackreq : 1;
};

/**
 * struct ohca_ahead - the packets that came before their turn; a QP has it while there are some
 * @num: how many; @imms: of them with immediate data
 * @map: a bit for each, by PSN modulo OHCA_AHEAD, as in @pkt
 * @again: likewise, those that have to come again; none of them is in @map
 */
struct ohca_ahead {
	struct ohca_ahead *next;	/* free list */
	uint32_t num, imms;
	uint64_t map[OHCA_AHEAD / 64], again[OHCA_AHEAD / 64];
	struct ohca_early pkt[OHCA_AHEAD];
};

/* Whether RDMA WRITEs of @qp leave, on @sl, so that they may come in any order. */
static inline bool ohca_ahead_allowed(const ohca_engine *e, const struct ohca_qp *qp, uint8_t sl)
{
	return __builtin_expect(e->any_order >> sl & 1, 0) && qp->type == OHCA_QPT_RC;
}

/*
 * Place the request @p, whose PSN is @diff after the one that is expected, or note that it has to
 * come again. Return: false: it means a loss.
 */
bool ohca_ahead_take(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p, uint32_t diff);
/*
 * The request whose turn it is has come already: it is *@p, and is not here any more. False: it has
 * not.
 */
bool ohca_ahead_next(struct ohca_xport *xp, struct ohca_early *p);
/*
 * A packet of PSN @psn writes to the first @n bytes of @r: later packets that have done so already
 * have to come again.
 */
void ohca_ahead_overwrite(ohca_engine *e, struct ohca_xport *xp, uint32_t psn,
			  const struct ohca_mr_range *r, uint32_t n);
/* The PSNs up to @next are those of responses to a READ: no request has one of them. */
void ohca_ahead_skip(ohca_engine *e, struct ohca_xport *xp, uint32_t next);
/*
 * The turn of all that was here is over. Return: the one that is expected now has to come again;
 * a NAK is due, for which all that is behind it comes again, too.
 */
bool ohca_ahead_again(struct ohca_xport *xp);
/* If nothing is left the memory goes back. */
void ohca_ahead_end(ohca_engine *e, struct ohca_xport *xp);
/* All are lost. */
void ohca_ahead_reset(ohca_engine *e, struct ohca_xport *xp);

#endif /* OHCA_TRANSPORT_AHEAD_H */
