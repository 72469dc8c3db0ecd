/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two processes with RC QPs on all rails, and a TCP connection beside them: what transports that
 * move blocks have in common. A rail that fails is fenced on both sides, and is connected anew when
 * the ports at both ends are ACTIVE. What went by it meanwhile is the pattern's business: slices.c,
 * lists.c, blocks.c.
 *
 * Who sees an error on a rail moves its QPs to ERR, takes all completions, resets the QPs and says
 * FENCE with a new epoch. The peer does the same, and answers. Nothing that was sent by the old QPs
 * can arrive then on either side. When its port is ACTIVE each side says READY; who has said and
 * heard it connects.
 */
#ifndef SESSION_H
#define SESSION_H

#include "hca.h"
#include "rounds.h"

#define SESSION_QPS	8u	/* of a rail, at most */
#define SESSION_WORDS	5u

/* In wr_id: a receive; a send that makes no completion unless it fails, before one that does */
#define SESSION_RECV	(1ull << 63)
#define SESSION_QUIET	(1ull << 62)

struct session;

/**
 * struct pattern - how a transport uses the rails
 * @name: of the files of rounds_tell()
 * @qps: RC QPs on each rail
 * @own_cqs: each QP has a CQ of its own; else there is one for each rail
 * @grh: QPs have a GRH beside the LID
 * @all: a rail that fails takes the others along
 * @open: memory, before anything is connected
 * @connected: receives can be posted, and then sends; NULL: there are none
 * @completed: of a WQE that is not %SESSION_QUIET, whether it was done or not
 * @fenced: what was sent by this rail and has not completed will not arrive any more
 * @told: words of the peer's pattern, by TCP; NULL: there are none
 * @round: of the client: moves @len bytes, and compares them; @number: of this round
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
 * @sends, @recvs: WQEs of a QP whose completion is to come
 * @epoch: how often it was made anew; @peer_epoch: the last that the peer has told
 * @up: connected; @fenced: not, and on neither side is anything left of what was sent before
 * @said, @heard: READY
 * @next: ms, when to look at the port again
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
 * @client: the side that asks for rounds
 * @begun: ms, this round; @over: the other side has no more to say
 * @lost, @healed: rails that failed, and came back; @done: WQEs that were signaled and done
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

/** session_swap - @n words of both sides, before the first round */
void session_swap(struct session *s, const uint64_t *mine, uint64_t *theirs, size_t n);

/** session_tell - words for the peer's &pattern.told; @word[0] is of the pattern */
void session_tell(struct session *s, const uint64_t word[SESSION_WORDS]);

/** session_room - how many sends a QP can take; 0 if its rail is not up */
unsigned int session_room(const struct session *s, unsigned int r, unsigned int q);

/** session_send - a chain of WQEs, all signaled but those that are %SESSION_QUIET */
void session_send(struct session *s, unsigned int r, unsigned int q, struct ibv_send_wr *wr);

/** session_recv - one receive; %SESSION_RECV is added to its wr_id */
void session_recv(struct session *s, unsigned int r, unsigned int q, struct ibv_recv_wr *wr);

/** session_wait - completions, messages, rails that fail and come back; sleeps if there is none */
void session_wait(struct session *s);

/** session_main - a client (@host) or a server; for 0 s the client takes each size once */
void session_main(const struct pattern *is, double seconds, const char *host);

#endif
