/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Completion queues without room, at every place of the transport that completes. */
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "rig.h"

/** struct narrow - a rig with a QP on each side whose CQs have one entry */
struct narrow {
	struct rig r;
	struct host_cq scq[2], rcq[2];	/* of @qp; one entry each */
	struct host_qp qp[2];
	bool dead;			/* the CQs had overflowed before */
};

/* Posts NOPs until the send CQ @cq has no room; @more: until it is in error. */
static void fill_cq(struct narrow *n, struct host_cq *cq, bool more)
{
	struct host *h = cq->h;
	struct host_cq unused;
	struct host_qp_init in = { .scq = cq, .rcq = &unused };
	struct host_qp q;

	host_cq_create(h, &unused, 0, 0);
	assert_int_equal(host_qp_create(h, &q, &in), 0);
	host_qp_connect(&q, 0, 1, q.qpn, 3, 0, 0);
	for (unsigned int i = 0; i < (more ? 2 : 1); i++) {
		struct wqe w = wqe_new(OHCA_OP_NOP, OHCA_WQE_SIGNALED, 4000 + i);

		wqe_post(&q, &w);
	}
	rig_run(&n->r);
	if (more) {
		event(h, OHCA_EVENT_CQ_ERR, cq->cqn);
		event(h, OHCA_EVENT_QP_FATAL, q.handle);
	}
	no_event(h);
	host_qp_destroy(&q);
	host_cq_destroy(&unused);
}

static void narrow_up(struct narrow *n, uint8_t type, bool dead)
{
	rig_up(&n->r, (struct rig_opt){ .type = type });
	n->dead = dead;
	for (unsigned int i = 0; i < 2; i++) {
		struct host_qp_init in = { .type = type, .scq = &n->scq[i], .rcq = &n->rcq[i] };

		host_cq_create(n->r.h[i], &n->scq[i], 0, 0);
		host_cq_create(n->r.h[i], &n->rcq[i], 0, 0);
		assert_int_equal(host_qp_create(n->r.h[i], &n->qp[i], &in), 0);
	}
	for (unsigned int i = 0; i < 2; i++)
		host_qp_connect(&n->qp[i], 0, (uint16_t)(2 - i), n->qp[1 - i].qpn, 3, 0, 0);
}

/* The events of an overflow: that of the CQ, once, and that of the QP. */
static void told(struct narrow *n, unsigned int i, const struct host_cq *cq)
{
	if (!n->dead)
		event(n->r.h[i], OHCA_EVENT_CQ_ERR, cq->cqn);
	event(n->r.h[i], OHCA_EVENT_QP_FATAL, n->qp[i].handle);
	no_event(n->r.h[i]);
	assert_int_equal(rig_state(&n->qp[i]), OHCA_QPS_ERR);
}

/* Both machines still work. */
static void narrow_down(struct narrow *n)
{
	for (unsigned int i = 0; i < 2; i++) {
		host_qp_destroy(&n->qp[i]);
		host_cq_destroy(&n->scq[i]);
		host_cq_destroy(&n->rcq[i]);
		assert_true(ohca_mmio_read(n->r.h[i]->e, OHCA_REG_STATUS, 4) &
			    OHCA_STATUS_ENABLED);
	}
	rig_recv(&n->r, 1, 1, 0, 100);
	rig_send(&n->r, 0, 2, 0, 100);
	rig_run(&n->r);
	wc(&n->r.rcq[1], 1, WC_SUCCESS);
	wc(&n->r.scq[0], 2, WC_SUCCESS);
	rig_down(&n->r);
}

static void send(struct narrow *n, uint64_t wr_id, uint32_t len)
{
	struct wqe w = wqe_new(OHCA_OP_SEND, 0, wr_id);

	wqe_sge(&w, n->r.mr[0].iova, len, n->r.mr[0].key);
	wqe_post(&n->qp[0], &w);
}

static void recv(struct narrow *n, uint64_t wr_id, uint32_t len, uint32_t key)
{
	struct ohca_hw_sge s = host_sge(n->r.mr[1].iova, len, key);

	host_post_recv(&n->qp[1], wr_id, &s, 1);
}

/* A receive WQE fails, and its completion finds no room. */
static void test_recv_fails(void **state)
{
	static const uint8_t types[] = { OHCA_QPT_RC, OHCA_QPT_UC };
	struct narrow n;

	(void)state;
	for (unsigned int k = 0; k < 12; k++) {
		bool rc = types[k & 1] == OHCA_QPT_RC;

		narrow_up(&n, types[k & 1], k & 2);
		fill_cq(&n, &n.rcq[1], n.dead);
		switch (k / 4) {
		case 0:		/* longer than the buffer: no error of the QP in UC */
			recv(&n, 1, 2999, n.r.mr[1].key);
			break;
		case 1:		/* the key is invalid */
			recv(&n, 1, 3000, n.r.mr[1].key ^ 1);
			break;
		case 2:		/* more SGEs than allowed */
			recv(&n, 1, 3000, n.r.mr[1].key);
			*((uint8_t *)host_buf_ptr(n.r.h[1], &n.qp[1].buf, 512 + 8)) = 31;
			break;
		}
		send(&n, 1, 3000);
		rig_run(&n.r);
		if (rc || k / 4 != 0) {
			told(&n, 1, &n.rcq[1]);
		} else {
			no_event(n.r.h[1]);
			assert_int_equal(rig_state(&n.qp[1]), OHCA_QPS_RTS);
		}
		if (rc)
			assert_int_equal(wc(&n.scq[0], 1, k / 4 ? WC_REM_OP :
					    WC_REM_INV_REQ).qp_num, n.qp[0].handle);
		narrow_down(&n);
	}
}

/* A message arrived completely, but cannot be reported: its sender gets an error. */
static void test_recv_done(void **state)
{
	struct narrow n;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 8; k++) {
		bool rc = k & 1;

		narrow_up(&n, rc ? OHCA_QPT_RC : OHCA_QPT_UC, k & 2);
		fill_cq(&n, &n.rcq[1], n.dead);
		recv(&n, 1, 3000, n.r.mr[1].key);
		if (k & 4) {
			w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, 0, 1);
			wqe_raddr(&w, n.r.mr[1].iova, n.r.mr[1].key);
			wqe_post(&n.qp[0], &w);
		} else {
			send(&n, 1, 3000);
		}
		rig_run(&n.r);
		told(&n, 1, &n.rcq[1]);
		if (rc)
			wc(&n.scq[0], 1, WC_REM_OP);
		else
			no_wc(&n.scq[0]);
		narrow_down(&n);
	}
}

/* One NAK completes a SEND, for which there is no room, and fails the next one. */
static void test_nak_after(void **state)
{
	struct narrow n;
	struct host *h;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 4; k++) {
		narrow_up(&n, OHCA_QPT_RC, k & 1);
		h = n.r.h[0];
		/* the first message returns credits for the others */
		recv(&n, 0, 10, n.r.mr[1].key);
		recv(&n, 1, 3000, n.r.mr[1].key);
		if (k & 2)
			recv(&n, 2, 2999, n.r.mr[1].key);
		w = wqe_new(OHCA_OP_SEND, 0, 0);
		wqe_post(&n.qp[0], &w);
		rig_run(&n.r);
		wc(&n.rcq[1], 0, WC_SUCCESS);
		fill_cq(&n, &n.scq[0], n.dead);
		for (unsigned int i = 1; i <= 2; i++) {
			w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, i);
			wqe_sge(&w, n.r.mr[0].iova, 3000, n.r.mr[0].key);
			wqe_post(&n.qp[0], &w);
		}
		rig_run(&n.r);
		assert_int_equal(n.r.h[1]->port[0].frames, 2);
		told(&n, 0, &n.scq[0]);
		assert_int_equal(host_counter(h, OHCA_CNT_REMOTE_ERR), 0);
		assert_int_equal(host_counter(h, OHCA_CNT_RNR_NAK_RX), 0);
		assert_int_equal(h->e->qp[n.qp[0].handle]->xp->sched.timer, OHCA_NO_DEADLINE);
		narrow_down(&n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recv_fails),
		cmocka_unit_test(test_recv_done),
		cmocka_unit_test(test_nak_after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
