// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Batches of slices, as Mooncake's transfer engine transfers them. Memory consists of thousands of
 * regions, which the client knows. The client WRITEs and READs; the other side only provides the
 * memory. A batch is cut where a region ends on either side. Slices use all QPs of all rails in
 * turn, in chains. Slices that have not completed on a failed rail are sent on the other one.
 */
#include "session.h"

#include <string.h>

#define REGION		(32u << 10)
#define REGIONS		(ROUND_MOST / REGION + 2)
#define BYTES		((size_t)REGIONS * REGION)
#define SLICES		(2 * REGIONS)
#define CHAIN		8u	/* WQEs posted at once */
#define KEYS		16u	/* R_Keys sent at once */
#define GUARD		64u

enum { PREPARE = 1, PREPARED, CHECK, CHECKED };
enum { DONE, UNSENT, FLYING, UNSURE };

/** struct slice - from or to @here, @there in the peer's memory; @rail: of posted ones */
struct slice {
	uint32_t here, there, len, state, rail;
};

static uint8_t *mem;
static uint64_t peer_mem;
static struct ibv_mr *mr[HCA_RAILS][REGIONS];
static uint32_t peer_key[HCA_RAILS][REGIONS];
static struct slice slice[SLICES];
static uint32_t todo[SLICES], ntodo, left;	/* numbers of slices to post; not completed */
static uint64_t answer;				/* the server's last response */
static uint32_t turn;

/* Bytes beside a block must not change. */
static uint8_t guard[2][GUARD];

static void guards(uint32_t off, uint32_t len, bool look)
{
	const uint32_t end = off + len;
	const uint32_t before = least(off, GUARD), after = least((uint32_t)BYTES - end, GUARD);

	if (look && (memcmp(guard[0], mem + off - before, before) ||
		     memcmp(guard[1], mem + end, after)))
		fail("bytes beside %u bytes at %u have changed", len, off);
	memcpy(guard[0], mem + off - before, before);
	memcpy(guard[1], mem + end, after);
}

static void open_regions(struct session *s)
{
	uint64_t mine[KEYS], theirs[KEYS], at[1], there[1];

	mem = zeroes(BYTES);
	at[0] = (uintptr_t)mem;
	session_swap(s, at, there, 1);
	peer_mem = there[0];
	for (unsigned int r = 0; r < s->n; r++) {
		for (unsigned int i = 0; i < REGIONS; i++) {
			mr[r][i] = hca_reg(&s->hca[r], mem + (size_t)i * REGION, REGION);
			mine[i % KEYS] = mr[r][i]->rkey;
			if (i % KEYS < KEYS - 1 && i + 1 < REGIONS)
				continue;
			session_swap(s, mine, theirs, KEYS);
			for (unsigned int k = i / KEYS * KEYS; k <= i; k++)
				peer_key[r][k] = (uint32_t)theirs[k % KEYS];
		}
	}
}

/* ---- the client --------------------------------------------------------------------- */

static void cut(uint32_t here, uint32_t there, uint32_t len)
{
	uint32_t n = 0, part;

	for (uint32_t at = 0; at < len; at += part) {
		part = least(len - at, least(REGION - (here + at) % REGION,
					     REGION - (there + at) % REGION));
		if (n == SLICES)
			fail("more than %u slices of %u bytes", n, len);
		slice[n++] = (struct slice) { here + at, there + at, part, UNSENT, 0 };
	}
	left = n;
	for (ntodo = 0; n;)
		todo[ntodo++] = --n;
}

/* Posts a chain on one QP. False: it has no room. */
static bool post(struct session *s, unsigned int r, unsigned int q, enum ibv_wr_opcode op)
{
	const uint32_t n = least(least(session_room(s, r, q), CHAIN), ntodo);
	struct ibv_send_wr wr[CHAIN] = {};
	struct ibv_sge sge[CHAIN];

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t k = todo[--ntodo];
		struct slice *c = &slice[k];

		sge[i] = (struct ibv_sge) { (uintptr_t)mem + c->here, c->len,
					    mr[r][c->here / REGION]->lkey };
		wr[i] = (struct ibv_send_wr) {
			.wr_id = k, .sg_list = &sge[i], .num_sge = 1, .opcode = op,
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.wr.rdma = { peer_mem + c->there, peer_key[r][c->there / REGION] },
		};
		c->state = FLYING;
		c->rail = r;
	}
	if (n)
		session_send(s, r, q, wr);
	return n;
}

static void completed(struct session *s, unsigned int r, unsigned int q, const struct ibv_wc *wc)
{
	struct slice *c = &slice[wc->wr_id];

	if (wc->wr_id >= SLICES || c->state != FLYING || c->rail != r)
		fail("rail %u: a completion of slice %llu", r, (unsigned long long)wc->wr_id);
	c->state = wc->status == IBV_WC_SUCCESS ? DONE : UNSURE;
	left -= c->state == DONE;
}

static void fenced(struct session *s, unsigned int r)
{
	for (uint32_t i = 0; i < SLICES; i++) {
		if (slice[i].state != UNSURE || slice[i].rail != r)
			continue;
		slice[i].state = UNSENT;
		todo[ntodo++] = i;
	}
}

static void transfer(struct session *s, enum ibv_wr_opcode op)
{
	const uint32_t all = s->n * s->is->qps;
	uint32_t full;

	while (left) {
		for (full = 0; ntodo && full < all; turn++)
			full = post(s, turn % s->n, turn / s->n % s->is->qps, op) ? 0 : full + 1;
		session_wait(s);
	}
}

static void ask(struct session *s, uint64_t kind, uint32_t there, uint32_t len, uint32_t seed)
{
	answer = 0;
	session_tell(s, (uint64_t[SESSION_WORDS]) { kind, there, len, seed });
	while (answer != kind + 1)
		session_wait(s);
}

/* WRITEs and READs alternate, from random places to random places. */
static void batch(struct session *s, uint32_t len, uint32_t number)
{
	const bool read = number & 1;
	const uint32_t seed = number + 1;
	uint64_t dice = number;
	const uint32_t here = (uint32_t)(rnd(&dice) % (BYTES - len + 1));
	const uint32_t there = (uint32_t)(rnd(&dice) % (BYTES - len + 1));

	ask(s, PREPARE, there, len, read ? seed : 0);
	if (!read)
		fill(mem + here, len, seed);
	guards(here, len, false);
	cut(here, there, len);
	transfer(s, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE);
	if (read)
		check(mem + here, len, seed, "READ");
	guards(here, len, true);
	ask(s, CHECK, there, len, read ? 0 : seed);
}

/* ---- the server --------------------------------------------------------------------- */

/* Seed 0: no data to fill in or to compare. */
static void told(struct session *s, const uint64_t *word)
{
	const uint32_t off = (uint32_t)word[1], len = (uint32_t)word[2], seed = (uint32_t)word[3];

	if (s->client) {
		answer = word[0];
		return;
	}
	if (word[0] == PREPARE && seed)
		fill(mem + off, len, seed);
	if (word[0] == CHECK && seed)
		check(mem + off, len, seed, "WRITE");
	guards(off, len, word[0] == CHECK);
	session_tell(s, (uint64_t[SESSION_WORDS]) { word[0] + 1 });
}

const struct pattern slices = {
	.name = "slices", .qps = 4, .grh = true, .open = open_regions, .completed = completed,
	.fenced = fenced, .told = told, .round = batch,
};
