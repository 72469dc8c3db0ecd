// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A process without privileges that keeps the device as busy as it can, for a time. It prints
 * "attacking" after its begin, and its number of operations at the end.
 *
 * spin: uses the processor but not the device, as a baseline
 * err: keeps the send queue of a QP in ERR full
 * index: the same by its own doorbell record, where every second index is invalid
 */
#include "raw.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define DEPTH	1024u
#define TURN	4096u	/* operations between two checks of the clock */

static uint64_t spin(int64_t end)
{
	volatile uint64_t n = 0;

	while (ms_now() < end)
		for (unsigned int i = 0; i < TURN; i++)
			n++;
	return n;
}

/* Polls the available completions; each must be a flushed one. */
static unsigned int reap(struct ibv_cq *cq)
{
	struct ibv_wc wc[64];
	int n = ibv_poll_cq(cq, 64, wc);

	if (n < 0)
		fail("ibv_poll_cq: %d", n);
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_WR_FLUSH_ERR)
			fail("%s instead of a flush", ibv_wc_status_str(wc[i].status));
	return (unsigned int)n;
}

static uint64_t err(int64_t end)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };
	struct peer p = { .sock = -1, .client = true };
	struct ibv_qp *qp;
	uint64_t n = 0;
	int ret;

	peer_open(&p, IBV_QPT_RC);
	init.send_cq = ibv_create_cq(p.ctx, DEPTH, NULL, NULL, 0);
	init.recv_cq = init.send_cq;
	if (!init.send_cq)
		fail("ibv_create_cq: %s", strerror(errno));
	qp = peer_qp_of(&p, p.pd, &init);
	qp_to_err(qp);
	printf("attacking\n");
	while (ms_now() < end) {
		for (unsigned int i = 0; i < TURN; i++) {
			ret = ibv_post_send(qp, &wr, &bad);
			if (ret && ret != ENOMEM)
				fail("ibv_post_send: %s", strerror(ret));
			if (ret)
				n += reap(init.send_cq);
		}
	}
	ibv_destroy_qp(qp);
	ibv_destroy_cq(init.send_cq);
	peer_close(&p);
	return n;
}

static uint64_t rewrite(int64_t end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	uint64_t n = 0;
	struct raw r;

	raw_open(&r);
	if (ibv_query_qp(r.p.qp, &attr, IBV_QP_CAP, &init))
		fail("ibv_query_qp: %s", strerror(errno));
	qp_to_err(r.p.qp);
	printf("attacking\n");
	while (ms_now() < end) {
		for (unsigned int i = 0; i < TURN; i++) {
			uint32_t pi = r.pi + attr.cap.max_send_wr;

			*(volatile uint32_t *)&raw_db(&r)->sq_pi = i & 1 ? pi : pi + 100000;
			atomic_thread_fence(memory_order_seq_cst);
			raw_ring(r.uar, OHCA_UAR_SQ, r.p.qp->qp_num, pi);
			r.pi += reap(r.p.scq);
			n++;
		}
	}
	raw_close(&r);
	return n;
}

void attack_main(const char *how, double seconds)
{
	int64_t end = ms_now() + (int64_t)(seconds * 1000);
	uint64_t n;

	if (!strcmp(how, "spin")) {
		printf("attacking\n");
		n = spin(end);
	} else if (!strcmp(how, "err")) {
		n = err(end);
	} else if (!strcmp(how, "index")) {
		n = rewrite(end);
	} else {
		fail("no such attack: %s", how);
	}
	printf("%s: %llu times\n", how, (unsigned long long)n);
}
