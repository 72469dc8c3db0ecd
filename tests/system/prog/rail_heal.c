// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Completions of links, and the recovery of a lane.
 *
 * After an error on a lane, a side moves its QPs to ERR, polls all completions, and resets the QPs.
 * Then it sends ALIVE on the UC QPs of all rails, repeatedly, with a new epoch, which determines
 * the QPs' PSNs, and with the parts of messages that it has. The peer does the same and responds
 * with ACK. From then on no packet of the old QPs can arrive, so missing parts are sent on another
 * rail, once. A message over the failed rail itself shows that packets pass again: the RC QPs are
 * connected.
 */
#include "rail.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

#define ALIVE_MS	25
#define DRAIN_MS	20000
#define IDLE_POLLS	300
#define MAGIC		0x6f686361u

enum { ALIVE = 1, ACK };

/* Words of a message over UC; WORD_IN begins a pair for each slot: sequence number and parts. */
enum { WORD_KIND, WORD_RAIL, WORD_EPOCH, WORD_IN, WORDS = WORD_IN + 2 * SLOTS };

static bool lane_poll(struct rails *rs, struct link *l, unsigned int r);

/* ---- completions -------------------------------------------------------------------- */

static void part_came(struct rails *rs, struct link *l, uint32_t imm)
{
	const uint32_t seq = imm >> 6, parts = imm >> 3 & 7, part = imm & 7;
	struct in *in = &l->in[seq % SLOTS];

	if ((in->seq & 0x3ffffff) != seq || in->got >> part & 1 ||
	    (in->parts && in->parts != parts))
		fail("rank %d: part %u of %u of message %u from rank %d comes twice, or too late",
		     rs->rank, part, parts, seq, l->peer);
	in->parts = parts;
	in->got |= 1u << part;
}

static void lane_wc(struct rails *rs, struct link *l, unsigned int r, const struct ibv_wc *wc)
{
	const uint64_t seq = wc->wr_id >> 8 & 0xffffffffffff;
	const unsigned int part = wc->wr_id & 0xff;
	const bool ok = wc->status == IBV_WC_SUCCESS;
	struct lane *n = &l->lane[r];
	struct out *o = &l->out[seq % SLOTS];
	struct in *in = &l->in[seq % SLOTS];

	switch (wc->wr_id >> 56) {
	case RAIL_RECV:
		n->recvs--;
		if (ok) {
			part_came(rs, l, ntohl(wc->imm_data));
			if (n->up)
				recv_one(n, part);
		}
		break;
	case RAIL_PART:
		n->sends--;
		if (!ok)
			break;
		o->flying[r] &= ~(1u << part);
		if (!o->todo && !o->flying[0] && !o->flying[1] && !o->unsure[0] && !o->unsure[1])
			o->parts = 0;
		break;
	case RAIL_CTS:
		n->sends--;
		if (ok && in->seq == seq && in->cts == CTS_FLYING)
			in->cts = CTS_DONE;
		break;
	default:
		break;
	}
}

/* A lane fails. Afterwards its QPs have no outstanding requests, and receive nothing. */
static void lane_fence(struct rails *rs, struct link *l, unsigned int r, uint32_t epoch)
{
	const int64_t end = ms_now() + DRAIN_MS;
	struct lane *n = &l->lane[r];

	if (n->up) {
		rs->lost++;
		printf("rank %d: rail %u to rank %d fails\n", rs->rank, r, l->peer);
	}
	n->up = false;
	n->fenced = false;
	n->epoch = epoch;
	n->next = 0;
	for (unsigned int q = 0; q < RAIL_QPS; q++)
		qp_to_err(n->qp[q]);
	while (n->sends || n->recvs) {
		lane_poll(rs, l, r);
		if (ms_now() > end)
			fail("rank %d: rail %u to rank %d: %u sends, %u receives are not flushed",
			     rs->rank, r, l->peer, n->sends, n->recvs);
	}
	for (unsigned int q = 0; q < RAIL_QPS; q++)
		hca_qp_again(n->qp[q]);
	for (unsigned int i = 0; i < SLOTS; i++) {
		l->out[i].unsure[r] |= l->out[i].flying[r];
		l->out[i].flying[r] = 0;
		if (l->in[i].cts == CTS_FLYING && l->in[i].cts_rail == r)
			l->in[i].cts = CTS_UNSURE;
	}
}

/* Return: whether there was something. */
static bool lane_poll(struct rails *rs, struct link *l, unsigned int r)
{
	struct lane *n = &l->lane[r];
	bool some = false, bad = false;
	struct ibv_wc wc[16];
	int got;

	do {
		got = ibv_poll_cq(n->cq, 16, wc);
		if (got < 0)
			fail("ibv_poll_cq: %d", got);
		for (int i = 0; i < got; i++) {
			if (wc[i].status != IBV_WC_SUCCESS &&
			    wc[i].status != IBV_WC_RETRY_EXC_ERR &&
			    wc[i].status != IBV_WC_WR_FLUSH_ERR)
				fail("rank %d: rail %u to rank %d: %s", rs->rank, r, l->peer,
				     ibv_wc_status_str(wc[i].status));
			bad |= wc[i].status != IBV_WC_SUCCESS;
			lane_wc(rs, l, r, &wc[i]);
		}
		some |= got > 0;
	} while (got == 16);
	if (bad && n->up)
		lane_fence(rs, l, r, n->epoch + 1);
	return some;
}

/* ---- UC ----------------------------------------------------------------------------- */

static void uc_recv(struct lane *n, unsigned int i)
{
	struct ibv_sge sge = { (uintptr_t)n->uc_buf[i], WORDS * 8, n->uc_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(ibv_post_recv(n->uc, &wr, &bad), "ibv_post_recv");
}

void uc_recvs(struct lane *n)
{
	for (unsigned int i = 0; i < UC_RECVS; i++)
		uc_recv(n, i);
}

/* Sends the state of the lane of rail @r on rail @by. Lost messages are repeated. */
static void uc_say(struct rails *rs, struct link *l, unsigned int by, unsigned int r, int kind)
{
	struct lane *n = &l->lane[by];
	uint64_t *word = n->uc_buf[UC_RECVS + n->uc_turn % UC_RECVS];
	struct ibv_sge sge = { (uintptr_t)word, WORDS * 8, n->uc_mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = UC_RECVS, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htonl(MAGIC), .send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	if (n->uc_sends == UC_RECVS)
		return;
	word[WORD_KIND] = htobe64((uint64_t)kind);
	word[WORD_RAIL] = htobe64(r);
	word[WORD_EPOCH] = htobe64(l->lane[r].epoch);
	for (unsigned int i = 0; i < SLOTS; i++) {
		word[WORD_IN + 2 * i] = htobe64(l->in[i].seq);
		word[WORD_IN + 2 * i + 1] = htobe64(l->in[i].got);
	}
	must(ibv_post_send(n->uc, &wr, &bad), "ibv_post_send");
	n->uc_sends++;
	n->uc_turn++;
}

/* The peer has reset its QPs of the lane, too: the parts that it lacks are sent on another one. */
static void settle(struct link *l, unsigned int r, const uint64_t *word)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		const uint64_t seq = be64toh(word[WORD_IN + 2 * i]);
		const uint32_t got = (uint32_t)be64toh(word[WORD_IN + 2 * i + 1]);
		struct out *o = &l->out[i];

		if (o->parts && o->unsure[r]) {
			if (seq == o->seq)
				o->todo |= o->unsure[r] & ~got;
			else if (seq < o->seq)
				o->todo |= o->unsure[r];
			o->unsure[r] = 0;
			if (!o->todo && !o->flying[0] && !o->flying[1] && !o->unsure[1 - r])
				o->parts = 0;
		}
		if (l->in[i].cts == CTS_UNSURE && l->in[i].cts_rail == r)
			l->in[i].cts = CTS_TODO;
	}
	l->lane[r].fenced = true;
}

static void uc_heard(struct rails *rs, struct link *l, unsigned int by, const uint64_t *word)
{
	const unsigned int r = (unsigned int)be64toh(word[WORD_RAIL]);
	const uint32_t epoch = (uint32_t)be64toh(word[WORD_EPOCH]);
	struct lane *n = &l->lane[r];

	if (r >= rs->n)
		fail("rank %d: rank %d says something of rail %u", rs->rank, l->peer, r);
	if (epoch > n->epoch)
		lane_fence(rs, l, r, epoch);
	if (epoch == n->epoch && !n->up) {
		if (!n->fenced)
			settle(l, r, word);
		if (by == r) {
			lane_connect(l, r);
			rs->healed++;
			printf("rank %d: rail %u to rank %d is back\n", rs->rank, r, l->peer);
		}
	}
	if (be64toh(word[WORD_KIND]) == ALIVE)
		uc_say(rs, l, by, r, ACK);
}

static bool uc_poll(struct rails *rs, struct link *l, unsigned int r)
{
	struct lane *n = &l->lane[r];
	struct ibv_wc wc;
	bool some = false;

	while (ibv_poll_cq(n->uc_cq, 1, &wc) > 0) {
		some = true;
		if (wc.status != IBV_WC_SUCCESS)
			fail("rank %d: UC on rail %u to rank %d: %s", rs->rank, r, l->peer,
			     ibv_wc_status_str(wc.status));
		if (wc.wr_id == UC_RECVS) {
			n->uc_sends--;
			continue;
		}
		if (wc.byte_len != WORDS * 8 || wc.imm_data != htonl(MAGIC))
			fail("rank %d: %u bytes by UC from rank %d", rs->rank, wc.byte_len,
			     l->peer);
		uc_heard(rs, l, r, n->uc_buf[wc.wr_id]);
		uc_recv(n, (unsigned int)wc.wr_id);
	}
	return some;
}

/* ---- all links ---------------------------------------------------------------------- */

bool rails_poll(struct rails *rs)
{
	bool some = false;

	for (unsigned int i = 0; i < rs->nlinks; i++) {
		struct link *l = rs->link[i];

		for (unsigned int r = 0; r < rs->n; r++) {
			struct lane *n = &l->lane[r];

			some |= lane_poll(rs, l, r);
			some |= uc_poll(rs, l, r);
			if (n->up || ms_now() < n->next)
				continue;
			for (unsigned int by = 0; by < rs->n; by++)
				uc_say(rs, l, by, r, ALIVE);
			n->next = ms_now() + ALIVE_MS;
		}
		link_push(rs, l);
	}
	return some;
}

static void arm(struct rails *rs)
{
	for (unsigned int i = 0; i < rs->nlinks; i++) {
		for (unsigned int r = 0; r < rs->n; r++) {
			struct lane *n = &rs->link[i]->lane[r];

			must(ibv_req_notify_cq(n->cq, 0), "ibv_req_notify_cq");
			must(ibv_req_notify_cq(n->uc_cq, 0), "ibv_req_notify_cq");
		}
	}
}

/* A CTS is a WRITE that creates no completion here, so each sleep is short. */
void rails_wait(struct rails *rs)
{
	static unsigned int idle;

	if (rails_poll(rs)) {
		idle = 0;
		return;
	}
	if (++idle < IDLE_POLLS)
		return;
	arm(rs);
	if (rails_poll(rs))
		return;
	if (hca_sleep(rs->hca, rs->n, -1, 1))
		idle = 0;
}

void rails_dump(const struct rails *rs)
{
	for (unsigned int i = 0; i < rs->nlinks; i++) {
		const struct link *l = rs->link[i];

		for (unsigned int r = 0; r < rs->n; r++)
			printf("rank %d to %d, rail %u: epoch %u, %s, %u sends, %u receives\n",
			       rs->rank, l->peer, r, l->lane[r].epoch,
			       l->lane[r].up ? "up" : "down", l->lane[r].sends, l->lane[r].recvs);
		for (unsigned int s = 0; s < SLOTS; s++) {
			const struct out *o = &l->out[s];
			const struct in *in = &l->in[s];

			printf("  out %llu: parts %u todo %x flying %x %x unsure %x %x, CTS %llu; "
			       "in %llu: parts %u got %x CTS %u\n", (unsigned long long)o->seq,
			       o->parts, o->todo, o->flying[0], o->flying[1], o->unsure[0],
			       o->unsure[1], (unsigned long long)be64toh(l->fifo[s].seq),
			       (unsigned long long)in->seq, in->parts, in->got, in->cts);
		}
	}
}
