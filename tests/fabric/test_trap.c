// SPDX-License-Identifier: GPL-2.0-or-later
/* Traps of a switch, and ports whose peer detaches, flaps or is replaced. */
#include "query.h"

#include "ib/rate.h"
#include "../link/raw.h"

static bool next_trap(struct ep *e, struct ib_smp *smp, struct ib_notice *n)
{
	while (ep_recv_smp(e, smp)) {
		if (smp->hdr.method != IB_METHOD_TRAP)
			continue;
		ib_notice_unpack(smp->data, n);
		return true;
	}
	return false;
}

static void test_port_death(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_switch_info si;
	struct ib_port_info pi;
	struct ib_smp smp, again, rep;
	struct ib_notice n;
	const uint64_t timeout = ib_time_ns(19);
	uint8_t d[64];

	(void)state;
	/* other ports have another value */
	net_pi(t, 0)->subnet_timeout = 19;
	net_stop_clock(t);
	assert_true(net_send(&t->ep[1], 0, 0, 2, 0xffff, 100, 1));
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_null(net_port(t, 2)->link);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_DOWN);
	assert_int_equal(get(t, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	assert_int_equal(si.port_state_change, 1);
	assert_int_equal(net_ctr(t, 2)->link_downed, 1);
	assert_non_null(strstr(t->log, "port 2: 'node 257' detached: the peer closed"));

	/* Trap 128 was sent to the SM. Many changes within SubnetTimeOut cause one further trap. */
	assert_int_equal(waiting(t, IB_TRAP_LINK_STATE_CHANGE)->sent, 1);
	t->now_ns += timeout / 2;
	for (int i = 0; i < 100; i++)
		net_state_change(t);
	net_pump(t);
	assert_false(next_trap(&t->ep[0], &smp, &n));
	assert_int_equal(net_timers(t), timeout - timeout / 2);
	t->now_ns += timeout;
	net_timers(t);
	net_pump(t);
	assert_true(next_trap(&t->ep[0], &smp, &n));
	assert_int_equal(smp.hdr.mgmt_class, IB_CLASS_SUBN_LID);
	assert_int_equal(n.trap, 128);
	assert_int_equal(n.generic, 1);
	assert_int_equal(n.producer, 2);
	assert_int_equal(n.issuer_lid, 1);
	assert_int_equal(ib_get_be16(n.details), 1);
	/* It is repeated with the same TID until it is repressed. */
	t->now_ns += timeout - 1;
	assert_int_equal(net_timers(t), 1);
	net_pump(t);
	assert_false(next_trap(&t->ep[0], &again, &n));
	t->now_ns += 1;
	net_timers(t);
	net_pump(t);
	assert_true(next_trap(&t->ep[0], &again, &n));
	assert_int_equal(again.hdr.tid, smp.hdr.tid);
	assert_int_equal(get(t, IB_SMP_ATTR_NOTICE, 0, d), 0);
	ib_notice_unpack(d, &n);
	assert_int_equal(n.trap, 128);

	rep = smp;
	rep.hdr.method = IB_METHOD_TRAP_REPRESS;
	assert_true(ep_send_smp(&t->ep[0], &rep, 1));
	net_pump(t);
	assert_null(waiting(t, IB_TRAP_LINK_STATE_CHANGE));
	assert_int_equal(net_timers(t), UINT64_MAX);
	assert_false(ep_recv_smp(&t->ep[0], &again));
	assert_int_equal(get(t, IB_SMP_ATTR_NOTICE, 0, d), 0);
	ib_notice_unpack(d, &n);
	assert_int_equal(n.type, IB_NOTICE_EMPTY);

	/* Without a TrapRepress it ends by itself. */
	net_state_change(t);
	for (int i = 0; i < 100; i++) {
		t->now_ns += timeout;
		net_timers(t);
		net_pump(t);
		while (ep_recv_smp(&t->ep[0], &smp))
			;
	}
	assert_null(waiting(t, IB_TRAP_LINK_STATE_CHANGE));
	net_free(t);
}

/* A trap that is due while the fabric sleeps wakes its receiver. */
static void test_trap_wakes(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct pollfd pf = { .fd = ohca_link_ctrl_fd(t->ep[0].l), .events = POLLIN };
	struct ib_notice n;
	struct ib_smp smp;

	(void)state;
	net_stop_clock(t);
	net_state_change(t);
	t->now_ns += 10 * ib_time_ns(net_pi(t, 0)->subnet_timeout);
	net_pump(t);
	do
		net_pump(t);
	while (next_trap(&t->ep[0], &smp, &n));
	simple_take(t->ep[0].l);
	assert_true(ohca_link_prepare_sleep(t->ep[0].l));
	assert_int_equal(poll(&pf, 1, 0), 0);
	t->now_ns += ib_time_ns(net_pi(t, 0)->subnet_timeout);
	net_timers(t);
	assert_int_equal(poll(&pf, 1, 0), 1);
	assert_true(next_trap(&t->ep[0], &smp, &n));
	net_free(t);
}

/*
 * A node sends bad P_Keys all the time, and the SM represses every trap at once. One trap is sent
 * for each SubnetTimeOut, and other traps are still sent.
 */
static void test_trap_rate(void **state)
{
	struct net *t = net_up(2, 4, 0);
	const uint64_t timeout = ib_time_ns(net_pi(t, 0)->subnet_timeout);
	unsigned int traps = 0, changes = 0;
	uint64_t begin, last = 0;
	struct ib_port_info pi;
	struct ib_notice n;
	struct ib_smp smp;

	(void)state;
	net_stop_clock(t);
	begin = t->now_ns;
	get_pi(t, 2, &pi);
	pi.state = 0;
	pi.phys_state = 0;
	pi.part_enf_in = 1;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	while (t->now_ns - begin < 10 * timeout) {
		for (int i = 0; i < 10; i++)
			assert_true(net_send(&t->ep[1], 0, 0, 2, (uint16_t)(0x8001 + i), 100, 1));
		net_pump(t);
		if (t->now_ns - begin > 5 * timeout && !changes++)
			net_state_change(t);
		net_timers(t);
		net_pump(t);
		while (next_trap(&t->ep[0], &smp, &n)) {
			assert_true(!last || t->now_ns - last >= timeout);
			last = t->now_ns;
			traps++;
			changes += n.trap == IB_TRAP_LINK_STATE_CHANGE ? 1000 : 0;
			smp.hdr.method = IB_METHOD_TRAP_REPRESS;
			assert_true(ep_send_smp(&t->ep[0], &smp, 1));
			net_pump(t);
		}
		t->now_ns += timeout / 64;
	}
	assert_in_range(traps, 9, 10);
	assert_in_range(changes, 1001, 1999);
	assert_true(net_ctr(t, 2)->rcv_constraint_errors > 6000);
	net_free(t);
}

/* The switch does not report changes by the SM to the SM, and does not count them as errors. */
static void test_down_by_sm(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ib_port_info pi;
	struct ib_switch_info si;
	struct ib_notice n;
	struct ib_smp smp;
	uint8_t d[64];

	(void)state;
	while (ep_recv_smp(&t->ep[0], &smp))
		;
	ib_trap_clear(&net_end(t)->traps);
	/* Disabled: the link does not come up again, so nothing else can be the reason. */
	get_pi(t, 2, &pi);
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_DISABLED;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_DOWN);
	assert_int_equal(net_ctr(t, 2)->link_downed, 0);
	assert_int_equal(get(t, IB_SMP_ATTR_SWITCH_INFO, 0, d), 0);
	ib_switch_info_unpack(d, &si);
	assert_int_equal(si.port_state_change, 0);
	assert_null(waiting(t, IB_TRAP_LINK_STATE_CHANGE));
	assert_false(next_trap(&t->ep[0], &smp, &n));
	/* The link trains by itself: Down to Init is reported. */
	pi.state = IB_PS_DOWN;
	pi.phys_state = IB_PHYS_POLLING;
	assert_int_equal(set_pi(t, 2, &pi), 0);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_INIT);
	assert_true(net_switch(t)->si.port_state_change);
	assert_non_null(waiting(t, IB_TRAP_LINK_STATE_CHANGE));
	assert_int_equal(net_ctr(t, 2)->link_downed, 0);
	/* A peer that detaches is reported, too. */
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_pump(t);
	assert_int_equal(net_ctr(t, 2)->link_downed, 1);
	net_free(t);
}

/* A peer's last SMP takes its own port down: the link is freed while the SMP is processed. */
static void test_last_word(void **state)
{
	static const uint8_t path[] = { 1 };
	struct net *t = net_up(2, 4, 0);
	struct ib_port_info pi;
	struct ib_smp smp;
	uint8_t d[64];

	(void)state;
	get_pi(t, 2, &pi);
	pi.state = IB_PS_DOWN;
	pi.phys_state = 0;
	ib_port_info_pack(&pi, d);
	for (int i = 0; i < 3; i++) {
		ep_smp_init(&t->ep[1], &smp, IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, 2, d, 1, path);
		assert_true(ep_send_smp(&t->ep[1], &smp, 0));
	}
	ohca_link_free(t->ep[1].l);
	t->ep[1].l = NULL;
	net_round(t);
	net_round(t);
	assert_null(net_port(t, 2)->link);
	assert_false(net_port(t, 2)->up);
	net_pump(t);
	get_pi(t, 2, &pi);
	assert_int_equal(pi.state, IB_PS_DOWN);
	net_free(t);
}

/*
 * A peer flaps faster than the switch checks. The switch handles its remaining events without a
 * further message.
 */
static void test_flapping_peer(void **state)
{
	struct net *t = net_up(2, 4, 0);
	struct ohca_wire_state m = { .enabled = 1, .width_en = 2, .speed_en = 4 };
	struct ohca_link *l = t->ep[1].l;
	struct ib_port_info pi;
	struct pollfd pf = { .fd = ohca_link_ctrl_fd(net_port(t, 2)->link), .events = POLLIN };

	(void)state;
	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
	for (unsigned int vl = 0; vl < 16; vl++)
		m.fctbs[vl] = (uint16_t)l->tx[vl].fctbs;
	for (unsigned int n = 1; n < 30; n++) {
		ohca_link_train(l, &(struct ohca_link_phy){ .enabled = false });
		net_pump(t);
		assert_false(net_port(t, 2)->up);
		m.ack = net_port(t, 2)->link->seq;
		for (unsigned int i = 0; i < n; i++) {
			m.seq = l->seq + 100 + i;
			assert_int_equal(raw_message(l->sock, &m, sizeof(m)), 0);
		}
		while (poll(&pf, 1, 0) == 1)	/* as the loop polls it */
			assert_true(fab_data_ctrl(t->d, net_index(t, 2)));
		net_round(t);
		net_round(t);
		assert_true(net_port(t, 2)->up);
		while (recv(l->sock, &pi, sizeof(pi), MSG_DONTWAIT) > 0)
			;
		l->seq += 100 + n;
		l->sent_seq = 0;
	}
	net_free(t);
}

/*
 * A peer that causes endless events does not fill the log; the log reports the number of missing
 * ones.
 */
static void test_log_limit(void **state)
{
	struct net *t = net_new(8, 1, 4, 0);

	(void)state;
	net_stop_clock(t);
	t->now_ns += 3600000000000;
	for (int i = 0; i < 10000; i++)
		fab_data_log(t->d, "event");
	assert_null(strstr(t->log, "not reported"));
	assert_int_equal(t->d->log_lost, 9800);
	t->now_ns += 100000000;
	memset(t->log, 0, sizeof(t->log));
	fab_data_log(t->d, "event");
	fab_data_log(t->d, "event");
	assert_string_equal(t->log, "9800 events were not reported\nevent\n");
	t->now_ns += 3600000000000;
	memset(t->log, 0, sizeof(t->log));
	for (int i = 0; i < 200; i++)
		fab_data_log(t->d, "x");
	assert_string_equal(t->log + strlen(t->log) - 4, "x\nx\n");
	assert_int_equal(t->d->log_lost, 0);
	net_free(t);
}

static void test_attach_rules(void **state)
{
	struct net *t = net_new(3, 2, 4, 0);
	struct ohca_link_err err;
	struct ep e;

	(void)state;
	assert_int_equal(t->ep[0].port, 1);
	assert_int_equal(t->ep[1].port, 2);
	/* An SM cannot handle two ports with the same GUID. */
	assert_int_equal(net_attach(t, &e, 0x101, 0, NULL, &err), -1);
	assert_non_null(strstr(err.text, "is attached to switch port 2 already"));
	assert_int_equal(net_attach(t, &e, 0x777, 2, NULL, &err), -1);
	assert_non_null(strstr(err.text, "the place of 'host 2' is taken by 'node 257'"));
	assert_int_equal(net_attach(t, &e, 0x777, 4, NULL, &err), -1);
	assert_non_null(strstr(err.text, "no host is at port 4 of the first switch"));
	/*
	 * A node that restarts gets its port again although others are free, even if its old link
	 * is not yet detected as closed.
	 */
	ohca_link_free(t->ep[0].l);
	t->ep[0].l = NULL;
	assert_int_equal(net_attach(t, &e, 0x888, 0, NULL, &err), 0);
	assert_int_equal(e.port, 3);
	ohca_link_free(e.l);
	assert_int_equal(net_attach(t, &t->ep[0], 0x100, 0, NULL, &err), 0);
	assert_int_equal(t->ep[0].port, 1);
	/* a node can also request a port whose old link is not yet detected as closed */
	ohca_link_free(t->ep[1].l);
	assert_int_equal(net_attach(t, &t->ep[1], 0x777, 2, NULL, &err), 0);
	assert_int_equal(t->ep[1].port, 2);
	assert_int_equal(net_attach(t, &t->ep[2], 0x999, 0, NULL, &err), 0);
	t->n = 3;
	assert_int_equal(net_attach(t, &e, 0xaaa, 0, NULL, &err), -1);
	assert_non_null(strstr(err.text, "all 3 hosts of the fabric are taken"));
	net_free(t);
}

/* A MAD for the switch itself with a wrong P_Key, and one with a wrong Q_Key: traps 257 and 258. */
static void test_bad_keys(void **state)
{
	struct net *t = net_up(1, 4, 0);
	struct ib_mad mad = {
		.hdr = { .base_version = 1, .mgmt_class = IB_CLASS_PERF, .class_version = 1,
			 .method = IB_METHOD_GET },
	};
	struct ib_smp smp;
	struct ib_notice n = { 0 };
	uint8_t pkt[512];

	(void)state;
	net_stop_clock(t);
	assert_true(ep_send_raw(&t->ep[0], 0, pkt, ep_build(pkt, 0, 0, 1, 2, IB_QP1, IB_QKEY_GSI,
							    0x8123, &mad)));
	net_pump(t);
	assert_true(next_trap(&t->ep[0], &smp, &n));
	assert_int_equal(n.trap, IB_TRAP_BAD_PKEY);
	assert_int_equal(n.type, IB_NOTICE_SECURITY);
	assert_int_equal(ib_get_be16(n.details + 2), 2);	/* LIDs, P_Key, QPs */
	assert_int_equal(ib_get_be16(n.details + 4), 1);
	assert_int_equal(ib_get_be32(n.details + 6), 0x8123);
	assert_int_equal(ib_get_be32(n.details + 10), IB_QP1);
	assert_int_equal(ib_get_be32(n.details + 14), IB_QP1);
	assert_true(ep_send_raw(&t->ep[0], 0, pkt, ep_build(pkt, 0, 0, 1, 2, IB_QP1, 0x77, 0xffff,
							    &mad)));
	net_pump(t);
	for (int i = 0; i < 10 && n.trap != IB_TRAP_BAD_QKEY; i++) {
		t->now_ns += 10 * ib_time_ns(net_pi(t, 0)->subnet_timeout);
		net_timers(t);
		net_pump(t);
		next_trap(&t->ep[0], &smp, &n);
	}
	assert_int_equal(n.trap, IB_TRAP_BAD_QKEY);
	assert_int_equal(ib_get_be32(n.details + 6), 0x77);
	assert_int_equal(net_pi(t, 0)->pkey_violations, 1);
	assert_int_equal(net_pi(t, 0)->qkey_violations, 1);
	net_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_port_death),
		cmocka_unit_test(test_bad_keys),
		cmocka_unit_test(test_trap_rate),
		cmocka_unit_test(test_trap_wakes),
		cmocka_unit_test(test_down_by_sm),
		cmocka_unit_test(test_last_word),
		cmocka_unit_test(test_flapping_peer),
		cmocka_unit_test(test_log_limit),
		cmocka_unit_test(test_attach_rules),
	};

	return cmocka_run_group_tests_name("switch traps", tests, NULL, NULL);
}
