/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The transport half's own state: what hangs off a QP, the scheduler, paths.
 *
 * sched.c	who may send now: active QPs, credit waits, timers, looped packets
 * tx.c		paths, the wire, management datagrams
 * rx.c		frames in, checks, dispatch
 * sq.c		send WQEs: fetch, parse, complete, flush
 * req.c	requester of RC and UC; comp.c its responses and timeouts (RC)
 * resp.c	responder of RC and UC
 * ud.c		datagrams
 * tagged.c	messages for an SRQ with tags, rendezvous
 * suspend.c	who waits for a page
 * persist.c	FLUSH for persistence, which the host does
 *
 * Receiving never sends: it changes state and activates the QP, and the scheduler builds
 * the packets when there are credits for them. All of it is called by the owner only.
 */
#ifndef OHCA_ENGINE_TRANSPORT_H
#define OHCA_ENGINE_TRANSPORT_H

#include "internal.h"
#include "../ib/rate.h"
#include "../ib/vl.h"

#define OHCA_REQ_WINDOW		2048u	/* packets in flight of one QP */
#define OHCA_ACK_EVERY		32u	/* packets without AckReq at most */
#define OHCA_READ_CHUNK		65536u	/* response packets one READ request asks for */
#define OHCA_MAX_PSNS		((1u << 23) - 1) /* PSNs under way: it is known which is older */
#define OHCA_MAX_MSG		(1u << 31)	/* bytes of a message, IBTA vol 1, 9.7.7 */
#define OHCA_MIN_RTO_NS		16000000ull	/* hosts stall threads for milliseconds */
#define OHCA_FAULT_RNR_TIMER	12u	/* code; 0.64 ms, within which a page is often there */
#define OHCA_FAULT_RETRY_NS	1000000ull
#define OHCA_QUANTUM		16u	/* packets of one QP before the next has its turn */
#define OHCA_LANES		(OHCA_MAX_PORTS * 16u)	/* see ohca_lane() */
#define OHCA_LANE_ANY		OHCA_LANES
/* A QP with a static rate may be ahead of it by what it has not sent in so many ns: less is
 * not to be had from a thread that sleeps meanwhile. */
#define OHCA_PACE_NS		200000u

#define OHCA_LOOP_SLOTS		64u	/* power of two */
#define OHCA_SLOT_SIZE		4352u	/* at least IB_MAX_PKT_LEN */
#define OHCA_MADQ_SLOTS		32u	/* power of two */
#define OHCA_POOL_KEEP		256u	/* of each kind, when QPs are idle again */
#define OHCA_LATE_ACKS		64u	/* power of two */
#define OHCA_RD_RING		128u	/* power of two; most that max_dest_rd_atomic may be */
#define OHCA_MIN_LOG_WIN	4u
#define OHCA_MAX_LOG_WIN	8u
_Static_assert(OHCA_SLOT_SIZE >= IB_MAX_PKT_LEN, "a slot holds any packet");
_Static_assert((1u << OHCA_MIN_LOG_WIN) > OHCA_MAX_WQE_BBS, "a window holds any WQE");

/* values of enum ibv_wc_status */
enum ohca_wc_status {
	OHCA_WC_SUCCESS		= 0,
	OHCA_WC_LOC_LEN		= 1,
	OHCA_WC_LOC_QP_OP	= 2,
	OHCA_WC_LOC_PROT	= 4,
	OHCA_WC_WR_FLUSH	= 5,
	OHCA_WC_MW_BIND		= 6,
	OHCA_WC_BAD_RESP	= 7,
	OHCA_WC_LOC_ACCESS	= 8,
	OHCA_WC_REM_INV_REQ	= 9,
	OHCA_WC_REM_ACCESS	= 10,
	OHCA_WC_REM_OP		= 11,
	OHCA_WC_RETRY_EXC	= 12,
	OHCA_WC_RNR_RETRY_EXC	= 13,
	OHCA_WC_REM_ABORT	= 16,
	OHCA_WC_TM_ERR		= 22,
	OHCA_WC_TM_RNDV_INCOMPLETE = 23,
};

/* values of enum ibv_wc_opcode; REG_MR is the kernel's alone */
enum ohca_wc_opcode {
	OHCA_WCO_SEND		= 0,
	OHCA_WCO_RDMA_WRITE	= 1,
	OHCA_WCO_RDMA_READ	= 2,
	OHCA_WCO_CMP_SWAP	= 3,
	OHCA_WCO_FETCH_ADD	= 4,
	OHCA_WCO_BIND_MW	= 5,
	OHCA_WCO_LOCAL_INV	= 6,
	OHCA_WCO_TSO		= 7,
	OHCA_WCO_FLUSH		= 8,
	OHCA_WCO_ATOMIC_WRITE	= 9,
	OHCA_WCO_REG_MR		= 10,
	OHCA_WCO_MASKED_CMP_SWAP = 11,	/* the kernel's, too */
	OHCA_WCO_MASKED_FETCH_ADD = 12,
	OHCA_WCO_RECV		= 128,
	OHCA_WCO_RECV_IMM	= 129,
	OHCA_WCO_TM_ADD		= 130,
	OHCA_WCO_TM_DEL		= 131,
	OHCA_WCO_TM_SYNC	= 132,
	OHCA_WCO_TM_RECV	= 133,
	OHCA_WCO_TM_NO_TAG	= 134,
};

#define OHCA_WCF_GRH		1u
#define OHCA_WCF_WITH_IMM	2u
#define OHCA_WCF_IP_CSUM_OK	4u
#define OHCA_WCF_WITH_INV	8u
#define OHCA_WCF_TM_SYNC_REQ	16u
#define OHCA_WCF_TM_MATCH	32u
#define OHCA_WCF_TM_DATA_VALID	64u

/* ---- paths and the wire: tx.c ---------------------------------------------------- */

enum ohca_tx_kind {
	OHCA_TX_WIRE,
	OHCA_TX_LOOP,		/* to this port itself */
	OHCA_TX_DISCARD,	/* the port cannot send it: counted, gone */
};

/**
 * struct ohca_path - where packets go, resolved against the port's tables
 * @kind: enum ohca_tx_kind
 * @hdr_len: bytes of @hdr that count: 8 without, 48 with GRH
 * @pkey: to put into the BTH
 * @pace: static rate, if it is less than the port's: ps for a byte; 0: as fast as it goes
 * @hdr: LRH and GRH; lengths are filled in per packet
 */
struct ohca_path {
	uint8_t port, vl, kind, hdr_len;
	bool mcast;
	uint16_t pkey, pace;
	uint8_t hdr[IB_LRH_LEN + IB_GRH_LEN];
};

/**
 * struct ohca_tx - a packet being built
 * @buf: from the LRH on; @len: LRH..ICRC
 * @lost: on VL15, and the peer has no room for it
 * @too_long: for the MTU of the port
 */
struct ohca_tx {
	uint8_t *buf;
	uint32_t len;
	uint16_t pace;
	uint8_t port, vl, sl, kind;
	bool mcast, loop_copy, too_long, lost;
};

/*
 * Resolve @av as seen from @port. @pkey_index is ignored with @vl15 (P_Key 0xffff then).
 * 0, or enum ohca_vendor_err if the AV is not usable. A path that is usable but leads
 * nowhere now (port not Active, SL without VL, P_Key invalid) is of kind DISCARD.
 * @pkey: of the table, CPU order; on VL15 the default P_Key is sent
 */
int ohca_path_resolve(ohca_engine *e, unsigned int port, const struct ohca_hw_av *av,
		      uint16_t pkey, bool vl15, struct ohca_path *p);
/* The QP's own path (RC, UC), resolved again if the port changed. */
const struct ohca_path *ohca_qp_path(ohca_engine *e, struct ohca_qp *qp);
/*
 * Room for a packet of @len bytes, LRH to ICRC field. Fills in LRH and GRH and zeroes the
 * ICRC field. False: no credits; sched->blocked says on which list to wait.
 */
bool ohca_tx_open(ohca_engine *e, const struct ohca_path *p, uint32_t len, struct ohca_tx *tx);
/* Send it. A packet that is opened and not closed is forgotten. */
void ohca_tx_close(ohca_engine *e, struct ohca_tx *tx);
static inline void ohca_tx_close_qp(ohca_engine *e, const struct ohca_qp *qp, struct ohca_tx *tx)
{
	ohca_tx_close(e, tx);
	if (tx->kind != OHCA_TX_DISCARD)
		ohca_count_set(e, qp, OHCA_CNT_TX_PKTS);
}

/** struct ohca_ack - an ACK or NAK, with all that it needs of its QP */
struct ohca_ack {
	struct ohca_path path;
	uint32_t dqpn, psn, msn;
	uint8_t opcode, syndrome, migreq;
};

/* Send it. False: no credits; sched->blocked says on which list to wait. */
bool ohca_ack_out(ohca_engine *e, const struct ohca_ack *a);
/*
 * Keep it for a QP that is gone until there are credits. Bounded; the oldest is dropped and
 * counted as discarded.
 */
void ohca_ack_later(ohca_engine *e, const struct ohca_ack *a);
/* Send what ohca_ack_later() and ohca_mad_send() queued, as far as there are credits. */
void ohca_madq_run(ohca_engine *e);

/* ---- send queue: sq.c ------------------------------------------------------------- */

enum ohca_swqe_state {
	OHCA_SW_NEW,		/* parsed, not begun */
	OHCA_SW_BEGUN,		/* has PSNs, packets are being sent */
	OHCA_SW_SENT,		/* every packet sent at least once */
	OHCA_SW_DONE,		/* waits for its turn to complete */
};

/**
 * struct ohca_swqe - a send WQE, private copy
 * @first, @last: PSNs, once begun; of a READ: those of the responses; of TSO: packets
 *	and bytes of data sent
 * @srqn: XRC SRQ it is for (XRC_INI)
 * @ssn: number of its (last) request, once begun (RC)
 * @idx: free running index of its first BB
 * @data: byte offset of SGEs or inline data in the copied WQE
 * @status, @ve: it has failed, and completes so when its turn comes
 * @imm: as in the packet (ImmDt: raw big-endian; IETH: CPU order)
 */
struct ohca_swqe {
	uint64_t wr_id;
	uint64_t raddr;
	uint32_t rkey;
	uint32_t length;
	uint32_t first, last;
	uint32_t idx;
	uint32_t imm;
	union {
		uint32_t srqn;
		uint32_t ssn;
	};
	uint16_t flags;
	uint8_t op, nbb;
	uint8_t num_sge, data;
	uint8_t state, status;
	uint16_t ve;
};

/**
 * struct ohca_sqwin - window of a send queue: WQEs fetched and not yet completed
 *
 * WQE and BB with free running index i are at i & mask. The first BBs are mirrored
 * behind the last, so that a WQE that wraps lies in one piece.
 */
struct ohca_sqwin {
	struct ohca_sqwin *next;	/* free list */
	uint32_t mask;
	uint8_t log;
	struct ohca_swqe *wqe;
	uint8_t *bb;
};

/**
 * struct ohca_rd - a READ or atomic response to be sent
 * @srqn: XRC SRQ whose PD the key must be of (XRC_TGT)
 * @dup: all of it was sent before; it makes room for a new request
 */
struct ohca_rd {
	uint64_t va;
	uint64_t orig;		/* atomic: value before */
	uint32_t rkey, length;
	uint32_t first, next, last;
	uint32_t msn;
	uint32_t srqn;
	bool atomic, dup;
};

/** struct ohca_rdring - responses to be sent; a QP has one only while it has some */
struct ohca_rdring {
	struct ohca_rdring *next;	/* free list */
	struct ohca_rd rd[OHCA_RD_RING];
};

/** struct ohca_atomic_res - result of an executed atomic, for duplicates */
struct ohca_atomic_res {
	uint64_t orig;
	uint32_t psn;
	bool valid;
};

/**
 * struct ohca_rndv - rendezvous of a QP of an SRQ with tags
 * @list: tags taken whose data is to be read or being read, in order
 * @next: the first that is to be read; NULL: none
 * @reads: READs in the window
 */
struct ohca_rndv {
	struct ohca_list list;
	struct ohca_tag *next;
	uint32_t reads;
};

enum ohca_xp_on { OHCA_XP_OFF, OHCA_XP_ACTIVE, OHCA_XP_WAIT };

/* kind of the message being received */
enum ohca_rx_op { OHCA_RX_NONE, OHCA_RX_SEND, OHCA_RX_WRITE };

/**
 * struct ohca_xport - transport state of a QP
 *
 * SQ indices count BBs and run free: tail <= cur <= head <= got <= pi.
 * @pi: producer index last seen; @got: copied up to here; @head: parsed up to here
 * @cur: WQE whose packets are sent next; @tail: oldest WQE not completed
 * @event: event index last written to the doorbell record
 * @una: oldest PSN not acknowledged; @nxt: next to send; @max: one past the highest sent
 * @rd_out: READs and atomics begun and not completed
 * @ssn: requests begun; @lsn: up to which the responder can execute them, as it has said
 * @credits: @lsn counts: the responder has not said that it has no credits to give
 * @asking: what is sent next may be beyond @lsn
 * @rnr_wait: nothing is sent until the timer says so
 * @restarted: went back already; further signs of the same loss are ignored
 * @rd_num: responses in @rd, at most max_dest_rd_atomic; @at: results of the last atomics
 * @epsn: PSN expected; @rx_off: bytes of the current message received
 * @fault: what waits for a page, by enum ohca_fault_side: reference of its fault, or 0
 * @fault_rkey: that of OHCA_FAULT_RECV is of memory that the requester named
 * @nak_due: send @nak_syn with @nak_psn; @nak_sent: further losses are not reported
 * @rndv: of a QP of an SRQ with tags: what there is in place of a send queue; else NULL
 * @closing: in ERR, but responses, an ACK or a NAK still leave
 */
struct ohca_xport {
	struct ohca_list link;
	struct ohca_qp *qp;
	uint64_t timer, heap_key;
	uint64_t paced;			/* when all it has sent is through, at its static rate */
	uint32_t heap;			/* position + 1; 0: not in the heap */
	uint8_t on;
	uint8_t lane;			/* its list while it is active; stays while it is on it */
	bool resp_last;			/* the last packet was a response */
	uint8_t rx_op;
	bool path_ok;
	uint32_t path_gen;
	struct ohca_path path;

	struct ohca_sqwin *win;
	uint32_t pi, got, head, cur, tail, event;
	uint32_t sq_ci;			/* as last written to the record */

	uint32_t una, nxt, max;
	uint32_t ssn, lsn;
	uint16_t rd_out, since_ackreq;
	uint8_t retry_left, rnr_left;
	bool rnr_wait, restarted, rto_restart, drain_told, bad_pi, credits, asking;

	bool comm_est, ack_due, nak_due, nak_sent, closing, uc_skip, fault_rkey;
	uint8_t nak_syn;
	uint32_t nak_psn;
	uint32_t epsn, msn;
	uint32_t rx_off;
	uint16_t fault[OHCA_FAULT_SIDES];
	uint32_t wr_rkey, wr_len;
	uint64_t wr_va;
	struct ohca_rwqe *rwqe;
	struct ohca_rndv *rndv;

	struct ohca_rdring *rd;
	struct ohca_atomic_res *at;	/* ring of at_cap */
	uint8_t at_cap, at_pos, rd_head, rd_num;
};
_Static_assert(sizeof(struct ohca_qp) + sizeof(struct ohca_xport) +
	       16 * sizeof(struct ohca_atomic_res) <= 1024 - 64,
	       "an idle QP costs at most 1 KiB, malloc's own included");

/* A WQE in the window. */
static inline struct ohca_swqe *ohca_swqe_at(const struct ohca_xport *xp, uint32_t idx)
{
	return &xp->win->wqe[idx & xp->win->mask];
}

static inline uint8_t *ohca_swqe_raw(const struct ohca_xport *xp, uint32_t idx)
{
	return xp->win->bb + ((size_t)(idx & xp->win->mask) << OHCA_BB_SHIFT);
}

/* SGEs of a parsed WQE, in CPU order. */
static inline const struct ohca_sge *ohca_swqe_sge(const struct ohca_xport *xp,
						   const struct ohca_swqe *w)
{
	return (const struct ohca_sge *)(const void *)(ohca_swqe_raw(xp, w->idx) + w->data);
}

/* Fill @dst with @len bytes from @off of the message. 0 or enum ohca_vendor_err. */
int ohca_swqe_gather(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w, uint32_t off,
		     void *dst, uint32_t len);
/* The WQE at xp->cur, fetched and parsed as needed; NULL: none, or the window is full. */
struct ohca_swqe *ohca_sq_next(ohca_engine *e, struct ohca_qp *qp);
/* Complete the WQE at the tail: CQE if one is due, consumer index, window. */
void ohca_sq_complete(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, uint8_t status,
		      uint16_t ve);
/* Publish the consumer index if WQEs without CQE completed. */
void ohca_sq_ci(ohca_engine *e, struct ohca_qp *qp);
/* Fail the WQE at the tail: its CQE, then ERR (RC) or SQE. */
void ohca_sq_fail(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w, uint8_t status,
		  uint16_t ve);
/* Execute a WQE that sends nothing; afterwards it is DONE or has failed. */
void ohca_sq_local(ohca_engine *e, struct ohca_qp *qp, struct ohca_swqe *w);
static inline bool ohca_op_is_local(uint8_t op)
{
	return op == OHCA_OP_LOCAL_INV || op == OHCA_OP_BIND_MW || op == OHCA_OP_REG_MR ||
	       op == OHCA_OP_NOP;
}
static inline bool ohca_op_is_masked(uint8_t op)
{
	return op == OHCA_OP_MASKED_CMP_SWAP || op == OHCA_OP_MASKED_FETCH_ADD;
}
static inline bool ohca_op_is_atomic(uint8_t op)
{
	return op == OHCA_OP_CMP_SWAP || op == OHCA_OP_FETCH_ADD || ohca_op_is_masked(op);
}
/* Operations that wait for a response of their own (IBTA vol 1, 9.7.5 and annex A19.4). */
static inline bool ohca_op_is_read(uint8_t op)
{
	return op == OHCA_OP_RDMA_READ || ohca_op_is_atomic(op) || op == OHCA_OP_FLUSH ||
	       op == OHCA_OP_ATOMIC_WRITE;
}
/* Operations that need a receive WQE. */
static inline bool ohca_op_takes_wqe(uint8_t op)
{
	return op == OHCA_OP_SEND || op == OHCA_OP_SEND_IMM || op == OHCA_OP_SEND_INV ||
	       op == OHCA_OP_RDMA_WRITE_IMM;
}
/* Flush up to *@quantum WQEs; false: none is left. */
bool ohca_sq_flush(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum);
/*
 * Nothing to do: ask for a doorbell and look once more. True: the queue is idle, the
 * window is given back; false: there is more.
 */
bool ohca_sq_idle(ohca_engine *e, struct ohca_qp *qp);
/* In SQD: raise SQ_DRAINED once when nothing is outstanding. */
void ohca_sq_drained(ohca_engine *e, struct ohca_qp *qp);
void ohca_sq_reset(ohca_engine *e, struct ohca_xport *xp);

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

/* ---- SRQs with tags: tagged.c ------------------------------------------------------- */

int ohca_tagged_create(ohca_engine *e, struct ohca_qp *qp);	/* 0 or -1 (memory) */
/* Forget what is under way; tags that were taken are given back as flushed. */
void ohca_tagged_reset(ohca_engine *e, struct ohca_xport *xp);
struct ohca_rxpkt;
/* The buffer of the message that @p begins, as ohca_rwqe_take(). */
int ohca_tagged_take(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p,
		     struct ohca_rwqe *r);
/* Tell of the match while data is still to come. -1: the CQ has no room */
int ohca_tagged_match(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r);
/* Have read what the message that has taken @r asks for. -1: the CQ has no room */
int ohca_tagged_read(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r);
/* Fill in the CQE of @r's receive, which ends here. */
void ohca_tagged_cqe(struct ohca_qp *qp, struct ohca_rwqe *r, uint8_t status,
		     struct ohca_hw_cqe *c);
/* The next send WQE, made here; NULL: none, or there is no room. */
struct ohca_swqe *ohca_tagged_next(ohca_engine *e, struct ohca_qp *qp);
/* Such a WQE is complete. */
void ohca_tagged_sent(ohca_engine *e, struct ohca_qp *qp, const struct ohca_swqe *w,
		      uint8_t status, uint16_t ve);

/* ---- senders: each sends one packet ------------------------------------------------- */

enum ohca_sent {
	OHCA_SENT_NONE,		/* nothing to send now */
	OHCA_SENT,		/* one packet, or work like it */
	OHCA_SENT_BLOCKED,	/* no credits: wait on sched->blocked */
};

enum ohca_sent ohca_req_send(ohca_engine *e, struct ohca_qp *qp);	/* RC, UC */
enum ohca_sent ohca_ud_send(ohca_engine *e, struct ohca_qp *qp);	/* UD, SMI, GSI */
enum ohca_sent ohca_resp_send(ohca_engine *e, struct ohca_qp *qp);	/* RC */
static inline bool ohca_resp_pending(const struct ohca_xport *xp)
{
	return xp->rd_num || xp->nak_due || xp->ack_due;
}

/* ---- receivers ----------------------------------------------------------------------- */

/**
 * struct ohca_rxpkt - a packet in reception
 * @hdr: private copy of the headers; @i: decoded from it
 * @payload: in the frame, may change under our hands
 */
struct ohca_rxpkt {
	struct ib_pkt_info i;
	const uint8_t *hdr;
	const uint8_t *payload;
	uint8_t port;
	bool loop;
};

void ohca_rx_packet(ohca_engine *e, unsigned int port, const uint8_t *frame, uint32_t len,
		    bool icrc_valid, bool loop);
void ohca_rx_drop(ohca_engine *e, const struct ohca_rxpkt *p, enum ohca_counter why);
/*
 * Whether the GRH of a packet to a unicast LID, if it has one, is addressed to a GID of @port. A
 * packet for another port's GID that came here is dropped without a word (9.6.1.2).
 */
bool ohca_rx_dgid_ok(const struct ohca_port *port, const struct ohca_rxpkt *p);
void ohca_rx_bad_pkey(ohca_engine *e, const struct ohca_rxpkt *p);
void ohca_rx_bad_qkey(ohca_engine *e, const struct ohca_rxpkt *p, uint32_t qkey);
void ohca_resp_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
void ohca_uc_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
void ohca_comp_rx(ohca_engine *e, struct ohca_qp *qp, const struct ohca_rxpkt *p);
void ohca_ud_rx(ohca_engine *e, const struct ohca_rxpkt *p);

/* comp.c: the QP's timer is due */
void ohca_comp_timer(ohca_engine *e, struct ohca_qp *qp);
/* comp.c: go back to the oldest PSN not acknowledged */
void ohca_req_restart(struct ohca_xport *xp);
/* comp.c: complete what is acknowledged, in order */
void ohca_sq_retire(ohca_engine *e, struct ohca_qp *qp);
static inline uint64_t ohca_rto_ns(const struct ohca_qp *qp)
{
	/* a timeout may take up to four times the code's value (IBTA vol 1, 9.7.6.1.3) */
	uint64_t t = 4 * ib_time_ns(qp->timeout);

	return t < OHCA_MIN_RTO_NS ? OHCA_MIN_RTO_NS : t;
}

/* resp.c */
/* Resources for max_dest_rd_atomic, of which the ring is only reserved; 0 or -1 */
int ohca_resp_alloc(ohca_engine *e, struct ohca_qp *qp);
void ohca_resp_free(ohca_engine *e, struct ohca_xport *xp);
/*
 * Stop responding; with @keep_closing the responses under way still leave. In ERR an ACK or
 * NAK that is due does so in any case, and the receive WQE in use is flushed, so that
 * LAST_WQE is true when it is told.
 */
void ohca_resp_reset(ohca_engine *e, struct ohca_xport *xp, bool keep_closing);
/* Complete a receive WQE. @p: NULL for a flush */
void ohca_recv_complete(ohca_engine *e, struct ohca_qp *qp, struct ohca_rwqe *r,
			uint8_t status, uint16_t ve, struct ohca_hw_cqe *cqe, bool solicited);
/* In ERR: flush up to *@quantum receive WQEs; false: none is left */
bool ohca_rq_flush(ohca_engine *e, struct ohca_qp *qp, unsigned int *quantum);

/* resp.c: no page is to be had for the request or the READ response that waits for it */
void ohca_resp_no_page(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side);

/* ---- waiting for pages: suspend.c ---------------------------------------------------------- */

/*
 * What @side does wants e->missing. True: the driver has been told, and ohca_xp_resume()
 * follows; false: it cannot be told now. @wqe_idx: OHCA_FAULT_REQ: the send WQE.
 */
bool ohca_suspend(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
		  uint32_t wqe_idx);
/* The same for a sender, and what it returns. */
enum ohca_sent ohca_suspend_tx(ohca_engine *e, struct ohca_qp *qp, enum ohca_fault_side side,
			       uint32_t wqe_idx);
/* It does not wait any more: what was to be done is done, or never will be. */
void ohca_suspend_forget(ohca_engine *e, struct ohca_xport *xp, enum ohca_fault_side side);
void ohca_suspend_forget_all(ohca_engine *e, struct ohca_xport *xp);

/* ---- scheduler: sched.c ---------------------------------------------------------------- */

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

/** struct ohca_lateq - acknowledgements of QPs that are gone */
struct ohca_lateq {
	struct ohca_ack ack[OHCA_LATE_ACKS];
	uint32_t head, tail;
	bool blocked;
};

/* ---- persist.c ------------------------------------------------------------------------- */

#define OHCA_PERSISTS	8u	/* that the host is at, or that wait to be asked for again */

/**
 * struct ohca_persist - a FLUSH for persistence that is under way
 * @xp: whose it is; NULL: nobody's any more
 * @psn, @rkey, @range: which FLUSH, to know it when it comes again
 * @done: bytes of @range that the host was given
 * @tag: of what the host is at, not 0; 0: it is at nothing
 * @seen_ns: when the FLUSH came last
 */
struct ohca_persist {
	const struct ohca_xport *xp;
	struct ohca_mr_range range;
	uint64_t done, tag, seen_ns;
	uint32_t psn, rkey;
};

/**
 * ohca_persist() - have the host make a range persistent; owner, in a burst of DMA
 * @xp: responder; @psn, @rkey: of its FLUSH
 * @r: from the check of @rkey, done now
 *
 * Return: true if it is; false: the same FLUSH must come again.
 */
bool ohca_persist(ohca_engine *e, const struct ohca_xport *xp, uint32_t psn, uint32_t rkey,
		  const struct ohca_mr_range *r);
/* The QP has no FLUSH under way any more; what the host is at it may end. */
void ohca_persist_forget(ohca_engine *e, const struct ohca_xport *xp);

/**
 * struct ohca_sched - scheduler
 * @active: QPs that may have something to do, in turn, by the lane they sent on last
 * @busy: bit n: active[n] is not empty
 * @port: whose lanes are served; @port_left: packets until it is the other's turn
 * @arb: arbiter that gave the turn, NULL: there was nothing to decide
 * @grant: lane on which packets may leave in this turn, or OHCA_LANE_ANY; @charge: bytes
 *	that did; @want: on which one would have
 * @turn: whose turn it is, NULL: no QP's
 * @wait_turn: stands for "when this lane has its turn", @wait_pace for "when the time comes":
 *	@paced are those who wait for that, the first until @paced_ns
 * @wait: QPs without credits, by port and VL; @wait_loop: without a free loop slot. First
 *	those that could not send anything in their last turn, then those that could
 * @refused: bit n: lane n has packets and no credits, since @refused_ns[n] as far as it is
 *	counted in PortVLXmitWait
 * @idle_ns: of a port with such lanes: when it sent last, as far as it is counted in
 *	PortXmitWait
 * @wait_fault: QPs that found too many page faults unanswered
 * @blocked: the pair of lists a sender must wait on after it got no room
 * @sent: lane on which the turn sent last, plus one; 0: on none
 * @ready: bit n: VL n had credits when it was looked at last, and QPs may wait for them
 * @heap: timers, a binary heap by heap_key; @num_xp: QPs, as many fit the heap
 * @now: time of this run
 * @gen: counts changes of the port; paths are resolved again
 * @win_free: windows to reuse, by log2 of their size; @rwqe_free: receive WQEs;
 *	@rd_free: rings of responses; in each at most OHCA_POOL_KEEP
 * @loop, @loop_len, @loop_port: looped packets, FIFO of slots
 */
struct ohca_sched {
	struct ohca_persist persist[OHCA_PERSISTS];
	uint64_t persist_tag;
	struct ohca_list active[OHCA_LANES];
	uint32_t busy;
	unsigned int port, port_left;
	struct ib_vlarb *arb;
	unsigned int grant, want;
	uint32_t charge;
	struct ohca_xport *turn;
	struct ohca_list wait[OHCA_MAX_PORTS][16][2];
	struct ohca_list wait_loop[2], wait_fault[2], wait_turn[2], wait_pace[2];
	struct ohca_list paced;
	uint64_t paced_ns;
	struct ohca_list *blocked;
	unsigned int sent;
	uint16_t ready[OHCA_MAX_PORTS];
	uint32_t refused;
	uint64_t refused_ns[OHCA_LANES];
	uint64_t idle_ns[OHCA_MAX_PORTS];
	struct ohca_xport **heap;
	uint32_t heap_num, heap_cap, num_xp;
	uint64_t now;
	uint32_t gen[OHCA_MAX_PORTS];
	struct ohca_sqwin *win_free[OHCA_MAX_LOG_WIN + 1];
	struct ohca_rwqe_slot {
		struct ohca_rwqe r;
		struct ohca_rwqe_slot *next;
	} *rwqe_free;
	struct ohca_rdring *rd_free;
	uint32_t win_num[OHCA_MAX_LOG_WIN + 1], rwqe_num, rd_num;
	struct ohca_madq madq[OHCA_MAX_PORTS][2];
	struct ohca_lateq late[OHCA_MAX_PORTS];
	uint32_t loop_head, loop_tail;
	uint32_t loop_len[OHCA_LOOP_SLOTS];
	uint8_t loop_port[OHCA_LOOP_SLOTS];
	uint8_t *loop;
	uint8_t discard[OHCA_SLOT_SIZE];
};

/* Number of a lane: its place in ohca_sched.wait. */
static inline unsigned int ohca_lane(unsigned int port, unsigned int vl)
{
	return port * 16 + vl;
}

/* There may be something to do for @xp. */
void ohca_sched_activate(ohca_engine *e, struct ohca_xport *xp);
/* Ring the timer at @t, OHCA_NO_DEADLINE stops it. */
void ohca_timer_set(ohca_engine *e, struct ohca_xport *xp, uint64_t t);
/*
 * What a QP may want at any time was reserved when it was made, so that it is to be had: the
 * smallest window, a receive WQE and, with responder resources, a ring of responses. A larger
 * window is out of what the budget has left; without that the QP makes do with the smallest.
 * NULL: the host has no memory.
 */
size_t ohca_win_bytes(unsigned int log);
struct ohca_sqwin *ohca_win_get(ohca_engine *e, unsigned int log_sq);
void ohca_win_put(ohca_engine *e, struct ohca_sqwin *w);
struct ohca_rwqe *ohca_rwqe_get(ohca_engine *e);	/* NULL: memory */
void ohca_rwqe_put(ohca_engine *e, struct ohca_rwqe *r);
struct ohca_rdring *ohca_rdring_get(ohca_engine *e);	/* NULL: memory */
void ohca_rdring_put(ohca_engine *e, struct ohca_rdring *r);

#endif /* OHCA_ENGINE_TRANSPORT_H */
