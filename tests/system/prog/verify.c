// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every operation of a transport service in many sizes. The side that has the data compares them.
 * Bytes around a message must stay unchanged.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define GUARD	64u		/* bytes before and after */
#define HERE	GUARD		/* source */
#define THERE	(PEER_BUF / 2)	/* target */
#define GRH	40u

static const uint32_t sizes[] = {
	0, 1, 3, 4, 7, 8, 63, 64, 255, 1024, 4095, 4096, 4097, 8192, 12289, 65536, 1000003,
};

static uint32_t seed;

static void target_clear(struct peer *p, uint32_t len)
{
	memset(p->buf + THERE - GUARD, 0xee, len + 2 * GUARD + GRH);
}

static void target_check(struct peer *p, uint32_t skip, uint32_t len, const char *what)
{
	const uint8_t *b = p->buf + THERE;

	check(b + skip, len, seed, what);
	for (uint32_t i = 0; i < GUARD; i++)
		if (b[(int)i - (int)GUARD] != 0xee || b[skip + len + i] != 0xee)
			fail("%s: wrote outside of %u bytes", what, len);
}

/* The client sends, the server compares. */
static void push(struct peer *p, enum ibv_wr_opcode op, uint32_t len, const char *what)
{
	bool recv = op != IBV_WR_RDMA_WRITE;
	bool imm = op == IBV_WR_RDMA_WRITE_WITH_IMM || op == IBV_WR_SEND_WITH_IMM;
	uint32_t skip = p->type == IBV_QPT_UD ? GRH : 0;
	struct ibv_wc wc;

	seed++;
	if (!p->client) {
		target_clear(p, len);
		if (recv)
			recv_post(p, seed, THERE, len + skip);
	}
	sync_at(p, seed);
	if (p->client) {
		fill(p->buf + HERE, len, seed);
		send_post(p, op, seed, HERE, len, THERE);
		wc_expect(p->scq, seed, IBV_WC_SUCCESS, what);
	} else if (recv) {
		wc = wc_expect(p->rcq, seed, IBV_WC_SUCCESS, what);
		if (wc.byte_len != len + skip)
			fail("%s: byte_len %u instead of %u", what, wc.byte_len, len + skip);
		if (imm != !!(wc.wc_flags & IBV_WC_WITH_IMM) ||
		    (imm && wc.imm_data != htonl(seed)))
			fail("%s: immediate data is wrong", what);
		if (skip && (wc.src_qp != p->you.qpn || wc.slid != p->you.lid))
			fail("%s: source is QP %u, LID %u", what, wc.src_qp, wc.slid);
	}
	/* UC: the requester's completion does not mean that the data have arrived. */
	if (!p->client && p->type == IBV_QPT_UC && !recv) {
		int64_t end = ms_now() + 5000;
		uint8_t want[8];
		uint32_t tail = len > 8 ? 8 : len;

		fill(p->buf + HERE, len, seed);
		memcpy(want, p->buf + HERE + len - tail, tail);
		while (memcmp(p->buf + THERE + len - tail, want, tail) && ms_now() < end)
			__asm__ volatile("" ::: "memory");
	}
	sync_at(p, seed);
	if (!p->client)
		target_check(p, skip, len, what);
}

/* The client reads the server's data. */
static void pull(struct peer *p, uint32_t len)
{
	seed++;
	if (!p->client)
		fill(p->buf + HERE, len, seed);
	sync_at(p, seed);
	if (p->client) {
		target_clear(p, len);
		send_post(p, IBV_WR_RDMA_READ, seed, THERE, len, HERE);
		wc_expect(p->scq, seed, IBV_WC_SUCCESS, "RDMA READ");
		target_check(p, 0, len, "RDMA READ");
	}
	sync_at(p, seed);
}

/* The old value is returned, and the new one is correct. */
static void atomics(struct peer *p)
{
	volatile uint64_t *word = (uint64_t *)(p->buf + THERE);
	uint64_t now = 0x1122334455667788ull, *old = (uint64_t *)(p->buf + HERE);

	if (!p->client)
		*word = now;
	for (uint32_t i = 0; i < 40; i++) {
		uint64_t add = 0x0101010101010101ull * i, swap = ~now;
		bool cas = i & 1, match = i & 2;
		struct ibv_sge sge = { (uintptr_t)old, 8, p->mr->lkey };
		struct ibv_send_wr wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
			.opcode = cas ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
			.wr.atomic = { .remote_addr = p->you.addr + THERE, .rkey = p->you.rkey },
		};

		if (cas) {
			wr.wr.atomic.compare_add = match ? now : now + 1;
			wr.wr.atomic.swap = swap;
		} else {
			wr.wr.atomic.compare_add = add;
		}
		sync_at(p, i);
		if (p->client) {
			*old = 0;
			send_post_raw(p, &wr);
			wc_expect(p->scq, i, IBV_WC_SUCCESS, "atomic");
			if (*old != now)
				fail("atomic %u returned %#llx instead of %#llx", i,
				     (unsigned long long)*old, (unsigned long long)now);
		}
		now = !cas ? now + add : match ? swap : now;
		sync_at(p, i);
		if (!p->client && *word != now)
			fail("atomic %u left %#llx instead of %#llx", i,
			     (unsigned long long)*word, (unsigned long long)now);
	}
}

/* Several SGEs, inline data, many WQEs in one post: gathered in order. */
static void lists(struct peer *p)
{
	struct ibv_sge sge[32];
	struct ibv_send_wr wr[16], *bad;
	const uint32_t part = 777;

	seed++;
	if (!p->client)
		target_clear(p, 32 * part);
	sync_at(p, seed);
	if (p->client) {
		fill(p->buf + HERE, 32 * part, seed);
		memset(wr, 0, sizeof(wr));
		for (uint32_t i = 0; i < 16; i++) {
			for (uint32_t k = 2 * i; k < 2 * i + 2; k++)
				sge[k] = (struct ibv_sge) { (uintptr_t)p->buf + HERE + k * part,
							    part, p->mr->lkey };
			wr[i].wr_id = i;
			wr[i].next = i < 15 ? &wr[i + 1] : NULL;
			wr[i].sg_list = &sge[2 * i];
			wr[i].num_sge = 2;
			wr[i].opcode = IBV_WR_RDMA_WRITE;
			wr[i].send_flags = i == 15 ? IBV_SEND_SIGNALED : 0;
			wr[i].wr.rdma.remote_addr = p->you.addr + THERE + 2 * i * part;
			wr[i].wr.rdma.rkey = p->you.rkey;
		}
		if (ibv_post_send(p->qp, wr, &bad))
			fail("a list of 16 WQEs is refused");
		wc_expect(p->scq, 15, IBV_WC_SUCCESS, "list");
		wc_none(p->scq, 50, "unsignaled WQEs");
	}
	sync_at(p, seed);
	if (!p->client)
		target_check(p, 0, 32 * part, "list of WQEs");
}

void verify_main(struct peer *p, const char *name)
{
	bool rc = !strcmp(name, "rc"), ud = !strcmp(name, "ud");
	unsigned int count = 0;

	peer_open(p, rc ? IBV_QPT_RC : ud ? IBV_QPT_UD : IBV_QPT_UC);
	peer_connect(p);
	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			uint32_t len = sizes[i];

			if (ud && len > 4096)
				break;
			push(p, IBV_WR_SEND, len, "SEND");
			push(p, IBV_WR_SEND_WITH_IMM, len, "SEND with immediate");
			count += 2;
			if (ud)
				continue;
			push(p, IBV_WR_RDMA_WRITE, len, "RDMA WRITE");
			push(p, IBV_WR_RDMA_WRITE_WITH_IMM, len, "RDMA WRITE with immediate");
			count += 2;
			if (rc) {
				pull(p, len);
				count++;
			}
		}
		/* the second round has the opposite direction */
		p->client = !p->client;
	}
	if (rc) {
		atomics(p);
		lists(p);
	}
	peer_close(p);
	printf("verified %u messages\n", count);
}
