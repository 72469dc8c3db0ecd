/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * End-to-end flow control of RC (IBTA vol 1, 9.7.7.2): the credits that a responder sends, and
 * their effect.
 */
#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/xport.h"
#include "ib/packet.h"
#include "rig.h"

#define MTU	1024u
#define NO_CODE	0xffu

/** struct seen - requests of side 0 and the last ACK of side 1 */
struct seen {
	unsigned int requests;
	uint8_t code;		/* of the ACK; NO_CODE: there was none */
	uint32_t lie;		/* added to every MSN */
};

static enum host_fate see(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			  uint32_t len)
{
	const struct ib_aeth *aeth;
	struct ib_pkt_info i;
	struct seen *s = arg;

	(void)from;
	(void)port;
	assert_int_equal(ib_hdr_parse(frame, len, len, 0, &i), 0);
	if (!(i.op->flags & IB_OPF_RESPONSE)) {
		s->requests++;
		return HOST_DELIVER;
	}
	aeth = ib_pkt_aeth(frame, &i);
	if (aeth && IB_AETH_KIND(ib_aeth_syndrome(aeth)) == IB_AETH_ACK)
		s->code = IB_AETH_VALUE(ib_aeth_syndrome(aeth));
	if (aeth && s->lie)
		ib_build_aeth(frame + i.bth_off + i.op->aeth, ib_aeth_syndrome(aeth),
			      ib_aeth_msn(aeth) + s->lie);
	return HOST_DELIVER;
}

static void up(struct rig *r, struct seen *s, bool srq)
{
	*s = (struct seen){ .code = NO_CODE };
	rig_up(r, (struct rig_opt){ .srq = srq, .log_sq = 8, .log_rq = 8 });
	for (unsigned int i = 0; i < 2; i++)
		host_hook_set(r->h[i], 0, see, s);
}

static void recvs(struct rig *r, unsigned int n)
{
	while (n--)
		rig_recv(r, 1, 5, 0, 8192);
}

static void write_imm(struct rig *r, uint64_t wr_id, uint32_t len)
{
	struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE_IMM, OHCA_WQE_SIGNALED, wr_id);

	wqe_raddr(&w, r->mr[1].iova, r->mr[1].key);
	wqe_sge(&w, r->mr[0].iova, len, r->mr[0].key);
	wqe_post(&r->qp[0], &w);
}

static void done(struct rig *r, unsigned int n)
{
	while (n--)
		wc(&r->scq[0], 1, WC_SUCCESS);
}

/* Both sides count the same, whatever is sent. */
static void same_count(struct rig *r)
{
	assert_int_equal(r->h[0]->e->qp[r->qp[0].handle]->xp->req.ssn,
			 r->h[1]->e->qp[r->qp[1].handle]->xp->resp.msn);
}

/* One packet leaves without a receive WQE for it, and then no more. */
static void test_limit(void **state)
{
	static const uint32_t lens[] = { 10, 3 * MTU };
	struct seen s;
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 4; k++) {
		uint32_t len = lens[k & 1], pkts = k & 1 ? 3 : 1;

		up(&r, &s, false);
		recvs(&r, 3);
		for (unsigned int i = 0; i < 10; i++) {
			if (k & 2)
				write_imm(&r, 1, len);
			else
				rig_send(&r, 0, 1, 0, len);
		}
		/* a request that needs no WQE waits, too, because it would be discarded */
		rig_write(&r, 0, 1, 0, 0, 10);
		rig_read(&r, 0, 1, 0, 0, 10);
		rig_run(&r);
		done(&r, 3);
		/* a WRITE uses its WQE last */
		assert_int_equal(s.requests, k & 2 ? 4 * pkts : 3 * pkts + 1);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RNR_NAK_TX), 1);
		assert_int_equal(host_counter(r.h[1], OHCA_CNT_RX_OUT_OF_SEQ), 0);
		recvs(&r, 7);
		rig_time(&r, 10);
		done(&r, 9);
		same_count(&r);
		rig_down(&r);
	}
}

/* With WQEs for all, only the second packet waits, for the first ACK. */
static void test_enough(void **state)
{
	unsigned int n = 0;
	struct seen s;
	struct rig r;
	struct wqe w;

	(void)state;
	up(&r, &s, false);
	recvs(&r, 200);
	rig_send(&r, 0, 1, 0, 3 * MTU);
	ohca_poll(r.h[0]->e, 64);
	assert_int_equal(s.requests, 1);
	rig_run(&r);
	done(&r, 1);
	assert_int_equal(s.code, ib_credit_code(199));
	for (unsigned int i = 0; i < 12; i++) {
		rig_send(&r, 0, 1, 0, 3 * MTU);
		write_imm(&r, 1, 10);
		rig_write(&r, 0, 1, 0, 0, 10);
		n += 3;
	}
	ohca_poll(r.h[0]->e, 1000);
	assert_int_equal(s.requests, 3 + 12 * 5);
	rig_run(&r);
	done(&r, n);
	for (unsigned int i = 0; i < 4; i++) {
		w = wqe_new(OHCA_OP_MASKED_FETCH_ADD, OHCA_WQE_SIGNALED, 1);
		wqe_raddr(&w, r.mr[1].iova, r.mr[1].key);
		wqe_atomic(&w, 1, 0);
		wqe_masks(&w, 0, 0);
		wqe_sge(&w, r.mr[0].iova, 8, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		rig_atomic(&r, 0, OHCA_OP_FETCH_ADD, 1, 0, 0, 1, 0);
		rig_read(&r, 0, 1, 0, 0, 10000);
		rig_send(&r, 0, 1, 0, 10);
	}
	rig_run(&r);
	done(&r, 16);
	same_count(&r);
	/* a request without need of credits did not use those of another */
	assert_in_range(ib_psn_diff(r.h[0]->e->qp[r.qp[0].handle]->xp->req.lsn,
				    r.h[1]->e->qp[r.qp[1].handle]->xp->resp.msn), 128, 171);
	assert_int_equal(host_counter(r.h[1], OHCA_CNT_RNR_NAK_TX), 0);
	rig_down(&r);
}

/* An ACK counts the WQEs that are left after the message has used its own. */
static void test_count(void **state)
{
	static const unsigned int posted[] = { 1, 2, 3, 4, 5, 6, 7, 9, 14, 100, 255 };
	struct seen s;
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < sizeof(posted) / sizeof(posted[0]); k++) {
		up(&r, &s, false);
		recvs(&r, posted[k]);
		rig_send(&r, 0, 1, 0, 10);
		rig_run(&r);
		done(&r, 1);
		assert_int_equal(s.code, ib_credit_code(posted[k] - 1));
		/* a response reports them, too */
		s.code = NO_CODE;
		rig_read(&r, 0, 1, 0, 0, 10);
		rig_run(&r);
		done(&r, 1);
		assert_int_equal(s.code, ib_credit_code(posted[k] - 1));
		rig_down(&r);
	}
}

/* WQEs that were posted before the connection count, although no message has used one. */
static void test_init(void **state)
{
	struct seen s = { .code = NO_CODE };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .cold = true, .log_rq = 8 });
	recvs(&r, 16);
	for (unsigned int i = 0; i < 2; i++)
		rig_connect(&r, i, rig_attr(&r, i));
	host_hook_set(r.h[1], 0, see, &s);
	rig_write(&r, 0, 1, 0, 0, 10);
	rig_run(&r);
	done(&r, 1);
	assert_int_equal(s.code, ib_credit_code(16));
	host_hook_set(r.h[0], 0, see, &s);
	rig_send(&r, 0, 1, 0, 3 * MTU);
	ohca_poll(r.h[0]->e, 64);
	assert_int_equal(s.requests, 3);
	rig_run(&r);
	done(&r, 1);
	assert_int_equal(s.code, ib_credit_code(15));
	rig_down(&r);
}

/* WQEs of an SRQ are no credits of a QP: the responder promises none and limits nothing. */
static void test_srq(void **state)
{
	struct seen s;
	struct rig r;

	(void)state;
	up(&r, &s, true);
	recvs(&r, 1);
	rig_send(&r, 0, 1, 0, 10);
	rig_run(&r);
	done(&r, 1);
	assert_int_equal(s.code, IB_AETH_CREDIT_INVALID);
	s.requests = 0;
	for (unsigned int i = 0; i < 5; i++)
		rig_send(&r, 0, 1, 0, 3 * MTU);
	ohca_poll(r.h[0]->e, 1000);
	assert_int_equal(s.requests, 15);
	recvs(&r, 5);
	rig_time(&r, 10);
	done(&r, 5);
	rig_down(&r);
}

/* A responder that counts wrongly only slows its peer. */
static void test_lies(void **state)
{
	static const uint32_t lies[] = { 0xfffff0, 0x7fff00, 0x800100, 20 };
	struct seen s;
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < sizeof(lies) / sizeof(lies[0]); k++) {
		up(&r, &s, false);
		recvs(&r, 60);
		s.lie = lies[k];
		for (unsigned int i = 0; i < 20; i++) {
			rig_send(&r, 0, 1, 0, 3 * MTU);
			write_imm(&r, 1, 3 * MTU);
			rig_write(&r, 0, 1, 0, 0, 3 * MTU);
		}
		rig_run(&r);
		done(&r, 60);
		/* without a timeout */
		assert_int_equal(host_counter(r.h[0], OHCA_CNT_ACK_TIMEOUT), 0);
		rig_down(&r);
	}
}

/* A QP that was reset starts again. */
static void test_reset(void **state)
{
	struct seen s;
	struct rig r;

	(void)state;
	up(&r, &s, false);
	recvs(&r, 10);
	for (unsigned int i = 0; i < 5; i++)
		rig_send(&r, 0, 1, 0, 10);
	rig_run(&r);
	done(&r, 5);
	for (unsigned int i = 0; i < 2; i++) {
		rig_modify(&r.qp[i], OHCA_QPS_RESET);
		memset(host_buf_ptr(r.h[i], &r.qp[i].buf, 0), 0, sizeof(struct ohca_hw_db));
		r.qp[i].sq_pi = r.qp[i].rq_pi = 0;
		rig_connect(&r, i, rig_attr(&r, i));
	}
	s = (struct seen){ .code = NO_CODE };
	recvs(&r, 1);
	for (unsigned int i = 0; i < 5; i++)
		rig_send(&r, 0, 1, 0, 3 * MTU);
	rig_run(&r);
	done(&r, 1);
	assert_int_equal(s.requests, 4);
	recvs(&r, 4);
	rig_time(&r, 10);
	done(&r, 4);
	same_count(&r);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_enough),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_srq),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_reset),
	};

	return cmocka_run_group_tests_name("end-to-end credits", tests, NULL, NULL);
}
