// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A process on a device that lies. It sends as many commands of all kinds and messages to itself as
 * it can. It expects nothing of a result, only that the next call is possible. It ends when its
 * device is removed.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEPTH		32u
#define OBJECTS		8u
#define FAILURES	200u	/* in a row: the device is unusable */
#define BATCHES		8u	/* of messages between two other operations */
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint8_t *buf;
static uint64_t dice;
static unsigned int failures;
static bool gone;

static uint32_t roll(uint32_t n)
{
	return (uint32_t)(rnd(&dice) % n);
}

/* Counts the result of a call that returns an errno. Return: whether it was 0. */
static bool ok(int rc)
{
	failures = rc ? failures + 1 : 0;
	gone |= failures > FAILURES;
	return !rc;
}

/* The same for a call that returns an object. */
static void *made(void *object)
{
	ok(object ? 0 : errno ? errno : EINVAL);
	return object;
}

static void events(void)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(ctx, &ev)) {
		gone |= ev.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&ev);
	}
}

/* ---- messages ------------------------------------------------------------------------------- */

static bool connect_again(void)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS,
	};
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = { .port_num = 1 },
	};
	struct ibv_port_attr port;

	if (!ok(ibv_query_port(ctx, 1, &port)) ||
	    !ok(ibv_modify_qp(qp, &reset, IBV_QP_STATE)) ||
	    !ok(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS)))
		return false;
	a.ah_attr.dlid = port.lid;
	if (!ok(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER)))
		return false;
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 4,
	};
	return ok(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Return: number of completions to expect; 0: the QP accepts no request. */
static int post(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct ibv_sge sge = { (uintptr_t)buf, 64, mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.opcode = ops[roll(sizeof(ops) / sizeof(ops[0]))],
		.wr.rdma = { (uintptr_t)buf + PEER_BUF / 2, mr->rkey },
	};
	bool receives = wr.opcode != IBV_WR_RDMA_WRITE && wr.opcode != IBV_WR_RDMA_READ;

	if (receives && ibv_post_recv(qp, &recv, &bad_recv))
		return 0;
	return ibv_post_send(qp, &wr, &bad) ? 0 : 1 + receives;
}

/* Replaces the queues. If there are no new ones, the old ones stay. */
static bool queues_anew(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 2 * DEPTH, .max_recv_wr = 2 * DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_cq *c = made(ibv_create_cq(ctx, 8 * DEPTH, NULL, channel, 0));
	struct ibv_qp *q;

	if (!c)
		return false;
	init.send_cq = c;
	init.recv_cq = c;
	q = made(ibv_create_qp(pd, &init));
	if (!q) {
		ok(ibv_destroy_cq(c));
		return false;
	}
	if (qp && ok(ibv_destroy_qp(qp)))
		ok(ibv_destroy_cq(cq));
	cq = c;
	qp = q;
	return connect_again();
}

/*
 * A QP that accepts no request, or does not complete, is connected again; the next time it is
 * replaced.
 */
static void messages(void)
{
	static bool again;
	int n = 1, got = 0, want = 0;
	struct ibv_cq *told;
	struct ibv_wc wc[16];
	int64_t end;
	void *arg;

	ibv_req_notify_cq(cq, 0);
	for (unsigned int i = 0; i < DEPTH && n; i++) {
		n = post();
		want += n;
	}
	for (end = ms_now() + 20; got < want && ms_now() < end;) {
		n = ibv_poll_cq(cq, 16, wc);
		if (n < 0 || n > 16)
			fail("ibv_poll_cq: %d", n);
		got += n;
		if (n)
			end = ms_now() + 20;
		else
			usleep(100);
	}
	while (!ibv_get_cq_event(channel, &told, &arg))
		ibv_ack_cq_events(told, 1);
	if (got >= want && want >= (int)DEPTH) {
		again = false;
		return;
	}
	again = again ? !queues_anew() : connect_again();
}

/* ---- commands ------------------------------------------------------------------------------- */

static void queries(void)
{
	struct ibv_device_attr_ex device;
	struct ibv_qp_init_attr init;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr;
	union ibv_gid gid;
	__be16 pkey;

	for (unsigned int i = 0; i < 10; i++) {
		ok(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_CAP, &init));
		ok(ibv_query_port(ctx, 1, &port));
	}
	ok(ibv_query_device_ex(ctx, NULL, &device));
	ok(ibv_query_gid(ctx, 1, (int)roll(4), &gid) ? errno : 0);
	ok(ibv_query_pkey(ctx, 1, (int)roll(4), &pkey) ? errno : 0);
}

static void counters(void)
{
	char text[64], path[256];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s",
		 ibv_get_device_name(ctx->device),
		 roll(2) ? "ports/1/counters/port_rcv_data" : "hw_counters/cmds");
	f = fopen(path, "r");
	if (f && !fgets(text, sizeof(text), f))
		failures++;
	if (f)
		fclose(f);
}

static void regions(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct ibv_mr *one[OBJECTS] = { NULL };
	struct ibv_dm *dm;
	struct ibv_mw *mw;
	unsigned int i;

	for (i = 0; i < OBJECTS && !gone; i++)
		one[i] = made(ibv_reg_mr(pd, buf + roll(PEER_BUF / 2), 1 + roll(PEER_BUF / 2),
					 ACCESS));
	for (i = 0; i < OBJECTS; i++) {
		if (one[i] && roll(2))
			ibv_rereg_mr(one[i], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf,
				     1 + roll(PEER_BUF), 0);
		if (one[i])
			ok(ibv_dereg_mr(one[i]));
	}
	mw = made(ibv_alloc_mw(pd, roll(2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2));
	if (mw)
		ok(ibv_dealloc_mw(mw));
	dm = made(ibv_alloc_dm(ctx, &attr));
	if (dm)
		ok(ibv_free_dm(dm));
}

static void queues(void)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 1 + roll(256), .max_sge = 1 } };
	struct ibv_qp_init_attr init = {
		.qp_type = roll(2) ? IBV_QPT_RC : IBV_QPT_UD,
		.cap = { .max_send_wr = 1 + roll(64), .max_recv_wr = 1 + roll(64),
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_srq_attr now = { .max_wr = 1 + roll(256) };
	struct ibv_pd *other = made(ibv_alloc_pd(ctx));
	struct ibv_cq *c = made(ibv_create_cq(ctx, 1 + (int)roll(256), NULL, channel, 0));
	struct ibv_srq *s = made(ibv_create_srq(pd, &sa));
	struct ibv_qp *q = NULL;

	init.send_cq = c;
	init.recv_cq = c;
	init.srq = roll(2) ? s : NULL;
	if (c)
		q = made(ibv_create_qp(pd, &init));
	if (s) {
		ok(ibv_modify_srq(s, &now, IBV_SRQ_MAX_WR));
		ok(ibv_query_srq(s, &now));
	}
	if (c)
		ok(ibv_resize_cq(c, 1 + (int)roll(512)));
	/* an object in use cannot be destroyed: after a lie some objects stay */
	if (q && ok(ibv_destroy_qp(q)))
		q = NULL;
	if (s && !q)
		ok(ibv_destroy_srq(s));
	if (c && !q)
		ok(ibv_destroy_cq(c));
	if (other)
		ok(ibv_dealloc_pd(other));
}

static bool begin(void)
{
	ctx = device_open();
	pd = ibv_alloc_pd(ctx);
	channel = ibv_create_comp_channel(ctx);
	buf = mmap(NULL, PEER_BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!pd || !channel || buf == MAP_FAILED)
		return false;
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	mr = ibv_reg_mr(pd, buf, PEER_BUF, ACCESS);
	return mr && queues_anew();
}

void deceived_main(double seconds)
{
	static void (*const work[])(void) = { queries, counters, regions, queues };
	int64_t end = ms_now() + (int64_t)(seconds * 1000);
	uint64_t n = 0;

	dice = (uint64_t)getpid() << 32 | (uint32_t)ms_now();
	if (!begin())
		fail("nothing to begin with: %s", strerror(errno));
	while (ms_now() < end && !gone) {
		for (unsigned int i = 0; i < BATCHES && !gone; i++)
			messages();
		work[roll(sizeof(work) / sizeof(work[0]))]();
		events();
		n++;
	}
	/* the kernel frees the objects */
	printf("deceived %llu times%s\n", (unsigned long long)n, gone ? ", gone" : "");
}
