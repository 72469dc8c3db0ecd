/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SRQs that move to new buffers while messages arrive: basic and XRC ones at any position of a
 * message, those with tags during list operations. test_srq.c has the commands that are refused.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/object/tm.h"
#include "rig.h"

#define MESSAGES	600u
#define LEN		2500u	/* three packets */
#define MATCH		32u	/* enum ibv_wc_flags */
#define VALID		64u

static uint32_t seed;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

/* Messages stop in the middle, and continue after a timeout. */
static enum host_fate lossy(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return rnd(8) ? HOST_DELIVER : HOST_DROP;
}

static void traffic(struct rig_opt opt)
{
	uint32_t sent = 0, posted = 0, got = 0, sizes = 0, refused = 0, pi;
	struct host_srq *srq;
	struct rig r;

	rig_up(&r, opt);
	srq = &r.srq[1];
	if (!opt.loop)
		host_hook_set(r.h[0], 0, lossy, NULL);
	for (uint32_t step = 0; got < MESSAGES; step++) {
		const struct ohca_hw_db *db = host_buf_ptr(srq->h, &srq->buf, 0);
		struct ohca_hw_cqe c;
		uint8_t log = (uint8_t)rnd(7);
		uint32_t held = posted - db->rq_ci;
		int rc;

		if (step > 100 * MESSAGES)
			fail_msg("%u posted, %u sent, %u received", posted, sent, got);
		for (uint32_t n = rnd(4); n && held < 1u << srq->log && posted - got < 60;
		     n--, held++, posted++)
			rig_recv(&r, 1, posted, (uint64_t)(posted % 64) * LEN, LEN);
		/* never more than can be received, so no QP waits for an RNR timer */
		if (sent < posted && sent < MESSAGES && sent - got < 16) {
			rig_fill(&r, 0, (uint64_t)(sent % 16) * LEN, LEN, sent);
			rig_send(&r, 0, sent, (uint64_t)(sent % 16) * LEN, LEN);
			sent++;
		}
		host_step(r.h, r.nh);
		if (step % 16 == 15)
			rig_time(&r, 1);
		rc = host_srq_resize(srq, log, 0, 0, &pi);
		if (rc) {
			assert_int_equal(rc, OHCA_ADMIN_BAD_PARAM);
			assert_true(held > 1u << log);
			refused++;
		} else {
			assert_int_equal(pi, posted);
			sizes++;
		}
		while (host_cq_poll(&r.rcq[1], &c)) {
			assert_int_equal(c.status, WC_SUCCESS);
			assert_int_equal(c.wr_id, got);
			assert_int_equal(c.byte_len, LEN);
			rig_check(&r, 1, (uint64_t)(got % 64) * LEN, LEN, got);
			got++;
		}
		while (host_cq_poll(&r.scq[0], &c))
			assert_int_equal(c.status, WC_SUCCESS);
	}
	print_message("%u sizes, %u refused\n", sizes, refused);
	assert_true(sizes > 50 && refused > 50);
	rig_down(&r);
}

static void test_basic(void **state)
{
	(void)state;
	traffic((struct rig_opt){ .srq = true, .scatter = true });
	traffic((struct rig_opt){ .srq = true, .loop = true });
}

static void test_xrc(void **state)
{
	(void)state;
	traffic((struct rig_opt){ .type = OHCA_QPT_XRC_INI });
}

/* A tag is added with each size of the SRQ: its operation is executed before or after the move. */
static void test_tags(void **state)
{
	struct ohca_hw_tm_wqe add = { .opcode = OHCA_TM_ADD, .mask = 0xff, .num_sge = 1 };
	uint8_t tmh[16] = { 0 };
	struct ohca_hw_cqe c;
	uint32_t pi;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .tags = 8, .scatter = true });
	add.sge = host_sge(r.mr[1].iova, 4096, r.mr[1].key);
	for (uint32_t i = 0; i < 120; i++) {
		struct ohca_hw_sge s = host_sge(r.mr[1].iova, 4096, r.mr[1].key);
		bool matches = i % 3 != 2;

		add.handle = i % 8;
		add.tag = i & 0xff;
		add.recv_wr_id = 1000 + i;
		host_srq_post(&r.srq[1], i, &s, 1);
		if (matches)
			host_tm_op(&r.srq[1], &add);
		if (i & 1)
			rig_run(&r);
		assert_int_equal(host_srq_resize(&r.srq[1], (uint8_t)(7 + i % 4), 0, 0, &pi), 0);
		assert_int_equal(pi, i + 1);
		rig_run(&r);
		if (matches)
			assert_int_equal(host_tm_result(&r.srq[1], 0), OHCA_TM_DONE);
		/* a matching message uses the tag, others use the oldest WQE */
		tmh[0] = matches ? OHCA_TMH_EAGER : OHCA_TMH_NO_TAG;
		tmh[15] = (uint8_t)i;
		host_buf_write(r.h[0], &r.mr[0].buf, 0, tmh, sizeof(tmh));
		rig_send(&r, 0, i, 0, sizeof(tmh));
		rig_run(&r);
		wc(&r.scq[0], i, WC_SUCCESS);
		if (matches) {
			c = wc(&r.rcq[1], 1000 + i, WC_SUCCESS);
			assert_int_equal(c.wc_flags, MATCH | VALID);
		} else {
			wc(&r.rcq[1], i / 3, WC_SUCCESS);
		}
		no_wc(&r.rcq[1]);
	}
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_basic), cmocka_unit_test(test_xrc),
		cmocka_unit_test(test_tags),
	};
	const char *given = getenv("SEED");

	seed = given ? (uint32_t)strtoul(given, NULL, 0) : 1;
	printf("SEED=%u\n", seed);
	return cmocka_run_group_tests_name("SRQs resized", tests, NULL, NULL);
}
