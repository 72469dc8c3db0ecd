/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The effect of a request that a responder cannot execute: every fault of IBTA vol 1, 9.9.3, by
 * service and with or without an SRQ. The table is that of the documentation.
 */
#include "ib/packet.h"
#include "rig.h"

enum fault {
	BAD_WQE,	/* the receive WQE has too many SGEs */
	BAD_LKEY,	/* its L_Key is invalid */
	BAD_INDEX,	/* invalid producer index of the receive queue */
	NO_WQE,		/* none is posted in time */
	LOST,		/* the second packet is lost */
	TOO_LONG,	/* the message is longer than the buffer */
	SEQUENCE,	/* a middle packet of another operation */
	LENGTH,		/* a WRITE with fewer bytes than its RETH announces */
	NO_RIGHT,	/* the QP does not allow WRITEs */
	RKEY,		/* of a WRITE */
	RKEY_IMM,	/* of a WRITE with immediate data of one packet */
	RKEY_IMM_LONG,	/* of several packets: the first packet is refused */
	ALIGN,		/* an atomic at an address that is no multiple of 8 */
	RESOURCES,	/* more READs than there are resources for */
	OPCODE,		/* a reserved opcode */
	INV,		/* SEND with Invalidate of a region */
	CQ_FULL,
};

#define NONE	0xff		/* the receive WQE is still posted */
#define FLUSH	WC_WR_FLUSH
#define OK	WC_SUCCESS

/**
 * struct row - a fault and its effect
 * @sender: status of the request; @wqe: of the receive WQE; @event: at the responder, or 0
 *
 * In addition, an SRQ causes LAST_WQE when the QP goes to ERR.
 */
struct row {
	uint8_t type;
	bool srq;
	uint8_t fault;
	uint8_t sender, wqe;
	uint8_t state, event;
};

#define RC OHCA_QPT_RC
#define UC OHCA_QPT_UC
#define UD OHCA_QPT_UD
#define ERR OHCA_QPS_ERR
#define RTS OHCA_QPS_RTS
#define REQ OHCA_EVENT_QP_REQ_ERR
#define ACC OHCA_EVENT_QP_ACCESS_ERR
#define FATAL OHCA_EVENT_QP_FATAL

static const struct row rows[] = {
	/* class A: an error of the responder itself */
	{ RC, false, BAD_WQE,	WC_REM_OP,	WC_LOC_QP_OP,	ERR, 0 },
	{ RC, true,  BAD_WQE,	WC_REM_OP,	WC_LOC_QP_OP,	ERR, 0 },
	{ UC, false, BAD_WQE,	OK,		WC_LOC_QP_OP,	ERR, 0 },
	{ UC, true,  BAD_WQE,	OK,		WC_LOC_QP_OP,	ERR, 0 },
	{ UD, false, BAD_WQE,	OK,		WC_LOC_QP_OP,	ERR, 0 },
	{ UD, true,  BAD_WQE,	OK,		WC_LOC_QP_OP,	ERR, 0 },
	{ RC, false, BAD_LKEY,	WC_REM_OP,	WC_LOC_PROT,	ERR, 0 },
	{ RC, true,  BAD_LKEY,	WC_REM_OP,	WC_LOC_PROT,	ERR, 0 },
	{ UC, false, BAD_LKEY,	OK,		WC_LOC_PROT,	ERR, 0 },
	{ UC, true,  BAD_LKEY,	OK,		WC_LOC_PROT,	ERR, 0 },
	{ UD, false, BAD_LKEY,	OK,		WC_LOC_PROT,	ERR, 0 },
	{ UD, true,  BAD_LKEY,	OK,		WC_LOC_PROT,	ERR, 0 },
	{ RC, false, BAD_INDEX,	WC_REM_OP,	NONE,		ERR, FATAL },
	{ RC, true,  BAD_INDEX,	WC_REM_OP,	NONE,		ERR, FATAL },
	{ UC, false, BAD_INDEX,	OK,		NONE,		ERR, FATAL },
	{ UC, true,  BAD_INDEX,	OK,		NONE,		ERR, FATAL },
	{ UD, false, BAD_INDEX,	OK,		NONE,		ERR, FATAL },
	{ UD, true,  BAD_INDEX,	OK,		NONE,		ERR, FATAL },
	/* class B: the request is sent again */
	{ RC, false, NO_WQE,	OK,		OK,		RTS, 0 },
	{ RC, true,  NO_WQE,	OK,		OK,		RTS, 0 },
	{ RC, false, LOST,	OK,		OK,		RTS, 0 },
	{ RC, true,  LOST,	OK,		OK,		RTS, 0 },
	/* class C: NAK */
	{ RC, false, TOO_LONG,	WC_REM_INV_REQ,	WC_LOC_LEN,	ERR, 0 },
	{ RC, true,  TOO_LONG,	WC_REM_INV_REQ,	WC_LOC_LEN,	ERR, 0 },
	{ RC, false, SEQUENCE,	WC_REM_INV_REQ,	FLUSH,		ERR, REQ },
	{ RC, true,  SEQUENCE,	WC_REM_INV_REQ,	FLUSH,		ERR, REQ },
	{ RC, false, LENGTH,	WC_REM_INV_REQ,	FLUSH,		ERR, REQ },
	{ RC, false, NO_RIGHT,	WC_REM_INV_REQ,	FLUSH,		ERR, REQ },
	{ RC, false, RKEY,	WC_REM_ACCESS,	FLUSH,		ERR, ACC },
	{ RC, true,  RKEY,	WC_REM_ACCESS,	NONE,		ERR, ACC },
	{ RC, false, RKEY_IMM,	WC_REM_ACCESS,	WC_LOC_ACCESS,	ERR, 0 },
	{ RC, true,  RKEY_IMM,	WC_REM_ACCESS,	WC_LOC_ACCESS,	ERR, 0 },
	{ RC, false, RKEY_IMM_LONG, WC_REM_ACCESS, FLUSH,	ERR, ACC },
	{ RC, true,  RKEY_IMM_LONG, WC_REM_ACCESS, NONE,	ERR, ACC },
	{ RC, false, ALIGN,	WC_REM_INV_REQ,	FLUSH,		ERR, REQ },
	{ RC, false, RESOURCES,	WC_REM_INV_REQ,	FLUSH,		ERR, REQ },
	{ RC, false, OPCODE,	WC_REM_INV_REQ,	FLUSH,		ERR, REQ },
	/* class D: the message is lost, the WQE is kept; class E: an SRQ's ends as aborted */
	{ UC, false, NO_WQE,	OK,		NONE,		RTS, 0 },
	{ UC, true,  NO_WQE,	OK,		NONE,		RTS, 0 },
	{ UD, false, NO_WQE,	OK,		NONE,		RTS, 0 },
	{ UD, true,  NO_WQE,	OK,		NONE,		RTS, 0 },
	{ UC, false, LOST,	OK,		NONE,		RTS, 0 },
	{ UC, true,  LOST,	OK,		WC_REM_ABORT,	RTS, 0 },
	{ UC, false, SEQUENCE,	OK,		NONE,		RTS, 0 },
	{ UC, true,  SEQUENCE,	OK,		WC_REM_ABORT,	RTS, 0 },
	{ UC, false, TOO_LONG,	OK,		NONE,		RTS, 0 },
	{ UC, true,  TOO_LONG,	OK,		WC_REM_ABORT,	RTS, 0 },
	{ UD, false, TOO_LONG,	OK,		NONE,		RTS, 0 },
	{ UD, true,  TOO_LONG,	OK,		WC_REM_ABORT,	RTS, 0 },
	{ UC, false, LENGTH,	OK,		NONE,		RTS, 0 },
	{ UC, false, NO_RIGHT,	OK,		NONE,		RTS, 0 },
	{ UC, false, RKEY,	OK,		NONE,		RTS, 0 },
	{ UC, false, RKEY_IMM,	OK,		NONE,		RTS, 0 },
	{ UC, true,  RKEY_IMM,	OK,		NONE,		RTS, 0 },
	/* class G: no CQE can report it */
	{ RC, false, CQ_FULL,	WC_REM_OP,	NONE,		ERR, FATAL },
	{ UC, false, CQ_FULL,	OK,		NONE,		ERR, FATAL },
	{ UD, false, CQ_FULL,	OK,		NONE,		ERR, FATAL },
	/* class J: received and acknowledged, without an effect here */
	{ RC, false, INV,	OK,		WC_REM_INV_REQ,	ERR, 0 },
	{ RC, true,  INV,	OK,		WC_REM_INV_REQ,	ERR, 0 },
};

/* Drops the second packet, or makes it one of another operation. */
struct second {
	unsigned int seen;
	bool drop;
};

static enum host_fate second(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			     uint32_t len)
{
	struct second *s = arg;

	(void)from;
	(void)port;
	(void)len;
	if (s->seen++ != 1)
		return HOST_DELIVER;
	/* SEND middle becomes WRITE middle */
	frame[8] = (frame[8] & IB_TRANS_MASK) | IB_OPN_WRITE_MIDDLE;
	return s->drop ? HOST_DROP : HOST_DELIVER;
}

/* The RETH of a WRITE announces one byte more than there is. */
static enum host_fate longer(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			     uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	(void)len;
	frame[8 + IB_BTH_LEN + 15]++;
	return HOST_DELIVER;
}

static enum host_fate reserved(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			       uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	(void)len;
	frame[8] = IB_TRANS_RC | 0x1f;
	return HOST_DELIVER;
}

static void connect(struct rig *r, enum fault f)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_hw_qp_attr a = rig_attr(r, i);

		if (r->opt.type == UD) {
			host_qp_datagram(&r->qp[i], 0, RIG_QKEY);
			continue;
		}
		if (i == 1 && f == NO_RIGHT)
			a.access = 0;
		if (i == 1 && f == RESOURCES)
			a.max_dest_rd_atomic = 1;
		rig_connect(r, i, a);
	}
}

/* Posts requests with wr_id 1, the last of which has the fault. Return: their number. */
static unsigned int request(struct rig *r, enum fault f)
{
	bool imm = f == RKEY_IMM || f == RKEY_IMM_LONG, write = imm || f == RKEY || f == NO_RIGHT;
	struct wqe w;

	switch (f) {
	case RKEY:
	case RKEY_IMM:
	case RKEY_IMM_LONG:
	case NO_RIGHT:
	case LENGTH:
		w = wqe_new(imm ? OHCA_OP_RDMA_WRITE_IMM : OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 1);
		wqe_raddr(&w, r->mr[1].iova, r->mr[1].key ^ (write && f != NO_RIGHT));
		wqe_sge(&w, r->mr[0].iova, f == RKEY_IMM_LONG ? 3000 : 100, r->mr[0].key);
		break;
	case ALIGN:
		rig_atomic(r, 0, OHCA_OP_FETCH_ADD, 1, 0, 4, 1, 0);
		return 1;
	case RESOURCES:
		rig_read(r, 0, 1, 0, 0, 100000);
		rig_read(r, 0, 1, 0, 0, 100000);
		return 2;
	case INV:
		w = wqe_new(OHCA_OP_SEND_INV, OHCA_WQE_SIGNALED, 1);
		wqe_inv(&w, r->mr[1].key);
		wqe_sge(&w, r->mr[0].iova, 100, r->mr[0].key);
		break;
	default:
		rig_send(r, 0, 1, 0, 3000);
		return 1;
	}
	wqe_post(&r->qp[0], &w);
	return 1;
}

static void receive(struct rig *r, enum fault f)
{
	rig_recv(r, 1, 5, 0, f == TOO_LONG ? 2999 : 4096);
	if (f == BAD_WQE)
		*((uint8_t *)host_buf_ptr(r->h[1], r->opt.srq ? &r->srq[1].buf : &r->qp[1].buf,
					  512 + 8)) = 31;
	if (f == BAD_INDEX) {
		struct ohca_hw_db *db = host_buf_ptr(r->h[1], r->opt.srq ? &r->srq[1].buf :
						     &r->qp[1].buf, OHCA_DB_OFFSET);

		db->rq_pi += r->opt.srq ? 1u << r->srq[1].log : 1u << r->qp[1].log_rq;
	}
}

/* The responder's receive CQ has one entry, which is used. */
static void full(struct rig *r, struct host_qp *old, struct host_cq *cq)
{
	struct host_qp_init in = { .type = r->opt.type, .scq = &r->scq[1], .rcq = cq };
	struct ohca_hw_sge s = host_sge(r->mr[1].iova, 4096, r->mr[1].key);

	*old = r->qp[1];
	host_cq_create(r->h[1], cq, 0, 0);
	assert_int_equal(host_qp_create(r->h[1], &r->qp[1], &in), 0);
	connect(r, CQ_FULL);
	host_post_recv(&r->qp[1], 4, &s, 1);
	rig_send(r, 0, 0, 0, 10);
	rig_run(r);
	wc(&r->scq[0], 0, WC_SUCCESS);
}

/** struct naks - the NAKs of a responder that refuses */
struct naks {
	unsigned int num, after;	/* NAKs, and packets after the first of them */
	uint32_t msn;			/* of the last */
};

static enum host_fate listen(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			     uint32_t len)
{
	struct naks *n = arg;
	const struct ib_aeth *aeth;
	struct ib_pkt_info i;

	(void)from;
	(void)port;
	assert_int_equal(ib_hdr_parse(frame, len, len, 0, &i), 0);
	aeth = ib_pkt_aeth(frame, &i);
	n->after += n->num > 0;
	if (aeth && IB_AETH_KIND(ib_aeth_syndrome(aeth)) == IB_AETH_NAK &&
	    IB_AETH_VALUE(ib_aeth_syndrome(aeth)) != IB_NAK_PSN_SEQ) {
		n->num++;
		n->msn = ib_aeth_msn(aeth);
	}
	return HOST_DELIVER;
}

static void check(const struct row *row)
{
	enum fault f = row->fault;
	struct second s = { .drop = f == LOST };
	bool pd = f == BAD_LKEY;
	struct naks naks = { 0 };
	struct host_qp old;
	struct host_cq cq;
	struct ohca_hw_cqe c;
	unsigned int n;
	struct rig r;

	rig_up(&r, (struct rig_opt){ .type = row->type, .srq = row->srq, .cold = true });
	if (f == CQ_FULL)
		full(&r, &old, &cq);
	else
		connect(&r, f);
	r.mr[1].key ^= pd;
	if (f != NO_WQE)
		receive(&r, f);
	r.mr[1].key ^= pd;
	if (f == LOST || f == SEQUENCE)
		host_hook_set(r.h[0], 0, second, &s);
	if (f == LENGTH)
		host_hook_set(r.h[0], 0, longer, NULL);
	if (f == OPCODE)
		host_hook_set(r.h[0], 0, reserved, NULL);
	host_hook_set(r.h[1], 0, listen, &naks);
	n = request(&r, f);
	rig_run(&r);
	if (f == NO_WQE)
		receive(&r, f);
	rig_time(&r, 100);
	while (--n)
		wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.scq[0], 1, row->sender);
	/* one NAK, as the last packet, which counts the messages that were executed before */
	if (row->sender == WC_REM_INV_REQ || row->sender == WC_REM_ACCESS ||
	    row->sender == WC_REM_OP) {
		assert_int_equal(naks.num, 1);
		assert_int_equal(naks.after, 0);
		assert_int_equal(naks.msn, f == CQ_FULL || f == RESOURCES);
	} else {
		assert_int_equal(naks.num, 0);
	}
	host_hook_set(r.h[1], 0, NULL, NULL);
	if (f == CQ_FULL) {
		event(r.h[1], OHCA_EVENT_CQ_ERR, cq.cqn);
		wc(&cq, 4, WC_SUCCESS);
	}
	if (row->srq && f == BAD_INDEX)
		event(r.h[1], OHCA_EVENT_SRQ_ERR, r.srq[1].srqn);
	if (row->event)
		event(r.h[1], row->event, r.qp[1].handle);
	if (row->srq && row->state == ERR)
		event(r.h[1], OHCA_EVENT_LAST_WQE, r.qp[1].handle);
	no_event(r.h[1]);
	if (row->wqe != NONE)
		wc(&r.rcq[1], 5, row->wqe);
	no_wc(&r.rcq[1]);
	assert_int_equal(rig_state(&r.qp[1]), row->state);
	/* a WQE that was kept serves the next message */
	host_hook_set(r.h[0], 0, NULL, NULL);
	if (row->wqe == NONE && row->state == RTS) {
		rig_send(&r, 0, 6, 0, 100);
		rig_run(&r);
		wc(&r.scq[0], 6, WC_SUCCESS);
		assert_int_equal(wc(&r.rcq[1], 5, WC_SUCCESS).byte_len,
				 row->type == UD ? 140 : 100);
	}
	while (host_cq_poll(&r.scq[0], &c))
		;
	if (f == CQ_FULL) {
		host_qp_destroy(&old);
		host_qp_destroy(&r.qp[1]);
		host_cq_destroy(&cq);
		assert_int_equal(host_qp_create(r.h[1], &r.qp[1], &(struct host_qp_init){
				 .type = row->type, .scq = &r.scq[1], .rcq = &r.rcq[1] }), 0);
	}
	rig_down(&r);
}

static void test_classes(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(&rows[i]);
}

/*
 * SEND with Invalidate of a key that it cannot invalidate: no key, a window of type 1, a window of
 * others.
 */
static void test_invalidate(void **state)
{
	(void)state;
	for (unsigned int k = 0; k < 5; k++) {
		struct ohca_hw_aqe reg = HOST_AQE(reg_mr, .type = OHCA_MR_MW2);
		struct ohca_hw_wqe_reg bind = { .length = 4096, .access = OHCA_ACCESS_REMOTE_WRITE };
		struct host_qp_init in = { 0 };
		struct ohca_hw_acqe rsp;
		struct host_qp other = { 0 };
		struct rig r;
		struct wqe w;
		uint32_t key;

		rig_up(&r, (struct rig_opt){ 0 });
		reg.reg_mr.pdn = k == 3 ? host_pd(r.h[1], 0) : r.h[1]->pdn;
		if (k == 1)
			reg.reg_mr.type = OHCA_MR_MW1;
		assert_int_equal(host_cmd(r.h[1], OHCA_CMD_REG_MR, &reg, &rsp), 0);
		key = k == 0 ? 0x777700 : rsp.handle.handle;
		bind.mr_key = r.mr[1].key;
		bind.iova = r.mr[1].iova;
		in.scq = &r.scq[1];
		in.rcq = &r.rcq[1];
		if (k == 2) {
			assert_int_equal(host_qp_create(r.h[1], &other, &in), 0);
			host_qp_connect(&other, 0, 1, 77, 3, 0, 0);
		}
		if (k == 1 || k == 2 || k == 4) {
			bind.key = key = (key & ~0xffu) | (uint8_t)(key + 1);
			w = wqe_new(OHCA_OP_BIND_MW, OHCA_WQE_SIGNALED, 9);
			memcpy(w.b + 16, &bind, sizeof(bind));
			w.nseg = 4;
			wqe_post(k == 2 ? &other : &r.qp[1], &w);
			rig_run(&r);
			wc(&r.scq[1], 9, WC_SUCCESS);
		}
		/* READs before it are still answered */
		rig_read(&r, 0, 8, 0, 0, 50000);
		rig_recv(&r, 1, 5, 0, 100);
		w = wqe_new(OHCA_OP_SEND_INV, OHCA_WQE_SIGNALED, 1);
		wqe_inv(&w, key);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		wc(&r.scq[0], 8, WC_SUCCESS);
		wc(&r.scq[0], 1, WC_SUCCESS);
		/* the last one is allowed */
		wc(&r.rcq[1], 5, k == 4 ? WC_SUCCESS : WC_REM_INV_REQ);
		assert_int_equal(rig_state(&r.qp[1]), k == 4 ? RTS : ERR);
		assert_int_equal(rig_state(&r.qp[0]), RTS);
		no_event(r.h[1]);
		if (k == 2)
			host_qp_destroy(&other);
		rig_down(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_invalidate),
	};

	return cmocka_run_group_tests_name("responder", tests, NULL, NULL);
}
