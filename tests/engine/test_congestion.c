/* SPDX-License-Identifier: GPL-2.0-or-later */
/* FECN is answered, BECN slows a sender: single QPs and several (IBTA volume 1, annex A10). */
#include <stdlib.h>

#include "engine/base/state.h"
#include "engine/object/qp.h"
#include "engine/transport/ack.h"
#include "engine/transport/congestion.h"
#include "engine/transport/sched.h"
#include "engine/transport/to_agents.h"
#include "engine/transport/tx.h"
#include "ib/cc_agent.h"
#include "ib/field.h"
#include "ib/mad.h"
#include "ib/packet.h"
#include "ib/pma.h"
#include "rig.h"

#define MTU	512u	/* of make() below */
#define QPS	4u

/** struct net - actions and counts of a cable */
struct net {
	bool mark, becn;		/* sets FECN, or BECN, except in CNPs */
	bool responses;			/* in responses instead of requests */
	unsigned int cnps, others;
	uint32_t dqpn;			/* of the last CNP */
	uint16_t dlid;
	bool bad;			/* a CNP is malformed */
};

static enum host_fate cable(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			    uint32_t len)
{
	struct net *n = arg;
	struct ib_pkt_info i;

	(void)from;
	(void)port;
	assert_int_equal(ib_hdr_parse(frame, len, len, 0, &i), 0);
	if (i.opcode == IB_OP_CNP) {
		const uint8_t *data = frame + i.hdr_len;

		n->cnps++;
		n->dqpn = i.dqpn;
		n->dlid = i.dlid;
		n->bad |= !i.becn || i.fecn || i.payload_len != IB_CNP_DATA_LEN || i.ackreq;
		for (unsigned int k = 0; k < IB_CNP_DATA_LEN; k++)
			n->bad |= data[k];
		return HOST_DELIVER;
	}
	n->others++;
	if (!(i.op->flags & IB_OPF_RESPONSE) == n->responses)
		return HOST_DELIVER;
	if (n->mark)
		ib_set_fecn(frame + i.bth_off);
	if (n->becn)
		ib_set_becn(frame + i.bth_off);
	return HOST_DELIVER;
}

static void up(struct rig *r, struct net *n, uint8_t type)
{
	rig_up(r, (struct rig_opt){ .type = type, .log_sq = 8, .log_rq = 8 });
	*n = (struct net){ 0 };
	for (unsigned int i = 0; i < 2; i++)
		host_hook_set(r->h[i], 0, cable, n);
}

static uint64_t counted(struct host *h, bool fecn, unsigned int sl)
{
	const struct ohca_port_counters *c = &h->e->port[0].cnt;

	assert_true((fecn ? c->rcv_fecn : c->rcv_becn) ==
		    (fecn ? c->rcv_fecn_sl[sl] : c->rcv_becn_sl[sl]));
	return fecn ? c->rcv_fecn : c->rcv_becn;
}

static struct ib_mad request(uint8_t method, uint16_t attr, uint32_t mod)
{
	struct ib_mad m = { 0 };

	m.hdr.base_version = IB_MAD_BASE_VERSION;
	m.hdr.mgmt_class = IB_CLASS_CC;
	m.hdr.class_version = IB_CC_CLASS_VERSION;
	m.hdr.method = method;
	m.hdr.attr_id = ib_to_be16(attr);
	m.hdr.attr_mod = ib_to_be32(mod);
	return m;
}

/*
 * Entry n of the table has multiplier @step * n. Each BECN adds 1, and the timer removes none for a
 * while.
 */
static void settings(struct host *h, uint16_t port_control, unsigned int step)
{
	struct ib_cc_ca ca = { .port_control = port_control };

	ca.ccti_limit = step ? IB_CCT_ENTRIES - 1 : 0;
	for (unsigned int i = 0; i < IB_CCT_ENTRIES; i++)
		ca.cct[i] = IB_CCT_ENTRY(2, step * i);
	for (unsigned int sl = 0; sl < IB_CC_SLS; sl++)
		ca.sl[sl] = (struct ib_cc_sl){ .ccti_timer = 65535, .ccti_increase = 1 };
	host_congestion(h, 0, &ca);
}

/*
 * The receiver of a marked packet sends a CNP to its sender: for requests and responses, RC and UC.
 */
static void test_fecn(void **state)
{
	static const uint8_t type[] = { OHCA_QPT_RC, OHCA_QPT_UC };
	struct net n;
	struct rig r;

	(void)state;
	for (unsigned int k = 0; k < 2; k++) {
		up(&r, &n, type[k]);
		rig_write(&r, 0, 1, 0, 0, 100);
		rig_run(&r);
		assert_int_equal(n.cnps, 0);
		n.mark = true;
		rig_write(&r, 0, 2, 0, 0, 100);
		rig_run(&r);
		wc(&r.scq[0], 1, WC_SUCCESS);
		wc(&r.scq[0], 2, WC_SUCCESS);
		assert_int_equal(n.cnps, 1);
		assert_int_equal(n.dqpn, r.qp[0].qpn);
		assert_false(n.bad);
		assert_int_equal(counted(r.h[1], true, 0), 1);
		assert_int_equal(counted(r.h[0], false, 0), 1);
		assert_int_equal(counted(r.h[0], true, 0), 0);
		rig_down(&r);
	}
	/* READ responses: the responder gets one CNP for all that arrived at once */
	up(&r, &n, OHCA_QPT_RC);
	n.mark = n.responses = true;
	rig_read(&r, 0, 1, 0, 0, 8 * 1024);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(n.dqpn, r.qp[1].qpn);
	assert_int_equal(counted(r.h[0], true, 0), 8);
	assert_in_range(n.cnps, 1, 8);
	assert_int_equal(counted(r.h[1], false, 0), n.cnps);
	rig_down(&r);
}

/* Datagrams: the CNP is for the QP of the DETH, except QP1. */
static void test_datagrams(void **state)
{
	struct net n;
	struct rig r;
	struct wqe w;

	(void)state;
	up(&r, &n, OHCA_QPT_UD);
	n.mark = true;
	rig_recv(&r, 1, 7, 0, 1024);
	w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 1);
	wqe_av(&w, 2, r.qp[1].qpn, RIG_QKEY);
	wqe_sge(&w, r.mr[0].iova, 100, r.mr[0].key);
	wqe_post(&r.qp[0], &w);
	rig_run(&r);
	wc(&r.scq[0], 1, WC_SUCCESS);
	wc(&r.rcq[1], 7, WC_SUCCESS);
	assert_int_equal(n.cnps, 1);
	assert_int_equal(n.dqpn, r.qp[0].qpn);
	assert_int_equal(n.dlid, 1);
	assert_false(n.bad);
	assert_int_equal(counted(r.h[0], false, 0), 1);
	rig_down(&r);
}

/* A CNP that is not from the peer, has no BECN or another P_Key, is dropped. */
static void test_bad(void **state)
{
	uint8_t f[IB_LRH_LEN + IB_BTH_LEN + IB_CNP_DATA_LEN + IB_ICRC_LEN];
	struct net n;
	struct rig r;

	(void)state;
	up(&r, &n, OHCA_QPT_RC);
	for (unsigned int k = 0; k < 5; k++) {
		struct ohca_frame frame = { .data = f, .len = sizeof(f) };
		uint8_t *b;

		memset(f, 0, sizeof(f));
		b = ib_build_lrh(f, 0, 0, IB_LNH_IBA_LOCAL, 1, sizeof(f) / 4, k == 1 ? 3 : 2);
		ib_build_bth(b, IB_OP_CNP, 0, 0, k == 2 ? 0x1234 : IB_DEFAULT_PKEY,
			     k == 3 ? 0xabcdef : r.qp[0].qpn, false, 0);
		if (k != 4)
			ib_set_becn(b);
		ohca_rx(r.h[0]->e, 0, &frame);
		assert_int_equal(counted(r.h[0], false, 0), 1);
	}
	rig_down(&r);
}

/* ---- delays --------------------------------------------------------------------- */

struct crowd {
	struct rig r;
	struct net n;
	struct host_qp qp[2][QPS];
};

static void crowd_up(struct crowd *c)
{
	up(&c->r, &c->n, OHCA_QPT_RC);
	for (unsigned int k = 0; k < QPS; k++) {
		for (unsigned int i = 0; i < 2; i++) {
			struct host_qp_init in = { .log_sq = 5, .log_rq = 3,
						   .scq = &c->r.scq[i], .rcq = &c->r.rcq[i] };

			assert_int_equal(host_qp_create(c->r.h[i], &c->qp[i][k], &in), 0);
		}
		for (unsigned int i = 0; i < 2; i++)
			host_qp_connect(&c->qp[i][k], 0, (uint16_t)(2 - i), c->qp[1 - i][k].qpn,
					2, k, k);
	}
}

static void crowd_down(struct crowd *c)
{
	for (unsigned int k = 0; k < QPS; k++)
		for (unsigned int i = 0; i < 2; i++)
			host_qp_destroy(&c->qp[i][k]);
	rig_down(&c->r);
}

/* A QP writes 256 KiB. */
static void post(struct crowd *c, unsigned int k)
{
	struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, k);

	wqe_raddr(&w, c->r.mr[1].iova, c->r.mr[1].key);
	wqe_sge(&w, c->r.mr[0].iova, 256 << 10, c->r.mr[0].key);
	wqe_post(&c->qp[0][k], &w);
}

/* Time that @qps QPs take for 256 KiB each, in ns. */
static uint64_t takes(struct crowd *c, unsigned int qps)
{
	const uint64_t begin = *c->r.h[0]->now;
	unsigned int done = 0;
	struct ohca_hw_cqe e;

	for (unsigned int k = 0; k < qps; k++)
		post(c, k);
	for (unsigned int i = 0; done < qps; i++) {
		assert_true(i < 1000000);
		host_run(c->r.h, 2, 1000);
		while (host_cq_poll(&c->r.scq[0], &e)) {
			assert_int_equal(e.status, 0);
			done++;
		}
	}
	return *c->r.h[0]->now - begin;
}

/* @n packets with BECN arrive for the first QP. */
static void tell(struct crowd *c, unsigned int n)
{
	while (n--) {
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, 9);
		struct ohca_hw_cqe e;

		c->n.mark = true;
		wqe_raddr(&w, c->r.mr[1].iova, c->r.mr[1].key);
		wqe_sge(&w, c->r.mr[0].iova, 8, c->r.mr[0].key);
		wqe_post(&c->qp[0][0], &w);
		for (unsigned int i = 0; !host_cq_poll(&c->r.scq[0], &e); i++) {
			assert_true(i < 1000);
			host_run(c->r.h, 2, 1000);
		}
		c->n.mark = false;
		host_run(c->r.h, 2, 1000);
	}
	host_run(c->r.h, 2, 1000000);
}

/* Return: ns for 256 KiB in packets of MTU with the entry of @ccti. */
static uint64_t expected(unsigned int ccti)
{
	const uint64_t pkts = (256 << 10) / MTU, bytes = (256 << 10) + pkts * 26;

	return bytes * 80 * (4 + ccti) / 4 / 1000;
}

/* One QP is as slow as the table demands; without settings it has its full speed. */
static void test_delay(void **state)
{
	struct crowd *c = malloc(sizeof(*c));
	struct ohca_hw_cqe e;
	uint64_t t;

	(void)state;
	crowd_up(c);
	assert_int_equal(c->r.h[0]->e->port[0].mbps, 100000);
	tell(c, 40);
	assert_int_equal(counted(c->r.h[0], false, 0), 40);
	assert_in_range(takes(c, 1), 0, 20000);
	settings(c->r.h[0], 0, 4);
	assert_in_range(takes(c, 1), 0, 20000);
	tell(c, 40);
	t = expected(160);
	assert_in_range(takes(c, 1), t - OHCA_PACE_NS - 20000, t + 20000);
	/* a table of zeros ends the delay, also of a QP that waits */
	settings(c->r.h[0], 0, 120);
	post(c, 0);
	host_run(c->r.h, 2, 1000000);
	assert_int_equal(c->r.h[0]->e->sched->paced.num, 1);
	settings(c->r.h[0], 0, 0);
	host_run(c->r.h, 2, 1000);
	assert_int_equal(c->r.h[0]->e->sched->paced.num, 0);
	assert_true(host_cq_poll(&c->r.scq[0], &e));
	assert_in_range(takes(c, 1), 0, 20000);
	crowd_down(c);
	free(c);
}

/* A QP that waits by one table stops waiting when a manager sets another table. */
static void test_milder(void **state)
{
	struct crowd *c = malloc(sizeof(*c));
	uint64_t frames;

	(void)state;
	crowd_up(c);
	settings(c->r.h[0], 0, 120);
	tell(c, 40);
	/* so that a packet delays the next one by 50 ms */
	c->r.h[0]->e->cfg.rate_scale = 1000;
	post(c, 0);
	host_run(c->r.h, 2, 1000);
	assert_int_equal(c->r.h[0]->e->sched->paced.num, 1);
	frames = c->r.h[0]->port[0].frames;
	host_run(c->r.h, 2, HOST_MS);
	assert_int_equal(c->r.h[0]->port[0].frames, frames);
	settings(c->r.h[0], 0, 1);
	host_run(c->r.h, 2, HOST_MS);
	assert_true(c->r.h[0]->port[0].frames > frames);
	crowd_down(c);
	free(c);
}

/* By QP, other QPs are not slower; by service level, all of them share the rate of one. */
static void test_others(void **state)
{
	struct crowd *c = malloc(sizeof(*c));
	uint64_t one = expected(160), t;

	(void)state;
	crowd_up(c);
	settings(c->r.h[0], 0, 4);
	tell(c, 40);
	t = takes(c, QPS);
	assert_in_range(t, one - OHCA_PACE_NS - 20000, one + 20000);
	crowd_down(c);

	crowd_up(c);
	settings(c->r.h[0], 1, 4);
	tell(c, 40);
	t = takes(c, QPS);
	assert_in_range(t, QPS * one - OHCA_PACE_NS - 20000, QPS * one + 40000);
	crowd_down(c);
	free(c);
}

/* SMPs of a manager's QP0 are not delayed, and do not delay others. */
static void test_management(void **state)
{
	struct crowd *c = malloc(sizeof(*c));
	struct host_qp_init in = { .type = OHCA_QPT_SMI, .special = true, .port = 1,
				   .flags = OHCA_QP_PRIVILEGED };
	const struct ib_mad mad = { .hdr = {
		.base_version = 1, .mgmt_class = IB_CLASS_SUBN_LID, .class_version = 1,
		.method = IB_METHOD_GET, .attr_id = ib_to_be16(0x11),
	} };
	struct host_qp smi;
	uint64_t paced;

	(void)state;
	crowd_up(c);
	in.scq = &c->r.scq[0];
	in.rcq = &c->r.rcq[0];
	assert_int_equal(host_qp_create(c->r.h[0], &smi, &in), 0);
	host_qp_datagram(&smi, 0, 0);
	host_buf_write(c->r.h[0], &c->r.mr[0].buf, 0, &mad, sizeof(mad));
	settings(c->r.h[0], 1, 120);
	tell(c, 40);
	takes(c, 1);
	paced = c->r.h[0]->e->sched->congestion[0].paced[0];
	for (unsigned int i = 0; i < 4; i++) {
		struct wqe w = wqe_new(OHCA_OP_SEND, OHCA_WQE_SIGNALED, 100 + i);

		wqe_av(&w, 2, 0, 0);
		wqe_sge(&w, c->r.mr[0].iova, sizeof(mad), c->r.mr[0].key);
		wqe_post(&smi, &w);
	}
	host_run(c->r.h, 2, 1000);
	for (unsigned int i = 0; i < 4; i++)
		wc(&c->r.scq[0], 100 + i, WC_SUCCESS);
	assert_int_equal(c->r.h[0]->e->sched->congestion[0].paced[0], paced);
	host_qp_destroy(&smi);
	crowd_down(c);
	free(c);
}

/* QPs that are idle, or made anew for each packet, leave a debt of one packet at most. */
static void test_debt(void **state)
{
	struct crowd *c = malloc(sizeof(*c));
	struct ohca_tx tx = { .len = MTU + 26 };
	const uint64_t packet_ns = (MTU + 28) * 80 / 1000;
	ohca_engine *e;

	(void)state;
	crowd_up(c);
	settings(c->r.h[0], 1, 4);
	tell(c, 40);
	e = c->r.h[0]->e;
	for (unsigned int i = 0; i < 1000; i++) {
		struct ohca_xport *xp = e->qp[c->qp[0][1].handle]->xp;

		xp->sched.paced = 0;
		ohca_congestion_sent(e, xp, &tx, 0);
	}
	assert_in_range(e->sched->congestion[0].paced[0], e->sched->now + 40 * packet_ns,
			e->sched->now + 42 * packet_ns);
	crowd_down(c);
	free(c);
}

/*
 * A table whose first entry delays takes effect without a BECN, also for messages of several
 * packets.
 */
static void test_first_entry(void **state)
{
	struct ib_cc_ca ca = { .cct = { IB_CCT_ENTRY(0, 120) } };
	struct crowd *c = malloc(sizeof(*c));
	uint64_t t = expected(480);

	(void)state;
	crowd_up(c);
	host_congestion(c->r.h[0], 0, &ca);
	assert_true(ohca_congestion_slow(c->r.h[0]->e, c->r.h[0]->e->qp[c->qp[0][0].handle]->xp, 0, 0));
	assert_in_range(takes(c, 1), t - OHCA_PACE_NS - 20000, t + 20000);
	crowd_down(c);
	free(c);
}

/* A CNP does not arm a QP that has loaded an alternate path while its peer has none. */
static void test_rearm(void **state)
{
	struct ohca_hw_qp_attr a = {
		.state = OHCA_QPS_RTS, .path_mig_state = OHCA_MIG_REARM, .alt_timeout = 12,
		.alt_av = { .dlid = 4, .port = 2 },
	};
	struct net n = { .mark = true };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_RC, .two_ports = true });
	for (unsigned int i = 0; i < 2; i++)
		host_hook_set(r.h[i], 0, cable, &n);
	assert_int_equal(host_qp_modify(&r.qp[0], OHCA_ATTR_ALT_PATH | OHCA_ATTR_PATH_MIG_STATE,
					&a), 0);
	for (unsigned int i = 0; i < 3; i++)
		rig_write(&r, 0, 1 + i, 0, 0, 100);
	rig_time(&r, 100);
	for (unsigned int i = 0; i < 3; i++)
		wc(&r.scq[0], 1 + i, WC_SUCCESS);
	assert_true(n.cnps > 0);
	host_qp_query(&r.qp[0], &a);
	assert_int_equal(a.path_mig_state, OHCA_MIG_REARM);
	rig_down(&r);
}

/* CNPs leave half of the queue to acknowledgements, and at most one is queued for a QP. */
static void test_queue(void **state)
{
	struct ohca_path path = { .kind = OHCA_TX_WIRE, .hdr_len = IB_LRH_LEN };
	struct ohca_lateq *q;
	struct net n;
	struct rig r;

	(void)state;
	up(&r, &n, OHCA_QPT_RC);
	q = &r.h[0]->e->sched->late[0];
	for (unsigned int i = 0; i < 3 * OHCA_LATE_ACKS; i++) {
		ohca_congestion_fecn(r.h[0]->e, &path, 100 + i / 2, 3);
		assert_int_equal(q->head - q->tail, i / 2 < OHCA_LATE_ACKS / 2 ?
						    i / 2 + 1 : OHCA_LATE_ACKS / 2);
	}
	assert_int_equal(counted(r.h[0], true, 3), 3 * OHCA_LATE_ACKS);
	q->tail = q->head;
	rig_down(&r);
}

/* The agent of a port answers, but not to a wrong CC_Key; a reset removes the settings. */
static void test_agent(void **state)
{
	struct ib_mad m = request(IB_METHOD_GET, IB_CC_ATTR_CA_SETTING, 0);
	struct host *h;
	struct net n;
	struct rig r;

	(void)state;
	up(&r, &n, OHCA_QPT_RC);
	settings(r.h[0], 1, 3);
	assert_true(r.h[0]->e->sched->congestion[0].on);
	assert_int_equal(host_mad_ifc(r.h[0], 0, (uint8_t *)&m), OHCA_MAD_REPLY);
	assert_int_equal(ib_get_be16((uint8_t *)&m + IB_CC_DATA_OFF), 1);
	m = request(IB_METHOD_SET, IB_CC_ATTR_SWITCH_SETTING, 0);
	assert_int_equal(host_mad_ifc(r.h[0], 0, (uint8_t *)&m), OHCA_MAD_REPLY);
	assert_int_not_equal(ib_be16(m.hdr.status), 0);
	m = request(IB_METHOD_SET, IB_CC_ATTR_KEY_INFO, 0);
	ib_put_be64((uint8_t *)&m + IB_CC_DATA_OFF, 5);
	assert_int_equal(host_mad_ifc(r.h[0], 0, (uint8_t *)&m), OHCA_MAD_REPLY);
	m = request(IB_METHOD_GET, IB_CC_ATTR_CA_SETTING, 0);
	assert_int_equal(host_mad_ifc(r.h[0], 0, (uint8_t *)&m), OHCA_MAD_CONSUMED);
	/* a response is for software */
	m = request(IB_METHOD_GET_RESP, IB_CC_ATTR_CA_SETTING, 0);
	assert_int_equal(host_mad_ifc(r.h[0], 0, (uint8_t *)&m), OHCA_MAD_UNHANDLED);
	rig_down(&r);

	/* a host without other objects, whose reset has nothing to destroy */
	h = host_new(1, 0x10);
	host_start(h);
	settings(h, 1, 3);
	assert_true(h->e->sched->congestion[0].on);
	ohca_reset(h->e);
	assert_false(h->e->sched->congestion[0].on);
	assert_int_equal(ohca_mad_congestion(h->e, 0)->ccti_limit, 0);
	host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fecn),
		cmocka_unit_test(test_datagrams),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_delay),
		cmocka_unit_test(test_milder),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_management),
		cmocka_unit_test(test_debt),
		cmocka_unit_test(test_first_entry),
		cmocka_unit_test(test_rearm),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
