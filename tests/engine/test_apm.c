/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Automatic path migration (IBTA vol 1, 17.2.8): two machines with two ports each. Port 1 of one is
 * joined to port 1 of the other (LIDs 1 and 2), and so are the ports 2 (LIDs 3 and 4). The QPs are
 * connected by port 1 and have port 2 as alternate path.
 */
#include "engine/base/state.h"
#include "rig.h"

enum { MIGRATED = OHCA_MIG_MIGRATED, REARM = OHCA_MIG_REARM, ARMED = OHCA_MIG_ARMED };

/** struct tap - what a port sends: counted, or lost */
struct tap {
	bool cut;
	unsigned int plain, migreq;
};

static enum host_fate tap(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			  uint32_t len)
{
	struct tap *t = arg;

	(void)from;
	(void)port;
	(void)len;
	if ((frame[1] & 3) != IB_LNH_IBA_LOCAL)
		fail_msg("a packet with GRH");
	if (frame[IB_LRH_LEN + 1] & IB_BTH_MIGREQ)
		t->migreq++;
	else
		t->plain++;
	return t->cut ? HOST_DROP : HOST_DELIVER;
}

struct apm {
	struct rig r;
	struct tap tap[2][2];	/* machine, port */
};

static void up(struct apm *m, uint8_t type)
{
	memset(m, 0, sizeof(*m));
	rig_up(&m->r, (struct rig_opt){ .type = type, .two_ports = true });
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int p = 0; p < 2; p++)
			host_hook_set(m->r.h[i], p, tap, &m->tap[i][p]);
}

static void down(struct apm *m)
{
	no_event(m->r.h[0]);
	no_event(m->r.h[1]);
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int p = 0; p < 2; p++)
			host_hook_set(m->r.h[i], p, NULL, NULL);
	rig_down(&m->r);
}

/* Returns an alternate path of side @i through port @port (1 or 2). */
static struct ohca_hw_qp_attr alternate(unsigned int i, unsigned int port)
{
	return (struct ohca_hw_qp_attr){
		.state = OHCA_QPS_RTS,
		.path_mig_state = REARM,
		.alt_timeout = 12,
		.alt_av = { .dlid = (uint16_t)(2 * (port - 1) + 2 - i), .port = (uint8_t)port },
	};
}

static int set_mig(struct apm *m, unsigned int i, uint8_t mig)
{
	struct ohca_hw_qp_attr a = { .path_mig_state = mig };

	return host_qp_modify(&m->r.qp[i], OHCA_ATTR_PATH_MIG_STATE, &a);
}

static void rearm(struct apm *m, unsigned int i, unsigned int port)
{
	struct ohca_hw_qp_attr a = alternate(i, port);

	assert_int_equal(host_qp_modify(&m->r.qp[i], OHCA_ATTR_ALT_PATH |
					OHCA_ATTR_PATH_MIG_STATE, &a), 0);
}

static void is(struct apm *m, unsigned int i, uint8_t mig, uint8_t port)
{
	struct ohca_hw_qp_attr a;

	assert_int_equal(host_qp_query(&m->r.qp[i], &a), 0);
	assert_int_equal(a.path_mig_state, mig);
	assert_int_equal(a.port, port);
}

static void mark(struct apm *m)
{
	memset(m->tap, 0, sizeof(m->tap));
}

static void write_one(struct apm *m, unsigned int i, uint64_t id)
{
	rig_fill(&m->r, i, 0, 5000, (uint32_t)id);
	rig_write(&m->r, i, id, 0, 100000, 5000);
	rig_time(&m->r, 3000);
	wc(&m->r.scq[i], id, WC_SUCCESS);
	rig_check(&m->r, 1 - i, 100000, 5000, (uint32_t)id);
}

/* Rearms both sides; a message makes them armed. */
static void arm(struct apm *m)
{
	rearm(m, 0, 2);
	rearm(m, 1, 2);
	write_one(m, 0, 900);
	is(m, 0, ARMED, 1);
	is(m, 1, ARMED, 1);
	mark(m);
}

static void both_moved(struct apm *m)
{
	for (unsigned int i = 0; i < 2; i++) {
		event(m->r.h[i], OHCA_EVENT_PATH_MIG, m->r.qp[i].handle);
		is(m, i, MIGRATED, 2);
	}
	mark(m);
	write_one(m, 0, 901);
	write_one(m, 1, 902);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(m->tap[i][0].plain + m->tap[i][0].migreq, 0);
		assert_int_equal(m->tap[i][1].plain, 0);
		assert_true(m->tap[i][1].migreq);
	}
}

/* MigReq reports the state of the sender, and one rearmed side alone does not become armed. */
static void test_arming(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	write_one(&m, 0, 1);
	assert_int_equal(m.tap[0][0].plain + m.tap[1][0].plain, 0);
	assert_true(m.tap[0][0].migreq && m.tap[1][0].migreq);
	is(&m, 0, MIGRATED, 1);

	rearm(&m, 0, 2);
	is(&m, 0, REARM, 1);
	mark(&m);
	write_one(&m, 0, 2);
	write_one(&m, 1, 3);
	assert_int_equal(m.tap[0][0].migreq, 0);
	assert_int_equal(m.tap[1][0].plain, 0);
	is(&m, 0, REARM, 1);
	is(&m, 1, MIGRATED, 1);

	rearm(&m, 1, 2);
	is(&m, 1, REARM, 1);
	mark(&m);
	write_one(&m, 0, 4);
	is(&m, 0, ARMED, 1);
	is(&m, 1, ARMED, 1);
	assert_int_equal(m.tap[0][0].migreq + m.tap[1][0].migreq, 0);
	assert_int_equal(m.tap[0][1].plain + m.tap[1][1].plain, 0);
	down(&m);
}

/* QUERY returns the alternate path as loaded; after migration it is the primary one. */
static void test_query(void **state)
{
	struct ohca_hw_qp_attr a, zero = { 0 };
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	rearm(&m, 0, 2);
	assert_int_equal(host_qp_query(&m.r.qp[0], &a), 0);
	assert_int_equal(a.alt_av.dlid, 4);
	assert_int_equal(a.alt_av.port, 2);
	assert_int_equal(a.alt_timeout, 12);
	assert_int_equal(a.av.dlid, 2);
	assert_int_not_equal(a.timeout, 12);
	rearm(&m, 1, 2);
	write_one(&m, 0, 1);
	assert_int_equal(set_mig(&m, 0, MIGRATED), 0);
	assert_int_equal(host_qp_query(&m.r.qp[0], &a), 0);
	assert_int_equal(a.av.dlid, 4);
	assert_int_equal(a.port, 2);
	assert_int_equal(a.timeout, 12);
	assert_memory_equal(&a.alt_av, &zero.alt_av, sizeof(a.alt_av));
	assert_int_equal(a.alt_timeout, 0);
	event(m.r.h[0], OHCA_EVENT_PATH_MIG, m.r.qp[0].handle);
	/* reset clears it */
	rearm(&m, 0, 1);
	rig_modify(&m.r.qp[0], OHCA_QPS_RESET);
	assert_int_equal(host_qp_query(&m.r.qp[0], &a), 0);
	assert_int_equal(a.path_mig_state, MIGRATED);
	assert_memory_equal(&a.alt_av, &zero.alt_av, sizeof(a.alt_av));
	down(&m);
}

static void test_by_driver(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	arm(&m);
	assert_int_equal(set_mig(&m, 1, MIGRATED), 0);
	is(&m, 1, MIGRATED, 2);
	is(&m, 0, ARMED, 1);	/* it has not received that yet */
	write_one(&m, 1, 10);
	both_moved(&m);
	down(&m);
}

/* All retries start again on the new path, also those of RNR NAKs. */
static void test_retries(void **state)
{
	struct ohca_hw_qp_attr a = { .rnr_retry = 1, .state = OHCA_QPS_SQD };
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	rig_modify(&m.r.qp[0], OHCA_QPS_SQD);
	assert_int_equal(host_qp_modify(&m.r.qp[0], OHCA_ATTR_RNR_RETRY, &a), 0);
	rig_modify(&m.r.qp[0], OHCA_QPS_RTS);
	arm(&m);
	rig_send(&m.r, 0, 5, 0, 8);
	rig_run(&m.r);
	/* the only retry is the next one; another RNR NAK arrives */
	assert_int_equal(host_counter(m.r.h[0], OHCA_CNT_RNR_NAK_RX), 1);
	assert_int_equal(set_mig(&m, 0, MIGRATED), 0);
	host_run(m.r.h, 2, 15000);
	assert_int_equal(host_counter(m.r.h[0], OHCA_CNT_RNR_NAK_RX), 2);
	rig_recv(&m.r, 1, 6, 0, 8);
	rig_time(&m.r, 100);
	wc(&m.r.scq[0], 5, WC_SUCCESS);
	wc(&m.r.rcq[1], 6, WC_SUCCESS);
	both_moved(&m);
	down(&m);
}

/* An acknowledgement tells the peer of a driver's migration, too. */
static void test_by_response(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	arm(&m);
	/* the ACK of this one is lost when the responder migrates */
	m.tap[1][0].cut = true;
	rig_fill(&m.r, 0, 0, 5000, 11);
	rig_write(&m.r, 0, 11, 0, 100000, 5000);
	rig_run(&m.r);
	assert_true(m.tap[1][0].plain);
	assert_int_equal(set_mig(&m, 1, MIGRATED), 0);
	rig_send(&m.r, 1, 12, 0, 0);
	rig_recv(&m.r, 0, 13, 200000, 100);
	rig_time(&m.r, 3000);
	wc(&m.r.scq[0], 11, WC_SUCCESS);
	wc(&m.r.rcq[0], 13, WC_SUCCESS);
	wc(&m.r.scq[1], 12, WC_SUCCESS);
	both_moved(&m);
	down(&m);
}

/* Retries are used up: the requester migrates, its peer follows, and nothing is lost. */
static void test_by_device(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	arm(&m);
	m.tap[0][0].cut = true;
	rig_fill(&m.r, 0, 0, 60000, 20);
	rig_fill(&m.r, 1, 200000, 30000, 21);
	rig_write(&m.r, 0, 20, 0, 100000, 60000);
	rig_read(&m.r, 0, 21, 300000, 200000, 30000);
	rig_atomic(&m.r, 0, OHCA_OP_FETCH_ADD, 22, 400000, 400000, 5, 0);
	rig_time(&m.r, 20000);
	wc(&m.r.scq[0], 20, WC_SUCCESS);
	wc(&m.r.scq[0], 21, WC_SUCCESS);
	wc(&m.r.scq[0], 22, WC_SUCCESS);
	rig_check(&m.r, 1, 100000, 60000, 20);
	rig_check(&m.r, 0, 300000, 30000, 21);
	assert_int_equal(rig_get64(&m.r, 1, 400000), 5);
	assert_int_equal(host_counter(m.r.h[0], OHCA_CNT_RETRY_EXCEEDED), 0);
	both_moved(&m);
	down(&m);
}

/* An atomic that was executed before the path failed is not executed twice. */
static void test_atomic_once(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	arm(&m);
	m.tap[1][0].cut = true;
	rig_atomic(&m.r, 0, OHCA_OP_FETCH_ADD, 1, 400000, 400000, 7, 0);
	rig_time(&m.r, 20000);
	wc(&m.r.scq[0], 1, WC_SUCCESS);
	assert_int_equal(rig_get64(&m.r, 1, 400000), 7);
	assert_int_equal(rig_get64(&m.r, 0, 400000), 0);
	both_moved(&m);
	down(&m);
}

/* The cable is pulled while packets wait for credits: they use the other path. */
static void test_link_down(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	arm(&m);
	rig_fill(&m.r, 0, 0, 1u << 20, 30);
	rig_write(&m.r, 0, 30, 0, 1u << 20, 1u << 20);
	for (unsigned int i = 0; i < 5; i++)
		host_step(m.r.h, 2);
	no_wc(&m.r.scq[0]);
	host_cable(m.r.h[0], 0, false);
	rig_time(&m.r, 20000);
	wc(&m.r.scq[0], 30, WC_SUCCESS);
	rig_check(&m.r, 1, 1u << 20, 1u << 20, 30);
	for (unsigned int i = 0; i < 2; i++) {
		struct ohca_hw_eqe e;
		bool err = false, mig = false;

		while (host_eq_poll(m.r.h[i], &m.r.h[i]->async, &e)) {
			err |= e.type == OHCA_EVENT_PORT_ERR && e.port == 1;
			mig |= e.type == OHCA_EVENT_PATH_MIG && e.handle == m.r.qp[i].handle;
		}
		host_eq_db(m.r.h[i], &m.r.h[i]->async, true);
		assert_true(err && mig);
		is(&m, i, MIGRATED, 2);
	}
	down(&m);
}

/* Without a second path that works the error is the old one, and also from REARM. */
static void test_exhausted(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	arm(&m);
	m.tap[0][0].cut = m.tap[0][1].cut = true;
	rig_write(&m.r, 0, 1, 0, 0, 100);
	rig_time(&m.r, 60000);
	wc(&m.r.scq[0], 1, WC_RETRY_EXC);
	event(m.r.h[0], OHCA_EVENT_PATH_MIG, m.r.qp[0].handle);
	is(&m, 0, MIGRATED, 2);
	is(&m, 1, ARMED, 1);
	assert_int_equal(m.tap[0][0].plain, 8);	/* the first and seven retries */
	assert_int_equal(m.tap[0][1].migreq, 8);
	down(&m);

	up(&m, OHCA_QPT_RC);
	rearm(&m, 0, 2);
	m.tap[0][0].cut = true;
	rig_write(&m.r, 0, 1, 0, 0, 100);
	rig_time(&m.r, 60000);
	wc(&m.r.scq[0], 1, WC_RETRY_EXC);
	assert_int_equal(m.tap[0][1].plain + m.tap[0][1].migreq, 0);
	is(&m, 0, REARM, 1);
	down(&m);
}

/* Migration back and forth, many times. */
static void test_again(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	for (unsigned int n = 0; n < 10; n++) {
		unsigned int from = n & 1;

		rearm(&m, 0, 2 - from);
		rearm(&m, 1, 2 - from);
		write_one(&m, n & 1, n);
		m.tap[0][from].cut = m.tap[1][from].cut = true;
		write_one(&m, n >> 1 & 1, 100 + n);
		for (unsigned int i = 0; i < 2; i++) {
			event(m.r.h[i], OHCA_EVENT_PATH_MIG, m.r.qp[i].handle);
			is(&m, i, MIGRATED, (uint8_t)(2 - from));
		}
		mark(&m);
	}
	down(&m);
}

/* A packet that only resembles the peer's migration is dropped, and one event reports it. */
static void test_refused(void **state)
{
	struct ohca_hw_qp_attr a;
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	arm(&m);
	/* the peer uses a path that this side does not expect */
	a = alternate(1, 2);
	a.alt_av.dlid = 99;
	assert_int_equal(host_qp_modify(&m.r.qp[1], OHCA_ATTR_ALT_PATH |
					OHCA_ATTR_PATH_MIG_STATE, &a), 0);
	write_one(&m, 0, 1);
	is(&m, 1, ARMED, 1);
	assert_int_equal(set_mig(&m, 0, MIGRATED), 0);
	event(m.r.h[0], OHCA_EVENT_PATH_MIG, m.r.qp[0].handle);
	rig_write(&m.r, 0, 2, 0, 0, 100);
	rig_time(&m.r, 60000);
	wc(&m.r.scq[0], 2, WC_RETRY_EXC);
	event(m.r.h[1], OHCA_EVENT_PATH_MIG_ERR, m.r.qp[1].handle);
	no_event(m.r.h[1]);
	is(&m, 1, ARMED, 1);
	assert_int_equal(rig_state(&m.r.qp[1]), OHCA_QPS_RTS);
	assert_true(host_counter(m.r.h[1], OHCA_CNT_RX_BAD_QP) >= 8);
	down(&m);
}

/* The P_Key of the alternate path is checked there. */
static void test_pkey(void **state)
{
	struct ohca_hw_qp_attr a;
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	rearm(&m, 0, 2);
	a = alternate(1, 2);
	a.alt_pkey_index = 1;	/* an empty entry */
	assert_int_equal(host_qp_modify(&m.r.qp[1], OHCA_ATTR_ALT_PATH |
					OHCA_ATTR_PATH_MIG_STATE, &a), 0);
	write_one(&m, 0, 1);
	assert_int_equal(set_mig(&m, 0, MIGRATED), 0);
	event(m.r.h[0], OHCA_EVENT_PATH_MIG, m.r.qp[0].handle);
	rig_write(&m.r, 0, 2, 0, 0, 100);
	rig_time(&m.r, 60000);
	wc(&m.r.scq[0], 2, WC_RETRY_EXC);
	event(m.r.h[1], OHCA_EVENT_PATH_MIG_ERR, m.r.qp[1].handle);
	assert_true(host_counter(m.r.h[1], OHCA_CNT_RX_BAD_PKEY) >= 8);
	down(&m);
}

/* After migration a packet on the old path is for no QP. */
static void test_old_path(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	arm(&m);
	assert_int_equal(set_mig(&m, 1, MIGRATED), 0);
	event(m.r.h[1], OHCA_EVENT_PATH_MIG, m.r.qp[1].handle);
	rig_write(&m.r, 0, 1, 0, 0, 100);
	rig_run(&m.r);
	no_wc(&m.r.scq[0]);
	assert_int_equal(host_counter(m.r.h[1], OHCA_CNT_RX_BAD_QP), 1);
	/* its sender detects that and follows */
	rig_time(&m.r, 20000);
	wc(&m.r.scq[0], 1, WC_SUCCESS);
	event(m.r.h[0], OHCA_EVENT_PATH_MIG, m.r.qp[0].handle);
	is(&m, 0, MIGRATED, 2);
	down(&m);
}

static void test_commands(void **state)
{
	struct ohca_hw_qp_attr a = alternate(0, 2);
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	/* there is no path to migrate to */
	assert_int_equal(set_mig(&m, 0, REARM), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(m.r.h[0]->syndrome, 64 + offsetof(struct ohca_hw_qp_attr,
							   path_mig_state));
	assert_int_equal(set_mig(&m, 0, ARMED), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(set_mig(&m, 0, MIGRATED), 0);
	is(&m, 0, MIGRATED, 1);
	/* loaded first, rearmed later; another one while it is rearmed */
	assert_int_equal(host_qp_modify(&m.r.qp[0], OHCA_ATTR_ALT_PATH, &a), 0);
	is(&m, 0, MIGRATED, 1);
	assert_int_equal(set_mig(&m, 0, REARM), 0);
	assert_int_equal(host_qp_modify(&m.r.qp[0], OHCA_ATTR_ALT_PATH, &a), 0);
	assert_int_equal(set_mig(&m, 0, MIGRATED), OHCA_ADMIN_BAD_STATE);
	is(&m, 0, REARM, 1);
	rearm(&m, 1, 2);
	write_one(&m, 0, 1);
	is(&m, 0, ARMED, 1);
	assert_int_equal(host_qp_modify(&m.r.qp[0], OHCA_ATTR_ALT_PATH, &a),
			 OHCA_ADMIN_BAD_STATE);
	is(&m, 0, ARMED, 1);
	/* SQD: stopped, rearmed, continued */
	rig_modify(&m.r.qp[0], OHCA_QPS_SQD);
	a.state = OHCA_QPS_SQD;
	assert_int_equal(host_qp_modify(&m.r.qp[0], OHCA_ATTR_STATE | OHCA_ATTR_ALT_PATH |
					OHCA_ATTR_PATH_MIG_STATE, &a), 0);
	is(&m, 0, REARM, 1);
	rig_modify(&m.r.qp[0], OHCA_QPS_RTS);
	write_one(&m, 0, 2);
	is(&m, 0, ARMED, 1);
	down(&m);
}

/* UC has no retries: the driver migrates it, and the peer follows. */
static void test_uc(void **state)
{
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_UC);
	rearm(&m, 0, 2);
	rearm(&m, 1, 2);
	write_one(&m, 0, 1);
	is(&m, 1, ARMED, 1);
	is(&m, 0, REARM, 1);	/* no packet came back */
	write_one(&m, 1, 2);
	is(&m, 0, ARMED, 1);
	mark(&m);
	assert_int_equal(set_mig(&m, 0, MIGRATED), 0);
	write_one(&m, 0, 3);
	both_moved(&m);
	down(&m);
}

/* MigReq of a datagram has no effect. */
static void test_datagram(void **state)
{
	struct tap t = { 0 };
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ .type = OHCA_QPT_UD });
	host_hook_set(r.h[0], 0, tap, &t);
	rig_recv(&r, 1, 1, 0, 100);
	rig_send(&r, 0, 2, 0, 8);
	rig_run(&r);
	wc(&r.scq[0], 2, WC_SUCCESS);
	wc(&r.rcq[1], 1, WC_SUCCESS);
	assert_int_equal(t.plain, 1);
	assert_int_equal(t.migreq, 0);
	host_hook_set(r.h[0], 0, NULL, NULL);
	rig_down(&r);
}

/* A driver that does not know the feature cannot use it. */
static void test_feature(void **state)
{
	struct ohca_hw_qp_attr a = alternate(0, 2);
	struct apm m;

	(void)state;
	up(&m, OHCA_QPT_RC);
	atomic_fetch_and(&m.r.h[0]->e->features_ack, ~(1ull << OHCA_FEATURE_APM));
	assert_int_equal(host_qp_modify(&m.r.qp[0], OHCA_ATTR_ALT_PATH, &a),
			 OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(m.r.h[0]->syndrome, offsetof(struct ohca_hw_aqe, modify_qp.attr_mask));
	assert_int_equal(set_mig(&m, 0, REARM), OHCA_ADMIN_BAD_PARAM);
	assert_int_equal(set_mig(&m, 0, MIGRATED), 0);
	down(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arming),
		cmocka_unit_test(test_query),
		cmocka_unit_test(test_by_driver),
		cmocka_unit_test(test_retries),
		cmocka_unit_test(test_by_response),
		cmocka_unit_test(test_by_device),
		cmocka_unit_test(test_atomic_once),
		cmocka_unit_test(test_link_down),
		cmocka_unit_test(test_exhausted),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_pkey),
		cmocka_unit_test(test_old_path),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_uc),
		cmocka_unit_test(test_datagram),
		cmocka_unit_test(test_feature),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
