// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Many CQs on few completion channels, and thousands of regions, as in key-value stores and proxies
 * of collectives. Each QP has a CQ of its own, each block of memory a region. A WRITE with
 * immediate data goes to each region; the event of its CQ reports it.
 */
#include "local.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHANNELS	8u
#define QPS		64u
#define REGIONS		4096u
#define BLOCK		4096u
#define LEN		200u
#define ROUND		(REGIONS / QPS)	/* messages of each QP */

static struct ibv_comp_channel *channel[CHANNELS];
static struct ibv_mr *mr[REGIONS];
static struct ibv_cq *cq[QPS];
static struct ibv_qp *qp[QPS], *stranger;	/* this one is connected to the peer's QP */
static unsigned int came[QPS], events;
static uint8_t *block, *source;

static void open_all(struct peer *p)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_RELAXED_ORDERING;
	struct ibv_port_attr port;
	struct peer_info self = {}, there;

	block = mmap(NULL, (size_t)REGIONS * BLOCK, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED || ibv_query_port(p->ctx, 1, &port))
		fail("memory, or no port: %s", strerror(errno));
	self.lid = port.lid;
	there = self;
	stranger = peer_qp(p, p->pd);
	self.qpn = p->qp->qp_num;
	there.qpn = stranger->qp_num;
	peer_rts(p, p->qp, &there, 0);
	peer_rts(p, stranger, &self, 0);
	for (unsigned int i = 0; i < CHANNELS; i++) {
		channel[i] = ibv_create_comp_channel(p->ctx);
		if (!channel[i])
			fail("ibv_create_comp_channel: %s", strerror(errno));
		fcntl(channel[i]->fd, F_SETFL, O_NONBLOCK);
	}
	for (unsigned int i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr init = {
			.qp_type = IBV_QPT_RC, .send_cq = p->scq,
			.cap = { .max_send_wr = ROUND, .max_recv_wr = ROUND, .max_send_sge = 1,
				 .max_recv_sge = 1 },
		};

		cq[i] = ibv_create_cq(p->ctx, (int)ROUND, &came[i], channel[i % CHANNELS],
				      (int)(i % (unsigned int)p->ctx->num_comp_vectors));
		if (!cq[i] || ibv_req_notify_cq(cq[i], 0))
			fail("CQ %u: %s", i, strerror(errno));
		init.recv_cq = cq[i];
		qp[i] = peer_qp_of(p, p->pd, &init);
		self.qpn = qp[i]->qp_num;
		peer_rts(p, qp[i], &self, 0);
		for (unsigned int k = 0; k < ROUND; k++) {
			struct ibv_recv_wr wr = { .wr_id = i }, *bad;

			if (ibv_post_recv(qp[i], &wr, &bad))
				fail("ibv_post_recv");
		}
	}
	for (unsigned int i = 0; i < REGIONS; i++) {
		mr[i] = ibv_reg_mr(p->pd, block + (size_t)i * BLOCK, BLOCK, access);
		if (!mr[i])
			fail("region %u: %s", i, strerror(errno));
	}
}

static void write_to(struct peer *p, unsigned int q, unsigned int region, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)source + region % QPS * LEN, LEN, p->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = region, .sg_list = &sge, .num_sge = 1, .imm_data = htonl(region),
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.wr.rdma = { (uintptr_t)block + (uint64_t)region * BLOCK + BLOCK - LEN, rkey },
	}, *bad;

	if (q == QPS)
		wr.send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(q == QPS ? p->qp : qp[q], &wr, &bad))
		fail("ibv_post_send");
}

/* Polls all completions of a CQ. Each names a region of this QP, in order. */
static void take(unsigned int q)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq[q], 1, &wc) > 0) {
		uint32_t region = ntohl(wc.imm_data);

		if (wc.status != IBV_WC_SUCCESS || wc.wr_id != q ||
		    wc.qp_num != qp[q]->qp_num || region != came[q] * QPS + q)
			fail("CQ %u: %s, QP %#x, region %u after %u", q,
			     ibv_wc_status_str(wc.status), wc.qp_num, region, came[q]);
		check(block + (size_t)region * BLOCK + BLOCK - LEN, LEN, 1000 + region % QPS,
		      "WRITE into a region of many");
		came[q]++;
	}
}

static void wait_all(void)
{
	const int64_t end = ms_now() + 60000;
	struct pollfd f[CHANNELS];
	unsigned int all = 0;
	struct ibv_cq *at;
	void *arg;

	while (all < REGIONS) {
		for (unsigned int i = 0; i < CHANNELS; i++)
			f[i] = (struct pollfd) { .fd = channel[i]->fd, .events = POLLIN };
		if (poll(f, CHANNELS, 20000) <= 0 || ms_now() > end)
			fail("%u of %u regions, and no event", all, REGIONS);
		for (unsigned int i = 0; i < CHANNELS; i++) {
			while (!ibv_get_cq_event(channel[i], &at, &arg)) {
				unsigned int q = (unsigned int)((unsigned int *)arg - came);

				if (q >= QPS || cq[q] != at || q % CHANNELS != i)
					fail("an event of a CQ of another channel");
				ibv_ack_cq_events(at, 1);
				events++;
				if (ibv_req_notify_cq(at, 0))
					fail("ibv_req_notify_cq");
				take(q);
			}
		}
		all = 0;
		for (unsigned int q = 0; q < QPS; q++)
			all += came[q];
	}
}

void channels_main(void)
{
	struct peer p = { .sock = -1, .client = true };

	peer_open(&p, IBV_QPT_RC);
	source = p.buf;
	for (unsigned int i = 0; i < QPS; i++)
		fill(source + i * LEN, LEN, 1000 + i);
	open_all(&p);
	for (unsigned int i = 0; i < REGIONS; i++)
		write_to(&p, i % QPS, i, mr[i]->rkey);
	wait_all();
	/* the key of another region gives no access */
	write_to(&p, QPS, 7, mr[8]->rkey);
	wc_expect(p.scq, 7, IBV_WC_REM_ACCESS_ERR, "a region by the key of another");
	for (unsigned int i = 0; i < REGIONS; i++)
		if (ibv_dereg_mr(mr[i]))
			fail("ibv_dereg_mr %u", i);
	for (unsigned int i = 0; i < QPS; i++)
		if (ibv_destroy_qp(qp[i]) || ibv_destroy_cq(cq[i]))
			fail("QP or CQ %u is not destroyed", i);
	if (ibv_destroy_qp(stranger))
		fail("ibv_destroy_qp");
	for (unsigned int i = 0; i < CHANNELS; i++)
		if (ibv_destroy_comp_channel(channel[i]))
			fail("channel %u is not destroyed", i);
	munmap(block, (size_t)REGIONS * BLOCK);
	peer_close(&p);
	printf("%u regions by %u CQs on %u channels, %u events\n", REGIONS, QPS, CHANNELS, events);
}
