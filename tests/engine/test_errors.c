/* SPDX-License-Identifier: GPL-2.0-or-later */
/* RC: every completion status and every event that an error can cause. */
#include "ib/packet.h"
#include "rig.h"

static struct rig_opt rc(void)
{
	return (struct rig_opt){ .mtu = 3 };
}

/* The QP is in ERR: posts to either queue are flushed. */
static void keeps_flushing(struct rig *r, unsigned int i)
{
	struct wqe w;

	assert_int_equal(rig_state(&r->qp[i]), OHCA_QPS_ERR);
	for (unsigned int k = 0; k < 3; k++) {
		w = wqe_new(OHCA_OP_SEND, 0, 900 + k);
		wqe_post(&r->qp[i], &w);
		rig_recv(r, i, 800 + k, 0, 10);
		if (k == 1)
			continue;
		rig_run(r);
		for (unsigned int j = k ? 1 : 0; j <= k; j++) {
			wc(&r->scq[i], 900 + j, WC_WR_FLUSH);
			wc(&r->rcq[i], 800 + j, WC_WR_FLUSH);
		}
	}
	no_wc(&r->scq[i]);
	no_wc(&r->rcq[i]);
}

/* Posts @w as 1 between a good WRITE and one that is flushed; @w fails with @status. */
static struct ohca_hw_cqe sender_fails(struct rig *r, struct wqe *w, uint32_t status)
{
	struct ohca_hw_cqe c;

	rig_recv(r, 0, 700, 0, 100);
	rig_write(r, 0, 500, 0, 0, 5000);
	wqe_post(&r->qp[0], w);
	rig_write(r, 0, 501, 0, 0, 5000);
	rig_time(r, 50);
	wc(&r->scq[0], 500, WC_SUCCESS);
	c = wc(&r->scq[0], 1, status);
	wc(&r->scq[0], 501, WC_WR_FLUSH);
	wc(&r->rcq[0], 700, WC_WR_FLUSH);
	keeps_flushing(r, 0);
	return c;
}

static struct wqe write_to(struct rig *r, uint64_t roff, uint32_t rkey, uint32_t len)
{
	struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);

	wqe_raddr(&w, r->mr[1].iova + roff, rkey);
	wqe_sge(&w, r->mr[0].iova, len, r->mr[0].key);
	return w;
}

/* ---- local errors of the sender ---- */

static void test_bad_wqe(void **state)
{
	struct ohca_hw_wqe_ctrl *ctrl;
	struct rig r;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 13; k++) {
		uint32_t ve = OHCA_VE_WQE_SIZE;

		rig_up(&r, rc());
		w = write_to(&r, 0, r.mr[1].key, 100);
		ctrl = (struct ohca_hw_wqe_ctrl *)(void *)w.b;
		switch (k) {
		case 0:
			ctrl->opcode = 0x1f;
			ve = OHCA_VE_WQE_OPCODE;
			break;
		case 1:
			ctrl->opcode = OHCA_OP_TSO;
			ve = OHCA_VE_WQE_OPCODE;
			break;
		case 2:		/* not privileged */
			w = wqe_new(OHCA_OP_REG_MR, OHCA_WQE_SIGNALED, 1);
			w.nseg = 4;
			ve = OHCA_VE_WQE_OPCODE;
			break;
		case 3:		/* no remote address */
			w.nseg = 1;
			break;
		case 4:		/* 31 SGEs */
			w.nseg = 2;
			for (unsigned int i = 0; i < 31; i++)
				wqe_sge(&w, r.mr[0].iova, 1, r.mr[0].key);
			break;
		case 5:		/* inline length and segments disagree */
			ctrl->flags |= OHCA_WQE_INLINE | OHCA_FIELD_PREP(OHCA_WQE_INLINE_LEN, 17);
			break;
		case 6:		/* too much inline data */
			w.nseg = 2;
			wqe_inline(&w, r.h[0]->mem, 513);
			break;
		case 7:		/* READ cannot be inline */
			w.nseg = 2;
			ctrl->opcode = OHCA_OP_RDMA_READ;
			wqe_inline(&w, r.h[0]->mem, 16);
			ve = OHCA_VE_WQE_FLAGS;
			break;
		case 8:
			ctrl->flags |= OHCA_WQE_IP_CSUM;
			ve = OHCA_VE_WQE_FLAGS;
			break;
		case 9:		/* a NOP has no data */
			ctrl->opcode = OHCA_OP_NOP;
			break;
		case 10:	/* more BBs than a WQE may have */
			w.nseg = 37;
			break;
		case 11:	/* longer than what is posted */
			w.nseg = 3;
			break;
		case 12:	/* no segment at all */
			w.nseg = 0;
			break;
		}
		if (k < 10) {
			assert_int_equal(sender_fails(&r, &w, WC_LOC_QP_OP).vendor_err, ve);
		} else {
			struct ohca_hw_db *db = host_buf_ptr(r.h[0], &r.qp[0].buf, 0);

			/* it occupies one BB only */
			ctrl->nseg = k == 10 ? 37 : k == 11 ? 8 : 0;
			w.b[1] = ctrl->nseg;
			host_post_wqe(&r.qp[0], w.b, 4);
			(void)db;
			rig_run(&r);
			assert_int_equal(wc(&r.scq[0], 1, WC_LOC_QP_OP).vendor_err, ve);
			keeps_flushing(&r, 0);
		}
		assert_true(host_counter(r.h[0], OHCA_CNT_LOCAL_ERR) == 1);
		no_event(r.h[0]);
		rig_down(&r);
	}
}

static void test_loc_prot(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 6; k++) {
		uint32_t key, ve = OHCA_VE_LKEY, len = 100;
		uint64_t addr;

		rig_up(&r, rc());
		key = r.mr[0].key;
		addr = r.mr[0].iova;
		w = wqe_new(k == 5 ? OHCA_OP_RDMA_READ : OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);
		wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
		switch (k) {
		case 0:		/* another tag */
			key ^= 1;
			break;
		case 1:		/* no such index */
			key = 0x12300;
			break;
		case 2:		/* beyond the end, by one */
			addr += RIG_MR_LEN - 99;
			ve = OHCA_VE_BOUNDS;
			break;
		case 3: {	/* of another PD */
			struct host_mr mr;

			host_mr_create(r.h[0], &mr, 4096, host_pd(r.h[0], 0),
				       OHCA_ACCESS_LOCAL_WRITE);
			key = mr.key;
			addr = mr.iova;
			host_buf_free(&mr.buf);
			ve = OHCA_VE_PD;
			break;
		}
		case 4:		/* fails at the third packet of a message */
			len = 3000;
			addr += RIG_MR_LEN - 2500;
			ve = OHCA_VE_BOUNDS;
			break;
		case 5: {	/* READ into memory that is not writable */
			struct host_mr mr;

			host_mr_create(r.h[0], &mr, 4096, r.h[0]->pdn, 0);
			key = mr.key;
			addr = mr.iova;
			host_buf_free(&mr.buf);
			ve = OHCA_VE_ACCESS;
			break;
		}
		}
		wqe_sge(&w, addr, len, key);
		assert_int_equal(sender_fails(&r, &w, WC_LOC_PROT).vendor_err, ve);
		rig_down(&r);
	}
}

/* Memory of a region with a valid key was removed. */
static void test_dma(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, rc());
	w = write_to(&r, 0, r.mr[1].key, 6000);
	rig_recv(&r, 0, 700, 0, 100);
	r.h[0]->hole = r.mr[0].buf.page[1];
	r.h[0]->hole_len = HOST_PAGE;
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	assert_int_equal(wc(&r.scq[0], 1, WC_LOC_PROT).vendor_err, OHCA_VE_DMA);
	wc(&r.rcq[0], 700, WC_WR_FLUSH);
	r.h[0]->hole_len = 0;
	keeps_flushing(&r, 0);
	rig_down(&r);
	/* memory of the send queue itself */
	rig_up(&r, (struct rig_opt){ .log_sq = 8, .log_rq = 4 });
	rig_run(&r);
	r.h[0]->hole = r.qp[0].buf.page[r.qp[0].sq_off / HOST_PAGE + 1];
	r.h[0]->hole_len = HOST_PAGE;
	r.qp[0].sq_pi = 0;
	for (unsigned int i = 0; i < 32; i++)
		rig_write(&r, 0, i, 0, 0, 8);
	r.qp[0].sq_pi = 32;
	rig_run(&r);
	for (unsigned int i = 0; i < 40; i++)
		rig_write(&r, 0, i, 0, 0, 8);
	rig_run(&r);
	event(r.h[0], OHCA_EVENT_QP_FATAL, r.qp[0].handle);
	r.h[0]->hole_len = 0;
	assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_ERR);
	rig_down(&r);
}

static void test_loc_len(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, rc());
	w = wqe_new(OHCA_OP_FETCH_ADD, OHCA_WQE_SIGNALED, 1);
	wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
	wqe_atomic(&w, 1, 0);
	wqe_sge(&w, r.mr[0].iova, 4, r.mr[0].key);
	sender_fails(&r, &w, WC_LOC_LEN);
	rig_down(&r);
	/* more than 2 GiB */
	rig_up(&r, rc());
	w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);
	wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
	wqe_sge(&w, r.mr[0].iova, 1u << 31, r.mr[0].key);
	wqe_sge(&w, r.mr[0].iova, 1, r.mr[0].key);
	sender_fails(&r, &w, WC_LOC_LEN);
	rig_down(&r);
}

/* Keys that a WQE cannot make or invalidate. */
static void test_mw_bind(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 3; k++) {
		struct ohca_hw_wqe_reg reg = { .key = 0x4200, .length = 4096 };

		rig_up(&r, (struct rig_opt){ .privileged = true });
		if (k == 0) {
			w = wqe_new(OHCA_OP_LOCAL_INV, OHCA_WQE_SIGNALED, 1);
			wqe_inv(&w, r.mr[0].key);
		} else {
			w = wqe_new(k == 1 ? OHCA_OP_BIND_MW : OHCA_OP_REG_MR, OHCA_WQE_SIGNALED, 1);
			memcpy(w.b + 16, &reg, sizeof(reg));
			w.nseg = 4;
		}
		sender_fails(&r, &w, WC_MW_BIND);
		rig_down(&r);
	}
}

/* ---- requests that the responder refuses ---- */

static void test_rem_access(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 6; k++) {
		struct host_mr mr = { 0 };
		uint32_t key, pdn;
		uint64_t off = 0;

		rig_up(&r, rc());
		key = r.mr[1].key;
		pdn = r.h[1]->pdn;
		switch (k) {
		case 0:
			key ^= 1;
			break;
		case 1:
			off = RIG_MR_LEN - 4999;
			break;
		case 2:		/* wraps around the address space */
			off = -r.mr[1].iova - 100;
			break;
		case 3:		/* of another process */
			pdn = host_pd(r.h[1], 0);
			/* fall through */
		case 4:		/* no right to write */
			host_mr_create(r.h[1], &mr, 8192, pdn, k == 3 ? OHCA_ACCESS_LOCAL_WRITE |
				       OHCA_ACCESS_REMOTE_WRITE : OHCA_ACCESS_REMOTE_READ);
			host_buf_free(&mr.buf);
			key = mr.key;
			off = mr.iova - r.mr[1].iova;
			break;
		case 5:		/* the reserved L_Key is no R_Key */
			key = 0x100;
			off = r.mr[1].buf.page[0] - r.mr[1].iova;
			break;
		}
		rig_recv(&r, 1, 600, 0, 100);
		w = write_to(&r, off, key, 5000);
		sender_fails(&r, &w, WC_REM_ACCESS);
		event(r.h[1], OHCA_EVENT_QP_ACCESS_ERR, r.qp[1].handle);
		no_event(r.h[1]);
		no_event(r.h[0]);
		wc(&r.rcq[1], 600, WC_WR_FLUSH);
		keeps_flushing(&r, 1);
		rig_down(&r);
	}
	/* READ and atomics */
	for (unsigned int k = 0; k < 2; k++) {
		rig_up(&r, rc());
		w = wqe_new(k ? OHCA_OP_FETCH_ADD : OHCA_OP_RDMA_READ, OHCA_WQE_SIGNALED, 1);
		wqe_raddr(&w, r.mr[1].iova, r.mr[1].key ^ 1);
		if (k)
			wqe_atomic(&w, 1, 0);
		wqe_sge(&w, r.mr[0].iova, 8, r.mr[0].key);
		sender_fails(&r, &w, WC_REM_ACCESS);
		event(r.h[1], OHCA_EVENT_QP_ACCESS_ERR, r.qp[1].handle);
		rig_down(&r);
	}
}

static void test_rem_inv_req(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	for (unsigned int k = 0; k < 4; k++) {
		struct ohca_hw_qp_attr a;

		rig_up(&r, (struct rig_opt){ .cold = true });
		a = rig_attr(&r, 1);
		if (k < 3)
			a.access = 0;
		rig_connect(&r, 1, a);
		rig_connect(&r, 0, rig_attr(&r, 0));
		w = wqe_new(k == 0 ? OHCA_OP_RDMA_WRITE : k == 1 ? OHCA_OP_RDMA_READ :
			    OHCA_OP_CMP_SWAP, OHCA_WQE_SIGNALED, 1);
		/* the last one is an atomic without alignment */
		wqe_raddr(&w, r.mr[1].iova + (k == 3 ? 4 : 0), r.mr[1].key);
		if (k >= 2)
			wqe_atomic(&w, 1, 0);
		wqe_sge(&w, r.mr[0].iova, 8, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_REM_INV_REQ);
		event(r.h[1], OHCA_EVENT_QP_REQ_ERR, r.qp[1].handle);
		keeps_flushing(&r, 0);
		keeps_flushing(&r, 1);
		rig_down(&r);
	}
}

/* More READs than the responder has resources for: the requester has wrong attributes. */
static void test_rd_resources(void **state)
{
	struct ohca_hw_qp_attr a;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .cold = true, .mtu = 1 });
	a = rig_attr(&r, 1);
	a.max_dest_rd_atomic = 1;
	rig_connect(&r, 1, a);
	rig_connect(&r, 0, rig_attr(&r, 0));
	for (unsigned int i = 0; i < 4; i++)
		rig_read(&r, 0, i, 0, 0, 100000);
	rig_run(&r);
	wc(&r.scq[0], 0, WC_SUCCESS);
	wc(&r.scq[0], 1, WC_REM_INV_REQ);
	wc(&r.scq[0], 2, WC_WR_FLUSH);
	rig_down(&r);
	/* with as many as there are, all of them succeed */
	rig_up(&r, (struct rig_opt){ .cold = true, .mtu = 1 });
	rig_connect(&r, 1, a);
	a = rig_attr(&r, 0);
	a.max_rd_atomic = 1;
	rig_connect(&r, 0, a);
	for (unsigned int i = 0; i < 4; i++)
		rig_read(&r, 0, i, 0, 0, 100000);
	rig_run(&r);
	for (unsigned int i = 0; i < 4; i++)
		wc(&r.scq[0], i, WC_SUCCESS);
	rig_down(&r);
}

/* The receive buffer is too small or is no memory of ours, or the receive WQE is malformed. */
static void test_recv(void **state)
{
	static const uint8_t sender[] = { WC_REM_INV_REQ, WC_REM_OP, WC_REM_OP };
	static const uint8_t receiver[] = { WC_LOC_LEN, WC_LOC_PROT, WC_LOC_QP_OP };
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 3; k++) {
		for (unsigned int srq = 0; srq < 2; srq++) {
			struct rig_opt o = rc();

			o.srq = srq;
			rig_up(&r, o);
			if (k == 1)
				r.mr[1].key ^= 1;
			rig_recv(&r, 1, 5, 0, 2999 + (k != 0));
			if (k == 2)
				*((uint8_t *)host_buf_ptr(r.h[1], srq ? &r.srq[1].buf :
							  &r.qp[1].buf, 512 + 8)) = 31;
			rig_send(&r, 0, 1, 0, 3000);
			rig_run(&r);
			wc(&r.scq[0], 1, sender[k]);
			wc(&r.rcq[1], 5, receiver[k]);
			if (srq)
				event(r.h[1], OHCA_EVENT_LAST_WQE, r.qp[1].handle);
			no_event(r.h[1]);
			assert_int_equal(rig_state(&r.qp[1]), OHCA_QPS_ERR);
			if (!srq)
				keeps_flushing(&r, 1);
			rig_down(&r);
		}
	}
}

/* A region is deregistered during a message into it. */
struct dereg {
	struct rig *r;
	unsigned int after, seen;
	uint32_t key;
};

static enum host_fate hold_last(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				uint32_t len)
{
	struct dereg *d = arg;

	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return d->seen++ >= d->after ? HOST_DROP : HOST_DELIVER;
}

static void test_loc_access(void **state)
{
	struct dereg d = { .after = 3 };
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, rc());
	d.r = &r;
	host_hook_set(r.h[0], 0, hold_last, &d);
	rig_recv(&r, 1, 5, 0, 0);
	w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, OHCA_WQE_SIGNALED, 1);
	wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
	wqe_sge(&w, r.mr[0].iova, 4096, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	assert_int_equal(host_cmd_handle(r.h[1], OHCA_CMD_DEREG_MR, r.mr[1].key, 0), 0);
	host_hook_set(r.h[0], 0, NULL, NULL);
	rig_time(&r, 100);
	wc(&r.scq[0], 1, WC_REM_ACCESS);
	wc(&r.rcq[1], 5, WC_LOC_ACCESS);
	rig_down(&r);
	/* during a READ: a NAK ends its response */
	d.seen = 0;
	rig_up(&r, rc());
	host_hook_set(r.h[1], 0, hold_last, &d);
	rig_read(&r, 0, 1, 0, 0, 100000);
	rig_run(&r);
	assert_int_equal(host_cmd_handle(r.h[1], OHCA_CMD_DEREG_MR, r.mr[1].key, 0), 0);
	host_hook_set(r.h[1], 0, NULL, NULL);
	rig_time(&r, 1000);
	no_event(r.h[0]);
	assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_ERR);
	rig_down(&r);
}

/* A NAK waits for the READ responses before it, and all of them arrive. */
static void test_nak_order(void **state)
{
	struct rig r;
	struct wqe w;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1 });
	r.h[1]->port[0].credits = 1;
	rig_fill(&r, 1, 0, 50000, 3);
	rig_read(&r, 0, 1, 0, 0, 50000);
	rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 2, 60000, 60000, 1, 0);
	w = write_to(&r, 0, 0x77700, 8);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.scq[0], 2, WC_SUCCESS);
	wc(&r.scq[0], 1, WC_REM_ACCESS);
	rig_check(&r, 0, 0, 50000, 3);
	rig_down(&r);
}

/* ---- invalid responses ---- */

struct patch {
	uint8_t from, to;
	uint32_t cut;
};

static enum host_fate patch_op(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			       uint32_t len)
{
	const struct patch *p = arg;

	(void)from;
	(void)port;
	(void)len;
	if (frame[8] == p->from)
		frame[8] = p->to;
	return HOST_DELIVER;
}

static void test_bad_resp(void **state)
{
	static struct patch p[] = {
		/* 8 bytes of READ response become an atomic response, and the reverse */
		{ IB_OP_RC_READ_RESP_ONLY, IB_OP_RC_ATOMIC_ACK, 0 },
		{ IB_OP_RC_ATOMIC_ACK, IB_OP_RC_READ_RESP_ONLY, 0 },
	};
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		rig_up(&r, rc());
		host_hook_set(r.h[1], 0, patch_op, &p[k]);
		if (k == 0)
			rig_read(&r, 0, 1, 0, 0, 8);
		else
			rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 1, 0, 0, 1, 0);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_BAD_RESP);
		keeps_flushing(&r, 0);
		rig_down(&r);
	}
}

static enum host_fate shorten(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			      uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	(void)len;
	/* one byte of the payload becomes padding */
	if (frame[8] == IB_OP_RC_READ_RESP_ONLY)
		frame[9] |= 0x10;
	return HOST_DELIVER;
}

static void test_short_resp(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, rc());
	host_hook_set(r.h[1], 0, shorten, NULL);
	rig_read(&r, 0, 1, 0, 0, 8);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_LOC_LEN);
	rig_down(&r);
}

/* Requests in the middle of a message, in the wrong order. */
static void test_bad_sequence(void **state)
{
	static struct patch p[] = {
		{ IB_OP_RC_WRITE_MIDDLE, IB_OP_RC_SEND_MIDDLE, 0 },
		{ IB_OP_RC_WRITE_LAST, IB_OP_RC_WRITE_MIDDLE, 0 },
		{ IB_OP_RC_WRITE_MIDDLE, IB_OP_RC_WRITE_LAST, 0 },
		{ IB_OP_RC_SEND_FIRST, IB_OP_RC_SEND_MIDDLE, 0 },
		{ IB_OP_RC_SEND_LAST, IB_OP_RC_SEND_ONLY, 0 },
	};
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 5; k++) {
		rig_up(&r, rc());
		rig_recv(&r, 1, 5, 0, 10000);
		host_hook_set(r.h[0], 0, patch_op, &p[k]);
		if (k < 3)
			rig_write(&r, 0, 1, 0, 0, 4000);
		else
			rig_send(&r, 0, 1, 0, 4000);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_REM_INV_REQ);
		wc(&r.rcq[1], 5, WC_WR_FLUSH);
		event(r.h[1], OHCA_EVENT_QP_REQ_ERR, r.qp[1].handle);
		rig_down(&r);
	}
}

/* ---- queues ---- */

/* A full CQ: its error, and that of the QP that needed it. */
static void test_cq_overflow(void **state)
{
	struct rig r;
	struct host_cq small;
	struct host_qp_init in = { 0 };
	struct host_qp q;

	(void)state;
	rig_up(&r, rc());
	host_cq_create(r.h[0], &small, 1, 0);
	in.scq = &small;
	in.rcq = &r.rcq[0];
	assert_int_equal(host_qp_create(r.h[0], &q, &in), 0);
	host_qp_connect(&q, 0, 2, r.qp[1].qpn, 3, 0, 0);
	for (unsigned int i = 0; i < 4; i++) {
		struct wqe w = wqe_new(OHCA_OP_NOP, OHCA_WQE_SIGNALED, i);

		wqe_post(&q, &w);
	}
	rig_run(&r);
	wc(&small, 0, WC_SUCCESS);
	wc(&small, 1, WC_SUCCESS);
	event(r.h[0], OHCA_EVENT_CQ_ERR, small.cqn);
	event(r.h[0], OHCA_EVENT_QP_FATAL, q.handle);
	assert_int_equal(rig_state(&q), OHCA_QPS_ERR);
	/* the other QP of the machine is not affected */
	rig_write(&r, 0, 9, 0, 0, 100);
	rig_run(&r);
	wc(&r.scq[0], 9, WC_SUCCESS);
	host_qp_destroy(&q);
	host_cq_destroy(&small);
	rig_down(&r);
}

/* An invalid producer index. */
static void test_bad_index(void **state)
{
	struct rig r;
	struct ohca_hw_db *db;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		rig_up(&r, rc());
		rig_write(&r, 0, 1, 0, 0, 8);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		db = host_buf_ptr(r.h[0], &r.qp[0].buf, 0);
		db->sq_pi = k ? 0 : 1 + 65;
		ohca_doorbell(r.h[0]->e, 0, OHCA_UAR_SQ, r.qp[0].handle, 8);
		rig_run(&r);
		event(r.h[0], OHCA_EVENT_QP_FATAL, r.qp[0].handle);
		assert_int_equal(rig_state(&r.qp[0]), OHCA_QPS_ERR);
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_DB_BAD_INDEX), 1);
		rig_down(&r);
	}
}

/* To ERR by command, with work everywhere. */
static void test_flush(void **state)
{
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .mtu = 1, .log_sq = 8 });
	r.h[0]->port[0].credits = 1;
	for (unsigned int i = 0; i < 100; i++) {
		rig_write(&r, 0, i, 0, 0, 1000);
		if (i < 40)
			rig_recv(&r, 0, i, 0, 100);
	}
	host_step(r.h, 2);
	rig_modify(&r.qp[0], OHCA_QPS_ERR);
	rig_time(&r, 100);
	for (unsigned int i = 0; i < 100; i++)
		assert_in_range(wc(&r.scq[0], i, WC_WR_FLUSH).wqe_idx, i, i);
	for (unsigned int i = 0; i < 40; i++)
		wc(&r.rcq[0], i, WC_WR_FLUSH);
	keeps_flushing(&r, 0);
	/* half of a message had been received */
	rig_down(&r);
	rig_up(&r, (struct rig_opt){ .mtu = 1, .srq = true });
	r.h[0]->port[0].credits = 2;
	rig_recv(&r, 1, 7, 0, 10000);
	rig_send(&r, 0, 1, 0, 10000);
	for (unsigned int i = 0; i < 4; i++)
		host_step(r.h, 2);
	rig_modify(&r.qp[1], OHCA_QPS_ERR);
	wc(&r.rcq[1], 7, WC_WR_FLUSH);
	event(r.h[1], OHCA_EVENT_LAST_WQE, r.qp[1].handle);
	rig_time(&r, 1000);
	wc(&r.scq[0], 1, WC_RETRY_EXC);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_wqe),
		cmocka_unit_test(test_loc_prot),
		cmocka_unit_test(test_dma),
		cmocka_unit_test(test_loc_len),
		cmocka_unit_test(test_mw_bind),
		cmocka_unit_test(test_rem_access),
		cmocka_unit_test(test_rem_inv_req),
		cmocka_unit_test(test_rd_resources),
		cmocka_unit_test(test_recv),
		cmocka_unit_test(test_loc_access),
		cmocka_unit_test(test_nak_order),
		cmocka_unit_test(test_bad_resp),
		cmocka_unit_test(test_short_resp),
		cmocka_unit_test(test_bad_sequence),
		cmocka_unit_test(test_cq_overflow),
		cmocka_unit_test(test_bad_index),
		cmocka_unit_test(test_flush),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
