/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Transport state of a QP, and how the transport works.
 *
 * The life of a message
 *
 * sq.c copies the WQE from the ring into a private window, checks it there and never looks at the
 * ring again. requester.c gives the WQE its PSNs and makes one packet at a time: the offset of a
 * packet in the message follows from its PSN, so no packet and no cursor is kept. To send
 * something again, the requester moves two indices back. sched.c decides whose turn it is, tx.c
 * asks the host for room on the packet's lane; without room the QP waits on a list and makes the
 * packet later. Payload is gathered into the room that the host gave.
 *
 * rx.c copies the headers of a packet, checks them in the order of the specification (9.6.1) and
 * finds the QP. responder.c compares the PSN with the one that it expects, executes the request at
 * once and notes what it owes: READ and atomic responses in a ring, then at most one NAK, then one
 * ACK for all that came. Reception sends nothing; the responses leave in the responder's turns
 * (responder_tx.c), between packets of its own requests. completer.c receives them, moves @una, and
 * completes the WQEs behind it.
 *
 * The requester of RC and XRC:
 *
 *          doorbell            all packets sent            all acknowledged
 *    IDLE ----------> SENDING -----------------> WAITING ------------------> IDLE
 *                     ^  ^  ^                    |  |  |
 *                     |  |  +-- go back ---------+  |  |  timeout, NAK 0, a response is missing
 *                     |  |                          |  |
 *                     |  +-- timer -- RNR_WAIT <----+  |  RNR NAK: go back
 *                     |                                |
 *                     +---- resume -- SUSPENDED <------+  a page for a response is missing: go back
 *
 * What is said of WAITING happens in SENDING, too; there the page may be one to send from. From
 * each of them the QP goes to ERR when the retries are used up, when a NAK refuses the request,
 * when a response is wrong, and when its own memory is. In SQD it finishes what has begun and
 * begins nothing. To go back is: cur = tail, nxt = una.
 *
 * The responder of RC and XRC, between messages (NONE) or inside one (rx_op):
 *
 *                    SEND FIRST                       WRITE FIRST
 *    IN_SEND <------------------------- NONE -------------------------> IN_WRITE
 *     |   ^                             ^ |  |                           |   ^
 *     +---+ MIDDLE                      | +--+ ONLY, READ, atomic, FLUSH +---+ MIDDLE
 *     +------------- LAST --------------+-------------- LAST ------------+
 *
 * PSN ahead: one NAK 0, until the expected PSN comes, if ahead.h does not take it. PSN behind: the
 * answer again, nothing is executed twice. No WQE, no page, not complete: RNR NAK, and the state
 * stays. Refused: a NAK behind the responses that are due, the WQE fails, ERR; @closing until they
 * have left.
 */
#ifndef OHCA_TRANSPORT_XPORT_H
#define OHCA_TRANSPORT_XPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/heap.h"
#include "engine/base/limits.h"
#include "engine/base/list.h"
#include "engine/object/fault.h"
#include "engine/object/qp.h"
#include "engine/transport/path.h"
#include "ib/cc.h"
#include "ib/packet.h"
#include "ohca_hw.h"

struct ohca_ahead;
struct ohca_atomic_res;
struct ohca_rdring;
struct ohca_rndv;
struct ohca_rwqe;
struct ohca_sqwin;

#define OHCA_MAX_PSNS		((1u << 23) - 1) /* PSNs under way: their order is unambiguous */
#define OHCA_MAX_MSG		(1u << 31)	/* bytes of a message, IBTA vol 1, 9.7.7 */

enum ohca_xp_on { OHCA_XP_OFF, OHCA_XP_ACTIVE, OHCA_XP_WAIT, OHCA_XP_WAIT_FAULT };

/* kind of the message being received */
enum ohca_rx_op { OHCA_RX_NONE, OHCA_RX_SEND, OHCA_RX_WRITE };

/**
 * struct ohca_xp_sched - the scheduler's part of a QP: its list, its timers, its path
 * @timer: deadline; its key in the heap may be earlier
 * @paced: end of its packets at its static rate, or of the delay after them by congestion control
 * @paced_gen: of congestion[], as @paced was set
 * @flow: its CCTI, if each QP has one
 * @heap: position + 1; 0: not in the heap
 * @on: enum ohca_xp_on; @lane: its list while it is active; stays while it is on it
 * @home: the lane of its packets, as far as is known; @empty: steps since it sent one
 * @resp_last: the last packet was a response
 * @armed: all WQEs have been sent, and a doorbell comes with the next one: the requester has
 *	nothing to do until then, unless something is to be repeated
 * @answers: the responder may have something to send. It is here, as @armed is, so that a turn of
 *	one of the two needs nothing of the other
 * @rto_restart: the next turn starts the ACK timer anew
 * @path_ok: @path is that of the attributes, as long as the port's is @path_gen
 * @due: in sched->paced
 * @fault_gen: sched->fault_gen when the QP found no slot for a page fault
 * @req_fault: the requester found none, so that nothing it is given to send lets it go on
 */
struct ohca_xp_sched {
	struct ohca_list link;
	uint64_t timer;
	uint32_t heap;
	uint32_t path_gen;
	uint8_t on;
	uint8_t lane, home, empty;
	bool resp_last;
	bool armed, answers, rto_restart;
	bool path_ok;
	bool req_fault;
	struct ohca_path path;
	uint32_t fault_gen;
	uint32_t paced_gen;
	uint64_t paced;
	struct ib_cc_flow flow;
	struct ohca_due due;
};

/**
 * struct ohca_xp_req - the requester
 *
 * SQ indices count BBs and run free: tail <= cur <= head <= got <= pi.
 * @pi: producer index last seen; @got: copied up to here; @head: parsed up to here
 * @cur: WQE whose packets are sent next; @tail: oldest WQE not completed
 * @una: oldest PSN not acknowledged; @nxt: next to send; @max: one past the highest sent
 * @ssn: requests begun; @lsn: limit sequence number that the responder has granted
 * @rd_out: READs and atomics begun and not completed
 * @since_ackreq: packets since the last one that asked for an acknowledgement
 * @rnr_wait: the requester waits for the RNR timer
 * @restarted: went back already; further reports of the same loss are ignored
 * @bad_pi: the record has an index that cannot be true
 * @credits: @lsn is valid: the responder grants credits
 * @asking: the next request may be beyond @lsn
 * @apart: the last request that began may come in any order (ohca_swqe.apart)
 */
struct ohca_xp_req {
	struct ohca_sqwin *win;
	uint32_t pi, got, head, cur, tail;
	uint32_t una, nxt, max;
	uint32_t ssn, lsn;
	uint16_t rd_out, since_ackreq;
	uint8_t retry_left, rnr_left;
	bool rnr_wait, restarted, bad_pi, credits, asking, apart;
};

/**
 * struct ohca_xp_resp - the responder
 * @epsn: PSN expected; @rx_off: bytes of the current message received
 * @wr_va, @wr_rkey, @wr_len: RETH of the WRITE in progress
 * @rwqe: receive WQE of the message in progress, or kept for the next
 * @rd: responses to be sent; @rd_num: how many, at most max_dest_rd_atomic
 * @rx_op: enum ohca_rx_op
 * @nak_due: send @nak_syn with @nak_psn; @nak_sent: further losses are not reported
 * @closing: in ERR, but responses, an ACK or a NAK still leave
 * @uc_skip: UC: packets up to the next first one are dropped
 * @fault_rkey: the fault of OHCA_FAULT_RECV is in memory of an R_Key
 */
struct ohca_xp_resp {
	uint32_t epsn, msn;
	uint32_t rx_off;
	uint32_t wr_rkey, wr_len;
	uint32_t nak_psn;
	uint64_t wr_va;
	struct ohca_rwqe *rwqe;
	struct ohca_rdring *rd;
	uint8_t rd_head, rd_num;
	uint8_t rx_op, nak_syn;
	bool comm_est, ack_due, nak_due, nak_sent, closing, uc_skip, fault_rkey;
};

/**
 * struct ohca_xport - transport state of a QP
 *
 * What packets need is in the first two cache lines, up to the LRH of the path, and in those of
 * requester and responder, of which a packet touches one.
 * @fault: outstanding page faults by enum ohca_fault_side: references, or 0
 * @rndv: rendezvous of a QP of an SRQ with tags; else NULL
 * @ahead: packets that came before their turn; NULL: there are none
 * @at: results of the last atomics, a ring of @at_cap
 * @event: event index last written to the doorbell record; @sq_ci: consumer index likewise
 * @drain_told: SQ_DRAINED was raised, or need not be
 * @reserved: the budget has the memory that it needs while it is busy
 * @flush_sqe: in RTS: WQEs up to @flush_end were posted in SQE, and are flushed
 */
struct ohca_xport {
	_Alignas(OHCA_CACHE_LINE)
	struct ohca_qp *qp;
	struct ohca_rndv *rndv;
	struct ohca_ahead *ahead;
	uint32_t event, sq_ci;
	uint16_t fault[OHCA_FAULT_SIDES];
	bool drain_told;
	bool rq_first;			/* the last flush began with the RQ */
	bool flush_sqe;
	bool reserved;
	uint8_t at_cap, at_pos;
	uint32_t flush_end;
	struct ohca_xp_sched sched;
	struct ohca_atomic_res *at;
	_Alignas(OHCA_CACHE_LINE) struct ohca_xp_req req;
	_Alignas(OHCA_CACHE_LINE) struct ohca_xp_resp resp;
};

_Static_assert(sizeof(struct ohca_xp_req) <= OHCA_CACHE_LINE &&
	       sizeof(struct ohca_xp_resp) <= OHCA_CACHE_LINE &&
	       offsetof(struct ohca_xport, req) % OHCA_CACHE_LINE == 0 &&
	       offsetof(struct ohca_xport, resp) % OHCA_CACHE_LINE == 0 &&
	       offsetof(struct ohca_xport, sched.path.hdr) + IB_LRH_LEN <= 2 * OHCA_CACHE_LINE,
	       "what packets need is in four cache lines");

/* That of @qp, which follows it, for who must not look into it. */
static inline struct ohca_xport *ohca_xp_of(const struct ohca_qp *qp)
{
	return (struct ohca_xport *)(uintptr_t)(qp + 1);
}

/* Transport bits of the opcodes of a connected QP's packets. */
static inline uint8_t ohca_qp_trans(const struct ohca_qp *qp)
{
	return qp->type == OHCA_QPT_RC ? IB_TRANS_RC :
	       qp->type == OHCA_QPT_UC ? IB_TRANS_UC : IB_TRANS_XRC;
}

static inline uint32_t ohca_qp_mtu(const struct ohca_qp *qp)
{
	return 128u << qp->path_mtu;
}

/* Packets of a message; an empty one has one. */
static inline uint32_t ohca_npkts(const struct ohca_qp *qp, uint32_t len)
{
	unsigned int shift = 7u + qp->path_mtu;

	return len ? (uint32_t)(((uint64_t)len + (1u << shift) - 1) >> shift) : 1;
}

#endif /* OHCA_TRANSPORT_XPORT_H */
