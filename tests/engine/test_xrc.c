/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XRC (IBTA vol 1, annex A14): differences from RC. One target serves two SRQs of different PDs and
 * CQs; wrong SRQs, domains and keys; SRQs that are destroyed; events; commands.
 */
#include "engine/base/limits.h"
#include "engine/base/state.h"
#include "engine/object/doorbell.h"
#include "engine/object/qp.h"
#include "engine/object/xrc.h"
#include "ib/packet.h"
#include "rig.h"

/** struct more - side 1's second SRQ, of another PD and CQ, in addition to the rig */
struct more {
	struct rig r;
	uint32_t pdn;
	struct host_cq cq;
	struct host_srq srq;
	struct host_mr mr;
};

static void up(struct more *m, bool loop)
{
	struct host *h;

	memset(m, 0, sizeof(*m));
	rig_up(&m->r, (struct rig_opt){ .type = OHCA_QPT_XRC_INI, .loop = loop });
	h = m->r.h[1];
	m->pdn = host_pd(h, 0);
	host_cq_create(h, &m->cq, 6, 0);
	assert_int_equal(host_xrc_srq_create(h, &m->srq, 5, m->pdn, m->r.xrcdn, &m->cq), 0);
	host_mr_create(h, &m->mr, 65536, m->pdn,
		       OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE |
		       OHCA_ACCESS_REMOTE_READ | OHCA_ACCESS_REMOTE_ATOMIC);
}

static void down(struct more *m)
{
	/* unless the test has done so; the test may have made it again, with the rig's CQ */
	host_cmd_handle(m->r.h[1], OHCA_CMD_DESTROY_SRQ, m->srq.srqn, 0);
	host_buf_free(&m->cq.buf);
	host_buf_free(&m->srq.buf);
	host_buf_free(&m->mr.buf);
	rig_down(&m->r);
}

/* ERR and back to RTS, both sides. */
static void again(struct more *m)
{
	for (unsigned int i = 0; i < 2; i++) {
		rig_modify(&m->r.qp[i], OHCA_QPS_RESET);
		host_qp_connect(&m->r.qp[i], 0, m->r.opt.loop ? 1 : (uint16_t)(2 - i),
				m->r.qp[1 - i].qpn, 3, 0, 0);
	}
}

static void events_clear(struct host *h)
{
	struct ohca_hw_eqe e;

	while (host_eq_poll(h, &h->async, &e))
		;
	host_eq_db(h, &h->async, true);
}

static struct wqe to_srq(uint8_t op, uint64_t wr_id, uint32_t srqn)
{
	struct wqe w = wqe_new(op, OHCA_WQE_SIGNALED, wr_id);

	wqe_xrc(&w, srqn);
	return w;
}

static void post_send(struct more *m, uint64_t wr_id, uint32_t srqn, uint32_t len)
{
	struct wqe w = to_srq(OHCA_OP_SEND, wr_id, srqn);

	wqe_sge(&w, m->r.mr[0].iova, len, m->r.mr[0].key);
	wqe_post(&m->r.qp[0], &w);
}

static void post_rdma(struct more *m, uint8_t op, uint64_t wr_id, uint32_t srqn,
		      const struct host_mr *mr, uint32_t len)
{
	struct wqe w = to_srq(op, wr_id, srqn);

	wqe_raddr(&w, mr->iova, mr->key);
	if (op == OHCA_OP_FETCH_ADD || op == OHCA_OP_CMP_SWAP)
		wqe_atomic(&w, 5, 0);
	wqe_sge(&w, m->r.mr[0].iova, len, m->r.mr[0].key);
	wqe_post(&m->r.qp[0], &w);
}

static void recv(struct more *m, struct host_srq *srq, const struct host_mr *mr, uint64_t wr_id,
		 uint32_t len)
{
	struct ohca_hw_sge s = host_sge(mr->iova, len, mr->key);

	(void)m;
	host_srq_post(srq, wr_id, &s, 1);
}

/*
 * One target, two SRQs: each message uses the SRQ that it names, and is checked with the PD of that
 * SRQ.
 */
static void two_srqs(bool loop)
{
	struct ohca_hw_cqe c;
	struct more m;
	struct wqe w;

	up(&m, loop);
	rig_fill(&m.r, 0, 0, 5000, 1);
	recv(&m, &m.r.srq[1], &m.r.mr[1], 100, 5000);
	recv(&m, &m.srq, &m.mr, 200, 5000);
	recv(&m, &m.srq, &m.mr, 201, 0);
	recv(&m, &m.r.srq[1], &m.r.mr[1], 101, 0);
	post_send(&m, 1, m.srq.srqn, 5000);
	post_send(&m, 2, m.r.srq[1].srqn, 3000);
	post_rdma(&m, OHCA_OP_RDMA_WRITE, 3, m.srq.srqn, &m.mr, 4000);
	post_rdma(&m, OHCA_OP_RDMA_READ, 4, m.srq.srqn, &m.mr, 4000);
	post_rdma(&m, OHCA_OP_FETCH_ADD, 5, m.r.srq[1].srqn, &m.r.mr[1], 8);
	post_rdma(&m, OHCA_OP_CMP_SWAP, 6, m.srq.srqn, &m.mr, 8);
	w = to_srq(OHCA_OP_RDMA_WRITE_IMM, 7, m.srq.srqn);
	wqe_imm(&w, 0x11223344);
	wqe_raddr(&w, m.mr.iova, m.mr.key);
	wqe_sge(&w, m.r.mr[0].iova, 4000, m.r.mr[0].key);
	wqe_post(&m.r.qp[0], &w);
	w = to_srq(OHCA_OP_SEND_IMM, 8, m.r.srq[1].srqn);
	wqe_imm(&w, 0x55667788);
	wqe_post(&m.r.qp[0], &w);
	rig_run(&m.r);
	for (unsigned int i = 1; i <= 8; i++)
		wc(&m.r.scq[0], i, WC_SUCCESS);
	c = wc(&m.cq, 200, WC_SUCCESS);
	assert_int_equal(c.byte_len, 5000);
	assert_int_equal(c.qp_num, m.r.qp[1].handle);
	assert_int_equal(c.src_qp, m.r.qp[0].qpn);
	assert_int_equal(c.flags, OHCA_CQE_SRQ | OHCA_CQE_XRC);
	assert_int_equal(c.wqe_idx, m.srq.srqn);
	c = wc(&m.cq, 201, WC_SUCCESS);
	assert_int_equal(c.opcode, 129);
	assert_int_equal(c.imm, 0x11223344);
	assert_int_equal(c.byte_len, 4000);
	no_wc(&m.cq);
	c = wc(&m.r.rcq[1], 100, WC_SUCCESS);
	assert_int_equal(c.byte_len, 3000);
	assert_int_equal(c.wqe_idx, m.r.srq[1].srqn);
	c = wc(&m.r.rcq[1], 101, WC_SUCCESS);
	assert_int_equal(c.opcode, 128);
	assert_int_equal(c.imm, 0x55667788);
	no_wc(&m.r.rcq[1]);
	no_event(m.r.h[1]);
	down(&m);
}

static void test_two_srqs(void **state)
{
	(void)state;
	two_srqs(false);
	two_srqs(true);
}

/* Expects that a request is not executed: statuses of both sides. */
static void refused(struct more *m, uint32_t status, uint8_t ev)
{
	rig_run(&m->r);
	wc(&m->r.scq[0], 1, status);
	assert_int_equal(rig_state(&m->r.qp[0]), OHCA_QPS_ERR);
	assert_int_equal(rig_state(&m->r.qp[1]), OHCA_QPS_ERR);
	if (ev)
		event(m->r.h[1], ev, m->r.qp[1].handle);
	event(m->r.h[1], OHCA_EVENT_LAST_WQE, m->r.qp[1].handle);
	no_event(m->r.h[1]);
	no_wc(&m->r.rcq[1]);
	no_wc(&m->cq);
	again(m);
	events_clear(m->r.h[0]);
	events_clear(m->r.h[1]);
}

static void test_wrong_srq(void **state)
{
	static const uint8_t ops[] = { OHCA_OP_RDMA_WRITE, OHCA_OP_RDMA_READ, OHCA_OP_FETCH_ADD };
	struct host_srq basic, other;
	uint32_t xrcdn, bad[2];
	struct more m;

	(void)state;
	up(&m, false);
	host_srq_create(m.r.h[1], &basic, 3, m.pdn, 0, 0);
	xrcdn = host_xrcd(m.r.h[1]);
	assert_int_equal(host_xrc_srq_create(m.r.h[1], &other, 3, m.pdn, xrcdn, &m.cq), 0);
	recv(&m, &basic, &m.mr, 7, 100);
	recv(&m, &other, &m.mr, 8, 100);
	bad[0] = basic.srqn;		/* not an XRC SRQ */
	bad[1] = 0xffffff;		/* not an SRQ */
	for (unsigned int i = 0; i < 2; i++) {
		post_send(&m, 1, bad[i], 10);
		refused(&m, WC_REM_INV_REQ, OHCA_EVENT_QP_REQ_ERR);
		for (unsigned int k = 0; k < 3; k++) {
			post_rdma(&m, ops[k], 1, bad[i], &m.mr, 8);
			refused(&m, WC_REM_INV_REQ, OHCA_EVENT_QP_REQ_ERR);
		}
	}
	/* of another domain, even with a key that is valid there */
	post_send(&m, 1, other.srqn, 10);
	refused(&m, WC_REM_ACCESS, OHCA_EVENT_QP_ACCESS_ERR);
	for (unsigned int k = 0; k < 3; k++) {
		post_rdma(&m, ops[k], 1, other.srqn, &m.mr, 8);
		refused(&m, WC_REM_ACCESS, OHCA_EVENT_QP_ACCESS_ERR);
	}
	/* of the domain, but with a key of the PD of another SRQ */
	for (unsigned int k = 0; k < 3; k++) {
		post_rdma(&m, ops[k], 1, m.r.srq[1].srqn, &m.mr, 8);
		refused(&m, WC_REM_ACCESS, OHCA_EVENT_QP_ACCESS_ERR);
		post_rdma(&m, ops[k], 1, m.srq.srqn, &m.r.mr[1], 8);
		refused(&m, WC_REM_ACCESS, OHCA_EVENT_QP_ACCESS_ERR);
	}
	/* a receive whose key is of another PD */
	recv(&m, &m.srq, &m.r.mr[1], 9, 100);
	post_send(&m, 1, m.srq.srqn, 10);
	rig_run(&m.r);
	wc(&m.cq, 9, WC_LOC_PROT);
	refused(&m, WC_REM_OP, 0);
	host_buf_free(&basic.buf);
	host_buf_free(&other.buf);
	down(&m);
}

/* ---- a message that changes its SRQ, an SRQ that is destroyed ---- */

struct change {
	uint8_t op;
	uint32_t srqn;
};

static enum host_fate change(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			     uint32_t len)
{
	struct change *c = arg;

	(void)from;
	(void)port;
	(void)len;
	if (frame[8] == c->op)
		ib_build_xrceth(frame + 8 + IB_BTH_LEN, c->srqn);
	return HOST_DELIVER;
}

static void test_change(void **state)
{
	static const uint8_t send[] = { IB_OPN_SEND_MIDDLE, IB_OPN_SEND_LAST };
	static const uint8_t write[] = { IB_OPN_WRITE_MIDDLE, IB_OPN_WRITE_LAST };
	struct change c;
	struct more m;

	(void)state;
	up(&m, false);
	c.srqn = m.r.srq[1].srqn;
	for (unsigned int i = 0; i < 2; i++) {
		recv(&m, &m.srq, &m.mr, 5, 9000);
		recv(&m, &m.r.srq[1], &m.r.mr[1], 6, 9000);
		c.op = IB_TRANS_XRC | send[i];
		host_hook_set(m.r.h[0], 0, change, &c);
		post_send(&m, 1, m.srq.srqn, 5000);
		rig_run(&m.r);
		/* the WQE was used: it is returned */
		wc(&m.cq, 5, WC_WR_FLUSH);
		refused(&m, WC_REM_INV_REQ, OHCA_EVENT_QP_REQ_ERR);
		c.op = IB_TRANS_XRC | write[i];
		post_rdma(&m, OHCA_OP_RDMA_WRITE, 1, m.srq.srqn, &m.mr, 5000);
		refused(&m, WC_REM_INV_REQ, OHCA_EVENT_QP_REQ_ERR);
		host_hook_set(m.r.h[0], 0, NULL, NULL);
	}
	down(&m);
}

static enum host_fate drop(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			   uint32_t len)
{
	(void)from;
	(void)port;
	(void)len;
	return frame[8] == *(uint8_t *)arg ? HOST_DROP : HOST_DELIVER;
}

/* The SRQ is destroyed in the middle of a SEND; another one may have its number then. */
static void test_srq_goes(void **state)
{
	uint8_t op = IB_TRANS_XRC | IB_OPN_SEND_LAST;
	struct more m;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		up(&m, false);
		recv(&m, &m.srq, &m.mr, 5, 9000);
		host_hook_set(m.r.h[0], 0, drop, &op);
		post_send(&m, 1, m.srq.srqn, 5000);
		rig_run(&m.r);
		assert_non_null(m.r.h[1]->e->qp[m.r.qp[1].handle]->xp);
		assert_ptr_equal(m.r.h[1]->e->qp[m.r.qp[1].handle]->srq,
				 m.r.h[1]->e->srq[m.srq.srqn]);
		assert_int_equal(host_cmd_handle(m.r.h[1], OHCA_CMD_DESTROY_SRQ, m.srq.srqn, 0),
				 OHCA_ADMIN_OK);
		assert_null(m.r.h[1]->e->qp[m.r.qp[1].handle]->srq);
		/* and with it the CQ and the PD: nothing refers to them */
		assert_int_equal(host_cmd_handle(m.r.h[1], OHCA_CMD_DESTROY_CQ, m.cq.cqn, 0),
				 OHCA_ADMIN_OK);
		if (i) {
			m.r.h[1]->e->srq_ids.next = m.srq.srqn;
			host_buf_free(&m.srq.buf);
			assert_int_equal(host_xrc_srq_create(m.r.h[1], &m.srq, 5, m.pdn,
							     m.r.xrcdn, &m.r.rcq[1]), 0);
			recv(&m, &m.srq, &m.mr, 6, 9000);
		}
		host_hook_set(m.r.h[0], 0, NULL, NULL);
		rig_time(&m.r, 4000);
		wc(&m.r.scq[0], 1, WC_REM_INV_REQ);
		no_wc(&m.r.rcq[1]);
		event(m.r.h[1], OHCA_EVENT_QP_REQ_ERR, m.r.qp[1].handle);
		event(m.r.h[1], OHCA_EVENT_LAST_WQE, m.r.qp[1].handle);
		no_event(m.r.h[1]);
		down(&m);
	}
}

/* The SRQ is destroyed while a READ through it is being answered. */
static void test_read_srq_goes(void **state)
{
	struct more m;

	(void)state;
	up(&m, false);
	m.r.h[1]->port[0].credits = 1;
	post_rdma(&m, OHCA_OP_RDMA_READ, 1, m.srq.srqn, &m.mr, 60000);
	for (unsigned int i = 0; i < 4; i++)
		host_step(m.r.h, 2);
	assert_int_equal(host_cmd_handle(m.r.h[1], OHCA_CMD_DESTROY_SRQ, m.srq.srqn, 0),
			 OHCA_ADMIN_OK);
	refused(&m, WC_REM_ACCESS, OHCA_EVENT_QP_ACCESS_ERR);
	down(&m);
}

/* A READ through one SRQ is requested again in the middle of a SEND to another one. */
static void test_read_again(void **state)
{
	uint8_t op = IB_TRANS_XRC | IB_OPN_READ_RESP_LAST;
	struct more m;

	(void)state;
	up(&m, false);
	recv(&m, &m.r.srq[1], &m.r.mr[1], 5, 9000);
	rig_fill(&m.r, 0, 0, 5000, 3);
	host_hook_set(m.r.h[1], 0, drop, &op);
	post_rdma(&m, OHCA_OP_RDMA_READ, 1, m.srq.srqn, &m.mr, 3000);
	rig_run(&m.r);
	host_hook_set(m.r.h[1], 0, NULL, NULL);
	op = IB_TRANS_XRC | IB_OPN_SEND_LAST;
	host_hook_set(m.r.h[0], 0, drop, &op);
	post_send(&m, 2, m.r.srq[1].srqn, 5000);
	rig_run(&m.r);
	rig_time(&m.r, 15);
	host_hook_set(m.r.h[0], 0, NULL, NULL);
	rig_time(&m.r, 4000);
	wc(&m.r.scq[0], 1, WC_SUCCESS);
	wc(&m.r.scq[0], 2, WC_SUCCESS);
	assert_int_equal(wc(&m.r.rcq[1], 5, WC_SUCCESS).byte_len, 5000);
	assert_true(host_counter(m.r.h[1], OHCA_CNT_RX_DUP) > 0);
	down(&m);
}

/* Changes a SEND to the SRQ of @arg. */
static enum host_fate redirect(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			       uint32_t len)
{
	const struct host_srq *srq = arg;

	(void)from;
	(void)port;
	(void)len;
	if (frame[IB_LRH_LEN] == (IB_TRANS_XRC | IB_OPN_SEND_ONLY))
		ib_build_xrceth(frame + IB_LRH_LEN + IB_BTH_LEN, srq->srqn);
	return HOST_DELIVER;
}

/* A request that is repeated for another SRQ does not use the WQE of the first one. */
static void test_page_of_other(void **state)
{
	struct host_eq eq;
	struct host_mr odp = { .iova = 0x100000 };
	struct ohca_hw_acqe rsp;
	struct ohca_hw_aqe c;
	struct host *h;
	struct more m;

	(void)state;
	up(&m, false);
	h = m.r.h[1];
	host_eq_create(h, &eq, OHCA_LOG_MAX_FAULTS, OHCA_EQ_FAULT, 2);
	host_eq_db(h, &eq, true);
	c = HOST_AQE(reg_mr, .pl.page_shift = 12, .iova = odp.iova, .length = 8192, .pdn = h->pdn,
		     .access = OHCA_ACCESS_LOCAL_WRITE, .type = OHCA_MR_ODP);
	assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), 0);
	odp.key = rsp.handle.handle;
	recv(&m, &m.r.srq[1], &odp, 100, 100);
	recv(&m, &m.srq, &m.mr, 200, 100);
	post_send(&m, 1, m.r.srq[1].srqn, 100);
	rig_run(&m.r);
	assert_int_equal(host_counter(h, OHCA_CNT_RNR_NAK_TX), 1);
	host_hook_set(m.r.h[0], 0, redirect, &m.srq);
	rig_time(&m.r, 50);
	wc(&m.r.scq[0], 1, WC_REM_INV_REQ);
	no_wc(&m.cq);
	wc(&m.r.rcq[1], 100, WC_WR_FLUSH);
	down(&m);
}

/*
 * A page of an SRQ's process is missing for a WRITE to a target: the page fault counts against the
 * doorbell page of the SRQ, and waits for no process of another page.
 */
static void test_page_of_whom(void **state)
{
	enum { UAR = 3 };
	struct host_mr odp = { .iova = 0x100000 };
	struct ohca_hw_acqe rsp;
	struct host_srq srq;
	struct ohca_hw_eqe f;
	struct ohca_hw_aqe c;
	struct host_eq eq;
	struct host_cq cq;
	struct host *h;
	uint32_t pdn;
	struct more m;

	(void)state;
	up(&m, false);
	h = m.r.h[1];
	host_eq_create(h, &eq, OHCA_LOG_MAX_FAULTS, OHCA_EQ_FAULT, 2);
	host_eq_db(h, &eq, true);
	pdn = host_pd(h, UAR);
	host_cq_create(h, &cq, 4, UAR);
	assert_int_equal(host_xrc_srq_create(h, &srq, 4, pdn, m.r.xrcdn, &cq), 0);
	c = HOST_AQE(reg_mr, .pl.page_shift = 12, .iova = odp.iova, .length = 8192, .pdn = pdn,
		     .access = OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE,
		     .type = OHCA_MR_ODP);
	assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), 0);
	odp.key = rsp.handle.handle;
	/* the QPs of page 0 have used its slots */
	h->e->uar_faults[0] += OHCA_MAX_FAULTS;
	post_rdma(&m, OHCA_OP_RDMA_WRITE, 1, srq.srqn, &odp, 100);
	rig_run(&m.r);
	assert_true(host_eq_poll(h, &eq, &f));
	assert_int_equal(f.type, OHCA_EVENT_PAGE_FAULT);
	assert_int_equal(h->e->uar_faults[UAR], 1);
	h->e->uar_faults[0] -= OHCA_MAX_FAULTS;
	assert_int_equal(h->e->uar_faults[0], 0);
	host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, srq.srqn, 0);
	host_buf_free(&srq.buf);
	host_buf_free(&cq.buf);
	down(&m);
}

/* ---- receiver not ready, events ---- */

static void test_rnr(void **state)
{
	struct more m;

	(void)state;
	up(&m, false);
	/* WQEs in the other SRQ are not used */
	recv(&m, &m.r.srq[1], &m.r.mr[1], 4, 100);
	post_send(&m, 1, m.srq.srqn, 100);
	rig_time(&m.r, 1);
	no_wc(&m.r.scq[0]);
	assert_true(host_counter(m.r.h[1], OHCA_CNT_RNR_NAK_TX) > 0);
	recv(&m, &m.srq, &m.mr, 5, 100);
	rig_time(&m.r, 10);
	wc(&m.r.scq[0], 1, WC_SUCCESS);
	wc(&m.cq, 5, WC_SUCCESS);
	no_wc(&m.r.rcq[1]);
	down(&m);
}

static void test_events(void **state)
{
	const struct ohca_hw_qp_context *x;
	struct ohca_hw_aqe c;
	struct more m;

	(void)state;
	up(&m, false);
	for (unsigned int i = 0; i < 4; i++)
		recv(&m, &m.srq, &m.mr, i, 100);
	c = HOST_AQE(modify_srq, .srqn = m.srq.srqn, .limit = 3);
	assert_int_equal(host_cmd(m.r.h[1], OHCA_CMD_MODIFY_SRQ, &c, NULL), OHCA_ADMIN_OK);
	for (unsigned int i = 0; i < 3; i++) {
		post_send(&m, i, m.srq.srqn, 100);
		rig_run(&m.r);
		wc(&m.r.scq[0], i, WC_SUCCESS);
		if (i == 1)
			event(m.r.h[1], OHCA_EVENT_SRQ_LIMIT, m.srq.srqn);
		else
			no_event(m.r.h[1]);
	}
	/* a target that goes to ERR uses no SRQ any more; WQEs that it has not used stay */
	rig_modify(&m.r.qp[1], OHCA_QPS_ERR);
	event(m.r.h[1], OHCA_EVENT_LAST_WQE, m.r.qp[1].handle);
	rig_modify(&m.r.qp[1], OHCA_QPS_ERR);
	rig_run(&m.r);
	no_event(m.r.h[1]);
	again(&m);
	/* the context of a target refers only to its domain */
	c = HOST_AQE(query_context, .addr = m.r.h[1]->mbox[0], .handle = m.r.qp[1].handle,
		     .kind = OHCA_CONTEXT_QP);
	assert_int_equal(host_cmd(m.r.h[1], OHCA_CMD_QUERY_CONTEXT, &c, NULL), OHCA_ADMIN_OK);
	x = host_ptr(m.r.h[1], m.r.h[1]->mbox[0]);
	assert_int_equal(x->type, OHCA_QPT_XRC_TGT);
	assert_int_equal(x->srqn, m.r.xrcdn);
	post_send(&m, 3, m.srq.srqn, 100);
	rig_run(&m.r);
	wc(&m.r.scq[0], 3, WC_SUCCESS);
	for (unsigned int i = 0; i < 4; i++)
		wc(&m.cq, i, WC_SUCCESS);
	/* RESET causes no event */
	rig_modify(&m.r.qp[1], OHCA_QPS_RESET);
	no_event(m.r.h[1]);
	down(&m);
}

/* A CQ without room stops the target, and is an error of that SRQ's CQ alone. */
static void test_cq_full(void **state)
{
	struct host_srq srq;
	struct host_cq cq;
	struct more m;

	(void)state;
	up(&m, false);
	host_cq_create(m.r.h[1], &cq, 0, 0);
	assert_int_equal(host_xrc_srq_create(m.r.h[1], &srq, 3, m.pdn, m.r.xrcdn, &cq), 0);
	recv(&m, &srq, &m.mr, 1, 100);
	recv(&m, &srq, &m.mr, 2, 100);
	post_send(&m, 1, srq.srqn, 10);
	post_send(&m, 2, srq.srqn, 10);
	rig_run(&m.r);
	wc(&m.r.scq[0], 1, WC_SUCCESS);
	wc(&m.r.scq[0], 2, WC_REM_OP);
	event(m.r.h[1], OHCA_EVENT_CQ_ERR, cq.cqn);
	event(m.r.h[1], OHCA_EVENT_QP_FATAL, m.r.qp[1].handle);
	event(m.r.h[1], OHCA_EVENT_LAST_WQE, m.r.qp[1].handle);
	no_event(m.r.h[1]);
	host_buf_free(&cq.buf);
	host_buf_free(&srq.buf);
	down(&m);
}

/* ---- packets and WQEs that targets and initiators do not have ---- */

static uint8_t forged;

static enum host_fate forge(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	(void)len;
	frame[8] = (uint8_t)((frame[8] & IB_OPN_MASK) | forged);
	return HOST_DELIVER;
}

/* Packets of another service are dropped, whatever the QP. */
static void test_service(void **state)
{
	static const uint8_t trans[] = { IB_TRANS_RC, IB_TRANS_UC };
	struct rig rc;
	struct more m;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		up(&m, false);
		forged = trans[i];
		host_hook_set(m.r.h[0], 0, forge, NULL);
		post_rdma(&m, OHCA_OP_RDMA_WRITE, 1, m.srq.srqn, &m.mr, 8);
		rig_run(&m.r);
		assert_true(host_counter(m.r.h[1], OHCA_CNT_RX_BAD_QP) +
			    host_counter(m.r.h[1], OHCA_CNT_RX_BAD_PKT) > 0);
		no_wc(&m.r.scq[0]);
		assert_int_equal(rig_state(&m.r.qp[1]), OHCA_QPS_RTS);
		down(&m);
	}
	rig_up(&rc, (struct rig_opt){ 0 });
	forged = IB_TRANS_XRC;
	host_hook_set(rc.h[0], 0, forge, NULL);
	rig_write(&rc, 0, 1, 0, 0, 64);
	rig_run(&rc);
	assert_true(host_counter(rc.h[1], OHCA_CNT_RX_BAD_QP) +
		    host_counter(rc.h[1], OHCA_CNT_RX_BAD_PKT) > 0);
	assert_int_equal(rig_state(&rc.qp[1]), OHCA_QPS_RTS);
	rig_down(&rc);
}

/* A request to the initiator, a response to the target, a doorbell for the target. */
static void test_one_way(void **state)
{
	uint8_t f[128], *h;
	struct more m;

	(void)state;
	up(&m, false);
	h = ib_build_lrh(f, 0, 0, IB_LNH_IBA_LOCAL, 1, 0, 2);
	h = ib_build_bth(h, IB_TRANS_XRC | IB_OPN_SEND_ONLY, 0, 0, 0xffff, m.r.qp[0].qpn, true, 0);
	h = ib_build_xrceth(h, m.srq.srqn) + IB_ICRC_LEN;
	ib_put_be16(f + 4, (uint16_t)((h - f) / 4));
	host_rx(m.r.h[0], 0, 0, f, (uint32_t)(h - f), 0);
	assert_int_equal(host_counter(m.r.h[0], OHCA_CNT_RX_BAD_QP), 1);
	h = ib_build_lrh(f, 0, 0, IB_LNH_IBA_LOCAL, 2, 0, 1);
	h = ib_build_bth(h, IB_TRANS_XRC | IB_OPN_ACK, 0, 0, 0xffff, m.r.qp[1].qpn, false, 0);
	h = ib_build_aeth(h, 0x1f, 0) + IB_ICRC_LEN;
	ib_put_be16(f + 4, (uint16_t)((h - f) / 4));
	host_rx(m.r.h[1], 0, 0, f, (uint32_t)(h - f), 0);
	assert_int_equal(host_counter(m.r.h[1], OHCA_CNT_RX_BAD_QP), 1);
	ohca_doorbell(m.r.h[1]->e, 0, OHCA_UAR_SQ, m.r.qp[1].handle | 1ull << 32, 8);
	ohca_doorbell(m.r.h[1]->e, 0, OHCA_UAR_RQ, m.r.qp[1].handle | 1ull << 32, 8);
	assert_int_equal(host_counter(m.r.h[1], OHCA_CNT_DB_BAD_HANDLE), 2);
	rig_run(&m.r);
	/* another process may set its bits nevertheless: there is nothing to send or to flush */
	for (unsigned int i = 0; i < 2; i++) {
		ohca_doorbells_set(&m.r.h[1]->e->db->at, OHCA_RING_SQ, m.r.qp[1].handle);
		ohca_doorbells_set(&m.r.h[1]->e->db->at, OHCA_RING_RQ, m.r.qp[1].handle);
		rig_run(&m.r);
		assert_int_equal(rig_state(&m.r.qp[1]), i ? OHCA_QPS_ERR : OHCA_QPS_RTS);
		assert_int_equal(host_qp_modify(&m.r.qp[1], OHCA_ATTR_STATE,
						&(struct ohca_hw_qp_attr){ .state = OHCA_QPS_ERR }), 0);
	}
	down(&m);
}

/* WQEs that an initiator cannot post. */
static void test_wqes(void **state)
{
	struct ohca_hw_wqe_xrc x = { .srqn = 1u << 24 };
	struct more m;
	struct wqe w;

	(void)state;
	up(&m, false);
	w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 1);	/* no XRC segment */
	wqe_post(&m.r.qp[0], &w);
	rig_run(&m.r);
	assert_int_equal(wc(&m.r.scq[0], 1, WC_LOC_QP_OP).vendor_err, OHCA_VE_WQE_SIZE);
	again(&m);
	w = to_srq(OHCA_OP_SEND, 1, 0);
	memcpy(w.b + OHCA_SEG_SIZE, &x, sizeof(x));
	wqe_post(&m.r.qp[0], &w);
	rig_run(&m.r);
	assert_int_equal(wc(&m.r.scq[0], 1, WC_LOC_QP_OP).vendor_err, OHCA_VE_XRC_SRQ);
	again(&m);
	x = (struct ohca_hw_wqe_xrc){ .srqn = m.srq.srqn, .reserved = { 0, 0, 1 } };
	w = to_srq(OHCA_OP_SEND, 1, 0);
	memcpy(w.b + OHCA_SEG_SIZE, &x, sizeof(x));
	wqe_post(&m.r.qp[0], &w);
	rig_run(&m.r);
	assert_int_equal(wc(&m.r.scq[0], 1, WC_LOC_QP_OP).vendor_err, OHCA_VE_XRC_SRQ);
	again(&m);
	/* operations that send nothing have no XRC segment */
	w = wqe_new(OHCA_OP_NOP, OHCA_WQE_SIGNALED, 2);
	wqe_post(&m.r.qp[0], &w);
	rig_run(&m.r);
	wc(&m.r.scq[0], 2, WC_SUCCESS);
	down(&m);
}

/* The peer invalidates the keys of a window and of a region. */
static void test_send_inv(void **state)
{
	struct ohca_hw_aqe a = HOST_AQE(reg_mr, .length = 4, .type = OHCA_MR_FRMR);
	struct ohca_hw_wqe_reg reg = { .iova = 0x1000, .length = 4096,
				       .access = OHCA_ACCESS_LOCAL_WRITE |
						 OHCA_ACCESS_REMOTE_WRITE };
	struct host_qp_init in = { .flags = OHCA_QP_PRIVILEGED };
	struct ohca_hw_acqe rsp;
	struct ohca_hw_cqe c;
	struct host_buf b;
	struct host_qp qp;
	struct more m;
	struct wqe w;

	(void)state;
	up(&m, false);
	a.reg_mr.pdn = m.pdn;
	assert_int_equal(host_cmd(m.r.h[1], OHCA_CMD_REG_MR, &a, &rsp), OHCA_ADMIN_OK);
	host_buf_alloc(m.r.h[1], &b, HOST_PAGE);
	/* registered through a QP of the PD */
	in.pdn = m.pdn;
	in.scq = in.rcq = &m.cq;
	assert_int_equal(host_qp_create(m.r.h[1], &qp, &in), 0);
	host_qp_connect(&qp, 0, 1, 77, 3, 0, 0);
	reg.key = rsp.handle.handle;
	reg.pl = b.pl;
	w = wqe_new(OHCA_OP_REG_MR, OHCA_WQE_SIGNALED, 9);
	memcpy(w.b + OHCA_SEG_SIZE, &reg, sizeof(reg));
	w.nseg = 4;
	wqe_post(&qp, &w);
	rig_run(&m.r);
	wc(&m.cq, 9, WC_SUCCESS);

	recv(&m, &m.r.srq[1], &m.r.mr[1], 4, 100);
	recv(&m, &m.srq, &m.mr, 5, 100);
	w = to_srq(OHCA_OP_SEND_INV, 1, m.srq.srqn);
	wqe_inv(&w, reg.key);
	wqe_post(&m.r.qp[0], &w);
	rig_run(&m.r);
	wc(&m.r.scq[0], 1, WC_SUCCESS);
	c = wc(&m.cq, 5, WC_SUCCESS);
	assert_int_equal(c.wc_flags, 8);
	assert_int_equal(c.inv_key, reg.key);
	/* the key is invalid; and through the other SRQ it would be refused, too */
	w = to_srq(OHCA_OP_SEND_INV, 2, m.r.srq[1].srqn);
	wqe_inv(&w, reg.key);
	wqe_post(&m.r.qp[0], &w);
	rig_run(&m.r);
	wc(&m.r.scq[0], 2, WC_SUCCESS);
	assert_int_equal(wc(&m.r.rcq[1], 4, WC_REM_INV_REQ).vendor_err, OHCA_VE_PD);
	host_buf_free(&b);
	host_buf_free(&qp.buf);
	down(&m);
}

/* ---- commands ---- */

static void test_commands(void **state)
{
	struct host *h = host_new(1, 0x100);
	struct ohca_hw_aqe srq, qp, c;
	struct host_srq basic, x;
	struct host_cq cq, theirs;
	uint32_t xrcdn, n;

	(void)state;
	host_start(h);
	host_cq_create(h, &cq, 4, 0);
	host_cq_create(h, &theirs, 4, 1);
	xrcdn = host_xrcd(h);
	host_srq_create(h, &basic, 3, h->pdn, 0, 0);
	assert_int_equal(host_xrc_srq_create(h, &x, 3, h->pdn, xrcdn, &cq), 0);
	srq = HOST_AQE(create_srq, .pdn = h->pdn, .log_size = 2, .log_stride = 6,
		       .type = OHCA_SRQT_XRC, .xrcdn = xrcdn, .cqn = cq.cqn);
	srq.create_srq.pl = basic.buf.pl;
#define REFUSED(op, good, member, field, value)					\
	c = good;								\
	c.member.field = (value);						\
	assert_int_equal(host_cmd(h, op, &c, NULL), OHCA_ADMIN_BAD_PARAM);	\
	assert_int_equal(h->syndrome, offsetof(struct ohca_hw_aqe, member.field))
#define SRQ(field, value) REFUSED(OHCA_CMD_CREATE_SRQ, srq, create_srq, field, value)
	SRQ(type, 3);
	SRQ(xrcdn, xrcdn + 1);
	SRQ(cqn, 77);
	SRQ(cqn, theirs.cqn);
	SRQ(reserved, 1);
	srq.create_srq.type = OHCA_SRQT_BASIC;
	srq.create_srq.cqn = 0;
	srq.create_srq.xrcdn = 0;
	SRQ(cqn, 1);
	SRQ(xrcdn, 1);

	qp = HOST_AQE(create_qp, .type = OHCA_QPT_XRC_TGT, .flags = OHCA_QP_NO_RQ,
		      .srqn = xrcdn);
#define QP(field, value) REFUSED(OHCA_CMD_CREATE_QP, qp, create_qp, field, value)
	QP(srqn, xrcdn + 1);
	QP(flags, 0);
	QP(flags, OHCA_QP_NO_RQ | OHCA_QP_PRIVILEGED);
	QP(flags, OHCA_QP_SRQ);
	QP(pdn, 1);
	QP(uar, 1);
	QP(send_cqn, 1);
	QP(recv_cqn, 1);
	QP(port, 1);
	QP(log_sq, 1);
	QP(log_rq, 1);
	QP(log_rq_stride, 6);
	QP(type, 8);
	QP(type, 11);
	c = qp;
	c.create_qp.pl = basic.buf.pl;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_QP, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	qp.create_qp = (struct ohca_cmd_create_qp){
		.pl = cq.buf.pl, .type = OHCA_QPT_XRC_INI, .flags = OHCA_QP_NO_RQ,
		.pdn = h->pdn, .send_cqn = cq.cqn, .log_rq_stride = 6,
	};
	QP(flags, 0);
	QP(recv_cqn, 1);
	QP(send_cqn, theirs.cqn);
	QP(log_sq, 19);
	/* an XRC SRQ is not the SRQ of a QP */
	qp.create_qp.type = OHCA_QPT_RC;
	qp.create_qp.flags = OHCA_QP_SRQ;
	qp.create_qp.recv_cqn = cq.cqn;
	QP(srqn, x.srqn);

	/* which objects refer to which */
	c = HOST_AQE(create_qp, .type = OHCA_QPT_XRC_TGT, .flags = OHCA_QP_NO_RQ, .srqn = xrcdn);
	n = h->e->xrcd[xrcdn]->refs;
	assert_int_equal(n, 1);
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_QP, &c, NULL), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_XRCD, xrcdn, 0), OHCA_ADMIN_BUSY);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_CQ, cq.cqn, 0), OHCA_ADMIN_BUSY);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_SRQ, x.srqn, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_CQ, cq.cqn, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_XRCD, xrcdn, 0), OHCA_ADMIN_BUSY);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DESTROY_QP, OHCA_FIRST_QP, 0),
			 OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_XRCD, xrcdn, 0), OHCA_ADMIN_OK);
	assert_int_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_XRCD, xrcdn, 0),
			 OHCA_ADMIN_BAD_HANDLE);
	/* the number of domains is limited; a reset frees them all */
	for (n = 0;; n++) {
		c = (struct ohca_hw_aqe){ 0 };
		if (host_cmd(h, OHCA_CMD_ALLOC_XRCD, &c, NULL))
			break;
	}
	assert_int_equal(n, h->e->max_xrcd);
	ohca_reset(h->e);
	assert_int_equal(h->e->xrcd_ids.num, 0);

	/* without the feature all of it is refused */
	host_enable(h, ~(1ull << OHCA_FEATURE_XRC));
	c = (struct ohca_hw_aqe){ 0 };
	assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_XRCD, &c, NULL), OHCA_ADMIN_BAD_OPCODE);
	c = HOST_AQE(create_qp, .type = OHCA_QPT_XRC_TGT, .flags = OHCA_QP_NO_RQ);
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_QP, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, offsetof(struct ohca_hw_aqe, create_qp.type));
	h->pdn = host_pd(h, 0);
	c = srq;
	c.create_srq.pdn = h->pdn;
	c.create_srq.type = OHCA_SRQT_XRC;
	assert_int_equal(host_cmd(h, OHCA_CMD_CREATE_SRQ, &c, NULL), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(h->syndrome, offsetof(struct ohca_hw_aqe, create_srq.type));
	host_buf_free(&cq.buf);
	host_buf_free(&theirs.buf);
	host_buf_free(&basic.buf);
	host_buf_free(&x.buf);
	host_free(h);
}

/* Attributes: the initiator has none of a responder, the target few of a requester. */
static void test_modify(void **state)
{
	struct ohca_hw_qp_attr a;
	struct more m;

	(void)state;
	up(&m, false);
	a = rig_attr(&m.r, 0);
	for (unsigned int i = 0; i < 2; i++) {
		rig_modify(&m.r.qp[i], OHCA_QPS_RESET);
		a.state = OHCA_QPS_INIT;
		assert_int_equal(host_qp_modify(&m.r.qp[i], OHCA_ATTR_STATE |
						OHCA_ATTR_PKEY_INDEX | OHCA_ATTR_PORT |
						OHCA_ATTR_ACCESS, &a), 0);
	}
	a.state = OHCA_QPS_RTR;
#define RTR (OHCA_ATTR_STATE | OHCA_ATTR_AV | OHCA_ATTR_PATH_MTU | OHCA_ATTR_DEST_QPN |	\
	     OHCA_ATTR_RQ_PSN)
#define RESP (OHCA_ATTR_MAX_DEST_RD_ATOMIC | OHCA_ATTR_MIN_RNR_TIMER)
	assert_int_equal(host_qp_modify(&m.r.qp[0], RTR | RESP, &a), OHCA_ADMIN_BAD_STATE);
	assert_int_equal(host_qp_modify(&m.r.qp[0], RTR, &a), 0);
	assert_int_equal(host_qp_modify(&m.r.qp[1], RTR, &a), OHCA_ADMIN_BAD_STATE);
	assert_int_equal(host_qp_modify(&m.r.qp[1], RTR | RESP, &a), 0);
	a.state = OHCA_QPS_RTS;
	assert_int_equal(host_qp_modify(&m.r.qp[1], OHCA_ATTR_STATE | OHCA_ATTR_SQ_PSN |
					OHCA_ATTR_TIMEOUT | OHCA_ATTR_RETRY_CNT, &a),
			 OHCA_ADMIN_BAD_STATE);
	assert_int_equal(host_qp_modify(&m.r.qp[1], OHCA_ATTR_STATE | OHCA_ATTR_SQ_PSN |
					OHCA_ATTR_TIMEOUT, &a), 0);
	assert_int_equal(host_qp_modify(&m.r.qp[0], OHCA_ATTR_STATE | OHCA_ATTR_SQ_PSN |
					OHCA_ATTR_TIMEOUT, &a), OHCA_ADMIN_BAD_STATE);
	down(&m);
}

int main(void)
{
#define T(name) cmocka_unit_test(test_##name)
	const struct CMUnitTest tests[] = {
		T(two_srqs), T(wrong_srq), T(change), T(srq_goes), T(read_srq_goes),
		T(read_again), T(page_of_other), T(page_of_whom), T(rnr), T(events), T(cq_full),
		T(service), T(one_way), T(wqes), T(send_inv), T(commands), T(modify),
	};

	return cmocka_run_group_tests_name("XRC", tests, NULL, NULL);
}
