/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The effect of a missing page on each kind of access: it waits, continues, fails. */
#include "engine/object/qp.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "odp_rig.h"

/* ---- every kind of access --------------------------------------------------------- */

enum kind { K_SEND, K_WRITE, K_READ, K_ATOMIC, K_ATOMIC_WRITE, KINDS };

/* Whether it accesses eight bytes at both ends. */
static bool is_small(enum kind k)
{
	return k >= K_ATOMIC;
}

static void post(struct odp *t, enum kind k, uint64_t wr_id, uint64_t off, uint64_t roff,
		 uint32_t len)
{
	struct wqe w;

	switch (k) {
	case K_SEND:
		rig_send(&t->r, 0, wr_id, off, len);
		break;
	case K_WRITE:
		rig_write(&t->r, 0, wr_id, off, roff, len);
		break;
	case K_READ:
		rig_read(&t->r, 0, wr_id, off, roff, len);
		break;
	case K_ATOMIC:
		rig_atomic(&t->r, 0, OHCA_OP_FETCH_ADD, wr_id, off, roff, 5, 0);
		break;
	default:
		w = wqe_new(OHCA_OP_ATOMIC_WRITE, OHCA_WQE_SIGNALED, wr_id);
		wqe_raddr(&w, t->r.mr[1].iova + roff, t->r.mr[1].key);
		wqe_sge(&w, t->r.mr[0].iova + off, len, t->r.mr[0].key);
		wqe_post(&t->r.qp[0], &w);
	}
}

/* The requester's own pages: it waits without a time limit, and nothing overtakes it. */
static void test_requester(void **state)
{
	for (enum kind k = K_SEND; k < KINDS; k++)
		for (unsigned int ok = 0; ok < 2; ok++) {
			struct odp t;
			struct ohca_hw_fault_eqe f;
			struct ohca_resp_resize_qp at;
			bool write = k == K_READ || k == K_ATOMIC;
			uint32_t len = is_small(k) ? 8 : 3 * PAGE;
			uint64_t off = is_small(k) ? PAGE : 100;

			(void)state;
			odp_up(&t, (struct rig_opt){ .mtu = 4 });
			t.r.mr[1].key = t.pinned[1];
			rig_recv(&t.r, 1, 70, 0, len);
			rig_recv(&t.r, 1, 71, 0, len);
			rig_fill(&t.r, write, write ? 0 : off, len, 9);
			if (k == K_ATOMIC)
				rig_put64(&t.r, 1, 0, 1000);
			/* the second page is missing, or the only one */
			if (!is_small(k))
				odp_pages(&t, 0, 0, 1, RW);
			post(&t, k, 1, off, 0, len);
			rig_send(&t.r, 0, 2, 0, 0);
			rig_run(&t.r);
			f = odp_want(&t, 0, PAGE, is_small(k) ? 8 : len - (PAGE - 100), write);
			/* far longer than all retries: no timer runs */
			rig_time(&t.r, 60000);
			no_wc(&t.r.scq[0]);
			odp_none(&t);
			/* a QP that waits may get other queues meanwhile */
			if (ok == (k & 1))
				for (unsigned int i = 0; i < 2; i++)
					assert_int_equal(host_qp_resize(&t.r.qp[i], 2 + i, 1 + k,
									&at), 0);
			if (ok)
				odp_pages(&t, 0, 1, 3, RW);
			assert_int_equal(odp_resume(&t, 0, f.id, ok), 0);
			assert_int_equal(odp_resume(&t, 0, f.id, ok), OHCA_ADMIN_BAD_HANDLE);
			rig_time(&t.r, 100);
			odp_none(&t);
			if (!ok) {
				assert_int_equal(wc(&t.r.scq[0], 1, WC_LOC_PROT).vendor_err,
						 OHCA_VE_PAGE_FAULT);
				wc(&t.r.scq[0], 2, WC_WR_FLUSH);
				assert_int_equal(host_counter(t.r.h[0], OHCA_CNT_PAGE_FAULT_FAIL), 1);
				odp_down(&t);
				continue;
			}
			wc(&t.r.scq[0], 1, WC_SUCCESS);
			wc(&t.r.scq[0], 2, WC_SUCCESS);
			if (k == K_ATOMIC) {
				assert_int_equal(rig_get64(&t.r, 0, off), 1000);
				assert_int_equal(rig_get64(&t.r, 1, 0), 1005);	/* once */
			} else {
				rig_check(&t.r, !write, write ? off : 0, len, 9);
			}
			assert_int_equal(host_counter(t.r.h[0], OHCA_CNT_PAGE_FAULT), 1);
			odp_down(&t);
		}
}

/* The responder's pages. */
static void test_responder(void **state)
{
	for (enum kind k = K_SEND; k < KINDS; k++)
		for (unsigned int ok = 0; ok < 2; ok++)
			for (unsigned int srq = 0; srq < (k == K_SEND ? 2 : 1); srq++) {
				struct odp t;
				struct ohca_hw_fault_eqe f;
				uint32_t len = is_small(k) ? 8 : 3 * PAGE;
				uint64_t roff = is_small(k) ? PAGE : 100;

				(void)state;
				odp_up(&t, (struct rig_opt){ .mtu = 4, .srq = srq });
				t.r.mr[0].key = t.pinned[0];
				rig_recv(&t.r, 1, 70, roff, len);
				rig_recv(&t.r, 1, 71, 0, 0);
				rig_fill(&t.r, k == K_READ, k == K_READ ? roff : 0, len, 9);
				if (k == K_ATOMIC)
					rig_put64(&t.r, 1, roff, 1000);
				else if (!is_small(k))
					odp_pages(&t, 1, 0, 1, RW);
				post(&t, k, 1, 0, roff, len);
				rig_send(&t.r, 0, 2, 0, 0);
				rig_run(&t.r);
				f = odp_want(&t, 1, PAGE, is_small(k) ? 8 : len - (PAGE - 100),
					     k != K_READ);
				rig_time(&t.r, 20);
				no_wc(&t.r.scq[0]);
				odp_none(&t);
				if (ok)
					odp_pages(&t, 1, 1, 3, RW);
				assert_int_equal(odp_resume(&t, 1, f.id, ok), 0);
				rig_time(&t.r, 100);
				odp_none(&t);
				if (!ok) {
					assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
					wc(&t.r.scq[0], 1, k == K_SEND ? WC_REM_OP : WC_REM_ACCESS);
					wc(&t.r.scq[0], 2, WC_WR_FLUSH);
					if (k == K_SEND)
						assert_int_equal(wc(&t.r.rcq[1], 70, WC_LOC_PROT)
								 .vendor_err, OHCA_VE_PAGE_FAULT);
					else
						event(t.r.h[1], OHCA_EVENT_QP_ACCESS_ERR,
						      t.r.qp[1].handle);
					odp_down(&t);
					continue;
				}
				wc(&t.r.scq[0], 1, WC_SUCCESS);
				wc(&t.r.scq[0], 2, WC_SUCCESS);
				if (k == K_SEND)
					wc(&t.r.rcq[1], 70, WC_SUCCESS);
				wc(&t.r.rcq[1], k == K_SEND ? 71 : 70, WC_SUCCESS);
				no_wc(&t.r.rcq[1]);
				if (k == K_ATOMIC) {
					assert_int_equal(rig_get64(&t.r, 0, 0), 1000);
					assert_int_equal(rig_get64(&t.r, 1, roff), 1005);
				} else {
					rig_check(&t.r, k != K_READ, k != K_READ ? roff : 0, len, 9);
				}
				odp_down(&t);
			}
}

/*
 * A WRITE with immediate data to missing memory is the requester's error, not that of the receive
 * WQE. A SEND into such memory after it is an error of the receive WQE.
 */
static void test_whose(void **state)
{
	for (unsigned int uc = 0; uc < 2; uc++) {
		struct ohca_hw_fault_eqe f;
		struct odp t;
		struct wqe w;

		(void)state;
		odp_up(&t, (struct rig_opt){ .type = uc ? OHCA_QPT_UC : OHCA_QPT_RC });
		t.r.mr[0].key = t.pinned[0];
		rig_recv(&t.r, 1, 70, 0, 64);
		w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, OHCA_WQE_SIGNALED, 1);
		wqe_imm(&w, 1);
		wqe_raddr(&w, t.r.mr[1].iova + PAGE, t.r.mr[1].key);
		wqe_sge(&w, t.r.mr[0].iova, 64, t.r.mr[0].key);
		wqe_post(&t.r.qp[0], &w);
		rig_run(&t.r);
		f = odp_want(&t, 1, PAGE, 64, true);
		assert_int_equal(odp_resume(&t, 1, f.id, false), 0);
		rig_time(&t.r, 100);
		wc(&t.r.scq[0], 1, uc ? WC_SUCCESS : WC_REM_ACCESS);
		assert_int_equal(wc(&t.r.rcq[1], 70, WC_LOC_ACCESS).vendor_err,
				 OHCA_VE_PAGE_FAULT);
		assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
		odp_down(&t);

		odp_up(&t, (struct rig_opt){ .type = uc ? OHCA_QPT_UC : OHCA_QPT_RC });
		t.r.mr[0].key = t.pinned[0];
		/* the page of the WRITE is served, and that of the SEND is not */
		rig_write(&t.r, 0, 1, 0, PAGE, 64);
		rig_run(&t.r);
		f = odp_want(&t, 1, PAGE, 64, true);
		odp_pages(&t, 1, 1, 1, RW);
		assert_int_equal(odp_resume(&t, 1, f.id, true), 0);
		rig_time(&t.r, 100);
		wc(&t.r.scq[0], 1, WC_SUCCESS);
		rig_recv(&t.r, 1, 71, 0, 64);
		rig_send(&t.r, 0, 2, 0, 64);
		rig_run(&t.r);
		f = odp_want(&t, 1, 0, 64, true);
		assert_int_equal(odp_resume(&t, 1, f.id, false), 0);
		rig_time(&t.r, 100);
		wc(&t.r.scq[0], 2, uc ? WC_SUCCESS : WC_REM_OP);
		wc(&t.r.rcq[1], 71, WC_LOC_PROT);
		odp_down(&t);
	}
}

/* The packet that asks for an acknowledgement needs a page: it still asks when it leaves. */
struct asks {
	unsigned int frames, at[4], n;
};

static enum host_fate count_asks(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				 uint32_t len)
{
	struct asks *a = arg;

	(void)from;
	(void)port;
	(void)len;
	if (frame[IB_LRH_LEN + 8] & 0x80 && a->n < 4)
		a->at[a->n++] = a->frames;
	a->frames++;
	return HOST_DELIVER;
}

static void test_asks(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct asks a = { 0 };
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .mtu = 1 });
	odp_pages(&t, 0, 0, 2, OHCA_ODP_READ);
	odp_pages(&t, 1, 0, 8, OHCA_ODP_READ | OHCA_ODP_WRITE);
	host_hook_set(t.r.h[0], 0, count_asks, &a);
	/* packet 31 begins with page 2 */
	rig_write(&t.r, 0, 1, 256, 0, 64 * 256);
	rig_run(&t.r);
	f = odp_want(&t, 0, 8192, 64 * 256 - 31 * 256, false);
	assert_int_equal(a.frames, 31);
	odp_pages(&t, 0, 2, 3, OHCA_ODP_READ);
	assert_int_equal(odp_resume(&t, 0, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(a.n, 2);
	assert_int_equal(a.at[0], 31);
	assert_int_equal(a.at[1], 63);
	host_hook_set(t.r.h[0], 0, NULL, NULL);
	odp_down(&t);
}

/*
 * Responses of an earlier flight, in which one found no page, arrive after the page: that is no
 * loss.
 */
struct old {
	uint8_t frame[2][600];
	uint32_t len[2];
	unsigned int seen;
};

static enum host_fate keep_back(void *arg, struct host *from, unsigned int port, uint8_t *frame,
				uint32_t len)
{
	struct old *o = arg;
	unsigned int i = o->seen++;

	(void)from;
	(void)port;
	if (i < 1 || i > 2)
		return HOST_DELIVER;
	memcpy(o->frame[i - 1], frame, len);
	o->len[i - 1] = len;
	return HOST_DROP;
}

static void test_old_flight(void **state)
{
	static struct old o;
	struct ohca_hw_fault_eqe f;
	struct ohca_xport *xp;
	struct odp t;

	(void)state;
	memset(&o, 0, sizeof(o));
	odp_up(&t, (struct rig_opt){ .mtu = 1 });
	odp_pages(&t, 1, 0, 1, OHCA_ODP_READ);
	host_hook_set(t.r.h[1], 0, keep_back, &o);
	rig_read(&t.r, 0, 1, 0, 0, 3 * 256);
	rig_run(&t.r);
	assert_int_equal(o.seen, 3);
	f = odp_want(&t, 0, 0, 3 * 256, true);
	odp_pages(&t, 0, 0, 1, OHCA_ODP_READ | OHCA_ODP_WRITE);
	assert_int_equal(odp_resume(&t, 0, f.id, true), 0);
	xp = ohca_qp_get(t.r.h[0]->e, t.r.qp[0].handle)->xp;
	assert_int_equal(xp->req.retry_left, 7);
	for (unsigned int i = 0; i < 2; i++)
		host_rx(t.r.h[0], 0, o.frame[i][0] >> 4, o.frame[i], o.len[i], 0);
	assert_int_equal(xp->req.retry_left, 7);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	host_hook_set(t.r.h[1], 0, NULL, NULL);
	odp_down(&t);
}

/*
 * A page arrives while the requester waits for its RNR timer: the timer is not changed, whether it
 * is shorter or longer than the timeout.
 */
static void test_rnr(void **state)
{
	static const uint8_t timeout[] = { 0, 1 };

	(void)state;
	for (unsigned int k = 0; k < sizeof(timeout); k++) {
		struct ohca_hw_fault_eqe f;
		struct ohca_hw_qp_attr a;
		struct odp t;

		odp_up(&t, (struct rig_opt){ .cold = true, .srq = true });
		a = rig_attr(&t.r, 0);
		a.timeout = timeout[k];
		rig_connect(&t.r, 0, a);
		a = rig_attr(&t.r, 1);
		a.min_rnr_timer = 25;	/* 61.44 ms */
		rig_connect(&t.r, 1, a);
		odp_pages(&t, 0, 0, 1, RW);
		odp_pages(&t, 1, 0, 2, RW);
		/* an SRQ grants no credits, so the requester does not count receives from now on */
		rig_recv(&t.r, 1, 0, 0, 0);
		rig_greet(&t.r, 0);
		rig_send(&t.r, 0, 1, 0, 64);
		rig_write(&t.r, 0, 2, PAGE, PAGE, 64);
		rig_run(&t.r);
		assert_int_equal(host_counter(t.r.h[0], OHCA_CNT_RNR_NAK_RX), 1);
		f = odp_want(&t, 0, PAGE, 64, false);
		odp_pages(&t, 0, 1, 1, RW);
		assert_int_equal(odp_resume(&t, 0, f.id, true), 0);
		rig_time(&t.r, 60);
		assert_int_equal(host_counter(t.r.h[0], OHCA_CNT_RNR_NAK_RX), 1);
		rig_recv(&t.r, 1, 71, 0, 64);
		rig_time(&t.r, 2);
		wc(&t.r.scq[0], 1, WC_SUCCESS);
		wc(&t.r.scq[0], 2, WC_SUCCESS);
		wc(&t.r.rcq[1], 71, WC_SUCCESS);
		odp_down(&t);
	}
}

/* A page that is read-only serves reads, and a write causes a page fault. */
static void test_read_only(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ 0 });
	odp_pages(&t, 0, 0, 1, RW);
	odp_pages(&t, 1, 0, 1, OHCA_ODP_READ);
	rig_read(&t.r, 0, 1, 0, 0, 64);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	odp_none(&t);
	rig_write(&t.r, 0, 2, 0, 8, 64);
	rig_run(&t.r);
	f = odp_want(&t, 1, 8, 64, true);
	odp_pages(&t, 1, 0, 1, RW);
	assert_int_equal(odp_resume(&t, 1, f.id, true), 0);
	rig_time(&t.r, 10);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	/* an update to read-only removes the right to write */
	odp_pages(&t, 1, 0, 1, OHCA_ODP_READ);
	rig_atomic(&t.r, 0, OHCA_OP_FETCH_ADD, 3, 0, 16, 1, 0);
	rig_run(&t.r);
	f = odp_want(&t, 1, 16, 8, true);
	assert_int_equal(odp_resume(&t, 1, f.id, false), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 3, WC_REM_ACCESS);
	odp_down(&t);
}

/* A page fault for a window names the region. */
static void test_window(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct ohca_hw_acqe rsp;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ 0 });
	odp_pages(&t, 0, 0, 1, RW);
	{
		struct ohca_hw_aqe c = HOST_AQE(reg_mr, .pdn = t.r.h[1]->pdn, .type = OHCA_MR_MW2);
		struct wqe w = wqe_new(OHCA_OP_BIND_MW, OHCA_WQE_SIGNALED, 1);
		struct ohca_hw_wqe_reg bind;

		assert_int_equal(host_cmd(t.r.h[1], OHCA_CMD_REG_MR, &c, &rsp), 0);
		bind = (struct ohca_hw_wqe_reg){
			.key = rsp.handle.handle + 1, .access = OHCA_ACCESS_REMOTE_WRITE,
			.iova = t.r.mr[1].iova + 3 * PAGE, .length = 2 * PAGE,
			.mr_key = t.r.mr[1].key,
		};
		memcpy(w.b + OHCA_SEG_SIZE, &bind, sizeof(bind));
		w.nseg = 4;
		wqe_post(&t.r.qp[1], &w);
		rig_run(&t.r);
		wc(&t.r.scq[1], 1, WC_SUCCESS);
		w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 2);
		wqe_raddr(&w, t.r.mr[1].iova + 4 * PAGE + 5, bind.key);
		wqe_sge(&w, t.r.mr[0].iova, 100, t.r.mr[0].key);
		wqe_post(&t.r.qp[0], &w);
	}
	rig_run(&t.r);
	f = odp_want(&t, 1, 4 * PAGE + 5, 100, true);
	odp_pages(&t, 1, 4, 1, RW);
	assert_int_equal(odp_resume(&t, 1, f.id, true), 0);
	rig_time(&t.r, 10);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	odp_down(&t);
}

/* ---- datagrams, unreliable connections ------------------------------------------------ */

static void test_ud(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .type = OHCA_QPT_UD });
	rig_recv(&t.r, 1, 70, 0, 1064);
	rig_recv(&t.r, 1, 71, PAGE, 1064);
	rig_fill(&t.r, 0, 0, 1024, 4);
	rig_send(&t.r, 0, 1, 0, 1024);
	rig_send(&t.r, 0, 2, 0, 1024);
	rig_send(&t.r, 0, 3, 0, 1024);
	rig_time(&t.r, 100);
	no_wc(&t.r.scq[0]);
	f = odp_want(&t, 0, 0, 1024, false);
	odp_pages(&t, 0, 0, 1, RW);
	assert_int_equal(odp_resume(&t, 0, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	wc(&t.r.scq[0], 3, WC_SUCCESS);
	/* all three found the receive buffer of the first without a page and are lost */
	no_wc(&t.r.rcq[1]);
	f = odp_want(&t, 1, 40, 1024, true);
	odp_none(&t);
	assert_int_equal(host_counter(t.r.h[1], OHCA_CNT_RX_NO_WQE), 3);
	odp_pages(&t, 1, 0, 2, RW);
	rig_send(&t.r, 0, 4, 0, 1024);
	rig_run(&t.r);
	wc(&t.r.rcq[1], 70, WC_SUCCESS);
	rig_check(&t.r, 0, 0, 1024, 4);
	/* too late to have an effect */
	assert_int_equal(odp_resume(&t, 1, f.id, false), 0);
	rig_send(&t.r, 0, 5, 0, 1024);
	rig_run(&t.r);
	wc(&t.r.rcq[1], 71, WC_SUCCESS);
	wc(&t.r.scq[0], 4, WC_SUCCESS);
	wc(&t.r.scq[0], 5, WC_SUCCESS);
	/* failures of both sides */
	rig_recv(&t.r, 1, 72, 2 * PAGE, 1064);
	rig_send(&t.r, 0, 6, 0, 1024);
	rig_run(&t.r);
	wc(&t.r.scq[0], 6, WC_SUCCESS);
	f = odp_want(&t, 1, 2 * PAGE + 40, 1024, true);
	assert_int_equal(odp_resume(&t, 1, f.id, false), 0);
	wc(&t.r.rcq[1], 72, WC_LOC_PROT);
	assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
	rig_send(&t.r, 0, 7, 8 * PAGE, 1024);
	rig_send(&t.r, 0, 8, 0, 1024);
	rig_run(&t.r);
	f = odp_want(&t, 0, 8 * PAGE, 1024, false);
	assert_int_equal(odp_resume(&t, 0, f.id, false), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 7, WC_LOC_PROT);
	wc(&t.r.scq[0], 8, WC_WR_FLUSH);
	assert_int_equal(rig_state(&t.r.qp[0]), OHCA_QPS_SQE);
	odp_down(&t);
}

static void test_uc(void **state)
{
	struct ohca_hw_fault_eqe f;
	struct odp t;

	(void)state;
	odp_up(&t, (struct rig_opt){ .type = OHCA_QPT_UC });
	rig_fill(&t.r, 0, 0, 3 * PAGE, 4);
	rig_recv(&t.r, 1, 70, 0, 3 * PAGE);
	/* in the middle of a message: it continues where it stopped */
	odp_pages(&t, 0, 0, 1, RW);
	odp_pages(&t, 1, 0, 4, RW);
	rig_send(&t.r, 0, 1, 0, 3 * PAGE);
	rig_time(&t.r, 1000);
	f = odp_want(&t, 0, PAGE, 2 * PAGE, false);
	odp_pages(&t, 0, 1, 2, RW);
	assert_int_equal(odp_resume(&t, 0, f.id, true), 0);
	rig_run(&t.r);
	wc(&t.r.scq[0], 1, WC_SUCCESS);
	wc(&t.r.rcq[1], 70, WC_SUCCESS);
	rig_check(&t.r, 1, 0, 3 * PAGE, 4);
	/* at the other end it is lost, and the next one uses its WQE */
	odp_pages(&t, 1, 0, 4, 0);
	rig_recv(&t.r, 1, 71, 0, 3 * PAGE);
	rig_send(&t.r, 0, 2, 0, 3 * PAGE);
	rig_run(&t.r);
	wc(&t.r.scq[0], 2, WC_SUCCESS);
	no_wc(&t.r.rcq[1]);
	f = odp_want(&t, 1, 0, 3 * PAGE, true);
	odp_pages(&t, 1, 0, 4, RW);
	assert_int_equal(odp_resume(&t, 1, f.id, true), 0);
	rig_send(&t.r, 0, 3, 0, 3 * PAGE);
	rig_run(&t.r);
	wc(&t.r.scq[0], 3, WC_SUCCESS);
	wc(&t.r.rcq[1], 71, WC_SUCCESS);
	rig_write(&t.r, 0, 4, 0, 8 * PAGE, PAGE);
	rig_run(&t.r);
	f = odp_want(&t, 1, 8 * PAGE, PAGE, true);
	assert_int_equal(odp_resume(&t, 1, f.id, false), 0);
	assert_int_equal(rig_state(&t.r.qp[1]), OHCA_QPS_ERR);
	odp_down(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requester),
		cmocka_unit_test(test_responder),
		cmocka_unit_test(test_whose),
		cmocka_unit_test(test_asks),
		cmocka_unit_test(test_old_flight),
		cmocka_unit_test(test_rnr),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_ud),
		cmocka_unit_test(test_uc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
