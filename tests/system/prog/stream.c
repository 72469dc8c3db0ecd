// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Verified traffic over RC: the client writes a block and sends its number with a SEND; the server
 * compares and responds.
 */
#include "peer.h"

#include <stdio.h>
#include <unistd.h>

#define BLOCK	65536u
#define SRC	0u
#define DST	(PEER_BUF / 2)
#define MSG	(PEER_BUF - 4096)
#define DEPTH	16u
#define STOP	0xffffffffu

/* wr_id: a SEND with a number, a receive, a block, the last SEND, an empty WRITE */
enum { TOLD = 1, RECEIVE, WRITTEN, STOPPED, PROBE };

#define PROBE_MS	500

static bool ended(struct peer *p, const struct ibv_wc *wc, uint32_t blocks, int64_t last,
		  bool until_error)
{
	if (wc->status == IBV_WC_SUCCESS)
		return false;
	if (!until_error)
		fail("after %u blocks: %s", blocks, ibv_wc_status_str(wc->status));
	printf("error after %u blocks, %lld ms: %s\n", blocks, (long long)(ms_now() - last),
	       ibv_wc_status_str(wc->status));
	return true;
}

static void tell(struct peer *p, uint32_t number)
{
	*(volatile uint32_t *)(p->buf + MSG) = number;
	send_post(p, IBV_WR_SEND, number == STOP ? STOPPED : TOLD, MSG, 4, 0);
}

/*
 * Waits for the completion of @what. False: the traffic is over.
 *
 * A response may arrive before the completion of its SEND; then the next call gets that completion.
 */
static bool await(struct peer *p, uint64_t what, uint32_t blocks, bool until_error)
{
	struct ibv_cq *cq = what == RECEIVE ? p->rcq : p->scq;
	int64_t last = ms_now(), probed = last;
	struct ibv_wc wc;

	for (;;) {
		if (wc_get(p->scq, &wc, 0)) {
			if (ended(p, &wc, blocks, last, until_error))
				return false;
			if (wc.wr_id == what)
				return true;
		}
		if (cq == p->rcq && wc_get(p->rcq, &wc, 0)) {
			struct ibv_wc cause;

			/* the error of the send queue is the cause of a flushed receive */
			if (wc.status == IBV_WC_WR_FLUSH_ERR && wc_get(p->scq, &cause, 0) &&
			    cause.status != IBV_WC_SUCCESS)
				wc = cause;
			if (ended(p, &wc, blocks, last, until_error))
				return false;
			return true;
		}
		/* only a request detects that the peer has gone */
		if (cq == p->rcq && ms_now() - probed > PROBE_MS) {
			send_post(p, IBV_WR_RDMA_WRITE, PROBE, 0, 0, 0);
			probed = ms_now();
		}
		if (ms_now() - last > 30000)
			fail("after %u blocks: nothing comes any more", blocks);
	}
}

static uint32_t client(struct peer *p, double seconds, bool until_error)
{
	int64_t end = ms_now() + (int64_t)(seconds * 1000);
	uint32_t i;

	for (i = 0; ms_now() < end; i++) {
		fill(p->buf + SRC, BLOCK, i);
		recv_post(p, RECEIVE, MSG + 64, 4);
		send_post(p, IBV_WR_RDMA_WRITE, WRITTEN, SRC, BLOCK, DST);
		if (!await(p, WRITTEN, i, until_error))
			return i;
		tell(p, i);
		if (!await(p, RECEIVE, i, until_error))
			return i;
		if (*(volatile uint32_t *)(p->buf + MSG + 64) != i)
			fail("the answer to block %u is for another", i);
		if (i == 0)
			printf("streaming\n");
	}
	if (until_error)
		fail("%u blocks in %.1f s and no error", i, seconds);
	tell(p, STOP);
	await(p, STOPPED, i, false);
	return i;
}

static uint32_t server(struct peer *p, bool until_error)
{
	uint32_t i, number;

	for (i = 0;; i++) {
		if (!await(p, RECEIVE, i, until_error))
			return i;
		number = *(volatile uint32_t *)(p->buf + MSG + 64 + (i % DEPTH) * 64);
		if (number == STOP)
			return i;
		if (number != i)
			fail("block %u came when %u was due", number, i);
		check(p->buf + DST, BLOCK, i, "block");
		recv_post(p, RECEIVE, MSG + 64 + (i % DEPTH) * 64, 4);
		tell(p, i);
		if (i == 0)
			printf("streaming\n");
	}
}

void stream_main(struct peer *p, double seconds, bool until_error)
{
	uint32_t blocks;

	alarm((unsigned int)seconds + 60);
	p->retry_cnt = 7;
	p->rnr_retry = 7;
	p->min_rnr_timer = 12;
	p->timeout = until_error ? 14 : PEER_TIMEOUT;
	peer_open(p, IBV_QPT_RC);
	if (!p->client)
		for (uint32_t i = 0; i < DEPTH; i++)
			recv_post(p, RECEIVE, MSG + 64 + i * 64, 4);
	peer_connect(p);
	blocks = p->client ? client(p, seconds, until_error) : server(p, until_error);
	/* the other side reads the last response before the QP is destroyed */
	if (!until_error) {
		sync_at(p, 0xe0);
		peer_close(p);
	}
	printf("moved %u blocks\n", blocks);
}
