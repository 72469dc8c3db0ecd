// SPDX-License-Identifier: GPL-2.0-or-later
/* A program whose device is removed: it gets the event and errors, and ends regularly. */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK	65536u

/* Whether the program got the event of a removed device; other events are ignored. */
static bool told(struct ibv_context *ctx)
{
	struct ibv_async_event ev;
	bool fatal = false;

	while (!ibv_get_async_event(ctx, &ev)) {
		fatal |= ev.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&ev);
	}
	return fatal;
}

/* Writes to itself until then; completions may stop earlier, or have errors. */
static unsigned int traffic(struct peer *p)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, BLOCK, p->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { p->me.addr + PEER_BUF / 2, p->me.rkey },
	};
	bool under_way = false, works = true;
	int64_t last = ms_now();
	unsigned int n = 0;
	struct ibv_wc wc;

	while (!told(p->ctx)) {
		if (works && !under_way) {
			fill(p->buf, BLOCK, n);
			works = under_way = !ibv_post_send(p->qp, &wr, &bad);
		}
		if (under_way && wc_get(p->scq, &wc, 10)) {
			under_way = false;
			works = wc.status == IBV_WC_SUCCESS;
			if (works)
				check(p->buf + PEER_BUF / 2, BLOCK, n++, "WRITE");
			if (n == 1)
				printf("streaming\n");
			last = ms_now();
		}
		if (ms_now() - last > 60000)
			fail("after %u blocks: no completion, nor word of the device", n);
	}
	return n;
}

void lost_main(void)
{
	struct peer p = { .sock = -1 };
	unsigned int n;

	/* destroying an object of a removed device is no error */
	setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1);
	peer_open(&p, IBV_QPT_RC);
	peer_connect(&p);
	n = traffic(&p);
	if (ibv_create_cq(p.ctx, 16, NULL, NULL, 0) || errno != EIO)
		fail("a CQ of a device that is gone: %s", strerror(errno));
	if (ibv_reg_mr(p.pd, p.buf, 4096, 0) || errno != EIO)
		fail("a MR of a device that is gone: %s", strerror(errno));
	peer_close(&p);
	printf("lost the device after %u blocks\n", n);
}
