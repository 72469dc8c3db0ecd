/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two processes with RC QPs on all rails, and a TCP connection, as the common part of transports
 * that transfer blocks. A rail that fails is fenced on both sides, and is connected again when the
 * ports at both ends are ACTIVE. The pattern decides about requests on it: slices.c, lists.c,
 * blocks.c.
 *
 * After an error on a rail, a side moves its QPs to ERR, polls all completions, resets the QPs and
 * sends FENCE with a new epoch. The peer does the same, and responds. Then no packet of the old QPs
 * can arrive on either side. When its port is ACTIVE each side sends READY; a side that has sent
 * and received READY connects.
 */
#ifndef SESSION_H
#define SESSION_H

#include "hca.h"
#include "rounds.h"

#define SESSION_QPS	8u	/* maximum of a rail */
#define SESSION_WORDS	5u

/* In wr_id: a receive; a send that completes only if it fails, followed by one that completes */
#define SESSION_RECV	(1ull << 63)
#define SESSION_QUIET	(1ull << 62)

struct session;

/**
 * struct pattern - use of the rails by a transport
 * @name: of the files of rounds_tell()
 * @qps: RC QPs on each rail
 * @own_cqs: each QP has a CQ of its own; else there is one for each rail
 * @grh: QPs have a GRH in addition to the LID
 * @all: all rails fail with one
 * @open: allocates memory, before the connection
 * @connected: receives can be posted, and then sends; NULL: there are none
 * @completed: completion of a WQE that is not %SESSION_QUIET, successful or not
 * @fenced: sends of this rail that have not completed will not arrive any more
 * @told: words of the peer's pattern, by TCP; NULL: there are none
 * @round: of the client: transfers @len bytes, and compares them; @number: of this round
 */
struct pattern {
	const char *name;
	unsigned int qps;
	bool own_cqs, grh, all;
	void (*open)(struct session *s);
	void (*connected)(struct session *s, unsigned int r);
	void (*completed)(struct session *s, unsigned int r, unsigned int q,
			  const struct ibv_wc *wc);
	void (*fenced)(struct session *s, unsigned int r);
	void (*told)(struct session *s, const uint64_t *word);
	void (*round)(struct session *s, uint32_t len, uint32_t number);
};

extern const struct pattern slices, lists, blocks;

/**
 * struct session_rail - the QPs between both processes on one rail
 * @sends, @recvs: WQEs of a QP with outstanding completions
 * @epoch: number of its connections; @peer_epoch: the last one that the peer has sent
 * @up: connected; @fenced: not connected, and no earlier packet can arrive on either side
 * @said, @heard: READY was sent, was received
 * @next: ms, time of the next check of the port
 * @lid, @gid, @qpn: of the peer
 */
struct session_rail {
	struct ibv_cq *cq[SESSION_QPS];
	struct ibv_qp *qp[SESSION_QPS];
	uint32_t sends[SESSION_QPS], recvs[SESSION_QPS], epoch, peer_epoch;
	bool up, fenced, said, heard;
	int64_t next;
	uint16_t lid;
	union ibv_gid gid;
	uint32_t qpn[SESSION_QPS];
};

/**
 * struct session - one side
 * @client: the side that requests rounds
 * @begun: ms, begin of this round; @over: the other side has sent its last word
 * @lost, @healed: rails that failed, and that were connected again; @done: completed signaled WQEs
 */
struct session {
	struct peer tcp;
	const struct pattern *is;
	unsigned int n;
	struct hca hca[HCA_RAILS];
	struct session_rail rail[HCA_RAILS];
	bool client, over;
	int64_t begun;
	uint32_t rounds;
	uint64_t lost, healed, done;
};

/** session_swap - exchanges @n words before the first round */
void session_swap(struct session *s, const uint64_t *mine, uint64_t *theirs, size_t n);

/** session_tell - sends words for the peer's &pattern.told; the pattern defines @word[0] */
void session_tell(struct session *s, const uint64_t word[SESSION_WORDS]);

/** session_room - number of sends that a QP accepts; 0 if its rail is not up */
unsigned int session_room(const struct session *s, unsigned int r, unsigned int q);

/** session_send - posts a chain of WQEs, all signaled except those with %SESSION_QUIET */
void session_send(struct session *s, unsigned int r, unsigned int q, struct ibv_send_wr *wr);

/** session_recv - posts one receive; %SESSION_RECV is added to its wr_id */
void session_recv(struct session *s, unsigned int r, unsigned int q, struct ibv_recv_wr *wr);

/** session_wait - handles completions, messages and failures of rails; sleeps if there are none */
void session_wait(struct session *s);

/** session_main - a client (@host) or a server; with 0 s the client uses each size once */
void session_main(const struct pattern *is, double seconds, const char *host);

#endif
