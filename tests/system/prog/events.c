// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Statuses and asynchronous events that the usual errors of errors.c do not cause. The client is
 * the requester.
 */
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ohca_hw.h"

#define RES_SRQ	2	/* resource_type of the provider's allocator calls */

/* ---- completions -------------------------------------------------------------------- */

static void next_state(struct ibv_qp *qp, struct ibv_qp_attr *a, enum ibv_qp_state state, int mask)
{
	int rc;

	a->qp_state = state;
	rc = ibv_modify_qp(qp, a, mask | IBV_QP_STATE);
	if (rc)
		fail("XRC initiator to state %d: %s", state, strerror(rc));
}

/* An XRC initiator uses an SRQ number of more than 24 bits. */
static void loc_qp_op(struct peer *p)
{
	struct ibv_qp_init_attr_ex qa = {
		.qp_type = IBV_QPT_XRC_SEND, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = p->pd,
		.send_cq = p->scq, .cap = { .max_send_wr = 1, .max_send_sge = 1 },
	};
	struct ibv_qp_attr a = {
		.port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = p->you.qpn,
		.ah_attr = { .dlid = p->you.lid, .port_num = 1 },
	};
	struct ibv_sge sge = { (uintptr_t)p->buf, 64, p->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = 1 << 24,
	}, *bad;
	struct ibv_qp *qp;
	int rc;

	if (p->client) {
		qp = ibv_create_qp_ex(p->ctx, &qa);
		if (!qp)
			fail("XRC initiator: %s", strerror(errno));
		next_state(qp, &a, IBV_QPS_INIT,
			   IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
		next_state(qp, &a, IBV_QPS_RTR,
			   IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
		next_state(qp, &a, IBV_QPS_RTS,
			   IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			   IBV_QP_MAX_QP_RD_ATOMIC);
		rc = ibv_post_send(qp, &wr, &bad);
		if (rc)
			fail("ibv_post_send: %s", strerror(rc));
		wc_expect(p->scq, 1, IBV_WC_LOC_QP_OP_ERR, "SRQ of 25 bits");
		if (ibv_destroy_qp(qp))
			fail("ibv_destroy_qp");
	}
	sync_at(p, 1);
}

/* A window on a region that does not allow binding. */
static void mw_bind(struct peer *p)
{
	struct ibv_mw *mw = ibv_alloc_mw(p->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw,
			.bind_info = { .mr = p->mr, .addr = (uintptr_t)p->buf, .length = 64,
				       .mw_access_flags = IBV_ACCESS_REMOTE_READ },
		},
	};

	if (!mw)
		fail("ibv_alloc_mw: %s", strerror(errno));
	if (p->client) {
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		send_post_raw(p, &wr);
		wc_expect(p->scq, 1, IBV_WC_MW_BIND_ERR, "bind without the right");
	}
	sync_at(p, 1);
	if (ibv_dealloc_mw(mw))
		fail("ibv_dealloc_mw");
}

void peer_reconnect(struct peer *p, uint16_t off)
{
	struct peer_info me = p->me, you;

	me.qpn = p->qp->qp_num;
	tcp_swap(p, &me, &you, sizeof(me));
	p->you = you;
	you.lid += off;
	peer_rts(p, p->qp, &you, me.psn);
}

static void renew(struct peer *p)
{
	if (ibv_destroy_qp(p->qp))
		fail("ibv_destroy_qp");
	p->qp = peer_qp(p, p->pd);
}

/* The responder's MTU is smaller than the requester's. */
static void bad_resp(struct peer *p)
{
	renew(p);
	p->mtu = p->client ? 0 : IBV_MTU_1024;
	peer_reconnect(p, 0);
	p->mtu = 0;
	sync_at(p, 2);
	if (p->client) {
		send_post(p, IBV_WR_RDMA_READ, 1, 0, 3000, 0);
		wc_expect(p->scq, 1, IBV_WC_BAD_RESP_ERR, "READ of another MTU");
	}
	sync_at(p, 1);
}

/* SEND with Invalidate of an invalid key: the receive fails, the sender's request succeeds. */
static void bad_invalidate(struct peer *p)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, 64, p->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV,
		.send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = 0xabcdef00,
	};

	if (!p->client)
		recv_post(p, 5, 0, 64);
	sync_at(p, 1);
	if (p->client) {
		send_post_raw(p, &wr);
		wc_expect(p->scq, 1, IBV_WC_SUCCESS, "SEND with a bad key to invalidate");
	} else {
		wc_expect(p->rcq, 5, IBV_WC_REM_INV_REQ_ERR, "SEND with a bad key to invalidate");
	}
	sync_at(p, 2);
}

/* The access of an RDMA WRITE with immediate data is refused: an error of the receive WQE. */
static void loc_access(struct peer *p)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, 64, p->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { p->you.ro_addr, (uint32_t)p->you.ro_rkey },
	};

	if (!p->client)
		recv_post(p, 5, 0, 64);
	sync_at(p, 1);
	if (p->client) {
		send_post_raw(p, &wr);
		wc_expect(p->scq, 1, IBV_WC_REM_ACCESS_ERR, "WRITE with immediate, no right");
	} else {
		wc_expect(p->rcq, 5, IBV_WC_LOC_ACCESS_ERR, "WRITE with immediate, no right");
	}
	sync_at(p, 2);
}

/*
 * The sender aborts a message half way, because the rest of its memory is invalid. The receiver
 * detects that when the next message begins; its buffer was from an SRQ.
 */
static void rem_abort(struct peer *p)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr qa = {
		.send_cq = p->scq, .recv_cq = p->rcq, .qp_type = IBV_QPT_UC,
		.cap = { .max_send_wr = 16, .max_send_sge = 2 },
	};
	struct ibv_sge sge[] = {
		{ (uintptr_t)p->buf, 16384, p->mr->lkey }, { (uintptr_t)p->buf, 64, 0xabcdef00 },
	};
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_recv_wr rwr = { .wr_id = 5, .sg_list = sge, .num_sge = 1 }, *bad;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	qa.srq = ibv_create_srq(p->pd, &sa);
	if (!qa.srq || ibv_destroy_qp(p->qp))
		fail("an SRQ instead of the QP: %s", strerror(errno));
	p->qp = peer_qp_of(p, p->pd, &qa);
	peer_reconnect(p, 0);
	for (; rwr.wr_id < 7; rwr.wr_id++)
		if (ibv_post_srq_recv(qa.srq, &rwr, &bad))
			fail("ibv_post_srq_recv");
	sync_at(p, 1);
	if (p->client) {
		send_post_raw(p, &wr);
		wc_expect(p->scq, 1, IBV_WC_LOC_PROT_ERR, "SEND from bad memory");
		if (ibv_modify_qp(p->qp, &attr, IBV_QP_STATE))
			fail("from SQE to RTS");
		send_post(p, IBV_WR_SEND, 2, 0, 64, 0);
		wc_expect(p->scq, 2, IBV_WC_SUCCESS, "the next SEND");
	} else {
		wc_expect(p->rcq, 5, IBV_WC_REM_ABORT_ERR, "half a message");
		wc_expect(p->rcq, 6, IBV_WC_SUCCESS, "the next message");
	}
	sync_at(p, 2);
	if (ibv_destroy_qp(p->qp) || ibv_destroy_srq(qa.srq))
		fail("destroying a QP and its SRQ");
	p->qp = NULL;
}

/* ---- events of queues ------------------------------------------------------------------ */

/* The first packet reaches a QP that is not yet in RTS. */
static void comm_est(struct peer *p)
{
	struct ibv_qp *qp = peer_qp(p, p->pd);
	struct peer_info me = p->me, you;
	struct ibv_sge sge = { (uintptr_t)p->buf, 64, p->mr->lkey };
	struct ibv_recv_wr rwr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad_r;
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	me.qpn = qp->qp_num;
	tcp_swap(p, &me, &you, sizeof(me));
	if (p->client)
		peer_rts(p, qp, &you, me.psn);
	else
		peer_rtr(p, qp, &you);
	if (!p->client && ibv_post_recv(qp, &rwr, &bad_r))
		fail("ibv_post_recv");
	sync_at(p, 1);
	if (p->client) {
		if (ibv_post_send(qp, &wr, &bad))
			fail("ibv_post_send");
		wc_expect(p->scq, 1, IBV_WC_SUCCESS, "SEND to a QP in RTR");
	} else {
		event_expect(p->ctx, IBV_EVENT_COMM_EST);
		wc_expect(p->rcq, 5, IBV_WC_SUCCESS, "receive in RTR");
	}
	sync_at(p, 2);
	if (ibv_destroy_qp(qp))
		fail("ibv_destroy_qp");
}

static void sq_drained(struct peer *p)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	if (!p->client)
		recv_post(p, 5, 0, 64);
	sync_at(p, 1);
	if (p->client) {
		send_post(p, IBV_WR_SEND, 1, 0, 64, 0);
		if (ibv_modify_qp(p->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY))
			fail("to SQD");
		event_expect(p->ctx, IBV_EVENT_SQ_DRAINED);
		/* it was sent before SQD, or waits for RTS */
		attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
		if (ibv_modify_qp(p->qp, &attr, IBV_QP_STATE))
			fail("back to RTS");
		wc_expect(p->scq, 1, IBV_WC_SUCCESS, "SEND around SQD");
	} else {
		wc_expect(p->rcq, 5, IBV_WC_SUCCESS, "receive around SQD");
	}
	sync_at(p, 2);
}

/* An event of @ch must come, at least @least ms after @begin. */
static void comp_event(struct ibv_comp_channel *ch, int64_t begin, int least)
{
	struct pollfd f = { .fd = ch->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (poll(&f, 1, 10000) != 1 || ibv_get_cq_event(ch, &cq, &context))
		fail("a completion event does not come");
	if (ms_now() - begin < least)
		fail("a completion event after %d ms", (int)(ms_now() - begin));
	ibv_ack_cq_events(cq, 1);
}

/* A single completion causes an event at the end of the period; clocks may differ. */
static void moderation(struct peer *p)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = 100, .cq_period = 60000 },
	};
	struct ibv_comp_channel *ch = ibv_create_comp_channel(p->ctx);
	struct ibv_cq *old = p->rcq, *cq = ibv_create_cq(p->ctx, 16, NULL, ch, 0);
	int64_t begin;

	if (!cq)
		fail("ibv_create_cq: %s", strerror(errno));
	p->rcq = cq;
	renew(p);
	peer_reconnect(p, 0);
	for (int i = 0; i < 2; i++) {
		recv_post(p, 5, 0, 64);
		/*
		 * the second command is executed after the doorbell: the CQ is armed when the SEND
		 * arrives
		 */
		if (ibv_modify_cq(cq, &attr) || ibv_req_notify_cq(cq, 0) || ibv_modify_cq(cq, &attr))
			fail("moderation of a CQ");
		sync_at(p, 1);
		begin = ms_now();
		sync_at(p, 2);
		if (p->client) {
			send_post(p, IBV_WR_SEND, 1, 0, 64, 0);
			wc_expect(p->scq, 1, IBV_WC_SUCCESS, "SEND to a moderated CQ");
		} else {
			comp_event(ch, begin, i ? 0 : 55);
			wc_expect(p->rcq, 5, IBV_WC_SUCCESS, "receive in a moderated CQ");
		}
		/* then without moderation */
		attr.moderate.cq_count = attr.moderate.cq_period = 0;
	}
	if (ibv_destroy_qp(p->qp) || ibv_destroy_cq(cq) || ibv_destroy_comp_channel(ch))
		fail("destroying a moderated CQ");
	p->qp = NULL;
	p->rcq = old;
}

/* More completions than the CQ can hold. */
static void cq_err(struct peer *p)
{
	struct ibv_cq *old = p->rcq;

	if (p->client) {
		sync_at(p, 1);
		return;
	}
	p->rcq = ibv_create_cq(p->ctx, 1, NULL, NULL, 0);
	if (!p->rcq)
		fail("ibv_create_cq: %s", strerror(errno));
	renew(p);
	for (uint32_t i = 0; i < 16; i++)
		recv_post(p, 100 + i, 0, 64);
	qp_to_err(p->qp);	/* 16 flushes */
	event_expect(p->ctx, IBV_EVENT_CQ_ERR);
	if (ibv_destroy_qp(p->qp) || ibv_destroy_cq(p->rcq))
		fail("destroying what has failed");
	p->qp = NULL;
	p->rcq = old;
	sync_at(p, 1);
}

/* A message for whose completion the CQ has no room. */
static void qp_fatal(struct peer *p)
{
	struct ibv_cq *old = p->rcq, *cq = ibv_create_cq(p->ctx, 1, NULL, NULL, 0);
	struct ibv_wc wc;
	uint32_t i, n = 0;

	if (!cq)
		fail("ibv_create_cq: %s", strerror(errno));
	p->rcq = cq;
	renew(p);
	peer_reconnect(p, 0);
	if (!p->client)
		for (i = 0; i < 16; i++)
			recv_post(p, 100 + i, 0, 64);
	sync_at(p, 1);
	if (p->client) {
		for (i = 0; i < 16; i++)
			send_post(p, IBV_WR_SEND, i, 0, 64, 0);
		while (n < 16 && wc_get(p->scq, &wc, 10000))
			n++;
		if (n != 16 || wc.status == IBV_WC_SUCCESS)
			fail("%u SENDs completed, the last with %s", n,
			     ibv_wc_status_str(wc.status));
	} else {
		event_expect(p->ctx, IBV_EVENT_QP_FATAL);
	}
	sync_at(p, 2);
	if (ibv_destroy_qp(p->qp) || ibv_destroy_cq(cq))
		fail("destroying what has failed");
	p->qp = NULL;
	p->rcq = old;
}

/* ---- shared receive queues ---------------------------------------------------------------- */

static uint8_t *srq_mem;
static size_t srq_size;

static void *alloc(struct ibv_pd *pd, void *arg, size_t size, size_t alignment, uint64_t type)
{
	void *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED || type != RES_SRQ)
		return NULL;
	srq_mem = m;
	srq_size = size;
	return m;
}

static void release(struct ibv_pd *pd, void *arg, void *ptr, uint64_t type)
{
	munmap(ptr, srq_size);
}

/* Limit reached, the last WQE of a QP, and a queue that its owner has corrupted. */
static void srq(struct peer *p)
{
	struct ibv_parent_domain_init_attr init = {
		.pd = p->pd, .alloc = alloc, .free = release,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
	};
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_qp_init_attr qa = {
		.send_cq = p->scq, .recv_cq = p->rcq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
	};
	struct ibv_sge sge = { (uintptr_t)p->buf, 64, p->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_pd *parent = ibv_alloc_parent_domain(p->ctx, &init);
	struct ohca_hw_db *db;
	struct ibv_srq *q;

	if (!parent)
		fail("ibv_alloc_parent_domain: %s", strerror(errno));
	q = ibv_create_srq(parent, &sa);
	if (!q || !srq_mem)
		fail("ibv_create_srq: %s", strerror(errno));
	db = (struct ohca_hw_db *)srq_mem;
	if (ibv_destroy_qp(p->qp))
		fail("ibv_destroy_qp");
	if (!p->client)
		qa.srq = q;
	else
		qa.cap.max_recv_wr = qa.cap.max_recv_sge = 1;
	p->qp = peer_qp_of(p, p->pd, &qa);
	peer_reconnect(p, 0);
	for (int i = 0; i < 2 && !p->client; i++)
		if (ibv_post_srq_recv(q, &wr, &bad))
			fail("ibv_post_srq_recv");
	if (!p->client && ibv_modify_srq(q, &limit, IBV_SRQ_LIMIT))
		fail("ibv_modify_srq");
	sync_at(p, 1);
	if (p->client) {
		send_post(p, IBV_WR_SEND, 1, 0, 64, 0);
		wc_expect(p->scq, 1, IBV_WC_SUCCESS, "SEND to an SRQ");
	} else {
		event_expect(p->ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
		wc_expect(p->rcq, 5, IBV_WC_SUCCESS, "receive from an SRQ");
		/* far more posted than the queue can hold */
		db->rq_pi += 1 << 20;
	}
	sync_at(p, 2);
	if (p->client) {
		send_post(p, IBV_WR_SEND, 2, 0, 64, 0);
		wc_expect(p->scq, 2, IBV_WC_REM_OP_ERR, "SEND to a spoilt SRQ");
	} else {
		event_expect(p->ctx, IBV_EVENT_SRQ_ERR);
		event_expect(p->ctx, IBV_EVENT_QP_FATAL);
		event_expect(p->ctx, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
	sync_at(p, 3);
	if (ibv_destroy_qp(p->qp) || ibv_destroy_srq(q) || ibv_dealloc_pd(parent))
		fail("destroying an SRQ");
	p->qp = NULL;
	srq_mem = NULL;
}

/* ---- paths -------------------------------------------------------------------------------- */

static void load_alt(struct peer *p, uint16_t lid)
{
	struct ibv_qp_attr a = {
		.alt_ah_attr = { .dlid = lid, .port_num = 1 }, .alt_port_num = 1,
		.alt_timeout = 14, .path_mig_state = IBV_MIG_REARM,
	};
	int rc = ibv_modify_qp(p->qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);

	if (rc)
		fail("alternate path: %s", strerror(rc));
}

/* Migration to the alternate path, which has the same addresses. */
static void path_mig(struct peer *p)
{
	struct ibv_qp_attr a = { .path_mig_state = IBV_MIG_MIGRATED };

	for (uint32_t i = 0; i < 2; i++)
		recv_post(p, 10 + i, 0, 64);
	load_alt(p, p->you.lid);
	sync_at(p, 1);
	/* each side learns that the other is armed */
	send_post(p, IBV_WR_SEND, 1, 64, 64, 0);
	wc_expect(p->scq, 1, IBV_WC_SUCCESS, "SEND before migration");
	wc_expect(p->rcq, 10, IBV_WC_SUCCESS, "receive before migration");
	sync_at(p, 2);
	if (p->client && ibv_modify_qp(p->qp, &a, IBV_QP_PATH_MIG_STATE))
		fail("to migrate");
	if (p->client)
		event_expect(p->ctx, IBV_EVENT_PATH_MIG);
	sync_at(p, 3);
	send_post(p, IBV_WR_SEND, 2, 64, 64, 0);
	wc_expect(p->scq, 2, IBV_WC_SUCCESS, "SEND after migration");
	wc_expect(p->rcq, 11, IBV_WC_SUCCESS, "receive after migration");
	sync_at(p, 4);
}

/* The peer signals a migration to a path that was not loaded. */
static void path_mig_err(struct peer *p)
{
	renew(p);
	peer_reconnect(p, p->client ? 0 : 1000);
	if (!p->client)
		load_alt(p, (uint16_t)(p->you.lid + 1000));
	sync_at(p, 1);
	if (p->client) {
		send_post(p, IBV_WR_RDMA_WRITE, 1, 0, 64, 0);
		wc_expect(p->scq, 1, IBV_WC_RETRY_EXC_ERR, "WRITE over another path");
	} else {
		event_expect(p->ctx, IBV_EVENT_PATH_MIG_ERR);
	}
	sync_at(p, 2);
}

const struct scenario more_scenarios[] = {
	{ "loc_qp_op", loc_qp_op, IBV_QPT_RC, false },
	{ "mw_bind", mw_bind, IBV_QPT_RC, false },
	{ "bad_resp", bad_resp, IBV_QPT_RC, false },
	{ "bad_invalidate", bad_invalidate, IBV_QPT_RC, false },
	{ "loc_access", loc_access, IBV_QPT_RC, false },
	{ "rem_abort", rem_abort, IBV_QPT_UC, false },
	{ "comm_est", comm_est, IBV_QPT_RC, false },
	{ "sq_drained", sq_drained, IBV_QPT_RC, false },
	{ "moderation", moderation, IBV_QPT_RC, false },
	{ "cq_err", cq_err, IBV_QPT_RC, true },
	{ "qp_fatal", qp_fatal, IBV_QPT_RC, true },
	{ "srq", srq, IBV_QPT_RC, false },
	{ "path_mig", path_mig, IBV_QPT_RC, false },
	{ "path_mig_err", path_mig_err, IBV_QPT_RC, true },
	{ NULL, NULL, 0, false },
};
