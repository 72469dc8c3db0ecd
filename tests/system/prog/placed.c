// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Code that arrives by RDMA WRITE: the server calls a function, and the client writes a new version
 * of it each time. An emulated processor must not run its old translation.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>

#define VERSIONS	1000u
#define BYTES		4096u

/* Bytes of a function that returns @version. */
static uint32_t make_function(uint8_t *to, uint32_t version)
{
#if defined(__x86_64__)
	to[0] = 0xb8;			/* mov $version, %eax */
	memcpy(to + 1, &version, sizeof(version));
	to[5] = 0xc3;			/* ret */
	return 6;
#else
	(void)to;
	(void)version;
	fail("no function for this processor");
#endif
}

/* Another QP, whose receive queue completes in @rcq. */
static void renew(struct peer *p, struct ibv_cq *rcq)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = p->scq, .recv_cq = rcq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (ibv_destroy_qp(p->qp))
		fail("ibv_destroy_qp");
	p->qp = peer_qp_of(p, p->pd, &init);
	peer_reconnect(p, 0);
}

static void place(struct peer *p, const struct peer_info *to)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, 0, p->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = to->addr, .rkey = (uint32_t)to->rkey },
	};

	for (uint32_t n = 1; n <= VERSIONS; n++) {
		sync_at(p, n);
		sge.length = make_function(p->buf, n);
		wr.wr_id = n;
		wr.imm_data = htonl(n);
		send_post_raw(p, &wr);
		wc_expect(p->scq, n, IBV_WC_SUCCESS, "RDMA WRITE of a function");
	}
}

/* Waits for the interrupt that reports the next version. */
static void wait_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *arg;

	if (ibv_get_cq_event(channel, &cq, &arg))
		fail("ibv_get_cq_event: %s", strerror(errno));
	ibv_ack_cq_events(cq, 1);
}

/*
 * @sleeps: an interrupt reports each version, and no command or doorbell follows before the call.
 * Otherwise polling finds it, and a doorbell precedes the call. That is for a CQ without
 * completions, so it causes no interrupt.
 */
static void run(struct peer *p, struct ibv_comp_channel *channel, struct ibv_cq *cq,
		const void *code, bool sleeps)
{
	uint32_t (*function)(void);
	struct ibv_wc wc;

	memcpy(&function, &code, sizeof(function));
	recv_post(p, 1, 0, 0);
	for (uint32_t n = 1; n <= VERSIONS; n++) {
		uint32_t got;

		if (sleeps && ibv_req_notify_cq(cq, 0))
			fail("ibv_req_notify_cq: %s", strerror(errno));
		sync_at(p, n);
		if (sleeps)
			wait_event(channel);
		wc = wc_expect(cq, n, IBV_WC_SUCCESS, "a function");
		if (ntohl(wc.imm_data) != n)
			fail("version %u came as %u", n, ntohl(wc.imm_data));
		if (!sleeps && ibv_req_notify_cq(p->rcq, 0))
			fail("ibv_req_notify_cq: %s", strerror(errno));
		got = function();
		if (got != n)
			fail("version %u of the function returned %u", n, got);
		recv_post(p, n + 1, 0, 0);
	}
}

void placed_main(struct peer *p, const char *how)
{
	const bool sleeps = !strcmp(how, "event");
	struct ibv_comp_channel *channel;
	struct peer_info me = { 0 }, you;
	struct ibv_mr *mr = NULL;
	struct ibv_cq *cq;
	void *code;

	peer_open(p, IBV_QPT_RC);
	peer_connect(p);
	channel = ibv_create_comp_channel(p->ctx);
	cq = channel ? ibv_create_cq(p->ctx, 16, NULL, channel, 0) : NULL;
	if (!cq)
		fail("a CQ with a channel: %s", strerror(errno));
	code = mmap(NULL, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code != MAP_FAILED)
		mr = ibv_reg_mr(p->pd, code, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		fail("memory for code: %s", strerror(errno));
	me.addr = (uintptr_t)code;
	me.rkey = mr->rkey;
	tcp_swap(p, &me, &you, sizeof(me));
	renew(p, cq);
	if (p->client)
		place(p, &you);
	else
		run(p, channel, cq, code, sleeps);
	sync_at(p, VERSIONS + 1);
	if (!p->client)
		printf("ran %u versions\n", VERSIONS);
	if (ibv_destroy_qp(p->qp))
		fail("ibv_destroy_qp");
	p->qp = peer_qp(p, p->pd);
	if (ibv_dereg_mr(mr) || ibv_destroy_cq(cq) || ibv_destroy_comp_channel(channel))
		fail("what code came by is in use");
	munmap(code, BYTES);
	peer_close(p);
}
