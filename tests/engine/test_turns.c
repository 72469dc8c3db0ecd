/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of a turn leave room for each other: frames, QPs that send, doorbells, the trace. */
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/cq.h"
#include "engine/object/tm.h"
#include "engine/transport/sched.h"
#include "rig.h"

#define BUDGET		64u

/** struct wire - a hook that counts frames, and keeps the last one */
struct wire {
	unsigned int frames;
	uint32_t len;
	uint8_t data[OHCA_SLOT_SIZE];
};

static enum host_fate keep(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			   uint32_t len)
{
	struct wire *w = arg;

	(void)from;
	(void)port;
	w->frames++;
	w->len = len;
	memcpy(w->data, frame, len);
	return HOST_DROP;
}

static const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b };

/* Builds a frame of @len bytes to the group, as side 0 sends it. */
static void make_frame(struct rig *r, struct wire *w, uint32_t len)
{
	struct ohca_hw_av av = { .dlid = 0xc001, .dqpn = IB_QP_MULTICAST, .qkey = RIG_QKEY,
				 .flags = OHCA_AV_GRH, .hop_limit = 1 };
	struct wqe wqe = wqe_new(OHCA_OP_SEND, 0, 0);
	struct host_qp qp;

	assert_int_equal(host_qp_create(r->h[0], &qp, &(struct host_qp_init){
		.type = OHCA_QPT_UD, .log_sq = 4, .scq = &r->scq[0], .rcq = &r->rcq[0] }), 0);
	host_qp_datagram(&qp, 0, RIG_QKEY);
	memcpy(av.dgid, mgid, 16);
	memcpy(wqe.b + 16, &av, sizeof(av));
	wqe.nseg = 4;
	wqe_sge(&wqe, r->mr[0].iova, len, r->mr[0].key);
	host_hook_set(r->h[0], 0, keep, w);
	wqe_post(&qp, &wqe);
	host_poll(r->h[0], BUDGET);
	assert_int_equal(w->frames, 1);
	host_hook_set(r->h[0], 0, NULL, NULL);
	host_qp_destroy(&qp);
}

static void mcast(struct host *h, uint8_t opcode, const struct host_qp *qp)
{
	struct ohca_hw_aqe c = HOST_AQE(mcast, .qp = qp->handle, .mlid = 0xc001);

	memcpy(c.mcast.mgid, mgid, 16);
	assert_int_equal(host_cmd(h, opcode, &c, NULL), 0);
}

/*
 * Frames for a group of many members arrive as fast as they are accepted. A QP of the same machine
 * still sends in each turn, and no more frames are accepted than can be delivered.
 */
static void test_backlog(void **state)
{
	enum { MEMBERS = 200, LEN = 4096, TURNS = 24, BYTES = 2u << 20 };
	struct host_qp *qp = calloc(MEMBERS, sizeof(*qp));
	struct wire group = { 0 }, out = { 0 };
	unsigned int taken = 0;
	struct host_cq cq;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UC, .mtu = 3 });
	host_cq_create(r.h[1], &cq, 14, 0);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		struct ohca_hw_sge s = host_sge(r.mr[1].iova, LEN + 40, r.mr[1].key);

		assert_int_equal(host_qp_create(r.h[1], &qp[i], &(struct host_qp_init){
			.type = OHCA_QPT_UD, .log_rq = 6, .scq = &cq, .rcq = &cq }), 0);
		host_qp_datagram(&qp[i], 0, RIG_QKEY);
		for (unsigned int k = 0; k < 64; k++)
			host_post_recv(&qp[i], k, &s, 1);
		mcast(r.h[1], OHCA_CMD_ATTACH_MCAST, &qp[i]);
	}
	make_frame(&r, &group, LEN);
	host_hook_set(r.h[1], 0, keep, &out);
	rig_write(&r, 1, 0, 0, 0, BYTES);
	for (unsigned int n = 0; n < TURNS; n++) {
		unsigned int before = out.frames;

		for (unsigned int k = 0; k < BUDGET && ohca_rx_room(r.h[1]->e, 1, 0); k++, taken++)
			host_rx(r.h[1], 0, 0, group.data, group.len, 0);
		assert_true(r.h[1]->e->sched->loop_head - r.h[1]->e->sched->loop_tail <= 1);
		host_poll(r.h[1], BUDGET);
		assert_true(out.frames > before);
	}
	/* the backlog is delivered, too */
	assert_true(taken >= TURNS / 8);
	host_hook_set(r.h[1], 0, NULL, NULL);
	rig_run(&r);
	host_attack(r.h[1], "frames for 200 members without pause", OHCA_POLL_WORK(BUDGET));
	for (unsigned int i = 0; i < MEMBERS; i++) {
		mcast(r.h[1], OHCA_CMD_DETACH_MCAST, &qp[i]);
		host_qp_destroy(&qp[i]);
	}
	host_cq_destroy(&cq);
	free(qp);
	rig_down(&r);
}

/* List operations without end do not prevent that CQs are armed and QPs are served. */
static void test_doorbells(void **state)
{
	enum { SRQS = 3, LOG_OPS = 12, POLLS = 8 };
	struct host *h = host_new(1, 0x0002c90000000100ull);
	struct host_srq srq[SRQS];
	struct host_cq cq, other;

	(void)state;
	host_start(h);
	host_cq_create(h, &cq, 4, 0);
	host_cq_create(h, &other, 4, 0);
	for (unsigned int i = 0; i < SRQS; i++) {
		struct ohca_hw_tm_wqe w = { .opcode = OHCA_TM_SYNC };

		assert_int_equal(host_tm_srq_create(h, &srq[i], 4, h->pdn, 1, LOG_OPS, &cq), 0);
		for (unsigned int k = 0; k < 1u << LOG_OPS; k++)
			host_tm_op(&srq[i], &w);
	}
	host_cq_arm(&other, false);
	for (unsigned int n = 0; n < POLLS; n++) {
		for (unsigned int i = 0; i < SRQS; i++) {
			struct ohca_hw_db *db = host_buf_ptr(h, &srq[i].buf, 0);

			db->sq_pi = db->sq_ci + (1u << LOG_OPS);
		}
		host_poll(h, BUDGET);
		assert_true(h->e->cq[other.cqn]->armed);
		h->e->cq[other.cqn]->armed = false;
		host_cq_arm(&other, false);
	}
	host_attack(h, "list operations without end", OHCA_POLL_WORK(BUDGET));
	/* and all lists are served */
	for (unsigned int i = 0; i < SRQS; i++)
		assert_true(((struct ohca_hw_db *)host_buf_ptr(h, &srq[i].buf, 0))->sq_ci > 0);
	for (unsigned int i = 0; i < SRQS; i++)
		host_buf_free(&srq[i].buf);
	host_buf_free(&cq.buf);
	host_buf_free(&other.buf);
	host_free(h);
}

/* More send queues are rung than a poll serves: a CQ is armed in the same poll nevertheless. */
static void test_many_rung(void **state)
{
	enum { QPS = OHCA_WORK_DOORBELLS / OHCA_WORK_STEP + 64 };
	struct ohca_cfg cfg = {
		.node_guid = 0x10, .num_ports = 1, .vl_cap = 1, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .num_vectors = HOST_VECTORS, .num_uars = HOST_UARS,
		.log_max_qp = 12, .log_max_cq = 4, .log_max_srq = 4, .log_max_mr = 4,
	};
	struct host *h = host_new_cfg(&cfg, 64u << 20);
	struct host_qp *qp = calloc(QPS, sizeof(*qp));
	struct host_cq cq;

	(void)state;
	host_start(h);
	host_cq_create(h, &cq, 4, 0);
	for (unsigned int i = 0; i < QPS; i++)
		assert_int_equal(host_qp_create(h, &qp[i], &(struct host_qp_init){
			.type = OHCA_QPT_UD, .log_sq = 1, .log_rq = 1, .scq = &cq,
			.rcq = &cq }), 0);
	for (unsigned int i = 0; i < QPS; i++)
		ohca_doorbell(h->e, 0, OHCA_UAR_SQ, qp[i].handle, 8);
	host_cq_arm(&cq, false);
	assert_true(host_poll(h, BUDGET));
	assert_true(h->e->cq[cq.cqn]->armed);
	host_attack(h, "more send queues rung than a poll serves", OHCA_POLL_WORK(BUDGET));
	for (unsigned int i = 0; i < QPS; i++)
		host_buf_free(&qp[i].buf);
	host_buf_free(&cq.buf);
	free(qp);
	host_free(h);
}

/* The host gets the trace events that it has asked for. */
static void test_trace(void **state)
{
	uint64_t packets, states;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	rig_write(&r, 0, 1, 0, 0, 64);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	packets = r.h[1]->traces[OHCA_TR_PKT];
	states = r.h[1]->traces[OHCA_TR_QP_STATE];
	assert_int_equal(packets, 1);
	ohca_set_trace(r.h[1]->e, ~(1u << OHCA_TR_PKT));
	rig_write(&r, 0, 2, 0, 0, 64);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	assert_int_equal(r.h[1]->traces[OHCA_TR_PKT], packets);
	rig_modify(&r.qp[1], OHCA_QPS_ERR);
	assert_true(r.h[1]->traces[OHCA_TR_QP_STATE] > states);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backlog),
		cmocka_unit_test(test_doorbells),
		cmocka_unit_test(test_many_rung),
		cmocka_unit_test(test_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
