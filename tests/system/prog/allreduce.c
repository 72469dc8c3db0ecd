// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * All-reduce: each rank has a buffer, and in the end all ranks have the bytewise sum, which is
 * compared with the expected one. A ring moves 2 (n - 1) / n of the buffer over each link. A binary
 * tree moves the whole buffer, up and down, in slices. Ranks are processes; rank i is on node i
 * modulo the number of nodes, plus 1. The links between them are those of rail.h.
 */
#include "rail.h"
#include "rounds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT		18700	/* TCP port of rank 0 */

static struct rails rs;
static struct link *to[64];	/* by rank */
static int rank, ranks;
static uint8_t *data;
static struct ibv_mr *data_mr[RAILS];
static int64_t begun;		/* ms, begin of this all-reduce */

static void turn(void)
{
	rails_wait(&rs);
	if (ms_now() - begun > ROUND_LATE_MS) {
		rails_dump(&rs);
		fail("rank %d: an all-reduce hangs", rank);
	}
}

/* ---- bootstrap ---------------------------------------------------------------------- */

static int left_of(int r)
{
	return (r + ranks - 1) % ranks;
}

static int parent_of(int r)
{
	return r ? (r - 1) / 2 : -1;
}

static bool linked(int a, int b)
{
	return a != b && (left_of(a) == b || left_of(b) == a || parent_of(a) == b ||
			  parent_of(b) == a);
}

static int dial(int peer, int nodes)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(PORT + peer) };
	uint32_t me = htonl((uint32_t)rank);
	const int64_t end = ms_now() + 30000;
	struct hostent *h;
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "node%d", peer % nodes + 1);
	h = gethostbyname(name);
	if (!h)
		fail("no host %s", name);
	memcpy(&sa.sin_addr, h->h_addr, sizeof(sa.sin_addr));
	for (;;) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
			break;
		if (ms_now() > end)
			fail("rank %d: no rank %d: %s", rank, peer, strerror(errno));
		close(fd);
		usleep(50000);
	}
	if (write(fd, &me, sizeof(me)) != sizeof(me))
		fail("rank %d: rank %d has gone", rank, peer);
	return fd;
}

/* Each rank connects to the lower ones, and then accepts connections of the higher ones. */
static void meet(int nodes)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(PORT + rank) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, s, above = 0;
	uint32_t who;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, ranks))
		fail("listen: %s", strerror(errno));
	for (int i = 0; i < rank; i++)
		if (linked(i, rank))
			to[i] = rails_link(&rs, i, dial(i, nodes));
	for (int i = rank + 1; i < ranks; i++)
		above += linked(i, rank);
	for (; above; above--) {
		s = accept(fd, NULL, NULL);
		if (s < 0 || recv(s, &who, sizeof(who), MSG_WAITALL) != sizeof(who) ||
		    ntohl(who) >= (uint32_t)ranks)
			fail("accept: %s", strerror(errno));
		to[ntohl(who)] = rails_link(&rs, (int)ntohl(who), s);
	}
	close(fd);
}

/* Waits until all ranks are here. Meanwhile it handles the links. */
static void part(void)
{
	for (unsigned int i = 0; i < rs.nlinks; i++)
		if (write(rs.link[i]->sock, "x", 1) != 1)
			fail("rank %d: rank %d has gone", rank, rs.link[i]->peer);
	for (unsigned int i = 0; i < rs.nlinks; i++) {
		ssize_t got;
		char c;

		do {
			turn();
			got = recv(rs.link[i]->sock, &c, 1, MSG_DONTWAIT);
		} while (got < 0 && errno == EAGAIN);
		if (got != 1)
			fail("rank %d: rank %d has gone", rank, rs.link[i]->peer);
	}
}

/* ---- sums --------------------------------------------------------------------------- */

static void add(uint8_t *restrict sum, const uint8_t *restrict with, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		sum[i] = (uint8_t)(sum[i] + with[i]);
}

/* Sends one piece of the buffer to the right, and receives one from the left. */
static void ring_step(uint32_t out, uint32_t out_len, uint32_t in, uint32_t in_len, bool sum)
{
	struct link *right = to[(rank + 1) % ranks], *left = to[left_of(rank)];
	uint32_t sent = 0, taken = 0, n;
	const uint8_t *came;

	while (sent < out_len || taken < in_len) {
		if (sent < out_len && link_can_send(right)) {
			n = least(SLICE, out_len - sent);
			link_send(&rs, right, data + out + sent, n, data_mr);
			sent += n;
			continue;
		}
		came = taken < in_len ? link_ready(&rs, left) : NULL;
		if (!came) {
			turn();
			continue;
		}
		n = least(SLICE, in_len - taken);
		if (sum)
			add(data + in + taken, came, n);
		else
			memcpy(data + in + taken, came, n);
		link_take(&rs, left);
		taken += n;
	}
	while (!link_idle(right))
		turn();
}

static void ring(uint32_t len)
{
	const uint32_t piece = (len + (uint32_t)ranks - 1) / (uint32_t)ranks;
	uint32_t off[64], size[64];

	for (int i = 0; i < ranks; i++) {
		off[i] = least(len, piece * (uint32_t)i);
		size[i] = least(len - off[i], piece);
	}
	for (int phase = 0; phase < 2; phase++) {
		for (int s = 0; s < ranks - 1; s++) {
			int out = (rank + phase - s + ranks) % ranks;
			int in = (out + ranks - 1) % ranks;

			ring_step(off[out], size[out], off[in], size[in], !phase);
		}
	}
}

/* Whether a slice can be sent to all of these ranks. */
static bool can_send(const int *who, int n)
{
	for (int i = 0; i < n; i++)
		if (!link_can_send(to[who[i]]))
			return false;
	return true;
}

static void tree(uint32_t len)
{
	const uint32_t slices = (len + SLICE - 1) / SLICE;
	const int up = parent_of(rank);
	uint32_t at[3] = { 0 }, risen = 0, fallen = 0, off, n;
	const uint8_t *came;
	int child[2], children = 0;

	for (int i = 2 * rank + 1; i <= 2 * rank + 2 && i < ranks; i++)
		child[children++] = i;
	while (fallen < slices) {
		bool some = false;

		for (int i = 0; i < children; i++) {
			/* a slice from below is a sum; a final slice is sent down afterwards */
			came = at[i] < slices ? link_ready(&rs, to[child[i]]) : NULL;
			if (!came)
				continue;
			off = at[i]++ * SLICE;
			add(data + off, came, least(SLICE, len - off));
			link_take(&rs, to[child[i]]);
			some = true;
		}
		if (risen < slices && (!children || at[0] > risen) &&
		    (children < 2 || at[1] > risen) && (up < 0 || can_send(&up, 1))) {
			off = risen++ * SLICE;
			if (up >= 0)
				link_send(&rs, to[up], data + off, least(SLICE, len - off),
					  data_mr);
			some = true;
		}
		if (fallen < risen && can_send(child, children)) {
			off = fallen * SLICE;
			n = least(SLICE, len - off);
			came = up >= 0 ? link_ready(&rs, to[up]) : data + off;
			if (came && up >= 0) {
				memcpy(data + off, came, n);
				link_take(&rs, to[up]);
			}
			for (int i = 0; came && i < children; i++)
				link_send(&rs, to[child[i]], data + off, n, data_mr);
			fallen += came != NULL;
			some |= came != NULL;
		}
		if (!some)
			turn();
	}
	for (unsigned int i = 0; i < rs.nlinks; i++)
		while (!link_idle(rs.link[i]))
			turn();
}

/* ---- rounds ------------------------------------------------------------------------- */

static uint8_t given(int by, uint32_t i, uint32_t seed)
{
	return (uint8_t)(((i ^ seed) * 2654435761u >> 13) * (2u * (uint32_t)by + 3));
}

static void reduce(uint32_t len, uint32_t seed, bool by_tree)
{
	uint32_t k = 0;

	begun = ms_now();
	for (int r = 0; r < ranks; r++)
		k += 2u * (uint32_t)r + 3;
	for (uint32_t i = 0; i < len; i++)
		data[i] = given(rank, i, seed);
	data[len] = 0xee;
	if (by_tree)
		tree(len);
	else
		ring(len);
	for (uint32_t i = 0; i < len; i++)
		if (data[i] != (uint8_t)(((i ^ seed) * 2654435761u >> 13) * k))
			fail("rank %d: byte %u of %u is wrong, by %s, round %u", rank, i, len,
			     by_tree ? "tree" : "ring", seed);
	if (data[len] != 0xee)
		fail("rank %d: wrote past %u bytes", rank, len);
	if (len == ROUND_MOST)
		printf("rank %d: %u MiB by %s in %d ms\n", rank, len >> 20,
		       by_tree ? "tree" : "ring", (int)(ms_now() - begun));
}

/* Rank 0 decides whether there is another round: the sum is its byte plus zeros. */
static bool goes_on(bool mine)
{
	begun = ms_now();
	memset(data, 0, 8);
	data[0] = rank == 0 && mine;
	tree(8);
	return data[0];
}

void allreduce_main(double seconds, int me, int all)
{
	const char *nodes = getenv("OHCA_NODES");
	const int64_t end = ms_now() + (int64_t)(seconds * 1000);
	uint32_t round = 0;

	/* longer than all time limits of other processes */
	alarm((unsigned int)seconds + 900);
	rank = me;
	ranks = all;
	if (!nodes || ranks < 2 || ranks > 8 || rank < 0 || rank >= ranks)
		fail("rank %d of %d, and $OHCA_NODES", rank, ranks);
	data = zeroes(ROUND_MOST + 4096);
	rails_open(&rs, rank);
	rails_reg(&rs, data, ROUND_MOST + 4096, data_mr);
	meet(atoi(nodes));
	printf("rank %d: %u links on %u rails\n", rank, rs.nlinks, rs.n);
	if (seconds > 0) {
		uint64_t dice = 1;

		while (goes_on(rounds_go_on("allreduce", end))) {
			reduce(round_size(&dice), round, round & 1);
			rounds_tell("allreduce", rank, ++round, rs.lost, rs.healed);
		}
	} else {
		/* the largest size by a ring only */
		for (unsigned int i = 0; i < 2 * ROUND_SIZES - 1; i++)
			reduce(round_sizes[i / 2], round++, i & 1);
	}
	part();
	printf("rank %d: %u sums verified; %llu parts, %llu of long messages, %llu READs, "
	       "%llu lanes failed, %llu came back\n", rank, round, (unsigned long long)rs.parts,
	       (unsigned long long)rs.splits, (unsigned long long)rs.reads,
	       (unsigned long long)rs.lost, (unsigned long long)rs.healed);
}
