/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Links between the ranks of a collective, as NCCL's transport for InfiniBand uses them, with
 * several RC QPs on each rail. The receiver sends the address for the next message by RDMA WRITE
 * (clear to send). The sender WRITEs the message there and notifies by immediate data. When a rail
 * fails, its parts of messages are sent on the other one, and UC QPs detect that the rail works
 * again.
 */
#ifndef RAIL_H
#define RAIL_H

#include "hca.h"

#define RAILS		HCA_RAILS
#define RAIL_QPS	2u		/* RC QPs of a link on each rail */
#define PARTS		(RAILS * RAIL_QPS)
#define SLOTS		8u		/* outstanding messages of a direction */
#define SLICE		(512u << 10)	/* bytes of a message, at most */
#define SPLIT		8192u		/* a longer message is split into PARTS */
#define UC_RECVS	32u

/**
 * struct rail - an adapter of this process, in addition to &struct hca
 * @self: QP that is connected to itself, whose READ flushes WRITEs of others
 */
struct rail {
	struct ibv_cq *self_cq;
	struct ibv_qp *self;
	struct ibv_mr *read_mr;
	uint8_t read[8];
};

/**
 * struct lane - a link on one rail
 * @sends, @recvs: WQEs with outstanding completions; unsignaled WQEs do not count
 * @epoch: number of its connections
 * @up: its RC QPs are connected
 * @fenced: @up is false, and no earlier packet can arrive on either side
 * @next: ms, time of the next ALIVE
 * @lid, @gid, @qpn, @uc_qpn: of the peer
 * @uc_sends: outstanding sends of @uc; @uc_turn: all that were posted
 */
struct lane {
	struct ibv_cq *cq, *uc_cq;
	struct ibv_qp *qp[RAIL_QPS], *uc;
	struct ibv_mr *uc_mr;
	uint64_t (*uc_buf)[32];
	uint32_t sends, recvs, epoch, uc_sends, uc_turn;
	bool up, fenced;
	int64_t next;
	uint16_t lid;
	union ibv_gid gid;
	uint32_t qpn[RAIL_QPS], uc_qpn;
};

/**
 * struct out - a message to send
 * @todo, @flying, @unsure: bits of parts: to be posted, posted, on a rail that failed
 * @parts: number of parts; 0: the slot is free
 */
struct out {
	uint64_t seq;
	const uint8_t *buf;
	struct ibv_mr **mr;
	uint32_t len, parts, todo, flying[RAILS], unsure[RAILS];
};

enum { CTS_TODO, CTS_FLYING, CTS_UNSURE, CTS_DONE };

/** struct in - a message to receive; @got: bits of parts; @parts: their number, 0: none received */
struct in {
	uint64_t seq;
	uint32_t got, parts, cts, cts_rail;
};

/** struct cts - address for a message, in big-endian words */
struct cts {
	uint64_t addr, rkey[RAILS], seq;
};

/** struct link - a connection to another rank */
struct link {
	int peer, sock;
	struct lane lane[RAILS];
	struct out out[SLOTS];
	struct in in[SLOTS];
	uint64_t next_out, next_in;
	volatile struct cts *fifo;	/* written by the peer */
	uint8_t *stage;			/* of SLOTS slices */
	struct ibv_mr *fifo_mr[RAILS], *stage_mr[RAILS];
	uint64_t peer_fifo;
	uint32_t peer_fifo_rkey[RAILS];
};

/**
 * struct rails - all links of this process
 * @flusher: the rail whose READ succeeded last
 * @lost, @healed: lanes that failed, and that were connected again
 */
struct rails {
	unsigned int n, nlinks, flusher;
	int rank;
	struct hca hca[RAILS];
	struct rail rail[RAILS];
	struct link *link[8];
	uint64_t lost, healed, reads, parts, splits;
};

/** rails_open - opens the first adapters, RAILS at most */
void rails_open(struct rails *rs, int rank);

/** rails_reg - registers memory for all rails, by ibv_reg_mr_iova2() with relaxed ordering */
void rails_reg(struct rails *rs, void *buf, size_t len, struct ibv_mr *mr[RAILS]);

/** rails_link - creates a link over a TCP connection to @peer; both sides call it */
struct link *rails_link(struct rails *rs, int peer, int sock);

/** rails_poll - handles all completions; true if there were any */
bool rails_poll(struct rails *rs);

/** rails_wait - rails_poll(); after some idle calls it sleeps until an event */
void rails_wait(struct rails *rs);

/** link_can_send - whether link_send() may be called */
bool link_can_send(const struct link *l);

/** link_send - sends @len bytes at @buf, registered by @mr, which must stay until link_idle() */
void link_send(struct rails *rs, struct link *l, const uint8_t *buf, uint32_t len,
	       struct ibv_mr *mr[RAILS]);

/** link_idle - whether all sent messages have arrived */
bool link_idle(const struct link *l);

/** link_ready - the next message if it is complete; else NULL */
const uint8_t *link_ready(struct rails *rs, struct link *l);

/** link_take - frees the message that link_ready() returned */
void link_take(struct rails *rs, struct link *l);

/** rails_dump - prints the state of all links, after a failure */
void rails_dump(const struct rails *rs);

/* wr_id: kind, sequence number of the message, part or QP; MORE is the first WQE of two */
enum { RAIL_MORE = 1, RAIL_PART, RAIL_CTS, RAIL_RECV };

#define RAIL_WR(kind, seq, part)	((uint64_t)(kind) << 56 | (uint64_t)(seq) << 8 | (part))

/* of rail.c, for rail_heal.c */
void recv_one(struct lane *n, unsigned int q);
void link_push(struct rails *rs, struct link *l);
void lane_connect(struct link *l, unsigned int r);

/* of rail_heal.c, for rail.c */
void uc_recvs(struct lane *n);

/** allreduce_main - one rank of several: sums over rings and trees */
void allreduce_main(double seconds, int rank, int ranks);

#endif
