/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Outstanding PSNs of an RC requester: fewer than half of all (9.7.2). */
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "rig.h"

#define MTU		256u
#define CHUNK		65536u		/* responses to one READ request, at most */
#define LEN		(CHUNK * MTU)
#define HALF		(1u << 23)
#define READS		128u		/* as many as may be outstanding */
#define STEPS		20000u		/* more than any test needs */

/** struct big - two QPs and regions that are large enough for READs of many packets */
struct big {
	struct rig r;
	struct host_mr mr[2];
	uint32_t asked, most, sends, responses, drop;
};

/* Counts requested responses, and SENDs, as they leave. */
static enum host_fate requests(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			       uint32_t len)
{
	struct ib_pkt_info i;
	struct big *b = arg;

	(void)from;
	(void)port;
	assert_int_equal(ib_hdr_parse(frame, len, len, 0, &i), 0);
	if (i.op->flags & IB_OPF_READ)
		b->asked += ib_be32(ib_pkt_reth(frame, &i)->dmalen) / MTU;
	else
		b->sends++;
	if (b->asked - b->responses > b->most)
		b->most = b->asked - b->responses;
	return HOST_DELIVER;
}

/* Drops response number @drop. */
static enum host_fate responses(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				uint32_t len)
{
	struct big *b = arg;

	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return ++b->responses == b->drop ? HOST_DROP : HOST_DELIVER;
}

static void up(struct big *b, uint32_t len)
{
	memset(b, 0, sizeof(*b));
	rig_up(&b->r, (struct rig_opt){ .mtu = 1, .log_sq = 10, .cold = true });
	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_hw_qp_attr a = rig_attr(&b->r, i);

		a.max_rd_atomic = a.max_dest_rd_atomic = READS;
		rig_connect(&b->r, i, a);
		host_mr_create(b->r.h[i], &b->mr[i], len, b->r.h[i]->pdn,
			       OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_READ);
	}
	host_hook_set(b->r.h[0], 0, requests, b);
	host_hook_set(b->r.h[1], 0, responses, b);
}

static void down(struct big *b)
{
	for (unsigned int i = 0; i < 2; i++)
		host_buf_free(&b->mr[i].buf);
	rig_down(&b->r);
}

static void read_all(struct big *b, uint64_t wr_id, uint32_t len)
{
	struct wqe w = wqe_new(OHCA_OP_RDMA_READ, OHCA_WQE_SIGNALED, wr_id);

	wqe_raddr(&w, b->mr[1].iova, b->mr[1].key);
	wqe_sge(&w, b->mr[0].iova, len, b->mr[0].key);
	wqe_post(&b->r.qp[0], &w);
}

static void test_reads(void **state)
{
	struct ohca_hw_cqe c;
	unsigned int n;
	struct big b;

	(void)state;
	up(&b, LEN);
	rig_recv(&b.r, 1, 5, 0, 100);
	for (unsigned int i = 0; i < READS; i++)
		read_all(&b, i, LEN);
	rig_send(&b.r, 0, 500, 0, 10);
	for (n = 0; n < 50; n++)
		host_step(b.r.h, 2);
	/* with one more, an expected response could not be told from a very old one */
	assert_in_range(b.most, HALF - 2 * CHUNK, HALF - 1);
	assert_int_equal(b.sends, 0);
	for (n = 0; n < STEPS && !host_cq_poll(&b.r.scq[0], &c); n++)
		host_step(b.r.h, 2);
	assert_in_range(n, 0, STEPS - 1);
	assert_int_equal(c.status, WC_SUCCESS);
	assert_int_equal(c.wr_id, 0);
	/* responses that arrived made room for the last request */
	assert_int_equal(b.asked, HALF);
	assert_in_range(b.most, 0, HALF - 1);
	down(&b);
}

/* A response is lost: the new request ends where the first one did. */
static void test_chunks(void **state)
{
	uint32_t len = LEN + 1000 * MTU;
	struct ohca_hw_cqe c;
	unsigned int n;
	struct big b;

	(void)state;
	up(&b, len);
	b.drop = 100;
	memset(host_ptr(b.r.h[1], b.mr[1].buf.page[0]), 0x5a, HOST_PAGE);
	memset(host_buf_ptr(b.r.h[1], &b.mr[1].buf, len - 1), 0x77, 1);
	read_all(&b, 1, len);
	for (n = 0; n < STEPS && !host_cq_poll(&b.r.scq[0], &c); n++)
		host_step(b.r.h, 2);
	assert_in_range(n, 0, STEPS - 1);
	assert_int_equal(c.status, WC_SUCCESS);
	assert_int_equal(*(uint8_t *)host_buf_ptr(b.r.h[0], &b.mr[0].buf, 0), 0x5a);
	assert_int_equal(*(uint8_t *)host_buf_ptr(b.r.h[0], &b.mr[0].buf, len - 1), 0x77);
	/* each request is a message for both sides */
	assert_int_equal(b.r.h[0]->e->qp[b.r.qp[0].handle]->xp->req.ssn, 2);
	assert_int_equal(b.r.h[1]->e->qp[b.r.qp[1].handle]->xp->resp.msn, 2);
	down(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_chunks),
	};

	return cmocka_run_group_tests_name("PSNs under way", tests, NULL, NULL);
}
