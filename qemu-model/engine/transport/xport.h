/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Transport state of a QP, and how the transport works.
 *
 * The way of a message
 *
 * sq.c copies the WQE from the ring to a private window, checks the copy and does not read the ring
 * again. requester.c assigns PSNs to the WQE and builds one packet at a time. The offset of a
 * packet in the message follows from its PSN, so the requester stores no packet and no position. To
 * send packets again, it sets two indices back. sched.c chooses the QP that has the next turn. tx.c
 * requests room on the packet's lane from the host. Without room the QP waits on a list and builds
 * the packet later. The payload is gathered into the host's buffer.
 *
 * rx.c copies the headers of a packet, checks them in the order of the specification (9.6.1) and
 * looks up the QP. responder.c compares the PSN with the expected one, executes the request at once
 * and notes the responses that are due: READ and atomic responses in a ring, then at most one NAK,
 * then one ACK for all requests. Reception sends nothing: the responses leave in the turns of the
 * QP (responder_tx.c), between packets of its own requests. completer.c receives responses,
 * advances @una, and completes the WQEs before it.
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
 * The transitions from WAITING also occur in SENDING, where the missing page may also be one to
 * send from. In each state the QP moves to ERR when the retries are exhausted, when a NAK refuses a
 * request, when a response is wrong, or when local memory cannot be accessed. In SQD the requester
 * completes the WQEs that have begun and begins no others. To go back means: cur = tail, nxt = una.
 *
 * The responder of RC and XRC, between messages (NONE) or inside one (rx_op):
 *
 *                    SEND FIRST                       WRITE FIRST
 *    IN_SEND <------------------------- NONE -------------------------> IN_WRITE
 *     |   ^                             ^ |  |                           |   ^
 *     +---+ MIDDLE                      | +--+ ONLY, READ, atomic, FLUSH +---+ MIDDLE
 *     +------------- LAST --------------+-------------- LAST ------------+
 *
 * PSN after the expected one: accepted by ahead.h, or else a loss: one NAK 0 until the expected PSN
 * arrives. PSN before the expected one: a duplicate, which is answered again and not executed
 * again. No receive WQE, a missing page, or not complete: RNR NAK, and the state does not change.
 * Refused: a NAK after the responses that are due, the WQE fails, and the QP moves to ERR; @closing
 * is set until the responses have left.
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

#define OHCA_MAX_PSNS		((1u << 23) - 1) /* most PSNs under way: their order is unique */
#define OHCA_MAX_MSG		(1u << 31)	/* bytes of a message, IBTA vol 1, 9.7.7 */

enum ohca_xp_on { OHCA_XP_OFF, OHCA_XP_ACTIVE, OHCA_XP_WAIT, OHCA_XP_WAIT_FAULT };

/* kind of the message being received */
enum ohca_rx_op { OHCA_RX_NONE, OHCA_RX_SEND, OHCA_RX_WRITE };

/**
 * struct ohca_xp_sched - the scheduler's part of a QP: its list, its timers, its path
 * @link: in a list of the scheduler
 * @timer: deadline, ns; its key in the heap may be earlier
 * @heap: position in the heap of timers + 1; 0: not in the heap
 * @path_gen: sched->gen of the port when @path was resolved
 * @on: enum ohca_xp_on
 * @lane: its list while it is active; does not change while it is on the list
 * @home: the lane of its packets, as far as is known
 * @empty: steps since its last packet
 * @resp_last: the last packet was a response
 * @armed: all WQEs were sent, and the next one rings a doorbell: until then the requester has
 *	nothing to do, unless it must repeat packets
 * @answers: the responder may have something to send. It is here, like @armed, so that a turn of
 *	the requester does not access the responder's cache line, and vice versa
 * @rto_restart: the next turn restarts the ACK timer
 * @path_ok: @path matches the attributes of the QP
 * @req_fault: the requester found no slot for a page fault, so a doorbell does not activate the QP
 * @path: the resolved path
 * @fault_gen: sched->fault_gen when the QP found no slot for a page fault
 * @paced_gen: congestion[].gen when @paced was set
 * @paced: time, ns, when the next packet may leave at its static rate, or after the delay by
 *	congestion control
 * @flow: its CCTI, if each QP has one
 * @due: in sched->paced
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
 * @win: window; NULL: no WQE is in it
 * @pi: producer index as last read; @got: copied up to here; @head: parsed up to here
 * @cur: WQE whose packets are sent next; @tail: oldest WQE that is not completed
 * @una: oldest PSN that is not acknowledged; @nxt: next PSN to send; @max: one past the highest PSN
 *	sent
 * @ssn: SSN of the last request; @lsn: limit sequence number that the responder has granted
 * @rd_out: READs and atomics that have begun and are not completed
 * @since_ackreq: packets since the last one with AckReq
 * @retry_left, @rnr_left: retries that are left
 * @rnr_wait: the requester waits for the RNR timer
 * @restarted: it has gone back; further reports of the same loss are ignored
 * @bad_pi: the record has an invalid index
 * @credits: the responder grants credits, and @lsn is valid
 * @asking: the next request may be beyond @lsn
 * @apart: packets of the last request that began may arrive in any order (ohca_swqe.apart)
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
 * @epsn: expected PSN; @msn: completed messages
 * @rx_off: received bytes of the current message
 * @wr_va, @wr_rkey, @wr_len: RETH of the WRITE in progress
 * @rwqe: receive WQE of the message in progress, or kept for the next one
 * @rd: responses that must be sent, from @rd_head on; @rd_num: how many, at most max_dest_rd_atomic
 * @rx_op: enum ohca_rx_op
 * @comm_est: COMM_EST was raised, or need not be
 * @ack_due: an ACK must be sent
 * @nak_due: a NAK with @nak_syn and @nak_psn must be sent
 * @nak_sent: further losses are not reported
 * @closing: the QP is in ERR, but responses, an ACK or a NAK still leave
 * @uc_skip: UC: packets up to the next first packet are dropped
 * @fault_rkey: the page fault of OHCA_FAULT_RECV is in memory of an R_Key
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
 * A packet needs the first two cache lines, up to the LRH of the path, and the cache line of the
 * requester or that of the responder.
 * @rndv: rendezvous of a QP with an SRQ with tags; else NULL
 * @ahead: early packets; NULL: there are none
 * @event, @sq_ci: event index and consumer index that were last written to the record
 * @fault: outstanding page faults by enum ohca_fault_side: references, or 0
 * @drain_told: SQ_DRAINED was raised, or need not be
 * @rq_first: the last flush began with the RQ
 * @flush_sqe: in RTS: WQEs up to @flush_end were posted in SQE, and are flushed
 * @reserved: the memory that the QP needs while it is busy is reserved from the budget
 * @at: results of the last atomics, a ring of @at_cap entries, the last at @at_pos
 */
struct ohca_xport {
	_Alignas(OHCA_CACHE_LINE)
	struct ohca_qp *qp;
	struct ohca_rndv *rndv;
	struct ohca_ahead *ahead;
	uint32_t event, sq_ci;
	uint16_t fault[OHCA_FAULT_SIDES];
	bool drain_told;
	bool rq_first;
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

/* The transport's part of @qp, which follows @qp in memory; does not read @qp. */
static inline struct ohca_xport *ohca_xp_of(const struct ohca_qp *qp)
{
	return (struct ohca_xport *)(uintptr_t)(qp + 1);
}

/* Bits of the transport service in the opcodes of a connected QP. */
static inline uint8_t ohca_qp_trans(const struct ohca_qp *qp)
{
	return qp->type == OHCA_QPT_RC ? IB_TRANS_RC :
	       qp->type == OHCA_QPT_UC ? IB_TRANS_UC : IB_TRANS_XRC;
}

static inline uint32_t ohca_qp_mtu(const struct ohca_qp *qp)
{
	return 128u << qp->path_mtu;
}

/* Number of packets of a message of @len bytes; an empty message has one. */
static inline uint32_t ohca_npkts(const struct ohca_qp *qp, uint32_t len)
{
	unsigned int shift = 7u + qp->path_mtu;

	return len ? (uint32_t)(((uint64_t)len + (1u << shift) - 1) >> shift) : 1;
}

#endif /* OHCA_TRANSPORT_XPORT_H */
