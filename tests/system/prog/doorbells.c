// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A device that has found a queue empty requests a doorbell, and checks the queue once more. A
 * consumer that posts at that moment either rings the doorbell, or the device detects the post,
 * because both have a full barrier between their store and their load. Without a barrier a request
 * would stay in the queue for ever.
 */
#include "local.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BURSTS	10000u
#define BURST	16u
#define DELAYS	400u	/* iterations of an empty loop, some microseconds under emulation */

/* Varies the delay, so that posts coincide with every step of the device. */
static void pause_for(uint64_t *state)
{
	for (volatile uint64_t n = rnd(state) % DELAYS; n; n--)
		;
}

static void requests(struct peer *p, uint64_t *state)
{
	for (uint32_t b = 0; b < BURSTS; b++) {
		for (uint32_t n = 0; n < BURST; n++) {
			send_post(p, IBV_WR_RDMA_WRITE, n, 0, 0, 0);
			pause_for(state);
		}
		for (uint32_t n = 0; n < BURST; n++)
			wc_expect(p->scq, n, IBV_WC_SUCCESS, "request");
	}
}

static void list_operations(struct peer *p, uint64_t *state)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 1, .max_sge = 1 }, .pd = p->pd, .cq = p->rcq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM, .tm_cap = { .max_num_tags = 1, .max_ops = BURST },
	};
	struct ibv_srq *srq = ibv_create_srq_ex(p->ctx, &init);
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_SYNC }, *bad;

	if (!srq)
		fail("ibv_create_srq_ex: %s", strerror(errno));
	for (uint32_t b = 0; b < BURSTS; b++) {
		for (uint32_t n = 1; n <= BURST; n++) {
			wr.wr_id = n;
			wr.flags = n == BURST ? IBV_OPS_SIGNALED : 0;
			if (ibv_post_srq_ops(srq, &wr, &bad))
				fail("list operation: %s", strerror(errno));
			pause_for(state);
		}
		wc_expect(p->rcq, BURST, IBV_WC_SUCCESS, "list operation");
	}
	ibv_destroy_srq(srq);
}

void doorbells_main(void)
{
	struct peer p = { .sock = -1 };
	uint64_t state = 1;

	peer_open(&p, IBV_QPT_RC);
	peer_connect(&p);
	list_operations(&p, &state);
	requests(&p, &state);
	peer_close(&p);
	printf("every post was seen\n");
}
