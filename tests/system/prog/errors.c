// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every completion error that one side can cause on the other, or on itself. The client is the
 * requester. Afterwards a queue pair without errors must still work.
 */
#include "peer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct ibv_send_wr write_wr(struct peer *p, struct ibv_sge *sge, enum ibv_wr_opcode op,
				   uint64_t raddr, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	};

	return wr;
}

/* The requester's QP is in ERR: posted requests are flushed. */
static void flushed(struct peer *p, struct ibv_cq *cq, bool send)
{
	if (qp_state(p->qp) != IBV_QPS_ERR)
		fail("the QP is in state %d instead of ERR", qp_state(p->qp));
	if (send)
		send_post(p, IBV_WR_SEND, 90, 0, 8, 0);
	else
		recv_post(p, 90, 0, 8);
	wc_expect(cq, 90, IBV_WC_WR_FLUSH_ERR, "posted in ERR");
}

static void alive(struct peer *p)
{
	if (qp_state(p->qp) != IBV_QPS_RTS)
		fail("the QP is in state %d instead of RTS", qp_state(p->qp));
}

/* An RDMA operation with wrong rights, key, bounds or length. */
static void rdma(struct peer *p, enum ibv_wr_opcode op, uint64_t raddr, uint32_t rkey, uint32_t len,
		 enum ibv_wc_status want, enum ibv_event_type event)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, len, p->mr->lkey };
	struct ibv_send_wr wr = write_wr(p, &sge, op, raddr, rkey);

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	}
	memset(p->buf, p->client ? 0x11 : 0x22, PEER_BUF);
	if (!p->client)
		recv_post(p, 5, 0, 64);
	sync_at(p, 1);
	if (p->client) {
		send_post_raw(p, &wr);
		wc_expect(p->scq, 1, want, "bad RDMA");
		flushed(p, p->scq, true);
	} else {
		event_expect(p->ctx, event);
		wc_expect(p->rcq, 5, IBV_WC_WR_FLUSH_ERR, "receive after bad RDMA");
		flushed(p, p->rcq, false);
	}
	sync_at(p, 2);
	for (uint32_t i = 0; i < PEER_BUF; i++)
		if (p->buf[i] != (p->client ? 0x11 : 0x22))
			fail("byte %u was written", i);
	for (uint32_t i = 0; i < PEER_BUF; i++)
		if (p->buf2[i] || p->buf_ro[i])
			fail("byte %u of other memory was written", i);
}

static void rem_access_key(struct peer *p)
{
	rdma(p, IBV_WR_RDMA_WRITE, p->you.addr, p->you.rkey ^ 0x5a00, 64, IBV_WC_REM_ACCESS_ERR,
	     IBV_EVENT_QP_ACCESS_ERR);
}

static void rem_access_pd(struct peer *p)
{
	rdma(p, IBV_WR_RDMA_WRITE, p->you.other_addr, p->you.other_rkey, 64, IBV_WC_REM_ACCESS_ERR,
	     IBV_EVENT_QP_ACCESS_ERR);
}

static void rem_access_right(struct peer *p)
{
	rdma(p, IBV_WR_RDMA_WRITE, p->you.ro_addr, p->you.ro_rkey, 64, IBV_WC_REM_ACCESS_ERR,
	     IBV_EVENT_QP_ACCESS_ERR);
}

static void rem_access_bounds(struct peer *p)
{
	rdma(p, IBV_WR_RDMA_WRITE, p->you.addr + PEER_BUF - 63, p->you.rkey, 64,
	     IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void rem_access_read(struct peer *p)
{
	rdma(p, IBV_WR_RDMA_READ, p->you.addr - 1, p->you.rkey, 64, IBV_WC_REM_ACCESS_ERR,
	     IBV_EVENT_QP_ACCESS_ERR);
}

static void rem_inv_req_align(struct peer *p)
{
	rdma(p, IBV_WR_ATOMIC_FETCH_AND_ADD, p->you.addr + 4, p->you.rkey, 8,
	     IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

/* A message longer than the posted buffer. */
static void rem_inv_req_length(struct peer *p)
{
	memset(p->buf, 0x22, PEER_BUF);
	if (!p->client)
		recv_post(p, 5, 0, 100);
	sync_at(p, 1);
	if (p->client) {
		send_post(p, IBV_WR_SEND, 1, 0, 101, 0);
		wc_expect(p->scq, 1, IBV_WC_REM_INV_REQ_ERR, "long SEND");
		flushed(p, p->scq, true);
	} else {
		wc_expect(p->rcq, 5, IBV_WC_LOC_LEN_ERR, "long SEND");
		flushed(p, p->rcq, false);
	}
	sync_at(p, 2);
	for (uint32_t i = 100; i < 4096; i++)
		if (p->buf[i] != 0x22)
			fail("byte %u was written", i);
}

/* The responder's own receive WQE is invalid. */
static void rem_op(struct peer *p)
{
	struct ibv_sge sge = { (uintptr_t)p->buf2, 64, p->mr2->lkey };
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (!p->client && ibv_post_recv(p->qp, &wr, &bad))
		fail("ibv_post_recv");
	sync_at(p, 1);
	if (p->client) {
		send_post(p, IBV_WR_SEND, 1, 0, 64, 0);
		wc_expect(p->scq, 1, IBV_WC_REM_OP_ERR, "SEND to a bad receive");
		flushed(p, p->scq, true);
	} else {
		wc_expect(p->rcq, 5, IBV_WC_LOC_PROT_ERR, "bad receive");
		flushed(p, p->rcq, false);
	}
}

static void rnr_retry(struct peer *p)
{
	uint64_t before = p->client ? 0 : hw_counter(p->ctx, "rnr_nak_tx");

	sync_at(p, 1);
	if (p->client) {
		send_post(p, IBV_WR_SEND, 1, 0, 64, 0);
		wc_expect(p->scq, 1, IBV_WC_RNR_RETRY_EXC_ERR, "SEND without a receive");
		flushed(p, p->scq, true);
	}
	sync_at(p, 2);
	if (!p->client) {
		uint64_t n = hw_counter(p->ctx, "rnr_nak_tx") - before;

		/* the first try and rnr_retry more */
		if (n != 3)
			fail("%llu RNR NAKs instead of 3", (unsigned long long)n);
		alive(p);
	}
}

/* The same, but the receive is posted in time: no error. */
static void rnr_late(struct peer *p)
{
	sync_at(p, 1);
	if (p->client) {
		fill(p->buf, 5000, 7);
		send_post(p, IBV_WR_SEND, 1, 0, 5000, 0);
		wc_expect(p->scq, 1, IBV_WC_SUCCESS, "SEND with a late receive");
	} else {
		usleep(100000);
		recv_post(p, 5, 0, 5000);
		wc_expect(p->rcq, 5, IBV_WC_SUCCESS, "late receive");
		check(p->buf, 5000, 7, "late receive");
	}
	sync_at(p, 2);
	alive(p);
}

/* No response arrives. */
static void retry(struct peer *p)
{
	uint64_t before = 0;

	if (!p->client) {
		ibv_destroy_qp(p->qp);
		p->qp = NULL;
		before = hw_counter(p->ctx, "rx_bad_qp");
	} else {
		before = hw_counter(p->ctx, "retry_exceeded_err");
	}
	sync_at(p, 1);
	if (p->client) {
		send_post(p, IBV_WR_RDMA_WRITE, 1, 0, 64, 0);
		send_post(p, IBV_WR_RDMA_WRITE, 2, 0, 64, 0);
		wc_expect(p->scq, 1, IBV_WC_RETRY_EXC_ERR, "WRITE to no QP");
		wc_expect(p->scq, 2, IBV_WC_WR_FLUSH_ERR, "the next");
		flushed(p, p->scq, true);
		if (hw_counter(p->ctx, "retry_exceeded_err") != before + 1)
			fail("retry_exceeded_err did not count");
	}
	sync_at(p, 2);
	if (!p->client && !counter_wait(p->ctx, "rx_bad_qp", before))
		fail("rx_bad_qp did not count");
}

/* A bad L_Key, bounds or access of the requester itself: the responder receives nothing. */
static void local(struct peer *p, enum ibv_wr_opcode op, uint64_t addr, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = { addr, len, lkey };
	struct ibv_send_wr wr = write_wr(p, &sge, op, p->you.addr, p->you.rkey);

	memset(p->buf, p->client ? 0x11 : 0x22, PEER_BUF);
	if (!p->client)
		recv_post(p, 5, 0, 64);
	sync_at(p, 1);
	if (p->client) {
		uint64_t before = hw_counter(p->ctx, "wqe_local_err");

		send_post_raw(p, &wr);
		wc_expect(p->scq, 1, IBV_WC_LOC_PROT_ERR, "bad local memory");
		flushed(p, p->scq, true);
		if (hw_counter(p->ctx, "wqe_local_err") <= before)
			fail("wqe_local_err did not count");
	}
	sync_at(p, 2);
	for (uint32_t i = 0; i < PEER_BUF; i++)
		if (p->buf[i] != (p->client ? 0x11 : 0x22))
			fail("byte %u was written", i);
	if (!p->client)
		alive(p);
}

static void loc_prot_key(struct peer *p)
{
	local(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf, 64, p->mr->lkey ^ 0x5a00);
}

static void loc_prot_pd(struct peer *p)
{
	local(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->buf2, 64, p->mr2->lkey);
}

static void loc_prot_bounds(struct peer *p)
{
	local(p, IBV_WR_SEND, (uintptr_t)p->buf + PEER_BUF - 63, 64, p->mr->lkey);
}

static void loc_prot_right(struct peer *p)
{
	local(p, IBV_WR_RDMA_READ, (uintptr_t)p->buf_ro, 64, p->mr_ro->lkey);
}

/* A datagram longer than the MTU. */
static void loc_len(struct peer *p)
{
	sync_at(p, 1);
	if (p->client) {
		send_post(p, IBV_WR_SEND, 1, 0, 4097, 0);
		wc_expect(p->scq, 1, IBV_WC_LOC_LEN_ERR, "datagram of 4097 bytes");
	} else {
		recv_post(p, 5, 0, 8192);
		wc_none(p->rcq, 200, "datagram of 4097 bytes");
	}
	sync_at(p, 2);
}

/* When the QP moves to ERR, outstanding requests complete in order. */
static void flush(struct peer *p)
{
	if (p->client) {
		for (uint32_t i = 0; i < 20; i++)
			recv_post(p, 100 + i, 0, 64);
		qp_to_err(p->qp);
		for (uint32_t i = 0; i < 20; i++)
			send_post(p, IBV_WR_SEND, 200 + i, 0, 64, 0);
		for (uint32_t i = 0; i < 20; i++) {
			wc_expect(p->rcq, 100 + i, IBV_WC_WR_FLUSH_ERR, "receive");
			wc_expect(p->scq, 200 + i, IBV_WC_WR_FLUSH_ERR, "send");
		}
	}
	sync_at(p, 1);
	if (!p->client)
		alive(p);
}

/* A wrong Q_Key: the datagram is dropped and counted, without other effects. */
static void qkey(struct peer *p)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, 64, p->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = p->ah, .remote_qpn = p->you.qpn, .remote_qkey = 0x42 },
	};
	uint64_t before = hw_counter(p->ctx, "rx_bad_qkey");

	if (!p->client)
		recv_post(p, 5, 0, 256);
	sync_at(p, 1);
	if (p->client) {
		send_post_raw(p, &wr);
		wc_expect(p->scq, 1, IBV_WC_SUCCESS, "datagram with a wrong Q_Key");
	}
	sync_at(p, 2);
	if (!p->client) {
		if (counter_wait(p->ctx, "rx_bad_qkey", before) != 1)
			fail("rx_bad_qkey did not count one");
		wc_none(p->rcq, 200, "datagram with a wrong Q_Key");
	}
	sync_at(p, 3);
	if (p->client) {
		send_post(p, IBV_WR_SEND, 2, 0, 64, 0);
		wc_expect(p->scq, 2, IBV_WC_SUCCESS, "datagram");
	} else {
		wc_expect(p->rcq, 5, IBV_WC_SUCCESS, "datagram");
	}
	sync_at(p, 4);
}

static const struct scenario scenarios[] = {
	{ "rem_access_key", rem_access_key, IBV_QPT_RC, false },
	{ "rem_access_pd", rem_access_pd, IBV_QPT_RC, false },
	{ "rem_access_right", rem_access_right, IBV_QPT_RC, false },
	{ "rem_access_bounds", rem_access_bounds, IBV_QPT_RC, false },
	{ "rem_access_read", rem_access_read, IBV_QPT_RC, false },
	{ "rem_inv_req_align", rem_inv_req_align, IBV_QPT_RC, false },
	{ "rem_inv_req_length", rem_inv_req_length, IBV_QPT_RC, false },
	{ "rem_op", rem_op, IBV_QPT_RC, false },
	{ "rnr_retry", rnr_retry, IBV_QPT_RC, true },
	{ "rnr_late", rnr_late, IBV_QPT_RC, false },
	{ "retry", retry, IBV_QPT_RC, true },
	{ "loc_prot_key", loc_prot_key, IBV_QPT_RC, false },
	{ "loc_prot_pd", loc_prot_pd, IBV_QPT_RC, false },
	{ "loc_prot_bounds", loc_prot_bounds, IBV_QPT_RC, false },
	{ "loc_prot_right", loc_prot_right, IBV_QPT_RC, false },
	{ "loc_len", loc_len, IBV_QPT_UD, false },
	{ "flush", flush, IBV_QPT_RC, false },
	{ "qkey", qkey, IBV_QPT_UD, false },
	{ NULL, NULL, 0, false },
};

/* One write in each direction over a new pair still works. */
static void aftermath(struct peer *p)
{
	p->timeout = 0;
	peer_open(p, IBV_QPT_RC);
	peer_connect(p);
	recv_post(p, 7, 4096, 1000);
	sync_at(p, 0xa0);
	fill(p->buf, 1000, 3);
	send_post(p, IBV_WR_SEND, 8, 0, 1000, 0);
	wc_expect(p->scq, 8, IBV_WC_SUCCESS, "afterwards");
	wc_expect(p->rcq, 7, IBV_WC_SUCCESS, "afterwards");
	check(p->buf + 4096, 1000, 3, "afterwards");
	sync_at(p, 0xa1);
	peer_close(p);
}

static void run(struct peer *p, const struct scenario *s)
{
	p->timeout = 0;
	if (s->impatient) {
		/* a late response must not cause a further RNR NAK or another error */
		p->timeout = s->run == rnr_retry ? 20 : 12;
		p->retry_cnt = 2;
		p->rnr_retry = 2;
		p->min_rnr_timer = 1;
	}
	peer_open(p, s->type);
	peer_connect(p);
	s->run(p);
	sync_at(p, 0xf0);
	peer_close(p);
	printf("done %s\n", s->name);
}

void errors_main(struct peer *p, const char *name)
{
	const struct scenario *lists[] = { scenarios, more_scenarios, tag_scenarios };
	bool all = !strcmp(name, "all"), found = all;

	for (unsigned int l = 0; l < 3; l++)
		for (const struct scenario *s = lists[l]; s->name; s++)
			if (all || !strcmp(name, s->name)) {
				run(p, s);
				found = true;
			}
	if (!found)
		fail("no such scenario: %s", name);
	aftermath(p);
	seen_print();
}
