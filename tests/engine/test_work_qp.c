/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The maximum cost of a poll when many QPs wait, and when packets arrive. test_work.c covers what
 * one device does alone.
 */
#include <stdlib.h>

#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/doorbell.h"
#include "engine/object/qp.h"
#include "engine/object/tm.h"
#include "engine/transport/madq.h"
#include "engine/transport/sched.h"
#include "ib/mad.h"
#include "attack.h"

/* ---- waiting QPs ---------------------------------------------------------------------- */

enum { WAITING = 240 };

static unsigned int active(struct host *h, const struct host_qp *qp)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < WAITING; i++)
		n += h->e->qp[qp[i].handle]->xp->sched.on == OHCA_XP_ACTIVE;
	return n;
}

/* Makes WAITING UC QPs on the rig's first machine, each with a WRITE of one packet to @dlid. */
static struct host_qp *qps_up(struct rig *r, struct host_cq *cq, uint16_t dlid)
{
	struct host_qp *qp = calloc(WAITING, sizeof(*qp));

	host_cq_create(r->h[0], cq, 11, 0);
	for (unsigned int i = 0; i < WAITING; i++) {
		assert_int_equal(host_qp_create(r->h[0], &qp[i], &(struct host_qp_init){
			.type = OHCA_QPT_UC, .log_sq = 2, .scq = cq, .rcq = cq }), 0);
		host_qp_connect(&qp[i], 0, dlid, 0x1000, 1, 0, 0);
	}
	work_off(r->h[0]);
	for (unsigned int i = 0; i < WAITING; i++) {
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, i);

		wqe_raddr(&w, r->mr[0].iova, r->mr[0].key);
		wqe_sge(&w, r->mr[0].iova, 8, r->mr[0].key);
		wqe_post(&qp[i], &w);
	}
	return qp;
}

static void qps_down(struct rig *r, struct host_cq *cq, struct host_qp *qp)
{
	unsigned int done = 0;
	struct ohca_hw_cqe e;

	for (; host_cq_poll(cq, &e); done++)
		assert_int_equal(e.status, WC_SUCCESS);
	assert_int_equal(done, WAITING);
	for (unsigned int i = 0; i < WAITING; i++)
		host_qp_destroy(&qp[i]);
	host_cq_destroy(cq);
	free(qp);
	rig_down(r);
}

/* Many QPs send to their own port: each free slot of the loop gives one of them a turn. */
static void test_loop_waiters(void **state)
{
	struct host_cq cq;
	struct host_qp *qp;
	struct rig r;
	struct host *h;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UC });
	h = r.h[0];
	qp = qps_up(&r, &cq, 1);
	/* as after a full loop */
	ohca_db_clear(h->e);
	for (unsigned int i = 0; i < WAITING; i++) {
		struct ohca_xport *xp = h->e->qp[qp[i].handle]->xp;

		assert_int_equal(xp->sched.on, OHCA_XP_OFF);
		xp->sched.armed = false;
		xp->sched.on = OHCA_XP_WAIT;
		ohca_list_add_tail(&h->e->sched->wait_loop[i % 2], &xp->sched.link);
	}
	h->e->sched->waiting = true;
	begin(h);
	assert_true(host_poll(h, BUDGET));
	/*
	 * one for each slot, and one for each packet delivered since, which is half of the budget
	 */
	assert_true(active(h, qp) < OHCA_LOOP_SLOTS + BUDGET / 2);
	for (unsigned int n = 0; host_poll(h, BUDGET); n++)
		assert_true(n < 4 * WAITING / BUDGET);
	note(h, "240 QPs that wait for room in the loop");
	qps_down(&r, &cq, qp);
}

/* Many QPs wait for credits when their port changes: they detect it one after the other. */
static void test_port_changes(void **state)
{
	struct host_cq cq;
	struct host_qp *qp;
	struct rig r;
	struct host *h;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UC });
	h = r.h[0];
	h->port[0].queued[0] = h->port[0].credits;
	qp = qps_up(&r, &cq, 2);
	work_off(h);
	assert_int_equal(active(h, qp), 0);
	ohca_dma_enter(h->e);
	ohca_xp_port(h->e, 0);
	ohca_dma_exit(h->e);
	assert_int_equal(active(h, qp), 0);
	begin(h);
	for (unsigned int n = 0; host_poll(h, BUDGET); n++) {
		assert_true(active(h, qp) <= BUDGET);
		assert_true(n < 4 * WAITING / BUDGET);
	}
	assert_int_equal(active(h, qp), 0);
	for (unsigned int i = 0; i < 2; i++)
		assert_true(ohca_list_empty(&h->e->sched->moved[i]));
	note(h, "240 QPs whose port changes");
	/* and wait for credits again */
	h->port[0].queued[0] = 0;
	ohca_tx_ready(h->e, 0, 1);
	rig_run(&r);
	qps_down(&r, &cq, qp);
}

/* One acknowledgement completes many WQEs: its cost is counted. */
static void test_late_ack(void **state)
{
	enum { WQES = 16 };	/* one for each credit */
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .log_sq = 8 });
	for (unsigned int i = 0; i < WQES; i++)
		rig_write(&r, 0, i, 0, 0, 8);
	/* all of them are on the wire before the peer has a turn */
	host_poll(r.h[0], BUDGET);
	begin(r.h[0]);
	r.h[0]->most_rx = 0;
	rig_run(&r);
	assert_in_range(r.h[0]->most_rx, OHCA_WORK_WQE + WQES * sizeof(struct ohca_hw_cqe),
			2 * OHCA_WORK_WQE + WQES * sizeof(struct ohca_hw_cqe));
	/* and it leaves no work for a turn of the QP */
	assert_int_equal(r.h[0]->most.work, 0);
	for (unsigned int i = 0; i < WQES; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	rig_down(&r);
}

/* A wire that counts frames, and drops them. */
static enum host_fate count(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	++*(unsigned int *)arg;
	return HOST_DROP;
}

/* Replies of the port's agent are counted as other packets: as many leave as the budget covers. */
static void test_mads(void **state)
{
	enum { MADS = OHCA_MADQ_SLOTS, AT_ONCE = OHCA_WORK_PKT / OHCA_WORK_WQE };
	const struct ohca_hw_av av = { .dlid = 2, .dqpn = 1, .qkey = IB_QKEY_GSI };
	const uint8_t mad[256] = { 1 };
	unsigned int sent = 0;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	host_hook_set(r.h[0], 0, count, &sent);
	for (unsigned int i = 0; i < MADS; i++)
		ohca_mad_send(r.h[0]->e, 0, 1, &av, 0xffff, 0, mad);
	begin(r.h[0]);
	for (unsigned int before = 0; sent < MADS; before = sent) {
		host_poll(r.h[0], 1);
		assert_in_range(sent - before, 1, AT_ONCE);
	}
	host_attack(r.h[0], "32 replies of an agent, budget 1", OHCA_POLL_WORK(1));
	assert_false(r.h[0]->e->sched->mads_due);
	host_hook_set(r.h[0], 0, NULL, NULL);
	rig_down(&r);
}

/* ---- frames -------------------------------------------------------------------------- */

/* A wire without delay, to a host that does not poll between frames. */
static enum host_fate at_once(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			      uint32_t len)
{
	(void)from;
	host_rx(arg, port, frame[0] >> 4, frame, len, 0);
	return HOST_DROP;
}

/*
 * Each frame for a large group is delivered once to each member, in order, even if members leave.
 */
static void test_multicast(void **state)
{
	enum { MEMBERS = 200, FRAMES = 40, LEN = 2048 };
	static const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b };
	struct host_qp *qp = calloc(MEMBERS, sizeof(*qp));
	uint32_t got[256] = { 0 };
	struct ohca_hw_cqe e;
	struct host_cq cq;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD, .mtu = 5, .log_sq = 7 });
	host_cq_create(r.h[1], &cq, 14, 0);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		struct ohca_hw_sge s = host_sge(r.mr[1].iova, LEN + 40, r.mr[1].key);
		struct ohca_hw_aqe c;

		assert_int_equal(host_qp_create(r.h[1], &qp[i], &(struct host_qp_init){
			.type = OHCA_QPT_UD, .log_rq = 6, .scq = &cq, .rcq = &cq }), 0);
		host_qp_datagram(&qp[i], 0, RIG_QKEY);
		for (unsigned int k = 0; k < FRAMES; k++)
			host_post_recv(&qp[i], k, &s, 1);
		c = HOST_AQE(mcast, .qp = qp[i].handle, .mlid = 0xc001);
		memcpy(c.mcast.mgid, mgid, 16);
		assert_int_equal(host_cmd(r.h[1], OHCA_CMD_ATTACH_MCAST, &c, NULL), 0);
	}
	begin(r.h[1]);
	for (unsigned int k = 0; k < FRAMES; k++) {
		struct ohca_hw_av av = { .dlid = 0xc001, .dqpn = IB_QP_MULTICAST,
					 .qkey = RIG_QKEY, .flags = OHCA_AV_GRH,
					 .hop_limit = 1 };
		struct wqe w = wqe_new(OHCA_OP_SEND, 0, k);

		memcpy(av.dgid, mgid, 16);
		memcpy(w.b + 16, &av, sizeof(av));
		w.nseg = 4;
		wqe_sge(&w, r.mr[0].iova, LEN, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
	}
	host_hook_set(r.h[0], 0, at_once, r.h[1]);
	host_poll(r.h[0], BUDGET);
	/* a member that has all packets leaves, while others do not have them yet */
	assert_int_equal(r.h[1]->e->sched->loop_head - r.h[1]->e->sched->loop_tail, FRAMES);
	{
		struct ohca_hw_aqe c = HOST_AQE(mcast, .qp = qp[2].handle, .mlid = 0xc001);

		memcpy(c.mcast.mgid, mgid, 16);
		assert_int_equal(host_cmd(r.h[1], OHCA_CMD_DETACH_MCAST, &c, NULL), 0);
	}
	rig_run(&r);
	while (host_cq_poll(&cq, &e)) {
		assert_int_equal(e.status, WC_SUCCESS);
		assert_int_equal(e.wr_id, got[e.qp_num]++);
	}
	for (unsigned int i = 0; i < MEMBERS; i++)
		if (i != 2)
			assert_int_equal(got[qp[i].handle], FRAMES);
	note(r.h[1], "200 members of a multicast group");
	for (unsigned int i = 0; i < MEMBERS; i++) {
		struct ohca_hw_aqe c = HOST_AQE(mcast, .qp = qp[i].handle, .mlid = 0xc001);

		memcpy(c.mcast.mgid, mgid, 16);
		host_cmd(r.h[1], OHCA_CMD_DETACH_MCAST, &c, NULL);
		host_qp_destroy(&qp[i]);
	}
	host_cq_destroy(&cq);
	free(qp);
	rig_down(&r);
}

/* A FLUSH to persistence of a region of many pages, for which the host has nothing to do. */
static void test_persistence(void **state)
{
	enum { PAGES = RIG_MR_LEN / 4096 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .scatter = true });
	for (unsigned int k = 0; k < 2; k++) {
		struct wqe w = wqe_new(OHCA_OP_FLUSH, OHCA_WQE_SIGNALED, k);

		/* a host without persistent memory needs no search */
		if (k)
			r.h[1]->e->ops.dma_persist = NULL;
		wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
		wqe_flush(&w, RIG_MR_LEN, OHCA_FLUSH_PERSISTENT, 0);
		wqe_post(&r.qp[0], &w);
		begin(r.h[1]);
		rig_time(&r, 100);
		wc(&r.scq[0], k, WC_SUCCESS);
		assert_int_equal(r.h[1]->persisted, RIG_MR_LEN);
	}
	assert_true(r.h[1]->persist_calls <= 2 * PAGES / OHCA_PERSIST_RUNS + 1);
	note(r.h[1], "FLUSH to persistence");
	rig_down(&r);
}

/*
 * The search for the tag of a message is counted, so that a host passes fewer frames whose search
 * is long between two polls.
 */
static void test_tag_search(void **state)
{
	enum { TAGS = OHCA_MAX_TAGS, SEARCH = TAGS * OHCA_WORK_STEP };
	struct ohca_hw_tm_wqe w = { .opcode = OHCA_TM_ADD, .tag = 1, .mask = ~0ull };
	uint8_t tmh[OHCA_TMH_LEN] = { OHCA_TMH_EAGER };
	struct ohca_hw_sge s;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .tags = TAGS });
	s = host_sge(r.mr[1].iova, 64, r.mr[1].key);
	for (unsigned int i = 0; i < TAGS; i++) {
		w.handle = i;
		host_tm_op(&r.srq[1], &w);
		rig_run(&r);
	}
	/* the first message matches the first entry of the list, the second one none */
	for (unsigned int i = 0; i < 2; i++) {
		tmh[OHCA_TMH_LEN - 1] = i ? 0 : 1;
		host_buf_write(r.h[0], &r.mr[0].buf, 0, tmh, sizeof(tmh));
		host_srq_post(&r.srq[1], 7, &s, 1);
		begin(r.h[1]);
		r.h[1]->most_rx = 0;
		rig_send(&r, 0, 1, 0, sizeof(tmh));
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		assert_in_range(r.h[1]->most_rx, i ? SEARCH : 0,
				(i ? SEARCH : 0) + 4 * OHCA_WORK_WQE);
	}
	note(r.h[1], "a message for a list of 1024 tags");
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loop_waiters),
		cmocka_unit_test(test_port_changes),
		cmocka_unit_test(test_late_ack),
		cmocka_unit_test(test_mads),
		cmocka_unit_test(test_multicast),
		cmocka_unit_test(test_persistence),
		cmocka_unit_test(test_tag_search),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
