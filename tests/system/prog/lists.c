// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Lists of descriptors and a notification, as NIXL transfers them over UCX. A list has addresses
 * and lengths on both sides. Large entries are split among the rails. Most WQEs create no
 * completion: one at the end of a chain counts all of the chain. After the last completion the
 * client SENDs a note, and the server SENDs a response. A note is repeated until its response
 * arrives, and is executed once. If a rail fails, all rails of the connection are connected again,
 * and the list is transferred from its begin.
 */
#include "session.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#define ENTRIES		64u
#define LARGE		(16u << 10)	/* bytes; a larger entry is split among all rails */
#define GAP		64u	/* minimum of bytes between two entries */
#define BYTES		(ROUND_MOST + (ENTRIES + 1) * 2 * GAP)
#define CHAIN		16u
#define NOTES		32u	/* receives of a rail */
#define PARTS		(ENTRIES * HCA_RAILS)

/* The kind of a response is that of its note plus one. */
enum { PREPARE = 1, ARRIVED = 3 };

/** struct note - a message by SEND, in big-endian words */
struct note {
	uint64_t seq, kind, len, number;
};

/** struct entry - of the list; only the places differ between both sides */
struct entry {
	uint32_t here, there, len;
};

/* wr_id of a SEND; for others it is the number of WQEs that a completion counts */
#define NOTE	(1ull << 32)

static uint8_t *mem;
static struct ibv_mr *mr[HCA_RAILS], *note_mr[HCA_RAILS];
static uint64_t peer_mem, peer_key[HCA_RAILS];
static struct note *note_in[HCA_RAILS];
static struct entry list[ENTRIES];
static uint32_t entries;
static struct entry part[PARTS];
static uint32_t parts, posted, left;		/* parts of the client's list */
static bool again, unsaid;			/* the list; the note */
static struct note now, last;			/* the client's note; the server's response */
static uint32_t turn;

static void open_list(struct session *s)
{
	uint64_t mine[1 + HCA_RAILS] = { 0 }, theirs[1 + HCA_RAILS];

	mem = zeroes(BYTES);
	mine[0] = (uintptr_t)mem;
	for (unsigned int r = 0; r < s->n; r++) {
		mr[r] = hca_reg(&s->hca[r], mem, BYTES);
		note_in[r] = zeroes(NOTES * sizeof(struct note));
		note_mr[r] = hca_reg(&s->hca[r], note_in[r], NOTES * sizeof(struct note));
		mine[1 + r] = mr[r]->rkey;
	}
	session_swap(s, mine, theirs, 1 + HCA_RAILS);
	peer_mem = theirs[0];
	memcpy(peer_key, &theirs[1], sizeof(peer_key));
}

/* Both sides create the same list: entries are in order here, and in reverse order there. */
static void make_list(uint32_t len, uint32_t number, bool server)
{
	uint64_t dice = number + 1;
	uint32_t done = 0, here = 0, there, n, gap;

	entries = 1 + (uint32_t)(rnd(&dice) % least(len, ENTRIES));
	there = len + (entries + 1) * 2 * GAP;
	for (uint32_t i = 0; i < entries; i++) {
		/* each has at least one byte */
		n = len - done - (entries - 1 - i);
		if (i + 1 < entries)
			n = 1 + (uint32_t)(rnd(&dice) % (2 * n / (entries - i) + 1)) % n;
		gap = GAP + (uint32_t)(rnd(&dice) % GAP);
		there -= n + gap;
		list[i] = (struct entry) { here + gap, there, n };
		here += gap + n;
		done += n;
		if (server)
			list[i] = (struct entry) { list[i].there, list[i].here, n };
	}
}

/* Fills the list and its gaps, which contain another byte for each number. */
static void fill_list(uint32_t number)
{
	for (uint32_t i = 0; i < entries; i++)
		fill(mem + list[i].here, list[i].len, number * ENTRIES + i);
}

static void mark_gaps(uint32_t number, bool look)
{
	for (uint32_t i = 0; i < entries; i++) {
		uint8_t *at[2] = { mem + list[i].here - GAP / 2, mem + list[i].here + list[i].len };

		for (uint32_t k = 0; k < GAP; k++) {
			uint8_t *b = at[k % 2] + k / 2, want = (uint8_t)(number ^ 0x5a);

			if (look && *b != want)
				fail("a byte beside entry %u of list %u has changed", i, number);
			*b = want;
		}
	}
}

static void check_list(uint32_t number, const char *what)
{
	for (uint32_t i = 0; i < entries; i++)
		check(mem + list[i].here, list[i].len, number * ENTRIES + i, what);
}

/* ---- notes -------------------------------------------------------------------------- */

static void note_recv(struct session *s, unsigned int r, uint64_t i)
{
	struct ibv_sge sge = { (uintptr_t)&note_in[r][i], sizeof(struct note), note_mr[r]->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

	session_recv(s, r, 0, &wr);
}

static void connected(struct session *s, unsigned int r)
{
	for (unsigned int i = 0; i < NOTES; i++)
		note_recv(s, r, i);
}

/* Sends on the next rail that is up; false: there is none. */
static bool say(struct session *s, const struct note *what)
{
	struct note out = { htobe64(what->seq), htobe64(what->kind), htobe64(what->len),
			    htobe64(what->number) };
	struct ibv_sge sge = { (uintptr_t)&out, sizeof(out), 0 };
	struct ibv_send_wr wr = {
		.wr_id = NOTE, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_INLINE, .imm_data = htonl((uint32_t)what->kind),
	};

	for (unsigned int i = 0; i < s->n; i++) {
		const unsigned int r = turn++ % s->n;

		if (!session_room(s, r, 0))
			continue;
		session_send(s, r, 0, &wr);
		return true;
	}
	return false;
}

/* ---- the client --------------------------------------------------------------------- */

static void cut(const struct session *s)
{
	parts = 0;
	for (uint32_t i = 0; i < entries; i++) {
		const uint32_t n = list[i].len > LARGE ? s->n : 1, each = list[i].len / n & ~63u;

		for (uint32_t k = 0; k < n; k++)
			part[parts++] = (struct entry) {
				list[i].here + k * each, list[i].there + k * each,
				k + 1 < n ? each : list[i].len - k * each,
			};
	}
}

/* Posts a chain whose last WQE counts all; rails alternate. */
static bool post(struct session *s, unsigned int r, enum ibv_wr_opcode op)
{
	struct ibv_send_wr wr[CHAIN] = {};
	struct ibv_sge sge[CHAIN];
	uint32_t n = 0;

	/* at most three chains and some notes are outstanding */
	if (session_room(s, r, 0) + 2 < HCA_DEPTH / 2)
		return false;
	for (; n < CHAIN && posted < parts; n++, posted++) {
		const struct entry *e = &part[posted];

		sge[n] = (struct ibv_sge) { (uintptr_t)mem + e->here, e->len, mr[r]->lkey };
		wr[n] = (struct ibv_send_wr) {
			.wr_id = SESSION_QUIET, .sg_list = &sge[n], .num_sge = 1, .opcode = op,
			.wr.rdma = { peer_mem + e->there, (uint32_t)peer_key[r] },
		};
		if (n)
			wr[n - 1].next = &wr[n];
	}
	if (!n)
		return false;
	wr[n - 1].wr_id = n;
	session_send(s, r, 0, wr);
	return true;
}

/* All rails are up or fenced: no WRITE of the old list can arrive. */
static bool clear(const struct session *s)
{
	for (unsigned int r = 0; r < s->n; r++)
		if (!s->rail[r].up && !s->rail[r].fenced)
			return false;
	return true;
}

static void transfer(struct session *s, enum ibv_wr_opcode op)
{
	cut(s);
	again = true;
	while (again || left) {
		if (again && clear(s)) {
			again = false;
			posted = 0;
			left = parts;
		}
		if (!again)
			for (unsigned int i = 0; i < s->n; i++)
				post(s, turn++ % s->n, op);
		session_wait(s);
	}
}

/* The server executes a note once, however often it is sent. */
static void ask(struct session *s, uint64_t kind, uint32_t len, uint32_t number)
{
	now = (struct note) { now.seq + 1, kind, len, number };
	unsaid = true;
	while (now.kind) {
		if (unsaid && say(s, &now))
			unsaid = false;
		session_wait(s);
	}
}

static void move_list(struct session *s, uint32_t len, uint32_t number)
{
	const bool read = number & 1;

	ask(s, PREPARE, len, number);
	make_list(len, number, false);
	if (!read)
		fill_list(number);
	mark_gaps(number, false);
	transfer(s, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE);
	if (read)
		check_list(number, "READ by a list");
	mark_gaps(number, true);
	ask(s, ARRIVED, len, number);
}

/* ---- the server, and received notes ------------------------------------------------- */

static void asked(struct session *s, const struct note *in)
{
	const uint32_t number = (uint32_t)in->number, len = (uint32_t)in->len;

	if (in->seq < last.seq)
		return;		/* the client got the response, or it would not have continued */
	if (in->seq > last.seq + 1 || len > ROUND_MOST || !len)
		fail("note %llu after %llu, of %u bytes", (unsigned long long)in->seq,
		     (unsigned long long)last.seq, len);
	if (in->seq > last.seq && in->kind == PREPARE) {
		make_list(len, number, true);
		if (number & 1)
			fill_list(number);
		mark_gaps(number, false);
	} else if (in->seq > last.seq) {
		if (!(number & 1))
			check_list(number, "WRITE by a list");
		mark_gaps(number, true);
	}
	last = (struct note) { in->seq, in->kind + 1, len, number };
	/* if no rail is up the client repeats the note */
	say(s, &last);
}

static void completed(struct session *s, unsigned int r, unsigned int q, const struct ibv_wc *wc)
{
	const bool ok = wc->status == IBV_WC_SUCCESS;
	const struct note *raw;
	struct note in;

	if (!(wc->wr_id & SESSION_RECV)) {
		if (!ok)
			again = true;
		else if (!(wc->wr_id & NOTE))
			left -= (uint32_t)wc->wr_id;
		return;
	}
	if (!ok)
		return;
	raw = &note_in[r][wc->wr_id & ~SESSION_RECV];
	in = (struct note) { be64toh(raw->seq), be64toh(raw->kind), be64toh(raw->len),
			     be64toh(raw->number) };
	if (wc->byte_len != sizeof(in) || ntohl(wc->imm_data) != in.kind)
		fail("a note of %u bytes, %u", wc->byte_len, ntohl(wc->imm_data));
	if (s->rail[r].up)
		note_recv(s, r, wc->wr_id & ~SESSION_RECV);
	if (!s->client)
		asked(s, &in);
	else if (in.seq == now.seq && in.kind == now.kind + 1)
		now.kind = 0;
}

/* A note or its response may have been lost. */
static void fenced(struct session *s, unsigned int r)
{
	unsaid = now.kind != 0;
}

const struct pattern lists = {
	.name = "lists", .qps = 1, .grh = true, .all = true, .open = open_list,
	.connected = connected, .completed = completed, .fenced = fenced, .round = move_list,
};
